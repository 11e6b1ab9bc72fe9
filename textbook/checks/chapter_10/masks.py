"""The three masks of a batch whose padding stands at the front."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _mask_cases(draw, hidden):
    """Source (B, n) and target (B, T) with padding at the front, and its number."""
    for padding in (6, 0) if hidden else (0, 3):
        for batch, n, steps in ((1, 3, 4), (3, 5, 4), (4, 3, 6)):
            pair = []
            for length in (n, steps):
                tokens = (padding + 1 + draw.integers(8, batch, length)) % 9
                lengths = 1 + draw.integers(length - 1, batch)
                lengths[-1] = length if batch != 4 else 1
                front = mt.arange(length) < (length - lengths).unsqueeze(1)
                pair.append(tokens.masked_fill(front, padding))
            yield *pair, padding


def _keys(tokens, padding):
    """(B, 1, 1, n): True at tokens."""
    return (tokens != padding).unsqueeze(1).unsqueeze(1)


def _back(length):
    """How many places back each key lies: (T, T)."""
    places = mt.arange(length)
    return places.unsqueeze(1) - places


def _own(seen, joined=lambda causal, real, itself: causal & real | itself):
    """A mask of the decoder by what a query sees: back (T, T), and how it is joined."""

    def own(target, padding):
        back = _back(target.shape[1])
        return joined(seen(back), _keys(target, padding), back == 0)

    return own


_itself_included = _own(lambda back: back >= 0)


def _masking(
    encoder=lambda source, target, padding: _keys(source, padding),
    own=_itself_included,
    cross=lambda source, target, padding: _keys(source, padding),
    padding=lambda padding: padding,
    every=lambda mask: mask,
    finish=lambda masks: masks,
):
    """The masks with one of their pieces exchanged."""

    def masks(source, target, pad):
        pad = padding(pad)
        three = encoder(source, target, pad), own(target, pad), cross(source, target, pad)
        return finish(tuple(map(every, three)))

    return masks


def _row_by_row(check, answer, source, target, padding):
    """The first entry of the decoder's own mask that is wrong, in words."""
    own = answer(source, target, padding)[1]
    right = _itself_included(target, padding)
    if own.shape != right.shape:
        return None
    kinds = {True: "padding", False: "a token"}
    for b, _, i, j in (own != right).nonzero().tolist():
        query, key = (kinds[target[b, place].item() == padding] for place in (i, j))
        does = "may look" if own[b, 0, i, j] else "may not look"
        where = "itself" if i == j else f"place {j}, {key}"
        return f"In the second mask place {i}, {query} of the target, {does} at {where}."
    return None


