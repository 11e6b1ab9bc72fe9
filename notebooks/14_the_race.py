# %% [markdown]
# # 14 The race
#
# **Time**: about 75 minutes

# %%
from functools import partial

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd.dispatch import operation
from textbook import plot
from textbook.chapter_07 import all_windows, some_windows
from textbook.chapter_08 import sinusoidal_codes
from textbook.data import first_edition, lacking, tiny_shakespeare
from textbook.decoding import sample
from textbook.lab import Lab, Tuned, large, measured
from textbook.race import Clock, nats_a_letter, parts

lab = Lab("14")


# %%
@operation()
def squared_relu(x):
    """max(x, 0)^2, with its gradient."""
    positive = np.maximum(x, 0)
    return positive * positive, (lambda g: 2 * positive * g,)


# %%
@operation()
def tapped(x, taps):
    """taps_0 x_t + taps_1 x_{t-1} + ..., feature by feature: (B, n, d), (T, d) to (B, n, d)."""
    n = x.shape[1]

    def toward_x(g):
        out = g * taps[0]
        for j in range(1, len(taps)):
            out[:, :-j] += g[:, j:] * taps[j]
        return out

    def toward_taps(g):
        return np.stack([(g[:, j:] * x[:, : n - j]).sum((0, 1)) for j in range(len(taps))])

    y = x * taps[0]
    for j in range(1, len(taps)):
        y[:, j:] += x[:, :-j] * taps[j]
    return y, (toward_x, toward_taps)


class Taps(nn.Module):
    """A learned mix of each token and the three before it; at first this one and half the last."""

    def __init__(self, width):
        super().__init__()
        self.taps = nn.Parameter(mt.tensor([1, 0.5, 0, 0])[:, None].repeat(1, width))

    def forward(self, x):
        return tapped(x, self.taps)


# %%
def turned_by(turns):
    """An operation that turns each pair of numbers of x (B, n, h, e) by ``turns`` (n, 1, e/2)."""

    def turn(x, turns):
        return (np.ascontiguousarray(x).view(np.complex64) * turns).view(np.float32)

    @operation()
    def by_place(x):
        here = turns[: x.shape[1]]
        return turn(x, here), (lambda g: turn(g, here.conj()),)

    return by_place


def turns_of(width, longest=1024):
    """e^{i t w}, one a place t and a pair of numbers, at the speeds w of chapter 08."""
    speeds = 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.exp(1j * np.arange(longest)[:, None, None] * speeds).astype(np.complex64)


def of_one_length(x):
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


# %%
IDEAS = (
    "Muon",
    "token shift",
    "rotary positions",
    "zero starts",
    "rate by the clock",
    "wide heads",
    "query-key norm",
    "squared ReLU",
    "RMS norm",
)
WIDTH, HIDDEN, BLOCKS, CONTEXT, BATCH = 128, 512, 4, 128, 16


