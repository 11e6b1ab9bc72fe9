"""The exercise sets as students get them: every blank defines, and its check says so."""

import importlib
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from authoring.alone import INSTALLING
from minitorch.nn import Module
from tests.checks.proof import exercises_of
from textbook.checks import CheckFailed

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"
NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
HEAD = r"\*(Core|Practice|Challenge) · \w+ · (\d+) minutes · (\d+) points"


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


def in_hours(minutes):
    """Minutes in words, to half an hour."""
    whole, half = divmod(round(minutes / 30), 2)
    return f"{NUMBERS[whole]}{' and a half' * half} hours"


@pytest.mark.parametrize("path", sorted(EXERCISES.glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_the_numbers_that_a_set_says_of_itself_are_those_of_its_exercises(path):
    """Each exercise's points are those of its checks; the first paragraph adds up."""
    cells = nbformat.read(path, as_version=4).cells
    points, exercises, number = Counter(), {}, 0
    for cell in cells:
        if heading := re.match(r"## (\d+)\. ", cell.source):
            kind, minutes, worth = re.search(HEAD, cell.source).groups()
            number = int(heading[1])
            exercises[number] = kind, int(minutes), int(worth)
        points[number] += cell.metadata.get("nbgrader", {}).get("points", 0)
    assert +points == {number: worth for number, (_, _, worth) in exercises.items()}
    core = {number: minutes for number, (kind, minutes, _) in exercises.items() if kind == "Core"}
    said = re.search(r"\*\*core\*\* \(([^)]+)\) takes (\d+) minutes", cells[0].source)
    assert (set(listed(said[1])), int(said[2])) == (core.keys(), sum(core.values()))
    minutes = sum(minutes for _, minutes, _ in exercises.values())
    assert (
        f"\n{NUMBERS[len(exercises)].capitalize()} exercises, {sum(points.values())} points, "
        f"about {in_hours(minutes)}."
    ) in cells[0].source


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
