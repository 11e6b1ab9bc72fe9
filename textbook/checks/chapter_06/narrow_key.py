"""Answers to the exercises of ``narrow.py``."""

import math

import numpy as np

import minitorch as mt
from textbook.checks.chapter_06.narrow import _number_cases, favourites


@favourites.answer(
    hidden_cases=lambda draw: _number_cases(draw, more=[(4,), (9,), (50,)]),
    after_passing=(
        "Shorter, without angles: keys (j, j^2) and queries (2 i, -1). The scores are "
        "i^2 - (i - j)^2."
    ),
)
def favourites(n):
    """How many of n keys can be favourites, and a head that shows it: a dict."""
    angles = 2 * math.pi * mt.arange(n) / n
    keys = mt.stack([angles.cos(), angles.sin()], dim=1)  # (n, 2), round a circle
    margin = 1 - math.cos(2 * math.pi / n) if n > 1 else 1.0
    return {"one": min(n, 2), "two": n, "queries": 2 * keys / margin, "keys": keys}


# Right in another way


def favourites_on_a_parabola(n):
    places = mt.arange(n).double()
    return {
        "two": np.int64(n),
        "one": 1 if n == 1 else 2,
        "keys": mt.stack([places, places**2], dim=1),
        "queries": mt.stack([2 * places, -mt.ones(n, dtype=mt.float64)], dim=1),
    }


def favourites_on_half_a_circle(n):
    angles = np.pi * np.arange(n) / n
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return {
        "one": sum(1 for _ in range(n)[:2]),
        "two": n,
        "queries": mt.tensor(keys * n**2),
        "keys": mt.tensor(keys),
    }


right = {
    "favourites": [favourites_on_a_parabola, favourites_on_half_a_circle],
}
