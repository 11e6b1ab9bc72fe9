"""Weighted averages: kernel regression, and attention with padding."""

import minitorch as mt
from textbook.checks.exercise import exercise

# Kernel regression, each point left out


def _point_cases(draw, hidden):
    """Flat, sharp and very sharp widths; few points and points of several numbers."""
    sizes = [(2, 1, 1.0), (3, 2, 0.5), (5, 1, 0.01), (6, 3, 30.0), (4, 2, 1e-3)]
    for n, d, width in sizes + [(9, 1, 0.3), (7, 4, 2e-3), (12, 5, 2.0)] * hidden:
        yield draw.normal(n, d), 2 + draw.normal(n), width


def _left_out(scores):
    return scores.masked_fill(mt.eye(len(scores)).bool(), -mt.inf).softmax(dim=-1)


def _leaving(
    distance=lambda a, b: (a - b).square().sum(dim=-1),
    score=lambda distance, width: -distance / (2 * width**2),
    weigh=_left_out,
    error=lambda found, values: (found - values).square().mean(),
):
    """The error with one of its pieces exchanged."""

    def leaving(keys, values, width):
        scores = score(distance(keys.unsqueeze(1), keys.unsqueeze(0)), width)
        return error(weigh(scores) @ values, values)

    return leaving


@exercise(cases=_point_cases, gradients=False, see='chapter 04, "Without any network"')
def leave_one_out(keys, values, width):
    """Keys (n, d) and values (n) give the mean squared error of kernel regression, a number."""
    distances = (keys.unsqueeze(1) - keys.unsqueeze(0)).square().sum(dim=-1)  # (n, n)
    scores = (-distances / (2 * width**2)).masked_fill(mt.eye(len(keys)).bool(), -mt.inf)
    return (scores.softmax(dim=-1) @ values - values).square().mean()


for name, hint, pieces in (
    (
        "an error of points that take part in their own guess",
        "With a sharp query each point would find itself, and the error would be 0. Its own "
        "score is minus infinity.",
        dict(weigh=lambda scores: scores.softmax(dim=-1)),
    ),
    (
        "right but for the weights, which no longer add up to 1",
        "Take the point out of the scores, before the softmax.",
        dict(weigh=lambda scores: scores.softmax(dim=-1) * (1 - mt.eye(len(scores)))),
    ),
    (
        "right on paper, but every exponential is 0 where the width is small",
        "0 / 0 is no number. softmax subtracts the largest score first.",
        dict(
            weigh=lambda scores: (
                (scores.exp() * (1 - mt.eye(len(scores))))
                / (scores.exp() * (1 - mt.eye(len(scores)))).sum(dim=-1, keepdim=True)
            )
        ),
    ),
    (
        "right on paper, but where the width is small every exponential is 0, and so is the guess",
        "What is added to their sum does not help. softmax subtracts the largest score first.",
        dict(
            weigh=lambda scores: (
                (scores.exp() * (1 - mt.eye(len(scores))))
                / ((scores.exp() * (1 - mt.eye(len(scores)))).sum(dim=-1, keepdim=True) + 1e-12)
            )
        ),
    ),
    (
        "right but for a softmax over the queries",
        "Each guess has weights that add up to 1: over the keys, the last axis.",
        dict(
            weigh=lambda scores: scores.masked_fill(mt.eye(len(scores)).bool(), -mt.inf).softmax(
                dim=0
            )
        ),
    ),
    (
        "right for wide queries: its own score is -10000, which others fall below",
        "Where the width is small, all other scores are lower still. Minus infinity.",
        dict(
            weigh=lambda scores: scores.masked_fill(mt.eye(len(scores)).bool(), -1e4).softmax(
                dim=-1
            )
        ),
    ),
    (
        "right for keys of one number: of others it takes the first alone",
        "The squared distance adds up over all d numbers of a key.",
        dict(distance=lambda a, b: (a - b)[..., 0].square()),
    ),
    (
        "right but for the distances, which are not squared",
        "The score is minus the squared distance, divided by twice the squared width.",
        dict(distance=lambda a, b: (a - b).square().sum(dim=-1).sqrt()),
    ),
    (
        "right but for the distances, which add up absolute differences",
        "The squared distance: the sum of the squares.",
        dict(distance=lambda a, b: (a - b).abs().sum(dim=-1)),
    ),
    (
        "right but for the sign of the scores",
        "Near keys count more: the score falls with the distance.",
        dict(score=lambda distance, width: distance / (2 * width**2)),
    ),
    (
        "right but for the 2 below the distance",
        "Minus the squared distance, divided by twice the squared width.",
        dict(score=lambda distance, width: -distance / width**2),
    ),
    (
        "right but for the width, which is not squared",
        "Minus the squared distance, divided by twice the squared width.",
        dict(score=lambda distance, width: -distance / (2 * width)),
    ),
    (
        "right but for the width, by which it multiplies",
        "A small width is a sharp query: divide.",
        dict(score=lambda distance, width: -distance * width**2 / 2),
    ),
    (
        "right but for the weights: the nearest point alone counts",
        "All others count, by their weights.",
        dict(
            weigh=lambda scores: (
                _left_out(scores) == _left_out(scores).amax(dim=-1, keepdim=True)
            ).double()
        ),
    ),
    (
        "right but for the weights: all others count alike",
        "Near ones count more.",
        dict(weigh=lambda scores: _left_out(0 * scores)),
    ),
    (
        "the sum of the squared errors",
        "Their mean.",
        dict(error=lambda found, values: (found - values).square().sum()),
    ),
    (
        "the sum of the squared errors, divided by n - 1",
        "The mean of n errors: divide by n.",
        dict(error=lambda found, values: (found - values).square().sum() / (len(values) - 1)),
    ),
    (
        "the root of the mean squared error",
        "The mean of the squares, without the root.",
        dict(error=lambda found, values: (found - values).square().mean().sqrt()),
    ),
    (
        "the mean absolute error",
        "The mean of the squares.",
        dict(error=lambda found, values: (found - values).abs().mean()),
    ),
    (
        "the mean error, in which signs cancel",
        "The mean of the squares.",
        dict(error=lambda found, values: (found - values).mean()),
    ),
    ("the guesses, not their error", "One number.", dict(error=lambda found, values: found)),
):
    leave_one_out.wrong(name, hint)(_leaving(**pieces))

