"""Answers to the exercises of ``training.py``."""

import math
from functools import partial

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_03.training import _step_cases, training_step

# A step of training


def _scaled(parameters, norm):
    """Gradients that together have this norm."""
    now = sum(x.grad.square().sum().item() for x in parameters) ** 0.5
    for x in parameters:
        x.grad *= norm / now


@training_step.answer(
    hidden_cases=lambda draw: _step_cases(
        draw, more=[([[6, 2, 1], [1], [2, 2]], 0.3), ([[1], [1]], 50.0)]
    ),
    after_passing=(
        "This is called gradient accumulation; large models are trained so on small machines."
    ),
)
def training_step(model, optimizer, parts, clip):
    """One step on all parts together, as if they were one batch; the loss of a token, a number."""
    tokens = sum((~padding).sum().item() for *_, padding in parts)
    optimizer.zero_grad()
    total = 0.0
    for source, source_padding, inputs, targets, padding in parts:
        scores = model(source, source_padding, inputs)  # (B, T, V')
        losses = F.cross_entropy(scores[~padding], targets[~padding], reduction="sum")
        (losses / tokens).backward()  # the gradients add up
        total += losses.item()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return total / tokens


# Right in another way


def step_with_one_loss(model, optimizer, parts, clip):
    """All parts in one graph."""
    losses = []
    for source, source_padding, inputs, targets, padding in parts:
        log_p = model(source, source_padding, inputs).log_softmax(-1)
        each = -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)
        losses.append(each[~padding])
    loss = mt.cat(losses).mean()
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
    optimizer.step()
    return loss


def step_that_divides_gradients(model, optimizer, parts, clip):
    optimizer.zero_grad()
    total, count = 0.0, 0
    for source, rest, inputs, targets, padding in parts:
        scores, marked = model(source, rest, inputs), targets.masked_fill(padding, -100)
        loss = F.cross_entropy(scores.flatten(0, 1), marked.flatten(), reduction="sum")
        loss.backward()
        total, count = total + loss.item(), count + int((~padding).sum())
    for x in model.parameters():
        x.grad /= count
    norm = math.sqrt(sum((x.grad**2).sum().item() for x in model.parameters()))
    if norm > clip:
        for x in model.parameters():
            x.grad *= clip / norm
    optimizer.step()
    return np.float64(total / count)


right = {
    "training_step": [step_with_one_loss, partial(step_that_divides_gradients)],
}
