"""What all optimizers share: parameter groups, zero_grad, state."""

from minitorch.autograd import enable_grad, no_grad
from minitorch.tensor import Tensor


class Optimizer:
    """Changes parameters by their gradients.

    ``params``: the parameters, or dicts with a list ``"params"`` and options of their own.
    """

    def __init__(self, params, defaults):
        for name, value in defaults.items():
            smallest = value if isinstance(value, (int, float)) else 0
            if smallest < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        params = list(params)
        if not params:
            raise ValueError("the optimizer got no parameters: was model.parameters() used up?")
        self.defaults = defaults
        self.state = {}
        self.param_groups = []
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Add a dict with a list ``"params"`` and, where they differ, its own options."""
        tensors = param_group["params"]
        group = {
            **param_group,
            "params": [tensors] if isinstance(tensors, Tensor) else list(tensors),
        }
        for parameter in group["params"]:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"an optimizer takes tensors, got {type(parameter).__name__}")
            if not parameter.is_leaf:
                raise ValueError("an optimizer takes leaf tensors; this one was computed")
        self.param_groups.append({**self.defaults, **group})

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

    def step(self, closure=None):
        """Update every parameter that has a gradient. ``closure`` computes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        state = self.state.setdefault(id(parameter), {})
                        self.update(parameter.array, parameter.grad.array, state, group)
                        parameter._version[0] += 1
        return loss

    def update(self, value, grad, state, group):
        """Change the array ``value`` in place; ``state`` is this parameter's memory."""
        raise NotImplementedError

    def state_dict(self):
        """The options of the groups and the state of each parameter, by its position."""
        groups, position = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(position, position + count))})
            position += count
        ordered = [p for group in self.param_groups for p in group["params"]]
        state = {i: self.state[id(p)] for i, p in enumerate(ordered) if id(p) in self.state}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Continue from a ``state_dict`` of the same parameters in the same order."""
        counts = [len(group["params"]) for group in state_dict["param_groups"]]
        own = [len(group["params"]) for group in self.param_groups]
        if counts != own:
            raise ValueError(f"the groups have {own} parameters, those to be loaded {counts}")
        for group, loaded in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in loaded.items() if k != "params"})
        ordered = [p for group in self.param_groups for p in group["params"]]
        self.state = {
            id(ordered[i]): {k: v.copy() if hasattr(v, "copy") else v for k, v in state.items()}
            for i, state in state_dict["state"].items()
        }
