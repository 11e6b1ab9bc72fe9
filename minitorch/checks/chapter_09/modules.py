"""How an answer that is a module is driven: its parameters, output and gradients."""

import functools

import minitorch as mt
from minitorch.checks.exercise import Draw


def _shapes(parameters):
    """Their shapes by name, as text: what a message shows."""
    return {name: f"shape {tuple(x.shape)}" for name, x in parameters}


@functools.cache
def _drawn(reference, sizes):
    """Parameters that depend on the sizes alone."""
    return Draw(0).state(reference(*sizes))


def made(reference, answer, sizes):
    """The module in float64, with drawn parameters where it has those of the reference."""
    module = answer(*sizes).double()
    drawn = _drawn(reference, sizes)
    if _shapes(module.named_parameters()) == _shapes(drawn.items()):
        module.load_state_dict(drawn)
    return module


def results_of(reference, answer, sizes, x, *others):
    """Its parameters; and, if these are as they should be, its output and all gradients."""
    module, drawn = made(reference, answer, sizes), _drawn(reference, sizes)
    results = {"the dict of parameters": _shapes(module.named_parameters()), "the output": None}
    results |= {f"the gradient with respect to {name}": None for name in ("x", *drawn)}
    if results["the dict of parameters"] != _shapes(drawn.items()):
        return results
    output = module(x.requires_grad_(), *others)
    results["the output"] = output
    if isinstance(output, mt.Tensor) and output.requires_grad:
        (output * Draw(1).normal(*output.shape)).sum().backward()
        results["the output"] = output.detach()
    return results | {
        f"the gradient with respect to {name}": mt.zeros_like(x) if x.grad is None else x.grad
        for name, x in {"x": x, **dict(module.named_parameters())}.items()
    }
