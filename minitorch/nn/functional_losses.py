"""Losses as functions; ``nn.functional`` offers them all.

``reduction`` says what becomes of the losses of the elements or rows: their "mean", their "sum",
or "none", all of them.
"""

import sys
import warnings

from minitorch.operations import neural
from minitorch.operations.indexing import gather
from minitorch.operations.reductions import log_softmax


def _check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none'; got {reduction!r}")


def of_old(size_average, reduce, reduction):
    """``reduction``, or what the two options of programs from before PyTorch 0.4.1 say."""
    if size_average is None and reduce is None:
        return reduction
    depth = 1
    while sys._getframe(depth).f_globals.get("__name__", "").startswith("minitorch."):
        depth += 1
    warnings.warn("size_average and reduce are old: pass reduction", stacklevel=depth + 1)
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def reduced(losses, reduction, weight=None):
    """The losses, each times its weight, as their mean, their sum, or all of them."""
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
    if input.ndim == 2:
        return input, target
    if input.ndim > 2:
        input = input.permute(0, *range(2, input.ndim), 1)
    return input.reshape(-1, input.shape[-1]), target.reshape(-1)


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """-log softmax(input)[target], averaged over the targets.

    ``input`` holds scores (logits), of shape (N, C), (C) or (N, C, d1, ...); ``target`` holds class
    indices, of shape (N), () or (N, d1, ...); those equal to ``ignore_index`` do not count. Or it
    holds a probability for each class, in the shape of the input, and the loss is -sum p log q.
    """
    reduction = of_old(size_average, reduce, reduction)
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
    return reduced(losses, reduction)


def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """-input[target] for log-probabilities ``input`` (N, C) and classes ``target`` (N)."""
    reduction = of_old(size_average, reduce, reduction)
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


def warn_of_broadcasting(name, input, target):
    """Warn unless both have one shape; it is called by the loss of that name."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name} of shapes {tuple(input.shape)} and {tuple(target.shape)} broadcasts, which is "
            "seldom meant: give both one shape",
            stacklevel=3,
        )


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """(input - target)^2. A warning unless both have the same shape."""
    reduction = of_old(size_average, reduce, reduction)
    warn_of_broadcasting("mse_loss", input, target)
    return reduced((input - target) ** 2, reduction)
