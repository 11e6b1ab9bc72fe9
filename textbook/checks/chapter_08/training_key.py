"""Answers to the exercises of ``training.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_08.training import _measure_cases, right_beyond

# How much is right


@right_beyond.answer(
    hidden_cases=lambda draw: _measure_cases(
        draw,
        others=[
            ([(3, 9), (1, 5), (2, 7)], 5, False),
            ([(4, 6)], 0, True),
            ([(1, 4), (5, 12)], 4, True),
            ([(2, 3)], 5, False),
        ],
    )
)
def right_beyond(model, batches, first):
    """The share of right answers at the places from first on; None if nothing is asked there."""
    training, right, asked = model.training, 0, 0
    model.eval()
    with mt.no_grad():
        for tokens, targets in batches:
            there = (mt.arange(tokens.shape[1]) >= first) & (targets != -100)
            right += ((model(tokens).argmax(dim=-1) == targets) & there).sum().item()
            asked += there.sum().item()
    model.train(training)
    return right / asked if asked else None


# Right in another way


def right_in_a_loop(model, batches, first):
    mode = model.training
    model.eval()
    answers = []
    for tokens, targets in batches:
        scores = model(tokens)
        for b in range(len(tokens)):
            for t in range(first, tokens.shape[1]):
                if targets[b, t].item() != -100:
                    answers.append(scores[b, t].argmax().item() == targets[b, t].item())
    if mode:
        model.train()
    return np.mean(answers) if answers else None


def right_with_cut_tensors(model, batches, first):
    training = model.training
    try:
        model.eval()
        said = [model(tokens).argmax(-1)[:, first:].flatten() for tokens, _ in batches]
    finally:
        model.train(training)
    targets = mt.cat([targets[:, first:].flatten() for _, targets in batches])
    asked = targets != -100
    if not asked.any():
        return None
    return (mt.cat(said) == targets)[asked].double().mean()


right = {
    "right_beyond": [right_in_a_loop, right_with_cut_tensors],
}
