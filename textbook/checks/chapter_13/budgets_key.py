"""Answers to the exercises of ``budgets.py``."""

import math

import numpy as np

from textbook.checks.chapter_13.budgets import training_plan


@training_plan.answer(
    hidden_cases=lambda draw: [
        (2e8, 23, 12, 40, 3, 9, 4, 777, 0.2),
        (5e11, 98, 64, 200, 2, 64, 4, 300_000, 0.15),
        (1e13, 3000, 256, 1024, 6, 128, 16, 20_000_000, 0.4),
        (1e6, 11, 8, 24, 1, 5, 3, 40, 0.15),
    ]
)
def training_plan(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    """FLOPs of a token, steps, passes over the text, and blanks, for a budget of FLOPs."""
    block = 4 * width**2 + 2 * width * hidden + 2 * n * width
    each = 3 * 2 * (layers * block + width * vocabulary)
    steps = int(budget // (each * batch * n))
    tokens = steps * batch * n
    return {
        "FLOPs of a token": each,
        "steps": steps,
        "passes": tokens / text,
        "blanks": share * tokens,
    }


# Right in another way


def plan_by_matrices(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    shapes = [(width, width)] * 4 + [(width, hidden), (hidden, width), (width, n), (n, width)]
    each = 6 * (layers * sum(a * b for a, b in shapes) + width * vocabulary)
    steps = math.floor(budget / (each * batch * n))
    return {
        "blanks": steps * batch * n * share,
        "passes": steps * batch * n / text,
        "steps": steps,
        "FLOPs of a token": each,
    }


def plan_of_a_batch(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    """FLOPs of a step first."""
    scores = 2 * 2 * batch * n * n * width
    weights = 2 * batch * n * (4 * width * width + 2 * width * hidden)
    forward = layers * (scores + weights) + 2 * batch * n * width * vocabulary
    steps = 0
    while (steps + 1) * 3 * forward <= budget and steps < 10:
        steps += 1
    steps = steps if steps < 10 else int(budget / (3 * forward))
    read = np.int64(steps) * batch * n
    counts = 3 * forward / (batch * n), steps, read / text, read * share
    return dict(zip(("FLOPs of a token", "steps", "passes", "blanks"), counts, strict=True))


right = {
    "training_plan": [plan_by_matrices, plan_of_a_batch],
}
