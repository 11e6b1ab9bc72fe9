"""The checks of chapter 04 catch and name what is wrong, and pass what is right."""

import math

import pytest

import minitorch as mt
from minitorch.autograd import gradcheck
from tests.checks import right_04
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, chapter_04
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_04, right_04)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_04.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_04, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in right_04.refused[name]:
            assert difference(run(answer, *case), expected, name) is None


def test_a_mask_after_the_softmax_leaves_a_gradient_in_the_padding():
    """Renormalised with care it has the right values, but its gradient is not exactly zero."""

    def late_mask(scores, lengths):
        valid = (mt.arange(scores.shape[-1]) < lengths.unsqueeze(1)).unsqueeze(1)
        largest = scores.masked_fill(~valid, -math.inf).amax(dim=-1, keepdim=True)
        weights = (scores - largest).clamp(max=0).softmax(dim=-1) * valid
        return weights / weights.sum(dim=-1, keepdim=True)

    with pytest.raises(CheckFailed, match="gradient at a padded position must be exactly 0"):
        chapter_04.padded_weights(late_mask)


def test_the_full_matrix_of_a_reduced_rank_score_is_refused():
    def through_the_full_matrix(queries, keys, U, V):
        return queries @ (U.T @ V) @ keys.transpose(1, 2)

    with pytest.raises(CheckFailed, match="Never form the .* matrix"):
        chapter_04.reduced_rank_scores(through_the_full_matrix)


def test_a_sharp_look_up_returns_the_value_and_a_flat_one_the_mean():
    """What the text of the exercise says about values between 0 and 1."""
    values = mt.rand(5, 3, generator=mt.Generator().manual_seed(0))
    contexts = {}
    for error in (0.01, 4 / 5):
        keys, queries = chapter_04.lookup_table.reference(5, error)
        contexts[error] = (queries @ keys.T).softmax(dim=-1) @ values
    assert (contexts[0.01] - values).abs().max() <= 0.01
    assert mt.allclose(contexts[4 / 5], values.mean(dim=0).expand(5, 3))


def test_the_decoder_by_finite_differences():
    for sizes, targets, states, lengths, h, start in chapter_04.AttentionDecoder.all_cases():
        decoder = chapter_04.AttentionDecoder.reference(*sizes).double()
        inputs = [x.clone().requires_grad_() for x in (states, h)]
        assert gradcheck(
            lambda states, h, run=decoder, rest=(targets, lengths, start): run(
                rest[0], states, rest[1], h, rest[2]
            ),
            inputs,
        )
