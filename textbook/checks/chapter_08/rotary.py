"""Rotary positions: pairs of coordinates, turned by their places."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.chapter_08.codes import side_by_side
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


def _rotate_cases(draw, others=()):
    """Inputs whose sequences stand at places of their own, far ones among them."""
    cases = [
        ((1, 1, 3, 4), [[0, 1, 2]], 10_000.0),
        ((2, 3, 3, 6), [[1, 0, 5], [2, 3, 4]], 10_000.0),
        ((3, 2, 2, 6), [[7, 3], [0, 70], [5000, 1]], 500.0),
    ]
    cases = others or cases
    for shape, places, base in cases:
        yield draw.normal(*shape), mt.tensor(places), base


def halves(x):
    """The pairs (m, m + d/2), each coordinate (..., d/2)."""
    return x.chunk(2, dim=-1)


def neighbors(x):
    """The pairs (2m, 2m + 1), each coordinate (..., d/2)."""
    return x[..., 0::2], x[..., 1::2]


def _angles(x, positions, base):
    """(B, n, d/2)."""
    half = x.shape[-1] // 2
    return positions.unsqueeze(-1) * base ** (-mt.arange(half) / half)


def _left(a, b, cos, sin):
    return a * cos - b * sin, a * sin + b * cos


def _rotary(
    pairs=halves,
    places=lambda positions: positions,
    turn=_left,
    join=side_by_side,
    axis=lambda angles: angles.unsqueeze(1),
):
    """Rotary positions with one of their pieces exchanged."""

    def rotate(x, positions, base):
        angles = axis(_angles(x, places(positions), base))  # (B, 1, n, d/2)
        return join(*turn(*pairs(x), angles.cos(), angles.sin()))

    return rotate


def _keeps_lengths(answer, x, positions, base):
    if not mt.allclose(answer(x, positions, base).to(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-4):
        return "A rotation keeps the length of each vector."
    return None


def _scores_depend_on_distance(answer, x, positions, base):
    def stay(places):
        here, later = answer(x, places, base), answer(x, places + 7, base)
        return mt.allclose(here @ here.mT, later @ later.mT, atol=1e-4)

    if stay(positions):
        return None
    text = "Scores must stay as they are when all words move by the same number of places"
    near = positions.remainder(50)
    if stay(near) and (near != positions).any():
        return f"{text}, far from the beginning as well: no table of a fixed length, no clipping."
    return f"{text}."


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


def _far_places(check, answer, *_):
    """The first place at which it is wrong, if it is right up to there and not further on."""
    x, places = Draw(0).normal(1, 1, 1, 4), (0, 1, 2, 9, 40, 70, 300, 1100, 5000)
    right = []
    for place in places:
        case = x, mt.tensor([[place]]), 500.0
        right.append(mt.allclose(answer(*case).to(x), check.reference(*case), atol=1e-4))
    if not right[0] or all(right) or True in right[(first := right.index(False)) :]:
        return None
    return (
        f"It is right for places up to {places[first - 1]}, and wrong from {places[first]} on: "
        "places may be as large as you like. No table of a fixed length, no remainder."
    )


rotate = exercise(
    "rotate",
    cases=_rotate_cases,
    reasons=(_far_places,),
    properties=(_keeps_lengths, _scores_depend_on_distance, _has_no_loop),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)


def _added(x, positions, base):
    angles = _angles(x, positions, base)
    return mt.cat([angles.sin(), angles.cos()], dim=-1).unsqueeze(1)
