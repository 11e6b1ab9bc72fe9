"""Functions of each element: values and gradients on all kinds of inputs; type promotion."""

SHAPES = """
    torch.{f}(x(3, 4))
    x(3, 4).{f}()
    torch.{f}(x())
    torch.{f}(x(0, 3))
    torch.{f}(x.double(3, 4))
    torch.{f}(x(3, 4).t())
    torch.{f}(x(4, 6)[:, ::2])
    torch.{f}(x(3, 1).expand(3, 4))
    torch.{f}(x.ints(3, 4))
    torch.{f}(x.plain(3))
    """
EXTREMES = "[0.0, -0.0, 1.0, -1.0, 88.0, -88.0, 1e4, -1e4, 1e30, float('inf'), float('-inf')]"


def _unary(f, *more, extremes=EXTREMES):
    lines = [line.replace("{f}", f) for line in SHAPES.splitlines()]
    return "\n".join([*lines, f"torch.{f}(x.values({extremes}))", *more])


def _in_place(f):
    return f"y = x(3) * 1; y.{f}_(); y\na = x.plain(3); a.{f}_() is a"


POSITIVE = "[0.0, 1e-30, 1e-4, 1.0, 1e4, 1e30, float('inf')]"

UNARY = {
    "tanh": _unary("tanh", _in_place("tanh")),
    "sin": _unary("sin", extremes="[0.0, 1.0, 100.0, 1e4]"),
    "cos": _unary("cos", extremes="[0.0, 1.0, 100.0, 1e4]"),
    "exp": _unary("exp", _in_place("exp"), "torch.exp(x.truths(3))"),
    "sqrt": _unary("sqrt", extremes=POSITIVE),
    "abs": _unary("abs", "abs(x(3))", "x.values([-0.0, 0.0]).abs()", "(-x.ints(3)).abs()"),
    "sign": _unary("sign"),
    "floor": _unary(
        "floor", "torch.ceil(x(3))", "x(3).round()", "x.values([0.5, 1.5, -0.5]).round()"
    ),
    "log": _unary("log", "torch.log(x.positive(3))", "x.positive(3).log()", extremes=POSITIVE),
    "log1p": _unary("log1p", extremes=POSITIVE),
    "rsqrt": _unary("rsqrt", extremes=POSITIVE),
    "sigmoid": _unary("sigmoid", _in_place("sigmoid")),
    "relu": _unary("relu", _in_place("relu")),
    "erf": _unary("erf"),
    "neg": _unary("neg", "-x(3)", "-x.ints(3)", "!-x.truths(3)"),
    "isnan": """
        torch.isnan(x.values([0.0, float('nan'), float('inf')]))
        x(3).isnan()
        torch.isnan(x.ints(3))
        torch.isinf(x.values([0.0, float('nan'), float('-inf')]))
        torch.isfinite(x.values([0.0, float('nan'), float('inf')]))
        torch.isnan(x(2, 3)).any()
        """,
}

_OPERANDS = """
    x(3, 4) {o} x(3, 4)
    x(3, 4) {o} x(4)
    x(3, 1) {o} x(1, 4)
    x(2, 3, 4) {o} x(3, 1)
    x() {o} x(3)
    x(3) {o} x()
    x() {o} x()
    x(0, 4) {o} x(4)
    x(3, 4).t() {o} x(4, 3)
    x(3) {o} 2
    x(3) {o} 2.5
    2 {o} x.positive(3)
    2.5 {o} x.positive(3)
    x.ints(3) {o} 2
    x.ints(3) {o} 2.5
    x.ints(3, low=1) {o} x.ints(3, low=1)
    x.double(3) {o} x(3)
    x(3) {o} x.ints(3, low=1)
    a = x.positive(3); a {o} a
    a = x.positive(3); a {o} a.detach()
    x.values([float('inf'), float('nan'), 0.0, -2.0]) {o} x.values([2.0, 2.0, 2.0, 2.0])
    !x(3) {o} x(4)
    !x(3) {o} 'a'
    !x(3) {o} None
    !x(3) {o} [1, 2, 3]
    """


