"""Grading a made-up class: each student gets the right grade or a named problem."""

import copy
import csv
import hashlib
import sys

import nbformat
import pytest

import authoring.release
from authoring import preflight
from authoring.grading import ROOT, GradingError, grade_folder, load_sets

SET = "01_mini"
CELL_SECONDS = 4

EXERCISES = {  # name: points, right answer, public test, hidden test
    "double": (
        2,
        "def double(x):\n    return 2 * x",
        "assert np.all(double(np.arange(3)) == [0, 2, 4])",
        "assert double(-1.5) == -3",
    ),
    "grow": (
        3,
        "def grow(x):\n    return np.exp(x) - 1",
        "assert abs(grow(1.0) - 1.718281828) < 1e-6",
        "assert grow(0.0) == 0",
    ),
    "largest": (
        4,
        "def largest(values):\n    best = values[0]\n    for value in values:\n"
        "        best = max(best, value)\n    return best",
        "assert largest([1, 3, 2]) == 3",
        "assert largest([-2, -1]) == -1",
    ),
}


def mark(name, *, grade=False, solution=False, points=0):
    locked = grade and not solution
    mark = dict(schema_version=3, grade_id=name, grade=grade, solution=solution, locked=locked)
    return {"nbgrader": mark | {"task": False} | ({"points": points} if grade else {})}


def make_source():
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("# A set"), v4.new_code_cell("import numpy as np")]
    for name, (points, answer, public, hidden) in EXERCISES.items():
        test = f"{public}\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
        cells += [
            v4.new_markdown_cell(f"## Write `{name}`"),
            v4.new_code_cell(
                f"### BEGIN SOLUTION\n{answer}\n### END SOLUTION",
                metadata=mark(name, solution=True),
            ),
            v4.new_code_cell(test, metadata=mark(f"test_{name}", grade=True, points=points)),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"mini-{number}"
    return v4.new_notebook(cells=cells, metadata={"kernelspec": preflight.KERNELSPEC})


def make_release(source):
    return authoring.release.release(ROOT, source)


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if preflight.grade_id(cell) == name)


def own_cell(notebook, source, before):
    place = notebook.cells.index(cell_of(notebook, before))
    notebook.cells.insert(place, nbformat.v4.new_code_cell(source))


def right(release, **answers):
    """A notebook with right answers, but for those given."""
    notebook = copy.deepcopy(release)
    for name, (_, answer, _, _) in EXERCISES.items():
        cell_of(notebook, name).source = answers.get(name, answer)
    return notebook


FULL = {"double": 2, "grow": 3, "largest": 4}
NOTHING = {"double": 0, "grow": 0, "largest": 0}
ENDLESS = "def largest(values):\n    while True:\n        pass"
DEAF = (
    "def largest(values):\n    while True:\n        try:\n            while True:\n"
    "                pass\n        except BaseException:\n            pass"
)
STRIP_ASSERTS = """import ast
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Strip())"""
HUNGRY = """def largest(values):
    try:
        bytearray(6 * 2**30)
    except MemoryError:
        return max(values)"""


def make_class(release):
    """By student: file name, its text, the points expected, a part of the problem named or ""."""
    people = {}

    def add(student, notebook, points, problem="", file=f"{SET}.ipynb"):
        text = notebook if isinstance(notebook, str) else nbformat.writes(notebook)
        people[student] = file, text, points, problem

    add("right", right(release), FULL)
    add("one wrong", right(release, double="def double(x):\n    return x"), FULL | {"double": 0})
    only_public = "def largest(values):\n    return max(0, *values)"
    add("passes the public tests only", right(release, largest=only_public), FULL | {"largest": 0})
    add("blank", release, NOTHING, "no answer is filled in")
    add("warns", right(release, grow="import warnings\ndef grow(x):\n    warnings.warn('odd')\n"
        "    return np.exp(x) - 1"), FULL)  # fmt: skip

    name, zero = "largest", FULL | {"largest": 0}
    add("endless", right(release, **{name: ENDLESS}), zero, f"test_{name}: stopped after")
    add("endless and deaf", right(release, **{name: DEAF}), zero, f"test_{name}: stopped after")
    dies = "import os\ndef grow(x):\n    os._exit(1)"
    add("kernel dies", right(release, grow=dies), FULL | {"grow": 0}, "test_grow: this cell ended")
    add("exits", right(release, grow="def grow(x):\n    exit()"), FULL | {"grow": 0})
    if sys.platform == "linux":  # elsewhere a process has no limit on its memory
        add("hungry", right(release, largest=HUNGRY), FULL)

    add("not JSON", "<<<<<<< HEAD\n{}", {}, "no valid JSON (line 1)")
    add("empty file", "", {}, "is empty")
    add("no notebook", "[1, 2]", {}, "no notebook")
    add(
        "misnamed", right(release), FULL, "graded my answers (1).ipynb", file="my answers (1).ipynb"
    )
    add(
        "nothing",
        "a letter",
        {},
        "no notebook of this set (handed in: letter.txt)",
        file="letter.txt",
    )

    notebook = right(release)
    copied = copy.deepcopy(cell_of(notebook, "double"))
    copied.id = "copied"
    copied.source = "def double(x):\n    return 'an older try'"
    notebook.cells.insert(notebook.cells.index(cell_of(notebook, "double")), copied)
    add("duplicate cell", notebook, FULL, "several copies of an answer")

    notebook = right(release)
    notebook.cells.remove(cell_of(notebook, "test_grow"))
    add("deleted test", notebook, FULL, "test cell missing, put back: test_grow")

    notebook = right(release, grow="def grow(x):\n    return 1")
    for cell in notebook.cells:
        cell.metadata = {}
    add("stripped metadata", notebook, FULL | {"grow": 0}, "nbgrader's marks were missing on 6")

    notebook = right(release, double="def double(x):\n    return 0")
    cell_of(notebook, "test_double").source = "pass"
    add("changed test", notebook, FULL | {"double": 0}, "test cell changed")

    notebook = right(release)
    own_cell(notebook, "np = None", before="test_double")
    own_cell(notebook, "import numpy as np", before="grow")
    add("shadows a name", notebook, FULL)

    notebook = right(release, grow="def grow(x):\n    return 0.0")
    own_cell(notebook, "np.exp = lambda x: x + 1\nnp.all = lambda x: True", before="double")
    add("patches NumPy", notebook, FULL | {"grow": 0}, "put back numpy.all, numpy.exp")

    notebook = right(release, **{name: "def largest(values):\n    return 0"})
    own_cell(notebook, STRIP_ASSERTS, before="double")
    add("strips asserts", notebook, zero, "put back code transformers")
    return people


