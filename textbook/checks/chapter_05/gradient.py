"""The gradient of self-attention by hand."""

from textbook.checks.chapter_05.tokens import sequence
from textbook.checks.released import exercise


def _gradient_cases(draw, others=()):
    for n, d in others or [(3, 4), (4, 2)]:
        yield *sequence(draw, n, d), draw.normal(n, d)


self_attention_gradient = exercise(
    "self_attention_gradient",
    cases=_gradient_cases,
    forbidden=("backward",),
    instead="@, * and sum",
    gradients=False,
    see='chapter 05, "In matrices"',
)