def _binary(operator, *more):
    return "\n".join([_OPERANDS.replace("{o}", operator), *more])


ARITHMETIC = {
    "+": _binary("+", "torch.add(x(3), x(3), alpha=2)", "x(3).add(x(3))", "True + x(3)"),
    "-": _binary("-", "torch.sub(x(3), x(3), alpha=2)", "!x.truths(3) - x.truths(3)", "1 - x(3)"),
    "*": _binary("*", "torch.mul(x(3), 2)", "x(3).mul(x(3))", "x.truths(3) * x(3)"),
    "/": _binary(
        "/",
        "x.ints(3) / x.ints(3, low=1)",
        "torch.div(x(3), x(3), rounding_mode='floor')",
        "torch.div(x(2, 3), x(3), rounding_mode='trunc')",
        "x(3).div(0.7, rounding_mode='trunc')",
        "x(3).div(torch.zeros(3), rounding_mode='trunc')",
        "torch.div(x.ints(3, low=-7), x.ints(3, low=1), rounding_mode='floor')",
        "a = x.plain(3); a.div_(0.3, rounding_mode='floor'); a",
        "!torch.div(x.ints(3), 0, rounding_mode='floor')",
        "!torch.div(x(3), 2, rounding_mode='up')",
        "torch.div(x.ints(3), 2, rounding_mode='trunc')",
        "x(3) / 0",
        "x.ints(3) / 0",
        "x.values([0.0, 1.0]) / x.values([0.0, 0.0])",
        "torch.div(x(3), 2)",
        "x(3).div(4)",
    ),
    "//": """
        x.plain(3) // 2
        x.ints(3, low=-7, high=7) // 2
        x.ints(3, low=-7, high=7) // x.ints(3, low=1)
        torch.floor_divide(x.plain(3), 0.7)
        -7 // x.ints(3, low=1)
        x.plain(3) // x.plain(3)
        !x.ints(3) // 0
        """,
    "%": """
        x(3) % 2
        x.ints(3, low=-7, high=7) % 3
        torch.remainder(x(3), 0.7)
        x.ints(3, low=-7, high=7) % -3
        7 % x.ints(3, low=1)
        !x.ints(3) % 0
        """,
    "pow": """
        x(3) ** 2
        x.positive(3) ** 0.5
        x(3) ** 0
        x(3) ** 1
        x(3) ** 3
        x(3) ** -1
        x.ints(3) ** 2
        2 ** x(3)
        2 ** x.ints(3)
        10000 ** (torch.arange(0, 6, 2) / 6)
        x.positive(3) ** x(3)
        torch.pow(x(3), 2)
        torch.pow(10000, x(3))
        torch.pow(torch.tensor(10000.0), torch.arange(0, 4, 2).float() / 4)
        x(3).pow(2).sum().sqrt()
        x(2, 3).pow(x(3))
        x.values([0.0, -0.0, 2.0]) ** 2
        x.values([0.0, 1.0]) ** 0
        x.values([0.0, 4.0]) ** 0.5
        x.values([0.0, 4.0]) ** x.values([0.0, 0.5])
        x.values([-2.0, -1.0]) ** 2.5
        x.double(3) ** 2
        torch.square(x(3))
        x(3).square()
        !x.ints(3) ** -1
        """,
    "maximum": """
        torch.maximum(x(3, 4), x(4))
        torch.minimum(x(3), x(3))
        torch.maximum(x.values([1.0, 2.0]), x.values([1.0, 3.0]))
        torch.minimum(x.values([1.0, float('nan')]), x.values([1.0, 3.0]))
        torch.max(x(3), x(3))
        torch.min(x(3, 4), x(4))
        torch.maximum(x.ints(3), x.ints(3))
        torch.max(x(3), torch.zeros(3))
        """,
    "clamp": """
        torch.clamp(x(3, 4), -1, 1)
        x(5).clamp(min=0)
        x(5).clamp(max=0.5)
        x.ints(5).clamp(1, 3)
        x.values([-1.0, 0.0, 1.0]).clamp(-1, 1)
        x.values([float('nan'), float('inf')]).clamp(0, 1)
        x(3).clamp(min=x(3))
        x(3).clip(-1, 1)
        x(5).clamp(1, -1)
        x.ints(5).clamp(0.5, 2.5)
        torch.clamp(x(5), min=1e-9)
        y = x(4) * 1; y.clamp_(-0.5, 0.5); y
        x.values([0.0, 1.0, 2.0, 3.0, 5.0]).clamp(x.values([1.0] * 5), x.values([3.0] * 5))
        x.values([0.0, 2.0, 5.0]).clamp(x.values([3.0] * 3), x.values([1.0] * 3))
        x.values([0.0, 1.0, 2.0]).clamp(x.values([1.0] * 3), x.values([1.0] * 3))
        x(2, 3).clamp(max=x(3))
        x(2, 3).clamp(x(3), x(2, 1))
        x.values([0.0, float('nan'), 2.0]).clamp(x.values([1.0, 1.0, float('nan')]))
        !x(3).clamp()
        """,
    "where": """
        torch.where(x.truths(3), x(3), x(3))
        torch.where(x.truths(3, 4), x(4), x(3, 1))
        torch.where(x.truths(3), x(3), 0.0)
        torch.where(x.truths(3), 1.0, x(3))
        torch.where(x.truths(3), 1, 0)
        torch.where(x.truths(3), x.ints(3), 0)
        torch.where(x.truths(3), x.ints(3), x(3))
        torch.where(x.truths(3), x(3), torch.tensor(float('-inf')))
        torch.where(x(3) > 0)
        x(3).where(x.truths(3), x(3))
        a = x(3); torch.where(a > 0, a, 0.1 * a)
        !torch.where(x(3), x(3), x(3))
        """,
    "masked_fill": """
        x(3, 4).masked_fill(x.truths(3, 4), -1e9)
        x(2, 3, 4).masked_fill(x.truths(3, 4), float('-inf'))
        x(3, 4).masked_fill(x.ints(3, 4, high=2) == 0, -1e9)
        x(2, 1, 4).masked_fill(x.truths(2, 1, 1), 0)
        torch.masked_fill(x(3), x.truths(3), 2)
        x.ints(3).masked_fill(x.truths(3), 7)
        x.truths(3).masked_fill(x.truths(3), True)
        x(3).masked_fill(x.truths(2, 3), 1.0)
        x(3).masked_fill(x.truths(3), torch.tensor(2.0))
        x(3).masked_fill(x.truths(3), x())
        x(3).masked_fill(~x.truths(3), 1)
        !x(3).masked_fill(x(3), 1)
        !x(3).masked_fill(x.truths(4), 1)
        """,
}

