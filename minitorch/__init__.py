"""minitorch: tensors with automatic differentiation, under PyTorch's names.

::

    import minitorch as torch

    w = torch.randn(3, requires_grad=True)
    loss = ((w - 1) ** 2).sum()
    loss.backward()
    w.grad

To read the library in one evening, read its core in this order. Each file imports, of these, only
those above it; what all of it is for shows in ``mul``, in ``operations/elementwise.py``::

    autograd/node.py  what is recorded of an operation
    autograd/backward.py  the pass backward over the nodes
    autograd/tensorbase.py  what a tensor is: an array, its gradient, where it came from
    autograd/dispatch.py  how a function on arrays becomes an operation on tensors
    operations/elementwise.py  arithmetic and functions of each element, with their gradients
    operations/shapes.py  views, joins, pieces
    operations/products.py  products of matrices, the linear layer's
    operations/reductions.py  sums, extremes, softmax, sorting
    autograd/modes.py  whether operations are recorded, and who listens to them
    nn/parameter.py  a tensor that a module trains
    nn/module.py  what layers and models are built from
    nn/layers.py  linear, embedding, dropout, activations
    optim/optimizer.py  what optimizers share
    optim/sgd.py  gradient descent
    optim/adam.py  Adam and AdamW

What the core takes from other files can be believed at first: ``backend`` (``array_module(x)`` is
NumPy, or CuPy for an array on a GPU; ``blocks`` cuts arrays into pieces that fit the cache),
``axes`` (``dim`` as axes, broadcasting undone), ``promotion`` (of which type a result is),
``nn.functional`` and ``nn.init`` (what layers call), and ``autograd/inplace``, the second evening:
who may write over a tensor's values, and what then becomes of the gradients. ``tensor`` and
``methods`` list the operations as methods; what is called ``compat`` can be skipped. What a module
offers here is its ``__all__``.
"""

from math import e, inf, nan, pi

from minitorch import autograd, missing
from minitorch.autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from minitorch.axes import Size
from minitorch.backend import *
from minitorch.backend import bool_ as bool
from minitorch.compat import linalg
from minitorch.compat.functions import *
from minitorch.compat.products import *
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

__getattr__ = missing.in_module(
    __name__,
    {
        "minitorch.amp": "amp autocast",
        "minitorch.compat.foreach": "_foreach_add_ _foreach_copy_ _foreach_mul_ _foreach_zero_",
        "minitorch.compat.switches": "is_autocast_enabled set_float32_matmul_precision"
        " use_deterministic_algorithms",
        "minitorch.compiler": "compile compiler",
        "minitorch.distributed": "distributed",
        "minitorch.distributions": "distributions",
        "minitorch.jit": "jit",
        "minitorch.random": "fork_rng get_rng_state random set_rng_state",
    },
)
