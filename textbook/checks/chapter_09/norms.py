"""Layer norm of large features."""

import minitorch as mt
from textbook.checks.exercise import exercise

# Layer norm


def _norm_cases(draw, hidden):
    """Among them an epsilon that shows where it stands, tokens of equal and of large features."""
    sizes = [(5,), (5, 4), (2, 3, 2, 4), (3, 3)] if hidden else [(2, 3), (3, 3, 5), (3, 4)]
    for i, size in enumerate(sizes):
        scale, eps = [(1.0, 0.5), (0.1, 1e-5)][i % 2]
        x = scale * (draw.normal(*size) * 2 + 3)
        if i >= 2:
            x[-1] = x[-1] * 1e200
        if i == len(sizes) - 1:
            x[0] = 7.0
        yield x, draw.normal(size[-1]) + 2, draw.normal(size[-1]), eps


def mean_of(x, dim=-1):
    """The mean over an axis, which stays."""
    return x.mean(dim=dim, keepdim=True)


def mean_square(x, dim=-1):
    """The mean of the squares over an axis, which stays."""
    return mean_of(x**2, dim)


def variance_of(x, mean):
    """The mean square of what is left without the mean."""
    return mean_square(x - mean)


def unbiased(x, mean):
    """The variance with one less in the denominator."""
    return mean_square(x - mean) * (x.shape[-1] / (x.shape[-1] - 1))


def root_of(variance, eps):
    """What a token is divided by."""
    return (variance + eps) ** 0.5


def stretched_and_shifted(normal, gain, bias):
    """The normalised tokens with gain and bias."""
    return normal * gain + bias


def largest_of(centered):
    """The largest feature of each token, 1 if that is less: what has squares that are small."""
    return centered.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1.0)


def _norm(
    mean=mean_of,
    variance=variance_of,
    root=root_of,
    join=stretched_and_shifted,
    scale=lambda centered: 1.0,
    eps_of=lambda eps, by: eps / by / by,
):
    """Layer norm with one of its pieces exchanged; without a scale large squares overflow."""

    def norm(x, gain, bias, eps):
        center = mean(x)
        by = scale(x - center)
        small, middle = x / by, center / by
        return join((small - middle) / root(variance(small, middle), eps_of(eps, by)), gain, bias)

    return norm


def _over(axes):
    """Layer norm with statistics over other axes than the last."""
    return _norm(
        mean=lambda x: mean_of(x, axes(x)), variance=lambda x, mean: mean_square(x - mean, axes(x))
    )


def _has_no_size(check, answer, x, gain, bias, eps):
    token = mt.tensor([2.0, 7.0, -1.0, 3.0])
    one, zero = mt.ones(4), mt.zeros(4)
    if not mt.allclose(answer(1e200 * token, one, zero, eps), answer(token, one, zero, 0.0)):
        return "A token of features near 1e200 must come out with the mean 0 and the variance 1."
    return None


def _ignores_shifts(answer, x, gain, bias, eps):
    if not mt.allclose(answer(x + 1, gain, bias, eps), answer(x, gain, bias, eps)):
        return "A number that is added to all features of a token must not change the result."
    return None


SPREADS = {
    "the mean of the squares": lambda z: mean_square(z),
    "the sum of the squares by d - 1": lambda z: (z**2).sum(dim=-1, keepdim=True) / (len(z) - 1),
    "the sum of the squares": lambda z: (z**2).sum(dim=-1, keepdim=True),
}
EPSILONS = {
    "eps": lambda eps, most: eps,
    "eps times the square of the largest difference": lambda eps, most: eps * most**2,
    "eps times the largest difference": lambda eps, most: eps * most,
    "eps by the largest difference": lambda eps, most: eps / most,
    "eps by the square of the largest difference": lambda eps, most: eps / most**2,
    "the square of eps": lambda eps, most: eps**2,
}


def _divisors(z, eps):
    """What the differences z of a token are divided by, in words: right ones and others."""
    most = z.abs().max()
    for spread, square in SPREADS.items():
        yield f"the root of {spread}, without eps", square(z) ** 0.5
        for added, what in EPSILONS.items():
            yield f"the root of ({spread} + {added})", (square(z) + what(eps, most)) ** 0.5
            yield f"the root of {spread}, plus {added}", square(z) ** 0.5 + what(eps, most)
            yield f"{spread} + {added}", square(z) + what(eps, most)
    for name, size in (
        ("the mean of the differences' absolute values", mean_of(z.abs())),
        ("the largest difference", most),
    ):
        yield name, size
        yield f"{name}, plus eps", size + eps
        yield f"the root of ({name} + eps)", (size + eps) ** 0.5


def _divides_by_the_root(check, answer, x, gain, bias, eps):
    """What a token of usual size is divided by, told from two tokens."""
    told = None
    for token, eps in ((mt.tensor([2.0, 7.0, -1.0, 3.0]), 0.5), (mt.arange(6.0) ** 2, 2.0)):
        z = token - token.mean()
        got = answer(token, mt.ones(len(z)), mt.zeros(len(z)), eps)
        fits = {name for name, by in _divisors(z, eps) if mt.allclose(got * by, z, rtol=1e-6)}
        told = fits if told is None else told & fits
    right = "the root of (the mean of the squares + eps)"
    if right in told or len(told) != 1:
        return None
    return f"The differences are divided by {told.pop()}, in place of {right}."


