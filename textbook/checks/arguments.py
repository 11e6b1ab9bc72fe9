"""Arguments and results of answers: how they are copied, measured and searched for tensors."""

import copy
import itertools
from inspect import signature

from minitorch.autograd.tensorbase import TensorBase


def size(value):
    """The number of elements in an argument, or in all arguments of a case."""
    if isinstance(value, (list, tuple)):
        return sum(map(size, value))
    return value.array.size if isinstance(value, TensorBase) else getattr(value, "size", 1)


def is_plain(value):
    """Whether its ``repr`` says all of it."""
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    return value is None or isinstance(value, (int, float, str))


def copied(value, of_tensor):
    """A copy; ``of_tensor`` copies the tensors."""
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item, of_tensor) for item in value)
    return of_tensor(value) if isinstance(value, TensorBase) else copy.deepcopy(value)


def detached(tensor):
    """A copy without history."""
    return tensor.detach().clone()


def leaf(tensor):
    """A copy that requires a gradient, if it can have one."""
    return detached(tensor).requires_grad_(tensor.is_floating_point())


def layout(value):
    """The shapes in a value; of what has none, its type."""
    if isinstance(value, (list, tuple)):
        return tuple(map(layout, value))
    return getattr(value, "shape", type(value))


def names(answer):
    """The names of what a function takes; of what a class and its forward take."""
    try:
        functions = answer, getattr(answer, "forward", answer)
        return {name for function in functions for name in signature(function).parameters}
    except (TypeError, ValueError):  # what is built in may not tell its own
        return set()


def exchanges(cases):
    """The first pairs (i, j) of different cases of each layout."""
    pairs = {}
    for i, j in itertools.permutations(range(len(cases)), 2):
        if (shape := layout(cases[i])) == layout(cases[j]):
            pairs.setdefault(repr(shape), []).append((i, j))
    return [pair for each in pairs.values() for pair in each[:6]]


def exchanged(cases, i, j, p):
    """Case i, with argument p of case j."""
    return (*cases[i][:p], cases[j][p], *cases[i][p + 1 :])


def lengths(names, case):
    """The lengths of all axes of the tensors among the arguments, each with a phrase for it."""
    return {
        f"the length of axis {axis} of {name}": length
        for name, x in zip(names, case, strict=True)
        if isinstance(x, TensorBase)
        for axis, length in enumerate(x.shape)
    }


def tensors(value, name):
    """The tensors in a value, each with its name, in order."""
    if isinstance(value, TensorBase):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from tensors(item, f"{name}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{name}[{key!r}]")
