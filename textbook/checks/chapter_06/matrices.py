"""Heads as lists of matrices, what each adds to the output, and what they cost."""

import minitorch as mt
from textbook.checks.chapter_06.axes import merge, scaled_scores
from textbook.checks.exercise import exercise

# One head after the other


def _head_matrices(draw, d, heads):
    """Three lists of (d, d/heads) and one (d, d)."""
    lists = ([draw.normal(d, d // heads) for _ in range(heads)] for _ in range(3))
    return *lists, draw.normal(d, d)


def _loop_cases(draw, hidden):
    sizes = [(2, 3, 8, 2), (1, 4, 3, 1)] if hidden else [(1, 3, 2, 2), (2, 3, 6, 3)]
    for batch, n, d, heads in sizes:
        yield draw.normal(batch, n, d), *_head_matrices(draw, d, heads)


def join(heads):
    """h tensors (B, n, d/h) -> (B, n, d)."""
    return mt.cat(heads, dim=-1)


def _looping(
    scores=lambda query, key, d: scaled_scores(query, key),
    weigh=lambda scores: scores.softmax(dim=-1),
    join=join,
    project=mt.matmul,
):
    """The loop over the heads with one of its pieces exchanged."""

    def attention(X, Q, K, V, W_O):
        heads = []
        for matrices in zip(Q, K, V, strict=True):
            query, key, value = (X @ matrix for matrix in matrices)
            heads.append(weigh(scores(query, key, X.shape[-1])) @ value)
        return project(join(heads), W_O)

    return attention


@exercise(
    cases=_loop_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose, softmax and mt.cat",
    see='chapter 06, "Heads in a loop"',
)
def heads_in_a_loop(X, Q, K, V, W_O):
    """X (B, n, d), lists of matrices (d, d/h), W_O (d, d) give (B, n, d)."""
    heads = []
    for query, key, value in zip(Q, K, V, strict=True):
        scores = (X @ query) @ (X @ key).transpose(1, 2)  # (B, n, n)
        weights = (scores / query.shape[1] ** 0.5).softmax(dim=-1)
        heads.append(weights @ (X @ value))  # (B, n, d/h)
    return mt.cat(heads, dim=-1) @ W_O


heads_in_a_loop.wrong(
    "right in its heads, but they are only put end to end",
    "The output projection is missing: multiply by W_O from the right.",
)(_looping(project=lambda joined, W_O: joined))
heads_in_a_loop.wrong(
    "right but for W_O, which is transposed",
    "Rows are tokens: multiply by W_O itself, from the right. (nn.Linear stores the transpose.)",
)(_looping(project=lambda joined, W_O: joined @ W_O.T))
heads_in_a_loop.wrong(
    "right but for the scale: it divides by the square root of d",
    "The dot product of a head adds up d/h terms: divide by the square root of that.",
)(_looping(scores=lambda query, key, d: query @ key.transpose(1, 2) / d**0.5))
heads_in_a_loop.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head, d/h.",
)(_looping(scores=lambda query, key, d: query @ key.transpose(1, 2)))
heads_in_a_loop.wrong(
    "right but for the scale: it divides by d/h itself",
    "Divide the scores by the square root of the size of a head.",
)(
    _looping(
        scores=lambda query, key, d: scaled_scores(query, key) / query.shape[-1] ** 0.5,
    )
)
heads_in_a_loop.wrong(
    "right but for the scale: it divides by the square root of h",
    "Divide the scores by the square root of the size of a head, d/h.",
)(
    lambda X, Q, K, V, W_O: _looping(
        scores=lambda query, key, d: query @ key.transpose(1, 2) / len(Q) ** 0.5
    )(X, Q, K, V, W_O)
)
heads_in_a_loop.wrong(
    "right but for the scale: it multiplies by the square root of d/h",
    "Divide by it: the scale keeps the scores from growing with the size of a head.",
)(_looping(scores=lambda query, key, d: scaled_scores(query, key) * query.shape[-1]))
heads_in_a_loop.wrong(
    "right but for the scale, which comes after the softmax",
    "Divide the scores, before the softmax: after it the weights no longer add up to 1.",
)(
    lambda X, Q, K, V, W_O: _looping(
        scores=lambda query, key, d: query @ key.transpose(1, 2),
        weigh=lambda scores: scores.softmax(dim=-1) / Q[0].shape[1] ** 0.5,
    )(X, Q, K, V, W_O)
)
heads_in_a_loop.wrong(
    "right but for the scores, which are transposed: keys ask and queries answer",
    "Row i of the scores belongs to query i: (X Q) times the transpose of (X K).",
)(_looping(scores=lambda query, key, d: scaled_scores(key, query)))
heads_in_a_loop.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)(_looping(weigh=lambda scores: scores.softmax(dim=1)))
heads_in_a_loop.wrong(
    "right but for the softmax, which goes over the batch",
    "Every query shares its attention among the n keys: the softmax goes over the last axis.",
)(_looping(weigh=lambda scores: scores.softmax(dim=0)))
heads_in_a_loop.wrong(
    "right but for the softmax, which is missing",
    "The scores are no weights yet: they can be negative and add up to anything.",
)(_looping(weigh=lambda scores: scores))
heads_in_a_loop.wrong(
    "the first head again and again",
    "Head l has matrices of its own: Q[l], K[l], V[l].",
)(lambda X, Q, K, V, W_O: _looping()(X, *(W[:1] * len(W) for W in (Q, K, V)), W_O))
heads_in_a_loop.wrong(
    "right but for the order of the heads: the last one comes first",
    "Put head 0 first: the first d/h rows of W_O belong to it.",
)(_looping(join=lambda heads: join(heads[::-1])))
heads_in_a_loop.wrong(
    "right in its heads, but their columns are interleaved",
    "The columns of a head stay side by side: mt.cat(heads, dim=-1). A stack along a new last axis "
    "shuffles them.",
)(_looping(join=lambda heads: mt.stack(heads, dim=-1).flatten(2)))
heads_in_a_loop.wrong(
    "right in its heads, but joining them mixes positions",
    "A stack along axis 1 that is reshaped to (B, n, d) goes head by head, not position by "
    "position: mt.cat(heads, dim=-1).",
)(
    _looping(
        join=lambda heads: mt.stack(heads, dim=1).reshape(*heads[0].shape[:2], -1),
    )
)


# What each head adds to the output


def _contribution_cases(draw, hidden):
    sizes = [(1, 2, 1, 2), (2, 2, 3, 3), (2, 3, 2, 2)]
    for batch, heads, n, size in sizes + [(3, 3, 5, 4), (1, 1, 4, 3)] * hidden:
        yield draw.normal(batch, heads, n, size), draw.normal(heads * size, heads * size)


def _blocks(W_O, heads):
    """(d, d) -> (heads, d/heads, d)."""
    return W_O.reshape(heads, -1, W_O.shape[-1])


def _contribute(Y, W_O):
    return Y @ _blocks(W_O, Y.shape[1])


def _adds_up(answer, Y, W_O):
    total = answer(Y, W_O).sum(dim=1)
    if total.shape != (len(Y), Y.shape[2], len(W_O)) or not mt.allclose(total, merge(Y) @ W_O):
        return "The sum over the heads must be the output of the layer, the joined heads times W_O."
    return None


@exercise(
    cases=_contribution_cases,
    properties=(_adds_up,),
    see='chapter 06, "Joining the heads"',
)
def contributions(Y, W_O):
    """Y (B, heads, n, d/heads) and W_O (d, d) give what each head adds, (B, heads, n, d)."""
    _, heads, _, size = Y.shape
    return Y @ W_O.reshape(heads, size, -1)  # (B, heads, n, size) @ (heads, size, d)


contributions.wrong(
    "right but for the sum: it is the whole output already",
    "Keep the axis of the heads: (B, heads, n, d). The sum over it is the output of the layer.",
)(lambda Y, W_O: merge(Y) @ W_O)
contributions.wrong(
    "the whole output, once for each head",
    "Head l alone: its d/heads columns times the d/heads rows of W_O that meet them.",
)(lambda Y, W_O: (merge(Y) @ W_O).unsqueeze(1).expand(-1, Y.shape[1], -1, -1))
contributions.wrong(
    "what is left of the output without each head",
    "That is the output less the contribution. What is wanted is the contribution itself.",
)(lambda Y, W_O: (merge(Y) @ W_O).unsqueeze(1) - _contribute(Y, W_O))
contributions.wrong(
    "right but for W_O, which is cut along its columns",
    "The columns of head l meet rows l d/heads to (l + 1) d/heads - 1 of W_O.",
)(lambda Y, W_O: _contribute(Y, W_O.T))
contributions.wrong(
    "right but for the rows of W_O, which are dealt out in turn",
    "A head has a block of columns side by side, so it meets a block of rows side by side.",
)(lambda Y, W_O: Y @ W_O.reshape(-1, Y.shape[1], W_O.shape[-1]).transpose(0, 1))
contributions.wrong(
    "a product of every head with the first rows of W_O",
    "Each head has rows of its own: head l has rows l d/heads to (l + 1) d/heads - 1.",
)(lambda Y, W_O: Y @ W_O[: Y.shape[-1]])
contributions.wrong(
    "right but for a division by the number of heads",
    "The output is the sum of what the heads add, not their mean.",
)(lambda Y, W_O: _contribute(Y, W_O) / Y.shape[1])
contributions.wrong(
    "right but for the order of the axes: it is (B, n, heads, d)",
    "The heads keep their place: (B, heads, n, d).",
)(lambda Y, W_O: _contribute(Y, W_O).transpose(1, 2))


# What heads cost


def _cost_cases(draw, hidden):
    yield from [(1, 1, 2, 1), (2, 3, 4, 2), (5, 5, 8, 4), (3, 7, 12, 3)]
    if hidden:
        yield from [(128, 128, 512, 8), (9, 4, 60, 5), (1, 1000, 768, 12)]


def _cost(
    weights=lambda d, heads: 4 * d * d,
    projections=lambda T, n, d, heads: 4 * (T + n) * d * d,
    products=lambda T, n, d, heads: 4 * T * n * d,
    scores=lambda T, n, d, heads: heads * T * n,
):
    """The three counts with one of their pieces exchanged."""

    def cost(T, n, d, heads):
        flops = projections(T, n, d, heads) + products(T, n, d, heads)
        return weights(d, heads), flops, scores(T, n, d, heads)

    return cost


def _counts(answer, T, n, d, heads):
    weights, flops, scores = answer(T, n, d, heads)
    return {
        "the number of weights": weights,
        "the number of FLOPs": flops,
        "the number of scores": scores,
    }


@exercise(
    cases=_cost_cases,
    run=_counts,
    gradients=False,
    see='chapter 06, "What heads cost"',
)
def attention_cost(T, n, d, heads):
    """The numbers of weights, of FLOPs and of scores."""
    weights = 4 * d**2
    projections = 2 * (2 * T + 2 * n) * d**2  # queries and outputs of T, keys and values of n
    in_a_head = 2 * (2 * T * n * (d // heads))  # scores, weighted values
    return weights, projections + heads * in_a_head, heads * T * n


attention_cost.wrong(
    "right but for the weights: it counts four (d, d) matrices for each head",
    "The matrices of a head are (d, d/heads); those of all heads side by side are (d, d).",
)(_cost(weights=lambda d, heads: 4 * d * d * heads))
attention_cost.wrong(
    "right but for the output projection, which is left out",
    "W_O has d x d weights too, and it multiplies T positions.",
)(
    _cost(
        weights=lambda d, heads: 3 * d * d,
        projections=lambda T, n, d, heads: (2 * T + 4 * n) * d * d,
    )
)
attention_cost.wrong(
    "right but for the weights, which lack the output projection",
    "W_O has d x d weights too: there are four matrices.",
)(_cost(weights=lambda d, heads: 3 * d * d))
attention_cost.wrong(
    "right but for the FLOPs, which lack the output projection",
    "The joined heads are multiplied by W_O: (T, d) times (d, d).",
)(_cost(projections=lambda T, n, d, heads: (2 * T + 4 * n) * d * d))
attention_cost.wrong(
    "right but for the weights: it counts those of one head alone",
    "The matrices of a head are (d, d/heads), and there are as many as heads: side by side (d, d).",
)(_cost(weights=lambda d, heads: 4 * d * d // heads))
attention_cost.wrong(
    "right but for the FLOPs: of keys and values it counts one alone",
    "The memory is multiplied twice, once for the keys and once for the values.",
)(_cost(projections=lambda T, n, d, heads: (4 * T + 2 * n) * d * d))
attention_cost.wrong(
    "right but for the weights: it counts biases",
    "The four layers have no bias.",
)(_cost(weights=lambda d, heads: 4 * d * d + 4 * d))
attention_cost.wrong(
    "right but for the FLOPs, which are half as many as they should be",
    "A multiplication and an addition are two FLOPs: (n, k) times (k, m) costs 2nkm.",
)(
    _cost(
        projections=lambda T, n, d, heads: 2 * (T + n) * d * d,
        products=lambda T, n, d, heads: 2 * T * n * d,
    )
)
attention_cost.wrong(
    "right but for the FLOPs: it counts the products of each head as if it had the full width",
    "In a head the dot products have d/heads terms. Times heads, that makes d, as with one head.",
)(_cost(products=lambda T, n, d, heads: 4 * T * n * d * heads))
attention_cost.wrong(
    "right but for the FLOPs: it counts those of one head of full width, times heads",
    "The matrices and the products of a head are narrower, d/heads: heads times that is what one "
    "head of full width costs.",
)(
    _cost(
        projections=lambda T, n, d, heads: 4 * (T + n) * d * d * heads,
        products=lambda T, n, d, heads: 4 * T * n * d * heads,
    )
)
attention_cost.wrong(
    "right but for weights and FLOPs: it counts those of one head of full width, times heads",
    "The matrices and the products of a head are narrower, d/heads: heads times that is what one "
    "head of full width costs.",
)(
    _cost(
        weights=lambda d, heads: 4 * d * d * heads,
        projections=lambda T, n, d, heads: 4 * (T + n) * d * d * heads,
        products=lambda T, n, d, heads: 4 * T * n * d * heads,
    )
)
attention_cost.wrong(
    "right for self-attention alone: it counts as if n positions asked",
    "T positions ask, n are looked at: queries and outputs come from T, keys and values from n, "
    "and there are T x n pairs.",
)(lambda T, n, d, heads: _cost()(n, n, d, heads))
attention_cost.wrong(
    "right but for the FLOPs: it counts the products of one head alone",
    "A head costs 4 T n d/heads, and there are as many as heads.",
)(_cost(products=lambda T, n, d, heads: 4 * T * n * d // heads))
attention_cost.wrong(
    "right but for the FLOPs: of the two products in a head it counts one",
    "There are two: queries times keys, and weights times values.",
)(_cost(products=lambda T, n, d, heads: 2 * T * n * d))
attention_cost.wrong(
    "right but for the FLOPs, which lack the products inside the heads",
    "Between the projections there are queries times keys and weights times values.",
)(_cost(products=lambda T, n, d, heads: 0))
attention_cost.wrong(
    "right but for the FLOPs: keys and values are counted for T positions",
    "Keys and values are made from the n positions of the memory.",
)(_cost(projections=lambda T, n, d, heads: 8 * T * d * d))
attention_cost.wrong(
    "right but for the FLOPs: queries and outputs are counted for n positions",
    "Queries are made from the T positions of x, and so many outputs come out.",
)(_cost(projections=lambda T, n, d, heads: 8 * n * d * d))
attention_cost.wrong(
    "right but for the scores: it counts those of one head",
    "Each head has a score for each pair of query and key. This is what more heads cost.",
)(_cost(scores=lambda T, n, d, heads: T * n))
attention_cost.wrong(
    "right but for the scores: it counts n x n",
    "There are T queries and n keys.",
)(_cost(scores=lambda T, n, d, heads: heads * n * n))
attention_cost.wrong(
    "right but for the scores: it counts d numbers for each pair of query and key",
    "A score is one number for each head: the dot product of a query with a key.",
)(_cost(scores=lambda T, n, d, heads: T * n * d))
attention_cost.wrong(
    "right but for the order, which is not weights, FLOPs, scores",
    "Return the weights first, then the FLOPs, then the scores.",
)(lambda T, n, d, heads: tuple(reversed(_cost()(T, n, d, heads))))
