"""Every operation, with an argument or its result changed in place before backward.

The gradient is then still that of finite differences, or backward refuses and says what was
changed. Never is it another number.
"""

import random
from collections import Counter

import gradients
import numpy as np
import operations_of_tensors  # noqa: F401  (more rows)
import pytest
from operations_table import ROWS

import minitorch as mt
from minitorch.autograd.modes import listening
from minitorch.backend import to_numpy


def other_values(array):
    """Values of the same type that differ everywhere; integers stay positions that exist."""
    if array.dtype == bool:
        return np.asarray(~array)
    other = np.where(array == 0, array.max(), 0) if array.dtype.kind in "iu" else 7 - 3 * array
    return np.asarray(other, dtype=array.dtype)


def by_method(x, values):
    x.copy_(values)


def by_operator(x, values):
    if x.dtype is mt.bool:
        x ^= True
    else:
        x += values - x.detach()


def by_index(x, values):
    x[...] = values


def by_mask(x, values):
    mask = mt.ones(x.shape, dtype=mt.bool)
    x[mask] = values[mask]


def through_view(x, values):
    x.unsqueeze(0)[0].copy_(values)


def through_detach(x, values):
    x.detach().copy_(values)


def through_data(x, values):
    x.data.copy_(values)


def under_no_grad(x, values):
    with mt.no_grad():
        x.copy_(values)


WAYS = [
    by_method,
    by_operator,
    by_index,
    by_mask,
    through_view,
    through_detach,
    through_data,
    under_no_grad,
]


def is_array(value):
    return hasattr(value, "strides")


class Program:
    """A case's function, called once: its leaves, its results, and all arrays that took part."""

    def __init__(self, case, name):
        self.leaves = [gradients.tensor_of(x.copy()).requires_grad_() for x in case.inputs]
        self.arguments = [x * 1 for x in self.leaves]
        self.arrays = []

        def listen(heard, inputs, outputs, backward):
            if heard == name and not backward:
                tensors = map(mt.Tensor._wrap, (x for x in (*inputs, *outputs) if is_array(x)))
                self.arrays = [x.array for x in tensors if x.array.size]

        with listening(listen):
            self.outputs = gradients.outputs_of(case.function(*self.arguments))
        self.used = [y * 1 for y in self.outputs]

    def change(self, place, way):
        """Change an array, through its tensor if the program has one."""
        array = self.arrays[place]
        tensors = [x for x in (*self.arguments, *self.outputs) if x.array is array]
        x = tensors[0] if tensors else mt.Tensor._wrap(array)
        way(x, gradients.tensor_of(other_values(to_numpy(array))))

    def gradients(self):
        weights = map(mt.tensor, gradients.weights_of(self.used))
        chosen = [(y, w) for y, w in zip(self.used, weights, strict=True) if y.requires_grad]
        mt.autograd.backward(*map(list, zip(*chosen, strict=True)))
        return [
            np.zeros(x.shape) if x.grad is None else to_numpy(x.grad.array) for x in self.leaves
        ]


def outcome(program, place, way, expected):
    """What becomes of a program: it is right, wrong, refused, or cannot be written."""
    try:
        program.change(place, way)
    except RuntimeError:
        return "cannot be written"
    try:
        got = program.gradients()
    except RuntimeError as error:
        assert "changed in place" in str(error), error
        return "refused"
    same = all(np.allclose(a, b, 1e-5, 1e-6) for a, b in zip(got, expected, strict=True))
    return "right" if same else "wrong"


def cases(name):
    """Some calls of an operation that have a gradient, each with its finite differences."""
    for seed in range(4):
        case = ROWS[name](gradients.Draw(random.Random(seed).randint))
        if case.differentiable and any(x.size for x in case.inputs):
            weights = gradients.weights_of(Program(case, name).outputs)
            yield case, gradients.differences(case, weights)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_gradient_is_right_or_refused(name):
    wrong = []
    for case, expected in cases(name):
        for place in range(len(Program(case, name).arrays)):
            for way in WAYS:
                result = outcome(Program(case, name), place, way, expected)
                gradients.counts[f"changes in place: {result}"] += 1
                if result == "wrong":
                    wrong.append((place, way.__name__))
    assert not wrong, Counter(wrong)
