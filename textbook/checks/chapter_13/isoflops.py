"""The best size of a model at each budget, read off an isoFLOP figure."""

import math

import numpy as np

from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


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


def _figure_cases(draw, hidden):
    """The figure; one budget, measured well and badly; budgets in turn."""
    yield (figure,)
    unit = 3 if hidden else 1
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
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {1: 1.07}, {1: 0.1}),)
    yield (_bowl(unit * 1e10, unit * 4000, 2.5, sizes, {3: 0.93}, {3: 0.1}),)
    moved = _bowl(unit * 1e10, unit * 4000, 2.5, sizes, {3: 4.0}, {3: 0.6})  # on the other curve
    yield (moved + _bowl(unit * 4e10, unit * 6000, 2.2, [unit * n for n in (900, 4500, 30_000)]),)
    runs = []
    for budget, best in ((1e10, 3000), (4e10, 6000), (1.6e11, 90_000)):
        runs += _bowl(unit * budget, unit * best, 2.0 + 1e10 / budget, sizes, slope=0.01)
    yield ([runs[i] for i in draw.random.permutation(len(runs))],)


def _honest(run):
    return abs(run["FLOPs of a token"] * run["tokens"] / run["budget"] - 1) <= 0.05


def _each_of(run):
    """The share of its budget that a run spends."""
    return run["FLOPs of a token"] * run["tokens"] / run["budget"]


def _vertex(three):
    """Of the parabola through three points in log N."""
    x, y = zip(*((math.log(run["weights"]), run["loss"]) for run in three), strict=True)
    a, b, _ = np.polyfit(np.array(x) - x[1], y, 2)
    return math.exp(x[1] - b / (2 * a))


def _vertex_in_weights(three):
    x, y = zip(*((run["weights"], run["loss"]) for run in three), strict=True)
    a, b, _ = np.polyfit(x, y, 2)
    return -b / (2 * a)


def _vertex_of_equal_steps(three):
    a, b, c = (run["loss"] for run in three)
    x = [math.log(run["weights"]) for run in three]
    return math.exp(x[1] + (x[2] - x[0]) / 4 * (a - c) / (a - 2 * b + c))


def _best(
    honest=_honest,
    vertex=_vertex,
    points=lambda runs, i: runs[i - 1 : i + 2],
    edges=lambda i, n: i in (0, n - 1),
    at_edge=lambda runs, i: None,
    order=lambda runs: sorted(runs, key=lambda run: run["weights"]),
    lowest=lambda runs: min(runs, key=lambda run: run["loss"]),
):
    """The sizes with one of their pieces exchanged."""

    def best(runs):
        found = {}
        for budget in dict.fromkeys(run["budget"] for run in runs):
            curve = order([run for run in runs if run["budget"] == budget and honest(run)])
            i = curve.index(lowest(curve))
            three = points(curve, i)
            edge = edges(i, len(curve)) or len(three) < 3
            found[budget] = at_edge(curve, i) if edge else vertex(three)
        return found

    return best


