"""What the score functions cost."""

from textbook.checks.exercise import exercise


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


@exercise(cases=_size_cases, gradients=False, see='chapter 04, "Four score functions"')
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
