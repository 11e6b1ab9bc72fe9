"""Softmax, and the perplexity of two models together."""

import math

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.released import exercise

# Softmax


def _score_cases(draw, more=()):
    for shape in [(3,), (2, 3), (4, 1, 5), *more]:
        yield (3 * draw.normal(*shape),)
    yield (100 * draw.normal(2, 4) + mt.tensor([[-1000.0], [1000.0]]),)
    yield (mt.tensor([[0.0] * 9 + [-1000.0], [0.5] * 10], dtype=mt.float64),)
    alone = mt.full((2, 10), -1000.0, dtype=mt.float64)
    alone[0, 3], alone[1, 7] = 1000, 0  # far from the mean of their row
    yield (alone,)
    impossible = 2 * draw.normal(3, 5)
    impossible[2] -= 1000  # as low as what might be put for minus infinity
    impossible[0, 1] = impossible[2, 0] = impossible[2, 4] = -mt.inf
    yield (impossible,)


def _rows_sum_to_one(answer, scores):
    totals = answer(scores).sum(dim=-1)
    if not mt.allclose(totals, mt.ones_like(totals)):
        return "The probabilities of a row must add up to 1."


def _a_floor(check, answer, scores):
    """Whether probabilities that are nearly 0 are all the same number."""
    found, right = answer(scores), check.reference(scores)
    if found.shape != right.shape or difference(found[right > 1e-4], right[right > 1e-4], ""):
        return None
    least, low = found.min().item(), found[right < 1e-20]
    if least > 1e-20 and low.numel() > 1 and mt.allclose(low, mt.full_like(low, least)):
        return f"A probability may be as small as it likes, but none of yours is below {least:.2g}."
    return None


softmax = exercise(
    "softmax",
    cases=_score_cases,
    forbidden=(
        "softmax",
        "log_softmax",
        "logsumexp",
        "cross_entropy",
        "scaled_dot_product_attention",
    ),
    instead="exp, sum and a division",
    properties=(_rows_sum_to_one,),
    reasons=(_a_floor,),
    gradients=False,
    see='chapter 00, "Scores, probabilities, surprise"',
)


# Perplexity


def _text_cases(draw, more=(), many=700):
    for words, vocabulary, share in [(1, 3, 0.5), (3, 4, 0.25), (5, 4, 0.9), *more]:
        yield (*_drawn(draw, words, vocabulary), share, draw.integers(vocabulary, words))
    for share in (0.0, 1.0, 0, 1):
        yield (*_drawn(draw, 4, 3), share, draw.integers(3, 4))
    yield (*(mt.zeros(3, 8, dtype=mt.float64),) * 2, 0.3, draw.integers(8, 3))
    scores, others = _drawn(draw, 5, 3)
    targets = draw.integers(3, 5)
    scores[2, targets[2]], others[2, targets[2]] = -1500, -2000  # both far below the rest
    yield scores, others, 0.6, targets
    for share in (1.0, 0):  # an unlikely word, and the other model, without a share, expects it
        scores, others = _drawn(draw, 5, 3)
        (scores if share else others)[2, targets[2]] = -1500
        yield scores, others, share, targets
    yield (*_drawn(draw, many, 5), 0.4, draw.integers(5, many))


def _drawn(draw, words, vocabulary):
    """Scores of two models."""
    return 2 * draw.normal(words, vocabulary), 2 * draw.normal(words, vocabulary)


def _without_a_share(check, answer, scores, others, share, targets):
    """Whether a model without a share has a say."""
    if share not in (0, 1):
        return None
    models = (scores, -others) if share else (-scores, others)
    if not difference(answer(*models, share, targets), answer(scores, others, share, targets), ""):
        return None
    return (
        "A model without a share has no say, but your result changes with its scores. Is anything "
        "added to the shares? log 0 is minus infinity, as mt.tensor(0.0).log() knows."
    )


def _no_number(check, answer, scores, others, share, targets):
    """Whether the logarithm of a share of 0 has become NaN."""
    if share in (0, 1) and math.isnan(answer(scores, others, share, targets)):
        return (
            "With a share of 0, log 0 is minus infinity, and infinity minus infinity, or times 0, "
            "is nan. Is a log-sum of your own behind it? mt.logaddexp takes minus infinity."
        )
    return None


def _a_bound(check, answer, *case):
    """Whether a word that both models find all but impossible is found likelier."""
    found, right = answer(*case), check.reference(*case)
    if right > 1e50 and 1 <= found < 1e50:
        return (
            "A word may be less probable than any bound: is a probability cut off, by clamp or "
            "max? Stay with logarithms, log(e^a + e^b) is mt.logaddexp(a, b)."
        )
    return None


perplexity = exercise(
    "perplexity",
    cases=_text_cases,
    gradients=False,
    reasons=(_no_number, _without_a_share, _a_bound),
    see='chapter 00, "Scores, probabilities, surprise"',
)
