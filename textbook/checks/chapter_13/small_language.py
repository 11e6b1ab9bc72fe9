"""A small language to prove a pretraining by: sentences of one word, said again and again."""

import math

import numpy as np

import minitorch as mt
from minitorch import nn
from textbook.chapter_10 import OneStack
from textbook.checks.exercise import Draw


class Spy(OneStack):
    """An encoder that notes what it reads while it is trained."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary, 16, 2, 24, 1, causal=False)
        self.read = []

    def forward(self, tokens):
        self.read.append(tokens.clone())
        return super().forward(tokens)


class Sure(nn.Module):
    """Sure of what it sees, and knows nothing of what is hidden."""

    def __init__(self, vocabulary, mask):
        super().__init__()
        self.table = nn.Parameter(6.0 * mt.eye(vocabulary, dtype=mt.float64))
        self.level = nn.Parameter(mt.zeros(vocabulary, dtype=mt.float64))
        self.mask, self.asked = mask, []  # the tokens of each batch, and where the loss asks

    def forward(self, tokens):
        scores = self.table[tokens] * (tokens != self.mask).unsqueeze(-1) + self.level
        if scores.requires_grad:
            scores.register_hook(lambda g: self.asked.append((tokens, (g != 0).any(dim=-1))))
        return scores

    def shows(self):
        """Whether the blanks, if these are what the loss asks for, show the mask often enough."""
        asked, shown, words = self._counts()
        few = 0 < asked < 0.4 * words and shown < 0.4 * asked
        return "less than half of them" if few else "half of them or more"

    def asks_blanks(self):
        """Whether the loss asks at few places, most of which show the mask."""
        asked, shown, words = self._counts()
        return 0 < asked < 0.4 * words and shown >= 0.4 * asked

    def _counts(self):
        """Of the places that the loss asks for, of those that show the mask, of all words."""
        asked = sum(there.sum().item() for _, there in self.asked)
        shown = sum((there & (tokens == self.mask)).sum().item() for tokens, there in self.asked)
        return asked, shown, sum((tokens > 0).sum().item() for tokens, _ in self.asked)


def same_words(words, count, longest):
    """Sentences (count, longest) of a word each, between 2 and 4; words begin at 5."""
    draw = Draw(0).random
    rows = mt.zeros(count, longest, dtype=mt.int64)
    for i, row in enumerate(rows):
        n = int(draw.integers(3, longest - 1))
        row[0], row[1 : n + 1], row[n + 1] = 2, 5 + i * words // count, 4
    return rows


def hiding(read, sentences, mask):
    """What has been hidden in the batches that were read, in words."""
    if any(batch.ndim != 2 or batch.shape[1] != sentences.shape[1] for batch in read):
        return {"what the model reads": "parts of sentences: nothing is hidden in whole ones"}
    rows, known = mt.cat(read).numpy(), sentences.numpy()
    lengths = (known > 0).sum(axis=1)
    frames = {(int(n), *(row[0], row[n - 1])) for row, n in zip(known, lengths, strict=True)}
    found_lengths = (rows > 0).sum(axis=1)
    seen = set(
        zip(found_lengths, rows[:, 0], rows[range(len(rows)), found_lengths - 1], strict=True)
    )
    found = {"what the model reads": "sentences"}
    found["the special tokens"] = "as they are" if seen <= frames else "hidden, too"
    share = (rows == mask).sum() / max((rows > 4).sum(), 1)
    amounts = (0.0, "none"), (0.02, "hardly any"), (0.6, "a small share"), (math.inf, "many")
    found["the tokens that show the mask"] = next(text for limit, text in amounts if share <= limit)
    different = len({tuple(row) for row in rows})
    alike = [batch.numpy() for batch in read if batch.shape == read[0].shape]
    masked, words = ((np.stack(alike) == mask).any(0), (np.stack(alike) > 4).any(0))
    same = different <= len(known) or (len(alike) > 50 and masked[words].mean() < 0.5)
    same = same or _some_are_never_hidden(rows, mask)
    found["what is hidden"] = "the same places in each step" if same else "drawn anew for each step"
    often = np.bincount(rows[rows > 4], minlength=known.max() + 1)[5:]
    found["the sentences that are read"] = (
        "drawn from all" if often.min() > 0.3 * often.mean() else "mostly some of them"
    )
    return found


def _some_are_never_hidden(rows, mask):
    """Whether many places of the same sentences never show the mask, though it is shown often."""
    times = {}
    for row in rows:
        words = row[(row > 4) & (row != mask)]
        if len(words):
            times.setdefault((np.bincount(words).argmax(), (row > 0).sum()), []).append(row == mask)
    if not times:
        return False
    found = np.concatenate([sum(group)[1 : n - 1] for (_, n), group in times.items()])
    return found.mean() > 3 and (found == 0).mean() > 0.3


@mt.no_grad()
def fills(model, sentences, mask):
    """What the model says of the third token of each sentence when it is hidden, in words."""
    hidden = sentences.clone()
    hidden[:, 2] = mask
    said = model(hidden)[:, 2].argmax(dim=-1)
    if (said == mask).all():
        return "the mask"
    return "found" if (said == sentences[:, 2]).float().mean() > 0.8 else "not found"
