"""``jit`` by name only: what would be compiled is returned as it is, and runs in Python.

``save`` and ``load`` of compiled modules are missing: use ``minitorch.save``.
"""

import typing

from minitorch.missing import in_module
from minitorch.nn.module import Module

__all__ = """
Final ScriptModule annotate export ignore interface is_scripting is_tracing script script_if_tracing
script_method trace unused
""".split()

Final, ScriptModule = typing.Final, Module


def script(obj, *args, **options):
    """The function, module or class itself."""
    return obj


def trace(func, example_inputs=None, *args, **options):
    """The function or module itself; the examples are not run."""
    return func


def ignore(drop=False, **options):
    """A decorator that leaves the function as it is, with or without options."""
    return drop if callable(drop) else script


def script_if_tracing(fn):
    """The function itself."""
    return fn


export = unused = interface = script_method = script_if_tracing


def annotate(the_type, the_value):
    """The value itself."""
    return the_value


def is_scripting():
    """False: the program runs in Python."""
    return False


is_tracing = is_scripting

__getattr__ = in_module(__name__)
