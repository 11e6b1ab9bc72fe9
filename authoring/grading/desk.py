"""A desk: where notebooks are graded, in this program or on another machine.

It is told the sets, the seed and the limits. What it gets of a submission and what it gives back
are plain data, so it does not matter where it stands; it writes no file that stays.
"""

import contextlib
import functools
import importlib
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nbformat import NotebookNode

from authoring import preflight
from authoring.grading.course import Course
from authoring.grading.isolation import KINDS, ROOT, GradingError, Place, refuse_root
from authoring.grading.run import LONGEST_WAIT
from authoring.grading.table import content_hash
from authoring.preflight import Problem, printable

exercise = importlib.import_module("textbook.checks.exercise")
# Exercises whose tests train what the student wrote, inside a model of the grader's. They may be
# tested beside the answer where it does not work from afar; no other exercise may.
BESIDE = {"reading_plan", "Transformer", "rates", "pretrain"}
PATIENCE = 5  # who needs this many times the seconds of the set's solution is not stopped yet
EXTRA_SECONDS = 600  # for what is not the student's: starting processes, the feedback page


@dataclass
class Job:
    """What a desk is told: the sets, the seed, the seconds of a cell and of a notebook.

    ``user`` is whom the students' processes run as, where the grader is root.
    """

    sets: dict[str, NotebookNode]
    seed: int
    seconds: tuple[float, float]
    strict: bool = False
    user: str | None = None


@dataclass
class Task:
    """What a desk gets of a submission: its set, the notebook's file name and bytes, remarks."""

    set: str
    file: str
    content: bytes | None
    notes: list[str]


class Desk:
    """Sets whose solutions were graded here and got full marks."""

    def __init__(self, job: Job, scratch: Path, say: Callable[[str], None]):
        place = Place(scratch, user=job.user)
        say(f"protection: {place.kind} ({KINDS[place.kind]}); seed: {job.seed}")
        if job.strict:
            refuse_root(job.user)
        if job.strict and place.kind != "bubblewrap":
            raise GradingError("--strict needs bubblewrap, which does not work here")
        self.courses = {name: Course(name, job.sets[name], place, job.seconds) for name in job.sets}
        for course in self.courses.values():
            _check_solution(course, say)

    @property
    def limit(self) -> float:
        """The seconds after which a submission is given up."""
        longest = max(course.seconds[1] for course in self.courses.values())
        return (1 + LONGEST_WAIT) * longest + EXTRA_SECONDS

    def grade(self, task: Task) -> dict:
        """What came out, as plain data; whatever fails is told in the notes."""
        told = nothing_told(task.notes)
        course, undone = self.courses[task.set], "graded"
        try:
            if task.content is not None:
                graded = course.grade(preflight.parse(task.file, task.content))
                graded.notes = told["notes"] = [*told["notes"], *graded.notes]
                told |= {"points": graded.points, "said": graded.said, "answers": graded.answers}
                undone = "shown on a feedback page"
                told["page"], told["notebook"] = course.feedback(graded)
        except Problem as problem:
            told["notes"].append(printable(str(problem)))
        except Exception:  # one student's notebook must not end the grading of the others
            told["log"] = traceback.format_exc()
            told["notes"].append(f"could not be {undone}: see grading.log")
        return told


def nothing_told(notes: list[str]) -> dict:
    """What a desk tells of a submission before it is graded."""
    return {"points": {}, "said": {}, "answers": {}, "notes": list(notes), "log": ""}


@contextlib.contextmanager
def opened(job: Job, say: Callable[[str], None]) -> Iterator[Desk]:
    """A desk for a job, with its own draw of the cases and a scratch folder that is removed."""
    with drawn_from(job.seed), tempfile.TemporaryDirectory() as scratch:
        yield Desk(job, Path(scratch), say)


@contextlib.contextmanager
def drawn_from(seed: int):
    """Let all checks draw their cases from this seed."""
    before = dict(exercise.SEEDS)
    drawn = np.random.default_rng(seed).choice(2**31, 6, replace=False).tolist()
    exercise.SEEDS.update({False: tuple(drawn[:3]), True: tuple(drawn[3:])})
    try:
        yield
    finally:
        exercise.SEEDS.update(before)


@functools.cache
def code() -> str:
    """A hash of the code that grades."""
    parts = (ROOT / "minitorch", ROOT / "textbook", ROOT / "authoring")
    paths = sorted(path for part in parts for path in part.rglob("*.py"))
    return content_hash(*(path.read_bytes() for path in paths))


def _check_solution(course: Course, say):
    limits, course.seconds = course.seconds, tuple(PATIENCE * limit for limit in course.seconds)
    graded = course.grade(preflight.plain(course.source))
    missed = course.missed(graded)
    if missed and BESIDE.issuperset(missed):
        course.beside = {f"test_{name}" for name in missed}
        graded = course.grade(preflight.plain(course.source))
        say(
            f"{course.name}: checked in the student's process, where who sets out to deceive can: "
            + ", ".join(missed)
        )
        missed = course.missed(graded)
    if missed:
        failed = [f"{name} ({graded.said.get(name, 'not tested')})" for name in missed]
        reason = "; ".join([f"failed: {', '.join(failed)}", *graded.notes])
        raise GradingError(
            f"the solution of {course.name} itself does not get full marks here ({reason}): "
            "grade when python book.py test passes"
        )
    course.feedback(graded)  # so that what it takes is loaded before the processes are forked
    course.seconds = tuple(map(max, limits, (PATIENCE * taken for taken in graded.seconds)))
    cell, whole = course.seconds
    say(
        f"{course.name}: the solution gets full marks ({graded.seconds[1]:.0f} s); "
        f"a cell may take {cell:.0f} s, a notebook {whole:.0f} s"
    )
