"""Weights by nearness, in few operations and little memory."""

import math

from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise

OPERATIONS = 20


def _distance_cases(draw, more=()):
    """Sizes T, n, d, d_v; near keys, and keys far from all queries."""
    for queries, n, d, d_v in [(2, 3, 2, 3), (3, 4, 5, 2), *more]:
        for far in (0.0, 300.0):
            yield draw.normal(queries, d), draw.normal(n, d) + far, draw.normal(n, d_v)
    yield 30 * draw.normal(3, 2), 30 * draw.normal(4, 2), draw.normal(4, 2)


def _is_cheap(answer, query, key, value):
    """Asked with larger sizes: the operations, and the largest of their results."""
    draw, (queries, n, d) = Draw(0), (9, 11, 7)
    names, largest = [], [()]

    def listen(name, came, went, backward):
        names.append(name)
        largest.extend(x.shape for x in went)

    with listening(listen):
        answer(draw.normal(queries, d), draw.normal(n, d), draw.normal(n, 5))
    if len(names) > OPERATIONS:
        return (
            f"For {queries} queries and {n} keys your answer runs {len(names)} operations; "
            f"{OPERATIONS} are there. No loop over queries or keys: all scores in one product."
        )
    shape = max(largest, key=math.prod)
    if math.prod(shape) > queries * n:
        return (
            f"For T = {queries}, n = {n} and d = {d} a result on the way has the shape "
            f"{tuple(shape)}, more numbers than T n. Multiply out the square: the differences of "
            "all pairs need not be there at once."
        )
    return None


by_distance = exercise(
    "by_distance",
    cases=_distance_cases,
    properties=(_is_cheap,),
    gradients=False,
    see='chapter 05, "In matrices"',
)
