"""What a tensor is to autograd: an array, whether it needs a gradient, and where it came from.

The class that users see, ``minitorch.Tensor``, adds the operations as methods; ``result_class`` is
that class. ``_edge`` is where a gradient goes (see ``node``), None for a leaf. ``_view`` says whose
memory the tensor shows: it and ``_follow_base`` serve changes in place, and can be read later, with
``inplace``.
"""

import weakref

import numpy as np

from minitorch.autograd import inplace
from minitorch.autograd.backward import backward
from minitorch.axes import Size
from minitorch.backend import as_array, device_of, dtype_of


class TensorBase:
    """An array with a gradient.

    ``array`` is the NumPy (or CuPy) array; ``grad``, a tensor or None, is filled by ``backward``.
    """

    __slots__ = ("array", "grad", "_requires_grad", "_edge", "_view", "_hooks", "__weakref__")

    result_class = None

    @classmethod
    def _wrap(cls, array):
        """A tensor around an array, without a copy."""
        return made(cls, array, None, 0)

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

    @property
    def _base(self):
        """The tensor whose memory this one shows: itself unless it is a view."""
        return self if self._view is None else self._view.base

    def _gradient_edge(self):
        """Where a gradient of this tensor goes; None if it needs none."""
        if self._view is not None:
            self._follow_base(strictly=True)
        return (self._edge or self) if self._requires_grad else None

    def _set_edge(self, edge):
        """Give the tensor another history; one that keeps its gradient keeps the new one."""
        retained = self._edge and self._edge[0].retained
        keeps = retained and retained.pop(self._edge[1], None)
        self._edge = edge
        self._requires_grad = edge is not None
        if keeps:
            self.retain_grad()

    def _follow_base(self, strictly=False):
        """Bring the history of a view up to date if its base was changed in place meanwhile."""
        view = self._view
        if view is not None and view.base._edge is not view.edge:
            view.follow(self, strictly)

    _note_change = inplace.note_change
    _change_in_place = inplace.change
    _change_shape_in_place = inplace.change_shape

    def detach(self):
        """The same data, cut off from the graph."""
        return self.result_class._wrap(self.array)

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
            array = grad if replaced is None else getattr(replaced, "array", None)
            if array is None or (array.shape, array.dtype) != (grad.shape, grad.dtype):
                wanted = f"shape {grad.shape} and type {dtype_of(grad)}"
                raise RuntimeError(f"a hook returns None or a tensor of {wanted}; got {replaced!r}")
            return array

        if self._edge is None:
            self._hooks = hooks = {} if self._hooks is None else self._hooks
        else:
            node, index = self._edge[:2]
            node.hooks = node.hooks or {}
            hooks = node.hooks.setdefault(index, {})
        return RemovableHandle(hooks, on_arrays)

    def backward(self, gradient=None, retain_graph=False, create_graph=False):
        """Add d self / d leaf to ``grad`` of every leaf that requires a gradient.

        ``gradient``, of this tensor's shape, is the gradient of the final quantity with respect to
        this tensor; it can be left out for a tensor with one element, whose gradient is 1. The
        graph is freed unless ``retain_graph``.
        """
        backward([self], [gradient], retain_graph, create_graph)


class RemovableHandle:
    """What registering a hook returns; ``remove()`` takes the hook away."""

    def __init__(self, hooks, hook):
        self.hooks = hooks
        hooks[self] = hook

    def remove(self):
        """Call the hook no more."""
        self.hooks.pop(self, None)


def made(kind, array, node, index):
    """The tensor, of a class, that a node, or None, made as its output of that number."""
    tensor = object.__new__(kind)
    tensor.array = array = array if isinstance(array, np.ndarray) else as_array(array)
    tensor.grad = tensor._view = tensor._hooks = None
    dtype = array.dtype
    if node is not None and dtype.kind == "f":
        tensor._requires_grad = True
        tensor._edge = (node, index, array.shape, dtype)
    else:
        tensor._requires_grad = False
        tensor._edge = None
    return tensor
