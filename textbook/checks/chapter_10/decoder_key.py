"""Answers to the exercises of ``decoder.py``."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.decoder import Decoder, _decoder_cases


@Decoder.answer(
    hidden_cases=lambda draw: _decoder_cases(
        draw, others=[((6, 5, 1), 3, 3, 5), ((5, 4, 2), 2, 4, 3)]
    )
)
class Decoder(nn.Module):
    """A stack of causal blocks with cross-attention, between embedding and scores."""

    def __init__(self, embed, make_block, layers, norm):
        super().__init__()
        self.embed = embed
        self.blocks = nn.ModuleList([make_block() for _ in range(layers)])
        self.norm = norm

    def forward(self, tokens, memory, real):
        """tokens (B, T), memory (B, n, width), real (B, n) give scores (B, T, V)."""
        length = tokens.shape[1]
        causal = mt.ones(length, length, dtype=mt.bool).tril()
        memory_allowed = real.unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, causal, memory, memory_allowed)
        return self.embed.scores(self.norm(x))


# Right in another way


class DecoderWithPositions(Decoder.reference):
    def forward(self, tokens, memory, real):
        places = mt.arange(tokens.shape[1])
        causal = places <= places.unsqueeze(1)
        output = self.embed(tokens)
        for block in self.blocks:
            output = block(
                output, allowed=causal, memory=memory, memory_allowed=real[:, None, None]
            )
        return self.norm(output) @ self.embed.weight.T


class DecoderPrefixByPrefix(Decoder.reference):
    """What the mask replaces: a pass over each prefix, of which the last position counts."""

    def forward(self, tokens, memory, real):
        scores = []
        for end in range(1, tokens.shape[1] + 1):
            x, causal = self.embed(tokens[:, :end]), mt.ones(end, end).tril().bool()
            for block in self.blocks:
                x = block(x, causal, memory, real.unsqueeze(1).unsqueeze(2))
            scores.append(self.embed.scores(self.norm(x))[:, -1])
        return mt.stack(scores, dim=1)


right = {
    "Decoder": [DecoderWithPositions, DecoderPrefixByPrefix],
}
