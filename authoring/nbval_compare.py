"""A pytest plugin: the book's notebooks are tests, and their stored outputs what they must give.

It builds on nbval and adds what the book needs: numbers with a tolerance, a gate that refuses
notebooks without outputs, a timeout for each cell, and an early end when the kernel dies.
"""

import re
from pathlib import Path
from queue import Empty
from time import monotonic

import nbval.plugin
import pytest
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from textbook.lab.report import COMPARED

from .build import CELL_TIMEOUT, kernel_environment
from .check import EMBEDDED_IMAGE, output_problems

RELATIVE, ABSOLUTE = 1e-3, 1e-6
# A sign belongs to the number unless a word or a number stands before it. "1." is a number in an
# array ("[1. 2.]") and the end of a sentence elsewhere. Versions such as 2.4.6 are words.
NUMBER = re.compile(
    r"((?<![\w.])[-+]?(?:\d*\.\d+|\d+\.(?=\s*[-\d,\])])|\d+)(?:[eE][-+]?\d+)?(?!\d|\.\d))"
)
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")


def pytest_addoption(parser, pluginmanager):
    # pyproject.toml says "-p no:nbval", since pytest would load it before this package (see
    # __init__.py); of nbval as a plugin only its options are needed.
    if not pluginmanager.has_plugin("nbval"):
        nbval.plugin.pytest_addoption(parser)
    parser.addoption(
        "--cell-timeout",
        type=float,
        default=CELL_TIMEOUT,
        help="seconds that a notebook's cell may take",
    )
    parser.addoption(
        "--chapters-on",
        metavar="CORE",
        help="the processor that NumPy's OpenBLAS computes for in the chapters, Haswell, say",
    )


def pytest_configure(config):
    config.option.nbval_cell_timeout = config.option.cell_timeout


def pytest_collect_file(file_path, parent):
    place = file_path.relative_to(parent.config.rootpath).parts
    chapter = len(place) == 2 and place[0] == "notebooks"
    solved_set = len(place) == 3 and place[0] == "solutions"
    if file_path.suffix == ".ipynb" and (chapter or solved_set):
        return Notebook.from_parent(parent, path=file_path)


def same(expected: str, found: str) -> bool:
    """Words and integers are equal, other numbers up to the tolerance, spaces do not count."""
    one, other = _parts(expected), _parts(found)
    return (
        len(one) == len(other)
        and one[::2] == other[::2]
        and all(map(_close, one[1::2], other[1::2]))
    )


def _parts(text: str) -> list[str]:
    """Words and numbers in turn."""
    return [part.strip(" ") for part in NUMBER.split(re.sub(r"[ \t]+", " ", text))]


def _close(one: str, other: str) -> bool:
    if one.lstrip("+-").isdigit() and other.lstrip("+-").isdigit():
        return one == other
    return abs(float(one) - float(other)) <= max(ABSOLUTE, RELATIVE * abs(float(one)))


class Text(str):
    """An output that equals another one when a reader would call them the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Kernel(RunningKernel):
    """nbval's kernel, which also notices when the process is gone."""

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        end = monotonic() + timeout
        while True:
            try:
                return super().await_reply(msg_id, timeout=min(1, end - monotonic()))
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel died while it ran this cell") from None
                if monotonic() >= end:
                    raise


class Notebook(IPyNbFile):
    """A notebook: first the gate, then a test for each code cell."""

    def setup(self) -> None:
        self.skip_compare += PICTURES
        core = self.config.option.chapters_on if self.path.parent.name == "notebooks" else None
        processor = {"OPENBLAS_CORETYPE": core} if core else {}
        density = "1" if self.config.option.all else "0"  # pictures are not compared
        with kernel_environment(MINITORCH_DENSITY=density, **processor):
            self.kernel = Kernel(
                CURRENT_ENV_KERNEL_NAME,
                cwd=str(self.path.parent),
                startup_timeout=self.config.option.nbval_kernel_startup_timeout,
            )

    def collect(self):
        cells = list(super().collect())
        yield Gate.from_parent(self, name="stored outputs")
        for cell in cells:
            cell.options["check_exception"] = False  # nor may a cell that a student's run survives
            yield Cell.from_parent(
                self, name=cell.name, cell_num=cell.cell_num, cell=cell.cell, options=cell.options
            )


class Gate(pytest.Item):
    """Refuses a notebook whose stored outputs are missing or hold errors, warnings, widgets."""

    def runtest(self) -> None:
        problems = list(output_problems(self.parent.nb))
        if problems:
            pytest.fail("; ".join(problems) + "\nrun: python book.py build", pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}: stored outputs"


def _to_compare(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs; of one that says what of it is to be compared, that alone."""
    return [
        NotebookNode(output | {"data": {COMPARED: output["data"][COMPARED]}})
        if COMPARED in output.get("data", {})
        else output
        for output in outputs
    ]


class Cell(IPyNbCell):
    """A code cell: numbers have a tolerance, measured digits are skipped, warnings refused."""

    def sanitize(self, s: object) -> object:
        return Text(EMBEDDED_IMAGE.sub("image", s)) if isinstance(s, str) else s

    def compare_outputs(self, test, ref, skip_compare=None) -> bool:
        return super().compare_outputs(_to_compare(test), _to_compare(ref), skip_compare)

    def runtest(self) -> None:
        super().runtest()
        for output in self.test_outputs or ():
            if output.get("name") == "stderr":
                self.raise_cell_error("The cell wrote to stderr", output.text)
