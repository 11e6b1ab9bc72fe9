"""Stochastic gradient descent.

``update`` works on arrays, cut by ``blocks`` into pieces that fit the cache.
"""

from minitorch.backend import array_module, blocks
from minitorch.optim.flags import inert
from minitorch.optim.optimizer import Optimizer, not_negative
from minitorch.tensor import Tensor


class SGD(Optimizer):
    """w <- w - lr * v, with v <- momentum * v + (1 - dampening) * g, or v = g without momentum.

    g is the gradient plus ``weight_decay`` * w. With ``nesterov``, the step is g + momentum * v
    (Sutskever et al., 2013). The first v is g itself.
    """

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, **flags
    ):
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("nesterov needs momentum above 0 and dampening 0")
        options = not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__(
            params, options | {"dampening": dampening, "nesterov": nesterov} | inert(flags)
        )

    def update(self, value, grad, state, group):
        momentum = group["momentum"]
        first = momentum and "momentum_buffer" not in state
        if first:
            state["momentum_buffer"] = Tensor._wrap(array_module(value).zeros_like(value))
        share = 1 if first else 1 - group["dampening"]
        remembered = [state["momentum_buffer"].array] if momentum else []
        for g, w, *velocity in blocks(grad, value, *remembered):
            if group["weight_decay"]:
                g = g + group["weight_decay"] * w
            for v in velocity:
                v *= momentum
                v += share * g
                g = g + momentum * v if group["nesterov"] else v
            w -= group["lr"] * g
