"""The gradient through attention, by hand."""

from textbook.checks.released import exercise


def _gradient_cases(draw, more=()):
    """Also one query, one word, and large scores."""
    sizes = [(1, 1, 2, 4, 1), (1, 2, 3, 4, 1), (2, 3, 5, 4, 1), (2, 3, 4, 5, 9)]
    for batch, steps, n, d, scale in [*sizes, *more]:
        yield (
            scale * draw.normal(batch, steps, d),
            draw.normal(batch, n, d),
            draw.normal(batch, steps, d),
        )


attention_gradient = exercise(
    "attention_gradient",
    cases=_gradient_cases,
    forbidden=("backward",),
    instead="@, * and sum",
    gradients=False,
    see='chapter 04, "A shorter path for the gradient"',
)
