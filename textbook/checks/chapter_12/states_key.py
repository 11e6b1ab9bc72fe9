"""Answers to the exercises of ``states.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_12.states import (
    _decay_cases,
    _window_cases,
    decay_matrix,
    windowed_attention,
)

# Linear attention within a window


@windowed_attention.answer(
    hidden_cases=lambda draw: _window_cases(
        draw,
        others=[((3,), 7, 4, 5, 4), ((), 5, 6, 2, 2), ((2, 1, 2), 8, 5, 3, 5), ((2,), 3, 4, 6, 7)],
    ),
    after_passing="No loop: two cumulative sums and a difference; in float32 long texts "
    "cost digits.",
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


@decay_matrix.answer(hidden_cases=lambda draw: _decay_cases(draw, more=[((3, 2), 7), ((), 24)]))
def decay_matrix(log_decay, starts):
    """(..., n) and (..., n) boolean give D (..., n, n), 0 above the diagonal and across texts."""
    sums, text = log_decay.cumsum(dim=-1), starts.long().cumsum(dim=-1)
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    seen = (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()
    return difference.masked_fill(~seen, -mt.inf).exp()


# Right in another way


def windowed_by_sums(query, key, value, width):
    """Cumulative sums of key-value products, less those of width tokens before."""
    pairs = (key.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(dim=-3)
    sums, n = key.cumsum(dim=-2), key.shape[-2]
    if width < n:
        pairs = mt.cat(
            [pairs[..., :width, :, :], pairs[..., width:, :, :] - pairs[..., :-width, :, :]], dim=-3
        )
        sums = mt.cat([sums[..., :width, :], sums[..., width:, :] - sums[..., :-width, :]], dim=-2)
    mixed = (query.unsqueeze(-2) @ pairs).squeeze(-2)
    return mixed / (query * sums).sum(dim=-1, keepdim=True)


def windowed_with_a_queue(query, key, value, width):
    """The values get a column of ones, so that one state carries both sums."""
    value = mt.cat([value, mt.ones_like(value[..., :1])], dim=-1)
    queue, state, outputs = [], 0.0, []
    for q, k, v in zip(query.unbind(-2), key.unbind(-2), value.unbind(-2), strict=True):
        queue.append(mt.einsum("...d,...v->...dv", k, v))
        state = state + queue[-1]
        if len(queue) > width:
            state = state - queue.pop(0)
        mixed = mt.einsum("...d,...dv->...v", q, state)
        outputs.append(mixed[..., :-1] / mixed[..., -1:])
    return mt.stack(outputs, dim=-2)


def _logarithms(query, key, value, width, attend):
    n = key.shape[-2]
    back = mt.arange(n).unsqueeze(1) - mt.arange(n)
    return attend((query @ key.mT).log(), value, (back >= 0) & (back < width))


def windowed_with_softmax(*case):
    def attend(scores, value, allowed):
        return scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1) @ value

    return _logarithms(*case, attend)


def windowed_with_the_fused_operation(*case):
    def attend(scores, value, allowed):
        keys = mt.eye(scores.shape[-1], dtype=scores.dtype).expand(*value.shape[:-2], -1, -1)
        return F.scaled_dot_product_attention(scores, keys, value, attn_mask=allowed, scale=1.0)

    return _logarithms(*case, attend)


def decays_in_a_loop(log_decay, starts):
    """Row by row: the row before, times the decay, and a new 1."""
    n = log_decay.shape[-1]
    row, rows = mt.zeros_like(log_decay), []
    for t in range(n):
        go_on = (~starts[..., t : t + 1]).to(log_decay.dtype)
        row = row * log_decay[..., t : t + 1].exp() * go_on + (mt.arange(n) == t)
        rows.append(row)
    return mt.stack(rows, dim=-2)


def decays_of_clamped_differences(log_decay, starts):
    sums = log_decay.cumsum(-1)
    difference = (sums[..., :, None] - sums[..., None, :]).tril()
    text = starts.to(mt.int64).cumsum(-1)
    return difference.exp().tril() * (text[..., None] == text[..., None, :])


def decays_with_where(log_decay, starts):
    """A start is a decay of 0, whose logarithm is far enough below all others."""
    sums = mt.where(starts, -1e6, log_decay).cumsum(dim=-1)
    later = mt.arange(sums.shape[-1])
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    return mt.where(later.unsqueeze(1) >= later, difference, -math.inf).exp()


right = {
    "windowed_attention": [windowed_by_sums, windowed_with_a_queue],
    "decay_matrix": [decays_in_a_loop, decays_of_clamped_differences, decays_with_where],
}
refused = {
    "windowed_attention": [windowed_with_softmax, windowed_with_the_fused_operation],
}
