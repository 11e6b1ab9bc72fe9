"""What is wrong with a list of programs that an answer calls broken: one thing at a time."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from textbook.checks.compare import number
from textbook.checks.suspects import by_kinds

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
