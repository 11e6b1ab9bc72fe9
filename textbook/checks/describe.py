"""What all wrong results of an answer have in common, in a sentence: a factor, an exchange of axes.

A pattern is told only if it explains every result that differs, and if they are enough to show one.
"""

import itertools
import math

import numpy as np

from minitorch.autograd.tensorbase import TensorBase
from textbook.checks.compare import ATOL, RTOL, as_array, number

ENOUGH = 6  # numbers: what fewer have in common may be chance
NAMED = {
    -1.0: "The sign is the other one",
    1 / math.log(2): "It is 1 / ln 2 times what is expected, as with logarithms to the base 2",
    math.log(2): "It is ln 2 times what is expected",
    100.0: "It is 100 times what is expected, as in percent",
}
FUNCTIONS = {
    "the logarithm": np.log,
    "the exponential": np.exp,
    "the square": np.square,
    "the square root": np.sqrt,
    "1 minus": lambda x: 1 - x,
    "1 divided by": lambda x: 1 / x,
}


def in_common(pairs, sizes):
    """A sentence on what all wrong results have in common, or None.

    ``pairs`` are of what came and what was expected, tensors, numbers or lists of them, from all
    cases in which they differ; ``sizes`` has for each case a dict from a phrase to a length.
    """
    if all(isinstance(value, (list, tuple)) for pair in pairs for value in pair):
        return _of_items(pairs, sizes)
    pairs = [(_plain(got), _plain(expected)) for got, expected in pairs]
    if any(
        got is None or expected is None or got.shape != expected.shape for got, expected in pairs
    ):
        return None
    if sum(got.size for got, _ in pairs) < ENOUGH or _one_number(pairs):
        return None
    with np.errstate(all="ignore"):
        return next(filter(None, (pattern(pairs, sizes) for pattern in PATTERNS)), None)


def _of_items(pairs, sizes):
    """The same for lists: which items are right, stand elsewhere, or have a pattern."""
    lengths = {len(value) for pair in pairs for value in pair}
    if len(lengths) != 1:
        return None
    count = lengths.pop()
    plain = [[[*map(_plain, value)] for value in pair] for pair in pairs]
    items = [item for pair in plain for value in pair for item in value]
    if any(item is None for item in items):
        return None
    if all(item.ndim == 0 for item in items):
        return in_common([tuple(map(np.array, pair)) for pair in plain], sizes)
    for order in itertools.islice(itertools.permutations(range(count)), 1, 24):
        if all(_same(got[i], want[j]) for got, want in plain for i, j in enumerate(order)):
            return f"The items are right, but they stand in the order {list(order)}."
    right = [i for i in range(count) if all(_same(got[i], want[i]) for got, want in plain)]
    wrong = [i for i in range(count) if i not in right]
    if len(wrong) != 1:
        return None
    [i] = wrong
    text = in_common([(got[i], want[i]) for got, want in pairs], sizes) or ""
    return f"Only item [{i}] is wrong. {text}".rstrip()


def _one_number(pairs):
    """Whether it is a single number, the same each time: of it anything is a factor."""
    return all(got.ndim == 0 and (got, want) == pairs[0] for got, want in pairs)


def _plain(value):
    """A tensor or number as an array of numbers, None for anything else."""
    if not isinstance(value, (TensorBase, np.ndarray)):
        value = number(value)
    array = np.asarray(as_array(value))
    return array.astype(float) if array.dtype.kind in "biuf" else None


def _same(got, expected):
    return got.shape == expected.shape and np.allclose(got, expected, RTOL, ATOL, equal_nan=True)


def _every(pairs, change):
    """Whether ``change`` makes of each expected result the one that came."""
    return all(_same(got, change(expected)) for got, expected in pairs)


