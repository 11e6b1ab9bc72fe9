"""Schedules of the learning rate: call ``step()`` after each ``optimizer.step()`` (or epoch)."""

import math
from bisect import bisect_right

from minitorch.missing import in_module


class LRScheduler:
    """Sets the rate of each group at each step; a schedule says how in ``get_lr()``.

    ``base_lrs`` are the rates that the groups had at first (their ``"initial_lr"``), and
    ``last_epoch`` counts the steps; pass it to go on with an optimizer that was scheduled before.
    """

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"to go on from last_epoch={last_epoch}, group {i} of the optimizer needs "
                    "'initial_lr': load the optimizer's state_dict first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def get_lr(self):
        """The rate of each group after ``last_epoch`` steps."""
        raise NotImplementedError

    def step(self):
        """Move on by one step."""
        self.last_epoch += 1
        rates = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = rates

    def get_last_lr(self):
        """The rates that the last step set, one a group."""
        return self._last_lr

    def state_dict(self):
        """All that the schedule needs to go on, except the optimizer and functions."""
        return {k: v for k, v in vars(self).items() if k not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict):
        """Go on from a ``state_dict``."""
        vars(self).update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})


_LRScheduler = LRScheduler  # the name of old


class LambdaLR(LRScheduler):
    """lr = initial lr * f(step), with one function ``lr_lambda`` or a list of one a group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else None
        self.lr_lambdas = self.lr_lambdas or [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"{count} groups need as many functions, got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = self.last_epoch
        return [base * f(step) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self):
        """As PyTorch's, with None in place of each function."""
        return super().state_dict() | {"lr_lambdas": [None] * len(self.lr_lambdas)}


class StepLR(LRScheduler):
    """lr = initial lr * gamma^(number of whole ``step_size`` that have passed)."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr = initial lr * gamma^(number of ``milestones``, steps, that have been reached)."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        factor = self.gamma ** bisect_right(self.milestones, self.last_epoch)
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """lr = initial lr * gamma^step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class LinearLR(LRScheduler):
    """lr = initial lr * f, f along a line from start_factor to end_factor in total_iters steps."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                "start_factor must be above 0, end_factor at least 0, and both at most 1; "
                f"got {start_factor} and {end_factor}"
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        share = min(self.last_epoch / self.total_iters, 1) if self.total_iters else 1
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


def cosine(start, end, share):
    """From ``start`` to ``end`` along half a cosine, as ``share`` goes from 0 to 1."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to ``eta_min`` in ``T_max`` steps (Loshchilov and Hutter, 2017).

    lr = eta_min + (initial lr - eta_min) (1 + cos(pi step / T_max)) / 2.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        share = self.last_epoch / self.T_max
        return [cosine(base, self.eta_min, share) for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to that / final_div_factor.

    The way up takes the share ``pct_start`` of ``total_steps`` (or epochs * steps_per_epoch),
    along a cosine or a line (``anneal_strategy="linear"``). With ``cycle_momentum``, the momentum,
    or Adam's first beta, goes the other way, from max_momentum to base_momentum and back
    (Smith and Topin, 2019).
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self.total_steps = epochs * steps_per_epoch if total_steps is None else total_steps
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        top = pct_start * self.total_steps - 1
        self.bounds = [top, 2 * top][: 1 + three_phase] + [self.total_steps - 1]
        groups = optimizer.param_groups
        highest = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(groups)
        if len(highest) != len(groups):
            raise ValueError(f"{len(groups)} groups need as many max_lr, got {len(highest)}")
        for group, rate in zip(groups, highest, strict=True):
            if cycle_momentum and not ("betas" in group or "momentum" in group):
                raise ValueError("cycle_momentum needs an optimizer with betas or momentum")
            if last_epoch == -1:
                start = rate / div_factor
                group.update(
                    lr=start, initial_lr=start, max_lr=rate, min_lr=start / final_div_factor
                )
                group.update(base_momentum=base_momentum, max_momentum=max_momentum)
        super().__init__(optimizer, last_epoch)

    def _between(self, turns, step):
        """The value at a step, from each of the ``turns`` to the next one at each bound."""
        start = 0
        for first, last, bound in zip(turns, turns[1:], self.bounds, strict=True):
            if step <= bound or bound == self.bounds[-1]:
                share = (step - start) / (bound - start)
                if self.anneal_strategy == "linear":
                    return first + (last - first) * share
                return cosine(first, last, share)
            start = bound

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR was made for {self.total_steps} steps; this is one more")
        phases, rates = len(self.bounds), []
        for group in self.optimizer.param_groups:
            first, top = group["initial_lr"], group["max_lr"]
            rates.append(self._between([first, top, first][:phases] + [group["min_lr"]], step))
            if self.cycle_momentum:
                high, low = group["max_momentum"], group["base_momentum"]
                momentum = self._between([high, low, high, high][: phases + 1], step)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return rates


__getattr__ = in_module(
    __name__,
    {
        "minitorch.optim.compat_schedulers": "ConstantLR CosineAnnealingWarmRestarts CyclicLR"
        " MultiplicativeLR PolynomialLR ReduceLROnPlateau SequentialLR"
    },
)
