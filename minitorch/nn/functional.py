"""Functions of neural networks: activations, normalisation, attention, positions.

Losses, which are imported here too, are in ``nn.functional_losses``, and what the book does not
teach is in ``nn.compat.functional``.
"""

import warnings

import numpy as np

from minitorch import creation
from minitorch.autograd import is_grad_enabled, no_grad
from minitorch.autograd.inplace import in_place
from minitorch.autograd.node import refuse_gradient
from minitorch.backend import array_module, float16, int64
from minitorch.missing import in_module
from minitorch.nn.compat import functional as compat
from minitorch.nn.compat.functional import *  # noqa: F403  (named in compat.__all__)
from minitorch.nn.functional_losses import cross_entropy, mse_loss, nll_loss
from minitorch.operations import attention, elementwise, neural, products, reductions
from minitorch.operations.elementwise import sigmoid, tanh
from minitorch.operations.neural import gelu
from minitorch.operations.shapes import broadcast_tensors
from minitorch.tensor import Tensor

__all__ = [
    "batch_norm",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "tanh",
    *compat.__all__,
]

# Activations


def relu(input, inplace=False):
    """max(x, 0)."""
    return (in_place(elementwise.relu) if inplace else elementwise.relu)(input)


def silu(input, inplace=False):
    """x s(x) with the sigmoid s (Elfwing et al., 2018; also called swish)."""
    return (in_place(elementwise.silu) if inplace else elementwise.silu)(input)


def _softmax_dim(name, input, dim):
    """``dim``, or what PyTorch takes when it is left out, with its warning."""
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
        warnings.warn(f"{name} without dim is deprecated; took dim={dim}", stacklevel=3)
    return dim


def softmax(input, dim=None, dtype=None):
    """exp(x_i) / sum_j exp(x_j) along ``dim``, computed in ``dtype`` if one is given."""
    dim = _softmax_dim("softmax", input, dim)
    return reductions.softmax(input, dim, dtype)


def softmin(input, dim=None, dtype=None):
    """exp(-x_i) / sum_j exp(-x_j) along ``dim``."""
    return reductions.softmax(-input, _softmax_dim("softmin", input, dim), dtype)


def log_softmax(input, dim=None, dtype=None):
    """x_i - log(sum_j exp(x_j)) along ``dim``, computed in ``dtype`` if one is given."""
    dim = _softmax_dim("log_softmax", input, dim)
    return reductions.log_softmax(input, dim, dtype)


