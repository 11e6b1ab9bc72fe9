"""More usual mistakes of the block: parts that are left out, or read what they should not."""

from textbook.checks.chapter_10.block import Block, BlockInPieces


def _before_the_attention(self, x, allowed):
    self.before = x
    return BlockInPieces.look(self, x, allowed)


for name, hint, methods in (
    (
        "right but for the residual connection around the network, which is missing",
        "Every part is added to x, the last one, too.",
        {"think": lambda self, x: self.dropout(self.feed_forward(self.feed_forward_norm(x)))},
    ),
    (
        "right but for the cross-attention, which gets x as it was before the attention",
        "The cross-attention asks with what the attention has made of x.",
        {
            "look": _before_the_attention,
            "read": lambda self, x, memory, seen, own: self.add(
                x, self.cross(self.cross_norm(self.before), memory, seen)
            ),
        },
    ),
    (
        "right for the encoder; in the decoder the attention to itself is left out",
        "A block of the decoder has both: first x looks at itself, then at the memory.",
        {
            "look": lambda self, x, allowed: (
                x if self.cross is not None else BlockInPieces.look(self, x, allowed)
            )
        },
    ),
):
    Block.wrong(name, hint)(type("Block", (BlockInPieces,), methods))
