"""Operations that combine the elements along an axis: sums, extremes, softmax, sorting.

``dim`` is an axis, several axes, or None for all; ``keepdim`` leaves the reduced axes with size 1.
"""

import builtins
import math
from collections import namedtuple

from minitorch.autograd.dispatch import numpy_names, operation
from minitorch.axes import axes_of
from minitorch.backend import (
    array_module,
    int64,
    largest_along,
    numpy_dtype,
    product_of,
    sum_of,
    wide,
)
from minitorch.operations.elementwise import maximum, minimum

__all__ = """
all amax amin any argmax argmin argsort count_nonzero cumprod cumsum log_softmax logsumexp max mean
min norm prod softmax sort std sum topk var
""".split()


def _reduced(dim, ndim):
    """The axes over which to reduce; for a reduction, no axes mean all of them."""
    return axes_of(None if dim in ((), []) else dim, ndim)


def _restored(array, axes, keepdim):
    """The reduced array with its lost axes back, so that it broadcasts against the input."""
    return array if keepdim else array_module(array).expand_dims(array, axes)


def _total_type(array):
    """The type of a sum or product: int64 for booleans and integers."""
    return int64.numpy if array.dtype.kind in "biu" else array.dtype


def _count(shape, axes):
    return math.prod(shape[axis] for axis in axes)


def _cast(input, dtype):
    return input if dtype is None else input.astype(numpy_dtype(dtype), copy=False)


@operation(rows=True)
def sum(input, dim=None, keepdim=False, dtype=None):
    """The sum over ``dim``, in ``dtype``. Booleans and integers are summed as int64."""
    xp, shape, axes = array_module(input), input.shape, _reduced(dim, input.ndim)
    input = _cast(input, dtype)
    kind = _total_type(input) if dtype is None else input.dtype
    return sum_of(input, axes, keepdim, kind), (
        lambda g: xp.broadcast_to(_restored(g, axes, keepdim), shape),
    )


def _check_floating(input, name):
    if input.dtype.kind != "f":
        raise RuntimeError(f"{name} needs a floating-point tensor, got {input.dtype}: use .float()")


@operation(rows=True)
def mean(input, dim=None, keepdim=False, dtype=None):
    """The mean over ``dim``, of floating-point tensors."""
    input = _cast(input, dtype)
    _check_floating(input, "mean")
    xp, shape, axes = array_module(input), input.shape, _reduced(dim, input.ndim)
    count = _count(shape, axes)
    total = sum_of(wide(input), axes, keepdim)
    return (total / total.dtype.type(count)).astype(input.dtype, copy=False), (
        lambda g: xp.broadcast_to(_restored(g, axes, keepdim) / count, shape),
    )


def _variance(input, dim, unbiased, keepdim, correction, name):
    _check_floating(input, name)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes, input = _reduced(dim, input.ndim), wide(input)
    count = _count(input.shape, axes)
    deviation = input - sum_of(input, axes, True) / input.dtype.type(count)
    square_sum = sum_of(deviation * deviation, axes, keepdim)
    correction = int(unbiased) if correction is None else correction
    degrees = input.dtype.type(builtins.max(count - correction, 0))
    return square_sum / degrees, deviation, degrees, axes


