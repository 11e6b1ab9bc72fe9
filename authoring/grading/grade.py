"""Grade a folder of submissions: preflight, a run of each notebook, feedback, a table of grades.

Submissions are only read. Whatever one student hands in, the others are graded: each notebook runs
in processes of its own, and what is known of it is written at once.
"""

import contextlib
import functools
import importlib
import json
import logging
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
import numpy as np
from nbformat import NotebookNode

from authoring import preflight
from authoring.grading.class_page import class_page
from authoring.grading.course import Course
from authoring.grading.isolation import KINDS, ROOT, Place
from authoring.grading.run import LONGEST_WAIT
from authoring.grading.table import Memory, Table, content_hash
from authoring.grading.workers import results_of
from authoring.preflight import Problem, printable

exercise = importlib.import_module("textbook.checks.exercise")
log = logging.getLogger(__name__)
CELL_SECONDS = 60
ALL_SECONDS = 600
# Exercises whose tests train what the student wrote, inside a model of the grader's. They may be
# tested beside the answer where it does not work from afar; no other exercise may.
BESIDE = {"reading_plan", "Transformer", "rates", "pretrain"}
PATIENCE = 5  # who needs this many times the seconds of the set's solution is not stopped yet
EXTRA_SECONDS = 600  # for what is not the student's: starting processes, the feedback page


class GradingError(Exception):
    """Why nothing can be graded, in words for the instructor."""


@dataclass
class Settings:
    """How a class is graded."""

    cell_seconds: float = CELL_SECONDS
    all_seconds: float = ALL_SECONDS
    jobs: int = 1
    resume: bool = False
    seed: int | None = None
    strict: bool = False


@dataclass
class Submission:
    """A student's notebook of one set, None where there is none, and remarks on it."""

    student: str
    set: str
    path: Path | None
    notes: list[str]
    page: Path
    key: str = ""


def load_sets(solutions: Path, wanted: str | None = None) -> dict[str, NotebookNode]:
    """The exercise sets with solutions and hidden tests, by name; `wanted` is a name or number."""
    paths = {path.stem: path for path in sorted(solutions.glob("*/*.ipynb"))}
    paths = {name: path for name, path in paths.items() if path.parent.name == name}
    chosen = {
        name: path
        for name, path in paths.items()
        if wanted is None or name == wanted or name.partition("_")[0] == wanted
    }
    if not chosen:
        if not paths:
            raise GradingError(f"no exercise set is built in {solutions}: run python book.py build")
        raise GradingError(f"there is no exercise set {wanted} (sets: {', '.join(paths)})")
    return {name: nbformat.read(path, as_version=4) for name, path in chosen.items()}


def grade_folder(
    folder: Path,
    results: Path,
    sets: dict[str, NotebookNode],
    settings: Settings,
    say=print,
    all_sets: dict[str, NotebookNode] | None = None,
) -> list[dict]:
    """Grade every student's folder in `folder`; write grades, feedback and a log into `results`.

    `all_sets`, if there are more than `sets`, tell to which set a file of another name belongs.
    Returns the rows of grades.csv. Raises `GradingError` when there is nothing to grade, or when a
    set's own solution does not get full marks here, since then no grade would mean anything.
    """
    sets, submissions = _submissions(folder, results, sets, all_sets or sets)
    results.mkdir(exist_ok=True)
    for loose in sorted(folder.glob("*.ipynb")):
        say(f"not graded: {printable(loose.name)} lies outside of the students' folders")
    seed = secrets.randbits(32) if settings.seed is None else settings.seed
    with (
        _log_to(results / "grading.log"),
        _drawn_from(seed),
        tempfile.TemporaryDirectory() as scratch,
    ):
        place = Place(Path(scratch))
        say(f"protection: {place.kind} ({KINDS[place.kind]}); seed: {seed}")
        log.info("protection %s, seed %s", place.kind, seed)
        if settings.strict and place.kind != "bubblewrap":
            raise GradingError("--strict needs bubblewrap, which does not work here")
        table = Table(results / "grades.csv", sets.values())
        memory = Memory(results / "grades.jsonl", settings.resume)
        seconds = settings.cell_seconds, settings.all_seconds
        for submission in submissions:
            submission.key = _key(submission, sets[submission.set], seconds)
        done = 0
        left = []
        for submission in submissions:
            row = memory.known.get(submission.key)
            if row is None:
                left.append(submission)
            else:
                table.add(row)
                done += 1
        if settings.resume:
            say(f"{done} of {len(submissions)} are graded already and unchanged")
        courses = {}
        for name in dict.fromkeys(submission.set for submission in left):
            courses[name] = Course(name, sets[name], place, seconds)
            _check_solution(courses[name], say)
        work = functools.partial(_graded, courses)
        longest = max((course.seconds[1] for course in courses.values()), default=0)
        limit = (1 + LONGEST_WAIT) * longest + EXTRA_SECONDS
        try:
            for submission, row in results_of(left, work, settings.jobs, limit):
                if row is None:
                    row = _row(
                        submission, courses, None, ["could not be graded: its process ended"]
                    )
                memory.add(submission.key, row)
                table.add(row)
                done += 1
                say(f"{done}/{len(submissions)} {_line(row)}")
        finally:
            page = class_page(table.rows, sets)
            (results / "class.html").write_text(page, encoding="utf-8")
    return table.rows


