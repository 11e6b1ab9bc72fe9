"""Encoder and decoder, joined."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Embedded, Layer, cuts_off, pair, real_mask, with_axes
from textbook.checks.modules import drawn, loaded, results_of
from textbook.checks.released import exercise


def _joined_cases(draw, others=()):
    """Sizes (vocabulary, width), source (B, n) with padding at the end, target (B, T)."""
    public = [((6, 4), 1, 4, 3, 0), ((7, 4), 3, 3, 4, 1)]
    for size, batch, n, steps, padding in others or public:
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
    return transformer_of(Transformer.reference, *sizes)


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


Transformer = exercise(
    "Transformer",
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
