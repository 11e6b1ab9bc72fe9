"""Run one notebook: the student's cells in the student's process, the tests in the grader's."""

import ast
import builtins
import contextlib
import functools
import gc
import importlib
import io
import pkgutil
import re
import signal
import time
import traceback
import types

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_output

from authoring import preflight
from authoring.grading.isolation import MEMORY, ROOT, Place
from authoring.grading.outputs import LARGEST_ALL, LONGEST_ALL, MOST, SHOWN, Room
from authoring.grading.peer import Peer, Refused
from authoring.grading.wire import LONGEST_TEXT, Lost, Wire
from textbook import checks
from textbook.checks import errors
from textbook.checks.chapter_10 import assembly

exercise = importlib.import_module("textbook.checks.exercise")  # not the function of this name
START_SECONDS = 300
LONGEST_WAIT = 10  # times the seconds of a cell: how long it may wait for a processor
PREPARED = """import sys, textbook.checks
sys.modules['textbook.checks.exercise'].SEEDS.update({seeds})
sys.modules['textbook.checks.exercise'].EXPLAINS = {explains}
"""
TRAINS = "reached"  # what a check calls the judging of a plan
LONGEST_MESSAGE = 20_000  # characters of what a check says
CHAPTERS = [
    name for _, name, _ in pkgutil.iter_modules(checks.__path__) if name.startswith("chapter_")
]
MODULES = {f"{checks.__name__}.{name}" for name in CHAPTERS}
# A line of ours is none of the student's when a check says where an answer stopped.
errors.NOT_THE_STUDENTS.append(str(ROOT / "authoring"))


class Helpers:
    """What a set's own cells may ask of its checks: data and functions, no exercise."""

    def __init__(self, source: NotebookNode):

        self.names = {
            node.attr
            for cell in source.cells
            if cell.cell_type == "code"
            for node in ast.walk(ast.parse(TransformerManager().transform_cell(cell.source)))
            if isinstance(node, ast.Attribute) and not node.attr.startswith("_")
        }

    def __call__(self, chapter, name):
        if chapter not in MODULES or name not in self.names:  # what comes need not be a text
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

    def _run(self, name, function, args, named):
        """What the library's part gives; none is an answer to its own check."""
        frames = traceback.walk_stack(None)
        if any(frame.f_code is exercise.Exercise._examine.__code__ for frame, _ in frames):
            raise Refused(f"{name} of the library is no answer")
        return super()._run(name, function, args, named)


