"""Stand-ins that change no number, distributions, options of optimizers, random state."""

import copy
import math

import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.distributions import Categorical, Distribution, Normal, kl_divergence


def test_what_would_be_compiled_runs_as_it_is():
    @mt.jit.script
    def twice(x):
        return 2 * x

    @mt.compile
    def thrice(x):
        return 3 * x

    @mt.compile(dynamic=False, mode="reduce-overhead")
    def four_times(x):
        return 4 * x

    class Layer(mt.jit.ScriptModule):
        count: mt.jit.Final[int] = 1

        @mt.jit.script_method
        def forward(self, x):
            return self.half(x) if mt.jit.is_scripting() else x

        @mt.jit.export
        def half(self, x):
            return x / 2

        @mt.jit.ignore(drop=True)
        def debug(self):
            return 1

        @mt.jit.unused
        def rest(self):
            return 2

    x = mt.ones(2)
    assert [f(x).tolist() for f in (twice, thrice, four_times)] == [[2, 2], [3, 3], [4, 4]]
    layer = Layer()
    assert isinstance(layer, nn.Module) and layer(x) is x and layer.debug() + layer.rest() == 3
    assert mt.jit.script(layer) is layer and mt.jit.trace(layer, (x,)) is layer
    assert mt.compile(layer) is layer and mt.compiler.disable(twice) is twice
    assert mt.jit.annotate(list, [1]) == [1] and not mt.compiler.is_compiling()
    for module, name in [(mt.jit, "load"), (mt.compiler, "reset"), (mt.distributed, "all_reduce")]:
        with pytest.raises(AttributeError, match=f"has no '{name}'"):
            getattr(module, name)
    assert not mt.distributed.is_available() and not mt.distributed.is_initialized()


def test_autocast_computes_in_float32_and_says_so():
    layer, x = nn.Linear(2, 2), mt.ones(1, 2)
    with pytest.warns(UserWarning, match="autocast.*float32"):
        with mt.autocast(device_type="cpu", dtype=mt.bfloat16):
            assert layer(x).dtype is mt.float32 and not mt.is_autocast_enabled()
    with pytest.warns(UserWarning, match="autocast"):
        decorated = mt.amp.autocast("cuda")(lambda: 5)
    with pytest.warns(UserWarning, match="autocast"):
        mt.cuda.amp.autocast()
    with mt.autocast("cuda", enabled=False), mt.cuda.amp.autocast(enabled=False):
        assert decorated() == 5
    scaler = mt.cuda.amp.GradScaler()
    optimizer = optim.SGD(layer.parameters(), lr=1.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(x).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert mt.allclose(layer.weight, before - 1) and scaler.get_scale() == 1
    assert scaler.state_dict() == {} and not scaler.is_enabled()

    class Square(mt.autograd.Function):
        @staticmethod
        @mt.amp.custom_fwd(device_type="cuda", cast_inputs=mt.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @mt.cuda.amp.custom_bwd
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    y = mt.tensor(3.0, requires_grad=True)
    Square.apply(y).backward()
    assert y.grad.item() == 6


def test_bfloat16_is_read_as_float32():
    x = mt.tensor([1.0001], dtype=mt.float64)
    for read in (
        lambda: x.bfloat16(),
        lambda: x.to(mt.bfloat16),
        lambda: mt.zeros(2, dtype=mt.bfloat16),
        lambda: nn.Linear(1, 1).double().bfloat16().weight,
        lambda: nn.Linear(1, 1, dtype=mt.bfloat16).weight,
    ):
        with pytest.warns(UserWarning, match="bfloat16 is read as float32"):
            assert read().dtype is mt.float32
    assert mt.bfloat16 is not mt.float32 and mt.bfloat16 != mt.float16
    assert mt.float32 not in {mt.bfloat16, mt.float16} and repr(mt.bfloat16) == "minitorch.bfloat16"
    assert copy.deepcopy(mt.bfloat16) is mt.bfloat16
    assert not mt.cuda.is_bf16_supported()


def test_the_rest_that_only_has_a_name():
    x = mt.ones(2)
    assert x.is_sparse is False and x.layout is mt.strided and not x.is_complex()
    mt.set_float32_matmul_precision("high")
    mt.use_deterministic_algorithms(True)
    layer = nn.Linear(1, 1)
    layer.compile()
    assert layer.share_memory() is layer
    assert mt.empty_like(x, memory_format=mt.preserve_format).shape == (2,)


def test_random_state():
    mt.manual_seed(3)
    state = mt.get_rng_state()
    first = mt.rand(2).tolist()
    with mt.random.fork_rng():
        mt.set_rng_state(state)
        assert mt.rand(2).tolist() == first
    second = mt.rand(2).tolist()
    mt.set_rng_state(state)
    assert [mt.rand(2).tolist(), mt.rand(2).tolist()] == [first, second]


def test_lists_of_tensors_changed_at_once():
    a = [mt.ones(2), mt.zeros(3)]
    mt._foreach_add_(a, 2)
    mt._foreach_add_(a, [mt.ones(2), mt.ones(3)], alpha=0.5)
    mt._foreach_mul_(a, 2)
    assert [x.tolist() for x in a] == [[7, 7], [5, 5, 5]]
    mt._foreach_copy_(a, [mt.zeros(2), mt.ones(3)])
    mt._foreach_mul_(a, [mt.ones(2), mt.zeros(3)])
    mt._foreach_add_(a, 1)
    mt._foreach_zero_(a[:1])
    assert [x.tolist() for x in a] == [[0, 0], [1, 1, 1]]
    with pytest.raises(ValueError):
        mt._foreach_copy_(a, [mt.zeros(2)])


@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.ASGD])
def test_flags_of_optimizers(make):
    group = make([mt.ones(1)], lr=0.1, foreach=True).param_groups[0]
    assert group["foreach"] is True
    make([mt.ones(1)], lr=0.1, maximize=False, differentiable=False)
    with pytest.raises(NotImplementedError, match="maximize=True"):
        make([mt.ones(1)], lr=0.1, maximize=True)
    with pytest.raises(TypeError, match="'fusd'"):
        make([mt.ones(1)], lr=0.1, fusd=True)


