"""Proof of the checks of a chapter by answers that are known to be wrong, right or forbidden.

The key of an exercise has ``right``, a dict from its name to right answers that are written in
another way, and ``refused``, right answers that run a forbidden operation by different routes.
"""

import functools
import importlib
import re
from pathlib import Path
from unittest import mock

import pytest

from minitorch.autograd import record_operations
from tests.checks.odd_answers import changing, odd, partial
from textbook.checks import CheckFailed, Exercise
from textbook.checks.key import key_of
from textbook.checks.trial import Trial, how_it_differs

exercise = importlib.import_module("textbook.checks.exercise")  # not the function of this name
HIDDEN_SEEDS = slice(1)  # of those with which right answers are tried; with --all there are all
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def exercises_of(chapter):
    """The exercises of a chapter's module, by name."""
    return {name: x for name, x in vars(chapter).items() if isinstance(x, Exercise)}


def answers_in_key(check, kind="right"):
    """The answers that the key of an exercise has: right in another way, or to be refused."""
    return getattr(key_of(check.home), kind, {}).get(check.name, [])


def refusing(chapter):
    """The names of the exercises that have answers to be refused."""
    return [name for name, x in exercises_of(chapter).items() if answers_in_key(x, "refused")]


def proofs(chapter):
    """One pytest parameter, a function to call, for each exercise and kind of thing to hold."""
    for name, check in exercises_of(chapter).items():
        kinds = [enough, named, differs, right] + [refused] * (name in refusing(chapter))
        kinds += [odd, changing, partial]
        for kind in kinds:
            yield pytest.param(functools.partial(kind, check), id=f"{name}-{kind.__name__}")


def enough(check):
    """There are mistakes and right answers enough, and a route to each forbidden operation.

    The place in the book that the messages name exists.
    """
    assert len(check.mistakes) >= 3
    assert len({mistake.name for mistake in check.mistakes}) == len(check.mistakes)
    assert len(answers_in_key(check)) >= 2
    number, title = re.fullmatch(r'chapter (\d\d), "(.+)"', check.see).groups()
    [chapter] = NOTEBOOKS.glob(f"{number}_*.py")
    headings = re.findall("^# ##+ (.*)", chapter.read_text(encoding="utf-8"), re.MULTILINE)
    assert any(title in heading for heading in headings)
    reached = set()
    for answer in answers_in_key(check, "refused"):
        with record_operations() as names:
            for case in check.all_cases():
                check.run(answer, *case) if check.run else answer(*case)
        reached |= set(names)
    assert set(check.forbidden) <= reached


def every(holds, parts):
    """Ask each of the named parts, and tell of all that fail."""
    failures = []
    for name, part in parts:
        try:
            holds(part)
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"That was: {name}")
            failures.append((name, failure))
    if failures:
        names, errors = zip(*failures, strict=True)
        raise BaseExceptionGroup("; ".join(names), errors)


def of_mistakes(holds, check):
    every(holds, [(mistake.name, mistake) for mistake in check.mistakes])


def of_answers(holds, answers):
    every(holds, [(getattr(each, "__name__", repr(each)), each) for each in answers])


def named(check):
    """Each mistake is told by its name, so no two do the same on all cases, public and hidden.

    Asked of the public cases, and of the hidden ones for two mistakes. Each does the same when it
    is asked once more, so it can be told again.
    """
    case = check.all_cases()[0]

    def holds(mistake):
        first = check._expected(mistake.function, case, False, 0)
        assert not how_it_differs(check._observe(mistake.function, case), first)
        _named(check, mistake, hidden=False)
        if mistake in check.mistakes[:2]:
            _named(check, mistake, hidden=True)

    of_mistakes(holds, check)


class KnownTrial(Trial):
    """A trial of a mistake, of which the check knows already what it does: that saves time.

    It does what it does itself, of course; the others have to do something else on some case.
    """

    def __init__(self, check, answer):
        super().__init__(check, answer)
        self.outcome = lambda hidden, i: check._expected(answer, self.cases(hidden)[i], hidden, i)

    def does_as(self, function, differ):
        return function is self.answer or super().does_as(function, differ)


def _named(check, mistake, hidden):
    with mock.patch.object(exercise, "Trial", KnownTrial), pytest.raises(CheckFailed) as caught:
        check(mistake.function, hidden)
    assert f"Your answer is {mistake.name}." in str(caught.value)


def differs(check):
    """Each mistake does something else than the reference on a hidden case, and nothing forbidden.

    Up to there, it changes none of its arguments either: those would be told in place of its name.
    """
    cases = check.all_cases(hidden=True)

    def holds(mistake):
        for i, case in enumerate(cases):
            got = check._expected(mistake.function, case, True, i)
            check._refuse_forbidden(got)
            check._refuse_changed_argument(got, case)
            if how_it_differs(got, check._expected(check.reference, case, True, i)):
                return
        raise AssertionError("it is right on all hidden cases")

    of_mistakes(holds, check)


def right(check):
    """Right answers pass, however they are written."""
    with mock.patch.dict(exercise.SEEDS, {True: exercise.SEEDS[True][HIDDEN_SEEDS]}):
        for hidden in (False, True):
            of_answers(functools.partial(check, hidden=hidden), answers_in_key(check))


def refused(check):
    """Each route to a forbidden operation is refused."""

    def holds(answer):
        with pytest.raises(CheckFailed, match="your answer runs the library's"):
            check(answer)

    of_answers(holds, answers_in_key(check, "refused"))
