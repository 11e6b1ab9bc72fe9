"""Answers to the exercises of ``wirings.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_09.wirings import broken_blocks
from textbook.checks.exercise import Draw


@broken_blocks.answer()
def broken_blocks(programs):
    """The numbers of the programs that are no pre-norm block."""
    mt.manual_seed(0)
    x, weight = mt.randn(2, 2, 3, 4).double().unbind(0)
    W, M = mt.randn(4, 4, 4).double(), mt.randn(3, 3).double()

    def attention(x):
        return M @ x @ W[0]

    def network(x):
        return (x @ W[1]).tanh()

    def norm_1(x):
        return (x @ W[2]).sin()

    def norm_2(x):
        return (x @ W[3]).cos()

    def block(x, norm_1, attention, norm_2, network):
        y = x + attention(norm_1(x))
        return y + network(norm_2(y))

    def observed(program):
        given = x.clone().requires_grad_()
        y = program(given, norm_1, attention, norm_2, network)
        (gradient,) = mt.autograd.grad((y * weight).sum(), given)
        return y.detach(), gradient

    expected = observed(block)
    return [
        i
        for i, program in enumerate(programs)
        if not all(map(mt.allclose, observed(program), expected))
    ]


def _mixing(x):
    """A part in which tokens look at one another."""
    return (x + x.flip(1) * mt.arange(1.0, x.shape[1] + 1).unsqueeze(1)) @ _matrix(0)


def _matrix(seed):
    return Draw(seed).normal(4, 4)


PARTS = {
    "norm_1": lambda x: (x @ _matrix(1)).sin(),
    "attention": _mixing,
    "norm_2": lambda x: (x @ _matrix(2)).cos(),
    "network": lambda x: (x @ _matrix(3)).tanh(),
}
NORM, PART = PARTS["norm_1"], PARTS["network"]


# Right in another way


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


right = {
    "broken_blocks": [broken_by_matrices, broken_by_noting_calls],
}
