"""Links lead somewhere, and a chapter runs as a script."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import unquote

import pytest
from mini_book import REPOSITORY

import book
from authoring.site import anchor
from authoring.sources import chapters, exercise_sets

LINK = re.compile(r"\[([^\]]*)\]\(((?:[^()\s]|\([^()\s]*\))+)\)")  # an anchor may have "(C1)"
READ = sorted(path for path in book.book_files() if path.suffix in (".ipynb", ".md"))


def prose(path):
    """The text of a page, or of a notebook's cells of text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def anchors(path):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)}


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_each_link_leads_to_a_file_and_section_that_students_have(path):
    lost = []
    for _, link in LINK.findall(prose(path)):
        file, _, section = unquote(link).partition("#")
        target = (path.parent / file).resolve() if file else path
        if not re.match("[a-z]+:", link) and (
            target not in READ or (section and section not in anchors(target))
        ):
            lost.append(link)
    assert not lost


@pytest.mark.parametrize("source", exercise_sets(REPOSITORY), ids=lambda path: path.stem)
def test_a_chapter_and_its_exercises_lead_to_one_another(source):
    name, number = source.stem, source.stem[:2]
    exercises = REPOSITORY / "exercises" / name / f"{name}.ipynb"
    chapter = REPOSITORY / "notebooks" / f"{name}.ipynb"
    last = prose(chapter).split("**Exercises**: ")[-1]
    assert LINK.match(last).groups() == (f"set {number}", f"../exercises/{name}/{name}.ipynb")
    there = f"chapter {number}", f"../../notebooks/{name}.ipynb"
    assert there in LINK.findall(prose(exercises).split("\n## ")[0])


@pytest.mark.thorough
def test_a_chapter_runs_as_a_script():
    """One is enough: ruff refuses names that only a notebook knows, and nbval runs all chapters."""
    command = [sys.executable, chapters(REPOSITORY)[0].relative_to(REPOSITORY)]
    environment = os.environ | {"MINITORCH_BOOK": "quick", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
