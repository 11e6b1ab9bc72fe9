"""Answers to the exercises of ``order.py``."""

import itertools

import numpy as np

import minitorch as mt
from textbook.checks.chapter_05.order import _order_cases, noticed_order

# Order


def _swaps(n, *kept):
    """The exchanges of two neighbours, among the positions that are not kept."""
    moved = [i for i in range(n) if i not in kept]
    for i, j in itertools.pairwise(moved):
        order = list(range(n))
        order[i], order[j] = j, i
        yield order


@noticed_order.answer(hidden_cases=lambda draw: _order_cases(draw, d=3))
def noticed_order(layer, X):
    """A layer (n, d) -> (n, d') and tokens X (n, d) give a permutation, a list, or None."""
    outputs = layer(X)
    for order in itertools.permutations(range(len(X))):
        p = list(order)
        if not mt.allclose(layer(X[p]), outputs[p], rtol=0, atol=1e-8):
            return p
    return None


# Right in another way


def order_by_random_permutations(layer, X):
    for _ in range(300):
        p = mt.randperm(len(X))
        if (layer(X[p])[p.argsort()] - layer(X)).abs().max() > 1e-8:
            return p
    return None


def order_by_inserting(layer, X):
    """Orders of one token more from those of one less."""
    orders = [[]]
    for i in range(len(X)):
        orders = [[*p[:j], i, *p[j:]] for p in orders for j in range(len(p) + 1)]
    outputs = layer(X)
    shown = [p for p in orders if not ((layer(X[p]) - outputs[p]).abs() < 1e-9).all()]
    return tuple(shown[-1]) if shown else None


def order_by_permutation_matrices(layer, X):
    eye = mt.eye(len(X)).float()
    for rows in itertools.permutations(range(len(X))):
        P = mt.stack([eye[i] for i in rows])
        if not mt.allclose(layer(P @ X), P @ layer(X), rtol=0, atol=1e-7):
            return np.array(rows)
    return None


right = {
    "noticed_order": [
        order_by_random_permutations,
        order_by_inserting,
        order_by_permutation_matrices,
    ],
}