_COMPARED = """
    x(3, 4) {o} x(4)
    x(3) {o} 0
    x.ints(3) {o} 2
    x.ints(3) {o} 2.5
    x.ints(3) {o} x(3)
    x.truths(3) {o} x.truths(3)
    x.truths(3) {o} 1
    x() {o} x()
    x(0) {o} 1
    x.values([float('nan'), float('inf'), 0.0]) {o} x.values([float('nan'), float('inf'), -0.0])
    !x(3) {o} x(4)
    """


def _comparison(operator, function):
    more = f"torch.{function}(x.ints(3), x.ints(3))\nx.ints(3).{function}(2)"
    return _COMPARED.replace("{o}", operator) + more


COMPARISONS = {
    "==": _comparison("==", "eq") + "\nx(3) == None\nx(3) == 'a'",
    "ne": _comparison("!=", "ne") + "\nx(3) != None",
    "lt": _comparison("<", "lt") + _comparison("<=", "le") + "\n!x(3) < None",
    "gt": _comparison(">", "gt") + _comparison(">=", "ge"),
    "&": """
        x.truths(5) & x.truths(5)
        x.ints(5) & x.ints(5)
        x.truths(3, 4) & x.truths(4)
        (x(3) > 0) & (x(3) < 1)
        x.ints(4) & 1
        x.truths(5) | x.truths(5)
        x.ints(5) | 1
        x.truths(5) ^ x.truths(5)
        x.ints(5, dtype='uint8') & x.ints(5, dtype='uint8')
        torch.logical_and(x.truths(3), x.ints(3))
        torch.logical_or(x.truths(3), x.truths(3))
        x.truths(3).logical_and(x.truths(3))
        y = x.truths(3); y &= x.truths(3); y
        y = x.truths(3); y |= x.truths(3); y
        !x(3) & x(3)
        """,
    "~": """
        ~x.truths(3)
        ~x.ints(3)
        ~x.ints(3, dtype='uint8')
        torch.logical_not(x.ints(3))
        ~(x(3) > 0)
        !~x(3)
        """,
    "isclose": "torch.isclose(x(3), x(3))",
    "allclose": """
        a = x(3); torch.allclose(a, a + 1e-9)
        torch.allclose(x(3), x(3))
        a = x(3); torch.allclose(a, a + 0.1, atol=0.2)
        torch.allclose(x.values([float('nan')]), x.values([float('nan')]))
        torch.allclose(x.values([float('nan')]), x.values([float('nan')]), equal_nan=True)
        torch.allclose(x.values([float('inf')]), x.values([float('inf')]))
        a = x(3); torch.allclose(a, a.expand(2, 3))
        !torch.allclose(x(3), x.double(3))  ## types are promoted before they are compared
        """,
    "equal": """
        a = x(3); torch.equal(a, a.clone())
        torch.equal(x(3), x(4))
        torch.equal(x(0), x(0))
        x(3).equal(x(3))
        a = x.ints(3); torch.equal(a, a.clone())
        """,
}

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
OPERATORS = ["+", "-", "*", "/", "//", "**", "<"]


