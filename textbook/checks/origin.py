"""``Origin``: which operation of an answer made the NaN or the infinity in its result."""

import numpy as np

from textbook.checks.arguments import tensors

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
KINDS = {"nan": np.isnan, "inf": np.isinf}


class Origin:
    """Hears of all operations while an answer runs; ``told`` follows a result back to its origin.

    ::

        origin = Origin()
        with listening(origin):
            outcome = exercise._observe(answer, case)
        print(origin.told("nan", outcome, case))
    """

    def __init__(self):
        self.forward, self.gradients = [], {}

    def __call__(self, name, inputs, outputs, backward):
        lost = {kind: [x for x in inputs if _holds(kind, x)] for kind in KINDS}  # later they change
        if not backward:
            made = {kind: [x for x in outputs if _holds(kind, x)] for kind in KINDS}
            self.forward.append((name, inputs, made, lost))
            return
        for kind in KINDS:
            if not lost[kind] and any(_holds(kind, x) for x in outputs):
                self.gradients.setdefault(kind, name)

    def told(self, kind, outcome, case):
        """A sentence on where the first "nan" or "inf" of the outcome comes from; or ""."""
        for _, result in tensors(outcome.results, ""):
            if _holds(kind, result.array):
                return self._of_result(kind, result.array, case)
        if kind in self.gradients:
            return f"The {kind} first comes out of the gradient of {_shown(self.gradients[kind])}."
        return ""

    def _of_result(self, kind, array, case):
        for name, inputs, made, lost in reversed(self.forward):
            if not any(x is array or np.array_equal(x, array, equal_nan=True) for x in made[kind]):
                continue
            if not lost[kind]:
                return f"The {kind} first comes out of {_shown(name)}{_with(name, inputs)}."
            array = lost[kind][0]
        if any(_holds(kind, x.array) for _, x in tensors(list(case), "")):
            return f"The {kind} comes from an argument: replace it, or leave it out, in time."
        return ""


def _holds(kind, value):
    """Whether an array or a number holds NaN or infinity."""
    return _some(KINDS[kind], value)


def _some(condition, value):
    if isinstance(value, np.ndarray) and value.dtype.kind != "f":
        return False
    return isinstance(value, (float, np.ndarray)) and bool(np.any(condition(value)))


def _shown(name):
    name = name.rstrip("_")
    return SIGNS.get(name, name)


def _with(name, inputs):
    """What of its inputs may be the cause."""
    if any(_some(np.isinf, x) for x in inputs):
        return ", where infinity goes in"
    if name in ("log", "sqrt", "pow") and _some(lambda x: np.less(x, 0), inputs[0]):
        return ", where a number below 0 goes in"
    if name in ("log", "div", "pow") and any(_some(lambda x: np.equal(x, 0), x) for x in inputs):
        return ", where 0 goes in"
    return ""
