"""Make a notebook that can be graded out of whatever a student hands in.

`find` says which file of a student's folder is which set, `read` reads it without trust, and
`restore` puts the set's own test cells back where they belong. Each says in words what it had to
mend; what cannot be mended is a `Problem`.
"""

import ast
import json
import re
import warnings
from copy import deepcopy
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from nbgrader.utils import is_grade, is_locked, is_solution, is_task

LARGEST = 64 * 2**20  # bytes of a file that is read; outputs go before anything else is done
KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}
NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class Problem(Exception):
    """Why a submission cannot be graded, in words for the instructor."""


def printable(name: str) -> str:
    """A file's name, or a text with one, on one line of valid Unicode: all else is escaped.

    So is what turns the direction of the text after it.
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
        lambda found: found.group().encode("unicode_escape").decode(),
        name,
    )


def read(path: Path) -> NotebookNode:
    """Read a student's notebook as `parse` does."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Problem(_unreadable(path.name, error)) from None
    return parse(path.name, content)


def parse(name: str, content: bytes) -> NotebookNode:
    """A student's notebook from a file: only types, sources, ids and grade ids of its cells.

    Raises `Problem` when the file is not a notebook.
    """
    try:
        text = content.decode("utf-8-sig")
        loaded = json.loads(text)
    except json.JSONDecodeError as error:
        what = "is empty" if not text.strip() else f"is no valid JSON (line {error.lineno})"
        raise Problem(f"{name} {what}: ask for the file again") from None
    except (ValueError, RecursionError, MemoryError) as error:  # ValueError: no text, too
        raise Problem(_unreadable(name, error)) from None
    del text  # which takes four times as much memory as the file where it has an emoji
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            submitted = nbformat.reads(json.dumps(_without_outputs(loaded)), as_version=4)
        return plain(submitted)
    except MemoryError as error:
        raise Problem(_unreadable(name, error)) from None
    except Exception as error:  # the file is anything: whatever fails here, it is no notebook
        raise Problem(f"{name} is JSON, but no notebook ({type(error).__name__})") from None


def _without_outputs(loaded):
    """What JSON holds, changed: outputs and pasted pictures, which are most of a large notebook."""
    cells = loaded.get("cells") if isinstance(loaded, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict):
            cell.pop("attachments", None)
            if "outputs" in cell:
                cell["outputs"] = []
    return loaded


def _unreadable(name, error):
    if isinstance(error, MemoryError):
        return f"{name} takes too much memory to be read: ask for it without outputs"
    return f"{name} cannot be read ({type(error).__name__}: {str(error):.80})"


def plain(notebook: NotebookNode) -> NotebookNode:
    """The notebook's cells with nothing but type, source, id and, in their metadata, grade_id.

    Half of a surrogate pair, which JSON can hold and UTF-8 cannot, becomes its escape sequence.
    """
    cells = []
    for cell in notebook.cells:
        source = cell.source.replace("\r\n", "\n").encode("utf-8", "backslashreplace").decode()
        cells.append(NEW_CELL[cell.cell_type](source))
        cells[-1].id = str(cell.get("id"))
        cells[-1].metadata["grade_id"] = grade_id(cell)
    return new_notebook(cells=cells)


def grade_id(cell) -> str | None:
    """The cell's nbgrader id, None when it has no mark."""
    mark = cell.get("metadata", {}).get("nbgrader")
    value = mark.get("grade_id") if isinstance(mark, dict) else None
    return value if isinstance(value, str) else None


def is_read(cell: NotebookNode) -> bool:
    """Whether a person gives the points of a cell: of a text, or of a criterion of a rubric."""
    return is_task(cell) or (is_grade(cell) and is_solution(cell))


def has_points(cell: NotebookNode) -> bool:
    """Whether a cell has points, by a test or by a person."""
    return is_grade(cell) or is_read(cell)


