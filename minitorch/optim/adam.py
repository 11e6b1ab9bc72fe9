"""Adam and AdamW."""

import math

from minitorch.backend import array_module
from minitorch.optim.optimizer import Optimizer


class Adam(Optimizer):
    """w <- w - lr * m' / (sqrt(v') + eps) (Kingma and Ba, 2015).

    m <- b1 m + (1 - b1) g and v <- b2 v + (1 - b2) g^2 are running means of the gradient and its
    square; m' = m / (1 - b1^t) and v' = v / (1 - b2^t) correct for their start at zero, at step t.
    ``weight_decay`` * w is added to the gradient.
    """

    decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"betas[{i}] must be at least 0 and below 1, got {beta}")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def update(self, value, grad, state, group):
        xp = array_module(value)
        if not state:
            state.update(step=0, exp_avg=xp.zeros_like(value), exp_avg_sq=xp.zeros_like(value))
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            if self.decoupled:
                value *= 1 - group["lr"] * group["weight_decay"]
            else:
                grad = grad + group["weight_decay"] * value
        state["step"] += 1
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean *= beta1
        mean += (1 - beta1) * grad
        square *= beta2
        square += (1 - beta2) * grad * grad
        mean_correction = 1 - beta1 ** state["step"]
        square_correction = math.sqrt(1 - beta2 ** state["step"])
        denominator = xp.sqrt(square)
        denominator /= square_correction
        denominator += group["eps"]
        value -= (group["lr"] / mean_correction) * mean / denominator


class AdamW(Adam):
    """Adam that shrinks the weights by lr * weight_decay (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, lr, betas, eps, weight_decay)
