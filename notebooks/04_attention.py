# %% [markdown]
# # 04 Attention
#
# The translator of chapter 03 reads the whole source sentence, hands over one vector, and never looks
# back. For three words that is enough; for eighteen it is not. In this chapter the decoder looks back: at
# each step it takes a weighted mean of all encoder states, and it computes the weights itself.
#
# **After this chapter you will be able to**
#
# - compute attention by hand for one step, for all steps in a loop, and for a whole batch in matrices;
# - use attention without a translator, as soft look-up, as regression and as pooling;
# - write the four score functions, and count their parameters and FLOPs;
# - add attention to a translator, and show that the bottleneck is gone;
# - explain why attention gives the gradient a shorter path;
# - draw alignment maps, and say how far they can be trusted.
#
# **Time**: about 110 minutes to read and try; all cells together run in less than a minute. **Before
# it**: chapters 01 (recurrent networks, gradient against distance) and 03 (encoder and decoder, padding,
# teacher forcing, the bottleneck). The GRU is that of chapter 02.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
from collections import defaultdict
from copy import deepcopy
from functools import cache
from time import process_time

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.cross_attention as diagrams
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.data import join_pieces, number_pair, number_pairs
from textbook.lab import Lab, Tuned, measured
from textbook.lab.report import spread, table
from textbook.look import look as window

lab = Lab("04")

# %% [markdown]
# Translator, data, stories and training come from chapter 03, as they are:

# %%
from textbook.chapter_03 import (
    LENGTHS,
    PAD,
    EncoderDecoder,
    ParallelText,
    StoryReader,
    fully_right,
    last_state,
    max_of_states,
    mean_of_states,
    number_texts,
    right_by_length,
    stories_right,
    teacher_forced_loss,
    train_reader,
    train_translator,
    translate,
)

# %% [markdown]
# ## 1. From one vector to a weighted mean
#
# One sentence goes with us through this chapter, the number 293, known from chapter 03. English says the
# ten before the unit, German the unit before the ten, so a translator has to change the order:

# %%
pair = number_pair(293)
english_words, german_words = pair.source, pair.target
print("source:", " ".join(english_words))
print("target:", " ".join(german_words), "=", join_pieces(german_words, "de"))

# %% [markdown]
# An encoder has read the source and left a state $h_j$ for each of the $n = 5$ words. To follow everything with a
# pencil, we give the states just two numbers each, chosen by hand. Later they are learned.

# %%
memory = mt.tensor(
    [
        [2.0, 0.0],  # two
        [1.0, 2.0],  # hundred
        [0.0, 0.5],  # and
        [-2.0, 1.0],  # ninety
        [-1.0, -2.0],  # three
    ]
)  # (n, H), one row a source word

# %% [markdown]
# What should the decoder get from these $n$ vectors? Chapter 03 took the last one. Their **mean** found
# what a plain RNN's last state had forgotten (chapter 03, C31), and it works for any $n$:
#
# $$o = \frac1n \sum_{j=1}^{n} h_j .$$
#
# But it is the same $o$ at every step of the decoder, whether the next piece is *zwei* or *neunzig*, and
# the more words there are, the less of each is in it. A mean is a sum with equal weights. Let the weights
# differ, and let them differ from step to step:
#
# $$o_t = \sum_{j=1}^{n} \alpha_{tj}\, h_j, \qquad \alpha_{tj} \ge 0, \quad \sum_{j=1}^{n} \alpha_{tj} = 1 .$$
#
# $\alpha_{tj}$ (a number) says how much source word $j$ counts at decoder step $t$, and $o_t$, of shape
# $(H)$, is the **attention output**.

# %%
equal = mt.ones(5) / 5
on_two_words = mt.tensor([0.0, 0.0, 0.0, 0.5, 0.5])
print("mean of the states:     ", memory.mean(0))
print("equal weights give the mean:", mt.allclose(equal @ memory, memory.mean(0), atol=1e-6))
print("half ninety, half three:", on_two_words @ memory)

# %% evidence
# Three ways from source to target: one vector, the mean, and what we want
one_vector = mt.zeros(5, 5)
one_vector[0, 4] = 1.0
known = mt.zeros(5, 5)
for t, sources in enumerate(pair.alignment):
    known[t, list(sources)] = 1.0
ways = {
    "chapter 03: the last state, once": one_vector,
    "the mean, at every step": mt.ones(5, 5) / 5,
    "what we want": known,
}
figure, panels = plot.subplots(1, 3, width=10, height=2.4)
for axes, (title, weights) in zip(panels, ways.items(), strict=True):
    diagrams.connections(axes, weights, german_words, english_words, title)
plot.show(
    figure,
    alt="Source words below, target pieces above. Left: a single line from the last word to the first "
    "piece. Middle: equal thin lines between all. Right: each piece but und joined to the word that it "
    "translates, with the lines of ninety and three crossing.",
)

# %% [markdown]
# On the left, everything has to pass through one line. On the right, each piece gets what it needs. Where
# do such weights come from? Every sentence is different: the decoder has to ask.
#
# ## 2. One step, by hand
#
# At step $t$ the decoder has a state $s_t$, which knows what has been said so far, and so what is wanted
# next. We compare it with each encoder state. The simplest comparison is the dot product: large if the
# two point the same way. Then a softmax (chapter 00) turns scores into weights:
#
# $$e_{tj} = s_t^\top h_j, \qquad \alpha_{tj} = \frac{\exp(e_{tj})}{\sum_{l=1}^{n} \exp(e_{tl})}, \qquad
# o_t = \sum_{j=1}^{n} \alpha_{tj}\, h_j .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $h_j$ | encoder state after source word $j = 1 \dots n$ | $(H)$ |
# | $s_t$ | decoder state at step $t = 1 \dots T$ | $(H)$ |
# | $e_{tj}$ | score: how well $h_j$ fits what $s_t$ asks for | a number |
# | $\alpha_{tj}$ | weight, between 0 and 1 | a number |
# | $o_t$ | attention output | $(H)$ |
#
# Say *zwei hundert* has been said. The state $s_3 = (-0.5, -1.5)$ is that before *drei*, and it asks for a
# unit:

# %%
s_3 = mt.tensor([-0.5, -1.5])
e_3 = memory @ s_3  # (n)
alpha_3 = e_3.exp() / e_3.exp().sum()  # (n)
o_3 = alpha_3 @ memory  # (H)

print("word     score   exp     weight")
for word, e, weight in zip(english_words, e_3.tolist(), alpha_3.tolist(), strict=True):
    print(f"{word:8} {e:5.2f} {math.exp(e):7.3f}   {weight:.3f}")
print("attention output:", o_3)

# %% [markdown]
# With a pencil: the score of "three" is $(-0.5)(-1) + (-1.5)(-2) = 3.5$, its exponential 33.1, the sum of
# all five 34.6, so its weight is $33.1 / 34.6 = 0.957$. The output is nearly $h_5 = (-1, -2)$.

# %% evidence
# The step as a diagram, and in the plane
figure, (left, right) = plot.subplots(1, 2, width=10, height=4, width_ratios=[1.4, 1])
diagrams.one_step(left, english_words, e_3.tolist(), alpha_3.tolist(), t=3)
arrows = [(word, h, "0.45", 1.08) for word, h in zip(english_words, memory.tolist(), strict=True)]
arrows.append(("output $o_3$", o_3.tolist(), plot.COLORS[0], 0.6))
arrows.append(("query $s_3$", s_3.tolist(), plot.COLORS[1], 0.9))
for name, (x, y), color, along in arrows:
    right.annotate("", (x, y), (0, 0), arrowprops=dict(arrowstyle="->", color=color, lw=1.8))
    side = "left" if x > 0 or name.startswith("query") else "right"
    shift = 0.1 if side == "left" else -0.1
    right.text(along * x + shift, along * y, name, color=color, ha=side, va="center")
right.set(xlim=(-3.2, 3.2), ylim=(-2.6, 2.6), aspect="equal", title="the same in the plane")
right.set(xlabel="first number", ylabel="second number")
plot.show(
    figure,
    alt="Left: five states, each scored against the query s3; the bar of three is nearly one and its line "
    "to the output thick. Right: the states as arrows; the query points the way of three, and the output "
    "ends almost at the tip of three.",
)

