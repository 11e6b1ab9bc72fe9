"""Answers to the exercises of ``comparisons.py``."""

import math
from collections import defaultdict

import numpy as np

from textbook.checks.chapter_13.comparisons import unfair


@unfair.answer()
def unfair(studies):
    """The numbers of the studies that do not always report what the honest procedure reports."""
    methods = ["frozen", "untrained", "from scratch"]

    def honest(accuracy, rates, steps, choosing, reporting):
        found = {}
        for method in methods:
            best = -1.0
            for rate in rates:
                for count in steps:
                    values = [
                        accuracy(method, rate, count, seed, "validation") for seed in choosing
                    ]
                    if sum(values) > best:
                        best, choice = sum(values), (rate, count)
            values = [accuracy(method, *choice, seed, "test") for seed in reporting]
            edge = choice[0] in (min(rates), max(rates)) or choice[1] == max(steps)
            found[method] = {"mean": sum(values) / len(values), "at the edge": edge}
        return found

    def agree(one, other):
        return all(
            one[method]["at the edge"] == other[method]["at the edge"]
            and abs(one[method]["mean"] - other[method]["mean"]) < 1e-9
            for method in methods
        )

    found = []
    for i, study in enumerate(studies):
        for trial in range(20):
            random = np.random.default_rng(trial)
            table = defaultdict(random.random)  # the accuracy of each run, drawn once
            grid = [0.01, 0.1, 0.001, 0.03], [300, 100, 30], [1, 2, 3], [4, 5, 6, 7]
            case = (lambda *run, table=table: table[run], *grid)
            if not agree(study(*case), honest(*case)):
                found.append(i)
                break
    return found


# Right in another way


def _honest_report(accuracy, rates, steps, choosing, reporting):
    report = {}
    for method in ("frozen", "untrained", "from scratch"):
        table = np.array(
            [
                [[accuracy(method, r, s, seed, "validation") for seed in choosing] for s in steps]
                for r in rates
            ]
        ).mean(axis=2)
        i, j = np.unravel_index(table.argmax(), table.shape)
        values = [accuracy(method, rates[i], steps[j], seed, "test") for seed in reporting]
        ordered = sorted(rates)
        edge = rates[i] in (ordered[0], ordered[-1]) or steps[j] == sorted(steps)[-1]
        report[method] = (np.mean(values), bool(edge))
    return report


def unfair_with_numpy(studies):
    found = set()
    for trial in range(25):
        random = np.random.default_rng(100 + trial)
        runs = {}

        def accuracy(*run, runs=runs, random=random):
            if run not in runs:
                runs[run] = random.normal()
            return runs[run]

        rates, steps = list(random.permutation([1, 2, 3, 4, 5])), [10, 40, 20]
        expected = _honest_report(accuracy, rates, steps, [0, 1], [5, 6, 7])
        for i, study in enumerate(studies):
            report = study(accuracy, rates, steps, [0, 1], [5, 6, 7])
            for method, (mean, edge) in expected.items():
                said = report[method]
                if not math.isclose(said["mean"], mean) or said["at the edge"] != edge:
                    found.add(i)
    return sorted(found)


def unfair_by_hashes(studies):
    """Accuracies from a formula without a table."""
    places = {"frozen": 1, "untrained": 2, "from scratch": 3, "validation": 5, "test": 11}

    def shaken(salt):
        def accuracy(method, rate, count, seed, data):
            x = 0.7 * places[method] + 90 * rate + 0.37 * count + 1.7 * seed + places[data]
            return math.sin(x + salt) * 43758.5453 % 1

        return accuracy

    def differs(study, salt):
        case = shaken(salt), [0.02, 0.5, 0.003, 0.1, 0.01], [7, 31, 13], [1, 2, 8], [3, 4, 9]
        report, expected = study(*case), _honest_report(*case)
        return any(
            abs(report[method]["mean"] - mean) > 1e-8 or report[method]["at the edge"] is not edge
            for method, (mean, edge) in expected.items()
        )

    return [i for i, study in enumerate(studies) if any(differs(study, s) for s in range(20))]


right = {
    "unfair": [unfair_with_numpy, unfair_by_hashes],
}
