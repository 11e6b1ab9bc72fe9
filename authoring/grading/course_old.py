"""Grade a folder of submissions: preflight, nbgrader's autograde and feedback, a table of grades.

Everything runs in a scratch course that is thrown away; submissions are only read. Whatever one
student hands in, the others are graded: each step is taken for one notebook at a time, and what is
known of it is written at once.
"""

import argparse
import contextlib
import csv
import html
import io
import logging
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    CheckCellMetadata,
    Execute,
    LimitOutput,
    SaveAutoGrades,
)
from nbgrader.utils import is_grade
from traitlets.config import Config
from traitlets.log import get_logger

from authoring import preflight
from authoring.grading_kernel import TEST_MARK, note_kind
from authoring.preflight import Problem, printable
from authoring.release import from_shell, release

ROOT = Path(__file__).resolve().parent.parent
CELL_SECONDS = 60
KERNEL_BYTES = 4 * 2**30
ONE_THREAD = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")
SHOWN_OUTPUTS = ["image/png", "image/jpeg", "text/plain"]  # none of them can hold a script
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"


class ExecuteEveryCell(Execute):
    """Execute a notebook to its end, with a fresh kernel when a cell has killed or blocked its own.

    The run then starts anew without that cell, which fails. Test cells first repeat the imports
    that they need. What they warn of on stderr becomes plain output, since nbgrader gives 0 points
    for a right answer that warns. Remarks go into the cell's metadata, out of the student's reach.
    """

    def preprocess(self, nb, resources, km=None):
        self.fatal: dict[int, str] = {}
        while True:
            try:
                return super().preprocess(nb, resources, km)
            except DeadKernelError:
                self.fatal[self.running] = "this cell ended its kernel"
            except CellTimeoutError:
                self.fatal[self.running] = f"stopped after {self.timeout} seconds"

    def preprocess_cell(self, cell, resources, index):
        if index in self.fatal:
            cell.outputs = [
                new_output("error", ename="Stopped", evalue=self.fatal[index], traceback=[])
            ]
            cell.outputs[0].traceback = [f"Stopped: {self.fatal[index]}"]
            cell.metadata["grading_notes"] = [self.fatal[index]]
            return cell, resources
        self.running = index
        source = cell.source
        if "grading_imports" in cell.metadata:
            lines = [cell.metadata["grading_imports"], source, TEST_MARK]
            cell.source = "\n".join(filter(None, lines))
        cell, resources = super().preprocess_cell(cell, resources, index)
        cell.source = source
        kind, notes, outputs = note_kind(os.environ["GRADING_NONCE"]), [], []
        for output in cell.get("outputs", []):
            if kind in output.get("data", {}):
                notes.append(output.data[kind])
                continue
            outputs.append(output)
            if "metadata" in output:
                output.metadata = {}  # nbconvert writes it, unquoted, into HTML attributes
            if output.output_type == "stream":
                output.name = "stdout"
            elif output.get("ename") == "CellTimeoutError":
                self.fatal[index] = output.evalue = f"stopped after {self.timeout} seconds"
                notes.append(output.evalue)
        if cell.cell_type == "code":
            cell.outputs = outputs
        cell.metadata["grading_notes"] = notes
        return cell, resources


