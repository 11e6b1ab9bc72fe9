"""Every operation, with an argument or its result changed in place before backward.

The gradient is then still that of finite differences, or backward refuses and says what was
changed. Never is it another number.
"""

import copy
import functools
import itertools
import pickle
import random
import threading
from collections import Counter

import gradients
import numpy as np
import pytest
from rows import ROWS

import minitorch as mt
from minitorch.autograd import inplace
from minitorch.autograd.modes import listening
from minitorch.autograd.node import state
from minitorch.backend import to_numpy


def other_values(array):
    """Values of the same type that differ everywhere; integers stay positions that exist."""
    if array.dtype == bool:
        return np.asarray(~array)
    other = np.where(array == 0, array.max(), 0) if array.dtype.kind in "iu" else 7 - 3 * array
    return np.asarray(other, dtype=array.dtype)


def by_method(x, values):
    x.copy_(values)


def by_operator(x, values):
    if x.dtype is mt.bool:
        x ^= True
    else:
        x += values - x.detach()


def by_index(x, values):
    x[...] = values


def by_mask(x, values):
    mask = mt.ones(x.shape, dtype=mt.bool)
    x[mask] = values[mask]


def through_view(x, values):
    x.unsqueeze(0)[0].copy_(values)


def through_detach(x, values):
    x.detach().copy_(values)


def through_data(x, values):
    x.data.copy_(values)


def under_no_grad(x, values):
    with mt.no_grad():
        x.copy_(values)


WAYS = [
    by_method,
    by_operator,
    by_index,
    by_mask,
    through_view,
    through_detach,
    through_data,
    under_no_grad,
]


def is_array(value):
    return hasattr(value, "strides")


class Program:
    """A case's function, called once: its leaves, its results, and all arrays that took part."""

    def __init__(self, case, name):
        self.leaves = [gradients.tensor_of(x.copy()).requires_grad_() for x in case.inputs]
        self.arguments = [x * 1 for x in self.leaves]
        self.arrays = []

        def listen(heard, inputs, outputs, backward):
            if heard == name and not backward:
                tensors = map(mt.Tensor._wrap, (x for x in (*inputs, *outputs) if is_array(x)))
                self.arrays = [x.array for x in tensors if x.array.size]

        with listening(listen):
            self.outputs = gradients.outputs_of(case.function(*self.arguments))
        self.used = [y * 1 for y in self.outputs]

    def change(self, place, way):
        """Change an array, through its tensor if the program has one."""
        array = self.arrays[place]
        tensors = [x for x in (*self.arguments, *self.outputs) if x.array is array]
        x = tensors[0] if tensors else mt.Tensor._wrap(array)
        way(x, gradients.tensor_of(other_values(to_numpy(array))))

    def gradients(self):
        weights = map(mt.tensor, gradients.weights_of(self.used))
        chosen = [(y, w) for y, w in zip(self.used, weights, strict=True) if y.requires_grad]
        mt.autograd.backward(*map(list, zip(*chosen, strict=True)))
        return [
            np.zeros(x.shape) if x.grad is None else to_numpy(x.grad.array) for x in self.leaves
        ]


def outcome(program, place, way, expected):
    """What becomes of a program: it is right, wrong, refused, or cannot be written."""
    try:
        program.change(place, way)
    except RuntimeError:
        return "cannot be written"
    try:
        got = program.gradients()
    except RuntimeError as error:
        assert "changed in place" in str(error), error
        return "refused"
    same = all(np.allclose(a, b, 1e-5, 1e-6) for a, b in zip(got, expected, strict=True))
    return "right" if same else "wrong"


def cases(name):
    """Some calls of an operation that have a gradient, each with its finite differences."""
    for seed in range(4):
        case = ROWS[name](gradients.Draw(random.Random(seed).randint))
        if case.differentiable and any(x.size for x in case.inputs):
            weights = gradients.weights_of(Program(case, name).outputs)
            yield case, gradients.differences(case, weights)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_gradient_is_right_or_refused(name):
    wrong = []
    for case, expected in cases(name):
        for place in range(len(Program(case, name).arrays)):
            for way in WAYS:
                result = outcome(Program(case, name), place, way, expected)
                gradients.counts[f"changes in place: {result}"] += 1
                if result == "wrong":
                    wrong.append((place, way.__name__))
    assert not wrong, Counter(wrong)


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"to_module"}))  # which is between devices
def test_a_result_in_the_memory_of_an_argument_is_a_view(name):
    for seed in range(8):
        case = ROWS[name](gradients.Draw(random.Random(seed).randint))
        arguments = [gradients.tensor_of(x) for x in case.inputs]
        for y in gradients.outputs_of(case.function(*arguments)):
            shared = [np.may_share_memory(to_numpy(x.array), to_numpy(y.array)) for x in arguments]
            assert not any(shared) or y._view is not None or any(y is x for x in arguments)


