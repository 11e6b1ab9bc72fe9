"""Operations that read or write elements by position."""

from operator import index as index_of

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import axes_of, check_axes
from minitorch.backend import array_module, in_rows, sum_of
from minitorch.operations import shapes
from minitorch.operations.elementwise import where

__all__ = """
argwhere bincount diag gather index_add index_copy index_fill index_select masked_select narrow
nonzero repeat_interleave scatter scatter_add select unique
""".split()


def as_index(index, xp):
    """An index with arrays of the module ``xp`` in place of tensors and lists.

    As in PyTorch, negative steps are refused, and uint8 is a mask.
    """
    if index is None or index is ... or type(index) in (int, bool):
        return index
    if isinstance(index, tuple):
        return tuple([as_index(part, xp) for part in index])
    if isinstance(index, TensorBase):
        if index.array.dtype.kind == "f":
            raise IndexError(f"an index is made of integers or booleans; got {index.dtype}")
        if not index.array.ndim and index.array.dtype.kind == "i":
            return index.array.item()
        if array_module(index.array) not in (xp, np):
            raise RuntimeError(
                f"an index into a tensor on the CPU lies there too; this one is on {index.device}: "
                "use index.cpu()"
            )
        array = xp.asarray(index.array)
        return array != 0 if array.dtype == "uint8" else array
    if isinstance(index, list):
        numbers = [part.tolist() if isinstance(part, TensorBase) else part for part in index]
        return xp.asarray(np.asarray(numbers, dtype=np.int64 if not numbers else None))
    if isinstance(index, np.integer):
        return int(index)
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        if index.step is not None and index.step <= 0:
            raise ValueError("a slice's step must be positive: use flip() to reverse an axis")
        if {*map(type, parts)} <= {int, type(None)}:
            return index
        return slice(*[None if part is None else part.__index__() for part in parts])
    if isinstance(index, (str, bytes)):
        raise TypeError(f"an index is made of integers, slices and tensors; got {index!r}")
    return index


def add_at(array, index, values):
    """array[index] += values, where a position that occurs twice is added to twice."""
    array_module(array).add.at(array, index, values)


def _added_up(g, places, shape, within=...):
    """Zeros of ``shape`` with ``g`` added at the places: the gradient of reading them.

    ``within`` is the view of the whole that the places are counted in.
    """
    result = array_module(g).zeros(shape, dtype=g.dtype)
    add_at(result[within], places, g)
    return result


def _cleared(g, places, within=...):
    """A copy of ``g`` with zeros at the places: the gradient of what was overwritten there."""
    g = g.copy()
    g[within][places] = 0
    return g


def split_index(index, ndim):
    """An index as two that are applied one after the other: integers first, then the rest.

    PyTorch lets an integer pick a slice before integer arrays are looked at, so that
    ``x[0, :, array]`` keeps the order of its axes; NumPy would move the array's axis to the front.
    """
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if hasattr(part, "dtype") and part.ndim]
    if not arrays or not any(isinstance(part, int) for part in parts):
        return ..., index
    used = sum(
        part.ndim if hasattr(part, "dtype") and part.dtype == bool else 1
        for part in parts
        if part is not None and part is not ...
    )
    first, rest = [], []
    for part in parts:
        if part is ...:
            first += [slice(None)] * (ndim - used)
            rest += [slice(None)] * (ndim - used)
        elif isinstance(part, int):
            first.append(part)
        else:
            is_mask = hasattr(part, "dtype") and part.dtype == bool
            axes = part.ndim if is_mask else 0 if part is None else 1
            first += [slice(None)] * axes
            rest.append(part)
    return tuple(first), tuple(rest)


def assign(array, index, value):
    """array[index] = value, where the index is read as PyTorch does."""
    first, rest = split_index(index, array.ndim)
    try:
        array[first][rest] = value
    except ValueError as error:
        if isinstance(error, IndexError):
            raise
        raise RuntimeError(f"assignment to a tensor of shape {array.shape}: {error}") from None