class Course:
    """A scratch nbgrader course in an empty folder, for one set and its submissions."""

    def __init__(self, root: Path, name: str, source: NotebookNode, cell_seconds: int):
        self.root, self.name, self.source = root, name, source
        self.maximum = _maximum(source)
        self.config = Config()
        self.config.CourseDirectory.root = str(root)
        self.config.Execute.timeout = cell_seconds
        self.config.Execute.shutdown_kernel = "immediate"
        self.config.Autograde.autograde_preprocessors = [
            ExecuteEveryCell,
            LimitOutput,
            SaveAutoGrades,
            CheckCellMetadata,
        ]
        self.config.NbConvertBase.display_data_priority = SHOWN_OUTPUTS
        self.config.HTMLExporter.filters = {"markdown2html": _renderer(source)}
        profile = root / "ipython" / "profile_default"
        profile.mkdir(parents=True, exist_ok=True)
        (profile / "ipython_kernel_config.py").write_text(
            "c.IPKernelApp.log_level = 40\n"
            "c.IPKernelApp.extensions = ['authoring.grading_kernel']\n"
        )
        self._write("source", ".", source)
        with self.environment():
            self._run(GenerateAssignment, ".")
        self.release = release(ROOT, source)

    def _path(self, step, student):
        return self.root / step / student / self.name / f"{self.name}.ipynb"

    def _write(self, step, student, notebook):
        path = self._path(step, student)
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)

    def _run(self, converter, student):
        place = CourseDirectory(config=self.config, assignment_id=self.name, student_id=student)
        converter(coursedir=place, config=self.config).start()

    @contextlib.contextmanager
    def environment(self):
        """What nbgrader and kernels find in os.environ: one thread, asserts, no user's profile."""
        modules = preflight.given_modules(self.source.cells)
        before = dict(os.environ)
        os.environ.update({f"{library}_NUM_THREADS": "1" for library in ONE_THREAD})
        os.environ.update(
            PATH=os.pathsep.join([str(Path(sys.executable).parent), before.get("PATH", "")]),
            IPYTHONDIR=str(self.root / "ipython"),
            PYTHONOPTIMIZE="",
            TQDM_DISABLE="1",
            GRADING_MODULES=" ".join(modules),
            GRADING_NONCE=secrets.token_hex(16),
            GRADING_MEMORY=str(KERNEL_BYTES),
        )
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def grade(self, student: str, submitted: NotebookNode) -> tuple[dict, list[str]]:
        """The points of each exercise of one notebook, and what had to be mended in it."""
        notebook, notes = preflight.restore(submitted, self.source, self.release)
        self._write("submitted", student, notebook)
        with self.environment():
            self._run(Autograde, student)
        graded = nbformat.read(self._path("autograded", student), as_version=4)
        notes += _execution_notes(graded)
        blank = {
            preflight.grade_id(cell) for cell in notebook.cells if cell.metadata.get("blank_answer")
        }
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            grades = gradebook.find_submission_notebook(self.name, self.name, student).grades
            undeserved = [grade for grade in grades if grade.name in blank and grade.auto_score]
            for grade in undeserved:
                grade.auto_score = 0.0
            gradebook.db.commit()
            scores = {_exercise(grade.name): grade.auto_score for grade in grades}
            names = ", ".join(_exercise(grade.name) for grade in undeserved)
        if names:
            notes.append(f"the test passed though the answer is blank, so 0 points: {names}")
        unread = [name for name in self.maximum if scores[name] is None]
        if unread:
            notes.append(f"to be read and graded by you: {', '.join(unread)}")
        return {name: scores[name] or 0.0 for name in self.maximum}, notes

    def feedback(self, student: str, notes: list[str]) -> str:
        """The graded notebook as HTML, opening with the notes."""
        if notes:
            path = self._path("autograded", student)
            graded = nbformat.read(path, as_version=4)
            lines = "\n".join(f"- {note}" for note in notes)
            graded.cells.insert(0, new_markdown_cell(f"Notes of the grader\n\n{lines}"))
            path.chmod(0o644)
            nbformat.write(graded, path)
        with self.environment():
            self._run(GenerateFeedback, student)
        page = self._path("feedback", student).with_suffix(".html").read_text(encoding="utf-8")
        return _without_scripts(page)


def _exercise(test: str) -> str:
    return test.removeprefix("test_")


def _maximum(source: NotebookNode) -> dict[str, float]:
    """The points of each exercise of a set."""
    return {
        _exercise(preflight.grade_id(cell)): float(cell.metadata.nbgrader.points)
        for cell in source.cells
        if is_grade(cell)
    }


def _renderer(source: NotebookNode):
    """Markdown to HTML for the set's own texts; whatever else stands in a text cell is shown as is.

    Markdown may hold HTML, and HTML scripts: a student's text is not for a browser to read.
    """
    trusted = {cell.source for cell in source.cells if cell.cell_type == "markdown"}

    def render(text):
        return markdown2html(text) if text in trusted else f"<pre>{html.escape(text)}</pre>"

    return render


def _without_scripts(page: str) -> str:
    """The feedback page without nbgrader's own scripts, and with a policy that forbids any other.

    The head is nbgrader's alone, and the policy is the first thing in it.
    """
    head, end, body = page.partition("</head>")
    head = re.sub(r"<script.*?</script>", "", head, flags=re.DOTALL)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
    return head.replace("<head>", f"<head>\n{policy}", 1) + end + body


def _execution_notes(graded: NotebookNode) -> list[str]:
    """What went wrong while the notebook ran, other than a wrong answer."""
    notes = []
    for number, cell in enumerate(graded.cells, start=1):
        where = preflight.grade_id(cell) or f"number {number}"
        notes += [f"cell {where}: {note}" for note in cell.metadata.get("grading_notes", [])]
    return notes


