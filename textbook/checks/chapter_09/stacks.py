"""What stacks amount to: paths through attention, and what is left of the input of a sum."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_by_part

# What a stack of attention layers amounts to


def _stack_cases(draw, hidden):
    for layers, batch, n, d in (
        [(1, 1, 3, 2), (4, 2, 3, 4)] if hidden else [(1, 2, 3, 2), (2, 1, 3, 4), (3, 2, 4, 3)]
    ):
        weights = [draw.normal(batch, n, n).softmax(dim=-1) for _ in range(layers)]
        yield weights, [draw.normal(d, d) for _ in range(layers)]


def _first_to_last(matrices, one):
    """M_1 M_2 ... M_L."""
    product = one
    for matrix in matrices:
        product = product @ matrix
    return product


def _last_to_first(matrices, one):
    """M_L ... M_2 M_1."""
    return _first_to_last(matrices[::-1], one)


def _elementwise(matrices, one):
    product = matrices[0] if matrices else one
    for matrix in matrices[1:]:
        product = product * matrix
    return product


def _bits(k, layers):
    return [bool(k >> layer & 1) for layer in range(layers)]


def _walked(
    left=_last_to_first,
    right=_first_to_last,
    goes=_bits,
    numbers=lambda layers: range(2**layers),
    pair=lambda A, V: (A, V),
):
    """The paths with one of the pieces exchanged."""

    def paths(weights, values):
        layers = len(weights)
        eye = mt.eye(weights[0].shape[-1]).expand(*weights[0].shape)
        found = []
        for k in numbers(layers):
            through = [layer for layer, goes_on in enumerate(goes(k, layers)) if goes_on]
            A = left([weights[layer] for layer in through], eye)
            V = right([values[layer] for layer in through], mt.eye(len(values[0])))
            found.append(pair(A, V))
        return found

    return paths


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


@exercise(
    cases=_stack_cases,
    reasons=(_is_the_path_of_its_number, _adds_up),
    gradients=False,
    see='chapter 09, "Given its weights, attention is linear"',
)
def paths(weights, values):
    """L tensors (B, n, n) and L matrices (d, d) give 2^L pairs A (B, n, n), V (d, d)."""
    eye = mt.eye(weights[0].shape[-1]).expand(*weights[0].shape)
    found = [(eye, mt.eye(len(values[0])))]  # the path that goes through no layer
    for weight, value in zip(weights, values, strict=True):
        found += [(weight @ A, V @ value) for A, V in found]
    return found


paths.wrong(
    "right but for the order of the weights: the first layer's come first",
    "Weights multiply from the left, so those of a later layer stand further left: A_2 (A_1 X).",
)(_walked(left=_first_to_last))
paths.wrong(
    "right but for the order of the values: the last layer's come first",
    "Values multiply from the right, so those of a later layer stand further right: (X V_1) V_2.",
)(_walked(right=_last_to_first))
paths.wrong(
    "right but for the order of both products, which are the wrong way round",
    "Weights of a later layer stand further left, values further right: A_2 (A_1 X V_1) V_2.",
)(_walked(left=_first_to_last, right=_last_to_first))
paths.wrong(
    "right but for the weights, which are multiplied element by element",
    "The weights of two layers make a product of matrices: @ and not *.",
)(_walked(left=_elementwise))
paths.wrong(
    "right but for the values, which are multiplied element by element",
    "The values of two layers make a product of matrices: @ and not *.",
)(_walked(right=_elementwise))
paths.wrong(
    "right but for the numbers of the paths: the first layer has the highest bit",
    "Path k goes through layer l if bit l - 1 of k is 1: path 1 goes through the first alone.",
)(_walked(goes=lambda k, layers: _bits(k, layers)[::-1]))
paths.wrong(
    "right but for the numbers of the paths: a 1 stands for going past a layer",
    "Path 0 goes through no layer, the last one through all.",
)(_walked(goes=lambda k, layers: [not bit for bit in _bits(k, layers)]))
paths.wrong(
    "right but for the numbers of the paths: they are ordered by how many layers they go through",
    "Path k goes through layer l if bit l - 1 of k is 1: path 4 goes through the third alone.",
)(_walked(numbers=lambda layers: sorted(range(2**layers), key=lambda k: sum(_bits(k, layers)))))
paths.wrong(
    "right but for path 0, which is missing",
    "The residual connections alone make a path as well: A and V are identities.",
)(_walked(numbers=lambda layers: range(1, 2**layers)))
paths.wrong(
    "the path through all layers alone",
    "Each layer may be gone through or past: 2^L paths.",
)(_walked(numbers=lambda layers: [2**layers - 1]))
paths.wrong(
    "the paths through one layer each, and the one through none",
    "A path may go through several layers: 2^L of them.",
)(_walked(numbers=lambda layers: [0, *(2**layer for layer in range(layers))]))
paths.wrong(
    "right but for the pairs: the values come first",
    "Pairs of A, then V.",
)(_walked(pair=lambda A, V: (V, A)))
paths.wrong(
    "the layers with their residual connections inside, (I + A)",
    "Each path is a product of A's, without an identity added to them.",
)(
    _walked(
        left=lambda matrices, one: _last_to_first([x + one for x in matrices], one),
    )
)
paths.wrong(
    "right but for the weights, to whose products a softmax is applied once more",
    "Rows of a product of such matrices add up to one already.",
)(
    _walked(
        left=lambda matrices, one: (
            _last_to_first(matrices, one).softmax(dim=-1) if matrices else one
        )
    )
)


# What is left of the input of a sum


def _sum_cases(draw, hidden):
    yield from [(1, 1.0), (4, 0.5), (12, 1.0), (2, 3)]
    if hidden:
        yield from [(96, 0.25), (7, 2.0), (3, 0.1), (1000, 1)]


def _shares(
    sums=lambda parts, a: (1 + parts * a**2) ** 0.5,
    pre=lambda parts, a, size: (1 / size, a / size),
    post=lambda parts, a: ((1 + a**2) ** (-parts / 2), a / (1 + a**2) ** 0.5),
    finish=lambda found: found,
):
    """The shares with one of the pieces exchanged."""

    def shares(parts, a):
        size = sums(parts, a)
        before, after = pre(parts, a, size), post(parts, a)
        return finish(
            {
                "size of the sum, pre-norm": size,
                "input, pre-norm": before[0],
                "last part, pre-norm": before[1],
                "input, post-norm": after[0],
                "last part, post-norm": after[1],
            }
        )

    return shares


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


@exercise(
    cases=_sum_cases,
    reasons=(part_by_part(SLIPS),),
    gradients=False,
    see='chapter 09, "Before or after"',
)
def shares_of_a_sum(parts, a):
    """What is left of the input, and what the last part adds, in pre-norm and post-norm: a dict."""
    size = (1 + parts * a**2) ** 0.5
    return {
        "size of the sum, pre-norm": size,
        "input, pre-norm": 1 / size,
        "last part, pre-norm": a / size,
        "input, post-norm": (1 + a**2) ** (-parts / 2),
        "last part, post-norm": a / (1 + a**2) ** 0.5,
    }


for name, hint, pieces in (
    (
        "right but for the size of the sum: sizes are added, not their squares",
        "Independent vectors are nearly at right angles: the squares of their sizes add up.",
        {"sums": lambda parts, a: 1 + parts * a},
    ),
    (
        "right but for the size of the sum, of which it takes no root",
        "The mean square grows by a^2 with each part; the size is its root.",
        {"sums": lambda parts, a: 1 + parts * a**2},
    ),
    (
        "right but for the size of the sum, in which a is not squared",
        "A part of size a has the mean square a^2.",
        {"sums": lambda parts, a: (1 + parts * a) ** 0.5},
    ),
    (
        "right but for the size of the sum, from which the input is missing",
        "The input has the mean square 1, and each part adds a^2.",
        {"sums": lambda parts, a: (parts * a**2) ** 0.5},
    ),
    (
        "right but for the size of the sum, which grows as in a product: (1 + a^2)^(parts/2)",
        "In pre-norm each part gets a vector of size 1, whatever the sum, and adds one of size a.",
        {"sums": lambda parts, a: (1 + a**2) ** (parts / 2)},
    ),
    (
        "right but for the last part of pre-norm: it has the size of the sum before it",
        "Its share is a by the size of the whole sum, with itself in it.",
        {"pre": lambda parts, a, size: (1 / size, a / (1 + (parts - 1) * a**2) ** 0.5)},
    ),
    (
        "right but for the shares of pre-norm, which are squared",
        "Shares of the size, not of the mean square.",
        {"pre": lambda parts, a, size: (1 / size**2, a**2 / size**2)},
    ),
    (
        "right but for the shares of post-norm, which are squared",
        "Shares of the size, not of the mean square.",
        {"post": lambda parts, a: ((1 + a**2) ** -parts, a**2 / (1 + a**2))},
    ),
    (
        "right but for the shares, which are all squared",
        "Shares of the size, not of the mean square.",
        {
            "pre": lambda parts, a, size: (1 / size**2, a**2 / size**2),
            "post": lambda parts, a: ((1 + a**2) ** -parts, a**2 / (1 + a**2)),
        },
    ),
    (
        "right but for post-norm, which has the shares of pre-norm",
        "In post-norm each norm brings the sum back to size 1 and shrinks what was in it: each "
        "part divides the input by the root of 1 + a^2.",
        {
            "post": lambda parts, a: (
                1 / (1 + parts * a**2) ** 0.5,
                a / (1 + parts * a**2) ** 0.5,
            )
        },
    ),
    (
        "right but for the input of post-norm, which has the share that it has in pre-norm",
        "Each norm shrinks what was in the sum: by the root of 1 + a^2, each time.",
        {"post": lambda parts, a: ((1 + parts * a**2) ** -0.5, a / (1 + a**2) ** 0.5)},
    ),
    (
        "right but for the input of post-norm, whose share is squared",
        "Shares of the size, not of the mean square.",
        {"post": lambda parts, a: ((1 + a**2) ** -parts, a / (1 + a**2) ** 0.5)},
    ),
    (
        "right but for the last part of post-norm, which is a",
        "The norm after the last sum shrinks the last part, too.",
        {"post": lambda parts, a: ((1 + a**2) ** (-parts / 2), a)},
    ),
    (
        "right but for the last part of post-norm, which shrinks with every part",
        "Only the last norm comes after it.",
        {
            "post": lambda parts, a: (
                (1 + a**2) ** (-parts / 2),
                a * (1 + a**2) ** (-parts / 2),
            )
        },
    ),
    (
        "right but for the input of post-norm, which lacks one norm",
        "As many norms as parts: each comes after its sum.",
        {
            "post": lambda parts, a: (
                (1 + a**2) ** (-(parts - 1) / 2),
                a / (1 + a**2) ** 0.5,
            )
        },
    ),
    (
        "right but for post-norm, where sizes are added: 1 + a",
        "Independent vectors: the squares of their sizes add up.",
        {"post": lambda parts, a: ((1 + a) ** -parts, a / (1 + a))},
    ),
    (
        "right but for the last part of pre-norm, which is a",
        "What the part adds is a; its share in the sum is a by the size of the sum.",
        {"pre": lambda parts, a, size: (1 / size, a)},
    ),
    (
        "a list of numbers, not a dict",
        "A dict with the keys of the text.",
        {"finish": lambda found: [*found.values()]},
    ),
):
    shares_of_a_sum.wrong(name, hint)(_shares(**pieces))