def basic_parts(index):
    """The parts of an index that gives a view, with dots at its end; None for any other.

    The dots keep the result an array where NumPy would take out the only element.
    """
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        if not (part is None or part is ... or isinstance(part, (int, slice))):
            return None
    return parts if ... in parts else (*parts, ...)


def picked(array, index):
    """array[index], with arrays in the index, row by row in memory.

    ``take`` does so at once, and faster, where positions along one axis are asked of rows.
    """
    *whole, positions = index if isinstance(index, tuple) else (index,)
    counted = hasattr(positions, "dtype") and positions.dtype.kind == "i"
    if counted and array.flags.c_contiguous:
        if all(type(part) is slice and part == slice(None) for part in whole):
            return array.take(positions, axis=len(whole))
    return in_rows(array[index])


@operation(view=True)
def getitem(input, index):
    """input[index]: slices and integers give views, tensors of integers or booleans copies."""
    shape, basic = input.shape, basic_parts(index)
    if basic:

        def written(g):
            result = array_module(g).zeros(shape, dtype=g.dtype)
            result[basic] = g
            return result

        return input[basic], (written,)
    first, rest = split_index(index, input.ndim)
    return picked(input[first], rest), (lambda g: _added_up(g, rest, shape, first),)


@operation()
def setitem(input, value, index):
    """A copy of input whose elements at ``index`` are ``value``, a tensor or a number."""
    first, rest = split_index(index, input.ndim)
    result = input.copy()
    assign(result, index, value)
    return result, (lambda g: _cleared(g, rest, first), lambda g: g[first][rest])


def _along(input, dim, index, name):
    """The places that ``index`` names along ``dim``: [i, index[i, j]] for dim 1, as an index.

    Before it comes another, of the view of ``input`` with at least one axis that it applies to.
    """
    xp = array_module(input)
    (axis,) = axes_of(dim, input.ndim) or (0,)
    if index.dtype not in ("int64", "int32"):
        raise RuntimeError(
            f"{name} needs an index of type int64 or int32, got {index.dtype}: use .long()"
        )
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError(f"{name} needs an index with {input.ndim} axes, got {index.ndim}")
    for other, size in enumerate(index.shape):
        if other != axis and size > input.shape[other]:
            raise RuntimeError(
                f"{name} along dim {axis} of shape {input.shape} needs an index that is no larger "
                f"on the other axes; got {index.shape}"
            )
    _check_positions(index, input.shape[axis] if input.ndim else 1, name, RuntimeError)
    places = list(xp.indices(index.shape, sparse=True))
    places[axis : axis + 1] = [index]
    return _with_axis(input), tuple(places)


def _with_axis(input):
    """An index that gives a view with at least one axis: of size 1, for an array without."""
    return ... if input.ndim else None


def _check_positions(index, size, name, error=IndexError):
    if index.size and not (0 <= index.min() and index.max() < size):
        raise error(
            f"{name} needs positions from 0 to {size - 1}; got {index.min()} to {index.max()}"
        )


@operation(rows=True)
def gather(input, dim, index):
    """result[i][j] = input[index[i][j]][j] for dim 0, and so on for other axes."""
    shape = input.shape
    within, places = _along(input, dim, index, "gather")
    return input[within][places], (lambda g: _added_up(g, places, shape, within),)


def check_same_type(input, source, name):
    """RuntimeError unless ``source``, if it is an array, has the type of ``input``."""
    if getattr(source, "dtype", input.dtype) != input.dtype:
        raise RuntimeError(
            f"{name} needs values of the tensor's type {input.dtype}; got {source.dtype}"
        )


def _values_for(src, index):
    """The part of ``src``, an array or a number, that is written to the places of an index."""
    return src[tuple(slice(size) for size in index.shape)] if hasattr(src, "dtype") else src


