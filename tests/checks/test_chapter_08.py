"""The checks of chapter 08 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks import right_08
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_08
from textbook.checks.chapter_08.distances import MORE_SCHEMES, SCHEMES


@pytest.mark.parametrize("proof", list(proofs(chapter_08, right_08)))
def test_checks(proof):
    proof()


def test_a_loop_over_the_places_is_told_to_make_all_angles_at_once():
    def place_by_place(x, positions):
        rows = [
            chapter_08.rotate.reference(x[..., i : i + 1, :], positions[i : i + 1])
            for i in range(len(positions))
        ]
        return mt.cat(rows, dim=-2)

    with pytest.raises(CheckFailed, match="no loop over the places"):
        chapter_08.rotate(place_by_place)


def test_a_shift_that_fits_a_few_codes_is_told_that_it_must_hold_everywhere():
    """A matrix of rank one that takes the code of place 0 to where it should go."""

    def fitted(shift, d):
        codes = chapter_08.sinusoidal_codes.reference(abs(shift) + 1, d)
        return mt.outer(codes[0], codes[-1]) / codes[0].square().sum()

    with pytest.raises(CheckFailed, match="At every t, p_t @ matrix must be the code of place"):
        chapter_08.shift_matrix(fitted)


def test_positions_beyond_the_table_are_caught_however_they_are_made_up():
    learned = chapter_08.LearnedPositions.reference

    class Around(learned):
        def forward(self, x):
            return x + self.table[mt.arange(x.shape[1]) % len(self.table)]

    class NoneThere(learned):
        def forward(self, x):
            kept = min(x.shape[1], len(self.table))
            return mt.cat([x[:, :kept] + self.table[:kept], x[:, kept:]], dim=1)

    class CutOff(learned):
        def forward(self, x):
            return x[:, : len(self.table)] + self.table[: x.shape[1]]

    for answer in (Around, NoneThere, CutOff):
        with pytest.raises(CheckFailed, match="without an error"):
            chapter_08.LearnedPositions(answer)


def test_the_tables_are_those_of_a_layer_for_one_hot_positions():
    mt.manual_seed(0)
    layer, X = nn.Linear(3 + 6, 5), mt.randn(2, 4, 3)
    joined = mt.cat([X, mt.eye(6)[:4].expand(2, 4, 6)], dim=-1)
    matrix, table = chapter_08.learned_from_one_hot.reference(layer.weight, layer.bias, 6)
    learned = chapter_08.LearnedPositions.reference(6, 5)
    learned.load_state_dict({"table": table})
    assert mt.allclose(learned(X @ matrix), layer(joined), atol=1e-6)


def test_a_shift_turns_codes_and_rotating_turns_back():
    """Codes keep the sine first, so that time runs clockwise; rotary positions turn to the left."""
    X = Draw(0).normal(5, 8)
    for place in (0, 3, 11):
        turned = chapter_08.rotate.reference(X, mt.full((5,), place))
        assert mt.allclose(turned, X @ chapter_08.shift_matrix.reference(-place, 8).double())


def test_with_equal_vectors_for_all_differences_the_relative_term_is_a_constant_of_the_query():
    draw = Draw(0)
    query, key, vector = draw.normal(2, 5, 3), draw.normal(2, 5, 3), draw.normal(3)
    scores = chapter_08.relative_scores.reference(query, key, vector.expand(7, 3))
    assert mt.allclose(scores, query @ (key + vector).mT / 3**0.5)


def test_the_bias_and_a_bonus_for_the_index_give_the_same_causal_weights():
    """What the message to a bonus for the index says."""
    past = mt.ones(6, 6).tril().bool()
    bias = chapter_08.alibi_bias.reference(6, 4)
    bonus = -bias[:, :1, :].expand(4, 6, 6)
    weights = (x.masked_fill(~past, -mt.inf).softmax(dim=-1) for x in (bias, bonus))
    assert mt.allclose(*weights, atol=1e-6)


def test_the_schemes_know_what_the_chapter_says():
    X = Draw(0).normal(4, 4)
    knows = chapter_08.what_it_knows.reference
    kinds = {name: knows(scores, X) for name, scores in {**SCHEMES, **MORE_SCHEMES}.items()}
    assert kinds["no positions"] == "nothing"
    assert {kinds[name] for name in ("rotary positions", "ALiBi")} == {"distance"}
    assert {kinds[name] for name in ("an index appended", "sinusoids added")} == {"place"}


def test_distances_of_the_sentence_of_the_exercise():
    distances = chapter_08.tree_distances.reference([1, None, 1, 5, 5, 1])
    assert distances[0, 3].item() == 3


def test_distances_of_the_sentence_with_inserted_phrases():
    """the dogs that the cat near the trees follow bark"""
    heads = [1, 9, 8, 4, 8, 7, 7, 4, 1, None]
    distances = chapter_08.tree_distances.reference(heads)
    assert distances[9].tolist() == [2, 1, 3, 4, 3, 5, 5, 4, 2, 0]


@pytest.mark.parametrize("name", ["relative_scores", "rotate"])
def test_references_by_finite_differences(name):
    check = getattr(chapter_08, name)
    case = check.all_cases()[0]
    floats = [x.clone().requires_grad_() for x in case if x.is_floating_point()]
    rest = [x for x in case if not x.is_floating_point()]
    assert gradcheck(lambda *inputs: check.reference(*inputs, *rest), floats)
