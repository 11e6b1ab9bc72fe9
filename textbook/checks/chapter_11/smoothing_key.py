"""Answers to the exercises of ``smoothing.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_11.smoothing import _loss_cases, smoothed_loss


@smoothed_loss.answer(
    hidden_cases=lambda draw: _loss_cases(draw, others=[(2, 5, 7, 3), (3, 4, 4, 0)])
)
def smoothed_loss(scores, targets, smoothing, padding):
    """scores (B, T, V), targets (B, T) give the mean loss over all targets that are no padding."""
    real = targets != padding
    log_p, words = scores[real].log_softmax(dim=-1), targets[real]  # (R, V), (R)
    right = log_p[mt.arange(len(words)), words]
    sayable = mt.arange(scores.shape[-1]) != padding
    others = log_p[:, sayable].sum(dim=-1) - right
    return -((1 - smoothing) * right + smoothing / (scores.shape[-1] - 2) * others).mean()


# Right in another way


def loss_token_by_token(scores, targets, smoothing, padding):
    losses, size = [], scores.shape[-1]
    for row, words in zip(scores, targets.tolist(), strict=True):
        for z, word in zip(row, words, strict=True):
            if word == padding:
                continue
            log_p = z - z.logsumexp(dim=-1)
            loss = -(1 - smoothing) * log_p[word]
            for other in range(size):
                if other not in (word, padding):
                    loss = loss - smoothing / (size - 2) * log_p[other]
            losses.append(loss)
    return sum(losses) / len(losses)


def loss_by_a_distribution(scores, targets, smoothing, padding):
    """All q in a matrix; what padding would be multiplied by is replaced first."""
    size, real = scores.shape[-1], targets.ne(padding)
    clean = scores.masked_fill(~real.unsqueeze(-1), 0.0)
    q = mt.full(scores.shape, smoothing / (size - 2))
    q = q.scatter(2, targets.unsqueeze(2), 1 - smoothing)
    log_p = clean.log_softmax(-1).masked_fill(mt.arange(size) == padding, 0.0)
    losses = -(q * log_p).sum(-1)
    return mt.where(real, losses, 0.0).sum() / real.sum()


def loss_of_the_library(scores, targets, smoothing, padding):
    rows, words = scores[targets != padding], targets[targets != padding]
    hard = F.cross_entropy(rows, words)
    log_p = rows.log_softmax(-1).masked_fill(mt.arange(rows.shape[1]) == padding, 0.0)
    right = log_p.gather(1, words.unsqueeze(1)).squeeze(1)
    soft = (log_p.sum(1) - right).mean() / (rows.shape[1] - 2)
    return (1 - smoothing) * hard - smoothing * soft


right = {
    "smoothed_loss": [loss_token_by_token, loss_by_a_distribution],
}
refused = {
    "smoothed_loss": [loss_of_the_library],
}
