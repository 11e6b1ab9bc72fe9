"""Weights that are computed: parametrize and parametrizations."""

import copy

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, y):
        return y.log()


def test_a_weight_is_computed_and_its_original_trained():
    layer = nn.Linear(3, 3)
    before = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    chain = layer.parametrizations.weight
    assert chain.original is before and [name for name, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.original",
    ]
    assert mt.equal(layer.weight, layer.weight.t()) and layer.weight.grad_fn is not None
    x = mt.randn(2, 3)
    assert mt.equal(layer(x), x @ layer.weight.t() + layer.bias)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(x).square().sum().backward()
    optimizer.step()
    assert mt.equal(layer.weight, layer.weight.t())
    assert before.grad.tril(-1).count_nonzero() == 0
    twin = copy.deepcopy(layer)
    twin.load_state_dict({name: value + 1 for name, value in layer.state_dict().items()})
    assert mt.allclose(twin.weight, layer.weight + 1)
    last = layer.weight.detach()
    assert parametrize.remove_parametrizations(layer, "weight") is layer
    assert type(layer) is nn.Linear and layer.weight is before and mt.equal(layer.weight, last)
    assert [*layer.state_dict()] == ["bias", "weight"] and parametrize.is_parametrized(twin)
    assert mt.equal(twin.weight, twin.weight.t())


def test_chains_assignment_and_the_original():
    layer = nn.Linear(2, 2)
    with mt.no_grad():
        layer.weight.copy_(mt.tensor([[1.0, 2], [3, 4]]))
    parametrize.register_parametrization(layer, "weight", Exp())
    parametrize.register_parametrization(layer, "bias", Exp(), unsafe=True)
    assert mt.allclose(layer.weight, mt.tensor([[1.0, 2], [3, 4]]))
    layer.weight = mt.tensor([[2.0, 2], [2, 5]])
    assert mt.allclose(layer.weight, mt.tensor([[2.0, 2], [2, 5]]))
    assert mt.allclose(layer.parametrizations.weight.original[1, 1], mt.tensor(5.0).log())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert len(layer.parametrizations.weight) == 2
    assert mt.allclose(layer.weight, mt.tensor([[2.0, 2], [2, 5]]))
    with pytest.raises(RuntimeError, match="Symmetric cannot be assigned.*right_inverse"):
        layer.weight = mt.ones(2, 2)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert mt.allclose(layer.weight.exp(), mt.tensor([[2.0, 2], [2, 5]]))
    assert parametrize.is_parametrized(layer, "bias")
    assert not parametrize.is_parametrized(layer, "weight")


def test_a_buffer_and_a_value_computed_once():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return 2 * x

    model = nn.Module()
    model.register_buffer("table", mt.ones(2))
    parametrize.register_parametrization(model, "table", Counted())
    assert [*model.state_dict()] == ["parametrizations.table.original"]
    calls.clear()
    with parametrize.cached():
        with parametrize.cached():
            assert model.table is model.table
        assert model.table.tolist() == [2, 2]
    assert len(calls) == 1
    assert model.table is not model.table and len(calls) == 3
    parametrize.remove_parametrizations(model, "table")
    assert model.table.tolist() == [2, 2] and [*model.state_dict()] == ["table"]


def test_what_cannot_be_computed():
    class Wider(nn.Module):
        def forward(self, x):
            return mt.cat([x, x])

    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="no parameter or buffer 'wait'"):
        parametrize.register_parametrization(layer, "wait", Exp())
    with pytest.raises(ValueError, match=r"shape \(2, 2\).*unsafe.*got \(4, 2\)"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert type(layer) is nn.Linear and layer.weight.is_leaf
    with pytest.raises(ValueError, match="computes no weight 'weight'"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match="leave_parametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


@pytest.mark.parametrize("dim", [0, 1, -2, -1, None])
def test_weight_norm_is_length_times_direction(dim):
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    assert parametrizations.weight_norm(layer, dim=dim) is layer
    chain = layer.parametrizations.weight
    g, v = chain.original0, chain.original1
    axes = {0: 1, 1: 0, -2: 1, -1: None, None: None}[dim]  # -1 is all of it, as in PyTorch
    lengths = np.linalg.norm(before.cpu().numpy(), axis=axes, keepdims=axes is not None)
    assert np.allclose(g.detach().cpu().numpy(), lengths) and mt.allclose(layer.weight, before)
    with mt.no_grad():
        g.mul_(2)
        v.mul_(3)
    assert mt.allclose(layer.weight, 2 * before)
    layer(mt.ones(3)).sum().backward()
    assert g.grad.shape == g.shape and v.grad.shape == v.shape
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and mt.allclose(layer.weight, 2 * before)


def test_spectral_norm_divides_by_the_largest_singular_value():
    for layer, dim in ((nn.Linear(4, 3), None), (nn.Conv1d(2, 3, 2), 1)):
        weight = layer.weight.detach().cpu().numpy()
        matrix = np.moveaxis(weight, dim or 0, 0)
        largest = np.linalg.norm(matrix.reshape(len(matrix), -1), 2)
        parametrizations.spectral_norm(layer, n_power_iterations=50, dim=dim)
        for _ in range(4):
            found = layer.weight
        assert np.allclose(found.detach().cpu().numpy(), weight / largest, atol=1e-5)
        layer.eval()
        assert mt.equal(layer.weight, layer.weight)
        found.sum().backward()
        assert layer.parametrizations.weight.original.grad is not None
        assert {"parametrizations.weight.0._u", "parametrizations.weight.0._v"} < {
            *layer.state_dict()
        }
    layer = nn.Linear(2, 2)
    weight = layer.weight.detach().cpu().numpy()
    norm = parametrizations.spectral_norm(layer).parametrizations.weight[0]
    norm._u, norm._v = mt.tensor([1.0, 0.0]), mt.tensor([0.0, 1.0])
    assert np.allclose(layer.eval().weight.detach().cpu().numpy(), weight / weight[0, 1])
    u = weight[:, 1] / np.linalg.norm(weight[:, 1])
    v = weight.T @ u / np.linalg.norm(weight.T @ u)
    found = layer.train().weight.detach().cpu().numpy()
    assert np.allclose(found, weight / (u @ weight @ v), atol=1e-5)
    assert np.allclose(norm._u.cpu().numpy(), u, atol=1e-5)
    norm = nn.LayerNorm(2)
    parametrizations.spectral_norm(norm)
    assert mt.allclose(norm.weight.norm(), mt.tensor(1.0))
    with pytest.raises(ValueError, match="positive, got 0"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


def test_a_recurrent_layer_runs_with_its_computed_weights():
    layer, x = nn.LSTM(2, 3), mt.randn(4, 1, 2)
    before, _ = layer(x)
    parametrizations.weight_norm(layer, "weight_hh_l0")
    after, _ = layer(x)
    assert mt.allclose(after, before, atol=1e-6)
    chain = layer.parametrizations.weight_hh_l0
    with mt.no_grad():
        chain.original0.mul_(2)
    after, _ = layer(x)
    assert not mt.allclose(after, before, atol=1e-3)
    after.sum().backward()
    assert chain.original0.grad.abs().sum() > 0 and chain.original1.grad.abs().sum() > 0
    parametrize.remove_parametrizations(layer, "weight_hh_l0")
    assert mt.equal(layer(x)[0], after) and not layer._forward_pre_hooks
    layer.weight_hh_l0 = nn.Parameter(layer.weight_hh_l0.detach() / 2)
    assert mt.allclose(layer(x)[0], before, atol=1e-6)
