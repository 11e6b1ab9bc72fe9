"""A linear probe of states: what fits it, what chooses and what is asked lie apart."""

import numpy as np

import minitorch as mt
from textbook.checks.compare import brief, difference
from textbook.checks.exercise import exercise


def _probe_cases(draw, others=()):
    """States and labels to fit and to choose by, states to ask, and strengths in some order."""
    classes, width, strengths = others or (3, 4, [10.0, 0.1, 1000.0])
    for count, ask in ((9, 3), (30, 7), (60, 2), (40, 1)):
        random = draw.random
        directions = random.normal(size=(classes, width))

        def states(labels, shift, directions=directions, random=random):
            clean = directions[labels] + random.normal(size=(len(labels), width))
            return mt.tensor((clean + shift) * np.geomspace(0.1, 50, width) + 3)

        labels = np.concatenate([np.arange(classes), random.integers(classes, size=count)])
        chosen = random.integers(classes, size=11)
        other = random.integers(classes, size=ask)
        train, validation, test = states(labels, 0.0), states(chosen, 0.3), states(other, 0.8)
        if count == 40:  # a number that never changes where it is fitted
            train[:, 1] = 2.0
        yield train, mt.tensor(labels), validation, mt.tensor(chosen), test, strengths
    yield train, mt.tensor(labels), validation, mt.tensor(chosen), test, strengths[:1]


def _all_right_cases(draw, width=3):
    """Classes far apart: all strengths but one choose with the same share of right answers."""
    labels = np.arange(12) % 2
    states = mt.tensor(8.0 * labels[:, None] + draw.random.normal(size=(12, width)))
    test = mt.tensor(draw.random.normal(size=(4, width)) + 4)
    y = mt.tensor(labels)
    for strengths in ([1.0, 30.0, 0.1], [0.1, 1.0, 30.0], [30.0, 0.1]):
        yield states, y, states + 0.1, y, test, strengths


def _cases(draw):
    yield from _probe_cases(draw)
    yield from _all_right_cases(draw)


def _hidden_cases(draw):
    yield from _probe_cases(draw, others=(4, 5, [1.0, 100.0, 0.01, 10.0]))
    yield from _all_right_cases(draw, width=4)


def _probed(answer, train, labels, validation, validation_labels, test, strengths):
    """The strength, and the scores as an array."""
    try:
        result = answer(train, labels, validation, validation_labels, test, strengths)
    except np.linalg.LinAlgError as error:
        for i in np.flatnonzero((train == train[0]).all(dim=0).numpy()):
            error.args = (f"{error} (number {i} is the same in all training states)",)
        raise
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return {"the form of the result": brief(result), "the strength": None, "the scores": None}
    strength, scores = result
    if isinstance(scores, mt.Tensor):
        scores = scores.detach().numpy()
    form = "a strength and scores"
    return {"the form of the result": form, "the strength": strength, "the scores": scores}


def _asks_one_by_one(answer, *case):
    """Scores of a state do not depend on what else is asked."""
    *rest, test, strengths = case
    if len(test) == 1:
        return None
    whole = _probed(answer, *case)["the scores"]
    alone = _probed(answer, *rest, test[:1], strengths)["the scores"]
    if not np.allclose(alone, whole[:1]):
        return "What the probe says of a state must not depend on the other states of the test."
    return None


def _constant(check, answer, train, labels, validation, truth, test, strengths):
    """Right as long as what never changes in training does not change elsewhere."""
    never = (train == train[0]).all(dim=0)
    others = [mt.where(never, train[0], states) for states in (validation, test)]
    case = train, labels, others[0], truth, others[1], strengths
    if never.any() and not difference(_probed(answer, *case), _probed(check.reference, *case), ""):
        return (
            "All is right but for a number that is the same in all training states and another one "
            "elsewhere: divided by nearly 0 it is huge there, and it has to count as 0."
        )
    return None


@exercise(
    cases=_cases,
    hidden_cases=_hidden_cases,
    run=_probed,
    gradients=False,
    properties=(_asks_one_by_one,),
    reasons=(_constant,),
    after_passing="Faster: one eigendecomposition of X^T X serves all strengths.",
    see='chapter 13, "What does it know?"',
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
