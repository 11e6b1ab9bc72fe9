"""The decoder: blocks between the embedding and the scores."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Embedded, Layer, cuts_off, real_mask, with_axes
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _decoder_cases(draw, hidden):
    """Sizes (vocabulary, width, layers), tokens (B, T), memory (B, n, width), real (B, n)."""
    public = [((6, 4, 1), 1, 3, 4), ((7, 4, 2), 3, 4, 5)]
    others = [((6, 5, 1), 3, 3, 5), ((5, 4, 2), 2, 4, 3)]
    for size, batch, steps, n in others if hidden else public:
        yield (
            size,
            draw.integers(size[0], batch, steps),
            draw.normal(batch, n, size[1]),
            real_mask(draw, batch, n),
        )


def decoder_of(answer, vocabulary, width, layers):
    """A decoder with the parts that the check hands in."""
    embed = Embedded(vocabulary, width)
    return answer(embed, lambda: Layer(width), layers, nn.LayerNorm(width))


def _reference_decoder(*sizes):
    return decoder_of(_Decoder, *sizes)


def _run_decoder(answer, sizes, tokens, memory, real):
    return results_of(
        decoder_of(answer, *sizes),
        drawn(_reference_decoder, *sizes),
        {"memory": memory},
        lambda decoder: {
            "the tensor of scores": decoder(tokens, memory, real),
            "the tensor of scores of a second call, for fewer tokens and no padding": decoder(
                tokens[:, 1:], memory, mt.ones_like(real)
            ),
        },
    )


def _sees_no_future(answer, sizes, tokens, memory, real):
    decoder = loaded(decoder_of(answer, *sizes), drawn(_reference_decoder, *sizes))
    others = tokens.clone()
    others[:, -1] = (tokens[:, -1] + 1) % sizes[0]
    before, after = decoder(tokens, memory, real), decoder(others, memory, real)
    if not mt.allclose(before[:, :-1], after[:, :-1], equal_nan=True):
        return "Another last token must not change any score before it."
    return None


def _right_without_zeros(check, answer, sizes, tokens, memory, real):
    others = tokens.masked_fill(tokens == 0, 1)
    found, right = (
        _run_decoder(each, sizes, others, memory.clone(), real)
        for each in (answer, check.reference)
    )
    if (tokens == 0).any() and not difference(found, right, ""):
        return (
            "For a target without tokens of number 0 it is right. 0 is a word like others: the "
            "target needs no mask but the causal one."
        )
    return None


@exercise(
    cases=_decoder_cases,
    run=_run_decoder,
    properties=(_sees_no_future,),
    reasons=(
        _right_without_zeros,
        cuts_off(
            lambda answer, sizes, tokens, memory, real: (
                decoder_of(answer, *sizes)(tokens, memory, real),
                tokens,
            )
        ),
    ),
    gradients=False,
    see='chapter 10, "One page"',
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


_Decoder = Decoder.reference


class DecoderInPieces(_Decoder):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = block(x, causal, memory, self.seen(real))
        return self.scores(x)

    def causal(self, length):
        return mt.ones(length, length).tril().bool()

    def seen(self, real):
        return with_axes(real)

    def scores(self, x):
        return self.embed.scores(self.norm(x))


@Decoder.wrong(
    "right but for the causal mask, which is missing",
    "In training the whole target is there at once: without the mask each position reads the word "
    "that it should predict.",
)
class _(DecoderInPieces):
    def causal(self, length):
        return None


@Decoder.wrong(
    "right but for the causal mask, which is transposed: it looks at the future",
    "Row i belongs to query i, which may look at keys 0 to i: tril and not triu.",
)
class _(DecoderInPieces):
    def causal(self, length):
        return super().causal(length).T


@Decoder.wrong(
    "right but for the causal mask: a token does not look at itself",
    "Token t may look at itself, too: the diagonal is True, tril() and not tril(-1). The first "
    "token would have nothing to look at.",
)
class _(DecoderInPieces):
    def causal(self, length):
        return mt.ones(length, length).tril(-1).bool()


@Decoder.wrong(
    "right but for the two masks, which are exchanged",
    "block(x, allowed, memory, memory_allowed): the causal mask comes first.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = block(x, self.seen(real), memory, causal)
        return self.scores(x)


@Decoder.wrong(
    "right but for the mask of the memory, whose shape is (B, n)",
    "It meets scores (B, heads, T, n): make it (B, 1, 1, n).",
)
class _(DecoderInPieces):
    def seen(self, real):
        return real


@Decoder.wrong(
    "right but for the mask of the memory, whose shape is (B, 1, n)",
    "It meets scores (B, heads, T, n): without an axis for the heads, broadcasting takes the "
    "sequences for heads. Make it (B, 1, 1, n).",
)
class _(DecoderInPieces):
    def seen(self, real):
        return real.unsqueeze(1)


@Decoder.wrong(
    "right but for the causal mask, which means the opposite",
    "True means in this book: may be looked at.",
)
class _(DecoderInPieces):
    def causal(self, length):
        return ~super().causal(length)


@Decoder.wrong(
    "right but for the mask of the memory, which is missing",
    "Hand real to every block, as (B, 1, 1, n): else the source's padding is read.",
)
class _(DecoderInPieces):
    def seen(self, real):
        return None


@Decoder.wrong(
    "right but for the mask of the memory, which is the wrong way round",
    "True means in this book: may be looked at. real is True at tokens already.",
)
class _(DecoderInPieces):
    def seen(self, real):
        return ~with_axes(real)


@Decoder.wrong(
    "right but for the norm at the end, which is missing",
    "After the last block comes self.norm, then the scores.",
)
class _(DecoderInPieces):
    def scores(self, x):
        return self.embed.scores(x)


@Decoder.wrong(
    "right but for the end: it returns what the last block gives, after the norm",
    "Scores come from the embedding's matrix: self.embed.scores(...).",
)
class _(DecoderInPieces):
    def scores(self, x):
        return self.norm(x)


@Decoder.wrong(
    "right but for a softmax at the end",
    "Return scores: the loss takes the softmax itself.",
)
class _(DecoderInPieces):
    def scores(self, x):
        return super().scores(x).softmax(dim=-1)


@Decoder.wrong(
    "right but for the memory, which grows: each block reads what the block before has written",
    "All blocks read the same memory, the encoder's output.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        x, causal, seen = self.embed(tokens), self.causal(tokens.shape[1]), self.seen(real)
        for i, block in enumerate(self.blocks):
            x = block(x, causal, x if i else memory, None if i else seen)
        return self.scores(x)


@Decoder.wrong(
    "right for one layer: it returns after the first block",
    "The return belongs after the loop.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        x = self.embed(tokens)
        x = self.blocks[0](x, self.causal(tokens.shape[1]), memory, self.seen(real))
        return self.scores(x)


@Decoder.wrong(
    "right but for the input of the blocks: each gets the embedded tokens, and only the last one "
    "counts",
    "Each block gets what the block before it has given: x = block(x, ...).",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        embedded, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = block(embedded, causal, memory, self.seen(real))
        return self.scores(x)


@Decoder.wrong(
    "right but for the norm, which comes after every block and once more at the end",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _NormAfterEvery(DecoderInPieces):
    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = self.norm(block(x, causal, memory, self.seen(real)))
        return self.scores(x)


@Decoder.wrong(
    "right but for the norm, which comes after every block",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _(_NormAfterEvery):
    def scores(self, x):
        return self.embed.scores(x)


@Decoder.wrong(
    "right but for the causal mask, which is one place too wide: each token sees the next one",
    "Token t may look at itself and those before it: tril() and not tril(1).",
)
class _(DecoderInPieces):
    def causal(self, length):
        return mt.ones(length, length).tril(1).bool()


@Decoder.wrong(
    "right but for the mask of the memory, which is that of the first sentence for all",
    "Each sentence of the batch has its own: (B, 1, 1, n).",
)
class _(DecoderInPieces):
    def seen(self, real):
        return with_axes(real[:1])


@Decoder.wrong(
    "right but for the mask of the memory, which is causal, too",
    "The source is there as a whole before the first word is written: hide its padding alone.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        n = memory.shape[1]
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        before = mt.arange(n) <= mt.arange(tokens.shape[1]).unsqueeze(1)
        for block in self.blocks:
            x = block(x, causal, memory, self.seen(real) & before)
        return self.scores(x)


@Decoder.wrong(
    "right but for the memory, which goes through the decoder's norm first",
    "The memory is used as it comes: the encoder has a norm of its own.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        return super().forward(tokens, self.norm(memory), real)


@Decoder.wrong(
    "right but for a log_softmax at the end",
    "Return scores: the loss takes the logarithm of the softmax itself.",
)
class _(DecoderInPieces):
    def scores(self, x):
        return super().scores(x).log_softmax(dim=-1)


@Decoder.wrong(
    "right but for the target's tokens of number 0, which it hides as padding",
    "Which number is padding nobody says here, and padding at the end comes after all tokens: the "
    "causal mask hides it already.",
)
class _(DecoderInPieces):
    def forward(self, tokens, memory, real):
        self.said = with_axes(tokens != 0)
        return super().forward(tokens, memory, real)

    def causal(self, length):
        return super().causal(length) & self.said
