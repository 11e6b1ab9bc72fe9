"""Sinusoidal codes in the order of the paper's program, and the matrix that shifts them."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


def frequencies(d, base):
    """From 1 down to 1/base, each the same factor slower than the last: (d/2)."""
    k = d // 2
    return base ** (-mt.arange(k) / max(k - 1, 1))


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


@exercise(
    cases=_code_cases,
    hidden_cases=lambda draw: _code_cases(
        draw, more=[(1, 2, 7.0), (12, 10, 10_000.0), (70, 4, 1e6), (9, 6, 100)]
    ),
    properties=(_has_a_base_by_itself,),
    gradients=False,
    see='chapter 08, "Sinusoids"',
)
def sinusoidal_codes(n, d, base=10_000.0):
    """The codes of the places 0 to n - 1: (n, d)."""
    k = d // 2
    omega = base ** (-mt.arange(k) / max(k - 1, 1))  # (k)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, k)
    return mt.cat([angles.sin(), angles.cos()], dim=1)


# The shift


def _shift_cases(draw, shifts=(1, 2.75, -3, 0), alike=(0.5, 2 * math.pi - 0.5)):
    """Shifts forwards and backwards, whole and not; frequencies in no order.

    Two others are ``alike``: at whole places nobody can tell them apart.
    """
    for k, shift in enumerate(shifts, start=1):
        yield shift, draw.normal(k).abs()
    yield 1.5, mt.tensor(alike, dtype=mt.float64)


def turned(c, s):
    """Takes [sin a, cos a] to [sin(a + b), cos(a + b)], for diagonal c = cos b and s = sin b."""
    return [[c, -s], [s, c]]


def _in_pairs(matrix):
    """The same with sine and cosine of a hand side by side."""
    order = mt.arange(len(matrix)).reshape(2, -1).T.flatten()
    return matrix[order][:, order]


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


@exercise(
    cases=_shift_cases,
    hidden_cases=lambda draw: _shift_cases(
        draw, shifts=(5, -1.75, 1000, 0), alike=(1, 1 + 2 * math.pi)
    ),
    properties=(_shifts_anywhere,),
    gradients=False,
    after_passing="Shorter: with complex numbers it is a product with exp(i omega s); R is "
    "that in real ones.",
    see='chapter 08, "A shift is a rotation (C18)"',
)
def shift_matrix(shift, omega):
    """R (2k, 2k): codes times R are the codes of the places that lie shift further on."""
    angles = shift * omega
    c, s = mt.diag(angles.cos()), mt.diag(angles.sin())  # (k, k)
    return mt.cat([mt.cat([c, -s], dim=1), mt.cat([s, c], dim=1)])
