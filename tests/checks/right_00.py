"""Right answers to the exercises of chapter 00, and forbidden ones."""

import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch import softmax as probabilities


def softmax_in_one_go(scores):
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def softmax_row_by_row(scores):
    """What F.softmax does, without softmax."""
    rows = []
    for row in scores.reshape(-1, scores.shape[-1]):
        weights = [mt.exp(score - row.max().detach()) for score in row]
        rows.append(mt.stack(weights) / sum(weights))
    return mt.stack(rows).reshape(scores.shape)


class SoftmaxInNumpy:
    """An object that is called, and no gradient."""

    def __init__(self, axis):
        self.axis = axis

    def __call__(self, scores):
        weights = scores.numpy()
        weights = np.exp(weights - weights.max(axis=self.axis, keepdims=True))
        return mt.tensor(weights / weights.sum(axis=self.axis, keepdims=True))


def softmax_over(scores, dim):
    weights = mt.exp(scores.float() - scores.amax(dim=dim, keepdim=True).to(mt.float32))
    return weights / (weights @ mt.ones(scores.shape[-1], dtype=mt.float32)).unsqueeze(dim)


def perplexity_by_gather(scores, targets):
    picked = F.log_softmax(scores, dim=-1).gather(1, targets.unsqueeze(1))
    return mt.exp(-picked.mean())


def perplexity_by_loop(scores, targets):
    total = 0.0
    for row, target in zip(scores, targets, strict=True):
        total += (mt.logsumexp(row, dim=0) - row[target]).item()
    return math.exp(total / len(targets))


def perplexity_in_numpy(scores, targets):
    scores = scores.numpy()
    scores = scores - scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return np.exp(-logs[np.arange(len(logs)), targets.numpy()].mean())


def flops_by_layer(sizes, batch):
    total = 0
    for layer in range(len(sizes) - 1):
        product = 2 * batch * sizes[layer] * sizes[layer + 1]
        total += product * (2 if layer == 0 else 3)
    return total


def flops_as_a_fraction(sizes, batch):
    return Fraction(flops_by_layer(sizes, batch), 1)


def flops_by_kind(sizes, batch):
    products = [n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    return 2 * batch * (sum(products) + sum(products) + sum(products[1:]))


def rotate_by_slices(x, angles):
    first, second = x[..., 0::2], x[..., 1::2]
    cos, sin = mt.cos(angles), mt.sin(angles)
    pairs = [first * cos - second * sin, first * sin + second * cos]
    return mt.stack(pairs, dim=-1).reshape(x.shape)


def rotate_by_matrices(x, angles):
    cos, sin = angles.cos(), angles.sin()
    turn = mt.stack([mt.stack([cos, sin], -1), mt.stack([-sin, cos], -1)], -2)  # (d/2, 2, 2)
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return mt.einsum("...pi,pij->...pj", pairs, turn).reshape(x.shape)


def rotate_by_loop(x, angles):
    parts = []
    for j in range(len(angles)):
        a, b, t = x[..., 2 * j], x[..., 2 * j + 1], angles[j]
        parts += [a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()]
    return mt.stack(parts, dim=-1)


def rotate_by_complex_numbers(x, angles):
    pairs = x.numpy()[..., 0::2] + 1j * x.numpy()[..., 1::2]
    turned = pairs * np.exp(1j * angles.numpy())
    return mt.tensor(np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape))


def rotate_by_a_block_diagonal_matrix(x, angles):
    """Without a gradient with respect to the angles."""
    matrix = mt.zeros(x.shape[-1], x.shape[-1])
    for j, angle in enumerate(angles.tolist()):
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = mt.tensor([[cos, sin], [-sin, cos]])
    return x @ matrix


def cross_entropy_gradient_by_one_hot(scores, targets):
    one_hot = F.one_hot(targets, num_classes=scores.shape[1])
    return (F.softmax(scores, dim=1) - one_hot) / scores.shape[0]


def cross_entropy_gradient_by_rows(scores, targets):
    gradient = F.softmax(scores, dim=-1)
    for row, target in zip(gradient, targets.tolist(), strict=True):
        row[target] -= 1
    return gradient / len(gradient)


def affine_gradients_folded(x, weight, g):
    k, m = weight.shape
    return g @ weight.T, x.reshape(-1, k).T @ g.reshape(-1, m), g.reshape(-1, m).sum(0)


