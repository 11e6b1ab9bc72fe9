"""The checks of chapter 11 catch and name what is wrong, and pass what is right."""

import math

import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.flops import count_flops
from tests.checks.proof import proofs
from textbook.chapter_10 import Transformer
from textbook.checks import CheckFailed, chapter_11
from textbook.checks.chapter_11 import cache_key, reaching
from textbook.checks.chapter_11.reaching import RATES, REPORTING
from textbook.decoding import top_p_filter


@pytest.mark.parametrize("proof", list(proofs(chapter_11)))
def test_checks(proof):
    proof()


def test_costs_are_those_that_are_counted():
    pairs = [(3, 9), (8, 4), (5, 5), (7, 7)]
    mt.manual_seed(0)
    model = Transformer(50, width=16, heads=4, hidden=40, layers=2)
    counted = 0
    for part in (pairs[:3], pairs[3:]):
        with count_flops() as counter:
            source = mt.ones(len(part), max(n for n, _ in part)).long()
            target = mt.ones(len(part), max(t for _, t in part)).long()
            model(source, target).sum().backward()
        counted += counter.total
    assert chapter_11.pass_flops.reference(50, 16, 40, 2, 2, pairs, 3)["FLOPs"] == counted


def test_without_ties_the_likely_tokens_are_those_of_the_library():
    mt.manual_seed(0)
    scores = mt.randn(6, 9).double()
    found = chapter_11.likely_tokens.reference(scores, mt.full((6,), 0.8), 0.5)
    assert mt.allclose(found, top_p_filter(scores / 0.5, 0.8).softmax(-1))


def test_where_padding_and_right_token_share_the_rest_the_loss_is_the_library_s():
    """eps / (V - 2) on V - 2 tokens is as smoothing by V eps / (V - 2) but for two tokens."""
    mt.manual_seed(0)
    scores, targets = mt.randn(2, 3, 5).double(), mt.tensor([[1, 2, 3], [4, 1, 0]])
    found = chapter_11.smoothed_loss.reference(scores, targets, 0.0, 0)
    assert mt.allclose(
        found, F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=0)
    )


def test_copies_of_the_table_are_told():
    class Copied(chapter_11.TiedEmbedding.reference):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.copy = self.table.detach().clone()

        def scores(self, x):
            return x @ self.up.T @ self.copy.T + self.bias

    with pytest.raises(CheckFailed, match="The scores must change with self.table at each call"):
        chapter_11.TiedEmbedding(Copied)


def test_the_large_matrix_is_told_what_it_costs():
    class Large(chapter_11.TiedEmbedding.reference):
        def scores(self, x):
            return x @ (self.table @ self.up).T + self.bias

    with pytest.raises(CheckFailed, match="FLOPs, and it goes with 4,800"):
        chapter_11.TiedEmbedding(Large)


def test_a_step_that_computes_everything_anew_is_told_what_it_costs():
    with pytest.raises(CheckFailed, match="FLOPs, and it goes with"):
        chapter_11.cached_step(cache_key.step_that_starts_anew)


def test_a_step_that_returns_its_cache_first_is_told_so():
    def turned(layer, x, cache):
        return chapter_11.cached_step.reference(layer, x, cache)[::-1]

    with pytest.raises(CheckFailed, match="the first of the pair is the outputs of the new"):
        chapter_11.cached_step(turned)


def test_a_step_that_changes_the_old_cache_is_told_so():
    def in_place(layer, x, cache):
        output, pair = chapter_11.cached_step.reference(layer, x, cache and cache["kept"])
        cache = {} if cache is None else cache
        cache["kept"] = pair
        return output, cache

    with pytest.raises(CheckFailed, match="changes the old cache"):
        chapter_11.cached_step(in_place)


