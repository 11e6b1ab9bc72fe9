"""Answers to the exercises of ``tables.py``."""

import numpy as np

from textbook.checks.chapter_07.tables import _run_cases, judged


@judged.answer(hidden_cases=lambda draw: _run_cases(draw, trials=5))
def judged(runs):
    """The verdict on each model, and the best of those that may be compared: a dict."""
    verdicts, means = {}, {}
    for run in runs:
        pairs = list(zip(run["in one pass"], run["from the prefix"], strict=True))
        apart = [abs(one_pass - prefix) > 0.01 for one_pass, prefix in pairs]
        if apart[-1]:
            verdict = "measured wrongly"
        elif any(apart):
            verdict = "leaks"
        else:
            verdict = "no leak seen"
            if run["text"] == "held out":
                means[run["model"]] = sum(run["from the prefix"]) / len(pairs)
        verdicts[run["model"]] = verdict
    return {"verdicts": verdicts, "best": min(means, key=means.get, default=None)}


# Right in another way


def judged_by_functions(runs):
    def same(run, places):
        return all(abs(run["in one pass"][t] - run["from the prefix"][t]) <= 0.01 for t in places)

    def verdict(run):
        n = len(run["in one pass"])
        if not same(run, [n - 1]):
            return "measured wrongly"
        return "no leak seen" if same(run, range(n)) else "leaks"

    verdicts = {run["model"]: verdict(run) for run in runs}
    fair = sorted(
        (sum(run["from the prefix"]), run["model"])
        for run in runs
        if verdicts[run["model"]] == "no leak seen" and run["text"] != "training"
    )
    return {"best": fair[0][1] if fair else None, "verdicts": verdicts}


def judged_with_numpy(runs):
    verdicts, best, lowest = {}, None, np.inf
    for run in runs:
        gap = np.abs(np.subtract(run["in one pass"], run["from the prefix"])) > 0.01
        names = ["measured wrongly", "leaks", "no leak seen"]
        verdicts[run["model"]] = names[0] if gap[-1] else names[1 if gap.any() else 2]
        mean = np.mean(run["from the prefix"])
        if not gap.any() and run["text"] == "held out" and mean < lowest:
            best, lowest = run["model"], mean
    return dict(verdicts=verdicts, best=best)


right = {
    "judged": [judged_by_functions, judged_with_numpy],
}
