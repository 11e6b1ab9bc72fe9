"""A stand-in for CuPy on a machine without a GPU: NumPy underneath, CuPy's refusals on top.

Its arrays are not NumPy arrays, do not convert to them unless ``get()`` is called, and refuse to be
mixed with them; reductions return arrays without axes instead of scalars; what CuPy lacks is not
there. So a line of the library that would break on a GPU breaks here as well. The tests of the
library run on it with ``pytest tests/library --device cuda``.
"""

import contextlib
import functools
import types

import numpy

LACKING = set(
    "block bmat einsum_path errstate frompyfunc geomspace insert matrix matvec nditer ndenumerate "
    "ndindex spacing unstack vecdot vecmat".split()
)  # of the functions of NumPy, those that CuPy 14 does not have
NOT_TAKEN = {"initial", "where", "a_min", "a_max", "min", "max"}  # options that CuPy does not take


class ndarray:
    """An array "on the GPU"."""

    __slots__ = ("__weakref__", "_array", "base")
    __array_ufunc__ = None

    def __init__(self, array, base=None):
        self._array = array
        self.base = base

    def __array__(self, *args, **kwargs):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to "
            "construct a NumPy array explicitly."
        )

    def get(self):
        return self._array.copy()

    @property
    def device(self):
        return cuda.Device()

    @property
    def T(self):
        return wrapped(self._array.T, self)

    def __getitem__(self, index):
        return wrapped(self._array[inside(index)], self)

    def __setitem__(self, index, value):
        self._array[inside(index)] = inside(value)

    def __iter__(self):
        return (wrapped(part, self) for part in self._array)

    def __repr__(self):
        return repr(self._array)

    __hash__ = None


def inside(value):
    """The NumPy arrays behind stand-in arrays; a NumPy array itself is refused, as by CuPy."""
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, numpy.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (list, tuple)):
        return type(value)(inside(part) for part in value)
    return value


def views(array, source):
    """Whether ``array`` shows memory of ``source``; one without elements may do so as well."""
    return (
        array.base is source or array.base is source.base or numpy.may_share_memory(array, source)
    )


def wrapped(value, *sources):
    """NumPy's results as stand-in arrays, which know the array whose memory they view."""
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(value)
        for source in sources:
            if isinstance(source, ndarray) and array is source._array:
                return source
        if array.base is not None:
            for source in sources:
                if isinstance(source, ndarray) and views(array, source._array):
                    return ndarray(array, source if source.base is None else source.base)
        return ndarray(array)
    if isinstance(value, (list, tuple)):
        parts = [wrapped(part, *sources) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def lifted(function):
    """A function of NumPy as one on stand-in arrays; ``out`` comes back as it went in."""

    @functools.wraps(function, updated=())
    @numpy.errstate(all="ignore")
    def call(*args, **kwargs):
        refused = NOT_TAKEN & kwargs.keys()
        if refused:
            raise TypeError(f"{function.__name__}() got an unexpected keyword {refused}")
        out = kwargs.get("out")
        result = function(
            *map(inside, args), **{key: inside(value) for key, value in kwargs.items()}
        )
        return out if out is not None else wrapped(result, *args)

    return call


class _Ufunc:
    """A ufunc: callable, with ``at``, ``reduce`` and the like."""

    def __init__(self, ufunc):
        self._ufunc = ufunc
        self._call = lifted(ufunc)

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __getattr__(self, name):
        return lifted(getattr(self._ufunc, name))


def _changing(name):
    operate = getattr(numpy.ndarray, name)

    @numpy.errstate(all="ignore")
    def method(self, other):
        operate(self._array, inside(other))
        return self

    return method


def _reading(name):
    operate = lifted(getattr(numpy.ndarray, name))

    def method(self, *args, **kwargs):
        return operate(self, *args, **kwargs)

    return method


def _binary(name):
    operate = getattr(numpy.ndarray, name)

    @numpy.errstate(all="ignore")
    def method(self, other):
        result = operate(self._array, inside(other))
        return result if result is NotImplemented else wrapped(result)

    return method


def _plain(name):
    operate = getattr(numpy.ndarray, name)
    return lambda self: operate(self._array)


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
_COMPARISONS = "eq ne lt le gt ge".split()
for _name in _OPERATORS:
    setattr(ndarray, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(ndarray, f"__r{_name}__", _binary(f"__r{_name}__"))
    if _name != "divmod" and _name != "matmul":
        setattr(ndarray, f"__i{_name}__", _changing(f"__i{_name}__"))
for _name in _COMPARISONS:
    setattr(ndarray, f"__{_name}__", _binary(f"__{_name}__"))
for _name in "neg pos abs invert".split():
    setattr(ndarray, f"__{_name}__", _reading(f"__{_name}__"))
for _name in "len bool int float".split():
    setattr(ndarray, f"__{_name}__", _plain(f"__{_name}__"))
for _name in "shape dtype ndim size nbytes itemsize strides flags".split():
    setattr(ndarray, _name, property(lambda self, name=_name: getattr(self._array, name)))
for _name in (
    "all any argmax argmin argpartition argsort astype clip copy cumprod cumsum diagonal dot fill "
    "flatten item max mean min nonzero prod ravel repeat reshape round sort squeeze std sum "
    "swapaxes take tolist transpose var view"
).split():
    setattr(ndarray, _name, _reading(_name))


def asarray(a, dtype=None):
    """A transfer to "the GPU", or the array itself."""
    if isinstance(a, ndarray) and dtype in (None, a.dtype):
        return a
    array = a._array if isinstance(a, ndarray) else a
    return ndarray(numpy.array(array, dtype=dtype))


def array(a, dtype=None, copy=True, order="K"):
    """A copy on "the GPU"."""
    a = a._array if isinstance(a, ndarray) else a
    return ndarray(numpy.array(a, dtype=dtype, order=order))


def asnumpy(a):
    """A copy on the CPU."""
    return a.get() if isinstance(a, ndarray) else numpy.asarray(a)


class _CUDARuntimeError(RuntimeError):
    pass


class _Device(contextlib.nullcontext):
    """The one GPU."""

    id = 0

    def __init__(self, device=None):
        super().__init__()

    def synchronize(self):
        pass


cuda = types.SimpleNamespace(
    Device=_Device,
    runtime=types.SimpleNamespace(
        CUDARuntimeError=_CUDARuntimeError,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda index: {"name": b"stand-in"},
    ),
)


def get_default_memory_pool():
    return types.SimpleNamespace(used_bytes=lambda: 0, free_all_blocks=lambda: None)


def found_in(module, name):
    found = getattr(module, name, None)
    if found is None or name in LACKING:
        raise AttributeError(f"module 'cupy' has no attribute {name!r}")
    if isinstance(found, numpy.ufunc):
        return _Ufunc(found)
    return lifted(found) if callable(found) and not isinstance(found, type) else found


class _Submodule:
    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return found_in(self._module, name)


linalg = _Submodule(numpy.linalg)
lib = types.SimpleNamespace(stride_tricks=_Submodule(numpy.lib.stride_tricks))


@functools.cache
def __getattr__(name):
    return found_in(numpy, name)
