"""A translator that reads and writes."""

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of, values


def _translator_cases(draw, hidden):
    """Sizes (V, V', d, H), then a batch; the longest source is neither the first nor as wide."""
    sizes, counts, steps = (
        ((7, 9, 4, 6), [3, 1, 6, 4], 5) if hidden else ((5, 6, 3, 4), [2, 4, 1], 3)
    )
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


class TranslatorInPieces(_Translator):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, source, padding, inputs):
        c = self.bent(self.bridge(mt.cat(self.ends(source, padding), dim=-1)))
        y = self.target_embedding(inputs)
        states, _ = self.decoder(self.fed(y, c), self.first(c).unsqueeze(0))
        return self.out(states)

    def outputs(self, source, padding):
        """Of both directions, (B, n, H) each, and the positions of the last words."""
        lengths = (~padding).sum(dim=1)
        packed = pack_padded_sequence(
            self.source_embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return (*outputs.chunk(2, dim=-1), lengths - 1)

    def ends(self, source, padding):
        forward, backward, last = self.outputs(source, padding)
        return [forward[mt.arange(len(last)), last], backward[:, 0]]

    def bent(self, c):
        return c.tanh()

    def fed(self, y, c):
        return mt.cat([y, c.unsqueeze(1).expand(-1, y.shape[1], -1)], dim=-1)

    def first(self, c):
        return c


@Translator.wrong(
    "a translator whose encoder reads the padding",
    "Pack the embedded source: each direction then reads the words alone, and the backward one "
    "begins with the last word.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        return list(self.encoder(self.source_embedding(source))[1])


@Translator.wrong(
    "a translator whose encoder reads the padding, and takes both ends from the words",
    "A direction that begins in the padding has read it before the words: pack the source.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        outputs, _ = self.encoder(self.source_embedding(source))
        forward, backward = outputs.chunk(2, dim=-1)
        return [forward[mt.arange(len(source)), (~padding).sum(dim=1) - 1], backward[:, 0]]


@Translator.wrong(
    "right for the forward half; the backward half has read only the last word",
    "The backward direction ends at the first word. (The encoder's second result holds both ends.)",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        forward, backward, last = self.outputs(source, padding)
        rows = mt.arange(len(last))
        return [forward[rows, last], backward[rows, last]]


@Translator.wrong(
    "right for the backward half; the forward half has read only the first word",
    "The forward direction ends at the last word.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        forward, backward, _ = self.outputs(source, padding)
        return [forward[:, 0], backward[:, 0]]


@Translator.wrong(
    "a translator that takes what stands in the last column, where short sentences have none",
    "Each sentence ends at its own last word. The encoder's second result holds both ends.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        forward, backward, _ = self.outputs(source, padding)
        return [forward[:, -1], backward[:, -1]]


@Translator.wrong(
    "a translator that takes the mean of all states",
    "The final states alone, one of each direction: the encoder's second result.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        forward, backward, last = self.outputs(source, padding)
        return [each.sum(dim=1) / (last + 1).unsqueeze(-1) for each in (forward, backward)]


@Translator.wrong(
    "right but for the two ends, which are exchanged",
    "The weights of self.bridge belong to forward, then backward.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        return super().ends(source, padding)[::-1]


@Translator.wrong(
    "a translator that mixes sentences: it reshapes the ends, (2, B, H), to (B, 2 H)",
    "Axis 0 counts the directions. Put last[0] and last[1] side by side.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        ends = mt.stack(super(type(self), self).ends(source, padding))  # (2, B, H)
        return [ends.reshape(len(source), -1)]


@Translator.wrong(
    "a translator that looks at one direction alone",
    "Both: the forward end, then the backward end.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        return [super(type(self), self).ends(source, padding)[0]] * 2


@Translator.wrong(
    "right but for the rows, which are sorted by length",
    "enforce_sorted=False puts the rows back in their order.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        order = (~padding).sum(dim=1).argsort(descending=True, stable=True)
        return [each[order] for each in super(type(self), self).ends(source, padding)]


@Translator.wrong("a translator without the tanh", "c is the tanh of the bridge.")
class _(TranslatorInPieces):
    def bent(self, c):
        return c


@Translator.wrong("a translator with a relu in place of the tanh", "c is the tanh of the bridge.")
class _(TranslatorInPieces):
    def bent(self, c):
        return c.relu()


@Translator.wrong(
    "right but for the scores, of which it returns the log-probabilities",
    "Return the scores themselves: cross_entropy does the rest.",
)
class _(TranslatorInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch).log_softmax(dim=-1)


@Translator.wrong(
    "a translator whose encoder reads zeros at the padding",
    "A GRU reads zeros, too, and its state moves on: pack the source.",
)
class _(TranslatorInPieces):
    def ends(self, source, padding):
        x = self.source_embedding(source) * ~padding.unsqueeze(-1)
        return list(self.encoder(x)[1])


@Translator.wrong(
    "a translator whose decoder reads zeros in place of c",
    "Each input of the decoder is an embedding with c beside it.",
)
class _(TranslatorInPieces):
    def fed(self, y, c):
        return super(type(self), self).fed(y, 0 * c)


@Translator.wrong(
    "a translator whose decoder reads c at the first step alone",
    "At every step: that is what spares its state the remembering.",
)
class _(TranslatorInPieces):
    def fed(self, y, c):
        first = (mt.arange(y.shape[1]) == 0).reshape(1, -1, 1)
        return mt.cat([y, c.unsqueeze(1) * first], dim=-1)


@Translator.wrong(
    "right but for the order in which the decoder is fed: c first",
    "Its weights belong to [embedding; c].",
)
class _(TranslatorInPieces):
    def fed(self, y, c):
        return mt.cat([c.unsqueeze(1).expand(-1, y.shape[1], -1), y], dim=-1)


@Translator.wrong(
    "a translator whose decoder starts from zeros",
    "c is its first state, too.",
)
class _(TranslatorInPieces):
    def first(self, c):
        return 0 * c


@Translator.wrong(
    "a translator through which no gradient reaches the encoder",
    "Hand c on as it is, without detach().",
)
class _(TranslatorInPieces):
    def bent(self, c):
        return c.tanh().detach()


@Translator.wrong(
    "right but for the scores, which have been through a softmax",
    "Return the scores themselves: cross_entropy does the softmax.",
)
class _(TranslatorInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch).softmax(dim=-1)


@Translator.wrong(
    "right but for the steps: the scores of the last one alone",
    "Scores of all T steps: (B, T, V').",
)
class _(TranslatorInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch)[:, -1]


@Translator.wrong("right but for the order of the axes: it is (T, B, V')", "The batch comes first.")
class _(TranslatorInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch).transpose(0, 1)
