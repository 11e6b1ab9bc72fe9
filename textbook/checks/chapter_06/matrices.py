"""Heads as lists of matrices, and what they cost."""

import itertools

import minitorch as mt
from textbook.checks.chapter_06.axes import scaled_scores
from textbook.checks.exercise import exercise

# One head after the other


def _loop_cases(draw, hidden):
    """B, n, d, the sizes of keys and values of each head, and the size of the outputs."""
    cases = [(1, 3, 4, [(2, 2), (2, 2)], 4), (2, 3, 5, [(1, 3), (4, 2), (2, 1)], 6)]
    if hidden:
        cases = [(2, 4, 7, [(3, 2), (1, 5)], 4), (3, 3, 4, [(2, 4)], 5), (2, 5, 4, [(2, 1)] * 4, 4)]
    for batch, n, d, sizes, out in cases:
        X = draw.normal(batch, n, d)
        Q, K = ([draw.normal(d, size) for size, _ in sizes] for _ in "QK")
        V = [draw.normal(d, size) for _, size in sizes]
        yield X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)
        if n == 3:
            yield 40 * X, Q, K, V, draw.normal(sum(size for _, size in sizes), out)


def join(heads):
    """h tensors (B, n, size) -> (B, n, sum of the sizes)."""
    return mt.cat(heads, dim=-1)


def _in_turn(heads):
    """The first column of each head, then the second of each, as long as there are any."""
    turns = itertools.zip_longest(*(head.unbind(-1) for head in heads))
    return mt.stack([column for turn in turns for column in turn if column is not None], dim=-1)


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
    """X (B, n, d), lists of matrices (d, own size), W_O (all values, m) give (B, n, m)."""
    heads = []
    for query, key, value in zip(Q, K, V, strict=True):
        scores = (X @ query) @ (X @ key).transpose(1, 2)  # (B, n, n)
        weights = (scores / query.shape[1] ** 0.5).softmax(dim=-1)
        heads.append(weights @ (X @ value))  # (B, n, size of its values)
    return mt.cat(heads, dim=-1) @ W_O


heads_in_a_loop.wrong(
    "right for small scores; where they are large, whole rows become 0 / 0",
    "Of each row its own largest score is taken off, not the largest of all: max(dim=-1).",
)(
    _looping(
        weigh=lambda scores: (
            (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)
        )
    )
)
heads_in_a_loop.wrong(
    "right but for the joined heads, whose columns are dealt out in turn",
    "Rows of W_O belong to columns in the order head after head: mt.cat(heads, dim=-1).",
)(_looping(join=_in_turn))
heads_in_a_loop.wrong(
    "right in its heads, but they are only put end to end",
    "The output projection is missing: multiply by W_O from the right.",
)(_looping(project=lambda joined, W_O: joined))
heads_in_a_loop.wrong(
    "right but for W_O, which is transposed",
    "Rows are tokens: multiply by W_O itself, from the right. (nn.Linear stores the transpose.)",
)(_looping(project=lambda joined, W_O: joined @ W_O.T))


def _scaled_by(divisor):
    """The loop in which ``divisor(number, X, Q, V)`` divides the scores of a head."""

    def attention(X, Q, K, V, W_O):
        heads = []
        for i, matrices in enumerate(zip(Q, K, V, strict=True)):
            query, key, value = (X @ matrix for matrix in matrices)
            heads.append((query @ key.mT / divisor(i, X, Q, V)).softmax(dim=-1) @ value)
        return join(heads) @ W_O

    return attention


