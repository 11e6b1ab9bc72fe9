"""Tables of usual mistakes are read, fit their references, and two mistakes are told at once."""

import builtins
import dis
import importlib
import sys
from pathlib import Path
from types import CodeType

import pytest

from tests.checks.proof import exercises_of
from tests.checks.small import exercise
from textbook.checks import CheckFailed
from textbook.checks.mistakes import edited_code, mistakes_of, names_of, pairs_of

MODULE = '''
FACTOR = 3

def scaled(x, factor):
    """A number and a factor."""
    larger = x * factor  # a product
    if larger > 100:
        larger = 100
    return larger + 1

def doubled(x, factor):
    return 2 * x
'''


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write the table of a reference; gives the reference."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scaling.py").write_text(MODULE, encoding="utf-8")

    def written(text):
        (tmp_path / "scaled.txt").write_text(text, encoding="utf-8")
        sys.modules.pop("scaling", None)
        return importlib.import_module("scaling").scaled

    return written


def test_a_mistake_is_an_edit_of_the_text(table):
    found = mistakes_of(
        table(
            """right but for the number
that is added
    + 1 => + 2
Add one.

right but for the bound, which is missing
    - if larger > 100:
    -     larger = 100
right in nothing
    x * factor
        => x - FACTOR
    + 1 =>
Read it
again.

the double
    by doubled
Use the factor.

another double
    by lambda x, factor:
        doubled(x, factor) + FACTOR
Use the factor.
"""
        )
    )
    assert [(mistake.name, mistake.hint) for mistake in found] == [
        ("right but for the number that is added", "Add one."),
        ("right but for the bound, which is missing", "Read it again."),
        ("right in nothing", "Read it again."),
        ("the double", "Use the factor."),
        ("another double", "Use the factor."),
    ]
    assert [mistake.function(20, 7) for mistake in found] == [102, 141, 17, 40, 43]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("larger * 2 => larger", "'larger \\* 2' stands 0 times in the reference"),
        ("larger => x", "'larger' stands 4 times"),
        ("- larger = x", "'larger = x' stands 0 times"),
        ("x * factor", "expected 'a piece => what stands in its place', got"),
        ("x * factor => x *", "invalid syntax"),
        ("larger + 1 => x\n    + 1 => + 2", "two of its edits change the same piece"),
        ("by tripled", "name 'tripled' is not defined"),
    ],
)
def test_an_edit_that_does_not_fit_is_told_with_its_mistake(table, changes, said):
    reference = table(f"a sum\n    {changes}\nMultiply.\n\nright\n    + 1 => + 1\nIt is.\n")
    with pytest.raises(ValueError, match=rf"scaled\.txt, 'a sum': .*{said}"):
        mistakes_of(reference)


def test_an_entry_without_a_hint_is_refused(table):
    with pytest.raises(ValueError, match="expected a name, indented edits and a hint, got\na sum"):
        mistakes_of(table("a sum\n    x * factor => x + factor\n"))


TABLE = """a sum
    x * factor => x + factor
Multiply.

right but for what is added
    + 1 => + 2
Add one.

right but for the bound
    > 100 => > 1000
Stop at a hundred.
"""


def told(table, answer):
    check = exercise(cases=lambda draw: [(2, 3), (5, 70)], see="")(table(TABLE))
    with pytest.raises(CheckFailed) as caught:
        check(answer)
    return str(caught.value)


def test_two_mistakes_at_once_are_told_both(table):
    said = told(table, lambda x, factor: x * factor + 2)
    assert "two things at once" in said
    assert "- right but for what is added. Add one.\n" in said
    assert "- right but for the bound. Stop at a hundred.\n" in said


def test_pairs_are_tried_for_a_while_only(table, monkeypatch):
    framework = importlib.import_module("textbook.checks.exercise")  # not the function of this name
    monkeypatch.setattr(framework, "SECONDS_FOR_PAIRS", -1)
    assert "two things" not in told(table, lambda x, factor: x * factor + 2)


def test_no_pairs_are_tried_that_may_never_end(table):
    reference = table(TABLE)
    assert len(list(pairs_of(reference, mistakes_of(reference)))) == 3
    reference = table(f"{TABLE}\na loop\n    return larger => while x: x -= 1\nAdd.\n")
    assert not list(pairs_of(reference, mistakes_of(reference)))


def test_one_mistake_and_what_nobody_knows_are_told_as_neither(table):
    assert "Your answer is right but for what is added." in told(
        table, lambda x, factor: min(x * factor, 100) + 2
    )
    for answer in lambda x, factor: x - factor, lambda x, factor: x / "y":
        assert "Your answer is" not in told(table, answer)


def names_in(code):
    """The names of modules and functions that compiled code reads."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
        elif isinstance(instruction.argval, CodeType):
            yield from names_in(instruction.argval)


@pytest.mark.parametrize("number", range(14))
def test_a_table_belongs_to_an_exercise_and_names_what_its_module_has(number):
    chapter = importlib.import_module(f"textbook.checks.chapter_{number:02}")
    exercises = exercises_of(chapter)
    tables = Path(chapter.__file__).parent.glob("*.txt")
    assert {path.stem for path in tables} <= exercises.keys()
    for check in exercises.values():
        names = names_of(check.reference) | vars(builtins)
        for mistake in [mistake for mistake in check.mistakes if mistake.edits]:
            used = set(names_in(edited_code(check.reference, mistake.edits)))
            inside = {"__class__", "__module__", "__name__", "__qualname__"}
            assert used - inside <= names.keys(), f"{check.name}: {mistake.name}"
