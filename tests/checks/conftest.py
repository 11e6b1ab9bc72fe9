"""What the tests of one file have kept is given up with it: memory, some hundred MB of outcomes."""

import re
import sys

import pytest

from tests.checks.proof import exercises_of


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Clear what exercises remember of their mistakes."""
    yield
    for name, module in list(sys.modules.items()):
        if re.fullmatch(r"textbook\.checks\.chapter_\d\d", name):
            for check in exercises_of(module).values():
                check.known.clear()
