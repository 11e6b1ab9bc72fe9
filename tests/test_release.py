"""What students get: complete, checks that say what they say here, and no answer in it."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import minitorch as mt
from authoring.grading.class_page import plain_form
from authoring.release import folder as release
from authoring.release.checks import ONLY_FOR_INSTRUCTORS, hand_out_checks
from authoring.release.outcomes import Numbers, _outcome, written
from authoring.sources import BookError, exercise_sets, read_exercises
from textbook.checks import recorded, stored
from textbook.checks.compare import difference
from textbook.checks.errors import in_words
from textbook.checks.released import read_outcome
from textbook.checks.stored import read
from textbook.checks.trial import Outcome

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ["08"]  # tests/released_book.py compares all
LINK = re.compile(r'\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"')
# Programs that a student is to judge: the right ones among them are right answers elsewhere.
TO_JUDGE = {"rotate": "chapter_08.rotary._rotary"}  # the only one, in all chapters


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    """The book as students get it, with checks as they are here."""
    place = tmp_path_factory.mktemp("handed out") / "book"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "hand_out_checks", lambda folder: None)
        release.hand_out(ROOT, place)
    return place


@pytest.fixture(scope="module")
def some_chapters(tmp_path_factory):
    """The book as students get it, with the checks of some chapters."""
    place = tmp_path_factory.mktemp("released") / "book"
    with pytest.MonkeyPatch.context() as patch:
        chapters = [f"chapter_{number}" for number in CHAPTERS]
        patch.setattr(release, "hand_out_checks", lambda f: hand_out_checks(f, chapters))
        release.hand_out(ROOT, place)
    return place


@pytest.fixture(scope="module")
def all_chapters(tmp_path_factory):
    """The book as students get it."""
    place = tmp_path_factory.mktemp("released whole") / "book"
    release.hand_out(ROOT, place)
    return place


@pytest.fixture(scope="module")
def public():
    """The modules of all chapters, as students get them."""
    paths = (ROOT / "textbook" / "checks").glob("chapter_*/*.py")
    parts = [path for path in paths if not path.stem.endswith("_key")]
    return {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in parts}


# The folder


def run(place, *arguments):
    command = [sys.executable, "-P", *map(str, arguments)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


def test_students_get_the_book_without_solutions(handed_out):
    names = {path.name for path in handed_out.iterdir()}
    assert {"book.py", "docs", "exercises", "minitorch", "notebooks", "textbook"} <= names
    assert not {"solutions", "tests", "authoring"} & names
    with pytest.raises(BookError, match="is not empty"):
        release.hand_out(ROOT, handed_out)


def pages(place):
    """The text of each page and notebook."""
    for path in place.rglob("*.md"):
        yield path, path.read_text(encoding="utf-8")
    for path in place.rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path, "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def test_all_links_lead_somewhere(handed_out):
    lost = []
    for path, text in pages(handed_out):
        for link in map("".join, LINK.findall(text)):
            target = unquote(link.split("#")[0])
            if not re.match("[a-z]+:", link) and not (path.parent / target).exists():
                lost.append(f"{path.relative_to(handed_out)}: {link}")
    assert not lost


def test_no_page_promises_what_is_not_there(handed_out):
    for name in ("README.md", "docs/window.md"):
        text = (handed_out / name).read_text(encoding="utf-8")
        assert "whole book" not in text
        assert set(re.findall(r"book\.py (\w+)", text)) <= {"lab", "race"}
        assert not re.search("solutions/|authoring/|git pull", text)


@pytest.mark.parametrize("command", ["test", "grade", "site", "experiment"])
def test_commands_that_students_do_not_have_say_so(handed_out, command):
    told = run(handed_out, "book.py", command)
    assert told.returncode == 1
    assert f"is for students: it has `lab` and `race`, not `{command}`" in told.stderr


def test_help_names_what_students_have(handed_out):
    named = re.findall(r"book\.py (\w+)", run(handed_out, "book.py").stdout)
    assert named == ["lab", "race", "race"]


# The checks


def bodies(tree):
    """The forms of all functions and methods that hold more than a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body and not isinstance(body[0], ast.Raise):
                alone = ast.FunctionDef("answer", node.args, body, [])
                yield plain_form(ast.unparse(ast.fix_missing_locations(alone))), node.name


def solutions():
    """The functions and methods of all answers, by form."""
    for path in exercise_sets(ROOT):
        for cell in read_exercises(path).cells:
            if not cell.metadata.get("nbgrader", {}).get("solution"):
                continue
            for statement in ast.parse(cell.source).body:
                inner = statement.body if isinstance(statement, ast.ClassDef) else [statement]
                for function in [node for node in inner if isinstance(node, ast.FunctionDef)]:
                    yield next(bodies(ast.Module([function], [])), (None, None))[0]


