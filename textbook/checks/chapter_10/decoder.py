"""The decoder: blocks between the embedding and the scores."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Embedded, Layer, cuts_off, real_mask
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _decoder_cases(draw, others=()):
    """Sizes (vocabulary, width, layers), tokens (B, T), memory (B, n, width), real (B, n)."""
    public = [((6, 4, 1), 1, 3, 4), ((7, 4, 2), 3, 4, 5)]
    for size, batch, steps, n in others or public:
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
    hidden_cases=lambda draw: _decoder_cases(
        draw, others=[((6, 5, 1), 3, 3, 5), ((5, 4, 2), 2, 4, 3)]
    ),
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
