"""One exercise set: what a notebook of it is worth, and the page that goes back."""

import functools
import html
import re
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
import nbgrader
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.utils import is_solution
from traitlets.config import Config

from authoring import preflight
from authoring.grading.isolation import ROOT, Place
from authoring.grading.outputs import LONGEST_ALL, LONGEST_TEXT, SHOWN, Room
from authoring.grading.run import Helpers, Run
from authoring.release import release

LONGEST_REASON = 500  # characters
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
FORMGRADER = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
BOOTSTRAP = FORMGRADER / "static" / "node_modules" / "bootstrap" / "dist" / "css"


@dataclass
class Graded:
    """A notebook that ran: its points, what had to be mended or went wrong, and itself."""

    points: dict[str, float]
    notes: list[str]
    notebook: NotebookNode
    seconds: tuple[float, float]  # of its slowest cell, and of all
    said: dict[str, str]  # the first line of what the check of an exercise said
    answers: dict[str, str]  # the source of each answer that is not blank


class Course:
    """A set, in the form in which notebooks of it are graded."""

    def __init__(self, name: str, source: NotebookNode, place: Place, seconds: tuple[float, float]):
        self.name, self.source, self.place, self.seconds = name, source, place, seconds
        self.maximum = maximum(source)
        self.by_hand = by_hand(source)
        self.release = release(ROOT, source)
        self.helpers = Helpers(source)
        self.beside: set[str] = set()  # tests that do not work from the grader's process

    def grade(self, submitted: NotebookNode) -> Graded:
        """Run a notebook and count its points."""
        begin = time.monotonic()
        notebook, notes = preflight.restore(submitted, self.source, self.release)
        done = Run(notebook, self.place, self.helpers, self.beside).run(*self.seconds)
        passed = done.passed
        notes += done.notes(notebook)
        blank = {
            preflight.grade_id(cell) for cell in notebook.cells if cell.metadata.get("blank_answer")
        }
        undeserved = [test for test, does in passed.items() if does and test in blank]
        if undeserved:
            names = ", ".join(map(exercise_of, undeserved))
            notes.append(f"the test passed though the answer is blank, so 0 points: {names}")
        unread = [exercise_of(test) for test, does in passed.items() if does is None]
        if unread:
            notes.append(f"to be read and graded by you: {', '.join(unread)}")
        if done.disputed:
            names = ", ".join(exercise_of(test) for test in passed if test in done.disputed)
            notes.append(f"0 points, but the test passes in the student's process, read: {names}")
        won = {exercise_of(test) for test, does in passed.items() if does and test not in blank}
        points = {name: worth * (name in won) for name, worth in self.maximum.items()}
        said = {}
        for cell in done.cells:
            name = preflight.grade_id(cell)
            errors = [output for output in cell.outputs if output.output_type == "error"]
            if name in passed and errors and name not in blank:
                said[exercise_of(name)] = _reason(exercise_of(name), errors[0], done.cells)
        seconds = done.slowest, time.monotonic() - begin
        return Graded(points, notes, notebook, seconds, said, self._answers(notebook, blank))

    def _answers(self, notebook, blank):
        return {
            name: cell.source[:LONGEST_TEXT]
            for cell in notebook.cells
            if is_solution(cell)
            and (name := preflight.grade_id(cell))
            and f"test_{name}" not in blank
        }

    def missed(self, graded: Graded) -> list[str]:
        """The exercises that are not worth their full points, though no person has to read them."""
        return [
            name
            for name, points in graded.points.items()
            if points < self.maximum[name] and name not in self.by_hand
        ]

    def feedback(self, graded: Graded) -> tuple[str, str]:
        """The graded notebook, opening with the notes: as a page of HTML, and as nbgrader's own."""
        notebook, room = NotebookNode(graded.notebook), Room(LONGEST_ALL)
        for cell in notebook.cells:
            cell.source = room.cut(Room().cut(cell.source))
            mark = self._mark(cell)
            cell.metadata = NotebookNode(nbgrader=mark) if mark else NotebookNode()
            if mark and preflight.has_points(cell):
                mark.score = graded.points[exercise_of(mark.grade_id)]
                mark.points = self.maximum[exercise_of(mark.grade_id)]
        if graded.notes:
            lines = "\n".join(f"- {note}" for note in graded.notes)
            notes = new_markdown_cell(f"Notes of the grader\n\n{lines}", id="notes")
            notebook.cells.insert(0, notes)
        totals = {
            "notebook": self.name,
            "score": sum(graded.points.values()),
            "max_score": sum(self.maximum.values()),
            "late_penalty": 0,
        }
        texts = tuple(cell.source for cell in self.source.cells if cell.cell_type == "markdown")
        page, _ = _exporter(texts).from_notebook_node(notebook, {"nbgrader": totals})
        for place, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" and cell.source not in texts:
                notebook.cells[place] = new_markdown_cell(
                    _as_it_is(cell.source), id=cell.id, metadata=cell.metadata
                )
        page = _with_names(_without_scripts(page), graded.said)
        return encodable(page), encodable(nbformat.writes(notebook))

    def _mark(self, cell):
        """nbgrader's mark of the set's own cells, as the release has it."""
        wanted = preflight.grade_id(cell)
        marks = {preflight.grade_id(c): c.metadata.get("nbgrader") for c in self.release.cells}
        return NotebookNode(marks[wanted]) if wanted and wanted in marks else None


