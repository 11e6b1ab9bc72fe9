"""``einsum``: the product that names the axes of its operands."""

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module

__all__ = ["einsum"]


def einsum(equation, *operands):
    """Einstein's summation: name the axes of each operand; axes that the result lacks are summed.

    ``einsum("bnd,bmd->bnm", q, k)`` is the product of q and k transposed, for each b. Dots stand
    for leading axes that broadcast.
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return einsum_(*operands, equation=equation)


@operation(promote="common", rows=True)
def einsum_(*operands, equation):
    """The sum of products that the equation names; see ``einsum``."""
    xp = array_module(operands[0])
    inputs, result = explicit_subscripts(equation, operands)

    def toward(k):
        """The product of the gradient with all other operands, in the axes of operand k."""
        subscripts, shape = inputs[k], operands[k].shape
        others = [i for i in range(len(operands)) if i != k]
        known = set(result).union(*(inputs[i] for i in others))
        distinct = "".join(dict.fromkeys(subscripts))
        shared = "".join(c for c in distinct if c in known)
        formula = ",".join([result, *(inputs[i] for i in others)]) + "->" + shared

        def vjp(g):
            product = _einsum(formula, g, *(operands[i] for i in others))
            missing = tuple(i for i, c in enumerate(distinct) if c not in shared)
            product = xp.expand_dims(product, missing)
            if distinct == subscripts:
                return product + xp.zeros(shape, dtype=product.dtype)
            gradient = xp.zeros(shape, dtype=product.dtype)
            xp.einsum(f"{subscripts}->{distinct}", gradient)[...] = product
            return gradient

        return vjp

    value = _einsum(",".join(inputs) + "->" + result, *operands)
    if len(operands) == 1 and xp.may_share_memory(value, operands[0]):
        value = value.copy()
    return value, tuple(toward(k) for k in range(len(operands)))


def explicit_subscripts(equation, operands):
    """The subscripts of the operands and of the result, without spaces, dots or a missing arrow."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise RuntimeError(
            f"einsum: '{equation}' names {len(inputs)} operands, {len(operands)} were given"
        )
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    dots = 0
    for i, (subscripts, operand) in enumerate(zip(inputs, operands, strict=True)):
        if "..." in subscripts:
            count = operand.ndim - len(subscripts.replace("...", ""))
            dots = max(dots, count)
            inputs[i] = subscripts.replace("...", "".join(free[:count][::-1]))
        if len(inputs[i]) != operand.ndim:
            raise RuntimeError(
                f"einsum: '{subscripts}' does not fit an operand of shape {operand.shape}"
            )
    batch = "".join(free[:dots][::-1])
    if arrow:
        return inputs, result.replace("...", batch)
    letters = "".join(inputs)
    return inputs, batch + "".join(
        sorted(c for c in set(letters) - set(batch) if letters.count(c) == 1)
    )


@np.errstate(all="ignore")  # NumPy would warn of overflow in a file of its own
def _einsum(formula, *arrays):
    return array_module(arrays[0]).einsum(formula, *arrays, optimize=True)
