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

Whatever the gradient functions of the arguments that need a gradient name (``other``, ``input``, or
the result, which is then called ``out``) is kept until backward, and an in-place change of it
meanwhile is an error.
"""

import functools
import inspect
import itertools
from types import CodeType

import numpy as np

from minitorch.autograd.graph import Node
from minitorch.autograd.modes import state
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import get_default_dtype, numpy_dtype


def _names_kept(function):
    """What functions defined inside a function use of its variables: names, by code object."""
    inner = [code for code in function.__code__.co_consts if isinstance(code, CodeType)]
    inner = [code for code in inner if code.co_name.isidentifier() or code.co_name == "<lambda>"]
    kept = {code: set(code.co_freevars) for code in inner}
    for _ in inner:
        for code in inner:
            kept[code].update(*(kept[other] for other in inner if other.co_name in kept[code]))
    return kept


def _by_position(args, kwargs, parameters):
    """The arguments, with those given by name moved from ``kwargs`` to their places."""
    args = list(args)
    for name, default in parameters[len(args) :]:
        if not kwargs or (name not in kwargs and default is inspect.Parameter.empty):
            break
        args.append(kwargs.pop(name, default))
    return tuple(args)


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
    dtype = getattr(operands[0], "dtype", None)
    if dtype is None or (promote == "float" and dtype.kind != "f"):
        return False
    for other in operands[1:count]:
        if getattr(other, "dtype", None) is not dtype:
            if dtype.kind != "f" or not (type(other) is float or type(other) is int):
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
    return {_NUMPY_NAMES.get(name, name): value for name, value in kwargs.items()}


def numpy_names(function):
    """Let ``dim`` and ``keepdim`` be called axis and keepdims too; operations do so anyway."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **(_renamed(kwargs) if kwargs else kwargs))

    return call


def operation(promote=None, view=False):
    """Make an operation on tensors out of a function on arrays (see the head of this file).

    ``promote="common"`` brings the operands (the leading arguments called input, other, exponent)
    to one type first, ``promote="float"`` to a floating one. ``view=True`` says that the result
    may share the memory of the first argument.
    """

    def decorate(function):
        name = function.__name__
        parameters = inspect.signature(function).parameters
        defaults = [
            (p.name, p.default) for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        operands = sum(p in ("input", "other", "exponent") for p in parameters) or None
        places = {
            parameter: (i, f"argument '{parameter}'") for i, parameter in enumerate(parameters, 1)
        }
        places["out"] = (0, "result")
        kept_by = {
            id(code): [places[n] for n in sorted(names) if n in places]
            for code, names in _names_kept(function).items()
        }
        kept_by_all = list({kept: None for names in kept_by.values() for kept in names})

        def kept(vjp):
            """What a node's gradient functions use: 0 for the result or the argument's number."""
            if type(vjp) is not tuple:
                return kept_by_all
            used = [kept_by.get(id(f.__code__), kept_by_all) for f in vjp if f is not None]
            return list(itertools.chain(*used))

        def promote_operands(args, arrays, versions):
            plain = [
                array if array is not arg else _plain(arg, name)
                for array, arg in zip(arrays[:operands], args, strict=False)
            ]
            arrays[:operands] = promoted(plain, promote == "float")
            for i, arg in enumerate(args[:operands], 1):
                if versions and versions[i] and arrays[i - 1] is not arg.array:
                    versions[i] = None

        @functools.wraps(function)
        def call(*args, **kwargs):
            if kwargs:
                kwargs = _renamed(kwargs)
                args = _by_position(args, kwargs, defaults)
            edges, versions, needed = [], [], 0
            if state.grad_enabled:
                arrays, versions = [], [None]
                for arg in args:
                    edge = version = None
                    if isinstance(arg, TensorBase):
                        shown = arg._view
                        if shown is not None and shown.base._edge is not shown.edge:
                            arg._follow_base(strictly=True)
                        arrays.append(arg.array)
                        version = arg._version
                        if arg._requires_grad:
                            edge = arg._edge or arg
                            needed += 1
                    else:
                        arrays.append(arg)
                    edges.append(edge)
                    versions.append(version)
            else:
                arrays = [arg.array if isinstance(arg, TensorBase) else arg for arg in args]
            if promote and not _ready(arrays, operands, promote):
                promote_operands(args, arrays, versions)
            try:
                result, vjp = function(*arrays, **kwargs)
            except (TypeError, ValueError) as error:
                _explain(error, name, args)
                raise
            several = type(result) is tuple
            if state.listeners:
                heard = result if several else (result,)
                for listener in state.listeners:
                    listener(name, [*arrays, *kwargs.values()], heard, False)
            wrap = TensorBase.result_class._wrap
            tensors = [wrap(array) for array in result] if several else (wrap(result),)
            if view:
                refusal = f"one of several that {name} gave" if several else None
                for tensor in tensors:
                    tensor._show(args[0], call, args[1:], refusal)
            if needed and vjp is not None and tensors:
                if type(vjp) is tuple and needed < len(vjp):
                    pairs = zip(edges, vjp, strict=False)
                    vjp = tuple([None if edge is None else toward for edge, toward in pairs])
                versions[0] = tensors[0]._version
                node = Node(call, vjp, edges, len(tensors) if several else None, versions)
                for index, tensor in enumerate(tensors):
                    array = tensor.array
                    if array.dtype.kind == "f":
                        tensor._edge = (node, index, array.shape, array.dtype)
                        tensor._requires_grad = True
            return tuple(tensors) if several else tensors[0]

        call.on_arrays = function
        call.kept = kept
        call.keeps_input = any(index == 1 for index, _ in kept_by_all)
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


def in_place(operation):
    """The form of an operation that writes its result into its first argument."""

    def changed(self, *args, **kwargs):
        source = self
        if operation.keeps_input and state.grad_enabled:
            tensors = [x for x in (self, *args, *kwargs.values()) if isinstance(x, TensorBase)]
            if any(tensor.requires_grad for tensor in tensors):
                source = self._copy_with_history()
        return self._change_in_place(operation(source, *args, **kwargs))

    changed.__doc__ = f"``{operation.__name__}``, written into this tensor."
    return changed
