"""The checks of chapter 13 catch and name what is wrong, and pass what is right."""

import math

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.flops import count_flops
from tests.checks.proof import proofs
from textbook.chapter_10 import OneStack
from textbook.checks import CheckFailed, Draw, chapter_13
from textbook.checks.chapter_13 import comparisons, isoflops_key, labels, words


@pytest.mark.parametrize("proof", list(proofs(chapter_13)))
def test_checks(proof):
    proof()


def test_flops_are_those_that_are_counted():
    vocabulary, width, hidden, layers, n, batch = 13, 8, 20, 3, 7, 2
    tokens = mt.randint(1, vocabulary, (batch, n))
    with count_flops() as counter:
        scores = OneStack(vocabulary, width, 2, hidden, layers, causal=False)(tokens)
        F.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
    plan = chapter_13.training_plan.reference(
        10 * counter.total + 1, vocabulary, width, hidden, layers, n, batch, 100, 0.5
    )
    assert plan["FLOPs of a token"] * batch * n == counter.total
    assert plan["steps"] == 10


def test_the_figure_has_one_run_on_the_wrong_curve_and_one_curve_without_a_minimum():
    figure = chapter_13.figure
    wrong = [
        run
        for run in figure
        if abs(run["FLOPs of a token"] * run["tokens"] / run["budget"] - 1) > 0.05
    ]
    assert [(run["budget"], run["weights"]) for run in wrong] == [(2e11, 110_000)]
    at_2e11 = [run for run in figure if run["budget"] == 2e11]
    assert min(at_2e11, key=lambda run: run["loss"]) is wrong[0]
    sizes = chapter_13.best_sizes.reference(figure)
    assert sizes[8e11] is None
    assert 5000 < sizes[1.25e10] < sizes[5e10] < sizes[2e11] < 50_000


def test_the_loss_of_parts_is_that_of_the_batch():
    draw = Draw(0)
    scores, original = draw.normal(5, 4, 6), draw.integers(6, 5, 4)
    chosen = draw.normal(5, 4) > 0.5
    parts = [(scores[:2], original[:2], chosen[:2]), (scores[2:], original[2:], chosen[2:])]
    expected = F.cross_entropy(scores[chosen], original[chosen])
    assert mt.allclose(chapter_13.blank_loss.reference(parts), expected)


@pytest.mark.parametrize("seed", range(10))
def test_the_statistics_of_masking_do_not_refuse_by_chance(seed):
    """The same answer with other random numbers gives the same verdicts, word for word."""
    *_, case = chapter_13.mask_words.cases(Draw(seed))

    def seeded(*arguments):
        mt.rand(seed + 1)
        return chapter_13.mask_words.reference(*arguments)

    expected = words._masked(chapter_13.mask_words.reference, *case)
    assert words._masked(seeded, *case) == expected
    assert expected["the share of words that become blanks"] == "0.15"


def test_a_loss_that_is_a_plain_number_is_told():
    def loss(parts):
        right = chapter_13.blank_loss.reference(parts)
        return right if any(bool(blanks.any()) for *_, blanks in parts) else 0.0

    with pytest.raises(CheckFailed, match="A plain number has no `backward`"):
        chapter_13.blank_loss(loss)


def test_completions_are_scored_as_one_by_one():
    for model, prompts, choices, mean in chapter_13.completion_scores.all_cases():
        found = chapter_13.completion_scores.reference(model, prompts, choices, mean)
        for prompt, each, scores in zip(prompts, choices, found, strict=True):
            for choice, score in zip(each, scores, strict=True):
                table = model(mt.tensor([prompt + choice]))[0].log_softmax(dim=-1)
                places = range(len(prompt) - 1, len(prompt) + len(choice) - 1)
                values = [table[i, t].item() for i, t in zip(places, choice, strict=True)]
                expected = sum(values) / (len(values) if mean else 1)
                assert math.isclose(score.item(), expected, rel_tol=1e-9)


def test_five_of_the_eight_studies_are_unfair_and_are_found():
    eight = chapter_13.studies()
    found = chapter_13.unfair.reference(eight)
    unfair, _ = comparisons._kinds()
    names = {function.__qualname__ for function in unfair.values()}
    assert len(eight) == 8
    assert len(found) == 5
    assert {eight[i].function.__qualname__ for i in found} <= names


PRETRAIN = chapter_13.pretrain.reference


def plan(**other):
    return {
        "pretraining steps": 5,
        "pretraining rate": 0.003,
        "rates": [0.001, 0.01, 0.1],
        "steps": [1, 2, 3],
    } | other


def pretending(monkeypatch, accuracy):
    """Nothing is trained: `accuracy` says what comes out."""
    monkeypatch.setattr(labels, "_accuracies", lambda model, plan: accuracy)
    monkeypatch.setattr(labels, "sentences", lambda count, seed: mt.tensor([[2, 5, 6, 5, 3]] * 32))


def helping(method, rate, steps, seed, data):
    return 0.9 * (method == "pretrained") - 0.1 * (rate != 0.01) - 0.01 * abs(steps - 2)


