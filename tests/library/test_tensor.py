"""Tensors: types, indexing, views, conversions, printing. Expected values are PyTorch's."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import minitorch as mt

DTYPES = {d.name: d for d in (mt.float64, mt.float32, mt.float16, mt.int64, mt.int32, mt.int16)}
DTYPES |= {d.name: d for d in (mt.int8, mt.uint8, mt.bool)}


# Types


def operand(text):
    """``"float32"`` is a tensor of that type with an axis, ``"()float32"`` one without."""
    if isinstance(text, str):
        shape = () if text.startswith("()") else (2,)
        return mt.ones(shape, dtype=DTYPES[text.removeprefix("()")])
    return text


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("float32", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("int64", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("uint8", "int32", "int32"),
        ("bool", "bool", "bool"),
        ("bool", "uint8", "uint8"),
        ("bool", "float32", "float32"),
        ("float32", "()float64", "float32"),
        ("()float32", "float64", "float64"),
        ("()float32", "()float64", "float64"),
        ("int64", "()float32", "float32"),
        ("int64", "()float64", "float64"),
        ("int32", "()int64", "int32"),
        ("bool", "()int32", "int32"),
        ("float16", "()float32", "float16"),
        ("float32", "()int64", "float32"),
        ("()int64", "()float32", "float32"),
        ("float32", 1, "float32"),
        ("float32", 1.5, "float32"),
        ("float64", 1.5, "float64"),
        ("float16", 1.5, "float16"),
        ("int64", 1, "int64"),
        ("int64", 1.5, "float32"),
        ("int32", 2, "int32"),
        ("uint8", 1, "uint8"),
        ("int8", 2.5, "float32"),
        ("bool", True, "bool"),
        ("bool", 1, "int64"),
        ("bool", 1.5, "float32"),
        ("()int64", 1.5, "float32"),
        ("()float64", 1.5, "float64"),
        ("float32", np.float64(1.5), "float32"),
        ("int64", np.int64(1), "int64"),
    ],
)
def test_type_promotion(left, right, result):
    for function in (mt.add, mt.mul):
        assert function(operand(left), operand(right)).dtype is DTYPES[result]
        assert function(operand(right), operand(left)).dtype is DTYPES[result]


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("int64", "int64", "float32"),
        ("int64", 2, "float32"),
        ("bool", "bool", "float32"),
        ("int64", "float64", "float64"),
        ("float16", "int64", "float16"),
        ("float64", 2, "float64"),
    ],
)
def test_division_gives_floating_point(left, right, result):
    assert (operand(left) / operand(right)).dtype is DTYPES[result]


def test_types_of_results():
    integers, small = mt.arange(4), mt.arange(4).to(mt.uint8)
    flags = integers > 1
    assert flags.dtype is mt.bool
    for total in (flags.sum(), small.sum(), flags.cumsum(0), small.prod(), flags.prod()):
        assert total.dtype is mt.int64
    assert integers.sum(dtype=mt.float32).dtype is mt.float32
    assert integers.argmax().dtype is integers.max(0).indices.dtype is mt.int64
    for function in (mt.exp, mt.sqrt, mt.tanh, mt.sigmoid):
        assert function(integers).dtype is function(flags).dtype is mt.float32
    assert (integers**2).dtype is (2**integers).dtype is mt.int64
    assert (integers**0.5).dtype is mt.float32
    assert integers.clamp(1, 2).dtype is mt.int64
    assert integers.clamp(max=1.5).dtype is mt.float32
    assert mt.where(flags, mt.zeros(4), 1).dtype is mt.float32
    assert mt.where(flags, integers, 0.5).dtype is mt.float32
    assert mt.where(flags, 1.0, np.float64(0)).dtype is mt.float32
    assert mt.where(flags, 1, 0).dtype is mt.int64
    assert (integers // 2).dtype is (integers % 2).dtype is mt.int64
    assert mt.cat([integers, mt.zeros(1)]).dtype is mt.float32


@pytest.mark.parametrize("name", ["mean", "var", "std", "norm"])
def test_statistics_of_integers_are_refused(name):
    with pytest.raises(RuntimeError, match="floating-point.*int64"):
        getattr(mt.arange(3), name)()


def test_negative_power_of_integers_is_refused():
    with pytest.raises(RuntimeError, match=r"\.float\(\)"):
        mt.arange(3) ** -1


def test_floor_division_and_remainder_round_down():
    x = mt.tensor([-7, 7])
    assert (x // 2).tolist() == [-4, 3] and (x % 3).tolist() == [2, 1]
    assert (7 // mt.tensor([-2])).tolist() == [-4]


def test_integers_divided_by_zero_are_refused():
    x, zero = mt.tensor([1, 2]), mt.tensor([1, 0])
    for call in (lambda: x // 0, lambda: x % zero, lambda: 3 // zero):
        with pytest.raises(RuntimeError, match="divided by zero"):
            call()
    assert str((x.float() // 0).tolist()) == "[inf, inf]"
    assert (mt.zeros(0).long() // mt.zeros(0).long()).shape == (0,)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([1.0, 2.0], mt.float32),
        ([1, 2.5], mt.float32),
        ([], mt.float32),
        (3, mt.int64),
        ([True, False], mt.bool),
        (np.zeros(2), mt.float64),
        (np.float64(1), mt.float64),
        (np.zeros(2, dtype=np.int32), mt.int32),
    ],
)
def test_type_of_new_tensors(data, expected):
    assert mt.tensor(data).dtype is expected


def test_types_without_a_name_are_refused():
    for data in (np.zeros(2, dtype=complex), np.array(["a"]), np.zeros(2, dtype=np.uint64)):
        with pytest.raises(TypeError, match="float32.*got data of type"):
            mt.tensor(data)
    with pytest.raises(ValueError, match="same length"):
        mt.tensor([[1], [1, 2]])


@pytest.mark.cpu
def test_tensor_copies_and_from_numpy_shares():
    array = np.zeros(2, dtype=np.float32)
    copied, shared = mt.tensor(array), mt.from_numpy(array)
    array[0] = 1
    assert copied.tolist() == [0, 0] and shared.tolist() == [1, 0]
    assert mt.as_tensor(array).numpy() is array


def test_numpy_arrays_are_not_operands():
    with pytest.raises(TypeError, match=r"shape \(2,\).*minitorch\.tensor"):
        mt.zeros(2) + np.zeros(2)
    with pytest.raises(TypeError):
        np.zeros(2) + mt.zeros(2)
    assert np.asarray(mt.ones(2)).tolist() == [1, 1]


# Indexing


@pytest.fixture
def block():
    return mt.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pick", "shape"),
    [
        (lambda x, i: x[0], (3, 4)),
        (lambda x, i: x[0, :, i], (3, 2)),
        (lambda x, i: x[:, 0, i], (2, 2)),
        (lambda x, i: x[0, ..., i], (3, 2)),
        (lambda x, i: x[i, 0], (2, 4)),
        (lambda x, i: x[i, :, 0], (2, 3)),
        (lambda x, i: x[i, :, i], (2, 3)),
        (lambda x, i: x[0, i, i], (2,)),
        (lambda x, i: x[0, :, i, None], (3, 2, 1)),
        (lambda x, i: x[mt.tensor(0), :, i], (3, 2)),
        (lambda x, i: x[i.reshape(1, 2)], (1, 2, 3, 4)),
        (lambda x, i: x[..., None], (2, 3, 4, 1)),
        (lambda x, i: x[None, 0, ..., 1:3], (1, 3, 2)),
        (lambda x, i: x[:, -1, ::2], (2, 2)),
        (lambda x, i: x[[0, 1], [2, 0]], (2, 4)),
        (lambda x, i: x[x > 20], (3,)),
        (lambda x, i: x[0, x[0] > 5], (6,)),
        (lambda x, i: x[:, mt.tensor([True, False, True])], (2, 2, 4)),
        (lambda x, i: x[5:], (0, 3, 4)),
        (lambda x, i: x[1, 2, 3], ()),
    ],
)
def test_shape_of_an_indexed_tensor(block, pick, shape):
    assert pick(block, mt.tensor([1, 0])).shape == shape


def test_values_of_an_integer_beside_an_array(block):
    index = mt.tensor([3, 1])
    assert block[1, :, index].tolist() == [[15, 13], [19, 17], [23, 21]]
    y = block.float().requires_grad_()
    y[1, :, index].sum().backward()
    expected = np.zeros((2, 3, 4))
    expected[1][:, [3, 1]] = 1
    assert y.grad.tolist() == expected.tolist()


def test_assignment_with_an_integer_beside_an_array(block):
    block[0, :, mt.tensor([0, 2])] = mt.tensor([[-1, -2]])
    assert block[0].tolist() == [[-1, 1, -2, 3], [-1, 5, -2, 7], [-1, 9, -2, 11]]


def test_repeated_positions_add_their_gradients():
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    (x[mt.tensor([0, 0, 1, 0])] * mt.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [7.0, 3.0]


def test_bad_indices():
    x = mt.zeros(2, 3)
    for index in (2, -3, (0, 3), (0, 0, 0), mt.tensor([5])):
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(ValueError, match=r"step must be positive.*flip"):
        x[::-1]
    with pytest.raises(IndexError, match="between -2 and 1.*got 2"):
        x.sum(2)


def test_assignment_to_a_tensor_without_axes():
    x = mt.tensor(1.0)
    x[...] = 2
    assert x.item() == 2
    x = mt.tensor(1.0, requires_grad=True)
    y = x * 1
    y[...] = x * 3
    y.backward()
    assert y.item() == 3 and x.grad.item() == 3


def test_assignment_broadcasts_and_converts():
    x = mt.zeros(2, 3)
    x[0] = 1
    x[:, 1] = mt.tensor([5, 6])
    x[x == 0] = -1.0
    assert x.tolist() == [[1.0, 5.0, 1.0], [-1.0, 6.0, -1.0]]
    with pytest.raises((RuntimeError, ValueError), match=r"\(2,\)"):
        x[0] = mt.zeros(2)


# Views


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[0],
        lambda x: x[0, 0],
        lambda x: x[:, 1:],
        lambda x: x.reshape(6),
        lambda x: x.view(3, 2),
        lambda x: x.T,
        lambda x: x.transpose(0, 1),
        lambda x: x.permute(1, 0),
        lambda x: x.unsqueeze(0),
        lambda x: x[None].squeeze(0),
        lambda x: x.flatten(),
        lambda x: x.expand(4, 2, 3),
        lambda x: x.split(1)[0],
        lambda x: x.chunk(2)[0],
        lambda x: x.unbind()[0],
        lambda x: list(x[0])[0],
        lambda x: x.detach(),
        lambda x: x.data,
    ],
)
def test_views_share_memory(make):
    x = mt.zeros(2, 3)
    x[0, 0] = 7
    view = make(x)
    x[0] = 1
    assert (view == 1).any() and not (view == 7).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.clone(),
        lambda x: x[mt.tensor([0])],
        lambda x: x[x > -1],
        lambda x: x.flip(0),
        lambda x: x.T.contiguous(),
        lambda x: x.T.reshape(6),
        lambda x: x.repeat(1, 1),
        lambda x: x.to(mt.float64),
    ],
)
def test_copies_share_none(make):
    x = mt.zeros(2, 3)
    copied = make(x)
    x += 1
    assert not copied.any()


def test_view_refuses_to_copy():
    x = mt.zeros(2, 3)
    with pytest.raises(RuntimeError, match=r"\(3, 2\).*strides \(1, 3\).*reshape"):
        x.T.view(6)
    with pytest.raises(RuntimeError, match=r"\(4,\).*6 elements"):
        x.view(4)
    with pytest.raises(RuntimeError, match=r"\(4,\).*6 elements"):
        x.reshape(4)


def test_strides():
    x = mt.zeros(2, 3)
    assert x.stride() == (3, 1) and x.T.stride() == (1, 3)
    assert x.is_contiguous() and not x.T.is_contiguous() and x.T.contiguous().is_contiguous()
    assert x.contiguous() is x


def test_narrow_stays_within_the_tensor():
    x = mt.arange(4)
    assert x.narrow(0, 1, 2).tolist() == [1, 2] and x.narrow(0, -1, 1).tolist() == [3]
    for start, length in [(2, 3), (-5, 2), (0, -1), (5, 0)]:
        with pytest.raises(RuntimeError, match="narrow.*size 4 of dim 0"):
            x.narrow(0, start, length)


def test_shapes_of_empty_tensors():
    x = mt.zeros(0, 3, 2)
    assert x.flatten(1).shape == (0, 6)
    assert x.sum(0).tolist() == [[0, 0]] * 3
    assert x.reshape(0, 7).shape == (0, 7)
    assert (x @ mt.zeros(2, 5)).shape == (0, 3, 5)
    assert (mt.zeros(2, 0) @ mt.zeros(0, 3)).tolist() == [[0] * 3] * 2
    assert list(x) == []


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mt.zeros(2, 3) + mt.zeros(4), r"add.*\(2, 3\), \(4,\)"),
        (lambda: mt.zeros(2, 3) @ mt.zeros(2, 3), r"\(2, 3\) and \(2, 3\).*3 and 2"),
        (lambda: mt.zeros(2) @ mt.tensor(1.0), "at least one axis"),
        (lambda: mt.cat([mt.zeros(2, 3), mt.zeros(2, 2)]), r"\(2, 3\), \(2, 2\)"),
        (lambda: mt.stack([]), "at least one tensor"),
        (lambda: mt.stack([mt.zeros(2), mt.zeros(3)]), r"\(2,\), \(3,\)"),
        (lambda: mt.zeros(2, 3).expand(2, 4), r"\(2, 3\) cannot become \(2, 4\)"),
        (lambda: mt.zeros(2, 3).permute(0, 0), r"each of 2 axes once.*\(0, 0\)"),
        (lambda: mt.zeros(3).split([1, 1]), "add up to 2.*3"),
        (lambda: mt.zeros(3).split(0), "positive"),
        (lambda: mt.zeros(3).topk(4), "between 0 and 3.*got 4"),
        (lambda: mt.zeros(3).gather(0, mt.zeros(1, 1).long()), "1 axes, got 2"),
        (lambda: mt.zeros(3).masked_fill(mt.zeros(3), 1), "bool.*float32"),
        (lambda: mt.einsum("ij,jk->ik", mt.zeros(2, 2)), "2 operands, 1"),
        (lambda: mt.einsum("ij->i", mt.zeros(2)), r"'ij'.*\(2,\)"),
        (lambda: mt.zeros(2).item(), "one element.*2"),
        (lambda: bool(mt.zeros(2)), r"2 elements.*any\(\)"),
        pytest.param(
            lambda: mt.zeros(2, requires_grad=True).numpy(),
            r"detach\(\)\.numpy\(\)",
            marks=pytest.mark.cpu,
        ),
        (lambda: mt.zeros(2, 2, 2).t(), "at most 2 axes, got 3"),
    ],
)
def test_errors_tell_the_shapes(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_errors_of_tensors_without_axes():
    for call in (len, list):
        with pytest.raises(TypeError, match="without axes"):
            call(mt.tensor(1.0))
    with pytest.raises(TypeError, match="integer.*float32"):
        [1, 2][mt.tensor(1.0)]
    assert [1, 2][mt.tensor(1)] == 2


def test_unknown_attributes_are_missing():
    with pytest.raises(AttributeError):
        mt.zeros(2).backwards()
    with pytest.raises(AttributeError):
        mt.not_there  # noqa: B018


@pytest.mark.cpu
def test_devices():
    x = mt.zeros(2)
    assert x.device == mt.device("cpu") and str(x.device) == "cpu" and not x.is_cuda
    assert x.to("cpu") is x and x.cpu() is x and x.to(mt.float32) is x
    with pytest.raises(RuntimeError, match="'cpu', 'cuda' or 'cuda:N'.*'gpu'"):
        mt.zeros(2, device="gpu")


# Python's protocols


def test_iteration_and_unpacking():
    x = mt.arange(6.0).reshape(3, 2).requires_grad_()
    first, _, third = x
    (first * third).sum().backward()
    assert x.grad.tolist() == [[4, 5], [0, 0], [0, 1]]
    assert len(x) == 3 and 4.0 in x and 9.0 not in x
    assert list(mt.zeros(0, 2).requires_grad_()) == []


def test_numbers():
    assert float(mt.tensor([2.5])) == 2.5 and int(mt.tensor(3)) == 3
    assert f"{mt.tensor(1.23456):.2f}" == "1.23"
    assert mt.tensor(True) and not mt.tensor([0.0])


def test_hash_is_identity():
    x, y = mt.zeros(2), mt.zeros(2)
    assert len({x, y, x}) == 2


def test_size():
    x = mt.zeros(2, 3)
    assert x.shape == (2, 3) == x.size() and x.size(-1) == 3 and x.numel() == 6 and x.dim() == 2
    assert repr(x.shape) == "minitorch.Size([2, 3])" and x.shape.numel() == 6
    batch, width = x.shape
    assert (batch, width) == (2, 3)


def test_deepcopy():
    x = mt.tensor([1.0], requires_grad=True)
    (x * 2).sum().backward()
    twin = copy.deepcopy(x)
    twin.grad += 1
    with mt.no_grad():
        twin += 1
    assert (x.item(), x.grad.item(), twin.item(), twin.grad.item()) == (1, 2, 2, 3)
    assert twin.requires_grad
    with pytest.raises(RuntimeError, match="detach"):
        copy.deepcopy(x * 2)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (mt.tensor(3.0), "tensor(3.)"),
        (mt.tensor([1.0, -2.0]), "tensor([ 1., -2.])"),
        (mt.tensor([1.5, 22.25]), "tensor([ 1.5000, 22.2500])"),
        (mt.tensor([1, 20]), "tensor([ 1, 20])"),
        (mt.tensor([True, False]), "tensor([ True, False])"),
        (mt.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
        (mt.tensor([1e-6, 1.0]), "tensor([1.0000e-06, 1.0000e+00])"),
        (mt.tensor([float("nan"), 1.5]), "tensor([   nan, 1.5000])"),
        (mt.tensor([float("-inf"), 1.5]), "tensor([  -inf, 1.5000])"),
        (mt.zeros(0), "tensor([])"),
        (mt.zeros(0, 3), "tensor([], size=(0, 3))"),
        (mt.zeros(2, dtype=mt.float64), "tensor([0., 0.], dtype=minitorch.float64)"),
        (mt.zeros(2, requires_grad=True), "tensor([0., 0.], requires_grad=True)"),
        (mt.zeros(1, requires_grad=True) * 2, "tensor([0.], grad_fn=<mul backward>)"),
    ],
)
def test_printing(value, text):
    assert repr(value) == text


def test_printing_of_large_tensors_is_short():
    text = repr(mt.arange(100_000).reshape(100, 1000))
    assert "..." in text and text.count("\n") < 10 and "99999" in text


# Extremes


def test_functions_at_the_edges_of_their_range():
    x = mt.tensor([-1e4, 0.0, 1e4], requires_grad=True)
    np.testing.assert_allclose(x.sigmoid().tolist(), [0, 0.5, 1], atol=1e-30)
    softplus = mt.nn.functional.softplus(x)
    np.testing.assert_allclose(softplus.tolist(), [0, np.log(2), 1e4], rtol=1e-6)
    (x.sigmoid() + x.tanh() + softplus + mt.nn.functional.silu(x)).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [0, 0.25 + 1 + 0.5 + 0.5, 2], atol=1e-6)
    assert mt.softmax(x.detach(), 0).tolist() == [0, 0, 1]
    assert mt.log_softmax(x.detach(), 0).tolist() == [-2e4, -1e4, 0]
    assert mt.logsumexp(x.detach(), 0).item() == 1e4


def test_infinities_arise_without_a_warning():
    program = """
