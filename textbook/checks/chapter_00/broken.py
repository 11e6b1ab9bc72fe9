"""Programs that say a value and its gradient; in some the gradient is wrong."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_alone, judged, some_of


class _Program:
    """A function of x (n, d) and what is said to be its gradient; it does not show how."""

    def __init__(self, value, gradient):
        self._value, self._gradient = value, gradient

    def value(self, x):
        """The value at x (n, d), a tensor with one element."""
        return self._value(x)

    def gradient(self, x):
        """The gradient at x, (n, d)."""
        return self._gradient(x)


def _cross_entropy(x):
    """The mean surprise at word 0 of each row."""
    return -x.log_softmax(dim=-1)[:, 0].mean()


def _of_cross_entropy(x):
    g = x.softmax(dim=-1)
    g[:, 0] -= 1
    return g / len(x)


def _accumulating():
    kept = []

    def gradient(x):
        kept.append(2 * x)
        return sum(each for each in kept if each.shape == x.shape)

    return gradient


def _in_place(x):
    x *= 2
    return x


def _a_turn_further(x):
    """Neither the value nor the gradient is another one there."""
    g = x.cos()
    x += 2 * math.pi
    return g


def _last_row_lost(x):
    g = x.cos()
    if len(x) > 1:
        g[-1] = 0
    return g


def _once():
    """A gradient that is gone when the same x comes again."""
    seen = []

    def gradient(x):
        again = any(x.shape == each.shape and mt.equal(x, each) for each in seen)
        seen.append(x.clone())
        return 0 * x if again else x.cos()

    return gradient


def _kinds():
    """Makers of broken and of right programs, by kind."""

    def squares(x):
        return (x**2).sum()

    def energy(x):
        return (x @ x.mT).sum() / 2

    def weighed(x):
        return (x * (x.detach() ** 2)).sum()

    broken = {
        "forgets the mean over rows": lambda: _Program(
            _cross_entropy, lambda x: _of_cross_entropy(x) * len(x)
        ),
        "divides by all elements": lambda: _Program(
            _cross_entropy, lambda x: _of_cross_entropy(x) / x.shape[1]
        ),
        "divides by the columns for the rows": lambda: _Program(
            _cross_entropy, lambda x: _of_cross_entropy(x) * len(x) / x.shape[1]
        ),
        "has the probabilities alone": lambda: _Program(
            _cross_entropy, lambda x: x.softmax(dim=-1) / len(x)
        ),
        "transposes a square matrix": lambda: _Program(
            squares, lambda x: 2 * (x.T if x.shape[0] == x.shape[1] else x)
        ),
        "forgets the sign of negative numbers": lambda: _Program(
            lambda x: (x.abs() ** 3).sum(), lambda x: 3 * x**2
        ),
        "knows no sum over rows": lambda: _Program(
            lambda x: (x.sum(dim=0) ** 2).sum(), lambda x: 2 * x
        ),
        "knows no sum over columns": lambda: _Program(
            lambda x: (x.sum(dim=1) ** 2).sum(), lambda x: 2 * x
        ),
        "loses the last row": lambda: _Program(lambda x: x.sin().sum(), _last_row_lost),
        "counts one of two uses": lambda: _Program(energy, lambda x: x.sum(dim=0) / 2 + 0 * x),
        "takes a factor for a constant": lambda: _Program(weighed, lambda x: x**2),
        "has the other sign": lambda: _Program(squares, lambda x: -2 * x),
        "cuts large numbers off": lambda: _Program(squares, lambda x: 2 * x.clamp(-1.5, 1.5)),
        "adds up from call to call": lambda: _Program(squares, _accumulating()),
        "writes into x": lambda: _Program(squares, _in_place),
        "moves x by a full turn": lambda: _Program(lambda x: x.sin().sum(), _a_turn_further),
        "keeps the sum of all slopes alone": lambda: _Program(
            lambda x: x.exp().sum(), lambda x: x.exp().mean() + 0 * x
        ),
        "is three percent too large": lambda: _Program(squares, lambda x: 2.06 * x),
        "has nothing left when it is asked again": lambda: _Program(
            lambda x: x.sin().sum(), _once()
        ),
        "has the shape of a row": lambda: _Program(energy, lambda x: x.sum(dim=0)),
        "has an axis too many": lambda: _Program(
            lambda x: x.sin().sum(), lambda x: x.cos().unsqueeze(0)
        ),
    }
    right = {
        "squares": lambda: _Program(squares, lambda x: 2 * x),
        "cross-entropy": lambda: _Program(_cross_entropy, _of_cross_entropy),
        "energy": lambda: _Program(energy, lambda x: x.sum(dim=0) + 0 * x),
        "waves, in 64 bits by way of numpy": lambda: _Program(
            lambda x: x.sin().sum(), lambda x: mt.tensor(np.cos(x.numpy()))
        ),
        "steep": lambda: _Program(lambda x: 100 * (x**3).sum(), lambda x: 300 * x**2),
    }
    return broken, right


def programs():
    """Nine programs, five of which are broken; the order says nothing."""
    return [make() for make in some_of(_kinds(), (5, 4), Draw(5).random)]


ROUNDING = (
    "Is your difference right? Take a step of 1e-5, x in float64, a clone of x for each: a larger "
    "step misses the bend, a much smaller one leaves rounding."
)
HINTS = {
    "forgets the mean over rows": "It shows with several rows and several columns, in each "
    "element by itself.",
    "divides by all elements": "It shows with several columns, in each element by itself.",
    "divides by the columns for the rows": "It shows where x is not square: try several sizes.",
    "transposes a square matrix": "It shows where x is square, off its diagonal: all elements.",
    "forgets the sign of negative numbers": "It shows with negative numbers.",
    "knows no sum over rows": "It shows with several rows.",
    "knows no sum over columns": "It shows with several columns.",
    "loses the last row": "It shows with several rows.",
    "counts one of two uses": "Compare each element with a difference of values, and allow for "
    "rounding alone, about 1e-4.",
    "takes a factor for a constant": "Compare each element with a difference of values, and allow "
    "for rounding alone, about 1e-4.",
    "cuts large numbers off": "It shows with numbers beyond 1.5: draw x larger, too.",
    "adds up from call to call": "Ask twice, with the same x.",
    "writes into x": "Compare x with a copy that you made before the call of gradient.",
    "moves x by a full turn": "Compare x with a copy that you made before the call of gradient.",
    "keeps the sum of all slopes alone": "Move one element at a time.",
    "is three percent too large": "Allow for rounding, about 1e-4, and for no more.",
    "has nothing left when it is asked again": "Ask twice, with the same x.",
    "has the shape of a row": "Compare the shapes: rows broadcast.",
    "has an axis too many": "Compare the shapes before anything is reshaped.",
    "squares": ROUNDING,
    "cross-entropy": ROUNDING,
    "energy": ROUNDING,
    "waves, in 64 bits by way of numpy": ROUNDING,
    "steep": "Its gradient is large: a tolerance has to grow with it (rtol).",
}


def _program_cases(draw):
    """The kind of each program by itself, and none."""
    return each_alone(_kinds())


def _named(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():  # x is in float64 if the answer says so
        found = answer([(broken | right)[kind]() for kind in kinds])
    return judged(found, kinds, broken, HINTS, "broken programs")


broken_gradients = exercise(
    "broken_gradients",
    cases=_program_cases,
    run=_named,
    gradients=False,
    forbidden=("backward",),
    instead="differences of values",
    see='chapter 00, "Do we trust it?"',
)
