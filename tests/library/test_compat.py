"""What the book does not teach: each name against its meaning in NumPy, and its gradient."""

import math

import gradients as judges
import numpy as np
import pytest
from gradients import Case

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim

ROWS = {}


def row(make):
    ROWS[make.__name__] = make
    return make


def elementwise(name, function, reference):
    def make(draw):
        return Case(function, [draw.array(draw.shape())], reference)

    ROWS[name] = make


def _softplus(x):
    return np.log1p(np.exp(x))


elementwise("hardtanh", lambda x: F.hardtanh(x, -0.5, 1.2), lambda x: np.clip(x, -0.5, 1.2))
elementwise("relu6", lambda x: F.relu6(5 * x), lambda x: np.clip(5 * x, 0, 6))
elementwise("mish", F.mish, lambda x: x * np.tanh(_softplus(x)))
elementwise("softsign", F.softsign, lambda x: x / (1 + np.abs(x)))
elementwise("threshold", lambda x: F.threshold(x, 0.3, -2), lambda x: np.where(x > 0.3, x, -2.0))
elementwise("ravel", mt.ravel, lambda x: x.reshape(-1))


@row
def prelu(draw):
    shape = draw.shape(min_dims=1)
    many = len(shape) > 1 and draw.flag()
    weight = draw.array((shape[1],) if many else (1,))
    along = (-1,) + (1,) * (len(shape) - 2) if many else ()
    return Case(
        F.prelu,
        [draw.array(shape), weight],
        lambda x, w: np.where(x > 0, x, w.reshape(along) * x),
    )


@row
def softmin(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))

    def reference(x):
        e = np.exp(-x)
        return e / e.sum(axis=dim, keepdims=True)

    return Case(lambda x: F.softmin(x, dim), [draw.array(shape)], reference)


def _loss(draw, function, of_distance, option):
    shape, size, reduction = draw.shape(min_side=1), draw.pick(0.3, 1.0), draw.pick("mean", "sum")

    def reference(x, y):
        losses = of_distance(np.abs(x - y), size)
        return np.asarray(getattr(losses, reduction)())

    return Case(
        lambda x, y: function(x, y, reduction=reduction, **{option: size}),
        [draw.array(shape), draw.array(shape)],
        reference,
        repeatable=False,
    )


@row
def smooth_l1_loss(draw):
    def of_distance(d, beta):
        return np.where(d < beta, d * d / (2 * beta), d - beta / 2)

    return _loss(draw, F.smooth_l1_loss, of_distance, "beta")


@row
def huber_loss(draw):
    def of_distance(d, delta):
        return np.where(d < delta, d * d / 2, delta * (d - delta / 2))

    return _loss(draw, F.huber_loss, of_distance, "delta")


@row
def group_norm(draw):
    groups, each = draw.int(1, 3), draw.int(1, 2)
    shape = (draw.int(0, 2), groups * each, *draw.shape(max_dims=2, min_side=1, max_side=3))
    inputs = [draw.array(shape)]
    inputs += [draw.array((groups * each,)) for _ in range(draw.pick(0, 2))]

    def reference(x, *affine):
        rows = x.reshape(shape[0], groups, math.prod(shape[1:]) // groups)
        rows = rows - rows.mean(-1, keepdims=True)
        normal = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 0.1)
        if not affine:
            return normal.reshape(shape)
        weight, bias = (each.reshape(-1, *[1] * (len(shape) - 2)) for each in affine)
        return normal.reshape(shape) * weight + bias

    return Case(lambda x, *rest: F.group_norm(x, groups, *rest, eps=0.1), inputs, reference)


