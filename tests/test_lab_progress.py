"""Progress is seen while a cell runs, and a notebook that is saved keeps nothing of it."""

import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from authoring.build import EnvironmentKernelManager

IMPORT = "from textbook.lab import tqdm\n"
LOOPS = (
    "for i in tqdm(range(3), desc='outer'):\n    for j in tqdm(range(3), desc='inner'):\n        "
)
ENDS = {
    "by itself": "pass",
    "by an error": "1 / 0",
    "by an interrupt": "raise KeyboardInterrupt",
    "by a break": "if j == 1: break",
}


@pytest.fixture(scope="module")
def run():
    """Run cells in a kernel; a client whose notebook has the outputs as they are then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TQDM_DISABLE", raising=False)
        yield lambda *cells: client_of(cells)


def client_of(cells):
    made = [nbformat.v4.new_code_cell(IMPORT + cell) for cell in cells]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=made),
        timeout=60,
        kernel_manager_class=EnvironmentKernelManager,
        allow_errors=True,
    )
    try:
        client.execute()
    except DeadKernelError:
        assert cells[-1].endswith("os._exit(0)")
    return client


def left(cell):
    """What stays of a cell's outputs, without errors: the data of each."""
    return [
        output.get("data", output.get("text")) for output in cell.outputs if "ename" not in output
    ]


def test_however_a_cell_ends_nothing_of_its_bars_stays(run):
    client = run(*(LOOPS + end for end in ENDS.values()), "for i in tqdm(range(3)): print(i)")
    *looped, printed = client.nb.cells
    assert [left(cell) for cell in looped] == [[{}]] * len(ENDS)
    assert left(printed) == [{}, "0\n1\n2\n"]


def test_what_is_saved_in_the_middle_is_one_line_of_text(run):
    end = "import os, time; time.sleep(0.2); (i, j) == (1, 1) and os._exit(0)"
    [cell] = run(LOOPS + end).nb.cells
    [data] = left(cell)
    assert list(data) == ["text/plain"]
    assert data["text/plain"].startswith("outer:  33%") and "inner:  33%" in data["text/plain"]
    assert "\n" not in data["text/plain"] and "\r" not in data["text/plain"]


def test_where_progress_is_off_there_is_no_output(run, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    [cell] = run(LOOPS + "pass").nb.cells
    assert cell.outputs == []


def test_in_a_terminal_it_is_the_usual_bar(run):
    loop = IMPORT + "for i in tqdm(range(3), mininterval=0): pass"
    done = subprocess.run([sys.executable, "-c", loop], capture_output=True)
    assert b" 67%|" in done.stderr and done.stderr.endswith(b"\r")  # the line is free again
    assert done.stdout == b""
