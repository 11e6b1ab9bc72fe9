"""Linear attention within a window, step by step; decays in a matrix."""

import math

import minitorch as mt
from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw, exercise

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


@exercise(
    cases=_window_cases,
    hidden_cases=lambda draw: _window_cases(
        draw,
        others=[((3,), 7, 4, 5, 4), ((), 5, 6, 2, 2), ((2, 1, 2), 8, 5, 3, 5), ((2,), 3, 4, 6, 7)],
    ),
    forbidden=("scaled_dot_product_attention", "softmax"),
    instead="sums of products of keys and values",
    properties=(_work_is_the_same_for_any_window,),
    after_passing="No loop: two cumulative sums and a difference; in float32 long texts "
    "cost digits.",
    see='chapter 12, "No softmax"',
)
def windowed_attention(query, key, value, width):
    """Query and key (..., n, d), value (..., n, d_v): linear attention to the last width tokens."""
    *lead, n, d = key.shape
    state, total = key.new_zeros(*lead, d, value.shape[-1]), key.new_zeros(*lead, d)
    outputs = []
    for t in range(n):
        state = state + key[..., t, :, None] * value[..., t, None, :]
        total = total + key[..., t, :]
        if t >= width:
            state = state - key[..., t - width, :, None] * value[..., t - width, None, :]
            total = total - key[..., t - width, :]
        asked = query[..., t, :]
        mixed = (asked.unsqueeze(-2) @ state).squeeze(-2)  # (..., d_v)
        outputs.append(mixed / (asked * total).sum(dim=-1, keepdim=True))
    return mt.stack(outputs, dim=-2)


def _weighed(weigh, allowed):
    def attention(query, key, value, width):
        n = key.shape[-2]
        back = mt.arange(n).unsqueeze(1) - mt.arange(n)
        weights = weigh(query @ key.mT, key.shape[-1]).masked_fill(~allowed(back, width), 0.0)
        return weights / weights.sum(dim=-1, keepdim=True) @ value

    return attention


def _linear(scores, d):
    return scores


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


@exercise(
    cases=_decay_cases,
    hidden_cases=lambda draw: _decay_cases(draw, more=[((3, 2), 7), ((), 24)]),
    reasons=(_strong_decays,),
    properties=(_zero_means_zero, _as_exact_as_its_numbers),
    see='chapter 12, "Recurrence comes back"',
)
def decay_matrix(log_decay, starts):
    """(..., n) and (..., n) boolean give D (..., n, n), 0 above the diagonal and across texts."""
    sums, text = log_decay.cumsum(dim=-1), starts.long().cumsum(dim=-1)
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    seen = (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()
    return difference.masked_fill(~seen, -mt.inf).exp()
