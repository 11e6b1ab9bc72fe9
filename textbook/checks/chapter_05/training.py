"""Small encoders that look back, and how much they get right in sentences that they never saw."""

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

# The share that is right, of what was not seen


class _Fake(nn.Module):
    """A model that gives scores which depend on the tokens, and other ones while it trains."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.scale = nn.Parameter(mt.ones(1).double())

    def forward(self, tokens):
        self.calls.append(self.training)
        places = mt.arange(1, tokens.shape[1] + 1)
        sums = ((tokens.double() + 1) * places).cumsum(1).unsqueeze(-1)
        scores = (sums * mt.tensor([0.7, 1.9, 3.1, 4.3])).sin() * self.scale
        return scores.flip(-1) if self.training else scores


def _measure_cases(draw, more=()):
    """Sentences (N, n), some of them seen and some twice, and whether the model trains."""
    sizes = [(9, 3, 4, True), (6, 4, 2, False), (4, 2, 4, True)]
    for count, n, seen, training in [*sizes, *more]:
        sentences = draw.integers(4, count, n)
        sentences[-1] = sentences[0]  # once more
        known = mt.cat([sentences[1 : 1 + seen], draw.integers(4, 2, n)])
        targets = draw.integers(4, count, n)
        if seen == count:
            known = sentences.clone()
        targets = targets.masked_fill(draw.integers(4, count, n) == 0, -100)
        rows = sentences.tolist()
        targets = targets[[rows.index(row) for row in rows]]  # equal ones have equal targets
        yield sentences, targets, known, training


def _measured(answer, sentences, targets, seen, training):
    model = _Fake().train(training)
    share = answer(model, sentences, targets, seen)
    found = {"the share of right answers": "None" if share is None else share}
    modes = {"train()" if each else "eval()" for each in model.calls}
    if share is None or not modes:  # nothing was to be measured
        modes = {"eval()"}
    found["the mode of the model while it is measured"] = " and ".join(sorted(modes))
    found["the mode of the model afterwards"] = "train()" if model.training else "eval()"
    return found


def _nothing_asked(answer, sentences, targets, seen, training):
    """Whether None is returned where new sentences ask nothing."""
    share = answer(_Fake(), sentences, mt.full_like(targets, -100), seen)
    if share is not None:
        return (
            "The check asked again with targets of -100 alone: then no target is left, and None "
            f"is to be returned, not {share!r}."
        )
    return None


def _taken_for_seen(check, answer, sentences, targets, seen, training):
    """A new sentence that is left out, or a seen one that counts, asked for alone."""
    for row in sentences.tolist():
        share = answer(_Fake(), mt.tensor([row]), mt.zeros(1, len(row), dtype=mt.int64), seen)
        if row in seen.tolist() and share is not None and share > 0:
            return f"The sentence {row} is among those seen, and it counts."
        if row not in seen.tolist() and share is None:
            return f"The sentence {row} is not among those seen, and it is left out."
    return None


right_unseen = exercise(
    "right_unseen",
    cases=_measure_cases,
    run=_measured,
    properties=(_nothing_asked,),
    reasons=(_taken_for_seen,),
    gradients=False,
    see='chapter 05, "Does it work?"',
)


# What was reached

SYMBOLS, N, BACK, WIDTH, MOST, ENOUGH = 10, 8, 2, 64, 150, 0.9
SEEDS = 11, 12, 13
GOOD = {"divisor": "d", "positions": True, "rate": 0.01, "steps": MOST}
PARTS = {
    "positions": "`positions`",
    "divisor": "the divisor",
    "steps": "the number of steps",
    "rate": "the rate",
}
KEYS, DIVISORS = ["divisor", "positions", "rate", "steps"], {"1": 1, "root": WIDTH**0.5, "d": WIDTH}


class Model(nn.Module):
    """Self-attention between an embedding and an output layer; its scores start out large."""

    def __init__(self, divisor, positions):
        super().__init__()
        self.divisor = DIVISORS[divisor]
        self.embedding, self.out = nn.Embedding(SYMBOLS, WIDTH), nn.Linear(WIDTH, SYMBOLS)
        self.places = nn.Parameter(mt.randn(N, WIDTH)) if positions else None
        self.Q, self.K, self.V = (
            nn.Parameter(mt.randn(WIDTH, WIDTH) / WIDTH**size) for size in (0.25, 0.25, 0.5)
        )

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.places is not None:
            x = x + self.places
        scores = (x @ self.Q) @ (x @ self.K).mT / self.divisor
        return self.out(scores.softmax(dim=-1) @ (x @ self.V))


def sequences(batch):
    """Tokens (B, 8), and as targets the tokens two places before; -100 where there is none."""
    tokens = mt.randint(0, SYMBOLS, (batch, N))
    return tokens, mt.cat([mt.full((batch, BACK), -100), tokens[:, :-BACK]], dim=1)


def trained(divisor, positions, rate, steps, seed):
    """A model, and all the sentences (M, 8) that it has learned from."""
    mt.manual_seed(seed)
    model, seen = Model(divisor, positions), []
    optimizer = optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        tokens, targets = sequences(32)
        seen.append(tokens)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, mt.cat(seen)


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_layer: not solved yet.\nReturn a dict, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != KEYS:
        raise CheckFailed(f"chosen_layer: expected a dict with the keys {KEYS}, got {given}")
    if given["divisor"] not in DIVISORS:
        raise CheckFailed(
            f"chosen_layer: expected one of {[*DIVISORS]} as 'divisor', got {given['divisor']!r}"
        )
    if not isinstance(given["positions"], bool):
        raise CheckFailed(
            f"chosen_layer: expected True or False as 'positions', got {given['positions']!r}"
        )
    steps, rate = number(given["steps"]), number(given["rate"])
    if type(steps) is not int or not 0 < steps <= MOST:
        raise CheckFailed(f"chosen_layer: expected 1 to {MOST} as 'steps', got {given['steps']}")
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"chosen_layer: expected a rate between 0 and 1, got {given['rate']}")
    return given["divisor"], given["positions"], rate, steps


def _shares(measure, plan):
    """What the answer's own measure says of layers that were trained so, for each seed."""
    for seed in SEEDS:
        model, seen = trained(*plan.values(), seed)
        mt.manual_seed(seed + 100)
        tokens, targets = sequences(200)
        known = seen[:200]
        of_seen = mt.cat([mt.full((len(known), BACK), -100), known[:, :-BACK]], dim=1)
        yield measure(model, mt.cat([tokens, known]), mt.cat([targets, of_seen]), seen)


def reached(measure, plan):
    """Raise ``CheckFailed`` unless the plan is right in sentences that it has not seen."""
    with redirect_stdout(StringIO()):
        right_unseen(measure)
    given = dict(zip(GOOD, _read(plan), strict=True))
    shares = list(_shares(measure, given))
    for seed, share in zip(SEEDS, shares, strict=True):
        measured(f"seed {seed}: right in sentences that were not seen {share:.1%}")
    if min(shares) < ENOUGH:
        what = what_it_is(given, GOOD, PARTS, partial(_shares, measure), ENOUGH)
        raise CheckFailed(
            f"chosen_layer: at least {ENOUGH:.0%} have to be right in sentences that were not "
            f"seen, with each of three seeds; it was {min(shares):.0%}.\n{what}\nNamed is the "
            f"token {BACK} places before: what does the layer have to know? And what does the "
            "softmax do with large scores, or with small ones?\n"
            'See chapter 05, "Does it matter in training? (E2)".'
        )
    print("chosen_layer: it is right in sentences that it has not seen")
