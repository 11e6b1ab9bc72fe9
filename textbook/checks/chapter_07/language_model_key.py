"""Answers to the exercises of ``language_model.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_07.language_model import CausalLanguageModel, _text_cases


@CausalLanguageModel.answer(hidden_cases=lambda draw: _text_cases(draw, more=[((5, 3), 3, 4)]))
class CausalLanguageModel(nn.Module):
    """A language model: one layer of masked self-attention between embedding and output."""

    def __init__(self, vocabulary_size, width):
        super().__init__()
        self.start = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size + 1, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, vocabulary_size)

    def forward(self, tokens):
        """Tokens (B, n) give scores (B, n, V); those at position i are for the token after it."""
        X = self.embedding(tokens)  # (B, n, d)
        scores = self.query(X) @ self.key(X).transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, n, n)
        future = mt.ones(scores.shape[1:], dtype=mt.bool).triu(1)
        weights = scores.masked_fill(future, -mt.inf).softmax(dim=-1)
        return self.output(weights @ self.value(X))

    def loss(self, tokens, lengths):
        """Tokens (B, n), of which lengths (B) are real, give the mean cross-entropy."""
        start = mt.full_like(tokens[:, :1], self.start)
        scores = self(mt.cat([start, tokens[:, :-1]], dim=1))  # (B, n, V)
        real = mt.arange(tokens.shape[1]) < lengths.unsqueeze(1)  # (B, n)
        return F.cross_entropy(scores[real], tokens[real])


# Right in another way


class ModelWithTriangles(CausalLanguageModel.reference):
    def forward(self, tokens):
        X, n = self.embedding(tokens), tokens.shape[1]
        future = mt.ones(n, n, dtype=mt.bool).triu(1)
        scores = mt.einsum("bid,bjd->bij", self.query(X), self.key(X)) * X.shape[-1] ** -0.5
        return self.output(
            F.softmax(scores + mt.zeros(n, n).masked_fill(future, -1e30), -1) @ self.value(X)
        )

    def loss(self, tokens, lengths):
        start = mt.full((len(tokens), 1), self.start)
        scores = self(mt.cat([start, tokens], dim=1)[:, :-1])
        targets = tokens.masked_fill(mt.arange(tokens.shape[1]) >= lengths[:, None], -100)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class ModelInALoop(CausalLanguageModel.reference):
    """A growing set of keys, and a loss sequence by sequence."""

    def forward(self, tokens):
        X = self.embedding(tokens)
        query, key, value = self.query(X), self.key(X), self.value(X)
        outputs = []
        for t in range(tokens.shape[1]):
            scores = (key[:, : t + 1] @ query[:, t].unsqueeze(-1)).squeeze(-1)
            weights = (scores / math.sqrt(X.shape[-1])).softmax(dim=-1)
            outputs.append((weights.unsqueeze(-1) * value[:, : t + 1]).sum(dim=1))
        return self.output(mt.stack(outputs, dim=1))

    def loss(self, tokens, lengths):
        total = 0
        for row, n in zip(tokens, lengths.tolist(), strict=True):
            inputs = mt.tensor([self.start, *row[: n - 1].tolist()])
            scores = self(inputs.unsqueeze(0))[0].log_softmax(dim=-1)
            total = total - scores[mt.arange(n), row[:n]].sum()
        return total / lengths.sum()


class FusedModel(CausalLanguageModel.reference):
    def forward(self, tokens):
        X = self.embedding(tokens)
        mixed = F.scaled_dot_product_attention(
            self.query(X), self.key(X), self.value(X), is_causal=True
        )
        return self.output(mixed)


right = {
    "CausalLanguageModel": [ModelWithTriangles, ModelInALoop],
}
refused = {
    "CausalLanguageModel": [FusedModel],
}
