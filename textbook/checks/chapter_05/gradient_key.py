"""Answers to the exercises of ``gradient.py``."""

import math

import minitorch as mt
from textbook.checks.chapter_05.gradient import _gradient_cases, self_attention_gradient


@self_attention_gradient.answer(
    hidden_cases=lambda draw: _gradient_cases(draw, others=[(2, 4), (5, 3)])
)
def self_attention_gradient(X, Q, K, V, grad_output):
    """The gradients of the loss with respect to X (n, d) and to Q, K and V (d, d)."""
    query, key, value = X @ Q, X @ K, X @ V
    root = math.sqrt(X.shape[1])
    weights = (query @ key.T / root).softmax(dim=-1)  # (n, n)

    grad_value = weights.T @ grad_output
    grad_weights = grad_output @ value.T
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)
    grad_scores = weights * (grad_weights - average) / root
    grad_query, grad_key = grad_scores @ key, grad_scores.T @ query

    grad_X = grad_query @ Q.T + grad_key @ K.T + grad_value @ V.T
    return grad_X, X.T @ grad_query, X.T @ grad_key, X.T @ grad_value


# Right in another way


def gradient_with_einsum(X, Q, K, V, grad_output):
    query, key, value = X @ Q, X @ K, X @ V
    scale = X.shape[1] ** -0.5
    A = (mt.einsum("id,jd->ij", query, key) * scale).softmax(-1)
    dA = mt.einsum("id,jd->ij", grad_output, value)
    dS = scale * (A * dA - A * mt.einsum("ij,ij->i", A, dA)[:, None])
    dquery, dkey = mt.einsum("ij,jd->id", dS, key), mt.einsum("ij,id->jd", dS, query)
    dvalue = mt.einsum("ij,id->jd", A, grad_output)
    dX = mt.einsum("ne,de->nd", dquery, Q) + mt.einsum("ne,de->nd", dkey, K)
    dX = dX + mt.einsum("ne,de->nd", dvalue, V)
    return dX, *(mt.einsum("nd,ne->de", X, g) for g in (dquery, dkey, dvalue))


def gradient_with_jacobians(X, Q, K, V, grad_output):
    """Query by query, through the matrix diag(p) - p p^T."""
    n, d = X.shape
    query, key, value = X @ Q, X @ K, X @ V
    dquery, dkey, dvalue = [], mt.zeros(n, d), mt.zeros(n, d)
    for i in range(n):
        p = (key @ query[i] / d**0.5).softmax(dim=0)
        dscores = (mt.diag(p) - mt.outer(p, p)) @ (value @ grad_output[i]) / d**0.5
        dquery.append(dscores @ key)
        dkey = dkey + mt.outer(dscores, query[i])
        dvalue = dvalue + mt.outer(p, grad_output[i])
    dquery = mt.stack(dquery)
    return [
        dquery @ Q.T + dkey @ K.T + dvalue @ V.T,
        X.T @ dquery,
        X.T @ dkey,
        X.T @ dvalue,
    ]


def gradient_without_projections(X, Q, K, V, grad_output):
    """The gradients of M = Q K^T and of V first; no query, key or value is made."""
    root = math.sqrt(X.shape[1])
    M = Q @ K.T / root
    A = (X @ M @ X.T).softmax(dim=-1)
    mixed = A @ X
    G = grad_output @ V.T
    dA = G @ X.T
    dS = A * (dA - (A * dA).sum(-1, keepdim=True))
    dX = A.T @ G + dS @ X @ M.T + dS.T @ X @ M
    dM = X.T @ dS @ X / root
    return dX, dM @ K, dM.T @ Q, mixed.T @ grad_output


def _self_attended(X, Q, K, V):
    """One matrix between two tokens, and the mean token through V."""
    scores = X @ (Q @ K.T / math.sqrt(len(Q))) @ X.transpose(1, 2)
    return mt.softmax(scores, dim=2) @ X @ V


def _leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


def gradient_by_the_engine(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    (_self_attended(inputs[0][None], *inputs[1:]) * grad_output).sum().backward()
    return [x.grad for x in inputs]


def gradient_by_autograd(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    output = _self_attended(inputs[0][None], *inputs[1:])
    return mt.autograd.grad(output, inputs, grad_output[None])


right = {
    "self_attention_gradient": [
        gradient_with_einsum,
        gradient_with_jacobians,
        gradient_without_projections,
    ],
}
refused = {
    "self_attention_gradient": [gradient_by_the_engine, gradient_by_autograd],
}