OWN = "The dot product of a head adds up as many terms as Q[l] has columns: divide by their root."
for name, hint, divisor in (
    ("divides by the square root of d", OWN, lambda i, X, Q, V: X.shape[-1] ** 0.5),
    (
        "divides by the square root of d/h, as if all heads were of one size",
        OWN,
        lambda i, X, Q, V: (X.shape[-1] / len(Q)) ** 0.5,
    ),
    (
        "divides by the same number in all heads, the root of the size of the first",
        OWN,
        lambda i, X, Q, V: Q[0].shape[1] ** 0.5,
    ),
    (
        "divides by the root of the size of the values",
        OWN,
        lambda i, X, Q, V: V[i].shape[1] ** 0.5,
    ),
    (
        "divides by the size of the keys itself",
        "Divide by the square root of the size of a head's keys.",
        lambda i, X, Q, V: Q[i].shape[1],
    ),
    ("divides by the square root of the number of heads", OWN, lambda i, X, Q, V: len(Q) ** 0.5),
    ("divides by the square root of the number of rows", OWN, lambda i, X, Q, V: len(X[0]) ** 0.5),
    (
        "multiplies by the square root of the size",
        "Divide by it: the scale keeps the scores from growing with the size of a head.",
        lambda i, X, Q, V: Q[i].shape[1] ** -0.5,
    ),
):
    heads_in_a_loop.wrong(f"right but for the scale: it {name}", hint)(_scaled_by(divisor))
heads_in_a_loop.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of the size of a head's keys.",
)(_looping(scores=lambda query, key, d: query @ key.mT))
heads_in_a_loop.wrong(
    "right but for the scale, which comes after the softmax",
    "Divide the scores, before the softmax: after it the weights no longer add up to 1.",
)(
    lambda X, Q, K, V, W_O: (
        join(
            [
                ((X @ q) @ (X @ k).mT).softmax(dim=-1) / q.shape[1] ** 0.5 @ (X @ v)
                for q, k, v in zip(Q, K, V, strict=True)
            ]
        )
        @ W_O
    )
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
    "right but for the softmax, which overflows where scores are large",
    "exp of some hundreds is infinite. Use softmax, or subtract the largest score of each row.",
)(_looping(weigh=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)))
OWN_MATRICES = "Head l has matrices of its own: Q[l], K[l], V[l]."
for name, change in (
    ("the first head again and again", lambda *lists: [W[:1] * len(W) for W in lists]),
    ("the last head again and again", lambda *lists: [W[-1:] * len(W) for W in lists]),
    ("right but for the queries, all of Q[0]", lambda Q, K, V: (Q[:1] * len(Q), K, V)),
    ("right but for the keys, all of K[0]", lambda Q, K, V: (Q, K[:1] * len(K), V)),
    ("right but for the values, all of V[0]", lambda Q, K, V: (Q, K, V[:1] * len(V))),
    ("right but for the values, which are the keys", lambda Q, K, V: (Q, K, K)),
    ("right but for queries and keys, which are the same, X Q", lambda Q, K, V: (Q, Q, V)),
):
    heads_in_a_loop.wrong(name, OWN_MATRICES)(
        lambda X, Q, K, V, W_O, change=change: _looping()(X, *change(Q, K, V), W_O)
    )
