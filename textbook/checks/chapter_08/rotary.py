"""Rotary positions: pairs of coordinates, turned by their places."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.chapter_08.codes import (
    double_exponents,
    frequencies,
    from_one,
    half_exponents,
    interleave,
    side_by_side,
    sinusoidal_codes,
)
from textbook.checks.exercise import Draw, exercise


def _rotate_cases(draw, hidden):
    """Inputs with and without batch and heads, among them as many heads as places."""
    sizes = [((2, 2), [0, 1]), ((2, 2, 4), [1, 0]), ((1, 3, 3, 4), [2, 5, 4])]
    if hidden:
        sizes = [((1, 6), [7]), ((2, 2, 2), [9, 3]), ((2, 3, 3, 8), [3, 6, 4])]
    for shape, places in sizes:
        yield draw.normal(*shape), mt.tensor(places)


def halves(x):
    """The pairs (m, m + d/2), each coordinate (..., d/2)."""
    return x.chunk(2, dim=-1)


def neighbors(x):
    """The pairs (2m, 2m + 1), each coordinate (..., d/2)."""
    return x[..., 0::2], x[..., 1::2]


def _rotary(
    pairs=neighbors,
    frequencies=frequencies,
    angles=lambda places, omega: places.unsqueeze(-1) * omega,
    turn=lambda a, b, cos, sin: (a * cos - b * sin, a * sin + b * cos),
    join=interleave,
):
    """Rotary positions with one of their pieces exchanged."""

    def rotate(x, positions):
        turns = angles(positions, frequencies(x.shape[-1]))  # (n, d/2)
        return join(*turn(*pairs(x), turns.cos(), turns.sin()))

    return rotate


def _keeps_lengths(answer, x, positions):
    if not mt.allclose(answer(x, positions).to(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-4):
        return "A rotation keeps the length of each vector."
    return None


def _scores_depend_on_distance(answer, x, positions):
    here, later = answer(x, positions), answer(x, positions + 7)
    if not mt.allclose(here @ here.mT, later @ later.mT, atol=1e-4):
        return "Scores must stay as they are when all words move by the same number of places."
    return None


def _operations(answer, n):
    with record_operations() as names:
        answer(Draw(0).normal(n, 4), mt.arange(n))
    return len(names)


def _has_no_loop(answer, x, positions):
    if _operations(answer, 9) > _operations(answer, 3):
        return (
            "Your answer runs more operations for nine places than for three. Make all angles at "
            "once, (n, d/2), and let them broadcast: no loop over the places."
        )
    return None


@exercise(
    cases=_rotate_cases,
    properties=(_keeps_lengths, _scores_depend_on_distance, _has_no_loop),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
def rotate(x, positions):
    """x (..., n, d) at positions (n) gives x turned, (..., n, d)."""
    d = x.shape[-1]
    angles = positions.unsqueeze(1) * 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]  # (..., n, d/2)
    return mt.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


rotate.wrong(
    "right for other pairs: coordinates m and m + d/2",
    "Many programs pair them like that, and it works as well, but not with the same weights. Here "
    "neighbors are a pair: coordinates 2m and 2m + 1.",
)(_rotary(pairs=halves, join=side_by_side))
rotate.wrong(
    "right but for the order of the result: all first coordinates come before all second ones",
    "Both coordinates of pair m go back where they were, to 2m and 2m + 1: stack along a new last "
    "axis, then flatten.",
)(_rotary(join=side_by_side))
rotate.wrong(
    "right but for the pairs that are read: they are m and m + d/2",
    "Read pair m from the coordinates 2m and 2m + 1: x[..., 0::2] and x[..., 1::2].",
)(_rotary(pairs=halves))
rotate.wrong(
    "right but for the direction: it turns by the negative angle",
    "The scores would be the same, but the first coordinate is a cos - b sin, the second one "
    "a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin)))
rotate.wrong(
    "right but for a sign: it turns nothing",
    "The first coordinate is a cos - b sin, the second one a sin + b cos. With two plus signs "
    "lengths change.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)))
rotate.wrong(
    "a reflection, not a rotation: a sign is wrong in the second coordinate",
    "The second coordinate is a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos - b * sin, -a * sin - b * cos)))
rotate.wrong(
    "right but for a sign in the second coordinate",
    "The second coordinate is a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos - b * sin, a * sin - b * cos)))
rotate.wrong(
    "right but for sines and cosines, which are exchanged",
    "At place 0 the angle is 0, and x stays as it is: a cos - b sin, a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin)))
rotate.wrong(
    "right in its first coordinates; the second ones are made of turned first ones",
    "Both new coordinates are made of the old a and b. Keep the old ones until both are there.",
)(
    _rotary(
        turn=lambda a, b, cos, sin: (a * cos - b * sin, (a * cos - b * sin) * sin + b * cos),
    )
)
rotate.wrong(
    "right but for the places: it takes 0, 1, 2, ... instead of positions",
    "The rows of x stand at positions: use them.",
)(_rotary(angles=lambda places, omega: mt.arange(len(places)).unsqueeze(-1) * omega))
rotate.wrong(
    "right but for the frequencies: all pairs turn by the same angle",
    "Pair m turns by the place times 10000 to the power of -2m/d.",
)(_rotary(frequencies=lambda d: mt.ones(d // 2)))
rotate.wrong(
    "right but for the pairs, which are counted from 1",
    "m runs from 0 to d/2 - 1: the first pair turns by the place itself.",
)(_rotary(frequencies=from_one))
rotate.wrong(
    "right but for the exponent: it takes 2m/d with m = 0, 2, 4, ..., the number of the coordinate",
    "m counts the pairs, 0, 1, 2, ...",
)(_rotary(frequencies=double_exponents))
rotate.wrong(
    "right but for the exponent, which lacks the 2",
    "The exponent is -2m/d, with m = 0, ..., d/2 - 1 for the pairs.",
)(_rotary(frequencies=half_exponents))
rotate.wrong(
    "x with sinusoidal codes added",
    "Nothing is added here: each pair of coordinates of x is turned.",
)(lambda x, positions: x + sinusoidal_codes.reference(10, x.shape[-1])[positions])
rotate.wrong(
    "x times sinusoidal codes",
    "Each pair of coordinates of x is turned: a cos - b sin, a sin + b cos.",
)(lambda x, positions: x * sinusoidal_codes.reference(10, x.shape[-1])[positions])


@rotate.wrong(
    "turned along the wrong axis: the heads have the places",
    "The places belong to the axis before the last: angles (n, d/2) broadcast against "
    "(..., n, d/2) as they are.",
)
def _(x, positions):
    if x.ndim < 4 or x.shape[1] != len(positions):
        return rotate.reference(x, positions)
    return rotate.reference(x.transpose(1, 2), positions).transpose(1, 2)
