"""Answers to the exercises of ``measuring.py``."""

import math
import statistics

import numpy as np

from textbook.checks.chapter_11.measuring import _measuring_cases, measure


@measure.answer(hidden_cases=lambda draw: _measuring_cases(draw, unit=0.0005))
def measure(run, score, rates, choosing, reporting):
    """The rate chosen on validation data, and the accuracies on test data with other seeds."""
    values, missing = {}, rates
    while missing:
        for rate in missing:
            models = [run(rate, seed) for seed in choosing]
            values[rate] = statistics.mean(score(model, "validation") for model in models)
        best = max(values, key=values.get)
        missing = {max(values): [2 * best], min(values): [best / 2]}.get(best)
    found = [score(run(best, seed), "test") for seed in reporting]
    return {
        "rate": best,
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }


# Right in another way


def measure_with_numpy(run, score, rates, choosing, reporting):
    tried = {}

    def value(rate):
        if rate not in tried:
            shares = [score(run(rate, seed), "validation") for seed in choosing]
            tried[rate] = np.mean(shares)
        return tried[rate]

    rates = sorted(rates)
    while True:
        best = max(rates, key=value)
        if best == rates[0]:
            rates = [best / 2, *rates]
        elif best == rates[-1]:
            rates = [*rates, best * 2]
        else:
            break
    found = np.array([score(run(best, seed), "test") for seed in reporting])
    return {
        "accuracies": found.tolist(),
        "rate": best,
        "mean": found.mean(),
        "spread": found.std(ddof=1),
    }


def measure_by_recursion(run, score, rates, choosing, reporting, known=None):
    known = dict(known or {})
    for rate in rates:
        if rate not in known:
            known[rate] = sum(score(run(rate, seed), "validation") for seed in choosing)
    best = sorted(known, key=known.get)[-1]
    for edge, beyond in ((min(known), 0.5), (max(known), 2.0)):
        if best == edge:
            return measure_by_recursion(run, score, [best * beyond], choosing, reporting, known)
    accuracies = []
    for seed in reporting:
        accuracies.append(score(run(best, seed), data="test"))
    mean = math.fsum(accuracies) / len(accuracies)
    squares = math.fsum((x - mean) ** 2 for x in accuracies)
    spread = math.sqrt(squares / (len(accuracies) - 1))
    return dict(rate=best, accuracies=tuple(accuracies), mean=mean, spread=spread)


right = {
    "measure": [measure_with_numpy, measure_by_recursion],
}
