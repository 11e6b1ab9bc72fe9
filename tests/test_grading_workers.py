"""Several processes at a time, the table that grows with them, and what is known from before."""

import copy
import json
import os
import re
import signal
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest

import minitorch as mt
from authoring import preflight
from authoring.grading import desk, isolation, run
from authoring.grading import grade as grade_module
from authoring.grading.course import _reason
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import KINDS, GradingError, Place
from authoring.grading.peer import Peer
from authoring.grading.table import Memory
from authoring.grading.wire import Lost, Wire
from authoring.grading.workers import results_of
from tests import harms
from textbook.checks import CheckFailed, chapter_01, chapter_09
from textbook.checks.exercise import SEEDS

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="made with fork")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Linux and macOS")
def test_what_takes_the_grader_itself_too_long_is_given_up():
    with pytest.raises(Lost, match="too slow"), run._own_seconds(0.05):
        while True:
            pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    with run._own_seconds(0.05):
        time.sleep(0.2)  # waiting is limited elsewhere, and by whoever is waited for


@forks
def test_each_task_has_its_result_and_one_that_dies_harms_no_other():
    def work(task):
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"square": task**2, "process": os.getpid()}

    results = dict(results_of(range(6), work, jobs=3, seconds=60))
    assert {task: result and result["square"] for task, result in results.items()} == {
        0: 0,
        1: 1,
        2: 4,
        3: None,
        4: 16,
        5: 25,
    }
    assert len({result["process"] for result in results.values() if result}) == 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux")
def test_each_of_several_keeps_to_a_processor():
    def work(task):
        time.sleep(0.3)
        return {"processors": sorted(os.sched_getaffinity(0))}

    allowed = sorted(os.sched_getaffinity(0))
    for jobs, several in ((1, False), (len(allowed) + 1, True)):
        used = [result["processors"] for _, result in results_of(range(jobs), work, jobs, 60)]
        assert sorted(map(len, used))[-1] == (1 if several else len(allowed))
        assert {p for processors in used for p in processors} == set(allowed)


@forks
def test_several_run_at_a_time_and_none_too_long():
    def work(seconds):
        time.sleep(seconds)
        return {}

    begin = time.monotonic()
    results = dict(results_of([1, 1.1, 1.2, 1.3, 600], work, jobs=5, seconds=8))
    assert results == {1: {}, 1.1: {}, 1.2: {}, 1.3: {}, 600: None}
    assert time.monotonic() - begin < 60


@forks
def test_those_that_run_end_with_the_one_who_waits(tmp_path):
    def work(task):
        (tmp_path / f"{task}-{os.getpid()}").touch()
        time.sleep(600 if task else 0)
        return {}

    waiting = results_of(range(3), work, jobs=2, seconds=600)
    next(waiting)
    while len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.05)
    waiting.close()
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name.partition("-")[2]), 0)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="Linux tells of it alone")
def test_no_worker_outlives_a_grader_that_is_killed(tmp_path):
    def work(task):
        (tmp_path / str(os.getpid())).touch()
        time.sleep(600)
        return {}

    grader = os.fork()
    if grader == 0:
        for _ in results_of(range(2), work, jobs=2, seconds=600):
            pass
    while len(workers := list(tmp_path.iterdir())) < 2:
        time.sleep(0.05)
    os.kill(grader, signal.SIGKILL)
    os.waitpid(grader, 0)
    for path in workers:
        for _ in range(400):
            if not is_alive(path.name):
                break
            time.sleep(0.05)
        else:
            os.kill(int(path.name), signal.SIGKILL)
            pytest.fail("a worker is left")


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@forks
def test_a_worker_that_takes_too_much_memory_has_no_result_and_harms_no_other():
    def work(task):
        return {"length": len(bytes(task))}

    large = 3 * 2**30
    results = dict(results_of([1, large, 2], work, jobs=1, seconds=60))
    assert results == {1: {"length": 1}, large: None, 2: {"length": 2}}


PICTURES = b'[{"output_type":"display_data","metadata":{},"data":{"image/png":"%s"}}]' % (
    b"A" * 10**7
)
ENDLESS = b"[" + b"[]," * 2**23 + b"[]]"  # a file of 25 MB
CELLS = b'{"cell_type":"code","source":"","metadata":{},"outputs":[],"execution_count":null},'


