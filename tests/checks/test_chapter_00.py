"""The checks of chapter 00 catch and name what is wrong, and pass what is right."""

import pytest

from minitorch.checks import chapter_00
from tests.checks import right_00
from tests.checks.proof import proofs


@pytest.mark.parametrize("proof", list(proofs(chapter_00, right_00)))
def test_checks(proof):
    proof()
