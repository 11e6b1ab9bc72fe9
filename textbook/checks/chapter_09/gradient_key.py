"""Answers to the exercises of ``gradient.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_09.gradient import _gradient_cases, rms_norm_gradient


@rms_norm_gradient.answer(
    hidden_cases=lambda draw: _gradient_cases(
        draw, others=[((5, 3), 1e-5), ((4,), 0.5), ((2, 2, 3, 4), 0.1)]
    ),
    after_passing="Shorter: with g = grad * gain, dx = (g - x_hat * mean(g * x_hat)) / r.",
)
def rms_norm_gradient(x, gain, grad_output, eps=1e-5):
    """x and grad_output (..., d), gain (d) give the gradients of x (..., d) and gain (d)."""
    r = ((x**2).mean(dim=-1, keepdim=True) + eps).sqrt()  # (..., 1)
    normal = x / r
    g = grad_output * gain  # the gradient at x-hat
    toward_x = (g - normal * (g * normal).mean(dim=-1, keepdim=True)) / r
    return toward_x, (grad_output * normal).reshape(-1, len(gain)).sum(dim=0)


# Right in another way


def gradient_with_the_jacobian(x, gain, grad_output, eps=1e-5):
    d = x.shape[-1]
    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    normal = x / r
    outer = normal.unsqueeze(-1) * normal.unsqueeze(-2)  # (..., d, d)
    jacobian = (mt.eye(d) - outer / d) / r.unsqueeze(-1)
    toward_x = ((grad_output * gain).unsqueeze(-2) @ jacobian).squeeze(-2)
    toward_gain = grad_output * normal
    while toward_gain.ndim > 1:
        toward_gain = toward_gain.sum(0)
    return [toward_x, toward_gain]


def gradient_step_by_step(x, gain, grad_output, eps=1e-5):
    """Each operation of the forward pass, backwards."""
    d = x.shape[-1]
    square = (x**2).mean(-1, keepdim=True) + eps
    r = square**0.5
    toward_normal = grad_output * gain
    toward_r = -(toward_normal * x).sum(-1, keepdim=True) / r**2
    toward_square = toward_r / (2 * r)
    toward_x = toward_normal / r + toward_square * 2 * x / d
    rows, normal = grad_output.reshape(-1, d), (x / r).reshape(-1, d)
    return toward_x, mt.einsum("nd,nd->d", rows, normal)


def gradient_in_numpy(x, gain, grad_output, eps=1e-5):
    x, gain, g = x.numpy(), gain.numpy(), grad_output.numpy()
    r = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    toward_x = g * gain / r - x * (g * gain * x).mean(-1, keepdims=True) / r**3
    return mt.tensor(toward_x), mt.tensor((g * x / r).sum(axis=tuple(range(x.ndim - 1))))


def _library(x, gain, eps):
    return F.rms_norm(x, (x.shape[-1],), gain, eps)


def gradient_by_the_engine(x, gain, grad_output, eps=1e-5):
    leaves = [leaf.detach().clone().requires_grad_() for leaf in (x, gain)]
    return mt.autograd.grad(_library(*leaves, eps), leaves, grad_output)


def gradient_by_backward(x, gain, grad_output, eps=1e-5):
    leaves = [leaf.detach().clone().requires_grad_() for leaf in (x, gain)]
    _library(*leaves, eps).backward(grad_output)
    return [leaf.grad for leaf in leaves]


right = {
    "rms_norm_gradient": [gradient_with_the_jacobian, gradient_step_by_step, gradient_in_numpy],
}
refused = {
    "rms_norm_gradient": [gradient_by_the_engine, gradient_by_backward],
}
