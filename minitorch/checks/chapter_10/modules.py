"""How an answer that is a module is driven, with several inputs and outputs."""

import functools

import minitorch as mt
from minitorch import nn
from minitorch.checks.chapter_06 import MultiHeadAttention
from minitorch.checks.compare import brief
from minitorch.checks.exercise import Draw

Attention = MultiHeadAttention.reference


def _mixed(x, memory, allowed):
    """What each row of x (B, T, width) gets of the memory (B, n, width), a good deal of all."""
    scores = (x.tanh() @ memory.tanh().mT / x.shape[-1]).unsqueeze(1)  # (B, 1, T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    return (scores.softmax(dim=-1) @ memory.unsqueeze(1)).squeeze(1)


class Look(nn.Module):
    """An attention with one matrix, called as that of chapter 06."""

    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width) and a mask or None give (B, T, width)."""
        if not isinstance(memory, mt.Tensor) or memory.ndim != 3:
            raise TypeError(
                "an attention is called with two sequences and a mask: the one that asks, the one "
                "that is looked at, and where it may look"
            )
        return self.value(_mixed(x, memory, allowed))


class Layer(nn.Module):
    """What a stack is made of in the checks of stacks: as little as shows how it is called."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(mt.ones(width, width))

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        """x (B, T, width), and what a block gets, give (B, T, width)."""
        x = x + _mixed(x, x, allowed) @ self.weight
        return x if memory is None else x + _mixed(x, memory, memory_allowed)


def real_mask(draw, batch, n):
    """(B, n): the first sequence is whole, each of the others has a token and padding."""
    lengths = mt.cat([mt.tensor([n]), 1 + draw.integers(n - 1, batch - 1)])
    return mt.arange(n) < lengths.unsqueeze(1)


def with_axes(real):
    """(B, n) -> (B, 1, 1, n)."""
    return real.unsqueeze(1).unsqueeze(1)


def pair(value, parts):
    """The value if it is a pair, as a tuple; else an error that says what it should hold."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"expected a pair, {parts}; got {brief(value)}")
    return tuple(value)


def _shapes(parameters):
    """Their shapes by name, as text: what a message shows."""
    return {name: f"shape {tuple(x.shape)}" for name, x in parameters}


@functools.cache
def drawn(make, *sizes):
    """Weights for what the reference makes, which depend on the sizes alone."""
    draw = Draw(0)
    return {name: draw.normal(*x.shape) for name, x in make(*sizes).named_parameters()}


def loaded(module, weights):
    """The module in float64, with these weights where it has parameters of their names."""
    module = module.double()
    if _shapes(module.named_parameters()) == _shapes(weights.items()):
        module.load_state_dict(weights, strict=False)  # a tied weight has two names there
    return module


def results_of(module, weights, inputs, call):
    """Its parameters; and, if these are as they should be, its outputs and all gradients.

    ``inputs`` are the floating-point tensors by name; ``call(module)`` gives the outputs, by label.
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
        sum((x * Draw(1).normal(*x.shape)).sum() for x in tensors).backward()
    for label, x in outputs.items():
        found[label] = x.detach() if isinstance(x, mt.Tensor) else x
    for name, x in {**inputs, **dict(module.named_parameters())}.items():
        found[f"the gradient with respect to {name}"] = (
            mt.zeros_like(x) if x.grad is None else x.grad
        )
    return found
