"""Exercises that ask which of several programs break a rule: a choice of them, and the answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from textbook.checks.compare import brief, number


def some_of(kinds: Sequence[dict], counts: Sequence[int], random: np.random.Generator) -> list:
    """So many values of each of these dicts, drawn, in an order that says nothing."""
    chosen = []
    for values, count in zip(kinds, counts, strict=True):
        chosen += [values[str(kind)] for kind in random.permutation(list(values))[:count]]
    return [chosen[i] for i in random.permutation(len(chosen))]


def by_kinds(found: Any, kinds: Sequence[str], programs: str, wanted: str) -> dict[str, Any]:
    """What an answer found, with the kinds for the numbers; its form is compared by itself."""
    form, names = f"a list of numbers of {programs}", None
    if isinstance(found, (list, tuple, set)) and all(
        type(number(i)) is int and 0 <= number(i) < len(kinds) for i in found
    ):
        names = "; ".join(sorted(kinds[int(number(i))] for i in found)) or "none"
    else:
        form = brief(found)
    return {"the form of the result": form, f"the list of {wanted}": names}