def _submissions(folder, results, sets, all_sets):
    """The sets to grade, and each student's submission of each."""
    students = _students(folder)
    found = [(student, _look(student, all_sets, sets)) for student in students]
    if len(sets) > 1:
        handed_in = {name for _, looked in found for name, (path, _) in looked.items() if path}
        sets = {name: source for name, source in sets.items() if name in handed_in}
    if not sets:
        raise GradingError(f"{folder} holds no notebook of any exercise set: name it with --set")
    submissions = []
    for name in sets:
        for student, looked in found:
            path, notes = looked[name]
            page = results / "feedback" / student.name / f"{name}.html"
            notes = [printable(note) for note in notes]
            submissions.append(Submission(printable(student.name), name, path, notes, page))
    return sets, submissions


def _students(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise GradingError(f"{folder} is no folder")
    students = sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(".") and path.name != "__MACOSX"
    )
    if not students:
        raise GradingError(f"{folder} holds no folders: expected one a student")
    return students


def _look(student: Path, all_sets: dict, wanted: dict) -> dict[str, tuple[Path | None, list[str]]]:
    """The student's notebook of each wanted set, None where there is none, and the remarks."""
    try:
        found, notes = preflight.find(student, all_sets, list(wanted))
        missing = None, [_nothing(student)]
    except Exception as error:  # whatever is in one student's folder, the others are graded
        found, notes = {}, []
        missing = None, [f"the files could not be looked through ({error!r:.100})"]
    looked = {name: found.get(name, missing) for name in wanted}
    return {name: (path, [*more, *notes]) for name, (path, more) in looked.items()}


def _nothing(student: Path) -> str:
    files = sorted(path.name for path in student.rglob("*") if path.is_file())
    return f"no notebook of this set (handed in: {', '.join(files[:5]) or 'nothing'})"


def _key(submission: Submission, source: NotebookNode, seconds) -> str:
    """A hash of all that a row comes from but the seed; new where the feedback page is gone."""
    content = b""
    if submission.path is not None:
        with contextlib.suppress(OSError):
            content = submission.path.read_bytes()
    missing = content and not submission.page.exists() and submission.page.parent.exists()
    return content_hash(
        submission.student,
        submission.set,
        content,
        *submission.notes,
        json.dumps(source, sort_keys=True),
        repr((seconds, bool(missing))),
        _code(),
    )


@functools.cache
def _code() -> str:
    """A hash of the code that grades."""
    parts = (ROOT / "minitorch", ROOT / "textbook", ROOT / "authoring")
    paths = sorted(path for part in parts for path in part.rglob("*.py"))
    return content_hash(*(path.read_bytes() for path in paths))


@contextlib.contextmanager
def _drawn_from(seed: int):
    """Let all checks draw their cases from this seed."""
    before = dict(exercise.SEEDS)
    drawn = np.random.default_rng(seed).choice(2**31, 6, replace=False).tolist()
    exercise.SEEDS.update({False: tuple(drawn[:3]), True: tuple(drawn[3:])})
    try:
        yield
    finally:
        exercise.SEEDS.update(before)
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("textbook.checks.chapter_"):
                for value in vars(module).values():
                    if isinstance(value, exercise.Exercise):
                        value.known.clear()


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
        reason = "; ".join([f"failed: {', '.join(missed)}", *graded.notes])
        raise GradingError(
            f"the solution of {course.name} itself does not get full marks here ({reason}): "
            "grade when python book.py test passes"
        )
    course.page(graded)  # so that what it takes is loaded before the processes are forked
    course.seconds = tuple(map(max, limits, (PATIENCE * taken for taken in graded.seconds)))
    cell, whole = course.seconds
    say(
        f"{course.name}: the solution gets full marks ({graded.seconds[1]:.0f} s); "
        f"a cell may take {cell:.0f} s, a notebook {whole:.0f} s"
    )


def _graded(courses: dict[str, Course], submission: Submission) -> dict:
    """Write the feedback page and return the row; whatever fails is the row's problem."""
    graded, notes, undone = None, list(submission.notes), "graded"
    course, page = courses[submission.set], submission.page
    log.info("%s, %s", submission.set, submission.student)
    try:
        page.unlink(missing_ok=True)
        if submission.path is not None:
            graded = course.grade(preflight.read(submission.path))
            notes += graded.notes
            undone = "shown on a feedback page"
            graded.notes = notes
            text = course.page(graded)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    except Problem as problem:
        notes.append(printable(str(problem)))
    except Exception:  # one student's notebook must not end the grading of the others
        log.exception("not %s", undone)
        notes.append(f"could not be {undone}: see grading.log")
    return _row(submission, courses, graded, notes)


def _row(submission, courses, graded, notes) -> dict:
    """What is known of a submission: the columns of the table, and what the class's page tells."""
    points = graded.points if graded else {}
    return {
        "student": submission.student,
        "set": submission.set,
        "total": sum(points.values()),
        "max": sum(courses[submission.set].maximum.values()),
        "problem": "; ".join(dict.fromkeys(notes)),
        "said": graded.said if graded else {},
        "answers": graded.answers if graded else {},
        **points,
    }


def _line(row: dict) -> str:
    problem = f"  [{row['problem']}]" if row["problem"] else ""
    return f"{row['student']}: {row['total']:g} of {row['max']:g}{problem}"


@contextlib.contextmanager
def _log_to(path: Path):
    """Send what this module logs, and warnings, into a file."""
    handler = logging.FileHandler(path, mode="a", encoding="utf-8", errors="backslashreplace")
    loggers = [log, logging.getLogger("py.warnings"), logging.getLogger("traitlets")]
    levels = [logger.level for logger in loggers]
    logging.captureWarnings(True)
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        handler.close()
