"""Layers and losses that the book does not teach; ``nn`` offers them all."""

import math

from minitorch.autograd import no_grad
from minitorch.creation import empty, full, ones, zeros
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.compat.functional import single
from minitorch.nn.layers import Linear, ReLU
from minitorch.nn.losses import _Loss, _WeightedLoss
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = """
BCELoss BCEWithLogitsLoss Conv1d ELU Flatten GLU GroupNorm Hardtanh HuberLoss KLDivLoss L1Loss
LazyLinear LeakyReLU LogSigmoid LogSoftmax Mish PReLU ParameterList ReLU6 SmoothL1Loss Softmax
Softmin Softplus Softsign Threshold
""".split()

# Activations


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""

    def forward(self, input):
        return F.logsigmoid(input)


class LeakyReLU(Module):
    """x where x > 0, else ``negative_slope`` x."""

    def __init__(self, negative_slope=0.01):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where x > 0, else alpha (exp(x) - 1)."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, input):
        return F.elu(input, self.alpha)

    def extra_repr(self):
        return f"alpha={self.alpha}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, and x itself where beta x > ``threshold``."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """a s(b) for the halves a and b of the input along ``dim``, with the sigmoid s."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Hardtanh(Module):
    """x between ``min_val`` and ``max_val``; with ``inplace`` written over x."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class ReLU6(ReLU):
    """x between 0 and 6; with ``inplace`` written over x."""

    def forward(self, input):
        return F.relu6(input, self.inplace)


class Mish(ReLU):
    """x tanh(softplus(x)); with ``inplace`` written over x."""

    def forward(self, input):
        return F.mish(input, self.inplace)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input):
        return F.softsign(input)


class Threshold(Module):
    """x where x > ``threshold``, else ``value``; with ``inplace`` written over x."""

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        inplace = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{inplace}"


class Softmax(Module):
    """exp(x_i) / sum_j exp(x_j) along ``dim``."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.softmax(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(Softmax):
    """exp(-x_i) / sum_j exp(-x_j) along ``dim``."""

    def forward(self, input):
        return F.softmin(input, self.dim)


class PReLU(Module):
    """x where x > 0, else w x, with one learned w or one for each channel (He et al., 2015)."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class LogSoftmax(Softmax):
    """x_i - log(sum_j exp(x_j)) along ``dim``."""

    def forward(self, input):
        return F.log_softmax(input, self.dim)


# Losses


class L1Loss(_Loss):
    """The mean (or sum, or neither) of |input - target|."""

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class KLDivLoss(_Loss):
    """target (log target - input) for log-probabilities; "batchmean" is the divergence."""

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        options = {"reduction": self.reduction, "log_target": self.log_target}
        return F.kl_div(input, target, **options)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities against targets between 0 and 1."""

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross-entropy of scores against targets between 0 and 1."""

    def __init__(
        self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        options = {"reduction": self.reduction, "pos_weight": self.pos_weight}
        return F.binary_cross_entropy_with_logits(input, target, self.weight, **options)


class SmoothL1Loss(_Loss):
    """The mean (or sum, or neither) of d^2 / (2 beta), or d - beta / 2 where d is above beta."""

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """The mean (or sum, or neither) of d^2 / 2, or delta (d - delta / 2) where d is above delta."""

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, self.reduction, self.delta)


# Layers


class Flatten(Module):
    """The axes from ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class LazyLinear(Linear):
    """A ``Linear`` that takes ``in_features`` from its first input; from then on it is one.

    Its parameters are empty until then, but are the same objects later, so an optimizer may have
    them already.
    """

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, out_features, bias, device, dtype)

    def forward(self, input):
        self.in_features = input.shape[-1]
        with no_grad():
            self.weight.data = self.weight.new_empty(self.out_features, self.in_features)
        self.reset_parameters()
        self.__class__ = Linear
        return self(input)


class GroupNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias, C channels in groups; (N, C, ...).

    Mean and variance are those of one group of one example (Wu and He, 2018).
    """

    def __init__(
        self,
        num_groups,
        num_channels,
        eps=1e-5,
        affine=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"{num_groups} groups must divide num_channels, got {num_channels}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        options = {"device": device, "dtype": dtype}
        scale = Parameter(ones(num_channels, **options)) if affine else None
        shift = Parameter(zeros(num_channels, **options)) if affine and bias else None
        self.register_parameter("weight", scale)
        self.register_parameter("bias", shift)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class Conv1d(Module):
    """A learned convolution along the last axis: (N, C, L) -> (N, O, L'); see ``F.conv1d``.

    ``weight`` (O, C / groups, K) and ``bias`` (O) start from U(-k, k), k = 1 / sqrt(K C / groups).
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups={groups} must divide in_channels={in_channels} and "
                f"out_channels={out_channels}"
            )
        if padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode is 'zeros' only, got {padding_mode!r}")
        self.stride, self.dilation = (single(stride, "stride"),), (single(dilation, "dilation"),)
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise ValueError(f"padding must be a number, 'valid' or 'same'; got {padding!r}")
            if padding == "same" and self.stride != (1,):
                raise ValueError("padding='same' is for stride 1, which keeps the length")
        self.padding = padding if isinstance(padding, str) else (single(padding, "padding"),)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.padding_mode = (single(kernel_size, "kernel_size"),), padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(empty(shape, **options))
        self.register_parameter("bias", Parameter(empty(out_channels, **options)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input):
        options = (self.stride, self.padding, self.dilation, self.groups)
        return F.conv1d(input, self.weight, self.bias, *options)

    def extra_repr(self):
        told = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        told += f", stride={self.stride}"
        told += f", padding={self.padding}" if self.padding != (0,) else ""
        told += f", dilation={self.dilation}" if self.dilation != (1,) else ""
        told += f", groups={self.groups}" if self.groups != 1 else ""
        return told + ("" if self.bias is not None else ", bias=False")


class ParameterList(Module):
    """A list of parameters; tensors become parameters."""

    def __init__(self, values=()):
        super().__init__()
        self.extend(values or ())

    def append(self, value):
        """Add a parameter at the end."""
        self[len(self)] = value
        return self

    def extend(self, values):
        """Add several parameters at the end."""
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        found = list(self)[index]
        return ParameterList(found) if isinstance(index, slice) else found

    def __setitem__(self, index, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        name = str(index if index >= 0 else index + len(self))
        self.register_parameter(name, value)
