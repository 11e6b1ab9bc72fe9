"""Whether operations record gradients, and who listens to the operations that run.

A listener is a function that is called as ``listener(name, inputs, outputs, backward)``. For an
operation, ``inputs`` lists its arguments (arrays and others) and ``outputs`` its resulting arrays.
In a pass backward, for each node (a recorded operation, see ``node``), they are the gradients with
respect to the operation's results and with respect to its arguments, with None where there is none,
and ``backward`` is True.
``listener("backward", [], [], True)`` announces the pass.
"""

import contextlib
import functools
import inspect

from minitorch.autograd.node import state, thread


class _GradMode:
    """Recording on or off in this thread: for a ``with`` block, or for every call of a function."""

    def __new__(cls, decorated=None, **options):
        return cls()(decorated) if callable(decorated) else super().__new__(cls)

    def __init__(self, recording):
        self.recording, self.before = recording, []

    def __enter__(self):
        self.before.append(thread.recording)
        thread.recording = self.recording
        return self

    def __exit__(self, *exception):
        thread.recording = self.before.pop()

    def __call__(self, function):
        """The function, or the generator without what happens between its steps, in this mode."""
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            with _GradMode(self.recording):
                return function(*args, **kwargs)

        return call

    def _generator(self, function):
        @functools.wraps(function)
        def generator(*args, **kwargs):
            steps = function(*args, **kwargs)
            resume, sent = steps.send, None
            while True:
                try:
                    with _GradMode(self.recording):
                        value = resume(sent)
                except StopIteration as end:
                    return end.value
                try:
                    resume, sent = steps.send, (yield value)
                except BaseException as error:
                    resume, sent = steps.throw, error

        return generator


class no_grad(_GradMode):
    """Within ``with no_grad():``, or in a function decorated with it, nothing is recorded.

    Results do not require gradients, and parameters may be changed in place.
    """

    def __init__(self, decorated=None):
        super().__init__(False)


class enable_grad(_GradMode):
    """The opposite of ``no_grad``, for use inside it."""

    def __init__(self, decorated=None):
        super().__init__(True)


class set_grad_enabled(_GradMode):
    """Switch recording on or off: as a statement for good, or as ``no_grad`` is used."""

    def __init__(self, mode):
        super().__init__(bool(mode))
        self.outside, thread.recording = thread.recording, self.recording

    def __exit__(self, *exception):
        thread.recording = self.outside

    def __call__(self, function):
        thread.recording = self.outside
        return super().__call__(function)


def is_grad_enabled():
    """Whether operations record what backward needs."""
    return thread.recording


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