class Run:
    """One notebook on its way through the student's process.

    ``passed`` says of each test, by grade id, whether it passed; None is for a person to read.
    ``beside`` names tests that only work beside the answer: they run in the student's process, in
    one that has the checks, and what it says is believed. There the tests that failed run once
    more: those that pass are ``disputed``, and for a person to read.
    """

    def __init__(self, notebook: NotebookNode, place: Place, helpers: Helpers, beside=frozenset()):
        self.place, self.helpers, self.beside = place, helpers, beside
        self.doubted: set[str] = set()
        self.disputed: set[str] = set()
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell in self.cells:
            cell.outputs = []
        self.passed = {
            preflight.grade_id(cell): None if preflight.is_read(cell) else False
            for cell in notebook.cells
            if preflight.has_points(cell)
        }
        self.room = Room(LONGEST_ALL, LARGEST_ALL)
        self.fatal: dict[int, str] = {}  # what stopped a cell, by its index
        self.slowest = 0.0  # seconds of a cell
        self.done: set[int] = set()

    def run(self, cell_seconds: float, all_seconds: float):
        """Fill in outputs and ``passed``.

        When a cell ends or blocks its process, everything is run anew without it; tests that were
        done count.
        """
        self.cell_seconds, self.all_seconds = cell_seconds, all_seconds
        self.end = time.monotonic() + all_seconds
        self._run_all(together=False)
        self.doubted = {
            preflight.grade_id(cell)
            for index, cell in enumerate(self.cells)
            if index in self.done and index not in self.fatal
            if not self.passed[preflight.grade_id(cell)] and not cell.metadata.get("blank_answer")
        }
        if self.beside or self.doubted:
            self._run_all(together=True)
        return self

    def _run_all(self, together):
        while len(self.fatal) <= len(self.cells) and time.monotonic() < self.end:
            if self._run_through(together):
                break

    def _run_through(self, together):
        """Run all cells in a fresh process; False if one had to be given up."""
        student = self.place.start([] if together else CHAPTERS)
        self.running = None
        self.waited, self.granted = student.seconds_without_processor(), 0.0
        peer = Peer(Wire(student.link), False, (types.ModuleType, exercise.Exercise))
        peer.extra["helper"] = self.helpers
        peer.wire.grant = functools.partial(self._grant, student)
        peer.wire.watch = functools.partial(_watch, student)
        try:
            peer.wire.deadline = time.monotonic() + START_SECONDS
            peer.ask("run", source=self._prepared() if together else "")
            for index, cell in enumerate(self.cells):
                again = together and preflight.grade_id(cell) in self.doubted
                if index not in self.fatal and (again or index not in self.done):
                    peer.wire.deadline = min(time.monotonic() + self.cell_seconds, self.end)
                    self.running, begin = index, time.monotonic()
                    self.waited, self.granted = student.seconds_without_processor(), 0.0
                    with _own_seconds(self.cell_seconds):
                        self._run_cell(index, cell, peer, together)
                    self.slowest = max(self.slowest, time.monotonic() - begin)
            return True
        except Lost as lost:
            self._give_up(str(lost), peer.wire.deadline)
            return False
        finally:
            student.end()

    def _prepared(self):
        """What runs first beside the answer: of a test that only runs once more nobody reads why
        it fails."""
        return PREPARED.format(seeds=exercise.SEEDS, explains=bool(self.beside))

    def _run_cell(self, index, cell, peer, together):
        if preflight.is_read(cell) or not preflight.has_points(cell):
            outputs = run_there(peer, cell.source)
            cell.outputs = cell.outputs if together else self._shown(outputs)
            return
        name = preflight.grade_id(cell)
        if name in self.doubted:
            if passes(run_there(peer, with_imports(cell))):
                self.disputed.add(name)
        elif together == (name in self.beside):
            test = Test(cell)
            outputs = (
                run_there(peer, with_imports(cell)) if together else examine(test.judging, peer)
            )
            if test.training and not together and passes(outputs):
                outputs += examine(test.training, peer, self._proven(test, name))
            self.passed[name] = passes(outputs)
            self.done.add(index)
            cell.outputs = self._shown(outputs)
            if test.showing and not together:
                cell.outputs += self._shown(map(_as_show, examine(test.showing, peer)))

    def _proven(self, test, name):
        """The references of the functions that a plan is trained and measured with.

        Where all of them have passed their own tests, the plan is judged with these: what a
        student's own says of its own training need not be so. A test of such a function itself,
        which has passed the rest of it, is judged with the reference in place of that one alone.
        """
        own = name.removeprefix("test_")
        asked = {
            called: one
            for called in test.asked
            for module in test.modules.values()
            if isinstance(one := getattr(module, called, None), exercise.Exercise)
        }
        if own in asked:
            asked = {own: asked[own]}
        proven = all(
            (called == own or self.passed.get(f"test_{called}"))
            and isinstance(one.reference, types.FunctionType)
            for called, one in asked.items()
        )
        return {called: one.reference for called, one in asked.items()} if proven else {}

    def _shown(self, outputs):
        return self.room.keep(Room().keep(list(outputs)))

    def _grant(self, student):
        """The seconds that a cell has had no processor: they do not count as its own."""
        waited = student.seconds_without_processor()
        more = min(waited - self.waited, LONGEST_WAIT * self.cell_seconds - self.granted)
        more = more if more > 0.1 else 0.0
        self.waited, self.granted, self.end = waited, self.granted + more, self.end + more
        return more

    def _give_up(self, why, deadline):
        if self.running is None:
            raise RuntimeError(f"no process for the student's cells: {why}")
        if deadline == self.end:
            reason = f"the notebook as a whole was stopped after {self.all_seconds:.0f} seconds"
        elif why == "too slow":
            reason = f"stopped after {self.cell_seconds:.0f} seconds"
        else:
            reason = "this cell ended its process" if why == "ended" else f"this cell {why}"
        if preflight.grade_id(self.cells[self.running]) in self.doubted:
            self.doubted.remove(preflight.grade_id(self.cells[self.running]))
            return
        self.fatal[self.running] = reason
        self.cells[self.running].outputs = [_stopped(reason)]

    def notes(self, notebook: NotebookNode) -> list[str]:
        """What stopped cells, each with its name or number in the notebook."""
        places = {id(cell): number for number, cell in enumerate(notebook.cells, start=1)}
        found = {}
        for index, reason in sorted(self.fatal.items()):
            cell = self.cells[index]
            name = preflight.grade_id(cell) or f"number {places[id(cell)]}"
            found.setdefault(reason, []).append(name)
        return [f"cell {', '.join(names)}: {reason}" for reason, names in found.items()]


