"""What does not notice order, and what has to wait for what."""

import itertools
import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_01.states import draw_weights, rnn_cell
from textbook.checks.chapter_05.layers import attention
from textbook.checks.exercise import exercise

_attend = attention.reference

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
    weights = draw_weights(draw, d, d)

    def run(X):
        h, states = mt.zeros(1, d, dtype=X.dtype), []
        for x in X.split(1):
            h = rnn_cell(x, h, *weights)
            states.append(h)
        return mt.cat(states)

    return run


def _neighbours(X):
    """Each token with those before and after it; beyond the ends there are zeros."""
    zero = mt.zeros(1, X.shape[1], dtype=X.dtype)
    return X + mt.cat([zero, X[:-1]]) + mt.cat([X[1:], zero])


def _layers(draw, d):
    """The first three are order-blind, the others are not, each in its way."""
    Q, K, V, W = (draw.normal(d, d) for _ in range(4))

    def attend(X):
        return _attend(X @ Q, X @ K, X @ V)

    yield "self-attention", attend
    yield "a network for each token by itself", lambda X: (X @ W).tanh() @ V
    yield "the mean of all tokens, at each position", lambda X: X.mean(0).expand(*X.shape)
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


_RARE = "a layer that seldom notices the order"


def _order_cases(draw, hidden):
    n, d = (5, 3) if hidden else (4, 2)
    for name, function in _layers(draw, d):
        yield _Layer(name, function), draw.normal(n, d)
    middle = _Layer(
        "the tokens, of which the middle one is marked", lambda X: X + _mark(len(X), len(X) // 2)
    )
    yield middle, draw.normal(5, d)
    for name, function in [
        (_RARE, _one_descent),
        (_RARE, _one_descent),
        ("a layer that notices no exchange of two tokens", _even),
    ]:
        X = draw.normal(6, d)
        yield _Layer(name, function), X[X[:, 0].argsort()]


def _verdict(answer, layer, X):
    verdict = answer(layer, X)
    if isinstance(verdict, np.generic) or (isinstance(verdict, mt.Tensor) and verdict.ndim == 0):
        verdict = verdict.item()
    return {"the verdict": verdict}


def _agree(permuted, outputs, tolerance=1e-7):
    return (permuted - outputs).abs().max().item() <= tolerance


def _all(n):
    """All permutations. What a layer does with X in one order tells nothing about another one."""
    return map(list, itertools.permutations(range(n)))


def _swaps(n):
    """The n - 1 exchanges of two neighbours."""
    for i in range(n - 1):
        order = list(range(n))
        order[i : i + 2] = i + 1, i
        yield order


def _keeping(*positions, orders_of=_all):
    """Permutations of all tokens but those at the positions; None is the middle."""

    def orders(n):
        kept = {n // 2 if position is None else position % n for position in positions}
        others = [i for i in range(n) if i not in kept]
        for moved in orders_of(len(others)):
            order = list(range(n))
            for i, j in enumerate(moved):
                order[others[i]] = others[j]
            yield order

    return orders


def _ends_exchanged(n):
    return [n - 1, *range(1, n - 1), 0]


def _trying(orders=_all, fits=lambda permuted, outputs, p: _agree(permuted, outputs[p])):
    """A test with one of its pieces exchanged; ``permuted`` is what the layer makes of X[p]."""

    def test(layer, X):
        outputs = layer(X)
        return all(fits(layer(X[order]), outputs, order) for order in orders(len(X)))

    return test


def _explained(answer, layer, X):
    """What a wrong verdict overlooks."""
    said = bool(answer(layer, X))
    outputs = layer(X)
    noticed = next((p for p in _all(len(X)) if not _agree(layer(X[p]), outputs[p])), None)
    if said and noticed:
        luck = (
            " Few permutations change what this layer does: some drawn by chance find one by luck "
            "alone. Go through them in a way that leaves nothing out."
        )
        found = f"For p = {noticed}, layer(X[p]) differs from layer(X)[p]."
        return found + luck * (layer.name == _RARE)
    if not said and not noticed:
        return "Whatever p is, layer(X[p]) and layer(X)[p] differ by rounding alone."
    return None


@exercise(
    cases=_order_cases,
    run=_verdict,
    properties=(_explained,),
    gradients=False,
    see='chapter 05, "Permuting the words"',
)
def order_blind(layer, X):
    """A layer (n, d) -> (n, d') and tokens X (n, d) give True or False."""
    outputs = layer(X)
    for order in itertools.permutations(range(len(X))):
        p = list(order)
        if not mt.allclose(layer(X[p]), outputs[p]):
            return False
    return True


order_blind.wrong(
    "a test whether the outputs stay as they are",
    "Order-blind is: the outputs move with the tokens. Compare layer(X[p]) with layer(X)[p].",
)(_trying(fits=lambda permuted, outputs, p: _agree(permuted, outputs)))
order_blind.wrong(
    "right but for rounding: the outputs must be equal to the last digit",
    "A sum in another order differs in its last digits. Compare with a tolerance: mt.allclose.",
)(_trying(fits=lambda permuted, outputs, p: _agree(permuted, outputs[p], 0)))
order_blind.wrong(
    "right but for its tolerance, which lets small position codes through",
    "mt.allclose with its own tolerances tells rounding from a small effect.",
)(_trying(fits=lambda permuted, outputs, p: _agree(permuted, outputs[p], 0.05)))
order_blind.wrong(
    "a test that turns the sequence around and tries nothing else",
    "Some layers do not notice a reversal and notice other permutations. Try several.",
)(_trying(lambda n: [list(range(n - 1, -1, -1))]))
order_blind.wrong(
    "a test that rolls the sequence and tries nothing else",
    "Some layers do not notice a rotation and notice other permutations. Try several.",
)(_trying(lambda n: [[*range(1, n), 0]]))
order_blind.wrong(
    "a test with permutations that never move the last token",
    "What happens at that position remains untested. Let every token move in one of them.",
)(_trying(_keeping(-1)))
order_blind.wrong(
    "a test with permutations that never move the first token",
    "What happens at that position remains untested. Let every token move in one of them.",
)(_trying(_keeping(0)))
order_blind.wrong(
    "a test with permutations that never move the token in the middle",
    "What happens at that position remains untested. Let every token move in one of them.",
)(_trying(_keeping(None)))
order_blind.wrong(
    "a test with permutations that move neither the last token nor the one in the middle",
    "What happens at those positions remains untested. Let every token move in one of them.",
)(_trying(_keeping(-1, None, orders_of=_swaps)))
order_blind.wrong(
    "a test with permutations that move neither the first token nor the one in the middle",
    "What happens at those positions remains untested. Let every token move in one of them.",
)(_trying(_keeping(0, None, orders_of=_swaps)))
order_blind.wrong(
    "a test that exchanges the first and the last token, or turns all around, and misses the rest",
    "Of an odd number of tokens the middle one stays where it is. Let every token move, and try "
    "permutations that change less, such as an exchange of two neighbours.",
)(_trying(lambda n: [_ends_exchanged(n), list(range(n - 1, -1, -1))]))
order_blind.wrong(
    "a test that exchanges two tokens and tries nothing else",
    "Every permutation is a chain of exchanges, but the second link of the chain begins at the "
    "tokens as the first one has left them, and there you have not looked. Try all permutations.",
)(_trying(_swaps))
order_blind.wrong(
    "a test that permutes the features and not the tokens",
    "Tokens are rows: X[p], not X[:, p].",
)(lambda layer, X: all(_agree(layer(X[:, p]), layer(X)[:, p]) for p in _swaps(X.shape[1])))
order_blind.wrong(
    "a test that undoes the permutation by applying it once more",
    "layer(X[p])[p] permutes twice. Compare layer(X[p]) with layer(X)[p], or undo with "
    "p.argsort().",
)(
    _trying(
        lambda n: [[*range(1, n), 0], *_swaps(n)],
        lambda permuted, outputs, p: _agree(permuted[p], outputs),
    )
)
order_blind.wrong(
    "a test whether the sum of the outputs stays as it is",
    "Each output has to follow its token. Compare layer(X[p]) with layer(X)[p], row by row.",
)(_trying(fits=lambda permuted, outputs, p: _agree(permuted.sum(0), outputs.sum(0))))
order_blind.wrong(
    "a test whether the outputs stay the same in some order",
    "Each output has to follow its own token. Compare layer(X[p]) with layer(X)[p], row by row.",
)(
    _trying(
        fits=lambda permuted, outputs, p: _agree(permuted.sort(dim=0)[0], outputs.sort(dim=0)[0])
    )
)
order_blind.wrong(
    "a test that says yes to every layer",
    "The permutations that you try may all leave the order as it is. Some of the layers here do "
    "notice it.",
)(lambda layer, X: True)
order_blind.wrong(
    "a test that says no to every layer",
    "Self-attention is order-blind, and so is a layer that treats each token by itself.",
)(lambda layer, X: False)
order_blind.wrong(
    "right, but says the opposite",
    "True means that the layer does not notice the order.",
)(lambda layer, X: not order_blind.reference(layer, X))

# Steps


def _recurrence(n):
    return [[t - 1] if t else [] for t in range(n)]


def _self_attention(n):
    """n projections, then n outputs, each of which needs all projections."""
    return [[]] * n + [list(range(n))] * n


def _both_directions(n):
    """A recurrence forward, one backward, and a sum of the two at each position."""
    forward, backward = _recurrence(n), [[i + n for i in inputs] for inputs in _recurrence(n)]
    return forward + backward + [[t, 2 * n - 1 - t] for t in range(n)]


def _bottleneck(n):
    """n operations, one that needs them all, and n that need that one."""
    return [[]] * n + [list(range(n))] + [[n]] * n


def _any_graph(draw, n):
    """Each operation needs up to two of the earlier ones, named in any order."""
    return [
        draw.random.permutation(i)[: draw.random.integers(3)].tolist() if i else []
        for i in range(n)
    ]


def _graph_cases(draw, hidden):
    n = 5 if hidden else 3
    yield [], None
    yield [], 2
    yield _self_attention(12), None
    yield _recurrence(n), None
    yield _self_attention(n), 2
    yield _both_directions(n), None
    yield _bottleneck(n), 2
    for size, workers in [(6, None), (8, 2), (9, 3)]:
        yield _any_graph(draw, 2 * size if hidden else size), workers


def _starting(needs, done, workers):
    """The first operations of those that are ready."""
    return [i for i, inputs in enumerate(needs) if i not in done and done >= set(inputs)][:workers]


def _scheduling(start=_starting):
    """Steps of a schedule with another way to choose what starts in a step."""

    def steps(needs, workers):
        done, number = set(), 0
        while len(done) < len(needs):
            done.update(start(needs, done, workers))
            number += 1
        return number

    return steps


def _depths(needs):
    """The length of the longest chain that ends at each operation."""
    depths = []
    for inputs in needs:
        depths.append(1 + max((depths[i] for i in inputs), default=0))
    return depths


def _longest_chain(needs):
    return max(_depths(needs), default=0)


def _divided(needs, workers):
    return math.ceil(len(needs) / (workers or len(needs) or 1))


@exercise(cases=_graph_cases, gradients=False, see='chapter 05, "What waits for what"')
def time_steps(needs, workers):
    """Lists of what each operation needs and a number of workers or None give a number of steps."""
    done, steps = set(), 0
    while len(done) < len(needs):
        ready = [i for i in range(len(needs)) if i not in done and done.issuperset(needs[i])]
        done.update(ready[:workers])
        steps += 1
    return steps


time_steps.wrong(
    "the longest chain, whatever the number of workers",
    "That is right for workers = None. Otherwise no more than `workers` operations run in a step.",
)(lambda needs, workers: _longest_chain(needs))
time_steps.wrong(
    "the number of operations divided by the number of workers, rounded up",
    "An operation cannot start before what it needs is done. What runs in a step is done at its "
    "end: choose all operations of a step before you count any of them as done.",
)(lambda needs, workers: _divided(needs, workers))
time_steps.wrong(
    "the larger of the longest chain and operations divided by workers",
    "It takes at least that, and sometimes more: workers may find nothing that is ready. Go "
    "through the steps one by one.",
)(lambda needs, workers: max(_longest_chain(needs), _divided(needs, workers)))
time_steps.wrong(
    "the number of operations: one in each step",
    "As many operations as there are workers, or as many as are ready, run in one step.",
)(lambda needs, workers: len(needs))
time_steps.wrong(
    "a schedule that goes level by level and waits for all of a level before it begins the next",
    "An operation may start as soon as what it needs itself is done, whatever else still runs.",
)(
    lambda needs, workers: sum(
        math.ceil(_depths(needs).count(level) / (workers or len(needs)))
        for level in set(_depths(needs))
    )
)


@time_steps.wrong(
    "a schedule where an operation starts when one of its inputs is done",
    "It needs all of them.",
)
def _(needs, workers):
    def start(needs, done, workers):
        ready = [i for i, inputs in enumerate(needs) if not inputs or done & set(inputs)]
        return [i for i in ready if i not in done][:workers]

    return _scheduling(start)(needs, workers)


@time_steps.wrong(
    "a schedule in fixed order: the first operation that is not ready stops the others",
    "Later ones that are ready may go first.",
)
def _(needs, workers):
    def start(needs, done, workers):
        waiting = [i for i in range(len(needs)) if i not in done]
        return list(itertools.takewhile(lambda i: done >= set(needs[i]), waiting))[:workers]

    return _scheduling(start)(needs, workers)


@time_steps.wrong(
    "a schedule that prefers the last of the operations that are ready",
    "Of those that are ready, the ones with the lowest numbers run first.",
)
def _(needs, workers):
    return _scheduling(
        lambda needs, done, workers: _starting(needs, done, None)[-(workers or len(needs)) :]
    )(needs, workers)


@time_steps.wrong(
    "a schedule in which an operation waits for the first of its inputs alone",
    "It needs all of them.",
)
def _(needs, workers):
    return time_steps.reference([inputs[:1] for inputs in needs], workers)


@time_steps.wrong(
    "a schedule in which an operation waits for the last of its inputs alone",
    "It needs all of them.",
)
def _(needs, workers):
    return time_steps.reference([inputs[-1:] for inputs in needs], workers)


time_steps.wrong(
    "1 for every graph",
    "What runs in a step is done at its end: choose all operations of a step before you count any "
    "of them as done.",
)(lambda needs, workers: 1)
time_steps.wrong(
    "one step too few",
    "An operation that needs nothing takes a step, too.",
)(lambda needs, workers: time_steps.reference(needs, workers) - 1)
time_steps.wrong(
    "one step too many",
    "Stop as soon as all operations are done.",
)(lambda needs, workers: time_steps.reference(needs, workers) + 1)
time_steps.wrong(
    "right for a number of workers; for None it counts one worker",
    "None means: as many as there are operations that are ready.",
)(lambda needs, workers: time_steps.reference(needs, workers or 1))
