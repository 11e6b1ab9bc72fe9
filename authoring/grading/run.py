"""Run one notebook: the student's cells in the student's process, the tests in the grader's."""

import ast
import builtins
import contextlib
import importlib
import io
import pkgutil
import re
import time
import types

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.utils import is_grade, is_solution

from authoring import preflight
from authoring.grading.isolation import ROOT, Place
from authoring.grading.peer import Peer
from authoring.grading.wire import Lost, Wire
from textbook import checks
from textbook.checks.chapter_10 import assembly

exercise = importlib.import_module("textbook.checks.exercise")  # not the function of this name
START_SECONDS = 300
SHOWN_OUTPUTS = ["image/png", "image/jpeg", "text/plain"]  # none of them can hold a script
CHAPTERS = [
    name for _, name, _ in pkgutil.iter_modules(checks.__path__) if name.startswith("chapter_")
]
# A line of ours is none of the student's when a check says where an answer stopped.
exercise.NOT_THE_STUDENTS += (str(ROOT / "authoring"),)


class Helpers:
    """What a set's own cells may ask of its checks: data and functions, no exercise."""

    def __init__(self, source: NotebookNode):

        self.names = {
            node.attr
            for cell in source.cells
            if cell.cell_type == "code"
            for node in ast.walk(ast.parse(TransformerManager().transform_cell(cell.source)))
            if isinstance(node, ast.Attribute)
        }

    def __call__(self, chapter, name):
        if chapter.rpartition(".")[2] not in CHAPTERS or name not in self.names:
            raise AttributeError(f"{chapter} has no {name}")
        value = getattr(importlib.import_module(chapter), name)
        if value is assembly.Parts:
            value = PartsElsewhere
        return None if isinstance(value, exercise.Exercise) else [value]


class PartsElsewhere(assembly.Parts):
    """Parts of the student's, which run where they are and whose time is not taken."""

    def _timed(self, name, part):
        if "_home" not in vars(part):
            return super()._timed(name, part)
        self.seconds[name] = 0.0
        return part


def run(
    notebook: NotebookNode,
    place: Place,
    helpers: Helpers,
    cell_seconds: float,
    all_seconds: float,
) -> tuple[dict[str, bool | None], list[str]]:
    """Fill in the notebook's outputs; return which tests passed, by grade id, and remarks.

    None stands for what a person has to read. When a cell ends or blocks its process, everything
    is run anew without it; tests that were done count.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.outputs = []
    passed = {
        preflight.grade_id(cell): None if is_solution(cell) else False
        for cell in notebook.cells
        if is_grade(cell)
    }
    fatal, done, end = {}, set(), time.monotonic() + all_seconds
    while len(fatal) <= len(cells):
        student = place.start(CHAPTERS)
        try:
            peer = Peer(
                Wire(student.link), trusting=False, refused=(types.ModuleType, exercise.Exercise)
            )
            peer.extra["helper"] = helpers
            peer.wire.deadline = time.monotonic() + START_SECONDS
            peer.ask("run", source="")
            for index, cell in enumerate(cells):
                if index in fatal or index in done:
                    continue
                peer.wire.deadline = min(time.monotonic() + cell_seconds, end)
                running = index
                if is_grade(cell) and not is_solution(cell):
                    cell.outputs = examine(cell, peer)
                    passed[preflight.grade_id(cell)] = not any(
                        output.output_type == "error" for output in cell.outputs
                    )
                    done.add(index)
                else:
                    cell.outputs = [
                        output_from(told) for told in peer.ask("run", source=cell.source)
                    ]
            break
        except Lost as lost:
            if peer.wire.deadline == end:
                reason = f"the notebook as a whole was stopped after {all_seconds:g} seconds"
            elif str(lost) == "too slow":
                reason = f"stopped after {cell_seconds:g} seconds"
            elif str(lost) == "ended":
                reason = "this cell ended its process"
            else:
                reason = f"this cell {lost}"
            fatal[running] = reason
            cells[running].outputs = [_stopped(reason)]
            if time.monotonic() >= end:
                break
        finally:
            student.end()
    places = {id(cell): number for number, cell in enumerate(notebook.cells, start=1)}
    return passed, [
        f"cell {preflight.grade_id(cells[i]) or f'number {places[id(cells[i])]}'}: {reason}"
        for i, reason in sorted(fatal.items())
    ]


def _stopped(reason):
    return new_output("error", ename="Stopped", evalue=reason, traceback=[f"Stopped: {reason}"])


def output_from(told):
    """An output that the student's process tells of, without anything that a browser runs."""
    kind = told["output_type"]
    if kind == "stream":
        return new_output("stream", name="stdout", text=str(told["text"]))
    if kind == "error":
        lines = [str(line) for line in told["traceback"]]
        return new_output(
            "error", ename=str(told["ename"]), evalue=str(told["evalue"]), traceback=lines
        )
    data = {name: str(text) for name, text in told["data"].items() if name in SHOWN_OUTPUTS}
    for name in [name for name in data if name.startswith("image")]:
        if not re.fullmatch(r"[A-Za-z0-9+/=\s]*", data[name]):
            del data[name]
    return new_output("display_data", data=data)


def examine(cell: NotebookNode, peer: Peer) -> list:
    """Run a test here, with the student's names; its outputs."""
    source = "\n".join([cell.metadata.get("grading_imports", ""), cell.source])
    tree = ast.parse(TransformerManager().transform_cell(source))
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    bound = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    namespace = {"__name__": "__main__"}
    for name in sorted(loaded - bound - set(vars(builtins))):
        with contextlib.suppress(KeyError):
            namespace[name] = peer.ask("name", name=name)
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(tree, "<test>", "exec"), namespace)
        except KeyboardInterrupt:
            raise
        except (Exception, SystemExit) as error:
            outputs.append(_error(error))
    if printed.getvalue():
        outputs.insert(0, new_output("stream", name="stdout", text=printed.getvalue()))
    return outputs


def _error(error):
    try:
        text = str(error)
    except Exception:
        text = ""
    shown = (
        text.split("\n")
        if isinstance(error, exercise.CheckFailed)
        else [f"{type(error).__name__}: {text}"]
    )
    return new_output("error", ename=type(error).__name__, evalue=text, traceback=shown)
