"""Checks of the exercises of chapter 00, tensors and autograd."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.checks.exercise import exercise


def _score_cases(draw, hidden):
    shapes = [(3,), (2, 3), (4, 1, 5)] + [(7, 2, 6)] * hidden
    for shape in shapes:
        yield (3 * draw.normal(*shape),)
    yield (1000 * draw.normal(2, 4),)


def _rows_sum_to_one(answer, scores):
    totals = answer(scores).sum(dim=-1)
    if mt.allclose(totals, mt.ones_like(totals)):
        return None
    return "The sums over the last axis must be 1."


def _softmax(scores, dim=-1):
    weights = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return weights / weights.sum(dim=dim, keepdim=True)


@exercise(
    cases=_score_cases,
    forbidden=("softmax", "log_softmax", "logsumexp", "cross_entropy"),
    instead="exp, sum and a division",
    properties=(_rows_sum_to_one,),
    see='chapter 00, "Softmax and cross-entropy"',
)
def softmax(scores):
    """(..., C) -> (..., C)."""
    return F.softmax(scores, dim=-1)


@softmax.wrong(
    "the softmax without subtracting the largest score",
    "exp(1000) is infinite and inf / inf is NaN. The softmax does not change when the same number "
    "is subtracted from all scores of a row: subtract the largest.",
)
def _(scores):
    weights = scores.exp()
    return weights / weights.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "a softmax over the first axis",
    "Each row is a distribution: sum over the last axis, dim=-1, and keep it with keepdim=True.",
)
def _(scores):
    return _softmax(scores, dim=0)


@softmax.wrong(
    "a softmax over all elements together",
    "sum() without dim adds up everything; each row needs its own sum, dim=-1 with keepdim=True.",
)
def _(scores):
    return _softmax(scores.reshape(-1)).reshape(scores.shape)


@softmax.wrong(
    "the log of the softmax",
    "The result must be the probabilities themselves.",
)
def _(scores):
    return _softmax(scores).log()


@softmax.wrong(
    "the scores divided by their sum",
    "Scores can be negative; exp makes them positive first.",
)
def _(scores):
    return scores / scores.sum(dim=-1, keepdim=True)
