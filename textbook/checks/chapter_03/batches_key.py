"""Answers to the exercises of ``batches.py``."""

import itertools

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_03.batches import (
    _probability_cases,
    _sentence_cases,
    log_probabilities,
    teacher_batch,
)

# A batch for a teacher


@teacher_batch.answer(
    hidden_cases=lambda draw: _sentence_cases(
        draw, more=[[0], [6, 0, 8, 2, 7], [0, 0], [2, 9], [7, 7, 3]]
    )
)
def teacher_batch(sentences, start, end, pad):
    """B lists of tokens give inputs, targets and the targets' padding, each (B, T)."""
    steps = 1 + max(len(sentence) for sentence in sentences)  # T
    inputs, targets, padding = [], [], []
    for sentence in sentences:
        rest = steps - len(sentence) - 1
        inputs.append([start, *sentence] + [pad] * rest)
        targets.append([*sentence, end] + [pad] * rest)
        padding.append([False] * (len(sentence) + 1) + [True] * rest)
    return mt.tensor(inputs), mt.tensor(targets), mt.tensor(padding)


# How likely a translation is


@log_probabilities.answer(
    hidden_cases=lambda draw: _probability_cases(
        draw, more=[([1], 3, None), ([7, 2, 9, 4, 6], 11, mt.nan), ([1, 6], 8, -1e30)]
    ),
    after_passing=(
        "Shorter, for the loss: F.cross_entropy with ignore_index, if a target stands for the "
        "padding."
    ),
)
def log_probabilities(scores, targets, padding):
    """log P of each translation (B), and the loss of a token, one number."""
    scores = scores.masked_fill(padding.unsqueeze(-1), 0.0)  # whatever it was
    log_p = scores.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    log_p = log_p.masked_fill(padding, 0.0)
    return log_p.sum(dim=1), -log_p.sum() / (~padding).sum()


# Right in another way


def batch_filled_in(sentences, start, end, pad):
    lengths = mt.tensor([len(sentence) for sentence in sentences]).unsqueeze(1)
    steps = int(lengths.max()) + 1
    inputs = mt.full((len(sentences), steps), pad)
    targets = mt.full((len(sentences), steps), pad)
    inputs[:, 0] = start
    for i, sentence in enumerate(sentences):
        if sentence:
            inputs[i, 1 : len(sentence) + 1] = mt.tensor(sentence)
            targets[i, : len(sentence)] = mt.tensor(sentence)
        targets[i, len(sentence)] = end
    return inputs, targets, mt.arange(steps) > lengths


def batch_position_by_position(sentences, start, end, pad):
    inputs, targets, padding = [], [], []
    for t in range(1 + max(map(len, sentences))):
        inputs.append([([start, *s] + [pad] * t)[t] for s in sentences])
        targets.append([s[t] if t < len(s) else end if t == len(s) else pad for s in sentences])
        padding.append([t > len(s) for s in sentences])
    return [mt.tensor(columns).T for columns in (inputs, targets, padding)]


def batch_with_zip_longest(sentences, start, end, pad):
    hole = object()
    read = list(itertools.zip_longest(*([start, *s] for s in sentences), fillvalue=pad))
    said = list(itertools.zip_longest(*([*s, end] for s in sentences), fillvalue=hole))
    padding = np.array([[x is hole for x in row] for row in said]).T
    targets = np.array([[pad if x is hole else x for x in row] for row in said]).T
    return mt.tensor(np.array(read).T), mt.tensor(targets), mt.tensor(padding)


def likely_token_by_token(scores, targets, padding):
    totals, count = [], 0
    for row, wanted, rest in zip(scores, targets.tolist(), padding.tolist(), strict=True):
        real = [(s, y) for s, y, padded in zip(row, wanted, rest, strict=True) if not padded]
        totals.append(sum(s[y] - s.logsumexp(0) for s, y in real))
        count += len(real)
    return mt.stack(totals), -sum(totals) / count


def likely_by_selection(scores, targets, padding):
    log_p = scores[~padding].log_softmax(-1)  # (N, V)
    log_p = log_p[mt.arange(len(log_p)), targets[~padding]]
    rows = mt.arange(len(scores)).unsqueeze(1).expand(*padding.shape)[~padding]
    member = F.one_hot(rows, len(scores)).to(log_p.dtype)  # (N, B)
    return log_p @ member, -log_p.mean()


def likely_by_hand(scores, targets, padding):
    clean = mt.where(padding.unsqueeze(-1), mt.zeros_like(scores), scores)
    clean = clean - clean.amax(dim=-1, keepdim=True).detach()
    log_p = clean - clean.exp().sum(-1, keepdim=True).log()
    chosen = (F.one_hot(targets, scores.shape[-1]) * log_p).sum(-1) * (~padding).float()
    return chosen.sum(1), -chosen.sum() / (~padding).float().sum()


def likely_with_cross_entropy(scores, targets, padding):
    clean = scores.masked_fill(padding.unsqueeze(-1), 0.0)
    each = F.cross_entropy(clean.flatten(0, 1), targets.flatten(), reduction="none")
    each = each.reshape(*targets.shape) * ~padding
    return -each.sum(1), each.sum() / (~padding).sum()


def likely_with_nll(scores, targets, padding):
    log_p = scores.masked_fill(padding.unsqueeze(-1), 0.0).log_softmax(-1)
    marked = targets.masked_fill(padding, -100)
    rows = [
        F.nll_loss(row, wanted, reduction="sum") for row, wanted in zip(log_p, marked, strict=True)
    ]
    total = -mt.stack(rows)
    return total, -total.sum() / (~padding).sum()


right = {
    "teacher_batch": [batch_filled_in, batch_position_by_position, batch_with_zip_longest],
    "log_probabilities": [likely_token_by_token, likely_by_selection, likely_by_hand],
}
refused = {
    "log_probabilities": [likely_with_cross_entropy, likely_with_nll],
}
