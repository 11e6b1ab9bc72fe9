"""Every operation: its values, and its gradient by two independent judges."""

import importlib
import inspect
import pathlib
import random

import gradients
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import ROWS

import minitorch as mt
import minitorch.nn.functional as F
from authoring import library
from minitorch.autograd.modes import listening

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


OPERATIONS = {
    name: getattr(
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)), name
    )
    for name, path in library.operations(ROOT)
}


def calls_of(name, case):
    """The arguments of each call of the operation that the case makes, as arrays and others."""
    calls = []

    def listen(called, arguments, results, backward):
        if called == name and not backward:
            calls.append(arguments)

    with listening(listen):
        case.function(*(gradients.tensor_of(x).requires_grad_() for x in case.inputs))
    return calls


def called_again(name, arguments, chosen):
    """The results for the same arguments, of which the chosen one alone requires a gradient.

    Whoever calls attention says by its last argument whether its mask, the fourth, does.
    """
    parameters = inspect.signature(OPERATIONS[name]).parameters.values()
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    tensors = [mt.Tensor._wrap(x.copy()) if hasattr(x, "strides") else x for x in arguments]
    tensors[chosen].requires_grad_()
    positional = len(tensors) - len(keywords)
    named = dict(zip(keywords, tensors[positional:], strict=True))
    if name == "scaled_dot_product_attention":
        tensors[-1] = chosen == 3
    return tensors[chosen], gradients.outputs_of(OPERATIONS[name](*tensors[:positional], **named))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_argument_gets_its_gradient_or_says_that_it_has_none(name):
    """Asked for each tensor of floating-point numbers alone, of every call that a row draws."""
    for seed in range(20):
        case = ROWS[name](gradients.Draw(random.Random(seed).randint))
        for arguments in calls_of(name, case) if case.differentiable else ():
            floating = [x for x in arguments if hasattr(x, "strides") and x.dtype.kind == "f"]
            for x in floating:
                chosen = next(i for i, y in enumerate(arguments) if y is x)
                try:
                    asked, results = called_again(name, arguments, chosen)
                except RuntimeError as error:
                    assert "has no gradient for its argument" in str(error)
                    continue
                found = [y for y in results if y.is_floating_point()]
                assert all(y.requires_grad for y in found), f"argument {chosen}: no history"
                mt.autograd.backward(found, [mt.ones_like(y) for y in found])
                assert asked.grad is not None, f"argument {chosen}: no gradient"


def test_what_has_no_gradient_says_so():
    scores, classes = mt.zeros(2, 3), mt.tensor([0, 2])
    number, vector = mt.ones(1, requires_grad=True).sum(), mt.ones(3, requires_grad=True)
    for error, call in (
        (RuntimeError, lambda: F.cross_entropy(scores, classes, weight=vector)),
        (RuntimeError, lambda: F.cross_entropy(scores.requires_grad_(), classes, weight=vector)),
        (RuntimeError, lambda: mt.bincount(classes, vector[:2])),
        (RuntimeError, lambda: mt.add(scores, scores, alpha=number)),
        (RuntimeError, lambda: mt.norm(scores, number)),
        (TypeError, lambda: mt.full((2,), number)),
        (TypeError, lambda: mt.arange(number)),
        (TypeError, lambda: F.pad(scores, (1, 1), value=number)),
    ):
        with pytest.raises(error, match="requires"):
            call()
    assert mt.bincount(classes, vector[:2].detach()).tolist() == [1, 0, 1]


def test_a_tensor_may_stand_for_a_number():
    x, two = mt.ones(2), mt.tensor(2.0, dtype=mt.float64)
    for result in (mt.add(x, x, alpha=two), x.clone().add_(x, alpha=two), x.clone().add_(2, x)):
        assert result.tolist() == [3, 3] and result.dtype is mt.float32
