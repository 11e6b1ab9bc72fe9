"""Grouped-query heads: several queries share a key, and nothing is copied."""

from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


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


grouped_attention = exercise(
    "grouped_attention",
    cases=_grouped_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="unflatten or reshape of the queries, and @",
    properties=(_copies_nothing,),
    see='chapter 12, "What was fixed since"',
)
