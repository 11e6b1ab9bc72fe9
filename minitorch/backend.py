"""Arrays, data types and devices: everything that the rest of the library knows about NumPy.

A tensor wraps an array of its device's *array module*: NumPy for ``"cpu"``, CuPy for ``"cuda"``.
Code above this file asks an array for its module (``array_module(x)``) instead of naming NumPy,
so that the same lines run on both.
"""

import ctypes
import functools
import importlib
import importlib.util
import sys
import warnings

import numpy as np

__all__ = """
device dtype float16 float32 float64 get_default_device get_default_dtype int8 int16 int32 int64
set_default_device set_default_dtype uint8
""".split()

# As in PyTorch, infinities and NaN arise without a warning. Only the library is quiet: what users
# compute with NumPy warns as before.
warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning, r"minitorch\.")


def _keep_freed_memory():
    """Ask glibc to keep freed memory instead of returning it to the operating system.

    Every training step allocates the same large temporaries. By default glibc maps and unmaps
    each of them, and the page faults cost about a third of the time of a step. Elsewhere than on
    glibc nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    trim_threshold, mmap_threshold, one_gibibyte = -1, -3, 1 << 30
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, one_gibibyte)
        libc.mallopt(trim_threshold, one_gibibyte)
    except (OSError, AttributeError):
        pass


_keep_freed_memory()


class dtype:
    """A data type with PyTorch's name, for example ``minitorch.float32``."""

    __slots__ = ("name", "numpy", "is_floating_point")

    def __init__(self, name):
        self.name = name
        self.numpy = np.dtype(name)
        self.is_floating_point = self.numpy.kind == "f"

    @property
    def itemsize(self):
        """Bytes that one element takes."""
        return self.numpy.itemsize

    def __repr__(self):
        return f"minitorch.{self.name}"

    def __reduce__(self):
        return self.name


float64 = dtype("float64")
float32 = dtype("float32")
float16 = dtype("float16")
int64 = dtype("int64")
int32 = dtype("int32")
int16 = dtype("int16")
int8 = dtype("int8")
uint8 = dtype("uint8")
bool_ = dtype("bool")

_DTYPES = {d.numpy: d for d in (float64, float32, float16, int64, int32, int16, int8, uint8, bool_)}
_PYTHON_TYPES = {float: float64, int: int64, bool: bool_}


def dtype_of(array):
    """The ``minitorch.dtype`` of an array; TypeError when the library has none for it."""
    found = _DTYPES.get(array.dtype)
    if found is None:
        names = ", ".join(d.name for d in _DTYPES.values())
        raise TypeError(f"a tensor holds one of {names}; got data of type {array.dtype}")
    return found


def numpy_dtype(kind):
    """The NumPy type of a ``minitorch.dtype`` or of Python's ``float``, ``int``, ``bool``."""
    kind = _PYTHON_TYPES.get(kind, kind)
    if not isinstance(kind, dtype):
        raise TypeError(f"dtype must be a dtype such as minitorch.float32; got {kind!r}")
    return kind.numpy


_default_dtype = float32


def get_default_dtype():
    """The type of new floating-point tensors when none is named: float32, unless it was set."""
    return _default_dtype


def set_default_dtype(kind):
    """Make floating-point tensors in another type when none is named, for example float64."""
    global _default_dtype
    if not isinstance(kind, dtype) or not kind.is_floating_point:
        raise TypeError(f"the default type must be a floating-point dtype; got {kind!r}")
    _default_dtype = kind


class device:
    """Where a tensor's data lies: ``device("cpu")``, ``device("cuda")`` or ``device("cuda:0")``."""

    __slots__ = ("type", "index")

    def __init__(self, name, index=None):
        kind, _, index = str(name if index is None else f"{name}:{index}").partition(":")
        if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
            raise RuntimeError(f"device must be 'cpu', 'cuda' or 'cuda:N'; got {name!r}")
        self.type = kind
        self.index = int(index) if index else None

    def __eq__(self, other):
        return isinstance(other, device) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"


CPU = device("cpu")
_default = CPU


def get_default_device():
    """The device on which tensors are made when none is named."""
    return _default


def set_default_device(where):
    """Make tensors on another device when none is named, for example ``"cuda"``."""
    global _default
    where = device(where)
    module_of_device(where)
    _default = where


