# %% [markdown]
# # 05 Self-attention
#
# Attention lets the decoder of chapter 04 look at every word of the source. The encoder still reads word
# after word and passes a state along. But if looking at all words at once works so well, why must anybody
# read step by step? In this chapter we take the recurrence out, see what breaks, and let the words of one
# sequence attend to each other.
#
# **After this chapter you will be able to**
#
# - say what an encoder without recurrence loses, and which part of it self-attention brings back;
# - compute self-attention with a pencil for one token, in a loop for all, and in matrices for a batch;
# - explain why scores are divided by $\sqrt d$, and measure what happens without it;
# - prove that self-attention has no notion of order;
# - count what has to wait for what, in a recurrent network and in self-attention;
# - name five barriers that stand between self-attention and a Transformer.
#
# **Time**: about 100 minutes to read and try; all cells together run in about half a minute. **Before
# it**: chapter 04 (attention, padding, soft look-up). The GRU is that of chapter 02.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`.

# %%
import math
from collections import Counter, defaultdict
from functools import cache
from itertools import islice, permutations
from time import perf_counter
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook import plot
from textbook.data import BatchesByLength, Vocabulary, number_pair, number_pairs, number_pieces
from textbook.experiments import Experiments

lab = Experiments("05")

# %% [markdown]
# ## 1. Recurrence taken out
#
# Chapter 04's encoder turns the embeddings $x_1, \dots, x_n$ of the source words into the memory, one
# state $h_j$ for each word, with a GRU that runs over the sentence in both directions. Without the GRU
# there is nothing left but the embeddings. Let each word go through one layer of its own, so that all
# encoders of this chapter end alike:
#
# $$\text{words alone:}\quad h_j = \tanh(x_j W + b), \qquad
# \text{self-attention:}\quad h_j = \tanh([x_j;\, o_j]\, W' + b'),$$
#
# with $W$ of shape $(d, d)$, $W'$ of shape $(2d, d)$, $b$ and $b'$ of shape $(d)$.
# In the second, word $j$ first asks all words of its own sentence, as chapter 04's decoder asked them, and
# gets $o_j$. How exactly is the subject of sections 2 to 5; until then the library's
# `scaled_dot_product_attention`, which section 4 of chapter 04 introduced, does it.


# %%
def draw_encoder(axes, words, kind):
    """Words below, encoder states above, and an arrow for each direct way from one to another."""
    arrow = dict(arrowstyle="->", color="0.35", shrinkA=10, shrinkB=13)
    for j, word in enumerate(words):
        axes.text(j, 0, word, ha="center", va="center")
        circle = dict(boxstyle="circle", fc="0.93")
        axes.text(j, 1, f"$h_{j + 1}$", ha="center", va="center", bbox=circle)
        for i in range(len(words)):
            if i == j or kind == "self-attention":
                color = "0.35" if i == j else plot.COLORS[0]
                axes.annotate("", (i, 1), (j, 0), arrowprops=dict(arrow, color=color))
            elif kind == "GRU" and abs(i - j) == 1:
                bend = dict(arrow, color=plot.COLORS[1], connectionstyle="arc3,rad=-0.4")
                axes.annotate("", (i, 1), (j, 1), arrowprops=bend)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.2, 1.45), title=kind)
    axes.axis("off")


figure, panels = plot.subplots(1, 3, width=9, height=2)
for axes, kind in zip(panels, ("GRU", "words alone", "self-attention"), strict=True):
    draw_encoder(axes, ["be", "water", "my", "friend"], kind)
plot.show(
    figure,
    alt="Three encoders of four words. GRU: arrows between neighbouring states in both directions. Words "
    "alone: one arrow from each word to its own state. Self-attention: arrows from every word to every "
    "state.",
)

# %% [markdown]
# In the left picture the first word reaches the last state in $n - 1$ steps, in the middle one never, in
# the right one in a single step. Here are the three encoders, for embeddings `x` of shape $(B, n, d)$ and
# a mask `real` of shape $(B, n)$ that is True at words and False at padding. The option `positions` adds a
# learned vector for the index 1, 2, 3, ... to each word. Why anybody would want that will soon be clear.

# %%
LONGEST = 16  # words in a source sentence, at most


class Recurrent(nn.Module):
    """Chapter 04's encoder: embeddings (B, n, d) to the states of a GRU in both directions."""

    def __init__(self, width):
        super().__init__()
        self.gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x, real):
        packed = pack_padded_sequence(x, real.sum(1), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]


class Words(nn.Module):
    """No recurrence: a layer for each word (B, n, d), which may attend and may have a position."""

    def __init__(self, width, attending=False, positions=False, scale=None):
        super().__init__()
        self.attending, self.positions, self.scale = attending, positions, scale
        if positions:
            self.position = nn.Embedding(LONGEST, width)
        if attending:
            self.query, self.key, self.value = (
                nn.Linear(width, width, bias=False) for _ in range(3)
            )
        self.join = nn.Linear(2 * width if attending else width, width)

    def forward(self, x, real):
        if self.positions:
            x = x + self.position(mt.arange(x.shape[1]))
        if self.attending:
            asked = self.query(x), self.key(x), self.value(x)
            found = F.scaled_dot_product_attention(
                *asked, attn_mask=real.unsqueeze(1), scale=self.scale
            )
            x = mt.cat([x, found], dim=-1)  # (B, n, 2d)
        return self.join(x).tanh()


ENCODERS = {
    "GRU (chapter 04)": Recurrent,
    "words alone": Words,
    "words + positions": lambda width: Words(width, positions=True),
    "self-attention": lambda width: Words(width, attending=True),
    "self-attention + positions": lambda width: Words(width, attending=True, positions=True),
}

# %% [markdown]
# What depends on what can be read off the gradient: $\partial h_i / \partial x_j$ is zero if state $i$ does
# not depend on word $j$. We take the untrained encoders, nine random words, and a random direction $r$,
# and draw $\lVert \partial (r^\top h_i) / \partial x_j \rVert$.


# %%
def influence(encoder, x):
    """Norms of the gradient of each state, along one random direction, at each word: (n, n)."""
    x = x.detach().requires_grad_()  # (1, n, d)
    states = encoder(x, mt.ones(1, x.shape[1]).bool())[0]  # (n, d)
    along = states @ mt.randn(states.shape[-1])  # (n)
    rows = [mt.autograd.grad(one, x, retain_graph=True)[0][0].norm(dim=-1) for one in along]
    return mt.stack(rows)


mt.manual_seed(0)
x = mt.randn(1, 9, 64)
figure, panels = plot.subplots(1, 3, width=8.5, height=2.7)
untouched = {}
for axes, name in zip(panels, ("GRU (chapter 04)", "words alone", "self-attention"), strict=True):
    norms = influence(ENCODERS[name](64), x)
    untouched[name] = (norms == 0).float().mean().item()
    plot.heatmap(axes, norms / norms.amax(), colorbar=False, vmin=0, cmap="Blues", aspect="equal")
    axes.set(xlabel="word j", title=name)
panels[0].set_ylabel("state i")
plot.show(
    figure,
    alt="Gradient of nine states at nine words. GRU: a dark diagonal that fades to both sides. Words alone: "
    "the diagonal only. Self-attention: a dark diagonal, and every other cell has some colour.",
)
for name, share in untouched.items():
    print(f"{name:17} share of exact zeros {share:.3f}")

# %% [markdown]
# With words alone, 72 of 81 entries are exactly zero: the encoder has no dependencies in time at all. In
# the GRU they fade with distance. With self-attention they do not know distance.
#
# ### What a word counts for (E1)
#
# Does it matter? In "two hundred and three thousand and six", the "three" counts for 3,000, and "two" for
# 200,000. What a word is worth depends on other words: whether "hundred" comes next, and whether "thousand"
# comes later. So we ask the encoder alone, with no decoder that could help: **for each word, its place**,
# one of 1, 100, 1,000 and 100,000, by a linear layer on $h_j$.


# %%
def places(words):
    """0, 1, 2, 3 for words that count 1, 100, 1,000 or 100,000 times; -100: not asked for."""
    labels, following, thousands = [], None, 0
    for word in reversed(words):
        thousands = 2 if word == "thousand" else thousands
        hundreds = 1 if following == "hundred" else 0
        labels.append(-100 if word in ("and", "hundred", "thousand") else thousands + hundreds)
        following = word
    return labels[::-1]


