"""An LSTM over a padded batch."""

import math

import minitorch as mt
from textbook.checks.chapter_02.cells import stacked_weights
from textbook.checks.exercise import exercise


def _padded_cases(draw, more=()):
    """Padding holds zeros, large numbers, infinity and NaN; one whole batch has none."""
    sizes = [
        ([2], 1, 2, False, 0.0),
        ([3, 1, 4], 2, 3, True, 1e6),
        ([2, 3, 1], 3, 4, False, math.nan),
    ]
    sizes += [([4, 4], 2, 5, True, 0.0), ([1, 3], 4, 2, True, -math.inf)]
    sizes += more
    for lengths, inputs, size, given, padding in sizes:
        batch, steps = len(lengths), max(lengths)
        x = draw.normal(steps, batch, inputs)
        x = x.masked_fill(_is_padding(lengths, steps).unsqueeze(-1), padding)
        states = draw.normal(batch, size), draw.normal(batch, size)
        weights = stacked_weights(draw, inputs, size, 4)
        yield x, mt.tensor(lengths), *weights, states if given else None


def _is_padding(lengths, steps):
    """(T, B), True at padding."""
    return mt.arange(steps).unsqueeze(1) >= mt.tensor(lengths)


@exercise(
    cases=_padded_cases,
    hidden_cases=lambda draw: _padded_cases(
        draw, more=[([1, 5, 2, 3], 3, 2, True, math.nan), ([6, 2], 2, 4, False, -1e5)]
    ),
    forbidden=("lstm",),
    instead="a loop over the steps",
    after_passing="Faster: nn.LSTM on a packed batch, which never computes the padding.",
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
def read_padded(x, lengths, W_ih, W_hh, b, state=None):
    """Padded inputs (T, B, d), lengths (B): states (T, B, H), the last pair (h, c) of each."""
    if state is None:
        zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
        state = zeros, zeros
    h, c = state
    states = []
    for t, x_t in enumerate(x):
        real = (t < lengths).unsqueeze(-1)  # (B, 1)
        x_t = mt.where(real, x_t, 0.0)  # a NaN would come back on the way of the gradient
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c_new = f.sigmoid() * c + i.sigmoid() * g.tanh()  # (B, H)
        h_new = o.sigmoid() * c_new.tanh()
        h, c = mt.where(real, h_new, h), mt.where(real, c_new, c)
        states.append(mt.where(real, h, 0.0))
    return mt.stack(states), (h, c)
