"""Answers to the exercises of ``block.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_10.block import Block, _block_cases


@Block.answer(hidden_cases=lambda draw: _block_cases(draw, sizes=(5, 3, 3, 4)))
class Block(nn.Module):
    """A pre-norm block of parts that are handed in."""

    def __init__(self, width, attention, feed_forward, cross=None, dropout=0.0, norm=nn.LayerNorm):
        super().__init__()
        self.attention, self.attention_norm = attention, norm(width)
        self.cross = cross
        if cross is not None:
            self.cross_norm = norm(width)
        self.feed_forward, self.feed_forward_norm = feed_forward, norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        """x (B, T, width), memory (B, n, width) and two masks give (B, T, width)."""
        normal = self.attention_norm(x)
        x = x + self.dropout(self.attention(normal, normal, allowed))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, memory_allowed))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


# Right in another way


class BlockInALoop(Block.reference):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        steps = [(self.attention_norm, lambda y: self.attention(y, y, allowed=allowed))]
        if self.cross:
            steps.append((self.cross_norm, lambda y: self.cross(y, memory, memory_allowed)))
        steps.append((self.feed_forward_norm, self.feed_forward))
        for norm, part in steps:
            x = self.dropout(part(norm(x))) + x
        return x


class BlockWithFunctions(Block.reference):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        def drop(y):
            return F.dropout(y, self.dropout.p, self.training)

        normal = self.attention_norm(x)
        total = mt.stack([x, drop(self.attention(normal, normal, allowed))]).sum(dim=0)
        if self.cross is None:
            return total + drop(self.feed_forward(self.feed_forward_norm(total)))
        read = self.cross(self.cross_norm(total), memory=memory, allowed=memory_allowed)
        total = total + drop(read)
        return total + drop(self.feed_forward(self.feed_forward_norm(total)))


right = {
    "Block": [BlockInALoop, BlockWithFunctions],
}
