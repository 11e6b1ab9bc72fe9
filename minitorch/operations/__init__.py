"""The operations: each a function on arrays beside its gradient.

Read ``minitorch/autograd/dispatch.py`` first: it says how an operation is written. The files, from
simple to composed: elementwise, logic, shapes, products, reductions, indexing, einsum, then what
networks fuse: neural, attention, recurrent. What a file offers as ``minitorch.name`` is its
``__all__``. Names are PyTorch's, so that ``sum``, ``max``, ``abs`` and ``round`` hide Python's
where a file defines them: there those are ``builtins.max`` and so on.
"""
