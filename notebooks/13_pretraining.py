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


# %%
def number_model(causal=False):
    """Chapter 10's stack, two blocks of width 64, for number sentences."""
    return OneStack(V, 64, heads=4, hidden=256, layers=2, causal=causal)


RULES = {
    "100/0/0": (1.0, 0.0, 0.0),
    "80/20/0": (0.8, 0.2, 0.0),
    "80/0/20": (0.8, 0.0, 0.2),
    "80/10/10": (0.8, 0.1, 0.1),
}


@cache
def pretrained(kind, seed, steps):
    """A model that has read the sentences: masked by a rule; "causal"; "shuffled" (masked)."""
    mt.manual_seed(seed)
    model = number_model(causal=kind == "causal")
    tokens = text
    if kind == "shuffled":
        order = mt.rand(*text.shape).masked_fill(text < FIRST, 2.0).argsort(dim=1)
        tokens = text.gather(1, order)

    def loss():
        batch = tokens[mt.randint(0, len(tokens), (64,))]
        if model.causal:
            return next_token_loss(model, batch)
        return blanks_loss(model, batch, RULES.get(kind, RULES["80/10/10"]))

    list(descend(model.parameters(), loss, steps, rate=3e-3))
    return model


# %%
unseen = [pair.source for pair in number_pairs(2000, digits=(3, 6), held_out=True, seed=1)]
unseen = [list(words) for words in dict.fromkeys(map(tuple, unseen))]
choosing_sentences, reported_sentences = unseen[:300], unseen[300:1200]


# %%
@lab.experiment(
    "E1",
    rule=["100/0/0", "80/10/10"],
    steps=700,
    full=dict(rule=list(RULES), steps=1000, seeds=3),
)
@mt.no_grad()
def masking_rules(rule, steps, seed):
    """What a masked model makes of blanks, of right words that it sees, and of wrong ones."""
    with mt.enable_grad():
        model = pretrained(rule, seed, steps)
    mt.manual_seed(seed)
    tokens = encoded(reported_sentences)
    words = tokens >= FIRST
    blanks, _ = masked(tokens, RULES["100/0/0"])
    wrong, _ = masked(tokens, (0.0, 1.0, 0.0))

    def right(inputs, asked):
        return (model(inputs).argmax(-1) == tokens)[asked].float().mean()

    return {
        "blanks filled": right(blanks, blanks == MASK),
        "right words kept": right(tokens, words),
        "wrong words mended": right(wrong, (wrong != tokens) & words),
    }


rules = masking_rules.run()

# %% [markdown]
# ## 3. Fine-tuned, frozen, from scratch
#
# TEXT3


# %% evidence
# Two labelled tasks on number sentences: data
VALUES = {number_pieces(k)[0]: k for k in [*range(20), *range(20, 100, 10)]}


def says_a_number(words):
    """Whether English says a number below a million in these words."""
    total = group = 0
    for word in words:
        if word == "hundred":
            group *= 100
        elif word == "thousand":
            total, group = total + 1000 * group, 0
        elif word != "and":
            group += VALUES[word]
    return total + group < 10**6 and number_pieces(total + group) == words


def exchanged(words, rng):
    """The words with two of them exchanged, so that they say no number."""
    while True:
        changed = list(words)
        i, j = rng.sample(range(len(words)), 2)
        changed[i], changed[j] = words[j], words[i]
        if not says_a_number(changed):
            return changed


def labelled(task, sentences, seed):
    """Tokens (B, n) and labels: places of words (B, n), or 1 where two were exchanged (B)."""
    if task == "places":
        tokens = encoded(sentences)
        rows = [[-100, *places(words)] for words in sentences]
        return tokens, mt.tensor([row + [-100] * (tokens.shape[1] - len(row)) for row in rows])
    rng = random.Random(seed)
    wrong = [i % 2 for i in range(len(sentences))]
    pairs = zip(sentences, wrong, strict=True)
    return encoded([exchanged(words, rng) if x else words for words, x in pairs]), mt.tensor(wrong)


@cache
def labelled_parts(task, labels, seed):
    """Sentences to train on, to choose by, and to report on, with their labels."""
    pairs = number_pairs(labels, digits=(3, 6), seed=1000 + seed)
    parts = [[pair.source for pair in pairs], choosing_sentences, reported_sentences]
    return [labelled(task, sentences, seed + i) for i, sentences in enumerate(parts)]


# %%
def mean_state(states, tokens):
    """The mean of a sentence's states (B, n, d), padding left out: (B, d)."""
    real = (tokens != 0).unsqueeze(-1).float()
    return (states * real).sum(1) / real.sum(1)


class WithHead(nn.Module):
    """A model and a linear layer: scores of each word (B, n, 4), or of a sentence (B, 2)."""

    def __init__(self, model, task):
        super().__init__()
        self.model, self.task = model, task
        self.head = nn.Linear(64, 4 if task == "places" else 2)

    def read(self, tokens):
        states = self.model.states(tokens)
        return states if self.task == "places" else mean_state(states, tokens)

    def forward(self, tokens):
        return self.head(self.read(tokens))


@mt.no_grad()
def share_right(scores, labels):
    """The share of labels, where there are any, that have the largest score."""
    return (scores.argmax(-1) == labels)[labels >= 0].float().mean().item()


