"""Weights of a given length or size, as ``torch.nn.utils.parametrizations``."""

from minitorch.missing import in_module
from minitorch.nn.utils.compat_parametrizations import spectral_norm, weight_norm

__all__ = ["spectral_norm", "weight_norm"]

__getattr__ = in_module(__name__)
