# %% [markdown]
# # 03 Sequence to sequence
#
# The networks of chapters 01 and 02 say one thing for each token they read, or one thing for the
# whole sequence. A translation is neither: it has its own length, its own words and its own order.
# So this chapter lets one recurrent network read a sentence and hand its last state, one vector, to a
# second network, which writes. It was one of the first neural designs that translated well (Sutskever, Vinyals
# and Le, 2014). How much can one vector carry? The answer surprised us, and it leads to attention.
#
# **After this chapter you will be able to**
#
# - build an encoder and a decoder, and train them with teacher forcing;
# - put sequences of different lengths into one batch: padding, packing, and a loss without padding;
# - translate with greedy and with beam search, and score translations by exact match and BLEU;
# - say what one vector for a whole sentence can hold, and what it costs to learn that (C5);
# - show what happens after a decoder's first mistake (E2).
#
# **Time**: about 90 minutes to read, and 20 more for what there is to try; all cells together run in less than a
# minute. **Before it**: chapter 01 (recurrent networks, teacher forcing, sampling) and chapter 02 (GRU).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the
# original stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
from collections import Counter
from typing import NamedTuple

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook import plot
from textbook.data import (
    BatchesByLength,
    Vocabulary,
    bleu,
    exact_match,
    join_pieces,
    number_pair,
    number_pairs,
    padding_mask,
    translator_weights,
)
from textbook.decoding import beam_search, greedy
from textbook.diagrams import translation as diagrams
from textbook.lab import Budgets, Lab, Tuned, measured, tqdm
from textbook.lab.report import spread, table

lab = Lab("03")

# %% [markdown]
# ## 1. The task: numbers in words
#
# What is the smallest piece of real translation? We translate numbers, written in words, from English to
# German. The words change, their number changes, and so does their order. We can make as many
# pairs as we like, and we know for certain which translation is right. This pair will go with us:

# %%
example = {language: number_pair(293, target=language) for language in ("de", "fr")}
print("en", example["de"].source)
for language, pair in example.items():
    print(language, pair.target, "written", join_pieces(pair.target, language))

# %% evidence
# Which words belong together: figure
figure, panels = plot.subplots(1, 2, width=9.5, height=1.8)
for axes, (language, name) in zip(panels, {"de": "German", "fr": "French"}.items(), strict=True):
    diagrams.aligned(axes, example[language], f"293 in English and {name}")
plot.show(
    figure,
    alt="Lines join the words of 293 in English with those in German, where the lines of ninety and "
    "three cross, and in French, where ninety has a line to three words.",
)

# %% [markdown]
# German writes all of it as one word; our tokens are its parts. German says the unit before the ten
# ("three and ninety"), so the lines cross. French counts by twenties up there ("four twenty thirteen").
# The chapter stays with German.
#
# Has a model understood how numbers are built, or has it memorised pairs? To see it, we **hold out** one
# number in ten: it never occurs in training. We draw from the held-out numbers twice. The first draw is for results.
# What is new in the second, called *elsewhere*, is for choices, such as the learning rate. So no choice has seen the
# numbers that we report. (Of three digits only 89 numbers are held out, and most are in the first draw. So *elsewhere*
# is a little longer. With as many of each length as in the first draw, all rates of this chapter and the next would
# have been chosen the same: we tried.)
# We train on 1 to 9 digits, each length equally often, and test from 3 digits on. (A test needs many
# different numbers: of those with one digit, only 5 is held out.)

# %%
training_pairs = number_pairs(20_000, digits=(1, 9), seed=0)
held_out_pairs = number_pairs(900, digits=(3, 9), held_out=True, seed=1)
numbers = {pair.number for pair in held_out_pairs}
others = number_pairs(900, digits=(3, 9), held_out=True, seed=2)
elsewhere_pairs = [pair for pair in others if pair.number not in numbers]

for pairs in (training_pairs, held_out_pairs, elsewhere_pairs):
    lengths = [len(pair.source) for pair in pairs]
    print(f"{len(pairs):6,} pairs of {min(lengths)} to {max(lengths)} English words")
print("no number in two parts:", not numbers & {pair.number for pair in training_pairs})

# %% [markdown]
# Each language has a vocabulary, as in chapter 01. Three of its entries are no words: `<pad>` fills up
# short sequences (section 4), `<s>` starts a translation and `</s>` ends it (section 3). They come first,
# so they have the same numbers, 0, 1 and 2, in every language.

# %% save
SPECIALS = ["<pad>", "<s>", "</s>"]
PAD, START, END = range(3)  # their numbers in every vocabulary

# %%
english = Vocabulary((word for pair in training_pairs for word in pair.source), SPECIALS)
german = Vocabulary((word for pair in training_pairs for word in pair.target), SPECIALS)
for vocabulary in (english, german):
    print(len(vocabulary), vocabulary.tokens[:9], "...")

# %% [markdown]
# ## 2. The encoder
#
# How can a sentence of any length become one vector? The **encoder** reads the source, tokens
# $x_1, \dots, x_n$, and keeps only where it ends. With an embedding $E$ of shape $(V, d)$ and any
# recurrent cell, here the GRU of chapter 02,
#
# $$h_j = \mathrm{GRU}(E_{x_j}, h_{j-1}), \qquad h_0 = 0, \qquad c = h_n .$$
#
# Here $E_{x_j}$ is the row of $E$ that belongs to the word $x_j$. Each state $h_j$ has the shape $(H)$, and so has
# $c$, the **encoding** of the sentence: whatever its length, $H$ numbers. We start small, $d = 4$ and $H = 3$,
# untrained, and feed the GRU one word at a time.

# %%
mt.manual_seed(0)
embedding = nn.Embedding(len(english), 4)  # E, (V, d)
encoder = nn.GRU(4, 3, batch_first=True)

source = english.encode(example["de"].source)  # (n)
h = mt.zeros(1, 3)  # (layers, H)
for word, number in zip(example["de"].source, source, strict=True):
    _, h = encoder(embedding(number.unsqueeze(0)), h)
    print(f"{word:8}", h[0])
c = h

# %%
states, last = encoder(embedding(source))  # (n, H), (layers, H)
print("the whole sentence in one call, the same encoding:", mt.allclose(last, c, atol=1e-6))

# %% [markdown]
# Each word has overwritten the three numbers. The last row is all that is left of *two hundred and ninety three*.
#
# ## 3. The decoder
#
# How does one vector become a sentence again? The **decoder** is a language model (chapter 01) of the
# target language that does not start from nothing: its first state is the encoding. Here is the whole
# design:

# %% evidence
# The encoder, the decoder, and all that one knows of the other: figure
figure, axes = plot.subplots(width=10, height=2.6)
diagrams.encoder_decoder(axes, example["de"].source, [*example["de"].target, "</s>"])
plot.show(
    figure,
    alt="Five encoder states read 'two hundred and ninety three'; a thick arrow, c, leads from the last "
    "to the first of six decoder states, which read the start token and the German words so far and "
    "write the next one, at last the end token.",
)

# %% [markdown]
# Everything that the decoder ever learns of the source goes through the thick arrow. The decoder writes
# $y_1, \dots, y_T$, one token at a time. Its GRU and its embedding are its own, so they carry a prime, and $y_{<t}$
# stands for the tokens before step $t$:
#
# $$s_0 = c, \qquad s_t = \mathrm{GRU}'(E'_{y_{t-1}}, s_{t-1}), \qquad
# P(y_t \mid y_{<t}, x) = \mathrm{softmax}(s_t W_o + b_o)_{y_t},$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $s_t$ | state of the decoder at step $t$ | $(H)$ |
# | $E'$ | embedding of the target language | $(V', d)$ |
# | $W_o$, $b_o$ | from the state to scores of all $V'$ target tokens | $(H, V')$, $(V')$ |
# | $y_0$ | the **start token** `<s>`: something has to be the first input | |
# | $y_T$ | the **end token** `</s>`: the only way to say "I am done" | |
#
# The probability of a translation is the product over its tokens, the end token included,
# $P(y \mid x) = \prod_{t=1}^{T} P(y_t \mid y_{<t}, x)$. Without the end token a model would never learn
# where to stop. Training makes the true translation likelier: the loss is $-\log P(y \mid x)$, divided by the $T$
# tokens.
#
# But which words does the decoder read while it learns? In the figure, its lower row is the true words so far, not what
# it would say itself. That is **teacher forcing**, as in chapter 01. It makes training simple. The inputs are `<s>`
# $y_1 \dots y_{T-1}$, the targets $y_1 \dots y_{T-1}$ `</s>`: the same tokens one step apart.

# %%
target_embedding = nn.Embedding(len(german), 4)  # E', (V', d)
decoder, out = nn.GRU(4, 3, batch_first=True), nn.Linear(3, len(german))

target = german.encode(["<s>", *example["de"].target, "</s>"])
inputs, targets = target[:-1], target[1:]  # (T), (T)
s, log_p = c, []
for before, after in zip(inputs, targets, strict=True):
    _, s = decoder(target_embedding(before.unsqueeze(0)), s)
    log_p.append(out(s[0]).log_softmax(-1)[after])
    print(f"reads {german.tokens[before.item()]:8} is to say {german.tokens[after.item()]}")
loss = -mt.stack(log_p).mean()
print(f"mean loss a token {loss.item():.3f}; guessing evenly {math.log(len(german)):.3f}")

# %% [markdown]
# The loss is near that of guessing evenly, as it should be: nothing is trained yet.
#
# All inputs are known beforehand, so the loop is one call of the library's GRU with $c$ as its first
# state, and the loss is the cross-entropy of chapter 00.

# %%
states, _ = decoder(target_embedding(inputs), c)  # (T, H)
at_once = F.cross_entropy(out(states), targets)
print("loop and whole sequence agree:", mt.allclose(at_once, loss, atol=1e-6))

# %% [markdown]
# ## 4. Batches of different lengths
#
# How do sentences of different lengths fit into one matrix product? Short ones are filled up with `<pad>` to
# the longest: **padding**. Here are three sources.

# %%
three = [number_pair(number) for number in (293, 7, 40_016)]
padded, padding = english.encode_batch([p.source for p in three], batch_first=True)  # (B, n)
lengths = (~padding).sum(1)
for row in padded:
    print(english.decode(row))
print("lengths", lengths.tolist())

