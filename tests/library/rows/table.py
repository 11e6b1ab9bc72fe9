"""What rows are written with: ``row``, and two forms of it for functions of one or two tensors."""

import autograd.numpy as anp
from gradients import Case

ROWS = {}
KINDS = ("tensors", "tensors", "tensors", "number right", "number left")


def row(name):
    """Register the function that draws a ``Case`` of the operation of that name."""

    def register(make):
        assert name not in ROWS, f"two rows for {name}"
        ROWS[name] = make
        return make

    return register


def unary(function, reference, domain="any", **flags):
    """The row of an operation on one tensor."""

    @row(function.__name__)
    def case(draw):
        return Case(function, [draw.array(draw.shape(), domain)], reference, **flags)


def binary(function, reference, domains=("any", "any"), tensors_only=False, **flags):
    """The row of an operation on two tensors, or on a tensor and a number."""

    @row(function.__name__)
    def case(draw):
        kind = "tensors" if tensors_only else draw.pick(*KINDS)
        if kind == "tensors":
            drawn = zip(draw.broadcastable(2), domains, strict=True)
            inputs = [draw.array(shape, domain) for shape, domain in drawn]
            return Case(function, inputs, reference, **flags)
        number = draw.pick(2, 0.7, 1.5)
        if kind == "number right":
            inputs = [draw.array(draw.shape(), domains[0])]
            return Case(
                lambda x: function(x, number), inputs, lambda x: reference(x, number), **flags
            )
        inputs = [draw.array(draw.shape(), domains[1])]
        return Case(lambda x: function(number, x), inputs, lambda x: reference(number, x), **flags)


def sigmoid(x):
    """1 / (1 + exp(-x)), for HIPS autograd."""
    return 1 / (1 + anp.exp(-x))
