"""Some more tokens: looking back with keys and values that were kept."""

import math

import minitorch as mt
from minitorch.flops import count_flops
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.checks.chapter_06.axes import (
    merge,
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from textbook.checks.chapter_10.modules import pair
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw, exercise
from textbook.checks.modules import drawn, loaded
from textbook.checks.recorded import recorded


def _cache_cases(draw, hidden):
    """Sizes (width, heads), the numbers of tokens that come together, x (B, n, width)."""
    public = [((8, 2), 2, (3, 1, 2)), ((6, 3), 1, (1, 1, 1, 1)), ((6, 2), 3, (1, 4))]
    others = [((12, 3), 2, (2, 3, 1)), ((5, 1), 3, (1, 1, 1)), ((8, 4), 1, (4, 2, 1, 3))]
    for sizes, batch, parts in others if hidden else public:
        yield sizes, parts, draw.normal(batch, sum(parts), sizes[0])


def _part(answer, layer, x, cache):
    """The outputs of some new tokens, and the cache after them."""
    output, cache = pair(answer(layer, x, cache), "the outputs and the new cache")
    if not isinstance(output, mt.Tensor) or output.shape != x.shape:
        raise TypeError(
            "the first of the pair is the outputs of the new tokens, a tensor of shape "
            f"{tuple(x.shape)}; got {brief(output)}"
        )
    return output, cache


def _in_parts(answer, layer, parts, *texts):
    """The outputs (B, n, width) of all texts, which are written in turn, part by part."""
    caches, outputs = [None] * len(texts), [[] for _ in texts]
    for i, first in enumerate(sum(parts[:i]) for i in range(len(parts))):
        for number, x in enumerate(texts):
            output, caches[number] = _part(
                answer, layer, x[:, first : first + parts[i]], caches[number]
            )
            outputs[number].append(output)
    return [mt.cat(output, dim=1).detach() for output in outputs]


class _Layer(MultiHeadAttention):
    """The chapter's layer; it runs no operation that is forbidden here."""

    def forward(self, x, memory, allowed=None):
        outputs, _ = self.look(x, memory, allowed)
        return self.out(merge_heads(outputs))


def _layer(sizes):
    return loaded(_Layer(*sizes), drawn(_Layer, *sizes))


def _run_cached(answer, sizes, parts, x):
    layer = _layer(sizes)
    long = mt.cat([x[:, :1], x.tanh(), x.flip(1)], dim=1)
    steps = (parts[0], 1, 2, 1, long.shape[1] - parts[0] - 4)
    return {
        "the tensor of outputs of all parts": _in_parts(answer, layer, parts, x)[0],
        "the tensor of outputs of a longer text": _in_parts(answer, layer, steps, long)[0],
        "the list of outputs of two texts that are written in turn": _in_parts(
            answer, layer, parts, x, x.flip(1)
        ),
    }


def _flops(answer):
    """Of 12 tokens of width 6, the first 4 together."""
    with count_flops() as counter:
        _in_parts(answer, _layer((6, 2)), (4,) + (1,) * 8, Draw(0).normal(1, 12, 6))
    return counter.total


@recorded
def _flops_enough():
    return _flops(cached_step.reference)


def _computes_nothing_twice(answer, sizes, parts, x):
    if sizes[1] < 2:
        return None
    yours, ours = _flops(answer), _flops_enough()
    if yours > 1.2 * ours:
        return (
            f"For 12 tokens of width 6, 4 at first and then one by one, your steps cost "
            f"{yours:,} FLOPs, and it goes with {ours:,}. Project the new tokens "
            "alone: keys and values of the earlier ones are in the cache."
        )
    return None


@exercise(
    cases=_cache_cases,
    run=_run_cached,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers of the module, mt.cat, @, masked_fill and softmax",
    properties=(_computes_nothing_twice,),
    gradients=False,
    see='chapter 11, "The cache"',
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


def _grown(old, new):
    return mt.cat([old, new], dim=2)


def _grown_uncut(old, new):
    whole = mt.cat([merge_without_transpose(old), merge_without_transpose(new)], dim=1)
    return split_without_transpose(whole, old.shape[1])


def _allowed(k, n):
    return mt.ones(k, n, dtype=mt.bool).tril(n - k)


def _itself(k, n):
    """Each of the last k tokens and its own key."""
    return mt.arange(n) == mt.arange(n - k, n).unsqueeze(1)


def _step(
    project=lambda layer, x: (layer.query(x), layer.key(x), layer.value(x)),
    keys=_grown,
    values=_grown,
    seen=lambda key, value, cache: (key, value),
    score=scaled_scores,
    allowed=_allowed,
    weigh=lambda scores: scores.softmax(dim=-1),
    join=lambda layer, x: layer.out(x),
    cut=split,
    glue=merge,
    carry=lambda key, value, cache: (key, value),
    kept=lambda layer, cache: cache,
    keep=lambda layer, cache: None,
):
    """The step with one of its pieces exchanged."""

    def step(layer, x, cache):
        cache = kept(layer, cache)
        query, key, value = (cut(each, layer.heads) for each in project(layer, x))
        if cache is not None:
            key, value = keys(cache[0], key), values(cache[1], value)
        looked = seen(key, value, cache)
        scores = score(query, looked[0])
        mask = allowed(*scores.shape[-2:])
        output = glue(weigh(scores.masked_fill(~mask, -mt.inf)) @ looked[1])
        cache = carry(key, value, cache)
        keep(layer, cache)
        return join(layer, output), cache

    return step


def _newest_part(key, value, cache):
    before = 0 if cache is None else cache[0].shape[2]
    return key[:, :, before:], value[:, :, before:]


def _remembered(layer, cache):
    return getattr(layer, "kept", None)


def _remember(layer, cache):
    layer.kept = cache


for name, hint, pieces in (
    (
        "a step without memory: new tokens look at each other alone",
        "Put the new keys behind those in the cache, and the new values behind the values, and "
        "return what has grown.",
        {"keys": lambda old, new: new, "values": lambda old, new: new},
    ),
    (
        "right but for the mask among the new tokens, which is missing: they see what comes later",
        "Of k new tokens the first may not see the second: a mask (k, t + k), tril(t).",
        {"allowed": lambda k, n: mt.ones(k, n, dtype=mt.bool)},
    ),
    (
        "right but for the mask, whose triangle begins at the first key of all",
        "The first new token has t tokens before it: tril(t), where t tokens are in the cache.",
        {"allowed": lambda k, n: mt.ones(k, n, dtype=mt.bool).tril()},
    ),
    (
        "right but for the mask, which is one place too wide: each token sees the next one",
        "New token i sees the t tokens of the cache and the new ones up to itself: tril(t).",
        {"allowed": lambda k, n: mt.ones(k, n, dtype=mt.bool).tril(n - k + 1)},
    ),
    (
        "right but for the new tokens, which do not see each other: each sees the cache and itself",
        "New token i sees all of the cache and the new ones up to itself: tril(t).",
        {"allowed": lambda k, n: _itself(k, n) | (mt.arange(n) < n - k)},
    ),
    (
        "right but for the new tokens, which do not see themselves once there is a cache",
        "A token may look at itself: its own key and value belong to the set.",
        {
            "allowed": lambda k, n: (
                _allowed(k, n) if n == k else mt.ones(k, n, dtype=mt.bool).tril(n - k - 1)
            )
        },
    ),
    (
        "right but for the cache, which keeps the newest token alone",
        "Return all keys and values so far, the new ones included.",
        {"carry": lambda key, value, cache: (key[:, :, -1:], value[:, :, -1:])},
    ),
    (
        "right but for the cache, which keeps the newest part alone",
        "Return all keys and values so far: those of the cache and behind them the new ones.",
        {"carry": _newest_part},
    ),
    (
        "right but for the cache, which never grows after the first part",
        "Return all keys and values so far, the new ones included.",
        {"carry": lambda key, value, cache: cache or (key, value)},
    ),
    (
        "right but for the cache, which keeps no more than the last four tokens",
        "Every token may look at all before it.",
        {"carry": lambda key, value, cache: (key[:, :, -4:], value[:, :, -4:])},
    ),
    (
        "right but for the order: the newest keys stand at the front, and the mask at the end",
        "Put new keys and values behind the old ones, as the mask expects it.",
        {
            "keys": lambda old, new: mt.cat([new, old], dim=2),
            "values": lambda old, new: mt.cat([new, old], dim=2),
        },
    ),
    (
        "right for one text: the cache is kept on the layer or in a global, and the argument is "
        "not used",
        "Two texts may be written in turn: each hands you its own cache. Use that, and return it.",
        {"kept": _remembered, "keep": _remember},
    ),
    (
        "right for one text after the other: the cache is kept on the layer or in a global, and "
        "begun anew where cache is None",
        "Two texts may be written in turn: each hands you its own cache. Use that, and return it.",
        {
            "kept": lambda layer, cache: cache and _remembered(layer, cache),
            "keep": _remember,
        },
    ),
    (
        "right but for the scale: the scores are not divided by the square root of a head's size",
        "Divide the scores by the square root of width/heads.",
        {"score": lambda query, key: query @ key.mT},
    ),
    (
        "right but for the scale: the scores are divided by the square root of the whole width",
        "Divide the scores by the square root of a head's size, width/heads.",
        {"score": lambda query, key: scaled_scores(query, key) / query.shape[1] ** 0.5},
    ),
    (
        "right but for the scale: the scores are divided by a head's size, not by its root",
        "Divide the scores by the square root of width/heads.",
        {"score": lambda query, key: query @ key.mT / query.shape[-1]},
    ),
    (
        "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
        "Mask the scores, before the softmax.",
        {
            "allowed": lambda k, n: mt.ones(k, n, dtype=mt.bool),
            "weigh": lambda scores: scores.softmax(dim=-1) * _allowed(*scores.shape[-2:]),
        },
    ),
    (
        "right but for the weights: there is no softmax",
        "Scores become weights by a softmax over the keys, the last axis.",
        {"weigh": lambda scores: scores.masked_fill(scores == -mt.inf, 0.0)},
    ),
    (
        "right but for the softmax, which goes over the queries",
        "The softmax goes over the keys, the last axis.",
        {"weigh": lambda scores: scores.softmax(dim=-2)},
    ),
    (
        "right but for the output projection, which is missing",
        "The heads, end to end, go through layer.out.",
        {"join": lambda layer, x: x},
    ),
    (
        "right but for the heads, which take every h-th column",
        "A head has d/h columns side by side: unflatten(-1, (heads, -1)).",
        {"cut": lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1)},
    ),
    (
        "right but for the heads, which take every h-th column and give it back there",
        "A head has d/h columns side by side: unflatten(-1, (heads, -1)).",
        {
            "cut": lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1),
            "glue": lambda x: x.movedim(1, -1).flatten(2),
        },
    ),
    (
        "right but for the heads, which are cut without the transposition and mix tokens",
        "Reshape to (B, k, heads, d/heads), then transpose axes 1 and 2.",
        {"cut": split_without_transpose},
    ),
    (
        "right but for the heads, cut and put together without a transposition: they mix tokens",
        "Reshape to (B, k, heads, d/heads), then transpose axes 1 and 2; and back before flatten.",
        {"cut": split_without_transpose, "glue": merge_without_transpose},
    ),
    (
        "right but for the heads, which are cut from the whole cache by a reshape: they mix tokens",
        "Reshape to (B, t + k, heads, d/heads), then transpose axes 1 and 2; and back at the end.",
        {
            "cut": split_without_transpose,
            "glue": merge_without_transpose,
            "keys": _grown_uncut,
            "values": _grown_uncut,
        },
    ),
    (
        "right but for the heads, which are put together without the transposition",
        "(B, h, k, d/h) has a token's heads apart: transpose(1, 2) first, then flatten.",
        {"glue": lambda x: x.reshape(x.shape[0], x.shape[2], -1)},
    ),
    (
        "not a number at the first token: no token may look at itself",
        "New token i sees the t tokens of the cache and the new ones up to itself: tril(t).",
        {"allowed": lambda k, n: mt.ones(k, n, dtype=mt.bool).tril(n - k - 1)},
    ),
    (
        "right but for the heads: one head of the full width",
        "Split into layer.heads heads, as the layer does.",
        {"cut": lambda x, heads: split(x, 1)},
    ),
    (
        "right but for the values, which are the keys",
        "Values come from layer.value, and the cache keeps both.",
        {"project": lambda layer, x: (layer.query(x), layer.key(x), layer.key(x))},
    ),
    (
        "right but for the projections: the tokens themselves are queries, keys and values",
        "Use the layers: layer.query(x), layer.key(x), layer.value(x).",
        {"project": lambda layer, x: (x, x, x)},
    ),
):
    cached_step.wrong(name, hint)(_step(**pieces))


@cached_step.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of the attention.",
)
def _(layer, x, cache):
    output, cache = _step()(layer, x, cache)
    return output + x, cache


@cached_step.wrong(
    "right but for the new tokens, which look at the cache alone once there is one",
    "They look at themselves and the new ones before them, too: grow the cache first.",
)
def _(layer, x, cache):
    if cache is None:
        return _step()(layer, x, cache)
    return _step(
        seen=lambda key, value, cache: cache,
        allowed=lambda k, n: mt.ones(k, n, dtype=mt.bool),
    )(layer, x, cache)
