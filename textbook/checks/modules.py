"""How an answer that is a module is driven: its parameters, outputs and gradients."""

import functools

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.recorded import recorded


def _shapes(parameters):
    """Their shapes by name, as text: what a message shows."""
    return {name: f"shape {tuple(x.shape)}" for name, x in parameters}


@recorded
def _shapes_in(make, *sizes):
    """The shapes of all parameters of what the reference makes, by name."""
    return {name: tuple(x.shape) for name, x in make(*sizes).named_parameters()}


@functools.cache
def drawn(make, *sizes):
    """Weights for what the reference makes, which depend on the sizes alone."""
    draw = Draw(0)
    return {name: draw.normal(*shape) for name, shape in _shapes_in(make, *sizes).items()}


def loaded(module, weights):
    """The module in float64, with these weights where it has parameters of their names."""
    module = module.double()
    if _shapes(module.named_parameters()) == _shapes(weights.items()):
        module.load_state_dict(weights, strict=False)  # a tied weight has two names there
    return module


def made(reference, answer, sizes):
    """The answer's module of these sizes, in float64, with the weights for the reference."""
    return loaded(answer(*sizes), drawn(reference, *sizes))


def values(x):
    """A tensor without its graph; anything else as it is."""
    return x.detach() if isinstance(x, mt.Tensor) else x


def results_of(module, weights, inputs, call, gradient="the gradient"):
    """Its parameters; and, if these are as they should be, its outputs and all gradients.

    ``inputs`` are the floating-point tensors by name; ``call(module)`` gives the outputs, by label.
    The gradients are those of the sum of the outputs, each weighted at random if it is no number.
    """
    module = loaded(module, weights)
    found = {"the dict of parameters": _shapes(module.named_parameters())}
    if found["the dict of parameters"] != _shapes(weights.items()):
        return found
    for x in inputs.values():
        x.requires_grad_()
    outputs = call(module)
    tensors = [x for x in outputs.values() if isinstance(x, mt.Tensor) and x.requires_grad]
    if tensors:
        sum((x * Draw(1).normal(*x.shape)).sum() if x.ndim else x for x in tensors).backward()
    for label, x in outputs.items():
        found[label] = values(x)
    for name, x in {**inputs, **dict(module.named_parameters())}.items():
        found[f"{gradient} with respect to {name}"] = mt.zeros_like(x) if x.grad is None else x.grad
    return found
