"""The checks of chapter 09 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks import right_09
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_09
from textbook.checks.chapter_09.block import BlockInPieces
from textbook.checks.compare import difference
from textbook.checks.modules import made


@pytest.mark.parametrize("proof", list(proofs(chapter_09, right_09)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_09.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_09, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases() + check.all_cases(hidden=True):
        expected = run(check.reference, *case)
        for answer in right_09.refused[name]:
            assert difference(run(answer, *case), expected, name) is None


def test_the_gradient_by_finite_differences():
    for x, gain, grad_output, eps in chapter_09.layer_norm_gradient.all_cases():
        inputs = [each.clone().requires_grad_() for each in (x, gain, mt.zeros_like(gain))]

        def run(x, gain, bias, eps=eps):
            return chapter_09.layer_norm.reference(x, gain, bias, eps)

        assert gradcheck(run, inputs)
        expected = mt.autograd.grad(run(*inputs), inputs, grad_output)
        found = chapter_09.layer_norm_gradient.reference(x, gain, grad_output, eps)
        assert difference(found, expected, "the gradient") is None


def test_the_two_norms_agree_on_tokens_of_mean_zero():
    """What the text of exercise 2 asks."""
    draw = Draw(0)
    x, gain = draw.normal(4, 5), draw.normal(5)
    layer_norm, rms_norm = chapter_09.layer_norm.reference, chapter_09.rms_norm.reference
    centered = x - x.mean(dim=-1, keepdim=True)
    assert mt.allclose(rms_norm(centered, gain, 1e-5), layer_norm(x, gain, 0.0, 1e-5))
    assert not mt.allclose(rms_norm(x, gain, 1e-5), layer_norm(x, gain, 0.0, 1e-5))


@pytest.mark.parametrize(("width", "steps"), [(4, 9), (512, 4000)])
def test_the_rate_is_largest_at_the_end_of_the_warm_up(width, steps):
    rates = [chapter_09.warm_up.reference(t, width, steps) for t in range(1, 3 * steps)]
    assert max(rates) == rates[steps - 1] == pytest.approx((width * steps) ** -0.5)


def test_the_statistics_of_a_batch_without_padding_are_those_of_batch_norm():
    x = Draw(0).normal(3, 4, 2)
    mean, variance = chapter_09.batch_statistics.reference(x, mt.ones(3, 4).bool())
    norm = nn.BatchNorm1d(2, eps=0.0).double()
    assert mt.allclose((x - mean) / variance.sqrt(), norm(x.flatten(0, 1)).reshape(x.shape))


def test_the_block_is_the_one_of_the_library():
    sizes, x, allowed = next(chapter_09.Block.cases(Draw(0), True))
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


def test_a_mask_that_lets_a_little_through_is_caught():
    class Leaky(BlockInPieces):
        def mask(self, allowed):
            return None if allowed is None else -3.0 * (~allowed).double()

    with pytest.raises(CheckFailed, match="are not allowed to look at must not change"):
        chapter_09.Block(Leaky)


def test_layers_under_other_names_are_told_what_was_expected():
    class Renamed(nn.Module):
        def __init__(self, width, hidden):
            super().__init__()
            self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            return self.second(self.first(x).relu())

    with pytest.raises(CheckFailed, match=r"expected: .*up\.weight.*\n.*got: .*first\.weight"):
        chapter_09.FeedForward(Renamed)


def test_a_part_that_gives_zeros_tells_the_residual_connection():
    with pytest.raises(CheckFailed, match="pre-norm must give x itself"):
        chapter_09.add_and_norm(lambda x, part, norm, pre: (x + part(x)) / 2)
