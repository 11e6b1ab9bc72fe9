"""Scaled dot-product attention, with a bias."""

import minitorch as mt
from textbook.checks.released import exercise

# Attention


def _attention_cases(draw, others=()):
    """Any leading axes; sizes that differ, so that each wrong divisor gives a wrong number.

    Biases are None, of fewer axes, or shut keys; in some cases all keys of a query are shut.
    """
    sizes = others or [(1, (), 1, 2, 3, 2), (1, (3,), 2, 3, 5, 1), (1000, (2, 2), 3, 2, 4, 2)]
    for scale, lead, steps, n, d, d_v in sizes:
        query, key = scale * draw.normal(*lead, steps, d), draw.normal(*lead, n, d)
        value = draw.normal(*lead, n, d_v)
        yield query, key, value, None
        yield query, key, value, draw.normal(steps, n)
    for lead, steps, n, d in [((2,), 3, 4, 5), ((), 4, 3, 2)]:
        query, key, value = (draw.normal(*lead, k, d) for k in (steps, n, n))
        bias = draw.normal(*lead, steps, n).masked_fill(draw.normal(*lead, steps, n) > 0.5, -mt.inf)
        bias[..., 0, :] = 0.0
        bias[..., 0, 1] = -mt.inf
        yield query, key, value, bias.clone()
        bias[..., 1, :] = -mt.inf  # nothing is left for this query
        yield query, key, value, bias
    query, key, value = (draw.normal(3, 2, k, 5) for k in (3, 4, 4))
    bias = draw.normal(3, 4)
    bias[1] -= 2e9  # low, but not minus infinity; one key is shut among them
    bias[1, 0] = -mt.inf
    bias[2] -= 2e9  # and here none is shut
    yield query, key, value, bias


def _shut(scores):
    """(..., T, 1), True where all scores of a query are minus infinity."""
    return (scores == -mt.inf).all(dim=-1, keepdim=True)


def _averages(answer, query, key, value, bias):
    output = answer(query, key, mt.ones_like(value), bias)
    shut = mt.tensor(False) if bias is None else _shut(bias)
    if not mt.allclose(output.masked_fill(shut, 1.0), mt.ones_like(output)):
        return (
            "The check asked again with all values set to 1, and not every output was 1: the "
            "weights of a query must add up to 1."
        )
    if not mt.allclose(output.masked_fill(~shut, 0.0), mt.zeros_like(output)):
        return "The output of a query whose keys are all shut must be zeros."
    return None


def _not_divided(check, answer, query, key, value, bias):
    """Whether the scores are not divided, seen where there is no bias to be wrong as well."""
    plain = (query @ key.mT).softmax(dim=-1) @ value
    if bias is None and mt.allclose(answer(query, key, value, bias), plain):
        return "Without a bias all is right but for the scores: divide them by the root of d."
    return None


attention = exercise(
    "attention",
    cases=_attention_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, transpose and softmax",
    properties=(_averages,),
    reasons=(_not_divided,),
    see='chapter 05, "Dividing by the root of d"',
)
