"""Operations that move elements without changing them: views, joins, pieces, triangles."""

from math import prod

import numpy as np

from minitorch.autograd.dispatch import numpy_names, operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import axes_of
from minitorch.backend import array_module, sum_of, to_numpy

__all__ = """
broadcast_tensors cat chunk clone diag_embed diagonal flatten flip is_floating_point numel permute
repeat reshape roll split split_with_sizes squeeze stack t transpose tril triu unbind unflatten
unsqueeze
""".split()


@operation(view=True)
def reshape(input, shape):
    """The same elements, in the same order, in another shape; one size may be -1."""
    before = input.shape
    try:
        return input.reshape(shape), lambda g: g.reshape(before)
    except ValueError:
        raise RuntimeError(
            f"shape {tuple(shape)} does not fit the {input.size} elements of shape {before}"
        ) from None


@operation(view=True)
def view(input, size):
    """``reshape`` that never copies; RuntimeError where the memory layout does not allow that."""
    before, xp = input.shape, array_module(input)
    try:
        result = input.reshape(size)
    except ValueError:
        raise RuntimeError(
            f"shape {tuple(size)} does not fit the {input.size} elements of shape {before}"
        ) from None
    if not input.flags.c_contiguous and input.size and not xp.may_share_memory(result, input):
        raise RuntimeError(
            f"view cannot lay out a tensor of shape {before} and strides "
            f"{tuple(s // input.itemsize for s in input.strides)} as {tuple(size)} without a "
            "copy: use reshape(...) or contiguous().view(...)"
        )
    return result, lambda g: g.reshape(before)


def flatten(input, start_dim=0, end_dim=-1):
    """The axes from ``start_dim`` to ``end_dim`` as one."""
    before = tuple(input.shape)
    if not before:
        return reshape(input, (1,))
    start, end = axes_of((start_dim, end_dim), len(before))
    if start > end:
        raise RuntimeError(f"flatten needs start_dim <= end_dim; got {start_dim} and {end_dim}")
    return reshape(input, (*before[:start], prod(before[start : end + 1]), *before[end + 1 :]))


@operation(view=True)
def permute(input, dims):
    """The axes in another order: axis i of the result is axis dims[i] of the input."""
    axes = axes_of(dims, input.ndim)
    if sorted(axes) != list(range(input.ndim)):
        raise RuntimeError(f"permute needs each of {input.ndim} axes once; got {tuple(dims)}")
    inverse = sorted(range(len(axes)), key=axes.__getitem__)
    return input.transpose(axes), lambda g: g.transpose(inverse)


@operation(view=True)
def transpose(input, dim0, dim1):
    """Two axes exchanged."""
    if not input.ndim:
        return input[...], lambda g: g
    first, second = axes_of((dim0, dim1), input.ndim)
    return input.swapaxes(first, second), lambda g: g.swapaxes(first, second)


@operation(view=True)
def squeeze(input, dim=None):
    """Without the axes of size 1: all of them, or those of ``dim`` that have size 1."""
    before = input.shape
    axes = tuple(a for a in axes_of(dim, input.ndim) if input.shape[a] == 1)
    return input.squeeze(axes), lambda g: g.reshape(before)


@operation(view=True)
def unsqueeze(input, dim):
    """With a new axis of size 1 at ``dim``."""
    (axis,) = axes_of(dim, input.ndim + 1)
    before = input.shape
    return input.reshape(*before[:axis], 1, *before[axis:]), lambda g: g.reshape(before)


@operation(view=True)
def expand(input, size):
    """The tensor repeated, without a copy, along axes of size 1 and new leading axes.

    A size of -1 leaves an axis as it is.
    """
    sizes, added = tuple(size), len(size) - input.ndim
    if added < 0 or -1 in sizes[:added]:
        raise RuntimeError(
            f"expand needs a size for each of {input.ndim} axes, and no -1 for new ones; "
            f"got {sizes}"
        )
    kept = (1,) * added + input.shape
    target = tuple(k if s == -1 else s for s, k in zip(sizes, kept, strict=True))
    if any(k not in (1, t) for k, t in zip(kept, target, strict=True)):
        raise RuntimeError(
            f"expand repeats only axes of size 1; shape {input.shape} cannot become {sizes}"
        )
    if target == kept:
        return input.reshape(target), lambda g: g
    return array_module(input).broadcast_to(input, target), lambda g: g


@operation()
def clone(input, memory_format=None):
    """A copy, with the axes in the same order in memory; the gradient flows to the original."""
    return input.copy(order="K"), lambda g: g


@operation()
def contiguous_(input):
    """See ``contiguous``."""
    return input.copy(), lambda g: g


def contiguous(input, memory_format=None):
    """The same values laid out row by row in memory: itself where they are already."""
    return input if input.array.flags.c_contiguous else contiguous_(input)


