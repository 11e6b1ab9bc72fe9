"""Right answers to the exercises of chapter 00, and forbidden ones."""

import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
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


def softmax_by_pairs(scores):
    total = functools.reduce(mt.logaddexp, scores.unbind(-1))
    return (scores - total.unsqueeze(-1)).exp()


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


def perplexity_by_logsumexp(scores, others, share, targets):
    total = 0.0
    for row, other, target in zip(scores, others, targets.tolist(), strict=True):
        logs = [(x[target] - x.logsumexp(dim=0)).item() for x in (row, other)]
        shares = [share, 1 - share]
        known = [log + math.log(part) for log, part in zip(logs, shares, strict=True) if part > 0]
        top = max(known)
        total -= top + math.log(sum(math.exp(each - top) for each in known))
    return math.exp(total / len(targets))


def perplexity_in_numpy(scores, others, share, targets):
    rows = np.arange(len(targets))
    logs = []
    for x in (scores.numpy(), others.numpy()):
        x = x - x.max(axis=1, keepdims=True)
        logs.append((x - np.log(np.exp(x).sum(axis=1, keepdims=True)))[rows, targets.numpy()])
    with np.errstate(divide="ignore"):
        log_p = np.logaddexp(np.log(share) + logs[0], np.log(1 - share) + logs[1])
    return mt.tensor(np.exp(-log_p.mean()))


def flops_by_layer(sizes, frozen, batch):
    total = 0
    for layer in range(len(sizes) - 1):
        products = 1 + (layer >= frozen) + (layer > frozen)
        total += products * 2 * batch * sizes[layer] * sizes[layer + 1]
    return total


def flops_as_a_fraction(sizes, frozen, batch):
    return Fraction(flops_by_layer(sizes, frozen, batch), 1)


def flops_in_numpy(sizes, frozen, batch):
    parts = np.array(sizes[:-1], dtype=np.int64) * np.array(sizes[1:])
    return 2 * batch * (parts.sum() + parts[frozen:].sum() + parts[frozen + 1 :].sum())


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


def broken_by_directions(programs):
    """Slopes in random directions, with a step in float64; many of them, at several sizes."""
    random = np.random.default_rng(3)

    def broken(program):
        for n, d in [(1, 2), (2, 1), (2, 2), (3, 3), (5, 2)]:
            x = mt.tensor(2 * random.standard_normal((n, d)))
            before = x.numpy().copy()
            g = program.gradient(x)
            if (x.numpy() != before).any() or tuple(g.shape) != (n, d):
                return True
            if not np.allclose(program.gradient(mt.tensor(before)).numpy(), g.numpy()):
                return True
            for _ in range(4):
                way = mt.tensor(1e-5 * random.standard_normal((n, d)))
                up, down = (program.value(x + sign * way).item() for sign in (1, -1))
                expected = 2 * (g * way).sum().item()
                if abs(up - down - expected) > 1e-9 + 1e-4 * 2 * (g * way).abs().sum().item():
                    return True
        return False

    return [np.int64(i) for i, program in enumerate(programs) if broken(program)]


def broken_by_five_points(programs):
    """Differences of the fourth order."""
    found = []
    for number, program in enumerate(programs):
        wrong = False
        for seed, shape in enumerate([(1, 3), (4, 1), (3, 3), (2, 4)]):
            mt.manual_seed(seed)
            x = 2 * mt.randn(*shape, dtype=mt.float64)
            kept, slopes = x.clone(), mt.zeros_like(x)
            answers = [program.gradient(x).clone() for _ in range(2)]
            wrong = wrong or not mt.equal(x, kept)
            x = kept
            for place in np.ndindex(*shape):
                one = mt.zeros_like(x)
                one[place] = 1e-3
                f = [program.value(x + k * one) for k in (-2, -1, 1, 2)]
                slopes[place] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / 12e-3
            for answer in answers:
                same = answer.shape == x.shape
                wrong = wrong or not same or not mt.allclose(answer, slopes, 1e-3, 1e-5)
        if wrong:
            found.append(number)
    return tuple(found)


