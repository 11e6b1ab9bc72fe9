"""Answers to the exercises of ``codes.py``."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_08.codes import (
    _code_cases,
    _shift_cases,
    shift_matrix,
    sinusoidal_codes,
)


def frequencies(d, base):
    """From 1 down to 1/base, each the same factor slower than the last: (d/2)."""
    k = d // 2
    return base ** (-mt.arange(k) / max(k - 1, 1))


# The codes


@sinusoidal_codes.answer(
    hidden_cases=lambda draw: _code_cases(
        draw, more=[(1, 2, 7.0), (12, 10, 10_000.0), (70, 4, 1e6), (9, 6, 100)]
    )
)
def sinusoidal_codes(n, d, base=10_000.0):
    """The codes of the places 0 to n - 1: (n, d)."""
    k = d // 2
    omega = base ** (-mt.arange(k) / max(k - 1, 1))  # (k)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, k)
    return mt.cat([angles.sin(), angles.cos()], dim=1)


# The shift


def turned(c, s):
    """Takes [sin a, cos a] to [sin(a + b), cos(a + b)], for diagonal c = cos b and s = sin b."""
    return [[c, -s], [s, c]]


def _in_pairs(matrix):
    """The same with sine and cosine of a hand side by side."""
    order = mt.arange(len(matrix)).reshape(2, -1).T.flatten()
    return matrix[order][:, order]


@shift_matrix.answer(
    hidden_cases=lambda draw: _shift_cases(
        draw, shifts=(5, -1.75, 1000, 0), alike=(1, 1 + 2 * math.pi)
    ),
    after_passing="Shorter: with complex numbers it is a product with exp(i omega s); R is "
    "that in real ones.",
)
def shift_matrix(shift, omega):
    """R (2k, 2k): codes times R are the codes of the places that lie shift further on."""
    angles = shift * omega
    c, s = mt.diag(angles.cos()), mt.diag(angles.sin())  # (k, k)
    return mt.cat([mt.cat([c, -s], dim=1), mt.cat([s, c], dim=1)])


# Right in another way


def codes_in_a_loop(n, d, base=10_000.0):
    k = d // 2
    codes = mt.zeros(n, d)
    for t in range(n):
        for m in range(k):
            omega = base ** -(m / (k - 1)) if k > 1 else 1
            codes[t, m], codes[t, k + m] = math.sin(omega * t), math.cos(omega * t)
    return codes


def codes_with_linspace(n, d, base=10_000.0):
    """As the program has it."""
    omega = mt.exp(-math.log(base) * mt.linspace(0.0, 1.0, d // 2))
    angles = mt.arange(n).float().unsqueeze(1) @ omega.unsqueeze(0)
    return mt.cat([mt.sin(angles), mt.cos(angles)], dim=-1)


def codes_with_numpy(n, d, base=10_000.0):
    angles = np.outer(np.arange(n), np.geomspace(1, 1 / base, d // 2))
    return mt.tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def codes_by_turning(n, d, base=10_000.0):
    """Each row is the one before, shifted by 1."""
    k, rows = d // 2, [[0.0] * (d // 2) + [1.0] * (d // 2)]
    omega = [base ** (-m / max(1, k - 1)) for m in range(k)]
    while len(rows) < n:
        pairs = zip(rows[-1][:k], rows[-1][k:], omega, strict=True)
        turned = [
            (s * math.cos(w) + c * math.sin(w), c * math.cos(w) - s * math.sin(w))
            for s, c, w in pairs
        ]
        rows.append([s for s, _ in turned] + [c for _, c in turned])
    return mt.tensor(rows)


def shift_number_by_number(shift, omega):
    k = len(omega)
    matrix = mt.zeros(2 * k, 2 * k)
    for m, angle in enumerate((shift * omega).tolist()):
        matrix[m, m] = matrix[k + m, k + m] = math.cos(angle)
        matrix[k + m, m] = math.sin(angle)
        matrix[m, k + m] = -math.sin(angle)
    return matrix


def shift_with_kron(shift, omega):
    angles = shift * omega.numpy()
    c, s = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return mt.tensor(np.kron(np.eye(2), c) + np.kron(np.array([[0, -1], [1, 0]]), s))


def shift_from_pairs(shift, omega):
    """The chapter's blocks, with rows and columns in the other order."""
    k = len(omega)
    blocks = mt.zeros(2 * k, 2 * k)
    for m, angle in enumerate((shift * omega).tolist()):
        c, s = math.cos(angle), math.sin(angle)
        blocks[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = mt.tensor([[c, -s], [s, c]])
    order = mt.tensor([*range(0, 2 * k, 2), *range(1, 2 * k, 2)])
    return blocks[order][:, order].float()


def shift_by_two_codes(shift, omega):
    """Two codes of each hand are enough to solve for its four numbers."""
    k, matrix = len(omega), np.zeros((2 * len(omega),) * 2)
    for m, w in enumerate(omega.tolist()):
        before = np.array([[math.sin(0), math.cos(0)], [1.0, 0.0]])
        quarter = math.pi / 2
        after = np.array([[math.sin(a), math.cos(a)] for a in (shift * w, quarter + shift * w)])
        block = np.linalg.solve(before, after)
        matrix[np.ix_([m, k + m], [m, k + m])] = block
    return mt.tensor(matrix)


right = {
    "sinusoidal_codes": [codes_in_a_loop, codes_with_linspace, codes_with_numpy, codes_by_turning],
    "shift_matrix": [shift_number_by_number, shift_with_kron, shift_from_pairs, shift_by_two_codes],
}
