"""What a copy of the book for students has in place of answers: what they gave on the public cases.

It lies in ``outcomes/chapter_NN.npz``, which ``book.py release`` writes: numbers, and a text that
tells what they are.
"""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from minitorch import from_numpy
from textbook.checks.compare import Words

OUTCOMES = Path(__file__).parent / "outcomes"
RELEASED = OUTCOMES.is_dir()  # whether this is such a copy
calls: dict[str, Any] = {}  # what recorded functions have given, by what they were asked


class NotStored(LookupError):
    """Something is asked of an answer that it was never asked while the copy was made."""


@cache
def stored(chapter: str) -> tuple[dict, dict]:
    """What is stored of a chapter's exercises, and the numbers in it."""
    with np.load(OUTCOMES / f"{chapter}.npz") as file:
        numbers = {kind: file[kind] for kind in file.files}
    text = json.loads(numbers.pop("text").tobytes())
    calls.update({key: read(value, numbers) for key, value in text["calls"].items()})
    return text["exercises"], numbers


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
