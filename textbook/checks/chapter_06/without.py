"""The output of the layer without each head."""

from textbook.checks.released import exercise


def _stands_in(check, answer, Y, W_O):
    """Whether the outputs are off by a vector that is the same at all positions."""
    off = answer(Y, W_O) - check.reference(Y, W_O)
    if (off - off[:1, :, :1]).abs().max() > 1e-9:
        return None
    return (
        "In the place of each head stands the same vector everywhere, but not the right one: it "
        "has to be the mean of the outputs of this head, over all positions of all sequences."
    )


def _removal_cases(draw, more=()):
    """B, h, n, size and m; positions and sequences differ much."""
    sizes = [(1, 2, 3, 2, 4), (2, 3, 4, 2, 6), (3, 2, 3, 4, 5)]
    for batch, heads, n, size, out in [*sizes, *more]:
        shift = 3 * draw.normal(batch, heads, n, 1)
        yield draw.normal(batch, heads, n, size) + shift, draw.normal(heads * size, out)


without_each_head = exercise(
    "without_each_head",
    cases=_removal_cases,
    reasons=(_stands_in,),
    see='chapter 06, "Removing heads (E3)"',
)
