"""One row an operation: how to draw a call of it, and what it means on arrays.

``ROWS[name](draw)`` returns a ``gradients.Case``. The row of an operation stands in the file
here that is called as its file in ``minitorch/operations``, or in ``compat``.
"""

from rows import (  # noqa: F401  (each registers its rows)
    attention,
    compat,
    creation,
    einsum,
    elementwise,
    indexing,
    logic,
    neural,
    products,
    recurrent,
    reductions,
    shapes,
)
from rows.table import ROWS  # noqa: F401
