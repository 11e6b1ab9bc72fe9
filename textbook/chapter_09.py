"""What chapter 09 defines and later chapters use.

Generated from the cells of notebooks/09_feed_forward_norm_residual.py that start with
`# %% save`: change them there.
"""

from minitorch import nn
from textbook.chapter_06 import MultiHeadAttention


class FeedForward(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2 of each token by itself: (..., d) to (..., d)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(self.up(x).relu())


def warmed(step, steps, rate):
    """Up in a line for a tenth of the steps, then down in a line to zero; step counts from 0."""
    return rate * min(10 * (step + 1) / steps, 1) * (1 - step / steps)


class Block(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x)): (B, n, d) to (B, n, d)."""

    def __init__(self, width, heads, hidden, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.feed_forward = FeedForward(width, hidden)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, allowed=None):
        y = self.norm_1(x)
        x = x + self.drop(self.attention(y, y, allowed))
        return x + self.drop(self.feed_forward(self.norm_2(x)))
