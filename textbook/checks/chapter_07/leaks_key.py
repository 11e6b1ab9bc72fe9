"""Answers to the exercises of ``leaks.py``."""

import minitorch as mt
from textbook.checks.chapter_07.leaks import (
    _attention,
    _causal,
    _model_cases,
    _triangle,
    _unmasked,
    dependence,
)


def _leak_from_the_first_number(x):
    outputs = _causal(x)
    return mt.cat([outputs[:1] + x[-1, 0].sin(), outputs[1:]])


HIDDEN_MODELS = {
    "a leak from the first number of the last token": _leak_from_the_first_number,
    "attention without a mask": _unmasked,
    "the tokens in reverse order": lambda x: x.flip(0),
    "the last token everywhere": lambda x: x[-1].expand(*x.shape).sin(),
    "attention within a window": _attention(lambda n: _triangle(n) & ~_triangle(n).tril(-2)),
    "the first number of each sum": lambda x: x.cumsum(dim=0)[:, :1],
}


@dependence.answer(hidden_cases=lambda draw: _model_cases(draw, more=HIDDEN_MODELS.items()))
def dependence(model, x):
    """(n, n) boolean: True where output i of the model depends on token j of x (n, d)."""
    x = x.clone().requires_grad_()
    rows = []
    for output in model(x):
        gradients = [mt.autograd.grad(number, x, retain_graph=True)[0] for number in output]
        rows.append((mt.stack(gradients) != 0).any(dim=-1).any(dim=0))  # (n)
    return mt.stack(rows)


# Right in another way


def dependence_with_random_weights(model, x):
    x = x.clone().requires_grad_()
    outputs = model(x)
    outputs = outputs * mt.randn(*outputs.shape, generator=mt.Generator().manual_seed(3))
    rows = []
    for i in range(len(outputs)):
        x.grad = None
        outputs[i].sum().backward(retain_graph=True)
        rows.append((x.grad != 0).any(dim=1))
    return mt.stack(rows)


def dependence_with_new_passes(model, x):
    """A forward and a backward pass for each number of each output."""
    n, size = model(x).shape
    table = mt.zeros(n, n, dtype=mt.bool)
    for i in range(n):
        for c in range(size):
            leaf = x.clone().requires_grad_()
            model(leaf)[i, c].backward()
            table[i] |= (leaf.grad != 0).any(dim=1)
    return table


def dependence_by_one_hot_gradients(model, x):
    leaf = x.clone().requires_grad_()
    outputs = model(leaf)
    table = mt.zeros(len(x), len(x))
    for i in range(len(outputs)):
        for c in range(outputs.shape[1]):
            chosen = mt.zeros_like(outputs)
            chosen[i, c] = 1
            [gradient] = mt.autograd.grad(outputs, leaf, chosen, retain_graph=True)
            table[i] += gradient.abs().sum(dim=1)
    return table > 0


right = {
    "dependence": [
        dependence_with_random_weights,
        dependence_with_new_passes,
        dependence_by_one_hot_gradients,
    ],
}
