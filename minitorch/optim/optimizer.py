"""What all optimizers share: parameter groups, zero_grad, state."""

from collections import defaultdict
from copy import copy, deepcopy

from minitorch.autograd import enable_grad, no_grad
from minitorch.autograd.inplace import note_change
from minitorch.optim.compat_hooks import StepHooks
from minitorch.tensor import Tensor


def not_negative(**options):
    """The options as a dict; ValueError for a number below 0."""
    for name, value in options.items():
        if isinstance(value, (int, float)) and value < 0:
            raise ValueError(f"{name} must not be negative, got {value}")
    return options


class Optimizer(StepHooks):
    """Changes parameters by their gradients.

    ``params``: the parameters, or dicts with a list ``"params"`` and options of their own. These
    dicts become the ``param_groups``, with ``defaults`` for the options that they lack.
    ``state[parameter]`` is a dict: what the optimizer remembers of each parameter.
    """

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("an optimizer takes a list of parameters, got one tensor")
        params = list(params)
        if not params:
            raise ValueError("the optimizer got no parameters: was model.parameters() used up?")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Add a dict with a list ``"params"`` and, where they differ, its own options."""
        tensors = param_group["params"]
        tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        known = {id(parameter) for parameter in self._parameters()}
        for parameter in tensors:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"an optimizer takes tensors, got {type(parameter).__name__}")
            if not parameter.is_leaf:
                raise ValueError("an optimizer takes leaf tensors; this one was computed")
            if id(parameter) in known:
                raise ValueError("a parameter is in two groups of the optimizer")
        param_group["params"] = tensors
        for name, value in self.defaults.items():
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    def _parameters(self):
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters."""
        for parameter in self._parameters():
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
        changed = []
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        state = self.state[parameter]
                        self.update(parameter.array, parameter.grad.array, state, group)
                        changed.append(parameter)
                        changed += [x for x in state.values() if isinstance(x, Tensor)]
        note_change(*changed)
        return loss

    def update(self, value, grad, state, group):
        """Change the array ``value`` in place; ``state`` is this parameter's memory."""
        raise NotImplementedError

    def state_dict(self):
        """The options of the groups and the state of each parameter, by its position.

        In PyTorch's format: either library can go on from the other's.
        """
        position = {id(parameter): i for i, parameter in enumerate(self._parameters())}
        groups = [
            {**group, "params": [position[id(parameter)] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            position[id(key)] if isinstance(key, Tensor) else key: copy(kept)
            for key, kept in self.state.items()
            if kept or not isinstance(key, Tensor)
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Continue from a ``state_dict`` of the same parameters in the same order.

        The groups get its options in place of their own. Tensors of the state are copied, in the
        type and on the device of their parameter; all but ``"step"``, which stays as it is.
        """
        loaded = deepcopy(state_dict["param_groups"])
        counts = [len(group["params"]) for group in loaded]
        own = [len(group["params"]) for group in self.param_groups]
        if counts != own:
            raise ValueError(f"the groups have {own} parameters, those to be loaded {counts}")
        positions = [position for group in loaded for position in group["params"]]
        parameter_at = dict(zip(positions, self._parameters(), strict=True))
        self.state = defaultdict(dict)
        for key, kept in state_dict["state"].items():
            if key in parameter_at:
                parameter = parameter_at[key]
                self.state[parameter] = _copied(kept, parameter)
            else:
                self.state[key] = deepcopy(kept)
        for group, new in zip(self.param_groups, loaded, strict=True):
            new["params"] = group["params"]
        self.param_groups = loaded


def _copied(value, parameter, name=None):
    """A value of the state, or a container of them, that belongs to a parameter."""
    if isinstance(value, Tensor):
        moved = value.detach() if name == "step" else value.detach().to(parameter)
        return moved.clone() if moved.array is value.array else moved
    if isinstance(value, dict):
        return {key: _copied(part, parameter, key) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(part, parameter, name) for part in value)
    return deepcopy(value)
