"""Answers to the exercises of ``tokens.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_05.tokens import _token_cases, from_others


@from_others.answer(hidden_cases=lambda draw: _token_cases(draw, others=[(5, 3, 4), (4, 6, 1)]))
def from_others(X, Q, K, V, i):
    """X (n, d) and three matrices (d, d) give the output (d) and the weights (n) of token i."""
    scores = (X @ K) @ (X[i] @ Q) / math.sqrt(X.shape[1])  # (n)
    scores = scores.masked_fill(mt.arange(len(X)) == i, -mt.inf)
    weights = scores.softmax(dim=0)
    return weights @ (X @ V), weights


# Right in another way


def others_in_a_loop(X, Q, K, V, i):
    q, others = X[i] @ Q, [j for j in range(len(X)) if j != i]
    scores = mt.stack([q @ (X[j] @ K) for j in others]) * X.shape[1] ** -0.5
    found = scores.softmax(dim=0)
    output = sum(weight * (X[j] @ V) for weight, j in zip(found, others, strict=True))
    weights = mt.zeros(len(X))
    weights[others] = found
    return output, weights


def others_cut_out(X, Q, K, V, i):
    """The sentence without the token."""
    rest = mt.cat([X[:i], X[i + 1 :]])
    weights = F.softmax(rest @ (K @ (X[i] @ Q)) / len(Q) ** 0.5, dim=0)
    zero = mt.zeros(1, dtype=X.dtype)
    return [(weights @ rest) @ V, mt.cat([weights[:i], zero, weights[i:]])]


def others_by_exponentials(X, Q, K, V, i):
    scores = mt.einsum("d,nd->n", X[i] @ Q, X @ K) / math.sqrt(X.size(1))
    there = mt.arange(len(X)) != i
    largest = scores[there].amax()
    exponentials = mt.where(there, (mt.where(there, scores, largest) - largest).exp(), 0.0)
    weights = exponentials / exponentials.sum()
    return mt.einsum("n,nd->d", weights, X @ V), weights


def fused_others(X, Q, K, V, i):
    there = (mt.arange(len(X)) != i).unsqueeze(0)
    query, key, eye = X[i : i + 1] @ Q, X @ K, mt.eye(len(X), dtype=X.dtype)
    output = F.scaled_dot_product_attention(query, key, X @ V, attn_mask=there)
    return output[0], F.scaled_dot_product_attention(query, key, eye, attn_mask=there)[0]


right = {
    "from_others": [others_in_a_loop, others_cut_out, others_by_exponentials],
}
refused = {
    "from_others": [fused_others],
}
