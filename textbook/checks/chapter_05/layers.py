"""Scaled dot-product attention, with a bias."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise

# Attention


def _attention_cases(draw, hidden):
    """Any leading axes; sizes that differ, so that each wrong divisor gives a wrong number.

    Biases are None, of fewer axes, or shut keys; in some cases all keys of a query are shut.
    """
    sizes = [(1, (), 1, 2, 3, 2), (1, (3,), 2, 3, 5, 1), (1000, (2, 2), 3, 2, 4, 2)]
    if hidden:
        sizes = [(1, (), 3, 4, 2, 3), (1, (3,), 4, 2, 6, 1), (1000, (2, 1, 2), 2, 3, 5, 2)]
    for scale, lead, steps, n, d, d_v in sizes:
        query, key = scale * draw.normal(*lead, steps, d), draw.normal(*lead, n, d)
        value = draw.normal(*lead, n, d_v)
        yield query, key, value, None
        yield query, key, value, draw.normal(steps, n)
    for lead, steps, n, d in [((2,), 3, 4, 5), ((), 4, 3, 2)]:
        query, key, value = (draw.normal(*lead, k, d) for k in (steps, n, n))
        bias = draw.normal(*lead, steps, n).masked_fill(draw.normal(*lead, steps, n) > 0.5, -mt.inf)
        bias[..., 0, :] = 0.0
        bias[..., 0, 1] = -mt.inf
        yield query, key, value, bias.clone()
        bias[..., 1, :] = -mt.inf  # nothing is left for this query
        yield query, key, value, bias
    query, key, value = (draw.normal(3, 2, k, 5) for k in (3, 4, 4))
    bias = draw.normal(3, 4)
    bias[1] -= 2e9  # low, but not minus infinity; one key is shut among them
    bias[1, 0] = -mt.inf
    bias[2] -= 2e9  # and here none is shut
    yield query, key, value, bias


def _dot(query, key):
    return query @ key.transpose(-2, -1)


def _root_of_d(query, key, value):
    return query.shape[-1] ** 0.5


def _length(x):
    return (x**2).sum(dim=-1, keepdim=True).sqrt()


def _softmax(scores):
    return scores.softmax(dim=-1)


def _biased(scores, root, bias):
    return scores / root if bias is None else scores / root + bias


def _shut(scores):
    """(..., T, 1), True where all scores of a query are minus infinity."""
    return (scores == -mt.inf).all(dim=-1, keepdim=True)


def _zeros_if_shut(scores, weigh):
    return weigh(scores.masked_fill(_shut(scores), 0.0)).masked_fill(_shut(scores), 0.0)


def attending(
    divisor=_root_of_d,
    score=_dot,
    weigh=_softmax,
    combine=mt.matmul,
    add=_biased,
    around=_zeros_if_shut,
):
    """Attention with one of its pieces exchanged."""

    def attend(query, key, value, bias=None):
        scores = add(score(query, key), divisor(query, key, value), bias)
        weights = weigh(scores) if bias is None else around(scores, weigh)
        return combine(weights, value)

    return attend


def _averages(answer, query, key, value, bias):
    output = answer(query, key, mt.ones_like(value), bias)
    shut = mt.tensor(False) if bias is None else _shut(bias)
    if not mt.allclose(output.masked_fill(shut, 1.0), mt.ones_like(output)):
        return (
            "The check asked again with all values set to 1, and not every output was 1: the "
            "weights of a query must add up to 1."
        )
    if not mt.allclose(output.masked_fill(~shut, 0.0), mt.zeros_like(output)):
        return "The output of a query whose keys are all shut must be zeros."
    return None


@exercise(
    cases=_attention_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose and softmax",
    properties=(_averages,),
    see='chapter 05, "Dividing by the root of d"',
)
def attention(query, key, value, bias=None):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    if bias is None:
        return scores.softmax(dim=-1) @ value
    scores = scores + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)  # (..., T, 1)
    weights = scores.masked_fill(shut, 0.0).softmax(dim=-1)
    return weights.masked_fill(shut, 0.0) @ value


for name, hint, pieces in (
    (
        "attention without the bias",
        "Where a bias is given, it is added to the scaled scores, before the softmax.",
        {"add": lambda scores, root, bias: scores / root},
    ),
    (
        "right but for the bias, which is divided by the square root of d, too",
        "First the division, then the bias.",
        {"add": lambda scores, root, bias: (scores if bias is None else scores + bias) / root},
    ),
    (
        "right but for the bias, which is added twice",
        "Once.",
        {"add": lambda scores, root, bias: _biased(_biased(scores, root, bias), 1, bias)},
    ),
    (
        "right without a bias; with one the scores are not divided",
        "The scores are divided in any case.",
        {"add": lambda scores, root, bias: scores / root if bias is None else scores + bias},
    ),
    (
        "right but for the bias, which multiplies the scores",
        "It is added.",
        {"add": lambda scores, root, bias: scores / root * (1 if bias is None else bias)},
    ),
    (
        "right but for the bias, which is subtracted",
        "It is added.",
        {"add": lambda scores, root, bias: scores / root - (0 if bias is None else bias)},
    ),
    (
        "right but for the bias, which is taken for a mask: only its minus infinities count",
        "All of its numbers are added to the scores.",
        {
            "add": lambda scores, root, bias: (
                scores / root
                if bias is None
                else (scores / root).masked_fill(bias == -mt.inf, -mt.inf)
            )
        },
    ),
    (
        "right but for a query that may not look everywhere: its output is zeros",
        "Zeros only where all keys are shut. The others share the attention.",
        {
            "around": lambda scores, weigh: weigh(
                scores.masked_fill(_shut(scores), 0.0)
            ).masked_fill((scores == -mt.inf).any(dim=-1, keepdim=True), 0.0)
        },
    ),
    (
        "right but for shut keys, whose score is low, but not low enough",
        "Other scores may be lower still. Minus infinity is not.",
        {
            "around": lambda scores, weigh: weigh(
                scores.masked_fill(scores == -mt.inf, -1e4)
            ).masked_fill(scores == -mt.inf, 0.0)
        },
    ),
    (
        "right but for shut keys, whose score of -1e9 is not below all others",
        "Minus infinity is: a bias may have any number.",
        {
            "around": lambda scores, weigh: weigh(
                scores.masked_fill(scores == -mt.inf, -1e9)
            ).masked_fill(_shut(scores), 0.0)
        },
    ),
    (
        "right but for very low scores, which it takes for shut",
        "Only minus infinity shuts a key out.",
        {
            "around": lambda scores, weigh: _zeros_if_shut(
                scores.masked_fill(scores < -500, -mt.inf), weigh
            )
        },
    ),
    (
        "right but for very low biases, which it takes for shut",
        "Only minus infinity shuts a key out.",
        {
            "around": lambda scores, weigh: _zeros_if_shut(
                scores.masked_fill(scores < -1e8, -mt.inf), weigh
            )
        },
    ),
    (
        "right but for a query for which nothing is left: its output is NaN",
        "A softmax of minus infinities is 0 / 0. Such a query gets zeros, each one by itself.",
        {"around": lambda scores, weigh: weigh(scores)},
    ),
    (
        "right in its values, but the gradient at a query for which nothing is left is NaN",
        "What is replaced afterwards still has a gradient, and 0 * NaN is NaN. Give the softmax "
        "numbers in such a row, and take the weights away after it.",
        {"around": lambda scores, weigh: weigh(scores).masked_fill(_shut(scores), 0.0)},
    ),
    (
        "right in its values, but the NaN that it replaces in the output spoils the gradient",
        "What is replaced afterwards still has a gradient, and 0 * NaN is NaN. Give the softmax "
        "numbers in a row for which nothing is left, and take the weights away after it.",
        {
            "around": lambda scores, weigh: weigh(scores),
            "combine": lambda weights, value: (weights @ value).nan_to_num(0.0),
        },
    ),
    (
        "right but for a query for which nothing is left: it gets the mean of all values",
        "With the same number everywhere in its row, 0 or -1e9, it looks at all keys alike. It may "
        "look at none of them: zeros.",
        {"around": lambda scores, weigh: weigh(scores.masked_fill(_shut(scores), 0.0))},
    ),
):
    attention.wrong(name, hint)(attending(**pieces))


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
    "attention with the scores divided by a rounded square root of d",
    "math.isqrt and // round: math.sqrt(d) or d ** 0.5.",
)(attending(divisor=lambda query, key, value: math.isqrt(query.shape[-1])))
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
    lambda query, key, value, bias=None: (
        attending(divisor=lambda query, key, value: 1)(query, key, value, bias)
        / query.shape[-1] ** 0.5
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
)(lambda query, key, value, bias=None: attending()(query, key, key, bias))
attention.wrong(
    "right, but returns the weights as well",
    "Return the output alone, (..., T, d_v).",
)(attending(combine=lambda weights, value: (weights @ value, weights)))
attention.wrong(
    "right in its values, but no gradient reaches the scores",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)(attending(weigh=lambda scores: scores.softmax(dim=-1).detach()))
