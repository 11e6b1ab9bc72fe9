"""Weighted averages: kernel regression, and attention with padding."""

import minitorch as mt
from textbook.checks.exercise import exercise

# Kernel regression, each point left out


def _point_cases(draw, more=()):
    """Flat, sharp and very sharp widths; few points and points of several numbers."""
    sizes = [(2, 1, 1.0), (3, 2, 0.5), (5, 1, 0.01), (6, 3, 30.0), (4, 2, 1e-3)]
    for n, d, width in [*sizes, *more]:
        yield draw.normal(n, d), 2 + draw.normal(n), width


@exercise(
    cases=_point_cases,
    hidden_cases=lambda draw: _point_cases(draw, more=[(9, 1, 0.3), (7, 4, 2e-3), (12, 5, 2.0)]),
    gradients=False,
    after_passing=(
        "Shorter: with the weights p of all points, the guess without i is (o_i - p_ii v_i) / "
        "(1 - p_ii). But it cancels where p_ii is near 1."
    ),
    see='chapter 04, "Without any network"',
)
def leave_one_out(keys, values, width):
    """Keys (n, d) and values (n) give the mean squared error of kernel regression, a number."""
    distances = (keys.unsqueeze(1) - keys.unsqueeze(0)).square().sum(dim=-1)  # (n, n)
    scores = (-distances / (2 * width**2)).masked_fill(mt.eye(len(keys)).bool(), -mt.inf)
    return (scores.softmax(dim=-1) @ values - values).square().mean()


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


@exercise(
    cases=_padded_cases,
    hidden_cases=lambda draw: _padded_cases(
        draw, more=[([1], 1, 4, 2, None), ([6, 0, 9, 4], 3, 5, 7, mt.nan), ([0, 1], 4, 4, 4, None)]
    ),
    forbidden=("scaled_dot_product_attention",),
    instead="@, masked_fill and softmax",
    properties=(_padding_is_not_read,),
    reasons=(_padding_to_clean,),
    see='chapter 04, "In matrices"',
)
def attend(queries, keys, values, padding):
    """Queries (B, T, d), keys, values (B, n, ...), padding (B, n): outputs, weights (B, T, n)."""
    hidden = padding.unsqueeze(1)  # (B, 1, n)
    keys, values = keys.masked_fill(hidden.mT, 0.0), values.masked_fill(hidden.mT, 0.0)
    empty = hidden.all(dim=-1, keepdim=True)  # (B, 1, 1)
    scores = (queries @ keys.mT).masked_fill(hidden & ~empty, -mt.inf)  # (B, T, n)
    weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
    return weights @ values, weights
