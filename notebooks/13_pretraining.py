# %% [markdown]
# # 13 Pretraining
#
# | a model that has read numbers, and nothing else | the same model, later in this chapter |
# | --- | --- |
# | {{13 talked_with: said before[0:6]}} | {{13 talked_with: said[0:6]}} |
#
# Between these two talks lies this chapter.
#
# Every model so far had a teacher: for each example somebody had written the answer down. We could afford that, since a
# program wrote our answers. Elsewhere an answer costs money, and text costs nothing. Can a model learn from text alone,
# before anybody asks it anything? It can, and every language model of today begins so. In this chapter we do it on a small
# scale, with the blocks of chapters 05 to 10, and ask each time what it is worth. We open a model and see how it uses what
# it has just read. And at the end a model learns to answer when it is asked.
#
# **After this chapter you will be able to**
#
# - write the loss of a masked and of a causal language model, and say what each is good for;
# - pretrain an encoder, fine-tune it or keep it frozen, and compare both *fairly* with training from scratch;
# - use a language model without any label: score sentences, and ask by examples in a prompt;
# - explain an induction head, and find by cuts what it cannot do without;
# - read a scaling curve and a figure of equal budgets, and doubt them;
# - write a loss of preferences and a step of learning from a reward;
# - train a model on a text of your own.
#
# **Time**: about 120 minutes to read, without the side roads and what *Try it* takes; all cells together run in less than a
# minute. **Before it**: chapters 05 to 10; chapter 03 for padding, chapter 11 for pieces and decoding.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import random
from functools import cache

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.chapter_07 import causal_mask
from textbook.chapter_10 import OneStack, Transformer
from textbook.chapter_11 import fit_scheduled
from textbook.data import Vocabulary, first_edition, first_edition_code, number_pairs
from textbook.data.bpe import BytePairEncoding
from textbook.data.numerals import is_held_out, number_pieces
from textbook.data.text import split
from textbook.decoding import greedy, sample
from textbook.lab import Lab, Tuned, measured

lab = Lab("13")

# %% evidence
# What only folded cells need
import re
from functools import partial
from itertools import islice, pairwise

import textbook.diagrams.pretraining as diagrams
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_05 import places
from textbook.chapter_07 import real_tokens
from textbook.data import lacking, tiny_shakespeare
from textbook.data.files import read_text
from textbook.lab import colored_text, large
from textbook.lab.report import spread, table

# %% [markdown]
# ## 1. Labels are dear, text is cheap
#
# Take the number 342,156: *three hundred and forty two thousand one hundred and fifty six*. Suppose that we want a model
# to say of each word what it counts: ones, hundreds, thousands. Somebody has to write the answers down, sentence by
# sentence. But the sentence itself is full of questions whose answers are already there. Hide *thousand*, and ask for it.
# Stop after *forty two*, and ask what comes next. Such questions cost nothing, and whoever answers them well has learned
# how numbers are said.
#
# **Pretraining** is training on such questions. **Fine-tuning** is what follows: training on a few labelled examples of
# the task that we care about.
#
# ### Three families
#
# Which questions can we ask? That depends on who may look at whom (chapter 10).

# %% evidence
# What each family reads, what it is asked, and its mask
figure, panels = plot.subplots(2, 3, width=10, height=4.6, height_ratios=[1, 1.5])
blank = ["<s>", "we", "<mask>", "a", "word"]
next_words = ["we", "read", "a", "word", "</s>"]
hole = ["we", "<mask>", "word", "<s>", "read"]
families = {
    "encoder": (blank, [None, None, "read", None, None], lambda i, j: True, 2),
    "decoder": (["<s>", *next_words[:4]], next_words, lambda i, j: j <= i, 2),
    "encoder and decoder": (
        hole,
        [None] * 3 + ["read", "a"],
        lambda i, j: j < 3 if i < 3 else j <= i,
        3,
    ),
}
for (above, below), (name, family) in zip(panels.T, families.items(), strict=True):
    read, asked, looks, lit = family
    diagrams.family(above, read, asked, looks, name, lit)
    plot.mask(below, np.array([[looks(i, j) for j in range(5)] for i in range(5)]), read, read)
    below.plot([-0.5, 4.5, 4.5, -0.5, -0.5], lit + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]), "C1-")
plot.show(
    figure,
    alt="Three families side by side, tokens and answers above, the mask below. Encoder: one blank, whose answer is "
    "linked to all tokens; the mask is open everywhere. Decoder: each answer linked to the tokens up to its own place; "
    "the mask is a triangle. Encoder and decoder: the missing words, linked to the sentence with a hole and to the "
    "words written so far; in the mask a square for the sentence, below it rows that also see what was written. In "
    "each panel one answer's links are orange, and so is the frame of its row of the mask.",
)

# %% [markdown]
# What to see: below each family stands its mask, a row for each token that looks, dark where it may. The orange row is the
# orange fan.
#
# - An **encoder** looks to both sides. Asked for the next word it would copy it (C15, chapter 07). So we hide words, and
#   it fills the blanks: a *masked language model*.
# - A **decoder** looks to the left. Each word is a question about the next one: a *causal language model*, as in chapters
#   01, 07 and 10.
# - An **encoder with a decoder** reads a sentence with a hole and writes what is missing. (In the picture the last two
#   columns are the decoder's, which begins with `<s>`.)
#
# | model | family | weights | read | source |
# | --- | --- | --- | --- | --- |
# | GPT | decoder | 117 million | BooksCorpus | Radford et al., 2018 |
# | BERT | encoder | 110 and 340 million | BooksCorpus and Wikipedia, 3.3 billion words | Devlin et al., 2019 |
# | T5 | both | up to 11 billion | C4, 750 GB of web pages | Raffel et al., 2020 |
# | GPT-3 | decoder | 175 billion | 300 billion tokens | Brown et al., 2020 |
# | Llama 3 | decoder | up to 405 billion | 15.6 trillion tokens | Dubey et al., 2024 |
#
# **The benchmark board** (deck 1, "Great Results with Transformers"; deck 3), GLUE (Wang et al., 2018), has only such models in
# its first places. But it does not show the same model *without* pretraining. That is section 3.
#
# **The way through this chapter.** Each column is a section's model:

# %% evidence
# What is read, what is asked and what learns, from section to section
figure, axes = plot.subplots(width=9, height=3.6)
columns = [
    (
        "text",
        "sections 2, 5, 6",
        "blanks, or the\nnext word",
        False,
        False,
        True,
        "20,000 sentences",
    ),
    ("labels", "section 3", "a kind for\neach word", True, True, True, "10 labelled"),
    ("a prompt", "section 4", "goes on", False, True, False, "1 example"),
    ("conversations", "section 7", "the words of\nthe answers", False, True, True, "100 talks"),
    ("a reward", "section 7", "a program says\nyes or no", False, True, True, "no example"),
]
diagrams.stages(axes, columns)
plot.show(
    figure,
    alt="Five columns with the same two blocks. Text: random blocks learn, from 20,000 sentences. Labels: blocks "
    "that have read text and a head learn, from 10 sentences. A prompt: the blocks are hatched, they stay as they are; 1 "
    "example. Conversations: the blocks learn from 100 talks. A reward: they learn from no example at all.",
)

# %% [markdown]
# What to see: blue blocks have read text, hatched ones do not learn, and below stands how many examples it takes. From column
# to column it changes what is asked and what learns. **The blocks stay.**

# %% [markdown]
# ## 2. A masked language model
#
# How does one hide words and ask for them? We pretrain an encoder on 20,000 number sentences, one token a word. A tenth of
# all numbers is held out, as in chapter 03. Our example, 342,156, is one of them.

# %%
names = ["<pad>", "<mask>", "<s>", "</s>"]
spoken = [pair.source for pair in number_pairs(20_000, digits=(3, 6), seed=0)]
vocabulary = Vocabulary([word for words in spoken for word in words], specials=names)
MASK, FIRST, V = vocabulary["<mask>"], len(names), len(vocabulary)


def encoded(sentences):
    """The numbers of the words of each sentence between <s> and </s>: (B, n)."""
    return vocabulary.encode_batch(sentences, start=True, end=True, batch_first=True)[0]


text = encoded(spoken)
example = number_pieces(342_156)
print(" ".join(example), "- held out:", is_held_out(342_156))
print("text:", tuple(text.shape), "- vocabulary:", V)

# %% [markdown]
# ### Which tokens are masked
#
# Devlin et al. (2019) choose 15 % of the tokens. Of the chosen ones 80 % are hidden behind `<mask>`, 10 % are replaced by
# a word drawn at random, and 10 % stay as they are. The model is asked at *all* chosen places for the word that stood
# there, and nowhere else.

# %% evidence
# One sentence with its chosen places
figure, axes = plot.subplots(width=10, height=1.9)
shown = [*example[:3], "seven", "two", "<mask>", *example[6:]]
kinds_shown = ["", "", "", "replaced", "kept", "hidden", *[""] * 5]
diagrams.masking(axes, example, shown, kinds_shown)
plot.show(
    figure,
    alt="The eleven words of the example, what is read and what is asked: forty is replaced by seven, two is kept, "
    "thousand is hidden, and these three are asked; of the others nothing is asked.",
)

# %% [markdown]
# What to see: three words were chosen. One is hidden, one is replaced, one is kept, and the loss asks for all three. Why
# not hide all three? Because later, when the model is used, nothing is hidden. A kept word teaches it to believe what it
# reads, and a replaced one to doubt it. (A side road measures both, E1.)
#
# In letters: $x$ are the $n$ tokens as they stood, and $M$ is the set of chosen places. The model reads the tokens with
# blanks, and its state of place $i$ after the last block is $s_i$, of size $d$. The output layer has $W$, $(d, V)$, and $b$,
# $(V)$. It gives $p_i$, a probability for each of the $V$ words, and the loss looks up the word $x_i$ that stood there:
#
# $$p_i = \operatorname{softmax}(s_i W + b), \qquad \text{loss} = -\frac{1}{|M|} \sum_{i \in M} \log p_i[x_i] .$$


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


# %% [markdown]
# Where nothing is asked, the target is -100, and `cross_entropy` leaves it out: of the sum and of the count. A loop over
# the places gives the same loss, here with a model that knows nothing yet:

# %%
mt.manual_seed(3)
model = OneStack(V, 64, heads=4, hidden=256, layers=2, causal=False)
inputs, targets = masked(encoded([example] * 20))
log_p = model(inputs).log_softmax(-1)
asked = [(b, i) for b in range(20) for i in range(inputs.shape[1]) if targets[b, i] >= 0]
by_hand = -sum(log_p[b, i, targets[b, i]].item() for b, i in asked) / len(asked)
at_once = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item()
print("read: ", " ".join(vocabulary.decode(inputs[0][1:-1])))
print("asked:", " ".join("." if t < 0 else vocabulary.tokens[t] for t in targets[0][1:-1]))
print("loop and matrices agree:", abs(by_hand - at_once) < 1e-5)

# %% [markdown]
# A causal model needs no blanks, since each token is the target of those before it. One loop trains both.


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


# %% evidence
# Rules of masking: hidden, replaced, kept
RULES = {
    "100/0/0": (1.0, 0.0, 0.0),
    "80/20/0": (0.8, 0.2, 0.0),
    "80/0/20": (0.8, 0.0, 0.2),
    "80/10/10": (0.8, 0.1, 0.1),
}


# %%
def number_model(causal=False):
    """Chapter 10's stack, two blocks of width 64, for number sentences."""
    return OneStack(V, 64, heads=4, hidden=256, layers=2, causal=causal)


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


# %% evidence
# Numbers that no model reads: some to choose by, the others to report on
unseen = [pair.source for pair in number_pairs(2000, digits=(3, 6), held_out=True, seed=1)]
unseen = [list(words) for words in dict.fromkeys(map(tuple, unseen))]
unseen = random.Random(1).sample(unseen, len(unseen))  # as they were drawn, short ones come first
choosing_sentences, reported_sentences = unseen[:300], unseen[300:1200]

# %% [markdown]
# ("Shuffled" reads the same words in random order. It will be a control in section 3.) We train for a few seconds. Then we
# hide each word of our sentence, one at a time. Before you look: where can the model be sure, and where not?

# %%
encoder = pretrained("80/10/10", seed=0, steps=200)

# %% evidence
# Each word of the example hidden: what the model expects there
tokens = encoded([example] * len(example))
asked = mt.arange(len(example))
tokens[asked, asked + 1] = MASK
with mt.no_grad():
    guesses = encoder(tokens).softmax(-1)[asked, asked + 1].topk(3)
table(
    ["hidden", "first guess", "second", "third"],
    [
        [word, *(f"{vocabulary.tokens[int(k)]} {p:.2f}" for p, k in zip(*row, strict=True))]
        for word, *row in zip(
            example, guesses.values.tolist(), guesses.indices.tolist(), strict=True
        )
    ],
    "what the model expects behind each blank, with its probability: measured here",
    folded=False,
)

# %% [markdown]
# Where the other words leave no choice (*thousand*, *and*), the model is nearly sure. Where any digit would do, it spreads
# its bet, and it should: nothing in the sentence tells *forty* from *fifty*. What has it learned, then? Which *kind* of
# word belongs where. Nobody told it that there are kinds.
#
# ## 3. Fine-tuned, frozen, from scratch
#
# Is that worth anything for a task? Now we need labels. The task is chapter 05's, the **place** of each word: does it count ones,
# hundreds, thousands or hundred thousands? Tens go with their ones: *fifty six* counts ones, and *forty two* thousands. So
# there are four answers, and a guess at random is right in a quarter of the cases. Here is our sentence with its labels.
# (Words such as *hundred* are not asked for.)

# %% evidence
# The example with the label of each word
table(
    ["word", *example],
    [
        [
            "counts",
            *({0: "1", 1: "100", 2: "1,000", 3: "100,000"}.get(k, "") for k in places(example)),
        ]
    ],
    "a labelled sentence",
    folded=False,
)

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
            group += VALUES.get(word, 10**6)
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


# %% [markdown]
# To answer, an encoder gets a *head*: one linear layer that reads the state of each word. What about the encoder below it?
# There are four ways to begin.

# %% evidence
# Four ways to begin
figure, axes = plot.subplots(width=8, height=2.6)
ways = [("from scratch", False, True), ("fine-tuned", True, True)]
diagrams.starts(axes, [*ways, ("frozen", True, False), ("frozen, untrained", False, False)])
plot.show(
    figure,
    alt="Four encoders, each with a head on top, words below and labels above. From scratch: random, learns. "
    "Fine-tuned: has read text, learns. Frozen: has read text, hatched. Frozen, untrained: random, hatched.",
)

# %% [markdown]
# What to see: blue has read text, and what is hatched does not learn. The last one is a control that is usually left out.
# Random layers mix words, too, and a head may find use in that. What "frozen" has beyond it, pretraining has brought.


# %% evidence
# The mean state of a sentence, and the share of right labels
def mean_state(states, tokens):
    """The mean of a sentence's states (B, n, d), padding left out: (B, d)."""
    real = (tokens != 0).unsqueeze(-1).float()
    return (states * real).sum(1) / real.sum(1)


@mt.no_grad()
def share_right(scores, labels):
    """The share of labels, where there are any, that have the largest score."""
    return (scores.argmax(-1) == labels)[labels >= 0].float().mean().item()


# %%
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


# %% [markdown]
# This is all that fine-tuning is: copy the weights, put a new head on top, go on training. Ten sentences have labels, and
# we ask about 300 new ones. (`labelled` and `share_right`, folded, do what their names say.)

# %%
ten = [pair.source for pair in number_pairs(10, digits=(3, 6), seed=1000)]
ten_tokens, ten_labels = labelled("places", ten, seed=0)
new_tokens, new_labels = labelled("places", reported_sentences[:300], seed=0)


def learned_from_ten(start, rate):
    """The share right of new sentences after 60 steps on ten."""
    mt.manual_seed(0)
    whole = WithHead(number_model(), "places")
    if start:
        whole.model.load_state_dict(start.state_dict())

    def loss():
        return F.cross_entropy(whole(ten_tokens).flatten(0, 1), ten_labels.flatten())

    list(descend(whole.parameters(), loss, 60, rate))
    return share_right(whole(new_tokens), new_labels)


measured(f"from scratch:  {learned_from_ten(None, rate=3e-3):.2f} of the words right")
measured(f"after reading: {learned_from_ten(encoder, rate=1e-3):.2f}")

# %% [markdown]
# The encoder that has read is ahead, after seconds of reading and seconds of training. But this is one seed, with one rate
# for each. Was that a fair fight?
#
# **Fair care.** The easiest way to win such a comparison is to train the rival too little. A model from scratch needs more
# steps and a larger rate than one that is only adapted. So each method gets
#
# - its own rate, the best of a grid with 30 labels;
# - its own number of steps: it trains for 240, and counts where it is best on 300 sentences set apart for choosing;
# - a report on 900 other sentences, which have no part in either choice.
#
# (With ten labels nobody has 300 more to choose by. All methods enjoy the same luxury.) Two rivals join: a causal model,
# and one that read the same words in random order. All of them read twice as long as above, for 400 steps, so compare no
# number with those just printed.


# %% evidence
# Training that counts where other sentences are best
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


# %% evidence
# The six methods, and one run of any of them
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
# What do you expect: with how many labels will the rival from scratch have caught up?


