"""The form of a chapter: what a reader sees of its code, and how much of that is the idea."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from textbook.lab.report import COMPARED

from .sources import chapters, first_line, number_of, read_chapter

MOST_VISIBLE = 450  # lines of code that a chapter shows
LONGEST = 25  # lines of a cell that is not folded
LEAST_IDEA = 0.5  # share of the visible lines
CLAIM = re.compile(r"\(([CE]\d+)\)")
DRAWING = {"plot", "figure", "axes", "panels", "plt"}
REPORTING = {"draw", "table", "holds", "finding", "show", "measured", "print"}


@dataclass
class Form:
    """Lines of code that are shown, those of them that are idea, and those that are folded."""

    visible: int = 0
    idea: int = 0
    folded: int = 0
    longest: int = 0
    longest_cell: str = ""

    def __str__(self) -> str:
        share = self.idea / max(self.visible, 1)
        return (
            f"{self.visible} lines of code shown ({share:.0%} of them idea), {self.folded} folded, "
            f"longest cell shown {self.longest}"
        )


def form_of(notebook: NotebookNode) -> Form:
    """Count a chapter's lines of code; empty ones do not count.

    Idea is what is shown and neither draws, nor prints or judges, nor imports, nor sets an
    experiment up: that is told from the statements, whatever their cell is called.
    """
    form = Form()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        lines = _filled(cell.source.split("\n"))
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            form.folded += lines
            continue
        form.visible += lines
        form.idea += lines - _not_idea(cell.source)
        if lines > form.longest:
            form.longest, form.longest_cell = lines, first_line(cell)
    return form


def _filled(lines: list[str]) -> int:
    return sum(bool(line.strip()) for line in lines)


def _not_idea(source: str) -> int:
    """Lines of statements that import, draw or report, and of decorators of experiments."""
    lines, count = source.split("\n"), 0
    for statement in ast.parse(source).body:
        if _imports_or_shows(statement):
            count += _filled(lines[statement.lineno - 1 : statement.end_lineno])
        else:
            for call in getattr(statement, "decorator_list", []):
                if "experiment" in ast.unparse(call):
                    count += _filled(lines[call.lineno - 1 : call.end_lineno])
    return count


def _imports_or_shows(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in DRAWING:
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in REPORTING:
                return True
    return False


def form_problems(root: Path) -> Iterator[str]:
    """What is not in the form that every chapter has."""
    sources = chapters(root)
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        notebook = read_chapter(source)
        where = source.relative_to(root)
        try:
            form = form_of(notebook)
        except SyntaxError:  # check tells file and line
            continue
        if form.visible > MOST_VISIBLE:
            yield (
                f"{where} shows {form.visible} lines of code, at most {MOST_VISIBLE}: fold what is "
                "evidence"
            )
        if form.longest > LONGEST:
            yield (
                f"{where}: the cell '{form.longest_cell}' shows {form.longest} lines: cut it in "
                f"two or start it with # %% evidence, at most {LONGEST}"
            )
        if form.idea < LEAST_IDEA * form.visible:
            yield (
                f"{where}: of {form.visible} lines shown {form.idea} are idea, less than half: "
                "start the cells that draw and report with # %% evidence"
            )
        for name in dict.fromkeys(defined(notebook)):
            places[name].append(str(where))
        yield from verdict_problems(source, notebook, where)
    yield from _two_meanings(root, {number_of(source) for source in sources})
    for name, found in places.items():
        if len(found) > 1:
            yield (
                f"{name} is defined in {' and '.join(found)}: start its first cell with # %% save "
                "and import it from textbook.chapter_NN"
            )


def defined(notebook: NotebookNode) -> list[str]:
    """Functions and classes of the chapter's cells, as often as they are defined."""
    return [
        statement.name
        for cell in notebook.cells
        if cell.cell_type == "code"
        for statement in ast.parse(cell.source).body
        if isinstance(statement, ast.FunctionDef | ast.ClassDef)
    ]


def claims_in_headings(notebook: NotebookNode) -> list[str]:
    """The claims that stand in headings, as C5 in "### The bottleneck (C5)"."""
    return [
        claim
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.split("\n")
        if line.startswith("#")
        for claim in CLAIM.findall(line)
    ]


def verdicts(notebook: NotebookNode) -> list[dict]:
    """The verdicts in a notebook's stored outputs: claim, sentence, and whether it holds."""
    return [
        output.data[COMPARED]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.get("data", {}).get(COMPARED)
    ]


def verdict_problems(source: Path, notebook: NotebookNode, where: Path) -> Iterator[str]:
    """The claims in the headings that nothing judges, and verdicts that do not hold."""
    built = source.with_suffix(".ipynb")
    if not built.exists():
        return
    page = nbformat.read(built, as_version=4)
    found = verdicts(page)
    judged = {verdict["claim"] for verdict in found}
    current = [cell.source for cell in page.cells] == [cell.source for cell in notebook.cells]
    for claim in claims_in_headings(notebook):
        if claim not in judged and current:
            yield f"{where}: {claim} has no verdict: write runs.holds(...) or lab.holds(...)"
        elif claim not in judged:
            yield (
                f"{where}: the built page has no verdict on {claim}: build first, python book.py "
                f"build {number_of(source)}"
            )
    for verdict in found:
        if not verdict["holds"]:
            yield f"{where}: {verdict['claim']} does not hold: {verdict['sentence']}"


def _two_meanings(root: Path, numbers: set[str]) -> Iterator[str]:
    """Symbols that docs/notation.md gives two meanings within one of these chapters.

    Each row of its table of letters names the chapters where it holds: "all", or "02, 05-10".
    """
    page = root / "docs" / "notation.md"
    if not page.exists():
        return
    meanings: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| $") or len(cells) != 4:
            continue
        symbols, _, meaning, where = cells
        for symbol in re.findall(r"\$([^$]+)\$", symbols):
            for number in numbers if where == "all" else numbers & _chapters_in(where):
                meanings[number, symbol].append(meaning)
    for (number, symbol), found in sorted(meanings.items()):
        if len(found) > 1:
            yield (
                f"docs/notation.md: ${symbol}$ has two meanings in chapter {number}, "
                f"'{found[0]}' and '{found[1]}': give one of them another letter"
            )


def _chapters_in(where: str) -> set[str]:
    """The numbers that "02, 05-07" names."""
    found = set()
    for part in where.split(", "):
        first, _, last = part.partition("-")
        found |= {f"{i:02}" for i in range(int(first), int(last or first) + 1)}
    return found
