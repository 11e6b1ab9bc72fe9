"""The cost of training, and the powers of a matrix."""

import math
import statistics

import numpy as np

import minitorch as mt
from textbook.checks.compare import number
from textbook.checks.exercise import exercise

# The cost of training


def _network_cases(draw, hidden):
    yield [3, 2], 0, 1
    yield [3, 2], 1, 5
    for frozen in range(4):
        yield [2, 32, 31, 3], frozen, 64
    sizes = [int(n) for n in draw.random.integers(1, 50, size=5 + 3 * hidden)]
    yield sizes, 2, 7
    yield sizes, len(sizes) - 2, 3
    yield [4095, 16383, 50257], 1, 511


def _parts(sizes, batch):
    """The cost of the product of each layer."""
    return [2 * batch * n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]


def _flops(
    cost=_parts,
    forward=lambda costs, frozen: sum(costs),
    weights=lambda costs, frozen: sum(costs[frozen:]),
    inputs=lambda costs, frozen: sum(costs[frozen + 1 :]),
):
    """The count with one of its pieces exchanged."""

    def flops(sizes, frozen, batch):
        costs = cost(sizes, batch)
        return forward(costs, frozen) + weights(costs, frozen) + inputs(costs, frozen)

    return flops


def _by_layers(check, answer, sizes, frozen, batch):
    """How many products are counted in each layer: sizes so far apart that the digits tell."""
    if number(answer(sizes, frozen, batch)) == check.reference(sizes, frozen, batch):
        return None
    frozen = 3 if frozen >= len(sizes) - 1 else min(frozen, 2)  # all of them, or not all
    count = number(answer([1, 10**3, 10**6, 10**9], frozen, 1))
    if type(count) is not int:
        return None
    found = [count // (2 * 10**power) % 10**6 for power in (3, 9, 15)]
    right = [1 + (i >= frozen) + (i > frozen) for i in range(3)]
    if found == right or count != sum(
        2 * n * 10**p for n, p in zip(found, (3, 9, 15), strict=True)
    ):
        return None
    return (
        f"In a network of three layers, the first {frozen} of them frozen, you count "
        f"{found} products: forward, gradient of the weight, gradient of the input. Which of them "
        f"are needed? (It is {right}.)"
    )


@exercise(cases=_network_cases, reasons=(_by_layers,), see='chapter 00, "Counting the cost"')
def training_flops(sizes, frozen, batch):
    """Widths, the number of frozen layers, and of examples -> the number of FLOPs."""
    costs = [2 * batch * n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    weights, inputs = costs[frozen:], costs[frozen + 1 :]
    return sum(costs) + sum(weights) + sum(inputs)


training_flops.wrong(
    "the count of the forward pass alone",
    "Backward, a layer makes products too: one for its weights, one for its input.",
)(_flops(weights=lambda costs, frozen: 0, inputs=lambda costs, frozen: 0))
training_flops.wrong(
    "the count of the backward pass alone",
    "A step begins with the forward pass, through all layers.",
)(_flops(forward=lambda costs, frozen: 0))
training_flops.wrong(
    "the count with an input gradient for the first layer that is trained too",
    "Below that layer nobody needs a gradient, so it has two products and not three.",
)(_flops(inputs=lambda costs, frozen: sum(costs[frozen:])))
training_flops.wrong(
    "the count with all layers trained",
    "The first `frozen` layers need no gradient of their weights, and nothing below them either.",
)(
    _flops(
        weights=lambda costs, frozen: sum(costs),
        inputs=lambda costs, frozen: sum(costs[1:]),
    )
)
training_flops.wrong(
    "right but for gradients that are sent down through the frozen layers",
    "Below the first layer that is trained nobody needs a gradient: the way back ends there.",
)(_flops(inputs=lambda costs, frozen: sum(costs[1:])))
training_flops.wrong(
    "the count with one frozen layer too many",
    "Layer number `frozen`, counted from 0, is the first that is trained.",
)(
    _flops(
        weights=lambda costs, frozen: sum(costs[frozen + 1 :]),
        inputs=lambda costs, frozen: sum(costs[frozen + 2 :]),
    )
)
training_flops.wrong(
    "the count with one frozen layer too few",
    "Layer number `frozen`, counted from 0, is the first that is trained.",
)(
    _flops(
        weights=lambda costs, frozen: sum(costs[max(frozen - 1, 0) :]),
        inputs=lambda costs, frozen: sum(costs[max(frozen, 1) :]),
    )
)
training_flops.wrong(
    "right where no layer is frozen; else with an input gradient for the first trained layer",
    "Below the first layer that is trained nobody needs a gradient, frozen layers included.",
)(_flops(inputs=lambda costs, frozen: sum(costs[max(frozen, 1) :])))
training_flops.wrong(
    "the count in which frozen layers cost nothing at all",
    "Their forward pass is needed: what is above reads their output.",
)(_flops(forward=lambda costs, frozen: sum(costs[frozen:])))
training_flops.wrong(
    "the count with the last layers frozen",
    "It is the first ones that are frozen; the last ones are trained.",
)(
    _flops(
        weights=lambda costs, frozen: sum(costs[: len(costs) - frozen]),
        inputs=lambda costs, frozen: sum(costs[1:]),
    )
)
training_flops.wrong(
    "half of it: you count a multiplication with its addition as one",
    "Each multiplication comes with an addition: 2 n k m operations.",
)(_flops(cost=lambda sizes, batch: [part // 2 for part in _parts(sizes, batch)]))
training_flops.wrong("the count for one example", "Every product has a row for each example.")(
    _flops(cost=lambda sizes, batch: _parts(sizes, 1))
)
training_flops.wrong(
    "the count without the gradients of the layers' inputs",
    "A layer above the first trained one hands its input's gradient on: one more product.",
)(_flops(inputs=lambda costs, frozen: 0))
training_flops.wrong(
    "the count without the gradients of the weights",
    "A layer that is trained needs the gradient of its weights: one more product.",
)(_flops(weights=lambda costs, frozen: 0))
training_flops.wrong(
    "the count with biases",
    "Matrix products alone: leave biases out.",
)(
    _flops(
        cost=lambda sizes, batch: [
            2 * batch * (n + 1) * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]
    )
)


# The spectral radius


def _matrix_cases(draw, hidden):
    yield mt.tensor([[2.0, 1.0], [0.0, -3.0]], dtype=mt.float64), 3
    yield mt.tensor([[0.0, 4.0], [-1.0, 0.0]], dtype=mt.float64), 5  # turns; its radius is 2
    for size, steps in [(2, 2), (3, 4), (5, 20)] + [(11, 30)] * hidden:
        yield draw.normal(size, size), steps
    yield 1000 * mt.eye(3, dtype=mt.float64) + 100 * draw.normal(3, 3), 120


def _power_iteration(matrix, steps, length=lambda v: v.norm()):
    """The factor of each step, and the last two vectors."""
    v, factors = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        before = v / length(v)
        v = before @ matrix
        factors.append(length(v).item())
    return factors, before, v


def _geometric_mean(factors):
    return math.exp(sum(map(math.log, factors)) / len(factors))


def _estimate(
    mean=_geometric_mean,
    chosen=lambda factors: factors[len(factors) // 2 :],
    length=lambda v: v.norm(),
):
    """The estimate with another mean or length, or of other factors."""
    return lambda matrix, steps: mean(chosen(_power_iteration(matrix, steps, length)[0]))


@exercise(cases=_matrix_cases, gradients=False, see='chapter 00, "The same matrix again and again"')
def spectral_radius(matrix, steps):
    """(n, n) and the number of steps -> a number."""
    v, logs = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        v = (v / v.norm()) @ matrix
        logs.append(math.log(v.norm().item()))
    second_half = logs[steps // 2 :]
    return math.exp(sum(second_half) / len(second_half))


@spectral_radius.wrong(
    "the iteration without bringing the vector back to length 1",
    "After some hundred steps the vector is too large for a floating-point number. Divide it by "
    "its length before each product.",
)
def _(matrix, steps):
    v, lengths = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps + 1):
        lengths.append(v.norm())
        v = v @ matrix
    return (lengths[steps] / lengths[steps // 2]) ** (1 / (steps - steps // 2))


@spectral_radius.wrong(
    "the mean factor of all steps, by way of the length of the last vector",
    "That length is soon too large for a floating-point number: divide by the length in each step. "
    "And leave out the first half of the factors.",
)
def _(matrix, steps):
    v = mt.ones(len(matrix), dtype=matrix.dtype)
    for _ in range(steps):
        v = v @ matrix
    return (v.norm().item() / math.sqrt(len(v))) ** (1 / steps)


spectral_radius.wrong(
    "right but for the root: the factors of half of the steps, but the number of all steps",
    "Of m factors take the m-th root.",
)(
    _estimate(
        chosen=lambda factors: factors,
        mean=lambda factors: math.exp(
            sum(map(math.log, factors[len(factors) // 2 :])) / len(factors)
        ),
    )
)


@spectral_radius.wrong(
    "the lengths of the vectors, which are never divided by them",
    "A factor tells by how much a step stretches a vector of length 1: divide v by its length "
    "before each product.",
)
def _(matrix, steps):
    v, lengths = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        v = v @ matrix
        lengths.append(v.norm().item())
    return _geometric_mean(lengths[steps // 2 :])


spectral_radius.wrong(
    "the factor of the last step alone",
    "Where the largest eigenvalues are two complex ones, as is usual for a random matrix, the "
    "vector goes on turning and the factor swings for ever. Its mean over many steps settles.",
)(_estimate(chosen=lambda factors: factors[-1:]))
spectral_radius.wrong(
    "the iteration with the sum of absolute values for the length",
    "The length of a vector is the root of the sum of its squares: v.norm().",
)(_estimate(length=lambda v: v.abs().sum()))
spectral_radius.wrong(
    "the iteration with the largest absolute value for the length",
    "The length of a vector is the root of the sum of its squares: v.norm().",
)(_estimate(length=lambda v: v.abs().max()))
spectral_radius.wrong(
    "the iteration with the sum of squares for the length",
    "The root is missing: v.norm().",
)(_estimate(length=lambda v: (v * v).sum()))
spectral_radius.wrong(
    "the smallest factor of the second half",
    "Factors swing; what counts is their geometric mean.",
)(_estimate(mean=min))
spectral_radius.wrong(
    "the median factor of the second half",
    "Factors are multiplied: what counts is their geometric mean.",
)(_estimate(mean=statistics.median))
spectral_radius.wrong(
    "the largest factor of the second half",
    "Factors swing; what counts is their geometric mean.",
)(_estimate(mean=max))
spectral_radius.wrong(
    "the mean factor of all steps",
    "The first steps are far from what the vector becomes: leave out the first half.",
)(_estimate(chosen=lambda factors: factors))
spectral_radius.wrong(
    "the mean factor of the first half of the steps",
    "The first steps are far from what the vector becomes: take the second half.",
)(_estimate(chosen=lambda factors: factors[: (len(factors) + 1) // 2]))
spectral_radius.wrong(
    "right for an even number of steps; of an odd number it leaves out the one in the middle",
    "Leave out the first steps // 2 factors, and no more.",
)(_estimate(chosen=lambda factors: factors[(len(factors) + 1) // 2 :]))
spectral_radius.wrong(
    "the arithmetic mean of the factors",
    "Factors are multiplied, so the one that would do the same at each step is their geometric "
    "mean: exp of the mean of their logarithms.",
)(_estimate(mean=lambda factors: sum(factors) / len(factors)))
spectral_radius.wrong(
    "the factor by which the second half of the steps together lengthens the vector",
    "What a single step does on the average is a root of that.",
)(_estimate(mean=math.prod))
spectral_radius.wrong(
    "the factor by which all steps together lengthen the vector",
    "What a single step of the second half does on the average is a root of what that half does.",
)(_estimate(mean=math.prod, chosen=lambda factors: factors))
spectral_radius.wrong(
    "the mean of the factors' logarithms",
    "The exponential is missing.",
)(_estimate(mean=lambda factors: math.log(_geometric_mean(factors))))


@spectral_radius.wrong(
    "an estimate of the eigenvalue with its sign",
    "The spectral radius is a size: the length of the product, not its dot product with v.",
)
def _(matrix, steps):
    _, before, v = _power_iteration(matrix, steps)
    return (before @ v).item()


@spectral_radius.wrong(
    "the iteration with the matrix on the left",
    "The book's vectors are rows: v @ matrix. (The limit is the same, the steps are not.)",
)
def _(matrix, steps):
    return spectral_radius.reference(matrix.T, steps)


@spectral_radius.wrong(
    "the largest absolute value among the eigenvalues",
    "That is what the estimate tends to. Here the steps themselves are asked for, since a large "
    "matrix has no eigenvalues to be had cheaply.",
)
def _(matrix, steps):
    return np.abs(np.linalg.eigvals(matrix.numpy())).max()


@spectral_radius.wrong(
    "the norm of the matrix, by which it stretches what it stretches most",
    "That is its largest singular value. Apply the matrix again and again.",
)
def _(matrix, steps):
    return np.linalg.norm(matrix.numpy(), 2)


@spectral_radius.wrong("the iteration with one step too many", "Make `steps` products.")
def _(matrix, steps):
    return spectral_radius.reference(matrix, steps + 1)


@spectral_radius.wrong(
    "the iteration with one step too few", "Make `steps` products, the last one included."
)
def _(matrix, steps):
    return spectral_radius.reference(matrix, steps - 1)
