"""The cost, the gradients and the powers of linear maps; rotations."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise

# The cost of training


def _network_cases(draw, hidden):
    yield [3, 2], 1
    yield [2, 32, 32, 3], 64
    yield [int(n) for n in draw.random.integers(1, 50, size=4 + 3 * hidden)], 7


def _forward_flops(sizes, batch):
    return sum(2 * batch * n * m for n, m in zip(sizes, sizes[1:], strict=False))


@exercise(cases=_network_cases, see='chapter 00, "Counting the cost"')
def training_flops(sizes, batch):
    """A list of widths and the number of examples -> the number of FLOPs."""
    forward = [2 * batch * n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    return 3 * sum(forward) - forward[0]


@training_flops.wrong(
    "the count of the forward pass alone",
    "Backward, a layer makes products too: one for its weights, one for its input.",
)
def _(sizes, batch):
    return _forward_flops(sizes, batch)


@training_flops.wrong(
    "the count with an input gradient for the first layer too",
    "Nobody needs the gradient of the data, so the first layer has two products and not three.",
)
def _(sizes, batch):
    return 3 * _forward_flops(sizes, batch)


@training_flops.wrong(
    "half of it: you count a multiplication with its addition as one",
    "Each multiplication comes with an addition: 2 n k m operations.",
)
def _(sizes, batch):
    return training_flops.reference(sizes, batch) // 2


@training_flops.wrong("the count for one example", "Every product has a row for each example.")
def _(sizes, batch):
    return training_flops.reference(sizes, 1)


@training_flops.wrong(
    "the count with one backward product a layer",
    "The weights need one and the input needs one (except the first layer's).",
)
def _(sizes, batch):
    return 2 * _forward_flops(sizes, batch)


# Rotations


def _rotation_cases(draw, hidden):
    for shape in [(4,), (2, 4), (2, 3, 6)] + [(2, 1, 3, 10)] * hidden:
        yield draw.normal(*shape), draw.normal(shape[-1] // 2)


def _lengths_kept(answer, x, angles):
    turned = answer(x, angles)
    if not mt.allclose((turned**2).sum(dim=-1), (x**2).sum(dim=-1)):
        return "A rotation keeps the length of a vector; yours does not."


def _turned(x, angles):
    """The first and the second coordinates of all pairs after the rotation."""
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return first * cos - second * sin, first * sin + second * cos


def _interleaved(first, second):
    return mt.stack([first, second], dim=-1).flatten(-2)


@exercise(
    cases=_rotation_cases,
    properties=(_lengths_kept,),
    gradients=False,
    see='chapter 00, "Rotations keep lengths"',
)
def rotate_pairs(x, angles):
    """(..., d) vectors and (d / 2) angles -> (..., d)."""
    cos, sin = mt.cos(angles), mt.sin(angles)  # (d / 2)
    first, second = x[..., 0::2], x[..., 1::2]  # (..., d / 2)
    turned = [first * cos - second * sin, first * sin + second * cos]
    return mt.stack(turned, dim=-1).reshape(x.shape)  # (..., d / 2, 2) -> (..., d)


@rotate_pairs.wrong(
    "the rotation by the opposite angle", "Look where the minus stands: row vectors, x R(theta)."
)
def _(x, angles):
    return _interleaved(*_turned(x, -angles))


@rotate_pairs.wrong(
    "a rotation that pairs each coordinate of the first half with one of the second half",
    "The pairs are neighbors: 0 with 1, 2 with 3. Slices with step 2 pick them, x[..., 0::2].",
)
def _(x, angles):
    half = x.shape[-1] // 2
    pairs = _interleaved(x[..., :half], x[..., half:])
    return mt.cat(_turned(pairs, angles), dim=-1)


@rotate_pairs.wrong(
    "right, but in another order: first all first coordinates, then all second ones",
    "Put the coordinates back where they came from: stack on a new last axis and flatten it.",
)
def _(x, angles):
    return mt.cat(_turned(x, angles), dim=-1)


@rotate_pairs.wrong("the rotation of all pairs by the first angle", "Pair j turns by angles[j].")
def _(x, angles):
    return _interleaved(*_turned(x, angles[0]))


@rotate_pairs.wrong(
    "a map with a plus in place of the minus", "R has one minus sign; without it lengths change."
)
def _(x, angles):
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return _interleaved(first * cos + second * sin, first * sin + second * cos)


@rotate_pairs.wrong("the rotation with sine and cosine exchanged", "At angle 0 nothing may move.")
def _(x, angles):
    return _interleaved(*_turned(x, math.pi / 2 - angles))


# The gradients of an affine map


def _affine_cases(draw, hidden):
    for leading in [(3,), (2, 4)] + [(2, 1, 3)] * hidden:
        yield draw.normal(*leading, 2), draw.normal(2, 5), draw.normal(*leading, 5)
    yield draw.normal(4, 3), draw.normal(3, 3), draw.normal(4, 3)


def _affine_gradients(x, weight, g):
    rows, flat = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
    return g @ weight.T, rows.T @ flat, flat.sum(dim=0)


@exercise(
    cases=_affine_cases,
    gradients=False,
    forbidden=("backward",),
    instead="two matrix products and a sum",
    see='chapter 00, "From numbers to arrays"',
)
def affine_gradients(x, weight, g):
    """(..., k), (k, m), (..., m) -> gradients of shape (..., k), (k, m) and (m)."""
    k, m = weight.shape
    rows, row_gradients = x.reshape(-1, k), g.reshape(-1, m)  # all leading axes as one
    return g @ weight.T, rows.T @ row_gradients, row_gradients.sum(dim=0)


@affine_gradients.wrong(
    "right but for the bias, whose gradient you average",
    "The bias was added to each row, so its gradient is the sum over the rows.",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight, toward_bias / g[..., 0].numel()


@affine_gradients.wrong(
    "right but for the weight, whose gradient you average over the rows",
    "The rows' shares are added; a mean belongs into the loss, not here.",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight / g[..., 0].numel(), toward_bias


@affine_gradients.wrong(
    "right but for the weight, whose gradient comes out transposed",
    "A gradient has the shape of what it belongs to: (k, m).",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight.T, toward_bias


@affine_gradients.wrong(
    "right but for the bias, whose gradient keeps leading axes",
    "The bias has shape (m): sum over all axes but the last.",
)
def _(x, weight, g):
    toward_x, toward_weight, _ = _affine_gradients(x, weight, g)
    return toward_x, toward_weight, g.sum(dim=0)


@affine_gradients.wrong(
    "right but for the weight, which gets a gradient for each matrix of the batch",
    "One weight serves the whole batch, so its gradient is the sum over the batch. Fold the "
    "leading axes into one first: x.reshape(-1, k).",
)
def _(x, weight, g):
    toward_x, _, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, x.mT @ g, toward_bias


# The spectral radius


def _matrix_cases(draw, hidden):
    yield mt.tensor([[2.0, 1.0], [0.0, -3.0]], dtype=mt.float64), 3
    yield mt.tensor([[0.0, 4.0], [-1.0, 0.0]], dtype=mt.float64), 5  # turns; its radius is 2
    for size, steps in [(2, 2), (3, 4), (5, 20)] + [(11, 30)] * hidden:
        yield draw.normal(size, size), steps
    yield 20 * mt.eye(4, dtype=mt.float64) + draw.normal(4, 4), 400


def _power_iteration(matrix, steps):
    """The factor of each step, and the last two vectors."""
    v, factors = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        before = v / v.norm()
        v = before @ matrix
        factors.append(v.norm().item())
    return factors, before, v


def _geometric_mean(factors):
    return math.exp(sum(map(math.log, factors)) / len(factors))


def _estimate(mean=_geometric_mean, chosen=lambda factors: factors[len(factors) // 2 :]):
    """The estimate with another mean, or of other factors."""
    return lambda matrix, steps: mean(chosen(_power_iteration(matrix, steps)[0]))


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


spectral_radius.wrong(
    "the factor of the last step alone",
    "Where the largest eigenvalues are two complex ones, as is usual for a random matrix, the "
    "vector goes on turning and the factor swings for ever. Its mean over many steps settles.",
)(_estimate(chosen=lambda factors: factors[-1:]))
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
    "It leaves out the first steps // 2 factors, and no more.",
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
    "the iteration with one step too few", "Make `steps` products, the last one included."
)
def _(matrix, steps):
    return spectral_radius.reference(matrix, steps - 1)
