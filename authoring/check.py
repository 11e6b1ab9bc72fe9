"""Tell, without executing anything, what in the book is out of step."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from . import claims
from .experiments import declared, read_results, results_path
from .form import claims_in_headings, defined, form_problems
from .release import release
from .saved import saved_module, saved_path
from .sources import (
    REGIONS,
    BookError,
    chapters,
    exercise_sets,
    first_line,
    number_of,
    read_chapter,
    read_exercises,
    release_path,
    to_text,
)

EMBEDDED_IMAGE = re.compile(r"data:image/[\w+]+;base64,[\w+/=\s]+")
LARGEST_IMAGE = 60_000  # bytes
SHORTEST_SECRET = 12  # characters; shorter lines, such as `return y`, may stand anywhere


def check(root: Path, warn: Callable[[str], None] = lambda warning: None) -> list[str]:
    """Every problem as one line that says what to do; ``warn`` gets what is no failure."""
    problems: list[str] = []
    for source in chapters(root):
        problems += _problems(root, source, partial(_chapter, warn=warn))
    for source in exercise_sets(root):
        problems += _problems(root, source, _exercise_set)
    problems += _problems(root, root, lambda root, _: claims.problems(root))
    problems += _problems(root, root, lambda root, _: form_problems(root))
    return list(dict.fromkeys(problems)) + list(_strays(root))


def _problems(root: Path, source: Path, look: Callable[[Path, Path], Iterator[str]]) -> list[str]:
    """What is wrong with one source, each line with the path in front."""
    try:
        found = list(look(root, source))
    except (BookError, SyntaxError, FileNotFoundError) as error:
        found = [str(error)]
    return [problem.replace(f"{root}/", "") for problem in found]


def _chapter(root: Path, source: Path, warn: Callable[[str], None]) -> Iterator[str]:
    notebook = read_chapter(source)
    ast.parse(source.read_text(encoding="utf-8"), source.name)  # an error names file and line
    yield from _in_step(source, notebook)
    saved, path = saved_module(source), saved_path(root, source)
    if saved != (path.read_text(encoding="utf-8") if path.exists() else None):
        yield f"{path} is not what {source} saves: run: python book.py build {number_of(source)}"
    yield from _experiments(source, notebook, warn)


def _exercise_set(root: Path, source: Path) -> Iterator[str]:
    notebook = read_exercises(source)
    yield from _lacking(root, source)
    yield from _in_step(source, notebook)
    again = f"run: python book.py build {number_of(source)}"
    released = release_path(root, source)
    if not released.exists():
        yield f"{released} is missing: {again}"
    elif released.read_bytes() != to_text(release(root, notebook)).encode():
        yield f"{released} is not what its source gives: {again}"
    secrets = _secrets(notebook)
    for path in sorted(released.parent.rglob("*")):
        if path != released and ".ipynb_checkpoints" not in path.parts:
            yield f"{path} is in no exercise set: delete it"
        if path.is_file():
            yield from _leaks(path, secrets)


def _lacking(root: Path, source: Path) -> Iterator[str]:
    """What an exercise has to have beside its check, and has not."""
    checks = root / f"textbook/checks/chapter_{number_of(source)}"
    known = "".join(path.read_text(encoding="utf-8") for path in checks.glob("*_key.py"))
    for name in re.findall(r"^# %% solution=\"(\w+)\".*\n\s*# %%", source.read_text("utf-8"), re.M):
        table = checks / f"{name}.txt"
        if not table.exists():
            yield f"{table} is missing: write three usual mistakes of {name} or more"
        if f'"{name}": ' not in known:
            yield f"{checks} has no key with right answers of {name}: write two in another way"


def _secrets(notebook: NotebookNode) -> set[str]:
    """The lines that stand in solutions and hidden tests and nowhere else."""
    hidden, shown = set(), set()
    for cell in notebook.cells:
        secret = False
        for line in map(str.strip, cell.source.split("\n")):
            if re.search(rf"BEGIN ({'|'.join(REGIONS.values())})", line):
                secret = True
            (hidden if secret else shown).add(line)
            if re.search(rf"END ({'|'.join(REGIONS.values())})", line):
                secret = False
    return {line for line in hidden - shown if len(line) >= SHORTEST_SECRET}


def _leaks(path: Path, secrets: set[str]) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    for line in sorted(secrets):
        if line in text or json.dumps(line, ensure_ascii=False)[1:-1] in text:
            yield f"{path} shows a line of a solution or hidden test: {line}"


def _in_step(source: Path, expected: NotebookNode) -> Iterator[str]:
    """Compare a built notebook with what its source says now."""
    path = source.with_suffix(".ipynb")
    again = f"run: python book.py build {number_of(source)}"
    if not path.exists():
        yield f"{path} is missing: {again}"
        return
    built = nbformat.read(path, as_version=4)
    if built.metadata != expected.metadata or built.nbformat_minor != expected.nbformat_minor:
        yield f"{path} has other metadata than a build writes: {again}"
    if len(built.cells) != len(expected.cells):
        yield f"{path} has {len(built.cells)} cells, its source {len(expected.cells)}: {again}"
    for cell, wanted in zip(built.cells, expected.cells, strict=False):
        for field in ("cell_type", "source", "metadata", "id"):
            if cell[field] != wanted[field]:
                where = f"cell '{first_line(wanted)}'"
                yield f"{path}: the {field} of {where} is not what the source says: {again}"
                return
    for problem in output_problems(built):
        yield f"{path}: {problem}: {again}"


def output_problems(notebook: NotebookNode) -> Iterator[str]:
    """What stored outputs must not have, and that they are there."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not any(cell.outputs for cell in code):
        yield "no cell has a stored output"
    for cell in code:
        where = f"cell '{first_line(cell)}'"
        if cell.execution_count is None and cell.source.strip():
            yield f"{where} was not executed"
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"{where} has stored an error or a warning"
            for kind, value in output.get("data", {}).items():
                if kind == "application/vnd.jupyter.widget-view+json":
                    yield f"{where} has stored a widget"
                if kind.startswith("image/"):
                    yield f"{where} has a picture without alt text: use textbook.plot.show"
                if kind == "text/html" and any(
                    len(image) * 3 // 4 > LARGEST_IMAGE for image in EMBEDDED_IMAGE.findall(value)
                ):
                    yield f"{where} has a picture of more than {LARGEST_IMAGE} bytes: draw less"


