"""The checks of chapter 08 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
import textbook.chapter_08
from minitorch import nn
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_08
from textbook.checks.chapter_08.turning import _kinds, _Program


@pytest.mark.parametrize("proof", list(proofs(chapter_08)))
def test_checks(proof):
    proof()


def test_a_loop_over_the_places_is_told_to_make_all_angles_at_once():
    def place_by_place(x, positions, base):
        rows = [
            chapter_08.rotate.reference(x[..., i : i + 1, :], positions[:, i : i + 1], base)
            for i in range(positions.shape[1])
        ]
        return mt.cat(rows, dim=-2)

    with pytest.raises(CheckFailed, match="no loop over the places"):
        chapter_08.rotate(place_by_place)


def test_a_shift_that_fits_one_code_is_told_that_it_must_hold_everywhere():
    """A matrix of rank one that takes the code of place 0 to where it should go."""

    def fitted(shift, omega):
        before = mt.cat([mt.zeros(len(omega)), mt.ones(len(omega))])
        after = mt.cat([(shift * omega).sin(), (shift * omega).cos()])
        return mt.outer(before, after) / len(omega)

    with pytest.raises(CheckFailed, match="At every t, p_t @ matrix must be the code of place"):
        chapter_08.shift_matrix(fitted)


def test_the_tables_are_those_of_a_layer_for_one_hot_vectors():
    mt.manual_seed(0)
    layer, X = nn.Linear(3 + 6 + 2, 5), mt.randn(2, 4, 3)
    place = mt.eye(6)[:4].expand(2, 4, 6)
    segment = mt.eye(2).unsqueeze(1).expand(2, 4, 2)
    matrix, table = chapter_08.learned_from_one_hot.reference(layer.weight, layer.bias, 6, 2)
    outputs = layer(mt.cat([X, place, segment], dim=-1))
    assert mt.allclose(X @ matrix + table[:, :4], outputs, atol=1e-6)


def test_the_codes_are_not_the_chapters():
    ours = chapter_08.sinusoidal_codes.reference(9, 6)
    theirs = textbook.chapter_08.sinusoidal_codes(9, 6)
    assert not mt.allclose(ours[:, [0, 3]], theirs[:, [2, 3]])
    assert mt.allclose(ours[:, [0, 3]], theirs[:, :2])  # the fastest hand is the same


def test_the_bias_and_a_bonus_for_the_index_give_the_same_weights():
    """What the message to a bonus for the index says."""
    bias = chapter_08.alibi_bias.reference(3, 6, 4)
    bonus = bias - bias[:, :, :1]
    assert mt.allclose(bias.softmax(dim=-1), bonus.softmax(dim=-1), atol=1e-6)
    assert mt.allclose(bonus[:, -1], chapter_08.alibi_bias.reference(6, 6, 4)[:, -1].flip(-1).neg())


def test_without_tables_relative_attention_is_attention():
    draw = Draw(0)
    query, key, value = draw.normal(2, 2, 5, 4), draw.normal(2, 2, 5, 4), draw.normal(2, 2, 5, 3)
    nothing = mt.zeros(7, 4).double(), mt.zeros(7, 3).double()
    found = chapter_08.relative_attention.reference(query, key, value, *nothing)
    assert mt.allclose(found, (query @ key.mT / 2).softmax(dim=-1) @ value)


def test_the_remedies_for_a_longer_text_do_what_the_exercise_says():
    d, base, trained, longer = 8, 10_000.0, 20, 64
    found = chapter_08.longer_context.reference(d, base, trained, longer)
    slowest = -(d - 2) / d
    seen = (trained - 1) * base**slowest
    assert (longer - 1) * found["base"] ** slowest == pytest.approx(seen)
    assert found["squeeze"] * (longer - 1) * base**slowest == pytest.approx(seen)


def test_five_of_the_nine_programs_are_broken():
    nine = chapter_08.programs()
    assert len(nine) == 9
    assert len(chapter_08.broken_rotations.reference(nine)) == 5


def test_each_rule_is_broken_by_a_program_that_keeps_the_others():
    """No rule follows from the rest, so each has to be asked for."""
    broken, _ = _kinds()
    tests = {mistake.name: mistake.function for mistake in chapter_08.broken_rotations.mistakes}
    for rule, kind in {
        "place 0": "counts places from 1",
        "whether scores stay when all words move": "stops at place 512",
        "whether scores know of places at all": "turns nothing",
        "whether a row depends on the others of its sequence": (
            "has a base that grows with the number of rows"
        ),
        "that x is left as it is": "writes into x",
    }.items():
        relaxed = tests[f"a test that does not ask for {rule}"]
        assert relaxed([_Program(broken[kind]())]) == [], rule


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"scheme": "relative"}, "expected a dict with the keys"),
        ({"scheme": "one-hot", "clip": 8, "rate": 0.01, "steps": 200}, "expected one of"),
        ({"scheme": "rotary", "clip": 8, "rate": 0.01, "steps": 900}, "expected 1 to 250"),
        ({"scheme": "rotary", "clip": 0, "rate": 0.01, "steps": 90}, "as 'clip', got 0"),
        ({"scheme": "rotary", "clip": 8, "rate": 3, "steps": 90}, "a rate between 0 and 1"),
        ({"scheme": "ALiBi", "clip": 8, "rate": 0.01, "steps": 10}, "ALiBi takes off more"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_hold_is_told_why(plan, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_08.reached(chapter_08.right_beyond.reference, lambda: plan)


def test_a_plan_that_holds_passes(capsys):
    plan = {"scheme": "relative", "clip": 8, "rate": 0.01, "steps": 200}
    chapter_08.reached(chapter_08.right_beyond.reference, lambda: plan)
    assert "it holds beyond what was trained" in capsys.readouterr().out