@operation()
def to_dtype(input, dtype):
    """The values in another type."""
    return input.astype(dtype), (lambda g: g,)


@operation()
def to_module(input, module):
    """The values as an array of another array module, that is, on another device."""
    back = array_module(input)
    return module.asarray(to_numpy(input)), (lambda g: back.asarray(to_numpy(g)),)


@operation()
def flip(input, dims):
    """The order along the axes ``dims`` reversed."""
    xp, axes = array_module(input), axes_of(dims, input.ndim)
    return xp.flip(input, axes).copy(order="K"), lambda g: xp.flip(g, axes)


@operation(rows=True)
def roll(input, shifts, dims=None):
    """Elements moved along ``dims`` by ``shifts``; what leaves at the end enters at the start."""
    xp = array_module(input)
    back = tuple(-s for s in shifts) if isinstance(shifts, tuple) else -shifts
    return xp.roll(input, shifts, dims), lambda g: xp.roll(g, back, dims)


@operation(rows=True)
def repeat(input, sizes):
    """The tensor laid side by side ``sizes[i]`` times along axis i."""
    xp, shape = array_module(input), input.shape
    if len(sizes) < input.ndim:
        raise RuntimeError(f"repeat needs at least {input.ndim} sizes; got {tuple(sizes)}")
    shape = (1,) * (len(sizes) - len(shape)) + shape

    def vjp(g):
        tiles = [part for count, size in zip(sizes, shape, strict=True) for part in (count, size)]
        return sum_of(g.reshape(tiles), tuple(range(0, 2 * len(sizes), 2)))

    return xp.tile(input, sizes), (vjp,)


def _check_matrices(input, name):
    if input.ndim < 2:
        raise RuntimeError(f"{name} needs at least 2 axes; got shape {input.shape}")
    return array_module(input)


@operation(rows=True)
def tril(input, diagonal=0):
    """The lower triangle of the last two axes, from the given diagonal down; zeros above."""
    xp = _check_matrices(input, "tril")
    return xp.tril(input, diagonal), lambda g: xp.tril(g, diagonal)


@operation(rows=True)
def triu(input, diagonal=0):
    """The upper triangle of the last two axes, from the given diagonal up; zeros below."""
    xp = _check_matrices(input, "triu")
    return xp.triu(input, diagonal), lambda g: xp.triu(g, diagonal)


@operation(view=True)
def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonal of the axes ``dim1`` and ``dim2``, as a last axis, ``offset`` places above."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype
    first, second = axes_of((dim1, dim2), input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal needs two different axes; got {dim1} and {dim2}")

    def taken(array):
        moved = xp.moveaxis(array, (first, second), (-2, -1))
        rows = max(0, min(moved.shape[-2] + min(offset, 0), moved.shape[-1] - max(offset, 0)))
        corner = moved[..., max(-offset, 0) :, max(offset, 0) :][..., :rows, :rows]
        return xp.einsum("...ii->...i", corner)

    def vjp(g):
        result = xp.zeros(shape, dtype=dtype)
        taken(result)[...] = g
        return result

    return taken(input), (vjp,)


@operation()
def diag_embed(input, offset=0):
    """Matrices with the last axis on their diagonal, ``offset`` places above, zeros elsewhere."""
    xp, count = array_module(input), input.shape[-1]
    size, steps = count + abs(offset), xp.arange(count)
    places = (..., steps + max(-offset, 0), steps + max(offset, 0))
    result = xp.zeros((*input.shape[:-1], size, size), dtype=input.dtype)
    result[places] = input
    return result, (lambda g: g[places],)


@operation(promote="common", rows=True)
def cat_(*tensors, dim):
    """The tensors joined along the axis ``dim``."""
    xp = array_module(tensors[0])
    sizes = [t.shape[dim] for t in tensors]
    return xp.concatenate(tensors, axis=dim), lambda g: _pieces(g, sizes, dim)


@operation(promote="common", rows=True)
def stack_(*tensors, dim):
    """The tensors, all of one shape, joined along a new axis ``dim``."""
    xp = array_module(tensors[0])
    return xp.stack(tensors, axis=dim), lambda g: tuple(xp.moveaxis(g, dim, 0))


def listed(tensors, name, empty=RuntimeError):
    """A list or tuple of tensors; TypeError for anything else, the error ``empty`` for none."""
    if not isinstance(tensors, (list, tuple)):
        wrong = [tensors]
    else:
        wrong = [t for t in tensors if not isinstance(t, TensorBase)]
    if wrong:
        kind = type(wrong[0]).__name__
        raise TypeError(f"{name} takes a list or tuple of tensors, got {kind}")
    if not tensors:
        raise empty(f"{name} needs at least one tensor")
    return tensors


@numpy_names
def cat(tensors, dim=0):
    """The tensors joined along ``dim``. All other sizes must agree; RuntimeError otherwise.

    A tensor of shape (0,) fits everywhere.
    """
    tensors = listed(tensors, "cat", empty=ValueError)
    shapes = [t.array.shape for t in tensors]
    if (0,) in shapes:
        tensors = [t for t in tensors if t.array.shape != (0,)] or tensors
        shapes = [t.array.shape for t in tensors]
    if () in shapes:
        raise RuntimeError("cat joins tensors with axes: use stack for tensors without")
    (axis,) = axes_of(dim, len(shapes[0]))
    try:
        return cat_(*tensors, dim=axis)
    except RuntimeError:
        if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) == 1:
            raise
    raise RuntimeError(f"cat along dim {dim} needs equal sizes elsewhere; got shapes {shapes}")


