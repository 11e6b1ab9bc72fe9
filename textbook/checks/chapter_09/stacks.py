"""What stacks amount to: paths through attention, and what is left of the input of a sum."""

import minitorch as mt
from textbook.checks.reasons import part_by_part
from textbook.checks.released import exercise

# What a stack of attention layers amounts to


def _stack_cases(draw, others=()):
    for layers, batch, n, d in others or [(1, 2, 3, 2), (2, 1, 3, 4), (3, 2, 4, 3)]:
        weights = [draw.normal(batch, n, n).softmax(dim=-1) for _ in range(layers)]
        yield weights, [draw.normal(d, d) for _ in range(layers)]


def _bits(k, layers):
    return [bool(k >> layer & 1) for layer in range(layers)]


def _adds_up(check, answer, weights, values):
    n, d = weights[0].shape[1], len(values[0])
    X = (mt.arange(n * d).reshape(n, d) * 1.7).sin()
    Y = X.expand(len(weights[0]), n, d)
    for weight, value in zip(weights, values, strict=True):
        Y = Y + weight @ Y @ value
    if not mt.allclose(sum(A @ X @ V for A, V in answer(weights, values)), Y):
        return "The sum of all A X V must be what the stack makes of X."
    return None


def _is_the_path_of_its_number(check, answer, weights, values):
    found, right = answer(weights, values), check.reference(weights, values)
    if len(found) != len(right):
        return None

    def same(one, other):
        return all(
            a.shape == b.shape and mt.allclose(a, b) for a, b in zip(one, other, strict=True)
        )

    def layers(k):
        return [layer + 1 for layer, through in enumerate(_bits(k, len(weights))) if through]

    for k, pair in enumerate(found):
        if same(pair, right[k]):
            continue
        for j, other in enumerate(right):
            if same(pair, other):
                way = f"the layers {layers(j)}" if j else "no layer"
                return (
                    f"Pair {k} of the list is the path through {way}; "
                    f"path {k} goes through {layers(k) or 'none'}."
                )
        if k == 0:
            return "Path 0 goes past all layers: A and V are identities."
        if len(layers(k)) == 1:
            [alone] = layers(k)
            return f"Path {k} goes through layer {alone} alone: A_{alone} and V_{alone}, no more."
        return f"Path {k} goes through the layers {layers(k)}: products of theirs and of no other."
    return None


paths = exercise(
    "paths",
    cases=_stack_cases,
    reasons=(_is_the_path_of_its_number, _adds_up),
    gradients=False,
    see='chapter 09, "Given its weights, attention is linear"',
)


# What is left of the input of a sum


def _sum_cases(draw, more=()):
    yield from [(1, 1.0), (4, 0.5), (12, 1.0), (2, 3)]
    yield from more


SLIPS = {
    "size of the sum, pre-norm": {
        "it is a sum of sizes: their squares add up": lambda p, a: 1 + p * a,
        "it is the mean square: its root is the size": lambda p, a: 1 + p * a**2,
        "it is 1 + the root of the squares of the parts: 1 is a square, too": lambda p, a: (
            1 + (p * a**2) ** 0.5
        ),
        "it is that of a part less": lambda p, a: (1 + (p - 1) * a**2) ** 0.5,
        "a part adds a to the square of the size, and not a^2": lambda p, a: (1 + p * a) ** 0.5,
        "it is that of a part more": lambda p, a: (1 + (p + 1) * a**2) ** 0.5,
        "it is a product: a part has the size a, whatever the size of the sum": lambda p, a: (
            (1 + a**2) ** (p / 2)
        ),
        "it is that for a = 1": lambda p, a: (1 + p) ** 0.5,
    },
    "input, pre-norm": {
        "it is that for a sum of sizes, not of squares": lambda p, a: 1 / (1 + p * a),
        "it is that after a part less": lambda p, a: (1 + (p - 1) * a**2) ** -0.5,
        "it is all of it, 1: what it adds is still there, but the sum has grown": lambda p, a: 1.0,
        "it is what the parts leave, 1 less their share": lambda p, a: (
            1 - (p * a**2 / (1 + p * a**2)) ** 0.5
        ),
    },
    "last part, pre-norm": {
        "it is that of a part of size 1: a part has the size a": lambda p, a: (
            (1 + p * a**2) ** -0.5
        ),
        "it is what the input leaves, 1 less its share": lambda p, a: 1 - (1 + p * a**2) ** -0.5,
        "it is an equal share of what the input leaves: squares add up to 1, not shares": (
            lambda p, a: (1 - (1 + p * a**2) ** -0.5) / p
        ),
        "it is that of all parts together": lambda p, a: (p * a**2 / (1 + p * a**2)) ** 0.5,
        "it is its size by that of the sum before it": lambda p, a: a / (1 + (p - 1) * a**2) ** 0.5,
        "it is that for a sum of sizes, not of squares": lambda p, a: a / (1 + p * a),
        "it is a: the size of the part, not its share": lambda p, a: a,
    },
    "input, post-norm": {
        "it is that after one part: each of the norms shrinks it": lambda p, a: (1 + a**2) ** -0.5,
        "it is that after one norm less": lambda p, a: (1 + a**2) ** (-(p - 1) / 2),
        "it is that after one norm more": lambda p, a: (1 + a**2) ** (-(p + 1) / 2),
        "it is that for sums of sizes, not of squares": lambda p, a: (1 + a) ** -p,
        "it is that for a = 1": lambda p, a: 2 ** (-p / 2),
        "it is that for sums of sizes, under a root": lambda p, a: (1 + a) ** (-p / 2),
        "it is divided once for each part: it is a power": lambda p, a: 1 / (p * (1 + a**2) ** 0.5),
    },
    "last part, post-norm": {
        "it is that of a part of size 1: a part has the size a": lambda p, a: (1 + a**2) ** -0.5,
        "it is that for sums of sizes, not of squares": lambda p, a: a / (1 + a),
        "it is a: the norm after it shrinks it, too": lambda p, a: a,
        "it is shrunk by every norm: only one comes after it": lambda p, a: (
            a * (1 + a**2) ** (-p / 2)
        ),
    },
}


shares_of_a_sum = exercise(
    "shares_of_a_sum",
    cases=_sum_cases,
    reasons=(part_by_part(SLIPS),),
    gradients=False,
    see='chapter 09, "Before or after"',
)
