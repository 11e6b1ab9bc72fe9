"""A lab that keeps its records in an empty folder, and what a notebook would display."""

import functools
import sys

import pytest

from textbook.lab import Lab, report
from textbook.plot import style


@pytest.fixture(scope="session", autouse=True)
def version_of_gradebooks():
    """A new gradebook starts a process that tells which version it has: one is enough for all."""
    with pytest.MonkeyPatch.context() as patch:
        if nbgrader := sys.modules.get("nbgrader.api"):
            asked = functools.cache(nbgrader.get_alembic_version)
            patch.setattr(nbgrader, "get_alembic_version", asked)
        yield


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    lab = Lab("05")
    lab.path = lambda function: tmp_path / "results" / "05.json"
    return lab


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would display, as dicts by mimetype."""
    outputs = []
    display = lambda: lambda data, raw: outputs.append(data)  # noqa: E731
    monkeypatch.setattr(report, "notebook_display", display)
    monkeypatch.setattr(style, "notebook_display", display)
    return outputs
