"""The model answer of an exercise: the reference of its check, with nbgrader's two marks.

A student writes what stands below the docstring of a function, and of a class of each method;
`super().__init__()` is given. In a set, ``# %% solution="Block" given="__init__"`` is an empty
cell, which is filled by this. The methods that ``given`` names students get whole; of those that
``own`` names, helpers of this answer, they get nothing.
"""

import ast
import importlib
from collections.abc import Collection

from textbook.checks import Exercise
from textbook.checks.mistakes import text_of

GIVEN = "super().__init__()"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def model_answer(
    number: str, name: str, given: Collection[str] = (), own: Collection[str] = ()
) -> str:
    """The text of the cell that answers the exercise of this name in the set of this number."""
    chapter = importlib.import_module(f"textbook.checks.chapter_{number}")
    check = getattr(chapter, name, None)
    if not isinstance(check, Exercise):
        raise LookupError(f"{chapter.__name__} has no exercise {name}")
    text = text_of(check.reference).rstrip("\n")
    [definition] = ast.parse(text).body
    if lost := {*given, *own} - {getattr(part, "name", None) for part in definition.body}:
        raise LookupError(f"{name} has no method {min(lost)}")
    lines = text.split("\n")
    for first, last, indent in reversed(_blanks(definition, given, own)):
        lines.insert(last, f"{indent}{END}")
        lines.insert(first, f"{indent}{BEGIN}")
    return "\n".join(lines)


def _blanks(
    definition: ast.FunctionDef | ast.ClassDef, given: Collection[str], own: Collection[str]
) -> list[tuple[int, int, str]]:
    """Where a student writes: between which lines, and how far indented."""
    functions = definition.body if isinstance(definition, ast.ClassDef) else [definition]
    found: list[tuple[int, int, str]] = []
    for function in functions:
        if not isinstance(function, ast.FunctionDef) or function.name in given:
            continue
        body = function.body
        above, indent = body[0].lineno - 1, " " * body[0].col_offset
        if ast.get_docstring(function) is not None or ast.unparse(body[0]) == GIVEN:
            above = body[0].end_lineno
        if function.name in own:
            above, _, indent = found.pop()
        found.append((above, body[-1].end_lineno, indent))
    return found
