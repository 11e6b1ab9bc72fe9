"""A linear probe of states: what fits it, what chooses and what is asked lie apart."""

import numpy as np

import minitorch as mt
from textbook.checks.compare import brief, difference
from textbook.checks.exercise import exercise


def _probe_cases(draw, hidden):
    """States and labels to fit and to choose by, states to ask, and strengths in some order."""
    classes, width = (4, 5) if hidden else (3, 4)
    strengths = [1.0, 100.0, 0.01, 10.0] if hidden else [10.0, 0.1, 1000.0]
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


def _all_right_cases(draw, hidden):
    """Classes far apart: all strengths but one choose with the same share of right answers."""
    width = 3 + hidden
    labels = np.arange(12) % 2
    states = mt.tensor(8.0 * labels[:, None] + draw.random.normal(size=(12, width)))
    test = mt.tensor(draw.random.normal(size=(4, width)) + 4)
    y = mt.tensor(labels)
    for strengths in ([1.0, 30.0, 0.1], [0.1, 1.0, 30.0], [30.0, 0.1]):
        yield states, y, states + 0.1, y, test, strengths


def _cases(draw, hidden):
    yield from _probe_cases(draw, hidden)
    yield from _all_right_cases(draw, hidden)


def _of_train(train, validation, test):
    mean, spread = train.mean(axis=0), train.std(axis=0)
    return [
        np.divide(x - mean, spread, out=np.zeros_like(x), where=spread > 0)
        for x in (train, validation, test)
    ]


def _ridge(x, y, strength):
    """Weights, and an offset that no penalty pulls to 0."""
    offset = y.mean(axis=0)
    centre = x.mean(axis=0)
    square = (x - centre).T @ (x - centre) + strength * np.eye(x.shape[1])
    weights = np.linalg.solve(square, (x - centre).T @ (y - offset))
    return weights, offset - centre @ weights


def _penalised(x, y, strength):
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    weights = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)
    return weights[:-1], weights[-1]


def _share_right(scores, labels, one_hot):
    return (scores.argmax(axis=1) == labels).mean()


def _probing(
    standardise=_of_train,
    fit=_ridge,
    quality=_share_right,
    judged=lambda train, validation: validation,
    prefer=lambda strengths: sorted(strengths, reverse=True),
    refit=lambda train, validation: train,
    said=lambda strength, scores: (strength, scores),
):
    """The probe with one of its pieces exchanged; on arrays."""

    def probing(train, labels, validation, validation_labels, test, strengths):
        labels, validation_labels = labels.numpy(), validation_labels.numpy()
        x, v, t = standardise(train.numpy(), validation.numpy(), test.numpy())
        y, w = (np.eye(labels.max() + 1)[each] for each in (labels, validation_labels))
        fitted, chooser = (x, labels, y), (v, validation_labels, w)

        def value(strength):
            weights, offset = fit(x, y, strength)
            states, truth, one_hot = judged(fitted, chooser)
            return quality(states @ weights + offset, truth, one_hot)

        best = max(prefer(strengths), key=value)
        states, _, targets = refit(fitted, chooser)
        weights, offset = fit(states, targets, best)
        return said(best, t @ weights + offset)

    return probing


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
    run=_probed,
    gradients=False,
    properties=(_asks_one_by_one,),
    reasons=(_constant,),
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


def _each_by_itself(*sets):
    return [_of_train(x, x, x)[0] for x in sets]


def _by_all(train, validation, test):
    every = np.concatenate([train, validation, test])
    return _of_train(every, train, validation)[1:] + [_of_train(every, test, test)[1]]


def _by_two(train, validation, test):
    both = np.concatenate([train, validation])
    return _of_train(both, train, validation)[1:] + [_of_train(both, test, test)[1]]


def _sample(train, validation, test):
    factor = np.sqrt(1 - 1 / len(train))
    return [factor * x for x in _of_train(train, validation, test)]


def _penalised_without(x, y, strength):
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)


def _squares(scores, labels, one_hot):
    return -((scores - one_hot) ** 2).mean()


