"""Axes and sizes: as users give them, as a tensor shows them, as products and broadcasting need."""

import math
from operator import index

from minitorch.backend import sum_of


def axes_of(dim, ndim):
    """``dim`` as a tuple of axes from 0; IndexError when there is no such axis.

    One axis or several, counted from the end where negative; None for all.
    """
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    if dim is None:
        return tuple(range(ndim))
    dims = (dim,) if hasattr(dim, "__index__") else tuple(dim)
    limit = ndim or 1
    for d in dims:
        if not -limit <= d < limit:
            raise IndexError(f"dim must be between {-ndim} and {ndim - 1} for {ndim} axes; got {d}")
    return tuple([d % ndim for d in dims]) if ndim else ()


def sizes_of(sizes):
    """Sizes given one by one or as one sequence. TypeError unless they are integers."""
    if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
        sizes = sizes[0]
    try:
        return tuple([index(size) for size in sizes])
    except TypeError:
        raise TypeError(f"sizes are integers; got {sizes} (// divides integers)") from None


def check_axes(name, *wanted):
    """RuntimeError unless each tensor has its number of axes: pairs of the two."""
    for tensor, axes in wanted:
        if tensor.ndim != axes:
            raise RuntimeError(
                f"{name} needs {' and '.join(str(n) for _, n in wanted)} axes; "
                f"got shapes {', '.join(str(tuple(t.shape)) for t, _ in wanted)}"
            )


def fold(array):
    """All leading axes as one: (..., n) -> (N, n)."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def transposed(array):
    """The last two axes exchanged."""
    return array.swapaxes(-1, -2)


def unbroadcast(grad, shape):
    """Undo broadcasting: sum ``grad`` over the axes along which an input of ``shape`` was repeated.

    Broadcasting copies a value to several places; the gradient of a copy is added to the others'.
    """
    added = grad.ndim - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(grad.shape)
        if axis < added or (size != 1 and shape[axis - added] == 1)
    )
    total = sum_of(grad, axes, True)
    if total.shape[added:] != shape:
        raise RuntimeError(
            f"a gradient of shape {grad.shape} arrived at a tensor of shape {shape}: its data were "
            "replaced by others of that shape after it was used"
        )
    return total.reshape(shape)


class Size(tuple):
    """The shape of a tensor: a tuple that prints as PyTorch's does."""

    def numel(self):
        """The number of elements, the product of the sizes."""
        return math.prod(self)

    def __getitem__(self, index):
        part = super().__getitem__(index)
        return Size(part) if isinstance(index, slice) else part

    def __add__(self, other):
        return Size(super().__add__(other))

    def __radd__(self, other):
        return Size((*other, *self))

    def __mul__(self, count):
        return Size(super().__mul__(count))

    __rmul__ = __mul__

    def __repr__(self):
        return f"minitorch.Size({list(self)})"
