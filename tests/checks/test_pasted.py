"""No definition of a chapter, pasted as it stands, is the answer to an exercise of its set."""

import ast
import importlib
import inspect
import io
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path

import pytest

from tests.checks.proof import NOTEBOOKS, exercises_of
from textbook.checks import CheckFailed
from textbook.checks.trial import Trial, how_it_differs

SETS = sorted((Path(__file__).resolve().parents[2] / "solutions").glob("*/*.py"))


def definitions(source):
    """What the cells of a chapter import and define, experiments excepted, by name."""
    names = {"__name__": "chapter"}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)
            or (isinstance(node, ast.FunctionDef) and not _is_experiment(node))
            or (isinstance(node, ast.Assign) and _is_constant(node.value))
        ):
            with suppress(NameError):  # of something that only an experiment makes
                exec(compile(ast.Module([node], []), source.name, "exec"), names)
    return names


def _is_experiment(node):
    return any("lab." in ast.unparse(each) for each in node.decorator_list)


def _is_constant(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return isinstance(node, ast.Lambda)
    return True


def candidates(source):
    """The functions and classes that a student could paste: this chapter's, earlier chapters'."""
    for name, value in definitions(source).items():
        module = getattr(value, "__module__", None) or ""
        own = module == "chapter" or re.fullmatch(r"textbook\.chapter_\d\d", module)
        if own and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def passes(check, answer):
    """Whether the hidden check takes this for an answer."""
    if check.run is None:
        try:
            inspect.signature(answer).bind(*check._parameters)
        except (TypeError, ValueError):
            return False
    trial = Trial(check, answer)
    with redirect_stdout(io.StringIO()):
        for i in range(len(trial.cases(True))):
            if how_it_differs(*trial.outcomes(True, i)):
                return False
        try:
            check(answer, hidden=True)
        except CheckFailed:
            return False
    return True


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_no_cell_of_the_chapter_is_an_answer(path):
    chapter = importlib.import_module(f"textbook.checks.chapter_{path.stem[:2]}")
    [source] = NOTEBOOKS.glob(f"{path.stem}.py")
    pasted = [
        f"{name} passes as {check.name}"
        for name, value in candidates(source)
        for check in exercises_of(chapter).values()
        if passes(check, value)
    ]
    assert not pasted, "\n".join(pasted)
