# %% [markdown]
# # 13 Pretraining
#
# INTRO

# %%
import math
import platform
import random
from functools import cache

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.pretraining as diagrams
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_05 import places
from textbook.chapter_10 import OneStack, Transformer
from textbook.data import (
    Vocabulary,
    language_reference,
    library_source,
    number_pairs,
    number_pieces,
    read_text,
    split,
)
from textbook.data.numerals import is_held_out
from textbook.decoding import greedy, sample
from textbook.lab import Lab, Tuned, colored_text, measured
from textbook.lab.report import table

lab = Lab("13")

# %% [markdown]
# ## 2. A masked language model
#
# TEXT2

# %%
names = ["<pad>", "<mask>", "<s>", "</s>"]
spoken = [pair.source for pair in number_pairs(20_000, digits=(3, 6), seed=0)]
vocabulary = Vocabulary([word for words in spoken for word in words], specials=names)
MASK, FIRST, V = vocabulary["<mask>"], len(names), len(vocabulary)


def encoded(sentences):
    """The numbers of the words of each sentence between <s> and </s>: (B, n)."""
    return vocabulary.encode_batch(sentences, start=True, end=True, batch_first=True)[0]


text = encoded(spoken)
example = number_pieces(342_119)
print(" ".join(example), "- held out:", is_held_out(342_119))
print(text.shape, V)

# %% [markdown]
# ### Which tokens are masked
#
# TEXT2b


# %%
def masked(tokens, rule=(0.8, 0.1, 0.1), share=0.15):
    """Tokens with blanks, and what was there: -100 where nothing is asked; both (B, n)."""
    hide, replace, _ = rule
    chosen = (mt.rand(*tokens.shape) < share) & (tokens >= FIRST)
    case = mt.rand(*tokens.shape)
    anything = mt.randint(FIRST, V, tokens.shape)
    inputs = tokens.masked_fill(chosen & (case < hide), MASK)
    inputs = mt.where(chosen & (case >= hide) & (case < hide + replace), anything, inputs)
    return inputs, tokens.masked_fill(~chosen, -100)


def blanks_loss(model, tokens, rule=(0.8, 0.1, 0.1)):
    """Mean loss of what stood at the chosen places; the others do not count."""
    inputs, targets = masked(tokens, rule)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


# %%
def next_token_loss(model, tokens):
    """Mean loss of each token but the first, from those before it."""
    targets = tokens[:, 1:].masked_fill(tokens[:, 1:] == 0, -100)
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten())


def descend(parameters, loss_of_batch, steps, rate):
    """Adam with clipping; the rate rises for a tenth of the steps, then falls. Yields losses."""
    parameters = list(parameters)
    optimizer = mt.optim.Adam(parameters, betas=(0.9, 0.98))
    for step in range(steps):
        loss = loss_of_batch()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        warm_up = min(10 * (step + 1) / steps, 1)
        optimizer.param_groups[0]["lr"] = rate * warm_up * (1 - step / steps)
        optimizer.step()
        yield loss.item()


# %% [markdown]
# ## 6. Scaling
#
# TEXT6


# %%
def characters(text):
    """A character's number is its ASCII code: (N)."""
    return mt.tensor(np.frombuffer(text.encode("ascii"), np.uint8)).long()


def drawn(text, count, length=64):
    """Windows that begin anywhere: (count, length + 1)."""
    starts = mt.randint(0, len(text) - length, (count,))
    return text[starts[:, None] + mt.arange(length + 1)]


