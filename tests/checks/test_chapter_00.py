"""The checks of chapter 00 catch and name what is wrong, and pass what is right."""

import numpy as np
import pytest
from pytest import approx

import minitorch as mt
from tests.checks import right_00
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, chapter_00
from textbook.checks.chapter_00.linear_maps import _power_iteration
from textbook.checks.chapter_00.training import ValueInPieces
from textbook.checks.compare import difference


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


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_of_the_spectral_radius_converges(seed):
    matrix = np.random.default_rng(seed).standard_normal((5, 5))
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    assert chapter_00.spectral_radius.reference(mt.tensor(matrix), 1000) == approx(radius, rel=2e-3)


def test_the_factor_of_a_single_step_need_not_converge():
    """What the text of the exercise says of two complex eigenvalues."""
    matrix = np.random.default_rng(5).standard_normal((5, 5))
    values = np.linalg.eigvals(matrix)
    assert values[np.abs(values).argmax()].imag != 0
    factors = _power_iteration(mt.tensor(matrix), 1000)[0]
    assert max(factors[-100:]) > 1.1 * min(factors[-100:])


def test_an_engine_that_calls_itself_for_each_value_is_told_where():
    class Recursive(ValueInPieces):
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