import numpy as np, minitorch as mt
x = mt.tensor([1e38, -1e38, mt.inf, 0.0], requires_grad=True)
y = x * x + x / 0 - x.exp() @ x + x.sin() + mt.nn.functional.layer_norm(x, (4,)) + x.cumsum(0)
y.sum().backward()
(x * mt.nan).long()
try:
    np.float32([3e38]) * np.float32([3e38])
except RuntimeWarning:
    print("NumPy warns")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert (done.stderr, done.stdout) == ("", "NumPy warns\n")


def test_division_by_zero():
    x = mt.tensor([1.0, -1.0, 0.0])
    assert str((x / 0).tolist()) == "[inf, -inf, nan]"
    assert str(mt.log(x).tolist()) == "[0.0, nan, -inf]"


def test_relu_of_infinities():
    x = mt.tensor([-mt.inf, mt.inf, mt.nan])
    assert str(x.relu().tolist()) == "[0.0, inf, nan]"
    assert mt.tensor([-1, 2]).relu().dtype is mt.int64


def test_rows_of_minus_infinity():
    low = mt.full((2,), -mt.inf)
    assert mt.logsumexp(low, 0).item() == -mt.inf
    assert mt.softmax(low, 0).isnan().all()
    mixed = mt.tensor([[0.0, -mt.inf], [-mt.inf, 0.0]], requires_grad=True)
    p = mt.softmax(mixed, 1)
    assert p.tolist() == [[1, 0], [0, 1]]
    p[0, 0].backward()
    assert mixed.grad.tolist() == [[0, 0], [0, 0]]


