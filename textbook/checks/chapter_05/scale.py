"""How far scores spread, and what a change of a score does to the output."""

import numpy as np

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# The spread of the scores


def _matrix_cases(draw, hidden):
    for d, size in [(3, 3), (4, 2)] + [(6, 3), (2, 9)] * hidden:
        yield draw.normal(d, size), draw.normal(d, size)
    eye = mt.eye(4, dtype=mt.float64)
    yield eye, eye  # plain dot products of tokens: the square root of d


def _norm(matrix):
    return (matrix**2).sum().sqrt().item()


def _computed(answer, Q, K):
    if difference(answer(Q, K), answer(Q, K), ""):
        return "Your answer gives another number each time. It can be computed, without chance."
    return None


@exercise(
    cases=_matrix_cases,
    properties=(_computed,),
    gradients=False,
    see='chapter 05, "Scores against the width"',
)
def score_deviation(Q, K):
    """Two matrices (d, d_k) give the standard deviation of a score, a number."""
    between = Q @ K.T  # (d, d)
    return (between**2).sum().sqrt().item()


score_deviation.wrong(
    "the variance of the score",
    "The standard deviation is its square root.",
)(lambda Q, K: _norm(Q @ K.T) ** 2)
score_deviation.wrong(
    "the square root of d, whatever the matrices hold",
    "That is right for Q = K = the identity. In general it is the matrix between the two tokens, "
    "Q K^T, that decides.",
)(lambda Q, K: len(Q) ** 0.5)
score_deviation.wrong(
    "the square root of the size of a key, whatever the matrices hold",
    "That is right where the queries and keys themselves are standard normal. Here the tokens are, "
    "and the matrices make queries and keys of them.",
)(lambda Q, K: Q.shape[1] ** 0.5)
score_deviation.wrong(
    "the product of what Q and K do each by itself",
    "The norm of a product is not the product of the norms. Multiply the matrices first: the score "
    "of x and y is x Q K^T y^T.",
)(lambda Q, K: _norm(Q) * _norm(K))
for name, divisor in {
    "the square root of d": lambda Q: len(Q) ** 0.5,
    "the square root of d_k": lambda Q: Q.shape[1] ** 0.5,
    "both square roots": lambda Q: (len(Q) * Q.shape[1]) ** 0.5,
}.items():
    score_deviation.wrong(
        f"the product of what Q and K do each by itself, divided by {name}",
        "That may be right for the identity. In general the norm of a product is not made of the "
        "norms: multiply the matrices first.",
    )(lambda Q, K, divisor=divisor: _norm(Q) * _norm(K) / divisor(Q))
score_deviation.wrong(
    "the same sum for Q^T K in place of Q K^T",
    "Between two tokens stands Q K^T: the score is (x Q) (y K)^T.",
)(lambda Q, K: _norm(Q.T @ K))
score_deviation.wrong(
    "the same sum for Q K in place of Q K^T",
    "Between two tokens stands Q K^T: the score is (x Q) (y K)^T.",
)(lambda Q, K: _norm(Q @ K))
score_deviation.wrong(
    "the largest stretch of Q K^T",
    "All directions of a token count alike, not only the one that is stretched most: add up the "
    "squares of all entries.",
)(lambda Q, K: float(np.linalg.norm((Q @ K.T).numpy(), 2)))
score_deviation.wrong(
    "a sum over the diagonal of Q K^T alone",
    "Every component of one token meets every component of the other: all entries count.",
)(lambda Q, K: ((Q * K).sum(dim=1) ** 2).sum().sqrt().item())
score_deviation.wrong(
    "the sum of the entries of Q K^T, not of their squares",
    "Variances add up, so entries are squared before they are added.",
)(lambda Q, K: (Q @ K.T).sum().item())
score_deviation.wrong(
    "the root of the mean square of the entries of Q K^T",
    "The terms of a score are added up, not averaged, and so are their variances.",
)(lambda Q, K: _norm(Q @ K.T) / len(Q))
score_deviation.wrong(
    "the deviation of the score divided by the square root of d_k",
    "This is about the plain score, before it is scaled.",
)(lambda Q, K: _norm(Q @ K.T) / Q.shape[1] ** 0.5)
score_deviation.wrong(
    "a sum of squares that are taken before Q and K^T are multiplied",
    "(Q K^T)_ab adds up d_k products. Square the entries of the product, not its factors.",
)(lambda Q, K: (Q**2 @ (K**2).T).sum().sqrt().item())
score_deviation.wrong(
    "the matrix Q K^T itself",
    "That is M. How far does x M y^T spread, if x and y are random?",
)(lambda Q, K: Q @ K.T)
score_deviation.wrong(
    "the standard deviation of the entries of Q K^T",
    "The entries are fixed numbers here; what is random are the two tokens.",
)(lambda Q, K: (Q @ K.T).std(correction=0).item())
score_deviation.wrong(
    "the root of the sum of the entries of Q K^T, all taken positive",
    "Variances add up: square the entries, add them up, take the root.",
)(lambda Q, K: (Q @ K.T).abs().sum().item() ** 0.5)
score_deviation.wrong(
    "the sum of the entries of Q K^T, all taken positive",
    "Variances add up: square the entries, add them up, take the root.",
)(lambda Q, K: (Q @ K.T).abs().sum().item())
score_deviation.wrong(
    "the trace of Q K^T",
    "Every component of one token meets every component of the other: square all entries, add them "
    "up, take the root.",
)(lambda Q, K: (Q * K).sum().item())
score_deviation.wrong(
    "the same sum for Q times K element by element",
    "Between two tokens stands the product of matrices Q K^T.",
)(lambda Q, K: _norm(Q * K))
score_deviation.wrong(
    "the deviation of the score divided by the square root of d",
    "This is about the plain score, before it is scaled.",
)(lambda Q, K: _norm(Q @ K.T) / len(Q) ** 0.5)
score_deviation.wrong(
    "the root of the sum of the entries of Q K^T",
    "Variances add up: the sum of the squares, then the root.",
)(lambda Q, K: (Q @ K.T).sum().abs().sqrt().item())
score_deviation.wrong(
    "the root of the trace of Q K^T",
    "All d * d terms count, each with the square of its factor.",
)(lambda Q, K: (Q @ K.T).trace().abs().sqrt().item())
score_deviation.wrong(
    "the root of the trace of M M, with M = Q K^T",
    "Square each entry, M ** 2, and add up all of them: M @ M is a product of matrices, and its "
    "trace may be negative.",
)(lambda Q, K: (Q @ K.T @ Q @ K.T).trace().sqrt().item())
score_deviation.wrong(
    "the sum of the singular values of Q K^T",
    "The root of the sum of their squares.",
)(lambda Q, K: np.linalg.svd((Q @ K.T).numpy(), compute_uv=False).sum())
score_deviation.wrong(
    "the standard deviation of the entries of Q K^T, with d * d - 1",
    "The entries are fixed. What varies is the score of two tokens.",
)(lambda Q, K: (Q @ K.T).std().item())
score_deviation.wrong(
    "the deviation of the score, in which both tokens are one and the same",
    "x and y are drawn independently: every term x_a M_ab y_b has the variance M_ab ** 2.",
)(lambda Q, K: (((Q @ K.T) ** 2).sum() + ((Q @ K.T) * (K @ Q.T)).sum()).sqrt().item())

