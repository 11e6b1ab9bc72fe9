"""Losses as modules; see the functions of the same meaning in ``nn.functional``."""

from minitorch.nn import functional as F
from minitorch.nn.module import Module

__all__ = ["CrossEntropyLoss", "MSELoss", "NLLLoss"]


class MSELoss(Module):
    """The mean (or sum, or neither) of (input - target)^2."""

    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, input, target):
        return F.mse_loss(input, target, self.reduction)


class NLLLoss(Module):
    """-log-probability[class]; log-probabilities (N, C) or (N, C, ...), classes (N) or (N, ...)."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean"):
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input, target):
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(NLLLoss):
    """-log softmax(scores)[class]; scores (N, C) or (N, C, ...), classes (N) or (N, ...)."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
