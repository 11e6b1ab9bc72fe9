"""Answers to the exercises of ``padded.py``."""

import functools
import math

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook.checks.chapter_02.padded import _padded_cases, read_padded


@read_padded.answer(
    hidden_cases=lambda draw: _padded_cases(
        draw, more=[([1, 5, 2, 3], 3, 2, True, math.nan), ([6, 2], 2, 4, False, -1e5)]
    ),
    after_passing="Faster: nn.LSTM on a packed batch, which never computes the padding.",
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


# Right in another way


def _cell(x_t, h, c, W_ih, W_hh, b):
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def padded_one_by_one(x, lengths, W_ih, W_hh, b, state=None):
    """Each sequence by itself: the padding is never touched."""
    H = W_hh.shape[1]
    columns, last = [], []
    for k, n in enumerate(lengths.tolist()):
        h, c = (mt.zeros(1, H), mt.zeros(1, H)) if state is None else (s[k : k + 1] for s in state)
        states = []
        for t in range(n):
            h, c = _cell(x[t, k : k + 1], h, c, W_ih, W_hh, b)
            states.append(h)
        columns.append(mt.cat(states + [mt.zeros(1, H)] * (len(x) - n)))
        last.append((h, c))
    h, c = (mt.cat(parts) for parts in zip(*last, strict=True))
    return [mt.stack(columns, dim=1), [h, c]]


def padded_with_fewer_and_fewer(x, lengths, W_ih, W_hh, b, state=None):
    """Only the sequences that still run go through the step."""
    if state is None:
        state = (mt.zeros(x.size(1), W_hh.size(1)),) * 2
    h, c = state
    out = mt.zeros(len(x), *h.shape, dtype=h.dtype)
    for t in range(len(x)):
        rows = [k for k, n in enumerate(lengths) if t < n.item()]
        if rows:
            h, c = h.clone(), c.clone()
            new_h, new_c = _cell(x[t][rows], h[rows], c[rows], W_ih, W_hh, b)
            h[rows], c[rows], out[t, rows] = new_h, new_c, new_h
    return out, (h, c)


def padded_and_picked(x, lengths, W_ih, W_hh, b, state=None):
    """The padding is emptied, all steps run, and the last pairs are picked out afterwards."""
    there = (mt.arange(len(x)).unsqueeze(1) < lengths).unsqueeze(-1)  # (T, B, 1)
    x = x.masked_fill(~there, 0.0)
    zero = x.new_zeros((x.shape[1], W_hh.shape[1]))
    h, c = state or (zero, zero)
    pairs = []
    for x_t in x:
        h, c = _cell(x_t, h, c, W_ih, W_hh, b)
        pairs.append((h, c))
    h, c = (mt.stack(parts) for parts in zip(*pairs, strict=True))
    at = lengths - 1, mt.arange(len(lengths))
    return h * there, (h[at], c[at])


def padded_by_packing(x, lengths, W_ih, W_hh, b, state=None):
    layer = nn.LSTM(W_ih.shape[1], W_hh.shape[1]).double()
    values = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b, "bias_hh": mt.zeros_like(b)}
    layer.load_state_dict({f"{name}_l0": value.detach() for name, value in values.items()})
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    states, (h, c) = layer(packed, state and (state[0][None], state[1][None]))
    return pad_packed_sequence(states, total_length=len(x))[0], (h[0], c[0])


right = {
    "read_padded": [
        padded_one_by_one,
        padded_with_fewer_and_fewer,
        padded_and_picked,
        functools.partial(padded_one_by_one),
    ],
}
refused = {
    "read_padded": [padded_by_packing],
}
