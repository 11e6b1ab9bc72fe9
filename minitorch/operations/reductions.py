"""Operations that combine the elements along an axis: sums, extremes, softmax, sorting.

``dim`` is an axis, several axes, or None for all; ``keepdim`` leaves the reduced axes with size 1.
"""

import builtins
from collections import namedtuple

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module, int64, numpy_dtype
from minitorch.operations.elementwise import maximum, minimum


def axes_of(dim, ndim):
    """``dim`` as a tuple of axes from 0; IndexError when there is no such axis."""
    if dim is None:
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for d in dims:
        if not -builtins.max(ndim, 1) <= d < builtins.max(ndim, 1):
            raise IndexError(f"dim must be between {-ndim} and {ndim - 1} for {ndim} axes; got {d}")
    return tuple(d % ndim for d in dims) if ndim else ()


def _restored(array, axes, keepdim):
    """The reduced array with its lost axes back, so that it broadcasts against the input."""
    return array if keepdim else array_module(array).expand_dims(array, axes)


def _total_type(array):
    """The type of a sum or product: int64 for booleans and integers."""
    return int64.numpy if array.dtype.kind in "biu" else array.dtype


def _count(shape, axes):
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


@operation()
def sum(input, dim=None, keepdim=False, dtype=None):
    """The sum over ``dim``. Booleans and integers are summed as int64."""
    xp, shape, axes = array_module(input), input.shape, axes_of(dim, input.ndim)
    if dtype is not None:
        input = input.astype(numpy_dtype(dtype))
    return input.sum(axis=axes, keepdims=keepdim, dtype=_total_type(input)), (
        lambda g: xp.broadcast_to(_restored(g, axes, keepdim), shape),
    )


def _check_floating(input, name):
    if input.dtype.kind != "f":
        raise RuntimeError(f"{name} needs a floating-point tensor, got {input.dtype}: use .float()")


@operation()
def mean(input, dim=None, keepdim=False):
    """The mean over ``dim``, of floating-point tensors."""
    _check_floating(input, "mean")
    xp, shape, axes = array_module(input), input.shape, axes_of(dim, input.ndim)
    count = _count(shape, axes)
    total = input.sum(axis=axes, keepdims=keepdim)
    return total / total.dtype.type(count), (
        lambda g: xp.broadcast_to(_restored(g, axes, keepdim) / count, shape),
    )


def _variance(input, axes, correction, keepdim):
    xp = array_module(input)
    count = _count(input.shape, axes)
    deviation = input - input.sum(axis=axes, keepdims=True) / input.dtype.type(count)
    square_sum = (deviation * deviation).sum(axis=axes, keepdims=keepdim)
    degrees = xp.asarray(builtins.max(count - correction, 0), dtype=input.dtype)
    return square_sum / degrees, deviation, degrees


