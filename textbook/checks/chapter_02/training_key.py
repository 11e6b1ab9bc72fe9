"""Answers to the exercises of ``training.py``."""

from fractions import Fraction

import numpy as np

import minitorch as mt
from textbook.checks.chapter_02.training import _measure_cases, right_by_distance

# The share that is right, by the distance


@right_by_distance.answer(
    hidden_cases=lambda draw: _measure_cases(
        draw,
        others=[
            ([(6, 8), (2, 4), (3, 7)], 31, False),
            ([(4, 12)], 10, True),
            ([(3, 5)], 9, False),
            ([(5, 9)], 88, False),
        ],
    )
)
def right_by_distance(model, batches):
    """The share of right answers for distances from 0 to 9, from 10 to 19, ...: a dict."""
    training, counts = model.training, {}
    model.eval()
    with mt.no_grad():
        for tokens, answers, distances in batches:
            right = model(tokens).argmax(dim=-1) == answers
            for distance, hit in zip(distances.tolist(), right.tolist(), strict=True):
                counts.setdefault(distance // 10 * 10, []).append(hit)
    model.train(training)
    return {group: sum(hits) / len(hits) for group, hits in counts.items()}


# Right in another way


def distances_with_tensors(model, batches):
    was = model.training
    hits, groups = [], []
    for tokens, answers, distances in batches:
        scores = model.eval()(tokens).detach()
        hits.append((scores.max(dim=-1).indices == answers).double())
        groups.append(distances // 10 * 10)
    model.train(was)
    if not hits:
        return {}
    hits, groups = mt.cat(hits), mt.cat(groups)
    return {key: hits[groups == key].mean() for key in groups.unique().tolist()}


def distances_as_fractions(model, batches):
    training, right, count = model.training, {}, {}
    model.eval()
    for tokens, answers, distances in batches:
        for k, distance in enumerate(distances):
            key = np.int64(distance.item() - distance.item() % 10)
            said = np.argmax(model(tokens[:, k : k + 1]).detach().numpy())
            right[key] = right.get(key, 0) + int(said == answers[k].item())
            count[key] = count.get(key, 0) + 1
    (model.train if training else model.eval)()
    return {key: Fraction(right[key], count[key]) for key in count}


right = {
    "right_by_distance": [distances_with_tensors, distances_as_fractions],
}
