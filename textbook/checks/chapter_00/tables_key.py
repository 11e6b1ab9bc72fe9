"""Answers to the exercises of ``tables.py``."""

import math
import statistics
from collections import defaultdict

import numpy as np

from textbook.checks.chapter_00.tables import conclusions


@conclusions.answer()
def conclusions(runs):
    """Pairs (better, worse) of optimizers, as far as the table allows."""
    by_rate = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_rate[run["optimizer"]][run["rate"]].append(run)

    def losses(rate, kind):
        return [math.inf if math.isnan(run[kind]) else run[kind] for run in rate]

    reported = {}
    for optimizer, tried in by_rate.items():
        best = min(tried, key=lambda rate: statistics.median(losses(tried[rate], "elsewhere")))
        if min(tried) < best < max(tried) and len(tried[best]) >= 5:
            reported[optimizer] = losses(tried[best], "new")
    return [
        (one, other)
        for one in reported
        for other in reported
        if max(reported[one]) < min(reported[other])
    ]


# Right in another way


def conclusions_step_by_step(runs):
    kept = {}
    for name in sorted({run["optimizer"] for run in runs}):
        own = [run for run in runs if run["optimizer"] == name]
        rates = sorted({run["rate"] for run in own})
        middles = []
        for rate in rates:
            losses = [run["elsewhere"] for run in own if run["rate"] == rate]
            losses = sorted(math.inf if loss != loss else loss for loss in losses)
            half = len(losses) // 2
            middles.append(
                losses[half] if len(losses) % 2 else sum(losses[half - 1 : half + 1]) / 2
            )
        place = middles.index(min(middles))
        if place in (0, len(rates) - 1):
            continue
        reported = [run["new"] for run in own if run["rate"] == rates[place]]
        reported = [math.inf if loss != loss else loss for loss in reported]
        if len(reported) > 4:
            kept[name] = reported
    return {
        (one, other)
        for one, losses in kept.items()
        for other, others in kept.items()
        if all(x < y for x in losses for y in others)
    }


def conclusions_in_numpy(runs):
    found, names = {}, {run["optimizer"] for run in runs}
    for name in names:
        tried = {}
        for run in runs:
            if run["optimizer"] == name:
                tried.setdefault(run["rate"], []).append((run["elsewhere"], run["new"]))
        rates = np.array(sorted(tried))
        by = [np.median(np.nan_to_num([e for e, _ in tried[r]], nan=np.inf)) for r in rates]
        best = int(np.argmin(by))
        if 0 < best < len(rates) - 1 and len(tried[rates[best]]) >= 5:
            found[name] = np.nan_to_num([new for _, new in tried[rates[best]]], nan=np.inf)
    return [[a, b] for a in found for b in found if found[a].max() < found[b].min()]


right = {
    "conclusions": [conclusions_step_by_step, conclusions_in_numpy],
}
