"""Attention under a mask."""

import functools
import math

import minitorch as mt
from textbook.checks.exercise import Draw, exercise

# Under a mask


def _masked_cases(draw, hidden):
    """In public cases T = n in most, so that a transposed mask gives a wrong number.

    Some scores are large, and the largest of them lie where nobody may look. What stands at keys
    that no query may look at, and their values, is sometimes infinite or no number.
    """
    causal = mt.ones(3, 3, dtype=mt.bool).tril()
    yield *_three(draw, (1, 1), 2, 2, 2, 1), causal[:2, :2]
    yield *_three(draw, (1,), 2, 2, 2, 3), mt.tensor([[True, True], [False, False]])
    yield *_three(draw, (2, 2), 3, 3, 2, 3), causal & (draw.normal(2, 1, 1, 3) > 0)
    yield *_three(draw, (), 3, 3, 4, 2), draw.normal(3, 3) > 0
    yield *_three(draw, (2,), 3, 4, 2, 3), None
    for first, last in (-100_000, 200_000), (-800, 800), (-10, 40):
        query, key, value = _three(draw, (), 2, 2, 2, 2)
        far = mt.tensor([[first], [last]])  # the last key has the higher scores
        yield _from_1_to_2(query), far * _from_1_to_2(key), value, causal[:2, :2]
    allowed = real = mt.arange(4) < mt.tensor([3, 2])[:, None, None, None]  # (B, 1, 1, n)
    if hidden:
        yield *_three(draw, (2, 3), 4, 6, 5, 2), draw.normal(2, 1, 4, 6) > 0
        yield *_three(draw, (3,), 5, 2, 3, 4), draw.normal(3, 5, 2) > -0.5
        yield *_three(draw, (2,), 3, 4, 2, 2), mt.zeros(2, 1, 4, dtype=mt.bool)
        allowed = real & (mt.arange(4) <= mt.arange(4).unsqueeze(1) + 1)
    for filler in (mt.inf, 1e300) if hidden else (mt.nan,):
        query, key, value = _three(draw, (2, 3), 4, 4, 2, 3)
        key, value = (mt.where(real.mT, x, filler) for x in (key, value))
        yield query, key, value, allowed


def _three(draw, lead, steps, n, d, d_v):
    return draw.normal(*lead, steps, d), draw.normal(*lead, n, d), draw.normal(*lead, n, d_v)


def _from_1_to_2(x):
    return x.tanh().abs() + 1


def scaled(query, key):
    """(..., T, d), (..., n, d) -> scores (..., T, n)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def _softmax(scores, allowed, dim=-1):
    """Weights (..., T, n), NaN in a row that may look nowhere."""
    return scores.masked_fill(~allowed, -mt.inf).softmax(dim=dim)


def masked_softmax(scores, allowed, dim=-1):
    """Weights (..., T, n), 0 in a row that may look nowhere."""
    return _softmax(scores, allowed, dim).masked_fill(~allowed, 0.0)


def _cleared(x, allowed, shape):
    """Keys or values (..., n, d) with zeros where no query may look."""
    return x.masked_fill(~allowed.expand(*shape).any(dim=-2).unsqueeze(-1), 0.0)


def _attending(score=scaled, weigh=masked_softmax, clear=_cleared):
    """Masked attention with one of its pieces exchanged; ``clear`` makes keys and values safe."""

    def attention(query, key, value, allowed):
        shape = *query.shape[:-1], key.shape[-2]
        if allowed is None:
            allowed = mt.ones(shape, dtype=mt.bool)
        key, value = (clear(x, allowed, shape) for x in (key, value))
        return weigh(score(query, key), allowed) @ value

    return attention


def _as_it_is(x, allowed, shape):
    return x


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


@exercise(
    cases=_masked_cases,
    forbidden=("scaled_dot_product_attention", "linear"),  # nn.MultiheadAttention runs linear
    instead="@, masked_fill and softmax",
    properties=(_weights_add_up_to_one, _hidden_keys_take_no_part),
    see='chapter 07, "Before the softmax, not after"',
)
def masked_attention(query, key, value, allowed):
    """Outputs (..., T, d_v): each query's average of the values that it may look at."""
    shape = *query.shape[:-1], key.shape[-2]  # of the scores, (..., T, n)
    allowed = mt.ones(shape, dtype=mt.bool) if allowed is None else allowed.expand(*shape)
    unseen = ~allowed.any(dim=-2).unsqueeze(-1)  # (..., n, 1)
    key, value = key.masked_fill(unseen, 0.0), value.masked_fill(unseen, 0.0)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value  # NaN stands only where nothing is allowed


