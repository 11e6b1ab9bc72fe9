"""The checks of chapter 12 catch and name what is wrong, and pass what is right."""

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_12
from textbook.checks.chapter_12 import heads_key, leaks, mixers_key, recall


@pytest.mark.parametrize("proof", list(proofs(chapter_12)))
def test_checks(proof):
    proof()


def test_tile_after_tile_is_a_softmax():
    """Whatever the tiles, the last state gives what all keys at once give."""
    draw, n = Draw(0), 11
    scores, value = 50 * draw.normal(2, 3, n), draw.normal(2, n, 4)
    allowed = draw.normal(3, n) > -1
    expected = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1) @ value
    for size in (1, 4, n):
        m = mt.full((2, 3), -mt.inf, dtype=mt.float64)
        state = m, mt.zeros_like(m), mt.zeros(2, 3, 4, dtype=mt.float64)
        for start in range(0, n, size):
            tile = slice(start, start + size)
            state = chapter_12.one_tile.reference(
                state, scores[..., tile], value[:, tile], allowed[:, tile]
            )
        m, z, u = state
        assert mt.allclose(u / z.unsqueeze(-1), expected)


def test_grouped_attention_is_that_of_the_library():
    draw = Draw(0)
    query, key, value = draw.normal(2, 6, 7, 4), draw.normal(2, 3, 7, 4), draw.normal(2, 3, 7, 5)
    expected = F.scaled_dot_product_attention(
        query, *(x.repeat_interleave(2, dim=1) for x in (key, value)), is_causal=True
    )
    assert mt.allclose(chapter_12.grouped_attention.reference(query, key, value), expected)


@pytest.mark.parametrize("answer", heads_key.copying)
def test_keys_for_every_head_are_told(answer):
    for case in chapter_12.grouped_attention.all_cases():
        assert mt.allclose(answer(*case), chapter_12.grouped_attention.reference(*case))
    with pytest.raises(CheckFailed, match="a copy of the keys or values for every query head"):
        chapter_12.grouped_attention(answer)


