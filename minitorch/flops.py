"""Count floating-point operations (FLOPs) of the products that a model computes.

Only matrix products are counted, a multiplication with its addition as 2: these are the "matmul
FLOPs" in which training cost is usually given (Kaplan et al., 2020, section 2.1; Chowdhery et al.,
2022, appendix B). Additions, softmax, normalisation and the like grow more slowly and are left out.
A forward pass costs 2 FLOPs for each weight and token, a backward pass twice that; together
6 x parameters x tokens, and attention's own products on top.

A fused operation counts as its definition written out: attention as two full products, also where
a causal mask would let it leave out half; a recurrent layer as its cell, step by step.
"""

import contextlib
import math
from collections import Counter

import numpy as np

from minitorch.autograd.modes import listening
from minitorch.operations.einsum import explicit_subscripts


@contextlib.contextmanager
def count_flops():
    """Count the FLOPs of the products that run inside the block; gives a ``FlopCounter``.

    A backward pass counts if its forward pass ran in the block too (else RuntimeError), and only
    the products that the gradients in demand need: frozen weights cost less. ::

        with count_flops() as counter:
            loss(model(inputs), targets).backward()
        print(counter.total, counter.forward, counter.backward, counter.by_name)
    """
    counter = FlopCounter()
    with listening(counter._listen):
        yield counter


class FlopCounter:
    """What ``count_flops`` counted: ``forward``, ``backward``, and ``by_name`` of operations."""

    def __init__(self):
        self.forward = self.backward = 0
        self.by_name = Counter()
        self._seen = {}

    @property
    def total(self):
        """Forward and backward together."""
        return self.forward + self.backward

    def __repr__(self):
        return f"FlopCounter(forward={self.forward:,}, backward={self.backward:,})"

    def _listen(self, name, inputs, outputs, backward):
        if name not in RULES:
            return
        came, went = _shapes(inputs), _shapes(outputs)
        if backward:
            count = self._backward(name, came, went)
            self.backward += count
        else:
            count, gradients = RULES[name](inputs, outputs)
            self.forward += count
            # The same shapes again move to the end, where they are found first.
            seen = self._seen.setdefault(name, {})
            key = came, went, inputs[-1] if name == "einsum_" else ""
            seen.pop(key, None)
            seen[key] = gradients
        self.by_name[name.rstrip("_")] += count

    def _backward(self, name, came, went):
        """The cost of the gradients ``went`` by the last forward operation of fitting shapes."""
        for (inputs, outputs, _), gradients in reversed(self._seen.get(name, {}).items()):
            arrived = all(g in (None, shape) for g, shape in zip(came, outputs, strict=True))
            if arrived and all(map(_is_gradient_of, went, inputs)):
                needed = {i for i, shape in enumerate(went) if shape is not None}
                return sum(cost for cost, users in gradients if needed & set(users))
        raise RuntimeError(
            f"count_flops saw a backward pass through {name.rstrip('_')} whose forward pass ran "
            "before the block: count both in one block"
        )


def _shapes(values):
    return tuple(getattr(value, "shape", None) for value in values)


def _is_gradient_of(gradient, shape):
    """Whether a gradient of this shape, perhaps not yet summed over copies, fits an argument."""
    if gradient is None or shape is None:
        return gradient is None
    pairs = zip(reversed(gradient), reversed(shape), strict=False)
    return len(gradient) >= len(shape) and all(n in (1, size) for size, n in pairs)


# Each rule gives the FLOPs of an operation, and those of each product of its gradient together with
# the positions of the arguments whose gradients need that product.


def _matmul(inputs, outputs):
    cost = 2 * outputs[0].size * inputs[0].shape[-1]
    return cost, [(cost, [0]), (cost, [1])]


def _attention(inputs, outputs):
    (*_, n, d_value), (*_, m, d) = outputs[0].shape, inputs[1].shape
    pairs = math.prod(outputs[0].shape[:-2]) * n * m
    scores, mixing = 2 * pairs * d, 2 * pairs * d_value
    toward_scores = (mixing, [0, 1, 3])
    return scores + mixing, [toward_scores, (scores, [0]), (scores, [1]), (mixing, [2])]


def _recurrent(weights_at):
    """The rule of rnn, lstm and gru, whose weights are the arguments at these positions."""

    def rule(inputs, outputs):
        ih, hh = weights_at
        tokens, sequences = math.prod(inputs[0].shape[:-1]), len(inputs[1])
        from_input, from_state = 2 * inputs[ih].size, 2 * inputs[hh].size
        return tokens * (from_input + from_state), [
            ((tokens - sequences) * from_state, range(len(inputs))),  # from each step to the last
            (sequences * from_state, [1]),
            (tokens * from_input, [0]),
            (tokens * from_input, [ih]),
            (tokens * from_state, [hh]),
        ]

    return rule


def _einsum(inputs, outputs):
    *operands, equation = inputs
    subscripts, result = explicit_subscripts(equation, operands)
    sizes = {}
    for letters, operand in zip(subscripts, operands, strict=True):
        for letter, size in zip(letters, operand.shape, strict=True):
            sizes[letter] = size if size != 1 else sizes.get(letter, 1)
    gradients = []
    for i, own in enumerate(subscripts):
        factors = [result, *subscripts[:i], *subscripts[i + 1 :]]
        known = "".join(c for c in dict.fromkeys(own) if any(c in factor for factor in factors))
        gradients.append((_contraction(factors, known, sizes), [i]))
    return _contraction(subscripts, result, sizes), gradients


def _contraction(factors, result, sizes):
    """The cost of an einsum in NumPy's order: each product goes over all letters that it names."""
    if len(factors) < 2:
        return 0
    shapes = [np.broadcast_to(np.float32(0), [sizes[c] for c in factor]) for factor in factors]
    order, _ = np.einsum_path(",".join(factors) + "->" + result, *shapes, optimize=True)
    left, cost = list(factors), 0
    for group in order[1:]:
        taken = [left.pop(i) for i in sorted(group, reverse=True)]
        letters = set("".join(taken))
        if len(taken) > 1:
            cost += len(taken) * math.prod(sizes[c] for c in letters)
        left.append("".join(letters & set(result + "".join(left))))
    return cost


RULES = {
    "matmul": _matmul,
    "linear": _matmul,
    "einsum_": _einsum,
    "scaled_dot_product_attention": _attention,
    "rnn": _recurrent((2, 3)),
    "lstm": _recurrent((3, 4)),
    "gru": _recurrent((2, 3)),
}
