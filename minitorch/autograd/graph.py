"""The tape: nodes that remember how a tensor was made, and the pass backward over them.

Calling ``loss.backward()`` visits the nodes from the loss to the leaves. Each node turns the
gradient of the loss with respect to its output into the gradients with respect to its inputs, a
*vector-Jacobian product*. Where a tensor was used several times, its gradients are added.
"""

import itertools
from operator import attrgetter

from minitorch.autograd.modes import state

_order = itertools.count()


class Node:
    """One recorded operation.

    ``vjp`` takes the gradient with respect to the output: it is a tuple with one function an
    input, or one function that returns the tuple (for a single input, the gradient itself); None
    once the graph is freed. ``edges`` says, for each input, which node (or leaf tensor) it came
    from, as which output, with which shape and type; None for an input that needs no gradient.
    ``outputs`` counts the results of an operation that returns a tuple, None for any other.
    ``saved`` lists the tensors whose values ``vjp`` uses, with their version at the time.
    """

    __slots__ = ("order", "name", "vjp", "edges", "outputs", "saved", "retained")

    def __init__(self, name, vjp, edges, outputs, saved):
        self.order = next(_order)
        self.name = name
        self.vjp = vjp
        self.edges = edges
        self.outputs = outputs
        self.saved = saved
        self.retained = None

    def __repr__(self):
        return f"<{self.name} backward>"

    @property
    def next_functions(self):
        """The nodes (or leaf tensors) of the inputs, None where no gradient flows."""
        return tuple(None if edge is None else edge[0] for edge in self.edges)

    def gradients(self, grads):
        """Gradients with respect to the inputs, None where none is needed."""
        if self.vjp is None:
            raise RuntimeError(
                "backward went through this graph before and freed it: run the forward pass again, "
                "or call the first backward with retain_graph=True"
            )
        for version, seen, what in self.saved:
            if version[0] != seen:
                raise RuntimeError(
                    f"the gradient of {self.name} needs its {what}, which was changed in place "
                    f"(version {version[0]}, needed {seen}): change a copy (clone()) instead"
                )
        grad = grads[0] if self.outputs is None else grads
        if type(self.vjp) is tuple:
            return [
                None if edge is None else vjp(grad)
                for edge, vjp in zip(self.edges, self.vjp, strict=False)
            ]
        result = self.vjp(grad)
        return result if type(result) is tuple else (result,)


def unbroadcast(grad, shape):
    """Undo broadcasting: sum ``grad`` over the axes along which an input of ``shape`` was repeated.

    Broadcasting copies a value to several places; the gradient of a copy is added to the others'.
    """
    added = grad.ndim - len(shape)
    axes = tuple(range(added)) + tuple(
        added + axis
        for axis, size in enumerate(shape)
        if size == 1 and grad.shape[added + axis] != 1
    )
    return grad.sum(axis=axes, keepdims=True).reshape(shape) if axes else grad.reshape(shape)


def topological_order(roots):
    """Every node that the roots depend on, later ones first.

    A node's inputs exist before it does, so the order of creation, reversed, visits each node
    after everything that used it.
    """
    found, stack = set(roots), list(roots)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[1] is not None and edge[0] not in found:
                found.add(edge[0])
                stack.append(edge[0])
    return sorted(found, key=attrgetter("order"), reverse=True)


def run_backward(roots, retain_graph, receive):
    """Propagate gradients from ``roots``, pairs of an edge and an array, to the leaves.

    ``receive(leaf, gradient, fresh)`` is called for each gradient that arrives at a leaf;
    ``fresh`` says that nobody else holds the array. Nodes' own gradients are kept in a dict and
    dropped once used; a sum is written into an array that this function owns.
    """
    for listener in state.listeners:
        listener("backward", [], [], True)
    pending = {}

    def accumulate(edge, grad, fresh):
        source, index, shape, dtype = edge
        if grad.shape != shape:
            grad, fresh = unbroadcast(grad, shape), True
        if grad.dtype != dtype:
            grad, fresh = grad.astype(dtype), True
        if index is None:
            receive(source, grad, fresh)
            return
        slots = pending.setdefault(source, [None] * (source.outputs or 1))
        if slots[index] is None:
            slots[index] = (grad, fresh)
            return
        total, owned = slots[index]
        if owned:
            total += grad
        else:
            total = total + grad
        slots[index] = (total, True)

    for edge, grad in roots:
        accumulate(edge, grad, False)
    for node in topological_order(list(pending)):
        slots = pending.pop(node, None)
        if slots is None:
            continue
        grads = [None if slot is None else slot[0] for slot in slots]
        if node.retained:
            for index, tensor in node.retained.items():
                if (kept := tensor()) is not None and grads[index] is not None:
                    receive(kept, grads[index], False)
        results = node.gradients(grads)
        if state.listeners:
            pairs = zip(node.edges, results, strict=False)
            needed = [None if edge is None else result for edge, result in pairs]
            for listener in state.listeners:
                listener(node.name, grads, needed, True)
        if not retain_graph:
            node.vjp = None
        for edge, result in zip(node.edges, results, strict=False):
            if edge is not None and result is not None:
                borrowed = result.base is not None or any(result is grad for grad in grads)
                accumulate(edge, result, not borrowed)
