"""What chapter 06 defines and later chapters use.

Generated from the cells of notebooks/06_multi_head_attention.py that start with
`# %% save`: change them there.
"""

import minitorch.nn.functional as F
from minitorch import nn
from textbook.chapter_05 import attention


def split_heads(x, heads):
    """(B, n, d) to (B, h, n, d/h): columns in h blocks, the head axis beside the batch."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    """(B, h, n, d/h) to (B, n, d): the way back."""
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """x (B, T, d) looks at memory (B, n, d) with h heads: (B, T, d); allowed fits (B, h, T, n)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def project(self, x, memory):
        """Queries (B, h, T, d/h), keys and values (B, h, n, d/h)."""
        projected = self.query(x), self.key(memory), self.value(memory)
        return [split_heads(part, self.heads) for part in projected]

    def look(self, x, memory, allowed=None):
        """Outputs (B, h, T, d/h) and weights (B, h, T, n) of all heads."""
        return attention(*self.project(x, memory), allowed)

    def forward(self, x, memory, allowed=None):
        mixed = F.scaled_dot_product_attention(*self.project(x, memory), allowed)
        return self.out(merge_heads(mixed))
