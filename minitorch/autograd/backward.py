"""The pass backward over the graph, from a result to the leaves.

Calling ``loss.backward()`` visits the nodes from the loss to the leaves. Each node turns the
gradient of the loss with respect to its output into the gradients with respect to its inputs, a
*vector-Jacobian product*. Where a tensor was used several times, its gradients are added::

    def gradients(root, gradient):
        waiting, leaves = {root: gradient}, {}
        while waiting:
            node = max(waiting, key=lambda node: node.order)
            gradient, vjp = waiting.pop(node), node.vjp
            for edge, toward in zip(node.edges, vjp if type(vjp) is tuple else [vjp]):
                place, key = (waiting, edge[0]) if type(edge) is tuple else (leaves, edge)
                place[key] = place.get(key, 0) + toward(gradient)
        return leaves

That is ``propagate`` where every input requires a gradient and has one of its own. What else stands
there undoes broadcasting, adds up in place, serves operations with several outputs or one function
for all inputs, calls hooks, refuses what cannot be right, and frees the graph.

What is imported from ``inplace`` refuses what changes in place made wrong, and can be read later.
"""

from heapq import heappop, heappush

from minitorch.autograd.inplace import check_unchanged, check_written, note_change
from minitorch.autograd.node import refuse_gradient, state, tell
from minitorch.axes import unbroadcast
from minitorch.backend import array_module, as_array


def propagate(roots, retain_graph, receive, oldest=0):
    """Send gradients from ``roots``, pairs (edge, array), through the graph to the leaves.

    A node's inputs exist before it does. So the latest node of those that wait has received the
    gradients from everything that used it, and is the one to visit next.

    ``waiting`` holds for a node two lists: for each output the gradient, and whether nobody else
    holds that array. If so, further gradients are added into it. Any other array may be waiting at
    another node too, and the first sum makes a new one. Leaves wait in the same way, to the end.

    ``receive(tensor, gradient, owned)`` is called for each leaf that still requires its gradient,
    and for each tensor that asked for it. Each node, with all that it saved, is freed as soon as
    it was visited, unless ``retain_graph``. The pass ends before the node of the order ``oldest``.
    """
    waiting, queue = {}, []

    def send(edge, grad, owned):
        if type(edge) is tuple:
            node, index, shape, dtype = edge
        else:
            node, index, shape, dtype = None, 0, edge.array.shape, edge.array.dtype
        if grad.shape != shape:
            grad, owned = unbroadcast(grad, shape), True
        if grad.dtype is not dtype and grad.dtype != dtype:
            grad, owned = grad.astype(dtype), True
        if not shape:
            grad = as_array(grad)
        slots = waiting.get(edge if node is None else node)
        if slots is None:
            if node is None:
                waiting[edge] = [grad], [owned]
                return
            heappush(queue, (-node.order, node))
            count = node.outputs or 1
            waiting[node] = slots = [None] * count, [False] * count
        sums, alone = slots
        if sums[index] is None:
            sums[index], alone[index] = grad, owned
        elif alone[index]:
            sums[index] += grad
        else:
            sums[index], alone[index] = as_array(sums[index] + grad), True

    tell("backward", [], [], True)
    for edge, grad in roots:
        send(edge, grad, False)
    while queue:
        _, node = heappop(queue)
        grads, _ = waiting.pop(node)
        if node.hooks or node.retained:
            _call_hooks(node, grads, receive)
        if node.order <= oldest:
            return
        vjp = node.vjp
        if vjp is None:
            raise RuntimeError(
                "backward went through this graph before and freed it: run the forward pass again, "
                "or call the first backward with retain_graph=True"
            )
        if node.order < state.last_change:
            check_unchanged(node)
        grad = grads[0] if node.outputs is None else grads
        if type(vjp) is tuple:
            results = [toward and toward(grad) for toward in vjp]
        else:
            results = vjp(grad)
            if type(results) is not tuple:
                results = (results,)
            if len(results) < len(node.edges):
                for position, edge in enumerate(node.edges[len(results) :], start=len(results)):
                    if edge is not None:
                        refuse_gradient(node.operation, position)
        separate = type(vjp) is tuple and node.outputs is None
        held = () if separate else [*map(id, grads), *map(id, results)]
        if not retain_graph:
            node.vjp = vjp = None
        if state.listeners:
            pairs = zip(node.edges, results, strict=False)
            needed = [None if edge is None else result for edge, result in pairs]
            tell(node.name, grads, needed, True)
        for edge, result in zip(node.edges, results, strict=False):
            if edge is not None and result is not None:
                # A view shows an array of others, and one function may give an array twice.
                fresh = result.base is None and result is not grad
                send(edge, result, fresh and (separate or held.count(id(result)) == 1))
    for leaf, ([grad], [owned]) in waiting.items():
        if leaf._hooks:
            grad, owned = _after_hooks(leaf._hooks, grad), False
        if leaf._requires_grad:
            receive(leaf, grad, owned)


