"""The book without a clone: the wheel is built, unpacked, and opened from an empty folder."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from authoring.alone import INSTALLING

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def package(wheel):
    """The wheel's files in a folder of their own."""
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def called(package, code, folder, **more):
    """What a Python prints that imports the book from the package alone."""
    code = f"import sys; sys.path.insert(0, {str(package)!r}); {code}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | more,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def opened(package, folder, *options):
    arguments = ["minitorch-book", *options]
    code = f"sys.argv = {arguments!r}; from textbook.installed import command; command()"
    return called(package, code, folder)


def test_the_wheel_holds_the_book_for_readers_and_nothing_else(wheel, package):
    inside = package / "textbook" / "book"
    for part in ["notebooks/*.ipynb", "notebooks/results/*.json", "exercises/*/*.ipynb"]:
        there = {path.relative_to(ROOT) for path in ROOT.glob(part)}
        assert there == {path.relative_to(inside) for path in inside.glob(part)} != set()
    names = [path.relative_to(package).as_posix() for path in package.rglob("*")]
    assert not [name for name in names if "solutions" in name or "__pycache__" in name]
    assert not list(inside.glob("notebooks/*.py"))
    assert {path.parts[0] for path in map(Path, names)} == {
        *("minitorch", "textbook"),
        *(path.name for path in package.glob("*.dist-info")),
    }
    assert wheel.stat().st_size < 12e6


@pytest.fixture(scope="module")
def reader(package, tmp_path_factory):
    """A folder where the command was called; JupyterLab only said its version."""
    folder = tmp_path_factory.mktemp("reader")
    assert "Opening JupyterLab on my/" in opened(package, folder, "lab", "--version")
    return folder


def test_the_command_opens_the_book_in_the_folder_where_it_is_called(package, reader):
    mine = reader / "my"
    for name in ["notebooks/*.ipynb", "exercises/*/*.*", "notebooks/results/*.json"]:
        assert len(list(mine.glob(name))) == len(list(ROOT.glob(name)))
    assert "minitorch-book lab" in opened(package, reader, "help")
    assert "--seconds {40,120,600}" in opened(package, reader, "race", "--help")


def test_a_set_that_was_opened_so_keeps_which_exercises_pass(package, reader):
    code = (
        "from textbook.checks import chapter_07, progress;"
        "chapter_07.chunk_mask(chapter_07.chunk_mask.reference); print(progress.line('07'))"
    )
    folder = reader / "my/exercises/07_masking"
    assert "✓" in called(package, code, folder, PYTHONUTF8="1")
    kept = json.loads((reader / "my/.progress.json").read_text("utf-8"))
    assert kept["07"] == {"chunk_mask": True}


RECORDED = """
from textbook.lab import Lab

@Lab("05").experiment("C11", full={{}})
def {name}():
    return {{}}

print(len({name}.recorded()["rows"]))
"""


def test_a_chapter_that_is_alone_in_its_folder_has_its_records(package, tmp_path):
    [name, *_] = json.loads((ROOT / "notebooks/results/05.json").read_text())
    assert int(called(package, f"exec({RECORDED.format(name=name)!r})", tmp_path)) > 0


# A Python that has a notebook's `get_ipython`, whose pip only says what it is asked for.
ASKED = f"""
class get_ipython:
    def find_line_magic(self, name):
        return lambda line: print(name, line)

exec({INSTALLING!r})
"""


def test_the_first_cell_installs_what_the_wheel_needs_and_only_where_it_is_not(package, tmp_path):
    assert called(package, ASKED, tmp_path) == ""
    nowhere = "sys.modules['textbook'] = None; " + f"exec({ASKED!r})"
    itself, *needed = called(package, nowhere, tmp_path).splitlines()
    assert itself == "pip install --quiet --no-deps minitorch-book"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        need for need in project["dependencies"] if not re.match("jupyterlab|ipykernel", need)
    ]
    assert re.findall('"(.*?)"', "".join(needed)) == wanted


def test_each_chapter_and_set_has_this_cell_below_its_title():
    for path in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/*/*.ipynb")]:
        title, cell, *_ = json.loads(path.read_text("utf-8"))["cells"]
        assert title["cell_type"] == "markdown" and "".join(cell["source"]) == INSTALLING
        assert cell["outputs"] == [] and cell["metadata"]["jupyter"] == {"source_hidden": True}


def environment(folder, *wanted):
    """A new environment with what is wanted: its folder of programs."""
    venv.create(folder, with_pip=True)
    bin = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)
    return bin


@pytest.mark.thorough
def test_a_chapter_or_set_installs_the_book_where_it_is_opened_alone(wheel, tmp_path):
    """As on Colab: Jupyter is there, the book is not; the wheel's folder stands in for PyPI."""
    bin = environment(tmp_path / "env", "nbconvert", "ipykernel")
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ["notebooks/06_multi_head_attention", "exercises/07_masking/07_masking"]:
        path = ROOT / f"{name}.ipynb"
        (alone / path.name).write_bytes(path.read_bytes())
    run = [bin / "python", "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"  # the magic needs a shell
    more = {"PATH": path, "PIP_FIND_LINKS": str(wheel.parent), "MINITORCH_BOOK": "quick"}
    subprocess.run([*run, *alone.iterdir()], cwd=alone, check=True, env=os.environ | more)
    chapter, exercises = (path.read_text("utf-8") for path in sorted(alone.iterdir()))
    assert "recorded" in chapter and "No record of this chapter" not in chapter
    assert set(re.findall('"ename": "(.*?)"', exercises)) == {"CheckFailed"}  # not solved yet


@pytest.mark.thorough
def test_a_chapter_runs_alone_where_only_the_wheel_was_installed(wheel, tmp_path):
    """From an empty environment, which needs the network or an index that stands in for it."""
    bin = environment(tmp_path / "env", wheel)
    alone = tmp_path / "alone"
    alone.mkdir()
    chapter = "06_multi_head_attention.ipynb"
    (alone / chapter).write_bytes((ROOT / "notebooks" / chapter).read_bytes())
    run = [bin / "python", "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", chapter]
    subprocess.run(run, cwd=alone, check=True, env=os.environ | {"PATH": str(bin)})
    text = (alone / chapter).read_text("utf-8")
    assert "recorded" in text and "No record of this chapter" not in text
    told = subprocess.run(
        [bin / "minitorch-book", "lab", "--version"], cwd=alone, check=True, capture_output=True
    )
    assert b"Opening JupyterLab" in told.stdout and (alone / "my" / "notebooks" / chapter).is_file()
