"""Attention under a mask."""

import math

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise

# Under a mask


def _masked_cases(draw):
    """In public cases T = n in most, so that a transposed mask gives a wrong number.

    Some scores are large, and the largest of them lie where nobody may look. What stands at keys
    that no query may look at, and their values, is sometimes infinite or no number.
    """
    yield from _finite_cases(draw)
    real = _real()
    yield _spoilt(draw, mt.nan, real, real)


def _real():
    """Of four keys the first three, and the first two: (B, 1, 1, n)."""
    return mt.arange(4) < mt.tensor([3, 2])[:, None, None, None]


def _spoilt(draw, filler, real, allowed):
    """A case in which keys that are not real, and their values, hold this number."""
    query, key, value = _three(draw, (2, 3), 4, 4, 2, 3)
    key, value = (mt.where(real.mT, x, filler) for x in (key, value))
    return query, key, value, allowed


def _finite_cases(draw):
    causal = mt.ones(3, 3, dtype=mt.bool).tril()
    yield *_three(draw, (1, 1), 2, 2, 2, 1), causal[:2, :2]
    yield *_three(draw, (1,), 2, 2, 2, 3), mt.tensor([[True, True], [False, False]])
    yield *_three(draw, (2, 2), 3, 3, 2, 3), causal & (draw.normal(2, 1, 1, 3) > 0)
    yield *_three(draw, (), 3, 3, 4, 2), draw.normal(3, 3) > 0
    yield *_three(draw, (2,), 3, 4, 2, 3), None
    for first, last in (-100_000, 200_000), (20_000, 60_000), (-800, 800), (-10, 40):
        query, key, value = _three(draw, (), 2, 2, 2, 2)
        far = mt.tensor([[first], [last]])  # the last key has the higher scores
        yield _from_1_to_2(query), far * _from_1_to_2(key), value, causal[:2, :2]


def _three(draw, lead, steps, n, d, d_v):
    return draw.normal(*lead, steps, d), draw.normal(*lead, n, d), draw.normal(*lead, n, d_v)


def _from_1_to_2(x):
    return x.tanh().abs() + 1


def scaled(query, key):
    """(..., T, d), (..., n, d) -> scores (..., T, n)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def masked_softmax(scores, allowed):
    """Weights (..., T, n), 0 in a row that may look nowhere."""
    return scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1).masked_fill(~allowed, 0.0)


def _hidden_keys_take_no_part(answer, query, key, value, allowed):
    """A key that no query may look at gets gradient 0, exactly, and so does its value."""
    if allowed is None:
        return None
    tensors = [x.requires_grad_() for x in (query, key, value)]
    (out := answer(*tensors, allowed)).mul(Draw(0).normal(*out.shape)).sum().backward()
    everywhere = allowed.expand(*query.shape[:-1], key.shape[-2])
    unseen = ~everywhere.any(dim=-2).unsqueeze(-1)  # (..., n, 1)
    for name, x in (("key", key), ("value", value)):
        if x.grad is not None and bool(((x.grad != 0) & unseen).any()):
            return f"The gradient at a {name} that no query may look at must be exactly 0."
    return None


def _weights_add_up_to_one(answer, query, key, value, allowed):
    """With values that are all 1, what comes out are the sums of the weights."""
    shape = *query.shape[:-1], key.shape[-2]
    allowed = mt.ones(shape, dtype=mt.bool) if allowed is None else allowed
    sums = answer(query, key, mt.ones_like(value), allowed)
    somewhere = allowed.any(dim=-1, keepdim=True).to(value.dtype).expand(*sums.shape)
    if not mt.allclose(sums, somewhere):
        return "The weights of a row must add up to 1, or be all 0 where nothing is allowed."
    return None


masked_attention = exercise(
    "masked_attention",
    cases=_masked_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, masked_fill and softmax",
    properties=(_weights_add_up_to_one, _hidden_keys_take_no_part),
    see='chapter 07, "Before the softmax, not after"',
)
