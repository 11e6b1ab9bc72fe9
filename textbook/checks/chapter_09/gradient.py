"""The gradient of RMSNorm by hand."""

import minitorch as mt
from textbook.checks.chapter_09.norms import mean_of, mean_square, root_of, variance_of
from textbook.checks.exercise import exercise


def _gradient_cases(draw, hidden):
    """Tokens in a row, in a batch, and one alone."""
    public = [((2, 3), 0.5), ((3, 4), 1e-5), ((2, 3, 5), 0.5)]
    for size, eps in [((5, 3), 1e-5), ((4,), 0.5), ((2, 2, 3, 4), 0.1)] if hidden else public:
        yield draw.normal(*size) + 0.5, draw.normal(size[-1]) + 2, draw.normal(*size), eps


def _toward_x(g, normal, root):
    return (g - normal * mean_of(g * normal)) / root


def _over_tokens(x):
    return x.reshape(-1, x.shape[-1]).sum(dim=0)


def _backward(
    toward_x=_toward_x,
    to_normal=lambda grad_output, gain: grad_output * gain,
    toward_gain=lambda grad_output, normal, gain, root: grad_output * normal,
    gather=_over_tokens,
    square=mean_square,
    root=root_of,
):
    """The gradients with one of their pieces exchanged."""

    def backward(x, gain, grad_output, eps):
        length = root(square(x), eps)
        normal = x / length
        return (
            toward_x(to_normal(grad_output, gain), normal, length),
            gather(toward_gain(grad_output, normal, gain, length)),
        )

    return backward


def _named(answer, x, gain, grad_output, eps):
    found = answer(x, gain, grad_output, eps)
    found = found if isinstance(found, (list, tuple)) else [found]
    names = [f"the gradient of {name}" for name in ("x", "gain")]
    return {"the number of gradients": len(found), **dict(zip(names, found, strict=False))}


def _uses_the_gain_once(answer, x, gain, grad_output, eps):
    toward_x, toward_gain = answer(x, gain, grad_output, eps)
    doubled = answer(x, 2 * gain, grad_output, eps)
    if not mt.allclose(doubled[0], 2 * toward_x):
        return "Twice the gain must give twice the gradient of x."
    if not mt.allclose(doubled[1], toward_gain):
        return "The gradient of the gain must not depend on the gain."
    return None


def _takes_out_what_stretches(answer, x, gain, grad_output, eps):
    toward_x, toward_gain = answer(x, gain, grad_output, 0.0)
    if not mt.allclose((toward_x * x).sum(dim=-1), mt.zeros(x.shape[:-1]), atol=1e-6):
        return (
            "Where eps is 0, y does not change if x is stretched, so the gradient of each token is "
            "at right angles to it: the sum of x times its gradient is 0."
        )
    shorter = answer(2 * x, gain, grad_output, 0.0)
    if not mt.allclose(2 * shorter[0], toward_x) or not mt.allclose(shorter[1], toward_gain):
        return "Where eps is 0, a token twice as long has half the gradient, and the gain the same."
    return None


def _sums_over_all_tokens(check, answer, x, gain, grad_output, eps):
    """The gradient of the gain has one number for each of its own."""
    found = answer(x, gain, grad_output, eps)[1]
    if found.shape == gain.shape:
        return None
    return (
        "The gradient of gain has the shape of gain: each token uses it, so it is summed over all "
        "axes but the last."
    )


@exercise(
    cases=_gradient_cases,
    run=_named,
    forbidden=("backward",),
    instead="mean, sum, -, * and /: the point is to do what they do",
    properties=(_uses_the_gain_once, _takes_out_what_stretches),
    reasons=(_sums_over_all_tokens,),
    gradients=False,
    see='chapter 09, "Its gradient by hand"',
)
def rms_norm_gradient(x, gain, grad_output, eps=1e-5):
    """x and grad_output (..., d), gain (d) give the gradients of x (..., d) and gain (d)."""
    r = ((x**2).mean(dim=-1, keepdim=True) + eps).sqrt()  # (..., 1)
    normal = x / r
    g = grad_output * gain  # the gradient at x-hat
    toward_x = (g - normal * (g * normal).mean(dim=-1, keepdim=True)) / r
    return toward_x, (grad_output * normal).reshape(-1, len(gain)).sum(dim=0)


