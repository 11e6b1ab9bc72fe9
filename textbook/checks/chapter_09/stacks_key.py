"""Answers to the exercises of ``stacks.py``."""

import functools
import itertools
import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_09.stacks import _stack_cases, _sum_cases, paths, shares_of_a_sum

# What a stack of attention layers amounts to


@paths.answer(
    hidden_cases=lambda draw: _stack_cases(draw, others=[(1, 1, 3, 2), (4, 2, 3, 4)]),
    after_passing="The list doubles with each layer, the stack does not: it adds up 2^L "
    "paths in L products.",
)
def paths(weights, values):
    """L tensors (B, n, n) and L matrices (d, d) give 2^L pairs A (B, n, n), V (d, d)."""
    eye = mt.eye(weights[0].shape[-1]).expand(*weights[0].shape)
    found = [(eye, mt.eye(len(values[0])))]  # the path that goes through no layer
    for weight, value in zip(weights, values, strict=True):
        found += [(weight @ A, V @ value) for A, V in found]
    return found


# What is left of the input of a sum


@shares_of_a_sum.answer(
    hidden_cases=lambda draw: _sum_cases(draw, more=[(96, 0.25), (7, 2.0), (3, 0.1), (1000, 1)])
)
def shares_of_a_sum(parts, a):
    """What is left of the input, and what the last part adds, in pre-norm and post-norm: a dict."""
    size = (1 + parts * a**2) ** 0.5
    return {
        "size of the sum, pre-norm": size,
        "input, pre-norm": 1 / size,
        "last part, pre-norm": a / size,
        "input, post-norm": (1 + a**2) ** (-parts / 2),
        "last part, post-norm": a / (1 + a**2) ** 0.5,
    }


# Right in another way


def shares_step_by_step(parts, a):
    square, left = 1.0, 1.0
    for _ in range(parts):
        square += a * a
        left /= math.hypot(1, a)
    size = math.sqrt(square)
    return {
        "last part, post-norm": a / math.hypot(1, a),
        "last part, pre-norm": a / size,
        "input, post-norm": left,
        "input, pre-norm": 1 / size,
        "size of the sum, pre-norm": size,
    }


def shares_with_numpy(parts, a):
    size = np.sqrt(1 + parts * np.float64(a) ** 2)
    shrink = 1 / np.sqrt(1 + np.float64(a) ** 2)
    return {
        "size of the sum, pre-norm": size,
        "input, pre-norm": 1 / size,
        "last part, pre-norm": a / size,
        "input, post-norm": shrink**parts,
        "last part, post-norm": mt.tensor(a * shrink, dtype=mt.float64),
    }


def paths_by_bits(weights, values):
    L = len(weights)
    found = []
    for k in range(2**L):
        A = mt.stack([mt.eye(weights[0].shape[-1])] * len(weights[0]))
        V = mt.eye(len(values[0]))
        for layer in range(L):
            if k // 2**layer % 2:
                A, V = mt.bmm(weights[layer], A), V.matmul(values[layer])
        found.append([A, V])
    return tuple(found)


def paths_by_recursion(weights, values):
    if not weights:
        raise ValueError("at least one layer")
    if len(weights) == 1:
        n, d = weights[0].shape[-1], len(values[0])
        before = [(mt.eye(n).expand(*weights[0].shape), mt.eye(d))]
    else:
        before = paths_by_recursion(weights[:-1], values[:-1])
    return before + [(weights[-1] @ A, V @ values[-1]) for A, V in before]


def paths_in_numpy(weights, values):
    W, M = [w.numpy() for w in weights], [v.numpy() for v in values]
    batch, n, _ = W[0].shape
    found = []
    for bits in itertools.product([0, 1], repeat=len(W)):
        through = [i for i, bit in enumerate(bits[::-1]) if bit]
        A = functools.reduce(lambda A, i: W[i] @ A, through, np.tile(np.eye(n), (batch, 1, 1)))
        V = functools.reduce(lambda V, i: V @ M[i], through, np.eye(len(M[0])))
        found.append((mt.tensor(A), mt.tensor(V)))
    return found


right = {
    "shares_of_a_sum": [shares_step_by_step, shares_with_numpy],
    "paths": [paths_by_bits, paths_by_recursion, paths_in_numpy],
}
