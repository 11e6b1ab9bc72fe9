"""A loss with smoothed targets, in which padding has no part."""

import math

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.released import exercise


def _loss_cases(draw, others=()):
    """Scores (B, T, V), targets (B, T), smoothing, the number of the padding token."""
    sizes = others or [(1, 3, 4, 0), (2, 4, 5, 2), (3, 3, 6, 5)]
    for i, (batch, steps, size, padding) in enumerate(sizes):
        for smoothing in (0.1, 0.0, 0.3, 1.0)[: 4 if i == 1 else 2]:
            scores = draw.normal(batch, steps, size)
            targets = (padding + 1 + draw.integers(size - 1, batch, steps)) % size
            lengths = (1 + draw.integers(steps, batch)).unsqueeze(1)
            lengths[0] = steps - 1 if batch > 1 else steps
            targets = targets.masked_fill(mt.arange(steps) >= lengths, padding)
            yield scores, targets, smoothing, padding
    scores = scores.clone()
    scores[..., padding] = -mt.inf  # a model that never says padding
    yield scores, targets, 0.2, padding
    scores = draw.normal(*scores.shape) * 400
    yield scores, targets, 0.1, padding
    yield draw.normal(*scores.shape) * 20 + 850, targets, 0.1, padding
    scores = draw.normal(*scores.shape)
    scores[targets == padding] = mt.nan
    yield scores, targets, 0.1, padding


def _asked_for(check, answer, *_):
    """The distribution that a loss asks for, read off its gradient softmax(scores) S - q."""
    scores = mt.zeros(1, 1, 5, requires_grad=True)
    loss = answer(scores, mt.tensor([[3]]), 0.3, 1)
    loss.backward()
    total = loss.item() / math.log(5)
    asked = [total / 5 - x for x in scores.grad.flatten().tolist()]
    wanted = [0.1, 0.0, 0.1, 0.7, 0.1]
    if max(abs(x - y) for x, y in zip(asked, wanted, strict=True)) < 1e-6:
        return None
    scores = mt.arange(5.0).reshape(1, 1, 5) ** 0.5
    meant = -(mt.tensor(asked) * scores[0, 0].log_softmax(dim=-1)).sum().item()
    if abs(answer(scores, mt.tensor([[3]]), 0.3, 1).item() - meant) > 1e-4:
        return None  # no cross-entropy of any shares
    return (
        "With V = 5, padding 1, smoothing 0.3 and the right token 3, your loss asks for the shares "
        f"q = [{', '.join(f'{x + 0.0:.3g}' for x in asked)}]; "
        f"[{', '.join(f'{x:.3g}' for x in wanted)}] belongs there."
    )


def _multiplied_by_0(check, answer, scores, targets, smoothing, padding):
    """Right but for scores that are NaN at padding."""
    if scores.isnan().any():
        wanted = check.reference(scores, targets, smoothing, padding)
        if not difference(answer(scores, targets, smoothing, padding), wanted, ""):
            return (
                "The loss is right; the gradient is NaN: on the way back 0 meets NaN. Take "
                "scores[real] before the softmax."
            )
    numbers = scores.masked_fill((targets == padding).unsqueeze(-1), 0.0)
    case = numbers, targets, smoothing, padding
    if scores.isnan().any() and not difference(answer(*case), check.reference(*case), ""):
        return (
            "With numbers in place of the NaN at padding it is right. A loss that is multiplied by "
            "0 stays NaN: leave these positions out, by an index or by masked_fill."
        )
    return None


smoothed_loss = exercise(
    "smoothed_loss",
    cases=_loss_cases,
    reasons=(_multiplied_by_0, _asked_for),
    forbidden=("cross_entropy",),
    instead="log_softmax, indexing, sums and means",
    see='chapter 11, "The ingredients of training"',
)
