"""The output of the layer without each head."""

from textbook.checks.released import exercise


def _removal_cases(draw, more=()):
    """B, h, n, size and m; positions and sequences differ much."""
    sizes = [(1, 2, 3, 2, 4), (2, 3, 4, 2, 6), (3, 2, 3, 4, 5)]
    for batch, heads, n, size, out in [*sizes, *more]:
        shift = 3 * draw.normal(batch, heads, n, 1)
        yield draw.normal(batch, heads, n, size) + shift, draw.normal(heads * size, out)


without_each_head = exercise(
    "without_each_head",
    cases=_removal_cases,
    see='chapter 06, "Removing heads (E3)"',
)