@exercise(
    cases=_norm_cases,
    forbidden=("layer_norm",),
    instead="mean, -, *, / and sqrt",
    properties=(_ignores_shifts,),
    reasons=(_divides_by_the_root, _has_no_size),
    see='chapter 09, "Layer normalization"',
)
def layer_norm(x, gain, bias, eps=1e-5):
    """x (..., d), gain and bias (d) give (..., d)."""
    centered = x - x.mean(dim=-1, keepdim=True)
    scale = centered.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1.0)  # (..., 1)
    small = centered / scale  # no square of these overflows
    variance = (small**2).mean(dim=-1, keepdim=True)
    return small / mt.sqrt(variance + eps / scale / scale) * gain + bias


layer_norm.wrong(
    "right for features of usual size; the squares of large ones overflow",
    "The square of 1e200 is infinite, and x / infinity is 0. Divide the differences by the largest "
    "of them first, and eps by its square: the quotient stays as it is.",
)(_norm())
layer_norm.wrong(
    "right but for large features, where infinity - infinity gives NaN",
    "Mean of squares less square of the mean: both overflow. Subtract the mean first, and divide "
    "by the largest difference before you square.",
)(
    _norm(
        variance=lambda x, mean: mean_square(x) - mean**2,
    )
)
layer_norm.wrong(
    "right but for eps, which does not shrink with the features",
    "If the differences are divided by a number, the variance is divided by its square, and eps "
    "has to be as well.",
)(_norm(scale=largest_of, eps_of=lambda eps, by: eps))
layer_norm.wrong(
    "right but for eps, which shrinks with the scale and not with its square",
    "If the differences are divided by a number, the variance is divided by its square.",
)(_norm(scale=largest_of, eps_of=lambda eps, by: eps / by))
layer_norm.wrong(
    "right but for the scale, which is one for all tokens: next to a large one the others vanish",
    "Each token has its own largest difference: amax(dim=-1, keepdim=True).",
)(_norm(scale=lambda centered: centered.detach().abs().amax().clamp(min=1.0)))
for what, hint, pieces in (
    (
        "right but for the order, with large features right: the bias is added before the gain",
        "First times gain, then plus bias.",
        {"join": lambda normal, gain, bias: (normal + bias) * gain},
    ),
    (
        "right but for the variance, with large features right: it divides by d - 1",
        "The mean of the squares, over d: unbiased=False.",
        {"variance": unbiased},
    ),
    (
        "right but for eps, with large features right: it stands outside the root",
        "Add eps to the variance, then take the root.",
        {"root": lambda variance, eps: variance**0.5 + eps},
    ),
    (
        "right but for eps, with large features right: it is left out",
        "Add eps to the variance, divided like it by the square of the scale.",
        {"root": lambda variance, eps: variance**0.5},
    ),
    (
        "right but for the gain, with large features right: it is left out",
        "Multiply each feature by its gain, then add its bias.",
        {"join": lambda normal, gain, bias: normal + bias},
    ),
):
    layer_norm.wrong(what, hint)(_norm(scale=largest_of, **pieces))
