"""What PyTorch does at the edges: NaN, booleans, arguments of the wrong kind."""

import random
import tracemalloc
import warnings

import gradients as judges
import numpy as np
import pytest
from rows import ROWS

import minitorch as mt
import minitorch.nn as nn
import minitorch.nn.functional as F


def gradients(function, *values):
    tensors = [mt.tensor(value, requires_grad=True) for value in values]
    function(*tensors).sum().backward()
    return [tensor.grad.tolist() for tensor in tensors]


def test_relu_passes_the_gradient_at_nan():
    assert gradients(mt.relu, [mt.nan, 1.0, 0.0, -1.0, mt.inf]) == [[1, 1, 0, 0, 1]]


@pytest.mark.parametrize("function", [mt.maximum, mt.minimum])
def test_beside_a_nan_both_get_the_gradient(function):
    first, second = gradients(function, [mt.nan, 2.0, mt.nan, 3.0], [1.0, mt.nan, mt.nan, 3.0])
    assert first == second == [1, 1, 1, 0.5]


def test_booleans_have_a_sign_but_no_absolute_value():
    truths = mt.tensor([True, False])
    assert mt.sign(truths).tolist() == [True, False] and mt.sign(truths).dtype is mt.bool
    for name in ("abs", "floor", "ceil", "trunc", "round"):
        with pytest.raises(NotImplementedError, match=f"{name}.*booleans.*int"):
            getattr(mt, name)(truths)


@pytest.mark.parametrize("join", [mt.cat, mt.stack, mt.hstack, mt.vstack])
@pytest.mark.parametrize(
    "wrong", [[mt.ones(2), 3], [mt.ones(2), None], ["a"], mt.ones(2, 2), 3, iter([mt.ones(2)])]
)
def test_what_is_joined_is_a_list_of_tensors(join, wrong):
    with pytest.raises(TypeError, match="list or tuple of tensors, got"):
        join(wrong)


def test_nothing_cannot_be_joined():
    for join in (mt.stack, mt.hstack, mt.vstack):
        with pytest.raises(RuntimeError, match="at least one"):
            join([])
    with pytest.raises(ValueError, match="at least one"):
        mt.cat([])


def test_a_name_is_no_index():
    x = mt.ones(2)
    for wrong in ("a", b"a", (0, "a")):
        with pytest.raises(TypeError, match="integers, slices and tensors"):
            x[wrong]
        with pytest.raises(TypeError, match="integers, slices and tensors"):
            x[wrong] = 1


def test_linear_with_one_output_without_an_axis():
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert F.linear(x, mt.tensor([5.0, 6.0])).tolist() == [17, 39]
    assert F.linear(x[0], mt.tensor([5.0, 6.0]), mt.tensor(1.0)).item() == 18
    assert gradients(F.linear, x.tolist(), [5.0, 6.0]) == [[[5, 6], [5, 6]], [4, 6]]
    with pytest.raises(RuntimeError):
        F.linear(x, mt.ones(3))
    with pytest.raises(RuntimeError, match="bias without"):
        F.linear(x, mt.ones(2), mt.ones(2))


def test_a_list_of_equal_modules_is_shown_folded():
    layers = [nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)]
    assert str(nn.ModuleList(layers)) == (
        "ModuleList(\n"
        "  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "  (2): ReLU()\n"
        "  (3): Linear(in_features=2, out_features=2, bias=True)\n"
        ")"
    )
    assert "(0-1)" not in str(nn.Sequential(*layers))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_overflow_and_infinities_arise_without_a_warning(name):
    for seed, extremes in enumerate([[3e38, -3e38, 2.0], [np.inf, -np.inf, 0.0], [np.nan, 1e-30]]):
        case = ROWS[name](judges.Draw(random.Random(seed).randint))
        tensors = [
            mt.tensor(np.resize(np.asarray(extremes, np.float32), x.shape)) for x in case.inputs
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning, r"minitorch\.")
            try:
                case.function(*tensors)
            except (RuntimeError, IndexError):
                pass  # values that the operation refuses


