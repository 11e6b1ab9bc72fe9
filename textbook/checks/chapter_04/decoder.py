"""A decoder that looks before it steps."""

import minitorch as mt
from textbook.checks.modules import drawn, made, results_of, values
from textbook.checks.released import exercise


def _decoder_cases(draw, others=()):
    """Sizes (V, d, H_e, H, r), then a batch; the longest source is not the first."""
    sizes, counts, steps, n = others or ((6, 3, 4, 5, 3), [2, 4, 1], 3, 4)
    for filler in (1e6, None):
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        memory = draw.normal(len(counts), n, sizes[2])
        if filler:
            memory = memory.masked_fill(padding.unsqueeze(-1), filler)
        inputs = draw.integers(sizes[0], len(counts), steps)
        yield sizes, inputs, memory, padding, draw.normal(len(counts), sizes[3])
        counts = [n, *counts[1:]]


def _run(answer, sizes, inputs, memory, padding, state):
    return results_of(
        answer(*sizes),
        drawn(AttentionDecoder.reference, *sizes),
        {"memory": memory, "state": state},
        lambda decoder: {"the tensor of scores": decoder(inputs, memory, padding, state)},
    )


def _nothing_is_shared(answer, sizes, inputs, memory, padding, state):
    decoder, other = (made(AttentionDecoder.reference, answer, sizes) for _ in range(2))
    scores = values(decoder(inputs, memory, padding, state))
    early = values(decoder(inputs[:, :-1], memory, padding, state))
    if not mt.allclose(early, scores[:, :-1]):
        return "The scores of a step must not depend on what is read later."
    with mt.no_grad():
        for x in other.parameters():
            x *= 1.5
    values(other(inputs, memory, padding, state))
    if not mt.equal(values(decoder(inputs, memory, padding, state)), scores):
        return "After another decoder has run, this one gives other scores: they share something."
    return None


def _sentences_compete(check, answer, *case):
    """Whether a sentence has other scores alone than in its batch."""
    sizes, *batch = case
    decoder = made(AttentionDecoder.reference, answer, sizes)
    alone = values(decoder(*(x[:1] for x in batch)))
    if not mt.allclose(values(decoder(*batch))[:1], alone, equal_nan=True):
        return (
            "A sentence alone has other scores than in a batch. The words of one source compete: "
            "the softmax goes over the last axis."
        )
    return None


AttentionDecoder = exercise(
    "AttentionDecoder",
    cases=_decoder_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, tanh, softmax and a weighted sum",
    properties=(_nothing_is_shared,),
    reasons=(_sentences_compete,),
    gradients=False,
    see='chapter 04, "Comparing score functions, and feeding back"',
)
