"""Answers to the exercises of ``language_model.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_01.language_model import (
    _sampling_cases,
    _text_cases,
    log_probability,
    sampling_distribution,
)

# The probability of a text


@log_probability.answer(
    hidden_cases=lambda draw: _text_cases(draw, more=[([7, 1, 5, 0], 9)]),
    after_passing=("Faster: all texts as one padded batch, so that a step reads a token of each."),
)
def log_probability(step, texts, start):
    """The log-probability of each text with its end, a tensor."""
    totals = []
    for text in texts:
        total, h = 0.0, None
        for token, following in zip([start, *text], [*text, start], strict=True):
            scores, h = step(mt.tensor([token]), h)  # (1, V)
            total += scores.log_softmax(dim=-1)[0, following].item()
        totals.append(total)
    return mt.tensor(totals)


# Sampling


@sampling_distribution.answer(
    hidden_cases=lambda draw: _sampling_cases(draw, more=[(4, 15, 6, 0.95)]),
    after_passing=(
        "Shorter, as there are no ties: the smallest number that stays is a threshold for the row."
    ),
)
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """The probabilities (B, V) to sample the next token from."""
    if temperature == 0:
        return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    scores = scores / temperature
    if top_k is not None:
        smallest_kept = scores.topk(top_k, dim=-1)[0][:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < smallest_kept, -mt.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        likelier = ordered.cumsum(dim=-1) - ordered  # what the tokens before each one have together
        kept = (likelier < top_p).gather(-1, order.argsort(dim=-1))
        probabilities = probabilities * kept
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return probabilities


# Right in another way


def log_probability_in_a_batch(step, texts, start):
    """All texts side by side, padded; a padded step counts nothing."""
    longest = max(map(len, texts)) + 1
    rows = [[start, *text, start] + [0] * (longest - 1 - len(text)) for text in texts]
    tokens, h, total = mt.tensor(rows), None, 0
    counts = mt.tensor([len(text) + 1 for text in texts])
    for t in range(longest):
        scores, h = step(tokens[:, t], h)
        log_p = F.log_softmax(scores, -1).gather(1, tokens[:, t + 1 : t + 2]).squeeze(1)
        total = total + log_p * (t < counts)
    return total


def log_probability_by_cross_entropy(step, texts, start):
    found = []
    for text in texts:
        h, scores = None, []
        for token in [start] + list(text):
            s, h = step(mt.full((1,), token), h)
            scores.append(s)
        targets = mt.tensor(list(text) + [start])
        found.append(-F.cross_entropy(mt.cat(scores), targets, reduction="sum"))
    return mt.stack(found)


def distribution_by_sorting(scores, temperature=1.0, top_k=None, top_p=None):
    """The usual way: mark in sorted order, shift by one, scatter back through argsort."""
    scores = (
        scores / temperature
        if temperature
        else scores.masked_fill(scores < scores.amax(dim=-1, keepdim=True), -math.inf)
    )
    if top_k is not None:
        kth = scores.sort(dim=-1, descending=True)[0][:, top_k - 1].unsqueeze(1)
        scores = mt.where(scores < kth, mt.full_like(scores, -math.inf), scores)
    if top_p is not None:
        ordered, order = scores.sort(dim=-1, descending=True)
        over = ordered.softmax(-1).cumsum(-1) >= top_p
        removed = mt.cat([mt.zeros_like(over[:, :1]), over[:, :-1]], dim=1)
        scores = scores.masked_fill(removed.gather(1, order.argsort(-1)), -math.inf)
    return F.softmax(scores, -1)


def distribution_row_by_row(scores, temperature=1.0, top_k=None, top_p=None):
    rows = []
    for row in scores:
        if temperature == 0:
            rows.append([float(i == row.argmax().item()) for i in range(len(row))])
            continue
        weights = ((row - row.max()) / temperature).exp().tolist()
        ranked = sorted(range(len(weights)), key=lambda i: -weights[i])
        if top_k is not None:
            ranked = ranked[:top_k]
        total = sum(weights[i] for i in ranked)
        if top_p is not None:
            kept, mass = [], 0.0
            for i in ranked:
                kept.append(i)
                mass += weights[i] / total
                if mass >= top_p:
                    break
            ranked, total = kept, sum(weights[i] for i in kept)
        rows.append([weights[i] / total if i in ranked else 0.0 for i in range(len(weights))])
    return mt.tensor(rows, dtype=scores.dtype)


def distribution_by_comparison(scores, temperature=1.0, top_k=None, top_p=None):
    """No sorting: for each pair of tokens, which one is ahead of the other."""
    ahead = scores.unsqueeze(1) > scores.unsqueeze(2)  # (B, V, V): j is ahead of i
    if not temperature:
        return (ahead.sum(-1) == 0).float()
    weights = (scores - scores.amax(1, keepdim=True)).div(temperature).exp()
    if top_k is not None:
        weights = weights * (ahead.sum(-1) < top_k)
    p = weights / weights.sum(1, keepdim=True)
    if top_p is not None:
        p = p * ((ahead * p.unsqueeze(1)).sum(-1) < top_p)
    return p / p.sum(1, keepdim=True)


right = {
    "log_probability": [log_probability_in_a_batch, log_probability_by_cross_entropy],
    "sampling_distribution": [
        distribution_by_sorting,
        distribution_row_by_row,
        distribution_by_comparison,
    ],
}
