"""What PyTorch does at the edges: NaN, booleans, arguments of the wrong kind."""

import pytest

import minitorch as mt


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
