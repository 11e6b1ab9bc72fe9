"""When a loss has arrived, and a deep stack that is to learn."""

import math
from contextlib import redirect_stdout
from io import StringIO

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.compare import Words, brief, number
from textbook.checks.exercise import CheckFailed
from textbook.checks.released import exercise
from textbook.lab.report import measured

# When a loss has arrived


def _loss_cases(draw, x=0.0625):
    """Restless curves that arrive, fall back, never arrive, or end in NaN; a goal and a window."""
    for n, goal, window in [(30, 0.5, 5), (9, 0.5, 10), (40, 0.4, 1), (45, 0.3, 4)]:
        losses = [0.9**i + 0.3 * float(draw.random.random()) for i in range(n)]
        losses[n // 4] = 0.01  # one lucky batch
        yield losses, goal, window
        yield losses[::-1], goal, window
    yield [0.9, 0.5, math.nan, x, x, x, x, x], 0.2, 4
    yield [x, x, x, math.nan, x, x, 0.9], 0.2, 3
    yield [x] * 4, 0.2, 4
    yield [x] * 6, x, 3
    yield [math.nan] * 6, 0.2, 2
    yield [0.9, x, x, x, 0.9, 0.9, 0.9, x, x, x, x], 0.2, 3
    yield [0.9, x, x, 1.5, x, x, 0.2, 0.2, 0.3, 0.1], 0.2, 3
    yield [], 0.2, 1
    yield [0.9, 0.9, 0.9, 0.9, math.nan, x, x, x, x], 0.2, 3
    yield [0.25, 0.75, 0.25, 0.5, 0.5, 0.25, 0.25], 0.4, 3


def _or_never(answer, losses, goal, window):
    """The steps; None is an answer, too, and no lack of one."""
    steps = answer(losses, goal, window)
    return {"the result": Words("None") if steps is None else steps}


steps_needed = exercise(
    "steps_needed",
    cases=_loss_cases,
    run=_or_never,
    gradients=False,
    see='chapter 09, "Depth with and without (C20)"',
)


# What was reached

WIDTH, DEPTH, MOST, GOAL, WINDOW, LIMIT = 16, 12, 200, 0.15, 10, 150
SEEDS = 11, 12, 13
JOINED = {
    "neither": lambda x, part, norm: part(x),
    "norm": lambda x, part, norm: norm(part(x)),
    "residual": lambda x, part, norm: x + part(x),
    "pre-norm": lambda x, part, norm: x + part(norm(x)),
    "post-norm": lambda x, part, norm: norm(x + part(x)),
}


class _Stack(nn.Module):
    """Twelve networks, one after the other, and a linear layer."""

    def __init__(self, wiring, start):
        super().__init__()
        self.join = JOINED[wiring]
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(DEPTH)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH))
        self.out = nn.Linear(WIDTH, WIDTH)
        with mt.no_grad():
            for part in self.parts:
                for layer in (part[0], part[2]):
                    nn.init.xavier_uniform_(layer.weight)
                part[2].weight.mul_(start)

    def forward(self, x):
        for part, norm in zip(self.parts, self.norms, strict=True):
            x = self.join(x, part, norm)
        return self.out(x)


def losses(wiring, start, rate, warm_up, steps, seed):
    """The losses of a stack that learns to turn round the numbers of a vector."""
    mt.manual_seed(seed)
    model = _Stack(wiring, start)
    optimizer, found = optim.Adam(model.parameters()), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / (warm_up + 1))
        x = mt.randn(64, WIDTH)
        loss = F.mse_loss(model(x), x.flip(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_stack: not solved yet.\nReturn a dict, as the text says."
        ) from None
    keys = ["rate", "start", "warm-up", "wiring"]
    if not isinstance(given, dict) or sorted(given) != keys:
        raise CheckFailed(f"chosen_stack: expected a dict with the keys {keys}, got {given}")
    if given["wiring"] not in JOINED:
        raise CheckFailed(
            f"chosen_stack: expected one of {[*JOINED]} as 'wiring', got {given['wiring']!r}"
        )
    start, rate, warm_up = (number(given[key]) for key in ("start", "rate", "warm-up"))
    if start is None or not 0 < start <= 1:
        raise CheckFailed(
            f"chosen_stack: expected a 'start' above 0, 1 at most, got {given['start']}"
        )
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(
            f"chosen_stack: expected a 'rate' between 0 and 1, got {brief(given['rate'])}"
        )
    if type(warm_up) is not int or not 0 <= warm_up < MOST:
        raise CheckFailed(
            f"chosen_stack: expected an integer from 0 to {MOST - 1} as 'warm-up', a number of "
            f"steps; got {brief(given['warm-up'])}"
        )
    return {"wiring": given["wiring"], "start": start, "rate": rate, "warm-up": warm_up}


GOOD = {"wiring": "pre-norm", "start": 0.1, "rate": 0.01, "warm-up": 10}


def _reason(plan, ends, steps):
    """Why a stack has not arrived: one part of its plan, or its last losses.

    ``steps`` tells how many a plan needs.
    """
    last = max(ends)
    if plan["wiring"] in ("neither", "norm"):
        return (
            f"'{plan['wiring']}' has no residual connections: whatever reaches the end has gone "
            "through all twelve networks, each of which loses some of it."
        )
    for key in ("rate", "warm-up", "start", "wiring"):
        needed = steps(plan | {key: GOOD[key]})
        if needed and needed <= LIMIT:
            return (
                f"It is the {key}: with {GOOD[key]} in place of {plan[key]}, and the rest as it "
                f"is, it arrives after {needed} steps."
            )
    if not last < 1.1:
        return (
            f"The loss ends at {last:.2f}, more than who predicts zeros has: the steps are too "
            "large. A smaller rate, or a smaller start?"
        )
    if last > 0.9:
        return (
            f"The loss ends at {last:.2f}: hardly anything is learned. Is the rate far too small "
            "or too large, or does too little of the input get through this wiring at the start?"
        )
    if last > GOAL:
        return (
            f"The loss ends at {last:.2f}: it falls, too slowly. Another rate, a shorter warm-up, "
            "a smaller start that lets the input through, or another wiring?"
        )
    return "It arrives, but too late: another rate, a shorter warm-up or a smaller start?"


def reached(measure, plan):
    """Raise ``CheckFailed`` unless the stack arrives soon enough with each of three seeds."""
    with redirect_stdout(StringIO()):
        steps_needed(measure)
    given, needed, ends = _read(plan), [], []
    for seed in SEEDS:
        found = losses(*given.values(), MOST, seed)
        needed.append(measure(found, GOAL, WINDOW))
        ends.append(sum(found[-WINDOW:]) / WINDOW)
        measured(f"seed {seed}: steps needed {needed[-1]}, loss at the end {ends[-1]:.3f}")
    late = [seed for seed, n in zip(SEEDS, needed, strict=True) if not n or n > LIMIT]
    if late:

        def steps(plan):
            return measure(losses(*plan.values(), MOST, late[0]), GOAL, WINDOW)

        raise CheckFailed(
            f"chosen_stack: each of three seeds needs {LIMIT} steps at most, got {needed}.\n"
            f"{_reason(given, ends, steps)}"
        )
    print("chosen_stack: the stack of twelve learns")
