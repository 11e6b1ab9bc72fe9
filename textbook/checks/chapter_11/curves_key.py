"""Answers to the exercises of ``curves.py``."""

import numpy as np

from textbook.checks.chapter_11.curves import diagnosed, trainings


@diagnosed.answer()
def diagnosed():
    """What went wrong in each run, and at which step it shows first: a dict."""
    return {
        "A": ("the rate ends too early", 120),
        "B": ("learns by heart", 100),
        "C": ("an odd batch", 140),
        "D": ("nothing", None),
        "E": ("the rate is too high", 80),
        "F": ("sees the answers", 60),
        "G": ("gradients pile up", 20),
    }


# Right in another way


def diagnosed_in_lists():
    faults = {
        "learns by heart": "B 95",
        "nothing": "D",
        "an odd batch": "C 145",
        "sees the answers": "F 65",
        "the rate ends too early": "A 125",
        "gradients pile up": "G 25",
        "the rate is too high": "E 80",
    }
    pairs = {place.split()[0]: (fault, place.split()[1:]) for fault, place in faults.items()}
    return {name: [fault, int(step[0]) if step else None] for name, (fault, step) in pairs.items()}


def diagnosed_from_the_numbers():
    """The steps read off the numbers."""
    runs = trainings

    def largest_rise(name, key):
        values = runs[name][key]
        return runs[name]["step"][1 + int(np.argmax(np.diff(values)))]

    below = next(k for k, loss in enumerate(runs["F"]["validation"]) if loss < 0.8)
    best = int(np.argmin(runs["B"]["validation"]))
    level = np.array(runs["A"]["validation"])
    flat = next(k for k in range(len(level)) if abs(level[k:] - level[k:].mean()).max() < 0.05)
    return {
        "A": ("the rate ends too early", runs["A"]["step"][flat]),
        "B": ("learns by heart", runs["B"]["step"][best]),
        "C": ("an odd batch", largest_rise("C", "norm")),
        "D": ("nothing", None),
        "E": ("the rate is too high", largest_rise("E", "training")),
        "F": ("sees the answers", runs["F"]["step"][below]),
        "G": ("gradients pile up", 22.5),
    }


right = {
    "diagnosed": [diagnosed_in_lists, diagnosed_from_the_numbers],
}
