"""Views: tensors that share the memory of another, their *base*.

Who changes a view in place changes the base, and with it every other view of it. Autograd follows
in two steps:

- The change is recorded at the base. Its new node sends the gradient of the changed region to the
  value that was written, and the rest of the gradient to what the base was before.
- Every view remembers the steps that lead from the base to it. When its history is asked for and
  the base has another one than when the view was taken, the steps are repeated on the base.
"""

from minitorch.autograd.graph import Node
from minitorch.autograd.modes import enable_grad
from minitorch.backend import array_module


class View:
    """How a tensor is a view: of which ``base``, by which ``steps``.

    A step is an operation with its arguments after the first. ``edge`` is the base's gradient edge
    when the steps were last taken. ``refusal`` is None, or says why changes in place cannot be
    followed.
    """

    __slots__ = ("base", "steps", "edge", "refusal")

    def __init__(self, base, steps, edge, refusal):
        self.base = base
        self.steps = steps
        self.edge = edge
        self.refusal = refusal

    def retaken(self):
        """The view, taken again from the base as it is now."""
        self.edge = self.base._edge
        with enable_grad():
            tensor = self.base
            for operation, arguments in self.steps:
                tensor = operation(tensor, *arguments)
        return tensor

    def region(self, array):
        """The part of an array, laid out in memory as the base, that the view shows of the base."""
        for operation, arguments in self.steps:
            array, _ = operation.on_arrays(array, *arguments)
        return array


def changed_region(view, value_edge):
    """The node of a base after ``view`` of it was overwritten by the value with that edge."""
    layout = view.base.array

    def laid_out(g):
        copied = array_module(g).empty_like(layout, dtype=g.dtype)
        copied[...] = g
        return copied

    def toward_base(g):
        g = laid_out(g)
        view.region(g)[...] = 0
        return g

    def toward_value(g):
        return view.region(g if g.strides == layout.strides else laid_out(g))

    edges = (view.base._gradient_edge(), value_edge)
    functions = (toward_base, toward_value)
    needed = tuple(
        f if edge is not None else None for edge, f in zip(edges, functions, strict=True)
    )
    return Node(changed_region, needed, edges)
