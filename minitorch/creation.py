"""New tensors: from data, filled, counted, and random."""

import numpy as np

from minitorch import backend
from minitorch.autograd.dispatch import operation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import sizes_of
from minitorch.backend import array_module, get_default_dtype
from minitorch.generator import numpy_generator

__all__ = """
arange as_tensor bernoulli empty empty_like eye from_numpy full full_like linspace multinomial
normal ones ones_like rand rand_like randint randn randn_like randperm tensor tril_indices
triu_indices zeros zeros_like
""".split()


def _make(array, dtype, device, requires_grad):
    kind = array.dtype if dtype is None else backend.numpy_dtype(dtype)
    made = TensorBase.result_class._wrap(backend.to_device(array, device, kind))
    return made.requires_grad_() if requires_grad else made


def _numbers(data):
    """Nested lists with numbers in place of tensors."""
    if isinstance(data, TensorBase):
        if data.array.size != 1:
            raise ValueError(
                "tensor() takes lists of numbers and of tensors with one element; got a tensor "
                f"of shape {tuple(data.shape)}: use stack([...])"
            )
        return data.item()
    if isinstance(data, (list, tuple)):
        if any(isinstance(part, (list, tuple, TensorBase)) for part in data):
            return [_numbers(part) for part in data]
    return data


def _first(data):
    """The first of the numbers (or arrays) in nested lists; it decides how types are chosen."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A tensor that holds a copy of ``data``: a number, nested lists, or a NumPy array.

    Python's floats become float32 and its integers int64; arrays and their elements keep their
    type.
    """
    if isinstance(data, TensorBase):
        device = data.device if device is None else device
        array = data.array.copy()
        return _make(array, dtype, device, requires_grad)
    try:
        on_gpu = hasattr(data, "dtype") and not isinstance(data, (np.ndarray, np.generic))
        array = np.array(backend.to_numpy(data) if on_gpu else _numbers(data))
    except ValueError as error:
        if "stack" in str(error):
            raise
        raise ValueError(
            "tensor() needs nested lists whose rows all have the same length"
        ) from None
    if dtype is None and not isinstance(_first(data), (np.ndarray, np.generic)):
        if array.dtype.kind == "f":
            dtype = get_default_dtype()
        elif array.dtype.kind in "iu":
            dtype = backend.int64
    if dtype is None:
        backend.dtype_of(array)
    return _make(array, dtype, device, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """``data`` as a tensor, sharing its memory where it is an array or a tensor of that type."""
    if isinstance(data, TensorBase):
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


def _sized(fill):
    """A function that makes tensors of a size, given number by number, at once, or as ``size=``.

    ``fill`` gets the shape, the NumPy type, and what other options it names.
    """

    def make(*sizes, size=None, dtype=None, device=None, requires_grad=False, **options):
        shape = sizes_of(sizes if size is None else [size])
        if shape and min(shape) < 0:
            raise RuntimeError(f"{fill.__name__} needs sizes that are not negative; got {shape}")
        dtype = get_default_dtype() if dtype is None else dtype
        return _make(
            fill(shape, backend.numpy_dtype(dtype), **options), dtype, device, requires_grad
        )

    make.__name__ = make.__qualname__ = fill.__name__
    make.__doc__ = fill.__doc__
    return make


def _like(make):
    def like(
        input,
        *args,
        dtype=None,
        device=None,
        requires_grad=False,
        memory_format=None,
        **options,
    ):
        return make(
            input.array.shape,
            *args,
            dtype=dtype or input.dtype,
            device=device or input.device,
            requires_grad=requires_grad,
            **options,
        )

    like.__doc__ = f"``{make.__name__}`` in the shape, type and place of another tensor."
    like.__name__ = like.__qualname__ = f"{make.__name__}_like"
    return like


@_sized
def zeros(shape, kind):
    """Zeros."""
    return np.zeros(shape, kind)


@_sized
def ones(shape, kind):
    """Ones."""
    return np.ones(shape, kind)


@_sized
def empty(shape, kind):
    """Memory that holds arbitrary numbers."""
    return np.empty(shape, kind)


def _number(value):
    """A number, or that of a tensor; TypeError for one whose gradient would be lost."""
    if getattr(value, "requires_grad", False):
        raise TypeError("expected a number, got a tensor that requires a gradient: use .item()")
    return value.item() if hasattr(value, "item") else value


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """The same value everywhere, in the type of that value."""
    if isinstance(fill_value, TensorBase):
        dtype, fill_value = dtype or fill_value.dtype, _number(fill_value)
    array = np.full(sizes_of([size]), fill_value)
    if dtype is None and array.dtype.kind == "f":
        dtype = get_default_dtype()
    return _make(array, dtype, device, requires_grad)


zeros_like = _like(zeros)
ones_like = _like(ones)
empty_like = _like(empty)
full_like = _like(full)


def eye(n, m=None, *, dtype=None, device=None, requires_grad=False):
    """Ones on the diagonal of an (n, m) matrix, zeros elsewhere."""
    return _make(np.eye(n, m), dtype or get_default_dtype(), device, requires_grad)


def arange(start=0, end=None, step=1, *, out=None, dtype=None, device=None, requires_grad=False):
    """The numbers from ``start`` (0 when one argument is given) up to but not including ``end``.

    Into ``out``, which gets their number of elements, if it is given.
    """
    if end is None:
        start, end = 0, start
    ends = [_number(x) for x in (start, end, step)]
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"arange from {start} to {end} needs a step in that direction: {step}")
    if dtype is None and any(isinstance(x, float) for x in ends):
        dtype = get_default_dtype()
    made = _make(np.arange(*ends), dtype or backend.int64, device, requires_grad)
    return made if out is None else _written_into(out, made)