def _promotions():
    for a in DTYPES:
        for b in DTYPES:
            both_bool, integers = a == b == "bool", "float" not in a + b
            for o in OPERATORS:
                raises = (o == "-" and "bool" in (a, b)) or (o in ("//", "**") and both_bool)
                if raises or (o == "//" and integers and "bool" in (a, b)):
                    continue
                first, second = f"x.ints(2, low=1, high=2, dtype='{a}')", f"'{b}')"
                yield f"{first} {o} x.ints(2, low=1, high=2, dtype={second}"
                yield f"{first} {o} x.ints(low=1, high=2, dtype={second}"
            yield f"torch.cat([x.ints(2, dtype='{a}'), x.ints(1, dtype='{b}')])"
            yield f"torch.where(x.truths(2), x.ints(2, dtype='{a}'), x.ints(2, dtype='{b}'))"
        for number in ["2", "2.5", "True"]:
            for o in ["+", "*", "/", "**"]:
                if a == "bool" and o == "**":
                    continue
                yield f"x.ints(2, low=1, high=2, dtype='{a}') {o} {number}"
                yield f"x.ints(low=1, high=2, dtype='{a}') {o} {number}"
        for f in ["exp", "sum", "mean", "cumsum", "max", "prod"]:
            raises = f == "mean" and "float" not in a
            argument = "0" if f == "cumsum" else ""
            yield f"{'!' * raises}x.ints(3, low=1, high=3, dtype='{a}').{f}({argument})"


TABLE = {**UNARY, **ARITHMETIC, **COMPARISONS, "promotion": "\n".join(_promotions())}
