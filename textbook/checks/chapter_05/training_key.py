"""Answers to the exercises of ``training.py``."""

from fractions import Fraction

import minitorch as mt
from textbook.checks.chapter_05.training import _measure_cases, right_unseen

# The share that is right, of what was not seen


@right_unseen.answer(hidden_cases=lambda draw: _measure_cases(draw, more=[(14, 5, 6, False)]))
def right_unseen(model, sentences, targets, seen):
    """The share of right answers in sentences that are not among those seen; None if none is."""
    done, rows = {tuple(row) for row in seen.tolist()}, []
    for k, row in enumerate(sentences.tolist()):
        if tuple(row) not in done:
            rows.append(k)
            done.add(tuple(row))
    if not rows:
        return None
    training = model.training
    model.eval()
    with mt.no_grad():
        said = model(sentences[rows]).argmax(dim=-1)
    model.train(training)
    asked = targets[rows] != -100
    right = ((said == targets[rows]) & asked).sum().item()
    return right / asked.sum().item() if asked.any() else None


# Right in another way


def unseen_one_by_one(model, sentences, targets, seen):
    """In exact numbers."""
    training, right, asked, done = model.training, 0, 0, seen.tolist()
    model.eval()
    for tokens, wanted in zip(sentences, targets, strict=True):
        if tokens.tolist() not in done:
            done.append(tokens.tolist())
            said = model(tokens.unsqueeze(0))[0].detach().numpy().argmax(axis=-1)
            pairs = [(s, t) for s, t in zip(said, wanted.tolist(), strict=True) if t >= 0]
            right, asked = right + sum(s == t for s, t in pairs), asked + len(pairs)
    model.train(training)
    return Fraction(int(right), asked) if asked else None


def unseen_with_tensors(model, sentences, targets, seen):
    """All are compared with all at once, and all are read; the result is a tensor."""
    new = ~(sentences.unsqueeze(1) == seen).all(dim=2).any(dim=1)  # (N)
    same = (sentences.unsqueeze(1) == sentences).all(dim=2)  # (N, N)
    before = mt.arange(len(new)) < mt.arange(len(new)).unsqueeze(1)
    counts = (new & ~(same & before).any(dim=1)).unsqueeze(1) & (targets != -100)
    was = model.training
    hits = model.eval()(sentences).argmax(-1) == targets
    model.train(was)
    return (hits & counts).sum().double() / counts.sum() if counts.any() else None


right = {
    "right_unseen": [unseen_one_by_one, unseen_with_tensors],
}
