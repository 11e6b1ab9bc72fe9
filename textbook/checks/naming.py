"""Reasons: what the first wrong number of an answer is instead of the right one."""

import math
from collections.abc import Callable, Sequence

from textbook.checks.compare import number

USUAL = {
    "the square of what it should be": lambda right: right**2,
    "the root of what it should be": lambda right: abs(right) ** 0.5,
    "1 divided by what it should be": lambda right: 1 / right,
    "right but for its sign": lambda right: -right,
    "a hundred times what it should be: no percent": lambda right: 100 * right,
    "half of what it should be": lambda right: right / 2,
    "twice what it should be": lambda right: 2 * right,
}


class Words(str):
    """A result in words, shown without quotes and with its line breaks."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


def each_number(
    reference: Callable, probes: Sequence[tuple], slips: dict[str, dict[str, Callable]]
) -> Callable:
    """A reason: what the first wrong number of a dict is on all the probes.

    ``slips`` has for a key usual wrong numbers, functions of the case; their names complete
    '"key" is ...'.
    """

    def same(got, expected):
        got = number(got)
        return got is not None and math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-12)

    def says(answer, *case):
        rights, found = [reference(*probe) for probe in probes], [answer(*p) for p in probes]
        if not all(isinstance(given, dict) and given.keys() == rights[0].keys() for given in found):
            return None
        for key in rights[0]:
            numbers = [given[key] for given in found]
            if all(map(same, numbers, [right[key] for right in rights])):
                continue
            own = {name: [f(*probe) for probe in probes] for name, f in slips.get(key, {}).items()}
            others = {
                f'what belongs to "{other}"': [right[other] for right in rights]
                for other in rights[0]
            }
            usual = {
                name: [f(right[key]) for right in rights]
                for name, f in USUAL.items()
                if all(right[key] for right in rights)
            }
            for named in own, others | usual:
                fits = [name for name, wrong in named.items() if all(map(same, numbers, wrong))]
                if len(fits) == 1:
                    return f'"{key}" is {fits[0]}.'
            return None
        return None

    return says
