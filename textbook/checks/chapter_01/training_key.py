"""Answers to the exercises of ``training.py``."""

import math
from fractions import Fraction

import numpy as np

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils import clip_grad_norm_
from textbook.checks.chapter_01.training import (
    _backprop_cases,
    _gradient_cases,
    backprop_through_time,
    clip_gradients,
)

# Clipping


def _hidden_gradient_cases(draw):
    yield from _gradient_cases(draw)
    yield [1e6 * draw.normal(5, 4), draw.normal(7), 1e-3 * draw.normal(2, 2)], 0.25
    yield [draw.normal(1) for _ in range(9)], 100.0


def _joint_norm(gradients):
    """The norm of all elements together, without overflow."""
    values = [x for g in gradients if g is not None for x in g.flatten().tolist()]
    return math.hypot(*values)


def _factor(norm, max_norm):
    return max_norm / norm if norm > max_norm else 1.0


@clip_gradients.answer(hidden_cases=_hidden_gradient_cases)
def clip_gradients(gradients, max_norm):
    """A list of gradients whose joint norm is at most max_norm, and the norm that it was."""
    given = [g for g in gradients if g is not None]
    largest = max((g.abs().max().item() for g in given), default=0.0)
    if largest == 0:
        return gradients, 0.0
    norm = largest * sum(((g / largest) ** 2).sum().item() for g in given) ** 0.5
    factor = min(1.0, max_norm / norm)
    return [None if g is None else g * factor for g in gradients], norm


# Backpropagation through time by hand


@backprop_through_time.answer(
    hidden_cases=lambda draw: _backprop_cases(draw, more=[(5, 12, 4, 0.15)])
)
def backprop_through_time(states, h0, W_hh, leak, grad_states):
    """The gradients of the loss with respect to W_hh (H, H) and h0 (B, H)."""
    grad_W_hh = mt.zeros_like(W_hh)
    from_later = mt.zeros_like(h0)  # what comes back through the next state, (B, H)
    for t in reversed(range(len(states))):
        before = states[t - 1] if t > 0 else h0
        u = (states[t] - (1 - leak) * before) / leak  # tanh(a_t), (B, H)
        grad_h = grad_states[t] + from_later  # (B, H)
        grad_a = leak * (1 - u**2) * grad_h  # (B, H)
        grad_W_hh = grad_W_hh + grad_a.T @ before  # (H, H), summed over the batch
        from_later = grad_a @ W_hh + (1 - leak) * grad_h  # two ways back
    return grad_W_hh, from_later


# Right in another way


def clip_with_hypot(gradients, max_norm):
    norm = math.hypot(*(x for g in gradients if g is not None for x in g.flatten().tolist()))
    if norm <= max_norm:
        return [g if g is None else g.clone() for g in gradients], norm
    return tuple(None if g is None else g * (max_norm / norm) for g in gradients), Fraction(norm)


def clip_in_numpy(gradients, max_norm):
    parts = [g.numpy().ravel() for g in gradients if g is not None]
    everything = np.concatenate([np.zeros(1), *parts])
    top = np.abs(everything).max() or 1.0
    norm = top * np.linalg.norm(everything / top)
    found = []
    for g in gradients:
        shrunk = g is not None and norm > max_norm
        found.append((g / norm) * max_norm if shrunk else g)
    return found, norm


def library_clip(gradients, max_norm):
    parameters = [None if g is None else nn.Parameter(mt.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        if g is not None:
            parameter.grad = g.clone()
    own = [parameter for parameter in parameters if parameter is not None]
    norm = clip_grad_norm_(own, max_norm)
    return [p if p is None else p.grad for p in parameters], norm


def backprop_with_products_at_the_end(states, h0, W_hh, leak, grad_states):
    before = mt.cat([h0[None], states[:-1]])
    u = before + (states - before) / leak
    carried, rows = mt.zeros_like(h0), []
    for t in range(len(states) - 1, -1, -1):
        total = grad_states[t] + carried
        rows.insert(0, leak * total * (1 - u[t] * u[t]))
        carried = mt.einsum("bh,hk->bk", rows[0], W_hh) + total - leak * total
    return mt.einsum("tbi,tbj->ij", mt.stack(rows), before), carried


def backprop_with_jacobians(states, h0, W_hh, leak, grad_states):
    """Each sequence by itself, through the matrices dh_t/dh_(t-1)."""
    h, h_before, W = states.numpy(), mt.cat([h0[None], states[:-1]]).numpy(), W_hh.numpy()
    steps, batch, size = h.shape
    grad_weight, grad_start = np.zeros((size, size)), np.zeros((batch, size))
    for i in range(batch):
        back = np.zeros(size)
        for t in reversed(range(steps)):
            u = (h[t, i] - (1 - leak) * h_before[t, i]) / leak
            slope = leak * np.diag(1 - u**2)
            total = grad_states.numpy()[t, i] + back
            grad_weight += np.outer(slope @ total, h_before[t, i])
            back = (slope @ W + (1 - leak) * np.eye(size)).T @ total
        grad_start[i] = back
    return mt.tensor(grad_weight), mt.tensor(grad_start)


def backprop_by_the_engine(states, h0, W_hh, leak, grad_states):
    """The inputs' share of each step is found from the states, then the run is repeated."""
    before = mt.cat([h0[None], states[:-1]])
    u = (states - (1 - leak) * before) / leak
    share = 0.5 * ((1 + u).log() - (1 - u).log()) - before @ W_hh.T
    with mt.enable_grad():
        W, h = W_hh.clone().requires_grad_(), h0.clone().requires_grad_()
        start, loss = h, 0
        for t in range(len(states)):
            h = (1 - leak) * h + leak * (share[t] + h @ W.T).tanh()
            loss = loss + (h * grad_states[t]).sum()
        loss.backward()
    return W.grad, start.grad


def library_backprop(states, h0, W_hh, leak, grad_states):
    """Runs the library's operation beside the right answer."""
    from minitorch.operations.recurrent import rnn

    eye = mt.eye(len(W_hh), dtype=W_hh.dtype)
    rnn(states, h0, eye, W_hh)
    return backprop_with_products_at_the_end(states, h0, W_hh, leak, grad_states)


right = {
    "clip_gradients": [clip_with_hypot, clip_in_numpy],
    "backprop_through_time": [backprop_with_products_at_the_end, backprop_with_jacobians],
}
refused = {
    "clip_gradients": [
        library_clip,
        lambda gs, max_norm: (
            gs,
            float(mt.norm(mt.cat([mt.zeros(1), *(g.flatten() for g in gs if g is not None)]))),
        ),
    ],
    "backprop_through_time": [library_backprop, backprop_by_the_engine],
}
