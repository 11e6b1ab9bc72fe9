"""The checks of chapter 06 catch and name what is wrong, and pass what is right."""

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.autograd import gradcheck
from minitorch.flops import count_flops
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.chapter_06 import merge_heads, split_heads
from textbook.checks import CheckFailed, Draw, chapter_06
from textbook.checks.chapter_06 import mixers, training
from textbook.checks.compare import difference
from textbook.checks.mistakes import Edit, edited
from textbook.checks.modules import made


@pytest.mark.parametrize("proof", list(proofs(chapter_06)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", refusing(chapter_06))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_06, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases() + check.all_cases(hidden=True):
        expected = run(check.reference, *case)
        for answer in answers_in_key(check, "refused"):
            assert difference(run(answer, *case), expected, name) is None


def test_a_loop_over_the_heads_is_told_to_make_them_an_axis():
    def map_by_map(query, key, value, mix):
        maps, heads = mix.shape
        parts = zip(query.chunk(heads, dim=-1), key.chunk(heads, dim=-1), strict=True)
        scores = [q @ k.mT / q.shape[-1] ** 0.5 for q, k in parts]
        outputs = []
        for row, own in zip(mix, value.chunk(maps, dim=-1), strict=True):
            mixed = sum(weight * each for weight, each in zip(row, scores, strict=True))
            outputs.append(mixed.softmax(dim=-1) @ own)
        return mt.cat(outputs, dim=-1)

    with pytest.raises(CheckFailed, match="no loop over the heads"):
        chapter_06.talking_heads(map_by_map)


def test_heads_that_do_not_talk_are_those_of_the_chapter_and_all_together_are_one():
    """What the solution says of two mixes."""
    draw = Draw(0)
    query, key, value = (draw.normal(2, n, 6) for n in (3, 4, 4))
    talking = chapter_06.talking_heads.reference
    heads = (split_heads(x, 3) for x in (query, key, value))
    apart = merge_heads(F.scaled_dot_product_attention(*heads))
    assert mt.allclose(talking(query, key, value, mt.eye(3).double()), apart)
    one = F.scaled_dot_product_attention(3**0.5 * query, key, value)
    assert mt.allclose(talking(query, key, value, mt.ones(1, 3).double()), one)


@pytest.mark.parametrize("case", chapter_06.attention_cost.all_cases())
def test_the_cost_is_what_the_layer_has_and_runs(case):
    T, n, d, heads, groups = case
    layer = chapter_06.GroupedAttention.reference(d, heads, groups)
    x, memory = mt.rand(1, T, d), mt.rand(1, n, d)
    with count_flops() as counter:
        layer(x, memory)
    cost = chapter_06.attention_cost.reference(*case)
    assert cost["weights"] == sum(weight.numel() for weight in layer.parameters())
    assert cost["FLOPs"] == counter.total
    assert cost["kept"] == layer.key(memory).numel() + layer.value(memory).numel()


def test_five_of_the_eight_layers_mix_and_are_found():
    eight = chapter_06.suspects()
    found = chapter_06.mixing.reference(eight)
    mixing, _ = mixers._kinds()
    names = {function.__qualname__ for function in mixing.values()}
    assert len(eight) == 8
    assert len(found) == 5
    assert {eight[i].function.__qualname__ for i in found} <= names


def test_a_mask_that_lets_a_little_through_is_caught():
    leaky = edited(chapter_06.GroupedAttention.reference, [Edit("-mt.inf", "-3.0")])
    with pytest.raises(CheckFailed, match="Memory that no query is allowed to look at"):
        chapter_06.GroupedAttention(leaky)


def test_a_layer_that_keeps_something_from_a_call_is_caught():
    class Keeping(chapter_06.GroupedAttention.reference):
        def forward(self, x, memory, allowed=None):
            self.kept = getattr(self, "kept", allowed)
            return super().forward(x, memory, self.kept)

    class Shared(chapter_06.GroupedAttention.reference):
        kept = {}

        def forward(self, x, memory, allowed=None):
            key = tuple(memory.shape)
            memory = self.kept.setdefault(key, memory)
            return super().forward(x, memory, allowed)

    for hidden in (False, True):
        for layer in (Keeping, Shared):
            with pytest.raises(CheckFailed):
                chapter_06.GroupedAttention(layer, hidden)


def test_a_layer_that_is_wrong_is_not_said_to_keep_something():
    first_mask = edited(
        chapter_06.GroupedAttention.reference,
        [Edit("~allowed", "~(allowed[:, :1] if allowed.ndim == 4 else allowed)")],
    )
    for hidden in (False, True):
        with pytest.raises(CheckFailed) as caught:
            chapter_06.GroupedAttention(first_mask, hidden)
        assert "keep nothing" not in str(caught.value)


def test_matrices_of_another_shape_are_told_their_shapes():
    def wide(k, c):
        Q, K, V = chapter_06.two_heads.reference(k, c)
        return Q, K, [mt.zeros(k + c, c + 1)] * 2

    with pytest.raises(CheckFailed, match=r"V\[0\] has the wrong shape"):
        chapter_06.two_heads(wide)


def test_the_layer_by_finite_differences():
    reference = chapter_06.GroupedAttention.reference
    for sizes, x, memory, allowed in chapter_06.GroupedAttention.all_cases()[:4]:
        layer = made(reference, reference, sizes)
        inputs = [each.clone().requires_grad_() for each in (x, memory)]
        assert gradcheck(
            lambda x, memory, run=layer, allowed=allowed: run(x, memory, allowed), inputs
        )


def trained(model, draw):
    """A step, so that the weights are others."""
    *inputs, answers = draw(2)
    gates = mt.ones(1, model.heads)
    F.cross_entropy(model(*inputs, gates).flatten(0, 1), answers.flatten()).backward()
    mt.optim.SGD(model.parameters(), lr=0.01).step()


def saying(all_heads, without, steps=1):
    def answer(model, draw):
        for _ in range(steps):
            trained(model, draw)
        return {"all heads": all_heads, "without the worst": without}

    return answer


def test_what_was_reached_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(training, "each_share", lambda model: [[0.99, *[0.97] * 4]] * 2)
    chapter_06.spare_heads(saying(0.98, np.float64(0.96)))
    shown = capsys.readouterr().out
    assert "all heads 0.990, without the worst 0.970" in shown
    assert "spare_heads: all public checks passed" in shown


@pytest.mark.parametrize(
    ("reached", "answer", "message"),
    [
        ((0.99, 0.55), saying(0.99, 0.55), "Without any one head at least 0.95"),
        ((0.60, 0.50), saying(0.60, 0.50), "With all heads at least 0.98"),
        ((0.99, 0.97), saying(1.0, 0.99), None),
        ((0.99, 0.91), saying(0.99, 0.965), "0.910. It looks like the share of right answers"),
        ((0.99, 0.85), saying(0.99, 1.0), "the share with all heads or the largest of the shares"),
        ((0.05, 0.05), saying(0.05, 0.05, steps=50), "hardly more than by chance"),
        ((0.99, 0.93), saying(0.99, 1.0), "on 2,000 other tables it is 0.930"),
        ((0.99, 0.93), saying(99, 93), "A share lies between 0 and 1"),
        ((0.99, 0.97), lambda model, draw: (0.99, 0.97), "a dict of two numbers"),
        ((0.99, 0.97), lambda model, draw: None, "a dict of two numbers"),
        (
            (0.99, 0.97),
            lambda model, draw: {"all heads": 1, "without the worst": 1},
            "have not changed",
        ),
        ((0.99, 0.97), 3, "expected your function"),
    ],
)
def test_what_was_not_reached_or_not_measured_is_told(monkeypatch, reached, answer, message):
    both = [reached[0], *[1.0] * 3, reached[1]]
    monkeypatch.setattr(training, "each_share", lambda model: [both, [0.995, *[0.965] * 4]])
    if message is None:
        chapter_06.spare_heads(answer)
        return
    with pytest.raises(CheckFailed, match=message):
        chapter_06.spare_heads(answer)


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ([[0.0, 1.0, 1.0, 1.0]], "never head 1, 2, 3: each has to be missing"),
        (np.eye(4), "has removed each head"),
    ],
)
def test_which_heads_a_training_has_removed_is_told(monkeypatch, gates, message):
    def answer(model, draw):
        *inputs, answers = draw(len(gates))
        said = model(*inputs, mt.tensor(gates).float())
        F.cross_entropy(said.flatten(0, 1), answers.flatten()).backward()
        mt.optim.SGD(model.parameters(), lr=0.01).step()
        return {"all heads": 0.99, "without the worst": 0.5}

    monkeypatch.setattr(training, "each_share", lambda model: [[0.99, *[0.5] * 4]] * 2)
    with pytest.raises(CheckFailed, match=message):
        chapter_06.spare_heads(answer)


def test_a_model_that_hangs_on_a_head_shows_how_it_is_measured():
    mt.manual_seed(0)
    model = training.Hanging()
    *inputs, _ = training.draw(2000)
    ones = mt.ones(1, 4)
    lost = (model(*inputs, ones - mt.eye(4)[:1])[:, 1] == 0).all(1)
    assert 0.45 < lost.double().mean() < 0.55
    assert not (model(*inputs, ones)[:, 1] == 0).all(1).any()


def test_a_slow_training_is_told_so(monkeypatch):
    monkeypatch.setattr(training, "SECONDS", 0)
    with pytest.raises(CheckFailed, match="0 are there"):
        chapter_06.spare_heads(saying(0.99, 0.97))


def test_removing_a_head_is_measured_with_its_gate_alone_at_zero():
    model, heads = chapter_06.look_up(0), []
    model.forward = lambda *inputs: heads.append(inputs[-1]) or mt.zeros(len(inputs[0]), 2, 8)
    training.shares(model, count=3)
    assert sorted(gates[0].tolist() for gates in heads) == sorted(
        [[1.0] * 4, *((1 - mt.eye(4)).tolist())]
    )
