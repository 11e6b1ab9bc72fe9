"""Whether operations record gradients, and who listens to the operations that run.

A listener is a function that is called as ``listener(name, inputs, outputs, backward)``. For an
operation, ``inputs`` lists its arguments (arrays and others) and ``outputs`` its resulting arrays.
In a pass backward, for each node, they are the gradients with respect to the operation's results
and with respect to its arguments, with None where there is none, and ``backward`` is True.
``listener("backward", [], [], True)`` announces the pass.

``state.clock`` counts recorded operations and changes in place, so that one can be told to be
earlier than another; ``last_change`` is the time of the latest change in place of any tensor.
"""

import contextlib
import itertools


class _State:
    grad_enabled = True
    listeners = ()
    clock = itertools.count(1)
    last_change = 0


state = _State()


class _GradMode(contextlib.ContextDecorator):
    """A ``with`` block, or a decorated function, within which recording is on or off."""

    mode = None

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        mode.previous = []
        return mode if function is None else mode(function)

    def __enter__(self):
        self.previous.append(state.grad_enabled)
        state.grad_enabled = self.mode
        return self

    def __exit__(self, *exception):
        state.grad_enabled = self.previous.pop()


class no_grad(_GradMode):
    """Within ``with no_grad():``, or in a function decorated with it, nothing is recorded.

    Results do not require gradients, and parameters may be changed in place.
    """

    mode = False


class enable_grad(_GradMode):
    """The opposite of ``no_grad``, for use inside it."""

    mode = True


class set_grad_enabled(contextlib.ContextDecorator):
    """Switch gradient recording on or off: as a statement for good, or for a ``with`` block."""

    def __init__(self, mode):
        self.mode, self.previous = bool(mode), state.grad_enabled
        state.grad_enabled = self.mode

    def __enter__(self):
        state.grad_enabled = self.mode
        return self

    def __exit__(self, *exception):
        state.grad_enabled = self.previous


def is_grad_enabled():
    """Whether operations record what backward needs."""
    return state.grad_enabled


@contextlib.contextmanager
def listening(listener):
    """Let ``listener`` hear of the operations that run inside the block."""
    state.listeners += (listener,)
    try:
        yield
    finally:
        state.listeners = tuple(other for other in state.listeners if other is not listener)


@contextlib.contextmanager
def record_operations():
    """Collect the names of the operations that run inside the block, in their order.

    A pass backward is listed as "backward".

    ::

        with record_operations() as names:
            model(x)
        print(len(names), names.count("matmul"))
    """
    names = []

    def listen(name, inputs, outputs, backward):
        if not backward or name == "backward":
            names.append(name)

    with listening(listen):
        yield names
