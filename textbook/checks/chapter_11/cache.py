"""Some more tokens: looking back with keys and values that were kept."""

import minitorch as mt
from minitorch.flops import count_flops
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.checks.chapter_10.modules import pair
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw
from textbook.checks.modules import drawn, loaded
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise


def _cache_cases(draw, others=()):
    """Sizes (width, heads), the numbers of tokens that come together, x (B, n, width)."""
    public = [((8, 2), 2, (3, 1, 2)), ((6, 3), 1, (1, 1, 1, 1)), ((6, 2), 3, (1, 4))]
    for sizes, batch, parts in others or public:
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


def _leaves_the_old_cache(answer, sizes, parts, x):
    layer = _layer(sizes)
    _, cache = _part(answer, layer, x[:, :2], None)
    one, other = (_part(answer, layer, x[:, 2:3], cache)[0] for _ in range(2))
    if not mt.allclose(one, other):
        return (
            "Your step changes the old cache: who goes on from it in two ways gets a mixture of "
            "both. Return a new one."
        )
    return None


cached_step = exercise(
    "cached_step",
    cases=_cache_cases,
    run=_run_cached,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers of the module, mt.cat, @, masked_fill and softmax",
    properties=(_computes_nothing_twice, _leaves_the_old_cache),
    gradients=False,
    see='chapter 11, "The cache"',
)
