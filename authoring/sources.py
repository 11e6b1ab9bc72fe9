"""Percent sources and the notebooks that they stand for."""

import functools
import hashlib
import os
import re
import tempfile
from copy import deepcopy
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from .alone import installing_cell
from .model_answers import model_answer
from .quoted import filled

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
CELL_OPTIONS = {"tags", "solution", "given", "own", "tests", "criterion", "points"}
# `# %% evidence` is a cell whose code is folded: it draws, tabulates or judges. `# %% save` is one
# whose definitions later chapters import.
KINDS = {
    "evidence": {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]},
    "save": {"tags": ["save"]},
}
REGIONS = {"solution": "SOLUTION", "tests": "HIDDEN TESTS"}
GOES_ON = "raises-exception"  # the tag of a cell after whose error "Run All" goes on


class BookError(Exception):
    """Something that the author has to mend; the message says what and where."""


def chapters(root: Path, number: str | None = None) -> list[Path]:
    """The chapters' sources, or the one with this number."""
    return sorted(root.glob(f"notebooks/{number or '[0-9][0-9]'}_*.py"))


def exercise_sets(root: Path, number: str | None = None) -> list[Path]:
    """The exercise sets' sources, or the one with this number."""
    paths = sorted(root.glob(f"solutions/{number or '[0-9][0-9]'}_*/*.py"))
    return [path for path in paths if path.stem == path.parent.name]


def number_of(source: Path) -> str:
    """The chapter's number, "01" for 01_rnn.py."""
    return source.name[:2]


def release_path(root: Path, source: Path) -> Path:
    """Where students find the exercise set that is made from this source."""
    return root / "exercises" / source.stem / f"{source.stem}.ipynb"


def read_chapter(source: Path) -> NotebookNode:
    """The chapter as a notebook without outputs."""
    notebook = _read(source, {"tags", "title"})
    for cell in notebook.cells:
        kind = cell.metadata.pop("title", None)
        if kind is not None and kind not in KINDS:
            raise BookError(
                f"{source}: cell '{first_line(cell)}' starts with '# %% {kind}'; "
                f"known are {', '.join(KINDS)}"
            )
        if kind and "tags" in cell.metadata:
            raise BookError(f"{source}: cell '{first_line(cell)}' is {kind} and has tags: choose")
        cell.metadata.update(nbformat.from_dict(KINDS.get(kind, {})))
        if cell.cell_type == "markdown":
            try:
                cell.source = filled(source.parent / "results", cell.source)
            except LookupError as error:
                raise BookError(f"{source}: {error}") from None
    return notebook


def read_exercises(source: Path) -> NotebookNode:
    """The exercise set with its solutions, as a notebook with nbgrader's metadata."""
    notebook = _read(source, CELL_OPTIONS)
    seen: set[str] = set()
    for cell in notebook.cells:
        _fill(source, cell)
        cell.metadata.update(_grading_metadata(source, cell))
        if "nbgrader" in cell.metadata:
            cell.id = cell.metadata.nbgrader.grade_id
            if cell.id in seen:
                raise BookError(f"{source}: {cell.id} is there twice: give each exercise one name")
            seen.add(cell.id)
    marks = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    paired = {mark.grade_id for mark in marks if not mark.task}
    parts = tuple(f"test_{mark.grade_id}_" for mark in marks if mark.solution)
    for name in paired:  # tests="name_part" has points of its own for a part of the answer `name`
        partner = name.removeprefix("test_") if name.startswith("test_") else f"test_{name}"
        if partner not in paired and not name.startswith(parts):
            raise BookError(f"{source}: {name} has no cell {partner}: write both")
    return notebook


def _fill(source: Path, cell: NotebookNode) -> None:
    """An empty cell with solution="name" gets the model answer of the exercise of this name."""
    given, own = (cell.metadata.pop(option, "").split() for option in ("given", "own"))
    if cell.metadata.get("solution") and not cell.source.strip():
        name = cell.metadata.solution
        try:
            cell.source = model_answer(number_of(source), name, given, own)
        except (LookupError, ModuleNotFoundError) as error:
            raise BookError(f"{source}: the cell of {name} is empty, and {error}") from None
    elif given or own:
        where = f"{source}: cell '{first_line(cell)}'"
        raise BookError(f"{where} has given= or own=: only an empty cell with solution= takes them")