# %% evidence
# Share right after learning from 10, 30 and 300 labelled sentences: experiment
@lab.experiment(
    "C28",
    method=["from scratch"],
    labels=[10],
    factor=1,
    steps=8,
    pretraining=20,
    full=dict(
        method=list(METHODS),
        labels=[10, 30, 300],
        factor=Tuned(0.3, 1, 3, highest="right elsewhere", labels=30),
        steps=240,
        pretraining=400,
        seeds=5,
    ),
)
def place_of_each_word(method, labels, factor, steps, pretraining, seed):
    """The place of each word of a number."""
    return from_labels("places", labels, method, factor, steps, pretraining, seed)


on_places = place_of_each_word.run()


# %% evidence
# Share right of labels against the number of labelled sentences: figure, table and verdicts
def drawn_methods(runs, methods, alt, levels=()):
    """A curve with its band for each method, the recorded runs where there are any."""
    figure, axes = plot.subplots(width=7.2, height=3.4)
    rows = runs.best
    counts = rows.settings_of("labels")
    for method in methods:
        if rows.has(method=method):
            found = np.array([rows.values("right", method=method, labels=n) for n in counts]).T
            i = list(METHODS).index(method)
            style = {"color": plot.COLORS[i], "linestyle": plot.LINES[i]}
            plot.spread(axes, counts, found, label=method, **style)
    for level in levels:
        axes.axhline(level, color="0.5", linewidth=1, linestyle=":")
    axes.set(xscale="log", xlabel="labelled sentences", ylabel="share right")
    axes.set_xticks(counts, counts)
    axes.minorticks_off()
    axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    plot.show(figure, alt=alt)
    runs.table("method", "right", columns="labels")


drawn_methods(
    on_places,
    ["fine-tuned", "frozen", "from scratch", "frozen, untrained"],
    "Share right against the number of labels. Fine-tuned begins highest, from scratch lowest together with the frozen "
    "untrained encoder; at 300 labels fine-tuned and from scratch are both near 1, and the untrained one stays behind.",
)


def gained(rows, labels, method="fine-tuned", over="from scratch"):
    """Share right of one method over another's, seed by seed."""
    return rows.values("right", method=method, labels=labels) - rows.values(
        "right", method=over, labels=labels
    )


for few in (10, 30):
    on_places.finding(
        f"with {few} labels fine-tuning has more words right than training from scratch",
        "right",
        larger=dict(method="fine-tuned", labels=few, steps=240),
        smaller=dict(method="from scratch", labels=few, steps=240),
    )
on_places.holds(
    "with 300 labels the difference is less than 0.03",
    lambda rows: abs(gained(rows, 300)),
    below=0.03,
)
on_places.finding(
    "with 10 labels a text in order is worth more than a shuffled one",
    "right",
    larger=dict(method="fine-tuned", labels=10, steps=240),
    smaller=dict(method="fine-tuned, shuffled", labels=10, steps=240),
)
if on_places.full:
    on_places.holds(
        "recorded: of the gain with 10 labels less than half is left if the text was shuffled",
        np.median(gained(on_places.full, 10, "fine-tuned, shuffled"))
        / np.median(gained(on_places.full, 10)),
        below=0.5,
    )

# %% [markdown]
# What to see: the two encoders that learn begin far apart and end together. With ten labelled sentences the fine-tuned encoder has eight
# words of ten right, and the one from scratch little more than half. At 300 nothing is left of the gain: then the labels
# tell all there is to tell. *Frozen* lies between at 10 and at 30, and stops short at 300: a single linear layer is all that
# learns.
#
# The untrained encoder is the lowest from 30 labels on. It gets further than one would think, and that much of "frozen" is
# no merit of pretraining. Two rows of the table below are in no curve. The causal model beats the one from scratch with ten labels and
# is behind it with 300. Its states do not see what stands to their right, and whether *thousand* will come decides the
# place. And the shuffled text, with the same words and as many steps, is worth little with ten labels: less than a quarter
# of the gain is left. **What was learned is the order.**
#
# Does it always help? Our guess is that the task was near to the text: both ask which kind of word belongs where. Two side roads
# try other tasks: in one little is gained (E2), in the other something even with a thousand labels.
#
# > **C28 · holds with a condition: Ten labels give {{13 place_of_each_word: right; labels=10; method=fine-tuned}} right after
# > pretraining, {{13 place_of_each_word: right; labels=10; method=from scratch}} without; at 300 the gain is gone.** *The lectures* (deck 1,
# > "Great Results with Transformers"; deck 3; deck 4, "The Success of the Transformer"): all top models of the board are
# > pretrained; the Transformer is amazing for pre-training.
# >
# > *Measured*: share of the places right, five seeds, each method at its own rate and best step. It says that pretraining
# > helps a Transformer. We pretrained no other network, so it does not say that a Transformer gains more than others.
#
# | | 10 labels | 30 labels | 300 labels |
# | --- | --- | --- | --- |
# | fine-tuned | {{13 place_of_each_word: right; labels=10; method=fine-tuned}} | {{13 place_of_each_word: right; labels=30; method=fine-tuned}} | {{13 place_of_each_word: right; labels=300; method=fine-tuned}} |
# | from scratch | {{13 place_of_each_word: right; labels=10; method=from scratch}} | {{13 place_of_each_word: right; labels=30; method=from scratch}} | {{13 place_of_each_word: right; labels=300; method=from scratch}} |
# | fine-tuned after shuffled text | {{13 place_of_each_word: right; labels=10; method=fine-tuned, shuffled}} | {{13 place_of_each_word: right; labels=30; method=fine-tuned, shuffled}} | {{13 place_of_each_word: right; labels=300; method=fine-tuned, shuffled}} |
# | fine-tuned, causal | {{13 place_of_each_word: right; labels=10; method=fine-tuned, causal}} | {{13 place_of_each_word: right; labels=30; method=fine-tuned, causal}} | {{13 place_of_each_word: right; labels=300; method=fine-tuned, causal}} |
# | frozen | {{13 place_of_each_word: right; labels=10; method=frozen}} | {{13 place_of_each_word: right; labels=30; method=frozen}} | {{13 place_of_each_word: right; labels=300; method=frozen}} |
# | frozen, untrained | {{13 place_of_each_word: right; labels=10; method=frozen, untrained}} | {{13 place_of_each_word: right; labels=30; method=frozen, untrained}} | {{13 place_of_each_word: right; labels=300; method=frozen, untrained}} |

# %% [markdown]
# ## 4. A causal language model without fine-tuning
#
# Can a model be of use with no label at all? A causal model gives a probability to each word after those before it. That
# alone is worth something.
#
# ### The wrong sentence, without a label (E3)
#
# Two words of our sentence have changed places. Where do you stumble? A causal model stumbles, too: at a word that it did
# not expect its loss, $-\log p$, is large. Here is the loss of each word, in nats.


# %%
def loss_of_each(model, tokens):
    """The loss of each token but the first, 0 at padding: (B, n - 1)."""
    scores, targets = model(tokens[:, :-1]), tokens[:, 1:]
    losses = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
    return losses.unflatten(0, targets.shape).masked_fill(targets == 0, 0.0)


spoilt_example = list(example)
spoilt_example[1], spoilt_example[5] = example[5], example[1]


# %% evidence
# The experiment: how well the largest loss of a sentence tells right from wrong
def area_under_curve(values, wrong):
    """How often a wrong sentence has a larger value than a right one."""
    return (values[wrong][:, None] > values[~wrong]).float().mean()


@lab.experiment("E3", pretraining=20, full=dict(pretraining=400, seeds=5))
def wrong_without_labels(pretraining, seed):
    """Right and exchanged sentences told apart by their losses alone."""
    model = pretrained("causal", seed, pretraining)
    with mt.no_grad():
        (largest, bad), (elsewhere, bad_elsewhere) = (
            (loss_of_each(model, tokens).amax(1), wrong == 1)
            for tokens, wrong in (
                labelled("exchanged", reported_sentences, seed=2),
                labelled("exchanged", choosing_sentences, seed=1),
            )
        )
        sentences = example, spoilt_example
        right, spoilt = (loss_of_each(model, encoded([words]))[0] for words in sentences)

    def right_elsewhere(threshold):
        return ((elsewhere >= threshold) == bad_elsewhere).float().mean().item()

    threshold = max(elsewhere.tolist(), key=right_elsewhere)
    return {
        "area under the curve": area_under_curve(largest, bad),
        "share right": ((largest >= threshold) == bad).float().mean(),
        "loss of each word": right,
        "loss of each word, spoilt": spoilt,
    }


without_labels = wrong_without_labels.run()

# %% evidence
# Loss of each word, in the example and in a spoilt one; how well losses tell them apart
said_by = without_labels.best[0]
for words, name in ((example, ""), (spoilt_example, ", spoilt")):
    losses = said_by[f"loss of each word{name}"]
    tokens = [f" {word} " for word in (*words, "</s>")]
    notes = [f"{loss:.1f}" for loss in losses]
    colored_text(
        tokens,
        [loss / 8 for loss in losses],
        notes,
        alt=f"the example{name}: the loss of each word",
    )
without_labels.table("pretraining", ["area under the curve", "share right"])
without_labels.holds(
    "the largest loss tells right from wrong: area above 0.98",
    lambda rows: rows.values("area under the curve", pretraining=400),
    above=0.98,
)

# %% [markdown]
# What to see: in the right sentence *two* and *six* cost about 2.3 nats, the price of a guess among ten. After *forty* ten
# things may come, one of nine digits or none, and nothing tells which. In the spoilt one *hundred* follows *forty two*, and
# there the model stumbles where you did, at three words in a row.
#
# So we score each sentence by its *largest* loss. How good is this judge? We take a spoilt sentence and a right one, and ask
# how often the spoilt one has the larger score: 0.5 is guessing, 1 is perfect. This share is called the *area under the
# curve* (AUC). The curve, which we do not draw, is the ROC curve: for each threshold the share of spoilt sentences that it
# finds, against the share of right ones that it blames. Or we call every sentence wrong whose score is above a threshold, chosen on other sentences: then
# {{13 wrong_without_labels: share right}} of them are judged rightly. An encoder that was fine-tuned for this very question with 1,000
# labels has {{13 two_words_exchanged: right; labels=1000; method=fine-tuned}} right (side road). Here only the threshold takes labels, because the task
# *is* the model's own question: could this word come next?
#
# > **E3 · Yes: its loss tells wrong sentences from right ones with an area of {{13 wrong_without_labels: area under the curve}} under the curve.**
# > *Our question*: can a causal model tell wrong sentences from right ones without a label?
# >
# > *Measured*: 900 sentences, half of them with two words exchanged, five seeds: area under the curve
# > {{13 wrong_without_labels: area under the curve}}; judged rightly with a threshold chosen on 300 others
# > {{13 wrong_without_labels: share right}}. No label was used for anything but this threshold.
#
# ### A prompt chooses a task (E4)
#
# GPT-3 was asked by *examples*: a few lines of what is wanted stand in the prompt, and the model goes on with them (Brown
# et al., 2020). No weight changes. Does it learn a task from them? We try it on documents of six lines. Numbers are said in
# English, German or French. Every document has one task: from one language into another, or the next number in the same
# one. Two of the nine tasks never occur in training: French to German, and the next number in German. A tenth of the
# numbers is held out.
#
# The model is section 2's stack, causal, with the same loop. What would you say after *forty two >*?

# %% evidence
# The languages, the tasks and the numbers; documents and their tokens
LANGUAGES = ["en", "de", "fr"]
NEVER = [("fr", "de", 0), ("de", "de", 1)]  # tasks kept out of training


def said(number, language):
    """The tokens of a number below 100; each language has its own."""
    return [f"{language}:{piece}" for piece in number_pieces(number, language)]


TASKS = [(a, b, int(a == b)) for a in LANGUAGES for b in LANGUAGES]  # the next number if a == b
KNOWN = [task for task in TASKS if task not in NEVER]
FREE, HELD = ([k for k in range(99) if is_held_out(k) == held] for held in (False, True))
every = [piece for language in LANGUAGES for k in range(100) for piece in said(k, language)]
REQUESTS = "say what comes after that and in english german french".split()  # section 7
signs = Vocabulary(every, specials=["<pad>", ">", ";", *REQUESTS])


def document(task, numbers):
    """Lines of a number, >, its answer and ;, as tokens; and where the last answer begins."""
    a, b, plus = task
    line = []
    for number in numbers:
        line += [*said(number, a), ">"]
        start = len(line)
        line += [*said(number + plus, b), ";"]
    return line, start


def documents(count, rng, tasks=KNOWN, numbers=FREE):
    """Six lines of one task each, of numbers that are not held out: (count, 41)."""
    lines = [document(rng.choice(tasks), rng.choices(numbers, k=6))[0] for _ in range(count)]
    return signs.encode_batch([line[:41] for line in lines], batch_first=True)[0]


# %% evidence
# Exact match of an answer
@mt.no_grad()
def answered(model, tasks, examples, numbers, rng, shown=FREE, count=100):
    """Exact match of the answer for one of numbers, after some examples with numbers of shown."""
    right = 0
    for i in range(count):
        asked = [*rng.choices(shown, k=examples), rng.choice(numbers)]
        line, start = document(tasks[i % len(tasks)], asked)
        tokens = signs.encode(line)[None]
        right += bool((model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:])[0, start - 1 :].all())
    return right / count


def gone_on(model, task, examples, number):
    """A prompt, and behind an arrow how the model goes on to the end of the line."""
    line, start = document(task, [*examples, number])
    prompt = signs.encode(line[:start])[None]
    said = signs.decode(greedy(lambda z, _: (model(z), None), prompt, 6, end=signs[";"])[0])
    words = [token.partition(":")[2] or token for token in said]
    return f"{' '.join(words[:start])} → {' '.join(words[start:])}"


# %% evidence
# Models that have read documents: section 2's stack and loop
def beginner():
    """A causal model of such documents that has read none."""
    return OneStack(len(signs), 64, heads=4, hidden=256, layers=2, causal=True)


def reading(batch, steps, seed):
    """A causal model that has read documents: batch() draws some, (B, n)."""
    mt.manual_seed(seed)
    model = beginner()
    list(descend(model.parameters(), lambda: next_token_loss(model, batch()), steps, rate=6e-3))
    return model


@cache
def prompted(steps, seed):
    """A causal model of such documents."""
    pool = documents(16 * steps, random.Random(seed))
    return reading(lambda: pool[mt.randint(0, len(pool), (16,))], steps, seed)


# %% evidence
# Answers after some examples in the prompt: experiment
@lab.experiment(
    "E4",
    examples=[0, 1],
    steps=5,
    full=dict(examples=[0, 1, 2, 4], steps=1000, seeds=5),
)
def prompts(examples, steps, seed):
    """Answers after some examples in the prompt."""
    model, rng = prompted(steps, seed), random.Random(100 + seed)
    shown = [("en", "de", 0), ("en", "fr", 0), ("en", "en", 1), ("fr", "de", 0)]
    return {
        "said": [gone_on(model, task, FREE[30 : 30 + examples], 42) for task in shown],
        "trained tasks": answered(model, KNOWN, examples, FREE, rng),
        "held-out numbers": answered(model, KNOWN, examples, HELD, rng),
        "tasks never trained": answered(model, NEVER, examples, FREE, rng),
    }


chosen_by_prompt = prompts.run()


# %% evidence
# Few tasks or many, and up to 16 times the steps: experiment
FURTHER = [(a, b, plus) for a in LANGUAGES for b in LANGUAGES for plus in range(10)]
NEW = random.Random(7).sample([task for task in FURTHER if task not in TASKS], 8)  # kept out, too
TRAINED = {7: KNOWN, 80: [task for task in FURTHER if task not in NEVER + NEW]}
BELOW_90 = [k for k in FREE if k < 90]  # nine further it still has two digits


@lab.experiment(
    "E4",
    tasks=[7],
    steps=2,
    full=dict(tasks=list(TRAINED), steps=[1000, 4000, 16_000], seeds=5),
)
def prompts_of_many_tasks(tasks, steps, seed):
    """One example in the prompt, for a model that has read documents of few or of many tasks."""
    rng = random.Random(seed)
    model = reading(lambda: documents(16, rng, TRAINED[tasks], BELOW_90), steps, seed)
    rng = random.Random(100 + seed)
    groups = {"trained tasks": TRAINED[tasks], "tasks never trained": NEVER}
    groups["eight others, never trained"] = NEW
    return {
        name: answered(model, group, 1, BELOW_90, rng, shown=BELOW_90, count=200)
        for name, group in groups.items()
    }


many_tasks = prompts_of_many_tasks.run()


# %% evidence
# What it says after prompts without an example, with one, and with the most: large
for examples, title in ((0, "without an example:"), (1, "with one example:")):
    measured(title)
    lines = chosen_by_prompt.best.where(examples=examples)[0]["said"]
    large("\n".join(lines[: 1 + 2 * examples]))
measured("a task that was never trained:")
most = chosen_by_prompt.best.settings_of("examples")[-1]
large(chosen_by_prompt.best.where(examples=most)[0]["said"][-1])

# %% [markdown]
# Right of the arrow stands what the model says. Without an example it must guess which task is meant. One line tells it, and
# it answers in German, in French, or with the next number. The last prompt asks for French to German, a task that it never
# saw, with four examples. It answers in German, as the examples do, but says a wrong number. (With other examples it may hit
# the right one. The figure shows how seldom.)

