"""The checks of chapter 01 catch and name what is wrong, and pass what is right."""

import re
from pathlib import Path

import pytest

import minitorch as mt
from minitorch import nn
from tests.checks import right_01
from tests.checks.proof import exercises_of, proofs
from textbook.checks import CheckFailed, chapter_01
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_01, right_01)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_01.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_01, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in right_01.refused[name]:
            assert difference(answer(*case), expected, name) is None


def test_bidirectional_reference_agrees_with_the_library():
    for x, layers in chapter_01.deep_bidirectional.all_cases():
        for forward, backward in layers:
            rnn = nn.RNN(forward.inputs, forward.hidden, bidirectional=True).double()
            for suffix, run in {"l0": forward, "l0_reverse": backward}.items():
                names = ("weight_ih", "weight_hh", "bias_ih")
                for part, value in zip(names, run.weights, strict=True):
                    getattr(rnn, f"{part}_{suffix}").data = value
                getattr(rnn, f"bias_hh_{suffix}").data = mt.zeros_like(run.weights[2])
            expected = rnn(x)[0]
            got = chapter_01.deep_bidirectional.reference(x, [(forward, backward)])
            assert difference(got, expected, "the output") is None
            x = got


def backprop_by_the_engine(states, h0, W_hh, grad_states):
    """The inputs' share of each step is found from the states, then the run is repeated."""
    before = mt.cat([h0[None], states[:-1]])
    share = 0.5 * ((1 + states).log() - (1 - states).log()) - before @ W_hh.T
    W, h = W_hh.clone().requires_grad_(), h0.clone().requires_grad_()
    start, loss = h, 0
    for t in range(len(states)):
        h = (share[t] + h @ W.T).tanh()
        loss = loss + (h * grad_states[t]).sum()
    loss.backward()
    return W.grad, start.grad


def test_backpropagation_by_the_engine_is_refused():
    with pytest.raises(CheckFailed, match="must be computed by hand"):
        chapter_01.backprop_through_time(backprop_by_the_engine)


def test_clipping_in_place_is_refused():
    def clip_in_place(gradients, max_norm):
        norm = sum((g**2).sum().item() for g in gradients) ** 0.5
        for g in gradients:
            g *= min(1.0, max_norm / (norm + 1e-9))
        return gradients

    with pytest.raises(CheckFailed, match="changes its argument gradients"):
        chapter_01.clip_gradients(clip_in_place)


def test_see_names_a_heading_of_the_chapter():
    text = (Path(__file__).parents[2] / "notebooks/01_rnn.py").read_text(encoding="utf-8")
    headings = re.findall(r"^# ##+ (?:\d+\. )?(.*?)(?: \([CE]\d+\))?$", text, re.MULTILINE)
    places = {check.see for check in exercises_of(chapter_01).values()}
    assert places <= {f'chapter 01, "{heading}"' for heading in headings}
