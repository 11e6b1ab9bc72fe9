"""What no chapter uses."""

import itertools
import math
import statistics

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.compat import functions, products
from minitorch.nn.compat.ctc import ctc
from minitorch.nn.compat.functional import binary_cross_entropy_terms
from rows.table import binary, row, unary

unary(functions.log1p, anp.log1p, "positive")
unary(functions.softplus, lambda x: anp.log(1 + anp.exp(x)))
unary(functions.erf, lambda x: np.vectorize(math.erf, otypes=[float])(x), by_autograd=False)
unary(functions.expm1, anp.expm1)
unary(functions.exp2, anp.exp2)
unary(functions.log2, anp.log2, "positive")
unary(functions.reciprocal, lambda x: 1 / x, "nonzero")
unary(functions.tan, anp.tan, "positive", repeatable=False)
unary(functions.atan, anp.arctan)
unary(functions.sinh, anp.sinh)
unary(functions.cosh, anp.cosh)
binary(functions.logaddexp, anp.logaddexp, tensors_only=True)
unary(functions.nan_to_num, np.nan_to_num, by_autograd=False)


def _inverse(name, reference):
    @row(name)
    def case(draw):
        inputs = [np.asarray(draw.array(draw.shape()) / 2.1)]
        return Case(getattr(mt, name), inputs, reference)


_inverse("asin", anp.arcsin)
_inverse("acos", anp.arccos)


@row("erfinv")
def _(draw):
    def reference(x):
        normal = statistics.NormalDist()
        return np.vectorize(lambda p: normal.inv_cdf((p + 1) / 2) / math.sqrt(2), otypes=[float])(x)

    inputs = [np.asarray(draw.array(draw.shape()) / 2.1)]
    return Case(functions.erfinv, inputs, reference, by_autograd=False)


@row("qr")
def _(draw):
    columns = draw.int(1, 3)
    shape = (*draw.shape(max_dims=1), columns + draw.int(0, 2), columns)
    inputs = [np.asarray(draw.array(shape) + 3 * np.eye(*shape[-2:]))]
    return Case(products.qr, inputs, lambda x: tuple(np.linalg.qr(x)), by_autograd=False)


def _spelt(path, blank):
    """What a path says: repeated labels once, blanks left out."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


@row("ctc")
def _(draw):
    steps, batch, classes = draw.int(3, 4), draw.int(1, 3), draw.int(2, 3)
    blank, frames = draw.int(0, classes - 1), draw.indices((batch,), steps - 2) + 3
    lengths = draw.indices((batch,), 3)
    labels = draw.indices((batch, 2), classes - 1)
    labels = labels + (labels >= blank)

    def reference(x):
        losses = []
        for n in range(batch):
            paths = [
                sum(x[t, n, label] for t, label in enumerate(path))
                for path in itertools.product(range(classes), repeat=frames[n])
                if _spelt(path, blank) == labels[n, : lengths[n]].tolist()
            ]
            losses.append(-np.log(np.exp(paths).sum()))
        return np.array(losses)

    zero = draw.flag()
    return Case(
        lambda x: ctc(x, *map(mt.tensor, (labels, frames, lengths)), blank, zero),
        [draw.array((steps, batch, classes))],
        reference,
        by_autograd=False,
        repeatable=False,
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


@row("binary_cross_entropy_terms")
def _(draw):
    shape = draw.shape()
    inputs = [np.asarray(abs(draw.array(shape)) / 3 + shift) for shift in (0.1, 0.0)]

    def reference(x, y):
        return -(y * anp.log(x) + (1 - y) * anp.log(1 - x))

    return Case(binary_cross_entropy_terms, inputs, reference)


def _shift(name, reference):
    """Of integers by 0 to 7 places; the floating-point inputs are only carriers."""

    @row(name)
    def case(draw):
        arrays = [draw.array(shape) for shape in draw.broadcastable(2)]

        def function(x, places):
            return getattr(functions, name)((9 * x).long(), (4 * places.abs()).long())

        def expected(x, places):
            return reference((9 * x).astype(np.int64), (4 * abs(places)).astype(np.int64))

        return Case(function, arrays, expected, differentiable=False)


_shift("bitwise_left_shift", np.left_shift)
_shift("bitwise_right_shift", np.right_shift)
