"""Answers to the exercises of ``scores.py``."""

import itertools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_08.scores import (
    _bias_cases,
    _relative_cases,
    alibi_bias,
    relative_attention,
)


def differences(n):
    """j - i: (n, n)."""
    return mt.arange(n) - mt.arange(n).unsqueeze(1)


# A bias for distance


def _slopes(heads):
    return 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)


def _published(heads):
    """Those of the next lower power of 2, then every second one of twice as many heads."""
    below = 2 ** (heads.bit_length() - 1)
    return mt.cat([_slopes(below), _slopes(2 * below)[::2][: heads - below]])


@alibi_bias.answer(
    hidden_cases=lambda draw: _bias_cases(draw, more=[(1, 1, 1), (6, 7, 3), (4, 9, 16), (5, 5, 6)]),
    after_passing="Shorter: one table of distances, times a column of slopes. Heads differ "
    "by a factor alone.",
)
def alibi_bias(queries, keys, heads):
    """What is added to the scores of the last places: (heads, queries, keys)."""
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(keys)
    apart = places[keys - queries :].unsqueeze(1) - places  # (queries, keys): i - j
    bias = -slopes.reshape(-1, 1, 1) * apart
    return bias.masked_fill(apart < 0, -mt.inf)


# A vector for each difference


@relative_attention.answer(
    hidden_cases=lambda draw: _relative_cases(
        draw,
        others=[
            (1, 2, 5, 4, 3, 1, None),
            (3, 2, 4, 6, 5, 2, "sequences"),
            (2, 1, 6, 3, 4, 3, "pairs"),
            (1, 2, 1, 4, 2, 2, None),
            (2, 4, 3, 2, 6, 1, "heads"),
        ],
    ),
    after_passing="Cheaper: query @ keys_of.T first, n times 2c + 1 numbers, then pick: no "
    "(n, n, d).",
)
def relative_attention(query, key, value, keys_of, values_of, allowed=None):
    """Attention with a vector for each difference, in keys and in values: (B, h, n, e)."""
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places.unsqueeze(1)).clamp(-c, c) + c  # (n, n)
    by_place = (query.unsqueeze(-2) @ keys_of[rows].mT).squeeze(-2)  # (B, h, n, n)
    scores = (query @ key.mT + by_place) / d**0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value + (weights.unsqueeze(-2) @ values_of[rows]).squeeze(-2)


# Right in another way


def bias_in_a_loop(queries, keys, heads):
    bias = mt.zeros(heads, queries, keys)
    for head in range(heads):
        for row in range(queries):
            for j in range(keys):
                i = keys - queries + row
                slope = 1 / 2 ** (8 * (head + 1) / heads)
                bias[head, row, j] = -slope * (i - j) if j <= i else -math.inf
    return bias


def bias_of_the_last_rows(queries, keys, heads):
    """All rows first."""
    places = mt.arange(keys).float()
    apart = places.unsqueeze(1) - places
    ratio = 2 ** (-8 / heads)
    bias = mt.stack([-(ratio**k) * apart for k in range(1, heads + 1)])
    return mt.where(apart >= 0, bias, -mt.inf)[:, -queries:]


def bias_in_numpy(queries, keys, heads):
    apart = np.arange(keys)[None] - np.arange(keys - queries, keys)[:, None]
    slopes = np.array([0.5 ** (8 * k / heads) for k in range(1, heads + 1)])
    return mt.tensor(np.where(apart > 0, -np.inf, slopes[:, None, None] * apart))


def relative_in_a_loop(query, key, value, keys_of, values_of, allowed=None):
    batch, heads, n, d = query.shape
    c = len(keys_of) // 2
    if allowed is None:
        allowed = mt.ones(n, n).bool()
    allowed = allowed.expand(batch, heads, n, n)
    result = mt.zeros(*value.shape)
    for b, h, i in itertools.product(range(batch), range(heads), range(n)):
        seen = [j for j in range(n) if allowed[b, h, i, j]]
        rows = [max(-c, min(c, j - i)) + c for j in seen]
        scores = mt.stack(
            [
                query[b, h, i] @ (key[b, h, j] + keys_of[r]) / math.sqrt(d)
                for j, r in zip(seen, rows, strict=True)
            ]
        )
        weights = scores.softmax(dim=0)
        for w, j, r in zip(weights, seen, rows, strict=True):
            result[b, h, i] = result[b, h, i] + w * (value[b, h, j] + values_of[r])
    return result


def relative_with_a_key_for_each_pair(query, key, value, keys_of, values_of, allowed=None):
    n, c = query.shape[-2], len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places[:, None] + c).clamp(0, 2 * c)
    keys = key.unsqueeze(-3) + keys_of[rows]  # (B, h, n, n, d)
    values = value.unsqueeze(-3) + values_of[rows]
    scores = (query.unsqueeze(-2) * keys).sum(-1) * query.shape[-1] ** -0.5
    if allowed is not None:
        scores = mt.where(allowed, scores, -mt.inf)
    return (scores.softmax(-1).unsqueeze(-1) * values).sum(-2)


def relative_by_one_hot_rows(query, key, value, keys_of, values_of, allowed=None):
    """The queries meet each vector once; the weights of one difference are added up."""
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    rows = (mt.arange(n) - mt.arange(n).unsqueeze(1)).clamp(-c, c) + c
    pick = F.one_hot(rows, 2 * c + 1).float()  # (n, n, 2c + 1)
    place = mt.einsum("bhir,ijr->bhij", query @ keys_of.T, pick)
    scores = (query @ key.transpose(-1, -2) + place) / math.sqrt(d)
    if allowed is not None:
        scores = scores + mt.zeros(allowed.shape).masked_fill(allowed.logical_not(), -mt.inf)
    weights = scores.softmax(-1)
    return weights @ value + mt.einsum("bhij,ijr->bhir", weights, pick) @ values_of


right = {
    "alibi_bias": [bias_in_a_loop, bias_of_the_last_rows, bias_in_numpy],
    "relative_attention": [
        relative_in_a_loop,
        relative_with_a_key_for_each_pair,
        relative_by_one_hot_rows,
    ],
}
