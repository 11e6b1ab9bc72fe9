"""Grade a folder of submissions: preflight, a run of each notebook, feedback, a table of grades.

Submissions are only read. Whatever one student hands in, the others are graded: each notebook runs
in processes of its own, and what is known of it is written at once.
"""

import contextlib
import json
import logging
import secrets
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from authoring import preflight
from authoring.grading import deadlines, scheduler
from authoring.grading.class_page import class_page
from authoring.grading.course import encodable, maximum
from authoring.grading.desk import Job, Task, code, nothing_told, opened
from authoring.grading.gradebook import Records
from authoring.grading.isolation import GradingError
from authoring.grading.statistics import statistics, write
from authoring.grading.table import Memory, Table, content_hash
from authoring.grading.workers import results_of
from authoring.preflight import printable

log = logging.getLogger(__name__)
CELL_SECONDS = 60
ALL_SECONDS = 600
LOOKING = 120  # seconds for the files of one student
NO_STUDENTS = (".git", ".ipynb_checkpoints", "__MACOSX")  # whatever they hold
RECEIPT = ("timestamp.txt", "submission_secret.txt")


@dataclass
class Settings:
    """How a class is graded."""

    cell_seconds: float = CELL_SECONDS
    all_seconds: float = ALL_SECONDS
    jobs: int = 1
    resume: bool = False
    seed: int | None = None
    strict: bool = False
    scheduler: str | None = None  # of Dask, whose workers grade
    student: str | None = None  # who is graded anew; the others keep their rows
    user: str | None = None  # whom students' processes run as, where the grader is root


@dataclass
class Submission:
    """A student's notebook of one set, None where there is none, and remarks on it."""

    student: str
    set: str
    path: Path | None
    notes: list[str]
    results: Path
    key: str = ""
    late: tuple[int, int] | None = None  # days, and those that are not free

    @property
    def page(self) -> Path:
        """The feedback, where nbgrader looks for it."""
        return self.results / "feedback" / self.student / self.set / f"{self.set}.html"

    @property
    def notebook(self) -> Path:
        """The graded notebook, where nbgrader looks for it."""
        return self.results / "autograded" / self.student / self.set / f"{self.set}.ipynb"


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
    times = deadlines.read(folder, list(all_sets or sets))
    named = bool(all_sets) and len(sets) < len(all_sets)
    sets, submissions = _submissions(folder, results, sets, all_sets or sets, times, named, say)
    if settings.student and settings.student not in {one.student for one in submissions}:
        raise GradingError(f"{folder} has no folder {settings.student} with a notebook to grade")
    results.mkdir(exist_ok=True)
    for loose in sorted(folder.glob("*.ipynb")):
        say(f"not graded: {printable(loose.name)} lies outside of the students' folders")
    seed = secrets.randbits(32) if settings.seed is None else settings.seed
    seconds = settings.cell_seconds, settings.all_seconds
    with _log_to(results / "grading.log"), contextlib.ExitStack() as stack:

        def tell(line):
            say(line)
            log.info("%s", line)

        more = deadlines.COLUMNS if times.due else []
        table = Table(results / "grades.csv", sets.values(), more)
        memory = Memory(results / "grades.jsonl", settings.resume or bool(settings.student))
        gradebook = stack.enter_context(Records(results, folder, sets, tell))

        def enter(submission, row):
            row = row | times.columns(row, submission.late)
            gradebook.add(row, submission.path)
            row = gradebook.by_hand(row)
            row |= times.columns(row, submission.late)
            table.add(row)
            return row

        done = 0
        left = []
        for submission in submissions:
            submission.key = _key(submission, sets[submission.set], seconds)
            if settings.student:
                here = submission.student == settings.student
                row = None if here else memory.last.get((submission.student, submission.set))
                if row is None and not here:
                    continue
            else:
                row = memory.known.get(submission.key)
            if row is None:
                left.append(submission)
            else:
                enter(submission, row)
                done += 1
        if settings.student:
            missing = len(submissions) - done - len(left)
            say(f"{done} rows stay as they are" + f", {missing} are not graded yet" * bool(missing))
        if settings.resume:
            say(f"{done} of {len(submissions)} are graded already and unchanged")
        used = dict.fromkeys(submission.set for submission in left)
        job = Job(
            {name: sets[name] for name in used}, seed, seconds, settings.strict, settings.user
        )
        try:
            for submission, told in stack.enter_context(
                contextlib.closing(_graded(job, left, settings, tell))
            ):
                row, is_result = _row_of_any(submission, sets[submission.set], told)
                if is_result:  # else it is graded again by --resume
                    memory.add(submission.key, row)
                row = enter(submission, row)
                done += 1
                say(f"{done}/{len(submissions)} {_line(row)}")
        finally:
            if table.rows:
                _tell_of_class(results, table.rows, sets, tell)
    return table.rows


def _tell_of_class(results, rows, sets, tell):
    """The page and the statistics; whatever is in the rows, these are on the disk already."""
    try:
        page = class_page(rows, sets)
        (results / "class.html").write_text(encodable(page), encoding="utf-8")
        found = statistics(rows, {name: maximum(source) for name, source in sets.items()})
        write(results / "statistics.csv", found)
    except Exception:
        log.exception("no class page")
        tell("class.html could not be written (see grading.log): the table has all rows")


