"""Answers to the exercises of ``block.py``."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_09.block import Block, _block_cases
from textbook.checks.chapter_09.norms_key import norm_with_var


@Block.answer(
    hidden_cases=lambda draw: _block_cases(
        draw,
        others=[
            ((3, 3, 4), 1, 3, "causal", False),
            ((6, 2, 4), 2, 4, "random", True),
            ((4, 2, 6), 4, 5, None, True),
            ((4, 4, 2), 2, 3, None, False),
        ],
    )
)
class Block(nn.Module):
    """A pre-norm block of attention and feed-forward network."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x, allowed=None, real=None):
        """x (B, n, width), allowed (n, n) and real (B, n) or None. Gives (B, n, width)."""
        normal = self.norm_1(x)
        attended, _ = self.attention(
            normal,
            normal,
            normal,
            attn_mask=None if allowed is None else ~allowed,
            key_padding_mask=None if real is None else ~real,
        )
        x = x + attended
        return x + self.feed_forward(self.norm_2(x))


# Right in another way


class BlockInSteps(Block.reference):
    """One mask of numbers: 0 where a query may look, minus infinity elsewhere."""

    def forward(self, x, allowed=None, real=None):
        batch, n, _ = x.shape
        normal, mask = self.norm_1(x), mt.zeros(batch, n, n)
        if allowed is not None:
            mask = mask.masked_fill(~allowed, -mt.inf)
        if real is not None:
            mask = mask.masked_fill(~real.unsqueeze(1), -mt.inf)
        mask = mask.repeat_interleave(self.attention.num_heads, dim=0)
        attended = self.attention(normal, normal, normal, attn_mask=mask)[0]
        total = attended + x
        for layer in (self.norm_2, *self.feed_forward):
            attended = layer(total if layer is self.norm_2 else attended)
        return total + attended


class BlockSequenceBySequence(Block.reference):
    def forward(self, x, allowed=None, real=None):
        n = x.shape[1]
        rows = []
        for b, sequence in enumerate(x):
            seen = mt.ones(n, n).bool() if allowed is None else allowed
            seen = seen if real is None else seen & real[b]
            normal = self.norm_1(sequence).unsqueeze(0)
            attended, _ = self.attention(normal, normal, normal, attn_mask=seen.logical_not())
            rows.append(sequence + attended[0])
        between = mt.stack(rows)
        return self.feed_forward(self.norm_2(between)) + between


class BlockByHand(Block.reference):
    """From the weights alone, without the modules."""

    def forward(self, x, allowed=None, real=None):
        width, heads = x.shape[-1], self.attention.num_heads
        normal = norm_with_var(x, self.norm_1.weight, self.norm_1.bias)
        projected = normal @ self.attention.in_proj_weight.T
        query, key, value = (
            each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in projected.split(width, -1)
        )
        scores = query @ key.mT / math.sqrt(width // heads)
        if allowed is not None:
            scores = mt.where(allowed, scores, -mt.inf)
        if real is not None:
            scores = mt.where(real[:, None, None], scores, -mt.inf)
        joined = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + joined @ self.attention.out_proj.weight.T
        return x + self.feed_forward(norm_with_var(x, self.norm_2.weight, self.norm_2.bias))


class BlockWithoutWeights(Block.reference):
    """Without the weights to return, nn.MultiheadAttention takes the fused operation."""

    def forward(self, x, allowed=None, real=None):
        x_1, mask = self.norm_1(x), None if allowed is None else ~allowed
        padding = None if real is None else ~real
        x = x + self.attention(x_1, x_1, x_1, padding, need_weights=False, attn_mask=mask)[0]
        return x + self.feed_forward(self.norm_2(x))


right = {
    "Block": [BlockInSteps, BlockSequenceBySequence, BlockByHand, BlockWithoutWeights],
}
