"""When is a difference a finding? The one rule of the book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

FEWEST = 5  # seeds on each side
LEVEL = 0.05


@dataclass
class Finding:
    """How much larger one of two settings is, and how often chance alone gives as much."""

    seeds: int
    differences: np.ndarray
    p: float

    @property
    def found(self) -> bool:
        """Whether the difference may be called a finding."""
        return self.seeds >= FEWEST and self.p <= LEVEL


def finding(larger: Sequence[float], smaller: Sequence[float], *, paired: bool = True) -> Finding:
    """Tell whether ``larger`` is larger than ``smaller``, or only happens to be in these seeds.

    If the setting made no difference, then of each pair, two runs with the same seed, either could
    as well have been the larger one. n pairs can be turned round in 2^n ways. p is the share of
    these ways in which the sum of the differences is at least as large as the one measured (a
    permutation test; Fisher, 1935). The difference is a **finding** if there are at least five
    seeds and p is at most 0.05: with five, all five must agree (1/32). Which one is to be larger,
    the question says, not the result. Runs that have nothing in common but the settings are not
    ``paired``: then the numbers of both are dealt anew in all ways. ::

        finding([0.91, 0.93, 0.90, 0.95, 0.92], [0.88, 0.90, 0.89, 0.91, 0.90]).found  # True
    """
    a, b = np.asarray(larger, dtype=float), np.asarray(smaller, dtype=float)
    if np.isnan(a).any() or np.isnan(b).any():
        raise ValueError(
            "expected numbers, got nan (never reached): compare what was measured at a fixed "
            "budget, or which runs arrived"
        )
    if paired and a.size != b.size:
        raise ValueError(
            f"expected a pair for each seed, got {a.size} and {b.size} numbers: measure both with "
            "the same seeds, or say paired=False"
        )
    if paired:
        differences = a - b
        sums = np.zeros(1)
        for difference in differences:
            sums = np.concatenate([sums + difference, sums - difference])
        measured = differences.sum()
    else:
        differences = np.array([np.median(a) - np.median(b)])
        both = np.concatenate([a, b])
        sums = both[np.array([*combinations(range(both.size), a.size)])].sum(axis=1)
        measured = a.sum()
    rounding = 1e-9 * (np.abs(a).sum() + np.abs(b).sum())
    p = float((sums >= measured - rounding).mean())
    return Finding(seeds=min(a.size, b.size), differences=differences, p=p)
