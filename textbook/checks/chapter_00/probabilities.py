"""Softmax, perplexity, and the gradient of the cross-entropy."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.exercise import exercise

# Softmax


def _score_cases(draw, hidden):
    for shape in [(3,), (2, 3), (4, 1, 5)] + [(7, 2, 6)] * hidden:
        yield (3 * draw.normal(*shape),)
    yield (100 * draw.normal(2, 4) + mt.tensor([[-1000.0], [1000.0]]),)


def _rows_sum_to_one(answer, scores):
    totals = answer(scores).sum(dim=-1)
    if not mt.allclose(totals, mt.ones_like(totals)):
        return "The probabilities of a row must add up to 1."


def _softmax(scores, dim=-1):
    weights = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return weights / weights.sum(dim=dim, keepdim=True)


@exercise(
    cases=_score_cases,
    forbidden=("softmax", "log_softmax", "logsumexp", "cross_entropy"),
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
    "the softmax with one number subtracted from all rows",
    "A row whose scores are all far below that number becomes 0 / 0. Each row needs its own "
    "largest score: amax with dim=-1 and keepdim=True.",
)
def _(scores):
    weights = (scores - scores.max()).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


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
    for words, vocabulary in [(1, 3), (2, 3), (5, 4)] + [(7, 11)] * hidden:
        yield 2 * draw.normal(words, vocabulary), draw.integers(vocabulary, words)
    yield mt.zeros(3, 8, dtype=mt.float64), draw.integers(8, 3)
    if hidden:
        yield draw.normal(900, 5), draw.integers(5, 900)


def _surprises(scores, targets):
    """-log p of each target: (T, V), (T) -> (T)."""
    return -F.log_softmax(scores, dim=-1).gather(1, targets.unsqueeze(1)).squeeze(1)


@exercise(
    cases=_text_cases,
    gradients=False,
    forbidden=("cross_entropy",),
    instead="log_softmax and the score of each word that came",
    see='chapter 00, "Scores, probabilities, surprise"',
)
def perplexity(scores, targets):
    """(T, V) scores and (T) words -> a number."""
    log_p = F.log_softmax(scores, dim=-1)  # (T, V)
    log_p_of_targets = log_p.gather(1, targets.unsqueeze(1))  # (T, 1)
    return math.exp(-log_p_of_targets.mean().item())


@perplexity.wrong(
    "the mean of the words' own perplexities",
    "Average the surprises first, then take one exponential: the order matters.",
)
def _(scores, targets):
    return _surprises(scores, targets).exp().mean()


@perplexity.wrong(
    "the exponential of the summed surprise", "Divide by the number of words: a mean, not a sum."
)
def _(scores, targets):
    return _surprises(scores, targets).sum().exp()


@perplexity.wrong(
    "the mean surprise, without the exponential", "Perplexity is the exponential of that."
)
def _(scores, targets):
    return _surprises(scores, targets).mean()


@perplexity.wrong(
    "the exponential of the mean log-probability",
    "A surprise is minus a log-probability. No model has a perplexity below 1.",
)
def _(scores, targets):
    return (-_surprises(scores, targets).mean()).exp()


@perplexity.wrong(
    "2 to the power of a surprise in natural logarithms",
    "log is the natural logarithm, so its inverse is exp. (2 goes with log2.)",
)
def _(scores, targets):
    return 2 ** _surprises(scores, targets).mean()


@perplexity.wrong(
    "the inverse of the mean probability",
    "The mean is taken over logarithms of probabilities, not over probabilities.",
)
def _(scores, targets):
    return 1 / (-_surprises(scores, targets)).exp().mean()


@perplexity.wrong(
    "a perplexity that does not look at the words that came",
    "That is the model's own uncertainty. Take the log-probability of each target word.",
)
def _(scores, targets):
    logs = F.log_softmax(scores, dim=-1)
    return (-(logs.exp() * logs).sum(dim=-1).mean()).exp()


@perplexity.wrong(
    "a root of the product of the probabilities",
    "In a long text the product is too small for a floating-point number and becomes 0. Add "
    "logarithms instead.",
    hidden=True,
)
def _(scores, targets):
    return (-_surprises(scores, targets)).exp().prod() ** (-1 / len(targets))


# The gradient of the cross-entropy


def _classification_cases(draw, hidden):
    for rows, classes in [(1, 3), (2, 3), (4, 5)] + [(9, 4)] * hidden:
        yield draw.normal(rows, classes), draw.integers(classes, rows)


def _rows_sum_to_zero(answer, scores, targets):
    totals = answer(scores, targets).sum(dim=-1)
    if not mt.allclose(totals, mt.zeros_like(totals)):
        return "Each row must add up to 0: adding a constant to all scores changes no loss."


def _one_hot_like(scores, targets):
    return F.one_hot(targets, scores.shape[-1]).to(scores.dtype)


@exercise(
    cases=_classification_cases,
    gradients=False,
    forbidden=("backward", "cross_entropy", "log_softmax"),
    instead="softmax, one_hot and a subtraction",
    properties=(_rows_sum_to_zero,),
    see='chapter 00, "Scores, probabilities, surprise"',
)
def cross_entropy_gradient(scores, targets):
    """(N, V) scores and (N) targets -> (N, V)."""
    N, V = scores.shape
    return (F.softmax(scores, dim=-1) - F.one_hot(targets, V)) / N


@cross_entropy_gradient.wrong(
    "the gradient of the sum of the losses",
    "The loss is their mean: divide by the number of rows.",
)
def _(scores, targets):
    return _softmax(scores) - _one_hot_like(scores, targets)


@cross_entropy_gradient.wrong(
    "the gradient with the opposite sign",
    "What we predicted minus what happened. A step against the gradient must raise the "
    "target's score.",
)
def _(scores, targets):
    return (_one_hot_like(scores, targets) - _softmax(scores)) / len(targets)


@cross_entropy_gradient.wrong(
    "the gradient of the mean over all elements",
    "One row is one loss: divide by the number of rows, not of elements.",
)
def _(scores, targets):
    return (_softmax(scores) - _one_hot_like(scores, targets)) / scores.numel()


@cross_entropy_gradient.wrong(
    "the probabilities without the targets", "Subtract 1 at the target of each row."
)
def _(scores, targets):
    return _softmax(scores) / len(targets)


@cross_entropy_gradient.wrong(
    "right but for a division that reaches only the one-hot part",
    "Put the difference in brackets before you divide.",
)
def _(scores, targets):
    return _softmax(scores) - _one_hot_like(scores, targets) / len(targets)


@cross_entropy_gradient.wrong(
    "the gradient with a softmax over the rows instead of the classes",
    "The classes lie along the last axis.",
)
def _(scores, targets):
    return (_softmax(scores, dim=0) - _one_hot_like(scores, targets)) / len(targets)