# %% evidence
# Answers after 0 to 4 examples: figure and verdicts
shown, asked = chosen_by_prompt.best, ["trained tasks", "held-out numbers", "tasks never trained"]
counts = shown.settings_of("examples")
figure, axes = plot.subplots(width=7, height=3)
for name in asked:
    right = np.transpose([shown.values(name, examples=count) for count in counts])
    line = plot.spread(axes, counts, right, marker="o")
    axes.text(counts[-1] + 0.12, np.median(right[:, -1]), name, color=line.get_color(), va="center")
axes.axhline(3 / 7, color="0.5", linewidth=0.8, linestyle=":")
axes.text(
    counts[-1], 3 / 7 - 0.07, "one bet a language: 3 of 7", ha="right", color="0.4", fontsize=9
)
axes.set(xlabel="examples in the prompt", ylabel="share of right answers", ylim=(-0.04, 1.06))
axes.set_xticks(counts, counts)
plot.show(
    figure,
    alt="Share of right answers against the number of examples: on trained tasks it jumps from 3 of 7, where one bet for "
    "each language lies, to 1 with the first example; on held-out numbers from 0.2 to 0.6; on tasks never trained it "
    "stays near 0.",
)
chosen_by_prompt.table("examples", asked)
chosen_by_prompt.holds(
    "without an example the trained tasks stay near the 3 of 7 of the best guess",
    lambda rows: rows.where(steps=1000).values("trained tasks", examples=0),
    below=0.55,
)
chosen_by_prompt.holds(
    "one example is enough: above 0.9 on trained tasks",
    lambda rows: rows.where(steps=1000).values("trained tasks", examples=1),
    above=0.9,
)
chosen_by_prompt.holds(
    "four examples do not make a task that was never trained: below 0.2",
    lambda rows: rows.where(steps=1000).values("tasks never trained", examples=4),
    below=0.2,
)
many_tasks.finding(
    "recorded: from 80 tasks, read 16 times as long, one example reaches more tasks never trained",
    "tasks never trained",
    larger=dict(tasks=80, steps=16_000),
    smaller=dict(tasks=7, steps=16_000),
)

# %% [markdown]
# What to see: the upper curve jumps with the first example, and the lowest one stays at the floor. Why does the upper one
# begin at the dotted line? Of the seven trained tasks three begin in English, two in German and two in French. Without an
# example the model sees only the language, so it can bet on one task for each: 3 of 7. Held-out numbers, in the middle, are
# harder, since the words for them must be put together from others. But four examples of a task that never occurred do
# not make it. All its words are known; French to English is trained, and so is English to German. So here **the prompt
# chose a task. It did not teach one.**
#
# Larger models do more than ours. How much of that is choosing is debated (Xie et al., 2022; Min et al., 2022). One answer:
# it depends on how many different tasks the training text holds (Garg et al., 2022; Raventós et al., 2023). Seven are few.
# So we take 80: into one of the three languages *and* from 0 to 9 numbers on, say from German into French and six on. The
# same two tasks stay out, and eight of the new ones. Guess: does more training help, or more tasks?

# %% evidence
# Answers after one example, for few and for many tasks, against the steps: figure and table
groups = ["trained tasks", "tasks never trained", "eight others, never trained"]
rows = many_tasks.best
counts = rows.settings_of("steps")
taught = rows.settings_of("tasks")
figure, panels = plot.subplots(
    1, len(taught), width=4.4 * len(taught), height=3, sharey=True, squeeze=False
)
for axes, tasks in zip(panels[0], taught, strict=True):
    for i, name in enumerate(groups[: 2 + (tasks == 80)]):
        right = np.transpose([rows.values(name, tasks=tasks, steps=n) for n in counts])
        style = {"color": plot.COLORS[i], "linestyle": plot.LINES[i]}
        plot.spread(axes, counts, right, marker="o", label=name, **style)
    axes.set(xscale="log", xlabel="steps of training", title=f"{tasks} tasks", ylim=(-0.04, 1.06))
    axes.set_xticks(counts, [f"{n:,}" for n in counts])
    axes.minorticks_off()
panels[0][0].set_ylabel("share right, one example")
panels[0][-1].legend(fontsize=9, loc="upper left")
plot.show(
    figure,
    alt="Share right after one example against the steps. With 7 tasks the trained ones lie at 1 and those never trained "
    "at the floor, at 1,000, 4,000 and 16,000 steps. With 80 tasks all lie low at 1,000 and 4,000 steps, and at 16,000 "
    "all are near 1.",
)
for name in groups:
    many_tasks.table("tasks", name, columns="steps")

# %% [markdown]
# What to see: with seven tasks it knows all of them early, and after 16,000 steps hardly another one. With 80 it knows
# little for a long time: after 4,000 steps {{13 prompts_of_many_tasks: trained tasks; steps=4000; tasks=80}} even of the tasks that it trains on. Somewhere between 4,000 and 16,000
# steps nearly everything comes, also what it was never shown. A task is now two choices, which language and how far, and one example shows both. **With few tasks a model
# learns each. With many it learns what they are made of.**
#
# > **E4 · Only if it trained on many: of tasks never trained {{13 prompts_of_many_tasks: tasks never trained; steps=16000; tasks=7}} right after 7 tasks, {{13 prompts_of_many_tasks: tasks never trained; steps=16000; tasks=80}} after 80.**
# > *Our question*: do examples in the prompt teach a task?
# >
# > *Measured*: share of answers without a mistake after one example, 16,000 steps, five seeds. (80 tasks: of the eight others,
# > never trained, {{13 prompts_of_many_tasks: eight others, never trained; steps=16000; tasks=80}}.) The table: 7 tasks, 1,000 steps.
#
# | | no example | 1 example | 4 examples |
# | --- | --- | --- | --- |
# | trained tasks | {{13 prompts: trained tasks; examples=0}} | {{13 prompts: trained tasks; examples=1}} | {{13 prompts: trained tasks; examples=4}} |
# | held-out numbers | {{13 prompts: held-out numbers; examples=0}} | {{13 prompts: held-out numbers; examples=1}} | {{13 prompts: held-out numbers; examples=4}} |
# | tasks never trained | {{13 prompts: tasks never trained; examples=0}} | {{13 prompts: tasks never trained; examples=1}} | {{13 prompts: tasks never trained; examples=4}} |
#
# ### An induction head (E5)
#
# How can a model use what stands in its prompt at all? One mechanism has been found in models large and small, an
# **induction head** (Elhage et al., 2021; Olsson et al., 2022). The text was *a b c d e*, and now stands *a* again. What
# comes next? You look for the *a* before, see what came after it, and say *b*. How would two layers of attention do that?

# %% evidence
# The two steps of an induction head
figure, axes = plot.subplots(width=8, height=2.8)
diagrams.induction(axes, list("abcdea"))
plot.show(
    figure,
    alt="Symbols a b c d e a from left to right. After layer 1 the b carries a note, b after a, by an arrow from the a "
    "one place back. The last a asks who stands after a; an arrow of layer 2 leads from b's note to it, and it says: "
    "next b.",
)

# %% [markdown]
# What to see: two arrows. In layer 1 *b* looks one place back and notes "after a". In layer 2 the last *a* finds this note
# among all places, wherever it is. One layer should not be enough, since nobody can find a note that nobody has made.
#
# A nice story. Is it what a model does? To see one, we train on symbols that mean nothing. Up to twelve are drawn at
# random, and then they come again and again. Only a look back can predict them.


# %%
def repeated(count, length=32, symbols=16):
    """Random symbols that come again and again, after 4 to 12: (count, length + 1), periods."""
    period = mt.randint(4, 13, (count, 1))
    shuffled = mt.rand(count, symbols).argsort(dim=1)  # no symbol twice in a period
    return 1 + shuffled.gather(1, mt.arange(length + 1) % period), period


# %% [markdown]
# Three models read them: with one layer, with two, and with one layer that gets its notes for nothing. For chapter 12 had a
# trick, the token shift: each token is mixed with its left neighbour before anything looks. That *is* the note. If the
# story is right, one layer should do then.


# %%
class WithNeighbour(nn.Module):
    """Embeddings that know each token's left neighbour: chapter 12's token shift, by a matrix."""

    def __init__(self, embedded, width):
        super().__init__()
        self.embedded, self.shift = embedded, nn.Linear(width, width, bias=False)

    def forward(self, tokens):
        x = self.embedded(tokens)
        return x + self.shift(F.pad(x, (0, 0, 1, 0))[:, :-1])


# %% evidence
# Models with one layer, with two, and with one and the token shift
@cache
def repeater(kind, steps, seed):
    """A causal model, blocks of width 64, that has read such symbols."""
    mt.manual_seed(seed)
    layers = 2 if kind == "two layers" else 1
    model = OneStack(17, 64, heads=2, hidden=128, layers=layers, causal=True)
    if kind == "one layer, token shift":
        model.embedded = WithNeighbour(model.embedded, 64)
    list(descend(model.parameters(), lambda: next_token_loss(model, repeated(32)[0]), steps, 3e-3))
    return model


# %% evidence
# Attention's weights of each block
@mt.no_grad()
def weights_by_layer(model, tokens):
    """Attention's weights of each block: (B, h, n, n) each."""
    allowed = causal_mask(tokens.shape[1])
    x, found = model.embedded(tokens), []
    for block in model.blocks:
        y = block.norm_1(x)
        found.append(block.attention.look(y, y, allowed)[1])
        x = block(x, allowed)
    return found


# %% evidence
# Where an induction head should look
def after_the_same(tokens):
    """True where a key's left neighbour is the symbol that the query stands at: (B, n, n)."""
    same = tokens[:, :, None] == tokens[:, None, :-1]
    shifted = F.pad(same.float(), (1, 0)).bool()  # key s is asked about s - 1
    return shifted & causal_mask(tokens.shape[1])


# %% evidence
# Losses and looks of one layer and of two: experiment
def after_a_gap(count):
    """Six symbols, five others, and the six once more: (count, 17)."""
    order = 1 + mt.rand(count, 16).argsort(dim=1)
    return mt.cat([order[:, :11], order[:, :6]], dim=1)


def after_a_jump(count):
    """Twelve symbols, then one of them and the one that followed it: (count, 14)."""
    order = 1 + mt.rand(count, 16).argsort(dim=1)[:, :12]
    again = mt.randint(1, 11, (count, 1))
    return mt.cat([order, order.gather(1, again), order.gather(1, again + 1)], dim=1)


@lab.experiment(
    "E5",
    kind=["one layer", "two layers"],
    steps=10,
    full=dict(kind=["one layer", "one layer, token shift", "two layers"], steps=800, seeds=5),
)
@mt.no_grad()
def symbols_again(kind, steps, seed):
    """Loss of symbols that come again, and how much the last layer looks where we expect it."""
    with mt.enable_grad():
        model = repeater(kind, steps, seed)
    mt.manual_seed(1000 + seed)
    tokens, period = repeated(200)
    again = mt.arange(1, 33) >= period
    looks = weights_by_layer(model, tokens[:, :-1])[-1]
    asked = after_the_same(tokens[:, :-1])
    found = asked.any(-1).float()
    induced = ((looks * asked[:, None]).sum(-1) * found[:, None]).sum((0, 2)) / found.sum()
    letters = 1 + mt.arange(6).repeat(4)[:20][None]  # a b c d e f a b c ...
    return {
        "loss of what came before": loss_of_each(model, tokens)[again].mean(),
        "loss after a gap": loss_of_each(model, after_a_gap(200))[:, 11:].mean(),
        "loss after a jump": loss_of_each(model, after_a_jump(200))[:, -1].mean(),
        "weight after the same symbol": induced.amax(),
        "map": weights_by_layer(model, letters)[-1][0, induced.argmax()]
        .flatten()
        .round(decimals=2),
    }


again = symbols_again.run()


# %% evidence
# One layer with three and ten times the training: experiment
@lab.experiment("E5", kind=["one layer"], steps=10, full=dict(steps=[2400, 8000], seeds=5))
def one_layer_for_longer(kind, steps, seed):
    """What one layer reaches with more steps."""
    return symbols_again(kind, steps, seed)


# %% evidence
# Where the last layer of each model looks on a b c d e f a b c ...; table and verdicts
kinds = again.best.settings_of("kind")
figure, panels = plot.subplots(1, len(kinds), width=3.4 * len(kinds), height=3.4, squeeze=False)
shown = [*"abcdef" * 4][:20]
for axes, kind in zip(panels[0], kinds, strict=True):
    weights = np.array(again.best.where(kind=kind)[0]["map"]).reshape(20, 20)
    plot.attention(axes, weights, shown, shown, colorbar=False, title=kind)
    axes.set(xlabel="looks at", ylabel="stands at")
    axes.plot([-0.5, 19.5, 19.5, -0.5, -0.5], [5.5, 5.5, 6.5, 6.5, 5.5], "C1-", linewidth=1)
    axes.plot(1, 6, "o", color="C1", markersize=9, fillstyle="none")
plot.show(
    figure,
    alt="Attention of a head of the last layer over a b c d e f, repeated. One layer: weights spread over many places. One "
    "layer with token shift, and two layers: after the first six rows, sharp diagonals one place to the right of where "
    "the row's own letter stood. The row of the second a is ringed, and in it the place of b.",
)
longer = one_layer_for_longer.run()
measures = ["loss of what came before", "loss after a gap", "loss after a jump"]
again.table("kind", [*measures, "weight after the same symbol"])
longer.table("steps", [*measures, "weight after the same symbol"])
trained = dict(steps=800)
again.holds(
    "two layers know what came before: loss below 0.2",
    lambda rows: rows.where(**trained).values("loss of what came before", kind="two layers"),
    below=0.2,
)
again.holds(
    "so does one layer with token shift",
    lambda rows: rows.where(**trained).values(
        "loss of what came before", kind="one layer, token shift"
    ),
    below=0.2,
)
again.holds(
    "one layer does not: above 1",
    lambda rows: rows.where(**trained).values("loss of what came before", kind="one layer"),
    above=1,
)
longer.holds(
    "nor with three times the training",
    lambda rows: rows.values("loss of what came before", steps=2400),
    above=1,
)
longer.holds(
    "with ten times it does, in part: below 1",
    lambda rows: rows.values("loss of what came before", steps=8000),
    below=1,
)
longer.holds(
    "but it has not learned who follows whom: after a jump above 1",
    lambda rows: rows.values("loss after a jump", steps=8000),
    above=1,
)
again.holds(
    "a head of the second layer has more than 0.7 of its weight just after the same symbol",
    lambda rows: rows.where(**trained).values("weight after the same symbol", kind="two layers"),
    above=0.7,
)
again.holds(
    "it goes by the symbol, not by the period: after a gap the loss is below 0.2, too",
    lambda rows: rows.where(**trained).values("loss after a gap", kind="two layers"),
    below=0.2,
)
again.holds(
    "nor by who has not come for longest: after a jump it is below 0.5",
    lambda rows: rows.where(**trained).values("loss after a jump", kind="two layers"),
    below=0.5,
)

# %% [markdown]
# What to see: row 7 (ringed) is the second *a*, and in the two maps on the right it looks at *b*. Each row after it looks one
# place to the right of where its own letter stood, from row 13 on at both such places. That is layer 2
# of the drawing. With two layers the loss of what came before is near zero. Give the one layer the token shift, and it
# needs no second. This fits what we saw in chapter 12: with the shift one layer of mixing was enough for recall.
#
# And one layer alone? After 800 steps it has {{13 symbols_again: loss of what came before; kind=one layer}}, after three times as many
# {{13 one_layer_for_longer: loss of what came before; steps=2400}}. But after ten times it has {{13 one_layer_for_longer: loss of what came before; steps=8000}}: it does
# learn to say what comes, to a good part. Is the story wrong, then? There is another way to be right. Here are two questions:
#
#     a b c d e f  a b c ?    who follows c: d    who has not come for longest: d
#     a b c d e f  c ?        who follows c: d    who has not come for longest: a
#
# The training text goes round, so it asks the first question only, and that cannot tell the two readers apart. The second can.
# We ask it with twelve symbols: it is the column *after a jump*. (*After a gap* puts five other symbols between the two rounds.) Two layers say *d*: their loss is {{13 symbols_again: loss after a jump; kind=two layers}}. One
# layer, after ten times the training, has {{13 one_layer_for_longer: loss after a jump; steps=8000}}, worse than a guess among 16, which costs
# 2.8. **A model can be right for another reason than yours. Ask a question on which the two reasons part.** (For the
# look-up itself Sanford et al., 2024, prove that one layer would have to be enormously large.)
#
# **Now we take it apart.** The drawing says that layer 1 looks one place back. But on average, over heads and places,
# layer 1 puts only {{13 layer_1_cut: weight 1 back; cut=as trained}} of its weight there. So the drawing seems to be wrong. Then again, chapter 04
# warned that a map may mislead. What if we *forbid* a place, in layer 1 alone, after all training is done? (The
# softmax then shares out its weight among the places that are left.)

# %%
SEEN = {  # from how many places back a query of layer 1 may read
    "as trained": lambda back: back >= 0,
    "not 1 back": lambda back: back != 1,
    "not 2 back": lambda back: back != 2,
    "not 3 back": lambda back: back != 3,
    "only itself and 1 back": lambda back: back <= 1,
    "only itself": lambda back: back == 0,
}


