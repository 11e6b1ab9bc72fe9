"""Comparisons and logic: operations without a gradient, most with a boolean result."""

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module

__all__ = """
allclose bitwise_and bitwise_not bitwise_or bitwise_xor eq equal ge gt isclose isfinite isinf isnan
le logical_and logical_not logical_or logical_xor lt ne
""".split()


@operation(promote="common")
def eq(input, other):
    """input == other."""
    return input == other, None


@operation(promote="common")
def ne(input, other):
    """input != other."""
    return input != other, None


@operation(promote="common")
def lt(input, other):
    """input < other."""
    return input < other, None


@operation(promote="common")
def le(input, other):
    """input <= other."""
    return input <= other, None


@operation(promote="common")
def gt(input, other):
    """input > other."""
    return input > other, None


@operation(promote="common")
def ge(input, other):
    """input >= other."""
    return input >= other, None


def check_whole(result_of, *operands):
    """NotImplementedError if a tensor of floating-point numbers is among the operands."""
    if any(getattr(x, "dtype", None) is not None and x.dtype.kind == "f" for x in operands):
        raise NotImplementedError(f"{result_of} needs booleans or integers, got floating point")


@operation(promote="common")
def bitwise_and(input, other):
    """input & other, for booleans and integers."""
    check_whole("&", input, other)
    return input & other, None


@operation(promote="common")
def bitwise_or(input, other):
    """input | other, for booleans and integers."""
    check_whole("|", input, other)
    return input | other, None


@operation(promote="common")
def bitwise_xor(input, other):
    """input ^ other, for booleans and integers."""
    check_whole("^", input, other)
    return input ^ other, None


@operation()
def bitwise_not(input):
    """~input: not, for booleans."""
    if input.dtype.kind == "f":
        raise TypeError(f"~ needs a tensor of booleans or integers, got {input.dtype}")
    return ~input, None


@operation()
def logical_and(input, other):
    """True where both are true, that is, not 0."""
    return array_module(input).logical_and(input, other), None


@operation()
def logical_or(input, other):
    """True where one of the two is true, that is, not 0."""
    return array_module(input).logical_or(input, other), None


@operation()
def logical_xor(input, other):
    """True where just one of the two is true, that is, not 0."""
    return array_module(input).logical_xor(input, other), None


@operation()
def logical_not(input):
    """True where input is 0 or False."""
    return array_module(input).logical_not(input), None


@operation()
def isnan(input):
    """True where input is not a number."""
    return array_module(input).isnan(input), None


@operation()
def isinf(input):
    """True where input is infinite."""
    return array_module(input).isinf(input), None


@operation()
def isfinite(input):
    """True where input is neither infinite nor NaN."""
    return array_module(input).isfinite(input), None


@operation()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other|, element by element."""
    return array_module(input).isclose(input, other, rtol, atol, equal_nan), None


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other| everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


def equal(input, other):
    """Whether two tensors have the same shape and the same elements."""
    return bool(array_module(input.array).array_equal(input.array, other.array))
