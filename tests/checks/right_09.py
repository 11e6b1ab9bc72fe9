"""Right answers to the exercises of chapter 09, and forbidden ones."""

import functools
import itertools
import math
import statistics

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_09 import FeedForward

# layer_norm


def norm_with_var(x, gain, bias, eps=1e-5):
    centered = x - x.mean(-1, keepdim=True)
    by = mt.maximum(centered.abs().amax(-1, keepdim=True), mt.ones(1).to(x))
    small = centered / by
    variance = small.var(dim=-1, unbiased=False, keepdim=True)
    return gain * small * (variance + eps / by / by) ** -0.5 + bias


def norm_with_the_root_taken_apart(x, gain, bias, eps=1e-5):
    """The root of (variance + eps) as a length: scaled before it is squared."""
    d = x.shape[-1]
    centered = x - x.sum(-1, keepdim=True) / d
    legs = mt.cat([centered, mt.full((*x.shape[:-1], 1), math.sqrt(d * eps))], dim=-1)
    longest = legs.abs().amax(-1, keepdim=True).detach()
    s = longest * ((legs / longest) ** 2).sum(-1, keepdim=True).sqrt() / math.sqrt(d)
    return centered / s * gain + bias


def norm_token_by_token(x, gain, bias, eps=1e-5):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centered = token - sum(token) / len(token)
        by = max(1.0, max(abs(number.item()) for number in centered))
        variance = sum((number / by) ** 2 for number in centered) / len(token)
        rows.append(centered / by / mt.sqrt(variance + eps / by / by) * gain + bias)
    return mt.stack(rows).reshape(x.shape)


def norm_with_matrices(x, gain, bias, eps=1e-5):
    """Subtracting the mean is a product with I - 1/d."""
    d = x.shape[-1]
    centered = x @ (mt.eye(d) - 1 / d)
    by = (1 + centered.detach().abs()).max(dim=-1, keepdim=True).values
    small = centered / by
    return small / (small * small @ mt.full((d, 1), 1 / d) + eps / by / by).sqrt() * gain + bias


def library_norm(x, gain, bias, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, eps)


def norm_of_the_module(x, gain, bias, eps=1e-5):
    norm = nn.LayerNorm(x.shape[-1], eps=eps, elementwise_affine=False).double()
    return norm(x) * gain + bias


# FeedForward


