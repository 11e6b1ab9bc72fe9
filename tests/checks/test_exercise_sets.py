"""The exercise sets as students get them: every blank defines, and its check says so."""

import re
from pathlib import Path

import nbformat
import pytest

from minitorch.checks import CheckFailed

EXERCISES = Path(__file__).resolve().parents[2] / "exercises"


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
        checks += 1
        with pytest.raises(CheckFailed, match="not solved yet"):
            exec(cell.source, names)
    assert 6 <= exercises <= 10
    assert checks >= exercises
