"""Cases for operations, and three independent judges of a gradient.

A row of ``rows`` draws a ``Case``: a function on tensors, float64 arrays to call it on,
and the same function on arrays. ``check_values`` compares the results, ``check_differences`` the
gradient with central differences, ``check_autograd`` the gradient with HIPS autograd.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import autograd
import autograd.numpy as anp
import numpy as np

import minitorch as mt
from minitorch.backend import array_module, to_numpy

counts = Counter()


@dataclass
class Case:
    """``reference`` is ``function`` on arrays. ``by_autograd``: HIPS autograd can go through it."""

    function: Callable
    inputs: list
    reference: Callable | None
    by_autograd: bool = True
    differentiable: bool = True
    repeatable: bool = True


class Draw:
    """What a row asks for: choices, shapes, axes, and arrays without ties or kinks.

    ``integer(low, high)`` is where all choices come from: hypothesis, which likes edge cases and
    makes a failing one small, or a random generator, whose shapes vary more.
    """

    def __init__(self, integer):
        self.int = integer
        self._arrays = 0

    def pick(self, *options):
        return options[self.int(0, len(options) - 1)]

    def flag(self):
        return self.pick(False, True)

    def shape(self, min_dims=0, max_dims=3, min_side=0, max_side=4):
        dims = self.int(min_dims, max_dims)
        return tuple(self.int(min_side, max_side) for _ in range(dims))

    def broadcastable(self, count):
        """Shapes that broadcast against one another."""
        whole = self.shape(max_side=3)
        shapes = []
        for _ in range(count):
            ones = self.mask((len(whole),))
            shape = tuple(1 if one else side for one, side in zip(ones, whole, strict=True))
            shapes.append(shape[self.pick(0, 0, 1, 2) :])
        return shapes

    def axis(self, ndim):
        return self.int(-ndim, ndim - 1)

    def axes(self, ndim):
        """None, one axis, or several, as ``dim`` of a reduction."""
        if not ndim or self.pick(True, False, False):
            return None
        return self.axis(ndim) if self.flag() else self.order(ndim)[: self.int(1, ndim)]

    def rng(self):
        return np.random.default_rng(self.int(0, 1000))

    def order(self, count):
        return tuple(self.rng().permutation(count).tolist())

    def indices(self, shape, below):
        return self.rng().integers(0, below, shape)

    def mask(self, shape):
        return self.rng().random(shape) < 0.5

    def array(self, shape, domain="any"):
        """float64 numbers, far from one another and from the integers, in one of four layouts.

        ``domain``: "any" is about -2 to 2, "nonzero" keeps 0.3 away from zero, "positive" is
        0.3 to 2.3.
        """
        size = int(np.prod(shape))
        half = max(64, size)
        offset = (0.37, 0.61, 0.23, 0.79, 0.13)[self._arrays % 5]
        self._arrays += 1
        values = self.rng().permutation(np.arange(-half, half))[:size] + offset
        values = np.asarray(values.reshape(shape) * (2 / half))
        if domain != "any":
            sign = np.sign(values) if domain == "nonzero" else 1
            values = np.asarray(sign * (np.abs(values) + 0.3))
        return self.laid_out(values)

    def laid_out(self, values):
        """The same values as they lie, column by column, with gaps, or backwards."""
        layout = self.pick("rows", "columns", "gaps", "backwards") if values.ndim else "rows"
        if layout == "columns":
            return np.asfortranarray(values)
        if layout == "gaps":
            wide = np.full(tuple(2 * n for n in values.shape), np.nan)
            apart = wide[(slice(None, None, 2),) * values.ndim]
            apart[...] = values
            return apart
        return values[::-1].copy()[::-1] if layout == "backwards" else values


def outputs_of(result):
    """The results of a function that returns one tensor or several."""
    return result if isinstance(result, tuple) else (result,)


def tensor_of(array):
    """A tensor on the device under test; on the CPU it shares the memory of the array."""
    return mt.from_numpy(array).to(mt.get_default_device())


def weights_of(outputs):
    """Fixed weights with which all elements of the results add up to the number to be derived."""
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(y.array.shape)) for y in outputs]


def run_backward(case):
    """Outputs, the weights given to them, and the gradient of each input."""
    tensors = {id(x): tensor_of(x).requires_grad_() for x in case.inputs}
    before = [x.copy() for x in case.inputs]
    outputs = outputs_of(case.function(*(tensors[id(x)] for x in case.inputs)))
    weights = weights_of(outputs)
    floating = [
        (y, mt.tensor(w)) for y, w in zip(outputs, weights, strict=True) if y.is_floating_point()
    ]
    mt.autograd.backward(*map(list, zip(*floating, strict=True)))
    for x, kept in zip(case.inputs, before, strict=True):
        np.testing.assert_array_equal(x, kept, "the operation or its gradient changed an input")
    grads = [tensors[id(x)].grad for x in case.inputs]
    for i, (grad, x) in enumerate(zip(grads, case.inputs, strict=True)):
        if grad is None:
            continue
        assert grad.shape == x.shape, f"gradient {i} has shape {grad.shape}, input {x.shape}"
        assert grad.dtype is mt.float64
        others = [*tensors.values(), *outputs, *(g for g in grads if g is not None)]
        xp = array_module(grad.array)
        assert not any(
            xp.may_share_memory(grad.array, other.array) for other in others if other is not grad
        )
    return outputs, weights, [None if grad is None else to_numpy(grad.array) for grad in grads]


def _compare(grads, expected, judge):
    for i, (got, wanted) in enumerate(zip(grads, expected, strict=True)):
        got = np.zeros_like(wanted) if got is None else got
        np.testing.assert_allclose(
            got, wanted, rtol=1e-5, atol=1e-6, err_msg=f"gradient of input {i}, by {judge}"
        )
        counts[judge] += 1


def check_values(case):
    """The results equal those of the reference."""
    outputs = outputs_of(case.function(*map(tensor_of, case.inputs)))
    expected = outputs_of(case.reference(*case.inputs))
    assert len(outputs) == len(expected)
    for got, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(to_numpy(got.array), wanted, rtol=1e-12, atol=1e-12, strict=True)
        counts["values"] += 1


def differences(case, weights, step=1e-6):
    """For each input (f(x + step) - f(x - step)) / (2 step), element by element."""

    def outputs():
        with mt.no_grad():
            results = outputs_of(case.function(*map(tensor_of, case.inputs)))
        return [
            to_numpy(y.array).copy() if y.is_floating_point() else np.zeros(()) for y in results
        ]

    expected = []
    for x in case.inputs:
        gradient = np.zeros(x.shape)
        for position in np.ndindex(x.shape):
            kept = x[position]
            x[position] = kept + step
            above = outputs()
            x[position] = kept - step
            below = outputs()
            x[position] = kept
            gradient[position] = sum(
                ((a - b) * w).sum() for a, b, w in zip(above, below, weights, strict=True)
            ) / (2 * step)
        expected.append(gradient)
    return expected


def check_differences(case):
    """The gradient equals that of ``differences``."""
    _, weights, grads = run_backward(case)
    _compare(grads, differences(case, weights), "finite differences")


def check_draws(row, count=25):
    """Values and differences of the cases that a row draws from as many seeds."""
    for seed in range(count):
        print("seed", seed)
        case = row(Draw(random.Random(seed).randint))
        check_values(case)
        check_differences(case)


def check_autograd(case):
    """The gradient equals that of HIPS autograd through the reference."""
    _, weights, grads = run_backward(case)
    distinct = list({id(x): x for x in case.inputs}.values())
    place = [next(i for i, d in enumerate(distinct) if d is x) for x in case.inputs]

    def total(arrays):
        results = outputs_of(case.reference(*(arrays[i] for i in place)))
        return sum(anp.sum(y * w) for y, w in zip(results, weights, strict=True))

    expected = autograd.grad(total)(distinct)
    _compare(grads, [expected[i] for i in place], "HIPS autograd")


def check_no_gradient(case):
    """Nothing is recorded for an operation whose derivative is zero or does not exist."""
    tensors = [tensor_of(x).requires_grad_() for x in case.inputs]
    assert not any(y.requires_grad for y in outputs_of(case.function(*tensors)))
