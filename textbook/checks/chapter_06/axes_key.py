"""Answers to the exercises of ``axes.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_06.axes import _fused_cases, _talking_cases, split_fused, talking_heads

# Pieces


def split_every_other(X, heads):
    """Head l takes columns l, l + heads, l + 2 heads, ..."""
    return X.reshape(*X.shape[:2], -1, heads).permute(0, 3, 1, 2)


def merge_every_other(X):
    """Columns 0, heads, 2 heads, ... are those of head 0."""
    return X.permute(0, 2, 3, 1).flatten(2)


# Splitting what one product made


@split_fused.answer(
    hidden_cases=lambda draw: _fused_cases(draw, more=[(3, 5, 2, 4), (4, 1, 5, 2), (2, 6, 1, 3)]),
    after_passing=(
        "nn.MultiheadAttention has all queries first, then all keys, then all values, in one "
        "matrix of the same shape: loaded in the wrong order, weights raise no error."
    ),
)
def split_fused(P, heads):
    """P (B, n, 3d) gives query, key and value, each (B, heads, n, d/heads)."""
    parts = P.unflatten(-1, (heads, 3, -1))  # (B, n, heads, 3, d/heads)
    return parts.transpose(1, 2).unbind(3)


# Heads that talk


def _mixed(mix, scores):
    """(maps, heads), (B, heads, T, n) -> (B, maps, T, n)."""
    return mt.einsum("gh,bhtn->bgtn", mix, scores)


@talking_heads.answer(
    hidden_cases=lambda draw: _talking_cases(
        draw, others=[(2, 3, 5, 6, 4, 1, 3), (3, 6, 7, 12, 10, 5, 3), (1, 3, 4, 5, 6, 3, 1)]
    ),
    after_passing='Shorter: mt.einsum("gh,bhtn->bgtn", mix, scores) mixes the scores of all heads.',
)
def talking_heads(query, key, value, mix):
    """query (B, T, d), key (B, n, d), value (B, n, d_v), mix (maps, heads): (B, T, d_v)."""
    maps, heads = mix.shape
    query, key = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key))
    value = value.unflatten(-1, (maps, -1)).transpose(1, 2)  # (B, maps, n, d_v/maps)
    scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, heads, T, n)
    mixed = (mix @ scores.flatten(2)).unflatten(-1, scores.shape[2:])  # (B, maps, T, n)
    return (mixed.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


# Right in another way


def fused_by_columns(P, heads):
    size = P.shape[-1] // (3 * heads)
    starts = [3 * size * head for head in range(heads)]
    return [
        mt.stack([P[..., start + i * size : start + (i + 1) * size] for start in starts], dim=1)
        for i in range(3)
    ]


def fused_with_chunks(P, heads):
    parts = [head.chunk(3, dim=-1) for head in P.chunk(heads, dim=-1)]
    return tuple(mt.stack(each, 1) for each in zip(*parts, strict=True))


def fused_with_permute(P, heads):
    batch, n, _ = P.shape
    query, key, value = P.view(batch, n, heads, 3, -1).permute(3, 0, 2, 1, 4)
    return query, key, value


def fused_with_every_third(P, heads):
    """3h narrow heads, of which every third is a query."""
    narrow = P.unflatten(2, (3 * heads, -1)).transpose(1, 2)
    return narrow[:, 0::3], narrow[:, 1::3], narrow[:, 2::3]


def split_with_permute(X, heads):
    return X.view(len(X), -1, heads, X.size(-1) // heads).permute(0, 2, 1, 3)


def merge_with_view(X):
    batch, heads, n, size = X.shape
    return X.permute(0, 2, 1, 3).contiguous().view(batch, n, heads * size)


def talking_with_einsum(query, key, value, mix):
    maps, heads = mix.shape
    query, key = (x.unflatten(-1, (heads, -1)) for x in (query, key))
    scores = mt.einsum("gh,bihs,bjhs->bgij", mix, query, key) / math.sqrt(query.shape[-1])
    value = value.unflatten(-1, (maps, -1))
    return mt.einsum("bgij,bjgs->bigs", scores.softmax(-1), value).flatten(2)


def talking_with_scaled_queries(query, key, value, mix):
    """A map looks with all d columns, those of head l times mix[m, l]."""
    maps, heads = mix.shape
    size = query.shape[-1] // heads
    scales = mix.repeat_interleave(size, dim=1) / size**0.5  # (maps, d)
    scores = (query.unsqueeze(1) * scales.unsqueeze(1)) @ key.unsqueeze(1).mT
    return merge_with_view(F.softmax(scores, -1) @ split_with_permute(value, maps))


def talking_by_broadcasting(query, key, value, mix):
    query, key = (split_with_permute(x, mix.shape[1]) for x in (query, key))
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    mixed = (mix[:, :, None, None] * scores.unsqueeze(1)).sum(2)
    exponentials = (mixed - mixed.amax(-1, keepdim=True).detach()).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return merge_with_view(weights @ split_with_permute(value, mix.shape[0]))


def fused_talking(query, key, value, mix):
    maps, heads = mix.shape
    size = query.shape[-1] // heads
    scales = mix.repeat_interleave(size, dim=1) * heads**0.5  # (maps, d)
    parts = query.unsqueeze(1) * scales.unsqueeze(1), key.unsqueeze(1).expand(-1, maps, -1, -1)
    return merge_with_view(F.scaled_dot_product_attention(*parts, split_with_permute(value, maps)))


def talking_with_linear(query, key, value, mix):
    query, key = (split_with_permute(x, mix.shape[1]) for x in (query, key))
    scores = (query @ key.mT / query.shape[-1] ** 0.5).permute(0, 2, 3, 1)
    weights = F.linear(scores, mix).permute(0, 3, 1, 2).softmax(-1)
    return merge_with_view(weights @ split_with_permute(value, mix.shape[0]))


right = {
    "split_fused": [
        fused_by_columns,
        fused_with_chunks,
        fused_with_permute,
        fused_with_every_third,
    ],
    "talking_heads": [talking_with_einsum, talking_with_scaled_queries, talking_by_broadcasting],
}
refused = {
    "talking_heads": [fused_talking, talking_with_linear],
}
