"""Finite differences, a step of Adam, and an engine."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise

# Finite differences


def _named(name, function):
    function.__name__ = name
    return function


_FUNCTIONS = [
    _named("x -> (x ** 3).sum()", lambda x: (x**3).sum()),
    _named("x -> x.exp().sum() ** 2", lambda x: x.exp().sum() ** 2),
    _named("x -> x.sin().prod()", lambda x: x.sin().prod()),
]


def _difference_cases(draw, hidden):
    for shape in [(2,), (2, 3)] + [(2, 1, 4)] * hidden:
        for function in _FUNCTIONS:
            yield function, draw.normal(*shape), 0.1
    yield _FUNCTIONS[0], draw.normal(3), 0.01


def _differences(function, x, step):
    """step(function, x, one), where ``one`` is 1 at one element, for each element of x."""
    found = mt.zeros_like(x).reshape(-1)
    for i in range(x.numel()):
        one = mt.zeros_like(found)
        one[i] = 1
        found[i] = step(function, x, one.reshape(x.shape)).item()
    return found.reshape(x.shape)


@exercise(
    cases=_difference_cases,
    gradients=False,
    forbidden=("backward",),
    instead="two calls of the function for each element",
    see='chapter 00, "One sentence, one loss"',
)
def numerical_gradient(function, x, eps):
    """A function of a tensor, the tensor, the step -> a tensor of the shape of x."""
    moved = x.clone().reshape(-1)
    slopes = []
    for i in range(len(moved)):
        kept = moved[i].item()
        moved[i] = kept + eps
        above = function(moved.reshape(x.shape)).item()
        moved[i] = kept - eps
        below = function(moved.reshape(x.shape)).item()
        moved[i] = kept
        slopes.append((above - below) / (2 * eps))
    return mt.tensor(slopes, dtype=x.dtype).reshape(x.shape)


@numerical_gradient.wrong(
    "the one-sided difference",
    "Step to both sides, x + eps and x - eps: the error then falls with eps squared.",
)
def _(function, x, eps):
    return _differences(function, x, lambda f, x, one: (f(x + eps * one) - f(x)) / eps)


@numerical_gradient.wrong(
    "twice the gradient", "From x - eps to x + eps is a distance of 2 eps: divide by that."
)
def _(function, x, eps):
    return 2 * numerical_gradient.reference(function, x, eps)


@numerical_gradient.wrong(
    "the gradient with the opposite sign",
    "Take the value at x + eps minus the value at x - eps.",
)
def _(function, x, eps):
    return -numerical_gradient.reference(function, x, eps)


@numerical_gradient.wrong(
    "one slope for all elements moved together",
    "Move one element at a time and leave the others where they are.",
)
def _(function, x, eps):
    slope = (function(x + eps) - function(x - eps)) / (2 * eps)
    return mt.ones_like(x) * slope


@numerical_gradient.wrong(
    "right for the first element only: you do not put a moved element back",
    "Before you go on to the next element, give this one its old value.",
)
def _(function, x, eps):
    moved, found = x.clone().reshape(-1), mt.zeros_like(x).reshape(-1)
    for i in range(len(moved)):
        moved[i] += eps
        above = function(moved.reshape(x.shape)).item()
        moved[i] -= 2 * eps
        found[i] = (above - function(moved.reshape(x.shape)).item()) / (2 * eps)
    return found.reshape(x.shape)


# Adam


def _adam_cases(draw, hidden):
    for shape, t, scale in [((2,), 1, 1), ((3,), 2, 1), ((2, 3), 7, 1e-3)] + [
        ((4, 1), 90, 1)
    ] * hidden:
        m = mt.zeros(*shape, dtype=mt.float64) if t == 1 else scale * draw.normal(*shape)
        v = mt.zeros(*shape, dtype=mt.float64) if t == 1 else scale**2 * draw.normal(*shape) ** 2
        yield draw.normal(*shape), scale * draw.normal(*shape), m, v, t, 0.1, 0.9, 0.99, 1e-6


def _moments(g, m, v, beta1, beta2):
    return beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g


@exercise(cases=_adam_cases, gradients=False, see='chapter 00, "Training"')
def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    """The parameters and both running means after step t."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    corrected_m, corrected_v = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - lr * corrected_m / (corrected_v.sqrt() + eps), m, v


