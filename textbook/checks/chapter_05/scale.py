"""How far scores spread, and what a change of a score does to the output."""

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# The spread of the scores


def _matrix_cases(draw, more=()):
    for d, size in [(3, 3), (4, 2), *more]:
        yield draw.normal(d, size), draw.normal(d, size)
    eye = mt.eye(4, dtype=mt.float64)
    yield eye, eye  # plain dot products of tokens: the square root of d


def _computed(answer, Q, K):
    if difference(answer(Q, K), answer(Q, K), ""):
        return "Your answer gives another number each time. It can be computed, without chance."
    return None


@exercise(
    cases=_matrix_cases,
    hidden_cases=lambda draw: _matrix_cases(draw, more=[(6, 3), (2, 9)]),
    properties=(_computed,),
    gradients=False,
    after_passing=(
        "Faster for narrow heads: (Q.T @ Q @ K.T @ K).trace() ** 0.5 has no product of d by d."
    ),
    see='chapter 05, "Scores against the width"',
)
def score_deviation(Q, K):
    """Two matrices (d, d_k) give the standard deviation of a score, a number."""
    between = Q @ K.T  # (d, d)
    return (between**2).sum().sqrt().item()


# What a change of a score does


def _slope_cases(draw, more=()):
    """Scores of several sizes; some are 500 rows of one-sided weights, some in the hundreds."""
    sizes = [(2, 3, 4, 1), (3, 4, 2, 6), *more]
    for rows, n, d, size in sizes:
        yield size * draw.normal(rows, n), draw.normal(n, d)
    yield mt.zeros(2, 4, dtype=mt.float64), draw.normal(4, 3)
    far = mt.tensor([[800.0], [-800.0]], dtype=mt.float64)
    yield draw.normal(2, 3) + far, 10 * draw.normal(3, 4)
    yield 20 * draw.normal(60, 3), draw.normal(3, 2)
    yield mt.tensor([[700.0, -300.0, 0.0]], dtype=mt.float64), draw.normal(3, 2)


def _close_is_not_exact(check, answer, scores, values):
    """What a quotient of differences gives."""
    right = check.reference(scores, values)
    off = (answer(scores, values) - right).abs().max() / right.abs().max()
    if off < 0.02:
        return (
            f"It is close, but off by {off:.0e} of the largest: a quotient of two differences is "
            "not exact. The derivative has a formula: find it with pencil and paper."
        )
    return None


@exercise(
    cases=_slope_cases,
    hidden_cases=lambda draw: _slope_cases(draw, more=[(1, 5, 3, 1), (4, 2, 6, 2)]),
    reasons=(_close_is_not_exact,),
    forbidden=("backward",),
    instead="softmax, and what the chain rule gives with pencil and paper",
    gradients=False,
    see='chapter 05, "Scores against the width"',
)
def moved_by_score(scores, values):
    """Scores (T, n) and values (n, d): how fast the output moves with each score, (T, n)."""
    p = scores.softmax(dim=-1)
    outputs = p @ values  # (T, d)
    apart = values - outputs.unsqueeze(1)  # (T, n, d)
    return p * (apart**2).sum(dim=-1).sqrt()
