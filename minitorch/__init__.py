"""minitorch: tensors with automatic differentiation, under PyTorch's names.

::

    import minitorch as torch

    w = torch.randn(3, requires_grad=True)
    loss = ((w - 1) ** 2).sum()
    loss.backward()
    w.grad

To read the library, follow its imports upwards: ``backend`` (arrays), ``autograd`` (the tape),
``operations``, ``tensor``, ``creation``, then ``nn`` and ``optim``. What a module offers here is
its ``__all__``; what is called ``compat`` can be skipped.
"""

from math import e, inf, nan, pi

from minitorch import autograd, missing
from minitorch.autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from minitorch.axes import Size
from minitorch.backend import *
from minitorch.backend import bool_ as bool
from minitorch.compat import linalg
from minitorch.compat.functions import *
from minitorch.compat.types import *
from minitorch.creation import *
from minitorch.generator import *
from minitorch.operations.einsum import *
from minitorch.operations.elementwise import *
from minitorch.operations.indexing import *
from minitorch.operations.logic import *
from minitorch.operations.products import *
from minitorch.operations.reductions import *
from minitorch.operations.shapes import *
from minitorch.operations.shapes import expand as broadcast_to
from minitorch.serialization import load, save
from minitorch.tensor import Tensor

__version__ = "0.1.0"

from minitorch.creation import tensor  # noqa: E402  (not the module of that name)

# Other names of the same things
half, float, double, int, long = float16, float32, float64, int32, int64
absolute, div, multiply, negative, subtract, true_divide = abs, divide, mul, neg, sub, divide
clip, concat, concatenate, moveaxis, swapaxes = clamp, cat, cat, movedim, transpose
inference_mode = no_grad

from minitorch import backends, cuda, nn, optim, utils  # noqa: E402  (they build on the above)

__getattr__ = missing.in_module(__name__)