for word, place in zip(words := number_pieces(203_006), places(words), strict=True):
    print(f"{word:9}", "" if place < 0 else f"times {(1, 100, 1000, 100_000)[place]:,}")

# %% [markdown]
# The data are numbers of up to six digits, English and German, as in chapter 04. The same batches, losses
# and training loop will serve the translator too.

# %%
pairs = {
    "training": number_pairs(10_000, digits=(1, 6), seed=0),
    "held out": number_pairs(900, digits=(3, 6), held_out=True, seed=1),
}
SPECIALS = ["<pad>", "<s>", "</s>"]
english = Vocabulary((word for pair in pairs["training"] for word in pair.source), SPECIALS)
german = Vocabulary((word for pair in pairs["training"] for word in pair.target), SPECIALS)
PAD = english["<pad>"]


class Sentences(NamedTuple):
    """Source (N, n), its places (N, n) and target (N, T + 1), with <s> and </s>."""

    source: mt.Tensor
    places: mt.Tensor
    target: mt.Tensor

    def batch(self, rows):
        """These rows, cut to the longest among them."""
        source, places, target = (part[rows] for part in self)
        n, T = (int((part != PAD).sum(1).max()) for part in (source, target))
        return Sentences(source[:, :n], places[:, :n], target[:, :T])


def sentences(pairs):
    """Pairs of sentences as tensors."""
    source, _ = english.encode_batch([pair.source for pair in pairs], batch_first=True)
    target, _ = german.encode_batch(
        [pair.target for pair in pairs], start=True, end=True, batch_first=True
    )
    rows = [places(pair.source) for pair in pairs]
    filled = [row + [-100] * (source.shape[1] - len(row)) for row in rows]
    return Sentences(source, mt.tensor(filled), target)


training, held_out = sentences(pairs["training"]), sentences(pairs["held out"])
print(len(english), "English and", len(german), "German tokens, longest source:", end=" ")
print(training.source.shape[1], "words")


# %%
class Tagger(nn.Module):
    """An encoder, and a linear layer that names the place of each word."""

    def __init__(self, encoder, width):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(len(english), width), encoder
        self.out = nn.Linear(width, 4)

    def forward(self, data):
        """Scores of the places (B, n, 4) and the right places (B, n)."""
        states = self.encoder(self.embedding(data.source), data.source != PAD)
        return self.out(states), data.places


def batches():
    """Batches of 64 training sentences of about equal length, without end."""
    lengths = (training.source != PAD).sum(1).tolist()
    while True:
        for rows in BatchesByLength(lengths, 64):
            yield training.batch(rows)


def train(model, rate, steps):
    """Minimise the cross-entropy of what the model names, the rate falling to zero."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for step, data in enumerate(tqdm(islice(batches(), steps), total=steps)):
        scores, targets = model(data)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.step()


@mt.no_grad()
def hits(model, data):
    """Whether each answer is right, and where one was asked for, both (B, n)."""
    scores, targets = model(data)
    return scores.argmax(-1) == targets, targets != -100


# %% [markdown]
# One of the encoders needs no training to be judged. With words alone, the answer is a function of the word,
# so no training can do better than the best table: for each word, the place that it has most often.


# %%
def best_table():
    """The share of held-out words whose place is the one that the word usually has."""
    seen = defaultdict(Counter)
    for pair in pairs["training"]:
        for word, place in zip(pair.source, places(pair.source), strict=True):
            seen[word][place] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    asked = [
        (word, place)
        for pair in pairs["held out"]
        for word, place in zip(pair.source, places(pair.source), strict=True)
        if place >= 0
    ]
    return sum(usual[word] == place for word, place in asked) / len(asked)


def right_places(name, rate, seed, steps, width=64):
    """The share of held-out words whose place is named rightly, by an encoder trained for it."""
    mt.manual_seed(seed)
    model = Tagger(ENCODERS[name](width), width)
    train(model, rate, steps)
    right, asked = hits(model, held_out)
    return right[asked].float().mean().item()


def grid(measure, rates, seeds, steps):
    """For each encoder and rate what ``measure`` finds, a number a seed."""
    return {
        name: {str(rate): [measure(name, rate, seed, steps) for seed in seeds] for rate in rates}
        for name in ENCODERS
    }


@lab.experiment(
    "E1",
    quick=dict(rates=[8e-3], seeds=[0], steps=80),
    full=dict(rates=[4e-3, 8e-3, 1.6e-2], seeds=[0, 1, 2], steps=200),
)
def what_a_word_counts_for(rates, seeds, steps):
    return {"trained": grid(right_places, rates, seeds, steps), "best table": best_table()}


places_here = what_a_word_counts_for.run()
places_full = what_a_word_counts_for.recorded


# %%
def best_rate(by_rate):
    """The learning rate with the highest median over the seeds, and its runs."""
    return max(by_rate.items(), key=lambda item: sorted(item[1])[len(item[1]) // 2])


def compare(axes, here, full, xlabel):
    """A bar for each encoder, quick, and a mark for each seed of the full runs."""
    names = list(ENCODERS)[::-1]
    axes.barh(names, [best_rate(here[name])[1][0] for name in names], color=plot.COLORS[5])
    for name in names if full else ():
        _, runs = best_rate(full[name])
        axes.plot(runs, [name] * len(runs), "|", markersize=14, color="black", linestyle="")
    axes.set(xlim=(0, 1.02), xlabel=xlabel, title="bars: quick; marks: full, three seeds")


def print_runs(here, full):
    """Every number that ``compare`` draws, and those of the other learning rates."""
    for setting, result in {"quick": here, "full": full}.items():
        for name in ENCODERS if result else ():
            for rate, runs in result[name].items():
                numbers = " ".join(f"{run:.3f}" for run in runs)
                print(f"{setting:5} {name:26} rate {rate:6} {numbers}")


figure, axes = plot.subplots(width=8, height=2.6)
trained_full = places_full and places_full["result"]["trained"]
compare(axes, places_here["trained"], trained_full, "share of words whose place is right")
axes.axvline(places_here["best table"], color=plot.COLORS[1], label="best table for words alone")
axes.legend(loc="upper right", bbox_to_anchor=(1, 0.84))
plot.show(
    figure,
    alt="Share of right places: the GRU and self-attention with positions are near one, words with "
    "positions well below, words alone and self-attention without positions at the line of the best table.",
)
print("the best table for words alone:", round(places_here["best table"], 3))

# %% tags=["nbval-ignore-output"]
print_runs(places_here["trained"], trained_full)

# %%
found = {name: best_rate(by_rate)[1][0] for name, by_rate in places_here["trained"].items()}
table = places_here["best table"]
print(
    "E1: words alone are within 0.02 of the best table: ", abs(found["words alone"] - table) < 0.02
)
print("    self-attention alone gains less than 0.1 on it:", found["self-attention"] < table + 0.1)
print("    words + positions stay below 0.8:", found["words + positions"] < 0.8)
ahead = found["self-attention + positions"] - found["words + positions"]
print("    self-attention + positions is at least 0.1 above words + positions:", ahead > 0.1)

# %% [markdown]
# Four encoders without recurrence, one lesson each (full runs, three seeds, the best rate of each on the same
# held-out numbers). **Words alone** learn the table and nothing else, 0.43 to 0.44. **Self-attention alone** hardly does better, 0.45 to
# 0.46: "three" can find out *that* there is a "thousand" in the sentence, but not whether it comes before
# or after. **Words with positions** know where they stand, but not what stands around them: 0.56 to 0.64, no
# more than the quick run got with fewer steps.
# **With both**, 0.975 to 0.997 of all words are right; the GRU gets all of them.
#
# So self-attention restores the dependencies, and leaves out the order. The GRU gets both from reading
# word after word. Section 6 shows that this is no weakness of training but a theorem.
#
# > **E1 · yes, with positions.** *Our question*: what must an encoder bring so that each word gets its place?
# >
# > *Measured*: Right places, three seeds, each at its best rate of three: words alone 0.43 to 0.44 (the best
# > table has 0.434), self-attention 0.45 to 0.46, words with positions 0.56 to 0.64, both 0.975 to 0.997, GRU
# > 1.000.
#
# ### Without recurrence, with self-attention (C33)
#
# Now chapter 04's translator. Embeddings, decoder and attention to the memory stay; only the encoder
# changes. (Two simplifications, for all encoders alike: the score is the multiplicative one, and the
# decoder starts from the mean of the memory, since without recurrence there is no last state.)


# %%
class Translator(nn.Module):
    """Chapter 04's translator with any encoder."""

    def __init__(self, encoder, width):
        super().__init__()
        self.source_embedding = nn.Embedding(len(english), width)
        self.target_embedding = nn.Embedding(len(german), width)
        self.encoder = encoder
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.score = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(2 * width, len(german))

    def forward(self, data):
        """Scores of the next tokens (B, T, V), with teacher forcing, and the tokens (B, T)."""
        real = data.source != PAD  # (B, n)
        memory = self.encoder(self.source_embedding(data.source), real)  # (B, n, H)
        start = (memory * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)  # (B, H)
        tokens, targets = data.target[:, :-1], data.target[:, 1:]
        states, _ = self.decoder(self.target_embedding(tokens), start.unsqueeze(0))
        outputs = F.scaled_dot_product_attention(
            states, self.score(memory), memory, attn_mask=real.unsqueeze(1)
        )  # (B, T, H)
        scores = self.out(mt.cat([states, outputs], dim=-1))
        return scores, targets.masked_fill(targets == PAD, -100)


