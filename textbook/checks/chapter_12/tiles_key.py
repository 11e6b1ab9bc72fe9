"""Answers to the exercises of ``tiles.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_12.tiles import _tile_cases, one_tile


@one_tile.answer(
    hidden_cases=lambda draw: _tile_cases(
        draw, others=[((), 4, 1, 6), ((3,), 5, 2, 4), ((2, 1, 2), 3, 6, 5)]
    ),
    after_passing="This is the inner step of FlashAttention: the state stays small, however "
    "many keys come.",
)
def one_tile(state, scores, value, allowed):
    """The state (m, z, u) after one tile of w keys more."""
    m, z, u = state
    scores = scores.masked_fill(~allowed, -mt.inf)  # (..., T, w)
    new = mt.maximum(m, scores.amax(dim=-1))  # (..., T)
    finite = new.masked_fill(new == -mt.inf, 0.0)  # for rows that have looked at nothing so far
    kept = (m - finite).exp()
    weights = (scores - finite.unsqueeze(-1)).exp()
    return new, kept * z + weights.sum(dim=-1), kept.unsqueeze(-1) * u + weights @ value


# Right in another way


def tile_key_by_key(state, scores, value, allowed):
    """One key after the other, each with a maximum of its own."""
    m, z, u = state
    for j in range(scores.shape[-1]):
        new = mt.where(allowed[:, j], mt.maximum(m, scores[..., j]), m)
        nothing = new == -mt.inf
        old = mt.where(nothing, 0.0, (m - new).exp())
        share = mt.where(allowed[:, j], (scores[..., j] - new).exp(), 0.0)
        z = old * z + share
        u = old[..., None] * u + share[..., None] * value[..., j, None, :]
        m = new
    return m, z, u


def tile_with_where(state, scores, value, allowed):
    m, z, u = state
    hidden = mt.where(allowed, scores, -math.inf)
    new = mt.stack([m, hidden.max(dim=-1)[0]]).amax(dim=0)
    share = mt.nan_to_num((hidden - new[..., None]).exp())
    old = mt.nan_to_num((m - new).exp())
    return [
        new,
        z * old + share.sum(-1),
        u * old[..., None] + mt.einsum("...tw,...wv->...tv", share, value),
    ]


def _by_the_library(state, scores, value, allowed, weigh):
    m, z, u = state
    hidden = scores.masked_fill(~allowed, -mt.inf)
    new = mt.maximum(m, hidden.amax(dim=-1))
    old = mt.nan_to_num((m - new).exp())
    total, mixed = weigh(hidden, value, mt.nan_to_num(new, neginf=0.0))
    return new, old * z + total, old[..., None] * u + mixed


def tile_with_logsumexp(*case):
    def weigh(hidden, value, new):
        total = mt.nan_to_num((hidden.logsumexp(dim=-1) - new).exp())
        return total, (hidden - new[..., None]).exp() @ value

    return _by_the_library(*case, weigh)


def tile_with_softmax(*case):
    def weigh(hidden, value, new):
        total = (hidden - new[..., None]).exp().sum(dim=-1)
        return total, total[..., None] * (mt.nan_to_num(hidden.softmax(dim=-1)) @ value)

    return _by_the_library(*case, weigh)


def tile_with_the_fused_operation(state, scores, value, allowed):
    def weigh(hidden, value, new):
        total = (hidden - new[..., None]).exp().sum(dim=-1)
        keys = mt.eye(hidden.shape[-1], dtype=hidden.dtype).expand(*value.shape[:-2], -1, -1)
        mixed = F.scaled_dot_product_attention(scores, keys, value, attn_mask=allowed, scale=1.0)
        return total, total[..., None] * mt.nan_to_num(mixed)

    return _by_the_library(state, scores, value, allowed, weigh)


right = {
    "one_tile": [tile_key_by_key, tile_with_where],
}
refused = {
    "one_tile": [tile_with_logsumexp, tile_with_softmax, tile_with_the_fused_operation],
}