def notebook_of(cells):
    return b'{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[' + cells + b"]}"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="asks Linux")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (ENDLESS, "takes too much memory"),
        (notebook_of(CELLS * 300_000 + CELLS[:-1]), "takes too much memory"),
        (notebook_of(CELLS[:-1].replace(b"[]", PICTURES)), None),
    ],
    ids=["lists", "cells", "pictures"],
)
def test_a_file_however_large_takes_a_worker_less_than_300_megabytes(content, problem):
    def look(content):
        Path("/proc/self/clear_refs").write_text("5")  # the most that it held begins anew
        before, said = held("VmRSS"), None
        try:
            preflight.parse("x.ipynb", content)
        except preflight.Problem as found:
            said = str(found)
        return {"more": held("VmHWM") - before, "said": said}

    [(_, told)] = results_of([content], look, jobs=1, seconds=120)
    assert told["said"] is None if problem is None else problem in told["said"]
    assert told["more"] < 300_000  # what the session had freed may come back, beside 192 MiB


def held(name):
    """Of this process, in KB."""
    return int(re.search(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.M)[1])


def test_memory_outlives_a_run_that_is_broken_off(tmp_path):
    path = tmp_path / "grades.jsonl"
    Memory(path, resume=False).add("a", {"total": 1})
    with path.open("a") as file:
        file.write('["b", {"tot')
    memory = Memory(path, resume=True)
    assert memory.known == {"a": {"total": 1}}
    memory.add("c", {"total": 3})
    assert Memory(path, resume=True).known == {"a": {"total": 1}, "c": {"total": 3}}
    assert Memory(path, resume=False).known == {} and not path.exists()


SOURCE = nbformat.v4.new_notebook(
    cells=[
        nbformat.v4.new_code_cell(
            "### BEGIN SOLUTION\nanswer = 42\n### END SOLUTION",
            metadata={"nbgrader": {"schema_version": 3, "grade_id": "answer", "solution": True}
            | dict(grade=False, locked=False, task=False)},
        ),
        nbformat.v4.new_code_cell(
            "assert answer == 42",
            metadata={"nbgrader": {"schema_version": 3, "grade_id": "test_answer", "points": 1}
            | dict(grade=True, solution=False, locked=True, task=False)},
        ),
    ]
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for number, student in enumerate(("anna", "ben", "carla")):
        hand_in(tmp_path / "class" / student, "answer = 42" if number else "answer = 41")
    return tmp_path / "class"


def hand_in(place, answer):
    notebook = copy.deepcopy(SOURCE)
    notebook.cells[0].source = answer
    place.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, place / "01_short.ipynb")


