"""The three masks of a batch whose padding stands at the front."""

import minitorch as mt
from textbook.checks.released import exercise


def _mask_cases(draw, others=()):
    """Source (B, n) and target (B, T) with padding at the front, and its number."""
    for padding in others or (0, 3):
        for batch, n, steps in ((1, 3, 4), (3, 5, 4), (4, 3, 6)):
            pair = []
            for length in (n, steps):
                tokens = (padding + 1 + draw.integers(8, batch, length)) % 9
                lengths = 1 + draw.integers(length - 1, batch)
                lengths[-1] = length if batch != 4 else 1
                front = mt.arange(length) < (length - lengths).unsqueeze(1)
                pair.append(tokens.masked_fill(front, padding))
            yield *pair, padding


def _row_by_row(check, answer, source, target, padding):
    """The first entry of the decoder's own mask that is wrong, in words."""
    own = answer(source, target, padding)[1]
    right = check.reference(source, target, padding)[1]
    if own.shape != right.shape:
        return None
    kinds = {True: "padding", False: "a token"}
    for b, _, i, j in (own != right).nonzero().tolist():
        query, key = (kinds[target[b, place].item() == padding] for place in (i, j))
        does = "may look" if own[b, 0, i, j] else "may not look"
        where = "itself" if i == j else f"place {j}, {key}"
        return f"In the second mask place {i}, {query} of the target, {does} at {where}."
    return None


three_masks = exercise(
    "three_masks",
    cases=_mask_cases,
    reasons=(_row_by_row,),
    see='chapter 10, "Three masks"',
)
