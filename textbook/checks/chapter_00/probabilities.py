"""Softmax, and the perplexity of two models together."""

import math
from functools import partial

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# Softmax


def _score_cases(draw, hidden):
    for shape in [(3,), (2, 3), (4, 1, 5)] + [(7, 2, 6)] * hidden:
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


def _softmax(scores, dim=-1):
    weights = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return weights / weights.sum(dim=dim, keepdim=True)


@exercise(
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
    gradients=False,
    see='chapter 00, "Scores, probabilities, surprise"',
)
def softmax(scores):
    """The softmax along the last axis: (..., V) -> (..., V)."""
    powers = mt.exp(scores - scores.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "the softmax as its formula says, without subtracting the largest score",
    "exp(1000) is infinite, and infinity by infinity is not a number. Subtract the largest score "
    "of each row first; the probabilities stay the same.",
)
def _(scores):
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@softmax.wrong(
    "right but for a score of minus infinity, for which it puts a number",
    "However low that number is, there are rows as low. Subtract the largest score of the row: "
    "exp(-inf) is exactly 0.",
)
def _(scores):
    return _softmax(scores.masked_fill(scores == -mt.inf, -1000.0))


@softmax.wrong(
    "the softmax with one number subtracted from all rows",
    "A row whose scores are all far below that number becomes 0 / 0. Each row needs its own "
    "largest score: amax with dim=-1 and keepdim=True.",
)
def _(scores):
    weights = (scores - scores.max()).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "the softmax with the mean of each row subtracted, not its largest score",
    "A score may lie far above the mean, so that exp of the difference is infinite. After "
    "subtracting the largest one, no score is above 0.",
)
def _(scores):
    weights = (scores - scores.mean(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "the softmax with the smallest score of each row subtracted, not its largest",
    "Then all differences are above 0, and exp of a large one is infinite. After subtracting the "
    "largest score none is above 0.",
)
def _(scores):
    weights = (scores - scores.amin(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def _less_the_largest_absolute(scores, of_impossible):
    sizes = scores.abs().masked_fill(scores == -mt.inf, of_impossible)
    weights = (scores - sizes.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


for _words, _size in {"": mt.inf, ", of those that are finite": 0.0}.items():
    softmax.wrong(
        f"the softmax with the largest absolute value of each row subtracted{_words}",
        "Where all scores are far below 0, that makes them smaller still, and 0 / 0 is left. "
        "Subtract the largest score itself.",
    )(partial(_less_the_largest_absolute, of_impossible=_size))


@softmax.wrong(
    "the powers of e without the division by their sum",
    "Probabilities add up to 1: divide by the sum of the row.",
)
def _(scores):
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


@softmax.wrong(
    "a softmax of scores that are cut off at a bound",
    "Scores far apart have to stay far apart. Subtract the largest one of each row: then nothing "
    "overflows.",
)
def _(scores):
    return _softmax(scores.clamp(-50, 50))


@softmax.wrong(
    "the scores themselves, divided by their sum",
    "The weight of a word is e to the power of its score.",
)
def _(scores):
    above = scores - scores.amin(dim=-1, keepdim=True)
    return above / above.sum(dim=-1, keepdim=True)


@softmax.wrong(
    "divided by the sum over all rows",
    "Each row is a distribution: sum over dim=-1, with keepdim=True.",
)
def _(scores):
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum()


@softmax.wrong(
    "a sigmoid of each score", "Words compete: the probability of one depends on all scores."
)
def _(scores):
    return scores.sigmoid()


@softmax.wrong(
    "right but for impossible words: minus infinity has become 0",
    "A score of 0 has the weight exp(0) = 1. Only exp(-inf) is 0, and it comes out by itself.",
)
def _(scores):
    return _softmax(scores.masked_fill(scores == -mt.inf, 0.0))


@softmax.wrong(
    "a softmax over the first axis",
    "Each row along the last axis is a distribution: use dim=-1, with keepdim=True.",
)
def _(scores):
    return _softmax(scores, dim=0)


@softmax.wrong(
    "a softmax over all elements together",
    "A sum without dim adds up everything. Each row needs its own: dim=-1, with keepdim=True.",
)
def _(scores):
    return _softmax(scores.reshape(-1)).reshape(scores.shape)


@softmax.wrong("the logarithm of the softmax", "The result is the probabilities themselves.")
def _(scores):
    return _softmax(scores).log()


@softmax.wrong(
    "the scores divided by their sum",
    "Scores may be negative. What is divided by its sum is exp of the scores.",
)
def _(scores):
    return scores / scores.sum(dim=-1, keepdim=True)


# Perplexity


def _text_cases(draw, hidden):
    for words, vocabulary, share in [(1, 3, 0.5), (3, 4, 0.25), (5, 4, 0.9)] + [
        (7, 11, 0.35)
    ] * hidden:
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
    yield (*_drawn(draw, 700 + 200 * hidden, 5), 0.4, draw.integers(5, 700 + 200 * hidden))


def _drawn(draw, words, vocabulary):
    """Scores of two models."""
    return 2 * draw.normal(words, vocabulary), 2 * draw.normal(words, vocabulary)


def _logs(scores, targets):
    """log p of each target: (T, V), (T) -> (T)."""
    return F.log_softmax(scores, dim=-1).gather(1, targets.unsqueeze(1)).squeeze(1)


def _both(scores, others, share, targets):
    """log p of each target by the mixture."""
    logs = mt.stack([_logs(scores, targets), _logs(others, targets)])
    return (logs + mt.tensor([[share], [1 - share]]).log()).logsumexp(dim=0)


def _perplexity(mix=_both, summary=lambda logs: math.exp(-logs.mean().item())):
    """The perplexity with one of its pieces exchanged."""
    return lambda scores, others, share, targets: summary(mix(scores, others, share, targets))


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


@exercise(
    cases=_text_cases,
    gradients=False,
    reasons=(_without_a_share,),
    see='chapter 00, "Scores, probabilities, surprise"',
)
def perplexity(scores, others, share, targets):
    """Scores (T, V) of two models, a share and (T) words -> a number."""
    words = targets.unsqueeze(1)  # (T, 1)
    log_p = F.log_softmax(scores, dim=-1).gather(1, words) + mt.tensor(share).log()
    log_q = F.log_softmax(others, dim=-1).gather(1, words) + mt.tensor(1 - share).log()
    return math.exp(-mt.logaddexp(log_p, log_q).mean().item())


perplexity.wrong(
    "the perplexity of mixed scores",
    "It is the probabilities that are mixed: softmax first, for each model by itself.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: _logs(
            share * scores + (1 - share) * others, targets
        )
    )
)
perplexity.wrong(
    "the perplexity of mixed exponentials of the scores, which are no probabilities",
    "exp of a score is a weight: only divided by the sum of its row it is a probability.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: mt.logaddexp(
            *(
                z.gather(1, targets.unsqueeze(1)).squeeze(1) + mt.tensor(part).log()
                for z, part in ((scores, share), (others, 1 - share))
            )
        )
    )
)
perplexity.wrong(
    "the perplexity of mixed log-probabilities",
    "The mean of logarithms is not the logarithm of a mean. Mix probabilities, then take the "
    "logarithm.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: (
            share * _logs(scores, targets) + (1 - share) * _logs(others, targets)
        )
    )
)


