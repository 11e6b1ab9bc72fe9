"""Encoder and decoder: blocks one after the other, and what stands before and after them."""

import minitorch as mt
from minitorch import nn
from minitorch.checks.chapter_10.modules import Layer, drawn, loaded, pair, results_of
from minitorch.checks.chapter_10.weights import TiedEmbedding
from minitorch.checks.exercise import exercise


def real_mask(draw, batch, n):
    """(B, n): the first sequence is whole, each of the others has a token and padding."""
    lengths = mt.cat([mt.tensor([n]), 1 + draw.integers(n - 1, batch - 1)])
    return mt.arange(n) < lengths.unsqueeze(1)


def with_axes(real):
    """(B, n) -> (B, 1, 1, n)."""
    return real.unsqueeze(1).unsqueeze(1)


# The encoder


def _encoder_cases(draw, hidden):
    """Sizes (width, layers), x (B, n, width), real (B, n)."""
    public = [((3, 1), 1, 2), ((3, 2), 2, 3)]
    for sizes, batch, n in [((3, 2), 3, 3), ((4, 3), 2, 4)] if hidden else public:
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
        lambda encoder: {"the output": encoder(x, real)},
    )


def _sees_no_padding(answer, sizes, x, real):
    encoder = loaded(encoder_of(answer, *sizes), drawn(_reference_encoder, *sizes))
    others = mt.where(real.unsqueeze(-1), x, -2 * x)
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
    """x (B, n, width), real (B, n) -> (B, n, width)."""

    def __init__(self, make_block, layers, norm):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(self.made(make_block, layers)), norm

    def made(self, make_block, layers):
        return [make_block() for _ in range(layers)]

    def forward(self, x, real):
        for block in self.blocks:
            x = block(x, self.mask(real))
        return self.end(x)

    def mask(self, real):
        return with_axes(real)

    def end(self, x):
        return self.norm(x)


_Encoder = Encoder.reference


@Encoder.wrong(
    "one block that is used again and again: all layers share their weights",
    "[make_block()] * layers is a list with one block several times. Call make_block once for each "
    "layer.",
)
class _(_Encoder):
    def made(self, make_block, layers):
        return [make_block()] * layers


@Encoder.wrong(
    "right but for the blocks, which stand in a plain list",
    "A module finds the parameters of modules in an nn.ModuleList, and not those in a list: they "
    "would never be trained.",
)
class _(_Encoder):
    def __init__(self, make_block, layers, norm):
        super().__init__(make_block, layers, norm)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@Encoder.wrong(
    "an encoder with one block too many",
    "There are as many blocks as layers says.",
)
class _(_Encoder):
    def made(self, make_block, layers):
        return super().made(make_block, layers + 1)


@Encoder.wrong(
    "without mask and without norm",
    "Hand real to every block, as (B, 1, 1, n), and end with self.norm.",
)
class _(_Encoder):
    def mask(self, real):
        return None

    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the norm at the end, which is missing",
    "The output of the last pre-norm block is a sum that grows with every layer: self.norm brings "
    "it back.",
)
class _(_Encoder):
    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the norm, which comes after every block",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _(_Encoder):
    def forward(self, x, real):
        for block in self.blocks:
            x = self.norm(block(x, self.mask(real)))
        return x


@Encoder.wrong(
    "right but for the norm, which stands before the blocks",
    "One norm, after the last block.",
)
class _(_Encoder):
    def forward(self, x, real):
        return super().forward(self.norm(x), real)

    def end(self, x):
        return x


@Encoder.wrong(
    "right but for the input of the blocks: each gets x, and only the last one counts",
    "Each block gets what the block before it has given: x = block(x, ...).",
)
class _(_Encoder):
    def forward(self, x, real):
        for block in self.blocks:
            output = block(x, self.mask(real))
        return self.end(output)


@Encoder.wrong(
    "right for one layer: it returns after the first block",
    "The return belongs after the loop.",
)
class _(_Encoder):
    def forward(self, x, real):
        return self.end(self.blocks[0](x, self.mask(real)))


@Encoder.wrong(
    "right but for the mask, which is missing",
    "real says where the tokens are: hand it to every block, as (B, 1, 1, n).",
)
class _(_Encoder):
    def mask(self, real):
        return None


