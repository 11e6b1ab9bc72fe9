"""How parts are joined, what a stack of attention amounts to, and how it is warmed up."""

import minitorch as mt
from textbook.checks.exercise import exercise

# Warm-up


def _warm_up_cases(draw, hidden):
    yield from [(1, 16, 4), (3, 16, 5), (4, 16, 4), (9, 4, 4), (100, 64, 25)]
    if hidden:
        yield from [(1, 1, 1), (2, 512, 4000), (4001, 512, 4000), (100_000, 768, 10_000)]


@exercise(
    cases=_warm_up_cases,
    gradients=False,
    see='chapter 09, "Learning rate and warm-up (C22)"',
)
def warm_up(step, width, steps):
    """The learning rate at a step, counted from 1."""
    return width**-0.5 * min(step**-0.5, step * steps**-1.5)


warm_up.wrong(
    "right but for the minimum, which is a maximum",
    "At step 1 the second term is the smaller one: it rises until both meet at step w.",
)(lambda step, width, steps: width**-0.5 * max(step**-0.5, step * steps**-1.5))
warm_up.wrong(
    "right but for the width, which is left out",
    "Multiply by width to the power of -1/2.",
)(lambda step, width, steps: min(step**-0.5, step * steps**-1.5))
warm_up.wrong(
    "right but for the power of the width, which is positive",
    "A wider model gets a smaller rate: width to the power of -1/2.",
)(lambda step, width, steps: width**0.5 * min(step**-0.5, step * steps**-1.5))
warm_up.wrong(
    "right but for the power of the width, which is -1",
    "Width to the power of -1/2.",
)(lambda step, width, steps: min(step**-0.5, step * steps**-1.5) / width)
warm_up.wrong(
    "right but for the rise, whose power of w is -1/2",
    "The line must meet the fall at step w: w times w to the power of -3/2 is w to the power of "
    "-1/2.",
)(lambda step, width, steps: width**-0.5 * min(step**-0.5, step * steps**-0.5))
warm_up.wrong(
    "right but for the rise, whose power of w is -1",
    "The line must meet the fall at step w: w times w to the power of -3/2 is w to the power of "
    "-1/2.",
)(lambda step, width, steps: width**-0.5 * min(step**-0.5, step / steps))
warm_up.wrong(
    "right but for the rise, which lacks the step",
    "The second term is t times w to the power of -3/2: a line through 0.",
)(lambda step, width, steps: width**-0.5 * min(step**-0.5, steps**-1.5))
warm_up.wrong(
    "right but for the fall, which goes with 1/t",
    "It falls with the root: t to the power of -1/2.",
)(lambda step, width, steps: width**-0.5 * min(1 / step, step * steps**-1.5))
warm_up.wrong(
    "right but for the count of steps: it adds 1",
    "The first step is 1 already.",
)(lambda step, width, steps: width**-0.5 * min((step + 1) ** -0.5, (step + 1) * steps**-1.5))
warm_up.wrong(
    "right but for the count of steps: it subtracts 1 in the rise",
    "The first step is 1, and has a rate above 0.",
)(lambda step, width, steps: width**-0.5 * min(step**-0.5, (step - 1) * steps**-1.5))
warm_up.wrong(
    "right up to step w, then constant",
    "After the warm-up the rate falls with the root of t.",
)(lambda step, width, steps: width**-0.5 * steps**-0.5 * min(1, step / steps))
warm_up.wrong(
    "right up to step w, but it goes on rising",
    "The smaller of two terms: from step w on, t to the power of -1/2.",
)(lambda step, width, steps: width**-0.5 * step * steps**-1.5)
warm_up.wrong(
    "a fall from the first step on, without warm-up",
    "Up to step w the smaller term is t times w to the power of -3/2 (and not of 3/2).",
)(lambda step, width, steps: width**-0.5 * step**-0.5)
warm_up.wrong(
    "a rise to 1 and then a fall: the height is not that of the paper",
    "The peak, at step w, is 1 / sqrt(width times w).",
)(lambda step, width, steps: min(step / steps, (steps / step) ** 0.5))
warm_up.wrong(
    "right but for width and steps, which are exchanged",
    "The root of the width stands in front, w belongs to the rise.",
)(lambda step, width, steps: steps**-0.5 * min(step**-0.5, step * width**-1.5))


# The residual connection and the norm


def normal(x):
    """A layer norm with gain and bias, so that norming twice differs from norming once."""
    center = x - x.mean(dim=-1, keepdim=True)
    deviation = ((center**2).mean(dim=-1, keepdim=True) + 0.1) ** 0.5
    return center / deviation * (mt.arange(x.shape[-1]) + 2.0) - 0.5


def turn(x):
    """A part that looks at each token by itself."""
    return (x.flip(-1) + 0.3).tanh()


def square(x):
    """A part that looks at all tokens."""
    return x**2 - x.mean(dim=-2, keepdim=True)


