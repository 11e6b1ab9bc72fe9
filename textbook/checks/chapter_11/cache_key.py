"""Answers to the exercises of ``cache.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_11.cache import _cache_cases, cached_step


@cached_step.answer(
    hidden_cases=lambda draw: _cache_cases(
        draw, others=[((12, 3), 2, (2, 3, 1)), ((5, 1), 3, (1, 1, 1)), ((8, 4), 1, (4, 2, 1, 3))]
    )
)
def cached_step(layer, x, cache):
    """New tokens x (B, k, width) and a cache give their outputs (B, k, width) and the cache."""
    query, key, value = (
        projected.unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (B, heads, k, size)
        for projected in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = mt.cat([cache[0], key], dim=2), mt.cat([cache[1], value], dim=2)
    k, n = x.shape[1], key.shape[2]
    allowed = mt.ones(k, n, dtype=mt.bool).tril(n - k)
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, k, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return layer.out((weights @ value).transpose(1, 2).flatten(2)), (key, value)


# Right in another way


def step_with_one_joined_cache(layer, x, cache):
    """Keys and values side by side, (B, t, 2 width), split into heads at each step."""
    new = mt.cat([layer.key(x), layer.value(x)], dim=-1)
    kept = new if cache is None else mt.cat([cache, new], dim=1)
    outputs, size, k, n = [], x.shape[-1] // layer.heads, x.shape[1], kept.shape[1]
    query, (keys, values) = layer.query(x), kept.split(x.shape[-1], dim=-1)
    hidden = mt.arange(n) > mt.arange(n - k, n).unsqueeze(1)
    for head in range(layer.heads):
        columns = slice(head * size, (head + 1) * size)
        scores = query[..., columns] @ keys[..., columns].transpose(1, 2) / size**0.5
        weights = scores.masked_fill(hidden, -1e9).softmax(dim=-1)
        outputs.append(weights @ values[..., columns])
    return layer.out(mt.cat(outputs, dim=-1)), kept


def step_with_lists(layer, x, cache):
    """A dict of lists, a new one each time; one token after the other."""
    cache = {"keys": [], "values": []} if cache is None else {k: [*v] for k, v in cache.items()}
    outputs = []
    for token in x.split(1, dim=1):
        cache["keys"].append(layer.key(token))
        cache["values"].append(layer.value(token))
        query, keys, values = (
            each.unflatten(-1, (layer.heads, -1))
            for each in (
                layer.query(token),
                mt.cat(cache["keys"], dim=1),
                mt.cat(cache["values"], dim=1),
            )
        )
        scores = mt.einsum("bihs,bjhs->bhij", query, keys) / math.sqrt(query.shape[-1])
        mixed = mt.einsum("bhij,bjhs->bihs", scores.softmax(-1), values)
        outputs.append(layer.out(mixed.flatten(2)))
    return [mt.cat(outputs, dim=1), cache]


def step_without_a_graph(layer, x, cache):
    """Nothing is trained while it writes: neither output nor cache need a graph."""
    with mt.no_grad():
        output, kept = step_with_one_joined_cache(layer, x, cache)
    return output, kept.detach()


def step_fused(layer, x, cache):
    query, key, value = (
        each.unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for each in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = (mt.cat(pair, dim=2) for pair in zip(cache, (key, value), strict=True))
    k, n = x.shape[1], key.shape[2]
    allowed = mt.ones(k, n, dtype=mt.bool).tril(n - k)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    return layer.out(output.transpose(1, 2).flatten(2)), (key, value)


def step_that_starts_anew(layer, x, cache):
    """All inputs are kept and go through the layer again: right, and dear."""
    seen = x if cache is None else mt.cat([cache, x], dim=1)
    n = seen.shape[1]
    return layer(seen, seen, mt.ones(n, n).tril().bool())[:, -x.shape[1] :], seen


right = {
    "cached_step": [step_with_one_joined_cache, step_with_lists, step_without_a_graph],
}
refused = {
    "cached_step": [step_fused],
}
