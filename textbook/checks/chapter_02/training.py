"""Small recurrent networks that have to remember, and how far back they do."""

import copy
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.compare import number
from textbook.checks.exercise import CheckFailed
from textbook.checks.reasons import what_it_is
from textbook.checks.released import exercise
from textbook.lab.report import measured

# The share that is right, by the distance


class _Turned(nn.Module):
    """Turns scores round while it trains: like a dropout, but it does not draw."""

    def forward(self, scores):
        return scores.flip(-1) if self.training else scores


class _Fake(nn.Module):
    """A model that gives scores which depend on the tokens, and other ones while it trains."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.inside = _Turned()
        self.scale = nn.Parameter(mt.ones(1).double())

    def forward(self, tokens):
        self.calls.append(_mode(self))
        steps = mt.arange(1, len(tokens) + 1).unsqueeze(1)
        sums = ((tokens.double() + 1) * steps).sum(0).unsqueeze(1)  # (B, 1)
        return self.inside((sums * mt.tensor([0.7, 1.9, 3.1])).sin() * self.scale)


def _mode(model):
    """The mode of a model and of what is inside; two, if they differ."""
    return " and ".join(sorted({"train()" if m.training else "eval()" for m in model.modules()}))


def _measure_cases(draw, others=()):
    """Batches (T, B) with the distances of their sequences, and whether the model trains."""
    public = [([(4, 6), (3, 9)], 25, True), ([(5, 3), (2, 7)], 12, False), ([(5, 9)], 95, True)]
    for shapes, far, training in others or public:
        batches = []
        for steps, count in shapes:
            tokens, answers = draw.integers(8, steps, count), draw.integers(3, count)
            distances = draw.integers(far, count)
            distances[0] = far // 10 * 10
            batches.append((tokens, answers, distances))
        yield batches, training


def _measured(answer, batches, training):
    model = _Fake().train(training)
    found = answer(model, batches)
    if isinstance(found, dict):
        found = {k if number(k) is None else number(k): value for k, value in found.items()}
        found = {key: found[key] for key in sorted(found, key=str)}
    modes = " and ".join(sorted({*model.calls}))
    return {
        "the dict of shares": found,
        "the mode of the model while it is measured": modes or "none",
        "the mode of the model afterwards": _mode(model),
    }


def _far_groups(check, answer, batches, training):
    """Whether the groups end before the distances do."""
    found, right = (
        _measured(each, batches, training)["the dict of shares"]
        for each in (answer, check.reference)
    )
    missing = right.keys() - found.keys()
    if found.keys() < right.keys() and min(missing) > max(found):
        return (
            f"There are distances of {min(missing)} and more, and no group of their own: groups of "
            "ten go on as far as there are distances."
        )
    return None


right_by_distance = exercise(
    "right_by_distance",
    cases=_measure_cases,
    run=_measured,
    reasons=(_far_groups,),
    gradients=False,
    see='chapter 02, "The longest delay (E1)"',
)


# What was reached

MARKS, KEYS, LONGEST, MOST, FAR, ENOUGH = 4, ["bias", "network", "rate", "steps"], 24, 300, 40, 0.9
NETWORKS = ["RNN", "GRU", "LSTM"]
SEEDS = 11, 12, 13
GOOD = {"network": "GRU", "bias": 1.0, "rate": 0.2, "steps": MOST}
PARTS = {
    "steps": "the number of steps",
    "bias": "the bias",
    "rate": "the rate",
    "network": "the network",
}


class Model(nn.Module):
    """A recurrent layer and a linear one: tokens (T, B) to scores of the four marks (B, 4)."""

    def __init__(self, network, bias, hidden=32):
        super().__init__()
        self.rnn = getattr(nn, network)(8, hidden)
        self.out = nn.Linear(hidden, MARKS)
        if network != "RNN":  # of the forget gate, or the update gate: the second block
            with mt.no_grad():
                self.rnn.bias_ih_l0[hidden : 2 * hidden] = bias
                self.rnn.bias_hh_l0[hidden : 2 * hidden] = 0.0

    def forward(self, tokens):
        states, _ = self.rnn(F.one_hot(tokens, 8).float())
        return self.out(states[-1])


def sequences(steps, batch):
    """Tokens (T, B), noise with two marks; the second marks (B), and how far back they stand."""
    tokens, columns = mt.randint(MARKS, 8, (steps, batch)), mt.arange(batch)
    first = mt.randint(0, steps // 3, (batch,))
    second = first + 1 + mt.randint(0, steps // 3, (batch,))
    marks = mt.randint(0, MARKS, (2, batch))
    tokens[first, columns], tokens[second, columns] = marks[0], marks[1]
    return tokens, marks[1], steps - 1 - second


def trained(network, bias, rate, steps, seed):
    """A network that has learned from sequences of 6 to 24 tokens."""
    mt.manual_seed(seed)
    model = Model(network, bias)
    optimizer = optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        tokens, answers, _ = sequences(mt.randint(6, LONGEST + 1, ()).item(), 32)
        loss = F.cross_entropy(model(tokens), answers)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_memory: not solved yet.\nReturn a dict, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != KEYS:
        raise CheckFailed(f"chosen_memory: expected a dict with the keys {KEYS}, got {given}")
    if given["network"] not in NETWORKS:
        raise CheckFailed(
            f"chosen_memory: expected one of {NETWORKS} as 'network', got {given['network']!r}"
        )
    steps, bias, rate = (number(given[key]) for key in ("steps", "bias", "rate"))
    if type(steps) is not int or not 0 < steps <= MOST:
        raise CheckFailed(f"chosen_memory: expected 1 to {MOST} as 'steps', got {given['steps']}")
    if bias is None or not -10 <= bias <= 10:
        raise CheckFailed(f"chosen_memory: expected -10 to 10 as 'bias', got {given['bias']}")
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"chosen_memory: expected a rate between 0 and 1, got {given['rate']}")
    return given["network"], float(bias), rate, steps


def _shares(measure, plan, seed):
    """What the answer's own measure says of a network that was trained so: a dict."""
    model = trained(*plan.values(), seed)
    mt.manual_seed(seed)
    batches = [sequences(steps, 100) for steps in (12, 24, 48, 60, 60, 72, 72)]
    return measure(model, copy.deepcopy(batches))


