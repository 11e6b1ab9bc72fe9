"""What PyTorch does at the edges: NaN, booleans, arguments of the wrong kind."""

import pytest

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
