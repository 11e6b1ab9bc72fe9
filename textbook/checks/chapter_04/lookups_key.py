"""Answers to the exercises of ``lookups.py``."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_04.lookups import _table_cases, pair_table


@pair_table.answer(
    hidden_cases=lambda draw: _table_cases(
        draw, more=[(9, 1e-6), (7, 0.3), (5, 0.6), (4, 0.9), (8, 0.5)]
    ),
    after_passing=(
        "Smaller: n - 1 dimensions are enough. Take the mean of all keys away from each."
    ),
)
def pair_table(n, error):
    """Keys (n, d), queries (n, d): query i finds keys i and i + 1, (1 - error) / 2 each."""
    # e^scale must be the ratio of a wanted weight to an unwanted one.
    scale = math.log((1 - error) / 2 / (error / (n - 2)))
    keys = mt.eye(n)
    return keys, scale * (keys + keys.roll(-1, 0))


# Right in another way


def table_of_scaled_keys(n, error):
    ratio = (1 - error) * (n - 2) / (2 * error)
    queries = mt.tensor([[float(j in (i, (i + 1) % n)) for j in range(n)] for i in range(n)])
    return math.log(ratio) * mt.eye(n), queries


def table_of_logarithms(n, error):
    """Queries pick a row of keys that hold the logarithms of the weights."""

    def weight(i, j):
        return (1 - error) / 2 if j in (i, (i + 1) % n) else error / (n - 2)

    weights = [[weight(i, j) for i in range(n)] for j in range(n)]
    return mt.tensor(weights, dtype=mt.float64).log(), mt.eye(n)


def table_of_rotated_vectors(n, error):
    """Orthonormal keys in more dimensions than there are entries."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((n + 3, n)))[0].T
    scale = math.log1p(-error) - math.log(2 * error / (n - 2))
    return mt.tensor(basis), mt.tensor(scale * (basis + np.roll(basis, -1, axis=0)))


right = {
    "pair_table": [table_of_scaled_keys, table_of_logarithms, table_of_rotated_vectors],
}
