"""Calls between the grader and a student: values, gradients, errors, and what is refused."""

import concurrent.futures
import copy
import os
import socket
import time
import traceback
import types

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from authoring.grading import values
from authoring.grading.peer import Peer, Refused
from authoring.grading.stand_ins import Number  # noqa: F401  used by what students ask
from authoring.grading.wire import Lost, Wire
from minitorch import nn, optim
from minitorch.autograd import record_operations
from minitorch.flops import count_flops
from tests.checks.small import exercise
from textbook.checks.exercise import CheckFailed, Exercise

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="made with fork")


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.sizes = [size]

    def forward(self, x):
        self.seen = x
        return self.inner(x).tanh()


def double(x, times=2):
    return times * x


def in_place(x, values):
    x[0] = 7
    values.append(3)
    return x.sum()


def noted(seen):
    seen.add(3)
    return seen


def through(x, layers):
    for first, second in layers:
        x = first(x) + second(x)
    return x


def train(model, loss_function, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_function(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def schedule(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def stops(x):
    raise ValueError("no such thing")


def blank(x):
    raise NotImplementedError("write your solution here")


def endless():
    while True:
        yield 1


def product(a, b):
    return a.T @ b


def passed_on(x, function):
    return function(x * 2)


def moved_copy(model, x):
    moved = copy.deepcopy(model)
    with mt.no_grad():
        for parameter in moved.parameters():
            parameter.add_(1)
    return moved(x)


def add_to_gradient(x):
    x.sum().backward()


def slope_of(program):
    x = mt.ones(2).requires_grad_()
    return mt.autograd.grad(program(lambda x: x, x).sum(), x)[0]


def drawn(draw):
    return [draw(), mt.rand(1).item(), draw(), mt.rand(1).item()]


def ends():
    os._exit(0)


def bounce(function):
    return function(bounce)


def reply_with(peer, value):
    send = peer.wire.send
    peer.wire.send = lambda message, arrays: send(message | {"value": value}, arrays)


def in_threads(function, values):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(function, values))


def in_odd_modes(function):
    values.modes = lambda: {"gradients": False, "default": "no such type", "single": "<f2"}
    return function(1)


@pytest.fixture
def student():
    """The grader's end of a connection to a process that serves the functions of this file."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        peer = Peer(Wire(theirs), trusting=True)
        peer.extra["name"] = lambda name: globals()[name]
        peer.extra["do"] = lambda text, given: eval(
            text, globals() | {"peer": peer, "given": given}
        )
        try:
            peer.serve()
        except BaseException:
            os._exit(0)
    theirs.close()
    peer = Peer(Wire(ours), trusting=False, refused=(types.ModuleType, Exercise))
    peer.wire.link.settimeout(60)
    peer.named = lambda name: peer.ask("name", name=name)
    yield peer
    ours.close()
    os.waitpid(process, 0)


def test_values_come_as_copies_of_their_kind(student):
    function = student.named("double")
    for value in (
        3,
        2.5,
        2**80,
        True,
        "ab",
        [1, (2,)],
        np.arange(3),
        np.float32(2),
        1j,
        (),
        mt.inf,
    ):
        result = function(value)
        assert type(result) is type(double(value))
        assert np.all(result == double(value))
    assert np.isnan(function(float("nan")))
    assert function(mt.tensor([1, 2])).dtype == mt.int64
    assert function(2, times=5) == 10
    same = student.named("product").__name__, function.__name__
    assert same == ("product", "double")
    assert student.named("endless")()[:2] == [1, 1]


def test_a_gradient_that_is_there_goes_with_its_tensor(student):
    x = mt.ones(2).requires_grad_()
    x.grad = mt.tensor([3.0, 4.0])
    student.named("add_to_gradient")(x)
    assert x.grad.tolist() == [4.0, 5.0]


def test_gradients_flow_through_the_other_process(student):
    weights = mt.randn(2, 2).requires_grad_()
    layers = [(lambda x: (x @ weights).tanh(), lambda x: x * 3)] * 2
    leaves = [mt.randn(3, 2).requires_grad_() for _ in range(2)]
    leaves[1].data = leaves[0].data.clone()
    for leaf, function in zip(leaves, (student.named("through"), through), strict=True):
        weights.grad = None
        function(leaf.clone(), layers).sum().backward()
        leaf.weights = weights.grad
    assert np.allclose(leaves[0].grad.array, leaves[1].grad.array)
    assert np.allclose(leaves[0].weights.array, leaves[1].weights.array)


def test_what_is_changed_in_place_is_told(student):
    x, values = mt.zeros(3), [1, 2]
    assert student.named("in_place")(x, values).item() == 7
    assert x.tolist() == [7, 0, 0]
    assert values == [1, 2, 3]
    seen = {1, "a"}
    assert student.named("noted")(seen) == seen == {1, "a", 3}


def test_a_student_s_class_can_be_driven(student):
    module = student.named("Layer")(2).double()
    assert isinstance(module, nn.Module) and module.sizes == [2]
    assert [name for name, _ in module.named_parameters()] == ["inner.weight", "inner.bias"]
    right = nn.Linear(2, 2).double()
    module.load_state_dict({f"inner.{name}": p for name, p in right.state_dict().items()})
    x = mt.randn(3, 2, dtype=mt.float64).requires_grad_()
    output = module(x)
    assert np.allclose(output.array, right(x).tanh().array)
    assert module.seen is x
    output.sum().backward()
    grads = [p.grad.array for p in module.parameters()]
    right(x).tanh().sum().backward()
    for found, p in zip(grads, right.parameters(), strict=True):
        assert np.allclose(found, p.grad.array)


def test_a_student_s_function_can_train_what_the_grader_holds(student):
    ends = []
    for function in (student.named("train"), train):
        mt.manual_seed(0)
        model, x, y = nn.Linear(2, 1), mt.randn(5, 2), mt.randn(5, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        losses = [function(model, F.mse_loss, optimizer, x, y) for _ in range(3)]
        ends.append((losses, model.weight.tolist()))
    assert ends[0] == ends[1]
    student.named("schedule")(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_threads_of_an_answer_ask_one_after_the_other(student):
    in_threads = student.named("in_threads")
    assert in_threads(lambda x: double(x, 3), list(range(60))) == [3 * x for x in range(60)]


def test_operations_are_heard(student):
    a, b = mt.randn(3, 4), mt.randn(3, 5)
    counts = []
    for function in (student.named("product"), product):
        with record_operations() as names, count_flops() as counter:
            function(a, b)
        counts.append((names, counter.total))
    assert counts[0] == counts[1]
    assert counts[0][1] == 2 * 3 * 4 * 5


def test_errors_keep_type_text_and_line(student):
    with pytest.raises(ValueError, match="no such thing") as caught:
        student.named("stops")(1)
    assert type(caught.value).__name__ == "ValueError"
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.line) == ("stops", 'raise ValueError("no such thing")')
    with pytest.raises(NotImplementedError) as caught:
        student.named("blank")(1)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "blank"


def _cell():
    def rnn_cell(x_t, h, W_ih, W_hh, b):
        return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()

    def cases(draw):
        normal = draw.normal
        yield normal(2, 3), normal(2, 4), normal(4, 3), normal(4, 4), normal(4)

    return exercise(cases=cases, see="the tests", forbidden=("linear",), instead="@")(rnn_cell)


def test_a_check_runs_on_an_answer_of_the_other_process(student):
    check = _cell()
    with pytest.raises(CheckFailed, match=r"expected a function of \(x_t, h, W_ih, W_hh, b\)"):
        check(student.named("double"))
    right = "lambda x_t, h, W_ih, W_hh, b: (x_t @ W_ih.T + h @ W_hh.T + b).tanh()"
    for hidden in (False, True):
        check(student.ask("do", text=right, given=None), hidden=hidden)
    with pytest.raises(CheckFailed, match="carries no gradient"):
        check(student.ask("do", text=right + ".detach()", given=None))
    with pytest.raises(CheckFailed, match="runs the library's 'linear'"):
        linear = "lambda x_t, h, W_ih, W_hh, b: F.linear(x_t, W_ih, b)"
        check(student.ask("do", text=linear, given=None))


@pytest.mark.parametrize(
    "text",
    [
        "peer.ask('get', object=given._number, name='__globals__')",
        "peer.ask('get', object=given._number, name='_hidden')",
        "peer.ask('get', object=Number(10**6), name='x')",
        "peer.ask('set', object=given._number, name='value', value=2)",
        "peer.ask('put', object=given._number, key='value', value=2)",
        "peer.ask('name', name='double')",
        "peer.ask('gradients', number=10**6, weight=mt.ones(1))",
        "given.exercise",
        "given.module",
    ],
)
def test_a_student_s_process_is_refused_what_is_not_its(student, text):
    class Given:
        value, _hidden, exercise, module = 1, 2, _cell(), np

    given = Given()
    with pytest.raises((Refused, AttributeError, KeyError, Exception)) as caught:
        student.ask("do", text=text, given=given)
    assert caught.type.__name__ in ("Refused", "AttributeError", "KeyError"), caught.value
    assert given.value == 1 and student.ask("do", text="given.value", given=given) == 1


def test_a_process_that_sends_nonsense_is_lost(student):
    with pytest.raises(Lost, match="no message"):
        student.ask("do", text="peer.wire.link.sendall(b'\\0\\0\\0\\2\\0\\0\\0\\0[]')", given=None)


@pytest.mark.parametrize(
    "value",
    [
        ["_getattribute__", "peer"],
        ["_init__", None, None],
        ["library", "minitorch", "tensor"],
        ["module", 1, None, [[], [], []], []],
        ["integer", "f" * 10**5],
        ["dtype", "no such type"],
        ["array", ["|O", [1], 0]],
    ],
)
def test_a_process_that_replies_with_no_value_is_lost(student, value):
    with pytest.raises(Lost, match="no reply"):
        student.ask("do", text=f"reply_with(peer, {value!r})", given=None)


def test_the_grader_s_modes_are_its_own(student):
    with pytest.raises(AttributeError):
        student.ask("do", text="in_odd_modes(given)", given=lambda x: x)
    assert mt.is_grad_enabled() and mt.float32.numpy == np.float32


def test_calls_between_both_without_end_have_one(student):
    with pytest.raises(RecursionError):
        student.named("bounce")(bounce)
    assert student.named("double")(2) == 4


def test_a_process_that_sends_too_much_is_lost(student):
    with pytest.raises(Lost, match="too much"):
        student.ask("do", text="peer.wire.link.sendall(b'\\xff' * 8)", given=None)


def test_waiting_has_an_end(student):
    student.wire.deadline = 0
    with pytest.raises(Lost, match="too slow"):
        student.named("double")


def test_seconds_without_a_processor_do_not_count(student):
    grants = [60.0]
    student.wire.grant = lambda: grants.pop() if grants else 0.0
    student.wire.deadline = time.monotonic() - 1
    assert student.named("double")(2) == 4
    assert not grants
    student.wire.deadline = time.monotonic() + 0.2
    with pytest.raises(Lost, match="too slow"):
        student.ask("do", text="__import__('time').sleep(3)", given=None)


def test_a_process_that_ends_is_lost(student):
    with pytest.raises(Lost, match="ended"):
        student.named("ends")()


def test_what_is_needed_no_more_is_forgotten(student):
    function = student.named("double")
    for _ in range(30):
        x = mt.randn(3).requires_grad_()
        function(x.clone()).sum().backward()
    student.ask("do", text="__import__('gc').collect()", given=None)
    function(1)
    assert len(student.own) < 5
    assert len(student.records) < 5


def test_a_result_keeps_the_history_that_it_has_in_both_processes(student):
    """What the student's function returns came from ours, and that from the student's."""
    weights = mt.randn(2, 2)
    x = mt.randn(3, 2).requires_grad_()
    found = [
        mt.autograd.grad(function(x, lambda x: (x @ weights).tanh()).sum(), x)[0]
        for function in (student.named("passed_on"), passed_on)
    ]
    assert np.allclose(found[0].array, found[1].array)
    given = mt.randn(2).requires_grad_()
    result = student.named("slope_of")(lambda function, x: function(x * given))
    assert np.allclose(result.array, given.array)


def test_a_weight_may_be_written_into_and_let_go(student):
    layer = student.named("Layer")(2)
    before = layer.inner.weight.array.copy()
    with mt.no_grad():
        layer.inner.weight.mul_(2)
        weight = layer.inner.weight
        layer(mt.ones(1, 2))
        weight.add_(1)
        del weight
    assert np.allclose(layer.inner.weight.array, 2 * before + 1)


def test_the_mode_of_a_model_is_the_same_for_both(student):
    model = nn.Sequential(Layer(2), nn.Dropout(0.5))
    student.ask("do", text="given.eval()", given=model)
    assert not model.training and not model[1].training
    model.train()
    assert student.ask("do", text="given.training and given[1].training", given=model)


def test_a_model_of_the_grader_s_can_be_copied(student):
    for model in (Layer(2), nn.Linear(2, 2), nn.Sequential(Layer(2))):
        weights = [p.array.copy() for p in model.parameters()]
        x = mt.randn(3, 2)
        found = student.named("moved_copy")(model, x)
        assert all(
            np.array_equal(p.array, w) for p, w in zip(model.parameters(), weights, strict=True)
        )
        assert not np.allclose(found.array, model(x).array)


def test_both_draw_from_one_sequence(student):
    ends = []
    for function in (student.named("drawn"), drawn):
        mt.manual_seed(3)
        ends.append([*function(lambda: mt.rand(1).item()), mt.rand(1).item()])
    assert ends[0] == ends[1]


def test_what_is_known_there_is_not_sent_again(student):
    function, x = student.named("double"), mt.randn(1000)
    holder = student.ask("do", text="globals().setdefault('holding', [given])", given=x)
    assert holder[0] is x
    sent, send = [], student.wire.send
    student.wire.send = lambda message, arrays: sent.append(arrays) or send(message, arrays)
    assert np.array_equal(function(x).array, 2 * x.array)
    assert sent == [[]]
    x.array[3] = 5
    assert function(x)[3] == 10


def test_a_method_is_asked_for_once(student):
    class Counter:
        count = 0

        def add(self, step=1):
            self.count += step
            return self.count

    counter, asked, answer = Counter(), [], student._do
    student._do = lambda kind, *args, **named: asked.append(kind) or answer(kind, *args, **named)
    assert student.ask("do", text="[given.add(), given.add(2), given.count]", given=counter) == [
        1,
        3,
        3,
    ]
    assert asked == ["get", "call", "call", "get"]
