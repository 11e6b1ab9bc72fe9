"""Answers to the exercises of ``weights.py``."""

import math

import numpy as np

from textbook.checks.chapter_10.weights import _count_cases, weights_more


@weights_more.answer(
    hidden_cases=lambda draw: _count_cases(
        draw, large=(37_000, 1024, 16, 4096, 6), more=[(5, 12, 6, 7, 4)]
    ),
    after_passing="To remember: with m = 4d a layer of both stacks has about 28 d^2 weights.",
)
def weights_more(vocabulary, width, heads, hidden, layers):
    """The number of weights of the Transformer, and how many more there are after each change."""
    attention, norm = 4 * width**2, 2 * width
    network = 2 * width * hidden + hidden + width
    layer = 3 * attention + 2 * network + 5 * norm  # a block of each stack
    table = vocabulary * width
    return {
        "weights": 2 * table + vocabulary + layers * layer + 2 * norm,
        "a layer more in each stack": layer,
        "twice the heads": 0,
        "twice the hidden width": layers * 2 * (2 * width * hidden + hidden),
        "output tied": -table,
        "no norms at the ends": -2 * norm,
    }


# Right in another way


def counts_of_shapes(vocabulary, width, heads, hidden, layers):
    """Every weight by its shape."""

    def count(h, m, layers, tied=False, ends=2):
        square, gain = (h, width // h, width), (width,)
        network = [(width, m), (m,), (m, width), (width,)]
        encoder = [square] * 4 + network + [gain] * 4
        decoder = [square] * 8 + network + [gain] * 6
        tables = [(vocabulary, width)] * (1 if tied else 2) + [(vocabulary,)]
        return sum(map(math.prod, tables + layers * (encoder + decoder) + [gain] * 2 * ends))

    now = count(heads, hidden, layers)
    after = {
        "a layer more in each stack": count(heads, hidden, layers + 1),
        "twice the heads": now,
        "twice the hidden width": count(heads, 2 * hidden, layers),
        "output tied": count(heads, hidden, layers, tied=True),
        "no norms at the ends": count(heads, hidden, layers, ends=0),
    }
    return {"weights": now} | {name: n - now for name, n in after.items()}


def counts_in_numpy(vocabulary, width, heads, hidden, layers):
    V, d, m, L = np.array([vocabulary, width, hidden, layers], dtype=np.int64)
    layer = 12 * d**2 + 4 * d * m + 2 * m + 12 * d
    return dict(
        zip(
            ("weights", "no norms at the ends", "output tied", "twice the hidden width"),
            (2 * V * d + V + L * layer + 4 * d, -4 * d, -V * d, L * (4 * d * m + 2 * m)),
            strict=True,
        )
    ) | {"twice the heads": 0, "a layer more in each stack": layer}


right = {
    "weights_more": [counts_of_shapes, counts_in_numpy],
}
