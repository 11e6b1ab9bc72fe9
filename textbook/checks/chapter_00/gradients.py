"""Gradients of what is used several times: copies of a tensor, and a weight in two places."""

from textbook.checks.compare import difference
from textbook.checks.released import exercise

# Copies


def _copy_cases(draw, more=()):
    shapes = [
        ((3,), (6,)),
        ((2, 3), (4, 2, 9)),
        ((1, 4), (3, 2, 4)),
        ((3, 1), (3, 5)),
        ((), (2, 3)),
        ((2, 3), (2, 3)),
        ((4,), (3, 4)),
        ((4, 2), (12, 2)),
        ((2, 3), (4, 6)),
    ]
    shapes += more
    for shape, copied in shapes:
        yield draw.normal(*copied), shape


def _all_in_front(check, answer, g, shape):
    """Whether it would be right with one axis fewer in front."""
    front = g.ndim - len(shape)
    if front < 2 or difference(answer(g.sum(dim=0), shape), check.reference(g, shape), ""):
        return None
    return f"g has {front} axes more than `shape`: sum over all of those in front."


sum_copies = exercise(
    "sum_copies",
    cases=_copy_cases,
    gradients=False,
    forbidden=("backward",),
    instead="sums over the copies",
    reasons=(_all_in_front,),
    see='chapter 00, "From numbers to arrays"',
)


# A weight that is used twice


def _tied_cases(draw, more=()):
    for leading in [(3,), (2, 4), (2, 1, 3), *more]:
        yield draw.normal(*leading, 4), draw.normal(4, 5), draw.normal(5), draw.normal(*leading, 4)
    yield draw.normal(4, 3), draw.normal(3, 3), draw.normal(3), draw.normal(4, 3)
    yield draw.normal(1, 2), draw.normal(2, 4), draw.normal(4), draw.normal(1, 2)


tied_gradients = exercise(
    "tied_gradients",
    cases=_tied_cases,
    gradients=False,
    forbidden=("backward",),
    instead="matrix products and sums",
    see='chapter 00, "From numbers to arrays"',
)
