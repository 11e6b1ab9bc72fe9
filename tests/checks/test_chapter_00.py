"""The checks of chapter 00 catch and name what is wrong, and pass what is right."""

import pytest

from minitorch.checks import CheckFailed, chapter_00
from minitorch.checks.compare import difference
from tests.checks import right_00
from tests.checks.proof import proofs


@pytest.mark.parametrize("proof", list(proofs(chapter_00, right_00)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", sorted(right_00.refused.keys() - {"numerical_gradient"}))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_00, name)
    for case in check.all_cases():
        for answer in right_00.refused[name]:
            assert difference(answer(*case), check.reference(*case), name) is None


def test_finite_differences_come_near_the_gradient():
    check = chapter_00.numerical_gradient
    [by_backward] = right_00.refused["numerical_gradient"]
    for function, x, _ in check.all_cases():
        found = check.reference(function, x, 1e-5)
        assert difference(found, by_backward(function, x, 1e-5), "the gradient") is None


def test_an_engine_that_calls_itself_for_each_value_is_told_where():
    class Recursive(chapter_00.Value.reference):
        def order(self, done=None):
            done = {} if done is None else done
            for parent in self.parents:
                if parent not in done:
                    parent.order(done)
            done[self] = True
            return list(done)

    with pytest.raises(CheckFailed, match="RecursionError") as caught:
        chapter_00.Value(Recursive)
    assert "in the line: parent.order(done)\nfor\n  program = x = a;" in str(caught.value)
