"""How far a product of one matrix reaches, before it has died."""

import numpy as np

import minitorch as mt
from textbook.checks.compare import number
from textbook.checks.released import exercise


def _matrix_cases(draw, more=()):
    grows_first = mt.tensor([[0.9, 5.0], [0.0, 0.9]], dtype=mt.float64)
    yield grows_first, 1.0, 99
    yield grows_first, 10.0, 60
    yield mt.tensor([[0.0, 0.05], [15.0, 0.0]], dtype=mt.float64), 0.8, 90  # falls and grows
    yield 0.5 * mt.eye(3, dtype=mt.float64), 0.2, 50
    yield 0.5 * mt.eye(3, dtype=mt.float64), 1e-4, 5
    yield 0.5 * mt.eye(2, dtype=mt.float64), 2.0, 9
    yield 0.5 * mt.eye(2, dtype=mt.float64), 1.0, 9  # reached exactly, at distance 0
    yield (
        0.5 * mt.ones(2, 2, dtype=mt.float64),
        0.5,
        20,
    )  # all powers are alike, but not element-wise
    yield mt.zeros(3, 3, dtype=mt.float64), 0.1, 6
    for size, scale in [(2, 0.5), (3, 0.4), *more]:
        yield scale * draw.normal(size, size), 1e-3, 60
    yield 1000 * mt.eye(3, dtype=mt.float64) + draw.normal(3, 3), 0.5, 120
    yield draw.normal(3, 3) / 10_000, 1e-250, 120


def _found(answer, W_hh, share, most):
    try:
        found = answer(W_hh, share, most)
    except np.linalg.LinAlgError:
        found = "no number: a power was too large for floating point, and has no norm"
    return {"the distance": "None" if found is None else found}


def _norm_there(check, answer, W_hh, share, most):
    """What the norm is where the answer says, and where it should."""
    found, right = (number(f(W_hh, share, most)) for f in (answer, check.reference))
    if found == right or type(found) not in (int, type(None)):
        return None
    if found is not None and not 0 <= found <= most:
        return f"Distances go from 0 to {most}."
    if right is None:
        return f"At no distance up to {most} is the norm {share:g} or more: None."
    if found is None or found < right:
        return f"At distance {right} the norm is still {share:g} or more."
    return f"At distance {found} the norm is below {share:g}."


reach = exercise(
    "reach",
    cases=_matrix_cases,
    run=_found,
    gradients=False,
    reasons=(_norm_there,),
    see='chapter 01, "Vanishing and exploding gradients"',
)
