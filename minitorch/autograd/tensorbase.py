"""What a tensor is to autograd: an array, whether it needs a gradient, and where it came from.

The class that users see, ``minitorch.Tensor``, adds the operations as methods.
"""

import math
import weakref

import numpy as np

from minitorch.autograd.graph import Node, run_backward
from minitorch.autograd.modes import state
from minitorch.autograd.views import View, changed_region
from minitorch.backend import array_module, device_of, dtype_of


class TensorBase:
    """An array with a gradient.

    ``array`` is the NumPy (or CuPy) array; ``grad``, a tensor or None, is filled by ``backward``.
    """

    __slots__ = (
        "array",
        "grad",
        "_requires_grad",
        "_edge",
        "_version",
        "_view",
        "_hooks",
        "__weakref__",
    )

    result_class = None

    @classmethod
    def _wrap(cls, array):
        """A tensor around an array, without a copy."""
        tensor = object.__new__(cls)
        tensor.array = array if isinstance(array, np.ndarray) else _as_array(array)
        tensor.grad = None
        tensor._requires_grad = False
        tensor._edge = None
        tensor._version = [0]
        tensor._view = None
        tensor._hooks = None
        return tensor

    @property
    def shape(self):
        """The size along each axis."""
        return Size(self.array.shape)

    @property
    def ndim(self):
        """The number of axes."""
        return self.array.ndim

    @property
    def dtype(self):
        """The data type, for example ``minitorch.float32``."""
        return dtype_of(self.array)

    @property
    def device(self):
        """Where the data lies, ``device("cpu")`` or ``device("cuda:0")``."""
        return device_of(self.array)

    @property
    def requires_grad(self):
        """Whether ``backward`` computes a gradient for this tensor."""
        self._follow_base()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        if not self.is_leaf and not value:
            raise RuntimeError(
                "requires_grad can be switched off on leaf tensors only; this one was computed by "
                f"{self.grad_fn.name}: use detach() to cut it off"
            )
        if value and self.array.dtype.kind != "f":
            raise RuntimeError(
                f"only floating-point tensors can require gradients; this one is {self.dtype}"
            )
        self._requires_grad = bool(value)
        if value and self._edge is None:
            self._view = None

    def requires_grad_(self, requires_grad=True):
        """Set ``requires_grad`` and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self):
        """True for a tensor that no recorded operation made."""
        return self.grad_fn is None

    @property
    def grad_fn(self):
        """The node that made this tensor, None for a leaf."""
        self._follow_base()
        return None if self._edge is None else self._edge[0]

    def _gradient_edge(self):
        """Where a gradient of this tensor goes; None if it needs none."""
        if self._view is not None:
            self._follow_base(strictly=True)
        return (self._edge or self) if self._requires_grad else None

    def _note_change(self):
        """Note that the values were changed in place, for gradients that need them as they were."""
        self._version[0] = state.last_change = next(state.clock)

    def _set_history(self, node):
        self._set_edge((node, 0, self.array.shape, self.array.dtype))

    def _set_edge(self, edge):
        """Give the tensor another history; one that keeps its gradient keeps the new one."""
        retained = self._edge and self._edge[0].retained
        keeps = retained and retained.pop(self._edge[1], None)
        self._edge = edge
        self._requires_grad = edge is not None
        if keeps:
            self.retain_grad()

    def _show(self, source, operation, arguments, refusal):
        """Note that this tensor is a view of ``source`` by an operation, if they share memory."""
        array, shown = self.array, source.array
        if array is not shown:
            owner = array.base
            if owner is None or not (
                owner is shown
                or owner is shown.base
                or array_module(array).may_share_memory(array, shown)
            ):
                return
        self._version = source._version
        step, view = (operation, arguments), source._view
        if not state.grad_enabled:
            refusal = "taken inside no_grad()"
        if view is None:
            self._view = View(source, (step,), source._edge, refusal)
        else:
            steps = (*view.steps, step)
            self._view = View(view.base, steps, view.edge, view.refusal or refusal)

    def _follow_base(self, strictly=False):
        """Bring the history of a view up to date if its base was changed in place meanwhile."""
        view = self._view
        if view is None or view.base._edge is view.edge:
            return
        if view.refusal is None:
            self._set_edge(view.retaken()._gradient_edge())
            return
        self._requires_grad = view.base._requires_grad
        if strictly:
            raise RuntimeError(
                f"this tensor is a view, {view.refusal}, of one that was changed in place "
                "afterwards, so its gradient would miss the change: take the view again, or "
                "change a copy (clone())"
            )

    def detach(self):
        """The same data, cut off from the graph."""
        tensor = self.result_class._wrap(self.array)
        tensor._version = self._version
        return tensor

    def detach_(self):
        """Cut this tensor itself off from the graph."""
        if self._view is not None:
            raise RuntimeError("a view cannot be cut off in place: use detach()")
        self._edge, self._requires_grad = None, False
        return self

    def retain_grad(self):
        """Ask ``backward`` to fill ``grad`` of a tensor that is not a leaf."""
        if not self.requires_grad:
            raise RuntimeError("retain_grad() needs a tensor that requires a gradient")
        if self._edge is not None:
            node, index = self._edge[:2]
            node.retained = (node.retained or {}) | {index: weakref.ref(self)}

    def register_hook(self, hook):
        """Call ``hook(gradient)`` when ``backward`` knows this tensor's gradient.

        Where it returns a tensor, that takes the gradient's place. The result has ``remove()``.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook() needs a tensor that requires a gradient")

        result_class = self.result_class

        def on_arrays(grad):
            replaced = hook(result_class._wrap(grad))
            return None if replaced is None else replaced.array

        if self._edge is None:
            self._hooks = hooks = {} if self._hooks is None else self._hooks
        else:
            node, index = self._edge[:2]
            node.hooks = node.hooks or {}
            hooks = node.hooks.setdefault(index, {})
        return Hook(hooks, on_arrays)

    def backward(self, gradient=None, retain_graph=False, create_graph=False):
        """Add d self / d leaf to ``grad`` of every leaf that requires a gradient.

        ``gradient``, of this tensor's shape, is the gradient of the final quantity with respect to
        this tensor; it can be left out for a tensor with one element, whose gradient is 1. The
        graph is freed unless ``retain_graph``.
        """
        backward([self], [gradient], retain_graph, create_graph)

    def _receive_gradient(self, grad, owned):
        if self.grad is None:
            self.grad = self.result_class._wrap(grad if owned else grad.copy())
        else:
            self.grad.array += grad

    def _copy_with_history(self):
        """The same values in other memory, made by the same node."""
        twin = self.result_class._wrap(self.array.copy())
        twin._edge, twin._requires_grad = self._gradient_edge(), self._requires_grad
        return twin

    def _change_in_place(self, result):
        """Take over the values and the history of ``result``; what every ``op_`` form does.

        Raises RuntimeError where PyTorch does.
        """
        base = self if self._view is None else self._view.base
        involved = state.grad_enabled and (base.requires_grad or result.requires_grad)
        if involved:
            self._check_change_with_gradients(base)
        steps = zip(self.array.strides, self.array.shape, strict=True)
        if self.array.size and any(stride == 0 and size > 1 for stride, size in steps):
            raise RuntimeError(
                "this tensor was expanded, so several of its elements are one place in memory: "
                "change a copy (clone()) instead"
            )
        if self.array.shape != result.array.shape:
            raise RuntimeError(
                f"an in-place operation keeps the shape {tuple(self.shape)}; "
                f"the result has shape {tuple(result.shape)}"
            )
        if result.array.dtype.kind == "f" and self.array.dtype.kind != "f":
            raise RuntimeError(
                f"an in-place operation keeps the type {self.dtype}; the result is {result.dtype}"
            )
        edge = result._gradient_edge() if involved else None
        self.array[...] = result.array
        self._note_change()
        if involved and self is not base:
            base._set_history(changed_region(self._view, edge))
        elif edge is not None:
            self._set_edge(edge)
        elif involved:
            zeros = array_module(self.array).zeros_like
            self._set_history(Node(zeros, zeros, (self._edge,)))
        return self

    def _change_shape_in_place(self, result):
        """Take over the shape and the history of ``result``, a view of this tensor."""
        if state.grad_enabled and self._requires_grad and self.is_leaf:
            self._check_change_with_gradients(self)
        if self._view is not None:
            self._view = result._view
        self.array = result.array
        if result._edge is not None:
            self._set_edge(result._edge)
        return self

    def _check_change_with_gradients(self, base):
        view = self._view
        if view is not None and view.refusal is not None:
            raise RuntimeError(
                f"this tensor is a view, {view.refusal}, and a change in place would not reach the "
                "gradient of the tensor that it views: change a copy (clone()) instead"
            )
        if base._requires_grad and base._edge is None:
            what = "a leaf tensor" if view is None else "a view of a leaf tensor"
            raise RuntimeError(
                f"{what} that requires a gradient cannot be changed in place: "
                "do it inside 'with minitorch.no_grad():'"
            )