def read_with(model, tokens, seen, heads=(0, 1)):
    """Losses of each token, where some heads of layer 1 see only some places."""
    n = tokens.shape[1] - 1
    allowed, place = causal_mask(n), mt.arange(n)
    kept = allowed & seen(place[:, None] - place)
    in_layer_1 = mt.stack([kept if head in heads else allowed for head in (0, 1)])
    x = model.blocks[0](model.embedded(tokens[:, :-1]), in_layer_1)  # (2, n, n) fits (B, 2, n, n)
    scores = model.out(model.norm(model.blocks[1](x, allowed)))
    losses = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return losses.unflatten(0, (len(tokens), n))


# %% evidence
# The losses with parts of layer 1's view taken away, after training: experiment
CUTS = {name: (seen, (0, 1)) for name, seen in SEEN.items()} | {
    "head 1: not 1 back": (SEEN["not 1 back"], (0,)),
    "head 2: not 1 back": (SEEN["not 1 back"], (1,)),
}


@lab.experiment(
    "E5", cut=["as trained", "not 1 back"], steps=10, full=dict(cut=list(CUTS), steps=800, seeds=5)
)
@mt.no_grad()
def layer_1_cut(cut, steps, seed):
    """Loss of what came before, with a part of layer 1's view taken away; weights one back."""
    with mt.enable_grad():
        model = repeater("two layers", steps, seed)
    mt.manual_seed(1000 + seed)
    tokens, period = repeated(200)
    again, n = mt.arange(1, 33) >= period, 32
    looks = weights_by_layer(model, tokens[:, :-1])[0]
    return {
        "loss of what came before": read_with(model, tokens, *CUTS[cut])[again].mean(),
        "loss after a gap": read_with(model, after_a_gap(200), *CUTS[cut])[:, 11:].mean(),
        "weight 1 back": looks[:, :, mt.arange(1, n), mt.arange(n - 1)].mean(),
    }


# %% evidence
# Loss of what came before, with parts of layer 1's view taken away: figure, table and verdicts
cuts = layer_1_cut.run()
figure, axes = plot.subplots(width=8, height=3)
ways = cuts.best.settings_of("cut")[::-1]
for place, way in enumerate(ways):
    losses = cuts.best.values("loss of what came before", cut=way)
    seen, heads = CUTS[way]
    forbidden = not seen(1)
    axes.plot(losses, [place] * len(losses), "o", color=plot.COLORS[forbidden])
    for back in range(6):
        edge = {"markeredgecolor": "0.4", "markersize": 8}
        fill = "0.4" if seen(back) else "0.75" if len(heads) == 1 else "white"
        axes.plot(-0.9 - 0.45 * back, place, "s", markerfacecolor=fill, **edge)
axes.text(-2, len(ways) - 0.5, "5 back ... itself", color="0.4", ha="center", fontsize=8)
axes.axvline(np.log(16), color="0.5", linewidth=0.8, linestyle=":")
axes.text(np.log(16) + 0.1, len(ways) - 1, "a guess", color="0.4", va="center", fontsize=9)
axes.set_yticks(range(len(ways)), ways)
axes.set(xlabel="loss of what came before, a dot a seed", ylim=(-0.6, len(ways)), xlim=(-3.5, None))
axes.set_xticks(range(0, 11, 2))
plot.show(
    figure,
    alt="Dots for each cut of layer 1, orange where one place back is forbidden; at the left a square for each place "
    "that may be read, filled if it may. As trained, without two back, without three back, and with only itself and one "
    "back they lie at 0. Without one back they lie at 8.7, far beyond a guess; in one head alone, and with only itself, "
    "between.",
)
cuts.table("cut", ["loss of what came before", "loss after a gap"])
cuts.table("cut", "weight 1 back", cut="as trained")
cuts.finding(
    "without the place one back the loss is larger",
    "loss of what came before",
    larger=dict(cut="not 1 back", steps=800),
    smaller=dict(cut="as trained", steps=800),
)
cuts.holds(
    "without the place two back or three back it stays below 0.2",
    lambda rows: np.concatenate(
        [rows.values("loss of what came before", cut=f"not {k} back", steps=800) for k in (2, 3)]
    ),
    below=0.2,
)
cuts.holds(
    "itself and one back are all that it needs: below 0.2",
    lambda rows: rows.values("loss of what came before", cut="only itself and 1 back", steps=800),
    below=0.2,
)
cuts.holds(
    "both heads hold the note: without one of them the loss is less than without both",
    lambda rows: np.concatenate(
        [
            rows.values("loss of what came before", cut="not 1 back", steps=800)
            - rows.values("loss of what came before", cut=f"head {k}: not 1 back", steps=800)
            for k in (1, 2)
        ]
    ),
    above=0,
)

# %% [markdown]
# What to see: the squares are the places that a query may read, filled if it may (grey: forbidden to one head alone). Orange:
# the place one back is forbidden. Forbid it, and the model falls from nearly perfect to *worse than guessing*, which would cost
# 2.8 nats. Forbid two back, or three back, and nothing happens. Allow *only* itself and one back, and nothing is
# missing. So the drawing was right: the place with less than a quarter of the weight is the one that counts. Both heads share
# the work. (Why is it worse to forbid one back than to leave a token nothing but itself? Our guess: it then takes its note
# from a wrong neighbour, and is sure of it.) **The map showed how much a head looks, not what for. A cut
# shows what for.**
#
# > **E5 · Yes: layer 1 notes the left neighbour. Forbid that one place, and the loss is {{13 layer_1_cut: loss of what came before; cut=not 1 back}} in place of {{13 layer_1_cut: loss of what came before; cut=as trained}}.**
# > *Our question*: does a model that must look back grow an induction head, and what does each layer do?
# >
# > *Measured*: loss of a symbol in nats, five seeds; a guess costs 2.8. The best head of layer 2 has
# > {{13 symbols_again: weight after the same symbol; kind=two layers}} of its weight just after the same symbol.
#
# | | what came before | after a jump |
# | --- | --- | --- |
# | one layer | {{13 symbols_again: loss of what came before; kind=one layer}} | {{13 symbols_again: loss after a jump; kind=one layer}} |
# | one layer, ten times the training | {{13 one_layer_for_longer: loss of what came before; steps=8000}} | {{13 one_layer_for_longer: loss after a jump; steps=8000}} |
# | one layer, token shift | {{13 symbols_again: loss of what came before; kind=one layer, token shift}} | {{13 symbols_again: loss after a jump; kind=one layer, token shift}} |
# | two layers | {{13 symbols_again: loss of what came before; kind=two layers}} | {{13 symbols_again: loss after a jump; kind=two layers}} |
# | two layers, layer 1 not one place back | {{13 layer_1_cut: loss of what came before; cut=not 1 back}} | |
# | two layers, layer 1 only itself and one back | {{13 layer_1_cut: loss of what came before; cut=only itself and 1 back}} | |
#
# ## 5. Scaling
#
# "The rest is scaling", says deck 4. How much is gained by a larger model, and how much by more text? Given a fixed number
# of FLOPs, how large should the model be? Numbers in words are soon learned. Here we need text that is hardly used up at
# our size: the code of this book's first edition, two million characters, one character a token, without indentation. A
# tenth of the files is kept aside: half to report on, half to choose by.
#
# Write $P$ for the number of weights, $D$ for the tokens read and $C$ for the FLOPs of training.


# %% evidence
# Characters as numbers, and windows of them
def ascii_codes(text):
    """A character's number is its ASCII code: (N)."""
    return mt.tensor(np.frombuffer(text.encode("ascii"), np.uint8)).long()


def drawn(text, count, length=64):
    """Windows that begin anywhere: (count, length + 1)."""
    starts = mt.randint(0, len(text) - length, (count,))
    return text[starts[:, None] + mt.arange(length + 1)]


