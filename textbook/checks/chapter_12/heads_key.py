"""Answers to the exercises of ``heads.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_12.heads import _grouped_cases, grouped_attention


@grouped_attention.answer(
    hidden_cases=lambda draw: _grouped_cases(
        draw, others=[(2, 8, 2, 3, 7, 5, 4), (3, 6, 3, 4, 9, 4, 5), (2, 3, 1, 5, 6, 4, 7)]
    ),
    after_passing="Shorter: PyTorch's scaled_dot_product_attention has enable_gqa=True for this.",
)
def grouped_attention(query, key, value):
    """Query (B, h, T, d), key (B, g, n, d), value (B, g, n, d_v) give (B, h, T, d_v)."""
    queries, n = query.shape[2], key.shape[2]
    query = query.unflatten(1, (key.shape[1], -1))  # (B, g, h/g, T, d)
    scores = query @ key.unsqueeze(2).mT / math.sqrt(key.shape[-1])  # (B, g, h/g, T, n)
    allowed = mt.arange(n) <= mt.arange(n - queries, n).unsqueeze(1)  # (T, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return (weights @ value.unsqueeze(2)).flatten(1, 2)


# Right in another way


def _causal(T, n):
    return mt.arange(n) <= mt.arange(T).unsqueeze(1) + n - T


def grouped_in_a_loop(query, key, value):
    """Head by head."""
    group = query.shape[1] // key.shape[1]
    outputs = []
    for i in range(query.shape[1]):
        scores = query[:, i] @ key[:, i // group].mT / key.shape[-1] ** 0.5
        scores = mt.where(_causal(*scores.shape[-2:]), scores, -math.inf)
        outputs.append(F.softmax(scores, -1) @ value[:, i // group])
    return mt.stack(outputs, dim=1)


def grouped_in_rows(query, key, value):
    """The queries of a group below one another, in one matrix."""
    batch, heads, T, d = query.shape
    groups, n = key.shape[1:3]
    scores = query.reshape(batch, groups, heads // groups * T, d) @ key.mT / math.sqrt(d)
    hidden = ~mt.cat([_causal(T, n)] * (heads // groups))
    weights = scores.masked_fill(hidden, -mt.inf).softmax(dim=-1)
    return (weights @ value).reshape(batch, heads, T, -1)


def grouped_by_einsum(query, key, value):
    q = query.unflatten(1, (key.shape[1], -1))
    scores = mt.einsum("bgrtd,bgnd->bgrtn", q, key) * key.shape[-1] ** -0.5
    weights = scores.masked_fill(~_causal(*scores.shape[-2:]), -math.inf).softmax(-1)
    return mt.einsum("bgrtn,bgnv->bgrtv", weights, value).flatten(1, 2)


def grouped_with_the_fused_operation(query, key, value):
    q = query.unflatten(1, (key.shape[1], -1))
    parts = [
        F.scaled_dot_product_attention(
            q[:, :, r], key, value, _causal(query.shape[2], key.shape[2])
        )
        for r in range(q.shape[2])
    ]
    return mt.stack(parts, dim=2).flatten(1, 2)


def _all_heads(query, key, value, copied):
    mask = _causal(query.shape[2], key.shape[2])
    scores = query @ copied(key).mT / math.sqrt(key.shape[-1])
    return scores.masked_fill(~mask, -mt.inf).softmax(dim=-1) @ copied(value)


def grouped_with_repeat_interleave(query, key, value):
    group = query.shape[1] // key.shape[1]
    return _all_heads(query, key, value, lambda x: x.repeat_interleave(group, dim=1))


def grouped_with_repeat(query, key, value):
    group = query.shape[1] // key.shape[1]
    return _all_heads(
        query, key, value, lambda x: x.unsqueeze(2).repeat(1, 1, group, 1, 1).flatten(1, 2)
    )


def grouped_by_index(query, key, value):
    group = query.shape[1] // key.shape[1]
    heads = mt.arange(query.shape[1]) // group
    return _all_heads(query, key, value, lambda x: x[:, heads])


copying = [grouped_with_repeat_interleave, grouped_with_repeat, grouped_by_index]


right = {
    "grouped_attention": [grouped_in_a_loop, grouped_in_rows, grouped_by_einsum],
}
refused = {
    "grouped_attention": [grouped_with_the_fused_operation],
}
