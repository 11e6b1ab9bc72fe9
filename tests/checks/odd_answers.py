"""Whatever an answer is or does, the check passes it or says what is wrong with it."""

import functools
import importlib
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import minitorch as mt
from textbook.checks import CheckFailed

exercise = importlib.import_module("textbook.checks.exercise")  # not the function of this name


class Unprintable(Exception):
    def __repr__(self):
        raise ValueError("it has no text")

    __str__ = __repr__

    def __eq__(self, other):
        raise ValueError("it is not compared")


ITSELF = []
ITSELF.append(ITSELF)
RETURNED = {
    "None": None,
    "text": "abc",
    "list": [1, 2],
    "tuple": (1.0, 2.0, 3.0, 4.0, 5.0),
    "list in itself": ITSELF,
    "dict": {"a": 1},
    "array": np.ones((2, 3)),
    "array of text": np.array([["a", "b"]]),
    "array of objects": np.array([None, 1]),
    "tensor of integers": mt.ones(2, 3).long(),
    "empty tensor": mt.zeros(0),
    "Fraction": Fraction(1, 3),
    "Decimal": Decimal("0.1"),
    "large integer": 10**5000,
    "not a number": float("nan"),
    "unprintable": Unprintable(),
    "type": mt.float32,
}
NO_FUNCTIONS = [int, max, type, mt.nn.Linear, np.add, object(), 3, None]


def returning(value):
    return lambda *case, **named: value


def raising(error):
    def answer(*case, **named):
        raise error

    return answer


def generator(*case, **named):
    yield case


def emptied(values):
    """Take something out of all lists and dicts among the values, at any depth."""
    for value in values:
        if isinstance(value, (list, tuple)):
            emptied(value)
        if isinstance(value, (list, dict)) and value:
            value.pop() if isinstance(value, list) else value.popitem()


def overwritten(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            overwritten(value)
        elif isinstance(value, mt.Tensor):
            value.array[...] = 0


def after(answer, change):
    """The answer with something done to its arguments when its result is ready."""

    def changed(*case, **named):
        result = answer(*case, **named)
        change(case)
        return result

    return changed


ODD = {
    **{name: returning(value) for name, value in RETURNED.items()},
    "an error": raising(KeyError("x")),
    "an error without text": raising(Unprintable()),
    "exit": raising(SystemExit()),
    "no answer": raising(NotImplementedError()),
    "first argument": lambda *case, **named: case[0] if case else None,
    "generator": generator,
}


def with_one_seed(proof):
    """Ask for cases of one seed: what an answer is does not depend on their numbers."""

    @functools.wraps(proof)
    def with_few_cases(check):
        with mock.patch.dict(exercise.SEEDS, {False: exercise.SEEDS[False][:1]}):
            proof(check)

    return with_few_cases


def passes_or_says_why(check, answer):
    try:
        check(answer)
    except CheckFailed as failure:
        assert str(failure).startswith(f"{check.name}: ")


def odd(check):
    """What is no answer at all passes or is told what is wrong with it."""
    for answer in ODD.values():
        passes_or_says_why(check, answer)
    for answer in NO_FUNCTIONS:
        with pytest.raises(CheckFailed, match=f"^{check.name}: "):
            check(answer)


@with_one_seed
def changing(check):
    """An answer that changes its arguments is told so."""
    for change in (emptied, overwritten):
        passes_or_says_why(check, after(check.reference, change))
        if isinstance(check.reference, type) and issubclass(check.reference, mt.nn.Module):

            class Changing(check.reference):
                def forward(self, *case, change=change, forward=check.reference.forward):
                    return after(functools.partial(forward, self), change)(*case)

            passes_or_says_why(check, Changing)


@with_one_seed
def partial(check):
    """A right answer may be a partial."""
    check(functools.partial(check.reference))
