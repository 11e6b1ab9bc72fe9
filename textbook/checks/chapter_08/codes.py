"""Sinusoidal codes in the order of the paper's program, and the matrix that shifts them."""

import math

import minitorch as mt
from textbook.checks.released import exercise


def side_by_side(first, second):
    """Two tensors (..., d/2), one after the other: (..., d)."""
    return mt.cat([first, second], dim=-1)


def interleave(first, second):
    """Two tensors (..., d/2) in turn: (..., d)."""
    return mt.stack([first, second], dim=-1).flatten(-2)


# The codes


def _code_cases(draw, more=()):
    yield from [(3, 4, 50.0), (4, 6, 10_000.0), (5, 2, 10_000.0), (2, 8, 3.0)]
    yield from more


def _has_a_base_by_itself(answer, n, d, base):
    try:
        codes = answer(n, d)
    except TypeError:
        codes = None
    if codes is None or not mt.allclose(codes, answer(n, d, 10_000.0)):
        return "Called without base, as sinusoidal_codes(n, d), the function has to take 10,000."
    return None


sinusoidal_codes = exercise(
    "sinusoidal_codes",
    cases=_code_cases,
    properties=(_has_a_base_by_itself,),
    gradients=False,
    see='chapter 08, "Sinusoids"',
)


# The shift


def _shift_cases(draw, shifts=(1, 2.75, -3, 0), alike=(0.5, 2 * math.pi - 0.5)):
    """Shifts forwards and backwards, whole and not; frequencies in no order.

    Two others are ``alike``: at whole places nobody can tell them apart.
    """
    for k, shift in enumerate(shifts, start=1):
        yield shift, draw.normal(k).abs()
    yield 1.5, mt.tensor(alike, dtype=mt.float64)


def _codes_at(places, omega):
    angles = places.unsqueeze(1) * omega
    return mt.cat([angles.sin(), angles.cos()], dim=1)


def _shifts_anywhere(answer, shift, omega):
    matrix, places = answer(shift, omega).to(omega), mt.tensor([-3.0, 0.0, 0.5, 7.0, 40.0])
    k = len(omega)
    before, after = _codes_at(places, omega), _codes_at(places + shift, omega)
    if matrix.shape != (2 * k, 2 * k) or mt.allclose(before @ matrix, after, atol=1e-5):
        return None
    whole = mt.arange(8).to(omega)
    if mt.allclose(_codes_at(whole, omega) @ matrix, _codes_at(whole + shift, omega), atol=1e-5):
        return (
            "At whole places alone p_t @ matrix is the code of place t + shift. Some hands cannot "
            "be told apart there, and t need not be whole: derive the matrix from sin(a + b)."
        )
    return "At every t, p_t @ matrix must be the code of place t + shift."


shift_matrix = exercise(
    "shift_matrix",
    cases=_shift_cases,
    properties=(_shifts_anywhere,),
    gradients=False,
    see='chapter 08, "A shift is a rotation (C18)"',
)
