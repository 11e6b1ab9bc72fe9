"""Answers to the exercises of ``training.py``."""

import statistics

import numpy as np

from textbook.checks.chapter_09.training import _loss_cases, steps_needed

# When a loss has arrived


@steps_needed.answer(hidden_cases=lambda draw: _loss_cases(draw, x=0.125))
def steps_needed(losses, goal, window):
    """After how many steps the mean of the last losses is below the goal first; None if never."""
    for end in range(window, len(losses) + 1):
        if sum(losses[end - window : end]) / window < goal:
            return end
    return None


# Right in another way


def steps_with_convolve(losses, goal, window):
    if len(losses) < window:
        return None
    means = np.array([np.mean(losses[i : i + window]) for i in range(len(losses) - window + 1)])
    below = np.flatnonzero(means < goal)
    return below[0] + window if len(below) else None


def steps_with_a_running_list(losses, goal, window):
    last = []
    for step, loss in enumerate(losses, start=1):
        last = [*last, loss][-window:]
        if len(last) == window and statistics.fmean(last) < goal:
            return step


right = {
    "steps_needed": [steps_with_convolve, steps_with_a_running_list],
}