@operation(rows=True)
def var(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance over ``dim``: squared deviations from the mean, summed, over (count - 1).

    ``unbiased=False``, or ``correction=0``, divides by the count instead.
    """
    variance, deviation, degrees, axes = _variance(input, dim, unbiased, keepdim, correction, "var")
    return variance.astype(input.dtype, copy=False), (
        lambda g: _restored(g, axes, keepdim) * (2 / degrees) * deviation,
    )


@operation(rows=True)
def std(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation over ``dim``, the square root of ``var``. Its gradient at 0 is 0."""
    xp = array_module(input)
    variance, deviation, degrees, axes = _variance(input, dim, unbiased, keepdim, correction, "std")
    out = xp.sqrt(variance)

    def vjp(g):
        g = xp.where(out == 0, 0, g / xp.where(out == 0, 1, out))
        return _restored(g, axes, keepdim) / degrees * deviation

    return out.astype(input.dtype, copy=False), (vjp,)


@operation(rows=True)
def prod(input, dim=None, keepdim=False, dtype=None):
    """The product over ``dim``. Booleans and integers are multiplied as int64."""
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    input = _cast(input, dtype)
    kind = _total_type(input) if dtype is None else input.dtype
    result = product_of(input, axes, keepdim, kind)

    def vjp(g):
        """Each element's gradient is the product of all others, also where some are zero."""
        zeros = sum_of(input == 0, axes, True)
        without_zeros = wide(xp.where(input == 0, input.dtype.type(1), input))
        product = product_of(without_zeros, axes, True)
        others = xp.where(zeros == 0, product / without_zeros, 0)
        others = xp.where((zeros == 1) & (input == 0), product, others)
        return _restored(g, axes, keepdim) * others.astype(g.dtype)

    return result, (vjp,)


def _check_not_empty(input, axes, name):
    empty = [axis for axis in axes if not input.shape[axis]]
    if empty:
        raise IndexError(
            f"{name} over dim {empty[0]} of shape {input.shape}: there is no element to choose"
        )


def _extreme(input, dim, keepdim, name):
    """An extreme over several axes; equal elements share the gradient evenly."""
    xp, axes = array_module(input), _reduced(dim, input.ndim)
    _check_not_empty(input, axes, name)
    value = getattr(xp, name)(input, axis=axes, keepdims=keepdim)

    def vjp(g):
        best = _restored(value, axes, keepdim)
        hit = xp.where(best == best, input == best, input != input)  # NaN differs from itself
        share = hit / sum_of(hit, axes, True)
        return _restored(g, axes, keepdim) * share.astype(g.dtype)

    return value, (vjp,)


@operation(rows=True)
def amax(input, dim=(), keepdim=False):
    """The largest element over ``dim``. Equal elements share the gradient."""
    return _extreme(input, dim, keepdim, "amax")


@operation(rows=True)
def amin(input, dim=(), keepdim=False):
    """The smallest element over ``dim``. Equal elements share the gradient."""
    return _extreme(input, dim, keepdim, "amin")


def _taken(input, order, dim):
    """The elements in the given order along ``dim``, that order, and the gradient."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype

    def vjp(grads):
        result = xp.zeros(shape, dtype=dtype)
        xp.put_along_axis(result, order, grads[0], axis=dim)
        return (result,)

    return (xp.take_along_axis(input, order, axis=dim), order.astype(int64.numpy)), vjp


def _picked(input, indices, axis, keepdim):
    """The elements at one position a row, ``indices``, along an axis; see ``_taken``."""
    found, vjp = _taken(input, array_module(input).expand_dims(indices, axis), axis)
    if keepdim:
        return found, vjp
    return tuple(part.squeeze(axis) for part in found), lambda grads: vjp(
        [None if g is None else _restored(g, (axis,), keepdim) for g in grads]
    )


@operation(rows=True)
def norm(input, p=2, dim=None, keepdim=False):
    """(sum |x|^p)^(1/p) over ``dim``; the largest |x| for p = inf, the smallest for -inf.

    p = 0 counts the elements that are not 0; "fro" is p = 2. The gradient at 0 is 0.
    """
    _check_floating(input, "norm")
    xp, axes = array_module(input), _reduced(dim, input.ndim)
    size, p = wide(xp.abs(input)), 2 if p == "fro" else p
    if p == 0:
        length = sum_of(size != 0, axes, True)
        slope = xp.zeros_like(input)
    elif math.isinf(p):
        length = (size.max if p > 0 else size.min)(axis=axes, keepdims=True)
        slope = (size == length) / sum_of(size == length, axes, True)
    else:
        length = sum_of(size**p, axes, True) ** (1 / p)
        slope = xp.where(size == 0, p == 1, (size / length) ** (p - 1))
    slope = (xp.sign(input) * slope).astype(input.dtype)
    length = length.astype(input.dtype, copy=False)
    return length if keepdim else length.squeeze(axes), (
        lambda g: _restored(g, axes, keepdim) * slope,
    )


ValuesIndices = namedtuple("ValuesIndices", ["values", "indices"])


def _extreme_with_index(input, dim, keepdim, name):
    xp = array_module(input)
    if not input.ndim:
        return (input.copy(), xp.zeros(input.shape, int64.numpy)), lambda grads: (grads[0],)
    (axis,) = axes_of(dim, input.ndim)
    _check_not_empty(input, (axis,), name)
    return _picked(input, getattr(xp, "arg" + name)(input, axis=axis), axis, keepdim)


@operation()
def max_with_index(input, dim, keepdim=False):
    """The largest elements along ``dim`` and their positions; the first of equal ones."""
    return _extreme_with_index(input, dim, keepdim, "max")


@operation()
def min_with_index(input, dim, keepdim=False):
    """The smallest elements along ``dim`` and their positions; the first of equal ones."""
    return _extreme_with_index(input, dim, keepdim, "min")


def _not_empty(input, name):
    if not input.array.size:
        raise RuntimeError(f"{name} of a tensor without elements, of shape {tuple(input.shape)}")
    return input


@numpy_names
def max(input, dim=None, keepdim=False):
    """The largest element of all; or along ``dim``, with its position; or of two tensors."""
    if dim is None:
        return amax(_not_empty(input, "max"))
    if not isinstance(dim, int):
        return maximum(input, dim)
    return ValuesIndices(*max_with_index(input, dim, keepdim))


@numpy_names
def min(input, dim=None, keepdim=False):
    """The smallest element of all; or along ``dim``, with its position; or of two tensors."""
    if dim is None:
        return amin(_not_empty(input, "min"))
    if not isinstance(dim, int):
        return minimum(input, dim)
    return ValuesIndices(*min_with_index(input, dim, keepdim))


def _position(input, dim, keepdim, name):
    axes = axes_of(dim, input.ndim)
    _check_not_empty(input, axes, name)
    axis = axes[0] if dim is not None and axes else None
    return getattr(array_module(input), name)(input, axis=axis, keepdims=keepdim), None


@operation()
def argmax(input, dim=None, keepdim=False):
    """The position of the largest element along ``dim``, or in the flattened tensor."""
    return _position(input, dim, keepdim, "argmax")


@operation()
def argmin(input, dim=None, keepdim=False):
    """The position of the smallest element along ``dim``, or in the flattened tensor."""
    return _position(input, dim, keepdim, "argmin")


def _truth(input, result):
    """A boolean result, which is uint8 for uint8."""
    return result.astype(input.dtype) if input.dtype == "uint8" else result


@operation(rows=True)
def all(input, dim=None, keepdim=False):
    """Whether every element over ``dim`` is true, that is, not 0."""
    return _truth(input, input.all(axis=axes_of(dim, input.ndim), keepdims=keepdim)), None


@operation(rows=True)
def any(input, dim=None, keepdim=False):
    """Whether some element over ``dim`` is true, that is, not 0."""
    return _truth(input, input.any(axis=axes_of(dim, input.ndim), keepdims=keepdim)), None


@operation(rows=True)
def count_nonzero(input, dim=None):
    """How many elements over ``dim`` are not 0."""
    return sum_of(input != 0, axes_of(dim, input.ndim), dtype=int64.numpy), None


@operation(rows=True)
def cumsum(input, dim, dtype=None):
    """Running sums along ``dim``."""
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    input = _cast(input, dtype)
    kind = _total_type(input) if dtype is None else input.dtype
    if not axes:
        return input.astype(kind), (lambda g: g,)
    total = wide(input.astype(kind, copy=False)).cumsum(axis=axes[0])
    return total.astype(kind, copy=False), (
        lambda g: xp.flip(xp.flip(wide(g), dim).cumsum(axis=dim), dim),
    )


@operation(rows=True)
def cumprod(input, dim, dtype=None):
    """Running products along ``dim``."""
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    input = _cast(input, dtype)
    kind = _total_type(input) if dtype is None else input.dtype
    if not axes:
        return input.astype(kind), (lambda g: g,)

    input = wide(input.astype(kind, copy=False))

    def vjp(g):
        """Sums, for each element, the products of the others: right also where some are 0."""
        x, g = xp.moveaxis(input, axes[0], -1)[..., None, :], xp.moveaxis(g, axes[0], -1)
        others = xp.where(xp.eye(x.shape[-1], dtype=bool), 1, x)
        slopes = xp.triu(others.cumprod(axis=-1))  # (..., j, i): d result_i / d input_j
        return xp.moveaxis(sum_of(slopes * g[..., None, :], -1), -1, axes[0])

    return input.cumprod(axis=axes[0]).astype(kind, copy=False), (vjp,)


@operation(promote="float", rows=True)
def logsumexp(input, dim, keepdim=False):
    """log(sum(exp(input))) over ``dim``, without overflow.

    log sum_j exp(x_j) = m + log sum_j exp(x_j - m) with m = max_j x_j.
    """
    xp, axes, kind = array_module(input), axes_of(dim, input.ndim), input.dtype
    input = wide(input)
    largest = largest_along(input, axes)
    largest = xp.where(xp.isfinite(largest), largest, input.dtype.type(0))
    total = sum_of(xp.exp(input - largest), axes, True)
    whole = xp.log(total) + largest

    def vjp(g):
        weights = xp.exp(input - xp.where(whole == -math.inf, input.dtype.type(0), whole))
        return _restored(g, axes, keepdim) * weights

    return (whole if keepdim else whole.squeeze(axes)).astype(kind, copy=False), (vjp,)


def _shifted(input, dim, dtype, name):
    """A new array with the largest element along ``dim`` subtracted, that axis, and the type."""
    input = _cast(input, dtype)
    _check_floating(input, name)
    axes, whole = axes_of((dim,), input.ndim), wide(input)
    xp = array_module(input)
    shifted = xp.empty(whole.shape, dtype=whole.dtype)
    return xp.subtract(whole, largest_along(whole, axes), out=shifted), axes, input.dtype


@operation(rows=True)
def softmax(input, dim, dtype=None):
    """exp(x_i) / sum_j exp(x_j) along ``dim``, without overflow.

    Jacobian: d p_i / d x_j = p_i (1[i = j] - p_j), so the gradient is p * (g - sum(g * p)).
    """
    out, axes, kind = _shifted(input, dim, dtype, "softmax")
    out = array_module(input).exp(out, out=out)
    out /= sum_of(out, axes, True)

    def vjp(g):
        result = g * out
        result -= out * sum_of(result, axes, True)
        return result

    return out.astype(kind, copy=False), (vjp,)


@operation(rows=True)
def log_softmax(input, dim, dtype=None):
    """x_i - log(sum_j exp(x_j)) along ``dim``, without overflow."""
    xp = array_module(input)
    out, axes, kind = _shifted(input, dim, dtype, "log_softmax")
    out -= xp.log(sum_of(xp.exp(out), axes, True))
    return out.astype(kind, copy=False), (lambda g: g - xp.exp(out) * sum_of(wide(g), axes, True),)


def _order(input, axis, descending):
    """The positions that sort ``input`` along an axis; equal elements keep their order."""
    xp = array_module(input)
    if not descending:
        return xp.argsort(input, axis=axis, kind="stable")
    last = input.shape[axis] - 1
    return last - xp.flip(xp.argsort(xp.flip(input, axis), axis=axis, kind="stable"), axis)


@operation()
def sort_(input, dim, descending):
    """See ``sort``."""
    if not input.ndim:
        return _extreme_with_index(input, dim, False, "max")
    (axis,) = axes_of(dim, input.ndim)
    return _taken(input, _order(input, axis, descending), axis)


@numpy_names
def sort(input, dim=-1, descending=False, stable=True):
    """The elements in order along ``dim``, and the positions where they were.

    Equal elements keep their order, with or without ``stable``.
    """
    return ValuesIndices(*sort_(input, dim, descending))


@numpy_names
def argsort(input, dim=-1, descending=False, stable=True):
    """The positions that sort the elements along ``dim``."""
    return sort(input, dim, descending).indices


@operation()
def topk_(input, k, dim, largest):
    """See ``topk``."""
    (axis,) = axes_of(dim, input.ndim)
    if not 0 <= k <= input.shape[axis]:
        raise RuntimeError(
            f"topk needs k between 0 and {input.shape[axis]}, the size of dim {dim}; got {k}"
        )
    return _taken(input, _order(input, axis, largest)[(slice(None),) * axis + (slice(k),)], axis)


def topk(input, k, dim=-1, largest=True, sorted=True):
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and their positions."""
    return ValuesIndices(*topk_(input, k, dim, largest))
