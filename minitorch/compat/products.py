"""Products, and sums with products, that no chapter and no exercise uses."""

import math

from minitorch.autograd.dispatch import operation
from minitorch.axes import axes_of, check_axes
from minitorch.backend import array_module
from minitorch.compat.functions import numbers_first
from minitorch.operations import reductions
from minitorch.operations.elementwise import add, mul, sub
from minitorch.operations.products import bmm, matmul, mm, outer
from minitorch.operations.shapes import permute, reshape, unsqueeze

__all__ = "addmm addmv addr baddbmm cdist ger inner mv tensordot".split()

ger = outer


def mv(input, vec):
    """The product of a matrix and a vector: (n, d) @ (d) -> (n)."""
    check_axes("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


@numbers_first("beta", "alpha")
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    return _sum(input, mm(mat1, mat2), beta, alpha)


@numbers_first("beta", "alpha")
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    return _sum(input, mv(mat, vec), beta, alpha)


@numbers_first("beta", "alpha")
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta * input + alpha * (the outer product of two vectors)."""
    return _sum(input, outer(vec1, vec2), beta, alpha)


@numbers_first("beta", "alpha")
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2), for batches of matrices."""
    return _sum(input, bmm(batch1, batch2), beta, alpha)


def _sum(input, product, beta, alpha):
    """beta * input + alpha * product; where beta is 0 the input may hold anything."""
    return add(mul(input, beta), product, alpha=alpha) if beta else add(mul(product, alpha), 0)


def inner(input, other):
    """The sums over the last axes of both: (..., d), (***, d) -> (..., ***)."""
    if not (input.ndim and other.ndim):
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner needs one size of the last axes; "
            f"got shapes {tuple(input.shape)} and {tuple(other.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]))


def tensordot(a, b, dims=2):
    """Sums of products over ``dims`` axes, the last of ``a`` and the first of ``b``.

    Or over two lists of axes, those of ``a`` and those of ``b``. The other axes stay, a's first.
    """
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot needs dims that are not negative; got {dims}")
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    ours, theirs = (axes_of(list(axes), x.ndim) for axes, x in zip(dims, (a, b), strict=True))
    sizes = [[x.shape[axis] for axis in axes] for x, axes in ((a, ours), (b, theirs))]
    if sizes[0] != sizes[1]:
        raise RuntimeError(
            f"tensordot sums over axes of equal sizes; got {sizes[0]} of shape {tuple(a.shape)} "
            f"and {sizes[1]} of shape {tuple(b.shape)}"
        )
    left = [axis for axis in range(a.ndim) if axis not in ours]
    right = [axis for axis in range(b.ndim) if axis not in theirs]
    shape = [a.shape[axis] for axis in left] + [b.shape[axis] for axis in right]
    count = math.prod(sizes[0])
    rows = math.prod(a.shape[axis] for axis in left)
    columns = math.prod(b.shape[axis] for axis in right)
    first = reshape(permute(a, (*left, *ours)), (rows, count))
    second = reshape(permute(b, (*theirs, *right)), (count, columns))
    return reshape(matmul(first, second), tuple(shape))


def cdist(x1, x2, p=2.0):
    """The p-norms of all differences of rows: (..., n, d), (..., m, d) -> (..., n, m)."""
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "cdist needs (..., n, d) and (..., m, d); "
            f"got shapes {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    return reductions.norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, -1)


@operation()
def qr(input):
    """Q with orthonormal columns and R, upper triangular, with Q R = input (..., n, m).

    Toward the input, for n >= m: (gQ + Q C) R^-T, where C is the lower triangle of R gR^T - gQ^T Q,
    copied to the upper one (Walter and Lehmann, 2018).
    """
    xp = array_module(input)
    q, r = xp.linalg.qr(input)

    def vjp(grads):
        if input.shape[-2] < input.shape[-1]:
            raise NotImplementedError("qr has a gradient where there are as many rows as columns")
        toward_q, toward_r = (
            xp.zeros_like(x) if g is None else g for g, x in zip(grads, (q, r), strict=True)
        )
        middle = r @ toward_r.swapaxes(-1, -2) - toward_q.swapaxes(-1, -2) @ q
        lower = xp.tril(middle)
        symmetric = lower + xp.tril(middle, -1).swapaxes(-1, -2)
        right = toward_q + q @ symmetric
        return xp.linalg.solve(r, right.swapaxes(-1, -2)).swapaxes(-1, -2)

    return (q, r), vjp