def _join_cases(draw, hidden):
    shapes = [(2, 2, 3), (5, 4)] if hidden else [(2, 3), (2, 2, 4)]
    for shape, part in zip(shapes, (turn, square), strict=True):
        x = draw.normal(*shape)
        yield x, part, normal, True
        yield x, part, normal, False


def _before(x, part, norm):
    return x + part(norm(x))


def _after(x, part, norm):
    return norm(x + part(x))


def _join(before=_before, after=_after):
    """Pre-norm and post-norm with one of them exchanged."""
    return lambda x, part, norm, pre: (before if pre else after)(x, part, norm)


def _carries_x(answer, x, part, norm, pre):
    """A part that gives zeros leaves what the connection carries."""
    if not mt.allclose(answer(x, mt.zeros_like, norm, pre), x if pre else norm(x)):
        kept = "x itself" if pre else "norm(x)"
        order = "pre-norm" if pre else "post-norm"
        return f"With a part that gives zeros only, {order} must give {kept}."
    return None


@exercise(
    cases=_join_cases,
    properties=(_carries_x,),
    see='chapter 09, "Before or after"',
)
def add_and_norm(x, part, norm, pre):
    """x (..., n, d) and two functions give (..., n, d)."""
    if pre:
        return x + part(norm(x))
    return norm(x + part(x))


add_and_norm.wrong(
    "right but for pre, which is the wrong way round",
    "pre is True for pre-norm, x + part(norm(x)).",
)(_join(_after, _before))
add_and_norm.wrong(
    "post-norm in any case",
    "Where pre is True, the norm comes before the part: x + part(norm(x)).",
)(_join(before=_after))
add_and_norm.wrong(
    "pre-norm in any case",
    "Where pre is False, the norm comes after the sum: norm(x + part(x)).",
)(_join(after=_before))
add_and_norm.wrong(
    "right but for the residual connection, which is missing",
    "Add x to what the part gives.",
)(_join(lambda x, part, norm: part(norm(x)), lambda x, part, norm: norm(part(x))))
add_and_norm.wrong(
    "right but for the residual connection of pre-norm, which is missing",
    "Add x to what the part gives.",
)(_join(before=lambda x, part, norm: part(norm(x))))
add_and_norm.wrong(
    "right but for the residual connection of post-norm, which is missing",
    "Add x to what the part gives, then comes the norm.",
)(_join(after=lambda x, part, norm: norm(part(x))))
add_and_norm.wrong(
    "right for post-norm; in pre-norm it adds norm(x), not x",
    "The residual connection carries x itself, past the norm.",
)(_join(before=lambda x, part, norm: norm(x) + part(norm(x))))
add_and_norm.wrong(
    "right for post-norm; in pre-norm the part comes before the norm",
    "Pre-norm means that the norm is the first thing: part(norm(x)).",
)(_join(before=lambda x, part, norm: x + norm(part(x))))
add_and_norm.wrong(
    "right for post-norm; in pre-norm there is a norm on the sum, too",
    "In pre-norm nothing stands on the residual connection: x + part(norm(x)).",
)(_join(before=lambda x, part, norm: norm(x + part(norm(x)))))
add_and_norm.wrong(
    "right for post-norm; in pre-norm the norm is on the residual connection only",
    "The norm is for what the part gets; x is added as it is.",
)(_join(before=lambda x, part, norm: norm(x) + part(x)))
add_and_norm.wrong(
    "right for pre-norm; in post-norm only the part's result goes through the norm",
    "Post-norm is a norm of the sum: norm(x + part(x)).",
)(_join(after=lambda x, part, norm: x + norm(part(x))))
add_and_norm.wrong(
    "right for pre-norm; in post-norm x and the part's result are normalized one by one",
    "Post-norm is a norm of the sum: norm(x + part(x)).",
)(_join(after=lambda x, part, norm: norm(x) + norm(part(x))))
add_and_norm.wrong(
    "right for pre-norm; in post-norm x alone goes through the norm",
    "Post-norm is a norm of the sum: norm(x + part(x)).",
)(_join(after=lambda x, part, norm: norm(x) + part(x)))
add_and_norm.wrong(
    "right for pre-norm; in post-norm there is a norm before the part, too",
    "In post-norm the part gets x itself: norm(x + part(x)).",
)(_join(after=lambda x, part, norm: norm(x + part(norm(x)))))
add_and_norm.wrong(
    "in both cases a norm of what the part gives, and of nothing else",
    "Pre-norm is x + part(norm(x)), post-norm norm(x + part(x)).",
)(_join(*(lambda x, part, norm: x + norm(part(x)),) * 2))
add_and_norm.wrong(
    "in both cases a norm before the part and one after the sum",
    "Each has one norm: pre-norm before the part, post-norm after the sum.",
)(_join(*(lambda x, part, norm: norm(x + part(norm(x))),) * 2))
add_and_norm.wrong(
    "right but for the norm, which is missing",
    "Pre-norm is x + part(norm(x)), post-norm norm(x + part(x)).",
)(lambda x, part, norm, pre: x + part(x))
add_and_norm.wrong(
    "right forwards, with x detached on the residual connection",
    "The gradient has to come through the connection: leave out .detach().",
)(
    _join(
        lambda x, part, norm: x.detach() + part(norm(x)),
        lambda x, part, norm: norm(x.detach() + part(x)),
    )
)


