"""Padding as layers, and dropout of whole channels."""

from minitorch.creation import ones
from minitorch.nn import functional as F
from minitorch.nn.layers import Dropout
from minitorch.nn.module import Module

__all__ = """
ConstantPad1d ConstantPad2d ConstantPad3d Dropout1d Dropout2d Dropout3d ZeroPad1d ZeroPad2d
ZeroPad3d dropout1d dropout2d dropout3d
""".split()


class ConstantPad1d(Module):
    """``value`` before and after the last axis: one number for both sides, or two."""

    axes = 1

    def __init__(self, padding, value):
        super().__init__()
        sides = 2 * self.axes
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != sides:
            raise ValueError(f"padding must be one number or {sides}, got {padding}")
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, value=self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """The same for the last two axes: one number or four, those of the last axis first."""

    axes = 2


class ConstantPad3d(ConstantPad1d):
    """The same for the last three axes: one number or six, those of the last axis first."""

    axes = 3


class ZeroPad1d(ConstantPad1d):
    """Zeros before and after the last axis."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ZeroPad1d):
    """Zeros around the last two axes."""

    axes = 2


class ZeroPad3d(ZeroPad1d):
    """Zeros around the last three axes."""

    axes = 3


def _dropout_of_channels(input, p, training, inplace):
    shape = (*input.shape[:2], *[1] * (input.ndim - 2))
    noise = F.dropout(ones(shape, dtype=input.dtype, device=input.device), p, training)
    return input.mul_(noise) if inplace else input * noise


def _of_one_or_many(name, axes):
    """Dropout of channels for (N, C, ...) with as many more axes, or (C, ...)."""

    def dropout(input, p=0.5, training=True, inplace=False):
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability must be between 0 and 1, got {p}")
        if input.ndim not in (axes + 1, axes + 2):
            raise RuntimeError(
                f"{name} takes {axes + 2} axes, or {axes + 1} without a batch; "
                f"got shape {tuple(input.shape)}"
            )
        if not training or not p:
            return input
        if input.ndim == axes + 2:
            return _dropout_of_channels(input, p, training, inplace)
        return _dropout_of_channels(input.unsqueeze(0), p, training, inplace).squeeze(0)

    dropout.__name__ = dropout.__qualname__ = name
    dropout.__doc__ = "In training, whole channels zeroed with probability ``p``."
    return dropout


dropout1d, dropout3d = _of_one_or_many("dropout1d", 1), _of_one_or_many("dropout3d", 3)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """In training, whole channels, axis 1, zeroed with probability ``p``, the rest enlarged."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability must be between 0 and 1, got {p}")
    if input.ndim < 2:
        raise RuntimeError(f"dropout2d takes (N, C, ...); got shape {tuple(input.shape)}")
    return _dropout_of_channels(input, p, training, inplace) if training and p else input


class Dropout1d(Dropout):
    """In training, whole channels of (N, C, L) or (C, L) are zeroed with probability p."""

    def forward(self, input):
        return dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, whole channels of (N, C, ...) are zeroed with probability p."""

    def forward(self, input):
        return dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, whole channels of (N, C, D, H, W) or (C, D, H, W) are zeroed."""

    def forward(self, input):
        return dropout3d(input, self.p, self.training, self.inplace)
