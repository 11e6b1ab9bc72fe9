"""New tensors and random numbers."""

import subprocess
import sys

import numpy as np
import pytest

import minitorch as mt


def test_filled_tensors():
    assert mt.zeros(2, 1).tolist() == [[0], [0]] and mt.zeros((2,)).dtype is mt.float32
    assert mt.ones([2], dtype=mt.int64).dtype is mt.int64
    assert mt.full((2,), 3).dtype is mt.int64 and mt.full((2,), 3.0).dtype is mt.float32
    assert mt.full((1,), True).dtype is mt.bool
    assert mt.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert mt.empty(2, 3).shape == (2, 3) and mt.zeros(()).shape == ()
    assert mt.zeros(2, requires_grad=True).requires_grad


def test_counted_tensors():
    assert mt.arange(3).tolist() == [0, 1, 2] and mt.arange(3).dtype is mt.int64
    assert mt.arange(1, 2, 0.5).tolist() == [1.0, 1.5] and mt.arange(2.0).dtype is mt.float32
    assert mt.arange(5, 1, -2).tolist() == [5, 3]
    assert mt.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_tensors_like_another():
    x = mt.ones(2, 3, dtype=mt.float64)
    for like in (mt.zeros_like, mt.ones_like, mt.empty_like, mt.rand_like, mt.randn_like):
        made = like(x)
        assert made.shape == (2, 3) and made.dtype is mt.float64 and not made.requires_grad
    assert mt.zeros_like(x, dtype=mt.int64).dtype is mt.int64
    assert mt.full_like(x, 2).tolist() == [[2.0] * 3] * 2 and mt.full_like(x, 2).dtype is mt.float64
    assert (
        x.new_zeros(2).dtype is x.new_tensor([1]).dtype is x.new_full((1,), 3).dtype is mt.float64
    )


DRAWS = {
    "rand": lambda g: mt.rand(3, generator=g),
    "randn": lambda g: mt.randn(3, generator=g),
    "randint": lambda g: mt.randint(0, 1000, (3,), generator=g),
    "randperm": lambda g: mt.randperm(50, generator=g),
    "normal": lambda g: mt.normal(1.0, 2.0, (3,), generator=g),
    "bernoulli": lambda g: mt.bernoulli(mt.full((50,), 0.5), generator=g),
    "multinomial": lambda g: mt.multinomial(mt.ones(50), 9, generator=g),
    "multinomial again": lambda g: mt.multinomial(mt.ones(50), 9, True, generator=g),
    "uniform_": lambda g: mt.zeros(3).uniform_(generator=g),
    "normal_": lambda g: mt.zeros(3).normal_(generator=g),
    "xavier": lambda g: mt.nn.init.xavier_normal_(mt.zeros(3, 3), generator=g),
    "orthogonal": lambda g: mt.nn.init.orthogonal_(mt.zeros(3, 3), generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seeds_fix_the_numbers(name):
    draw = DRAWS[name]
    generator = mt.Generator().manual_seed(7)
    first, second = draw(generator), draw(generator)
    assert not mt.equal(first, second)
    assert mt.equal(first, draw(mt.Generator().manual_seed(7)))
    mt.manual_seed(7)
    assert mt.equal(first, draw(None))
    assert not mt.equal(first, draw(mt.Generator().manual_seed(8)))


def test_a_generator_of_its_own_leaves_the_default_alone():
    mt.manual_seed(0)
    expected = mt.rand(2)
    mt.manual_seed(0)
    mt.rand(5, generator=mt.Generator())
    assert mt.equal(mt.rand(2), expected)


def test_generator_state():
    generator = mt.Generator().manual_seed(3)
    assert generator.initial_seed() == 3
    state = generator.get_state()
    first = mt.rand(2, generator=generator)
    generator.set_state(state)
    assert mt.equal(mt.rand(2, generator=generator), first)
    with pytest.raises(TypeError, match="integer.*1.5"):
        mt.manual_seed(1.5)


def test_dropout_follows_the_seed():
    dropout = mt.nn.Dropout(0.5)
    mt.manual_seed(1)
    first = dropout(mt.ones(50))
    mt.manual_seed(1)
    assert mt.equal(dropout(mt.ones(50)), first)
    assert set(first.tolist()) == {0.0, 2.0}


def test_numpys_generator_is_untouched():
    np.random.seed(5)
    before = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    mt.manual_seed(0)
    for draw in DRAWS.values():
        draw(None)
    mt.nn.Linear(3, 3)
    mt.nn.Dropout()(mt.ones(3))
    assert (np.random.get_state()[1].tolist(), np.random.get_state()[2]) == before


def test_ranges_of_random_numbers():
    mt.manual_seed(0)
    assert 0 <= mt.rand(1000).min() and mt.rand(1000).max() < 1
    drawn = mt.randint(2, 5, (1000,))
    assert set(drawn.tolist()) == {2, 3, 4} and drawn.dtype is mt.int64
    assert sorted(mt.randperm(9).tolist()) == list(range(9))
    assert abs(mt.randn(10_000).mean().item()) < 0.05 and abs(mt.randn(10_000).std() - 1) < 0.05


def test_multinomial():
    mt.manual_seed(0)
    weights = mt.tensor([0.0, 1.0, 3.0])
    drawn = mt.multinomial(weights, 4000, replacement=True)
    counts = [(drawn == i).sum().item() for i in range(3)]
    assert counts[0] == 0 and abs(counts[2] / 4000 - 0.75) < 0.03
    assert sorted(mt.multinomial(weights, 2).tolist()) == [1, 2]
    assert mt.multinomial(mt.ones(2, 3), 2).shape == (2, 2)
    with pytest.raises(RuntimeError, match="replacement=True"):
        mt.multinomial(weights, 3)
    for bad in ([-1.0, 2.0], [float("nan"), 1.0], [0.0, 0.0]):
        with pytest.raises(RuntimeError, match="multinomial needs"):
            mt.multinomial(mt.tensor(bad), 1)


def test_importing_changes_nothing_of_numpys():
    program = (
        "import numpy as np\n"
        "np.random.seed(1)\n"
        "def state():\n"
        "    _, numbers, position, *_ = np.random.get_state()\n"
        "    return np.geterr(), np.get_printoptions(), numbers.tolist(), position\n"
        "before = state()\n"
        "import minitorch\n"
        "assert state() == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_flows_back_through_a_draw_and_says_so():
    p = mt.full((200,), 0.5, requires_grad=True)
    seen = mt.zeros(200).bernoulli_(p)
    for drawn in (mt.bernoulli(p), p.bernoulli(0.3), seen, (p * 1).bernoulli_(0.5)):
        assert drawn.requires_grad and set(drawn.tolist()) == {0, 1}
        p.grad = None
        (drawn * mt.arange(200.0)).sum().backward()
        assert p.grad.tolist() == [0] * 200
    mean, std = mt.zeros(2, 1, requires_grad=True), mt.ones(3, requires_grad=True)
    mt.normal(mean, std).sum().backward()
    assert mean.grad.tolist() == [[0], [0]] and std.grad.tolist() == [0, 0, 0]
    with mt.no_grad():
        assert not mt.bernoulli(p).requires_grad
    assert (
        not mt.bernoulli(p.detach()).requires_grad and not mt.normal(0.0, 1.0, (2,)).requires_grad
    )
