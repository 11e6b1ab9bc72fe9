"""Answers to the exercises of ``probing.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_13.probing import _all_right_cases, _probe_cases, probe


def _hidden_cases(draw):
    yield from _probe_cases(draw, others=(4, 5, [1.0, 100.0, 0.01, 10.0]))
    yield from _all_right_cases(draw, width=4)


@probe.answer(
    hidden_cases=_hidden_cases,
    after_passing="Faster: one eigendecomposition of X^T X serves all strengths.",
)
def probe(train, labels, validation, validation_labels, test, strengths):
    """The chosen strength and the scores (M, C) of the test states (M, d)."""
    mean, spread = train.mean(dim=0), train.std(dim=0, correction=0)
    spread = spread.masked_fill(spread == 0, mt.inf)
    x, v, t = (((states - mean) / spread).numpy() for states in (train, validation, test))
    y = np.eye(labels.max().item() + 1)[labels.numpy()]
    offset = y.mean(axis=0)  # the columns of x have the mean 0
    best = -1.0
    for strength in sorted(strengths, reverse=True):
        weights = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ (y - offset))
        found = (v @ weights + offset).argmax(axis=1)
        right = (found == validation_labels.numpy()).mean()
        if right > best:
            best, chosen, scores = right, strength, t @ weights + offset
    return chosen, scores


# Right in another way


def probe_with_a_column_of_ones(train, labels, validation, validation_labels, test, strengths):
    """The offset as a weight without penalty."""
    x, v, t = (np.asarray(states.numpy()) for states in (train, validation, test))
    moving = x.std(axis=0) > 0
    mean, spread = x[:, moving].mean(axis=0), x[:, moving].std(axis=0)
    x, v, t = (
        np.column_stack([(each[:, moving] - mean) / spread, np.ones(len(each))])
        for each in (x, v, t)
    )
    y = np.zeros((len(x), int(labels.max()) + 1))
    y[np.arange(len(x)), labels.numpy()] = 1
    penalty = np.diag([1.0] * (x.shape[1] - 1) + [0.0])
    found = []
    for strength in strengths:
        weights = np.linalg.solve(x.T @ x + strength * penalty, x.T @ y)
        share = (np.argmax(v @ weights, axis=1) == validation_labels.numpy()).sum()
        found.append((share, strength, weights))
    _, strength, weights = max(found, key=lambda each: each[:2])
    return strength, mt.tensor(t @ weights)


def probe_by_singular_values(train, labels, validation, validation_labels, test, strengths):
    mean, spread = train.mean(0), train.var(0, correction=0).sqrt()
    scale = mt.where(spread > 0, 1 / spread, 0.0)
    x, v, t = (((states - mean) * scale).numpy() for states in (train, validation, test))
    y = F.one_hot(labels, int(labels.max()) + 1).numpy().astype(float)
    u, s, right = np.linalg.svd(x, full_matrices=False)
    best = None
    for strength in strengths:
        weights = right.T @ (s[:, None] / (s**2 + strength)[:, None] * (u.T @ (y - y.mean(0))))
        hits = int(((v @ weights + y.mean(0)).argmax(1) == validation_labels.numpy()).sum())
        if best is None or (hits, strength) > best[:2]:
            best = hits, strength, t @ weights + y.mean(0)
    return [best[1], best[2]]


right = {
    "probe": [probe_with_a_column_of_ones, probe_by_singular_values],
}
