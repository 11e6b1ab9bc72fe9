"""The layer, with memory and mask, in which several query heads share a head of keys."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_06.axes import (
    merge,
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from textbook.checks.exercise import Draw, exercise
from textbook.checks.modules import drawn, made, results_of
from textbook.checks.recorded import recorded


def _layer_cases(draw, hidden):
    """Sizes (width, heads, groups), x (B, T, width), memory (B, n, width), masks of all shapes."""
    sizes = [
        ((4, 2, 1), 1, 3, 4, None),
        ((8, 4, 2), 2, 3, 5, (3, 5)),
        ((12, 6, 2), 2, 3, 4, (2, 1, 1, 4)),
        ((8, 4, 2), 3, 2, 4, (3, 4, 2, 4)),
    ]
    if hidden:
        sizes = [
            ((8, 4, 4), 2, 4, 5, None),
            ((10, 5, 1), 3, 2, 6, (3, 1, 1, 6)),
            ((12, 4, 2), 2, 3, 3, (2, 1, 3, 3)),
            ((12, 6, 3), 2, 3, 4, (6, 1, 4)),
            ((8, 4, 2), 2, 3, 5, (2, 4, 3, 5)),
        ]
    for layer, batch, steps, n, mask in sizes:
        x, memory = draw.normal(batch, steps, layer[0]), draw.normal(batch, n, layer[0])
        allowed = mask and draw.integers(2, *mask) > 0
        if mask:  # every query may look somewhere, and not everywhere
            allowed[..., 0], allowed[..., -1] = True, False
            x[:, 0] *= 2e5  # its scores lie far apart
        yield layer, x, memory, allowed


def _run(answer, layer, x, memory, allowed):
    others = () if allowed is None else (allowed,)
    return results_of(
        answer(*layer),
        drawn(_Layer, *layer),
        {"x": x, "memory": memory},
        lambda module: {"the output": module(x, memory, *others)},
    )


LARGE = ": scores may be very large, and only minus infinity is below all of them"


def _nothing_leaks(answer, layer, x, memory, allowed):
    if allowed is None:
        return None
    module, others = made(_Layer, answer, layer), memory.clone()
    others[:, -1] += 10
    text = "Memory that no query is allowed to look at must not change the output"
    for asks, why in (x.tanh(), ""), (x, LARGE), (1e6 * x, LARGE):
        if not mt.allclose(module(asks, memory, allowed), module(asks, others, allowed)):
            return f"{text}{why}."
    return None


@recorded
def _alone(layer, weights, *inputs):
    """The output of a right layer that is called once."""
    module = _Layer(*layer).double()
    module.load_state_dict(weights)
    return module(*inputs)


def _calls_are_apart(answer, layer, x, memory, allowed):
    """Two layers that take turns, with masks and without, do as two that are called once.

    Asked of those alone that are right when they are called once.
    """
    draw = Draw(1)
    first, second = made(_Layer, answer, layer), made(_Layer, answer, layer)
    right = _alone(layer, drawn(_Layer, *layer), x, memory, allowed)
    if not mt.allclose(first(x, memory, allowed), right):
        return None
    with mt.no_grad():
        for weight in second.parameters():
            weight.mul_(-0.5)
    others = draw.normal(*x.shape), draw.normal(len(x), memory.shape[1] + 1, layer[0])
    calls = [(first, x, memory, allowed), (second, *others, None), (first, *others, None)]
    calls += [(second, x, memory, allowed), (first, x, memory, allowed)]
    for module, *inputs in calls:
        if not mt.allclose(module(*inputs), _alone(layer, module.state_dict(), *inputs)):
            return (
                "Called again with other sequences or another mask, or in turn with another layer, "
                "a layer does something else. It must keep nothing from a call."
            )
    return None


def _axes_of_the_mask(check, answer, layer, x, memory, allowed):
    """Whether a mask (T, n) is right, and this one, with more axes, is not."""
    plain = mt.ones(x.shape[1], memory.shape[1], dtype=mt.bool).tril()
    right = _alone(layer, drawn(_Layer, *layer), x, memory, plain)
    found = made(_Layer, answer, layer)(x, memory, plain)
    if allowed is None or allowed.ndim < 3 or not mt.allclose(found, right):
        return None
    return (
        f"With a mask of shape (T, n) it is right; one of shape {tuple(allowed.shape)} is laid "
        "against other axes than (B, h, T, n). Give the scores these four before you mask."
    )


@exercise(
    cases=_layer_cases,
    run=_run,
    reasons=(_axes_of_the_mask,),
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, reshape, transpose, @, masked_fill and softmax",
    properties=(_nothing_leaks, _calls_are_apart),
    gradients=False,
    see='chapter 06, "The layer"',
)
class GroupedAttention(nn.Module):
    """Multi-head attention: x asks, memory answers; heads / groups heads share keys and values."""

    def __init__(self, width, heads, groups=None):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, self.groups * self.size, bias=False)
        self.value = nn.Linear(width, self.groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: where to look. Gives (B, T, width)."""
        query, key, value = (
            projected.unflatten(-1, (-1, self.size)).transpose(1, 2)  # (B, heads or groups, ...)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        key, value = (
            each.repeat_interleave(self.heads // self.groups, dim=1) for each in (key, value)
        )
        scores = query @ key.transpose(2, 3) / self.size**0.5  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        joined = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)  # (B, T, width)
        return self.out(joined)


