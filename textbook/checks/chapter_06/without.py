"""The output of the layer without each head."""

from textbook.checks.exercise import exercise


def _removal_cases(draw, more=()):
    """B, h, n, size and m; positions and sequences differ much."""
    sizes = [(1, 2, 3, 2, 4), (2, 3, 4, 2, 6), (3, 2, 3, 4, 5)]
    for batch, heads, n, size, out in [*sizes, *more]:
        shift = 3 * draw.normal(batch, heads, n, 1)
        yield draw.normal(batch, heads, n, size) + shift, draw.normal(heads * size, out)


@exercise(
    cases=_removal_cases,
    hidden_cases=lambda draw: _removal_cases(draw, more=[(4, 5, 3, 2, 7), (2, 1, 6, 4, 3)]),
    see='chapter 06, "Removing heads (E3)"',
)
def without_each_head(Y, W_O):
    """Y (B, h, n, size) and W_O (h size, m) give the outputs without each head, (B, h, n, m)."""
    _, heads, _, size = Y.shape
    output = Y.transpose(1, 2).flatten(2) @ W_O  # (B, n, m)
    change = Y.mean(dim=(0, 2), keepdim=True) - Y  # (B, heads, n, size)
    return output.unsqueeze(1) + change @ W_O.reshape(heads, size, -1)
