"""Answers to the exercises of ``training.py``."""

import math

import minitorch as mt
from textbook.checks.chapter_00.training import _step_cases, step_in_parts

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


# A step in parts


@step_in_parts.answer(
    hidden_cases=lambda draw: _step_cases(draw, more=[([[5, 1, 1, 3]] * 4, 3, 90, 0.2)]),
    after_passing=(
        "This is called gradient accumulation; large models are trained so on small machines."
    ),
)
def step_in_parts(loss_of, parts, parameters, means, squares, t, lr):
    """One step of Adam on the mean loss of all parts, which is returned as a number."""
    count = sum(len(targets) for _, targets in parts)
    for w in parameters:
        w.grad = None
    total = 0.0
    for inputs, targets in parts:
        loss = loss_of(inputs, targets) * (len(targets) / count)
        loss.backward()
        total += loss.item()
    with mt.no_grad():
        for w, m, v in zip(parameters, means, squares, strict=True):
            if w.grad is not None:
                m.copy_(0.9 * m + 0.1 * w.grad)
                v.copy_(0.999 * v + 0.001 * w.grad**2)
                w -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    return total


def _step_for_each_part(loss_of, parts, parameters, means, squares, t, lr):
    case = parameters, means, squares, t, lr
    count = sum(len(y) for _, y in parts)
    losses = [step_in_parts.reference(loss_of, [part], *case) for part in parts]
    return sum(x * len(y) / count for x, (_, y) in zip(losses, parts, strict=True))


def _step_on_each_share(loss_of, parts, *case):
    count = sum(len(y) for _, y in parts)

    def shrunk(inputs, targets):
        return loss_of(inputs, targets) * (len(targets) / count)

    return sum(step_in_parts.reference(shrunk, [part], *case) for part in parts)


def _gradient_of_the_last_part(loss_of, parts, parameters, means, squares, t, lr):
    count = sum(len(y) for _, y in parts)
    with mt.no_grad():
        total = sum(loss_of(x, y).item() * len(y) / count for x, y in parts)

    def shrunk(inputs, targets):
        return loss_of(inputs, targets) * (len(targets) / count)

    step_in_parts.reference(shrunk, parts[-1:], parameters, means, squares, t, lr)
    return total


# Right in another way


def step_with_the_library(loss_of, parts, parameters, means, squares, t, lr):
    """Adam of the library, given the state."""
    optimizer = mt.optim.Adam(parameters, lr=lr)
    optimizer.zero_grad(set_to_none=True)
    sizes = [len(targets) for _, targets in parts]
    losses = []
    for size, (inputs, targets) in zip(sizes, parts, strict=True):
        loss = loss_of(inputs, targets)
        (loss * size / sum(sizes)).backward()
        losses.append(size * loss.detach())
    for w, m, v in zip(parameters, means, squares, strict=True):
        if w.grad is None:
            continue
        m += 0.1 * (w.grad - m)
        v += 0.001 * (w.grad * w.grad - v)
        size = lr * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        with mt.no_grad():
            w -= size * m / (v.sqrt() + 1e-8 * math.sqrt(1 - 0.999**t))
    return sum(losses) / sum(sizes)


def step_by_sums(loss_of, parts, parameters, means, squares, t, lr):
    """Gradients from grad(), added up by hand."""
    count, total, sums = 0, 0.0, [None] * len(parameters)
    for inputs, targets in parts:
        n = inputs.shape[0]
        loss = loss_of(inputs, targets)
        found = mt.autograd.grad(loss, parameters, allow_unused=True)
        count, total = count + n, total + n * float(loss)
        for i, g in enumerate(found):
            if g is not None:
                sums[i] = n * g if sums[i] is None else sums[i] + n * g
    for w, m, v, g in zip(parameters, means, squares, sums, strict=True):
        if g is not None:
            g = g / count
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            w.data -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    return total / count


right = {
    "step_in_parts": [step_with_the_library, step_by_sums],
}
