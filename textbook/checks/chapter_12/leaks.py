"""Which of several mixers look into the future? Asked by changing what comes later."""

import minitorch as mt
from textbook.checks.compare import Words
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import judged

# The mixers


class _Mixer:
    """A mixer of (n, d), made for one n, that says what it is when it is printed."""

    def __init__(self, name, n, function):
        self.name, self.n, self.function = name, n, function

    def __call__(self, x):
        if len(x) != self.n:
            raise ValueError(f"this mixer is made for {self.n} tokens, got {len(x)}")
        return self.function(x)

    def __repr__(self):
        return f"<{self.name}>"

    def __deepcopy__(self, memo):
        return self


def _makers(draw, n, d):
    """Functions of (n, d) by name, those that leak and those that do not."""
    Q, K, V = (draw.normal(d, d) for _ in range(3))
    E, signs = draw.normal(2, n), draw.normal(n, d)
    causal = mt.ones(n, n, dtype=mt.bool).tril()
    tile = (mt.arange(n) + 1) // 2

    def scores(x):
        return x @ Q @ (x @ K).T / d

    def attending(allowed):
        return lambda x: scores(x).masked_fill(~allowed, -mt.inf).softmax(dim=-1) @ x @ V

    def positive(x):
        return (x @ K).clamp(min=-30.0, max=30.0).exp()

    def running(x):
        return mt.stack([x[: t + 1].mean(dim=0) for t in range(n)])

    def late(x):
        return (scores(x).softmax(dim=-1) * causal) @ x @ V

    def linformer(x):
        return (x @ Q @ (E @ x @ K).T / d).softmax(dim=-1) @ (E @ x) @ V

    def all_in_the_divisor(x):
        weights = positive(x) @ positive(x).T
        return (weights * causal) @ x / weights.sum(dim=-1, keepdim=True)

    def turned_shift(x):
        return x + 0.5 * x.roll(1, 0)

    def shift(x):
        return x + 0.5 * mt.cat([mt.zeros_like(x[:1]), x[:-1]])

    def centred(x):
        return (x - x.mean(dim=0)).tanh()

    def by_the_largest(x):
        """A scale for all, which no gradient tells."""
        return running(x) / x.detach().norm(dim=-1).max()

    def counting(x):
        """Steps: it changes where a number changes its sign."""
        return running(x) * (signs * (x > 0)).sum()

    def by_the_top(x):
        return running(x) / x.detach().max().clamp(min=1e-3)

    def by_the_bottom(x):
        return running(x) / x.detach().min().clamp(max=-1e-3)

    def by_the_spread(x):
        return running(x) / x.detach().std()

    def far(x):
        later = mt.cat([x[2:].tanh(), mt.zeros_like(x[:2])])
        return x + later * (mt.arange(d) > 0)

    def faint(x):
        return running(x) + 3e-6 * mt.cat([x[-1:], mt.zeros_like(x[1:])]) * (mt.arange(d) == d - 1)

    def opposite(x):
        """What it adds is 0 in the sum over an output's numbers."""
        return running(x) + (mt.arange(d) - (d - 1) / 2) * x.mean()

    def what_is_left(x):
        """The sum of all tokens less those after each one: rounding errors, and no leak."""
        after = mt.stack([x[t + 1 :].sum(dim=0) for t in range(n)])
        return (x.sum(dim=0) - after) / n

    def decaying(x):
        state, outputs = x[0], [x[0]]
        for token in x[1:]:
            state = 0.9 * state + token
            outputs.append(state)
        return mt.stack(outputs)

    leaks = {
        "Linformer": linformer,
        "attention with a mask after the softmax": late,
        "linear attention with all tokens in the divisor": all_in_the_divisor,
        "a token shift by roll": turned_shift,
        "attention in tiles, without a mask inside a tile": attending(tile <= tile.unsqueeze(1)),
        "a mean over all tokens, subtracted": centred,
        "divided by the length of the longest token": by_the_largest,
        "divided by the largest of all numbers": by_the_top,
        "divided by the lowest of all numbers": by_the_bottom,
        "divided by the standard deviation of all numbers, detached": by_the_spread,
        "multiplied by a number that depends on the signs in all tokens": counting,
        "a shift by two, the wrong way": far,
        "a faint look from the first token at the last": faint,
        "a leak that is 0 in the sum of an output's numbers": opposite,
    }
    honest = {
        "causal attention": attending(causal),
        "attention within a window": attending(causal & ~causal.tril(-2)),
        "a token shift": shift,
        "a state that decays": decaying,
        "the sum of all tokens less those that come later": what_is_left,
        "a running mean divided by n": lambda x: running(x) / n,
    }
    return leaks, honest


