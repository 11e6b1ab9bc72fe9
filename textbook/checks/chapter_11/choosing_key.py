"""Answers to the exercises of ``choosing.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_11.choosing import _choice_cases, likely_tokens


@likely_tokens.answer(
    hidden_cases=lambda draw: _choice_cases(draw, others=[(3, 7), (6, 5), (4, 12)], warm=2.0),
    after_passing="Faster: topk of the first few hundred; a whole vocabulary need hardly "
    "ever be sorted.",
)
def likely_tokens(scores, share, temperature):
    """scores (B, V), share (B): the probabilities (B, V) of the likeliest tokens alone."""
    p = (scores / temperature).softmax(dim=-1)
    order = (-p).argsort(dim=-1, stable=True)  # of equals the smaller number comes first
    ordered = p.gather(1, order)
    stays = ordered.cumsum(dim=-1) - ordered < share.unsqueeze(1)
    stays[:, 0] = True
    kept = mt.zeros_like(p).scatter(1, order, ordered.masked_fill(~stays, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)


# Right in another way


def likely_row_by_row(scores, share, temperature):
    rows = []
    for z, enough in zip(scores.numpy() / temperature, share.tolist(), strict=True):
        p = np.exp(z - z.max())
        p /= p.sum()
        kept, total = np.zeros_like(p), 0.0
        for v in sorted(range(len(p)), key=lambda v: (-p[v], v)):
            if total >= enough and total > 0:
                break
            kept[v], total = p[v], total + p[v]
        rows.append(kept / kept.sum())
    return mt.tensor(np.stack(rows))


def likely_by_counting(scores, share, temperature):
    """A token stays if those before it, by size and number, have less than the share."""
    p = (scores / temperature).softmax(-1)
    n = mt.arange(p.shape[1])
    mine, theirs = p.unsqueeze(2), p.unsqueeze(1)
    before = (theirs > mine) | ((theirs == mine) & (n < n.unsqueeze(1)))
    total = mt.where(before, theirs, 0.0).sum(-1)
    stays = (total < share.unsqueeze(1)) | (before.sum(-1) == 0)
    p = mt.where(stays, p, 0.0)
    return p / p.sum(1, keepdim=True)


right = {
    "likely_tokens": [likely_row_by_row, likely_by_counting],
}
