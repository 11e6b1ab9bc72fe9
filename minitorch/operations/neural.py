"""Fused operations of neural networks: one node for what could be composed of several.

Each is tested to equal, in value and gradient, the composition in its docstring.
"""

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module
from minitorch.generator import numpy_generator


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
    over = tuple(range(-axes, 0))
    centred = input - input.mean(axis=over, keepdims=True)
    variance = (centred * centred).mean(axis=over, keepdims=True)
    scale = 1 / array_module(input).sqrt(variance + input.dtype.type(eps))
    normal = centred * scale
    result = normal.copy() if weight is None else normal * weight
    if bias is not None:
        result += bias
    leading = tuple(range(input.ndim - axes))

    def toward_input(g):
        g = g if weight is None else g * weight
        mean = g.mean(axis=over, keepdims=True)
        along = (g * normal).mean(axis=over, keepdims=True)
        return (g - mean - normal * along) * scale

    return result, (
        toward_input,
        lambda g: None,
        lambda g: (g * normal).sum(axis=leading),
        lambda g: g.sum(axis=leading),
    )


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
