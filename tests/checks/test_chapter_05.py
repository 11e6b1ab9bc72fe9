"""The checks of chapter 05 catch and name what is wrong, and pass what is right."""

import itertools

import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import gradcheck
from tests.checks import right_05
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, chapter_05
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_05, right_05)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_05.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_05, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in right_05.refused[name]:
            assert difference(run(answer, *case), expected, name) is None


def test_a_sequence_that_sees_another_one_is_told_so():
    """An unusual mistake has no name, but the property that it violates is said."""

    def with_the_first_sequence(X, Q, K, V):
        attend = chapter_05.attention.reference
        return attend(X @ Q, X[:1].expand(*X.shape) @ K, X[:1].expand(*X.shape) @ V)

    with pytest.raises(CheckFailed, match="must not depend on the other sequences"):
        chapter_05.self_attention(with_the_first_sequence)


def test_a_position_added_to_the_tokens_is_told():
    def with_positions(X, Q, K, V):
        X = X + mt.arange(X.shape[1]).unsqueeze(1)
        return chapter_05.self_attention.reference(X, Q, K, V)

    with pytest.raises(CheckFailed, match="Tokens in another order"):
        chapter_05.self_attention(with_positions)


def test_layers_that_are_not_registered_are_named():
    class InAList(chapter_05.SelfAttention.reference):
        def __init__(self, width, key_size):
            super().__init__(width, key_size)
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


def test_the_norm_is_that_of_the_jacobian_and_falls_as_scores_grow():
    scores = mt.tensor([[0.5, -1.0, 0.3, 2.0]], dtype=mt.float64)
    norms = [chapter_05.jacobian_norms.reference(scale * scores).item() for scale in (1, 4, 16)]
    assert norms[0] > norms[1] > norms[2]


def test_modules_of_the_library_and_order():
    mt.manual_seed(0)
    test, X = chapter_05.order_blind.reference, mt.randn(4, 6, dtype=mt.float64)
    attention = nn.MultiheadAttention(6, 2).double()
    recurrent = nn.GRU(6, 6).double()
    assert test(lambda X: attention(X, X, X)[0], X)
    assert test(nn.Linear(6, 3).double(), X)
    assert not test(lambda X: recurrent(X)[0], X)


def test_a_few_permutations_drawn_by_chance_are_not_enough():
    def five(layer, X):
        orders = [mt.randperm(len(X)) for _ in range(5)]
        return all(mt.allclose(layer(X[p]), layer(X)[p]) for p in orders)

    mt.manual_seed(0)
    for _ in range(5):
        with pytest.raises(CheckFailed):
            chapter_05.order_blind(five)


def test_a_layer_that_seldom_notices_is_explained():
    def shuffled_far(layer, X):
        """Right but for orders with a single descent."""
        if len(X) < 6:
            return chapter_05.order_blind.reference(layer, X)
        return all(mt.allclose(layer(X[p]), layer(X)[p]) for p in ([5, 4, 3, 2, 1, 0],))

    with pytest.raises(CheckFailed, match="by luck alone"):
        chapter_05.order_blind(shuffled_far)


def test_all_permutations_that_leave_one_token_are_told_which():
    def keeping_the_last(layer, X):
        orders = [[*p, len(X) - 1] for p in itertools.permutations(range(len(X) - 1))]
        return all(mt.allclose(layer(X[p]), layer(X)[p]) for p in orders)

    with pytest.raises(CheckFailed, match="never move the last token"):
        chapter_05.order_blind(keeping_the_last)


def test_exchanges_of_two_tokens_do_not_make_all_permutations():
    """Equal outputs after each exchange do not tell what two of them do."""

    def exchanges(layer, X):
        for i, j in itertools.combinations(range(len(X)), 2):
            p = list(range(len(X)))
            p[i], p[j] = j, i
            if not mt.allclose(layer(X[p]), layer(X)[p]):
                return False
        return True

    X = mt.arange(8.0, dtype=mt.float64).reshape(4, 2)
    layer = lambda X: X + ((X[1:, 0] < X[:-1, 0]).sum() == 3)  # noqa: E731
    assert exchanges(layer, X)
    assert not chapter_05.order_blind.reference(layer, X)
    with pytest.raises(CheckFailed, match="a test that exchanges two tokens and tries nothing"):
        chapter_05.order_blind(exchanges)


@pytest.mark.parametrize(("i", "end"), [(0, "last"), (-2, "first")])
def test_a_single_exchange_at_one_end_is_told_what_it_leaves(i, end):
    def exchange(layer, X):
        p = list(range(len(X)))
        p[i], p[i + 1] = p[i + 1], p[i]
        return mt.allclose(layer(X[p]), layer(X)[p])

    with pytest.raises(CheckFailed, match=f"neither the {end} token nor the one in the middle"):
        chapter_05.order_blind(exchange)


@pytest.mark.parametrize("n", [1, 8, 50])
def test_a_recurrence_waits_and_self_attention_does_not(n):
    """What the text of the exercise says of the two graphs."""
    steps = chapter_05.time_steps.reference
    recurrence = [[t - 1] if t else [] for t in range(n)]
    attention = [[]] * n + [list(range(n))] * n
    assert steps(recurrence, None) == steps(recurrence, 2) == n
    assert steps(attention, None) == 2
    assert steps(attention, 2) == 2 * ((n + 1) // 2)


def test_the_gradient_by_finite_differences():
    for *inputs, direction in chapter_05.self_attention_gradient.all_cases():
        inputs = [x.clone().requires_grad_() for x in inputs]

        def run(X, Q, K, V):
            return chapter_05.self_attention.reference(X.unsqueeze(0), Q, K, V).squeeze(0)

        assert gradcheck(run, inputs)
        expected = mt.autograd.grad(run(*inputs), inputs, direction)
        found = chapter_05.self_attention_gradient.reference(*inputs, direction)
        assert difference(found, expected, "the gradient") is None