# %% [markdown]
# `padding`, of shape $(B, n)$, is True **at the padding**, here and in all chapters. Later masks that are
# called `allowed` are True where something *may be looked at*: the opposite.
#
# But a GRU knows nothing of padding. It goes on reading, and the state after the last column is no longer
# the state after the last word. For *seven* it would be the state after four times `<pad>`. **Packing** solves that.
# Sequences are sorted by length, longest first, and laid out step by step without the padding:

# %% evidence
# Padded and packed: figure
longest_first = sorted((pair.source for pair in three), key=len, reverse=True)
columns = [[words[j] for words in longest_first if j < len(words)] for j in range(5)]
figure, (left, right) = plot.subplots(1, 2, width=10, height=1.9)
diagrams.layout(left, [english.decode(column) for column in padded.T], "padded: a column a step")
diagrams.layout(right, columns, "packed: a column a step")
plot.show(
    figure,
    alt="Left: three sentences in rows, short ones filled with pad tokens. Right: sorted by length, "
    "the same tokens without padding, in columns of 3, 2, 2, 2 and 1 tokens.",
)

# %% [markdown]
# At each step the GRU reads only the sequences that are still running, so each stops where it ends. Count the boxes in
# each column on the right: 3, 2, 2, 2, 1. In code: first embed, then pack. (`enforce_sorted=False` lets the library do
# the sorting, and undo it at the end.)

# %%
x = embedding(padded)  # (B, n, d)
packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
print("running at each step", packed.batch_sizes.tolist(), "longest first", packed.sorted_indices)

# %%
alone = [encoder(embedding(english.encode(pair.source)))[1][0] for pair in three]
_, from_packed = encoder(packed)  # (layers, B, H)
_, from_padded = encoder(x)
for name, last in {"packed": from_packed[0], "padded": from_padded[0]}.items():
    same = [mt.allclose(a, b, atol=1e-6) for a, b in zip(last, alone, strict=True)]
    print(f"{name}: the same last state as each sentence alone: {same}")

# %% [markdown]
# Packed sequences give the states of the sentences alone; padded ones are wrong for all but the longest.
# And packing saves work, here 5 of 15 cells.
#
# ### The loss of a padded batch
#
# The decoder's sequences are padded too. Its states at `<pad>` come after `</s>` and disturb nobody, since
# nothing reads them. But their losses must not count: the model would be paid for predicting `<pad>`,
# which is easy and useless. With $\ell_{bt}$ the loss of sentence $b$ at step $t$ and $m_{bt}$ 1 at real
# tokens, 0 at padding, we take the mean over real tokens:
#
# $$L = \frac{\sum_{b,t} m_{bt}\, \ell_{bt}}{\sum_{b,t} m_{bt}} .$$

# %%
padded_target, _ = german.encode_batch(
    [pair.target for pair in three], start=True, end=True, batch_first=True
)
inputs, targets = padded_target[:, :-1], padded_target[:, 1:]  # (B, T), (B, T)
states, _ = decoder(target_embedding(inputs), from_packed)  # (B, T, H)
scores = out(states)  # (B, T, V')

each = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
real = (targets != PAD).flatten()
by_hand = (each * real).sum() / real.sum()
by_library = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=PAD)
print("by hand equals ignore_index:", mt.allclose(by_hand, by_library))
print(f"share of padding among the targets: {1 - real.float().mean().item():.2f}")

# %% [markdown]
# Divide by the number of real tokens, not by $B \cdot T$ and not by sentence: with the mean of each
# sentence's mean, a token of a short sentence would weigh more than one of a long one.
#
# ## 5. The model and its training
#
# The encoder of section 2 reads from left to right. But the source is there as a whole, so we may read it
# from both ends, as in chapter 01. One GRU reads forward, a second one backward, each of width $H/2$.
# Their last states, side by side, are the encoding:

# %% evidence
# The encoder in both directions: figure
figure, axes = plot.subplots(width=9, height=2.7)
diagrams.both_directions(axes, example["de"].source)
plot.show(
    figure,
    alt="Five words. Above them a row of forward states with arrows to the right, above that a row of "
    "backward states with arrows to the left. The last forward state, at 'three', and the last backward "
    "state, at 'two', lead into one box c of two halves.",
)

# %% [markdown]
# The backward states are called $g_j$ here, so $c = [h_n ; g_1]$, again of the shape $(H)$. The forward half has just
# read *three*, the backward half has just read *two*: both ends of the sentence are one step from $c$, and only the
# middle is far away. From here on $d = 64$ and $H = 128$, that is, 64 numbers in each direction.
#
# Now we put sections 2 to 4 into two classes. First, what reads. You know all of `encode` except its last `if`: it
# joins the two directions, $[h_n ; g_1]$.


# %% save
class SourceEncoder(nn.Module):
    """Reads source tokens (B, n), never their padding."""

    def __init__(self, source_size, width, hidden, layers, bidirectional):
        super().__init__()
        each = hidden // 2 if bidirectional else hidden  # numbers a direction
        self.source_embedding = nn.Embedding(source_size, width)
        self.encoder = nn.GRU(width, each, layers, batch_first=True, bidirectional=bidirectional)

    def encode(self, source):
        """States of all source words (B, n, H), and the last of each layer (layers, B, H)."""
        x, lengths = self.source_embedding(source), (source != PAD).sum(1)  # (B, n, d), (B)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True)  # (B, n, H)
        if self.encoder.bidirectional:  # last: forward, backward, forward, ..., (B, H/2) each
            last = mt.cat([last[0::2], last[1::2]], dim=-1)
        return states, last


# %% [markdown]
# Then, what writes. Three short methods: `begin` reads the source, `decode` makes scores out of a state and some
# tokens, and `forward` does one after the other. The decoder starts from what `begin` gives it: the last states and
# nothing else. All other states are thrown away. (Chapter 04 changes that.)


# %% save
class EncoderDecoder(SourceEncoder):
    """Source (B, n) and target so far (B, T) to scores of each next target token (B, T, V)."""

    def __init__(
        self, source_size, target_size, width=64, hidden=128, layers=1, bidirectional=True
    ):
        super().__init__(source_size, width, hidden, layers, bidirectional)
        self.target_embedding = nn.Embedding(target_size, width)
        self.decoder = nn.GRU(width, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, target_size)

    def begin(self, source):
        """All that the decoder gets to know of the source: the last states (layers, B, H)."""
        return self.encode(source)[1]

    def decode(self, tokens, state):
        """Scores of the token after each of ``tokens`` (B, T), and the decoder's last state."""
        states, state = self.decoder(self.target_embedding(tokens), state)  # (B, T, H)
        return self.out(states), state

    def forward(self, source, tokens):
        return self.decode(tokens, self.begin(source))[0]


# %% [markdown]
# The next two cells are housekeeping. `ParallelText` turns the pairs into numbers once and cuts batches out of these.
# Sentences of about equal length come together, so that little is padding. `number_texts` does what section 1 did, for
# any two languages.


# %% save
class ParallelText:
    """Pairs of sentences as numbers: source (N, n), target with <s> and </s> (N, T + 1)."""

    def __init__(self, pairs, source_words, target_words):
        self.pairs, self.source_words, self.target_words = pairs, source_words, target_words
        self.source, _ = source_words.encode_batch([p.source for p in pairs], batch_first=True)
        self.target, _ = target_words.encode_batch(
            [p.target for p in pairs], start=True, end=True, batch_first=True
        )

    def batch(self, rows):
        """Source and target of these rows, no longer than the longest of them."""
        parts = self.source[rows], self.target[rows]
        return [part[:, : int((part != PAD).sum(1).max())] for part in parts]

    def batches(self, size):
        """Random batches of about equal length, without end."""
        lengths = (self.source != PAD).sum(1).tolist()
        while True:
            for rows in BatchesByLength(lengths, size):
                yield self.batch(rows)


# %% save
def number_texts(source="en", target="de", digits=(1, 9), tested=(3, 9)):
    """Numbers in words to train on, others to report on, and others still to choose by."""
    languages = dict(source=source, target=target)
    training = number_pairs(20_000, digits=digits, seed=0, **languages)
    held_out = number_pairs(900, digits=tested, held_out=True, seed=1, **languages)
    reported = {pair.number for pair in held_out}
    others = number_pairs(900, digits=tested, held_out=True, seed=2, **languages)
    elsewhere = [pair for pair in others if pair.number not in reported]
    source_words = Vocabulary((word for pair in training for word in pair.source), SPECIALS)
    target_words = Vocabulary((word for pair in training for word in pair.target), SPECIALS)
    return [
        ParallelText(pairs, source_words, target_words) for pairs in (training, held_out, elsewhere)
    ]


# %% [markdown]
# Now the loss of section 4, and the training loop of chapter 01. The learning rate falls to zero in a straight line.
# Every so often the loop lets us look at the model.


# %% save
def teacher_forced_loss(model, source, target):
    """Mean cross-entropy of the next token over the real tokens of target (B, T + 1)."""
    inputs, targets = target[:, :-1], target[:, 1:]  # (B, T), (B, T)
    scores = model(source, inputs)  # (B, T, V)
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=PAD)


