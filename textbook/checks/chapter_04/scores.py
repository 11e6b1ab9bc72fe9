"""Score functions: how well each query fits each key."""

import minitorch as mt
from minitorch.flops import count_flops
from textbook.checks.exercise import Draw, exercise


def _sequences(draw, batch, steps, n, d_q, d_k):
    return draw.normal(batch, steps, d_q), draw.normal(batch, n, d_k)


# Multiplicative, of reduced rank


def _reduced_rank_cases(draw, hidden):
    sizes = [(1, 1, 2, 2, 3, 1), (2, 3, 2, 2, 3, 2), (2, 2, 4, 5, 3, 2)]
    for batch, steps, n, d_q, d_k, r in sizes + [(3, 5, 4, 3, 6, 5), (2, 1, 9, 7, 7, 3)] * hidden:
        yield *_sequences(draw, batch, steps, n, d_q, d_k), draw.normal(r, d_q), draw.normal(r, d_k)
    eye = mt.eye(3, dtype=mt.float64)
    yield *_sequences(draw, 2, 2, 3, 3, 4), eye, draw.normal(3, 4)  # the full W = V
    yield *_sequences(draw, 2, 2, 4, 3, 3), eye, eye  # the dot product


def _project_each(queries, keys, U, V):
    return (queries @ U.T) @ (keys @ V.T).transpose(1, 2)


def _is_cheap(answer, *case):
    """d_q = d_k = 100, r = 2: U^T V alone would cost 40,000 FLOPs."""
    draw = Draw(0)
    inputs = *_sequences(draw, 2, 3, 4, 100, 100), draw.normal(2, 100), draw.normal(2, 100)
    with count_flops() as counter:
        answer(*inputs)
    if counter.total > 20_000:
        return (
            f"For d_q = d_k = 100 and r = 2 your answer costs {counter.total:,} FLOPs, and it goes "
            "with 5,696. Never form the (d_q, d_k) matrix that the two small ones stand for."
        )
    return None


@exercise(
    cases=_reduced_rank_cases,
    properties=(_is_cheap,),
    see='chapter 04, "Four score functions"',
)
def reduced_rank_scores(queries, keys, U, V):
    """Queries (B, T, d_q), keys (B, n, d_k), U (r, d_q), V (r, d_k) give scores (B, T, n)."""
    return (queries @ U.T) @ (keys @ V.T).transpose(1, 2)


@reduced_rank_scores.wrong(
    "right but for the order of the axes: it is (B, n, T)",
    "Row i of the scores belongs to query i: (B, T, n).",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U, V).transpose(1, 2)


@reduced_rank_scores.wrong(
    "the weights: a softmax has been applied",
    "The scores alone are wanted; the softmax comes after all score functions alike.",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U, V).softmax(dim=-1)


@reduced_rank_scores.wrong(
    "right but for a division by the square root of r",
    "Scaling comes in chapter 05. Here the scores are the plain products.",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U, V) / len(U) ** 0.5


@reduced_rank_scores.wrong(
    "right but for a division by r",
    "The r products are added up, not averaged.",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U, V) / len(U)


@reduced_rank_scores.wrong(
    "right but for a tanh of the projected queries and keys",
    "The multiplicative score is linear in the query and in the key; the tanh belongs to the "
    "additive one.",
)
def _(queries, keys, U, V):
    return (queries @ U.T).tanh() @ (keys @ V.T).tanh().transpose(1, 2)


@reduced_rank_scores.wrong(
    "one number for each query, not for each pair of query and key",
    "Each of the T queries is compared with each of the n keys: a product of (B, T, r) with "
    "(B, r, n).",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U, V).sum(dim=-1)


@reduced_rank_scores.wrong(
    "a comparison of each query with the sum of the keys",
    "Each of the T queries is compared with each of the n keys by itself.",
)
def _(queries, keys, U, V):
    total = keys.sum(dim=1, keepdim=True).expand(*keys.shape)
    return _project_each(queries, total, U, V)


@reduced_rank_scores.wrong(
    "right in its values, but no gradient reaches U and V",
    "Something cuts the projections off from the graph: detach(), numpy(), .data or tensor(...).",
)
def _(queries, keys, U, V):
    return _project_each(queries, keys, U.detach(), V.detach())


