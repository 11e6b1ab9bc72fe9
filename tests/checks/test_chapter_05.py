"""The checks of chapter 05 catch and name what is wrong, and pass what is right."""

import itertools

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks.proof import answers_in_key, proofs, refusing
from textbook.checks import CheckFailed, chapter_05
from textbook.checks.compare import difference
from textbook.checks.precision import in_float64


@pytest.mark.parametrize("proof", list(proofs(chapter_05)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", refusing(chapter_05))
def test_references_agree_with_the_library(name):
    check = getattr(chapter_05, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in answers_in_key(check, "refused"):
            assert difference(run(answer, *case), expected, name) is None


def test_layers_that_are_not_registered_are_named():
    class InAList(chapter_05.SelfAttention.reference):
        def __init__(self, width, key_size, slots):
            super().__init__(width, key_size, slots)
            self.layers = [self.query, self.key, self.value]
            del self.query, self.key, self.value

        def forward(self, x):
            return chapter_05.attention.reference(*(layer(x) for layer in self.layers))

    with pytest.raises(CheckFailed, match="its layers are not found"):
        chapter_05.SelfAttention(InAList)


def test_the_spread_of_scores_is_what_sampling_gives():
    mt.manual_seed(0)
    Q, K = mt.randn(6, 3, dtype=mt.float64), mt.randn(6, 3, dtype=mt.float64)
    x, y = (mt.randn(200_000, 6, dtype=mt.float64) for _ in range(2))
    sampled = ((x @ Q) * (y @ K)).sum(dim=1).std().item()
    assert chapter_05.score_deviation.reference(Q, K) == pytest.approx(sampled, rel=0.02)


def test_what_a_score_moves_by_finite_differences():
    """Of these scores, too: where one has all the weight, none moves anything."""
    for scores, values in chapter_05.moved_by_score.all_cases(hidden=True):
        found, step = chapter_05.moved_by_score.reference(scores, values), 1e-6
        for j in range(scores.shape[1]):
            more = scores + step * (mt.arange(scores.shape[1]) == j)
            less = scores - step * (mt.arange(scores.shape[1]) == j)
            slope = (more.softmax(-1) @ values - less.softmax(-1) @ values) / (2 * step)
            assert mt.allclose(slope.norm(dim=1), found[:, j], atol=1e-6)
    top = mt.tensor([[20.0, 0.0, 0.0]], dtype=mt.float64)
    assert chapter_05.moved_by_score.reference(top, mt.eye(3).double()).max().item() < 1e-7


def test_a_row_of_attention_without_keys_has_a_gradient_of_zero():
    query, key, value = (mt.randn(3, 2).requires_grad_() for _ in range(3))
    bias = mt.zeros(3, 3)
    bias[1] = -mt.inf
    output = chapter_05.attention.reference(query, key, value, bias)
    output.sum().backward()
    assert (output[1] == 0).all() and (query.grad[1] == 0).all()
    assert all(x.grad.isfinite().all() for x in (query, key, value))


def first(orders, layer, X):
    """The first of these permutations that shows something."""
    return next(
        (p for p in orders if not mt.allclose(layer(X[p]), layer(X)[p], rtol=0, atol=1e-8)), None
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_what_a_layer_notices_is_far_from_rounding(hidden):
    with in_float64():
        for layer, X in chapter_05.noticed_order.all_cases(hidden):
            for p in map(list, itertools.permutations(range(len(X)))):
                apart = (layer(X[p]) - layer(X)[p]).abs().max().item()
                assert apart < 1e-9 or apart > 1e-6


def test_modules_of_the_library_and_order():
    mt.manual_seed(0)
    search, X = chapter_05.noticed_order.reference, mt.randn(4, 6, dtype=mt.float64)
    attention = nn.MultiheadAttention(6, 2).double()
    recurrent = nn.GRU(6, 6).double()
    assert search(lambda X: attention(X, X, X)[0], X) is None
    assert search(nn.Linear(6, 3).double(), X) is None
    assert search(lambda X: recurrent(X)[0], X)


def test_a_few_permutations_drawn_by_chance_are_not_enough():
    def five(layer, X):
        return first([mt.randperm(len(X)) for _ in range(5)], layer, X)

    mt.manual_seed(0)
    for _ in range(5):
        with pytest.raises(CheckFailed):
            chapter_05.noticed_order(five)


def test_a_layer_that_seldom_notices_is_explained():
    def shuffled_far(layer, X):
        """Right but for orders with a single descent."""
        if len(X) < 6:
            return chapter_05.noticed_order.reference(layer, X)
        return first([[5, 4, 3, 2, 1, 0]], layer, X)

    with pytest.raises(CheckFailed, match="by luck alone"):
        chapter_05.noticed_order(shuffled_far)


def test_all_permutations_that_leave_one_token_are_told_which():
    def keeping_the_last(layer, X):
        orders = [[*p, len(X) - 1] for p in itertools.permutations(range(len(X) - 1))]
        return first(orders, layer, X)

    with pytest.raises(CheckFailed, match="never move the last token"):
        chapter_05.noticed_order(keeping_the_last)


def test_exchanges_of_two_tokens_do_not_make_all_permutations():
    """Equal outputs after each exchange do not tell what two of them do."""

    def exchanges(layer, X):
        orders = []
        for i, j in itertools.combinations(range(len(X)), 2):
            p = list(range(len(X)))
            p[i], p[j] = j, i
            orders.append(p)
        return first(orders, layer, X)

    X = mt.arange(8.0, dtype=mt.float64).reshape(4, 2)
    layer = lambda X: X + ((X[1:, 0] < X[:-1, 0]).sum() == 3)  # noqa: E731
    assert exchanges(layer, X) is None
    assert chapter_05.noticed_order.reference(layer, X)
    with pytest.raises(CheckFailed, match="a test that exchanges two tokens and tries nothing"):
        chapter_05.noticed_order(exchanges)


@pytest.mark.parametrize(("i", "end"), [(0, "last"), (-2, "first")])
def test_a_single_exchange_at_one_end_is_told_what_it_leaves(i, end):
    def exchange(layer, X):
        p = list(range(len(X)))
        p[i], p[i + 1] = p[i + 1], p[i]
        return first([p], layer, X)

    with pytest.raises(CheckFailed, match=f"neither the {end} token nor the one in the middle"):
        chapter_05.noticed_order(exchange)


def test_the_gradient_by_finite_differences():
    for *inputs, direction in chapter_05.self_attention_gradient.all_cases():
        inputs = [x.clone().requires_grad_() for x in inputs]

        def run(X, Q, K, V):
            return chapter_05.attention.reference(X @ Q, X @ K, X @ V)

        assert gradcheck(run, inputs)
        expected = mt.autograd.grad(run(*inputs), inputs, direction)
        found = chapter_05.self_attention_gradient.reference(*inputs, direction)
        assert difference(found, expected, "the gradient") is None


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"divisor": "root"}, "expected a dict with the keys"),
        ({"divisor": 8, "positions": True, "rate": 0.01, "steps": 9}, "expected one of"),
        ({"divisor": "d", "positions": 1, "rate": 0.01, "steps": 9}, "expected True or False"),
        ({"divisor": "d", "positions": True, "rate": 0.01, "steps": 999}, "expected 1 to 150"),
        ({"divisor": "d", "positions": True, "rate": 2, "steps": 9}, "a rate between 0 and 1"),
        ({"divisor": "root", "positions": False, "rate": 0.01, "steps": 20}, "at least 90%"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_or_does_not_learn_is_told_why(
    plan, message, monkeypatch
):
    monkeypatch.setattr(chapter_05.training, "what_it_is", lambda *_: "")  # which trains more
    with pytest.raises(CheckFailed, match=message):
        chapter_05.reached(chapter_05.right_unseen.reference, lambda: plan)


def test_a_plan_that_learns_passes(capsys):
    plan = {"divisor": "d", "positions": True, "rate": 0.01, "steps": 150}
    chapter_05.reached(chapter_05.right_unseen.reference, lambda: plan)
    assert "in sentences that it has not seen" in capsys.readouterr().out


def test_scores_that_overflow_and_sentences_taken_for_seen_are_told():
    def plain(X, Q, K, V, i):
        scores = ((X @ K) @ (X[i] @ Q) / X.shape[1] ** 0.5).exp()
        weights = scores * (mt.arange(len(X)) != i) / (scores * (mt.arange(len(X)) != i)).sum()
        return weights @ (X @ V), weights

    def of_sets(model, sentences, targets, seen):
        known = {frozenset(row) for row in seen.tolist()}
        new = [k for k, row in enumerate(sentences.tolist()) if frozenset(row) not in known]
        if not new:
            return None
        return chapter_05.right_unseen.reference(model, sentences[new], targets[new], seen)

    with pytest.raises(CheckFailed, match="For small scores all is right"):
        chapter_05.from_others(plain)
    with pytest.raises(CheckFailed, match="is not among those seen, and it is left out"):
        chapter_05.right_unseen(of_sets)
