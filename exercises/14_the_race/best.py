"""Chapter 14's recipe as a program for the race: the one to beat.

python book.py race exercises/14_the_race/best.py
"""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd.dispatch import operation

WIDTH, HEADS, HIDDEN, BLOCKS, CONTEXT, BATCH = 128, 2, 512, 4, 128, 16
ADAM_RATE, MUON_RATE = 3e-3, 0.02


@operation()
def squared_relu(x):
    """max(x, 0)^2, with its gradient."""
    positive = np.maximum(x, 0)
    return positive * positive, (lambda g: 2 * positive * g,)


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


def turned_by(turns):
    """An operation that turns each pair of numbers of x (B, n, h, e) by `turns` (n, 1, e/2)."""

    def turn(x, turns):
        return (np.ascontiguousarray(x).view(np.complex64) * turns).view(np.float32)

    @operation()
    def by_place(x):
        here = turns[: x.shape[1]]
        return turn(x, here), (lambda g: turn(g, here.conj()),)

    return by_place


def turns_of(width, longest=1024):
    """e^{i t w}, one a place t and a pair of numbers, at the speeds w of the sinusoids."""
    speeds = 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.exp(1j * np.arange(longest)[:, None, None] * speeds).astype(np.complex64)


def of_one_length(x):
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


class Taps(nn.Module):
    """A learned mix of each token and the three before it; at first this one and half the last."""

    def __init__(self):
        super().__init__()
        self.taps = nn.Parameter(mt.tensor([1, 0.5, 0, 0])[:, None].repeat(1, WIDTH))

    def forward(self, x):
        return tapped(x, self.taps)


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.mix_1, self.mix_2 = Taps(), Taps()
        self.drop, self.turn = nn.Dropout(dropout), turned_by(turns_of(WIDTH // HEADS))
        for end in (self.out, self.down):
            end.weight.data *= 0.0  # the branch starts as nothing

    def forward(self, x):
        y = self.mix_1(of_one_length(x))
        q, k, v = (f(y).unflatten(-1, (HEADS, -1)) for f in (self.query, self.key, self.value))
        q, k = self.turn(of_one_length(q)), self.turn(of_one_length(k))
        heads = (part.transpose(1, 2) for part in (q, k, v))  # (B, h, n, e)
        seen = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.drop(self.out(seen.transpose(1, 2).flatten(2)))
        y = squared_relu(self.up(self.mix_2(of_one_length(x))))
        return x + self.drop(self.down(y))


class Model(nn.Module):
    """Numbers of letters (B, n) to scores of the letter after each (B, n, V)."""

    def __init__(self, letters, dropout=0.0):
        super().__init__()
        self.embedding, self.head = nn.Embedding(letters, WIDTH), nn.Linear(WIDTH, letters)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(BLOCKS))
        self.drop = nn.Dropout(dropout)
        self.head.weight.data *= 0.0
        self.head.bias.data *= 0.0

    def forward(self, tokens):
        x = of_one_length(self.drop(self.embedding(tokens)))
        for block in self.blocks:
            x = block(x)
        return self.head(of_one_length(x))


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


def train(text, letters, seed, clock):
    mt.manual_seed(seed)
    numbers = mt.tensor([letters.index(letter) for letter in text])
    dropout = decay = 0.1 if clock.league > 300 else 0.0
    model = Model(len(letters), dropout)
    matrices, others = [], []
    for name, weight in model.named_parameters():
        within = name.startswith("blocks") and name.endswith("weight")
        (matrices if within else others).append(weight)
    both = [
        mt.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
        Muon(matrices, MUON_RATE, weight_decay=decay),
    ]
    for done in clock:
        share = min(done / 0.03, 1.0, (1 - done) / 0.7)
        starts = mt.randint(0, len(numbers) - CONTEXT, (BATCH, 1))
        windows = numbers[starts + mt.arange(CONTEXT + 1)]  # (B, n + 1)
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        for optimizer, rate in zip(both, (ADAM_RATE, MUON_RATE), strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in both:
            optimizer.step()
    model.eval()

    @mt.no_grad()
    def predict(numbers):
        return model(mt.tensor(numbers)).log_softmax(-1).numpy()

    return predict
