"""New tensors: from data, filled, counted, and random."""

import builtins

import numpy as np

from minitorch import backend
from minitorch.generator import numpy_generator
from minitorch.tensor import Tensor, _sizes


def _make(array, dtype, device, requires_grad):
    kind = array.dtype if dtype is None else backend.numpy_dtype(dtype)
    return Tensor._wrap(backend.to_device(array, device, kind)).requires_grad_(requires_grad)


def _floating(dtype):
    return backend.float32 if dtype is None else dtype


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A tensor that holds a copy of ``data``: a number, nested lists, or a NumPy array.

    Python's floats become float32 and its integers int64; an array keeps its type.
    """
    if isinstance(data, Tensor):
        data = data.array
    try:
        array = np.array(backend.to_numpy(data) if hasattr(data, "get") else data)
    except ValueError:
        raise ValueError(
            "tensor() needs nested lists whose rows all have the same length"
        ) from None
    if dtype is None and not isinstance(data, (np.ndarray, np.generic)):
        if array.dtype.kind == "f":
            dtype = backend.float32
        elif array.dtype.kind in "iu":
            dtype = backend.int64
    if dtype is None:
        backend.dtype_of(array)
    return _make(array, dtype, device, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """``data`` as a tensor, sharing its memory where it is an array or a tensor of that type."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray):
        backend.dtype_of(data)
        return _make(data, dtype, device, False)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array):
    """A tensor that shares the memory of a NumPy array."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy needs a NumPy array, got {type(array).__name__}")
    return as_tensor(array)


def zeros(*size, dtype=None, device=None, requires_grad=False):
    """Zeros."""
    return _make(np.zeros(_sizes(size)), _floating(dtype), device, requires_grad)


def ones(*size, dtype=None, device=None, requires_grad=False):
    """Ones."""
    return _make(np.ones(_sizes(size)), _floating(dtype), device, requires_grad)


def empty(*size, dtype=None, device=None, requires_grad=False):
    """Memory that holds arbitrary numbers."""
    return _make(np.empty(_sizes(size), dtype=np.float32), dtype, device, requires_grad)


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """The same value everywhere, in the type of that value."""
    if dtype is None:
        dtype = type(fill_value)
    return _make(np.full(_sizes([size]), fill_value), dtype, device, requires_grad)


def eye(n, m=None, *, dtype=None, device=None, requires_grad=False):
    """Ones on the diagonal of an (n, m) matrix, zeros elsewhere."""
    return _make(np.eye(n, m), _floating(dtype), device, requires_grad)


def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """The numbers from ``start`` (0 when one argument is given) up to but not including ``end``."""
    if end is None:
        start, end = 0, start
    whole = builtins.all(isinstance(x, (int, np.integer)) for x in (start, end, step))
    dtype = dtype or (backend.int64 if whole else backend.float32)
    return _make(np.arange(start, end, step), dtype, device, requires_grad)


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    """``steps`` numbers at equal distances from ``start`` to ``end``."""
    return _make(np.linspace(start, end, steps), _floating(dtype), device, requires_grad)


def _like(make):
    def like(input, *, dtype=None, device=None, requires_grad=False, **options):
        return make(
            *input.array.shape,
            dtype=dtype or input.dtype,
            device=device or input.device,
            requires_grad=requires_grad,
            **options,
        )

    like.__doc__ = f"``{make.__name__}`` in the shape, type and place of another tensor."
    like.__name__ = like.__qualname__ = f"{make.__name__}_like"
    return like


zeros_like = _like(zeros)
ones_like = _like(ones)
empty_like = _like(empty)


def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False):
    """The same value everywhere, in the shape, type and place of another tensor."""
    return full(
        input.shape,
        fill_value,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


# Random


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Numbers drawn evenly from [0, 1)."""
    draw = numpy_generator(generator).random(_sizes(size))
    return _make(draw, _floating(dtype), device, requires_grad)


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Numbers from the standard normal distribution."""
    draw = numpy_generator(generator).standard_normal(_sizes(size))
    return _make(draw, _floating(dtype), device, requires_grad)


rand_like = _like(rand)
randn_like = _like(randn)


def randint(low, high=None, size=None, *, generator=None, dtype=None, device=None):
    """Integers from ``low`` (0 when left out) up to but not including ``high``."""
    if size is None:
        low, high, size = 0, low, high
    draw = numpy_generator(generator).integers(low, high, _sizes([size]))
    return _make(draw, dtype or backend.int64, device, False)


def randperm(n, *, generator=None, dtype=None, device=None):
    """The integers 0 to n - 1 in random order."""
    draw = numpy_generator(generator).permutation(n)
    return _make(draw, dtype or backend.int64, device, False)


def normal(mean, std, size=None, *, generator=None):
    """Numbers from the normal distribution with the given mean and standard deviation."""
    if size is None:
        size = mean.shape if isinstance(mean, Tensor) else std.shape
    return randn(size, generator=generator) * std + mean


def bernoulli(input, *, generator=None):
    """1 with the probability that each element gives, else 0."""
    draw = numpy_generator(generator).random(input.array.shape)
    xp = backend.array_module(input.array)
    return Tensor._wrap((xp.asarray(draw) < input.array).astype(input.array.dtype))


def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn with probabilities proportional to each row of ``input``: (n) or (rows, n).

    Without ``replacement`` no index is drawn twice. RuntimeError for negative, infinite or NaN
    weights, for a row of zeros, and for more draws than there are positive weights.
    """
    weights = backend.to_numpy(input.array).astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("multinomial needs weights that are finite and not negative")
    if (weights.sum(axis=-1) <= 0).any():
        raise RuntimeError("multinomial needs a positive weight in every row")
    rng = numpy_generator(generator)
    if replacement:
        ends = np.cumsum(weights, axis=-1)
        draws = rng.random((*weights.shape[:-1], num_samples)) * ends[..., -1:]
        chosen = (draws[..., :, None] >= ends[..., None, :]).sum(axis=-1)
    else:
        if ((weights > 0).sum(axis=-1) < num_samples).any():
            raise RuntimeError(
                f"multinomial cannot draw {num_samples} different indices from a row with fewer "
                "positive weights: pass replacement=True"
            )
        race = rng.exponential(size=weights.shape) / weights
        chosen = np.argsort(race, axis=-1)[..., :num_samples]
    return _make(chosen.astype(np.int64), None, input.device, False)