@perplexity.wrong(
    "the mean of both models' perplexities, weighted by their shares",
    "The mixture is one model: mix the probabilities of each word.",
)
def _(scores, others, share, targets):
    one, other = (math.exp(-_logs(each, targets).mean().item()) for each in (scores, others))
    return share * one + (1 - share) * other


perplexity.wrong(
    "the perplexity of a mixture of equal halves",
    "The first model has the share `share`, the second the rest.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: _both(scores, others, 0.5, targets),
    )
)
perplexity.wrong(
    "right but for the shares, which are exchanged",
    "share belongs to `scores`, 1 - share to `others`.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: _both(others, scores, share, targets),
    )
)
perplexity.wrong(
    "the perplexity of the first model alone",
    "The second model has the share 1 - share in each probability.",
)(_perplexity(mix=lambda scores, others, share, targets: _logs(scores, targets)))
perplexity.wrong(
    "right but for the sum of the shares: both models have the share `share`",
    "The second model has the share 1 - share: probabilities have to add up to 1.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: (
            mt.logaddexp(_logs(scores, targets), _logs(others, targets)) + mt.tensor(share).log()
        )
    )
)


perplexity.wrong(
    "right but for a share of 0 or 1, where the model without a share has a say",
    "Add nothing to the shares: log 0 is minus infinity, as mt.tensor(0.0).log() knows.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: mt.logaddexp(
            _logs(scores, targets) + math.log(share + 1e-9),
            _logs(others, targets) + math.log(1 - share + 1e-9),
        )
    )
)


