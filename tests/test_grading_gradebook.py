"""nbgrader's database beside the table: the same grades, once each, and nobody's work undone."""

import copy
import json
import sqlite3
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from authoring.grading import gradebook
from authoring.grading.gradebook import Records
from authoring.grading.isolation import GradingError

NAMES = ["anna", "Jürgen O'Neil", '100% & "co"; --', "<b>x", r"J\udcfcrgen", "a" * 200, "名前 🙂"]


def mark(name, *, grade=False, solution=False, points=0):
    mark = dict(schema_version=3, grade_id=name, grade=grade, solution=solution, task=False)
    return {"nbgrader": mark | {"locked": grade and not solution, "points": points}}


def make_set(*exercises):
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell("Why?", metadata=mark("why", grade=True, solution=True, points=5))
    ]
    for name in exercises:
        cells.append(v4.new_code_cell("", metadata=mark(name, solution=True)))
        cells.append(v4.new_code_cell("", metadata=mark(f"test_{name}", grade=True, points=2)))
    return v4.new_notebook(cells=cells)


SET = "01_short"
SOURCE = make_set("double", "grow")


def row(student, **points):
    return {"student": student, "set": SET, **points}


@pytest.fixture
def kept(tmp_path):
    """Open the records of a folder, for a set, as each run of the grader does."""
    (tmp_path / "results").mkdir()
    said = []

    def opened(source=SOURCE):
        return Records(tmp_path / "results", tmp_path / "class", {SET: source}, said.append)

    opened.path, opened.said = tmp_path / "results" / "gradebook.db", said
    return opened


def scores(path):
    """Student: the score of each test and whether somebody has to look at it."""
    with Gradebook(f"sqlite:///{path}", course_id="minitorch") as book:
        return {
            submission.student.id: {
                grade.name: (grade.auto_score, grade.score, grade.needs_manual_grade)
                for grade in submission.notebooks[0].grades
            }
            for submission in book.assignment_submissions(SET)
        }


def test_each_row_is_a_submission_and_again_the_same_one(kept):
    by_hand = {"why": (None, 0, True)}
    expected = {
        name: by_hand | {"test_double": (2, 2, False), "test_grow": (0, 0, False)} for name in NAMES
    }
    for _ in range(2):
        with kept() as records:
            for name in NAMES:
                records.add(row(name, double=2.0, grow=0.0), Path(f"{SET}.ipynb"))
        assert scores(kept.path) == expected
    with kept() as records:
        records.add(row("anna", double=0.0, grow=2.0), Path(f"{SET}.ipynb"))
        records.add(row("<b>x"), None)
    del expected["<b>x"]
    expected["anna"] = by_hand | {"test_double": (0, 0, False), "test_grow": (2, 2, False)}
    assert scores(kept.path) == expected
    with Gradebook(f"sqlite:///{kept.path}", course_id="minitorch") as book:
        assert {student.id for student in book.students} == set(NAMES)
        assert book.find_assignment(SET).max_score == 9
        with pytest.raises(MissingEntry):
            book.find_submission(SET, "<b>x")
    assert kept.said == []


def test_what_a_person_gave_stays_and_is_shown_again_where_the_answer_is_new(kept, tmp_path):
    with kept() as records:
        for name in ("anna", "ben"):
            records.add(row(name, double=0.0, grow=2.0), tmp_path / f"{SET}.ipynb")
    with Gradebook(f"sqlite:///{kept.path}", course_id="minitorch") as book:
        for name in ("anna", "ben"):
            grade = book.find_grade("test_grow", SET, SET, name)
            grade.manual_score = 1
            written = book.find_grade("why", SET, SET, name)
            written.manual_score, written.needs_manual_grade = 4, False
        book.db.commit()
    with kept() as records:
        records.add(row("anna", double=0.0, grow=2.0), tmp_path / f"{SET}.ipynb")
        records.add(row("ben", double=0.0, grow=0.0), tmp_path / f"{SET}.ipynb")
    found = scores(kept.path)
    assert found["anna"]["test_grow"] == (2, 1, False)
    assert found["ben"]["test_grow"] == (0, 1, True)
    assert found["anna"]["why"] == found["ben"]["why"] == (None, 4, False)


