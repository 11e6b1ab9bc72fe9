"""Helpers for training: clipping gradients."""

import math

from minitorch.tensor import Tensor


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scale all gradients so that their joint norm is at most ``max_norm``; return the norm before.

    g <- g * min(1, max_norm / (||g|| + 1e-6)), with the norm over all parameters together
    (Pascanu, Mikolov and Bengio, 2013).
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not grads:
        return Tensor([0.0]).squeeze()
    norms = [float(grad.norm(norm_type)) for grad in grads]
    if norm_type == math.inf:
        total = max(norms)
    else:
        total = sum(norm**norm_type for norm in norms) ** (1 / norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(f"the norm of the gradients is {total}, so they cannot be clipped")
    scale = min(1.0, max_norm / (total + 1e-6))
    for grad in grads:
        grad.array *= grad.array.dtype.type(scale)
    return grads[0].new_tensor(total)


def clip_grad_value_(parameters, clip_value):
    """Limit every element of every gradient to the range from -clip_value to clip_value."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.clamp_(-clip_value, clip_value)
