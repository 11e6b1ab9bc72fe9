"""Small models with positions, and how much they get right where they were never trained."""

import copy
import math
from contextlib import redirect_stdout
from io import StringIO

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.chapter_08 import sinusoidal_codes
from textbook.checks.chapter_08.rotary import _rotary
from textbook.checks.compare import number
from textbook.checks.exercise import CheckFailed
from textbook.checks.released import exercise
from textbook.lab.report import measured

# How much is right


class _Fake(nn.Module):
    """A model that gives scores which depend on the tokens, and other ones while it trains."""

    def __init__(self, classes):
        super().__init__()
        self.classes, self.calls = classes, []
        self.scale = nn.Parameter(mt.ones(1).double())

    def forward(self, tokens):
        self.calls.append(self.training)
        n = tokens.shape[1]
        angles = (tokens.double() + 1).unsqueeze(-1) * mt.arange(1, self.classes + 1)
        scores = (angles * 7.3 + mt.arange(n).unsqueeze(-1)).sin() * self.scale
        return scores.flip(-1) if self.training else scores


def _measure_cases(draw, others=()):
    """Batches of several lengths, the first place that counts, and whether the model trains."""
    public = [([(2, 5), (3, 8)], 4, True), ([(1, 3), (4, 6)], 3, False), ([(2, 4)], 7, True)]
    for shapes, first, training in others or public:
        batches = []
        for shape in shapes:
            tokens, targets = draw.integers(9, *shape), draw.integers(3, *shape)
            unasked = draw.integers(3, *shape) == 0
            batches.append((tokens, targets.masked_fill(unasked, -100)))
        yield batches, first, training


def _measured(answer, batches, first, training):
    model = _Fake(3).train(training)
    found = {"the share of right answers": answer(model, batches, first)}
    modes = {"train()" if each else "eval()" for each in model.calls}
    # a model need not be called where nothing is asked
    found["the mode of the model while it is measured"] = " and ".join(sorted(modes)) or "eval()"
    found["the mode of the model afterwards"] = "train()" if model.training else "eval()"
    return found


right_beyond = exercise(
    "right_beyond",
    cases=_measure_cases,
    run=_measured,
    gradients=False,
    see='chapter 08, "Longer than trained (C17)"',
)


# What was reached

SYMBOLS, BACK, LONGEST, MOST, ENOUGH = 12, 5, 20, 250, 0.9
SCHEMES = ["table of places", "sinusoids", "relative", "rotary", "ALiBi"]
CODES = sinusoidal_codes(64, 32)


class Model(nn.Module):
    """One layer of attention with positions: tokens (B, n) to scores (B, n, symbols)."""

    def __init__(self, scheme, clip, width=32, longest=64):
        super().__init__()
        self.scheme, self.clip = scheme, clip
        self.embedding, self.out = nn.Embedding(SYMBOLS, width), nn.Linear(width, SYMBOLS)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        if scheme == "table of places":
            self.places = nn.Parameter(mt.randn(longest, width) / 4)
        if scheme == "relative":
            self.vectors = nn.Parameter(mt.randn(2 * clip + 1, width) / 4)

    def forward(self, tokens):
        n = tokens.shape[1]
        x, places = self.embedding(tokens), mt.arange(n)
        apart = places - places.unsqueeze(1)
        if self.scheme == "table of places":
            x = x + self.places[:n]
        if self.scheme == "sinusoids":
            x = x + CODES[:n]
        query, key = self.query(x), self.key(x)
        if self.scheme == "rotary":
            query, key = (
                _rotary()(each.unsqueeze(1), places.unsqueeze(0), 10_000.0).squeeze(1)
                for each in (query, key)
            )
        scores = query @ key.mT
        if self.scheme == "relative":
            rows = apart.clamp(-self.clip, self.clip) + self.clip
            products = query @ self.vectors.T  # (B, n, 2c + 1)
            scores = scores + products.gather(2, rows.expand(len(tokens), n, n))
        if self.scheme == "ALiBi":
            scores = scores - apart.abs() / 2
        weights = (scores / math.sqrt(x.shape[-1])).masked_fill(apart > 0, -mt.inf).softmax(-1)
        return self.out(weights @ self.value(x))