# %% [markdown]
# The number of weights follows $n$, but no parameter belongs to a position: the same rule serves any length.
# Everything is differentiable, so the gradient can say "look elsewhere". And looking *is* computing a mean:
# there is no hard choice anywhere.
#
# ## 3. All steps
#
# The decoder asks once a step. Here are five states, chosen by hand again, one for each piece that is to be
# said. For *und*, which translates no word, the query is zero.

# %%
queries = mt.tensor(
    [
        [1.5, -0.5],  # zwei
        [0.5, 1.5],  # hundert
        [-0.5, -1.5],  # drei
        [0.0, 0.0],  # und
        [-1.5, 0.5],  # neunzig
    ]
)  # (T, H), one row a decoder step

rows, outputs = [], []
for s_t in queries:
    scores = mt.stack([s_t @ h_j for h_j in memory])  # (n)
    weights = scores.softmax(-1)
    rows.append(weights)
    outputs.append(sum(weight * h_j for weight, h_j in zip(weights, memory, strict=True)))
weights_by_loop, outputs_by_loop = mt.stack(rows), mt.stack(outputs)  # (T, n), (T, H)
print("sum of the weights of each step:", weights_by_loop.sum(1))
same = mt.allclose(outputs_by_loop[3], memory.mean(0), atol=1e-6)
print("the output of 'und' is the mean:", same)

# %% evidence
# The weights of all steps, as a map and as lines
figure, (left, right) = plot.subplots(1, 2, width=9, height=2.8, width_ratios=[1, 1.1])
plot.attention(left, weights_by_loop, german_words, english_words, values=True)
left.set(xlabel="source", ylabel="target")
diagrams.connections(right, weights_by_loop, german_words, english_words, "the same as lines")
plot.show(
    figure,
    alt="Weights of all five steps: one dark cell in each row, except for und, whose row is even. The "
    "cells of drei and neunzig lie across the diagonal.",
)

# %% [markdown]
# A zero query scores all words alike, so its weights are equal, and attention falls back to what we
# started from: the mean.
#
# ## 4. In matrices
#
# Two nested loops over $t$ and $j$ are slow. Put the queries into the rows of $S$, of shape $(T, H)$, and
# the encoder states into the rows of $M$ (for *memory*), of shape $(n, H)$. Then entry $(t, j)$ of $S
# M^\top$ is the score $s_t^\top h_j$, and
#
# $$A = \operatorname{softmax}(S M^\top) \quad (T, n), \qquad \text{outputs} = A M \quad (T, H),$$
#
# with the softmax of each row. Nothing waits for anything: all steps at once.


# %%
def attend(scores, values, padding=None):
    """Weighted means of the values (..., n, d) by scores (..., T, n): outputs and weights."""
    if padding is not None:
        scores = scores.masked_fill(padding, -math.inf)
    weights = scores.softmax(-1)  # (..., T, n)
    return weights @ values, weights  # (..., T, d)


outputs, weights = attend(queries @ memory.T, memory)
print("weights agree with the loop:", mt.allclose(weights, weights_by_loop))
print("outputs agree with the loop:", mt.allclose(outputs, outputs_by_loop, atol=1e-6))

# %% [markdown]
# The softmax runs over the source. Over the other axis, each word would share out its weight among the steps.
#
# **A batch** holds sentences of several lengths, filled up with padding. A padded state must get no
# weight. Its *score* is set to minus infinity, so that its weight is $\exp(-\infty) = 0$ and the rest
# still adds up to one. That is the argument `padding`, True at padding. (Setting the *weight* to zero after
# the softmax would leave a sum below one.)
# We try it with "ninety three" beside our sentence:

# %%
two_words = memory[3:]  # the states of "ninety three"
batch = mt.stack([memory, mt.cat([two_words, mt.zeros(3, 2)])])  # (B, n, H)
padding = mt.tensor([[False] * 5, [False, False, True, True, True]])  # (B, n)
scores = queries @ batch.mT  # (B, T, n)

masked, masked_weights = attend(scores, batch, padding.unsqueeze(1))
forgotten, _ = attend(scores, batch)
alone, _ = attend(queries @ two_words.T, two_words)
print("drei, sentence alone:    ", alone[2])
print("in the batch, masked:    ", masked[1, 2])
print("in the batch, not masked:", forgotten[1, 2])

# %% [markdown]
# The library has these lines as one operation, the heart of the Transformer. It divides the scores by
# $\sqrt{H}$ unless told otherwise (chapter 05 says why), and its mask is True where a query *may* look: we
# call such a mask `allowed`.

# %%
allowed = ~padding.unsqueeze(1)  # (B, 1, n)
fused = F.scaled_dot_product_attention(queries, batch, batch, attn_mask=allowed, scale=1.0)
print("the library agrees:", mt.allclose(fused, masked, atol=1e-6))

# %% [markdown]
# ## 5. Attention without a translator
#
# Nothing so far was about translation. A dictionary stores **values** under **keys**; we come with a
# **query**, and get the value whose key equals it. Attention is the soft version: the query fits every key
# to some degree, and we get the values, mixed by these degrees,
#
# $$o = \sum_{j=1}^{n} \alpha_j v_j, \qquad \alpha = \operatorname{softmax}(q^\top k_1, \dots, q^\top k_n),$$
#
# with query $q$ and keys $k_j$ of shape $(d)$ and values $v_j$ of shape $(d_v)$. That is attention in general:
# a mean of values whose weights depend on a query. It makes of any number of vectors one of fixed size, and
# one says that the query *attends to* the values.
#
# In a translator the decoder's state is the query, and the encoder's state is both key and value. When
# queries come from one sequence, keys and values from another, one speaks of **cross-attention**. Here is a
# table of five numbers:

# %%
values = mt.tensor([[2.0], [100.0], [0.0], [90.0], [3.0]])  # (n, 1), under the five words
keys = mt.eye(5)  # (n, d), a direction of its own for each word
query = keys[3]  # we ask for "ninety"
for factor in (0, 2, 8):
    found, weights = attend(factor * query @ keys.T, values)
    print(f"query times {factor} finds {found.item():6.2f}, weight of ninety {weights[3]:.4f}")

# %% [markdown]
# ### Sharp and flat queries (C9)
#
# A longer query, the same direction: the scores move apart, and the softmax gets sharper. At factor 0 the
# look-up returns the mean of all values, at a large factor the stored value. How fast? If the best score
# is ahead of every other by at least $\Delta$, then $\alpha_j / \alpha_{\text{best}} = e^{e_j - e_{\text{best}}} \le e^{-\Delta}$ for
# each of the $n - 1$ others. So their weights together are at most $(n - 1)\, e^{-\Delta}$, and
#
# $$\lVert o - v_{\text{best}} \rVert \le (n - 1)\, e^{-\Delta} \max_j \lVert v_j - v_{\text{best}} \rVert .$$
#
# Tables with random keys of length 1 and random values, asked with each key times a factor:


# %%
@lab.experiment(
    "C9",
    entries=[16],
    factor=[0, 1, 2, 4, 8, 16, 32, 64],
    full=dict(entries=[4, 16, 64, 256], seeds=5),
)
def soft_look_up(entries, factor, d=32):
    keys = F.normalize(mt.randn(entries, d).double(), dim=1)
    values = mt.randn(entries, 8).double()
    scores = factor * keys @ keys.T  # (n, n), the query of row i is key i
    found, _ = attend(scores, values)
    ahead = scores.diagonal() - scores.masked_fill(mt.eye(entries).bool(), -math.inf).amax(1)
    farthest = (values.unsqueeze(0) - values.unsqueeze(1)).norm(dim=2).amax(1)
    to_value = (found - values).norm(dim=1)
    return {
        "distance to the stored value": to_value.mean(),
        "distance to the mean": (found - values.mean(0)).norm(dim=1).mean(),
        "share of the bound": (to_value / ((entries - 1) * (-ahead).exp() * farthest)).max(),
    }


