"""A quasi-Newton method, which the book does not teach; ``optim`` offers it when asked."""

from minitorch.autograd import enable_grad, no_grad
from minitorch.operations.shapes import cat
from minitorch.optim.optimizer import Optimizer, not_negative

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps along -H g, where H grows out of the last ``history_size`` steps (Nocedal, 1980).

    Each step s that changed the gradient by y, with rho = 1 / y^T s, brings H nearer to the inverse
    of the second derivatives: H <- (I - rho s y^T) H (I - rho y s^T) + rho s s^T. H is never
    written down: two loops over all pairs give H g, from H_0 = (s^T y / y^T y) I of the last pair.

    ``step(closure)`` makes up to ``max_iter`` of these steps of length ``lr``, the first ever of
    at most ``lr`` in the sum of all changes. It ends earlier after ``max_eval`` calls of the
    closure (1.25 max_iter), where no gradient is above ``tolerance_grad``, or where no change of a
    parameter, or none of the loss, is above ``tolerance_change``. There is one group of parameters
    and no line search.
    """

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        if line_search_fn is not None:
            raise NotImplementedError(
                f"LBFGS has no line search, got {line_search_fn!r}: leave it out, with a smaller lr"
            )
        options = not_negative(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
        )
        super().__init__(params, options | {"line_search_fn": None})
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS takes one group of parameters, got {len(self.param_groups)}")

    def _gradient(self):
        """The gradients of all parameters as one vector, zeros where there is none."""
        return cat(
            [
                (parameter.new_zeros(parameter.shape) if parameter.grad is None else parameter.grad)
                .detach()
                .reshape(-1)
                for parameter in self._parameters()
            ]
        )

    def _move(self, change):
        parts = change.split([parameter.numel() for parameter in self._parameters()])
        for parameter, part in zip(self._parameters(), parts, strict=True):
            parameter.add_(part.view_as(parameter))

    def _direction(self, state, gradient):
        """-H g: back over all pairs, once by H_0, and forward again."""
        pairs = list(zip(state["old_stps"], state["old_dirs"], state["ro"], strict=True))
        direction, shares = -gradient, []
        for step, change, rho in reversed(pairs):
            shares.append(step.dot(direction) * rho)
            direction.sub_(change * shares[-1])
        direction.mul_(state["H_diag"])
        for (step, change, rho), share in zip(pairs, reversed(shares), strict=True):
            direction.add_(step * (share - change.dot(direction) * rho))
        return direction

    def _remember(self, state, step, change, history_size):
        """Add a pair, unless the loss curves downwards along the step."""
        curvature = change.dot(step)
        if not curvature > 1e-10:
            return
        for name, new in (("old_stps", step), ("old_dirs", change), ("ro", 1 / curvature)):
            state[name] = [*state[name], new][-history_size:]
        state["H_diag"] = curvature / change.dot(change)

    @no_grad
    def step(self, closure):
        """Make the steps; ``closure`` computes loss and gradients. Returns the first loss."""
        [group] = self.param_groups
        state, lr = self.state[group["params"][0]], group["lr"]
        if not state:
            state |= {"func_evals": 0, "n_iter": 0, "old_dirs": [], "old_stps": [], "ro": []}
            state |= {"H_diag": 1, "d": None, "t": None, "prev_flat_grad": None}

        def evaluate():
            state["func_evals"] += 1
            with enable_grad():
                return closure()

        first = evaluate()
        loss, gradient = float(first), self._gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        calls = 1
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] > 1:
                moved, turned = state["d"] * state["t"], gradient - state["prev_flat_grad"]
                self._remember(state, moved, turned, group["history_size"])
            state["d"] = self._direction(state, gradient)
            state["t"] = lr
            if state["n_iter"] == 1:
                state["t"] = min(1.0, 1.0 / float(gradient.abs().sum())) * lr
            state["prev_flat_grad"], before = gradient, loss
            if float(gradient.dot(state["d"])) > -group["tolerance_change"]:
                break
            change = state["d"] * state["t"]
            self._move(change)
            if iteration == group["max_iter"]:
                break
            loss, gradient, calls = float(evaluate()), self._gradient(), calls + 1
            if (
                calls >= group["max_eval"]
                or gradient.abs().max() <= group["tolerance_grad"]
                or change.abs().max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first