def _worst(measure, plan):
    """The smallest share at the distances asked for, with each seed."""
    for seed in SEEDS:
        yield min(share for d, share in _shares(measure, plan, seed).items() if d <= FAR)


def reached(measure, plan):
    """Raise ``CheckFailed`` unless the plan remembers further back than it was trained for."""
    with redirect_stdout(StringIO()):
        right_by_distance(measure)
    given, worst = dict(zip(GOOD, _read(plan), strict=True)), {}
    for seed in SEEDS:
        shares = _shares(measure, given, seed)
        measured(
            f"seed {seed}, right at distances of "
            + ", ".join(f"{d} to {d + 9}: {shares[d]:.0%}" for d in sorted(shares))
        )
        for distance, share in shares.items():
            worst[distance] = min(share, worst.get(distance, 1.0))
    low = [d for d, share in sorted(worst.items()) if d <= FAR and share < ENOUGH]
    if low:
        where = f"{worst[low[0]]:.1%} at distances from {low[0]} to {low[0] + 9}"
        known = "no farther than it was trained for: it has not learned enough"
        if low[0] >= 20:  # its streams of training reached that far
            known = "farther than it was trained for: it has learned and forgets"
        why = "An RNN writes its state anew at each step: take a network that can keep it."
        if given["network"] != "RNN":
            why = what_it_is(given, GOOD, PARTS, partial(_worst, measure), ENOUGH)
        raise CheckFailed(
            f"chosen_memory: at distances up to {FAR + 9} at least {ENOUGH:.0%} have to be right, "
            f"with each of three seeds. The worst of them has {where}.\nThat is {known}.\n{why} "
            "Aim at 95%, with five seeds of your own.\n"
            'See chapter 02, "The longest delay (E1)".'
        )
    print("chosen_memory: it remembers further back than it was trained for")