def _experiments(
    source: Path, notebook: NotebookNode, warn: Callable[[str], None]
) -> Iterator[str]:
    """Each experiment: its claim in a heading, and a full result of the code as it is.

    One that needs what not every machine has may still be without a result.
    """
    results = read_results(source)
    headings, defines = claims_in_headings(notebook), defined(notebook)
    again = f"run: python book.py experiment {number_of(source)}"
    experiments, with_other_library = declared(source), []
    for experiment in experiments:
        name, claim = experiment.name, experiment.claim
        if experiment.chapter != number_of(source):
            yield f"{source}: experiment {name} is recorded for chapter {experiment.chapter}"
        if claim not in headings:
            yield (
                f"{source}: experiment {name} has no heading with ({claim}): "
                "end the heading of its section with that"
            )
        if defines.count(name) > 1:
            yield f"{source} defines {name} twice: give the experiment a name of its own"
        if name not in results:
            if experiment.anywhere:
                yield f"{source}: experiment {name} has no full result: {again} {name}"
        elif results[name]["code_hash"] != experiment.code_hash:
            yield f"{results_path(source)}: {name} was measured with other code: {again} {name}"
        elif results[name]["library_hash"] != experiment.library_hash:
            with_other_library.append(name)
    if with_other_library:
        named = " ".join(with_other_library)
        warn(
            f"{results_path(source).name}: recorded with other code of the library that they use: "
            f"{named}; where that may matter, {again} {named}"
        )
    for name in sorted(set(results) - {experiment.name for experiment in experiments}):
        yield f"{results_path(source)}: {name} is no experiment of the chapter: {again}"


def _strays(root: Path) -> Iterator[str]:
    """Generated files whose source is gone."""
    numbers = {number_of(source) for source in chapters(root)}
    for path in sorted(root.glob("textbook/chapter_*.py")):
        if path.stem.removeprefix("chapter_") not in numbers:
            yield f"{path.relative_to(root)} has no source: delete it or write the source"
    known = {source.with_suffix(".ipynb") for source in chapters(root) + exercise_sets(root)}
    known |= {release_path(root, source) for source in exercise_sets(root)}
    for pattern in ("notebooks/*.ipynb", "solutions/*/*.ipynb", "exercises/*/*.ipynb"):
        for path in sorted(set(root.glob(pattern)) - known):
            yield f"{path.relative_to(root)} has no source: delete it or write the source"
