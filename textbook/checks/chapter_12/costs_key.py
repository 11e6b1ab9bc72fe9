"""Answers to the exercises of ``costs.py``."""

from fractions import Fraction

import minitorch as mt
from textbook.checks.chapter_12.costs import block_flops, cache_bytes

# The cache


@cache_bytes.answer(
    hidden_cases=lambda draw: [
        (5, 3, 24, 6, 2, 4, 1, 4),
        (4000, 30, 1536, 12, 4, 1000, 10, 8),
        (700, 9, 320, 10, 5, 900, 3, 16),
        (131072, 48, 4096, 32, 8, 4096, 8, 4),
    ]
)
def cache_bytes(n, layers, width, heads, key_heads, window, full_layers, bits):
    """The bytes of the cache after n tokens."""
    places = full_layers * n + (layers - full_layers) * min(n, window)
    return places * 2 * key_heads * (width // heads) * bits / 8


# FLOPs of a block


@block_flops.answer(
    hidden_cases=lambda draw: [
        (2, 5, 6, 7, 3, 1),
        (30, 30, 48, 128, 8, 4),
        (1, 999, 64, 171, 8, 2),
        (17, 600, 96, 200, 12, 12),
    ]
)
def block_flops(T, n, width, hidden, heads, key_heads):
    """FLOPs of projections, of scores and mixing, and of the network, for T new of n tokens."""
    key_width = width // heads * key_heads
    return {
        "projections": 2 * T * width * (2 * width + 2 * key_width),
        "scores": 4 * T * n * width,
        "network": 6 * T * width * hidden,
    }


# Right in another way


def bytes_in_a_loop(n, layers, width, heads, key_heads, window, full_layers, bits):
    numbers = 0
    for layer in range(layers):
        kept = n if layer < full_layers else min(window, n)
        for _ in range(key_heads):
            numbers += kept * (width // heads) + kept * (width // heads)
    return numbers * bits // 8


def bytes_as_a_fraction(n, layers, width, heads, key_heads, window, full_layers, bits):
    row = Fraction(2 * key_heads * width * bits, 8 * heads)
    windowed = (layers - full_layers) * (n if n < window else window)
    return row * (windowed + n * full_layers)


def product(n, k, m):
    return 2 * n * k * m


def flops_of_products(T, n, width, hidden, heads, key_heads):
    size = width // heads
    projections = product(T, width, width) * 2 + product(T, width, key_heads * size) * 2
    scores = sum(product(T, size, n) + product(T, n, size) for _ in range(heads))
    network = product(T, width, 2 * hidden) + product(T, hidden, width)
    return {"projections": projections, "scores": scores, "network": network}


def flops_as_tensors(T, n, width, hidden, heads, key_heads):
    each = mt.tensor([2 * width**2 * (1 + key_heads / heads), 2 * n * width, 3 * width * hidden])
    counts = (2 * T * each).tolist()
    return dict(zip(("projections", "scores", "network"), counts, strict=True))


right = {
    "cache_bytes": [bytes_in_a_loop, bytes_as_a_fraction],
    "block_flops": [flops_of_products, flops_as_tensors],
}
