"""Functions of neural networks: fused operations, losses, extreme scores, single precision."""

import math
import random

import gradients
import numpy as np
import pytest
from rows import ROWS

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.autograd.modes import listening


def compared(function, composition, *arrays, rtol=1e-9):
    """Both give the same values and the same gradients for all arguments."""
    results = []
    for each in (function, composition):
        tensors = [mt.tensor(a, dtype=mt.float64, requires_grad=True) for a in arrays]
        outputs = each(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        rng = np.random.default_rng(1)
        weights = [mt.tensor(np.asarray(rng.standard_normal(y.shape))) for y in outputs]
        mt.autograd.backward(list(outputs), weights)
        results.append([y.array for y in outputs] + [t.grad.array for t in tensors])
    assert len(results[0]) == len(results[1])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-10)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# Fused operations equal the compositions that define them


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (0, 2)])
def test_linear_is_a_product_and_a_sum(lead, width):
    x, weight, bias = normal(*lead, 4), normal(width, 4), normal(width)
    compared(F.linear, lambda x, w, b: x @ w.T + b, x, weight, bias)
    compared(F.linear, lambda x, w: x @ w.T, x, weight)


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm_is_its_formula(axes):
    shape = (2, 3, 4)[-axes:]

    def formula(x, weight, bias):
        dims = tuple(range(-axes, 0))
        mean = x.mean(dims, keepdim=True)
        variance = x.var(dims, unbiased=False, keepdim=True)
        return (x - mean) / (variance + 1e-3).sqrt() * weight + bias

    compared(
        lambda x, w, b: F.layer_norm(x, shape, w, b, eps=1e-3),
        formula,
        normal(2, 3, 4),
        normal(*shape, seed=1),
        normal(*shape, seed=2),
    )


def test_layer_norm_names_the_shapes():
    with pytest.raises(RuntimeError, match=r"\(4,\).*\(2, 3\)"):
        F.layer_norm(mt.zeros(2, 3), (4,))


def test_softmax_and_its_logarithm():
    def softmax(x):
        e = (x - x.detach().max()).exp()
        return e / e.sum(1, keepdim=True)

    x = normal(2, 5, 3)
    compared(lambda x: F.softmax(x, 1), softmax, x)
    compared(lambda x: F.log_softmax(x, 1), lambda x: softmax(x).log(), x)
    compared(lambda x: F.log_softmax(x, 1), lambda x: x - x.logsumexp(1, keepdim=True), x)


def test_gelu_is_x_times_the_normal_distribution_function():
    x = normal(20)
    compared(F.gelu, lambda x: x * 0.5 * (1 + mt.erf(x / math.sqrt(2))), x)
    exact, approximate = F.gelu(mt.tensor(x)), F.gelu(mt.tensor(x), approximate="tanh")
    assert 1e-5 < (exact - approximate).abs().max().item() < 1e-3
    with pytest.raises(RuntimeError, match="'none' or 'tanh'"):
        F.gelu(mt.tensor(x), approximate="fast")


def test_silu_and_softplus():
    x = normal(20)
    compared(F.silu, lambda x: x * x.sigmoid(), x)
    compared(F.softplus, lambda x: (1 + x.exp()).log(), x)


def test_embedding_is_one_hot_times_the_matrix():
    index = mt.tensor([[4, 0, 4], [1, 4, 1]])
    one_hot = F.one_hot(index, 5).double()
    compared(lambda w: F.embedding(index, w), lambda w: one_hot @ w, normal(5, 3))


def test_embedding_gives_the_padding_row_no_gradient():
    weight = mt.ones(3, 2, requires_grad=True)
    F.embedding(mt.tensor([0, 2, 2]), weight, padding_idx=2).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_embedding_names_bad_indices():
    with pytest.raises(IndexError, match="3 rows.*0 to 2.*got -1 to 3"):
        F.embedding(mt.tensor([-1, 3]), mt.zeros(3, 2))
    with pytest.raises(RuntimeError, match="integer.*float32"):
        F.embedding(mt.zeros(2), mt.zeros(3, 2))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_its_formula(smoothing, reduction, weighted):
    target = mt.tensor([2, -100, 0, 2])
    class_weight = mt.tensor(np.array([1.0, 2.0, 0.5])) if weighted else None

    def formula(x):
        weight = class_weight if weighted else mt.ones(3, dtype=mt.float64)
        rows = mt.tensor([0, 2, 3])
        chosen = target[rows]
        log_p = F.log_softmax(x, 1)[rows]
        hard = -log_p[mt.arange(3), chosen] * weight[chosen]
        even = -(log_p * weight).sum(1) / 3
        losses = (1 - smoothing) * hard + smoothing * even
        if reduction == "sum":
            return losses.sum()
        if reduction == "mean":
            return losses.sum() / weight[chosen].sum()
        return mt.stack([losses[0], 0 * x[1, 0], losses[1], losses[2]])

    compared(
        lambda x: F.cross_entropy(
            x, target, class_weight, reduction=reduction, label_smoothing=smoothing
        ),
        formula,
        normal(4, 3),
    )


