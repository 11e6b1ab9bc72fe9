"""Optimizers that the book does not teach; ``optim`` offers them all."""

from minitorch.backend import array_module, blocks
from minitorch.creation import full_like, tensor
from minitorch.optim.flags import inert
from minitorch.optim.optimizer import Optimizer, not_negative
from minitorch.tensor import Tensor

__all__ = ["Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """w <- w - lr * g / (sqrt(v) + eps), v <- alpha v + (1 - alpha) g^2 (Tieleman, Hinton, 2012).

    g is the gradient plus ``weight_decay`` * w. ``centered`` subtracts from v the square of the
    running mean of g; with ``momentum`` the step is b <- momentum * b + g / (sqrt(v) + eps).
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        **flags,
    ):
        options = not_negative(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, weight_decay=weight_decay
        )
        super().__init__(params, options | {"centered": centered} | inert(flags))

    def update(self, value, grad, state, group):
        xp, alpha, momentum = array_module(value), group["alpha"], group["momentum"]
        names = ["square_avg"] + ["momentum_buffer"] * (momentum > 0)
        names += ["grad_avg"] * bool(group["centered"])
        if not state:
            state["step"] = tensor(0.0)
            state.update({name: Tensor._wrap(xp.zeros_like(value)) for name in names})
        state["step"].array += 1
        for g, w, *kept in blocks(grad, value, *[state[name].array for name in names]):
            memory = dict(zip(names, kept, strict=True))
            if group["weight_decay"]:
                g = g + group["weight_decay"] * w
            v = memory["square_avg"]
            v *= alpha
            v += (1 - alpha) * g * g
            if group["centered"]:
                mean = memory["grad_avg"]
                mean += (1 - alpha) * (g - mean)
                v = v - mean * mean
            change = g / (xp.sqrt(v) + group["eps"])
            if momentum > 0:
                memory["momentum_buffer"] *= momentum
                memory["momentum_buffer"] += change
                change = memory["momentum_buffer"]
            w -= group["lr"] * change


class Adagrad(Optimizer):
    """w <- w - lr' * g / (sqrt(s) + eps), s <- s + g^2 (Duchi, Hazan and Singer, 2011).

    g is the gradient plus ``weight_decay`` * w, s starts at ``initial_accumulator_value``, and
    lr' = lr / (1 + (t - 1) ``lr_decay``) at step t.
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        **flags,
    ):
        options = not_negative(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(params, options | inert(flags))

    def add_param_group(self, param_group):
        """Add a group, with the sum of the squares of each of its parameters."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            start = full_like(parameter, group["initial_accumulator_value"])
            self.state[parameter] = {"step": tensor(0.0), "sum": start}

    def update(self, value, grad, state, group):
        xp = array_module(value)
        state["step"].array += 1
        lr = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        for g, w, total in blocks(grad, value, state["sum"].array):
            if group["weight_decay"]:
                g = g + group["weight_decay"] * w
            total += g * g
            w -= lr * g / (xp.sqrt(total) + group["eps"])
