"""``autograd.Function`` and ``utils.checkpoint``: gradients, changes in place, what is refused."""

import gc
import random
import weakref

import gradients as judges
import numpy as np
import pytest
from gradients import Case

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd.function import Function, once_differentiable
from minitorch.backend import to_numpy
from minitorch.utils.checkpoint import checkpoint, checkpoint_sequential


class Product(Function):
    """x * y * factor, and x + y."""

    @staticmethod
    def forward(ctx, x, y, factor):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x + y

    @staticmethod
    @once_differentiable
    def backward(ctx, toward_product, toward_sum):
        x, y = ctx.saved_tensors
        toward_product = toward_product * ctx.factor
        return toward_product * y + toward_sum, toward_product * x + toward_sum, None


class Exponential(Function):
    """exp(x), whose gradient needs the result."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        assert not mt.is_grad_enabled() and not result.requires_grad
        return grad * result


class Doubled(Function):
    """2 x, in place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_gradients_of_a_function():
    for seed in range(30):
        draw = judges.Draw(random.Random(seed).randint)
        factor = draw.pick(2, 0.5)
        inputs = [draw.array(shape) for shape in draw.broadcastable(2)]
        case = Case(
            lambda x, y, factor=factor: Product.apply(x, y, factor),
            inputs,
            lambda x, y, factor=factor: (x * y * factor, x + y),
        )
        judges.check_values(case)
        judges.check_differences(case)


def test_what_is_saved_must_not_change():
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    for change in (lambda y: y.add_(1), lambda y: y[:1].zero_(), lambda y: y.detach().mul_(2)):
        y = x * 1
        product, total = Product.apply(y, x, 2.0)
        change(y)
        with pytest.raises(RuntimeError, match="gradient of Product needs .*changed in place"):
            product.sum().backward()
    result = Exponential.apply(x)
    result.mul_(2)
    with pytest.raises(RuntimeError, match="gradient of Exponential"):
        result.sum().backward()
    y = x * 1
    y.add_(1)
    Exponential.apply(y).sum().backward()
    assert mt.allclose(x.grad, (x.detach() + 1).exp())


def test_changes_in_place_become_part_of_the_history():
    x = mt.ones(4, requires_grad=True)
    y = x * 3
    used_before = (y * 1).sum()
    assert Doubled.apply(y) is y and y.tolist() == [6] * 4
    Doubled.apply(y[1:3])
    (y * y).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [72, 288, 288, 72]
    used_before.backward()
    y = x * 3
    squared = (y * y).sum()
    Doubled.apply(y)
    with pytest.raises(RuntimeError, match="changed in place"):
        squared.backward()
    for leaf in (x, x[:2]):
        with pytest.raises(RuntimeError, match="leaf"):
            Doubled.apply(leaf)
    with mt.no_grad():
        z = mt.ones(2)
        assert Doubled.apply(z) is z and z.tolist() == [2, 2]

    class Forgetful(Doubled):
        @staticmethod
        def forward(ctx, x):
            Doubled.forward(ctx, x)
            return x.clone()

    with pytest.raises(RuntimeError, match="Forgetful.forward must return"):
        Forgetful.apply(x * 1)


def test_a_result_that_shows_an_argument():
    class Reversed(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return -grad

    x = mt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    result = Reversed.apply(y)
    assert result is not y and result.grad_fn.name == "Reversed"
    result.sum().backward()
    assert x.grad.tolist() == [-2, -2]
    result = Reversed.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="a view, of an argument of Reversed"):
        (result * 2).sum()


def test_gradients_that_backward_keeps_are_not_added_to():
    kept = mt.ones(2)

    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return kept

    x = mt.zeros(2, requires_grad=True)
    (x * 5 + Constant.apply(x) + Constant.apply(x)).sum().backward()
    assert x.grad.tolist() == [7, 7] and kept.tolist() == [1, 1]
    x.grad.add_(1)
    assert kept.tolist() == [1, 1]


def test_nothing_is_left_behind():
    x = mt.ones(3, requires_grad=True)
    result = Exponential.apply(x)
    node = weakref.ref(result.array)
    del result
    gc.collect()
    assert node() is None


def test_a_function_within_a_function():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            with mt.enable_grad():
                leaf = x.detach().requires_grad_()
                ctx.result, ctx.leaf = (leaf * leaf).sum(), leaf
            return ctx.result.detach()

        @staticmethod
        def backward(ctx, grad):
            with mt.enable_grad():
                ctx.result.backward(grad)
            return ctx.leaf.grad

    x = mt.tensor([1.0, -2.0], requires_grad=True)
    (3 * Square.apply(x)).backward()
    assert x.grad.tolist() == [6, -12]


def test_errors_of_a_function():
    class Nothing(Function):
        pass

    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, grad):
            return Wrong.answer

    x = mt.ones(2, 3, requires_grad=True)
    for call in (lambda: Nothing.apply(x), lambda: Nothing()(x)):
        with pytest.raises((NotImplementedError, RuntimeError), match=r"forward\(ctx|apply"):
            call()
    for answer, told in [
        (mt.ones(2, 3), "for each of the 2 arguments; got 1"),
        ((mt.ones(2, 3), mt.ones(1)), "argument 1, which is no tensor"),
        ((mt.ones(2), None), r"of shape \(2, 3\) for argument 0; got"),
        ((5, None), "got int"),
        ((None, None, mt.ones(1)), "got 3"),
    ]:
        Wrong.answer = answer
        with pytest.raises(RuntimeError, match=told):
            Wrong.apply(x, 2).sum().backward()
    Wrong.answer = (None, None, None)
    Wrong.apply(x, 2).sum().backward()
    assert x.grad is None
    with pytest.raises(TypeError, match="keep other things as attributes"):
        mt.autograd.function.FunctionCtx().save_for_backward(3)