class RacingBlock(nn.Module):
    """Chapter 09's block with those of the ideas that it gets: (B, n, d) to (B, n, d)."""

    def __init__(self, ideas, dropout):
        super().__init__()
        self.ideas, self.heads = ideas, 2 if "wide heads" in ideas else 4
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.up, self.down = (
            nn.Linear(WIDTH, HIDDEN, bias=False),
            nn.Linear(HIDDEN, WIDTH, bias=False),
        )
        plain = "RMS norm" not in ideas
        self.norm_1, self.norm_2 = (
            nn.LayerNorm(WIDTH) if plain else of_one_length for _ in range(2)
        )
        shift = "token shift" in ideas
        self.mix_1, self.mix_2 = (Taps(WIDTH) if shift else nn.Identity() for _ in range(2))
        self.drop, self.turn = nn.Dropout(dropout), turned_by(turns_of(WIDTH // self.heads))
        for end in (self.out, self.down):
            end.weight.data *= 0.0 if "zero starts" in ideas else (2 * BLOCKS) ** -0.5

    def split(self, x, looks=True):
        x = x.unflatten(-1, (self.heads, -1))  # (B, n, h, e)
        if looks and "query-key norm" in self.ideas:
            x = of_one_length(x)
        if looks and "rotary positions" in self.ideas:
            x = self.turn(x)
        return x.transpose(1, 2)  # (B, h, n, e)

    def forward(self, x):
        y = self.mix_1(self.norm_1(x))
        q, k, v = (
            self.split(self.query(y)),
            self.split(self.key(y)),
            self.split(self.value(y), False),
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(seen.transpose(1, 2).flatten(2)))
        y = self.up(self.mix_2(self.norm_2(x)))
        y = squared_relu(y) if "squared ReLU" in self.ideas else y.relu()
        return x + self.drop(self.down(y))


class RacingModel(nn.Module):
    """Numbers of letters (B, n) to scores of the letter after each (B, n, V)."""

    def __init__(self, letters, ideas=IDEAS, dropout=0.0):
        super().__init__()
        self.embedding, self.head = nn.Embedding(letters, WIDTH), nn.Linear(WIDTH, letters)
        self.blocks = nn.ModuleList(RacingBlock(ideas, dropout) for _ in range(BLOCKS))
        plain = "RMS norm" not in ideas
        self.first, self.last = (nn.LayerNorm(WIDTH) if plain else of_one_length for _ in range(2))
        self.drop = nn.Dropout(dropout)
        self.codes = None if "rotary positions" in ideas else sinusoidal_codes(1024, WIDTH)
        if "zero starts" in ideas:
            self.head.weight.data *= 0.0
            self.head.bias.data *= 0.0

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.codes is not None:
            x = x + self.codes[: tokens.shape[1]]
        x = self.first(self.drop(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


# %%
def orthogonal(g, steps=5):
    """About the matrix with the directions of g in which all singular values are 1."""
    x = g.T if len(g) > len(g.T) else g
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (2.0315 * square @ square - 4.7750 * square) @ x
    return x.T if len(g) > len(g.T) else x


class Muon(mt.optim.Optimizer):
    """w <- w - lr orthogonal(m'), m' the mean of the gradients, one step ahead."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    def update(self, value, grad, state, group):
        keep = group["momentum"]
        if not state:
            state["mean"] = mt.zeros(*value.shape)
        mean = state["mean"].array
        mean += (1 - keep) * (grad - mean)
        rows, columns = value.shape
        value *= 1 - group["lr"] * group["weight_decay"]
        ahead = orthogonal(grad + keep * (mean - grad))
        value -= group["lr"] * max(1, rows / columns) ** 0.5 * ahead


# %%
def optimizers(model, ideas, rate, decay):
    """Muon for the matrices of the blocks and AdamW for the rest; AdamW for all without Muon."""
    matrices, others = [], []
    for name, weight in model.named_parameters():
        within = name.startswith("blocks") and name.endswith("weight") and weight.ndim == 2
        (matrices if within and "Muon" in ideas else others).append(weight)
    adam = mt.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [adam, Muon(matrices, 0.02, weight_decay=decay)] if matrices else [adam]


def share_of_rate(done, falls=True):
    """The share of the rate: up in the first 3 % of the time, level to 30 %, then down to 0."""
    return min(done / 0.03, 1.0, (1 - done) / 0.7 if falls else 1.0)


def raced(numbers, letters, clock, ideas=IDEAS, rate=3e-3, dropout=0.0, decay=0.0, look=None):
    """Train by the clock on a text as numbers (N); returns the model."""
    model = RacingModel(letters, ideas, dropout)
    both = optimizers(model, ideas, rate, decay)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in both]
    for done in clock:
        if look:
            look(model, done)
        share = share_of_rate(done, "rate by the clock" in ideas)
        inputs, targets = some_windows(numbers, BATCH, CONTEXT)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        for optimizer, rate in zip(both, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in both:
            optimizer.step()
    return model.eval()


# %%
def predictor(model):
    """What the race asks for: numbers (B, n) to log-probabilities (B, n, V), as arrays."""

    @mt.no_grad()
    def predict(numbers):
        return model(mt.tensor(numbers)).log_softmax(-1).numpy()

    return predict


# %% evidence
# One race of the recipe, or of what is left of it: functions of the experiments
RACED = {"first edition": first_edition, "tiny Shakespeare": tiny_shakespeare}


def halves_of(model, cut, most):
    """Nats a letter on the half that chooses and on the half that reports."""
    predict, letters = predictor(model), len(cut.letters)
    found = [
        nats_a_letter(predict, cut.numbers(half)[:most], letters) for half in (cut.open, cut.closed)
    ]
    return dict(zip(("nats elsewhere", "nats a letter"), found, strict=True))


def race_of(text, seconds, seed, ideas, most, **settings):
    """What one race gives, in numbers."""
    cut, clock = parts(RACED[text]()), Clock(seconds)
    mt.manual_seed(seed)
    model = raced(mt.tensor(cut.numbers(cut.training)), len(cut.letters), clock, ideas, **settings)
    return halves_of(model, cut, most) | {
        "steps": clock.steps,
        "seconds used": clock.spent,
        "ms of the reference step": 1000 * clock.reference_step,
    }


# %% evidence
# Each idea taken out in turn: experiments
def ideas_without(without):
    """The ideas that are left, in their order."""
    return [] if without == "everything" else [idea for idea in IDEAS if idea != without]


@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    without=["nothing", "token shift"],
    most=8_000,
    full=dict(
        text="tiny Shakespeare",
        seconds=40,
        without=["nothing", *IDEAS[1:]],
        most=1_000_000,
        seeds=5,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def one_idea_out(text, seconds, without, most, seed):
    """The recipe without one of its ideas."""
    return race_of(text, seconds, seed, ideas_without(without), most)


@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    without=["Muon"],
    rate=3e-3,
    most=8_000,
    full=dict(
        text="tiny Shakespeare",
        seconds=40,
        without=["Muon", "everything"],
        rate=Tuned(1.5e-3, 3e-3, 6e-3, lowest="nats elsewhere"),
        most=1_000_000,
        seeds=5,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def without_muon(text, seconds, without, rate, most, seed):
    """The recipe with AdamW for all weights; without all ideas it is chapter 11's model."""
    return race_of(text, seconds, seed, ideas_without(without), most, rate=rate)


# %% evidence
# Whole races, watched on their way: experiment
def writes(model, cut, length, context=CONTEXT):
    """What the model writes after an empty line, a little more sure than it is."""

    def step(tokens, state):
        return model(tokens[:, -context:]), state

    start = mt.tensor(cut.numbers("\n"))[None]
    drawn = sample(step, start, length, temperature=0.5)[0].tolist()
    return "".join(cut.letters[i] for i in drawn).strip()


@lab.experiment(
    "E2",
    text="first edition",
    seconds=1,
    looks=3,
    most=8_000,
    length=40,
    full=dict(
        text="tiny Shakespeare",
        seconds=[40, 120, 600],
        looks=20,
        most=1_000_000,
        length=700,
        seeds=3,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def whole_race(text, seconds, looks, most, length, seed):
    """The recipe in a league: its loss on the way, at its end, and what it writes."""
    cut, clock = parts(RACED[text]()), Clock(seconds)
    at, nats = [], []

    def look(model, done):
        if done >= (len(at) + 1) / looks:
            with clock.stopped():
                model.eval()
                at.append(done * seconds)
                nats.append(halves_of(model, cut, most)["nats a letter"])
                model.train()

    mt.manual_seed(seed)
    long = dict(dropout=0.1, decay=0.1) if seconds > 300 else {}
    numbers = mt.tensor(cut.numbers(cut.training))
    model = raced(numbers, len(cut.letters), clock, look=look, **long)
    found = halves_of(model, cut, most)
    measured(f"{seconds} s, {clock.steps} steps: {found}")
    return found | {
        "on the way": [*nats, found["nats a letter"]],
        "at": [*at, seconds],
        "steps": clock.steps,
        "seconds used": clock.spent,
        "ms of the reference step": 1000 * clock.reference_step,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "training nats": nats_a_letter(
            predictor(model), cut.numbers(cut.training)[:100_000], len(cut.letters)
        ),
        "written": writes(model, cut, length),
    }


out, adam, whole = one_idea_out.run(), without_muon.run(), whole_race.run()
