"""Losses as modules; see the functions of the same meaning in ``nn.functional``."""

from minitorch.nn import functional as F
from minitorch.nn.functional_losses import of_old
from minitorch.nn.module import Module

__all__ = ["CrossEntropyLoss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    """What losses share: what becomes of the losses of the elements or rows."""

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.reduction = of_old(size_average, reduce, reduction)


class MSELoss(_Loss):
    """The mean (or sum, or neither) of (input - target)^2."""

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight for each class or element."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class NLLLoss(_WeightedLoss):
    """-log-probability[class]; log-probabilities (N, C) or (N, C, ...), classes (N) or (N, ...)."""

    def __init__(
        self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        options = {"ignore_index": self.ignore_index, "reduction": self.reduction}
        return F.nll_loss(input, target, self.weight, **options)


class CrossEntropyLoss(NLLLoss):
    """-log softmax(scores)[class]; scores (N, C) or (N, C, ...), classes (N) or (N, ...)."""

    def __init__(
        self,
        weight=None,
        size_average=None,
        ignore_index=-100,
        reduce=None,
        reduction="mean",
        label_smoothing=0.0,
    ):
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        options = {"ignore_index": self.ignore_index, "reduction": self.reduction}
        smoothing = {"label_smoothing": self.label_smoothing}
        return F.cross_entropy(input, target, self.weight, **options, **smoothing)
