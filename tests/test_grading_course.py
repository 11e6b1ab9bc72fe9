"""What an instructor asks for: deadlines, an appeal, sets that were assigned, statistics."""

import copy
import csv
import json
import os
import re
import zipfile
from datetime import UTC, datetime

import mini_book
import nbformat
import pytest
from nbgrader.api import Gradebook
from test_grading_workers import SOURCE, hand_in

from authoring import preflight
from authoring.grading import command, deadlines, gradescope, statistics
from authoring.grading.course import Course
from authoring.grading.deadlines import Deadlines
from authoring.grading.desk import Desk, nothing_told
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import GradingError, Place
from authoring.sources import read_exercises

SET = "01_short"
MORE = {SET: SOURCE, "02_more": SOURCE}


@pytest.fixture
def judged(monkeypatch):
    """Give each notebook a point for 42, without running anything; the list of what was asked."""
    asked = []

    def grade(desk, task):
        asked.append(task.set)
        told = nothing_told(task.notes)
        if task.content:
            answer = "".join(json.loads(task.content)["cells"][0]["source"])
            told |= {"points": {"answer": float("42" in answer)}, "answers": {"answer": "x"}}
        return told

    monkeypatch.setattr(Desk, "__init__", lambda *_: None)
    monkeypatch.setattr(Desk, "limit", 60)
    monkeypatch.setattr(Desk, "grade", grade)
    return asked


def rows_of(folder, sets=None, said=None, **settings):
    sets = sets or {SET: SOURCE}
    say = (said if said is not None else []).append
    return grade_folder(folder, folder.with_name("results"), sets, Settings(**settings), say)


def at(day, hour=12):
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def test_days_are_counted_from_the_deadline_and_free_ones_used_in_order():
    times = Deadlines({SET: at(10), "02_more": at(17)}, 3, 0.5, {"ben": {SET: 2}})
    came = {SET: at(12, 11), "02_more": at(19, 13)}
    assert times.late(came, "anna") == {SET: (2, 0), "02_more": (3, 2)}
    assert times.late(came, "ben") == {SET: (0, 0), "02_more": (3, 0)}
    assert times.late({SET: at(10)}, "anna") == {SET: (0, 0)}
    row = {"total": 6.0, "max": 10.0}
    assert times.columns(row, (3, 1)) == {"days late": 3, "penalty": 5.0, "counts": 1.0}
    assert times.columns(row, (9, 9))["counts"] == 0
    assert Deadlines().columns(row, None) == {}


@pytest.mark.parametrize(
    "text, why",
    [
        ("due = 3", "due = 3, but it may hold due, late_days"),
        ("[due]\n03_none = 2026-11-10T12:00:00", r"has 03_none = .* expected a set .01_short"),
        ("[due]\n01_short = 'soon'", "a time like 2026-10-20T18:00:00"),
        ("= 3", "cannot be read"),
    ],
)
def test_what_deadlines_cannot_say(tmp_path, text, why):
    (tmp_path / deadlines.FILE).write_text(text)
    with pytest.raises(GradingError, match=why):
        deadlines.read(tmp_path, [SET])


def test_the_table_has_late_days_and_rows_for_all_who_were_due(tmp_path, judged):
    folder = tmp_path / "class"
    for student, day in (("anna", 9), ("ben", 12)):
        hand_in(folder / student, "answer = 42")
        (folder / student / "timestamp.txt").write_text(f"2026-11-{day:02d} 12:00:00 UTC")
    (folder / "carla").mkdir()
    text = f"late_days = 1\npenalty = 0.5\n[due]\n{SET} = 2026-11-10T12:00:00Z\n"
    (folder / deadlines.FILE).write_text(text)
    rows_of(folder, MORE, jobs=1)
    with (tmp_path / "results" / "grades.csv").open(newline="") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    found = {name: [row[c] for c in deadlines.COLUMNS] for name, row in table.items()}
    assert found == {
        "anna": ["0", "0.0", "1.0"],
        "ben": ["2", "0.5", "0.5"],
        "carla": ["0", "0", "0"],
    }
    with Gradebook(f"sqlite:///{tmp_path / 'results' / 'gradebook.db'}") as book:
        assert book.find_submission(SET, "ben").late_submission_penalty == 0.5
    os.utime(folder / "anna" / f"{SET}.ipynb", (at(14).timestamp(),) * 2)
    (folder / "anna" / "timestamp.txt").unlink()
    (folder / deadlines.FILE).write_text("file_times = true\n" + text)
    assert next(row for row in rows_of(folder, MORE) if row["student"] == "anna")["days late"] == 4


