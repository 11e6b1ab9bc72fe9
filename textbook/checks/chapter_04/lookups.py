"""A table that finds pairs."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


def _table_cases(draw, hidden):
    yield from [(3, 0.25), (3, 0.9), (4, 0.1), (4, 0.5), (5, 0.01), (6, 1e-6)]
    if hidden:
        yield from [(9, 1e-6), (7, 0.3), (5, 0.6), (4, 0.9), (8, 0.5)]


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


def _right_scale(n, error):
    return math.log((1 - error) * (n - 2) / (2 * error))


def _next(n):
    return mt.eye(n).roll(1, 1)  # row i is one-hot at i + 1


def _table(scale=_right_scale, pair=lambda n: mt.eye(n) + _next(n), keys=mt.eye):
    """Keys that are one-hot, and queries that are ``scale(n, error)`` times a pair of them."""
    return lambda n, error: (keys(n), pair(n) * scale(n, error))


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
    run=_looked_up,
    reasons=(_explained,),
    gradients=False,
    see='chapter 04, "Sharp and flat queries"',
)
def pair_table(n, error):
    """Keys (n, d), queries (n, d): query i finds keys i and i + 1, (1 - error) / 2 each."""
    # e^scale must be the ratio of a wanted weight to an unwanted one.
    scale = math.log((1 - error) / 2 / (error / (n - 2)))
    keys = mt.eye(n)
    return keys, scale * (keys + keys.roll(-1, 0))


for name, hint, pieces in (
    (
        "a table whose queries are not scaled: they are as flat for every error",
        "With orthonormal keys, multiply the sum of two by the scale at which the softmax is sharp "
        "enough.",
        dict(scale=lambda n, error: 1.0),
    ),
    (
        "a table that ignores the error: every query finds its pair all but exactly",
        "Any large scale gives that. Solve for the scale at which the n - 2 others have the weight "
        "error together.",
        dict(scale=lambda n, error: 100.0),
    ),
    (
        "a table whose queries are all flat",
        "That is right for error = (n - 2) / n alone.",
        dict(scale=lambda n, error: 0.0),
    ),
    (
        "a table in which each query finds one key alone",
        "Two keys with the same weight: the query is a sum of both.",
        dict(pair=mt.eye),
    ),
    (
        "a table in which each query finds the key before, not the one after",
        "Keys i and i + 1; the last query finds the last key and key 0. (Or did you return "
        "queries, keys?)",
        dict(pair=lambda n: mt.eye(n) + mt.eye(n).roll(-1, 1)),
    ),
    (
        "right but for the last query, which finds the last key alone",
        "The last query finds the last key and key 0.",
        dict(pair=lambda n: mt.eye(n) + _next(n) * (mt.arange(n) < n - 1).unsqueeze(1)),
    ),
    (
        "a table with the weight 1 - error on each of the two keys, as far as the scale goes",
        "They share it: (1 - error) / 2 each.",
        dict(scale=lambda n, error: math.log((1 - error) * (n - 2) / error)),
    ),
    (
        "a table with the chapter's factor, that of a query that finds one key of n",
        "(1 - error) / 2 on each of two keys, and n - 2 others.",
        dict(scale=lambda n, error: math.log((1 - error) * (n - 1) / error)),
    ),
    (
        "right but for the number of other keys, which it takes for n - 1",
        "Two keys are wanted: n - 2 others share the error.",
        dict(scale=lambda n, error: math.log((1 - error) * (n - 1) / (2 * error))),
    ),
    (
        "right but for the number of other keys, which it takes for n",
        "Two keys are wanted: n - 2 others share the error.",
        dict(scale=lambda n, error: math.log((1 - error) * n / (2 * error))),
    ),
    (
        "the chapter's table, in which each query finds one key",
        "Two keys with the same weight: the query is a sum of both, and n - 2 others are left.",
        dict(pair=mt.eye, scale=lambda n, error: math.log((1 - error) * (n - 1) / error)),
    ),
    (
        "right but for a scale that is never below 0",
        "Where the error is large, the pair gets less than the others: the scale is negative.",
        dict(scale=lambda n, error: max(0.0, _right_scale(n, error))),
    ),
    (
        "right but for the logarithm, which has the base 10",
        "The softmax takes e to the power of the scores: math.log.",
        dict(scale=lambda n, error: _right_scale(n, error) / math.log(10)),
    ),
    (
        "a table where every other key has the weight error, as far as the scale goes",
        "All n - 2 others together have the weight error.",
        dict(scale=lambda n, error: math.log((1 - error) / (2 * error))),
    ),
    (
        "a table whose queries are means of two keys, with the factor that their sums would need",
        "The mean is half as long, so its scores are half as large.",
        dict(pair=lambda n: (mt.eye(n) + _next(n)) / 2),
    ),
    (
        "right but for the sum of the two keys, which it cuts to length 1",
        "The sum itself: its scores are 1 at both keys.",
        dict(pair=lambda n: (mt.eye(n) + _next(n)) / 2**0.5),
    ),
    (
        "right but for the logarithm, which is missing",
        "The ratio of two weights is exp of the difference of their scores.",
        dict(scale=lambda n, error: (1 - error) * (n - 2) / (2 * error)),
    ),
    (
        "right but for the sign: each query points away from its keys",
        "The larger weight needs the larger score.",
        dict(scale=lambda n, error: -_right_scale(n, error)),
    ),
    (
        "right but for the square root of n, by which the scale is multiplied",
        "Here no score is divided by the square root of d; that comes in chapter 05.",
        dict(scale=lambda n, error: _right_scale(n, error) * n**0.5),
    ),
    (
        "a table with the scale on both sides",
        "Scale the queries or the keys. With both, every score has the scale squared.",
        dict(scale=lambda n, error: _right_scale(n, error) ** 2),
    ),
):
    pair_table.wrong(name, hint)(_table(**pieces))
