"""Answers to the exercises of ``averages.py``."""

import statistics

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_04.averages import _padded_cases, _point_cases, attend, leave_one_out

# Kernel regression, each point left out


@leave_one_out.answer(
    hidden_cases=lambda draw: _point_cases(draw, more=[(9, 1, 0.3), (7, 4, 2e-3), (12, 5, 2.0)]),
    after_passing=(
        "Shorter: with the weights p of all points, the guess without i is (o_i - p_ii v_i) / "
        "(1 - p_ii). But it cancels where p_ii is near 1."
    ),
)
def leave_one_out(keys, values, width):
    """Keys (n, d) and values (n) give the mean squared error of kernel regression, a number."""
    distances = (keys.unsqueeze(1) - keys.unsqueeze(0)).square().sum(dim=-1)  # (n, n)
    scores = (-distances / (2 * width**2)).masked_fill(mt.eye(len(keys)).bool(), -mt.inf)
    return (scores.softmax(dim=-1) @ values - values).square().mean()


# Attention with padding, and with nothing to look at


@attend.answer(
    hidden_cases=lambda draw: _padded_cases(
        draw, more=[([1], 1, 4, 2, None), ([6, 0, 9, 4], 3, 5, 7, mt.nan), ([0, 1], 4, 4, 4, None)]
    )
)
def attend(queries, keys, values, padding):
    """Queries (B, T, d), keys, values (B, n, ...), padding (B, n): outputs, weights (B, T, n)."""
    hidden = padding.unsqueeze(1)  # (B, 1, n)
    keys, values = keys.masked_fill(hidden.mT, 0.0), values.masked_fill(hidden.mT, 0.0)
    empty = hidden.all(dim=-1, keepdim=True)  # (B, 1, 1)
    scores = (queries @ keys.mT).masked_fill(hidden & ~empty, -mt.inf)  # (B, T, n)
    weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
    return weights @ values, weights


# Right in another way


def left_out_in_a_loop(keys, values, width):
    errors = []
    for i in range(len(keys)):
        others = [j for j in range(len(keys)) if j != i]
        scores = -((keys[others] - keys[i]) ** 2).sum(-1) / 2 / width**2
        errors.append((scores.softmax(-1) @ values[others] - values[i]).item() ** 2)
    return statistics.fmean(errors)


def left_out_in_numpy(keys, values, width):
    k, v = keys.numpy(), values.numpy()
    scores = -0.5 * (((k[:, None] - k[None]) / width) ** 2).sum(-1)
    np.fill_diagonal(scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    guesses = weights @ v / weights.sum(axis=1)
    return np.mean((guesses - v) ** 2)


def attend_sentence_by_sentence(queries, keys, values, padding):
    outputs = mt.zeros(*queries.shape[:2], values.shape[-1]).double()
    results, rows = [], []
    for q, k, v, rest in zip(queries, keys, values, padding, strict=True):
        n = int((~rest).sum())
        if n:
            weights = (q @ k[:n].T).softmax(dim=-1)
            results.append(weights @ v[:n])
        else:
            weights = mt.zeros(len(q), 0).double()
            results.append(outputs[0])
        rows.append(F.pad(weights, (0, len(rest) - n)))
    return mt.stack(results), mt.stack(rows)


def attend_by_hand(queries, keys, values, padding):
    there = ~padding
    keys = mt.where(there.unsqueeze(-1), keys, mt.zeros_like(keys))
    values = mt.where(there.unsqueeze(-1), values, mt.zeros_like(values))
    scores = mt.einsum("btd,bnd->btn", queries, keys)
    low = scores.masked_fill(padding[:, None], -1e300).amax(-1, keepdim=True).detach()
    low = mt.where(there.any(dim=1).reshape(-1, 1, 1), low, mt.zeros_like(low))
    exponentials = (scores - low).clamp(max=0.0).exp().masked_fill(padding[:, None], 0.0)
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / total.masked_fill(total == 0, 1.0)
    return [mt.einsum("btn,bnv->btv", weights, values), weights]


def fused_attend(queries, keys, values, padding):
    clean = [x.masked_fill(padding.unsqueeze(-1), 0.0) for x in (keys, values)]
    size = keys.shape[1]
    eye = mt.eye(size, dtype=keys.dtype).expand(len(keys), size, size)
    empty = padding.all(dim=1).reshape(-1, 1, 1)
    allowed = ~padding.unsqueeze(1) | empty
    outputs, weights = (
        F.scaled_dot_product_attention(queries, clean[0], x, attn_mask=allowed, scale=1.0)
        for x in (clean[1], eye)
    )
    return outputs.masked_fill(empty, 0.0), weights.masked_fill(empty, 0.0)


right = {
    "leave_one_out": [left_out_in_a_loop, left_out_in_numpy],
    "attend": [attend_sentence_by_sentence, attend_by_hand],
}
refused = {
    "attend": [fused_attend],
}
