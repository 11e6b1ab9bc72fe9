"""What is recorded of an operation: a node of the graph that the pass backward visits.

An *edge* is where the gradient of a tensor goes: for a leaf the tensor itself; for any other tensor
the node that made it, as which of its outputs, with the tensor's shape and type.

``thread.recording`` says whether operations are recorded, and ``state.listeners`` who hears of them
(see ``modes``). ``state.clock`` counts recorded operations and changes in place, so that one can be
told to be earlier than another; ``last_change`` is the time of the latest change in place of any
tensor.
"""

import inspect
import itertools
import threading


class _State:
    listeners = ()
    clock = itertools.count(1)
    last_change = 0
    lock = threading.Lock()


class _ThisThread(threading.local):
    recording = True


state = _State()
thread = _ThisThread()


def tell(name, inputs, outputs, backward):
    """Let the listeners hear of an operation, or of a node's part in a pass backward."""
    for listener in state.listeners:
        listener(name, inputs, outputs, backward)


class Node:
    """One recorded operation, called like the function ``operation`` that made it.

    ``vjp`` takes the gradient with respect to the output: it is a tuple with one function an
    input, None for one that needs no gradient; or one function that returns a tuple (for a single
    input, the gradient itself); None once the graph is freed. ``edges`` has an edge for each input,
    None for one that needs no gradient. ``outputs`` counts the results of an operation that
    returns a tuple, None for any other. ``order`` is the time at which the node was made.
    ``hooks`` and ``retained`` are None or say, by the number of the output, which functions the
    gradient passes and which tensor keeps it.
    """

    __slots__ = ("order", "operation", "vjp", "edges", "outputs", "hooks", "retained")

    def __init__(self, operation, vjp, edges, outputs=None):
        self.order = next(state.clock)
        self.operation = operation
        self.vjp = vjp
        self.edges = edges
        self.outputs = outputs
        self.hooks = self.retained = None

    @property
    def name(self):
        """The name of the operation."""
        return self.operation.__name__

    def __repr__(self):
        return f"<{self.name} backward>"

    @property
    def next_functions(self):
        """The nodes (or leaf tensors) of the inputs, None where no gradient flows."""
        return tuple(edge[0] if type(edge) is tuple else edge for edge in self.edges)


def refuse_gradient(operation, position):
    """The RuntimeError for an argument that requires a gradient and gets none."""
    argument = list(inspect.signature(operation).parameters)[position]
    raise RuntimeError(
        f"{operation.__name__} has no gradient for its argument '{argument}', which requires one: "
        "give it detached, .detach()"
    )
