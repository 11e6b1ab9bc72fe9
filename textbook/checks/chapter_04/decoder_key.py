"""Answers to the exercises of ``decoder.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_04.decoder import AttentionDecoder, _decoder_cases


@AttentionDecoder.answer(
    hidden_cases=lambda draw: _decoder_cases(draw, others=((7, 4, 5, 4, 6), [3, 1, 6, 5], 5, 7))
)
class AttentionDecoder(nn.Module):
    """A GRU decoder that looks with its old state, by additive scores, and then steps."""

    def __init__(self, vocabulary_size, width, encoder_size, hidden_size, rank):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.W_1 = nn.Linear(encoder_size, rank, bias=False)
        self.W_2 = nn.Linear(hidden_size, rank, bias=False)
        self.w = nn.Linear(rank, 1, bias=False)
        self.cell = nn.GRUCell(width + encoder_size, hidden_size)
        self.out = nn.Linear(hidden_size + encoder_size + width, vocabulary_size)

    def forward(self, inputs, memory, padding, state):
        """Inputs (B, T), memory (B, n, H_e), padding (B, n), state (B, H): scores (B, T, V)."""
        keys, results = self.W_1(memory), []  # (B, n, r)
        for x in self.embedding(inputs).unbind(1):  # (B, d)
            fit = self.w((keys + self.W_2(state).unsqueeze(1)).tanh()).squeeze(-1)  # (B, n)
            weights = fit.masked_fill(padding, -mt.inf).softmax(dim=-1)
            o = (weights.unsqueeze(1) @ memory).squeeze(1)  # (B, H_e)
            state = self.cell(mt.cat([x, o], dim=-1), state)  # (B, H)
            results.append(self.out(mt.cat([state, o, x], dim=-1)))
        return mt.stack(results, dim=1)


# Right in another way


class DecoderWithOneOutput(AttentionDecoder.reference):
    """All words embedded before the loop and all outputs computed after it."""

    def forward(self, inputs, memory, padding, state):
        read = []
        for x in self.embedding(inputs).transpose(0, 1):
            o = mt.stack([self.look(*each) for each in zip(state, memory, padding, strict=True)])
            state = self.cell(mt.cat([x, o], dim=1), state)
            read.append(mt.cat([state, o, x], dim=1))
        return self.out(mt.stack(read, 1))

    def look(self, state, memory, padding):
        words = memory[~padding]
        scores = self.w(mt.tanh(self.W_1(words) + self.W_2(state)))  # (n, 1)
        return (F.softmax(scores, 0) * words).sum(0)


class DecoderWithEinsum(AttentionDecoder.reference):
    def forward(self, inputs, memory, padding, state):
        results, keys = [], mt.einsum("bnh,rh->bnr", memory, self.W_1.weight)
        for t in range(inputs.shape[1]):
            x = self.embedding(inputs[:, t])
            hidden = (keys + (state @ self.W_2.weight.T)[:, None]).tanh()
            scores = (hidden * self.w.weight[0]).sum(-1)
            weights = mt.where(padding, mt.full_like(scores, -1e30), scores).softmax(1)
            o = mt.einsum("bn,bnh->bh", weights, memory)
            state = self.cell(mt.cat((x, o), 1), state)
            results.append(self.out(mt.cat((state, o, x), 1)).unsqueeze(1))
        return mt.cat(results, 1)


class FusedDecoder(AttentionDecoder.reference):
    """The weighted sum by the fused operation: scores as queries of unit vectors."""

    def forward(self, inputs, memory, padding, state):
        eye = mt.eye(memory.shape[1], dtype=memory.dtype).expand(len(memory), -1, -1)
        allowed, results = ~padding.unsqueeze(1), []
        for x in self.embedding(inputs).unbind(1):
            scores = self.w((self.W_1(memory) + self.W_2(state).unsqueeze(1)).tanh()).mT
            o = F.scaled_dot_product_attention(scores, eye, memory, attn_mask=allowed, scale=1.0)
            state = self.cell(mt.cat([x, o.squeeze(1)], dim=-1), state)
            results.append(self.out(mt.cat([state, o.squeeze(1), x], dim=-1)))
        return mt.stack(results, dim=1)


right = {
    "AttentionDecoder": [DecoderWithOneOutput, DecoderWithEinsum],
}
refused = {
    "AttentionDecoder": [FusedDecoder],
}
