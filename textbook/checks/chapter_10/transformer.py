"""Encoder and decoder, joined."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Embedded, Layer, cuts_off, pair, real_mask, with_axes
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _joined_cases(draw, hidden):
    """Sizes (vocabulary, width), source (B, n) with padding at the end, target (B, T)."""
    public = [((6, 4), 1, 4, 3, 0), ((7, 4), 3, 3, 4, 1)]
    others = [((6, 5), 2, 5, 3, 1), ((8, 4), 3, 4, 5, 0)]
    for size, batch, n, steps, padding in others if hidden else public:
        source = (padding + 1 + draw.integers(size[0] - 1, batch, n)) % size[0]
        source = source.masked_fill(~real_mask(draw, batch, n), padding)
        source[:, 0] = padding - 1 if padding else 1  # 0 where the padding is 1
        yield size, source, draw.integers(size[0], batch, steps), padding


class _Encoder(nn.Module):
    """An encoder of one layer, as little as shows how it is called."""

    def __init__(self, width):
        super().__init__()
        self.layer = Layer(width)

    def forward(self, x, real):
        """x (B, n, width), real (B, n) give (B, n, width)."""
        return self.layer(x, with_axes(real))


class _Decoder(nn.Module):
    """A decoder of one layer."""

    def __init__(self, embed, width):
        super().__init__()
        self.embed, self.layer = embed, Layer(width)

    def forward(self, tokens, memory, real):
        """tokens (B, T), memory (B, n, width), real (B, n) give scores (B, T, V)."""
        x = self.layer(self.embed(tokens), None, memory, with_axes(real))
        return self.embed.scores(x)


def transformer_of(answer, vocabulary, width, padding):
    """A Transformer with the parts that the check hands in."""
    embed = Embedded(vocabulary, width)
    return answer(embed, _Encoder(width), _Decoder(embed, width), padding)


def _reference_transformer(*sizes):
    return transformer_of(_Transformer, *sizes)


def _run_transformer(answer, sizes, source, target, padding):
    def call(model):
        memory, real = pair(model.encode(source), "the memory and real")
        return {
            "the memory": memory,
            "the tensor real": real,
            "the tensor of scores": model(source, target),
            "the tensor of scores for a shorter source": model(source[:, :-1], target),
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
    before, after = (model(each, target) for each in (source, longer))
    if not mt.allclose(before, after, equal_nan=True):
        return "More padding behind the source must not change the scores."
    return None


def _pair_turned_round(check, answer, sizes, source, target, padding):
    first, _ = transformer_of(answer, *sizes, padding).encode(source)
    if first.dtype == mt.bool:
        return "The pair of encode is the other way round: first the memory, then real."
    return None


@exercise(
    cases=_joined_cases,
    run=_run_transformer,
    properties=(_more_padding_changes_nothing,),
    reasons=(
        _pair_turned_round,
        cuts_off(
            lambda answer, sizes, source, target, padding: (
                transformer_of(answer, *sizes, padding)(source, target),
                target,
            )
        ),
    ),
    gradients=False,
    see='chapter 10, "One page"',
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


_Transformer = Transformer.reference


@Transformer.wrong(
    "right but for real, which is True at the padding",
    "real is True at the tokens: source != self.padding.",
)
class _(_Transformer):
    def encode(self, source):
        real = source == self.padding
        return self.encoder(self.embed(source), real), real


@Transformer.wrong(
    "right but for real, which is True everywhere",
    "real is True at the tokens alone: source != self.padding.",
)
class _(_Transformer):
    def encode(self, source):
        real = mt.ones_like(source).bool()
        return self.encoder(self.embed(source), real), real


@Transformer.wrong(
    "right but for real, which takes 0 for the padding",
    "The padding's number is self.padding.",
)
class _(_Transformer):
    def encode(self, source):
        real = source != 0
        return self.encoder(self.embed(source), real), real


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
        return self.embed(source), source != self.padding


@Transformer.wrong(
    "a decoder of the source: source and target are exchanged",
    "The encoder reads the source, the decoder the target.",
)
class _(_Transformer):
    def forward(self, source, target):
        return self.decoder(source, *self.encode(target))


@Transformer.wrong(
    "a model of the target alone: the source is not read",
    "The encoder reads the source, the decoder the target.",
)
class _(_Transformer):
    def forward(self, source, target):
        return self.decoder(target, *self.encode(target))


@Transformer.wrong(
    "right but for what the decoder hides of the memory: it gets real of the target",
    "The memory has a place for each token of the source: the decoder gets real of the source.",
)
class _(_Transformer):
    def forward(self, source, target):
        memory, _ = self.encode(source)
        return self.decoder(target, memory, target != self.padding)


@Transformer.wrong(
    "right but for a softmax at the end",
    "Return the decoder's scores: the loss takes the softmax itself.",
)
class _(_Transformer):
    def forward(self, source, target):
        return super().forward(source, target).softmax(dim=-1)


@Transformer.wrong(
    "right but for the scores, for which the first source is kept",
    "Each call has a source of its own: encode it.",
)
class _(_Transformer):
    def forward(self, source, target):
        if not hasattr(self, "kept"):
            self.kept = self.encode(source)
        return self.decoder(target, *self.kept)


@Transformer.wrong(
    "right but for the embedded source, which is multiplied by the root of the width",
    "self.embed gives what the encoder reads, with positions: nothing is left to do.",
)
class _(_Transformer):
    def encode(self, source):
        x, real = self.embed(source), source != self.padding
        return self.encoder(x * x.shape[-1] ** 0.5, real), real


@Transformer.wrong(
    "right but for the memory, which is set to 0 at the padding",
    "Nobody asks for that: real says what must not be looked at.",
)
class _(_Transformer):
    def encode(self, source):
        memory, real = super().encode(source)
        return memory.masked_fill(~real.unsqueeze(-1), 0.0), real


@Transformer.wrong(
    "right but for the encoder, which takes all places for tokens",
    "It gets real, too: self.encoder(x, real).",
)
class _(_Transformer):
    def encode(self, source):
        return self.encoder(self.embed(source), mt.ones_like(source).bool()), super().encode(
            source
        )[1]


@Transformer.wrong(
    "right but for the gradient, which ends at the memory: it is detached",
    "The encoder learns through the memory: hand it on as it is.",
)
class _(_Transformer):
    def forward(self, source, target):
        memory, real = self.encode(source)
        return self.decoder(target, memory.detach(), real)


@Transformer.wrong(
    "right but for real, which has axes for heads and queries already",
    "real is (B, n); encoder and decoder make a mask of it.",
)
class _(_Transformer):
    def encode(self, source):
        real = (source != self.padding).unsqueeze(1).unsqueeze(1)
        return self.encoder(self.embed(source), real), real


@Transformer.wrong(
    "right but for the pair of encode, which is the wrong way round",
    "First the memory, then real.",
)
class _(_Transformer):
    def encode(self, source):
        return super().encode(source)[::-1]
