"""Answers to the exercises of ``encodings.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_03.encodings import _pooling_cases, largest_mean


@largest_mean.answer(
    hidden_cases=lambda draw: _pooling_cases(
        draw, more=[([1], 2, 3, None), ([6, 2, 9, 4], 7, 4, mt.nan), ([3, 7], 5, 7, 1e30)]
    )
)
def largest_mean(states, padding, k):
    """States (B, n, H) and padding (B, n) give for each unit the mean of its k largest, (B, H)."""
    counts = (~padding).sum(dim=1, keepdim=True).clamp(max=k)  # (B, 1)
    states = states.masked_fill(padding.unsqueeze(-1), -mt.inf)
    largest, _ = states.topk(min(k, states.shape[1]), dim=1)  # (B, k, H)
    extra = mt.arange(largest.shape[1]) >= counts  # (B, k)
    return largest.masked_fill(extra.unsqueeze(-1), 0.0).sum(dim=1) / counts


# Right in another way


def largest_sentence_by_sentence(states, padding, k):
    rows = []
    for row, rest in zip(states, padding, strict=True):
        words = row[~rest]  # (n, H)
        rows.append(words.sort(dim=0, descending=True)[0][:k].mean(0))
    return mt.stack(rows)


def largest_by_rank(states, padding, k):
    """A number counts if fewer than k of its sentence are larger."""
    clean = states.masked_fill(padding.unsqueeze(-1), -math.inf)
    rank = (clean.unsqueeze(1) > clean.unsqueeze(2)).sum(2)  # (B, n, H)
    counts = (rank < k) & ~padding.unsqueeze(-1)
    return mt.where(counts, states, mt.zeros_like(states)).sum(1) / counts.sum(1)


def largest_one_after_another(states, padding, k):
    left = states.masked_fill(padding.unsqueeze(-1), -math.inf)
    total, count = 0.0, (~padding).sum(1, keepdim=True)
    for i in range(min(k, states.shape[1])):
        top = left.argmax(dim=1, keepdim=True)
        value = left.gather(1, top).squeeze(1)
        total = total + value.masked_fill(count <= i, 0.0)
        left = left.masked_fill(F.one_hot(top.squeeze(1), left.shape[1]).mT.bool(), -math.inf)
    return total / count.clamp(max=k)


right = {
    "largest_mean": [largest_sentence_by_sentence, largest_by_rank, largest_one_after_another],
}
