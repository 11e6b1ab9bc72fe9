"""Programs that say they are a pre-norm block, and the test that tells which are not."""

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_and_together, judged, some_of


class _Program:
    """A program that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x, norm_1, attention, norm_2, network):
        return self.function(x, norm_1, attention, norm_2, network)


def _right(x, norm_1, attention, norm_2, network):
    y = x + attention(norm_1(x))
    return y + network(norm_2(y))


def _scaled(factor):
    return lambda x, norm_1, attention, norm_2, network: _right(
        x, norm_1, lambda z: factor * attention(z), norm_2, network
    )


def _kinds():
    """Broken programs and right ones, by kind; a and b are the norms, f and g the parts."""

    def in_branches(x, a, f, b, g):
        first = f(a(x))
        return first + (g(b(first + x)) + x)

    def by_sums(x, a, f, b, g):
        states = [x]
        for norm, part in ((a, f), (b, g)):
            states.append(part(norm(sum(states))))
        return sum(states)

    def parallel(x, a, f, b, g):
        return x + f(a(x)) + g(b(x))

    def input_twice(x, a, f, b, g):
        return x + g(b(x + f(a(x))))

    def carries_norm_1(x, a, f, b, g):
        y = a(x) + f(a(x))
        return y + g(b(y))

    def carries_norm_2(x, a, f, b, g):
        y = x + f(a(x))
        return b(y) + g(b(y))

    def detached(x, a, f, b, g):
        y = x.detach() + f(a(x))
        return y + g(b(y))

    def part_detached(x, a, f, b, g):
        y = x + f(a(x))
        return y + g(b(y).detach())

    def rounded(x, a, f, b, g):
        y = _right(x, a, f, b, g)
        return y + (y.round() - y).detach()

    def slightly_more(x, a, f, b, g):
        y = _right(x, a, f, b, g)
        return y + 1e-4 * y.detach()

    def gradient_to_others(x, a, f, b, g):
        return _right(x.detach() + (x - x.detach()).roll(1, 1), a, f, b, g)

    def split_sum(x, a, f, b, g):
        part = f(a(x))
        return x + part + g(b(x)) + g(b(part))

    def last_token(x, a, f, b, g):
        y = _right(x, a, f, b, g)
        return mt.cat([y[:, :-1], x[:, -1:]], dim=1)

    def first_only(x, a, f, b, g):
        return mt.cat([_right(x, a, f, b, g)[:1], _right(x, b, f, a, g)[1:]])

    def token_by_token(x, a, f, b, g):
        places = mt.arange(x.shape[1]).unsqueeze(1)
        alone = [mt.where(places == i, x, 0.0) for i in range(x.shape[1])]
        rows = [_right(each, a, f, b, g)[:, i : i + 1] for i, each in enumerate(alone)]
        return mt.cat(rows, dim=1)

    broken = {
        "is post-norm": lambda x, a, f, b, g: b((y := a(x + f(x))) + g(y)),
        "has the norms on the parts": lambda x, a, f, b, g: (y := x + a(f(x))) + b(g(y)),
        "uses norm_1 twice": lambda x, a, f, b, g: _right(x, a, f, a, g),
        "exchanges the norms": lambda x, a, f, b, g: _right(x, b, f, a, g),
        "exchanges attention and network": lambda x, a, f, b, g: _right(x, a, g, b, f),
        "has no norm_2": lambda x, a, f, b, g: _right(x, a, f, lambda z: z, g),
        "has no norm_1": lambda x, a, f, b, g: _right(x, lambda z: z, f, b, g),
        "has a norm at the end": lambda x, a, f, b, g: b(_right(x, a, f, b, g)),
        "has no connection around the attention": lambda x, a, f, b, g: (y := f(a(x))) + g(b(y)),
        "has no connection around the network": lambda x, a, f, b, g: g(b(x + f(a(x)))),
        "is parallel": parallel,
        "adds the input in the second sum": input_twice,
        "carries norm_1(x)": carries_norm_1,
        "carries norm_2(y)": carries_norm_2,
        "halves the attention": _scaled(0.5),
        "has the wrong sign before the network": lambda x, a, f, b, g: (y := x + f(a(x))) - g(b(y)),
        "detaches the connection": detached,
        "detaches what the network gets": part_detached,
        "rounds its output, and hands the gradient on": rounded,
        "adds a ten-thousandth to its output, and hands the gradient on": slightly_more,
        "hands each gradient to another token": gradient_to_others,
        "normalises and transforms both summands by themselves": split_sum,
        "hands the network half, and doubles what comes": lambda x, a, f, b, g: _right(
            x, a, f, b, lambda z: 2 * g(z / 2)
        ),
        "leaves the last token out": last_token,
        "is right for the first sequence alone": first_only,
        "takes each token by itself": token_by_token,
    }
    right = {
        "in order": _right,
        "in branches": in_branches,
        "by sums": by_sums,
    }
    return broken, right


def programs():
    """Eight programs, five of which are broken; the order says nothing."""
    return [_Program(function) for function in some_of(_kinds(), (5, 3), Draw(7).random)]


def _program_cases(draw):
    """Each kind by itself, all together, and none."""
    return each_and_together(_kinds(), draw.random)


SHOWS = "For which functions and which x does it show?"
GRADIENT = "Its output is right: compare the gradient that reaches x."
CURVED = "It is right for functions that are linear: hand it others."
SOUND = "It computes what a pre-norm block computes."


def _found(answer, programs):
    """What the answer returns, with the kinds of the programs for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():
        found = answer([_Program((broken | right)[kind]) for kind in programs])
    reasons = dict.fromkeys(broken, SHOWS) | dict.fromkeys(right, SOUND)
    reasons |= dict.fromkeys([kind for kind in broken if kind.startswith("detaches")], GRADIENT)
    values = [kind for kind in broken if kind.endswith("hands the gradient on")]
    reasons |= dict.fromkeys(values, "The gradient is right: compare the output, to 1e-9.")
    reasons["hands each gradient to another token"] = f"{GRADIENT} Compare it token by token."
    reasons["hands the network half, and doubles what comes"] = CURVED
    reasons["normalises and transforms both summands by themselves"] = CURVED
    reasons["uses norm_1 twice"] = "Hand it two norms that differ."
    return judged(found, programs, broken, reasons, "broken programs")


broken_blocks = exercise(
    "broken_blocks",
    cases=_program_cases,
    run=_found,
    gradients=False,
    see='chapter 09, "The block"',
)
