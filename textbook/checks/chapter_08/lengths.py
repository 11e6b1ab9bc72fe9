"""Longer texts than trained: what rotary angles do there."""

from textbook.checks.released import exercise

# What a longer context does to the angles


def _context_cases(draw, more=()):
    yield from [(8, 10_000.0, 20, 64), (4, 100.0, 7, 33), (64, 10_000.0, 2048, 8192)]
    yield 8, 2.0, 500, 900
    yield from more


longer_context = exercise(
    "longer_context",
    cases=_context_cases,
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
