"""One row an operation: how to draw a call of it, and what it means on arrays.

``ROWS[name](draw)`` returns a ``gradients.Case``. A test fails for an operation without a row.
"""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.backend import array_module
from minitorch.nn.compat.functional import binary_cross_entropy_terms
from minitorch.operations import (
    attention,
    elementwise,
    logic,
    neural,
    products,
    reductions,
    shapes,
)
from minitorch.operations.recurrent import gru, lstm, rnn

ROWS = {}
KINDS = ("tensors", "tensors", "tensors", "number right", "number left")


def row(name):
    def register(make):
        assert name not in ROWS, f"two rows for {name}"
        ROWS[name] = make
        return make

    return register


# Elementwise


def unary(name, reference, domain="any", module=elementwise, **flags):
    function = getattr(module, name)

    @row(name)
    def case(draw):
        return Case(function, [draw.array(draw.shape(), domain)], reference, **flags)


def binary(
    name, reference, domains=("any", "any"), tensors_only=False, module=elementwise, **flags
):
    function = getattr(module, name)

    @row(name)
    def case(draw):
        kind = "tensors" if tensors_only else draw.pick(*KINDS)
        if kind == "tensors":
            drawn = zip(draw.broadcastable(2), domains, strict=True)
            inputs = [draw.array(shape, domain) for shape, domain in drawn]
            return Case(function, inputs, reference, **flags)
        number = draw.pick(2, 0.7, 1.5)
        if kind == "number right":
            inputs = [draw.array(draw.shape(), domains[0])]
            return Case(
                lambda x: function(x, number), inputs, lambda x: reference(x, number), **flags
            )
        inputs = [draw.array(draw.shape(), domains[1])]
        return Case(lambda x: function(number, x), inputs, lambda x: reference(number, x), **flags)


def _sigmoid(x):
    return 1 / (1 + anp.exp(-x))


unary("neg", lambda x: -x)
unary("abs", anp.abs)
unary("sign", anp.sign)
unary("floor", anp.floor)
unary("ceil", anp.ceil)
unary("round", np.round, by_autograd=False)
unary("exp", anp.exp)
unary("log", anp.log, "positive")
unary("log1p", anp.log1p, "positive")
unary("sqrt", anp.sqrt, "positive")
unary("rsqrt", lambda x: 1 / anp.sqrt(x), "positive")
unary("sin", anp.sin)
unary("cos", anp.cos)
unary("tanh", anp.tanh)
unary("sigmoid", _sigmoid)
unary("relu", lambda x: anp.maximum(x, 0))
unary("silu", lambda x: x * _sigmoid(x))
unary("softplus", lambda x: anp.log(1 + anp.exp(x)))
unary("erf", lambda x: np.vectorize(math.erf, otypes=[float])(x), by_autograd=False)
for name in ("logical_not", "isnan", "isinf", "isfinite"):
    unary(name, getattr(np, name), module=logic, differentiable=False)

binary("add", anp.add)
binary("sub", anp.subtract)
binary("mul", anp.multiply)
binary("div", anp.divide, ("any", "nonzero"))
binary("remainder", anp.mod, ("any", "nonzero"), repeatable=False)
binary("maximum", anp.maximum, tensors_only=True)
binary("minimum", anp.minimum, tensors_only=True)
binary("floor_divide", np.floor_divide, ("any", "nonzero"), differentiable=False)


@row("div_rounded")
def _(draw):
    mode = draw.pick("floor", "trunc")
    inputs = [
        draw.array(s, d) for s, d in zip(draw.broadcastable(2), ("any", "nonzero"), strict=True)
    ]
    return Case(
        lambda x, y: x.div(y, rounding_mode=mode),
        inputs,
        lambda x, y: getattr(np, mode)(x / y),
        by_autograd=False,
        repeatable=False,
    )


for name, reference in {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    binary(name, reference, module=logic, differentiable=False)


@row("pow")
def _(draw):
    kind = draw.pick(*KINDS)
    if kind == "tensors":
        inputs = [
            draw.array(s, d)
            for s, d in zip(draw.broadcastable(2), ("positive", "any"), strict=True)
        ]
        return Case(mt.pow, inputs, anp.power)
    if kind == "number left":
        return Case(lambda x: 1.7**x, [draw.array(draw.shape())], lambda x: 1.7**x)
    exponent = draw.pick(0, 1, 2, 3, -1, -2, 0.5, 1.5, 2.0)
    domain = "positive" if exponent % 1 else "nonzero"
    inputs = [draw.array(draw.shape(), domain)]
    return Case(lambda x: mt.pow(x, exponent), inputs, lambda x: x**exponent)


@row("gelu")
def _(draw):
    inputs = [draw.array(draw.shape())]
    if draw.flag():
        return Case(
            lambda x: neural.gelu(x, approximate="tanh"),
            inputs,
            lambda x: 0.5 * x * (1 + anp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        )
    phi = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))), otypes=[float])
    return Case(neural.gelu, inputs, lambda x: x * phi(x), by_autograd=False)