# %% save
def train_translator(
    model, text, rate, steps, loss_of=teacher_forced_loss, every=None, look=None, size=64
):
    """Train, the rate falling to zero; all losses, and what look() said every so many steps."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    batches, losses, looks = text.batches(size), [], []
    for step in tqdm(range(1, steps + 1), leave=False):
        loss = loss_of(model, *next(batches))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / (steps + 1))
        optimizer.step()
        losses.append(loss.item())
        if look and step % every == 0:
            looks.append(look())
    return losses, looks


# %% [markdown]
# Beside the loss on what it learns we watch the loss on what it has never seen, the numbers of *elsewhere*.
# If the second rises while the first falls, the model learns by heart: it **overfits**. 300 steps take
# a few seconds:


# %%
def new_translator(text, **sizes):
    return EncoderDecoder(len(text.source_words), len(text.target_words), **sizes)


@mt.no_grad()
def loss_of_text(model, text):
    return teacher_forced_loss(model, text.source, text.target).item()


training, held_out, elsewhere = number_texts()
mt.manual_seed(0)
young = new_translator(training)
losses, validation = train_translator(
    young, training, rate=1.6e-2, steps=300, every=50, look=lambda: loss_of_text(young, elsewhere)
)
print(f"{sum(p.numel() for p in young.parameters()):,} parameters")

# %% evidence
# Training and validation loss: figure and numbers
figure, axes = plot.subplots(width=7, height=2.8)
even = math.log(len(german))
smooth = [np.mean(losses[max(0, i - 19) : i + 1]) for i in range(300)]
axes.plot(range(1, 301), smooth, color="0.45", linestyle="-", label="training, mean of 20 steps")
axes.plot(range(50, 301, 50), validation, marker="o", label="validation")
axes.axhline(even, color="0.4", linewidth=1, linestyle=":", label="guessing evenly")
axes.set(xlabel="step", ylabel="loss (nats a token)", ylim=(0, 1.15 * even))
axes.legend()
plot.show(
    figure,
    alt="The training loss falls from that of even guessing to about a fifth of a nat in 300 steps; the "
    "validation loss falls with it and stays a little above.",
)
last_losses = sum(losses[-20:]) / 20
measured(f"training, mean of the last 20 steps {last_losses:.3f}, validation {validation[-1]:.3f}")
measured(f"perplexity on validation numbers {math.exp(validation[-1]):.3f}")

# %% [markdown]
# Both fall together: nothing is learned by heart yet. (The validation numbers have at least 3 digits, those in
# training also 1 and 2, so a small gap is no sign of overfitting.) The exponential of the validation loss is the
# perplexity of chapter 01. It says among how many tokens the model wavers: here hardly more than one.
#
# This is our **young** model. The loss is still falling, so it is not done. The book also holds the weights of a
# **grown** model, the same one after 4,000 steps. (`train_translator(model, training, rate=8e-3, steps=4000)` with
# seed 0 made it, in about a minute.) We load it and compare the two from here on.

# %%
grown = new_translator(training)
grown.load_state_dict(translator_weights())
for name, model in {"young": young, "grown": grown}.items():
    measured(f"{name}: validation loss {loss_of_text(model, elsewhere):.3f}")

# %% [markdown]
# ## 6. Translating
#
# How does the model translate when there is no teacher? The decoder reads what it has written itself, until it says
# `</s>`. **Greedy** decoding takes the likeliest token at each step. (`said` holds words that are given to it as its
# own. We leave it empty, until section 8.)


# %%
@mt.no_grad()
def translate_one(model, text, words, said=(), limit=40):
    """The greedy translation of one sentence, a list of words; it goes on after those ``said``."""
    source = text.source_words.encode(words).unsqueeze(0)  # (1, n)
    state, said = model.begin(source), list(said)
    read = text.target_words.encode(["<s>", *said])
    for _ in range(limit):
        scores, state = model.decode(read.unsqueeze(0), state)
        read = scores[0, -1:].argmax(-1)  # (1), the word that it reads next
        if read.item() == END:
            break
        said += text.target_words.decode(read)
    return said


# %% [markdown]
# `textbook.decoding.greedy` does this for a batch. We give it a function for one step. Each time, the function gets all
# tokens so far, and the state that it returned last. Ours reads only the last token, since the state holds the rest.


# %% save
@mt.no_grad()
def translate(model, text, limit=40):
    """Greedy translations of a text, lists of words."""

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)  # the state holds what came before

    start = mt.full((len(text.source), 1), START)
    tokens = greedy(step, start, limit, end=END, pad=PAD, state=model.begin(text.source))
    return text.target_words.decode_batch(tokens, batch_first=True)


# %%
translations = translate(young, held_out)
one_by_one = [translate_one(young, training, pair.source) for pair in held_out.pairs[:50]]
print("alone and in a batch, the same translations:", translations[:50] == one_by_one)

# %% evidence
# The first translations of the young model and of the grown one
of_grown = translate(grown, held_out)
rows = []
for pair, *both in list(zip(held_out.pairs, translations, of_grown, strict=True))[:6]:
    marks = ["" if said == pair.target else "WRONG: " for said in both]
    written = [join_pieces(said, "de") for said in both]
    rows.append([f"{pair.number:,}", *map(str.__add__, marks, written)])
table(
    ["number", "young, 300 steps", "grown, 4,000 steps"], rows, "six held-out numbers", folded=False
)

# %% [markdown]
# The young model is wrong in three of these six, and never at the start: it begins right and goes wrong
# later. Even then it writes a proper German number, only not the one that was asked for.
#
# ### Scores
#
# How good is that, in one number? Two measures. **Exact match** is the share of translations that are right in
# every word. It suits numbers, where an almost right answer is a wrong number, and where only one answer is right.
#
# In other texts many translations are good, and none equals the reference. **BLEU** (Papineni et al., 2002)
# counts runs of words instead. $p_k$ is the share of the runs of $k$ words (**n-grams** of $k$ words) in the
# translations that also occur in their references, each at most as often as it occurs there. With $w$ words
# in all translations together and $r$ in all references,
#
# $$\mathrm{BLEU} = 100 \cdot \min\big(1, e^{1 - r/w}\big) \cdot (p_1\, p_2\, p_3\, p_4)^{1/4} .$$
#
# The first factor, the **brevity penalty**, punishes translations that say less than the reference. Without
# it, a translator that says only the few words it is sure of would score best.
#
# With a pencil: the reference is *zwei hundert drei und dreißig*, the translation *zwei hundert zwei und dreißig*.
# Four of its five words count (the reference has only one *zwei*), so $p_1 = 4/5$. Of its four pairs *zwei hundert*
# and *und dreißig* occur, so $p_2 = 2/4$. Of its three runs of three words none does, so $p_3 = 0$, and BLEU is 0.
# That is why runs are counted over a whole text, not sentence by sentence.


# %%
def runs_of_words(sentence, k):
    """How often each run of k words occurs."""
    return Counter(tuple(sentence[i : i + k]) for i in range(len(sentence) - k + 1))


def bleu_by_hand(translations, references):
    precisions = []
    for k in range(1, 5):
        said = [runs_of_words(sentence, k) for sentence in translations]
        asked = [runs_of_words(sentence, k) for sentence in references]
        # of two Counters, a & b keeps the smaller count of each run
        matched = sum((a & b).total() for a, b in zip(said, asked, strict=True))
        precisions.append(matched / sum(counts.total() for counts in said))
    w, r = sum(map(len, translations)), sum(map(len, references))
    return 100 * min(1, math.exp(1 - r / w)) * math.prod(precisions) ** 0.25


references = [pair.target for pair in held_out.pairs]
by_hand, by_library = bleu_by_hand(translations, references), bleu(translations, references)
print("BLEU by hand equals sacrebleu's:", math.isclose(by_hand, by_library, rel_tol=1e-6))
for name, said in {"young": translations, "grown": of_grown}.items():
    measured(
        f"{name}: exact match {exact_match(said, references):.3f}, BLEU {bleu(said, references):.1f}"
    )

# %% [markdown]
# BLEU gives credit where exact match gives none: most words of a wrong translation are right. For a number
# that is too kind. BLEU also depends on how text is cut into words: two papers that tokenise differently report
# numbers that cannot be compared (Post, 2018).
#
# ### Right without decoding
#
# Must we decode all 900 numbers, word by word, each time we want to know the exact match? No. Suppose the model has
# said *zwei hundert drei*, all right so far. Then it reads the same words now as it would read from a teacher, so its
# next word is the same too. Only after its first mistake do the two part, and then the sentence is wrong anyway. So a
# sentence is right without a teacher exactly when, *with* one, the likeliest token is right at every step:
#
# | reads (true words) | `<s>` | zwei | hundert | drei | und | neunzig | |
# | --- | --- | --- | --- | --- | --- | --- | --- |
# | says | zwei | hundert | drei | und | neunzig | `</s>` | right |
# | says | zwei | hundert | **neun** | und | neunzig | `</s>` | wrong at the third: wrong |
#
# One pass over the true words is enough:


# %% save
@mt.no_grad()
def fully_right(model, text):
    """For each pair, whether every token is the likeliest after the true ones before it, (N)."""
    inputs, targets = text.target[:, :-1], text.target[:, 1:]
    said = model(text.source, inputs).argmax(-1)  # (N, T)
    return ((said == targets) | (targets == PAD)).all(1)


# %% evidence
# One pass and decoding: in how many sentences they agree
one_pass = fully_right(young, held_out).tolist()
decoded = [a == b for a, b in zip(translations, references, strict=True)]
agree = sum(a == b for a, b in zip(one_pass, decoded, strict=True))
measured(f"one pass and decoding agree in {agree} of {len(decoded)} sentences")

# %% [markdown]
# > **Today.** Papers report BLEU with the signature of the tool that computed it (sacrebleu), beside chrF, which
# > counts runs of characters, and COMET, a network trained on human judgements, which agrees with people better.
# > A recurrent encoder and decoder with one vector between them is no longer used for translation: attention
# > (chapter 04) came within the year, the Transformer (chapter 10) three years later. Teacher forcing, the end token,
# > padding masks and beam search are all still there.
#
# ### Between two sentences
#
# The encoding is a point in a space of 128 dimensions. So we can ask for something that no sentence is: a point
# *between* two sentences. We encode 71,234 and 293, walk in a straight line from one to the other, and let the
# grown model decode at every step of the way.


# %%
@mt.no_grad()
def between(model, text, one, other, stops=9):
    """What the decoder says on the straight way from one number's encoding to another's."""
    ends = ParallelText(
        [number_pair(one), number_pair(other)], text.source_words, text.target_words
    )
    a, b = model.begin(ends.source).unbind(1)  # (layers, H) each
    way = [a + (b - a) * i / (stops - 1) for i in range(stops)]

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)

    start, state = mt.full((stops, 1), START), mt.stack(way, 1)  # state (layers, stops, H)
    said = greedy(step, start, 40, end=END, pad=PAD, state=state)
    return text.target_words.decode_batch(said, batch_first=True)


# %% evidence
# The way from one encoding to another: figure
figure, axes = plot.subplots(width=9, height=3.4)
walk = [join_pieces(said, "de") for said in between(grown, training, 71_234, 293)]
diagrams.between(axes, walk)
plot.show(
    figure,
    alt="Nine lines of German number words, from einundsiebzigtausendzweihundertvierunddreißig at the top "
    "to zweihundertdreiundneunzig at the bottom; those between are numbers, too, made of parts of both.",
)

# %% [markdown]
# Every stop of this walk is a well-formed German number, though no sentence was encoded to reach the points between.
# Near both ends nothing changes at all. Stop 3 changes one digit. Stop 5 is 271: it has the hundreds of 293 and the
# *einundsiebzig* of the other number. It looks as if the decoder had learned which sentences exist, and the vector
# only said which of them is meant. One walk is no proof: *Try it* in section 9 lets you walk your own.
#

# %% [markdown]
# ## 7. The bottleneck
#
# How much fits into one vector? The encoding has to hold *everything* that the translation needs. A sentence of 2
# words and one of 17 get the same $H$ numbers. That sounds like a limit, and lectures call it a bottleneck.
#
# Let us count first. A number of nine digits is one of a billion. To say which, it takes $\log_2 10^9 \approx 30$
# bits, and one float32 has 32. So a vector of 8 numbers has 256 bits of room, and one of 128 numbers has 4,096. Room
# is not what is missing. The question is what a network can *learn* to write into the vector so that another can read
# it out again. And learning takes time.
#
# ### Exact match by length and training (C5)
#
# So we watch our translator while it learns. We sort its 900 held-out numbers by the length of the source and count for
# each length how many are fully right. Guess first: will the long ones come later, or never?

# %% save
LENGTHS = ["to 6", "7-9", "10-12", "13-15", "16-18"]  # words of the source


def right_by_length(model, text):
    """The share of fully right translations for each of LENGTHS."""
    words = (text.source != PAD).sum(1)  # (N)
    # words 7 to 9 give 1, 10 to 12 give 2, ...
    group = mt.where(words > 6, (words - 4) // 3, 0)
    right = fully_right(model, text)
    return [right[group == i].float().mean().item() for i in range(len(LENGTHS))]


# %% [markdown]
# Two variants run beside it. The first makes the vector narrower. Encoder and decoder keep their width of 128, but
# between them stands a bridge: one matrix maps $c$ to fewer numbers, a second one maps these back to 128.

# %% evidence
# The bridge: figure
figure, axes = plot.subplots(width=8, height=2.2)
diagrams.squeezed(axes, 128, 8)
plot.show(
    figure,
    alt="From left to right: a tall box of 128 numbers, the encoding c; a short box of 8 numbers; a tall box "
    "of 128 numbers, the decoder's first state. A matrix stands at each of the two arrows.",
)


# %%
class Squeezed(EncoderDecoder):
    """An EncoderDecoder whose encoding passes through a few ``numbers``."""

    def __init__(self, source_size, target_size, numbers, hidden=128):
        super().__init__(source_size, target_size, hidden=hidden)
        self.down = nn.Linear(hidden, numbers, bias=False)
        self.up = nn.Linear(numbers, hidden, bias=False)
        nn.init.orthogonal_(self.up.weight)
        self.down.load_state_dict({"weight": self.up.weight.T})

    def begin(self, source):
        return self.up(self.down(super().begin(source)))


# %% [markdown]
# The second makes things easier. Our decoder gets $c$ once, as its first state, and must keep in its state whatever
# it still needs. It could also read $c$ at every step, beside the word (Cho et al., 2014). It is the strongest rival
# with one vector that we know. (New is only `beside`: $c$, repeated for each step and put next to each word.)


# %% save
class FedAtEveryStep(EncoderDecoder):
    """An EncoderDecoder whose decoder reads the encoding c beside each word, at every step."""

    def __init__(self, source_size, target_size, width=64, hidden=128):
        super().__init__(source_size, target_size, width, hidden)
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)

    def begin(self, source):
        c = super().begin(source)  # (1, B, H)
        return c, c

    def decode(self, tokens, state):
        last, c = state
        beside = c[0].unsqueeze(1).expand(*tokens.shape, -1)  # (B, T, H)
        x = mt.cat([self.target_embedding(tokens), beside], dim=-1)
        states, last = self.decoder(x, last)
        return self.out(states), (last, c)


# %% evidence
# After one wrong word (section 8): words that remain, and whether all are right
DIGITS = "zwei drei vier fünf sechs sieben acht neun".split()
WRONG = dict(zip(DIGITS, [*DIGITS[1:], "zwei"], strict=True))  # each digit's next, round and round


@mt.no_grad()
def rests_right(model, text, wrong=WRONG):
    """After the first word is read as ``wrong[word]``: words that remain, and whether all right."""
    right = fully_right(model, text).tolist()
    pairs = [p for p, ok in zip(text.pairs, right, strict=True) if ok and p.target[0] in wrong]
    if not pairs:
        return mt.zeros(0), mt.zeros(0)
    chosen = ParallelText(pairs, text.source_words, text.target_words)
    first = mt.tensor([[text.target_words[wrong[pair.target[0]]]] for pair in pairs])  # (B, 1)
    _, state = model.decode(chosen.target[:, :1], model.begin(chosen.source))  # it reads <s>

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)

    tokens = greedy(step, first, 40, end=END, pad=PAD, state=state)
    said = text.target_words.decode_batch(tokens, batch_first=True)
    remain = mt.tensor([len(pair.target) - 1 for pair in pairs])
    rests = [ours[1:] == pair.target[1:] for ours, pair in zip(said, pairs, strict=True)]
    return remain, mt.tensor(rests).float()


# %% evidence
# Training that can be read at several budgets: the rate falls without knowing the end
def trained_up_to(model, rate, budgets, loss_of=teacher_forced_loss):
    """Train, and yield at each budget."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    batches, step = training.batches(64), 0
    for budget in budgets:
        while step < budget:
            loss = loss_of(model, *next(batches))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.param_groups[0]["lr"] = rate / (1 + step / 400)
            optimizer.step()
            step += 1
        yield budget


