"""Answers to the exercises of ``tying.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_11.tying import TiedEmbedding, _tied_cases


@TiedEmbedding.answer(
    hidden_cases=lambda draw: _tied_cases(draw, more=[((4, 5, 6), (3, 5), (2, 1))])
)
class TiedEmbedding(nn.Module):
    """A small table, widened on the way in, narrowed on the way out."""

    def __init__(self, vocabulary, inner, width):
        super().__init__()
        self.table = nn.Parameter(mt.randn(vocabulary, inner) * inner**-0.5)
        self.up = nn.Parameter(mt.randn(inner, width) * width**-0.5)
        self.bias = nn.Parameter(mt.zeros(vocabulary))

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        return self.table[tokens] @ self.up * math.sqrt(self.up.shape[1])

    def scores(self, x):
        """x (B, T, width) gives the scores of all tokens, (B, T, V)."""
        return x @ self.up.T @ self.table.T + self.bias


# Right in another way


class TiedWithFunctions(TiedEmbedding.reference):
    def forward(self, tokens):
        rows = F.embedding(tokens, self.table)
        return F.linear(rows, self.up.T) * self.up.shape[-1] ** 0.5

    def scores(self, x):
        return F.linear(F.linear(x, self.up), self.table, self.bias)


class TiedWithEinsum(TiedEmbedding.reference):
    def forward(self, tokens):
        scaled = self.up * math.sqrt(self.up.shape[1])
        return mt.einsum("bne,ed->bnd", self.table[tokens], scaled)

    def scores(self, x):
        narrow = mt.einsum("btd,ed->bte", x, self.up)
        return self.bias + mt.einsum("bte,ve->btv", narrow, self.table)


right = {
    "TiedEmbedding": [TiedWithFunctions, TiedWithEinsum],
}
