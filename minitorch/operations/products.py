"""Products: of matrices, of batches of matrices, of vectors, and a linear layer's."""

from minitorch.autograd.dispatch import operation
from minitorch.axes import check_axes, fold, transposed
from minitorch.backend import array_module
from minitorch.operations.elementwise import mul
from minitorch.operations.shapes import unsqueeze

__all__ = ["bmm", "dot", "matmul", "mm", "outer"]


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


def dot(input, tensor):
    """The inner product of two vectors: (d) @ (d) -> ()."""
    check_axes("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


def outer(input, vec2):
    """Every element of one vector times every element of another: (n), (m) -> (n, m)."""
    check_axes("outer", (input, 1), (vec2, 1))
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))
