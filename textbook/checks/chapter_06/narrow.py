"""A proof on paper: how many keys a head of one number, and of two, can prefer."""

import numpy as np

import minitorch as mt
from textbook.checks.compare import brief, number
from textbook.checks.released import exercise


def _number_cases(draw, more=()):
    yield from [(1,), (2,), (3,), (6,), (17,), (64,), *more]


def _shown(answer, n):
    """The two numbers, and what the example shows."""
    found = answer(n)
    if not isinstance(found, dict) or sorted(found) != ["keys", "one", "queries", "two"]:
        return {"the dict with 'one', 'two', 'queries' and 'keys'": brief(found)}
    shapes = {name: tuple(getattr(found[name], "shape", ())) for name in ("queries", "keys")}
    return {
        "the dict with 'one', 'two', 'queries' and 'keys'": "as it should be",
        "'one', the most favourites of single numbers": number(found["one"]),
        "'two', the most favourites of two numbers each": number(found["two"]),
        "the shapes of queries and keys": shapes,
        "what the example shows": _verdict(found["queries"], found["keys"])
        if set(shapes.values()) == {(n, 2)}
        else "nothing",
    }


def _verdict(queries, keys):
    """The first query that does not prefer its own key enough, or why none could."""
    places = keys.double().numpy()
    if len(np.unique(places.round(9), axis=0)) < len(places):
        return "two keys are the same"
    if len(places) > 2 and np.linalg.matrix_rank(places - places[0], tol=1e-9) < 2:
        return "the keys lie on a line"
    scores = queries.to(mt.float64) @ keys.to(mt.float64).T
    for i, row in enumerate(scores.tolist()):
        others = row[:i] + row[i + 1 :]
        if others and not row[i] >= max(others) + 1 - 1e-6:
            if row[i] < max(others) - 1e-9:
                return f"query {i} prefers key {row.index(max(others))}"
            return f"query {i} prefers key {i}, but by less than 1"
    return "each query prefers its own key by 1 at least"


favourites = exercise(
    "favourites",
    cases=_number_cases,
    run=_shown,
    gradients=False,
    see='chapter 06, "The slit of a head"',
)
