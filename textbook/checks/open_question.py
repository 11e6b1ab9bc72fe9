"""Open questions: an experiment of the student's own, and three sentences on what it shows.

The check asks that a run can be repeated, that there are seeds enough, and that each number in the
sentences is one that was measured. Whether the question is a good one, the comparison fair and
the sentences follow, the instructor reads: docs/instructors.md has a rubric.
"""

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from textbook.checks.compare import brief, number
from textbook.checks.exercise import CheckFailed
from textbook.lab import finding, measured

KEYS = ["fixed", "question", "seeds", "sentences", "settings"]
SENTENCES = "what you found", "how sure that is", "what your runs do not show"
SEEDS, RUNS = 5, 40  # at least, at most
NUMBER = r"\d[\d,]*(?:\.\d+)?(?: ?%)?"

Values = dict[str, list[float]]


def find_out(run: Callable, report: Callable) -> None:
    """Raise ``CheckFailed`` unless the runs can be repeated and have given what is said of them.

    ``run(setting, seed)`` gives a number, ``report()`` a dict with ``KEYS``. Training comes out a
    little differently on another processor, so a number may be off by the standard deviation
    over the seeds.
    """
    try:
        said = _read(report())
        values = {
            setting: [_ran(run, setting, seed) for seed in said["seeds"]]
            for setting in said["settings"]
        }
    except NotImplementedError:
        raise CheckFailed(
            "find_out: not solved yet.\nWrite `run` and `report`, as the text says."
        ) from None
    first, seed = said["settings"][0], said["seeds"][0]
    again = _ran(run, first, seed)
    if not math.isclose(again, values[first][0], rel_tol=1e-6):
        _refuse(
            f"run({first!r}, {seed}) gives {values[first][0]:g}, and {again:g} when it is called "
            "once more.\nLet it begin with mt.manual_seed(seed), and keep nothing between runs"
        )
    if all(len(set(numbers)) == 1 for numbers in values.values()):
        _refuse("the seed changes nothing: what is drawn at random in a run, the seed decides")
    for setting, numbers in values.items():
        measured(f"{setting}: {_described(numbers)}; {', '.join(f'{x:.4g}' for x in numbers)}")
    for i, what in enumerate(SENTENCES):
        _check_numbers(said["sentences"][i], what, values, said["fixed"])
    print("find_out: it can be repeated, and the numbers are those of the runs.")
    print("The rest is read: the question, the comparison, what follows and what does not.")


def _refuse(text: str) -> None:
    raise CheckFailed(f"find_out: {text}.")


def _read(said: Any) -> dict:
    """The report, if it has the right form."""
    if not isinstance(said, dict) or sorted(map(str, said)) != KEYS:
        _refuse(f"expected a dict with the keys {KEYS}, got {brief(said)}")
    settings, seeds, sentences = (said[key] for key in ("settings", "seeds", "sentences"))
    if not _texts(settings) or not 2 <= len(set(settings)) == len(settings) <= 4:
        _refuse(f"expected two to four different names as 'settings', got {brief(settings)}")
    if not all(re.search(r"[^\W\d_]", name) for name in settings):
        _refuse(f"expected names with a letter as 'settings', got {brief(settings)}")
    if not isinstance(seeds, (list, tuple, range)) or any(type(x) is not int for x in seeds):
        _refuse(f"expected a list of whole numbers as 'seeds', got {brief(seeds)}")
    if not SEEDS <= len(set(seeds)) == len(seeds):
        _refuse(f"expected {SEEDS} different seeds or more, got {brief(seeds)}")
    if len(settings) * len(seeds) > RUNS:
        _refuse(f"expected {RUNS} runs at most, got {len(settings)} times {len(seeds)}")
    if not _texts(sentences) or len(sentences) != 3 or not all(len(s) >= 20 for s in sentences):
        _refuse(f"expected three sentences: {', '.join(SENTENCES)}; got {brief(sentences)}")
    if not _texts([said["question"]]) or not said["question"].strip().endswith("?"):
        _refuse(f"expected a question that ends with '?', got {brief(said['question'])}")
    fixed = said["fixed"]
    if not isinstance(fixed, dict) or None in map(number, fixed.values()) or len(fixed) > 4:
        _refuse(
            "expected at most four numbers by name as 'fixed', such as {'steps': 100}, got "
            f"{brief(fixed)}"
        )
    return said | {"settings": list(settings), "seeds": list(seeds)}


def _texts(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(x, str) and x for x in values)


