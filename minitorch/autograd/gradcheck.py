"""Check a gradient against finite differences."""

import numpy as np

from minitorch.autograd.backward import grad
from minitorch.autograd.modes import no_grad
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import array_module, to_numpy


def numerical_jacobian_product(function, inputs, which, weight, eps):
    """sum(weight * d function / d inputs[which]) by central differences, one element at a time."""
    array = inputs[which].array
    result = np.zeros(array.shape)
    with no_grad():
        for position in np.ndindex(array.shape):
            kept = array[position].copy()
            array[position] = kept + eps
            above = (to_numpy(function(*inputs).array) * weight).sum()
            array[position] = kept - eps
            below = (to_numpy(function(*inputs).array) * weight).sum()
            array[position] = kept
            result[position] = (above - below) / (2 * eps)
    return result


def gradcheck(func, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compare the gradient of ``func`` with central differences of step ``eps``.

    ``(f(x + eps) - f(x - eps)) / (2 eps)`` for each element of each float64 input that requires a
    gradient, where f is a fixed random weighting of the function's output. Returns True, or raises
    RuntimeError that names the input and shows both gradients (False without
    ``raise_exception``).
    """
    inputs = (inputs,) if isinstance(inputs, TensorBase) else tuple(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, TensorBase) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck needs an input tensor with requires_grad=True")
    for i in checked:
        if inputs[i].array.dtype != np.float64:
            raise ValueError(
                f"gradcheck needs float64 inputs, since differences of step {eps} drown in the "
                f"rounding of {inputs[i].dtype}; input {i} is {inputs[i].dtype}: use .double()"
            )
    output = func(*inputs)
    weight = np.random.default_rng(0).standard_normal(output.array.shape)
    seed = output.result_class._wrap(
        array_module(output.array).asarray(weight, dtype=output.array.dtype)
    )
    analytical = grad(output, [inputs[i] for i in checked], seed, allow_unused=True)
    for i, got in zip(checked, analytical, strict=True):
        expected = numerical_jacobian_product(func, inputs, i, weight, eps)
        got = np.zeros_like(expected) if got is None else to_numpy(got.array)
        if not np.allclose(got, expected, rtol=rtol, atol=atol):
            if not raise_exception:
                return False
            raise RuntimeError(
                f"the gradient with respect to input {i} differs from finite differences\n"
                f"backward gives\n{got}\nfinite differences give\n{expected}"
            )
    return True
