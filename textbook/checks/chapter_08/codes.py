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


def _code_cases(draw, hidden):
    yield from [(3, 4, 50.0), (4, 6, 10_000.0), (5, 2, 10_000.0), (2, 8, 3.0)]
    if hidden:
        yield from [(1, 2, 7.0), (12, 10, 10_000.0), (70, 4, 1e6), (9, 6, 100)]


def _codes(
    frequencies=frequencies, places=mt.arange, first=mt.sin, second=mt.cos, join=side_by_side
):
    """Codes with one of their pieces exchanged."""

    def codes(n, d, base=10_000.0):
        angles = places(n).unsqueeze(1) * frequencies(d, base)  # (n, d/2)
        return join(first(angles), second(angles))

    return codes


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


sinusoidal_codes.wrong(
    "right but for the order of the columns: sine and cosine of a hand stand side by side",
    "So it is in the paper and in the chapter. Here all sines come first, then all cosines.",
)(_codes(join=interleave))
sinusoidal_codes.wrong(
    "right but for the exponent: it is that of the paper's formula, -2m/d = -m/k",
    "The slowest hand has the frequency 1/base exactly: with k hands there are k - 1 steps.",
)(_codes(frequencies=lambda d, base: base ** (-mt.arange(d // 2) / (d // 2))))
sinusoidal_codes.wrong(
    "the codes of the paper's formula: other columns, and another exponent",
    "Here all sines come first, then all cosines, and the slowest hand has the frequency 1/base.",
)(
    _codes(
        frequencies=lambda d, base: base ** (-mt.arange(d // 2) / (d // 2)),
        join=interleave,
    )
)
sinusoidal_codes.wrong(
    "right but for the exponent, which divides by d - 1",
    "There are k = d/2 hands and k - 1 steps between them.",
)(_codes(frequencies=lambda d, base: base ** (-mt.arange(d // 2) / (d - 1))))
sinusoidal_codes.wrong(
    "right but for sine and cosine, which are exchanged",
    "The sines come first: the code of place 0 is 0, ..., 0, 1, ..., 1.",
)(_codes(first=mt.cos, second=mt.sin))
sinusoidal_codes.wrong(
    "right but for the hands, which are counted from 1",
    "m runs from 0 to k - 1: the fastest hand has the frequency 1.",
)(_codes(frequencies=lambda d, base: base ** (-mt.arange(1, d // 2 + 1) / max(d // 2 - 1, 1))))
sinusoidal_codes.wrong(
    "right but for the sign of the exponent",
    "After the first, each hand is slower than the last.",
)(_codes(frequencies=lambda d, base: 1 / frequencies(d, base)))
sinusoidal_codes.wrong(
    "right but for the order of the hands: the slowest comes first",
    "The hand with the frequency 1 comes first.",
)(_codes(frequencies=lambda d, base: frequencies(d, base).flip(0)))
sinusoidal_codes.wrong(
    "right but for the frequencies between the first and the last, which are on a line",
    "Each hand is slower than the one before by the same factor, not by the same amount.",
)(_codes(frequencies=lambda d, base: mt.linspace(1, 1 / base, d // 2)))
sinusoidal_codes.wrong(
    "right but for the base, which is always 10000",
    "Use the argument base; 10000 is only what it is when the caller does not say.",
)(_codes(frequencies=lambda d, base: frequencies(d, 10_000.0)))
sinusoidal_codes.wrong(
    "right but for the frequencies: all hands turn at the same speed",
    "The frequencies go from 1 down to 1/base.",
)(_codes(frequencies=lambda d, base: mt.ones(d // 2)))
sinusoidal_codes.wrong(
    "right but for the places, which are counted from 1",
    "The first row is that of place 0: zeros, then ones.",
)(_codes(places=lambda n: mt.arange(1, n + 1)))
sinusoidal_codes.wrong(
    "right but for the angles, which have a factor of 2 pi too much",
    "Hand m turns by omega_m radians a word: no 2 pi.",
)(_codes(places=lambda n: 2 * math.pi * mt.arange(n)))
sinusoidal_codes.wrong(
    "right but for the angles, which are taken for degrees",
    "Hand m turns by omega_m radians a word, and sin and cos expect radians.",
)(_codes(places=lambda n: mt.arange(n) * math.pi / 180))
sinusoidal_codes.wrong(
    "right but for the cosines, which are sines as well",
    "Columns k to 2k - 1 are cosines. With both, a shift is a rotation.",
)(_codes(second=mt.sin))
sinusoidal_codes.wrong(
    "transposed: (d, n)",
    "A place is a row: (n, d).",
)(lambda n, d, base=10_000.0: _codes()(n, d, base).T)


@sinusoidal_codes.wrong(
    "right but for one hand alone (d = 2), where 0/0 gives NaN",
    "With k = 1 there is no step: the one hand has the frequency 1.",
)
def _(n, d, base=10_000.0):
    return _codes()(n, d, base) * (mt.nan if d == 2 else 1.0)


sinusoidal_codes.wrong(
    "right but for one hand alone (d = 2), whose frequency is 1/base",
    "With k = 1 the first hand is the last as well: its frequency is 1.",
)(_codes(frequencies=lambda d, base: 1 / base * mt.ones(1) if d == 2 else frequencies(d, base)))
sinusoidal_codes.wrong(
    "right but for the exponent, which has a factor of 2 too much",
    "The last of k hands, number k - 1, has the frequency 1/base: -m/(k - 1).",
)(_codes(frequencies=lambda d, base: frequencies(d, base) ** 2))


# The shift


def _shift_cases(draw, hidden):
    """Shifts forwards and backwards, whole and not; frequencies in no order."""
    shifts = [5, -1.75, 1000, 0] if hidden else [1, 2.75, -3]
    for k, shift in enumerate(shifts, start=1):
        yield shift, draw.normal(k).abs()
    alike = [1, 1 + 2 * math.pi] if hidden else [0.5, 2 * math.pi - 0.5]  # at whole places
    yield 1.5, mt.tensor(alike, dtype=mt.float64)


def turned(c, s):
    """Takes [sin a, cos a] to [sin(a + b), cos(a + b)], for diagonal c = cos b and s = sin b."""
    return [[c, -s], [s, c]]


def _shift(blocks=turned, angle=lambda shift, omega: shift * omega):
    """The shift with one of its pieces exchanged."""

    def matrix(shift, omega):
        turn = angle(shift, omega)
        rows = blocks(mt.diag(turn.cos()), mt.diag(turn.sin()))
        return mt.cat([mt.cat(row, dim=1) for row in rows])

    return matrix


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
    properties=(_shifts_anywhere,),
    gradients=False,
    see='chapter 08, "A shift is a rotation (C18)"',
)
def shift_matrix(shift, omega):
    """R (2k, 2k): codes times R are the codes of the places that lie shift further on."""
    angles = shift * omega
    c, s = mt.diag(angles.cos()), mt.diag(angles.sin())  # (k, k)
    return mt.cat([mt.cat([c, -s], dim=1), mt.cat([s, c], dim=1)])


shift_matrix.wrong(
    "transposed: it shifts by as much in the other direction",
    "Codes are rows: sin(a + b) = sin a cos b + cos a sin b belongs to a column of sines. Papers "
    "that write columns have the transpose.",
)(_shift(lambda c, s: [[c, s], [-s, c]]))
shift_matrix.wrong(
    "right but for a sign: it has reflections, not rotations",
    "cos(a + b) = cos a cos b - sin a sin b: the block from sines to cosines is -sin b.",
)(_shift(lambda c, s: [[c, s], [s, c]]))
shift_matrix.wrong(
    "right but for the signs: both sines are negative",
    "sin(a + b) = sin a cos b + cos a sin b: the block from cosines to sines is sin b.",
)(_shift(lambda c, s: [[c, -s], [-s, c]]))
shift_matrix.wrong(
    "right but for the block from cosines to cosines, which is negative",
    "cos(a + b) = cos a cos b - sin a sin b: both cosine blocks are cos b.",
)(_shift(lambda c, s: [[c, s], [s, -c]]))
shift_matrix.wrong(
    "right but for sines and cosines, which are exchanged, and a sign",
    "cos b stands on the diagonal: for the shift 0 the matrix is the identity.",
)(_shift(lambda c, s: [[s, c], [-c, s]]))
shift_matrix.wrong(
    "right but for the pairs: column m goes with the one as far from the end",
    "Columns m and k + m belong together: four diagonal blocks.",
)(_shift(lambda c, s: [[c, -s.flip(1)], [s.flip(0), c.flip(0).flip(1)]]))
shift_matrix.wrong(
    "right but for the sines, whose angles do not have the shift",
    "Both cosine and sine are those of shift times omega[m].",
)(
    lambda shift, omega: mt.cat(
        [
            mt.cat([mt.diag((shift * omega).cos()), -mt.diag(omega.sin())], dim=1),
            mt.cat([mt.diag(omega.sin()), mt.diag((shift * omega).cos())], dim=1),
        ]
    )
)
shift_matrix.wrong(
    "right but for sines and cosines, which are exchanged",
    "cos b stands on the diagonal: for the shift 0 the matrix is the identity.",
)(_shift(lambda c, s: [[s, -c], [c, s]]))
shift_matrix.wrong(
    "right for codes with sine and cosine of a hand side by side",
    "So it is in the chapter. Here columns m and k + m belong together: four diagonal blocks.",
)(lambda shift, omega: _in_pairs(_shift()(shift, omega)))
shift_matrix.wrong(
    "the chapter's matrix, turned the other way: two by two blocks, transposed",
    "Here columns m and k + m belong together, and codes are rows: four diagonal blocks.",
)(lambda shift, omega: _in_pairs(_shift()(shift, omega)).T)
shift_matrix.wrong(
    "right but for the angles, which are all those of the first hand",
    "Each hand has a frequency of its own: hand m turns by shift times omega[m].",
)(_shift(angle=lambda shift, omega: shift * omega[:1].expand(len(omega))))
shift_matrix.wrong(
    "right but for the shift, which is not used: it shifts by 1",
    "Hand m turns by shift times omega[m].",
)(_shift(angle=lambda shift, omega: omega))
shift_matrix.wrong(
    "right for shifts forwards; it takes the size of the shift alone",
    "A negative shift goes back: cos stays, sin changes its sign.",
)(_shift(angle=lambda shift, omega: abs(shift) * omega))
shift_matrix.wrong(
    "right for whole shifts; it rounds all others",
    "Half a place further on is a place as well: the angle is shift times omega[m].",
)(_shift(angle=lambda shift, omega: round(shift) * omega))
shift_matrix.wrong(
    "right for whole shifts; it cuts off what comes after the point",
    "Half a place further on is a place as well: the angle is shift times omega[m].",
)(_shift(angle=lambda shift, omega: int(shift) * omega))
shift_matrix.wrong(
    "right for whole shifts forwards; it takes as many whole steps as fit, and none backwards",
    "Half a place further on is a place as well, and so is one back: the angle is shift times "
    "omega[m].",
)(_shift(angle=lambda shift, omega: max(int(shift), 0) * omega))
shift_matrix.wrong(
    "right for wavelengths in place of frequencies: it divides by omega",
    "omega[m] is what hand m turns by in a word: shift times omega[m].",
)(_shift(angle=lambda shift, omega: shift / omega))
shift_matrix.wrong(
    "right but for the angles, which have a factor of 2 pi too much",
    "Hand m turns by omega[m] radians a word.",
)(_shift(angle=lambda shift, omega: 2 * math.pi * shift * omega))
shift_matrix.wrong(
    "right for frequencies 10000^(-m/k): it does not use omega",
    "The frequencies are given: hand m turns by shift times omega[m].",
)(_shift(angle=lambda shift, omega: shift * 10_000.0 ** (-mt.arange(len(omega)) / len(omega))))
shift_matrix.wrong(
    "full blocks, in which each hand takes something of the others",
    "Hand m turns for itself: the blocks are diagonal, mt.diag(...).",
)(
    lambda shift, omega: mt.cat(
        [
            mt.cat([each.expand(len(omega), len(omega)) for each in row], dim=1)
            for row in turned((shift * omega).cos(), (shift * omega).sin())
        ]
    )
)