@row("where")
def _(draw):
    shape, *others = draw.broadcastable(3)
    condition = draw.mask(shape)
    inputs = [draw.array(shape) for shape in others]
    return Case(
        lambda a, b: mt.where(mt.tensor(condition), a, b),
        inputs,
        lambda a, b: condition * a + ~condition * b,
    )


@row("masked_fill")
def _(draw):
    shape, mask_shape = draw.broadcastable(2)
    mask = draw.mask(mask_shape)
    return Case(
        lambda x: x.masked_fill(mt.tensor(mask), -3.5),
        [draw.array(shape)],
        lambda x: ~mask * x - 3.5 * mask,
    )


@row("clamp")
def _(draw):
    if draw.flag():
        inputs = [draw.array(shape) for shape in draw.broadcastable(3)]
        kind = draw.pick("min", "max", "both")
        if kind != "both":
            reference = anp.maximum if kind == "min" else anp.minimum
            return Case(lambda x, y: x.clamp(**{kind: y}), inputs[:2], reference, repeatable=False)
        return Case(
            lambda x, low, high: x.clamp(low, high),
            inputs,
            lambda x, low, high: anp.minimum(anp.maximum(x, low), high),
            repeatable=False,
        )
    low, high = draw.pick((-0.5, None), (None, 0.5), (-0.5, 0.5), (-1, 1))
    ends = (-np.inf if low is None else low, np.inf if high is None else high)
    return Case(
        lambda x: x.clamp(low, high), [draw.array(draw.shape())], lambda x: anp.clip(x, *ends)
    )


def whole_numbers(name, reference, count):
    """Operations on booleans and integers; the floating-point input is only a carrier."""

    @row(name)
    def case(draw):
        arrays = [draw.array(shape) for shape in draw.broadcastable(count)]
        kind = draw.pick("bool", "int64")

        def function(*tensors):
            integers = [(4 * t.detach()).long() for t in tensors]
            return getattr(logic, name)(*(i > 0 if kind == "bool" else i for i in integers))

        def expected(*arrays):
            integers = [(4 * x).astype(np.int64) for x in arrays]
            return reference(*(i > 0 if kind == "bool" else i for i in integers))

        return Case(function, arrays, expected, differentiable=False)


whole_numbers("bitwise_and", np.bitwise_and, 2)
whole_numbers("bitwise_or", np.bitwise_or, 2)
whole_numbers("bitwise_xor", np.bitwise_xor, 2)
whole_numbers("bitwise_not", np.bitwise_not, 1)


# Reductions


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


# Shapes


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


# Positions


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


# Products


@row("matmul")
def _(draw):
    n, d, m = (draw.int(0, 3) for _ in range(3))
    lead, other_lead = draw.broadcastable(2)
    first = draw.pick((d,), (n, d), (*lead, n, d))
    second = draw.pick((d,), (d, m), (*other_lead, d, m))
    return Case(mt.matmul, [draw.array(first), draw.array(second)], anp.matmul)


@row("linear")
def _(draw):
    features, out = draw.int(0, 4), draw.int(0, 4)
    lead = draw.shape()
    inputs = [draw.array((*lead, features)), draw.array((out, features))]
    if draw.flag():
        return Case(products.linear, inputs, lambda x, w: anp.dot(x, w.T))
    inputs.append(draw.array((out,)))
    return Case(products.linear, inputs, lambda x, w, b: anp.dot(x, w.T) + b)


EQUATIONS = (
    "ij,jk->ik",
    "ij,jk",
    "bij,bjk->bik",
    "bhqd,bhkd->bhqk",
    "bqk,bkd->bqd",
    "ij->ji",
    "ijk->j",
    "ij->",
    "ij,ij->",
    "i,j->ij",
    "i,i,i->i",
    "ij,jk,kl->il",
    "ij,k->k",
    "...ij,...jk->...ik",
    "...i,i->...",
    " i j , j -> i ",
    "ii->i",
    "ii",
    "iij->j",
)


