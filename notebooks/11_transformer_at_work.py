# %% [markdown]
# # 11 The Transformer at work
#
# Chapter 10 has the model on one page. This chapter puts it to work, on real text and on two processor cores. What
# does it read, if not words? What does it take to train it well? How does it write, and how fast? Does it translate
# better than the recurrent translator of chapter 04? And when somebody shows a table in which it wins, what may we
# conclude?
#
# **After this chapter you will be able to**
#
# - cut text into pieces by byte-pair encoding, and compare models that cut it differently;
# - name the ingredients of training, and tell what is speed at the start from what stays;
# - train a model that writes, choose its next token in five ways, and write its key-value cache;
# - train a translator on real sentences, and hold it against another one fairly;
# - count the operations of a training run, and read a table of results.
#
# **Time**: about 150 minutes to read and try; all cells together run in about a minute. **Before it**:
# chapter 10 (the model), chapter 04 (the GRU with attention), chapter 03 (beam search, BLEU).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`.

# %%
import math
import textwrap
from collections import Counter
from functools import cache, partial
from itertools import pairwise
from time import process_time

import numpy as np
from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook import plot
from textbook.chapter_05 import attention
from textbook.chapter_06 import merge_heads, split_heads
from textbook.chapter_07 import real_tokens
from textbook.chapter_09 import Block
from textbook.chapter_10 import Embedded, OneStack, Transformer
from textbook.data import (
    BytePairEncoding,
    EncodedPairs,
    bleu,
    bleu_of_draws,
    lacking,
    language_reference,
    multi30k,
    number_pairs,
    number_words,
    split,
    tiny_shakespeare,
)
from textbook.decoding import beam_search, greedy, sample
from textbook.lab import Lab, Runs, Tuned, measured
from textbook.lab.report import table

lab = Lab("11")

# %% [markdown]
# ## 1. Pieces of words
#
# Which tokens? Single characters make sequences long, and the model must learn to spell. A vocabulary of whole words
# is large and never complete: a name that it lacks cannot be read or written. In between lies **byte-pair
# encoding** (Sennrich, Haddow and Birch, 2016). Start from single characters. Then, again and again, find the two
# neighbours that stand together most often, and make one piece of them. Four merges on a corpus of four words:

# %%
corpus = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # words, and how often they occur
spelled = {word: list(word) for word in corpus}


def most_frequent(spelled):
    """The pair of neighbouring pieces that occurs most often, and how often."""
    counts = Counter()
    for word, pieces in spelled.items():
        for pair in pairwise(pieces):
            counts[pair] += corpus[word]
    return counts.most_common(1)[0]


for _ in range(4):
    pair, count = most_frequent(spelled)
    for pieces in spelled.values():
        for i in reversed(range(len(pieces) - 1)):
            if (pieces[i], pieces[i + 1]) == pair:
                pieces[i : i + 2] = ["".join(pair)]
    print(f"{' + '.join(pair):7} ({count})  ", *(" ".join(p) for p in spelled.values()), sep="   ")

# %% [markdown]
# After two merges *est* is a piece, after four *low*. New text is cut by the same merges in the same order, so
# *lowest* would be *low est*, though it was never seen. The book's `BytePairEncoding` does this with bytes, so that no
# text is unknown to it, and lets a space belong to the word that follows. We learn 300 merges from the training part
# of Python's language reference, the text of chapters 01 and 07.

# %%
TEXTS = {"language reference": language_reference, "tiny Shakespeare": tiny_shakespeare}


@cache
def in_pieces(text, merges):
    """An encoding learned from the first nine tenths of a text, and both parts in its pieces."""
    training, validation = split(TEXTS[text](), validation=0.1)
    encoding = BytePairEncoding.learn(training, merges)
    return encoding, encoding.encode(training), encoding.encode(validation)


encoding, training, validation = in_pieces("language reference", 300)
measured(len(encoding), "pieces;", len(training), "in the training text")
measured("|".join(encoding.pieces("The value of an unseen word: Transformer")))