class Hook:
    """A registered hook; ``remove()`` ends it."""

    def __init__(self, hooks, function):
        self._hooks = hooks
        hooks[self] = function

    def remove(self):
        """Call the hook no more."""
        self._hooks.pop(self, None)


class Size(tuple):
    """The shape of a tensor: a tuple that prints as PyTorch's does."""

    def numel(self):
        """The number of elements, the product of the sizes."""
        return math.prod(self)

    def __getitem__(self, index):
        part = super().__getitem__(index)
        return Size(part) if isinstance(index, slice) else part

    def __add__(self, other):
        return Size(super().__add__(other))

    def __radd__(self, other):
        return Size((*other, *self))

    def __mul__(self, count):
        return Size(super().__mul__(count))

    __rmul__ = __mul__

    def __repr__(self):
        return f"minitorch.Size({list(self)})"


def _as_array(value):
    """NumPy turns the result of a reduction into a scalar; a tensor wants an array."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _listed(tensors):
    """One tensor, a sequence of them or None as a list or None."""
    if tensors is None:
        return None
    return [tensors] if isinstance(tensors, TensorBase) else list(tensors)


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


def backward(tensors, grad_tensors=None, retain_graph=False, create_graph=False):
    """Add the gradients of ``tensors`` to the leaves' ``grad``. See ``Tensor.backward``."""
    _refuse_create_graph(create_graph)
    roots = _roots(_listed(tensors), _listed(grad_tensors))
    run_backward(roots, retain_graph, TensorBase._receive_gradient)


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
    found = {tensor: None for tensor in inputs}
    before = []

    def receive(tensor, grad, owned):
        if tensor in found:
            if found[tensor] is None:
                found[tensor] = grad if owned else grad.copy()
            else:
                found[tensor] = found[tensor] + grad

    for tensor in inputs:
        if not tensor.is_leaf:
            before.append((tensor.grad_fn, tensor.grad_fn.retained))
            tensor.retain_grad()
    try:
        run_backward(roots, retain_graph, receive)
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
