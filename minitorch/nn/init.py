"""Initial values of parameters. Each function fills a tensor in place and returns it."""

import math

import numpy as np

from minitorch.autograd import no_grad
from minitorch.creation import as_tensor
from minitorch.generator import numpy_generator


def _fans(tensor):
    """How many inputs each output sums (fan-in) and how many outputs each input feeds (fan-out)."""
    if tensor.ndim < 2:
        raise ValueError(f"fan-in and fan-out need at least 2 axes; got {tuple(tensor.shape)}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the variance of activations through a nonlinearity."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        known = ", ".join([*gains, "leaky_relu"])
        raise ValueError(f"nonlinearity must be one of {known}; got {nonlinearity!r}")
    return gains[nonlinearity]


@no_grad
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """U(a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """N(mean, std^2)."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad
def constant_(tensor, val):
    """The same value everywhere."""
    return tensor.fill_(val)


@no_grad
def _copy(tensor, array):
    return tensor.copy_(as_tensor(array, dtype=tensor.dtype, device=tensor.device))


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """N(0, gain^2 2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """U(-b, b), b = gain sqrt(3 / fan) (He et al., 2015)."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """N(0, gain^2 / fan) (He et al., 2015)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def eye_(tensor):
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_ fills a tensor with 2 axes; got shape {tuple(tensor.shape)}")
    return _copy(tensor, np.eye(*tensor.shape))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """N(mean, std^2), drawn again where it falls outside of [a, b]."""
    generator = numpy_generator(generator)
    draw = generator.normal(mean, std, tensor.shape)
    while (outside := (draw < a) | (draw > b)).any():
        draw[outside] = generator.normal(mean, std, outside.sum())
    return _copy(tensor, draw)


def orthogonal_(tensor, gain=1.0, generator=None):
    """gain times a random matrix with orthonormal rows or columns (Saxe et al., 2014)."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ needs at least 2 axes; got shape {tuple(tensor.shape)}")
    rows = tensor.shape[0]
    columns = tensor.numel() // max(rows, 1)
    draw = numpy_generator(generator).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(draw)
    q = q * np.sign(np.diag(r))
    q = q if rows >= columns else q.T
    return _copy(tensor, gain * q.reshape(tensor.shape))