def _ran(run: Callable, setting: str, seed: int) -> float:
    """What a run gives, if it is a finite number."""
    found = number(run(setting, seed))
    if not isinstance(found, (int, float)) or not math.isfinite(found):
        _refuse(f"expected a finite number from run({setting!r}, {seed}), got {brief(found)}")
    return float(found)


def _described(numbers: list[float]) -> str:
    return (
        f"mean {statistics.mean(numbers):.4g}, standard deviation {statistics.stdev(numbers):.2g}, "
        f"from {min(numbers):.4g} to {max(numbers):.4g}"
    )


def _of_one(numbers: list[float]) -> list[float]:
    """What may be said of a setting."""
    described = statistics.mean, statistics.stdev, statistics.median, min, max
    return [of(numbers) for of in described]


def _of_two(one: list[float], other: list[float], kind: str) -> Iterator[tuple[float, float]]:
    """What may be said of two settings, each with how far it may be off elsewhere."""
    pairs = (one, other), (other, one)
    if kind == "p":
        yield from ((finding(a, b).p, 0.05) for a, b in pairs)
    elif kind == "count":
        yield from ((sum(x > y for x, y in zip(a, b, strict=True)), 1) for a, b in pairs)
    else:
        spread = statistics.stdev(one) + statistics.stdev(other)
        yield abs(statistics.mean(one) - statistics.mean(other)), spread


def _check_numbers(sentence: str, what: str, values: Values, fixed: dict) -> None:
    """Refuse a number that was not measured for the settings that are named before it."""
    names = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    known = [len(next(iter(values.values()))), sum(map(len, values.values()))]
    known += [float(number(x)) for x in fixed.values()]
    named, right, first = [], 0, {}
    for part in re.finditer(rf"(?<!\w)(?P<name>{names})(?!\w)|(?<![\w.]){NUMBER}", sentence):
        text = part[0]
        if part["name"]:
            named = [name for name in named if name != text] + [text]
            continue
        value, half = _value(text)
        if any(abs(value - x) <= half for x in known):
            continue
        if not named:
            _refuse(
                f"in the sentence on {what} stands {text}, before any setting is named.\nName a "
                "setting first, then its numbers; what you have chosen, such as a number of steps, "
                "belongs into 'fixed'"
            )
        last = values[named[-1]]
        is_p = re.search(r"\bp\W*(?:is|of|below)?\W*$", sentence[: part.start()])
        kind = "p" if is_p else "count" if text.isdigit() else "value"
        possible = [] if is_p else [(x, statistics.stdev(last)) for x in _of_one(last)]
        for other in named[:-1]:
            possible += _of_two(last, values[other], kind)
        if not any(abs(value - x) <= half + slack for x, slack in possible):
            others = "".join(
                f"\n{other!r} has {_described(values[other])}; the means differ by "
                f"{abs(statistics.mean(last) - statistics.mean(values[other])):.4g}"
                for other in named[:-1]
            )
            _refuse(
                f"in the sentence on {what} stands {text} behind {named[-1]!r}, which has "
                f"{_described(last)}{others}.\nA number belongs to the setting that is named last "
                "before it, or to the difference from one that is named earlier"
            )
        right += 1
        if kind == "value" and any(abs(value - x) <= half + slack for x, slack in possible[:5]):
            first.setdefault(named[-1], (value, half))
    _refuse_exchanged(first, what, values)
    if what == SENTENCES[0] and (len(named) < 2 or not right):
        _refuse(f"the sentence on {what} names two settings, and a number that was measured")
    if what == SENTENCES[1] and not re.search(NUMBER, sentence):
        _refuse(f"the sentence on {what} has a number: a spread, a p, how many of the seeds agree")


def _refuse_exchanged(first: dict, what: str, values: Values) -> None:
    """Refuse the first numbers of two settings if each is the other's mean sooner than its own."""

    def of_other(one, other):
        (value, half), own = first[one], _of_one(values[one])
        off, off_other = abs(value - own[0]), abs(value - statistics.mean(values[other]))
        is_own = min(abs(value - x) for x in own) <= half < off_other
        return off_other < off and not is_own

    for one, other in itertools.combinations(first, 2):
        if of_other(one, other) and of_other(other, one):
            _refuse(
                f"in the sentence on {what} the numbers of {one!r} and {other!r} look exchanged: "
                f"{one!r} has {_described(values[one])}; {other!r} has {_described(values[other])}"
            )


def _value(text: str) -> tuple[float, float]:
    """A number as it is written, and half of its last place."""
    digits = text.rstrip("% ").replace(",", "")
    places = len(digits.partition(".")[2]) + 2 * text.endswith("%")
    value = float(digits) / (100 if text.endswith("%") else 1)
    return value, 0.5000001 * 10.0**-places
