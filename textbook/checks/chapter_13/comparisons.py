"""Comparisons of pretraining, fair and unfair, each a procedure that runs what it likes."""

import statistics

import numpy as np

from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_and_together, judged, some_of

METHODS = ["frozen", "untrained", "from scratch"]


class _Study:
    """A procedure that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, accuracy, rates, steps, choosing, reporting):
        return self.function(accuracy, rates, steps, choosing, reporting)


def _mean(values):
    return sum(values) / len(values)


def _at_edge(rate, count, rates, steps):
    return rate in (min(rates), max(rates)) or count == max(steps)


def _chosen(accuracy, method, rates, steps, seeds, data="validation", value=_mean):
    """The best rate and number of steps of a method."""
    grid = [(rate, count) for rate in rates for count in steps]
    return max(
        grid, key=lambda pair: value([accuracy(method, *pair, seed, data) for seed in seeds])
    )


def _study(
    choose=_chosen,
    others=None,
    rates_of=lambda method, rates: rates,
    steps_of=lambda method, steps: steps,
    seeds=lambda choosing, reporting: choosing,
    reported=lambda choosing, reporting, method: reporting,
    data="test",
    mean=_mean,
    edge=_at_edge,
    finish=lambda found: found,
):
    """The honest procedure with one of its pieces exchanged."""

    def study(accuracy, rates, steps, choosing, reporting):
        found = {}
        for method in METHODS:
            own_rates, own_steps = rates_of(method, rates), steps_of(method, steps)
            asked = (others or {}).get(method, method)
            rate, count = choose(accuracy, asked, own_rates, own_steps, seeds(choosing, reporting))
            values = [
                accuracy(method, rate, count, seed, data)
                for seed in reported(choosing, reporting, method)
            ]
            at_edge = edge(rate, count, rates, steps)
            found[method] = {"mean": mean(values), "at the edge": at_edge}
        return finish(found)

    return study


honest = _study()


def fair_study(methods, accuracy, rates, steps, choosing, reporting):
    """The honest procedure for these methods: values on test data, choices and edges."""
    found = {}
    for method in methods:
        choice = _chosen(accuracy, method, rates, steps, choosing)
        values = [accuracy(method, *choice, seed, "test") for seed in reporting]
        edge = _at_edge(*choice, rates, steps)
        found[method] = {"values": values, "choice": choice, "at the edge": edge}
    return found


def _steps_of_frozen(accuracy, method, rates, steps, seeds):
    """Its own rate, and the steps that are best for the frozen encoder."""
    _, count = _chosen(accuracy, "frozen", rates, steps, seeds)
    return _chosen(accuracy, method, rates, [count], seeds)


def _rate_of_frozen(accuracy, method, rates, steps, seeds):
    rate, _ = _chosen(accuracy, "frozen", rates, steps, seeds)
    return _chosen(accuracy, method, [rate], steps, seeds)


def _one_after_the_other(accuracy, method, rates, steps, seeds):
    """The rate with the fewest steps, then the steps: half a grid."""
    rate, _ = _chosen(accuracy, method, rates, [min(steps)], seeds)
    return _chosen(accuracy, method, [rate], steps, seeds)


def _without_control(found):
    return found | {"untrained": found["from scratch"]}


def _twice(accuracy, rates, steps, choosing, reporting):
    """Runs much that nobody needs, and reports what is honest."""
    for method in METHODS:
        for rate in rates:
            accuracy(method, rate, max(steps), reporting[0], "test")
    return honest(accuracy, rates, steps, choosing, reporting)


def _in_another_order(accuracy, rates, steps, choosing, reporting):
    ordered = sorted(rates, reverse=True), sorted(steps), choosing[::-1], reporting[::-1]
    found = honest(accuracy, *ordered)
    return {method: found[method] for method in reversed(METHODS)}


def _kinds():
    """Unfair and honest procedures, by kind."""

    def first_seed(*case):
        return _chosen(*case[:4], case[4][:1])

    def by_luck(*case):
        return _chosen(*case, value=max)

    def on_test(*case):
        return _chosen(*case, data="test")

    def only(method, fewer):
        return lambda each, values: [fewer(values)] if each == method else values

    def without_last(method):
        return lambda each, rates: rates[:-1] if each == method and len(rates) > 1 else rates

    def at_ends(rate, count, rates, steps):
        return rate in (rates[0], rates[-1]) or count == max(steps)

    def at_rates(rate, count, rates, steps):
        return rate in (min(rates), max(rates))

    def at_top(rate, count, rates, steps):
        return rate == max(rates) or count == max(steps)

    def best_seeds(choosing, reporting, method):
        return reporting[1:] or reporting if method == "frozen" else reporting

    def a_little_more(found):
        ours = found["frozen"]
        return found | {"frozen": ours | {"mean": ours["mean"] + 1e-4}}

    def at_last(rate, count, rates, steps):
        return rate in (min(rates), max(rates)) or count == steps[-1]

    unfair = {
        "adds a ten-thousandth to the frozen encoder": _study(finish=a_little_more),
        "chooses on test data": _study(choose=on_test),
        "takes the steps of the frozen encoder for all": _study(choose=_steps_of_frozen),
        "takes the rate of the frozen encoder for all": _study(choose=_rate_of_frozen),
        "trains from scratch with the fewest steps": _study(steps_of=only("from scratch", min)),
        "leaves the last rate out from scratch": _study(rates_of=without_last("from scratch")),
        "leaves the last rate out for the untrained encoder": _study(
            rates_of=without_last("untrained")
        ),
        "tries one rate from scratch": _study(rates_of=only("from scratch", lambda r: r[0])),
        "takes rate and steps of the frozen encoder for the untrained one": _study(
            others={"untrained": "frozen"}
        ),
        "has no control": _study(finish=_without_control),
        "reports the best seed": _study(mean=max),
        "reports the median for the mean": _study(mean=statistics.median),
        "leaves a seed of one method out": _study(reported=best_seeds),
        "reports seeds that have chosen": _study(
            reported=lambda choosing, reporting, method: choosing
        ),
        "chooses on the seeds that are reported": _study(
            seeds=lambda choosing, reporting: reporting
        ),
        "reports validation data": _study(data="validation"),
        "chooses by one seed": _study(choose=first_seed),
        "chooses by the luckiest seed": _study(choose=by_luck),
        "chooses the rate with the fewest steps": _study(choose=_one_after_the_other),
        "never says that a choice is at the edge": _study(edge=lambda *choice: False),
        "says of rates alone that they are at the edge": _study(edge=at_rates),
        "overlooks the lower edge": _study(edge=at_top),
        "takes the ends of the list for the edges": _study(edge=at_ends),
        "takes the last number of steps for the largest": _study(edge=at_last),
    }
    fair = {
        "honest": honest,
        "honest, with numpy": _study(mean=lambda values: float(np.mean(values[::-1]))),
        "honest, in another order": _in_another_order,
        "honest, with runs that nobody needs": _twice,
    }
    return unfair, fair


def studies():
    """Eight procedures, five of which are unfair; the order says nothing."""
    return [_Study(function) for function in some_of(_kinds(), (5, 3), np.random.default_rng(11))]


def _study_cases(draw):
    """The kind of each procedure by itself, then all together."""
    return each_and_together(_kinds(), draw.random)


HINTS = {
    "adds a ten-thousandth to the frozen encoder": "Small differences count: all above 1e-9.",
    "reports the median for the mean": "Give three seeds to report, or more, with accuracies that "
    "are not alike.",
    "reports the best seed": "Give several seeds to report.",
    "leaves a seed of one method out": "Give several seeds to report, and compare all methods.",
    "chooses by one seed": "Give several seeds to choose.",
    "chooses by the luckiest seed": "Give several seeds to choose.",
    "reports seeds that have chosen": "The seeds to choose must be others than those to report.",
    "chooses on the seeds that are reported": "The seeds to choose must be others than those to "
    "report.",
    "reports validation data": "Accuracies on validation and on test data must differ.",
    "chooses on test data": "Accuracies on validation and on test data must differ.",
    "takes the ends of the list for the edges": "Give rates in another order than that of their "
    "size.",
    "honest, with runs that nobody needs": "More runs than necessary are not unfair: compare the "
    "reports alone.",
    "honest, in another order": "The order of the runs and of the report does not matter.",
}
METHOD = "Draw other accuracies, several times, and compare mean and edge of all three methods."
SOUND = (
    "It reports what the statement asks for, edges included; the smallest number of steps is none."
)


def _named(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    unfair, fair = _kinds()
    with as_in_a_notebook():
        found = answer([_Study((unfair | fair)[kind]) for kind in kinds])
    reasons = dict.fromkeys(unfair, METHOD) | dict.fromkeys(fair, SOUND) | HINTS
    return judged(found, kinds, unfair, reasons, "unfair studies")


unfair = exercise(
    "unfair",
    cases=_study_cases,
    run=_named,
    gradients=False,
    see='chapter 13, "Against the number of labels (C28)"',
)
