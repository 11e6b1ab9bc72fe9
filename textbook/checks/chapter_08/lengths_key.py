"""Answers to the exercises of ``lengths.py``."""

import itertools
import math

import numpy as np

from textbook.checks.chapter_08.lengths import _context_cases, longer_context

# What a longer context does to the angles


@longer_context.answer(
    hidden_cases=lambda draw: _context_cases(
        draw, more=[(6, 500.0, 128, 129), (128, 500_000, 8192, 131_072), (16, 10.0, 7, 100)]
    )
)
def longer_context(d, base, trained, longer):
    """Pairs that have been around in training, and two remedies for a longer text: a dict."""
    last, end = trained - 1, longer - 1  # the largest places
    around = [m for m in range(d // 2) if base ** (-2 * m / d) * last >= 2 * math.pi]
    return {
        "pairs that have been around": len(around),
        "squeeze": last / end,
        "base": base * (end / last) ** (d / (d - 2)),
    }


# Right in another way


def context_with_numpy(d, base, trained, longer):
    omega = base ** (-2 * np.arange(d // 2) / d)
    angles = omega * (trained - 1)
    ratio = np.float64(longer - 1) / (trained - 1)
    return {
        "base": base * ratio ** (d / (d - 2)),
        "squeeze": 1 / ratio,
        "pairs that have been around": np.count_nonzero(angles >= 2 * np.pi),
    }


def context_by_bisection(d, base, trained, longer):
    """The base is looked for; pairs are counted until one has not been around."""
    wanted = (trained - 1) * base ** (2 / d - 1)
    low, high = base, base * 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        if (longer - 1) * middle ** (2 / d - 1) > wanted:
            low = middle
        else:
            high = middle
    around = itertools.takewhile(
        lambda m: (trained - 1) / base ** (2 * m / d) >= math.tau, range(d // 2)
    )
    return {
        "pairs that have been around": len(list(around)),
        "squeeze": (trained - 1) / (longer - 1),
        "base": low,
    }


right = {
    "longer_context": [context_with_numpy, context_by_bisection],
}
