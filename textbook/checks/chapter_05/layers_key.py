"""Answers to the exercises of ``layers.py``."""

import functools
import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_05.layers import _attention_cases, attention

# Attention


def _length(x):
    return (x**2).sum(dim=-1, keepdim=True).sqrt()


@attention.answer(
    hidden_cases=lambda draw: _attention_cases(
        draw, others=[(1, (), 3, 4, 2, 3), (1, (3,), 4, 2, 6, 1), (1000, (2, 1, 2), 2, 3, 5, 2)]
    )
)
def attention(query, key, value, bias=None):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    if bias is None:
        return scores.softmax(dim=-1) @ value
    scores = scores + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)  # (..., T, 1)
    weights = scores.masked_fill(shut, 0.0).softmax(dim=-1)
    return weights.masked_fill(shut, 0.0) @ value


# Right in another way


def _weights(scores, bias):
    """Query by query, where there is a bias."""
    if bias is None:
        return scores.softmax(dim=-1)
    scores = scores + bias
    rows = scores.reshape(-1, scores.shape[-1])
    found = []
    for row in rows:
        shut = bool((row == -math.inf).all())
        found.append(mt.zeros(len(row)) if shut else row.softmax(dim=0))
    return mt.stack(found).reshape(*scores.shape)


def attention_with_einsum(query, key, value, bias=None):
    scores = mt.einsum("...id,...jd->...ij", query, key) / math.sqrt(query.shape[-1])
    return mt.einsum("...ij,...jv->...iv", _weights(scores, bias), value)


def attention_by_hand(query, key, value, bias=None):
    """A softmax written out; rows without a key are divided by 1."""
    scores = query.matmul(key.mT).div(key.size(-1) ** 0.5)
    scores = scores if bias is None else scores + bias
    top = scores.detach().amax(dim=-1, keepdim=True)
    top = mt.where(top == -math.inf, 0.0, top)
    exponentials = (scores - top).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials @ value / mt.where(total == 0, 1.0, total)


def attention_with_a_key_more(query, key, value, bias=None):
    """A key of zeros that is shut unless all others are; its value is 0."""
    if bias is None:
        bias = mt.zeros(query.shape[-2], key.shape[-2])
    scores = (key @ query.transpose(-1, -2) / query.shape[-1] ** 0.5).transpose(-1, -2) + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)
    more = mt.where(shut, 0.0, -mt.inf).to(scores.dtype)
    weights = mt.cat([scores, more], dim=-1).softmax(dim=-1)
    return weights[..., :-1] @ value


def fused_attention(query, key, value, bias=None):
    """Its bias goes into the library's."""
    if bias is None:
        return F.scaled_dot_product_attention(query, key, value)
    shut = (bias == -mt.inf).all(dim=-1, keepdim=True)
    bias = bias.masked_fill(shut, 0.0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias).masked_fill(shut, 0.0)


def attention_by_linear(query, key, value, bias=None):
    """The dot products by F.linear."""

    def scored(query, key):
        return F.linear(query, key) / query.shape[-1] ** 0.5

    if query.ndim == 2:
        scores = scored(query, key)
    else:
        pairs = zip(
            query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:]), strict=True
        )
        scores = mt.stack([scored(q, k) for q, k in pairs])
        scores = scores.reshape(*query.shape[:-1], key.shape[-2])
    return _weights(scores, bias) @ value


right = {
    "attention": [
        attention_with_einsum,
        attention_by_hand,
        attention_with_a_key_more,
        functools.partial(attention_by_hand),
    ],
}
refused = {
    "attention": [fused_attention, attention_by_linear],
}
