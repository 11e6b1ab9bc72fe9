"""Answers to the exercises of ``costs.py``."""

import math
from fractions import Fraction

from textbook.checks.chapter_04.costs import _size_cases, score_costs


@score_costs.answer(
    hidden_cases=lambda draw: _size_cases(
        draw, more=[(1, 1, 1, 1), (40, 3, 100, 7), (6, 50, 33, 5), (128, 64, 512, 64)]
    )
)
def score_costs(T, n, d, r):
    """FLOPs of four score functions for T queries and n keys of d numbers: a dict."""
    pairs = 2 * T * n
    projected = 2 * (T + n) * d * r  # queries and keys, each by a matrix (r, d)
    return {
        "dot product": pairs * d,
        "multiplicative": 2 * min(T, n) * d * d + pairs * d,
        "reduced rank": projected + pairs * r,
        "additive": projected + pairs * r,
        "largest rank": T * n * d // ((T + n) * d + T * n),
    }


# Right in another way


def costs_step_by_step(T, n, d, r):
    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    dot = product(T, d, n)
    low_rank = product(T, d, r) + product(n, d, r) + product(T, r, n)
    low, high = 0, d + 1  # the largest rank by bisection
    while high - low > 1:
        middle = (low + high) // 2
        costs = product(T, d, middle) + product(n, d, middle) + product(T, middle, n)
        low, high = (middle, high) if costs <= dot else (low, middle)
    return {
        "largest rank": low,
        "additive": low_rank,
        "reduced rank": low_rank,
        "multiplicative": min(product(T, d, d), product(n, d, d)) + dot,
        "dot product": dot,
    }


def costs_in_fractions(T, n, d, r):
    rank = Fraction(2 * T * n * d, 2 * (T + n) * d + 2 * T * n)
    both = 2 * r * (T * d + n * d + T * n)
    bilinear = 2 * d * (d * sorted([T, n])[0] + T * n)
    return {
        "dot product": Fraction(2 * T * n * d),
        "multiplicative": bilinear,
        "reduced rank": both,
        "additive": both,
        "largest rank": math.floor(rank),
    }


right = {
    "score_costs": [costs_step_by_step, costs_in_fractions],
}
