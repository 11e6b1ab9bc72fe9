"""What ``nn.utils.parametrizations`` offers: weights of a given length or size."""

from minitorch.autograd import no_grad
from minitorch.creation import randn
from minitorch.nn import functional as F
from minitorch.nn.module import Module
from minitorch.nn.utils.compat import norm_except_dim
from minitorch.nn.utils.compat_parametrize import register_parametrization

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """weight = g v / ||v||, with a length g for each slice along ``dim``, or one for None.

    (Salimans and Kingma, 2016.) g and v are ``parametrizations.<name>.original0`` and 1.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """``_u`` and ``_v`` come nearer to the first singular vectors in each forward in training."""

    def __init__(self, weight, n_power_iterations, dim, eps):
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            matrix = self._as_matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = randn(size, dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _as_matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad
    def _iterate(self, matrix, count):
        for _ in range(count):
            self._u = F.normalize(matrix.mv(self._v), dim=0, eps=self.eps)
            self._v = F.normalize(matrix.t().mv(self._u), dim=0, eps=self.eps)

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        return weight / self._u.clone().dot(matrix.mv(self._v.clone()))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The weight divided by its largest singular value, as near as the power method has come.

    (Miyato et al., 2018.) The weight is read as a matrix whose rows are the slices along ``dim``,
    0 unless the module is a transposed convolution.
    """
    if n_power_iterations < 1:
        raise ValueError(f"n_power_iterations must be positive, got {n_power_iterations}")
    weight = getattr(module, name).detach()
    norm = _SpectralNorm(weight, n_power_iterations, 0 if dim is None else dim, eps)
    return register_parametrization(module, name, norm)
