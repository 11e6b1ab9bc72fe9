"""Operations that treat every element by itself."""

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.operations import elementwise
from rows.table import KINDS, binary, row, sigmoid, unary

unary(elementwise.neg, lambda x: -x)
unary(elementwise.abs, anp.abs)
unary(elementwise.sign, anp.sign)
unary(elementwise.floor, anp.floor)
unary(elementwise.ceil, anp.ceil)
unary(elementwise.trunc, np.trunc, by_autograd=False)
unary(elementwise.round, np.round, by_autograd=False)
unary(elementwise.exp, anp.exp)
unary(elementwise.log, anp.log, "positive")
unary(elementwise.log10, anp.log10, "positive")
unary(elementwise.sqrt, anp.sqrt, "positive")
unary(elementwise.square, lambda x: x * x)
unary(elementwise.rsqrt, lambda x: 1 / anp.sqrt(x), "positive")
unary(elementwise.sin, anp.sin)
unary(elementwise.cos, anp.cos)
unary(elementwise.tanh, anp.tanh)
unary(elementwise.sigmoid, sigmoid)
unary(elementwise.relu, lambda x: anp.maximum(x, 0))
unary(elementwise.silu, lambda x: x * sigmoid(x))

binary(elementwise.add, anp.add)
binary(elementwise.sub, anp.subtract)
binary(elementwise.mul, anp.multiply)
binary(elementwise.div, anp.divide, ("any", "nonzero"))
binary(elementwise.remainder, anp.mod, ("any", "nonzero"), repeatable=False)
binary(elementwise.fmod, np.fmod, ("any", "nonzero"), repeatable=False, by_autograd=False)
binary(elementwise.maximum, anp.maximum, tensors_only=True)
binary(elementwise.minimum, anp.minimum, tensors_only=True)
binary(elementwise.floor_divide, np.floor_divide, ("any", "nonzero"), differentiable=False)


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