@functools.cache
def load_cupy():
    """The module CuPy, ready to compute; RuntimeError that says which part is missing.

    Three things are needed for "cuda": the package CuPy, NVIDIA's driver with a GPU, and the CUDA
    libraries with which CuPy compiles and multiplies.
    """
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        if importlib.util.find_spec("cupy") is not None:
            raise RuntimeError(f"{_LIBRARIES_MISSING} ({error})") from None
        raise RuntimeError(
            "device 'cuda' needs CuPy, which is not installed: "
            'pip install -e ".[cuda12]" or ".[cuda13]", as your CUDA version is, or use "cpu"'
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            "device 'cuda' needs a GPU and NVIDIA's driver; CuPy is installed but finds none "
            f"({error}): install the driver that fits your GPU (nvidia-smi then lists it), "
            'or use "cpu"'
        ) from None
    try:
        cupy.ones((1, 1)) @ cupy.ones((1, 1)) + 1
    except (ImportError, RuntimeError, OSError) as error:
        raise RuntimeError(f"{_LIBRARIES_MISSING} ({error})") from None
    return cupy


_LIBRARIES_MISSING = (
    "device 'cuda' needs the CUDA libraries; CuPy is installed but cannot load them: "
    'pip install -e ".[cuda12]" or ".[cuda13]", as your driver is, brings them, or use "cpu"'
)


def module_of_device(where):
    """The array module of a device; RuntimeError that says what is missing for ``"cuda"``."""
    where = _default if where is None else device(where)
    if where.type == "cpu":
        return np
    cupy = load_cupy()
    count = cupy.cuda.runtime.getDeviceCount()
    if (where.index or 0) >= count:
        raise RuntimeError(f"there is no device {where}: this machine has {count}")
    return cupy


def to_device(array, where, dtype=None):
    """The array on a device (None: the default), in a NumPy type; itself where it is so already."""
    where = _default if where is None else device(where)
    xp = module_of_device(where)
    if xp is np:
        return np.asarray(to_numpy(array), dtype=dtype)
    with xp.cuda.Device(where.index):
        return xp.asarray(array, dtype=dtype)


def array_module(array):
    """The module whose functions take this array: NumPy, or CuPy for an array on a GPU."""
    if isinstance(array, np.ndarray):
        return np
    return sys.modules[type(array).__module__.partition(".")[0]]


def device_of(array):
    """The device on which an array lies."""
    if isinstance(array, np.ndarray):
        return CPU
    return device(f"cuda:{array.device.id}")


def as_array(value):
    """The array, also where NumPy gave a scalar in place of an array without axes."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def to_numpy(array):
    """The array's values as a NumPy array; without a copy where it is one."""
    return array if isinstance(array, np.ndarray) else array.get()


def filled(xp, size, value, dtype):
    """An array (size) of one number, which ``full`` and ``ones`` take longer to make."""
    array = xp.empty(size, dtype)
    array.fill(value)
    return array


@functools.lru_cache(256)
def constants(xp, dtype, *numbers):
    """The numbers as operands of small arrays: NumPy takes arrays without axes faster."""
    return [np.array(number, dtype) for number in numbers] if xp is np else numbers


def in_rows(array):
    """The array, laid out row by row in memory: itself where it is so already."""
    return array if array.flags.c_contiguous else array.copy()


def wide(array):
    """The array; half precision in single, in which PyTorch adds up and divides such numbers."""
    return array.astype(np.float32) if array.dtype.char == "e" else array


def _reduction(name):
    """The method of that name. Of a NumPy array it would warn in a file of NumPy's, not in ours."""

    def reduce(array, axis=None, keepdims=False, dtype=None):
        xp, half = array_module(array), (dtype or array.dtype).char == "e"
        kind = np.dtype(np.float32) if half else dtype
        result = getattr(xp, name).reduce(array, axis=axis, dtype=kind, keepdims=keepdims)
        return result.astype(np.float16) if half else result

    return reduce


sum_of = _reduction("add")
product_of = _reduction("multiply")


def largest_along(array, axes):
    """The largest elements over the axes, which stay; any number where there are no elements."""
    return array.max(axis=axes, keepdims=True) if array.size else sum_of(array, axes, True)


# Elements that are computed together: with their intermediate results they fit a core's cache.
BLOCK = 1 << 15


def blocks(array, *written):
    """The arrays, all of one shape, cut alike into pieces with one axis; on a GPU, into one."""
    size = array.size
    if array.ndim and (size <= BLOCK or not all(x.flags.c_contiguous for x in written)):
        yield array, *written
        return
    flat = [other.reshape(size) for other in (array, *written)]
    length = BLOCK if isinstance(array, np.ndarray) else max(size, 1)
    for start in range(0, size, length):
        yield [other[start : start + length] for other in flat]