@contextlib.contextmanager
def _own_seconds(most):
    """Give up a cell when the grader itself has computed for so many seconds.

    While it waits for the student's process that has a deadline; but what an answer gives may take
    long to look at: a list of 100,000 tensors, say.
    """
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def stop(*_):
        raise Lost("too slow")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, most, 1.0)  # again, should it be lost in a `__del__`
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _watch(student):
    """Give up a cell whose processes hold more together than one may."""
    if student.memory() > MEMORY:
        raise Lost(f"and what it started took more than {MEMORY // 2**30} GiB of memory")


def run_there(peer: Peer, source: str) -> list:
    """The outputs of a cell that runs in the student's process."""
    if len(source) > LONGEST_TEXT // 2:
        raise Lost(f"has {len(source):,} characters, too many to run")
    try:
        return [output_from(output) for output in peer.ask("run", source=source)]
    except (Exception, SystemExit):  # what a cell raises is an output
        raise Lost("sent what is no output") from None


def passes(outputs: list) -> bool:
    """Whether a test with these outputs has passed."""
    return not any(output.output_type == "error" for output in outputs)


def with_imports(cell: NotebookNode) -> str:
    """A test with the imports that it needs."""
    return "\n".join([cell.metadata.get("grading_imports", ""), cell.source])


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
            "error", ename=str(told["ename"])[:MOST], evalue=str(told["evalue"]), traceback=lines
        )
    data = {name: str(text) for name, text in told["data"].items() if name in SHOWN}
    for name in [name for name in data if name.startswith("image")]:
        if not re.fullmatch(r"[A-Za-z0-9+/=\s]*", data[name]):
            del data[name]
    return new_output("display_data", data=data)


def _as_show(output):
    """What a line of show prints or raises: it says nothing about the answer."""
    if output.output_type != "error":
        return output
    return new_output("stream", name="stdout", text=f"(not shown: {output.traceback[0]})\n")


class Test:
    """The lines of a test that judge, those that train what a plan says, and those that only show.

    Where nothing but the test's own lines can judge, since it asks no check, all of them do.
    """

    def __init__(self, cell: NotebookNode):
        tree = ast.parse(TransformerManager().transform_cell(with_imports(cell)))
        given = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        self.modules = {
            alias.asname or alias.name: importlib.import_module(f"{node.module}.{alias.name}")
            for node in given
            if isinstance(node, ast.ImportFrom) and node.module == checks.__name__
            for alias in node.names
        }
        asking = {id(node): asked for node in tree.body if (asked := self._asks(node))}
        training = [node for node in tree.body if asking.get(id(node)) == TRAINS]
        judging = [node for node in tree.body if asking.get(id(node), TRAINS) != TRAINS]
        rest = [node for node in tree.body if id(node) not in asking and node not in given]
        if not asking:
            judging, rest = rest, []
        self.judging = ast.Module([*given, *judging], [])
        self.training = training and ast.Module([*given, *training], [])
        self.showing = rest and ast.Module([*given, *rest], [])
        self.asked = [
            name.id for node in training for name in node.value.args if isinstance(name, ast.Name)
        ]

    def _asks(self, node):
        """What a statement asks of a check, if it does."""
        called = getattr(getattr(node, "value", None), "func", None)
        if not (isinstance(node, ast.Expr) and isinstance(called, ast.Attribute)):
            return None
        is_check = isinstance(called.value, ast.Name) and called.value.id in self.modules
        return called.attr if is_check else None


class Names(dict):
    """The names of a test. What it does not bind itself is the student's, asked for when needed."""

    def __init__(self, peer: Peer, given: dict | None = None):
        super().__init__(given or {}, __name__="__main__", __builtins__=builtins)
        self.peer = peer

    def __missing__(self, name):
        if name in vars(builtins):
            raise KeyError(name)
        self[name] = self.peer.ask("name", name=name)
        return self[name]


def examine(lines: ast.Module, peer: Peer, given: dict | None = None) -> list:
    """Run lines of a test here, with the student's names but for those given; their outputs."""
    code = compile(lines, "<test>", "exec")
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            gc.collect()
            peer.ask("tidy")
            exec(code, Names(peer, given))
        except KeyboardInterrupt:
            raise
        except (Exception, SystemExit) as error:
            outputs.append(_error(error))
    if printed.getvalue():
        outputs.insert(0, new_output("stream", name="stdout", text=printed.getvalue()))
    return outputs


def _error(error):
    try:
        text = str(error)[:LONGEST_MESSAGE]
    except Exception:
        text = ""
    shown = (
        text.split("\n")
        if isinstance(error, exercise.CheckFailed)
        else [f"{type(error).__name__}: {text}"]
    )
    return new_output("error", ename=type(error).__name__, evalue=text, traceback=shown)
