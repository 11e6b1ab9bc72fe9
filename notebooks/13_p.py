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
from textbook.chapter_07 import causal_mask, real_tokens
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
# ### A prompt chooses a task (E4)
#
# TEXTE4


# %%
LANGUAGES = ["en", "de", "fr", "digits"]
NEVER = [("fr", "de", 0), ("digits", "fr", 0), ("de", "de", 1)]  # pairs kept out of training


def said(number, language):
    """The tokens of a number below 100; each language has its own."""
    pieces = list(str(number)) if language == "digits" else number_pieces(number, language)
    return [f"{language}:{piece}" for piece in pieces]


TASKS = [(a, b, int(a == b)) for a in LANGUAGES for b in LANGUAGES]  # the next number if a == b
KNOWN = [task for task in TASKS if task not in NEVER]
FREE, HELD = ([k for k in range(99) if is_held_out(k) == held] for held in (False, True))
signs = Vocabulary([w for a in LANGUAGES for k in range(100) for w in said(k, a)], ["<pad>", ">", ";"])


# %%
def document(task, numbers):
    """"number > answer ;" for each number, as tokens, and where the last answer begins."""
    a, b, plus = task
    line = []
    for number in numbers:
        line += [*said(number, a), ">"]
        start = len(line)
        line += [*said(number + plus, b), ";"]
    return line, start


def documents(count, rng):
    """Six lines of one task each, of numbers that are not held out: (count, 41)."""
    lines = [document(rng.choice(KNOWN), rng.choices(FREE, k=6))[0] for _ in range(count)]
    return signs.encode_batch([line[:41] for line in lines], batch_first=True)[0]


# %%
@mt.no_grad()
def answered(model, tasks, examples, numbers, rng, count=60):
    """Exact match of the answer after some examples; the number asked for is one of numbers."""
    right = 0
    for i in range(count):
        asked = [*rng.choices(FREE, k=examples), rng.choice(numbers)]
        line, start = document(tasks[i % len(tasks)], asked)
        tokens = signs.encode(line)[None]
        right += bool((model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:])[0, start - 1 :].all())
    return right / count


@cache
def prompted(steps, seed):
    """A causal model of such documents."""
    mt.manual_seed(seed)
    model, pool = OneStack(len(signs), 64, 4, 256, 2, causal=True), documents(20_000, random.Random(seed))
    batch = lambda: pool[mt.randint(0, len(pool), (16,))]
    list(descend(model.parameters(), lambda: next_token_loss(model, batch()), steps, 3e-3))
    return model


@lab.experiment("E4", examples=[0, 1, 4], steps=800, full=dict(examples=[0, 1, 2, 4], steps=2000, seeds=3))
def prompts(examples, steps, seed):
    """Answers after some examples in the prompt."""
    model, rng = prompted(steps, seed), random.Random(100 + seed)
    return {
        "trained tasks": answered(model, KNOWN, examples, FREE, rng),
        "held-out numbers": answered(model, KNOWN, examples, HELD, rng),
        "tasks never trained": answered(model, NEVER, examples, FREE, rng),
    }



import sys, time
def trial(langs, never, rate, steps, batch=16, seed=0):
    global LANGUAGES, NEVER, TASKS, KNOWN, signs
    LANGUAGES, NEVER = langs, never
    TASKS = [(a, b, int(a == b)) for a in LANGUAGES for b in LANGUAGES]
    KNOWN = [t for t in TASKS if t not in NEVER]
    signs = Vocabulary([w for a in LANGUAGES for k in range(100) for w in said(k, a)], ["<pad>", ">", ";"])
    mt.manual_seed(seed)
    m, pool = OneStack(len(signs), 64, 4, 256, 2, causal=True), documents(20_000, random.Random(seed))
    c=time.process_time()
    l=list(descend(m.parameters(), lambda: next_token_loss(m, pool[mt.randint(0, len(pool), (batch,))]), steps, rate))
    c=time.process_time()-c
    rng=random.Random(5)
    print(langs, rate, steps, batch, "loss", round(np.mean(l[-50:]),3), "cpu", round(c,1), [[round(answered(m, t, e, n, rng),2) for e in (0,1,4)] for t,n in ((KNOWN,FREE),(KNOWN,HELD),(NEVER,FREE))], flush=True)
trial(["en","de","fr"],[("fr","de",0),("de","de",1)],6e-3,800)
trial(["en","de","fr"],[("fr","de",0),("de","de",1)],1e-2,800)
trial(["en","de","fr","digits"],[("fr", "de", 0), ("digits", "fr", 0), ("de", "de", 1)],6e-3,1500)
trial(["en","de","digits"],[("de","en",0),("de","de",1)],6e-3,800)