def test_gradients_of_sums_arise_without_a_warning():
    for function in (mt.var, mt.std, mt.prod, mt.logsumexp, mt.softmax, mt.log_softmax, mt.cumprod):
        x = mt.tensor([3e38, mt.inf, -mt.inf, 3e38], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning, r"minitorch\.")
            function(x, 0).backward(mt.full((4,), 3e38)[: function(x, 0).numel()].squeeze())
            mt.einsum("i,ij->j", x, mt.full((4, 2), 3e38)).sum().backward()


@pytest.mark.cpu
def test_what_users_compute_with_numpy_warns_as_before():
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.full(2, 3e38, np.float32).sum()


def test_half_precision_is_added_up_in_single():
    many = mt.ones(70000).half()
    assert many.mean().item() == 1 and (many * 3).std().item() == 0
    assert many.softmax(0)[0].item() == pytest.approx(1 / 70000, rel=2e-2)
    assert many.log_softmax(0)[0].item() == pytest.approx(-11.156, rel=1e-3)
    assert many.logsumexp(0).item() == pytest.approx(12.156, rel=1e-3)
    assert F.cross_entropy(many.unsqueeze(0), mt.tensor([5])).item() == pytest.approx(11.156, 1e-3)
    assert many[:5000].reshape(2500, 2).sum(0).tolist() == [2500, 2500]
    assert many[:5000].cumsum(0)[-1].item() == 5000
    assert mt.full((10,), 300.0).half().norm().item() == 948.5
    assert mt.arange(400).half().var().item() == pytest.approx(13366.7, rel=1e-3)
    rows = 300 + mt.arange(512.0).half().reshape(1, 512)
    assert F.layer_norm(rows, (512,)).float().std(unbiased=False).item() == pytest.approx(1, 1e-3)
    assert F.rms_norm(mt.full((4,), 300.0).half(), (4,)).tolist() == [1, 1, 1, 1]
    halves = [many[:4].softmax(0), many.mean(), many.var(), many.norm(), many.sum(), many.prod()]
    halves += [many.cumsum(0), many.logsumexp(0)]
    halves += [F.layer_norm(rows, (512,)), F.rms_norm(rows, (512,))]
    assert {x.dtype for x in halves} == {mt.float16}


def test_one_hot_takes_memory_for_its_result_alone():
    def peak():
        tracemalloc.start()
        result = F.one_hot(mt.arange(10), 5000)
        _, bytes_at_most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert result.sum(0).tolist() == [1] * 10 + [0] * 4990
        return bytes_at_most / result.nbytes

    # The least of three: threads that other tests have left may allocate meanwhile.
    assert min(peak() for _ in range(3)) < 3


@pytest.mark.parametrize("equation", ["ij->ji", "ij->ij", "ij", "ii->i", "...->..."])
def test_einsum_of_one_tensor_is_a_copy(equation):
    x = mt.ones(2, 2, requires_grad=True)
    mt.einsum(equation, x * 1).mul_(2).sum().backward()
    assert x.grad.amax().item() == 2
    y = mt.ones(2, 2)
    mt.einsum(equation, y).zero_()
    assert y.tolist() == [[1, 1], [1, 1]]


def test_shapes_stay_shapes():
    shape = mt.ones(2, 3).shape
    for made in (shape * 2, 2 * shape, shape + (1,), (1,) + shape, shape[1:]):
        assert type(made) is mt.Size
    assert shape * 2 == (2, 3, 2, 3) and (1,) + shape == (1, 2, 3)
    with pytest.raises(TypeError):
        shape * 2.0