# %%
def right_at_best(scores_of, parameters, parts, steps, rate):
    """Train on the first part; the share right of the third, where that of the second is best."""
    (inputs, labels), *judged = parts

    def loss():
        rows = mt.randint(0, len(inputs), (32,))
        return F.cross_entropy(scores_of(inputs[rows]).flatten(0, -2), labels[rows].flatten())

    best = -1, 0, 0
    for step, _ in enumerate(descend(parameters, loss, steps, rate), 1):
        if step % (steps // 8) == 0:
            with mt.no_grad():
                elsewhere, right = (share_right(scores_of(x), y) for x, y in judged)
            if elsewhere > best[0]:
                best = elsewhere, right, step
    return dict(zip(("right elsewhere", "right", "best step"), best, strict=True))


# %%
METHODS = {  # where the weights come from, whether the model stays as it is, the usual rate
    "frozen, untrained": ("untrained", True, 0.03),
    "frozen": ("80/10/10", True, 0.03),
    "fine-tuned": ("80/10/10", False, 1e-3),
    "from scratch": ("untrained", False, 3e-3),
    "fine-tuned, causal": ("causal", False, 1e-3),
    "fine-tuned, shuffled": ("shuffled", False, 1e-3),
}


def from_labels(task, labels, method, factor, steps, pretraining, seed):
    """Share of right labels after learning from this many labelled sentences."""
    kind, frozen, rate = METHODS[method]
    start = None if kind == "untrained" else pretrained(kind, seed, pretraining)
    mt.manual_seed(seed)
    whole = WithHead(number_model(kind == "causal"), task)
    if start:
        whole.model.load_state_dict(start.state_dict())
    parts = labelled_parts(task, labels, seed)
    if frozen:
        parts = [(whole.read(tokens).detach(), answers) for tokens, answers in parts]
    trained = whole.head if frozen else whole
    return right_at_best(trained, trained.parameters(), parts, steps, factor * rate)


# %% [markdown]
# ### Against the number of labels (C28)
#
# TEXT28


# %%
@lab.experiment(
    "C28",
    method=["frozen, untrained", "fine-tuned", "from scratch"],
    labels=[10, 300],
    factor=1,
    steps=160,
    pretraining=700,
    full=dict(
        method=list(METHODS),
        labels=[10, 30, 100, 300],
        factor=Tuned(0.3, 1, 3, highest="right elsewhere"),
        steps=240,
        pretraining=1000,
        seeds=3,
    ),
)
def place_of_each_word(method, labels, factor, steps, pretraining, seed):
    """The place of each word of a number."""
    return from_labels("places", labels, method, factor, steps, pretraining, seed)


on_places = place_of_each_word.run()


# %%
@lab.experiment(
    "C28",
    method=["fine-tuned", "from scratch"],
    labels=[1000],
    factor=1,
    steps=240,
    pretraining=700,
    full=dict(
        method=["frozen, untrained", "frozen", "fine-tuned", "from scratch"],
        labels=[100, 1000, 10000],
        factor=Tuned(0.3, 1, 3, highest="right elsewhere"),
        steps=1200,
        pretraining=1000,
        seeds=3,
    ),
)
def two_words_exchanged(method, labels, factor, steps, pretraining, seed):
    """Whether two words of a number were exchanged."""
    return from_labels("exchanged", labels, method, factor, steps, pretraining, seed)


on_exchanged = two_words_exchanged.run()

# %% [markdown]
# ## 4. A causal language model without fine-tuning
#
# TEXT4


# %%
@mt.no_grad()
def loss_of_each(model, tokens):
    """The loss of each token but the first, 0 at padding: (B, n - 1)."""
    scores, targets = model(tokens[:, :-1]), tokens[:, 1:]
    losses = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
    return losses.unflatten(0, targets.shape).masked_fill(targets == 0, 0.0)


def area_under_curve(values, wrong):
    """How often a wrong sentence has a larger value than a right one."""
    return (values[wrong == 1][:, None] > values[wrong == 0]).float().mean()


@lab.experiment("E3", pretraining=700, full=dict(pretraining=1000, seeds=3))
def wrong_without_labels(pretraining, seed):
    """Right and exchanged sentences told apart by their losses alone."""
    model = pretrained("causal", seed, pretraining)
    tokens, wrong = labelled("exchanged", reported_sentences, seed=2)
    losses = loss_of_each(model, tokens)
    return {
        "by the largest loss": area_under_curve(losses.amax(1), wrong),
        "by the mean loss": area_under_curve(losses.sum(1) / (tokens[:, 1:] != 0).sum(1), wrong),
    }


without_labels = wrong_without_labels.run()

# %% [markdown]
# ## 5. What does it know?
#
# TEXT5


# %%
def states_by_layer(model, tokens):
    """The embedding, and what each block makes of it: (B, n, d) each, normalized."""
    allowed = causal_mask(tokens.shape[1]) if model.causal else real_tokens(tokens)
    states = [model.embedded(tokens)]
    for block in model.blocks:
        states.append(block(states[-1], allowed))
    return [F.layer_norm(x, x.shape[-1:]) for x in states]


@lab.experiment(
    "E6",
    kind=["80/10/10", "untrained"],
    layer=[0, 2],
    task=["places"],
    steps=160,
    pretraining=700,
    full=dict(
        kind=["80/10/10", "causal", "untrained"],
        layer=[0, 1, 2],
        task=["places", "exchanged"],
        steps=240,
        pretraining=1000,
        seeds=3,
    ),
)
def probe(task, kind, layer, steps, pretraining, seed, labels=1000):
    """Share right of a linear head that reads one layer of a model that stays as it is."""
    model = number_model() if kind == "untrained" else pretrained(kind, seed, pretraining)
    mt.manual_seed(seed)
    head = nn.Linear(64, 4)
    parts = []
    for tokens, answers in labelled_parts(task, labels, seed):
        with mt.no_grad():
            states = states_by_layer(model, tokens)[layer]
        parts.append((states if task == "places" else mean_state(states, tokens), answers))
    return right_at_best(head, head.parameters(), parts, steps, rate=0.03)


probes = probe.run()

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

