"""Answers to the exercises of ``gradients.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_00.gradients import (
    _copy_cases,
    _tied_cases,
    sum_copies,
    tied_gradients,
)

# Copies


@sum_copies.answer(
    hidden_cases=lambda draw: _copy_cases(
        draw, more=[((2, 1, 3), (5, 8, 4, 9)), ((1, 1), (7, 3)), ((3, 2), (2, 1, 3, 6))]
    ),
    after_passing=(
        "Shorter: one unflatten to copies and size for all axes, and one sum over all axes of "
        "copies."
    ),
)
def sum_copies(g, shape):
    """The gradient of the copies, and the shape of what was copied -> a tensor of that shape."""
    for _ in range(g.ndim - len(shape)):  # the axes in front
        g = g.sum(dim=0)
    for axis, size in enumerate(shape):
        copies = g.shape[axis] // size
        g = g.unflatten(axis, (copies, size)).sum(dim=axis)
    return g


# A weight that is used twice


@tied_gradients.answer(hidden_cases=lambda draw: _tied_cases(draw, more=[(2, 1, 3, 2)]))
def tied_gradients(x, weight, bias, g):
    """(..., k), (k, m), (m), (..., k) -> gradients of shape (..., k), (k, m) and (m)."""
    k, m = weight.shape
    h = x @ weight + bias  # (..., m)
    g_h = g @ weight  # (..., m)
    x_rows, g_rows = x.reshape(-1, k), g.reshape(-1, k)  # all leading axes as one
    h_rows, g_h_rows = h.reshape(-1, m), g_h.reshape(-1, m)
    toward_weight = x_rows.T @ g_h_rows + g_rows.T @ h_rows  # both uses
    return g_h @ weight.T, toward_weight, g_h_rows.sum(dim=0)


# Right in another way


def copies_by_blocks(g, shape):
    while g.ndim > len(shape):
        g = sum(g)
    for axis, size in enumerate(shape):
        g = sum(g.split(size, dim=axis))
    return g


def copies_one_by_one(g, shape):
    """Each element of g goes where it was copied from."""
    found = np.zeros(shape)
    for place in np.ndindex(*g.shape):
        own = place[g.ndim - len(shape) :]
        source = tuple(i % size for i, size in zip(own, shape, strict=True))
        found[source] += g[place].item()
    return mt.tensor(found)


def tied_by_einsum(x, weight, bias, g):
    x_rows, g_rows = x.flatten(0, -2), g.flatten(0, -2)
    h, g_h = x_rows @ weight + bias, mt.einsum("nk,km->nm", g_rows, weight)
    first = mt.einsum("nk,nm->km", x_rows, g_h)
    second = mt.einsum("nk,nm->km", g_rows, h)
    return (g_h @ weight.T).reshape(x.shape), first + second, g_h.sum(0)


def tied_by_outer_products(x, weight, bias, g):
    k, m = weight.shape
    toward_x, toward_weight, toward_bias = [], np.zeros((k, m)), np.zeros(m)
    W, b = weight.numpy(), bias.numpy()
    for row, up in zip(x.numpy().reshape(-1, k), g.numpy().reshape(-1, k), strict=True):
        g_h = up @ W
        toward_x.append(W @ g_h)
        toward_weight += np.outer(row, g_h) + np.outer(up, row @ W + b)
        toward_bias += g_h
    toward_x = np.stack(toward_x).reshape(x.shape)
    return [mt.tensor(each) for each in (toward_x, toward_weight, toward_bias)]


def copies_by_backward(g, shape):
    x = mt.zeros(shape, dtype=g.dtype, requires_grad=True)
    in_front = g.shape[: g.ndim - len(shape)]
    times = [n // size for n, size in zip(g.shape[len(in_front) :], shape, strict=True)]
    x.repeat(*in_front, *times).backward(g)
    return x.grad


def tied_by_backward(x, weight, bias, g):
    x, weight, bias = (each.clone().requires_grad_() for each in (x, weight, bias))
    ((x @ weight + bias) @ weight.T).backward(g)
    return x.grad, weight.grad, bias.grad


right = {
    "sum_copies": [copies_by_blocks, copies_one_by_one],
    "tied_gradients": [tied_by_einsum, tied_by_outer_products],
}
refused = {
    "sum_copies": [copies_by_backward],
    "tied_gradients": [tied_by_backward],
}
