"""Functions that other operations are enough for."""

import numpy as np

from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module
from minitorch.operations import elementwise, shapes
from minitorch.operations.elementwise import add, mul, sub
from minitorch.operations.indexing import gather, nonzero
from minitorch.operations.logic import isclose
from minitorch.operations.products import matmul
from minitorch.operations.reductions import axes_of, mean, std, sum, var
from minitorch.operations.shapes import expand, reshape, transpose, unsqueeze

# Products with shapes of their own


def _check_axes(name, *wanted):
    for tensor, axes in wanted:
        if tensor.ndim != axes:
            raise RuntimeError(
                f"{name} needs {' and '.join(str(n) for _, n in wanted)} axes; "
                f"got shapes {', '.join(str(tuple(t.shape)) for t, _ in wanted)}"
            )


def mm(input, mat2):
    """The product of two matrices: (n, d) @ (d, m) -> (n, m)."""
    _check_axes("mm", (input, 2), (mat2, 2))
    return matmul(input, mat2)


def bmm(input, mat2):
    """The products of two batches of matrices: (b, n, d) @ (b, d, m) -> (b, n, m)."""
    _check_axes("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm needs batches of one size; got shapes {tuple(input.shape)}, {tuple(mat2.shape)}"
        )
    return matmul(input, mat2)


def mv(input, vec):
    """The product of a matrix and a vector: (n, d) @ (d) -> (n)."""
    _check_axes("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


def dot(input, tensor):
    """The inner product of two vectors: (d) @ (d) -> ()."""
    _check_axes("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    return add(mul(input, beta), mm(mat1, mat2), alpha=alpha)


def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2), for batches of matrices."""
    return add(mul(input, beta), bmm(batch1, batch2), alpha=alpha)


def outer(input, vec2):
    """Every element of one vector times every element of another: (n), (m) -> (n, m)."""
    _check_axes("outer", (input, 1), (vec2, 1))
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))


def trace(input):
    """The sum of a matrix's diagonal."""
    _check_axes("trace", (input, 2))
    return sum(shapes.diagonal(input))


# Arithmetic


def divide(input, other, *, rounding_mode=None):
    """input / other; rounded down ("floor"), or towards 0 ("trunc")."""
    if rounding_mode is None:
        return elementwise.div(input, other)
    return elementwise.div_rounded(input, other, rounding_mode)


def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 * tensor2."""
    return add(input, mul(tensor1, tensor2), alpha=value)


def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 / tensor2."""
    return add(input, elementwise.div(tensor1, tensor2), alpha=value)


def lerp(input, end, weight):
    """input + weight * (end - input)."""
    return add(input, mul(sub(end, input), weight))


# Statistics


def var_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance and the mean over ``dim``; see ``var``."""
    return (
        var(input, dim, unbiased, keepdim, correction=correction),
        mean(input, None if isinstance(dim, bool) else dim, keepdim),
    )


def std_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation and the mean over ``dim``; see ``std``."""
    return (
        std(input, dim, unbiased, keepdim, correction=correction),
        mean(input, None if isinstance(dim, bool) else dim, keepdim),
    )


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other| everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


def equal(input, other):
    """Whether two tensors have the same shape and the same elements."""
    return bool(array_module(input.array).array_equal(input.array, other.array))


def is_tensor(obj):
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)


# Positions and shapes


def numel(input):
    """The number of elements."""
    return input.array.size


def is_floating_point(input):
    """Whether the type is a floating-point one."""
    return input.array.dtype.kind == "f"


def argwhere(input):
    """The positions of the elements that are not zero, one row each."""
    return nonzero(input)


def take_along_dim(input, indices, dim=None):
    """``gather`` whose index broadcasts; without ``dim``, from the flattened tensor."""
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    (axis,) = axes_of(dim, input.ndim)
    rest = [(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in (input, indices)]
    sizes = np.broadcast_shapes(*rest)
    sizes = (*sizes[:axis], -1, *sizes[axis + 1 :])
    return gather(expand(input, sizes), axis, expand(indices, sizes))


def t(input):
    """The transpose of a matrix; a tensor with fewer axes as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() needs at most 2 axes, got {input.ndim}: use transpose")
    return input if input.ndim < 2 else transpose(input, 0, 1)


def diag(input, diagonal=0):
    """The diagonal of a matrix, or the matrix with a vector as its diagonal."""
    if input.ndim != 1:
        _check_axes("diag", (input, 2))
        return shapes.diagonal(input, diagonal)
    return shapes.diag_embed(input, diagonal)


def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid: for each vector a tensor that varies along an axis of its own.

    ``indexing="xy"`` exchanges the first two axes.
    """
    tensors = tensors[0] if len(tensors) == 1 and not is_tensor(tensors[0]) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"indexing must be 'ij' or 'xy'; got {indexing!r}")
    sizes = [numel(x) for x in tensors]
    grids = [
        expand(reshape(x, (-1,) + (1,) * (len(sizes) - 1 - i)), sizes)
        for i, x in enumerate(tensors)
    ]
    return tuple(transpose(x, 0, 1) for x in grids) if indexing == "xy" else tuple(grids)


def broadcast_tensors(*tensors):
    """The tensors expanded to the one shape to which they broadcast."""
    target = np.broadcast_shapes(*(x.array.shape for x in tensors))
    return tuple(expand(x, target) for x in tensors)


def tile(input, dims):
    """``repeat``, where missing sizes are 1."""
    return shapes.repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


def narrow(input, dim, start, length):
    """``length`` elements along ``dim``, from ``start`` on."""
    return input[(slice(None),) * axes_of(dim, input.ndim)[0] + (slice(start, start + length),)]


def select(input, dim, index):
    """The slice at one position along ``dim``, without that axis."""
    return input[(slice(None),) * axes_of(dim, input.ndim)[0] + (index,)]


def movedim(input, source, destination):
    """The axes ``source`` moved to the places ``destination``; the others keep their order."""
    source, destination = axes_of(source, input.ndim), axes_of(destination, input.ndim)
    order = [axis for axis in range(input.ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return shapes.permute(input, tuple(order))


def unflatten(input, dim, sizes):
    """One axis as several, of the given sizes."""
    (axis,), shape = axes_of(dim, input.ndim), tuple(input.shape)
    return reshape(input, (*shape[:axis], *sizes, *shape[axis + 1 :]))


def hstack(tensors):
    """The tensors joined side by side: along axis 1, vectors along their only one."""
    tensors = shapes.listed(tensors, "hstack")
    return shapes.cat(tensors, 0 if tensors[0].ndim < 2 else 1)


def vstack(tensors):
    """The tensors joined one below the other; vectors are rows."""
    tensors = shapes.listed(tensors, "vstack")
    return shapes.cat([unsqueeze(x, 0) if x.ndim < 2 else x for x in tensors])
