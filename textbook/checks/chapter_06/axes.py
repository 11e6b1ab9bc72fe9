"""Heads as an axis: what one product made is split, and scores are mixed across all heads."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.exercise import Draw
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

# Pieces


def split(X, heads):
    """(B, n, d) -> (B, heads, n, d/heads)."""
    return X.reshape(*X.shape[:2], heads, -1).transpose(1, 2)


def split_without_transpose(X, heads):
    """The same shape as ``split``, but consecutive numbers of memory: positions get mixed."""
    return X.reshape(len(X), heads, X.shape[1], -1)


def merge(X):
    """(B, heads, n, size) -> (B, n, heads size)."""
    return X.transpose(1, 2).flatten(2)


def merge_without_transpose(X):
    """The same shape as ``merge``, from consecutive numbers of memory."""
    return X.reshape(len(X), X.shape[2], -1)


def scaled_scores(query, key):
    """(..., T, size), (..., n, size) -> (..., T, n)."""
    return query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5


# Splitting what one product made


def _fused_cases(draw, more=()):
    """Batch, positions, heads and size of a head, all different but in one."""
    sizes = [(1, 3, 2, 2), (2, 3, 4, 1), (2, 4, 3, 5)]
    for batch, n, heads, size in [*sizes, *more]:
        yield draw.normal(batch, n, 3 * heads * size), heads


def _cut_up(check, answer, P, heads):
    """Whether the query, which may be all that is right, is brought to its shape by a reshape."""
    query = P.unflatten(-1, (heads, 3, -1))[:, :, :, 0]
    if mt.equal(answer(P, heads)[0], split_without_transpose(query.flatten(2), heads)):
        return (
            "The query has its shape by a reshape, which mixes positions: exchange the axes of "
            "positions and heads, transpose(1, 2)."
        )
    return None


split_fused = exercise(
    "split_fused",
    cases=_fused_cases,
    reasons=(_cut_up,),
    see='chapter 06, "Heads as an axis"',
)


# Heads that talk

PRODUCTS = "einsum_", "exp", "matmul", "mul", "softmax"


def _projected(draw, batch, steps, n, d, d_v):
    return draw.normal(batch, steps, d), draw.normal(batch, n, d), draw.normal(batch, n, d_v)


def _talking_cases(draw, others=()):
    """B, T, n, d, d_v, maps and heads; in the last case scores of thousands."""
    sizes = others or [(1, 3, 3, 4, 4, 2, 2), (2, 3, 4, 8, 6, 3, 2), (2, 4, 3, 6, 8, 2, 3)]
    for batch, steps, n, d, d_v, maps, heads in sizes:
        yield *_projected(draw, batch, steps, n, d, d_v), draw.normal(maps, heads)
    query, key, value = _projected(draw, 1, 3, 4, 6, 4)
    yield 50 * query, 50 * key, value, draw.normal(2, 3)


def _products(answer, heads):
    draw = Draw(0)
    with record_operations() as operations:
        answer(*_projected(draw, 2, 3, 3, 8, 8), draw.normal(heads, heads))
    return sum(name in PRODUCTS for name in operations)


def _has_no_loop(answer, *case):
    if _products(answer, 8) > _products(answer, 2):
        return (
            "Your answer runs more products with eight heads than with two. Make the heads an "
            "axis, and one product does for all of them: no loop over the heads."
        )
    return None


def _positions_stay_apart(answer, *case):
    draw = Draw(0)
    query, key, value = _projected(draw, 1, 3, 3, 4, 4)
    mix, others = draw.normal(2, 2), query.clone()
    others[:, 1:] += 1
    found, after = (answer(each, key, value, mix)[:, 0] for each in (query, others))
    if not mt.allclose(found, after):
        return "The output of a position must not depend on the queries of other positions."
    return None


@recorded
def _attended(*inputs):
    """What a right answer gives."""
    return talking_heads.reference(*inputs)


def _rows_of_mix_are_maps(answer, *case):
    draw = Draw(0)
    inputs, mix = _projected(draw, 1, 3, 3, 4, 4), draw.normal(2, 2)
    if mt.allclose(answer(*inputs, mix), _attended(*inputs, mix.T)):
        return (
            "mix is read transposed: it is (maps, heads), and its row g makes map g of the "
            "scores of all heads."
        )
    return None


talking_heads = exercise(
    "talking_heads",
    cases=_talking_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="reshape, transpose, @ and softmax",
    properties=(_rows_of_mix_are_maps, _positions_stay_apart, _has_no_loop),
    see='chapter 06, "Heads as an axis"',
)
