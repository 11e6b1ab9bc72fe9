"""Modules: attributes, walking, saving, layers, initial values."""

import copy
import math

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(3, 1, bias=False))
        self.scale = nn.Parameter(mt.ones(1))
        self.register_buffer("count", mt.zeros(2))
        self.register_buffer("mask", mt.ones(2), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


KEYS = ["scale", "count", "first.weight", "first.bias", "rest.1.weight"]


def test_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [k for k in KEYS if k != "count"]
    assert [n for n, _ in net.named_buffers()] == ["count", "mask"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert list(net.state_dict()) == KEYS
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert net.rest[1].weight.shape == (1, 3) and net.first.weight.shape == (3, 2)


def test_shared_parameters_are_counted_once_and_saved_twice():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_attributes():
    net = Net()
    assert net.count is net._buffers["count"]
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'cuont'"):
        net.cuont  # noqa: B018
    with pytest.raises(TypeError, match=r"a Tensor as Net\.scale.*parameters"):
        net.scale = mt.ones(1)
    with pytest.raises(TypeError, match=r"a int as Net\.first.*modules"):
        net.first = 3
    net.count = mt.ones(2)
    assert list(net._buffers) == ["count", "mask"] and net.count.tolist() == [1, 1]
    net.first = None
    assert net.first is None and [n for n, _ in net.named_children()] == ["rest"]
    del net.scale
    assert not hasattr(net, "scale") and "scale" not in net.state_dict()
    net.note = mt.ones(1)
    assert "note" not in net.state_dict()


def test_super_init_must_come_first():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"layer before Module\.__init__\(\) call.*Early"):
        Early()


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match=r"\[Module\] does not define"):
        nn.Module()(1)


def test_training_mode_reaches_all():
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.9)))
    x = mt.ones(50)
    assert not mt.equal(net(x), x)
    assert net.eval() is net and not net[1][0].training
    assert net(x) is x
    assert net.train()[1][0].training


def test_apply_visits_children_first():
    visited = []
    net = Net()
    assert net.apply(lambda m: visited.append(type(m).__name__)) is net
    assert visited == ["Linear", "Tanh", "Linear", "Sequential", "Net"]


