"""Operations that treat every element by itself: arithmetic, functions, comparisons.

In each gradient, ``g`` is the gradient of the loss with respect to the result.
"""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module, in_rows
from minitorch.promotion import result_type

__all__ = """
abs add ceil clamp cos divide exp floor floor_divide fmod log log10 masked_fill maximum minimum mul
neg pow relu remainder round rsqrt sigmoid sign sin sqrt square sub tanh trunc where
""".split()

# Arithmetic


def _scaled(array, alpha):
    if alpha == 1:
        return array
    alpha = alpha.item() if hasattr(alpha, "item") else alpha
    if isinstance(alpha, float) and getattr(array, "dtype", np.dtype(float)).kind != "f":
        raise RuntimeError(f"alpha must be an integer for integer tensors; got {alpha}")
    return array * alpha


@operation(promote="common")
def add(input, other, alpha=1):
    """input + alpha * other."""
    return input + _scaled(other, alpha), (lambda g: g, lambda g: _scaled(g, alpha))


@operation(promote="common")
def sub(input, other, alpha=1):
    """input - alpha * other."""
    if all(isinstance(x, bool) or getattr(x, "dtype", 0) == "bool" for x in (input, other)):
        raise RuntimeError("booleans cannot be subtracted: use ^ (logical_xor)")
    return input - _scaled(other, alpha), (lambda g: g, lambda g: _scaled(g, -alpha))


@operation(promote="common")
def mul(input, other):
    """input * other."""
    return input * other, (lambda g: g * other, lambda g: g * input)


@operation(promote="float")
def div(input, other):
    """input / other; integers give a floating-point result."""
    return input / other, (lambda g: g / other, lambda g: -g * input / (other * other))


def _check_divisor(result, other):
    xp = array_module(result)
    if result.dtype.kind in "iu" and xp.any(xp.equal(other, 0)):
        raise RuntimeError("integers cannot be divided by zero: use .float() to get inf or NaN")


@operation(promote="common")
def div_rounded(input, other, rounding_mode):
    """input / other, rounded down ("floor") or towards 0 ("trunc"). The gradient is 0."""
    array = other if isinstance(input, (int, float)) else input
    xp = array_module(array)
    if rounding_mode == "floor":
        result = input // other
    elif rounding_mode != "trunc":
        raise RuntimeError(f"rounding_mode must be None, 'floor' or 'trunc'; got {rounding_mode!r}")
    elif array.dtype.kind == "f":
        result = xp.trunc(input / other)
    else:
        result = (input - xp.fmod(input, other)) // other
    _check_divisor(result, other)
    return result, (lambda g: xp.zeros_like(g), lambda g: xp.zeros_like(g))


def divide(input, other, *, rounding_mode=None):
    """input / other; rounded down ("floor"), or towards 0 ("trunc")."""
    if rounding_mode is None:
        return div(input, other)
    return div_rounded(input, other, rounding_mode)


@operation(promote="common")
def floor_divide(input, other):
    """The largest integer not above input / other."""
    result = input // other
    _check_divisor(result, other)
    return result, None


