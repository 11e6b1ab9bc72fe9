"""Heads as lists of matrices, and what they cost."""

from textbook.checks.reasons import no_whole_number, part_by_part
from textbook.checks.released import exercise

# One head after the other


def _loop_cases(draw, others=()):
    """B, n, d, the sizes of keys and values of each head, and the size of the outputs."""
    cases = others or [(1, 3, 4, [(2, 2), (2, 2)], 4), (2, 3, 5, [(1, 3), (4, 2), (2, 1)], 6)]
    for batch, n, d, sizes, out in cases:
        X = draw.normal(batch, n, d)
        Q, K = ([draw.normal(d, size) for size, _ in sizes] for _ in "QK")
        V = [draw.normal(d, size) for _, size in sizes]
        yield X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)
        if n == 3:
            yield 40 * X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)


heads_in_a_loop = exercise(
    "heads_in_a_loop",
    cases=_loop_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose, softmax and mt.cat",
    see='chapter 06, "Heads in a loop"',
)


# What heads cost


def _cost_cases(draw, more=()):
    yield from [(1, 1, 4, 2, 1), (2, 3, 4, 2, 2), (5, 6, 24, 6, 2), (3, 7, 12, 4, 4)]
    yield from more


MISSING = {
    "one of the two matrices of keys and values is missing": (
        lambda T, n, d, heads, groups: 2 * d * d + groups * d * d // heads
    ),
    "both matrices of keys and values are missing": lambda T, n, d, heads, groups: 2 * d * d,
    "one of the matrices of queries and output is missing": (
        lambda T, n, d, heads, groups: d * d + 2 * groups * d * d // heads
    ),
}

attention_cost = exercise(
    "attention_cost",
    cases=_cost_cases,
    reasons=(part_by_part({"weights": MISSING}),),
    properties=(no_whole_number,),
    gradients=False,
    see='chapter 06, "What heads cost"',
)