# %% [markdown]
# One thing to keep in mind: a loss *per piece* cannot be compared between encodings, since longer pieces are harder to
# guess and there are fewer of them. The loss of a whole text can. We divide it by the number of its characters: **nats
# per character**. Section 3 asks what pieces are worth.
#
# ## 2. The ingredients of training
#
# So far the book has trained with Adam at one learning rate. Real runs add a handful of ingredients, and each
# answers one thing that goes wrong. Here is the loop, once and for the whole chapter; three of them are lines of it.


# %% save
def in_lines(step, steps, warm):
    """The share of the rate at a step: up in a line for ``warm`` steps, then down in one to 0."""
    return min(step / warm, (steps - step) / (steps - warm))


def fit(model, loss_of_batch, steps, rate, warm, decay=0.0, every=None, look=None):
    """Train on ``loss_of_batch(model)``; returns what ``look(model)`` said after ``every`` steps."""
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


# %% [markdown]
# - **Schedule.** The rate goes up for `warm` steps, while Adam's estimates are poor (chapter 09), and then down to
#   zero, so that the last steps settle instead of jumping about.
# - **Clipping.** One odd batch can give a gradient that undoes a hundred steps. If the norm of all gradients together
#   is above 1, they are divided by it (chapter 01).
# - **Weight decay.** AdamW also shrinks each weight a little at every step.

# %% evidence
# Three schedules: figure
figure, axes = plot.subplots(width=6.5, height=2.6)
count = np.arange(1, 1001)
axes.plot(count, [in_lines(s, 1000, 100) for s in count], label="lines (ours)")
axes.plot(
    count,
    [s / 100 if s < 100 else 0.5 + 0.5 * math.cos(math.pi * (s - 100) / 900) for s in count],
    label="cosine",
)
axes.plot(
    count,
    [10 * min(s**-0.5, s * 100**-1.5) for s in count],
    label=r"paper: $\sqrt{w}\,\min(s^{-1/2},\ s\,w^{-3/2})$",
)
axes.set(xlabel="step s", ylabel="share of the highest rate")
axes.legend()
plot.show(
    figure,
    alt="Three schedules over 1,000 steps, all rising in a line for 100 steps. Ours falls in a line to zero, the "
    "cosine falls slowly, then fast, then slowly to zero, the paper's falls fast at first and is at 0.3 at the end.",
)

# %% [markdown]
# The paper has the third, with $w = 4{,}000$ warm-up steps, and a peak of $(d\,w)^{-1/2}$. The others are in the
# model or in the loss.
#
# - **Dropout** (Srivastava et al., 2014): in training, each number that a branch would add to the stream is set to zero
#   with probability $p$, the others are divided by $1 - p$, so that the expected sum stays. No number can rely on
#   another one being there. In chapter 10's blocks it is `self.drop`; it works in training only.
# - **Label smoothing** (Szegedy et al., 2016): cross-entropy is never content; it pulls the right token's score up
#   without end. With smoothing the target is the right token $y$ with probability $1 - \epsilon$ and all $V$ tokens
#   alike with the rest, so being *too* sure costs:
#   $$L = -(1 - \epsilon) \log p_y - \frac{\epsilon}{V} \sum_{k=1}^{V} \log p_k .$$

# %%
mt.manual_seed(0)
scores, y, epsilon = mt.randn(5, 8), mt.randint(0, 8, (5,)), 0.1  # five tokens, V = 8
by_loop = []
for row, right in zip(scores.log_softmax(-1), y.tolist(), strict=True):
    by_loop.append(-(1 - epsilon) * row[right] - epsilon / 8 * sum(row))
library = F.cross_entropy(scores, y, label_smoothing=epsilon)
print("as in the formula:", mt.allclose(mt.stack(by_loop).mean(), library, atol=1e-6))
print(mt.nn.Dropout(0.5)(mt.ones(10)))

