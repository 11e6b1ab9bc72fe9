"""Weighted averages: kernel regression, and attention with padding."""

import minitorch as mt
from textbook.checks.released import exercise

# Kernel regression, each point left out


def _point_cases(draw, more=()):
    """Flat, sharp and very sharp widths; few points and points of several numbers."""
    sizes = [(2, 1, 1.0), (3, 2, 0.5), (5, 1, 0.01), (6, 3, 30.0), (4, 2, 1e-3)]
    for n, d, width in [*sizes, *more]:
        yield draw.normal(n, d), 2 + draw.normal(n), width


leave_one_out = exercise(
    "leave_one_out",
    cases=_point_cases,
    gradients=False,
    see='chapter 04, "Without any network"',
)


# Attention with padding, and with nothing to look at


def _padded_cases(draw, more=()):
    """Sources of several lengths, some empty; padding that holds anything; large scores."""
    sizes = [([2, 3], 2, 4, 2, None), ([1, 3, 0], 3, 4, 5, 1e6), ([4, 2, 3], 5, 4, 3, mt.nan)]
    sizes += [([0, 2], 2, 3, 2, mt.inf), ([3, 0, 4], 3, 5, 1, -mt.inf), ([3, 1], 4, 4, 3, -1e30)]
    sizes += more
    for i, (counts, steps, d, d_v, filler) in enumerate(sizes):
        n = max(1, *counts) + i % 2
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        queries = (300 if i == 1 else 1) * draw.normal(len(counts), steps, d)
        keys, values = draw.normal(len(counts), n, d), draw.normal(len(counts), n, d_v)
        if filler is not None:
            keys, values = (x.masked_fill(padding.unsqueeze(-1), filler) for x in (keys, values))
        yield queries, keys, values, padding


def _clean(x, padding):
    return x.masked_fill(padding.unsqueeze(-1), 0.0)


def _padding_is_not_read(answer, queries, keys, values, padding):
    if not bool(padding.any()):
        return None
    leaves = [x.clone().requires_grad_() for x in (keys, values)]
    outputs, weights = answer(queries, *leaves, padding)
    if bool((weights.mT[padding] != 0).any()):
        return "The weight of a padded word must be exactly 0."
    if outputs.requires_grad:
        for gradient in mt.autograd.grad(outputs.sum(), leaves, allow_unused=True):
            if gradient is not None and bool((gradient[padding] != 0).any()):
                return "The gradient at a padded word must be exactly 0."
    return None


def _padding_to_clean(check, answer, queries, keys, values, padding):
    """Whether it is the padding of the keys, or of the values, from which a NaN comes."""

    def numbers(keys, values):
        leaves = [x.clone().requires_grad_() for x in (queries, keys, values)]
        outputs, _ = answer(*leaves, padding)
        gradients = mt.autograd.grad(outputs.sum(), leaves, allow_unused=True)
        return all(bool(x.isfinite().all()) for x in (outputs, *gradients) if x is not None)

    given = {"keys": (_clean(keys, padding), values), "values": (keys, _clean(values, padding))}
    fitting = [name for name, cleaned in given.items() if numbers(*cleaned)]
    if numbers(keys, values) or len(fitting) != 1:
        return None
    return (
        f"It is the padding of the {fitting[0]}: with 0 there all are numbers. Put it there by "
        "masked_fill before they are used: 0 times infinity is no number, on the way back, too."
    )


attend = exercise(
    "attend",
    cases=_padded_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="@, masked_fill and softmax",
    properties=(_padding_is_not_read,),
    reasons=(_padding_to_clean,),
    see='chapter 04, "In matrices"',
)
