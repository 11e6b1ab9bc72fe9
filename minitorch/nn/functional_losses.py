"""Losses as functions; ``nn.functional`` offers them all.

``reduction`` says what becomes of the losses of the elements or rows: their "mean", their "sum",
or "none", all of them.
"""

import warnings

from minitorch.operations import neural
from minitorch.operations.elementwise import abs, exp, log, softplus, where
from minitorch.operations.indexing import gather
from minitorch.operations.losses import binary_cross_entropy_terms
from minitorch.operations.reductions import log_softmax


def _check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none'; got {reduction!r}")


def _reduced(losses, reduction, weight=None):
    _check_reduction(reduction)
    if weight is not None:
        losses = losses * weight
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def _rows(input, target):
    """Scores (N, C), (N, C, d1, ...) or (C) as rows (M, C), and the targets as (M)."""
    if input.ndim == 1:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    expected = (input.shape[0], *input.shape[2:])
    if tuple(target.shape) != expected:
        error = ValueError if tuple(target.shape[:1]) != expected[:1] else RuntimeError
        raise error(
            f"scores of shape {tuple(input.shape)} are (N, classes, ...), so the targets must have "
            f"shape {expected}; got {tuple(target.shape)}"
        )
    if input.ndim > 2:
        input = input.permute(0, *range(2, input.ndim), 1)
    return input.reshape(-1, input.shape[-1]), target.reshape(-1)


def cross_entropy(
    input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """-log softmax(input)[target], averaged over the targets.

    ``input`` holds scores (logits), of shape (N, C), (C) or (N, C, d1, ...); ``target`` holds class
    indices, of shape (N), () or (N, d1, ...); those equal to ``ignore_index`` do not count. Or it
    holds a probability for each class, in the shape of the input, and the loss is -sum p log q.
    """
    _check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0 and 1, got {label_smoothing}")
    if target.is_floating_point():
        return _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing)
    rows, flat = _rows(input, target)
    losses = neural.cross_entropy(rows, flat, weight, ignore_index, reduction, label_smoothing)
    return losses.reshape(target.shape) if reduction == "none" else losses


def _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing):
    if input.shape != target.shape:
        raise RuntimeError(
            "cross_entropy needs class indices (int64), or probabilities in the shape of the "
            f"scores, {tuple(input.shape)}; got {target.dtype} of shape {tuple(target.shape)}"
        )
    axis = min(1, input.ndim - 1)
    classes = input.shape[axis]
    target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = -target * log_softmax(input, axis)
    if weight is not None:
        terms = terms * weight.reshape(-1, *[1] * (input.ndim - axis - 1))
    losses = terms.sum(axis)
    if reduction == "mean":
        return losses.sum() / max(losses.numel(), 1)
    return _reduced(losses, reduction)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-input[target] for log-probabilities ``input`` (N, C) and classes ``target`` (N)."""
    _check_reduction(reduction)
    rows, flat = _rows(input, target)
    valid = flat != ignore_index
    safe = flat.masked_fill(~valid, 0)
    if safe.numel() and not 0 <= safe.min().item() <= safe.max().item() < rows.shape[1]:
        raise IndexError(
            f"nll_loss has {rows.shape[1]} classes, so targets must be 0 to {rows.shape[1] - 1} or "
            f"ignore_index={ignore_index}; got {flat.min().item()} to {flat.max().item()}"
        )
    weights = valid.to(rows.dtype) if weight is None else weight[safe] * valid
    losses = -gather(rows, 1, safe.unsqueeze(1)).squeeze(1) * weights
    losses = losses.masked_fill(~valid, 0)
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum()


def _warn_of_broadcasting(name, input, target):
    if input.shape != target.shape:
        warnings.warn(
            f"{name} of shapes {tuple(input.shape)} and {tuple(target.shape)} broadcasts, which is "
            "seldom meant: give both one shape",
            stacklevel=3,
        )


def mse_loss(input, target, reduction="mean"):
    """(input - target)^2. A warning unless both have the same shape."""
    _warn_of_broadcasting("mse_loss", input, target)
    return _reduced((input - target) ** 2, reduction)


def l1_loss(input, target, reduction="mean"):
    """|input - target|. A warning unless both have the same shape."""
    _warn_of_broadcasting("l1_loss", input, target)
    return _reduced(abs(input - target), reduction)


def _check_equal_shapes(name, input, target):
    if input.shape != target.shape:
        raise ValueError(
            f"{name} needs input and target of one shape; "
            f"got {tuple(input.shape)} and {tuple(target.shape)}"
        )


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-(y log x + (1 - y) log(1 - x)) for probabilities x = ``input``; logarithms stop at -100."""
    _check_equal_shapes("binary_cross_entropy", input, target)
    if input.numel() and not 0 <= input.min().item() <= input.max().item() <= 1:
        raise RuntimeError("binary_cross_entropy needs input between 0 and 1: apply a sigmoid")
    if target.dtype is not input.dtype:
        raise RuntimeError(f"target must be {input.dtype} as the input; got {target.dtype}")
    return _reduced(binary_cross_entropy_terms(input, target), reduction, weight)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """-(p y log s(x) + (1 - y) log(1 - s(x))) with the sigmoid s, computed without overflow.

    ``pos_weight`` p multiplies the positive examples. With log s(x) = -softplus(-x) this is
    (1 - y) x + (1 + (p - 1) y) softplus(-x).
    """
    _check_equal_shapes("binary_cross_entropy_with_logits", input, target)
    missed = softplus(-input)
    if pos_weight is not None:
        missed = missed * (1 + (pos_weight - 1) * target)
    return _reduced((1 - target) * input + missed, reduction, weight)


def kl_div(input, target, reduction="mean", log_target=False):
    """target (log target - input) for log-probabilities ``input``; 0 where the target is 0.

    The target holds probabilities, or their logarithms with ``log_target``. "batchmean" divides
    the sum by the size of the batch, which makes it the Kullback-Leibler divergence.
    """
    if log_target:
        losses = exp(target) * (target - input)
    else:
        losses = target * (log(where(target > 0, target, 1.0)) - input)
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.ndim else losses
    return _reduced(losses, reduction)
