"""The exercise sets as students get them, without solutions and hidden tests."""

from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode
from traitlets.config import Config, PyFileConfigLoader

# nbgrader's own list in `nbgrader generate_assignment`, less what needs a database (SaveCells) and
# what this book does not use (headers, mark schemes, generated tests).
STEPS = (
    "LockCells",
    "ClearSolutions",
    "ClearOutput",
    "CheckCellMetadata",
    "ClearHiddenTests",
    "ComputeChecksums",
    "CheckCellMetadata",
)


def release(root: Path, solved: NotebookNode) -> NotebookNode:
    """The solved set as students get it."""
    from nbgrader import preprocessors  # takes half a second, and every run of pytest imports us

    notebook = deepcopy(solved)
    config = _nbgrader_config(root)
    for step in STEPS:
        notebook, _ = getattr(preprocessors, step)(config=config).preprocess(notebook, {})
    return notebook


def _nbgrader_config(root: Path) -> Config:
    path = root / "nbgrader_config.py"
    return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()
