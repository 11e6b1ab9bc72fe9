"""Further optimizers that the book does not teach; ``optim`` offers them when asked."""

import math

from minitorch.backend import array_module
from minitorch.creation import tensor
from minitorch.optim.flags import inert
from minitorch.optim.optimizer import Optimizer, not_negative
from minitorch.tensor import Tensor

__all__ = ["ASGD", "Adadelta", "Adamax", "NAdam", "RAdam"]


def _zeros(state, value, *names):
    """Begin to remember: the step, and arrays of zeros by these names."""
    if not state:
        state["step"] = tensor(0.0)
        for name in names:
            state[name] = Tensor._wrap(array_module(value).zeros_like(value))
    state["step"].array += 1
    return state["step"].item(), *(state[name].array for name in names)


def _mean(average, new, share):
    """average <- share * average + (1 - share) * new, in place."""
    average *= share
    average += (1 - share) * new


class Adamax(Optimizer):
    """w <- w - lr / (1 - b1^t) * m / u, u <- max(b2 u, |g| + eps) (Kingma and Ba, 2015, 7.1).

    m is Adam's running mean of the gradient g, which includes ``weight_decay`` * w.
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, **flags):
        options = not_negative(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, options | inert(flags))

    def update(self, value, grad, state, group):
        step, mean, largest = _zeros(state, value, "exp_avg", "exp_inf")
        beta1, beta2 = group["betas"]
        grad = grad + group["weight_decay"] * value
        _mean(mean, grad, beta1)
        largest *= beta2
        array_module(value).maximum(largest, abs(grad) + group["eps"], out=largest)
        value -= group["lr"] / (1 - beta1**step) * mean / largest


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat, 2016), whose strength grows with the step t.

    mu_t = b1 (1 - 0.96^(t momentum_decay) / 2) takes the place of b1 where m is corrected.
    """

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        **flags,
    ):
        options = not_negative(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        options["momentum_decay"] = momentum_decay
        options["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, options | inert(flags))

    def update(self, value, grad, state, group):
        first = not state
        step, mean, square = _zeros(state, value, "exp_avg", "exp_avg_sq")
        if first:
            state["mu_product"] = tensor(1.0)
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        if decay and group["decoupled_weight_decay"]:
            value *= 1 - lr * decay
        elif decay:
            grad = grad + decay * value
        now, later = (
            beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)
        )
        state["mu_product"].array *= now
        product = state["mu_product"].item()
        _mean(mean, grad, beta1)
        _mean(square, grad * grad, beta2)
        root = array_module(value).sqrt(square / (1 - beta2**step)) + group["eps"]
        value -= lr * (1 - now) / (1 - product) * grad / root
        value -= lr * later / (1 - product * later) * mean / root


class RAdam(Optimizer):
    """Adam that is plain momentum until its second moment is known well (Liu et al., 2020)."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        **flags,
    ):
        options = not_negative(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        options["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, options | inert(flags))

    def update(self, value, grad, state, group):
        step, mean, square = _zeros(state, value, "exp_avg", "exp_avg_sq")
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        if decay and group["decoupled_weight_decay"]:
            value *= 1 - lr * decay
        elif decay:
            grad = grad + decay * value
        _mean(mean, grad, beta1)
        _mean(square, grad * grad, beta2)
        left = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / left
        change = lr / (1 - beta1**step) * mean
        if length > 5:
            shares = (length - 4) * (length - 2) * longest / (longest - 4) / (longest - 2) / length
            root = array_module(value).sqrt(square) + group["eps"]
            change *= math.sqrt(shares * left) / root
        value -= change


class Adadelta(Optimizer):
    """w <- w - lr d, d = g sqrt(a + eps) / sqrt(v + eps), means a of d^2, v of g^2 (Zeiler, 2012).

    Both means forget by ``rho``; g includes ``weight_decay`` * w.
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, **flags):
        options = not_negative(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        super().__init__(params, options | inert(flags))

    def update(self, value, grad, state, group):
        _, square, moved = _zeros(state, value, "square_avg", "acc_delta")
        sqrt, rho, eps = array_module(value).sqrt, group["rho"], group["eps"]
        grad = grad + group["weight_decay"] * value
        _mean(square, grad * grad, rho)
        change = sqrt(moved + eps) / sqrt(square + eps) * grad
        _mean(moved, change * change, rho)
        value -= group["lr"] * change


class ASGD(Optimizer):
    """Gradient descent with an average of the weights, ``state[w]["ax"]`` (Polyak, Juditsky, 1992).

    w <- w (1 - lambd eta) - eta g, eta = lr / (1 + lambd lr t)^alpha; from step ``t0`` on, ax is
    the mean of the weights, before it the weights themselves.
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        **flags,
    ):
        options = not_negative(lr=lr, weight_decay=weight_decay)
        options |= {"lambd": lambd, "alpha": alpha, "t0": t0}
        super().__init__(params, options | inert(flags))

    def update(self, value, grad, state, group):
        lr, lambd = group["lr"], group["lambd"]
        first = not state
        step, average = _zeros(state, value, "ax")
        if first:
            state["eta"], state["mu"] = tensor(float(lr)), tensor(1.0)
        eta, mu = state["eta"].item(), state["mu"].item()
        grad = grad + group["weight_decay"] * value
        value *= 1 - lambd * eta
        value -= eta * grad
        average += (value - average) * mu
        state["eta"].array[...] = lr / (1 + lambd * lr * step) ** group["alpha"]
        state["mu"].array[...] = 1 / max(1, step - group["t0"])
