"""Answers to the exercises of ``pooling.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_04.pooling import Queries, _pooling_cases


@Queries.answer(hidden_cases=lambda draw: _pooling_cases(draw, others=((5, 3), [3, 6, 1, 5])))
class Queries(nn.Module):
    """States (B, n, H) and padding (B, n) to one vector each, by several learned queries."""

    def __init__(self, hidden, queries):
        super().__init__()
        self.query = nn.Parameter(mt.zeros(queries, hidden))
        self.late = nn.Parameter(mt.zeros(queries))

    def forward(self, states, padding):
        """States (B, n, H) and padding (B, n) to (B, queries * H)."""
        states = states.masked_fill(padding.unsqueeze(-1), 0.0)
        places = mt.arange(states.shape[1]).unsqueeze(1)  # (n, 1)
        scores = states @ self.query.T + places * self.late  # (B, n, queries)
        weights = scores.masked_fill(padding.unsqueeze(-1), -mt.inf).softmax(dim=1)
        return (weights.mT @ states).flatten(1)


# Right in another way


class OneQueryAtATime(Queries.reference):
    def forward(self, states, padding):
        found = []
        for row, rest in zip(states, padding, strict=True):
            words = row[~rest]
            places = mt.arange(len(words)).to(words.dtype)
            parts = []
            for q, b in zip(self.query, self.late, strict=True):
                parts.append((words @ q + b * places).softmax(0) @ words)
            found.append(mt.cat(parts))
        return mt.stack(found)


class WithEinsum(Queries.reference):
    def forward(self, states, padding):
        hidden = padding[:, None]
        clean = mt.where(padding[..., None], mt.zeros_like(states), states)
        scores = mt.einsum("mh,bnh->bmn", self.query, clean)
        scores = scores + mt.outer(self.late, mt.arange(states.shape[1]).double().to(scores.dtype))
        weights = F.softmax(mt.where(hidden, mt.full_like(scores, -math.inf), scores), -1)
        return mt.einsum("bmn,bnh->bmh", weights, clean).flatten(1)


right = {
    "Queries": [OneQueryAtATime, WithEinsum],
}
