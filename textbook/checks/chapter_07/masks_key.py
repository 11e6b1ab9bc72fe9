"""Answers to the exercises of ``masks.py``."""

import minitorch as mt
from textbook.checks.chapter_07.masks import _length_cases, _stack_cases, _window, chunk_mask, reach

# The last tokens of a batch


def steps_back(n):
    """(n, n): how many positions key j lies before query i."""
    positions = mt.arange(n)
    return positions.unsqueeze(1) - positions


def _hidden_length_cases(draw):
    yield from _length_cases(draw)
    yield mt.tensor([6, 2, 1, 4, 5]), 4, 6
    yield mt.tensor([7, 3]), 1, 7
    yield draw.integers(9, 3) + 1, 5, 9


@chunk_mask.answer(
    hidden_cases=_hidden_length_cases,
    after_passing="Shorter: a mask is a comparison of two aranges that broadcast. No loop, "
    "no tril.",
)
def chunk_mask(lengths, T, n):
    """Lengths (B), T and n give (B, 1, T, n) boolean: True where a query may look at a key."""
    positions = mt.arange(n)
    asking = positions[n - T :].unsqueeze(1)  # (T, 1)
    real = positions >= n - lengths.unsqueeze(1)  # (B, n)
    return (positions <= asking) & real[:, None, None]


# What a stack of masks reaches


def _hidden_stack_cases(draw):
    yield from _stack_cases(draw)
    yield ([_window(6)] * 4,)
    yield ([mt.zeros(4, 4, dtype=mt.bool), mt.ones(4, 4, dtype=mt.bool).triu()],)
    yield ([draw.normal(7, 7) > 1 for _ in range(2)],)
    yield ([draw.normal(6, 6) > 1.2 for _ in range(4)],)


@reach.answer(
    hidden_cases=_hidden_stack_cases,
    after_passing="Shorter: products of matrices of 0 and 1, asked > 0, find the ways in "
    "any graph.",
)
def reach(masks):
    """(n, n) boolean: True where output i of a stack with these masks depends on token j."""
    itself = mt.eye(len(masks[0])).bool()
    reached = itself
    for allowed in masks:
        ways = (allowed | itself).float() @ reached.float()  # how many tokens lie between
        reached = ways > 0
    return reached


# Right in another way


def chunk_in_a_loop(lengths, T, n):
    return mt.tensor(
        [
            [[[n - length <= j <= i for j in range(n)] for i in range(n - T, n)]]
            for length in lengths.tolist()
        ]
    )


def chunk_with_tril(lengths, T, n):
    real = mt.arange(n).flip(0) < lengths[:, None]
    return real[:, None, None].expand(-1, 1, T, -1).tril(n - T)


def chunk_by_a_product(lengths, T, n):
    """A product of matrices of float32, compared with 0."""
    real = mt.ge(mt.arange(n), n - lengths[:, None]).float().diag_embed()  # (B, n, n)
    return ((mt.ones(T, n).tril(n - T) @ real) > 0).unsqueeze(1)


def reach_by_walking(masks):
    """From each output back, layer by layer."""
    n = len(masks[0])
    rows = []
    for i in range(n):
        seen = {i}
        for allowed in reversed(masks):
            table = allowed.tolist()
            seen |= {j for k in seen for j in range(n) if table[k][j]}
        rows.append([j in seen for j in range(n)])
    return mt.tensor(rows)


def reach_with_einsum(masks):
    n = len(masks[0])
    ways = mt.eye(n)
    for allowed in reversed(masks):
        ways = mt.einsum("ik,kj->ij", ways, allowed.float() + mt.eye(n)).clamp(max=1)
    return ways.bool()


right = {
    "chunk_mask": [chunk_in_a_loop, chunk_with_tril, chunk_by_a_product],
    "reach": [reach_by_walking, reach_with_einsum],
}
