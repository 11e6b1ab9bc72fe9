"""An LSTM over a padded batch."""

import math

import minitorch as mt
from textbook.checks.chapter_02.cells import stacked_weights
from textbook.checks.released import exercise


def _padded_cases(draw, more=()):
    """Padding holds zeros, large numbers, infinity and NaN; one whole batch has none."""
    sizes = [
        ([2], 1, 2, False, 0.0),
        ([3, 1, 4], 2, 3, True, 1e6),
        ([2, 3, 1], 3, 4, False, math.nan),
    ]
    sizes += [([4, 4], 2, 5, True, 0.0), ([1, 3], 4, 2, True, -math.inf)]
    sizes += [([3, 2], 2, 2, False, 0.0, 2)]  # two rows that no sequence fills
    sizes += more
    for lengths, inputs, size, given, padding, *empty in sizes:
        batch, steps = len(lengths), max(lengths) + sum(empty)
        x = draw.normal(steps, batch, inputs)
        x = x.masked_fill(_is_padding(lengths, steps).unsqueeze(-1), padding)
        states = draw.normal(batch, size), draw.normal(batch, size)
        weights = stacked_weights(draw, inputs, size, 4)
        yield x, mt.tensor(lengths), *weights, states if given else None


def _is_padding(lengths, steps):
    """(T, B), True at padding."""
    return mt.arange(steps).unsqueeze(1) >= mt.tensor(lengths)


read_padded = exercise(
    "read_padded",
    cases=_padded_cases,
    forbidden=("lstm",),
    instead="a loop over the steps",
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