source, aside = map(ascii_codes, first_edition_code())
mt.manual_seed(0)
reported_code, choosing_code = (drawn(half, 512) for half in aside.split((len(aside) + 1) // 2))


# %% evidence
# The mean loss of a character
@mt.no_grad()
def nats(model, windows):
    """Mean loss of a character in windows (B, n + 1)."""
    return np.mean([next_token_loss(model, part).item() for part in windows.split(64)])


# %%
def code_model(d):
    """A causal model of characters, two blocks; its heads are four at any width."""
    return OneStack(128, d, heads=4, hidden=4 * d, layers=2, causal=True)


def flops_a_token(d, n=64):
    """24 d^2 + 4 n d a block (chapter 12), 2 d V at the output; three times that to train."""
    return 3 * (2 * (24 * d**2 + 4 * n * d) + 2 * d * 128)


# %% evidence
# The formula against a count
with count_flops() as counter:  # forward and backward
    next_token_loss(code_model(32), reported_code[:2]).backward()
measured(f"{len(source):,} characters")
print("counted over formula:", round(counter.total / (2 * 64 * flops_a_token(32)), 2))

# %% [markdown]
# The formula and the count agree. ($6 P D$ is the usual short form: for each weight and token two FLOPs forward and four
# backward. It leaves out the scores of attention.)
#
# ### Loss against tokens (C29)
#
# Does a large model need less text? Four widths read the same number of characters, each at its own rate, and on the way we
# look at the loss on files kept aside.


# %% evidence
# Training on windows of a text
def trained_on_code(model, steps, rate, batch, text=source):
    """Train on windows of a text; yields the loss of each step."""
    return descend(
        model.parameters(), lambda: next_token_loss(model, drawn(text, batch)), steps, rate
    )


# %% evidence
# Losses on the way, for each width: experiment
@lab.experiment(
    "C29",
    d=[16],
    pace=0.4,
    steps=10,
    full=dict(
        d=[16, 32, 64, 128],
        pace=Tuned(0.2, 0.4, 0.8, lowest="nats elsewhere"),
        steps=800,
        seeds=5,
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

# %% evidence
# Loss against characters read: figure, characters needed for the loss of the smallest, verdicts
by_tokens.draw(
    x="characters read",
    y="nats a character",
    by="d",
    alt="Loss against characters read, a falling curve for each width; all begin together at about three nats, and the wider the model, the earlier and the deeper its curve falls.",
)


def characters_to(rows, d, smallest):
    """Characters read until the loss that the smallest model has at the end, seed by seed."""
    found = []
    for row, goal in zip(
        rows.where(d=d), rows.values("nats a character", d=smallest)[:, -1], strict=True
    ):
        losses = np.array(row["nats a character"])
        i = int(np.argmax(losses <= goal))
        if losses[i] > goal:
            found.append(np.nan)
            continue
        low = max(i - 1, 0)
        part = (losses[low] - goal) / (losses[low] - losses[i]) if i else 1.0
        found.append(
            row["characters read"][low]
            + part * (row["characters read"][i] - row["characters read"][low])
        )
    return np.array(found)


rows = by_tokens.best
table(
    ["d", "weights", "loss at the end", "characters until the loss of d = 16"],
    [
        [
            str(d),
            f"{rows.values('weights', d=d)[0]:,}",
            spread(rows.values("nats a character", d=d)[:, -1]),
            spread(characters_to(rows, d, 16)),
        ]
        for d in rows.settings_of("d")
    ],
    "the same text for all: " + ("recorded" if by_tokens.full else "measured here"),
    folded=False,
)
by_tokens.holds(
    "d = 64 needs less than 0.8 of the characters that d = 16 needs for its last loss",
    lambda rows: characters_to(rows, 64, 16) / rows.values("characters read", d=16)[:, -1],
    below=0.8,
)
if by_tokens.full:
    by_tokens.holds(
        "recorded: of each two neighbours the wider one has the lower loss at the end",
        np.concatenate(
            [
                by_tokens.full.values("nats a character", d=a)[:, -1]
                - by_tokens.full.values("nats a character", d=b)[:, -1]
                for a, b in pairwise(by_tokens.full.settings_of("d"))
            ]
        ),
        above=0,
    )

# %% [markdown]
# What to see: the widths begin near to each other, and the wider ones pull away. For the last loss of $d = 16$ they need a
# half, a third and a quarter of its text. That is what the slide says. But each character costs a wide model more. So is it
# cheaper, too? That depends on the budget, and the next experiment tells how.
#
# > **C29 · holds: Width 128 needs 100,000 of the 409,600 characters that width 16 reads; whether it is
# > cheaper, too, depends on the budget (C37).** *The lectures* (deck 4, "Scaling Transformer Models"):
# > larger models require fewer samples to reach the same performance.
# >
# > *Measured*: five seeds, each width at its own rate. The table above has the characters that each width needs for the
# > last loss of $d$ = 16.
#
# | | $d$ = 16 | 32 | 64 | 128 |
# | --- | --- | --- | --- | --- |
# | nats a character, after 409,600 characters | {{13 loss_by_tokens: nats a character; d=16}} | {{13 loss_by_tokens: nats a character; d=32}} | {{13 loss_by_tokens: nats a character; d=64}} | {{13 loss_by_tokens: nats a character; d=128}} |
#
# ### The best size for a budget (C37)
#
# With a fixed budget $C$ there are two ways to waste FLOPs. A model that is too small spends them on text that it has no
# room for. A model that is too large reads too little. So the loss against the size has a lowest point for each budget: an
# *isoFLOP* figure (Hoffmann et al., 2022).
#
# Every run is a whole training of its own, with its own decay of the rate. Three settings matter more than they seem. A step
# reads only 256 characters: with larger batches the wide models would get so few updates that they lose for that reason
# alone. All widths have the same number of heads. And the rate is $0.4 / d$, a rule that we tried on three widths.

# %% evidence
# Widths for each budget, and a training with so many FLOPs
WIDTHS = [8, 12, 16, 24, 32, 48, 64, 96, 128]
MIDDLES = {2e9: 16, 1e10: 16, 3e10: 24, 9e10: 32, 2.7e11: 48}


def spent(d, budget, pace, batch=4):
    """A model of width d trained with this many FLOPs, and its steps; the rate is pace / d."""
    steps = round(budget / flops_a_token(d) / (64 * batch))
    model = code_model(d)
    list(trained_on_code(model, steps, pace / d, batch))
    return model, steps


# %% evidence
# One of several widths around a middle one: experiment
@lab.experiment(
    "C37",
    budget=[2e9],
    place=[-1],
    full=dict(budget=[1e10, 3e10, 9e10, 2.7e11], place=[-2, -1, 0, 1, 2], seeds=5),
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
    pace=[0.4],
    budget=5e8,
    full=dict(d=[16, 32, 64], pace=[0.1, 0.2, 0.4, 0.8], budget=3e10),
)
def rates_of_widths(d, pace, budget):
    """Loss on the other half of the files when the rate is pace / d."""
    return {"nats elsewhere": nats(spent(d, budget, pace)[0], choosing_code)}


rates = rates_of_widths.run()


# %% evidence
# Loss against size, a curve for each budget, and the best size of each: figure and verdicts
def lowest(rows, budget):
    """Weights at the lowest point of a parabola through the best width and its neighbours."""
    found = []
    for seed in rows.settings_of("seed"):
        runs = rows.where(budget=budget, seed=seed)
        at = min(max(int(np.argmin(runs.values("nats a character"))), 1), len(runs) - 2)
        near = runs[at - 1 : at + 2]
        logs = np.log([row["weights"] for row in near])
        a, b, _ = np.polyfit(logs, [row["nats a character"] for row in near], 2)
        found.append(float(np.exp(-b / (2 * a))) if a > 0 else np.nan)
    return np.array(found)


if best_sizes.full:
    rows = best_sizes.full
    budgets = rows.settings_of("budget")
    figure, axes = plot.subplots(width=8, height=4)
    stars = []
    for i, budget in enumerate(budgets):
        runs = rows.where(budget=budget)
        sizes = runs.settings_of("weights")
        found = np.array([runs.values("nats a character", weights=size) for size in sizes]).T
        plot.spread(
            axes,
            sizes,
            found,
            label=f"{budget:.2g} FLOPs",
            color=plot.COLORS[i],
            linestyle=plot.LINES[i],
        )
        best = lowest(rows, budget)
        height = np.interp(np.log(np.median(best)), np.log(sizes), np.median(found, axis=0))
        stars.append((np.median(best), height))
        axes.plot([best.min(), best.max()], [height] * 2, color="black", linewidth=1, linestyle="-")
    axes.plot(*zip(*stars, strict=True), "*-", color="black", markersize=11, linewidth=0.8)
    axes.set(xscale="log", xlabel="weights P", ylabel="nats a character")
    axes.legend(fontsize=9)
    plot.show(
        figure,
        alt="Loss against the number of weights, logarithmic, a curve for each of four budgets, each with its lowest point, marked by a star with a bar for the seeds' range, inside; the curves lie lower and their lowest points further right as the budget grows.",
    )
    best_sizes.holds(
        "recorded: no best width is the smallest or largest that was tried",
        [
            np.argmin(rows.where(budget=b, seed=s).values("nats a character"))
            for b in budgets
            for s in range(3)
        ],
        between=(1, 3),
    )
    best_sizes.holds(
        "recorded: from the smallest budget to the largest the best size grows, in each seed",
        lowest(rows, budgets[-1]) / lowest(rows, budgets[0]),
        above=1.5,
    )


# %% [markdown]
# What to see: a star marks the lowest point of a parabola through the best width and its neighbours, the bar below it its range
# from seed to seed. No best width is the smallest or the largest that was tried. The stars move to the right, by uneven steps.
# The best model is about four times as large for 27 times the budget. Does it grow *smoothly*, as the slide says? Between
# neighbouring budgets the slope is anything from 0.07 to 0.83 (side road). The widths are coarse, a curve is flat near its lowest point, and
# five seeds are few. So no exponent can be read off there. Over the whole range the slope is 0.39 to 0.47; that describes these
# runs, and we would not extend it to other budgets.
#
# And the question of C29: is a wider model cheaper, too?


# %% evidence
# FLOPs until a loss that the smallest of four widths reaches: table and verdict
def flops_to_reach(rows, d, goal):
    """FLOPs at which a width reaches a loss, on straight lines in log C between its budgets."""
    found = [
        (np.log(b), rows.where(budget=b, d=d).values("nats a character").mean())
        for b in rows.settings_of("budget")
        if rows.has(budget=b, d=d)
    ]
    costs, losses = map(np.array, zip(*found, strict=True))
    return np.exp(np.interp(-goal, -losses, costs)) if losses.min() <= goal else np.nan


if best_sizes.full:
    full, at = best_sizes.full, 9e10
    goal = full.where(budget=at, d=16).values("nats a character").mean()
    costs = {d: flops_to_reach(full, d, goal) for d in (16, 24, 32, 48)}
    table(
        ["d", "FLOPs", "characters"],
        [[str(d), f"{cost:.1e}", f"{cost / flops_a_token(d):,.0f}"] for d, cost in costs.items()],
        f"what it takes to reach {goal:.3f} nats, the mean loss of d = 16 at {at:.0e} FLOPs",
        folded=False,
    )
    best_sizes.holds(
        "d = 24 and d = 32 reach the loss of d = 16 at 9e10 FLOPs with less than 0.8 of them",
        [costs[d] / at for d in (24, 32)],
        below=0.8,
    )

# %% [markdown]
# At 10 billion FLOPs $d = 16$ is the best of the widths (figure above), and every wider model has a larger loss for the same
# FLOPs. At 90 billion it is too small. Here $d = 24$ and $d = 32$ reach its loss with less text *and* fewer FLOPs. **Beyond its
# best budget a small model is the expensive one.**
#
# > **C37 · holds with a condition: The best size grows with the 0.39th to 0.47th power of the compute;
# > that it grows smoothly is not shown.** *The lectures* (deck 4, "Scaling Transformer Models"): the
# > optimal model size grows smoothly with the loss target and compute budget.
# >
# > *Measured*: five seeds, a parabola through the lowest three of five widths. The slope of $\log P$ against $\log C$ is
# > .39 to .47 over the whole range, .07 to .83 between neighbours.
#
# | FLOPs | best size, weights |
# | --- | --- |
# | 1e10 | 8,800 to 10,300 |
# | 3e10 | 12,800 to 18,300 |
# | 9e10 | 20,400 to 31,800 |
# | 2.7e11 | 34,500 to 49,400 |
#
# Two papers asked the same at far larger budgets, and found exponents as far apart as 0.73 and 0.46: it hung on what
# was counted and how it was tuned (side road). They had hundreds of runs, ours are twenty a seed.

# %% evidence
# Tokens for each weight of four published models: table
PUBLISHED_TRAINING = {
    "GPT-3": (175e9, 300e9),
    "Chinchilla": (70e9, 1.4e12),
    "Llama 3 405B": (405e9, 15.6e12),
    "Llama 3 8B": (8e9, 15e12),
}
table(
    ["", "weights", "tokens", "tokens a weight", "6 P D, FLOPs"],
    [
        [name, f"{p:.3g}", f"{d:.3g}", f"{d / p:.1f}", f"{6 * p * d:.1e}"]
        for name, (p, d) in PUBLISHED_TRAINING.items()
    ],
    "tokens for each weight (Brown et al., 2020; Hoffmann et al., 2022; Dubey et al., 2024)",
    folded=False,
)

# %% [markdown]
# GPT-3 read less than two tokens a weight, Chinchilla twenty. The largest Llama 3 read nearly forty: its authors chose about
# the best size for their compute. The small Llama 3 read nearly 1,900 tokens a weight, far beyond that. Why? A larger model
# would have learned more from the same compute. But a model that many people will run has to be cheap to run, and that is
# what the long training buys.

# %% [markdown]
# ## 6. Your own text
#
# What would a model say that had read *your* text? A causal model needs nothing else. Put a file beside this notebook, write
# its name below, run the section, and type in a cell of your own
#
#     def look(model, encoding, parts):
#         print(written(model, encoding, "In the", 90))
#
#     trained_writer(own_text(MY_FILE), 3000, 800, 128, 3, 500, look)
#
# In some minutes the model writes like your text. Twenty thousand characters are little, a book is good. If you name none,
# it reads this book's first edition.

# %%
MY_FILE = None  # "my_text.txt"; None takes this book's first edition


# %% evidence
# The text of the file, or what is wrong with it
def own_text(path):
    """The text of a file, or the first edition; ValueError if it is too short."""
    own = read_text(path) if path else first_edition()
    if len(own) < 10_000:
        raise ValueError(
            f"{path} has {len(own):,} characters: too few to learn from, take 10,000 or more"
        )
    return own


# %% [markdown]
# It reads chapter 11's pieces with chapter 11's loop, and is chapter 10's stack of blocks. All of it is known by now.
# (`written`, folded, draws a continuation at temperature 0.6, as there.)


# %%
def trained_writer(own, steps, merges, width, layers, every, look):
    """A causal model of a text's pieces; look(model, encoding, parts) every so many steps."""
    training, kept = split(own)
    encoding = BytePairEncoding.learn(training, merges)
    parts = encoding.encode(training), encoding.encode(kept)
    model = OneStack(len(encoding), width, width // 32, 4 * width, layers, True, dropout=0.1)
    return fit_scheduled(
        model,
        lambda model: next_token_loss(model, drawn(parts[0], 16)),
        steps,
        rate=0.4 / width,
        warm=steps // 10,
        decay=0.1,
        every=every,
        look=lambda model: look(model, encoding, parts),
    )


# %% evidence
# How it goes on
def written(model, encoding, prompt, count):
    """A continuation of a prompt, drawn at temperature 0.6 from the last 64 pieces."""
    tokens = sample(
        lambda so_far, _: (model(so_far[:, -64:]), None),
        encoding.encode(prompt)[None],
        count,
        temperature=0.6,
        generator=mt.Generator().manual_seed(len(prompt)),
    )
    return encoding.decode(tokens[0])


# %% evidence
# A model that reads a text, watched while it learns: experiment
OWN_TEXTS = {"own": lambda: own_text(MY_FILE), "tiny Shakespeare": tiny_shakespeare}
PROMPTS = ["A TRANSFORMER:\nI am", "JULIET:\nMy lord,", "Attention, "]


def longest_copy(text, source):
    """The longest stretch of a text that stands in another one."""
    start, longest = 0, ""
    for end in range(1, len(text) + 1):
        while text[start:end] not in source:
            start += 1
        longest = max(longest, text[start:end], key=len)
    return longest


@lab.experiment(
    "E7",
    text="own",
    steps=20,
    every=20,
    merges=100,
    width=32,
    layers=1,
    full=dict(text="tiny Shakespeare", steps=2400, every=400, merges=800, width=128, layers=3),
    lacks=partial(lacking, tiny_shakespeare),
)
def text_read(text, steps, every, merges, width, layers):
    """Loss of a text, of the part kept aside and of the part read, and how the model goes on."""
    own = OWN_TEXTS[text]()
    aside, read, texts = [], [], []

    def look(model, encoding, parts):
        for part, losses in zip(parts, (read, aside), strict=True):
            characters = len(encoding.decode(part)) / len(part)
            windows = part[len(part) // 129 * mt.arange(128)[:, None] + mt.arange(65)]
            losses.append(nats(model, windows) / characters)
        texts.append([written(model, encoding, prompt, 90) for prompt in PROMPTS])

    trained_writer(own, steps, merges, width, layers, every, look)
    training, _ = split(own)
    return {
        "step": list(range(every, steps + 1, every)),
        "nats a character": aside,
        "nats on what it read": read,
        "written": texts,
        "longest copy": [longest_copy(text, training) for text in texts[-1]],
    }


own_runs = text_read.run()

# %% [markdown]
# Here the text is a million characters of Shakespeare's plays, read for a few minutes of one core (recorded). Chapter 11
# has read them, too, character by character. Here it reads pieces, and many of them are whole words. We watch it learn.
# Three times we give it the beginning of a speech, by a speaker who does not occur in the plays. Grey is what we said. The
# rest it said.

# %% evidence
# How the model goes on while it reads the plays: large; and how much of it is copied
own_best = own_runs.best[0]
steps_read, film = own_best["step"], [texts[0] for texts in own_best["written"]]
for at in sorted({0, (len(film) - 1) // 2, len(film) - 1}):
    measured(f"after {steps_read[at]:,} steps:")
    speech = film[at][len(PROMPTS[0]) :][:200]
    large(speech.rpartition("\n\n")[0] or speech, after=PROMPTS[0])
measured(
    "nats a character, kept aside:",
    f"{own_best['nats a character'][-1]:.2f}; longest stretch copied from the text:",
)
large(max(own_best["longest copy"], key=len).strip())

# %% [markdown]
# The form comes first: after 400 steps there are speakers and short lines, and words that are none (*airit*). At the end the
# words are whole, and no thought lasts. Is it copied? The last
# line is the longest stretch, of all three texts that it wrote, that stands in the plays, too. What it copies is what
# everybody in these plays says. With a short text that changes. It is learned by heart, and the loss on anything new turns
# round (side road, E7). So keep the last tenth aside, and stop where the loss there no longer falls.

# %% [markdown]
# ## 7. From a model to an assistant
#
# A pretrained model goes on with a text. Asked a question, it may well go on with more questions. How does it become
# something that helps? A few things are put on top.
#
# ### Instructions (E10)
#
# First, fine-tuning on requests with good answers (Wei et al., 2022; Ouyang et al., 2022). That is section 3 with text as
# the label: the model reads the request, and the loss is taken over the tokens of the *answer* alone. Can few requests do it?
# We take section 4's model, which has read documents of numbers in three languages and nothing else. It has never seen the
# words *say* or *after*. Now it gets 100 short conversations, such as

# %% evidence
# Conversations of three requests: data, and one of them drawn
NAMED = {"en": "english", "de": "german", "fr": "french"}


def conversation(rng):
    """Three requests with their answers, as tokens, and which of these belong to an answer."""
    number, language = rng.choice([k for k in FREE if k < 95]), rng.choice(["de", "fr"])
    if rng.random() < 0.5:
        request = ["say", *said(number, "en"), "in", NAMED[language]]
    else:
        request = ["what", "comes", "after", *said(number, language)]
        number += 1
    turns = [(request, said(number, language))]
    for _ in range(2):
        if rng.random() < 0.5:
            number += 1
            request = ["and", "after", "that"]
        else:
            language = rng.choice([other for other in LANGUAGES if other != language])
            request = ["and", "in", NAMED[language]]
        turns.append((request, said(number, language)))
    return turns


def as_tokens(conversations):
    """Tokens (B, n), and for each the number of the answer that it belongs to, else -1 (B, n)."""
    rows, owners = [], []
    for turns in conversations:
        row, owner = [], []
        for i, (request, answer) in enumerate(turns):
            row += [*request, ">", *answer, ";"]
            owner += [-1] * (len(request) + 1) + [i] * (len(answer) + 1)
        rows.append(row)
        owners.append(owner)
    tokens = signs.encode_batch(rows, batch_first=True)[0]
    return tokens, mt.tensor([row + [-1] * (tokens.shape[1] - len(row)) for row in owners])


def in_plain_words(tokens):
    """Tokens as one reads them, without the marks of their language."""
    return " ".join(token.partition(":")[2] or token for token in tokens)


def words_read(tokens):
    """Tokens one by one, without the marks of their language."""
    return in_plain_words(tokens).split()


figure, axes = plot.subplots(width=10, height=1.6)
parts = []
for request, answer in conversation(random.Random(8)):
    parts += [(words_read([*request, ">"]), False), (words_read([*answer, ";"]), True)]
diagrams.turns(axes, parts)
plot.show(
    figure,
    alt="A conversation of three turns in one line of words, requests in grey, answers in blue. Arrows lead only from the "
    "answers up to what is asked.",
)

# %% [markdown]
# What to see: requests are read, answers are asked. It is the loss of section 2 with another $M$. There $M$ were the blanks, in a
# causal model all places, and here the places of the answers.


# %%
def answer_loss(model, tokens, owners):
    """Mean loss of the tokens of answers; requests are read, and not asked for."""
    targets = tokens[:, 1:].masked_fill(owners[:, 1:] < 0, -100)
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten())


def instruct(model, conversations, steps, rate):
    """Fine-tune a causal model on conversations."""
    tokens, owners = as_tokens(conversations)

    def loss():
        rows = mt.randint(0, len(tokens), (32,))
        return answer_loss(model, tokens[rows], owners[rows])

    list(descend(model.parameters(), loss, steps, rate))


# %% evidence
# Answers of a model, and a talk with it; the experiment
@mt.no_grad()
def answers_right(model, conversations):
    """The share of answers without a mistake, each after what was rightly said before."""
    tokens, owners = as_tokens(conversations)
    guessed = model(tokens[:, :-1]).argmax(-1)
    wrong = (guessed != tokens[:, 1:]).float()
    answers = [(owners[:, 1:] == i).float() for i in range(3)]
    return np.mean([((wrong * answer).sum(1) == 0).float().mean().item() for answer in answers])


def talk(model, requests):
    """What the model answers to requests, one after another, as text to be read."""
    tokens, lines = [], []
    for request in requests:
        tokens += [*request, ">"]
        prompt = signs.encode(tokens)[None]
        went_on = greedy(lambda z, _: (model(z), None), prompt, 6, end=signs[";"])[0]
        answer = signs.decode(went_on)[len(tokens) :]
        tokens += answer if answer[-1] == ";" else [*answer, ";"]
        answer = [token for token in answer if token != ";"]
        lines.append(f"you: {in_plain_words(request)}\nmodel: {in_plain_words(answer)}")
    return "\n".join(lines)


THAT, IN_FRENCH, IN_GERMAN = (
    words.split() for words in ("and after that", "and in french", "and in german")
)
TALKS = [
    [["say", *said(42, "en"), "in", "german"], IN_FRENCH, THAT],
    [["what", "comes", "after", *said(12, "de")], THAT, "and in english".split()],
]


@lab.experiment(
    "E10",
    start=["from scratch"],
    rate=2e-3,
    steps=2,
    pretraining=5,
    full=dict(
        start=["from scratch", "pretrained"],
        rate=Tuned(1e-3, 2e-3, 4e-3, highest="right elsewhere"),
        steps=400,
        pretraining=1000,
        seeds=5,
    ),
)
def instructed(start, rate, steps, pretraining, seed):
    """Answers to requests after fine-tuning on 100 conversations."""
    read = prompted(pretraining, seed) if start == "pretrained" else None
    mt.manual_seed(seed)
    model = beginner()
    if read:
        model.load_state_dict(read.state_dict())
    before, rng = talk(model, TALKS[0]), random.Random(seed)
    instruct(model, [conversation(rng) for _ in range(100)], steps, rate)
    new = random.Random(1000 + seed)
    elsewhere, reported = ([conversation(new) for _ in range(count)] for count in (100, 300))
    return {
        "right": answers_right(model, reported),
        "right elsewhere": answers_right(model, elsewhere),
        "said before": before,
        "said": [talk(model, requests) for requests in TALKS],
    }


answering = instructed.run()


# %% evidence
# The same with more conversations and more steps: experiment
@lab.experiment(
    "E10",
    conversations=20,
    steps=2,
    pretraining=5,
    full=dict(conversations=2000, steps=1000, pretraining=1000, seeds=5),
)
def talked_with(conversations, steps, pretraining, seed):
    """Answers to requests after more conversations, and two talks."""
    model = beginner()
    model.load_state_dict(prompted(pretraining, seed).state_dict())
    mt.manual_seed(seed)
    before, rng = talk(model, TALKS[0]), random.Random(seed)
    instruct(model, [conversation(rng) for _ in range(conversations)], steps, rate=4e-3)
    new = random.Random(1000 + seed)
    return {
        "right": answers_right(model, [conversation(new) for _ in range(300)]),
        "said before": before,
        "said": [talk(model, requests) for requests in TALKS],
    }


# %% evidence
# As many conversations, for a model that has read nothing: experiment
@lab.experiment(
    "E10",
    conversations=20,
    steps=2,
    full=dict(conversations=2000, steps=1000, seeds=5),
)
def talked_without_reading(conversations, steps, seed):
    """Answers to requests of a model that begins from random weights."""
    mt.manual_seed(seed)
    model = beginner()
    rng = random.Random(seed)
    instruct(model, [conversation(rng) for _ in range(conversations)], steps, rate=4e-3)
    new = random.Random(1000 + seed)
    return {"right": answers_right(model, [conversation(new) for _ in range(300)])}


unread = talked_without_reading.run()

# %% evidence
# Talks before and after 100 conversations, and after 2,000: large, a figure; tables and verdicts
talked = talked_with.run()
talker = talked.best[0]
ASKED = [in_plain_words(request) for requests in TALKS for request in requests]
TRUE = [
    said(42, "de"),
    said(42, "fr"),
    said(43, "fr"),
    said(13, "de"),
    said(14, "de"),
    said(14, "en"),
]


def graded(talks):
    """The answers of two talks, each with 2 if it is right, 1 if its language is, else 0."""
    answers = [line.partition(": ")[2] for text in talks for line in text.split("\n")[1::2]]
    found = []
    for answer, true in zip(answers, TRUE, strict=True):
        language = true[0].partition(":")[0]
        speaks = all(f"{language}:{word}" in every for word in answer.split())
        found.append((answer, 2 if answer == in_plain_words(true) else int(speaks)))
    return found


measured("forty two in german, before any conversation, by one that has read nothing:")
babble = answering.best.where(start="from scratch")[0]["said before"]
large(babble.split("\n")[1].removeprefix("model: "))
measured("and by one that has read numbers:")
large(talker["said before"].split("\n")[1].removeprefix("model: "))
halves = {"pretrained": "has read\nnumbers", "from scratch": "has read\nnothing"}
groups = [
    (halves[start], [graded(row["said"]) for row in answering.best.where(start=start)])
    for start in halves
    if answering.best.has(start=start)
]
for talk_of, at in (("the first talk", 0), ("the second talk", 3)):
    figure, axes = plot.subplots(width=6.6, height=3.5)
    part = [(name, [row[at : at + 3] for row in rows]) for name, rows in groups]
    diagrams.grid_of_answers(axes, ASKED[at : at + 3], part)
    plot.show(
        figure,
        alt=f"Answers to the three requests of {talk_of}, after 100 conversations, a row for each of five seeds, above "
        "for models that have read numbers, below for those that have read nothing. Blue are right answers, pale those "
        "in the right language with a wrong number: there are many in both halves.",
    )
kinds_of_answer = [
    [sum(k == kind for row in rows for _, k in row) for kind in (2, 1, 0)] for _, rows in groups
]
table(
    ["", "right", "right language, wrong number", "neither"],
    [
        [name.replace("\n", " "), *map(str, counts)]
        for (name, _), counts in zip(groups, kinds_of_answer, strict=True)
    ],
    "the answers in both figures, counted",
    folded=False,
)
measured(
    f"after {talker['conversations']:,} conversations (by now one that has read nothing is hardly behind):"
)
large(talker["said"][0])
answering.table("start", "right")
talked.table("conversations", "right")
unread.table("conversations", "right")
answering.finding(
    "after 100 conversations the model that has read documents answers better than one from scratch",
    "right",
    larger=dict(start="pretrained", steps=400),
    smaller=dict(start="from scratch", steps=400),
)
if unread.full:
    unread.holds(
        "recorded: with 2,000 conversations a model from scratch is less than 0.05 behind",
        talked.full.values("right") - unread.full.values("right"),
        below=0.05,
    )

# %% [markdown]
# What to see: two talks, asked of five models in each half, none picked. Pale is the surprise: the answer is in the language
# that was asked for, and it is a wrong number. A hundred conversations teach what *german* means, with reading or without.
# In both halves *that* is mostly the number just said, even where it was wrong (*quarante six*, then *quarante sept*). What a
# hundred conversations do not teach well is the numbers. (Our guess: they hold too few of them.) Asked 300 new conversations, a model that begins from random weights has a third of
# its answers right, and one that has read nearly two thirds. These shares are kinder than the figure: there each request
# follows the *right* earlier answers, while in the talks a model goes on from its own. So a first mistake drags the next
# answers with it, as in the fourth row of the first talk.
#
# With 2,000 conversations, and more steps, both are nearly level. We take it that so many say the numbers often enough. It
# is C28 once more: what reading gives, many labels give, too. **Instructions teach what is wanted. Where they are few, what is
# known comes from reading.** (Here all weights learn. Of billions one trains a small addition: side road, LoRA.)
#
# > **E10 · Yes: after 100 conversations {{13 instructed: right; start=pretrained}} of the answers are right, from scratch {{13 instructed: right; start=from scratch}}.**
# > *Our question*: are a hundred conversations enough to make a model that has read answer requests?
# >
# > *Measured*: share of answers without a mistake, each after the right earlier answers, in 300 new conversations; five
# > seeds, each start at its own rate.
#
# | conversations | after reading | from scratch |
# | --- | --- | --- |
# | 100 (400 steps) | {{13 instructed: right; start=pretrained}} | {{13 instructed: right; start=from scratch}} |
# | 2,000 (1,000 steps) | {{13 talked_with: right}} | {{13 talked_without_reading: right}} |
#
# ### Preferences: DPO
#
# For many requests nobody can write *the* answer down, but people can say which of two is better. These choices can train a
# model of what they like, which then becomes the reward of reinforcement learning (Christiano et al., 2017; Ouyang et al.,
# 2022). Or they are a loss themselves: *direct preference optimization* (Rafailov et al., 2023). Let $\Delta$ be how much
# likelier an answer has become than it was before, $\log p - \log p_\text{before}$. The better answer's $\Delta$ shall be
# larger than that of the worse one, and $\beta$ says how soon a difference is large enough:
#
# $$\text{loss} = -\log \sigma\big(\beta\,(\Delta_\text{better} - \Delta_\text{worse})\big) .$$


# %%
def preference_loss(better, worse, better_before, worse_before, beta=0.1):
    """Mean loss of pairs of answers, from the logarithms of their probabilities (B) each."""
    return -F.logsigmoid(beta * ((better - better_before) - (worse - worse_before))).mean()


before = mt.tensor([-20.0]), mt.tensor([-15.0])  # the worse answer was the likelier one
for better, worse in ((-20.0, -15.0), (-15.0, -20.0), (-20.0, -25.0)):
    loss = preference_loss(mt.tensor([better]), mt.tensor([worse]), *before)
    print(f"log p of better and worse: {better}, {worse}, loss {loss.item():.3f}")

# %% evidence
# Two outcomes with the same loss, on the line of log p
figure, panels = plot.subplots(1, 2, width=8.6, height=2.6)
of_both = f"distance -5 before, 5 after:\nchange 10, loss {loss.item():.3f}"
cases = [
    ("learned the better answer", (-20, -15), (-15, -20), of_both),
    ("unlearned the worse one", (-20, -15), (-20, -25), of_both),
]
diagrams.distances(panels, cases)
plot.show(
    figure,
    alt="Two lines of log p, before above and after below; the better answer a blue dot, the worse one an orange square. Left: "
    "the better rises from -20 to -15 and the worse falls from -15 to -20. Right: the better stays at -20 and the worse "
    "falls to -25. The distance is -5 before and 5 after in both, and the loss is the same.",
)

# %% [markdown]
# At the start both $\Delta$ are 0, and the loss is $\log 2 = 0.693$. The figure shows the last two lines: blue is the better
# answer. One model learned it. The other only unlearned the worse one. The loss cannot tell them apart: it sees only how
# much the distance grew, here from -5 to 5, and $-\log \sigma(0.1 \cdot 10) = 0.313$. So training may push *both* down, as long as the worse one falls further.
#
# ### Rewards, and what they get (E9)
#
# Where a program can check an answer, nobody needs to be asked. Draw several answers to the same request, check each, and
# make those likelier that did better than the *mean of their group*, and the others less likely. The mean is the yardstick,
# so no second model is needed (Shao et al., 2024; like them, the code also divides by the group's standard deviation). In this way models are trained today to reason on problems whose answers
# can be checked (DeepSeek-AI, 2025). It is a loss in three lines. Here is a causal model of numbers that earns a point for
# each *seven* it says:


# %%
def log_sum(model, tokens):
    """The logarithm of the probability of each sentence (B, n): (B)."""
    return -loss_of_each(model, tokens).sum(1)


@mt.no_grad()
def spoken_by(model, count):
    """Sentences drawn from a causal model, as tokens (count, n)."""
    start, end = (vocabulary[sign] for sign in ("<s>", "</s>"))
    return sample(lambda z, _: (model(z), None), mt.full((count, 1), start), 14, end=end, pad=0)


def rewarded(model, reward, steps, rate=1e-3):
    """Make sentences likelier that earn more than those drawn beside them."""

    def loss():
        tokens = spoken_by(model, 64)
        earned = mt.tensor([float(reward(said)) for said in spelled(tokens)])
        better = (earned - earned.mean()) / (earned.std() + 1e-3)
        return -(better * log_sum(model, tokens)).mean()

    list(descend(model.parameters(), loss, steps, rate))


# %% evidence
# What a rewarded model says: experiment
def spelled(tokens):
    """The words of sentences."""
    return vocabulary.decode_batch(tokens, batch_first=True)


REWARDS = {
    "each seven": lambda said: said.count("seven"),
    "each seven of a number": lambda said: said.count("seven") * says_a_number(said),
}


@lab.experiment(
    "E9",
    reward=["each seven"],
    steps=2,
    pretraining=20,
    full=dict(reward=list(REWARDS), steps=100, pretraining=400, seeds=5),
)
def sevens(reward, steps, pretraining, seed):
    """What a causal model says before and after it is rewarded."""
    model = number_model(causal=True)
    model.load_state_dict(pretrained("causal", seed, pretraining).state_dict())
    mt.manual_seed(seed)
    before = spelled(spoken_by(model, 300))
    rewarded(model, REWARDS[reward], steps)
    after = spelled(spoken_by(model, 300))
    return {
        "said before": [" ".join(words) for words in before[:5]],
        "said": [" ".join(words) for words in after[:5]],
        "sevens before": np.mean([words.count("seven") for words in before]),
        "sevens": np.mean([words.count("seven") for words in after]),
        "numbers before": np.mean([says_a_number(words) for words in before]),
        "numbers": np.mean([says_a_number(words) for words in after]),
        "different": len({tuple(words) for words in after}) / 300,
    }


by_reward = sevens.run()

# %% evidence
# What it said before, and after each of two rewards: large; table and verdicts
said_first = by_reward.best[0]
measured("before:")
large("\n".join(said_first["said before"][:4]))
for reward in by_reward.best.settings_of("reward"):
    measured(f"a point for {reward}:")
    large("\n".join(by_reward.best.where(reward=reward)[0]["said"][:4]))
by_reward.table("reward", ["sevens before", "sevens", "numbers before", "numbers", "different"])
by_reward.finding(
    "without the check it says more sevens",
    "sevens",
    larger=dict(reward="each seven", steps=100),
    smaller=dict(reward="each seven of a number", steps=100),
)
by_reward.finding(
    "with the check more of its sentences are numbers",
    "numbers",
    larger=dict(reward="each seven of a number", steps=100),
    smaller=dict(reward="each seven", steps=100),
)

# %% [markdown]
# The first reward was meant for numbers with many sevens. It did not say so, and the model found out. The second reward
# asks a program whether the sentence is a number at all, and now it says numbers full of sevens. **You get what you reward,
# not what you meant.** (Real training also keeps the model near to what it was before, as $\beta$ does in DPO's
# loss.)
#
# > **E9 · What is rewarded, and no more: where sevens alone count, {{13 sevens: numbers; reward=each seven}} of its sentences are numbers; where a program checks that, {{13 sevens: numbers; reward=each seven of a number}}.**
# > *Our question*: what does a language model learn from a reward that forgets to ask for sense?
# >
# > *Measured*: 300 sentences drawn before and after 100 steps, five seeds. Of those with the check
# > {{13 sevens: different; reward=each seven of a number}} are different from each other.
#
# | a point for | sevens a sentence | share that are numbers |
# | --- | --- | --- |
# | nothing yet | {{13 sevens: sevens before}} | {{13 sevens: numbers before}} |
# | each seven | {{13 sevens: sevens; reward=each seven}} | {{13 sevens: numbers; reward=each seven}} |
# | each seven of a number | {{13 sevens: sevens; reward=each seven of a number}} | {{13 sevens: numbers; reward=each seven of a number}} |
#
# **What it cannot know, it looks up.** Facts that change or are rare are searched and put into the prompt (Lewis et al.,
# 2020). A call to a program is written, the program answers, and the answer stands in the prompt (Schick et al., 2023).
# Section 4 showed one way to use it: what stands in the prompt can be found by an induction head.
#
# > **Today.** Open models of 2024 and 2025 read 15 (DeepSeek-V3) to 36 trillion tokens (Qwen 3). Much of the work is in the
# > choosing. Pages are cleaned and copies thrown out. Code and mathematics are mixed in, and test questions are searched for and removed. Then come instructions,
# > preferences and checked rewards, as in this section, and models that write long drafts before they answer. Papers compare
# > models with different tokens by *bits per byte*: for plain English text these are chapter 11's nats per character in other units. Encoders that fill
# > blanks live on in search. Cleaning of text is in no chapter of this book.

# %% [markdown]
# ## 8. Looking back
#
# Each chapter began with something that broke. The numbers are those of the chapters' records, from the smallest to the
# largest over the seeds ([docs/claims.md](../docs/claims.md) leads to each).
#
# | | the problem | the idea | what was measured |
# | --- | --- | --- | --- |
# | 00 | gradients by hand do not scale | a graph of operations, each with its gradient | an engine on a page, the same gradients as another one |
# | 01 | sequences have any length | one set of weights for all steps | gradient 40 steps back: {{01 gradient_through_time: at distance 40; gain=0.5}} at gain 0.5, {{01 gradient_through_time: at distance 40; gain=3}} at gain 3 (C1) |
# | 02 | the gradient vanishes on the way | a cell that is added to, behind gates | at distance 40: {{02 gradient_before_training: at distance 40; network=LSTM, b_f = 3; start=as it comes}} with forget bias 3, {{02 gradient_before_training: at distance 40; network=RNN; start=as it comes}} in a plain RNN (C4) |
# | 03 | one sentence into another | encoder, decoder, one vector between | long sources right after 1,500 steps: {{03 one_vector: exact match; numbers=128; steps=1500}} by 128 numbers, {{03 one_vector: exact match; numbers=8; steps=1500}} by 8; short ones {{03 one_vector: exact match[0]; numbers=128; steps=1500}} and {{03 one_vector: exact match[0]; numbers=8; steps=1500}} (C5) |
# | 04 | one vector is too narrow | look back at all states | long sources right after 300 steps: {{04 right_with_attention: 16-18 words}} with attention; with one vector, read at every step, {{04 right_from_one_vector: 16-18 words; reads=at every step; steps=300}}, after 2,700 {{04 right_from_one_vector: 16-18 words; reads=at every step; steps=2700}} (C6) |
# | 05 | recurrence is sequential | queries, keys and values of one sequence | a word as far as the other end is 4 operations away, in an RNN 3 for each word (C12) |
# | 06 | one softmax looks at one place | several heads | two answers at once: one head {{06 one_head_or_two: both right; model=one head}}, two heads {{06 one_head_or_two: both right; model=two heads}} (C14) |
# | 07 | a decoder must not see its target | minus infinity before the softmax | gradient from the future: {{07 gradients_from_the_future: largest norm; way=minus infinity before}}, without a mask {{07 gradients_from_the_future: largest norm; way=no mask}} (C15) |
# | 08 | attention knows no order | codes, rotations, distances | *token 3 back*, beyond the trained length: learned {{08 beyond_training: beyond; task=token 3 back; scheme=learned}}, rotary {{08 beyond_training: beyond; task=token 3 back; scheme=rotary}}, relative {{08 beyond_training: beyond; task=token 3 back; scheme=relative}} (C17) |
# | 09 | deep stacks do not train | residual connection and norm | eight blocks: loss {{09 depth_with_and_without: loss; depth=8; steps=2200; wiring=pre-norm}}, without both {{09 depth_with_and_without: loss; depth=8; steps=2200; wiring=neither}} (C20) |
# | 10 | the parts need a whole | blocks, cross-attention, masks | the Transformer on one page, with PyTorch's numbers |
# | 11 | a model must be used | pieces, beams, a cache, a fair table | numbers right: Transformer {{11 number_words_said: exact match; model=Transformer}}, GRU with attention {{11 number_words_said: exact match; model=GRU with attention}} (C23) |
# | 12 | scores grow with the square | tiles; or a state of fixed size | {{12 memory_of_attention: megabytes; n=4096; way=tiled}} MB in place of {{12 memory_of_attention: megabytes; n=4096; way=all at once}} MB, the same numbers (C26) |
# | 13 | labels are dear | read first | ten labels: {{13 place_of_each_word: right; labels=10; method=fine-tuned}} right after reading, {{13 place_of_each_word: right; labels=10; method=from scratch}} without (C28) |
#
# One thing is worth more than any row: most claims needed an "if", and the measurement found it.
#
# The last word has the model of section 7, after numbers and 2,000 conversations.

# %% evidence
# The second conversation, large
large(talker["said"][1])

# %% [markdown]
# A page of arrays and their gradients, and thirteen chapters later it listens and answers. You have built every part of it.
#
# **Try it**: give `MY_FILE` a text of your own and train for `steps=3000`; talk to the model of section 7 with requests of
# your own; mask 40 % of the words in place of 15; fine-tune
# `frozen` and `fine-tuned` in turn (the head first, then all); pretrain on 500 sentences in place of 20,000; give `prompts`
# six examples; forbid "1 back" in layer 2 in place of layer 1; write a reward of your own into `REWARDS`, and guess first
# how the model will cheat.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | "The 3 Ingredients of LLMs" (deck 4): long context, efficient training on huge data, following instructions | attention (chapters 04 to 08, 12); this chapter up to section 6; section 7 | the names of the book |
# | a list of top models, cited as "Liu et al., 2018" (deck 1) | the board of GLUE, Wang et al., 2018 | the citation is the slide before's, WikiSum |
# | "BERT is a language model" | it fills blanks and gives no probability to a sentence | its blanks are filled one by one, not in a chain |
# | 15 % of the words are replaced by `<mask>` | 15 % are chosen, 80 % of these are hidden | section 2 |
# | the loss is a mean over all tokens | over the chosen ones | a mean over all is about 7 times smaller, and so is its gradient |
# | larger models need fewer samples, so they are cheaper | fewer tokens; fewer FLOPs only beyond the small model's best budget | C29 and C37 |
# | a head with little weight on a place does not use it | forbid the place, and look at the loss | E5 |
# | "emergent" abilities of a size | say which measure: exact match jumps where the loss falls evenly | Schaeffer et al., 2023 |
# | a probe finds places, so the model uses them | it says that they can be read, linearly, from there | E6 |
# | $N$ for weights (Kaplan, Hoffmann) | $P$ here; $n$ is a number of tokens | docs/notation.md |
#
# </details>
#
# ## Summary
#
# | question asked of plain text | what it gives | what it does not |
# | --- | --- | --- |
# | which word is hidden? | states that see both sides; few labels are enough (C28, E6) | a probability of the sentence |
# | which word comes next? | a judge of sentences (E3), a writer (section 6), answers by example (E4) | states that see what comes later |
# | which words fill the hole? | a whole encoder and decoder | a gain for our translator (E8) |
#
# - Pretraining is worth labels. For the places of words the gain was gone at 300 labels, for exchanged words it was still
#   there at 1,000. Where labels asked for something else than the text did, it gained little.
# - Give the rival its own steps and rate, and put an untrained model beside the pretrained one.
# - A prompt chooses among tasks; where many were trained, it puts new ones together. What carries it is the induction head: layer 1 notes the left neighbour, layer 2 finds
#   the note (E5). Maps show how much a head looks; a cut shows what for.
# - Larger models need less text. For each budget of compute there is a best size, and it grows with the budget. A model
#   below it costs more for the same loss than the best one, and so does one above it.
# - What comes after is small: a few conversations, a loss of pairs, a reward. And a model learns what is rewarded (E9).
# - One chapter is left, and it is a race: what the book has built, against the clock (chapter 14).
#
# **Exercises**: [set 13](../exercises/13_pretraining/13_pretraining.ipynb)
#
# **Read on**: Radford et al. (2018), *Improving language understanding by generative pre-training*. Devlin et al. (2019),
# *BERT*. Raffel et al. (2020), *Exploring the limits of transfer learning with a unified text-to-text transformer*. Brown et
# al. (2020), *Language models are few-shot learners*. Wettig et al. (2023), *Should you mask 15 % in masked language
# modeling?* Olsson et al. (2022), *In-context learning and induction heads*; Sanford, Hsu and Telgarsky (2024), *One-layer
# transformers fail to solve the induction heads task*; Raventós et al. (2023), *Pretraining task diversity and the emergence
# of non-Bayesian in-context learning for regression*. Hewitt and Liang (2019), *Designing and interpreting probes with
# control tasks*. Kaplan et al. (2020), *Scaling laws for neural language models*; Hoffmann et al. (2022), *Training
# compute-optimal large language models*; Porian et al. (2024), *Resolving discrepancies in compute-optimal scaling of
# language models*; Besiroglu et al. (2024), *Chinchilla scaling: a replication attempt*; Muennighoff et al. (2023), *Scaling
# data-constrained language models*. Ouyang et al. (2022), *Training language models to follow instructions with human
# feedback*; Hu et al. (2022), *LoRA*; Rafailov et al. (2023), *Direct preference optimization*; Shao et al. (2024),
# *DeepSeekMath*; DeepSeek-AI (2025), *DeepSeek-R1*.
#
# ## Side roads
#
# ### What 80, 10 and 10 are for (E1)
#
# *For those who wonder why not all chosen words are hidden.* We train with four rules (hidden / replaced / kept). Then we
# look at three things: blanks that are filled rightly, right words that the model would keep, and wrong words that it would
# mend. (The wrong words are put in at random.)


# %% evidence
# What four rules teach: experiment
@lab.experiment(
    "E1",
    rule=["80/20/0"],
    steps=20,
    full=dict(rule=list(RULES), steps=400, seeds=5),
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

# %% evidence
# Blanks, right words and wrong words under four rules: table and verdicts
rules.table("rule", ["blanks filled", "right words kept", "wrong words mended"])


def of_rule(rows, name, rule):
    """What was measured under one rule."""
    return rows.values(name, rule=rule)


rules.holds(
    "with blanks alone, less than half of the right words are kept",
    lambda rows: of_rule(rows, "right words kept", "100/0/0"),
    below=0.5,
)
rules.holds(
    "with 80/10/10 more than 0.9 are kept",
    lambda rows: of_rule(rows, "right words kept", "80/10/10"),
    above=0.9,
)
rules.holds(
    "80/10/10 mends more wrong words than blanks alone",
    lambda rows: (
        of_rule(rows, "wrong words mended", "80/10/10")
        - of_rule(rows, "wrong words mended", "100/0/0")
    ),
    above=0.05,
)
if rules.full:
    rules.holds(
        "recorded: kept words alone (80/0/20) make the model copy: it mends less than 0.1",
        of_rule(rules.full, "wrong words mended", "80/0/20"),
        below=0.1,
    )

# %% [markdown]
# Blanks are filled about equally well under all four rules. What differs is what a model makes of words that it sees. Asked
# at blanks alone, it keeps fewer than half of the right ones. With kept words (80/0/20) it copies whatever stands there.
# With replaced words (80/20/0) it trusts nothing, and guesses each right word anew. Only the mixture believes what fits and
# doubts what does not. Whether that matters after fine-tuning we did not measure.
#
# > **E1 · For words that are seen: asked at blanks alone it keeps {{13 masking_rules: right words kept; rule=100/0/0}} of the right ones, with 80/10/10 {{13 masking_rules: right words kept; rule=80/10/10}}.**
# > *Our question*: is each part of 80/10/10 good for something?
# >
# > *Measured*: shares, five seeds.
#
# | hidden / replaced / kept | blanks filled | right words kept | wrong words mended |
# | --- | --- | --- | --- |
# | 100/0/0 | {{13 masking_rules: blanks filled; rule=100/0/0}} | {{13 masking_rules: right words kept; rule=100/0/0}} | {{13 masking_rules: wrong words mended; rule=100/0/0}} |
# | 80/20/0 | {{13 masking_rules: blanks filled; rule=80/20/0}} | {{13 masking_rules: right words kept; rule=80/20/0}} | {{13 masking_rules: wrong words mended; rule=80/20/0}} |
# | 80/0/20 | {{13 masking_rules: blanks filled; rule=80/0/20}} | {{13 masking_rules: right words kept; rule=80/0/20}} | {{13 masking_rules: wrong words mended; rule=80/0/20}} |
# | 80/10/10 | {{13 masking_rules: blanks filled; rule=80/10/10}} | {{13 masking_rules: right words kept; rule=80/10/10}} | {{13 masking_rules: wrong words mended; rule=80/10/10}} |
#
# ### Two words exchanged
#
# *For those who want a task that takes more labels.* It judges a sentence as a whole: is it a number, or have two of its
# words changed places? In half of the sentences two words change places, always so that no number is left. We compare
# fine-tuning with training from scratch, each at its own rate (chosen with 1,000 labels). (What a frozen encoder knows of
# it, the next but one side road measures.)


# %% evidence
# The same for exchanged words: experiment
@lab.experiment(
    "C28",
    method=["from scratch"],
    labels=[100],
    factor=1,
    steps=8,
    pretraining=20,
    full=dict(
        method=["fine-tuned", "from scratch"],
        labels=[100, 1000],
        factor=Tuned(0.3, 1, 3, highest="right elsewhere", labels=1000),
        steps=1200,
        pretraining=400,
        seeds=5,
    ),
)
def two_words_exchanged(method, labels, factor, steps, pretraining, seed):
    """Whether two words of a number were exchanged."""
    return from_labels("exchanged", labels, method, factor, steps, pretraining, seed)


on_exchanged = two_words_exchanged.run()

# %% evidence
# Share of right judgements against the number of labelled sentences: figure and verdicts
drawn_methods(
    on_exchanged,
    ["fine-tuned", "from scratch"],
    "Share right with 100 and 1,000 labels: fine-tuned above from scratch at both.",
    levels=[0.5],
)
for few in (100, 1000):
    on_exchanged.finding(
        f"exchanged words, {few} labels: fine-tuning has more right than training from scratch",
        "right",
        larger=dict(method="fine-tuned", labels=few, steps=1200),
        smaller=dict(method="from scratch", labels=few, steps=1200),
    )

# %% [markdown]
# With 100 labels only the model that has read text is above chance (the thin line at 0.5). With 1,000 the gain is large. From scratch 1,000
# labels give {{13 two_words_exchanged: right; labels=1000; method=from scratch}} right, after reading
# {{13 two_words_exchanged: right; labels=1000; method=fine-tuned}}. Most of these runs are best near their last step, so more steps
# may lift both. And the causal model of section 4 needs no label for it.
#
# ### Where it does not help (E2)
#
# *For those who were promised too much.* The encoder learned how numbers are said, and was asked about just that. Now lines
# of code, those of this book's first edition, one character a token. The labels are the kind of token that each character
# belongs to: name, keyword, number, string, comment, operator. An encoder of the same size fills blanks in 20,000 lines, and
# is fine-tuned on a few, from files that it has not read. (The quick run here pretrains for 8 steps; only the record tells.)

# %% evidence
# The kind of token that each character of a line of Python belongs to: data and experiment
KINDS = ["name", "keyword", "number", "string", "comment", "operator"]
KEYWORDS = set(
    "False None True and as assert break class continue def del elif else except finally for from "
    "global if import in is lambda nonlocal not or pass raise return try while with yield".split()
)
TOKEN = re.compile(
    r"""(?P<comment>\#.*)
    | (?P<string>[rbf]*("(\\.|[^"\\])*" | '(\\.|[^'\\])*'))
    | (?P<number>\d[\w.]*)
    | (?P<name>[a-zA-Z_]\w*)
    | (?P<operator>[^\s\w"'])""",
    re.VERBOSE,
)


def kinds_of(line):
    """The kind of each character's token, -100 for spaces; None where a string is left open."""
    kinds = [-100] * len(line)
    for token in TOKEN.finditer(line):
        kind = "keyword" if token[0] in KEYWORDS else token.lastgroup
        kinds[token.start() : token.end()] = [KINDS.index(kind)] * len(token[0])
    left = {character for character, kind in zip(line, kinds, strict=True) if kind == -100}
    return kinds if left <= {" "} else None


def lines_and_kinds(text, count):
    """Different lines of 12 to 64 characters, drawn from a text: tokens and kinds (count, 64)."""
    lines = sorted({line for line in text.split("\n") if 12 <= len(line) <= 64})
    random.Random(0).shuffle(lines)
    found = ((line, kinds_of(line)) for line in lines)
    chosen = list(islice(((line, kinds) for line, kinds in found if kinds), count))
    tokens, labels = mt.zeros(count, 64).long(), mt.full((count, 64), -100)
    for i, (line, kinds) in enumerate(chosen):
        tokens[i, : len(line)], labels[i, : len(line)] = ascii_codes(line), mt.tensor(kinds)
    return tokens, labels


@cache
def code_lines():
    """Lines of the training files, and of those kept aside, with their kinds."""
    training, kept_aside = first_edition_code()
    return lines_and_kinds(training, 20_000), lines_and_kinds(kept_aside, 900)


@cache
def line_reader(steps, seed):
    """An encoder of lines that has filled blanks: nine of ten hidden, one kept."""
    mt.manual_seed(seed)
    model, (tokens, _) = OneStack(128, 64, 4, 256, 2, causal=False), code_lines()[0]

    def loss():
        return blanks_loss(model, tokens[mt.randint(0, len(tokens), (32,))], (0.9, 0.0, 0.1))

    list(descend(model.parameters(), loss, steps, rate=3e-3))
    return model


@lab.experiment(
    "E2",
    method=["fine-tuned", "from scratch"],
    labels=[30],
    factor=1,
    steps=8,
    pretraining=4,
    aside=60,
    full=dict(
        labels=[10, 100],
        factor=Tuned(0.3, 1, 3, highest="right elsewhere"),
        steps=240,
        pretraining=800,
        aside=900,
        seeds=5,
    ),
)
def kinds_of_tokens(method, labels, factor, steps, pretraining, aside, seed):
    """The kind of token that each character of a line belongs to."""
    start = line_reader(pretraining, seed) if method == "fine-tuned" else None
    mt.manual_seed(seed)
    whole = WithHead(OneStack(128, 64, 4, 256, 2, causal=False), "places")
    whole.head = nn.Linear(64, len(KINDS))
    if start:
        whole.model.load_state_dict(start.state_dict())
    (tokens, kinds), (new, new_kinds) = code_lines()
    rows = mt.randperm(len(tokens))[:labels]
    parts_aside = slice(0, aside // 3), slice(aside // 3, aside)  # to choose by, to report
    judged = [(new[part], new_kinds[part]) for part in parts_aside]
    rate = factor * METHODS[method][2]
    parts = [(tokens[rows], kinds[rows]), *judged]
    return right_at_best(whole, whole.parameters(), parts, steps, rate)


on_kinds = kinds_of_tokens.run()
on_kinds.table("method", "right", columns="labels")
on_kinds.holds(
    "pretraining gains less than 0.05 at any number of labels",
    lambda rows: [np.median(gained(rows, n)) for n in (10, 100)],
    below=0.05,
)

# %% [markdown]
# Little is gained: nothing with 10 lines, and about one point of a hundred with 100 lines. In one of five seeds even that is
# missing, so it is no finding (p = 0.06). Kinds of tokens can be told from a few characters nearby, which training finds
# out soon. That is a guess.
#
# > **E2 · Not at this size: with 100 lines {{13 kinds_of_tokens: right; labels=100; method=fine-tuned}} right after pretraining, {{13 kinds_of_tokens: right; labels=100; method=from scratch}} from scratch.**
# > *Our question*: does pretraining also help where the labels ask for something else than the blanks did?
# >
# > *Measured*: share right, five seeds, each at its own rate: with 10 lines
# > {{13 kinds_of_tokens: right; labels=10; method=fine-tuned}} fine-tuned and
# > {{13 kinds_of_tokens: right; labels=10; method=from scratch}} from scratch, with 100 lines
# > {{13 kinds_of_tokens: right; labels=100; method=fine-tuned}} and {{13 kinds_of_tokens: right; labels=100; method=from scratch}}.
#
# ### What does it know?
#
# *For those who want to look inside an encoder.* What is in a state? A **probe** is a small model, here one linear layer,
# that is trained to read something from states that stay as they are (Adi et al., 2017). It is section 3's frozen encoder,
# asked layer by layer, with a thousand labels: layer 0 is the embedding with its position, 1 and 2 are the blocks. States
# are normalized, so that the layers' sizes do not matter.
#
# ### A probe, layer by layer (E6)


# %%
def states_by_layer(model, tokens):
    """The embedding, and what each block makes of it: (B, n, d) each, normalized."""
    allowed = causal_mask(tokens.shape[1]) if model.causal else real_tokens(tokens)
    states = [model.embedded(tokens)]
    for block in model.blocks:
        states.append(block(states[-1], allowed))
    return [F.layer_norm(x, x.shape[-1:]) for x in states]


# %% evidence
# A linear head on one layer of a model that stays as it is: experiment
@lab.experiment(
    "E6",
    kind=["80/10/10"],
    layer=[2],
    task=["places"],
    rate=0.3,
    steps=8,
    pretraining=20,
    full=dict(
        kind=["80/10/10", "causal", "untrained"],
        layer=[0, 1, 2],
        task=["places", "exchanged"],
        rate=Tuned(0.1, 0.3, 1, highest="right elsewhere", layer=2),
        steps=240,
        pretraining=400,
        seeds=5,
    ),
)
def probe(task, kind, layer, rate, steps, pretraining, seed, labels=1000):
    """Share right of a linear head that reads one layer of a model that stays as it is."""
    model = number_model() if kind == "untrained" else pretrained(kind, seed, pretraining)
    mt.manual_seed(seed)
    head = nn.Linear(64, 4)
    parts = []
    for tokens, answers in labelled_parts(task, labels, seed):
        with mt.no_grad():
            states = states_by_layer(model, tokens)[layer]
        parts.append((states if task == "places" else mean_state(states, tokens), answers))
    return right_at_best(head, head.parameters(), parts, steps, rate)


probes = probe.run()

# %% evidence
# Share right by layer, masked, causal and untrained: figures and verdicts
labels_of = {"80/10/10": "masked", "causal": "causal", "untrained": "untrained"}
found_tasks = probes.best.settings_of("task")
figure, panels = plot.subplots(
    1, len(found_tasks), width=4.3 * len(found_tasks), height=3.2, squeeze=False
)
for axes, task in zip(panels[0], found_tasks, strict=True):
    rows = probes.best.where(task=task)
    layers = rows.settings_of("layer")
    for i, kind in enumerate(rows.settings_of("kind")):
        shares = np.array([rows.values("right", kind=kind, layer=layer) for layer in layers]).T
        style = {"color": plot.COLORS[i], "linestyle": plot.LINES[i]}
        plot.spread(axes, layers, shares, label=labels_of[kind], **style)
    axes.set(xlabel="layer", ylabel="share right", ylim=(0.45, 1.02), xticks=layers, title=task)
panels[0][0].legend(fontsize=9)
plot.show(
    figure,
    alt="Share right against the layer, recorded. Places: the masked model rises to nearly 1 at layer 1, causal and "
    "untrained together to about 0.9. Exchanged: masked rises to about 0.7 at layer 2, causal to about 0.6, untrained "
    "stays at 0.5.",
)
for task in found_tasks:
    probes.table("kind", "right", columns="layer", task=task)


def at_layer(rows, kind, layer, task="places"):
    """What a probe finds there."""
    return rows.values("right", kind=kind, layer=layer, task=task)


probes.holds(
    "places: after block 2 the pretrained encoder is more than 0.05 ahead of the untrained one",
    lambda rows: at_layer(rows, "80/10/10", 2) - at_layer(rows, "untrained", 2),
    above=0.05,
)
probes.holds(
    "places: of the embedding alone the two give the same, to 0.1",
    lambda rows: abs(at_layer(rows, "80/10/10", 0) - at_layer(rows, "untrained", 0)),
    below=0.1,
)
if probes.full:
    probes.holds(
        "recorded: a causal state does not see what comes later: places at least 0.05 behind",
        at_layer(probes.full, "80/10/10", 2) - at_layer(probes.full, "causal", 2),
        above=0.05,
    )

# %% [markdown]
# Places can be read after the first block, and hardly better after the second. The untrained encoder reaches nine of ten: it
# mixes each word with its neighbours, and a linear layer finds some use in that. The causal model is level with it, as
# it does not see what stands to the right. Right order, in contrast, cannot be read from an untrained encoder in this way:
# the probe does no better than guessing. In the pretrained one it grows from layer to layer.
#
# A probe says what can be *read* from a state, by a reader as simple as itself. It does not say that the model uses it; for
# that one has to change something and look at the answer, as section 4 did. Nor does it say that pretraining put it there:
# without the untrained encoder beside it, the curve would seem to be all merit. And what a linear probe misses may still be
# there in another form (Hewitt and Liang, 2019; Belinkov, 2022).
#
# > **E6 · Of places it knows {{13 probe: right; kind=80/10/10; layer=2; task=places}}, an untrained encoder {{13 probe: right; kind=untrained; layer=2; task=places}}.**
# > *Our question*: does a pretrained encoder know the places of words and the right order?
# >
# > *Measured*: share right with 1,000 labels, five seeds, each kind of model at a rate chosen at layer 2.
#
# | | layer 0 | layer 1 | layer 2 |
# | --- | --- | --- | --- |
# | places, masked | {{13 probe: right; kind=80/10/10; layer=0; task=places}} | {{13 probe: right; kind=80/10/10; layer=1; task=places}} | {{13 probe: right; kind=80/10/10; layer=2; task=places}} |
# | places, causal | {{13 probe: right; kind=causal; layer=0; task=places}} | {{13 probe: right; kind=causal; layer=1; task=places}} | {{13 probe: right; kind=causal; layer=2; task=places}} |
# | places, untrained | {{13 probe: right; kind=untrained; layer=0; task=places}} | {{13 probe: right; kind=untrained; layer=1; task=places}} | {{13 probe: right; kind=untrained; layer=2; task=places}} |
# | exchanged, masked | {{13 probe: right; kind=80/10/10; layer=0; task=exchanged}} | {{13 probe: right; kind=80/10/10; layer=1; task=exchanged}} | {{13 probe: right; kind=80/10/10; layer=2; task=exchanged}} |
# | exchanged, causal | {{13 probe: right; kind=causal; layer=0; task=exchanged}} | {{13 probe: right; kind=causal; layer=1; task=exchanged}} | {{13 probe: right; kind=causal; layer=2; task=exchanged}} |
# | exchanged, untrained | {{13 probe: right; kind=untrained; layer=0; task=exchanged}} | {{13 probe: right; kind=untrained; layer=1; task=exchanged}} | {{13 probe: right; kind=untrained; layer=2; task=exchanged}} |
#
# ### What the best size hangs on (C37)
#
# *For those who want to see the runs, and how two papers could disagree.* First our numbers: the best size of each budget, how
# it grows, all losses, and the rates that were tried. (There the 0.4 of $0.4 / d$ is called *pace*, and the loss on the half to choose
# by *nats elsewhere*.)


# %% evidence
# The best size of each budget and how it grows, all losses, the rates tried: tables and verdict
def tilt(rows):
    """How much more a wide model gains from the largest budget than a narrow one does."""
    budgets = rows.settings_of("budget")
    common = set.intersection(
        *({row["d"] for row in rows.where(budget=b)} for b in (budgets[0], budgets[-1]))
    )
    narrow, wide = min(common), max(common)
    ahead = [
        rows.values("nats a character", budget=b, d=narrow)
        - rows.values("nats a character", budget=b, d=wide)
        for b in (budgets[0], budgets[-1])
    ]
    return ahead[1] - ahead[0]


if best_sizes.full:
    rows = best_sizes.full
    budgets = rows.settings_of("budget")
    table(
        ["budget C", "weights at the lowest point, by seed"],
        [[f"{budget:.2g}", spread(lowest(rows, budget))] for budget in budgets],
        "the best size of each budget: recorded, 5 seeds",
        folded=False,
    )
    slopes = [
        np.log(lowest(rows, b) / lowest(rows, a)) / np.log(b / a)
        for a, b in [*pairwise(budgets), (budgets[0], budgets[-1])]
    ]
    table(
        ["budgets", "slope of log P against log C"],
        [
            [f"{a:.2g} to {b:.2g}", spread(slope)]
            for (a, b), slope in zip(
                [*pairwise(budgets), (budgets[0], budgets[-1])], slopes, strict=True
            )
        ],
        "how the best size grows: recorded, by seed",
        folded=True,
    )
    best_sizes.holds(
        "with more FLOPs the wider model gains more than the narrower",
        tilt(best_sizes.full),
        above=0,
    )
best_sizes.table("budget", "nats a character", columns="d")
rates.table("d", "nats elsewhere", columns="pace")

# %% [markdown]
# Two papers asked the same at far larger budgets:
#
# | | sizes | $P_\text{best} \propto$ | what followed |
# | --- | --- | --- | --- |
# | Kaplan et al., 2020 | up to 1.5 billion weights | $C^{0.73}$ | grow the model, hardly the text: GPT-3 |
# | Hoffmann et al., 2022 | 70 million to 16 billion | $C^{0.46}$ to $C^{0.50}$ | grow both alike: Chinchilla |
#
# Why was the first so far off?
#
# | who looked again | what they blamed |
# | --- | --- |
# | Hoffmann et al., 2022 | the decay of the rate, not fitted to the length of each training |
# | Pearce and Song, 2024 | the embeddings, not counted |
# | Porian et al., 2024 | how the last layer is counted, the warm-up, the tuning for each size; *not* the decay |
# | Besiroglu et al., 2024 | (in the second paper) errors in one of its fits |
#
# So an exponent from hundreds of runs was off because of what was counted and how it was tuned.
#
# ### When text runs out (E7)
#
# *For those with a short text.* What if there are 20,000 characters, read again and again, by a model that could hold them
# all? (Windows of both texts are drawn in the same way; "its own text" are windows of the first 20,000 characters, which are
# part of both.)


# %% evidence
# A short text and a long one, read by the same model: experiment
@lab.experiment(
    "E7",
    kept=[20_000, 1_800_000],
    steps=10,
    d=16,
    full=dict(d=64, steps=800, seeds=5),
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

# %% evidence
# Loss on files kept aside and on its own text, for a short and a long text: figure and verdicts
for name, what in (
    (
        "nats a character",
        "New files: the short text's curve falls a little, turns and rises above 3.4, that of the "
        "long text falls steadily.",
    ),
    (
        "nats on its own text",
        "The short text itself: its own curve falls to about 1, the other's to about 2.2.",
    ),
):
    run_out.draw(
        x="characters read",
        y=name,
        by="kept",
        labels={20_000: "20,000 characters", 1_800_000: "1.8 million"},
        alt=what,
    )


def last(rows, name, kept):
    """The value at the end of 800 steps."""
    return rows.values(name, kept=kept, steps=800)[:, -1]


run_out.holds(
    "on new files the short text is at least 0.1 worse",
    lambda rows: last(rows, "nats a character", 20_000) - last(rows, "nats a character", 1_800_000),
    above=0.1,
)
run_out.holds(
    "on its own text it is better",
    lambda rows: (
        last(rows, "nats on its own text", 1_800_000) - last(rows, "nats on its own text", 20_000)
    ),
    above=0,
)
if run_out.full:
    run_out.holds(
        "recorded: with the short text the loss on new files ends above its lowest point",
        [
            min(row["nats a character"]) - row["nats a character"][-1]
            for row in run_out.full.where(kept=20_000)
        ],
        below=-0.02,
    )

# %% [markdown]
# The short text is learned by heart: its own windows cost less and less, new files more and more, from the fifth measuring
# point on. Forty times through a text is too often for this model. Muennighoff et al. (2023) found, for large ones, that up
# to four times is nearly as good as new text.
#
# > **E7 · The loss on new files turns round: it falls to 3.02 and ends at 3.46, after 41 readings of
# > 20,000 characters.** *Our question*: what happens when the text runs out?
# >
# > *Measured*: nats a character at the end, five seeds. The first loss was lowest on the way, at 3.01 to 3.03.
#
# | read | new files | its own text |
# | --- | --- | --- |
# | 20,000 characters, 41 times | {{13 short_text: nats a character; kept=20000}} | {{13 short_text: nats on its own text; kept=20000}} |
# | 1.8 million | {{13 short_text: nats a character; kept=1800000}} | {{13 short_text: nats on its own text; kept=1800000}} |
#
# ### Filling spans, then translating (E8)
#
# *For those who want the third family, too.* T5 hides *spans*: a stretch of words becomes one blank, the encoder reads the
# rest, and the decoder writes what is missing (Raffel et al., 2020; BART, Lewis et al., 2020, hides and shuffles more). What
# is pretrained is a whole translator. The obvious test is chapter 03's task, English numbers into German, with few pairs,
# after filling holes in English and in German sentences that are no pairs.


# %%
both = Vocabulary([w for pair in number_pairs(3000) for w in pair.source + pair.target], names)


def with_hole(words, rng):
    """A sentence with one blank in place of one to three words, and these words."""
    count = rng.randint(1, min(3, len(words) - 1))
    start = rng.randrange(len(words) - count + 1)
    return words[:start] + ["<mask>"] + words[start + count :], words[start : start + count]


# %% evidence
# Pairs as tokens
def encoded_pairs(pairs):
    """Sources (N, n) and targets between <s> and </s> (N, T)."""
    sources, targets = zip(*pairs, strict=True)
    return [
        both.encode_batch(sentences, start=marked, end=marked, batch_first=True)[0]
        for sentences, marked in ((sources, False), (targets, True))
    ]


# %%
def train_on_pairs(model, pairs, steps, rate):
    """A decoder learns to write the target of each source."""
    sources, targets = encoded_pairs(pairs)

    def loss():
        rows = mt.randint(0, len(sources), (32,))
        scores, wanted = model(sources[rows], targets[rows, :-1]), targets[rows, 1:]
        return F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=0)

    list(descend(model.parameters(), loss, steps, rate))


# %%
@cache
def span_filler(steps, seed):
    """A Transformer that has filled holes in English and in German numbers, never in pairs."""
    mt.manual_seed(seed)
    model, rng = Transformer(len(both), 64, 4, 256, 2), random.Random(seed)
    spoken = number_pairs(10_000, digits=(3, 6), seed=seed)
    sentences = [pair.source for pair in spoken[::2]] + [pair.target for pair in spoken[1::2]]
    train_on_pairs(model, [with_hole(words, rng) for words in sentences], steps, 3e-3)
    return model


# %% evidence
# Exact match of translations, and the experiment
@mt.no_grad()
def translated(model, pairs):
    """Exact match of greedy translations."""
    sources, targets = encoded_pairs(pairs)
    memory, real = model.encode(sources), real_tokens(sources)
    tokens = targets[:, :1]
    for _ in range(targets.shape[1] - 1):
        tokens = mt.cat([tokens, model.decode(tokens, memory, real)[:, -1:].argmax(-1)], dim=1)
    written = both.decode_batch(tokens, batch_first=True)
    return np.mean([words == target for words, (_, target) in zip(written, pairs, strict=True)])


@lab.experiment(
    "E8",
    start=["from scratch"],
    pairs=100,
    rate=2e-3,
    steps=2,
    pretraining=2,
    full=dict(
        start=["from scratch", "span filling"],
        rate=Tuned(1e-3, 2e-3, 4e-3, highest="exact match elsewhere"),
        steps=300,
        pretraining=800,
        seeds=5,
    ),
)
def from_few_pairs(start, pairs, rate, steps, pretraining, seed):
    """Translations after learning from this many pairs."""
    begun = span_filler(pretraining, seed) if start == "span filling" else None
    mt.manual_seed(seed)
    model = Transformer(len(both), 64, 4, 256, 2)
    if begun:
        model.load_state_dict(begun.state_dict())
    found = number_pairs(pairs, digits=(3, 6), seed=1000 + seed)
    train_on_pairs(model, [(pair.source, pair.target) for pair in found], steps, rate)
    new = {pair.number: pair for pair in number_pairs(600, digits=(3, 6), held_out=True, seed=1)}
    new = random.Random(1).sample([*new.values()], len(new))
    elsewhere, reported = (
        [(pair.source, pair.target) for pair in part] for part in (new[:200], new[200:])
    )
    return {
        "exact match": translated(model, reported),
        "exact match elsewhere": translated(model, elsewhere),
    }


by_pairs = from_few_pairs.run()
by_pairs.table("start", "exact match", columns="pairs")
by_pairs.holds(
    "filling spans gains less than 0.1 over training from scratch",
    lambda rows: [
        np.median(rows.values("exact match", start="span filling", pairs=n))
        - np.median(rows.values("exact match", start="from scratch", pairs=n))
        for n in rows.settings_of("pairs")
    ],
    below=0.1,
)

# %% [markdown]
# Filling spans did not help here. A hole in a sentence can be mended from its own grammar, and neither side has to learn
# what the other language calls a number: that is our guess. T5 read vastly more, and its tasks were in the language that it
# had read. We tried this one setting, and no more.
#
# > **E8 · Not at this size: with 100 pairs {{13 from_few_pairs: exact match; start=span filling}} right after filling spans, {{13 from_few_pairs: exact match; start=from scratch}} from scratch.**
# > *Our question*: does filling spans help a translator that gets few pairs?
# >
# > *Measured*: exact match on new numbers with 100 pairs, five seeds, each at its own rate: from scratch
# > {{13 from_few_pairs: exact match; start=from scratch}}, after filling spans {{13 from_few_pairs: exact match; start=span filling}}.
#
# ### Few weights: LoRA
#
# *For those who have a large model and a small machine.* If there are billions of weights, can one fine-tune without
# training them all? Hu et al. (2022) leave a matrix $W$, $(d, d)$, as it is. They add a product of two thin ones, $W + RS$:
# $R$ is $(d, r)$ and $S$ is $(r, d)$, of a *rank* $r$ as small as 4. At the start $S = 0$, so nothing changes. In the code
# $R$ is `down` and $S$ is `up`. Only they learn, and the head. The code does so for the matrices of queries and values, as
# Hu et al. mostly did.

# %% evidence
# A matrix that stays, and a product of two thin ones that learns
figure, axes = plot.subplots(width=6, height=2.6)
diagrams.low_rank(axes, width=64, rank=4)
plot.show(
    figure,
    alt="A hatched square W of side 64, plus a dashed square RS as large. Left of RS stands a tall strip R of 64 by 4, above "
    "it lies a flat strip S of 4 by 64. Below: 4,096 numbers stay, 512 learn.",
)

# %% [markdown]
# What to see: what is added to $W$ is as large as $W$, but it is made of two thin strips, a row of $R$ and a column of $S$
# for each number.


# %%
class LowRank(nn.Module):
    """A linear layer that stays as it is, plus a product of two thin matrices that learns."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


mt.manual_seed(0)
adapted = WithHead(number_model(), "places")
adapted.model.load_state_dict(encoder.state_dict())
adapted.model.requires_grad_(False)
for block in adapted.model.blocks:
    block.attention.query = LowRank(block.attention.query, rank=4)
    block.attention.value = LowRank(block.attention.value, rank=4)
learning = [p for p in adapted.parameters() if p.requires_grad]


# %%
def ten_loss():
    return F.cross_entropy(adapted(ten_tokens).flatten(0, 1), ten_labels.flatten())


list(descend(learning, ten_loss, 60, rate=1e-2))
print(
    f"{sum(p.numel() for p in learning):,} of {sum(p.numel() for p in adapted.parameters()):,} weights learn"
)
measured(f"right on new sentences: {share_right(adapted(new_tokens), new_labels):.2f}")

# %% [markdown]
# Two weights of a hundred are trained, and the sentences of section 3 are labelled about as well. A thousand tasks can
# share one large model: each brings its own small matrices.
#
# ### A file that cannot be used
#
# *For those whose file was refused in section 6.* What is told of a file that is too short, of one that is not there, and
# of one in another encoding:

# %% evidence
# Three files that cannot be used, and what is said of them
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    short, latin = Path(folder, "short.txt"), Path(folder, "latin.txt")
    short.write_text("Too short.", encoding="utf-8")
    latin.write_bytes("Zwölf Boxkämpfer".encode("cp1252"))
    for path in (short, Path(folder, "nowhere.txt"), latin):
        try:
            own_text(path)
        except (ValueError, FileNotFoundError) as error:
            measured(f"{type(error).__name__}: {error}".replace(folder, "my"))
