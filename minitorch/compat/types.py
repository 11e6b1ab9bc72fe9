"""What PyTorch has around data types: limits, bfloat16, tensors' names of old, as LongTensor."""

import warnings

import numpy as np

from minitorch import backend
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import Size
from minitorch.creation import empty, tensor

__all__ = """
BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
ShortTensor bfloat16 channels_last contiguous_format finfo iinfo layout memory_format
preserve_format strided
""".split()


class _ReadAsFloat32(backend.dtype):
    """A type that no tensor has: one that is asked for in it is float32, with a warning."""

    __slots__ = ()

    def __init__(self, name):
        self.name, self.is_floating_point = name, True

    @property
    def numpy(self):
        told = f"{self.name} is read as float32, which holds every number of it"
        warnings.warn(told, stacklevel=4)
        return backend.float32.numpy


bfloat16 = _ReadAsFloat32("bfloat16")


class memory_format:
    """How elements may lie in memory; programs pass it on, and nothing here asks."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"minitorch.{self.name}"


class layout(memory_format):
    """How a tensor holds its elements: all of them, ``strided``."""


preserve_format, contiguous_format = map(memory_format, ("preserve_format", "contiguous_format"))
channels_last = memory_format("channels_last")
strided = layout("strided")


class finfo:
    """The limits of a floating-point type: ``max``, ``min``, ``eps``, ``tiny``, ``bits``."""

    def __init__(self, type=None):
        kind = backend.numpy_dtype(type or backend.get_default_dtype())
        if kind.kind != "f":
            raise TypeError(f"finfo needs a floating-point type, got {type}: use iinfo")
        limits = np.finfo(kind)
        self.bits, self.dtype = limits.bits, kind.name
        for name in ("eps", "max", "min", "resolution", "smallest_normal", "tiny"):
            setattr(self, name, float(getattr(limits, name)))


class iinfo:
    """The limits of an integer type: ``max``, ``min``, ``bits``."""

    def __init__(self, type):
        if type.is_floating_point:
            raise TypeError(f"iinfo needs an integer type, got {type}: use finfo")
        limits = np.iinfo(backend.numpy_dtype(type))
        self.bits, self.max, self.min = limits.bits, int(limits.max), int(limits.min)
        self.dtype = limits.dtype.name


def from_sizes_or_data(args, dtype, device=None):
    """Uninitialised memory of the sizes, or a copy of the data, as PyTorch's old constructors."""
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        if isinstance(args[0], float):
            raise TypeError(f"the data must be a sequence; got {args[0]}: use tensor(...)")
        return tensor(args[0], dtype=dtype, device=device)
    return empty(*(args or [0]), dtype=dtype, device=device)


class TensorType(type):
    """The class of the names of old: ``LongTensor([1, 2])`` makes a tensor of that type."""

    def __call__(cls, *args, device=None):
        return from_sizes_or_data(args, cls.dtype, device)

    def __instancecheck__(cls, instance):
        return isinstance(instance, TensorBase) and instance.dtype is cls.dtype


TENSOR_TYPES = {
    name: TensorType(name, (), {"dtype": dtype, "__doc__": f"Tensors of type {dtype.name}."})
    for name, dtype in {
        "DoubleTensor": backend.float64,
        "FloatTensor": backend.float32,
        "HalfTensor": backend.float16,
        "LongTensor": backend.int64,
        "IntTensor": backend.int32,
        "ShortTensor": backend.int16,
        "CharTensor": backend.int8,
        "ByteTensor": backend.uint8,
        "BoolTensor": backend.bool_,
    }.items()
}
globals().update(TENSOR_TYPES)