def _written_into(out, made):
    """``out`` with the values of a new tensor, and its shape."""
    if out.array.shape != made.array.shape:
        out.data = made.to(out.device, out.dtype)
        return out
    return out.copy_(made)


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    """``steps`` numbers at equal distances from ``start`` to ``end``."""
    array = np.linspace(start, end, steps)
    return _make(array, dtype or get_default_dtype(), device, requires_grad)


def _triangle_indices(corner):
    def indices(row, col, offset=0, *, dtype=None, device=None):
        return _make(np.stack(corner(row, offset, col)), dtype or backend.int64, device, False)

    return indices


tril_indices = _triangle_indices(np.tril_indices)
tril_indices.__doc__ = "The positions of a (row, col) matrix's lower triangle, (2, count)."
triu_indices = _triangle_indices(np.triu_indices)
triu_indices.__doc__ = "The positions of a (row, col) matrix's upper triangle, (2, count)."


# Random


@_sized
def rand(shape, kind, generator=None):
    """Numbers drawn evenly from [0, 1)."""
    return numpy_generator(generator).random(shape)


@_sized
def randn(shape, kind, generator=None):
    """Numbers from the standard normal distribution."""
    return numpy_generator(generator).standard_normal(shape)


rand_like = _like(rand)
randn_like = _like(randn)


def randint(
    low=0, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False
):
    """Integers from ``low`` (0 when left out) up to but not including ``high``."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if low >= high:
        raise RuntimeError(f"randint needs low < high; got {low} and {high}")
    draw = numpy_generator(generator).integers(low, high, sizes_of([size]))
    return _make(draw, dtype or backend.int64, device, requires_grad)


def randperm(n, *, generator=None, dtype=None, device=None):
    """The integers 0 to n - 1 in random order."""
    draw = numpy_generator(generator).permutation(n)
    return _make(draw, dtype or backend.int64, device, False)


@operation()
def drawn(sample, *parameters):
    """``sample``, for which nothing flows back to the tensors that it was drawn with: 0."""
    return sample, (lambda g: g, *[array_module(sample).zeros_like] * len(parameters))


def _plain(value):
    return value.detach() if isinstance(value, TensorBase) else value


def normal(mean, std=1.0, size=None, *, generator=None, dtype=None, device=None):
    """Numbers from the normal distribution with the given mean and standard deviation.

    The gradient towards both is 0; ``mean + std * randn(...)`` has another one.
    """
    if size is None:
        given = [x for x in (mean, std) if isinstance(x, TensorBase)]
        size = np.broadcast_shapes(*(x.array.shape for x in given))
        dtype, device = dtype or given[0].dtype, device or given[0].device
    noise = randn(size, generator=generator, dtype=dtype, device=device)
    return drawn(noise * _plain(std) + _plain(mean), mean, std)


def bernoulli(input, p=None, *, generator=None):
    """1 with the probability that each element gives, or ``p`` for all of them; else 0.

    The gradient towards the probabilities is 0.
    """
    draw = rand(input.array.shape, generator=generator, dtype=backend.float64, device=input.device)
    p = input if p is None else p
    return drawn((draw < _plain(p)).to(input.dtype), input, p)


def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn with probabilities proportional to each row of ``input``: (n) or (rows, n).

    Without ``replacement`` no index is drawn twice. RuntimeError for negative, infinite or NaN
    weights, for a row of zeros, and for more draws than there are positive weights.
    """
    if input.ndim not in (1, 2) or not input.is_floating_point() or num_samples < 1:
        raise RuntimeError(
            "multinomial needs one or two axes of floating-point weights and at least one draw; "
            f"got shape {tuple(input.shape)}, {input.dtype}, {num_samples} draws"
        )
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
