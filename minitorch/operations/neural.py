"""Fused operations of neural networks: one node for what could be composed of several.

Each is tested to equal, in value and gradient, the composition in its docstring.
"""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module, float64
from minitorch.generator import numpy_generator
from minitorch.operations.elementwise import erf_array

# Elements that are computed together: with their intermediate results they fit a core's cache.
BLOCK = 1 << 15


def blockwise(function, x):
    """``function(x)``, two arrays computed element by element; on a CPU, one block at a time."""
    if x.size <= BLOCK or array_module(x) is not np:
        return function(x)
    results = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    flat, (first, second) = x.reshape(-1), (result.reshape(-1) for result in results)
    for start in range(0, x.size, BLOCK):
        part = slice(start, start + BLOCK)
        first[part], second[part] = function(flat[part])
    return results


def polynomial(coefficients, x):
    """c_0 + c_1 x + c_2 x^2 + ..., by Horner's rule."""
    *lower, last = coefficients
    result = last * x
    for c in lower[:0:-1]:
        result += c
        result *= x
    result += lower[0]
    return result


# u with (1 + tanh(x u(x^2))) / 2 = Phi(x) to 1e-7, for x^2 <= 32: fitted to the values of math.erfc
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


def _gelu(x):
    """x Phi(x) and its derivative Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)."""
    xp = array_module(x)
    square = x * x
    if x.dtype == float64.numpy:
        cumulative = 0.5 * (1 + erf_array(x / math.sqrt(2)))
    else:
        cumulative = polynomial(NORMAL, xp.clip(square, 0, 32))
        cumulative *= x
        cumulative = xp.tanh(cumulative)
        cumulative += 1
        cumulative *= 0.5
    square *= -0.5
    square -= 0.5 * math.log(2 * math.pi)
    slope = xp.exp(square)
    slope *= x
    slope += cumulative
    cumulative *= x
    return cumulative, slope


def _gelu_tanh(x):
    """x (1 + tanh u) / 2 and its derivative, with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    square = x * x
    scale, cubic = APPROXIMATE_NORMAL
    slope = (0.5 * scale + 1.5 * cubic * square) * x
    t = array_module(x).tanh(polynomial(APPROXIMATE_NORMAL, square) * x)
    slope *= 1 - t * t
    t += 1
    t *= 0.5
    slope += t
    t *= x
    return t, slope


@operation(promote="float")
def gelu(input, approximate="none"):
    """x Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel, 2016).

    ``approximate="tanh"`` uses 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) instead.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    result, slope = blockwise(_gelu if approximate == "none" else _gelu_tanh, input)
    return result, lambda g: g * slope


@operation()
def dropout(input, p, generator=None):
    """Elements zeroed with probability p, others divided by 1 - p (Srivastava et al., 2014)."""
    xp = array_module(input)
    if p == 1:
        mask = xp.zeros(input.shape, dtype=input.dtype)
    else:
        kept = numpy_generator(generator).random(input.shape, dtype=np.float32) >= p
        mask = xp.asarray(kept, dtype=input.dtype)
        mask *= 1 / (1 - p)
    return input * mask, lambda g: g * mask


def sum_rows(values, positions, count):
    """(count, ...): row i is the sum of the rows of ``values`` whose position is i."""
    xp = array_module(values)
    result = xp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    if not positions.size:
        return result
    if xp is not np:
        xp.add.at(result, positions, values)
        return result
    order = np.argsort(positions, kind="stable")
    in_order = positions[order]
    starts = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1])))
    result[in_order[starts]] = np.add.reduceat(values[order], starts, axis=0)
    return result


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

    return weight[input], (lambda g: None, vjp)


@operation()
def layer_norm(input, axes, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last ``axes`` axes.

    Mean and variance (divided by the count) are taken over those axes for each position by itself
    (Ba, Kiros and Hinton, 2016). With x' the normalised x and g' = g * weight, the gradient is
    (g' - mean(g') - x' * mean(g' * x')) / sqrt(variance + eps).
    """
    xp, dtype = array_module(input), input.dtype
    size = math.prod(input.shape[input.ndim - axes :])
    rows = input.reshape(input.size // size if size else 0, size)
    average = xp.full(size, 1 / size if size else 0, dtype=dtype)  # sums are products with it
    normal = rows - (rows @ average)[:, None]
    variance = (normal * normal) @ average
    scale = 1 / xp.sqrt(variance + dtype.type(eps))[:, None]
    normal *= scale
    flat_weight = None if weight is None else weight.reshape(size)
    result = normal.copy() if weight is None else normal * flat_weight
    if bias is not None:
        result += bias.reshape(size)

    def vjp(g):
        g = g.reshape(rows.shape)
        ones = xp.ones(len(rows), dtype=dtype)
        toward_bias = None if bias is None else (ones @ g).reshape(input.shape[-axes:])
        along, toward_weight = g * normal, None
        if weight is not None:
            toward_weight = (ones @ along).reshape(input.shape[-axes:])
            along *= flat_weight
            g = g * flat_weight
        toward_input = g - (g @ average)[:, None]
        along = xp.multiply(normal, (along @ average)[:, None], out=along)
        toward_input -= along
        toward_input *= scale
        return toward_input.reshape(input.shape), None, toward_weight, toward_bias

    return result.reshape(input.shape), vjp


def _reduced(losses, weights, reduction):
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / weights.sum()


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
    xp = array_module(input)
    classes = input.shape[1]
    valid = target != ignore_index
    rows, safe = xp.arange(len(target)), xp.where(valid, target, 0)
    if safe.size and not (0 <= safe.min() and safe.max() < classes):
        raise IndexError(
            f"cross_entropy has {classes} classes, so targets must be 0 to {classes - 1} "
            f"or ignore_index={ignore_index}; got {int(target.min())} to {int(target.max())}"
        )
    class_weight = xp.ones(classes, dtype=input.dtype) if weight is None else weight
    row_weight = class_weight[safe] * valid
    log_p = input - input.max(axis=1, keepdims=True, initial=-np.inf)
    log_p -= xp.log(xp.exp(log_p).sum(axis=1, keepdims=True))
    losses = xp.where(valid, -(1 - label_smoothing) * log_p[rows, safe] * row_weight, 0)
    if label_smoothing:
        losses = losses - valid * (label_smoothing / classes) * (log_p @ class_weight)
    losses = losses.astype(input.dtype, copy=False)
    result = _reduced(losses, row_weight, reduction)
    total_weight = row_weight.sum() if reduction == "mean" else None

    def vjp(g):
        scale = g if reduction != "mean" else g / total_weight
        hard = (1 - label_smoothing) * row_weight
        gradient = xp.exp(log_p)
        gradient *= (hard + valid * (label_smoothing / classes) * class_weight.sum())[:, None]
        gradient[rows, safe] -= hard
        if label_smoothing:
            gradient -= valid[:, None] * (label_smoothing / classes) * class_weight
        gradient *= scale[:, None] if reduction == "none" else scale
        return xp.where(valid[:, None], gradient, 0).astype(input.dtype, copy=False)

    return result, (vjp,)
