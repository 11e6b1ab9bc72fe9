"""Operations that read or write elements by position."""

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module
from minitorch.operations.reductions import axes_of


def as_index(index):
    """An index with arrays in place of tensors; negative steps are refused, as in PyTorch."""
    if isinstance(index, tuple):
        return tuple(as_index(part) for part in index)
    if isinstance(index, TensorBase):
        whole = index.array.dtype.kind in "iu" and not index.array.ndim
        return index.array.item() if whole else index.array
    if isinstance(index, list):
        return np.asarray(index, dtype=np.int64 if not index else None)
    if isinstance(index, np.integer):
        return int(index)
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        if index.step is not None and index.step <= 0:
            raise ValueError("a slice's step must be positive: use flip() to reverse an axis")
        return slice(*(None if p is None else p.__index__() for p in parts))
    return index


def add_at(array, index, values):
    """array[index] += values, where a position that occurs twice is added to twice."""
    array_module(array).add.at(array, index, values)


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


def _basic_parts(index):
    """The parts of an index that gives a view, with dots at its end; None for any other.

    The dots keep the result an array where NumPy would take out the only element.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or part is ... or isinstance(part, (int, slice)) for part in parts):
        return None
    return parts if ... in parts else (*parts, ...)


@operation(view=True)
def getitem(input, index):
    """input[index]: slices and integers give views, tensors of integers or booleans copies."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype
    basic = _basic_parts(index)
    first, rest = (basic, ...) if basic else split_index(index, input.ndim)

    def vjp(g):
        result = xp.zeros(shape, dtype=dtype)
        if basic:
            result[basic] = g
        else:
            add_at(result[first], rest, g)
        return result

    return input[first][rest], (vjp,)


@operation()
def setitem(input, value, index):
    """A copy of input whose elements at ``index`` are ``value``, a tensor or a number."""
    first, rest = split_index(index, input.ndim)
    result = input.copy()
    result[first][rest] = value

    def toward_input(g):
        g = g.copy()
        g[first][rest] = 0
        return g

    return result, (toward_input, lambda g: g[first][rest])


@operation()
def gather(input, dim, index):
    """result[i][j] = input[index[i][j]][j] for dim 0, and so on for other axes."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype
    (axis,) = axes_of(dim, input.ndim)
    if index.ndim != input.ndim:
        raise RuntimeError(f"gather needs an index with {input.ndim} axes, got {index.ndim}")
    places = list(xp.indices(index.shape, sparse=True))
    places[axis] = index
    places = tuple(places)

    def vjp(g):
        result = xp.zeros(shape, dtype=dtype)
        add_at(result, places, g)
        return result

    return input[places], (vjp,)


@operation()
def index_select(input, dim, index):
    """The slices at the positions ``index``, a tensor with one axis, along ``dim``."""
    xp, shape, dtype = array_module(input), input.shape, input.dtype
    (axis,) = axes_of(dim, input.ndim)

    def vjp(g):
        result = xp.zeros(shape, dtype=dtype)
        add_at(result, (slice(None),) * axis + (index,), g)
        return result

    return xp.take(input, index, axis=axis), (vjp,)


@operation()
def nonzero(input):
    """The positions of the elements that are not zero, one row each."""
    xp = array_module(input)
    return xp.stack(xp.nonzero(input), axis=1), None
