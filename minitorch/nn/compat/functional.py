"""Functions of neural networks that the book does not teach; ``nn.functional`` offers them all."""

import math

from minitorch.autograd import is_grad_enabled, no_grad
from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module
from minitorch.compat import functions
from minitorch.nn.functional_losses import of_old, reduced, warn_of_broadcasting
from minitorch.operations import elementwise, neural
from minitorch.operations.elementwise import clamp, exp, log, sigmoid, where
from minitorch.operations.products import matmul
from minitorch.operations.shapes import cat, chunk, stack

__all__ = """
binary_cross_entropy binary_cross_entropy_with_logits conv1d elu glu group_norm hardtanh huber_loss
kl_div l1_loss leaky_relu logsigmoid mish prelu relu6 smooth_l1_loss softplus softsign threshold
""".split()

# Activations


def _maybe_in_place(function, input, inplace):
    return input.copy_(function(input.clone())) if inplace else function(input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x between ``min_val`` and ``max_val``, and the nearer of them outside."""
    if min_val > max_val:
        raise ValueError(f"hardtanh needs min_val <= max_val; got {min_val} and {max_val}")

    def limited(x):
        return where(x <= min_val, min_val, where(x >= max_val, max_val, x)).to(x.dtype)

    return _maybe_in_place(limited, input, inplace)


def relu6(input, inplace=False):
    """x between 0 and 6, and the nearer of them outside."""
    return hardtanh(input, 0.0, 6.0, inplace)


def mish(input, inplace=False):
    """x tanh(softplus(x)) (Misra, 2019)."""
    return _maybe_in_place(lambda x: x * functions.softplus(x).tanh(), input, inplace)


def softsign(input):
    """x / (1 + |x|)."""
    return input / (1 + elementwise.abs(input))


def threshold(input, threshold, value, inplace=False):
    """x where x > ``threshold``, else ``value``."""
    return _maybe_in_place(lambda x: where(x <= threshold, value, x).to(x.dtype), input, inplace)


def prelu(input, weight):
    """x where x > 0, else w x, with one ``weight`` or one for each channel: axis 1 of the input."""
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise RuntimeError(
            f"prelu of shape {tuple(input.shape)} needs a weight of 1 or {channels} elements with "
            f"at most one axis; got shape {tuple(weight.shape)}"
        )
    weight = weight.reshape(() if weight.numel() == 1 else (-1, *[1] * (input.ndim - 2)))
    return where(input > 0, input, weight * input)


def leaky_relu(input, negative_slope=0.01):
    """x where x > 0, else ``negative_slope`` x."""
    return where(input > 0, input, input * negative_slope)


def elu(input, alpha=1.0):
    """x where x > 0, else alpha (exp(x) - 1)."""
    return where(input > 0, input, alpha * functions.expm1(input.clamp(max=0)))


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, and x itself where beta x > ``threshold``."""
    if beta == 1:
        smooth = functions.softplus(input)
    else:
        smooth = functions.softplus(input * beta) / beta
    return where(input * beta > threshold, input, smooth)


def logsigmoid(input):
    """log(1 / (1 + exp(-x))), without overflow."""
    return -functions.softplus(-input.contiguous())


def glu(input, dim=-1):
    """a s(b) for the halves a and b of the input along ``dim``, s the sigmoid (Dauphin, 2017)."""
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"glu halves dim {dim}, so its size must be even; got {tuple(input.shape)}"
        )
    a, b = chunk(input, 2, dim)
    return a * sigmoid(b)


