"""What references and usual mistakes give on the public cases, in a file that holds no code.

``textbook/checks/stored.py`` reads them.
"""

import importlib
import json
import numbers
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.autograd.tensorbase import TensorBase
from textbook.checks import Exercise, recorded
from textbook.checks.arguments import exchanges
from textbook.checks.compare import Words
from textbook.checks.errors import in_words
from textbook.checks.trial import how_it_differs

PLAIN = {bool: bool, numbers.Integral: int, numbers.Real: float, str: str}


class Numbers:
    """The numbers of all arrays, in a row for each type; equal arrays lie there once."""

    def __init__(self):
        self.rows, self.places, self.lengths = {}, {}, {}

    def place(self, array: np.ndarray) -> list:
        """The type of an array, where it begins in its row, and its shape."""
        kind = array.dtype.str[1:]
        key = kind, array.tobytes()
        if key not in self.places:
            self.places[key] = self.lengths.get(kind, 0)
            self.lengths[kind] = self.places[key] + array.size
            self.rows.setdefault(kind, []).append(array.ravel())
        return [kind, self.places[key], list(array.shape)]

    def save(self, path: Path, text: str) -> None:
        """Write them, and the text that tells what they are."""
        rows = {kind: np.concatenate(arrays) for kind, arrays in self.rows.items()}
        np.savez_compressed(path, text=np.frombuffer(text.encode(), np.uint8), **rows)


def store(chapter: str, folder: Path) -> None:
    """Write what is needed of a chapter's references and mistakes to one file."""
    given = {}
    recorded.notes.append(given)
    module = importlib.import_module(f"textbook.checks.{chapter}")
    found = Numbers()
    exercises = {
        name: _exercise(check, found)
        for name, check in vars(module).items()
        if isinstance(check, Exercise)
    }
    calls = {key: written(value, found) for key, value in given.items()}
    text = json.dumps({"exercises": exercises, "calls": calls}, separators=(",", ":"))
    found.save(folder / f"{chapter}.npz", text)


def _exercise(check: Exercise, found: Numbers) -> dict:
    cases = check.all_cases()

    def outcomes(function: Callable) -> list:
        return [check._expected(function, case, False, i) for i, case in enumerate(cases)]

    right = outcomes(check.reference)
    for case in cases:
        check._violated(check.reference, case)  # what properties ask of references is recorded
    _ask_reasons(check, cases)
    mistakes = []
    for mistake in check.mistakes:
        given = enumerate(zip(outcomes(mistake.function), right, strict=True))
        others = {i: _outcome(got, found) for i, (got, same) in given if _apart(got, same)}
        mistakes.append({"name": mistake.name, "hint": mistake.hint, "others": others})
    return {
        "parameters": check._parameters,
        "class": isinstance(check.reference, type),
        "after_passing": check.after_passing,
        "outcomes": [_outcome(outcome, found) for outcome in right],
        "mistakes": mistakes,
        "matters": [
            [i, j, p]
            for i, j in exchanges(cases)
            for p in range(len(cases[i]))
            if check._matters(cases, i, j, p, False)
        ],
    }


def _ask_reasons(check: Exercise, cases: list) -> None:
    """Let the reasons ask the reference for what they need, of wrong answers; it is recorded."""
    if check.reasons and not isinstance(check.reference, type):
        mistakes = check.mistakes  # edits of the reference itself
        whole, check.reference = check.reference, recorded.recorded(check.reference)
        for case in cases:
            with suppress(Exception, SystemExit):
                check.reference(*case)
            for mistake in mistakes:
                check._reason(mistake.function, case, ())
        check.reference = whole


def _apart(one: Any, other: Any) -> bool:
    return bool(how_it_differs(one, other) or how_it_differs(other, one))


def _outcome(outcome: Any, found: Numbers) -> dict:
    if outcome.error:
        return {"error": in_words(outcome.error).split(": ", 1)}
    return {
        "results": written(outcome.results, found),
        "gradients": written(outcome.gradients, found),
    }


def written(value: Any, found: Numbers) -> Any:
    """A value as JSON; the numbers of arrays are found elsewhere."""
    if value is None:
        return None
    if isinstance(value, Words):
        return {"words": str.__str__(value)}
    for kind, plain in PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, TensorBase):
        return {"tensor": found.place(np.asarray(value.array))}
    if isinstance(value, np.ndarray):
        return {"array": found.place(value)}
    if isinstance(value, list):
        return [written(item, found) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [written(item, found) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[written(key, found), written(x, found)] for key, x in value.items()]}
    raise TypeError(f"an outcome holds {value!r:.100}, which cannot be stored")
