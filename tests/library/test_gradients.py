"""Every operation: its values, and its gradient by two independent judges."""

import pathlib
import random

import gradients
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import ROWS

from authoring import library

ROOT = pathlib.Path(__file__).parents[2]


def test_every_operation_has_one_row():
    assert len(library.operations(ROOT)) > 80, "the search for operations has lost them"
    problems = list(library.missing_rows(ROOT, ROWS))
    assert not problems, "\n".join(problems)
    assert library.rows(ROOT) == set(ROWS), "what is read of the rows is not what they register"


def test_every_operation_is_exported():
    problems = list(library.unexported(ROOT))
    assert not problems, "\n".join(problems)


@pytest.fixture
def share(device, request):
    """How many of the usual examples: a fifth on a GPU, and five times as many with --all."""
    return (1 if device == "cpu" else 0.2) * (5 if request.config.getoption("all") else 1)


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
def test_edge_cases(name, share):
    @settings(
        max_examples=int(20 * share),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def edge_cases(data):
        check(name, lambda low, high: data.draw(st.integers(low, high)))

    edge_cases()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_many_shapes(name, share):
    for seed in range(int(40 * share)):
        print("seed", seed)
        check(name, random.Random(seed).randint)
