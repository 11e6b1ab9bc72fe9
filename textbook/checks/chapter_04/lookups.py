"""A table that finds pairs."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


def _table_cases(draw, more=()):
    yield from [(3, 0.25), (3, 0.9), (4, 0.1), (4, 0.5), (5, 0.01), (6, 1e-6)]
    yield from more


def _looked_up(answer, n, error):
    """The weights, if two matrices of one shape came back."""
    found = answer(n, error)
    pair = isinstance(found, (tuple, list)) and len(found) == 2
    if not pair or not all(isinstance(x, mt.Tensor) and x.ndim == 2 for x in found):
        return {"the form of the result": "something else", "the tensor of weights": None}
    keys, queries = (x.double() for x in found)
    shapes = [tuple(x.shape) for x in (keys, queries)]
    form = "two matrices with n rows" if shapes[0] == shapes[1] and len(keys) == n else f"{shapes}"
    result = {"the form of the result": form, "the tensor of weights": None}
    if form.startswith("two"):
        result["the tensor of weights"] = (queries @ keys.T).softmax(dim=-1)
    return result


def _explained(check, answer, n, error):
    """What the first query finds that it should not."""
    weights = _looked_up(answer, n, error)["the tensor of weights"]
    if weights is None:
        return None
    for i in range(n):
        pair, row = sorted({i, (i + 1) % n}), weights[i].tolist()
        least = max if error > (n - 2) / n else min  # the pair may have less than the others
        largest = sorted(range(n), key=row.__getitem__, reverse=least is min)
        a, b = (row[j] for j in pair)
        if abs(a - b) > 1e-6:
            return (
                f"Query {i} does not find keys {pair[0]} and {pair[1]} alike: it puts {a:.4g} and "
                f"{b:.4g} on them, and most on key {largest[0]}."
            )
        if abs(a + b - 1 + error) > 1e-6:
            return (
                f"Query {i} finds keys {pair[0]} and {pair[1]} alike, but puts {a + b:.6g} on "
                f"both together; 1 - error is {1 - error:.6g}. It is the factor that is wrong: "
                "the ratio of a wanted weight to an unwanted one is exp of it."
            )
    return None


@exercise(
    cases=_table_cases,
    hidden_cases=lambda draw: _table_cases(
        draw, more=[(9, 1e-6), (7, 0.3), (5, 0.6), (4, 0.9), (8, 0.5)]
    ),
    run=_looked_up,
    reasons=(_explained,),
    gradients=False,
    after_passing=(
        "Smaller: n - 1 dimensions are enough. Take the mean of all keys away from each."
    ),
    see='chapter 04, "Sharp and flat queries"',
)
def pair_table(n, error):
    """Keys (n, d), queries (n, d): query i finds keys i and i + 1, (1 - error) / 2 each."""
    # e^scale must be the ratio of a wanted weight to an unwanted one.
    scale = math.log((1 - error) / 2 / (error / (n - 2)))
    keys = mt.eye(n)
    return keys, scale * (keys + keys.roll(-1, 0))