@operation()
def var(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance over ``dim``: squared deviations from the mean, summed, over (count - 1).

    ``unbiased=False``, or ``correction=0``, divides by the count instead.
    """
    _check_floating(input, "var")
    axes = axes_of(dim, input.ndim)
    correction = int(unbiased) if correction is None else correction
    variance, deviation, degrees = _variance(input, axes, correction, keepdim)
    return variance, (lambda g: _restored(g, axes, keepdim) * (2 / degrees) * deviation,)


@operation()
def std(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation over ``dim``, the square root of ``var``."""
    _check_floating(input, "std")
    axes = axes_of(dim, input.ndim)
    correction = int(unbiased) if correction is None else correction
    variance, deviation, degrees = _variance(input, axes, correction, keepdim)
    out = array_module(input).sqrt(variance)
    return out, (lambda g: _restored(g / out, axes, keepdim) / degrees * deviation,)


@operation()
def prod(input, dim=None, keepdim=False):
    """The product over ``dim``. Booleans and integers are multiplied as int64."""
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    result = input.prod(axis=axes, keepdims=keepdim, dtype=_total_type(input))

    def vjp(g):
        """Each element's gradient is the product of all others, also where some are zero."""
        zeros = (input == 0).sum(axis=axes, keepdims=True)
        without_zeros = xp.where(input == 0, input.dtype.type(1), input)
        product = without_zeros.prod(axis=axes, keepdims=True)
        others = xp.where(zeros == 0, product / without_zeros, 0)
        others = xp.where((zeros == 1) & (input == 0), product, others)
        return _restored(g, axes, keepdim) * others.astype(g.dtype)

    return result, (vjp,)


def _extreme(input, axes, keepdim, value):
    """An extreme over several axes; equal elements share the gradient evenly."""
    xp = array_module(input)

    def vjp(g):
        hit = input == _restored(value, axes, keepdim)
        share = hit / hit.sum(axis=axes, keepdims=True)
        return _restored(g, axes, keepdim) * share.astype(g.dtype)

    return xp.asarray(value), (vjp,)


@operation()
def amax(input, dim=None, keepdim=False):
    """The largest element over ``dim``. Equal elements share the gradient."""
    axes = axes_of(dim, input.ndim)
    return _extreme(input, axes, keepdim, input.max(axis=axes, keepdims=keepdim))


@operation()
def amin(input, dim=None, keepdim=False):
    """The smallest element over ``dim``. Equal elements share the gradient."""
    axes = axes_of(dim, input.ndim)
    return _extreme(input, axes, keepdim, input.min(axis=axes, keepdims=keepdim))


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


@operation()
def norm(input, p=2, dim=None, keepdim=False):
    """(sum |x|^p)^(1/p) over ``dim``; the largest |x| for p = inf. Its gradient at 0 is 0."""
    _check_floating(input, "norm")
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    size = xp.abs(input)
    if p == float("inf"):
        length = size.max(axis=axes, keepdims=True)
        ties = (size == length).sum(axis=axes, keepdims=True)
        slope = (size == length) / ties
    else:
        length = (size**p).sum(axis=axes, keepdims=True) ** (1 / p)
        slope = xp.where(length == 0, 0, (size / length) ** (p - 1))
    slope = (xp.sign(input) * slope).astype(input.dtype)
    return length if keepdim else length.squeeze(axes), (
        lambda g: _restored(g, axes, keepdim) * slope,
    )


ValuesIndices = namedtuple("ValuesIndices", ["values", "indices"])


@operation()
def max_with_index(input, dim, keepdim=False):
    """The largest elements along ``dim`` and their positions; the first of equal ones."""
    if not input.ndim:
        return (input.copy(), np.zeros_like(input, dtype=int64.numpy)), lambda grads: (grads[0],)
    (axis,) = axes_of(dim, input.ndim)
    return _picked(input, input.argmax(axis=axis), axis, keepdim)


@operation()
def min_with_index(input, dim, keepdim=False):
    """The smallest elements along ``dim`` and their positions; the first of equal ones."""
    if not input.ndim:
        return (input.copy(), np.zeros_like(input, dtype=int64.numpy)), lambda grads: (grads[0],)
    (axis,) = axes_of(dim, input.ndim)
    return _picked(input, input.argmin(axis=axis), axis, keepdim)


def max(input, dim=None, keepdim=False):
    """The largest element of all; or along ``dim``, with its position; or of two tensors."""
    if dim is None:
        return amax(input)
    if not isinstance(dim, int):
        return maximum(input, dim)
    return ValuesIndices(*max_with_index(input, dim, keepdim))


def min(input, dim=None, keepdim=False):
    """The smallest element of all; or along ``dim``, with its position; or of two tensors."""
    if dim is None:
        return amin(input)
    if not isinstance(dim, int):
        return minimum(input, dim)
    return ValuesIndices(*min_with_index(input, dim, keepdim))


@operation()
def argmax(input, dim=None, keepdim=False):
    """The position of the largest element along ``dim``, or in the flattened tensor."""
    return array_module(input).asarray(input.argmax(axis=dim, keepdims=keepdim)), None


@operation()
def argmin(input, dim=None, keepdim=False):
    """The position of the smallest element along ``dim``, or in the flattened tensor."""
    return array_module(input).asarray(input.argmin(axis=dim, keepdims=keepdim)), None


@operation()
def all(input, dim=None, keepdim=False):
    """Whether every element over ``dim`` is True."""
    return input.all(axis=axes_of(dim, input.ndim), keepdims=keepdim), None


@operation()
def any(input, dim=None, keepdim=False):
    """Whether some element over ``dim`` is True."""
    return input.any(axis=axes_of(dim, input.ndim), keepdims=keepdim), None


@operation()
def cumsum(input, dim):
    """Running sums along ``dim``."""
    xp = array_module(input)
    kind = _total_type(input)
    if not input.ndim:
        return input.astype(kind), lambda g: g
    return input.cumsum(axis=dim, dtype=kind), (
        lambda g: xp.flip(xp.flip(g, dim).cumsum(axis=dim), dim),
    )


@operation(promote="float")
def logsumexp(input, dim, keepdim=False):
    """log(sum(exp(input))) over ``dim``, without overflow.

    log sum_j exp(x_j) = m + log sum_j exp(x_j - m) with m = max_j x_j.
    """
    xp, axes = array_module(input), axes_of(dim, input.ndim)
    largest = input.max(axis=axes, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, input.dtype.type(0))
    total = xp.exp(input - largest).sum(axis=axes, keepdims=True)
    whole = xp.log(total) + largest

    def vjp(g):
        weights = xp.exp(input - xp.where(xp.isfinite(whole), whole, input.dtype.type(0)))
        return _restored(g, axes, keepdim) * weights

    return whole if keepdim else whole.squeeze(axes), (vjp,)


@operation(promote="float")
def softmax(input, dim):
    """exp(x_i) / sum_j exp(x_j) along ``dim``.

    Jacobian: d p_i / d x_j = p_i (1[i = j] - p_j), so the gradient is p * (g - sum(g * p)).
    """
    out = input - input.max(axis=dim, keepdims=True, initial=-np.inf)
    array_module(input).exp(out, out=out)
    out /= out.sum(axis=dim, keepdims=True)

    def vjp(g):
        result = g * out
        result -= out * result.sum(axis=dim, keepdims=True)
        return result

    return out, (vjp,)


@operation(promote="float")
def log_softmax(input, dim):
    """x_i - log(sum_j exp(x_j)) along ``dim``, without overflow."""
    xp = array_module(input)
    out = input - input.max(axis=dim, keepdims=True, initial=-np.inf)
    out -= xp.log(xp.exp(out).sum(axis=dim, keepdims=True))
    return out, (lambda g: g - xp.exp(out) * g.sum(axis=dim, keepdims=True),)


def _order(input, dim, descending):
    """The positions that sort ``input`` along ``dim``; equal elements keep their order."""
    xp = array_module(input)
    if not descending:
        return xp.argsort(input, axis=dim, kind="stable")
    last = input.shape[dim] - 1
    return last - xp.flip(xp.argsort(xp.flip(input, dim), axis=dim, kind="stable"), dim)


@operation()
def sort_(input, dim, descending):
    """See ``sort``."""
    return _taken(input, _order(input, dim, descending), dim)


def sort(input, dim=-1, descending=False):
    """The elements in order along ``dim``, and the positions where they were."""
    return ValuesIndices(*sort_(input, dim, descending))


def argsort(input, dim=-1, descending=False):
    """The positions that sort the elements along ``dim``."""
    return sort(input, dim, descending).indices


@operation()
def topk_(input, k, dim, largest):
    """See ``topk``."""
    xp, size = array_module(input), input.shape[dim]
    if not 0 <= k <= size:
        raise RuntimeError(f"topk needs k between 0 and {size}, the size of dim {dim}; got {k}")
    return _taken(input, xp.take(_order(input, dim, largest), xp.arange(k), axis=dim), dim)


def topk(input, k, dim=-1, largest=True):
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and their positions."""
    return ValuesIndices(*topk_(input, k, dim, largest))