def test_a_set_that_few_handed_in_is_not_missed_by_the_others(tmp_path, judged):
    folder, said = tmp_path / "class", []
    for student in ("anna", "ben", "carla", "..eve"):
        hand_in(folder / student, "answer = 42")
    (folder / "dora").mkdir()
    (folder / "ben" / f"{SET}.ipynb").rename(folder / "ben" / "02_more.ipynb")
    rows = rows_of(folder, MORE, said)
    found = sorted((row["set"], row["student"]) for row in rows)
    assert found == [
        *((SET, name) for name in ("anna", "ben", "carla", "dora")),
        ("02_more", "ben"),
    ]
    assert [line[:27] for line in said if "taken for" in line] == ["02_more: handed in by 1 of "]
    assert said[0] == "not graded: ..eve begins with a point, so it is no student's"
    rows = grade_folder(folder, tmp_path / "named", {SET: SOURCE}, Settings(), str, MORE)
    assert len(rows) == 4, "a set that is named was assigned"


def test_an_appeal_regrades_one_and_the_table_has_what_a_person_gave(tmp_path, judged):
    folder, said = tmp_path / "class", []
    for student in ("anna", "ben", "carla"):
        hand_in(folder / student, "answer = 41")
    rows_of(folder)
    hand_in(folder / "anna", "answer = 42")
    hand_in(folder / "ben", "answer = 42")  # has changed too, but did not appeal
    del judged[:]
    rows = {row["student"]: row["total"] for row in rows_of(folder, said=said, student="anna")}
    assert rows == {"anna": 1, "ben": 0, "carla": 0}
    assert said[0] == "2 rows stay as they are"
    with pytest.raises(GradingError, match="no folder eve"):
        rows_of(folder, student="eve")
    with Gradebook(f"sqlite:///{tmp_path / 'results' / 'gradebook.db'}") as book:
        grade = book.find_grade("test_answer", SET, SET, "carla")
        grade.manual_score = 0.5
        book.db.commit()
    by_hand = {row["student"]: row for row in rows_of(folder, resume=True)}["carla"]
    assert (by_hand["total"], by_hand["answer"]) == (0.5, 0.5)
    assert by_hand["problem"] == "points given by hand: answer 0.5 (was 0)"
    assert "carla,01_short,0.5,1.0" in (tmp_path / "results" / "grades.csv").read_text()
    known = (tmp_path / "results" / "grades.jsonl").read_text()
    assert "0.5" not in known, "what is remembered is the grader's own"


ASKS = (
    mini_book.EXERCISES
    + """
# %% tests="add_one_half" points=1
assert add_one(0.5) == 1.5
### BEGIN HIDDEN TESTS
assert add_one(-0.5) == 0.5
### END HIDDEN TESTS

# %% [markdown]
# Why is there no largest number?

# %% [markdown] criterion="claim" points=2
# Is the claim true?

# %% [markdown] criterion="limits" points=1
# Does it say what it does not show?
"""
)


@pytest.mark.thorough
def test_parts_and_criteria_have_points_of_their_own(tmp_path):
    path = tmp_path / "01_double.py"
    path.write_text(ASKS)
    course = Course("01_double", read_exercises(path), Place(tmp_path, "none"), (60, 60))
    assert course.maximum == {"add_one": 3, "add_one_half": 1, "claim": 2, "limits": 1}
    own = preflight.plain(course.source)
    assert course.missed(course.grade(own)) == [], "no person has to give the solution its points"
    handed_in = copy.deepcopy(course.release)
    cells = {preflight.grade_id(cell): cell for cell in handed_in.cells}
    cells["add_one"].source = "def add_one(number):\n    return int(number) + 1"
    cells["claim"].source = "Of course it is."
    handed_in.cells.remove(cells["limits"])
    answer = "One more is larger."
    handed_in.cells.insert(-1, nbformat.v4.new_markdown_cell(answer))
    graded = course.grade(preflight.plain(handed_in))
    assert graded.points == {"add_one": 3, "add_one_half": 0, "claim": 0, "limits": 0}
    assert graded.notes == ["to be read and graded by you: claim, limits"]
    page, notebook = course.feedback(graded)
    assert "Of course" not in page and "Is the claim true?" in page
    shown = nbformat.reads(notebook, as_version=4).cells
    assert answer in shown[-3].source
    marks = [cell.metadata.nbgrader for cell in shown[-2:]]
    assert [(mark.grade_id, mark.points, mark.task) for mark in marks] == [
        ("claim", 2, True),
        ("limits", 1, True),
    ]


