"""``Tensor``: an array with a gradient. Its operations are listed in ``methods``."""

import numpy as np

from minitorch import backend, creation
from minitorch.autograd.tensorbase import TensorBase
from minitorch.compat.types import TENSOR_TYPES, from_sizes_or_data
from minitorch.generator import numpy_generator
from minitorch.methods import Methods
from minitorch.missing import missing
from minitorch.operations import shapes
from minitorch.printing import format_tensor


class Tensor(Methods):
    """An array of one data type on one device, which remembers how it was computed.

    Make one with ``minitorch.tensor([...])``. ``Tensor(2, 3)`` is an uninitialised tensor of that
    shape and ``Tensor([1, 2])`` holds these numbers, in float32, as in PyTorch.
    """

    __array_ufunc__ = None

    def __new__(cls, *data, device=None):
        return cls._wrap(from_sizes_or_data(data, backend.get_default_dtype(), device).array)

    # What it holds

    @property
    def data(self):
        """The same data without history; assigning replaces the values, unnoticed by autograd."""
        return Tensor._wrap(self.array)

    @data.setter
    def data(self, value):
        self.array = value.array

    def numpy(self, *, force=False):
        """The values as a NumPy array that shares the tensor's memory; with ``force``, a copy
        of a tensor that is on a GPU or requires a gradient.
        """
        if force:
            return backend.to_numpy(self.array)
        if self.requires_grad:
            raise RuntimeError("numpy() of a tensor that requires a gradient: use detach().numpy()")
        if self.device.type != "cpu":
            raise TypeError(f"numpy() of a tensor on {self.device}: use cpu().numpy()")
        return self.array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.numpy(), dtype=dtype, copy=True if copy else None)

    def item(self):
        """The only element as a Python number."""
        if self.array.size != 1:
            raise RuntimeError(f"item() needs one element; this tensor has {self.array.size}")
        return self.array.item()

    def tolist(self):
        """The values as nested lists of Python numbers."""
        return self.array.tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.array.dtype.kind not in "iub":
            raise TypeError(f"only integer tensors can be an index; this one is {self.dtype}")
        return int(self.item())

    def __bool__(self):
        if self.array.size != 1:
            raise RuntimeError(
                f"the truth of a tensor with {self.array.size} elements is ambiguous: "
                "use .any() or .all()"
            )
        return bool(self.array.item())

    def __len__(self):
        if not self.array.ndim:
            raise TypeError("len() of a tensor without axes")
        return self.array.shape[0]

    def __iter__(self):
        if not self.array.ndim:
            raise TypeError("iteration over a tensor without axes")
        return iter(shapes.unbind(self))

    def __contains__(self, value):
        return bool((self.array == getattr(value, "array", value)).any())

    def __repr__(self):
        details = []
        if self.dtype not in (backend.float32, backend.int64, backend.bool_):
            details.append(f"dtype={self.dtype}")
        if self.device.type != "cpu":
            details.append(f"device='{self.device}'")
        if self.grad_fn is not None:
            details.append(f"grad_fn={self.grad_fn}")
        elif self._requires_grad:
            details.append("requires_grad=True")
        return format_tensor(backend.to_numpy(self.array), details)

    def __format__(self, spec):
        return format(self.item(), spec) if self.array.ndim == 0 else format(repr(self), spec)

    def __reduce__(self):
        """What copy, deepcopy and pickle make another of; it has no hooks and is no view."""
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be copied by Python: use clone() or detach()")
        slots = {"_requires_grad": self._requires_grad, "grad": self.grad}
        return type(self)._wrap, (self.array,), (self.__dict__, slots)

    def size(self, dim=None):
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        """The number of axes."""
        return self.array.ndim

    ndimension = dim

    numel = nelement = shapes.numel
    is_floating_point = shapes.is_floating_point

    def element_size(self):
        """Bytes that one element takes."""
        return self.array.itemsize

    @property
    def itemsize(self):
        """Bytes that one element takes."""
        return self.array.itemsize

    @property
    def nbytes(self):
        """Bytes that all elements take."""
        return self.array.nbytes

    def stride(self, dim=None):
        """How many elements apart the neighbours along each axis, or along one, lie in memory."""
        steps = tuple(s // self.array.itemsize for s in self.array.strides)
        return steps if dim is None else steps[dim]

    def is_contiguous(self):
        """Whether the elements lie row by row in memory."""
        return self.array.flags.c_contiguous

    @property
    def is_cuda(self):
        """Whether the data lies on a GPU."""
        return self.device.type == "cuda"

    def __getattr__(self, name):
        raise missing(type(self).__name__, name, type(self))

    # Types and devices

    def to(self, *target, dtype=None, device=None, non_blocking=False, copy=False):
        """The tensor in another type, on another device, or as another tensor is.

        Itself where it is so already, unless ``copy``.
        """
        for t in target:
            if isinstance(t, TensorBase):
                dtype, device = t.dtype, t.device
            elif isinstance(t, backend.dtype) or t in (float, int, bool):
                dtype = t
            elif not isinstance(t, bool):
                device = t
        moved = self if device is None else self._to_device(backend.device(device))
        if dtype is not None and moved.array.dtype != backend.numpy_dtype(dtype):
            moved = shapes.to_dtype(moved, backend.numpy_dtype(dtype))
        return shapes.clone(self) if copy and moved is self else moved

    def _to_device(self, device):
        if self.device.type == device.type:
            return self
        xp = backend.module_of_device(device)
        return shapes.to_module(self, xp)

    def type(self, dtype=None):
        """The tensor in another type, given as a dtype or by a name such as "torch.LongTensor";
        without one, the name of its type.
        """
        if dtype is None:
            name = next(n for n, kind in TENSOR_TYPES.items() if kind.dtype is self.dtype)
            return f"torch.{'cuda.' * self.is_cuda}{name}"
        if isinstance(dtype, str):
            *_, name = dtype.split(".")
            if name not in TENSOR_TYPES:
                raise ValueError(f"type must be one of {', '.join(TENSOR_TYPES)}; got {dtype!r}")
            dtype = TENSOR_TYPES[name]
        return self.to(getattr(dtype, "dtype", dtype))

    def cpu(self):
        """The tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, device="cuda", non_blocking=False):
        """The tensor on the GPU."""
        return self.to(backend.device(device))

    def float(self):
        """The tensor in float32."""
        return self.to(backend.float32)

    def double(self):
        """The tensor in float64."""
        return self.to(backend.float64)

    def half(self):
        """The tensor in float16."""
        return self.to(backend.float16)

    def long(self):
        """The tensor in int64."""
        return self.to(backend.int64)

    def int(self):
        """The tensor in int32."""
        return self.to(backend.int32)

    def short(self):
        """The tensor in int16."""
        return self.to(backend.int16)

    def char(self):
        """The tensor in int8."""
        return self.to(backend.int8)

    def byte(self):
        """The tensor in uint8."""
        return self.to(backend.uint8)

    def bool(self):
        """The tensor as booleans: False where it is 0."""
        return self.to(backend.bool_)

    def type_as(self, other):
        """The tensor in the type of another."""
        return self.to(other.dtype)

    # New tensors of the same type on the same device

    def new_zeros(self, *size, **options):
        """Zeros of the given size."""
        return creation.zeros(*size, **self._like_this(options))

    def new_ones(self, *size, **options):
        """Ones of the given size."""
        return creation.ones(*size, **self._like_this(options))

    def new_empty(self, *size, **options):
        """Arbitrary numbers."""
        return creation.empty(*size, **self._like_this(options))

    def new_full(self, size, fill_value, **options):
        """The same value everywhere."""
        return creation.full(size, fill_value, **self._like_this(options))

    def new_tensor(self, data, **options):
        """The given numbers."""
        return creation.tensor(data, **self._like_this(options))

    def new(self, *args):
        """Arbitrary numbers of the given size, or the given data."""
        return from_sizes_or_data(args, self.dtype, self.device)

    def _like_this(self, options):
        return {"dtype": self.dtype, "device": self.device} | options

    # Random numbers, and other values from elsewhere, in place

    bernoulli = creation.bernoulli
    multinomial = creation.multinomial

    def copy_(self, source, non_blocking=False):
        """The values of another tensor, which may broadcast, written into this one."""
        source = source.to(self.device, self.dtype)
        return self._change_in_place(shapes.expand(source, self.array.shape))

    def _set(self, array):
        return self._change_in_place(self.new_tensor(array))

    def fill_(self, value):
        """The same number, or tensor without axes, everywhere."""
        if isinstance(value, TensorBase):
            return self.copy_(value)
        return self._change_in_place(creation.full_like(self, value))

    def zero_(self):
        """Zeros everywhere."""
        return self.fill_(0)

    def uniform_(self, a=0.0, b=1.0, *, generator=None):
        """Random numbers, evenly between ``a`` and ``b``."""
        return self._set(numpy_generator(generator).uniform(a, b, self.array.shape))

    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        """Random numbers from the normal distribution."""
        return self._set(numpy_generator(generator).normal(mean, std, self.array.shape))

    def random_(self, low, high=None, *, generator=None):
        """Random integers from ``low`` (0 when left out) up to but not including ``high``."""
        low, high = (0, low) if high is None else (low, high)
        return self._set(numpy_generator(generator).integers(low, high, self.array.shape))

    def bernoulli_(self, p=0.5, *, generator=None):
        """1 with probability ``p``, a number or a tensor, else 0."""
        return self._change_in_place(creation.bernoulli(self, p, generator=generator))


TensorBase.result_class = Tensor
