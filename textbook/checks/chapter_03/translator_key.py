"""Answers to the exercises of ``translator.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence
from textbook.checks.chapter_03.translator import Translator, _translator_cases


@Translator.answer(
    hidden_cases=lambda draw: _translator_cases(draw, others=((7, 9, 4, 6), [3, 1, 6, 4], 5))
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


# Right in another way


class SentenceBySentence(Translator.reference):
    """No packing: each sentence alone."""

    def forward(self, source, padding, inputs):
        results = []
        for words, rest, read in zip(source, padding, inputs, strict=True):
            outputs, _ = self.encoder(self.source_embedding(words[~rest]).unsqueeze(0))
            half = outputs.shape[-1] // 2
            ends = mt.cat([outputs[0, -1, :half], outputs[0, 0, half:]])
            c = mt.tanh(self.bridge(ends))
            h, scores = c.reshape(1, 1, -1), []
            for y in self.target_embedding(read):
                state, h = self.decoder(mt.cat([y, c]).reshape(1, 1, -1), h)
                scores.append(self.out(state[0, 0]))
            results.append(mt.stack(scores))
        return mt.stack(results)


class WithOutputs(Translator.reference):
    """The ends are taken from the outputs, padded again."""

    def forward(self, source, padding, inputs):
        lengths = (~padding).long().sum(1)
        order = lengths.argsort(descending=True)
        x = self.source_embedding(source[order])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths[order], batch_first=True)
        outputs, n = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        outputs = outputs[order.argsort()]  # (B, n, 2 H)
        forward, backward = outputs.chunk(2, dim=-1)
        last = (lengths - 1).reshape(-1, 1, 1).expand(-1, 1, forward.shape[-1])
        c = F.tanh(self.bridge(mt.cat([forward.gather(1, last)[:, 0], backward[:, 0]], 1)))
        y = self.target_embedding(inputs)
        c_at_each = mt.stack([c] * inputs.shape[1], dim=1)
        return self.out(self.decoder(mt.cat([y, c_at_each], 2), c[None])[0])


right = {
    "Translator": [SentenceBySentence, WithOutputs],
}