source, aside = map(characters, library_source())
mt.manual_seed(0)
reported_code, choosing_code = (drawn(half, 512) for half in aside.split((len(aside) + 1) // 2))


# %%
def code_model(d):
    """A causal model of characters, two blocks; its heads are four at any width."""
    return OneStack(128, d, heads=4, hidden=4 * d, layers=2, causal=True)


def flops_a_token(d, n=64):
    """24 d^2 + 4 n d a block (chapter 12), 2 d V at the output; three times that to train."""
    return 3 * (2 * (24 * d**2 + 4 * n * d) + 2 * d * 128)


@mt.no_grad()
def nats(model, windows):
    """Mean loss of a character in windows (B, n + 1)."""
    return np.mean([next_token_loss(model, part).item() for part in windows.split(64)])


with count_flops() as counter:
    next_token_loss(code_model(32), reported_code[:2]).backward()
print("counted over formula:", round(counter.total / (2 * 64 * flops_a_token(32)), 2))

# %% [markdown]
# ### Loss against tokens (C29)
#
# TEXT29


# %%
def trained_on_code(model, steps, rate, batch, text=source):
    """Train on windows of a text; yields the loss of each step."""
    return descend(
        model.parameters(), lambda: next_token_loss(model, drawn(text, batch)), steps, rate
    )


@lab.experiment(
    "C29",
    d=[16, 64],
    pace=0.4,
    steps=250,
    full=dict(
        d=[16, 32, 64, 128],
        pace=Tuned(0.2, 0.4, 0.8, lowest="nats elsewhere"),
        steps=800,
        seeds=3,
    ),
)
def loss_by_tokens(d, pace, steps, batch=8):
    """Loss against the characters read; the rate is pace / d."""
    model = code_model(d)
    read, losses = [], []
    for step, _ in enumerate(trained_on_code(model, steps, pace / d, batch), 1):
        if step % (steps // 10) == 0:
            read.append(64 * batch * step)
            losses.append(nats(model, reported_code))
    return {
        "weights": sum(p.numel() for p in model.parameters()),
        "characters read": read,
        "nats a character": losses,
        "nats elsewhere": nats(model, choosing_code),
    }


by_tokens = loss_by_tokens.run()

# %% [markdown]
# ### The best size for a budget (C37)
#
# TEXT37


# %%
WIDTHS = [8, 12, 16, 24, 32, 48, 64, 96, 128]
MIDDLES = {2e9: 16, 1e10: 16, 3e10: 24, 9e10: 32, 2.7e11: 48}


def spent(d, budget, pace, batch=4):
    """A model of width d trained with this many FLOPs, and its steps; the rate is pace / d."""
    steps = round(budget / flops_a_token(d) / (64 * batch))
    model = code_model(d)
    list(trained_on_code(model, steps, pace / d, batch))
    return model, steps


@lab.experiment(
    "C37",
    budget=[2e9, 1e10],
    place=[-1, 2],
    full=dict(budget=[1e10, 3e10, 9e10, 2.7e11], place=[-2, -1, 0, 1, 2], seeds=3),
)
def equal_budgets(budget, place, pace=0.4):
    """One of several widths around a middle one, all trained with the same FLOPs."""
    d = WIDTHS[WIDTHS.index(MIDDLES[budget]) + place]
    model, steps = spent(d, budget, pace)
    return {
        "d": d,
        "weights": sum(p.numel() for p in model.parameters()),
        "characters read": 64 * 4 * steps,
        "nats a character": nats(model, reported_code),
    }


best_sizes = equal_budgets.run()


# %% evidence
# One rule for the rate at all widths: experiment
@lab.experiment(
    "C37",
    d=[32],
    pace=[0.1, 0.4, 1.6],
    budget=2e9,
    full=dict(d=[16, 32, 64], pace=[0.1, 0.2, 0.4, 0.8], budget=3e10),
)
def rates_of_widths(d, pace, budget):
    """Loss on the other half of the files when the rate is pace / d."""
    return {"nats elsewhere": nats(spent(d, budget, pace)[0], choosing_code)}


rates = rates_of_widths.run()

# %% [markdown]
# ### When text runs out (E7)
#
# TEXTE7


# %%
@lab.experiment(
    "E7",
    kept=[20_000, 4_000_000],
    steps=250,
    d=64,
    full=dict(steps=800, seeds=3),
)
def short_text(kept, steps, d, batch=16):
    """Loss on a text that is read again and again, and on files kept aside."""
    text = source[:kept]
    own = text[400 * mt.arange(49)[:, None] + mt.arange(65)]
    model = code_model(d)
    read, losses, own_losses = [], [], []
    for step, _ in enumerate(trained_on_code(model, steps, 0.4 / d, batch, text), 1):
        if step % (steps // 10) == 0:
            read.append(64 * batch * step)
            losses.append(nats(model, reported_code))
            own_losses.append(nats(model, own))
    return {
        "characters read": read,
        "nats a character": losses,
        "nats on its own text": own_losses,
    }


run_out = short_text.run()

