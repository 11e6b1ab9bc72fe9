"""What the translator of Sutskever, Vinyals and Le (2014) cost, by estimates."""

import math

from textbook.checks.compare import Words, brief, number
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

NEAR = 1.1  # a tenth more or less is right


def _cases(draw):
    yield ()


@recorded
def _right():
    return estimate.reference()


def _judged(answer):
    """The first estimate that is wrong, and by how much."""
    found, right = answer(), _right()
    if not isinstance(found, dict) or found.keys() != right.keys():
        keys = [*found] if isinstance(found, dict) else found
        return {"the form of the result": keys if keys is None else Words(brief(keys))}
    said = next(
        (f"{part!r} is {slip}" for part in right if (slip := _slip(found[part], right[part]))),
        "each within a tenth",
    )
    return {
        "the form of the result": Words(brief([*right])),
        "your estimate": Words(said),
    }


def _slip(said, right):
    """By how many times an estimate is wrong, in words; None if it is near enough."""
    value = number(said)
    if type(value) not in (int, float) or not 0 < value < math.inf:
        return f"{brief(said)}, and a positive number is asked for"
    ratio = value / right
    if 1 / NEAR <= ratio <= NEAR:
        return None
    return f"{max(ratio, 1 / ratio):.2g} times too {'large' if ratio > 1 else 'small'}"


estimate = exercise(
    "estimate",
    cases=_cases,
    run=_judged,
    gradients=False,
    see='chapter 03, "The model and its training"',
)
