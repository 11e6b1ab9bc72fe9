"""The loss of connectionist temporal classification (Graves et al., 2006)."""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module, to_numpy
from minitorch.nn.functional_losses import reduced
from minitorch.nn.module import Module

__all__ = ["CTCLoss", "ctc_loss"]


@operation()
def ctc(log_probs, labels, frames, lengths, blank, zero_infinity=False):
    """-log of the sum of the probabilities of all paths that spell the labels, one a sequence.

    ``log_probs`` (T, N, C), ``labels`` (N, S), of which the first ``lengths`` (N) count, over the
    first ``frames`` (N). A path has a label or the blank at each frame; repeated labels are one.
    With l' the labels and a blank around each, a_t(s) sums the paths that reached l'_s at frame t,
    and b_t(s) those that go on from there; a_t(s) b_t(s) / total is the share of the paths that
    are there, and its negative the gradient of the logarithm of that label's probability.
    """
    xp = array_module(log_probs)
    steps, batch, classes = log_probs.shape
    spelt = xp.full((batch, 2 * labels.shape[1] + 1), blank)  # (N, L)
    spelt[:, 1::2] = labels
    size = spelt.shape[1]
    places = xp.arange(size)
    skips = xp.zeros((batch, size), dtype=bool)  # from two before: another label
    skips[:, 2:] = spelt[:, 2:] != spelt[:, :-2]
    ends = (places == 2 * lengths[:, None]) | (places == 2 * lengths[:, None] - 1)
    emitted = xp.take_along_axis(log_probs, xp.broadcast_to(spelt, (steps, *spelt.shape)), 2)
    never = xp.full((batch, size), -math.inf, dtype=log_probs.dtype)

    def shifted(a, by):
        """a(s - by), or for a negative number a(s + |by|), impossible beyond the ends."""
        moved = never.copy()
        if by > 0:
            moved[:, by:] = a[:, :-by]
        else:
            moved[:, :by] = a[:, -by:]
        return moved

    def on(a, direction):
        """The sums over the places from which a path may come (1), or to which it may go (-1)."""
        near = xp.logaddexp(a, shifted(a, direction))
        if direction > 0:
            far = xp.where(skips, shifted(a, 2), never)
        else:
            far = shifted(xp.where(skips, a, never), -2)
        return xp.logaddexp(near, far)

    reached = xp.where(places < 2, 0, never)
    before = [reached + emitted[0]] if steps else []
    for t in range(1, steps):
        before.append(on(before[-1], 1) + emitted[t])
    last = never.copy()
    for t in range(steps):
        last = xp.where((frames == t + 1)[:, None], before[t], last)
    last = xp.where((frames == 0)[:, None], xp.where(places == 0, 0, never), last)
    last = xp.where(ends, last, never)
    possible = (last > -math.inf).any(axis=1)
    top = xp.where(possible, last.max(axis=1), 0)
    total = xp.log(xp.exp(last - top[:, None]).sum(axis=1)) + top
    loss = -total
    if zero_infinity:
        loss = xp.where(possible, loss, 0).astype(loss.dtype)

    def vjp(g):
        if zero_infinity:
            g = xp.where(possible, g, 0).astype(g.dtype)
        is_class = (spelt[:, :, None] == xp.arange(classes)).astype(g.dtype)  # (N, L, C)
        toward = xp.zeros_like(log_probs)
        after = xp.where(ends, 0, never)
        for t in range(steps - 1, -1, -1):
            if t + 1 < steps:
                going = (frames > t + 1)[:, None]
                after = xp.where(going, on(after + emitted[t + 1], -1), after)
            share = xp.exp(before[t] + after - total[:, None])
            share = xp.where((frames > t)[:, None], share, 0)
            if zero_infinity:
                share = xp.where(possible[:, None], share, 0)
            toward[t] = -g[:, None] * (share[:, None, :] @ is_class)[:, 0]
        return toward

    return loss, vjp


def _integers(lengths):
    values = to_numpy(lengths.array) if isinstance(lengths, TensorBase) else lengths
    return np.asarray(values, dtype=np.int64).reshape(-1)


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """-log of the probability of the targets under frames of log-probabilities (T, N, C) or (T, C).

    ``targets`` (N, S), or all of them one after the other; ``input_lengths`` and
    ``target_lengths`` (N). "mean" divides each loss by its length first. A target that does not fit
    its frames has the loss inf, or 0 with ``zero_infinity``. The gradient is that of
    ``log_probs``; through ``log_softmax`` it is PyTorch's.
    """
    if log_probs.ndim == 2:
        result = ctc_loss(
            log_probs.unsqueeze(1),
            targets.reshape(1, -1),
            _integers(input_lengths),
            _integers(target_lengths),
            blank,
            reduction,
            zero_infinity,
        )
        return result.squeeze(0) if reduction == "none" else result
    steps, batch, classes = log_probs.shape
    frames, lengths = _integers(input_lengths), _integers(target_lengths)
    if len(frames) != batch or len(lengths) != batch:
        raise RuntimeError(
            f"ctc_loss of {batch} sequences needs as many input_lengths and target_lengths; "
            f"got {len(frames)} and {len(lengths)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be one of {classes} classes, got {blank}")
    if batch and (frames.min() < 0 or frames.max() > steps):
        raise RuntimeError(f"input_lengths must be 0 to {steps}, got {frames.tolist()}")
    labels = _padded(targets, lengths)
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise RuntimeError(
            f"targets must be 0 to {classes - 1}; got {labels.min()} to {labels.max()}"
        )
    move = array_module(log_probs.array).asarray
    given = [move(array) for array in (labels, frames, lengths)]
    losses = ctc(log_probs, *given, blank, zero_infinity)
    if reduction == "mean":
        losses = losses / log_probs.new_tensor(np.maximum(lengths, 1))
    return reduced(losses, reduction)


def _padded(targets, lengths):
    """The targets of each sequence, (N, S), with zeros after their end."""
    values, longest = to_numpy(targets.array), int(lengths.max(initial=0))
    if lengths.min(initial=0) < 0:
        raise RuntimeError(f"target_lengths must not be negative, got {lengths.tolist()}")
    inside = np.arange(longest) < lengths[:, None]
    if values.ndim == 1:
        if values.size != lengths.sum():
            raise RuntimeError(
                f"targets one after the other have {values.size} labels, target_lengths add up to "
                f"{lengths.sum()}"
            )
        labels = np.zeros(inside.shape, dtype=np.int64)
        labels[inside] = values
        return labels
    if values.ndim != 2 or len(values) != len(lengths) or values.shape[1] < longest:
        raise RuntimeError(
            f"targets must be (N, S) with at least {longest} labels; got {tuple(targets.shape)}"
        )
    return np.where(inside, values[:, :longest], 0).astype(np.int64)


class CTCLoss(Module):
    """``F.ctc_loss`` of log-probabilities (T, N, C), targets, and the lengths of both."""

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        options = (self.blank, self.reduction, self.zero_infinity)
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, *options)
