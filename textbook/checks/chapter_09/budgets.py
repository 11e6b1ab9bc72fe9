"""Not yet, or never: trainings that are read after one, three and ten budgets."""

import math

from textbook.checks.compare import difference
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

BUDGETS, WINDOW = (1, 3, 10), 10


def _curve(budget, learned, goal, low, high):
    """Losses of ten budgets whose windows are below the goal where ``learned`` says so."""
    losses, last = [], 0
    for times, below in zip(BUDGETS, learned, strict=True):
        size = times * budget - last - WINDOW
        losses += [high] * size + [low if below else high] * WINDOW
        last = times * budget
    return losses


def _budget_cases(draw, others=()):
    """The losses of each setting and seed; settings, seeds, a budget and a goal."""
    for budget, goal, seeds in others or [(10, 0.5, [4]), (12, 0.25, [1, 2, 3]), (20, 1.0, [7, 2])]:
        low, high = goal / 2, 2 * goal
        yes, late = (True, True, True), (False, False, True)
        kinds = {
            "soon": [yes] * len(seeds),
            "after three": [(False, True, True)] * len(seeds),
            "late": [late] * len(seeds),
            "never": [(False, False, False)] * len(seeds),
            "one seed": [late] + [(False, False, False)] * (len(seeds) - 1),
            "the last seed": [(False, False, False)] * (len(seeds) - 1) + [(False, True, True)],
            "late but one": [late] * (len(seeds) - 1) + [(False, False, False)],
            "soon but one": [yes] * (len(seeds) - 1) + [late],
            "for a while": [(False, True, False)] * len(seeds),
            "not any more": [(True, False, False)] * len(seeds),
        }
        curves = {
            (setting, seed): _curve(budget, learned, goal, low, high)
            for setting, kind in kinds.items()
            for seed, learned in zip(seeds, kind, strict=True)
        }
        ends = {
            "a lucky step": [low / 64],
            "not a number": [math.nan] * (WINDOW // 2),
            "at the goal": [goal] * WINDOW,
            "nearly": [6 * goal] + [low] * (WINDOW - 1),
            "a step early": [low] * WINDOW + [64 * goal],
        }
        for setting, end in ends.items():
            losses = [high] * (10 * budget - len(end)) + end
            curves |= {(setting, seed): losses for seed in seeds}
        yield curves, [*kinds, *ends], seeds, budget, goal


def _counted(answer, curves, settings, seeds, budget, goal):
    """What it returns, and the trainings that it asks for."""
    asked = dict.fromkeys(curves, 0)

    def train(setting, seed, steps):
        losses = curves[setting, seed]
        if steps > len(losses):
            raise ValueError(f"more than ten budgets of {budget} steps are asked for: {steps}")
        asked[setting, seed] += 1
        return losses[:steps]

    found = answer(train, settings, seeds, budget, goal)
    often = max(asked.values())
    return {
        "the dict": found,
        "the number of trainings of a setting with a seed": "one"
        if set(asked.values()) == {1}
        else f"up to {often}"
        if often > 1
        else "none, for some",
    }


@recorded
def _right(*case):
    """The dict that belongs to a case."""
    return _counted(at_ten_times.reference, *case)["the dict"]


def _means_there(check, answer, curves, settings, seeds, budget, goal):
    """What decides on the first setting that is wrong: a mean for each seed and budget."""
    case = curves, settings, seeds, budget, goal
    found, right = _counted(answer, *case)["the dict"], _right(*case)
    wrong = [name for name in right if difference(found.get(name), right[name], "")]
    if not wrong:
        return None
    ends = [times * budget for times in BUDGETS]
    means = {
        seed: [sum(curves[wrong[0], seed][n - WINDOW : n]) / WINDOW for n in ends] for seed in seeds
    }
    text = "; ".join(
        f"with seed {seed} " + ", ".join(f"{mean:.4g}" for mean in each)
        for seed, each in means.items()
    )
    return (
        f"In {wrong[0]!r} the last ten losses after {ends[0]}, {ends[1]} and {ends[2]} steps have "
        f"the means {text}. The goal is {goal:g}."
    )


at_ten_times = exercise(
    "at_ten_times",
    cases=_budget_cases,
    run=_counted,
    reasons=(_means_there,),
    gradients=False,
    see='chapter 09, "Depth with and without (C20)"',
)
