"""Grouped-query heads: several queries share a key, and nothing is copied."""

import math

import minitorch as mt
from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw, exercise


def _grouped_cases(draw, hidden):
    """B, query heads h, key heads g, T, n, d, d_v: all different, the last T tokens ask."""
    sizes = [(1, 4, 2, 3, 5, 4, 6), (2, 6, 3, 3, 4, 5, 7), (2, 6, 2, 4, 4, 8, 3)]
    if hidden:
        sizes = [(2, 8, 2, 3, 7, 5, 4), (3, 6, 3, 4, 9, 4, 5), (2, 3, 1, 5, 6, 4, 7)]
    for scale in (1.0, 2000.0):
        for batch, heads, groups, queries, n, d, d_v in sizes:
            query = scale * draw.normal(batch, heads, queries, d)
            yield query, draw.normal(batch, groups, n, d), draw.normal(batch, groups, n, d_v)


def _in_groups(query, groups):
    """(B, h, T, d) -> (B, g, h/g, T, d): neighbours share a key head."""
    return query.unflatten(1, (groups, -1))


def _back(mixed):
    return mixed.flatten(1, 2)


def _last(queries, n):
    """(T, n): query i stands at n - T + i."""
    return mt.ones(queries, n, dtype=mt.bool).tril(n - queries)


def _softmax(scores):
    return scores.softmax(dim=-1)


def _by_root(scores, d, d_v):
    return scores / math.sqrt(d)


def _grouping(
    split=_in_groups, join=_back, mask=_last, scale=_by_root, weigh=_softmax, keys=lambda x: x
):
    """Attention in groups with one of its pieces exchanged."""

    def grouped(query, key, value):
        d, d_v, queries, n = query.shape[-1], value.shape[-1], query.shape[2], key.shape[2]
        key, value = keys(key), keys(value)
        scores = split(query, key.shape[1]) @ key.unsqueeze(2).mT  # (B, g, h/g, T, n)
        scores = scale(scores, d, d_v).masked_fill(~mask(queries, n), -mt.inf)
        return join(weigh(scores) @ value.unsqueeze(2))

    return grouped


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
    forbidden=("scaled_dot_product_attention",),
    instead="unflatten or reshape of the queries, and @",
    properties=(_copies_nothing,),
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


grouped_attention.wrong(
    "right but for the groups: query head i looks at key head i modulo g",
    "Neighbours share: the first h/g query heads have key head 0, the next h/g have key head 1.",
)(
    _grouping(
        split=lambda query, groups: query.unflatten(1, (-1, groups)).transpose(1, 2),
        join=lambda mixed: mixed.transpose(1, 2).flatten(1, 2),
    )
)
grouped_attention.wrong(
    "right but for the order of the heads that it returns",
    "Head i of the result belongs to head i of the query: undo exactly what made the groups.",
)(_grouping(join=lambda mixed: mixed.transpose(1, 2).flatten(1, 2)))
grouped_attention.wrong(
    "right but for the groups: each takes every g-th query head, and they come back as neighbours",
    "Neighbours share: the first h/g query heads have key head 0, the next h/g have key head 1.",
)(_grouping(split=lambda query, groups: query.unflatten(1, (-1, groups)).transpose(1, 2)))
grouped_attention.wrong(
    "right but for the groups: all query heads look at key head 0",
    "Each group has a key head of its own.",
)(
    _grouping(
        keys=lambda x: x[:, :1],
    )
)
grouped_attention.wrong(
    "right but for the groups: all query heads look at the mean of the key heads",
    "Each group has a key head of its own; nothing is averaged.",
)(_grouping(keys=lambda x: x.mean(dim=1, keepdim=True)))
grouped_attention.wrong(
    "right but for the mask, which is missing",
    "Query i stands at place n - T + i and may look at that place and those before it.",
)(_grouping(mask=lambda queries, n: mt.ones(queries, n, dtype=mt.bool)))
grouped_attention.wrong(
    "right but for the mask: it takes the queries for the first T tokens, not for the last",
    "Query i stands at place n - T + i: with a cache the new tokens are the last.",
)(_grouping(mask=lambda queries, n: mt.ones(queries, n, dtype=mt.bool).tril()))
grouped_attention.wrong(
    "right but for the mask: no query may look at its own place",
    "A token may look at itself: places up to n - T + i, this one included.",
)(_grouping(mask=lambda queries, n: mt.ones(queries, n, dtype=mt.bool).tril(n - queries - 1)))
grouped_attention.wrong(
    "right but for the mask: every query may look one place into the future",
    "Query i stands at place n - T + i, and that is the last one that it may see.",
)(_grouping(mask=lambda queries, n: mt.ones(queries, n, dtype=mt.bool).tril(n - queries + 1)))
grouped_attention.wrong(
    "right but for the scale: the scores are not divided by the square root of d",
    "Scores are query . key / sqrt(d), d the size of a key.",
)(_grouping(scale=lambda scores, d, d_v: scores))
grouped_attention.wrong(
    "right but for the scale: the scores are divided by d",
    "Divide by the square root of d.",
)(_grouping(scale=lambda scores, d, d_v: scores / d))
grouped_attention.wrong(
    "right but for the scale: the scores are divided by the square root of the size of a value",
    "Values take no part in the scores: d is the size of a key.",
)(_grouping(scale=lambda scores, d, d_v: scores / math.sqrt(d_v)))
grouped_attention.wrong(
    "right but for the softmax, which goes over the queries",
    "Each query shares its attention among the keys: the last axis.",
)(_grouping(weigh=lambda scores: scores.softmax(dim=-2)))
grouped_attention.wrong(
    "right for small scores: exp of a large one is infinite",
    "Use softmax, or subtract the largest score of each row before exp.",
)(_grouping(weigh=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)))
grouped_attention.wrong(
    "right but for the heads, which it leaves in groups, in five axes",
    "Bring the heads back together: (B, h, T, d_v).",
)(_grouping(join=lambda mixed: mixed))
grouped_attention.wrong(
    "right but for the heads of a group, whose outputs it adds up",
    "Only keys and values are shared. Every query head has an output of its own.",
)(_grouping(join=lambda mixed: mixed.sum(dim=2)))
grouped_attention.wrong(
    "right but for the scale: the scores are divided by the square root of the whole width, h d",
    "Scores are query . key / sqrt(d), d the size of a key.",
)(lambda query, key, value: _grouping()(query / math.sqrt(query.shape[1]), key, value))