@cache
def translator(name, rate, seed, steps, width=64):
    """A translator with this encoder, trained from this seed."""
    mt.manual_seed(seed)
    model = Translator(ENCODERS[name](width), width)
    train(model, rate, steps)
    return model


def exact_match(*settings):
    """The share of held-out numbers that are translated without a mistake."""
    right, asked = hits(translator(*settings), held_out)
    return (right | ~asked).all(1).float().mean().item()


# %% [markdown]
# Here too a bound can be computed without training anything. "Thirty thousand and four" and "four thousand
# and thirty" are made of the same words. An encoder that does not know their order gives the same *set* of
# states for both, the decoder's softmax does not care in which order a set is stored, so both get the same
# translation, and one of the two is wrong. For each held-out number we list all numbers made of the same
# words. The best guess is one of those with the fewest digits: each number of digits is drawn equally
# often, so one number of 3 digits is ten times as likely as one of 4. The bound is how often such a guess is
# right, in expectation.


# %%
def bound_without_order(count):
    """The exact match of the best guess that sees only which words the source has, not their order."""
    chances = []
    for pair in pairs["held out"][:count]:
        orders = {int("".join(order)) for order in permutations(f"{pair.number:06}")}
        same = [n for n in orders if sorted(number_pieces(n)) == sorted(pair.source)]
        shortest = min(len(str(n)) for n in same)
        likeliest = [n for n in same if len(str(n)) == shortest]
        chances.append((pair.number in likeliest) / len(likeliest))
    return sum(chances) / len(chances)


@lab.experiment(
    "C33",
    quick=dict(rates=[8e-3], seeds=[0], steps=110, bound_on=100),
    full=dict(rates=[4e-3, 8e-3, 1.6e-2], seeds=[0, 1, 2], steps=300, bound_on=900),
)
def without_recurrence(rates, seeds, steps, bound_on):
    return {
        "trained": grid(exact_match, rates, seeds, steps),
        "bound": bound_without_order(bound_on),
    }


here = without_recurrence.run()
full = without_recurrence.recorded

# %%
figure, axes = plot.subplots(width=8, height=2.6)
trained_full = full and full["result"]["trained"]
compare(axes, here["trained"], trained_full, "exact match on held-out numbers")
bound = (full["result"] if full else here)["bound"]
axes.axvline(bound, color=plot.COLORS[1], label="bound without order")
axes.legend(loc="upper right", bbox_to_anchor=(1, 0.84))
plot.show(
    figure,
    alt="Exact match of translators. Words alone and self-attention without positions stay to the left of the "
    "bound; with positions both reach far beyond it in the full runs, near the GRU.",
)

# %% tags=["nbval-ignore-output"]
print_runs(here["trained"], trained_full)
print(f"bound without order: quick {here['bound']:.3f}, in the picture {bound:.3f}")

# %%
matched = {name: best_rate(by_rate)[1][0] for name, by_rate in here["trained"].items()}
print("C33 holds: without recurrence exact match is below 0.35:", matched["words alone"] < 0.35)
print("           with self-attention alone it is too:", matched["self-attention"] < 0.35)
gain = matched["self-attention + positions"] - max(
    matched["words alone"], matched["self-attention"]
)
print("           self-attention + positions is at least 0.15 above both:", gain > 0.15)

# %% [markdown]
# The bars stop after 110 steps, when none has learned all that it can; the marks are what counts here.
#
# Taking the recurrence out breaks the translator: from 0.98 to 0.99 in the full runs down to 0.22 to 0.27. And
# self-attention *by itself* does not repair it, 0.19 to 0.23. Neither can: 0.31 is all that the words
# without their order give away. With positions added, self-attention is back at 0.94 to 0.97.
#
# One result may surprise. Words with positions, whose encoder has no dependencies at all, translate as
# well, 0.86 to 0.98. How can they? We took the recurrence out of the *encoder*. The decoder still has a
# GRU, and it knows what it has said; it can look at place after place and put things together itself. In
# E1, where no decoder can help, the same encoder stays at 0.56 to 0.64. So the translator alone does not
# show that an encoder needs self-attention; E1 does. Chapter 10 takes the decoder's recurrence away too,
# and then nobody else is left to do the work.
#
# > **A note on the lectures.** One deck says of the encoder without recurrence that it has no temporal
# > dependencies at all, and continues with self-attention as the repair. As our numbers show, that is half
# > of it. The other half comes some slides later, as the first of four limitations: positions.
#
# > **C33 · holds only with positions.** *The lectures* (deck 5, "Is Attention All We Need?",
# > "Self-Attention"): without recurrence "the encoder has no temporal dependencies at all!"; self-attention
# > restores them.
# >
# > *Measured*: Exact match, three seeds, each at its best rate of three: GRU 0.98 to 0.99, words alone 0.22
# > to 0.27, self-attention 0.19 to 0.23 (0.31 is all that words without their order give away),
# > self-attention with positions 0.94 to 0.97; words with positions 0.86 to 0.98, since the decoder is
# > recurrent.
#
# ## 2. Queries, keys and values
#
# Now slowly. Chapter 04 saw attention as soft look-up: a query fits each key to some degree, and we get the
# values, mixed by these degrees. There the decoder asked and the encoder's states answered, as keys and
# values at once. In **self-attention** one sequence does all of it: each token asks, each token has a key
# under which it is found, and a value that it gives. All three are made from its vector $x_i$, by three
# matrices that are learned and shared by all tokens:
#
# $$q_i = x_i Q, \qquad k_i = x_i K, \qquad v_i = x_i V .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x_i$ | vector of token $i = 1 \dots n$, a row | $(d)$ |
# | $Q$, $K$, $V$ | learned matrices | $(d, d)$ |
# | $q_i$ | query: what token $i$ looks for | $(d)$ |
# | $k_j$ | key: what token $j$ can be found by | $(d)$ |
# | $v_j$ | value: what token $j$ gives when it is found | $(d)$ |
#
# Why three? With $q_i = k_i = x_i$ the best match would often be the token itself, and "three looks for
# thousand" would mean that "thousand" looks for "three" just as much. And what makes a word worth finding
# need not be what it has to say.
#
# From here on, one small sentence goes with us, the example of one of the lectures: *be water my friend*,
# with $n = 4$, $d = 2$ and numbers that a pencil can handle.

# %%
tokens = ["be", "water", "my", "friend"]
X = mt.tensor([[2.0, 1.0], [0.0, 2.0], [-1.0, 1.0], [1.0, -0.5]])  # (n, d)
Q = mt.tensor([[0.0, 0.5], [1.0, -0.5]])  # (d, d)
K = mt.tensor([[1.0, 0.0], [1.0, 1.0]])
V = mt.tensor([[1.0, -1.0], [0.0, 1.0]])

print("token        x             q             k             v")
for token, x_i in zip(tokens, X, strict=True):
    row = "".join(f"({a:5.2f}, {b:5.2f}) " for a, b in (x_i @ M for M in (mt.eye(2), Q, K, V)))
    print(f"{token:8}", row)

