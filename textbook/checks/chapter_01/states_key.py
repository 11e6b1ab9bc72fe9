"""Answers to the exercises of ``states.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_01.states import (
    _direction_cases,
    _sequence_cases,
    both_directions,
    unroll,
)

# Unrolling


@unroll.answer(
    hidden_cases=lambda draw: _sequence_cases(draw, more=[(4, 1, 2, 3), (5, 9, 3, 4)]),
    after_passing="Faster: nn.RNN on a packed batch, which never computes the padding.",
)
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    """Inputs (T, B, d) and lengths (B) give the states h_1 ... h_T, (T, B, H)."""
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    states = []
    for t, x_t in enumerate(x):
        new = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()  # (B, H)
        h = mt.where((t < lengths).unsqueeze(1), new, h)
        states.append(h)
    return mt.stack(states)  # (T, B, H)


# Both directions


@both_directions.answer(
    hidden_cases=lambda draw: _direction_cases(
        draw, more=[(7, [1, 7, 6, 3], 4, 3), (1, [1], 2, 2)]
    ),
    after_passing=("Shorter: nn.RNN(..., bidirectional=True) on a packed batch does just this."),
)
def both_directions(x, lengths, forward, backward):
    """Inputs (T, B, d) and lengths (B) give both halves of the states, (T, B, 2 H)."""
    steps = mt.arange(len(x)).unsqueeze(1)  # (T, 1)
    inside = steps < lengths  # (T, B)
    turned = mt.where(inside, lengths - 1 - steps, steps)  # each sequence from its own end
    batch = mt.arange(x.shape[1])
    past = forward(x)  # (T, B, H)
    future = backward(x[turned, batch])[turned, batch]  # (T, B, H)
    return mt.cat([past, future], dim=-1).masked_fill(~inside.unsqueeze(-1), 0.0)


# Right in another way


def unroll_step_by_step(x, lengths, W_ih, W_hh, b, h0=None):
    """Sequence by sequence; a finished one repeats its last state."""
    columns = []
    for i, n in enumerate(lengths.tolist()):
        h = mt.zeros(len(W_hh), dtype=x.dtype) if h0 is None else h0[i]
        states = []
        for t in range(n):
            h = mt.tanh(W_ih @ x[t, i] + W_hh @ h + b)
            states.append(h)
        columns.append(mt.stack(states + [h] * (len(x) - n)))
    return mt.stack(columns, dim=1)


def unroll_by_a_share(x, lengths, W_ih, W_hh, b, h0=None):
    """0 or 1 of the new state."""
    h = x.new_zeros((x.shape[1], W_hh.shape[0])) if h0 is None else h0
    a, rows = F.linear(x, W_ih, b), []
    for t in range(len(x)):
        new = (lengths > t).float().unsqueeze(1)
        h = h + new * ((a[t] + h.matmul(W_hh.transpose(0, 1))).tanh() - h)
        rows.append(h.unsqueeze(0))
    return mt.cat(rows)


def library_rnn(x, W_ih, W_hh, b, h0):
    rnn = nn.RNN(W_ih.shape[1], len(W_hh)).to(W_ih.dtype)
    rnn.load_state_dict(
        {
            "weight_ih_l0": W_ih.detach(),
            "weight_hh_l0": W_hh.detach(),
            "bias_ih_l0": b.detach(),
            "bias_hh_l0": 0 * b.detach(),
        }
    )
    return rnn(x, None if h0 is None else h0.unsqueeze(0))[0]


def unroll_by_the_library(x, lengths, W_ih, W_hh, b, h0=None):
    states = library_rnn(x, W_ih, W_hh, b, h0)
    steps = mt.arange(len(x)).unsqueeze(1)
    places = mt.where(steps < lengths, steps, lengths - 1)
    return states[places, mt.arange(x.shape[1])]


def directions_one_by_one(x, lengths, forward, backward):
    columns = []
    for i, n in enumerate(lengths.tolist()):
        own = x[:n, i : i + 1]
        halves = mt.cat([forward(own), backward(own.flip(0)).flip(0)], dim=2)[:, 0]
        rest = mt.zeros(len(x) - n, halves.shape[1], dtype=x.dtype)
        columns.append(mt.cat([halves, rest]) if len(rest) else halves)
    return mt.stack(columns, dim=1)


def directions_by_gather(x, lengths, forward, backward):
    T, B, d = x.shape
    t = mt.arange(T).reshape(-1, 1)
    places = (lengths - 1 - t) % T  # the padding stands behind, in some order
    turned = x.gather(0, places.unsqueeze(-1).expand(T, B, d))
    states = backward(turned)
    future = states.gather(0, places.unsqueeze(-1).expand(*states.shape))
    inside = (t < lengths).unsqueeze(-1).float()
    return mt.cat((forward(x) * inside, future * inside), -1)


right = {
    "unroll": [unroll_step_by_step, unroll_by_a_share],
    "both_directions": [directions_one_by_one, directions_by_gather],
}
refused = {
    "unroll": [unroll_by_the_library],
}
