"""Answers to the exercises of ``attention.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_07.attention import (
    _finite_cases,
    _real,
    _spoilt,
    _three,
    masked_attention,
)

# Under a mask


def _hidden_masked_cases(draw):
    yield from _finite_cases(draw)
    yield *_three(draw, (2, 3), 4, 6, 5, 2), draw.normal(2, 1, 4, 6) > 0
    yield *_three(draw, (3,), 5, 2, 3, 4), draw.normal(3, 5, 2) > -0.5
    yield *_three(draw, (2,), 3, 4, 2, 2), mt.zeros(2, 1, 4, dtype=mt.bool)
    real = _real()
    allowed = real & (mt.arange(4) <= mt.arange(4).unsqueeze(1) + 1)
    for filler in (mt.inf, 1e300):
        yield _spoilt(draw, filler, real, allowed)


@masked_attention.answer(hidden_cases=_hidden_masked_cases)
def masked_attention(query, key, value, allowed):
    """Outputs (..., T, d_v): each query's average of the values that it may look at."""
    shape = *query.shape[:-1], key.shape[-2]  # of the scores, (..., T, n)
    allowed = mt.ones(shape, dtype=mt.bool) if allowed is None else allowed.expand(*shape)
    unseen = ~allowed.any(dim=-2).unsqueeze(-1)  # (..., n, 1)
    key, value = key.masked_fill(unseen, 0.0), value.masked_fill(unseen, 0.0)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value  # NaN stands only where nothing is allowed


# Right in another way


def filled(allowed, query, key, value):
    """A mask of the whole shape of the scores, and keys and values without what nobody sees."""
    if allowed is None:
        allowed = mt.ones(1, dtype=mt.bool)
    allowed = allowed & mt.ones(*query.shape[:-1], key.shape[-2], dtype=mt.bool)
    seen = allowed.any(dim=-2)[..., None]
    return allowed, mt.where(seen, key, 0.0), mt.where(seen, value, 0.0)


def attention_with_where(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    weights = F.softmax(mt.where(allowed, scores, -math.inf), dim=-1)
    return mt.where(allowed, weights, 0.0) @ value


def attention_with_nan_to_num(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    scores = mt.einsum("...td,...nd->...tn", query, key) / math.sqrt(key.shape[-1])
    weights = scores.masked_fill(mt.logical_not(allowed), -math.inf).softmax(-1)
    return mt.einsum("...tn,...nv->...tv", mt.nan_to_num(weights), value)


def attention_with_safe_rows(query, key, value, allowed):
    """A row without a key gets scores of 0, and then an output of 0."""
    allowed, key, value = filled(allowed, query, key, value)
    empty = ~allowed.any(dim=-1, keepdim=True)
    added = mt.zeros(allowed.shape).masked_fill(~(allowed | empty), -math.inf)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + added
    return (scores.softmax(dim=-1) @ value).masked_fill(empty, 0.0)


def attention_by_exponentials(query, key, value, allowed):
    """The softmax written out, over what is allowed alone."""
    allowed, key, value = filled(allowed, query, key, value)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True).detach()
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    exponentials = (scores - largest).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials @ value / total.masked_fill(total == 0, 1.0)


def fused_attention(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


def attention_with_linear(query, key, value, allowed):
    """Keys as the weights of a linear layer, sequence by sequence."""
    allowed, key, value = filled(allowed, query, key, value)
    shape = (*query.shape[:-1], key.shape[-2])
    rows = zip(query.flatten(0, -3), key.flatten(0, -3), strict=True) if query.ndim > 2 else ()
    scores = [F.linear(q, k) for q, k in rows] or [F.linear(query, key)]
    scores = mt.stack(scores).reshape(shape) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value


right = {
    "masked_attention": [
        attention_with_where,
        attention_with_nan_to_num,
        attention_with_safe_rows,
        attention_by_exponentials,
    ],
}
refused = {
    "masked_attention": [fused_attention, attention_with_linear],
}
