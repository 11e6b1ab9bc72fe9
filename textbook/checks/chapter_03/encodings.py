"""A sentence as one vector: something between the mean and the maximum."""

import minitorch as mt
from textbook.checks.released import exercise


def _pooling_cases(draw, more=()):
    """States with many negative ones; padding with numbers that win or spoil everything."""
    sizes = [([1, 3], 2, 1, None), ([3, 5, 2], 4, 2, 100.0), ([4, 2, 4], 4, 3, mt.nan)]
    sizes += [([2, 4, 3], 5, 1, -1e6), ([1, 3, 5], 4, 100, mt.inf), ([5, 3], 4, 2, -mt.inf)]
    sizes += more
    for i, (counts, width, k, filler) in enumerate(sizes):
        n = max(counts) + i % 2
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        states = draw.normal(len(counts), n, width) - (1e4 if i == 3 else 1)
        if filler is not None:
            states = states.masked_fill(padding.unsqueeze(-1), filler)
        yield states, padding, k


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


def _nan_of_padding(check, answer, states, padding, k):
    """Whether the padding alone makes it NaN."""
    words = states.masked_fill(padding.unsqueeze(-1), 0.0)
    whole = answer(words, mt.zeros_like(padding), k)
    if bool(whole.isnan().any()) or not bool(answer(states, padding, k).isnan().any()):
        return None
    return (
        "It is NaN where there is padding, and only there: 0 times infinity, or times what is NaN "
        "already, is NaN. masked_fill and where multiply nothing."
    )


largest_mean = exercise(
    "largest_mean",
    cases=_pooling_cases,
    reasons=(_nan_of_padding,),
    properties=(_padding_is_not_read, _each_unit_for_itself),
    see='chapter 03, "One vector for a sentence"',
)