heads_in_a_loop.wrong(
    "right but for the values, which are X itself",
    "What a head hands over are the values X V[l].",
)(
    lambda X, Q, K, V, W_O: (
        join([scaled_scores(X @ q, X @ k).softmax(dim=-1) @ X for q, k in zip(Q, K, strict=True)])
        @ W_O
    )
)
heads_in_a_loop.wrong(
    "right but for the order of the heads: the last one comes first",
    "Put head 0 first: the first rows of W_O belong to it.",
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


# What heads cost


def _cost_cases(draw, hidden):
    yield from [(1, 1, 4, 2, 1), (2, 3, 4, 2, 2), (5, 6, 24, 6, 2), (3, 7, 12, 4, 4)]
    if hidden:
        yield from [(128, 128, 512, 8, 2), (9, 4, 60, 10, 5), (1, 1000, 768, 12, 1)]
        yield 100_003, 1_000_003, 16_384, 128, 8


def _cost(
    weights=lambda d, heads, groups: 2 * d * d + 2 * d * d * groups // heads,
    projections=lambda T, n, d, heads, groups: 4 * T * d * d + 4 * n * d * d * groups // heads,
    products=lambda T, n, d, heads, groups: 4 * T * n * d,
    scores=lambda T, n, d, heads, groups: heads * T * n,
    kept=lambda T, n, d, heads, groups: 2 * n * d * groups // heads,
):
    """The four counts with one of their pieces exchanged."""

    def cost(*sizes):
        return {
            "weights": weights(*sizes[2:]),
            "FLOPs": projections(*sizes) + products(*sizes),
            "scores": scores(*sizes),
            "kept": kept(*sizes),
        }

    return cost


@exercise(cases=_cost_cases, gradients=False, see='chapter 06, "What heads cost"')
def attention_cost(T, n, d, heads, groups):
    """The numbers of weights, FLOPs, scores and numbers kept of the memory: a dict."""
    size = d // heads
    of_keys = groups * size  # columns of all keys, and of all values
    projections = 2 * T * d * d + 2 * (2 * n * d * of_keys) + 2 * T * d * d
    in_a_head = 2 * (2 * T * n * size)  # scores, weighted values
    return {
        "weights": 2 * d * d + 2 * d * of_keys,
        "FLOPs": projections + heads * in_a_head,
        "scores": heads * T * n,
        "kept": 2 * n * of_keys,
    }


GROUPS = "There are `groups` heads of keys and of values, each of d/heads columns."
attention_cost.wrong(
    "right if there are as many key heads as heads: groups is not used",
    GROUPS,
)(lambda T, n, d, heads, groups: _cost()(T, n, d, heads, heads))
attention_cost.wrong(
    "a count as if keys and values had d/groups columns a head, d in all",
    GROUPS,
)(
    _cost(
        weights=lambda d, heads, groups: 4 * d * d,
        projections=lambda T, n, d, heads, groups: 4 * (T + n) * d * d,
    )
)
attention_cost.wrong(
    "right but for the scores: it counts those of `groups` heads",
    "Queries that share a key still have scores of their own: heads times T times n.",
)(_cost(scores=lambda T, n, d, heads, groups: groups * T * n))
attention_cost.wrong(
    "right but for the FLOPs: it counts the products of `groups` heads alone",
    "Every query head has products of its own, whoever made its keys.",
)(_cost(products=lambda T, n, d, heads, groups: 4 * T * n * d * groups // heads))
attention_cost.wrong(
    "right but for what is kept: of keys and values it counts one alone",
    "Keys and values are kept, both.",
)(_cost(kept=lambda T, n, d, heads, groups: n * d * groups // heads))
attention_cost.wrong(
    "right but for what is kept: it counts keys and values of all query heads",
    GROUPS,
)(_cost(kept=lambda T, n, d, heads, groups: 2 * n * d))
attention_cost.wrong(
    "right but for what is kept: it adds the weights of the softmax",
    "These belong to the queries that have asked. Later ones need keys and values alone.",
)(_cost(kept=lambda T, n, d, heads, groups: 2 * n * d * groups // heads + heads * T * n))
attention_cost.wrong(
    "right but for what is kept: it counts the n vectors of the memory themselves",
    "Keys and values have been made of them: these are kept.",
)(_cost(kept=lambda T, n, d, heads, groups: n * d))
attention_cost.wrong(
    "right but for what is kept: it counts those of one group",
    GROUPS,
)(_cost(kept=lambda T, n, d, heads, groups: 2 * n * (d // heads)))
attention_cost.wrong(
    "right but for what is kept: it counts T positions",
    "Keys and values are made from the n positions of the memory.",
)(_cost(kept=lambda T, n, d, heads, groups: 2 * T * d * groups // heads))
attention_cost.wrong(
    "right but for the weights: it counts two matrices of full size for each head",
    "The matrices of a head are (d, d/heads); those of all heads side by side are (d, d).",
)(_cost(weights=lambda d, heads, groups: 2 * d * d * heads + 2 * d * d * groups))
attention_cost.wrong(
    "right but for the output projection, which is left out",
    "W_O has d x d weights too, and it multiplies T positions.",
)(
    _cost(
        weights=lambda d, heads, groups: d * d + 2 * d * d * groups // heads,
        projections=lambda T, n, d, heads, groups: 2 * T * d * d + 4 * n * d * d * groups // heads,
    )
)
attention_cost.wrong(
    "right but for the weights: it counts four matrices of full size",
    GROUPS,
)(_cost(weights=lambda d, heads, groups: 4 * d * d))
attention_cost.wrong(
    "right but for the weights, which lack the output projection",
    "W_O has d x d weights too: there are four matrices.",
)(_cost(weights=lambda d, heads, groups: d * d + 2 * d * d * groups // heads))
attention_cost.wrong(
    "right but for the FLOPs, which lack the output projection",
    "The joined heads are multiplied by W_O: (T, d) times (d, d).",
)(_cost(projections=lambda T, n, d, heads, groups: 2 * T * d * d + 4 * n * d * d * groups // heads))
attention_cost.wrong(
    "right but for the weights: it counts biases",
    "The four layers have no bias.",
)(
    _cost(
        weights=lambda d, heads, groups: 2 * d * (d + 1) + 2 * (d + 1) * (d * groups // heads),
    )
)
attention_cost.wrong(
    "right but for the FLOPs, which are half as many as they should be",
    "A multiplication and an addition are two FLOPs: (n, k) times (k, m) costs 2nkm.",
)(
    _cost(
        projections=lambda T, n, d, heads, groups: 2 * T * d * d + 2 * n * d * d * groups // heads,
        products=lambda T, n, d, heads, groups: 2 * T * n * d,
    )
)
attention_cost.wrong(
    "right but for the FLOPs: it counts the products of each head as if it had the full width",
    "In a head the dot products have d/heads terms. Times heads, that makes d, as with one head.",
)(_cost(products=lambda T, n, d, heads, groups: 4 * T * n * d * heads))
attention_cost.wrong(
    "right for self-attention alone: it counts as if n positions asked",
    "T positions ask, n are looked at: queries and outputs come from T, keys and values from n, "
    "and there are T x n pairs.",
)(lambda T, n, d, heads, groups: _cost()(n, n, d, heads, groups))
attention_cost.wrong(
    "right but for the FLOPs: it counts the products of one head alone",
    "A head costs 4 T n d/heads, and there are as many as heads.",
)(_cost(products=lambda T, n, d, heads, groups: 4 * T * n * d // heads))
attention_cost.wrong(
    "right but for the FLOPs: of the two products in a head it counts the half",
    "There are two, queries times keys and weights times values, and each costs 2 T n d/heads.",
)(_cost(products=lambda T, n, d, heads, groups: 2 * T * n * d))
attention_cost.wrong(
    "right but for the FLOPs, which lack the products inside the heads",
    "Between the projections there are queries times keys and weights times values.",
)(_cost(products=lambda T, n, d, heads, groups: 0))
attention_cost.wrong(
    "right but for the FLOPs: all projections are counted for T positions",
    "Keys and values are made from the n positions of the memory.",
)(_cost(projections=lambda T, n, d, heads, groups: 4 * T * d * d * (heads + groups) // heads))
attention_cost.wrong(
    "right but for the FLOPs: all projections are counted for n positions",
    "Queries are made from the T positions of x, and so many outputs come out.",
)(_cost(projections=lambda T, n, d, heads, groups: 4 * n * d * d * (heads + groups) // heads))
attention_cost.wrong(
    "right but for the FLOPs: the output projection is counted for n positions",
    "What comes out are T positions.",
)(
    _cost(
        projections=lambda T, n, d, heads, groups: (
            2 * (T + n) * d * d + 4 * n * d * d * groups // heads
        )
    )
)
attention_cost.wrong(
    "right but for the scores: it counts those of one head",
    "Each head has a score for each pair of query and key. This is what more heads cost.",
)(_cost(scores=lambda T, n, d, heads, groups: T * n))
attention_cost.wrong(
    "right but for the scores: it counts n x n",
    "There are T queries and n keys.",
)(_cost(scores=lambda T, n, d, heads, groups: heads * n * n))
