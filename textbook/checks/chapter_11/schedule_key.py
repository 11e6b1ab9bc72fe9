"""Answers to the exercises of ``schedule.py``."""

import math

import numpy as np

from textbook.checks.chapter_11.schedule import _rate_cases, set_rates


@set_rates.answer(
    hidden_cases=lambda draw: _rate_cases(
        draw, others=([0.5, 0.02, 3.0], [(6, 20, 56), (5, 9, 90)])
    )
)
def set_rates(optimizer, step, warm, hold, steps):
    """Set the learning rate of a step, counted from 1, in all groups of the optimizer."""
    if step < warm:
        share = step / warm
    elif step <= hold:
        share = 1.0
    else:
        share = 1 - math.sqrt((step - hold) / (steps - hold))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


# Right in another way


def rates_by_clipping(optimizer, step, warm, hold, steps):
    rise = min(step / max(warm, 1), 1.0) if warm else 1.0
    gone = max(step - hold, 0) / max(steps - hold, 1)
    for i in range(len(optimizer.param_groups)):
        group = optimizer.param_groups[i]
        group.update(lr=group["peak"] * rise * (1 - gone**0.5))


def rates_by_numpy(optimizer, step, warm, hold, steps):
    """Read off the whole course, of all steps."""
    t = np.arange(1, steps + 1)
    share = np.where(t < warm, t / max(warm, 1), 1.0)
    share[t > hold] -= np.sqrt((t[t > hold] - hold) / max(steps - hold, 1))
    for group in optimizer.param_groups:
        group["lr"] = float(share[step - 1]) * group["peak"]
    return share


right = {
    "set_rates": [rates_by_clipping, rates_by_numpy],
}
