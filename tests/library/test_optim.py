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
    assert all(v.dtype is mt.float32 for state in opt.state.values() for v in state.values())


@pytest.mark.parametrize("shape", [(), (0,), (300, 300)])  # (300, 300) takes several blocks
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW])
def test_every_element_is_updated_in_any_layout(optimizer, shape):
    options = {"momentum": 0.9} if optimizer is optim.SGD else {}
    mt.manual_seed(0)
    start, gradients = mt.randn(shape), [mt.randn(shape) for _ in range(2)]
    updated = []
    for turned in (False, True):  # the same numbers, the parameter by columns
        w = nn.Parameter(start.clone().T.contiguous().T if turned else start.clone())
        opt = optimizer([w], lr=0.1, **options)
        for g in gradients:
            w.grad = g.clone() if turned else g.T.contiguous().T
            opt.step()
        updated.append(w.detach())
    np.testing.assert_allclose(updated[0].numpy(), updated[1].numpy(), rtol=1e-6)
    assert (updated[0] != start).all()


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


def test_state_dict_is_in_pytorchs_format():
    w, b, unused = nn.Parameter(mt.ones(2)), nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
    opt = optim.AdamW([{"params": [w]}, {"params": [b, unused], "lr": 0.5}])
    w.grad, b.grad = mt.ones(2), mt.ones(1)
    opt.step()
    state = opt.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1, 2]]
    assert sorted(state["state"]) == [0, 1]
    kept = state["state"][0]
    assert set(kept) == {"step", "exp_avg", "exp_avg_sq"} and kept["step"].item() == 1
    np.testing.assert_allclose(kept["exp_avg"].tolist(), [0.1, 0.1], rtol=1e-6)
    assert opt.state[b]["exp_avg_sq"].item() == pytest.approx(1e-3)
    assert not optim.SGD([w]).state_dict()["state"]


class Counting(optim.Optimizer):
    """An optimizer of one's own, whose state is no tensor and one of whose options is below 0."""

    def __init__(self, params, lr=0.1, decay=-0.8):
        super().__init__(params, {"lr": lr, "decay": decay})

    @mt.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                state["step"] = state.get("step", 0) + 1
                state.setdefault("gradients", []).append(w.grad.clone())
                state["nested"] = {"largest": max(g.item() for g in state["gradients"])}
                w.sub_(w.grad * (group["lr"] * state["step"] ** group["decay"]))


def test_state_of_ones_own_goes_on_too():
    first, second = (nn.Parameter(mt.ones(1)) for _ in range(2))
    opt, resumed = Counting([first]), Counting([{"params": [second], "extra": 1}], lr=123.0)
    opt.state["all"] = 7
    for w in (first, second):
        w.grad = mt.full((1,), 2.0)
    opt.step()
    opt.step()
    saved = opt.state_dict()
    resumed.load_state_dict(saved)
    assert resumed.param_groups == [{"params": [second], "lr": 0.1, "decay": -0.8}]
    resumed.step()
    kept = resumed.state[second]
    assert kept["step"] == 3 and kept["nested"] == {"largest": 2.0}
    assert [g.item() for g in kept["gradients"]] == [2.0] * 3
    assert resumed.state["all"] == 7
    assert opt.state[first]["step"] == 2 and len(saved["state"][0]["gradients"]) == 2


def test_loaded_tensors_take_the_type_of_the_parameter():
    w = nn.Parameter(mt.ones(1))
    opt = optim.Adam([w])
    w.grad = mt.ones(1)
    opt.step()
    double = nn.Parameter(mt.ones(1, dtype=mt.float64))
    other = optim.Adam([double])
    other.load_state_dict(opt.state_dict())
    kept = other.state[double]
    assert kept["exp_avg"].dtype is mt.float64 and kept["step"].dtype is mt.float32


def test_groups_are_the_callers_dicts():
    w = nn.Parameter(mt.zeros(1))
    group = {"params": w}
    opt = optim.SGD([group], lr=0.1)
    assert opt.param_groups[0] is group and group["params"] == [w] and group["momentum"] == 0
    group["lr"] = 5.0
    w.grad = mt.ones(1)
    opt.step()
    assert w.item() == -5


def test_a_step_is_noticed_by_gradients_that_need_what_it_changed():
    w = nn.Parameter(mt.full((1,), 3.0))
    opt = optim.Adam([w])
    w.grad = mt.ones(1)
    opt.step()
    for used in (w, opt.state[w]["exp_avg"]):
        x = mt.ones(1, requires_grad=True)
        product = x * used
        opt.step()
        with pytest.raises(RuntimeError, match="changed in place"):
            product.backward()


