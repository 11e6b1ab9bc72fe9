"""Optimizers against their formulas, written out for one number; clipping of gradients."""

import math

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim

GRADIENTS = (0.5, -2.0, 0.1, 3.0)


def sgd(lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    w, v = 1.0, None
    for g in GRADIENTS:
        g += weight_decay * w
        if momentum:
            v = g if v is None else momentum * v + (1 - dampening) * g
            g = g + momentum * v if nesterov else v
        w -= lr * g
        yield w


def adam(lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False):
    w, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate(GRADIENTS, start=1):
        if decoupled:
            w -= lr * weight_decay * w
        else:
            g += weight_decay * w
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        w -= lr * (m / (1 - betas[0] ** t)) / (math.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield w


def adamw(lr, weight_decay=1e-2, **options):
    return adam(lr, weight_decay=weight_decay, decoupled=True, **options)


@pytest.mark.parametrize(
    ("optimizer", "formula", "options"),
    [
        (optim.SGD, sgd, {"lr": 0.1}),
        (optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.3}),
        (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
        (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
        (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        (optim.Adam, adam, {"lr": 0.1}),
        (optim.Adam, adam, {"lr": 0.1, "betas": (0.5, 0.8), "eps": 0.1, "weight_decay": 0.3}),
        (optim.AdamW, adamw, {"lr": 0.1}),
        (optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.5, "betas": (0.0, 0.5)}),
    ],
)
def test_steps_follow_the_formula(optimizer, formula, options):
    w = nn.Parameter(mt.ones(2, 2, dtype=mt.float64))
    opt = optimizer([w], **options)
    given = []
    for g, expected in zip(GRADIENTS, formula(**options), strict=True):
        w.grad = mt.full((2, 2), g, dtype=mt.float64)
        given.append(w.grad)
        opt.step()
        np.testing.assert_allclose(w.detach().numpy(), np.full((2, 2), expected), rtol=1e-12)
    for g, tensor in zip(GRADIENTS, given, strict=True):
        assert (tensor == g).all(), "a step must not change a gradient, nor a later one"


@pytest.mark.parametrize("gradient", [1e-3, -5.0, 1e4])
def test_adams_first_step_is_the_learning_rate(gradient):
    w = nn.Parameter(mt.zeros(1, dtype=mt.float64))
    w.grad = mt.tensor([gradient]).double()
    optim.Adam([w], lr=0.01).step()
    assert w.item() == pytest.approx(-math.copysign(0.01, gradient), rel=1e-4)


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW])
def test_parameters_keep_their_type_and_memory(optimizer):
    w = nn.Parameter(mt.ones(3))
    array = w.array
    opt = optimizer([w], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        w.grad = mt.ones(3)
        opt.step()
    assert w.array is array and w.dtype is mt.float32 and w.requires_grad
    kept = [v for state in opt.state.values() for v in state.values() if hasattr(v, "dtype")]
    assert all(v.dtype == np.float32 for v in kept)


def test_parameters_without_a_gradient_stay():
    used, unused = nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
    opt = optim.AdamW([used, unused], lr=0.1, weight_decay=0.5)
    used.grad = mt.ones(1)
    opt.step()
    assert unused.item() == 1 and used.item() < 1


def test_zero_grad():
    w = nn.Parameter(mt.ones(1))
    opt = optim.SGD([w], lr=0.1)
    w.grad = mt.ones(1)
    opt.zero_grad(set_to_none=False)
    assert w.grad.item() == 0
    opt.zero_grad()
    assert w.grad is None


def test_groups_have_options_of_their_own():
    slow, fast = nn.Parameter(mt.zeros(1)), nn.Parameter(mt.zeros(1))
    opt = optim.SGD([{"params": [slow]}, {"params": fast, "lr": 1.0}], lr=0.1)
    slow.grad = fast.grad = mt.ones(1)
    opt.step()
    assert slow.item() == pytest.approx(-0.1) and fast.item() == -1
    opt.param_groups[0]["lr"] = 0.5
    opt.step()
    assert slow.item() == pytest.approx(-0.6)


def test_closure():
    w = nn.Parameter(mt.tensor([3.0]))
    opt = optim.SGD([w], lr=0.1)

    def closure():
        opt.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert opt.step(closure).item() == 9 and w.item() == pytest.approx(2.4)


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW])
def test_training_goes_on_from_a_state_dict(optimizer):
    options = {"momentum": 0.9} if optimizer is optim.SGD else {}

    def train(w, opt, gradients):
        for g in gradients:
            w.grad = mt.tensor([g])
            opt.step()

    whole = nn.Parameter(mt.ones(1))
    train(whole, optimizer([whole], lr=0.1, **options), GRADIENTS)

    first = nn.Parameter(mt.ones(1))
    opt = optimizer([first], lr=0.1, **options)
    train(first, opt, GRADIENTS[:2])
    second = nn.Parameter(first.detach().clone())
    resumed = optimizer([second], lr=123.0, **options)
    state = opt.state_dict()
    resumed.load_state_dict(state)
    train(first, opt, GRADIENTS)  # must not disturb the state that was loaded
    train(second, resumed, GRADIENTS[2:])
    assert second.item() == whole.item()
    with pytest.raises(ValueError, match=r"\[2\].*\[1\]"):
        optimizer([first, second], lr=0.1).load_state_dict(state)