@row("einsum_")
def _(draw):
    equation = draw.pick(*EQUATIONS)
    sizes = {c: draw.int(0, 3) for c in "ijklbhqd"}
    operands = equation.replace(" ", "").partition("->")[0].split(",")
    batches = iter(draw.broadcastable(2))
    inputs = []
    for subscripts in operands:
        batch = next(batches) if "..." in subscripts else ()
        inputs.append(draw.array(batch + tuple(sizes[c] for c in subscripts.replace("...", ""))))
    return Case(
        lambda *xs: mt.einsum(equation, *xs),
        inputs,
        lambda *xs: anp.einsum(equation, *xs),
        by_autograd="ii" not in equation and "->" in equation and " " not in equation,
    )


# Neural networks


@row("dropout")
def _(draw):
    p, seed = draw.pick(0.0, 0.3, 0.9, 1), draw.int(0, 9)
    array = draw.array(draw.shape())
    kept = np.random.default_rng(seed).random(array.shape, dtype=np.float32) >= p
    scale = kept / (1 - p) if p < 1 else np.zeros(array.shape)
    return Case(
        lambda x: neural.dropout(x, p, mt.Generator().manual_seed(seed)),
        [array],
        lambda x: x * scale,
    )


@row("embedding")
def _(draw):
    rows = draw.int(1, 5)
    index = draw.indices(draw.shape(), rows)
    weight = draw.array((rows, draw.int(0, 3)))
    return Case(lambda w: neural.embedding(mt.tensor(index), w), [weight], lambda w: w[index])


@row("layer_norm")
def _(draw):
    shape = draw.shape(max_dims=2, min_dims=0) + draw.shape(min_dims=1, max_dims=2, min_side=1)
    axes = draw.int(1, min(2, len(shape)))
    if 0 in shape[-axes:]:
        axes = 1
    over = tuple(range(-axes, 0))
    inputs = [draw.array(shape)]
    kind = draw.pick("plain", "weight", "weight and bias")
    if kind != "plain":
        inputs.append(draw.array(shape[-axes:]))
    if kind == "weight and bias":
        inputs.append(draw.array(shape[-axes:]))

    def reference(x, weight=1.0, bias=0.0):
        mean = anp.mean(x, axis=over, keepdims=True)
        variance = anp.mean((x - mean) ** 2, axis=over, keepdims=True)
        return (x - mean) / anp.sqrt(variance + 1e-5) * weight + bias

    return Case(lambda x, *rest: neural.layer_norm(x, axes, *rest), inputs, reference)


@row("binary_cross_entropy_terms")
def _(draw):
    shape = draw.shape()
    inputs = [np.asarray(abs(draw.array(shape)) / 3 + shift) for shift in (0.1, 0.0)]

    def reference(x, y):
        return -(y * anp.log(x) + (1 - y) * anp.log(1 - x))

    return Case(binary_cross_entropy_terms, inputs, reference)


@row("scaled_dot_product_attention")
def _(draw):
    n, m, d = draw.int(0, 4), draw.int(0, 4), draw.int(1, 3)
    lead, key_lead, mask_lead = draw.broadcastable(3)
    inputs = [
        draw.array((*lead, n, d)),
        draw.array((*key_lead, m, d)),
        draw.array((*key_lead, m, draw.int(0, 3))),
    ]
    kind, is_causal = draw.pick("none", "bool", "float", "learned"), draw.flag()
    scale = draw.pick(None, 0.5)
    mask = None
    if kind == "bool":
        mask = draw.mask((*mask_lead, n, m))
        mask[..., 0:1] = True
    elif kind != "none":
        mask = draw.array((*mask_lead, draw.pick(1, n), draw.pick(1, m)))
    if kind == "learned":
        inputs.append(mask)

    def function(query, key, value, learned=None):
        fixed = (
            None if mask is None else mt.tensor(mask).to(mt.bool if kind == "bool" else query.dtype)
        )
        return attention.scaled_dot_product_attention(
            query,
            key,
            value,
            fixed if learned is None else learned,
            0.0,
            is_causal,
            scale,
            learned is not None,
        )

    def reference(query, key, value, learned=None):
        scores = anp.matmul(query, anp.swapaxes(key, -1, -2)) * (scale or 1 / math.sqrt(d))
        if kind == "bool":
            scores = anp.where(mask, scores, -1e9)
        elif kind != "none":
            scores = scores + (mask if learned is None else learned)
        if is_causal:
            scores = anp.where(np.tri(n, m, dtype=bool), scores, -1e9)
        weights = anp.exp(scores - anp.max(scores, axis=-1, keepdims=True, initial=-1e9))
        return anp.matmul(weights / anp.sum(weights, axis=-1, keepdims=True), value)

    return Case(function, inputs, reference)


