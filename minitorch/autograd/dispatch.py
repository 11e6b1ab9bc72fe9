"""The dispatch point: every operation of the library passes through ``operation``.

An operation is written as a function on *arrays* that returns its result and its gradient::

    @operation()
    def mul(input, other):
        return input * other, (lambda g: g * other, lambda g: g * input)

The second part is a tuple with one function an argument, from the gradient with respect to the
result to the gradient with respect to that argument; or one function that returns all of them,
where they share work (for an operation on one tensor, its gradient itself); or None where there is
no gradient. Who asks for the gradient of an argument that the tuple does not reach is told at once
that there is none (so ``norm``, whose ``p`` may come as a tensor, gives a tuple of one), and of one
that the function leaves out, in backward. Such a function returns ``g`` itself, a view of it, or a
new array, never an array that it keeps. It need not undo broadcasting or type promotion: the
backward pass does that for all.

What the gradient functions of the arguments that need a gradient use of the function's variables is
kept until backward, and an in-place change of its memory meanwhile is an error (``inplace`` finds
it; the message names an argument, or the result if that is called ``out``). A view of an argument,
``view=True``, is noted for the same reason.
"""

import functools
import inspect

import numpy as np

from minitorch.autograd.inplace import note_view
from minitorch.autograd.node import Node, refuse_gradient, state, tell, thread
from minitorch.autograd.tensorbase import TensorBase, made
from minitorch.backend import in_rows
from minitorch.promotion import of_one_type, promoted


def _by_position(args, kwargs, parameters):
    """The arguments, with those given by name moved from ``kwargs`` to their places."""
    args = list(args)
    for name, default in parameters[len(args) :]:
        if not kwargs or (name not in kwargs and default is inspect.Parameter.empty):
            break
        args.append(kwargs.pop(name, default))
    return tuple(args)


def _plain(value, name):
    """A number given by the caller as a Python number; arrays are refused, with the remedy."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"{name} takes tensors and numbers, got a NumPy array of shape {value.shape}: "
            "wrap it with minitorch.tensor(...)"
        )
    return value


def _explain(error, name, args):
    """Raise what the array module could not take in the terms of tensors: devices and shapes."""
    tensors = [arg for arg in args if isinstance(arg, TensorBase)]
    devices = sorted({str(tensor.device) for tensor in tensors})
    if len(devices) > 1:
        raise RuntimeError(
            f"{name} needs its tensors on one device, and they are on {' and '.join(devices)}: "
            "move one with .to(...)"
        ) from None
    if isinstance(error, ValueError):
        shapes = [tuple(tensor.shape) for tensor in tensors]
        if "broadcast" in str(error):
            error = "of two axes that meet, both sizes must be equal or one of them 1"
        raise RuntimeError(f"{name} of shapes {shapes}: {error}") from None


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def _renamed(kwargs):
    if kwargs.keys() & _NUMPY_NAMES:
        kwargs = {_NUMPY_NAMES.get(name, name): value for name, value in kwargs.items()}
    return kwargs


def numpy_names(function):
    """Let ``dim`` and ``keepdim`` be called axis and keepdims too; operations do so anyway."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **(_renamed(kwargs) if kwargs else kwargs))

    return call


def operation(promote=None, view=False, rows=False):
    """Make an operation on tensors out of a function on arrays (see the head of this file).

    ``promote="common"`` brings the operands (the leading arguments called input, other, exponent)
    to one type first, ``promote="float"`` to a floating one. ``view=True`` says that the result
    may share the memory of the first argument. ``rows=True`` lays the result out row by row in
    memory, however the arguments lie, so that it can be viewed in other shapes.
    """

    def decorate(function):
        name = function.__name__
        parameters = inspect.signature(function).parameters
        positional = [
            (p.name, p.default) for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        operands = sum(p in ("input", "other", "exponent") for p in parameters) or None

        @functools.wraps(function)
        def call(*args, **kwargs):
            if kwargs:
                kwargs = _renamed(kwargs)
                if len(args) < len(positional):
                    args = _by_position(args, kwargs, positional)
            arrays, edges, needed, last = [], [], 0, 0
            if thread.recording:
                for arg in args:
                    edge = None
                    if isinstance(arg, TensorBase):  # arg._gradient_edge(), without the calls
                        shown = arg._view
                        if shown is not None and shown.base._edge is not shown.edge:
                            shown.follow(arg, strictly=True)
                        if arg._requires_grad:
                            edge = arg._edge or arg
                            needed, last = needed + 1, len(edges)
                        arg = arg.array
                    elif type(arg) is list:  # which the caller may change before backward
                        arg = tuple(arg)
                    arrays.append(arg)
                    edges.append(edge)
            else:
                for arg in args:
                    arrays.append(arg.array if isinstance(arg, TensorBase) else arg)
            if promote and not of_one_type(arrays, operands, promote):
                pairs = zip(arrays[:operands], args, strict=False)
                plain = [_plain(array, name) if array is arg else array for array, arg in pairs]
                arrays[:operands] = promoted(plain, promote == "float")
            try:
                result, vjp = function(*arrays, **kwargs)
            except (TypeError, ValueError) as error:
                _explain(error, name, args)
                raise
            several = type(result) is tuple
            if rows:
                result = in_rows(result)
            if state.listeners:
                tell(name, [*arrays, *kwargs.values()], result if several else (result,), False)
            node = None
            if needed and vjp is not None:
                if type(vjp) is tuple:
                    if last >= len(vjp):
                        refuse_gradient(call, last)
                    if needed < len(vjp):
                        pairs = zip(edges, vjp, strict=False)
                        vjp = tuple([None if edge is None else toward for edge, toward in pairs])
                node = Node(call, vjp, edges, len(result) if several else None)
            kind = TensorBase.result_class
            if not several:
                tensor = made(kind, result, node, 0)
                if view:
                    note_view(tensor, args[0], call, arrays[1:], None)
                return tensor
            tensors = tuple([made(kind, array, node, index) for index, array in enumerate(result)])
            if view:
                for tensor in tensors:
                    note_view(tensor, args[0], call, arrays[1:], f"one of several that {name} gave")
            return tensors

        call.on_arrays = function
        return call

    return decorate


def operator(operation, reflected=False):
    """The operation as a Python operator; what it cannot take is left to the other operand."""

    @functools.wraps(operation)
    def binary(self, other):
        if isinstance(other, (TensorBase, int, float, np.generic, np.ndarray)):
            return operation(other, self) if reflected else operation(self, other)
        return NotImplemented

    return binary
