"""What a table of runs says of the optimizers in it."""

import math
import statistics
from collections import defaultdict

import numpy as np

from textbook.checks.compare import brief
from textbook.checks.released import exercise


def _runs(optimizer, rate, chosen_by, reported):
    """A run for each seed; the two losses are on points for choosing and for reporting."""
    return [
        {"optimizer": optimizer, "rate": rate, "seed": seed, "elsewhere": one, "new": other}
        for seed, (one, other) in enumerate(zip(chosen_by, reported, strict=True))
    ]


table = [  # made up
    *_runs("SGD", 0.1, [0.31, 0.30, 0.33, 0.32, 0.30], [0.29, 0.33, 0.30, 0.31, 0.32]),
    *_runs("SGD", 0.3, [0.12, 0.14, 0.11, 0.12, 0.13], [0.13, 0.11, 0.14, 0.12, 0.13]),
    *_runs("SGD", 1.0, [0.06, 0.05, 0.07, 0.06, 0.07], [0.06, 0.07, 0.05, 0.06, 0.055]),
    *_runs("SGD", 3.0, [0.04, 0.05, 9.40, 0.04, 8.10], [0.045, 0.05, 8.90, 0.04, 7.70]),
    *_runs("SGD", 10.0, [math.nan, 7.1, math.nan, math.nan], [math.nan, 7.0, math.nan, math.nan]),
    *_runs("momentum", 0.03, [0.05, 0.06, 0.05, 0.05, 0.06], [0.05, 0.05, 0.06, 0.06, 0.05]),
    *_runs(
        "momentum", 0.1, [0.022, 0.018, 0.020, 0.021, 0.019], [0.021, 0.033, 0.019, 0.02, 0.024]
    ),
    *_runs(
        "momentum", 0.3, [0.026, 0.024, 0.025, 0.027, 0.025], [0.012, 0.011, 0.013, 0.012, 0.01]
    ),
    *_runs("Adam", 0.01, [0.030, 0.033, 0.028, 0.031, 0.029], [0.031, 0.027, 0.030, 0.03, 0.028]),
    *_runs("Adam", 0.03, [0.012, 0.030, 0.015, 0.014, 0.016], [0.016, 0.031, 0.014, 0.015, 0.017]),
    *_runs("Adam", 0.1, [0.019, 0.021, 0.016, 0.018, 0.020], [0.020, 0.017, 0.022, 0.019, 0.018]),
    *_runs("RMSprop", 0.001, [0.150, 0.140, 0.160, 0.15, 0.145], [0.15, 0.16, 0.14, 0.15, 0.14]),
    *_runs("RMSprop", 0.003, [0.055, 0.050, 0.052, 0.05, 0.053], [0.054, 0.057, 0.051, 0.05, 0.06]),
    *_runs(
        "RMSprop", 0.01, [0.004, 0.003, 0.005, 0.004, 0.003], [0.004, 0.005, 0.003, 0.004, 0.005]
    ),
    *_runs("Adagrad", 0.1, [0.046], [0.045]),
    *_runs("Adagrad", 0.3, [0.008], [0.007]),
    *_runs("Adagrad", 1.0, [0.040], [0.041]),
]