@row("cross_entropy")
def _(draw):
    classes, reduction = draw.int(1, 4), draw.pick("mean", "sum", "none")
    count = draw.int(1 if reduction == "mean" else 0, 4)
    target = draw.indices((count,), classes)
    ignored = draw.pick(-100, -1)
    target[1:][draw.mask(max(count - 1, 0))] = ignored
    smoothing = draw.pick(0.0, 0.1)
    weight = draw.pick(None, "weighted") and np.abs(draw.array((classes,), "positive"))
    class_weight = np.ones(classes) if weight is None else weight
    valid = target != ignored
    one_hot = np.eye(classes)[np.where(valid, target, 0)] * valid[:, None]
    spread = ((1 - smoothing) * one_hot + smoothing / classes * valid[:, None]) * class_weight
    total = (one_hot * class_weight).sum()

    def reference(x):
        log_p = x - anp.log(anp.sum(anp.exp(x), axis=1, keepdims=True))
        losses = -anp.sum(spread * log_p, axis=1)
        if reduction == "none":
            return losses
        return anp.sum(losses) / (total if reduction == "mean" else 1)

    return Case(
        lambda x: neural.cross_entropy(
            x,
            mt.tensor(target),
            None if weight is None else mt.tensor(weight).to(x.dtype),
            ignored,
            reduction,
            smoothing,
        ),
        [draw.array((count, classes))],
        reference,
    )


# Recurrent layers. ``_SIZES`` below are sequences that still run at each step, longest first.

_SIZES = ([1], [2, 2], [2, 1], [3, 1, 1], [0, 0])


def recurrent(operation, gates, cells, reference_step):
    """A row for a whole-sequence operation: ``reference_step`` computes a step of all sequences."""

    @row(operation.__name__)
    def case(draw):
        sizes, packed, reverse = draw.pick(*_SIZES), draw.flag(), draw.flag()
        sizes = sizes if packed else [sizes[0]] * len(sizes)
        width, size = draw.int(0, 2), draw.int(1, 2)
        options = (draw.pick("tanh", "relu"),) if operation is rnn else ()
        lead = (sum(sizes),) if packed else (len(sizes), sizes[0])
        shapes_ = [(*lead, width)] + [(sizes[0], size)] * (1 + cells)
        shapes_ += [(gates * size, width), (gates * size, size)]
        shapes_ += [(gates * size,)] * draw.pick(0, 2)
        biases = len(shapes_) == 6 + cells
        start = np.cumsum([0, *sizes])

        def reference(x, *rest):
            states, weights = list(rest[: 1 + cells]), rest[1 + cells :]
            w_ih, w_hh, b_ih, b_hh = weights if biases else (*weights, 0.0, 0.0)
            rows, results = anp.reshape(x, (sum(sizes), width)), [None] * len(sizes)
            for t in range(len(sizes))[:: -1 if reverse else 1]:
                n = sizes[t]
                from_x = anp.dot(rows[start[t] : start[t] + n], w_ih.T) + b_ih
                from_h = anp.dot(states[0][:n], w_hh.T) + b_hh
                blocks = [
                    [a[:, k * size : (k + 1) * size] for k in range(gates)]
                    for a in (from_x, from_h)
                ]
                new = reference_step(*blocks, *(s[:n] for s in states), *options)
                states = [anp.concatenate([a, s[n:]]) for a, s in zip(new, states, strict=True)]
                results[t] = new[0]
            return anp.reshape(anp.concatenate(results), (*lead, size)), *states

        def function(*inputs):
            none = () if biases else (None, None)
            return operation(*inputs, *none, sizes if packed else None, reverse, *options)

        inputs = [draw.array(shape) for shape in shapes_]
        return Case(function, inputs, reference, repeatable=False)


def _rnn_step(x, h, state, nonlinearity):
    total = x[0] + h[0]
    return (anp.tanh(total) if nonlinearity == "tanh" else anp.maximum(total, 0),)


def _lstm_step(x, h, state, cell):
    i, f, g, o = (a + b for a, b in zip(x, h, strict=True))
    cell = _sigmoid(f) * cell + _sigmoid(i) * anp.tanh(g)
    return _sigmoid(o) * anp.tanh(cell), cell


def _gru_step(x, h, state):
    r, z = (_sigmoid(a + b) for a, b in zip(x[:2], h[:2], strict=True))
    new = anp.tanh(x[2] + r * h[2])
    return ((1 - z) * new + z * state,)


recurrent(rnn, 1, 0, _rnn_step)
recurrent(lstm, 4, 1, _lstm_step)
recurrent(gru, 3, 0, _gru_step)
