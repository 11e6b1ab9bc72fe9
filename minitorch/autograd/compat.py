"""``Variable``, the name that tensors with gradients had until PyTorch 0.4."""

from minitorch.autograd.tensorbase import TensorBase


class _AnyTensor(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TensorBase)


class Variable(metaclass=_AnyTensor):
    """``Variable(data, requires_grad)`` is a tensor with the same data; every tensor is one."""

    def __new__(cls, data, requires_grad=False):
        return data.detach().requires_grad_(requires_grad)