# %% evidence
# C9: weights of three queries, distances against the factor, verdicts
runs = soft_look_up.run()
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3)
for shift, factor in enumerate((0, 2, 8)):
    _, weights = attend(factor * query @ keys.T, values)
    places = [j + 0.27 * (shift - 1) for j in range(5)]
    shade = dict(color=plot.COLORS[0], alpha=(0.25, 0.55, 1.0)[shift], label=f"factor {factor}")
    left.bar(places, weights.tolist(), width=0.25, **shade)
left.set_xticks(range(5), english_words)
left.set(ylabel="weight", title="asking for ninety")
left.legend(loc="upper left")
entries = max(runs.best.settings_of("entries"))
factors = runs.best.settings_of("factor")[1:]
for name in ("distance to the stored value", "distance to the mean"):
    of_factor = [runs.best.values(name, entries=entries, factor=factor) for factor in factors]
    plot.spread(right, factors, mt.tensor(of_factor).T, marker="o", label=name)
right.set(xscale="log", yscale="log", xlabel="factor", ylabel="distance")
right.set_title(f"random tables of {entries} entries")
right.set_xticks(factors, factors)
right.minorticks_off()
right.legend(loc="lower left", fontsize=9)
plot.show(
    figure,
    alt="Left: weights for a query of three lengths, even at first, then nearly all on ninety. Right: with a "
    "growing factor the distance to the stored value falls below one in a million, and the distance to "
    "the mean grows to that of the stored value.",
)
runs.table("factor", "distance to the stored value", columns="entries")
runs.holds(
    "a query of factor 0 returns the mean",
    lambda rows: rows.values("distance to the mean", factor=0),
    below=1e-12,
)
runs.holds(
    "one of factor 64 returns the stored value",
    lambda rows: rows.values("distance to the stored value", factor=64),
    below=1e-6,
)
runs.holds(
    "every answer keeps the bound", lambda rows: rows.values("share of the bound"), between=(0, 1)
)

# %% [markdown]
# > **C9 · holds: A sharp query looks the value up to 3.3e-11, a flat one gives the mean of all values.**
# > *The lectures* (deck 1, "Attention is weighted averaging, which lets you do lookups!"; deck 3):
# > attention is "weighted averaging, which lets you do lookups!"
# >
# > *Measured*: With a query of factor 0 the answer is the mean of the values, to 1e-12. With a factor of 64 it is the
# > stored value: the largest distance in tables of 4 to 256 entries and five seeds is 3.3e-11. In between it is a
# > mixture: at 16 the distance is at most 8.4e-05 with 4 entries and 3.5e-03 with 256.
#
# ### Without any network
#
# Soft look-up needs no network. Somebody has measured numbers $v_j$ at $n$ places $k_j$. What is to be expected
# at a place $q$ where nothing was measured? A sensible guess is the mean of all $v_j$, near ones counting more. **Kernel regression**
# (Nadaraya, 1964; Watson, 1964) takes
#
# $$o = \sum_{j=1}^{n} \alpha_j\, v_j, \qquad \alpha = \operatorname{softmax}(e_1, \dots, e_n), \qquad
# e_j = -\frac{(q - k_j)^2}{2 \sigma^2} .$$
#
# That is attention, with query, keys and values. Nothing is trained. The width $\sigma$ (a number) makes the query
# sharp or flat.

# %%
mt.manual_seed(0)
k = 6 * mt.rand(40)  # keys (n)
v = k.sin() + 0.3 * mt.randn(40)  # values (n), noisy
q = mt.linspace(0, 6, 121)  # queries (T)


def kernel_regression(width):
    scores = -(((q.unsqueeze(1) - k) / width) ** 2) / 2  # (T, n)
    outputs, weights = attend(scores, v.unsqueeze(1))
    return outputs.squeeze(1), weights  # (T), (T, n)


WIDTHS = {"flat": 3.0, "in between": 0.3, "sharp": 0.03}
for name, width in WIDTHS.items():
    error = (kernel_regression(width)[0] - q.sin()).square().mean().sqrt()
    print(f"{name:10} width {width:4}: error {error:.3f}")

# %% evidence
# Kernel regression at three widths, and its weights
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3, width_ratios=[1.4, 1])
left.plot(k.tolist(), v.tolist(), "o", color="0.6", markersize=4, label="measured")
for name, width in WIDTHS.items():
    left.plot(q.tolist(), kernel_regression(width)[0].tolist(), label=f"{name}, width {width}")
left.set(xlabel="query, key", ylabel="output, value")
left.legend(fontsize=8, loc="lower left")
_, weights = kernel_regression(WIDTHS["in between"])
plot.heatmap(right, weights[:, k.argsort()], cmap="Blues")
right.set_yticks(range(0, 121, 20), range(7))
right.set(xlabel="key, in order", ylabel="query", title="weights, width 0.3")
plot.show(
    figure,
    alt="Left: noisy points of a sine. The flat curve is nearly level, the sharp one jumps from point to "
    "point, the one in between follows the sine. Right: the weights are a dark band along the diagonal.",
)

# %% [markdown]
# Where is the dot product? Multiply the score out, now for vectors and $\sigma = 1$:
#
# $$-\tfrac12 \lVert q - k_j \rVert^2 = q^\top k_j - \tfrac12 \lVert k_j \rVert^2 - \tfrac12 \lVert q \rVert^2 .$$
#
# The last term is the same for every key, and a softmax does not see what is added to all its scores. So
# dot-product attention is kernel regression that prefers long keys. With keys of one length even that
# difference is gone. The states of section 1, as they are and cut to length 1:

# %%
for name, keys in (("as they are", memory), ("of length 1", F.normalize(memory, dim=1))):
    by_distance = -(queries.unsqueeze(1) - keys).square().sum(-1) / 2  # (T, n)
    difference = (
        (attend(by_distance, keys)[1] - attend(queries @ keys.T, keys)[1]).abs().max().item()
    )
    print(f"keys {name}: largest difference of the weights {difference:.3f}")

# %% [markdown]
# ### Pooling by a query (E1)
#
# Chapter 03 made one vector of a story in three ways: last state, mean, maximum. Which is best depended on
# the question. Now the model decides. One vector $q$ of shape $(H)$ is a parameter, learned like any other. It asks
# all states, the rows of $M$ $(n, H)$:
#
# $$o = \sum_{j=1}^{n} \alpha_j h_j, \qquad \alpha = \operatorname{softmax}(M q), \qquad o \in \mathbb{R}^{H} .$$


# %%
class QueryPooling(nn.Module):
    """States (B, n, H) and padding (B, n) to one vector each, (B, H), by a learned query."""

    def __init__(self, hidden):
        super().__init__()
        self.query = nn.Parameter(mt.zeros(hidden))  # we begin with the mean

    def forward(self, states, padding):
        scores = (states @ self.query).unsqueeze(1)  # (B, 1, n)
        outputs, _ = attend(scores, states, padding.unsqueeze(1))
        return outputs.squeeze(1)


# %% [markdown]
# The stories and the reader are chapter 03's. Two questions: one animal is named *anywhere* in up to 40 words;
# which? And five times an animal is named; *which came last*? Guessing is right once in eight.

# %%
QUESTIONS = {"anywhere": 1, "which came last": 5}  # how often an animal is named
POOLS = {"last state": last_state, "mean": mean_of_states, "maximum": max_of_states}


@lab.experiment(
    "E1",
    question=list(QUESTIONS),
    network=["RNN"],
    pool=[*POOLS, "query"],
    rate=1e-2,
    full=dict(network=["RNN", "GRU"], rate=Tuned(3e-3, 1e-2, 3e-2, highest="elsewhere"), seeds=3),
)
def stories_by_pool(question, network, pool, rate, steps=150, longest=40):
    recurrent = {"RNN": nn.RNN, "GRU": nn.GRU}[network]
    model = StoryReader(recurrent, POOLS.get(pool) or QueryPooling(32))
    train_reader(model, longest, QUESTIONS[question], rate, steps)
    found, elsewhere = (stories_right(model, longest, QUESTIONS[question]) for _ in range(2))
    return {"right": found, "elsewhere": elsewhere}  # the rate is chosen on other stories


