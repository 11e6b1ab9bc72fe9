"""``Module``: what every layer and model is built from."""

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, MutableMapping

from minitorch.autograd import no_grad
from minitorch.autograd.tensorbase import RemovableHandle
from minitorch.backend import float16, float32, float64
from minitorch.nn.compat.hooks import Hooks
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` did not find, and what it did not expect."""

    def __repr__(self):
        return super().__repr__() if any(self) else "<All keys matched successfully>"


_TABLES = ("_parameters", "_buffers", "_modules")


class Table(dict):
    """The parameters, buffers or modules of a module by name, each of them its attribute too.

    So they are found as fast as any attribute, also when a program writes into a table by hand.
    """

    def __init__(self, attributes, entries=()):
        self.attributes = attributes
        self.update(entries)

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.attributes[name] = value

    def __delitem__(self, name):
        super().__delitem__(name)
        self.attributes.pop(name, None)

    def __ior__(self, entries):
        self.update(entries)
        return self

    def __reduce__(self):
        return dict, (dict(self),)

    def pop(self, name, *default):
        """As of a dict."""
        if name in self:
            self.attributes.pop(name, None)
        return super().pop(name, *default)

    popitem, clear = MutableMapping.popitem, MutableMapping.clear
    update, setdefault = MutableMapping.update, MutableMapping.setdefault


def _quoted(names):
    return ", ".join(f'"{name}"' for name in names)


def _table_for(value):
    """Where a module keeps an attribute of this kind, None for an ordinary one."""
    if isinstance(value, Parameter):
        return "_parameters"
    return "_modules" if isinstance(value, Module) else None


class Module(Hooks):
    """A layer or model: it holds parameters, buffers and other modules, and computes ``forward``.

    Assign a ``Parameter`` or a ``Module`` to an attribute and it is found by ``parameters()``,
    ``state_dict()`` and ``to()``; ``register_buffer`` does the same for a tensor that is not
    trained. Call ``super().__init__()`` first.
    """

    training = True
    _forward_hooks = _forward_pre_hooks = {}

    def __init__(self):
        own = self.__dict__
        own["training"] = True
        for table in _TABLES:
            own[table] = Table(own)
        own["_not_saved"] = set()

    def __setstate__(self, state):
        """What a copy of the module is made of: its attributes, with tables of its own."""
        own = self.__dict__
        own.update(state)
        for table in _TABLES:
            own[table] = Table(own, own[table])

    def forward(self, *args, **kwargs):
        """The computation; every module defines its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] does not define "forward"')

    def __call__(self, *args, **kwargs):
        if self._forward_hooks or self._forward_pre_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_with_hooks(self, args, kwargs):
        for hook in tuple(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_hook(self, hook):
        """Call ``hook(module, inputs, output)`` after each forward; it may return another output.

        Returns a handle whose ``remove()`` ends that.
        """
        return self._register_hook("_forward_hooks", hook)

    def register_forward_pre_hook(self, hook):
        """Call ``hook(module, inputs)`` before each forward; it may return other inputs."""
        return self._register_hook("_forward_pre_hooks", hook)

    def _register_hook(self, kind, hook):
        return RemovableHandle(self.__dict__.setdefault(kind, {}), hook)

    # Attributes

    def __setattr__(self, name, value):
        own = self.__dict__
        kind = _table_for(value)
        if kind is not None:
            self._check_initialised(name)
            for table in _TABLES:
                if table != kind:
                    own[table].pop(name, None)
            own[kind][name] = value
            return
        for table in _TABLES:
            if name in own.get(table, ()):
                if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                    raise TypeError(
                        f"cannot assign a {type(value).__name__} as {type(self).__name__}.{name}, "
                        f"which is one of its {table[1:]}: assign another of those, or None"
                    )
                own[table][name] = value
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                return
        object.__delattr__(self, name)

    def _check_initialised(self, name):
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {name} before Module.__init__() call: "
                f"call super().__init__() first in {type(self).__name__}.__init__"
            )

    def _register(self, table, name, value, kind):
        """Add to a table. KeyError for a bad or taken name, TypeError unless a ``kind`` or None."""
        self._check_initialised(name)
        if not isinstance(name, str):
            raise TypeError(f"a name must be a string, got {type(name).__name__}")
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__} or None; got {type(value).__name__}")
        if not name or "." in name:
            raise KeyError(f"a name must not be empty or contain a dot; got {name!r}")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute {name!r} already exists")
        self.__dict__[table][name] = value

    def register_parameter(self, name, param):
        """Add a parameter under a name; None for one that is absent."""
        self._register("_parameters", name, param, Parameter)

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is moved with the module but not trained; and saved if persistent."""
        self._register("_buffers", name, tensor, Tensor)
        (self._not_saved.discard if persistent else self._not_saved.add)(name)

    def add_module(self, name, module):
        """Add a module under a name."""
        self._register("_modules", name, module, Module)

    def register_module(self, name, module):
        """Another name of ``add_module``."""
        self.add_module(name, module)

    def get_submodule(self, target):
        """The module with a dotted name, such as "encoder.layers.0"; AttributeError if none."""
        module = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"{name!r} of {target!r} is not a module")
        return module

    def _get_tensor(self, target, table):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module.__dict__[table]:
            raise AttributeError(f"{type(module).__name__} has no {name!r} among its {table[1:]}")
        return module.__dict__[table][name]

    def get_parameter(self, target):
        """The parameter with a dotted name; AttributeError if there is none."""
        return self._get_tensor(target, "_parameters")

    def get_buffer(self, target):
        """The buffer with a dotted name; AttributeError if there is none."""
        return self._get_tensor(target, "_buffers")

    # Walking through

    def named_children(self):
        """The modules directly inside, each once, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """The modules directly inside."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """This module and all inside it, each once, with their dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self):
        """This module and all inside it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, table, prefix, recurse, remove_duplicate):
        seen = set()
        modules = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, tensor in module.__dict__[table].items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Every parameter, each once, with its dotted name."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """Every parameter, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Every buffer, each once, with its dotted name."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

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
        if not isinstance(mode, bool):
            raise ValueError(f"training mode must be True or False, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
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

    def _change_all(self, change):
        """Put ``change(tensor)`` in the place of parameters, their gradients, and buffers."""
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            tensor.data = change(tensor.detach())
            if tensor.grad is not None:
                tensor.grad = change(tensor.grad)
        return self

    def to(self, *target, **options):
        """Move parameters and buffers to a device or a floating-point type, in place.

        Integer and boolean buffers keep their type. TypeError for a type that is not floating.
        """

        def moved(tensor):
            result = tensor.to(*target, **options)
            if not tensor.is_floating_point():
                return result.to(tensor.dtype)
            if not result.is_floating_point():
                raise TypeError(
                    f"a module can be moved to floating-point types, not {result.dtype}"
                )
            return result

        return self._change_all(moved)

    def half(self):
        """Parameters and floating-point buffers in float16."""
        return self.to(float16)

    def float(self):
        """Parameters and floating-point buffers in float32."""
        return self.to(float32)

    def double(self):
        """Parameters and floating-point buffers in float64."""
        return self.to(float64)

    def cpu(self):
        """Parameters and buffers on the CPU."""
        return self.to("cpu")

    def cuda(self, device=None):
        """Parameters and buffers on the GPU."""
        return self.to("cuda" if device is None else device)

    # Saving and loading

    def _saved(self, prefix=""):
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=False):
            for table in ("_parameters", "_buffers"):
                for name, tensor in module.__dict__[table].items():
                    if tensor is not None and name not in module._not_saved:
                        yield f"{path}.{name}" if path else name, tensor

    def state_dict(self, *, prefix="", keep_vars=False):
        """Every parameter and buffer by its dotted name; they share memory with the module.

        ``prefix``, with its dot, comes before each name. The tensors are detached unless
        ``keep_vars``.
        """
        return OrderedDict(
            (prefix + name, tensor if keep_vars else tensor.detach())
            for name, tensor in self._saved()
        )

    @no_grad
    def load_state_dict(self, state_dict, strict=True):
        """Copy the values of ``state_dict`` into the parameters and buffers.

        RuntimeError names every key that is missing or unexpected (unless ``strict=False``) and
        every tensor whose shape differs; nothing is changed then.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"a state_dict is a mapping, got {type(state_dict).__name__}")
        problems = []
        state_dict, own = self._prepared(state_dict, strict, problems), OrderedDict(self._saved())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        for name, tensor in own.items():
            if name in state_dict and state_dict[name].shape != tensor.shape:
                problems.append(
                    f"size mismatch for {name}: the state_dict has shape "
                    f"{tuple(state_dict[name].shape)}, the module {tuple(tensor.shape)}."
                )
        if problems:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(problems)
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

    def _repr_of_modules(self):
        return [(name, repr(module)) for name, module in self._modules.items()]

    def __repr__(self):
        inside = [
            f"({name}): " + text.replace("\n", "\n  ") for name, text in self._repr_of_modules()
        ]
        extra = self.extra_repr()
        if not inside:
            return f"{self._get_name()}({extra})"
        lines = ([extra] if extra else []) + inside
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"
