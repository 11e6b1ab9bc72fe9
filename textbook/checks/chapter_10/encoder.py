"""The encoder: blocks one after the other, and the norm after them."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Layer, real_mask, with_axes
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _encoder_cases(draw, hidden):
    """Sizes (width, layers), x (B, n, width), real (B, n)."""
    public = [((4, 1), 1, 3), ((5, 2), 3, 4)]
    for sizes, batch, n in [((5, 2), 3, 3), ((4, 3), 2, 5)] if hidden else public:
        yield sizes, draw.normal(batch, n, sizes[0]), real_mask(draw, batch, n)


def encoder_of(answer, width, layers):
    """An encoder with the parts that the check hands in."""
    return answer(lambda: Layer(width), layers, nn.LayerNorm(width))


def _reference_encoder(*sizes):
    return encoder_of(_Encoder, *sizes)


def _run_encoder(answer, sizes, x, real):
    return results_of(
        encoder_of(answer, *sizes),
        drawn(_reference_encoder, *sizes),
        {"x": x},
        lambda encoder: {
            "the output": encoder(x, real),
            "the output of a second call, without padding": encoder(x, mt.ones_like(real)),
        },
    )


def _sees_no_padding(answer, sizes, x, real):
    encoder = loaded(encoder_of(answer, *sizes), drawn(_reference_encoder, *sizes))
    others = mt.where(real.unsqueeze(-1), x, 1e4 * x)
    if not mt.allclose(encoder(x, real)[real], encoder(others, real)[real]):
        return "What stands in the padding must not change the outputs at real tokens."
    return None


@exercise(
    cases=_encoder_cases,
    run=_run_encoder,
    properties=(_sees_no_padding,),
    gradients=False,
    see='chapter 10, "One page"',
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


_Encoder = Encoder.reference


class EncoderInPieces(_Encoder):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, real):
        for block in self.blocks:
            x = block(x, self.mask(real))
        return self.end(x)

    def mask(self, real):
        return with_axes(real)

    def end(self, x):
        return self.norm(x)


@Encoder.wrong(
    "one block that is used again and again: all layers share their weights",
    "[make_block()] * layers is a list with one block several times. Call make_block once for each "
    "layer.",
)
class _(EncoderInPieces):
    def __init__(self, make_block, layers, norm):
        block = make_block()
        super().__init__(lambda: block, layers, norm)


@Encoder.wrong(
    "right but for the blocks, which stand in a plain list",
    "A module finds the parameters of modules in an nn.ModuleList, and not those in a list: they "
    "would never be trained.",
)
class _(EncoderInPieces):
    def __init__(self, make_block, layers, norm):
        super().__init__(make_block, layers, norm)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@Encoder.wrong(
    "an encoder with one block too many",
    "There are as many blocks as layers says.",
)
class _(EncoderInPieces):
    def __init__(self, make_block, layers, norm):
        super().__init__(make_block, layers + 1, norm)


@Encoder.wrong(
    "without mask and without norm",
    "Hand real to every block, as (B, 1, 1, n), and end with self.norm.",
)
class _(EncoderInPieces):
    def mask(self, real):
        return None

    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the norm at the end, which is missing",
    "The output of the last pre-norm block is a sum that grows with every layer: self.norm brings "
    "it back.",
)
class _(EncoderInPieces):
    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the norm, which comes after every block",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for block in self.blocks:
            x = self.norm(block(x, self.mask(real)))
        return x


@Encoder.wrong(
    "right but for the norm, which stands before the blocks",
    "One norm, after the last block.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        return super().forward(self.norm(x), real)

    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the input of the blocks: each gets x, and only the last one counts",
    "Each block gets what the block before it has given: x = block(x, ...).",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for block in self.blocks:
            output = block(x, self.mask(real))
        return self.end(output)


@Encoder.wrong(
    "right for one layer: it returns after the first block",
    "The return belongs after the loop.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        return self.end(self.blocks[0](x, self.mask(real)))


@Encoder.wrong(
    "right but for the mask, which is missing",
    "real says where the tokens are: hand it to every block, as (B, 1, 1, n).",
)
class _(EncoderInPieces):
    def mask(self, real):
        return None


@Encoder.wrong(
    "right but for the mask, which is the wrong way round",
    "True means in this book: may be looked at. real is True at tokens already.",
)
class _(EncoderInPieces):
    def mask(self, real):
        return ~with_axes(real)


@Encoder.wrong(
    "right but for the mask, which hides queries",
    "A query with nothing to look at gives nan. The mask hides keys alone, and the last axis of "
    "the scores belongs to them: (B, 1, 1, n).",
)
class _(EncoderInPieces):
    def mask(self, real):
        return real.unsqueeze(1).unsqueeze(-1)


for axes, taken, mask in (
    ("(B, n)", "queries", lambda real: real),
    ("(B, 1, n)", "heads", lambda real: real.unsqueeze(1)),
    ("(B, n, n)", "heads", lambda real: real.unsqueeze(1) & real.unsqueeze(2)),
):

    @Encoder.wrong(
        f"right but for the mask, whose shape is {axes}",
        f"It meets scores (B, heads, n, n): broadcasting takes the sequences for {taken}. Make it "
        "(B, 1, 1, n).",
    )
    class _(EncoderInPieces):
        made_mask = staticmethod(mask)

        def mask(self, real):
            return self.made_mask(real)


@Encoder.wrong(
    "right but for the mask, which is causal, too",
    "An encoder looks in both directions. Only padding is hidden.",
)
class _(EncoderInPieces):
    def mask(self, real):
        return with_axes(real) & mt.ones(real.shape[1], real.shape[1]).tril().bool()


@Encoder.wrong(
    "right but for the mask, which is causal and does not know the padding",
    "An encoder looks in both directions. Only padding is hidden, and real says where it is.",
)
class _(EncoderInPieces):
    def mask(self, real):
        return mt.ones(real.shape[1], real.shape[1]).tril().bool()


@Encoder.wrong(
    "right but for the mask, which only the first block gets",
    "Padding is padding in every layer.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for i, block in enumerate(self.blocks):
            x = block(x, None if i else self.mask(real))
        return self.end(x)


@Encoder.wrong(
    "right but for the order: the last block comes first",
    "The blocks come in the order in which they were made.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for block in reversed(list(self.blocks)):
            x = block(x, self.mask(real))
        return self.end(x)


@Encoder.wrong(
    "right but for the mask, which is that of the first sentence for all",
    "Each sentence of the batch has its own: (B, 1, 1, n).",
)
class _(EncoderInPieces):
    def mask(self, real):
        return with_axes(real[:1])


@Encoder.wrong(
    "right but for residual connections around the blocks",
    "Blocks have residual connections of their own: x = block(x, allowed).",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for block in self.blocks:
            x = x + block(x, self.mask(real))
        return self.end(x)


@Encoder.wrong(
    "right but for the norm, which comes after every block and once more at the end",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        for block in self.blocks:
            x = self.norm(block(x, self.mask(real)))
        return self.norm(x)


@Encoder.wrong(
    "right, and then the outputs at the padding are set to 0",
    "Nobody asks for that: what stands there is masked wherever it is looked at.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        return super().forward(x, real).masked_fill(~real.unsqueeze(-1), 0.0)


@Encoder.wrong(
    "an encoder without a mask, in whose input padding is set to 0",
    "A vector of zeros has a score, and so a weight: hand the mask to every block.",
)
class _(EncoderInPieces):
    def forward(self, x, real):
        return super().forward(x.masked_fill(~real.unsqueeze(-1), 0.0), real)

    def mask(self, real):
        return None