def _reason(exercise, error, cells):
    """Why an exercise has no points, on one line; where its answer's own cell failed, that."""
    line = error.evalue.partition("\n")[0] or error.ename
    if error.ename == "NameError" and f"'{exercise}'" in line:
        for cell in cells:
            failed = [output for output in cell.outputs if output.output_type == "error"]
            if preflight.grade_id(cell) == exercise and failed:
                said = failed[0].evalue.partition("\n")[0]
                line = f"the cell of the answer failed, {failed[0].ename}: {said}"
    return preflight.printable(line.removeprefix(f"{exercise}: "))[:LONGEST_REASON]


def exercise_of(test: str) -> str:
    """The exercise that a test cell belongs to."""
    return test.removeprefix("test_")


def maximum(source: NotebookNode) -> dict[str, float]:
    """The points of each exercise of a set, and of each criterion."""
    return {
        exercise_of(preflight.grade_id(cell)): float(cell.metadata.nbgrader.points)
        for cell in source.cells
        if preflight.has_points(cell)
    }


def by_hand(source: NotebookNode) -> set[str]:
    """What of that a person has to read and to give points for."""
    return {
        exercise_of(preflight.grade_id(cell)) for cell in source.cells if preflight.is_read(cell)
    }


@functools.cache
def _exporter(trusted: tuple[str, ...]) -> HTMLExporter:
    """nbgrader's feedback; Markdown is read in the set's own texts alone.

    Markdown may hold HTML, and HTML scripts: whatever else stands in a text cell is shown as is.
    """

    def render(text):
        return markdown2html(text) if text in trusted else _as_it_is(text)

    config = Config()
    config.NbConvertBase.display_data_priority = list(SHOWN)
    config.HTMLExporter.template_name = "feedback"
    config.HTMLExporter.extra_template_basedirs = [str(FORMGRADER / "templates")]
    config.HTMLExporter.extra_template_paths = [str(BOOTSTRAP)]
    config.HTMLExporter.preprocessors = [CSSHTMLHeaderPreprocessor]
    config.HTMLExporter.filters = {"markdown2html": render}
    return HTMLExporter(config=config)


def encodable(text: str) -> str:
    """The text with a question mark for half of a character, which an output may have."""
    return text.encode("utf-8", "replace").decode()


def _as_it_is(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _with_names(page: str, said: dict[str, str]) -> str:
    """The page whose list at the top has the exercises' names, and why points are missing."""

    def named(found):
        name = exercise_of(found[1])
        why = f": {html.escape(said[name])}" if name in said else ""
        return f'<li><a href="#{found[1]}">{html.escape(name)}</a>{found[2]}{why}</li>'

    return re.sub(r'<li><a href="#([^"]*)">Test cell</a>( \(Score: [^)]*\))</li>', named, page)


def _without_scripts(page: str) -> str:
    """The feedback page without nbgrader's own scripts, and with a policy that forbids any other.

    The head is nbgrader's alone, and the policy is the first thing in it.
    """
    head, end, body = page.partition("</head>")
    head = re.sub(r"<script.*?</script>", "", head, flags=re.DOTALL)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
    return head.replace("<head>", f"<head>\n{policy}", 1) + end + body
