"""Answers to the exercises of ``broken.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_10.broken import _decoder_cases, faults

# The test


@faults.answer(hidden_cases=lambda draw: _decoder_cases(draw, sizes=(11, 4)))
def faults(decoder, vocabulary, width):
    """What is wrong with a decoder: a list of "future", "padding", "batch" and "source"."""
    lengths = mt.tensor([[4], [6], [2]])
    real = mt.arange(6) < lengths  # (B, n)
    target, memory = mt.randint(0, vocabulary, (3, 5)), mt.randn(3, 6, width).double()
    whole, found = decoder(target, memory, real), set()
    for _ in range(2):
        other, noise = mt.randint(0, vocabulary, (3, 5)), mt.randn(3, 6, width).double()
        for t in range(4):
            later = mt.cat([target[:, : t + 1], other[:, t + 1 :]], dim=1)
            if not mt.allclose(decoder(later, memory, real)[:, : t + 1], whole[:, : t + 1]):
                found.add("future")
        padded = mt.where(real.unsqueeze(-1), memory, 20 * noise)
        if not mt.allclose(decoder(target, padded, real), whole):
            found.add("padding")
        for b in range(3):
            mine = mt.arange(3) == b
            others = decoder(
                mt.where(mine.unsqueeze(1), target, other),
                mt.where(mine.view(3, 1, 1), memory, noise),
                real,
            )
            if not mt.allclose(others[b], whole[b]):
                found.add("batch")
        for i in range(6):
            changed = mt.where((mt.arange(6) == i).unsqueeze(1), noise, memory)
            moved = (decoder(target, changed, real) != whole).any(dim=-1)  # (B, T)
            if not moved[real[:, i]].all():
                found.add("source")
    return sorted(found)


# Right in another way


def faults_one_by_one(decoder, vocabulary, width):
    """A question for each fault; token by token, place by place."""
    mt.manual_seed(7)
    lengths, n, steps = [3, 7, 5, 1], 7, 6
    real = mt.tensor([[i < length for i in range(n)] for length in lengths])
    target = mt.randint(0, vocabulary, (4, steps))
    memory = mt.randn(4, n, width).double()
    base = decoder(target, memory, real).numpy()

    def moved(target=target, memory=memory):
        now = decoder(target, memory, real).numpy()
        same = (now == base) | (np.abs(np.nan_to_num(now - base, nan=1.0)) < 1e-9)
        return ~same.all(axis=-1)  # (B, T)

    answers = []
    for t in range(1, steps):
        for _ in range(3):
            other = target.clone()
            other[:, t:] = mt.randint(0, vocabulary, (4, steps - t))
            if moved(target=other)[:, :t].any():
                answers.append("future")
    for factor in (100.0, -3.0, 0.0):
        if moved(memory=mt.where(real.unsqueeze(-1), memory, factor * memory + factor)).any():
            answers.append("padding")
    for b in range(4):
        words, vectors = target.clone(), memory.clone()
        words[b] = (words[b] + 1 + mt.randint(0, vocabulary - 1, (steps,))) % vocabulary
        vectors[b] = 2 * mt.randn(n, width).double()
        if np.delete(moved(words, vectors), b, axis=0).any():
            answers.append("batch")
        for i in range(lengths[b]):
            vectors = memory.clone()
            vectors[b, i] = -vectors[b, i] + 0.5
            if not moved(memory=vectors)[b].all():
                answers.append("source")
    return list(dict.fromkeys(answers))


def faults_of_questions(decoder, vocabulary, width):
    """Each question is a change, and the places that must stay, or must move."""
    real = mt.arange(4) < mt.tensor([[2], [4], [1]])
    target, memory = mt.randint(0, vocabulary, (3, 4)), mt.randn(3, 4, width).double()
    rows = mt.arange(3)
    before, found = decoder(target, memory, real), set()

    def ask(fault, words=target, vectors=memory, places=slice(None), row=slice(None), stay=True):
        after = decoder(words, vectors, real)[row, places]
        if stay and not mt.allclose(after, before[row, places]):
            found.add(fault)
        if not stay and (after == before[row, places]).all(dim=-1).any():
            found.add(fault)

    for shift in range(1, vocabulary):
        for place in range(1, 4):
            words = target.clone()
            words[:, place] = (target[:, place] + shift) % vocabulary
            ask("future", words, places=slice(0, place))
        for row in range(3):
            words = target.clone()
            words[row] = (target[row] + shift) % vocabulary
            ask("batch", words, row=rows != row)
    for row in range(3):
        for place in range(4):
            vectors = memory.clone()
            vectors[row, place] += 1.5
            ask("batch", vectors=vectors, row=rows != row)
            fault = "source" if real[row, place] else "padding"
            ask(fault, vectors=vectors, row=row, stay=fault == "padding")
    return [fault for fault in ("source", "batch", "padding", "future") if fault in found]


right = {
    "faults": [faults_one_by_one, faults_of_questions],
}
