"""The checks of chapter 07 catch and name what is wrong, and pass what is right."""

import math

import numpy as np
import pytest

import minitorch as mt
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.checks import CheckFailed, Draw, chapter_07
from textbook.checks.chapter_07 import padding, training
from textbook.checks.chapter_07.attention import masked_softmax, scaled
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_07)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", refusing(chapter_07))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_07, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in answers_in_key(check, "refused"):
            assert difference(run(answer, *case), expected, name) is None


def test_a_late_mask_with_care_still_leaves_a_gradient_at_the_hidden_keys():
    """Divided anew it has the right values here, but the gradient is not exactly zero."""

    def late(query, key, value, allowed):
        if allowed is None:
            allowed = mt.ones(1, dtype=mt.bool)
        allowed = allowed & mt.ones(*query.shape[:-1], key.shape[-2], dtype=mt.bool)
        unseen = ~allowed.any(dim=-2).unsqueeze(-1)
        key, value = key.masked_fill(unseen & ~key.isfinite(), 0.0), value.masked_fill(unseen, 0.0)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        largest = scores.masked_fill(~allowed, -mt.inf).amax(dim=-1, keepdim=True)
        largest = largest.masked_fill(largest == -mt.inf, 0.0)
        weights = (scores - largest).clamp(max=0).softmax(dim=-1) * allowed
        total = weights.sum(dim=-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1.0) @ value

    with pytest.raises(CheckFailed, match="gradient at a key .* must be exactly 0"):
        chapter_07.masked_attention(late)


def test_a_causal_mask_needs_no_padding_mask_where_the_padding_comes_last():
    """What the solution says: no real query sees more by the causal mask alone."""
    real = mt.arange(4) < mt.tensor([2, 4, 1]).unsqueeze(1)
    causal = mt.ones(4, 4, dtype=mt.bool).tril()
    joined = causal & real[:, None]
    assert mt.equal(joined[real], causal.expand(3, 4, 4)[real])
    assert not mt.equal(joined, causal.expand(3, 4, 4))


def test_a_stack_depends_on_what_its_masks_reach():
    for (masks,) in chapter_07.reach.all_cases() + chapter_07.reach.all_cases(hidden=True):
        n = len(masks[0])
        projections = [Draw(i).normal(3, 3) for i in range(len(masks))]

        def stack(x, masks=masks, projections=projections):
            for mask, V in zip(masks, projections, strict=True):
                x = x + masked_softmax(scaled(x, x), mask) @ x @ V
            return x

        found = chapter_07.dependence.reference(stack, Draw(9).normal(n, 3))
        assert mt.equal(found, chapter_07.reach.reference(masks))


def test_windows_reach_as_far_as_the_solution_says():
    n, w = 12, 3
    back = mt.arange(n).unsqueeze(1) - mt.arange(n)
    window = (back >= 0) & (back < w)
    for layers in (1, 2, 4):
        reached = chapter_07.reach.reference([window] * layers)
        assert reached[-1].sum().item() == layers * (w - 1) + 1


def test_five_of_the_eight_encoders_read_the_padding_and_are_found():
    eight = chapter_07.suspects()
    found = chapter_07.reading_padding.reference(eight)
    reading, _ = padding._kinds()
    names = {function.__qualname__ for function in reading.values()}
    assert len(eight) == 8
    assert len(found) == 5
    assert {eight[i].function.__qualname__ for i in found} <= names


def test_the_table_says_what_the_solution_says():
    found = chapter_07.judged.reference(chapter_07.runs)
    assert found["best"] == "masked, wider"
    wrong = {name: verdict for name, verdict in found["verdicts"].items() if verdict[0] != "n"}
    assert wrong == {
        "no mask": "leaks",
        "pooled by the last": "leaks",
        "masked, other weights": "measured wrongly",
    }
    lowest = min(chapter_07.runs, key=lambda run: sum(run["from the prefix"]))
    assert lowest["text"] == "training"


def test_a_model_that_keeps_something_from_a_call_is_caught():
    class Keeping(chapter_07.CausalLanguageModel.reference):
        kept = {}

        def loss(self, tokens, lengths):
            lengths = self.kept.setdefault(tuple(tokens.shape), lengths)
            return super().loss(tokens, lengths)

    for hidden in (False, True):
        with pytest.raises(CheckFailed):
            chapter_07.CausalLanguageModel(Keeping, hidden)


def test_a_model_that_is_wrong_is_not_said_to_keep_something():
    class PerText(chapter_07.CausalLanguageModel.reference):
        def loss(self, tokens, lengths):
            return super().loss(tokens, lengths) * lengths.sum() / len(lengths)

    with pytest.raises(CheckFailed) as caught:
        chapter_07.CausalLanguageModel(PerText)
    assert "keep nothing" not in str(caught.value)


def test_the_best_honest_loss_is_what_follows_from_the_transitions():
    transitions = chapter_07.chain(3)
    shares = training.stationary(transitions)
    assert mt.allclose(shares @ transitions, shares, atol=1e-6)
    inputs, targets = chapter_07.windows(transitions, 20_000)
    losses = -transitions[inputs.flatten(), targets.flatten()].log()
    assert abs(losses.mean().item() - training.honest_loss(transitions)) < 0.02


def saying(shares, count=2000):
    """An answer that says these shares of all that there is to leak, by way."""

    def answer(attend, transitions):
        attend(*mt.ones(3, count, 1, 8, 4))
        learning = mt.ones(2000, 1, 8, 4, requires_grad=True)
        attend(learning, learning, learning).sum().backward()
        [way] = [name for name, other in chapter_07.ways.items() if other is attend.__wrapped__]
        most = training.honest_loss(transitions) * 7 / 8
        return np.float64(shares.get(way, 0.95) * most)

    return answer


def test_what_leaks_is_measured(capsys):
    chapter_07.nats_leaked(saying({"a causal mask": -0.01}))
    shown = capsys.readouterr().out
    assert "nats_leaked: all public checks passed" in shown


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (saying({"a causal mask": 0.1}), "That is too much"),
        (saying({"a causal mask": -0.5}), "train it longer"),
        (lambda attend, transitions: 1.001, "H divided by the loss"),
        (saying({"a causal mask": 0, "a mask that is off by one": 0}), "the last position alone"),
        (saying({"a causal mask": 0, "a mask that is off by one": 0.5}), "begun to look ahead"),
        (saying({"a causal mask": 0, "a mask that is off by one": -0.2}), "That is too little"),
        (saying({"a causal mask": 0, "a mask that is off by one": 1.2}), "That is too much"),
        (saying({"a causal mask": 0, "a mask that is off by one": 1.4}), "It looks like bits"),
        (saying({"a causal mask": -0.01}, count=100), "on 100 windows beside those"),
        (lambda attend, transitions: None, "expected a number of nats"),
        (lambda attend, transitions: float("nan"), "expected a number of nats"),
        (3, "expected your function"),
    ],
)
def test_what_was_not_trained_or_not_measured_is_told(answer, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_07.nats_leaked(answer)