# What a change of a score does


def _slope_cases(draw, hidden):
    """Scores of several sizes; some are 500 rows of one-sided weights, some in the hundreds."""
    sizes = [(2, 3, 4, 1), (3, 4, 2, 6)] + [(1, 5, 3, 1), (4, 2, 6, 2)] * hidden
    for rows, n, d, size in sizes:
        yield size * draw.normal(rows, n), draw.normal(n, d)
    yield mt.zeros(2, 4, dtype=mt.float64), draw.normal(4, 3)
    far = mt.tensor([[800.0], [-800.0]], dtype=mt.float64)
    yield draw.normal(2, 3) + far, 10 * draw.normal(3, 4)
    yield 20 * draw.normal(60, 3), draw.normal(3, 2)
    yield mt.tensor([[700.0, -300.0, 0.0]], dtype=mt.float64), draw.normal(3, 2)


def _lengths(x):
    return (x**2).sum(dim=-1).sqrt()


def _changing(
    weigh=lambda scores: scores.softmax(dim=-1),
    middle=lambda p, values: p @ values,
    size=_lengths,
    factor=lambda p: p,
):
    """The lengths with one of the pieces exchanged."""

    def change(scores, values):
        p = weigh(scores)
        apart = values - middle(p, values).unsqueeze(-2)  # (T, n, d)
        return factor(p) * size(apart)

    return change


@exercise(
    cases=_slope_cases,
    forbidden=("backward",),
    instead="softmax, and what the chain rule gives with pencil and paper",
    gradients=False,
    see='chapter 05, "Scores against the width"',
)
def moved_by_score(scores, values):
    """Scores (T, n) and values (n, d): how fast the output moves with each score, (T, n)."""
    p = scores.softmax(dim=-1)
    outputs = p @ values  # (T, d)
    apart = values - outputs.unsqueeze(1)  # (T, n, d)
    return p * (apart**2).sum(dim=-1).sqrt()


def _safe_exp(scores, shift):
    return (scores - shift).exp() / (scores - shift).exp().sum(dim=-1, keepdim=True)


