"""Heads as an axis: what one product made is split, and scores are mixed across all heads."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.exercise import Draw, exercise

# Pieces


def split(X, heads):
    """(B, n, d) -> (B, heads, n, d/heads)."""
    return X.reshape(*X.shape[:2], heads, -1).transpose(1, 2)


def split_without_transpose(X, heads):
    """The same shape as ``split``, but consecutive numbers of memory: positions get mixed."""
    return X.reshape(len(X), heads, X.shape[1], -1)


def split_every_other(X, heads):
    """Head l takes columns l, l + heads, l + 2 heads, ..."""
    return X.reshape(*X.shape[:2], -1, heads).permute(0, 3, 1, 2)


def merge(X):
    """(B, heads, n, size) -> (B, n, heads size)."""
    return X.transpose(1, 2).flatten(2)


def merge_without_transpose(X):
    """The same shape as ``merge``, from consecutive numbers of memory."""
    return X.reshape(len(X), X.shape[2], -1)


def merge_every_other(X):
    """Columns 0, heads, 2 heads, ... are those of head 0."""
    return X.permute(0, 2, 3, 1).flatten(2)


def scaled_scores(query, key):
    """(..., T, size), (..., n, size) -> (..., T, n)."""
    return query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5


# Splitting what one product made


def _fused_cases(draw, hidden):
    """Batch, positions, heads and size of a head, all different but in one."""
    sizes = [(1, 3, 2, 2), (2, 3, 4, 1), (2, 4, 3, 5)]
    for batch, n, heads, size in sizes + [(3, 5, 2, 4), (4, 1, 5, 2), (2, 6, 1, 3)] * hidden:
        yield draw.normal(batch, n, 3 * heads * size), heads


def _fused(axes=lambda heads: (heads, 3, -1), back=None, order=(0, 1, 2)):
    """The split into axes named "h", "3" and "s", with one piece exchanged."""

    def split_in(P, heads):
        cut = P.unflatten(-1, axes(heads))  # (B, n, ...), the heads in axis 2
        parts = back(cut) if back else cut.transpose(1, 2).unbind(3)
        return tuple(parts[i] for i in order)

    return split_in


@exercise(cases=_fused_cases, see='chapter 06, "Heads as an axis"')
def split_fused(P, heads):
    """P (B, n, 3d) gives query, key and value, each (B, heads, n, d/heads)."""
    parts = P.unflatten(-1, (heads, 3, -1))  # (B, n, heads, 3, d/heads)
    return parts.transpose(1, 2).unbind(3)


HEAD_BY_HEAD = (
    "The last axis goes head by head: it is (heads, 3, d/heads), first which head, then which of "
    "the three, then which number."
)
split_fused.wrong(
    "a split into thirds: all queries first, then all keys, then all values",
    "That is the layout of nn.MultiheadAttention. " + HEAD_BY_HEAD,
)(_fused(lambda heads: (3, heads, -1), lambda cut: cut.permute(2, 0, 3, 1, 4)))
split_fused.wrong(
    "a split that takes query, key and value number by number, in turn",
    HEAD_BY_HEAD,
)(_fused(lambda heads: (heads, -1, 3), lambda cut: cut.transpose(1, 2).unbind(4)))
split_fused.wrong(
    "a split into interleaved heads, which take the columns in turn",
    HEAD_BY_HEAD,
)(_fused(lambda heads: (3, -1, heads), lambda cut: cut.permute(2, 0, 4, 1, 3)))
split_fused.wrong(
    "a split into d/heads heads of size heads",
    HEAD_BY_HEAD,
)(lambda P, heads: _fused()(P, P.shape[-1] // 3 // heads))
split_fused.wrong(
    "right for head 0; head l begins at column l d/h, and should at 3 l d/h",
    "Each head has 3 d/h columns, its query, its key and its value.",
)(
    lambda P, heads: tuple(
        P.unflatten(-1, (3 * heads, -1))[:, :, part : part + heads].transpose(1, 2)
        for part in range(3)
    )
)
split_fused.wrong(
    "right in its shapes alone: it cuts up the memory, and mixes positions",
    "A reshape hands out the numbers in the order in which they lie, position after position. Cut "
    "the last axis alone, to (B, n, heads, 3, d/heads), then exchange axes 1 and 2.",
)(lambda P, heads: P.reshape(len(P), heads, P.shape[1], 3, -1).unbind(3))
split_fused.wrong(
    "right but for the transpose, which is missing",
    "The axis of the heads comes before that of the positions: (B, heads, n, d/heads).",
)(_fused(back=lambda cut: cut.unbind(3)))
split_fused.wrong(
    "right but for the order of the axes: the heads come before the batch",
    "The batch stays in front: (B, heads, n, d/heads).",
)(_fused(back=lambda cut: cut.permute(2, 0, 1, 3, 4).unbind(3)))
split_fused.wrong(
    "right but for the key, which is transposed already",
    "All three are (B, heads, n, d/heads). The key is transposed later, for the product.",
)(_fused(back=lambda cut: [x.mT if i == 1 else x for i, x in enumerate(_fused_parts(cut))]))
split_fused.wrong(
    "right but for the order of the results: it is key, query, value",
    "Return query, key, value.",
)(_fused(order=(1, 0, 2)))
split_fused.wrong(
    "right but for the order of the results: it is query, value, key",
    "Return query, key, value.",
)(_fused(order=(0, 2, 1)))
split_fused.wrong(
    "right but for the order of the heads: the last one comes first",
    "Head 0 has the first columns.",
)(_fused(back=lambda cut: [x.flip(1) for x in _fused_parts(cut)]))
split_fused.wrong(
    "right, but one tensor and not three",
    "Return three tensors: unbind takes one apart along an axis.",
)(lambda P, heads: mt.stack(_fused()(P, heads)))
split_fused.wrong(
    "a split in which the whole width of P, 3d, is taken for d",
    "P has 3d columns: d is a third of P.shape[-1], and each part has d/heads numbers of a head.",
)(
    lambda P, heads: [
        P.unflatten(-1, (heads, -1)).transpose(1, 2)[..., first:][..., : P.shape[-1] // heads]
        for first in range(0, 3 * P.shape[-1] // heads, P.shape[-1] // heads)
    ]
)


def _fused_parts(cut):
    return cut.transpose(1, 2).unbind(3)


# Heads that talk

PRODUCTS = "einsum_", "exp", "matmul", "mul", "softmax"


def _projected(draw, batch, steps, n, d, d_v):
    return draw.normal(batch, steps, d), draw.normal(batch, n, d), draw.normal(batch, n, d_v)


def _talking_cases(draw, hidden):
    """B, T, n, d, d_v, maps and heads; in the last case scores of thousands."""
    sizes = [(1, 3, 3, 4, 4, 2, 2), (2, 3, 4, 8, 6, 3, 2), (2, 4, 3, 6, 8, 2, 3)]
    if hidden:
        sizes = [(2, 3, 5, 6, 4, 1, 3), (3, 6, 7, 12, 10, 5, 3), (1, 3, 4, 5, 6, 3, 1)]
    for batch, steps, n, d, d_v, maps, heads in sizes:
        yield *_projected(draw, batch, steps, n, d, d_v), draw.normal(maps, heads)
    query, key, value = _projected(draw, 1, 3, 4, 6, 4)
    yield 50 * query, 50 * key, value, draw.normal(2, 3)


def _mixed(mix, scores):
    """(maps, heads), (B, heads, T, n) -> (B, maps, T, n)."""
    return mt.einsum("gh,bhtn->bgtn", mix, scores)


def _talking(
    split=split,
    split_value=None,
    scores=scaled_scores,
    mixed=_mixed,
    weigh=lambda scores: scores.softmax(dim=-1),
    after=lambda mix, weights: weights,
    merge=merge,
):
    """Attention with mixed scores, one of its pieces exchanged."""

    def attention(query, key, value, mix):
        maps, heads = mix.shape
        query, key = split(query, heads), split(key, heads)
        value = (split_value or split)(value, maps)
        weights = after(mix, weigh(mixed(mix, scores(query, key))))
        return merge(weights @ value)

    return attention


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


def _rows_of_mix_are_maps(answer, *case):
    draw = Draw(0)
    inputs, mix = _projected(draw, 1, 3, 3, 4, 4), draw.normal(2, 2)
    if mt.allclose(answer(*inputs, mix), _talking()(*inputs, mix.T)):
        return (
            "mix is read transposed: it is (maps, heads), and its row g makes map g of the "
            "scores of all heads."
        )
    return None


@exercise(
    cases=_talking_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="reshape, transpose, @ and softmax",
    properties=(_rows_of_mix_are_maps, _positions_stay_apart, _has_no_loop),
    see='chapter 06, "Heads as an axis"',
)
def talking_heads(query, key, value, mix):
    """query (B, T, d), key (B, n, d), value (B, n, d_v), mix (maps, heads): (B, T, d_v)."""
    maps, heads = mix.shape
    query, key = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key))
    value = value.unflatten(-1, (maps, -1)).transpose(1, 2)  # (B, maps, n, d_v/maps)
    scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, heads, T, n)
    mixed = (mix @ scores.flatten(2)).unflatten(-1, scores.shape[2:])  # (B, maps, T, n)
    return (mixed.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


talking_heads.wrong(
    "attention over cut-up memory: it splits and merges without a transpose, and mixes positions",
    "x.reshape(B, heads, n, d/heads) is not the split into heads, though it has its shape. Reshape "
    "to (B, n, heads, d/heads), then transpose; and back the same way.",
)(_talking(split=split_without_transpose, merge=merge_without_transpose))
talking_heads.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, d/heads), then transpose axes 1 and 2.",
)(_talking(split=split_without_transpose))
talking_heads.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose (B, maps, T, d_v/maps) to (B, T, maps, d_v/maps) before you join the last two axes.",
)(_talking(merge=merge_without_transpose))
talking_heads.wrong(
    "right but for the merge, which is missing",
    "Put the outputs side by side again: (B, maps, T, d_v/maps) to (B, T, d_v).",
)(_talking(merge=lambda X: X))
talking_heads.wrong(
    "attention in interleaved heads, which take the columns in turn",
    "A head is a block of columns side by side: reshape the last axis to (heads, d/heads).",
)(_talking(split=split_every_other, merge=merge_every_other))
talking_heads.wrong(
    "right but for queries and keys, whose heads take the columns in turn",
    "A head is a block of columns side by side: reshape the last axis to (heads, d/heads).",
)(_talking(split=split_every_other, split_value=split))
talking_heads.wrong(
    "right but for the values, whose heads take the columns in turn",
    "Each map has d_v/maps columns of value side by side: reshape to (maps, d_v/maps).",
)(_talking(split_value=split_every_other))
talking_heads.wrong(
    "right but for the scale: it divides by the square root of d/maps",
    "The dot product of a head adds up d/heads terms: divide by the square root of that.",
)(
    lambda query, key, value, mix: _talking(
        scores=lambda q, k: q @ k.mT / (query.shape[-1] / len(mix)) ** 0.5
    )(query, key, value, mix)
)
talking_heads.wrong(
    "right but for the values, which are split in as many heads as queries and keys",
    "There are as many heads of values as maps: mix is (maps, heads).",
)(
    lambda query, key, value, mix: _talking(split_value=lambda x, _: split(x, mix.shape[1]))(
        query, key, value, mix
    )
)
talking_heads.wrong(
    "multi-head attention: mix is not used",
    "Mix the scores: map g gets the sum over the heads l of mix[g, l] times the scores of head l.",
)(_talking(mixed=lambda mix, scores: scores))
talking_heads.wrong(
    "right but for mix, which is transposed",
    "mix is (maps, heads): its row g makes map g of the scores of all heads.",
)(_talking(mixed=lambda mix, scores: _mixed(mix.T, scores)))
talking_heads.wrong(
    "a mix of the weights: it comes after the softmax",
    "Mix the scores. Weights that are mixed no longer add up to 1.",
)(
    _talking(
        mixed=lambda mix, scores: scores,
        after=_mixed,
    )
)
talking_heads.wrong(
    "right but for mix, which has been through a softmax",
    "Take the numbers of mix as they are, negative ones too.",
)(_talking(mixed=lambda mix, scores: _mixed(mix.softmax(dim=-1), scores)))
talking_heads.wrong(
    "right but for the scale: it divides by the square root of d",
    "The dot product of a head adds up d/heads terms: divide by the square root of that.",
)(
    lambda query, key, value, mix: _talking(scores=lambda q, k: q @ k.mT / query.shape[-1] ** 0.5)(
        query, key, value, mix
    )
)
talking_heads.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head, d/heads.",
)(_talking(scores=lambda query, key: query @ key.transpose(-1, -2)))
talking_heads.wrong(
    "right but for the scale: it divides by d/heads itself",
    "Divide the scores by the square root of the size of a head.",
)(_talking(scores=lambda query, key: scaled_scores(query, key) / query.shape[-1] ** 0.5))
talking_heads.wrong(
    "right but for the scale: it divides by the square root of the number of heads",
    "Divide the scores by the square root of the size of a head, d/heads.",
)(_talking(scores=lambda query, key: query @ key.mT / query.shape[1] ** 0.5))
talking_heads.wrong(
    "right but for the scale: it divides by the square root of d_v/maps, the size of the values",
    "What the dot product adds up are d/heads terms: divide by the square root of that.",
)(
    lambda query, key, value, mix: _talking(
        scores=lambda q, k: q @ k.mT / (value.shape[-1] / len(mix)) ** 0.5
    )(query, key, value, mix)
)
talking_heads.wrong(
    "right but for the softmax, which goes over the maps",
    "The keys compete, not the maps: the softmax goes over the last axis of (B, maps, T, n).",
)(_talking(weigh=lambda scores: scores.softmax(dim=1)))
talking_heads.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)(_talking(weigh=lambda scores: scores.softmax(dim=2)))
talking_heads.wrong(
    "right but for the softmax, which overflows where scores are large",
    "exp of some hundreds is infinite. Use softmax, or subtract the largest score of each row.",
)(_talking(weigh=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)))
talking_heads.wrong(
    "right but for the batch, which the maps got mixed with",
    "What was folded as (maps, B) must be unfolded as (maps, B), and (B, maps) as (B, maps). "
    "There is no need to fold: @ takes all axes but the last two as a batch.",
)(_talking(merge=lambda X: merge(X.transpose(0, 1).reshape(*X.shape))))
