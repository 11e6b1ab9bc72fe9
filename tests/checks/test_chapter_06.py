"""The checks of chapter 06 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from minitorch.flops import count_flops
from tests.checks import right_06
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_06
from textbook.checks.chapter_06.layer import LayerInPieces
from textbook.checks.compare import difference
from textbook.checks.modules import made


@pytest.mark.parametrize("proof", list(proofs(chapter_06, right_06)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_06.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_06, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases() + check.all_cases(hidden=True):
        expected = run(check.reference, *case)
        for answer in right_06.refused[name]:
            assert difference(run(answer, *case), expected, name) is None


def test_a_loop_over_the_heads_is_told_to_make_them_an_axis():
    def head_by_head(query, key, value, heads):
        parts = (x.chunk(heads, dim=-1) for x in (query, key, value))
        outputs = [
            (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(dim=-1) @ v
            for q, k, v in zip(*parts, strict=True)
        ]
        return mt.cat(outputs, dim=-1)

    with pytest.raises(CheckFailed, match="no loop over the heads"):
        chapter_06.heads_at_once(head_by_head)


def test_merging_undoes_splitting():
    X = Draw(0).normal(2, 3, 12)
    for heads in (1, 2, 3, 4, 6, 12):
        parts = chapter_06.split_heads.reference(X, heads)
        assert mt.equal(chapter_06.merge_heads.reference(parts), X)


@pytest.mark.parametrize("case", chapter_06.attention_cost.all_cases())
def test_the_cost_is_what_the_layer_has_and_runs(case):
    T, n, d, heads = case
    layer = chapter_06.MultiHeadAttention.reference(d, heads)
    with count_flops() as counter:
        layer(mt.rand(1, T, d), mt.rand(1, n, d))
    weights, flops, _ = chapter_06.attention_cost.reference(*case)
    assert weights == sum(weight.numel() for weight in layer.parameters())
    assert flops == counter.total


def test_the_module_with_the_weights_of_the_heads_computes_what_the_loop_does():
    draw = Draw(0)
    Q, K, V = ([draw.normal(6, 2) for _ in range(3)] for _ in range(3))
    W_O, X = draw.normal(6, 6), draw.normal(2, 4, 6)
    module = nn.MultiheadAttention(6, 3, bias=False, batch_first=True).double()
    module.load_state_dict(chapter_06.module_weights.reference(Q, K, V, W_O))
    expected = chapter_06.heads_in_a_loop.reference(X, Q, K, V, W_O)
    assert mt.allclose(module(X, X, X)[0], expected)


def test_without_a_head_the_layer_gives_the_output_less_what_it_adds():
    """What the text of the exercise says about switching a head off."""
    draw = Draw(0)
    Y, W_O = draw.normal(2, 3, 4, 2), draw.normal(6, 6)
    terms = chapter_06.contributions.reference(Y, W_O)
    for head in range(3):
        off = Y.clone()
        off[:, head] = 0
        without = chapter_06.merge_heads.reference(off) @ W_O
        assert mt.allclose(terms.sum(dim=1) - terms[:, head], without)


def test_a_mask_that_lets_a_little_through_is_caught():
    class Leaky(LayerInPieces):
        def masked(self, scores, allowed):
            return scores if allowed is None else scores.masked_fill(~allowed, -3.0)

    with pytest.raises(CheckFailed, match="Memory that no query is allowed to look at"):
        chapter_06.MultiHeadAttention(Leaky)


def test_matrices_of_another_shape_are_told_their_shapes():
    def wide(k, c):
        Q, K, V = chapter_06.two_heads.reference(k, c)
        return Q, K, [mt.zeros(k + c, c + 1)] * 2

    with pytest.raises(CheckFailed, match=r"shape of V\[0\] differs"):
        chapter_06.two_heads(wide)


def test_the_layer_by_finite_differences():
    reference = chapter_06.MultiHeadAttention.reference
    for sizes, x, memory, allowed in chapter_06.MultiHeadAttention.all_cases():
        layer = made(reference, reference, sizes)
        inputs = [each.clone().requires_grad_() for each in (x, memory)]
        assert gradcheck(
            lambda x, memory, run=layer, allowed=allowed: run(x, memory, allowed), inputs
        )