# %% evidence
# E1: right answers by question, network and pooling, and verdicts
runs = stories_by_pool.run()
networks = runs.best.settings_of("network")
figure, panels = plot.subplots(1, 2, width=9.5, height=3, sharey=True)
for axes, question in zip(panels, QUESTIONS, strict=True):
    for shift, network in enumerate(networks):
        for place, pool in enumerate(reversed(runs.best.settings_of("pool"))):
            right = runs.best.values("right", question=question, network=network, pool=pool)
            at, color = place - 0.2 + 0.4 * shift, plot.COLORS[(5, 4)[shift]]
            label = network if place == 0 else None
            axes.barh(at, np.median(right), height=0.36, color=color, label=label)
            axes.plot(right, [at] * len(right), "|", color="black", markersize=9)
    axes.axvline(1 / 8, color="0.4", linewidth=1, linestyle="--", label="guessing")
    axes.set(xlabel="right answers", xlim=(0, 1.03), title=question)
panels[0].set_yticks(range(4), reversed(runs.best.settings_of("pool")))
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
plot.show(
    figure,
    alt="Right answers of four ways to pool. Anywhere: query and maximum are at one with both networks; with the "
    "RNN the mean has more than half and the last state little more than chance. Which came last: the last state "
    "is near one, and so is the GRU's query; the RNN's mean, maximum and query are below a half.",
)
for network in networks:
    runs.table("pool", "right", columns="question", network=network)


def right_by_rnn(rows, question, pool):
    return rows.values("right", network="RNN", question=question, pool=pool)


runs.holds(
    "the RNN's query finds the animal anywhere",
    lambda rows: right_by_rnn(rows, "anywhere", "query"),
    above=0.9,
)
runs.holds(
    "it is ahead of the last state and of the mean by over 0.1",
    lambda rows: (
        right_by_rnn(rows, "anywhere", "query")
        - np.maximum(*(right_by_rnn(rows, "anywhere", pool) for pool in ("last state", "mean")))
    ),
    above=0.1,
)
runs.holds(
    "it does not know what came last",
    lambda rows: right_by_rnn(rows, "which came last", "query"),
    below=0.6,
)

# %% [markdown]
# A query finds *content*: wherever the animal stands, it is found, as by the maximum. It does not find *order*: a
# weighted mean of a set forgets in which order the set came. Chapter 05 makes a theorem of that (C10). That the GRU's
# query knows what came last is no exception: its states have read the story in order, and can carry the order with them.
#
# > **E1 · For content a query is as good as the maximum, 1.00; for order it needs states that carry it: GRU 0.93,
# > RNN 0.40.** *Our question*: does attention with one learned query pool better than the last state and the mean
# > (chapter 03, C31)?
# >
# > *Measured*: Right answers in stories of 20 to 40 words, three seeds, chance 0.125. Anywhere, plain RNN: query and maximum
# > 1.00, mean 0.58 to 0.80, last state 0.13 to 0.24; GRU: 0.99 to 1.00 with all four. Which came last, plain RNN: last
# > state 0.90 to 0.96, query 0.37 to 0.40, mean 0.28 to 0.33, maximum 0.26 to 0.30; GRU: 1.00, 0.93 to 1.00, 0.29 to 0.38,
# > 0.67 to 0.86.
#
# ## 6. Four score functions
#
# Back to the translator. The dot product asks that decoder and encoder speak the same language, number by
# number. Others learn how to compare. With $s$ for the decoder's state and $h$ for the encoder's, both of
# shape $(H)$:
#
# | name | score | learned | from |
# | --- | --- | --- | --- |
# | dot product | $s^\top h$ | nothing | Luong et al., 2015 |
# | multiplicative (bilinear) | $s^\top W h$ | $W$ $(H, H)$ | Luong et al., 2015 |
# | reduced-rank multiplicative | $(U s)^\top (V h)$ | $U$, $V$ $(r, H)$ with $r < H$ | the same, of rank $r$: $W = U^\top V$ |
# | additive | $w^\top \tanh(W_1 h + W_2 s)$ | $W_1$, $W_2$ $(r, H)$, $w$ $(r)$ | Bahdanau et al., 2015 |
#
# The dot product needs both states to have one size; the others do not. Each is a few lines, from states
# $(B, T, H)$ and memory $(B, n, H)$ to scores $(B, T, n)$.


# %%
class DotProduct(nn.Module):
    """Scores s . h."""

    def __init__(self, width):
        super().__init__()

    def forward(self, states, memory):
        return states @ memory.mT


class Multiplicative(nn.Module):
    """Scores s . W h."""

    def __init__(self, width):
        super().__init__()
        self.W = nn.Linear(width, width, bias=False)

    def forward(self, states, memory):
        return states @ self.W(memory).mT


