"""A greedy loop for a batch of sentences that end at different places."""

import minitorch as mt
from minitorch import nn
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


class _Translator(nn.Module):
    """A made-up translator (B, 1, 1, n) in, that notes how it is called.

    A score depends on the last token and its place, and on the mean of those source vectors that
    the mask shows; ``ends`` gives for each source's first token the place at which it says end.
    """

    def __init__(self, vocabulary, ends, start, end, padding, seed):
        super().__init__()
        self.sizes = vocabulary, start, end, padding
        draw = Draw(seed)
        self.vectors, self.after = draw.normal(vocabulary, 6), draw.normal(vocabulary, vocabulary)
        self.out, self.ends, self.rows = draw.normal(6, vocabulary), ends, []
        self.whole = True

    def encode(self, source, real):
        self.mask("encode", source, real)
        self.shown = real[:, 0, 0]
        places = mt.arange(source.shape[1]).unsqueeze(1)
        x = self.vectors[source] + places / 7
        seen = real[:, 0, 0].unsqueeze(-1)  # (B, n, 1)
        mixed = x.masked_fill(~seen, 0.0).sum(dim=1, keepdim=True) / seen.sum(1, keepdim=True)
        first = source[:, :1].to(x.dtype).unsqueeze(-1).expand(x[..., :1].shape)
        return mt.cat([(x + mixed).masked_fill(~seen, 1e4), first], dim=-1)  # (B, n, 7)

    def decode(self, tokens, memory, real):
        shapes = [tuple(getattr(x, "shape", ())) for x in (tokens, memory, real)]
        if len(shapes[0]) != 2 or len({shape[:1] for shape in shapes}) > 1:
            raise TypeError(
                "decode gets tokens (B, T), a memory (B, n, d) and a mask (B, 1, 1, n) of as many "
                "sentences; got tokens of shape {}, a memory of {}, a mask of {}".format(*shapes)
            )
        self.mask("decode", memory, real)
        self.rows.append(len(tokens))
        vocabulary, start, end, padding = self.sizes
        self.whole &= shapes[0][1] == len(self.rows) and bool((tokens[:, 0] == start).all())
        seen = real[:, 0, 0].unsqueeze(-1)
        mean = memory[..., :6].masked_fill(~seen, 0.0).sum(1) / seen.sum(1)  # (B, 6)
        places = mt.arange(tokens.shape[1]).unsqueeze(1).to(mean.dtype)
        scores = 3 * (mean @ self.out).tanh().unsqueeze(1) + self.after[tokens]
        scores = scores + (places * (1 + mt.arange(vocabulary))).sin() - 20.0  # (B, T, V), below 0
        due = mt.tensor([self.ends[int(row[0, 6])] for row in memory]).unsqueeze(1)
        scores[..., end] = mt.where(due == places.T + 1, 50.0, -50.0)
        even = (places % 2 == 0).T  # padding and start: never learned, and never to be said
        scores[..., padding] = mt.where(even, 60.0, -60.0)
        scores[..., start] = mt.where(even, -60.0, 60.0)
        return scores

    def mask(self, where, of, real):
        wanted = len(of), 1, 1, of.shape[1]
        if not isinstance(real, mt.Tensor) or tuple(real.shape) != wanted:
            raise TypeError(f"{where} needs a mask of shape {wanted}; got {brief(real)}")
        if real.dtype != mt.bool:
            raise TypeError(f"{where} needs a boolean mask; got {brief(real)}")

    def __repr__(self):
        return "a translator with encode and decode"

    def __deepcopy__(self, memo):
        return _Translator.made(self.sizes, self.ends)

    @classmethod
    def made(cls, sizes, ends):
        return cls(sizes[0], ends, *sizes[1:], seed=4)


def _writing_cases(draw, step=1):
    """The translator, the source (B, n), start, end, padding and the longest translation."""
    sizes = (9, 1, 2, 0), (10, 4, 0, 7)
    for i, (vocabulary, start, end, padding) in enumerate(sizes[::step]):
        words = [w for w in range(vocabulary) if w not in (start, end, padding)]
        for batch, n, longest in ((4, 5, 6), (3, 4, 9), (1, 3, 4), (2, 6, 5)):
            firsts = [int(w) for w in draw.random.permutation(words)[:batch]]
            at = [int(x) for x in draw.random.permutation(range(1, 7))[:batch]]
            if longest == 5:
                at = [9, 3] if i else [1, 1]  # one that does not end; all at once
            source = mt.tensor(words)[draw.integers(len(words), batch, n)]
            source[:, 0] = mt.tensor(firsts)
            lengths = 1 + draw.integers(n, batch).unsqueeze(1)
            lengths[-1] = n
            source = source.masked_fill(mt.arange(n) >= lengths, padding)
            ends = dict.fromkeys(range(vocabulary), 4) | dict(zip(firsts, at, strict=True))
            model = _Translator.made((vocabulary, start, end, padding), ends)
            yield model, source, start, end, padding, longest


def _written(answer, model, source, start, end, padding, longest):
    """What is written, and how many rows each call of decode got."""
    found = answer(model, source, start, end, padding, longest)
    return {
        "what decode reads": "start, and all that has been said"
        if model.whole
        else "other tokens, as the last one alone",
        "the number of columns in the result": found.shape[-1],
        "the result": found,
        "the list of the numbers of sentences in the calls of decode": list(model.rows),
    }


def _mask(check, answer, model, source, start, end, padding, longest):
    """A place at which the mask that encode gets is wrong."""
    answer(model, source, start, end, padding, longest)
    for row, said in zip(source.tolist(), model.shown.tolist(), strict=True):
        for token, here in zip(row, said, strict=True):
            if here != (token != padding):
                what = "padding" if token == padding else "no padding"
                return f"In the source {row} the mask is {here} at {token}, which is {what}."
    return None


def _rows(check, answer, *_):
    """How rows that are right by themselves differ from what is asked."""
    start, end, padding = 1, 2, 0
    source = mt.tensor([[3, 4, 5], [4, 5, 0], [5, 3, 4]])
    model, longest = _Translator(9, {3: 4, 4: 1, 5: 2}, start, end, padding, seed=4), 6
    found, right = (
        function(model, source, start, end, padding, longest).tolist()
        for function in (answer, check.reference)
    )
    said, wanted = (
        [[token for token in row if token != padding] for row in rows] for rows in (found, right)
    )
    if said == wanted:
        return None if found == right else "The rows are right, but not what stands behind them."
    ends = [row.index(end) + 1 for row in right]
    behind = {token for row, n in zip(found, ends, strict=True) for token in row[n:]}
    if len(behind) == 1 and [row[:n] for row, n in zip(found, ends, strict=True)] == wanted:
        return f"The rows are right, but behind their ends stands {behind.pop()}, not padding."
    if sorted(said) == sorted(wanted):
        return "The rows are right, but in another order: row i translates row i of the source."
    if said == [[token for token in row if token != end] for row in wanted]:
        return "The rows are right but for their ends, which are missing."
    return None


translate = exercise(
    "translate",
    cases=_writing_cases,
    run=_written,
    reasons=(_mask, _rows),
    gradients=False,
    see='chapter 10, "It learns to translate"',
)