def test_no_solution_is_left(public):
    known = set(solutions()) - {None}
    assert len(known) > 120
    assert [
        (module, name)
        for module, tree in public.items()
        for form, name in bodies(tree)
        if form in known
    ] == []


def test_no_model_answer_and_no_hidden_case_is_left(public):
    """What stands in keys alone has no place in the modules beside them."""
    assert len(public) > 130
    for module, tree in public.items():
        for node in ast.walk(tree):
            assert getattr(node, "attr", None) != "answer", module
            assert not re.fullmatch(r"_?hidden_?\w*cases", getattr(node, "arg", "") or ""), module
            assert not re.fullmatch(r"_?hidden_?\w*cases", getattr(node, "name", "") or ""), module


def test_no_module_needs_a_key(public):
    """But for hidden seeds, which are asked for where they are needed."""
    for module, tree in public.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = [node.module, *(each.name for each in node.names)]
                assert not [name for name in names if name.endswith("_key")], module


@pytest.mark.parametrize(
    ("asked", "least"), [("--third", 70), pytest.param("--beside", 200, marks=pytest.mark.thorough)]
)
def test_checks_say_what_they_say_here_and_give_no_answer(some_chapters, asked, least):
    """Of answers that are right, forbidden, and wrong in every way that has a name."""
    told = run(ROOT, ROOT / "tests" / "released_book.py", asked, some_chapters, *CHAPTERS)
    assert not told.returncode, told.stderr
    chapters = [json.loads(line) for line in told.stdout.splitlines()]
    assert [chapter["chapter"] for chapter in chapters] == CHAPTERS
    for chapter in chapters:
        assert chapter["answers"] > least
        assert chapter["other"] == []
        assert chapter["open"] == []
        assert all(place.endswith(TO_JUDGE.get(name, "?")) for name, place in chapter["given"]), (
            chapter["given"]
        )
        assert chapter["released"] < chapter["home"]


@pytest.mark.thorough
def test_right_answers_pass_in_all_chapters(all_chapters):
    """What a check takes from its model answer, beside the results, has to be stored."""
    told = run(ROOT, ROOT / "tests" / "released_book.py", all_chapters)
    assert not told.returncode, told.stderr
    chapters = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(chapters) == 14
    for chapter in chapters:
        refused = [other for other in chapter["other"] if other[1] == "passed"]
        assert (refused, chapter["open"]) == ([], []), chapter["chapter"]


@pytest.mark.parametrize("pattern", ONLY_FOR_INSTRUCTORS)
def test_no_key_and_no_table_of_mistakes_is_handed_out(some_chapters, pattern):
    assert list((ROOT / "textbook" / "checks").glob(pattern))
    assert not list(some_chapters.glob(f"textbook/checks/{pattern}"))


def test_files_of_outcomes_hold_no_code(some_chapters):
    paths = sorted((some_chapters / "textbook" / "checks" / "outcomes").iterdir())
    assert [path.name for path in paths] == [f"chapter_{number}.npz" for number in CHAPTERS]
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            assert {file[name].dtype.kind for name in file.files} <= set("biuf")


@pytest.mark.parametrize(
    "value",
    [
        mt.tensor(2.5, dtype=mt.float64),
        (mt.tensor([[1, 2]]), [True, None], {"a": -np.inf, 3: "b", (1, 2): np.arange(3)}),
        {"the result": mt.zeros(0, 2).bool(), "number": np.int64(2**40)},
    ],
)
def test_a_value_is_read_as_it_was_written(value):
    found = Numbers()
    text = json.dumps(written(value, found))
    numbers = {kind: np.concatenate(rows) for kind, rows in found.rows.items()}
    again = read(json.loads(text), numbers)
    assert difference(again, value, "it") is None and difference(value, again, "it") is None


def test_what_cannot_be_stored_is_named():
    with pytest.raises(TypeError, match="an outcome holds <object"):
        written({"the result": [object()]}, Numbers())


def test_an_error_is_read_as_it_was_written():
    outcome = read_outcome(_outcome(Outcome(error=KeyError("a: b")), Numbers()), {})
    assert in_words(outcome.error) == "KeyError: 'a: b'"


def test_what_was_recorded_is_looked_up(monkeypatch):
    def scaled(x, factor):
        return factor * x

    x, given = mt.tensor([1.0, 2.0], dtype=mt.float64), {}
    monkeypatch.setattr(recorded, "notes", [given])
    right = recorded.recorded(scaled)(x, 3)
    monkeypatch.setattr(stored, "calls", given)
    monkeypatch.setattr(stored, "RELEASED", True)
    found = recorded.recorded(scaled)
    assert found(x + 1e-12, 3) is right
    with pytest.raises(stored.NotStored, match="scaled of these arguments"):
        found(x, 4)
