"""How many layers it takes until distant tokens meet, and how many steps that is."""

import math

from textbook.checks.exercise import exercise
from textbook.checks.reasons import no_whole_number, part_by_part

KINDS = ["recurrent", "window", "dilated", "self-attention"]


def _reach_cases(draw, others=()):
    """Lengths that are powers of the window, one more and one less, one token, and a large one."""
    lengths = others or {2: (8, 9, 100), 3: (1, 26, 27, 28, 243), 5: (125, 126, 3), 10: (1000,)}
    for kind in KINDS:
        for window, values in lengths.items():
            for n in values:
                yield kind, n, window


def _power(n, window):
    """The smallest L with window ** L >= n, at least 1."""
    layers = 1
    while window**layers < n:
        layers += 1
    return layers


def _added(n, window):
    """The layers of plain windows."""
    return max(-(-(n - 1) // (window - 1)), 1)


LAYERS = {"window": _added, "dilated": _power}
SLIPS = {
    ("recurrent", "layers"): {
        "a state carries what was read through all steps: one layer is enough": (
            lambda kind, n, window: n
        ),
    },
    ("recurrent", "steps"): {
        "the first token needs a step, too": lambda kind, n, window: max(n - 1, 1),
        "each state waits for the one before, though there is one layer": (
            lambda kind, n, window: 1
        ),
    },
    ("self-attention", "layers"): {
        "one layer sees all tokens": lambda kind, n, window: n,
    },
    ("self-attention", "steps"): {
        "no output waits for another one: n products side by side are one step": (
            lambda kind, n, window: n
        ),
        "no score waits for another one: n * n products side by side are one step": (
            lambda kind, n, window: n * n
        ),
    },
    ("window", "layers"): {
        "the last token is n - 1 places behind the first one, not n": (
            lambda kind, n, window: max(-(-n // (window - 1)), 1)
        ),
        "a window reaches window - 1 tokens back, not window": (
            lambda kind, n, window: max(-(-(n - 1) // window), 1)
        ),
        "a layer that is needed in part is needed: round up": (
            lambda kind, n, window: max((n - 1) // (window - 1), 1)
        ),
        "a layer that is needed in part is needed, and layers are whole: round up": (
            lambda kind, n, window: (n - 1) / (window - 1)
        ),
        "it is one more than it takes": lambda kind, n, window: _added(n, window) + 1,
        "at least 1, also where the first token is the last": (
            lambda kind, n, window: -(-(n - 1) // (window - 1))
        ),
    },
    ("dilated", "layers"): {
        "all n tokens have to be known, the last one too: not n - 1": (
            lambda kind, n, window: _power(n - 1, window)
        ),
        "as many as n tokens are enough: not more": lambda kind, n, window: _power(n + 1, window),
        "it is one more than it takes": lambda kind, n, window: _power(n, window) + 1,
        "for a power of the window its logarithm is enough, and count in integers": (
            lambda kind, n, window: int(math.log(n) / math.log(window)) + 1
        ),
        "all layers together reach back, not the last one alone": (
            lambda kind, n, window: 1 + _power(-(-(n - 1) // (window - 1)), window) * (n > window)
        ),
    },
}
for kind, layers in LAYERS.items():
    SLIPS[kind, "steps"] = {
        "the outputs of a layer do not wait for each other: a layer is one step, not n": (
            lambda kind, n, window, layers=layers: layers(n, window) * n
        ),
        "the outputs of a layer do not wait for each other: a layer is one step, not n - 1": (
            lambda kind, n, window, layers=layers: layers(n, window) * max(n - 1, 1)
        ),
        "a layer is one step, however wide its window": (
            lambda kind, n, window, layers=layers: layers(n, window) * window
        ),
        "each layer waits for the one below: as many steps as layers": (lambda kind, n, window: 1),
        "a token is no step here: as many steps as layers": lambda kind, n, window: n,
    }


@exercise(
    cases=_reach_cases,
    hidden_cases=lambda draw: _reach_cases(
        draw, others={2: (1, 7, 1025), 3: (2, 4, 81, 82, 729), 6: (216, 217, 5), 10: (100, 10**6)}
    ),
    gradients=False,
    properties=(no_whole_number,),
    reasons=(part_by_part(SLIPS, lambda key, kind, n, window: (kind, key)),),
    see='chapter 05, "What waits for what"',
)
def reach(kind, n, window):
    """The layers after which the last of n tokens knows of the first, and the steps they take."""
    if kind == "recurrent":
        return {"layers": 1, "steps": n}
    if kind == "self-attention":
        return {"layers": 1, "steps": 1}
    layers, seen = 1, window  # tokens that the last output has seen
    while seen < n:
        layers += 1
        seen = seen * window if kind == "dilated" else seen + window - 1
    return {"layers": layers, "steps": layers}