def suspects(n, d):
    """Eight mixers for n tokens of size d, four of which leak; the order says nothing."""
    draw, chosen = Draw(3), []
    for functions in _makers(draw, n, d):
        names = draw.random.permutation(list(functions))[:4]
        chosen += [_Mixer(f"mixer for {n} tokens", n, functions[name]) for name in names]
    return [chosen[i] for i in draw.random.permutation(8)]


def _leak_cases(draw, d=4, seed=0, longer=5):
    """Each mixer by itself, all together, none, and one more length."""
    leaks, honest = _makers(Draw(0), 6, 4)
    names = [*leaks, *honest]
    for name in names:
        yield (name,), 6, d
    yield tuple(map(str, Draw(seed).random.permutation(names))), 6, d
    yield (), 6, d
    yield ("attention in tiles, without a mask inside a tile",), longer, 4


# The test

HINTS = {
    "divided by the length of the longest token": "No gradient tells it, and it shows only where a "
    "later token becomes the longest: make the change large.",
    "divided by the largest of all numbers": "It shows only where a later number grows far enough: "
    "make large changes in both directions.",
    "divided by the lowest of all numbers": "It shows only where a later number falls far enough: "
    "make large changes in both directions.",
    "multiplied by a number that depends on the signs in all tokens": "No gradient tells it, and "
    "it shows only where a later number changes its sign.",
    "divided by the standard deviation of all numbers, detached": "No gradient tells it: change "
    "later tokens and compare outputs.",
    "a shift by two, the wrong way": "Token t looks at token t + 2: try every later token.",
    "a faint look from the first token at the last": "The difference is small, and far above "
    "rounding: compare with a tolerance such as 1e-7.",
    "a leak that is 0 in the sum of an output's numbers": "The differences cancel in a sum: "
    "compare number by number.",
    "attention in tiles, without a mask inside a tile": "Only some tokens look ahead, to the next "
    "one alone: try every place, and change what comes right after it.",
    "the sum of all tokens less those that come later": "It differs by rounding alone, below 1e-9.",
}
SHOWS = "An output changes with a token after it."
SOUND = "No output changes with a token after it, only with its own and earlier ones."


def _found(answer, kinds, n, d):
    """What the answer says of these mixers, and whether it leaves x as it was."""
    draw = Draw(n)
    leaks, honest = _makers(draw, n, d)
    x = draw.normal(n, d)
    x[0] *= 2 * (x.norm(dim=-1).max() / x[0].norm())  # the longest of all
    given, reasons = x.clone(), dict.fromkeys(leaks, SHOWS) | dict.fromkeys(honest, SOUND) | HINTS
    with as_in_a_notebook():
        found = answer([_Mixer(kind, n, (leaks | honest)[kind]) for kind in kinds], given)
    changed = {"x after the call": Words("as it was" if mt.equal(given, x) else "another one")}
    return changed | judged(found, kinds, leaks, reasons, "mixers that leak")


leaking = exercise(
    "leaking",
    cases=_leak_cases,
    run=_found,
    gradients=False,
    see='chapter 12, "Why Linformer is no decoder"',
)
