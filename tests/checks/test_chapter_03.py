"""The checks of chapter 03 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.checks import CheckFailed, chapter_03
from textbook.checks.chapter_03.padded import _Encoder, _kinds
from textbook.checks.chapter_03.padded_key import _testing
from textbook.checks.chapter_03.training import _sum_of_losses, _tokens
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_03)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", refusing(chapter_03))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_03, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in answers_in_key(check, "refused"):
            assert difference(answer(*case), expected, name) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bytes": 7.5e8}, "'bytes' is 8.2 times too small"),
        ({"FLOPs": 2.7e10}, "'FLOPs' is 1.1 times too large"),
        ({"parameters": 3e8}, "Your answer is right but for the parameters, without the output"),
        ({"output": "80M"}, "'output' is '80M', and a positive number is asked for"),
        ({"speed": -1}, "a positive number is asked for"),
    ],
)
def test_of_an_estimate_it_is_told_how_far_it_is_off(changed, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_03.estimate(lambda: chapter_03.estimate.reference() | changed)


def test_what_the_paper_reports_is_what_is_estimated():
    found = chapter_03.estimate.reference()
    assert found["parameters"] == 384_000_000 and found["recurrent"] == 64_000_000
    of_the_output = 6 * 29 * found["output"] / found["FLOPs"]
    assert 0.55 < of_the_output < 0.6  # the text: "more than half"


def test_a_step_with_tokens_of_the_wrong_shape_says_which_it_takes():
    def answer(step, state, given, start, end, pad, max_length):
        return step(mt.full((len(state), 1), start), state)

    with pytest.raises(CheckFailed, match="reads one token of each row"):
        chapter_03.complete(answer)


def faint_likelihood(scores, targets, padding):
    each, loss = chapter_03.log_probabilities.reference(scores, targets, padding)
    finite = mt.where(scores.isfinite(), scores, mt.zeros_like(scores))
    return each + 1e-12 * finite.sum(), loss


def faint_pooling(states, padding, k):
    finite = mt.where(states.abs() < 1e9, states, mt.zeros_like(states))
    return chapter_03.largest_mean.reference(states, padding, k) + 1e-10 * finite.sum(1)


@pytest.mark.parametrize(
    ("name", "answer"),
    [("log_probabilities", faint_likelihood), ("largest_mean", faint_pooling)],
)
def test_padding_that_counts_ever_so_little_is_refused(name, answer):
    with pytest.raises(CheckFailed, match="gradient at a padded position must be exactly zero"):
        getattr(chapter_03, name)(answer)


def test_the_largest_means_are_maximum_and_mean():
    for states, padding, _ in chapter_03.largest_mean.all_cases():
        of_all = [row[~rest] for row, rest in zip(states, padding, strict=True)]
        pool = chapter_03.largest_mean.reference
        assert mt.allclose(pool(states, padding, 1), mt.stack([x.amax(0) for x in of_all]))
        assert mt.allclose(pool(states, padding, 99), mt.stack([x.mean(0) for x in of_all]))


def test_what_the_exercise_says_of_its_table():
    """Who is shown to be better, and the two shares that the question compares."""
    found = chapter_03.shown_better.reference(chapter_03.translators)
    assert ("wider", "plain") in found
    assert ("deeper", "plain") not in found
    assert not any("easy" in pair or "chosen with care" in pair for pair in found)
    right = {row["translator"]: row["right"] for row in chapter_03.translators}
    assert sum(right["deeper"]) > sum(right["wider"]) > sum(right["plain"])
    pairs = list(zip(right["wider"], right["plain"], strict=True))
    assert pairs.count((1, 0)) == 8 and pairs.count((0, 1)) == 0


def test_five_of_the_nine_encoders_are_broken():
    nine = chapter_03.encoders()
    assert len(nine) == 9
    assert len(chapter_03.broken_encoders.reference(nine)) == 5


def test_every_broken_encoder_is_found_and_no_other():
    broken, right = _kinds()
    encoders = [_Encoder(make()) for make in (broken | right).values()]
    assert chapter_03.broken_encoders.reference(encoders) == list(range(len(broken)))


def test_each_rule_is_broken_by_an_encoder_that_keeps_the_others():
    broken, _ = _kinds()
    for rule, kind in {
        "argument": "writes into the tokens",
        "alone": "takes the mean of the batch away",
        "word": "takes two words for one",
        "order": "adds up its words",
    }.items():
        relaxed = _testing(drop=(rule,))
        assert relaxed([_Encoder(broken[kind]())]) == [], rule


def test_the_translator_by_finite_differences():
    for sizes, source, padding, inputs in chapter_03.Translator.all_cases()[:1]:
        model = chapter_03.Translator.reference(*sizes).double()
        weight = model.bridge.weight

        found = mt.autograd.grad(model(source, padding, inputs).sum(), weight)[0]
        step = 1e-6
        with mt.no_grad():
            weight[0, 0] += step
            up = model(source, padding, inputs).sum().item()
            weight[0, 0] -= 2 * step
            down = model(source, padding, inputs).sum().item()
        assert found[0, 0].item() == pytest.approx((up - down) / (2 * step), rel=1e-4)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"width": 8}, "expected a dict with the keys"),
        ({"width": 99, "hidden": 8, "rate": 0.01, "steps": 9}, "expected 1 to 64 as 'width'"),
        ({"width": 8, "hidden": 8, "rate": 0.01, "steps": 900}, "expected 1 to 250 as 'steps'"),
        ({"width": 8, "hidden": 8, "rate": 2, "steps": 9}, "a rate between 0 and 1"),
        ({"width": 8, "hidden": 8, "rate": 0.01, "steps": 2}, "at least 75%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_translate_is_told_why(
    plan, message, monkeypatch
):
    monkeypatch.setattr(chapter_03.training, "what_it_is", lambda *_: "")  # which trains more
    model, step = chapter_03.Translator.reference, chapter_03.training_step.reference
    with pytest.raises(CheckFailed, match=message):
        chapter_03.reached(model, step, lambda: plan)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda *case: chapter_03.beam_search.reference(*case)[::-1][:1], "is missing"),
        (lambda *case: [(t, s / 2) for t, s in beams(*case)], "its score is"),
        (
            lambda *case: [(t[:1], s) for t, s in beams(*case)],
            "end token belongs|is not finished|its score is",
        ),
        (
            lambda *case: [(t + t, s) for t, s in beams(*case)],
            "goes on after end|cannot be found|the search ends after",
        ),
        (lambda *case: [t for t, _ in beams(*case)], "a list of pairs"),
    ],
)
def test_of_a_wrong_hypothesis_it_is_told_what_is_wrong(answer, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_03.beam_search(answer)


def beams(*case):
    return chapter_03.beam_search.reference(*case)


def test_of_a_wrong_pair_of_translators_it_is_told_why():
    def answer(rows):
        more = [("easy", "plain")] if any(row["translator"] == "easy" for row in rows) else []
        return more + chapter_03.shown_better.reference(rows)

    with pytest.raises(CheckFailed, match="they were tested on 'short numbers' and 'numbers'"):
        chapter_03.shown_better(answer)


@pytest.mark.parametrize(("added", "lowest"), [(1e-8, "-18.4"), (1e-12, "-27.6")])
def test_a_probability_that_is_kept_away_from_0_is_told(added, lowest):
    def answer(scores, targets, padding):
        scores = scores.masked_fill(padding.unsqueeze(-1), 0.0)
        p = scores.softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        log_p = (p + added).log().masked_fill(padding, 0.0)
        return log_p.sum(dim=1), -log_p.sum() / (~padding).sum()

    with pytest.raises(CheckFailed, match=f"yours is {lowest}. Do you keep"):
        chapter_03.log_probabilities(answer)


def test_a_number_that_is_only_rounded_is_told_so():
    def answer(lengths, size):
        right = chapter_03.cells.reference(lengths, size)
        return right | {"packed": int(float(right["packed"]))}

    with pytest.raises(CheckFailed, match="'packed' is off by 14, by rounding"):
        chapter_03.cells(answer)


def test_several_steps_of_the_optimizer_and_the_loss_of_a_part_are_told():
    def each_by_itself(model, optimizer, parts, clip):
        for part in parts:
            loss = chapter_03.training_step.reference(model, optimizer, [part], clip)
        return loss

    def last_mean(model, optimizer, parts, clip):
        losses = [_sum_of_losses(model, part).item() / _tokens(part) for part in parts]
        chapter_03.training_step.reference(model, optimizer, parts, clip)
        return losses[-1]

    with pytest.raises(CheckFailed, match=r"optimizer.step\(\) runs 2 times"):
        chapter_03.training_step(each_by_itself)
    with pytest.raises(CheckFailed, match="The loss that is returned is that of the last part"):
        chapter_03.training_step(last_mean)
