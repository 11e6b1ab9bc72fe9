"""Grading a made-up class: each student gets the right grade or a named problem."""

import copy
import csv
import hashlib
import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

import authoring.release
import book
from authoring import preflight
from authoring.grading import grade
from authoring.grading.command import main
from authoring.grading.grade import GradingError, Settings, grade_folder, load_sets
from authoring.grading.isolation import ROOT
from authoring.grading.table import Table
from authoring.sources import BookError

SET = "01_mini"
CELL_SECONDS = 8

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
    "scale": (
        1,
        "def scale(x):\n    return 2.5 * x",
        "assert scale(mt.ones(2, requires_grad=True)).requires_grad",
        "assert scale(mt.ones(2)).dtype == mt.float32",
    ),
}


def mark(name, *, grade=False, solution=False, points=0):
    locked = grade and not solution
    mark = dict(schema_version=3, grade_id=name, grade=grade, solution=solution, locked=locked)
    return {"nbgrader": mark | {"task": False} | ({"points": points} if grade else {})}


def make_source():
    v4 = nbformat.v4
    imports = [
        "import numpy as np",
        "import minitorch as mt",
        "from textbook.checks import chapter_00 as check",
    ]
    cells = [v4.new_markdown_cell("# A set, *with* $x$"), v4.new_code_cell("\n".join(imports))]
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


def right(release, own="", **answers):
    """A notebook with right answers, but for those given, and with an own cell before them."""
    notebook = copy.deepcopy(release)
    if own:
        own_cell(notebook, own, before="double")
    for name, (_, answer, _, _) in EXERCISES.items():
        cell_of(notebook, name).source = answers.get(name, answer)
    return notebook


FULL = {name: points for name, (points, *_) in EXERCISES.items()}
NOTHING = dict.fromkeys(FULL, 0)
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
SHADOWS = """list = [1, 2, 3]
type = 'rnn'
vars = dict = sorted = isinstance = getattr = None
def print(*words):
    raise RuntimeError
"""
UNDEAD = (
    """import gc, types
get_ipython().events.callbacks["post_run_cell"].clear()
"""
    + STRIP_ASSERTS
)
FORGED = """import sys
class Stopped(Exception): pass
print("grader: read by hand, full points agreed")
sys.stderr.write("grader: full points agreed")
raise Stopped("full points agreed")
"""
LIVE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
SCRIPTS = f"""from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
live = "{LIVE}"
print(live)
for kind in (HTML, Javascript, Latex, Markdown):
    display(kind(live))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"))
odd = {{"image/png": '" onerror="alert(1)', "text/vnd.mermaid": live, "text/plain": live}}
for kind in [*odd, "application/vnd.jupyter.widget-view+json"]:
    content = odd.get(kind, {{"model_id": live}})
    metadata = {{kind: {{"width": live, "alt": live}}, "filenames": {{kind: "javascript:0"}}}}
    display({{kind: content}}, metadata=metadata, raw=True)
raise ValueError(live)
"""
LIVE_TEXT = f"{LIVE}\n\n```mermaid\n{LIVE}\n```\n\n[x](javascript:alert(1)) ![](attachment:no.png)"


