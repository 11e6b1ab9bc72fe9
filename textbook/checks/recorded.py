"""What checks take from a reference beside the results that they compare with.

A copy of the book for students has no references. What a ``recorded`` function has given while the
copy was made is stored there, and looked up by its arguments.
"""

import hashlib
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from minitorch.autograd.tensorbase import TensorBase
from textbook.checks import stored

notes: list[dict[str, Any]] = []  # where what is given is noted, by what was asked


def recorded(function: Callable) -> Callable:
    """The function, noted while a copy is made; in a copy, what it has given then."""

    @wraps(function)
    def noted(*args):
        if stored.RELEASED:
            return _found(function, args)
        if not notes:
            return function(*args)
        key = asked(function, args)
        return notes[-1].setdefault(key, function(*args))

    return noted


def _found(function: Callable, args: tuple) -> Any:
    _, *folders, _ = f"{function.__module__}.".split(".")
    if len(folders) > 2:  # it stands in the checks of a chapter
        stored.stored(folders[1])
    try:
        return stored.calls[asked(function, args)]
    except KeyError:
        raise stored.NotStored(f"{function.__name__} of these arguments is not stored") from None


def asked(function: Callable, args: tuple) -> str:
    """A hash of a call: of numbers as many digits as all processors agree on."""
    return hashlib.sha256(repr((_name(function), _plain(args))).encode()).hexdigest()[:16]


@np.errstate(over="ignore")  # float64 beyond float32 is infinity, on all processors
def _plain(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return _plain(value.array)
    if isinstance(value, np.ndarray):
        single = value.astype(np.float32) if value.dtype.kind == "f" else value
        return single.shape, single.dtype.kind, single.tobytes()
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (FunctionType, type)):
        return _name(value)
    return _plain(vars(value)) if hasattr(value, "__dict__") else value


def _name(function: Callable) -> str:
    """Its name; that of an answer is the same where the answer is missing."""
    return f"{function.__module__.removesuffix('_key')}.{function.__qualname__}"