COMPETE = (
    "A larger score takes weight from all other keys: the output moves from where it is toward "
    "this value, by p_j (v_j - o)."
)
for name, hint, pieces in (
    (
        "the lengths of p_j v_j: what the other weights lose is missing",
        COMPETE,
        {"middle": lambda p, values: 0 * (p @ values)},
    ),
    (
        "the lengths of p_j (1 - p_j) v_j, with the diagonal of the Jacobian alone",
        COMPETE,
        {"middle": lambda p, values: 0 * (p @ values), "factor": lambda p: p * (1 - p)},
    ),
    (
        "right but for the weight p_j, which is missing",
        "A key without weight moves nothing: p_j (v_j - o).",
        {"factor": mt.ones_like},
    ),
    (
        "right but for the weight, which is p_j (1 - p_j)",
        "That is how the weight itself moves. In v_j - o the other keys are counted already.",
        {"factor": lambda p: p * (1 - p)},
    ),
    (
        "right but for the output, in place of which it takes the plain mean of the values",
        "o is the mean of the values by their weights.",
        {"middle": lambda p, values: values.mean(dim=0).expand(len(p), -1)},
    ),
    (
        "right but for the weight, which is squared",
        "p_j (v_j - o): the weight once.",
        {"factor": lambda p: p**2},
    ),
    (
        "right but for the weight, of which it takes the root",
        "p_j (v_j - o): the weight as it is.",
        {"factor": mt.sqrt},
    ),
    (
        "right but for the sign of the output, which is added",
        "The output moves from where it is toward the value: v_j - o.",
        {"middle": lambda p, values: -(p @ values)},
    ),
    (
        "right but for the squares of the lengths: the root is missing",
        "The length is the root of the sum of squares.",
        {"size": lambda x: (x**2).sum(dim=-1)},
    ),
    (
        "right but for the lengths, for which absolute values are added up",
        "The length is the root of the sum of squares.",
        {"size": lambda x: x.abs().sum(dim=-1)},
    ),
    (
        "right but for the lengths, which are means over the components",
        "The root of the sum of squares: nothing is divided by d.",
        {"size": lambda x: (x**2).mean(dim=-1).sqrt()},
    ),
    (
        "right but for the lengths, for which the largest component is taken",
        "The root of the sum of squares.",
        {"size": lambda x: x.abs().amax(dim=-1)},
    ),
    (
        "right but for the lengths, for which the components are added up",
        "The root of the sum of squares.",
        {"size": lambda x: x.sum(dim=-1)},
    ),
    (
        "right but for the output, in place of which it takes the sum of all values",
        "o is the mean of the values by their weights.",
        {"middle": lambda p, values: values.sum(dim=0).expand(len(p), -1)},
    ),
    (
        "right, as vectors p_j (v_j - o), not their lengths",
        "One number for each score: the root of the sum of squares over d.",
        {"size": lambda x: x, "factor": lambda p: p.unsqueeze(-1)},
    ),
    (
        "right for a softmax over the rows",
        "Each row of scores is one query: the softmax goes over the last axis.",
        {"weigh": lambda scores: scores.softmax(dim=0)},
    ),
    (
        "right for small scores, but exp of a large one is infinite",
        "Subtract the largest score of each row before exp, or use softmax, which does so.",
        {"weigh": lambda scores: _safe_exp(scores, 0.0)},
    ),
    (
        "right for small scores, but subtracts the maximum of all scores before exp",
        "Each row needs a maximum of its own: in a row far below that of another one every exp is "
        "0, and the weights are 0 / 0.",
        {"weigh": lambda scores: _safe_exp(scores, scores.max())},
    ),
    (
        "right but for weights that are exactly 0, by which it divides",
        "The exponential of a large negative number is 0. p_j (v_j - o) needs no division.",
        {"factor": lambda p: p * p / p},
    ),
    (
        "right for scores that are not squashed: the softmax is missing",
        "p is the softmax of the scores.",
        {"weigh": lambda scores: scores},
    ),
    (
        "right for scores divided by the square root of n",
        "Take the scores as they come.",
        {"weigh": lambda scores: (scores / scores.shape[-1] ** 0.5).softmax(dim=-1)},
    ),
):
    moved_by_score.wrong(name, hint)(_changing(**pieces))


@moved_by_score.wrong(
    "right on paper, but its terms cancel: the root of a negative number",
    "The squares of large terms cancel where one weight is nearly 1, and rounding leaves a little "
    "less than 0. Subtract first, v_j - o, and square then.",
)
def _(scores, values):
    p = scores.softmax(dim=-1)
    o = p @ values
    squares = (values**2).sum(dim=-1) - 2 * o @ values.T + (o**2).sum(dim=-1, keepdim=True)
    return p * squares.sqrt()


@moved_by_score.wrong(
    "the norms of the Jacobian of the softmax: the values are not used",
    "Asked for is the output, o = p V: one step further on the chain.",
)
def _(scores, values):
    p = scores.softmax(dim=-1)
    jacobians = mt.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
    return (jacobians**2).sum(dim=1).sqrt()


@moved_by_score.wrong(
    "the difference of two lengths, not the length of the difference",
    "First subtract the output from the value, then take the length.",
)
def _(scores, values):
    p = scores.softmax(dim=-1)
    return p * (_lengths(values) - _lengths(p @ values).unsqueeze(-1)).abs()


@moved_by_score.wrong(
    "right, but one number for each query: the sum over its keys",
    "Each score has its own: (T, n).",
)
def _(scores, values):
    return moved_by_score.reference(scores, values).sum(dim=-1)
