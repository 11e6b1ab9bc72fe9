"""``Tensor``: an array with a gradient, and every operation as a method.

The body of the class reads as a table: ``tanh = elementwise.tanh`` says that ``x.tanh()`` is the
operation of that name.
"""

import numpy as np

from minitorch import backend
from minitorch.autograd.dispatch import in_place, operator
from minitorch.autograd.modes import state
from minitorch.autograd.tensorbase import TensorBase
from minitorch.generator import numpy_generator
from minitorch.operations import elementwise, indexing, products, reductions, shapes
from minitorch.operations.indexing import as_index
from minitorch.printing import format_tensor


def _sizes(sizes):
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], (int, np.integer)):
        sizes = sizes[0]
    return tuple(int(size) for size in sizes)


class Tensor(TensorBase):
    """An array of one data type on one device, which remembers how it was computed.

    Make one with ``minitorch.tensor([...])``. ``Tensor(2, 3)`` is an uninitialised tensor of that
    shape and ``Tensor([1, 2])`` holds these numbers, in float32, as in PyTorch.
    """

    __slots__ = ()
    __array_ufunc__ = None

    def __new__(cls, *data):
        if len(data) == 1 and not isinstance(data[0], int):
            source = data[0].array if isinstance(data[0], TensorBase) else data[0]
            return cls._wrap(np.array(source, dtype=np.float32))
        return cls._wrap(np.empty(data, dtype=np.float32))

    # What it holds

    @property
    def data(self):
        """The same data without history; assigning replaces the values, unnoticed by autograd."""
        return Tensor._wrap(self.array)

    @data.setter
    def data(self, value):
        self.array = value.array

    def numpy(self):
        """The values as a NumPy array that shares the tensor's memory."""
        if self._requires_grad:
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

    __hash__ = TensorBase.__hash__

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

    def __deepcopy__(self, memo):
        if self._edge is not None:
            raise RuntimeError("only leaf tensors can be deep-copied: use detach() first")
        copied = type(self)._wrap(self.array.copy())
        copied._requires_grad = self._requires_grad
        copied.grad = None if self.grad is None else Tensor._wrap(self.grad.array.copy())
        memo[id(self)] = copied
        return copied

    def size(self, dim=None):
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        """The number of axes."""
        return self.array.ndim

    def numel(self):
        """The number of elements."""
        return self.array.size

    nelement = numel

    def stride(self):
        """How many elements apart the neighbours along each axis lie in memory."""
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def is_contiguous(self):
        """Whether the elements lie row by row in memory."""
        return self.array.flags.c_contiguous

    def is_floating_point(self):
        """Whether the type is a floating-point one."""
        return self.array.dtype.kind == "f"

    @property
    def is_cuda(self):
        """Whether the data lies on a GPU."""
        return self.device.type == "cuda"

    # Types and devices

    def to(self, *target, dtype=None, device=None):
        """The tensor in another type, on another device, or as another tensor is."""
        for t in target:
            if isinstance(t, TensorBase):
                dtype, device = t.dtype, t.device
            elif isinstance(t, backend.dtype) or t in (float, int, bool):
                dtype = t
            else:
                device = t
        moved = self if device is None else self._to_device(backend.device(device))
        if dtype is None or moved.array.dtype == backend.numpy_dtype(dtype):
            return moved
        return shapes.to_dtype(moved, backend.numpy_dtype(dtype))

    def _to_device(self, device):
        if self.device.type == device.type:
            return self
        xp = backend.module_of_device(device)
        return shapes.to_module(self, xp)

    def cpu(self):
        """The tensor on the CPU."""
        return self.to("cpu")

    def cuda(self):
        """The tensor on the GPU."""
        return self.to("cuda")

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

    def bool(self):
        """The tensor as booleans: False where it is 0."""
        return self.to(backend.bool_)

    def type_as(self, other):
        """The tensor in the type of another."""
        return self.to(other.dtype)

    # New tensors of the same type on the same device

    def _new(self, array):
        xp = backend.array_module(self.array)
        return Tensor._wrap(xp.asarray(array, dtype=self.array.dtype))

    def new_zeros(self, *size):
        """Zeros of the given size."""
        return self._new(np.zeros(_sizes(size)))

    def new_ones(self, *size):
        """Ones of the given size."""
        return self._new(np.ones(_sizes(size)))

    def new_full(self, size, fill_value):
        """The same value everywhere."""
        return self._new(np.full(_sizes([size]), fill_value))

    def new_tensor(self, data):
        """The given numbers."""
        return self._new(np.asarray(data))

    # Arithmetic

    add = elementwise.add
    sub = elementwise.sub
    mul = elementwise.mul
    div = elementwise.div
    pow = elementwise.pow
    neg = elementwise.neg
    abs = elementwise.abs
    floor_divide = elementwise.floor_divide
    remainder = elementwise.remainder
    maximum = elementwise.maximum
    minimum = elementwise.minimum

    __add__ = operator(elementwise.add)
    __radd__ = operator(elementwise.add, reflected=True)
    __sub__ = operator(elementwise.sub)
    __rsub__ = operator(elementwise.sub, reflected=True)
    __mul__ = operator(elementwise.mul)
    __rmul__ = operator(elementwise.mul, reflected=True)
    __truediv__ = operator(elementwise.div)
    __rtruediv__ = operator(elementwise.div, reflected=True)
    __floordiv__ = operator(elementwise.floor_divide)
    __rfloordiv__ = operator(elementwise.floor_divide, reflected=True)
    __mod__ = operator(elementwise.remainder)
    __rmod__ = operator(elementwise.remainder, reflected=True)
    __pow__ = operator(elementwise.pow)
    __rpow__ = operator(elementwise.pow, reflected=True)
    __neg__ = elementwise.neg
    __abs__ = elementwise.abs
    __matmul__ = products.matmul

    # Functions

    exp = elementwise.exp
    log = elementwise.log
    log1p = elementwise.log1p
    sqrt = elementwise.sqrt
    rsqrt = elementwise.rsqrt
    sin = elementwise.sin
    cos = elementwise.cos
    tanh = elementwise.tanh
    sigmoid = elementwise.sigmoid
    relu = elementwise.relu
    erf = elementwise.erf
    sign = elementwise.sign
    floor = elementwise.floor
    ceil = elementwise.ceil
    round = elementwise.round
    clamp = elementwise.clamp
    clip = elementwise.clamp
    masked_fill = elementwise.masked_fill

    def where(self, condition, other):
        """This tensor where the condition holds, else other."""
        return elementwise.where(condition, self, other)

    # Comparisons and logic

    eq = elementwise.eq
    ne = elementwise.ne
    lt = elementwise.lt
    le = elementwise.le
    gt = elementwise.gt
    ge = elementwise.ge
    logical_not = elementwise.logical_not
    isnan = elementwise.isnan
    isinf = elementwise.isinf
    isfinite = elementwise.isfinite

    __eq__ = operator(elementwise.eq)
    __ne__ = operator(elementwise.ne)
    __lt__ = operator(elementwise.lt)
    __le__ = operator(elementwise.le)
    __gt__ = operator(elementwise.gt)
    __ge__ = operator(elementwise.ge)
    __and__ = operator(elementwise.bitwise_and)
    __or__ = operator(elementwise.bitwise_or)
    __xor__ = operator(elementwise.bitwise_xor)
    __invert__ = elementwise.bitwise_not

    # Reductions

    sum = reductions.sum
    mean = reductions.mean
    var = reductions.var
    std = reductions.std
    prod = reductions.prod
    max = reductions.max
    min = reductions.min
    amax = reductions.amax
    amin = reductions.amin
    argmax = reductions.argmax
    argmin = reductions.argmin
    all = reductions.all
    any = reductions.any
    norm = reductions.norm
    cumsum = reductions.cumsum
    logsumexp = reductions.logsumexp
    softmax = reductions.softmax
    log_softmax = reductions.log_softmax
    sort = reductions.sort
    argsort = reductions.argsort
    topk = reductions.topk

    # Shapes

    transpose = shapes.transpose
    squeeze = shapes.squeeze
    unsqueeze = shapes.unsqueeze
    contiguous = shapes.contiguous
    clone = shapes.clone
    tril = shapes.tril
    triu = shapes.triu
    split = shapes.split
    chunk = shapes.chunk
    unbind = shapes.unbind
    roll = shapes.roll

    def reshape(self, *shape):
        """The same elements in another shape; one size may be -1."""
        return shapes.reshape(self, _sizes(shape))

    def view(self, *shape):
        """Like ``reshape``, but never a copy."""
        return shapes.view(self, _sizes(shape))

    def view_as(self, other):
        """Viewed in the shape of another tensor."""
        return shapes.view(self, other.array.shape)

    def flatten(self, start_dim=0, end_dim=-1):
        """The axes from ``start_dim`` to ``end_dim`` as one."""
        return shapes.flatten(self, start_dim, end_dim)

    def permute(self, *dims):
        """The axes in another order."""
        return shapes.permute(self, _sizes(dims))

    def expand(self, *sizes):
        """Repeated along axes of size 1, without a copy."""
        return shapes.expand(self, _sizes(sizes))

    def expand_as(self, other):
        """Expanded to the shape of another tensor."""
        return shapes.expand(self, other.array.shape)

    def repeat(self, *sizes):
        """Laid side by side along each axis."""
        return shapes.repeat(self, _sizes(sizes))

    def flip(self, *dims):
        """The order along the given axes reversed."""
        return shapes.flip(self, _sizes(dims))

    def t(self):
        """The transpose of a matrix."""
        if self.array.ndim > 2:
            raise RuntimeError(f"t() needs at most 2 axes, got {self.array.ndim}: use transpose")
        return self if self.array.ndim < 2 else shapes.transpose(self, 0, 1)

    @property
    def T(self):
        """The axes in reverse order."""
        return shapes.permute(self, tuple(reversed(range(self.array.ndim))))

    @property
    def mT(self):
        """The last two axes exchanged."""
        return shapes.transpose(self, -2, -1)

    # Products

    matmul = products.matmul
    mm = products.matmul
    mv = products.matmul
    dot = products.matmul
    bmm = products.matmul

    # Positions

    gather = indexing.gather
    index_select = indexing.index_select
    nonzero = indexing.nonzero

    def __getitem__(self, index):
        return indexing.getitem(self, as_index(index))

    def __setitem__(self, index, value):
        index = as_index(index)
        source = value if isinstance(value, (TensorBase, int, float)) else np.asarray(value)
        if state.grad_enabled and (self._requires_grad or getattr(source, "_requires_grad", False)):
            self._change_in_place(indexing.setitem(self, source, index))
            return
        first, rest = indexing.split_index(index, self.array.ndim)
        self.array[first][rest] = getattr(source, "array", source)
        self._version[0] += 1

    # In place

    add_ = __iadd__ = in_place(elementwise.add)
    sub_ = __isub__ = in_place(elementwise.sub)
    mul_ = __imul__ = in_place(elementwise.mul)
    div_ = __itruediv__ = in_place(elementwise.div)
    clamp_ = in_place(elementwise.clamp)
    masked_fill_ = in_place(elementwise.masked_fill)
    exp_ = in_place(elementwise.exp)
    tanh_ = in_place(elementwise.tanh)
    sigmoid_ = in_place(elementwise.sigmoid)
    relu_ = in_place(elementwise.relu)

    def copy_(self, source):
        """The values of another tensor, which may broadcast, written into this one."""
        return self._change_in_place(source.to(self.dtype).expand(*self.array.shape))

    def fill_(self, value):
        """The same number everywhere."""
        return self._change_in_place(self._new(np.full(self.array.shape, value)))

    def zero_(self):
        """Zeros everywhere."""
        return self.fill_(0)

    def uniform_(self, a=0.0, b=1.0, *, generator=None):
        """Random numbers, evenly between ``a`` and ``b``."""
        return self._change_in_place(
            self._new(numpy_generator(generator).uniform(a, b, self.array.shape))
        )

    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        """Random numbers from the normal distribution."""
        return self._change_in_place(
            self._new(numpy_generator(generator).normal(mean, std, self.array.shape))
        )


TensorBase.result_class = Tensor