PADDING = " (and what stands in the padding gets through)"


def _wrong(name, hint):
    """Add a mistake that comes with and without care for what stands at hidden keys."""

    def add(pieces):
        masked_attention.wrong(name, hint)(_attending(**pieces))
        masked_attention.wrong(name + PADDING, hint)(_attending(clear=_as_it_is, **pieces))

    return add


NOT_A_NUMBER = (
    "0 times NaN is NaN, and so is 0 times infinity: a weight of 0 does not keep out what stands "
    "at a hidden place. Set keys and values to 0 where no query may look, before any product."
)
masked_attention.wrong(
    "right but for the padding: where it holds NaN or infinity, so does the output",
    NOT_A_NUMBER,
)(_attending(clear=_as_it_is))


masked_attention.wrong(
    "attention that forgets each key at which some query may not look",
    "A key counts as hidden only where no query may look at it: any, not all.",
)(
    _attending(
        clear=lambda x, allowed, shape: x.masked_fill(
            ~allowed.expand(*shape).all(dim=-2).unsqueeze(-1), 0.0
        )
    )
)
masked_attention.wrong(
    "attention with scores of 0 where nobody may look, though rows without a key are right",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)(
    _attending(
        weigh=lambda scores, allowed: (
            scores.masked_fill(~allowed, 0.0).softmax(dim=-1) * allowed.any(dim=-1, keepdim=True)
        )
    )
)
masked_attention.wrong(
    "right without a mask, and with one masked the wrong way round",
    "masked_fill changes the places where its mask is True, and in allowed True means: may look. "
    "Give it ~allowed.",
)(
    lambda query, key, value, allowed: _attending(
        weigh=lambda scores, every: masked_softmax(scores, every if allowed is None else ~every)
    )(query, key, value, allowed)
)


masked_attention.wrong(
    "right for one sequence and head: a key counts as seen if any query of the batch may look",
    "What is hidden in one sequence another may see: ask for each sequence and head by itself.",
)(
    _attending(
        clear=lambda x, allowed, shape: x.masked_fill(
            ~allowed.expand(*shape).flatten(0, -2).any(dim=0).unsqueeze(-1), 0.0
        )
    )
)


def _values_alone(query, key, value, allowed):
    """Values are set to 0, keys are not: their scores are masked, but not their gradients."""
    if allowed is not None:
        value = _cleared(value, allowed, (*query.shape[:-1], key.shape[-2]))
    return _attending(clear=_as_it_is)(query, key, value, allowed)


masked_attention.wrong(
    "right in its values, but the gradient is no number where a hidden key holds NaN or infinity",
    "On the way back the gradient of a query is a sum over the keys, and 0 times NaN is NaN. Set "
    "the keys to 0 where no query may look, too, and not their values alone.",
)(_values_alone)
_wrong(
    "attention without a mask: allowed is not used",
    "Where allowed is False, the score becomes minus infinity before the softmax.",
)(dict(weigh=lambda scores, allowed: scores.softmax(dim=-1)))
_wrong(
    "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
    "By then the hidden keys have had their share of the sum, and through that sum the future "
    "leaks. Mask the scores, before the softmax. (A slide says 'setting attention weights to 0'.)",
)(dict(weigh=lambda scores, allowed: scores.softmax(dim=-1) * allowed))
_wrong(
    "attention with scores of 0 where nobody may look",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)(dict(weigh=lambda scores, allowed: (scores * allowed).softmax(dim=-1)))
