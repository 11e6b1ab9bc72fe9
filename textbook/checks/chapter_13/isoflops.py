"""The best size of a model at each budget, read off an isoFLOP figure."""

import math

from textbook.checks.compare import difference
from textbook.checks.released import exercise


def _each(weights):
    """FLOPs of a token, forward and backward, with attention's products on top."""
    return 6.0 * weights + 900 * weights**0.5


def _run(budget, weights, loss, share=1.0):
    """A run that spends `share` of its budget."""
    return {
        "budget": budget,
        "weights": weights,
        "FLOPs of a token": _each(weights),
        "tokens": round(share * budget / _each(weights)),
        "loss": round(loss, 3),
    }


def _bowl(budget, best, low, sizes, shares=None, dips=None, slope=0.0):
    """Runs at one budget: a parabola in log N, a little oblique."""
    runs = []
    for i, weights in enumerate(sizes):
        x = math.log(weights / best)
        loss = low + 0.08 * x**2 + slope * x**3 - (dips or {}).get(i, 0.0)
        runs.append(_run(budget, weights, loss, (shares or {}).get(i, 1.0)))
    return runs


SIZES = [2500, 5000, 9000, 17_000, 30_000, 60_000, 110_000]
figure = [  # made up
    *_bowl(1.25e10, 6500, 2.87, SIZES[:5], slope=0.01),
    *_bowl(5e10, 18_000, 2.62, SIZES[1:6], slope=0.01),
    *_bowl(2e11, 33_000, 2.24, SIZES[2:], {4: 4.0}, {4: 0.42}, slope=0.01),
    *_bowl(8e11, 160_000, 1.93, SIZES[3:], slope=0.01),
]


def _figure_cases(draw, unit=1):
    """The figure; one budget, measured well and badly; budgets in turn."""
    yield (figure,)
    sizes = [unit * n for n in (1000, 2000, 5000, 8000, 20_000, 50_000)]
    for best in (1500, 4000, 11_000, 30_000):
        yield (_bowl(unit * 1e10, unit * best, 2.5, sizes, slope=0.015),)
    for best in (300, 200_000):
        yield (_bowl(unit * 1e10, unit * best, 2.5, sizes),)
    uneven = [unit * n for n in (1000, 4000, 6000, 7000, 50_000)]
    yield (_bowl(unit * 1e10, unit * 4200, 2.5, uneven, slope=0.015),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes[:2]),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {4: 2.0}, {4: 0.5}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {4: 0.5}, {4: 0.5}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {4: 1.2}, {4: 0.5}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {0: 2.0}, {0: 0.9}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {2: 0.5}, {2: 0.1}),)
    yield (_bowl(unit * 1e10, unit * 900, 2.5, sizes, {0: 3.0}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {1: 1.02, 2: 0.97, 3: 1.01}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {1: 1.055}, {1: 0.1}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {3: 0.945}, {3: 0.1}),)
    near = {1: 1.045, 2: 0.955, 3: 1.045}
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, near, slope=0.015),)
    moved = _bowl(unit * 1e10, unit * 4000, 2.5, sizes, {3: 4.0}, {3: 0.6})  # on the other curve
    yield (moved + _bowl(unit * 4e10, unit * 6000, 2.2, [unit * n for n in (900, 4500, 30_000)]),)
    runs = []
    for budget, best in ((1e10, 3000), (4e10, 6000), (1.6e11, 90_000)):
        runs += _bowl(unit * budget, unit * best, 2.0 + 1e10 / budget, sizes, slope=0.01)
    yield ([runs[i] for i in draw.random.permutation(len(runs))],)


def _example(check, answer, *_):
    """What is found for the runs of one budget that can be done by hand."""
    unit = 1e10
    curves = {
        "all runs spend their budget": _bowl(unit, 4000, 2.5, [1000, 2000, 5000, 20_000]),
        "the lowest run is the smallest": _bowl(unit, 300, 2.5, [1000, 2000, 5000, 20_000]),
        "the lowest run is the largest": _bowl(unit, 90_000, 2.5, [1000, 2000, 5000, 20_000]),
        "a run spends 5.5 % too much": _bowl(
            unit, 4000, 2.5, [1000, 2000, 5000, 20_000], {1: 1.055}, {1: 0.3}
        ),
        "a run spends 4.5 % too little": _bowl(
            unit, 4000, 2.5, [1000, 2000, 5000, 20_000], {2: 0.955}
        ),
        "the smallest run is left out, and then the lowest stands at the edge": _bowl(
            unit, 900, 2.5, [1000, 2000, 5000, 20_000], {0: 3.0}
        ),
    }
    for what, curve in curves.items():
        got, right = answer(curve).get(unit, "missing"), check.reference(curve)[unit]
        if got is None or right is None or got == "missing":
            wrong = got is not right
        else:
            wrong = abs(got - right) > 1e-3 * right
        if wrong:
            points = "; ".join(
                f"N {run['weights']}, loss {run['loss']}, "
                f"{run['FLOPs of a token'] * run['tokens'] / unit:.2f} of the budget"
                for run in curve
            )
            right = right and round(right)
            return f"Where {what} ({points}) your answer is {got}, and {right} belongs there."
    return None


def _in_order(check, answer, runs):
    ordered = sorted(runs, key=lambda run: run["weights"])
    if not difference(answer(ordered), check.reference(ordered), ""):
        return (
            "With the runs in the order of their weights it is right. They come in any order: sort "
            "each curve."
        )
    return None


best_sizes = exercise(
    "best_sizes",
    cases=_figure_cases,
    reasons=(_in_order, _example),
    see='chapter 13, "The best size for a budget (C37)"',
)
