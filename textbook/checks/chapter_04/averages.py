"""Weighted averages: one query, all queries, padded keys, and a table to look things up in."""

import math

import minitorch as mt
from textbook.checks.exercise import Draw, exercise
from textbook.data import padding_mask

# One query


def _one_query_cases(draw, hidden):
    for batch, n, d in [(1, 2, 1), (2, 3, 2), (3, 4, 5)] + [(5, 1, 2), (4, 9, 3)] * hidden:
        yield 2 * draw.normal(batch, n), draw.normal(batch, n, d)


def _softmax(scores):
    return scores.softmax(dim=-1)


def weighted_sum(weights, values):
    """(B, n), (B, n, d) -> (B, d)."""
    return (weights.unsqueeze(1) @ values).squeeze(1)


def _attending(weigh=_softmax, combine=weighted_sum):
    """Attention of one query with one of its pieces exchanged."""

    def attention(scores, values):
        weights = weigh(scores)
        return combine(weights, values), weights

    return attention


def _weights_add_up_to_one(answer, *case):
    totals = answer(*case)[1].sum(dim=-1)
    if not mt.allclose(totals, mt.ones_like(totals)):
        return "The weights of a query must add up to 1."
    return None


@exercise(
    cases=_one_query_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="softmax and a weighted sum",
    properties=(_weights_add_up_to_one,),
    see='chapter 04, "One step, by hand"',
)
def attend(scores, values):
    """Scores (B, n) and values (B, n, d) give the context (B, d) and the weights (B, n)."""
    weights = scores.softmax(dim=-1)  # (B, n)
    return (weights.unsqueeze(-1) * values).sum(dim=1), weights