# Losses


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """|input - target|. A warning unless both have the same shape."""
    reduction = of_old(size_average, reduce, reduction)
    warn_of_broadcasting("l1_loss", input, target)
    return reduced(elementwise.abs(input - target), reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """d^2 / (2 beta) where d = |input - target| is below ``beta``, else d - beta / 2."""
    reduction = of_old(size_average, reduce, reduction)
    warn_of_broadcasting("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss needs a beta that is not negative; got {beta}")
    distance = elementwise.abs(input - target)
    if not beta:
        return reduced(distance, reduction)
    near = clamp(distance, max=beta)
    return reduced(near * (distance - near / 2) / beta, reduction)


def huber_loss(input, target, reduction="mean", delta=1.0):
    """d^2 / 2 where d = |input - target| is below ``delta``, else delta (d - delta / 2)."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss needs a positive delta; got {delta}")
    warn_of_broadcasting("huber_loss", input, target)
    distance = elementwise.abs(input - target)
    near = clamp(distance, max=delta)
    return reduced(near * (distance - near / 2), reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input) for log-probabilities ``input``; 0 where the target is 0.

    The target holds probabilities, or their logarithms with ``log_target``. "batchmean" divides
    the sum by the size of the batch, which makes it the Kullback-Leibler divergence.
    """
    reduction = of_old(size_average, reduce, reduction)
    if log_target:
        losses = exp(target) * (target - input)
    else:
        losses = target * (log(where(target > 0, target, 1.0)) - input)
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.ndim else losses
    return reduced(losses, reduction)


def _check_equal_shapes(name, input, target):
    if input.shape != target.shape:
        raise ValueError(
            f"{name} needs input and target of one shape; "
            f"got {tuple(input.shape)} and {tuple(target.shape)}"
        )


@operation()
def binary_cross_entropy_terms(input, target):
    """-(y log x + (1 - y) log(1 - x)) for each element, logarithms not below -100, as PyTorch.

    The gradient is (x - y) / (x (1 - x)), with a divisor of at least 1e-12.
    """
    xp = array_module(input)
    log_x = xp.maximum(xp.log(input), -100)
    log_rest = xp.maximum(xp.log1p(-input), -100)
    return -(target * log_x + (1 - target) * log_rest), (
        lambda g: g * (input - target) / xp.maximum(input * (1 - input), 1e-12),
        lambda g: g * (log_rest - log_x),
    )


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """-(y log x + (1 - y) log(1 - x)) for probabilities x = ``input``; logarithms stop at -100."""
    reduction = of_old(size_average, reduce, reduction)
    _check_equal_shapes("binary_cross_entropy", input, target)
    if input.numel() and not 0 <= input.min().item() <= input.max().item() <= 1:
        raise RuntimeError("binary_cross_entropy needs input between 0 and 1: apply a sigmoid")
    if target.dtype is not input.dtype:
        raise RuntimeError(f"target must be {input.dtype} as the input; got {target.dtype}")
    return reduced(binary_cross_entropy_terms(input, target), reduction, weight)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """-(p y log s(x) + (1 - y) log(1 - s(x))) with the sigmoid s, computed without overflow.

    ``pos_weight`` p multiplies the positive examples. With log s(x) = -softplus(-x) this is
    (1 - y) x + (1 + (p - 1) y) softplus(-x).
    """
    reduction = of_old(size_average, reduce, reduction)
    _check_equal_shapes("binary_cross_entropy_with_logits", input, target)
    missed = functions.softplus(-input)
    if pos_weight is not None:
        missed = missed * (1 + (pos_weight - 1) * target)
    return reduced((1 - target) * input + missed, reduction, weight)


# Layers


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias, channels (axis 1) in groups.

    Mean and variance are those of each group of C / ``num_groups`` channels of one example, with
    all its other axes; weight and bias (C) are one a channel (Wu and He, 2018).
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm needs input (N, C, ...) whose C channels make {num_groups} equal groups; "
            f"got shape {tuple(input.shape)}"
        )
    size = math.prod(input.shape[1:]) // num_groups
    groups = input.reshape(input.shape[0], num_groups, size)
    normal = neural.layer_norm(groups, 1, eps=eps).reshape(input.shape)
    along = (-1, *[1] * (input.ndim - 2))
    normal = normal if weight is None else normal * weight.reshape(along)
    return normal if bias is None else normal + bias.reshape(along)


