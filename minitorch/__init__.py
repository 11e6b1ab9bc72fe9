"""minitorch: tensors with automatic differentiation, under PyTorch's names.

::

    import minitorch as torch

    w = torch.randn(3, requires_grad=True)
    loss = ((w - 1) ** 2).sum()
    loss.backward()
    w.grad

To read the library, follow its imports upwards: ``backend`` (arrays), ``autograd`` (the tape),
``operations``, ``tensor``, ``creation``, then ``nn`` and ``optim``.
"""

from math import e, inf, nan, pi

from minitorch import autograd
from minitorch.autograd import (
    enable_grad,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from minitorch.autograd.tensorbase import Size
from minitorch.backend import (
    bool_ as bool,
)
from minitorch.backend import (
    device,
    dtype,
    float16,
    float32,
    float64,
    get_default_device,
    int8,
    int16,
    int32,
    int64,
    set_default_device,
    uint8,
)
from minitorch.backend import (
    float16 as half,
)
from minitorch.backend import (
    float32 as float,
)
from minitorch.backend import (
    float64 as double,
)
from minitorch.backend import (
    int32 as int,
)
from minitorch.backend import (
    int64 as long,
)
from minitorch.creation import (
    arange,
    as_tensor,
    bernoulli,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    multinomial,
    normal,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from minitorch.generator import Generator, manual_seed
from minitorch.operations.composed import allclose, equal, is_tensor, outer
from minitorch.operations.elementwise import (
    abs,
    add,
    ceil,
    clamp,
    cos,
    div,
    eq,
    erf,
    exp,
    floor,
    floor_divide,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    log,
    log1p,
    logical_not,
    lt,
    masked_fill,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)
from minitorch.operations.indexing import gather, index_select, nonzero
from minitorch.operations.products import einsum, matmul
from minitorch.operations.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    argsort,
    cumsum,
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    softmax,
    sort,
    std,
    sum,
    topk,
    var,
)
from minitorch.operations.shapes import (
    cat,
    chunk,
    clone,
    flatten,
    flip,
    permute,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unbind,
    unsqueeze,
)
from minitorch.serialization import load, save
from minitorch.tensor import Tensor

__version__ = "0.1.0"

mm = bmm = matmul
from minitorch import cuda, nn, optim, utils  # noqa: E402  (they build on the names above)