def test_what_has_been_reached_is_shown(monkeypatch, capsys):
    pretending(monkeypatch, helping)
    chapter_13.reached(PRETRAIN, plan)
    shown = capsys.readouterr().out
    assert "of the places 0.90 to 0.90 are right after pretraining" in shown
    assert "rate 0.01 with 2 steps" in shown


def test_a_pretraining_that_does_not_help_is_told_the_numbers(monkeypatch):
    pretending(monkeypatch, lambda *run: helping("", *run[1:]) + 0.05 * (run[0] == "pretrained"))
    with pytest.raises(
        CheckFailed, match="pretrain: of the places 0.05 to .* 0.00 to .* from scratch"
    ):
        chapter_13.reached(PRETRAIN, plan)


def test_a_gain_that_one_seed_lacks_is_none(monkeypatch):
    pretending(monkeypatch, lambda *run: helping(*run) * (run[3] != 1))
    with pytest.raises(CheckFailed, match="expected to be at least 0.1 with each seed"):
        chapter_13.reached(PRETRAIN, plan)


@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_a_rate_at_the_edge_is_told(monkeypatch, rate):
    pretending(monkeypatch, lambda *run: helping(*run) + 0.2 * (run[1] == rate))
    with pytest.raises(CheckFailed, match=f"'pretrained', the rate {rate} with 2 steps, stands at"):
        chapter_13.reached(PRETRAIN, plan)


def test_a_baseline_that_is_not_trained_to_the_end_is_told(monkeypatch):
    pretending(monkeypatch, lambda *run: helping(*run) + 0.1 * run[2] * (run[0] != "pretrained"))
    with pytest.raises(CheckFailed, match="'from scratch', the rate 0.01 with 3 steps, stands at"):
        chapter_13.reached(PRETRAIN, plan)


@pytest.mark.parametrize(
    "most, what", [(399, "add a larger number of steps"), (400, "more than 400 steps are not")]
)
def test_which_way_a_better_number_of_steps_lies_is_told(monkeypatch, most, what):
    pretending(monkeypatch, lambda *run: helping(*run) + 9 * (run[2] == most))
    with pytest.raises(CheckFailed, match=f"A better one may lie beyond: {what}"):
        chapter_13.reached(PRETRAIN, lambda: plan(steps=[1, 2, most]))


@pytest.mark.parametrize(
    "other",
    [
        {"rates": [0.1, 0.2]},
        {"rates": [0.1, 0.1, 0.2]},
        {"rates": [0.0, 0.1, 0.2]},
        {"rates": "abc"},
        {"steps": [1, 2]},
        {"steps": [1, 2, 500]},
        {"pretraining steps": 5000},
        {"pretraining rate": 0},
        {"more": 1},
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(other):
    with pytest.raises(CheckFailed, match="plan: expected"):
        chapter_13.reached(PRETRAIN, lambda: plan(**other))


def test_a_wrong_pretraining_is_told_before_anything_is_compared():
    wrong = chapter_13.pretrain.mistakes[0]
    with pytest.raises(CheckFailed, match=wrong.name):
        chapter_13.reached(wrong.function, plan)


def test_a_pretraining_that_takes_too_long_is_told(monkeypatch):
    monkeypatch.setattr(labels, "SECONDS", 0)
    with pytest.raises(CheckFailed, match="pretrain: it took"):
        chapter_13.reached(PRETRAIN, plan)


def test_labels_are_places():
    words = "three hundred and forty-two thousand one hundred and nineteen".split()
    assert labels._places(words)[::2] == [3, -100, -100, -100, 0]
    tokens, truth = labels._labelled(20, 3)
    assert tokens.shape == truth.shape
    assert bool((truth[tokens < 4] == -100).all())


def test_runs_that_are_not_sorted_are_told():
    def unsorted(runs):
        found = {}
        for budget in {run["budget"] for run in runs}:
            curve = [run for run in runs if run["budget"] == budget and isoflops_key._honest(run)]
            lowest = min(range(len(curve)), key=lambda i: curve[i]["loss"])
            inside = 0 < lowest < len(curve) - 1
            found[budget] = isoflops_key._vertex(curve[lowest - 1 : lowest + 2]) if inside else None
        return found | {1.0: 1.0} if list(runs) != sorted(runs, key=_weights) else found

    with pytest.raises(
        CheckFailed, match="With the runs in the order of their weights it is right"
    ):
        chapter_13.best_sizes(unsorted)


def _weights(run):
    return run["weights"]


def test_blanks_that_are_told_by_what_they_show():
    def differing(tokens, words, share, mask, ordinary):
        inputs, _ = chapter_13.mask_words.reference(tokens, words, share, mask, ordinary)
        return inputs, inputs != tokens

    said = words._those_that_differ(chapter_13.mask_words, differing)
    assert "A blank that shows itself is a blank, too" in said
    assert not words._those_that_differ(chapter_13.mask_words, chapter_13.mask_words.reference)


def test_a_fit_that_fails_names_the_number_that_never_changes():
    def singular(train, *others):
        if (train == train[0]).all(dim=0).any():
            raise np.linalg.LinAlgError("SVD did not converge")
        return chapter_13.probe.reference(train, *others)

    with pytest.raises(CheckFailed, match="number 1 is the same in all training states"):
        chapter_13.probe(singular)