attend.wrong(
    "attention with a softmax over the batch",
    "The n keys of one query share its attention: the softmax goes over the last axis.",
)(_attending(weigh=lambda scores: scores.softmax(dim=0)))
attend.wrong(
    "attention without a softmax: the scores themselves are the weights",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(_attending(weigh=lambda scores: scores))
attend.wrong(
    "attention with the scores divided by their sum",
    "Scores may be negative. What is divided by its sum is exp of the scores: a softmax.",
)(_attending(weigh=lambda scores: scores / scores.sum(dim=-1, keepdim=True)))
attend.wrong(
    "attention with exp of the scores, not divided by their sum",
    "The weights of a query have to add up to 1.",
)(_attending(weigh=mt.exp))
attend.wrong(
    "attention with a sigmoid of each score",
    "With sigmoids the weights do not add up to 1: the keys must compete, in a softmax.",
)(_attending(weigh=mt.sigmoid))
attend.wrong(
    "right in its weights, but the context is the plain mean of the values",
    "Each value counts with its weight.",
)(_attending(combine=lambda weights, values: values.mean(dim=1)))
attend.wrong(
    "right in its weights, but the context is divided by n",
    "The weights add up to 1 already: the weighted sum is the average.",
)(_attending(combine=lambda weights, values: weighted_sum(weights, values) / values.shape[1]))
attend.wrong(
    "right in its weights, but the context is the value of the largest one alone",
    "That is a hard choice, which lets no gradient through. Take the sum of all values, each "
    "times its weight.",
)(
    _attending(
        combine=lambda weights, values: values[mt.arange(len(values)), weights.argmax(dim=-1)]
    )
)
attend.wrong(
    "right in its weights, but the weighted values are not added up",
    "The context is one vector for each query, (B, d): sum over the keys.",
)(_attending(combine=lambda weights, values: weights.unsqueeze(-1) * values))
attend.wrong(
    "right in its weights, but the weighted values are added up along the wrong axis",
    "The sum goes over the n keys, axis 1 of values; the context has shape (B, d).",
)(_attending(combine=lambda weights, values: (weights.unsqueeze(-1) * values).sum(dim=-1)))
attend.wrong(
    "right in its values, but no gradient reaches the scores",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)(_attending(weigh=lambda scores: _softmax(scores).detach()))


@attend.wrong(
    "right but for the order: the weights come first",
    "Return the context first, then the weights.",
)
def _(scores, values):
    return tuple(reversed(attend.reference(scores, values)))


# All queries in matrices


def _matrix_cases(draw, hidden):
    """More keys than queries in public cases, so that a wrong index gives a wrong number."""
    sizes = [(1, 1, 2, 2, 1), (2, 2, 3, 2, 3), (2, 3, 4, 3, 2), (1, 3, 3, 2, 2)]
    for batch, steps, n, d, d_v in sizes + [(3, 5, 2, 4, 3), (2, 4, 7, 3, 5)] * hidden:
        yield draw.normal(batch, steps, d), draw.normal(batch, n, d), draw.normal(batch, n, d_v)


def _dot(queries, keys):
    return queries @ keys.transpose(1, 2)


def _in_matrices(score=_dot, dim=-1, combine=mt.matmul):
    """Attention of all queries with one of its pieces exchanged."""

    def attention(queries, keys, values):
        weights = score(queries, keys).softmax(dim=dim)
        return combine(weights, values), weights

    return attention


@exercise(
    cases=_matrix_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose and softmax",
    properties=(_weights_add_up_to_one,),
    see='chapter 04, "In matrices"',
)
def attend_all(queries, keys, values):
    """Queries (B, T, d), keys (B, n, d), values (B, n, d_v) give contexts and weights (B, T, n)."""
    scores = queries @ keys.transpose(1, 2)  # (B, T, n)
    weights = scores.softmax(dim=-1)
    return weights @ values, weights


attend_all.wrong(
    "attention with a softmax over the queries",
    "Every query shares its attention among the n keys: the softmax goes over the last axis of "
    "the scores (B, T, n).",
)(_in_matrices(dim=1))
attend_all.wrong(
    "attention with a softmax over the batch",
    "Every query shares its attention among the n keys: the softmax goes over the last axis of "
    "the scores (B, T, n).",
)(_in_matrices(dim=0))
attend_all.wrong(
    "scaled attention: the scores are divided by the square root of d",
    "That is the scaled dot product of chapter 05. Here the scores are the plain dot products.",
)(_in_matrices(score=lambda queries, keys: _dot(queries, keys) / queries.shape[-1] ** 0.5))
attend_all.wrong(
    "attention to vectors of length 1: the scores are cosines",
    "The scores are the dot products of queries and keys as they are.",
)(
    _in_matrices(
        score=lambda queries, keys: _dot(
            queries / (queries**2).sum(dim=-1, keepdim=True).sqrt(),
            keys / (keys**2).sum(dim=-1, keepdim=True).sqrt(),
        )
    )
)
attend_all.wrong(
    "right in its weights, but the contexts are divided by n",
    "The weights of a query add up to 1 already: the weighted sum is the average.",
)(_in_matrices(combine=lambda weights, values: weights @ values / values.shape[1]))
attend_all.wrong(
    "right in its weights, but all contexts are the plain mean of the values",
    "Each value counts with its weight: weights @ values.",
)(
    _in_matrices(
        combine=lambda weights, values: values.mean(dim=1, keepdim=True).expand(
            -1, weights.shape[1], -1
        )
    )
)


@attend_all.wrong(
    "the sum over j of weights[i, j] times value i",
    "The index of the value must be that of the key: sum over j of weights[i, j] * values[j]. (A "
    "slide has v_i there. As the weights add up to 1, that sum is v_i itself.)",
)
def _(queries, keys, values):
    _, weights = attend_all.reference(queries, keys, values)
    rows = [
        sum(weights[:, i, j, None] * values[:, i] for j in range(keys.shape[1]))
        for i in range(queries.shape[1])
    ]
    return mt.stack(rows, dim=1), weights


@attend_all.wrong(
    "right in its weights, but averages the keys",
    "Keys are what a query is compared with; what is averaged are the values.",
)
def _(queries, keys, values):
    return attend_all.reference(queries, keys, keys)


@attend_all.wrong(
    "right in its contexts, but returns the weights transposed",
    "Row i of the weights belongs to query i: (B, T, n).",
)
def _(queries, keys, values):
    contexts, weights = attend_all.reference(queries, keys, values)
    return contexts, weights.transpose(1, 2)


@attend_all.wrong(
    "right in its contexts, but returns the scores",
    "The weights are the scores after the softmax.",
)
def _(queries, keys, values):
    return attend_all.reference(queries, keys, values)[0], _dot(queries, keys)


@attend_all.wrong(
    "right but for the order: the weights come first",
    "Return the contexts first, then the weights.",
)
def _(queries, keys, values):
    return tuple(reversed(attend_all.reference(queries, keys, values)))


# Padded keys


def inside(lengths, n):
    """(B, n): whether a source position is no padding."""
    return ~padding_mask(lengths, n)


def masked_softmax(scores, lengths):
    """(B, ..., n), (B) -> weights that are 0 in the padding."""
    valid = inside(lengths, scores.shape[-1])
    if scores.ndim == 3:
        valid = valid.unsqueeze(1)
    return scores.masked_fill(~valid, -mt.inf).softmax(dim=-1)


def _padded_cases(draw, hidden):
    """The smallest case has high scores in the padding and low ones elsewhere."""
    yield draw.normal(1, 1, 2) + mt.tensor([-500, 500]), mt.tensor([1])
    yield draw.normal(1, 1, 3), mt.tensor([2])
    yield draw.normal(2, 3, 3), mt.tensor([3, 1])
    yield 2 * draw.normal(3, 2, 5), 1 + draw.integers(4, 3)
    if hidden:
        yield draw.normal(1, 2, 1), mt.tensor([1])
        yield 3 * draw.normal(6, 4, 9), 1 + draw.integers(9, 6)


def _padding_takes_no_part(answer, scores, lengths):
    weights = answer(scores.requires_grad_(), lengths)
    (weights * Draw(0).normal(*weights.shape)).sum().backward()
    padding = (~inside(lengths, scores.shape[-1])).unsqueeze(1)
    if bool(((weights != 0) & padding).any()):
        return "The weight of a padded position must be exactly 0."
    if bool(((scores.grad != 0) & padding).any()):
        return "The gradient at a padded position must be exactly 0."
    return None


@exercise(
    cases=_padded_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="masked_fill and softmax",
    properties=(_padding_takes_no_part,),
    see='chapter 04, "In matrices"',
)
def padded_weights(scores, lengths):
    """Scores (B, T, n) and lengths (B) give weights (B, T, n) that are 0 in the padding."""
    padding = mt.arange(scores.shape[-1]) >= lengths.unsqueeze(1)  # (B, n)
    return scores.masked_fill(padding.unsqueeze(1), -mt.inf).softmax(dim=-1)


@padded_weights.wrong(
    "the softmax over all positions, padding included",
    "lengths is not used. Sequence b has lengths[b] positions; the rest must get no weight.",
)
def _(scores, lengths):
    return scores.softmax(dim=-1)


@padded_weights.wrong(
    "the softmax of scores that are 0 in the padding",
    "A score of 0 still has the weight exp(0) = 1. Only a score of minus infinity takes a position "
    "out.",
)
def _(scores, lengths):
    return (scores * inside(lengths, scores.shape[-1]).unsqueeze(1)).softmax(dim=-1)


@padded_weights.wrong(
    "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
    "The padding has had its share of the sum by then. Mask the scores, before the softmax.",
)
def _(scores, lengths):
    return scores.softmax(dim=-1) * inside(lengths, scores.shape[-1]).unsqueeze(1)


@padded_weights.wrong(
    "masked after the softmax and divided by the sum of what is left",
    "On paper that is right, but where the padding has the high scores nothing is left, and 0 / 0 "
    "is not a number. Mask the scores, before the softmax.",
)
def _(scores, lengths):
    weights = scores.softmax(dim=-1) * inside(lengths, scores.shape[-1]).unsqueeze(1)
    return weights / weights.sum(dim=-1, keepdim=True)


@padded_weights.wrong(
    "masked the wrong way round: the padding alone has weights",
    "masked_fill changes the positions where the mask is True: those from lengths[b] on.",
)
def _(scores, lengths):
    padding = ~inside(lengths, scores.shape[-1]).unsqueeze(1)
    return scores.masked_fill(~padding, -mt.inf).softmax(dim=-1)


@padded_weights.wrong(
    "off by one: one position of padding keeps its weight",
    "Positions count from 0, so position j is inside if j < lengths[b].",
)
def _(scores, lengths):
    return masked_softmax(scores, lengths + 1)


@padded_weights.wrong(
    "off by one: the last position of each sequence gets no weight",
    "Positions count from 0, so position j is inside if j < lengths[b].",
)
def _(scores, lengths):
    return masked_softmax(scores, lengths - 1)


@padded_weights.wrong(
    "masked with a score that is not low enough",
    "Where all scores are lower still, the padding wins. Use minus infinity.",
)
def _(scores, lengths):
    padding = ~inside(lengths, scores.shape[-1]).unsqueeze(1)
    return scores.masked_fill(padding, -100.0).softmax(dim=-1)


@padded_weights.wrong(
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the keys: the softmax goes over the last axis.",
)
def _(scores, lengths):
    padding = ~inside(lengths, scores.shape[-1]).unsqueeze(1)
    return scores.masked_fill(padding, -mt.inf).softmax(dim=1)


@padded_weights.wrong(
    "a mask along the queries, not along the keys",
    "The last axis is the source with its padding: compare arange(n) with lengths, as (B, 1, n).",
)
def _(scores, lengths):
    valid = inside(lengths, scores.shape[1]).unsqueeze(-1)
    return scores.masked_fill(~valid, -mt.inf).softmax(dim=-1)


# Look-up


def _table_cases(draw, hidden):
    yield from [(2, 0.25), (2, 0.5), (3, 0.1), (4, 0.75), (5, 0.01), (3, 1e-6)]
    if hidden:
        yield from [(9, 1e-6), (7, 0.3), (6, 5 / 6), (4, 0.9), (3, 0.5)]


def _looked_up(answer, n, error):
    keys, queries = answer(n, error)
    return {"the tensor of weights": (queries.double() @ keys.double().T).softmax(dim=-1)}


def _table(scale):
    """Keys that are one-hot, and queries that are ``scale(n, error)`` times the keys."""

    def table(n, error):
        return mt.eye(n), mt.eye(n) * scale(n, error)

    return table


def _right_scale(n, error):
    return math.log((n - 1) * (1 - error) / error)


@exercise(
    cases=_table_cases,
    run=_looked_up,
    gradients=False,
    see='chapter 04, "Sharp and flat queries"',
)
def lookup_table(n, error):
    """Keys (n, d) and queries (n, d) with the weight 1 - error of query i on key i."""
    # e^scale / 1 must be the ratio of the two weights.
    scale = math.log((1 - error) / (error / (n - 1)))
    return mt.eye(n), scale * mt.eye(n)


lookup_table.wrong(
    "a table whose queries are not scaled: they are as flat for every error",
    "With orthonormal keys, multiply query i by the scale at which its softmax is sharp enough.",
)(_table(lambda n, error: 1.0))
lookup_table.wrong(
    "a table that ignores the error: every query finds its value all but exactly",
    "Any large scale gives that. Solve for the scale at which n - 1 other keys have the weight "
    "error together.",
)(_table(lambda n, error: 100.0))
lookup_table.wrong(
    "a table whose queries are all flat: each finds the mean of the values",
    "That is right for error = (n - 1) / n alone. Query i must fit key i better than the others.",
)(_table(lambda n, error: 0.0))
lookup_table.wrong(
    "right for n = 2 alone: the scale is log((1 - error) / error)",
    "The weight error is shared by n - 1 other keys, so each of them has error / (n - 1).",
)(_table(lambda n, error: math.log((1 - error) / error)))
lookup_table.wrong(
    "a table where every other key has the weight error",
    "All n - 1 others together have the weight error.",
)(
    _table(
        lambda n, error: mt.log(mt.tensor((1 - (n - 1) * error) / error, dtype=mt.float64)).item()
    )
)
lookup_table.wrong(
    "right but for the factor n - 1, by which it divides",
    "Key i outweighs each other key by (1 - error) divided by error / (n - 1).",
)(_table(lambda n, error: math.log((1 - error) / error / (n - 1))))
lookup_table.wrong(
    "right but for the logarithm, which is missing",
    "The ratio of two weights is exp of the difference of their scores.",
)(_table(lambda n, error: (n - 1) * (1 - error) / error))
lookup_table.wrong(
    "right but for the sign: each query points away from its key",
    "The larger weight needs the larger score.",
)(_table(lambda n, error: -_right_scale(n, error)))
lookup_table.wrong(
    "right but for the square root of n, by which the scale is multiplied",
    "Here no score is divided by the square root of d; that comes in chapter 05.",
)(_table(lambda n, error: _right_scale(n, error) * n**0.5))
lookup_table.wrong(
    "a table with the scale on both sides",
    "Scale the queries or the keys. With both, every score has the scale squared.",
)(_table(lambda n, error: _right_scale(n, error) ** 2))