# %% evidence
# The same translator read at several budgets: one run of the experiment
ENCODINGS = {
    "128 numbers": EncoderDecoder,
    "8 numbers": lambda *sizes: Squeezed(*sizes, numbers=8),
    "128 at every step": FedAtEveryStep,
}


@lab.experiment(
    "C5",
    encoding=["128 numbers"],
    steps=Budgets([80]),
    rate=1e-2,
    full=dict(
        encoding=list(ENCODINGS),
        steps=Budgets([150, 500, 1500, 4500]),
        rate=Tuned(5e-3, 1e-2, 2e-2, lowest="loss elsewhere", steps=500),
        seeds=5,
    ),
)
def trained_longer(encoding, steps, rate):
    model = ENCODINGS[encoding](len(english), len(german))
    for _ in trained_up_to(model, rate, steps):
        by_length = right_by_length(model, held_out)
        _, right = rests_right(model, held_out)
        yield {
            "exact match": by_length,
            "longest right": by_length[-1],
            "all right": fully_right(model, held_out).float().mean().item(),
            "rests right": right.mean().item() if len(right) else None,
            "loss elsewhere": loss_of_text(model, elsewhere),
        }


# %% evidence
# Widths of the vector at two budgets: one run of the experiment
@lab.experiment(
    "C5",
    numbers=[8],
    steps=20,
    rate=1.6e-2,
    full=dict(
        numbers=[8, 16, 32, 64, 128],
        steps=[300, 1500],
        rate=Tuned(4e-3, 8e-3, 1.6e-2, lowest="loss elsewhere"),
        seeds=5,
    ),
)
def one_vector(numbers, steps, rate):
    model = Squeezed(len(english), len(german), numbers)
    train_translator(model, training, rate, steps)
    return {
        "exact match": right_by_length(model, held_out),
        "loss elsewhere": loss_of_text(model, elsewhere),
    }


# %% evidence
# Exact match against training, a curve for each length, with 128 numbers and with 8: figure
runs, widths = trained_longer.run(), one_vector.run()
steps = runs.best.settings_of("steps")
figure, panels = plot.subplots(1, 2, width=9.5, height=3.2, sharey=True)
for axes, encoding in zip(panels, ("128 numbers", "8 numbers"), strict=True):
    if runs.best.has(encoding=encoding):
        learned = np.stack(
            [runs.best.values("exact match", encoding=encoding, steps=n) for n in steps]
        )  # (budgets, seeds, lengths)
        for i, length in enumerate(LENGTHS):
            style = dict(color=plot.COLORS[i], linestyle=plot.LINES[i], marker="os^vD"[i])
            plot.spread(axes, steps, learned[:, :, i].T, label=length, **style)
    axes.set_xscale("log")
    axes.set_xticks(steps, labels=[f"{n:,}" for n in steps])
    axes.minorticks_off()
    axes.set(xlabel="steps of training", ylim=(-0.03, 1.03), title=encoding)
panels[0].set_ylabel("exact match")
handles = panels[0].get_legend_handles_labels()
figure.legend(*handles, title="words", loc="outside right center")
plot.show(
    figure,
    alt="Exact match against steps of training, a curve for each length of the source. Left, with 128 numbers, "
    "the curves rise one after the other, the shortest first, and all come near one. Right, with 8 numbers, they rise "
    "in the same order and much later; those of long sources stay near the floor.",
)

# %% [markdown]
# Each curve is one length of the source. On the left, the shortest sources are learned first and the longest last,
# one length after the other. At 500 steps one would say: one vector cannot translate long sentences. At 4,500 it gets
# nearly all of them right. *Not yet is not cannot*: that is why the budget of training stands on the axis here.
#
# On the right the vector has 8 numbers. The curves come in the same order, and much later. Eight numbers would have
# room for every number, but within 4,500 steps the network has not learned to use it.
#
# And the decoder that reads the vector again at every step? After 1,500 steps it has as many of the longest sources
# right (0.942) as the first decoder after 4,500: a third of the steps. See the table *128 at every step*:

# %% evidence
# The same in numbers, and verdicts
for encoding in runs.best.settings_of("encoding"):
    lines = [
        [f"{n:,}", *map(spread, runs.best.values("exact match", encoding=encoding, steps=n).T)]
        for n in steps
    ]
    caption = f"exact match by words of the source, {encoding}"
    table(["steps", *LENGTHS], lines, caption, folded=encoding == "8 numbers")
budget = widths.best.settings_of("steps")[-1]
lines = [
    [str(n), *map(spread, widths.best.values("exact match", numbers=n, steps=budget).T)]
    for n in widths.best.settings_of("numbers")
]
table(["numbers", *LENGTHS], lines, f"bridges of other widths, {budget:,} steps", folded=True)

