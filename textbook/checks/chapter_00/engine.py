"""An engine whose gradients can be differentiated again."""

from textbook.checks.compare import difference, number
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


def _fed_back(a, b):
    for _ in range(5):
        a = a * a / b + a
    return a


def _long(a, b):
    x = a
    for _ in range(3000):
        x = x - b
    return x


def _many_paths(a, b):
    x = a
    for _ in range(40):
        x = x * b + x
    return x


def _shared(a, b):
    c = a * b
    d = c + a
    return c.exp() * d / (c - b)


def _used_twice(a, b):
    c = a * b
    d = c + a
    return d * c * c


def _newton(a, b):
    f = a * a * a - b
    [slope] = f.gradients([a])
    return a - f / slope


_PROGRAMS = {  # each with the order of the derivatives that are asked for
    "a + b": (lambda a, b: a + b, 2),
    "a * b": (lambda a, b: a * b, 2),
    "a * b, of two equal numbers": (lambda a, b: a * b, 2),
    "a - b": (lambda a, b: a - b, 2),
    "a * a": (lambda a, b: a * a, 3),
    "a / b": (lambda a, b: a / b, 3),
    "a.exp() * b": (lambda a, b: a.exp() * b, 3),
    "c = a * b; d = c + a; d * c * c": (_used_twice, 1),
    "a * b + a": (lambda a, b: a * b + a, 2),
    "a": (lambda a, b: a, 1),
    "(a - a * b).exp()": (lambda a, b: (a - a * b).exp(), 3),
    "c = a * b; d = c + a; c.exp() * d / (c - b)": (_shared, 2),
    "f = a * a * a - b; a - f / f.gradients([a])[0]": (_newton, 2),
    "a = a * a / b + a, 5 times": (_fed_back, 2),
    "x = a; x = x - b, 3000 times": (_long, 0),
    "x = a; x = x * b + x, 40 times": (_many_paths, 1),
}


def _program_cases(draw, seed=0, sign=1):
    """Each program once, whatever is drawn."""
    random = Draw(seed).random
    for program, (function, _) in _PROGRAMS.items():
        a, b = random.uniform([0.5, 1.1], [1.5, 2]).round(2).tolist()
        if function is _many_paths:
            b = b / 5
        if "equal" in program:
            b = sign * a
        yield program, sign * a, b


class _Number(float):
    """A number that counts the operations on numbers, and stops them when they are too many."""

    def __new__(cls, value, left):
        number = super().__new__(cls, value)
        number.left = left  # how many operations are left, a list of one number
        return number


def _counted(name):
    operation = getattr(float, name)

    def counted(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        self.left[0] -= 1
        if self.left[0] < 0:
            raise RuntimeError("too many steps: there are far too many paths to walk each of them")
        return _Number(operation(self, other), self.left)

    return counted


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"):
    setattr(_Number, f"__{_name}__", _counted(f"__{_name}__"))


FIRST = "the list of gradients with respect to a and b"
SECOND = "the list of second derivatives: aa, ab, ba, bb"


def _asked(result, values):
    """What ``gradients`` returns, in words, and the values if it is a list of values."""
    try:
        found = result.gradients(values)
    except KeyError:
        return "KeyError: a value that the result does not depend on is not found", None
    if not isinstance(found, (list, tuple)):
        return f"no list: {type(found).__name__}", None
    for each in found:
        if not hasattr(each, "gradients"):
            kind = "plain number" if number(each) is not None else type(each).__name__
            return f"a list with a {kind} in it", None
    return f"a list of {len(found)} values", found


def _run_program(value_class, program, a, b):
    function, order = _PROGRAMS[program]
    left = [100_000 if function is _long else 10_000]
    a, b, unused = value_class(_Number(a, left)), value_class(_Number(b, left)), value_class(2.0)
    try:
        result = function(a, b)
    except RecursionError:
        return {"the value of the program": "none: the operation calls itself without end"}
    form, first = _asked(result, [a, b])
    found = {
        "the value of the program": float(result.data),
        "what gradients([a, b]) returns": form,
        FIRST: first and [float(each.data) for each in first],
    }
    if first is None or len(first) != 2 or not order:
        return found
    others, again = _asked(result, [result, unused, b])
    found["what gradients returns for a value that was not used"] = others
    if again is None or len(again) != 3:
        return found
    found["the gradient with respect to the result itself"] = float(again[0].data)
    found["the gradient with respect to a value that was not used"] = float(again[1].data)
    found["the gradient with respect to b, asked for again"] = float(again[2].data)
    if order > 1:
        second = [each for one in first for each in one.gradients([a, b])]
        found[SECOND] = [each.data for each in second]
    if order > 2:
        [third] = second[0].gradients([a])
        found["the third derivative with respect to a"] = third.data
    return found


_SLOPES = {
    "a + b": ("1", "1"),
    "a - b": ("1", "-1"),
    "a * b": ("b", "a"),
    "a * b, of two equal numbers": ("b", "a"),
    "a / b": ("1 / b", "-a / b ** 2"),
    "a.exp() * b": ("exp(a) * b", "exp(a)"),
}


def _first_slip(check, value_class, program, a, b):
    """What is wrong, from the value of a program to its second derivatives."""
    if _PROGRAMS[program][0] in (_long, _many_paths):
        return None
    got, right = (_run_program(each, program, a, b) for each in (value_class, engine.reference))

    def differs(label):
        return label in right and difference(got.get(label), right[label], "[]")

    if "calls itself" in str(got["the value of the program"]):
        return (
            "A slope is made of values, and so of operations, which have slopes themselves. Made "
            "with the operation, there is no end to it: make it when it is asked for."
        )
    if differs("the value of the program"):
        return "The value itself is wrong."
    if differs("what gradients([a, b]) returns"):
        return "gradients returns a list with a value, not a number, for each value it was given."
    if differs(FIRST):
        other = a, b + 0.25
        apart = [
            _run_program(each, "a * b", *other)[FIRST] for each in (value_class, engine.reference)
        ]
        if "equal" in program and not difference(*apart, "[]"):
            return "a and b are two values, though of one number: tell them apart by id()."
        if program == "a * a" and difference(got[FIRST][0], right[FIRST][0], "[]"):
            return "A value that is used twice gets a share each time: add them, + in place of =."
        for name, slope, one, other in zip(
            "ab", _SLOPES.get(program, ()), got[FIRST], right[FIRST], strict=False
        ):
            if difference(one, other, "[]"):
                return f"The derivative of {program} with respect to {name} is {slope}."
        return (
            "A value is used several times here: its shares add up, and it may pass its gradient "
            "on only when all of them have come."
        )
    if differs("what gradients returns for a value that was not used"):
        return "Where the result does not depend on a value, its gradient is a value with data 0."
    if differs("the gradient with respect to the result itself"):
        return "The derivative of a value with respect to itself is 1."
    if differs("the gradient with respect to b, asked for again"):
        return "Each call starts from nothing: what an earlier call has found must not be added."
    if differs(SECOND) and not any(got[SECOND]):
        return (
            "The gradients are right as numbers, but have forgotten what they were computed from: "
            "their own gradients are 0. Slopes and shares have to be values, not data."
        )
    if differs(SECOND):
        return (
            "The gradients are right as numbers; their own gradients are not. Is each slope made "
            "of the values themselves, or of their data? And in the graph of a gradient, does a "
            "value pass on only when all its shares have come?"
        )
    return None


engine = exercise(
    "Value",
    cases=_program_cases,
    run=_run_program,
    gradients=False,
    reasons=(_first_slip,),
    see='chapter 00, "An engine for numbers"',
)