# %% [markdown]
# > **A note on the lectures.** One deck writes $q_i = Q x_i$ with columns on one slide and $XQ$ with rows a few
# > slides later. Both are in use; the $Q$ of one is the transpose of the other's. We keep rows. Another says
# > that every *other* token offers its key. The token itself offers one, too: it may attend to itself.
#
# ## 3. One token at a time
#
# What does "be" get? Its query meets all four keys, as in chapter 04: scores, softmax, weighted sum of
# values.
#
# $$e_{ij} = q_i^\top k_j, \qquad \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad
# o_i = \sum_{j=1}^{n} \alpha_{ij}\, v_j .$$
#
# (For two vectors, $q^\top k = \sum_m q_m k_m$ is their dot product, also where they are rows of a matrix.)

# %%
q_1 = X[0] @ Q  # (d)
e_1 = mt.stack([q_1 @ (x_j @ K) for x_j in X])  # (n)
alpha_1 = e_1.exp() / e_1.exp().sum()  # (n)
o_1 = sum(weight * (x_j @ V) for weight, x_j in zip(alpha_1, X, strict=True))  # (d)
for token, e, weight in zip(tokens, e_1.tolist(), alpha_1.tolist(), strict=True):
    print(f"{token:8} score {e:5.2f}   weight {weight:.3f}")
print("output of 'be':", o_1)


# %%
def arrows(axes, named, color):
    """Vectors (d = 2) as arrows from the origin, with their names at the tips."""
    for name, (a, b) in named.items():
        axes.annotate("", (a, b), (0, 0), arrowprops=dict(arrowstyle="->", color=color, lw=1.8))
        axes.text(1.12 * a, 1.12 * b, name, color=color, ha="center", va="center")


def labelled(letter, matrix):
    return {f"${letter}_{i + 1}$": row for i, row in enumerate(matrix.tolist())}


figure, (left, right) = plot.subplots(1, 2, width=8, height=3.2)
arrows(left, labelled("k", X @ K), "0.45")
arrows(left, {"$q_1$": q_1.tolist()}, plot.COLORS[1])
arrows(right, labelled("v", X @ V), "0.45")
arrows(right, {"$o_1$": o_1.tolist()}, plot.COLORS[0])
left.set(xlim=(-1, 4), ylim=(-1, 2.8), aspect="equal", title="'be' asks: its query and all keys")
right.set(
    xlim=(-2, 3), ylim=(-2, 2.6), aspect="equal", title="'be' gets: all values, and their mix"
)
plot.show(
    figure,
    alt="Left: the query of be points between the keys 1 and 2, which are long in its direction; keys 3 and 4 "
    "are short. Right: the output lies between the values 1 and 2, nearer to 1.",
)

# %% [markdown]
# With a pencil: $q_1 = (1, 0.5)$ and $k_1 = (3, 1)$ give $3 + 0.5 = 3.5$, and $e^{3.5} = 33.1$ of the sum
# 56.1 is 0.590. So "be" keeps 59 % of its own value and takes 36 % from "water". Now every token in turn:

# %%
rows, outputs = [], []
for x_i in X:
    scores = mt.stack([(x_i @ Q) @ (x_j @ K) for x_j in X])  # (n)
    weights = scores.softmax(-1)
    rows.append(weights)
    outputs.append(sum(weight * (x_j @ V) for weight, x_j in zip(weights, X, strict=True)))
weights_by_loop, outputs_by_loop = mt.stack(rows), mt.stack(outputs)  # (n, n), (n, d)
print("the first row is that of 'be':", mt.allclose(outputs_by_loop[0], o_1))
print(outputs_by_loop)

# %% [markdown]
# No round of this loop uses the result of another. That is the difference to a recurrent network, whose
# loop over tokens looks much the same.
#
# > **A note on the lectures.** Two decks write $o_i = \sum_j \alpha_{ij} v_i$. Since the weights add up to one,
# > that would be $o_i = v_i$: every token gets its own value, and nothing was looked up. It is $v_j$.
# > And where they use $j$ both for the token and for the sum below the fraction, we write $l$ for the latter.

# %%
slip = mt.stack([sum(weight * x_i @ V for weight in row) for row, x_i in zip(rows, X, strict=True)])
print("with v_i in place of v_j the output is the token's own value:", mt.allclose(slip, X @ V))

# %% [markdown]
# ## 4. In matrices
#
# The tokens are the rows of $X$, of shape $(n, d)$. Then the queries are the rows of $XQ$, the keys those of
# $XK$, and entry $(i, j)$ of $XQ\,(XK)^\top$ is $q_i^\top k_j$. All of the loop is
#
# $$\text{outputs} = \operatorname{softmax}\big(XQ\,(XK)^\top\big)\, XV \qquad (n, d),$$
#
# with the softmax of each row.


# %%
def product(axes, left, right, result):
    """Three matrices (name, shape text, rows, columns) as boxes; row i times column j is lit."""
    x = 0
    for (name, shape, rows, columns), lit, sign in (
        (left, "row", ""),
        (right, "column", "="),
        (result, "both", ""),
    ):
        axes.bar(x, rows, columns, -rows / 2, align="edge", color="0.93", edgecolor="0.3")
        height, top = (1, rows / 2 - 2) if lit != "column" else (rows, -rows / 2)
        width, start = (1, x + 1) if lit != "row" else (columns, x)
        axes.bar(start, height, width, top, align="edge", color=plot.COLORS[5])
        axes.text(x + columns / 2, rows / 2 + 0.3, name, ha="center", va="bottom")
        axes.text(x + columns / 2, -rows / 2 - 0.3, shape, ha="center", va="top", fontsize=9)
        x += columns + 0.6
        axes.text(x, 0, sign, ha="center", va="center", fontsize=14)
        x += 0.6 if sign else 0
    axes.set(xlim=(-0.3, x), ylim=(-3.4, 3.4), aspect="equal")
    axes.axis("off")


figure, panels = plot.subplots(1, 3, width=9, height=2.3, width_ratios=[1, 1.5, 1.3])
product(panels[0], ("$X$", "(n, d)", 4, 2), ("$Q$", "(d, d)", 2, 2), ("$XQ$", "(n, d)", 4, 2))
product(
    panels[1],
    ("$XQ$", "(n, d)", 4, 2),
    ("$(XK)^T$", "(d, n)", 2, 4),
    ("scores", "(n, n)", 4, 4),
)
product(
    panels[2], ("weights", "(n, n)", 4, 4), ("$XV$", "(n, d)", 4, 2), ("outputs", "(n, d)", 4, 2)
)
plot.show(
    figure,
    alt="Matrices as boxes, four rows for four tokens. X times Q gives XQ, n by d. XQ times the transpose of "
    "XK gives the scores, n by n. The weights times XV give the outputs, n by d. In each product one row, "
    "one column and the entry that they give are lit.",
)

# %% [markdown]
# The lit entry of the scores is row $i$ of $XQ$, a query, times column $j$ of $(XK)^\top$, a key. $n$ may be
# anything; the parameters, $3 d^2$ of them, do not depend on it.

# %%
scores = (X @ Q) @ (X @ K).T  # (n, n)
weights = scores.softmax(-1)  # (n, n)
outputs = weights @ (X @ V)  # (n, d)
print("weights agree with the loop:", mt.allclose(weights, weights_by_loop))
print("outputs agree with the loop:", mt.allclose(outputs, outputs_by_loop, atol=1e-6))

figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8)
plot.heatmap(left, scores, row_labels=tokens, column_labels=tokens, colorbar=False, cmap="Blues")
for (i, j), score in np.ndenumerate(scores.numpy()):
    shade = "white" if score > 2.5 else "black"
    left.text(j, i, f"{score:.2f}", ha="center", va="center", color=shade)
left.set(ylabel="query", title="scores: key in the column")
plot.attention(right, weights, tokens, tokens, values=True, colorbar=False)
right.set(xlabel="", ylabel="", title="weights: each row adds up to 1")
plot.show(
    figure,
    alt="Scores and weights of the four tokens. The scores are not symmetric: be scores water 3, water scores be "
    "5. Most of the weight of be, water and my is on be, that of friend is spread.",
)
print("scores symmetric:", mt.allclose(scores, scores.T))
shared = (X @ Q) @ (X @ Q).T
print("with one matrix for queries and keys:", mt.allclose(shared, shared.T))

