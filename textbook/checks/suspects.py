"""Exercises that ask which of several programs break a rule: a choice of them, and the answer."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from textbook.checks.compare import brief, number


def some_of(kinds: Sequence[dict], counts: Sequence[int], random: np.random.Generator) -> list:
    """So many values of each of these dicts, drawn, in an order that says nothing."""
    chosen = []
    for values, count in zip(kinds, counts, strict=True):
        chosen += [values[str(kind)] for kind in random.permutation(list(values))[:count]]
    return [chosen[i] for i in random.permutation(len(chosen))]


def each_and_together(
    kinds: Sequence[dict], random: np.random.Generator, most: int | None = None
) -> Iterator[tuple]:
    """Cases: each kind by itself, so many together in an order that is drawn, and none."""
    names = [name for values in kinds for name in values]
    for name in names:
        yield ((name,),)
    yield (tuple(map(str, random.permutation(names)[:most])),)
    yield ((),)


def each_or_together(
    kinds: Sequence[dict], hidden: bool, random: np.random.Generator
) -> Iterator[tuple]:
    """Cases: each kind by itself, and none; hidden, all together in an order that is drawn."""
    names = [name for values in kinds for name in values]
    if hidden:
        yield (tuple(map(str, random.permutation(names))),)
    else:
        yield from [((name,),) for name in names]
        yield ((),)


def in_halves(kinds: Sequence[dict], hidden: bool, random: np.random.Generator) -> Iterator[tuple]:
    """Cases: none, and each kind once in an order that is drawn, in two halves; hidden, in one."""
    names = [name for values in kinds for name in values]
    names = [str(name) for name in random.permutation(names)]
    half = len(names) // 2
    for some in [[], names] if hidden else [[], names[:half], names[half:]]:
        yield (tuple(some),)


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


ALL = "it has all that are broken, and no others"


def _verdict(
    found: Any, kinds: Sequence[str], broken: Collection[str], hints: Mapping[str, str]
) -> str:
    """What is wrong with the list of an answer; the first thing alone."""
    if not isinstance(found, (list, tuple, set)):
        return "it is no list"
    numbers = [number(i) for i in found]
    for i in numbers:
        if type(i) is not int:
            return "it holds something else than numbers"
        if not 0 <= i < len(kinds):
            return f"it holds {i}, and there are only {len(kinds)}, counted from 0"
        if numbers.count(i) > 1:
            return f"it holds {i} more than once"
    for i, kind in enumerate(kinds):
        if (kind in broken) != (i in numbers):
            what = "lacks one that" if kind in broken else "holds one that follows the rules:"
            return f"it {what} {kind}. {hints.get(kind, '')}".rstrip()
    return ALL


def judged(
    found: Any,
    kinds: Sequence[str],
    broken: Collection[str],
    hints: Mapping[str, str],
    programs: str,
) -> dict[str, Any]:
    """What is wrong with the list, then the list by kinds, and what it was made of.

    The last is always as expected: it says that this list was made for these programs.
    """
    found = sorted(found) if isinstance(found, set) else found
    wanted = f"broken {programs}"
    said = {f"your list of {wanted}": _verdict(found, kinds, broken, hints)}
    return said | by_kinds(found, kinds, programs, wanted) | {f"the {programs}": "; ".join(kinds)}
