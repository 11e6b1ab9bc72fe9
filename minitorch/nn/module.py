"""``Module``: what every layer and model is built from."""

import itertools
from collections import OrderedDict, namedtuple

from minitorch.autograd import no_grad
from minitorch.backend import float32, float64
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

IncompatibleKeys = namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])

_TABLES = ("_parameters", "_buffers", "_modules")


def _table_for(value):
    """Where a module keeps an attribute of this kind, None for an ordinary one."""
    if isinstance(value, Parameter):
        return "_parameters"
    return "_modules" if isinstance(value, Module) else None


class Module:
    """A layer or model: it holds parameters, buffers and other modules, and computes ``forward``.

    Assign a ``Parameter`` or a ``Module`` to an attribute and it is found by ``parameters()``,
    ``state_dict()`` and ``to()``; ``register_buffer`` does the same for a tensor that is not
    trained. Call ``super().__init__()`` first.
    """

    def __init__(self):
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_buffers", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "_not_saved", set())
        self.training = True

    def forward(self, *args, **kwargs):
        """The computation; every module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def __setattr__(self, name, value):
        own = self.__dict__
        if "_modules" not in own and isinstance(value, (Parameter, Module)):
            raise AttributeError(
                f"call super().__init__() in {type(self).__name__} before assigning {name}"
            )
        kind = _table_for(value)
        if kind is not None:
            for table in set(_TABLES) - {kind}:
                own[table].pop(name, None)
            own.pop(name, None)
            own[kind][name] = value
            return
        for table in _TABLES:
            if name in own.get(table, ()):
                if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                    raise TypeError(
                        f"{type(self).__name__}.{name} is one of its {table[1:]}: it can be "
                        f"replaced by another, or by None, not by a {type(value).__name__}"
                    )
                own[table][name] = value
                return
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for table in _TABLES:
            found = self.__dict__.get(table, ())
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name):
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                return
        object.__delattr__(self, name)

    def register_parameter(self, name, param):
        """Add a parameter under a name; None for one that is absent."""
        self.__dict__.pop(name, None)
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is saved and moved with the module but not trained."""
        self.__dict__.pop(name, None)
        self._buffers[name] = tensor
        if not persistent:
            self._not_saved.add(name)

    def add_module(self, name, module):
        """Add a module under a name."""
        self._modules[name] = module

    # Walking through

    def named_children(self):
        """The modules directly inside, with their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self):
        """The modules directly inside."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo=None, prefix=""):
        """This module and all inside it, each once, with their dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self):
        """This module and all inside it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, table, prefix="", recurse=True):
        seen = set()
        modules = self.named_modules(prefix=prefix) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, tensor in module.__dict__[table].items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def named_parameters(self, prefix="", recurse=True):
        """Every parameter, each once, with its dotted name."""
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse=True):
        """Every parameter, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True):
        """Every buffer, each once, with its dotted name."""
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse=True):
        """Every buffer, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # Changing all at once

    def apply(self, fn):
        """Call ``fn`` on every module inside, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        """Set training mode, in which dropout drops, for this module and all inside."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        """Leave training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Train the parameters, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def to(self, *target, dtype=None, device=None):
        """Move parameters and buffers to a device or a floating-point type, in place."""
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            moved = tensor.detach().to(*target, dtype=dtype, device=device)
            if tensor.is_floating_point() or moved.dtype == tensor.dtype:
                tensor.data = moved
        return self

    def float(self):
        """Parameters and buffers in float32."""
        return self.to(float32)

    def double(self):
        """Parameters and buffers in float64."""
        return self.to(float64)

    def cpu(self):
        """Parameters and buffers on the CPU."""
        return self.to("cpu")

    def cuda(self):
        """Parameters and buffers on the GPU."""
        return self.to("cuda")

    # Saving and loading

    def _saved(self, prefix=""):
        for path, module in self.named_modules(prefix=prefix):
            for table in ("_parameters", "_buffers"):
                for name, tensor in module.__dict__[table].items():
                    if tensor is not None and name not in module._not_saved:
                        yield f"{path}.{name}" if path else name, tensor

    def state_dict(self, prefix=""):
        """Every parameter and buffer by its dotted name; they share memory with the module."""
        return OrderedDict((name, tensor.detach()) for name, tensor in self._saved(prefix))

    @no_grad
    def load_state_dict(self, state_dict, strict=True):
        """Copy the values of ``state_dict`` into the parameters and buffers.

        RuntimeError names every key that is missing or unexpected (unless ``strict=False``) and
        every tensor whose shape differs; nothing is changed then.
        """
        own = OrderedDict(self._saved())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = [
            f"{name} has shape {tuple(state_dict[name].shape)}, expected {tuple(own[name].shape)}"
            for name in own
            if name in state_dict and state_dict[name].shape != own[name].shape
        ]
        if strict:
            problems += [f"{name} is missing" for name in missing]
            problems += [f"{name} is unexpected" for name in unexpected]
        if problems:
            raise RuntimeError(
                f"load_state_dict of {type(self).__name__}:\n  " + "\n  ".join(problems)
            )
        for name, tensor in own.items():
            if name in state_dict:
                tensor.copy_(state_dict[name])
        return IncompatibleKeys(missing, unexpected)

    # Printing

    def extra_repr(self):
        """What a module prints about itself within the parentheses."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self):
        inside = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self.named_children()
        ]
        extra = self.extra_repr()
        if not inside:
            return f"{self._get_name()}({extra})"
        lines = ([extra] if extra else []) + inside
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"