layer_norm.wrong(
    "right but for tokens of equal features, which are divided by 0",
    "Their largest difference is 0: divide by at least 1, clamp(min=1.0).",
)(_norm(scale=lambda centered: centered.detach().abs().amax(dim=-1, keepdim=True)))
layer_norm.wrong(
    "right but for the mean, which is a sum",
    "The mean is the sum divided by d.",
)(_norm(mean=lambda x: x.sum(dim=-1, keepdim=True)))
layer_norm.wrong(
    "right but for the numerator, from which the sum is subtracted and not the mean",
    "The mean is the sum divided by d.",
)(
    lambda x, gain, bias, eps: (
        (x - x.sum(dim=-1, keepdim=True)) / root_of(variance_of(x, mean_of(x)), eps) * gain + bias
    )
)
layer_norm.wrong(
    "right but for the variance, which divides by d - 1",
    "Here the variance is the mean of the squares, the sum over d. Library functions divide by "
    "d - 1 unless told otherwise: x.var(-1, unbiased=False, keepdim=True).",
)(_norm(variance=unbiased))
layer_norm.wrong(
    "right but for the variance, which is a sum",
    "The variance is the mean of the squared differences: divide the sum by d.",
)(_norm(variance=lambda x, mean: ((x - mean) ** 2).sum(dim=-1, keepdim=True)))
layer_norm.wrong(
    "right but for the division: it divides by the variance",
    "Divide by the square root of (variance + eps).",
)(_norm(root=lambda variance, eps: variance + eps))
layer_norm.wrong(
    "right but for the division: under the root stands the standard deviation",
    "Under the root belongs the variance, and eps with it. The root of the deviation is the fourth "
    "root of the variance.",
)(_norm(root=lambda variance, eps: (variance**0.5 + eps) ** 0.5))
layer_norm.wrong(
    "right but for eps, which stands outside the root",
    "Add eps to the variance, then take the root.",
)(_norm(root=lambda variance, eps: variance**0.5 + eps))
layer_norm.wrong(
    "a division by the standard deviation of d - 1, plus eps",
    "The variance is the mean of the squares, over d and not d - 1 (unbiased=False), and eps is "
    "added to it before the root is taken.",
)(_norm(variance=unbiased, root=lambda variance, eps: variance**0.5 + eps))
layer_norm.wrong(
    "a division by the root of the standard deviation of d - 1",
    "Under the root belongs the variance, the mean of the squares over d (unbiased=False), and eps "
    "with it.",
)(_norm(variance=unbiased, root=lambda variance, eps: (variance**0.5 + eps) ** 0.5))
layer_norm.wrong(
    "right but for eps, which is squared",
    "Add eps to the variance, as it is.",
)(_norm(root=lambda variance, eps: (variance + eps**2) ** 0.5))
layer_norm.wrong(
    "right but for eps, which is left out",
    "A token whose numbers are all equal would give 0/0: add eps to the variance.",
)(_norm(root=lambda variance, eps: variance**0.5))
layer_norm.wrong(
    "right but for eps, which is always 1e-5",
    "Use the argument eps; 1e-5 is only what it is when the caller does not say.",
)(_norm(root=lambda variance, eps: (variance + 1e-5) ** 0.5))
layer_norm.wrong(
    "right but for the division, which is missing",
    "Divide by the square root of (variance + eps).",
)(_norm(root=lambda variance, eps: 1.0))
layer_norm.wrong(
    "right but for the axis: its mean and variance go over the batch, the first axis",
    "Mean and variance are taken over the d numbers of one token, the last axis.",
)(_over(lambda x: 0))
layer_norm.wrong(
    "right but for the axis: its mean and variance go over the tokens of a sequence",
    "Mean and variance are taken over the d numbers of one token, the last axis.",
)(_over(lambda x: -2 if x.ndim > 1 else -1))
layer_norm.wrong(
    "right for one sequence; with a batch, its mean and variance go over the tokens",
    "The features are the last axis, dim=-1, which is axis 1 only where x is (n, d).",
)(_over(lambda x: 1 if x.ndim > 1 else -1))
layer_norm.wrong(
    "a batch norm: a mean and a variance for each feature, over all tokens",
    "Take them for each token, over its d features: the last axis.",
)(_over(lambda x: tuple(range(x.ndim - 1)) or -1))
layer_norm.wrong(
    "right but for the axis: one mean and one variance for a whole sequence",
    "Each token has a mean and a variance of its own: the last axis alone.",
)(_over(lambda x: (-2, -1) if x.ndim > 1 else -1))
layer_norm.wrong(
    "right but for the axis: one mean and one variance for all numbers",
    "Each token has a mean and a variance of its own: dim=-1, and keepdim=True.",
)(_over(lambda x: tuple(range(x.ndim))))
layer_norm.wrong(
    "right but for the order: the bias is added before the gain multiplies",
    "First times gain, then plus bias.",
)(_norm(join=lambda normal, gain, bias: (normal + bias) * gain))
layer_norm.wrong(
    "right but for gain and bias, which are exchanged",
    "gain multiplies, bias is added.",
)(_norm(join=lambda normal, gain, bias: normal * bias + gain))
layer_norm.wrong(
    "right but for the gain, which is left out",
    "Multiply each feature by its gain, then add its bias.",
)(_norm(join=lambda normal, gain, bias: normal + bias))
layer_norm.wrong(
    "right but for the bias, which is left out",
    "Multiply each feature by its gain, then add its bias.",
)(_norm(join=lambda normal, gain, bias: normal * gain))
layer_norm.wrong(
    "right but for gain and bias, which are left out",
    "Multiply each feature by its gain, then add its bias.",
)(_norm(join=lambda normal, gain, bias: normal))
layer_norm.wrong(
    "an RMSNorm with a bias: the mean is not subtracted",
    "Subtract the mean first, and take the variance around it.",
)(_norm(mean=lambda x: 0.0))
layer_norm.wrong(
    "right but for the variance, which is the mean of the squares of x itself",
    "The variance is the mean of (x - mean) squared.",
)(_norm(variance=lambda x, mean: mean_square(x)))
layer_norm.wrong(
    "right but for the numerator, from which the mean is not subtracted",
    "The numerator is x - mean: only then the result has the mean 0.",
)(lambda x, gain, bias, eps: x / root_of(variance_of(x, mean_of(x)), eps) * gain + bias)
layer_norm.wrong(
    "right forwards, with mean and deviation detached",
    "Leave out .detach(): the gradient goes through mean and variance too.",
)(
    _norm(
        mean=lambda x: mean_of(x.detach()),
        variance=lambda x, mean: variance_of(x.detach(), mean),
        scale=largest_of,
    )
)


# The statistics of a batch with padding
