"""Chapter 11's model of letters as a program for the race: where you start.

python book.py race exercises/14_the_race/baseline.py
"""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn

WIDTH, HEADS, HIDDEN, BLOCKS, CONTEXT, BATCH, RATE = 128, 4, 512, 4, 128, 16, 3e-3


def codes(n, width):
    """Sinusoidal codes of the places: (n, width)."""
    angles = np.arange(n)[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return mt.tensor(both.reshape(n, width).astype(np.float32))


class Block(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x)): (B, n, d) to (B, n, d)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        for end in (self.out, self.down):
            end.weight.data *= (2 * BLOCKS) ** -0.5

    def forward(self, x):
        parts = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, h, n, d/h)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(self.up(self.norm_2(x)).relu())


class Model(nn.Module):
    """Numbers of letters (B, n) to scores of the letter after each (B, n, V)."""

    def __init__(self, letters):
        super().__init__()
        self.embedding, self.head = nn.Embedding(letters, WIDTH), nn.Linear(WIDTH, letters)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.codes, self.norm = codes(CONTEXT, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.codes[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(text, letters, seed, clock):
    mt.manual_seed(seed)
    numbers = mt.tensor([letters.index(letter) for letter in text])
    model = Model(len(letters))
    optimizer = mt.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.1)
    for done in clock:
        optimizer.param_groups[0]["lr"] = RATE * min(done / 0.03, (1 - done) / 0.97)
        starts = mt.randint(0, len(numbers) - CONTEXT, (BATCH, 1))
        windows = numbers[starts + mt.arange(CONTEXT + 1)]  # (B, n + 1)
        scores = model(windows[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(scores, windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()

    @mt.no_grad()
    def predict(numbers):
        return model(mt.tensor(numbers)).log_softmax(-1).numpy()

    return predict
