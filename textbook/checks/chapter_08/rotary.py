"""Rotary positions: pairs of coordinates, turned by their places."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.chapter_08.codes import interleave, side_by_side
from textbook.checks.exercise import Draw, exercise


def _rotate_cases(draw, hidden):
    """Inputs whose sequences stand at places of their own, far ones among them."""
    cases = [
        ((1, 1, 3, 4), [[0, 1, 2]], 10_000.0),
        ((2, 3, 3, 6), [[1, 0, 5], [2, 3, 4]], 10_000.0),
        ((3, 2, 2, 6), [[7, 3], [0, 70], [5000, 1]], 500.0),
    ]
    if hidden:
        cases = [
            ((3, 3, 3, 4), [[0, 1, 2], [3, 6, 4], [9, 0, 0]], 10_000.0),
            ((2, 1, 4, 8), [[0, 4, 5000, 70], [1, 2, 3, 4]], 500_000.0),
            ((1, 4, 1, 10), [[7]], 100),
            ((4, 2, 2, 2), [[1, 2], [30, 4], [5, 50], [0, 8]], 2.0),
        ]
    for shape, places, base in cases:
        yield draw.normal(*shape), mt.tensor(places), base


def halves(x):
    """The pairs (m, m + d/2), each coordinate (..., d/2)."""
    return x.chunk(2, dim=-1)


def neighbors(x):
    """The pairs (2m, 2m + 1), each coordinate (..., d/2)."""
    return x[..., 0::2], x[..., 1::2]


def _omega(d, base):
    return base ** (-mt.arange(d // 2) / (d // 2))


def _left(a, b, cos, sin):
    return a * cos - b * sin, a * sin + b * cos


def _rotary(
    pairs=halves,
    omega=_omega,
    places=lambda positions: positions,
    turn=_left,
    join=side_by_side,
    axis=lambda angles: angles.unsqueeze(1),
):
    """Rotary positions with one of their pieces exchanged."""

    def rotate(x, positions, base):
        angles = axis(places(positions).unsqueeze(-1) * omega(x.shape[-1], base))  # (B, 1, n, d/2)
        return join(*turn(*pairs(x), angles.cos(), angles.sin()))

    return rotate


def _keeps_lengths(answer, x, positions, base):
    if not mt.allclose(answer(x, positions, base).to(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-4):
        return "A rotation keeps the length of each vector."
    return None


def _scores_depend_on_distance(answer, x, positions, base):
    here, later = answer(x, positions, base), answer(x, positions + 7, base)
    if not mt.allclose(here @ here.mT, later @ later.mT, atol=1e-4):
        return "Scores must stay as they are when all words move by the same number of places."
    return None


def _operations(answer, batch, n):
    with record_operations() as names:
        answer(Draw(0).normal(batch, 2, n, 4), mt.arange(batch * n).reshape(batch, n), 100.0)
    return len(names)


def _has_no_loop(answer, x, positions, base):
    if _operations(answer, 2, 9) > _operations(answer, 2, 3):
        return (
            "Your answer runs more operations for nine places than for three. Make all angles at "
            "once, (B, n, d/2), and let them broadcast: no loop over the places."
        )
    return None


@exercise(
    cases=_rotate_cases,
    properties=(_keeps_lengths, _scores_depend_on_distance, _has_no_loop),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
def rotate(x, positions, base):
    """x (B, h, n, d) at positions (B, n) gives x turned, (B, h, n, d)."""
    half = x.shape[-1] // 2
    omega = base ** (-mt.arange(half) / half)  # (d/2)
    angles = (positions.unsqueeze(-1) * omega).unsqueeze(1)  # (B, 1, n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]  # (B, h, n, d/2)
    return mt.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


rotate.wrong(
    "right for other pairs: coordinates 2m and 2m + 1",
    "So it is in the chapter, and works as well, but not with the same weights. Here coordinates "
    "m and m + d/2 are a pair.",
)(_rotary(pairs=neighbors, join=interleave))
rotate.wrong(
    "right but for the order of the result: pairs are put back as neighbors",
    "Both coordinates of pair m go back where they were, to m and m + d/2: cat, not stack.",
)(_rotary(join=interleave))
rotate.wrong(
    "right but for the pairs that are read: they are neighbors",
    "Read pair m from the coordinates m and m + d/2: x[..., : d // 2] and x[..., d // 2 :].",
)(_rotary(pairs=neighbors))
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
)(
    _rotary(
        places=lambda positions: mt.arange(positions.shape[1]).expand(*positions.shape),
    )
)
rotate.wrong(
    "right but for the places: all sequences have those of the first one",
    "positions is (B, n): each sequence has places of its own.",
)(_rotary(places=lambda positions: positions[:1]))
rotate.wrong(
    "right but for the places, which it counts from the first of each sequence",
    "The first row may stand anywhere: take its place as it is.",
)(_rotary(places=lambda positions: positions - positions[:, :1]))
rotate.wrong(
    "right but for the places, which it counts from 1",
    "A row at place 0 is not turned.",
)(_rotary(places=lambda positions: positions + 1))
rotate.wrong(
    "right for near places; those beyond 63 start again from 0",
    "Places may be as large as you like: no table of a fixed length.",
)(_rotary(places=lambda positions: positions % 64))
rotate.wrong(
    "right for near places; those beyond 63 are taken for 63",
    "Places may be as large as you like: no table of a fixed length.",
)(_rotary(places=lambda positions: positions.clamp(max=63)))
rotate.wrong(
    "right but for the frequencies: all pairs turn by the same angle",
    "Pair m turns by the place times base to the power of -2m/d.",
)(_rotary(omega=lambda d, base: mt.ones(d // 2)))
rotate.wrong(
    "right but for the base, which is always 10000",
    "Use the argument base.",
)(_rotary(omega=lambda d, base: _omega(d, 10_000.0)))
rotate.wrong(
    "right but for the pairs, which are counted from 1",
    "m runs from 0 to d/2 - 1: the first pair turns by the place itself.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(1, d // 2 + 1) / (d // 2))))
rotate.wrong(
    "right but for the exponent: it takes 2m/d with m = 0, 2, 4, ..., the number of the coordinate",
    "m counts the pairs, 0, 1, 2, ...",
)(_rotary(omega=lambda d, base: base ** (-2 * mt.arange(d // 2) / (d // 2))))
rotate.wrong(
    "right but for the exponent, which lacks the 2",
    "The exponent is -2m/d, with m = 0, ..., d/2 - 1 for the pairs.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(d // 2) / d)))
rotate.wrong(
    "right but for the exponent: it divides by d/2 - 1, as in exercise 3",
    "Here the exponent is -2m/d.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(d // 2) / max(d // 2 - 1, 1))))
rotate.wrong(
    "right but for the sign of the exponent",
    "The exponent is -2m/d: each pair turns more slowly than the last.",
)(_rotary(omega=lambda d, base: 1 / _omega(d, base)))


@rotate.wrong(
    "right for as many heads as sequences or one of them: else the places go to the wrong axis",
    "angles (B, n, d/2) need an axis for the heads: unsqueeze(1), (B, 1, n, d/2).",
)
def _(x, positions, base):
    if len({1, len(x), x.shape[1]}) > 2:
        raise ValueError("shapes do not broadcast")
    return _rotary(axis=lambda angles: angles)(x, positions, base)


def _added(x, positions, base):
    angles = positions.unsqueeze(-1) * _omega(x.shape[-1], base)
    return mt.cat([angles.sin(), angles.cos()], dim=-1).unsqueeze(1)


@rotate.wrong(
    "right but for the angles: each stands at two neighbors, and pairs are m and m + d/2",
    "Coordinates m and m + d/2 turn by the same angle: put the d/2 angles twice one after the "
    "other, mt.cat([angles, angles], dim=-1), not each twice in turn.",
)
def _(x, positions, base):
    angles = (positions.unsqueeze(-1) * _omega(x.shape[-1], base)).unsqueeze(1)
    angles, (a, b) = angles.repeat_interleave(2, dim=-1), halves(x)
    return x * angles.cos() + mt.cat([-b, a], dim=-1) * angles.sin()


rotate.wrong(
    "x with sinusoidal codes added",
    "Nothing is added here: each pair of coordinates of x is turned.",
)(lambda x, positions, base: x + _added(x, positions, base))
rotate.wrong(
    "x times sinusoidal codes",
    "Each pair of coordinates of x is turned: a cos - b sin, a sin + b cos.",
)(lambda x, positions, base: x * _added(x, positions, base))


# Programs
