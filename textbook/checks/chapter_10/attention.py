"""Looking at another sequence."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_06.axes import (
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from textbook.checks.chapter_06.layer import LayerInPieces
from textbook.checks.chapter_10.modules import real_mask, with_axes
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of, values


def _cross_cases(draw, hidden):
    """Sizes (width, heads), x (B, T, width), memory (B, n, width), the mask or None."""
    public = [((8, 2), 1, 2, 3, False), ((6, 3), 3, 4, 5, True)]
    others = [((12, 3), 1, 3, 4, False), ((8, 4), 3, 3, 5, True)]
    for layer, batch, steps, n, masked in others if hidden else public:
        allowed = None
        if masked:
            allowed = with_axes(real_mask(draw, batch, n))
        x, memory = draw.normal(batch, steps, layer[0]), draw.normal(batch, n, layer[0])
        yield layer, x, memory, allowed
        if masked:
            yield layer, 200 * x, memory, allowed  # scores far above 0 and far below


def _run_cross(answer, sizes, x, memory, allowed):
    """The output and what is kept: after a call, after another one, and beside another module."""

    def kept(module):
        return values(getattr(module, "weights", None))

    def call(module):
        others = () if allowed is None else (allowed,)
        found = {"the output": module(x, memory, *others), "the tensor self.weights": kept(module)}
        carried = getattr(getattr(module, "weights", None), "requires_grad", False)
        found["the output of a second call"] = module(x[:, 1:], memory, *others)
        found["the tensor self.weights after a second call"] = kept(module)
        made(_Cross, answer, sizes)(2 * x, memory, *others)
        found["the tensor self.weights after another module was called"] = kept(module)
        found["what self.weights carries"] = "its history" if carried else "numbers alone"
        return found

    return results_of(answer(*sizes), drawn(_Cross, *sizes), {"x": x, "memory": memory}, call)


def _padding_is_not_seen(answer, sizes, x, memory, allowed):
    if allowed is None:
        return None
    module = made(_Cross, answer, sizes)
    padding = ~allowed[:, 0, 0].unsqueeze(-1)  # (B, n, 1)
    others = memory.masked_fill(padding, 1e4)
    before, after = (module(x, each, allowed) for each in (memory, others))
    if not mt.allclose(before, after, equal_nan=True):
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
    """Multi-head attention from x to the memory."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: its tokens. Gives (B, T, width)."""
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, T or n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        weights = scores.softmax(dim=-1)
        self.weights = weights.detach()
        return self.out((weights @ value).transpose(1, 2).flatten(2))


_Cross = CrossAttention.reference


class CrossInPieces(LayerInPieces):
    """Chapter 06's layer in pieces, which keeps its weights."""

    def attended(self, x, memory, allowed):
        projected = self.projected(x, memory)
        query, key, value = (self.split(each, self.heads) for each in projected)
        scores = self.scores(query, key)
        weights = self.looking(scores, allowed)
        self.weights = self.kept(weights, scores)
        return self.merge(self.used(weights) @ value)

    def kept(self, weights, scores):
        return weights.detach()

    def used(self, weights):
        return weights


