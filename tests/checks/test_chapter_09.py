"""The checks of chapter 09 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_09
from textbook.checks.chapter_09 import gradient_key, norms_key
from textbook.checks.compare import difference
from textbook.checks.mistakes import Edit, edited
from textbook.checks.modules import made


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


def test_the_block_is_the_one_of_the_library():
    sizes, x, allowed, real = list(chapter_09.Block.cases(Draw(0)))[3]
    block = made(chapter_09.Block.reference, chapter_09.Block.reference, sizes)
    width, heads, hidden = sizes
    layer = nn.TransformerEncoderLayer(
        width, heads, hidden, dropout=0.0, batch_first=True, norm_first=True
    ).double()
    state = {
        name.replace("attention", "self_attn")
        .replace("feed_forward.0", "linear1")
        .replace("feed_forward.2", "linear2")
        .replace("norm_", "norm"): value
        for name, value in block.state_dict().items()
    }
    biases = {"self_attn.in_proj_bias": 3 * width, "self_attn.out_proj.bias": width}
    layer.load_state_dict(state | {name: mt.zeros(size) for name, size in biases.items()})
    assert mt.allclose(block(x), layer(x))
    assert mt.allclose(block(x, allowed), layer(x, src_mask=~allowed))
    both = layer(x, src_mask=~allowed, src_key_padding_mask=~real)
    assert mt.allclose(block(x, allowed, real)[real], both[real])


def test_a_mask_that_lets_a_little_through_is_caught():
    leaky = edited(
        chapter_09.Block.reference, [Edit("else ~allowed", "else -3.0 * (~allowed).double()")]
    )
    with pytest.raises(CheckFailed, match="may not look at must not change"):
        chapter_09.Block(leaky)


def test_layers_under_other_names_are_told_what_was_expected():
    class Renamed(nn.Module):
        def __init__(self, width, hidden):
            super().__init__()
            self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            return self.second(self.first(x).relu())

    with pytest.raises(CheckFailed, match=r"expected: .*gate\.weight.*\n.*got: .*first\.weight"):
        chapter_09.FeedForward(Renamed)
