"""Answers to the exercises of ``powers.py``."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_01.powers import _matrix_cases, reach


@reach.answer(hidden_cases=lambda draw: _matrix_cases(draw, more=[(5, 0.3)]))
def reach(W_hh, share, most):
    """The largest distance, up to `most`, at which the power's norm is at least `share`."""
    W, found = W_hh.numpy(), None
    power, logarithm = np.eye(len(W)), 0.0  # power * exp(logarithm) is W to the power of k
    for k in range(most + 1):
        norm = np.linalg.norm(power, 2)
        if norm == 0:
            break
        power, logarithm = power / norm, logarithm + math.log(norm)
        if logarithm >= math.log(share):
            found = k
        power = power @ W
    return found


# Right in another way


def reach_from_the_end(W_hh, share, most):
    """Whole numbers of Python carry the scale: powers of two."""
    W, norms = W_hh.numpy(), []
    power, doublings = np.eye(len(W)), 0
    for _ in range(most + 1):
        size = float(np.linalg.svd(power)[1][0])
        norms.append((doublings + math.log2(size)) if size else -math.inf)
        if size:
            exponent = math.frexp(size)[1]
            power, doublings = power / 2.0**exponent, doublings + exponent
        power = W @ power
    for k in range(most, -1, -1):
        if norms[k] >= math.log2(share):
            return k
    return None


def reach_in_tensors(W_hh, share, most):
    power, log, found = mt.eye(len(W_hh), dtype=W_hh.dtype), 0.0, None
    for k in range(most + 1):
        top = power.abs().max().item()
        if not top:
            return found
        power, log = power / top, log + math.log(top)
        values = np.linalg.eigvalsh((power.T @ power).numpy())
        if 0.5 * math.log(values[-1]) + log >= math.log(share):
            found = np.int64(k)
        power = power @ W_hh
    return found


right = {
    "reach": [reach_from_the_end, reach_in_tensors],
}
