"""Attention maps: how far they are from a known alignment, and the gradient through them."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.data.numerals import number_pair

# Alignment error


def _pairs(draw, count, source, target):
    """Numbers with no fewer source than target pieces: a map can be read the wrong way round."""
    pairs = []
    while len(pairs) < count:
        pair = number_pair(int(draw.random.integers(20, 200)), source, target)
        if len(pair.target) <= len(pair.source):
            pairs.append(pair)
    return pairs


def _map_cases(draw, hidden):
    """Weights that mostly look at the right piece; the padding of the source has none."""
    sizes = [(1, "de", "en"), (2, "en", "fr"), (3, "de", "en"), (4, "de", "fr")]
    for count, source, target in sizes + [(5, "en", "fr"), (6, "fr", "en")] * hidden:
        pairs = _pairs(draw, count, source, target)
        n = max(len(pair.source) for pair in pairs)
        scores = draw.normal(count, max(len(pair.target) for pair in pairs), n)
        for b, pair in enumerate(pairs):
            scores[b, :, len(pair.source) :] = -mt.inf
            for i, known in enumerate(pair.alignment):
                for j in known:
                    scores[b, i, j] += 1.5
        yield scores.softmax(dim=-1), [pair.alignment for pair in pairs]


def _strongest(weights, b, i):
    return int(weights[b, i].argmax())


def _misses(weights, alignments, missed, everything=False):
    """For each sentence, ``missed(weights, b, i, known)`` of its pieces with a known source."""
    return [
        [missed(weights, b, i, known) for i, known in enumerate(alignment) if known or everything]
        for b, alignment in enumerate(alignments)
    ]


def _looks_elsewhere(weights, b, i, known):
    return float(_strongest(weights, b, i) not in known)


def _mean(numbers):
    return sum(numbers) / len(numbers)


def _error(missed=_looks_elsewhere, everything=False):
    """The alignment error with one of its pieces exchanged."""

    def error(weights, alignments):
        return _mean(sum(_misses(weights, alignments, missed, everything), []))

    return error


@exercise(
    cases=_map_cases,
    gradients=False,
    see='chapter 04, "Alignment for free"',
)
def alignment_error(weights, alignments):
    """The share of target pieces whose largest weight lies at a wrong position."""
    strongest = weights.argmax(dim=-1).tolist()  # B lists of T positions
    misses = [
        place not in known
        for places, alignment in zip(strongest, alignments, strict=True)
        for place, known in zip(places, alignment, strict=False)
        if known
    ]
    return sum(misses) / len(misses)


alignment_error.wrong(
    "the share of target pieces that look at the right place",
    "The error counts those that look elsewhere: one minus that share.",
)(_error(missed=lambda *place: 1 - _looks_elsewhere(*place)))
alignment_error.wrong(
    "a number of misses, not a share",
    "Divide by the number of target pieces that have a known source.",
)(lambda weights, alignments: sum(sum(_misses(weights, alignments, _looks_elsewhere), [])))
alignment_error.wrong(
    "an error that counts pieces without a known source as misses",
    "Where the tuple is empty, nothing is known, and nothing can be wrong: leave the piece out.",
)(_error(everything=True))
alignment_error.wrong(
    "an error that counts pieces without a known source as hits",
    "Where the tuple is empty, nothing is known: leave the piece out of the number that you divide "
    "by, too.",
)(
    _error(
        missed=lambda weights, b, i, known: known != () and _looks_elsewhere(weights, b, i, known),
        everything=True,
    )
)
alignment_error.wrong(
    "an error that knows one source position alone for each piece",
    "A target piece may translate several source pieces: it is a hit if the strongest one is any "
    "of them.",
)(_error(missed=lambda weights, b, i, known: float(_strongest(weights, b, i) != known[0])))
alignment_error.wrong(
    "the mean over the sentences of each sentence's error",
    "Every target piece counts the same: one sum over all sentences, divided once.",
)(
    lambda weights, alignments: _mean(
        [_mean(misses) for misses in _misses(weights, alignments, _looks_elsewhere)]
    )
)
alignment_error.wrong(
    "the weight that lies outside the known positions, on average",
    "That is a good measure too, but another one. Here a piece is a hit or a miss, by its largest "
    "weight.",
)(
    _error(
        missed=lambda weights, b, i, known: 1 - sum(float(weights[b, i, j]) for j in known),
    )
)
alignment_error.wrong(
    "an error by the wrong axis: for each source piece, the target piece that looks there most",
    "Row i of the weights belongs to target piece i, and its largest weight lies along the last "
    "axis.",
)(
    _error(
        missed=lambda weights, b, i, known: float(int(weights[b].argmax(dim=0)[i]) not in known),
    )
)

# The gradient by hand


def _gradient_cases(draw, hidden):
    for batch, steps, n, d in [(1, 1, 2, 1), (1, 2, 3, 2), (2, 3, 3, 2)] + [(4, 2, 7, 5)] * hidden:
        weights = (2 * draw.normal(batch, steps, n)).softmax(dim=-1)
        yield weights, draw.normal(batch, n, d), draw.normal(batch, steps, d)


def _through_softmax(weights, grad_weights):
    return weights * (grad_weights - (weights * grad_weights).sum(dim=-1, keepdim=True))


def _through_sum(weights, grad_contexts):
    return weights.transpose(1, 2) @ grad_contexts


def _backward(toward_scores=_through_softmax, toward_values=_through_sum):
    """The gradient of attention with one of its pieces exchanged."""

    def backward(weights, values, grad_contexts):
        grad_weights = grad_contexts @ values.transpose(1, 2)
        return toward_scores(weights, grad_weights), toward_values(weights, grad_contexts)

    return backward


def _rows_sum_to_zero(answer, *case):
    totals = answer(*case)[0].sum(dim=-1)
    if not mt.allclose(totals, mt.zeros_like(totals)):
        return (
            "Each row of the scores' gradient must add up to 0: a number added to all scores of a "
            "query changes no weight."
        )
    return None


@exercise(
    cases=_gradient_cases,
    forbidden=("backward",),
    instead="@, * and sum",
    properties=(_rows_sum_to_zero,),
    gradients=False,
    see='chapter 04, "A shorter path for the gradient"',
)
def attention_gradient(weights, values, grad_contexts):
    """The gradients of the loss with respect to the scores (B, T, n) and the values (B, n, d)."""
    grad_values = weights.transpose(1, 2) @ grad_contexts  # (B, n, d)
    grad_weights = grad_contexts @ values.transpose(1, 2)  # (B, T, n)
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    return weights * (grad_weights - average), grad_values


attention_gradient.wrong(
    "right for the values, but has the gradient of the weights in place of that of the scores",
    "Between scores and weights lies the softmax; its Jacobian is missing.",
)(_backward(toward_scores=lambda weights, grad_weights: grad_weights))
attention_gradient.wrong(
    "right for the values, but leaves out that the weights of a row hang together",
    "The softmax divides by a sum over the row, so a score changes all weights of its row: "
    "subtract the sum of weights * gradient before you multiply.",
)(_backward(toward_scores=lambda weights, grad_weights: weights * grad_weights))
attention_gradient.wrong(
    "right for the values, but has only the diagonal of the softmax's Jacobian",
    "weights * (1 - weights) says how a score changes its own weight. It changes the others too.",
)(_backward(toward_scores=lambda weights, grad_weights: weights * (1 - weights) * grad_weights))
attention_gradient.wrong(
    "right for the values, but subtracts the plain mean of the row",
    "What is subtracted is the mean under the weights, (weights * gradient).sum(...).",
)(
    _backward(
        toward_scores=lambda weights, grad_weights: (
            weights * (grad_weights - grad_weights.mean(dim=-1, keepdim=True))
        )
    )
)
attention_gradient.wrong(
    "right for the values, but subtracts a sum over the queries",
    "A row is the distribution of one query: sum over the last axis.",
)(
    _backward(
        toward_scores=lambda weights, grad_weights: (
            weights * (grad_weights - (weights * grad_weights).sum(dim=1, keepdim=True))
        )
    )
)
attention_gradient.wrong(
    "right for the values, but does not multiply by the weights at the end",
    "In weights * (gradient - sum), the first factor is missing.",
)(
    _backward(
        toward_scores=lambda weights, grad_weights: (
            grad_weights - (weights * grad_weights).sum(dim=-1, keepdim=True)
        )
    )
)
attention_gradient.wrong(
    "right for the values, but the gradient of the scores has the opposite sign",
    "A score whose value fits the gradient better than the average must get a positive number.",
)(_backward(toward_scores=lambda weights, grad_weights: -_through_softmax(weights, grad_weights)))
attention_gradient.wrong(
    "right for the scores, but the gradient of the values is divided by the number of queries",
    "All queries read the same values, so their gradients add up: a sum, not a mean.",
)(
    _backward(
        toward_values=lambda weights, grad_contexts: (
            _through_sum(weights, grad_contexts) / weights.shape[1]
        )
    )
)
attention_gradient.wrong(
    "right for the scores, but every value has the same gradient, as if the weights were 1",
    "Value j enters context i with the weight alpha_ij: weights.transpose(1, 2) @ grad_contexts.",
)(
    _backward(
        toward_values=lambda weights, grad_contexts: _through_sum(
            mt.ones_like(weights), grad_contexts
        )
    )
)


@attention_gradient.wrong(
    "right but for the order: the gradient of the values comes first",
    "Return the gradient of the scores first, then that of the values.",
)
def _(weights, values, grad_contexts):
    return tuple(reversed(attention_gradient.reference(weights, values, grad_contexts)))
