"""The gradient of layer norm by hand."""

from textbook.checks.chapter_09.norms import mean_of, root_of, unbiased, variance_of
from textbook.checks.exercise import exercise


def _gradient_cases(draw, hidden):
    for size, eps in [((5, 3), 1e-5), ((3, 4), 0.5)] if hidden else [((2, 3), 0.5), ((3, 3), 1e-5)]:
        yield draw.normal(*size), draw.normal(size[-1]) + 2, draw.normal(*size), eps


def _toward_x(g, normal, root):
    return (g - mean_of(g) - normal * mean_of(g * normal)) / root


def _sum_over_tokens(x):
    return x.sum(dim=0)


def _backward(
    toward_x=_toward_x,
    to_normal=lambda grad_output, gain: grad_output * gain,
    toward_gain=lambda grad_output, normal: grad_output * normal,
    gather=_sum_over_tokens,
    variance=variance_of,
    root=root_of,
):
    """The gradients with one of their pieces exchanged."""

    def backward(x, gain, grad_output, eps):
        mean = mean_of(x)
        deviation = root(variance(x, mean), eps)
        normal = (x - mean) / deviation
        return (
            toward_x(to_normal(grad_output, gain), normal, deviation),
            gather(toward_gain(grad_output, normal)),
            gather(grad_output),
        )

    return backward


def _named(answer, x, gain, grad_output, eps):
    found = answer(x, gain, grad_output, eps)
    found = found if isinstance(found, (list, tuple)) else [found]
    names = [f"the gradient of {name}" for name in ("x", "gain", "bias")]
    return {"the number of gradients": len(found), **dict(zip(names, found, strict=False))}


@exercise(
    cases=_gradient_cases,
    run=_named,
    forbidden=("backward",),
    instead="mean, sum, -, * and /",
    gradients=False,
    see='chapter 09, "Its gradient by hand"',
)
def layer_norm_gradient(x, gain, grad_output, eps=1e-5):
    """x and grad_output (n, d), gain (d) give the gradients of x (n, d), gain (d) and bias (d)."""
    centered = x - x.mean(dim=-1, keepdim=True)
    s = ((centered**2).mean(dim=-1, keepdim=True) + eps).sqrt()  # (n, 1)
    normal = centered / s
    g = grad_output * gain  # the gradient at x-hat, g'
    stretch = (g * normal).mean(dim=-1, keepdim=True)
    toward_x = (g - g.mean(dim=-1, keepdim=True) - normal * stretch) / s
    return toward_x, (grad_output * normal).sum(dim=0), grad_output.sum(dim=0)