def dropout(input, p=0.5, training=True, inplace=False):
    """In training, each element zeroed with probability ``p``, the others divided by 1 - p."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability must be between 0 and 1, got {p}")
    if not training or not p:
        return input
    return (in_place(neural.dropout) if inplace else neural.dropout)(input, p)


def linear(input, weight, bias=None):
    """input @ weight^T + bias: (..., in) x (out, in) -> (..., out), or x (in) -> (...)."""
    if weight.ndim > 1:
        return products.linear(input, weight, bias)
    if bias is not None and bias.ndim:
        raise RuntimeError(
            f"linear with a weight of one axis has a bias without; got shape {tuple(bias.shape)}"
        )
    result = products.matmul(input, weight)
    return result if bias is None else result + bias


# Normalisation


def _last_axes(name, input, normalized_shape):
    """How many last axes ``normalized_shape`` names; RuntimeError where they differ in size."""
    shape = tuple(normalized_shape)
    if not shape or input.array.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"{name} over {shape} got input of shape {tuple(input.shape)}: "
            "the last axes must have those sizes"
        )
    return len(shape)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes (Ba et al., 2016)."""
    return neural.layer_norm(
        input, _last_axes("layer_norm", input, normalized_shape), weight, bias, eps
    )


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang and Sennrich, 2019).

    ``eps=None`` is the distance from 1 to the next number of the input's type.
    """
    axes = tuple(range(-_last_axes("rms_norm", input, normalized_shape), 0))
    kind = input.dtype
    eps = float(np.finfo(kind.numpy).eps) if eps is None else eps
    input = input.float() if kind is float16 else input
    normal = input * ((input * input).mean(axes, keepdim=True) + eps).rsqrt()
    return (normal if weight is None else normal * weight).to(kind).contiguous()


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each feature: (N, C) or (N, C, ...).

    In training mean and variance are the batch's, and the running ones, unless None, move towards
    them: r <- (1 - momentum) r + momentum r', with the unbiased variance. Otherwise the running
    ones are used (Ioffe and Szegedy, 2015). ValueError for a batch of one value a feature.
    RuntimeError for running statistics that require a gradient.
    """
    for position, running in enumerate((running_mean, running_var), start=1):
        if running is not None and running.requires_grad and is_grad_enabled():
            refuse_gradient(batch_norm, position)
    axes = (0, *range(2, input.ndim))
    along = (1, -1) + (1,) * (input.ndim - 2)
    if running_mean is not None and running_mean.shape[0] != input.shape[1]:
        raise RuntimeError(
            f"running_mean has {running_mean.shape[0]} features, the input {tuple(input.shape)} "
            f"has {input.shape[1]}"
        )
    mean, variance = running_mean, running_var
    if training:
        count = input.numel() // max(input.shape[1], 1)
        if count == 1:
            raise ValueError(
                "batch_norm in training needs more than one value a feature; "
                f"got input of shape {tuple(input.shape)}"
            )
        mean, variance = input.mean(axes), input.var(axes, unbiased=False)
        if running_mean is not None:
            with no_grad():
                unbiased = variance * (count / (count - 1))
                running_mean.copy_((1 - momentum) * running_mean + momentum * mean)
                running_var.copy_((1 - momentum) * running_var + momentum * unbiased)
    normal = (input - mean.reshape(along)) * (variance.reshape(along) + eps).rsqrt()
    if weight is not None:
        normal = normal * weight.reshape(along)
    return (normal if bias is None else normal + bias.reshape(along)).contiguous()


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """x / max(||x||_p, eps) along ``dim``."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(||x1||, eps) max(||x2||, eps)) along ``dim``."""
    if x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    lengths = [x.norm(2, dim).clamp(min=eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


# Attention and positions


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """softmax(query key^T scale + mask) value (Vaswani et al., 2017, equation 1).

    ``query`` (..., n, d), ``key`` (..., m, d), ``value`` (..., m, d_v) -> (..., n, d_v); leading
    axes broadcast, ``scale`` is 1 / sqrt(d) unless given. ``attn_mask`` (..., n, m) is boolean,
    True where a query may look, or floating, added to the scores. ``is_causal`` lets query i look
    at keys 0 to i only. Each weight is dropped with probability ``dropout_p``, in training or not.
    A query that may look nowhere gets zeros, and gives no gradient. With ``enable_gqa``, axis -3 is
    that of heads, and each head of key and value serves as many heads of the query as there are
    more of them.
    """
    if enable_gqa:
        key, value = compat.heads_for_each_query(query, key, value)
    learned = attn_mask is not None and attn_mask.requires_grad
    return attention.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, learned
    )


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """Row ``input[...]`` of ``weight`` (V, d) for each index: (...) -> (..., d).

    ``max_norm`` first shortens the rows that are looked up, in ``weight`` itself, to that norm.
    ``scale_grad_by_freq`` divides the gradient of a row by how often it was looked up.
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        weight = compat.embedding_weight(
            input, weight, max_norm, norm_type, scale_grad_by_freq, sparse
        )
    return neural.embedding(input, weight, padding_idx)


def one_hot(tensor, num_classes=-1):
    """A new last axis with 1 at each index and 0 elsewhere, as int64."""
    xp, indices = array_module(tensor.array), tensor.array
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"one_hot needs integer indices, got {tensor.dtype}")
    if not indices.size and num_classes == -1:
        raise RuntimeError("one_hot of no index needs num_classes")
    largest = int(indices.max()) if indices.size else -1
    classes = largest + 1 if num_classes == -1 else num_classes
    if indices.size and (indices.min() < 0 or largest >= classes):
        raise RuntimeError(
            f"one_hot with {classes} classes needs indices 0 to {classes - 1}; "
            f"got {int(indices.min())} to {largest}"
        )
    result = xp.zeros((indices.size, classes), dtype=int64.numpy)
    result[xp.arange(indices.size), indices.reshape(-1)] = 1
    return Tensor._wrap(result.reshape(*indices.shape, classes))


def pad(input, pad, mode="constant", value=None):
    """The input with ``pad[0]`` columns of ``value`` (0) before and ``pad[1]`` after the last axis.

    Further pairs belong to the axes before. A negative number takes columns away.
    """
    pad = tuple(pad)
    if mode != "constant":
        raise NotImplementedError(f"pad has the mode 'constant' only, got {mode!r}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"pad takes two numbers an axis, for at most {input.ndim} axes; got {pad}"
        )
    shape, kept, place = list(input.shape), [slice(None)] * input.ndim, [slice(None)] * input.ndim
    for i in range(len(pad) // 2):
        axis, before, after = input.ndim - 1 - i, *pad[2 * i : 2 * i + 2]
        size = shape[axis]
        shape[axis] = size + before + after
        if shape[axis] < 0 or max(-before, 0) + max(-after, 0) > size:
            raise RuntimeError(f"pad {pad} takes more than there is of shape {tuple(input.shape)}")
        kept[axis] = slice(max(-before, 0), size - max(-after, 0))
        place[axis] = slice(max(before, 0), shape[axis] - max(after, 0))
    fill = 0 if value is None else value
    result = creation.full(shape, fill, dtype=input.dtype, device=input.device)
    result[tuple(place)] = input[tuple(kept)]
    return result


__getattr__ = in_module(
    __name__,
    {
        "minitorch.nn.compat.attention": "multi_head_attention_forward",
        "minitorch.nn.compat.bags": "embedding_bag",
        "minitorch.nn.compat.ctc": "ctc_loss",
        "minitorch.nn.compat.more": "bilinear cosine_embedding_loss gumbel_softmax hardsigmoid"
        " hardswish margin_ranking_loss pairwise_distance selu tanhshrink triplet_margin_loss",
        "minitorch.nn.compat.pooling": "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d"
        " max_pool1d",
        "minitorch.nn.compat.regions": "dropout1d dropout2d dropout3d",
    },
)
