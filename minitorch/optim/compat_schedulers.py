"""Schedules of the learning rate that the book does not teach; ``lr_scheduler`` offers them all."""

import math
from bisect import bisect_right

from minitorch.optim.lr_scheduler import LRScheduler, cosine

__all__ = """
ConstantLR CosineAnnealingWarmRestarts CyclicLR MultiplicativeLR PolynomialLR
ReduceLROnPlateau SequentialLR
""".split()


def _one_a_group(value, optimizer, name):
    """A value for each group of an optimizer, from one for all or a list."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{count} groups need as many {name}, got {len(values)}")
    return values


class ReduceLROnPlateau(LRScheduler):
    """lr <- max(lr * factor, min_lr) when a metric has not improved for ``patience`` steps.

    Call ``step(metric)``. ``mode`` "min" or "max" says what is better, ``threshold`` by how much:
    relative to the best so far (``threshold_mode="rel"``) or as such ("abs"). After a change,
    ``cooldown`` steps are not counted. A change of the rate of at most ``eps`` is not made.
    """

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1:
            raise ValueError(f"factor must be below 1, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.optimizer, self.mode, self.factor = optimizer, mode, factor
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lrs = _one_a_group(min_lr, optimizer, "min_lr")
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self._reset()

    def _reset(self):
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self):
        """Whether the rate was changed so recently that steps are not counted."""
        return self.cooldown_counter > 0

    def is_better(self, a, best):
        """Whether the metric a improves on the best so far."""
        margin = self.threshold if self.mode == "max" else -self.threshold
        limit = best * (1 + margin) if self.threshold_mode == "rel" else best + margin
        return a > limit if self.mode == "max" else a < limit

    def step(self, metrics, epoch=None):
        """Move on by one step, after which the metric is ``metrics``."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, smallest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, smallest)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]


class ConstantLR(LRScheduler):
    """lr = initial lr * ``factor`` for ``total_iters`` steps, then the initial lr."""

    def __init__(self, optimizer, factor=1 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must be between 0 and 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        factor = self.factor if self.last_epoch < self.total_iters else 1
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr = initial lr * (1 - step / total_iters)^power, 0 from ``total_iters`` on."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        share = min(self.last_epoch / self.total_iters, 1)
        return [base * (1 - share) ** self.power for base in self.base_lrs]


class MultiplicativeLR(LRScheduler):
    """lr <- lr * f(step), with one function ``lr_lambda`` or a list of one a group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = _one_a_group(lr_lambda, optimizer, "functions")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if not hasattr(self, "_last_lr"):  # the first step is that of the start
            return rates
        return [rate * f(self.last_epoch) for rate, f in zip(rates, self.lr_lambdas, strict=True)]

    def state_dict(self):
        """As PyTorch's, with None in place of each function."""
        return super().state_dict() | {"lr_lambdas": [None] * len(self.lr_lambdas)}


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to ``eta_min``, again and again.

    The first takes ``T_0`` steps, each further one ``T_mult`` times as many as the one before
    (Loshchilov and Hutter, 2017). ``step(epoch)`` goes to any step, whole or not.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"T_0 must be a positive integer, got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"T_mult must be an integer of at least 1, got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        share = self.T_cur / self.T_i
        return [cosine(base, self.eta_min, share) for base in self.base_lrs]

    def step(self, epoch=None):
        """Move on by one step, or to the step ``epoch``."""
        epoch = self.last_epoch + 1 if epoch is None else epoch
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, got {epoch}")
        self.T_i, self.T_cur = self.T_0, epoch
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self.last_epoch = math.floor(epoch) - 1
        super().step()


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and down again (Smith, 2017).

    ``mode`` "triangular2" halves the height after each cycle, "exp_range" multiplies it by
    gamma^step; ``scale_fn`` gives another factor, of the cycle or ("iterations") of the step. With
    ``cycle_momentum`` the momentum, or Adam's first beta, goes the other way.
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode {mode!r} is unknown, and there is no scale_fn")
        groups = optimizer.param_groups
        self.max_lrs = _one_a_group(max_lr, optimizer, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = step_size_up + down, step_size_up / (step_size_up + down)
        self.mode, self.gamma, self.scale_fn, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(
                groups, _one_a_group(base_lr, optimizer, "base_lr"), strict=True
            ):
                group["lr"] = group["initial_lr"] = rate
        if cycle_momentum:
            if any("betas" not in group and "momentum" not in group for group in groups):
                raise ValueError("cycle_momentum needs an optimizer with betas or momentum")
            self.base_momentums = _one_a_group(base_momentum, optimizer, "base_momentum")
            self.max_momentums = _one_a_group(max_momentum, optimizer, "max_momentum")
        super().__init__(optimizer, last_epoch)

    def _scale(self, cycle):
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "triangular2":
            return 1 / 2 ** (cycle - 1)
        return self.gamma**self.last_epoch if self.mode == "exp_range" else 1.0

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = share * self._scale(cycle)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                momentum = high - (high - low) * height
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        rates = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (top - base) * height for base, top in rates]

    def state_dict(self):
        """All but the optimizer and the function."""
        return {k: v for k, v in super().state_dict().items() if k != "scale_fn"}


class SequentialLR(LRScheduler):
    """One schedule after the other: the next one begins, at its start, at each milestone."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{len(schedulers)} schedules need one milestone fewer, got {len(milestones)}"
            )
        if any(each.optimizer is not optimizer for each in schedulers):
            raise ValueError("all schedules must be of the optimizer that SequentialLR is given")
        self.optimizer, self._schedulers = optimizer, list(schedulers)
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for each in self._schedulers:
            each.last_epoch -= 1
        del self._schedulers[0]._last_lr
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self):
        """Move on by one step."""
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[place]
        if place and self._milestones[place - 1] == self.last_epoch:
            current.last_epoch = -1
        current.step()
        self._last_lr = current.get_last_lr()

    def state_dict(self):
        """The states of all, under "_schedulers"."""
        own = {k: v for k, v in super().state_dict().items() if k != "_schedulers"}
        return own | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Go on from a ``state_dict``."""
        vars(self).update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for each, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(state)
