"""Answers to the exercises of ``matrices.py``."""

import itertools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_06.matrices import (
    _cost_cases,
    _loop_cases,
    attention_cost,
    heads_in_a_loop,
)

# One head after the other


def _in_turn(heads):
    """The first column of each head, then the second of each, as long as there are any."""
    turns = itertools.zip_longest(*(head.unbind(-1) for head in heads))
    return mt.stack([column for turn in turns for column in turn if column is not None], dim=-1)


@heads_in_a_loop.answer(
    hidden_cases=lambda draw: _loop_cases(
        draw,
        others=[(2, 4, 7, [(3, 2), (1, 5)], 4), (3, 3, 4, [(2, 4)], 5), (2, 5, 4, [(2, 1)] * 4, 4)],
    ),
    after_passing=(
        "Faster where all heads have one size: their matrices side by side make one product of h, "
        "and heads are an axis (exercise 5)."
    ),
)
def heads_in_a_loop(X, Q, K, V, W_O):
    """X (B, n, d), lists of matrices (d, own size), W_O (all values, m) give (B, n, m)."""
    heads = []
    for query, key, value in zip(Q, K, V, strict=True):
        scores = (X @ query) @ (X @ key).transpose(1, 2)  # (B, n, n)
        weights = (scores / query.shape[1] ** 0.5).softmax(dim=-1)
        heads.append(weights @ (X @ value))  # (B, n, size of its values)
    return mt.cat(heads, dim=-1) @ W_O


# What heads cost


@attention_cost.answer(
    hidden_cases=lambda draw: _cost_cases(
        draw,
        more=[
            (128, 128, 512, 8, 2),
            (9, 4, 60, 10, 5),
            (1, 1000, 768, 12, 1),
            (100_003, 1_000_003, 16_384, 128, 8),
        ],
    ),
    after_passing=(
        "Shorter: with r = groups / heads there are 2 d^2 (1 + r) weights, and "
        "4 d (T d + r n d + T n) FLOPs."
    ),
)
def attention_cost(T, n, d, heads, groups):
    """The numbers of weights, FLOPs, scores and numbers kept of the memory: a dict."""
    size = d // heads
    of_keys = groups * size  # columns of all keys, and of all values
    projections = 2 * T * d * d + 2 * (2 * n * d * of_keys) + 2 * T * d * d
    in_a_head = 2 * (2 * T * n * size)  # scores, weighted values
    return {
        "weights": 2 * d * d + 2 * d * of_keys,
        "FLOPs": projections + heads * in_a_head,
        "scores": heads * T * n,
        "kept": 2 * n * of_keys,
    }


# Right in another way


def loop_over_query_positions(X, Q, K, V, W_O):
    outputs = []
    for i in range(X.shape[1]):
        heads = []
        for query, key, value in zip(Q, K, V, strict=True):
            scores = ((X[:, i] @ query).unsqueeze(1) * (X @ key)).sum(-1) / math.sqrt(len(query.T))
            weights = scores.softmax(-1).unsqueeze(-1)  # (B, n, 1)
            heads.append((weights * (X @ value)).sum(1))
        outputs.append(mt.cat(heads, -1) @ W_O)
    return mt.stack(outputs, dim=1)


def loop_that_adds_projected_heads(X, Q, K, V, W_O):
    total, sizes = 0, [value.shape[1] for value in V]
    for query, key, value, out in zip(Q, K, V, W_O.split(sizes), strict=True):
        scores = X @ (query @ key.T / query.shape[1] ** 0.5) @ X.mT
        total = total + scores.softmax(-1) @ X @ (value @ out)
    return total


def loop_that_subtracts_the_largest(X, Q, K, V, W_O):
    heads = []
    for q, k, v in zip(Q, K, V, strict=True):
        scores = mt.einsum("bis,bjs->bij", X @ q, X @ k) / math.sqrt(k.size(1))
        exponentials = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        heads.append(exponentials @ (X @ v) / exponentials.sum(-1, keepdim=True))
    return mt.cat(heads, 2).matmul(W_O)


def fused_loop(X, Q, K, V, W_O):
    heads = [
        F.scaled_dot_product_attention(X @ q, X @ k, X @ v) for q, k, v in zip(Q, K, V, strict=True)
    ]
    return mt.cat(heads, dim=-1) @ W_O


def loop_with_linear(X, Q, K, V, W_O):
    heads = [
        (F.linear(X, q.T) @ (X @ k).mT / q.shape[1] ** 0.5).softmax(-1) @ (X @ v)
        for q, k, v in zip(Q, K, V, strict=True)
    ]
    return F.linear(mt.cat(heads, dim=-1), W_O.T)


def cost_matrix_by_matrix(T, n, d, heads, groups):
    size, flops, weights, scores = d // heads, 0, 0, 0
    for rows, count in ((T, heads), (n, groups), (n, groups)):
        for _ in range(count):
            weights += d * size
            flops += 2 * rows * d * size
    for _ in range(heads):
        flops += 2 * T * size * n + 2 * T * n * size
        scores += T * n
    flops += 2 * T * d * d
    return dict(
        kept=groups * (n * size + n * size), scores=scores, FLOPs=flops, weights=weights + d * d
    )


def cost_in_numpy(T, n, d, heads, groups):
    """Numbers of NumPy."""
    T, n, d, heads, groups = np.array([T, n, d, heads, groups], dtype=np.int64)
    narrow = d * groups // heads
    return {
        "weights": 2 * d * (d + narrow),
        "FLOPs": 4 * d * (T * d + n * narrow + T * n),
        "scores": heads * T * n,
        "kept": 2 * n * narrow,
    }


right = {
    "attention_cost": [cost_matrix_by_matrix, cost_in_numpy],
    "heads_in_a_loop": [
        loop_over_query_positions,
        loop_that_adds_projected_heads,
        loop_that_subtracts_the_largest,
    ],
}
refused = {
    "heads_in_a_loop": [fused_loop, loop_with_linear],
}
