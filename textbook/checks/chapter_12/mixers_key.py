"""Answers to the exercises of ``mixers.py``."""

import functools

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_12.mixers import OwnMixer, _mixer_cases


@OwnMixer.answer(hidden_cases=lambda draw: _mixer_cases(draw, others=[(3, 7, 8), (1, 4, 12)]))
class OwnMixer(nn.Module):
    """Mixes tokens (B, n, d) causally, at once or step by step with a state of one size."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.share = nn.Parameter(mt.ones(width))  # of the token before, in the key

    def roles(self, x, before):
        """Queries and keys, both positive, and values."""
        share = self.share.sigmoid()
        query, key = self.query(x), self.key(share * before + (1 - share) * x)
        return F.elu(query) + 1, F.elu(key) + 1, self.value(x)

    def forward(self, x):
        """(B, n, d) -> (B, n, d), all tokens at once."""
        before = mt.cat([mt.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        query, key, value = self.roles(x, before)
        weights = (query @ key.mT).tril()
        return self.out(weights @ value / (weights.sum(dim=-1, keepdim=True) + 1e-6))

    def start(self, batch):
        """The state before the first token: a tuple of tensors (B, ...)."""
        width = len(self.share)
        sizes = (width, width), (width,), (width,)
        return tuple(self.share.new_zeros(batch, *size) for size in sizes)

    def step(self, x, state):
        """One token (B, d) and the state give its output (B, d) and the new state."""
        pairs, total, before = state
        query, key, value = self.roles(x, before)
        pairs = pairs + key.unsqueeze(-1) * value.unsqueeze(-2)  # (B, d, d)
        total = total + key
        mixed = (query.unsqueeze(-2) @ pairs).squeeze(-2)
        output = self.out(mixed / ((query * total).sum(dim=-1, keepdim=True) + 1e-6))
        return output, (pairs, total, x)


class _GrowingCache(OwnMixer.reference):
    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        future = mt.ones(x.shape[1], x.shape[1], dtype=mt.bool).triu(1)
        return (query @ key.mT).masked_fill(future, -mt.inf).softmax(dim=-1) @ self.out(value)

    def start(self, batch):
        empty = self.share.new_zeros(batch, 0, len(self.share))
        return empty, empty

    def roles(self, x, before):
        return self.share * 0 + super().roles(x, before)

    def step(self, x, state):
        keys = mt.cat([state[0], self.key(x).unsqueeze(1)], dim=1)
        values = mt.cat([state[1], self.value(x).unsqueeze(1)], dim=1)
        weights = (self.query(x).unsqueeze(1) @ keys.mT).softmax(dim=-1)
        return self.out((weights @ values).squeeze(1)), (keys, values)


# Right in another way


class DecayingMixer(nn.Module):
    """One decay for each head, and the token before as the key; a Mamba-2 of a few lines."""

    def __init__(self, width):
        super().__init__()
        self.roles = nn.Linear(2 * width, 3 * width)
        self.out = nn.Linear(width, width)
        self.speed = nn.Parameter(mt.tensor(-5.0))

    def split(self, x, before):
        return self.roles(mt.cat([x, before], dim=-1)).chunk(3, dim=-1)

    def forward(self, x):
        n = x.shape[1]
        query, key, value = self.split(x, F.pad(x, (0, 0, 1, 0))[:, :-1])
        back = mt.arange(n).unsqueeze(1) - mt.arange(n)
        decay = (-self.speed.exp() * back.clamp(min=0)).exp().tril()
        return self.out((query @ key.mT * decay) @ value)

    def start(self, batch):
        width = self.out.weight.shape[0]
        zeros = functools.partial(mt.zeros, dtype=self.speed.dtype)
        return zeros(batch, width, width), zeros(batch, width)

    def step(self, x, state):
        query, key, value = self.split(x, state[1])
        pairs = state[0] * (-self.speed.exp()).exp() + mt.einsum("bk,bv->bkv", key, value)
        return self.out(mt.einsum("bk,bkv->bv", query, pairs)), (pairs, x)


class RecurrentMixer(nn.Module):
    """A GRU: right in both forms, whatever it may learn."""

    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]

    def start(self, batch):
        return (self.cell.weight_hh_l0.new_zeros(batch, self.cell.hidden_size),)

    def step(self, x, state):
        output, last = self.cell(x.unsqueeze(1), state[0].unsqueeze(0))
        return output[:, 0], (last[0],)


class FusedMixer(OwnMixer.reference):
    def forward(self, x):
        same = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return super().forward(x) + 0 * same


right = {
    "OwnMixer": [DecayingMixer, RecurrentMixer],
}
refused = {
    "OwnMixer": [FusedMixer],
}