runs.holds(
    "128 numbers, 500 steps: most of the shortest sources are right",
    lambda rows: rows.values("exact match", encoding="128 numbers", steps=500)[:, 0],
    above=0.7,
)
runs.holds(
    "128 numbers, 500 steps: few of the longest",
    lambda rows: rows.values("longest right", encoding="128 numbers", steps=500),
    below=0.4,
)
runs.holds(
    "128 numbers, 4,500 steps: most of the longest, too",
    lambda rows: rows.values("longest right", encoding="128 numbers", steps=4500),
    above=0.85,
)
runs.finding(
    "after 4,500 steps 128 numbers get more right than 8",
    "all right",
    larger=dict(encoding="128 numbers", steps=4500),
    smaller=dict(encoding="8 numbers", steps=4500),
)
runs.finding(
    "a decoder that reads the vector at every step gets more of the longest right, 1,500 steps",
    "longest right",
    larger=dict(encoding="128 at every step", steps=1500),
    smaller=dict(encoding="128 numbers", steps=1500),
)
widths.holds(
    "10 to 12 words, 1,500 steps: 128 numbers are better than 8 by over 0.25",
    lambda rows: (
        rows.values("exact match", numbers=128, steps=1500)[:, 2]
        - rows.values("exact match", numbers=8, steps=1500)[:, 2]
    ),
    above=0.25,
)
# %% [markdown]
# > **C5 · holds with a condition: One vector of 128 numbers gets long sentences right, too; it learns them about ten times
# > later than short ones.** *The lectures* (deck 3): the encoding "needs to capture all
# > information about the source sentence. Information bottleneck!"
# >
# > *Measured*: Exact match, five seeds, sources of up to 6 and of 16 to 18 words. 128 numbers: after 500 steps {{03 trained_longer: exact match[0]; encoding=128 numbers; steps=500}} and
# > {{03 trained_longer: longest right; encoding=128 numbers; steps=500}}; after 1,500 {{03 trained_longer: exact match[0]; encoding=128 numbers; steps=1500}} and {{03 trained_longer: longest right; encoding=128 numbers; steps=1500}}; after 4,500
# > {{03 trained_longer: exact match[0]; encoding=128 numbers; steps=4500}} and {{03 trained_longer: longest right; encoding=128 numbers; steps=4500}}. Read at every step, the longest: {{03 trained_longer: longest right; encoding=128 at every step; steps=500}},
# > {{03 trained_longer: longest right; encoding=128 at every step; steps=1500}}, {{03 trained_longer: longest right; encoding=128 at every step; steps=4500}}. 8 numbers, after 4,500 steps: {{03 trained_longer: exact match[0]; encoding=8 numbers; steps=4500}}
# > and {{03 trained_longer: longest right; encoding=8 numbers; steps=4500}}.
#
# Do long sentences come later only because they have more places to go wrong? No. After 500 steps 0.995 of the shortest
# sources are right. A sentence of four such parts, each as easy as they are, would be right in $0.995^4 = 0.98$. We see
# 0.145. Nor would it explain why narrow vectors do worse than wide ones.
#
# So what is wrong with one vector? It has room, but its use is learned slowly. Our guess at the cause: everything
# that the source says has to be packed into the same numbers. And a decoder that lives on it is fragile, as the next
# section shows.
#
# ## 8. What teacher forcing costs
#
# In training the decoder reads the true words, at test time its own. So it has never read a mistake. What does it do
# after its first one? (This gap between training and use is called **exposure bias**; Ranzato et al., 2016.) Exact
# match cannot tell us. Once a word is wrong, the sentence counts as wrong whatever follows (section 6). So we make a
# mistake on purpose.
#
# ### One wrong word (E2)
#
# Take the numbers that the grown model translates without any mistake, and whose first word is a digit from *zwei* to
# *neun*. We let it read the next digit in place of its own first word: *drei* for *zwei*, and so on, and *zwei* for
# *neun*. Then it goes on alone. The rest of the number is as it was, so the rest of the translation, its **rest** for
# short, should be too. Is it?

# %%
pair = number_pair(233)
print("alone:     ", *translate_one(grown, training, pair.source))
print("after drei:", *translate_one(grown, training, pair.source, said=["drei"]))

# %% evidence
# What it says after a wrong word: stumbles, and how often
right = fully_right(grown, held_out).tolist()
pairs = [p for p, ok in zip(held_out.pairs, right, strict=True) if ok and p.target[0] in WRONG]
remain, rest_right = rests_right(grown, held_out)
wrong = [p for p, ok in zip(pairs, rest_right.tolist(), strict=True) if not ok]
said = [translate_one(grown, training, p.source, said=[WRONG[p.target[0]]]) for p in wrong]
rows = [
    [f"{p.number:,}", " ".join(p.target), f"({words[0]}) {' '.join(words[1:])}"]
    for p, words in {p.number: (p, words) for p, words in zip(wrong, said, strict=True)}.values()
    if p.number in (233, 6_058, 809_585, 849_785, 961_564_930)
]
heads = ["number", "right", "(first word given) then alone"]
table(heads, rows, "the grown model stumbles", folded=False)
measured(f"rests right: {rest_right.mean().item():.2f} of {len(pairs)}")

# %% [markdown]
# Source and encoding have not changed. Still, one wrong word ruins one continuation in five. And look *how* it goes
# wrong: 233, with *drei* in place of *zwei*, goes on to "drei hundert **zwei** und dreißig". The *drei* that was due
# later is not said, and the *zwei* that was taken away comes in its place. It looks as if the decoder kept a list of
# what is still to be said, and crossed one word off for each word that it reads.
#
# If that is so, a wrong word should do most harm where the same word is due later in the number: there it is crossed
# off too early. We sort the 779 numbers by that:

# %% evidence
# Rests right, by whether the word that was given is due later: table
due = [WRONG[p.target[0]] in p.target[1:] for p in pairs]
comes_back = [
    words[1:].count(p.target[0]) > p.target[1:].count(p.target[0])
    for p, words in zip(wrong, said, strict=True)
]
lines = []
for name, so in (("due later", True), ("not due later", False)):
    of_kind = [right for right, later in zip(rest_right.tolist(), due, strict=True) if later == so]
    lines.append([name, str(len(of_kind)), f"{np.mean(of_kind):.2f}"])
table(["the word given is", "numbers", "rests right"], lines, "the grown model", folded=False)
as_long = np.array([len(p.target) for p in pairs])
later, kept = np.array(due), np.array(rest_right.tolist())
gaps = {
    n: kept[later & (as_long == n)].mean() - kept[~later & (as_long == n)].mean()
    for n in np.intersect1d(as_long[later], as_long[~later])
}
gap = np.mean([gaps[n] for n in as_long[later] if n in gaps])
measured(f"among numbers of as many words, rests right where it is due later: {gap:+.2f}")
measured(f"wrong rests in which the word taken away turns up: {sum(comes_back)} of {len(wrong)}")

# %% [markdown]
# Both counts agree with the list. Where the word is due later, a third of the rests are ruined; elsewhere one in
# eight. (Long numbers are harder anyway, and in a long number it is likelier that the word is due later. But among
# numbers of as many words the gap is the same, 0.22.) And in 116 of 149 wrong rests the word that was taken away turns
# up after all. Our reading: the encoding says *what* is to be said, and the decoder tells largely from the words that it reads how far
# it has come. Chapter 04 shows what changes when it can look at the source again.
#
# That was one model. Do others stumble, too? We ask the models of section 7, each about the numbers that it has right:

# %% evidence
# How many rests are right after a wrong word, by training: table and verdict
lines = []
for encoding in ("128 numbers", "128 at every step"):
    for n in steps:
        if runs.best.has(encoding=encoding, steps=n):
            of_run = runs.best.where(encoding=encoding, steps=n)
            shares = [spread(of_run.values(name)) for name in ("all right", "rests right")]
            lines.append([encoding, f"{n:,}", *shares])
heads = ["encoding", "steps", "exact match", "rests right after one wrong word"]
table(heads, lines, "what one wrong word spoils", folded=False)
for encoding in ("128 numbers", "128 at every step"):
    runs.holds(
        f"E2, {encoding}, 4,500 steps: after one wrong word, fewer than 0.9 of the rests are right",
        lambda rows, encoding=encoding: rows.values("rests right", encoding=encoding, steps=4500),
        below=0.9,
    )
lab.holds(
    "E2", "the grown model is right in more than 0.98 of the numbers", np.mean(right), above=0.98
)
lab.holds(
    "E2",
    "after one wrong word, in fewer than 0.9 of the rests",
    rest_right.mean().item(),
    below=0.9,
)

# %% [markdown]
# Follow the last two columns down. Exact match climbs to nearly 1. The share of right rests does not follow: with 128
# numbers its median lies between 0.51 and 0.68 at every budget. Exact match alone would call these models finished. To
# read the vector at every step is no cure, although that decoder translates best.
#
# Is teacher forcing to blame? Not alone. Chapter 04 gives the same teacher to a decoder that may look at all words of
# the source, and that one hardly stumbles. So this is what teacher forcing costs a decoder *that must live on one
# vector*: it tells where it is in the sentence largely from the words that it has just said. (Training on wrong words
# helps as well: see *Mistakes in training* among the side roads.)
#
# > **E2 · Often: after 4,500 steps {{03 trained_longer: all right; encoding=128 numbers; steps=4500}} of the numbers are right, but after
# > one wrong word only {{03 trained_longer: rests right; encoding=128 numbers; steps=4500}} of the rests.**
# > *Our question*: does one wrong word spoil what a decoder says after it?
# >
# > *Measured*: Rests right after one wrong first word, of the numbers that are right without it. Five seeds, after 500, 1,500 and
# > 4,500 steps: {{03 trained_longer: rests right; encoding=128 numbers; steps=500}}, {{03 trained_longer: rests right; encoding=128 numbers; steps=1500}} and {{03 trained_longer: rests right; encoding=128 numbers; steps=4500}}, where exact match is {{03 trained_longer: all right; encoding=128 numbers; steps=4500}} at last;
# > with the vector read at every step {{03 trained_longer: rests right; encoding=128 at every step; steps=500}}, {{03 trained_longer: rests right; encoding=128 at every step; steps=1500}} and {{03 trained_longer: rests right; encoding=128 at every step; steps=4500}}. The grown
# > model: 0.81; 0.64 where the word that was given is due later, 0.87 elsewhere. After 1,500 steps with random words in training {{03 after_wrong_word: rests right; feed=random words; steps=1500}}.
#
# ## 9. Beam search
#
# Is the sentence of the likeliest words also the likeliest sentence? Greedy decoding takes the best *word* at each
# step. Here is a model small enough to see everything: a table of what may follow each word.