# %%
class ReducedRank(nn.Module):
    """Scores U s . V h, with a quarter of the width as rank."""

    def __init__(self, width):
        super().__init__()
        self.U = nn.Linear(width, width // 4, bias=False)
        self.V = nn.Linear(width, width // 4, bias=False)

    def forward(self, states, memory):
        return self.U(states) @ self.V(memory).mT


# %% [markdown]
# "Additive" is an odd name for a small feed-forward network with $r$ hidden units that gives a number. Two
# `unsqueeze` lay out the memory as $(B, 1, n, r)$ and the states as $(B, T, 1, r)$, and broadcasting adds
# every pair. A fifth score is the same for every word: that is the mean, our starting point.


# %%
class Additive(nn.Module):
    """Scores w . tanh(W_1 h + W_2 s), with as many hidden units as the width."""

    def __init__(self, width):
        super().__init__()
        self.W_1 = nn.Linear(width, width, bias=False)
        self.W_2 = nn.Linear(width, width, bias=False)
        self.w = nn.Linear(width, 1, bias=False)

    def forward(self, states, memory):
        hidden = (self.W_1(memory).unsqueeze(-3) + self.W_2(states).unsqueeze(-2)).tanh()
        return self.w(hidden).squeeze(-1)  # (..., T, n, r) to (..., T, n)


class Mean(nn.Module):
    """The score 0 for every word, so that all weights are equal."""

    def __init__(self, width):
        super().__init__()

    def forward(self, states, memory):
        return mt.zeros(*states.shape[:-1], memory.shape[-2])


# %%
SCORES = {
    "dot product": DotProduct,
    "multiplicative": Multiplicative,
    "reduced rank": ReducedRank,
    "additive": Additive,
}

# %% [markdown]
# One entry of each, the score of step 2 and word 4, beside its formula in the table:

# %%
mt.manual_seed(0)
states, remembered = mt.randn(3, 16), mt.randn(5, 16)  # (T, H), (n, H)
scores = {name: make(16) for name, make in SCORES.items()}
s, h = states[1], remembered[3]
bilinear, reduced, additive = (scores[name] for name in list(SCORES)[1:])
formulas = {
    "dot product": s @ h,
    "multiplicative": s @ bilinear.W.weight @ h,
    "reduced rank": (reduced.U.weight @ s) @ (reduced.V.weight @ h),
    "additive": additive.w.weight[0] @ (additive.W_1.weight @ h + additive.W_2.weight @ s).tanh(),
}
for name, formula in formulas.items():
    entry = scores[name](states, remembered)[1, 3]
    print(f"{name:15} {entry.item():7.4f}   by its formula {formula.item():7.4f}")

# %% [markdown]
# What do they cost? Parameters can be counted, and so can FLOPs (chapter 00), here for $T = n = 12$ and $H = 64$.
# The products over *pairs* of states cost $2 T n H$ for the dot product; the others first project, $2 n H r$
# for each matrix that is applied to $n$ words. The additive score makes $r$ numbers for every pair and puts
# each through a $\tanh$; that is the last column.


# %%
def cost_of(score, width, n=12):
    """Parameters of a score, and the FLOPs of its products for n steps and n words."""
    with count_flops() as counter:
        score(mt.zeros(1, n, width), mt.zeros(1, n, width))
    return sum(p.numel() for p in score.parameters()), counter.total


H, n = 64, 12
print("score           parameters     FLOPs   numbers in the largest tensor")
for name, make in SCORES.items():
    parameters, flops = cost_of(make(H), H)
    largest = n * n * H if name == "additive" else n * H
    print(f"{name:15} {parameters:10,} {flops:9,} {largest:9,}")

# %% [markdown]
# ## 7. A translator with attention
#
# Data, model and training are chapter 03's: numbers in words. Of the numbers that are held out we report on some,
# and choose learning rates by others, *elsewhere*.

# %%
training, held_out, elsewhere = number_texts()
for name, text in {"training": training, "held out": held_out, "elsewhere": elsewhere}.items():
    print(f"{name:9} {len(text.pairs):6,} pairs")

# %% evidence
# The decoder of chapter 03, looking back
figure, axes = plot.subplots(width=8, height=2.8)
everywhere = mt.ones(1, 5) / 5  # the look of the end token
looks = mt.cat([weights_by_loop, everywhere])
diagrams.decoder(axes, english_words, [*german_words, "</s>"], looks)
plot.show(
    figure,
    alt="Five encoder states read two hundred and ninety three; six decoder states read the start token and "
    "the German words so far. Lines lead from all encoder states to an attention output above each decoder "
    "state, thick from the word that is translated, and from there an arrow to the next German word.",
)

# %% [markdown]
# The blue lines are new. `begin` hands over the states of *all* words, and `look` lets the decoder's states
# attend to them. What they find is joined to them before the output layer:
#
# $$P(y_t \mid y_{<t}, x) = \operatorname{softmax}([s_t; o_t]\, W_o + b_o)_{y_t}, \qquad [s_t; o_t] \in \mathbb{R}^{2H} .$$


# %%
class LooksBack(EncoderDecoder):
    """Chapter 03's translator, whose decoder attends to the states of all source words."""

    def __init__(self, score, text, hidden):
        source_size, target_size = len(text.source_words), len(text.target_words)
        super().__init__(source_size, target_size, hidden=hidden)
        self.score = score
        self.out = nn.Linear(2 * hidden, target_size)

    def begin(self, source):
        memory, last = self.encode(source)  # (B, n, H), (1, B, H)
        return last, memory, source == PAD

    def look(self, tokens, state):
        """States joined to what they find (B, T, 2H), the weights (B, T, n), the next state."""
        last, memory, padding = state
        states, last = self.decoder(self.target_embedding(tokens), last)  # (B, T, H)
        found, weights = attend(self.score(states, memory), memory, padding.unsqueeze(1))
        return mt.cat([states, found], dim=-1), weights, (last, memory, padding)

    def decode(self, tokens, state):
        joined, _, state = self.look(tokens, state)
        return self.out(joined), state


# %% [markdown]
# The input of the decoder does not depend on $o_t$, so its GRU runs over the whole target in one call, and
# attention takes a few operations for the whole batch. Training and `translate` work unchanged.
#
# ### The bottleneck gone (C6)
#
# Chapter 03 varied the width of the one vector (C5). Here are several widths with one vector and with attention by
# dot product. Both get the same data, 500 steps and the same care: for each width a learning rate chosen elsewhere.


# %%
def translator_that_reads(reads, hidden):
    if reads == "attention":
        return LooksBack(DotProduct(hidden), training, hidden)
    return EncoderDecoder(len(training.source_words), len(training.target_words), hidden=hidden)


@lab.experiment(
    "C6",
    reads=["one vector", "attention"],
    hidden=[32],
    rate=1.6e-2,
    full=dict(
        hidden=[32, 64, 128],
        rate=Tuned(4e-3, 8e-3, 1.6e-2, highest="right elsewhere"),
        seeds=3,
    ),
)
def right_with_attention(reads, hidden, rate, steps=500):
    model = translator_that_reads(reads, hidden)
    train_translator(model, training, rate, steps)
    by_length = right_by_length(model, held_out)
    return {
        "right": by_length,
        "16-18 words": by_length[-1],
        "right elsewhere": fully_right(model, elsewhere).float().mean(),
    }


# %% evidence
# C6: exact match against the length of the source, for each width, and verdicts
runs = right_with_attention.run()
figure, panels = plot.subplots(1, 2, width=9.5, height=3.2, sharey=True)
for axes, reads in zip(panels, ("one vector", "attention"), strict=True):
    for width in runs.best.settings_of("hidden"):
        curves = runs.best.values("right", reads=reads, hidden=width)
        plot.spread(axes, LENGTHS, curves, marker="o", markersize=4, label=f"H = {width}")
    here = runs.here.values("right", reads=reads, hidden=32)[0]
    axes.plot(LENGTHS, here, "x", color="black", label="H = 32, measured here")
    axes.set(xlabel="source length (English words)", ylim=(-0.03, 1.03), title=reads)
panels[0].set_ylabel("exact match")
panels[1].legend(loc="lower left", title="line: recorded, band: 3 seeds")
plot.show(
    figure,
    alt="Exact match against source length for three widths of the states. With one vector all curves fall, the "
    "narrower the earlier, that of 32 to zero from 10 words on. With attention all curves are level near one.",
)
runs.table("hidden", "16-18 words", columns="reads")
runs.holds(
    "with one vector of 32 numbers hardly a long sentence is right",
    lambda rows: rows.values("16-18 words", reads="one vector", hidden=32),
    below=0.1,
)
runs.holds(
    "with attention to states of 32 numbers most are",
    lambda rows: rows.values("16-18 words", reads="attention", hidden=32),
    above=0.75,
)

# %% [markdown]
# With one vector, exact match falls with the length of the source, and the sooner the narrower the vector. With
# attention all widths are nearly level: of the longest sentences, states of 32 numbers that are looked at get about nine in
# ten right, one vector of 128 numbers one in ten at best. No vector has to hold eighteen words any more.
#
# > **C6 · holds: After 500 steps 0.87 and more of the longest sources are right with attention, at most 0.10
# > with one vector.** *The lectures* (deck 3, "Attention is great!"): "Attention solves the bottleneck
# > problem".
# >
# > *Measured*: Exact match at 16 to 18 words after 500 steps, three seeds. With attention: states of 32 numbers 0.87 to 0.94,
# > of 64 1.00, of 128 0.99 to 1.00. With one vector: 32 and 64 numbers 0, 128 numbers 0.04 to 0.10.
#
# ## 8. Comparing score functions, and feeding back
#
# When the decoder chooses where to look at step $t$, nothing tells it where it looked at step $t - 1$, except what
# it said. **Input feeding** (Luong et al., 2015) gives the attention output back to the decoder, beside its
# next input, the embedding $E'_{y_{t-1}}$:
#
# $$s_t = \mathrm{GRU}\big([E'_{y_{t-1}};\, o_{t-1}],\, s_{t-1}\big), \qquad o_0 = 0, \qquad o_t \text{ by the query } s_t .$$
#
# Bahdanau et al. (2015) look *before* they step, with the old state:
#
# $$o_t \text{ by the query } s_{t-1}, \qquad s_t = \mathrm{GRU}\big([E'_{y_{t-1}};\, o_t],\, s_{t-1}\big) .$$
#
# Either has a price. A state now waits for an attention output, so the decoder is back to a loop, one score,
# softmax and mix a step. Luong's order:


# %%
class FedBack(LooksBack):
    """A translator whose decoder also reads the attention output of the step before."""

    def __init__(self, score, text, hidden):
        super().__init__(score, text, hidden)
        width = self.target_embedding.embedding_dim
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)

    def begin(self, source):
        last, memory, padding = super().begin(source)
        return (last, mt.zeros_like(memory[:, :1])), memory, padding  # o_0 is (B, 1, H)

    def look(self, tokens, state):
        (last, found), memory, padding = state
        joined, rows = [], []
        for x_t in self.target_embedding(tokens).split(1, dim=1):  # (B, 1, d)
            s_t, last = self.decoder(mt.cat([x_t, found], dim=-1), last)
            found, weights = attend(self.score(s_t, memory), memory, padding.unsqueeze(1))
            joined.append(mt.cat([s_t, found], dim=-1))
            rows.append(weights)
        return mt.cat(joined, dim=1), mt.cat(rows, dim=1), ((last, found), memory, padding)


# %% [markdown]
# ### Four score functions (C8)
#
# Given time, all of them translate nearly every number, so we ask how many steps each needs to reach an exact
# match of 90 %, in a smaller setting: $H = 64$, numbers of 1 to 5 digits. For each a learning rate is chosen on
# other numbers and seeds, by the mean of the learning curve; then come eight seeds. Beside the four run the mean,
# which does not look anywhere, and the additive score fed back. All six are also asked for six digits, longer
# than anything that they were trained on.

# %%
short, short_held_out, short_elsewhere = number_texts(digits=(1, 5), tested=(3, 5))
six_digits = number_pairs(300, digits=(6, 6), held_out=True, seed=3)
too_long = ParallelText(six_digits, short.source_words, short.target_words)


def share_fully_right(model, text):
    return fully_right(model, text).float().mean().item()


def pass_time(model):
    """Milliseconds of processor time for a batch forward and backward, the fastest of five."""
    batch, times = short.batch(range(64)), []
    for _ in range(5):
        start = process_time()
        teacher_forced_loss(model, *batch).backward()
        times.append(1000 * (process_time() - start))
    return min(times)


# %%
CONTESTANTS = SCORES | {"additive, fed back": Additive, "mean": Mean}
RATES = Tuned(8e-3, 1.6e-2, 3.2e-2, highest="elsewhere", seeds=2)


@lab.experiment(
    "C8",
    score=["multiplicative", "additive", "mean"],
    rate=1.6e-2,
    full=dict(score=list(CONTESTANTS), rate=RATES, seeds=8),
)
def steps_to_ninety(score, rate, steps=120, hidden=64):
    make = FedBack if score == "additive, fed back" else LooksBack
    model = make(CONTESTANTS[score](hidden), short, hidden)

    def look():
        return share_fully_right(model, short_held_out), share_fully_right(model, short_elsewhere)

    _, looks = train_translator(model, short, rate, steps, every=10, look=look)
    right, other = zip(*looks, strict=True)
    at_ninety = [10 * (i + 1) for i, share in enumerate(right) if share >= 0.9]
    return {
        "step": list(range(10, steps + 1, 10)),
        "exact match": right,
        "steps to 90 %": at_ninety[0] if at_ninety else None,
        "elsewhere": sum(other) / len(other),
        "six digits": share_fully_right(model, too_long),
        "ms a pass": pass_time(model),
    }


# %% evidence
# C8: learning curves, steps to 90 %, cost, and verdicts
runs = steps_to_ninety.run()
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3.2)
for i, score in enumerate(runs.best.settings_of("score")):
    curves = runs.best.values("exact match", score=score)
    style = dict(color=plot.COLORS[i], linestyle=plot.LINES[i], label=score)
    left.plot(range(10, 121, 10), np.median(curves, axis=0), **style)
    for rows, mark in ((runs.best, "o"), (runs.here, "x")):
        if not rows.has(score=score):
            continue
        steps = rows.values("steps to 90 %", score=score)
        places = i + np.linspace(-0.25, 0.25, len(steps)) if len(steps) > 1 else [i]
        color = plot.COLORS[i] if mark == "o" else "black"
        right.plot(steps, places, mark, color=color, markersize=5)
