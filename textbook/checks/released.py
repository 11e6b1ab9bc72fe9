"""Checks in a copy of the book for students: no reference, but what it gave on the public cases.

The outcomes of references and usual mistakes lie in ``outcomes/chapter_NN.npz``, which
``book.py release`` writes: numbers, and a text that tells what they are.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np

from minitorch import from_numpy
from textbook.checks.compare import Words
from textbook.checks.exercise import CheckFailed, Exercise, Outcome
from textbook.checks.mistakes import Mistake
from textbook.checks.recorded import asked

OUTCOMES = Path(__file__).parent / "outcomes"
ONLY_PUBLIC = "the hidden checks are the instructor's; this copy of the book has the public ones"
calls: dict[str, Any] = {}  # what recorded functions have given, by what they were asked


class NotStored(LookupError):
    """Something is asked of a reference that it was never asked while the copy was made."""


def exercise(**settings: Any) -> Callable:
    """Make a ``Released`` exercise of a first line and a docstring."""
    return lambda reference: Released(reference, **settings)


def recorded(function: Callable) -> Callable:
    """In place of a recorded function: what it has given for the same arguments."""

    @wraps(function)
    def found(*args):
        if function.__module__.count(".") > 2:
            stored(chapter_of(function))
        try:
            return calls[asked(function, args)]
        except KeyError:
            raise NotStored(f"{function.__name__} of these arguments is not stored") from None

    return found


def chapter_of(function: Callable) -> str:
    """The chapter in whose checks it stands."""
    return function.__module__.split(".")[2]


@dataclass(eq=False)
class Released(Exercise):
    """An exercise that compares with stored outcomes, on its public cases."""

    whole = False

    def __post_init__(self):
        super().__post_init__()
        exercises, self.numbers = stored(chapter_of(self.reference))
        self.stored = exercises[self.name]
        if not isinstance(self.reference, type):
            self.reference = recorded(self.reference)  # reasons ask it
        self.mistakes = [
            Mistake(mistake["name"], i, mistake["hint"])
            for i, mistake in enumerate(self.stored["mistakes"])
        ]

    def __call__(self, answer, hidden=False):
        if hidden:
            raise CheckFailed(f"{self.name}: {ONLY_PUBLIC}.")
        super().__call__(answer)

    def _expected(self, function, case, hidden, number):
        key = function, hidden, number
        if key not in self.known:
            written = self.stored["outcomes"][number]
            if function is not self.reference:  # it is the number of a mistake
                written = self.stored["mistakes"][function]["others"].get(str(number), written)
            self.known[key] = read_outcome(written, self.numbers)
        return self.known[key]

    def _violated(self, answer, case):
        try:
            return super()._violated(answer, case)
        except NotStored:
            return None

    def _matters(self, cases, i, j, p, hidden):
        return [i, j, p] in self.stored["matters"]


@cache
def stored(chapter: str) -> tuple[dict, dict]:
    """What is stored of a chapter's exercises, and the numbers in it."""
    with np.load(OUTCOMES / f"{chapter}.npz") as file:
        numbers = {kind: file[kind] for kind in file.files}
    text = json.loads(numbers.pop("text").tobytes())
    calls.update({key: read(value, numbers) for key, value in text["calls"].items()})
    return text["exercises"], numbers


def read_outcome(written: dict, numbers: dict) -> Outcome:
    """An outcome out of what ``authoring/release/outcomes.py`` has written."""
    error = None
    if "error" in written:
        name, text = written["error"]
        error = type(name, (Exception,), {})(text)
    results, gradients = (read(written.get(part), numbers) for part in ("results", "gradients"))
    return Outcome(results=results or {}, gradients=gradients, error=error)


def read(written: Any, numbers: dict) -> Any:
    """A value out of what ``authoring/release/outcomes.py`` has written."""
    if not isinstance(written, (list, dict)):
        return written
    if isinstance(written, list):
        return [read(item, numbers) for item in written]
    [(kind, value)] = written.items()
    if kind == "words":
        return Words(value)
    if kind == "tuple":
        return tuple(read(value, numbers))
    if kind == "dict":
        return dict(read(pair, numbers) for pair in value)
    pool, first, shape = value
    array = numbers[pool][first : first + math.prod(shape)].reshape(shape)
    return from_numpy(array.copy()) if kind == "tensor" else array
