"""Attention under a mask, and the loop that it stands for: one growing set of keys a step."""

import functools
import math

import minitorch as mt
from minitorch.autograd.modes import listening
from minitorch.flops import count_flops
from textbook.checks.exercise import Draw, exercise

# Under a mask


def _masked_cases(draw, hidden):
    """In public cases T = n, so that a transposed mask gives a wrong number.

    Some scores are large, and the largest of them lie where nobody may look.
    """
    causal = mt.ones(3, 3, dtype=mt.bool).tril()
    yield *_three(draw, (1, 1), 2, 2, 2, 1), causal[:2, :2]
    yield *_three(draw, (1,), 2, 2, 2, 3), mt.tensor([[True, True], [False, False]])
    yield *_three(draw, (2, 2), 3, 3, 2, 3), causal & (draw.normal(2, 1, 1, 3) > 0)
    yield *_three(draw, (), 3, 3, 4, 2), draw.normal(3, 3) > 0
    for first, last in (-100_000, 200_000), (-800, 800), (-10, 40):
        query, key, value = _three(draw, (), 2, 2, 2, 2)
        far = mt.tensor([[first], [last]])  # the last key has the higher scores
        yield _from_1_to_2(query), far * _from_1_to_2(key), value, causal[:2, :2]
    if hidden:
        yield *_three(draw, (2, 3), 4, 6, 5, 2), draw.normal(2, 1, 4, 6) > 0
        yield *_three(draw, (3,), 5, 2, 3, 4), draw.normal(3, 5, 2) > -0.5
        yield *_three(draw, (2,), 3, 4, 2, 2), mt.zeros(2, 1, 4, dtype=mt.bool)


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


def _attending(score=scaled, weigh=masked_softmax):
    """Masked attention with one of its pieces exchanged."""

    def attention(query, key, value, allowed):
        return weigh(score(query, key), allowed) @ value

    return attention


def _hidden_keys_take_no_part(answer, query, key, value, allowed):
    """A key that no query may look at gets gradient 0, exactly, and so does its value."""
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
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (..., T, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value  # NaN stands only where nothing is allowed


masked_attention.wrong(
    "attention without a mask: allowed is not used",
    "Where allowed is False, the score becomes minus infinity before the softmax.",
)(_attending(weigh=lambda scores, allowed: scores.softmax(dim=-1)))
masked_attention.wrong(
    "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
    "By then the hidden keys have had their share of the sum, and through that sum the future "
    "leaks. Mask the scores, before the softmax. (A slide says 'setting attention weights to 0'.)",
)(_attending(weigh=lambda scores, allowed: scores.softmax(dim=-1) * allowed))
masked_attention.wrong(
    "attention with scores of 0 where nobody may look",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)(_attending(weigh=lambda scores, allowed: (scores * allowed).softmax(dim=-1)))
masked_attention.wrong(
    "masked by adding the booleans to the scores",
    "True counts as 1, so an allowed score is larger by 1 and the others stay. What must be added "
    "is 0 where a query may look and minus infinity where not.",
)(_attending(weigh=lambda scores, allowed: (scores + allowed).softmax(dim=-1)))
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

    return _attending(weigh=weigh)


masked_attention.wrong(
    "masked after the softmax and divided by the sum of what is left",
    LATE,
)(_divided_anew(lambda total: total))
masked_attention.wrong(
    "masked after the softmax and divided by the sum of what is left, or by a small number",
    LATE,
)(_divided_anew(lambda total: total.clamp(min=1e-9)))

# A softmax written out

OVERFLOW = (
    "exp of some hundreds is infinite, and inf / inf and 0 * inf are not numbers. Subtract the "
    "largest allowed score of each row first, or use softmax on masked scores."
)


def _written_out(total):
    def weigh(scores, allowed):
        exponentials = scores.exp() * allowed
        return exponentials / total(exponentials.sum(dim=-1, keepdim=True))

    return _attending(weigh=weigh)


masked_attention.wrong(
    "a softmax written out that overflows where scores are large",
    OVERFLOW,
)(_written_out(lambda total: total))
masked_attention.wrong(
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
masked_attention.wrong(
    "masked with a score that is not low enough",
    TOO_SMALL,
)(_attending(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -1e4).softmax(dim=-1)))
masked_attention.wrong(
    "masked by adding a number that is not low enough",
    TOO_SMALL,
)(_attending(weigh=lambda scores, allowed: (scores - 1e4 * ~allowed).softmax(dim=-1)))
masked_attention.wrong(
    "masked with a score that is not low enough, though the rows with nothing to look at are right",
    TOO_SMALL,
)(
    _attending(
        weigh=lambda scores, allowed: (
            scores.masked_fill(~allowed, -1e4).softmax(dim=-1) * allowed.any(dim=-1, keepdim=True)
        )
    )
)
for number, far in (-100.0, "far from low enough"), (-1e4, "not low enough"):
    masked_attention.wrong(
        f"masked with a score that is {far}; then the weights of hidden keys are set to 0",
        "A finite number may look low, but where the allowed scores are lower still the hidden "
        "keys have won the softmax, and nothing is left for the others. Use minus infinity.",
    )(
        _attending(
            weigh=lambda scores, allowed, number=number: (
                scores.masked_fill(~allowed, number).softmax(dim=-1) * allowed
            )
        )
    )
masked_attention.wrong(
    "masked with a score that is far from low enough",
    TOO_SMALL,
)(_attending(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -100.0).softmax(dim=-1)))
masked_attention.wrong(
    "right but for the rows with nothing to look at: they hold the mean of all values",
    FINITE,
)(_attending(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -1e9).softmax(dim=-1)))
masked_attention.wrong(
    "right but for the rows with nothing to look at: they look as if there were no mask",
    FINITE,
)(_attending(weigh=lambda scores, allowed: (scores - 1e9 * ~allowed).softmax(dim=-1)))

