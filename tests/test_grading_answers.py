"""What a check says of an answer does not depend on the process that the answer runs in.

    python -m tests.test_grading_answers

compares it for all right answers and some mistakes, which takes minutes. The tests ask whether one
right answer to each exercise passes from afar, with few cases.
"""

import contextlib
import importlib
import io
import os
import socket
import sys
import types

import pytest

from authoring.grading import run  # noqa: F401  lets checks know lines of the grader's own
from authoring.grading.peer import Peer
from authoring.grading.wire import Wire
from tests.checks.proof import answers_in_key, exercises_of
from textbook.checks import Exercise

CHAPTERS = {n: importlib.import_module(f"textbook.checks.chapter_{n:02d}") for n in range(14)}
LONG = {"Value"}  # tens of thousands of calls: left to the command
# Tests and programs that students write, as eight others are, and whose many calls take long.
SLOW = {"broken_encoders", "broken_gradients", "faults", "leaking", "mixing", "unfair"}
exercise = importlib.import_module("textbook.checks.exercise")
EXERCISES = [
    pytest.param(
        n, name, id=f"{n:02d}-{name}", marks=[pytest.mark.thorough] if name in SLOW else []
    )
    for n, chapter in CHAPTERS.items()
    for name in exercises_of(chapter)
    if name not in LONG
]
# The mistakes of this one differ in whether a graph is freed; beyond a process it is kept.
NAMED_OTHERWISE = {"truncated_bptt"}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="made with fork")


@contextlib.contextmanager
def student_with(answers):
    """A connection to a process that has these answers."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        peer = Peer(Wire(theirs), trusting=True)
        peer.extra["answer"] = lambda number: answers[number]
        try:
            peer.serve()
        except BaseException:
            os._exit(0)
    theirs.close()
    try:
        yield Peer(Wire(ours), trusting=False, refused=(types.ModuleType, Exercise))
    finally:
        ours.close()
        os.waitpid(process, 0)


def said(check, answer):
    """What the check says of an answer."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            check(answer)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "passed"


@pytest.fixture
def one_seed(monkeypatch):
    """Cases of one seed alone."""
    for hidden, seeds in exercise.SEEDS.items():
        monkeypatch.setitem(exercise.SEEDS, hidden, seeds[:1])


@pytest.mark.parametrize("number, name", EXERCISES)
def test_a_right_answer_passes_from_afar(number, name, one_seed):
    check = exercises_of(CHAPTERS[number])[name]
    with student_with(answers_in_key(check)[-1:]) as student:
        assert said(check, student.ask("answer", number=0)) == "passed"


def main():
    """Compare what is said here and from afar; 0 if it is the same."""
    differ = 0
    for number, chapter in CHAPTERS.items():
        for name, check in exercises_of(chapter).items():
            answers = answers_in_key(check) + answers_in_key(check, "refused")
            answers += [mistake.function for mistake in check.mistakes[:2]]
            with student_with(answers) as student:
                for i, answer in enumerate(answers):
                    there, here = said(check, student.ask("answer", number=i)), said(check, answer)
                    if there != here and not ("passed" != here and name in NAMED_OTHERWISE):
                        print(f"{number:02d} {name} {i}\nfrom afar: {there}\nhere: {here}\n")
                        differ += 1
    print(f"{differ} differ")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
