"""Functions on tensors that the book does not teach."""

import functools
import itertools
import math

import numpy as np

from minitorch.autograd.dispatch import numpy_names, operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import axes_of, check_axes, fold
from minitorch.backend import array_module
from minitorch.operations import reductions
from minitorch.operations.elementwise import add, div, mul, sigmoid_array, sub, where
from minitorch.operations.indexing import (
    add_at,
    as_index,
    check_same_type,
    gather,
    masked_select,
    setitem,
    split_index,
)
from minitorch.operations.logic import check_whole, isnan
from minitorch.operations.neural import erf_array
from minitorch.operations.shapes import (
    cat,
    diagonal,
    expand,
    listed,
    numel,
    permute,
    repeat,
    reshape,
    split_with_sizes,
    transpose,
    unsqueeze,
)

__all__ = """
acos addcdiv addcmul asin atan bitwise_left_shift bitwise_right_shift bucketize cosh dist erf
erfinv exp2 expm1 hstack index_put is_complex is_tensor lerp log1p log2 logaddexp masked_scatter
median meshgrid movedim nan_to_num ravel reciprocal rsub searchsorted sinh std_mean take_along_dim
tan tensor_split tile trace var_mean vstack
""".split()

# Arithmetic


def numbers_first(*names):
    """Let a function of tensors take its numbers of these names before each of the first ones.

    That is the order of programs from before PyTorch 1.5: ``x.addcmul_(0.5, a, b)``, and for
    ``beta`` and ``alpha`` ``addmm(0.5, x, 2, a, b)``.
    """

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **options):
            numbers = [arg for arg in args if isinstance(arg, (int, float))]
            tensors = [arg for arg in args if not isinstance(arg, (int, float))]
            return function(*tensors, **dict(zip(names, numbers, strict=False)), **options)

        return call

    return decorate


@numbers_first("value")
def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 * tensor2."""
    return add(input, mul(tensor1, tensor2), alpha=value)


@numbers_first("value")
def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 / tensor2."""
    return add(input, div(tensor1, tensor2), alpha=value)


def rsub(input, other, *, alpha=1):
    """other - alpha * input."""
    return sub(other, mul(input, alpha))


def lerp(input, end, weight):
    """input + weight * (end - input)."""
    return add(input, mul(sub(end, input), weight))


@operation(promote="float")
def logaddexp(input, other):
    """log(exp(input) + exp(other)), without overflow."""
    xp = array_module(input)
    return xp.logaddexp(input, other), (
        lambda g: g / (1 + xp.exp(other - input)),
        lambda g: g / (1 + xp.exp(input - other)),
    )


@operation()
def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """input with a number for each NaN, and others (None: the type's extremes) for infinities."""
    xp = array_module(input)
    finite = xp.isfinite(input)
    return xp.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf), (lambda g: g * finite,)


@operation(promote="common")
def bitwise_left_shift(input, other):
    """input * 2^other, of integers: the bits moved by ``other`` places."""
    check_whole("<<", input, other)
    return input << other, None


@operation(promote="common")
def bitwise_right_shift(input, other):
    """The integer part of input / 2^other: the bits moved by ``other`` places."""
    check_whole(">>", input, other)
    return input >> other, None


# Functions


@operation(promote="float")
def log2(input):
    """The logarithm to base 2."""
    return array_module(input).log2(input), lambda g: g / (input * math.log(2))


@operation(promote="float")
def log1p(input):
    """log(1 + input), exact for small input."""
    return array_module(input).log1p(input), lambda g: g / (1 + input)


@operation(promote="float")
def exp2(input):
    """2 ** input."""
    out = array_module(input).exp2(input)
    return out, lambda g: g * out * math.log(2)


@operation(promote="float")
def expm1(input):
    """e ** input - 1, exact for small input."""
    out = array_module(input).expm1(input)
    return out, lambda g: g * (out + 1)


@operation(promote="float")
def reciprocal(input):
    """1 / input."""
    out = 1 / input
    return out, lambda g: -g * out * out


@operation(promote="float")
def tan(input):
    """The tangent, of radians."""
    out = array_module(input).tan(input)
    return out, lambda g: g * (1 + out * out)


@operation(promote="float")
def asin(input):
    """The angle, in radians, whose sine is ``input``."""
    xp = array_module(input)
    return xp.arcsin(input), lambda g: g / xp.sqrt(1 - input * input)


@operation(promote="float")
def acos(input):
    """The angle, in radians, whose cosine is ``input``."""
    xp = array_module(input)
    return xp.arccos(input), lambda g: -g / xp.sqrt(1 - input * input)


@operation(promote="float")
def atan(input):
    """The angle, in radians, whose tangent is ``input``."""
    return array_module(input).arctan(input), lambda g: g / (1 + input * input)


