"""Answers to the exercises of ``mixers.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_06.mixers import _kinds, mixing
from textbook.checks.exercise import Draw
from textbook.checks.suspects import in_parts, shuffled


@mixing.answer(
    hidden_cases=lambda draw: in_parts(shuffled(_kinds(), Draw(1).random), 1),
    after_passing="The same two comparisons test any layer of yours that knows no positions.",
)
def mixing(layers):
    """The numbers of the layers that mix positions or sequences."""

    def near(a, b):
        return mt.allclose(a, b, rtol=0, atol=1e-9)

    def apart(layer, batch, n):
        X, order = mt.randn(batch, n, 8, dtype=mt.float64), mt.randperm(n)
        outputs = layer(X)
        alone = mt.cat([layer(X[b : b + 1]) for b in range(batch)])
        others = layer(X[:, order])
        return near(alone, outputs) and near(others, outputs[:, order])

    sizes = [(batch, n) for batch in (2, 3, 4) for n in (3, 5, 8)] * 2
    return [i for i, layer in enumerate(layers) if not all(apart(layer, *size) for size in sizes)]


# Right in another way


def mixing_with_numpy(layers):
    random, found = np.random.default_rng(1), []
    for i, layer in enumerate(layers):
        worst = 0.0
        for batch, n in ((4, 8), (4, 7), (2, 8), (3, 5), (1, 3)):
            X = random.standard_normal((batch, n, 8))
            order = random.permutation(n)
            Y = layer(mt.tensor(X)).numpy()
            permuted = layer(mt.tensor(X[:, order].copy())).numpy()
            worst = max(worst, np.abs(permuted - Y[:, order]).max())
            for b in range(batch):
                worst = max(worst, np.abs(layer(mt.tensor(X[b : b + 1])).numpy()[0] - Y[b]).max())
        if worst > 1e-9:
            found.append(np.int64(i))
    return found


def mixing_by_one_change(layers):
    """Another sequence is exchanged, and two positions are."""

    def mixes(layer):
        for batch in (2, 3, 4):
            for n in (2, 5, 8):
                X = mt.randn(batch, n, 8, dtype=mt.float64)
                outputs, others = layer(X), X.clone()
                if (layer(X[-1:])[0] - outputs[-1]).abs().max() > 1e-9:
                    return True
                others[-1] = mt.randn(n, 8, dtype=mt.float64)
                if (layer(others)[:-1] - outputs[:-1]).abs().max() > 1e-9:
                    return True
                for i, j in ((0, 1), (n - 1, 0), (n - 2, n // 2)):
                    order = list(range(n))
                    order[i], order[j] = order[j], order[i]
                    if (layer(X[:, order]) - outputs[:, order]).abs().max() > 1e-9:
                        return True
        return False

    return tuple(i for i in range(len(layers)) if mixes(layers[i]))


right = {
    "mixing": [mixing_with_numpy, mixing_by_one_change],
}
