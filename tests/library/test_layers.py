"""Containers, normalisation, embeddings from given vectors, activations as modules."""

import pytest

import minitorch as mt
from minitorch import nn


def kinds(modules):
    return [type(module).__name__ for module in modules]


def test_lists_of_modules_change_as_lists():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.insert(0, nn.ReLU())
    layers += [nn.Tanh()]
    assert kinds(layers) == ["ReLU", "Linear", "Tanh"]
    assert list(layers.state_dict()) == ["1.weight", "1.bias"]
    del layers[0]
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]
    assert kinds([layers.pop(0)]) == ["Linear"] and kinds(layers) == ["Tanh"]
    assert kinds(layers + [nn.ReLU()]) == ["Tanh", "ReLU"] and len(layers) == 1
    layers[-1] = nn.GELU()
    assert kinds(layers) == ["GELU"]
    with pytest.raises(IndexError, match="index 5.*1 modules"):
        layers[5]
    with pytest.raises(NotImplementedError):
        layers(1)
    with pytest.raises(TypeError):
        layers.append(3)

    net = nn.Sequential({"a": nn.ReLU(), "b": nn.Linear(1, 1)})
    assert list(net[1:].state_dict()) == ["b.weight", "b.bias"]
    net.append(nn.Tanh()).extend([nn.ReLU()])
    assert kinds(net) == ["ReLU", "Linear", "Tanh", "ReLU"]
    assert kinds(net[:1] + net[2:]) == ["ReLU", "Tanh", "ReLU"]


def test_module_dict():
    layers = nn.ModuleDict({"a": nn.Linear(1, 1)})
    layers["b"] = nn.ReLU()
    layers.update([("c", nn.Tanh())])
    assert list(layers) == list(layers.keys()) == ["a", "b", "c"] and "c" in layers
    assert list(layers.state_dict()) == ["a.weight", "a.bias"]
    assert layers.pop("b") is not None and len(layers) == 2
    assert kinds(layers.values()) == ["Linear", "Tanh"]
    del layers["c"]
    layers.clear()
    assert not len(layers)


def test_parameter_list():
    weights = nn.ParameterList([nn.Parameter(mt.zeros(2)), mt.ones(1)])
    weights.append(mt.ones(3)).extend([mt.ones(4)])
    assert list(weights.state_dict()) == ["0", "1", "2", "3"]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in weights)
    assert [len(p) for p in weights[1:3]] == [1, 3] and len(weights[-1]) == 4
    weights[-1] = mt.ones(7)
    assert len(weights[3]) == 7 and len(weights) == 4


