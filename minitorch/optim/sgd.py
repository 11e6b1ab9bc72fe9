"""Stochastic gradient descent."""

from minitorch.optim.optimizer import Optimizer


class SGD(Optimizer):
    """w <- w - lr * v, with v <- momentum * v + (1 - dampening) * g, or v = g without momentum.

    g is the gradient plus ``weight_decay`` * w. With ``nesterov``, the step is g + momentum * v
    (Sutskever et al., 2013). The first v is g itself.
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False):
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("nesterov needs momentum above 0 and dampening 0")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def update(self, value, grad, state, group):
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * value
        if group["momentum"]:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = state["momentum_buffer"] = grad.copy()
            else:
                velocity *= group["momentum"]
                velocity += (1 - group["dampening"]) * grad
            grad = grad + group["momentum"] * velocity if group["nesterov"] else velocity
        value -= group["lr"] * grad
