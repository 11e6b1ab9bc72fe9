"""What chapter 07 defines and later chapters use.

Generated from the cells of notebooks/07_masking.py that start with
`# %% save`: change them there.
"""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.chapter_01 import LanguageModel
from textbook.chapter_01 import characters
from textbook.chapter_06 import MultiHeadAttention
from textbook.chapter_06 import merge_heads
from textbook.data import Vocabulary
from textbook.data import first_edition
from textbook.data import split
from textbook.lab import tqdm


def three_texts():
    """Chapter 01's corpus: its letters, and a text to learn from, to choose by, to report on."""
    rest, validation = split(first_edition().splitlines(), validation=0.1)
    training, elsewhere = split(rest, validation=0.1)
    letters = Vocabulary(characters(training), specials=["<unk>", "<s>"], min_count=20)
    return letters, *(
        letters.encode(characters(part)) for part in (training, elsewhere, validation)
    )


def some_windows(text, count, n):
    """Windows of a text that start anywhere: inputs and targets (B, n)."""
    starts = mt.randint(0, len(text) - n, (count, 1))
    window = text[starts + mt.arange(n + 1)]  # (B, n + 1)
    return window[:, :-1], window[:, 1:]


def all_windows(text, n, first=0):
    """The windows that lie side by side in a text from its token ``first`` on."""
    count = (len(text) - first - 1) // n
    inputs, targets = (text[start:][: count * n] for start in (first, first + 1))
    return inputs.reshape(count, n), targets.reshape(count, n)


class AttentionModel(nn.Module):
    """Tokens (B, n) to scores of the next token (B, n, V): one layer of self-attention.

    ``positions`` gives places (n) their codes (n, d), or 0; ``attend`` gives queries, keys and
    values (B, h, n, d/h) the heads' outputs. Both may be modules with weights of their own.
    """

    def __init__(self, vocabulary, positions, attend, width=96, heads=8, hidden=256):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), positions
        self.attention, self.attend = MultiHeadAttention(width, heads), attend
        self.read_out = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, vocabulary)
        )

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(mt.arange(tokens.shape[1]))  # (B, n, d)
        mixed = self.attend(*self.attention.project(x, x))  # (B, h, n, d/h)
        return self.read_out(self.attention.out(merge_heads(mixed)))


def train_on(model, draw, rate, steps):
    """Train on batches from ``draw``, the rate falling to zero; returns the loss of each step."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    history = []
    for step in tqdm(range(steps), leave=False):
        inputs, targets = draw()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.step()
        history.append(loss.item())
    return history


def causal_mask(T, n=None):
    """The last T of n tokens, each allowed to look at itself and all before it: (T, n)."""
    n = T if n is None else n
    return mt.ones(T, n).tril(n - T).bool()


def real_tokens(tokens, filler=0):
    """True where there is a token, False at padding, for all heads and queries: (B, 1, 1, n)."""
    return (tokens != filler)[:, None, None]


class BatchFirst(LanguageModel):
    """Chapter 01's recurrent language model for tokens (B, n): scores (B, n, V)."""

    def forward(self, tokens):
        scores, _ = super().forward(tokens.T)
        return scores.transpose(0, 1)