# %% [markdown]
# > **A note on the lectures.** The table of "Hi how are you" has symmetric scores: how much "how" looks at "you"
# > is how much "you" looks at "how". That holds if $Q = K$, and in general if $QK^\top$ is symmetric. In ours
# > "be" scores "water" 3 and "water" scores "be" 5.
#
# Multiply out: $XQ\,(XK)^\top = X\,(QK^\top)\,X^\top$. So this is chapter 04's multiplicative score with $W =
# QK^\top$, of rank $d$ here, and of reduced rank as soon as $Q$ and $K$ have fewer columns (chapter 06).
#
# **A batch** has one axis more, $X$ of shape $(B, n, d)$, and nothing changes but `.T`, which becomes `.mT`
# (transpose the last two axes). $XQ$ is then one product for all tokens of all sentences.

# %%
mt.manual_seed(0)
batch = mt.randn(3, 4, 2)  # (B, n, d)
together = ((batch @ Q) @ (batch @ K).mT).softmax(-1) @ (batch @ V)  # (B, n, d)
alone = mt.stack([((x @ Q) @ (x @ K).T).softmax(-1) @ (x @ V) for x in batch])
print("a batch agrees with its sentences alone:", mt.allclose(together, alone, atol=1e-6))

# %% [markdown]
# ## 5. Dividing by the root of d
#
# Two numbers a token are few. Real queries and keys have 64 or more. To see what that does we repeat each
# query and each key 32 times over, so that $d = 64$. Nothing else has changed; but every score is a sum
# over 32 times as many products, and becomes 32 times as large.

# %%
queries_64, keys_64 = (X @ Q).repeat(1, 32), (X @ K).repeat(1, 32)  # (n, 64)
scores_64 = queries_64[0] @ keys_64.T  # (n)
print("scores of 'be' with d = 2: ", scores[0].tolist())
print("scores of 'be' with d = 64:", scores_64.tolist())
print("token      scores as they are   divided by 8")
columns = scores_64.softmax(-1).tolist(), (scores_64 / 8).softmax(-1).tolist()
for token, plain, divided in zip(tokens, *columns, strict=True):
    print(f"{token:8} {plain:20.7f} {divided:14.7f}")

# %% [markdown]
# These are the scores of the lecture's worked example, 112, 96, 16 and 8. As they are, "be" looks at itself
# and at nothing else. **Scaled dot-product attention** (Vaswani et al., 2017) divides all scores by the
# square root of the size of a key, here $\sqrt{64} = 8$:
#
# $$e_{ij} = \frac{q_i^\top k_j}{\sqrt d} .$$
#
# > **A note on the lectures.** For this example one deck gives the weights .87, .12, .01 and 0. Right are
# > $\operatorname{softmax}(14, 12, 2, 1) = (0.8808, 0.1192, 0.0000054, 0.0000020)$. It also writes $a_4 =
# > \sigma(s_4 / 8)$, as if a weight came from one score; it takes all four. And where another divides by
# > $\sqrt{\operatorname{length}(q)}$, "length" is how many numbers $q$ has, not its norm.
#
# Why the root? The repeated vectors grow the scores by $d$. But queries and keys of a network at its start
# are random. If their entries are independent, with mean 0 and variance 1, then each product $q_{im}
# k_{jm}$ has mean 0 and variance 1, and the variance of a sum of independent terms is the sum of theirs:
#
# $$\operatorname{Var}\big(q_i^\top k_j\big) = \sum_{m=1}^{d} \operatorname{Var}(q_{im} k_{jm}) = d, \qquad
# \operatorname{Var}\Big(\frac{q_i^\top k_j}{\sqrt d}\Big) = 1 .$$
#
# Large scores would not be bad in themselves. What they do to learning is. The Jacobian of a softmax
# (chapter 00) is
#
# $$J = \frac{\partial \alpha}{\partial e} = \operatorname{diag}(\alpha) - \alpha \alpha^\top \qquad (n, n),$$
#
# and if one weight is nearly 1, all entries of $J$ are nearly 0: no score can be told to change.
#
# ### Scores against the width (C11)
#
# Random queries, each with $n = 16$ random keys. We measure the variance of the scores, the largest
# weight, the norm of $J$, and what reaches the query: the norm of $\partial \alpha / \partial q = c\, J M$, where
# the rows of $M$, of shape $(n, d)$, are the keys, and $c$ is 1 or $1/\sqrt d$. Norms are largest stretches;
# of 500 queries we take the mean and the median.


# %%
def softmax_at(d, scaled, seed, queries=500, n=16):
    """Scores, weights and gradients of a softmax over products of random vectors of size d."""
    mt.manual_seed(seed)
    query, key = mt.randn(queries, 1, d).double(), mt.randn(queries, n, d).double()
    factor = 1 / math.sqrt(d) if scaled else 1.0
    scores = (factor * query @ key.mT).squeeze(1)  # (queries, n)
    weights = scores.softmax(-1)
    jacobian = weights.unsqueeze(-1) * (mt.eye(n).double() - weights.unsqueeze(-2))
    stretch = np.linalg.norm(jacobian.numpy(), 2, axis=(1, 2))
    at_query = np.linalg.norm((factor * jacobian @ key).numpy(), 2, axis=(1, 2))
    return {
        "variance of scores": scores.var(),
        "largest weight": weights.amax(-1).mean(),
        "Jacobian, mean": stretch.mean(),
        "Jacobian, median": np.median(stretch),
        "at the query, mean": at_query.mean(),
        "at the query, median": np.median(at_query),
    }


@lab.experiment(
    "C11",
    quick=dict(widths=[1, 4, 16, 64, 256], seeds=[0]),
    full=dict(widths=[1, 4, 16, 64, 256, 1024], seeds=[0, 1, 2, 3, 4]),
)
def scores_against_width(widths, seeds):
    return {
        name: {str(d): [softmax_at(d, scaled, seed) for seed in seeds] for d in widths}
        for name, scaled in {"as they are": False, "divided": True}.items()
    }


here = scores_against_width.run()
full = scores_against_width.recorded

# %%
figure, panels = plot.subplots(1, 3, width=9, height=2.9)
shown = {
    "variance of scores": "variance of scores",
    "Jacobian, median": "norm of J, median",
    "at the query, median": "norm at the query, median",
}
for axes, (measured, title) in zip(panels, shown.items(), strict=True):
    for name, by_width in (full["result"] if full else here).items():
        widths = sorted(by_width, key=int)
        runs = [[by_width[d][seed][measured] for d in widths] for seed in range(len(by_width["1"]))]
        plot.spread(axes, [int(d) for d in widths], runs, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="d", title=title)
