"""Answers to the exercises of ``comparisons.py``."""

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np

from textbook.checks.chapter_03.comparisons import _table_cases, shown_better


def _unpaired(x, y):
    """Whether the shares differ by more than two standard errors of a difference."""
    p, q, n = statistics.mean(x), statistics.mean(y), len(x)
    return p - q > 2 * math.sqrt((p * (1 - p) + q * (1 - q)) / n)


@shown_better.answer(
    hidden_cases=lambda draw: _table_cases(draw, others=[(16, 6), (15, 6), (3, 17), (70, 45)])
)
def shown_better(rows):
    """Pairs (better, worse) of translators, as far as the test shows it."""
    fair = [row for row in rows if row["chosen on"] != row["test"]]
    found = []
    for one in fair:
        for other in fair:
            if one["test"] != other["test"]:
                continue
            answers = list(zip(one["right"], other["right"], strict=True))
            wins, losses = answers.count((1, 0)), answers.count((0, 1))
            n = wins + losses
            if sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n < 0.025:
                found.append((one["translator"], other["translator"]))
    return found


# Right in another way


def shown_with_fractions(rows):
    found = set()
    for one, other in itertools.permutations(rows, 2):
        tests = {one["test"], other["test"]}
        if len(tests) == 1 and not tests & {one["chosen on"], other["chosen on"]}:
            differences = [
                x - y for x, y in zip(one["right"], other["right"], strict=True) if x != y
            ]
            n, losses = len(differences), differences.count(-1)
            tail = Fraction(sum(math.comb(n, k) for k in range(losses + 1)), 2**n)
            if tail < Fraction(25, 1000):
                found.add((one["translator"], other["translator"]))
    return found


def shown_by_tosses_one_by_one(rows):
    """The distribution of the wins, toss after toss."""
    found = []
    for a, b in itertools.product(rows, rows):
        if a["test"] != b["test"] or a["test"] in (a["chosen on"], b["chosen on"]):
            continue
        x, y = np.array(a["right"]), np.array(b["right"])
        chances = np.ones(1)
        for _ in range((x != y).sum()):
            chances = (np.append(chances, 0) + np.append(0, chances)) / 2
        if chances[(x > y).sum() :].sum() < 0.025:
            found.append([a["translator"], b["translator"]])
    return found


right = {
    "shown_better": [shown_with_fractions, shown_by_tosses_one_by_one],
}
