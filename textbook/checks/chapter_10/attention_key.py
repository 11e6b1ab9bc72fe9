"""Answers to the exercises of ``attention.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_10.attention import CrossAttention, _cross_cases


@CrossAttention.answer(
    hidden_cases=lambda draw: _cross_cases(
        draw, others=[((12, 3), 1, 3, 4, False), ((8, 4), 3, 3, 5, True)]
    )
)
class CrossAttention(nn.Module):
    """Multi-head attention from x to the memory."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: its tokens. Gives (B, T, width)."""
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, T or n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        weights = scores.softmax(dim=-1)
        self.weights = weights.detach()
        return self.out((weights @ value).transpose(1, 2).flatten(2))


# Right in another way


class CrossHeadByHead(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        size = x.shape[-1] // self.heads
        query, key, value = self.query(x), self.key(memory), self.value(memory)
        outputs, maps = [], []
        for first in range(0, x.shape[-1], size):
            columns = slice(first, first + size)
            scores = query[..., columns] @ key[..., columns].mT / math.sqrt(size)
            if allowed is not None:
                scores = mt.where(allowed.squeeze(1), scores, -mt.inf)
            maps.append(scores.softmax(dim=-1))
            outputs.append(maps[-1] @ value[..., columns])
        self.weights = mt.stack(maps, dim=1).detach()
        return self.out(mt.cat(outputs, dim=-1))


class CrossWithEinsum(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        query, key, value = (
            each.reshape(len(x), -1, self.heads, x.shape[-1] // self.heads)
            for each in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = mt.einsum("bihs,bjhs->bhij", query, key) * key.shape[-1] ** -0.5
        mask = mt.zeros(1) if allowed is None else mt.zeros(allowed.shape)
        mask = mask if allowed is None else mask.masked_fill(~allowed, -mt.inf)
        weights = (scores + mask).softmax(dim=-1)
        self.weights = weights.detach().clone()
        return self.out(mt.einsum("bhij,bjhs->bihs", weights, value).flatten(2))


class CrossFused(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        super().forward(x, memory, allowed)
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(memory), self.value(memory))
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.out(attended.transpose(1, 2).flatten(2))


right = {
    "CrossAttention": [CrossHeadByHead, CrossWithEinsum],
}
refused = {
    "CrossAttention": [CrossFused],
}
