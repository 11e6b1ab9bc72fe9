"""The checks of chapter 03 catch and name what is wrong, and pass what is right."""

import math

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from tests.checks import right_03
from tests.checks.proof import proofs
from textbook import data
from textbook.checks import CheckFailed, chapter_03
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_03, right_03)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_03.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_03, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in right_03.refused[name]:
            assert difference(answer(*case), expected, name) is None


def test_the_encoders_final_states_are_those_of_a_packed_run():
    encoder = nn.GRU(3, 4, batch_first=True, bidirectional=True).double()
    lengths = mt.tensor([2, 5, 1])
    words = mt.randn(3, 5, 3).double()
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = encoder(packed)
    outputs, _ = pad_packed_sequence(outputs, batch_first=True)
    expected = mt.cat([last[0], last[1]], dim=-1)
    assert difference(chapter_03.encoder_state.reference(outputs, lengths), expected, "") is None


def test_bleu_agrees_with_the_librarys_where_that_smooths_nothing():
    agreed = 0
    for hypotheses, references, _ in chapter_03.bleu.all_cases(hidden=True):
        expected = chapter_03.bleu.reference(hypotheses, references, 4)
        if expected:
            agreed += 1
            assert math.isclose(data.bleu(hypotheses, references), expected)
    assert agreed >= 5


def test_a_step_with_tokens_of_the_wrong_shape_says_which_it_takes():
    def answer(step, state, start, end, pad, max_length):
        return step(mt.full((len(state), 1), start), state)

    with pytest.raises(CheckFailed, match="reads one token of each row"):
        chapter_03.greedy_decode(answer)


def faint_loss(scores, targets, pad):
    log_p = scores.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    weights = mt.where(targets == pad, 1e-9, 1.0)
    return -(log_p * weights).sum() / weights.sum()


def faint_state(outputs, lengths):
    return chapter_03.encoder_state.reference(outputs, lengths) + 1e-10 * outputs.sum(1)


def faint_pooling(states, mask):
    weights = (-20.0 * mask).softmax(dim=1).unsqueeze(-1)
    return (states * weights).sum(dim=1), chapter_03.mean_and_max.reference(states, mask)[1]


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("masked_loss", faint_loss, "gradient at a padded position must be exactly zero"),
        ("encoder_state", faint_state, "stands in the padding must not change the result"),
        ("mean_and_max", faint_pooling, "stands in the padding must not change the result"),
    ],
)
def test_padding_that_counts_ever_so_little_is_refused(name, answer, message):
    with pytest.raises(CheckFailed, match=message):
        getattr(chapter_03, name)(answer)
