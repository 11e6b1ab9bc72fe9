"""Grouped-query heads: several queries share a key, and nothing is copied."""

import math

import minitorch as mt
from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw, exercise


def _grouped_cases(draw, others=()):
    """B, query heads h, key heads g, T, n, d, d_v: all different, the last T tokens ask."""
    sizes = others or [(1, 4, 2, 3, 5, 4, 6), (2, 6, 3, 3, 4, 5, 7), (2, 6, 2, 4, 4, 8, 3)]
    for scale in (1.0, 2000.0):
        for batch, heads, groups, queries, n, d, d_v in sizes:
            query = scale * draw.normal(batch, heads, queries, d)
            yield query, draw.normal(batch, groups, n, d), draw.normal(batch, groups, n, d_v)


def _copies_nothing(answer, query, key, value):
    """Asked of arrays as large as keys or values for all query heads; what is expanded is none."""
    draw, made = Draw(0), []
    inputs = draw.normal(2, 6, 3, 4), draw.normal(2, 2, 7, 4), draw.normal(2, 2, 7, 5)
    with listening(lambda name, came, went, backward: made.extend(went)):
        answer(*inputs)
    if any(x.size in (2 * 6 * 7 * 4, 2 * 6 * 7 * 5) and 0 not in x.strides for x in made):
        return (
            "Your answer makes a copy of the keys or values for every query head: with 6 query "
            "heads and 2 key heads, three times the cache. Let the queries of a group stand "
            "together instead, and broadcast."
        )
    return None


@exercise(
    cases=_grouped_cases,
    hidden_cases=lambda draw: _grouped_cases(
        draw, others=[(2, 8, 2, 3, 7, 5, 4), (3, 6, 3, 4, 9, 4, 5), (2, 3, 1, 5, 6, 4, 7)]
    ),
    forbidden=("scaled_dot_product_attention",),
    instead="unflatten or reshape of the queries, and @",
    properties=(_copies_nothing,),
    after_passing="Shorter: PyTorch's scaled_dot_product_attention has enable_gqa=True for this.",
    see='chapter 12, "What was fixed since"',
)
def grouped_attention(query, key, value):
    """Query (B, h, T, d), key (B, g, n, d), value (B, g, n, d_v) give (B, h, T, d_v)."""
    queries, n = query.shape[2], key.shape[2]
    query = query.unflatten(1, (key.shape[1], -1))  # (B, g, h/g, T, d)
    scores = query @ key.unsqueeze(2).mT / math.sqrt(key.shape[-1])  # (B, g, h/g, T, n)
    allowed = mt.arange(n) <= mt.arange(n - queries, n).unsqueeze(1)  # (T, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return (weights @ value.unsqueeze(2)).flatten(1, 2)
