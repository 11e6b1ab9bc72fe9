"""A learning rate that rises, stays and falls, for groups with peaks of their own."""

import math

import minitorch as mt
from minitorch import nn, optim
from textbook.checks.exercise import exercise


def _rate_cases(draw, hidden):
    """The peaks of the groups, the step, and warm, hold, steps."""
    peaks = [0.5, 0.02, 3.0] if hidden else [0.4, 0.01]
    for warm, hold, steps in [(6, 20, 56), (5, 9, 90)] if hidden else [(4, 10, 35), (3, 8, 58)]:
        for step in (1, warm - 1, warm, warm + 2, hold, hold + 1, (hold + steps) // 2, steps):
            yield peaks, step, warm, hold, steps
    for warm, hold, steps in [(0, 7, 16), (5, 5, 30), (4, 12, 12), (0, 0, 9), (0, 6, 6), (8, 8, 8)]:
        for step in (1, 3, steps - 1, steps):
            yield peaks[1:], step, warm, hold, steps


def _rates_after(answer, peaks, step, warm, hold, steps):
    """The rates of all groups, and what else has changed."""
    groups = [
        {"params": [nn.Parameter(mt.ones(1))], "lr": 0.125 * (i + 1), "peak": peak}
        for i, peak in enumerate(peaks)
    ]
    optimizer = optim.SGD(groups, lr=7.0)
    for group in groups:
        group["params"][0].grad = mt.ones(1)
    answer(optimizer, step, warm, hold, steps)
    return {
        "the list of the groups' rates": [group["lr"] for group in optimizer.param_groups],
        "the list of the groups' peaks": [group["peak"] for group in optimizer.param_groups],
        "the list of what your function itself takes off the weights": [
            1 - group["params"][0].item() for group in groups
        ],
        "the type of the rate": _kind(optimizer.param_groups[0]["lr"]),
    }


def _kind(rate):
    return "a tensor" if isinstance(rate, mt.Tensor) else "a number"


def _up(step, warm):
    return step / warm


def _down(step, hold, steps):
    return 1 - math.sqrt((step - hold) / (steps - hold))


def _setting(
    up=_up,
    down=_down,
    count=lambda step: step,
    peak=lambda group, groups: group["peak"],
    groups=lambda optimizer: optimizer.param_groups,
    write=lambda group, rate: group.update(lr=rate),
    plateau=1.0,
    hold_at=lambda warm, hold: hold,
):
    """The schedule with one of its pieces exchanged."""

    def set_rate(optimizer, step, warm, hold, steps):
        step, hold = count(step), hold_at(warm, hold)
        if step < warm:
            share = up(step, warm)
        elif step <= hold:
            share = plateau
        else:
            share = down(step, hold, steps)
        for group in groups(optimizer):
            write(group, peak(group, optimizer.param_groups) * share)

    return set_rate


def _where(check, answer, *_):
    """In which part of a schedule of 24 steps the rates are wrong, and at which step first."""
    warm, hold, steps, found = 4, 10, 24, {}
    for step in range(1, steps + 1):
        got, right = (
            _rates_after(function, [1.0], step, warm, hold, steps)["the list of the groups' rates"][
                0
            ]
            for function in (answer, check.reference)
        )
        part = "rise" if step < warm else "plateau" if step <= hold else "fall"
        if abs(got - right) > 1e-9:
            found.setdefault(part, (step, float(got), right))
    if not found:
        return None
    step, got, right = next(iter(found.values()))
    return (
        f"What is wrong is the {' and the '.join(found)}: with warm = 4, hold = 10, steps = 24 and "
        f"a peak of 1, the rate at step {step} is {got:.4g}, and {right:.4g} belongs there."
    )


@exercise(
    cases=_rate_cases,
    run=_rates_after,
    reasons=(_where,),
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
def set_rates(optimizer, step, warm, hold, steps):
    """Set the learning rate of a step, counted from 1, in all groups of the optimizer."""
    if step < warm:
        share = step / warm
    elif step <= hold:
        share = 1.0
    else:
        share = 1 - math.sqrt((step - hold) / (steps - hold))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def _nothing(group, rate):
    """The rate is computed, and nobody uses it."""


for name, hint, pieces in (
    (
        "one that leaves the rates of the optimizer's groups as they are",
        "A rate that is returned, or written elsewhere, is not used: for each group of "
        "optimizer.param_groups, set group['lr'].",
        {"write": _nothing},
    ),
    (
        "right for the first group of parameters, and the other groups keep their rate",
        "There may be several groups: go through all of optimizer.param_groups.",
        {"groups": lambda optimizer: optimizer.param_groups[:1]},
    ),
    (
        "right but for the peak, for which all groups take that of the first",
        "Each group has its own: group['peak'].",
        {"peak": lambda group, groups: groups[0]["peak"]},
    ),
    (
        "a share: the peaks of the groups are not used",
        "The rate is group['peak'] times the share.",
        {"peak": lambda group, groups: 1.0},
    ),
    (
        "a factor: the rate that is there already is multiplied by the share",
        "Multiplied at each step, it would shrink to nothing. The rate is peak times share.",
        {"peak": lambda group, groups: group["lr"]},
    ),
    (
        "right but for the peak, which it changes, too",
        "The peak stays what it is, since the next step needs it: set group['lr'] alone.",
        {"write": lambda group, rate: group.update(peak=rate, lr=rate)},
    ),
    (
        "right but for the peak, which it changes instead of the rate",
        "The peak stays what it is, since the next step needs it: set group['lr'].",
        {"write": lambda group, rate: group.update(peak=rate)},
    ),
    (
        "right but for the rate, which is a tensor",
        "A learning rate is a plain number: leave the tensors out, or take .item().",
        {"write": lambda group, rate: group.update(lr=mt.tensor(rate, dtype=mt.float64))},
    ),
    (
        "right but for the count of steps: it takes the first for step 2",
        "The first step is 1 already: use step as it is.",
        {"count": lambda step: step + 1},
    ),
    (
        "right but for the count of steps, which starts at 0",
        "The first step is 1: a rate of 0 would waste it.",
        {"count": lambda step: step - 1},
    ),
    (
        "right but for the fall, which is a line",
        "The share that falls away is the root of the way that has been gone: fast at first, then "
        "slowly.",
        {"down": lambda step, hold, steps: (steps - step) / (steps - hold)},
    ),
    (
        "right but for the fall: it is the root of what is left, not 1 less the root of what is "
        "gone",
        "sqrt(1 - x) and 1 - sqrt(x) are not the same: the second falls fast at first.",
        {"down": lambda step, hold, steps: math.sqrt((steps - step) / (steps - hold))},
    ),
    (
        "right but for the fall, from which 1 less is missing: it rises with the root",
        "The root is what falls away: 1 - sqrt((t - k) / (s - k)) is left.",
        {"down": lambda step, hold, steps: math.sqrt((step - hold) / (steps - hold))},
    ),
    (
        "right but for the fall, which is a cosine",
        "That is a usual schedule, too. Here it is 1 less a root.",
        {
            "down": lambda step, hold, steps: (
                0.5 + 0.5 * math.cos(math.pi * (step - hold) / (steps - hold))
            )
        },
    ),
    (
        "right but for the fall, which lasts for `steps` steps",
        "At step `steps` the rate is 0: the way from hold to there has steps - hold steps.",
        {"down": lambda step, hold, steps: 1 - math.sqrt((step - hold) / steps)},
    ),
    (
        "right but for the fall, which is counted from step 0 and jumps down after hold",
        "The fall begins at hold: what is gone of it is (step - hold) / (steps - hold).",
        {"down": lambda step, hold, steps: 1 - math.sqrt(step / steps)},
    ),
    (
        "right but for the fall, which is missing: the rate stays at its peak",
        "After step hold it falls, to 0 at step `steps`.",
        {"down": lambda step, hold, steps: 1.0},
    ),
    (
        "right but for the plateau: it begins to fall right after the warm-up",
        "From warm to hold the rate stays at its peak.",
        {"hold_at": lambda warm, hold: warm},
    ),
    (
        "right but for the warm-up, which begins at 0: it counts the steps before",
        "At step t the share is t / w: a rate of 0 would waste the first step.",
        {"up": lambda step, warm: (step - 1) / warm},
    ),
    (
        "right but for the fall, which comes one step late",
        "What is gone of it at step t is (t - k) / (s - k).",
        {"down": lambda step, hold, steps: 1 - math.sqrt((step - hold - 1) / (steps - hold))},
    ),
    (
        "right but for the warm-up, which is missing",
        "Before step warm the share is step / warm.",
        {"up": lambda step, warm: 1.0},
    ),
    (
        "right but for the warm-up, which rises as a root",
        "The rise is a line: step / warm.",
        {"up": lambda step, warm: math.sqrt(step / warm)},
    ),
    (
        "right but for the fall, which is the square of what is left",
        "The share that falls away is the root of the way that has been gone, not its square.",
        {"down": lambda step, hold, steps: ((steps - step) / (steps - hold)) ** 2},
    ),
):
    set_rates.wrong(name, hint)(_setting(**pieces))


@set_rates.wrong(
    "right but for a step of the optimizer, which it takes, too",
    "It sets the rate alone: optimizer.step() comes after the gradients, in the training loop.",
)
def _(optimizer, step, warm, hold, steps):
    _setting()(optimizer, step, warm, hold, steps)
    optimizer.step()


@set_rates.wrong(
    "the chapter's schedule in lines, without a plateau",
    "Here the rate stays at its peak from warm to hold, and then falls by a root.",
)
def _(optimizer, step, warm, hold, steps):
    rising = step / warm if warm else 1.0
    falling = (steps - step) / (steps - warm) if steps > warm else 1.0
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * min(rising, falling)


@set_rates.wrong(
    "right but for a training without warm-up, at which it divides by 0",
    "warm may be 0: then no step comes before it.",
)
def _(optimizer, step, warm, hold, steps):
    rising = step / warm
    _setting(up=lambda step, warm: rising)(optimizer, step, warm, hold, steps)


@set_rates.wrong(
    "right but for a training without a fall, at which it divides by 0",
    "hold may be `steps`: then no step comes after it.",
)
def _(optimizer, step, warm, hold, steps):
    share = max(step - hold, 0) / (steps - hold)
    _setting(down=lambda *given: 1 - math.sqrt(share))(optimizer, step, warm, hold, steps)


@set_rates.wrong(
    "right but for a training without warm-up or without a fall, at which it divides by 0",
    "warm may be 0, and hold may be `steps`: ask where the step stands before you divide.",
)
def _(optimizer, step, warm, hold, steps):
    shares = step / warm, max(step - hold, 0) / (steps - hold)
    _setting(down=lambda *given: 1 - math.sqrt(shares[1]))(optimizer, step, warm, hold, steps)
