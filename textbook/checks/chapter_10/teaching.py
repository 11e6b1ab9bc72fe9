"""What the decoder reads and what it is asked for, of a batch of padded sentences."""

import minitorch as mt
from textbook.checks.released import exercise


def _sentence_cases(draw, others=()):
    """Sentences (B, T) with padding behind, then start, end and padding."""
    for start, end, padding in others or [(1, 2, 0), (8, 0, 4)]:
        words = [w for w in range(12) if w not in (start, end, padding)]
        for batch, longest in ((1, 3), (3, 5), (4, 4)):
            sentences = mt.tensor(words)[draw.integers(len(words), batch, longest)]
            lengths = draw.integers(longest, batch) + 1
            lengths[-1] = longest
            if batch > 3:
                lengths[1] = 0
            rows = mt.arange(longest) < lengths.unsqueeze(1)
            yield sentences.masked_fill(~rows, padding), start, end, padding


def _asks_for_what_follows(check, answer, sentences, start, end, padding):
    """The first row that is wrong, in words."""
    read, asked = (part.tolist() for part in answer(sentences, start, end, padding))
    for row, reads, asks in zip(sentences.tolist(), read, asked, strict=True):
        words = [word for word in row if word != padding]
        told = f"For the words {words}"
        if asks[: len(words)] != words:
            return f"{told} the decoder is not asked for all of them, one after the other: {asks}."
        if asks[len(words) : len(words) + 1] != [end]:
            return f"{told} the decoder is not asked for the end, {end}, right behind them: {asks}."
        if set(asks[len(words) + 1 :]) - {padding}:
            return f"{told} the decoder is asked for something behind the end: {asks}."
        if reads[:1] != [start] or reads[1 : len(words) + 1] != words:
            return f"{told} the decoder does not read the start, {start}, and them: {reads}."
        if set(reads[len(words) + 1 :]) - {padding}:
            return f"{told} the decoder reads something behind them that is no padding: {reads}."
    return None


teacher_forcing = exercise(
    "teacher_forcing",
    cases=_sentence_cases,
    reasons=(_asks_for_what_follows,),
    see='chapter 10, "It learns to translate"',
)
