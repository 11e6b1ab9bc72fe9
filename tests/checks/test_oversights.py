"""A list of programs is told its first oversight, and stays told apart from other lists."""

import pytest

from textbook.checks.oversights import told
from textbook.checks.suspects import by_kinds

BROKEN = {"leaks": "Look ahead.", "stops": "Go on."}
SOUND = {"waits": "That is no matter.", "turns": "That is no matter."}
KINDS = ("waits", "leaks", "turns", "stops")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([1, 3], "complete, and no other is in it"),
        ([3], "it lacks the one that leaks. Look ahead."),
        ([1], "it lacks the one that stops. Go on."),
        ([0, 1, 3], "it names the one that waits, which it should not. That is no matter."),
        ([0, 2], "turned round: it names those that are in order"),
        ([1, 1, 3], "it names the one that leaks more than once"),
        ([], "it lacks the one that leaks. Look ahead."),
    ],
)
def test_the_first_oversight_is_told(found, sentence):
    compared = told(by_kinds(found, KINDS, "programs", "broken"), KINDS, BROKEN, SOUND, "broken")
    assert compared["the list of broken"] == sentence
    assert compared["all of the list"] == ("; ".join(sorted(KINDS[i] for i in found)) or "none")


def test_what_is_no_list_of_numbers_is_compared_by_its_form():
    compared = told(by_kinds([7], KINDS, "programs", "broken"), KINDS, BROKEN, SOUND, "broken")
    assert compared == {"the form of the result": "[7]", "the list of broken": None}
