"""Fused operations of neural networks: one node for what could be composed of several.

Each is tested to equal, in value and gradient, the composition in its docstring.
"""

import functools
import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module, blocks, constants, filled, float64, sum_of, wide
from minitorch.generator import numpy_generator
from minitorch.operations.indexing import picked


def polynomial(coefficients, x, out):
    """c_0 + c_1 x + c_2 x^2 + ..., by Horner's rule, written into ``out``."""
    xp = array_module(x)
    *lower, last = constants(xp, x.dtype, *coefficients)
    result = xp.multiply(x, last, out=out)
    for c in lower[:0:-1]:
        result += c
        result *= x
    result += lower[0]
    return result


# erf: NumPy has none. erf(x) / x is a smooth function of x^2, so on |x| <= limit a short series of
# Chebyshev polynomials in x^2, fitted to the values of math.erf, is exact to rounding; beyond the
# limit erf is 1 to rounding.
_ERF = {"f": (4.0, 15), "d": (6.0, 40), "e": (4.0, 15)}


@functools.cache
def _erf_series(typecode):
    limit, degree = _ERF[typecode]

    def ratio(t):
        roots = np.sqrt((t + 1) / 2) * limit
        return np.array([math.erf(r) / r if r else 2 / math.sqrt(math.pi) for r in roots])

    return limit, np.polynomial.chebyshev.chebinterpolate(ratio, degree).tolist()


def erf_array(x):
    """erf(x) for an array, to the accuracy of its type, by Clenshaw's recurrence."""
    xp = array_module(x)
    limit, coefficients = _erf_series(x.dtype.char)
    inside = xp.clip(x, -limit, limit)
    t = inside * inside * (4 / limit**2) - 2
    last, total = xp.zeros_like(x), xp.zeros_like(x)
    for c in coefficients[:0:-1]:
        last, total = total, t * total - last + c
    return inside * (t * total / 2 - last + coefficients[0])


# u with (1 + tanh(x u(x^2))) / 2 = Phi(x) to 1e-7: fitted to the values of math.erfc for x^2 <= 32;
# beyond, x u(x^2) is so large that its tanh is 1
NORMAL = (
    7.9788422e-1,
    3.633428e-2,
    -3.312783e-5,
    -5.5240742e-5,
    3.9691833e-6,
    -1.3345071e-7,
    1.8057081e-9,
)
APPROXIMATE_NORMAL = (math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715)


def _normal_cumulative(x, out):
    """Phi(x), the normal distribution function."""
    if x.dtype == float64.numpy:
        out[...] = 0.5 * (1 + erf_array(x / math.sqrt(2)))
    else:
        polynomial(NORMAL, x * x, out)
        out *= x
        _logistic_of_twice(out)


def _normal_density(x, _):
    """The derivative of Phi: exp(-x^2 / 2) / sqrt(2 pi)."""
    exponent = x * x
    exponent *= -0.5
    exponent -= 0.5 * math.log(2 * math.pi)
    return array_module(x).exp(exponent, out=exponent)


def _tanh_cumulative(x, out):
    """(1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), close to Phi(x)."""
    polynomial(APPROXIMATE_NORMAL, x * x, out)
    out *= x
    _logistic_of_twice(out)


def _tanh_density(x, cumulative):
    """The derivative of c = (1 + tanh u) / 2: 2 c (1 - c) du/dx."""
    scale, cubic = APPROXIMATE_NORMAL
    slope = x * x
    slope *= 6 * cubic
    slope += 2 * scale
    slope *= cumulative
    slope *= 1 - cumulative
    return slope


def _logistic_of_twice(u):
    """(1 + tanh u) / 2, in place."""
    xp = array_module(u)
    one, half = constants(xp, u.dtype, 1, 0.5)
    xp.tanh(u, out=u)
    u += one
    u *= half


GELU = {
    "none": (_normal_cumulative, _normal_density),
    "tanh": (_tanh_cumulative, _tanh_density),
}


@operation(promote="float")
def gelu(input, approximate="none"):
    """x Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel, 2016).

    ``approximate="tanh"`` takes (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 for Phi. The
    derivative is Phi(x) + x Phi'(x).
    """
    if approximate not in GELU:
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    cumulative_of, density_of = GELU[approximate]
    xp = array_module(input)
    result, cumulative = xp.empty_like(input), xp.empty_like(input)
    for x, y, c in blocks(input, result, cumulative):
        cumulative_of(x, c)
        xp.multiply(x, c, out=y)

    def vjp(g):
        toward_input = xp.empty_like(input)
        for x, c, slope in blocks(input, cumulative, toward_input):
            xp.multiply(x, density_of(x, c), out=slope)
            slope += c
        toward_input *= g
        return toward_input

    return result, vjp


def dropout_factors(like, p, rng):
    """0 with probability p, else 1 / (1 - p), for each element of an array."""
    xp = array_module(like)
    if p == 1:
        return xp.zeros(like.shape, dtype=like.dtype)
    factors = xp.asarray(rng.random(like.shape, dtype=np.float32) >= p, dtype=like.dtype)
    factors *= 1 / (1 - p)
    return factors


@operation()
def dropout(input, p, generator=None):
    """Elements zeroed with probability p, others divided by 1 - p (Srivastava et al., 2014)."""
    factors = dropout_factors(input, p, numpy_generator(generator))
    return input * factors, lambda g: g * factors


