"""Comparisons and logic."""

import numpy as np
from gradients import Case

from minitorch.operations import logic
from rows.table import binary, row, unary

for name, reference in {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    binary(getattr(logic, name), reference, differentiable=False)
for name in ("logical_and", "logical_or", "logical_xor", "isclose"):
    binary(getattr(logic, name), getattr(np, name), tensors_only=True, differentiable=False)
for name in ("logical_not", "isnan", "isinf", "isfinite"):
    unary(getattr(logic, name), getattr(np, name), differentiable=False)


def whole_numbers(name, reference, count):
    """Operations on booleans and integers; the floating-point input is only a carrier."""

    @row(name)
    def case(draw):
        arrays = [draw.array(shape) for shape in draw.broadcastable(count)]
        kind = draw.pick("bool", "int64")

        def function(*tensors):
            integers = [(4 * t.detach()).long() for t in tensors]
            return getattr(logic, name)(*(i > 0 if kind == "bool" else i for i in integers))

        def expected(*arrays):
            integers = [(4 * x).astype(np.int64) for x in arrays]
            return reference(*(i > 0 if kind == "bool" else i for i in integers))

        return Case(function, arrays, expected, differentiable=False)


whole_numbers("bitwise_and", np.bitwise_and, 2)
whole_numbers("bitwise_or", np.bitwise_or, 2)
whole_numbers("bitwise_xor", np.bitwise_xor, 2)
whole_numbers("bitwise_not", np.bitwise_not, 1)
