"""What students get: the exercise sets, and the book, without solutions and hidden tests."""

import os
import shutil
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode
from nbgrader import preprocessors
from traitlets.config import Config, PyFileConfigLoader

from .sources import BookError

# nbgrader's own list in `nbgrader generate_assignment`, less what needs a database (SaveCells) and
# what this book does not use (headers, mark schemes, generated tests).
STEPS = (
    preprocessors.LockCells,
    preprocessors.ClearSolutions,
    preprocessors.ClearOutput,
    preprocessors.CheckCellMetadata,
    preprocessors.ClearHiddenTests,
    preprocessors.ComputeChecksums,
    preprocessors.CheckCellMetadata,
)
HANDED_OUT = (
    "README.md",
    "LICENSE",
    "LICENSE-text",
    "book.py",
    "docs",
    "environment.yml",
    "pyproject.toml",
    "exercises",
    "minitorch",
    "notebooks",
    "textbook",
)


def release(root: Path, solved: NotebookNode) -> NotebookNode:
    """The solved set as students get it."""
    notebook = deepcopy(solved)
    config = _nbgrader_config(root)
    for step in STEPS:
        notebook, _ = step(config=config).preprocess(notebook, {})
    return notebook


def _nbgrader_config(root: Path) -> Config:
    path = root / "nbgrader_config.py"
    return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()


def from_shell(folder: Path) -> Path:
    """A folder as the user named it: book.py, which runs us in its own folder, says from where."""
    return Path(os.environ.get("BOOK_CALLED_FROM", "."), folder)


def hand_out(root: Path, folder: Path) -> None:
    """Copy the book without solutions, tests and author's tools into a new or empty folder."""
    folder = from_shell(folder)
    if folder.exists() and any(folder.iterdir()):
        raise BookError(f"{folder} is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    for name in HANDED_OUT:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=unwanted)
        else:
            shutil.copy2(root / name, folder / name)