def test_resume_grades_what_changed(folder, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    results, said = folder.with_name("results"), []

    def run(**settings):
        said.clear()
        settings = Settings(jobs=2, seed=5, **settings)
        rows = grade_folder(folder, results, {"01_short": SOURCE}, settings, said.append)
        return {row["student"]: row["total"] for row in rows}

    assert run() == {"anna": 0, "ben": 1, "carla": 1}
    assert any(line.startswith("protection: none") and "seed: 5" in line for line in said)
    before = (results / "grades.csv").read_text(encoding="utf-8")
    assert run(resume=True) == {"anna": 0, "ben": 1, "carla": 1}
    assert said == ["3 of 3 are graded already and unchanged"]
    hand_in(folder / "anna", "answer = 42")
    (results / "feedback" / "ben" / "01_short" / "01_short.html").unlink()
    hand_in(folder / "dora", "answer = 4")
    assert run(resume=True) == {"anna": 1, "ben": 1, "carla": 1, "dora": 0}
    assert said[0] == "1 of 4 are graded already and unchanged"
    assert (results / "feedback" / "ben" / "01_short" / "01_short.html").exists()
    assert len(before.splitlines()) == 4
    lines = (results / "grades.jsonl").read_text().splitlines()
    assert len(lines) == 6 and json.loads(lines[-1])[1]["set"] == "01_short"


@forks
def test_a_row_that_the_machine_spoilt_is_graded_again(folder, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    spoils, grade = [True], desk.Desk.grade

    def dies(own, task):
        if spoils and b"answer = 41" in task.content:
            os.kill(os.getpid(), signal.SIGKILL)
        return grade(own, task)

    monkeypatch.setattr(desk.Desk, "grade", dies)
    results, said = folder.with_name("results"), []
    settings = Settings(jobs=2, resume=True)
    rows = grade_folder(folder, results, {"01_short": SOURCE}, settings, said.append)
    remarks = {row["student"]: row["problem"] for row in rows}
    assert remarks["anna"] == "could not be graded: its process ended" and not remarks["ben"]
    del spoils[:], said[:]
    rows = grade_folder(folder, results, {"01_short": SOURCE}, settings, said.append)
    assert said[0] == "2 of 3 are graded already and unchanged"
    assert not any(row["problem"] for row in rows)


def test_a_row_that_cannot_be_made_costs_one_student(folder, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    told = {"points": {"answer": 1}, "said": {}, "answers": {}, "log": "", "notes": ["\ud83d"]}
    odd = told | {"points": {"answer": "much"}, "page": "\ud83d", "notebook": "{}"}
    monkeypatch.setattr(desk.Desk, "__init__", lambda *_: None)
    monkeypatch.setattr(desk.Desk, "limit", 60)
    monkeypatch.setattr(
        desk.Desk, "grade", lambda own, task: odd if b"answer = 41" in task.content else told
    )
    monkeypatch.setattr(grade_module, "class_page", lambda *_: 1 / 0)
    said = []
    rows = grade_folder(
        folder, folder.with_name("results"), {"01_short": SOURCE}, Settings(), said.append
    )
    found = {row["student"]: (row["total"], row["problem"]) for row in rows}
    assert found["ben"] == found["carla"] == (1, r"\ud83d")
    assert found["anna"] == (0, "could not be graded: see grading.log")
    assert "class.html could not be written (see grading.log): the table has all rows" in said


def test_what_does_not_work_from_afar_is_tested_beside_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    monkeypatch.setattr(desk, "BESIDE", {"answer"})
    source = copy.deepcopy(SOURCE)
    source.cells[0].source = "### BEGIN SOLUTION\nclass Answer:\n    value = 42\n### END SOLUTION"
    source.cells[1].source = "class Derived(Answer):\n    pass\n\n\nassert Derived().value == 42"
    for student, value in {"anna": 42, "ben": 41}.items():
        hand_in(tmp_path / "class" / student, f"class Answer:\n    value = {value}")
    results, said = tmp_path / "results", []
    rows = grade_folder(
        tmp_path / "class", results, {"01_short": source}, Settings(jobs=2), said.append
    )
    assert {row["student"]: row["answer"] for row in rows} == {"anna": 1, "ben": 0}
    assert any("checked in the student's process" in line and "answer" in line for line in said)
    page = (results / "feedback" / "ben" / "01_short" / "01_short.html").read_text(encoding="utf-8")
    assert "AssertionError" in page


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux tells it alone")
def test_waiting_for_a_processor_is_known(tmp_path):
    place = Place(tmp_path)
    student = place.start(run.CHAPTERS)
    peer = Peer(Wire(student.link), False)
    try:
        before = student.seconds_without_processor()
        told = peer.ask("run", source="import os, sys\nprint(len(sys.argv))")
        assert told[0]["text"].strip() == str(3 + len(run.CHAPTERS))
        inner = student._inner_process()
        command = open(f"/proc/{inner}/cmdline", "rb").read()
        assert b"authoring.grading.student" in command and b"bwrap" not in command
        # What it computed itself meanwhile is taken off again, so this may fall by that.
        assert before > 0 and student.seconds_without_processor() > before - 1
    finally:
        student.end()


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux tells it alone")
def test_what_a_cell_starts_is_its_own(tmp_path, monkeypatch):
    place = Place(tmp_path, "none")
    student = place.start(run.CHAPTERS)
    peer = Peer(Wire(student.link), False)
    monkeypatch.setattr(run, "MEMORY", 2 * 10**9)
    started = """import os, signal, time
signal.setitimer(signal.ITIMER_REAL, 0.2)
if os.fork() == 0:
    held, begin = b"x" * 3 * 10**8, time.process_time()
    while time.process_time() < begin + 0.6:
        pass
    print("what it says is heard by nobody")
    time.sleep(600)"""
    try:
        before = student.memory()
        peer.ask("run", source=started)
        run._watch(student)
        begin = time.monotonic()
        while student.memory() < before + 2 * 10**8 and time.monotonic() < begin + 60:
            time.sleep(0.05)
        own = sum(map(isolation._computed, student._all()))
        while own - isolation._scheduled(student._inner_process(), 0) < 0.5:
            assert time.monotonic() < begin + 120
            time.sleep(0.05)
            own = sum(map(isolation._computed, student._all()))
        monkeypatch.setattr(run, "MEMORY", before + 10**8)
        with pytest.raises(Lost, match="of memory"):
            run._watch(student)
        assert peer.ask("run", source="print('still here')")[0]["text"] == "still here\n"
    finally:
        student.end()


def test_a_line_of_show_costs_nothing_and_an_assertion_does():
    names = {"mt": mt, "np": np}
    exec(harms.RIGHT, names)

    class Answers:
        def ask(self, kind, name=None):
            return names[name] if kind == "name" else None

    def judged(test):
        mark = SOURCE.cells[1].metadata["nbgrader"] | {"grade_id": "test_unroll"}
        cell = nbformat.v4.new_code_cell(test, metadata={"nbgrader": mark})
        given = "from textbook.checks import chapter_01 as check"
        cell.metadata["grading_imports"] = given
        done = run.Run(nbformat.v4.new_notebook(cells=[cell]), None, None)
        done._run_cell(0, done.cells[0], Answers(), False)
        text = "".join(output.get("text", "") for output in cell.outputs)
        return done.passed["test_unroll"], text

    asked = "check.unroll(unroll)"
    passed, text = judged(f"print(1 / 0)\nprint('never')\n{asked}")
    assert passed and "(not shown: ZeroDivisionError: division by zero)" in text
    assert "unroll" in text.partition("(not shown")[0], "the verdict stands before what is shown"
    assert judged("assert 1 / 2 == 0.5") == (True, "")
    assert not judged("print(1 / 0)")[0] and not judged(f"{asked}\ncheck.no_such(1)")[0]


def test_a_plan_is_judged_with_the_reference_s_training_once_one_s_own_has_passed():
    cell = nbformat.v4.new_code_cell(
        "check.reached(truncated_bptt, chosen_window)\ncheck.truncated_bptt(truncated_bptt)"
    )
    cell.metadata["grading_imports"] = "from textbook.checks import chapter_01 as check"
    test = run.Test(cell)
    assert [len(part.body) for part in (test.judging, test.training)] == [2, 2]
    assert not test.showing and test.asked == ["truncated_bptt", "chosen_window"]
    done = run.Run(SOURCE, None, None)
    assert done._proven(test, "test_chosen_window") == {}
    done.passed["test_truncated_bptt"] = True
    reference = chapter_01.truncated_bptt.reference
    assert done._proven(test, "test_chosen_window") == {"truncated_bptt": reference}
    test.asked.append("unroll")  # as if the test of this one asked for what the loop reaches
    assert done._proven(test, "test_unroll") == {"unroll": chapter_01.unroll.reference}


def test_a_syntax_error_is_told_as_one():
    def cell(name, **output):
        made = nbformat.v4.new_code_cell(metadata={"nbgrader": {"grade_id": name}})
        made.outputs = [nbformat.v4.new_output("error", traceback=[], **output)]
        return made

    lost = nbformat.v4.new_output(
        "error", ename="NameError", evalue="name 'total' is not defined", traceback=[]
    )
    broken = cell("total", ename="SyntaxError", evalue="expected ':' (line 1)\nmore")
    assert _reason("total", lost, [broken]) == (
        "the cell of the answer failed, SyntaxError: expected ':' (line 1)"
    )
    assert _reason("total", lost, [cell("other", ename="x", evalue="y")]) == lost.evalue


def test_strict_needs_bubblewrap(folder, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: kind == "unshare")
    monkeypatch.setattr(isolation, "is_root", lambda: False)
    settings = Settings(strict=True)
    with pytest.raises(GradingError, match="--strict needs bubblewrap"):
        grade_folder(folder, folder.with_name("results"), {"01_short": SOURCE}, settings)
    assert not (folder.with_name("results") / "grades.csv").exists()
    monkeypatch.setattr(isolation, "is_root", lambda: True)
    with pytest.raises(GradingError, match="grade --user grader"):
        grade_folder(folder, folder.with_name("results"), {"01_short": SOURCE}, settings)
    assert list(KINDS) == ["bubblewrap", "unshare", "none"]


def test_seeds_are_drawn_anew_unless_one_is_named():
    before = dict(SEEDS)
    drawn = []
    for seed in (1, 1, 2):
        with desk.drawn_from(seed):
            drawn.append(dict(SEEDS))
            assert len({*SEEDS[False], *SEEDS[True]}) == 6
    assert drawn[0] == drawn[1] != drawn[2]
    assert before == SEEDS


def test_the_library_s_parts_are_no_answers():
    helper = run.Helpers(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("parts = check.Parts({})")])
    )
    [make] = helper("textbook.checks.chapter_10", "Parts")
    parts = make({})
    x = mt.randn(2, 3)
    assert parts.layer_norm(x, mt.ones(3), mt.zeros(3), 1e-5).shape == (2, 3)
    with pytest.raises(CheckFailed, match="of the library is no answer"):
        chapter_09.layer_norm(parts.layer_norm)

    class Posing:  # as a name, which `import_module` takes
        def rpartition(self, separator):
            return "", "", "chapter_10"

        def startswith(self, start):
            return False

        def __getitem__(self, part):
            return "textbook.checks.chapter_10"

    with pytest.raises(AttributeError):
        run.Helpers(SOURCE)("textbook.checks.chapter_10", "__init__")
    odd = ("os", "textbook.chapter_10", Posing())
    for chapter, name in (("textbook.checks.chapter_10", "Block"), *((c, "Parts") for c in odd)):
        with pytest.raises(AttributeError):
            helper(chapter, name)


def test_a_verdict_that_depends_on_the_process_is_for_a_person_to_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    odd = "class Odd:\n    def __eq__(self, other):\n        return True\n\n\nanswer = Odd()"
    for student, answer in {"anna": odd, "ben": "answer = 41", "carla": "answer = 42"}.items():
        hand_in(tmp_path / "class" / student, answer)
    sets, settings = {"01_short": SOURCE}, Settings(jobs=2)
    rows = grade_folder(tmp_path / "class", tmp_path / "results", sets, settings, lambda line: None)
    problems = {row["student"]: row["problem"] for row in rows}
    assert [row["total"] for row in sorted(rows, key=lambda row: row["student"])] == [0, 0, 1]
    assert problems["anna"] == (
        "0 points, but the test passes in the student's process, read: answer"
    )
    assert problems["ben"] == problems["carla"] == ""
    page = (tmp_path / "results" / "class.html").read_text(encoding="utf-8")
    assert "answer: AssertionError" in page and "3 notebooks of 3 students" in page


def test_who_is_as_slow_as_the_solution_is_not_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    source = copy.deepcopy(SOURCE)
    slow = "import time\n\ntime.sleep(1.5)\nanswer = 42"
    source.cells[0].source = f"### BEGIN SOLUTION\n{slow}\n### END SOLUTION"
    for student, answer in {"anna": slow, "ben": slow.replace("1.5", "600")}.items():
        hand_in(tmp_path / "class" / student, answer)
    rows = grade_folder(
        tmp_path / "class", tmp_path / "results", {"01_short": source}, Settings(0.5), lambda _: 0
    )
    found = {row["student"]: (row["total"], row["problem"]) for row in rows}
    assert found["anna"] == (1, "")
    assert found["ben"][0] == 0 and "stopped after" in found["ben"][1]


def test_what_nbgrader_s_exchange_left_goes_back_with_the_feedback(folder, monkeypatch):
    monkeypatch.setattr(Place, "_works", lambda place, kind: False)
    (folder / "anna" / "timestamp.txt").write_text("2026-11-20 12:00:00 UTC")
    (folder / "anna" / "submission_secret.txt").write_text("secret")
    (folder / "ben" / "submission_secret.txt").symlink_to(folder / "anna" / "submission_secret.txt")
    (folder / "carla" / "submission_secret.txt").write_text("x" * 10_000)
    grade_folder(folder, folder.with_name("results"), {"01_short": SOURCE}, Settings(), str)
    found = {
        path.relative_to(folder.with_name("results")).as_posix()
        for name in ("timestamp", "submission_secret")
        for path in folder.with_name("results").rglob(f"{name}.txt")
    }
    assert found == {
        f"{step}/anna/01_short/{name}.txt"
        for step in ("autograded", "feedback")
        for name in ("timestamp", "submission_secret")
    }