class GradingError(Exception):
    """Why nothing can be graded, in words for the instructor."""


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
    cell_seconds: int = CELL_SECONDS,
    say=print,
    all_sets: dict[str, NotebookNode] | None = None,
) -> list[dict]:
    """Grade every student's folder in `folder`; write grades, feedback and a log into `results`.

    `all_sets`, if there are more than `sets`, tell to which set a file of another name belongs.
    Returns the rows of grades.csv. Raises `GradingError` when there is nothing to grade, or when a
    set's own solution does not get full marks here, since then no grade would mean anything.
    """
    students = _students(folder)
    all_sets = all_sets or sets
    if len(sets) > 1:
        found = [_look(student, all_sets, sets) for student in students]
        handed_in = {name for notebooks in found for name, (path, _) in notebooks.items() if path}
        sets = {name: source for name, source in sets.items() if name in handed_in}
    if not sets:
        raise GradingError(f"{folder} holds no notebook of any exercise set: name it with --set")
    found = [_look(student, all_sets, sets) for student in students]
    results.mkdir(exist_ok=True)
    for loose in sorted(folder.glob("*.ipynb")):
        say(f"not graded: {printable(loose.name)} lies outside of the students' folders")
    table = Table(results / "grades.csv", sets.values())
    with _log_to(results / "grading.log"), tempfile.TemporaryDirectory() as scratch:
        for name, source in sets.items():
            course = Course(Path(scratch), name, source, cell_seconds)
            _check_solution(course, say)
            for number, student in enumerate(students, start=1):
                who = printable(student.name)
                logging.getLogger(__name__).info("%s, %s", name, who)
                path, notes = found[number - 1][name]
                page = results / "feedback" / student.name / f"{name}.html"
                row = _grade_student(course, f"student-{number}", path, notes, page)
                table.add({"student": who, "set": name} | row)
                say(f"{number}/{len(students)} {_line(table.rows[-1])}")
    return table.rows


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


def _check_solution(course: Course, say):
    started = time.monotonic()
    points, notes = course.grade("solution", preflight.plain(course.source))
    missed = [name for name, score in points.items() if score < course.maximum[name]]
    if missed:
        reason = "; ".join([f"failed: {', '.join(missed)}", *notes])
        raise GradingError(
            f"the solution of {course.name} itself does not get full marks here ({reason}): "
            "grade when python book.py test passes"
        )
    say(f"{course.name}: the solution gets full marks ({time.monotonic() - started:.0f} s)")


def _grade_student(course, student, path, notes, page) -> dict:
    """Write the feedback page and return the row; whatever fails is the row's problem."""
    points, notes, undone = {}, [printable(note) for note in notes], "graded"
    try:
        page.unlink(missing_ok=True)
        if path is not None:
            points, more = course.grade(student, preflight.read(path))
            notes += more
            undone = "shown on a feedback page"
            text = course.feedback(student, notes)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    except Problem as problem:
        notes.append(printable(str(problem)))
    except Exception:  # one student's notebook must not end the grading of the others
        logging.getLogger(__name__).exception("not %s", undone)
        notes.append(f"could not be {undone}: see grading.log")
    total = {"total": sum(points.values()), "max": sum(course.maximum.values())}
    return total | {"problem": "; ".join(dict.fromkeys(notes))} | points


def _line(row: dict) -> str:
    problem = f"  [{row['problem']}]" if row["problem"] else ""
    return f"{row['student']}: {row['total']:g} of {row['max']:g}{problem}"


@contextlib.contextmanager
def _log_to(path: Path):
    """Send what nbgrader and this module log into a file."""
    handler = logging.FileHandler(path, mode="w", encoding="utf-8", errors="backslashreplace")
    loggers = [logging.getLogger(__name__), logging.getLogger("py.warnings"), get_logger()]
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


class Table:
    """grades.csv, a row at a time.

    The first row replaces the table of an earlier run. Each row is added by one write and is on the
    disk before the next notebook runs, so that a reader, or a broken run, finds whole rows only.
    """

    def __init__(self, path: Path, sets: Iterable[NotebookNode]):
        exercises = [name for source in sets for name in _maximum(source)]
        columns = ["student", "set", "total", "max", "problem", *exercises]
        self.path, self.columns = path, list(dict.fromkeys(columns))
        self.rows: list[dict] = []

    def add(self, row: dict):
        if not self.rows:
            begun = self.path.with_name(self.path.name + ".part")
            begun.unlink(missing_ok=True)
            self._append(begun, dict(zip(self.columns, self.columns, strict=True)), row)
            os.replace(begun, self.path)
        else:
            self._append(self.path, row)
        self.rows.append(row)

    def _append(self, path: Path, *rows: dict):
        text = io.StringIO()
        csv.DictWriter(text, self.columns).writerows(rows)
        with path.open("ab") as file:
            file.write(text.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())


def main(argv: list[str] | None = None) -> int:
    """The command `book.py grade FOLDER`."""
    parser = argparse.ArgumentParser(prog="book.py grade", description=__doc__)
    parser.add_argument("folder", type=Path, help="holds a folder for each student")
    parser.add_argument(
        "--set", help="name or number of the exercise set (default: those handed in)"
    )
    options = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):  # a name need not fit into the terminal's encoding
        stream.reconfigure(errors="backslashreplace")
    folder = from_shell(options.folder).resolve()
    results = folder.with_name(f"{folder.name}-results")
    try:
        all_sets = load_sets(ROOT / "solutions")
        sets = load_sets(ROOT / "solutions", options.set) if options.set else all_sets
        rows = grade_folder(folder, results, sets, all_sets=all_sets)
    except GradingError as error:
        print(f"grade: {error}", file=sys.stderr)
        return 1
    problems = sum(bool(row["problem"]) for row in rows)
    print(f"{len(rows)} graded, {problems} with a remark in the column problem: {results}")
    return 0
