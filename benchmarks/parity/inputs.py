"""Inputs that are equal in both libraries: drawn with NumPy from a fixed seed."""

import numpy as np


class Inputs:
    """Draws tensors for one library; the same calls give the same numbers in the other.

    ``x(2, 3)`` is a float32 tensor that requires a gradient, and is remembered in ``leaves``.
    """

    def __init__(self, torch, seed=0):
        self.torch = torch
        self.random = np.random.default_rng(seed)
        self.leaves, self.modules = [], []

    def __call__(self, *shape, low=-2.0, high=2.0, dtype="float32", grad=True):
        """Numbers evenly between ``low`` and ``high``."""
        values = np.asarray(self.random.uniform(low, high, shape), dtype=dtype)
        tensor = self.torch.from_numpy(values)
        if grad:
            self.leaves.append(tensor.requires_grad_())
        return tensor

    def double(self, *shape):
        """As ``x(...)``, in float64."""
        return self(*shape, dtype="float64")

    def plain(self, *shape, **options):
        """As ``x(...)``, without gradient."""
        return self(*shape, grad=False, **options)

    def positive(self, *shape):
        """Numbers between 0.1 and 3."""
        return self(*shape, low=0.1, high=3.0)

    def ints(self, *shape, low=0, high=5, dtype="int64"):
        """Integers from ``low`` up to but not including ``high``."""
        return self.torch.from_numpy(np.asarray(self.random.integers(low, high, shape), dtype))

    def truths(self, *shape):
        """Booleans."""
        return self.torch.from_numpy(np.asarray(self.random.random(shape) < 0.5))

    def values(self, numbers, dtype="float32", grad=True):
        """The given numbers."""
        tensor = self.torch.from_numpy(np.array(numbers, dtype=dtype))
        if grad and tensor.is_floating_point():
            self.leaves.append(tensor.requires_grad_())
        return tensor

    def module(self, module):
        """The module with its floating parameters and buffers redrawn; remembered."""
        state = {}
        for key, tensor in module.state_dict().items():
            values = tensor.detach().numpy()
            if values.dtype.kind == "f":
                values = self.random.uniform(0.1, 0.6, values.shape).astype(values.dtype)
                values = values * self.random.choice([-1.0, 1.0], values.shape).astype(values.dtype)
                if key.endswith("running_var"):
                    values = abs(values)
            state[key] = self.torch.from_numpy(np.asarray(values))
        module.load_state_dict(state)
        self.modules.append(module)
        return module