# %%
follows = {
    "<s>": {"ein": 0.5, "eine": 0.4, "elf": 0.1},
    "ein": {"hundert": 0.45, "tausend": 0.35, "und": 0.2},
    "eine": {"Million": 1.0},
    "elf": {"tausend": 0.6, "</s>": 0.4},
    "hundert": {"</s>": 0.7, "eins": 0.3},
    "tausend": {"</s>": 0.8, "eins": 0.2},
    "und": {"zwanzig": 1.0},
    "Million": {"</s>": 0.9, "eins": 0.1},
    "zwanzig": {"</s>": 1.0},
    "eins": {"</s>": 1.0},
}

said, p = ["<s>"], 1.0
while said[-1] != "</s>":
    word = max(follows[said[-1]], key=follows[said[-1]].get)
    p *= follows[said[-1]][word]
    said.append(word)
print(" ".join(said), f" P = {p:.4f}")

# %% [markdown]
# "ein" is the likeliest first word, but what follows it is open, and the chances are split. "eine" can only be
# followed by "Million": *eine Million* `</s>` has $0.4 \cdot 1.0 \cdot 0.9 = 0.36$. Greedy search never gets there,
# since it let go of "eine" at the first step.
#
# To try all sentences would find it, but with $V'$ words there are up to $V'^{\,T}$ sentences of $T$ words. **Beam
# search** lies between. It keeps the $K$ likeliest beginnings, the **beam**, instead of one. At each step it continues
# each of them by every word, keeps the $K$ likeliest results, and puts aside those that have ended.


# %%
def beam_by_hand(follows, beams):
    """The likeliest sentence found, and for each step all candidates and those that were kept."""
    unfinished, ended, steps = [(1.0, ("<s>",))], [], []
    while unfinished:
        candidates = [
            (p * chance, (*said, word))
            for p, said in unfinished
            for word, chance in follows[said[-1]].items()
        ]
        kept = sorted(candidates, reverse=True)[:beams]
        steps.append((candidates, kept))
        ended += [(p, said) for p, said in kept if said[-1] == "</s>"]
        unfinished = [(p, said) for p, said in kept if said[-1] != "</s>"]
    return max(ended), steps


for beams in (1, 2):
    (p, said), _ = beam_by_hand(follows, beams)
    print(f"K = {beams}: {' '.join(said)}  P = {p:.4f}")

# %% evidence
# All candidates of both searches: figure
figure, panels = plot.subplots(1, 2, width=10, height=3)
for axes, beams in zip(panels, (1, 2), strict=True):
    (p, _), steps = beam_by_hand(follows, beams)
    diagrams.beam(axes, steps, f"K = {beams}: finds a sentence of probability {p:.2f}")
plot.show(
    figure,
    alt="Two trees of candidates. With one beam the search follows ein and hundert to a sentence of "
    "probability 0.16; with two it keeps eine as well and finds eine Million of probability 0.36.",
)

# %% [markdown]
# Heavy boxes are kept, light ones dropped. The number beside a word is the probability of the whole beginning up to
# there: the product along the path. With $K = 1$ this is greedy search. The book's `beam_search` works on batches and
# adds up $\log P$ instead of multiplying $P$, which would underflow. Given the same table and $K = 2$, it finds the
# two sentences that have ended in the right half of the figure:

# %% evidence
# The same table for the library: what its beam search finds
tiny = Vocabulary(list(follows), specials=["</s>"])
chances = mt.zeros(len(tiny), len(tiny))
for before, after in follows.items():
    for word, chance in after.items():
        chances[tiny[before], tiny[word]] = chance

start = mt.tensor([[tiny["<s>"]]])
options = dict(beams=2, end=tiny["</s>"], alpha=0.0)
found, scores = beam_search(
    lambda said, _: (chances[said[:, -1]].log(), None), start, 10, **options
)
for row, score in zip(found[0], scores[0], strict=True):
    print(f"{math.exp(score):.4f}", tiny.decode(row))

# %% [markdown]
# One problem remains. Each word multiplies the probability by a number below 1, so the likeliest sentence
# is often a short one. The library can divide by a power of the length,
# $\log P(y \mid x) / \big(\tfrac{5 + T}{6}\big)^{\alpha}$ (Wu et al., 2016). We keep $\alpha = 0$, which leaves
# $\log P$ as it is. (Chapter 11 chooses an $\alpha$.) Do larger beams help our two models?


# %%
@mt.no_grad()
def with_beams(model, text, beams, limit=40):
    """Translations by beam search, and the mean log P that the model gives them."""

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)

    start = mt.full((len(text.source), 1), START)
    options = dict(beams=beams, alpha=0.0, end=END, pad=PAD, batch_axis=1)
    tokens, scores = beam_search(step, start, limit, state=model.begin(text.source), **options)
    said = text.target_words.decode_batch(tokens[:, 0], batch_first=True)
    return said, scores[:, 0].mean().item()


# %% evidence
# Beams of 1 to 64 on 100 numbers, the young model and the grown one: table
some = ParallelText(held_out.pairs[:100], training.source_words, training.target_words)
asked = [pair.target for pair in some.pairs]
found = {
    (name, beams): with_beams(model, some, beams)
    for name, model in {"young": young, "grown": grown}.items()
    for beams in (1, 4, 16, 64)
}
rows = [
    [
        name,
        str(beams),
        f"{score:.3f}",
        f"{exact_match(said, asked):.3f}",
        f"{sum(map(len, said)) / 100:.2f}",
    ]
    for (name, beams), (said, score) in found.items()
]
print("one beam is greedy search:", found["young", 1][0] == translations[:100])
print("larger beams find likelier sentences:", found["young", 64][1] > found["young", 1][1])
table(
    ["model", "K", "mean log P", "exact match", "words said"],
    rows,
    "beam search without a length penalty",
    folded=False,
)

# %% [markdown]
# The grown model is sure of what it says: all beams say the same. The young one is not, and a larger beam does find
# likelier sentences. With 4 beams four more of the 100 numbers come right (too few for a finding), and with 16 and 64
# no more do. What the model does not know, no search can find. And watch the last column: the larger the beam, the
# *shorter* the sentences of the young model. That is the problem named above: each further word costs probability.
#
# In large translators it goes so far that for many sources the likeliest of all sentences is the empty one (Stahlberg
# and Byrne, 2019), and quality falls as the beam grows: the **beam search curse**. Practice uses 4 or 5 beams and a
# length penalty. (Where variety is asked for, as in a chat, one draws words at random, as in chapter 01.)
#
# **Try it**: guess first whether exact match will rise or fall, then run it.
#
# - Change the model and keep the training: `new_translator(training, layers=2)`, `hidden=64`, or `bidirectional=False`.
# - Feed the source in reverse, as Sutskever, Vinyals and Le did for a forward encoder:
#   `pair._replace(source=pair.source[::-1])` for all pairs of a `ParallelText`.
# - Translate back to English, `number_texts("de", "en")`, or to French, `number_texts("en", "fr")`.
# - Walk `between` two numbers of your own. Can you find a stop that is no number?
#
# > **From statistical to neural translation.** Until 2014 the best systems counted: phrase tables and
# > language models, tuned over years by many engineers. In 2014 the papers that this chapter follows came out (with a
# > forerunner by Kalchbrenner and Blunsom in 2013); in 2016 Google Translate changed over. Google's network already had
# > attention, the subject of the next chapter.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | recurrent networks: "we cannot parallelize and use GPUs for training and inference" (deck 4) | not along the time of one sentence | the sentences of a batch are read side by side (section 4); a recurrence without a nonlinearity can even be computed along time |
# | the mask is 1 at real tokens | `padding` is True at the padding, `allowed` where one may look | both habits exist; the name must say which |
# | one vector "cannot" hold a long sentence | it learns long sentences later | counted and measured in section 7 |
#
# </details>
#
# ## Summary
#
# - An encoder turns a source of any length into one vector, a decoder is a language model that starts from it.
#   Start and end tokens say where a translation begins and ends; its probability is a product over tokens.
# - Batches are padded. Packing gives each sequence the states that it would have alone; the loss is the mean
#   over real tokens.
# - One vector has room for far more than a sentence of our task. What it lacks is not room but training: long
#   sentences are learned last, and narrow vectors learn slower still (C5).
# - Teacher forcing trains all steps at once, and never shows the model a mistake of its own. Exact match
#   cannot see that. After one wrong word, a decoder that lives on one vector often stumbles (E2).
# - Greedy search takes the best next word, beam search keeps several beginnings. It finds likelier sentences,
#   not a better model. Exact match counts perfect sentences, BLEU counts runs of words.
#
# Chapter 04 lets the decoder look at all states of the encoder instead of one.
#
# **Exercises**: [set 03](../exercises/03_seq2seq/03_seq2seq.ipynb)
#
# **Read on**: Cho et al. (2014), *Learning phrase representations using RNN encoder-decoder for statistical machine
# translation*. Sutskever, Vinyals and Le (2014), *Sequence to sequence learning with neural networks*. Cho et al.
# (2014), *On the properties of neural machine translation: encoder-decoder approaches*, for the fall with length.
# Papineni et al. (2002), *BLEU: a method for automatic evaluation of machine translation*. Post (2018), *A call for
# clarity in reporting BLEU scores*. Williams and Zipser (1989), *A learning algorithm for continually running fully
# recurrent neural networks*, for teacher forcing. Bengio et al. (2015), *Scheduled sampling for sequence prediction
# with recurrent neural networks*. Ranzato et al. (2016), *Sequence level training with recurrent neural networks*,
# for exposure bias. Wu et al. (2016), *Google's neural machine translation system: bridging the gap between human and
# machine translation*, for the length penalty. Stahlberg and Byrne (2019), *On NMT search errors and model errors:
# cat got your tongue?* Conneau et al. (2017), *Supervised learning of universal sentence representations from natural
# language inference data*, for max pooling.
#
# ## Side roads
#
# What follows is for those who want more. Chapter 04 needs none of it; where it uses one of the classes below, it
# says what they do.
#
# ### One vector for a sentence
#
# *For those who classify sentences.* An encoder is also useful alone: to classify a sentence, we need one vector for
# it. The last state $h_n$ is one choice. Deck 3 names two others, over all states,
#
# $$\bar h = \frac1n \sum_{j=1}^{n} h_j \quad\text{(mean pooling)}, \qquad
# \hat h = \max_{j \le n} h_j \quad\text{(max pooling, number by number)},$$
#
# and says that they are usually better.

