"""The checks of chapter 00 catch and name what is wrong, and pass what is right."""

import functools

import numpy as np
import pytest
from pytest import approx

import minitorch as mt
from minitorch import nn
from minitorch.flops import count_flops
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.checks import CheckFailed, chapter_00
from textbook.checks.chapter_00.broken import _kinds
from textbook.checks.compare import difference
from textbook.checks.mistakes import Edit, edited


@pytest.mark.parametrize("proof", list(proofs(chapter_00)))
def test_checks(proof):
    proof()


BY_THE_LIBRARY = sorted({*refusing(chapter_00)} - {"broken_gradients"})


@pytest.mark.parametrize("name", BY_THE_LIBRARY)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_00, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in answers_in_key(check, "refused"):
            assert difference(answer(*case), expected, name) is None


def test_the_prediction_is_what_the_library_counts():
    sizes = [5, 7, 4, 3]
    for frozen in range(4):
        layers = [nn.Linear(n, m) for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
        for layer in layers[:frozen]:
            layer.requires_grad_(False)
        with count_flops() as counter:
            y = nn.Sequential(*layers)(mt.randn(6, 5)).sum()
            if frozen < 3:
                y.backward()
        assert chapter_00.training_flops.reference(sizes, frozen, 6) == counter.total


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_of_the_spectral_radius_converges(seed):
    matrix = np.random.default_rng(seed).standard_normal((5, 5))
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    assert chapter_00.spectral_radius.reference(mt.tensor(matrix), 1000) == approx(radius, rel=2e-3)


def factors_of(matrix, steps):
    """By how much each step lengthens the vector."""
    v, factors = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        v = v / v.norm() @ matrix
        factors.append(v.norm().item())
    return factors


def test_the_factor_of_a_single_step_need_not_converge():
    """What the text of the exercise says of two complex eigenvalues."""
    matrix = np.random.default_rng(5).standard_normal((5, 5))
    values = np.linalg.eigvals(matrix)
    assert values[np.abs(values).argmax()].imag != 0
    factors = factors_of(mt.tensor(matrix), 1000)
    assert max(factors[-100:]) > 1.1 * min(factors[-100:])


def test_an_engine_that_calls_itself_for_each_value_is_told_where():
    def visit(node, done):
        for parent in node.parents:
            if parent not in done:
                visit(parent, done)
        done.add(node)

    recursive = edited(
        chapter_00.Value.reference, [Edit("found = {self", "visit(self, set()); found = {self")]
    )
    recursive.gradients.__globals__["visit"] = visit
    with pytest.raises(CheckFailed, match="RecursionError") as caught:
        chapter_00.Value(recursive)
    assert "in the line: visit(parent, done)\nfor\n  program = 'x = a;" in str(caught.value)


def test_an_engine_that_walks_every_path_comes_to_an_end():
    [walker] = [m for m in chapter_00.Value.mistakes if "walks every path" in m.name]
    long = next(case for case in chapter_00.Value.all_cases() if "40 times" in case[0])
    outcome = chapter_00.Value._observe(walker.function, long)
    assert "too many steps" in str(outcome.error)


def test_second_derivatives_are_the_slopes_of_gradients():
    def gradients(a, b):
        a, b = chapter_00.Value.reference(a), chapter_00.Value.reference(b)
        first = ((a * b).exp() / (a - b)).gradients([a])[0]
        return first.data, [each.data for each in first.gradients([a, b])]

    def slope(by_a, by_b, eps=1e-6):
        above, below = (gradients(0.7 + s * by_a, 1.4 + s * by_b)[0] for s in (eps, -eps))
        return (above - below) / (2 * eps)

    assert gradients(0.7, 1.4)[1] == approx([slope(1, 0), slope(0, 1)], rel=1e-6)


def test_the_reference_tells_the_broken_programs_and_no_others():
    broken, right = _kinds()
    made = [make() for make in {**broken, **right}.values()]
    assert chapter_00.broken_gradients.reference(made) == list(range(len(broken)))
    nine = chapter_00.programs()
    assert len(nine) == 9
    assert len(chapter_00.broken_gradients.reference(nine)) == 5


def test_what_the_exercise_says_of_its_table():
    """Who is concluded of, and the traps that the solution names."""
    table, conclusions = chapter_00.table, chapter_00.conclusions
    pairs = conclusions.reference(table)
    assert {name for pair in pairs for name in pair} == {"SGD", "momentum", "Adam"}
    assert {("momentum", "SGD"), ("Adam", "SGD")} == set(pairs)
    best = min(table, key=lambda run: run["new"])
    assert best["optimizer"] == "RMSprop"
    assert best["rate"] == max(run["rate"] for run in table if run["optimizer"] == "RMSprop")
    compared = [run for run in table if run["optimizer"] in ("SGD", "momentum", "Adam")]
    tempting = min(compared, key=lambda run: run["new"])
    assert (tempting["optimizer"], tempting["rate"]) == ("momentum", 0.3)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"rate": 0.03}, "expected a dict with the keys"),
        ({"rate": 0.03, "steps": 900, "right": 0.9}, "expected 1 to 200"),
        ({"rate": 30, "steps": 90, "right": 0.9}, "a rate between 0 and 10"),
        ({"rate": 0.03, "steps": 90, "right": 90}, "expected a share"),
        ({"rate": 0.01, "steps": 5, "right": 0.9}, "at least 83%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_reach_enough_is_told_why(plan, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_00.reached(chapter_00.step_in_parts.reference, lambda: plan)


def test_a_training_that_was_measured_on_its_own_points_is_told_so(capsys, monkeypatch):
    monkeypatch.setattr(chapter_00.training, "trained", functools.cache(chapter_00.trained))
    step, plan = chapter_00.step_in_parts.reference, {"rate": 0.03, "steps": 200}
    chapter_00.reached(step, lambda: plan | {"right": 0.9})
    assert "it is reached, and measured well" in capsys.readouterr().out
    model = chapter_00.trained(step, 0.03, 200, 0)
    mt.manual_seed(0)
    points, arms = chapter_00.spiral(30)
    known = (model(points).argmax(dim=1) == arms).float().mean().item()
    with pytest.raises(CheckFailed, match="you say that"):
        chapter_00.reached(step, lambda: plan | {"right": known})
