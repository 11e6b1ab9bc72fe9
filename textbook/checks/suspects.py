"""Exercises that ask which of several programs break a rule: a choice of them, and the answer."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from textbook.checks.compare import Words, brief, number


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


def each_alone(kinds: Sequence[dict]) -> Iterator[tuple]:
    """Cases: each kind by itself, the first three together, and none."""
    yield from (((name,),) for values in kinds for name in values)
    yield (tuple(kinds[0])[:3],)
    yield ((),)


def all_together(kinds: Sequence[dict], random: np.random.Generator) -> Iterator[tuple]:
    """A case: all kinds in an order that is drawn."""
    yield (tuple(shuffled(kinds, random)),)


def shuffled(kinds: Sequence[dict], random: np.random.Generator) -> list[str]:
    """The names of all kinds in an order that is drawn."""
    return [str(name) for name in random.permutation([name for each in kinds for name in each])]


def in_parts(names: Sequence[str], parts: int) -> Iterator[tuple]:
    """Cases: none of these kinds, and then each once, in so many parts."""
    yield ((),)
    places = [len(names) * i // parts for i in range(parts + 1)]
    for begin, end in pairwise(places):
        yield (tuple(names[begin:end]),)


ALL = "complete, and no other is in it"


def judged(
    found: Any,
    kinds: Sequence[str],
    belong: Collection[str],
    reasons: Mapping[str, str],
    wanted: str,
) -> dict[str, Any]:
    """What is wrong with a list of numbers of programs, the first thing alone; then all of it.

    ``belong`` are the kinds of those programs that belong in it, ``wanted`` what it is a list of;
    ``reasons`` say of a kind how it shows that it does, or does not.
    """
    numbers = [number(i) for i in found] if isinstance(found, (list, tuple, set)) else [None]
    if not all(type(i) is int for i in numbers):
        return {"the form of the result": found if found is None else Words(brief(found))}
    there = all(0 <= i < len(kinds) for i in numbers)
    named = sorted(kinds[i] for i in numbers) if there else map(str, sorted(numbers))
    return {
        "the form of the result": Words("a list of numbers"),
        f"your list of {wanted}": Words(_verdict(numbers, kinds, belong, reasons)),
        "all of the list": Words("; ".join(named) or "none"),
    }


def _verdict(
    numbers: Sequence[int], kinds: Sequence[str], belong: Collection[str], reasons: Mapping
) -> str:
    """What is wrong with the list; the first thing alone."""
    right = {i for i, kind in enumerate(kinds) if kind in belong}
    if right and set(numbers) == {i + 1 for i in right}:
        return "right if the first program had the number 1; it has the number 0"
    for i in numbers:
        if not 0 <= i < len(kinds):
            return f"it holds {i}, and there are only {len(kinds)}, counted from 0"
        if numbers.count(i) > 1:
            return f"it holds {i} more than once"
    wrong = sorted(right ^ set(numbers))
    if len(right) > 2 and numbers == [min(right)]:
        return "the first of several alone: does a return stand inside your loop?"
    some = 0 < len(right) < len(kinds) and 0 < len(numbers) < len(kinds)
    if some and 4 * len(wrong) >= 3 * len(kinds) and not right & set(numbers):
        return "turned round: it names those that do not belong in it"
    for i in wrong[:1]:
        what = "it lacks one," if i in right else "it has one that does not belong in it,"
        return f'{what} "{kinds[i]}". {reasons.get(kinds[i], "")}'.rstrip()
    return ALL
