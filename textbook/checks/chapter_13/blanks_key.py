"""Answers to the exercises of ``blanks.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_13.blanks import _loss_cases, blank_loss


@blank_loss.answer(
    hidden_cases=lambda draw: _loss_cases(draw, V=6, more=[6]),
    after_passing="Shorter: cross_entropy(..., reduction='sum') a part. Gradients of parts "
    "add up the same way.",
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


# Right in another way


def loss_of_all_rows(parts):
    """All rows in one matrix."""
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    nats = asked.logsumexp(dim=-1) - mt.gather(asked, 1, targets.unsqueeze(1)).squeeze(1)
    return nats.sum() / max(len(targets), 1)


def loss_with_where(parts):
    """Scores that are not asked become 0 before anything is computed."""
    total, count = 0.0, 0
    for scores, original, blanks in parts:
        clean = scores.masked_fill(~blanks.unsqueeze(-1), 0.0)
        largest = clean.amax(dim=-1, keepdim=True).detach()
        normal = (clean - largest).exp().sum(dim=-1).log() + largest.squeeze(-1)
        nats = normal - (clean * F.one_hot(original, scores.shape[-1])).sum(dim=-1)
        total = total + mt.where(blanks, nats, 0.0).sum()
        count = count + blanks.sum()
    return total / count.clamp(min=1)


def loss_by_cross_entropy(parts):
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    return F.cross_entropy(asked, targets, reduction="sum") / max(len(targets), 1)


def loss_by_nll(parts):
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    return F.nll_loss(asked.log_softmax(-1), targets, reduction="sum") / max(len(targets), 1)


right = {
    "blank_loss": [loss_of_all_rows, loss_with_where, loss_by_nll],
}
refused = {
    "blank_loss": [loss_by_cross_entropy],
}