# Attention with padding, and with nothing to look at


def _padded_cases(draw, hidden):
    """Sources of several lengths, some empty; padding that holds anything; large scores."""
    sizes = [([2, 3], 2, 4, 2, None), ([1, 3, 0], 3, 4, 5, 1e6), ([4, 2, 3], 5, 4, 3, mt.nan)]
    sizes += [([0, 2], 2, 3, 2, mt.inf), ([3, 0, 4], 3, 5, 1, -mt.inf), ([3, 1], 4, 4, 3, -1e30)]
    if hidden:
        sizes += [([1], 1, 4, 2, None), ([6, 0, 9, 4], 3, 5, 7, mt.nan), ([0, 1], 4, 4, 4, None)]
    for i, (counts, steps, d, d_v, filler) in enumerate(sizes):
        n = max(1, *counts) + i % 2
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        queries = (300 if i == 1 else 1) * draw.normal(len(counts), steps, d)
        keys, values = draw.normal(len(counts), n, d), draw.normal(len(counts), n, d_v)
        if filler is not None:
            keys, values = (x.masked_fill(padding.unsqueeze(-1), filler) for x in (keys, values))
        yield queries, keys, values, padding


def _masked(scores, hidden):
    """(B, T, n), (B, 1, n): weights, 0 where hidden and in rows without anything to look at."""
    empty = hidden.all(dim=-1, keepdim=True)
    return scores.masked_fill(hidden & ~empty, -mt.inf).softmax(dim=-1).masked_fill(hidden, 0.0)


def _clean(x, padding):
    return x.masked_fill(padding.unsqueeze(-1), 0.0)


def _attending(
    clean=_clean,
    score=lambda queries, keys: queries @ keys.mT,
    weigh=_masked,
    combine=mt.matmul,
    say=lambda outputs, weights: (outputs, weights),
):
    """Attention with one of its pieces exchanged."""

    def attending(queries, keys, values, padding):
        keys, values = clean(keys, padding), clean(values, padding)
        weights = weigh(score(queries, keys), padding.unsqueeze(1))
        return say(combine(weights, values), weights)

    return attending


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


