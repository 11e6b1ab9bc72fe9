"""What is wrong with one part of an answer, said of this part alone."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Rational
from typing import Any

from textbook.checks.compare import brief, difference, number
from textbook.checks.exercise import Exercise


def no_whole_number(answer: Callable, *case: Any) -> str | None:
    """A property of a dict of numbers: the first that is no whole number, such as 12.0."""
    found = answer(*case)
    for key, value in found.items() if isinstance(found, dict) else ():
        exact = isinstance(value, (Rational, Decimal)) and value == int(value)
        if not exact and type(number(value)) is not int:
            return (
                f"{key!r} is {value!r}: whole numbers are asked for, of the type int. Floats "
                "are not exact where numbers are large: // divides whole numbers, / makes a float."
            )
    return None


def part_by_part(
    check: Exercise, slips: dict[Any, dict[str, Callable]], part: Callable = lambda key, *case: key
) -> Callable:
    """A property of a dict of numbers, which names the usual mistake in the first wrong one.

    ``slips`` has wrong ways to compute a part, functions of the case, by the words for them; what
    belongs to another key is one, too. ``part`` tells for a key and a case which part it is.
    """

    def says(answer, *case):
        right, found = check.reference(*case), answer(*case)
        if not isinstance(found, dict) or found.keys() != right.keys():
            return None
        for key in right:
            if difference(found[key], right[key], ""):
                return named(answer, key, part(key, *case))
        return None

    def named(answer, key, name):
        cases = [case for case in check.all_cases() if part(key, *case) == name]
        found = [answer(*case)[key] for case in cases]
        ways = {
            f"it is what belongs to {other!r}": lambda *case, other=other: check.reference(*case)[
                other
            ]
            for other in check.reference(*cases[0])
            if other != key
        }
        fitting = [
            words
            for words, way in (ways | slips.get(name, {})).items()
            if not any(
                difference(got, way(*case), "") for got, case in zip(found, cases, strict=True)
            )
        ]
        return f"{key!r} is wrong: {fitting[0]}." if len(fitting) == 1 else None

    return says


def verdicts(found: Any, kinds: Sequence[str], what: str, reasons: dict[str, str]) -> dict:
    """What an answer says of each program, given the numbers of those that it takes for broken.

    ``what`` is one of them ("an encoder"); ``reasons`` has for each kind why it is broken, or "".
    """
    form = (
        f"a list of numbers from 0 to {len(kinds) - 1}" if kinds else "an empty list: none is given"
    )
    numbers = [number(i) for i in found] if isinstance(found, (list, tuple, set)) else [None]
    if not all(type(i) is int and 0 <= i < len(kinds) for i in numbers):
        return {"the form of the result": brief(found)}
    said = {"the form of the result": form}
    for i, kind in enumerate(kinds):
        label = f"what is said of {what} that {kind} ({reasons[kind] or 'it breaks no rule'})"
        said[label] = "that it is broken" if i in numbers else "nothing"
    return said


def what_it_is(
    plan: dict, good: dict, parts: dict[str, str], share: Callable[[dict], float], enough: float
) -> str:
    """Which part of a training plan is to blame: with that of a good one, the rest is enough.

    ``parts`` has words for keys, or for several separated by blanks.
    """
    for keys, words in parts.items():
        changed = plan | {key: good[key] for key in keys.split()}
        if changed != plan and (reached := share(changed)) >= enough:
            key = keys.split()[0]
            way = "another"
            if not isinstance(plan[key], (bool, str)):
                way = "a smaller" if plan[key] > good[key] else "a larger"
            return f"It is {words}: with {way} one, and the rest as it is, {reached:.0%} are right."
    return f"It is more than one thing: think of {', '.join(parts.values())}."
