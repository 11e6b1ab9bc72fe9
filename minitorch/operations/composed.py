"""Functions that other operations are enough for."""

from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module
from minitorch.operations.elementwise import mul
from minitorch.operations.shapes import unsqueeze


def outer(input, vec2):
    """Every element of one vector times every element of another: (n), (m) -> (n, m)."""
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other| everywhere."""
    xp = array_module(input.array)
    return bool(xp.allclose(input.array, other.array, rtol=rtol, atol=atol, equal_nan=equal_nan))


def equal(input, other):
    """Whether two tensors have the same shape and the same elements."""
    return bool(array_module(input.array).array_equal(input.array, other.array))


def is_tensor(obj):
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)
