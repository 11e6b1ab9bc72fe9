"""Answers to the exercises of ``gradient.py``."""

import minitorch as mt
from textbook.checks.chapter_04.gradient import _gradient_cases, attention_gradient


@attention_gradient.answer(
    hidden_cases=lambda draw: _gradient_cases(draw, more=[(4, 2, 7, 5, 1), (1, 3, 1, 4, 1)])
)
def attention_gradient(states, memory, grad_outputs):
    """The gradients of the loss with respect to states (B, T, d) and memory (B, n, d)."""
    weights = (states @ memory.mT).softmax(dim=-1)  # (B, T, n)
    grad_weights = grad_outputs @ memory.mT
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    grad_scores = weights * (grad_weights - average)  # (B, T, n)
    grad_memory = weights.mT @ grad_outputs + grad_scores.mT @ states  # as values, as keys
    return grad_scores @ memory, grad_memory


# Right in another way


def gradient_with_jacobians(states, memory, grad_outputs):
    """Query by query, through the matrix diag(p) - p p^T."""
    to_states, to_memory = mt.zeros_like(states), mt.zeros_like(memory)
    for b in range(len(states)):
        for t in range(states.shape[1]):
            p, g = (memory[b] @ states[b, t]).softmax(0), grad_outputs[b, t]
            scores = (mt.diag(p) - mt.outer(p, p)) @ (memory[b] @ g)
            to_states[b, t] = memory[b].T @ scores
            to_memory[b] += mt.outer(p, g) + mt.outer(scores, states[b, t])
    return to_states, to_memory


def gradient_with_covariances(states, memory, grad_outputs):
    """The gradient of a state is the covariance of the memory times that of the output."""
    weights = mt.einsum("btd,bnd->btn", states, memory).softmax(-1)
    centred = memory.unsqueeze(1) - (weights @ memory).unsqueeze(2)  # (B, T, n, d)
    along = mt.einsum("btnd,btd->btn", centred, grad_outputs) * weights
    to_states = mt.einsum("btn,btnd->btd", along, centred)
    return to_states, mt.einsum("btn,btd->bnd", weights, grad_outputs) + along.mT @ states


def gradient_by_the_engine(states, memory, grad_outputs):
    s, m = states.clone().requires_grad_(), memory.clone().requires_grad_()
    ((s @ m.mT).softmax(dim=-1) @ m * grad_outputs).sum().backward()
    return s.grad, m.grad


def gradient_by_autograd(states, memory, grad_outputs):
    s, m = states.clone().requires_grad_(), memory.clone().requires_grad_()
    return mt.autograd.grad((s @ m.mT).softmax(dim=-1) @ m, [s, m], grad_outputs)


right = {
    "attention_gradient": [gradient_with_jacobians, gradient_with_covariances],
}
refused = {
    "attention_gradient": [gradient_by_the_engine, gradient_by_autograd],
}
