"""What a tensor is to autograd: an array, whether it needs a gradient, and where it came from.

The class that users see, ``minitorch.Tensor``, adds the operations as methods.
"""

import weakref

import numpy as np

from minitorch.autograd.graph import run_backward
from minitorch.autograd.modes import state
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
        "_base",
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
        tensor._base = None
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

    def requires_grad_(self, requires_grad=True):
        """Set ``requires_grad`` and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self):
        """True for a tensor that no recorded operation made."""
        return self._edge is None

    @property
    def grad_fn(self):
        """The node that made this tensor, None for a leaf."""
        return None if self._edge is None else self._edge[0]

    def _gradient_edge(self):
        """Where a gradient of this tensor goes; None if it needs none."""
        if self._base is not None and self._base[0]._edge is not self._base[1]:
            raise RuntimeError(
                "this tensor is a view of one that was changed in place afterwards, so its "
                "gradient would miss the change: take the view again after the change"
            )
        if self._edge is not None or not self._requires_grad:
            return self._edge
        return (self, None, self.array.shape, self.array.dtype)

    def _set_history(self, node, index=0):
        self._edge = (node, index, self.array.shape, self.array.dtype)
        self._requires_grad = True

    def _shares_memory_of(self, source):
        """Note that this tensor is a view of ``source``, if it is one."""
        mine, base = self.array.base, source.array.base
        surely = mine is not None and (mine is source.array or mine is base)
        if surely or array_module(self.array).may_share_memory(self.array, source.array):
            self._version = source._version
            self._base = source._base or (source, source._edge)

    def detach(self):
        """The same data, cut off from the graph."""
        tensor = self.result_class._wrap(self.array)
        tensor._version = self._version
        return tensor

    def retain_grad(self):
        """Ask ``backward`` to fill ``grad`` of a tensor that is not a leaf."""
        if not self._requires_grad:
            raise RuntimeError("retain_grad() needs a tensor that requires a gradient")
        if self._edge is None:
            return
        node, index = self._edge[:2]
        node.retained = (node.retained or {}) | {index: weakref.ref(self)}

    def backward(self, gradient=None, retain_graph=False):
        """Add d self / d leaf to ``grad`` of every leaf that requires a gradient.

        ``gradient``, of this tensor's shape, is the gradient of the final quantity with respect to
        this tensor; it can be left out for a tensor with one element, whose gradient is 1. The
        graph is freed unless ``retain_graph``.
        """
        backward([self], [gradient], retain_graph)

    def _receive_gradient(self, grad, fresh):
        if self.grad is None:
            self.grad = self.result_class._wrap(grad if fresh else grad.copy())
        else:
            self.grad.array += grad

    def _copy_with_history(self):
        """The same values in other memory, made by the same node."""
        twin = self.result_class._wrap(self.array.copy())
        twin._edge, twin._requires_grad = self._gradient_edge(), self._requires_grad
        return twin

    def _change_in_place(self, result):
        """Take over the values and the history of ``result``; what every ``op_`` form does.

        Raises RuntimeError where PyTorch does: on a leaf that requires a gradient; and on a view
        when gradients are involved.
        """
        involved = state.grad_enabled and (self._requires_grad or result._requires_grad)
        if involved and self._requires_grad and self.is_leaf:
            raise RuntimeError(
                "a leaf tensor that requires a gradient cannot be changed in place: "
                "do it inside 'with minitorch.no_grad():'"
            )
        if involved and self._base is not None:
            raise RuntimeError(
                "this tensor is a view, and its gradient would not reach the tensor it views: "
                "write x[i] = x[i] + y in place of x[i] += y"
            )
        steps = zip(self.array.strides, self.array.shape, strict=True)
        if any(stride == 0 and size > 1 for stride, size in steps):
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
        self.array[...] = result.array
        self._version[0] += 1
        if involved and result._edge is not None:
            self._edge = result._edge
            self._requires_grad = True
        return self


class Size(tuple):
    """The shape of a tensor: a tuple that prints as PyTorch's does."""

    def numel(self):
        """The number of elements, the product of the sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self):
        return f"minitorch.Size({list(self)})"


def _as_array(value):
    """NumPy turns the result of a reduction into a scalar; a tensor wants an array."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _roots(tensors, gradients):
    for tensor, gradient in zip(tensors, gradients, strict=True):
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
        yield tensor._gradient_edge(), seed


def backward(tensors, grad_tensors=None, retain_graph=False):
    """Add the gradients of ``tensors`` to the leaves' ``grad``. See ``Tensor.backward``."""
    roots = list(_roots(tensors, grad_tensors or [None] * len(tensors)))
    run_backward(roots, retain_graph, TensorBase._receive_gradient)


def grad(outputs, inputs, grad_outputs=None, retain_graph=False, allow_unused=False):
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``grad``.

    Returns a tuple with one tensor an input. An input that the outputs do not depend on is an
    error, or None with ``allow_unused=True``.
    """
    outputs = [outputs] if isinstance(outputs, TensorBase) else list(outputs)
    inputs = [inputs] if isinstance(inputs, TensorBase) else list(inputs)
    if isinstance(grad_outputs, TensorBase):
        grad_outputs = [grad_outputs]
    found = {}

    def receive(tensor, grad, fresh):
        key = id(tensor)
        found[key] = found[key] + grad if key in found else grad

    before = []
    for tensor in inputs:
        if tensor._edge is not None:
            node = tensor._edge[0]
            before.append((node, node.retained))
            tensor.retain_grad()
    try:
        roots = list(_roots(outputs, grad_outputs or [None] * len(outputs)))
        run_backward(roots, retain_graph, receive)
    finally:
        for node, retained in reversed(before):
            node.retained = retained
    missing = [i for i, tensor in enumerate(inputs) if id(tensor) not in found]
    if missing and not allow_unused:
        raise RuntimeError(
            f"the outputs do not depend on input {missing[0]}: pass allow_unused=True to get None"
        )
    return tuple(
        None if id(t) not in found else t.result_class._wrap(_as_array(found[id(t)]).copy())
        for t in inputs
    )
