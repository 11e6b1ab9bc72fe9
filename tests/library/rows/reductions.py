"""Operations that combine the elements along an axis."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

from minitorch.operations import reductions
from rows.table import row


def _np_axis(dim):
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def reduction(name, reference, min_side=0, domain="any", function=None, **flags):
    operation = function or getattr(reductions, name)

    @row(name)
    def case(draw):
        shape = draw.shape(min_side=min_side)
        dim, keepdim = draw.axes(len(shape)), draw.flag()
        return Case(
            lambda x: operation(x, dim, keepdim=keepdim),
            [draw.array(shape, domain)],
            lambda x: reference(x, axis=_np_axis(dim), keepdims=keepdim),
            **flags,
        )


reduction("sum", anp.sum)
reduction("mean", anp.mean, min_side=1)
reduction("amax", anp.max, min_side=1)
reduction("amin", anp.min, min_side=1)
reduction(
    "all",
    lambda x, **kw: np.all(x > 0, **kw),
    function=lambda x, dim, keepdim: reductions.all(x > 0, dim, keepdim),
    differentiable=False,
)
reduction(
    "any",
    lambda x, **kw: np.any(x > 0, **kw),
    function=lambda x, dim, keepdim: reductions.any(x > 0, dim, keepdim),
    differentiable=False,
)


@row("prod")
def _(draw):
    shape = draw.shape()
    dim, keepdim = draw.axes(len(shape)), draw.flag()
    array = draw.array(shape)
    zeros = draw.int(0, 2)
    array.flat[:zeros] = 0
    return Case(
        lambda x: x.prod(dim, keepdim),
        [array],
        lambda x: anp.prod(x, axis=dim, keepdims=keepdim),
        by_autograd=not zeros,
    )


def _spread(name):
    @row(name)
    def case(draw):
        shape = draw.shape(min_dims=1, min_side=2)
        dim, keepdim, correction = draw.axes(len(shape)), draw.flag(), draw.int(0, 1)
        options = {"correction": correction} if draw.flag() else {"unbiased": bool(correction)}
        return Case(
            lambda x: getattr(reductions, name)(x, dim, keepdim=keepdim, **options),
            [draw.array(shape)],
            lambda x: getattr(anp, name)(x, axis=dim, keepdims=keepdim, ddof=correction),
        )


_spread("var")
_spread("std")


@row("norm")
def _(draw):
    shape = draw.shape(min_side=1)
    p, dim, keepdim = draw.pick(1, 2, 3, math.inf), draw.axes(len(shape)), draw.flag()

    def reference(x):
        if p == math.inf:
            return anp.max(anp.abs(x), axis=dim, keepdims=keepdim)
        return anp.sum(anp.abs(x) ** p, axis=dim, keepdims=keepdim) ** (1 / p)

    return Case(lambda x: x.norm(p, dim, keepdim), [draw.array(shape)], reference)


def _with_index(name, extreme, position):
    @row(name)
    def case(draw):
        shape = draw.shape(min_dims=1, min_side=1)
        dim, keepdim = draw.axis(len(shape)), draw.flag()

        def reference(x):
            where = position(getattr(x, "_value", x), axis=dim, keepdims=keepdim)
            return extreme(x, axis=dim, keepdims=keepdim), where

        return Case(
            lambda x: getattr(reductions, name)(x, dim, keepdim), [draw.array(shape)], reference
        )


_with_index("max_with_index", anp.max, np.argmax)
_with_index("min_with_index", anp.min, np.argmin)


def _position(name):
    @row(name)
    def case(draw):
        shape = draw.shape(min_side=1)
        dim = draw.axis(len(shape)) if shape and draw.flag() else None
        keepdim = draw.flag()
        return Case(
            lambda x: getattr(reductions, name)(x, dim, keepdim),
            [draw.array(shape)],
            lambda x: np.asarray(getattr(np, name)(x, axis=dim, keepdims=keepdim)),
            differentiable=False,
        )


_position("argmax")
_position("argmin")


@row("cumsum")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))
    return Case(lambda x: x.cumsum(dim), [draw.array(shape)], lambda x: anp.cumsum(x, axis=dim))


@row("logsumexp")
def _(draw):
    shape = draw.shape(min_side=1)
    dim, keepdim = draw.axes(len(shape)), draw.flag()
    return Case(
        lambda x: x.logsumexp(dim, keepdim),
        [draw.array(shape)],
        lambda x: anp.log(anp.sum(anp.exp(x), axis=dim, keepdims=keepdim)),
    )


def _softmax(x, dim):
    e = anp.exp(x)
    return e / anp.sum(e, axis=dim, keepdims=True)


@row("softmax")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))
    return Case(lambda x: x.softmax(dim), [draw.array(shape)], lambda x: _softmax(x, dim))


@row("log_softmax")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))
    return Case(
        lambda x: x.log_softmax(dim), [draw.array(shape)], lambda x: anp.log(_softmax(x, dim))
    )


def _sorted(x, dim, descending, count=None):
    order = np.argsort(-x if descending else x, axis=dim, kind="stable")
    order = np.take(order, np.arange(order.shape[dim] if count is None else count), axis=dim)
    return np.take_along_axis(x, order, axis=dim), order


@row("sort_")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim, descending = draw.axis(len(shape)), draw.flag()
    return Case(
        lambda x: tuple(x.sort(dim, descending)),
        [draw.array(shape)],
        lambda x: _sorted(x, dim, descending),
        by_autograd=False,
    )


@row("topk_")
def _(draw):
    shape = draw.shape(min_dims=1)
    dim, largest = draw.axis(len(shape)), draw.flag()
    k = draw.int(0, shape[dim])
    return Case(
        lambda x: tuple(x.topk(k, dim, largest)),
        [draw.array(shape)],
        lambda x: _sorted(x, dim, largest, k),
        by_autograd=False,
    )


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