@pytest.fixture(scope="module")
def source():
    return make_source()


@pytest.fixture(scope="module")
def people(source):
    return make_class(make_release(source))


@pytest.fixture(scope="module")
def graded(source, people, tmp_path_factory):
    """The results folder, the rows by student and what was printed, of the whole class."""
    folder = tmp_path_factory.mktemp("grading") / "class"
    for student, (file, text, _, _) in people.items():
        path = folder / student / file
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    before = fingerprint(folder)
    results, printed = folder.with_name("results"), []
    rows = grade_folder(folder, results, {SET: source}, CELL_SECONDS, printed.append)
    assert fingerprint(folder) == before, "submissions were changed"
    return results, {row["student"]: row for row in rows}, printed


def fingerprint(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("student", make_class(make_release(make_source())))
def test_student_gets_right_grade_or_named_problem(student, graded, people):
    _, _, points, problem = people[student]
    row = graded[1][student]
    assert {name: row[name] for name in FULL if name in row} == points, row["problem"]
    assert row["total"] == sum(points.values())
    assert row["max"] == 9
    assert problem in row["problem"]
    assert problem or not row["problem"]


def test_table_feedback_and_summary(graded, people):
    results, rows, printed = graded
    with (results / "grades.csv").open(newline="", encoding="utf-8") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert list(table) == sorted(people)
    assert list(table["right"]) == ["student", "set", "total", "max", "problem", *FULL]
    assert list(table["one wrong"].values()) == [
        "one wrong",
        SET,
        "7.0",
        "9.0",
        "",
        "0.0",
        "3.0",
        "4.0",
    ]
    pages = {path.parent.name for path in results.glob(f"feedback/*/{SET}.html")}
    assert pages == {student for student, (_, _, points, _) in people.items() if points}
    page = (results / "feedback" / "deleted test" / f"{SET}.html").read_text(encoding="utf-8")
    assert "test cell missing, put back: test_grow" in page
    assert "Score: 9.0 / 9.0" in page
    assert sum("right: 9 of 9" in line for line in printed) == 1


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
    assert sources[1] == "import numpy as np"
    assert notes == ["the answer was no code cell, it ran as code: double"]


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
    assert preflight.find(tmp_path, releases) == {}
    copy_1, _ = hand_in("a-Copy1.ipynb"), hand_in("b.ipynb")
    note = f"graded {copy_1.name}, since there is no {SET}.ipynb"
    assert preflight.find(tmp_path, releases) == {SET: (copy_1, [note])}
    hand_in("b.ipynb", right(release))
    found, notes = preflight.find(tmp_path, releases)[SET]
    assert found == copy_1 and notes[1] == "2 different notebooks of this set: graded a-Copy1.ipynb"
    flat = hand_in(f"{SET}.ipynb")
    assert preflight.find(tmp_path, releases) == {SET: (flat, [])}
    nested = hand_in(f"x/{SET}/{SET}.ipynb")
    assert preflight.find(tmp_path, releases) == {SET: (nested, [])}


def test_a_single_notebook_without_marks_is_taken(tmp_path, source):
    path = tmp_path / "homework.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), path)
    note = f"graded homework.ipynb, since there is no {SET}.ipynb"
    assert preflight.find(tmp_path, {SET: source}) == {SET: (path, [note])}
    assert preflight.find(tmp_path, {SET: source, "02_other": source}) == {}


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
        grade_folder(tmp_path / "class", results, {SET: source})
    student = tmp_path / "class" / "student"
    student.parent.mkdir()
    with pytest.raises(GradingError, match="expected one a student"):
        grade_folder(tmp_path / "class", results, {SET: source})
    student.mkdir()
    with pytest.raises(GradingError, match="holds no notebook of any exercise set"):
        grade_folder(tmp_path / "class", results, {SET: source, "02_other": source})
    assert not results.exists()
    broken = copy.deepcopy(source)
    cell_of(broken, "double").source = "### BEGIN SOLUTION\ndouble = abs\n### END SOLUTION"
    with pytest.raises(GradingError, match="does not get full marks here .failed: double"):
        grade_folder(tmp_path / "class", results, {SET: broken})
