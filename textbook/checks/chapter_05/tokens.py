"""What one token gets from the others, for which it makes a query, keys and values."""

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.released import exercise


def sequence(draw, n, d):
    """X (n, d) and three matrices (d, d)."""
    return draw.normal(n, d), draw.normal(d, d), draw.normal(d, d), draw.normal(d, d)


def _token_cases(draw, others=()):
    """The last tokens have scores in the thousands, of both signs and all negative."""
    for n, d, i in others or [(2, 3, 0), (3, 4, 1)]:
        yield *sequence(draw, n, d), i
    X, *matrices = sequence(draw, 4, 5)
    yield 20 * X, *matrices, 2
    eye = mt.eye(5, dtype=mt.float64)
    yield 50 * X.abs() + 20, eye, -eye, matrices[2], 1
    yield 50 * X, eye, eye, matrices[2], 0  # its own score is by far the largest


def _weights_add_up_to_one(answer, *case):
    total = answer(*case)[1].sum()
    if abs(total.item() - 1) > 1e-6:
        return "The weights must add up to 1."
    return None


def _overflows(check, answer, X, *rest):
    """That what is not a number comes of large scores alone."""
    _, weights = answer(X, *rest)
    small = X / 100, *rest  # scores are smaller by 10,000
    same = not difference([*answer(*small)], [*check.reference(*small)], "")
    if same and weights.isnan().any():
        return (
            "For small scores all is right: exp of a large one is inf, of a very negative one 0, "
            "and inf / inf and 0 / 0 are not a number. softmax first takes the largest score away."
        )
    return None


from_others = exercise(
    "from_others",
    cases=_token_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="dot products, softmax and a weighted sum",
    properties=(_weights_add_up_to_one,),
    reasons=(_overflows,),
    see='chapter 05, "One token at a time"',
)
