"""Distance in the scores: a fixed slope, or learned vectors for keys and values."""

import minitorch as mt
from textbook.checks.released import exercise

# A bias for distance


def _bias_cases(draw, more=()):
    yield from [(3, 3, 2), (2, 4, 3), (1, 5, 8)]
    yield from more


alibi_bias = exercise(
    "alibi_bias",
    cases=_bias_cases,
    gradients=False,
    see='chapter 08, "A bias for distance"',
)


# A vector for each difference


def _masks(draw, mask, batch, heads, n):
    """None, or where to look: every query may look at itself."""
    if mask is None:
        return None
    if mask == "causal":
        return mt.ones(n, n).tril().bool()
    shape = {"heads": (batch, heads, n, n), "sequences": (batch, 1, n, n), "pairs": (n, n)}[mask]
    return (draw.integers(3, *shape) > 0) | mt.eye(n).bool()


def _relative_cases(draw, others=()):
    """Sizes (B, h, n, d, size of a value) and c, differences within c and beyond, and masks."""
    sizes = others or [
        (1, 1, 3, 2, 3, 1, None),
        (2, 3, 4, 3, 2, 1, "causal"),
        (2, 2, 3, 4, 5, 4, "heads"),
    ]
    for i, (batch, heads, n, d, size, c, mask) in enumerate(sizes):
        query, key = draw.normal(batch, heads, n, d), draw.normal(batch, heads, n, d)
        scale = 3000.0 if i == 1 else 1.0  # scores in the thousands
        yield (
            scale * query,
            key,
            draw.normal(batch, heads, n, size),
            draw.normal(2 * c + 1, d),
            draw.normal(2 * c + 1, size),
            _masks(draw, mask, batch, heads, n),
        )


relative_attention = exercise(
    "relative_attention",
    cases=_relative_cases,
    gradients=False,
    see='chapter 08, "Relative positions"',
)