def find(
    student: Path, releases: dict[str, NotebookNode], wanted: list[str] | None = None
) -> tuple[dict[str, tuple[Path, list[str]]], list[str]]:
    """The student's notebook of each wanted set with remarks on it, and remarks on other files.

    A file called as the set counts first, in nbgrader's `set/set.ipynb` before any other folder;
    then one that holds more cells of the set than of any other set; at last, when one set is wanted
    and there is one notebook, of no other set, that one. Links are not followed.
    """
    wanted = list(releases) if wanted is None else wanted
    if student.is_symlink():
        return {}, ["the folder is a link, which is not followed: put the folder itself here"]
    paths = [
        path
        for path in student.rglob("*")
        if not any(
            part.startswith(".") or part == "__MACOSX" for part in path.relative_to(student).parts
        )
    ]
    links = sorted(path.name for path in paths if path.is_symlink())
    remarks = [f"links are not followed, ask for the file: {', '.join(links)}"] if links else []
    files = sorted(
        (
            path
            for path in paths
            if path.suffix.lower() == ".ipynb" and path.is_file() and not path.is_symlink()
        ),
        key=lambda path: (len(path.parts), path),
    )
    large = [path for path in files if path.stat().st_size > LARGEST]
    if large:
        names = ", ".join(path.name for path in large)
        remarks.append(f"more than {LARGEST // 2**20} MB, not read: {names}")
        files = [path for path in files if path not in large]
    sets = {}
    for path in files:
        if path.stem not in releases:
            try:
                sets[path] = _set_of(read(path), releases)
            except Problem as problem:
                sets[path] = None
                remarks.append(str(problem))
    found = {}
    for name in wanted:
        named = [path for path in files if path.stem == name]
        named.sort(key=lambda path: path.parent.name != name)
        similar = [path for path in sets if sets[path] == name]
        if not named and len(wanted) == len(files) == 1 and list(sets.values()) == [None]:
            similar = files
        if named or similar:
            path, *rest = named + similar
            notes = [] if named else [f"graded {path.name}, since there is no {name}.ipynb"]
            if any(other.read_bytes() != path.read_bytes() for other in rest):
                chosen = path.relative_to(student).as_posix()
                notes.append(f"{1 + len(rest)} different notebooks of this set: graded {chosen}")
            found[name] = path, notes
    return found, remarks


def _set_of(notebook: NotebookNode, releases: dict[str, NotebookNode]) -> str | None:
    """The set with most of the notebook's answers, since sets may share an exercise's name."""
    ids = {cell.metadata["grade_id"] for cell in notebook.cells}
    shared = {
        name: len(ids & {grade_id(cell) for cell in release.cells if is_solution(cell)})
        for name, release in releases.items()
    }
    best = max(shared, key=shared.get)
    return best if shared[best] else None


def restore(
    submitted: NotebookNode, source: NotebookNode, release: NotebookNode
) -> tuple[NotebookNode, list[str]]:
    """The notebook to grade, and what had to be mended.

    The student's cells stay in their order, as "Restart and run all" would run them. Each test is
    the one of the source (with its hidden part), stands once, and after the answer that it tests.
    Test cells and the set's own code cells that are missing are put back. Of several copies of an
    answer all that are filled in run, so the last one counts. A test cell's metadata say what it
    imports first, and whether its answer is blank. A criterion of a rubric stands once, as the
    set has it.
    """
    return _Restoration(submitted, source, release).run()