@adam_step.wrong(
    "Adam without the correction of m and v",
    "Both start at 0 and are too small in the first steps: divide by 1 - beta ** t.",
)
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    m, v = _moments(g, m, v, beta1, beta2)
    return w - lr * m / (v.sqrt() + eps), m, v


@adam_step.wrong(
    "Adam that returns the corrected m and v",
    "The correction is for this step only; the running means go on without it.",
)
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    m, v = _moments(g, m, v, beta1, beta2)
    m, v = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - lr * m / (v.sqrt() + eps), m, v


@adam_step.wrong(
    "Adam with eps under the root",
    "eps is added to the root, not to what is under it.",
)
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    m, v = _moments(g, m, v, beta1, beta2)
    return w - lr * (m / (1 - beta1**t)) / (v / (1 - beta2**t) + eps).sqrt(), m, v


@adam_step.wrong("Adam without the root of v", "v holds squares: divide by its square root.")
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    m, v = _moments(g, m, v, beta1, beta2)
    return w - lr * (m / (1 - beta1**t)) / (v / (1 - beta2**t) + eps), m, v


@adam_step.wrong("a step up the slope", "A step goes against the gradient: w minus.")
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    stepped, m, v = adam_step.reference(w, g, m, v, t, lr, beta1, beta2, eps)
    return 2 * w - stepped, m, v


@adam_step.wrong("Adam with its two betas exchanged", "beta1 belongs to m, beta2 to v.")
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    return adam_step.reference(w, g, m, v, t, lr, beta2, beta1, eps)


@adam_step.wrong(
    "Adam whose v is a running mean of the gradient, not of its square",
    "Square g in the update of v.",
)
def _(w, g, m, v, t, lr, beta1, beta2, eps):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g
    return w - lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + eps), m, v


# An engine


def _fed_back(a, b):
    for _ in range(5):
        a = a * a / b + a
    return a


def _long(a, b):
    x = a
    for _ in range(3000):
        x = x / b + a
    return x


_PROGRAMS = [
    _named("a + b", lambda a, b: a + b),
    _named("a * b", lambda a, b: a * b),
    _named("a - b", lambda a, b: a - b),
    _named("a / b", lambda a, b: a / b),
    _named("a.exp() * b", lambda a, b: a.exp() * b),
    _named("a * b + a", lambda a, b: a * b + a),
    _named("a * a", lambda a, b: a * a),
    _named("c = a * b; d = c + a; c.exp() * d / (c - b)", lambda a, b: _shared(a * b, a, b)),
    _named("a = a * a / b + a, 5 times", _fed_back),
    _named("x = a; x = x / b + a, 3000 times", _long),
]


def _shared(c, a, b):
    d = c + a
    return c.exp() * d / (c - b)


def _program_cases(draw, hidden):
    for program in _PROGRAMS:
        a, b = draw.random.uniform([0.5, 1.5], [1, 2]).round(2).tolist()
        yield program, (-a if hidden else a), b


def _run_program(value_class, program, a, b):
    a, b = value_class(a), value_class(b)
    result = program(a, b)
    result.backward()
    return {
        "the value of the program": result.data,
        "the gradient with respect to a": a.grad,
        "the gradient with respect to b": b.grad,
    }


