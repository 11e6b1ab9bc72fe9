"""Grading a made-up class: each student gets the right grade or a named problem."""

import copy
import csv
import hashlib
import os
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

import authoring.release
import book
from authoring import preflight
from authoring.grading import grade, isolation
from authoring.grading.command import main
from authoring.grading.grade import Settings, grade_folder, load_sets
from authoring.grading.isolation import ROOT, GradingError
from authoring.grading.table import Table
from authoring.preflight import printable
from authoring.sources import BookError
from tests.accidents import (
    FULL,
    SET,
    cell_of,
    hand_in,
    is_as_expected,
    is_quick,
    make_class,
    make_release,
    make_source,
    mark,
    own_cell,
    right,
)

CELL_SECONDS = 8


@pytest.fixture(scope="module")
def source():
    return make_source()


@pytest.fixture(scope="module")
def people(request, source):
    whole = make_class(make_release(source))
    if request.config.getoption("all"):
        return whole
    return {name: given for name, given in whole.items() if is_quick(name, given[2])}


@pytest.fixture(scope="module")
def graded(source, people, tmp_path_factory):
    """The results folder, the rows by student and what was printed, of the whole class.

    With each printed line goes the table as it was then.
    """
    folder = tmp_path_factory.mktemp("grading") / "class"
    hand_in(folder, people)
    before = fingerprint(folder)
    results, printed = folder.with_name("results"), []
    table = results / "grades.csv"

    def say(line):
        printed.append((line, table.read_bytes() if table.exists() else b""))

    rows = grade_folder(folder, results, {SET: source}, Settings(CELL_SECONDS, jobs=2), say)
    assert fingerprint(folder) == before, "submissions were changed"
    return results, {row["student"]: row for row in rows}, printed


def fingerprint(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "student",
    [
        pytest.param(name, marks=() if is_quick(name, points) else pytest.mark.thorough)
        for name, (_, _, points, _) in make_class(make_release(make_source())).items()
    ],
)
def test_student_gets_right_grade_or_named_problem(student, graded, people):
    _, _, points, problem = people[student]
    row = graded[1][printable(student)]
    assert is_as_expected(row, points, problem), row
    if "not followed" in problem:
        assert not (graded[0] / "feedback" / student).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files have no such names")
def test_nothing_in_a_feedback_page_is_live_and_no_remark_is_forged(graded, people):
    results, rows, _ = graded
    assert rows["scripts"]["problem"] == people["scripts"][3]
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, dict(attributes)))

    page = (results / "feedback" / "scripts" / SET / f"{SET}.html").read_text(encoding="utf-8")
    Reader().feed(page)
    tags = {tag for tag, _ in found}
    live = {"script", "svg", "iframe", "object", "embed", "form", "base", "link"}
    assert tags.isdisjoint(live), tags & live
    policy = dict(found)["meta"] | found[[tag for tag, _ in found].index("head") + 1][1]
    assert "default-src 'none'" in policy["content"]
    for tag, attributes in found:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
        assert attributes.get("src", "data:image/png").startswith("data:image/png")
    assert page.count("&lt;script&gt;alert(1)") >= 4, "the student's text is shown as text"
    assert "A set, <em>with</em> $x$" in page, "the set's own text is Markdown"


def test_table_feedback_and_summary(graded, people):
    results, rows, printed = graded
    with (results / "grades.csv").open(newline="", encoding="utf-8") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert set(table) == set(map(printable, people))
    assert list(table["right"]) == ["student", "set", "total", "max", "problem", *FULL]
    assert list(table["one wrong"].values()) == [
        "one wrong",
        SET,
        "8.0",
        "10.0",
        "",
        "0.0",
        "3.0",
        "4.0",
        "1.0",
    ]
    pages = {path.parts[-3] for path in results.glob(f"feedback/*/{SET}/{SET}.html")}
    assert pages == {printable(student) for student, (_, _, points, _) in people.items() if points}
    page = (results / "feedback" / "deleted test" / SET / f"{SET}.html").read_text(encoding="utf-8")
    assert "test cell missing, put back: test_grow" in page
    assert "Score: 10.0 / 10.0" in page
    assert sum("right: 10 of 10" in line for line, _ in printed) == 1
    page = (results / "feedback" / "one wrong" / SET / f"{SET}.html").read_text(encoding="utf-8")
    assert '<a href="#test_double">double</a> (Score: 0.0 / 2.0): AssertionError</li>' in page
    assert '<a href="#test_grow">grow</a> (Score: 3.0 / 3.0)</li>' in page
    page = (results / "feedback" / "blank" / SET / f"{SET}.html").read_text(encoding="utf-8")
    assert "(Score: 0.0 / 10.0)" in page


