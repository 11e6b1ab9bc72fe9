"""How far scores spread, and what a softmax lets through of the gradient."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.exercise import exercise

# The spread of the scores


def _matrix_cases(draw, hidden):
    for d, size in [(2, 2), (3, 2)] + [(6, 3), (2, 9)] * hidden:
        yield draw.normal(d, size), draw.normal(d, size)
    eye = mt.eye(4, dtype=mt.float64)
    yield eye, eye  # plain dot products of tokens: the square root of d


def _norm(matrix):
    return (matrix**2).sum().sqrt().item()


def _computed(answer, Q, K):
    if answer(Q, K) != answer(Q, K):
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

# The Jacobian of the softmax


def _score_cases(draw, hidden):
    for rows, n, size in [(1, 2, 1), (2, 3, 2), (3, 3, 6)] + [(3, 7, 1)] * hidden:
        yield (size * draw.normal(rows, n),)
    yield (mt.zeros(2, 4, dtype=mt.float64),)
    yield (draw.normal(2, 3) + mt.tensor([[800.0], [-800.0]], dtype=mt.float64),)


def _jacobians(weights):
    """(T, n) -> diag(p) - p p^T for each row, (T, n, n)."""
    return mt.diag_embed(weights) - weights.unsqueeze(2) * weights.unsqueeze(1)


def _norms(matrices):
    return (matrices**2).sum(dim=(1, 2)).sqrt()


def _left(jacobians=_jacobians, dim=-1, size=_norms):
    """The norms with one of the pieces exchanged."""
    return lambda scores: size(jacobians(scores.softmax(dim=dim)))


@exercise(
    cases=_score_cases,
    forbidden=("backward",),
    instead="softmax and the formula of its Jacobian",
    gradients=False,
    see='chapter 05, "Scores against the width"',
)
def jacobian_norms(scores):
    """Scores (T, n) give the norm of the softmax's Jacobian for each row, (T)."""
    p = scores.softmax(dim=-1)
    jacobians = mt.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)  # (T, n, n)
    return (jacobians**2).sum(dim=(1, 2)).sqrt()


jacobian_norms.wrong(
    "the square of the norm: the root is missing",
    "The norm is the square root of the sum of squares.",
)(_left(size=lambda matrices: (matrices**2).sum(dim=(1, 2))))
jacobian_norms.wrong(
    "the norm of the diagonal alone",
    "A score also changes the weights of the other keys: the entries beside the diagonal are "
    "-p_k p_j.",
)(lambda scores: ((scores.softmax(-1) * (1 - scores.softmax(-1))) ** 2).sum(dim=-1).sqrt())
jacobian_norms.wrong(
    "the norm of the weights",
    "That is the norm of diag(p). The second part of the Jacobian, p_k p_j, is missing.",
)(_left(mt.diag_embed))
jacobian_norms.wrong(
    "the norm of the matrix p_k p_j: the diagonal part is missing",
    "The Jacobian is diag(p) minus that matrix.",
)(_left(lambda weights: weights.unsqueeze(2) * weights.unsqueeze(1)))
jacobian_norms.wrong(
    "the norm of diag(p) plus the matrix p_k p_j",
    "The second part is subtracted: more for one key is less for the others.",
)(_left(lambda weights: mt.diag_embed(weights) + weights.unsqueeze(2) * weights.unsqueeze(1)))
jacobian_norms.wrong(
    "the norm of the Jacobian of the log-softmax",
    "That one is the identity minus p in every row. The softmax has a factor p_k more.",
)(
    _left(
        lambda weights: (
            mt.eye(weights.shape[1], dtype=weights.dtype)
            - weights.unsqueeze(1).expand(-1, weights.shape[1], -1)
        )
    )
)
jacobian_norms.wrong(
    "the norm of diag(p) minus p * p, which is no outer product",
    "p * p has n entries, the squares. The matrix of all p_k p_j is p.unsqueeze(-1) * "
    "p.unsqueeze(-2), or mt.outer(p, p) for one row.",
)(_left(lambda weights: mt.diag_embed(weights) - (weights**2).unsqueeze(1)))
jacobian_norms.wrong(
    "the norm of the formula with exp of the scores for p",
    "p is the softmax: exp of the scores divided by their sum over the row.",
)(lambda scores: _norms(_jacobians(scores.exp())))
jacobian_norms.wrong(
    "right for small scores, but exp of a large one is infinite",
    "Subtract the largest score of each row before exp, or use softmax, which does so.",
)(lambda scores: _norms(_jacobians(scores.exp() / scores.exp().sum(dim=-1, keepdim=True))))
jacobian_norms.wrong(
    "right for small scores, but subtracts the maximum of all scores before exp",
    "Each row needs a maximum of its own, amax(dim=-1, keepdim=True): in a row far below that of "
    "another one every exp is 0, and the weights are 0 / 0.",
)(
    lambda scores: _norms(
        _jacobians(
            (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)
        )
    )
)
jacobian_norms.wrong(
    "the trace of the Jacobian, p (1 - p) added up",
    "The norm is the root of the sum of the squares of all entries.",
)(lambda scores: (scores.softmax(-1) * (1 - scores.softmax(-1))).sum(dim=-1))
jacobian_norms.wrong(
    "the sum of the entries of the Jacobian",
    "That is 0 for any scores: what one key gains the others lose. Square before you add.",
)(_left(size=lambda matrices: matrices.sum(dim=(1, 2))))
jacobian_norms.wrong(
    "the sum of the entries of the Jacobian, all taken positive",
    "The norm is the square root of the sum of the squares.",
)(_left(size=lambda matrices: matrices.abs().sum(dim=(1, 2))))
jacobian_norms.wrong(
    "the root of the mean of the squares, not of their sum",
    "The norm does not divide by the number of entries.",
)(_left(size=lambda matrices: (matrices**2).mean(dim=(1, 2)).sqrt()))
jacobian_norms.wrong(
    "the largest entry of the Jacobian",
    "All entries count: the square root of the sum of the squares.",
)(_left(size=lambda matrices: matrices.amax(dim=(1, 2))))
jacobian_norms.wrong(
    "the norm for a softmax over the rows",
    "Each row of scores is one query: the softmax goes over the last axis.",
)(
    lambda scores: _norms(
        mt.diag_embed(scores.softmax(dim=0))
        - scores.softmax(dim=0).unsqueeze(2) * scores.softmax(dim=0).unsqueeze(1)
    )
)
jacobian_norms.wrong(
    "one number for all rows together",
    "Each row has its own Jacobian, and its own norm: the result has shape (T).",
)(_left(size=lambda matrices: (matrices**2).sum().sqrt()))
jacobian_norms.wrong(
    "the norm for the scores divided by the square root of n",
    "Take the scores as they come. (And what they are divided by elsewhere is the square root of "
    "the size of a key, which is not seen here.)",
)(lambda scores: _left()(scores / math.sqrt(scores.shape[-1])))