@exercise(cases=_mask_cases, reasons=(_row_by_row,), see='chapter 10, "Three masks"')
def three_masks(source, target, padding):
    """Source (B, n), target (B, T): masks (B, 1, 1, n), (B, 1, T, T) and (B, 1, 1, n)."""
    real = (source != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
    said = (target != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, T)
    causal = mt.ones(target.shape[1], target.shape[1], dtype=mt.bool).tril()
    own = causal & said | mt.eye(target.shape[1]).bool()
    return real, own, real


def _padding_behind(tokens, padding):
    lengths = (tokens != padding).sum(dim=1, keepdim=True)
    return (mt.arange(tokens.shape[1]) < lengths).unsqueeze(1).unsqueeze(1)


for name, hint, pieces in (
    (
        "right but for the decoder's own mask, which is causal alone",
        "Padding at the front lies before every token: the causal mask does not hide it.",
        {"own": _own(lambda back: back >= 0, lambda causal, real, itself: causal & (real | ~real))},
    ),
    (
        "right but for the decoder's own mask, which hides padding alone: the future is in sight",
        "Join it with the causal mask.",
        {"own": _own(lambda back: back == back)},
    ),
    (
        "right but for the queries of padding in the decoder, which may look at nothing",
        "A softmax over nothing is not a number, and spreads: let every place look at itself.",
        {"own": _own(lambda back: back >= 0, lambda causal, real, itself: causal & real)},
    ),
    (
        "right but for the queries of padding in the decoder, which look at padding before them",
        "They may look at themselves, at nothing else.",
        {
            "own": _own(
                lambda back: back >= 0,
                lambda causal, real, itself: causal & (real | ~real.transpose(2, 3)),
            )
        },
    ),
    (
        "right but for the queries of padding in the decoder, which may look at everything",
        "They may look at themselves, at nothing else.",
        {
            "own": _own(
                lambda back: back >= 0,
                lambda causal, real, itself: causal & real | ~real.transpose(2, 3),
            )
        },
    ),
    (
        "right but for the decoder's own mask, which is joined by 'or'",
        "A query may look where both masks allow it: &.",
        {"own": _own(lambda back: back >= 0, lambda causal, real, itself: causal | real)},
    ),
    (
        "right but for the decoder's own mask, in which no token sees itself",
        "The causal part is j <= i, the diagonal included.",
        {"own": _own(lambda back: back > 0, lambda causal, real, itself: causal & real)},
    ),
    (
        "right but for the decoder's own mask, whose causal part is transposed",
        "Row i is query i, column j is key j, and j <= i is allowed: the lower triangle.",
        {"own": _own(lambda back: back <= 0)},
    ),
    (
        "right but for the decoder's own mask, which masks queries and not keys",
        "What must not be looked at is a key, and keys are columns.",
        {
            "own": _own(
                lambda back: back >= 0,
                lambda causal, real, itself: causal & real.transpose(2, 3) | itself,
            )
        },
    ),
    (
        "right for padding at the end: it counts tokens and does not ask where they stand",
        "Here padding stands at the front: compare each token with padding.",
        {
            "encoder": lambda source, target, padding: _padding_behind(source, padding),
            "cross": lambda source, target, padding: _padding_behind(source, padding),
            "own": lambda target, padding: (
                (_back(target.shape[1]) >= 0) & _padding_behind(target, padding)
                | (_back(target.shape[1]) == 0)
            ),
        },
    ),
    (
        "right but for the mask across, which is that of the target",
        "Across, the keys are those of the source: (B, 1, 1, n).",
        {"cross": lambda source, target, padding: _keys(target, padding)},
    ),
    (
        "right but for the mask across, in which the queries of padding see nothing",
        "Queries of padding may look wherever they like; but no row may be empty.",
        {
            "cross": lambda source, target, padding: (
                _keys(source, padding) & _keys(target, padding).transpose(2, 3)
            )
        },
    ),
    (
        "right but for the encoder's mask, in which the queries of padding look at themselves",
        "Every source has a token, so no row is empty: the tokens of the source are enough.",
        {
            "encoder": lambda source, target, padding: (
                _keys(source, padding) | (_back(source.shape[1]) == 0)
            )
        },
    ),
    (
        "right but for the encoder's mask, which is causal",
        "The encoder sees the whole source, left and right.",
        {
            "encoder": lambda source, target, padding: (
                _keys(source, padding) & (_back(source.shape[1]) >= 0)
                | (_back(source.shape[1]) == 0)
            )
        },
    ),
    (
        "the opposite: True where a query may not look",
        "True means in this book: may be looked at.",
        {"every": lambda mask: ~mask},
    ),
    (
        "right for a padding of 0",
        "The padding's number is the argument padding; 0 may be a word.",
        {"padding": lambda padding: 0},
    ),
    (
        "right but for the axis of the heads, which is missing",
        "Scores are (B, h, T, n). Without an axis for the heads broadcasting takes the sequences "
        "for heads.",
        {"every": lambda mask: mask.squeeze(1)},
    ),
    (
        "right but for the order of the masks",
        "First the encoder's, then the decoder's own, then the one across.",
        {"finish": lambda masks: (masks[0], masks[2], masks[1])},
    ),
):
    three_masks.wrong(name, hint)(_masking(**pieces))
