"""Layer norm of large features."""

import minitorch as mt
from textbook.checks.released import exercise

# Layer norm


def _norm_cases(draw, others=()):
    """Among them an epsilon that shows where it stands, tokens of equal and of large features."""
    sizes = others or [(2, 3), (3, 3, 5), (3, 4)]
    for i, size in enumerate(sizes):
        scale, eps = [(1.0, 0.5), (0.1, 1e-5)][i % 2]
        x = scale * (draw.normal(*size) * 2 + 3)
        if i >= 2:
            x[-1] = x[-1] * 1e200
        if i == len(sizes) - 1:
            x[0] = 7.0
        yield x, draw.normal(size[-1]) + 2, draw.normal(size[-1]), eps


def _has_no_size(check, answer, x, gain, bias, eps):
    token = mt.tensor([2.0, 7.0, -1.0, 3.0])
    one, zero = mt.ones(4), mt.zeros(4)
    right = (token - token.mean()) / token.var(unbiased=False).sqrt()
    if not mt.allclose(answer(token, one, zero, 0.0), right):
        return None
    if not mt.allclose(answer(1e200 * token, one, zero, eps), right):
        return "A token of features near 1e200 must come out with the mean 0 and the variance 1."
    return None


def _ignores_shifts(answer, x, gain, bias, eps):
    if not mt.allclose(answer(x + 1, gain, bias, eps), answer(x, gain, bias, eps)):
        return "A number that is added to all features of a token must not change the result."
    return None


SPREADS = {
    "the mean of the squares": lambda z: (z**2).mean(dim=-1, keepdim=True),
    "the sum of the squares by d - 1": lambda z: (z**2).sum(dim=-1, keepdim=True) / (len(z) - 1),
    "the sum of the squares": lambda z: (z**2).sum(dim=-1, keepdim=True),
}
EPSILONS = {
    "eps": lambda eps, most: eps,
    "eps times the square of the largest difference": lambda eps, most: eps * most**2,
    "eps times the largest difference": lambda eps, most: eps * most,
    "eps by the largest difference": lambda eps, most: eps / most,
    "eps by the square of the largest difference": lambda eps, most: eps / most**2,
    "the square of eps": lambda eps, most: eps**2,
}


def _divisors(z, eps):
    """What the differences z of a token are divided by, in words: right ones and others."""
    most = z.abs().max()
    for spread, square in SPREADS.items():
        yield f"the root of {spread}, without eps", square(z) ** 0.5
        for added, what in EPSILONS.items():
            yield f"the root of ({spread} + {added})", (square(z) + what(eps, most)) ** 0.5
            yield f"the root of {spread}, plus {added}", square(z) ** 0.5 + what(eps, most)
            yield f"{spread} + {added}", square(z) + what(eps, most)
    for name, size in (
        ("the mean of the differences' absolute values", z.abs().mean(dim=-1, keepdim=True)),
        ("the largest difference", most),
    ):
        yield name, size
        yield f"{name}, plus eps", size + eps
        yield f"the root of ({name} + eps)", (size + eps) ** 0.5


def _divides_by_the_root(check, answer, x, gain, bias, eps):
    """What a token of usual size is divided by, told from two tokens."""
    told = None
    for token, eps in ((mt.tensor([2.0, 7.0, -1.0, 3.0]), 0.5), (mt.arange(6.0) ** 2, 2.0)):
        z = token - token.mean()
        got = answer(token, mt.ones(len(z)), mt.zeros(len(z)), eps)
        fits = {name for name, by in _divisors(z, eps) if mt.allclose(got * by, z, rtol=1e-6)}
        told = fits if told is None else told & fits
    right = "the root of (the mean of the squares + eps)"
    if right in told or len(told) != 1:
        return None
    return f"The differences are divided by {told.pop()}, in place of {right}."


layer_norm = exercise(
    "layer_norm",
    cases=_norm_cases,
    forbidden=("layer_norm",),
    instead="mean, -, *, / and sqrt",
    properties=(_ignores_shifts,),
    reasons=(_divides_by_the_root, _has_no_size),
    see='chapter 09, "Layer normalization"',
)
