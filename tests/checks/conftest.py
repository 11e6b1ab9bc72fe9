"""What the tests of one file have kept is given up with it: memory, some hundred MB of outcomes."""

import re
import sys

import pytest

from tests.checks import proof
from tests.checks.proof import exercises_of


@pytest.fixture(scope="session", autouse=True)
def hidden_seeds(request):
    """A grading draws seeds of its own, so for right answers one of ours is as good as three."""
    if request.config.getoption("all"):
        proof.HIDDEN_SEEDS = slice(None)


@pytest.fixture(scope="module", autouse=True)
def one_mistake_at_once(request):
    """Only tests/checks/test_mistakes.py tries pairs: a proof has thousands of wrong answers."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem != "test_mistakes":
            patch.setattr(proof.exercise, "SECONDS_FOR_PAIRS", -1)
        yield


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Clear what exercises remember of their mistakes."""
    yield
    for name, module in list(sys.modules.items()):
        if re.fullmatch(r"textbook\.checks\.chapter_\d\d", name):
            for check in exercises_of(module).values():
                check.known.clear()
