"""A translator that reads and writes."""

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of, values


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
        drawn(_Translator, *sizes),
        {},
        lambda model: {"the tensor of scores": model(source, padding, inputs)},
    )


def _words_count_and_padding_does_not(answer, sizes, source, padding, inputs):
    model = made(_Translator, answer, sizes)
    scores = values(model(source, padding, inputs))
    if not mt.equal(values(model(source, padding, inputs)), scores):
        return "Called a second time with the same arguments, the model gives other scores."
    others = mt.where(padding, (source + 1) % sizes[0], source)
    if not mt.allclose(values(model(others, padding, inputs)), scores):
        return "What stands in the padding of the source must not change the scores."
    other = made(_Translator, answer, sizes)
    with mt.no_grad():
        for x in other.parameters():
            x *= 1.5
    between = values(other(source, padding, inputs))
    if mt.allclose(between, scores) or not mt.equal(values(model(source, padding, inputs)), scores):
        return "Two models with different weights must not share anything."
    return None


@exercise(
    cases=_translator_cases,
    hidden_cases=lambda draw: _translator_cases(draw, others=((7, 9, 4, 6), [3, 1, 6, 4], 5)),
    run=_run,
    properties=(_words_count_and_padding_does_not,),
    gradients=False,
    see='chapter 03, "The model and its training"',
)
class Translator(nn.Module):
    """Source (B, n) and what the decoder reads (B, T) to scores of what it is to say (B, T, V')."""

    def __init__(self, source_size, target_size, width, hidden):
        super().__init__()
        self.source_embedding = nn.Embedding(source_size, width)
        self.encoder = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.target_embedding = nn.Embedding(target_size, width)
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, target_size)

    def forward(self, source, padding, inputs):
        """Source (B, n), its padding (B, n) and inputs (B, T) to scores (B, T, V')."""
        x, lengths = self.source_embedding(source), (~padding).sum(dim=1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.encoder(packed)  # (2, B, H), forward and backward
        c = self.bridge(mt.cat([last[0], last[1]], dim=-1)).tanh()  # (B, H)
        y = self.target_embedding(inputs)  # (B, T, d)
        repeated = c.unsqueeze(1).expand(-1, y.shape[1], -1)  # (B, T, H)
        states, _ = self.decoder(mt.cat([y, repeated], dim=-1), c.unsqueeze(0))
        return self.out(states)


_Translator = Translator.reference
