"""What the decoder reads and what it is asked for, of a batch of padded sentences."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _sentence_cases(draw, hidden):
    """Sentences (B, T) with padding behind, then start, end and padding."""
    for start, end, padding in [(7, 3, 5), (1, 0, 9)] if hidden else [(1, 2, 0), (8, 0, 4)]:
        words = [w for w in range(12) if w not in (start, end, padding)]
        for batch, longest in ((1, 3), (3, 5), (4, 4)):
            sentences = mt.tensor(words)[draw.integers(len(words), batch, longest)]
            lengths = draw.integers(longest, batch) + 1
            lengths[-1] = longest
            if batch > 3:
                lengths[1] = 0
            rows = mt.arange(longest) < lengths.unsqueeze(1)
            yield sentences.masked_fill(~rows, padding), start, end, padding


def _beside(sentences, number, first):
    """A column of a number before or behind the sentences."""
    column = mt.full((len(sentences), 1), number)
    return mt.cat([column, sentences] if first else [sentences, column], dim=1)


def _with_end(sentences, end, padding, at=0):
    """The end right behind each sentence, or `at` places from there."""
    wide = _beside(sentences, padding, first=False)
    length = (sentences != padding).sum(dim=1, keepdim=True)
    return mt.where(mt.arange(wide.shape[1]) == (length + at).clamp(min=0), end, wide)


def _forcing(
    inputs=lambda sentences, start, end, padding: _beside(sentences, start, first=True),
    targets=lambda sentences, start, end, padding: _with_end(sentences, end, padding),
    result=lambda inputs, targets: (inputs, targets),
    padding=lambda padding: padding,
):
    """Both with one of their pieces exchanged."""

    def force(sentences, start, end, pad):
        case = sentences, start, end, padding(pad)
        return result(inputs(*case), targets(*case))

    return force


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


@exercise(
    cases=_sentence_cases,
    reasons=(_asks_for_what_follows,),
    see='chapter 10, "It learns to translate"',
)
def teacher_forcing(sentences, start, end, padding):
    """Sentences (B, T) give what the decoder reads and what it should say, (B, T + 1) each."""
    column = mt.full((len(sentences), 1), padding)
    inputs = mt.cat([mt.full_like(column, start), sentences], dim=1)
    targets = mt.cat([sentences, column], dim=1)
    lengths = (sentences != padding).sum(dim=1)
    targets[mt.arange(len(sentences)), lengths] = end
    return inputs, targets


for name, hint, pieces in (
    (
        "right but for the end, which stands in the last column of every row",
        "A short sentence ends before its padding: the end stands right behind the last word.",
        {"targets": lambda s, start, end, padding: _beside(s, end, first=False)},
    ),
    (
        "right but for the end, which takes the place of the last word",
        "The end comes behind the last word, which must be learned, too.",
        {"targets": lambda s, start, end, padding: _with_end(s, end, padding, -1)},
    ),
    (
        "right but for the end, which is missing",
        "Without it the model never learns to stop.",
        {"targets": lambda s, start, end, padding: _beside(s, padding, first=False)},
    ),
    (
        "right but for the end, which takes the place of all padding",
        "One end, right behind the last word; then comes padding, which the loss leaves out.",
        {
            "targets": lambda s, start, end, padding: _beside(
                s.masked_fill(s == padding, end), end, first=False
            )
        },
    ),
    (
        "right but for what is read, which holds the end, too",
        "Nothing follows the end, so nobody reads it: the decoder reads start and sentence.",
        {
            "inputs": lambda s, start, end, padding: _beside(
                _with_end(s, end, padding)[:, :-1], start, first=True
            )
        },
    ),
    (
        "right but for what is read, which lacks the start: it shows the answer",
        "The decoder reads at each place what it should have said at the place before; at the "
        "first place that is the start.",
        {"inputs": lambda s, start, end, padding: _beside(s, padding, first=False)},
    ),
    (
        "right but for what is read, which is what should be said: the model is shown the answer",
        "At each place the decoder reads the token before the one that it is asked for.",
        {"inputs": lambda s, start, end, padding: _with_end(s, end, padding)},
    ),
    (
        "right but for what should be said, which is what is read: a copy",
        "The decoder is asked for the next token: the sentence, then its end.",
        {"targets": lambda s, start, end, padding: _beside(s, start, first=True)},
    ),
    (
        "right but for the order of the two",
        "First what the decoder reads, then what it should say.",
        {"result": lambda inputs, targets: (targets, inputs)},
    ),
    (
        "right but for the width: the last column is cut off",
        "A sentence that fills the row needs one place more, for the start and for the end.",
        {"result": lambda inputs, targets: (inputs[:, :-1], targets[:, :-1])},
    ),
    (
        "two rows that both hold start and end: (B, T + 2)",
        "The start is never said, and the end is never read.",
        {
            "inputs": lambda s, start, end, padding: _beside(
                _with_end(s, end, padding), start, first=True
            ),
            "targets": lambda s, start, end, padding: _beside(
                _with_end(s, end, padding), start, first=True
            ),
        },
    ),
    (
        "right for a padding of 0",
        "The padding's number is the argument padding; 0 may be a word.",
        {"padding": lambda padding: 0},
    ),
    (
        "right but for start and end, which are exchanged",
        "The decoder reads the start, and says the end.",
        {
            "inputs": lambda s, start, end, padding: _beside(s, end, first=True),
            "targets": lambda s, start, end, padding: _with_end(s, start, padding),
        },
    ),
    (
        "right but for the padding of what should be said, which is -100",
        "That is what F.cross_entropy leaves out by itself. Here padding stays what it is.",
        {
            "targets": lambda s, start, end, padding: _with_end(s, end, padding).masked_fill(
                _with_end(s, end, padding) == padding, -100
            )
        },
    ),
):
    teacher_forcing.wrong(name, hint)(_forcing(**pieces))
