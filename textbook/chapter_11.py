"""What chapter 11 defines and later chapters use.

Generated from the cells of notebooks/11_transformer_at_work.py that start with
`# %% save`: change them there.
"""

import minitorch as mt
from minitorch import nn
from textbook.lab import tqdm


def in_lines(step, steps, warm):
    """The share of the rate at a step: up in a line for ``warm`` steps, then down in one to 0."""
    return min(step / warm, (steps - step) / (steps - warm))


def fit_scheduled(model, loss_of_batch, steps, rate, warm, decay=0.0, every=None, look=None):
    """Train on ``loss_of_batch(model)``; returns what ``look(model)`` said every so many steps."""
    optimizer = mt.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=decay)
    said = []
    for step in tqdm(range(1, steps + 1), leave=False):
        optimizer.param_groups[0]["lr"] = rate * in_lines(step, steps, warm)
        loss = loss_of_batch(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if look and step % every == 0:
            model.eval()
            said.append(look(model))
            model.train()
    model.eval()
    return said
