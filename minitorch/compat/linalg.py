"""``linalg``: of PyTorch's module of that name, norms of vectors, QR and singular values."""

from collections import namedtuple

from minitorch.autograd import is_grad_enabled
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module
from minitorch.compat import products
from minitorch.missing import in_module
from minitorch.operations.reductions import norm as _norm

__all__ = ["norm", "qr", "svd", "vector_norm"]

QR = namedtuple("QR", "Q R")
SVD = namedtuple("SVD", "U S Vh")


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum |x|^ord)^(1 / ord) over ``dim``, or over all elements; see ``norm``."""
    return _norm(x if dtype is None else x.to(dtype), ord, dim, keepdim)


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """``vector_norm``; of matrices, the square root of the sum of squares ("fro") only."""
    axes = A.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if ord not in (None, "fro") and axes > 1:
        raise NotImplementedError(f"norm of matrices is 'fro' only, got ord={ord!r}")
    return vector_norm(A, 2 if ord in (None, "fro") else ord, dim, keepdim, dtype=dtype)


def qr(A, mode="reduced"):
    """Q with orthonormal columns and R, upper triangular, with Q R = A; ``mode`` is "reduced"."""
    if mode != "reduced":
        raise NotImplementedError(f"qr has the mode 'reduced' only, got {mode!r}")
    return QR(*products.qr(A))


def svd(A, full_matrices=True):
    """U, S, Vh with U diag(S) Vh = A, singular values S in falling order; without gradient."""
    if A.requires_grad and is_grad_enabled():
        raise NotImplementedError("svd has no gradient here: call it inside no_grad(), or detach()")
    parts = array_module(A.array).linalg.svd(A.array, full_matrices=full_matrices)
    return SVD(*map(TensorBase.result_class._wrap, parts))


__getattr__ = in_module(__name__)
