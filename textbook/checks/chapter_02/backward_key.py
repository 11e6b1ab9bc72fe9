"""Answers to the exercises of ``backward.py``."""

import numpy as np

import minitorch as mt
from minitorch.autograd import grad
from minitorch.operations.recurrent import lstm as whole_lstm
from textbook.checks.chapter_02.backward import _backward_cases, lstm_step_backward


@lstm_step_backward.answer(hidden_cases=lambda draw: _backward_cases(draw, more=[(1, 1), (4, 5)]))
def lstm_step_backward(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """The gradients with respect to h (B, H), c (B, H) and W_hh (4 H, H)."""
    i, f, g, o = gates
    shown = (f * c + i * g).tanh()  # tanh(c'), (B, H)
    grad_c_new = grad_c_new + grad_h_new * o * (1 - shown**2)
    grad_sums = mt.cat(
        [
            grad_c_new * g * i * (1 - i),
            grad_c_new * c * f * (1 - f),
            grad_c_new * i * (1 - g**2),
            grad_h_new * shown * o * (1 - o),
        ],
        dim=-1,
    )  # (B, 4 H)
    return grad_sums @ W_hh, grad_c_new * f, grad_sums.T @ h


# Right in another way


def backward_by_jacobians(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """Number by number."""
    i, f, g, o = (gate.numpy() for gate in gates)
    old, cell, W = h.numpy(), c.numpy(), W_hh.numpy()
    into_h, into_c = grad_h_new.numpy(), grad_c_new.numpy()
    batch, size = old.shape
    grad_h, grad_c, grad_W = np.zeros_like(old), np.zeros_like(cell), np.zeros_like(W)
    for b in range(batch):
        for k in range(size):
            t = np.tanh(f[b, k] * cell[b, k] + i[b, k] * g[b, k])
            d_c = into_c[b, k] + into_h[b, k] * o[b, k] * (1 - t * t)
            grad_c[b, k] = d_c * f[b, k]
            sums = {
                k: d_c * g[b, k] * i[b, k] * (1 - i[b, k]),
                size + k: d_c * cell[b, k] * f[b, k] * (1 - f[b, k]),
                2 * size + k: d_c * i[b, k] * (1 - g[b, k] * g[b, k]),
                3 * size + k: into_h[b, k] * t * o[b, k] * (1 - o[b, k]),
            }
            for row, value in sums.items():
                grad_h[b] += value * W[row]
                grad_W[row] += value * old[b]
    return mt.tensor(grad_h), mt.tensor(grad_c), mt.tensor(grad_W)


def backward_gate_by_gate(h, c, W_hh, gates, grad_h_new, grad_c_new):
    i, f, g, o = gates
    t = mt.tanh(c * f + g * i)
    total = grad_c_new + (grad_h_new * o - grad_h_new * o * t * t)
    parts = [total * g * (i - i * i), total * c * (f - f * f)]
    parts += [total * i * (1 - g) * (1 + g), grad_h_new * t * (o - o * o)]
    blocks = W_hh.chunk(4)
    grad_h = sum(part @ block for part, block in zip(parts, blocks, strict=True))
    return grad_h, f * total, mt.cat([mt.einsum("bk,bj->kj", part, h) for part in parts])


def _logits(gates):
    """The sums that went into the gates, (B, 4 H)."""
    i, f, g, o = gates
    parts = [(s / (1 - s)).log() for s in (i, f, o)]
    parts.insert(2, 0.5 * ((1 + g) / (1 - g)).log())
    return mt.cat(parts, dim=1)


def backward_by_the_engine(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    h, c, W_hh = (x.clone().requires_grad_() for x in (h, c, W_hh))
    i, f, g, o = (from_x + h @ W_hh.T).chunk(4, dim=1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    ((o.sigmoid() * new.tanh()) * grad_h_new + new * grad_c_new).sum().backward()
    return h.grad, c.grad, W_hh.grad


def backward_by_the_library(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    leaves = [x.clone().requires_grad_() for x in (h, c, W_hh)]
    eye = mt.eye(len(W_hh), dtype=W_hh.dtype)
    _, h_new, c_new = whole_lstm(from_x[None], leaves[0], leaves[1], eye, leaves[2])
    return grad((h_new * grad_h_new + c_new * grad_c_new).sum(), leaves)


right = {
    "lstm_step_backward": [backward_by_jacobians, backward_gate_by_gate],
}
refused = {
    "lstm_step_backward": [backward_by_the_engine, backward_by_the_library],
}