# Additive


def _additive_cases(draw, hidden):
    sizes = [(1, 1, 2, 2, 3, 1), (2, 2, 4, 5, 3, 3), (2, 3, 3, 2, 2, 4)]
    for batch, steps, n, d_q, d_k, a in sizes + [(3, 5, 4, 3, 6, 5), (1, 1, 9, 4, 4, 2)] * hidden:
        yield (
            *_sequences(draw, batch, steps, n, d_q, d_k),
            draw.normal(a, d_q),
            draw.normal(a, d_k),
            draw.normal(a),
        )


def _pairs(queries, keys, W_q, W_k):
    """W_q q_i and W_k k_j, (B, T, 1, a) and (B, 1, n, a)."""
    return (queries @ W_q.T).unsqueeze(2), (keys @ W_k.T).unsqueeze(1)


def _additive(join=lambda query, key: (query + key).tanh(), read=lambda u, v: u @ v):
    """The additive score with one of its pieces exchanged."""

    def scores(queries, keys, W_q, W_k, v):
        return read(join(*_pairs(queries, keys, W_q, W_k)), v)

    return scores


@exercise(cases=_additive_cases, see='chapter 04, "Four score functions"')
def additive_scores(queries, keys, W_q, W_k, v):
    """Queries (B, T, d_q), keys (B, n, d_k), W_q (a, d_q), W_k (a, d_k), v (a) give (B, T, n)."""
    joined = (queries @ W_q.T).unsqueeze(2) + (keys @ W_k.T).unsqueeze(1)  # (B, T, n, a)
    return joined.tanh() @ v


additive_scores.wrong(
    "the additive score without the tanh",
    "Without it the query adds the same number to the scores of all keys, and the softmax does not "
    "see it: every query would get the same weights.",
)(_additive(join=lambda query, key: query + key))
additive_scores.wrong(
    "the additive score with two tanh, one of the query and one of the key",
    "Add first, then take one tanh of the sum.",
)(_additive(join=lambda query, key: query.tanh() + key.tanh()))
additive_scores.wrong(
    "the additive score with the tanh outside",
    "The tanh comes before the product with v: v . tanh(W_q q + W_k k).",
)(_additive(join=lambda query, key: query + key, read=lambda u, v: (u @ v).tanh()))
additive_scores.wrong(
    "the additive score with a second tanh at the end",
    "The last step is the product with v; scores may have any size.",
)(_additive(read=lambda u, v: (u @ v).tanh()))
additive_scores.wrong(
    "the additive score with a sigmoid in place of the tanh",
    "Bahdanau et al. take a tanh.",
)(_additive(join=lambda query, key: (query + key).sigmoid()))
additive_scores.wrong(
    "the additive score with a relu in place of the tanh",
    "Bahdanau et al. take a tanh.",
)(_additive(join=lambda query, key: (query + key).relu()))
additive_scores.wrong(
    "the additive score with a product in place of the sum",
    "W_q q and W_k k are added, as the name says.",
)(_additive(join=lambda query, key: (query * key).tanh()))
additive_scores.wrong(
    "the additive score without v",
    "The score is the dot product of v with the tanh, not its plain sum.",
)(_additive(read=lambda u, v: u.sum(dim=-1)))
additive_scores.wrong(
    "the additive score divided by a",
    "The score is the dot product of v with the tanh: a sum, not a mean.",
)(_additive(read=lambda u, v: (u * v).mean(dim=-1)))
additive_scores.wrong(
    "not yet summed: there is a number for each of the a units",
    "v makes one number of the last axis: (B, T, n, a) times (a) is (B, T, n).",
)(_additive(read=lambda u, v: u * v))
additive_scores.wrong(
    "right but for the order of the axes: it is (B, n, T)",
    "Row i of the scores belongs to query i: queries as (B, T, 1, a), keys as (B, 1, n, a).",
)(_additive(read=lambda u, v: (u @ v).transpose(1, 2)))
additive_scores.wrong(
    "the weights: a softmax has been applied",
    "The scores alone are wanted; the softmax comes after all score functions alike.",
)(_additive(read=lambda u, v: (u @ v).softmax(dim=-1)))