# Checkpoints


def _block():
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.4), nn.LayerNorm(6))


def _gradients(run, model, x):
    mt.manual_seed(1)
    model.zero_grad()
    x.grad = None
    result = run(x)
    result.sum().backward()
    return [result.detach(), x.grad, *(p.grad for p in model.parameters()), mt.rand(1)]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_changes_no_number(use_reentrant):
    mt.manual_seed(0)
    model = nn.Sequential(*[_block() for _ in range(4)])
    x = mt.randn(3, 6, requires_grad=True)

    def each(y):
        for block in model:
            y = checkpoint(block, y, use_reentrant=use_reentrant)
        return y

    def nested(y):
        inside = lambda z: checkpoint(model[1], model[0](z), use_reentrant=use_reentrant)  # noqa: E731
        y = checkpoint(inside, y, use_reentrant=use_reentrant)
        return model[3](model[2](y))

    def in_segments(y):
        return checkpoint_sequential(model, 3, y, use_reentrant=use_reentrant)

    wanted = _gradients(model, model, x)
    for run in (each, nested, in_segments):
        for got, expected in zip(_gradients(run, model, x), wanted, strict=True):
            assert mt.equal(got, expected)


def test_a_checkpoint_keeps_little_and_runs_twice():
    calls = []

    def function(x):
        calls.append(mt.is_grad_enabled())
        for _ in range(6):
            x = x.sin()
            kept.append(weakref.ref(x.array))
        return x

    kept, x = [], mt.randn(50, requires_grad=True)
    result = checkpoint(function, x, use_reentrant=False)
    gc.collect()
    assert sum(array() is not None for array in kept) == 1 and len(calls) == 1
    result.sum().backward(retain_graph=True)
    first = x.grad.clone()
    assert calls == [True, True]
    gc.collect()
    assert sum(array() is not None for array in kept) == 1
    result.sum().backward()
    assert mt.equal(x.grad, 2 * first) and len(calls) == 3
    with pytest.raises(RuntimeError, match="went through this graph before"):
        result.sum().backward()


def test_a_checkpoint_without_random_state():
    mt.manual_seed(0)
    x = mt.ones(1000, requires_grad=True)
    result = checkpoint(lambda y: F.dropout(y), x, use_reentrant=False, preserve_rng_state=False)
    result.sum().backward()
    assert not mt.equal(x.grad, result.detach())
    x.grad = None
    result = checkpoint(lambda y: F.dropout(y), x, use_reentrant=False)
    result.sum().backward()
    assert mt.equal(x.grad, result.detach())


def test_several_results_keyword_arguments_and_changes_inside():
    def function(pair, scale):
        a, b = pair
        a = a * scale
        a[0] = b.sum()
        a.mul_(b)
        return {"a": a, "b": [b * a]}

    x, y = (mt.randn(3, requires_grad=True) for _ in range(2))
    found = []
    for run in (function, lambda *a, **k: checkpoint(function, *a, use_reentrant=False, **k)):
        x.grad = y.grad = None
        out = run((x, y), scale=2.0)
        (out["a"].sum() + (out["b"][0] ** 2).sum()).backward()
        found.append((to_numpy(x.grad.array), to_numpy(y.grad.array)))
    np.testing.assert_array_equal(found[0], found[1])
    (only,) = mt.autograd.grad(checkpoint(mt.exp, x, use_reentrant=False).sum(), [x])
    assert mt.allclose(only, x.detach().exp())


def test_what_a_checkpoint_refuses():
    x = mt.ones(3, requires_grad=True)
    y = x * 1
    result = checkpoint(lambda z: z.sin() * 2, y, use_reentrant=False)
    y.add_(1)
    with pytest.raises(RuntimeError, match="argument of checkpoint, of shape .* was changed"):
        result.sum().backward()
    runs = []

    def other(z):
        runs.append(1)
        return z.sin() * 2 if len(runs) == 1 else z.cos()

    result = checkpoint(other, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match=r"other operations.*\(1 recorded operations, 2 before"):
        result.sum().backward()
    with pytest.raises(ValueError, match="no keyword arguments, got n: pass use_reentrant=False"):
        checkpoint(lambda z, n: z, x, use_reentrant=True, n=2)
    with pytest.warns(UserWarning, match="say use_reentrant"):
        checkpoint(mt.sin, x)
    with pytest.warns(UserWarning, match="requires a gradient"):
        assert not checkpoint(lambda z: z * x, mt.ones(3), use_reentrant=True).requires_grad
    assert checkpoint(lambda z: z * x, mt.ones(3), use_reentrant=False).requires_grad
    with mt.no_grad():
        assert not checkpoint(mt.sin, x, use_reentrant=False).requires_grad
