"""What ``nn.utils.parametrize`` offers: weights that are computed from other parameters."""

import contextlib

from minitorch.autograd import no_grad
from minitorch.nn.containers import ModuleDict, ModuleList
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = """
ParametrizationList cached is_parametrized register_parametrization remove_parametrizations
""".split()

_values = None  # inside ``cached()``, what was computed by module and name


@contextlib.contextmanager
def cached():
    """Compute each weight once in this block."""
    global _values
    before, _values = _values, {} if _values is None else _values
    try:
        yield
    finally:
        _values = before


class ParametrizationList(ModuleList):
    """The modules through which a weight is computed, one after the other.

    They start from ``original``, a parameter or buffer; or, where the ``right_inverse`` of the
    first module gives several tensors, from ``original0``, ``original1``, ...
    """

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            parts = self._inverse(original)
        self.is_tensor = isinstance(parts, Tensor)
        if self.is_tensor:
            original.data = parts.data
            self._keep("original", original)
        else:
            self.ntensors = len(parts)
            for i, part in enumerate(parts):
                learned = isinstance(original, Parameter)
                self._keep(
                    f"original{i}", Parameter(part, original.requires_grad) if learned else part
                )

    def _keep(self, name, tensor):
        register = self.register_parameter if isinstance(tensor, Parameter) else None
        (register or self.register_buffer)(name, tensor)

    def _originals(self):
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def _inverse(self, value):
        """What the modules would make this value from; ``value`` where they cannot tell."""
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
        return value

    @no_grad
    def right_inverse(self, value):
        """Change the originals so that the weight becomes ``value``, if each module has one."""
        for module in self:
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(
                    f"a weight computed by {type(module).__name__} cannot be assigned: "
                    "it has no right_inverse"
                )
        parts = self._inverse(value)
        for original, part in zip(
            self._originals(), [parts] if self.is_tensor else parts, strict=True
        ):
            original.copy_(part)

    def forward(self):
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _computed(name):
    """The property of a module that computes its weight of that name."""

    def value(self):
        if _values is None:
            return self.parametrizations[name]()
        if (id(self), name) not in _values:
            _values[id(self), name] = self.parametrizations[name]()
        return _values[id(self), name]

    return property(value)


class _Parametrized:
    """What the class of a module with computed weights adds to the module's own."""

    def __setattr__(self, name, value):
        if name in self.__dict__["_modules"].get("parametrizations", ()):
            self.parametrizations[name].right_inverse(value)
        else:
            super().__setattr__(name, value)


def _set_class(module):
    """Give a module a class of its own, with a property for each computed weight; or its old."""
    own = type(module)
    if issubclass(own, _Parametrized):
        own = own.__bases__[1]
    names = module.__dict__["_modules"].get("parametrizations", ())
    if names:
        own = type(
            f"Parametrized{own.__name__}",
            (_Parametrized, own),
            {"__module__": own.__module__} | {name: _computed(name) for name in names},
        )
    object.__setattr__(module, "__class__", own)


def _read_weights(module, inputs):
    """What recurrent layers do before each forward: their list of weights has the computed ones."""
    module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]


def is_parametrized(module, tensor_name=None):
    """Whether the module computes that weight, or any."""
    names = module._modules.get("parametrizations", ())
    return bool(names) if tensor_name is None else tensor_name in names


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Compute a parameter or buffer by the module ``parametrization``, whenever it is asked for.

    The optimizer then trains ``module.parametrizations.<name>.original``, which starts as the
    weight, or as what ``parametrization.right_inverse`` makes of it. ValueError where the result
    has another shape or type than the weight, unless ``unsafe``. Returns the module.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if not (unsafe or chain.unsafe):
            before = getattr(module, tensor_name)
            _check_like(parametrization(before), before, tensor_name)
        chain.append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"{type(module).__name__} has no parameter or buffer {tensor_name!r} to compute"
        )
    original = getattr(module, tensor_name)
    before = original.detach().clone()
    chain = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        _check_like(chain(), before, tensor_name)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
        if hasattr(module, "_flat_weights"):
            module.register_forward_pre_hook(_read_weights)
    module.parametrizations[tensor_name] = chain
    _set_class(module)
    return module


def _check_like(found, expected, name):
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"the parametrization of {name} must keep its shape {tuple(expected.shape)} and type "
            f"{expected.dtype}, or be registered with unsafe=True; "
            f"got {tuple(found.shape)} and {found.dtype}"
        )


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the weight an ordinary parameter or buffer again: its last value, or the original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} computes no weight {tensor_name!r}")
    chain = module.parametrizations[tensor_name]
    if not (leave_parametrized or chain.is_tensor):
        raise ValueError(
            f"{tensor_name} is computed from several tensors, so there is no original to go back "
            "to: leave_parametrized=True keeps the value"
        )
    value, (original, *_) = getattr(module, tensor_name).detach(), chain._originals()
    del module.parametrizations[tensor_name]
    if not module.parametrizations:
        del module.parametrizations
        for handle, hook in list(module._forward_pre_hooks.items()):
            if hook is _read_weights:
                handle.remove()
    _set_class(module)
    if not chain.is_tensor:
        learned = isinstance(original, Parameter)
        original = Parameter(value, original.requires_grad) if learned else value
    elif leave_parametrized:
        original.data = value.data
    if isinstance(original, Parameter):
        setattr(module, tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module