def leaf(*values):
    return mt.tensor(values, requires_grad=True)


@pytest.mark.parametrize("layer", ["linear", "matmul", "addmm", "einsum"])
def test_a_residual_connection_in_place_is_refused(layer):
    w, x = mt.ones(2, 2).requires_grad_(), mt.ones(1, 2)
    with pytest.raises(RuntimeError, match=r"shape \(1, 2\).*changed in place.*x = x \+ y"):
        if layer == "linear":
            x += mt.nn.functional.linear(x, w)
        elif layer == "matmul":
            x += x @ w
        elif layer == "addmm":
            x += mt.addmm(x, x, w)
        else:
            x += mt.einsum("bi,io->bo", x, w)
        x.sum().backward()


def test_an_index_that_goes_on_is_refused():
    table, i = mt.ones(4, 1).requires_grad_(), mt.tensor([0])
    rows = []
    for _ in range(3):
        rows.append(table[i])
        i += 1
    with pytest.raises(RuntimeError, match="getitem.*changed in place"):
        mt.cat(rows).sum().backward()


def test_what_a_gradient_keeps_is_found_wherever_it_is():
    @mt.autograd.operation()
    def hidden(input, keep):
        factor = input * 1 if keep == "copy" else input
        ways = {
            "copy": lambda g: g * factor,
            "default": lambda g, factor=input: g * factor,
            "named default": lambda g, *, factor=input: g * factor,
            "list": (lambda held: lambda g: g * held[0][0])([(factor,)]),
            "dict": (lambda held: lambda g: g * held["factor"])({"factor": factor}),
            "partial": functools.partial(lambda factor, g: g * factor, factor[...]),
            "named in partial": functools.partial(lambda g, factor: g * factor, factor=factor),
            "function": (lambda inner: lambda g: inner(g))(lambda g: g * factor),
        }
        return input * input / 2, (ways[keep],)

    ways = ["default", "named default", "list", "dict", "partial", "named in partial", "function"]
    for keep in ["copy", *ways]:
        x = leaf(3.0)
        y = x * 1
        z = hidden(y, keep)
        y += 1
        if keep == "copy":
            z.backward()
            assert x.grad.tolist() == [3.0]
        else:
            with pytest.raises(RuntimeError, match="hidden.*changed in place"):
                z.backward()


def test_gradients_that_were_used_and_changed_are_noticed():
    w = leaf(1.0, 1.0)
    (w * 3).sum().backward()
    used = (w * w.grad).sum()
    mt.nn.utils.clip_grad_norm_([w], 0.1)
    with pytest.raises(RuntimeError, match="changed in place"):
        used.backward()
    used = (w * w.grad).sum()
    (w * 5).sum().backward()
    with pytest.raises(RuntimeError, match="changed in place"):
        used.backward()


def test_a_gradient_may_be_used_in_the_pass_that_adds_to_it():
    w = leaf(2.0)
    (w * 3).sum().backward()
    twice = w * w.grad * w
    twice.sum().backward()  # 3 + d(3 w^2) / dw
    assert w.grad.tolist() == [15.0]


@pytest.mark.parametrize("change", [lambda w: w.mul_(2), lambda w: w.__imul__(w.detach())])
def test_a_leaf_is_refused_in_its_own_words(change):
    with pytest.raises(RuntimeError, match="a leaf tensor that requires a gradient.*no_grad"):
        change(leaf(1.0, 2.0))


def test_views_whose_base_was_reshaped_or_cut_off_are_refused():
    x = mt.arange(4.0).reshape(2, 2).requires_grad_()
    y = x * 1
    row = y[0]
    y.t_()
    with pytest.raises(RuntimeError, match="given another shape.*clone"):
        row.mul_(2)
    y = x * 1
    row = y[0]
    y.detach_()
    with pytest.raises(RuntimeError, match=r"detach_\(\).*take the view again"):
        row * 1


def test_a_shape_is_not_changed_where_the_history_would_miss_it():
    x = mt.ones(2, 1).requires_grad_()
    y = x * 2
    with mt.no_grad(), pytest.raises(RuntimeError, match="no_grad.*without the underscore"):
        y.squeeze_()
    y.data = mt.ones(3, 2)
    with pytest.raises(RuntimeError, match=r"\(3, 2\) arrived at.*\(2, 1\)"):
        (y * 1).sum().backward()