def embedding_weight(input, weight, max_norm, norm_type, scale_grad_by_freq, sparse):
    """The weight of an embedding with its rarer options; see ``F.embedding``."""
    if sparse:
        raise NotImplementedError("embedding has no sparse gradients: pass sparse=False")
    if max_norm is not None:
        with no_grad():
            rows = input.reshape(-1).unique()
            norms = weight[rows].norm(norm_type, 1, keepdim=True)
            scale = where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
            weight[rows] = weight[rows] * scale.to(weight.dtype)
    if scale_grad_by_freq and weight.requires_grad and is_grad_enabled():
        counts = input.reshape(-1).bincount(minlength=weight.shape[0]).clamp(min=1).unsqueeze(1)
        weight = weight.view_as(weight)
        weight.register_hook(lambda grad: grad / counts.to(grad.dtype))
    return weight


def heads_for_each_query(query, key, value):
    """Key and value with each head repeated for the heads of the query that share it."""
    heads, groups = query.shape[-3], key.shape[-3]
    if value.shape[-3] != groups or heads % groups:
        raise RuntimeError(
            "enable_gqa needs as many heads of value as of key, which divide those of the query; "
            f"got {heads} of the query, {groups} of key, {value.shape[-3]} of value"
        )
    return [x.repeat_interleave(heads // groups, -3) for x in (key, value)]


def single(value, name):
    """The one number of an option that is a number or a sequence of one."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if len(numbers) != 1:
        raise RuntimeError(f"{name} has one number for one axis; got {value}")
    return numbers[0]


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """result[o, l] = bias[o] + sum over c, k of weight[o, c, k] * input[c, l stride + k dilation].

    ``input`` (N, C, L) or (C, L), ``weight`` (O, C / groups, K), result (N, O, L'); each of the
    ``groups`` of output channels sees its own group of input channels. ``padding`` zeros come
    before and after, "valid" is none, "same" as many as keep L' = L.
    """
    if input.ndim == 2:
        batch = input.unsqueeze(0)
        return conv1d(batch, weight, bias, stride, padding, dilation, groups).squeeze(0)
    if input.ndim != 3 or weight.ndim != 3:
        raise RuntimeError(
            "conv1d needs input (N, C, L) or (C, L) and weight (O, C / groups, K); "
            f"got shapes {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    stride, dilation = single(stride, "stride"), single(dilation, "dilation")
    (outputs, channels, width), reach = weight.shape, dilation * (weight.shape[2] - 1)
    if input.shape[1] != channels * groups or outputs % groups:
        raise RuntimeError(
            f"conv1d with groups={groups} and weight of shape {tuple(weight.shape)} needs "
            f"{channels * groups} input channels, and output channels that {groups} divides; "
            f"got input of shape {tuple(input.shape)}"
        )
    if padding == "same" and stride != 1:
        raise RuntimeError("padding='same' is for stride 1, which keeps the length")
    if padding not in ("valid", "same") and isinstance(padding, str):
        raise RuntimeError(f"padding must be a number, 'valid' or 'same'; got {padding!r}")
    if isinstance(padding, str):
        before = reach // 2 if padding == "same" else 0
        after = reach - before if padding == "same" else 0
    else:
        before = after = single(padding, "padding")
    if before or after:
        ends = [input.new_zeros((*input.shape[:2], count)) for count in (before, after)]
        input = cat([ends[0], input, ends[1]], 2)
    length = (input.shape[2] - reach - 1) // stride + 1
    if length < 1:
        raise RuntimeError(
            f"conv1d reaches over {reach + 1} positions; the padded input has {input.shape[2]}"
        )
    starts = range(0, reach + 1, dilation)
    seen = [input[:, :, start : start + stride * (length - 1) + 1 : stride] for start in starts]
    seen = stack(seen, 2).reshape(len(input), groups, channels * width, length)  # (N, G, C' K, L')
    kernels = weight.reshape(groups, outputs // groups, channels * width)
    result = matmul(kernels, seen).reshape(len(input), outputs, length)
    return result if bias is None else result + bias.reshape(-1, 1)
