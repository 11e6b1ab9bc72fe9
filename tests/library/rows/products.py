"""Products of matrices."""

import autograd.numpy as anp
from gradients import Case

import minitorch as mt
from minitorch.operations import products
from rows.table import row


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