panels[0].legend()
plot.show(
    figure,
    alt="Against d, from 1 to 1024, on log scales. As they are, the variance of scores grows like d and the median "
    "norms fall steeply from d = 64 on. Divided, all three curves are level.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in {"quick": here, "full": full and full["result"]}.items():
    for name, by_width in (result or {}).items():
        for measured in by_width["1"][0]:
            values = {d: [run[measured] for run in by_width[d]] for d in sorted(by_width, key=int)}
            row = " ".join(f"{min(v):9.2g}-{max(v):<7.2g}" for v in values.values())
            print(f"{setting:5} {name:11} {measured:20} {row}")

# %%
plain, divided = (
    {name: by_width["256"][0][name] / by_width["4"][0][name] for name in by_width["4"][0]}
    for by_width in (here["as they are"], here["divided"])
)
print(
    "C11 holds: from d = 4 to d = 256 the variance of the scores grows by 64, to 15 %:",
    0.85 < plain["variance of scores"] / 64 < 1.15,
)
print("           and the median norm of J falls below a tenth:", plain["Jacobian, median"] < 0.1)
print(
    "           divided, both stay within 30 %:",
    all(0.7 < divided[name] < 1.3 for name in ("variance of scores", "Jacobian, median")),
)

# %% [markdown]
# The variance of the scores grows like $d$, and dividing by $\sqrt d$ keeps it at 1. The Jacobian needs a
# closer look.
#
# - **The typical query is starved**: undivided, the median norm of $J$ falls from 0.3 at $d = 16$ to less
#   than 0.00003 at $d = 1024$, and what reaches the query from 1 to less than 0.001. Divided, both stay
#   at 0.2.
# - **Not at any width.** At $d = 16$ the undivided softmax passes on *more* than the divided one. The norm
#   of $J$ is larger with division from some $d$ between 16 and 64 on, what reaches the query from some
#   $d$ between 64 and 256 on.
# - **The mean tells another story than the median.** Undivided, the mean norm of $J$ falls slowly, to 0.04
#   to 0.05 at $d = 1024$, and the mean at the query even grows, to 1.3 to 1.7. A few queries sit between
#   two keys of nearly the same score and get a large gradient, all others next to none. So "the gradient
#   vanishes" is true of most queries, not of their sum. It becomes rare and large.
#
# > **C11 · holds for most queries.** *The lectures* (deck 1, "Scaled Dot Product [Vaswani et al., 2017]";
# > deck 3): "When dimensionality $d$ becomes large, dot products between vectors tend to become large",
# > "making the gradients small".
# >
# > *Measured*: Five seeds. The variance of the scores grows like $d$; divided it stays at 1. The median norm
# > of the softmax's Jacobian falls from 0.3 at $d = 16$ to less than 0.00003 at $d = 1024$, its mean to 0.04
# > to 0.05; divided both stay at 0.2. At $d = 16$ the undivided softmax still passes on more.
#
# **When is a softmax dominated by one value?** One deck says that it always will be. It depends on how far the
# scores lie apart and on how many there are. We draw $n$ scores with standard deviation $s$ and look at
# the largest weight.

# %%
mt.manual_seed(0)
spreads = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
largest = {
    n: [(s * mt.randn(1000, n)).softmax(-1).amax(-1).mean().item() for s in spreads]
    for n in (4, 16, 64, 256)
}
figure, axes = plot.subplots(width=6.5, height=2.8)
for n, means in largest.items():
    axes.plot(spreads, means, marker="o", label=f"n = {n}")
axes.axvline(1, color="0.5", linewidth=1, linestyle="-", label="divided, at the start")
axes.set(xscale="log", xlabel="standard deviation of the scores", ylabel="largest weight, mean")
axes.legend(loc="upper left", fontsize=9)
plot.show(
    figure,
    alt="Largest weight against the spread of scores for 4, 16, 64 and 256 scores. At spread 1 it is between 0.5 and "
    "0.04, from 16 on above 0.85 for all.",
)
for n, means in largest.items():
    row = "  ".join(f"s = {s:g}: {means[spreads.index(s)]:.2f}" for s in (1, 2, 8, 32))
    print(f"n = {n:3}  {row}")

# %% [markdown]
# At $s = 1$, where the divided scores start, nothing dominates: with 16 keys the largest weight is about a
# quarter. It takes $s = 8$, that is undivided scores at $d = 64$, until one key gets about three
# quarters on average, or more. So the sentence is right for large scores, and training may well make them large
# where a sharp look is useful: dividing sets where we start, not where we end.
#
# ### Does it matter in training? (E2)
#
# All this is about random vectors. A network can learn smaller queries. So we train the tagger of section 1
# with and without the division, for 100 steps, and start $Q$ and $K$ with variance $1/d$, so that queries and keys
# have about the variance of the inputs.


# %%
def tagged(width, scale, rate, seed, steps):
    """The share of right places with attention of this scale, None for one over the root of d."""
    mt.manual_seed(seed)
    model = Tagger(Words(width, attending=True, positions=True, scale=scale), width)
    for layer in (model.encoder.query, model.encoder.key):
        nn.init.normal_(layer.weight, std=1 / math.sqrt(width))
    train(model, rate, steps)
    right, asked = hits(model, held_out)
    return right[asked].float().mean().item()


SCALES = {"as they are": 1.0, "divided": None}


@lab.experiment(
    "E2",
    quick=dict(widths=[64], rates=[4e-3], seeds=[0], steps=60),
    full=dict(widths=[64, 256], rates=[1e-3, 2e-3, 4e-3], seeds=[0, 1, 2], steps=100),
)
def scale_in_training(widths, rates, seeds, steps):
    return {
        name: {
            str(d): {str(r): [tagged(d, scale, r, seed, steps) for seed in seeds] for r in rates}
            for d in widths
        }
        for name, scale in SCALES.items()
    }


here = scale_in_training.run()
full = scale_in_training.recorded


# %% tags=["nbval-ignore-output"]
def flat(by_width):
    """All runs, in the order of width, rate and seed."""
    return [
        run
        for _, by_rate in sorted(by_width.items())
        for _, runs in sorted(by_rate.items())
        for run in runs
    ]


print("share of words whose place is right")
for setting, result in {"quick": here, "full": full and full["result"]}.items():
    for name, by_width in (result or {}).items():
        for d, by_rate in by_width.items():
            for rate, runs in by_rate.items():
                row = " ".join(f"{run:.3f}" for run in runs)
                print(f"{setting:5} {name:11} d = {d:3} rate {rate:6} {row}")
if full:
    both = zip(*(flat(full["result"][name]) for name in SCALES), strict=True)
    better = [divided > plain for plain, divided in both]
    print(f"full: divided is better in {sum(better)} of {len(better)} pairs")

# %% [markdown]
# It does, but far less than the picture above suggests. At the best rate of each (at $d = 64$ the largest of
# the grid), the median of three seeds is 0.947 undivided and 0.955 divided at $d = 64$, and 0.901 and 0.937 at $d = 256$: less than the seeds
# differ. Yet of 18 pairs with the same width, rate and seed, 15 are better divided. In one layer, a
# hundred steps are enough to recover from a bad start. C11 is about the start; Vaswani et al. (2017) too
# wrote "we suspect" where they gave this reason.
#
# > **E2 · a little.** *Our question*: does the division matter in training?
# >
# > *Measured*: Medians of three seeds at the best rate, undivided and divided: 0.947 and 0.955 at $d = 64$,
# > 0.901 and 0.937 at $d = 256$. Divided is better in 15 of 18 pairs.
#
# With the division, attention has the form that the rest of the book uses. `allowed` is a mask, True where a
# query may look; chapter 07 is about such masks.


# %%
def attention(query, key, value, allowed=None):
    """softmax(q k / sqrt(d)) v for (..., T, d), (..., n, d), (..., n, d_v): outputs and weights."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights  # (..., T, d_v), (..., T, n)


class SelfAttention(nn.Module):
    """Self-attention over x (B, n, d), one head; allowed (B, n, n) or (n, n)."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, allowed=None):
        output, _ = attention(self.query(x), self.key(x), self.value(x), allowed)
        return output


mt.manual_seed(0)
layer, x = SelfAttention(8), mt.randn(2, 5, 8)
allowed = mt.tensor([[True] * 5, [True] * 3 + [False] * 2]).unsqueeze(1)  # (B, 1, n)
asked = layer.query(x), layer.key(x), layer.value(x)
library = F.scaled_dot_product_attention(*asked, attn_mask=allowed)
print("the library's operation agrees:", mt.allclose(layer(x, allowed), library, atol=1e-6))
three = layer(x[1:, :3])
print("padding changes nothing:", mt.allclose(layer(x, allowed)[1:, :3], three, atol=1e-6))

# %% [markdown]
# ## 6. No notion of order
#
# In $\sum_j \alpha_{ij} v_j$ nothing says where $j$ stands: a sum does not change when its terms are
# swapped. We can be precise. Let $P$ of shape $(n, n)$ be a permutation matrix, each row and column
# with a single 1, so that $PX$ has the rows of $X$ in another order. Then $P^\top P = I$, a softmax of
# each row moves with its rows and columns, and
#
# $$\operatorname{softmax}\!\big(PXQ\,(PXK)^\top\big)\,PXV
# = P \operatorname{softmax}\!\big(XQ\,(XK)^\top\big)\, P^\top P\, XV
# = P \cdot \operatorname{softmax}\!\big(XQ\,(XK)^\top\big)\, XV .$$
#
# Permuted words give permuted outputs. (This is called **equivariance**. The mean of the outputs
# does not change at all: it is *invariant*.) Each word gets the same vector wherever it stands. (The weights
# below are not those of section 4, since `attention` divides the scores by $\sqrt 2$.)

# %%
order = [3, 1, 0, 2]  # friend water be my
P = mt.eye(4)[order]  # (n, n)
permuted, permuted_weights = attention(P @ X @ Q, P @ X @ K, P @ X @ V)
outputs, weights = attention(X @ Q, X @ K, X @ V)
print("permuted words give permuted outputs:", mt.allclose(permuted, P @ outputs, atol=1e-6))

figure, (left, right) = plot.subplots(1, 2, width=7.5, height=2.6)
shuffled = [tokens[i] for i in order]
plot.attention(left, weights, tokens, tokens, values=True, colorbar=False)
plot.attention(right, permuted_weights, shuffled, shuffled, values=True, colorbar=False)
for axes in (left, right):
    axes.set(xlabel="", ylabel="")
plot.show(
    figure,
    alt="Attention weights of 'be water my friend' and of 'friend water be my': the same numbers for the same "
    "pair of words, in other cells.",
)

# %% [markdown]
# ### Permuting the words (C10)
#
# All 24 orders of the example, and random sentences in random orders that leave no word in its place, in
# float64. We take the largest difference between $f(PX)$ and $P f(X)$, divided by the largest output.
# Beside it the same for a GRU, and for self-attention with a vector for the position added to each word.


# %%
def order_errors(n, width, seed):
    """max |f(P X) - P f(X)| / max |f(X)|, X (n, d) random, P a random order that moves each word."""
    mt.manual_seed(seed)
    layer = SelfAttention(width).double()
    gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True).double()
    codes = mt.randn(n, width).double()
    layers = {
        "self-attention": layer,
        "self-attention + positions": lambda x: layer(x + codes),
        "GRU": lambda x: gru(x)[0],
    }
    x, ring = mt.randn(1, n, width).double(), mt.randperm(n)
    order = ring.roll(1)[ring.argsort()]  # each word takes the place of the next in a random ring
    errors = {}
    for name, f in layers.items():
        there = f(x)[:, order]
        errors[name] = ((f(x[:, order]) - there).abs().amax() / there.abs().amax()).item()
    return errors


