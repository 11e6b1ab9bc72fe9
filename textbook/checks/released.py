"""Checks in a copy of the book for students: no answer, but what it gave on the public cases."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textbook.checks.exercise import CheckFailed, Exercise
from textbook.checks.key import ONLY_PUBLIC
from textbook.checks.mistakes import Mistake
from textbook.checks.recorded import recorded
from textbook.checks.stored import RELEASED, NotStored, read, stored
from textbook.checks.trial import Outcome


def exercise(name: str, **settings: Any) -> Exercise:
    """The check of an exercise, of the kind that this copy of the book has.

    The module that calls this is its home: the model answer stands in the key beside it.
    """
    kind = Released if RELEASED else Exercise
    return kind(name, sys._getframe(1).f_globals["__name__"], **settings)


@dataclass(eq=False)
class Released(Exercise):
    """An exercise that compares with stored outcomes, on its public cases."""

    whole = False

    def __post_init__(self):
        exercises, self.numbers = stored(self.home.split(".")[2])
        self.stored = exercises[self.name]
        self.after_passing = self.stored["after_passing"]
        self.reference = self._missing()
        self.mistakes = [
            Mistake(mistake["name"], i, mistake["hint"])
            for i, mistake in enumerate(self.stored["mistakes"])
        ]

    def _missing(self) -> Callable:
        """What stands for the reference: it knows what it was asked while the copy was made."""

        def missing(*args, **named):
            raise NotStored(f"this copy of the book has no answer: {self.name}")

        if self.stored["class"]:
            return type(self.name, (), {"__module__": self.home, "__init__": missing})
        missing.__module__, missing.__qualname__ = self.home, self.name
        return recorded(missing)

    def __call__(self, answer, hidden=False):
        if hidden:
            raise CheckFailed(f"{self.name}: {ONLY_PUBLIC}.")
        super().__call__(answer)

    @property
    def _parameters(self):
        return self.stored["parameters"]

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


def read_outcome(written: dict, numbers: dict) -> Outcome:
    """An outcome out of what ``authoring/release/outcomes.py`` has written."""
    error = None
    if "error" in written:
        name, text = written["error"]
        error = type(name, (Exception,), {})(text)
    results, gradients = (read(written.get(part), numbers) for part in ("results", "gradients"))
    return Outcome(results=results or {}, gradients=gradients, error=error)
