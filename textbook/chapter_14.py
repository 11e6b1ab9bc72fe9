"""What chapter 14 defines and later chapters use.

Generated from the cells of notebooks/14_the_race.py that start with
`# %% save`: change them there.
"""

import numpy as np
import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd.dispatch import operation
from textbook.chapter_07 import some_windows
from textbook.chapter_08 import sinusoidal_codes


def turned_by(turns):
    """An operation that turns the pairs of numbers of x (B, n, h, e) by ``turns`` (n, 1, e/2)."""

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


@operation()
def squared_relu(x):
    """max(x, 0)^2, with its gradient."""
    positive = np.maximum(x, 0)
    return positive * positive, (lambda g: 2 * positive * g,)


def of_one_length(x):
    """Each vector over its root mean square: (..., d)."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


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


class RacingAttention(nn.Module):
    """Causal attention with those of the ideas that it gets: (B, n, d) to (B, n, d)."""

    def __init__(self, ideas):
        super().__init__()
        self.ideas, self.heads = ideas, 2 if "wide heads" in ideas else 4
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.turn = turned_by(turns_of(WIDTH // self.heads))

    def placed(self, x):
        x = of_one_length(x) if "query-key norm" in self.ideas else x
        return self.turn(x) if "rotary positions" in self.ideas else x  # (B, n, h, d/h)

    def forward(self, x):
        layers = self.query, self.key, self.value
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in layers)
        heads = (part.transpose(1, 2) for part in (self.placed(q), self.placed(k), v))
        seen = F.scaled_dot_product_attention(*heads, is_causal=True)  # (B, h, n, d/h)
        return self.out(seen.transpose(1, 2).flatten(2))


def norm_of(ideas):
    """RMS norm without weights, or layer norm: (..., d) to (..., d)."""
    return of_one_length if "RMS norm" in ideas else nn.LayerNorm(WIDTH)


class RacingBlock(nn.Module):
    """Chapter 09's block with those of the ideas that it gets: (B, n, d) to (B, n, d)."""

    def __init__(self, ideas, dropout):
        super().__init__()
        self.attention, self.drop = RacingAttention(ideas), nn.Dropout(dropout)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.bent = squared_relu if "squared ReLU" in ideas else F.relu
        self.norm_1, self.norm_2 = norm_of(ideas), norm_of(ideas)
        shift = "token shift" in ideas
        self.mix_1, self.mix_2 = (Taps(WIDTH) if shift else nn.Identity() for _ in range(2))
        for end in (self.attention.out, self.down):
            end.weight.data *= 0.0 if "zero starts" in ideas else (2 * BLOCKS) ** -0.5

    def forward(self, x):
        x = x + self.drop(self.attention(self.mix_1(self.norm_1(x))))
        return x + self.drop(self.down(self.bent(self.up(self.mix_2(self.norm_2(x))))))


class RacingModel(nn.Module):
    """Numbers of letters (B, n) to scores of the letter after each (B, n, V)."""

    def __init__(self, letters, ideas=IDEAS, dropout=0.0):
        super().__init__()
        self.embedding, self.head = nn.Embedding(letters, WIDTH), nn.Linear(WIDTH, letters)
        self.blocks = nn.ModuleList(RacingBlock(ideas, dropout) for _ in range(BLOCKS))
        self.first, self.last, self.drop = norm_of(ideas), norm_of(ideas), nn.Dropout(dropout)
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


def predictor(model):
    """What the race asks for: numbers (B, n) to log-probabilities (B, n, V), as arrays."""

    @mt.no_grad()
    def predict(numbers):
        return model(mt.tensor(numbers)).log_softmax(-1).numpy()

    return predict