@Encoder.wrong(
    "right but for the mask, which is the wrong way round",
    "True means in this book: may be looked at. real is True at tokens already.",
)
class _(_Encoder):
    def mask(self, real):
        return ~with_axes(real)


@Encoder.wrong(
    "right but for the mask, which hides queries and not keys",
    "The last axis of the scores belongs to the keys: (B, 1, 1, n).",
)
class _(_Encoder):
    def mask(self, real):
        return real.unsqueeze(1).unsqueeze(-1)


for axes, mask in (
    ("(B, n)", lambda real: real),
    ("(B, 1, n)", lambda real: real.unsqueeze(1)),
    ("(B, n, n)", lambda real: real.unsqueeze(1) & real.unsqueeze(2)),
):

    @Encoder.wrong(
        f"right but for the mask, whose shape is {axes}",
        "It meets scores (B, heads, n, n): without an axis for the heads, broadcasting takes the "
        "sequences for heads. Make it (B, 1, 1, n).",
    )
    class _(_Encoder):
        made_mask = staticmethod(mask)

        def mask(self, real):
            return self.made_mask(real)


@Encoder.wrong(
    "right but for the mask, which is causal, too",
    "An encoder looks in both directions. Only padding is hidden.",
)
class _(_Encoder):
    def mask(self, real):
        return with_axes(real) & mt.ones(real.shape[1], real.shape[1]).tril().bool()


@Encoder.wrong(
    "right but for the mask, which only the first block gets",
    "Padding is padding in every layer.",
)
class _(_Encoder):
    def forward(self, x, real):
        for i, block in enumerate(self.blocks):
            x = block(x, None if i else self.mask(real))
        return self.end(x)


# The decoder


def _decoder_cases(draw, hidden):
    """Sizes (vocabulary, width, layers), tokens (B, T), memory (B, n, width), real (B, n)."""
    public = [((4, 3, 1), 1, 2, 3), ((5, 3, 2), 2, 3, 3)]
    others = [((5, 3, 1), 2, 3, 4), ((4, 5, 2), 2, 3, 2)]
    for size, batch, steps, n in others if hidden else public:
        yield (
            size,
            draw.integers(size[0], batch, steps),
            draw.normal(batch, n, size[1]),
            real_mask(draw, batch, n),
        )


def decoder_of(answer, vocabulary, width, layers):
    """A decoder with the parts that the check hands in."""
    embed = TiedEmbedding.reference(vocabulary, width)
    return answer(embed, lambda: Layer(width), layers, nn.LayerNorm(width))


def _reference_decoder(*sizes):
    return decoder_of(_Decoder, *sizes)


def _run_decoder(answer, sizes, tokens, memory, real):
    return results_of(
        decoder_of(answer, *sizes),
        drawn(_reference_decoder, *sizes),
        {"memory": memory},
        lambda decoder: {"the tensor of scores": decoder(tokens, memory, real)},
    )


def _sees_no_future(answer, sizes, tokens, memory, real):
    decoder = loaded(decoder_of(answer, *sizes), drawn(_reference_decoder, *sizes))
    others = tokens.clone()
    others[:, -1] = (tokens[:, -1] + 1) % sizes[0]
    before, after = decoder(tokens, memory, real), decoder(others, memory, real)
    if not mt.allclose(before[:, :-1], after[:, :-1]):
        return "Another last token must not change any score before it."
    return None


@exercise(
    cases=_decoder_cases,
    run=_run_decoder,
    properties=(_sees_no_future,),
    gradients=False,
    see='chapter 10, "One page"',
)
class Decoder(nn.Module):
    """tokens (B, T), memory (B, n, width), real (B, n) -> scores (B, T, V)."""

    def __init__(self, embed, make_block, layers, norm):
        super().__init__()
        self.embed = embed
        self.blocks = nn.ModuleList([make_block() for _ in range(layers)])
        self.norm = norm

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


_Decoder = Decoder.reference


@Decoder.wrong(
    "right but for the causal mask, which is missing",
    "In training the whole target is there at once: without the mask each position reads the word "
    "that it should predict.",
)
class _(_Decoder):
    def causal(self, length):
        return None


