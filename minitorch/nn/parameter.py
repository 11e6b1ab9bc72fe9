"""``Parameter``: a tensor that a module trains."""

import numpy as np

from minitorch.tensor import Tensor


class Parameter(Tensor):
    """A tensor that, as an attribute of a module, belongs to ``module.parameters()``."""

    def __new__(cls, data=None, requires_grad=True):
        array = np.empty(0, dtype=np.float32) if data is None else data.array
        parameter = cls._wrap(array)
        parameter.requires_grad = requires_grad
        return parameter

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()
