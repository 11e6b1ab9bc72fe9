"""Normalisation: of the features of one position (layer norm, RMS norm), or over a batch."""

from minitorch.autograd import no_grad
from minitorch.backend import int64
from minitorch.creation import ones, tensor, zeros
from minitorch.nn import functional as F
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter

__all__ = ["BatchNorm1d", "LayerNorm", "RMSNorm"]


def _shape(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes (Ba et al., 2016)."""

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        scale = shift = None
        if elementwise_affine:
            scale = Parameter(ones(self.normalized_shape, device=device, dtype=dtype))
            if bias:
                shift = Parameter(zeros(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", scale)
        self.register_parameter("bias", shift)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang and Sennrich, 2019).

    ``eps=None`` is the distance from 1 to the next number of the input's type.
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        scale = None
        if elementwise_affine:
            scale = Parameter(ones(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", scale)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class BatchNorm1d(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias, each feature over the whole batch.

    (N, C) or (N, C, L), C features (Ioffe and Szegedy, 2015). In training, mean and variance are
    the batch's, and ``running_mean`` and ``running_var`` move towards them by ``momentum`` (None:
    they are the averages over all batches so far). In ``eval()`` those are used instead.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        self.register_parameter(
            "weight", Parameter(ones(num_features, **options)) if affine else None
        )
        self.register_parameter(
            "bias", Parameter(zeros(num_features, **options)) if affine else None
        )
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **options) if tracked else None)
        count = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)

    def forward(self, input):
        if input.ndim not in (2, 3):
            raise ValueError(f"BatchNorm1d needs input (N, C) or (N, C, L); got {input.ndim} axes")
        momentum = self.momentum
        if self.training and self.track_running_stats:
            with no_grad():
                self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1 / self.num_batches_tracked.item()
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            momentum,
            self.eps,
        )

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )
