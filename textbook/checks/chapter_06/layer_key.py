"""Answers to the exercises of ``layer.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_06.axes_key import merge_with_view, split_with_permute
from textbook.checks.chapter_06.layer import GroupedAttention, _layer_cases
from textbook.checks.chapter_06.without_key import merge_by_concatenation


@GroupedAttention.answer(
    hidden_cases=lambda draw: _layer_cases(
        draw,
        others=[
            ((8, 4, 4), 2, 4, 5, None),
            ((10, 5, 1), 3, 2, 6, (3, 1, 1, 6)),
            ((12, 4, 2), 2, 3, 3, (2, 1, 3, 3)),
            ((12, 6, 3), 2, 3, 4, (6, 1, 4)),
            ((8, 4, 2), 2, 3, 5, (2, 4, 3, 5)),
        ],
    ),
    after_passing=(
        "Shorter, once you have written it: F.scaled_dot_product_attention(query, key, value, "
        "attn_mask=allowed) between the projections."
    ),
)
class GroupedAttention(nn.Module):
    """Multi-head attention: x asks, memory answers; heads / groups heads share keys and values."""

    def __init__(self, width, heads, groups=None):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, self.groups * self.size, bias=False)
        self.value = nn.Linear(width, self.groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: where to look. Gives (B, T, width)."""
        query, key, value = (
            projected.unflatten(-1, (-1, self.size)).transpose(1, 2)  # (B, heads or groups, ...)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        key, value = (
            each.repeat_interleave(self.heads // self.groups, dim=1) for each in (key, value)
        )
        scores = query @ key.transpose(2, 3) / self.size**0.5  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        joined = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)  # (B, T, width)
        return self.out(joined)


# Right in another way


class LayerWithEinsum(GroupedAttention.reference):
    """The groups as an axis of their own."""

    def forward(self, x, memory, allowed=None):
        query = self.query(x).unflatten(-1, (self.groups, -1, self.size))  # (B, T, g, h/g, s)
        key = self.key(memory).unflatten(-1, (self.groups, -1))
        value = self.value(memory).unflatten(-1, (self.groups, -1))
        scores = mt.einsum("bigks,bjgs->bgkij", query, key) / math.sqrt(self.size)
        if allowed is not None:
            allowed = allowed.expand(len(x), self.heads, *scores.shape[-2:])
            scores = mt.where(allowed.reshape(scores.shape), scores, -1e30)
        mixed = mt.einsum("bgkij,bjgs->bigks", scores.softmax(-1), value)
        return self.out(mixed.flatten(2))


class LayerInALoop(GroupedAttention.reference):
    """A loop over sequences and heads."""

    def forward(self, x, memory, allowed=None):
        mask = mt.zeros(len(x), self.heads, x.shape[1], memory.shape[1])
        if allowed is not None:
            mask = mask.masked_fill(~allowed, -math.inf)
        rows = []
        for b in range(len(x)):
            query, key, value = self.query(x[b]), self.key(memory[b]), self.value(memory[b])
            heads = []
            for head in range(self.heads):
                group = head * self.groups // self.heads
                own = slice(head * self.size, (head + 1) * self.size)
                theirs = slice(group * self.size, (group + 1) * self.size)
                scores = query[:, own] @ key[:, theirs].T / self.size**0.5 + mask[b, head]
                heads.append(scores.softmax(dim=-1) @ value[:, theirs])
            rows.append(self.out(mt.cat(heads, dim=-1)))
        return mt.stack(rows)


class LayerWithALargerBatch(GroupedAttention.reference):
    def forward(self, x, memory, allowed=None):
        batch, steps, _ = x.shape
        query = split_with_permute(self.query(x), self.heads).flatten(0, 1)
        key, value = (
            split_with_permute(each, self.groups)
            .unsqueeze(2)
            .expand(-1, -1, self.heads // self.groups, -1, -1)
            .reshape(batch * self.heads, -1, self.size)
            for each in (self.key(memory), self.value(memory))
        )
        scores = query @ key.mT * self.size**-0.5
        if allowed is not None:
            mask = allowed.expand(batch, self.heads, *scores.shape[1:]).reshape(scores.shape)
            scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
        out = (scores.softmax(-1) @ value).view(batch, self.heads, steps, -1)
        return self.out(merge_by_concatenation(out))


class FusedLayer(GroupedAttention.reference):
    def forward(self, x, memory, allowed=None):
        query = split_with_permute(self.query(x), self.heads)
        key, value = (
            split_with_permute(each, self.groups).repeat_interleave(self.heads // self.groups, 1)
            for each in (self.key(memory), self.value(memory))
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.out(merge_with_view(mixed))


right = {
    "GroupedAttention": [LayerWithEinsum, LayerInALoop, LayerWithALargerBatch],
}
refused = {
    "GroupedAttention": [FusedLayer],
}
