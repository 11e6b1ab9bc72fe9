"""The grades in nbgrader's database, and a configuration with which its programs find them.

Only the grader opens the database. Scores that a person gave in formgrader stay.
"""

import contextlib
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.utils import is_grade, is_solution, is_task
from sqlalchemy import URL
from sqlalchemy.exc import SAWarning

from authoring import preflight
from authoring.grading.course import exercise_of
from authoring.grading.deadlines import handed_in
from authoring.grading.isolation import ROOT, GradingError

log = logging.getLogger("authoring.grading.grade")
COURSE = "minitorch"
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = {course!r}
c.CourseDirectory.source_directory = {source!r}
c.CourseDirectory.submitted_directory = {submitted!r}
"""


class Records:
    """gradebook.db: a submission for each notebook that was handed in, a grade for each test."""

    def __init__(self, results: Path, folder: Path, sets: dict, say: Callable[[str], None]):
        self.path, self.say, self.failed = results / "gradebook.db", say, 0
        self.written = {name: _cells(source, preflight.is_read) for name, source in sets.items()}
        if shutil.which("alembic") is None:  # with which nbgrader makes the database
            paths = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
            os.environ["PATH"] = os.pathsep.join(paths)
        try:
            url = URL.create("sqlite", database=str(self.path))
            self.book = Gradebook(url, course_id=COURSE)
            for name, source in sets.items():
                self._register(name, source)
        except Exception as error:  # any of the database's
            log.exception("no gradebook")
            raise GradingError(
                f"{self.path} cannot be used ({type(error).__name__}): move it away"
            ) from None
        config = results / "nbgrader_config.py"
        if not config.exists():
            paths = {"source": str(ROOT / "solutions"), "submitted": str(folder)}
            config.write_text(CONFIG.format(course=COURSE, **paths), encoding="utf-8")

    def _register(self, name: str, source: NotebookNode):
        """Make the assignment: anew where the set has other cells than it had."""
        book, graded, solved = self.book, _cells(source, is_grade), _cells(source, is_solution)
        criteria = _cells(source, is_task)
        with contextlib.suppress(MissingEntry):
            known = book.find_notebook(name, name)
            known = known.grade_cells, known.solution_cells, known.task_cells
            before = [{cell.name for cell in cells} for cells in known]
            if before != [set(graded), set(solved), set(criteria)]:
                book.remove_assignment(name)
                self.say(f"{name} has other cells than before: made anew in gradebook.db")
        book.update_or_create_assignment(name, course_id=COURSE)
        book.update_or_create_notebook(name, name)
        for cell, points in graded.items():
            kind = "markdown" if cell in self.written[name] else "code"
            book.update_or_create_grade_cell(cell, name, name, max_score=points, cell_type=kind)
        for cell in solved:
            book.update_or_create_solution_cell(cell, name, name)
        for cell, points in criteria.items():
            book.update_or_create_task_cell(
                cell, name, name, max_score=points, cell_type="markdown"
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.book.close()
        if self.failed:
            self.say(f"{self.failed} rows are not in gradebook.db (see grading.log): use --resume")

    def add(self, row: dict, path: Path | None):
        """Enter a row of the table, in place of what was known of this student and set."""
        try:
            with warnings.catch_warnings():  # nbgrader's own, about the order of its steps
                warnings.simplefilter("ignore", SAWarning)
                self._add(row, path)
        except Exception:  # the table has the row; a database that is busy must not cost the rest
            log.exception("%s of %s is not in gradebook.db", row["set"], row["student"])
            self.failed += 1
            self.book.db.rollback()

    def by_hand(self, row: dict) -> dict:
        """The row with the points that a person gave in place of the grader's, and a remark."""
        try:
            submission = self.book.find_submission(row["set"], row["student"])
        except Exception:  # there is none, or the database is busy
            return row
        given = {
            exercise_of(grade.name): grade.score
            for grade in submission.notebooks[0].grades
            if grade.manual_score is not None or grade.extra_credit
        }
        if not given:
            return row
        said = [f"{name} {points:g} (was {row.get(name, 0):g})" for name, points in given.items()]
        remarks = [row["problem"]] if row["problem"] else []
        total = row["total"] + sum(points - row.get(name, 0) for name, points in given.items())
        problem = "; ".join([*remarks, f"points given by hand: {', '.join(said)}"])
        return {**row, **given, "total": total, "problem": problem}

    def _add(self, row, path):
        book, student, name = self.book, row["student"], row["set"]
        book.update_or_create_student(student)
        if path is None:
            with contextlib.suppress(MissingEntry):
                book.remove_submission(name, student)
            return
        at = handed_in(path)
        submission = book.update_or_create_submission(
            name, student, timestamp=at and at.astimezone(UTC).replace(tzinfo=None)
        )
        [notebook] = submission.notebooks
        notebook.late_submission_penalty = row.get("penalty") or None
        for grade in notebook.grades:
            score = row.get(exercise_of(grade.name), 0.0)
            score = None if grade.name in self.written[name] else score
            if grade.auto_score != score:
                grade.auto_score = score
                grade.needs_manual_grade = grade.manual_score is not None
        book.db.commit()


def _cells(source: NotebookNode, kind: Callable) -> dict[str, float]:
    """The points of the cells of a kind, by their names."""
    return {
        preflight.grade_id(cell): float(cell.metadata.nbgrader.get("points", 0))
        for cell in source.cells
        if kind(cell)
    }
