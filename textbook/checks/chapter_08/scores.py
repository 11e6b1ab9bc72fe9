"""Distance in the scores: a fixed slope, or learned vectors for keys and values."""

import minitorch as mt
from textbook.checks.exercise import exercise


def differences(n):
    """j - i: (n, n)."""
    return mt.arange(n) - mt.arange(n).unsqueeze(1)


# A bias for distance


def _bias_cases(draw, more=()):
    yield from [(3, 3, 2), (2, 4, 3), (1, 5, 8)]
    yield from more


def _slopes(heads):
    return 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)


def _published(heads):
    """Those of the next lower power of 2, then every second one of twice as many heads."""
    below = 2 ** (heads.bit_length() - 1)
    return mt.cat([_slopes(below), _slopes(2 * below)[::2][: heads - below]])


@exercise(
    cases=_bias_cases,
    hidden_cases=lambda draw: _bias_cases(draw, more=[(1, 1, 1), (6, 7, 3), (4, 9, 16), (5, 5, 6)]),
    gradients=False,
    after_passing="Shorter: one table of distances, times a column of slopes. Heads differ "
    "by a factor alone.",
    see='chapter 08, "A bias for distance"',
)
def alibi_bias(queries, keys, heads):
    """What is added to the scores of the last places: (heads, queries, keys)."""
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(keys)
    apart = places[keys - queries :].unsqueeze(1) - places  # (queries, keys): i - j
    bias = -slopes.reshape(-1, 1, 1) * apart
    return bias.masked_fill(apart < 0, -mt.inf)


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


@exercise(
    cases=_relative_cases,
    hidden_cases=lambda draw: _relative_cases(
        draw,
        others=[
            (1, 2, 5, 4, 3, 1, None),
            (3, 2, 4, 6, 5, 2, "sequences"),
            (2, 1, 6, 3, 4, 3, "pairs"),
            (1, 2, 1, 4, 2, 2, None),
            (2, 4, 3, 2, 6, 1, "heads"),
        ],
    ),
    gradients=False,
    after_passing="Cheaper: query @ keys_of.T first, n times 2c + 1 numbers, then pick: no "
    "(n, n, d).",
    see='chapter 08, "Relative positions"',
)
def relative_attention(query, key, value, keys_of, values_of, allowed=None):
    """Attention with a vector for each difference, in keys and in values: (B, h, n, e)."""
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places.unsqueeze(1)).clamp(-c, c) + c  # (n, n)
    by_place = (query.unsqueeze(-2) @ keys_of[rows].mT).squeeze(-2)  # (B, h, n, n)
    scores = (query @ key.mT + by_place) / d**0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value + (weights.unsqueeze(-2) @ values_of[rows]).squeeze(-2)
