"""Answers to the exercises of ``training.py``."""

import math

import numpy as np

import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_11.training import train


@train.answer(hidden_cases=lambda draw: [(11, 50)])
def train(model, draw, steps, rate):
    """Train a translator in place, on batches that draw() gives; the loss of each step."""
    optimizer = optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0)
    model.train()
    losses = []
    for step in range(1, steps + 1):
        rise, fall = step / max(steps // 10, 1), 1.1 * (1 - (step - 1) / steps)
        optimizer.param_groups[0]["lr"] = rate * min(rise, fall, 1.0)
        source, target = draw()
        scores = model(source, target[:, :-1]).flatten(0, 1)  # (B T, V)
        loss = F.cross_entropy(scores, target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


# Right in another way


def train_by_hand(model, draw, steps, rate):
    """A cosine, the loss by hand."""
    adam = optim.Adam(list(model.parameters()), lr=rate, betas=(0.8, 0.95))
    model.train(True)
    history = []
    for k in range(steps):
        for group in adam.param_groups:
            group["lr"] = rate * (0.5 + 0.5 * math.cos(math.pi * k / steps))
        source, target = draw()
        log_p = model(source, target[:, :-1]).log_softmax(-1)
        wanted = target[:, 1:]
        right = log_p.gather(2, wanted.unsqueeze(2)).squeeze(2)
        loss = -right[wanted != 0].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        history.append(float(loss.detach()))
    model.train(False)
    return history


def train_without_a_schedule(model, draw, steps, rate):
    learner = optim.AdamW(model.parameters(), lr=rate)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    losses = np.zeros(steps)
    model.train()
    for i in range(steps):
        learner.zero_grad()
        source, target = draw()
        inputs, wanted = target[:, : target.shape[1] - 1], target[:, 1:]
        loss = criterion(model(source, inputs).transpose(1, 2), wanted)
        loss.backward()
        learner.step()
        losses[i] = loss.item()
    model.eval()
    return losses.tolist()


right = {
    "train": [train_by_hand, train_without_a_schedule],
}