@lab.experiment(
    "C10",
    quick=dict(lengths=[4, 16, 64], widths=[64], seeds=[0]),
    full=dict(lengths=[4, 16, 64, 256], widths=[16, 64, 256], seeds=[0, 1, 2, 3, 4]),
)
def permuting(lengths, widths, seeds):
    return {str(n): [order_errors(n, d, seed) for d in widths for seed in seeds] for n in lengths}


here = permuting.run()
full = permuting.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in {"quick": here, "full": full and full["result"]}.items():
    for n in sorted(result or {}, key=int):
        ranges = {name: [run[name] for run in result[n]] for name in result[n][0]}
        row = "  ".join(f"{name} {min(e):.1e} to {max(e):.1e}" for name, e in ranges.items())
        print(f"{setting:5} n = {n:>3}  {row}")

# %%
runs = [run for by_length in here.values() for run in by_length]
orders = [list(order) for order in permutations(range(4))]
X_64, matrices = X.double(), [M.double() for M in (Q, K, V)]
outputs, _ = attention(*(X_64 @ M for M in matrices))
differences = [
    (attention(*(X_64[order] @ M for M in matrices))[0] - outputs[order]).abs().amax().item()
    for order in orders
]
print("C10 holds: all 24 orders of the example, to 1e-14:", max(differences) < 1e-14)
print("           random sentences, to 1e-12:", max(run["self-attention"] for run in runs) < 1e-12)
print(
    "           not so with positions added, nor for a GRU, above 0.1:",
    all(run[name] > 0.1 for run in runs for name in ("self-attention + positions", "GRU")),
)

# %% [markdown]
# In the full runs the difference is 2e-15 at most, which is rounding, against 0.3 to 1.4 with positions and
# 0.4 to 1.6 for the GRU. And the translators of section 1? "Thirty thousand and four" and "four thousand
# and thirty", with the same target tokens fed in, get the same scores from the one without positions:

# %%
settings = (8e-3, 0, without_recurrence.quick["steps"])
both = [number_pair(30_004), number_pair(4_030)]
print(" / ".join(" ".join(pair.source) for pair in both))
data = sentences([pair._replace(target=both[0].target) for pair in both])
for name in ("self-attention", "self-attention + positions"):
    scores, _ = translator(name, *settings)(data)
    print(f"{name:26} the same scores: {mt.allclose(scores[0], scores[1], atol=1e-5)}")

# %% [markdown]
# > **C10 · holds.** *The lectures* (deck 1, "Barriers and solutions for Self-Attention as a building
# > block"; deck 3): self-attention "doesn't have an inherent notion of order!"
# >
# > *Measured*: Largest relative difference between the outputs of permuted words and the permuted outputs,
# > sequences of 4 to 256 words, float64: 1.9e-15. With positions 0.32 to 1.4, for a GRU 0.42 to 1.6.
#
# ## 7. What waits for what
#
# A recurrent network computes $h_t = \tanh(x_t W + h_{t-1} U)$. Until $h_{t-1}$ is there, nothing can be done
# about $h_t$ but $x_t W$. In self-attention no output waits for another output. Two numbers tell the
# difference, and both can be read off the graph that `backward` walks (chapter 00):
#
# - **sequential operations**: the number of operations on the longest path to the last output. That many
#   have to be done one after another, with however many processors.
# - **distance of two words**: the number of operations on the shortest path from the first word to the last
#   output. That many the information has to survive, and the gradient on its way back.


# %%
def recurrent(words, W, U):
    """The last state of a plain RNN over a list of words (1, d)."""
    h = mt.zeros_like(words[0])
    for x_t in words:
        h = (x_t @ W + h @ U).tanh()
    return h


def self_attended(words, Q, K, V):
    """The last output of self-attention over a list of words (1, d)."""
    X = mt.cat(words)  # (n, d)
    return attention(X @ Q, X @ K, X @ V)[0][-1]


def inputs_of(node):
    """The nodes, or leaf tensors, that an operation took its inputs from."""
    leaf = isinstance(node, mt.Tensor)
    return [] if leaf else [source for source in node.next_functions if source is not None]


def sequential_operations(output):
    """The number of operations on the longest path that leads to this tensor."""
    longest, stack = {}, [output.grad_fn]
    while stack:
        node = stack[-1]
        waiting = [source for source in inputs_of(node) if source not in longest]
        if waiting:
            stack += waiting
        else:
            before = [longest[source] for source in inputs_of(node)]
            longest[stack.pop()] = 1 + max(before) if before else 0
    return longest[output.grad_fn]


def distance(output, word):
    """The number of operations on the shortest path from a leaf tensor to this tensor."""
    steps, layer = 0, {output.grad_fn}
    while word not in layer:
        steps, layer = steps + 1, {source for node in layer for source in inputs_of(node)}
    return steps


for name, network, count in (("RNN", recurrent, 2), ("self-attention", self_attended, 3)):
    mt.manual_seed(0)
    words = [mt.randn(1, 8, requires_grad=True) for _ in tokens]
    output = network(words, *(mt.randn(8, 8) for _ in range(count)))
    print(f"{name:14} n = 4: {sequential_operations(output)} in sequence, ", end="")
    print(f"distance {distance(output, words[0])}")

# %% [markdown]
# With a pencil: the RNN needs a product, a sum and a tanh for each word; self-attention stacks the words,
# multiplies by $K$, transposes, multiplies by the queries, divides, takes a softmax, multiplies by the
# values and picks the last row.
#
# ### Sequential operations against length (C12)
#
# The same for growing $n$, with the FLOPs of the products and the time of a forward and a backward pass of a
# batch of one and a batch of 4, on this machine. By hand: an RNN costs $4nd^2$, a GRU with its three gates
# $12nd^2$, self-attention $6nd^2$ for $XQ$, $XK$, $XV$ and $4n^2d$ for scores and outputs.


# %%
def seconds(network, batch, n, width):
    """The shortest time of three forward and backward passes."""
    x, times = mt.randn(batch, n, width), []
    for _ in range(3):
        start = perf_counter()
        network(x).sum().backward()
        times.append(perf_counter() - start)
    return min(times)


@lab.experiment(
    "C12",
    quick=dict(lengths=[4, 16, 64, 256], width=64),
    full=dict(lengths=[4, 16, 64, 256, 1024, 2048], width=64),
)
def waiting(lengths, width):
    mt.manual_seed(0)
    measured = {}
    for n in lengths:
        words = [mt.randn(1, width, requires_grad=True) for _ in range(n)]
        weights = [mt.randn(width, width) / math.sqrt(width) for _ in range(3)]
        last = {
            "RNN": recurrent(words, *weights[:2]),
            "self-attention": self_attended(words, *weights),
        }
        gru, layer = nn.GRU(width, width, batch_first=True), SelfAttention(width)
        rnn = nn.RNN(width, width, batch_first=True)
        networks = {
            "RNN": lambda x, rnn=rnn: rnn(x)[0],
            "GRU": lambda x, gru=gru: gru(x)[0],
            "self-attention": layer,
        }
        measured[str(n)] = {
            "in sequence": {name: sequential_operations(output) for name, output in last.items()},
            "distance": {name: distance(output, words[0]) for name, output in last.items()},
            "FLOPs": {},
            "seconds": {},
        }
        for name, network in networks.items():
            with count_flops() as counter:
                network(mt.zeros(1, n, width))
            measured[str(n)]["FLOPs"][name] = counter.total
            measured[str(n)]["seconds"][name] = {
                str(batch): seconds(network, batch, n, width) for batch in (1, 4)
            }
    return measured