right.text(80, len(CONTESTANTS) - 1, "never", ha="center", va="center", color="0.35")
left.axhline(0.9, color="0.4", linewidth=1, linestyle="--")
left.set(xlabel="step", ylabel="exact match", ylim=(0, 1.02), title="medians of 8 seeds")
left.legend(fontsize=8, loc="lower right")
right.set_yticks(range(len(CONTESTANTS)), CONTESTANTS)
right.set(xlabel="steps to 90 %", xlim=(0, 125), ylim=(len(CONTESTANTS) - 0.5, -0.5))
right.set_title("dots: 8 seeds recorded; crosses: here")
plot.show(
    figure,
    alt="Left: exact match against training steps; the four score functions and input feeding rise together to above "
    "0.9, the mean stays far below. Right: the step at which each seed has 90 %, between 40 and 100; the rows of the "
    "five overlap, and the mean has none.",
)
runs.table("score", ["steps to 90 %", "six digits", "ms a pass"])


def ahead_of_the_mean(rows):
    worst = [rows.values("exact match", score=score)[:, -1] for score in SCORES]
    return np.min(worst, axis=0) - rows.values("exact match", score="mean")[:, -1]


runs.holds("all four end at least 0.1 above the mean", ahead_of_the_mean, above=0.1)
for score in ("dot product", "additive"):
    runs.finding(
        f"the multiplicative score takes more steps than the {score}",
        "steps to 90 %",
        larger=dict(score="multiplicative"),
        smaller=dict(score=score),
    )
runs.holds("six digits remain out of reach", lambda rows: rows.values("six digits"), below=0.05)

# %% [markdown]
# - **Any choice beats none.** The mean does learn, but it is far behind when all others are done.
# - **The multiplicative score lags**: it takes more steps than the dot product and than the additive score, with eight
#   seeds a finding by chapter 00's rule, though their ranges overlap. Among the other three no difference is one. The
#   dot product, which learns nothing, does not lag. So take the cheap one: later models use products, and chapter 05
#   goes back to the simplest. (In a larger study, Britz et al., 2017, the additive score came out slightly ahead.)
# - **Input feeding gains nothing here**, and its pass is the slowest.
# - **Six digits remain out of reach.** Attention removes the bottleneck, but it does not teach a model what it has
#   never seen: hundreds before *tausend*.
#
# > **C8 · not: Dot product, reduced rank and additive score take 40 to 100 steps, no difference a finding;
# > the multiplicative takes 70 to 100.** *The lectures* (deck 3, "Attention variants", "Sequence-to-sequence
# > with attention"): the four score functions have "relative advantages/disadvantages"; "sometimes we take
# > the attention output from the previous step, and also feed it into the decoder".
# >
# > *Measured*: Steps to 90 % exact match, eight seeds: dot product 40 to 80, multiplicative 70 to 100, reduced rank 50 to
# > 100, additive 60 to 70, additive and fed back 60 to 80; the mean never. Of numbers of six digits at most 0.03 are right.
# > Parameters differ from 0 to 8,256, FLOPs from 18,432 to 215,040; a pass takes 9 to 10 ms with the additive score, 11 to 16
# > fed back.
#
# ## 9. A shorter path for the gradient
#
# Chapter 01 followed the gradient back through a recurrent network and saw it vanish with distance. In
# chapter 03's translator, what the loss has to say about the first source word must go back through every state
# in between. Attention adds a second path. With the loss of one step as a function of $s_t$ and $o_t$,
#
# $$\frac{\partial L}{\partial h_j} \;=\; \underbrace{\alpha_{tj}\, \frac{\partial L}{\partial o_t}}_{\text{one step, at any distance}}
# \;+\; \underbrace{\Big(\frac{\partial h_n}{\partial h_{n-1}} \cdots \frac{\partial h_{j+1}}{\partial h_j}\Big)^{\!\top} \frac{\partial L}{\partial h_n}}_{n - j \text{ steps, as before}}
# \;+\; \cdots$$
#
# where the dots are the paths through the weights and through other states. The first term has no product of
# Jacobians. It does not depend on the distance $n - j$ but on the weight $\alpha_{tj}$, about $1/n$ before training.
#
# ### The gradient at early states (C32)
#
# An untrained GRU reads $n = 60$ random inputs, an untrained decoder takes one step from its last state,
# and an output layer reads either $s_1$ or $[s_1; o_1]$. The norm of the gradient at every encoder state:


# %%
@lab.experiment("C32", decoder=["one vector", "attention"], full=dict(seeds=5))
def gradient_at_states(decoder, n=60, width=64):
    encoder, step = nn.GRUCell(width, width).double(), nn.GRUCell(width, width).double()
    h, states = mt.zeros(1, width).double(), []
    for x_j in mt.randn(n, 1, width).double():
        h = encoder(x_j, h)
        h.retain_grad()
        states.append(h)
    features = s = step(mt.randn(1, width).double(), h)  # (1, H)
    if decoder == "attention":
        memory = mt.cat(states)  # (n, H)
        o, weights = attend(s @ memory.T, memory)
        o.retain_grad()
        features = mt.cat([s, o], dim=-1)
    scores = nn.Linear(features.shape[-1], 32).double()(features)
    F.cross_entropy(scores, mt.randint(0, 32, (1,))).backward()
    norms = [state.grad.norm().item() for state in reversed(states)]
    direct = o.grad.norm() * weights.median() if decoder == "attention" else 0.0
    return {"distance n - j": list(range(n)), "norm of the gradient": norms, "first term": direct}


