"""Operations that read or write by position."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from rows.table import row


def _slice(draw, size):
    start = draw.pick(None, *range(-size - 1, size + 2))
    stop = draw.pick(None, *range(-size - 1, size + 2))
    return slice(start, stop, draw.pick(None, 1, 2, 3))


def _index(draw, shape, repeated=True):
    """Of one of four kinds: basic, arrays of integers with slices, one boolean array, empty."""
    kind = draw.pick("basic", "arrays", "mask", "nothing")
    if kind == "mask":
        axes = draw.int(1, len(shape))
        return draw.mask(shape[:axes])
    if kind == "nothing":
        return ...
    parts = []
    length = draw.int(0, 4) if repeated else draw.int(0, min(shape))
    for i, size in enumerate(shape[: draw.int(1, len(shape))]):
        choice = draw.int(0, 2)
        if choice == 0 or (kind == "arrays" and i):
            parts.append(_slice(draw, size))
        elif kind == "arrays" and repeated:
            parts.append(draw.indices((length,), size) - draw.int(0, 1) * size)
        elif kind == "arrays":
            parts.append(np.asarray(draw.order(size)[:length], dtype=np.int64))
        else:
            parts.append(draw.int(-size, size - 1))
    if draw.flag() and kind == "basic":
        parts.insert(draw.int(0, len(parts)), None)
    if draw.flag():
        parts.append(...)
    return tuple(parts)


def _as_tensors(index):
    if isinstance(index, tuple):
        return tuple(_as_tensors(part) for part in index)
    return mt.tensor(index) if isinstance(index, np.ndarray) else index


@row("getitem")
def _(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    index = _index(draw, shape)
    return Case(lambda x: x[_as_tensors(index)], [draw.array(shape)], lambda x: 1 * x[index])


@row("setitem")
def _(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    index = _index(draw, shape, repeated=False)
    place = np.zeros(shape)[index].shape
    value_shape = draw.pick(place, (), place[1:])

    def function(x, value):
        result = x * 1
        result[_as_tensors(index)] = value
        return result

    def reference(x, value):
        result = x.copy()
        result[index] = value
        return result

    inputs = [draw.array(shape), draw.array(value_shape)]
    return Case(function, inputs, reference, by_autograd=False, repeatable=False)


@row("gather")
def _(draw):
    shape = draw.shape(min_side=1)
    dim = draw.axis(len(shape) or 1)
    axis = dim % (len(shape) or 1)
    wanted = tuple(draw.int(0, 4) if i == axis else draw.int(0, n) for i, n in enumerate(shape))
    if not shape and draw.flag():
        wanted = (draw.int(0, 3),)
    index = np.asarray(draw.indices(wanted, (shape or (1,))[axis]), draw.pick("int32", "int64"))
    places = list(np.indices(wanted))
    places[axis : axis + 1] = [index]
    return Case(
        lambda x: x.gather(dim, mt.tensor(index)),
        [draw.array(shape)],
        lambda x: anp.reshape(x, shape or (1,))[tuple(places)],
    )


@row("index_select")
def _(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    dim = draw.axis(len(shape))
    index = draw.indices((draw.int(0, 5),), shape[dim])
    lead = (slice(None),) * (dim % len(shape))
    return Case(
        lambda x: x.index_select(dim, mt.tensor(index)),
        [draw.array(shape)],
        lambda x: x[(*lead, index)],
    )


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
        lambda w: mt.bincount(mt.tensor(numbers), w.detach(), length),
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
