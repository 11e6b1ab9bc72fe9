"""Looking at another sequence, and looking back with keys and values that were kept."""

import minitorch as mt
from minitorch import nn
from minitorch.checks.chapter_06.axes import (
    merge,
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from minitorch.checks.chapter_10.modules import Attention, drawn, loaded, pair, results_of
from minitorch.checks.exercise import exercise
from minitorch.flops import count_flops

# Cross-attention


def _cross_cases(draw, hidden):
    """Sizes (width, heads), x (B, T, width), memory (B, n, width), the mask or None."""
    public = [((4, 2), 1, 2, 3, False), ((4, 2), 2, 3, 3, True)]
    others = [((4, 4), 1, 3, 2, False), ((6, 2), 2, 2, 4, True)]
    for layer, batch, steps, n, masked in others if hidden else public:
        allowed = None
        if masked:
            lengths = mt.cat([mt.tensor([n]), 1 + draw.integers(n - 1, batch - 1)])
            allowed = (mt.arange(n) < lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1)
        yield layer, draw.normal(batch, steps, layer[0]), draw.normal(batch, n, layer[0]), allowed


def _run_cross(answer, sizes, x, memory, allowed):
    def call(module):
        others = () if allowed is None else (allowed,)
        return {
            "the output": module(x, memory, *others),
            "the tensor self.weights": _values(getattr(module, "weights", None)),
        }

    return results_of(answer(*sizes), drawn(_Cross, *sizes), {"x": x, "memory": memory}, call)


def _values(x):
    """Without the graph that a tensor of weights may still hang on."""
    return x.detach() if isinstance(x, mt.Tensor) else x


def _padding_is_not_seen(answer, sizes, x, memory, allowed):
    if allowed is None:
        return None
    module = loaded(answer(*sizes), drawn(_Cross, *sizes))
    padding = ~allowed[:, 0, 0].unsqueeze(-1)  # (B, n, 1)
    others = memory.masked_fill(padding, 50.0)
    if not mt.allclose(module(x, others, allowed), module(x, memory, allowed)):
        return "What stands in the padding of the memory must not change the output."
    return None


@exercise(
    cases=_cross_cases,
    run=_run_cross,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, reshape, transpose, @, masked_fill and softmax",
    properties=(_padding_is_not_seen,),
    gradients=False,
    see='chapter 10, "One page"',
)
class CrossAttention(nn.Module):
    """x (B, T, width), memory (B, n, width), a mask or None -> (B, T, width).

    The pieces that mistakes exchange are methods of their own.
    """

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        projected = self.projected(x, memory)
        query, key, value = (self.split(each, self.heads) for each in projected)
        scores = self.scores(query, key)
        weights = self.looking(scores, allowed)
        self.weights = self.kept(weights, scores)
        return self.joined(self.merge(self.used(weights) @ value))

    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.value(memory)

    def split(self, x, heads):
        return split(x, heads)

    def scores(self, query, key):
        return scaled_scores(query, key)

    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=-1)

    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(~allowed, -mt.inf)

    def kept(self, weights, scores):
        return weights.detach()

    def used(self, weights):
        return weights

    def merge(self, x):
        return merge(x)

    def joined(self, x):
        return self.out(x)


_Cross = CrossAttention.reference


@CrossAttention.wrong(
    "self-attention: memory is not used",
    "x gives the queries alone. Keys and values come from the memory.",
)
class _(_Cross):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(x)

    def masked(self, scores, allowed):
        return scores if scores.shape[-1] != scores.shape[-2] else super().masked(scores, allowed)


@CrossAttention.wrong(
    "attention the wrong way round: memory asks, and x answers",
    "x gives the queries, the memory keys and values: T outputs, one for each row of x.",
)
class _(_Cross):
    def projected(self, x, memory):
        return self.query(memory), self.key(x), self.value(x)


@CrossAttention.wrong(
    "right but for the values, which come from x",
    "Keys and values both come from the memory: what is compared is what is read.",
)
class _(_Cross):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.value(x)


@CrossAttention.wrong(
    "right but for the keys, which come from x",
    "Keys and values both come from the memory: what is compared is what is read.",
)
class _(_Cross):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(memory)


@CrossAttention.wrong(
    "right but for the values, which are the keys",
    "Values have a layer of their own: self.value(memory).",
)
class _(_Cross):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.key(memory)


@CrossAttention.wrong(
    "right but for the mask, which is not used",
    "The padding of the memory must get no weight: minus infinity before the softmax.",
)
class _(_Cross):
    def masked(self, scores, allowed):
        return scores


