"""Answers to the exercises of ``promises.py``."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_10.promises import _sentence_cases, promises


@promises.answer(
    hidden_cases=lambda draw: _sentence_cases(draw, more=[(2, 3), (25, 100)]),
    after_passing="To remember: at 10 tokens a loss below 0.07 promises the sentence, one "
    "of 0.3 nothing.",
)
def promises(T, V):
    """Two losses, and two examples (T, V) of probabilities: a dict."""
    wrong = mt.eye(V)[mt.zeros(T).long()]  # sure of every token,
    wrong[0, 0], wrong[0, 1] = 0.499, 0.501  # but for one
    right = mt.full((T, V), (1 - 1.001 / V) / (V - 1))
    right[:, 0] = 1.001 / V  # a little likelier than the others
    return {
        "right below": math.log(2) / T,
        "wrong above": math.log(V),
        "wrong": wrong,
        "right": right,
    }


# Right in another way


def promises_by_logarithms(T, V):
    """Probabilities as a softmax of scores."""
    scores = mt.zeros(T, V).double()
    scores[:, 0] = 1e-3
    unsure = mt.full((T, V), -1e9).double()
    unsure[:, 0] = 0.0
    unsure[T - 1, 1] = 1e-3
    return {
        "right below": -math.log(0.5) / T,
        "wrong above": -math.log(1 / V),
        "wrong": unsure.softmax(dim=1),
        "right": scores.softmax(dim=1),
    }


def promises_by_lists(T, V):
    rest = (1 - 1.005 / V) / (V - 1)
    sure = [1.0] + [0.0] * (V - 1)
    wrong = [sure] * (T - 1) + [[0.498] + [0.0] * (V - 2) + [0.502]]
    right = [[1.005 / V] + [rest] * (V - 1)] * T
    bounds = {"right below": np.log(2) / T, "wrong above": np.log(V)}
    return bounds | {"wrong": mt.tensor(wrong), "right": mt.tensor(right)}


right = {
    "promises": [promises_by_logarithms, promises_by_lists],
}