@perplexity.wrong(
    "the perplexity of a mixture of whole texts, for which one model is drawn",
    "Here the probability of each word is mixed, not that of the text.",
)
def _(scores, others, share, targets):
    parts = [_logs(scores, targets).sum(), _logs(others, targets).sum()]
    logs = mt.stack(parts) + mt.tensor([share, 1 - share]).log()
    return math.exp(-logs.logsumexp(dim=0).item() / len(targets))


@perplexity.wrong(
    "right but for words whose probability is smaller than any floating-point number",
    "exp(-1500) is 0, and its logarithm is minus infinity. Stay with logarithms: log(e^a + e^b) "
    "is mt.logaddexp(a, b).",
)
def _(scores, others, share, targets):
    p, q = _logs(scores, targets).exp(), _logs(others, targets).exp()
    return (-(share * p + (1 - share) * q).log().mean()).exp()


@perplexity.wrong(
    "right but for a share of 0 or 1, where it takes the logarithm of 0",
    "math.log(0) is an error. A model without a share has no part in it: log 0 is minus infinity, "
    "which mt.tensor(0.0).log() knows.",
)
def _(scores, others, share, targets):
    logs = _logs(scores, targets) + math.log(share), _logs(others, targets) + math.log(1 - share)
    return math.exp(-mt.logaddexp(*logs).mean().item())


perplexity.wrong(
    "the perplexity of a model that takes the larger of both probabilities",
    "Such probabilities add up to more than 1. Mix them: share and 1 - share.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: mt.maximum(
            _logs(scores, targets), _logs(others, targets)
        )
    )
)
perplexity.wrong(
    "right but for a small number that is added to each probability",
    "A word may be less probable than that. Stay with logarithms: mt.logaddexp(a, b).",
)(
    _perplexity(
        mix=lambda *case: (_both(*case).exp() + 1e-12).log(),
    )
)
perplexity.wrong(
    "the perplexity of a softmax of mixed probabilities",
    "What you have mixed are probabilities already: take their logarithm, and no softmax.",
)(
    _perplexity(
        mix=lambda scores, others, share, targets: _logs(
            share * _softmax(scores) + (1 - share) * _softmax(others), targets
        )
    )
)
perplexity.wrong("the perplexity of the last word alone", "A mean over all words of the text.")(
    _perplexity(summary=lambda logs: (-logs[-1]).exp())
)
perplexity.wrong(
    "the perplexity of each word, one by one", "One number for the text: the mean first, then exp."
)(_perplexity(summary=lambda logs: (-logs).exp()))
perplexity.wrong(
    "the mean of the words' own perplexities",
    "Average the surprises first, then take one exponential: the order matters.",
)(_perplexity(summary=lambda logs: (-logs).exp().mean()))
perplexity.wrong(
    "the exponential of the summed surprise", "Divide by the number of words: a mean, not a sum."
)(_perplexity(summary=lambda logs: (-logs.sum()).exp()))
perplexity.wrong(
    "the mean surprise, without the exponential", "Perplexity is the exponential of that."
)(_perplexity(summary=lambda logs: -logs.mean()))
perplexity.wrong(
    "the exponential of the mean log-probability",
    "A surprise is minus a log-probability. No model has a perplexity below 1.",
)(_perplexity(summary=lambda logs: logs.mean().exp()))
perplexity.wrong(
    "2 to the power of a surprise in natural logarithms",
    "log is the natural logarithm, so its inverse is exp. (2 goes with log2.)",
)(_perplexity(summary=lambda logs: 2 ** -logs.mean()))
perplexity.wrong(
    "the inverse of the mean probability",
    "The mean is taken over logarithms of probabilities, not over probabilities.",
)(_perplexity(summary=lambda logs: 1 / logs.exp().mean()))
perplexity.wrong(
    "a root of the product of the probabilities",
    "In a long text the product is too small for a floating-point number and becomes 0. Add "
    "logarithms instead.",
)(_perplexity(summary=lambda logs: logs.exp().prod() ** (-1 / len(logs))))


@perplexity.wrong(
    "a perplexity that does not look at the words that came",
    "That is the model's own uncertainty. Take the log-probability of each target word.",
)
def _(scores, others, share, targets):
    p = share * _softmax(scores) + (1 - share) * _softmax(others)
    return (-(p * p.log()).sum(dim=-1).mean()).exp()
