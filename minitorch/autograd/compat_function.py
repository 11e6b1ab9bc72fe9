"""``Function``: an operation with a gradient of one's own, written on tensors, as PyTorch has it.

The library's own operations are written on arrays, see ``dispatch``; the book teaches those alone.
"""

import numpy as np

from minitorch.autograd.inplace import check_recordable, note_change, note_view, overwritten
from minitorch.autograd.modes import no_grad
from minitorch.autograd.node import Node, thread
from minitorch.autograd.tensorbase import TensorBase, made
from minitorch.backend import array_module

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attribute of one's own.

    ``needs_input_grad`` says for each argument of ``apply`` whether it needs a gradient.
    """

    needs_input_grad = ()
    _saved = _dirty = _fixed = ()
    _materialize = True

    def save_for_backward(self, *tensors):
        """Keep tensors (or None) for ``saved_tensors``; a change in place meanwhile is an error."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise TypeError(
                    "save_for_backward takes tensors and None, got "
                    f"{type(tensor).__name__}: keep other things as attributes of ctx"
                )
        self._saved = tensors

    @property
    def saved_tensors(self):
        """What ``save_for_backward`` was given."""
        return tuple(self._saved)

    def mark_non_differentiable(self, *tensors):
        """Say of results that no gradient goes through them."""
        self._fixed = tensors

    def mark_dirty(self, *tensors):
        """Say of arguments that ``forward`` changed them in place; it has to return them."""
        self._dirty = tensors

    def set_materialize_grads(self, value):
        """Whether ``backward`` gets zeros (the default) or None for a result nobody used."""
        self._materialize = value


class Function:
    """An operation whose gradient is written by hand. It is called as ``Square.apply(x)``.

    ::

        class Square(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return 2 * x * grad

    ``forward`` runs without recording. ``backward`` gets the gradient with respect to each result
    and returns one for each argument, None where there is none. Instead of ``forward(ctx, ...)``
    there may be ``forward(...)`` and ``setup_context(ctx, inputs, output)``.
    """

    setup_context = None

    def __call__(self, *args):
        raise RuntimeError(f"call {type(self).__name__}.apply(...), without making an object")

    @staticmethod
    def forward(ctx, *args):
        """The results, tensors or a tuple; every Function defines its own."""
        raise NotImplementedError("a Function defines forward(ctx, ...) as a static method")

    @staticmethod
    def backward(ctx, *grads):
        """The gradient for each argument; every Function defines its own."""
        raise NotImplementedError("a Function defines backward(ctx, ...) as a static method")

    @classmethod
    def apply(cls, *args):
        """Compute ``forward`` and record ``backward`` as its gradient."""
        ctx = FunctionCtx()
        edges = [x._gradient_edge() if isinstance(x, TensorBase) else None for x in args]
        ctx.needs_input_grad = tuple(edge is not None for edge in edges)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        several = isinstance(result, tuple)
        outputs = result if several else (result,)
        for tensor in ctx._dirty:
            if not any(tensor is output for output in outputs):
                raise RuntimeError(f"{cls.__name__}.forward must return what it marked as dirty")
        if not (thread.recording and any(ctx.needs_input_grad)):
            return result
        for tensor in ctx._dirty:
            check_recordable(tensor)
            note_change(tensor)
        node = Node(cls, None, edges, len(outputs))
        node.vjp = _gradients(cls, ctx, args, outputs)
        tensors = tuple(_recorded(cls, ctx, args, node, i, x) for i, x in enumerate(outputs))
        return tensors if several else tensors[0]


def _is_one_of(tensor, others):
    return any(tensor is other for other in others)


def _recorded(cls, ctx, args, node, index, output):
    """A result of ``forward`` with the node as its history."""
    if not isinstance(output, TensorBase) or _is_one_of(output, ctx._fixed):
        return output
    if _is_one_of(output, ctx._dirty):
        edge = (node, index, output.array.shape, output.array.dtype)
        if output._view is None:
            output._set_edge(edge)
        else:
            base = output._base
            base._set_edge(overwritten(base, output._view.steps, edge))
        return output
    tensor = made(type(output), output.array, node, index)
    for arg in args:
        if isinstance(arg, TensorBase) and tensor._view is None:
            note_view(tensor, arg, cls, (), f"of an argument of {cls.__name__}, made by it")
    return tensor


def _gradients(cls, ctx, args, outputs):
    """From the gradients of the outputs to those of the arguments, on arrays."""
    shapes = [x.array.shape if isinstance(x, TensorBase) else None for x in args]
    like = [(x.array.shape, x.array.dtype) if hasattr(x, "array") else None for x in outputs]
    kind = TensorBase.result_class
    # Results are kept without history, or they would keep themselves.
    saved = ctx._saved = tuple(x.detach() if _is_one_of(x, outputs) else x for x in ctx._saved)

    def vjp(grads, kept=tuple([x.array for x in saved if x is not None])):
        xp = next((array_module(g) for g in grads if g is not None), None)
        given = [
            kind._wrap(xp.zeros(*told) if g is None else g)
            if told and (g is not None or ctx._materialize)
            else None
            for g, told in zip(grads, like, strict=True)
        ]
        with no_grad():
            found = cls.backward(ctx, *given)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        extra = found[len(shapes) :]
        if len(found) < len(shapes) or any(x is not None for x in extra):
            raise RuntimeError(
                f"{cls.__name__}.backward must return a gradient, or None, for each of the "
                f"{len(shapes)} arguments; got {len(found)}"
            )
        needed = zip(found, shapes, ctx.needs_input_grad, strict=False)
        return tuple(_checked(cls, i, *each) for i, each in enumerate(needed))

    return vjp


def _checked(cls, index, gradient, shape, needed):
    """The array of a gradient that ``backward`` returned, None where nobody needs it."""
    if gradient is None:
        return None
    if shape is None:
        raise RuntimeError(
            f"{cls.__name__}.backward returned a gradient for argument {index}, which is no "
            "tensor: return None for it"
        )
    if not isinstance(gradient, TensorBase) or not _broadcasts(shape, gradient.array.shape):
        got = getattr(gradient, "shape", type(gradient).__name__)
        raise RuntimeError(
            f"{cls.__name__}.backward must return a tensor of shape {tuple(shape)} for argument "
            f"{index}; got {got}"
        )
    return gradient.array.view() if needed else None  # the function may keep the array itself


def _broadcasts(shape, target):
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def once_differentiable(function):
    """``backward`` as it is: gradients of gradients are not part of minitorch."""
    return function
