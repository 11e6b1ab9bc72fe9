"""What chapter 05 defines and later chapters use.

Generated from the cells of notebooks/05_self_attention.py that start with
`# %% save`: change them there.
"""

import math
from minitorch import nn


def attention(query, key, value, allowed=None):
    """softmax(q k / sqrt(d)) v for (..., T, d), (..., n, d), (..., n, d_v): outputs and weights."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights  # (..., T, d_v), (..., T, n)


class SelfAttention(nn.Module):
    """Self-attention over x (B, n, d), one head; allowed (B, n, n), (B, 1, n) or (n, n)."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, allowed=None):
        outputs, _ = attention(self.query(x), self.key(x), self.value(x), allowed)
        return outputs  # (B, n, d)


def places(words):
    """0, 1, 2, 3 for words that count 1, 100, 1,000 or 100,000 times; -100: not asked for."""
    labels, following, thousands = [], None, 0
    for word in reversed(words):
        thousands = 2 if word == "thousand" else thousands
        hundreds = 1 if following == "hundred" else 0
        labels.append(-100 if word in ("and", "hundred", "thousand") else thousands + hundreds)
        following = word
    return labels[::-1]
