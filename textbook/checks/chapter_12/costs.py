"""What a model costs, counted beforehand: bytes of the cache, FLOPs of a block."""

from textbook.checks.reasons import part_that_differs
from textbook.checks.released import exercise

# The cache


def _cache_cases(draw):
    """Tokens n, layers, width, heads, key heads, window, full layers, bits a number."""
    yield 3, 2, 8, 4, 2, 2, 1, 16
    yield 1000, 12, 768, 12, 4, 256, 4, 8
    yield 200, 5, 60, 6, 3, 300, 2, 16
    yield 4096, 26, 2048, 16, 8, 512, 6, 4


cache_bytes = exercise(
    "cache_bytes",
    cases=_cache_cases,
    see='chapter 12, "The bill"',
)


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


block_flops = exercise(
    "block_flops",
    cases=_flops_cases,
    reasons=(_part,),
    see='chapter 12, "The bill"',
)
