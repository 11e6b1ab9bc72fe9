"""The examples in the statements of the exercises are what the model answers give."""

import doctest
import re
from functools import cache
from pathlib import Path

import pytest

from authoring.sources import exercise_sets, read_exercises

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^```pycon\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@cache
def cells_of(path):
    return read_exercises(path).cells


def role(cell):
    """What nbgrader knows of a cell."""
    return cell.metadata.get("nbgrader", {})


def examples():
    """(set, heading, example) of all sets."""
    for path in exercise_sets(ROOT):
        heading = ""
        for cell in cells_of(path):
            if cell.cell_type == "markdown":
                heading = re.search(r"^## (\d+)\. |$", cell.source, re.MULTILINE)[1] or heading
                for number, example in enumerate(EXAMPLE.findall(cell.source), start=1):
                    name = f"{path.stem[:2]}.{heading} {number}"
                    yield pytest.param(path, example, id=name)


def answers_of(path):
    """The names that a set with its model answers defines, as far as its last example needs."""
    cells, names = cells_of(path), {}
    last = max(i for i, cell in enumerate(cells) if EXAMPLE.search(cell.source))
    end = next(i for i in range(last, len(cells)) if role(cells[i]).get("solution")) + 1
    for cell in cells[:end]:
        if cell.cell_type == "code" and not role(cell).get("grade"):
            exec(cell.source, names)
    return names


@pytest.fixture(scope="module")
def answered():
    """``answers_of``, once for each set, and forgotten after this file."""
    return cache(answers_of)


@pytest.mark.parametrize(("path", "example"), list(examples()))
def test_an_example_is_what_the_model_answer_gives(path, example, answered):
    said = []
    test = doctest.DocTestParser().get_doctest(
        example, dict(answered(path)), path.stem, str(path), 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