layer_norm_gradient.wrong(
    "right but for x: mean and root are taken for constants",
    "Each number of x also acts through the mean and through the root. Two terms are missing.",
)(_backward(toward_x=lambda g, normal, root: g / root))
layer_norm_gradient.wrong(
    "right but for x, where the way through the mean is missing",
    "Each number of x moves the mean by 1/d: subtract the mean of g' over the d numbers.",
)(_backward(toward_x=lambda g, normal, root: (g - normal * mean_of(g * normal)) / root))
layer_norm_gradient.wrong(
    "right but for x, where the way through the root is missing",
    "Each number of x moves the root, too: subtract x-hat times the mean of (g' times x-hat).",
)(_backward(toward_x=lambda g, normal, root: (g - mean_of(g)) / root))
layer_norm_gradient.wrong(
    "right but for x, where the last term is not multiplied by x-hat",
    "The root moves by x-hat / d: the mean of (g' times x-hat) is multiplied by x-hat.",
)(_backward(toward_x=lambda g, normal, root: (g - mean_of(g) - mean_of(g * normal)) / root))
layer_norm_gradient.wrong(
    "right but for x, where the last term has x-hat once only",
    "x-hat stands there twice: x-hat times the mean of (g' times x-hat).",
)(_backward(toward_x=lambda g, normal, root: (g - mean_of(g) - normal * mean_of(g)) / root))
layer_norm_gradient.wrong(
    "right but for x, where the last term lacks its mean",
    "The mean over the d numbers of (g' times x-hat), then times x-hat.",
)(_backward(toward_x=lambda g, normal, root: (g - mean_of(g) - normal * (g * normal)) / root))
layer_norm_gradient.wrong(
    "right but for x, where the last term has a sum in place of its mean",
    "The mean over the d numbers of (g' times x-hat): divide the sum by d.",
)(
    _backward(
        toward_x=lambda g, normal, root: (
            (g - mean_of(g) - normal * mean_of(g * normal) * g.shape[-1]) / root
        )
    )
)
layer_norm_gradient.wrong(
    "right but for x, where x - mean stands in place of x-hat",
    "x-hat is divided by the root: (x - mean) / s.",
)(
    _backward(
        toward_x=lambda g, normal, root: (
            (g - mean_of(g) - root * normal * mean_of(g * root * normal)) / root
        )
    )
)
layer_norm_gradient.wrong(
    "right but for x, where the gain is left out of the two means",
    "The gradient at x-hat is grad_output times gain, in all three terms.",
)(
    lambda x, gain, grad_output, eps: (
        layer_norm_gradient.reference(x, gain / gain, grad_output, eps)[0]
        + grad_output * (gain - 1) / root_of(variance_of(x, mean_of(x)), eps),
        *layer_norm_gradient.reference(x, gain, grad_output, eps)[1:],
    )
)
layer_norm_gradient.wrong(
    "right but for x, where both terms are added",
    "Both terms are subtracted: they take out of the gradient what would only shift or stretch x.",
)(
    _backward(
        toward_x=lambda g, normal, root: (g + mean_of(g) + normal * mean_of(g * normal)) / root
    )
)
layer_norm_gradient.wrong(
    "right but for x, where the last term is added",
    "It is subtracted: it takes out of the gradient what would only stretch x.",
)(
    _backward(
        toward_x=lambda g, normal, root: (g - mean_of(g) + normal * mean_of(g * normal)) / root
    )
)
layer_norm_gradient.wrong(
    "right but for x, where the two means are sums",
    "Both are means over the d numbers of a token: divide the sums by d.",
)(
    _backward(
        toward_x=lambda g, normal, root: (
            (g - (mean_of(g) + normal * mean_of(g * normal)) * g.shape[-1]) / root
        )
    )
)
layer_norm_gradient.wrong(
    "right but for x, where the means go over the tokens",
    "Mean and root belong to one token: the means go over its d numbers, the last axis.",
)(
    _backward(
        toward_x=lambda g, normal, root: (
            (g - mean_of(g, 0) - normal * mean_of(g * normal, 0)) / root
        )
    )
)
layer_norm_gradient.wrong(
    "right but for x, which is not divided by the root",
    "x-hat is (x - mean) / root: so 1 / root stands in front of all three terms.",
)(_backward(toward_x=lambda g, normal, root: _toward_x(g, normal, 1.0)))
layer_norm_gradient.wrong(
    "right but for x, where only the first term is divided by the root",
    "1 / root stands in front of all three terms.",
)(
    _backward(
        toward_x=lambda g, normal, root: g / root - mean_of(g) - normal * mean_of(g * normal),
    )
)
layer_norm_gradient.wrong(
    "right but for x, which is divided by variance + eps",
    "Divide by the root of (variance + eps).",
)(_backward(toward_x=lambda g, normal, root: _toward_x(g, normal, root**2)))
layer_norm_gradient.wrong(
    "right but for x, where the gain is left out",
    "The gradient at x-hat is grad_output times gain.",
)(_backward(to_normal=lambda grad_output, gain: grad_output))
layer_norm_gradient.wrong(
    "right but for x, where the gain multiplies at the end",
    "The gain comes after the norm, so going back it comes first: grad_output times gain, and then "
    "its means.",
)(
    lambda x, gain, grad_output, eps: (
        layer_norm_gradient.reference(x, gain / gain, grad_output, eps)[0] * gain,
        *layer_norm_gradient.reference(x, gain, grad_output, eps)[1:],
    )
)
layer_norm_gradient.wrong(
    "right but for x, which has the gradient at x-hat",
    "That is the first step, grad_output times gain. It has to go through the norm.",
)(_backward(toward_x=lambda g, normal, root: g))
layer_norm_gradient.wrong(
    "right but for the gain: its gradient lacks x-hat",
    "gain multiplies x-hat: the gradient is the sum over the tokens of grad_output times x-hat.",
)(_backward(toward_gain=lambda grad_output, normal: grad_output))
layer_norm_gradient.wrong(
    "right but for the gain: its gradient is multiplied by the gain",
    "gain multiplies x-hat, so its own gradient is the sum of grad_output times x-hat.",
)(
    lambda x, gain, grad_output, eps: (
        layer_norm_gradient.reference(x, gain, grad_output, eps)[0],
        layer_norm_gradient.reference(x, gain, grad_output * gain, eps)[1],
        grad_output.sum(dim=0),
    )
)
layer_norm_gradient.wrong(
    "right but for the bias: its gradient is multiplied by the gain",
    "The bias is added after the gain: its gradient is the sum of grad_output alone.",
)(
    lambda x, gain, grad_output, eps: (
        *layer_norm_gradient.reference(x, gain, grad_output, eps)[:2],
        (grad_output * gain).sum(dim=0),
    )
)
layer_norm_gradient.wrong(
    "right but for gain and bias: their gradients are not summed",
    "All n tokens use the same gain and bias: sum over the tokens, the first axis.",
)(_backward(gather=lambda x: x))
layer_norm_gradient.wrong(
    "right but for gain and bias: their gradients are means",
    "All n tokens use the same gain and bias: what arrives from them is summed, not averaged.",
)(_backward(gather=lambda x: x.mean(dim=0)))
layer_norm_gradient.wrong(
    "right but for gain and bias: their gradients are summed over the features",
    "Each feature has its own gain and bias: sum over the tokens, the first axis.",
)(_backward(gather=lambda x: x.sum(dim=-1)))
layer_norm_gradient.wrong(
    "right but for the order: the bias comes before the gain",
    "Return the gradients of x, gain and bias, in this order.",
)(
    lambda *case: (
        layer_norm_gradient.reference(*case)[0],
        *layer_norm_gradient.reference(*case)[:0:-1],
    )
)
layer_norm_gradient.wrong(
    "right but for the variance, which divides by d - 1",
    "The variance is the mean of the squares, over d: x.var(-1, unbiased=False, keepdim=True).",
)(_backward(variance=unbiased))
layer_norm_gradient.wrong(
    "right but for eps, which is left out",
    "Divide by the root of (variance + eps).",
)(_backward(root=lambda variance, eps: variance**0.5))
layer_norm_gradient.wrong(
    "right but for eps, which is always 1e-5",
    "Use the argument eps; 1e-5 is only what it is when the caller does not say.",
)(_backward(root=lambda variance, eps: (variance + 1e-5) ** 0.5))


@layer_norm_gradient.wrong(
    "right but for the gain: its gradient has x in place of x-hat",
    "gain multiplies x-hat, not x.",
)
def _(x, gain, grad_output, eps):
    toward_x, _, toward_bias = layer_norm_gradient.reference(x, gain, grad_output, eps)
    return toward_x, (grad_output * x).sum(dim=0), toward_bias


@layer_norm_gradient.wrong(
    "right but for gain and bias: they get the gradient at x-hat",
    "Gain and bias stand after x-hat: their gradients come from grad_output itself.",
)
def _(x, gain, grad_output, eps):
    toward_x, *_ = layer_norm_gradient.reference(x, gain, grad_output, eps)
    _, *others = layer_norm_gradient.reference(x, gain, grad_output * gain, eps)
    return toward_x, *others