def test_a_person_s_points_for_each_criterion_are_in_the_table(kept):
    source = copy.deepcopy(SOURCE)
    for name, points in (("claim", 1), ("shown", 2)):
        task = mark(name, points=points)
        task["nbgrader"] |= {"task": True, "locked": True}
        source.cells.append(nbformat.v4.new_markdown_cell(f"Is the {name} right?", metadata=task))
    with kept() as records:
        records.add(row("anna", double=2.0, grow=2.0), Path(f"{SET}.ipynb"))
    graded = row("anna", double=2.0, grow=0.0, claim=0.0, shown=0.0, total=2.0, problem="read")
    with kept(source) as records:
        records.add(graded, Path(f"{SET}.ipynb"))
        assert records.by_hand(graded) == graded
    assert kept.said == [f"{SET} has other cells than before: made anew in gradebook.db"]
    with Gradebook(f"sqlite:///{kept.path}", course_id="minitorch") as book:
        [notebook] = book.find_submission(SET, "anna").notebooks
        grades = {grade.name: grade for grade in notebook.grades}
        assert (grades["claim"].max_score, grades["claim"].auto_score) == (1, None)
        assert grades["shown"].needs_manual_grade
        grades["claim"].manual_score, grades["shown"].manual_score = 1, 0.5
        grades["test_double"].extra_credit = 3  # a box of formgrader's beside the score
        book.db.commit()
    with kept(source) as records:
        records.add(graded, Path(f"{SET}.ipynb"))
        found = records.by_hand(graded)
    assert (found["claim"], found["shown"], found["double"], found["total"]) == (1, 0.5, 5, 6.5)
    assert found["problem"].startswith("read; points given by hand: ")
    assert scores(kept.path)["anna"]["shown"] == (None, 0.5, True)


def test_a_set_with_other_cells_is_made_anew(kept):
    with kept() as records:
        records.add(row("anna", double=2.0, grow=2.0), Path(f"{SET}.ipynb"))
    with kept(make_set("double", "shrink")) as records:
        records.add(row("anna", double=2.0, shrink=2.0), Path(f"{SET}.ipynb"))
    assert set(scores(kept.path)["anna"]) == {"why", "test_double", "test_shrink"}
    assert kept.said == [f"{SET} has other cells than before: made anew in gradebook.db"]
    worth = copy.deepcopy(SOURCE)
    worth.cells[2].metadata.nbgrader.points = 4
    with kept(), kept(worth), Gradebook(f"sqlite:///{kept.path}") as book:
        assert book.find_assignment(SET).max_score == 11


def test_a_database_that_is_busy_or_broken_costs_no_grade(kept, monkeypatch):
    with kept() as records:
        monkeypatch.setattr(gradebook.log, "exception", lambda *_: None)
        blocked = sqlite3.connect(kept.path)
        blocked.execute("begin immediate")
        records.book.db.connection().exec_driver_sql("pragma busy_timeout = 1")
        records.book.db.commit()
        records.add(row("anna", double=2.0), Path(f"{SET}.ipynb"))
        blocked.rollback()
        records.add(row("ben", double=2.0), Path(f"{SET}.ipynb"))
    assert set(scores(kept.path)) == {"ben"}
    assert kept.said == ["1 rows are not in gradebook.db (see grading.log): use --resume"]
    blocked.close()
    kept.path.write_text("no database")
    with pytest.raises(GradingError, match="gradebook.db cannot be used"):
        kept()


def test_nbgrader_finds_sources_submissions_and_times(kept, tmp_path):
    place = tmp_path / "class" / "dora" / SET
    place.mkdir(parents=True)
    for text, year in (("2026-11-20 12:00:00.0 UTC", 2026), ("yesterday", None), ("9" * 99, None)):
        (place / "timestamp.txt").write_text(text)
        with kept() as records:
            records.add(row("dora", double=2.0), place / f"{SET}.ipynb")
        with Gradebook(f"sqlite:///{kept.path}", course_id="minitorch") as book:
            at = book.find_submission(SET, "dora").timestamp
            assert (at and at.year) == year
    config = kept.path.with_name("nbgrader_config.py")
    settings = PyFileConfigLoader(config.name, path=str(config.parent)).load_config()
    course = CourseDirectory(config=settings, root=str(kept.path.parent))
    source = Path(course.format_path(course.source_directory, ".", "01_rnn"), "01_rnn.ipynb")
    assert json.loads(source.read_text(encoding="utf-8"))["cells"]
    assert Path(course.format_path(course.submitted_directory, "dora", SET)) == place
    assert course.db_url == f"sqlite:///{kept.path}"
    config.write_text("mine")
    kept()
    assert config.read_text() == "mine"