FOR_X = "right but for x"
for name, hint, toward_x in (
    (
        f"{FOR_X}: the root is taken for a constant",
        "Each number of x also acts through the root: a term is missing.",
        lambda g, normal, root: g / root,
    ),
    (
        f"{FOR_X}, which has the formula of layer norm: the mean of g' is subtracted, too",
        "RMSNorm has no mean, so nothing goes through one.",
        lambda g, normal, root: (g - mean_of(g) - normal * mean_of(g * normal)) / root,
    ),
    (
        f"{FOR_X}, where the term of the root is not multiplied by x-hat",
        "The root moves by x-hat / d: the mean of (g' times x-hat) is multiplied by x-hat.",
        lambda g, normal, root: (g - mean_of(g * normal)) / root,
    ),
    (
        f"{FOR_X}, where the term of the root has x-hat once only",
        "x-hat stands there twice: x-hat times the mean of (g' times x-hat).",
        lambda g, normal, root: (g - normal * mean_of(g)) / root,
    ),
    (
        f"{FOR_X}, where the term of the root lacks its mean",
        "The mean over the d numbers of (g' times x-hat), then times x-hat.",
        lambda g, normal, root: (g - normal * (g * normal)) / root,
    ),
    (
        f"{FOR_X}, where the term of the root has a sum in place of its mean",
        "The mean over the d numbers of (g' times x-hat): divide the sum by d.",
        lambda g, normal, root: (g - normal * mean_of(g * normal) * g.shape[-1]) / root,
    ),
    (
        f"{FOR_X}, where x stands in place of x-hat",
        "x-hat is x divided by the root.",
        lambda g, normal, root: (g - root**2 * normal * mean_of(g * normal)) / root,
    ),
    (
        f"{FOR_X}, where the term of the root is added",
        "It is subtracted: it takes out of the gradient what would only stretch x.",
        lambda g, normal, root: (g + normal * mean_of(g * normal)) / root,
    ),
    (
        f"{FOR_X}, where the mean goes over the tokens",
        "The root belongs to one token: the mean goes over its d numbers, the last axis.",
        lambda g, normal, root: (g - normal * mean_of(g * normal, 0)) / root,
    ),
    (
        f"{FOR_X}, where the mean goes over all numbers",
        "The root belongs to one token: dim=-1, keepdim=True.",
        lambda g, normal, root: (g - normal * (g * normal).mean()) / root,
    ),
    (
        f"{FOR_X}, which is not divided by the root",
        "x-hat is x / root: so 1 / root stands in front of both terms.",
        lambda g, normal, root: _toward_x(g, normal, 1.0),
    ),
    (
        f"{FOR_X}, where only the first term is divided by the root",
        "1 / root stands in front of both terms.",
        lambda g, normal, root: g / root - normal * mean_of(g * normal),
    ),
    (
        f"{FOR_X}, which is divided by mean square + eps",
        "Divide by its root.",
        lambda g, normal, root: _toward_x(g, normal, root**2),
    ),
    (
        f"{FOR_X}, which has the gradient at x-hat",
        "That is the first step, grad_output times gain. It has to go through the norm.",
        lambda g, normal, root: g,
    ),
    (
        f"{FOR_X}, whose term of the root has a factor of 2 too much",
        "The root of a square: the 2 of the square and the 1/2 of the root cancel.",
        lambda g, normal, root: (g - 2 * normal * mean_of(g * normal)) / root,
    ),
    (
        f"{FOR_X}, whose term of the root has half of what it should",
        "The root of a square: the 2 of the square and the 1/2 of the root cancel.",
        lambda g, normal, root: (g - normal * mean_of(g * normal) / 2) / root,
    ),
):
    rms_norm_gradient.wrong(name, hint)(_backward(toward_x=toward_x))
