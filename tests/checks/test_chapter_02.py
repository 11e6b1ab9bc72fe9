"""The checks of chapter 02 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from tests.checks.proof import answers_in_key, proofs
from textbook.checks import CheckFailed, chapter_02
from textbook.checks.chapter_02 import broken, broken_key, cells, memory_key, padded_key
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_02)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", ["peephole_cell", "lstm_step_backward"])
def test_references_agree_with_the_library(name):
    check = getattr(chapter_02, name)
    for case in check.all_cases():
        expected = check.reference(*case)
        for answer in answers_in_key(check, "refused"):
            assert difference(answer(*case), expected, name) is None


def test_a_padded_batch_agrees_with_the_packed_one_of_the_library():
    for x, *rest in chapter_02.read_padded.all_cases():
        x = mt.where(x.isfinite(), x, 0.0)
        expected = chapter_02.read_padded.reference(x, *rest)
        assert difference(padded_key.padded_by_packing(x, *rest), expected, "the result") is None


def test_without_peepholes_it_is_the_cell_of_the_library():
    for x_t, h, c, W_ih, W_hh, b, peepholes in chapter_02.peephole_cell.all_cases():
        cell = nn.LSTMCell(W_ih.shape[1], W_hh.shape[1]).double()
        values = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b, "bias_hh": 0 * b}
        cell.load_state_dict(values)
        expected = cell(x_t, (h, c))
        got = chapter_02.peephole_cell.reference(x_t, h, c, W_ih, W_hh, b, 0 * peepholes)
        assert difference(got, expected, "the result") is None
        assert difference(cells.lstm_step(x_t, h, c, W_ih, W_hh, b), expected, "a step") is None


def test_a_gru_of_the_library_does_with_the_weights_what_the_other_program_did():
    for kernel, recurrent, bias in chapter_02.moved_gru.all_cases():
        cell = nn.GRUCell(*kernel.shape[:1], len(recurrent)).double()
        weights = chapter_02.moved_gru.reference(kernel, recurrent, bias)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        cell.load_state_dict(dict(zip(names, weights, strict=True)))
        x, h = mt.randn(4, len(kernel)).double(), mt.randn(4, len(recurrent)).double()
        expected = cells.elsewhere_step(x, h, kernel, recurrent, bias)
        assert difference(cell(x, h), expected, "the new state") is None
        assert difference(cells.gru_step(x, h, *weights), expected, "the new state") is None


@pytest.mark.parametrize(("seed", "one"), [(0, True), (1, False), (2, True)])
def test_one_cell_counts_or_none_alone(seed, one):
    """What the text says of the three trainings."""
    shares = chapter_02.without_each_cell.reference(*chapter_02.counter(seed))
    worst, *others = sorted(shares.tolist())
    assert worst < 0.75 if one else worst > 0.8
    assert min(others) > 0.85


def test_eight_products_are_refused_although_the_numbers_are_right():
    def gate_by_gate(x_t, h, c, W_ih, W_hh, b, peepholes):
        sums = [
            x_t @ W.T + h @ U.T + part
            for W, U, part in zip(W_ih.chunk(4), W_hh.chunk(4), b.chunk(4), strict=True)
        ]
        p_i, p_f, p_o = peepholes
        i, f = (sums[0] + p_i * c).sigmoid(), (sums[1] + p_f * c).sigmoid()
        c = f * c + i * sums[2].tanh()
        return (sums[3] + p_o * c).sigmoid() * c.tanh(), c

    with pytest.raises(CheckFailed, match="multiplies by matrices 8 times"):
        chapter_02.peephole_cell(gate_by_gate)


def read_aloud(x):
    """What a memory that keeps its bits says at each step of x (T, 4), of both units."""
    held, said = [None, None], []
    for write, slot, bit, read in x.tolist():
        if write:
            held[int(slot)] = bit
        said.append([held[k] if read and slot == k else 0 for k in range(2)])
    return said


def test_the_reference_keeps_its_bits_and_hides_them():
    for hidden in (False, True):
        for (x,) in chapter_02.two_bits.all_cases(hidden):
            weights = [w.double() for w in chapter_02.two_bits.reference()]
            h = c = mt.zeros(1, 2, dtype=mt.float64)
            outputs, kept = [], []
            for x_t in x:
                h, c = cells.lstm_step(x_t[None], h, c, *weights)
                outputs.append(h[0].tolist())
                kept.append(c[0].tolist())
            assert all(abs(value) > 0.9 for pair in kept[1:] for value in pair)
            said = [[0 if abs(v) < 0.05 else v / abs(v) for v in pair] for pair in outputs]
            assert said == read_aloud(x)


def test_a_bit_lost_is_shown_step_by_step():
    def leaking():
        W_ih, W_hh, b = chapter_02.two_bits.reference()
        return W_ih, W_hh, b * mt.tensor([1, 1, 0, 1, 1, 1, 1, 1])

    with pytest.raises(CheckFailed, match=r"expected: '\. x2 \+ .*'\n  got: +'\. x2 \?"):
        chapter_02.two_bits(leaking)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"f": ((-6, 6, 0, 0, 3), (-6, -6, 0, 0, 9))}, "a forget gate of 0.95 keeps 95% a step"),
        ({"i": ((3, -40, 0, 0, -3), (3, 40, 0, 0, -43))}, "its input gate was 0.50"),
        ({"g": ((0, 0, 0.5, 0, 0),) * 2}, "at step 0, g was 0.46: the candidate is too small"),
        ({"o": ((0, -40, 0, 3, -3), (0, 40, 0, 3, -43))}, "Its output gate is 0.50 there"),
        (
            {"o": ((0, -40, 0, 5, -2), (0, 40, 0, 5, -42))},
            "its output gate, 0.12, has to be near 0",
        ),
        (
            {"i": ((40, -40, 0, 0, -5.6), (40, 40, 0, 0, -45.6))},
            "not the bit that was written alone",
        ),
    ],
)
def test_what_makes_an_output_small_is_told(changed, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_02.two_bits(memory_key._by_hand(**changed))


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ((mt.zeros(8, 4), mt.zeros(8, 8), mt.zeros(8)), r"'\(8, 4\), \(8, 8\), \(8,\)'"),
        ((mt.zeros(8, 4), mt.zeros(8)), r"'\(8, 4\), \(8,\)'"),
        (([[0.0]], mt.zeros(8, 2), mt.zeros(8)), "tensor of shape"),
        (None, "None"),
    ],
)
def test_weights_of_another_form_are_refused(returned, shown):
    with pytest.raises(CheckFailed, match=f"What two_bits returns differs(.|\n)*{shown}"):
        chapter_02.two_bits(lambda: returned)


def test_five_of_the_eight_layers_are_broken():
    eight = chapter_02.unknown_layers()
    assert len(eight) == 8
    assert len(chapter_02.broken_layers.reference(eight)) == 5


def test_each_rule_is_broken_by_a_layer_that_keeps_the_others():
    """No rule follows from the rest, so each has to be asked for."""
    kinds, _ = broken._kinds()
    for rule, kind in {
        "x": "writes into x",
        "state": "writes into the state",
        "last": "hands on another h than it shows",
        "pieces": "takes the state as (c, h)",
        "alone": "mixes the sequences",
        "none": "starts from ones where no state is given",
        "gradient": "cuts the gradient once",
    }.items():
        relaxed = broken_key._testing(drop=(rule,))
        assert relaxed([broken._Layer(kinds[kind]())]) == [], rule


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"network": "GRU"}, "expected a dict with the keys"),
        ({"network": "CNN", "bias": 0, "rate": 0.1, "steps": 9}, "expected one of"),
        ({"network": "GRU", "bias": 0, "rate": 0.1, "steps": 900}, "expected 1 to 300"),
        ({"network": "GRU", "bias": 99, "rate": 0.1, "steps": 9}, "as 'bias', got 99"),
        ({"network": "GRU", "bias": 0, "rate": 3, "steps": 9}, "a rate between 0 and 1"),
        ({"network": "RNN", "bias": 0, "rate": 0.01, "steps": 20}, "at least 90%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_forgets_is_told_why(plan, message):
    with pytest.raises(CheckFailed, match=message):
        chapter_02.reached(chapter_02.right_by_distance.reference, lambda: plan)


def test_a_plan_that_forgets_is_told_which_part_is_to_blame(monkeypatch):
    def shares(measure, plan, seed):
        return {0: 1.0, 20: 0.95 if plan["rate"] > 0.1 else 0.5, 50: 0.2}

    monkeypatch.setattr(chapter_02.training, "_shares", shares)
    plan = {"network": "LSTM", "bias": 1.0, "rate": 0.01, "steps": 300}
    message = "learned and forgets.\nIt is the rate: with a larger one, .* has 95% right"
    with pytest.raises(CheckFailed, match=message):
        chapter_02.reached(chapter_02.right_by_distance.reference, lambda: plan)


def test_rows_in_another_order_are_told_so():
    def answer():
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        W_ih, W_hh, b = memory_key._by_hand()()
        return W_ih[order], W_hh, b[order]

    with pytest.raises(CheckFailed, match="Your rows stand in the order i0, f0, g0, o0, i1"):
        chapter_02.two_bits(answer)
