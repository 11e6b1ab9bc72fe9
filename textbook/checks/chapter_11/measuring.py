"""A fair measurement of what a training reaches, and the measurement itself."""

import copy
import math
from collections import Counter

from textbook.checks.compare import difference
from textbook.checks.released import exercise

MOST = 300  # trainings, of which no measurement here needs a third


class Curve:
    """A made-up training: accuracy by rate, seed and data; it notes what is asked of it.

    ``lucky`` are two seeds that make rates other than the best look better, or None; at the best
    rate a seed is as much better or worse as ``changed`` says.
    """

    def __init__(self, best, table, lucky, changed=None):
        self.best, self.table, self.lucky = best, table, lucky
        self.changed = changed or {}
        self.ran, self.scored = [], []

    def run(self, rate, seed):
        """A model, as dear as a training."""
        self.ran.append((rate, seed))
        if len(self.ran) > MOST:
            raise RuntimeError(
                f"the training number {MOST} has not ended the search: where the largest rate is "
                "the best try a larger one, where the smallest is a smaller one"
            )
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
        elif not distance:
            value += self.changed.get(seed, 0)
        return round(value, 6)

    def __deepcopy__(self, memo):
        return Curve(self.best, self.table, self.lucky, self.changed)

    def __repr__(self):
        return f"<trainings whose best rate is {self.best:g}>"


def _measuring_cases(draw, unit=0.001):
    """Trainings, the rates to begin with, seeds to choose by and to report."""
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
    for changed in {12: -0.24}, {11: -0.13, 12: -0.13, 13: 0.09}:
        yield Curve(unit * 4, table, None, changed), rates, [11, 12, 13], [1, 2, 4]


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


measure = exercise(
    "measure",
    cases=_measuring_cases,
    run=_measured,
    reasons=(_in_order, _trained_twice),
    gradients=False,
    see='chapter 11, "It translates"',
)
