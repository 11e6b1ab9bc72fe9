"""Checks of the exercises of chapter 00, tensors and autograd."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.checks.exercise import exercise

# 1. Softmax


def _score_cases(draw, hidden):
    for shape in [(3,), (2, 3), (4, 1, 5)] + [(7, 2, 6)] * hidden:
        yield (3 * draw.normal(*shape),)
    yield (100 * draw.normal(2, 4) + mt.tensor([[-1000.0], [1000.0]]),)


def _rows_sum_to_one(answer, scores):
    totals = answer(scores).sum(dim=-1)
    if not mt.allclose(totals, mt.ones_like(totals)):
        return "The probabilities of a row must add up to 1."


def _softmax(scores, dim=-1):
    weights = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return weights / weights.sum(dim=dim, keepdim=True)


@exercise(
    cases=_score_cases,
    forbidden=("softmax", "log_softmax", "logsumexp", "cross_entropy"),
    instead="exp, sum and a division",
    properties=(_rows_sum_to_one,),
    see='chapter 00, "Scores, probabilities, surprise"',
)
def softmax(scores):
    """(..., V) -> (..., V)."""
    return F.softmax(scores, dim=-1)


@softmax.wrong(
    "the softmax as its formula says, without subtracting the largest score",
    "exp(1000) is infinite, and infinity by infinity is not a number. Subtract the largest score "
    "of each row first; the probabilities stay the same.",
)
def _(scores):
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@softmax.wrong(
    "the softmax with one number subtracted from all rows",
    "A row whose scores are all far below that number becomes 0 / 0. Each row needs its own "
    "largest score: amax with dim=-1 and keepdim=True.",
)
def _(scores):
    weights = (scores - scores.max()).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "a softmax over the first axis",
    "Each row along the last axis is a distribution: use dim=-1, with keepdim=True.",
)
def _(scores):
    return _softmax(scores, dim=0)


@softmax.wrong(
    "a softmax over all elements together",
    "A sum without dim adds up everything. Each row needs its own: dim=-1, with keepdim=True.",
)
def _(scores):
    return _softmax(scores.reshape(-1)).reshape(scores.shape)


@softmax.wrong("the logarithm of the softmax", "The result is the probabilities themselves.")
def _(scores):
    return _softmax(scores).log()


@softmax.wrong(
    "the scores divided by their sum",
    "Scores may be negative. What is divided by its sum is exp of the scores.",
)
def _(scores):
    return scores / scores.sum(dim=-1, keepdim=True)


# 2. Perplexity


def _text_cases(draw, hidden):
    for words, vocabulary in [(1, 3), (2, 3), (5, 4)] + [(7, 11)] * hidden:
        yield 2 * draw.normal(words, vocabulary), draw.integers(vocabulary, words)
    yield mt.zeros(3, 8, dtype=mt.float64), draw.integers(8, 3)
    if hidden:
        yield draw.normal(900, 5), draw.integers(5, 900)


def _surprises(scores, targets):
    """-log p of each target: (T, V), (T) -> (T)."""
    return -F.log_softmax(scores, dim=-1).gather(1, targets.unsqueeze(1)).squeeze(1)


@exercise(
    cases=_text_cases,
    gradients=False,
    forbidden=("cross_entropy",),
    instead="log_softmax and the score of each word that came",
    see='chapter 00, "Scores, probabilities, surprise"',
)
def perplexity(scores, targets):
    """(T, V), (T) -> a number."""
    return math.exp(F.cross_entropy(scores, targets).item())


@perplexity.wrong(
    "the mean of the words' own perplexities",
    "Average the surprises first, then take one exponential: the order matters.",
)
def _(scores, targets):
    return _surprises(scores, targets).exp().mean()


@perplexity.wrong(
    "the exponential of the summed surprise", "Divide by the number of words: a mean, not a sum."
)
def _(scores, targets):
    return _surprises(scores, targets).sum().exp()


@perplexity.wrong(
    "the mean surprise, without the exponential", "Perplexity is the exponential of that."
)
def _(scores, targets):
    return _surprises(scores, targets).mean()


@perplexity.wrong(
    "the exponential of the mean log-probability",
    "A surprise is minus a log-probability. No model has a perplexity below 1.",
)
def _(scores, targets):
    return (-_surprises(scores, targets).mean()).exp()


@perplexity.wrong(
    "2 to the power of a surprise in natural logarithms",
    "log is the natural logarithm, so its inverse is exp. (2 goes with log2.)",
)
def _(scores, targets):
    return 2 ** _surprises(scores, targets).mean()


@perplexity.wrong(
    "the inverse of the mean probability",
    "The mean is taken over logarithms of probabilities, not over probabilities.",
)
def _(scores, targets):
    return 1 / (-_surprises(scores, targets)).exp().mean()


@perplexity.wrong(
    "a perplexity that does not look at the words that came",
    "That is the model's own uncertainty. Take the log-probability of each target word.",
)
def _(scores, targets):
    logs = F.log_softmax(scores, dim=-1)
    return (-(logs.exp() * logs).sum(dim=-1).mean()).exp()


@perplexity.wrong(
    "a root of the product of the probabilities",
    "In a long text the product is too small for a floating-point number and becomes 0. Add "
    "logarithms instead.",
    hidden=True,
)
def _(scores, targets):
    return (-_surprises(scores, targets)).exp().prod() ** (-1 / len(targets))


# 3. The cost of training


def _network_cases(draw, hidden):
    yield [3, 2], 1
    yield [2, 32, 32, 3], 64
    yield [int(n) for n in draw.random.integers(1, 50, size=4 + 3 * hidden)], 7


def _forward_flops(sizes, batch):
    return sum(2 * batch * n * m for n, m in zip(sizes, sizes[1:], strict=False))


@exercise(cases=_network_cases, see='chapter 00, "Counting the cost"')
def training_flops(sizes, batch):
    """A list of widths and a number -> a number."""
    first = 2 * batch * sizes[0] * sizes[1]
    return 3 * _forward_flops(sizes, batch) - first


@training_flops.wrong(
    "the count of the forward pass alone",
    "Backward, a layer makes products too: one for its weights, one for its input.",
)
def _(sizes, batch):
    return _forward_flops(sizes, batch)


@training_flops.wrong(
    "the count with an input gradient for the first layer too",
    "Nobody needs the gradient of the data, so the first layer has two products and not three.",
)
def _(sizes, batch):
    return 3 * _forward_flops(sizes, batch)


@training_flops.wrong(
    "half of it: you count a multiplication with its addition as one",
    "Each multiplication comes with an addition: 2 n k m operations.",
)
def _(sizes, batch):
    return training_flops.reference(sizes, batch) // 2


@training_flops.wrong("the count for one example", "Every product has a row for each example.")
def _(sizes, batch):
    return training_flops.reference(sizes, 1)


@training_flops.wrong(
    "the count with one backward product a layer",
    "The weights need one and the input needs one (except the first layer's).",
)
def _(sizes, batch):
    return 2 * _forward_flops(sizes, batch)


# 4. Rotations


def _rotation_cases(draw, hidden):
    for shape in [(4,), (2, 4), (2, 3, 6)] + [(2, 1, 3, 10)] * hidden:
        yield draw.normal(*shape), draw.normal(shape[-1] // 2)


def _lengths_kept(answer, x, angles):
    turned = answer(x, angles)
    if not mt.allclose((turned**2).sum(dim=-1), (x**2).sum(dim=-1)):
        return "A rotation keeps the length of a vector; yours does not."


def _turned(x, angles):
    """The first and the second coordinates of all pairs after the rotation."""
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return first * cos - second * sin, first * sin + second * cos


def _interleaved(first, second):
    return mt.stack([first, second], dim=-1).flatten(-2)


@exercise(
    cases=_rotation_cases,
    properties=(_lengths_kept,),
    see='chapter 00, "Rotations: position as an angle"',
)
def rotate_pairs(x, angles):
    """(..., d), (d / 2) -> (..., d)."""
    return _interleaved(*_turned(x, angles))


@rotate_pairs.wrong(
    "the rotation by the opposite angle", "Look where the minus stands: row vectors, x R(theta)."
)
def _(x, angles):
    return _interleaved(*_turned(x, -angles))


@rotate_pairs.wrong(
    "a rotation that pairs each coordinate of the first half with one of the second half",
    "The pairs are neighbors: 0 with 1, 2 with 3. Slices with step 2 pick them, x[..., 0::2].",
)
def _(x, angles):
    half = x.shape[-1] // 2
    pairs = _interleaved(x[..., :half], x[..., half:])
    return mt.cat(_turned(pairs, angles), dim=-1)


@rotate_pairs.wrong(
    "right, but in another order: first all first coordinates, then all second ones",
    "Put the coordinates back where they came from: stack on a new last axis and flatten it.",
)
def _(x, angles):
    return mt.cat(_turned(x, angles), dim=-1)


@rotate_pairs.wrong("the rotation of all pairs by the first angle", "Pair j turns by angles[j].")
def _(x, angles):
    return _interleaved(*_turned(x, angles[0]))


@rotate_pairs.wrong(
    "a map with a plus in place of the minus", "R has one minus sign; without it lengths change."
)
def _(x, angles):
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return _interleaved(first * cos + second * sin, first * sin + second * cos)


@rotate_pairs.wrong("the rotation with sine and cosine exchanged", "At angle 0 nothing may move.")
def _(x, angles):
    return _interleaved(*_turned(x, math.pi / 2 - angles))


# 5. The gradient of the cross-entropy


def _classification_cases(draw, hidden):
    for rows, classes in [(1, 3), (2, 3), (4, 5)] + [(9, 4)] * hidden:
        yield draw.normal(rows, classes), draw.integers(classes, rows)


def _rows_sum_to_zero(answer, scores, targets):
    totals = answer(scores, targets).sum(dim=-1)
    if not mt.allclose(totals, mt.zeros_like(totals)):
        return "Each row must add up to 0: adding a constant to all scores changes no loss."


def _one_hot_like(scores, targets):
    return F.one_hot(targets, scores.shape[-1]).to(scores.dtype)


@exercise(
    cases=_classification_cases,
    gradients=False,
    forbidden=("backward", "cross_entropy", "log_softmax"),
    instead="softmax, one_hot and a subtraction",
    properties=(_rows_sum_to_zero,),
    see='chapter 00, "Scores, probabilities, surprise"',
)
def cross_entropy_gradient(scores, targets):
    """(N, V), (N) -> (N, V)."""
    return (_softmax(scores) - _one_hot_like(scores, targets)) / len(targets)


@cross_entropy_gradient.wrong(
    "the gradient of the sum of the losses",
    "The loss is their mean: divide by the number of rows.",
)
def _(scores, targets):
    return _softmax(scores) - _one_hot_like(scores, targets)


@cross_entropy_gradient.wrong(
    "the gradient with the opposite sign",
    "What we predicted minus what happened. A step against the gradient must raise the "
    "target's score.",
)
def _(scores, targets):
    return (_one_hot_like(scores, targets) - _softmax(scores)) / len(targets)


@cross_entropy_gradient.wrong(
    "the gradient of the mean over all elements",
    "One row is one loss: divide by the number of rows, not of elements.",
)
def _(scores, targets):
    return (_softmax(scores) - _one_hot_like(scores, targets)) / scores.numel()


@cross_entropy_gradient.wrong(
    "the probabilities without the targets", "Subtract 1 at the target of each row."
)
def _(scores, targets):
    return _softmax(scores) / len(targets)


@cross_entropy_gradient.wrong(
    "right but for a division that reaches only the one-hot part",
    "Put the difference in brackets before you divide.",
)
def _(scores, targets):
    return _softmax(scores) - _one_hot_like(scores, targets) / len(targets)


@cross_entropy_gradient.wrong(
    "the gradient with a softmax over the rows instead of the classes",
    "The classes lie along the last axis.",
)
def _(scores, targets):
    return (_softmax(scores, dim=0) - _one_hot_like(scores, targets)) / len(targets)


# 6. The gradients of an affine map


def _affine_cases(draw, hidden):
    for leading in [(3,), (2, 4)] + [(2, 1, 3)] * hidden:
        yield draw.normal(*leading, 2), draw.normal(2, 5), draw.normal(*leading, 5)
    yield draw.normal(4, 3), draw.normal(3, 3), draw.normal(4, 3)


def _affine_gradients(x, weight, g):
    rows, flat = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
    return g @ weight.T, rows.T @ flat, flat.sum(dim=0)


@exercise(
    cases=_affine_cases,
    gradients=False,
    forbidden=("backward",),
    instead="two matrix products and a sum",
    see='chapter 00, "From numbers to arrays"',
)
def affine_gradients(x, weight, g):
    """(..., k), (k, m), (..., m) -> (..., k), (k, m), (m)."""
    return _affine_gradients(x, weight, g)


@affine_gradients.wrong(
    "right but for the bias, whose gradient you average",
    "The bias was added to each row, so its gradient is the sum over the rows.",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight, toward_bias / g[..., 0].numel()


@affine_gradients.wrong(
    "right but for the weight, whose gradient you average over the rows",
    "The rows' shares are added; a mean belongs into the loss, not here.",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight / g[..., 0].numel(), toward_bias


@affine_gradients.wrong(
    "right but for the weight, whose gradient comes out transposed",
    "A gradient has the shape of what it belongs to: (k, m).",
)
def _(x, weight, g):
    toward_x, toward_weight, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, toward_weight.T, toward_bias


@affine_gradients.wrong(
    "right but for the bias, whose gradient keeps leading axes",
    "The bias has shape (m): sum over all axes but the last.",
)
def _(x, weight, g):
    toward_x, toward_weight, _ = _affine_gradients(x, weight, g)
    return toward_x, toward_weight, g.sum(dim=0)


@affine_gradients.wrong(
    "right but for the weight, which gets a gradient for each matrix of the batch",
    "One weight serves the whole batch, so its gradient is the sum over the batch. Fold the "
    "leading axes into one first: x.reshape(-1, k).",
)
def _(x, weight, g):
    toward_x, _, toward_bias = _affine_gradients(x, weight, g)
    return toward_x, x.mT @ g, toward_bias


# 7. Finite differences


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
    """A function of a tensor, the tensor (any shape), a number -> a tensor like x."""
    return _differences(
        function, x, lambda f, x, one: (f(x + eps * one) - f(x - eps * one)) / (2 * eps)
    )


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


# 8. The spectral radius


def _matrix_cases(draw, hidden):
    yield mt.tensor([[2.0, 1.0], [0.0, -3.0]], dtype=mt.float64), 3
    for size, steps in [(2, 2), (3, 4), (5, 20)] + [(11, 30)] * hidden:
        yield draw.normal(size, size), steps
    yield 20 * mt.eye(4, dtype=mt.float64) + draw.normal(4, 4), 400


def _power_iteration(matrix, steps):
    """The factor of each step, and the last two vectors."""
    v, factors = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        before = v / v.norm()
        v = before @ matrix
        factors.append(v.norm().item())
    return factors, before, v


@exercise(cases=_matrix_cases, gradients=False, see='chapter 00, "The same matrix again and again"')
def spectral_radius(matrix, steps):
    """(n, n), a number -> a number."""
    return _power_iteration(matrix, steps)[0][-1]


@spectral_radius.wrong(
    "the iteration without bringing the vector back to length 1",
    "After some hundred steps the vector is too large for a floating-point number. Divide it by "
    "its length before each product.",
)
def _(matrix, steps):
    v = mt.ones(len(matrix), dtype=matrix.dtype)
    for _ in range(steps):
        before = v.norm()
        v = v @ matrix
    return v.norm() / before


@spectral_radius.wrong(
    "the factor by which all steps together lengthen the vector",
    "The estimate is the factor of the last step alone.",
)
def _(matrix, steps):
    return math.prod(_power_iteration(matrix, steps)[0])


@spectral_radius.wrong(
    "the mean factor of all steps",
    "The first steps are far from an eigenvector: return the factor of the last step alone.",
)
def _(matrix, steps):
    return math.exp(sum(map(math.log, _power_iteration(matrix, steps)[0])) / steps)


@spectral_radius.wrong(
    "an estimate of the eigenvalue with its sign",
    "The spectral radius is a size: the length of the product, not its dot product with v.",
)
def _(matrix, steps):
    _, before, v = _power_iteration(matrix, steps)
    return (before @ v).item()


@spectral_radius.wrong(
    "the iteration with the matrix on the left",
    "The book's vectors are rows: v @ matrix. (The limit is the same, the steps are not.)",
)
def _(matrix, steps):
    return spectral_radius.reference(matrix.T, steps)


@spectral_radius.wrong(
    "the iteration with one step too few", "Make `steps` products, the last one included."
)
def _(matrix, steps):
    return spectral_radius.reference(matrix, steps - 1)


# 9. Adam


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
    """Tensors w, g, m, v of one shape and numbers -> the new w, m, v."""
    m, v = _moments(g, m, v, beta1, beta2)
    step = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + eps)
    return w - lr * step, m, v


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


# 10. An engine


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


@exercise(
    cases=_program_cases,
    run=_run_program,
    gradients=False,
    see='chapter 00, "An engine for numbers"',
)
class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, parents=(), slopes=()):
        self.data, self.grad = data, 0.0
        self.parents, self.slopes = parents, slopes

    def __add__(self, other):
        return type(self)(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other):
        return type(self)(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other):
        return type(self)(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other):
        slopes = (1 / other.data, -self.data / other.data**2)
        return type(self)(self.data / other.data, (self, other), slopes)

    def exp(self):
        result = math.exp(self.data)
        return type(self)(result, (self,), (result,))

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


@Value.wrong(
    "an engine that overwrites gradients",
    "A value that is used twice gets a share along each path. Add them: += in place of =.",
)
class _(Value.reference):
    def backward(self):
        self.grad = 1.0
        for node in reversed(self.order()):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad = node.grad * slope


@Value.wrong(
    "an engine that hands gradients on before all of them have arrived",
    "A value may pass its gradient on only when everything that used it has done so: walk a "
    "topological order from the end.",
)
class _(Value.reference):
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


@Value.wrong(
    "an engine whose last value starts with gradient 0",
    "The derivative of the result with respect to itself is 1: start with that.",
)
class _(Value.reference):
    def backward(self):
        super().backward()
        for node in self.order():
            node.grad = 0.0


@Value.wrong(
    "right but for the product, whose slopes are exchanged",
    "The slope of a * b with respect to a is b.",
)
class _(Value.reference):
    def __mul__(self, other):
        return type(self)(self.data * other.data, (self, other), (self.data, other.data))


@Value.wrong(
    "right but for the difference, which has slope 1 on both sides",
    "The slope of a - b with respect to b is -1.",
)
class _(Value.reference):
    def __sub__(self, other):
        return type(self)(self.data - other.data, (self, other), (1.0, 1.0))


@Value.wrong(
    "right but for the quotient, whose slope toward the denominator has the wrong sign",
    "The slope of a / b with respect to b is -a / b ** 2.",
)
class _(Value.reference):
    def __truediv__(self, other):
        slopes = (1 / other.data, self.data / other.data**2)
        return type(self)(self.data / other.data, (self, other), slopes)


@Value.wrong(
    "right but for exp, whose slope is not its argument",
    "The slope of exp(a) is exp(a): the result.",
)
class _(Value.reference):
    def exp(self):
        return type(self)(math.exp(self.data), (self,), (self.data,))