def conclusions_step_by_step(runs):
    kept = {}
    for name in sorted({run["optimizer"] for run in runs}):
        own = [run for run in runs if run["optimizer"] == name]
        rates = sorted({run["rate"] for run in own})
        middles = []
        for rate in rates:
            losses = [run["elsewhere"] for run in own if run["rate"] == rate]
            losses = sorted(math.inf if loss != loss else loss for loss in losses)
            half = len(losses) // 2
            middles.append(
                losses[half] if len(losses) % 2 else sum(losses[half - 1 : half + 1]) / 2
            )
        place = middles.index(min(middles))
        if place in (0, len(rates) - 1):
            continue
        reported = [run["new"] for run in own if run["rate"] == rates[place]]
        reported = [math.inf if loss != loss else loss for loss in reported]
        if len(reported) > 4:
            kept[name] = reported
    return {
        (one, other)
        for one, losses in kept.items()
        for other, others in kept.items()
        if all(x < y for x in losses for y in others)
    }


def conclusions_in_numpy(runs):
    found, names = {}, {run["optimizer"] for run in runs}
    for name in names:
        tried = {}
        for run in runs:
            if run["optimizer"] == name:
                tried.setdefault(run["rate"], []).append((run["elsewhere"], run["new"]))
        rates = np.array(sorted(tried))
        by = [np.median(np.nan_to_num([e for e, _ in tried[r]], nan=np.inf)) for r in rates]
        best = int(np.argmin(by))
        if 0 < best < len(rates) - 1 and len(tried[rates[best]]) >= 5:
            found[name] = np.nan_to_num([new for _, new in tried[rates[best]]], nan=np.inf)
    return [[a, b] for a in found for b in found if found[a].max() < found[b].min()]


def step_with_the_library(loss_of, parts, parameters, means, squares, t, lr):
    """Adam of the library, given the state."""
    optimizer = mt.optim.Adam(parameters, lr=lr)
    optimizer.zero_grad(set_to_none=True)
    sizes = [len(targets) for _, targets in parts]
    losses = []
    for size, (inputs, targets) in zip(sizes, parts, strict=True):
        loss = loss_of(inputs, targets)
        (loss * size / sum(sizes)).backward()
        losses.append(size * loss.detach())
    for w, m, v in zip(parameters, means, squares, strict=True):
        if w.grad is None:
            continue
        m += 0.1 * (w.grad - m)
        v += 0.001 * (w.grad * w.grad - v)
        size = lr * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        with mt.no_grad():
            w -= size * m / (v.sqrt() + 1e-8 * math.sqrt(1 - 0.999**t))
    return sum(losses) / sum(sizes)


def step_by_sums(loss_of, parts, parameters, means, squares, t, lr):
    """Gradients from grad(), added up by hand."""
    count, total, sums = 0, 0.0, [None] * len(parameters)
    for inputs, targets in parts:
        n = inputs.shape[0]
        loss = loss_of(inputs, targets)
        found = mt.autograd.grad(loss, parameters, allow_unused=True)
        count, total = count + n, total + n * float(loss)
        for i, g in enumerate(found):
            if g is not None:
                sums[i] = n * g if sums[i] is None else sums[i] + n * g
    for w, m, v, g in zip(parameters, means, squares, sums, strict=True):
        if g is not None:
            g = g / count
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            w.data -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    return total / count


