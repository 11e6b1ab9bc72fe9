"""Functions of neural networks: activations, normalisation, losses."""

import builtins

from minitorch.backend import array_module, int64
from minitorch.operations import attention, neural
from minitorch.operations.elementwise import (
    abs as _abs,
)
from minitorch.operations.elementwise import (
    exp as _exp,
)
from minitorch.operations.elementwise import (
    log1p,
    relu,
    sigmoid,
    silu,
    softplus,
    tanh,
)
from minitorch.operations.indexing import gather
from minitorch.operations.neural import gelu
from minitorch.operations.products import linear
from minitorch.operations.reductions import log_softmax, softmax
from minitorch.tensor import Tensor

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def dropout(input, p=0.5, training=True):
    """In training, each element zeroed with probability ``p``, the others divided by 1 - p."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability must be between 0 and 1, got {p}")
    return neural.dropout(input, p) if training and p else input


def embedding(input, weight, padding_idx=None):
    """Row ``input[...]`` of ``weight`` (V, d) for each index: (...) -> (..., d)."""
    return neural.embedding(input, weight, padding_idx)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes (Ba et al., 2016)."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"layer_norm over {shape} got input of shape {tuple(input.shape)}: "
            "the last axes must have those sizes"
        )
    return neural.layer_norm(input, len(shape), weight, bias, eps)


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None
):
    """softmax(query key^T scale + mask) value (Vaswani et al., 2017, equation 1).

    ``query`` (..., n, d), ``key`` (..., m, d), ``value`` (..., m, d_v) -> (..., n, d_v); leading
    axes broadcast, ``scale`` is 1 / sqrt(d) unless given. ``attn_mask`` (..., n, m) is boolean,
    True where a query may look, or floating, added to the scores. ``is_causal`` lets query i look
    at keys 0 to i only. Each weight is dropped with probability ``dropout_p``, in training or not.
    A query that may look nowhere gets zeros, and gives no gradient.
    """
    learned = attn_mask is not None and attn_mask.requires_grad
    return attention.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, learned
    )


def one_hot(tensor, num_classes=-1):
    """A new last axis with 1 at each index and 0 elsewhere, as int64."""
    xp, indices = array_module(tensor.array), tensor.array
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"one_hot needs integer indices, got {tensor.dtype}")
    largest = int(indices.max()) if indices.size else -1
    classes = largest + 1 if num_classes == -1 else num_classes
    if indices.size and (indices.min() < 0 or largest >= classes):
        raise RuntimeError(
            f"one_hot with {classes} classes needs indices 0 to {classes - 1}; "
            f"got {int(indices.min())} to {largest}"
        )
    return Tensor._wrap(xp.eye(classes, dtype=int64.numpy)[indices])


def _rows(input, target, ignored):
    """Scores (N, C), (N, C, d1, ...) or (C) as rows (M, C), and the targets as (M)."""
    if input.ndim == 1:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    expected = (input.shape[0], *input.shape[2:])
    if tuple(target.shape) != expected:
        raise RuntimeError(
            f"scores of shape {tuple(input.shape)} are (N, classes, ...), so the targets must have "
            f"shape {expected}; got {tuple(target.shape)}"
        )
    if input.ndim > 2:
        input = input.permute(0, *builtins.range(2, input.ndim), 1)
    return input.reshape(-1, input.shape[-1]), target.reshape(-1)


def _check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none'; got {reduction!r}")


def _reduced(losses, reduction):
    _check_reduction(reduction)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def cross_entropy(
    input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """-log softmax(input)[target], averaged over the targets.

    ``input`` holds scores (logits), of shape (N, C), (C) or (N, C, d1, ...); ``target`` holds class
    indices, of shape (N), () or (N, d1, ...); those equal to ``ignore_index`` do not count.
    """
    _check_reduction(reduction)
    if target.is_floating_point():
        raise RuntimeError(f"cross_entropy needs class indices (int64), got {target.dtype}")
    rows, flat = _rows(input, target, ignore_index)
    losses = neural.cross_entropy(rows, flat, weight, ignore_index, reduction, label_smoothing)
    return losses.reshape(target.shape) if reduction == "none" else losses


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-input[target] for log-probabilities ``input`` (N, C) and classes ``target`` (N)."""
    _check_reduction(reduction)
    rows, flat = _rows(input, target, ignore_index)
    valid = flat != ignore_index
    safe = flat.masked_fill(~valid, 0)
    weights = valid.to(rows.dtype) if weight is None else weight[safe] * valid
    losses = -gather(rows, 1, safe.unsqueeze(1)).squeeze(1) * weights
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum()


def mse_loss(input, target, reduction="mean"):
    """(input - target)^2. RuntimeError unless both have the same shape."""
    if input.shape != target.shape:
        raise RuntimeError(
            f"mse_loss needs equal shapes; got {tuple(input.shape)} and {tuple(target.shape)}"
        )
    return _reduced((input - target) ** 2, reduction)


def binary_cross_entropy_with_logits(input, target, reduction="mean"):
    """-(y log s(x) + (1 - y) log(1 - s(x))) with the sigmoid s, computed without overflow."""
    return _reduced(relu(input) - input * target + log1p(_exp(-_abs(input))), reduction)
