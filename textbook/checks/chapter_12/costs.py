"""What a model costs, counted beforehand: bytes of the cache, FLOPs of a block."""

from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_that_differs

# The cache


def _cache_cases(draw):
    """Tokens n, layers, width, heads, key heads, window, full layers, bits a number."""
    yield 3, 2, 8, 4, 2, 2, 1, 16
    yield 1000, 12, 768, 12, 4, 256, 4, 8
    yield 200, 5, 60, 6, 3, 300, 2, 16
    yield 4096, 26, 2048, 16, 8, 512, 6, 4


@exercise(
    cases=_cache_cases,
    hidden_cases=lambda draw: [
        (5, 3, 24, 6, 2, 4, 1, 4),
        (4000, 30, 1536, 12, 4, 1000, 10, 8),
        (700, 9, 320, 10, 5, 900, 3, 16),
        (131072, 48, 4096, 32, 8, 4096, 8, 4),
    ],
    see='chapter 12, "The bill"',
)
def cache_bytes(n, layers, width, heads, key_heads, window, full_layers, bits):
    """The bytes of the cache after n tokens."""
    places = full_layers * n + (layers - full_layers) * min(n, window)
    return places * 2 * key_heads * (width // heads) * bits / 8


# FLOPs of a block


def _flops_cases(draw):
    """New tokens T, tokens n in all, width, hidden, heads, key heads."""
    yield 2, 3, 4, 5, 2, 1
    yield 16, 16, 32, 85, 8, 2
    yield 1, 300, 40, 100, 4, 2
    yield 7, 50, 24, 64, 6, 6


def _projections(case):
    T, _, width, _, heads, key_heads = case
    return {
        "the queries": 2 * T * width**2,
        "keys and values": 4 * T * width * (width // heads * key_heads),
        "the way back": 2 * T * width**2,
    }


def _scores(case):
    T, n, width, *_ = case
    return {"the scores": 2 * T * n * width, "the mixing of the values": 2 * T * n * width}


def _network(case):
    T, _, width, hidden, *_ = case
    return {f"a matrix ({one}) of the network": 2 * T * width * hidden for one in "123"}


def _others(part):
    """The whole part as it is, and computed for other tokens or heads than those it is for."""

    def others(case):
        T, n, width, hidden, heads, key_heads = case
        whole = sum(part(case).values())
        found = {"all of it": whole}
        if part is _scores:
            found["the scores that are masked, which are computed, too"] = -2 * T * (T - 1) * width
            found["all heads but one"] = whole * (heads - 1) / heads
        else:
            found["the tokens in the cache, which have had their turn"] = whole * (n - T) / T
        return found

    return others


def _part(check, answer, *_):
    """The part of the three counts that is wrong, and by what."""
    cases = (3, 7, 12, 10, 4, 2), (4, 11, 18, 7, 6, 3), (2, 9, 20, 30, 5, 1)
    parts = {"projections": _projections, "scores": _scores, "network": _network}
    for name, part in parts.items():
        found = part_that_differs(
            lambda case: answer(*case)[name],  # noqa: B023
            part,
            _others(part),
            cases,
        )
        if found:
            return f"In '{name}': {found[0].lower()}{found[1:]}"
    return None


@exercise(
    cases=_flops_cases,
    hidden_cases=lambda draw: [
        (2, 5, 6, 7, 3, 1),
        (30, 30, 48, 128, 8, 4),
        (1, 999, 64, 171, 8, 2),
        (17, 600, 96, 200, 12, 12),
    ],
    reasons=(_part,),
    see='chapter 12, "The bill"',
)
def block_flops(T, n, width, hidden, heads, key_heads):
    """FLOPs of projections, of scores and mixing, and of the network, for T new of n tokens."""
    key_width = width // heads * key_heads
    return {
        "projections": 2 * T * width * (2 * width + 2 * key_width),
        "scores": 4 * T * n * width,
        "network": 6 * T * width * hidden,
    }
