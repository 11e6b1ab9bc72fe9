"""A learning rate that rises, stays and falls, for groups with peaks of their own."""

import minitorch as mt
from minitorch import nn, optim
from textbook.checks.released import exercise


def _rate_cases(draw, others=()):
    """The peaks of the groups, the step, and warm, hold, steps."""
    peaks, plans = others or ([0.4, 0.01], [(4, 10, 35), (3, 8, 58)])
    for warm, hold, steps in plans:
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


set_rates = exercise(
    "set_rates",
    cases=_rate_cases,
    run=_rates_after,
    reasons=(_where,),
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
