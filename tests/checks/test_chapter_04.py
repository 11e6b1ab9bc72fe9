"""The checks of chapter 04 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch.autograd import gradcheck
from minitorch.flops import count_flops
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.checks import CheckFailed, chapter_04
from textbook.checks.chapter_04 import gradient_key
from textbook.checks.chapter_04.budgets import READERS
from textbook.checks.chapter_04.looking import _kinds, _Program
from textbook.checks.chapter_04.looking_key import _testing
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_04)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", refusing(chapter_04))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_04, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in answers_in_key(check, "refused"):
            assert difference(run(answer, *case), expected, name) is None


def test_a_faint_weight_at_the_padding_is_refused():
    def faint(queries, keys, values, padding):
        outputs, weights = chapter_04.attend.reference(queries, keys, values, padding)
        return outputs, weights + 1e-12

    with pytest.raises(CheckFailed, match="weight of a padded word must be exactly 0"):
        chapter_04.attend(faint)


def test_keys_that_are_not_cleaned_are_told_from_values():
    def attend(queries, keys, values, padding):
        hidden = padding.unsqueeze(1)
        scores = (queries @ keys.mT).masked_fill(hidden, -1e30)
        weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
        return weights @ values.masked_fill(hidden.mT, 0.0), weights

    with pytest.raises(CheckFailed, match="It is the padding of the keys"):
        chapter_04.attend(attend)


def test_a_sharp_look_up_returns_the_mean_of_the_pair():
    values = mt.rand(5, 3, generator=mt.Generator().manual_seed(0))
    keys, queries = chapter_04.pair_table.reference(5, 1e-6)
    found = (queries @ keys.T).softmax(dim=-1) @ values
    assert mt.allclose(found, (values + values.roll(-1, 0)) / 2, atol=1e-4)


def test_learners_are_asked_for_what_they_know():
    def answer(learn, names, rates, steps):
        return {name: learn(name, steps, 0.1, 0) for name in names}

    with pytest.raises(CheckFailed, match=r"a rate of \[0.01, 0.03\] and a seed, got 'A', 60, 0.1"):
        chapter_04.ten_times(answer)


def test_the_mean_of_the_words_is_blind_to_their_order():
    """What the text says of the third reader: its states are the same in any order."""
    model = READERS["mean of the words"]()
    tokens = mt.tensor([[1, 14, 15, 16], [16, 1, 15, 14]])
    with mt.no_grad():
        one, other = model(tokens)
    assert mt.allclose(one, other, atol=1e-6)


def test_the_predicted_costs_are_those_that_are_counted():
    for T, n, d, r in ((6, 12, 64, 4), (9, 3, 8, 5)):
        S, M, W = mt.zeros(T, d), mt.zeros(n, d), mt.zeros(d, d)
        U, w = mt.zeros(r, d), mt.zeros(r)
        scored = {
            "dot product": lambda S=S, M=M: S @ M.T,
            "multiplicative": lambda S=S, M=M, W=W: (
                (S @ W) @ M.T if len(S) < len(M) else S @ (M @ W).T
            ),
            "reduced rank": lambda S=S, M=M, U=U: (S @ U.T) @ (M @ U.T).T,
            "additive": lambda S=S, M=M, U=U, w=w: ((M @ U.T) + (S @ U.T).unsqueeze(1)).tanh() @ w,
        }
        found = chapter_04.score_costs.reference(T, n, d, r)
        for name, run in scored.items():
            with count_flops() as counter:
                run()
            assert counter.total == found[name], name


def test_what_the_exercise_says_of_its_table():
    found = chapter_04.learns_faster.reference(chapter_04.scores)
    assert ("dot product", "mean") in found and ("multiplicative", "mean") in found
    assert not any("additive" in pair or "reduced rank" in pair for pair in found)
    assert not any(pair[1] == "mean, short" for pair in found)


def test_five_of_the_nine_programs_are_broken():
    nine = chapter_04.programs()
    assert len(nine) == 9
    assert len(chapter_04.broken_attentions.reference(nine)) == 5


def test_every_broken_program_is_found_and_no_other():
    broken, right = _kinds()
    programs = [_Program(make()) for make in (broken | right).values()]
    assert chapter_04.broken_attentions.reference(programs) == list(range(len(broken)))


def test_each_rule_is_broken_by_a_program_that_keeps_the_others():
    broken, _ = _kinds()
    for rule, kind in {
        "argument": "writes into the memory",
        "padding": "masks with a score of -30",
        "output": "mixes words of length 1",
        "sentence": "divides by the size of the whole memory",
        "query": "takes the mean of the queries away",
        "order": "prefers late words",
    }.items():
        assert _testing(drop=(rule,))([_Program(broken[kind]())]) == [], rule


def test_the_gradient_by_hand_is_the_engines():
    for case in chapter_04.attention_gradient.all_cases(hidden=True):
        expected = gradient_key.gradient_by_autograd(*case)
        assert difference(chapter_04.attention_gradient.reference(*case), expected, "") is None


def test_the_decoder_by_finite_differences():
    for sizes, inputs, memory, padding, state in chapter_04.AttentionDecoder.all_cases()[:1]:
        decoder = chapter_04.AttentionDecoder.reference(*sizes).double()
        leaves = [x.clone().requires_grad_() for x in (memory / memory.abs().amax(), state)]
        assert gradcheck(
            lambda memory, state, run=decoder, inputs=inputs, padding=padding: run(
                inputs, memory, padding, state
            ),
            leaves,
        )


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"queries": 1}, "expected a dict with the keys"),
        ({"queries": 9, "rate": 0.01, "steps": 9}, "expected 1 to 8 as 'queries'"),
        ({"queries": 1, "rate": 0.01, "steps": 900}, "expected 1 to 400 as 'steps'"),
        ({"queries": 1, "rate": 3, "steps": 9}, "a rate between 0 and 1"),
        ({"queries": 1, "rate": 0.01, "steps": 2}, "at least 85%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_read_is_told_why(plan, message, monkeypatch):
    monkeypatch.setattr(chapter_04.pooling, "what_it_is", lambda *_: "")  # which trains more
    with pytest.raises(CheckFailed, match=message):
        chapter_04.reached(chapter_04.Queries.reference, lambda: plan)