@operation(promote="float")
def sinh(input):
    """The hyperbolic sine, (exp(x) - exp(-x)) / 2."""
    xp = array_module(input)
    return xp.sinh(input), lambda g: g * xp.cosh(input)


@operation(promote="float")
def cosh(input):
    """The hyperbolic cosine, (exp(x) + exp(-x)) / 2."""
    xp = array_module(input)
    return xp.cosh(input), lambda g: g * xp.sinh(input)


@operation(promote="float")
def softplus(input):
    """log(1 + exp(x)), without overflow."""
    xp = array_module(input)
    return xp.logaddexp(input, input.dtype.type(0)), lambda g: g * sigmoid_array(input)


@operation(promote="float")
def erf(input):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    xp = array_module(input)
    scale = 2 / math.sqrt(math.pi)
    return erf_array(input), lambda g: g * (scale * xp.exp(-input * input))


def _erfinv_array(x):
    """The y with erf(y) = x: Winitzki's formula (2008), made exact by Newton's method."""
    xp = array_module(x)
    x = x.astype(np.float64)
    log, a = xp.log1p(-x * x), 0.147
    half = 2 / (math.pi * a) + log / 2
    y = xp.sign(x) * xp.sqrt(xp.sqrt(half * half - log / a) - half)
    for _ in range(4):
        step = (erf_array(y) - x) * xp.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = xp.where(xp.isfinite(step), y - step, y)
    return xp.where(abs(x) == 1, x * math.inf, y)


@operation(promote="float")
def erfinv(input):
    """The inverse of ``erf``: infinite at -1 and 1, NaN beyond."""
    xp = array_module(input)
    out = xp.asarray(_erfinv_array(input)).astype(input.dtype)
    return out, lambda g: g * (math.sqrt(math.pi) / 2) * xp.exp(out * out)


# Statistics


def trace(input):
    """The sum of a matrix's diagonal."""
    check_axes("trace", (input, 2))
    return reductions.sum(diagonal(input))


@numpy_names
def median(input, dim=None, keepdim=False):
    """The middle element in order (of two the smaller one), or NaN if there is any.

    Of all elements, where equal ones share the gradient; or along ``dim``, with its position.
    """
    if dim is None:
        flat = reshape(input, (-1,))
        value = median(flat.detach(), 0).values
        return reductions.amax(masked_select(flat, (flat == value) | (isnan(flat) & isnan(value))))
    if not input.ndim:
        return reductions.ValuesIndices(*reductions.sort(input))
    (axis,) = axes_of(dim, input.ndim)
    last = input.shape[axis] - 1
    if last < 0:
        raise IndexError(f"median over dim {dim} of shape {tuple(input.shape)}: nothing to choose")
    middle = where(reductions.any(isnan(input), axis, keepdim=True), last, last // 2)
    found = [gather(part, axis, middle) for part in reductions.sort(input, axis)]
    return reductions.ValuesIndices(*(part if keepdim else part.squeeze(axis) for part in found))


def dist(input, other, p=2):
    """The p-norm of input - other, all elements together."""
    return reductions.norm(sub(input, other), p)


def var_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance and the mean over ``dim``; see ``var``."""
    return (
        reductions.var(input, dim, unbiased, keepdim, correction=correction),
        reductions.mean(input, None if isinstance(dim, bool) else dim, keepdim),
    )


def std_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation and the mean over ``dim``; see ``std``."""
    return (
        reductions.std(input, dim, unbiased, keepdim, correction=correction),
        reductions.mean(input, None if isinstance(dim, bool) else dim, keepdim),
    )


def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where each number of ``input`` belongs in a rising sequence: how many are below it.

    With ``right``, or ``side="right"``, how many are not above it. A sequence (n) takes an input of
    any shape, or a number; sequences (..., n) take (..., m), row by row. ``sorter`` is the order in
    which the sequence rises, as ``argsort`` gives it.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(
            f"side is 'left' or 'right', and right says the same; got {side!r}, {right}"
        )
    side = "right" if right or side == "right" else "left"
    xp = array_module(sorted_sequence.array)
    rising, wanted = sorted_sequence.array, xp.asarray(getattr(input, "array", input))
    if sorter is not None:
        rising = xp.take_along_axis(rising, sorter.array, -1)
    if rising.ndim == 1:
        found = xp.searchsorted(rising, wanted, side)
    elif rising.shape[:-1] == wanted.shape[:-1]:
        found = xp.empty(fold(wanted).shape, dtype=np.int64)
        for i, (row, values) in enumerate(zip(fold(rising), fold(wanted), strict=True)):
            found[i] = xp.searchsorted(row, values, side)
        found = found.reshape(wanted.shape)
    else:
        raise RuntimeError(
            "searchsorted takes one sequence (n), or an input whose axes but the last are those of "
            f"the sequences; got shapes {rising.shape} and {wanted.shape}"
        )
    kind = np.int32 if out_int32 else np.int64
    return TensorBase.result_class._wrap(xp.asarray(found).astype(kind))


def bucketize(input, boundaries, *, out_int32=False, right=False):
    """Between which of the rising ``boundaries`` (n) each number lies; see ``searchsorted``."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries have one axis; got shape {tuple(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# Shapes and positions


def is_tensor(obj):
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)


def is_complex(input):
    """False: there are no complex tensors."""
    return False


def ravel(input):
    """All elements along one axis."""
    return reshape(input, (-1,))


def movedim(input, source, destination):
    """The axes ``source`` moved to the places ``destination``; the others keep their order."""
    source, destination = axes_of(source, input.ndim), axes_of(destination, input.ndim)
    order = [axis for axis in range(input.ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return permute(input, tuple(order))


def tile(input, dims):
    """``repeat``, where missing sizes are 1."""
    return repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid: for each vector a tensor that varies along an axis of its own.

    ``indexing="xy"`` exchanges the first two axes.
    """
    if len(tensors) == 1 and not isinstance(tensors[0], TensorBase):
        tensors = tensors[0]
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"indexing must be 'ij' or 'xy'; got {indexing!r}")
    sizes = [numel(x) for x in tensors]
    grids = [
        expand(reshape(x, (-1,) + (1,) * (len(sizes) - 1 - i)), sizes)
        for i, x in enumerate(tensors)
    ]
    return tuple(transpose(x, 0, 1) for x in grids) if indexing == "xy" else tuple(grids)


