"""The gradient through attention, by hand."""

from textbook.checks.exercise import exercise


def _gradient_cases(draw, more=()):
    """Also one query, one word, and large scores."""
    sizes = [(1, 1, 2, 4, 1), (1, 2, 3, 4, 1), (2, 3, 5, 4, 1), (2, 3, 4, 5, 9)]
    for batch, steps, n, d, scale in [*sizes, *more]:
        yield (
            scale * draw.normal(batch, steps, d),
            draw.normal(batch, n, d),
            draw.normal(batch, steps, d),
        )


@exercise(
    cases=_gradient_cases,
    hidden_cases=lambda draw: _gradient_cases(draw, more=[(4, 2, 7, 5, 1), (1, 3, 1, 4, 1)]),
    forbidden=("backward",),
    instead="@, * and sum",
    gradients=False,
    see='chapter 04, "A shorter path for the gradient"',
)
def attention_gradient(states, memory, grad_outputs):
    """The gradients of the loss with respect to states (B, T, d) and memory (B, n, d)."""
    weights = (states @ memory.mT).softmax(dim=-1)  # (B, T, n)
    grad_weights = grad_outputs @ memory.mT
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    grad_scores = weights * (grad_weights - average)  # (B, T, n)
    grad_memory = weights.mT @ grad_outputs + grad_scores.mT @ states  # as values, as keys
    return grad_scores @ memory, grad_memory
