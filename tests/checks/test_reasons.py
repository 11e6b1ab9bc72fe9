"""What is wrong is said of the part that is wrong."""

import pytest

from textbook.checks import CheckFailed, chapter_03
from textbook.checks.reasons import no_whole_number, verdicts, what_it_is

GOOD, PARTS = {"rate": 0.01, "steps": 100}, {"steps": "the number of steps", "rate": "the rate"}


def test_a_number_that_is_not_whole_is_refused_and_large_or_odd_whole_ones_are_not():
    from decimal import Decimal
    from fractions import Fraction

    import numpy as np

    whole = {"a": 10**30, "b": np.int64(3), "c": Fraction(6, 2), "d": Decimal(5)}
    assert no_whole_number(lambda: whole) is None
    assert "'b' is 12.0" in no_whole_number(lambda: {"a": 1, "b": 12.0})


def test_the_first_wrong_part_is_named_even_if_another_one_is_wrong_too():
    def answer(lengths, size):
        right = chapter_03.cells.reference(lengths, size)
        return right | {"packed": right["sorted"], "steps": 2 * right["steps"]}

    with pytest.raises(CheckFailed, match="'packed' is wrong: it is what belongs to 'sorted'"):
        chapter_03.cells(answer)


def test_a_verdict_names_the_program_and_the_rule():
    kinds, reasons = ["adds up", "is right"], {"adds up": "rule 2", "is right": ""}
    found = verdicts([0], kinds, "a program", reasons)
    assert found["what is said of a program that adds up (rule 2)"] == "that it is broken"
    assert found["what is said of a program that is right (it breaks no rule)"] == "nothing"
    assert verdicts([True], kinds, "a program", reasons) == {"the form of the result": "[True]"}


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({"rate": 0.5, "steps": 100}, "It is the rate: with a smaller one"),
        ({"rate": 0.01, "steps": 3}, "It is the number of steps: with a larger one"),
        ({"rate": 0.5, "steps": 3}, "It is more than one thing"),
    ],
)
def test_the_part_of_a_plan_that_is_to_blame_is_told(plan, text):
    def share(plan):
        return float(plan == GOOD)

    assert what_it_is(plan, GOOD, PARTS, share, 0.9).startswith(text)
