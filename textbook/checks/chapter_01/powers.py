"""How far a product of one matrix reaches, before it has died."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.compare import number
from textbook.checks.exercise import exercise


def _matrix_cases(draw, hidden):
    grows_first = mt.tensor([[0.9, 5.0], [0.0, 0.9]], dtype=mt.float64)
    yield grows_first, 1.0, 99
    yield grows_first, 10.0, 60
    yield mt.tensor([[0.0, 0.05], [15.0, 0.0]], dtype=mt.float64), 0.8, 90  # falls and grows
    yield 0.5 * mt.eye(3, dtype=mt.float64), 0.2, 50
    yield 0.5 * mt.eye(3, dtype=mt.float64), 1e-4, 5
    yield 0.5 * mt.eye(2, dtype=mt.float64), 2.0, 9
    yield 0.5 * mt.eye(2, dtype=mt.float64), 1.0, 9  # reached exactly, at distance 0
    yield mt.zeros(3, 3, dtype=mt.float64), 0.1, 6
    for size, scale in [(2, 0.5), (3, 0.4)] + [(5, 0.3)] * hidden:
        yield scale * draw.normal(size, size), 1e-3, 60
    yield 1000 * mt.eye(3, dtype=mt.float64) + draw.normal(3, 3), 0.5, 120
    yield draw.normal(3, 3) / 10_000, 1e-250, 120


def _reach(
    size=lambda power: np.linalg.norm(power, 2),
    reaches=lambda norm, share: norm >= share,
    first_fall=False,
    until=lambda most: most + 1,
    told=lambda found: found,
    start=0,
    again=lambda power, W: power @ W,
    ones=False,
    count=False,
):
    """The distance with one of its pieces exchanged; as a logarithm, so that it never overflows."""

    def reach(W_hh, share, most):
        W, found = W_hh.numpy(), None
        power, logarithm, reached = (np.ones_like(W) if ones else np.eye(len(W))), 0.0, 0
        for k in range(until(most)):
            scale = np.abs(power).max()
            if scale == 0:
                break
            power, logarithm = power / scale, logarithm + math.log(scale)
            if k >= start:
                if reaches(math.log(size(power)) + logarithm, math.log(share)):
                    found, reached = k, reached + 1
                elif first_fall:
                    break
            power = again(power, W)
        return told((reached or None) if count else found)

    return reach


def _found(answer, W_hh, share, most):
    found = answer(W_hh, share, most)
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


@exercise(
    cases=_matrix_cases,
    run=_found,
    gradients=False,
    reasons=(_norm_there,),
    see='chapter 01, "Vanishing and exploding gradients"',
)
def reach(W_hh, share, most):
    """The largest distance, up to `most`, at which the power's norm is at least `share`."""
    W, found = W_hh.numpy(), None
    power, logarithm = np.eye(len(W)), 0.0  # power * exp(logarithm) is W to the power of k
    for k in range(most + 1):
        norm = np.linalg.norm(power, 2)
        if norm == 0:
            break
        power, logarithm = power / norm, logarithm + math.log(norm)
        if logarithm >= math.log(share):
            found = k
        power = power @ W
    return found


reach.wrong(
    "the distance of the first fall below `share`, less one",
    "A power may grow before it falls, or fall before it grows: the last distance is asked for.",
)(_reach(first_fall=True))
reach.wrong(
    "right but for the norm, which is the root of the sum of squares",
    "The norm here is the factor by which the matrix stretches the vector that it stretches most: "
    "np.linalg.norm(power, 2).",
)(_reach(size=lambda power: np.linalg.norm(power)))
reach.wrong(
    "right but for the norm, in whose place stands the spectral radius",
    "The radius tells the end of the story. A power may stretch a vector far more than its "
    "eigenvalues say: np.linalg.norm(power, 2).",
)(_reach(size=lambda power: max(np.abs(np.linalg.eigvals(power)).max(), 1e-300)))
reach.wrong(
    "right but for a norm that is `share` exactly, which it does not count",
    "`share` or more: >=.",
)(_reach(reaches=lambda norm, share: norm > share + 1e-12))
reach.wrong(
    "right but for the powers, which are those of each element",
    "The power of a matrix is a product of matrices: power @ W.",
)(_reach(again=lambda power, W: power * W, ones=True))
reach.wrong(
    "the number of distances at which the norm is `share` or more",
    "The largest of them is asked for.",
)(_reach(count=True))
reach.wrong(
    "right but for the norm, which is the largest element",
    "The norm is the factor by which the matrix stretches the vector that it stretches most.",
)(_reach(size=lambda power: np.abs(power).max()))
reach.wrong(
    "right but for the norm, which is the largest sum of a row",
    "The norm is the factor by which the matrix stretches the vector that it stretches most: "
    "np.linalg.norm(power, 2).",
)(_reach(size=lambda power: np.abs(power).sum(axis=1).max()))
reach.wrong(
    "right but for a norm that never reaches `share`, where it says -1",
    "If no power reaches it, return None.",
)(_reach(told=lambda found: -1 if found is None else found))
reach.wrong(
    "one too many: the first distance at which the norm is below `share` for good",
    "The largest distance at which it is still `share` or more.",
)(_reach(told=lambda found: None if found is None else found + 1))
reach.wrong(
    "right but for `most`, up to which it does not go", "Distances from 0 to `most`, both included."
)(_reach(until=lambda most: most))
reach.wrong(
    "right but for distance 0, where the power is the matrix that changes nothing",
    "Distances count from 0: W to the power of 0 has the norm 1.",
)(_reach(start=1))
reach.wrong(
    "right but for `most`, beyond which it goes", "Distances from 0 to `most`, both included."
)(_reach(until=lambda most: 2 * most + 2))
reach.wrong(
    "right but for a norm that never reaches `share`, where it says 0",
    "At distance 0 the norm is 1. If even that is too small, and no power reaches it: None.",
)(_reach(told=lambda found: found or 0))


@reach.wrong(
    "right but for powers that are too large or too small for a floating-point number",
    "Divide the power by its norm after each product, and add up the logarithms.",
)
def _(W_hh, share, most):
    W, found = W_hh.numpy(), None
    for k in range(most + 1):
        power = np.linalg.matrix_power(W, k)
        if np.isfinite(power).all() and np.linalg.norm(power, 2) >= share:
            found = k
    return found


@reach.wrong(
    "an estimate from the norm of the matrix alone, as if each step multiplied by it",
    "The norm of a power is smaller than the power of the norm, mostly. Make the powers.",
)
def _(W_hh, share, most):
    norm = np.linalg.norm(W_hh.numpy(), 2)
    return _by_factor(norm, share, most)


def _by_factor(factor, share, most):
    fitting = [
        k for k in range(most + 1) if k * math.log(max(factor, 1e-300)) >= math.log(share) - 1e-12
    ]
    return fitting[-1] if fitting else None