@Decoder.wrong(
    "right but for the causal mask, which is transposed: it looks at the future",
    "Row i belongs to query i, which may look at keys 0 to i: tril and not triu.",
)
class _(_Decoder):
    def causal(self, length):
        return super().causal(length).T


@Decoder.wrong(
    "right but for the causal mask: a token does not look at itself",
    "Token t may look at itself, too: the diagonal is True, tril() and not tril(-1). The first "
    "token would have nothing to look at.",
)
class _(_Decoder):
    def causal(self, length):
        return mt.ones(length, length).tril(-1).bool()


@Decoder.wrong(
    "right but for the two masks, which are exchanged",
    "block(x, allowed, memory, memory_allowed): the causal mask comes first.",
)
class _(_Decoder):
    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = block(x, self.seen(real), memory, causal)
        return self.scores(x)


@Decoder.wrong(
    "right but for the mask of the memory, whose shape is (B, n)",
    "It meets scores (B, heads, T, n): make it (B, 1, 1, n).",
)
class _(_Decoder):
    def seen(self, real):
        return real


@Decoder.wrong(
    "right but for the causal mask, which means the opposite",
    "True means in this book: may be looked at.",
)
class _(_Decoder):
    def causal(self, length):
        return ~super().causal(length)


@Decoder.wrong(
    "right but for the mask of the memory, which is missing",
    "Hand real to every block, as (B, 1, 1, n): else the source's padding is read.",
)
class _(_Decoder):
    def seen(self, real):
        return None


@Decoder.wrong(
    "right but for the mask of the memory, which is the wrong way round",
    "True means in this book: may be looked at. real is True at tokens already.",
)
class _(_Decoder):
    def seen(self, real):
        return ~with_axes(real)


@Decoder.wrong(
    "right but for the norm at the end, which is missing",
    "After the last block comes self.norm, then the scores.",
)
class _(_Decoder):
    def scores(self, x):
        return self.embed.scores(x)


@Decoder.wrong(
    "right but for the end: it returns what the last block gives, after the norm",
    "Scores come from the embedding's matrix: self.embed.scores(...).",
)
class _(_Decoder):
    def scores(self, x):
        return self.norm(x)


@Decoder.wrong(
    "right but for a softmax at the end",
    "Return scores: the loss takes the softmax itself.",
)
class _(_Decoder):
    def scores(self, x):
        return super().scores(x).softmax(dim=-1)


@Decoder.wrong(
    "right but for the memory, which grows: each block reads what the block before has written",
    "All blocks read the same memory, the encoder's output.",
)
class _(_Decoder):
    def forward(self, tokens, memory, real):
        x, causal, seen = self.embed(tokens), self.causal(tokens.shape[1]), self.seen(real)
        for i, block in enumerate(self.blocks):
            x = block(x, causal, x if i else memory, None if i else seen)
        return self.scores(x)


@Decoder.wrong(
    "right for one layer: it returns after the first block",
    "The return belongs after the loop.",
)
class _(_Decoder):
    def forward(self, tokens, memory, real):
        x = self.embed(tokens)
        x = self.blocks[0](x, self.causal(tokens.shape[1]), memory, self.seen(real))
        return self.scores(x)


@Decoder.wrong(
    "right but for the input of the blocks: each gets the embedded tokens, and only the last one "
    "counts",
    "Each block gets what the block before it has given: x = block(x, ...).",
)
class _(_Decoder):
    def forward(self, tokens, memory, real):
        embedded, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = block(embedded, causal, memory, self.seen(real))
        return self.scores(x)


@Decoder.wrong(
    "right but for the norm, which comes after every block",
    "One norm, after the last block: the blocks have norms of their own.",
)
class _(_Decoder):
    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), self.causal(tokens.shape[1])
        for block in self.blocks:
            x = self.norm(block(x, causal, memory, self.seen(real)))
        return self.embed.scores(x)


# Both, joined