class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, parents=(), slopes=()):
        self.data = data
        self.grad = 0.0
        self.parents = parents
        self.slopes = slopes  # d self / d parent, one a parent

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other):
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other):
        quotient = self.data / other.data
        return Value(quotient, (self, other), (1 / other.data, -quotient / other.data))

    def exp(self):
        power = math.exp(self.data)
        return Value(power, (self,), (power,))

    def backward(self):
        order, done, stack = [], set(), [self]  # order: parents before children
        while stack:
            node = stack[-1]
            missing = [parent for parent in node.parents if parent not in done]
            if missing:
                stack.extend(missing)
            elif stack.pop() not in done:
                done.add(node)
                order.append(node)
        self.grad = 1.0
        for node in reversed(order):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad += node.grad * slope


engine = exercise(
    cases=_program_cases,
    run=_run_program,
    gradients=False,
    see='chapter 00, "An engine for numbers"',
)(Value)


def _of_its_own_class(method):
    """The method, with a result of the class of the value that it is called on."""

    def call(self, *others):
        result = method(self, *others)
        return type(self)(result.data, result.parents, result.slopes)

    return call


class ValueInPieces(Value):
    """The same; all values of a program are of the mistake's class, and their order is a method."""

    __add__ = _of_its_own_class(Value.__add__)
    __sub__ = _of_its_own_class(Value.__sub__)
    __mul__ = _of_its_own_class(Value.__mul__)
    __truediv__ = _of_its_own_class(Value.__truediv__)
    exp = _of_its_own_class(Value.exp)

    def order(self):
        """This value and all before it, parents before children."""
        order, done, stack = [], set(), [self]
        while stack:
            node = stack[-1]
            missing = [parent for parent in node.parents if parent not in done]
            stack.extend(missing)
            if not missing and stack.pop() not in done:
                done.add(node)
                order.append(node)
        return order

    def backward(self):
        self.grad = 1.0
        for node in reversed(self.order()):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad += node.grad * slope


@engine.wrong(
    "an engine that overwrites gradients",
    "A value that is used twice gets a share along each path. Add them: += in place of =.",
)
class _(ValueInPieces):
    def backward(self):
        self.grad = 1.0
        for node in reversed(self.order()):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad = node.grad * slope


@engine.wrong(
    "an engine that hands gradients on before all of them have arrived",
    "A value may pass its gradient on only when everything that used it has done so: walk a "
    "topological order from the end.",
)
class _(ValueInPieces):
    def backward(self):
        self.grad, done, queue = 1.0, set(), [self]
        while queue:
            node = queue.pop(0)
            if node in done:
                continue
            done.add(node)
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad += node.grad * slope
                queue.append(parent)


@engine.wrong(
    "an engine whose last value starts with gradient 0",
    "The derivative of the result with respect to itself is 1: start with that.",
)
class _(ValueInPieces):
    def backward(self):
        super().backward()
        for node in self.order():
            node.grad = 0.0


@engine.wrong(
    "right but for the product, whose slopes are exchanged",
    "The slope of a * b with respect to a is b.",
)
class _(ValueInPieces):
    def __mul__(self, other):
        return type(self)(self.data * other.data, (self, other), (self.data, other.data))


@engine.wrong(
    "right but for the difference, which has slope 1 on both sides",
    "The slope of a - b with respect to b is -1.",
)
class _(ValueInPieces):
    def __sub__(self, other):
        return type(self)(self.data - other.data, (self, other), (1.0, 1.0))


@engine.wrong(
    "right but for the quotient, whose slope toward the denominator has the wrong sign",
    "The slope of a / b with respect to b is -a / b ** 2.",
)
class _(ValueInPieces):
    def __truediv__(self, other):
        slopes = (1 / other.data, self.data / other.data**2)
        return type(self)(self.data / other.data, (self, other), slopes)


@engine.wrong(
    "right but for exp, whose slope is not its argument",
    "The slope of exp(a) is exp(a): the result.",
)
class _(ValueInPieces):
    def exp(self):
        return type(self)(math.exp(self.data), (self,), (self.data,))
