"""Answers to the exercises of ``isoflops.py``."""

import math

import numpy as np

from textbook.checks.chapter_13.isoflops import _figure_cases, best_sizes


def _honest(run):
    return abs(run["FLOPs of a token"] * run["tokens"] / run["budget"] - 1) <= 0.05


def _vertex(three):
    """Of the parabola through three points in log N."""
    x, y = zip(*((math.log(run["weights"]), run["loss"]) for run in three), strict=True)
    a, b, _ = np.polyfit(np.array(x) - x[1], y, 2)
    return math.exp(x[1] - b / (2 * a))


@best_sizes.answer(hidden_cases=lambda draw: _figure_cases(draw, unit=3))
def best_sizes(runs):
    """The best number of weights for each budget: a dict, None where it is not bracketed."""
    found = {}
    for budget in {run["budget"] for run in runs}:
        curve = []
        for run in runs:
            spent = run["FLOPs of a token"] * run["tokens"]
            if run["budget"] == budget and abs(spent - budget) <= 0.05 * budget:
                curve.append((math.log(run["weights"]), run["loss"]))
        curve.sort()
        losses = [loss for _, loss in curve]
        lowest = losses.index(min(losses))
        if 0 < lowest < len(curve) - 1:
            x, y = zip(*curve[lowest - 1 : lowest + 2], strict=True)
            a, b, _ = np.polyfit(x, y, 2)
            found[budget] = math.exp(-b / (2 * a))
        else:
            found[budget] = None
    return found


# Right in another way


def sizes_by_lagrange(runs):
    """The vertex in closed form."""
    found = {}
    for run in runs:
        found.setdefault(run["budget"], [])
        ratio = run["FLOPs of a token"] * run["tokens"] / run["budget"]
        if 0.95 <= ratio <= 1.05:
            found[run["budget"]].append(run)
    for budget, curve in found.items():
        curve.sort(key=lambda run: run["weights"])
        y = [run["loss"] for run in curve]
        x = [math.log10(run["weights"]) for run in curve]
        i = min(range(len(y)), key=y.__getitem__)
        if i in (0, len(y) - 1):
            found[budget] = None
            continue
        left, right = x[i] - x[i - 1], x[i] - x[i + 1]
        a, b = left * (y[i] - y[i + 1]), right * (y[i] - y[i - 1])
        found[budget] = 10 ** (x[i] - 0.5 * (left * a - right * b) / (a - b))
    return found


def sizes_by_solving(runs):
    result = dict.fromkeys(run["budget"] for run in runs)
    for budget in result:
        points = sorted(
            (np.log(run["weights"]), run["loss"])
            for run in runs
            if run["budget"] == budget
            and abs(run["tokens"] * run["FLOPs of a token"] - budget) / budget < 0.05
        )
        x, y = np.array(points).T
        i = y.argmin()
        if 0 < i < len(y) - 1:
            x, y = x[i - 1 : i + 2], y[i - 1 : i + 2]
            centre = x.mean()
            c = np.linalg.solve(np.vander(x - centre, 3), y)
            result[budget] = np.exp(centre - c[1] / (2 * c[0]))
    return result


right = {
    "best_sizes": [sizes_by_lagrange, sizes_by_solving],
}
