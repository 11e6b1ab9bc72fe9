"""Adam and AdamW."""

import math

from minitorch.backend import array_module, blocks, constants
from minitorch.creation import tensor
from minitorch.optim.flags import inert
from minitorch.optim.optimizer import Optimizer, not_negative
from minitorch.tensor import Tensor


class Adam(Optimizer):
    """w <- w - lr * m' / (sqrt(v') + eps) (Kingma and Ba, 2015).

    m <- b1 m + (1 - b1) g and v <- b2 v + (1 - b2) g^2 are running means of the gradient and its
    square; m' = m / (1 - b1^t) and v' = v / (1 - b2^t) correct for their start at zero, at step t.
    ``weight_decay`` * w is added to the gradient. With ``amsgrad``, the largest v so far takes the
    place of v (Reddi, Kale and Kumar, 2018).
    """

    decoupled = False

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, **flags
    ):
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"betas[{i}] must be at least 0 and below 1, got {beta}")
        options = not_negative(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, options | {"amsgrad": amsgrad} | inert(flags))

    def update(self, value, grad, state, group):
        xp, names = array_module(value), ["exp_avg", "exp_avg_sq"]
        names += ["max_exp_avg_sq"] if group["amsgrad"] else []
        if not state:
            state["step"] = tensor(0.0)
            for name in names:
                state[name] = Tensor._wrap(xp.zeros_like(value))
        state["step"].array += 1
        step, lr, decay = state["step"].item(), group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        # m' / (sqrt(v') + eps) = correction * m / (sqrt(v) + eps * root)
        root = math.sqrt(1 - beta2**step)
        rate, eps = lr * root / (1 - beta1**step), group["eps"] * root
        averages = [state[name].array for name in names]
        new1, old1, new2, old2 = constants(xp, value.dtype, 1 - beta1, beta1, 1 - beta2, beta2)
        for g, w, m, v, *largest in blocks(grad, value, *averages):
            if decay and self.decoupled:
                w *= 1 - lr * decay
            elif decay:
                g = g + decay * w
            change = g * new1
            m *= old1
            m += change
            xp.multiply(g, g, out=change)
            change *= new2
            v *= old2
            v += change
            for most in largest:
                v = xp.maximum(most, v, out=most)
            xp.sqrt(v, out=change)
            change += eps
            xp.divide(m, change, out=change)
            change *= rate
            w -= change


class AdamW(Adam):
    """Adam that shrinks the weights by lr * weight_decay (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        **flags,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **flags)
