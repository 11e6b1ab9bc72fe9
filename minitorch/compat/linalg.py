"""``linalg``: of PyTorch's module of that name, the norm of vectors."""

from minitorch.missing import in_module
from minitorch.operations.reductions import norm

__all__ = ["vector_norm"]


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum |x|^ord)^(1 / ord) over ``dim``, or over all elements; see ``norm``."""
    return norm(x if dtype is None else x.to(dtype), ord, dim, keepdim)


__getattr__ = in_module(__name__)