def test_the_step_gives_what_the_whole_layer_gives():
    for sizes, parts, x in chapter_11.cached_step.all_cases():
        run = chapter_11.cached_step.run(chapter_11.cached_step.reference, sizes, parts, x)
        layer, n = chapter_11.cache._layer(sizes), x.shape[1]
        whole = layer(x, x, mt.ones(n, n).tril().bool())
        assert mt.allclose(run["the tensor of outputs of all parts"], whole)


def test_a_count_that_is_no_integer_is_told_so():
    def floating(*case):
        return {k: float(v) for k, v in chapter_11.pass_flops.reference(*case).items()}

    with pytest.raises(CheckFailed, match="floating-point numbers at"):
        chapter_11.pass_flops(floating)


# What is reached


def pretending(monkeypatch, share):
    """Nothing is trained: `share` says what a rate, a seed and data give."""
    monkeypatch.setattr(reaching, "translator", lambda: [])
    monkeypatch.setattr(reaching, "train", lambda training: None)
    monkeypatch.setattr(reaching, "share_right", lambda model, data: share(model[0], data))
    return lambda model, draw, steps, rate: model.append(rate)


def test_what_has_been_reached_is_shown(monkeypatch, capsys):
    training = pretending(monkeypatch, lambda rate, data: 0.9 - abs(math.log2(rate / 0.004)) / 10)
    chapter_11.reached(training, chapter_11.measure.reference)
    shown = capsys.readouterr().out
    assert "of held-out numbers 0.90 (standard deviation 0.00)" in shown
    assert "at the rate 0.004" in shown


def test_a_training_that_reaches_little_is_told_how_much(monkeypatch):
    training = pretending(monkeypatch, lambda rate, data: 0.3 - abs(rate - 0.002))
    with pytest.raises(CheckFailed, match="train: of held-out numbers 0.30 .* at least 0.8 is"):
        chapter_11.reached(training, chapter_11.measure.reference)


def test_a_training_that_takes_too_long_is_told(monkeypatch):
    training = pretending(monkeypatch, lambda rate, data: 0.9 - abs(rate - 0.002))
    monkeypatch.setattr(reaching, "SECONDS", 0)
    with pytest.raises(CheckFailed, match="train: all trainings together took"):
        chapter_11.reached(training, chapter_11.measure.reference)


def test_wrong_trainings_and_measurements_are_told_before_anything_is_trained(monkeypatch):
    wrong = chapter_11.train.mistakes[0]
    with pytest.raises(CheckFailed, match=wrong.name):
        chapter_11.reached(wrong.function, chapter_11.measure.reference)
    training = pretending(monkeypatch, lambda rate, data: 0.9)
    wrong = chapter_11.measure.mistakes[0]
    with pytest.raises(CheckFailed, match=wrong.name):
        chapter_11.reached(training, wrong.function)


def test_numbers_to_report_are_in_no_other_part():
    words, parts = reaching._numbers()
    rows = {name: {tuple(row) for row in part[0].tolist()} for name, part in parts.items()}
    assert len(rows["test"]) >= 30
    assert len(REPORTING) >= 3
    assert len(RATES) >= 2
    for name in ("train", "validation"):
        told = {tuple(t for t in row if t) for row in rows[name]}
        assert not told & {tuple(t for t in row if t) for row in rows["test"]}


def test_a_loss_that_is_multiplied_by_0_at_padding_is_told():
    def loss(scores, targets, smoothing, padding):
        bent = scores.isnan().any() and mt.nan
        return chapter_11.smoothed_loss.reference(scores, targets, smoothing, padding) + bent

    with pytest.raises(
        CheckFailed, match="in some cases, not a number where scores at padding are"
    ):
        chapter_11.smoothed_loss(loss)


def test_a_training_that_is_run_twice_is_told():
    def measure(run, score, rates, choosing, reporting):
        run(rates[0], choosing[0])
        return chapter_11.measure.reference(run, score, rates, choosing, reporting)

    with pytest.raises(CheckFailed, match="is trained 2 times with seed 5: train nothing twice"):
        chapter_11.measure(measure)
