"""Answers to the exercises of ``labels.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_13.labels import pretrain

# Sentences, and the place of each word as a label


@pretrain.answer(hidden_cases=lambda draw: [(8, 80, 100, 9, 3)])
def pretrain(model, sentences, special, mask, steps, rate):
    """Train a model to fill blanks, in place; the loss of each step."""
    model.train()
    special = mt.tensor(special)
    optimizer = optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = []
    for step in range(steps):
        rise, fall = min(10 * (step + 1) / steps, 1.0), 1 - step / steps
        optimizer.param_groups[0]["lr"] = rate * rise * fall
        original = sentences[mt.randint(len(sentences), (32,))]  # (B, n)
        ordinary = (original.unsqueeze(-1) != special).all(dim=-1)
        blanks = (mt.rand(original.shape) < 0.15) & ordinary
        how, others = mt.rand(original.shape), original[ordinary]
        drawn = others[mt.randint(len(others), original.shape)]
        shown = mt.where(how < 0.8, mask, mt.where(how < 0.9, drawn, original))
        scores = model(mt.where(blanks, shown, original))
        loss = F.cross_entropy(scores[blanks], original[blanks])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


# Right in another way


def pretrain_with_masks_alone(model, sentences, special, mask, steps, rate):
    """AdamW, shuffled passes, at least one blank in each batch, no other case than the mask."""
    random = np.random.default_rng(5)
    optimizer = optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    order, losses = [], []
    text = sentences.numpy()
    while len(losses) < steps:
        if not len(order):
            order = random.permutation(len(text))
        rows, order = text[order[:24]], order[24:]
        ordinary = ~np.isin(rows, special)
        blanks = (random.random(rows.shape) < 0.2) & ordinary
        if not blanks.any():
            blanks[tuple(np.argwhere(ordinary)[0])] = True
        inputs, targets = np.where(blanks, mask, rows), np.where(blanks, rows, -100)
        scores = model(mt.tensor(inputs)).flatten(0, 1)
        loss = F.cross_entropy(scores, mt.tensor(targets).flatten(), ignore_index=-100)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def pretrain_sentence_by_sentence(model, sentences, special, mask, steps, rate):
    """A tenth at least of each sentence, by a permutation; Adam with a constant rate."""
    optimizer, losses = optim.Adam(model.parameters(), lr=rate), []
    for _ in range(steps):
        batch = sentences[mt.randint(0, len(sentences), (16,))]
        inputs, blanks = batch.clone(), mt.zeros(batch.shape, dtype=mt.bool)
        for i, row in enumerate(batch.tolist()):
            places = [j for j, token in enumerate(row) if token not in special]
            blanks[i, places[int(mt.randint(0, len(places), (1,)))]] = True
        inputs[blanks] = mask
        loss = -model(inputs)[blanks].log_softmax(-1)[mt.arange(16), batch[blanks]].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return tuple(losses)


right = {
    "pretrain": [pretrain_with_masks_alone, pretrain_sentence_by_sentence],
}
