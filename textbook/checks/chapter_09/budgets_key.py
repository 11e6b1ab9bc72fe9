"""Answers to the exercises of ``budgets.py``."""

import statistics

import numpy as np

from textbook.checks.chapter_09.budgets import _budget_cases, at_ten_times

VERDICTS = "learns", "learns later", "never seen to", "luck of the seed"


@at_ten_times.answer(
    hidden_cases=lambda draw: _budget_cases(
        draw, others=[(11, 0.125, [5, 3]), (30, 2.0, [0, 1, 2, 3])]
    ),
    after_passing="Cheaper: keep the losses of a long run, and every smaller budget can be "
    "read off later.",
)
def at_ten_times(train, settings, seeds, budget, goal):
    """How many seeds have learned after one, three and ten budgets, and a verdict: a dict."""
    found = {}
    for setting in settings:
        runs = [train(setting, seed, 10 * budget) for seed in seeds]
        counts = [
            sum(sum(losses[n - 10 : n]) / 10 < goal for losses in runs)
            for n in (budget, 3 * budget, 10 * budget)
        ]
        if counts[0] == len(seeds):
            verdict = "learns"
        elif counts[-1] == len(seeds):
            verdict = "learns later"
        elif not any(counts):
            verdict = "never seen to"
        else:
            verdict = "luck of the seed"
        found[setting] = counts, verdict
    return found


def _ever_below(train, settings, seeds, budget, goal):
    """A run counts from the first window that is below the goal on."""

    def kept(setting, seed, steps):
        losses = train(setting, seed, steps)
        for end in range(10, steps + 1):
            if sum(losses[end - 10 : end]) / 10 < goal:
                return losses[:end] + [losses[end - 1] * 0] * (steps - end)
        return losses

    return at_ten_times.reference(kept, settings, seeds, budget, goal)


# Right in another way


def ten_times_by_means(train, settings, seeds, budget, goal):
    """All means first, then a verdict by sets."""
    verdicts = {}
    for setting in settings:
        curves = np.array([train(setting, seed, 10 * budget) for seed in seeds])
        ends = [
            curves[:, n - 10 : n].mean(axis=1) < goal for n in (budget, 3 * budget, 10 * budget)
        ]
        if ends[0].all():
            said = "learns"
        elif ends[2].all():
            said = "learns later"
        else:
            said = "luck of the seed" if np.any(ends) else "never seen to"
        verdicts[setting] = [[int(end.sum()) for end in ends], said]
    return verdicts


def ten_times_by_table(train, settings, seeds, budget, goal):
    """A table of booleans, filled run by run."""
    learned = {}
    for seed in seeds:
        for setting in settings:
            losses = train(setting, seed, steps=10 * budget)
            learned[setting, seed] = [
                statistics.fmean(losses[k * budget - 10 : k * budget]) < goal for k in (1, 3, 10)
            ]
    found = {}
    for setting in settings:
        one, three, ten = (sum(learned[setting, seed][i] for seed in seeds) for i in range(3))
        all_of_them = len(seeds)
        rules = {
            "learns": one == all_of_them,
            "learns later": ten == all_of_them,
            "never seen to": one + three + ten == 0,
            "luck of the seed": True,
        }
        found[setting] = (one, three, ten), next(name for name, holds in rules.items() if holds)
    return found


right = {
    "at_ten_times": [ten_times_by_means, ten_times_by_table],
}