def test_each_row_is_in_the_table_once_it_is_known(graded):
    results, rows, printed = graded
    whole = (results / "grades.csv").read_bytes()
    tables = [table for line, table in printed if " of 10" in line]
    assert len(tables) == len(rows)
    for count, table in enumerate(tables, start=1):
        assert whole.startswith(table) and table.endswith(b"\r\n")
        assert len(list(csv.DictReader(table.decode().splitlines()))) == count


def test_an_earlier_table_stays_until_there_is_a_row(tmp_path, source, monkeypatch):
    path = tmp_path / "grades.csv"
    path.write_text("earlier")
    path.with_name("grades.csv.part").write_text("broken off")
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    table = Table(path, [source, source])
    assert path.read_text() == "earlier"
    for count, student in enumerate(["=anna", "ben"], start=1):
        table.add({"student": student, "set": SET, "problem": 'a "b", c'})
        assert len(synced) == count
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "student,set,total,max,problem,double,grow,largest,scale"
    assert lines[1].startswith("'=anna,") and table.rows[0]["student"] == "=anna"
    assert lines[2] == 'ben,01_mini,,,"a ""b"", c",,,,'
    assert [file.name for file in tmp_path.iterdir()] == ["grades.csv"]


def restored(source, notebook):
    """Sources of the restored notebook and the notes, without running anything."""
    release = make_release(source)
    text = nbformat.writes(notebook)
    notebook, notes = preflight.restore(preflight.plain(nbformat.reads(text, 4)), source, release)
    return [cell.source for cell in notebook.cells], notes


def test_untouched_notebook_is_the_source_with_its_answers(source):
    sources, notes = restored(source, right(make_release(source)))
    expected = [
        cell.source.removeprefix("### BEGIN SOLUTION\n").removesuffix("\n### END SOLUTION")
        for cell in source.cells
    ]
    assert sources == expected
    assert notes == []


@pytest.mark.parametrize("form", ["BOM", "CRLF", "equal ids", "nbformat 3", "nbformat 4.4"])
def test_whatever_the_form_of_the_file_its_answers_are_found(source, form):
    release = make_release(source)
    file, content, _, _ = make_class(release)[form]
    notebook, notes = preflight.restore(preflight.parse(file, content), source, release)
    assert [cell.source for cell in notebook.cells] == restored(source, right(release))[0]
    assert notes == []


def test_tests_stand_after_answers_that_were_moved_or_lost_their_marks(source):
    release = make_release(source)
    notebook = right(release)
    moved = notebook.cells.pop(3)
    notebook.cells.append(moved)
    sources, notes = restored(source, notebook)
    assert sources.index(source.cells[4].source) == sources.index(moved.source) + 1
    assert notes == ["test cell stood before its answer, it ran after it: test_double"]

    notebook = right(release)
    del notebook.cells[4]
    answer = nbformat.v4.new_code_cell(notebook.cells[3].source)
    notebook.cells[3] = answer
    sources, notes = restored(source, notebook)
    assert sources.index(source.cells[4].source) == sources.index(answer.source) + 1
    assert notes == [
        "no cell is marked as this answer, the other cells ran: double",
        "test cell missing, put back: test_double",
    ]


def test_a_copied_blank_below_the_answer_does_not_count(source):
    release = make_release(source)
    notebook = right(release)
    blank = copy.deepcopy(cell_of(release, "double"))
    blank.id = "copied"
    notebook.cells.insert(4, blank)
    sources, notes = restored(source, notebook)
    assert blank.source not in sources
    assert notes == ["several copies of an answer, the last one filled in counts: double"]


