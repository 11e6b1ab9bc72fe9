"""Products: of matrices, of batches of matrices, and the general einsum."""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.axes import check_axes
from minitorch.backend import array_module
from minitorch.operations import reductions
from minitorch.operations.elementwise import add, mul
from minitorch.operations.shapes import diagonal, unsqueeze

__all__ = ["addmm", "baddbmm", "bmm", "dot", "einsum", "matmul", "mm", "mv", "outer", "trace"]


def fold(array):
    """All leading axes as one: (..., n) -> (N, n)."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def transposed(array):
    """The last two axes exchanged."""
    return array.swapaxes(-1, -2)


def _check_types(name, input, other):
    if getattr(other, "dtype", None) != input.dtype:
        kind = getattr(other, "dtype", type(other).__name__)
        error = RuntimeError if hasattr(other, "dtype") else TypeError
        raise error(
            f"{name} needs two tensors of one type, got {input.dtype} and {kind}: use .to()"
        )


@operation()
def matmul(input, other):
    """The matrix product of the last two axes; leading axes are a batch and broadcast.

    (..., n, d) @ (..., d, m) -> (..., n, m). A tensor with one axis is a row on the left, a column
    on the right, and that axis is absent from the result.
    """
    _check_types("matmul", input, other)
    if not input.ndim or not other.ndim:
        raise RuntimeError("matmul needs tensors with at least one axis; use * for a scalar")
    inner = other.shape[-2] if other.ndim > 1 else other.shape[0]
    if input.shape[-1] != inner:
        raise RuntimeError(
            f"matmul of shapes {input.shape} and {other.shape}: "
            f"the inner sizes {input.shape[-1]} and {inner} must be equal"
        )
    xp = array_module(input)
    row, column = input.ndim == 1, other.ndim == 1
    left = input[None, :] if row else input
    right = other[:, None] if column else other
    one_matrix = right.ndim == 2 and left.ndim > 2
    if one_matrix:
        result = (fold(left) @ right).reshape(*left.shape[:-1], right.shape[-1])
    else:
        result = left @ right

    def restored(g):
        g = xp.expand_dims(g, -1) if column else g
        return xp.expand_dims(g, -2) if row else g

    def toward_input(g):
        g = restored(g)
        if one_matrix:
            product = (fold(g) @ right.T).reshape(left.shape)
        else:
            product = g @ transposed(right)
        return product[..., 0, :] if row else product

    def toward_other(g):
        g = restored(g)
        product = fold(left).T @ fold(g) if one_matrix else transposed(left) @ g
        return product[..., 0] if column else product

    if row:
        result = result[..., 0, :]
    return result[..., 0] if column else result, (toward_input, toward_other)


# With so many rows, BLAS multiplies from the left up to twice as fast as from the right.
FEW = range(8, 49)


@operation()
def linear(input, weight, bias=None):
    """input @ weight^T + bias: (..., in) x (out, in) -> (..., out)."""
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear with in_features={weight.shape[-1]} got input of shape {input.shape}: "
            f"last dimension must be {weight.shape[-1]}"
        )
    _check_types("linear", input, weight)
    before, rows = input.shape, input if input.ndim == 2 else fold(input)
    if len(rows) in FEW:
        result = array_module(input).ascontiguousarray(weight.dot(rows.T).T)
    else:
        result = rows.dot(weight.T)
    if bias is not None:
        result += bias

    def toward_input(g):
        g = fold(g)
        product = g * weight if len(weight) == 1 else g @ weight  # BLAS is slow for one column
        return product.reshape(before)

    def toward_bias(g):
        g = fold(g)
        return array_module(g).ones(len(g), dtype=g.dtype) @ g  # BLAS sums faster than sum

    return result.reshape(*before[:-1], weight.shape[0]), (
        toward_input,
        lambda g: fold(g).T @ fold(input),
        toward_bias,
    )


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


@operation(promote="common")
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


def einsum(equation, *operands):
    """Einstein's summation: name the axes of each operand; axes that the result lacks are summed.

    ``einsum("bnd,bmd->bnm", q, k)`` is the product of q and k transposed, for each b. Dots stand
    for leading axes that broadcast.
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return einsum_(*operands, equation=equation)


# Products of given numbers of axes


def mm(input, mat2):
    """The product of two matrices: (n, d) @ (d, m) -> (n, m)."""
    check_axes("mm", (input, 2), (mat2, 2))
    return matmul(input, mat2)


def bmm(input, mat2):
    """The products of two batches of matrices: (b, n, d) @ (b, d, m) -> (b, n, m)."""
    check_axes("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm needs batches of one size; got shapes {tuple(input.shape)}, {tuple(mat2.shape)}"
        )
    return matmul(input, mat2)


def mv(input, vec):
    """The product of a matrix and a vector: (n, d) @ (d) -> (n)."""
    check_axes("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


def dot(input, tensor):
    """The inner product of two vectors: (d) @ (d) -> ()."""
    check_axes("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    return add(mul(input, beta), mm(mat1, mat2), alpha=alpha)


def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2), for batches of matrices."""
    return add(mul(input, beta), bmm(batch1, batch2), alpha=alpha)


def outer(input, vec2):
    """Every element of one vector times every element of another: (n), (m) -> (n, m)."""
    check_axes("outer", (input, 1), (vec2, 1))
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))


def trace(input):
    """The sum of a matrix's diagonal."""
    check_axes("trace", (input, 2))
    return reductions.sum(diagonal(input))
