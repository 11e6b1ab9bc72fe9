"""Execute the sources and write every generated file."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from time import perf_counter

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager
from traitlets import default

from . import claims, quoted
from .release import release
from .saved import saved_module, saved_path
from .sources import (
    BookError,
    chapters,
    exercise_sets,
    first_line,
    number_of,
    read_chapter,
    read_exercises,
    release_path,
    to_text,
    write_text,
)

CELL_TIMEOUT = 300  # seconds
KERNEL_ENVIRONMENT = {
    "MINITORCH_BOOK": "quick",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "TQDM_DISABLE": "1",
    # What third parties deprecate is no reason to fail; every other warning is.
    "PYTHONWARNINGS": "ignore::DeprecationWarning,ignore::FutureWarning",
}
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def build(root: Path, number: str | None = None, *, texts_only: bool = False) -> None:
    """Execute and write the chapters and exercise sets, all or those with this number.

    With ``texts_only`` nothing is executed: the stored outputs stay, and a source whose code is not
    the stored one is refused. A source that fails leaves its files as they were; the others are
    built.
    """
    sources = [(read_chapter, source) for source in chapters(root, number)]
    sources += [(read_exercises, source) for source in exercise_sets(root, number)]
    if not sources:
        raise BookError(f"no chapter and no exercise set with number {number!r} in {root}")
    failures = []
    for read, source in sources:
        start = perf_counter()
        try:
            texts = _generate(root, read, source, keep_outputs if texts_only else execute)
        except BookError as error:
            failures.append(str(error))
            continue
        for path, text in texts.items():
            write_text(path, text)
        names = " and ".join(str(path.relative_to(root)) for path in texts)
        print(f"{names}: {perf_counter() - start:.1f} s", flush=True)
    try:
        claims.write(root)
        quoted.write(root)
    except BookError as error:
        failures.append(str(error))
    if failures:
        raise BookError("\n\n".join(failures))


def _generate(
    root: Path,
    read: Callable[[Path], NotebookNode],
    source: Path,
    put_outputs: Callable[[NotebookNode, Path], None],
) -> dict[Path, str]:
    """What is made of one source: the text of each file."""
    notebook = read(source)
    put_outputs(notebook, source)
    texts = {source.with_suffix(".ipynb"): to_text(notebook)}
    if read is read_exercises:
        texts[release_path(root, source)] = to_text(release(root, notebook))
    elif saved := saved_module(source):
        texts[saved_path(root, source)] = saved
    return texts


def keep_outputs(notebook: NotebookNode, source: Path) -> None:
    """Give the notebook the outputs that are stored, if it has the code that they come from."""
    path = source.with_suffix(".ipynb")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = nbformat.read(path, as_version=4).cells if path.exists() else []
    stored = [cell for cell in stored if cell.cell_type == "code"]
    for cell, kept in zip_longest(code, stored):
        if not cell or not kept or cell.source != kept.source:
            raise BookError(
                f"{source}: the code of cell '{first_line(cell or kept)}' is not the stored one: "
                f"run: python book.py build {number_of(source)}"
            )
        cell.outputs, cell.execution_count = kept.outputs, kept.execution_count


class EnvironmentKernelManager(AsyncKernelManager):
    """Starts the kernel of the running environment, whatever kernels the user has installed."""

    @default("kernel_spec_manager")
    def _environment_kernels(self) -> NbvalKernelspecManager:
        return NbvalKernelspecManager()


@contextmanager
def kernel_environment(**more: str) -> Iterator[None]:
    """Set the variables that a kernel started inside inherits, and put them back."""
    import matplotlib.font_manager  # noqa: F401  builds the font cache, which warns the first time

    variables = KERNEL_ENVIRONMENT | more
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def execute(notebook: NotebookNode, source: Path, timeout: float = CELL_TIMEOUT) -> None:
    """Run the notebook in its folder and keep its outputs; refuse errors and warnings."""
    running: dict = {}
    client = NotebookClient(
        notebook,
        timeout=timeout,
        force_raise_errors=True,  # also where a student's run goes on
        kernel_name=CURRENT_ENV_KERNEL_NAME,
        kernel_manager_class=EnvironmentKernelManager,
        record_timing=False,
        store_widget_state=False,
        on_cell_execute=running.update,
        resources={"metadata": {"path": str(source.parent)}},
    )
    with kernel_environment():
        try:
            client.execute(stderr=subprocess.DEVNULL)  # the kernel's own log
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            reason = ESCAPES.sub("", str(error)).strip()
            where = f"{source}: cell '{first_line(running['cell'])}'"
            raise BookError(f"{where} failed:\n{reason}") from None
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = join_streams(cell.outputs)
            for output in cell.outputs:
                if output.get("name") == "stderr":
                    raise BookError(
                        f"{source}: cell '{first_line(cell)}' wrote to stderr, which is not kept; "
                        f"mend what it warns of:\n{output.text.strip()}"
                    )


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join what was printed in a row, which arrives in pieces that differ from run to run."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and output.output_type == "stream" and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined
