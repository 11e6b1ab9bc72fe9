"""Layers and losses that are imported when asked: values, gradients, shapes, what is refused."""

import copy
import importlib
import math
import subprocess
import sys

import gradients as judges
import numpy as np
import pytest
from gradients import Case

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import missing, nn, optim

ROWS = {}


def row(make):
    ROWS[make.__name__] = make
    return make


@row
def inner(draw):
    lead, other = draw.shape(max_dims=2), draw.shape(max_dims=2)
    size = draw.int(0, 3)
    return Case(mt.inner, [draw.array((*lead, size)), draw.array((*other, size))], np.inner)


@row
def tensordot(draw):
    a, common, b = draw.shape(max_dims=2), draw.shape(max_dims=2), draw.shape(max_dims=2)
    inputs = [draw.array(a + common), draw.array(common + b)]
    count = len(common)
    return Case(
        lambda x, y: mt.tensordot(x, y, count), inputs, lambda x, y: np.tensordot(x, y, count)
    )


@row
def tensordot_over_lists(draw):
    sizes = draw.shape(min_dims=2, max_dims=3, min_side=1, max_side=3)
    order = draw.order(len(sizes))
    ours, theirs = list(range(len(sizes)))[:2], [order.index(0), order.index(1) - len(sizes)]
    inputs = [draw.array(sizes), draw.array(tuple(sizes[i] for i in order))]
    return Case(
        lambda x, y: mt.tensordot(x, y, (ours, theirs)),
        inputs,
        lambda x, y: np.tensordot(x, y, (ours, theirs)),
        repeatable=False,
    )


@row
def sums_with_products(draw):
    n, m, beta, alpha = draw.int(0, 3), draw.int(0, 3), draw.pick(0, 1, 0.5), draw.pick(1, -2)
    inputs = [draw.array(draw.pick((n,), (1,), ())), draw.array((n, m)), draw.array((m,))]
    return Case(
        lambda x, a, v: x.addmv(a, v, beta=beta, alpha=alpha) if x.ndim else a.mv(v) * alpha + x,
        inputs,
        lambda x, a, v: alpha * (a @ v) + (beta if x.ndim else 1) * x,
        repeatable=False,
    )


@row
def cdist(draw):
    lead, n, m, d = draw.shape(max_dims=1), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    p = draw.pick(1.0, 2.0, 3.0)
    inputs = [draw.array((*lead, n, d)), draw.array((*lead, m, d))]

    def reference(x, y):
        return (np.abs(x[..., :, None, :] - y[..., None, :, :]) ** p).sum(-1) ** (1 / p)

    return Case(lambda x, y: mt.cdist(x, y, p), inputs, reference, repeatable=False)


@row
def embedding_bag(draw):
    mode, rows, width = draw.pick("sum", "mean", "max"), draw.int(2, 4), draw.int(1, 3)
    count = draw.int(0, 5)
    ids = draw.indices((count,), rows)
    starts = [0, *sorted(draw.indices((draw.int(0, 3),), count + 1).tolist())]
    padding = draw.pick(None, 0, -1)
    weighted = mode == "sum" and draw.flag()
    inputs = [draw.array((rows, width))] + [draw.array((count,))] * weighted

    def reference(weight, factors=None):
        result = np.zeros((len(starts), width))
        for bag, (start, end) in enumerate(zip(starts, [*starts[1:], count], strict=True)):
            places = [i for i in range(start, end) if padding is None or ids[i] != padding % rows]
            found = weight[ids[places]] * (1 if factors is None else factors[places][:, None])
            if len(found):
                result[bag] = getattr(found, mode)(0)
        return result

    return Case(
        lambda w, f=None: F.embedding_bag(
            mt.tensor(ids),
            w,
            mt.tensor(starts),
            mode=mode,
            per_sample_weights=f,
            padding_idx=padding,
        ),
        inputs,
        reference,
        repeatable=False,
    )


@row
def max_pool1d(draw):
    width, stride, dilation = draw.int(1, 3), draw.pick(None, 1, 2), draw.int(1, 2)
    padding = draw.int(0, width // 2)
    length = dilation * (width - 1) + draw.int(1, 4)
    batch = draw.pick((), (2,), (0,))
    step = width if stride is None else stride

    def reference(x):
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(padding, padding)], constant_values=-np.inf)
        count = (x.shape[-1] - dilation * (width - 1) - 1) // step + 1
        seen = [x[..., k * dilation :][..., ::step][..., :count] for k in range(width)]
        return np.max(seen, axis=0)

    return Case(
        lambda x: F.max_pool1d(x, width, stride, padding, dilation),
        [draw.array((*batch, 2, length))],
        reference,
    )


@row
def avg_pool1d(draw):
    width, stride, length = draw.int(1, 3), draw.int(1, 3), draw.int(3, 6)
    padding = draw.int(0, width // 2)

    def reference(x):
        x = np.pad(x, [(0, 0), (padding, padding)])
        count = (x.shape[-1] - width) // stride + 1
        return np.mean([x[:, k:][:, ::stride][:, :count] for k in range(width)], axis=0)

    return Case(
        lambda x: F.avg_pool1d(x, width, stride, padding), [draw.array((2, length))], reference
    )


@row
def bilinear(draw):
    lead, sizes = draw.shape(max_dims=2), (draw.int(1, 3), draw.int(1, 3), draw.int(1, 3))
    outputs, first, second = sizes
    inputs = [draw.array((*lead, first)), draw.array((*lead, second)), draw.array(sizes)]
    inputs += [draw.array((outputs,))] * draw.pick(0, 1)

    def reference(x, y, weight, bias=0):
        return np.einsum("...i,oij,...j->...o", x, weight, y) + bias

    return Case(F.bilinear, inputs, reference, repeatable=False)


@row
def grouped_heads(draw):
    batch, groups, share, n, m, d = 2, draw.int(1, 2), draw.int(1, 3), *(draw.int(1, 3),) * 3
    inputs = [draw.array((batch, groups * share, n, d))]
    inputs += [draw.array((batch, groups, m, d)) for _ in range(2)]

    def reference(q, k, v):
        k, v = (np.repeat(x, share, axis=1) for x in (k, v))
        scores = np.exp(q @ k.swapaxes(-1, -2) / math.sqrt(d))
        return scores / scores.sum(-1, keepdims=True) @ v

    return Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        inputs,
        reference,
        repeatable=False,
    )


@row
def weight_norm(draw):
    dim = draw.pick(None, 0, 1, -1)
    weight = draw.array((draw.int(1, 3), draw.int(1, 3)), "nonzero")
    axes = {0: 1, 1: 0}.get(dim)  # -1 is all of it, as in PyTorch
    length = np.sqrt((weight**2).sum(axis=axes, keepdims=axes is not None))
    inputs = [np.asarray(length * 1.5), weight, draw.array((2, weight.shape[1]))]

    def function(g, v, x):
        layer = nn.utils.weight_norm(nn.Linear(v.shape[1], v.shape[0], bias=False), dim=dim)
        assert layer.weight_g.shape == g.shape and layer.weight_v.shape == v.shape
        layer.__dict__.update(weight_g=g, weight_v=v)
        return layer(x)

    def reference(g, v, x):
        return x @ (g * v / np.sqrt((v**2).sum(axis=axes, keepdims=axes is not None))).T

    return Case(function, inputs, reference, repeatable=False)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_values_and_gradients(name):
    judges.check_draws(ROWS[name])


def test_the_adaptive_softmax_is_a_distribution():
    mt.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0).double()
    x, target = mt.randn(6, 8, dtype=mt.float64, requires_grad=True), mt.tensor([0, 2, 3, 6, 7, 11])
    whole = layer.log_prob(x)
    assert mt.allclose(whole.exp().sum(1), mt.ones(6, dtype=mt.float64))
    output, loss = layer(x, target)
    chosen = whole.gather(1, target.unsqueeze(1)).squeeze(1)
    assert mt.allclose(output, chosen) and mt.allclose(loss, -chosen.mean())
    ours = mt.autograd.grad(loss, [x, *layer.parameters()])
    theirs = mt.autograd.grad(-chosen.mean(), [x, *layer.parameters()])
    assert all(mt.allclose(a, b) for a, b in zip(ours, theirs, strict=True))
    assert layer.predict(x).tolist() == whole.argmax(1).tolist()