# %% evidence
# Smoothed targets, and what being sure costs: figure
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.6)
targets = np.full(8, 0.1 / 8)
targets[3] += 0.9
left.bar(np.arange(8), targets, color=plot.COLORS[5])
left.set(xlabel="token", ylabel="target probability", title="target, V = 8, right is token 3")
sure = np.linspace(0.02, 0.9999, 400)
rest = (1 - sure) / 7
right.plot(sure, -np.log(sure), label="plain")
right.plot(sure, -(0.9 + 0.1 / 8) * np.log(sure) - 0.1 * 7 / 8 * np.log(rest), label="smoothed")
right.set(xlabel="probability given to the right token", ylabel="loss", ylim=(0, 3))
right.legend()
plot.show(
    figure,
    alt="Left: bars of the smoothed target, 0.91 for the right token and 0.0125 for each other. Right: the plain loss "
    "falls to zero as the right token's probability goes to one; the smoothed loss has its lowest point at 0.91 and "
    "rises steeply behind it.",
)

# %% [markdown]
# - **Tied embeddings** (Press and Wolf, 2017): the output layer has a row of $d$ numbers for each token, as the
#   embedding has. One matrix can serve both, and source and target can share theirs. The paper ties all three, which
#   saves two thirds of these weights. Chapter 10's model ties source and target only. Tying the output is a line; so
#   that scores have a sensible size at the start, they are divided by $\sqrt d$.
# - **Initialisation**: the library's default, Xavier (chapter 09), or *small ends*: the last matrix of each branch is
#   divided by the root of the number of branches, so that their sum starts small (GPT-2's recipe).


# %%
class Translator(Transformer):
    """Chapter 10's Transformer with what decoding asks for: a state, and a step from it."""

    def begin(self, source):
        return self.encode(source), real_tokens(source)

    def step(self, tokens, state):
        return self.decode(tokens, *state), state


class OwnSource(Translator):
    """The source has an embedding of its own."""

    def __init__(self, vocabulary, width, *sizes):
        super().__init__(vocabulary, width, *sizes)
        self.reads = Embedded(vocabulary, width)

    def encode(self, source):
        x, real = self.reads(source), real_tokens(source)
        for block in self.encoder:
            x = block(x, real)
        return self.encoder_norm(x)


# %%
class TiedOutput(nn.Module):
    """Scores as products with the rows of an embedding."""

    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding

    def forward(self, x):
        return x @ self.embedding.weight.T * x.shape[-1] ** -0.5  # (B, T, V)


def tie_output(model):
    model.out = TiedOutput(model.embedded.embedding)


def xavier(model):
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "embedding" not in name:
            nn.init.xavier_uniform_(weight)


def small_ends(blocks):
    names = ("attention.out", "cross.out", "feed_forward.down")
    ends = [part for block in blocks for name, part in block.named_modules() if name in names]
    for end in ends:
        end.weight.data *= len(ends) ** -0.5


# %% [markdown]
# ### With and without each (E1)
#
# A small task tells them apart in seconds: German number words into English, as text, in pieces of one encoding with
# 100 merges. One more merge table serves both languages, as in the paper. Held-out numbers are of three to six digits.

# %%
PAD, SMOOTHING = 0, 0.1


def numbers_in_words(part):
    """Numbers of up to six digits, German and English; those of a part are in no other."""
    count, digits, seed = {"train": (8000, (1, 6), 0), "val": (200, (3, 6), 1)}.get(
        part, (250, (4, 6), 2)
    )
    pairs = number_pairs(count, digits=digits, held_out=part != "train", seed=seed)
    rows = [(number_words(p.number, "de"), number_words(p.number)) for p in pairs]
    return rows if part in ("train", "val") else sorted(set(rows) - set(numbers_in_words("val")))


CORPORA = {"numbers": numbers_in_words, "Multi30k": partial(multi30k, source="de", target="en")}


@cache
def encoded(corpus, merges):
    """One encoding of both languages, learned from the training pairs, and the three parts."""
    parts = [CORPORA[corpus](part) for part in ("train", "val", "test_2016_flickr")]
    text = "\n".join(sentence for pair in parts[0] for sentence in pair)
    encoding = BytePairEncoding.learn(text, merges, ["<pad>", "<s>", "</s>"])
    return encoding, *(EncodedPairs(pairs, encoding) for pairs in parts)