# What a stack of attention layers amounts to


def _stack_cases(draw, hidden):
    for layers, batch, n, d in (
        [(1, 1, 3, 2), (4, 2, 2, 3)] if hidden else [(2, 1, 2, 2), (3, 2, 3, 3)]
    ):
        weights = [draw.normal(batch, n, n).softmax(dim=-1) for _ in range(layers)]
        yield weights, [draw.normal(d, d) for _ in range(layers)]


def _first_to_last(matrices):
    """M_1 M_2 ... M_L."""
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product @ matrix
    return product


def _last_to_first(matrices):
    """M_L ... M_2 M_1."""
    return _first_to_last(matrices[::-1])


def _elementwise(matrices):
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product * matrix
    return product


def _one(left=_last_to_first, right=_first_to_last):
    """Both products with one of them exchanged."""
    return lambda weights, values: (left(weights), right(values))


def _does_what_the_layers_do(answer, weights, values):
    X = mt.arange(weights[0].shape[1] * values[0].shape[0]).reshape(-1, values[0].shape[0]) / 3.0
    A, V = answer(weights, values)
    Y = X
    for weight, value in zip(weights, values, strict=True):
        Y = weight @ Y @ value
    if not mt.allclose(A @ X @ V, Y):
        return "A X V must be what X becomes in one layer after the other."
    if not mt.allclose(A.sum(dim=-1), mt.ones(A.shape[:-1])):
        return "Each row of A must add up to one."
    return None


@exercise(
    cases=_stack_cases,
    properties=(_does_what_the_layers_do,),
    gradients=False,
    see='chapter 09, "Given its weights, attention is linear"',
)
def one_layer(weights, values):
    """L tensors (B, n, n) and L matrices (d, d) give A (B, n, n) and V (d, d)."""
    A, V = weights[0], values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        A, V = weight @ A, V @ value
    return A, V


one_layer.wrong(
    "right but for the order of the weights: the first layer's come first",
    "Weights multiply from the left, so those of a later layer stand further left: A_2 (A_1 X).",
)(_one(left=_first_to_last))
one_layer.wrong(
    "right but for the order of the values: the last layer's come first",
    "Values multiply from the right, so those of a later layer stand further right: (X V_1) V_2.",
)(_one(right=_last_to_first))
one_layer.wrong(
    "right but for the order of both products, which are the wrong way round",
    "Weights of a later layer stand further left, values further right: A_2 (A_1 X V_1) V_2.",
)(_one(left=_first_to_last, right=_last_to_first))
one_layer.wrong(
    "products element by element",
    "These are products of matrices: @ and not *.",
)(_one(_elementwise, _elementwise))
one_layer.wrong(
    "right but for the weights, which are multiplied element by element",
    "The weights of two layers make a product of matrices: @ and not *.",
)(_one(left=_elementwise))
one_layer.wrong(
    "right but for the values, which are multiplied element by element",
    "The values of two layers make a product of matrices: @ and not *.",
)(_one(right=_elementwise))
one_layer.wrong(
    "right but for the weights, which are averaged",
    "One layer after the other: a product, not a mean.",
)(_one(left=lambda matrices: sum(matrices) / len(matrices)))
one_layer.wrong(
    "a mean of the layers",
    "One layer after the other: products, not means.",
)(_one(*(lambda matrices: sum(matrices) / len(matrices),) * 2))
one_layer.wrong(
    "a sum of the layers",
    "One layer after the other: products, not sums.",
)(_one(sum, sum))
one_layer.wrong(
    "the last layer alone",
    "What the layers before it do to X counts too.",
)(_one(*(lambda matrices: matrices[-1],) * 2))
one_layer.wrong(
    "the first layer alone",
    "What the layers after it do counts too.",
)(_one(*(lambda matrices: matrices[0],) * 2))
one_layer.wrong(
    "right for two layers only",
    "There may be more than two, and there may be one: a loop over the lists.",
)(lambda weights, values: (weights[1] @ weights[0], values[0] @ values[1]))
one_layer.wrong(
    "right but for the order of what it returns: the values come first",
    "Return A, then V.",
)(lambda weights, values: _one()(weights, values)[::-1])
one_layer.wrong(
    "right but for the weights, to whose product a softmax is applied once more",
    "Rows of a product of such matrices add up to one already.",
)(_one(left=lambda matrices: _last_to_first(matrices).softmax(dim=-1)))