def _spread(g, values, shape):
    """The gradient of ``values`` as one of the array of ``shape`` whose first part they are."""
    result = array_module(g).zeros(shape, dtype=g.dtype)
    result[tuple(slice(size) for size in values.shape)] = values
    return result


@operation()
def scatter(input, dim, index, src=None, value=None):
    """A copy of input with result[index[i][j]][j] = src[i][j] for dim 0, and so on.

    ``src`` is a tensor at least as large as the index, or a number, also called ``value``. Where
    a place occurs twice, the last value counts; the gradient then is not defined.
    """
    within, places = _along(input, dim, index, "scatter")
    src = value if src is None else src
    check_same_type(input, src, "scatter")
    result = input.copy()
    result[within][places] = _values_for(src, index)
    return result, (
        lambda g: _cleared(g, places, within),
        None,
        None,
        lambda g: _spread(g, g[within][places], src.shape),
    )


@operation()
def scatter_add(input, dim, index, src):
    """A copy of input with result[index[i][j]][j] += src[i][j] for dim 0, and so on."""
    within, places = _along(input, dim, index, "scatter_add")
    check_same_type(input, src, "scatter_add")
    result = input.copy()
    add_at(result[within], places, _values_for(src, index))
    return result, (
        lambda g: g,
        None,
        None,
        lambda g: _spread(g, g[within][places], src.shape),
    )


def _slices(input, dim, index, name):
    """The slices at the positions ``index`` along ``dim``, as two indices; see ``_along``."""
    (axis,) = axes_of(dim, input.ndim) or (0,)
    if index.dtype.kind != "i" or index.ndim > 1:
        raise IndexError(
            f"{name} needs an index of integers with one axis; got {index.dtype}, "
            f"shape {index.shape}"
        )
    _check_positions(index, input.shape[axis] if input.ndim else 1, name)
    places = index.reshape(-1) if input.ndim else index
    return _with_axis(input), (slice(None),) * axis + (places,)


@operation(rows=True)
def index_select(input, dim, index):
    """The slices at the positions ``index``, a tensor with one axis, along ``dim``."""
    shape = input.shape
    _, places = _slices(input, dim, index, "index_select")
    if not shape:
        return input.copy(), (lambda g: g,)
    return picked(input, places), (lambda g: _added_up(g, places, shape),)


@operation()
def index_add(input, dim, index, source, alpha=1):
    """A copy of input with alpha * source[i] added to the slice at index[i] along ``dim``."""
    within, places = _slices(input, dim, index, "index_add")
    check_same_type(input, source, "index_add")
    result = input.copy()
    add_at(result[within], places, source if alpha == 1 else source * alpha)
    return result, (lambda g: g, None, None, lambda g: g[within][places] * alpha)


@operation()
def index_copy(input, dim, index, source):
    """A copy of input whose slice at index[i] along ``dim`` is source[i]."""
    within, places = _slices(input, dim, index, "index_copy")
    check_same_type(input, source, "index_copy")
    result = input.copy()
    result[within][places] = source
    return result, (
        lambda g: _cleared(g, places, within),
        None,
        None,
        lambda g: g[within][places],
    )


@operation()
def index_fill(input, dim, index, value):
    """A copy of input with one value in all slices at the positions ``index`` along ``dim``.

    ``value`` is a number or a tensor without axes; positions count from the end where negative.
    """
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"index_fill needs a value without axes; got shape {value.shape}")
    xp, size = array_module(input), input.shape[dim] if input.ndim else 1
    within, places = _slices(input, dim, xp.where(index < 0, index + size, index), "index_fill")
    result = input.copy()
    result[within][places] = value
    return result, (
        lambda g: _cleared(g, places, within),
        None,
        None,
        lambda g: sum_of(g[within][places]),
    )