def _joined_cases(draw, hidden):
    """Sizes (vocabulary, width, layers), source (B, n) with padding at the end, target (B, T)."""
    public = [((4, 3, 1), 1, 3, 2, 0), ((5, 3, 1), 2, 2, 3, 1)]
    others = [((4, 4, 1), 2, 4, 3, 1), ((6, 3, 2), 2, 3, 5, 0)]
    for size, batch, n, steps, padding in others if hidden else public:
        source = (padding + 1 + draw.integers(size[0] - 1, batch, n)) % size[0]
        source = source.masked_fill(~real_mask(draw, batch, n), padding)
        source[:, 0] = padding - 1 if padding else 1  # 0 where the padding is 1
        yield size, source, draw.integers(size[0], batch, steps), padding


def transformer_of(answer, vocabulary, width, layers, padding):
    """A Transformer with the parts that the check hands in."""
    decoder = decoder_of(_Decoder, vocabulary, width, layers)
    return answer(decoder.embed, encoder_of(_Encoder, width, layers), decoder, padding)


def _reference_transformer(*sizes):
    return transformer_of(_Transformer, *sizes)


def _run_transformer(answer, sizes, source, target, padding):
    def call(model):
        memory, real = pair(model.encode(source), "the memory and real")
        return {
            "the memory": memory,
            "the tensor real": real,
            "the tensor of scores": model(source, target),
        }

    sizes = (*sizes, padding)
    weights = drawn(_reference_transformer, *sizes)
    return results_of(transformer_of(answer, *sizes), weights, {}, call)


def _more_padding_changes_nothing(answer, sizes, source, target, padding):
    if (source != padding).all():
        return None
    sizes = (*sizes, padding)
    model = loaded(transformer_of(answer, *sizes), drawn(_reference_transformer, *sizes))
    longer = mt.cat([source, mt.full_like(source, padding)], dim=1)
    if not mt.allclose(model(source, target), model(longer, target)):
        return "More padding behind the source must not change the scores."
    return None


@exercise(
    cases=_joined_cases,
    run=_run_transformer,
    properties=(_more_padding_changes_nothing,),
    gradients=False,
    see='chapter 10, "One page"',
)
class Transformer(nn.Module):
    """source (B, n), target (B, T) -> scores (B, T, V)."""

    def __init__(self, embed, encoder, decoder, padding):
        super().__init__()
        self.embed, self.encoder, self.decoder = embed, encoder, decoder
        self.padding = padding

    def encode(self, source):
        real = self.real(source)
        return self.encoder(self.embed(source), real), real

    def real(self, source):
        return source != self.padding

    def forward(self, source, target):
        return self.decoder(target, *self.encode(source))


_Transformer = Transformer.reference


@Transformer.wrong(
    "right but for real, which is True at the padding",
    "real is True at the tokens: source != self.padding.",
)
class _(_Transformer):
    def real(self, source):
        return source == self.padding


@Transformer.wrong(
    "right but for real, which is True everywhere",
    "real is True at the tokens alone: source != self.padding.",
)
class _(_Transformer):
    def real(self, source):
        return mt.ones_like(source).bool()


@Transformer.wrong(
    "right but for real, which takes 0 for the padding",
    "The padding's number is self.padding.",
)
class _(_Transformer):
    def real(self, source):
        return source != 0


@Transformer.wrong(
    "right but for real, which the decoder gets turned round",
    "real is True at the tokens of the source, for encoder and decoder.",
)
class _(_Transformer):
    def forward(self, source, target):
        memory, real = self.encode(source)
        return self.decoder(target, memory, ~real)


@Transformer.wrong(
    "a decoder that reads the embedded source: the encoder is left out",
    "The memory is what the encoder gives.",
)
class _(_Transformer):
    def encode(self, source):
        return self.embed(source), self.real(source)


@Transformer.wrong(
    "a decoder of the source: source and target are exchanged",
    "The encoder reads the source, the decoder the target.",
)
class _(_Transformer):
    def forward(self, source, target):
        return self.decoder(source, *self.encode(target))


@Transformer.wrong(
    "right but for what the decoder hides of the memory: it gets real of the target",
    "The memory has a place for each token of the source: the decoder gets real of the source.",
)
class _(_Transformer):
    def forward(self, source, target):
        memory, _ = self.encode(source)
        return self.decoder(target, memory, self.real(target))


@Transformer.wrong(
    "right but for a softmax at the end",
    "Return the decoder's scores: the loss takes the softmax itself.",
)
class _(_Transformer):
    def forward(self, source, target):
        return super().forward(source, target).softmax(dim=-1)
