"""Axes and sizes as users give them: one number or several, counted from the end where negative."""

from operator import index


def axes_of(dim, ndim):
    """``dim`` as a tuple of axes from 0; IndexError when there is no such axis."""
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