@CrossAttention.wrong(
    "self-attention: memory is not used",
    "x gives the queries alone. Keys and values come from the memory.",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(x)

    def masked(self, scores, allowed):
        return scores if scores.shape[-1] != scores.shape[-2] else super().masked(scores, allowed)


@CrossAttention.wrong(
    "attention the wrong way round: memory asks, and x answers",
    "x gives the queries, the memory keys and values: T outputs, one for each row of x.",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(memory), self.key(x), self.value(x)


@CrossAttention.wrong(
    "right but for the values, which come from x",
    "Keys and values both come from the memory: what is compared is what is read.",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.value(x)


@CrossAttention.wrong(
    "right but for the keys, which come from x",
    "Keys and values both come from the memory: what is compared is what is read.",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(memory)


@CrossAttention.wrong(
    "right but for the values, which are the keys",
    "Values have a layer of their own: self.value(memory).",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.key(memory)


@CrossAttention.wrong(
    "right but for the mask, which is not used",
    "The padding of the memory must get no weight: minus infinity before the softmax.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        return scores


@CrossAttention.wrong(
    "right but for the mask, which is the wrong way round",
    "allowed is True where a query may look; masked_fill changes the places where it is True.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(allowed, -mt.inf)


@CrossAttention.wrong(
    "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
    "Mask the scores, before the softmax.",
)
class _(CrossInPieces):
    def looking(self, scores, allowed):
        weights = scores.softmax(dim=-1)
        return weights if allowed is None else weights * allowed


@CrossAttention.wrong(
    "masked with a score of 0",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores * allowed


@CrossAttention.wrong(
    "a causal attention: a query sees no more of the memory than its own place",
    "All of the memory is there before the first word is written. Only its padding is hidden.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        causal = mt.ones(scores.shape[-2:], dtype=mt.bool).tril()
        return super().masked(scores, allowed).masked_fill(~causal, -mt.inf)


@CrossAttention.wrong(
    "right but for the scale: the scores are not divided by the square root of a head's size",
    "Divide the scores by the square root of width/heads.",
)
class _(CrossInPieces):
    def scores(self, query, key):
        return query @ key.mT


@CrossAttention.wrong(
    "right but for the scale: the scores are divided by the square root of the whole width",
    "Divide the scores by the square root of a head's size, width/heads.",
)
class _(CrossInPieces):
    def scores(self, query, key):
        return scaled_scores(query, key) / self.heads**0.5


@CrossAttention.wrong(
    "one head of the full width: nothing is split",
    "Split queries, keys and values into heads before the scores are computed.",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return split(x, 1)


@CrossAttention.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2.",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)


@CrossAttention.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose axes 1 and 2 back before the heads are put end to end.",
)
class _(CrossInPieces):
    def merge(self, x):
        return merge_without_transpose(x)


@CrossAttention.wrong(
    "right but for split and merge, which lack the transpose and mix positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2; and back the same way.",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)

    def merge(self, x):
        return merge_without_transpose(x)


@CrossAttention.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the memory: the softmax goes over the last axis.",
)
class _(CrossInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=-2)


@CrossAttention.wrong(
    "right but for the output projection, which is missing",
    "The heads, end to end, go through self.out.",
)
class _(CrossInPieces):
    def forward(self, x, memory, allowed=None):
        return self.attended(x, memory, allowed)


@CrossAttention.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of the attention.",
)
class _(CrossInPieces):
    def forward(self, x, memory, allowed=None):
        return x + super().forward(x, memory, allowed)


@CrossAttention.wrong(
    "right but for self.weights, which holds the mean over the heads",
    "Keep the weights of all heads, (B, heads, T, n).",
)
class _(CrossInPieces):
    def kept(self, weights, scores):
        return weights.detach().mean(dim=1)


@CrossAttention.wrong(
    "right but for self.weights, which holds the scores, before the softmax",
    "Keep what comes out of the softmax.",
)
class _(CrossInPieces):
    def kept(self, weights, scores):
        return scores.detach()


@CrossAttention.wrong(
    "right in its values, but the gradient stops at the weights: the detached ones are used",
    "Detach what is kept in self.weights, and multiply the values by the weights as they are.",
)
class _(CrossInPieces):
    def used(self, weights):
        return weights.detach()


@CrossAttention.wrong(
    "right but for self.weights, which was not set",
    "Before you return: self.weights = the weights after the softmax, (B, heads, T, n).",
)
class _(CrossInPieces):
    def kept(self, weights, scores):
        return None


@CrossAttention.wrong(
    "right but for self.weights, which carries its history: it is not detached",
    "Kept with its history, it keeps the whole graph of the step in memory: self.weights = "
    "weights.detach().",
)
class _(CrossInPieces):
    def kept(self, weights, scores):
        return weights


@CrossAttention.wrong(
    "right but for self.weights, which is set at the first call alone",
    "Each call has weights of its own: set self.weights in every one.",
)
class _(CrossInPieces):
    def kept(self, weights, scores):
        return self.weights if hasattr(self, "weights") else weights.detach()


@CrossAttention.wrong(
    "right but for self.weights, which all modules share: it is kept on the class",
    "Two layers have weights of their own: set self.weights, and not the attribute of the class.",
)
class _(CrossInPieces):
    def forward(self, x, memory, allowed=None):
        output = super().forward(x, memory, allowed)
        type(self).shared = self.__dict__.pop("weights")
        return output

    def __getattr__(self, name):
        return type(self).shared if name == "weights" else super().__getattr__(name)


@CrossAttention.wrong(
    "right but for the scale: the scores are divided by a head's size, not by its root",
    "Divide the scores by the square root of width/heads.",
)
class _(CrossInPieces):
    def scores(self, query, key):
        return query @ key.mT / query.shape[-1]


@CrossAttention.wrong(
    "right but for the mask, which is that of the first sentence for all",
    "Each sentence of the batch has its own: scores.masked_fill(~allowed, -mt.inf) does it.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        return super().masked(scores, None if allowed is None else allowed[:1])


@CrossAttention.wrong(
    "right but for the heads, which are interleaved: head i has the columns i, i + h, ...",
    "Heads are blocks of neighbouring columns: reshape to (B, n, heads, width/heads).",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


@CrossAttention.wrong(
    "right but for the softmax, which goes over the heads",
    "Every query shares its attention among the memory: the softmax goes over the last axis.",
)
class _(CrossInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=1)


@CrossAttention.wrong(
    "right but for the values, which are not projected: they are the memory itself",
    "Values have a layer of their own: self.value(memory).",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), memory


@CrossAttention.wrong(
    "right but for the mask, which is the wrong way round, with a large number for infinity",
    "allowed is True where a query may look; masked_fill changes the places where it is True.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(allowed, -1e9)


@CrossAttention.wrong(
    "right but for the scale: the scores are divided by the square root of the number of heads",
    "Divide the scores by the square root of a head's size, width/heads.",
)
class _(CrossInPieces):
    def scores(self, query, key):
        return query @ key.mT / math.sqrt(self.heads)


@CrossAttention.wrong(
    "right but for keys and values, which are exchanged",
    "self.key makes what the queries meet, self.value what is mixed.",
)
class _(CrossInPieces):
    def projected(self, x, memory):
        return self.query(x), self.value(memory), self.key(memory)


@CrossAttention.wrong(
    "right but for the heads, which take every h-th column",
    "A head has neighbouring columns: unflatten to (heads, width/heads), in this order.",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


@CrossAttention.wrong(
    "one head of the full width, whose weights are kept once for each head",
    "Split queries, keys and values into heads before the scores are computed.",
)
class _(CrossInPieces):
    def split(self, x, heads):
        return split(x, 1)

    def kept(self, weights, scores):
        return weights.detach().expand(-1, self.heads, -1, -1)


@CrossAttention.wrong(
    "right but for self.weights, which holds the masked scores, before the softmax",
    "Keep what comes out of the softmax.",
)
class _(CrossInPieces):
    def masked(self, scores, allowed):
        self.hidden = super().masked(scores, allowed)
        return self.hidden

    def kept(self, weights, scores):
        return self.hidden.detach()


@CrossAttention.wrong(
    "right, with the weights returned, too",
    "Return the output alone; the weights are kept in self.weights.",
)
class _(_Cross):
    def forward(self, x, memory, allowed=None):
        return super().forward(x, memory, allowed), self.weights