def test_extremes_and_ties():
    x = mt.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], requires_grad=True)
    values, indices = x.max(dim=1)
    assert values.tolist() == [3, 2] and indices.tolist() == [1, 0]
    values.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [1, 0, 0]]
    x.grad = None
    x.amax(1).sum().backward()
    assert x.grad.tolist() == [[0, 0.5, 0.5], [0.5, 0.5, 0]]
    assert mt.max(mt.tensor([1, 5]), mt.tensor([3, 2])).tolist() == [3, 5]


def test_sorting_is_stable():
    x = mt.tensor([2, 1, 2, 1])
    assert x.argsort().tolist() == [1, 3, 0, 2]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1, 3]
    values, indices = mt.tensor([1.0, 9.0, 5.0]).topk(2)
    assert values.tolist() == [9, 5] and indices.tolist() == [1, 2]


def test_shapes_that_do_not_fit_are_told_in_words():
    text = r"of two axes that meet, both sizes must be equal or one of them 1"
    with pytest.raises(RuntimeError, match=rf"mul of shapes \[\(2, 3\), \(2,\)\]: {text}"):
        mt.ones(2, 3) * mt.ones(2)
    with pytest.raises(RuntimeError, match=text):
        mt.ones(1, 2, 2, 2) @ mt.ones(1, 3, 2, 2)


def test_sizes_are_integers():
    assert mt.zeros(6).view(mt.tensor(2), 3).shape == mt.zeros((np.int64(2), 3)).shape == (2, 3)
    for use in (mt.ones(4).reshape, mt.ones(4).view, mt.zeros):
        with pytest.raises(TypeError, match=r"sizes are integers; got \(2, 2.0\)"):
            use(2, 4 / 2)