joint, to_learn, _, to_report = encoded("numbers", 100)
for sentence in to_learn.pairs[6]:
    print("|".join(joint.pieces(sentence)))
print("numbers to learn from and to report on:", len(to_learn), len(to_report))


# %%
def next_word(model, batch, **options):
    """The loss of each next piece of the targets, given the sources and the pieces before."""
    source, target = batch  # (B, n), (B, T + 1)
    scores = model(source, target[:, :-1]).flatten(0, 1)  # (B T, V)
    return F.cross_entropy(scores, target[:, 1:].flatten(), ignore_index=PAD, **options)


@mt.no_grad()
def loss_on(model, data):
    """The loss a piece on all pairs."""
    batches = [data.batch(numbers) for numbers in data.by_length(64)]
    total = sum(next_word(model, batch, reduction="sum").item() for batch in batches)
    return total / sum(len(target) - 1 for target in data.targets)


@mt.no_grad()
def share_right(model, data):
    """The share of targets of which every piece is the likeliest after those before it."""
    source, target = data.batch(range(len(data)))
    guess, wanted = model(source, target[:, :-1]).argmax(-1), target[:, 1:]
    return ((guess == wanted) | (wanted == PAD)).all(1).float().mean().item()


# %%
def ends_of_both(model):
    small_ends(model.encoder)
    small_ends(model.decoder)


CHANGES = {
    "as it is": {},
    "no warm-up": dict(warm=1),
    "output tied too": dict(prepare=tie_output),
    "output tied, source not": dict(kind=OwnSource, prepare=tie_output),
    "nothing tied": dict(kind=OwnSource),
    "Xavier": dict(prepare=xavier),
    "small ends": dict(prepare=ends_of_both),
    "dropout 0.1": dict(dropout=0.1),
    "smoothing 0.1": dict(smoothing=SMOOTHING),
}