def affine_gradients_by_einsum(x, weight, g):
    toward_bias = g
    while toward_bias.ndim > 1:
        toward_bias = toward_bias.sum(dim=0)
    return (
        mt.einsum("...m,km->...k", g, weight),
        mt.einsum("nk,nm->km", x.flatten(0, -2), g.flatten(0, -2)),
        toward_bias,
    )


def affine_gradients_by_outer_products(x, weight, g):
    rows, grads = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
    toward_weight = sum(mt.outer(row, grad) for row, grad in zip(rows, grads, strict=True))
    return g.matmul(weight.T), toward_weight, sum(grads)


def numerical_gradient_in_place(function, x, eps):
    moved, gradient = x.clone(), mt.zeros_like(x)
    for place in np.ndindex(*x.shape):
        kept = moved[place].item()
        moved[place] = kept + eps
        above = function(moved)
        moved[place] = kept - eps
        below = function(moved)
        moved[place] = kept
        gradient[place] = (above - below) / (2 * eps)
    return gradient


def numerical_gradient_by_directions(function, x, eps):
    directions = mt.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape)
    slopes = [(function(x + eps * d) - function(x - eps * d)) / (2 * eps) for d in directions]
    return mt.stack(slopes).reshape(x.shape)


def spectral_radius_in_tensors(matrix, steps):
    v = mt.ones(matrix.shape[0], dtype=matrix.dtype)
    product = mt.tensor(1.0)
    for step in range(steps):
        v = v @ matrix
        factor = v.norm()
        v = v / factor
        if step >= steps // 2:
            product = product * factor ** (1 / (steps - steps // 2))
    return product


def spectral_radius_in_numpy(matrix, steps):
    matrix = matrix.numpy()
    v = np.ones(len(matrix)) / len(matrix) ** 0.5
    factors = np.empty(steps)
    for step in range(steps):
        v = matrix.T @ v
        factors[step] = np.sqrt((v**2).sum())
        v /= factors[step]
    return np.exp(np.log(factors[steps // 2 :]).mean(keepdims=True))


def spectral_radius_by_the_length_so_far(matrix, steps):
    """The logarithm of the length that v would have, halfway and at the end."""
    v, logs = mt.ones(len(matrix)).float(), [0.0]
    for _ in range(steps):
        product = (v / v.norm()) @ matrix
        logs.append(logs[-1] + product.norm().log().item())
        v = product
    return Decimal((logs[-1] - logs[steps // 2]) / (steps - steps // 2)).exp()


def adam_as_written(w, g, m, v, t, lr, beta1, beta2, eps):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    step = (m / (1 - beta1**t)) / (mt.sqrt(v / (1 - beta2**t)) + eps)
    return w - lr * step, m, v


def adam_by_interpolation(w, g, m, v, t, lr, beta1, beta2, eps):
    m = m + (1 - beta1) * (g - m)
    v = v + (1 - beta2) * (g * g - v)
    size = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
    return [w - size * m / (v.sqrt() + eps * math.sqrt(1 - beta2**t)), m, v]


class ValueWithClosures:
    """Each operation keeps a function that hands its gradient on."""

    def __init__(self, data, inputs=()):
        self.data, self.inputs, self.grad = data, inputs, 0
        self.hand_on = lambda: None

    def __add__(self, other):
        out = ValueWithClosures(self.data + other.data, (self, other))

        def hand_on():
            self.grad += out.grad
            other.grad += out.grad

        out.hand_on = hand_on
        return out

    def __mul__(self, other):
        out = ValueWithClosures(self.data * other.data, (self, other))

        def hand_on():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out.hand_on = hand_on
        return out

    def __sub__(self, other):
        return self + other * ValueWithClosures(-1)

    def __truediv__(self, other):
        inverse = ValueWithClosures(1 / other.data, (other,))

        def hand_on():
            other.grad -= inverse.grad / other.data**2

        inverse.hand_on = hand_on
        return self * inverse

    def exp(self):
        out = ValueWithClosures(math.exp(self.data), (self,))

        def hand_on():
            self.grad += out.data * out.grad

        out.hand_on = hand_on
        return out

    def backward(self):
        uses, stack = {self: 0}, [self]
        while stack:
            for node in stack.pop().inputs:
                if node not in uses:
                    uses[node] = 0
                    stack.append(node)
                uses[node] += 1
        self.grad, ready = 1, [self]
        while ready:
            node = ready.pop()
            node.hand_on()
            for parent in node.inputs:
                uses[parent] -= 1
                if not uses[parent]:
                    ready.append(parent)


class ValueWithClock:
    """Numbers the values as they are made; a later one never feeds an earlier one."""

    made = 0

    def __init__(self, data, *slopes):
        self.data, self.slopes, self.grad = data, slopes, 0.0
        ValueWithClock.made += 1
        self.number = ValueWithClock.made

    def __add__(self, other):
        return ValueWithClock(self.data + other.data, (self, 1), (other, 1))

    def __sub__(self, other):
        return ValueWithClock(self.data - other.data, (self, 1), (other, -1))

    def __mul__(self, other):
        return ValueWithClock(self.data * other.data, (self, other.data), (other, self.data))

    def __truediv__(self, other):
        result = self.data / other.data
        return ValueWithClock(result, (self, 1 / other.data), (other, -result / other.data))

    def exp(self):
        result = math.exp(self.data)
        return ValueWithClock(result, (self, result))

    def backward(self):
        found, stack = {self}, [self]
        while stack:
            for parent, _ in stack.pop().slopes:
                if parent not in found:
                    found.add(parent)
                    stack.append(parent)
        self.grad = 1.0
        for node in sorted(found, key=lambda node: -node.number):
            for parent, slope in node.slopes:
                parent.grad += slope * node.grad


right = {
    "softmax": [
        softmax_in_one_go,
        softmax_row_by_row,
        SoftmaxInNumpy(-1),
        functools.partial(softmax_over, dim=-1),
    ],
    "perplexity": [perplexity_by_gather, perplexity_by_loop, perplexity_in_numpy],
    "training_flops": [flops_by_layer, flops_by_kind, flops_as_a_fraction],
    "rotate_pairs": [
        rotate_by_slices,
        rotate_by_matrices,
        rotate_by_loop,
        rotate_by_complex_numbers,
        rotate_by_a_block_diagonal_matrix,
    ],
    "cross_entropy_gradient": [cross_entropy_gradient_by_one_hot, cross_entropy_gradient_by_rows],
    "affine_gradients": [
        affine_gradients_folded,
        affine_gradients_by_einsum,
        affine_gradients_by_outer_products,
    ],
    "numerical_gradient": [numerical_gradient_in_place, numerical_gradient_by_directions],
    "spectral_radius": [
        spectral_radius_in_tensors,
        spectral_radius_in_numpy,
        spectral_radius_by_the_length_so_far,
    ],
    "adam_step": [adam_as_written, adam_by_interpolation],
    "Value": [ValueWithClosures, ValueWithClock],
}


def softmax_by_cross_entropy(scores):
    rows = scores.reshape(-1, scores.shape[-1])
    losses = [
        F.cross_entropy(rows, mt.full((len(rows),), i), reduction="none")
        for i in range(rows.shape[-1])
    ]
    return (-mt.stack(losses, -1)).exp().reshape(scores.shape)


def gradient_by_backward(scores, targets):
    scores = scores.clone().requires_grad_()
    logs = mt.log(F.softmax(scores, dim=-1))
    (-logs.gather(1, targets.unsqueeze(1)).mean()).backward()
    return scores.grad


def gradient_by_grad(loss):
    def answer(scores, targets):
        scores = scores.clone().requires_grad_()
        return mt.autograd.grad(loss(scores, targets), scores)[0]

    return answer


def affine_by_backward(x, weight, g):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    bias = mt.zeros(g.shape[-1], dtype=g.dtype, requires_grad=True)
    (x @ weight + bias).backward(g)
    return x.grad, weight.grad, bias.grad


def numerical_by_backward(function, x, eps):
    x = x.clone().requires_grad_()
    function(x).backward()
    return x.grad


refused = {
    "softmax": [
        lambda scores: mt.softmax(scores, -1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: scores.softmax(-1),
        lambda scores: probabilities(scores, -1),
        lambda scores: F.log_softmax(scores, -1).exp(),
        lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp(),
        softmax_by_cross_entropy,
    ],
    "perplexity": [
        lambda scores, targets: F.cross_entropy(scores, targets).exp(),
        lambda scores, targets: math.exp(nn.CrossEntropyLoss()(scores, targets).item()),
        lambda scores, targets: F.cross_entropy(scores, targets, reduction="none").mean().exp(),
    ],
    "cross_entropy_gradient": [
        gradient_by_backward,
        gradient_by_grad(F.cross_entropy),
        gradient_by_grad(nn.CrossEntropyLoss()),
        gradient_by_grad(lambda scores, y: F.nll_loss(F.log_softmax(scores, 1), y)),
    ],
    "affine_gradients": [affine_by_backward],
    "numerical_gradient": [numerical_by_backward],
}
