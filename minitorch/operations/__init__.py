"""The operations: each a function on arrays beside its gradient.

Read ``minitorch/autograd/dispatch.py`` first: it says how an operation is written. The files, from
simple to composed: elementwise, reductions, shapes, indexing, products, neural, recurrent.
"""