# %% evidence
# C32: the gradient against the distance, and verdicts
runs = gradient_at_states.run()
first_term = float(np.median(runs.best.values("first term", decoder="attention")))
runs.draw(
    x="distance n - j",
    y="norm of the gradient",
    by="decoder",
    log="y",
    lines={"the first term alone": first_term},
    height=3.2,
    alt="Norm of the gradient against distance on a log scale: with one vector a straight line downwards, with "
    "attention level after a few steps, a little above the line of the first term.",
)
for decoder, sentence, bound in (
    (
        "one vector",
        "with one vector the gradient 40 steps back is below a millionth",
        {"below": 1e-6},
    ),
    ("attention", "with attention it is above a hundredth of the nearest", {"above": 1e-2}),
):

    def far_from_near(rows, decoder=decoder):
        curves = rows.values("norm of the gradient", decoder=decoder)
        return curves[:, 40] / curves[:, 0]

    runs.holds(sentence, far_from_near, **bound)


def level(rows):
    """The median from 20 steps back on, over the first term alone."""
    curves = rows.values("norm of the gradient", decoder="attention")
    return np.median(curves[:, 20:], axis=1) / rows.values("first term", decoder="attention")


runs.holds("the level is a few times the first term alone", level, between=(1, 5))

# %% [markdown]
# Without attention the gradient falls by a factor of ten every four or five steps, as in chapter 01. With it, the
# curve is the same for the last few states, and then level, at two to three times the first term alone; the rest
# are the dots. The shortcut helps whatever is attended to. It does nothing for the recurrence itself: what state
# $j$ knows of the words before it still comes the long way.
#
# > **C32 · holds: 40 steps back the gradient is 0.010 to 0.028 with attention and at most 1.3e-9 with
# > one vector.** *The lectures* (deck 3, "Attention is great!"): attention "helps with the vanishing
# > gradient problem", it "provides shortcut to faraway states".
# >
# > *Measured*: Norm of the gradient at the state 40 steps back, five seeds, untrained: 0.010 to 0.028 with attention,
# > 3.0e-10 to 1.3e-9 with one vector; at the nearest state 0.22 to 0.26 and 0.25 to 0.35.
#
# ## 10. Where it looks
#
# Nobody told the model which words belong together; the weights are a by-product of translating. We draw them for
# four held-out numbers. Row $t$ holds $\alpha_{t1}, \dots, \alpha_{tn}$, with which the piece at the left was
# predicted. Framed cells are the true alignment, which our data know: which piece speaks for which digit.


# %%
@cache
def trained_to_look(seed, steps):
    """A translator that attends by additive scores, trained from this seed."""
    mt.manual_seed(seed)
    model = LooksBack(Additive(64), training, 64)
    train_translator(model, training, 1.6e-2, steps)
    return model


@mt.no_grad()
def weights_of_pairs(model, text):
    """For each pair the weights (T, n) with which its true target pieces are predicted."""
    _, weights, _ = model.look(text.target[:, :-1], model.begin(text.source))
    sizes = [(len(pair.target), len(pair.source)) for pair in text.pairs]
    return [of_pair[:T, :n] for of_pair, (T, n) in zip(weights, sizes, strict=True)]


model = trained_to_look(seed=0, steps=300)
shown = (293, 68, 4_783, 71_234)
four = [number_pair(number) for number in shown]
examples = ParallelText(four, training.source_words, training.target_words)
for pair, said in zip(four, translate(model, examples), strict=True):
    measured(f"{pair.number:6,}  {join_pieces(said, 'de')}")

# %% evidence
# Maps of four held-out numbers, with the true alignment framed
maps = [
    (weights, pair.target, pair.source, [(t, j) for t, js in enumerate(pair.alignment) for j in js])
    for weights, pair in zip(weights_of_pairs(model, examples), four, strict=True)
]
figure, panels = plot.alignments(maps, width=10)
for axes, number in zip(panels, shown, strict=True):
    axes.set(title=f"{number:,}", xlabel="", ylabel="")
plot.show(
    figure,
    alt="Four maps. Most dark cells lie in the frames; where German says the unit before the ten, the dark "
    "cells step back to the right of the diagonal and return.",
)

# %% [markdown]
# The last map once more, to point at: choose a piece, and read from which words it was predicted.


# %% evidence
# The weights of 71,234, to point at
def predicting(source, target):
    """Scores of each piece of the target, given those before it."""
    read = training.target_words.encode(["<s>", *target[:-1]])
    return model(training.source_words.encode(source).unsqueeze(0), read.unsqueeze(0))


window(predicting, examples.pairs[-1].source, examples.pairs[-1].target)

# %% [markdown]
# ### Alignment for free (C7)
#
# How good are these maps? For each target piece that translates some word, take the word with the largest
# weight. The **alignment error** is the share of pieces for which it is a wrong one. Of two rivals one picks a word *at random*, the other follows the *diagonal*, the word $j$ with $(j - \tfrac12) / n$ nearest to
# $(t - \tfrac12) / T$. That is strong wherever order is kept, so we look at kinds of pieces apart: digits whose order
# German turns round (a unit with *und* and its ten after it), other digits, and the large words.
#
# But does the answer *depend* on the look? Jain and Wallace (2019) found weights that could be moved without
# changing a model's answer, and doubted that a map explains anything. So we make all weights of the trained model
# equal, with the true pieces before each, and see which predictions stay.


# %%
def kind_of(pair, t):
    piece = pair.target[t]
    if piece in ("und", "hundert", "tausend"):
        return piece
    if piece.startswith("Million"):
        return "Million"
    turned = "und" in pair.target[max(t - 1, 0) : t + 2]
    return "digits turned round" if turned else "other digits"


def wrong_words(pairs, picks):
    """For each piece that translates a word: its kind, and whether the word picked is a wrong one."""
    for pair, picked in zip(pairs, picks, strict=True):
        for t, sources in enumerate(pair.alignment):
            if sources:
                yield kind_of(pair, t), picked[t] not in sources


@mt.no_grad()
def unmoved(model, text):
    """For each piece: its kind, and whether the prediction stays with all weights made equal."""
    equal = deepcopy(model)
    equal.score = Mean(64)
    inputs = text.source, text.target[:, :-1]
    same = model(*inputs).argmax(-1) == equal(*inputs).argmax(-1)  # (N, T)
    for pair, row in zip(text.pairs, same.tolist(), strict=True):
        for t in range(len(pair.target)):
            yield kind_of(pair, t), row[t]


# %%
def shares(pieces):
    """Of the pieces of each kind, and of all, the share for which it is so."""
    found = defaultdict(list)
    for kind, so in pieces:
        found[kind].append(so)
        found["all pieces"].append(so)
    return {kind: sum(of_kind) / len(of_kind) for kind, of_kind in found.items()}


@lab.experiment("C7", steps=220, full=dict(steps=300, seeds=5))
def alignment_and_use(seed, steps):
    model = trained_to_look(seed, steps)
    picks = [weights.argmax(-1).tolist() for weights in weights_of_pairs(model, held_out)]
    errors = shares(wrong_words(held_out.pairs, picks))
    stays = shares(unmoved(model, held_out))
    found = {f"error, {kind}": share for kind, share in errors.items()}
    found |= {f"stays, {kind}": share for kind, share in stays.items()}
    return found | {"exact match": fully_right(model, held_out).float().mean()}