@operation(promote="common")
def remainder(input, other):
    """input - other * floor(input / other), with the sign of ``other``."""
    result = input % other
    _check_divisor(result, other)
    return result, (lambda g: g, lambda g: -g * (input // other))


@operation(promote="common")
def fmod(input, other):
    """input - other * trunc(input / other), with the sign of ``input``."""
    xp = array_module(other if isinstance(input, (int, float)) else input)
    result = xp.fmod(input, other)
    _check_divisor(result, other)
    return result, (lambda g: g, lambda g: -g * xp.trunc(input / other))


@operation(promote="common")
def pow(input, exponent):
    """input ** exponent."""
    xp = array_module(exponent if isinstance(input, (int, float)) else input)
    if isinstance(exponent, (int, float)):
        if exponent == 2:
            return input * input, (lambda g: 2 * g * input,)
        if isinstance(exponent, int) and exponent < 0 and input.dtype.kind in "iu":
            raise RuntimeError("integers to negative integer powers are not integers: use .float()")
        return input**exponent, (
            lambda g: g * (exponent * input ** (exponent - 1)) if exponent else xp.zeros_like(g),
        )
    if isinstance(input, (int, float)):
        input = exponent.dtype.type(input)
        exponent = in_rows(exponent)
    out = xp.power(input, exponent)

    def toward_input(g):
        return g * xp.where(exponent == 0, 0, exponent * xp.power(input, exponent - 1))

    def toward_exponent(g):
        return g * xp.where(xp.equal(input, 0) & (exponent >= 0), 0, out * xp.log(input))

    return out, (toward_input, toward_exponent)


@operation()
def neg(input):
    """-input."""
    if input.dtype == bool:
        raise RuntimeError("booleans have no negative: use ~ (logical_not)")
    return -input, lambda g: -g


def _refuse_booleans(input, name):
    if input.dtype == bool:
        raise NotImplementedError(f"{name} is not defined for booleans: use .int()")


def sign_array(x):
    """-1, 0 or 1; 0 also for NaN."""
    xp = array_module(x)
    return xp.nan_to_num(xp.sign(x))


@operation()
def abs(input):
    """The absolute value; its gradient at 0 is 0."""
    _refuse_booleans(input, "abs")
    return array_module(input).abs(input), lambda g: g * sign_array(input)


@operation()
def sign(input):
    """-1, 0 or 1; booleans stay as they are."""
    if input.dtype == bool:
        return input.copy(), None
    return sign_array(input), lambda g: g * 0


def _whole(input, name):
    """Floor, ceil or trunc; integers stay as they are (NumPy before 2.1 makes them floats)."""
    _refuse_booleans(input, name)
    if input.dtype.kind in "iu":
        return input.copy()
    return getattr(array_module(input), name)(input)


@operation()
def floor(input):
    """The largest integer not above each element."""
    return _whole(input, "floor"), lambda g: g * 0


@operation()
def ceil(input):
    """The smallest integer not below each element."""
    return _whole(input, "ceil"), lambda g: g * 0


@operation()
def trunc(input):
    """The integer part: the nearest integer towards 0."""
    return _whole(input, "trunc"), lambda g: g * 0


@operation()
def round(input, decimals=0):
    """The nearest integer, or decimal fraction; halves go to the even one."""
    _refuse_booleans(input, "round")
    return input.round(decimals), lambda g: g * 0


# Functions


@operation(promote="float")
def exp(input):
    """e ** input."""
    out = array_module(input).exp(input)
    return out, lambda g: g * out


@operation(promote="float")
def log(input):
    """The natural logarithm."""
    return array_module(input).log(input), lambda g: g / input


@operation(promote="float")
def log10(input):
    """The logarithm to base 10."""
    return array_module(input).log10(input), lambda g: g / (input * math.log(10))


@operation(promote="float")
def sqrt(input):
    """The square root."""
    out = array_module(input).sqrt(input)
    return out, lambda g: g / (2 * out)


@operation()
def square(input):
    """input * input."""
    return input * input, lambda g: 2 * g * input


@operation(promote="float")
def rsqrt(input):
    """1 / sqrt(input)."""
    out = 1 / array_module(input).sqrt(input)
    return out, lambda g: -0.5 * g * out**3


@operation(promote="float")
def sin(input):
    """The sine, of radians."""
    xp = array_module(input)
    return xp.sin(input), lambda g: g * xp.cos(input)


@operation(promote="float")
def cos(input):
    """The cosine, of radians."""
    xp = array_module(input)
    return xp.cos(input), lambda g: -g * xp.sin(input)


@operation(promote="float")
def tanh(input):
    """The hyperbolic tangent, between -1 and 1. Its derivative is 1 - tanh(input)^2."""
    out = array_module(input).tanh(input)
    return out, lambda g: g * (1 - out * out)


def sigmoid_array(x):
    """1 / (1 + exp(-x)) without overflow: the exponent stops short of the largest number."""
    xp = array_module(x)
    largest = math.log(np.finfo(x.dtype).max) - 1
    return 1 / (1 + xp.exp(xp.minimum(-x, x.dtype.type(largest))))


@operation(promote="float")
def sigmoid(input):
    """s(x) = 1 / (1 + exp(-x)), between 0 and 1. Its derivative is s(x) (1 - s(x))."""
    out = sigmoid_array(input)
    return out, lambda g: g * out * (1 - out)


@operation()
def relu(input):
    """max(input, 0). The gradient at 0 is 0, and at NaN 1."""
    result = array_module(input).maximum(input, 0)
    passed = result != 0
    return result, lambda g: g * passed


@operation(promote="float")
def silu(input):
    """x s(x) with the sigmoid s (Elfwing et al., 2018; also called swish)."""
    s = sigmoid_array(input)
    return input * s, lambda g: g * (s * (1 + input * (1 - s)))


# Choosing


@operation()
def where(condition, input=None, other=None):
    """input where the condition holds, else other; alone, the positions where it holds, by axis."""
    xp = array_module(condition)
    if input is None or other is None:
        if input is not other:
            raise TypeError("where needs both input and other, or neither")
        return tuple([axis.astype("int64") for axis in xp.nonzero(xp.atleast_1d(condition))]), None
    if condition.dtype not in (bool, xp.uint8):
        raise RuntimeError(f"where needs a condition of type bool, got {condition.dtype}")
    chosen = xp.where(condition, input, other)
    return chosen.astype(result_type([input, other]), copy=False), (
        lambda g: None,
        lambda g: xp.where(condition, g, 0),
        lambda g: xp.where(condition, 0, g),
    )


@operation(rows=True)
def masked_fill(input, mask, value):
    """input with ``value``, a number or a tensor without axes, wherever ``mask`` is True."""
    xp = array_module(input)
    if mask.dtype != bool:
        raise RuntimeError(f"masked_fill needs a mask of type bool, got {mask.dtype}: use .bool()")
    if input.dtype.kind in "iu" and isinstance(value, float) and not math.isfinite(value):
        raise RuntimeError(f"a tensor of type {input.dtype} cannot hold {value}: use .float()")
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"masked_fill needs a value without axes; got shape {value.shape}")
    return xp.where(mask, xp.asarray(value, dtype=input.dtype), input), (
        lambda g: xp.where(mask, 0, g),
        None,
        lambda g: xp.where(mask, g, 0),
    )


@operation()
def clamp(input, min=None, max=None):
    """input limited to the range from ``min`` to ``max``, numbers or tensors.

    The gradient goes to the one of the three that is the result; at a tie to the input, and to
    none of them outside of an empty range of tensors with min = max, as in PyTorch.
    """
    xp = array_module(input)
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise RuntimeError("clamp needs min, max or both")
    result = input.astype(result_type([input, *bounds]), copy=False)
    result = result if min is None else xp.maximum(result, min)
    result = result if max is None else xp.minimum(result, max)
    inside = (True if min is None else input >= min) & (True if max is None else input <= max)
    return result, (
        lambda g: g * inside,
        lambda g: g * ((input < min) & (True if max is None else min < max)),
        lambda g: g * ((input > max) | (False if min is None else max < min)),
    )


def _share(lost, shared, dtype):
    """1 for each element that is the result, 1/2 where both are; beside a NaN neither is lost."""
    return (1 - lost - 0.5 * shared).astype(dtype)


@operation(promote="common")
def maximum(input, other):
    """The larger of the two, element by element. Equal elements share the gradient."""
    xp = array_module(input)
    return xp.maximum(input, other), (
        lambda g: g * _share(input < other, input == other, g.dtype),
        lambda g: g * _share(other < input, input == other, g.dtype),
    )


@operation(promote="common")
def minimum(input, other):
    """The smaller of the two, element by element. Equal elements share the gradient."""
    xp = array_module(input)
    return xp.minimum(input, other), (
        lambda g: g * _share(input > other, input == other, g.dtype),
        lambda g: g * _share(other > input, input == other, g.dtype),
    )
