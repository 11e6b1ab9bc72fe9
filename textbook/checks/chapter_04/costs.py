"""What the score functions cost."""

from textbook.checks.reasons import no_whole_number, part_by_part
from textbook.checks.released import exercise


def _size_cases(draw, more=()):
    """More queries than keys and fewer, ranks on both sides of the line, one large case."""
    yield from [
        (2, 3, 4, 1),
        (5, 3, 8, 4),
        (1, 12, 16, 2),
        (12, 12, 64, 16),
        (3, 7, 5, 9),
        (3, 3, 3, 2),
    ]
    yield 10**18 + 7, 10**18 + 1, 10**18 + 3, 1000
    yield from more


def _dot(T, n, d, r):
    return 2 * T * n * d


def _projected(T, n, d, r):
    return 2 * (T + n) * d * r


ONE = "a multiplication with its addition is counted as one FLOP, not two"
SLIPS = {
    "dot product": {
        ONE: lambda T, n, d, r: T * n * d,
        "d - 1 additions are counted; each of d multiplications has one": (
            lambda T, n, d, r: T * n * (2 * d - 1)
        ),
        "one query is counted; each of T meets each of n keys": lambda T, n, d, r: 2 * n * d,
    },
    "multiplicative": {
        ONE: lambda T, n, d, r: min(T, n) * d * d + T * n * d,
        "W is applied to the side that has more; the other one is cheaper": (
            lambda T, n, d, r: 2 * max(T, n) * d * d + _dot(T, n, d, r)
        ),
        "W is applied to the queries in any case": (
            lambda T, n, d, r: 2 * T * d * d + _dot(T, n, d, r)
        ),
        "W is applied to the keys in any case": (
            lambda T, n, d, r: 2 * n * d * d + _dot(T, n, d, r)
        ),
        "W is applied to both sides": lambda T, n, d, r: 2 * (T + n) * d * d + _dot(T, n, d, r),
        "W is applied for each pair anew": lambda T, n, d, r: 2 * T * n * d * (d + 1),
        "W is applied to one vector alone": lambda T, n, d, r: 2 * d * d + _dot(T, n, d, r),
        "the products of the pairs are missing": lambda T, n, d, r: 2 * min(T, n) * d * d,
        "it takes the rank: W has d rows": lambda T, n, d, r: 2 * min(T, n) * d * r + 2 * T * n * r,
    },
    "reduced rank": {
        ONE: lambda T, n, d, r: (T + n) * d * r + T * n * r,
        "the projections are missing": lambda T, n, d, r: 2 * T * n * r,
        "the products of the pairs are missing": _projected,
        "the cheaper side alone is projected": (
            lambda T, n, d, r: 2 * min(T, n) * d * r + 2 * T * n * r
        ),
        "the queries alone are projected": lambda T, n, d, r: 2 * T * d * r + 2 * T * n * r,
        "the keys alone are projected": lambda T, n, d, r: 2 * n * d * r + 2 * T * n * r,
        "each pair is projected anew": lambda T, n, d, r: 4 * T * n * d * r + 2 * T * n * r,
        "the projected vectors are taken to have d numbers": (
            lambda T, n, d, r: _projected(T, n, d, r) + _dot(T, n, d, r)
        ),
    },
    "additive": {
        ONE: lambda T, n, d, r: (T + n) * d * r + T * n * r,
        "the product with w is missing": _projected,
        "the product with w is counted for one pair": (
            lambda T, n, d, r: _projected(T, n, d, r) + 2 * r
        ),
        "the product with w takes d numbers; there are r": (
            lambda T, n, d, r: _projected(T, n, d, r) + _dot(T, n, d, r)
        ),
        "the projections are missing": lambda T, n, d, r: 2 * T * n * r,
        "each pair is projected anew": lambda T, n, d, r: 4 * T * n * d * r + 2 * T * n * r,
        "sums are counted, too": lambda T, n, d, r: _projected(T, n, d, r) + 3 * T * n * r,
        "sums and tanh are counted, too": lambda T, n, d, r: _projected(T, n, d, r) + 4 * T * n * r,
    },
    "largest rank": {
        "it is rounded to the nearest; one rank more costs more: round down": (
            lambda T, n, d, r: round(T * n * d / ((T + n) * d + T * n))
        ),
        "it is rounded up; one rank more costs more: round down": (
            lambda T, n, d, r: -(-T * n * d // ((T + n) * d + T * n))
        ),
        "the products of the pairs, r numbers each, are missing in what it costs": (
            lambda T, n, d, r: T * n // (T + n)
        ),
        "it is cheaper than the dot product; as much is allowed": (
            lambda T, n, d, r: (T * n * d - 1) // ((T + n) * d + T * n)
        ),
        "it is at least 1; it is 0 where even one costs more": (
            lambda T, n, d, r: max(1, T * n * d // ((T + n) * d + T * n))
        ),
        "it is at most r; r is not asked for here": (
            lambda T, n, d, r: min(r, T * n * d // ((T + n) * d + T * n))
        ),
        "it is d": lambda T, n, d, r: d,
        "it is d - 1": lambda T, n, d, r: d - 1,
        "it is the smaller one of T and n": lambda T, n, d, r: min(T, n),
        "the projection of one side is missing in what it costs": (
            lambda T, n, d, r: T * n * d // (n * d + T * n)
        ),
        "it is where the multiplicative score costs as much": (
            lambda T, n, d, r: (min(T, n) * d * d + T * n * d) // ((T + n) * d + T * n)
        ),
    },
}


score_costs = exercise(
    "score_costs",
    cases=_size_cases,
    gradients=False,
    properties=(no_whole_number,),
    reasons=(part_by_part(SLIPS),),
    see='chapter 04, "Four score functions"',
)
