"""A step of Adam on a batch in parts, and what a training with it reaches."""

import math
from contextlib import redirect_stdout
from io import StringIO

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.compare import difference, number
from textbook.checks.exercise import CheckFailed
from textbook.checks.released import exercise
from textbook.lab.report import measured

# A step in parts


def _step_cases(draw, more=()):
    """Sizes of the parts for each step, the length of a row, the first t, the rate."""
    for sizes, d, t, lr in [
        ([[3]], 2, 1, 0.1),
        ([[1, 4]], 3, 1, 0.05),
        ([[2, 2, 5], [4, 1]], 2, 1, 0.1),
        ([[3, 1], [2, 2], [1, 6]], 4, 7, 0.02),
        *more,
    ]:
        batches = [[(draw.normal(n, d), draw.normal(n, 1)) for n in of_step] for of_step in sizes]
        start = [draw.normal(d, 3), draw.normal(3), draw.normal(3, 1), draw.normal(2)]
        means = [0 * each if t == 1 else draw.normal(*each.shape) for each in start]
        squares = [0 * each if t == 1 else draw.normal(*each.shape) ** 2 for each in start]
        yield batches, start, means, squares, t, lr
    tiny = [[(1e-7 * draw.normal(n, 2), draw.normal(n, 1)) for n in (2, 3)]]
    start = [draw.normal(2, 3), draw.normal(3), draw.normal(3, 1), draw.normal(2)]
    zeros = [0 * each for each in start]
    yield tiny, start, zeros, zeros, 1, 0.1


def _type(value):
    """A number, whatever its kind; of anything else the type."""
    if isinstance(value, mt.Tensor) and value.requires_grad:
        return "a tensor that holds its graph"
    return type(value).__name__ if number(value) is None else "a number"


def _by_parts(check, answer, batches, start, means, squares, t, lr):
    """Which part of the first step is wrong."""
    case = batches[:1], start, means, squares, t, lr
    got, right = (_stepped(each, *case) for each in (answer, check.reference))
    wrong = [label for label in right if difference(got[label], right[label], "[]")]
    if "the type of what is returned" in wrong:
        return "Return the loss as a number: loss.item()."
    if "the number of examples in memory at a time" in wrong:
        return "Call backward for each part, before the loss of the next one is computed."
    if wrong == ["the list of losses"]:
        return "The step is right, but not the number that is returned: the mean loss of the batch."
    if "the list of means" in wrong:
        return (
            "m is wrong already: 0.9 m + 0.1 g, with g the gradient of the mean over all examples "
            "of the batch."
        )
    if "the list of squares" in wrong:
        return "m is right, but not v: 0.999 v + 0.001 g^2, with the g of the whole batch."
    if "the list of parameters" in wrong:
        return "m and v are right, but not the parameters: look at the last formula again."
    return None


def _stepped(answer, batches, start, means, squares, t, lr):
    """Some steps of a small network; the last of its parameters is not used."""
    parameters = [x.detach().clone().requires_grad_() for x in start]
    means, squares = ([x.clone() for x in each] for each in (means, squares))
    given = [*parameters], [*means], [*squares]
    for parameter in parameters[:-1]:
        parameter.grad = mt.ones_like(parameter)  # left there by somebody
    held, most = [], [0]  # the sizes of the parts whose backward is still to come

    def loss_of(inputs, targets):
        W, b, out, _ = given[0]
        loss = F.mse_loss((inputs @ W + b).tanh() @ out, targets)
        if loss.requires_grad:
            held.append(len(targets))
            most[0] = max(most[0], sum(held))
            loss.register_hook(lambda g: held.clear())
        return loss

    losses = []
    for i, parts in enumerate(batches):
        losses.append(answer(loss_of, parts, parameters, means, squares, t + i, lr))
    parameters, means, squares = given
    return {
        "the number of examples in memory at a time": most[0],
        "the type of what is returned": _type(losses[0]),
        "the list of losses": losses,
        "the list of parameters": [x.detach() for x in parameters],
        "the list of means": [x.detach() for x in means],
        "the list of squares": [x.detach() for x in squares],
    }


step_in_parts = exercise(
    "step_in_parts",
    cases=_step_cases,
    run=_stepped,
    gradients=False,
    reasons=(_by_parts,),
    see='chapter 00, "Training"',
)


