"""All steps of a batch of short and long sequences, forward and in both directions."""

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.released import exercise


def draw_weights(draw, inputs, hidden):
    """W_ih (H, d), W_hh (H, H) and b (H)."""
    return (
        draw.normal(hidden, inputs) / inputs**0.5,
        draw.normal(hidden, hidden) / hidden**0.5,
        draw.normal(hidden),
    )


def rnn_cell(x_t, h, W_ih, W_hh, b):
    """One step: input (B, d) and state (B, H) give the next state (B, H)."""
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()


def _padded(draw, x, lengths):
    """x (T, B, d) with large numbers after the end of each sequence."""
    return mt.where(_inside(x, lengths).unsqueeze(-1), x, 50 * draw.normal(*x.shape))


def _inside(x, lengths):
    """(T, B): whether a place belongs to its sequence."""
    return mt.arange(len(x)).unsqueeze(1) < lengths


# Unrolling


def _sequence_cases(draw, more=()):
    sizes = [(1, 3, 1, 2), (2, 4, 2, 3), (3, 5, 4, 2), *more]
    for batch, steps, inputs, size in sizes:
        lengths = 1 + draw.integers(steps, batch)
        if batch > 1:
            lengths[0], lengths[1] = steps, max(1, steps - 2)
        x = _padded(draw, draw.normal(steps, batch, inputs), lengths)
        weights = draw_weights(draw, inputs, size)
        yield x, lengths, *weights, None
        yield x, lengths, *weights, draw.normal(batch, size)


unroll = exercise(
    "unroll",
    cases=_sequence_cases,
    forbidden=("rnn",),
    instead="a loop over the steps",
    see='chapter 01, "Unrolling"',
)


# Both directions


class _RNN:
    """A plain RNN that reads from left to right: (T, B, inputs) -> (T, B, hidden)."""

    def __init__(self, draw, inputs, hidden):
        self.inputs, self.hidden = inputs, hidden
        self.weights = draw_weights(draw, inputs, hidden)

    def __call__(self, x):
        states = [mt.zeros(x.shape[1], self.hidden, dtype=x.dtype)]
        for x_t in x:
            states.append(rnn_cell(x_t, states[-1], *self.weights))
        return mt.stack(states[1:])

    def __repr__(self):
        return f"RNN({self.inputs} -> {self.hidden})"

    def __deepcopy__(self, memo):
        return self


def _direction_cases(draw, more=()):
    sizes = [(3, [3, 1], 2, 2), (5, [2, 5, 4], 3, 2), (4, [4, 4, 4], 1, 3), (5, [3, 2], 2, 2)]
    for steps, lengths, inputs, size in [*sizes, *more]:
        lengths = mt.tensor(lengths)
        x = _padded(draw, draw.normal(steps, len(lengths), inputs), lengths)
        yield x, lengths, _RNN(draw, inputs, size), _RNN(draw, inputs, size)


def _where_it_is_wrong(check, answer, x, lengths, forward, backward):
    """Whether the padding alone is wrong, or one half of the states."""
    found, right = (each(x, lengths, forward, backward) for each in (answer, check.reference))
    if not difference(found, right, ""):
        return None
    outside = ~_inside(x, lengths).unsqueeze(-1)
    if found.shape == right.shape and not difference(found.masked_fill(outside, 0.0), right, ""):
        return "Only the padding is wrong: there the result is 0."
    halves = zip(found.chunk(2, dim=-1), right.chunk(2, dim=-1), strict=True)
    past, future = (difference(*pair, "") for pair in halves)
    if future and not past:
        return (
            "The forward half is right, the backward half is not. The last place of a sequence is "
            "lengths - 1: in reading order, place t is lengths - 1 - t, there and back."
        )
    return "The backward half is right, the forward half is not." if not future else None


both_directions = exercise(
    "both_directions",
    cases=_direction_cases,
    reasons=(_where_it_is_wrong,),
    see='chapter 01, "Deeper, and in both directions"',
)
