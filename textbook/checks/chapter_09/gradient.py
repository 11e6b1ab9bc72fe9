"""The gradient of RMSNorm by hand."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _gradient_cases(draw, others=()):
    """Tokens in a row, in a batch, and one alone."""
    public = [((2, 3), 0.5), ((3, 4), 1e-5), ((2, 3, 5), 0.5)]
    for size, eps in others or public:
        yield draw.normal(*size) + 0.5, draw.normal(size[-1]) + 2, draw.normal(*size), eps


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
    hidden_cases=lambda draw: _gradient_cases(
        draw, others=[((5, 3), 1e-5), ((4,), 0.5), ((2, 2, 3, 4), 0.1)]
    ),
    run=_named,
    forbidden=("backward",),
    instead="mean, sum, -, * and /: the point is to do what they do",
    properties=(_uses_the_gain_once, _takes_out_what_stretches),
    reasons=(_sums_over_all_tokens,),
    gradients=False,
    after_passing="Shorter: with g = grad * gain, dx = (g - x_hat * mean(g * x_hat)) / r.",
    see='chapter 09, "Its gradient by hand"',
)
def rms_norm_gradient(x, gain, grad_output, eps=1e-5):
    """x and grad_output (..., d), gain (d) give the gradients of x (..., d) and gain (d)."""
    r = ((x**2).mean(dim=-1, keepdim=True) + eps).sqrt()  # (..., 1)
    normal = x / r
    g = grad_output * gain  # the gradient at x-hat
    toward_x = (g - normal * (g * normal).mean(dim=-1, keepdim=True)) / r
    return toward_x, (grad_output * normal).reshape(-1, len(gain)).sum(dim=0)