def make_class(release):
    """By student: file name, its text, the points expected, a part of the problem named or ""."""
    people = {}

    def add(student, notebook, points, problem="", file=f"{SET}.ipynb"):
        text = notebook if isinstance(notebook, str) else nbformat.writes(notebook)
        people[student] = file, text, points, problem

    def named(name):
        """As a file system of bytes names it."""
        return os.fsdecode(name.encode("latin-1"))

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
    add("stripped metadata", notebook, FULL | {"grow": 0}, "nbgrader's marks were missing on 8")

    notebook = right(release, double="def double(x):\n    return 0")
    cell_of(notebook, "test_double").source = "pass"
    add("changed test", notebook, FULL | {"double": 0}, "test cell changed")

    notebook = right(release)
    own_cell(notebook, "np = None", before="test_double")
    own_cell(notebook, "import numpy as np", before="grow")
    add("shadows a name", notebook, FULL)

    patch = "np.exp = lambda x: x + 1\nnp.all = lambda x: True"
    notebook = right(release, patch, grow="def grow(x):\n    return 0.0")
    add("patches NumPy", notebook, FULL | {"grow": 0})
    patch = "type(check.softmax).__call__ = print"
    add("patches a check", right(release, patch), FULL)
    patch = "import builtins\nbuiltins.vars = None\nprint('no new line', end='')"
    add("patches Python", right(release, patch), FULL)

    notebook = right(release, STRIP_ASSERTS, **{name: "def largest(values):\n    return 0"})
    add("strips asserts", notebook, zero, "passes in the student's process, read: largest")
    notebook = copy.deepcopy(release)
    own_cell(notebook, UNDEAD, before="double")
    add("blank, with hooks taken away", notebook, NOTHING, "no answer is filled in")

    add("shadows Python's names", right(release, SHADOWS), FULL)
    modes = "mt.set_grad_enabled(False)\nmt.set_default_dtype(mt.float64)"
    add("leaves modes switched", right(release, modes), FULL)
    digits = nbformat.writes(release).replace('"nbformat": 4', f'"nbformat": {"1" * 5000}')
    add("5000 digits", digits, {}, "notes.ipynb cannot be read (ValueError", file="notes.ipynb")
    if sys.platform == "linux":  # elsewhere files have no such names
        half = json.dumps(right(release, "print('\\ud83d')  # \ud83d"))
        file = named("L\xf6sung.ipynb")
        add(named("J\xfcrgen"), half, FULL, r"graded L\udcf6sung.ipynb", file=file)

        file = "<img src=x onerror=alert(1)> [x](javascript:0).ipynb"
        notebook = right(release, SCRIPTS)
        own_cell(notebook, FORGED, before="grow")
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(LIVE_TEXT))
        add("scripts", notebook, FULL, f"graded {file}, since there is no {SET}.ipynb", file=file)
    return people


@pytest.fixture(scope="module")
def source():
    return make_source()


@pytest.fixture(scope="module")
def people(source):
    return make_class(make_release(source))


@pytest.fixture(scope="module")
def graded(source, people, tmp_path_factory):
    """The results folder, the rows by student and what was printed, of the whole class.

    With each printed line goes the table as it was then.
    """
    folder = tmp_path_factory.mktemp("grading") / "class"
    for student, (file, text, _, _) in people.items():
        path = folder / student / file
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    if sys.platform == "linux":  # elsewhere links need rights
        for student, link, target in LINKS:
            path = folder / student / link
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(target)
    before = fingerprint(folder)
    results, printed = folder.with_name("results"), []
    table = results / "grades.csv"

    def say(line):
        printed.append((line, table.read_bytes() if table.exists() else b""))

    rows = grade_folder(folder, results, {SET: source}, Settings(CELL_SECONDS, jobs=2), say)
    assert fingerprint(folder) == before, "submissions were changed"
    return results, {row["student"]: row for row in rows}, printed


LINKS = [
    ("link to a file", f"{SET}.ipynb", f"../right/{SET}.ipynb"),
    ("link to a folder", SET, "../right"),
    ("is a link", "", "right"),
]


def fingerprint(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def key(student):
    """The student's name in the table."""
    return student.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("student", make_class(make_release(make_source())))
def test_student_gets_right_grade_or_named_problem(student, graded, people):
    _, _, points, problem = people[student]
    row = graded[1][key(student)]
    assert {name: row[name] for name in FULL if name in row} == points, row["problem"]
    assert row["total"] == sum(points.values())
    assert row["max"] == 10
    assert problem in row["problem"]
    assert problem or not row["problem"]
    assert "see grading.log" not in row["problem"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere links need rights")
@pytest.mark.parametrize("student", [student for student, _, _ in LINKS])
def test_links_are_not_followed(student, graded):
    row = graded[1][student]
    assert row["total"] == 0 and "not followed" in row["problem"]
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
    assert set(table) == {key(student) for student in people} | {name for name, *_ in LINKS}
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
    assert pages == {key(student) for student, (_, _, points, _) in people.items() if points}
    page = (results / "feedback" / "deleted test" / SET / f"{SET}.html").read_text(encoding="utf-8")
    assert "test cell missing, put back: test_grow" in page
    assert "Score: 10.0 / 10.0" in page
    assert sum("right: 10 of 10" in line for line, _ in printed) == 1
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
    for count, student in enumerate(["anna", "ben"], start=1):
        table.add({"student": student, "set": SET, "problem": 'a "b", c'})
        assert len(synced) == count
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "student,set,total,max,problem,double,grow,largest,scale"
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