def sequences(batch, n):
    """Tokens (B, n), and as targets the tokens five places before; -100 where there is none."""
    tokens = mt.randint(0, SYMBOLS, (batch, n))
    return tokens, mt.cat([mt.full((batch, BACK), -100), tokens[:, :-BACK]], dim=1)


def trained(scheme, clip, rate, steps, seed):
    """A model that has learned sequences of 8 to 20 tokens."""
    mt.manual_seed(seed)
    model = Model(scheme, clip)
    optimizer = optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        tokens, targets = sequences(32, mt.randint(8, LONGEST + 1, ()).item())
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_scheme: not solved yet.\nReturn a dict, as the text says."
        ) from None
    keys = ["clip", "rate", "scheme", "steps"]
    if not isinstance(given, dict) or sorted(given) != keys:
        raise CheckFailed(f"chosen_scheme: expected a dict with the keys {keys}, got {given}")
    if given["scheme"] not in SCHEMES:
        raise CheckFailed(
            f"chosen_scheme: expected one of {SCHEMES} as 'scheme', got {given['scheme']!r}"
        )
    steps, clip, rate = (number(given[key]) for key in ("steps", "clip", "rate"))
    if type(steps) is not int or not 0 < steps <= MOST:
        raise CheckFailed(f"chosen_scheme: expected 1 to {MOST} as 'steps', got {given['steps']}")
    if type(clip) is not int or not 1 <= clip <= LONGEST:
        raise CheckFailed(f"chosen_scheme: expected 1 to {LONGEST} as 'clip', got {given['clip']}")
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"chosen_scheme: expected a rate between 0 and 1, got {given['rate']}")
    return given["scheme"], clip, rate, steps


def _missing(scheme, clip, rate, steps, known):
    """What a plan lacks that does not hold, by what it reaches at trained places."""
    if scheme == "relative" and clip <= BACK:
        return (
            f"With clip {clip} all differences from -{clip} on look alike: the token {BACK} places "
            "before is not told from those further back."
        )
    if known >= ENOUGH:
        return (
            f"At trained places {known:.0%} are right: it is the scheme, or a clip beyond what the "
            "short texts train well, that does not carry over to new places."
        )
    if scheme == "ALiBi":
        return (
            f"At trained places {known:.0%} are right, too few as well: ALiBi takes off more the "
            f"further back a word stands, and so cannot pick out the one {BACK} places before."
        )
    return (
        f"At trained places {known:.0%} are right, too few as well: rate {rate} and {steps} steps "
        f"do not suffice, or the scheme cannot pick out the token {BACK} places before."
    )


def reached(measure, plan):
    """Raise ``CheckFailed`` unless the plan holds at places that no training has seen."""
    with redirect_stdout(StringIO()):
        right_beyond(measure)
    given, shares, trained_places = _read(plan), [], []
    for seed in (11, 12, 13):
        model = trained(*given, seed)
        mt.manual_seed(seed)
        short = [sequences(50, LONGEST) for _ in range(2)]
        long = [sequences(50, 64) for _ in range(2)]
        shares.append(measure(model, copy.deepcopy(long), LONGEST))
        trained_places.append(measure(model, short, 0))
        measured(
            f"seed {seed}: right at trained places {trained_places[-1]:.1%}, "
            f"beyond {shares[-1]:.1%}"
        )
    if min(shares) < ENOUGH:
        raise CheckFailed(
            f"chosen_scheme: at the places from {LONGEST} to 63 at least {ENOUGH:.0%} have to be "
            f"right with each of three seeds; there are {min(shares):.0%}.\n"
            f"{_missing(*given, min(trained_places))}"
        )
    print("chosen_scheme: it holds beyond what was trained")