rms_norm_gradient.wrong(
    "right but for the gain, which is used twice",
    "In the gradient of x it stands once, in its own not at all.",
)(
    lambda x, gain, grad_output, eps: tuple(
        gain * gradient for gradient in _backward()(x, gain, grad_output, eps)
    )
)
rms_norm_gradient.wrong(
    "right but for x, where the gain is left out",
    "The gradient at x-hat is grad_output times gain.",
)(_backward(to_normal=lambda grad_output, gain: grad_output))
rms_norm_gradient.wrong(
    "right but for x, where the gain multiplies at the end",
    "The gain comes after the norm, so going back it comes first: grad_output times gain, and then "
    "the mean.",
)(
    lambda x, gain, grad_output, eps: (
        _backward(to_normal=lambda grad_output, gain: grad_output)(x, gain, grad_output, eps)[0]
        * gain,
        _backward()(x, gain, grad_output, eps)[1],
    )
)
for name, hint, toward_gain in (
    (
        "right but for the gain: its gradient lacks x-hat",
        "gain multiplies x-hat: the gradient is the sum over the tokens of grad_output times it.",
        lambda grad_output, normal, gain, root: grad_output,
    ),
    (
        "right but for the gain: its gradient is multiplied by the gain",
        "gain multiplies x-hat, so its own gradient is the sum of grad_output times x-hat.",
        lambda grad_output, normal, gain, root: grad_output * gain * normal,
    ),
    (
        "right but for the gain: its gradient has x in place of x-hat",
        "gain multiplies x-hat, not x.",
        lambda grad_output, normal, gain, root: grad_output * normal * root,
    ),
):
    rms_norm_gradient.wrong(name, hint)(_backward(toward_gain=toward_gain))
rms_norm_gradient.wrong(
    "right but for the gain: its gradient is not summed",
    "All tokens use the same gain: sum over all axes but the last.",
)(_backward(gather=lambda x: x))
rms_norm_gradient.wrong(
    "right but for the gain: its gradient is a mean",
    "All tokens use the same gain: what arrives from them is summed, not averaged.",
)(_backward(gather=lambda x: x.reshape(-1, x.shape[-1]).mean(dim=0)))
rms_norm_gradient.wrong(
    "right but for the gain: its gradient is summed over the features",
    "Each feature has its own gain: sum over the tokens, all axes but the last.",
)(_backward(gather=lambda x: x.sum(dim=-1)))
rms_norm_gradient.wrong(
    "right for tokens in a row: the gradient of the gain is summed over the first axis alone",
    "Any number of axes may stand in front, or none: sum over all but the last.",
)(_backward(gather=lambda x: x.sum(dim=0) if x.ndim > 1 else x.sum()))
rms_norm_gradient.wrong(
    "right but for the order: the gain comes before x",
    "Return the gradients of x and gain, in this order.",
)(lambda *case: _backward()(*case)[::-1])
rms_norm_gradient.wrong(
    "the gradient of a norm that divides by the standard deviation",
    "The mean square of x itself, without its mean.",
)(_backward(square=lambda x: variance_of(x, mean_of(x))))
rms_norm_gradient.wrong(
    "right but for the root, in which a sum stands for the mean",
    "The mean of the squares: divide by d.",
)(_backward(square=lambda x: (x**2).sum(dim=-1, keepdim=True)))
rms_norm_gradient.wrong(
    "right but for eps, which is left out",
    "Divide by the root of (mean square + eps).",
)(_backward(root=lambda square, eps: square**0.5))
rms_norm_gradient.wrong(
    "right but for eps, which is always 1e-5",
    "Use the argument eps; 1e-5 is only what it is when the caller does not say.",
)(_backward(root=lambda square, eps: (square + 1e-5) ** 0.5))
rms_norm_gradient.wrong(
    "right but for eps, which stands outside the root",
    "Divide by the root of (mean square + eps).",
)(_backward(root=lambda square, eps: square**0.5 + eps))
rms_norm_gradient.wrong(
    "the gradient of x alone",
    "Two tensors: the gradients of x and of gain.",
)(lambda *case: _backward()(*case)[0])
