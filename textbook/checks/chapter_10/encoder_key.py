"""Answers to the exercises of ``encoder.py``."""

from minitorch import nn
from textbook.checks.chapter_10.encoder import Encoder, _encoder_cases


@Encoder.answer(
    hidden_cases=lambda draw: _encoder_cases(draw, others=[((5, 2), 3, 3), ((4, 3), 2, 5)])
)
class Encoder(nn.Module):
    """A stack of blocks that look in both directions."""

    def __init__(self, make_block, layers, norm):
        super().__init__()
        self.blocks = nn.ModuleList([make_block() for _ in range(layers)])
        self.norm = norm

    def forward(self, x, real):
        """x (B, n, width), real (B, n): True at tokens. Gives (B, n, width)."""
        allowed = real.unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)


# Right in another way


class EncoderByAppending(Encoder.reference):
    def __init__(self, make_block, layers, norm):
        nn.Module.__init__(self)
        self.blocks = nn.ModuleList()
        while len(self.blocks) < layers:
            self.blocks.append(make_block())
        self.norm = norm

    def forward(self, x, real):
        batch, n = real.shape
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, allowed=real.reshape(batch, 1, 1, n))
        return self.norm(x)


class EncoderWithAFullMask(Encoder.reference):
    """The norm comes first; the mask is written out for every query."""

    def __init__(self, make_block, layers, norm):
        nn.Module.__init__(self)
        self.norm = norm
        self.blocks = nn.ModuleList(make_block() for _ in range(layers))

    def forward(self, x, real):
        n = real.shape[1]
        allowed = real[:, None, None, :].expand(-1, 1, n, n)
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)


right = {
    "Encoder": [EncoderByAppending, EncoderWithAFullMask],
}
