"""Weights that are computed from other parameters, as ``torch.nn.utils.parametrize``."""

from minitorch.missing import in_module
from minitorch.nn.utils.compat_parametrize import (
    ParametrizationList,
    cached,
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
]

__getattr__ = in_module(__name__)