# %%
@lab.experiment(
    "E1",
    change=["as it is", "output tied too"],
    pairs=8000,
    rate=4e-3,
    steps=60,
    full=dict(
        change=list(CHANGES)[:7],
        rate=Tuned(2e-3, 4e-3, 8e-3, lowest="loss elsewhere", steps=150),
        steps=300,
        seeds=3,
    ),
)
def ingredient(change, pairs, rate, steps):
    """A small Transformer with one thing changed, on the first pairs; how many numbers are right."""
    encoding, training, elsewhere, reported = encoded("numbers", 100)
    setting = dict(kind=Translator, prepare=None, warm=steps // 10, dropout=0.0, smoothing=0.0)
    setting |= CHANGES[change]
    model = setting["kind"](len(encoding), 64, 4, 128, 2, setting["dropout"])
    if setting["prepare"]:
        setting["prepare"](model)
    few = EncodedPairs(training.pairs[:pairs], encoding)
    batches = few.batches(32)

    def loss_of_batch(model):
        return next_word(model, next(batches), label_smoothing=setting["smoothing"])

    def look(model):
        return share_right(model, reported)

    right = fit(
        model, loss_of_batch, steps, rate, setting["warm"], every=steps // 6, look=look
    )
    return {
        "step": list(range(steps // 6, steps + 1, steps // 6)),
        "right": right,
        "half way": right[2],
        "at the end": right[-1],
        "loss": loss_on(model, reported),
        "loss elsewhere": loss_on(model, elsewhere),
        "loss on what it learned": loss_on(model, few),
    }


changed = ingredient.run()


# %% evidence
# Dropout and smoothing where there is much to learn by heart: experiment
@lab.experiment(
    "E1",
    change=["as it is"],
    pairs=200,
    rate=4e-3,
    steps=60,
    full=dict(
        change=["as it is", "dropout 0.1", "smoothing 0.1"],
        rate=Tuned(2e-3, 4e-3, 8e-3, lowest="loss elsewhere", steps=150),
        steps=400,
        seeds=3,
    ),
)
def ingredient_by_heart(change, pairs, rate, steps):
    """The same on few pairs, which come round again and again."""
    return ingredient(change, pairs, rate, steps)


by_heart = ingredient_by_heart.run()

# %% evidence
# What each ingredient does: table, figure, verdicts
changed.table("change", ["half way", "at the end", "loss", "rate"])
by_heart.table("change", ["at the end", "loss", "loss on what it learned", "rate"])

# %% [markdown]
# E1BOX
#
# ## 3. It writes
#
# A language model needs one stack with a causal mask, chapter 10's `OneStack`. Training draws windows of the text,
# and asks for each next piece.


# %%
def draw_windows(numbers, count, length):
    """Windows (count, length) that start anywhere in a text."""
    starts = mt.randint(0, len(numbers) - length + 1, (count, 1))
    return numbers[starts + mt.arange(length)]


def next_piece(model, window, **options):
    """The loss of each next piece of windows (B, n + 1)."""
    scores = model(window[:, :-1]).flatten(0, 1)  # (B n, V)
    return F.cross_entropy(scores, window[:, 1:].flatten(), **options)


@mt.no_grad()
def nats_per_character(model, encoding, numbers, context):
    """The loss of a whole text, read in windows side by side, for each of its characters."""
    count = (len(numbers) - 1) // context
    places = context * mt.arange(count).unsqueeze(1) + mt.arange(context + 1)
    parts = numbers[places].split(64)
    total = sum(next_piece(model, part, reduction="sum").item() for part in parts)
    return total / len(encoding.decode(numbers[1 : count * context + 1]))


# %% [markdown]
# ### Bytes or pieces (E2)
#
# The same model, 400 steps of 16 windows of 64: once it reads bytes, that is 0 merges, once pieces of 300 merges.


# %%
@lab.experiment(
    "E2",
    merges=[0, 300],
    steps=80,
    rate=5e-3,
    full=dict(rate=Tuned(2.5e-3, 5e-3, 1e-2, lowest="nats elsewhere"), steps=400, seeds=3),
)
def pieces_or_bytes(merges, steps, rate, context=64):
    """A small decoder of Python's language reference; the second half of what is held out counts."""
    encoding, training, held_out = in_pieces("language reference", merges)
    model = OneStack(len(encoding), 64, 2, 256, layers=2, causal=True)
    small_ends(model.blocks)

    def loss_of_batch(model):
        return next_piece(model, draw_windows(training, 16, context + 1))

    fit(model, loss_of_batch, steps, rate, warm=steps // 10)
    elsewhere, reported = split(held_out, 0.5)
    return {
        "nats a character": nats_per_character(model, encoding, reported, context),
        "nats elsewhere": nats_per_character(model, encoding, elsewhere, context),
        "characters a window": context * len(encoding.decode(training)) / len(training),
    }


in_two_ways = pieces_or_bytes.run()

# %% evidence
# Nats per character of bytes and of pieces: table and verdict
in_two_ways.table("merges", ["nats a character", "characters a window", "rate"])
in_two_ways.holds(
    "pieces are more than 0.2 nats a character ahead",
    lambda rows: rows.values("nats a character", merges=0)
    - rows.values("nats a character", merges=300),
    above=0.2,
)

# %% [markdown]
# E2BOX
#
# ### Shakespeare (E3)
#
# Now a text that everybody knows: a million characters of Shakespeare's plays, of which the last tenth is held out. A
# well-known teaching program, nanoGPT (Karpathy, 2022), gives two losses for it in its README, in nats per character:
# **1.88** for a setting that takes "about 3 minutes" on a laptop's processor, **1.47** for ten million weights on a
# GPU. Our setting has 0.8 million weights, four blocks of width 128, windows of 128 bytes, all ingredients of section 2
# but smoothing and tying. It takes about ten minutes on one core. Whoever wants to watch it learn types
#
#     python book.py experiment 11 plays
#
# once; the text is fetched at the first call. Here, with the chapter, a smaller model reads the language reference, in
# pieces, for some seconds. Beside each loss stands what it writes at that moment.

# %% evidence
# How a model goes on from a text, and two numbers on what it wrote: functions for section 4
SIGNS = ".,:;!?'\"()[]-"


def write_on(model, prompts, length, context, how):
    """Go on from prompts (B, n) by ``length`` pieces: greedily where ``how`` is None, else drawn."""

    def step(tokens, state):
        return model(tokens[:, -context:]), state

    if how is None:
        return greedy(step, prompts, length)
    return sample(step, prompts, length, **how)


WAYS = {
    "greedy": None,
    "temperature 0.5": dict(temperature=0.5),
    "temperature 1": {},
    "temperature 1.5": dict(temperature=1.5),
    "top 5": dict(top_k=5),
    "top 0.9": dict(top_p=0.9),
}


def known_and_different(texts, training_words):
    """The share of words that the training text has, and of pairs of words that differ."""
    words = [text.split()[1:-1] for text in texts]  # the first and the last may be cut off
    pairs = [pair for row in words for pair in pairwise(row)]
    known = [word.strip(SIGNS) in training_words for row in words for word in row]
    return sum(known) / len(known), len(set(pairs)) / len(pairs)


def ways_to_go_on(model, encoding, training, validation, context, samples):
    """How each of WAYS continues the validation text, and the text itself: two numbers each."""
    words = {word.strip(SIGNS) for word in encoding.decode(training).split()}
    starts = mt.arange(samples).unsqueeze(1) * ((len(validation) - 72) // samples)
    windows = validation[starts + mt.arange(72)]  # 32 pieces are given, 40 follow
    texts = {"the text itself": windows}
    for way, how in WAYS.items():
        texts[way] = write_on(model, windows[:, :32], 40, context, how)
    judged = [
        known_and_different([encoding.decode(row[32:]) for row in rows], words)
        for rows in texts.values()
    ]
    known, different = zip(*judged, strict=True)
    return {"way": list(texts), "known words": known, "different pairs": different}


# %% evidence
# A language model, watched while it learns: experiment
@lab.experiment(
    "E3",
    text="language reference",
    merges=300,
    width=64,
    blocks=2,
    context=64,
    dropout=0.0,
    rate=5e-3,
    steps=450,
    every=150,
    samples=50,
    full=dict(
        text="tiny Shakespeare",
        merges=0,
        width=128,
        blocks=4,
        context=128,
        dropout=0.1,
        rate=3e-3,
        steps=6000,
        every=500,
        samples=200,
        seeds=3,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def plays(text, merges, width, blocks, context, dropout, rate, steps, every, samples):
    """A language model of a text: how it learns, what it writes, and how it goes on."""
    encoding, training, validation = in_pieces(text, merges)
    model = OneStack(len(encoding), width, width // 32, 4 * width, blocks, True, dropout)
    small_ends(model.blocks)
    times, seconds, nats, written = [process_time()], [], [], []

    def loss_of_batch(model):
        return next_piece(model, draw_windows(training, 16, context + 1))

    def look(model):
        seconds.append(sum(seconds[-1:]) + process_time() - times[-1])
        nats.append(nats_per_character(model, encoding, validation, context))
        start = encoding.encode("\n").unsqueeze(0)
        drawn = write_on(model, start, 300, context, dict(temperature=0.7))[0]
        written.append(encoding.decode(drawn).strip())
        measured(f"step {every * len(nats)}, {nats[-1]:.3f} nats: {written[-1][:100]!r}")
        times.append(process_time())

    fit(model, loss_of_batch, steps, rate, warm=100, decay=0.1, every=every, look=look)
    return {
        "weights": sum(p.numel() for p in model.parameters()),
        "step": list(range(every, steps + 1, every)),
        "seconds": seconds,
        "nats a character": nats,
        "written": written,
        "training nats": nats_per_character(model, encoding, training[:100_000], context),
    } | ways_to_go_on(model, encoding, training, validation, context, samples)


read = plays.run()