# %% evidence
# C7: alignment errors by kind of piece, what equal weights leave as it is, and verdicts
runs = alignment_and_use.run()
sizes = [(len(pair.target), len(pair.source)) for pair in held_out.pairs]
along = [[round((t + 0.5) / T * n - 0.5) for t in range(T)] for T, n in sizes]
mt.manual_seed(0)
drawn = [mt.randint(0, n, (T,)).tolist() for T, n in sizes]
diagonal, by_chance = (shares(wrong_words(held_out.pairs, picks)) for picks in (along, drawn))
kinds = [
    "all pieces",
    "digits turned round",
    "other digits",
    "hundert",
    "tausend",
    "Million",
    "und",
]
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3.4, sharey=True)
for place, kind in enumerate(reversed(kinds)):
    for axes, what in ((left, "error"), (right, "stays")):
        if kind == "und" and axes is left:
            continue
        found = runs.best.values(f"{what}, {kind}")
        axes.barh(place, np.median(found), height=0.65, color=plot.COLORS[5])
        axes.plot(found, [place] * len(found), "|", color="black", markersize=13)
    if kind in diagonal:
        left.plot(diagonal[kind], place, "D", color=plot.COLORS[1], fillstyle="none")
        left.plot(by_chance[kind], place, "x", color="0.3")
left.text(0.5, 0, "translates no word", ha="center", va="center", color="0.35")
left.plot([], [], "D", color=plot.COLORS[1], fillstyle="none", label="diagonal")
left.plot([], [], "x", color="0.3", label="at random")
figure.legend(loc="outside lower left", ncols=2, fontsize=9)
left.set_yticks(range(len(kinds)), reversed(kinds))
left.set(xlabel="alignment error (bar: attention)", xlim=(-0.02, 1.03))
right.set(xlabel="predictions that stay with equal weights", xlim=(-0.02, 1.03))
plot.show(
    figure,
    alt="Left, alignment error: attention's is near zero for digits, where the diagonal's is near one if they are "
    "turned round; for hundert and tausend it may be larger. Right: with equal weights most of hundert stays, "
    "and at most half of the digits.",
)
rows = [
    [
        kind,
        f"{diagonal[kind]:.3f}" if kind in diagonal else "",
        f"{by_chance[kind]:.3f}" if kind in diagonal else "",
        spread(runs.best.values(f"error, {kind}")) if kind in diagonal else "",
        spread(runs.best.values(f"stays, {kind}")),
    ]
    for kind in kinds
]
exact = spread(runs.best.values("exact match"))
table(
    ["", "diagonal", "at random", "attention", "stays with equal weights"],
    rows,
    f"alignment error by kind of piece; exact match of the translators {exact}",
    folded=True,
)
for kind, below in (("all pieces", 0.1), ("digits turned round", 0.05)):
    runs.holds(
        f"attention picks the right word, {kind}",
        lambda rows, kind=kind: rows.values(f"error, {kind}"),
        below=below,
    )
runs.holds(
    "the diagonal is nearly always wrong where order is turned",
    diagonal["digits turned round"],
    above=0.9,
)
runs.holds(
    "with equal weights hundert stays oftener than digits turned round by over 0.25",
    lambda rows: rows.values("stays, hundert") - rows.values("stays, digits turned round"),
    above=0.25,
)
runs.holds(
    "with equal weights digits turned round do not",
    lambda rows: rows.values("stays, digits turned round"),
    below=0.7,
)

# %% [markdown]
# Attention nearly always picks the right word, also where German turns the order round and the diagonal is
# practically always wrong. Half of the digits or more change when the weights are made equal: there the map shows
# something that the answer depends on. *hundert* is the other case. Its maps are good, too, and yet most stay: the
# decoder knows (we guess) from its own words, and from the rough picture that the mean gives, that it must come. A clear map is no proof that the look was needed.
#
# > **C7 · holds: Of the digits whose order German turns at most 0.009 are misaligned, along the
# > diagonal 0.999.** *The lectures* (deck 3, "Attention is great!"): "We get (soft) alignment for
# > free!"
# >
# > *Measured*: Alignment error, five seeds of 0.988 to 0.997 exact match: over the digits whose order German turns 0 to
# > 0.009, against 0.999 along the diagonal and 0.892 at random; over all pieces 0.004 to 0.018, against 0.516 and
# > 0.895. With equal weights 0.29 to 0.50 of the turned digits stay, and 0.79 to 0.99 of *hundert*, whose error is
# > 0.001 to 0.076.
#
# ### A state is not a word
#
# The map's columns are labelled with words, but the weight lies on the *state* at that word, and a bidirectional
# GRU has put its neighbours into it. What is a state made of? For every state and word of a sentence we take the
# norm of the Jacobian $\partial h_i / \partial x_j$, the root of the sum of its squares, and divide each row by its sum.


# %%
def made_of(model, source):
    """How much word j has to do with state i, (n, n): rows that sum to 1, for source (1, n)."""
    x = model.source_embedding(source).detach().requires_grad_()  # (1, n, d)
    states, _ = model.encoder(x)  # (1, n, H)
    rows = []
    for state in states[0]:
        jacobian = mt.stack([mt.autograd.grad(h, x, retain_graph=True)[0][0] for h in state])
        rows.append(jacobian.square().sum((0, 2)).sqrt())  # (H, n, d) to (n)
    norms = mt.stack(rows)
    return norms / norms.sum(1, keepdim=True)


number = number_pair(4_783)
mixed = made_of(model, training.source_words.encode(number.source).unsqueeze(0))

# %% evidence
# What the states of 4,783 are made of
figure, axes = plot.subplots(width=6.5, height=3.2)
states = [f"state at {word}" for word in number.source]
plot.attention(axes, mixed, states, number.source, values=True)
axes.set(xlabel="word", ylabel="")
plot.show(
    figure,
    alt="Share of each word in each state: the largest share is the word's own, but its neighbours have "
    "a good part too.",
)
lab.holds(
    "C7",
    "more than a third of a state comes from other words, on average",
    1 - mixed.diagonal().mean().item(),
    above=1 / 3,
)

# %% [markdown]
# About half of a state is its own word. So a model can look at a neighbour and still read the right word
# there. Reading a map, ask two things: would the answer change if the weight moved, and what is in the state that
# it rests on?
#
# Wiegreffe and Pinter (2019) replied that equal weights in a model *trained* with attention are a harsh test, and
# that one should train with equal weights from the start. That is the mean in section 8, and it misses attention.
#
# **Try it**: translate to French, `number_texts(target="fr")`, and look at 97, where three pieces come from one
# word; draw the maps of a `LooksBack(DotProduct(64), training, 64)`; take the `masked_fill` out of `attend` and
# train again; feed back the *weights* instead of the output.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | what is right | why |
# | --- | --- | --- |
# | cross-attention: "all pairs of attention scores" in $\mathbb{R}^{T \times T}$, both sequences of length $T$ (deck 1) | $T \times n$ | target and source have two lengths, and the softmax runs over the source (section 4) |
# | "context vector" | our attention output $o_t$ | the name of Bahdanau et al. |
#
# </details>
#
# ## Summary
#
# - Attention is a weighted mean whose weights are a softmax of scores between a query and keys. In matrices,
#   $\operatorname{softmax}(S M^\top) M$, with minus infinity at padding.
# - It is also soft look-up (C9), kernel regression, and pooling by a query, which finds content and not order (E1).
# - Scores may be dot products, bilinear, of reduced rank, or additive. They differ in parameters and
#   cost; the multiplicative learns more slowly here, the others alike (C8). Feeding the attention output back costs the
#   parallel decoder.
# - The bottleneck of chapter 03 is gone (C6), and the gradient gets a path whose length does not grow with
#   the distance (C32).
# - Alignment comes for free (C7). A map shows where the model looked, not that it had to, and it looked at states,
#   not at words.
#
# What remains: encoder and decoder still read step by step, and the decoder, which sees all states of the
# encoder, has only its own *current* state to speak from. If it can look at all words of the source at once, why
# not at its own, and why must the encoder pass anything from state to state? Chapter 05 takes the recurrence away.
#
# **Exercises**: [set 04](../exercises/04_attention/04_attention.ipynb)
#
# **Read on**: Bahdanau, Cho and Bengio (2015), *Neural machine translation by jointly learning to align
# and translate*. Luong, Pham and Manning (2015), *Effective approaches to attention-based neural machine
# translation*. Britz et al. (2017), *Massive exploration of neural machine translation architectures*.
# Graves, Wayne and Danihelka (2014), *Neural Turing machines*. Jain and Wallace (2019), *Attention is not
# explanation*. Wiegreffe and Pinter (2019), *Attention is not not explanation*.