_wrong(
    "masked by adding the booleans to the scores",
    "True counts as 1, so an allowed score is larger by 1 and the others stay. What must be added "
    "is 0 where a query may look and minus infinity where not.",
)(dict(weigh=lambda scores, allowed: (scores + allowed).softmax(dim=-1)))
masked_attention.wrong(
    "not a number at every allowed place: 0 times minus infinity has been added",
    "0 * -inf is NaN, so a product cannot make the mask. Use masked_fill or mt.where.",
)(_attending(weigh=lambda scores, allowed: (scores + ~allowed * -mt.inf).softmax(dim=-1)))

# After the softmax, and divided anew

LATE = (
    "On paper that is right where anything is allowed, but where the hidden keys have the high "
    "scores the softmax leaves 0 for all others. Mask the scores, before the softmax."
)


def _divided_anew(total):
    def weigh(scores, allowed):
        weights = scores.softmax(dim=-1) * allowed
        return weights / total(weights.sum(dim=-1, keepdim=True))

    return dict(weigh=weigh)


_wrong(
    "masked after the softmax and divided by the sum of what is left",
    LATE,
)(_divided_anew(lambda total: total))
_wrong(
    "masked after the softmax and divided by the sum of what is left, or by a small number",
    LATE,
)(_divided_anew(lambda total: total.clamp(min=1e-9)))

_wrong(
    "masked after the softmax and divided by the sum of what is left, where anything is allowed",
    LATE,
)(
    dict(
        weigh=lambda scores, allowed: (
            (weights := scores.softmax(dim=-1) * allowed)
            / weights.sum(dim=-1, keepdim=True).masked_fill(~allowed.any(-1, keepdim=True), 1.0)
        )
    )
)

# A softmax written out

OVERFLOW = (
    "exp of some hundreds is infinite, and inf / inf and 0 * inf are not numbers. Subtract the "
    "largest allowed score of each row first, or use softmax on masked scores."
)


def _written_out(total):
    def weigh(scores, allowed):
        exponentials = scores.exp() * allowed
        return exponentials / total(exponentials.sum(dim=-1, keepdim=True))

    return dict(weigh=weigh)


_wrong(
    "a softmax written out that overflows where scores are large",
    OVERFLOW,
)(_written_out(lambda total: total))
_wrong(
    "a softmax written out that overflows where scores are large, with a small number in the sum",
    OVERFLOW,
)(_written_out(lambda total: total + 1e-30))

# A number that is large, but finite

TOO_SMALL = (
    "A finite number may look low, but where the allowed scores are lower still the hidden keys "
    "win; and a row that may look nowhere looks everywhere. Use minus infinity."
)
FINITE = (
    "With a finite number for minus infinity, the row with nothing to look at still shares out all "
    "its weight, among keys that it must not see. Its output must be 0."
)
_wrong(
    "masked with a score that is not low enough",
    TOO_SMALL,
)(dict(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -1e4).softmax(dim=-1)))
_wrong(
    "masked by adding a number that is not low enough",
    TOO_SMALL,
)(dict(weigh=lambda scores, allowed: (scores - 1e4 * ~allowed).softmax(dim=-1)))
_wrong(
    "masked with a score that is not low enough, though the rows with nothing to look at are right",
    TOO_SMALL,
)(
    dict(
        weigh=lambda scores, allowed: (
            scores.masked_fill(~allowed, -1e4).softmax(dim=-1) * allowed.any(dim=-1, keepdim=True)
        )
    )
)
for number, far in (-100.0, "far from low enough"), (-1e4, "not low enough"):
    _wrong(
        f"masked with a score that is {far}; then the weights of hidden keys are set to 0",
        "A finite number may look low, but where the allowed scores are lower still the hidden "
        "keys have won the softmax, and nothing is left for the others. Use minus infinity.",
    )(
        dict(
            weigh=lambda scores, allowed, number=number: (
                scores.masked_fill(~allowed, number).softmax(dim=-1) * allowed
            )
        )
    )
