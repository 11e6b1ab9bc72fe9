"""Answers to the exercises of ``budgets.py``."""

import numpy as np

from textbook.checks.chapter_04.budgets import LEARNERS, _cases, ten_times


@ten_times.answer(
    hidden_cases=lambda draw: _cases(draw, steps=25, more=[[*LEARNERS][::-1]]),
    after_passing=(
        "The lab does this for every claim of the book: "
        "python book.py experiment 04 stories_by_pool --budget 10 --seeds 100:105"
    ),
)
def ten_times(learn, names, rates, steps):
    """Who learns it "at once", "later" or "not yet": a dict."""

    def learned(name, budget):
        rate = max(rates, key=lambda rate: learn(name, budget, rate, 0))
        return all(learn(name, budget, rate, seed) >= 0.9 for seed in range(1, 6))

    found = {}
    for name in names:
        if learned(name, steps):
            found[name] = "at once"
        else:
            found[name] = "later" if learned(name, 10 * steps) else "not yet"
    return found


# Right in another way


def ten_times_budget_by_budget(learn, names, rates, steps):
    found = dict.fromkeys(names, "not yet")
    for budget, verdict in ((10 * steps, "later"), (steps, "at once")):
        for name in names:
            tried = [(learn(name, budget, rate, 0), rate) for rate in rates]
            rate = sorted(tried)[-1][1]
            shares = [learn(name, budget, rate, seed) for seed in (1, 2, 3, 4, 5)]
            if min(shares) >= 0.9:
                found[name] = verdict
    return found


def ten_times_in_arrays(learn, names, rates, steps):
    verdicts = {}
    for name in names:
        reached = []
        for budget in (steps, steps * 10):
            by_rate = np.array([learn(name, steps=budget, rate=r, seed=0) for r in rates])
            rate = rates[int(by_rate.argmax())]
            reported = [learn(name=name, steps=budget, rate=rate, seed=1 + i) for i in range(5)]
            reached.append(not (np.array(reported) < 0.9).any())
        verdicts[name] = "at once" if reached[0] else ["not yet", "later"][reached[1]]
    return verdicts


right = {
    "ten_times": [ten_times_budget_by_budget, ten_times_in_arrays],
}