def _call_hooks(node, grads, receive):
    """Let hooks replace the gradients of a node's outputs, and tensors keep them."""
    for index, hooks in (node.hooks or {}).items():
        if grads[index] is not None:
            grads[index] = _after_hooks(hooks, grads[index])
    for index, reference in list((node.retained or {}).items()):
        tensor = reference()
        if grads[index] is not None and tensor is not None and tensor.grad_fn is node:
            receive(tensor, grads[index], False)


def _after_hooks(hooks, grad):
    """The gradient after all hooks; each changes it, returns another in its place, or None."""
    grad = grad.copy()  # others may hold the array
    for hook in list(hooks.values()):
        grad = hook(grad)
    return grad


def _listed(tensors):
    """One tensor, a sequence of them or None as a list."""
    if tensors is None:
        return []
    return [tensors] if hasattr(tensors, "array") else list(tensors)


def _roots(tensors, gradients):
    """For each tensor its edge and the gradient, of its shape, that the pass starts with."""
    roots = []
    for tensor, gradient in zip(tensors, gradients or [None] * len(tensors), strict=True):
        if not tensor.requires_grad:
            raise RuntimeError(
                "this tensor does not depend on any tensor with requires_grad=True, "
                "or it was computed under no_grad(): there is nothing to differentiate"
            )
        if gradient is None:
            if tensor.array.size != 1:
                raise RuntimeError(
                    f"backward() of a tensor of shape {tuple(tensor.shape)} needs the gradient "
                    "argument, since only a scalar's is implied: reduce it first, for example "
                    "loss.mean().backward()"
                )
            seed = array_module(tensor.array).ones_like(tensor.array)
        else:
            if gradient.array.shape != tensor.array.shape:
                raise RuntimeError(
                    f"gradient must have the tensor's shape {tuple(tensor.shape)}; "
                    f"got {tuple(gradient.shape)}"
                )
            seed = gradient.array
        roots.append((tensor._gradient_edge(), seed))
    return roots


def _refuse_create_graph(create_graph):
    if create_graph:
        raise NotImplementedError(
            "create_graph=True: gradients of gradients are not part of minitorch, whose gradient "
            "functions work on arrays"
        )


def _accumulate(tensor, grad, owned):
    if tensor.grad is None:
        tensor.grad = tensor.result_class._wrap(grad if owned else grad.copy())
    else:
        check_written(tensor.grad.array, grad, "adding to grad")
        tensor.grad.array += grad
        note_change(tensor.grad)


def backward(tensors, grad_tensors=None, retain_graph=False, create_graph=False):
    """Add the gradients of ``tensors`` to the leaves' ``grad``. See ``Tensor.backward``."""
    _refuse_create_graph(create_graph)
    propagate(_roots(_listed(tensors), _listed(grad_tensors)), retain_graph, _accumulate)


def grad(
    outputs, inputs, grad_outputs=None, retain_graph=False, create_graph=False, allow_unused=False
):
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``grad``.

    Returns a tuple with one tensor an input. An input that the outputs do not depend on is an
    error, or None with ``allow_unused=True``.
    """
    _refuse_create_graph(create_graph)
    inputs = _listed(inputs)
    roots = _roots(_listed(outputs), _listed(grad_outputs))
    found = dict.fromkeys(inputs)

    def receive(tensor, grad, owned):
        if tensor in found:
            if found[tensor] is None:
                found[tensor] = grad if owned else grad.copy()
            else:
                found[tensor] = found[tensor] + grad

    before = []
    for tensor in inputs:
        if not tensor.is_leaf:
            before.append((tensor.grad_fn, tensor.grad_fn.retained))
            tensor.retain_grad()
    oldest = min((x.grad_fn.order if x.grad_fn else 0 for x in inputs), default=0)
    try:
        propagate(roots, retain_graph, receive, oldest)
    finally:
        for node, retained in reversed(before):
            node.retained = retained
    missing = [i for i, tensor in enumerate(inputs) if found[tensor] is None]
    if missing and not allow_unused:
        raise RuntimeError(
            f"the outputs do not depend on input {missing[0]}: pass allow_unused=True to get None"
        )
    return tuple(
        None if found[tensor] is None else tensor.result_class._wrap(found[tensor])
        for tensor in inputs
    )
