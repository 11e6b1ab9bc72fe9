"""Answers to the exercises of ``linear_maps.py``."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

import minitorch as mt
from textbook.checks.chapter_00.linear_maps import (
    _matrix_cases,
    _network_cases,
    spectral_radius,
    training_flops,
)

# The cost of training


@training_flops.answer(hidden_cases=lambda draw: _network_cases(draw, length=8))
def training_flops(sizes, frozen, batch):
    """Widths, the number of frozen layers, and of examples -> the number of FLOPs."""
    costs = [2 * batch * n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    weights, inputs = costs[frozen:], costs[frozen + 1 :]
    return sum(costs) + sum(weights) + sum(inputs)


# The spectral radius


@spectral_radius.answer(
    hidden_cases=lambda draw: _matrix_cases(draw, more=[(11, 30)]),
    after_passing=("Exact, where the matrix is small: abs(np.linalg.eigvals(matrix)).max()."),
)
def spectral_radius(matrix, steps):
    """(n, n) and the number of steps -> a number."""
    v, logs = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        v = (v / v.norm()) @ matrix
        logs.append(math.log(v.norm().item()))
    second_half = logs[steps // 2 :]
    return math.exp(sum(second_half) / len(second_half))


# Right in another way


def spectral_radius_in_tensors(matrix, steps):
    v = mt.ones(matrix.shape[0], dtype=matrix.dtype)
    product = mt.tensor(1.0)
    for step in range(steps):
        v = v @ matrix
        factor = v.norm()
        v = v / factor
        if step >= steps // 2:
            product = product * factor ** (1 / (steps - steps // 2))
    return product


def spectral_radius_in_numpy(matrix, steps):
    matrix = matrix.numpy()
    v = np.ones(len(matrix)) / len(matrix) ** 0.5
    factors = np.empty(steps)
    for step in range(steps):
        v = matrix.T @ v
        factors[step] = np.sqrt((v**2).sum())
        v /= factors[step]
    return np.exp(np.log(factors[steps // 2 :]).mean(keepdims=True))


def spectral_radius_by_the_length_so_far(matrix, steps):
    """The logarithm of the length that v would have, halfway and at the end."""
    v, logs = mt.ones(len(matrix)).float(), [0.0]
    for _ in range(steps):
        product = (v / v.norm()) @ matrix
        logs.append(logs[-1] + product.norm().log().item())
        v = product
    return Decimal((logs[-1] - logs[steps // 2]) / (steps - steps // 2)).exp()


def flops_by_layer(sizes, frozen, batch):
    total = 0
    for layer in range(len(sizes) - 1):
        products = 1 + (layer >= frozen) + (layer > frozen)
        total += products * 2 * batch * sizes[layer] * sizes[layer + 1]
    return total


def flops_as_a_fraction(sizes, frozen, batch):
    return Fraction(flops_by_layer(sizes, frozen, batch), 1)


def flops_in_numpy(sizes, frozen, batch):
    parts = np.array(sizes[:-1], dtype=np.int64) * np.array(sizes[1:])
    return 2 * batch * (parts.sum() + parts[frozen:].sum() + parts[frozen + 1 :].sum())


right = {
    "training_flops": [flops_by_layer, flops_in_numpy, flops_as_a_fraction],
    "spectral_radius": [
        spectral_radius_in_tensors,
        spectral_radius_in_numpy,
        spectral_radius_by_the_length_so_far,
    ],
}
