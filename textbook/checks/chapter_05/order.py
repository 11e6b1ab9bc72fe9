"""Which permutation shows that a layer notices the order."""

import itertools

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.compare import brief, number
from textbook.checks.released import exercise

# Order


class _Layer:
    """A layer (n, d) -> (n, d) with a name for messages."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def __call__(self, X):
        return self.function(X)

    def __repr__(self):
        return self.name

    def __deepcopy__(self, memo):
        return self


def _mark(n, position):
    """(n, 1): 1 at one position, 0 elsewhere."""
    return (mt.arange(n) == position % n).double().unsqueeze(1)


def _masked(X):
    later = mt.arange(len(X)) > mt.arange(len(X)).unsqueeze(1)
    return (X @ X.T).masked_fill(later, -mt.inf).softmax(dim=-1) @ X


def _recurrent(draw, d):
    W_ih, W_hh = draw.normal(d, d), draw.normal(d, d)

    def run(X):
        h, states = mt.zeros(d, dtype=X.dtype), []
        for x in X:
            h = (x @ W_ih + h @ W_hh).tanh()
            states.append(h)
        return mt.stack(states)

    return run


def _neighbours(X):
    """Each token with those before and after it; beyond the ends there are zeros."""
    zero = mt.zeros(1, X.shape[1], dtype=X.dtype)
    return X + mt.cat([zero, X[:-1]]) + mt.cat([X[1:], zero])


BLIND = (
    "self-attention",
    "a network for each token by itself",
    "the mean of all tokens, at each position",
)


def _layers(draw, d):
    """The first three are order-blind, the others are not, each in its way."""
    Q, K, V, W = (draw.normal(d, d) for _ in range(4))

    def attend(X):
        return F.scaled_dot_product_attention(X @ Q, X @ K, X @ V)

    yield BLIND[0], attend
    yield BLIND[1], lambda X: (X @ W).tanh() @ V
    yield BLIND[2], lambda X: X.mean(0).expand(*X.shape)
    yield "a recurrent network", _recurrent(draw, d)
    yield "self-attention that sees no later token", _masked
    yield (
        "self-attention with small position codes",
        lambda X: attend(X + 0.001 * mt.arange(len(X)).unsqueeze(1)),
    )
    yield "self-attention with the first token marked", lambda X: attend(X + _mark(len(X), 0))
    yield "self-attention with the last token marked", lambda X: attend(X + _mark(len(X), -1))
    yield "each token plus the one before it, in a circle", lambda X: X + X.roll(1, 0)
    yield "each token plus its two neighbours", _neighbours
    yield "the tokens, sorted by their first number", lambda X: X[X[:, 0].argsort()]


def _one_descent(X):
    """Plus 1 if exactly one token has a first number below that of the token before it.

    From rising first numbers every exchange of two neighbours leads there, but few of all
    permutations: 57 of the 720 of six tokens.
    """
    return X + ((X[1:, 0] < X[:-1, 0]).sum() == 1).double()


def _even(X):
    """Plus 1 if the first numbers are out of order in an even number of pairs, at least two.

    From rising first numbers no exchange of two tokens leads there, since it leaves an odd number
    of pairs out of order; of all permutations half do.
    """
    inverted = ((X[:, 0] < X[:, :1]) & (mt.arange(len(X)) > mt.arange(len(X)).unsqueeze(1))).sum()
    return X + ((inverted > 0) & (inverted % 2 == 0)).double()


def _behind_the_first(X):
    """Plus 1, in all rows but the first, if the first two tokens are out of order.

    From rising first numbers every other exchange goes unnoticed, and so does every one by who
    looks at the first output alone.
    """
    later = (mt.arange(len(X)) > 0).double().unsqueeze(1)
    return X + later * (X[0, 0] > X[1, 0]).double()


def _one_exchange(X):
    """Plus 1, in all rows but the last, if just the first two of four rising ones are exchanged."""
    earlier = (mt.arange(len(X)) < len(X) - 1).double().unsqueeze(1)
    return X + earlier * float(X[1, 0] < X[0, 0] < X[2, 0] < X[3, 0])


def _the_last_two(X):
    """Plus 1 in all rows if the last two tokens are out of order."""
    return X + (X[-2, 0] > X[-1, 0]).double()


def _little_beside_much(X):
    """Plus 100, and 0.0002 more from place to place."""
    return X + 100 + 2e-4 * mt.arange(len(X)).unsqueeze(1)


_RARE = "a layer that seldom notices the order"


def _order_cases(draw, d=2):
    n = 4
    for name, function in _layers(draw, d):
        yield _Layer(name, function), draw.normal(n, d)
    middle = _Layer(
        "the tokens, of which the middle one is marked", lambda X: X + _mark(len(X), len(X) // 2)
    )
    yield middle, draw.normal(5, d)
    for name, function, n in [
        (_RARE, _one_descent, 6),
        ("a layer that notices its last two tokens alone", _the_last_two, 5),
        ("a layer that notices no exchange of two tokens", _even, 4),
        ("a layer whose first output never shows what it notices", _behind_the_first, 4),
        ("a layer that notices one exchange, and not at the last token", _one_exchange, 4),
        ("a layer that notices little beside large outputs", _little_beside_much, 4),
    ]:
        X = draw.normal(n, d)
        yield _Layer(name, function), X[X[:, 0].argsort()]


def _verdict(answer, layer, X):
    """What the answer says, and whether the permutation that it gives shows it."""
    said = answer(layer, X)
    if isinstance(said, mt.Tensor):
        said = said.tolist()
    if said is None:
        return {"the verdict": "no permutation shows anything"}
    order = [number(i) for i in said] if isinstance(said, (list, tuple, np.ndarray)) else []
    if sorted(i for i in order if type(i) is int) != list(range(len(X))):
        return {"the verdict": f"no permutation of {len(X)} tokens: {brief(said)}"}
    shown = not _agree(layer(X[order]), layer(X)[order])
    text = "a permutation p with layer(X[p]) other than layer(X)[p]"
    return {"the verdict": text if shown else "a permutation that shows nothing"}


def _agree(permuted, outputs):
    return (permuted - outputs).abs().max().item() <= 1e-7


def _all(n):
    """All permutations. What a layer does with X in one order tells nothing about another one."""
    return map(list, itertools.permutations(range(n)))


def _explained(check, answer, layer, X):
    """What a wrong verdict overlooks."""
    said = _verdict(answer, layer, X)["the verdict"]
    outputs = layer(X)
    noticed = None
    if layer.name not in BLIND:
        noticed = next((p for p in _all(len(X)) if not _agree(layer(X[p]), outputs[p])), None)
    if said.startswith("no permutation shows") and noticed:
        luck = (
            " Few permutations change what this layer does: some drawn by chance find one by luck "
            "alone. Go through them in a way that leaves nothing out."
        )
        found = f"For p = {noticed}, layer(X[p]) differs from layer(X)[p]."
        return found + luck * (layer.name == _RARE)
    if said.startswith("a permutation") and not noticed:
        return "Whatever p is, layer(X[p]) and layer(X)[p] differ by rounding alone."
    return None


noticed_order = exercise(
    "noticed_order",
    cases=_order_cases,
    run=_verdict,
    reasons=(_explained,),
    gradients=False,
    see='chapter 05, "Permuting the words"',
)
