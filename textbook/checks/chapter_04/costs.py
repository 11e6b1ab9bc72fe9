"""What the score functions cost."""

from textbook.checks.exercise import exercise
from textbook.checks.reasons import no_whole_number, part_by_part


def _size_cases(draw, hidden):
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
    if hidden:
        yield from [(1, 1, 1, 1), (40, 3, 100, 7), (6, 50, 33, 5), (128, 64, 512, 64)]


def _costing(
    dot=lambda T, n, d, r: 2 * T * n * d,
    multiplicative=lambda T, n, d, r: 2 * min(T, n) * d * d + 2 * T * n * d,
    reduced=lambda T, n, d, r: 2 * (T + n) * d * r + 2 * T * n * r,
    additive=lambda T, n, d, r: 2 * (T + n) * d * r + 2 * T * n * r,
    rank=lambda T, n, d, r: T * n * d // ((T + n) * d + T * n),
):
    """The costs with one of their pieces exchanged."""

    def costing(T, n, d, r):
        return {
            "dot product": dot(T, n, d, r),
            "multiplicative": multiplicative(T, n, d, r),
            "reduced rank": reduced(T, n, d, r),
            "additive": additive(T, n, d, r),
            "largest rank": rank(T, n, d, r),
        }

    return costing


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


@exercise(
    cases=_size_cases,
    gradients=False,
    properties=(no_whole_number,),
    reasons=(part_by_part(SLIPS),),
    see='chapter 04, "Four score functions"',
)
def score_costs(T, n, d, r):
    """FLOPs of four score functions for T queries and n keys of d numbers: a dict."""
    pairs = 2 * T * n
    projected = 2 * (T + n) * d * r  # queries and keys, each by a matrix (r, d)
    return {
        "dot product": pairs * d,
        "multiplicative": 2 * min(T, n) * d * d + pairs * d,
        "reduced rank": projected + pairs * r,
        "additive": projected + pairs * r,
        "largest rank": T * n * d // ((T + n) * d + T * n),
    }


for name, hint, pieces in (
    (
        "right but for the multiplicative score, which always projects the keys",
        "W may be applied to the queries or to the keys: to those that are fewer.",
        dict(multiplicative=lambda T, n, d, r: 2 * n * d * d + 2 * T * n * d),
    ),
    (
        "right but for the multiplicative score, which always projects the queries",
        "W may be applied to the queries or to the keys: to those that are fewer.",
        dict(multiplicative=lambda T, n, d, r: 2 * T * d * d + 2 * T * n * d),
    ),
    (
        "right but for the multiplicative score, which projects queries and keys",
        "One matrix, applied to one side.",
        dict(multiplicative=lambda T, n, d, r: 2 * (T + n) * d * d + 2 * T * n * d),
    ),
    (
        "right but for the multiplicative score, which projects for every pair anew",
        "Project once, then take the products of all pairs.",
        dict(multiplicative=lambda T, n, d, r: 2 * T * n * d * d + 2 * T * n * d),
    ),
    (
        "right but for the multiplicative score, which lacks the products of pairs",
        "After the projection each query meets each key.",
        dict(multiplicative=lambda T, n, d, r: 2 * min(T, n) * d * d),
    ),
    (
        "right but for the reduced rank, for whose pairs it takes d numbers",
        "The projected vectors have r numbers.",
        dict(reduced=lambda T, n, d, r: 2 * (T + n) * d * r + 2 * T * n * d),
    ),
    (
        "right but for the reduced rank, which projects the keys alone",
        "Both sides: U for the queries, V for the keys.",
        dict(reduced=lambda T, n, d, r: 2 * n * d * r + 2 * T * n * r),
    ),
    (
        "right but for the reduced rank, whose two matrices it multiplies first",
        "That makes the large matrix again. Project each side.",
        dict(reduced=lambda T, n, d, r: 2 * d * d * r + 2 * min(T, n) * d * d + 2 * T * n * d),
    ),
    (
        "right but for the additive score, which lacks the product with w",
        "For each pair the r numbers after the tanh meet w.",
        dict(additive=lambda T, n, d, r: 2 * (T + n) * d * r),
    ),
    (
        "right but for the additive score, which projects for every pair anew",
        "Project queries and keys once each; pairs are made by adding.",
        dict(additive=lambda T, n, d, r: 4 * T * n * d * r + 2 * T * n * r),
    ),
    (
        "right but for the additive score, in which it counts sums and tanh, too",
        "Only products of matrices are counted here, as `count_flops` does.",
        dict(additive=lambda T, n, d, r: 2 * (T + n) * d * r + 4 * T * n * r),
    ),
    (
        "right but for the largest rank, with which it wants to be cheaper than the dot product",
        "No more than the dot product: as much is allowed.",
        dict(rank=lambda T, n, d, r: (T * n * d - 1) // ((T + n) * d + T * n)),
    ),
    (
        "right but for the largest rank, which it rounds up",
        "One rank more costs more than the dot product already: round down.",
        dict(rank=lambda T, n, d, r: -(-T * n * d // ((T + n) * d + T * n))),
    ),
    (
        "right but for the largest rank, which it computes in floating point",
        "// divides whole numbers exactly; / does not where they are large.",
        dict(rank=lambda T, n, d, r: int(T * n * d / ((T + n) * d + T * n))),
    ),
    (
        "right but for the largest rank, which is a fraction",
        "A rank is a whole number: //.",
        dict(rank=lambda T, n, d, r: T * n * d / ((T + n) * d + T * n)),
    ),
    (
        "right but for the largest rank, which is at least 1",
        "It is 0 where even a rank of 1 costs more than the dot product.",
        dict(rank=lambda T, n, d, r: max(1, T * n * d // ((T + n) * d + T * n))),
    ),
    (
        "right but for the largest rank, at which it is cheaper than the multiplicative score",
        "Compare with the dot product.",
        dict(rank=lambda T, n, d, r: (min(T, n) * d * d + T * n * d) // ((T + n) * d + T * n)),
    ),
):
    score_costs.wrong(name, hint)(_costing(**pieces))


@score_costs.wrong(
    "right if a multiplication with its addition were one FLOP",
    "It is two, as count_flops counts.",
)
def _(T, n, d, r):
    found = score_costs.reference(T, n, d, r)
    return {name: x if name == "largest rank" else x // 2 for name, x in found.items()}
