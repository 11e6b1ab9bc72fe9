"""The cost of training, and the powers of a matrix."""

import minitorch as mt
from textbook.checks.compare import number
from textbook.checks.released import exercise

# The cost of training


def _network_cases(draw, length=5):
    yield [3, 2], 0, 1
    yield [3, 2], 1, 5
    for frozen in range(4):
        yield [2, 32, 31, 3], frozen, 64
    sizes = [int(n) for n in draw.random.integers(1, 50, size=length)]
    yield sizes, 2, 7
    yield sizes, len(sizes) - 2, 3
    yield [4095, 16383, 50257], 1, 511


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
    if (
        found == right
        or max(found) > 9
        or count != sum(2 * n * 10**p for n, p in zip(found, (3, 9, 15), strict=True))
    ):
        return None
    return (
        f"In a network of three layers, the first {frozen} of them frozen, you count {found[0]} "
        f"products in layer 1, {found[1]} in layer 2 and {found[2]} in layer 3; needed are "
        f"{right[0]}, {right[1]} and {right[2]}. Forward is one in each layer. Which layers also "
        "need the gradient of their weight, and which that of their input?"
    )


training_flops = exercise(
    "training_flops",
    cases=_network_cases,
    reasons=(_by_layers,),
    see='chapter 00, "Counting the cost"',
)


# The spectral radius


def _matrix_cases(draw, more=()):
    yield mt.tensor([[2.0, 1.0], [0.0, -3.0]], dtype=mt.float64), 3
    yield mt.tensor([[0.0, 4.0], [-1.0, 0.0]], dtype=mt.float64), 5  # turns; its radius is 2
    for size, steps in [(2, 2), (3, 4), (5, 20), *more]:
        yield draw.normal(size, size), steps
    yield 1000 * mt.eye(3, dtype=mt.float64) + 100 * draw.normal(3, 3), 120
    yield 1000 * mt.eye(2, dtype=mt.float64) + 100 * draw.normal(2, 2), 240


spectral_radius = exercise(
    "spectral_radius",
    cases=_matrix_cases,
    gradients=False,
    see='chapter 00, "The same matrix again and again"',
)
