"""Sinusoidal codes, and the matrix that shifts them."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


def frequencies(d):
    """omega_m = 10000^(-2m/d), (d/2)."""
    return 10_000.0 ** (-mt.arange(0, d, 2) / d)


def interleave(first, second):
    """Two tensors (..., d/2) in turn: (..., d)."""
    return mt.stack([first, second], dim=-1).flatten(-2)


def side_by_side(first, second):
    """Two tensors (..., d/2), one after the other: (..., d)."""
    return mt.cat([first, second], dim=-1)


def double_exponents(d):
    """2m/d, with m the number of the column 0, 2, 4, ... and not of the pair."""
    return 10_000.0 ** (-2 * mt.arange(0, d, 2) / d)


def half_exponents(d):
    """10000^(-m/d)."""
    return 10_000.0 ** (-mt.arange(d // 2) / d)


def from_one(d):
    """m from 1 to d/2."""
    return 10_000.0 ** (-mt.arange(2, d + 2, 2) / d)


# The codes


def _code_cases(draw, hidden):
    yield from [(1, 2), (2, 4), (3, 2), (4, 6)] + [(2, 10), (9, 4), (12, 8)] * hidden


def _codes(frequencies=frequencies, places=mt.arange, first=mt.sin, second=mt.cos, join=interleave):
    """Codes with one of their pieces exchanged."""

    def codes(n, d):
        angles = places(n).unsqueeze(1) * frequencies(d)  # (n, d/2)
        return join(first(angles), second(angles))

    return codes


@exercise(cases=_code_cases, gradients=False, see='chapter 08, "Sinusoids"')
def sinusoidal_codes(n, d):
    """The codes of the places 0 to n - 1: (n, d)."""
    omega = 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (d/2)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, d/2)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


sinusoidal_codes.wrong(
    "right but for the order of the columns: all sines come before all cosines",
    "Sine and cosine of one hand stand side by side: columns 2m and 2m + 1.",
)(_codes(join=side_by_side))
sinusoidal_codes.wrong(
    "right but for sine and cosine, which are exchanged",
    "Column 2m holds the sine, column 2m + 1 the cosine: the code of place 0 is 0, 1, 0, 1, ...",
)(_codes(first=mt.cos, second=mt.sin))
sinusoidal_codes.wrong(
    "right but for the hands, which are counted from 1",
    "m runs from 0 to d/2 - 1: the fastest hand has the frequency 1.",
)(_codes(frequencies=from_one))
sinusoidal_codes.wrong(
    "right but for the exponent: it takes 2m/d with m = 0, 2, 4, ..., the number of the column",
    "m counts the pairs of columns, 0, 1, 2, ... If you count the columns 0, 2, 4, ..., then the "
    "factor 2 is in them already.",
)(_codes(frequencies=double_exponents))
sinusoidal_codes.wrong(
    "right but for the exponent, which lacks the 2",
    "The exponent is -2m/d, with m = 0, ..., d/2 - 1 for the pairs of columns.",
)(_codes(frequencies=half_exponents))
sinusoidal_codes.wrong(
    "right but for the exponent: it divides by d/2 - 1, so that the slowest hand has 1/10000",
    "Some programs do so. Here, as in the paper, the exponent is -2m/d.",
)(_codes(frequencies=lambda d: 10_000.0 ** (-mt.arange(d // 2) / max(d // 2 - 1, 1))))
sinusoidal_codes.wrong(
    "right but for the sign of the exponent",
    "omega_m is 10000 to the power of -2m/d: after the first, each hand is slower than the last.",
)(_codes(frequencies=lambda d: 1 / frequencies(d)))
sinusoidal_codes.wrong(
    "right but for the exponent, which is 2 + m/d as on a slide",
    "That is a misprint, for which even the fastest hand takes 600 million words. The exponent is "
    "-2m/d.",
)(_codes(frequencies=lambda d: 10_000.0 ** -(2 + mt.arange(d // 2) / d)))
sinusoidal_codes.wrong(
    "right but for the base, which is 1000",
    "The base is 10000.",
)(_codes(frequencies=lambda d: frequencies(d) ** 0.75))
sinusoidal_codes.wrong(
    "right but for the base, which is 100000",
    "The base is 10000.",
)(_codes(frequencies=lambda d: frequencies(d) ** 1.25))
sinusoidal_codes.wrong(
    "right but for the frequencies: all hands turn at the same speed",
    "Hand m has the frequency 10000 to the power of -2m/d.",
)(_codes(frequencies=lambda d: mt.ones(d // 2)))
sinusoidal_codes.wrong(
    "right but for the places, which are counted from 1",
    "The first row is that of place 0: 0, 1, 0, 1, ...",
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
    "Column 2m + 1 is the cosine. With both, a shift is a rotation of the pair.",
)(_codes(second=mt.sin))
sinusoidal_codes.wrong(
    "transposed: (d, n)",
    "A place is a row: (n, d).",
)(lambda n, d: _codes()(n, d).T)


@sinusoidal_codes.wrong(
    "right but for the cosines, each of which has a frequency of its own",
    "Sine and cosine of a pair are two coordinates of one hand: columns 2m and 2m + 1 share "
    "omega_m.",
)
def _(n, d):
    angles = mt.arange(n).unsqueeze(1) * 10_000.0 ** (-mt.arange(d) / d)
    return interleave(angles[:, 0::2].sin(), angles[:, 1::2].cos())


# The shift


def _shift_cases(draw, hidden):
    yield from [(1, 2), (2, 4), (-3, 4), (0, 2), (1, 6)]
    if hidden:
        yield from [(5, 8), (-1, 10), (2, 12)]


def clockwise(c, s):
    """Takes (sin a, cos a) to (sin(a + b), cos(a + b)), for c = cos b and s = sin b."""
    return [[c, -s], [s, c]]


def _shift(frequencies=frequencies, block=clockwise, angle=lambda shift, omega: shift * omega):
    """The shift with one of its pieces exchanged."""

    def matrix(shift, d):
        result = mt.zeros(d, d)
        for j, omega in enumerate(frequencies(d).tolist()):
            turn = angle(shift, omega)
            pair = slice(2 * j, 2 * j + 2)
            result[pair, pair] = mt.tensor(block(math.cos(turn), math.sin(turn)))
        return result

    return matrix


def _shifts_anywhere(answer, shift, d):
    codes = sinusoidal_codes.reference(50, d)
    matrix = answer(shift, d).to(codes)
    before, after = codes[5:-5], codes[5 + shift : 45 + shift]
    if matrix.shape == (d, d) and not mt.allclose(before @ matrix, after, atol=1e-5):
        return "At every t, p_t @ matrix must be the code of place t + shift."
    return None


@exercise(
    cases=_shift_cases,
    properties=(_shifts_anywhere,),
    gradients=False,
    see='chapter 08, "A shift is a rotation (C18)"',
)
def shift_matrix(shift, d):
    """R (d, d): codes times R are the codes of the places that lie shift further on."""
    R = mt.zeros(d, d)
    for j in range(d // 2):
        angle = shift * 10_000 ** (-2 * j / d)
        c, s = math.cos(angle), math.sin(angle)
        R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = mt.tensor([[c, -s], [s, c]])
    return R


shift_matrix.wrong(
    "transposed: it shifts by as much in the other direction",
    "Codes are rows: sin(a + b) = sin a cos b + cos a sin b is the first column of a block, "
    "(cos b, sin b). Papers that write columns have the transpose.",
)(_shift(block=lambda c, s: [[c, s], [-s, c]]))
shift_matrix.wrong(
    "right but for a sign: its blocks are reflections, not rotations",
    "cos(a + b) = cos a cos b - sin a sin b: the second column of a block is (-sin b, cos b).",
)(_shift(block=lambda c, s: [[c, s], [s, c]]))
shift_matrix.wrong(
    "right but for the signs: both sines are negative",
    "sin(a + b) = sin a cos b + cos a sin b: the first column of a block is (cos b, sin b).",
)(_shift(block=lambda c, s: [[c, -s], [-s, c]]))
shift_matrix.wrong(
    "right but for sines and cosines, which are exchanged",
    "cos(s omega) stands on the diagonal: for the shift 0 the matrix is the identity.",
)(_shift(block=lambda c, s: [[s, -c], [c, s]]))
shift_matrix.wrong(
    "right but for the angles, which are all those of the first hand",
    "Each hand has a frequency of its own: block m turns by shift times omega_m.",
)(_shift(frequencies=lambda d: mt.ones(d // 2)))
shift_matrix.wrong(
    "right but for the shift, which is not used: it shifts by 1",
    "Block m turns by shift times omega_m.",
)(_shift(angle=lambda shift, omega: omega))
shift_matrix.wrong(
    "right but for the hands, which are counted from 1",
    "m runs from 0 to d/2 - 1: the first block turns by the shift itself.",
)(_shift(frequencies=from_one))
shift_matrix.wrong(
    "right but for the exponent: it takes 2m/d with m = 0, 2, 4, ..., the number of the column",
    "m counts the pairs of columns, 0, 1, 2, ...",
)(_shift(frequencies=double_exponents))
shift_matrix.wrong(
    "right but for the exponent, which lacks the 2",
    "The exponent is -2m/d, with m = 0, ..., d/2 - 1 for the pairs of columns.",
)(_shift(frequencies=half_exponents))


@shift_matrix.wrong(
    "right but for the places of the blocks, which overlap: each starts one column after the last",
    "Block m has the rows and columns 2m and 2m + 1.",
)
def _(shift, d):
    result = mt.zeros(d, d)
    for j, omega in enumerate(frequencies(d).tolist()):
        c, s = math.cos(shift * omega), math.sin(shift * omega)
        result[j : j + 2, j : j + 2] = mt.tensor(clockwise(c, s))
    return result


@shift_matrix.wrong(
    "for codes with all sines before all cosines",
    "Sine and cosine of a hand stand side by side, so that the matrix has blocks of two by two on "
    "its diagonal.",
)
def _(shift, d):
    turns = shift * frequencies(d)
    c, s = mt.diag(turns.cos()), mt.diag(turns.sin())
    return mt.cat([mt.cat([c, -s], dim=1), mt.cat([s, c], dim=1)])


@shift_matrix.wrong(
    "a permutation that moves rows: it shifts positions in a sequence, not their codes",
    "The matrix multiplies one code, (d), from the right. It turns each pair of numbers "
    "of the code.",
)
def _(shift, d):
    return mt.eye(d).roll(shift, 0)
