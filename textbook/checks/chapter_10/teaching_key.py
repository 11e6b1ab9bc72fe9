"""Answers to the exercises of ``teaching.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_10.teaching import _sentence_cases, teacher_forcing


@teacher_forcing.answer(
    hidden_cases=lambda draw: _sentence_cases(draw, others=[(7, 3, 5), (1, 0, 9)])
)
def teacher_forcing(sentences, start, end, padding):
    """Sentences (B, T) give what the decoder reads and what it should say, (B, T + 1) each."""
    column = mt.full((len(sentences), 1), padding)
    inputs = mt.cat([mt.full_like(column, start), sentences], dim=1)
    targets = mt.cat([sentences, column], dim=1)
    lengths = (sentences != padding).sum(dim=1)
    targets[mt.arange(len(sentences)), lengths] = end
    return inputs, targets


# Right in another way


def force_row_by_row(sentences, start, end, padding):
    width, read, asked = sentences.shape[1] + 1, [], []
    for row in sentences.tolist():
        words = [word for word in row if word != padding]
        read.append([start, *words] + [padding] * (width - 1 - len(words)))
        asked.append([*words, end] + [padding] * (width - 1 - len(words)))
    return mt.tensor(read), mt.tensor(asked)


def force_by_rolling(sentences, start, end, padding):
    """What is asked for is what is read, one place earlier, and the end where padding begins."""
    wide = F.pad(sentences, (1, 1), value=padding)
    read = wide[:, :-1].masked_fill(mt.arange(wide.shape[1] - 1) == 0, start)
    begins = (wide[:, 1:] == padding).cumsum(dim=1) == 1
    return [read, mt.where(begins & (wide[:, 1:] == padding), end, wide[:, 1:])]


right = {
    "teacher_forcing": [force_row_by_row, force_by_rolling],
}