class NetworkOfFunctions(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate = F.linear(x, self.gate.weight)
        return (gate / (1 + (-gate).exp()) * (x @ self.up.weight.T)) @ self.down.weight.T


class NetworkOfModules(FeedForward.reference):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.bend = nn.SiLU()

    def forward(self, x):
        return self.down(self.up(x).mul(self.bend(self.gate(x))))


class NetworkInALoop(FeedForward.reference):
    """The layers are made in the other order; positions come one by one."""

    def __init__(self, width, hidden):
        nn.Module.__init__(self)
        self.down = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        rows = [self.down(F.silu(self.gate(t)) * self.up(t)) for t in x.flatten(0, -2)]
        return mt.stack(rows).reshape(x.shape)


class NetworkUnitByUnit(FeedForward.reference):
    """The sum of what the hidden units give."""

    def forward(self, x):
        units = zip(self.gate.weight, self.up.weight, self.down.weight.T, strict=True)
        return sum(
            (F.silu(x @ gate) * (x @ toward)).unsqueeze(-1) * give for gate, toward, give in units
        )


# shares_of_a_sum


def shares_step_by_step(parts, a):
    square, left = 1.0, 1.0
    for _ in range(parts):
        square += a * a
        left /= math.hypot(1, a)
    size = math.sqrt(square)
    return {
        "last part, post-norm": a / math.hypot(1, a),
        "last part, pre-norm": a / size,
        "input, post-norm": left,
        "input, pre-norm": 1 / size,
        "size of the sum, pre-norm": size,
    }


def shares_with_numpy(parts, a):
    size = np.sqrt(1 + parts * np.float64(a) ** 2)
    shrink = 1 / np.sqrt(1 + np.float64(a) ** 2)
    return {
        "size of the sum, pre-norm": size,
        "input, pre-norm": 1 / size,
        "last part, pre-norm": a / size,
        "input, post-norm": shrink**parts,
        "last part, post-norm": mt.tensor(a * shrink, dtype=mt.float64),
    }


# paths


def paths_by_bits(weights, values):
    L = len(weights)
    found = []
    for k in range(2**L):
        A = mt.stack([mt.eye(weights[0].shape[-1])] * len(weights[0]))
        V = mt.eye(len(values[0]))
        for layer in range(L):
            if k // 2**layer % 2:
                A, V = mt.bmm(weights[layer], A), V.matmul(values[layer])
        found.append([A, V])
    return tuple(found)


def paths_by_recursion(weights, values):
    if not weights:
        raise ValueError("at least one layer")
    if len(weights) == 1:
        n, d = weights[0].shape[-1], len(values[0])
        before = [(mt.eye(n).expand(*weights[0].shape), mt.eye(d))]
    else:
        before = paths_by_recursion(weights[:-1], values[:-1])
    return before + [(weights[-1] @ A, V @ values[-1]) for A, V in before]


def paths_in_numpy(weights, values):
    W, M = [w.numpy() for w in weights], [v.numpy() for v in values]
    batch, n, _ = W[0].shape
    found = []
    for bits in itertools.product([0, 1], repeat=len(W)):
        through = [i for i, bit in enumerate(bits[::-1]) if bit]
        A = functools.reduce(lambda A, i: W[i] @ A, through, np.tile(np.eye(n), (batch, 1, 1)))
        V = functools.reduce(lambda V, i: V @ M[i], through, np.eye(len(M[0])))
        found.append((mt.tensor(A), mt.tensor(V)))
    return found


# batch_statistics


def statistics_with_where(x, real):
    """NaN is replaced before it is multiplied by anything."""
    there = real.unsqueeze(-1)
    count = real.sum()
    mean = mt.where(there, x, 0.0).sum(dim=(0, 1)) / count
    return mean, (mt.where(there, x - mean, 0.0) ** 2).sum(dim=(0, 1)) / count


def statistics_by_second_moment(x, real):
    tokens = x.flatten(0, 1)[real.flatten()]
    mean = tokens.mean(0)
    return [mean, (tokens**2).mean(0) - mean**2]


def statistics_of_kept_tokens(x, real):
    tokens = mt.stack([x[b, i] for b in range(len(x)) for i in range(x.shape[1]) if real[b, i]])
    return tokens.mean(dim=0), tokens.var(dim=0, unbiased=False)


def statistics_in_numpy(x, real):
    tokens = x.numpy()[real.numpy()]
    return mt.tensor(tokens.mean(axis=0)), mt.tensor(tokens.var(axis=0))


def statistics_with_products(x, real):
    shares = (real / real.sum()).flatten()
    rows = mt.where(real.unsqueeze(-1), x, 0.0).flatten(0, 1)
    mean = shares @ rows
    return mean, shares @ (rows - mean) ** 2


# broken_blocks


def broken_by_matrices(programs):
    """Two trials with drawn functions; the gradient by finite differences."""
    found = set()
    for trial in range(2):
        random = np.random.default_rng(trial)
        x = random.standard_normal((2, 3, 4))
        W = [mt.tensor(random.standard_normal((4, 4))) for _ in range(4)]
        M = mt.tensor(random.standard_normal((3, 3)))
        parts = [
            lambda x, w=W[0]: (x @ w).tanh(),
            lambda x, w=W[1], M=M: M @ (x @ w),
            lambda x, w=W[2]: (x @ w).sigmoid(),
            lambda x, w=W[3]: (x @ w).sin(),
        ]
        for i, program in enumerate(programs):
            leaf = mt.tensor(x, requires_grad=True)
            y = program(leaf, *parts)
            a, f, b, g = parts
            other = mt.tensor(x, requires_grad=True)
            between = other + f(a(other))
            right = between + g(b(between))
            y.square().sum().backward()
            right.square().sum().backward()
            if not np.allclose(y.detach().numpy(), right.detach().numpy()):
                found.add(i)
            elif leaf.grad is None or not np.allclose(leaf.grad.numpy(), other.grad.numpy()):
                found.add(i)
    return sorted(found)


def broken_by_noting_calls(programs):
    """What each function is asked, besides what comes out; and a derivative along one direction."""

    def calls(program, x):
        noted = []

        def part(name, factor):
            def function(z):
                noted.append((name, z.detach().clone()))
                return factor * (z + z.flip(1)) ** 2

            return function

        names = {"a": 0.3, "f": 0.7, "b": -0.2, "g": 0.11}
        y = program(x, *(part(name, factor) for name, factor in names.items()))
        return sorted(noted, key=lambda each: each[0]), y

    def right(x, a, f, b, g):
        y = x + f(a(x))
        return y + g(b(y))

    mt.manual_seed(4)
    found = []
    for i, program in enumerate(programs):
        x, direction = mt.randn(2, 2, 4, 3).double().unbind(0)
        mine, y = calls(right, x)
        theirs, z = calls(program, x)
        same = len(mine) == len(theirs) and all(
            p == q and u.shape == v.shape and mt.allclose(u, v)
            for (p, u), (q, v) in zip(mine, theirs, strict=True)
        )
        leaf = x.clone().requires_grad_()
        (slope,) = mt.autograd.grad(calls(program, leaf)[1].sum(), leaf)
        ends = [calls(right, x + step * direction)[1].sum() for step in (1e-6, -1e-6)]
        along = (ends[0] - ends[1]) / 2e-6
        close = abs((slope * direction).sum().item() - along.item()) < 1e-4 * (
            1 + abs(along.item())
        )
        if not (same and mt.allclose(y, z) and close):
            found.append(i)
    return found


# rms_norm_gradient


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


# at_ten_times


def ten_times_by_means(train, settings, seeds, budget, goal):
    """All means first, then a verdict by sets."""
    verdicts = {}
    for setting in settings:
        curves = np.array([train(setting, seed, 10 * budget) for seed in seeds])
        ends = [
            curves[:, n - 10 : n].mean(axis=1) < goal for n in (budget, 3 * budget, 10 * budget)
        ]
        if ends[0].all():
            said = "learns"
        elif ends[2].all():
            said = "learns later"
        else:
            said = "luck of the seed" if np.any(ends) else "never seen to"
        verdicts[setting] = [[int(end.sum()) for end in ends], said]
    return verdicts


def ten_times_by_table(train, settings, seeds, budget, goal):
    """A table of booleans, filled run by run."""
    learned = {}
    for seed in seeds:
        for setting in settings:
            losses = train(setting, seed, steps=10 * budget)
            learned[setting, seed] = [
                statistics.fmean(losses[k * budget - 10 : k * budget]) < goal for k in (1, 3, 10)
            ]
    found = {}
    for setting in settings:
        one, three, ten = (sum(learned[setting, seed][i] for seed in seeds) for i in range(3))
        all_of_them = len(seeds)
        rules = {
            "learns": one == all_of_them,
            "learns later": ten == all_of_them,
            "never seen to": one + three + ten == 0,
            "luck of the seed": True,
        }
        found[setting] = (one, three, ten), next(name for name, holds in rules.items() if holds)
    return found


# steps_needed


def steps_with_convolve(losses, goal, window):
    if len(losses) < window:
        return None
    means = np.array([np.mean(losses[i : i + window]) for i in range(len(losses) - window + 1)])
    below = np.flatnonzero(means < goal)
    return below[0] + window if len(below) else None


def steps_with_a_running_list(losses, goal, window):
    last = []
    for step, loss in enumerate(losses, start=1):
        last = [*last, loss][-window:]
        if len(last) == window and statistics.fmean(last) < goal:
            return step


right = {
    "layer_norm": [
        norm_with_var,
        norm_with_the_root_taken_apart,
        norm_token_by_token,
        norm_with_matrices,
    ],
    "FeedForward": [NetworkOfFunctions, NetworkOfModules, NetworkInALoop, NetworkUnitByUnit],
    "shares_of_a_sum": [shares_step_by_step, shares_with_numpy],
    "paths": [paths_by_bits, paths_by_recursion, paths_in_numpy],
    "batch_statistics": [
        statistics_with_where,
        statistics_by_second_moment,
        statistics_of_kept_tokens,
        statistics_with_products,
        statistics_in_numpy,
    ],
    "broken_blocks": [broken_by_matrices, broken_by_noting_calls],
    "rms_norm_gradient": [gradient_with_the_jacobian, gradient_step_by_step, gradient_in_numpy],
    "at_ten_times": [ten_times_by_means, ten_times_by_table],
    "steps_needed": [steps_with_convolve, steps_with_a_running_list],
}
refused = {
    "layer_norm": [library_norm, norm_of_the_module],
    "rms_norm_gradient": [gradient_by_the_engine, gradient_by_backward],
}
