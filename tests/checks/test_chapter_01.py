"""The checks of chapter 01 catch and name what is wrong, and pass what is right."""

import pytest

from minitorch.checks import chapter_01
from tests.checks import right_01
from tests.checks.proof import proofs


@pytest.mark.parametrize("proof", list(proofs(chapter_01, right_01)))
def test_checks(proof):
    proof()
