"""What is wrong is said of the part that is wrong, the first thing alone."""

import pytest

from textbook.checks import CheckFailed, chapter_03, chapter_09
from textbook.checks.compare import brief, difference
from textbook.checks.reasons import least, no_whole_number, part_that_differs, what_it_is
from textbook.checks.suspects import ALL, judged

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


def test_a_usual_slip_in_a_part_is_named():
    def answer(parts, a):
        right = chapter_09.shares_of_a_sum.reference(parts, a)
        return right | {"input, pre-norm": right["input, pre-norm"] ** 2}

    with pytest.raises(CheckFailed, match="'input, pre-norm' is wrong: it is the square of what"):
        chapter_09.shares_of_a_sum(answer)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (lambda a, b: 2 * a, "All is right but for the second, which is missing."),
        (lambda a, b: 4 * a + b, "All is right but for the first, which is counted twice."),
        (lambda a, b: 2 * a + b + a * b, "The count has a third, and should not."),
        (lambda a, b: 2 * a + b, None),
        (lambda a, b: 7, None),
    ],
)
def test_the_part_by_which_a_count_is_off_is_told(count, text):
    def parts(case):
        return {"the first": 2 * case[0], "the second": case[1]}

    def others(case):
        return {"what is no part: a third": case[0] * case[1]}

    cases = [(1, 2), (3, 5), (7, 4)]
    assert part_that_differs(lambda case: count(*case), parts, others, cases) == text


KINDS = "waits", "leaks", "turns", "stops", "sleeps"
REASONS = {"leaks": "Look ahead.", "stops": "Go on.", "turns": "That is no matter."}


def verdict(found, kinds=KINDS):
    return judged(found, kinds, {"leaks", "stops"}, REASONS, "broken programs")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([1, 3], ALL),
        ({3, 1}, ALL),
        ([3], 'it lacks one, "leaks". Look ahead.'),
        ([1], 'it lacks one, "stops". Go on.'),
        ([], 'it lacks one, "leaks". Look ahead.'),
        ([1, 2, 3], 'it has one that does not belong in it, "turns". That is no matter.'),
        ([0, 1, 3], 'it has one that does not belong in it, "waits".'),
        ([0, 1, 2, 3, 4], 'it has one that does not belong in it, "waits".'),
        ([0, 2, 4], "turned round: it names those that do not belong in it"),
        ([2, 4], "right if the first program had the number 1; it has the number 0"),
        ([1, 1, 3], "it holds 1 more than once"),
        ([1, 5], "it holds 5, and there are only 5, counted from 0"),
        ([-2, 1], "it holds -2, and there are only 5, counted from 0"),
    ],
)
def test_of_a_list_of_programs_the_first_thing_is_told(found, sentence):
    assert verdict(found)["your list of broken programs"] == sentence


def test_a_list_that_ends_with_its_first_program_is_told_so():
    said = judged([0], KINDS, {"waits", "leaks", "stops"}, REASONS, "broken programs")
    assert "a return stand inside your loop" in said["your list of broken programs"]


def test_lists_with_one_verdict_stay_apart():
    assert difference(verdict([3]), verdict([2, 3]), "the dict")
    assert difference(verdict([1, 5]), verdict([0, 5]), "the dict")


@pytest.mark.parametrize("found", ["13", [True], [1, "3"], [1.0], 3, None, {1: 3}])
def test_what_is_no_list_of_numbers_is_told_its_form_alone(found):
    form = found if found is None else brief(found)
    assert verdict(found) == {"the form of the result": form}


def test_one_program_by_itself_is_not_turned_round():
    assert verdict([], ["leaks"])["your list of broken programs"].startswith("it lacks one")
    assert verdict([0], ["waits"])["your list of broken programs"].startswith("it has one")
    assert verdict([1], ["leaks"])["your list of broken programs"].startswith("right if the first")
    assert verdict([], [])["your list of broken programs"] == ALL


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({"rate": 0.5, "steps": 100}, "It is the rate: with a smaller one"),
        ({"rate": 0.01, "steps": 3}, "It is the number of steps: with a larger one"),
        (
            {"rate": 0.5, "steps": 3},
            "One change alone was not enough when the check tried: think of",
        ),
    ],
)
def test_the_part_of_a_plan_that_is_to_blame_is_told(plan, text):
    def shares(plan):
        return [1.0, float(plan == GOOD)]  # one run alone tells nothing

    assert what_it_is(plan, GOOD, PARTS, shares, 0.9).startswith(text)


def test_all_parts_of_a_plan_that_would_do_are_told_with_their_worst_run():
    def shares(plan):
        return [1.0, 0.93] if plan["rate"] == GOOD["rate"] else [0.95, 0.96]

    said = what_it_is({"rate": 0.5, "steps": 3}, GOOD, PARTS, shares, 0.9)
    assert said.startswith("It is the number of steps: with a larger one, and the rest as it is, ")
    assert "the worst run has 95% right, or the rate: with a smaller one" in said
    assert said.endswith("the worst run has 93% right.")


def test_the_least_share_is_asked_no_further_than_it_takes():
    shares = iter([0.95, 0.5, 0.2])
    assert least(shares, 0.9) == 0.5
    assert list(shares) == [0.2]


def test_no_part_is_told_where_several_fit():
    parts, others = {"the first": 2, "the second": 2}, {"everything": 4}
    assert part_that_differs(lambda case: 2, lambda _: parts, lambda _: others, [(1,)]) is None


def test_a_part_that_is_as_in_a_good_plan_is_not_to_blame():
    good, parts = GOOD | {"size": 9}, PARTS | {"size": "the size"}
    said = what_it_is({"rate": 0.5, "steps": 3, "size": 9}, good, parts, lambda plan: [0.0], 0.9)
    assert said.endswith("think of the number of steps, the rate.")