@operation(rows=True)
def repeat_interleave_(input, repeats, dim):
    """See ``repeat_interleave``."""
    xp, shape = array_module(input), input.shape
    (axis,) = axes_of(dim, input.ndim)
    if not isinstance(repeats, int) and repeats.size not in (1, shape[axis]):
        raise RuntimeError(
            f"repeat_interleave needs one count, or one for each of {shape[axis]} elements; "
            f"got {repeats.size}"
        )
    counts = repeats if isinstance(repeats, int) else repeats.reshape(-1).tolist()
    origin = xp.repeat(xp.arange(shape[axis]), counts)
    places = (slice(None),) * axis + (origin,)
    return picked(input, places), (lambda g: _added_up(g, places, shape),)


def repeat_interleave(input, repeats, dim=None):
    """Each element ``repeats`` times in a row along ``dim``, or of the flattened tensor.

    ``repeats`` is one number, or a tensor with one for each element.
    """
    if dim is None:
        input, dim = shapes.reshape(input, (-1,)), 0
    return repeat_interleave_(input, repeats, dim)


@operation()
def nonzero_(input):
    """See ``nonzero``."""
    xp = array_module(input)
    if not input.ndim:
        return xp.zeros((int(input != 0), 0), dtype="int64"), None
    return xp.stack(xp.nonzero(input), axis=1), None


def nonzero(input, as_tuple=False):
    """The positions of the elements that are not zero, one row each, or one tensor an axis."""
    return where(input) if as_tuple else nonzero_(input)


@operation()
def masked_select(input, mask):
    """The elements where ``mask``, which may broadcast, is True, in one row."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype
    if mask.dtype != bool:
        raise RuntimeError(f"masked_select needs a mask of type bool, got {mask.dtype}")
    whole = xp.broadcast_to(input, np.broadcast_shapes(shape, mask.shape))
    mask = xp.broadcast_to(mask, whole.shape)

    def vjp(g):
        result = xp.zeros(mask.shape, dtype=dtype)
        result[mask] = g
        return result

    return whole[mask], (vjp,)


@operation()
def unique_(input, dim):
    """See ``unique``."""
    xp = array_module(input)
    values, inverse, counts = xp.unique(input, return_inverse=True, return_counts=True, axis=dim)
    return (values, inverse.reshape(input.shape if dim is None else -1), counts), None


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along ``dim``, in order.

    With ``return_inverse`` also where each element is found among them; with ``return_counts``
    also how often it occurs.
    """
    values, inverse, counts = unique_(input, dim)
    rest = [inverse] * return_inverse + [counts] * return_counts
    return (values, *rest) if rest else values


@operation()
def bincount(input, weights=None, minlength=0):
    """How often each number from 0 to the largest occurs; with ``weights``, their sums."""
    counts = array_module(input).bincount(input, weights, minlength)
    return counts if weights is None else counts.astype(weights.dtype), ()


def _at(input, dim, index):
    index = (*(slice(None),) * axes_of(dim, input.ndim)[0], index)
    return getitem(input, as_index(index, array_module(input.array)))


def narrow(input, dim, start, length):
    """``length`` elements along ``dim``, from ``start`` on, which may count from the end."""
    start, length, size = index_of(start), index_of(length), input.shape[dim]
    start += size * (start < 0)
    if not 0 <= start <= start + length <= size:
        raise RuntimeError(f"narrow from {start} by {length} does not fit size {size} of dim {dim}")
    return _at(input, dim, slice(start, start + length))


def select(input, dim, index):
    """The slice at one position along ``dim``, without that axis."""
    return _at(input, dim, index)


def argwhere(input):
    """The positions of the elements that are not zero, one row each."""
    return nonzero(input)


def diag(input, diagonal=0):
    """The diagonal of a matrix, or the matrix with a vector as its diagonal."""
    if input.ndim != 1:
        check_axes("diag", (input, 2))
        return shapes.clone(shapes.diagonal(input, diagonal))
    return shapes.diag_embed(input, diagonal)
