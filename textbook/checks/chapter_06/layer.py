"""The layer, with memory and mask, and its weights in the layout of nn.MultiheadAttention."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_06.axes import (
    merge,
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of

# The layout of nn.MultiheadAttention


def _weight_cases(draw, hidden):
    for d, heads in [(4, 4), (8, 2), (3, 1)] if hidden else [(4, 2), (6, 3)]:
        lists = ([draw.normal(d, d // heads) for _ in range(heads)] for _ in range(3))
        yield *lists, draw.normal(d, d)


def _beside(matrices):
    return mt.cat(matrices, dim=-1)


def _weights(
    join=_beside,
    stack=lambda query, key, value: mt.cat([query.T, key.T, value.T]),
    turn=lambda W_O: W_O.T,
):
    """The state of the module with one of its pieces exchanged."""

    def weights(Q, K, V, W_O):
        return {"in_proj_weight": stack(*map(join, (Q, K, V))), "out_proj.weight": turn(W_O)}

    return weights


@exercise(cases=_weight_cases, gradients=False, see='chapter 06, "Joining the heads"')
def module_weights(Q, K, V, W_O):
    """Lists of matrices (d, d/h) and W_O (d, d) give the state of nn.MultiheadAttention."""
    parts = [mt.cat(matrices, dim=1).T for matrices in (Q, K, V)]  # (d, d) each
    return {"in_proj_weight": mt.cat(parts), "out_proj.weight": W_O.T}


module_weights.wrong(
    "right but for in_proj_weight, whose three parts are not transposed",
    "Layers store the transpose of the matrix that multiplies from the right: the first d rows "
    "are the transpose of the queries' matrix.",
)(_weights(stack=lambda *parts: mt.cat(parts)))
module_weights.wrong(
    "right but for out_proj.weight, which is not transposed",
    "Layers store the transpose of the matrix that multiplies from the right.",
)(_weights(turn=lambda W_O: W_O))
module_weights.wrong(
    "right but for the transposes, which are missing",
    "Layers store the transpose of the matrix that multiplies from the right: both weights, in "
    "all their parts.",
)(_weights(stack=lambda *parts: mt.cat(parts), turn=lambda W_O: W_O))
module_weights.wrong(
    "right but for in_proj_weight: its parts stand side by side",
    "The three parts stand one above the other: (3d, d).",
)(_weights(stack=lambda query, key, value: _beside([query.T, key.T, value.T])))
module_weights.wrong(
    "right but for in_proj_weight, which is (d, 3d)",
    "Transpose it: layers store (outputs, inputs), here (3d, d).",
)(_weights(stack=lambda *parts: _beside(parts)))
module_weights.wrong(
    "right but for the order of in_proj_weight: the keys come before the queries",
    "First queries, then keys, then values.",
)(_weights(stack=lambda query, key, value: mt.cat([key.T, query.T, value.T])))
module_weights.wrong(
    "right but for the order of in_proj_weight: the values come before the keys",
    "First queries, then keys, then values.",
)(_weights(stack=lambda query, key, value: mt.cat([query.T, value.T, key.T])))
module_weights.wrong(
    "right but for the columns of the heads, which are interleaved",
    "The columns of a head stay side by side: mt.cat(Q, dim=-1), all of head 0 first.",
)(_weights(join=lambda matrices: mt.stack(matrices, dim=-1).flatten(1)))
module_weights.wrong(
    "right but for the order of the heads: the last one comes first",
    "Head 0 has the first d/h rows of each part.",
)(_weights(join=lambda matrices: _beside(matrices[::-1])))
module_weights.wrong(
    "right but for a scale: the queries' part is divided by the square root of d/h",
    "The module divides the scores itself.",
)(lambda Q, K, V, W_O: _weights()([W / W.shape[1] ** 0.5 for W in Q], K, V, W_O))
module_weights.wrong(
    "right but for the order of in_proj_weight: it goes head by head",
    "Some libraries keep query, key and value of a head together. Here come the queries of all "
    "heads, then the keys of all heads, then the values.",
)(
    lambda Q, K, V, W_O: {
        "in_proj_weight": mt.cat([W.T for head in zip(Q, K, V, strict=True) for W in head]),
        "out_proj.weight": W_O.T,
    }
)


# The layer


def _layer_cases(draw, hidden):
    """Sizes (width, heads), x (B, T, width), memory (B, n, width) and masks of several shapes."""
    sizes = [((4, 2), 1, 2, 3, None), ((6, 2), 2, 3, 4, (3, 4)), ((8, 4), 2, 2, 5, (2, 1, 1, 5))]
    if hidden:
        sizes = [((4, 4), 2, 3, 2, None), ((6, 3), 2, 4, 4, (2, 1, 4, 4))]
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


def _nothing_leaks(answer, layer, x, memory, allowed):
    if allowed is None:
        return None
    module, others = made(_Layer, answer, layer), memory.clone()
    others[:, -1] += 10
    if not mt.allclose(module(x, memory, allowed), module(x, others, allowed)):
        return "Memory that no query is allowed to look at must not change the output."
    return None


@exercise(
    cases=_layer_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, reshape, transpose, @, masked_fill and softmax",
    properties=(_nothing_leaks,),
    gradients=False,
    see='chapter 06, "Joining the heads"',
)
class MultiHeadAttention(nn.Module):
    """Multi-head attention: x asks, memory answers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: where to look. Gives (B, T, width)."""
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, T or n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        joined = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)  # (B, T, width)
        return self.out(joined)


_Layer = MultiHeadAttention.reference


class LayerInPieces(_Layer):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, memory, allowed=None):
        return self.out(self.attended(x, memory, allowed))

    def attended(self, x, memory, allowed):
        projected = self.projected(x, memory)
        query, key, value = (self.split(each, self.heads) for each in projected)
        weights = self.looking(self.scores(query, key), allowed)
        return self.merge(weights @ value)

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

    def merge(self, x):
        return merge(x)


@MultiHeadAttention.wrong(
    "self-attention alone: memory is not used",
    "x gives the queries, memory the keys and the values. Where both are one sequence the caller "
    "hands it in twice.",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(x), self.value(x)


@MultiHeadAttention.wrong(
    "attention the wrong way round: memory asks, and x answers",
    "x gives the queries, memory the keys and the values: T outputs, one for each row of x.",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(memory), self.key(x), self.value(x)


@MultiHeadAttention.wrong(
    "right but for two layers that are exchanged: self.key makes the queries",
    "Queries are self.query(x), keys self.key(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.key(x), self.query(memory), self.value(memory)


@MultiHeadAttention.wrong(
    "right but for the values, which are the keys",
    "Values have a layer of their own: self.value(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), self.key(memory)


@MultiHeadAttention.wrong(
    "right but for the values, which are the memory itself",
    "Values have a layer of their own: self.value(memory).",
)
class _(LayerInPieces):
    def projected(self, x, memory):
        return self.query(x), self.key(memory), memory


@MultiHeadAttention.wrong(
    "attention over cut-up memory: it splits and merges without a transpose, and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose; and back the same way.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)

    def merge(self, x):
        return merge_without_transpose(x)


@MultiHeadAttention.wrong(
    "right but for the split, which lacks the transpose and mixes positions",
    "Reshape to (B, n, heads, width/heads), then transpose axes 1 and 2.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split_without_transpose(x, heads)


@MultiHeadAttention.wrong(
    "right but for the merge, which lacks the transpose and mixes positions",
    "Transpose (B, heads, T, width/heads) to (B, T, heads, width/heads) before you join the last "
    "two axes.",
)
class _(LayerInPieces):
    def merge(self, x):
        return merge_without_transpose(x)


@MultiHeadAttention.wrong(
    "attention of the heads of one position to each other: the transpose is missing",
    "The positions attend. The last two axes have to be (T, width/heads), so that the scores are "
    "(B, heads, T, n).",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split(x, heads).transpose(1, 2)

    def merge(self, x):
        return x.flatten(2)


@MultiHeadAttention.wrong(
    "attention in one head of the full width: heads is not used",
    "Each head has its own softmax, over the products of width/heads columns alone.",
)
class _(LayerInPieces):
    def split(self, x, heads):
        return split(x, 1)


@MultiHeadAttention.wrong(
    "right but for the scale: it divides by the square root of the width",
    "The dot product of a head adds up width/heads terms: divide by the square root of that.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return super().scores(query, key) / self.heads**0.5


@MultiHeadAttention.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head, width/heads.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.transpose(-1, -2)


@MultiHeadAttention.wrong(
    "right but for the scale: it divides by the square root of the number of heads",
    "Divide the scores by the square root of the size of a head, width/heads.",
)
class _(LayerInPieces):
    def scores(self, query, key):
        return query @ key.transpose(-1, -2) / self.heads**0.5


@MultiHeadAttention.wrong(
    "right but for the softmax, which goes over the heads",
    "The keys compete, not the heads: the softmax goes over the last axis of (B, heads, T, n).",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=1)


@MultiHeadAttention.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        return self.masked(scores, allowed).softmax(dim=2)


@MultiHeadAttention.wrong(
    "right without a mask, but it does not look at allowed",
    "Where allowed is False the score becomes minus infinity, before the softmax.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores


@MultiHeadAttention.wrong(
    "right without a mask, but with one it is masked the wrong way round",
    "True means that a query may look. (In nn.MultiheadAttention True means that it may not.)",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return super().masked(scores, None if allowed is None else ~allowed)


@MultiHeadAttention.wrong(
    "right without a mask, but with one its weights are set to 0 after the softmax",
    "They no longer add up to 1. Mask the scores, before the softmax.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        weights = scores.softmax(dim=-1)
        return weights if allowed is None else weights * allowed


@MultiHeadAttention.wrong(
    "right without a mask, but with one it sets scores to 0",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores * allowed


@MultiHeadAttention.wrong(
    "right without a mask, but with one it sets scores to a number that is not low enough",
    "Where the other scores are lower still, the forbidden key wins. Use minus infinity.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores.masked_fill(~allowed, -100.0)


@MultiHeadAttention.wrong(
    "right without a mask, but with one it adds the mask to the scores",
    "True counts as 1: that raises the scores a little, and forbids nothing. Where allowed is "
    "False the score becomes minus infinity.",
)
class _(LayerInPieces):
    def masked(self, scores, allowed):
        return scores if allowed is None else scores + allowed


@MultiHeadAttention.wrong(
    "right in its heads, but they are only put end to end",
    "The output projection is missing: self.out of the joined heads.",
)
class _(LayerInPieces):
    def forward(self, x, memory, allowed=None):
        return self.attended(x, memory, allowed)


@MultiHeadAttention.wrong(
    "right but for x, which has been added to the output",
    "That is the residual connection of chapter 09; it stands outside this layer.",
)
class _(LayerInPieces):
    def forward(self, x, memory, allowed=None):
        return x + super().forward(x, memory, allowed)


@MultiHeadAttention.wrong(
    "attention in which all heads share the mean of their weights",
    "Each head uses its own weights on its own values. With one map for all, they are one head.",
)
class _(LayerInPieces):
    def looking(self, scores, allowed):
        weights = super().looking(scores, allowed)
        return weights.mean(dim=1, keepdim=True).expand(*scores.shape)
