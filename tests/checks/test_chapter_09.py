"""The checks of chapter 09 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_09
from textbook.checks.chapter_09 import gradient_key, norms_key
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_09)))
def test_checks(proof):
    proof()


def test_the_norm_is_that_of_the_library_as_long_as_no_square_overflows():
    for x, gain, bias, eps in chapter_09.layer_norm.all_cases():
        found = chapter_09.layer_norm.reference(x, gain, bias, eps)
        usual = x.abs().amax(dim=-1) < 1e100
        library = norms_key.library_norm(x, gain, bias, eps)
        assert mt.allclose(found[usual], library[usual])
        assert mt.isfinite(found).all()


def test_a_factor_changes_nothing_but_epsilon_whatever_its_size():
    x = Draw(0).normal(3, 5)
    one, none = mt.ones(5), mt.zeros(5)
    expected = chapter_09.layer_norm.reference(x, one, none, 0.0)
    for factor in (1e-3, 1e100, 1e300):
        found = chapter_09.layer_norm.reference(factor * x, one, none, 0.0)
        assert mt.allclose(found, expected)


def test_the_gradients_by_the_engine():
    cases = chapter_09.rms_norm_gradient.all_cases()
    for x, gain, grad_output, eps in cases:
        inputs = [each.clone().requires_grad_() for each in (x, gain)]

        def run(x, gain, eps=eps):
            return gradient_key._library(x, gain, eps)

        assert gradcheck(run, inputs)
        expected = mt.autograd.grad(run(*inputs), inputs, grad_output)
        found = chapter_09.rms_norm_gradient.reference(x, gain, grad_output, eps)
        assert difference(found, expected, "the gradient") is None


def test_the_shares_are_those_of_drawn_vectors():
    """As in the cell of the exercise, with other numbers."""
    random = Draw(0).random
    parts, a, d = 5, 0.7, 200_000
    found = chapter_09.shares_of_a_sum.reference(parts, a)
    start, added = random.standard_normal(d), a * random.standard_normal((parts, d))
    total = start + added.sum(axis=0)
    assert total.std() == pytest.approx(found["size of the sum, pre-norm"], rel=0.01)
    x = start
    for part in added:
        x = (x + part) / (x + part).std()
    assert (x * start).mean() == pytest.approx(found["input, post-norm"], abs=0.01)
    assert (x * added[-1]).mean() / a == pytest.approx(found["last part, post-norm"], abs=0.01)


def test_the_statistics_of_a_batch_without_padding_are_those_of_batch_norm():
    x = Draw(0).normal(3, 4, 2)
    mean, variance = chapter_09.batch_statistics.reference(x, mt.ones(3, 4).bool())
    norm = nn.BatchNorm1d(2, eps=0.0).double()
    assert mt.allclose((x - mean) / variance.sqrt(), norm(x.flatten(0, 1)).reshape(x.shape))


def test_five_of_the_eight_programs_are_broken():
    eight = chapter_09.programs()
    assert len(eight) == 8
    assert len(chapter_09.broken_blocks.reference(eight)) == 5


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"wiring": "norm"}, "expected a dict with the keys"),
        ({"wiring": "x", "start": 1, "rate": 0.01, "warm-up": 0}, "expected one of"),
        ({"wiring": "norm", "start": 0, "rate": 0.01, "warm-up": 0}, "a 'start' above 0"),
        ({"wiring": "norm", "start": 1, "rate": 2, "warm-up": 0}, "between 0 and 1"),
        (
            {"wiring": "norm", "start": 1, "rate": 0.01, "warm-up": 200},
            "expected an integer from 0 to 199",
        ),
        ({"wiring": "neither", "start": 1, "rate": 0.01, "warm-up": 0}, "150 steps at most"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_arrive_is_told_why(plan, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_09.reached(chapter_09.steps_needed.reference, lambda: plan)


class Training:
    """Learns after 20 steps of 100, and notes how it is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, setting, seed, steps):
        self.asked.append((setting, seed, steps))
        return [1.0] * 20 + [0.0] * (steps - 20)


def test_ten_budgets_are_one_training():
    train = Training()
    found = chapter_09.at_ten_times.reference(train, ["a"], [5, 6], 10, 0.5)
    assert found == {"a": ([0, 2, 2], "learns later")}
    assert train.asked == [("a", 5, 100), ("a", 6, 100)]


def test_more_than_ten_budgets_are_refused():
    def eleven(train, settings, seeds, budget, goal):
        return {s: train(s, seeds[0], 11 * budget) for s in settings}

    with pytest.raises(CheckFailed, match="more than ten budgets of 10 steps"):
        chapter_09.at_ten_times(eleven)


def test_layers_under_other_names_are_told_what_was_expected():
    class Renamed(nn.Module):
        def __init__(self, width, hidden):
            super().__init__()
            self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            return self.second(self.first(x).relu())

    with pytest.raises(CheckFailed, match=r"expected: .*gate\.weight.*\n.*got: .*first\.weight"):
        chapter_09.FeedForward(Renamed)