def test_embedding_from_vectors():
    vectors = mt.randn(4, 2)
    frozen = nn.Embedding.from_pretrained(vectors)
    assert not frozen.weight.requires_grad and mt.equal(frozen(mt.tensor([2]))[0], vectors[2])
    trained = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=1)
    trained(mt.tensor([0, 1])).sum().backward()
    assert trained.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]
    with pytest.raises(AssertionError, match=r"\(V, d\)"):
        nn.Embedding.from_pretrained(mt.zeros(3))


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 4)])
def test_batch_norm_trains_on_the_batch_and_keeps_its_averages(shape):
    mt.manual_seed(0)
    layer = nn.BatchNorm1d(3, momentum=0.25).double()
    x, axes = mt.randn(shape).double() * 2 + 1, (0, 2)[: len(shape) - 1]
    along = (1, 3, 1)[: len(shape)]
    y = layer(x)
    expected = (x - x.mean(axes).view(along)) / (
        x.var(axes, unbiased=False).view(along) + 1e-5
    ).sqrt()
    assert mt.allclose(y, expected)
    assert mt.allclose(layer.running_mean, 0.25 * x.mean(axes))
    assert mt.allclose(layer.running_var, 0.75 + 0.25 * x.var(axes))
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    mean, var = layer.running_mean.view(along), layer.running_var.view(along)
    assert mt.allclose(layer(x), (x - mean) / (var + 1e-5).sqrt())
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_options_and_errors():
    x = mt.randn(6, 2)
    average = nn.BatchNorm1d(2, momentum=None)
    average(x)
    average(x + 1)
    assert mt.allclose(average.running_mean, x.mean(0) + 0.5, atol=1e-6)
    own = nn.BatchNorm1d(2, affine=False, track_running_stats=False).eval()
    assert not own.state_dict() and abs(own(x).mean().item()) < 1e-6
    assert list(average.state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    for error, shape in ((ValueError, (1, 2)), (ValueError, (3,)), (RuntimeError, (3, 5))):
        with pytest.raises(error):
            average(mt.ones(shape))


def test_norms_of_features():
    x = mt.randn(2, 3, 4).double()
    rms = nn.RMSNorm((3, 4), eps=1e-3).double()
    assert mt.allclose(rms(x), x / ((x * x).mean((1, 2), keepdim=True) + 1e-3).sqrt())
    assert list(rms.state_dict()) == ["weight"]
    tiny = nn.RMSNorm(1)(mt.tensor([1e-3]))
    assert tiny.item() == pytest.approx(1e-3 / (1e-6 + 2**-23) ** 0.5, rel=1e-5)
    assert list(nn.LayerNorm(4, bias=False).state_dict()) == ["weight"]
    assert not nn.LayerNorm(4, elementwise_affine=False).state_dict()


def test_layers_print_as_in_pytorch():
    for layer, text in [
        (nn.RMSNorm(4), "RMSNorm((4,), eps=None, elementwise_affine=True)"),
        (nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (nn.Dropout(0.3), "Dropout(p=0.3, inplace=False)"),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (nn.SiLU(), "SiLU()"),
        (nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)"),
        (nn.LeakyReLU(), "LeakyReLU(negative_slope=0.01)"),
        (nn.ELU(), "ELU(alpha=1.0)"),
        (nn.GLU(), "GLU(dim=-1)"),
        (nn.Softmax(), "Softmax(dim=None)"),
        (nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (nn.Embedding(3, 2, padding_idx=0), "Embedding(3, 2, padding_idx=0)"),
    ]:
        assert repr(layer) == text


def test_activations_as_modules():
    x = mt.randn(4, 6)
    f = nn.functional
    for layer, expected in [
        (nn.LeakyReLU(0.2), f.leaky_relu(x, 0.2)),
        (nn.ELU(0.5), f.elu(x, 0.5)),
        (nn.Softplus(2.0, 3.0), f.softplus(x, 2.0, 3.0)),
        (nn.GLU(0), f.glu(x, 0)),
        (nn.LogSigmoid(), f.logsigmoid(x)),
        (nn.SiLU(), f.silu(x)),
    ]:
        assert mt.equal(layer(x), expected)
    for layer in (nn.ReLU(inplace=True), nn.SiLU(inplace=True), nn.Dropout(0.5, inplace=True)):
        y = x.clone()
        assert layer(y) is y and not mt.equal(x, y)


@pytest.mark.parametrize("name", ["running_mean", "running_var"])
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_are_not_learned(name, training):
    layer, x = nn.BatchNorm1d(2).train(training), mt.tensor([[1.0, 2.0], [3.0, 5.0]])
    getattr(layer, name).requires_grad_()
    with pytest.raises(RuntimeError, match=f"batch_norm has no gradient.*'{name}'.*detach"):
        layer(x)
    with mt.no_grad():
        assert not layer(x).requires_grad


def test_an_embedding_of_given_vectors():
    vectors = mt.tensor([[1.0, 2], [3, 4], [5, 6]])
    layer = nn.Embedding(3, 2, padding_idx=0, _weight=vectors)
    assert layer(mt.tensor([2, 0])).tolist() == [[5, 6], [1, 2]] and layer.weight.requires_grad
    assert not nn.Embedding(3, 2, _weight=vectors, _freeze=True).weight.requires_grad
    with pytest.raises(AssertionError, match=r"\(3, 4\); got \(3, 2\)"):
        nn.Embedding(3, 4, _weight=vectors)