def test_flops_are_those_that_are_counted():
    """Of a block built of the library's layers, heads of two queries to a key."""
    T, n, width, hidden, heads, key_heads = 5, 12, 24, 40, 6, 3
    predicted = chapter_12.block_flops.reference(T, n, width, hidden, heads, key_heads)
    x, cached = mt.randn(T, width), mt.randn(key_heads, n - T, width // heads)
    to_keys = nn.Linear(width, width // heads * key_heads, bias=False)
    square = nn.Linear(width, width, bias=False)
    with count_flops() as projections:
        key, value = to_keys(x), to_keys(x)
        square(square(x))
    keys = mt.cat([cached, key.unflatten(-1, (key_heads, -1)).transpose(0, 1)], dim=1)
    values = mt.cat([cached, value.unflatten(-1, (key_heads, -1)).transpose(0, 1)], dim=1)
    query = x.unflatten(-1, (heads, -1)).transpose(0, 1).unsqueeze(0)
    with count_flops() as scores:
        chapter_12.grouped_attention.reference(query, keys.unsqueeze(0), values.unsqueeze(0))
    with count_flops() as network:
        gate, up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        nn.Linear(hidden, width, bias=False)(gate(x).sigmoid() * up(x))
    counted = {"projections": projections, "scores": scores, "network": network}
    assert predicted == {part: counter.total for part, counter in counted.items()}


def test_a_window_summed_anew_is_told_that_it_grows():
    def anew(query, key, value, width):
        outputs = []
        for t in range(key.shape[-2]):
            seen = slice(max(0, t - width + 1), t + 1)
            weights = query[..., t : t + 1, :] @ key[..., seen, :].mT
            mixed = weights @ value[..., seen, :] / weights.sum(dim=-1, keepdim=True)
            outputs.append(mixed.squeeze(-2))
        return mt.stack(outputs, dim=-2)

    with pytest.raises(CheckFailed, match="grows from [0-9,]+ numbers in all for a window of 3"):
        chapter_12.windowed_attention(anew)


def test_a_table_of_all_scores_is_told():
    def table(query, key, value, width):
        n = key.shape[-2]
        weights = (query @ key.mT).tril() * mt.ones(n, n).triu(1 - width)
        return weights @ value / weights.sum(dim=-1, keepdim=True)

    with pytest.raises(CheckFailed, match="a table of n x n numbers"):
        chapter_12.windowed_attention(table)


@pytest.mark.parametrize("hidden", [False, True])
def test_the_matrix_of_decays_is_the_recurrence(hidden):
    for log_decay, starts in chapter_12.decay_matrix.all_cases(hidden):
        x, h, outputs = Draw(0).normal(*log_decay.shape), mt.zeros(log_decay.shape[:-1]), []
        for t in range(log_decay.shape[-1]):
            h = h * log_decay[..., t].exp() * ~starts[..., t] + x[..., t]
            outputs.append(h)
        matrix = chapter_12.decay_matrix.reference(log_decay, starts)
        mixed = (matrix @ x.unsqueeze(-1)).squeeze(-1)
        assert mt.allclose(mixed, mt.stack(outputs, dim=-1))


def test_a_scan_that_combines_every_beginning_by_itself_is_told_its_pairs():
    def wasteful(combine, items):
        """Few calls, each with the beginnings of all rows."""
        n = len(items[0])
        whole, offset = chapter_12.scan.reference(combine, items), 1
        while offset < n:
            combine(*(tuple(mt.cat([x] * n) for x in items) for _ in range(2)))
            offset *= 2
        return whole

    with pytest.raises(CheckFailed, match="the number of calls of combine differs|pairs"):
        chapter_12.scan(wasteful)


def test_half_of_the_suspects_leak_and_are_found():
    eight = chapter_12.suspects(6, 4)
    found = chapter_12.leaking.reference(eight, Draw(0).normal(6, 4))
    guilty, _ = leaks._makers(Draw(3), 6, 4)
    assert len(eight) == 8
    assert len(found) == 4
    assert {eight[i].function.__qualname__ for i in found} <= {
        function.__qualname__ for function in guilty.values()
    }


def test_a_test_for_leaks_must_leave_x_as_it_was():
    def writing(mixers, x):
        found = chapter_12.leaking.reference(mixers, x)
        x += 1
        return found

    with pytest.raises(CheckFailed, match="X after the call differs"):
        chapter_12.leaking(writing)


@pytest.mark.parametrize("seed", range(5))
def test_every_leak_is_found_and_nothing_else(seed):
    guilty, honest = leaks._makers(Draw(seed), 6, 4)
    made = list((guilty | honest).values())
    found = chapter_12.leaking.reference(made, Draw(seed).normal(6, 4))
    assert found == list(range(len(guilty)))


def test_the_table_of_the_statement():
    assert chapter_12.believable.reference(chapter_12.runs) == [2, 5]


def test_what_counts_values_is_far_from_enough():
    mt.manual_seed(0)
    drawn = np.random.default_rng(0).integers(8, size=(4000, 16))
    share = np.mean([np.bincount(row).max() / 16 for row in drawn])
    assert recall.counting() == pytest.approx(share, abs=0.01)
    assert share < 0.5 * recall.ENOUGH


MIXER, MEASURE = chapter_12.OwnMixer.reference, chapter_12.measure.reference


def rates():
    return [0.004, 0.02, 0.1, 0.5]


def test_the_model_answer_learns_recall():
    assert recall.train(MIXER, 0.02, 0) > recall.ENOUGH + 0.2


def test_what_has_been_reached_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(recall, "train", lambda mixer, rate, seed: 0.9 - abs(rate - 0.1))
    chapter_12.recalled(MIXER, MEASURE, rates)
    shown = capsys.readouterr().out
    assert "0.90 of the answers after 16 pairs are right" in shown
    assert "a state of 1,088 numbers, rate 0.1" in shown


def test_a_mixer_that_cannot_recall_is_told_what_counting_reaches(monkeypatch):
    monkeypatch.setattr(recall, "STEPS", 10)
    with pytest.raises(CheckFailed, match="counting values reaches 0.27, and 0.6 is expected"):
        chapter_12.recalled(mixers_key.RecurrentMixer, MEASURE, rates)


def test_a_rate_at_the_edge_is_told(monkeypatch):
    monkeypatch.setattr(recall, "train", lambda mixer, rate, seed: rate)
    with pytest.raises(CheckFailed, match="the chosen rate, 0.9, is the smallest or the largest"):
        chapter_12.recalled(MIXER, MEASURE, lambda: [0.1, 0.3, 0.9])


@pytest.mark.parametrize("given", [[], [0.1, 0.2], [0.1, 0.1, 0.2], [0.0, 0.1, 0.2], ["a", 1, 2]])
def test_rates_that_are_too_few_or_none_are_refused(given):
    with pytest.raises(CheckFailed, match="rates: expected three to six different rates"):
        chapter_12.recalled(MIXER, MEASURE, lambda: given)


def test_rates_that_are_close_are_refused():
    with pytest.raises(CheckFailed, match="a factor of 3 or more between neighbours, and 0.02 and"):
        chapter_12.recalled(MIXER, MEASURE, lambda: [0.04, 0.004, 0.02])


def test_a_training_that_takes_too_long_stops(monkeypatch):
    monkeypatch.setattr(recall, "SECONDS", 0)
    with pytest.raises(CheckFailed, match="it has made 1 of 120 steps"):
        chapter_12.recalled(MIXER, MEASURE, rates)


def test_a_wrong_measurement_is_told_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(recall, "train", None)
    wrong = chapter_12.measure.mistakes[0]
    with pytest.raises(CheckFailed, match=wrong.name):
        chapter_12.recalled(MIXER, wrong.function, rates)
