"""Trainings of which something went wrong, to be read off their curves (made up)."""

import math

import numpy as np

from textbook.checks.compare import brief, number
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

STEPS, WITHIN = np.arange(0, 245, 5), 10
FAULTS = (
    "the rate is too high",
    "an odd batch",
    "gradients pile up",
    "learns by heart",
    "sees the answers",
    "the rate ends too early",
    "nothing",
)
LOOK = {
    "A": "From one step on something changes no more. Is the gradient small there?",
    "B": "Compare training and validation in the second half.",
    "C": "Look at the norm of the gradient where the loss jumps, and at the loss 40 steps later.",
    "D": "Is there anything that a good training would not show, noise aside?",
    "E": "The loss leaves its way at one step. Does it come back?",
    "F": "Compare both losses with the dotted line.",
    "G": "How does the norm of the gradient go on, step by step, while the loss does not fall?",
}

STEP = {
    "A": "From which step on do both losses stay level?",
    "B": "At which step is the validation loss lowest?",
    "C": "At which step does the loss jump up?",
    "D": "Where nothing is wrong the step is None.",
    "E": "At which step does the loss jump up?",
    "F": "At which step does a loss first lie below the dotted line?",
    "G": "From which step on does the norm of the gradient grow, noise aside?",
}


def _falling(low=1.0, pace=45.0, high=4.0):
    return low + (high - low) * np.exp(-STEPS / pace)


def _training(seed, loss, gap=0.08, norm=None, noise=0.04):
    """Curves with noise; the gradient becomes smaller with what is left to learn."""
    draw = np.random.default_rng(seed)
    gap = np.broadcast_to(gap, STEPS.shape)
    norm = 0.2 + 0.3 * np.clip(loss - 0.9, 0, None) if norm is None else norm
    return {
        "step": STEPS.tolist(),
        "training": (loss + noise * draw.standard_normal(len(STEPS))).round(3).tolist(),
        "validation": (loss + gap + noise / 3 * draw.standard_normal(len(STEPS))).round(3).tolist(),
        "norm": (norm * np.exp(0.1 * draw.standard_normal(len(STEPS)))).round(3).tolist(),
    }


def _trainings():
    since = {start: np.clip(STEPS - start, 0, None) for start in (20, 60, 80, 100, 120, 140)}
    slow = _falling(pace=110.0)
    ended = np.where(STEPS < 120, slow, slow[STEPS == 120])
    by_heart = _falling(low=0.85, pace=40.0) - 0.003 * since[100]
    odd = _falling() + np.where(STEPS >= 140, 1.6 * np.exp(-since[140] / 12), 0)
    high = np.where(STEPS < 80, _falling(pace=40.0), 4.3)
    cheats = np.where(STEPS < 60, _falling(low=0.9, pace=25.0), 0)
    cheats = np.where(STEPS >= 60, 0.05 + 0.75 * np.exp(-since[60] / 15), cheats)
    piled = np.where(STEPS < 20, _falling(), 2.6 + 0.8 * np.sin(STEPS / 9))
    return {
        "A": _training(1, ended, norm=0.2 + 0.3 * (ended - 0.9)),
        "B": _training(2, by_heart, gap=0.08 + 0.011 * since[100]),
        "C": _training(3, odd, norm=np.where(STEPS == 140, 60.0, 0.2 + 0.3 * (odd - 0.9))),
        "D": _training(4, _falling(pace=60.0), gap=0.15, noise=0.07),
        "E": _training(5, high, norm=np.where(STEPS < 80, 0.6, 8.0)),
        "F": _training(6, cheats, gap=0.03, noise=0.02),
        "G": _training(7, piled, norm=0.6 * (1 + since[20] / 4), noise=0.1),
    }


trainings = _trainings()


def _one_case(draw):
    yield ()


@recorded
def _right(name):
    return diagnosed.reference()[name]


def _read(answer):
    """For each training what is right of its pair, in words."""
    found, right = answer(), {name: _right(name) for name in trainings}
    if not isinstance(found, dict) or set(found) != set(right):
        kind = brief(found)
        if isinstance(found, dict) and (lacking := sorted(set(right) - set(found))):
            kind = f"one without {', '.join(map(repr, lacking))}"
        return {"the dict from each letter, A to G, to a pair": kind}
    said = {"the dict from each letter, A to G, to a pair": "as it should be"}
    for name, (fault, step) in right.items():
        pair = found[name]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] not in FAULTS:
            said[f"training {name}"] = f"{brief(pair)}, no pair of one of the faults and a step"
            continue
        said[f"training {name}"] = "right" if pair[0] == fault else f"not {pair[0]!r}"
        if pair[0] == fault:
            said[f"the step of training {name}"] = _when(number(pair[1]), step)
    return said


def _when(found, step):
    if found is None or step is None:
        return "right" if found is step else "None" if found is None else "a number"
    if not math.isfinite(found) or abs(found - step) > WITHIN:
        return "too early" if found < step else "too late"
    return "right"


def _where_to_look(check, answer):
    """A question on the first training that is not read rightly, or on its step alone."""
    steps = [(number(answer()[name][1]), _right(name)[1]) for name in trainings]
    if all(right is None or abs(5 * step - right) <= WITHIN for step, right in steps):
        return (
            "All your steps are a fifth of what they should be: give steps, not places in a list."
        )
    found = check.run(answer)
    for name, question in LOOK.items():
        fault = found.get(f"training {name}")
        if fault != "right":
            return question if fault and fault.startswith("not ") else None
        if found[f"the step of training {name}"] != "right":
            return f"The fault of {name} is right, the step is not. {STEP[name]}"
    return None


diagnosed = exercise(
    "diagnosed",
    cases=_one_case,
    run=_read,
    reasons=(_where_to_look,),
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
