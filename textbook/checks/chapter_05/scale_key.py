"""Answers to the exercises of ``scale.py``."""

import math
from decimal import Decimal

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_05.scale import (
    _matrix_cases,
    _slope_cases,
    moved_by_score,
    score_deviation,
)

# The spread of the scores


@score_deviation.answer(
    hidden_cases=lambda draw: _matrix_cases(draw, more=[(6, 3), (2, 9)]),
    after_passing=(
        "Faster for narrow heads: (Q.T @ Q @ K.T @ K).trace() ** 0.5 has no product of d by d."
    ),
)
def score_deviation(Q, K):
    """Two matrices (d, d_k) give the standard deviation of a score, a number."""
    between = Q @ K.T  # (d, d)
    return (between**2).sum().sqrt().item()


# What a change of a score does


@moved_by_score.answer(
    hidden_cases=lambda draw: _slope_cases(draw, more=[(1, 5, 3, 1), (4, 2, 6, 2)])
)
def moved_by_score(scores, values):
    """Scores (T, n) and values (n, d): how fast the output moves with each score, (T, n)."""
    p = scores.softmax(dim=-1)
    outputs = p @ values  # (T, d)
    apart = values - outputs.unsqueeze(1)  # (T, n, d)
    return p * (apart**2).sum(dim=-1).sqrt()


# Right in another way


def deviation_in_loops(Q, K):
    total = 0.0
    for q in Q:
        for k in K:
            total += float(q @ k) ** 2
    return math.sqrt(total)


def deviation_as_a_decimal(Q, K):
    return sum(Decimal(float(q @ k)) ** 2 for q in Q for k in K).sqrt()


def deviation_by_a_trace(Q, K):
    """|| Q K^T ||^2 = trace(K Q^T Q K^T) = trace(Q^T Q K^T K), without a (d, d) matrix."""
    return mt.trace(Q.T @ Q @ (K.T @ K)).sqrt()


def deviation_with_einsum(Q, K):
    return mt.einsum("ak,bk,al,bl->", Q, K, Q, K).item() ** 0.5


def deviation_in_numpy(Q, K):
    return np.linalg.norm(Q.numpy() @ K.numpy().T)


def moved_in_loops(scores, values):
    rows = []
    for row in scores.softmax(-1).tolist():
        o = [sum(p * v for p, v in zip(row, column, strict=True)) for column in values.T.tolist()]
        rows.append(
            [p * math.dist(value, o) for p, value in zip(row, values.tolist(), strict=True)]
        )
    return mt.tensor(rows)


def moved_by_jacobians(scores, values):
    p = F.softmax(scores, dim=-1)
    jacobians = mt.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)  # (T, n, n)
    return (jacobians @ values).norm(dim=-1)


def moved_with_numpy(scores, values):
    e = scores.numpy() - scores.numpy().max(axis=1, keepdims=True)
    p = np.exp(e) / np.exp(e).sum(axis=1, keepdims=True)
    apart = values.numpy() - (p @ values.numpy())[:, None]
    return mt.tensor(p * np.linalg.norm(apart, axis=2))


def moved_by_the_engine(scores, values):
    rows = []
    for row in scores:
        row = row.detach().requires_grad_()
        o = row.softmax(0) @ values
        slopes = [mt.autograd.grad(each, row, retain_graph=True)[0] for each in o]
        rows.append((mt.stack(slopes) ** 2).sum(dim=0).sqrt())
    return mt.stack(rows)


right = {
    "score_deviation": [
        deviation_in_loops,
        deviation_by_a_trace,
        deviation_with_einsum,
        deviation_in_numpy,
        deviation_as_a_decimal,
    ],
    "moved_by_score": [moved_in_loops, moved_by_jacobians, moved_with_numpy],
}
refused = {
    "moved_by_score": [moved_by_the_engine],
}
