"""The gradient of self-attention by hand."""

import math

from textbook.checks.chapter_05.tokens import sequence
from textbook.checks.exercise import exercise


def _gradient_cases(draw, hidden):
    for n, d in [(2, 4), (5, 3)] if hidden else [(3, 4), (4, 2)]:
        yield *sequence(draw, n, d), draw.normal(n, d)


def _through_softmax(weights, gradient):
    return weights * (gradient - (weights * gradient).sum(dim=-1, keepdim=True))


def _toward_roles(weights, toward_scores, query, key, root):
    """The gradients of queries and keys."""
    return toward_scores @ key / root, toward_scores.T @ query / root


def _toward_values(weights, gradient):
    return weights.T @ gradient


def _sum_of_roles(query, key, value):
    return query + key + value


def _outer(X, gradient):
    return X.T @ gradient


def _backward(
    through_softmax=_through_softmax,
    toward_roles=_toward_roles,
    toward_values=_toward_values,
    together=_sum_of_roles,
    toward_matrix=_outer,
    back=lambda gradient, matrix: gradient @ matrix.T,
    weigh=lambda scores: scores.softmax(dim=-1),
):
    """The gradients with one of their pieces exchanged."""

    def backward(X, Q, K, V, gradient):
        query, key, value = X @ Q, X @ K, X @ V
        root = math.sqrt(X.shape[1])
        weights = weigh(query @ key.T / root)
        toward_scores = through_softmax(weights, gradient @ value.T)
        roles = (
            *toward_roles(weights, toward_scores, query, key, root),
            toward_values(weights, gradient),
        )
        toward_X = together(*(back(*pair) for pair in zip(roles, (Q, K, V), strict=True)))
        return toward_X, *(toward_matrix(X, role) for role in roles)

    return backward


@exercise(
    cases=_gradient_cases,
    forbidden=("backward",),
    instead="@, * and sum",
    gradients=False,
    see='chapter 05, "In matrices"',
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


self_attention_gradient.wrong(
    "right but for X, which has the gradient through the values alone",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: value))
self_attention_gradient.wrong(
    "right but for X, where the gradient through the values is missing",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: query + key))
self_attention_gradient.wrong(
    "right but for X, where the gradient through the keys is missing",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: query + value))
self_attention_gradient.wrong(
    "right but for X, where the gradient through the queries is missing",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: key + value))
self_attention_gradient.wrong(
    "right but for X, which has the gradient through the queries alone",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: query))
