"""Helpers for training: gradients clipped, parameters as one vector; ``rnn`` for sequences."""

import math

from minitorch.autograd import no_grad
from minitorch.missing import in_module
from minitorch.nn.utils import rnn as rnn
from minitorch.operations.shapes import cat
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
    scale = max_norm / (total + 1e-6)
    scale = 1.0 if scale > 1 else scale  # NaN stays NaN
    for grad in grads:
        grad.array *= grad.array.dtype.type(scale)
        grad._note_change()
    return grads[0].new_tensor(total)


def clip_grad_value_(parameters, clip_value):
    """Limit every element of every gradient to the range from -clip_value to clip_value."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters):
    """All elements of all parameters, one after the other, as one tensor (N)."""
    return cat([parameter.reshape(-1) for parameter in parameters])


@no_grad
def vector_to_parameters(vec, parameters):
    """The inverse of ``parameters_to_vector``: copy the elements of ``vec`` (N) back.

    RuntimeError if ``vec`` does not have as many elements as the parameters together.
    """
    parameters = list(parameters)
    total = sum(parameter.numel() for parameter in parameters)
    if tuple(vec.shape) != (total,):
        raise RuntimeError(
            f"the parameters have {total} elements, so the vector must have shape ({total},); "
            f"got {tuple(vec.shape)}"
        )
    parts = vec.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.reshape(parameter.shape))


__getattr__ = in_module(
    __name__,
    {
        "minitorch.nn.utils.compat": "clip_grad_norm remove_weight_norm skip_init weight_norm",
        "minitorch.nn.utils.parametrizations": "parametrizations",
        "minitorch.nn.utils.parametrize": "parametrize",
    },
)