def _table_cases(draw):
    yield (table,)
    for best in ([-3.2, -2.4, -1.8, -2.2, -9.0], [-2.0, -2.6, -1.9, -2.3, 0.0]):
        runs = []
        for optimizer, optimum in zip("ABCDE", best, strict=True):
            height = math.exp(draw.random.normal(0, 1.2))
            for rate in (0.01, 0.03, 0.1, 0.3, 1.0):
                count = 4 if optimizer == "D" else int(draw.random.integers(5, 8))
                far = abs(math.log(rate) - optimum) / 2
                noise = draw.random.normal(0, 0.5, (2, count))
                losses = (height * np.exp(far + noise) / 50).round(4).tolist()
                runs += _runs(optimizer, rate, *losses)
        yield ([runs[i] for i in draw.random.permutation(len(runs))],)
    plain = [[0.5] * 5, [0.2, 0.3, 0.2, 0.2, 0.2], [0.4] * 5, [0.6] * 5]
    for chosen_by, reported in (
        (
            [[0.5] * 5, [0.2] * 5, [math.nan, 0.01, math.nan, math.nan, math.nan], [0.3] * 5],
            [[0.1] * 5, [0.4] * 5],
        ),
        (
            [[0.5] * 5, [0.2] * 5, [math.nan, math.nan, 0.1, 0.3, 0.4], [0.3] * 5],
            [[0.1] * 5, [0.4] * 5],
        ),
        ([[0.1] * 5, [0.2] * 5, [0.3] * 5, [0.3] * 5], [[0.1] * 5, [0.1] * 5]),
        ([[0.4] * 5, [0.3] * 5, [0.2] * 5, [0.1] * 5], [[0.1] * 5, [0.1] * 5]),
        ([[0.5] * 5, [0.3] * 5, [0.01, 0.35, 0.35, 0.35, 0.35], [0.4] * 5], [[0.1] * 5, [0.4] * 5]),
        ([[0.5] * 5, [0.3] * 5, [0.1, 0.2, 9.0, 0.2, 0.2], [0.4] * 5], [[0.3] * 5, [0.1] * 5]),
        ([[0.5] * 5, [0.2] * 5, [0.3] * 5, [0.4] * 5], [[0.28, 0.28, 0.29, 0.28, 0.28], [0.4] * 5]),
    ):
        inner = [[0.5] * 5, *reported, [0.5] * 5]
        of_b = [[0.9] * 5, [0.2, 0.25, 0.3, 0.25, 0.25], [0.9] * 5, [0.9] * 5]
        runs = []
        for i, rate in enumerate((0.01, 0.03, 0.1, 0.3)):
            runs += _runs("A", rate, chosen_by[i], inner[i])
            runs += _runs("B", rate, plain[i], of_b[i])
        yield (runs,)
    for failed in (
        [[0.1, 0.2, 0.1, 0.1, 0.1], [math.nan, 0.5, 0.4, 0.5, 0.5]],
        [[0.1, math.nan, 0.2, 0.2, 0.2], [0.4] * 5],
    ):
        runs = []
        for name, reported in zip("AB", failed, strict=True):
            for rate, chosen_by in zip((0.1, 0.3, 1.0), (0.5, 0.2, 0.4), strict=True):
                runs += _runs(name, rate, [chosen_by] * 5, reported if rate == 0.3 else [0.5] * 5)
        yield (runs,)
    for lower in ("A", "C"):  # the rates of one are not those of another
        runs = []
        for name, factor, level in zip("ABC", (1, 10, 100), (0.1, 0.2, 0.3), strict=True):
            more = 0.25 * (name == lower)
            for rate, chosen_by in zip((0.01, 0.03, 0.1), (0.5, 0.2, 0.4), strict=True):
                reported = [level + more + x for x in (0.0, 0.02, 0.01, 0.01, 0.01)]
                runs += _runs(name, factor * rate, [chosen_by] * 5, reported)
        yield (runs,)
    equal = [[0.2, 0.1, 0.2, 0.2, 0.2], [0.1, 0.1, 0.2, 0.1, 0.1], [0.3, 0.3, 0.2, 0.3, 0.3]]
    both = [[0.1, 0.2, 0.3, 0.2, 0.2], [0.3, 0.4, 0.5, 0.4, 0.4]]
    yield (
        [
            run
            for name, reported in zip("AB", both, strict=True)
            for rate, chosen_by in zip([0.1, 0.3, 1.0], equal, strict=True)
            for run in _runs(name, rate, chosen_by, reported)
        ],
    )


def _concluded_of(answer, runs):
    """What the answer returns, in a fixed order."""
    found = answer(runs)
    form, pairs = "a list of pairs of names", None
    if isinstance(found, (list, tuple, set)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found
    ):
        pairs = "; ".join(sorted(f"{one} is better than {other}" for one, other in found))
    else:
        form = brief(found)
    table = f"{len(runs)} runs, the first {runs[0]}"  # as it is: what was found is of this table
    return {
        "the form of the result": form,
        "the list of conclusions": pairs,
        "the table": table,
    }


def _chosen(runs):
    """For each optimizer the runs at its rate, and why nothing is concluded of it, or None."""
    by_rate = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_rate[run["optimizer"]][run["rate"]].append(run)
    found = {}
    for optimizer, tried in by_rate.items():

        def middle(rate, tried=tried):
            return statistics.median(_finite(run["elsewhere"]) for run in tried[rate])

        best, why = min(tried, key=middle), None
        if not min(tried) < best < max(tried):
            why = f"its rate, {best:g}, is the smallest or largest that was tried with it"
        elif len(tried[best]) < 5:
            why = f"at its rate, {best:g}, fewer than five seeds were tried"
        found[optimizer] = tried[best], why
    return found


def _pair_by_pair(check, answer, runs):
    """What is wrong with one pair of the list, by the rules."""
    found = answer(runs)
    if not isinstance(found, (list, tuple, set)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found
    ):
        return "Return a list of pairs of names."
    found, chosen = [*map(tuple, found)], _chosen(runs)
    right = [*map(tuple, check.reference(runs))]
    if found and sorted(found) == sorted((other, one) for one, other in right):
        return "Each pair is (better, worse), and a low loss is good."
    for pair in found:
        if not all(name in chosen for name in pair):
            return f"{pair} holds something else than names of optimizers."
        if found.count(pair) > 1:
            return f"{pair} is in the list more than once."
    for one, other in found:
        if (one, other) in right:
            continue
        for name in (one, other):
            if chosen[name][1]:
                return f"Nothing may be concluded of {name}: {chosen[name][1]}."
        rates = [chosen[name][0][0]["rate"] for name in (one, other)]
        return (
            f"{one} is not better than {other}: at their rates, {rates[0]:g} and {rates[1]:g}, "
            f"not every loss 'new' of {one} is below each of {other}."
        )
    for one, other in right:
        if (one, other) not in found:
            rates = [chosen[name][0][0]["rate"] for name in (one, other)]
            return (
                f"{one} is better than {other}: at their rates, {rates[0]:g} and {rates[1]:g}, "
                f"every loss 'new' of {one} is below each of {other}."
            )
    return None


conclusions = exercise(
    "conclusions",
    cases=_table_cases,
    run=_concluded_of,
    gradients=False,
    reasons=(_pair_by_pair,),
    see='chapter 00, "Three arms, three optimizers (E1)"',
)


def _finite(loss):
    return math.inf if math.isnan(loss) else loss