def _read(source: Path, options: set[str]) -> NotebookNode:
    notebook = deepcopy(_cells(source.read_text(encoding="utf-8")))
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC))
    notebook.nbformat_minor = 5
    used: set[str] = set()
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)
        if unknown := set(cell.metadata) - options:
            raise BookError(
                f"{source}: cell '{first_line(cell)}' has the option {min(unknown)!r}; "
                f"known are {', '.join(sorted(options))}"
            )
        cell.id = _cell_id(cell, used)
        used.add(cell.id)
    alone = installing_cell()
    alone.id = _cell_id(alone, used)
    notebook.cells.insert(1, alone)
    return notebook


@functools.lru_cache(maxsize=64)
def _cells(text: str) -> NotebookNode:
    """A source in cells: kept, since `check` looks at each chapter five times."""
    return jupytext.reads(text, fmt="py")


def _cell_id(cell: NotebookNode, used: set[str]) -> str:
    """An id that depends on the cell alone, so that an insertion leaves the others as they are."""
    digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    copies = sum(name.startswith(digest) for name in used)
    return f"{digest}-{copies}" if copies else digest


def _grading_metadata(source: Path, cell: NotebookNode) -> dict:
    """nbgrader's metadata in place of the short form: solution="name", tests="name" points=4.

    An error in such a cell does not keep a student from running the exercises below. A text cell
    with criterion="name" points=1 is one of a rubric, for which a person gives the points.
    """
    roles = [role for role in REGIONS if role in cell.metadata]
    where = f"{source}: cell '{first_line(cell)}'"
    if "criterion" in cell.metadata:
        return {"nbgrader": NotebookNode(_criterion(where, roles, cell))}
    for role, region in REGIONS.items():
        found = re.findall(rf"(BEGIN|END) {region}\b", cell.source)
        if found != ["BEGIN", "END"] * (len(found) // 2):
            raise BookError(f"{where}: each BEGIN {region} needs its END {region}")
        if found and role not in roles:
            raise BookError(f"{where} has BEGIN {region}: start it with # %% {role}=...")
        if not found and role in roles:
            raise BookError(f"{where} has {role}=...: it needs BEGIN {region} and END {region}")
    if not roles:
        if "points" in cell.metadata:
            raise BookError(f"{where} has points: only a cell with tests=... takes them")
        return {}
    if len(roles) == 2:
        raise BookError(f"{where} is solution and tests: make two cells of it")
    [role] = roles
    name = _name(where, role, cell)
    graded = role == "tests"
    grading = {
        "cell_type": "code",
        "grade": graded,
        "grade_id": f"test_{name}" if graded else name,
        "locked": graded,
        "schema_version": 3,
        "solution": not graded,
        "task": False,
    }
    if graded:
        grading["points"] = _points(where, cell)
    elif "points" in cell.metadata:
        raise BookError(f"{where} has points: they belong to tests={name!r}")
    tags = [*cell.metadata.get("tags", []), GOES_ON]
    return {"nbgrader": NotebookNode(grading), "tags": tags}


def _criterion(where, roles, cell):
    """nbgrader's metadata of a criterion, which it calls a task."""
    if roles or cell.cell_type != "markdown":
        raise BookError(f"{where}: a criterion is a text cell, and neither solution nor tests")
    return {
        "cell_type": "markdown",
        "grade": False,
        "grade_id": _name(where, "criterion", cell),
        "locked": True,
        "points": _points(where, cell),
        "schema_version": 3,
        "solution": False,
        "task": True,
    }


def _name(where, role, cell):
    name = cell.metadata.pop(role)
    if not re.fullmatch(r"(?!test_)[A-Za-z]\w{0,50}", name, re.ASCII):
        raise BookError(f"{where}: {role}={name!r} is no Python name without test_ in front")
    return name


def _points(where, cell):
    points = cell.metadata.pop("points", None)
    if not isinstance(points, int) or points <= 0:
        raise BookError(f"{where}: points={points!r}, expected a whole number above 0")
    return points


def first_line(cell: NotebookNode) -> str:
    """The beginning of a cell, to name it in a message."""
    return cell.source.strip().split("\n")[0][:60]


def to_text(notebook: NotebookNode) -> str:
    """The notebook as it stands in its file: sorted keys, one trailing newline."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing, with LF on every platform."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise
