"""Longer texts than trained: what rotary angles do there."""

from textbook.checks.reasons import part_by_part
from textbook.checks.released import exercise

# What a longer context does to the angles


def _context_cases(draw, more=()):
    yield from [(8, 10_000.0, 20, 64), (4, 100.0, 7, 33), (64, 10_000.0, 2048, 8192)]
    yield 8, 2.0, 500, 900
    yield from more


SLIPS = {
    "squeeze": {
        "it is the ratio of the lengths; the last places are trained - 1 and longer - 1": (
            lambda d, base, trained, longer: trained / longer
        )
    }
}

longer_context = exercise(
    "longer_context",
    cases=_context_cases,
    reasons=(part_by_part(SLIPS),),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