self_attention_gradient.wrong(
    "right but for X, which has the gradient through the keys alone",
    "X goes into queries, keys and values. Three gradients come back, and they add up.",
)(_backward(together=lambda query, key, value: key))
self_attention_gradient.wrong(
    "right but for the forward pass, whose softmax goes over the queries",
    "Each query has a distribution over the keys: the last axis.",
)(_backward(weigh=lambda scores: scores.softmax(dim=0)))
self_attention_gradient.wrong(
    "right but for the softmax, where the plain mean of the row is subtracted",
    "What is subtracted is the mean under the weights, (weights * gradient).sum(...).",
)(
    _backward(
        through_softmax=lambda weights, gradient: (
            weights * (gradient - gradient.mean(dim=-1, keepdim=True))
        )
    )
)
self_attention_gradient.wrong(
    "right but for the softmax, where the plain sum of the row is subtracted",
    "What is subtracted is the mean under the weights, (weights * gradient).sum(...).",
)(
    _backward(
        through_softmax=lambda weights, gradient: (
            weights * (gradient - gradient.sum(dim=-1, keepdim=True))
        )
    )
)
self_attention_gradient.wrong(
    "right but for X: the three gradients are added up before they go through the matrices",
    "Each goes back through its own matrix first: (gradient of the queries) Q^T, and so on.",
)(_backward(back=lambda gradient, matrix: gradient))
self_attention_gradient.wrong(
    "right but for X, where the three gradients are averaged",
    "What arrives from three uses is added up: a sum, not a mean.",
)(_backward(together=lambda query, key, value: (query + key + value) / 3))
self_attention_gradient.wrong(
    "right but for X: the way back goes through the matrices and not their transposes",
    "The gradient of X from queries = X Q is (gradient of the queries) Q^T.",
)(_backward(back=lambda gradient, matrix: gradient @ matrix))
self_attention_gradient.wrong(
    "right for X, but the gradients of the matrices are transposed",
    "The gradient of Q from queries = X Q is X^T (gradient of the queries).",
)(_backward(toward_matrix=lambda X, gradient: gradient.T @ X))
self_attention_gradient.wrong(
    "right for X; in place of the matrices it has the gradients of queries, keys and values",
    "One step further: the gradient of Q is X^T times the gradient of the queries.",
)(_backward(toward_matrix=lambda X, gradient: gradient))
self_attention_gradient.wrong(
    "right but for the sign, which is the opposite everywhere",
    "A gradient points to where the loss grows. The optimizer, not you, turns it around.",
)(lambda *case: [-gradient for gradient in _backward()(*case)])
self_attention_gradient.wrong(
    "right but for the softmax, whose Jacobian is missing",
    "Between scores and weights lies the softmax: weights * (gradient - sum of weights * "
    "gradient).",
)(_backward(through_softmax=lambda weights, gradient: gradient))
self_attention_gradient.wrong(
    "right but for the softmax: the sum over the row is missing",
    "A score changes all weights of its row: subtract the sum of weights * gradient before you "
    "multiply.",
)(_backward(through_softmax=lambda weights, gradient: weights * gradient))
self_attention_gradient.wrong(
    "right but for the softmax, where only the diagonal of the Jacobian is used",
    "weights * (1 - weights) says how a score changes its own weight. It changes the others too.",
)(_backward(through_softmax=lambda weights, gradient: weights * (1 - weights) * gradient))
self_attention_gradient.wrong(
    "right but for the softmax, where the sum goes over the queries",
    "A row is the distribution of one query: sum over the last axis.",
)(
    _backward(
        through_softmax=lambda weights, gradient: (
            weights * (gradient - (weights * gradient).sum(dim=0, keepdim=True))
        )
    )
)
self_attention_gradient.wrong(
    "right but for the softmax, where the sum over the row has lost its axis",
    "A sum (n) is subtracted from each row, as if it belonged to the columns. With keepdim=True it "
    "is (n, 1), one number for each row.",
)(
    _backward(
        through_softmax=lambda weights, gradient: (
            weights * (gradient - (weights * gradient).sum(dim=-1))
        )
    )
)
self_attention_gradient.wrong(
    "right but for the square root of d, which is missing on the way back",
    "scores = queries keys^T / sqrt(d): the gradient is divided by sqrt(d), too.",
)(
    _backward(
        toward_roles=lambda weights, toward_scores, query, key, root: _toward_roles(
            weights, toward_scores, query, key, 1
        )
    )
)
self_attention_gradient.wrong(
    "right but for the square root of d, by which it divides twice on the way back",
    "scores = queries keys^T / sqrt(d): divide once, not for the scores and again for queries and "
    "keys.",
)(
    _backward(
        toward_roles=lambda weights, toward_scores, query, key, root: _toward_roles(
            weights, toward_scores, query, key, root**2
        )
    )
)
self_attention_gradient.wrong(
    "right but for the keys, for which the gradient of the scores is not transposed",
    "Key j has received from column j of the scores: transpose, then times the queries.",
)(
    _backward(
        toward_roles=lambda weights, toward_scores, query, key, root: (
            toward_scores @ key / root,
            toward_scores @ query / root,
        )
    )
)
self_attention_gradient.wrong(
    "right but for queries and keys, whose gradients are exchanged",
    "The gradient of the queries is (gradient of the scores) times keys, that of the keys its "
    "transpose times queries.",
)(_backward(toward_roles=lambda *pieces: tuple(reversed(_toward_roles(*pieces)))))
self_attention_gradient.wrong(
    "right but for the values, for which the weights are not transposed",
    "Value j has received from column j of the weights: weights^T times the gradient.",
)(_backward(toward_values=lambda weights, gradient: weights @ gradient))
self_attention_gradient.wrong(
    "right but for the values, which have the gradient of the output as it is",
    "Value j enters output i with weight ij: weights^T times the gradient.",
)(_backward(toward_values=lambda weights, gradient: gradient))


@self_attention_gradient.wrong(
    "right but for X, to which the gradient of the output goes through V without the weights",
    "The values get weights^T times the gradient of the output; this goes on through V to X.",
)
def _(*case):
    toward_X, *_ = _backward(toward_values=lambda weights, gradient: gradient)(*case)
    return toward_X, *self_attention_gradient.reference(*case)[1:]


@self_attention_gradient.wrong(
    "right for a layer that is not scaled",
    "The scores are divided by sqrt(d) on the way forward as well.",
)
def _(X, Q, K, V, grad_output):
    root = math.sqrt(X.shape[1])
    toward_X, toward_Q, toward_K, toward_V = self_attention_gradient.reference(
        X, Q * root, K, V, grad_output
    )
    return toward_X, toward_Q * root, toward_K, toward_V


@self_attention_gradient.wrong(
    "right but for the order: X comes last",
    "Return the gradients of X, Q, K and V, in this order.",
)
def _(*case):
    toward_X, *others = self_attention_gradient.reference(*case)
    return *others, toward_X


@self_attention_gradient.wrong(
    "right for X and V; the gradients of Q and K are exchanged",
    "The gradient of Q is X^T (gradient of the queries), that of K is X^T (gradient of the keys). "
    "Return the gradients of X, Q, K and V, in this order.",
)
def _(*case):
    toward_X, toward_Q, toward_K, toward_V = self_attention_gradient.reference(*case)
    return toward_X, toward_K, toward_Q, toward_V


@self_attention_gradient.wrong(
    "right for Q, K and V; the gradient of X is missing",
    "Return four tensors: the gradients of X, Q, K and V.",
)
def _(*case):
    return self_attention_gradient.reference(*case)[1:]
