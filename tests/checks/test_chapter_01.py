"""The checks of chapter 01 catch and name what is wrong, and pass what is right."""

import itertools
import math
import re
from pathlib import Path

import pytest

import minitorch as mt
from minitorch import nn
from tests.checks.proof import answers_in_key, exercises_of, proofs
from textbook.checks import CheckFailed, Draw, chapter_01
from textbook.checks.chapter_01 import training_key
from textbook.checks.chapter_01.reading import _kinds
from textbook.checks.chapter_01.reading_key import _testing
from textbook.checks.chapter_01.states import _RNN
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_01)))
def test_checks(proof):
    proof()


def test_the_states_are_those_of_the_library():
    [by_library] = answers_in_key(chapter_01.unroll, "refused")
    for case in chapter_01.unroll.all_cases():
        expected = chapter_01.unroll.reference(*case)
        assert difference(by_library(*case), expected, "the states") is None


def test_without_padding_both_directions_are_those_of_the_library():
    draw = Draw(0)
    x, runs = draw.normal(4, 3, 2), {"l0": _RNN(draw, 2, 3), "l0_reverse": _RNN(draw, 2, 3)}
    rnn = nn.RNN(2, 3, bidirectional=True).double()
    for suffix, run in runs.items():
        names = ("weight_ih", "weight_hh", "bias_ih")
        for part, value in zip(names, run.weights, strict=True):
            getattr(rnn, f"{part}_{suffix}").data = value
        getattr(rnn, f"bias_hh_{suffix}").data = mt.zeros_like(run.weights[2])
    found = chapter_01.both_directions.reference(x, mt.tensor([4, 4, 4]), *runs.values())
    assert difference(found, rnn(x)[0], "the output") is None


def test_the_gradient_by_hand_is_that_of_the_engine():
    by_engine = training_key.backprop_by_the_engine
    for case in chapter_01.backprop_through_time.all_cases():
        expected = chapter_01.backprop_through_time.reference(*case)
        assert difference(by_engine(*case), expected, "the gradients") is None


def test_clipping_in_place_is_refused():
    def clip_in_place(gradients, max_norm):
        norm = math.hypot(*(x for g in gradients if g is not None for x in g.flatten().tolist()))
        for g in gradients:
            if g is not None:
                g *= min(1.0, max_norm / (norm + 1e-300))
        return gradients, norm

    with pytest.raises(CheckFailed, match="changes its argument gradients"):
        chapter_01.clip_gradients(clip_in_place)


def clip_each(own, told):
    """Each tensor by its own norm, in several ways of a beginner."""

    def clip(gradients, max_norm):
        norms = [None if g is None else own(g) for g in gradients]
        by = [1.0 if not n or n <= max_norm else max_norm / n for n in norms]
        clipped = [None if g is None else g * f for g, f in zip(gradients, by, strict=True)]
        return clipped, told([n for n in norms if n is not None])

    return clip


@pytest.mark.parametrize(
    "answer",
    [
        clip_each(lambda g: (g**2).sum().item() ** 0.5, lambda norms: math.hypot(*norms)),
        clip_each(lambda g: (g**2).sum().item() ** 0.5, lambda norms: sum(n**2 for n in norms)),
        clip_each(lambda g: math.hypot(*g.flatten().tolist()), lambda norms: max(norms, default=0)),
        clip_each(lambda g: math.hypot(*g.flatten().tolist()), lambda norms: sum(norms)),
        lambda gradients, max_norm: (
            [
                g if g is None else g * min(1.0, max_norm / (g**2).sum().item() ** 0.5)
                for g in gradients
            ],
            sum((g**2).sum().item() for g in gradients if g is not None) ** 0.5,
        ),
    ],
)
def test_each_tensor_clipped_by_its_own_norm_is_told(answer):
    with pytest.raises(CheckFailed, match="(?s)by its own norm.*one norm over all tensors"):
        chapter_01.clip_gradients(answer)


def test_the_probabilities_of_all_texts_add_up_to_one():
    """With their ends; what is left over is that of longer ones."""
    step, _, _ = chapter_01.log_probability.all_cases()[0]
    texts = [[*text] for n in range(5) for text in itertools.product((0, 1), repeat=n)]
    total = chapter_01.log_probability.reference(step, texts, 2).exp().sum().item()
    assert 0.5 < total < 1


def test_the_reference_tells_the_broken_readers_and_no_others():
    broken, right = _kinds()
    kinds = {**broken, **right}
    found = chapter_01.broken_readers.reference([make() for make in kinds.values()])
    assert found == list(range(len(broken)))
    nine = chapter_01.readers()
    assert len(nine) == 9
    assert len(chapter_01.broken_readers.reference(nine)) == 5


def test_each_rule_is_broken_by_a_reader_that_keeps_the_others():
    """No rule follows from the rest, so each has to be asked for."""
    broken, _ = _kinds()
    for rule, kind in {
        "targets": "asks for the token after the next",
        "seams": "cuts windows first",
        "once": "reads some tokens in two streams",
        "all": "leaves out the last window, though it is whole",
    }.items():
        assert _testing(drop=(rule,))([broken[kind]()]) == [], rule


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"rate": 0.03}, "expected a dict with the keys"),
        ({"rate": 0.03, "window": 100}, "expected 1 to 64"),
        ({"rate": 3, "window": 10}, "a rate between 0 and 1"),
        ({"rate": 0.004, "window": 64}, "at least 90%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_reach_enough_is_told_why(plan, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_01.reached(chapter_01.truncated_bptt.reference, lambda: plan)


def test_a_plan_that_reaches_enough_passes(capsys):
    plan = {"window": 15, "rate": 0.004}
    chapter_01.reached(chapter_01.truncated_bptt.reference, lambda: plan)
    assert "it is recalled" in capsys.readouterr().out


def test_see_names_a_heading_of_the_chapter():
    text = (Path(__file__).parents[2] / "notebooks/01_rnn.py").read_text(encoding="utf-8")
    headings = re.findall(r"^# ##+ (?:\d+\. )?(.*?)(?: \([CE]\d+\))?$", text, re.MULTILINE)
    places = {check.see for check in exercises_of(chapter_01).values()}
    assert places <= {f'chapter 01, "{heading}"' for heading in headings}
