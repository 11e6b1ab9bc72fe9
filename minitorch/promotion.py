"""The type in which operands of several types are computed: PyTorch's rules."""

import functools

import numpy as np

from minitorch.backend import get_default_dtype, numpy_dtype


def _category(dtype):
    return "biuf".index(dtype.kind.replace("u", "i"))


def _promote_types(first, second):
    """The NumPy type that holds both, with PyTorch's rule that an integer never widens a float."""
    if first.kind == "f" and second.kind != "f":
        return first
    if second.kind == "f" and first.kind != "f":
        return second
    return np.promote_types(first, second)


def result_type(operands):
    """The type in which PyTorch computes on these arrays and Python numbers.

    Arrays with axes decide. Arrays without axes, and after them Python numbers, count only when
    they are of a higher category (boolean, integer, floating) than those before.
    """
    ranks = ([], [], [])
    for operand in operands:
        if isinstance(operand, np.generic):
            operand = operand.item()
        if isinstance(operand, (bool, int, float)):
            kind = get_default_dtype() if type(operand) is float else type(operand)
            ranks[2].append(numpy_dtype(kind))
        else:
            ranks[0 if operand.ndim else 1].append(operand.dtype)
    result = None
    for types in ranks:
        if not types:
            continue
        candidate = functools.reduce(_promote_types, types)
        if result is None or _category(candidate) > _category(result):
            result = candidate
    return result


def promoted(operands, floating=False):
    """The operands, with every array in the type of the result; ``floating``: never an integer."""
    common = result_type(operands)
    if floating and common.kind != "f":
        common = get_default_dtype().numpy
    return [
        x if isinstance(x, (bool, int, float)) or x.dtype == common else x.astype(common)
        for x in operands
    ]


def of_one_type(operands, count, promote):
    """Whether the operands are of one type already, so that nothing has to be promoted."""
    dtype = getattr(operands[0], "dtype", None)
    if dtype is None or (promote == "float" and dtype.kind != "f"):
        return False
    for other in operands[1:count]:
        if getattr(other, "dtype", None) is not dtype:
            if dtype.kind != "f" or not (type(other) is float or type(other) is int):
                return False
    return True