def hstack(tensors):
    """The tensors joined side by side: along axis 1, vectors along their only one."""
    tensors = listed(tensors, "hstack")
    return cat(tensors, 0 if tensors[0].ndim < 2 else 1)


def vstack(tensors):
    """The tensors joined one below the other; vectors are rows."""
    tensors = listed(tensors, "vstack")
    return cat([unsqueeze(x, 0) if x.ndim < 2 else x for x in tensors])


def tensor_split(input, indices_or_sections, dim=0):
    """Pieces along ``dim``: as many as a number says, the first ones larger by one where it does
    not divide the size; or those between the given positions.
    """
    (axis,) = axes_of(dim, input.ndim)
    parts, size = indices_or_sections, input.shape[axis]
    parts = parts.tolist() if isinstance(parts, TensorBase) else parts
    if not isinstance(parts, int):
        lead = (slice(None),) * axis
        return tuple(input[(*lead, slice(*ends))] for ends in itertools.pairwise([0, *parts, None]))
    if parts < 1:
        raise RuntimeError(f"tensor_split needs at least one section; got {parts}")
    sizes = [size // parts + (i < size % parts) for i in range(parts)]
    return split_with_sizes(input, sizes, axis)


@operation()
def accumulated(input, values, index):
    """A copy of input with ``values`` added at ``index``, twice where a place occurs twice."""
    first, rest = split_index(index, input.ndim)
    result = input.copy()
    add_at(result[first], rest, values)
    return result, (lambda g: g, lambda g: g[first][rest])


def index_put(input, indices, values, accumulate=False):
    """A copy of input with ``values`` at ``indices``, a tuple of tensors; or added to it there."""
    index = as_index(tuple(indices), array_module(input.array))
    check_same_type(input, values, "index_put")
    return (accumulated if accumulate else setitem)(input, values, index)


def take_along_dim(input, indices, dim=None):
    """``gather`` whose index broadcasts; without ``dim``, from the flattened tensor."""
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    (axis,) = axes_of(dim, input.ndim)
    rest = [(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in (input, indices)]
    sizes = np.broadcast_shapes(*rest)
    sizes = (*sizes[:axis], -1, *sizes[axis + 1 :])
    return gather(expand(input, sizes), axis, expand(indices, sizes))


@operation()
def masked_scatter(input, mask, source):
    """A copy of input with the elements of ``source``, in their order, where ``mask`` is True."""
    xp, shape = array_module(input), source.shape
    mask = xp.broadcast_to(mask, input.shape)
    count = int(mask.sum())
    if count > source.size:
        raise RuntimeError(
            f"masked_scatter needs at least {count} elements in source; got {source.size}"
        )
    result = input.copy()
    result[mask] = source.reshape(-1)[:count]

    def toward_source(g):
        gradient = xp.zeros(math.prod(shape), dtype=g.dtype)
        gradient[:count] = g[mask]
        return gradient.reshape(shape)

    return result, (lambda g: xp.where(mask, 0, g), None, toward_source)