def test_zero_grad_and_freezing():
    net = Net()
    net(mt.ones(4, 2)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.first.requires_grad_(False)
    net(mt.ones(4, 2)).sum().backward()
    assert net.first.weight.grad is None and net.scale.grad is not None


def test_types_of_a_module():
    net = Net()
    weight = net.first.weight
    assert net.double() is net and net.first.weight is weight
    assert weight.dtype is mt.float64 and net.count.dtype is mt.float64 and weight.requires_grad
    net.register_buffer("steps", mt.tensor([3]))
    assert net.float().steps.dtype is mt.int64 and net.scale.dtype is mt.float32


def test_state_dict_goes_from_one_module_to_another():
    first, second = Net(), Net()
    x = mt.ones(4, 2)
    assert not mt.equal(first(x), second(x))
    kept = second.first.weight
    result = second.load_state_dict(first.state_dict())
    assert mt.equal(first(x), second(x)) and second.first.weight is kept
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    with mt.no_grad():
        first.scale += 1
    assert second.scale.item() == 1, "the values must be copied"


def test_state_dict_shares_memory_and_needs_no_gradient():
    net = Net()
    state = net.state_dict()
    assert not any(value.requires_grad for value in state.values())
    with mt.no_grad():
        net.scale += 1
    assert state["scale"].item() == 2


def test_load_state_dict_names_every_problem_and_changes_nothing():
    net = Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = {name: value.clone() + 1 for name, value in before.items()}
    state["first.weight"] = mt.zeros(3, 5)
    del state["scale"]
    state["extra"] = mt.zeros(1)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    for part in (
        "Error(s) in loading state_dict for Net:",
        'Missing key(s) in state_dict: "scale"',
        'Unexpected key(s) in state_dict: "extra"',
        "size mismatch for first.weight",
        "(3, 5)",
        "(3, 2)",
    ):
        assert part in str(caught.value)
    assert all(mt.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(RuntimeError, match="first.weight"):
        net.load_state_dict(state, strict=False)
    del state["first.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "first.weight"]
    assert result.unexpected_keys == ["extra"]
    assert mt.equal(net.first.bias, before["first.bias"] + 1)


def test_load_state_dict_converts_the_type():
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": mt.ones(1, 2, dtype=mt.float64), "bias": mt.zeros(1)})
    assert net.weight.dtype is mt.float32 and net.weight.tolist() == [[1, 1]]


def test_deepcopy_of_a_module():
    net = Net()
    net(mt.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(net)
    assert isinstance(twin.scale, nn.Parameter) and twin.scale is not net.scale
    assert twin.rest[1].weight.requires_grad
    x = mt.ones(4, 2)
    assert mt.equal(twin(x), net(x))
    with mt.no_grad():
        twin.scale += 1
        twin.count += 1
    twin.scale.grad.zero_()
    assert net.scale.item() == 1 and not net.count.any() and net.scale.grad.any()
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    twin = copy.deepcopy(tied)
    assert twin[1].weight is twin[0].weight and twin[0].weight is not tied[0].weight


@pytest.mark.cpu
def test_repr():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Sequential(nn.Tanh(), nn.Dropout(0.1))) == (
        "Sequential(\n  (0): Tanh()\n  (1): Dropout(p=0.1, inplace=False)\n)"
    )
    assert repr(nn.Parameter(mt.ones(1))) == (
        "Parameter containing:\ntensor([1.], requires_grad=True)"
    )


def test_containers():
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(net) == 3 and isinstance(net[-1], nn.Linear) and len(net[:2]) == 2
    assert [type(m).__name__ for m in net] == ["Linear", "ReLU", "Linear"]
    named = nn.Sequential({"in": nn.Linear(1, 2), "out": nn.Linear(2, 1)})
    assert list(named.state_dict()) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.append(nn.Linear(1, 1)).extend([nn.Tanh()])
    layers[-1] = nn.Linear(1, 1, bias=False)
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight"]
    assert len(layers[1:]) == 2


# Layers


def test_linear():
    layer = nn.Linear(3, 2)
    x = mt.randn(4, 5, 3)
    expected = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match=r"in_features=3.*\(32, 64\): last dimension must be 3"):
        layer(mt.zeros(32, 64))


def test_layer_norm():
    layer = nn.LayerNorm(8)
    y = layer(mt.randn(3, 8) * 5 + 2)
    np.testing.assert_allclose(y.mean(-1).tolist(), [0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(y.var(-1, unbiased=False).tolist(), [1, 1, 1], rtol=1e-4)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert not nn.LayerNorm((2, 3), elementwise_affine=False).state_dict()
    assert list(nn.LayerNorm(2, bias=False).state_dict()) == ["weight"]


def test_embedding():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4 and not layer.weight[4].any()
    assert layer(mt.tensor([[1, 4]])).shape == (1, 2, 3)
    with pytest.raises(AssertionError, match="5 rows, got 5"):
        nn.Embedding(5, 3, padding_idx=5)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_rnn_is_its_cells(bidirectional, bias, nonlinearity):
    """Every layer and direction by hand, one step after the other."""
    mt.manual_seed(0)
    rnn = nn.RNN(3, 4, 2, nonlinearity, bias=bias, bidirectional=bidirectional)
    directions = 2 if bidirectional else 1
    x, h0 = mt.randn(5, 2, 3), mt.randn(2 * directions, 2, 4)
    output, hidden = rnn(x, h0)
    state = rnn.state_dict()
    activation = np.tanh if nonlinearity == "tanh" else lambda a: np.maximum(a, 0)
    below, last = x.numpy(), []
    for layer in range(2):
        runs = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if bias else 2]
            w_ih, w_hh, *b = (state.pop(kind + suffix).numpy() for kind in kinds)
            h, states = h0[layer * directions + direction].numpy(), []
            for x_t in below[::-1] if direction else below:
                h = activation(x_t @ w_ih.T + h @ w_hh.T + sum(b))
                states.append(h)
            last.append(h)
            runs.append(np.stack(states[::-1] if direction else states))
        below = np.concatenate(runs, axis=-1)
    assert not state, "parameters under unknown names"
    np.testing.assert_allclose(output.detach().numpy(), below, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(hidden.detach().numpy(), np.stack(last), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.Tanh(), mt.tanh),
        (nn.Sigmoid(), mt.sigmoid),
        (nn.ReLU(), mt.relu),
        (nn.SiLU(), nn.functional.silu),
        (nn.GELU(), nn.functional.gelu),
        (nn.GELU("tanh"), lambda x: nn.functional.gelu(x, approximate="tanh")),
        (nn.Softmax(dim=0), lambda x: x.softmax(0)),
        (nn.LogSoftmax(dim=1), lambda x: x.log_softmax(1)),
        (nn.Identity(), lambda x: x),
        (nn.Flatten(0), lambda x: x.reshape(-1)),
    ],
)
def test_modules_of_functions(module, function):
    x = mt.tensor([[-1.0, 0.5], [2.0, 0.0]])
    assert mt.equal(module(x), function(x))


def test_losses_as_modules():
    mt.manual_seed(0)
    scores, target = mt.randn(4, 3), mt.tensor([0, 2, 1, -1])
    weight = mt.tensor([1.0, 2.0, 3.0])
    for module, function in (
        (nn.CrossEntropyLoss, nn.functional.cross_entropy),
        (nn.NLLLoss, nn.functional.nll_loss),
    ):
        options = {"weight": weight, "ignore_index": -1, "reduction": "sum"}
        assert mt.equal(module(**options)(scores, target), function(scores, target, **options))
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-1)
    expected = nn.functional.cross_entropy(scores, target, label_smoothing=0.1, ignore_index=-1)
    assert smooth(scores, target).item() == expected.item()
    x, y = mt.rand(5), mt.rand(5)
    assert nn.MSELoss()(x, y).item() == pytest.approx(((x - y) ** 2).mean().item())
    assert nn.BCEWithLogitsLoss(reduction="none")(x, y).shape == (5,)


# Completeness of Module


def test_several_base_classes():
    class Counting:
        def __init__(self):
            super().__init__()
            self.count = 0

    class Both(Counting, nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

    both = Both()
    assert both.count == 0 and list(both.state_dict()) == ["layer.weight", "layer.bias"]


def test_registering_bad_names_and_values():
    layer = nn.Linear(1, 1)
    layer.taken = 3
    for error, call in [
        (KeyError, lambda: layer.register_buffer("weight", mt.zeros(1))),
        (KeyError, lambda: layer.register_buffer("a.b", mt.zeros(1))),
        (KeyError, lambda: layer.register_buffer("", mt.zeros(1))),
        (KeyError, lambda: layer.register_buffer("forward", mt.zeros(1))),
        (TypeError, lambda: layer.register_buffer("b", 3)),
        (TypeError, lambda: layer.register_parameter("b", mt.zeros(1))),
        (KeyError, lambda: layer.register_parameter("taken", nn.Parameter(mt.zeros(1)))),
        (TypeError, lambda: layer.add_module("b", 3)),
        (TypeError, lambda: layer.add_module(3, nn.ReLU())),
        (ValueError, lambda: layer.train(3)),
        (TypeError, lambda: layer.load_state_dict([1])),
        (TypeError, lambda: layer.to(mt.int64)),
    ]:
        with pytest.raises(error):
            call()
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_found_by_dotted_names():
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_submodule("") is net
    assert net.get_parameter("rest.1.weight") is net.rest[1].weight
    assert net.get_buffer("count") is net.count
    for call in (
        lambda: net.get_submodule("rest.7"),
        lambda: net.get_submodule("scale"),
        lambda: net.get_parameter("count"),
        lambda: net.get_buffer("scale"),
    ):
        with pytest.raises(AttributeError):
            call()
    assert {"first", "scale", "count", "forward"} <= set(dir(net))


def test_what_is_shared_is_walked_once_and_saved_by_every_name():
    layer = nn.Linear(1, 1)
    net = nn.Sequential(layer, layer)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(list(net.parameters())) == 2 and len(list(net.children())) == 1
    assert [n for n, _ in net.named_modules()] == ["", "0"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert [n for n, _ in net.named_parameters("x")][0] == "x.0.weight"
    x = mt.ones(1, 1)
    assert mt.equal(net(x), layer(layer(x)))
    tied = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 3, bias=False))
    tied[1].weight = tied[0].weight
    twin = copy.deepcopy(tied)
    assert twin[1].weight is twin[0].weight and twin[0].weight is not tied[0].weight


def test_state_dict_with_prefix_and_variables():
    layer = nn.Linear(1, 1)
    assert list(layer.state_dict(prefix="a.")) == ["a.weight", "a.bias"]
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight
    assert not layer.state_dict()["weight"].requires_grad
    assert repr(layer.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"


def test_moving_keeps_integers_and_takes_gradients_along():
    layer = nn.BatchNorm1d(2)
    weight = layer.weight
    layer(mt.randn(3, 2)).sum().backward()
    layer.half()
    assert layer.weight is weight and weight.dtype is mt.float16
    assert weight.grad.dtype is mt.float16 and layer.running_mean.dtype is mt.float16
    assert layer.num_batches_tracked.dtype is mt.int64
    assert layer.to(mt.zeros(1).double()).weight.dtype is mt.float64


def test_hooks_see_and_change_what_passes():
    layer, seen = nn.Linear(2, 3), []
    handle = layer.register_forward_hook(lambda m, inputs, output: seen.append((inputs, output)))
    x = mt.ones(1, 2)
    y = layer(x)
    assert seen[0][0][0] is x and seen[0][1] is y
    handle.remove()
    handle.remove()
    layer(x)
    assert len(seen) == 1
    layer.register_forward_pre_hook(lambda m, inputs: inputs[0] * 0)
    layer.register_forward_hook(lambda m, inputs, output: output + 1)
    assert mt.allclose(layer(x)[0], layer.bias + 1)


# Initial values


def test_layers_start_within_their_bounds():
    mt.manual_seed(0)
    for tensor, bound in (
        (nn.Linear(100, 50).weight, 0.1),
        (nn.Linear(100, 50).bias, 0.1),
        (nn.RNN(3, 64).weight_ih_l0, 1 / 8),
    ):
        assert bound * 0.9 < tensor.abs().max().item() <= bound
    assert abs(nn.Embedding(100, 50).weight.std().item() - 1) < 0.05


def test_initial_distributions():
    mt.manual_seed(0)
    w = mt.empty(300, 100, requires_grad=True)
    bounds = {
        nn.init.xavier_uniform_: math.sqrt(6 / 400),
        nn.init.kaiming_uniform_: math.sqrt(2) * math.sqrt(3 / 100),
    }
    for fill, bound in bounds.items():
        assert fill(w) is w and 0.99 * bound < w.abs().max().item() <= bound
    spreads = {
        nn.init.xavier_normal_: math.sqrt(2 / 400),
        nn.init.kaiming_normal_: math.sqrt(2 / 100),
        nn.init.normal_: 1.0,
    }
    for fill, std in spreads.items():
        assert fill(w).std().item() == pytest.approx(std, rel=0.02)
    nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu")
    assert w.std().item() == pytest.approx(math.sqrt(2 / 300), rel=0.02)
    assert w.is_leaf and w.requires_grad
    assert nn.init.constant_(w, 3.0)[0, 0].item() == 3
    assert not nn.init.zeros_(w).any() and nn.init.ones_(w).all()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_orthogonal(shape):
    w = nn.init.orthogonal_(mt.empty(*shape, dtype=mt.float64), gain=2.0).numpy()
    product = w @ w.T if shape[0] <= shape[1] else w.T @ w
    np.testing.assert_allclose(product, 4 * np.eye(min(shape)), atol=1e-12)


def test_gains():
    gain = nn.init.calculate_gain
    assert gain("tanh") == 5 / 3 and gain("relu") == math.sqrt(2) and gain("linear") == 1
    assert gain("leaky_relu", 0.2) == pytest.approx(math.sqrt(2 / 1.04))
    with pytest.raises(ValueError, match="tanh.*'swish'"):
        gain("swish")
    with pytest.raises(ValueError, match=r"2 axes.*\(3,\)"):
        nn.init.xavier_uniform_(mt.empty(3))


def test_eye_and_truncated_normal():
    assert nn.init.eye_(mt.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    mt.manual_seed(0)
    drawn = nn.init.trunc_normal_(mt.empty(10_000), std=2.0)
    assert drawn.abs().max().item() <= 2 and drawn.std().item() == pytest.approx(1.08, abs=0.03)
    for bad in (nn.init.eye_, nn.init.orthogonal_):
        with pytest.raises(ValueError, match="axes"):
            bad(mt.empty(3))


def test_tables_written_by_hand_are_attributes():
    outer, first, second = nn.Module(), nn.Linear(1, 2), nn.Linear(1, 3)
    outer.inner = first
    outer._modules["inner"] = second
    assert outer.inner is second and list(outer.children()) == [second]
    assert second._parameters.pop("bias").shape == (3,) and not hasattr(second, "bias")
    assert second._parameters.pop("training", None) is None and second.training
    second._parameters |= {"bias": None}
    assert second.bias is None
    second._parameters.update(bias=nn.Parameter(mt.ones(3)))
    assert second.bias.tolist() == [1, 1, 1]
    second._parameters.clear()
    assert not hasattr(second, "weight")
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
        second.weight  # noqa: B018


def test_tables_of_a_copy_are_its_own():
    original = nn.Sequential(nn.Linear(1, 2))
    for copied in (copy.deepcopy(original), copy.copy(original)):
        copied[0] = nn.Linear(1, 3)
        assert original[0].out_features == 2 and copied[0] is getattr(copied, "0")
    twin = copy.deepcopy(original)
    assert twin[0].weight is twin[0]._parameters["weight"] is not original[0].weight
