"""What happens in place: who may write over a tensor, and what then becomes of the gradients.

The rest of this folder is complete without it where nothing is written over. Two things must not go
wrong when values are.

*A gradient that needs the old values.* The gradient functions of a node keep arrays of the forward
pass. ``changes`` says when memory was last changed; before a node that is older than the latest
change computes its gradients, ``check_unchanged`` looks through all that its functions keep, under
whatever name and as whichever view, and refuses if the memory of one was changed since.

*A tensor whose history the change is not part of.* Who changes a view changes its *base*, the
tensor whose memory it shows, and with it every other view. So the change is recorded at the base:
its new node sends the gradient of the changed region to the value that was written, and the rest
to what the base was before. A view remembers the steps that lead from the base to it, and where
the base has a new history, they are taken again when the view's own is asked for.
"""

import functools
import inspect
import types
import weakref

from minitorch.autograd.modes import enable_grad
from minitorch.autograd.node import Node, state, thread
from minitorch.backend import array_module, dtype_of

# Which memory was changed, and when


class Change(weakref.ref):
    """The ``time`` at which the memory that an array owns was last changed in place."""

    __slots__ = ("key", "time")


changes = {}  # by the identity of the array that owns the memory, as long as it lives


def _forget(change):
    del changes[change.key]


def memory_of(array):
    """The array that owns the memory of this one."""
    while hasattr(array.base, "base"):
        array = array.base
    return array


def note_change(*tensors):
    """Note that their values were written over, for gradients that need them as they were."""
    with state.lock:
        time = state.last_change = next(state.clock)
    for tensor in tensors:
        owner = memory_of(tensor.array)
        change = changes.get(id(owner))
        if change is None:
            change = changes[id(owner)] = Change(owner, _forget)
            change.key = id(owner)
        change.time = time


def kept(vjp):
    """Pairs (name, array): what gradient functions keep, and the variable that holds it.

    It is looked for in closures, defaults, containers and partial; not in attributes of objects.
    """
    seen, waiting = set(), [(None, vjp)]
    while waiting:
        name, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "strides"):
            yield name, value
        elif isinstance(value, (tuple, list)):
            waiting += [(name, part) for part in value]
        elif isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, functools.partial):
            waiting += [(name, value.func), (name, value.args), (name, value.keywords)]
        elif isinstance(value, types.FunctionType):
            waiting += [(name, value.__defaults__), (name, value.__kwdefaults__)]
            for variable, cell in zip(
                value.__code__.co_freevars, value.__closure__ or (), strict=True
            ):
                try:
                    waiting.append((variable, cell.cell_contents))
                except ValueError:  # a variable that was not assigned
                    pass


def check_unchanged(node):
    """RuntimeError if an array that the node's gradient needs was changed after its operation."""
    for name, array in kept(node.vjp):
        change = changes.get(id(memory_of(array)))
        if change is not None and change.time > node.order:
            what = "its result" if name == "out" else "a tensor"
            if name in inspect.signature(node.operation).parameters:
                what = f"its argument '{name}'"
            raise RuntimeError(
                f"the gradient of {node.name} needs {what} of shape {tuple(array.shape)}, which "
                "was changed in place after it was used: change a copy (clone()) instead, or make "
                "a new tensor, x = x + y in place of x += y"
            )


# Views


class View:
    """How a tensor is a view: of which ``base``, by which ``steps``.

    A step is an operation with its arguments after the first. ``array`` and ``edge`` are the
    base's array and gradient edge when the steps were last taken. ``refusal`` is None, or says why
    changes in place cannot be followed.
    """

    __slots__ = ("base", "array", "steps", "edge", "refusal")

    def __init__(self, base, array, steps, edge, refusal):
        self.base = base
        self.array = array
        self.steps = steps
        self.edge = edge
        self.refusal = refusal

    def lost(self):
        """Why the view cannot be taken again from its base; None if it can."""
        if self.array is not self.base.array:
            return "of a tensor that was given another shape or other data in place"
        return self.refusal

    def follow(self, tensor, strictly):
        """Bring the history of ``tensor``, which is this view, up to date with its base's.

        If that is not possible, RuntimeError; unless ``strictly``, only that it needs a gradient.
        """
        lost = self.lost()
        if self.base._edge is None:
            lost = "of a tensor that was cut off from its history by detach_()"
        if lost is None:
            self.edge = self.base._edge
            with enable_grad():
                taken = self.base
                for operation, arguments in self.steps:
                    taken = operation(taken, *arguments)
            tensor._set_edge(taken._gradient_edge())
        elif strictly:
            raise RuntimeError(
                f"this tensor is a view, {lost}, so its gradient would miss what was changed in "
                "place meanwhile: take the view again, or change a copy (clone())"
            )
        else:
            tensor._requires_grad = True