class _Restoration:
    def __init__(self, submitted, source, release):
        self.source, self.release = source.cells, release.cells
        self.notes: dict[str, list[str]] = {}
        self.blank: set[int] = set()
        by_mark = {grade_id(cell): i for i, cell in enumerate(self.release) if grade_id(cell)}
        by_id = {cell.get("id"): i for i, cell in enumerate(self.release)}
        by_text = {cell.source: i for i, cell in enumerate(self.release) if cell.source.strip()}
        self.cells = []  # pairs: index of the cell in the set or None for the student's own, cell
        lost = 0
        for cell in submitted.cells:
            mark = cell.metadata.pop("grade_id")
            index = by_mark.get(mark)
            if index is None:
                index = by_id.get(cell.id, by_text.get(cell.source))
                lost += index is not None and grade_id(self.release[index]) is not None
            self.cells.append((index, cell))
        if lost:
            self.note(f"nbgrader's marks were missing on {lost} cells, recognised otherwise")

    def note(self, message, name=None):
        self.notes.setdefault(message, []).extend([name] if name else [])

    def places(self, index):
        return [place for place, (i, _) in enumerate(self.cells) if i == index]

    def run(self):
        answer = -1
        for index, cell in enumerate(self.source):
            if is_solution(cell):
                self.restore_answer(index)
                answer = index
            elif is_task(cell):
                self.restore_criterion(index)
            elif cell.cell_type == "code" and is_locked(cell):
                self.restore_locked(index, answer)
            elif cell.cell_type == "code" and not self.places(index):
                self.restore_given(index)
        self.note_blank()
        cells = [cell for _, cell in self.cells]
        for number, cell in enumerate(cells):
            cell.id = f"graded-{number}"
        notes = [
            f"{text}: {', '.join(names)}" if names else text for text, names in self.notes.items()
        ]
        return new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), notes

    def restore_answer(self, index):
        name, stub = grade_id(self.release[index]), self.release[index].source
        places = self.places(index)
        if not places:
            return self.note("no cell is marked as this answer, the other cells ran", name)
        blanks = ("", stub.strip())
        filled = [place for place in places if self.cells[place][1].source.strip() not in blanks]
        if not filled:
            if self.is_answered_elsewhere(index):
                self.note("the answer stands in another cell, its own is blank", name)
            else:
                self.blank.add(index)
        if len(places) > 1:
            self.note("several copies of an answer, the last one filled in counts", name)
            for place in sorted(set(places) - set(filled or places[-1:]), reverse=True):
                del self.cells[place]
            places = self.places(index)
        is_code = self.release[index].cell_type == "code"
        for place in places:
            cell = self.cells[place][1]
            if is_code and cell.cell_type != "code":
                self.note("the answer was no code cell, it ran as code", name)
            make = new_code_cell if is_code else new_markdown_cell
            self.cells[place] = index, make(cell.source)
        self.cells[places[-1]][1].metadata = NotebookNode(self.release[index].metadata)

    def is_answered_elsewhere(self, index):
        """Whether another cell binds a name that the solution binds."""
        others = [cell.source for i, cell in self.cells if i != index and cell.cell_type == "code"]
        wanted = bound_names(self.source[index].source)
        return any(wanted & bound_names(other) for other in others)

    def restore_locked(self, index, answer):
        name, original = grade_id(self.release[index]), new_code_cell(self.source[index].source)
        original.metadata = NotebookNode(self.source[index].metadata)
        if is_grade(original):
            original.metadata["grading_imports"] = needed_imports(self.source, index)
            original.metadata["blank_answer"] = answer in self.blank
        places = self.places(index)
        if places:
            if any(self.cells[place][1].source != self.release[index].source for place in places):
                self.note("test cell changed, the original ran", name)
            if len(places) > 1:
                self.note("test cell copied, it counts once", name)
            target = places[0]
            for place in reversed(places):
                del self.cells[place]
        else:
            self.note("test cell missing, put back", name)
            following = [place for place, (i, _) in enumerate(self.cells) if (i or 0) > index]
            target = min(following, default=len(self.cells))
        after_answer = max(self.places(answer), default=-1) + 1
        if places and after_answer > target:
            self.note("test cell stood before its answer, it ran after it", name)
        self.cells.insert(max(target, after_answer), (index, original))

    def restore_criterion(self, index):
        places = self.places(index)
        target = places[0] if places else self.behind(index)
        for place in reversed(places):
            del self.cells[place]
        self.cells.insert(target, (index, deepcopy(self.source[index])))

    def restore_given(self, index):
        given = new_code_cell(self.source[index].source)
        self.cells.insert(self.behind(index), (index, given))

    def behind(self, index):
        """The place behind all cells that stand before this one in the set."""
        preceding = [
            place for place, (i, _) in enumerate(self.cells) if i is not None and i < index
        ]
        return max(preceding, default=-1) + 1

    def note_blank(self):
        answers = {i for i, cell in enumerate(self.release) if is_solution(cell)}
        handed_in = {i for i, _ in self.cells if i in answers}
        if handed_in and handed_in <= self.blank:
            self.note("no answer is filled in")


def bound_names(source: str) -> set[str]:
    """The names that a cell defines or assigns at the beginning of a line; magics may stand by."""
    found = re.findall(r"^(?:(?:def|class) +(\w+)|(\w+) *=(?!=))", source, re.MULTILINE)
    return {defined or assigned for defined, assigned in found}


def given_imports(cells: list[NotebookNode]) -> dict[str, ast.stmt]:
    """The imports that the set itself makes, one statement for each name that they bind."""
    imports = {}
    for cell in cells:
        if cell.cell_type == "code" and grade_id(cell) is None:
            for node in ast.walk(ast.parse(TransformerManager().transform_cell(cell.source))):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        name = alias.asname or alias.name.partition(".")[0]
                        imports[name] = ast.Import([alias])
                elif isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        single = ast.ImportFrom(node.module, [alias], node.level)
                        imports[alias.asname or alias.name] = single
    return imports


def given_modules(cells: list[NotebookNode]) -> list[str]:
    """The modules that the set imports (and, of `from a import b`, both `a` and `a.b`)."""
    modules = []
    for statement in given_imports(cells).values():
        (alias,) = statement.names
        if isinstance(statement, ast.Import):
            modules.append(alias.name)
        else:
            modules += [statement.module, f"{statement.module}.{alias.name}"]
    return modules


def needed_imports(cells: list[NotebookNode], index: int) -> str:
    """The set's import lines that a test cell needs, so that no answer can shadow its names."""
    imports = given_imports(cells)
    test = ast.parse(TransformerManager().transform_cell(cells[index].source))
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return "\n".join(ast.unparse(imports[name]) for name in imports if name in names)
