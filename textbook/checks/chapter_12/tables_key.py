"""Answers to the exercises of ``tables.py``."""

import statistics
from itertools import product
from statistics import mean

import numpy as np

from textbook.checks.chapter_12.tables import _table_cases, believable
from textbook.lab import finding


def _differences(row):
    """How far each run lies below the base's of the same seed."""
    return [base - ours for ours, base in zip(row["losses"], row["base losses"], strict=False)]


def _share(row, counts):
    """The share of all orders of the pairs whose sum of differences ``counts``."""
    differences = _differences(row)
    measured = sum(differences)
    orders = product((1, -1), repeat=len(differences))
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in orders]
    return statistics.mean(counts(total, measured) for total in sums)


@believable.answer(hidden_cases=lambda draw: _table_cases(draw, level=1.5, count=12))
def believable(rows):
    """The numbers of the rows of which one may say: this change makes the loss lower."""
    found = []
    for number, row in enumerate(rows):
        ours, base = row["losses"], row["base losses"]
        if len(ours) != len(base):
            continue
        inside = all(
            min(row[f"{whose}rates tried"]) < row[f"{whose}rate"] < max(row[f"{whose}rates tried"])
            for whose in ("", "base ")
        )
        chosen = row["chosen on"] == row["base chosen on"] == "validation"
        fair = chosen and row["steps"] == row["base steps"]
        if inside and fair and finding(base, ours).found:
            found.append(number)
    return found


# Right in another way


def _fair(row, whose):
    tried = sorted(row[f"{whose}rates tried"])
    return row[f"{whose}rate"] in tried[1:-1]


def believed_with_numpy(rows):
    found = []
    for i, row in enumerate(rows):
        if "test" in (row["chosen on"], row["base chosen on"]) or not (
            _fair(row, "") and _fair(row, "base ")
        ):
            continue
        n = len(row["losses"])
        if row["steps"] != row["base steps"] or n != len(row["base losses"]) or n < 5:
            continue
        differences = np.array(row["base losses"]) - np.array(row["losses"])
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        if (signs @ differences >= differences.sum() - 1e-9).sum() <= 0.05 * 2**n:
            found.append(i)
    return found


def believed_in_one_go(rows):
    def p(row):
        differences = [b - a for a, b in zip(row["losses"], row["base losses"], strict=True)]
        sums = [0.0]
        for one in differences:
            sums = [x + y for x in sums for y in (one, -one)]
        return mean(x > sum(differences) - 1e-9 for x in sums)

    return [
        i
        for i, row in enumerate(rows)
        if _fair(row, "")
        and _fair(row, "base ")
        and row["chosen on"] != "test" != row["base chosen on"]
        and row["base steps"] == row["steps"]
        and len(row["losses"]) == len(row["base losses"])
        and p(row) <= 0.05
    ]


right = {
    "believable": [believed_with_numpy, believed_in_one_go],
}
