"""Answers to the exercises of ``probabilities.py``."""

import functools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import softmax as probabilities
from textbook.checks.chapter_00.probabilities import _score_cases, _text_cases, perplexity, softmax

# Softmax


@softmax.answer(
    hidden_cases=lambda draw: _score_cases(draw, more=[(7, 2, 6)]),
    after_passing="Shorter: (scores - scores.logsumexp(dim=-1, keepdim=True)).exp().",
)
def softmax(scores):
    """The softmax along the last axis: (..., V) -> (..., V)."""
    powers = mt.exp(scores - scores.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)


# Perplexity


@perplexity.answer(hidden_cases=lambda draw: _text_cases(draw, more=[(7, 11, 0.35)], many=900))
def perplexity(scores, others, share, targets):
    """Scores (T, V) of two models, a share and (T) words -> a number."""
    words = targets.unsqueeze(1)  # (T, 1)
    log_p = F.log_softmax(scores, dim=-1).gather(1, words) + mt.tensor(share).log()
    log_q = F.log_softmax(others, dim=-1).gather(1, words) + mt.tensor(1 - share).log()
    return math.exp(-mt.logaddexp(log_p, log_q).mean().item())


# Right in another way


def softmax_in_one_go(scores):
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def softmax_row_by_row(scores):
    """What F.softmax does, without softmax."""
    rows = []
    for row in scores.reshape(-1, scores.shape[-1]):
        weights = [mt.exp(score - row.max().detach()) for score in row]
        rows.append(mt.stack(weights) / sum(weights))
    return mt.stack(rows).reshape(scores.shape)


def softmax_by_pairs(scores):
    total = functools.reduce(mt.logaddexp, scores.unbind(-1))
    return (scores - total.unsqueeze(-1)).exp()


class SoftmaxInNumpy:
    """An object that is called, and no gradient."""

    def __init__(self, axis):
        self.axis = axis

    def __call__(self, scores):
        weights = scores.numpy()
        weights = np.exp(weights - weights.max(axis=self.axis, keepdims=True))
        return mt.tensor(weights / weights.sum(axis=self.axis, keepdims=True))


def softmax_over(scores, dim):
    weights = mt.exp(scores.float() - scores.amax(dim=dim, keepdim=True).to(mt.float32))
    return weights / (weights @ mt.ones(scores.shape[-1], dtype=mt.float32)).unsqueeze(dim)


def perplexity_by_logsumexp(scores, others, share, targets):
    total = 0.0
    for row, other, target in zip(scores, others, targets.tolist(), strict=True):
        logs = [(x[target] - x.logsumexp(dim=0)).item() for x in (row, other)]
        shares = [share, 1 - share]
        known = [log + math.log(part) for log, part in zip(logs, shares, strict=True) if part > 0]
        top = max(known)
        total -= top + math.log(sum(math.exp(each - top) for each in known))
    return math.exp(total / len(targets))


def perplexity_in_numpy(scores, others, share, targets):
    rows = np.arange(len(targets))
    logs = []
    for x in (scores.numpy(), others.numpy()):
        x = x - x.max(axis=1, keepdims=True)
        logs.append((x - np.log(np.exp(x).sum(axis=1, keepdims=True)))[rows, targets.numpy()])
    with np.errstate(divide="ignore"):
        log_p = np.logaddexp(np.log(share) + logs[0], np.log(1 - share) + logs[1])
    return mt.tensor(np.exp(-log_p.mean()))


def softmax_by_cross_entropy(scores):
    rows = scores.reshape(-1, scores.shape[-1])
    losses = [
        F.cross_entropy(rows, mt.full((len(rows),), i), reduction="none")
        for i in range(rows.shape[-1])
    ]
    return (-mt.stack(losses, -1)).exp().reshape(scores.shape)


def softmax_by_attention(scores):
    eye = mt.eye(scores.shape[-1], dtype=scores.dtype)
    rows = scores.clamp(min=-1e30).reshape(1, -1, scores.shape[-1])  # -inf times 0 is no number
    found = F.scaled_dot_product_attention(rows, eye.unsqueeze(0), eye.unsqueeze(0), scale=1.0)
    return found.reshape(scores.shape)


right = {
    "softmax": [
        softmax_in_one_go,
        softmax_row_by_row,
        softmax_by_pairs,
        SoftmaxInNumpy(-1),
        functools.partial(softmax_over, dim=-1),
    ],
    "perplexity": [perplexity_by_logsumexp, perplexity_in_numpy],
}
refused = {
    "softmax": [
        lambda scores: mt.softmax(scores, -1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: scores.softmax(-1),
        lambda scores: probabilities(scores, -1),
        lambda scores: F.log_softmax(scores, -1).exp(),
        lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp(),
        softmax_by_cross_entropy,
        softmax_by_attention,
    ],
}