def test_answer_that_became_text_and_missing_imports_are_mended(source):
    notebook = right(make_release(source))
    answer = notebook.cells[3]
    notebook.cells[3] = nbformat.v4.new_markdown_cell(answer.source, metadata=answer.metadata)
    del notebook.cells[1]
    sources, notes = restored(source, notebook)
    assert sources[1] == source.cells[1].source
    assert notes == ["the answer was no code cell, it ran as code: double"]


def test_blank_is_the_stub_as_it_was_given_or_nothing(source):
    release = make_release(source)

    def blank_tests(notebook):
        notebook, notes = preflight.restore(preflight.plain(notebook), source, release)
        blank = [cell for cell in notebook.cells if cell.metadata.get("blank_answer")]
        return [preflight.grade_id(cell) for cell in blank], notes

    assert blank_tests(right(release)) == ([], [])
    everything = [f"test_{name}" for name in FULL]
    assert blank_tests(release) == (everything, ["no answer is filled in"])

    notebook = right(release)
    cell_of(notebook, "double").source = "\n"
    cell_of(notebook, "grow").source = cell_of(release, "grow").source + "\n"
    cell_of(notebook, "scale").source = cell_of(release, "scale").source + "  # not yet"
    assert blank_tests(notebook) == (["test_double", "test_grow"], [])

    for answer in ("%%time\ndef double(x):\n    return 2 * x", "double = lambda x: 2 * x"):
        notebook = right(release, double=cell_of(release, "double").source)
        own_cell(notebook, answer, before="test_double")
        elsewhere = "the answer stands in another cell, its own is blank: double"
        assert blank_tests(notebook) == ([], [elsewhere])
    notebook = right(release, double=cell_of(release, "double").source)
    own_cell(notebook, "# def double(x)\nassert double == 3", before="test_double")
    assert blank_tests(notebook) == (["test_double"], [])


def test_test_cells_import_what_they_need():
    cells = [
        nbformat.v4.new_code_cell("%matplotlib inline\nimport numpy as np, math\nimport a.b"),
        nbformat.v4.new_code_cell("from package.checks import chapter_01 as check"),
        nbformat.v4.new_code_cell("check.double(np)", metadata=mark("t", grade=True, points=1)),
    ]
    needed = preflight.needed_imports(cells, 2)
    assert needed == "import numpy as np\nfrom package.checks import chapter_01 as check"
    modules = ["numpy", "math", "a.b", "package.checks", "package.checks.chapter_01"]
    assert preflight.given_modules(cells) == modules


def test_the_notebook_of_a_set_is_found(tmp_path, source):
    release = make_release(source)
    releases = {SET: release, "02_other": nbformat.v4.new_notebook()}

    def hand_in(name, notebook=release):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    hand_in(f".ipynb_checkpoints/{SET}.ipynb")
    hand_in(f"__MACOSX/{SET}.ipynb")
    assert preflight.find(tmp_path, releases) == ({}, [])
    copy_1, _ = hand_in("a-Copy1.ipynb"), hand_in("b.ipynb")
    note = f"graded {copy_1.name}, since there is no {SET}.ipynb"
    assert preflight.find(tmp_path, releases) == ({SET: (copy_1, [note])}, [])
    better = hand_in("b.ipynb", right(release))
    several = "2 different notebooks of this set: graded "
    assert preflight.find(tmp_path, releases) == (
        {SET: (copy_1, [note, several + copy_1.name])},
        [],
    )
    copy_1.unlink()
    flat = hand_in(f"{SET}.ipynb")
    competing = {SET: (flat, [several + flat.name])}
    assert preflight.find(tmp_path, releases) == (competing, [])
    better.unlink()
    assert preflight.find(tmp_path, releases) == ({SET: (flat, [])}, [])
    nested = hand_in(f"x/{SET}/{SET}.ipynb")
    (tmp_path / "notes.ipynb").write_text("[" + "1" * 5000 + "]")
    found, (remark,) = preflight.find(tmp_path, releases)
    assert found == {SET: (nested, [])}
    assert remark.startswith("notes.ipynb cannot be read (ValueError: Exceeds the limit")