def test_max_norm_shortens_the_rows_that_are_read():
    table = nn.Embedding(4, 3, max_norm=1.0)
    with mt.no_grad():
        table.weight.copy_(mt.tensor([[3.0, 0, 4], [0.1, 0, 0], [0, 5, 0], [1, 1, 1]]))
    result = table(mt.tensor([[0, 1], [0, 2]]))
    lengths = table.weight.detach().norm(2, 1)
    assert mt.allclose(lengths, mt.tensor([1.0, 0.1, 1, math.sqrt(3)]), atol=1e-5)
    assert mt.allclose(result[0, 0], mt.tensor([0.6, 0, 0.8]), atol=1e-5)
    result.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [2, 1, 1, 0]
    once = nn.Embedding(3, 1, scale_grad_by_freq=True)
    once(mt.tensor([0, 0, 2])).sum().backward()
    assert once.weight.grad.flatten().tolist() == [1, 0, 1]


@pytest.mark.parametrize("layer", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_dropout_of_whole_channels(layer):
    shape = {nn.Dropout1d: (8, 50, 3), nn.Dropout2d: (8, 50, 2, 2), nn.Dropout3d: (8, 50, 1, 2, 2)}
    x = mt.ones(shape[layer], requires_grad=True)
    dropped = layer(0.25)(x)
    assert set(dropped.detach().unique().tolist()) == {0.0, mt.tensor(4 / 3).item()}
    channels = dropped.detach().flatten(2)
    assert (channels == channels[..., :1]).all()
    assert 0.15 < (channels == 0).float().mean().item() < 0.35
    dropped.sum().backward()
    assert mt.equal(x.grad, dropped.detach())
    assert layer(0.25).eval()(x) is x
    written = x.detach().clone()
    assert layer(0.25, inplace=True)(written) is written and (written == 0).any()


def test_gumbel_softmax():
    mt.manual_seed(0)
    logits = mt.tensor([0.0, 1.0, 2.0]).expand(4000, 3).clone().requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(hard.detach().round(decimals=5).unique().tolist()) == {0.0, 1.0}
    shares = hard.detach().mean(0)
    assert mt.allclose(shares, mt.tensor([0.0, 1.0, 2.0]).softmax(0), atol=0.03)
    (hard * mt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum() > 0
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert mt.allclose(soft.sum(1), mt.ones(4000))


def test_weight_norm_trains_and_is_undone():
    mt.manual_seed(0)
    layer = nn.utils.weight_norm(nn.Linear(3, 2))
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    x = mt.randn(5, 3)
    before = layer(x).pow(2).mean()
    for _ in range(20):
        optimizer.zero_grad()
        layer(x).pow(2).mean().backward()
        optimizer.step()
    after = layer(x)
    assert after.pow(2).mean() < 0.5 * before
    twin = nn.utils.weight_norm(nn.Linear(3, 2))
    twin.load_state_dict(layer.state_dict())
    assert mt.equal(twin(x), after)
    nn.utils.remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"] and mt.allclose(layer(x), after)
    assert isinstance(layer.weight, nn.Parameter) and mt.equal(copy.deepcopy(layer)(x), layer(x))


def test_hooks_before_loading():
    seen = []

    class Layer(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self._register_load_state_dict_pre_hook(self.renamed)

        def renamed(self, state_dict, prefix, *rest):
            seen.append(prefix)
            if prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")

    model = nn.Sequential(Layer(), nn.ReLU())
    state = model.state_dict()
    old = {"0.w": state["0.weight"] + 1, "0.bias": state["0.bias"]}
    wanted = old["0.w"].clone()
    model.load_state_dict(old)
    assert seen == ["0."] and mt.equal(model[0].weight, wanted) and "0.w" in old
    handle = model.register_load_state_dict_pre_hook(
        lambda module, state, *rest: seen.append(module)
    )
    model.load_state_dict(model.state_dict())
    assert seen[-2] is model and seen[-1] == "0."
    handle.remove()

    def refuse(state_dict, prefix, metadata, strict, missing, unexpected, messages):
        messages.append("too old.")

    model[1]._register_load_state_dict_pre_hook(refuse)
    with pytest.raises(RuntimeError, match="too old"):
        model.load_state_dict(model.state_dict())


def test_names_of_places():
    from minitorch.nn.modules.linear import Linear
    from minitorch.nn.modules.loss import _Loss, _WeightedLoss

    assert Linear is nn.Linear and nn.modules.rnn.LSTM is nn.LSTM
    assert issubclass(nn.CrossEntropyLoss, _WeightedLoss) and isinstance(nn.HuberLoss(), _Loss)
    with pytest.raises(AttributeError, match="nearest: .*Linear"):
        nn.modules.linear.Linaer  # noqa: B018
    module = nn.utils.skip_init(nn.Linear, 3, 4, bias=False)
    assert module.weight.shape == (4, 3) and module.bias is None
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.Tanh)


def rooms():
    """The names that a module imports when asked, by the module that has them."""
    for module in (mt, nn, F, optim, optim.lr_scheduler, nn.utils, mt.utils, mt.autograd, mt.cuda):
        for name, room in module.__getattr__.homes.items():
            yield module, name, room


def test_what_is_imported_when_asked_is_all_that_there_is():
    offered = {}
    for module, name, room in rooms():
        assert getattr(module, name) is not None and name in dir(module)
        offered.setdefault(room, set()).add(name)
    for room, names in offered.items():
        own = set(getattr(importlib.import_module(room), "__all__", names))
        assert room.endswith(tuple(names)) or own <= names, f"{room}: {own - names} is not offered"


def test_rooms_wait_until_they_are_asked():
    program = """
import sys, minitorch
waiting = "jit amp distributions nn.compat.ctc utils.checkpoint optim.compat_schedulers".split()
assert not [name for name in waiting if f"minitorch.{name}" in sys.modules]
minitorch.nn.CTCLoss, minitorch.utils.checkpoint, minitorch.nn.functional.ctc_loss
assert "minitorch.nn.compat.ctc" in sys.modules and "minitorch.jit" not in sys.modules
from minitorch.distributions import Categorical
from minitorch.cuda.amp import autocast
from minitorch.autograd.function import Function
import minitorch.utils.checkpoint
assert minitorch.distributions.Categorical is Categorical
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="nearest: .*AdaptiveLogSoftmaxWithLoss"):
        nn.AdaptiveLogSoftmaxWithLos  # noqa: B018
    assert "AttributeError" in repr(missing.missing("nn", "x", nn))


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: mt.inner(mt.ones(2), mt.ones(3)), RuntimeError, r"\(2,\) and \(3,\)"),
        (lambda: mt.tensordot(mt.ones(2, 3), mt.ones(2, 3), 1), RuntimeError, "equal sizes"),
        (lambda: mt.cdist(mt.ones(2), mt.ones(2, 3)), RuntimeError, r"\(\.\.\., n, d\)"),
        (lambda: mt.linalg.qr(mt.ones(2, 2), "complete"), NotImplementedError, "'reduced' only"),
        (lambda: mt.ones(2, 2, requires_grad=True).svd(), NotImplementedError, "no gradient"),
        (lambda: nn.Embedding(3, 2, sparse=True)(mt.tensor([1])), NotImplementedError, "sparse"),
        (
            lambda: F.scaled_dot_product_attention(
                mt.ones(1, 3, 2, 4), mt.ones(1, 2, 2, 4), mt.ones(1, 2, 2, 4), enable_gqa=True
            ),
            RuntimeError,
            "3 of the query, 2 of key",
        ),
        (lambda: F.max_pool1d(mt.ones(2, 5), 2, padding=2), RuntimeError, "half the kernel_size"),
        (lambda: F.max_pool1d(mt.ones(5), 2), RuntimeError, r"\(N, C, L\)"),
        (lambda: nn.ZeroPad2d((1, 2)), ValueError, "one number or 4"),
        (lambda: F.dropout1d(mt.ones(3)), RuntimeError, "3 axes, or 2"),
        (lambda: nn.Dropout2d(1.5), ValueError, "1.5"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 5]), ValueError, "rising"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5])(mt.ones(2, 4), mt.tensor([0, 9])),
            RuntimeError,
            "0 to 8; got 0 to 9",
        ),
        (
            lambda: F.ctc_loss(mt.zeros(4, 2, 3), mt.ones(2, 2).long(), (4,), (2, 2)),
            RuntimeError,
            "as many input_lengths",
        ),
        (
            lambda: F.ctc_loss(mt.zeros(4, 1, 3), mt.tensor([1, 5]), (4,), (2,)),
            RuntimeError,
            "0 to 2; got 1 to 5",
        ),
        (
            lambda: F.ctc_loss(mt.zeros(4, 1, 3), mt.tensor([1]), (4,), (2,)),
            RuntimeError,
            "add up to 2",
        ),
        (lambda: nn.ParameterDict({"a": 1}), TypeError, "Parameter"),
    ],
)
def test_errors_say_what_to_do(call, error, told):
    with pytest.raises(error, match=told):
        call()
