"""Answers to the exercises of ``transformer.py``."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.transformer import Transformer, _joined_cases


@Transformer.answer(
    hidden_cases=lambda draw: _joined_cases(
        draw, others=[((6, 5), 2, 5, 3, 1), ((8, 4), 3, 4, 5, 0)]
    )
)
class Transformer(nn.Module):
    """Encoder and decoder, joined."""

    def __init__(self, embed, encoder, decoder, padding):
        super().__init__()
        self.embed, self.encoder, self.decoder = embed, encoder, decoder
        self.padding = padding

    def encode(self, source):
        """source (B, n) gives the memory (B, n, width), and real (B, n)."""
        real = source != self.padding
        return self.encoder(self.embed(source), real), real

    def forward(self, source, target):
        """source (B, n), target (B, T) give scores (B, T, V)."""
        memory, real = self.encode(source)
        return self.decoder(target, memory, real)


# Right in another way


class TransformerSpelledOut(Transformer.reference):
    def encode(self, source):
        real = ~(source == self.padding)
        return [self.encoder(self.embed(source), real), real]

    def forward(self, source, target):
        memory, real = self.encode(source)
        return self.decoder(target, memory=memory, real=real)


class TransformerWithLengths(Transformer.reference):
    """The padding stands at the end."""

    def encode(self, source):
        lengths = source.ne(self.padding).sum(dim=1, keepdim=True)
        real = mt.arange(source.shape[1]) < lengths
        return self.encoder(real=real, x=self.embed(source)), real


right = {
    "Transformer": [TransformerSpelledOut, TransformerWithLengths],
}