@pytest.mark.parametrize("name", ["ASGD", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_going_on_from_a_saved_state(name):
    make = getattr(optim, name)

    def step(w, optimizer):
        optimizer.zero_grad()
        w.sin().sum().backward()
        optimizer.step()

    w = mt.tensor([0.3, -1.0], requires_grad=True)
    first = make([w], lr=0.1)
    for _ in range(6):
        step(w, first)
    twin = w.detach().clone().requires_grad_()
    second = make([twin], lr=0.1)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        step(w, first)
        step(twin, second)
    assert w.tolist() == twin.tolist()


def test_schedules_go_on_from_a_saved_state():
    lr = optim.lr_scheduler

    def made(kind):
        optimizer = optim.SGD([mt.ones(1)], lr=1.0, momentum=0.5)
        return {
            "plateau": lambda: lr.ReduceLROnPlateau(optimizer, patience=1, factor=0.5),
            "restarts": lambda: lr.CosineAnnealingWarmRestarts(optimizer, 3, 2),
            "sequence": lambda: lr.SequentialLR(
                optimizer, [lr.ConstantLR(optimizer, 0.5, 9), lr.ExponentialLR(optimizer, 0.9)], [3]
            ),
            "cycle": lambda: lr.CyclicLR(optimizer, 0.1, 0.5, 3),
        }[kind]()

    for kind in ("plateau", "restarts", "sequence", "cycle"):
        options = (1.0,) if kind == "plateau" else ()
        first, second = made(kind), made(kind)
        for _ in range(5):
            first.step(*options)
        second.load_state_dict(first.state_dict())
        second.optimizer.load_state_dict(first.optimizer.state_dict())
        rates = []
        for _ in range(6):
            first.step(*options)
            second.step(*options)
            assert first.get_last_lr() == second.get_last_lr()
            rates += first.get_last_lr()
        assert len(set(rates)) > 1, kind


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda lr, o: lr.ReduceLROnPlateau(o, factor=1.0), "below 1"),
        (lambda lr, o: lr.ReduceLROnPlateau(o, "mean"), "'min' or 'max', got 'mean'"),
        (lambda lr, o: lr.ReduceLROnPlateau(o, min_lr=[0, 0]), "1 groups need as many min_lr"),
        (lambda lr, o: lr.CosineAnnealingWarmRestarts(o, 0), "T_0 must be a positive"),
        (lambda lr, o: lr.SequentialLR(o, [lr.ConstantLR(o)], [3]), "one milestone fewer"),
        (lambda lr, o: lr.CyclicLR(o, 0.1, 0.2, mode="square"), "mode 'square'"),
        (lambda lr, o: lr.CyclicLR(o, 0.1, 0.2), "betas or momentum"),
        (lambda lr, o: lr.ConstantLR(o, 2), "between 0 and 1"),
    ],
)
def test_errors_of_schedules(call, told):
    with pytest.raises(ValueError, match=told):
        optimizer = optim.Adagrad([mt.ones(1)], lr=1.0)
        call(optim.lr_scheduler, optimizer)


