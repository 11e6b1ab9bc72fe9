"""Hooks of optimizers that no chapter uses; ``Optimizer`` has them all."""

import functools

from minitorch.autograd.tensorbase import RemovableHandle


def _step(optimizer, *args, **kwargs):
    """``step`` of the optimizer's class, between the hooks."""
    before, after = optimizer._hooks_of_step
    args = (optimizer, *args)
    for hook in list(before.values()):
        changed = hook(optimizer, args, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    "a hook before step returns None or a pair (args, kwargs), where args begins "
                    f"with the optimizer; got {changed!r}"
                )
            args, kwargs = changed
    result = type(optimizer).step(*args, **kwargs)
    for hook in list(after.values()):
        hook(optimizer, args, kwargs)
    return result


class StepHooks:
    """What ``Optimizer`` adds to."""

    def register_step_pre_hook(self, hook):
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return other ones.

        ``args`` begins with the optimizer. Returns a handle whose ``remove()`` ends that.
        """
        return RemovableHandle(self._hooked()[0], hook)

    def register_step_post_hook(self, hook):
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return RemovableHandle(self._hooked()[1], hook)

    def _hooked(self):
        if "_hooks_of_step" not in self.__dict__:
            self._hooks_of_step = {}, {}
            self.step = functools.partial(_step, self)
        return self._hooks_of_step
