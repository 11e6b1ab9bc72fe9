"""Heads as lists of matrices, and what they cost."""

import itertools

import minitorch as mt
from textbook.checks.exercise import exercise

# One head after the other


def _loop_cases(draw, others=()):
    """B, n, d, the sizes of keys and values of each head, and the size of the outputs."""
    cases = others or [(1, 3, 4, [(2, 2), (2, 2)], 4), (2, 3, 5, [(1, 3), (4, 2), (2, 1)], 6)]
    for batch, n, d, sizes, out in cases:
        X = draw.normal(batch, n, d)
        Q, K = ([draw.normal(d, size) for size, _ in sizes] for _ in "QK")
        V = [draw.normal(d, size) for _, size in sizes]
        yield X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)
        if n == 3:
            yield 40 * X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)


def _in_turn(heads):
    """The first column of each head, then the second of each, as long as there are any."""
    turns = itertools.zip_longest(*(head.unbind(-1) for head in heads))
    return mt.stack([column for turn in turns for column in turn if column is not None], dim=-1)


@exercise(
    cases=_loop_cases,
    hidden_cases=lambda draw: _loop_cases(
        draw,
        others=[(2, 4, 7, [(3, 2), (1, 5)], 4), (3, 3, 4, [(2, 4)], 5), (2, 5, 4, [(2, 1)] * 4, 4)],
    ),
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose, softmax and mt.cat",
    see='chapter 06, "Heads in a loop"',
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


def _cost_cases(draw, more=()):
    yield from [(1, 1, 4, 2, 1), (2, 3, 4, 2, 2), (5, 6, 24, 6, 2), (3, 7, 12, 4, 4)]
    yield from more


@exercise(
    cases=_cost_cases,
    hidden_cases=lambda draw: _cost_cases(
        draw,
        more=[
            (128, 128, 512, 8, 2),
            (9, 4, 60, 10, 5),
            (1, 1000, 768, 12, 1),
            (100_003, 1_000_003, 16_384, 128, 8),
        ],
    ),
    gradients=False,
    see='chapter 06, "What heads cost"',
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
