"""Pooling along the last axis, (N, C, L) or (C, L), as functions and layers."""

import math

from minitorch.creation import arange
from minitorch.nn.compat.functional import single
from minitorch.nn.functional import pad
from minitorch.nn.module import Module
from minitorch.operations.shapes import stack

__all__ = """
AdaptiveAvgPool1d AdaptiveMaxPool1d AvgPool1d MaxPool1d adaptive_avg_pool1d adaptive_max_pool1d
avg_pool1d max_pool1d
""".split()


def _windows(name, input, size, stride, padding, dilation, ceil_mode, fill):
    """What each window sees, (..., L', size), of an input that ``fill`` continues."""
    size, padding, dilation = (
        single(value, what)
        for value, what in ((size, "kernel_size"), (padding, "padding"), (dilation, "dilation"))
    )
    stride = size if stride is None or stride == () else single(stride, "stride")
    if input.ndim not in (2, 3) or not 0 <= padding <= size // 2 or min(size, stride) < 1:
        raise RuntimeError(
            f"{name} takes (N, C, L) or (C, L), and a padding of at most half the kernel_size; "
            f"got shape {tuple(input.shape)}, kernel_size {size}, padding {padding}"
        )
    length, reach = input.shape[-1], dilation * (size - 1) + 1
    free = length + 2 * padding - reach
    count = (math.ceil(free / stride) if ceil_mode else free // stride) + 1
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1
    if count < 1:
        raise RuntimeError(f"{name} reaches over {reach} positions; the padded input has fewer")
    after = max((count - 1) * stride + reach - length - padding, 0)
    whole = pad(input, (padding, after), value=fill) if padding or after else input
    starts = arange(count, device=input.device).unsqueeze(1) * stride
    places = starts + arange(size, device=input.device) * dilation  # (L', size)
    return whole[..., places], places - padding


def max_pool1d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """The largest number in each window; with ``return_indices`` also where it is.

    ``stride`` is ``kernel_size`` unless given; ``ceil_mode`` adds a last window that is cut off.
    """
    options = (kernel_size, stride, padding, dilation, ceil_mode, -math.inf)
    seen, places = _windows("max_pool1d", input, *options)
    values, chosen = seen.max(-1)
    if not return_indices:
        return values
    return values, places.expand(seen.shape).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window, in which padding counts as zeros, or not at all."""
    options = (kernel_size, stride, padding, 1, ceil_mode, 0)
    seen, places = _windows("avg_pool1d", input, *options)
    beyond = single(padding, "padding") if count_include_pad else 0
    inside = (places >= -beyond) & (places < input.shape[-1] + beyond)
    return seen.sum(-1) / inside.sum(-1).to(seen.dtype)


def _adaptive(input, output_size):
    length, count = input.shape[-1], single(output_size, "output_size")
    bounds = [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
    return [(start, input[..., start:end]) for start, end in bounds]


def adaptive_avg_pool1d(input, output_size):
    """The means of ``output_size`` windows of nearly equal size."""
    return stack([part.mean(-1) for _, part in _adaptive(input, output_size)], -1)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest numbers of ``output_size`` windows of nearly equal size."""
    found = [(start, part.max(-1)) for start, part in _adaptive(input, output_size)]
    values = stack([part.values for _, part in found], -1)
    return (values, stack([s + p.indices for s, p in found], -1)) if return_indices else values


class MaxPool1d(Module):
    """``F.max_pool1d`` as a layer."""

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices=False,
        ceil_mode=False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        sizes = (self.kernel_size, self.stride, self.padding, self.dilation)
        return max_pool1d(input, *sizes, self.ceil_mode, self.return_indices)

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class AvgPool1d(Module):
    """``F.avg_pool1d`` as a layer."""

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        super().__init__()
        self.kernel_size = (single(kernel_size, "kernel_size"),)
        self.stride = self.kernel_size if stride is None else (single(stride, "stride"),)
        self.padding = (single(padding, "padding"),)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        sizes = (self.kernel_size, self.stride, self.padding)
        return avg_pool1d(input, *sizes, self.ceil_mode, self.count_include_pad)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool1d(Module):
    """``F.adaptive_avg_pool1d`` as a layer."""

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(AdaptiveAvgPool1d):
    """``F.adaptive_max_pool1d`` as a layer."""

    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return adaptive_max_pool1d(input, self.output_size, self.return_indices)