# Distributions


def test_draws_of_classes_follow_their_probabilities():
    mt.manual_seed(0)
    probs = mt.tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    policy = Categorical(probs)
    drawn = policy.sample((4000,))
    assert drawn.shape == (4000, 2) and drawn.dtype is mt.int64
    for row in range(2):
        shares = drawn[:, row].bincount(minlength=3) / 4000
        assert mt.allclose(shares, probs[row], atol=0.03)
    assert policy.sample().shape == (2,) and policy.sample((2, 5)).shape == (2, 5, 2)
    assert Categorical(logits=mt.zeros(3)).sample().shape == ()
    assert policy.mode.tolist() == [2, 0] and policy.mean.isnan().all()
    assert policy.enumerate_support(expand=False).shape == (3, 1)


def test_policy_gradient():
    mt.manual_seed(0)
    logits = mt.zeros(3, requires_grad=True)
    optimizer = optim.Adam([logits], lr=0.1)
    for _ in range(60):
        policy = Categorical(logits=logits)
        action = policy.sample((32,))
        reward = (action == 1).float()
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        (loss - 0.001 * policy.entropy()).backward()
        optimizer.step()
    assert Categorical(logits=logits).probs[1] > 0.9


def test_normal_draws_and_their_gradient():
    mt.manual_seed(0)
    loc = mt.tensor([0.0, 3.0], requires_grad=True)
    scale = mt.tensor([1.0, 0.5], requires_grad=True)
    drawn = Normal(loc, scale).rsample((5000,))
    assert mt.allclose(drawn.mean(0), loc, atol=0.06)
    assert mt.allclose(drawn.std(0), scale, atol=0.06)
    drawn.sum().backward()
    noise = (drawn.detach() - loc.detach()) / scale.detach()
    assert loc.grad.tolist() == [5000, 5000]
    assert mt.allclose(scale.grad, noise.sum(0), rtol=1e-3, atol=0.05)
    assert not Normal(loc, scale).sample().requires_grad
    quantile = Normal(0.0, 2.0).icdf(mt.tensor(0.975)).item()
    assert quantile == pytest.approx(2 * 1.959964, abs=1e-4)


def test_divergence_is_the_mean_of_the_difference():
    p = Categorical(logits=mt.tensor([0.1, 1.0, -1.0]))
    q = Categorical(probs=mt.tensor([0.2, 0.3, 0.5]))
    wanted = (p.probs * (p.logits - q.logits)).sum()
    assert mt.allclose(kl_divergence(p, q), wanted)
    certain = Categorical(probs=mt.tensor([1.0, 0.0, 0.0]))
    assert kl_divergence(p, certain).item() == math.inf
    assert kl_divergence(certain, p).item() == pytest.approx(-p.logits[0].item(), abs=1e-5)
    with pytest.raises(NotImplementedError, match="Categorical and Normal"):
        kl_divergence(p, Normal(0.0, 1.0))
    assert issubclass(Normal, Distribution)
    for call in (
        lambda: Categorical(mt.tensor([-1.0, 2.0])),
        lambda: Categorical(),
        lambda: Normal(0.0, -1.0),
        lambda: p.log_prob(mt.tensor(3)),
    ):
        with pytest.raises(ValueError):
            call()
    Normal(0.0, mt.tensor(-1.0), validate_args=False)