def note_view(tensor, source, operation, arguments, refusal):
    """Note that a tensor is a view of ``source`` by an operation, if they share memory."""
    array, shown = tensor.array, source.array
    if array is not shown:
        owner = array.base
        if owner is None or not (
            owner is shown
            or owner is shown.base
            or array_module(array).may_share_memory(array, shown)
        ):
            return
    if not thread.recording:
        refusal = "taken inside no_grad()"
    view, step = source._view, (operation, arguments)
    if view is None:
        tensor._view = View(source, shown, (step,), source._edge, refusal)
    else:
        steps = (*view.steps, step)
        tensor._view = View(view.base, view.array, steps, view.edge, view.refusal or refusal)


# Changes


def in_place(operation):
    """The form of an operation that writes its result into its first argument."""

    def changed(self, *args, **kwargs):
        source = self
        involved = (self, *args, *kwargs.values())
        if thread.recording and any(getattr(x, "requires_grad", False) for x in involved):
            check_recordable(self)
            source = self.result_class._wrap(self.array.copy())  # what the gradient may keep
            source._edge, source._requires_grad = self._gradient_edge(), self._requires_grad
        return change(self, operation(source, *args, **kwargs))

    changed.__doc__ = f"``{operation.__name__}``, written into this tensor."
    return changed


def change(tensor, result):
    """Take over the values and the history of ``result``; what every change in place does."""
    view, base = tensor._view, tensor._base
    recorded = thread.recording and (base.requires_grad or result.requires_grad)
    if recorded:
        check_recordable(tensor)
    check_written(tensor.array, result.array)
    edge = result._gradient_edge() if recorded else None
    tensor.array[...] = result.array
    note_change(tensor)
    if recorded and (view is not None or edge is None):
        base._set_edge(overwritten(base, () if view is None else view.steps, edge))
    elif recorded:
        tensor._set_edge(edge)
    return tensor


def change_shape(tensor, result):
    """Take over the shape and the history of ``result``, a view of the tensor."""
    if thread.recording and tensor.requires_grad:
        check_recordable(tensor)
    elif tensor._edge is not None:
        raise RuntimeError(
            "the shape of a tensor with a history cannot be changed inside no_grad(), which would "
            "not record it: use the form without the underscore, or detach()"
        )
    if tensor._view is not None:
        tensor._view = result._view
    tensor.array = result.array
    if result._edge is not None:
        tensor._set_edge(result._edge)
    return tensor


def check_recordable(tensor):
    """RuntimeError if a change of the tensor cannot be part of its history."""
    view, base = tensor._view, tensor._base
    lost = view and view.lost()
    if lost:
        raise RuntimeError(
            f"this tensor is a view, {lost}, and a change in place would not reach the "
            "gradient of the tensor that it views: change a copy (clone()) instead"
        )
    if base._requires_grad and base._edge is None:
        what = "a leaf tensor" if view is None else "a view of a leaf tensor"
        raise RuntimeError(
            f"{what} that requires a gradient cannot be changed in place: "
            "do it inside 'with minitorch.no_grad():'"
        )


def check_written(array, values, what="an in-place operation"):
    """RuntimeError unless values of this shape and type may be written over the array."""
    steps = zip(array.strides, array.shape, strict=True)
    repeated = array.size and any(stride == 0 and size > 1 for stride, size in steps)
    if repeated or not getattr(array.flags, "writeable", True):
        raise RuntimeError(
            "this tensor was expanded, so several of its elements are one place in memory, or its "
            "memory is read-only: change a copy (clone()) instead"
        )
    if array.shape != values.shape:
        raise RuntimeError(
            f"{what} keeps the shape {tuple(array.shape)}; "
            f"the result has shape {tuple(values.shape)}"
        )
    if values.dtype.kind == "f" and array.dtype.kind != "f":
        raise RuntimeError(
            f"{what} keeps the type {dtype_of(array)}; the result is {dtype_of(values)}"
        )


def overwritten(base, steps, value_edge):
    """The gradient edge of a base after a view of it, by these steps, was overwritten."""
    strides, shape = base.array.strides, base.array.shape
    outer_first = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))

    def laid_out(g):
        """A copy with its axes in memory in the order of the base's."""
        inner = [outer_first.index(axis) for axis in range(g.ndim)]
        return g.transpose(outer_first).copy().transpose(inner)

    def region(array):
        for operation, arguments in steps:
            array, _ = operation.on_arrays(array, *arguments)
        return array

    def toward_base(g):
        g = laid_out(g)
        region(g)[...] = 0
        return g

    def toward_value(g):
        return region(g if g.strides == strides else laid_out(g))

    edges = (base._gradient_edge(), value_edge)
    vjp = (toward_base if edges[0] else None, toward_value if edges[1] else None)
    return Node(overwritten, vjp, edges), 0, shape, base.array.dtype