class ValueWithClosures:
    """Each operation keeps a function from its gradient to the shares of its inputs."""

    def __init__(self, data, inputs=(), shares=None):
        self.data, self.inputs, self.shares = data, inputs, shares

    def __add__(self, other):
        return ValueWithClosures(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        shares = lambda g: (g * other, g * self)  # noqa: E731
        return ValueWithClosures(self.data * other.data, (self, other), shares)

    def __sub__(self, other):
        return self + other * ValueWithClosures(-1)

    def __truediv__(self, other):
        inverse = ValueWithClosures(1 / other.data, (other,))
        inverse.shares = lambda g: (g * inverse * inverse * ValueWithClosures(-1),)
        return self * inverse

    def exp(self):
        out = ValueWithClosures(math.exp(self.data), (self,))
        out.shares = lambda g: (g * out,)
        return out

    def gradients(self, values):
        uses, stack = {self: 0}, [self]
        while stack:
            for node in stack.pop().inputs:
                if node not in uses:
                    uses[node] = 0
                    stack.append(node)
                uses[node] += 1
        found, ready = {self: ValueWithClosures(1)}, [self]
        while ready:
            node = ready.pop()
            if not node.inputs:
                continue
            for parent, share in zip(node.inputs, node.shares(found[node]), strict=True):
                found[parent] = found[parent] + share if parent in found else share
                uses[parent] -= 1
                if not uses[parent]:
                    ready.append(parent)
        return [found[v] if v in found else ValueWithClosures(0) for v in values]


class ValueWithClock:
    """Numbers the values as they are made; a later one never feeds an earlier one."""

    made = 0

    def __init__(self, data, *slopes):
        self.data, self.slopes = data, slopes
        ValueWithClock.made += 1
        self.number = ValueWithClock.made

    def __add__(self, other):
        return ValueWithClock(self.data + other.data, (self, ONE), (other, ONE))

    def __sub__(self, other):
        return ValueWithClock(self.data - other.data, (self, ONE), (other, MINUS_ONE))

    def __mul__(self, other):
        return ValueWithClock(self.data * other.data, (self, other), (other, self))

    def __truediv__(self, other):
        result = ValueWithClock(self.data / other.data)
        result.slopes = (self, lambda: ONE / other), (other, lambda: MINUS_ONE * result / other)
        return result

    def exp(self):
        result = ValueWithClock(math.exp(self.data))
        result.slopes = ((self, result),)
        return result

    def gradients(self, values):
        found, stack = {self}, [self]
        while stack:
            for parent, _ in stack.pop().slopes:
                if parent not in found:
                    found.add(parent)
                    stack.append(parent)
        grads = {self: ONE}
        for node in sorted(found, key=lambda node: -node.number):
            for parent, slope in node.slopes:
                share = grads[node] * (slope() if callable(slope) else slope)
                grads[parent] = grads[parent] + share if parent in grads else share
        return tuple(grads.get(value, ValueWithClock(0.0)) for value in values)


ONE, MINUS_ONE = ValueWithClock(1.0), ValueWithClock(-1.0)


right = {
    "softmax": [
        softmax_in_one_go,
        softmax_row_by_row,
        softmax_by_pairs,
        SoftmaxInNumpy(-1),
        functools.partial(softmax_over, dim=-1),
    ],
    "perplexity": [perplexity_by_logsumexp, perplexity_in_numpy],
    "training_flops": [flops_by_layer, flops_in_numpy, flops_as_a_fraction],
    "sum_copies": [copies_by_blocks, copies_one_by_one],
    "tied_gradients": [tied_by_einsum, tied_by_outer_products],
    "spectral_radius": [
        spectral_radius_in_tensors,
        spectral_radius_in_numpy,
        spectral_radius_by_the_length_so_far,
    ],
    "broken_gradients": [broken_by_directions, broken_by_five_points],
    "conclusions": [conclusions_step_by_step, conclusions_in_numpy],
    "step_in_parts": [step_with_the_library, step_by_sums],
    "Value": [ValueWithClosures, ValueWithClock],
}


def softmax_by_cross_entropy(scores):
    rows = scores.reshape(-1, scores.shape[-1])
    losses = [
        F.cross_entropy(rows, mt.full((len(rows),), i), reduction="none")
        for i in range(rows.shape[-1])
    ]
    return (-mt.stack(losses, -1)).exp().reshape(scores.shape)


def softmax_by_attention(scores):
    eye = mt.eye(scores.shape[-1], dtype=scores.dtype)
    rows = scores.clamp(min=-1e30).reshape(1, -1, scores.shape[-1])  # -inf times 0 is no number
    found = F.scaled_dot_product_attention(rows, eye.unsqueeze(0), eye.unsqueeze(0), scale=1.0)
    return found.reshape(scores.shape)


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


def broken_by_backward(programs):
    found = []
    for i, program in enumerate(programs):
        x = mt.randn(3, 3).double().requires_grad_()
        program.value(x).backward()
        if not mt.allclose(program.gradient(x.detach().clone()), x.grad):
            found.append(i)
    return found


refused = {
    "softmax": [
        lambda scores: mt.softmax(scores, -1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: scores.softmax(-1),
        lambda scores: probabilities(scores, -1),
        lambda scores: F.log_softmax(scores, -1).exp(),
        lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp(),
        softmax_by_cross_entropy,
        softmax_by_attention,
    ],
    "sum_copies": [copies_by_backward],
    "tied_gradients": [tied_by_backward],
    "broken_gradients": [broken_by_backward],
}
