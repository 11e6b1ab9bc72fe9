"""The encoder: blocks one after the other, and the norm after them."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Layer, real_mask
from textbook.checks.modules import drawn, loaded, results_of
from textbook.checks.released import exercise


def _encoder_cases(draw, others=()):
    """Sizes (width, layers), x (B, n, width), real (B, n)."""
    public = [((4, 1), 1, 3), ((5, 2), 3, 4)]
    for sizes, batch, n in others or public:
        yield sizes, draw.normal(batch, n, sizes[0]), real_mask(draw, batch, n)


def encoder_of(answer, width, layers):
    """An encoder with the parts that the check hands in."""
    return answer(lambda: Layer(width), layers, nn.LayerNorm(width))


def _reference_encoder(*sizes):
    return encoder_of(Encoder.reference, *sizes)


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


Encoder = exercise(
    "Encoder",
    cases=_encoder_cases,
    run=_run_encoder,
    properties=(_sees_no_padding,),
    gradients=False,
    see='chapter 10, "One page"',
)
