"""Answers to the exercises of ``module.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_05.layers_key import attention_by_hand
from textbook.checks.chapter_05.module import SelfAttention, _module_cases


@SelfAttention.answer(
    hidden_cases=lambda draw: _module_cases(
        draw, others=[((4, 1, 3), (2, 3, 4)), ((2, 5, 6), (2, 1, 3, 2)), ((5, 2, 1), (1, 5))]
    )
)
class SelfAttention(nn.Module):
    """Self-attention with trainable projections, and slots that any token may look at."""

    def __init__(self, width, key_size, slots):
        super().__init__()
        self.query = nn.Linear(width, key_size, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.slot_keys = nn.Parameter(mt.randn(slots, key_size) / math.sqrt(key_size))
        self.slot_values = nn.Parameter(mt.randn(slots, width))

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        on_tokens = query @ key.transpose(-2, -1)  # (..., n, n)
        on_slots = query @ self.slot_keys.T  # (..., n, slots)
        scores = mt.cat([on_tokens, on_slots], dim=-1) / math.sqrt(key.shape[-1])
        weights = scores.softmax(dim=-1)
        n = x.shape[-2]
        return weights[..., :n] @ value + weights[..., n:] @ self.slot_values


# Right in another way


class SlotsAsTokens(nn.Module):
    def __init__(self, width, key_size, slots):
        super().__init__()
        self.scale = key_size**-0.5
        self.slot_values = nn.Parameter(mt.rand(slots, width) - 0.5)
        self.slot_keys = nn.Parameter(mt.rand(slots, key_size))
        self.value = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.query = nn.Linear(width, key_size, bias=False)

    def with_slots(self, x, slots):
        return mt.cat([x, slots.expand(*x.shape[:-2], *slots.shape)], dim=-2)

    def forward(self, x):
        key = self.with_slots(self.key(x), self.slot_keys)
        value = self.with_slots(self.value(x), self.slot_values)
        return attention_by_hand(self.query(x), key, value)


class SlotsInALoop(nn.Module):
    def __init__(self, width, key_size, slots):
        super().__init__()
        for name, size in {"query": key_size, "key": key_size, "value": width}.items():
            setattr(self, name, nn.Linear(width, size, False))
        self.slot_keys = nn.Parameter(mt.randn(slots, key_size))
        self.slot_values = nn.Parameter(mt.randn(slots, width))

    def forward(self, x):
        flat = x.reshape(-1, *x.shape[-2:])
        found = []
        for tokens in flat:
            keys = mt.cat([self.key(tokens), self.slot_keys])
            values = mt.cat([self.value(tokens), self.slot_values])
            for q in self.query(tokens):
                weights = ((keys * q).sum(dim=1) / len(q) ** 0.5).softmax(dim=0)
                found.append((weights.unsqueeze(1) * values).sum(dim=0))
        return mt.stack(found).reshape(*x.shape)


class FusedSlots(SlotsAsTokens):
    def forward(self, x):
        key = self.with_slots(self.key(x), self.slot_keys)
        value = self.with_slots(self.value(x), self.slot_values)
        return F.scaled_dot_product_attention(self.query(x), key, value)


right = {
    "SelfAttention": [SlotsAsTokens, SlotsInALoop],
}
refused = {
    "SelfAttention": [FusedSlots],
}
