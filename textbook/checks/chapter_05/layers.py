"""Scaled dot-product attention, and self-attention."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise

# Attention


def _attention_cases(draw, hidden):
    """Any leading axes; sizes that differ, so that each wrong divisor gives a wrong number."""
    sizes = [(1, (), 1, 2, 3, 2), (1, (3,), 2, 3, 2, 1), (1000, (2, 2), 3, 2, 3, 2)]
    if hidden:
        sizes = [(1, (), 3, 4, 2, 3), (1, (3,), 4, 2, 5, 1), (1000, (2, 1, 2), 2, 3, 3, 2)]
    for scale, lead, steps, n, d, d_v in sizes:
        query, key = scale * draw.normal(*lead, steps, d), draw.normal(*lead, n, d)
        yield query, key, draw.normal(*lead, n, d_v)


def _dot(query, key):
    return query @ key.transpose(-2, -1)


def _root_of_d(query, key, value):
    return query.shape[-1] ** 0.5


def _length(x):
    return (x**2).sum(dim=-1, keepdim=True).sqrt()


def _softmax(scores):
    return scores.softmax(dim=-1)


def attending(divisor=_root_of_d, score=_dot, weigh=_softmax, combine=mt.matmul):
    """Attention with one of its pieces exchanged."""

    def attend(query, key, value):
        weights = weigh(score(query, key) / divisor(query, key, value))
        return combine(weights, value)

    return attend


def _averages(answer, query, key, value):
    output = answer(query, key, mt.ones_like(value))
    if not mt.allclose(output, mt.ones_like(output)):
        return (
            "The check asked again with all values set to 1, and not every output was 1: the "
            "weights of a query must add up to 1."
        )
    return None


@exercise(
    cases=_attention_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose and softmax",
    properties=(_averages,),
    see='chapter 05, "Dividing by the root of d"',
)
def attention(query, key, value):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    return scores.softmax(dim=-1) @ value


attention.wrong(
    "attention without the division by the square root of d",
    "Dot products grow with d, and the softmax saturates (C11). Divide the scores by the square "
    "root of the size of a key.",
)(attending(divisor=lambda query, key, value: 1))
attention.wrong(
    "attention with the scores divided by d",
    "The standard deviation of a dot product grows with the square root of d. Divide by that.",
)(attending(divisor=lambda query, key, value: query.shape[-1]))
attention.wrong(
    "attention with the scores multiplied by the square root of d",
    "That makes large scores larger. Divide.",
)(attending(divisor=lambda query, key, value: query.shape[-1] ** -0.5))
attention.wrong(
    "attention with the scores divided by the square root of the number of keys",
    "What makes dot products large is the size of the vectors, d, the last axis of the key; not "
    "the number of keys, n.",
)(attending(divisor=lambda query, key, value: key.shape[-2] ** 0.5))
attention.wrong(
    "attention with the scores divided by the square root of the number of queries",
    "What makes dot products large is the size of the vectors, d, the last axis of the query; not "
    "the number of queries, T.",
)(attending(divisor=lambda query, key, value: query.shape[-2] ** 0.5))
attention.wrong(
    "attention with the scores divided by the square root of the size of a value",
    "Values take no part in the scores. Divide by the square root of d, the size of a key.",
)(attending(divisor=lambda query, key, value: value.shape[-1] ** 0.5))
attention.wrong(
    "attention with the scores divided by the square root of len(query)",
    "len(query) is the size of its first axis. The size of a query is that of the last one, "
    "query.shape[-1].",
)(attending(divisor=lambda query, key, value: len(query) ** 0.5))
attention.wrong(
    "attention with the scores divided by the square root of the query's length",
    "Where a slide writes length(q), it means how many numbers the query has, d, and not its norm.",
)(attending(divisor=lambda query, key, value: _length(query).sqrt()))
attention.wrong(
    "attention by cosines: queries and keys are scaled to length 1",
    "The scores are the dot products divided by one and the same number, the square root of d.",
)(
    attending(
        divisor=lambda query, key, value: 1,
        score=lambda query, key: _dot(query / _length(query), key / _length(key)),
    )
)
attention.wrong(
    "attention with the weights divided by the square root of d, after the softmax",
    "The weights no longer add up to 1. Scale the scores, before the softmax.",
)(
    lambda query, key, value: (
        attending(divisor=lambda query, key, value: 1)(query, key, value) / query.shape[-1] ** 0.5
    )
)
attention.wrong(
    "attention with a softmax over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis of the "
    "scores (..., T, n).",
)(attending(weigh=lambda scores: scores.softmax(dim=-2)))
attention.wrong(
    "attention with a softmax over the first axis",
    "The softmax goes over the keys, the last axis, dim=-1, however many axes stand before it.",
)(attending(weigh=lambda scores: scores.softmax(dim=0)))
attention.wrong(
    "attention with one softmax for all queries together",
    "The weights of each query add up to 1: the softmax goes over the last axis.",
)(attending(weigh=lambda scores: scores.flatten(-2).softmax(dim=-1).reshape(*scores.shape)))
attention.wrong(
    "right for two axes alone: the softmax goes over axis 1",
    "With leading axes the keys are no longer axis 1. Count from the end: dim=-1.",
)(attending(weigh=lambda scores: scores.softmax(dim=1)))
attention.wrong(
    "right for three axes alone: axes 1 and 2 of the key are exchanged",
    "There may be no leading axis, or several. Count from the end: key.transpose(-2, -1).",
)(attending(score=lambda query, key: query @ key.transpose(1, 2)))
attention.wrong(
    "right for two axes alone: .T turns all axes of the key around",
    "Exchange the last two: key.transpose(-2, -1), or key.mT.",
)(attending(score=lambda query, key: query @ key.T))
attention.wrong(
    "attention without a softmax: the scaled scores themselves are the weights",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(attending(weigh=lambda scores: scores))
attention.wrong(
    "attention with a sigmoid of each score",
    "With sigmoids the weights do not add up to 1: the keys must compete, in a softmax.",
)(attending(weigh=mt.sigmoid))
attention.wrong(
    "right for small scores, but exp of a large one is infinite",
    "Subtract the largest score of each row before exp, or use softmax, which does so.",
)(attending(weigh=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)))
attention.wrong(
    "right for small scores, but subtracts the maximum of all scores before exp",
    "Each row needs a maximum of its own, amax(dim=-1, keepdim=True): in a row far below that of "
    "another one every exp is 0, and the weights are 0 / 0.",
)(
    attending(
        weigh=lambda scores: (
            (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)
        )
    )
)
attention.wrong(
    "right for small scores, but subtracts one maximum for all queries before exp",
    "Each row needs a maximum of its own, amax(dim=-1, keepdim=True): in a row far below that of "
    "another one every exp is 0, and the weights are 0 / 0.",
)(
    attending(
        weigh=lambda scores: (
            (scores - scores.amax(dim=(-2, -1), keepdim=True)).exp()
            / (scores - scores.amax(dim=(-2, -1), keepdim=True)).exp().sum(dim=-1, keepdim=True)
        )
    )
)
attention.wrong(
    "the plain mean of the values",
    "Each value counts with its weight: weights @ value.",
)(attending(combine=lambda weights, value: (mt.ones_like(weights) / weights.shape[-1]) @ value))
attention.wrong(
    "right but for a division by the number of keys at the end",
    "The weights of a query add up to 1 already: the weighted sum is the average.",
)(attending(combine=lambda weights, value: weights @ value / value.shape[-2]))
attention.wrong(
    "the average of the keys",
    "Keys are what a query is compared with; what is averaged are the values.",
)(lambda query, key, value: attending()(query, key, key))
attention.wrong(
    "right, but returns the weights as well",
    "Return the output alone, (..., T, d_v).",
)(attending(combine=lambda weights, value: (weights @ value, weights)))
attention.wrong(
    "right in its values, but no gradient reaches the scores",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)(attending(weigh=lambda scores: scores.softmax(dim=-1).detach()))

# Self-attention as a function

_attend = attention.reference


def _self_attention_cases(draw, hidden):
    for batch, n, d in [(2, 4, 3), (3, 2, 4)] if hidden else [(1, 2, 2), (2, 3, 2)]:
        yield draw.normal(batch, n, d), *(draw.normal(d, d) for _ in range(3))


def _project(X, Q, K, V):
    return X @ Q, X @ K, X @ V


def _with_itself(project=_project, attend=_attend):
    """Self-attention with one of its pieces exchanged."""
    return lambda X, Q, K, V: attend(*project(X, Q, K, V))


def _where(allowed):
    """Attention where ``allowed(i, j)`` says whether position i sees position j."""

    def weigh(scores):
        n = scores.shape[-1]
        shut = ~allowed(mt.arange(n).unsqueeze(1), mt.arange(n))
        return scores.masked_fill(shut, -mt.inf).softmax(dim=-1)

    return attending(weigh=weigh)


def _sequences_stay_apart(answer, X, Q, K, V):
    if len(X) > 1:
        alone = mt.cat([answer(x.unsqueeze(0), Q, K, V) for x in X])
        if not mt.allclose(alone, answer(X, Q, K, V)):
            return "The output of a sequence must not depend on the other sequences of the batch."
    return None


def _permutes(answer, X, Q, K, V):
    if not mt.allclose(answer(X.flip(1), Q, K, V), answer(X, Q, K, V).flip(1)):
        return "Tokens in another order must give the same outputs in that order (C10)."
    return None


@exercise(
    cases=_self_attention_cases,
    forbidden=("scaled_dot_product_attention", "linear"),
    instead="@, transpose and softmax",
    properties=(_sequences_stay_apart, _permutes),
    see='chapter 05, "In matrices"',
)
def self_attention(X, Q, K, V):
    """X (B, n, d) and three matrices (d, d) give the outputs (B, n, d)."""
    scores = (X @ Q) @ (X @ K).transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, n, n)
    return scores.softmax(dim=-1) @ (X @ V)


self_attention.wrong(
    "self-attention without the division by the square root of d",
    "Divide the scores by the square root of d before the softmax (C11).",
)(_with_itself(attend=attending(divisor=lambda *_: 1)))
self_attention.wrong(
    "self-attention with the scores divided by d",
    "The standard deviation of a dot product grows with the square root of d. Divide by that.",
)(_with_itself(attend=attending(divisor=lambda query, key, value: query.shape[-1])))
self_attention.wrong(
    "self-attention with the scores divided by the square root of the length n",
    "What makes dot products large is the size of the vectors, d, the last axis of X.",
)(_with_itself(attend=attending(divisor=lambda query, key, value: key.shape[-2] ** 0.5)))
self_attention.wrong(
    "right but for the matrices, each of which is transposed",
    "Tokens are rows: queries are X @ Q. (F.linear and nn.Linear multiply by the transpose.)",
)(_with_itself(lambda X, Q, K, V: (X @ Q.T, X @ K.T, X @ V.T)))
self_attention.wrong(
    "self-attention with queries and keys exchanged",
    "Row i of the scores belongs to the query of token i: X Q (X K)^T, not X K (X Q)^T. (The "
    "scores are not symmetric.)",
)(_with_itself(lambda X, Q, K, V: (X @ K, X @ Q, X @ V)))
self_attention.wrong(
    "self-attention with one matrix for queries and keys",
    "Keys have their own matrix: X @ K. With one matrix the scores would be symmetric.",
)(_with_itself(lambda X, Q, K, V: (X @ Q, X @ Q, X @ V)))
self_attention.wrong(
    "self-attention with X Q K X^T as scores",
    "The key of token j is x_j K, so K is transposed together with X: X Q (X K)^T = X Q K^T X^T.",
)(_with_itself(lambda X, Q, K, V: (X @ Q, X @ K.T, X @ V)))
self_attention.wrong(
    "a product with .T, which turns all three axes around",
    "Exchange the last two: transpose(1, 2), or .mT.",
)(_with_itself(attend=attending(score=lambda query, key: query @ key.T)))
self_attention.wrong(
    "self-attention where the tokens themselves are compared: Q and K are not used",
    "The scores are those of queries and keys: X Q (X K)^T.",
)(_with_itself(lambda X, Q, K, V: (X, X, X @ V)))
self_attention.wrong(
    "self-attention that averages the tokens: V is not used",
    "What is averaged are the values, X @ V.",
)(_with_itself(lambda X, Q, K, V: (X @ Q, X @ K, X)))
self_attention.wrong(
    "self-attention that averages the keys",
    "Keys are what a query is compared with; what is averaged are the values.",
)(_with_itself(lambda X, Q, K, V: (X @ Q, X @ K, X @ K)))
self_attention.wrong(
    "self-attention with a softmax over the queries",
    "Every token shares its attention among all tokens: the softmax goes over the last axis.",
)(_with_itself(attend=attending(weigh=lambda scores: scores.softmax(dim=-2))))
self_attention.wrong(
    "self-attention with a softmax over the batch",
    "The softmax goes over the keys of one sequence, the last axis.",
)(_with_itself(attend=attending(weigh=lambda scores: scores.softmax(dim=0))))
self_attention.wrong(
    "self-attention without a softmax",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(_with_itself(attend=attending(weigh=lambda scores: scores)))
self_attention.wrong(
    "self-attention of all tokens of the batch with one another",
    "The sequences of a batch know nothing of each other: keep the axis B, and let @ treat it as a "
    "leading axis.",
)(lambda X, Q, K, V: _with_itself()(X.reshape(1, -1, X.shape[-1]), Q, K, V).reshape(*X.shape))
self_attention.wrong(
    "self-attention along the batch: tokens at the same position of all sequences",
    "The first axis is the batch. Tokens of one sequence stand along axis 1.",
)(lambda X, Q, K, V: _with_itself()(X.transpose(0, 1), Q, K, V).transpose(0, 1))
self_attention.wrong(
    "self-attention that leaves the token itself out",
    "A token is one of its own keys.",
)(_with_itself(attend=_where(lambda i, j: i != j)))
self_attention.wrong(
    "masked self-attention: no token sees a later one",
    "The mask comes in chapter 07. Here every token sees all tokens.",
)(_with_itself(attend=_where(lambda i, j: i >= j)))
self_attention.wrong(
    "right but for X, which is added to the output",
    "That is a residual connection, which comes in chapter 09.",
)(lambda X, Q, K, V: X + _with_itself()(X, Q, K, V))
self_attention.wrong(
    "right in its values, but no gradient reaches Q and K",
    "Something cuts them off from the graph: detach(), numpy(), .data or tensor(...).",
)(_with_itself(lambda X, Q, K, V: (X @ Q.detach(), X @ K.detach(), X @ V)))
