"""The floating-point type in which answers are run: float64."""

from contextlib import contextmanager

from minitorch.backend import float32, float64, get_default_dtype, set_default_dtype


@contextmanager
def in_float64():
    """All floating-point numbers that an answer makes have the type of its arguments, float64.

    It need not name a type, and where it names float32, as by ``.float()``, it gets float64: what
    is right in a notebook, where all is float32, is right here.
    """
    default, single = get_default_dtype(), float32.numpy
    set_default_dtype(float64)
    float32.numpy = float64.numpy
    try:
        yield
    finally:
        float32.numpy = single
        set_default_dtype(default)
