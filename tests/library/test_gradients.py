"""Every operation: its values, and its gradient by two independent judges."""

import ast
import pathlib
import random

import gradients
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import ROWS

import minitorch

PACKAGE = pathlib.Path(minitorch.__file__).parent


def operations():
    """The name of every function in the library that is decorated with ``operation(...)``."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.FunctionDef):
                for decorator in item.decorator_list:
                    called = getattr(decorator, "func", decorator)
                    if getattr(called, "id", getattr(called, "attr", None)) == "operation":
                        names.append(item.name)
    return names


def test_every_operation_has_one_row():
    names = operations()
    assert sorted(names) == sorted(set(names)), "two operations of one name"
    assert len(names) > 80, "the search for operations has lost them"
    assert not set(names) - set(ROWS), "operations without a row in operations_table.py"
    assert not set(ROWS) - set(names), "rows without an operation"


def check(name, integer):
    """Draw a call of the operation, now and then with one array for several, and judge it."""
    draw = gradients.Draw(integer)
    case = ROWS[name](draw)
    if case.repeatable and len(case.inputs) > 1 and draw.pick(False, False, True):
        first = {}
        case.inputs = [first.setdefault(x.shape, x) for x in case.inputs]
    gradients.check_values(case)
    if not case.differentiable:
        gradients.check_no_gradient(case)
        return
    gradients.check_differences(case)
    if case.by_autograd:
        gradients.check_autograd(case)


@pytest.mark.parametrize("name", sorted(ROWS))
@given(data=st.data())
@settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_edge_cases(name, data):
    check(name, lambda low, high: data.draw(st.integers(low, high)))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_many_shapes(name):
    for seed in range(40):
        print("seed", seed)
        check(name, random.Random(seed).randint)