# What was reached

ENOUGH, MOST, POINTS, TOLERANCE = 0.83, 200, 30, 0.04


def spiral(count):
    """Points (3 * count, 2) on three noisy arms, and the number of each point's arm (3 * count)."""
    arm = mt.arange(3).repeat(count)
    radius = 0.1 + 0.9 * mt.rand(3 * count)
    angle = 4 * radius + arm * (2 * math.pi / 3) + 0.5 * mt.randn(3 * count)
    return mt.stack([radius * mt.cos(angle), radius * mt.sin(angle)], dim=1), arm


def trained(step, rate, steps, seed):
    """A perceptron that has learned a few points of a spiral, in parts, with your step."""
    mt.manual_seed(seed)
    points, arms = spiral(POINTS)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )
    parameters = list(model.parameters())
    means, squares = ([mt.zeros_like(w.detach()) for w in parameters] for _ in range(2))

    def loss_of(inputs, targets):
        return F.cross_entropy(model(inputs), targets)

    for t in range(1, steps + 1):
        batch = mt.randint(len(points), (48,))
        parts = [(points[part], arms[part]) for part in (batch[:32], batch[32:])]
        step(loss_of, parts, parameters, means, squares, t, rate)
    return model


def _right(model, points, arms):
    """The share of right answers."""
    with mt.no_grad():
        return (model(points).argmax(dim=1) == arms).float().mean().item()


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_training: not solved yet.\nReturn a dict, as the text says."
        ) from None
    keys = ["rate", "right", "steps"]
    if not isinstance(given, dict) or sorted(given) != keys:
        raise CheckFailed(f"chosen_training: expected a dict with the keys {keys}, got {given}")
    rate, steps, right = (number(given[key]) for key in ("rate", "steps", "right"))
    if type(steps) is not int or not 0 < steps <= MOST:
        raise CheckFailed(f"chosen_training: expected 1 to {MOST} as 'steps', got {given['steps']}")
    if rate is None or not 0 < rate < 10:
        raise CheckFailed(f"chosen_training: expected a rate between 0 and 10, got {given['rate']}")
    if right is None or not 0 <= right <= 1:
        raise CheckFailed(f"chosen_training: expected a share as 'right', got {given['right']}")
    return rate, steps, right


def _elsewhere(step, rate, steps):
    """What other plans reach with one seed, in words."""
    others = {
        "a fifth of your rate": (rate / 5, steps),
        "your rate": (rate, steps),
        "five times your rate": (5 * rate, steps),
        "fifty times your rate": (50 * rate, steps),
    }
    if steps < MOST:
        others[f"your rate and {MOST} steps"] = rate, MOST
    shares = [_right(trained(step, *other, 1), *spiral(300)) for other in others.values()]
    found = ", ".join(
        f"{share:.0%} with {name}" for name, share in zip(others, shares, strict=True)
    )
    return f"With seed 1 it is {found}."


def reached(step, plan):
    """Raise ``CheckFailed`` unless the plan reaches enough on new points, and says how much."""
    with redirect_stdout(StringIO()):
        step_in_parts(step)
    rate, steps, said = _read(plan)
    shares = []
    for seed in range(11, 21):
        model = trained(step, rate, steps, seed)
        mt.manual_seed(seed)
        known = spiral(POINTS)  # the same seed: the points of the training
        shares.append(_right(model, *spiral(1000)))
        measured(
            f"seed {seed}: right {_right(model, *known):.1%} on the points of the training, "
            f"{shares[-1]:.1%} on new ones"
        )
    mean = sum(shares) / len(shares)
    if mean < ENOUGH:
        raise CheckFailed(
            f"chosen_training: on new points {mean:.1%} are right, the mean of {len(shares)} "
            f"seeds; at least {ENOUGH:.0%} have to be.\n{_elsewhere(step, rate, steps)}"
        )
    if abs(said - mean) > TOLERANCE:
        raise CheckFailed(
            f"chosen_training: you say that {said:.1%} are right on new points; with other seeds "
            f"it is {mean:.1%}.\nMeasure on many points that no training has seen, with several "
            "seeds, and not with those by which you chose."
        )
    print("chosen_training: it is reached, and measured well")