# %% evidence
# Last, mean and max of the same states: figure
figure, axes = plot.subplots(width=9, height=2.4)
diagrams.poolings(axes, ["the", "old", "cat", "and", "the", "town"])
plot.show(
    figure,
    alt="A matrix of states, a column for each of six words, a row for each number. Right of it three vectors: "
    "the last column; the mean of each row; the largest number of each row, which is framed in the matrix.",
)

# %% [markdown]
# In a padded batch all three must keep off the padding.


# %% save
def last_state(states, padding):
    """The state of the last word (B, H), from states (B, n, H) and padding (B, n)."""
    return states[mt.arange(len(states)), (~padding).sum(1) - 1]


def mean_of_states(states, padding):
    """Mean pooling (B, H)."""
    real = states.masked_fill(padding.unsqueeze(-1), 0.0)
    return real.sum(1) / (~padding).sum(1, keepdim=True)


def max_of_states(states, padding):
    """Max pooling (B, H), unit by unit."""
    return states.masked_fill(padding.unsqueeze(-1), -math.inf).amax(1)


# %%
POOLINGS = {"last": last_state, "mean": mean_of_states, "max": max_of_states}

# %% evidence
# Pooling in a padded batch against each sentence alone
states, _ = encoder(embedding(padded))  # (B, n, H), of the three sources of section 4
for name, pool in POOLINGS.items():
    in_batch = pool(states, padding)
    same = [
        mt.allclose(pool(states[b : b + 1, :n], padding[b : b + 1, :n]), in_batch[b], atol=1e-6)
        for b, n in enumerate(lengths.tolist())
    ]
    print(f"{name:4} in a padded batch equals {name:4} of each sentence alone: {same}")

# %% [markdown]
# **Two kinds of questions.** Our stories are words drawn at random from a short list, with animals strewn in. (They
# have no grammar, so that we know exactly where the answer stands.) Two questions about them, each with eight
# possible answers:
#
# - **anywhere**: one animal is named somewhere in the story. Which?
# - **last counts**: animals are named five times (fewer where two of them are drawn for the same place, as in the story
#   below). Which came last?

# %% save
FILLERS = "the a and then in of to one big old day town wood road".split()
ANIMALS = "cat dog cow pig fox hen owl bee".split()
story_words = Vocabulary(FILLERS + ANIMALS, ["<pad>"])