_wrong(
    "masked with a score that is far from low enough",
    TOO_SMALL,
)(dict(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -100.0).softmax(dim=-1)))
_wrong(
    "right but for the rows with nothing to look at: they hold the mean of all values",
    FINITE,
)(dict(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -1e9).softmax(dim=-1)))
_wrong(
    "right but for the rows with nothing to look at: they look as if there were no mask",
    FINITE,
)(dict(weigh=lambda scores, allowed: (scores - 1e9 * ~allowed).softmax(dim=-1)))

# Not a number

_wrong(
    "right but for the rows with nothing to look at: they are not a number",
    "A softmax of nothing but minus infinity is 0 / 0. Set the weights of such a row to 0, after "
    "the softmax: a side road of the chapter.",
)(dict(weigh=_softmax))
masked_attention.wrong(
    "right in its values, but NaN is turned into 0 only in the output, and the gradients stay NaN",
    "On the way back 0 times NaN is NaN, and the values' gradient comes from the weights. Set the "
    "weights of such a row to 0, before they meet the values: a side road of the chapter.",
)(
    lambda query, key, value, allowed: (
        output := _attending(weigh=_softmax)(query, key, value, allowed)
    ).masked_fill(output.isnan(), 0.0)
)
masked_attention.wrong(
    "right in its values, but the gradient is not a number where a row has nothing to look at",
    "The NaN comes back through the softmax, where 0 times NaN is NaN, to scores that had minus "
    "infinity added. masked_fill lets nothing through to the scores that it replaces; an addition "
    "does.",
)(
    _attending(
        weigh=lambda scores, allowed: (
            (scores + mt.zeros(allowed.shape).masked_fill(~allowed, -mt.inf))
            .softmax(dim=-1)
            .masked_fill(~allowed, 0.0)
        )
    )
)

# Mistakes that come with and without care for the rows with nothing to look at

EMPTY = " (and rows with nothing to look at are not zeros)"
for careful, weights in (True, masked_softmax), (False, _softmax):
    for name, hint, pieces in (
        (
            "masked the wrong way round: it looks exactly where it must not",
            "masked_fill changes the places where its mask is True, and in allowed True means: may "
            "look. Give it ~allowed.",
            dict(weigh=lambda scores, allowed, weights=weights: weights(scores, ~allowed)),
        ),
        (
            "right but for the mask, which is transposed",
            "Row i of the mask belongs to query i and column j to key j, as in the scores.",
            dict(weigh=lambda scores, allowed, weights=weights: weights(scores, allowed.mT)),
        ),
        (
            "right but for the scale: the scores are not divided by the square root of d",
            "From chapter 05 on, scores are query . key / sqrt(d), d the size of a key.",
            dict(score=lambda query, key: query @ key.mT, weigh=weights),
        ),
        (
            "right but for the scale: the scores are divided by d",
            "Divide by the square root of d, the size of a key.",
            dict(
                score=lambda query, key: query @ key.mT / query.shape[-1],
                weigh=weights,
            ),
        ),
    ):
        _wrong(name if careful else name + EMPTY, hint)(pieces)

OVER_QUERIES = (
    "right but for the softmax, which goes over the queries",
    "Every query shares its attention among the keys: the softmax goes over the last axis.",
)
_wrong(*OVER_QUERIES)(dict(weigh=functools.partial(masked_softmax, dim=-2)))
masked_attention.wrong(OVER_QUERIES[0] + EMPTY, OVER_QUERIES[1])(
    _attending(weigh=functools.partial(_softmax, dim=-2))
)