# Not a number

masked_attention.wrong(
    "right but for the rows with nothing to look at: they are not a number",
    "A softmax of nothing but minus infinity is 0 / 0. Set the weights of such a row to 0, after "
    "the softmax: section 5 of the chapter.",
)(_attending(weigh=_softmax))
masked_attention.wrong(
    "right in its values, but NaN is turned into 0 only in the output, and the gradients stay NaN",
    "On the way back 0 times NaN is NaN, and the values' gradient comes from the weights. Set the "
    "weights of such a row to 0, before they meet the values: section 5 of the chapter.",
)(
    lambda query, key, value, allowed: (
        output := _softmax(scaled(query, key), allowed) @ value
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

for careful, weights in (True, masked_softmax), (False, _softmax):
    for name, hint, attention in (
        (
            "masked the wrong way round: it looks exactly where it must not",
            "masked_fill changes the places where its mask is True, and in allowed True means: may "
            "look. Give it ~allowed.",
            _attending(weigh=lambda scores, allowed, weights=weights: weights(scores, ~allowed)),
        ),
        (
            "right but for the mask, which is transposed",
            "Row i of the mask belongs to query i and column j to key j, as in the scores.",
            _attending(weigh=lambda scores, allowed, weights=weights: weights(scores, allowed.mT)),
        ),
        (
            "right but for the softmax, which goes over the queries",
            "Every query shares its attention among the keys: the softmax goes over the last axis.",
            _attending(weigh=functools.partial(weights, dim=-2)),
        ),
        (
            "right but for the scale: the scores are not divided by the square root of d",
            "From chapter 05 on, scores are query . key / sqrt(d), d the size of a key.",
            _attending(score=lambda query, key: query @ key.mT, weigh=weights),
        ),
        (
            "right but for the scale: the scores are divided by d",
            "Divide by the square root of d, the size of a key.",
            _attending(
                score=lambda query, key: query @ key.mT / query.shape[-1],
                weigh=weights,
            ),
        ),
    ):
        also = "" if careful else " (and rows with nothing to look at are not zeros)"
        masked_attention.wrong(name + also, hint)(attention)


# The growing set of keys


def _growing_cases(draw, hidden):
    for batch, n, d in [(1, 2, 1), (1, 3, 2), (2, 4, 3)] + [(3, 1, 2), (2, 7, 4)] * hidden:
        yield draw.normal(batch, n, d), *(draw.normal(d, d) for _ in range(3))


def _growing(
    seen=lambda keys, t: keys[:, : t + 1],
    asking=lambda queries, t: queries[:, t : t + 1],
    score=scaled,
    kept=lambda x: x,
    weigh=lambda scores: scores.softmax(dim=-1),
):
    """The loop with one of its pieces exchanged."""

    def loop(X, Q, K, V):
        queries, keys, values = X @ Q, kept(X @ K), kept(X @ V)
        outputs = []
        for t in range(X.shape[1]):
            scores = score(asking(queries, t), seen(keys, t))  # (B, 1, t + 1)
            outputs.append(weigh(scores) @ seen(values, t))
        return mt.cat(outputs, dim=1)

    return loop


def _noting_shapes(shapes):
    def listen(name, inputs, outputs, backward):
        shapes.extend(tuple(x.shape) for x in outputs)

    return listen


def _does_nothing_in_vain(answer, *case):
    """n = 12, d = 4: 1,152 FLOPs for queries, keys and values, 1,248 for 78 pairs."""
    draw, shapes = Draw(0), []
    inputs = draw.normal(1, 12, 4), *(draw.normal(4, 4) for _ in range(3))
    with count_flops() as counter, listening(_noting_shapes(shapes)):
        answer(*inputs)
    if counter.total > 2_600:
        return (
            f"For n = 12 and d = 4 your answer costs {counter.total:,} FLOPs, and it goes with "
            "2,400. Compute each query, key and value once, and at step t the scores of those "
            "keys alone that are there. (All n scores of a step with a mask on top cost 3,456; "
            "keys and values made anew at each step 6,624.)"
        )
    if any(shape.count(12) > 1 for shape in shapes):
        return (
            "For n = 12 your answer makes a tensor with n x n places. At step t there are t + 1 "
            "scores, so that such a table is never needed."
        )
    return None


@exercise(
    cases=_growing_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="@ and softmax",
    properties=(_does_nothing_in_vain,),
    see='chapter 07, "The growing key set"',
)
def one_at_a_time(X, Q, K, V):
    """Causal self-attention of X (B, n, d), one token after the other: (B, n, d)."""
    queries, keys, values = X @ Q, X @ K, X @ V
    outputs = []
    for t in range(X.shape[1]):
        query = queries[:, t : t + 1]  # (B, 1, d)
        scores = query @ keys[:, : t + 1].transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, 1, t + 1)
        outputs.append(scores.softmax(dim=-1) @ values[:, : t + 1])
    return mt.cat(outputs, dim=1)


one_at_a_time.wrong(
    "a loop in which every step sees all keys: nothing keeps the future out",
    "At step t there are t + 1 keys (counting from 0): those of the tokens 0 to t.",
)(_growing(seen=lambda keys, t: keys))
one_at_a_time.wrong(
    "off by one: a token does not look at itself",
    "Token t is one of the keys at step t: keys[:, : t + 1].",
)(_growing(seen=lambda keys, t: keys[:, :t]))
one_at_a_time.wrong(
    "off by one: each step sees one token too many",
    "The last key at step t is that of token t: keys[:, : t + 1].",
)(_growing(seen=lambda keys, t: keys[:, : t + 2]))
one_at_a_time.wrong(
    "a loop in which each token looks at itself alone: the values come out as they are",
    "The keys of the earlier tokens stay in the set, which grows.",
)(_growing(seen=lambda keys, t: keys[:, t : t + 1]))
one_at_a_time.wrong(
    "a loop that looks to the right: at the tokens from t on",
    "What has been read comes before t: keys[:, : t + 1].",
)(_growing(seen=lambda keys, t: keys[:, t:]))
one_at_a_time.wrong(
    "right but for the scale: the scores are not divided by the square root of d",
    "From chapter 05 on, scores are query . key / sqrt(d), d the size of a key.",
)(_growing(score=lambda query, key: query @ key.transpose(-1, -2)))
one_at_a_time.wrong(
    "a loop without a softmax: the scores themselves are the weights",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(_growing(weigh=lambda scores: scores))
one_at_a_time.wrong(
    "a loop that asks with the first query at every step",
    "At step t the query of token t asks.",
)(_growing(asking=lambda queries, t: queries[:, :1]))
one_at_a_time.wrong(
    "right in its values, but the gradient stops at the keys and values that are kept",
    "Keep them as they are, without detach(): a loss at step t reaches all tokens before.",
)(_growing(kept=mt.Tensor.detach))
one_at_a_time.wrong(
    "a loop with a softmax over the batch",
    "The keys of one sequence compete: the softmax goes over the last axis.",
)(_growing(weigh=lambda scores: scores.softmax(dim=0)))


@one_at_a_time.wrong(
    "a loop without the matrix Q: the tokens themselves ask",
    "The queries are X @ Q.",
)
def _(X, Q, K, V):
    return _growing()(X, mt.eye(len(Q)), K, V)


@one_at_a_time.wrong(
    "a loop that averages the keys",
    "Keys are what a query is compared with; what is averaged are the values, X @ V.",
)
def _(X, Q, K, V):
    return _growing()(X, Q, K, K)


@one_at_a_time.wrong(
    "right but for the order of the axes: the steps come first",
    "Put the outputs together along axis 1: (B, n, d).",
)
def _(X, Q, K, V):
    return one_at_a_time.reference(X, Q, K, V).transpose(0, 1)