def test_statistics_say_what_an_exercise_is_good_for(tmp_path, capsys):
    points = {"SET": {"easy": 1.0, "odd": 2.0, "hard": 4.0}}
    rows = [
        {"set": "SET", "answers": {"easy": "x"}, "easy": 1, "odd": odd, "hard": hard}
        for odd, hard in ((2, 0), (2, 0), (0, 4), (0, 4))
    ]
    rows = [row | {"total": row["easy"] + row["odd"] + row["hard"]} for row in rows]
    rows.append({"set": "SET", "answers": {}, "easy": 0, "odd": 0, "hard": 0, "total": 0})
    lines = {line["exercise"]: line for line in statistics.statistics(rows, points)}
    assert lines["easy"]["solved"] == 1 and lines["easy"]["tells apart"] is None
    assert lines["odd"] | {"set": ""} == {
        "set": "",
        "exercise": "odd",
        "points": 2,
        "notebooks": 4,
        "solved": 0.5,
        "mean": 1,
        "tells apart": -1,
    }
    for year, solved in (("2025", 0.25), ("2026", None)):
        (tmp_path / f"{year}-results").mkdir()
        found = [line | {"solved": solved} for line in lines.values()]
        statistics.write(tmp_path / f"{year}-results" / "statistics.csv", found)
    folders = [str(tmp_path / f"{year}-results") for year in (2025, 2026)]
    assert command.main(["--compare", *folders]) == 0
    assert "SET  odd       25% of 4  -" in capsys.readouterr().out
    assert command.main(["--compare", str(tmp_path)]) == 1


def test_a_package_for_gradescope_holds_one_set_and_grades(tmp_path, judged, monkeypatch):
    monkeypatch.setenv("BOOK_CALLED_FROM", str(tmp_path))
    assert command.main(["--package", "gradescope", "01"]) == 0
    with zipfile.ZipFile(tmp_path / "gradescope_01_rnn.zip") as packed:
        names = packed.namelist()
        assert packed.getinfo("run_autograder").external_attr >> 16 & 0o111
        assert packed.read("setup.sh").startswith(b"#!/usr/bin/env bash\n")
        needed = packed.read("requirements.txt").decode().splitlines()
    named = {re.match(r"[\w-]+", line)[0].lower() for line in needed}
    assert {"nbgrader", "jupytext", "numpy", "ipykernel"} <= named, "what the grader imports"
    assert {name for name in names if name.startswith("book/solutions")} == {
        "book/solutions/01_rnn/01_rnn.ipynb"
    }
    assert not [name for name in names if "__pycache__" in name or name.startswith("book/tests")]
    base = tmp_path / "autograder"
    hand_in(base / "submission", "answer = 41")
    (base / "submission_metadata.json").write_text('{"users": [{"email": "../anna@example.org"}]}')
    told = gradescope.grade(base, {SET: SOURCE}, Settings())
    assert json.loads((base / "results" / "results.json").read_text()) == told
    [test] = told["tests"]
    assert (test["name"], test["score"], test["max_score"]) == ("answer", 0, 1)
    (base / "submission" / f"{SET}.ipynb").write_text("{")
    told = gradescope.grade(base, {SET: SOURCE}, Settings())
    assert "could not be graded" in told["output"] and told["tests"][0]["status"] == "failed"


def test_on_gradescope_no_student_s_process_may_exchange_the_results(tmp_path, monkeypatch):
    """A process that an answer leaves behind would write its own once the grader has ended."""
    writable = [tmp_path, tmp_path / "source", tmp_path / "results"]
    for folder in writable:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    hand_in(tmp_path / "submission", "answer = 42")
    row = {"problem": "", "said": {}, "answer": 1.0}

    def graded(*_):
        assert not [folder for folder in writable if folder.stat().st_mode & 0o022]
        return [row]

    monkeypatch.setattr(gradescope, "grade_folder", graded)
    assert gradescope.grade(tmp_path, {SET: SOURCE}, Settings())["tests"][0]["score"] == 1


def test_the_folder_of_a_class_is_asked_for(capsys):
    with pytest.raises(SystemExit):
        command.main([])
    assert "name the folder" in capsys.readouterr().err