def test_wrong_options():
    w = nn.Parameter(mt.ones(1))
    for make, message in (
        (lambda: optim.SGD([], lr=0.1), "no parameters"),
        (lambda: optim.SGD([w], lr=-1), "lr.*-1"),
        (lambda: optim.SGD([w], lr=0.1, nesterov=True), "momentum above 0"),
        (lambda: optim.Adam([w], betas=(0.9, 1.0)), r"betas\[1\].*1.0"),
        (lambda: optim.SGD([w * 2], lr=0.1), "leaf"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="str"):
        optim.SGD(["w"], lr=0.1)


def test_optimizers_find_the_least_squares_solution():
    mt.manual_seed(0)
    x, w_true = mt.randn(50, 3), mt.tensor([1.0, -2.0, 0.5])
    y = x @ w_true
    for make in (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.Adam(p, lr=0.05),
        lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.0),
    ):
        w = nn.Parameter(mt.zeros(3))
        opt = make([w])
        for _ in range(400):
            opt.zero_grad()
            nn.functional.mse_loss(x @ w, y).backward()
            opt.step()
        np.testing.assert_allclose(w.detach().numpy(), w_true.numpy(), atol=1e-2)


# Clipping


def with_gradients(*gradients):
    parameters = [nn.Parameter(mt.zeros(len(g))) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = mt.tensor(g)
    return parameters


def test_clip_grad_norm():
    parameters = with_gradients([3.0, 0.0], [4.0])
    total = nn.utils.clip_grad_norm_(parameters, 1.0)
    assert total.item() == 5
    np.testing.assert_allclose(parameters[0].grad.tolist(), [0.6, 0], rtol=1e-5)
    np.testing.assert_allclose(parameters[1].grad.tolist(), [0.8], rtol=1e-5)


def test_clip_grad_norm_leaves_small_gradients_alone():
    parameters = with_gradients([3.0, 0.0], [4.0])
    assert nn.utils.clip_grad_norm_(iter(parameters), 6.0).item() == 5
    assert parameters[0].grad.tolist() == [3, 0] and parameters[1].grad.tolist() == [4]


def test_clip_grad_norm_of_other_norms():
    parameters = with_gradients([3.0, -1.0], [-4.0])
    assert nn.utils.clip_grad_norm_(parameters, 100.0, norm_type=1).item() == 8
    assert nn.utils.clip_grad_norm_(parameters, 2.0, norm_type=math.inf).item() == 4
    np.testing.assert_allclose(parameters[1].grad.tolist(), [-2], rtol=1e-5)


def test_clip_grad_norm_without_gradients_and_with_bad_ones():
    assert nn.utils.clip_grad_norm_([nn.Parameter(mt.ones(1))], 1.0).item() == 0
    (bad,) = with_gradients([math.nan])
    with pytest.raises(RuntimeError, match="nan"):
        nn.utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    (parameter,) = with_gradients([3.0, -0.5, -9.0])
    nn.utils.clip_grad_value_([parameter], 1.0)
    assert parameter.grad.tolist() == [1, -0.5, -1]