def test_a_misnamed_notebook_belongs_to_the_set_with_most_of_its_answers(tmp_path, source):
    other = copy.deepcopy(source)
    for cell in other.cells:  # both sets have an exercise `double`
        if preflight.grade_id(cell) not in (None, "double"):
            cell.metadata.nbgrader.grade_id += "_2"
    path = tmp_path / "homework.ipynb"
    sets = {SET: source, "02_other": other}
    for name in sets:
        nbformat.write(make_release(sets[name]), path)
        found = {name: (path, [f"graded homework.ipynb, since there is no {name}.ipynb"])}
        for wanted in (list(sets), [name]):
            assert preflight.find(tmp_path, sets, wanted) == (found, [])
        assert preflight.find(tmp_path, sets, list(sets.keys() - {name})) == ({}, [])


def test_a_single_notebook_without_marks_is_taken(tmp_path, source):
    path = tmp_path / "homework.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), path)
    found = {SET: (path, [f"graded homework.ipynb, since there is no {SET}.ipynb"])}
    assert preflight.find(tmp_path, {SET: source}) == (found, [])
    both = {SET: source, "02_other": source}
    assert preflight.find(tmp_path, both) == ({}, [])
    assert preflight.find(tmp_path, both, [SET]) == (found, [])


def test_whatever_is_in_a_folder_costs_one_student(tmp_path, monkeypatch):
    def find(*_):
        raise OSError("a broken disk")

    monkeypatch.setattr(preflight, "find", find)
    remark = "the files could not be looked through (OSError('a broken disk'))"
    assert grade._look(tmp_path, {}, {SET: None}) == {SET: (None, [remark])}


def test_a_folder_is_relative_to_the_shell(tmp_path, monkeypatch, capsys):
    told = []
    monkeypatch.setattr(isolation, "is_root", lambda: False)
    monkeypatch.setattr(book, "environment", lambda: sys.executable)
    monkeypatch.setattr(book, "call", lambda *command, **more: told.append(more))
    monkeypatch.chdir(tmp_path)
    for command in ("grade", "release"):
        book.COMMANDS[command](["week2"])
    (tmp_path / "week2").mkdir()
    (tmp_path / "week2" / "a letter").touch()
    monkeypatch.chdir(ROOT)
    for name, value in told[0].items():
        monkeypatch.setenv(name, value)
    assert main(["week2", "--set", "01"]) == 1
    assert f"{tmp_path / 'week2'} holds no folders" in capsys.readouterr().err
    with pytest.raises(BookError, match="week2 is not empty"):
        authoring.release.hand_out(ROOT, Path("week2"))
    assert told[0] == told[1]


def test_sets_are_chosen_by_name_or_number(tmp_path, source):
    with pytest.raises(GradingError, match="run python book.py build"):
        load_sets(tmp_path)
    for name in (SET, "02_other"):
        (tmp_path / name).mkdir()
        nbformat.write(source, tmp_path / name / f"{name}.ipynb")
    assert list(load_sets(tmp_path)) == [SET, "02_other"]
    assert list(load_sets(tmp_path, "02")) == list(load_sets(tmp_path, "02_other")) == ["02_other"]
    with pytest.raises(GradingError, match="no exercise set 03 .sets: 01_mini, 02_other."):
        load_sets(tmp_path, "03")


def test_nothing_is_graded_when_it_would_mean_nothing(tmp_path, source):
    results = tmp_path / "results"
    with pytest.raises(GradingError, match="is no folder"):
        grade_folder(tmp_path / "class", results, {SET: source}, Settings())
    student = tmp_path / "class" / "student"
    student.parent.mkdir()
    with pytest.raises(GradingError, match="expected one a student"):
        grade_folder(tmp_path / "class", results, {SET: source}, Settings())
    student.mkdir()
    with pytest.raises(GradingError, match="holds no notebook of any exercise set"):
        grade_folder(tmp_path / "class", results, {SET: source, "02_other": source}, Settings())
    assert not results.exists()
    broken = copy.deepcopy(source)
    cell_of(broken, "double").source = "### BEGIN SOLUTION\ndouble = abs\n### END SOLUTION"
    with pytest.raises(GradingError, match="does not get full marks here .failed: double"):
        grade_folder(tmp_path / "class", results, {SET: broken}, Settings())
    assert not (results / "grades.csv").exists() and not (results / "class.html").exists()
