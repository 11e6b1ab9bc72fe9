"""Answers to the exercises of ``writing.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_11.writing import _writing_cases, translate


@translate.answer(
    hidden_cases=lambda draw: _writing_cases(draw, step=-1),
    after_passing="Faster still: keep keys and values, as in exercise 9, and give a free "
    "row the next text.",
)
def translate(model, source, start, end, padding, longest):
    """source (B, n) gives translations (B, T), each with its end, filled up with padding."""
    real = (source != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
    memory = model.encode(source, real)
    said = mt.full((len(source), 1), start)
    writing = mt.arange(len(source))  # the rows that have not ended
    while len(writing) and said.shape[1] <= longest:
        scores = model.decode(said[writing], memory[writing], real[writing])[:, -1]  # (b, V)
        scores[:, [start, padding]] = -mt.inf
        words = scores.argmax(dim=-1)
        column = mt.full((len(source), 1), padding)
        column[writing, 0] = words
        said = mt.cat([said, column], dim=1)
        writing = writing[words != end]
    return said[:, 1:]


# Right in another way


def translate_with_lists(model, source, start, end, padding, longest):
    real = mt.tensor([[[[word != padding for word in row]]] for row in source.tolist()])
    memory = model.encode(source, real)
    rows = [[start] for _ in source]
    for _ in range(longest):
        still = [i for i, row in enumerate(rows) if row[-1] != end]
        if not still:
            break
        tokens = mt.tensor([rows[i] for i in still])
        scores = model.decode(tokens, memory[still], real[still]).numpy()[:, -1].copy()
        scores[:, start] = scores[:, padding] = -np.inf
        for i, word in zip(still, scores.argmax(axis=-1), strict=True):
            rows[i].append(int(word))
    width = max(map(len, rows))
    return mt.tensor([row[1:] + [padding] * (width - len(row)) for row in rows])


@mt.no_grad()
def translate_into_a_table(model, source, start, end, padding, longest):
    """A table that is cut at its end; what is left shrinks with each step."""
    real = source.ne(padding)[:, None, None, :]
    memory, table = model.encode(source, real), mt.full((len(source), longest + 1), padding)
    table[:, 0] = start
    left = mt.arange(len(source))
    for t in range(longest):
        scores = model.decode(table[left, : t + 1], memory[left], real[left])[:, t]
        words = mt.arange(scores.shape[-1])
        words = words[(words != start) & (words != padding)]
        table[left, t + 1] = words[scores[:, words].argmax(-1)]
        left = left[table[left, t + 1] != end]
        if len(left) == 0:
            break
    return table[:, 1 : t + 2]


right = {
    "translate": [translate_with_lists, translate_into_a_table],
}
