"""Linear attention within a window, step by step; decays in a matrix."""

import math

import minitorch as mt
from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise

# Linear attention within a window


def _window_cases(draw, others=()):
    """Queries and keys are positive features; n, d, d_v and the window differ."""
    sizes = others or [
        ((), 3, 4, 2, 2),
        ((2,), 5, 4, 3, 3),
        ((2, 3), 6, 5, 4, 1),
        ((1,), 4, 6, 5, 9),
    ]
    for lead, n, d, d_v, width in sizes:
        query, key = (draw.normal(*lead, n, d).exp() for _ in range(2))
        yield query, key, draw.normal(*lead, n, d_v), width


def _work_is_the_same_for_any_window(answer, *case):
    """The numbers that all operations write, for two windows, and tables of n x n."""
    draw, n = Draw(0), 48
    inputs = draw.normal(n, 4).exp(), draw.normal(n, 4).exp(), draw.normal(n, 5)
    numbers = []
    for width in (3, 24):
        shapes = []
        with listening(lambda name, came, went, backward: shapes.extend(x.shape for x in went)):  # noqa: B023
            answer(*inputs, width)
        if any(tuple(shape).count(n) > 1 for shape in shapes):
            return (
                f"For n = {n} your answer makes a table of n x n numbers. The state alone says "
                "what a token must know of those before it."
            )
        numbers.append(sum(map(math.prod, shapes)))
    if numbers[1] > 1.5 * numbers[0]:
        return (
            f"For n = {n}, what your answer computes grows from {numbers[0]:,} numbers in all for "
            f"a window of 3 to {numbers[1]:,} for one of 24. Keep a state: at each step one token "
            "enters and at most one leaves, however long the window is."
        )
    return None


windowed_attention = exercise(
    "windowed_attention",
    cases=_window_cases,
    forbidden=("scaled_dot_product_attention", "softmax"),
    instead="sums of products of keys and values",
    properties=(_work_is_the_same_for_any_window,),
    see='chapter 12, "No softmax"',
)


# Decays in a matrix


def _decay_cases(draw, more=()):
    """Logarithms of decays that add up to some thousands, and texts that begin anywhere."""
    sizes = [((), 3), ((2,), 4), ((2, 3), 5), *more]
    for lead, n in sizes:
        for scale in (0.3, 400.0):
            starts = draw.normal(*lead, n) > 0.8
            yield -scale * draw.normal(*lead, n).exp(), starts
            yield -scale * draw.normal(*lead, n).exp(), mt.zeros_like(starts)


def _same_text(starts):
    """(..., n, n): both tokens are of one text, the key not after the query."""
    text = starts.long().cumsum(dim=-1)
    return (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()


def _zero_means_zero(answer, log_decay, starts):
    """Asked with decays of 1, where nothing but the mask makes a number small.

    Strong decays in the case hide other mistakes, which have a name.
    """
    if log_decay.min() < -10:
        return None
    matrix = answer(mt.zeros_like(log_decay), starts)
    if bool((matrix.masked_fill(_same_text(starts), 0.0) != 0).any()):
        return (
            "Above the diagonal and across texts D must be 0 exactly. The check asked again with "
            "decays of 1, and there were other numbers."
        )
    return None


def _as_exact_as_its_numbers(answer, log_decay, starts):
    """No number that is huge stands in a sum beside those that count."""
    if not starts.any():
        return None
    found = answer(mt.full((6,), -1 / 3), mt.arange(6) == 2)[5, 3].item()
    if (off := abs(found - math.exp(-2 / 3))) < 1e-9:
        return None
    return (
        "With all decays exp(-1/3) and a text that begins at token 2, D[5, 3] is exp(-2/3), and "
        f"yours is off by {off:.1g}, more than rounding: a huge number in a sum leaves few digits "
        "to the others, and none in float32. Cut the texts apart by a mask."
    )


def _strong_decays(check, answer, log_decay, starts):
    """Whether a number stands where a decay is as good as 0."""
    one, other = (
        answer(mt.tensor([0.0, log]), mt.tensor([False, False]))[1, 0].item()
        for log in (-400.0, -700.0)
    )
    if 1e-12 < one == other:
        return (
            f"A decay of exp(-400) gives {one:.2g}, one of exp(-700) the same: the logarithms are "
            "clamped. Nothing has to be: exp of a large negative number is 0, and that is right."
        )
    return None


decay_matrix = exercise(
    "decay_matrix",
    cases=_decay_cases,
    reasons=(_strong_decays,),
    properties=(_zero_means_zero, _as_exact_as_its_numbers),
    see='chapter 12, "Recurrence comes back"',
)
