"""A translator that reads and writes."""

import minitorch as mt
from textbook.checks.modules import drawn, made, results_of, values
from textbook.checks.released import exercise


def _translator_cases(draw, others=()):
    """Sizes (V, V', d, H), then a batch; the longest source is neither the first nor as wide."""
    sizes, counts, steps = others or ((5, 6, 3, 4), [2, 4, 1], 3)
    for extra in (1, 0):
        n = max(counts) + extra
        source = draw.integers(sizes[0], len(counts), n)
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        yield sizes, source, padding, draw.integers(sizes[1], len(counts), steps)
        counts = counts[1:]


def _run(answer, sizes, source, padding, inputs):
    return results_of(
        answer(*sizes),
        drawn(Translator.reference, *sizes),
        {},
        lambda model: {"the tensor of scores": model(source, padding, inputs)},
    )


def _words_count_and_padding_does_not(answer, sizes, source, padding, inputs):
    model = made(Translator.reference, answer, sizes)
    scores = values(model(source, padding, inputs))
    if not mt.equal(values(model(source, padding, inputs)), scores):
        return "Called a second time with the same arguments, the model gives other scores."
    others = mt.where(padding, (source + 1) % sizes[0], source)
    if not mt.allclose(values(model(others, padding, inputs)), scores):
        return "What stands in the padding of the source must not change the scores."
    other = made(Translator.reference, answer, sizes)
    with mt.no_grad():
        for x in other.parameters():
            x *= 1.5
    between = values(other(source, padding, inputs))
    if mt.allclose(between, scores) or not mt.equal(values(model(source, padding, inputs)), scores):
        return "Two models with different weights must not share anything."
    return None


Translator = exercise(
    "Translator",
    cases=_translator_cases,
    run=_run,
    properties=(_words_count_and_padding_does_not,),
    gradients=False,
    see='chapter 03, "The model and its training"',
)
