"""The floating-point types in which answers are run."""

from contextlib import contextmanager

import numpy as np

from minitorch.backend import float32, float64, get_default_dtype, set_default_dtype


def in_float64():
    """All floating-point numbers that an answer makes have the type of its arguments, float64.

    It need not name a type, and where it names float32, as by ``.float()``, it gets float64: what
    is right in a notebook, where all is float32, is right here.
    """
    return _in(float64, float64.numpy)


def as_in_a_notebook():
    """The types are those that an answer names, and float32 where it names none."""
    return _in(float32, np.dtype(np.float32))


@contextmanager
def _in(default, single):
    """Compute with this default type, and with ``single`` where float32 is named."""
    before = get_default_dtype(), float32.numpy
    set_default_dtype(default)
    float32.numpy = single
    try:
        yield
    finally:
        float32.numpy = before[1]
        set_default_dtype(before[0])
