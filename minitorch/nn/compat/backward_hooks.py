"""Hooks that see the gradients at a module's inputs and outputs; ``Module`` registers them."""

import warnings

from minitorch.autograd import is_grad_enabled
from minitorch.autograd.compat_function import Function
from minitorch.tensor import Tensor


class _Passed(Function):
    """The tensors again; on the way back their gradients pass through the function ``change``."""

    @staticmethod
    def forward(ctx, change, zeros_for_none, *tensors):
        ctx.change = change
        ctx.set_materialize_grads(zeros_for_none)
        ctx.mark_non_differentiable(*[x for x in tensors if not x.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.change(grads)


def _passed(values, change, zeros_for_none):
    """A tuple in which gradients of tensors pass through ``change``; None if there are none.

    ``change`` gets a gradient a value, None for what is no tensor, and returns as many.
    """
    among = [isinstance(x, Tensor) for x in values]
    tensors = [x for x in values if isinstance(x, Tensor)]
    if not is_grad_enabled() or not any(x.requires_grad for x in tensors):
        return None

    def of_tensors(grads):
        grads = iter(grads)
        changed = change(tuple(next(grads) if there else None for there in among))
        return [grad for grad, there in zip(changed, among, strict=True) if there]

    passed = iter(_Passed.apply(of_tensors, zeros_for_none, *tensors))
    pairs = zip(values, among, strict=True)
    return tuple(next(passed) if there else value for value, there in pairs)


def _after(hook, grads, *arguments):
    """The gradients, or those that the hook returned in their place."""
    changed = hook(*arguments)
    if changed is None:
        return grads
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(grads):
        raise RuntimeError(
            f"a backward hook returns None or {len(grads)} gradients; got {len(changed)}"
        )
    return changed


class _Call:
    """One call of a module with hooks."""

    def __init__(self, module, hooks, count):
        self.module, self.hooks, self.count = module, hooks, count
        self.grad_output, self.reaches_inputs = None, False

    def from_outputs(self, grads):
        for hook in list(self.hooks.before.values()):
            grads = _after(hook, grads, self.module, grads)
        self.grad_output = grads
        if not self.reaches_inputs:
            nothing = self.toward_inputs((None,) * self.count)
            if any(grad is not None for grad in nothing):
                raise RuntimeError(
                    "no input of the module requires a gradient: its backward hooks return None"
                )
        return grads

    def toward_inputs(self, grads):
        if self.grad_output is not None:
            for hook in list(self.hooks.after.values()):
                grads = _after(hook, grads, self.module, grads, self.grad_output)
        return grads


class BackwardHooks:
    """Two forward hooks of a module that lead the gradients of each call past its backward hooks.

    ``before`` holds those for the gradients of the outputs, ``after`` those for the inputs'.
    """

    def __init__(self):
        self.before, self.after, self.calls = {}, {}, []

    def at_inputs(self, module, inputs):
        """The forward pre-hook."""
        call = _Call(module, self, len(inputs))
        self.calls.append(call)
        passed = _passed(inputs, call.toward_inputs, True) if self.after else None
        call.reaches_inputs = passed is not None
        return passed

    def at_outputs(self, module, inputs, output):
        """The forward hook."""
        call = self.calls.pop()
        if not self.before and not self.after:
            return None
        if not isinstance(output, (Tensor, tuple)):
            warnings.warn(
                "backward hooks are called for an output that is a tensor or a tuple; "
                f"this one is a {type(output).__name__}",
                stacklevel=4,
            )
            return None
        alone = isinstance(output, Tensor)
        passed = _passed((output,) if alone else output, call.from_outputs, False)
        return passed[0] if alone and passed else passed
