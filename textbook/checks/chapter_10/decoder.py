"""The decoder: blocks between the embedding and the scores."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Embedded, Layer, cuts_off, real_mask
from textbook.checks.compare import difference
from textbook.checks.modules import drawn, loaded, results_of
from textbook.checks.released import exercise


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
    return decoder_of(Decoder.reference, *sizes)


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


Decoder = exercise(
    "Decoder",
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
