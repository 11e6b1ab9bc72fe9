"""The place where PyTorch keeps ``Function``."""

from minitorch.autograd.compat_function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
