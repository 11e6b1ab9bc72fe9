"""A fair measurement of what a training reaches, and the measurement itself."""

import copy
import itertools
import math
import statistics
from collections import Counter

from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


class Curve:
    """A made-up training: accuracy by rate, seed and data; it notes what is asked of it.

    ``lucky`` are two seeds that make rates other than the best look better, or None; at the best
    rate the seed ``unlucky`` goes wrong.
    """

    def __init__(self, best, table, lucky, unlucky=None):
        self.best, self.table, self.lucky, self.unlucky = best, table, lucky, unlucky
        self.ran, self.scored = [], []

    def run(self, rate, seed):
        """A model, as dear as a training."""
        self.ran.append((rate, seed))
        return rate, seed

    def score(self, model, data):
        """The share right of a model on these data."""
        self.scored.append((*model, data))
        return self.accuracy(*model, data)

    def accuracy(self, rate, seed, data):
        distance = abs(round(math.log2(rate / self.best)))  # doublings away
        value = 0.9 - 0.11 * min(distance, 7) + 0.02 * self.table[seed % len(self.table)]
        if data == "test":
            value += 0.15 * (distance == 1) - 0.05
        elif self.lucky and distance and seed == self.lucky[rate > self.best]:
            value += 0.18
        elif not distance and seed == self.unlucky:
            value -= 0.24
        return round(value, 6)

    def __deepcopy__(self, memo):
        return Curve(self.best, self.table, self.lucky, self.unlucky)

    def __repr__(self):
        return f"<trainings whose best rate is {self.best:g}>"


def _measuring_cases(draw, hidden):
    """Trainings, the rates to begin with, seeds to choose by and to report."""
    unit = 0.0005 if hidden else 0.001
    for best, first in (
        (4, (1, 2, 4, 8)),
        (8, (4, 1, 2)),
        (1, (2, 4, 8)),
        (32, (1, 2)),
        (2, (16, 8)),
    ):
        for choosing, reporting in (([5], [1, 2]), ([11, 12, 13], [3, 4, 6])):
            rates = [unit * x for x in first]
            table = [round(float(x), 3) for x in draw.random.uniform(-1, 1, 7)]
            lucky = (choosing[0], choosing[-1]) if len(choosing) > 1 else None
            yield Curve(unit * best, table, lucky), rates, choosing, reporting
    rates, table = [unit * x for x in (1, 2, 4, 8)], [0.1, -0.2, 0.3]
    yield Curve(unit * 4, table, None, unlucky=12), rates, [11, 12, 13], [1, 2, 4]


def _measured(answer, curve, rates, choosing, reporting):
    """What is returned, and which trainings and which looks at the test data it took."""
    found = answer(curve.run, curve.score, rates, choosing, reporting)
    test = [each[:2] for each in curve.scored if each[2] == "test"]
    tried = {one for one, seed in curve.ran if seed in choosing}
    return {
        "the dict": found,
        "the list of the rates tried": sorted(tried),
        "the number of trainings": len(curve.ran),
        "the list of rates and seeds looked at with test data": sorted(test),
        "what is scored twice": "nothing"
        if len(set(curve.scored)) == len(curve.scored)
        else "some model",
    }


def _in_order(check, answer, curve, rates, *seeds):
    """Right as long as the rates stand in order."""
    results = [
        _measured(function, copy.deepcopy(curve), sorted(rates), *seeds)
        for function in (answer, check.reference)
    ]
    if rates != sorted(rates) and not difference(*results, ""):
        return (
            "With the rates in order it is right. They stand in any order: the edges are the "
            "smallest and the largest that were tried."
        )
    return None


def _trained_twice(check, answer, curve, *others):
    """The first training that is run more than once."""
    curve = copy.deepcopy(curve)
    answer(curve.run, curve.score, *others)
    (rate, seed), times = Counter(curve.ran).most_common(1)[0]
    if times > 1:
        return f"The rate {rate:g} is trained {times} times with seed {seed}: train nothing twice."
    return None


def _best(values, measure=statistics.mean):
    return max(values, key=lambda rate: measure(values[rate]))


def _beside(rate, values):
    """The rate that is missing where the best one stands at an edge."""
    if rate == max(values):
        return 2 * rate
    return rate / 2 if rate == min(values) else None


