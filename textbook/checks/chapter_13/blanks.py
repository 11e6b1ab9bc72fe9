"""The loss on blanks, in parts."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


def _loss_cases(draw, hidden):
    """Parts of a batch, each scores (B, n, V), original tokens and blanks (B, n)."""
    V = 6 if hidden else 4

    def part(batch, n, blanks):
        chosen = mt.zeros(batch * n, dtype=mt.bool)
        chosen[mt.tensor(draw.random.permutation(batch * n)[:blanks])] = True
        scores = 3 * draw.normal(batch, n, V)
        return scores, draw.integers(V, batch, n), chosen.reshape(batch, n)

    yield ([part(1, 2, 1)],)
    yield ([part(2, 3, 4)],)
    yield ([part(2, 3, 1), part(1, 4, 3)],)
    yield ([part(3, 2, 2), part(3, 2, 5), part(1, 5, 0)],)
    yield ([part(2, 2, 0)],)
    scores, original, blanks = part(2, 4, 3)
    yield ([(scores.masked_fill(~blanks.unsqueeze(-1), mt.nan), original, blanks)],)
    scores, original, blanks = part(1, 3, 2)
    yield ([(1000 * scores, original, blanks)],)
    if hidden:
        yield ([part(2, 7, 1 + i) for i in range(6)],)


def _nats(scores, original):
    """-log p of the original tokens (..., n)."""
    return -mt.gather(scores.log_softmax(dim=-1), -1, original.unsqueeze(-1)).squeeze(-1)


def _of_blanks(nats, scores, original, blanks):
    """The sum over the blanks, and their number."""
    return nats(scores[blanks], original[blanks]).sum(), blanks.sum().item()


def _loss(
    nats=_nats,
    chosen=lambda blanks: blanks,
    sums=_of_blanks,
    together=lambda sums, counts: sum(sums) / max(sum(counts), 1),
):
    """The loss with one of its pieces exchanged."""

    def loss(parts):
        pairs = [sums(nats, scores, original, chosen(blanks)) for scores, original, blanks in parts]
        return together(*zip(*pairs, strict=True))

    return loss


def _a_tensor(answer, parts):
    if not isinstance(answer(parts), mt.Tensor):
        return "A plain number has no `backward`: return a tensor, also where there are no blanks."
    return None


@exercise(
    cases=_loss_cases,
    forbidden=("cross_entropy",),
    instead="log_softmax or logsumexp, and the blanks as an index",
    properties=(_a_tensor,),
    see='chapter 13, "A masked language model"',
)
def blank_loss(parts):
    """Parts (scores (B, n, V), original (B, n), blanks (B, n)): the mean loss of all blanks."""
    total, count = 0.0, 0
    for scores, original, blanks in parts:
        asked, targets = scores[blanks], original[blanks]  # (k, V), (k)
        log_p = asked.log_softmax(dim=-1)
        total = total - log_p[mt.arange(len(targets)), targets].sum()
        count += len(targets)
    return total / max(count, 1)


def _by_products(nats, scores, original, blanks):
    return (nats(scores, original) * blanks).sum(), blanks.sum().item()


def _by_sequences(nats, scores, original, blanks):
    means = [
        nats(row[asked], tokens[asked]).sum() / max(asked.sum().item(), 1)
        for row, tokens, asked in zip(scores, original, blanks, strict=True)
    ]
    return sum(means), len(means)


def _mean_of_means(sums, counts):
    return sum(s / max(c, 1) for s, c in zip(sums, counts, strict=True)) / len(sums)


blank_loss.wrong(
    "a mean of the parts' means",
    "A part with one blank counts as much as one with ten. Add up losses and blanks of all parts, "
    "then divide.",
)(_loss(together=_mean_of_means))
blank_loss.wrong(
    "a mean of the means of those parts that have blanks",
    "Add up losses and blanks of all parts, then divide.",
)(
    _loss(
        together=lambda sums, counts: (
            sum(s / max(c, 1) for s, c in zip(sums, counts, strict=True))
            / max(sum(c > 0 for c in counts), 1)
        )
    )
)
blank_loss.wrong(
    "a sum of the parts' means",
    "Add up losses and blanks of all parts, then divide once.",
)(_loss(together=lambda sums, counts: _mean_of_means(sums, counts) * len(sums)))
blank_loss.wrong(
    "the loss of all tokens",
    "What stands in the input is no question. Only blanks are asked.",
)(_loss(chosen=lambda blanks: mt.ones_like(blanks)))
blank_loss.wrong(
    "the loss of the tokens that are no blanks",
    "blanks is True where the token is asked for.",
)(_loss(chosen=lambda blanks: ~blanks))
blank_loss.wrong(
    "the right sum, divided by the number of all tokens",
    "Divide by the number of blanks, else the loss depends on how many there are.",
)(_loss(sums=lambda *part: (_of_blanks(*part)[0], part[-1].numel())))
blank_loss.wrong(
    "the sum over the blanks, not their mean",
    "Divide by the number of blanks.",
)(_loss(together=lambda sums, counts: sum(sums)))
blank_loss.wrong(
    "right but for scores that are NaN where nothing is asked: it multiplies them by 0",
    "0 times NaN is NaN. Take the blanks out by an index: scores[blanks].",
)(_loss(sums=_by_products))
blank_loss.wrong(
    "right but for a batch without blanks, where it divides 0 by 0",
    "Divide by the number of blanks, or by 1 if there are none.",
)(_loss(together=lambda sums, counts: sum(sums) / mt.tensor(float(sum(counts)))))
blank_loss.wrong(
    "a mean of each sequence's mean",
    "All blanks count alike, whatever sequence they stand in.",
)(_loss(sums=_by_sequences))
blank_loss.wrong(
    "the mean of the probabilities, not of their logarithms",
    "The loss is -log p.",
)(_loss(nats=lambda scores, original: -(-_nats(scores, original)).exp()))
blank_loss.wrong(
    "right but for the sign",
    "The loss is -log p, which is above 0.",
)(_loss(nats=lambda scores, original: -_nats(scores, original)))
blank_loss.wrong(
    "a loss without softmax: it takes the scores for logarithms of probabilities",
    "Scores become log p by log_softmax.",
)(_loss(nats=lambda scores, original: -mt.gather(scores, -1, original.unsqueeze(-1)).squeeze(-1)))
blank_loss.wrong(
    "a loss with two softmaxes",
    "log_softmax takes scores, not probabilities.",
)(_loss(nats=lambda scores, original: _nats(scores.softmax(dim=-1), original)))
blank_loss.wrong(
    "right but for large scores, for which it is not finite",
    "exp of a large score is infinite, and the logarithm of a small share that of 0: log_softmax "
    "stays finite.",
)(
    _loss(
        nats=lambda scores, original: (
            -mt.gather(scores.softmax(dim=-1).log(), -1, original.unsqueeze(-1)).squeeze(-1)
        )
    )
)
blank_loss.wrong(
    "a loss in bits",
    "In nats: with the natural logarithm.",
)(_loss(nats=lambda scores, original: _nats(scores, original) / math.log(2)))
blank_loss.wrong(
    "the loss of the first part alone",
    "All parts make the batch.",
)(lambda parts: blank_loss.reference(parts[:1]))
blank_loss.wrong(
    "right but for the divisor: the blanks of the last part alone",
    "Add up the blanks of all parts, and divide by them at the end.",
)(_loss(together=lambda sums, counts: sum(sums) / max(counts[-1], 1)))
blank_loss.wrong(
    "right but for the divisor, to which 1 is added",
    "Against 0 / 0 take max(count, 1): the mean of others stays what it is.",
)(_loss(together=lambda sums, counts: sum(sums) / (sum(counts) + 1)))
blank_loss.wrong(
    "right in its values, but the gradient is NaN where scores are: masked after the logarithm",
    "On the way back 0 meets NaN. Take the blanks out first: scores[blanks].",
)(
    _loss(
        sums=lambda nats, scores, original, blanks: (
            nats(scores, original).masked_fill(~blanks, 0.0).sum(),
            blanks.sum().item(),
        )
    )
)


@blank_loss.wrong(
    "a mean over sequences: each has its own mean first",
    "Every blank of the batch counts the same: one sum, one number of blanks.",
)
def _(parts):
    rows = [
        _nats(row[asked], tokens[asked]).mean()
        for scores, original, blanks in parts
        for row, tokens, asked in zip(scores, original, blanks, strict=True)
        if asked.any()
    ]
    return (
        sum(rows) / len(rows) if rows else sum(scores[blanks].sum() for scores, _, blanks in parts)
    )
