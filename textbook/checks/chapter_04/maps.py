"""Attention maps: how far they are from a known alignment, and the gradient through them."""

import minitorch as mt
from textbook.checks.released import exercise

# Alignment error rate


def _map_cases(draw, more=()):
    """Maps with padding behind the rows, links that are sure or possible, and rows without any."""
    sizes = [([2, 3], 3, 0.0), ([3, 1, 4], 4, 0.3), ([2, 4], 5, 0.25), ([4, 3, 2], 4, 0.45)]
    for counts, n, threshold in [*sizes, *more]:
        scores = 1.5 * draw.normal(len(counts), max(counts) + 1, n)
        weights = scores.softmax(dim=-1)
        sure, possible = [], []
        for b, count in enumerate(counts):
            places = weights[b].argsort(dim=-1, descending=True).tolist()
            links = {(t, places[t][int(draw.integers(2, 1))]) for t in range(count)}
            links |= {(0, places[0][0]), (0, places[0][1])}
            links -= {(count - 1, j) for j in range(n)} if count > 2 else set()
            extra = {(t, places[t][int(draw.integers(n, 1))]) for t in range(count)}
            sure.append(links)
            possible.append(extra - links)
        yield weights, counts, sure, possible, threshold
    half = mt.tensor([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0]]])  # at the threshold
    yield half.double(), [2], [{(0, 0), (1, 0)}], [{(1, 2)}], 0.5


alignment_error_rate = exercise(
    "alignment_error_rate",
    cases=_map_cases,
    gradients=False,
    see='chapter 04, "Alignment for free"',
)


# The gradient by hand


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
