"""Hooks and names of modules that no chapter uses; ``Module`` has them all."""

from minitorch.autograd.tensorbase import RemovableHandle
from minitorch.compat.types import bfloat16


class Hooks:
    """What ``Module`` adds to."""

    _load_hooks = {}

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """Call ``hook`` before a ``state_dict`` is loaded, with a copy of it that it may change.

        Its arguments are those of PyTorch: the module (if ``with_module``), the state_dict, this
        module's prefix in it, {}, whether loading is strict, and three lists, for missing and
        unexpected keys and for messages, of which the last is read: each is an error.
        """
        hooks = self.__dict__.setdefault("_load_hooks", {})
        return RemovableHandle(hooks, _WithModule(self, hook) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Call ``hook(module, state_dict, prefix, ...)`` before a ``state_dict`` is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _prepared(self, state_dict, strict, problems):
        """The ``state_dict`` after the hooks of this module and of all inside it."""
        for path, module in self.named_modules(remove_duplicate=False):
            for hook in tuple(module._load_hooks.values()):
                state_dict = type(state_dict)(state_dict)
                hook(state_dict, f"{path}." if path else "", {}, strict, [], [], problems)
        return state_dict

    def register_full_backward_hook(self, hook):
        """Call ``hook(module, grad_input, grad_output)`` when the inputs' gradients are known.

        Both are tuples; what it returns, as many gradients, takes the place of ``grad_input``.
        """
        return RemovableHandle(self._hooked_backward().after, hook)

    def register_full_backward_pre_hook(self, hook):
        """Call ``hook(module, grad_output)`` before the module's part of backward.

        What it returns, as many gradients, takes the place of ``grad_output``.
        """
        return RemovableHandle(self._hooked_backward().before, hook)

    def _hooked_backward(self):
        if "_led_past" not in self.__dict__:
            from minitorch.nn.compat.backward_hooks import BackwardHooks  # on top of this module

            self.__dict__["_led_past"] = hooks = BackwardHooks()
            self.register_forward_pre_hook(hooks.at_inputs)
            self.register_forward_hook(hooks.at_outputs)
        return self._led_past

    def bfloat16(self):
        """Parameters and floating-point buffers in float32, as which ``bfloat16`` is read."""
        return self.to(bfloat16)

    def compile(self, *args, **options):
        """Nothing: modules run in Python."""

    def share_memory(self):
        """The module itself: there is one process."""
        return self


class _WithModule:
    """A hook that gets its module first. Of a copy of the module, it gets the copy."""

    def __init__(self, module, hook):
        self.module, self.hook = module, hook

    def __call__(self, *args):
        return self.hook(self.module, *args)
