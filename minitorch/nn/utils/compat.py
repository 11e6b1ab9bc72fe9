"""Weights split into length and direction, and other helpers that the book does not teach."""

import inspect

from minitorch.nn.parameter import Parameter
from minitorch.nn.utils import clip_grad_norm_

__all__ = ["clip_grad_norm", "remove_weight_norm", "skip_init", "weight_norm"]

clip_grad_norm = clip_grad_norm_  # the name of old


def norm_except_dim(v, dim):
    """The lengths of the slices of ``v`` along ``dim``, with all axes; of all of it for None or -1.

    PyTorch takes -1 so, and not for the last axis.
    """
    if dim in (None, -1):
        return v.norm()
    return v.norm(2, [axis for axis in range(v.ndim) if axis != dim % v.ndim], keepdim=True)


class WeightNorm:
    """Before each forward, the weight is computed anew: g v / ||v|| (Salimans, Kingma, 2016)."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute_weight(self, module):
        """The weight: a tensor that the two parameters give."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, self.dim))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Train the length ``name_g`` and the direction ``name_v`` in place of a module's weight.

    A length for each slice along ``dim``, or one for all with None. Returns the module.
    """
    if any(isinstance(hook, WeightNorm) and hook.name == name for hook in _hooks(module)):
        raise RuntimeError(f"{name} has a weight_norm already")
    weight = getattr(module, name)
    hook = WeightNorm(name, dim)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def _hooks(module):
    return list(module._forward_pre_hooks.values())


def remove_weight_norm(module, name="weight"):
    """Make the weight one parameter again."""
    for handle, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module).detach()
            delattr(module, name)
            del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
            setattr(module, name, Parameter(weight))
            handle.remove()
            return module
    raise ValueError(f"{name} of {type(module).__name__} has no weight_norm")


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters hold arbitrary numbers: here those that it starts from anyway."""
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init takes modules with an option device; {module_cls} has none")
    return module_cls(*args, **kwargs)
