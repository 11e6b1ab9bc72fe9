"""Longer texts than trained: what rotary angles do there."""

import math

from textbook.checks.exercise import exercise

# What a longer context does to the angles


def _context_cases(draw, more=()):
    yield from [(8, 10_000.0, 20, 64), (4, 100.0, 7, 33), (64, 10_000.0, 2048, 8192)]
    yield 8, 2.0, 500, 900
    yield from more


@exercise(
    cases=_context_cases,
    hidden_cases=lambda draw: _context_cases(
        draw, more=[(6, 500.0, 128, 129), (128, 500_000, 8192, 131_072), (16, 10.0, 7, 100)]
    ),
    gradients=False,
    see='chapter 08, "Rotary positions"',
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
