"""The exercise sets as students get them: every blank defines, and its check says so."""

import importlib
import re
from pathlib import Path

import nbformat
import pytest

from authoring.alone import INSTALLING
from minitorch.nn import Module
from tests.checks.proof import exercises_of
from textbook.checks import CheckFailed

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"


@pytest.mark.parametrize("path", sorted(EXERCISES.glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_an_unsolved_set_runs_and_each_check_says_not_solved_yet(path):
    exercises = checks = 0
    names = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            exercises += bool(re.match(r"## \d+\. ", cell.source))
            continue
        if not cell.metadata.get("nbgrader", {}).get("grade"):
            exec(cell.source, names)
            continue
        assert "raises-exception" in cell.metadata.tags  # "Run All" goes on
        checks += 1
        with pytest.raises(CheckFailed, match="not solved yet"):
            exec(cell.source, names)
    assert exercises >= 6, f"{path.name} has {exercises} exercises: write at least six"
    assert checks >= exercises


def numbers_of_exercises(cells):
    """The number of each exercise by the name of its check."""
    text = "\n".join(cell.source for cell in cells)
    parts = re.split(r"^## (\d+)\. ", text, flags=re.MULTILINE)
    return {
        name: int(n)
        for n, part in zip(parts[1::2], parts[2::2], strict=True)
        for name in re.findall(r"^check\.(\w+)\(", part, re.MULTILINE)
    }


def listed(text):
    """The numbers that "1, 3 to 5 and 8" lists."""
    for part in re.split(", | and ", text):
        first, *last = map(int, part.split(" to "))
        yield from range(first, (last or [first])[0] + 1)


def compares_gradients(check):
    if isinstance(check.reference, type) and issubclass(check.reference, Module):
        return True
    return check.gradients and any(
        check._observe(check.reference, case).gradients for case in check.all_cases()
    )


@pytest.mark.parametrize("path", sorted(EXERCISES.glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_a_set_says_which_of_its_checks_compare_gradients(path):
    """Where no statement asks for gradients, a right answer needs none."""
    chapter = importlib.import_module(f"textbook.checks.chapter_{path.stem[:2]}")
    cells = nbformat.read(path, as_version=4).cells
    header = " ".join(cells[0].source.split())
    compared = {name for name, check in exercises_of(chapter).items() if compares_gradients(check)}
    said = re.search(r"In exercises? ([\d, toand]+) the gradients of your results", header)
    if said is None:
        assert not compared or "Tensors must stay tensors" in header
        return
    numbers = numbers_of_exercises(cells)
    assert {numbers[name] for name in compared} == set(listed(said[1]))


@pytest.mark.parametrize("path", sorted(EXERCISES.glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_a_set_begins_with_the_line_of_progress(path):
    codes = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert codes[0].source == INSTALLING
    assert codes[1].source.endswith(f'\n\nprogress.show("{path.stem[:2]}")')
