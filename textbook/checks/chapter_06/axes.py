"""Heads as an axis: split, merge, and attention in all heads at once."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.exercise import Draw, exercise

# Splitting


def _split_cases(draw, hidden):
    """Among them, batch, positions, heads and size of a head that are all different."""
    sizes = [(1, 3, 4, 2), (2, 3, 8, 2), (2, 4, 3, 1)]
    for batch, n, d, heads in sizes + [(2, 6, 15, 3), (4, 1, 10, 5)] * hidden:
        yield draw.normal(batch, n, d), heads


def split(X, heads):
    """(B, n, d) -> (B, heads, n, d/heads)."""
    return X.reshape(*X.shape[:2], heads, -1).transpose(1, 2)


def split_without_transpose(X, heads):
    """The same shape as ``split``, but consecutive numbers of memory: positions get mixed."""
    return X.reshape(len(X), heads, X.shape[1], -1)


def split_every_other(X, heads):
    """Head l takes columns l, l + heads, l + 2 heads, ..."""
    return X.reshape(*X.shape[:2], -1, heads).permute(0, 3, 1, 2)


@exercise(cases=_split_cases, see='chapter 06, "The mistake that mixes positions"')
def split_heads(X, heads):
    """X (B, n, d) gives (B, heads, n, d/heads)."""
    batch, n, d = X.shape
    return X.reshape(batch, n, heads, d // heads).transpose(1, 2)  # (B, heads, n, d/heads)


split_heads.wrong(
    "right in its shape alone: it cuts up the memory, and mixes positions",
    "X.reshape(B, heads, n, d/heads) hands out the numbers in the order in which they lie, so that "
    "head 0 gets all of the first positions and nothing of the last. Cut the last axis in two, "
    "(B, n, heads, d/heads), then transpose.",
)(split_without_transpose)
split_heads.wrong(
    "a transpose of what was cut up wrongly: it mixes positions",
    "reshape keeps the numbers in the order in which they lie, position by position: the axes are "
    "(B, n, heads, d/heads) at first. Then transpose axes 1 and 2.",
)(lambda X, heads: split_without_transpose(X, heads).transpose(1, 2))
split_heads.wrong(
    "right in its shape alone: positions and columns have been exchanged before the cut",
    "Cut the last axis in two first, (B, n, heads, d/heads), then transpose axes 1 and 2.",
)(lambda X, heads: X.transpose(1, 2).reshape(len(X), heads, X.shape[1], -1))
split_heads.wrong(
    "right but for the transpose, which is missing",
    "The axis of the heads comes before that of the positions: (B, heads, n, d/heads).",
)(lambda X, heads: split(X, heads).transpose(1, 2))
split_heads.wrong(
    "a split into interleaved heads, which take the columns in turn",
    "A head is a block of columns side by side: head 0 has columns 0 to d/heads - 1.",
)(split_every_other)
split_heads.wrong(
    "a split into d/heads heads of size heads",
    "The last axis, of size d, becomes (heads, d/heads): first how many, then how large.",
)(lambda X, heads: split(X, X.shape[-1] // heads))
split_heads.wrong(
    "right but for the order of the axes: the heads come before the batch",
    "The batch stays in front: (B, heads, n, d/heads).",
)(lambda X, heads: split(X, heads).transpose(0, 1))
split_heads.wrong(
    "right but for the last two axes, which are exchanged",
    "The last axis holds the numbers of one position in one head: (B, heads, n, d/heads). Only "
    "keys are transposed like that, later, for the product.",
)(lambda X, heads: split(X, heads).transpose(2, 3))
split_heads.wrong(
    "right but for the heads, which have been folded into the batch",
    "Keep both axes: (B, heads, n, d/heads).",
)(lambda X, heads: split(X, heads).flatten(0, 1))
split_heads.wrong(
    "a list of heads, not a tensor",
    "Put them side by side along a new axis 1: mt.stack(..., dim=1).",
)(lambda X, heads: list(split(X, heads).unbind(1)))
split_heads.wrong(
    "right but for the order of the heads: the last one comes first",
    "Head 0 has the first columns.",
)(lambda X, heads: split(X, heads).flip(1))


# Merging


def _merge_cases(draw, hidden):
    for size in [(1, 2, 3, 2), (2, 2, 3, 4), (2, 1, 4, 3)] + [(2, 3, 6, 5), (4, 5, 1, 2)] * hidden:
        yield (draw.normal(*size),)


def merge(X):
    """(B, heads, n, size) -> (B, n, heads size)."""
    return X.transpose(1, 2).flatten(2)


def merge_without_transpose(X):
    """The same shape as ``merge``, from consecutive numbers of memory."""
    return X.reshape(len(X), X.shape[2], -1)


def merge_every_other(X):
    """Columns 0, heads, 2 heads, ... are those of head 0."""
    return X.permute(0, 2, 3, 1).flatten(2)


@exercise(cases=_merge_cases, see='chapter 06, "Joining the heads"')
def merge_heads(X):
    """X (B, heads, n, size) gives (B, n, heads * size)."""
    batch, heads, n, size = X.shape
    return X.transpose(1, 2).reshape(batch, n, heads * size)


merge_heads.wrong(
    "right in its shape alone: it joins up the memory, and mixes positions",
    "reshape joins axes that stand side by side. Bring heads and size together first: (B, heads, "
    "n, size) to (B, n, heads, size) is a transpose.",
)(merge_without_transpose)
merge_heads.wrong(
    "a merge into interleaved columns: those of one head are heads apart",
    "The columns of a head stay side by side: head 0 first, then head 1. So the order before the "
    "reshape is (B, n, heads, size).",
)(merge_every_other)
merge_heads.wrong(
    "a merge after a transpose of the wrong axes: positions and numbers are exchanged",
    "Exchange axes 1 and 2, the heads and the positions.",
)(lambda X: merge_without_transpose(X.transpose(2, 3)))
merge_heads.wrong(
    "a merge after a transpose of the wrong axes: heads and numbers are exchanged",
    "Exchange axes 1 and 2, the heads and the positions.",
)(lambda X: merge_without_transpose(X.transpose(1, 3)))
merge_heads.wrong(
    "the sum of the heads",
    "The heads are put end to end, not added: the result has heads times size columns.",
)(lambda X: X.sum(dim=1))
merge_heads.wrong(
    "the mean of the heads",
    "The heads are put end to end, not averaged: the result has heads times size columns.",
)(lambda X: X.mean(dim=1))
merge_heads.wrong(
    "a longer sequence: the heads follow each other along the positions",
    "There are n positions as before. The heads go side by side along the last axis.",
)(lambda X: X.flatten(1, 2))
merge_heads.wrong(
    "right but for the order of the heads: the last one comes first",
    "Head 0 has the first columns.",
)(lambda X: merge(X.flip(1)))
merge_heads.wrong(
    "right but for the last reshape: heads and size are still two axes",
    "The result is (B, n, heads times size): flatten(2) joins the last two axes.",
)(lambda X: X.transpose(1, 2))


# All heads at once

PRODUCTS = "einsum_", "exp", "matmul", "mul", "softmax"


def _projected(draw, batch, steps, n, d):
    return draw.normal(batch, steps, d), draw.normal(batch, n, d), draw.normal(batch, n, d)


def _at_once_cases(draw, hidden):
    sizes = [(1, 2, 2, 4, 2), (2, 3, 3, 8, 2), (2, 2, 5, 6, 2)]
    for batch, steps, n, d, heads in sizes + [(3, 6, 7, 12, 3), (1, 1, 4, 5, 5)] * hidden:
        yield *_projected(draw, batch, steps, n, d), heads


def scaled_scores(query, key):
    """(..., T, size), (..., n, size) -> (..., T, n)."""
    return query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5


def _at_once(
    split=split,
    scores=scaled_scores,
    weigh=lambda scores: scores.softmax(dim=-1),
    merge=merge,
):
    """Attention in all heads with one of its pieces exchanged."""

    def attention(query, key, value, heads):
        query, key, value = (split(x, heads) for x in (query, key, value))
        return merge(weigh(scores(query, key)) @ value)

    return attention


def _products(answer, heads):
    with record_operations() as operations:
        answer(*_projected(Draw(0), 2, 3, 3, 8), heads)
    return sum(name in PRODUCTS for name in operations)


def _has_no_loop(answer, *case):
    if _products(answer, 8) > _products(answer, 2):
        return (
            "Your answer runs more products with eight heads than with two. Make the heads an "
            "axis, and one product does for all of them: no loop over the heads."
        )
    return None


def _positions_stay_apart(answer, *case):
    query, key, value = _projected(Draw(0), 1, 3, 3, 4)
    others = query.clone()
    others[:, 1:] += 1
    if not mt.allclose(answer(query, key, value, 2)[:, 0], answer(others, key, value, 2)[:, 0]):
        return "The output of a position must not depend on the queries of other positions."
    return None


@exercise(
    cases=_at_once_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="reshape, transpose, @ and softmax",
    properties=(_positions_stay_apart, _has_no_loop),
    see='chapter 06, "Heads as an axis"',
)
def heads_at_once(query, key, value, heads):
    """query (B, T, d), key and value (B, n, d) give the joined heads (B, T, d)."""
    size = query.shape[-1] // heads
    query, key, value = (
        x.reshape(len(x), -1, heads, size).transpose(1, 2)  # (B, heads, T or n, size)
        for x in (query, key, value)
    )
    scores = query @ key.transpose(2, 3) / size**0.5  # (B, heads, T, n)
    return (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


heads_at_once.wrong(
    "attention over cut-up memory: it splits and merges without a transpose, and mixes positions",
    "x.reshape(B, heads, n, d/heads) is not the split into heads, though it has its shape. Reshape "
    "to (B, n, heads, d/heads), then transpose; and back the same way.",
)(_at_once(split=split_without_transpose, merge=merge_without_transpose))
heads_at_once.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, d/heads), then transpose axes 1 and 2.",
)(_at_once(split=split_without_transpose))
heads_at_once.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose (B, heads, T, d/heads) to (B, T, heads, d/heads) before you join the last two axes.",
)(_at_once(merge=merge_without_transpose))
heads_at_once.wrong(
    "right but for the merge, which is missing",
    "Put the heads side by side again: (B, heads, T, d/heads) to (B, T, d).",
)(_at_once(merge=lambda X: X))
heads_at_once.wrong(
    "attention of the heads of one position to each other: the transpose is missing",
    "The positions attend. The last two axes have to be (T, d/heads), so that the scores are "
    "(B, heads, T, n).",
)(_at_once(split=lambda X, heads: split(X, heads).transpose(1, 2), merge=lambda X: X.flatten(2)))
heads_at_once.wrong(
    "attention in interleaved heads, which take the columns in turn",
    "A head is a block of columns side by side: reshape the last axis to (heads, d/heads).",
)(_at_once(split=split_every_other, merge=merge_every_other))
heads_at_once.wrong(
    "attention in d/heads heads of size heads",
    "The last axis, of size d, becomes (heads, d/heads): first how many, then how large.",
)(_at_once(split=lambda X, heads: split(X, X.shape[-1] // heads)))
heads_at_once.wrong(
    "attention in one head of width d: heads is not used",
    "Each head has its own softmax, over the products of d/heads columns alone.",
)(_at_once(split=lambda X, heads: split(X, 1)))
heads_at_once.wrong(
    "right but for the scale: it divides by the square root of d",
    "The dot product of a head adds up d/heads terms: divide by the square root of that.",
)(
    _at_once(
        scores=lambda query, key: scaled_scores(query, key) / query.shape[1] ** 0.5,
    )
)
heads_at_once.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head, d/heads.",
)(_at_once(scores=lambda query, key: query @ key.transpose(-1, -2)))
heads_at_once.wrong(
    "right but for the scale: it divides by d/heads itself",
    "Divide the scores by the square root of the size of a head.",
)(_at_once(scores=lambda query, key: scaled_scores(query, key) / query.shape[-1] ** 0.5))
heads_at_once.wrong(
    "right but for the scale: it divides by the square root of the number of heads",
    "Divide the scores by the square root of the size of a head, d/heads.",
)(
    _at_once(
        scores=lambda query, key: query @ key.transpose(-1, -2) / query.shape[1] ** 0.5,
    )
)
heads_at_once.wrong(
    "right but for the softmax, which goes over the heads",
    "The keys compete, not the heads: the softmax goes over the last axis of (B, heads, T, n).",
)(_at_once(weigh=lambda scores: scores.softmax(dim=1)))
heads_at_once.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)(_at_once(weigh=lambda scores: scores.softmax(dim=2)))
heads_at_once.wrong(
    "attention in which all heads share the mean of their weights",
    "Each head uses its own weights on its own values. With one map for all, they are one head.",
)(
    _at_once(
        weigh=lambda scores: scores.softmax(dim=-1).mean(dim=1, keepdim=True).expand(*scores.shape)
    )
)
heads_at_once.wrong(
    "attention in which all heads share the mean of their scores",
    "Each head has its own scores and its own softmax. With one map for all, they are one head.",
)(
    _at_once(
        weigh=lambda scores: scores.mean(dim=1, keepdim=True).softmax(dim=-1).expand(*scores.shape)
    )
)
heads_at_once.wrong(
    "right but for the batch, which the heads got mixed with",
    "What was folded as (heads, B) must be unfolded as (heads, B), and (B, heads) as (B, heads). "
    "There is no need to fold: @ takes all axes but the last two as a batch.",
)(_at_once(merge=lambda X: merge(X.transpose(0, 1).reshape(*X.shape))))
