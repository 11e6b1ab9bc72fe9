"""Attention maps: how far they are from a known alignment, and the gradient through them."""

import minitorch as mt
from textbook.checks.exercise import exercise

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


@exercise(
    cases=_map_cases,
    hidden_cases=lambda draw: _map_cases(draw, more=[([5, 2, 6], 7, 0.3), ([3], 4, 0.5)]),
    gradients=False,
    see='chapter 04, "Alignment for free"',
)
def alignment_error_rate(weights, counts, sure, possible, threshold):
    """The alignment error rate of attention maps (B, T, n), from 0 to 1."""
    found = correct = known = 0
    for rows, count, s, p in zip(weights, counts, sure, possible, strict=True):
        links = set()
        for t in range(count):
            j = rows[t].argmax().item()
            if rows[t, j].item() >= threshold:
                links.add((t, j))
        found, known = found + len(links), known + len(s)
        correct += len(links & s) + len(links & (s | p))
    return 1 - correct / (found + known)


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
