"""``checkpoint``: memory for time. What a function keeps for backward is computed again there.

The function runs as ever, and its nodes stay in the graph; only what their gradients keep is
dropped. When backward reaches the first of them, the function runs once more on the same arguments,
with the same random numbers, and each node takes the gradient of its twin (Chen et al., 2016).
"""

import warnings

from minitorch.autograd import enable_grad, no_grad
from minitorch.autograd.inplace import changes, check_unchanged, memory_of
from minitorch.autograd.node import state
from minitorch.autograd.tensorbase import TensorBase
from minitorch.generator import default_generator

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """``function(*args, **kwargs)``, of which nothing but the arguments is kept for backward.

    It has to compute the same when it runs again. Dropout does, unless ``preserve_rng_state`` is
    False. As in PyTorch, ``use_reentrant=True`` takes no keyword arguments and gives a result
    without gradient where no argument needs one, though parameters may; None is True with a
    warning. RuntimeError in backward if an argument was changed in place, or if the second run took
    other operations than the first.
    """
    if use_reentrant is None:
        warnings.warn("checkpoint: say use_reentrant=False, or True as before", stacklevel=2)
        use_reentrant = True
    if use_reentrant and kwargs:
        raise ValueError(
            "checkpoint with use_reentrant=True takes no keyword arguments, got "
            f"{', '.join(kwargs)}: pass use_reentrant=False"
        )
    if use_reentrant and not any(x.requires_grad for x in _tensors(args)):
        warnings.warn("no argument of checkpoint requires a gradient, so none flows", stacklevel=2)
        with no_grad():
            return function(*args)
    run = _Run(function, args, kwargs, preserve_rng_state)
    result = function(*args, **kwargs)
    for place, node in enumerate(run.nodes_of(result)):
        node.vjp = run.gradient_of(place)
    return result


class _Run:
    """A call of a function that can be repeated."""

    def __init__(self, function, args, kwargs, preserve_rng_state):
        self.call = lambda: function(*args, **kwargs)
        self.arrays = [x.array for x in _tensors([args, kwargs])]
        self.random = default_generator.get_state() if preserve_rng_state else None
        self.start = next(state.clock)
        self.told, self.twins = None, {}

    def nodes_of(self, result):
        """The nodes that the call made for its result, in their order."""
        found, waiting = set(), [x._gradient_edge() for x in _tensors(result)]
        while waiting:
            edge = waiting.pop()
            if type(edge) is tuple and edge[0] not in found and edge[0].order > self.start:
                found.add(edge[0])
                waiting += edge[0].edges
        nodes = sorted(found, key=lambda node: node.order)
        told = [(node.name, [edge and edge[2:] for edge in _inner(node)]) for node in nodes]
        if self.told not in (None, told):
            raise RuntimeError(
                "checkpoint: the function took other operations, or other shapes, when it ran again"
                f" ({len(nodes)} recorded operations, {len(self.told)} before): it must depend on "
                "its arguments alone"
            )
        self.told = told
        return nodes

    def repeat(self):
        """Run again, for nodes whose gradient functions have what they need."""
        for array in self.arrays:
            change = changes.get(id(memory_of(array)))
            if change is not None and change.time > self.start:
                raise RuntimeError(
                    f"an argument of checkpoint, of shape {tuple(array.shape)}, was changed in "
                    "place after the call, so it cannot be computed again: change a copy (clone())"
                )
        now, start = default_generator.get_state(), self.start
        if self.random is not None:
            default_generator.set_state(self.random)
        self.start = next(state.clock)
        try:
            with enable_grad():
                self.twins = dict(enumerate(self.nodes_of(self.call())))
        finally:
            self.start = start
            if self.random is not None:
                default_generator.set_state(now)

    def gradient_of(self, place):
        """The gradient function of the node of that place: its twin's."""

        def vjp(grad):
            if place not in self.twins:
                self.repeat()
            twin = self.twins.pop(place)
            check_unchanged(twin)
            if type(twin.vjp) is tuple:
                return tuple([toward and toward(grad) for toward in twin.vjp])
            return twin.vjp(grad)

        return vjp


def _tensors(value):
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, TensorBase):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, (tuple, list, dict))
    return [tensor for part in parts for tensor in _tensors(part)] if nested else []


def _inner(node):
    return [edge if type(edge) is tuple else None for edge in node.edges]


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True):
    """The functions (or the modules of a Sequential) one after the other, in checkpointed segments.

    The last segment keeps what it needs, since backward begins there.
    """
    functions = list(functions)
    size = len(functions) // segments

    def run(start, end):
        def segment(x):
            for function in functions[start:end]:
                x = function(x)
            return x

        return segment

    options = {"use_reentrant": use_reentrant, "preserve_rng_state": preserve_rng_state}
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(run(start, start + size), input, **options)
    return run(last, len(functions))(input)