_Layer = GroupedAttention.reference


class LayerInPieces(_Layer):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, memory, allowed=None):
        return self.out(self.attended(x, memory, allowed))

    def attended(self, x, memory, allowed):
        query, key, value = self.projected(x, memory)
        query = self.split(query, self.heads)
        key, value = (self.shared(self.split(each, self.groups)) for each in (key, value))
        weights = self.looking(self.scores(query, key), allowed)
        return self.merge(weights @ value)

    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.value(memory)

    def split(self, x, heads):
        return split(x, heads)

    def shared(self, x):
        return x.repeat_interleave(self.heads // self.groups, dim=1)

    def scores(self, query, key):
        return scaled_scores(query, key)

    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=-1)

    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(~allowed, -mt.inf)

    def merge(self, x):
        return merge(x)


@GroupedAttention.wrong(
    "right but for which heads share: head l takes the keys of group l mod groups",
    "Neighbours share: heads 0 to heads/groups - 1 take group 0, as repeat_interleave does. repeat "
    "puts whole sets of groups behind one another.",
)
class _(LayerInPieces):
    def shared(self, x):
        return x.repeat(1, self.heads // self.groups, 1, 1)


@GroupedAttention.wrong(
    "attention in which all heads take the keys and values of group 0",
    "Each heads/groups neighbours share a group of their own.",
)
class _(LayerInPieces):
    def shared(self, x):
        return x[:, :1].expand(-1, self.heads, -1, -1)


@GroupedAttention.wrong(
    "attention in which all heads share the mean of the groups",
    "Each heads/groups neighbours share one group, and the groups stay apart.",
)
class _(LayerInPieces):
    def shared(self, x):
        return x.mean(dim=1, keepdim=True).expand(-1, self.heads, -1, -1)


@GroupedAttention.wrong(
    "right but for keys and values that are cut up: mixed positions in each group",
    "Reshape to (B, n, groups, size), then transpose axes 1 and 2.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads) if heads == self.groups else split(x, heads)


@GroupedAttention.wrong(
    "self-attention alone: memory is not used",
    "x gives the queries, memory the keys and the values. Where both are one sequence the caller "
    "hands it in twice.",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(x)


@GroupedAttention.wrong(
    "attention the wrong way round: memory asks, and x answers",
    "x gives the queries, memory the keys and the values: T outputs, one for each row of x.",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(memory), self.key(x), self.value(x)


@GroupedAttention.wrong(
    "right but for two layers that are exchanged: self.key makes the queries",
    "Queries are self.query(x), keys self.key(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.key(x), self.query(memory), self.value(memory)


@GroupedAttention.wrong(
    "right but for the values, which are the keys",
    "Values have a layer of their own: self.value(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.key(memory)


@GroupedAttention.wrong(
    "right but for the values, which are the memory itself",
    "Values have a layer of their own: self.value(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), memory


@GroupedAttention.wrong(
    "attention over cut-up memory: it splits and merges without a transpose, and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose; and back the same way.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)

    def merge(self, x):
        return merge_without_transpose(x)


@GroupedAttention.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)


@GroupedAttention.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose (B, heads, T, width/heads) to (B, T, heads, width/heads) before you join the last "
    "two axes.",
)
class _(LayerInPieces):
    def merge(self, x):
        return merge_without_transpose(x)


@GroupedAttention.wrong(
    "right but for the scale: it divides by the square root of the width",
    "The dot product of a head adds up width/heads terms: divide by the square root of that.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return super().scores(query, key) / self.heads**0.5


@GroupedAttention.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head, width/heads.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.transpose(-1, -2)


@GroupedAttention.wrong(
    "right but for the scale: it divides by the square root of the number of heads",
    "Divide the scores by the square root of the size of a head, width/heads.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.transpose(-1, -2) / self.heads**0.5


@GroupedAttention.wrong(
    "right but for the scale: it divides by the square root of the columns of all keys",
    "The dot product of a head adds up width/heads terms: divide by the square root of that.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.mT / (self.groups * self.size) ** 0.5


@GroupedAttention.wrong(
    "right but for the softmax, which overflows where scores are large",
    "exp of some hundreds is infinite. Use softmax, or subtract the largest score of each row.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        exponentials = self.masked(scores, allowed).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@GroupedAttention.wrong(
    "right but for the softmax, which goes over the heads",
    "The keys compete, not the heads: the softmax goes over the last axis of (B, heads, T, n).",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=1)


@GroupedAttention.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=2)


@GroupedAttention.wrong(
    "right without a mask, but it does not look at allowed",
    "Where allowed is False the score becomes minus infinity, before the softmax.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores


@GroupedAttention.wrong(
    "right without a mask, but with one it is masked the wrong way round",
    "True means that a query may look. (In nn.MultiheadAttention True means that it may not.)",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return super().masked(scores, None if allowed is None else ~allowed)


@GroupedAttention.wrong(
    "right without a mask, but with one its weights are set to 0 after the softmax",
    "They no longer add up to 1. Mask the scores, before the softmax.",
)
class _ClearedWeights(LayerInPieces):
    def looking(self, scores, allowed):
        weights = scores.softmax(dim=-1)
        return weights if allowed is None else weights * allowed


@GroupedAttention.wrong(
    "right without a mask; with one it clears weights after the softmax and divides by the rest",
    "Where what is forbidden has all the weight, that is 0 / 0. Mask the scores, not the weights.",
)
class _(_ClearedWeights):
    def looking(self, scores, allowed):
        weights = super().looking(scores, allowed)
        return weights / weights.sum(dim=-1, keepdim=True)


@GroupedAttention.wrong(
    "right without a mask, but with one it sets scores to 0",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores * allowed


@GroupedAttention.wrong(
    "right without a mask, but with one it sets scores to a number that is not low enough",
    "Where the other scores are lower still, the forbidden key wins. Use minus infinity.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(~allowed, -100.0)


@GroupedAttention.wrong(
    "right without a mask, but with one it adds the mask to the scores",
    "True counts as 1: that raises the scores a little, and forbids nothing. Where allowed is "
    "False the score becomes minus infinity.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores + allowed


@GroupedAttention.wrong(
    "right in its heads, but they are only put end to end",
    "The output projection is missing: self.out of the joined heads.",
)
class _(LayerInPieces):
    def forward(self, x, memory, allowed=None):
        return self.attended(x, memory, allowed)


@GroupedAttention.wrong(
    "right but for x, which has been added to the output",
    "That is the residual connection of chapter 09; it stands outside this layer.",
)
class _(LayerInPieces):
    def forward(self, x, memory, allowed=None):
        return x + super().forward(x, memory, allowed)


@GroupedAttention.wrong(
    "attention in which all heads share the mean of their weights",
    "Each head uses its own weights on its own values. With one map for all, they are one head.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        weights = super().looking(scores, allowed)
        return weights.mean(dim=1, keepdim=True).expand(*scores.shape)


@GroupedAttention.wrong(
    "right without a mask and with one of two axes, but it does not look at a larger one",
    "allowed may have any shape that broadcasts against (B, heads, T, n). Broadcasting does the "
    "rest: masked_fill takes all of them.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        few = allowed is not None and allowed.ndim == 2
        return super().masked(scores, allowed if few else None)


@GroupedAttention.wrong(
    "right without a mask and with one of four axes, but it does not look at a smaller one",
    "allowed may have any shape that broadcasts against (B, heads, T, n). Broadcasting does the "
    "rest: masked_fill takes all of them.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        many = allowed is not None and allowed.ndim == 4
        return super().masked(scores, allowed if many else None)


@GroupedAttention.wrong(
    "right but for masks of heads: all heads take that of head 0",
    "allowed may say something else for each head: (B, heads, T, n).",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        if allowed is not None and allowed.ndim > 2:
            allowed = allowed[..., :1, :, :]
        return super().masked(scores, allowed)


@GroupedAttention.wrong(
    "right but for the scale: it divides by the square root of the size of width/groups columns",
    "The dot product of a head adds up width/heads terms: divide by the square root of that.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.mT / (query.shape[-1] * self.heads / self.groups) ** 0.5