@row
def conv1d(draw):
    groups, outs, ins = draw.int(1, 2), draw.int(1, 2), draw.int(1, 2)
    width, stride, dilation = draw.int(1, 3), draw.int(1, 3), draw.int(1, 2)
    padding = draw.pick(0, 1, 2, "valid", "same")
    stride = 1 if padding == "same" else stride
    reach = dilation * (width - 1)
    length = reach + draw.int(1, 4)
    left = reach // 2 if padding == "same" else padding if isinstance(padding, int) else 0
    right = reach - left if padding == "same" else left
    batch = draw.pick((), (2,))
    inputs = [draw.array((*batch, groups * ins, length)), draw.array((groups * outs, ins, width))]
    inputs += [draw.array((groups * outs,))] * draw.pick(0, 1)

    def reference(x, weight, bias=None):
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(left, right)])
        count = (x.shape[-1] - reach - 1) // stride + 1
        result = np.zeros((*batch, groups * outs, count))
        for o in range(groups * outs):
            for c in range(ins):
                for k in range(width):
                    seen = x[..., o // outs * ins + c, k * dilation :][..., ::stride][..., :count]
                    result[..., o, :] += weight[o, c, k] * seen
        return result if bias is None else result + bias[:, None]

    options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    return Case(lambda *xs: F.conv1d(*xs, **options), inputs, reference, repeatable=False)


@row
def median(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    dim = draw.pick(None, draw.axis(len(shape)))
    if dim is None:
        middle = (math.prod(shape) - 1) // 2
        return Case(
            lambda x: x.median(),
            [draw.array(shape)],
            lambda x: np.asarray(np.sort(x, axis=None)[middle]),
        )
    keepdim, middle = draw.flag(), [(shape[dim] - 1) // 2]

    def reference(x):
        order = np.argsort(x, axis=dim).take(middle, axis=dim)
        found = (np.take_along_axis(x, order, axis=dim), order)
        return found if keepdim else tuple(part.squeeze(dim) for part in found)

    return Case(lambda x: tuple(x.median(dim, keepdim)), [draw.array(shape)], reference)


@row
def dist(draw):
    p, shapes = draw.pick(1, 2, 3), draw.broadcastable(2)
    return Case(
        lambda x, y: mt.dist(x, y, p),
        [draw.array(shape) for shape in shapes],
        lambda x, y: np.asarray((np.abs(x - y) ** p).sum() ** (1 / p)),
        repeatable=False,
    )


@row
def vector_norm(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    dim, p, keepdim = draw.axes(len(shape)), draw.pick(1, 2, 3), draw.flag()
    return Case(
        lambda x: mt.linalg.vector_norm(x, p, dim, keepdim),
        [draw.array(shape)],
        lambda x: (np.abs(x) ** p).sum(axis=dim, keepdims=keepdim) ** (1 / p),
    )


@row
def tensor_split(draw):
    shape = draw.shape(min_dims=1)
    dim = draw.axis(len(shape))
    parts = draw.pick(draw.int(1, 5), [1, 3], [2, 1, 9])
    return Case(
        lambda x: x.tensor_split(parts, dim),
        [draw.array(shape)],
        lambda x: tuple(np.array_split(x, parts, axis=dim)),
    )


@row
def index_put(draw):
    shape = draw.shape(min_dims=1, min_side=1)
    index = np.asarray(draw.order(shape[0])[: draw.int(0, shape[0])], np.int64)
    mask = draw.mask(shape)
    places = draw.pick((index,), (mask,))
    values = draw.pick((), np.zeros(shape)[places].shape)

    def reference(x, values):
        result = x.copy()
        result[places] = values
        return result

    return Case(
        lambda x, v: mt.index_put(x, tuple(map(mt.tensor, places)), v),
        [draw.array(shape), draw.array(values)],
        reference,
        repeatable=False,
    )


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


@row
def projected_lstm(draw):
    width, size, projected, batch, steps = 2, 3, draw.int(1, 2), draw.int(1, 2), draw.int(1, 3)
    reverse = draw.flag()
    shapes = [(steps, batch, width), (batch, projected), (batch, size), (4 * size, width)]
    shapes += [(4 * size, projected), (4 * size,), (4 * size,), (projected, size)]

    def reference(x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr):
        outputs = [None] * steps
        for t in range(steps)[:: -1 if reverse else 1]:
            i, f, g, o = np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            outputs[t] = h = (_sigmoid(o) * np.tanh(c)) @ w_hr.T
        return np.stack(outputs), h, c

    return Case(
        lambda *xs: nn.compat.recurrent.projected_lstm(*xs, reverse=reverse),
        [draw.array(shape) for shape in shapes],
        reference,
        repeatable=False,
    )


@pytest.mark.parametrize("name", sorted(ROWS))
def test_values_and_gradients(name):
    judges.check_draws(ROWS[name])


def test_packed_projected_lstm_equals_each_sequence_alone():
    mt.manual_seed(0)
    lstm = nn.LSTM(3, 5, num_layers=2, bidirectional=True, proj_size=2)
    x, lengths = mt.randn(4, 3, 3), [4, 1, 2]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, (h, c) = lstm(packed)
    output, _ = nn.utils.rnn.pad_packed_sequence(output)
    assert h.shape == (4, 3, 2) and c.shape == (4, 3, 5) and output.shape == (4, 3, 4)
    for b, length in enumerate(lengths):
        alone, (h_alone, c_alone) = lstm(x[:length, b])
        assert mt.allclose(output[:length, b], alone, atol=1e-6)
        assert mt.allclose(h[:, b], h_alone, atol=1e-6) and mt.allclose(c[:, b], c_alone, atol=1e-6)


def test_parameters_of_recurrent_layers_by_name():
    lstm = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    suffixes = ("_l0", "_l0_reverse", "_l1", "_l1_reverse")
    assert lstm._flat_weights_names == [part + s for s in suffixes for part in parts]
    assert list(lstm.state_dict()) == lstm._flat_weights_names
    assert [tuple(w.shape) for w in lstm.all_weights[2]] == [(20, 4), (20, 2), (20,), (20,), (2, 5)]
    assert len(nn.GRU(3, 5, bias=False).all_weights[0]) == 2
    for layer, options, told in [
        (nn.RNN, dict(proj_size=2), "LSTM only"),
        (nn.GRU, dict(proj_size=2), "LSTM only"),
        (nn.LSTM, dict(proj_size=5), "below hidden_size=5; got 5"),
        (nn.LSTM, dict(proj_size=-1), "got -1"),
    ]:
        with pytest.raises(ValueError, match=told):
            layer(3, 5, **options)
    with pytest.raises(RuntimeError, match=r"h_0 must have shape \(1, 2, 2\), got \(1, 2, 5\)"):
        nn.LSTM(3, 5, proj_size=2)(mt.zeros(4, 2, 3), (mt.zeros(1, 2, 5),) * 2)


def test_lazy_linear_becomes_linear():
    layer = nn.LazyLinear(3)
    weight, optimizer = layer.weight, optim.SGD(layer.parameters(), lr=0.1)
    assert str(layer) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    layer(mt.ones(2, 5)).sum().backward()
    assert type(layer) is nn.Linear and layer.weight is weight and weight.shape == (3, 5)
    assert 0 < weight.abs().max().item() <= 1 / math.sqrt(5)
    before = weight.detach().clone()
    optimizer.step()
    assert mt.allclose(before - weight, mt.full((3, 5), 0.2), atol=1e-6)
    with pytest.raises(RuntimeError, match="last dimension must be 5"):
        layer(mt.ones(2, 4))


def test_in_place_activations():
    def threshold(x, inplace):
        return F.threshold(x, 0.1, 2, inplace)

    for function in (F.hardtanh, F.relu6, F.mish, threshold):
        x = mt.tensor([-2.0, 0.5, 7.0], requires_grad=True)
        y = x * 1
        assert function(y, inplace=True) is y
        y.sum().backward()
        twin = x.detach().clone().requires_grad_()
        function(twin, inplace=False).sum().backward()
        assert y.tolist() == function(twin, inplace=False).tolist()
        assert x.grad.tolist() == twin.grad.tolist()
    x = mt.tensor([-1.0, 0.0, 1.0, 6.0], requires_grad=True)
    (F.hardtanh(x) + F.relu6(x)).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]  # 0 at the ends


def test_ties_and_nan_of_median():
    x = mt.tensor([2.0, 1.0, 2.0, 3.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.5, 0, 0.5, 0]
    rows = mt.tensor([[1.0, mt.nan, 3.0], [4.0, 2.0, 9.0]])
    assert math.isnan(rows.median().item())
    values, indices = rows.median(1)
    assert math.isnan(values[0].item()) and values[1].item() == 4 and indices.tolist() == [1, 0]
    assert mt.tensor([3, 1, 2, 9]).median().item() == 2


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: F.conv1d(mt.ones(1, 2, 4), mt.ones(3, 3, 2)), RuntimeError, "needs 3 input"),
        (lambda: F.conv1d(mt.ones(4), mt.ones(3, 3, 2)), RuntimeError, r"\(N, C, L\)"),
        (lambda: F.conv1d(mt.ones(1, 2, 1), mt.ones(3, 2, 2)), RuntimeError, "over 2 positions"),
        (
            lambda: F.conv1d(mt.ones(1, 2, 4), mt.ones(3, 2, 2), stride=2, padding="same"),
            RuntimeError,
            "stride 1",
        ),
        (
            lambda: F.conv1d(mt.ones(1, 2, 4), mt.ones(3, 2, 2), padding="all"),
            RuntimeError,
            "'valid' or 'same'; got 'all'",
        ),
        (lambda: nn.Conv1d(3, 4, 2, groups=2), ValueError, "groups=2 must divide in_channels=3"),
        (lambda: nn.Conv1d(2, 4, 2, padding_mode="circular"), NotImplementedError, "'zeros' only"),
        (lambda: nn.Conv1d(2, 4, (2, 2)), RuntimeError, "kernel_size has one number"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "3 groups must divide"),
        (lambda: F.group_norm(mt.ones(2, 4), 3), RuntimeError, "3 equal groups"),
        (lambda: F.prelu(mt.ones(2, 3), mt.ones(2)), RuntimeError, "1 or 3 elements"),
        (lambda: F.hardtanh(mt.ones(2), 1, -1), ValueError, "got 1 and -1"),
        (lambda: F.huber_loss(mt.ones(2), mt.ones(2), delta=0), RuntimeError, "positive delta"),
        (lambda: F.smooth_l1_loss(mt.ones(2), mt.ones(2), beta=-1), RuntimeError, "got -1"),
        (lambda: mt.ones(3).tensor_split(0), RuntimeError, "got 0"),
        (lambda: mt.ones(3).split_with_sizes([1, 1]), RuntimeError, "add up to 2"),
        (lambda: mt.ones(0, 2).median(0), IndexError, "nothing to choose"),
        (
            lambda: mt.ones(3).index_put((mt.tensor([0]),), mt.tensor([1])),
            RuntimeError,
            "float32; got minitorch.int64",
        ),
        (lambda: optim.RMSprop([mt.ones(1)], alpha=-1), ValueError, "alpha"),
        (lambda: mt.linalg.vector_nor, AttributeError, "vector_norm"),
    ],
)
def test_errors_say_what_to_do(call, error, told):
    with pytest.raises(error, match=told):
        call()


def _trained(make, steps=6):
    """The weights after some steps down sin(w), with the gradient cos(w), and all gradients."""
    w = mt.tensor([0.3, -1.0, 2.0], dtype=mt.float64, requires_grad=True)
    optimizer, path = make([w]), [w.detach().numpy().copy()]
    for _ in range(steps):
        optimizer.zero_grad()
        w.sin().sum().backward()
        optimizer.step()
        path.append(w.detach().numpy().copy())
    return path


def test_rmsprop():
    path = _trained(
        lambda w: optim.RMSprop(
            w, lr=0.1, alpha=0.8, eps=1e-3, weight_decay=0.1, momentum=0.5, centered=True
        )
    )
    w, v, mean, b = path[0], 0, 0, 0
    for reached in path[1:]:
        g = np.cos(w) + 0.1 * w
        v, mean = 0.8 * v + 0.2 * g * g, 0.8 * mean + 0.2 * g
        b = 0.5 * b + g / (np.sqrt(v - mean**2) + 1e-3)
        w = w - 0.1 * b
        np.testing.assert_allclose(reached, w, rtol=1e-12)


def test_adagrad():
    path = _trained(
        lambda w: optim.Adagrad(
            w, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3
        )
    )
    w, total = path[0], 0.5
    for step, reached in enumerate(path[1:]):
        g = np.cos(w) + 0.1 * w
        total = total + g * g
        w = w - 0.1 / (1 + 0.2 * step) * g / (np.sqrt(total) + 1e-3)
        np.testing.assert_allclose(reached, w, rtol=1e-12)


@pytest.mark.parametrize("decay", [0, 0.1])
def test_amsgrad_keeps_the_largest_average(decay):
    options = dict(lr=0.1, betas=(0.5, 0.3), eps=1e-3, amsgrad=True, weight_decay=decay)
    path = _trained(lambda w: optim.AdamW(w, **options))
    w, m, v, largest = path[0], 0, 0, 0
    for step, reached in enumerate(path[1:], 1):
        g, w = np.cos(w), w * (1 - 0.1 * decay)
        m, v = 0.5 * m + 0.5 * g, 0.3 * v + 0.7 * g * g
        largest = np.maximum(largest, v)
        root = np.sqrt(largest / (1 - 0.3**step))
        w = w - 0.1 * m / (1 - 0.5**step) / (root + 1e-3)
        np.testing.assert_allclose(reached, w, rtol=1e-12)
    plain = _trained(lambda w: optim.AdamW(w, **(options | {"amsgrad": False})))
    assert abs(plain[-1] - path[-1]).max() > 1e-3


@pytest.mark.parametrize("make", [optim.RMSprop, optim.Adagrad, optim.Adam])
def test_going_on_from_a_saved_state(make):
    def optimizers(tensor):
        return make([tensor], lr=0.1, **({"amsgrad": True} if make is optim.Adam else {}))

    def step(w, optimizer):
        optimizer.zero_grad()
        w.sin().sum().backward()
        optimizer.step()

    w = mt.tensor([0.3, -1.0], requires_grad=True)
    first = optimizers(w)
    step(w, first)
    twin = w.detach().clone().requires_grad_()
    second = optimizers(twin)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        step(w, first)
        step(twin, second)
    assert w.tolist() == twin.tolist()


def test_schedules():
    def rates(make):
        optimizer = optim.SGD([mt.ones(1)], lr=2.0)
        schedule, seen = make(optimizer), []
        for _ in range(7):
            seen.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        return seen

    lr = optim.lr_scheduler
    assert rates(lambda o: lr.ExponentialLR(o, 0.5)) == [2 * 0.5**i for i in range(7)]
    assert rates(lambda o: lr.MultiStepLR(o, [5, 2], 0.5)) == [2, 2, 1, 1, 1, 0.5, 0.5]
    assert rates(lambda o: lr.LinearLR(o, 0.5, 1.0, 2)) == [1, 1.5, 2, 2, 2, 2, 2]

    class Inverse(lr._LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) for base in self.base_lrs]

    assert rates(Inverse) == [2 / (1 + i) for i in range(7)]
    with pytest.raises(ValueError, match="start_factor must be above 0"):
        lr.LinearLR(optim.SGD([mt.ones(1)], lr=1.0), start_factor=0)