@CrossAttention.wrong(
    "right but for the mask, which is the wrong way round",
    "allowed is True where a query may look; masked_fill changes the places where it is True.",
)
class _(_Cross):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(allowed, -mt.inf)


@CrossAttention.wrong(
    "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
    "Mask the scores, before the softmax.",
)
class _(_Cross):
    def looking(self, scores, allowed):
        weights = scores.softmax(dim=-1)
        return weights if allowed is None else weights * allowed


@CrossAttention.wrong(
    "masked with a score of 0",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(_Cross):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores * allowed


@CrossAttention.wrong(
    "a causal attention: a query sees no more of the memory than its own place",
    "All of the memory is there before the first word is written. Only its padding is hidden.",
)
class _(_Cross):
    def masked(self, scores, allowed):
        causal = mt.ones(scores.shape[-2:], dtype=mt.bool).tril()
        return super().masked(scores, allowed).masked_fill(~causal, -mt.inf)


@CrossAttention.wrong(
    "right but for the scale: the scores are not divided by the square root of a head's size",
    "Divide the scores by the square root of width/heads.",
)
class _(_Cross):
    def scores(self, query, key):
        return query @ key.mT


@CrossAttention.wrong(
    "right but for the scale: the scores are divided by the square root of the whole width",
    "Divide the scores by the square root of a head's size, width/heads.",
)
class _(_Cross):
    def scores(self, query, key):
        return scaled_scores(query, key) / self.heads**0.5


@CrossAttention.wrong(
    "one head of the full width: nothing is split",
    "Split queries, keys and values into heads before the scores are computed.",
)
class _(_Cross):
    def split(self, x, heads):
        return split(x, 1)


@CrossAttention.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2.",
)
class _(_Cross):
    def split(self, x, heads):
        return split_without_transpose(x, heads)


@CrossAttention.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose axes 1 and 2 back before the heads are put end to end.",
)
class _(_Cross):
    def merge(self, x):
        return merge_without_transpose(x)


@CrossAttention.wrong(
    "right but for split and merge, which lack the transpose and mix positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2; and back the same way.",
)
class _(_Cross):
    def split(self, x, heads):
        return split_without_transpose(x, heads)

    def merge(self, x):
        return merge_without_transpose(x)


@CrossAttention.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the memory: the softmax goes over the last axis.",
)
class _(_Cross):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=-2)


@CrossAttention.wrong(
    "right but for the output projection, which is missing",
    "The heads, end to end, go through self.out.",
)
class _(_Cross):
    def joined(self, x):
        return x


@CrossAttention.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of the attention.",
)
class _(_Cross):
    def forward(self, x, memory, allowed=None):
        return x + super().forward(x, memory, allowed)


@CrossAttention.wrong(
    "right but for self.weights, which holds the mean over the heads",
    "Keep the weights of all heads, (B, heads, T, n).",
)
class _(_Cross):
    def kept(self, weights, scores):
        return weights.detach().mean(dim=1)


@CrossAttention.wrong(
    "right but for self.weights, which holds the scores, before the softmax",
    "Keep what comes out of the softmax.",
)
class _(_Cross):
    def kept(self, weights, scores):
        return scores.detach()


@CrossAttention.wrong(
    "right in its values, but the gradient stops at the weights: the detached ones are used",
    "Detach what is kept in self.weights, and multiply the values by the weights as they are.",
)
class _(_Cross):
    def used(self, weights):
        return weights.detach()


@CrossAttention.wrong(
    "right but for self.weights, which was not set",
    "Before you return: self.weights = the weights after the softmax, (B, heads, T, n).",
)
class _(_Cross):
    def kept(self, weights, scores):
        return None


# One more token, with a cache


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
        outputs.append(output)
    for output in outputs:
        wanted = (len(x), 1, x.shape[2])
        if not isinstance(output, mt.Tensor) or tuple(output.shape) != wanted:
            return output
    return mt.cat(outputs, dim=1)


def _run_cached(answer, sizes, x):
    return results_of(
        Attention(*sizes),
        drawn(Attention, *sizes),
        {"x": x},
        lambda layer: {"the output, token after token,": _one_by_one(answer, layer, x)},
    )


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
    see='chapter 10, "The cache (E2)"',
)
def cached_step(layer, x, cache):
    """A layer, the newest token (B, 1, width), a cache or None -> (B, 1, width), the cache."""
    return _step()(layer, x, cache)


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
    (
        "right in its values, but the gradient stops at the keys and values that are kept",
        "Keep them as they are, without detach().",
        {"carry": lambda key, value, cache: (key.detach(), value.detach())},
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