def _submissions(folder, results, sets, all_sets, times, named, say):
    """The sets to grade, and each student's submission of each."""
    students = _students(folder, say)
    looked = dict(
        results_of(students, lambda student: _looked(student, all_sets, sets), 1, LOOKING)
    )
    found = [(student, _paths(student, looked[student], sets)) for student in students]
    came = Counter(name for _, looked in found for name, (path, _) in looked.items() if path)
    if len(sets) > 1:
        sets = {name: source for name, source in sets.items() if came[name] or name in times.due}
    if not sets:
        raise GradingError(f"{folder} holds no notebook of any exercise set: name it with --set")
    submissions, some = [], sum(any(path for path, _ in looked.values()) for _, looked in found)
    for name in sets:
        usual = name in times.due if times.due else 2 * came[name] >= some
        if not (assigned := named or len(sets) == 1 or usual):
            say(
                f"{name}: handed in by {came[name]} of {some}, so taken for not assigned, "
                f"and the others have no row (--set {name}, or {deadlines.FILE}, gives them one)"
            )
        for student, looked in found:
            path, notes = looked[name]
            if path or assigned:
                notes = [printable(note) for note in notes]
                submissions.append(Submission(printable(student.name), name, path, notes, results))
    _tell_late(submissions, times)
    return sets, submissions


def _tell_late(submissions, times):
    """Note at each submission how late it came."""
    handed_in = defaultdict(dict)
    for one in submissions:
        at = one.path and deadlines.handed_in(one.path, times.file_times)
        if at:
            handed_in[one.student][one.set] = at
    late = {student: times.late(at, student) for student, at in handed_in.items()}
    for one in submissions:
        one.late = late.get(one.student, {}).get(one.set)


def _students(folder: Path, say) -> list[Path]:
    if not folder.is_dir():
        raise GradingError(f"{folder} is no folder")
    students = []
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        if path.name in NO_STUDENTS:
            continue
        if not path.name.startswith("."):
            students.append(path)
        elif any(path.rglob("*.ipynb")):
            say(f"not graded: {printable(path.name)} begins with a point, so it is no student's")
    if not students:
        raise GradingError(f"{folder} holds no folders: expected one a student")
    return students


def _looked(student, all_sets, sets):
    """What `_look` finds as plain data, from a process whose memory and time are limited."""
    found = _look(student, all_sets, sets)
    return {name: [path and str(path), notes] for name, (path, notes) in found.items()}


def _paths(student, looked, sets):
    if looked is None:
        looked = dict.fromkeys(sets, [None, ["the files could not be looked through: too large?"]])
    return {name: (path and Path(path), notes) for name, (path, notes) in looked.items()}


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
        code(),
    )


def _graded(job: Job, submissions: list[Submission], settings: Settings, say):
    """Each submission with what came out, None where its process ended."""
    if not submissions:
        return
    if settings.scheduler:
        yield from scheduler.results_of(settings.scheduler, job, submissions, _task, say)
        return
    with opened(job, say) as desk:
        yield from results_of(
            submissions, lambda given: desk.grade(_task(given)), settings.jobs, desk.limit
        )


def _task(submission: Submission) -> Task:
    """What a desk gets of a submission."""
    content, notes, name = None, list(submission.notes), ""
    if submission.path is not None:
        name = submission.path.name
        try:
            content = submission.path.read_bytes()
        except OSError as error:
            notes.append(printable(f"{name} cannot be read ({error!r:.80})"))
    return Task(submission.set, name, content, notes)


def _keep(submission: Submission, told: dict) -> None:
    """Write the feedback page and the graded notebook; those of an earlier grading go."""
    for path, kind in ((submission.page, "page"), (submission.notebook, "notebook")):
        try:
            path.unlink(missing_ok=True)
            if kind in told:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(told[kind], encoding="utf-8")
                _keep_receipt(submission.path, path.parent)
        except (OSError, ValueError):  # a name that is too long, for example
            log.exception("%s of %s not written", kind, submission.student)
            told["notes"].append(f"its {kind} could not be written: see grading.log")


def _keep_receipt(notebook: Path, folder: Path) -> None:
    """Copy what nbgrader's exchange put beside a notebook, with which it gives feedback back."""
    for name in RECEIPT:
        given = notebook.with_name(name)
        if given.is_file() and not given.is_symlink() and given.stat().st_size < 1000:
            shutil.copyfile(given, folder / name)


def _row_of_any(
    submission: Submission, source: NotebookNode, told: dict | None
) -> tuple[dict, bool]:
    """A row, whatever was told, and whether it is a result: the machine, or we, may have failed."""
    if told is None:
        told = nothing_told([*submission.notes, "could not be graded: its process ended"])
        return _row(submission, source, told), False
    try:
        return _row(submission, source, told), not told["log"]
    except Exception:
        log.exception("%s, %s", submission.set, submission.student)
        told = nothing_told([*submission.notes, "could not be graded: see grading.log"])
        return _row(submission, source, told), False


def _row(submission: Submission, source: NotebookNode, told: dict) -> dict:
    """What is known of a submission: the columns of the table, and what the class's page tells."""
    if told["log"]:
        lines = "".join(f"\n    {printable(line)}" for line in told["log"].splitlines())
        log.error("%s, %s%s", submission.set, submission.student, lines)
    _keep(submission, told)
    return {
        "student": submission.student,
        "set": submission.set,
        "total": sum(told["points"].values()),
        "max": sum(maximum(source).values()),
        "problem": printable("; ".join(dict.fromkeys(told["notes"]))),
        "said": told["said"],
        "answers": told["answers"],
        **told["points"],
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
