"""Answers to the exercises of ``broken.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_00.broken import _kinds, broken_gradients
from textbook.checks.suspects import all_together


@broken_gradients.answer(hidden_cases=lambda draw: all_together(_kinds(), draw.random))
def broken_gradients(programs):
    """The numbers of the programs that break a rule."""
    mt.manual_seed(0)
    inputs = [2 * mt.randn(n, d).double() for n, d in ((1, 3), (3, 1), (2, 2), (3, 2))]
    eps = 1e-5

    def follows_the_rules(program, x):
        given = x.clone()
        gradient = program.gradient(given).clone()
        slopes = mt.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                step = mt.zeros_like(x)
                step[i, j] = eps
                above, below = program.value(x + step), program.value(x - step)
                slopes[i, j] = (above - below) / (2 * eps)
        return (
            mt.equal(given, x)
            and gradient.shape == x.shape
            and mt.allclose(gradient, slopes, rtol=1e-4, atol=1e-6)
            and mt.allclose(program.gradient(x.clone()), gradient)
        )

    return [
        i
        for i, program in enumerate(programs)
        if not all(follows_the_rules(program, x) for x in inputs)
    ]


# Right in another way


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


def broken_by_backward(programs):
    found = []
    for i, program in enumerate(programs):
        x = mt.randn(3, 3).double().requires_grad_()
        program.value(x).backward()
        if not mt.allclose(program.gradient(x.detach().clone()), x.grad):
            found.append(i)
    return found


right = {
    "broken_gradients": [broken_by_directions, broken_by_five_points],
}
refused = {
    "broken_gradients": [broken_by_backward],
}
