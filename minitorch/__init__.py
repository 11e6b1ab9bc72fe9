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
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_device,
    set_default_dtype,
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
    tril_indices,
    triu_indices,
    zeros,
    zeros_like,
)
from minitorch.datatypes import (
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    finfo,
    iinfo,
)
from minitorch.generator import Generator, initial_seed, manual_seed, seed
from minitorch.missing import in_module
from minitorch.operations.composed import (
    addcdiv,
    addcmul,
    addmm,
    allclose,
    argwhere,
    baddbmm,
    bmm,
    broadcast_tensors,
    diag,
    divide,
    dot,
    equal,
    hstack,
    is_floating_point,
    is_tensor,
    lerp,
    meshgrid,
    mm,
    movedim,
    mv,
    narrow,
    numel,
    outer,
    select,
    std_mean,
    t,
    take_along_dim,
    tile,
    trace,
    unflatten,
    var_mean,
    vstack,
)
from minitorch.operations.elementwise import (
    abs,
    acos,
    add,
    asin,
    atan,
    ceil,
    clamp,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    floor,
    floor_divide,
    fmod,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    masked_fill,
    maximum,
    minimum,
    mul,
    nan_to_num,
    neg,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    sub,
    tan,
    tanh,
    trunc,
    where,
)
from minitorch.operations.indexing import (
    bincount,
    gather,
    index_add,
    index_copy,
    index_fill,
    index_select,
    masked_scatter,
    masked_select,
    nonzero,
    repeat_interleave,
    scatter,
    scatter_add,
    unique,
)
from minitorch.operations.logic import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    eq,
    ge,
    gt,
    isclose,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
)
from minitorch.operations.products import einsum, matmul
from minitorch.operations.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumprod,
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
    diag_embed,
    diagonal,
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

from minitorch.creation import tensor  # noqa: E402  (not the module of that name)
from minitorch.operations.shapes import expand as broadcast_to  # noqa: E402

inference_mode = no_grad
subtract, multiply, negative, absolute = sub, mul, neg, abs
div = true_divide = divide
clip, concat, concatenate, swapaxes, moveaxis = clamp, cat, cat, transpose, movedim
from minitorch import backends, cuda, nn, optim, utils  # noqa: E402  (they build on the above)

__getattr__ = in_module(__name__)
