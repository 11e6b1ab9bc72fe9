"""Evaluates an expression with tensors, in minitorch or in PyTorch, into numbers to compare.

``like_pytorch.txt`` lists the expressions; ``like_pytorch.json`` keeps what PyTorch makes of each,
and ``layouts.json`` how PyTorch lays out the results of those in ``layouts.txt``. Both are written
by ``benchmarks/parity/expressions.py``. Nothing here needs PyTorch.
"""

import copy
import math
import pathlib
import re

import numpy as np

HERE = pathlib.Path(__file__).parent


def listed(file="like_pytorch.txt"):
    """The expressions, in the order of the file; ";;" parts statements before an expression."""
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _floating():
    rng = np.random.default_rng(1)

    def draw(*shape):
        return np.round(rng.standard_normal(shape), 3).astype(np.float32)

    inf, nan = np.inf, np.nan
    return {
        "x": draw(2, 3),
        "y": draw(2, 3),
        "z": draw(3),
        "v": draw(3),
        "w": draw(4),
        "b": draw(2, 3, 4),
        "c": draw(2, 4, 5),
        "m2": draw(3, 3),
        "s": np.array(1.5, np.float32),
        "one": draw(2, 1),
        "e": np.zeros((0, 3), np.float32),
        "e2": np.zeros((2, 0), np.float32),
        "pos": np.abs(draw(2, 3)) + np.float32(0.2),
        "nf": np.array([1, -inf, inf, nan, 0, -2], np.float32),
        "big": np.array([-1e4, -100, -1, 0, 1, 100, 1e4], np.float32),
        "minf": np.full((2, 3), -inf, np.float32),
        "mix": np.array([[0, -inf, 1], [-inf] * 3, [1e4, 1e4, -1e4]], np.float32),
        "ties": np.array([[1, 3, 3], [2, 2, 0]], np.float32),
        "zr": np.array([[0, 2, 3], [0, 0, 4], [1, 2, 3]], np.float32),
        "d64": draw(2, 3).astype(np.float64),
        "h": draw(2, 3).astype(np.float16),
    }


def _others():
    return {
        "i": np.array([[1, 2, 3], [4, 0, 6]]),
        "j": np.array([0, 2, 1]),
        "k": np.array([1, 0]),
        "n7": np.array([-7, 7, -3, 3]),
        "n3": np.array([3, -3, 2, -2]),
        "u8": np.array([1, 0, 3], np.uint8),
        "i32": np.array([1, 2, 3], np.int32),
        "i8": np.array([100, 2, 3], np.int8),
        "zi": np.array(2),
        "ei": np.zeros((0,), np.int64),
        "rep": np.array([0, 0, 1]),
        "idx": np.array([[0, 2], [1, 0]]),
        "mb": np.array([[True, False, True], [False, False, True]]),
        "mr": np.array([True, False]),
        "mc": np.array([True, False, True]),
        "zb": np.array(True),
    }


_FLOATING, _OTHERS = _floating(), _others()


def _flat(result):
    if isinstance(result, (tuple, list)) and type(result).__name__ != "Size":
        return [part for item in result for part in _flat(item)]
    return [result]


def _numbers(array):
    return [float(f"{x:.7g}") for x in np.asarray(array).reshape(-1).tolist()]


def _array(tensor):
    return tensor.detach().cpu().numpy()


def _plain(value):
    """One result as what JSON can hold: a tensor as its type, shape, gradient flag and numbers."""
    kind = type(value).__name__
    if kind in ("Tensor", "Parameter"):
        dtype = str(value.dtype).partition(".")[2]
        return [dtype, list(value.shape), value.requires_grad, _numbers(_array(value))]
    if isinstance(value, (np.ndarray, np.generic)):
        return [str(value.dtype), list(value.shape), False, _numbers(value)]
    if kind == "Size":
        return list(value)
    if kind == "dtype":
        return str(value).partition(".")[2]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _laid_out(torch, array, layout):
    """A tensor that lies by rows, by columns, with its last axis outermost, or with gaps."""
    if array.ndim < 2:
        return torch.tensor(array)
    if layout == "gaps":
        return torch.tensor(np.repeat(array, 2, axis=-1))[..., ::2]
    axes = tuple(range(array.ndim))
    order = {"rows": axes, "columns": axes[::-1], "turned": axes[-1:] + axes[:-1]}[layout]
    outer_first = torch.tensor(np.ascontiguousarray(array.transpose(order)))
    return outer_first.permute([order.index(axis) for axis in axes])


def _names(torch, expression, layout="rows"):
    """What an expression may name, and the tensors among it that require a gradient."""
    used = set(re.findall(r"\w+", expression))
    leaves = {
        name: _laid_out(torch, _FLOATING[name], layout).requires_grad_()
        for name in used & set(_FLOATING)
    }
    names = {"t": torch, "F": torch.nn.functional, "math": math, "np": np, "copy": copy}
    names |= {"inf": math.inf, "nan": math.nan} | leaves
    names |= {name: _laid_out(torch, _OTHERS[name], layout) for name in used & set(_OTHERS)}
    for name, array in _FLOATING.items():
        if f"{name}_" in used:
            names[f"{name}_"] = _laid_out(torch, array, layout)
    return names, leaves


def _results(expression, names):
    *statements, last = expression.split(" ;; ")
    for statement in statements:
        exec(statement, names)
    return _flat(eval(last, names))


def _steps(tensor):
    if tensor.is_contiguous():
        return None
    return [step for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]


def strides(torch, expression):
    """How the results lie: by the layout of the tensors, for each result its strides.

    Only those of axes with several elements, and None for a result that lies row by row.
    """
    found = {}
    for layout in ("rows", "columns", "turned", "gaps"):
        results = _results(expression, _names(torch, expression, layout)[0])
        found[layout] = [_steps(y) for y in results if isinstance(y, torch.Tensor)]
    return found


def evaluate(torch, expression):
    """``{"results": ..., "gradients": ...}``, or ``{"error": ...}`` with the exception's class.

    Every floating-point array is there by its name as a tensor that requires a gradient, and with
    "_" after its name as one that does not. The gradients are of a weighted sum of all results.
    """
    names, leaves = _names(torch, expression)
    try:
        results = _results(expression, names)
        plain = [_plain(result) for result in results]
        total = None
        for result in results:
            if isinstance(result, torch.Tensor) and result.requires_grad:
                weights = np.cos(np.arange(result.numel())).reshape(result.shape)
                term = (result.double() * torch.tensor(weights, device=result.device)).sum()
                total = term if total is None else total + term
        if total is not None:
            total.backward()
    except Exception as error:
        return {"error": type(error).__name__}
    return {
        "results": plain,
        "gradients": {
            name: _numbers(_array(leaf.grad))
            for name, leaf in leaves.items()
            if leaf.grad is not None and leaf.grad.any()
        },
    }