# Losses


def test_cross_entropy_of_extreme_scores():
    scores = mt.tensor([[1e4, -1e4], [1e4, -1e4]], requires_grad=True)
    losses = F.cross_entropy(scores, mt.tensor([0, 1]), reduction="none")
    assert losses.tolist() == [0, 2e4]
    losses.sum().backward()
    assert scores.grad.tolist() == [[0, 0], [1, -1]]


def test_cross_entropy_with_impossible_classes():
    scores = mt.tensor([[0.0, -mt.inf, 0.0]], requires_grad=True)
    loss = F.cross_entropy(scores, mt.tensor([2]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert scores.grad.tolist() == [[0.5, 0, -0.5]]
    assert F.cross_entropy(scores, mt.tensor([1])).item() == math.inf


def test_cross_entropy_when_all_is_ignored():
    scores = mt.zeros(2, 3, requires_grad=True)
    target = mt.tensor([-1, -1])
    total = F.cross_entropy(scores, target, ignore_index=-1, reduction="sum")
    total.backward()
    assert total.item() == 0 and not scores.grad.any()
    assert math.isnan(F.cross_entropy(scores, target, ignore_index=-1).item())


def test_ignored_rows_get_exactly_no_gradient():
    scores = mt.tensor([[mt.nan, 1.0], [0.0, 0.0]], requires_grad=True)
    loss = F.cross_entropy(scores, mt.tensor([-100, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert scores.grad.tolist() == [[0, 0], [0.5, -0.5]]


def test_cross_entropy_of_one_row_and_of_sequences():
    scores = mt.tensor(normal(2, 3, 4))  # (N, C, T)
    target = mt.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    whole = F.cross_entropy(scores, target, reduction="none")
    assert whole.shape == (2, 4)
    single = F.cross_entropy(scores[1, :, 2], target[1, 2])
    assert single.item() == pytest.approx(whole[1, 2].item())
    assert F.cross_entropy(scores, target).item() == pytest.approx(whole.mean().item())


def test_cross_entropy_names_what_is_wrong():
    with pytest.raises(ValueError, match=r"\(4, 3\).*shape \(4,\).*got \(3,\)"):
        F.cross_entropy(mt.zeros(4, 3), mt.zeros(3).long())
    with pytest.raises(RuntimeError, match="int64.*float32"):
        F.cross_entropy(mt.zeros(4, 3), mt.zeros(4))
    with pytest.raises(IndexError, match="3 classes.*0 to 2.*got 0 to 3"):
        F.cross_entropy(mt.zeros(2, 3), mt.tensor([0, 3]))
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none'.*'average'"):
        F.cross_entropy(mt.zeros(2, 3), mt.tensor([0, 1]), reduction="average")


def test_nll_loss_of_log_softmax_is_cross_entropy():
    target, weight = mt.tensor([2, -100, 0, 2]), mt.tensor(np.array([1.0, 2.0, 0.5]))
    for options in ({}, {"weight": weight}, {"reduction": "sum"}, {"reduction": "none"}):
        compared(
            lambda x, options=options: F.nll_loss(F.log_softmax(x, 1), target, **options),
            lambda x, options=options: F.cross_entropy(x, target, **options),
            normal(4, 3),
        )


def test_nll_loss_of_ignored_rows_and_its_gradient():
    log_p = mt.tensor([[-mt.inf, -1.0], [-2.0, -3.0]], requires_grad=True)
    F.nll_loss(log_p, mt.tensor([-100, 1])).backward()
    assert log_p.grad.tolist() == [[0, 0], [0, -1]]
    log_p.grad = None
    loss = F.nll_loss(log_p, mt.tensor([-100, -100]))
    loss.backward()
    assert math.isnan(loss.item()) and log_p.grad.tolist() == [[0, 0], [0, 0]]
    assert F.nll_loss(log_p, mt.tensor([-100, 1]), reduction="none").tolist() == [0, 3]


def test_mse_loss():
    x, y = normal(2, 3), normal(2, 3, seed=1)
    target = mt.tensor(y)
    assert F.mse_loss(mt.tensor(x), target).item() == pytest.approx(((x - y) ** 2).mean())
    compared(
        lambda x: F.mse_loss(x, target, reduction="sum"), lambda x: ((x - target) ** 2).sum(), x
    )
    with pytest.warns(UserWarning, match=r"\(2, 3\) and \(3,\)"):
        F.mse_loss(mt.zeros(2, 3), mt.zeros(3))


def test_binary_cross_entropy_with_logits():
    target = mt.tensor(np.array([0.0, 1.0, 0.3, 1.0]))

    def formula(x):
        return -(target * x.sigmoid().log() + (1 - target) * (1 - x.sigmoid()).log()).mean()

    compared(lambda x: F.binary_cross_entropy_with_logits(x, target), formula, normal(4))
    extreme = mt.tensor([1e4, -1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(extreme, mt.tensor([0.0, 0.0]))
    loss.backward()
    assert loss.item() == 5e3 and extreme.grad.tolist() == [0.5, 0]


def test_binary_cross_entropy():
    target = mt.tensor(np.array([0.0, 1.0, 0.3, 0.8]))
    weight = mt.tensor(np.array([1.0, 2.0, 3.0, 4.0]))

    def formula(x):
        losses = -(target * x.log() + (1 - target) * (1 - x).log()) * weight
        return losses.mean()

    compared(
        lambda x: F.binary_cross_entropy(x, target, weight), formula, np.array([0.2, 0.4, 0.9, 0.5])
    )
    sure = mt.tensor([0.0, 1.0, 0.0], requires_grad=True)
    losses = F.binary_cross_entropy(sure, mt.tensor([0.0, 1.0, 1.0]), reduction="none")
    assert losses.tolist() == [0, 0, 100]
    losses.sum().backward()
    assert sure.grad.tolist() == [0, 0, pytest.approx(-1e12)]
    for error, x, y in [
        (RuntimeError, mt.tensor([1.5]), mt.tensor([1.0])),
        (RuntimeError, mt.tensor([0.5]), mt.tensor([1])),
        (ValueError, mt.tensor([0.5]), mt.tensor([[1.0]])),
    ]:
        with pytest.raises(error):
            F.binary_cross_entropy(x, y)


def test_weights_of_binary_cross_entropy_with_logits():
    target, positive = mt.tensor(np.array([0.0, 1.0, 0.3])), mt.tensor(np.array([3.0, 0.5, 2.0]))

    def formula(x):
        s = x.sigmoid()
        return -(positive * target * s.log() + (1 - target) * (1 - s).log()).sum()

    options = {"reduction": "sum", "pos_weight": positive}
    compared(lambda x: F.binary_cross_entropy_with_logits(x, target, **options), formula, normal(3))
    at_zero = mt.zeros(1, requires_grad=True)
    F.binary_cross_entropy_with_logits(at_zero, mt.ones(1)).backward()
    assert at_zero.grad.tolist() == [-0.5]
    with pytest.raises(ValueError, match="one shape"):
        F.binary_cross_entropy_with_logits(mt.zeros(1), mt.zeros(1, 1))


def test_cross_entropy_of_probabilities():
    x, weight = normal(4, 3), mt.tensor(np.array([1.0, 2.0, 0.5]))
    target = F.softmax(mt.tensor(normal(4, 3, seed=1)), 1)

    def formula(x):
        return -(target * 0.9 + 0.1 / 3).mul(F.log_softmax(x, 1)).mul(weight).sum(1).mean()

    compared(lambda x: F.cross_entropy(x, target, weight, label_smoothing=0.1), formula, x)
    one_hot = F.one_hot(mt.tensor([0, 2, 1, 1])).double()
    classes = mt.tensor([0, 2, 1, 1])
    compared(lambda x: F.cross_entropy(x, one_hot), lambda x: F.cross_entropy(x, classes), x)


def test_absolute_and_divergence_losses():
    x, y = normal(2, 3), mt.tensor(normal(2, 3, seed=1))
    compared(lambda x: F.l1_loss(x, y), lambda x: (x - y).abs().mean(), x)
    p, log_q = F.softmax(y, 1), F.log_softmax(mt.tensor(x), 1)
    expected = (p * (p.log() - log_q)).sum().item() / 2
    assert F.kl_div(log_q, p, reduction="batchmean").item() == pytest.approx(expected)
    given_logs = F.kl_div(log_q, p.log(), reduction="batchmean", log_target=True)
    assert given_logs.item() == pytest.approx(expected)
    certain = F.kl_div(log_q, mt.tensor(np.eye(3)[:2]), reduction="none")
    np.testing.assert_allclose(certain.numpy(), -log_q.numpy() * np.eye(3)[:2])
    assert F.kl_div(log_q, p).item() == pytest.approx(expected * 2 / 6)


def test_targets_out_of_range():
    with pytest.raises(IndexError, match="3 classes"):
        F.nll_loss(mt.zeros(2, 3), mt.tensor([0, 5]))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.cross_entropy(mt.zeros(2, 3), mt.tensor([0, 1]), label_smoothing=1.5)


# Activations and other functions


def test_activations_are_their_formulas():
    x = normal(4, 6)
    compared(lambda x: F.leaky_relu(x, 0.2), lambda x: x.clamp(min=0) + 0.2 * x.clamp(max=0), x)
    compared(F.elu, lambda x: x.clamp(min=0) + (x.clamp(max=0).exp() - 1), x)
    compared(F.logsigmoid, lambda x: x.sigmoid().log(), x)
    compared(F.glu, lambda x: x[:, :3] * x[:, 3:].sigmoid(), x)
    compared(lambda x: F.softplus(x, 2.0), lambda x: (1 + (2 * x).exp()).log() / 2, x)
    assert F.softplus(mt.tensor([5.0]), 1.0, 4.0).item() == 5
    with pytest.raises(RuntimeError, match="even"):
        F.glu(mt.zeros(3))
    far = mt.tensor([-1e4, 1e4], requires_grad=True)
    F.logsigmoid(far).sum().backward()
    assert far.grad.tolist() == [1, pytest.approx(0, abs=1e-30)]


def test_in_place_activations_write_over_their_input():
    x = mt.tensor(normal(5), requires_grad=True)
    for function, plain in ((F.relu, mt.relu), (F.silu, lambda x: x * x.sigmoid())):
        x.grad = None
        y = x * 1
        assert function(y, inplace=True) is y
        y.sum().backward()
        expected = mt.tensor(x.detach().numpy(), requires_grad=True)
        plain(expected).sum().backward()
        assert mt.allclose(y, plain(x)) and mt.allclose(x.grad, expected.grad)


def test_softmax_of_a_given_type_and_without_dim():
    x = mt.randn(2, 3, 2)
    assert F.softmax(x, -1, dtype=mt.float64).dtype is mt.float64
    for ndim, dim in ((1, 0), (2, 1), (3, 0)):
        part = x[(0,) * (3 - ndim)]
        with pytest.warns(UserWarning, match=f"dim={dim}"):
            assert mt.equal(F.softmax(part), F.softmax(part, dim))


def test_rms_norm_is_its_formula():
    compared(
        lambda x, w: F.rms_norm(x, (4,), w, 1e-3),
        lambda x, w: x / ((x**2).mean(-1, keepdim=True) + 1e-3).sqrt() * w,
        normal(2, 3, 4),
        normal(4, seed=1),
    )
    with pytest.raises(RuntimeError, match=r"\(2,\).*\(2, 3\)"):
        F.rms_norm(mt.zeros(2, 3), (2,))


def test_lengths_and_angles():
    x = normal(3, 4)
    compared(F.normalize, lambda x: x / (x * x).sum(1, keepdim=True).sqrt(), x)
    assert F.normalize(mt.zeros(2, 2)).tolist() == [[0, 0], [0, 0]]

    def cosine(x, y):
        return (x * y).sum(1) / ((x * x).sum(1) * (y * y).sum(1)).sqrt()

    compared(F.cosine_similarity, cosine, x, normal(3, 4, seed=1))
    assert F.cosine_similarity(mt.zeros(2), mt.ones(2), dim=0).item() == 0


@pytest.mark.parametrize("pad", [(1, 2), (0, 0, 1, 1), (-1, 2), (1, -2, -1, 0), (2, -4)])
def test_pad_and_its_gradient(pad):
    def by_joining(x):
        for axis in range(len(pad) // 2):
            before, after = pad[2 * axis : 2 * axis + 2]
            x = x.transpose(-1, -1 - axis)
            x = x[..., max(-before, 0) : x.shape[-1] - max(-after, 0)]
            sides = [mt.full((*x.shape[:-1], max(n, 0)), 2.5).double() for n in (before, after)]
            x = mt.cat([sides[0], x, sides[1]], -1).transpose(-1, -1 - axis)
        return x

    compared(lambda x: F.pad(x, pad, value=2.5), by_joining, normal(3, 4))


def test_pad_names_what_is_wrong():
    for error, pad, mode in [
        (RuntimeError, (1,), "constant"),
        (RuntimeError, (1, 1, 1, 1), "constant"),
        (RuntimeError, (-1, -2), "constant"),
        (NotImplementedError, (1, 1), "reflect"),
    ]:
        with pytest.raises(error):
            F.pad(mt.ones(2), pad, mode)
    assert F.pad(mt.tensor([1, 2]), (1, 0)).tolist() == [0, 1, 2]


def test_one_hot():
    assert F.one_hot(mt.tensor([[0], [2]])).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert F.one_hot(mt.tensor([1]), 4).dtype is mt.int64
    assert F.one_hot(mt.tensor([]).long(), 3).shape == (0, 3)
    with pytest.raises(RuntimeError, match="num_classes"):
        F.one_hot(mt.tensor([]).long())
    with pytest.raises(RuntimeError, match="2 classes.*0 to 1.*got 2 to 2"):
        F.one_hot(mt.tensor([2]), 2)


def test_dropout_keeps_the_mean_and_its_gradient_is_its_mask():
    mt.manual_seed(0)
    x = mt.ones(20_000, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert mt.equal(x.grad, y)
    assert abs((y == 0).float().mean().item() - 0.25) < 0.02
    assert sorted(set(y.tolist())) == pytest.approx([0, 1 / 0.75])
    assert F.dropout(x, 0.25, training=False) is x
    assert not F.dropout(x, 1.0).any()
    with pytest.raises(ValueError, match="between 0 and 1.*1.5"):
        F.dropout(x, 1.5)


# Single precision


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", sorted(set(ROWS) - {"to_dtype"}))
def test_float32_stays_float32(name, seed):
    """One float64 array within an operation would make all that follows twice as slow."""
    case = ROWS[name](gradients.Draw(random.Random(seed).randint))
    tensors = [mt.tensor(x.astype(np.float32), requires_grad=True) for x in case.inputs]
    outputs = case.function(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert {y.dtype for y in outputs} <= {mt.float32, mt.int64, mt.bool}
    computed = set()

    def listen(name, inputs, outputs, backward):
        if backward:
            computed.update(gradient.dtype for gradient in outputs if gradient is not None)

    with listening(listen):
        for y in outputs:
            if y.requires_grad:
                y.backward(mt.ones_like(y), retain_graph=True)
    assert computed <= {np.dtype("float32")}


def test_erf_is_that_of_the_standard_library():
    x = np.concatenate([np.linspace(-7, 7, 2001), [0.0, -0.0, 1e-300, 30.0, -np.inf, np.inf]])
    expected = np.vectorize(math.erf)(x)
    np.testing.assert_allclose(mt.erf(mt.tensor(x)).numpy(), expected, rtol=1e-13)
    single = mt.erf(mt.tensor(x.astype(np.float32)))
    assert single.dtype is mt.float32
    np.testing.assert_allclose(single.numpy(), expected, rtol=3e-7, atol=1e-40)


@pytest.mark.parametrize("size", [1, 40_000])  # one block, and two
def test_gelu_in_single_precision_is_that_of_the_standard_library(size):
    x = mt.linspace(-12, 12, size).requires_grad_()
    y = F.gelu(x)
    y.sum().backward()
    exact = x.detach().double().numpy()
    phi = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in exact])
    np.testing.assert_allclose(y.detach().numpy(), exact * phi, atol=1e-6)
    slope = phi + exact * np.exp(-exact * exact / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(x.grad.numpy(), slope, atol=1e-6)
    assert y.dtype is x.grad.dtype is mt.float32


def test_products_of_two_types_are_refused():
    single, double = mt.ones(2, 2), mt.ones(2, 2, dtype=mt.float64)
    with pytest.raises(RuntimeError, match="one type, got float32 and float64"):
        single @ double
    with pytest.raises(RuntimeError, match="one type, got int64 and float32"):
        F.linear(mt.arange(2), single)
    with pytest.raises(TypeError, match="got float32 and int"):
        single @ 2
    with pytest.raises(RuntimeError, match="condition of type bool, got float32"):
        mt.where(single, single, single)
