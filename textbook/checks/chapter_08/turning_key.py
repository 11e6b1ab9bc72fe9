"""Answers to the exercises of ``turning.py``."""

import itertools

import numpy as np

import minitorch as mt
from textbook.checks.chapter_08.turning import _program_cases, broken_rotations


@broken_rotations.answer(hidden_cases=lambda draw: _program_cases(draw, seed=1, parts=1))
def broken_rotations(programs):
    """The numbers of the programs that break a rule."""
    mt.manual_seed(0)
    x = mt.randn(2, 3, 5, 8).double()
    places = mt.tensor([3, 0, 90, 1, 7])

    def follows_the_rules(rotate):
        given = x.clone()
        here, later = rotate(given, places), rotate(x.clone(), places + 1001)
        apart = rotate(x.clone(), 2 * places)
        alone = rotate(x[1:, 2:, 4:].clone(), places[4:])
        scores = here @ here.mT
        return (
            mt.equal(given, x)
            and mt.allclose(here[:, :, 1], x[:, :, 1])  # at place 0
            and mt.allclose(here[1:, 2:, 4:], alone)
            and mt.allclose(later @ later.mT, scores)
            and not mt.allclose(apart @ apart.mT, scores)
        )

    return [i for i, rotate in enumerate(programs) if not follows_the_rules(rotate)]


# Right in another way


def broken_by_random_trials(programs):
    """Each rule by itself, at drawn places."""
    found = []
    for number, rotate in enumerate(programs):
        broken = False
        for trial in range(4):
            random = np.random.default_rng(trial)
            x = mt.tensor(random.standard_normal((2, 2, 4, 4)))
            places = mt.tensor(random.permutation(5000)[:4])
            kept = x.clone()
            y = rotate(x, places)
            broken |= (kept != x).any().item()
            x = kept
            alone = rotate(x[1:, 1:, 1:2].clone(), places[1:2])
            broken |= not np.allclose(alone.numpy(), y[1:, 1:, 1:2].numpy(), atol=1e-9)
            at_zero = rotate(x.clone(), places * 0)
            broken |= not np.allclose(at_zero.numpy(), x.numpy(), atol=1e-9)
            scores = (y @ y.mT).numpy()
            later = rotate(x.clone(), places + 2 * trial + 1)
            broken |= not np.allclose(scores, (later @ later.mT).numpy(), atol=1e-9)
            apart = rotate(x.clone(), places + mt.tensor([0, 3, 7, 1]))
            broken |= np.allclose(scores, (apart @ apart.mT).numpy(), atol=1e-9)
        if broken:
            found.append(number)
    return tuple(found)


def broken_by_single_rows(programs):
    """Everything is compared with what single rows become."""

    def single(rotate, x, places):
        y = mt.zeros_like(x)
        for b, h, i in itertools.product(*map(range, x.shape[:3])):
            y[b, h, i] = rotate(
                x[b, h, i].reshape(1, 1, 1, -1).clone(), places[i : i + 1]
            ).flatten()
        return y

    def broken(rotate):
        mt.manual_seed(3)
        x = mt.randn(2, 2, 3, 6).double()
        for start in (0, 601):
            places = mt.tensor([start, start + 5, start + 45])
            y = rotate(x.clone(), places)
            if not mt.allclose(y, single(rotate, x, places)):
                return True
            if start == 0:
                first = y
                if not mt.allclose(y[:, :, 0], x[:, :, 0]):
                    return True
        same = mt.allclose(first @ first.mT, y @ y.mT)
        near = rotate(x.clone(), mt.tensor([0, 1, 2]))
        changes = not mt.allclose(first @ first.mT, near @ near.mT)
        given = x.clone()
        rotate(given, places)
        return not (same and changes and mt.equal(given, x))

    return [i for i, rotate in enumerate(programs) if broken(rotate)]


right = {
    "broken_rotations": [broken_by_random_trials, broken_by_single_rows],
}
