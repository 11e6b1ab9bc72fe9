"""The gradient of self-attention by hand."""

import math

from textbook.checks.chapter_05.tokens import sequence
from textbook.checks.exercise import exercise


def _gradient_cases(draw, others=()):
    for n, d in others or [(3, 4), (4, 2)]:
        yield *sequence(draw, n, d), draw.normal(n, d)


@exercise(
    cases=_gradient_cases,
    hidden_cases=lambda draw: _gradient_cases(draw, others=[(2, 4), (5, 3)]),
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
