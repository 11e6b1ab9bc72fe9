"""Fused operations of neural networks."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.operations import neural
from rows.table import row


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