def test_ties_of_clamp_go_to_the_input():
    ones, threes = [1.0] * 4, [3.0] * 4
    assert gradients(mt.clamp, [0.0, 1.0, 3.0, 5.0], ones, threes) == [
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
    ]
    # an empty range gives max; one of a single number leaves the gradient below to nobody
    assert gradients(mt.clamp, [0.0, 2.0], [4.0, 4.0], [1.0, 1.0]) == [[0, 0], [0, 0], [1, 1]]
    assert gradients(mt.clamp, [0.0, 1.0, 2.0], ones[:3], ones[:3]) == [
        [0, 1, 0],
        [0] * 3,
        [0, 0, 1],
    ]
    assert gradients(lambda x: x.clamp(1, 3), [0.0, 1.0, 3.0, 5.0, mt.nan]) == [[0, 1, 1, 0, 0]]
    assert gradients(lambda x: x.clamp(3, 1), [0.0, 2.0, 1.0]) == [[0, 0, 0]]


def test_rounded_division():
    x, y = mt.tensor([7.0, -7.0, 1.0], requires_grad=True), mt.tensor([2.0, 2.0, 0.0])
    for mode, expected in {"floor": [3, -4, mt.inf], "trunc": [3, -3, mt.inf]}.items():
        result = x.div(y, rounding_mode=mode)
        assert result.tolist() == expected and result.requires_grad
        assert (x.detach() * 1).div_(y, rounding_mode=mode).tolist() == expected
        whole = mt.tensor([7, -7]).div(2, rounding_mode=mode)
        assert whole.tolist() == expected[:2] and whole.dtype is mt.int64
        result.sum().backward()
        assert x.grad.tolist() == [0, 0, 0]
        with pytest.raises(RuntimeError, match="divided by zero"):
            mt.tensor([7]).div(0, rounding_mode=mode)
    with pytest.raises(RuntimeError, match="'floor' or 'trunc'; got 'up'"):
        x.div(y, rounding_mode="up")


def test_positions_in_a_tensor_without_axes():
    assert [index.tolist() for index in mt.nonzero(mt.tensor(3), as_tuple=True)] == [[0]]
    assert [index.tolist() for index in mt.where(mt.tensor(False))] == [[]]
    assert mt.nonzero(mt.tensor(3)).shape == (1, 0)
    with pytest.raises(TypeError, match="both input and other"):
        mt.where(mt.tensor(True), mt.ones(1))
    with pytest.raises(RuntimeError, match="without axes"):
        mt.ones(2).index_fill(0, mt.tensor([0]), mt.ones(1))
    with pytest.raises(IndexError, match="0 to 1"):
        mt.ones(2).index_fill(0, mt.tensor([-3]), 1)
    with pytest.raises(RuntimeError, match="int64 or int32, got int16"):
        mt.ones(2).gather(0, mt.tensor([0], dtype=mt.int16))


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 3), (0, 2)])
def test_trace(shape):
    x = mt.randn(*shape, requires_grad=True)
    x.trace().backward()
    assert x.trace().item() == pytest.approx(np.trace(x.detach().numpy()), abs=1e-6)
    assert x.grad.tolist() == np.eye(*shape).tolist()
    assert mt.ones(*shape).int().trace().dtype is mt.int64


@pytest.mark.parametrize(
    ("first", "second", "dim"), [((2, 3), (1, 3), 0), ((2, 3), (2, 1), 1), ((2, 3), (3,), 0)]
)
def test_cosine_similarity_broadcasts_first(first, second, dim):
    x, y = (mt.randn(*s, dtype=mt.float64, requires_grad=True) for s in (first, second))
    a, b = np.broadcast_arrays(x.detach().numpy(), y.detach().numpy())
    lengths = np.sqrt((a * a).sum(dim) * (b * b).sum(dim))
    np.testing.assert_allclose(
        F.cosine_similarity(x, y, dim).detach().numpy(), (a * b).sum(dim) / lengths
    )
    assert mt.autograd.gradcheck(lambda x, y: F.cosine_similarity(x, y, dim), (x, y))