def _factor(pairs, sizes):
    factors = []
    for got, expected in pairs:
        ratios = (got / expected)[np.abs(expected) > 1e-6]
        if not ratios.size or not np.allclose(ratios, ratios[0], 1e-4):
            return None
        if not np.allclose(got, ratios[0] * expected, 1e-4, 1e-6):
            return None
        factors.append(float(np.real(ratios[0])))
    if not np.any(np.abs(factors) > 1e-6) or not np.all(np.isfinite(factors)):
        return None
    if np.allclose(factors, 1, 1e-4):  # they differ where almost nothing is expected
        return None
    if np.allclose(factors, factors[0], 1e-4):
        known = (text for value, text in NAMED.items() if math.isclose(value, factors[0]))
        return next(known, f"It is {factors[0]:.6g} times what is expected") + ", everywhere."
    for name in sizes[0]:
        lengths = np.array([case.get(name, 0) for case in sizes], float)
        if len({*lengths}) < 2 or not lengths.all():
            continue
        for text, power in {
            "": 1,
            "1 / ": -1,
            "the root of ": 0.5,
            "1 / the root of ": -0.5,
        }.items():
            if np.allclose(factors, lengths**power, 1e-4):
                return f"It is {text}{name} times what is expected, everywhere."
    return None


def _offset(pairs, sizes):
    offsets = np.concatenate([np.ravel(got - expected) for got, expected in pairs])
    if np.allclose(offsets, 0, atol=1e-4):  # they differ where almost nothing is expected
        return None
    if np.all(np.isfinite(offsets)) and np.allclose(offsets, offsets[0], 1e-4, 1e-6):
        return f"It is {offsets[0]:+.6g} away from what is expected, everywhere."
    return None


def _other_place(pairs, sizes):
    axes = range(min(expected.ndim for _, expected in pairs))
    for i, j in itertools.combinations(axes, 2):
        if _every(pairs, lambda x, i=i, j=j: x.swapaxes(i, j)):
            return f"It is right but for axes {i} and {j}, which are exchanged."
    for i in axes:
        if _every(pairs, lambda x, i=i: np.flip(x, i)):
            return f"It is right, but stands in the opposite order along axis {i}."
        for by in (1, -1):
            if _every(pairs, lambda x, i=i, by=by: np.roll(x, by, i)):
                word = "late" if by > 0 else "early"
                return f"It is right, but stands one place too {word} along axis {i}."
    return None


def _sign(pairs, sizes):
    if all(_same(np.abs(got), np.abs(expected)) for got, expected in pairs):
        return "It is right but for signs."
    return None


def _function(pairs, sizes):
    for name, function in FUNCTIONS.items():
        if _every(pairs, function):
            return f"It is {name} {'' if name.startswith('1') else 'of '}what is expected."
    return None


def _some_places(pairs, sizes):
    """Right everywhere but at one end of an axis, or on one side of the diagonal."""
    wrong = [~np.isclose(got, expected, RTOL, ATOL, equal_nan=True) for got, expected in pairs]
    axes = range(min(x.ndim for x in wrong))
    for axis in axes:
        if min(x.shape[axis] for x in wrong) < 2:
            continue
        for index, word in ((0, "first"), (-1, "last")):
            if all(
                x.take(index, axis).any() and not np.delete(x, index, axis).any() for x in wrong
            ):
                return f"It is right but for the {word} place along axis {axis}."
    if len(axes) >= 2 and min(min(x.shape[-2:]) for x in wrong) >= 2:
        parts = {
            "on the diagonal": lambda x: x & np.eye(*x.shape[-2:], dtype=bool),
            "above the diagonal": lambda x: np.triu(x, 1),
            "below the diagonal": lambda x: np.tril(x, -1),
        }
        for word, part in parts.items():
            if all(np.array_equal(part(x), x) for x in wrong):
                return f"It is wrong only {word} of the last two axes."
    return None


def _alike(pairs, sizes):
    for axis in range(min(expected.ndim for _, expected in pairs)):
        if all(got.shape[axis] >= 2 and _level(got, axis) for got, _ in pairs):
            if not any(_level(expected, axis) for _, expected in pairs):
                return f"It is the same all along axis {axis}, which it should not be."
    return None


def _level(x, axis):
    """Whether all places along an axis hold the same."""
    return _same(x, np.broadcast_to(x.take([0], axis), x.shape))


PATTERNS = (_factor, _offset, _other_place, _sign, _function, _some_places, _alike)
