"""Answers to the exercises of ``curves.py``."""

from itertools import pairwise

import numpy as np

from textbook.checks.chapter_13.curves import _curve_cases, tokens_needed


@tokens_needed.answer(
    hidden_cases=lambda draw: _curve_cases(
        draw, others=([500, 700, 5000, 9000, 70000], [2.9, 2.8, 2.0, 1.9, 1.2]), n=9
    ),
    after_passing="Shorter: np.interp on the logarithms, but only for a curve that never rises.",
)
def tokens_needed(tokens, losses, loss):
    """The number of tokens at which the loss is reached first; None if it never is."""
    if losses[0] <= loss:
        return tokens[0]
    points = zip(tokens, losses, strict=True)
    for (t, before), (u, after) in pairwise(points):
        if after <= loss:
            share = (before - loss) / (before - after)
            return t * (u / t) ** share
    return None


# Right in another way


def tokens_from_the_first_point(tokens, losses, loss):
    reached = [i for i, value in enumerate(losses) if value <= loss]
    if not reached:
        return None
    i = reached[0]
    if i == 0:
        return tokens[0]
    x = np.log([tokens[i - 1], tokens[i]])
    share = (loss - losses[i - 1]) / (losses[i] - losses[i - 1])
    return float(np.exp(x[0] + share * (x[1] - x[0])))


def tokens_by_interp(tokens, losses, loss):
    """np.interp on the one piece that crosses."""
    for i, value in enumerate(losses):
        if value <= loss:
            j = max(i - 1, 0)
            return 10 ** np.interp(-loss, [-losses[j], -value], np.log10([tokens[j], tokens[i]]))


right = {
    "tokens_needed": [tokens_from_the_first_point, tokens_by_interp],
}