for name, hint, pieces in (
    (
        "attention that looks at the padding, too",
        "A padded word has the score minus infinity.",
        dict(weigh=lambda scores, hidden: scores.softmax(dim=-1)),
    ),
    (
        "right but for empty sources, whose weights are no numbers",
        "Where nothing may be looked at, a softmax of minus infinity alone is 0 / 0: weights and "
        "outputs are 0 there.",
        dict(weigh=lambda scores, hidden: scores.masked_fill(hidden, -mt.inf).softmax(dim=-1)),
    ),
    (
        "right but for empty sources, at whose padding it looks evenly",
        "Where there is nothing to look at, weights and outputs are 0.",
        dict(
            weigh=lambda scores, hidden: scores.masked_fill(
                hidden & ~hidden.all(dim=-1, keepdim=True), -mt.inf
            ).softmax(dim=-1)
        ),
    ),
    (
        "right as long as the padding of the values holds ordinary numbers",
        "A weight of 0 does not help against what is infinite: 0 times infinity is no number. "
        "Put 0 into keys and values there first, by masked_fill, not by a product.",
        dict(clean=lambda x, padding: x),
    ),
    (
        "attention with scores of 0 at the padding",
        "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a word out.",
        dict(
            weigh=lambda scores, hidden: (
                scores.masked_fill(hidden, 0.0).softmax(dim=-1) * ~hidden.all(dim=-1, keepdim=True)
            )
        ),
    ),
    (
        "masked too late: the weights are set to 0 after the softmax and no longer add up to 1",
        "The padding has had its share by then. Mask the scores, before the softmax.",
        dict(weigh=lambda scores, hidden: scores.softmax(dim=-1).masked_fill(hidden, 0.0)),
    ),
    (
        "masked the wrong way round: the padding alone has weights",
        "padding is True where nothing may be looked at.",
        dict(weigh=lambda scores, hidden: _masked(scores, ~hidden)),
    ),
    (
        "right but for the padding, which is that of the first source for all",
        "Each source has a padding of its own.",
        dict(weigh=lambda scores, hidden: _masked(scores, hidden[:1].expand(*hidden.shape))),
    ),
    (
        "attention with a softmax over the queries",
        "Every query shares its attention among the n words: over the last axis.",
        dict(
            weigh=lambda scores, hidden: (
                scores.masked_fill(hidden & ~hidden.all(dim=-1, keepdim=True), -mt.inf)
                .softmax(dim=1)
                .masked_fill(hidden, 0.0)
            )
        ),
    ),
    (
        "right on paper, but exp overflows where scores are large",
        "softmax subtracts the largest score first; so must you.",
        dict(
            weigh=lambda scores, hidden: (
                (scores.exp() * ~hidden)
                / (scores.exp() * ~hidden).sum(dim=-1, keepdim=True).clamp(min=1e-300)
            )
        ),
    ),
    (
        "right for small scores, but exp overflows at large ones, and a sum near 0 is made larger",
        "softmax subtracts the largest score first: then only an empty source has a sum below 1.",
        dict(
            weigh=lambda scores, hidden: (
                (scores.exp() * ~hidden)
                / (scores.exp() * ~hidden).sum(dim=-1, keepdim=True).clamp(min=1e-9)
            )
        ),
    ),
    (
        "scaled attention: the scores are divided by the square root of d",
        "That is the scaled dot product of chapter 05. Here the scores are the plain dot products.",
        dict(score=lambda queries, keys: queries @ keys.mT / queries.shape[-1] ** 0.5),
    ),
    (
        "attention with scores divided by d",
        "The scores are the plain dot products.",
        dict(score=lambda queries, keys: queries @ keys.mT / queries.shape[-1]),
    ),
    (
        "attention to what fits least",
        "The larger score has the larger weight.",
        dict(score=lambda queries, keys: -queries @ keys.mT),
    ),
    (
        "right in its weights, but all outputs are the plain mean of the words",
        "Each value counts with its weight: weights @ values.",
        dict(
            combine=lambda weights, values: (
                ((weights > 0).double() / (weights > 0).sum(dim=-1, keepdim=True).clamp(min=1))
                @ values
            )
        ),
    ),
    (
        "right in its outputs, but returns the weights transposed",
        "Row t of the weights belongs to query t: (B, T, n).",
        dict(say=lambda outputs, weights: (outputs, weights.mT)),
    ),
    (
        "right but for the order: the weights come first",
        "Return the outputs, then the weights.",
        dict(say=lambda outputs, weights: (weights, outputs)),
    ),
    (
        "right in its values, but no gradient reaches queries and keys",
        "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
        dict(weigh=lambda scores, hidden: _masked(scores, hidden).detach()),
    ),
):
    attend.wrong(name, hint)(_attending(**pieces))


attend.wrong(
    "what comes of the padding where words belong: the mask is taken the wrong way round",
    "padding is True where nothing may be looked at.",
)(lambda queries, keys, values, padding: attend.reference(queries, keys, values, ~padding))


@attend.wrong(
    "right in its outputs, but returns the scores",
    "The weights are what the softmax makes of the scores.",
)
def _(queries, keys, values, padding):
    outputs, _ = attend.reference(queries, keys, values, padding)
    return outputs, queries @ _clean(keys, padding).mT


@attend.wrong(
    "right in its weights, but averages the keys",
    "Keys are what a query is compared with; what is averaged are the values.",
)
def _(queries, keys, values, padding):
    return attend.reference(queries, keys, keys, padding)