def sum_rows(values, positions, count):
    """(count, ...): row i is the sum of the rows of ``values`` whose position is i."""
    xp, width = array_module(values), math.prod(values.shape[1:])
    result = xp.zeros(count * width, dtype=values.dtype)
    elements = positions[:, None] * width + xp.arange(width)  # add.at is fast on one axis only
    xp.add.at(result, elements.reshape(-1), values.reshape(-1))
    return result.reshape(count, *values.shape[1:])


@operation()
def embedding(input, weight, padding_idx=None):
    """The rows of ``weight`` (V, d) at the indices ``input`` (...): (..., d).

    Equal to one_hot(input) @ weight. The row ``padding_idx`` gets no gradient.
    """
    if input.dtype.kind not in "iu":
        raise RuntimeError(f"embedding needs integer indices, got {input.dtype}")
    count = weight.shape[0]
    if input.size and not (0 <= input.min() and input.max() < count):
        raise IndexError(
            f"embedding has {count} rows, so indices must be 0 to {count - 1}; "
            f"got {int(input.min())} to {int(input.max())}"
        )
    tail = weight.shape[1:]

    def vjp(g):
        gradient = sum_rows(g.reshape(input.size, *tail), input.reshape(-1), count)
        if padding_idx is not None:
            gradient[padding_idx] = 0
        return gradient

    return picked(weight, input), (lambda g: None, vjp)


@operation(rows=True)
def layer_norm(input, axes, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last ``axes`` axes.

    Mean and variance (divided by the count) are taken over those axes for each position by itself
    (Ba, Kiros and Hinton, 2016). With x' the normalised x and g' = g * weight, the gradient is
    (g' - mean(g') - x' * mean(g' * x')) / sqrt(variance + eps).
    """
    xp, shape = array_module(input), input.shape
    size = math.prod(shape[-axes:])
    count = input.size // size if size else 0
    rows = wide(input.reshape(count, size))
    dtype = rows.dtype
    average = filled(xp, size, 1 / max(size, 1), dtype)  # BLAS sums fast: products with it
    normal = rows - rows.dot(average)[:, None]
    variance = (normal * normal).dot(average)
    scale = 1 / xp.sqrt(variance + eps)[:, None]
    normal *= scale
    flat_weight = None if weight is None else weight.reshape(1, size)
    result = normal.copy() if weight is None else normal * flat_weight
    if bias is not None:
        result += bias.reshape(1, size)

    def vjp(g):
        g = wide(g.reshape(count, size))
        ones = xp.ones(count, dtype=dtype)
        toward_bias = None if bias is None else (ones @ g).reshape(shape[-axes:])
        along, toward_weight = g * normal, None
        if weight is not None:
            toward_weight = (ones @ along).reshape(shape[-axes:])
            along *= flat_weight
            g = g * flat_weight
        toward_input = g - (g @ average)[:, None]
        along = xp.multiply(normal, (along @ average)[:, None], out=along)
        toward_input -= along
        toward_input *= scale
        return toward_input.reshape(shape), None, toward_weight, toward_bias

    return result.reshape(shape).astype(input.dtype, copy=False), vjp


@operation()
def cross_entropy(
    input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """-log softmax(input)[target], the negative log-likelihood of the target class.

    ``input`` (N, C) holds scores, ``target`` (N) classes. With label smoothing e, the target is
    class y with probability 1 - e and any of the C classes with e / C (Szegedy et al., 2016).
    ``weight`` (C) multiplies each class; "mean" divides by the sum of the weights of the targets
    that are not ``ignore_index``. The gradient of one row is softmax(input) - one_hot(target).
    """
    xp, kind, input = array_module(input), input.dtype, wide(input)
    classes = input.shape[1]
    valid = target != ignore_index
    rows, safe = xp.arange(len(target)), xp.where(valid, target, 0)
    if safe.size and not (0 <= safe.min() and safe.max() < classes):
        raise IndexError(
            f"cross_entropy has {classes} classes, so targets must be 0 to {classes - 1} "
            f"or ignore_index={ignore_index}; got {int(target.min())} to {int(target.max())}"
        )
    dtype, counted = input.dtype, valid.astype(input.dtype)
    class_weight = xp.ones(classes, dtype=dtype) if weight is None else weight
    row_weight = class_weight[safe] * counted
    hard, soft = (1 - label_smoothing) * row_weight, (label_smoothing / classes) * counted
    whole = hard + soft * sum_of(class_weight)
    shifted = input - input.max(axis=1, keepdims=True)
    losses = -hard * shifted[rows, safe]
    if label_smoothing:
        losses -= soft * (shifted @ class_weight)
    exponentials = xp.exp(shifted, out=shifted)
    total = sum_of(exponentials, 1)
    losses += whole * xp.log(total)
    losses[~valid] = 0
    mean_over = sum_of(row_weight) if reduction == "mean" else None

    def vjp(g):
        g = g if mean_over is None else g / mean_over
        gradient = exponentials * (g * whole / total)[:, None]
        gradient[rows, safe] -= g * hard
        if label_smoothing:
            gradient -= (g * soft)[:, None] * class_weight
        gradient[~valid] = 0
        return gradient

    if reduction != "none":
        losses = sum_of(losses)
    losses = losses if mean_over is None else losses / mean_over
    return losses.astype(kind, copy=False), (vjp,)
