"""Hooks of modules in backward and of optimizers around a step; the order as in PyTorch."""

import copy

import pytest

import minitorch as mt
from minitorch import nn, optim


class Several(nn.Module):
    """Two tensors and a string."""

    def forward(self, a, b):
        return a * b, a + 1, "x"


def listed(grads):
    return [None if grad is None else grad.tolist() for grad in grads]


def test_backward_hooks_see_gradients_of_inputs_and_outputs():
    module, seen = Several(), []
    handle = module.register_full_backward_hook(
        lambda m, inputs, outputs: seen.append((m is module, listed(inputs), listed(outputs)))
    )
    a, b = mt.tensor([1.0, 2], requires_grad=True), mt.tensor([3.0, 4])
    module(a, b)[0].sum().backward()
    assert seen.pop() == (True, [[3, 4], [0, 0]], [[1, 1], None, None])
    assert a.grad.tolist() == [3, 4]
    first, second, _ = module(a, 5)
    (2 * first + second).sum().backward()
    assert seen.pop() == (True, [[11, 11], None], [[2, 2], [1, 1], None])
    handle.remove()
    module(a, b)[0].sum().backward()
    with mt.no_grad():
        assert not module(a, b)[0].requires_grad
    assert seen == []


def test_backward_hooks_change_gradients():
    layer = nn.Linear(2, 1, bias=False)
    layer.register_full_backward_pre_hook(lambda m, outputs: (outputs[0] * 2,))
    layer.register_full_backward_hook(lambda m, inputs, outputs: inputs[0] * 10)
    seen = []
    layer.register_full_backward_hook(lambda m, inputs, outputs: seen.append((*inputs, *outputs)))
    x = mt.tensor([3.0, 4], requires_grad=True)
    for model in (layer, copy.deepcopy(layer)):
        x.grad = None
        model(x).sum().backward()
        assert model.weight.grad.tolist() == [[6, 8]]
        assert mt.allclose(x.grad, 20 * layer.weight[0])
        (into, out), seen = seen[0], [seen.clear()] and seen
        assert mt.allclose(into, x.grad) and out.tolist() == [2]


def test_backward_hooks_where_no_input_needs_a_gradient():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs)))
    layer(mt.ones(2)).sum().backward()
    [(inputs, [output])] = seen
    assert inputs == (None,) and output.tolist() == [1]
    layer.register_full_backward_hook(lambda m, inputs, outputs: outputs)
    with pytest.raises(RuntimeError, match="no input.*return None"):
        layer(mt.ones(2)).sum().backward()


def test_backward_hooks_of_nested_calls():
    class Tree(nn.Module):
        def forward(self, x, depth):
            return 3 * x if not depth else 2 * self(x, depth - 1)

    tree, seen = Tree(), []
    tree.register_full_backward_hook(lambda m, i, o: seen.append((listed(i), listed(o))))
    x = mt.ones(1, requires_grad=True)
    tree(x, 2).backward()
    assert seen == [([[12], None], [[out]]) for out in (4, 2, 1)] and x.grad.tolist() == [12]


def test_backward_hooks_refuse_what_they_cannot_follow():
    module = nn.ReLU(inplace=True)
    module.register_full_backward_hook(lambda m, i, o: None)
    x = mt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="view.*change a copy"):
        module(x * 1)
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, i, o: (i[0], i[0]))
    with pytest.raises(RuntimeError, match="None or 1 gradients; got 2"):
        layer(x).sum().backward()

    class Named(nn.Module):
        def forward(self, x):
            return {"x": x}

    named = Named()
    named.register_full_backward_pre_hook(lambda m, o: None)
    with pytest.warns(UserWarning, match="a dict"):
        named(x)


@pytest.mark.parametrize("copied", [False, True])
def test_hooks_around_a_step(copied):
    weight = nn.Parameter(mt.ones(1))
    weight.grad = mt.ones(1)
    optimizer, seen = optim.SGD([weight], lr=1.0), []

    def note(when):
        return lambda o, args, kwargs: seen.append(
            (when, o is optimizer, args[0] is optimizer, args[1:], [*kwargs], weight.item())
        )

    optimizer.register_step_pre_hook(note("before"))
    handle = optimizer.register_step_post_hook(note("after"))
    if copied:
        optimizer = copy.deepcopy(optimizer)
        [weight] = optimizer.param_groups[0]["params"]
        weight.grad = mt.ones(1)
    optimizer.step()
    assert optimizer.step(closure=lambda: 7) == 7
    assert seen == [
        ("before", True, True, (), [], 1),
        ("after", True, True, (), [], 0),
        ("before", True, True, (), ["closure"], 0),
        ("after", True, True, (), ["closure"], -1),
    ]
    handle.remove()
    seen.clear()
    if not copied:
        optimizer.step()
        assert [when for when, *_ in seen] == ["before"]


def test_a_hook_before_a_step_changes_its_arguments():
    class Own(optim.Optimizer):
        def step(self, scale):
            return scale

    optimizer = Own([nn.Parameter(mt.ones(1))], {})
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, 2 * args[1]), kwargs))
    assert optimizer.step(3) == 6
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"pair \(args, kwargs\).*got 3"):
        optimizer.step(3)