def test_wrong_options():
    w = nn.Parameter(mt.ones(1))
    for make, message in (
        (lambda: optim.SGD([], lr=0.1), "no parameters"),
        (lambda: optim.SGD([w], lr=-1), "lr.*-1"),
        (lambda: optim.SGD([w], lr=0.1, nesterov=True), "momentum above 0"),
        (lambda: optim.Adam([w], betas=(0.9, 1.0)), r"betas\[1\].*1.0"),
        (lambda: optim.SGD([w * 2], lr=0.1), "leaf"),
        (lambda: optim.SGD([{"params": [w]}, {"params": [w]}], lr=0.1), "two groups"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for params, message in ((["w"], "str"), (w, "one tensor")):
        with pytest.raises(TypeError, match=message):
            optim.SGD(params, lr=0.1)


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


# Schedules of the learning rate


def rates(schedule, steps, lr=1.0, optimizer=optim.SGD, **options):
    """The rates of a schedule's first steps, as the optimizer sees them."""
    opt = optimizer([nn.Parameter(mt.ones(1))], lr=lr, **options)
    scheduler, seen = schedule(opt), []
    for _ in range(steps):
        assert scheduler.get_last_lr() == [opt.param_groups[0]["lr"]]
        seen.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return seen


def test_lambda_step_and_cosine_schedules():
    lr = optim.lr_scheduler
    warm_up = rates(lambda opt: lr.LambdaLR(opt, lambda step: min(1, (step + 1) / 4)), 6, lr=2.0)
    assert warm_up == [0.5, 1, 1.5, 2, 2, 2]
    assert rates(lambda opt: lr.StepLR(opt, 2, gamma=0.5), 6) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    cosine = rates(lambda opt: lr.CosineAnnealingLR(opt, 4, eta_min=0.2), 9)
    half = (0.2 + 1) / 2
    quarter = 0.8 * math.sqrt(0.5) / 2
    down = [1, half + quarter, half, half - quarter, 0.2]
    np.testing.assert_allclose(cosine, down + down[-2::-1], rtol=1e-12)


def test_one_cycle_schedule():
    def cycle(opt, **options):
        return optim.lr_scheduler.OneCycleLR(
            opt, 1.0, total_steps=11, pct_start=0.5, div_factor=10, final_div_factor=100, **options
        )

    line = rates(lambda opt: cycle(opt, anneal_strategy="linear"), 11, momentum=0.9)
    up, down = np.linspace(0.1, 1, 10), np.linspace(1, 0.001, 12)
    np.testing.assert_allclose(line, [*up[0:10:2], *down[1::2]], rtol=1e-12)
    cosine = rates(cycle, 11, momentum=0.9)
    assert cosine[0] == pytest.approx(0.1) and cosine[-1] == pytest.approx(0.001)
    share = (5 - 4.5) / 5.5
    top = 0.001 + 0.999 * (1 + math.cos(math.pi * share)) / 2
    assert max(cosine) == cosine[5] == pytest.approx(top)
    three = rates(
        lambda opt: cycle(opt, three_phase=True, anneal_strategy="linear"), 11, momentum=1
    )
    assert three[0] == pytest.approx(0.1) == three[9] and three[-1] == pytest.approx(0.001)
    with pytest.raises(ValueError, match="11 steps"):
        rates(cycle, 12, momentum=0.9)
    without = optim.SGD([mt.zeros(1, requires_grad=True)], lr=1.0)
    cycle(without)
    assert without.param_groups[0]["momentum"] == 0.95  # from the start, as in PyTorch


def test_one_cycle_moves_the_momentum_the_other_way():
    w = nn.Parameter(mt.ones(1))
    for opt in (optim.SGD([w], momentum=0.5), optim.AdamW([w])):
        scheduler = optim.lr_scheduler.OneCycleLR(opt, 1.0, epochs=2, steps_per_epoch=5)
        seen = []
        for _ in range(10):
            group = opt.param_groups[0]
            seen.append(group["betas"][0] if "betas" in group else group["momentum"])
            scheduler.step()
        assert seen[0] == seen[9] == pytest.approx(0.95) and min(seen) == pytest.approx(0.85)
        assert seen.index(min(seen)) == 2  # pct_start * 10 - 1


@pytest.mark.parametrize(
    "schedule",
    [
        lambda opt: optim.lr_scheduler.LambdaLR(opt, [lambda step: 1 / (1 + step)]),
        lambda opt: optim.lr_scheduler.StepLR(opt, 3),
        lambda opt: optim.lr_scheduler.CosineAnnealingLR(opt, 7),
        lambda opt: optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=20),
    ],
)
def test_a_schedule_goes_on_from_a_state_dict(schedule):
    def optimizer():
        return optim.Adam([nn.Parameter(mt.ones(1))], lr=0.1)

    whole, first, second = (schedule(optimizer()) for _ in range(3))
    for _ in range(10):
        whole.step()
    for _ in range(4):
        first.step()
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    for _ in range(6):
        second.step()
    assert second.get_last_lr() == whole.get_last_lr() and second.last_epoch == 10


def test_a_schedule_continues_one_that_the_optimizer_knows():
    opt = optim.SGD([nn.Parameter(mt.ones(1))], lr=1.0)
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(opt, 2, last_epoch=3)
    optim.lr_scheduler.StepLR(opt, 2)
    assert optim.lr_scheduler.StepLR(opt, 2, last_epoch=3).get_last_lr() == [0.1**2]


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
