"""Answers to the exercises of ``measuring.py``."""

import statistics
from statistics import stdev

import numpy as np

from textbook.checks.chapter_12.measuring import _measure_cases, measure


@measure.answer(hidden_cases=lambda draw: _measure_cases(draw, more=[7]))
def measure(accuracy, rates, choosing, reporting):
    """Choose a rate on some seeds, report on others: a dict."""
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    best = max(rates, key=lambda rate: statistics.mean(tried[rate]))
    found = [accuracy(best, seed) for seed in reporting]
    return {
        "rate": best,
        "at the edge": best in (min(rates), max(rates)),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }


# Right in another way


def measured_in_a_table(accuracy, rates, choosing, reporting):
    table = np.array([[accuracy(rate, seed) for seed in choosing] for rate in rates])
    rate = rates[int(table.mean(axis=1).argmax())]
    found = np.array([accuracy(rate, seed) for seed in reporting])
    return {
        "rate": rate,
        "at the edge": bool(sorted(rates).index(rate) in (0, len(rates) - 1)),
        "accuracies": found.tolist(),
        "mean": found.mean(),
        "spread": found.std(ddof=1),
    }


def measured_seed_by_seed(accuracy, rates, choosing, reporting):
    sums = dict.fromkeys(rates, 0.0)
    for seed in choosing:
        for rate in rates:
            sums[rate] += accuracy(rate, seed)
    best = sorted(rates, key=sums.get)[-1]
    found = tuple(accuracy(best, seed) for seed in reporting)
    edge = not min(rates) < best < max(rates)
    report = {"accuracies": found, "mean": sum(found) / len(found), "spread": stdev(found)}
    return {"rate": best, "at the edge": edge} | report


right = {
    "measure": [measured_in_a_table, measured_seed_by_seed],
}
