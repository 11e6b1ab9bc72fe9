"""Arrays, data types and devices: everything that the rest of the library knows about NumPy.

A tensor wraps an array of its device's *array module*: NumPy for ``"cpu"``, CuPy for ``"cuda"``.
Code above this file asks an array for its module (``array_module(x)``) instead of naming NumPy,
so that the same lines run on both.
"""

import ctypes
import importlib
import sys
import warnings

import numpy as np

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
_PYTHON_TYPES = {float: float32, int: int64, bool: bool_}


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


class device:
    """Where a tensor's data lies: ``device("cpu")``, ``device("cuda")`` or ``device("cuda:0")``."""

    __slots__ = ("type", "index")

    def __init__(self, name):
        kind, _, index = str(name).partition(":")
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


def module_of_device(where):
    """The array module of a device; RuntimeError when ``"cuda"`` is asked for without CuPy."""
    if device(where or CPU).type == "cpu":
        return np
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise RuntimeError(
            "device 'cuda' needs CuPy, which is not installed: "
            'pip install -e ".[cuda12]" or ".[cuda13]", as your CUDA version is, or use "cpu"'
        ) from None


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


def to_numpy(array):
    """The array's values as a NumPy array; without a copy where it is one."""
    return array if isinstance(array, np.ndarray) else array.get()
