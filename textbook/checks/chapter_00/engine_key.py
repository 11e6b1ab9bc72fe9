"""Answers to the exercises of ``engine.py``."""

import math

from textbook.checks.chapter_00.engine import _program_cases, engine


class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, parents=(), slopes=()):
        self.data = data
        self.parents = parents
        self.slopes = slopes  # functions, one a parent, that make the value d self / d parent

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (lambda: Value(1.0),) * 2)

    def __sub__(self, other):
        slopes = lambda: Value(1.0), lambda: Value(-1.0)
        return Value(self.data - other.data, (self, other), slopes)

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), (lambda: other, lambda: self))

    def __truediv__(self, other):
        slopes = lambda: Value(1.0) / other, lambda: Value(-1.0) * quotient / other
        quotient = Value(self.data / other.data, (self, other), slopes)
        return quotient

    def exp(self):
        power = Value(math.exp(self.data), (self,), (lambda: power,))
        return power

    def gradients(self, values):
        order, done, stack = [], set(), [self]  # order: parents before children
        while stack:
            node = stack[-1]
            missing = [parent for parent in node.parents if parent not in done]
            if missing:
                stack.extend(missing)
            elif stack.pop() not in done:
                done.add(node)
                order.append(node)
        found = {self: Value(1.0)}
        for node in reversed(order):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                share = found[node] * slope()
                found[parent] = found[parent] + share if parent in found else share
        return [found.get(value, Value(0.0)) for value in values]


engine.answer(
    hidden_cases=lambda draw: _program_cases(draw, seed=1, sign=-1),
    after_passing=(
        "PyTorch keeps gradients as values when it is asked to: autograd.grad(y, x, "
        "create_graph=True)."
    ),
)(Value)


# Right in another way


class ValueWithClosures:
    """Each operation keeps a function from its gradient to the shares of its inputs."""

    def __init__(self, data, inputs=(), shares=None):
        self.data, self.inputs, self.shares = data, inputs, shares

    def __add__(self, other):
        return ValueWithClosures(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        shares = lambda g: (g * other, g * self)  # noqa: E731
        return ValueWithClosures(self.data * other.data, (self, other), shares)

    def __sub__(self, other):
        return self + other * ValueWithClosures(-1)

    def __truediv__(self, other):
        inverse = ValueWithClosures(1 / other.data, (other,))
        inverse.shares = lambda g: (g * inverse * inverse * ValueWithClosures(-1),)
        return self * inverse

    def exp(self):
        out = ValueWithClosures(math.exp(self.data), (self,))
        out.shares = lambda g: (g * out,)
        return out

    def gradients(self, values):
        uses, stack = {self: 0}, [self]
        while stack:
            for node in stack.pop().inputs:
                if node not in uses:
                    uses[node] = 0
                    stack.append(node)
                uses[node] += 1
        found, ready = {self: ValueWithClosures(1)}, [self]
        while ready:
            node = ready.pop()
            if not node.inputs:
                continue
            for parent, share in zip(node.inputs, node.shares(found[node]), strict=True):
                found[parent] = found[parent] + share if parent in found else share
                uses[parent] -= 1
                if not uses[parent]:
                    ready.append(parent)
        return [found[v] if v in found else ValueWithClosures(0) for v in values]


class ValueWithClock:
    """Numbers the values as they are made; a later one never feeds an earlier one."""

    made = 0

    def __init__(self, data, *slopes):
        self.data, self.slopes = data, slopes
        ValueWithClock.made += 1
        self.number = ValueWithClock.made

    def __add__(self, other):
        return ValueWithClock(self.data + other.data, (self, ONE), (other, ONE))

    def __sub__(self, other):
        return ValueWithClock(self.data - other.data, (self, ONE), (other, MINUS_ONE))

    def __mul__(self, other):
        return ValueWithClock(self.data * other.data, (self, other), (other, self))

    def __truediv__(self, other):
        result = ValueWithClock(self.data / other.data)
        result.slopes = (self, lambda: ONE / other), (other, lambda: MINUS_ONE * result / other)
        return result

    def exp(self):
        result = ValueWithClock(math.exp(self.data))
        result.slopes = ((self, result),)
        return result

    def gradients(self, values):
        found, stack = {self}, [self]
        while stack:
            for parent, _ in stack.pop().slopes:
                if parent not in found:
                    found.add(parent)
                    stack.append(parent)
        grads = {self: ONE}
        for node in sorted(found, key=lambda node: -node.number):
            for parent, slope in node.slopes:
                share = grads[node] * (slope() if callable(slope) else slope)
                grads[parent] = grads[parent] + share if parent in grads else share
        return tuple(grads.get(value, ValueWithClock(0.0)) for value in values)


ONE, MINUS_ONE = ValueWithClock(1.0), ValueWithClock(-1.0)


right = {
    "Value": [ValueWithClosures, ValueWithClock],
}
