"""Reasons: what is wrong with one part of an answer, said of this part alone."""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Rational
from typing import Any

from textbook.checks.compare import difference, number


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


USUAL = {
    "it is the square of what it should be": lambda right: right**2,
    "it is the root of what it should be": lambda right: abs(right) ** 0.5,
    "it is 1 divided by what it should be": lambda right: 1 / right,
    "it is right but for its sign": lambda right: -right,
    "it is a hundred times what it should be: no percent": lambda right: 100 * right,
    "it is half of what it should be": lambda right: right / 2,
    "it is twice what it should be": lambda right: 2 * right,
}


def part_by_part(
    slips: dict[Any, dict[str, Callable]], part: Callable = lambda key, *case: key
) -> Callable:
    """A reason for a dict of numbers: what the first wrong one is, in all cases.

    ``slips`` has wrong ways to compute a part, functions of the case, by the words for them; what
    belongs to another key, and the ``USUAL`` slips, are asked where none of these fits. ``part``
    tells for a key and a case which part it is.
    """

    def says(check, answer, *case):
        right, found = check.reference(*case), answer(*case)
        if not isinstance(found, dict) or found.keys() != right.keys():
            return None
        wrong = (key for key in right if difference(found[key], right[key], ""))
        key = next(wrong, None)
        return None if key is None else named(check, answer, key, part(key, *case))

    def named(check, answer, key, name):
        cases = [case for case in check.all_cases() if part(key, *case) == name]
        found = [answer(*case)[key] for case in cases]
        rights = [check.reference(*case) for case in cases]
        own = {words: [way(*case) for case in cases] for words, way in slips.get(name, {}).items()}
        others = {
            f"it is what belongs to {other!r}": [right[other] for right in rights]
            for other in rights[0]
            if other != key
        }
        if all(right[key] for right in rights):
            others |= {words: [f(right[key]) for right in rights] for words, f in USUAL.items()}
        for named in own, others:
            fitting = [
                words
                for words, wrong in named.items()
                if not any(difference(*pair, "") for pair in zip(found, wrong, strict=True))
            ]
            if len(fitting) == 1:
                return f"{key!r} is wrong: {fitting[0]}."
        return None

    return says


TIMES = {-1: "is missing", -0.5: "is counted half", 1: "is counted twice"}


def part_that_differs(
    counted: Callable, parts: Callable, others: Callable, cases: Sequence[tuple]
) -> str | None:
    """The one part by which a count, a sum of parts, is off in all cases, by the same factor.

    ``counted(case)`` is the answer's count, ``parts(case)`` a dict from phrases to what belongs
    to it, ``others(case)`` one to what does not, or is a part of a part or several of them.
    """
    off, shares = [], {}
    for case in cases:
        belongs = parts(case)
        off.append(counted(case) - sum(belongs.values()))
        for phrase, count in (belongs | others(case)).items():
            shares.setdefault(phrase, []).append(off[-1] / count)
    if not any(off):
        return None
    fitting = {
        phrase: share[0]
        for phrase, share in shares.items()
        if max(share) - min(share) < 1e-9 * max(map(abs, share))
    }
    if len(fitting) != 1:
        return None
    [(phrase, share)] = fitting.items()
    if share == 1 and phrase not in parts(cases[0]) and phrase.startswith("what is no part"):
        return f"The count has {phrase.removeprefix('what is no part: ')}, and should not."
    said = TIMES.get(round(share, 9), f"is counted {1 + share:.3g} times")
    return f"All is right but for {phrase}, which {said}."


def what_it_is(
    plan: dict,
    good: dict,
    parts: dict[str, str],
    shares: Callable[[dict], Iterable[float]],
    enough: float,
) -> str:
    """Which parts of a training plan are to blame: with that of a good one, the rest is enough.

    ``parts`` has words for keys, or for several separated by blanks. ``shares`` gives for a plan
    what each of the check's own runs reaches, so that a plan that is advised does pass.
    """
    others, fitting = [], []
    for keys, words in parts.items():
        changed = plan | {key: good[key] for key in keys.split()}
        if changed == plan:
            continue
        others.append(words)
        if (reached := least(shares(changed), enough)) >= enough:
            key = keys.split()[0]
            way = "another"
            if not isinstance(plan[key], (bool, str)):
                way = "a smaller" if plan[key] > good[key] else "a larger"
            fitting.append(
                f"{words}: with {way} one, and the rest as it is, the worst run has "
                f"{reached:.0%} right"
            )
    if fitting:
        return f"It is {', or '.join(fitting)}."
    return f"One change alone was not enough when the check tried: think of {', '.join(others)}."


def least(shares: Iterable[float], enough: float) -> float:
    """The smallest share, up to the first that is not enough."""
    smallest = math.inf
    for share in shares:
        smallest = min(smallest, share)
        if smallest < enough:
            break
    return smallest
