"""Grading through Dask: on other machines' copies of the book, with workers that may die."""

import json
import os
import shutil
import subprocess
import sys
import time

import nbformat
import pytest
from test_grading_workers import SOURCE, hand_in

from authoring.grading import desk, scheduler
from authoring.grading.desk import Job, Task
from authoring.grading.grade import Settings, grade_folder
from authoring.grading.isolation import ROOT, GradingError
from authoring.grading.table import Memory

SET = "01_short"
ANSWERS = [f"import time\ntime.sleep(1)\nanswer = {42 - number % 2}" for number in range(8)]


def test_a_task_goes_and_comes_as_json(monkeypatch):
    monkeypatch.setattr(desk.Place, "_works", lambda place, kind: False)
    notebook = nbformat.writes(SOURCE).replace("answer = 42", "answer = 41 # é").encode()
    sent = json.loads(scheduler._sent(Task(SET, "x.ipynb", notebook, ["a remark"])))
    with desk.opened(Job({SET: SOURCE}, 5, (60, 600)), lambda line: None) as opened:
        told = scheduler._grade(opened)(sent)
        direct = opened.grade(Task(SET, "x.ipynb", notebook, ["a remark"]))
    assert json.loads(json.dumps(told)) == direct
    assert told["points"] == {"answer": 0} and told["notes"] == ["a remark"]
    missing = json.loads(scheduler._sent(Task(SET, "", None, ["nothing"])))
    assert scheduler._grade(opened)(missing)["notes"] == ["nothing"]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The book in another folder, as another machine has it, with one short set."""
    folder = tmp_path_factory.mktemp("machine") / "book"
    for name in ("authoring", "minitorch", "textbook"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("book.py", "nbgrader_config.py"):
        shutil.copy(ROOT / name, folder)
    (folder / "solutions" / SET).mkdir(parents=True)
    nbformat.write(SOURCE, folder / "solutions" / SET / f"{SET}.ipynb")
    return folder


@pytest.fixture(scope="module")
def dask(elsewhere):
    """Processes of Dask there: the scheduler, of which it gives the address, and two workers.

    They start slowly, so the tests share them; the last one ends the scheduler.
    """
    started = []

    def start(program, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments],
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(elsewhere), *sys.path])},
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    told = elsewhere.with_name("scheduler.json")
    listens = ["--host", "127.0.0.1", "--no-dashboard"]
    listening = start("scheduler", *listens, "--port", "0", "--scheduler-file", str(told))
    while not told.exists() or not told.read_text():
        assert listening.poll() is None
        time.sleep(0.1)
    address = json.loads(told.read_text())["address"]
    worker = ["worker", address, *listens, "--no-nanny", "--nthreads", "1"]
    yield address, [start(*worker), start(*worker)], listening
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("other", [{"code": "another"}, {"sets": {SET: "another"}}])
def test_an_order_for_another_book_is_refused(other):
    order = scheduler._order(Job({}, 5, (60, 600)))
    assert scheduler._job(order) == Job({}, 5, (60, 600))
    with pytest.raises(GradingError, match="another version"):
        scheduler._job(order | other)


@pytest.mark.thorough
def test_a_worker_with_another_book_is_refused(dask, elsewhere, tmp_path):
    address, _, _ = dask
    hand_in(tmp_path / "class" / "anna", "answer = 42")
    other = elsewhere / "textbook" / "other.py"
    other.touch()
    try:
        with pytest.raises(GradingError, match="process .*another version"):
            grade_folder(
                tmp_path / "class",
                tmp_path / "results",
                {SET: SOURCE},
                Settings(scheduler=address),
                print,
            )
    finally:
        other.unlink()
    with pytest.raises(GradingError, match="no Dask scheduler answers at tcp://127.0.0.1:1 "):
        list(scheduler.results_of("tcp://127.0.0.1:1", Job({}, 1, (1, 1)), [], None, print))


@pytest.mark.thorough
def test_a_worker_that_dies_costs_nothing(dask, tmp_path):
    address, workers, _ = dask
    for number, answer in enumerate(ANSWERS):
        hand_in(tmp_path / "class" / f"student {number}", answer)
    (tmp_path / "class" / "nobody").mkdir()
    results, said = tmp_path / "results", []

    def say(line):
        said.append(line)
        desks = [one for one in said if "protection: " in one]
        if len(desks) == 2 and workers[0].poll() is None:
            workers[0].kill()
            workers[0].wait()

    def rows(results, say, **settings):
        found = grade_folder(
            tmp_path / "class", results, {SET: SOURCE}, Settings(seed=5, **settings), say
        )
        assert len(found) == len(ANSWERS) + 1
        table = sorted((results / "grades.csv").read_text().splitlines())
        return sorted(found, key=lambda row: row["student"]), table

    distributed = rows(results, say, scheduler=address)
    assert workers[0].poll() is not None, "the first worker was not killed"
    assert said.index([line for line in said if "protection: " in line][1]) < len(said) - 4
    assert distributed == rows(tmp_path / "here", lambda line: None, jobs=2)
    assert len(Memory(results / "grades.jsonl", resume=True).known) == len(ANSWERS) + 1
    pages = results.glob(f"feedback/*/{SET}/{SET}.html")
    assert len(list(pages)) == len(ANSWERS)


@pytest.mark.thorough
def test_a_scheduler_that_is_lost_ends_the_run_and_leaves_the_rows(dask, tmp_path):
    address, _, listening = dask
    for number, answer in enumerate(ANSWERS):
        hand_in(tmp_path / "class" / f"student {number}", answer)

    def say(line):
        if line.startswith("2/"):
            listening.kill()
            listening.wait()

    settings = Settings(scheduler=address)
    with pytest.raises(GradingError, match="the scheduler is lost"):
        grade_folder(tmp_path / "class", tmp_path / "results", {SET: SOURCE}, settings, say)
    rows = (tmp_path / "results" / "grades.csv").read_text().splitlines()
    assert 3 <= len(rows) < 1 + len(ANSWERS)
