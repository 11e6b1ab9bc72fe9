"""A sentence as one vector: something between the mean and the maximum."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _pooling_cases(draw, hidden):
    """States with many negative ones; padding with numbers that win or spoil everything."""
    sizes = [([1, 3], 2, 1, None), ([3, 5, 2], 4, 2, 100.0), ([4, 2, 4], 4, 3, mt.nan)]
    sizes += [([2, 4, 3], 5, 1, -1e6), ([1, 3, 5], 4, 100, mt.inf), ([5, 3], 4, 2, -mt.inf)]
    if hidden:
        sizes += [([1], 2, 3, None), ([6, 2, 9, 4], 7, 4, mt.nan), ([3, 7], 5, 7, 1e30)]
    for i, (counts, width, k, filler) in enumerate(sizes):
        n = max(counts) + i % 2
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        states = draw.normal(len(counts), n, width) - (1e4 if i == 3 else 1)
        if filler is not None:
            states = states.masked_fill(padding.unsqueeze(-1), filler)
        yield states, padding, k


def _ordered(states, padding):
    """Numbers of each unit from the largest down, (B, n, H); minus infinity at the end."""
    return states.masked_fill(padding.unsqueeze(-1), -mt.inf).sort(dim=1, descending=True)[0]


def _there(padding, k):
    """(B, n, 1): which of the ordered numbers count."""
    n = padding.shape[1]
    counts = (~padding).sum(1, keepdim=True).clamp(max=k)
    return (mt.arange(n) < counts).unsqueeze(-1)


def _pooling(
    ordered=_ordered,
    there=_there,
    divide=lambda padding, k: (~padding).sum(1, keepdim=True).clamp(max=k),
):
    """The pooling with one of its pieces exchanged."""

    def pooling(states, padding, k):
        kept = ordered(states, padding).masked_fill(~there(padding, k), 0.0)
        return kept.sum(dim=1) / divide(padding, k)

    return pooling


def _each_unit_for_itself(answer, states, padding, k):
    """Whether a unit stays as it is while late words, or early ones, grow in all others."""
    own, before = mt.arange(states.shape[-1]) == 0, answer(states, padding, k)
    late = 10.0 ** mt.arange(states.shape[1]).reshape(1, -1, 1)
    for factor in (late, 1 / late):
        after = answer(mt.where(own, states, states * factor), padding, k)
        if not mt.allclose(after[:, 0], before[:, 0]):
            return (
                "Unit 0 of the result changed when only others did: each unit chooses its own k "
                "words, by its own numbers."
            )
    return None


def _padding_is_not_read(answer, states, padding, k):
    if not bool(padding.any()):
        return None
    leaf = states.clone().requires_grad_()
    [gradient] = mt.autograd.grad(answer(leaf, padding, k).sum(), leaf)
    if not bool((gradient[padding] == 0).all()):
        return "The gradient at a padded position must be exactly zero."
    changed = mt.where(padding.unsqueeze(-1), mt.full_like(states, 50.0), states)
    if not mt.equal(answer(states, padding, k), answer(changed, padding, k)):
        return "What stands in the padding must not change the result."
    return None


@exercise(
    cases=_pooling_cases,
    properties=(_padding_is_not_read, _each_unit_for_itself),
    see='chapter 03, "One vector for a sentence"',
)
def largest_mean(states, padding, k):
    """States (B, n, H) and padding (B, n) give for each unit the mean of its k largest, (B, H)."""
    counts = (~padding).sum(dim=1, keepdim=True).clamp(max=k)  # (B, 1)
    states = states.masked_fill(padding.unsqueeze(-1), -mt.inf)
    largest, _ = states.topk(min(k, states.shape[1]), dim=1)  # (B, k, H)
    extra = mt.arange(largest.shape[1]) >= counts  # (B, k)
    return largest.masked_fill(extra.unsqueeze(-1), 0.0).sum(dim=1) / counts


largest_mean.wrong(
    "the maximum, whatever k is",
    "The k largest numbers of each unit, and their mean.",
)(lambda states, padding, k: largest_mean.reference(states, padding, 1))
largest_mean.wrong(
    "the mean of all states, whatever k is",
    "Only the k largest numbers of each unit count.",
)(lambda states, padding, k: largest_mean.reference(states, padding, states.shape[1]))
largest_mean.wrong(
    "right for sentences of k words or more: it divides by k",
    "Where a sentence has fewer words than k, all of them count: divide by their number.",
)(_pooling(divide=lambda padding, k: k))
largest_mean.wrong(
    "right but for the division: it divides by the number of words",
    "Divide by the number of numbers that were added up, k at most.",
)(_pooling(divide=lambda padding, k: (~padding).sum(1, keepdim=True)))
largest_mean.wrong(
    "the sum of the k largest, not their mean",
    "Divide by the number of numbers that were added up.",
)(_pooling(divide=lambda padding, k: 1))
largest_mean.wrong(
    "the k-th largest number alone",
    "Add up the k largest, and divide.",
)(
    lambda states, padding, k: (
        _ordered(states, padding)
        .gather(
            1,
            ((~padding).sum(1).clamp(max=k) - 1)
            .reshape(-1, 1, 1)
            .expand(len(states), 1, states.shape[2]),
        )
        .squeeze(1)
    )
)
largest_mean.wrong(
    "the mean of the k smallest",
    "The largest.",
)(lambda states, padding, k: -largest_mean.reference(-states, padding, k))
largest_mean.wrong(
    "the mean of the k largest in absolute value",
    "-3 is smaller than 1.",
)(
    _pooling(
        ordered=lambda states, padding: _by(
            states.masked_fill(padding.unsqueeze(-1), 0.0),
            states.abs().masked_fill(padding.unsqueeze(-1), -mt.inf),
        )
    )
)
largest_mean.wrong(
    "the mean of the k words with the largest sums",
    "Each unit chooses its own k words.",
)(
    _pooling(
        ordered=lambda states, padding: _by(
            states.masked_fill(padding.unsqueeze(-1), 0.0),
            states.sum(dim=-1, keepdim=True)
            .masked_fill(padding.unsqueeze(-1), -mt.inf)
            .expand(*states.shape),
        )
    )
)
largest_mean.wrong(
    "the mean of the first k words",
    "Not the first: the largest, unit by unit.",
)(_pooling(ordered=lambda states, padding: states.masked_fill(padding.unsqueeze(-1), 0.0)))
largest_mean.wrong(
    "the mean of the last k words",
    "Not the last: the largest, unit by unit.",
)(
    lambda states, padding, k: mt.stack(
        [row[~rest][-k:].mean(dim=0) for row, rest in zip(states, padding, strict=True)]
    )
)
largest_mean.wrong(
    "right but for the padding, which takes part",
    "Minus infinity never is among the largest: put it into the padding first.",
)(lambda states, padding, k: states.topk(min(k, states.shape[1]), dim=1)[0].mean(dim=1))
largest_mean.wrong(
    "right but for the padding, which takes part as zeros",
    "Where all states are negative, a zero is among the largest. Put minus infinity there.",
)(
    lambda states, padding, k: (
        states.masked_fill(padding.unsqueeze(-1), 0.0)
        .topk(min(k, states.shape[1]), dim=1)[0]
        .mean(dim=1)
    )
)
largest_mean.wrong(
    "right but for the padding, whose zeros win against negative numbers",
    "Where all states are negative, a zero is among the largest. Put minus infinity there.",
)(
    lambda states, padding, k: (
        states.masked_fill(padding.unsqueeze(-1), 0.0)
        .topk(min(k, states.shape[1]), dim=1)[0]
        .sum(dim=1)
        / (~padding).sum(1, keepdim=True).clamp(max=k)
    )
)
largest_mean.wrong(
    "right but for the padding, whose zeros come before negative numbers",
    "A zero is larger than what is negative. Put minus infinity there.",
)(
    _pooling(
        ordered=lambda states, padding: states.masked_fill(padding.unsqueeze(-1), 0.0).sort(
            dim=1, descending=True
        )[0]
    )
)
largest_mean.wrong(
    "right but for the padding, which is multiplied by 0",
    "What is no number stays so, and a zero is larger than what is negative. Put minus infinity "
    "there, by masked_fill.",
)(
    _pooling(
        ordered=lambda states, padding: (states * ~padding.unsqueeze(-1)).sort(
            dim=1, descending=True
        )[0]
    )
)
largest_mean.wrong(
    "the mean of the k smallest, and minus infinity in the padding is the smallest of all",
    "The largest.",
)(
    _pooling(
        ordered=lambda states, padding: states.masked_fill(padding.unsqueeze(-1), -mt.inf).sort(
            dim=1
        )[0]
    )
)
largest_mean.wrong(
    "right but for the padding, which holds a number that is not low enough",
    "States may be lower still: minus infinity.",
)(
    _pooling(
        ordered=lambda states, padding: states.masked_fill(padding.unsqueeze(-1), -1e3).sort(
            dim=1, descending=True
        )[0]
    )
)
largest_mean.wrong(
    "right where all sentences have k words: else minus infinity gets into the sum",
    "The places of the k largest that the sentence cannot fill must not be added up.",
)(
    lambda states, padding, k: (
        states.masked_fill(padding.unsqueeze(-1), -mt.inf)
        .topk(min(k, states.shape[1]), dim=1)[0]
        .mean(dim=1)
    )
)
largest_mean.wrong(
    "right where all sentences have k words: else minus infinity is multiplied by 0",
    "0 times infinity is no number: masked_fill or where.",
)(
    lambda states, padding, k: (
        (_ordered(states, padding) * _there(padding, k))[:, :k].sum(dim=1)
        / (~padding).sum(1, keepdim=True).clamp(max=k)
    )
)
largest_mean.wrong(
    "right but for the mask, which is the wrong way round",
    "padding is True at the padding.",
)(lambda states, padding, k: largest_mean.reference(states, ~padding, k))


def _by(states, keys):
    """The states in the order of falling keys, unit by unit."""
    return states.gather(1, keys.argsort(dim=1, descending=True))
