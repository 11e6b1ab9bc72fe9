"""The checks of chapter 02 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from tests.checks import right_02
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, chapter_02
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_02, right_02)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_02.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_02, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in right_02.refused[name]:
            assert difference(answer(*case), expected, name) is None


def test_bidirectional_reference_agrees_with_the_library():
    for x, layers in chapter_02.deep_bidirectional.all_cases():
        first = layers[0][0]
        lstm = nn.LSTM(first.inputs, first.hidden, len(layers), bidirectional=True).double()
        for layer, pair in enumerate(layers):
            for suffix, run in zip((f"l{layer}", f"l{layer}_reverse"), pair, strict=True):
                W_ih, W_hh, b = run.weights
                values = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b, "bias_hh": 0 * b}
                for name, value in values.items():
                    getattr(lstm, f"{name}_{suffix}").data = value
        output, (h, c) = lstm(x)
        got = chapter_02.deep_bidirectional.reference(x, layers)
        assert difference(got, (output, h, c), "the result") is None


def test_counts_are_those_of_the_library_and_the_last_case_cannot_be_built():
    cases = set(chapter_02.count_parameters.all_cases())
    cases.remove(max(cases, key=lambda case: case[1]))
    for case in cases:
        expected = right_02.count_of_the_module(*case)
        assert chapter_02.count_parameters.reference(*case) == expected
    with pytest.raises(CheckFailed, match="MemoryError"):
        chapter_02.count_parameters(right_02.count_of_the_module)


def test_four_products_a_state_are_refused_although_the_numbers_are_right():
    def gate_by_gate(x_t, h, c, W_ih, W_hh, b):
        weights = zip(W_ih.chunk(4), W_hh.chunk(4), b.chunk(4), strict=True)
        i, f, g, o = right_02.gates_one_after_the_other(x_t, h, *weights)
        c = f * c + i * g
        return o * c.tanh(), c

    with pytest.raises(CheckFailed, match="multiplies by matrices 8 times"):
        chapter_02.lstm_cell(gate_by_gate)


def read_aloud(x):
    """What a cell that keeps its bit says at each step of x (T, 3)."""
    held, said = None, []
    for write, bit, read in x.tolist():
        held = bit if write else held
        said.append(held if read else 0)
    return said


def test_the_reference_keeps_its_bit_and_hides_it():
    for hidden in (False, True):
        for (x,) in chapter_02.keep_a_bit.all_cases(hidden):
            weights = [w.double() for w in chapter_02.keep_a_bit.reference()]
            h = c = mt.zeros(1, 1, dtype=mt.float64)
            outputs, cells = [], []
            for x_t in x:
                h, c = chapter_02.lstm_cell.reference(x_t[None], h, c, *weights)
                outputs.append(h.item())
                cells.append(c.item())
            assert all(abs(value) > 0.9 for value in cells)
            said = [0 if abs(value) < 0.05 else value / abs(value) for value in outputs]
            assert said == read_aloud(x)


def test_a_bit_lost_is_shown_step_by_step():
    def leaking():
        W_ih, W_hh, b = chapter_02.keep_a_bit.reference()
        return W_ih, W_hh, b * mt.tensor([1, 0, 1, 1])

    with pytest.raises(CheckFailed, match=r"expected: '\. x3 \+'\n  got: +'\. x3 \?'"):
        chapter_02.keep_a_bit(leaking)


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ((mt.zeros(4, 3), mt.zeros(4, 4), mt.zeros(4)), r"'\(4, 3\), \(4, 4\), \(4,\)'"),
        ((mt.zeros(4, 3), mt.zeros(4)), r"'\(4, 3\), \(4,\)'"),
        (([[0.0]], mt.zeros(4, 1), mt.zeros(4)), "tensor of shape"),
        (None, "None"),
    ],
)
def test_weights_of_another_form_are_refused(returned, shown):
    with pytest.raises(CheckFailed, match=f"What keep_a_bit returns differs(.|\n)*{shown}"):
        chapter_02.keep_a_bit(lambda: returned)