here = waiting.run()
full = waiting.recorded

# %%
result = full["result"] if full else here
lengths = sorted(map(int, result))
pictures = {
    "operations in sequence": lambda at, name: at["in sequence"].get(name, math.nan),
    "FLOPs of a forward pass": lambda at, name: at["FLOPs"][name],
    "milliseconds, batch of 4": lambda at, name: 1000 * at["seconds"][name]["4"],
}
figure, panels = plot.subplots(1, 3, width=9, height=2.9)
for axes, (title, value) in zip(panels, pictures.items(), strict=True):
    for name in ("RNN", "self-attention", "GRU"):
        axes.plot(lengths, [value(result[str(n)], name) for n in lengths], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="n", title=title)
panels[1].legend()
plot.show(
    figure,
    alt="Against length: operations in sequence grow with n for the RNN and are level for self-attention; FLOPs of "
    "self-attention start between RNN and GRU and grow more steeply; so do the milliseconds.",
)
print("n      in sequence          distance             FLOPs")
print("       RNN   self-attention RNN   self-attention RNN          GRU          self-attention")
for n in sorted(here, key=int):
    columns = [*here[n]["in sequence"].values(), *here[n]["distance"].values()]
    row = "".join(
        f"{value:<6,}{'' if i % 2 == 0 else '         '}" for i, value in enumerate(columns)
    )
    print(f"{n:6} {row}", "".join(f"{flops:<13,}" for flops in here[n]["FLOPs"].values()))

# %% tags=["nbval-ignore-output"]
for setting, result in {"quick": here, "full": full and full["result"]}.items():
    for n in sorted(result or {}, key=int):
        times = result[n]["seconds"]
        row = "  ".join(
            f"{name} " + " ".join(f"{1000 * t:8.2f}" for _, t in sorted(by_batch.items()))
            for name, by_batch in times.items()
        )
        print(f"{setting:5} n = {n:>4}, ms for a batch of 1 and of 4: {row}")

# %%
lengths, d = sorted(map(int, here)), waiting.quick["width"]


def counted(what, name):
    return [here[str(n)][what][name] for n in lengths]


for what in ("in sequence", "distance"):
    grows = counted(what, "RNN") == [3 * n for n in lengths]
    stays = len(set(counted(what, "self-attention"))) == 1
    print(
        f"C12 holds, {what}: 3 n in the RNN: {grows}, the same at every n with attention: {stays}"
    )
by_hand = [6 * n * d**2 + 4 * n**2 * d for n in lengths]
print(
    "FLOPs of self-attention are 6 n d^2 + 4 n^2 d:", counted("FLOPs", "self-attention") == by_hand
)

# %% [markdown]
# Sequential operations: 3 a word in the RNN, always 8 in self-attention. Distance: the first word reaches the
# last output through $3n$ operations in one, through 4 in the other. That is C12, and it is counted, so it
# holds on any machine.
#
# The work is another matter. Scores and outputs need $4n^2d$ FLOPs, so self-attention is cheaper than a GRU as long
# as $6nd^2 + 4n^2d < 12nd^2$, that is $n < 1.5d$, here 96, and it is never cheaper than a plain RNN. On a machine
# with thousands of arithmetic units the wait decides. On two cores it is the work, and the overhead of Python,
# which the RNN pays once a step. So our milliseconds do *not* show parallelism.
#
# In the full run, for one sentence, self-attention is faster than the RNN up to $n = 1024$ (19 against 39
# ms) and slower at 2048 (93 against 79). For four sentences at a time it is slower already at 1024 (96
# against 53), since the RNN pays its overhead once for all four, and at 2048 slower than the GRU too.
#
# Two more things that the count leaves out. An operation counts as one here, however large; inside, a sum
# over $n$ terms takes about $\log_2 n$ rounds even with a processor for each term. And several layers are
# still one after another: each layer adds six operations (stacking the words and picking the last row are
# done once), so $L$ layers of self-attention wait $6L + 2$, whatever $n$ is.
#
# > **A note on the lectures.** "We cannot use GPUs for training and inference" (of recurrent networks) says
# > too much. A GRU reads the sentences of a batch side by side (chapter 03), and within a step its products
# > run in parallel. What cannot be parallelised is the time of one sentence. And a Transformer that writes
# > a text does so token by token too, one after another, since each is needed to choose the next.
# >
# > "In a Transformer every token sees every other token" is true of what we have built here. In a decoder,
# > which must not see what it is to predict, token $i$ sees the tokens $j \le i$ (chapter 07).
#
# > **C12 · holds for steps, not for time on two cores.** *The lectures* (deck 3, "Issues with recurrent
# > models: Linear interaction distance", "Issues with recurrent models: Lack of parallelizability"): in a
# > recurrent network O(sequence length) steps for distant words to interact, and as many unparallelizable
# > operations; with attention O(1).
# >
# > *Measured*: Operations in sequence, counted: 3 for each word in an RNN, 8 in self-attention at any length;
# > distance 3 for each word against 4. Time of a pass over one sentence: at 1,024 words 39 ms (RNN) and 19 ms
# > (self-attention), at 2,048 79 and 93 ms.
#
# ## 8. The table of barriers
#
# Can we build everything out of self-attention now? We have a layer that lets words look at each other in
# one step, and no reason yet to think that it is enough. Five barriers stand in the way:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | open: chapter 08 | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | open: chapter 09 | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | open: chapter 07 | 07 |
# | one place at a time | one softmax, one place (C14) | open: chapter 06 | 06 |
# | does not train when deep | gradients (C20) | open: chapter 09 | 09 |
#
# The first row is the one that we have met: in section 1, a vector for the index was enough to get around
# it, and chapter 08 asks which vectors, and for how long. The second can be seen in section 4: with the
# weights held fixed, the output $A\,XV$ is linear in $X$. (Our encoder in section 1 had a tanh behind
# it.) The third: with $x_{i+1}$ among its keys, token $i$ need only look to know what comes next. The
# fourth: "three" wanted to find "hundred" *and* "thousand", with one softmax. The fifth shows only
# when many layers are stacked. Each of the next four chapters removes one or two, and fills in its row.
#
# **Try it**: change one number of $X$ and follow it through section 3 with a pencil; set $V$ to the identity;
# make "my" look at "friend" by changing $Q$ alone; give the tagger of section 1 two layers of `Words`, and see
# whether the second one helps; replace the learned positions by the bare number $j / 16$ in every entry.
#
# ## Summary
#
# - Without recurrence an encoder has no dependencies between words. Self-attention brings them back in one step,
#   at any distance, but not the order of the words; with positions it does what the GRU did (E1, C33).
# - Each token makes a query, a key and a value from its vector. One row at a time, $o_i = \sum_j
#   \alpha_{ij} v_j$; all at once, $\operatorname{softmax}\big(XQ\,(XK)^\top / \sqrt d\big)\, XV$, with $n \times
#   n$ scores that are not symmetric.
# - Scores of random vectors have variance $d$. Dividing by $\sqrt d$ makes it 1, and keeps the typical
#   softmax where its gradient is not zero (C11).
# - Permuted words give permuted outputs, exactly (C10).
# - The number of sequential operations and the distance of two words do not depend on the length; the work
#   does, as $6nd^2 + 4n^2d$ (C12).
# - Five barriers are left on the way to a Transformer.
#
# Chapter 06 starts with the fourth: a softmax looks at one place, so give each token several.
#
# **Exercises**:
# [`../exercises/05_self_attention/05_self_attention.ipynb`](../exercises/05_self_attention/05_self_attention.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, sections 3.2.1 and 4. Cheng, Dong and Lapata
# (2016), *Long short-term memory-networks for machine reading*, and Parikh et al. (2016), *A decomposable
# attention model for natural language inference*, for attention inside a sentence before that. Lin et al.
# (2017), *A structured self-attentive sentence embedding*. Lee et al. (2019), *Set Transformer*, which wants no
# order. Yun et al. (2020), *Are Transformers universal approximators of sequence-to-sequence functions?*, for what
# positions make possible.
