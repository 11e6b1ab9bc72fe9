"""The dispatch point: every operation of the library passes through ``operation``.

An operation is written as a function on *arrays* that returns its result and its gradient::

    @operation()
    def mul(input, other):
        return input * other, (lambda g: g * other, lambda g: g * input)

The second part is a tuple with one function an argument, from the gradient with respect to the
result to the gradient with respect to that argument; or one function that returns all of them,
where they share work; or None where there is no gradient. Such a function returns ``g`` itself, a
view of it, or a new array, never an array that it keeps. It need not undo broadcasting or type
promotion: the backward pass does that for all.

Whatever the gradient functions name (``other``, ``input``, or the result, which is then called
``out``) is kept until backward, and an in-place change of it meanwhile is an error.
"""

import functools
import inspect
from types import CodeType

import numpy as np

from minitorch.autograd.graph import Node
from minitorch.autograd.modes import state
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import get_default_dtype, numpy_dtype


def _names_kept(function):
    """The names of a function's variables that functions defined inside it use."""
    inner = [code for code in function.__code__.co_consts if isinstance(code, CodeType)]
    return {name for code in inner for name in code.co_freevars}


def _category(dtype):
    return "biuf".index(dtype.kind.replace("u", "i"))


def _promote_types(first, second):
    """The NumPy type that holds both, with PyTorch's rule that an integer never widens a float."""
    if first.kind == "f" and second.kind != "f":
        return first
    if second.kind == "f" and first.kind != "f":
        return second
    return np.promote_types(first, second)


def result_type(operands):
    """The type in which PyTorch computes on these arrays and Python numbers.

    Arrays with axes decide. Arrays without axes, and after them Python numbers, count only when
    they are of a higher category (boolean, integer, floating) than those before.
    """
    ranks = ([], [], [])
    for operand in operands:
        if isinstance(operand, np.generic):
            operand = operand.item()
        if isinstance(operand, (bool, int, float)):
            kind = get_default_dtype() if type(operand) is float else type(operand)
            ranks[2].append(numpy_dtype(kind))
        else:
            ranks[0 if operand.ndim else 1].append(operand.dtype)
    result = None
    for types in ranks:
        if not types:
            continue
        candidate = functools.reduce(_promote_types, types)
        if result is None or _category(candidate) > _category(result):
            result = candidate
    return result


def promoted(operands, floating=False):
    """The operands, with every array in the type of the result; ``floating``: never an integer."""
    common = result_type(operands)
    if floating and common.kind != "f":
        common = get_default_dtype().numpy
    return [
        x if isinstance(x, (bool, int, float)) or x.dtype == common else x.astype(common)
        for x in operands
    ]


def _ready(operands, count, promote):
    """Whether the operands are of one type already, so that nothing has to be promoted."""
    first = operands[0]
    if not isinstance(first, np.ndarray) or (promote == "float" and first.dtype.kind != "f"):
        return False
    for other in operands[1:count]:
        if isinstance(other, np.ndarray):
            if other.dtype != first.dtype:
                return False
        elif type(other) not in (int, float) or first.dtype.kind != "f":
            return False
    return True


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


def operation(promote=None, view=False):
    """Make an operation on tensors out of a function on arrays (see the head of this file).

    ``promote="common"`` brings the operands (the leading arguments called input, other, exponent)
    to one type first, ``promote="float"`` to a floating one. ``view=True`` says that the result
    may share the memory of the first argument.
    """

    def decorate(function):
        name = function.__name__
        signature = inspect.signature(function)
        parameters = list(signature.parameters)
        kept = _names_kept(function)
        kept_inputs = [(i, p) for i, p in enumerate(parameters) if p in kept]
        keeps_result = "out" in kept
        operands = sum(p in ("input", "other", "exponent") for p in parameters) or None

        def run(args, arrays, kwargs):
            if promote and not _ready(arrays, operands, promote):
                plain = [
                    array if array is not arg else _plain(arg, name)
                    for array, arg in zip(arrays[:operands], args, strict=False)
                ]
                arrays[:operands] = promoted(plain, promote == "float")
            try:
                return function(*arrays, **kwargs)
            except IndexError:
                raise
            except ValueError as error:
                shapes = [tuple(arg.shape) for arg in args if isinstance(arg, TensorBase)]
                raise RuntimeError(f"{name} of shapes {shapes}: {error}") from None

        def saved_by(args, arrays, first_result):
            saved = [
                (args[i]._version, args[i]._version[0], f"argument '{p}'")
                for i, p in kept_inputs
                if i < len(args) and isinstance(args[i], TensorBase) and arrays[i] is args[i].array
            ]
            return [*saved, (first_result._version, 0, "result")] if keeps_result else saved

        @functools.wraps(function)
        def call(*args, **kwargs):
            if kwargs:
                bound = signature.bind(*args, **kwargs)
                args, kwargs = bound.args, bound.kwargs
            arrays = [arg.array if isinstance(arg, TensorBase) else arg for arg in args]
            result, vjp = run(args, arrays, kwargs)
            several = type(result) is tuple
            if state.listeners:
                outputs = result if several else (result,)
                for listener in state.listeners:
                    listener(name, [*arrays, *kwargs.values()], outputs, False)
            wrap = TensorBase.result_class._wrap
            tensors = [wrap(array) for array in result] if several else [wrap(result)]
            if view:
                for tensor in tensors:
                    tensor._shares_memory_of(args[0])
            if vjp is not None and state.grad_enabled:
                edges = [
                    arg._gradient_edge() if isinstance(arg, TensorBase) else None for arg in args
                ]
                if any(edges):
                    saved = saved_by(args, arrays, tensors[0])
                    node = Node(name, vjp, edges, len(tensors) if several else None, saved)
                    for index, tensor in enumerate(tensors):
                        if tensor.array.dtype.kind == "f":
                            tensor._set_history(node, index)
            return tuple(tensors) if several else tensors[0]

        call.keeps_input = any(i == 0 for i, _ in kept_inputs)
        return call

    return decorate


def operator(operation, reflected=False):
    """The operation as a Python operator; what it cannot take is left to the other operand."""

    @functools.wraps(operation)
    def binary(self, other):
        if not isinstance(other, (TensorBase, int, float, np.generic, np.ndarray)):
            return NotImplemented
        return operation(other, self) if reflected else operation(self, other)

    return binary


def in_place(operation):
    """The form of an operation that writes its result into its first argument."""

    def changed(self, *args, **kwargs):
        source = self._copy_with_history() if operation.keeps_input else self
        return self._change_in_place(operation(source, *args, **kwargs))

    changed.__doc__ = f"``{operation.__name__}``, written into this tensor."
    return changed