def test_forgotten_memory_leaves_nothing_behind():
    before = len(inplace.changes)
    for _ in range(3):
        mt.zeros(2).add_(1)
    assert len(inplace.changes) == before


def test_lists_that_change_after_they_were_given():
    x, dims, sizes = leaf(2.0, 3.0), [1, 0], [2]
    table = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    turned, twice = mt.permute(table, dims), mt.repeat(x, sizes)
    dims.reverse()
    sizes[0] = 1
    table.mul_(x)
    (turned[0].sum() + twice.sum()).backward()  # x0 + 3 x0 + 2 (x0 + x1)
    assert x.grad.tolist() == [6.0, 2.0]


def test_assignment_is_refused_as_other_changes_are():
    y = leaf(1.0, 2.0) * 2
    with mt.no_grad():
        view = y[:1]
    with pytest.raises(RuntimeError, match=r"inside no_grad\(\)"):
        view[0] = 5.0
    base = mt.zeros(2)
    view = base[:1]
    base.requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        view[0] = 5.0
    assert y.tolist() == [2.0, 4.0] and base.tolist() == [0.0, 0.0]


@pytest.mark.cpu
def test_a_part_of_an_expanded_tensor_and_read_only_memory_are_refused():
    values = np.ones(3)
    values.flags.writeable = False
    for x in (mt.zeros(2).expand(3, 2)[0], mt.from_numpy(values)):
        with pytest.raises(RuntimeError, match="expanded.*read-only.*clone"):
            x.add_(1)


def test_a_gradient_is_added_only_where_it_fits():
    x = leaf(1.0, 2.0)
    for grad, match in [
        (mt.ones(2, 2), r"adding to grad.*\(2, 2\).*\(2,\)"),
        (mt.ones(1).expand(2), "expanded"),
    ]:
        x.grad = grad
        with pytest.raises(RuntimeError, match=match):
            (x * 2).sum().backward()


def test_what_an_optimizer_remembers_changes_in_place():
    w, x = mt.nn.Parameter(mt.ones(1)), leaf(1.0)
    optimizer = mt.optim.SGD([w], lr=0.1, momentum=0.9)
    (w * w).sum().backward()
    optimizer.step()
    used = (x * optimizer.state[w]["momentum_buffer"]).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        used.backward()


def test_a_view_that_changed_does_not_keep_the_gradient_of_what_it_was():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    view.retain_grad()
    view.mul_(3)
    (y * y).sum().backward(retain_graph=True)  # through y, not through the view
    assert view.grad is None and x.grad.tolist() == [18.0, 4.0]
    (view * view).sum().backward()
    assert view.grad.tolist() == [6.0]


def test_a_leaf_that_was_switched_off_keeps_no_gradient():
    x, w = leaf(1.0), leaf(2.0)
    y = x * w
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None and w.grad.tolist() == [1.0]


@pytest.mark.cpu
def test_numpy_of_a_view_whose_base_has_a_history_now():
    table = mt.zeros(2)
    row = table[:1]
    table.mul_(leaf(1.0, 2.0))
    with pytest.raises(RuntimeError, match="detach"):
        row.numpy()


def test_the_latest_change_is_known_though_two_threads_change_at_once(monkeypatch):
    times, threads = itertools.count(next(state.clock)), []
    x, y = mt.zeros(1), mt.zeros(1)

    class Clock:
        def __next__(self):
            time = next(times)
            if not threads:
                threads.append(threading.Thread(target=lambda: y.add_(1)))
                threads[0].start()
                threads[0].join(0.1)  # as far as it comes
            return time

    monkeypatch.setattr(state, "clock", Clock())
    x.add_(1)
    threads[0].join()
    assert state.last_change == inplace.changes[id(y.array)].time


# Copies by Python, which show no memory of others and have no history


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_by_python(copied):
    x = mt.nn.Parameter(mt.tensor([1.0, 2.0]))
    x.grad, x.note = mt.ones(2), "kept"
    twin = copied(x)
    assert type(twin) is mt.nn.Parameter and twin.requires_grad and twin.note == "kept"
    assert twin.tolist() == [1.0, 2.0] and twin.grad.tolist() == [1.0, 1.0]
    table = mt.zeros(2)
    row = table[:1]
    assert copied(row)._view is None
    table.copy_(leaf(3.0, 4.0))
    for computed in (x * 2, row):
        with pytest.raises(RuntimeError, match="leaf.*detach"):
            copied(computed)


def test_tensors_of_one_array_are_copied_to_tensors_of_one_array():
    x = mt.zeros(2)
    first, second = copy.deepcopy((x, x.detach()))
    first.add_(1)
    assert second.tolist() == [1.0, 1.0] and x.tolist() == [0.0, 0.0]