def _measuring(
    best=_best,
    beside=_beside,
    seeds=lambda choosing, reporting: choosing,
    report=lambda choosing, reporting: reporting,
    data="validation",
    reported="test",
    again=math.inf,
    spread=statistics.stdev,
    mean=statistics.mean,
    single=lambda values: values,
):
    """The measurement with one of its pieces exchanged."""

    def measure(run, score, rates, choosing, reporting):
        values, missing = {}, list(rates)
        for tries in itertools.count():
            for rate in missing:
                models = [run(rate, seed) for seed in seeds(choosing, reporting)]
                values[rate] = [score(model, data) for model in models]
            rate = best(values)
            new = beside(rate, values)
            if new is None or new in values or tries >= again:
                break
            missing = [new]
        found = [score(run(rate, seed), reported) for seed in report(choosing, reporting)]
        return {
            "rate": rate,
            "accuracies": single(found),
            "mean": mean(found),
            "spread": spread(found),
        }

    return measure


@exercise(
    cases=_measuring_cases,
    run=_measured,
    reasons=(_in_order, _trained_twice),
    gradients=False,
    see='chapter 11, "It translates"',
)
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


for name, hint, pieces in (
    (
        "right but for the edge, at which it stops",
        "Where the best rate is the largest or the smallest that was tried, a better one may lie "
        "beyond: try on.",
        {"again": 0},
    ),
    (
        "right but for the edge: it tries one rate more, and no further",
        "Go on until the best rate has a worse one on either side: while, not if.",
        {"again": 1},
    ),
    (
        "right but for the edge, of which it sees the upper one alone",
        "The smallest rate is an edge, too: try half of it.",
        {"beside": lambda rate, values: 2 * rate if rate == max(values) else None},
    ),
    (
        "right but for the edge, of which it sees the lower one alone",
        "The largest rate is an edge, too: try twice as much.",
        {"beside": lambda rate, values: rate / 2 if rate == min(values) else None},
    ),
    (
        "right but for the edge: it tries ten times as much, or a tenth",
        "The next rate is twice the largest, or half the smallest.",
        {
            "beside": lambda rate, values: (
                10 * rate if rate == max(values) else rate / 10 if rate == min(values) else None
            )
        },
    ),
    (
        "a choice on the test data",
        "Then the test has had a part in the choice, and what is reported is too good.",
        {"data": "test"},
    ),
    (
        "right but for what is reported: it is the share right of the validation data",
        "The choice has been made on these: report the test data, which had no part in it.",
        {"reported": "validation"},
    ),
    (
        "right but for the seeds: those that choose are reported, too",
        "Report the seeds in `reporting`, which had no part in the choice.",
        {"report": lambda choosing, reporting: choosing + reporting},
    ),
    (
        "right but for the seeds: it chooses by those that are reported",
        "Choose by the seeds in `choosing`: else the choice is tuned to what is reported.",
        {"seeds": lambda choosing, reporting: reporting},
    ),
    (
        "right but for the seeds: it chooses by the first alone",
        "One seed may be lucky: take the mean over all of `choosing`.",
        {"seeds": lambda choosing, reporting: choosing[:1]},
    ),
    (
        "right but for the seeds: it chooses by the last alone",
        "One seed may be lucky: take the mean over all of `choosing`.",
        {"seeds": lambda choosing, reporting: choosing[-1:]},
    ),
    (
        "right but for the choice, which is by the luckiest seed",
        "Take the mean over the seeds: the best of several runs is luck.",
        {"best": lambda values: _best(values, max)},
    ),
    (
        "right but for the choice, which is by the unluckiest seed",
        "Take the mean over the seeds: one run that went wrong says as little as a lucky one.",
        {"best": lambda values: _best(values, min)},
    ),
    (
        "the worst rate",
        "The one with the largest mean share.",
        {
            "best": lambda values: min(values, key=lambda rate: statistics.mean(values[rate])),
            "again": 0,
        },
    ),
    (
        "right but for the mean, which is the best accuracy",
        "The best of several seeds is luck: report their mean.",
        {"mean": max},
    ),
    (
        "right but for the mean, which is the median",
        "Report the mean: statistics.mean.",
        {"mean": statistics.median},
    ),
    (
        "right but for the spread, which is that of all numbers and not of a sample",
        "A standard deviation from a few runs divides by their number minus 1: statistics.stdev.",
        {"spread": statistics.pstdev},
    ),
    (
        "right but for the spread, which is the distance from the lowest to the highest",
        "It grows with the number of seeds. Take statistics.stdev.",
        {"spread": lambda values: max(values) - min(values)},
    ),
    (
        "right but for the spread, which is the standard error: it is divided by a root",
        "The spread is the standard deviation of the runs themselves: statistics.stdev.",
        {"spread": lambda values: statistics.stdev(values) / math.sqrt(len(values))},
    ),
    (
        "right but for the spread, which is a variance",
        "The standard deviation is its root: statistics.stdev.",
        {"spread": statistics.variance},
    ),
    (
        "right but for the accuracies, of which it tells the best alone",
        "Return those of all seeds in `reporting`, in their order.",
        {"single": max},
    ),
):
    measure.wrong(name, hint)(_measuring(**pieces))
