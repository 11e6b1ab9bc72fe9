"""Operations that move elements without changing them."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.backend import array_module
from minitorch.operations import shapes
from rows.table import row


@row("reshape")
def _(draw):
    shape = draw.shape()
    size = math.prod(shape)
    target = draw.pick((size,), (1, size), (size, 1), (-1,) if size else (0, 2), shape[::-1])
    return Case(lambda x: x.reshape(target), [draw.array(shape)], lambda x: anp.reshape(x, target))


@row("view")
def _(draw):
    shape = draw.shape()
    size = math.prod(shape)
    target = draw.pick((size,), (1, size), shape[::-1], (*shape, 1))
    array = np.ascontiguousarray(draw.array(shape)).reshape(shape)
    return Case(lambda x: x.view(target), [array], lambda x: anp.reshape(x, target))


@row("contiguous_")
def _(draw):
    return Case(lambda x: shapes.contiguous_(x), [draw.array(draw.shape())], anp.array)


@row("permute")
def _(draw):
    shape = draw.shape(max_dims=4, max_side=3)
    order = tuple(d - len(shape) if draw.flag() else d for d in draw.order(len(shape)))
    axes = tuple(d % len(shape) for d in order)
    return Case(lambda x: x.permute(order), [draw.array(shape)], lambda x: anp.transpose(x, axes))


@row("transpose")
def _(draw):
    shape = draw.shape(min_dims=1)
    first, second = draw.axis(len(shape)), draw.axis(len(shape))
    return Case(
        lambda x: x.transpose(first, second),
        [draw.array(shape)],
        lambda x: anp.swapaxes(x, first, second),
    )


@row("squeeze")
def _(draw):
    shape = draw.shape(min_dims=1, max_side=2)
    dim = draw.axes(len(shape))
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = tuple(d for d in dims if shape[d] == 1)
    return Case(lambda x: x.squeeze(dim), [draw.array(shape)], lambda x: anp.squeeze(x, axes))


@row("unsqueeze")
def _(draw):
    shape = draw.shape()
    dim = draw.int(-len(shape) - 1, len(shape))
    return Case(lambda x: x.unsqueeze(dim), [draw.array(shape)], lambda x: anp.expand_dims(x, dim))


@row("expand")
def _(draw):
    shape = draw.shape(max_side=2)
    grown = tuple(draw.int(0, 3) if n == 1 else n for n in shape)
    target = draw.shape(max_dims=1) + grown
    sizes = tuple(
        -1 if i >= len(target) - len(shape) and n == shape[i - len(target)] else n
        for i, n in enumerate(target)
    )
    return Case(lambda x: x.expand(sizes), [draw.array(shape)], lambda x: x * np.ones(target))


def _same(name, function):
    @row(name)
    def case(draw):
        return Case(function, [draw.array(draw.shape())], lambda x: 1 * x)


_same("clone", shapes.clone)
_same("to_dtype", lambda x: shapes.to_dtype(x, np.dtype("float64")))
_same("to_module", lambda x: shapes.to_module(x, array_module(x.array)))


@row("flip")
def _(draw):
    shape = draw.shape(min_dims=1)
    dims = draw.order(len(shape))[: draw.int(1, len(shape))]
    index = tuple(slice(None, None, -1 if i in dims else 1) for i in range(len(shape)))
    return Case(lambda x: x.flip(dims), [draw.array(shape)], lambda x: x[index])


@row("roll")
def _(draw):
    shape = draw.shape(min_dims=1)
    if draw.flag():
        dim, shift = draw.pick(None, draw.axis(len(shape))), draw.int(-3, 3)
    else:
        dim = draw.order(len(shape))
        shift = tuple(draw.int(-2, 2) for _ in dim)
    return Case(
        lambda x: x.roll(shift, dim),
        [draw.array(shape)],
        lambda x: np.roll(x, shift, dim),
        by_autograd=False,
    )


@row("repeat")
def _(draw):
    shape = draw.shape(max_dims=2)
    sizes = tuple(draw.int(0, 2) for _ in range(len(shape) + draw.int(0, 1)))
    return Case(
        lambda x: x.repeat(sizes),
        [draw.array(shape)],
        lambda x: np.tile(x, sizes),
        by_autograd=False,
    )


def _triangle(name):
    @row(name)
    def case(draw):
        shape = draw.shape(min_dims=2)
        k = draw.int(-3, 3)
        kept = getattr(np, name)(np.ones(shape), k)
        return Case(lambda x: getattr(x, name)(k), [draw.array(shape)], lambda x: x * kept)


_triangle("tril")
_triangle("triu")


@row("cat_")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim, count = draw.axis(len(shape)), draw.int(1, 3)
    sizes = [list(shape) for _ in range(count)]
    for size in sizes:
        size[dim] = draw.int(0, 3)
    return Case(
        lambda *xs: mt.cat(xs, dim),
        [draw.array(tuple(size)) for size in sizes],
        lambda *xs: anp.concatenate(xs, axis=dim),
    )


@row("stack_")
def _(draw):
    shape = draw.shape(max_dims=2)
    dim = draw.int(-len(shape) - 1, len(shape))
    inputs = [draw.array(shape) for _ in range(draw.int(1, 3))]
    return Case(lambda *xs: mt.stack(xs, dim), inputs, lambda *xs: anp.stack(xs, axis=dim))


@row("split_with_sizes")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))
    cuts = sorted(draw.int(0, shape[dim]) for _ in range(draw.int(0, 3)))
    sizes = np.diff([0, *cuts, shape[dim]]).tolist()
    used = draw.int(0, len(sizes) - 1)  # the other pieces get no gradient
    ends = np.cumsum(sizes)
    lead = (slice(None),) * (dim % len(shape))
    return Case(
        lambda x: x.split(sizes, dim)[used],
        [draw.array(shape)],
        lambda x: x[(*lead, slice(int(ends[used] - sizes[used]), int(ends[used])))],
    )


@row("unbind")
def _(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    dim = draw.axis(len(shape))
    lead = (slice(None),) * (dim % len(shape))
    used = draw.order(shape[dim])[: draw.int(1, shape[dim])]
    return Case(
        lambda x: tuple(x.unbind(dim)[i] for i in used),
        [draw.array(shape)],
        lambda x: tuple(x[(*lead, i)] for i in used),
    )


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
