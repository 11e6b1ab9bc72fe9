"""Answers to the exercises of ``leaks.py``."""

import numpy as np

import minitorch as mt
from minitorch.autograd import grad
from textbook.checks.chapter_12.leaks import _leak_cases, leaking

# The test


@leaking.answer(hidden_cases=lambda draw: _leak_cases(draw, d=5, seed=1, longer=7))
def leaking(mixers, x):
    """The numbers of the mixers in which an output depends on a later token of x (n, d)."""
    found = []
    for i, mixer in enumerate(mixers):
        outputs, leaks = mixer(x), False
        for t in range(len(x) - 1):
            noise = 20 * mt.randn_like(x[t + 1 :])
            for later in (noise, -noise):
                changed = mixer(mt.cat([x[: t + 1], later]))
                same = mt.allclose(changed[: t + 1], outputs[: t + 1], rtol=0, atol=1e-9)
                leaks = leaks or not same
        if leaks:
            found.append(i)
    return found


def _by_gradients(mixers, x, of=lambda output: output):
    found = []
    for i, mixer in enumerate(mixers):
        leaf = x.clone().requires_grad_()
        outputs = mixer(leaf)
        for t in range(len(x) - 1):
            gradients = [
                grad(each, leaf, retain_graph=True)[0] for each in of(outputs[t]).flatten()
            ]
            if mt.stack(gradients)[:, t + 1 :].abs().max() > 1e-9:
                found.append(i)
                break
    return found


# Right in another way


def leaking_token_by_token(mixers, x):
    """Each pair of tokens: the later one is changed, the outputs before it are compared."""

    def leaks(mixer):
        whole = mixer(x)
        for j in range(1, len(x)):
            for by in (-77.0, 77.0):
                for c in range(x.shape[1]):
                    changed = x.clone()
                    changed[j, c] += by
                    if ((mixer(changed) - whole)[:j].abs() > 1e-9).any():
                        return True
        return False

    return [i for i, mixer in enumerate(mixers) if leaks(mixer)]


def leaking_by_chance(mixers, x):
    """Random ends of the text, in NumPy."""
    random = np.random.default_rng()
    found = set()
    for i, mixer in enumerate(mixers):
        whole = mixer(x).numpy()
        for _ in range(10):
            for t in range(1, len(x)):
                end = mt.tensor(50 * random.standard_normal((len(x) - t, x.shape[1])))
                if np.abs(mixer(mt.cat([x[:t], end])).numpy()[:t] - whole[:t]).max() > 1e-9:
                    found.add(i)
    return sorted(found)


right = {
    "leaking": [leaking_token_by_token, leaking_by_chance],
}
