"""The tape: nodes that remember how a tensor was made, and the pass backward over them.

Calling ``loss.backward()`` visits the nodes from the loss to the leaves. Each node turns the
gradient of the loss with respect to its output into the gradients with respect to its inputs, a
*vector-Jacobian product*. Where a tensor was used several times, its gradients are added.

An *edge* is where the gradient of a tensor goes: for a leaf the tensor itself; for any other tensor
the node that made it, as which of its outputs, with the tensor's shape and type.
"""

from heapq import heappop, heappush

from minitorch.autograd.modes import state


class Node:
    """One recorded operation, called like the function ``operation`` that made it.

    ``vjp`` takes the gradient with respect to the output: it is a tuple with one function an
    input, None for one that needs no gradient; or one function that returns a tuple (for a single
    input, the gradient itself); None once the graph is freed. ``edges`` has an edge for each input,
    None for one that needs no gradient. ``outputs`` counts the results of an operation that
    returns a tuple, None for any other. ``versions`` says when the result and each input were last
    changed in place, in lists of one number, or None. ``order`` is the time at which the node was
    made. ``hooks`` and ``retained`` are None or say, by the number of the output, which functions
    the gradient passes and which tensor keeps it.
    """

    __slots__ = ("order", "operation", "vjp", "edges", "outputs", "versions", "hooks", "retained")

    def __init__(self, operation, vjp, edges, outputs=None, versions=()):
        self.order = next(state.clock)
        self.operation = operation
        self.vjp = vjp
        self.edges = edges
        self.outputs = outputs
        self.versions = versions
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

    def gradients(self, grads):
        """Gradients with respect to the inputs, None where none is needed."""
        vjp = self.vjp
        if vjp is None:
            raise RuntimeError(
                "backward went through this graph before and freed it: run the forward pass again, "
                "or call the first backward with retain_graph=True"
            )
        if self.order < state.last_change and self.versions:
            self.check_unchanged()
        grad = grads[0] if self.outputs is None else grads
        if type(vjp) is tuple:
            return [toward and toward(grad) for toward in vjp]
        results = vjp(grad)
        return results if type(results) is tuple else (results,)

    def check_unchanged(self):
        """RuntimeError if a tensor whose values ``vjp`` uses was changed after it was used."""
        for index, what in self.operation.kept(self.vjp):
            version = self.versions[index] if index < len(self.versions) else None
            if version is not None and version[0] > self.order:
                raise RuntimeError(
                    f"the gradient of {self.name} needs its {what}, which was changed in place "
                    "after it was used: change a copy (clone()) instead"
                )


def unbroadcast(grad, shape):
    """Undo broadcasting: sum ``grad`` over the axes along which an input of ``shape`` was repeated.

    Broadcasting copies a value to several places; the gradient of a copy is added to the others'.
    """
    added = grad.ndim - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(grad.shape)
        if axis < added or (size != 1 and shape[axis - added] == 1)
    )
    return grad.sum(axis=axes, keepdims=True).reshape(shape)


class _Pass:
    """A pass backward: the gradients that wait for their nodes, and the nodes in their order.

    A node's inputs exist before it does. So the latest node of those that wait has received the
    gradients from everything that used it, and is the one to visit next.

    ``waiting`` holds for a node a list: for each output the gradient, and whether nobody else
    holds that array. If so, further gradients are added into it. Any other array may be waiting at
    another node too, and the first sum makes a new one.
    """

    def __init__(self, retain_graph, receive):
        self.retain_graph = retain_graph
        self.receive = receive
        self.waiting = {}
        self.queue = []
        self.hooked_leaves = {}

    def send(self, edge, grad, owned):
        """Add a gradient to what waits at the edge's node, or hand it to the leaf."""
        leaf = type(edge) is not tuple
        if leaf:
            shape, dtype = edge.array.shape, edge.array.dtype
        else:
            node, index, shape, dtype = edge
        if grad.shape != shape:
            grad, owned = unbroadcast(grad, shape), True
        if grad.dtype is not dtype and grad.dtype != dtype:
            grad, owned = grad.astype(dtype), True
        if not leaf:
            slots = self.waiting.get(node)
            if slots is None:
                self.waiting[node] = slots = [None, False] * (node.outputs or 1)
                heappush(self.queue, (-node.order, node))
            place = 2 * index
        elif edge._hooks is None:
            self.receive(edge, grad, owned)
            return
        else:
            slots, place = self.hooked_leaves.setdefault(edge, [None, False]), 0
        if slots[place] is None:
            slots[place] = grad
            slots[place + 1] = owned
        elif slots[place + 1]:
            slots[place] += grad
        else:
            slots[place] = slots[place] + grad
            slots[place + 1] = True

    def visit(self, node):
        """Send a node's gradients on to its inputs."""
        grads = self.waiting.pop(node)[::2]
        if node.hooks or node.retained:
            self.call_hooks(node, grads)
        results = node.gradients(grads)
        if state.listeners:
            pairs = zip(node.edges, results, strict=False)
            needed = [None if edge is None else result for edge, result in pairs]
            for listener in state.listeners:
                listener(node.name, grads, needed, True)
        if not self.retain_graph:
            node.vjp, node.versions = None, ()
        held = [*map(id, grads), *map(id, results)]
        for edge, result in zip(node.edges, results, strict=False):
            if edge is not None and result is not None:
                # A view shows an array of others, and a function may give one array twice.
                owned = result.base is None and held.count(id(result)) == 1
                self.send(edge, result, owned)

    def call_hooks(self, node, grads):
        """Let hooks replace the gradients of a node's outputs, and tensors keep them."""
        for index, hooks in (node.hooks or {}).items():
            if grads[index] is not None:
                grads[index] = apply_hooks(hooks, grads[index])
        for index, reference in (node.retained or {}).items():
            if grads[index] is not None and (tensor := reference()) is not None:
                self.receive(tensor, grads[index], False)

    def run(self):
        """Visit all nodes, the latest first."""
        while self.queue:
            self.visit(heappop(self.queue)[1])
        for leaf, (grad, _) in self.hooked_leaves.items():
            self.receive(leaf, apply_hooks(leaf._hooks, grad), False)


def apply_hooks(hooks, grad):
    """The gradient after all hooks; each returns another in its place, or None."""
    for hook in list(hooks.values()):
        replaced = hook(grad)
        grad = grad if replaced is None else replaced
    return grad


def run_backward(roots, retain_graph, receive):
    """Propagate gradients from ``roots``, pairs of an edge and an array, to the leaves.

    ``receive(tensor, gradient, owned)`` is called for each gradient that arrives at a leaf or at a
    tensor that asked for it; ``owned`` says that nobody else holds the array. Each node, with all
    that it saved, is freed as soon as it was visited, unless ``retain_graph``.
    """
    for listener in state.listeners:
        listener("backward", [], [], True)
    backward = _Pass(retain_graph, receive)
    for edge, grad in roots:
        backward.send(edge, grad, False)
    backward.run()
