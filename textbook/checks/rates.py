"""The learning rates that a training of the student's steps with."""

from collections.abc import Iterator
from contextlib import contextmanager

from minitorch.optim.optimizer import Optimizer

WITHIN, ABOVE = "at most `rate`", "more than `rate`"


@contextmanager
def rates_noted() -> Iterator[list[float]]:
    """A list that gets the rate of each group at each step of an optimizer."""
    rates, step = [], Optimizer.step

    def noted(optimizer, *args, **named):
        rates.extend(float(group["lr"]) for group in optimizer.param_groups)
        return step(optimizer, *args, **named)

    Optimizer.step = noted
    try:
        yield rates
    finally:
        Optimizer.step = step


def largest(rates: list[float], rate: float) -> str:
    """The largest of these rates beside the one that was given, in words."""
    return ABOVE if max(rates, default=0.0) > 1.01 * rate else WITHIN
