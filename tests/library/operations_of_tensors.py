"""More rows of ``operations_table``: functions, positions, diagonals."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case
from operations_table import binary, row, unary

import minitorch as mt
from minitorch.compat import functions
from minitorch.operations import logic, shapes

# Elementwise

unary("trunc", np.trunc, by_autograd=False)
unary("expm1", anp.expm1)
unary("log2", anp.log2, "positive")
unary("log10", anp.log10, "positive")
unary("square", lambda x: x * x)
unary("reciprocal", lambda x: 1 / x, "nonzero")
unary("tan", anp.tan, "positive", repeatable=False)
unary("atan", anp.arctan)
unary("sinh", anp.sinh)
unary("cosh", anp.cosh)
binary("logaddexp", anp.logaddexp, tensors_only=True, module=functions)
binary("fmod", np.fmod, ("any", "nonzero"), repeatable=False, by_autograd=False)
for name in ("logical_and", "logical_or", "logical_xor"):
    binary(name, getattr(np, name), tensors_only=True, module=logic, differentiable=False)
unary("nan_to_num", np.nan_to_num, module=functions, by_autograd=False)
binary("isclose", np.isclose, tensors_only=True, module=logic, differentiable=False)


def _inverse(name, reference):
    @row(name)
    def case(draw):
        inputs = [np.asarray(draw.array(draw.shape()) / 2.1)]
        return Case(getattr(mt, name), inputs, reference)


_inverse("asin", anp.arcsin)
_inverse("acos", anp.arccos)


# Reductions


@row("count_nonzero")
def _(draw):
    array = draw.array(draw.shape(min_dims=1))
    array[draw.mask(array.shape)] = 0
    dim = draw.axes(array.ndim)
    return Case(
        lambda x: x.count_nonzero(dim),
        [array],
        lambda x: np.asarray(np.count_nonzero(x, axis=dim)),
        differentiable=False,
    )


@row("cumprod")
def _(draw):
    array = draw.array(draw.shape(min_dims=1))
    array.flat[: draw.int(0, 2)] = 0
    dim = draw.axis(array.ndim)
    return Case(
        lambda x: x.cumprod(dim), [array], lambda x: np.cumprod(x, axis=dim), by_autograd=False
    )


# Diagonals


@row("diagonal")
def _(draw):
    shape = draw.shape(min_dims=2)
    first, second, *_ = draw.order(len(shape))
    offset, back = draw.int(-5, 5), draw.pick(0, len(shape))
    return Case(
        lambda x: x.diagonal(offset, first, second - back),
        [draw.array(shape)],
        lambda x: np.diagonal(x, offset, first, second),
        by_autograd=False,
    )


@row("diag_embed")
def _(draw):
    shape, offset = draw.shape(min_dims=1), draw.int(-2, 2)

    def reference(x):
        places = np.eye(x.shape[-1] + abs(offset), k=offset, dtype=bool)
        result = np.zeros((*x.shape[:-1], *places.shape))
        result[..., places] = x
        return result

    return Case(
        lambda x: shapes.diag_embed(x, offset), [draw.array(shape)], reference, by_autograd=False
    )


# Positions


@row("nonzero_")
def _(draw):
    array = draw.array(draw.shape())
    array[draw.mask(array.shape)] = 0
    return Case(mt.nonzero, [array], np.argwhere, differentiable=False)


@row("unique_")
def _(draw):
    array = draw.array(draw.shape())
    array.flat[:3] = 0.5
    dim = draw.pick(None, draw.axis(array.ndim)) if array.ndim and array.size else None

    def reference(x):
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
        return values, inverse.reshape(x.shape if dim is None else -1), counts

    return Case(
        lambda x: mt.unique(x, return_inverse=True, return_counts=True, dim=dim),
        [array],
        reference,
        differentiable=False,
    )


@row("bincount")
def _(draw):
    numbers = draw.indices((draw.int(0, 6),), 5)
    length = draw.int(0, 7)
    return Case(
        lambda w: mt.bincount(mt.tensor(numbers), w, length),
        [draw.array(numbers.shape)],
        lambda w: np.bincount(numbers, w, length).astype(w.dtype),
        differentiable=False,
    )


def _along(draw, repeated):
    """A shape, an axis, an index for ``gather`` along it, and its places for NumPy."""
    shape = draw.shape(min_side=1)
    dim = draw.axis(len(shape) or 1)
    axis, kind = dim % (len(shape) or 1), draw.pick("int32", "int64")
    wanted = tuple(
        draw.int(0, 4 if repeated else n) if i == axis else draw.int(0, n)
        for i, n in enumerate(shape)
    )
    if not shape:
        index = np.zeros((), kind)
    elif repeated:
        index = np.asarray(draw.indices(wanted, shape[axis]), kind)
    else:
        index = draw.rng().permuted(np.indices(shape)[axis], axis=axis)
        index = np.array(index[tuple(map(slice, wanted))], kind)
    places = list(np.indices(wanted))
    places[axis : axis + 1] = [index]
    return shape, dim, index, tuple(places)


def _scatter(name, write, repeated):
    @row(name)
    def case(draw):
        shape, dim, index, places = _along(draw, repeated)
        larger = tuple(n + draw.int(0, 1) for n in index.shape)
        part = tuple(map(slice, index.shape))

        def reference(x, src):
            result = x.copy()
            write(result.reshape(shape or (1,)), places, src[part])
            return result

        return Case(
            lambda x, src: getattr(x, name)(dim, mt.tensor(index), src),
            [draw.array(shape), draw.array(larger)],
            reference,
            by_autograd=False,
        )


_scatter("scatter", np.ndarray.__setitem__, repeated=False)
_scatter("scatter_add", np.add.at, repeated=True)


def _slices(name, write, repeated=False, number=False):
    @row(name)
    def case(draw):
        shape = draw.shape(min_side=1)
        dim = draw.axis(len(shape) or 1)
        axis = dim % (len(shape) or 1)
        if not shape:
            index = np.zeros((), np.int64)
        elif repeated:
            index = draw.indices((draw.int(0, 5),), shape[axis])
        else:
            index = np.asarray(draw.order(shape[axis])[: draw.int(0, shape[axis])], dtype=np.int64)
        places = (slice(None),) * axis + (index,)

        def reference(x, source=-1.5):
            result = x.copy()
            write(result.reshape(shape or (1,)), places, source)
            return result

        inputs = [draw.array(shape)]
        if not number:
            inputs.append(draw.array((*shape[:axis], *index.shape, *shape[axis + 1 :])))
        elif draw.flag():
            inputs.append(draw.array(()))
            index = index - draw.int(0, 1) * (shape or (1,))[axis]
        return Case(
            lambda x, source=-1.5: getattr(x, name)(dim, mt.tensor(index), source),
            inputs,
            reference,
            by_autograd=False,
        )


_slices("index_add", np.add.at, repeated=True)
_slices("index_copy", np.ndarray.__setitem__)
_slices("index_fill", np.ndarray.__setitem__, number=True)


@row("repeat_interleave_")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.pick(None, draw.axis(len(shape)))
    count = math.prod(shape) if dim is None else shape[dim]
    repeats = draw.pick(draw.int(0, 3), draw.indices((count,), 4))
    return Case(
        lambda x: x.repeat_interleave(
            repeats if isinstance(repeats, int) else mt.tensor(repeats), dim
        ),
        [draw.array(shape)],
        lambda x: np.repeat(x, repeats, axis=dim),
        by_autograd=False,
    )


@row("masked_select")
def _(draw):
    shape, mask_shape = draw.broadcastable(2)
    mask = draw.mask(mask_shape)
    return Case(
        lambda x: x.masked_select(mt.tensor(mask)),
        [draw.array(shape)],
        lambda x: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
        by_autograd=False,
    )


@row("masked_scatter")
def _(draw):
    shape = draw.shape()
    mask = draw.mask(shape)
    source = draw.array((int(mask.sum()) + draw.int(0, 2),))

    def reference(x, source):
        result = x.copy()
        result[mask] = source[: mask.sum()]
        return result

    return Case(
        lambda x, s: x.masked_scatter(mt.tensor(mask), s),
        [draw.array(shape), source],
        reference,
        by_autograd=False,
    )


@row("accumulated")
def _(draw):
    shape, length = draw.shape(min_dims=1, min_side=1), draw.int(0, 5)
    places = tuple(draw.indices((length,), size) for size in shape[: draw.int(1, 3)])
    values = draw.pick((), places[0].shape + shape[len(places) :])

    def reference(x, values):
        result = x.copy()
        np.add.at(result, places, values)
        return result

    return Case(
        lambda x, values: x.index_put(tuple(map(mt.tensor, places)), values, accumulate=True),
        [draw.array(shape), draw.array(values)],
        reference,
        by_autograd=False,
        repeatable=False,
    )