@numpy_names
def stack(tensors, dim=0):
    """The tensors joined along a new axis ``dim``. RuntimeError unless all shapes are equal."""
    tensors = listed(tensors, "stack")
    shapes = [tuple(t.shape) for t in tensors]
    if len(set(shapes)) > 1:
        raise RuntimeError(f"stack needs tensors of one shape; got {shapes}")
    return stack_(*tensors, dim=axes_of(dim, len(shapes[0]) + 1)[0])


def _pieces(array, sizes, axis):
    """Views of the array, of these sizes along ``axis``."""
    before, pieces, start = (slice(None),) * axis, [], 0
    for size in sizes:
        pieces.append(array[(*before, slice(start, start + size))])
        start += size
    return tuple(pieces)


@operation(view=True)
def split_with_sizes(input, split_sizes, dim=0):
    """Pieces of the given sizes along ``dim``."""
    xp, dtype = array_module(input), input.dtype
    (axis,) = axes_of(dim, input.ndim)
    if sum(split_sizes) != input.shape[axis]:
        raise RuntimeError(
            f"the sizes {list(split_sizes)} add up to {sum(split_sizes)}, "
            f"but dim {dim} has {input.shape[axis]}"
        )
    before, after = input.shape[:axis], input.shape[axis + 1 :]

    def vjp(grads):
        filled = [
            xp.zeros((*before, size, *after), dtype=dtype) if g is None else g
            for g, size in zip(grads, split_sizes, strict=True)
        ]
        return (xp.concatenate(filled, axis=axis),)

    return _pieces(input, split_sizes, axis), vjp


def split(input, split_size_or_sections, dim=0):
    """Pieces of one size along ``dim``, the last perhaps smaller, or of the given sizes."""
    sizes = split_size_or_sections
    if isinstance(sizes, int):
        if sizes <= 0:
            raise RuntimeError(f"split needs a positive size, got {sizes}")
        (axis,) = axes_of(dim, input.ndim)
        length = input.shape[axis]
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)] or [0]
    return split_with_sizes(input, tuple(sizes), dim)


def chunk(input, chunks, dim=0):
    """At most ``chunks`` pieces of equal size along ``dim``, the last perhaps smaller."""
    if chunks <= 0:
        raise RuntimeError(f"chunk needs a positive number of pieces; got {chunks}")
    (axis,) = axes_of(dim, input.ndim)
    return split(input, max(1, -(-input.shape[axis] // chunks)), axis)


@operation(view=True)
def unbind(input, dim=0):
    """The slices along ``dim``, without that axis."""
    xp, dtype = array_module(input), input.dtype
    (axis,) = axes_of(dim, input.ndim)
    moved = xp.moveaxis(input, axis, 0)
    shape = moved.shape[1:]

    def vjp(grads):
        filled = [xp.zeros(shape, dtype=dtype) if g is None else g for g in grads]
        return (xp.stack(filled, axis=axis),)

    return tuple(moved[i, ...] for i in range(len(moved))), vjp


# Functions that the above are enough for


def numel(input):
    """The number of elements."""
    return input.array.size


def is_floating_point(input):
    """Whether the type is a floating-point one."""
    return input.array.dtype.kind == "f"


def t(input):
    """The transpose of a matrix; a tensor with fewer axes as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() needs at most 2 axes, got {input.ndim}: use transpose")
    return input if input.ndim < 2 else transpose(input, 0, 1)


def unflatten(input, dim, sizes):
    """One axis as several, of the given sizes."""
    (axis,), shape = axes_of(dim, input.ndim), tuple(input.shape)
    return reshape(input, (*shape[:axis], *sizes, *shape[axis + 1 :]))


def broadcast_tensors(*tensors):
    """The tensors expanded to the one shape to which they broadcast."""
    target = np.broadcast_shapes(*(x.array.shape for x in tensors))
    return tuple(expand(x, target) for x in tensors)
