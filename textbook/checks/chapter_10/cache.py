"""One more token: looking back with keys and values that were kept."""

import math

import minitorch as mt
from minitorch.flops import count_flops
from textbook.checks.chapter_06.axes import merge, scaled_scores, split
from textbook.checks.chapter_10.modules import Attention, pair
from textbook.checks.compare import brief
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded


def _cache_cases(draw, hidden):
    public = [((4, 2), 1, 2), ((6, 3), 2, 3)]
    for sizes, batch, n in [((4, 4), 1, 4), ((3, 1), 2, 2)] if hidden else public:
        yield sizes, draw.normal(batch, n, sizes[0])


def _one_by_one(answer, layer, x):
    """The outputs (B, n, width) of all tokens of x, handed in one after the other."""
    cache, outputs = None, []
    for t in range(x.shape[1]):
        result = answer(layer, x[:, t : t + 1], cache)
        output, cache = pair(result, "the output and the new cache")
        wanted = (len(x), 1, x.shape[2])
        if not isinstance(output, mt.Tensor) or tuple(output.shape) != wanted:
            raise TypeError(
                "the first of the pair is the output of the newest token, a tensor of shape "
                f"{wanted}; got {brief(output)}"
            )
        outputs.append(output)
    return mt.cat(outputs, dim=1)


def _run_cached(answer, sizes, x):
    layer = loaded(Attention(*sizes), drawn(Attention, *sizes))
    return {"the output, token after token,": _one_by_one(answer, layer, x).detach()}


def _agrees_with_the_full_pass(answer, sizes, x):
    layer = loaded(Attention(*sizes), drawn(Attention, *sizes))
    causal = mt.ones(x.shape[1], x.shape[1]).tril().bool()
    if not mt.allclose(_one_by_one(answer, layer, x), layer(x, x, causal)):
        return "Token after token must give what layer(x, x, causal mask) gives in one pass."
    return None


def _computes_nothing_twice(answer, sizes, x):
    """n = 12, d = 4: 12 * 128 FLOPs for the projections, 78 * 16 for the pairs."""
    if len(x) > 1:
        return None
    layer = loaded(Attention(4, 2), drawn(Attention, 4, 2))
    with count_flops() as counter:
        _one_by_one(answer, layer, mt.ones(1, 12, 4, dtype=mt.float64))
    if counter.total > 3_300:
        return (
            f"For 12 tokens of width 4 your steps cost {counter.total:,} FLOPs, and it goes with "
            "2,784 (and the softmax). Project the new token alone: keys and values of the earlier "
            "ones are in the cache."
        )
    return None


@exercise(
    cases=_cache_cases,
    run=_run_cached,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers of the module, mt.cat, @ and softmax",
    properties=(_agrees_with_the_full_pass, _computes_nothing_twice),
    gradients=False,
    see='chapter 11, "The cache (E2)"',
)
def cached_step(layer, x, cache):
    """The newest token x (B, 1, width) and a cache give its output (B, 1, width) and the cache."""
    query, key, value = (
        projected.unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (B, heads, 1, size)
        for projected in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = mt.cat([cache[0], key], dim=2), mt.cat([cache[1], value], dim=2)
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, 1, t + 1)
    output = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
    return layer.out(output), (key, value)


def _grown(old, new):
    return mt.cat([old, new], dim=2)


def _step(
    project=lambda layer, x: (layer.query(x), layer.key(x), layer.value(x)),
    keys=_grown,
    values=_grown,
    score=scaled_scores,
    weigh=lambda scores: scores.softmax(dim=-1),
    join=lambda layer, x: layer.out(x),
    cut=split,
    carry=lambda key, value, cache: (key, value),
):
    """The step with one of its pieces exchanged."""

    def step(layer, x, cache):
        query, key, value = (cut(each, layer.heads) for each in project(layer, x))
        if cache is not None:
            key, value = keys(cache[0], key), values(cache[1], value)
        output = merge(weigh(score(query, key)) @ value)
        return join(layer, output), carry(key, value, cache)

    return step


for name, hint, pieces in (
    (
        "a step without memory: each token looks at itself alone",
        "Put the new key behind those in the cache, and the new value behind the values, and "
        "return what has grown.",
        {"keys": lambda old, new: new, "values": lambda old, new: new},
    ),
    (
        "right but for the cache, which keeps the newest token alone",
        "Return all keys and values so far, the new ones included.",
        {"carry": lambda key, value, cache: (key[:, :, -1:], value[:, :, -1:])},
    ),
    (
        "right but for the cache, which never grows after the first token",
        "Return all keys and values so far, the new ones included.",
        {"carry": lambda key, value, cache: cache or (key, value)},
    ),
    (
        "right but for the new token, which does not look at itself",
        "Its own key and value belong to the set that it looks at: grow the cache first.",
        {"keys": lambda old, new: old, "values": lambda old, new: old},
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
        "right but for the weights: there is no softmax",
        "Scores become weights by a softmax over the keys, the last axis.",
        {"weigh": lambda scores: scores},
    ),
    (
        "right but for the softmax, which goes over the one query: every weight is 1",
        "The softmax goes over the keys, the last axis.",
        {"weigh": lambda scores: scores.softmax(dim=-2)},
    ),
    (
        "right but for the output projection, which is missing",
        "The heads, end to end, go through layer.out.",
        {"join": lambda layer, x: x},
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
        "right but for the projections: the token itself is query, key and value",
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