def _example(check, answer, *_):
    """What is found for the runs of one budget that can be done by hand."""
    unit = 1e10
    curves = {
        "all runs spend their budget": _bowl(unit, 4000, 2.5, [1000, 2000, 5000, 20_000]),
        "the lowest run is the smallest": _bowl(unit, 300, 2.5, [1000, 2000, 5000, 20_000]),
        "the lowest run is the largest": _bowl(unit, 90_000, 2.5, [1000, 2000, 5000, 20_000]),
        "a run spends 7 % too much": _bowl(
            unit, 4000, 2.5, [1000, 2000, 5000, 20_000], {1: 1.07}, {1: 0.3}
        ),
        "a run spends 3 % too little": _bowl(
            unit, 4000, 2.5, [1000, 2000, 5000, 20_000], {2: 0.97}
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


@exercise(
    cases=_figure_cases,
    reasons=(_in_order, _example),
    see='chapter 13, "The best size for a budget (C37)"',
)
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


def _anything(run):
    return True


best_sizes.wrong(
    "right as long as every run keeps to its budget, at which it does not look",
    "Multiply the FLOPs of a token by the tokens: does the run spend what its curve says?",
)(_best(honest=_anything))
best_sizes.wrong(
    "right but for runs that spend less than their budget, which it keeps",
    "They stand on the wrong curve as well: within 5 % on both sides.",
)(_best(honest=lambda run: run["FLOPs of a token"] * run["tokens"] <= 1.05 * run["budget"]))
best_sizes.wrong(
    "right but for runs that spend more than their budget, which it keeps",
    "Those above all: they look better than they are.",
)(_best(honest=lambda run: run["FLOPs of a token"] * run["tokens"] >= 0.95 * run["budget"]))
best_sizes.wrong(
    "right but for the tolerance, which is too wide",
    "Within 5 % of the budget.",
)(_best(honest=lambda run: 0.7 < run["FLOPs of a token"] * run["tokens"] / run["budget"] < 1.4))
best_sizes.wrong(
    "right but for the tolerance: it asks for the budget to the last FLOP",
    "No whole number of tokens spends a budget exactly: within 5 %.",
)(_best(honest=lambda run: abs(run["FLOPs of a token"] * run["tokens"] / run["budget"] - 1) < 1e-4))
best_sizes.wrong(
    "right but for the FLOPs of a token, for which it takes 6 N",
    "Attention's products come on top, and weigh in small models: the run says what a token costs.",
)(_best(honest=lambda run: abs(6 * run["weights"] * run["tokens"] / run["budget"] - 1) <= 0.05))
best_sizes.wrong(
    "a dict of the measured sizes with the lowest loss",
    "The minimum lies between the sizes: take the lowest point of the parabola.",
)(_best(vertex=lambda three: three[1]["weights"]))
best_sizes.wrong(
    "right but for the scale: its parabola is one in N",
    "In log N: the sizes differ by factors.",
)(_best(vertex=_vertex_in_weights))
best_sizes.wrong(
    "right where the three sizes differ by the same factor",
    "They may stand at any distance: fit the parabola through the three points.",
)(_best(vertex=_vertex_of_equal_steps))
best_sizes.wrong(
    "a dict of logarithms",
    "Go back with exp.",
)(_best(vertex=lambda three: math.log(_vertex(three))))
best_sizes.wrong(
    "right but for the points: its parabola is one through all of them",
    "Far from the minimum the curve is no parabola. Take the lowest point and its two neighbours.",
)(_best(points=lambda curve, i: curve))
best_sizes.wrong(
    "right but for the points: it takes the three lowest losses",
    "The lowest and its neighbours in size, one on each side.",
)(
    _best(
        points=lambda curve, i: sorted(
            sorted(curve, key=lambda run: run["loss"])[:3], key=lambda run: run["weights"]
        )
    )
)
best_sizes.wrong(
    "right but for a curve whose lowest point is its end: it returns this point",
    "The curve still falls there, so the best size may lie beyond: None.",
)(_best(at_edge=lambda curve, i: curve[i]["weights"]))
best_sizes.wrong(
    "right but for a curve whose lowest point is its end: it makes a parabola of the last three",
    "Nothing has been measured on the other side of the minimum: None.",
)(
    _best(
        edges=lambda i, n: n < 3,
        points=lambda curve, i: curve[max(0, min(i - 1, len(curve) - 3)) :][:3],
    )
)
best_sizes.wrong(
    "right but for a curve whose lowest point is its largest size",
    "The curve still falls there: None, as at the smallest size.",
)(
    _best(
        edges=lambda i, n: i == 0,
        at_edge=lambda curve, i: curve[i]["weights"] if i else None,
    )
)
best_sizes.wrong(
    "right but for a curve whose lowest point is its smallest size",
    "The curve still rises from there: None, as at the largest size.",
)(
    _best(
        edges=lambda i, n: i == n - 1,
        at_edge=lambda curve, i: None if i else curve[i]["weights"],
    )
)
best_sizes.wrong(
    "right for runs that come in the order of their sizes",
    "They may come in any order: sort each curve by size.",
)(_best(order=list))
best_sizes.wrong(
    "a dict of the worst sizes",
    "They are losses: lower is better.",
)(_best(lowest=lambda curve: max(curve, key=lambda run: run["loss"])))


@best_sizes.wrong(
    "a dict that leaves out budgets without a best size",
    "Give them the value None: that it is not known is a result.",
)
def _(runs):
    found = best_sizes.reference(runs)
    return {budget: size for budget, size in found.items() if size is not None}


best_sizes.wrong(
    "right but for the tolerance, which is 10 %",
    "Within 5 % of the budget.",
)(_best(honest=lambda run: abs(_each_of(run) - 1) <= 0.1))
best_sizes.wrong(
    "right but for the tolerance, which is 1 %",
    "Within 5 % of the budget.",
)(_best(honest=lambda run: abs(_each_of(run) - 1) <= 0.01))


@best_sizes.wrong(
    "right but for a run on the wrong curve, which it puts on the right one",
    "Leave it out: nobody knows whether its budget or its tokens are written down wrongly.",
)
def _(runs):
    budgets = {run["budget"] for run in runs}

    def own(run):
        spent = run["FLOPs of a token"] * run["tokens"]
        return min(budgets, key=lambda budget: abs(math.log(spent / budget)))

    return best_sizes.reference([run | {"budget": own(run)} for run in runs])
