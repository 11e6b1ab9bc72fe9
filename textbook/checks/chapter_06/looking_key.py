"""Answers to the exercises of ``looking.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_06.looking import _pair_cases, two_heads


@two_heads.answer(
    hidden_cases=lambda draw: _pair_cases(draw, others=[(9, 1, 5, 9), (25, 8, 6, 20)]),
    after_passing="Smaller: both heads can share K and V. That is exercise 9 with groups = 1.",
)
def two_heads(k, c):
    """Q[l] (2k, k), K[l] (k + c, k) and V[l] (k + c, c) of two heads."""
    # The score of the key that is asked for is sharp / sqrt(k) = 20, all others are 0.
    sharp = 20 * k**0.5
    first = mt.cat([sharp * mt.eye(k), mt.zeros(k, k)])
    second = mt.cat([mt.zeros(k, k), sharp * mt.eye(k)])
    key = mt.cat([mt.eye(k), mt.zeros(c, k)])
    value = mt.cat([mt.zeros(k, c), mt.eye(c)])
    return [first, second], [key, key], [value, value]


# Right in another way


def sharp_keys(k, c):
    """The scale in K, and far larger than need be."""
    Q = [mt.cat([mt.eye(k), mt.zeros(k, k)]), mt.cat([mt.zeros(k, k), mt.eye(k)])]
    K, V = mt.zeros(k + c, k), mt.zeros(k + c, c)
    for i in range(k):
        K[i, i] = 1e6
    for i in range(c):
        V[k + i, i] = 1.0
    return Q, [K, K], (V, V)


def rotated_heads(k, c):
    """Any orthogonal matrix between queries and keys leaves the scores as they are."""
    basis = mt.tensor(np.linalg.qr(np.random.default_rng(3).standard_normal((k, k)))[0])
    empty = mt.zeros(k, k)
    Q = [mt.cat([100 * basis, empty]), mt.cat([empty, 100 * basis])]
    K = mt.cat([basis, mt.zeros(c, k)])
    V = F.pad(mt.eye(c), (0, 0, k, 0))
    return Q, [K] * 2, [V] * 2


def heads_that_dislike_other_keys(k, c):
    """Scores of 0 for the right key and far below 0 for the others."""
    against = -200 * (1 - mt.eye(k))
    Q = [mt.cat([against, 0 * against]), mt.cat([0 * against, against])]
    K, V = mt.eye(k + c)[:, :k], mt.eye(k + c)[:, k:]
    return Q, [K, K], [V, V]


right = {
    "two_heads": [sharp_keys, rotated_heads, heads_that_dislike_other_keys],
}