probe.wrong(
    "right but for the scales: validation and test are standardised by themselves",
    "The probe was fitted in the units of the training states. Use their mean and deviation.",
)(_probing(standardise=_each_by_itself))
probe.wrong(
    "right but for the scales: mean and deviation are those of all states, the test among them",
    "What is reported has no part in the fit: mean and deviation of the training states alone.",
)(_probing(standardise=_by_all))
probe.wrong(
    "right but for the scales: mean and deviation are those of training and validation",
    "Mean and deviation of the training states alone.",
)(_probing(standardise=_by_two))
probe.wrong(
    "right but for the scales: it does not divide by the standard deviation",
    "A penalty weighs on numbers in small units more than on those in large ones.",
)(_probing(standardise=lambda *sets: [x - sets[0].mean(axis=0) for x in sets]))
probe.wrong(
    "right but for the deviation, which is that of a sample",
    "Divide by N, not by N - 1: std(dim=0, correction=0), or NumPy's std.",
)(_probing(standardise=_sample))
probe.wrong(
    "right but for a number that never changes in training: it divides by a deviation of 0",
    "What has no spread in training says nothing: let it count as 0 everywhere.",
)(
    _probing(
        standardise=lambda *sets: [(x - sets[0].mean(axis=0)) / sets[0].std(axis=0) for x in sets]
    )
)
probe.wrong(
    "right but for the offset, on which the penalty weighs, too",
    "The offset only says how frequent a class is. Leave it out of the penalty.",
)(_probing(fit=_penalised))
probe.wrong(
    "a probe without offset",
    "The one-hot targets have a mean: fit it, too.",
)(_probing(fit=lambda x, y, strength: (_penalised_without(x, y, strength), 0.0)))


probe.wrong(
    "right but for the penalty, which is multiplied by the number of states",
    "The sum over the states plus strength times the squares of the weights; no means.",
)(_probing(fit=lambda x, y, strength: _ridge(x, y, strength * len(x))))
probe.wrong(
    "right but for the penalty, which is squared",
    "Strength times the squares of the weights.",
)(_probing(fit=lambda x, y, strength: _ridge(x, y, strength**2)))
probe.wrong(
    "right but for the choice: it chooses by the training states",
    "There the weakest penalty always wins. Choose by the validation states.",
)(_probing(judged=lambda train, validation: train))
probe.wrong(
    "right but for the choice: it chooses by squared errors",
    "By the share of right answers, which is what is asked of the probe.",
)(_probing(quality=_squares))
probe.wrong(
    "right but for the choice, which is the strength with the fewest right answers",
    "The largest share of right answers.",
)(_probing(quality=lambda *each: -_share_right(*each)))
probe.wrong(
    "right but for strengths that are equally good: it takes the smallest of them",
    "Of equally good ones the largest: it trusts the states least.",
)(_probing(prefer=sorted))
probe.wrong(
    "right but for strengths that are equally good: it takes the first of them",
    "Of equally good ones the largest, wherever it stands in the list.",
)(_probing(prefer=list))
probe.wrong(
    "no choice: the first strength",
    "Fit with each of them, and choose by the validation states.",
)(_probing(quality=lambda *each: 0.0, prefer=list))
probe.wrong(
    "no choice: the largest strength",
    "Fit with each of them, and choose by the validation states.",
)(_probing(quality=lambda *each: 0.0))
probe.wrong(
    "right but for the fit that is reported: it is one more, with the validation states in it",
    "Report the fit that was chosen.",
)(
    _probing(
        refit=lambda train, validation: tuple(
            np.concatenate(pair) for pair in zip(train, validation, strict=True)
        )
    )
)
probe.wrong(
    "right but for what it returns: classes, not scores",
    "Return the scores (M, C); the class is where they are largest.",
)(_probing(said=lambda strength, scores: (strength, scores.argmax(axis=1))))
probe.wrong(
    "right but for the order: the scores come first",
    "Return the strength, then the scores.",
)(_probing(said=lambda strength, scores: (scores, strength)))


@probe.wrong(
    "right but for the targets, which are -1 and 1",
    "One-hot targets are 0 and 1.",
)
def _(*case):
    strength, scores = probe.reference(*case)
    return strength, 2 * scores - 1


@probe.wrong(
    "right but for the penalty, of which it takes half",
    "The derivative of the penalty is 2 lambda W, and that of the squares has the same 2.",
)
def _(*case):
    *rest, strengths = case
    strength, scores = probe.reference(*rest, [value / 2 for value in strengths])
    return 2 * strength, scores


@probe.wrong(
    "right but for the states: the scores are those of the validation states",
    "They have served to choose. Return the scores of the test states.",
)
def _(train, labels, validation, validation_labels, test, strengths):
    return probe.reference(train, labels, validation, validation_labels, validation, strengths)