def stories(count, longest, named):
    """Stories (B, n) of longest / 2 to ``longest`` words, and the animal named last (B)."""
    lengths = mt.randint(longest // 2, longest + 1, (count,))
    fillers, animals = story_words.encode(FILLERS), story_words.encode(ANIMALS)
    tokens = fillers[mt.randint(0, len(FILLERS), (count, longest))]
    places = (mt.rand(count, named) * lengths.unsqueeze(1)).long()  # two may be the same
    rows = mt.arange(count)
    for place in places.unbind(1):
        tokens[rows, place] = animals[mt.randint(0, len(ANIMALS), (count,))]
    last = tokens[rows, places.amax(1)]
    tokens = tokens.masked_fill(padding_mask(lengths, longest), PAD)
    return tokens, (last.unsqueeze(1) == animals).long().argmax(1)


# %%
QUESTIONS = {"anywhere": 1, "last counts": 5}  # and how many animals are named
mt.manual_seed(0)
for question, named in QUESTIONS.items():
    tokens, animal = stories(1, 16, named)
    story = [word for word in story_words.decode(tokens[0]) if word != "<pad>"]
    print(f"{question}: {' '.join(story)} -> {ANIMALS[animal.item()]}")


# %% save
class StoryReader(nn.Module):
    """Tokens (B, n) to scores of the animals (B, 8); ``pool`` makes one vector of the states."""

    def __init__(self, recurrent, pool, width=16, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(len(story_words), width)
        self.recurrent = recurrent(width, hidden, batch_first=True)
        self.pool = pool
        self.out = nn.Linear(hidden, len(ANIMALS))

    def forward(self, tokens):
        states, _ = self.recurrent(self.embedding(tokens))  # (B, n, H)
        return self.out(self.pool(states, tokens == PAD))


# %% save
def train_reader(model, longest, named, rate, steps):
    """Train on new stories at each step."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        tokens, animal = stories(32, longest, named)
        loss = F.cross_entropy(model(tokens), animal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@mt.no_grad()
def stories_right(model, longest, named):
    """The share of 500 new stories whose animal is found."""
    tokens, animal = stories(500, longest, named)
    return (model(tokens).argmax(-1) == animal).float().mean().item()


# %% [markdown]
# No packing here, and none is needed: this network reads forward only, and `pool` looks at real steps only,
# which come before the padding.
#
# ### Last, mean and max (C31)
#
# A plain RNN reads stories of 20 to 40 words. It is trained for 150 steps, and for ten times as many.

# %% evidence
# One pooling on one kind of story: one run of the experiment
NETWORKS = {"RNN": nn.RNN, "GRU": nn.GRU}


@lab.experiment(
    "C31",
    network="RNN",
    question=["anywhere"],
    pooling=list(POOLINGS),
    longest=40,
    rate=3e-3,
    steps=150,
    full=dict(question=list(QUESTIONS), steps=[150, 1500], seeds=5),
)
def story_encoded(network, question, pooling, longest, rate, steps):
    model, named = StoryReader(NETWORKS[network], POOLINGS[pooling]), QUESTIONS[question]
    train_reader(model, longest, named, rate, steps)
    names = ("right", "right elsewhere")
    return {name: stories_right(model, longest, named) for name in names}


# %% evidence
# Right answers after 150 and 1,500 steps: tables and verdicts
runs = story_encoded.run()
for question in QUESTIONS:
    runs.table("pooling", "right", columns="steps", question=question)


def at(rows, question, pooling, steps):
    return rows.values("right", question=question, pooling=pooling, steps=steps)


runs.holds(
    "anywhere, 150 steps: max pooling beats the last state by over 0.3",
    lambda rows: at(rows, "anywhere", "max", 150) - at(rows, "anywhere", "last", 150),
    above=0.3,
)
runs.holds(
    "anywhere, 1,500 steps: the last state is within 0.2 of max pooling",
    lambda rows: at(rows, "anywhere", "max", 1500) - at(rows, "anywhere", "last", 1500),
    below=0.2,
)
runs.holds(
    "last counts, 1,500 steps: the last state beats the mean by over 0.3",
    lambda rows: at(rows, "last counts", "last", 1500) - at(rows, "last counts", "mean", 1500),
    above=0.3,
)


# %% [markdown]
# **Anywhere.** After 150 steps max wins by far: it only has to notice the animal once. The last state has to carry it
# through all words that follow, and its gradient has to come back through them (chapter 01); the mean divides it by
# the length. After 1,500 steps little of the difference is left: four last states of five are above 0.94, the fifth
# is at 0.83. So nothing was forgotten: without pooling it is learned more slowly.
#
# **Last counts.** Here the last state wins. Naming one of the five animals at random would give about
# $\tfrac15 + \tfrac45 \cdot \tfrac18 = 0.30$, and the mean is not far above that even after 1,500 steps. (With
# ten times as many it gets most answers right: late, not never. Chapter 04 says more, E1.) The max learns the answer in four seeds of five: a state that has read the story so far can carry order, and the maximum over states
# with it.
#
# Pooling asks a sentence "does it occur anywhere?"; the last state asks "what came last?". Chapter 04 lets the model
# decide: attention is a mean whose weights are learned.
#
# > **C31 · holds with a condition: Where order does not count, max pooling is learned in 150 steps, the last state in 1,500;
# > then both are mostly right.** *The lectures* (deck 3): "usually better: take element-wise max or
# > mean of all hidden states".
# >
# > *Measured*: Right answers of a plain RNN at 20 to 40 words, five seeds, rate 0.003, chance 0.125. Anywhere, after 150 steps: last
# > {{03 story_encoded: right; question=anywhere; pooling=last; steps=150}}, mean {{03 story_encoded: right; question=anywhere; pooling=mean; steps=150}}, max {{03 story_encoded: right; question=anywhere; pooling=max; steps=150}}; after 1,500: last {{03 story_encoded: right; question=anywhere; pooling=last; steps=1500}}, mean
# > {{03 story_encoded: right; question=anywhere; pooling=mean; steps=1500}}, max {{03 story_encoded: right; question=anywhere; pooling=max; steps=1500}}. Last counts, after 1,500 steps: last {{03 story_encoded: right; question=last counts; pooling=last; steps=1500}}, mean
# > {{03 story_encoded: right; question=last counts; pooling=mean; steps=1500}}, max {{03 story_encoded: right; question=last counts; pooling=max; steps=1500}}.
#
# ### French, and lengths never seen (E1)
#
# *For those who ask what a fair test is.* There is a second way to hold data out: by length. One model trains on
# French numbers of 3 and 4 digits, another on 3 to 5, and both are tested on new numbers of 3 to 5. A number of 5
# digits holds no word that the shorter ones do not hold. "Forty-six thousand" is made of the words of "two thousand"
# and of "one hundred and forty-six".


# %% evidence
# French of 3 to 5 digits: one run of the experiment
_, french_held_out, french_elsewhere = number_texts(target="fr", digits=(3, 5), tested=(3, 5))
french_words = french_held_out.source_words, french_held_out.target_words


@lab.experiment(
    "E1",
    longest=[4],
    steps=20,
    rate=1.6e-2,
    full=dict(
        longest=[4, 5],
        steps=[300, 3000],
        rate=Tuned(8e-3, 1.6e-2, 3.2e-2, lowest="loss elsewhere"),
        seeds=5,
    ),
)
def unseen_length(longest, steps, rate):
    pairs = number_pairs(10_000, digits=(3, longest), target="fr", seed=0)
    model = EncoderDecoder(*map(len, french_words))
    train_translator(model, ParallelText(pairs, *french_words), rate, steps)
    right = fully_right(model, french_held_out).float()
    digits = mt.tensor([len(str(pair.number)) for pair in french_held_out.pairs])
    return {
        "digits": [3, 4, 5],
        "exact match": [right[digits == n].mean().item() for n in (3, 4, 5)],
        "loss elsewhere": loss_of_text(model, french_elsewhere),
    }


# %% evidence
# Exact match against the digits of a number: figure and verdicts
runs = unseen_length.run()
budgets = runs.best.settings_of("steps")
figure, panels = plot.subplots(
    1, len(budgets), width=4.2 * len(budgets), height=2.8, squeeze=False, sharey=True
)
for axes, steps in zip(panels[0], budgets, strict=True):
    for i, longest in enumerate((4, 5)):
        style = dict(color=plot.COLORS[i], linestyle=plot.LINES[i], marker="os"[i])
        found = runs.best.values("exact match", longest=longest, steps=steps)
        plot.spread(axes, [3, 4, 5], found, label=f"trained on 3 to {longest} digits", **style)
    axes.set(xlabel="digits of the number", ylim=(-0.03, 1.03), title=f"after {steps:,} steps")
    axes.set_xticks([3, 4, 5])
panels[0, 0].set_ylabel("exact match, French")
panels[0, 0].legend(loc="lower left")
plot.show(
    figure,
    alt="Exact match against the number of digits, after 300 steps and after 3,000, alike: both models are near one at "
    "three and four digits; at five, the one that has not seen five digits falls to zero, the other stays near one.",
)
for setting, rows in runs.by_setting.items():
    for row in rows:
        shares = " ".join(f"{share:.2f}" for share in row["exact match"])
        measured(f"{setting:8} {row['steps']:5} steps, 3 to {row['longest']} digits: {shares}")
runs.holds(
    "of numbers of a length never seen, hardly any is right",
    lambda rows: rows.values("exact match", longest=4)[:, 2],
    below=0.1,
)
runs.holds(
    "of new numbers of a length seen in training, most are",
    lambda rows: rows.values("exact match", longest=5)[:, 2],
    above=0.6,
)

# %% [markdown]
# Is that for want of training? The right panel has ten times the steps. Five digits stay where they were: of 264 such
# numbers at most one is right. Nothing here tells the model that a form it never met exists; we guess that it has learned
# which forms numbers take. A score on new examples *of the same kind* says nothing about examples of another kind.
#
# > **E1 · Not so: trained on numbers of three and four digits, it gets at most one in 200 of those with five digits right.**
# > *Our question*: does a translator go on from lengths that it has seen to one that it has not?
# >
# > *Measured*: Of new French numbers of five digits, five seeds: trained on three and four digits, after 300 steps
# > {{03 unseen_length: exact match[2]; longest=4; steps=300}}, after 3,000 {{03 unseen_length: exact match[2]; longest=4; steps=3000}}; trained on three to five,
# > {{03 unseen_length: exact match[2]; longest=5; steps=300}} and {{03 unseen_length: exact match[2]; longest=5; steps=3000}}. On numbers of four digits
# > {{03 unseen_length: exact match[1]; steps=300}} and {{03 unseen_length: exact match[1]; steps=3000}}.
#
# ### A word that it does not know
#
# *For those who come with a language of their own.* Numbers need few words. A language has more than any vocabulary.
# So all words that are too rare in training become one, `<unk>`, for **unknown**, in the source and in the target.
# Here are short sentences about eight well-known beings, and eight rare animals with one sentence each.

# %% evidence
# Short sentences in two languages: data
NOUNS = {"dog": "der Hund", "cat": "die Katze", "child": "das Kind", "man": "der Mann"}
NOUNS |= {"woman": "die Frau", "girl": "das Mädchen", "cow": "die Kuh", "horse": "das Pferd"}
RARE = {"bear": "der Bär", "fox": "der Fuchs", "owl": "die Eule", "goose": "die Gans"}
RARE |= {"calf": "das Kalb", "sheep": "das Schaf", "wolf": "der Wolf", "hare": "der Hase"}
VERBS = {"sleeps": "schläft", "waits": "wartet", "sings": "singt", "sits": "sitzt"}
PLACES = {"in the garden": "im Garten", "at the door": "an der Tür", "by the river": "am Fluss"}


class SentencePair(NamedTuple):
    source: list
    target: list


def sentence_pair(noun, verb, place):
    """Such as "today the cow waits at the door"; German puts the verb second."""
    german_noun = (NOUNS | RARE)[noun]
    said = f"today the {noun} {verb} {place}", f"heute {VERBS[verb]} {german_noun} {PLACES[place]}"
    return SentencePair(*(sentence.split() for sentence in said))


# %%
mt.manual_seed(0)
ends = [(verb, place) for verb in VERBS for place in PLACES]
pairs = [sentence_pair(noun, *end) for noun in NOUNS for end in ends]
pairs = [pairs[i] for i in mt.randperm(len(pairs)).tolist()]
known, new = pairs[:80], pairs[80:]
known += [sentence_pair(noun, *end) for noun, end in zip(RARE, ends, strict=False)]

vocabularies = [
    Vocabulary((word for words in side for word in words), [*SPECIALS, "<unk>"], min_count=2)
    for side in zip(*known, strict=True)
]
phrases = ParallelText(known, *vocabularies)
speaker = new_translator(phrases, width=32, hidden=64)
train_translator(speaker, phrases, rate=1e-2, steps=250)
right = fully_right(speaker, ParallelText(new, *vocabularies)).float().mean().item()
measured(f"new sentences of known words, all right: {right:.2f}")
for sentence in ("today the cow sings at the door", "today the walrus sings at the door"):
    measured(sentence, "->", *translate_one(speaker, phrases, sentence.split()))

# %% [markdown]
# The sentence around the unknown word is right, the verb in its place. Only nobody learns who sang; and since
# German has three articles, the one before `<unk>` is a guess (it is *das Walross*). To copy the word itself, a
# model has to know which word of the source it is speaking of, which chapter 04 gives it. Chapter 11 cuts rare
# words into known pieces, and needs no `<unk>`.
#
# ### Mistakes in training
#
# *For those who wonder whether section 8 can be trained away.* Can a model learn to live with mistakes? It would have
# to see some in training. Two ways, each changing what the decoder reads, never what it is to say:
#
# - **own words**: a quarter of the words it reads are those that it finds likeliest after the true ones. (In
#   **scheduled sampling**, Bengio et al., 2015, the share grows during training, and each guess follows on the
#   guesses before it. Ours is a constant share, and all guesses come from one pass over the true words: cheaper, and
#   called parallel.)
# - **random words**: a tenth of the words it reads are drawn at random.


# %%
def swapped(inputs, others, share):
    """``inputs`` (B, T) with a share of them, but never <s>, replaced by ``others``."""
    swap = mt.rand(*inputs.shape) < share
    swap[:, 0] = False
    return mt.where(swap, others, inputs)


@mt.no_grad()
def own_words(model, source, inputs):
    guesses = model(source, inputs).argmax(-1)  # what it would say next
    return swapped(inputs, mt.cat([inputs[:, :1], guesses[:, :-1]], dim=1), share=0.25)


def random_words(model, source, inputs):
    return swapped(inputs, mt.randint(len(SPECIALS), len(german), inputs.shape), share=0.1)


def loss_with(feed):
    """The loss where the decoder reads what ``feed`` makes of the true words."""

    def loss_of(model, source, target):
        read = feed(model, source, target[:, :-1])
        scores, targets = model(source, read), target[:, 1:]
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=PAD)

    return loss_of


# %% evidence
# What the decoder reads in training: one run of the experiment
FEEDS = {
    "true words": lambda *given: given[-1],
    "own words": own_words,
    "random words": random_words,
}


@lab.experiment(
    "E2",
    feed=["random words"],
    steps=Budgets([120]),
    full=dict(feed=list(FEEDS), steps=Budgets([500, 1500]), seeds=5),
)
def after_wrong_word(feed, steps, rate=1e-2):
    model = new_translator(training)
    source, inputs = elsewhere.source, elsewhere.target[:, :-1]
    for _ in trained_up_to(model, rate, steps, loss_of=loss_with(FEEDS[feed])):
        changed = FEEDS[feed](model, source, inputs) != inputs
        remain, right = rests_right(model, held_out)
        groups = {
            "rests": right,
            "short rests": right[remain < 7],
            "long rests": right[remain >= 7],
        }
        yield {
            **{f"{name} right": x.mean().item() if len(x) else None for name, x in groups.items()},
            "exact match": fully_right(model, held_out).float().mean().item(),
            "words read wrong": changed[inputs != PAD].float().mean().item(),
        }


# %% evidence
# What the decoder read in training, and what one wrong word spoils then: tables and verdicts
runs = after_wrong_word.run()
for steps in runs.best.settings_of("steps"):
    columns = ["rests right", "short rests right", "long rests right", "exact match"]
    runs.table("feed", [*columns, "words read wrong"], steps=steps)
for steps in (500, 1500):
    runs.finding(
        f"random words in training, {steps:,} steps: more rests are right",
        "rests right",
        larger=dict(feed="random words", steps=steps),
        smaller=dict(feed="true words", steps=steps),
    )

# %% [markdown]
# A model that has read wrong words in training stumbles less: with random words hardly at all. Exact match, which
# cannot see it, differs little. Its own words help less, and not in every seed. No wonder: toward the end of training
# hardly one in a thousand of them is wrong.
#
# ### More layers
#
# *For those who build larger ones.* The states of one layer are the inputs of the next, as in chapters 01 and 02.
# Each layer of the encoder hands its own last state to the same layer of the decoder, so an encoding has the shape
# $(\text{layers}, H)$: just what `nn.GRU` returns and takes. (If encoder and decoder differ in width or in layers, a
# linear layer between them makes the one fit the other.)

# %%
deep_encoder, deep_decoder = nn.GRU(4, 3, num_layers=2), nn.GRU(4, 3, num_layers=2)
source = english.encode(example["de"].source)  # (n)
inputs = german.encode(["<s>", *example["de"].target])  # (T)
_, encoding = deep_encoder(embedding(source))
states, _ = deep_decoder(target_embedding(inputs), encoding)
print("encoding of two layers", tuple(encoding.shape), "states of the upper", tuple(states.shape))
