"""Proof of the checks of a chapter by answers that are known to be wrong, right or forbidden.

``right_NN.py`` holds, for each exercise, ``right``, a dict from its name to differently written
right answers, and ``refused``, right answers that run a forbidden operation by different routes.
"""

import importlib
import itertools
import re
from pathlib import Path
from unittest import mock

import pytest

from minitorch.autograd import record_operations
from textbook.checks import CheckFailed, Exercise
from textbook.checks.exercise import Trial, _difference

exercise = importlib.import_module("textbook.checks.exercise")  # not the function of this name
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def exercises_of(chapter):
    """The exercises of a chapter's module, by name."""
    return {name: x for name, x in vars(chapter).items() if isinstance(x, Exercise)}


def proofs(chapter, answers):
    """One pytest parameter, a function to call, for each thing that has to hold."""
    exercises = exercises_of(chapter)
    assert exercises.keys() == answers.right.keys()
    for name, check in exercises.items():
        yield pytest.param(lambda check=check: _enough(check, answers), id=f"{name}-enough")
        yield pytest.param(lambda check=check: _apart(check), id=f"{name}-apart")
        for hidden in (False, True):
            kind = "hidden" if hidden else "public"
            for i, mistake in enumerate(check.mistakes):
                if hidden or not mistake.hidden:
                    yield pytest.param(
                        lambda check=check, mistake=mistake, hidden=hidden: _named(
                            check, mistake, hidden
                        ),
                        id=f"{name}-wrong-{i}-{kind}",
                    )
            for i, answer in enumerate(answers.right[name]):
                yield pytest.param(
                    lambda check=check, answer=answer, hidden=hidden: check(answer, hidden),
                    id=f"{name}-right-{i}-{kind}",
                )
        for i, answer in enumerate(answers.refused.get(name, [])):
            yield pytest.param(
                lambda check=check, answer=answer: _refused(check, answer), id=f"{name}-refused-{i}"
            )


def _enough(check, answers):
    """There are mistakes and right answers enough, and a route to each forbidden operation.

    The place in the book that the messages name exists.
    """
    assert len(check.mistakes) >= 3
    assert len({mistake.name for mistake in check.mistakes}) == len(check.mistakes)
    assert len(answers.right[check.name]) >= 2
    number, title = re.fullmatch(r'chapter (\d\d), "(.+)"', check.see).groups()
    [chapter] = NOTEBOOKS.glob(f"{number}_*.py")
    headings = re.findall("^# ##+ (.*)", chapter.read_text(encoding="utf-8"), re.MULTILINE)
    assert any(title in heading for heading in headings)
    reached = set()
    for answer in answers.refused.get(check.name, []):
        with record_operations() as names:
            for case in check.all_cases():
                check.run(answer, *case) if check.run else answer(*case)
        reached |= set(names)
    assert set(check.forbidden) <= reached


def _apart(check):
    """No two mistakes do the same on all cases: which was made could not be told.

    Each does the same when it is asked once more, so that it can be told again.
    """
    cases = {hidden: check.all_cases(hidden) for hidden in (False, True)}
    for mistake in check.mistakes:
        first = check._expected(mistake.function, cases[False][0], False, 0)
        assert not _difference(check._observe(mistake.function, cases[False][0]), first)
    for one, other in itertools.combinations(check.mistakes, 2):
        assert any(
            _difference(
                check._expected(one.function, case, hidden, i),
                check._expected(other.function, case, hidden, i),
            )
            for hidden in cases
            for i, case in enumerate(cases[hidden])
        ), f"{one.name} and {other.name} do the same"


class KnownTrial(Trial):
    """A trial of a mistake, of which the check knows already what it does: that saves time."""

    def __init__(self, check, answer):
        super().__init__(check, answer)
        self.outcome = lambda hidden, i: check._expected(answer, self.cases(hidden)[i], hidden, i)


def _named(check, mistake, hidden):
    with mock.patch.object(exercise, "Trial", KnownTrial), pytest.raises(CheckFailed) as caught:
        check(mistake.function, hidden)
    assert f"Your answer is {mistake.name}." in str(caught.value)


def _refused(check, answer):
    with pytest.raises(CheckFailed, match="your answer runs the library's"):
        check(answer)
