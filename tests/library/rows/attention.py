"""Attention."""

import math

import autograd.numpy as anp
import numpy as np
from gradients import Case

import minitorch as mt
from minitorch.operations import attention
from rows.table import row


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
