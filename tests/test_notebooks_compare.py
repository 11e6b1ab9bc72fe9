"""Stored outputs are compared: tampering fails, noise passes, broken notebooks end soon."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from copy import deepcopy
from types import SimpleNamespace
from xml.etree import ElementTree

import mini_book
import nbformat
import pytest

from authoring import nbval_compare
from authoring.build import build
from authoring.nbval_compare import same


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("loss 0.12345", "loss 0.12346"),
        ("loss   0.5", "loss 0.5"),
        ("[0.5 1.  2.]", "[0.50001 1.0002 2.]"),
        ("1e-05", "1.0003e-05"),
        ("difference 3.1e-08", "difference 4.7e-09"),
        ("-0.0", "0.0"),
        ("3 rows, 2.50 s", "3 rows, 2.501 s"),
        ("ratio 1.250x", "ratio 1.2502x"),
        ("a-0.5", "a-0.50001"),
    ],
)
def test_noise_is_the_same(expected, found):
    assert same(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("loss 0.12345", "loss 0.12445"),
        ("loss 0.12345", "lass 0.12345"),
        ("1000 steps", "1001 steps"),
        ("after 1000.", "after 1001."),
        ("shape (1000, 5)", "shape (1001, 5)"),
        ("-0.5", "0.5"),
        ("version 2.4.6", "version 2.4.7"),
        ("float32", "float64"),
        ("0.5", "0.5 0.5"),
        ("0.5", "nan"),
        ("1e-05", "1e-04"),
        ("one\ntwo", "one two"),
        ("0.5 ok", "0.5"),
    ],
)
def test_what_a_reader_would_notice_is_not_the_same(expected, found):
    assert same(expected, expected)
    assert not same(expected, found)


def outputs(old: str, new: str):
    """Change what is stored and leave the sources as they are."""

    def change(notebook):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                text = json.dumps(cell.outputs)
                cell.outputs = [
                    nbformat.from_dict(out) for out in json.loads(text.replace(old, new))
                ]

    return change


def source(old: str, new: str):
    """Change what is executed and leave the stored outputs as they are."""

    def change(notebook):
        for cell in notebook.cells:
            cell.source = cell.source.replace(old, new)

    return change


def empty(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def survive_errors(notebook):
    """The tags of cells whose errors do not end a run, and whose outputs are not compared."""
    for cell in notebook.cells:
        cell.metadata.tags = ["raises-exception", "nbval-ignore-output"]


MEASURED = """
# %%
from textbook.lab import Lab, measured

measured("now", time.time())
Lab("01").holds("C1", "it is doubled", double(1 + time.time() % 1), above=1)
"""
# A kernel takes a second to start: each notebook but the last three has several changes.
CHANGES = {
    "harmless": [
        outputs("0.12345", "0.123450001"),
        source("print(time.time())", "print('another')"),
    ],
    "tampered": [
        outputs("0.12345", "0.12445"),
        outputs('"2.5"', '"2.51"'),
        source("print(time.time())", "import warnings; warnings.warn('beware')"),
        outputs('"holds": true', '"holds": false'),
    ],
    "empty": [empty, source("double(1.25)", "double(1.25) / 0")],
    "surviving": [survive_errors, source("double(1.25)", "double(1.25) / 0")],
    "warned": [outputs('"name": "stdout"', '"name": "stderr"')],
    "endless": [source("double(1.25)", "import time\nwhile True: time.sleep(0.1)")],
    "dead": [source("double(1.25)", "import os; os._exit(1)")],
}
TIMEOUT = 5


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """What pytest says of each changed notebook: its failed tests with their messages.

    The user's startup files would spoil every kernel.
    """
    root = mini_book.write(tmp_path_factory.mktemp("book"))
    with (root / "notebooks/01_double.py").open("a") as source:
        source.write(MEASURED)
    build(root)
    built = nbformat.read(root / "notebooks/01_double.ipynb", as_version=4)
    for name, changes in CHANGES.items():
        changed = deepcopy(built)
        for change in changes:
            before = deepcopy(changed)
            change(changed)
            assert changed != before
        nbformat.write(changed, root / "notebooks" / f"{name}.ipynb")
    for folder in ("my", "notebooks/.ipynb_checkpoints"):
        (root / folder).mkdir()
        (root / folder / "01_double.ipynb").write_text("not to be collected")
    startup = root / "ipython/profile_default/startup/00.py"
    startup.parent.mkdir(parents=True)
    startup.write_text("print = None")
    variables = {
        "PYTHONPATH": str(mini_book.REPOSITORY),
        "PYTHONSTARTUP": str(startup),
        "IPYTHONDIR": str(root / "ipython"),
    }
    report = root / "report.xml"
    options = ["-p", "no:xdist", f"--cell-timeout={TIMEOUT}", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=root, env=os.environ | variables)
    found = defaultdict(dict)
    for test in ElementTree.parse(report).iter("testcase"):
        tests = found[test.get("classname").removeprefix("notebooks.").removesuffix(".ipynb")]
        failure = test.find("failure")
        if failure is not None:
            tests[test.get("name")] = failure.text
    return found


def test_chapters_alone_compute_for_the_processor_that_is_asked_for(tmp_path, monkeypatch):
    asked = []

    def kernel(*arguments, **named):
        asked.append(os.environ.get("OPENBLAS_CORETYPE"))

    monkeypatch.setattr(nbval_compare, "Kernel", kernel)
    option = SimpleNamespace(chapters_on="Nehalem", nbval_kernel_startup_timeout=1, all=True)
    for folder in ("notebooks", "solutions/00_start"):
        notebook = SimpleNamespace(
            config=SimpleNamespace(option=option),
            path=tmp_path / folder / "00_start.ipynb",
            skip_compare=(),
        )
        nbval_compare.Notebook.setup(notebook)
    assert asked == ["Nehalem", None]
    assert "OPENBLAS_CORETYPE" not in os.environ


def test_only_chapters_and_solved_sets_are_collected(failures):
    assert set(failures) == {*CHANGES, "01_double", "solutions.01_double.01_double"}


@pytest.mark.parametrize("name", ["01_double", "harmless", "solutions.01_double.01_double"])
def test_what_is_as_it_should_be_passes(failures, name):
    assert failures[name] == {}


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        (
            "tampered",
            {
                "Cell 2": "Cell outputs differ",
                "Cell 3": "Cell outputs differ",
                "Cell 4": "The cell wrote to stderr(.|\n)*beware",
                "Cell 5": "Cell outputs differ",
            },
        ),
        (
            "empty",
            {
                "stored outputs": "no cell has a stored output; cell .* was not executed",
                "Cell 3": "ZeroDivisionError",
            },
        ),
        ("surviving", {"Cell 3": "ZeroDivisionError"}),
        (
            "warned",
            {
                "stored outputs": "has stored an error or a warning",
                "Cell 2": "Missing output fields",
            },
        ),
        ("endless", {"Cell 3": f"Timeout of {TIMEOUT} seconds exceeded"}),
        (
            "dead",
            {
                "Cell 3": "the kernel died while it ran this cell",
                "Cell 4": "Kernel dead",
                "Cell 5": "Kernel dead",
            },
        ),
    ],
)
def test_what_is_wrong_fails_with_its_reason(failures, name, reasons):
    assert set(failures[name]) == set(reasons)
    for test, reason in reasons.items():
        assert re.search(reason, failures[name][test])
