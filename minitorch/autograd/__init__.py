"""Automatic differentiation: ``backward``, ``grad``, ``no_grad``, ``gradcheck``."""

from minitorch.autograd.backward import backward, grad
from minitorch.autograd.compat import Variable
from minitorch.autograd.dispatch import operation
from minitorch.autograd.gradcheck import gradcheck
from minitorch.autograd.modes import (
    enable_grad,
    is_grad_enabled,
    no_grad,
    record_operations,
    set_grad_enabled,
)
from minitorch.missing import in_module

__all__ = [
    "Variable",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "is_grad_enabled",
    "no_grad",
    "operation",
    "record_operations",
    "set_grad_enabled",
]

__getattr__ = in_module(
    __name__,
    {
        "minitorch.autograd.function": "Function function",
    },
)
