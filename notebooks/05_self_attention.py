# %% [markdown]
# # 05 Self-attention
#
# Attention lets the decoder of chapter 04 look at every word of the source. The encoder still reads word
# after word. But if looking at all words at once works so well, why must anybody read step by step? We take
# the recurrence out, let the words of one sequence attend to each other, and see what that brings and what
# it leaves out.
#
# **After this chapter you will be able to**
#
# - compute self-attention with a pencil for one token, in a loop for all, and in matrices for a batch;
# - prove that self-attention has no notion of order;
# - say what an encoder without recurrence loses, and which part of it self-attention brings back;
# - explain why scores are divided by $\sqrt d$, and measure what happens without it;
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
from itertools import permutations
from time import perf_counter
from typing import NamedTuple

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.attention as diagrams
from minitorch import nn
from minitorch.flops import count_flops
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook import plot
from textbook.data import BatchesByLength, Vocabulary, number_pair, number_pairs, number_pieces
from textbook.lab import Lab, Tuned, measured, tqdm

lab = Lab("05")

# %% [markdown]
# ## 1. Recurrence taken out
#
# Chapter 04's encoder turns the embeddings $x_1, \dots, x_n$ of the source words into the memory, one
# state $h_j$ for each word, with a GRU that runs over the sentence in both directions. What the first word
# has to say to the last must pass through every state between them. Without the GRU each word is alone. But
# chapter 04 has another way to pass information: let every word ask all words of its own sentence, as the
# decoder asked them.
#
# When one sequence asks another, as in chapter 04, we speak of **cross-attention**; when a sequence asks
# itself, of **self-attention**.

# %% evidence
# Three encoders of one sentence, and which word reaches which state
figure, panels = plot.subplots(1, 3, width=9, height=2)
for axes, kind in zip(panels, ("GRU", "words alone", "self-attention"), strict=True):
    diagrams.encoder(axes, "be water my friend".split(), kind)
plot.show(
    figure,
    alt="Three encoders of four words. GRU: an arrow from each word to its own state, and arrows between "
    "neighbouring states in both directions. Words alone: one arrow from each word to its own state. "
    "Self-attention: arrows from every word to every state.",
)

# %% [markdown]
# What depends on what can be read off the gradient: $\partial h_i / \partial x_j$ is zero if state $i$ does
# not depend on word $j$. We take nine random words with $d = 16$ numbers each, an untrained GRU, a layer for
# each word alone, and chapter 04's attention with the words themselves as queries, keys and values. A norm
# is the root of the sum of all squares.

# %%
mt.manual_seed(0)
gru = nn.GRU(16, 8, batch_first=True, bidirectional=True)
layer = nn.Linear(16, 16)
encoders = {
    "GRU": lambda x: gru(x)[0],
    "words alone": lambda x: layer(x).tanh(),
    "self-attention": lambda x: F.scaled_dot_product_attention(x, x, x),
}


def influence(encoder, x):
    """The norm of the gradient of each state h_i at each word x_j, (n, n), for x (1, n, d)."""
    x = x.detach().requires_grad_()
    norms = []
    for state in encoder(x)[0]:
        rows = [mt.autograd.grad(number, x, retain_graph=True)[0][0] for number in state]
        norms.append((mt.stack(rows) ** 2).sum(dim=(0, 2)).sqrt())  # (n)
    return mt.stack(norms)


words = 0.5 * mt.randn(1, 9, 16)
norms = {name: influence(encoder, words) for name, encoder in encoders.items()}
for name, matrix in norms.items():
    print(f"{name:14} exactly zero: {int((matrix == 0).sum())} of {matrix.numel()}")

# %% evidence
# The norms as heat maps: which state depends on which word
figure, panels = plot.subplots(1, 3, width=8.5, height=2.8)
for axes, (name, matrix) in zip(panels, norms.items(), strict=True):
    image = plot.heatmap(
        axes, matrix / matrix.amax(), colorbar=False, vmin=0, vmax=1, cmap="Blues", aspect="equal"
    )
    axes.set(xlabel="word j", title=name, xticks=range(0, 9, 2), yticks=range(0, 9, 2))
    axes.set(xticklabels=range(1, 10, 2), yticklabels=range(1, 10, 2))
panels[0].set_ylabel("state i")
figure.colorbar(image, ax=panels, label="norm / largest")
plot.show(
    figure,
    alt="Gradient of nine states at nine words. GRU: a dark diagonal that fades to both sides. Words alone: "
    "the diagonal only. Self-attention: a dark diagonal, and all other cells of about the same pale colour.",
)
first_rows = {name: (matrix / matrix.amax())[0].tolist() for name, matrix in norms.items()}
lines = [f"{name:15}" + " ".join(f"{x:.2f}" for x in row) for name, row in first_rows.items()]
measured("\n".join(["state 1 at words 1 to 9, norm / largest", *lines]))

# %% [markdown]
# The GRU's dependencies fade with distance, words alone have none, and self-attention's do not know distance.
# Its dark diagonal has a reason: a random vector fits nothing as well as itself. To look at *others*, a word
# must be able to ask for something that it is not.
#
# ## 2. Queries, keys and values
#
# Chapter 04 saw attention as soft look-up: a query fits each key to some degree, and we get the values, mixed
# by these degrees. There the decoder asked and the encoder's states answered, as keys and values at once. Now
# each token asks, has a key under which it is found, and a value that it gives. All three are made from its
# vector $x_i$, by three matrices that are learned and shared by all tokens:
#
# $$q_i = x_i Q, \qquad k_i = x_i K, \qquad v_i = x_i V .$$

# %% evidence
# The three roles of one token
figure, axes = plot.subplots(width=7.5, height=2.2)
diagrams.roles(axes, "water")
plot.show(
    figure,
    alt="From the box of one token, water with its vector x, three arrows Q, K and V lead to its query, what it "
    "looks for, its key, what it can be found by, and its value, what it gives when it is found.",
)

# %% [markdown]
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x_i$ | vector of token $i = 1 \dots n$, a row | $(d)$ |
# | $Q$, $K$, $V$ | learned matrices | $(d, d)$ |
# | $q_i$ | query: what token $i$ looks for | $(d)$ |
# | $k_j$ | key: what token $j$ can be found by | $(d)$ |
# | $v_j$ | value: what token $j$ gives when it is found | $(d)$ |
#
# Why three? With $q_i = k_i = x_i$ the best match would often be the token itself, as in the picture above,
# and "three looks for thousand" would mean that "thousand" looks for "three" just as much. And what makes a
# word worth finding need not be what it has to say.
#
# From here on, one small sentence goes with us, the example of one of the lectures: *be water my friend*,
# with $n = 4$, $d = 2$ and numbers that a pencil can handle.

# %%
tokens = ["be", "water", "my", "friend"]
X = mt.tensor([[2.0, 1.0], [0.0, 2.0], [-1.0, 1.0], [1.0, -0.5]])  # (n, d)
Q = mt.tensor([[0.0, 0.5], [1.0, -0.5]])  # (d, d)
K = mt.tensor([[1.0, 0.0], [1.0, 1.0]])
V = mt.tensor([[1.0, -1.0], [0.0, 1.0]])

for token, x_i in zip(tokens, X, strict=True):
    x, q, k, v = (row.tolist() for row in (x_i, x_i @ Q, x_i @ K, x_i @ V))
    print(f"{token:7} x {x!s:12} q {q!s:12} k {k!s:12} v {v}")

# %% [markdown]
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
    print(f"{token:7} score {e:5.2f}   exp {math.exp(e):6.2f}   weight {weight:.3f}")
print(f"sum of the exponentials: {e_1.exp().sum().item():.2f}")
print("output of 'be':", o_1)

# %% evidence
# What "be" asks and what it gets, as arrows
figure, (left, right) = plot.subplots(1, 2, width=8, height=3.2)
diagrams.vectors(left, "k", X @ K, "0.45")
diagrams.vectors(left, "q", q_1.unsqueeze(0), plot.COLORS[1])
diagrams.vectors(right, "v", X @ V, "0.45")
diagrams.vectors(right, "o", o_1.unsqueeze(0), plot.COLORS[0])
left.set(xlim=(-1, 4), ylim=(-1, 2.8), title="'be' asks: its query and all keys")
right.set(xlim=(-2, 3), ylim=(-2, 2.6), title="'be' gets: all values, and their mix")
for axes in (left, right):
    axes.set(aspect="equal", xlabel="first number", ylabel="second number")
plot.show(
    figure,
    alt="Left: the query of be points between the keys 1 and 2, which are long in its direction; keys 3 and 4 "
    "are short. Right: the output lies between the values 1 and 2, nearer to 1.",
)

# %% [markdown]
# With a pencil: $q_1 = (1, 0.5)$ and $k_1 = (3, 1)$ give $3 + 0.5 = 3.5$, and $e^{3.5} = 33.12$ of the sum
# 56.13 is 0.590. So "be" keeps 59 % of its own value and takes 36 % from "water". Now every token in turn:

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
# ## 4. In matrices
#
# The tokens are the rows of $X$, of shape $(n, d)$. Then the queries are the rows of $XQ$, the keys those of
# $XK$, and entry $(i, j)$ of $XQ\,(XK)^\top$ is $q_i^\top k_j$. All of the loop is
#
# $$\text{outputs} = \operatorname{softmax}\big(XQ\,(XK)^\top\big)\, XV \qquad (n, d),$$
#
# with the softmax of each row.

# %% evidence
# The three products as boxes with their shapes
figure, panels = plot.subplots(1, 3, width=9, height=2.3, width_ratios=[1, 1.5, 1.3])
x, q = ("$X$", "(n, d)", 4, 2), ("$XQ$", "(n, d)", 4, 2)
diagrams.product(panels[0], x, ("$Q$", "(d, d)", 2, 2), q)
diagrams.product(panels[1], q, ("$(XK)^T$", "(d, n)", 2, 4), ("scores", "(n, n)", 4, 4))
weighted, v = ("weights", "(n, n)", 4, 4), ("$XV$", "(n, d)", 4, 2)
diagrams.product(panels[2], weighted, v, ("outputs", "(n, d)", 4, 2))
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
print("scores symmetric:", mt.allclose(scores, scores.T))
shared = (X @ Q) @ (X @ Q).T
print("with one matrix for queries and keys:", mt.allclose(shared, shared.T))

# %% evidence
# Scores and weights of the four tokens
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8)
plot.heatmap(left, scores, row_labels=tokens, column_labels=tokens, colorbar=False, cmap="Blues")
for (i, j), score in np.ndenumerate(scores.numpy()):
    shade = "white" if score > 2.5 else "black"
    left.text(j, i, f"{score:.2f}", ha="center", va="center", color=shade)
left.xaxis.set_label_position("top")
left.tick_params(top=False, labeltop=True, bottom=False, labelbottom=False)
left.set(ylabel="query", xlabel="key", title="scores")
plot.attention(right, weights, tokens, tokens, values=True, colorbar=False)
right.set(title="weights: each row adds up to 1")
plot.show(
    figure,
    alt="Scores and weights of the four tokens. The scores are not symmetric: be scores water 3, water scores be "
    "5. Most of the weight of be, water and my is on be, that of friend is spread.",
)

# %% [markdown]
# How much "be" looks at "water" is not how much "water" looks at "be": 3 against 5. With one matrix for
# queries and keys it would be.
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
# **One more division.** A score is a sum of $d$ products. With many numbers a token the scores get large, and a
# softmax of large scores looks at one token only and is hard to teach. Section 7 measures that; the cure fits
# into one line, to divide by the square root of the size of a key. This is **scaled dot-product attention**
# (Vaswani et al., 2017),
#
# $$e_{ij} = \frac{q_i^\top k_j}{\sqrt d}, \qquad
# \text{outputs} = \operatorname{softmax}\!\Big(\frac{XQ\,(XK)^\top}{\sqrt d}\Big)\, XV ,$$
#
# and the form that the rest of the book uses. A query need not come from the sequence that has the keys: $T$
# queries may meet $n$ keys, as in chapter 04. `allowed` is a mask, True where a query may look.


# %% save
def attention(query, key, value, allowed=None):
    """softmax(q k / sqrt(d)) v for (..., T, d), (..., n, d), (..., n, d_v): outputs and weights."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights  # (..., T, d_v), (..., T, n)


class SelfAttention(nn.Module):
    """Self-attention over x (B, n, d), one head; allowed (B, n, n), (B, 1, n) or (n, n)."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, allowed=None):
        outputs, _ = attention(self.query(x), self.key(x), self.value(x), allowed)
        return outputs  # (B, n, d)


# %% [markdown]
# In our sentence $d = 2$, so from here on every score is divided by 1.41, and the weights of "be" are a
# little flatter than those of the pencil:

# %%
divided_outputs, divided = attention(X @ Q, X @ K, X @ V)
for name, row in (("as they were", weights[0]), ("divided", divided[0])):
    print(
        f"{name:13}", "  ".join(f"{t} {w:.2f}" for t, w in zip(tokens, row.tolist(), strict=True))
    )

# %% [markdown]
# Padding must get no weight (chapter 04). `padding` $(B, n)$ is True at padding, so `~padding` says where a
# query may look; with an axis in the middle, $(B, 1, n)$, it says so to every query of a sentence.

# %%
mt.manual_seed(0)
layer, x = SelfAttention(8), mt.randn(2, 5, 8)
padding = mt.tensor([[False] * 5, [False] * 3 + [True] * 2])  # (B, n)
allowed = ~padding.unsqueeze(1)  # (B, 1, n)
asked = layer.query(x), layer.key(x), layer.value(x)
library = F.scaled_dot_product_attention(*asked, attn_mask=allowed)
print("the library's operation agrees:", mt.allclose(layer(x, allowed), library, atol=1e-6))
three = layer(x[1:, :3])
print("padding changes nothing:", mt.allclose(layer(x, allowed)[1:, :3], three, atol=1e-6))

# %% [markdown]
# ## 5. No notion of order
#
# In $\sum_j \alpha_{ij} v_j$ nothing says where $j$ stands: a sum does not change when its terms are
# swapped. We can be precise. Let $P$ of shape $(n, n)$ be a permutation matrix, each row and column
# with a single 1, so that $PX$ has the rows of $X$ in another order. Then $P^\top P = I$, a softmax of
# each row moves with its rows and columns, and (the division by $\sqrt d$ changes nothing here)
#
# $$\begin{aligned}
# \operatorname{softmax}\!\big(PXQ\,(PXK)^\top\big)\,PXV
# &= P \operatorname{softmax}\!\big(XQ\,(XK)^\top\big)\, P^\top P\, XV \\
# &= P \cdot \operatorname{softmax}\!\big(XQ\,(XK)^\top\big)\, XV .
# \end{aligned}$$
#
# Permuted words give permuted outputs. (This is called **equivariance**. The mean of the outputs
# does not change at all: it is *invariant*.) Each word gets the same vector wherever it stands.

# %%
order = [3, 1, 0, 2]  # friend water be my
P = mt.eye(4)[order]  # (n, n)
permuted, permuted_weights = attention(P @ X @ Q, P @ X @ K, P @ X @ V)
print(
    "permuted words give permuted outputs:", mt.allclose(permuted, P @ divided_outputs, atol=1e-6)
)

# %% evidence
# Weights of the sentence in two orders
figure, (left, right) = plot.subplots(1, 2, width=7.5, height=2.9)
shuffled = [tokens[i] for i in order]
plot.attention(left, divided, tokens, tokens, values=True, colorbar=False, title="in order")
plot.attention(
    right, permuted_weights, shuffled, shuffled, values=True, colorbar=False, title="permuted"
)
plot.show(
    figure,
    alt="Attention weights of 'be water my friend' and of 'friend water be my': the same numbers for the same "
    "pair of words, in other cells.",
)

# %% [markdown]
# ### Permuting the words (C10)
#
# All 24 orders of the example, in float64, and random sentences in random orders. We take the largest
# difference between $f(PX)$ and $P f(X)$, divided by the largest output. Beside it the same for a GRU, and
# for self-attention with a vector of its own for each position added to the words.

# %%
X_64, Q_64, K_64, V_64 = (matrix.double() for matrix in (X, Q, K, V))


def attended(x):
    return attention(x @ Q_64, x @ K_64, x @ V_64)[0]


differences = [
    (attended(X_64[list(order)]) - attended(X_64)[list(order)]).abs().amax()
    for order in permutations(range(4))
]
print(len(differences), "orders, largest difference below 1e-14:", max(differences).item() < 1e-14)


# %%
@lab.experiment(
    "C10",
    layer=["self-attention", "self-attention, positions", "GRU"],
    n=[8, 64],
    d=64,
    full=dict(n=[8, 64, 256], d=[16, 64, 256], seeds=5),
)
def permuting(layer, n, d):
    look = SelfAttention(d).double()
    gru = nn.GRU(d, d // 2, batch_first=True, bidirectional=True).double()
    position = mt.randn(n, d).double()  # one vector for each position
    f = {
        "self-attention": look,
        "self-attention, positions": lambda x: look(x + position),
        "GRU": lambda x: gru(x)[0],
    }[layer]
    x, order = mt.randn(1, n, d).double(), mt.randperm(n)
    right = f(x)[:, order]
    return {"difference": (f(x[:, order]) - right).abs().amax() / right.abs().amax()}


# %% evidence
# Differences under random permutations: table and verdicts
runs = permuting.run()
runs.table("layer", "difference", columns="n")
runs.holds(
    "permuted words give permuted outputs, to rounding",
    lambda rows: rows.values("difference", layer="self-attention"),
    below=1e-12,
)
for layer_with_order in ("self-attention, positions", "GRU"):
    runs.holds(
        f"not so for: {layer_with_order}",
        lambda rows, name=layer_with_order: rows.values("difference", layer=name),
        above=0.1,
    )

# %% [markdown]
# > **C10 · holds: Permuted words give permuted outputs, to 2e-15.** *The lectures* (deck 1, "Barriers
# > and solutions for Self-Attention as a building block"; deck 3): self-attention "doesn't have an
# > inherent notion of order!"
# >
# > *Measured*: Largest difference between the outputs of permuted words and the permuted outputs, over the
# > largest output, in float64, 8 to 256 words, widths 16 to 256, five seeds: at most 2e-15, which is rounding.
# > With positions added 0.43 to 1.6, for a GRU 0.59 to 1.5.
#
# ## 6. Does it work?
#
# In "two hundred and three thousand and six", the "three" counts for 3,000, and "two" for 200,000. What a
# word is worth depends on others: whether "hundred" comes next, and whether "thousand" comes later. We ask
# the encoder alone, with no decoder that could help: **for each word, its place**, one of 1, 100, 1,000 and
# 100,000.


# %% save
def places(words):
    """0, 1, 2, 3 for words that count 1, 100, 1,000 or 100,000 times; -100: not asked for."""
    labels, following, thousands = [], None, 0
    for word in reversed(words):
        thousands = 2 if word == "thousand" else thousands
        hundreds = 1 if following == "hundred" else 0
        labels.append(-100 if word in ("and", "hundred", "thousand") else thousands + hundreds)
        following = word
    return labels[::-1]


# %%
for word, place in zip(words := number_pieces(203_006), places(words), strict=True):
    print(f"{word:9}", "" if place < 0 else f"times {(1, 100, 1000, 100_000)[place]:,}")

# %% [markdown]
# A target of $-100$ is left out of the loss by `F.cross_entropy`; that is the default of its `ignore_index`. The
# data are chapter 04's numbers, English and German. We report on 900 held-out ones and choose learning rates
# on others.

# %%
learned = number_pairs(10_000, digits=(1, 6), seed=0)
reported = number_pairs(900, digits=(3, 6), held_out=True, seed=1)
seen = {pair.number for pair in reported}
others = number_pairs(600, digits=(4, 6), held_out=True, seed=2)
others = [pair for pair in others if pair.number not in seen]
print(len(learned), "numbers to learn from,", len(reported), "to report on,", len(others), "others")

# %% [markdown]
# ### What a word counts for (E1)
#
# Before we train anything, we can count. An encoder that sees the word alone is a function of the word, and
# no function does better than a table: for each word, the place that it has most often. The same goes for
# whatever else an encoder sees: the word's index, and the large words, that is whether there is a "thousand" and
# how many times "hundred", in any order. A table made from the numbers to learn from says what can be learned there; one
# made from the reported numbers is a ceiling that nothing passes.


# %%
def best_table(sees, pairs):
    """The share of reported words whose place is the usual one, among pairs, of what is seen."""
    counts = defaultdict(Counter)
    for pair in pairs:
        for i, place in enumerate(places(pair.source)):
            counts[sees(pair.source, i)][place] += 1
    usual = {what: places_of.most_common(1)[0][0] for what, places_of in counts.items()}
    right = [
        usual.get(sees(pair.source, i)) == place
        for pair in reported
        for i, place in enumerate(places(pair.source))
        if place >= 0
    ]
    return sum(right) / len(right)


def large(words):
    return "thousand" in words, words.count("hundred")


SEES = {
    "word": lambda words, i: words[i],
    "word, large words": lambda words, i: (words[i], large(words)),
    "word, index": lambda words, i: (words[i], i),
    "all three": lambda words, i: (words[i], i, large(words)),
}
tables = {name: best_table(sees, learned) for name, sees in SEES.items()}
for name, sees in SEES.items():
    print(f"{name:18} {tables[name]:.3f}   ceiling {best_table(sees, reported):.3f}")

# %% [markdown]
# Now five encoders. They take embeddings `x` $(B, n, d)$ and `padding` $(B, n)$, and give states $(B, n, d)$.
# Words alone go through one layer, $h_j = \tanh(x_j W + b)$. With self-attention a word meets that layer
# together with what it found, $h_j = \tanh([x_j; o_j]\, W' + b')$, where $W$ is $(d, d)$ and $W'$ is $(2d, d)$.
# The position is a learned vector for each index, added to the word.


# %%
class Recurrent(nn.Module):
    """Chapter 04's encoder: a GRU in both directions."""

    def __init__(self, width):
        super().__init__()
        self.gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x, padding):
        lengths = (~padding).sum(1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return states


class Words(nn.Module):
    """Each word alone."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x, padding):
        return self.layer(x).tanh()


# %%
class Attending(nn.Module):
    """Each word with what it found in its sentence."""

    def __init__(self, look, width):
        super().__init__()
        self.look, self.join = look, nn.Linear(2 * width, width)

    def forward(self, x, padding):
        found = self.look(x, allowed=~padding.unsqueeze(1))  # (B, n, d)
        return self.join(mt.cat([x, found], dim=-1)).tanh()


class Positioned(nn.Module):
    """An encoder of words that know their index in the sentence, up to 16 words."""

    def __init__(self, encoder, width):
        super().__init__()
        self.position, self.encoder = nn.Embedding(16, width), encoder

    def forward(self, x, padding):
        return self.encoder(x + self.position(mt.arange(x.shape[1])), padding)


# %%
ENCODERS = {
    "GRU": lambda d: Recurrent(d),
    "words alone": lambda d: Words(d),
    "self-attention": lambda d: Attending(SelfAttention(d), d),
    "words, positions": lambda d: Positioned(Words(d), d),
    "self-attention, positions": lambda d: Positioned(Attending(SelfAttention(d), d), d),
}

# %%
SPECIALS = ["<pad>", "<s>", "</s>"]
english = Vocabulary((word for pair in learned for word in pair.source), SPECIALS)
german = Vocabulary((word for pair in learned for word in pair.target), SPECIALS)
PAD = english["<pad>"]  # the specials come first in every vocabulary: it is German's, too


class Tagger(nn.Module):
    """An encoder, and a linear layer that names the place of each word."""

    def __init__(self, encoder, width):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(len(english), width), encoder
        self.out = nn.Linear(width, 4)

    def forward(self, source):
        """Scores of the four places (B, n, 4) for the words of source (B, n)."""
        return self.out(self.encoder(self.embedding(source), source == PAD))


# %% [markdown]
# The same loop will train a translator later. So what a model takes and what it should answer is a function
# of the batch: `tagging` here.


# %%
class Sentences(NamedTuple):
    """Source (N, n), its places (N, n), and target (N, T + 1) with <s> and </s>."""

    source: mt.Tensor
    places: mt.Tensor
    target: mt.Tensor


def sentences(pairs):
    source, _ = english.encode_batch([pair.source for pair in pairs], batch_first=True)
    target, _ = german.encode_batch(
        [pair.target for pair in pairs], start=True, end=True, batch_first=True
    )
    rows = [places(pair.source) for pair in pairs]
    filled = [row + [-100] * (source.shape[1] - len(row)) for row in rows]
    return Sentences(source, mt.tensor(filled), target)


def tagging(data):
    """What a tagger takes, and what it should answer."""
    return (data.source,), data.places


training, held_out, elsewhere = map(sentences, (learned, reported, others))


# %%
def batches(data):
    """Batches of 64 sentences of about equal length, cut to the longest among them, without end."""
    n, T = ((part != PAD).sum(1) for part in (data.source, data.target))  # lengths, (N)
    while True:
        for rows in BatchesByLength(n.tolist(), 64):
            source, labels, target = (part[rows] for part in data)
            columns = slice(int(n[rows].max()))
            yield Sentences(source[:, columns], labels[:, columns], target[:, : int(T[rows].max())])


def train(model, task, rate, steps):
    """Minimise the cross-entropy of the answers, the rate falling to zero."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    training_batches = batches(training)
    for step in tqdm(range(steps), leave=False):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        inputs, targets = task(next(training_batches))
        loss = F.cross_entropy(model(*inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


# %%
@mt.no_grad()
def answers(model, task, data):
    """Whether each answer is right, and where one is asked for, both (N, n)."""
    inputs, targets = task(data)
    return model(*inputs).argmax(-1) == targets, targets != -100


def share_of_places(model, data):
    right, asked = answers(model, tagging, data)
    return right[asked].float().mean()


@lab.experiment(
    "E1",
    encoder=list(ENCODERS),
    rate=4e-3,
    full=dict(rate=Tuned(2e-3, 4e-3, 8e-3, highest="right elsewhere", seeds=3), seeds=5),
)
def what_a_word_counts_for(encoder, rate, steps=200, width=64):
    model = Tagger(ENCODERS[encoder](width), width)
    train(model, tagging, rate, steps)
    return {
        "right places": share_of_places(model, held_out),
        "right elsewhere": share_of_places(model, elsewhere),  # the rate is chosen by this
    }


# %% evidence
# Share of right places of the five encoders, beside the tables: figure and verdicts
runs = what_a_word_counts_for.run()
runs.draw(
    y="right places",
    by="encoder",
    lines={f"table: {name}": share for name, share in tables.items()},
    limits=(0, 1.02),
    width=9.5,
    height=3.2,
    alt="Share of right places as bars: the GRU and self-attention with positions are near one, words with "
    "positions well below, words alone and self-attention without positions at the lines of their tables.",
)
for name, sentence, between in (
    ("words alone", "words alone learn the table of the word and nothing else", (0.41, 0.45)),
    ("self-attention", "attention without order gains next to nothing on it", (0.43, 0.5)),
    ("words, positions", "positions without attention are not enough", (0.5, 0.73)),
    ("self-attention, positions", "with both, nearly all places are right", (0.9, 1)),
):
    runs.holds(
        sentence,
        lambda rows, name=name: rows.values("right places", encoder=name),
        between=between,
    )

# %% [markdown]
# **Words alone** learn their table and nothing else. **Self-attention alone** gains next to nothing on it:
# "three" can find out *that* there is a "thousand" in the sentence, but not whether it comes before or after.
# **Words with positions** know where they stand, but not what stands around them. **With both**, nearly all
# words are right, as with the GRU. So self-attention restores the dependencies and leaves out the order, and by
# section 5 that is no weakness of training but a theorem.
#
# > **E1 · With positions self-attention gives each word its place, 0.98 and more, without them 0.46 at most, hardly
# > more than words alone.** *Our question*: does self-attention make up for the missing recurrence where no decoder
# > can help, so that each word gets its place?
# >
# > *Measured*: Right places, five seeds, the rate chosen on other numbers and seeds: words alone 0.434 to 0.440
# > (the best table has 0.434), self-attention 0.451 to 0.464, words with positions 0.506 to 0.570, both 0.984 to
# > 0.998, GRU 1.
#
# ### Without recurrence, with self-attention (C33)
#
# Now chapter 04's translator with each encoder. (For all alike, the score is the multiplicative one, and the
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

    def forward(self, source, target):
        """Scores of the next tokens (B, T, words) after those of target (B, T)."""
        padding = source == PAD  # (B, n)
        memory = self.encoder(self.source_embedding(source), padding)  # (B, n, d)
        real = memory.masked_fill(padding.unsqueeze(-1), 0)
        start = real.sum(1) / (~padding).sum(1, keepdim=True)  # (B, d)
        states, _ = self.decoder(self.target_embedding(target), start.unsqueeze(0))  # (B, T, d)
        found, _ = attention(states, self.score(memory), memory, ~padding.unsqueeze(1))
        return self.out(mt.cat([states, found], dim=-1))


# %% [markdown]
# The right tokens are fed in, in training and where we count exact matches: if every next token is the likeliest
# one after the right tokens before it, the model, writing by itself, writes this sentence.


# %%
def translating(data):
    """What a translator takes, and what it should answer; nothing is asked at padding."""
    targets = data.target[:, 1:]
    return (data.source, data.target[:, :-1]), targets.masked_fill(targets == PAD, -100)


def exact_match(model, data):
    right, asked = answers(model, translating, data)
    return (right | ~asked).all(1).float().mean()


@lab.experiment(
    "C33",
    encoder=list(ENCODERS),
    rate=8e-3,
    full=dict(rate=Tuned(4e-3, 8e-3, 1.6e-2, highest="exact match elsewhere", seeds=3), seeds=5),
)
def without_recurrence(encoder, rate, steps=300, width=64):
    model = Translator(ENCODERS[encoder](width), width)
    train(model, translating, rate, steps)
    return {
        "exact match": exact_match(model, held_out),
        "exact match elsewhere": exact_match(model, elsewhere),
    }


# %% [markdown]
# Here too we can count first. "Thirty thousand and four" and "four thousand and thirty" are made of the same
# words. An encoder that does not know their order gives the same *set* of states for both, the decoder's
# softmax does not care in which order a set is stored, so both get the same translation, and one of the two
# is wrong. For each reported number we list all that are made of the same words. (A word stands for the same
# digits wherever it is, so all orders of six digits contain them.) Each number of digits is drawn equally
# often, so a given number of three digits is ten times as likely as one of four, and the best guess is one of
# those with the fewest. The bound is how often such a guess is right, in expectation.


# %%
def best_guess_without_order(number):
    """The chance that the likeliest number made of the same words is this one."""
    orders = {int("".join(order)) for order in permutations(f"{number:06}")}
    words = sorted(number_pieces(number))
    same = [other for other in orders if sorted(number_pieces(other)) == words]
    fewest = min(len(str(other)) for other in same)
    likeliest = [other for other in same if len(str(other)) == fewest]
    return (number in likeliest) / len(likeliest)


for number in (30_004, 4_030):
    print(f"{number:6,} is guessed with chance", best_guess_without_order(number))
bound = sum(best_guess_without_order(pair.number) for pair in reported) / len(reported)
print(f"bound without order: {bound:.3f}")

# %% evidence
# Exact match of translators with five encoders, beside the bound: figure and verdicts
runs = without_recurrence.run()
runs.draw(
    y="exact match",
    by="encoder",
    lines={"bound without order": bound},
    limits=(0, 1.02),
    width=8,
    height=2.8,
    alt="Exact match of translators as bars. Words alone and self-attention without positions stay to the left "
    "of the bound; with positions both reach far beyond it, near the GRU.",
)
for name in ("words alone", "self-attention"):
    runs.holds(
        f"without order, below the bound: {name}",
        lambda rows, name=name: rows.values("exact match", encoder=name),
        below=bound,
    )
runs.holds(
    "positions raise the exact match of self-attention by more than 0.5",
    lambda rows: (
        rows.values("exact match", encoder="self-attention, positions")
        - rows.values("exact match", encoder="self-attention")
    ),
    above=0.5,
)

# %% [markdown]
# Taking the recurrence out breaks the translator. Self-attention *by itself* does not repair it, and cannot: the
# bound is all that words without their order give away. With positions it is back, if not quite where the GRU is.
#
# One result may surprise. Words with positions, whose encoder has no dependencies at all, translate at least as
# well. We took the recurrence out of the *encoder*; the decoder still has a GRU, and it knows what it has said. Our
# guess is that it looks at place after place and puts things together itself. In E1, where no decoder can help, the
# same encoder fails. So the translator alone does not show that an encoder needs self-attention; E1 does. Chapter 10
# takes the decoder's recurrence away too.
#
# The theorem can be seen in the translator, too, with any weights, here untrained ones: the same target tokens
# after both sentences get the same scores.

# %%
mt.manual_seed(0)
same_words = [number_pair(30_004), number_pair(4_030)]
print(" / ".join(" ".join(pair.source) for pair in same_words))
data = sentences([pair._replace(target=same_words[0].target) for pair in same_words])
for name in ("self-attention", "self-attention, positions"):
    model = Translator(ENCODERS[name](64), 64)
    inputs, _ = translating(data)
    scores = model(*inputs)
    print(f"{name:26} the same scores: {mt.allclose(scores[0], scores[1], atol=1e-5)}")

# %% [markdown]
# > **C33 · holds with a condition: With positions self-attention brings the translator to 0.90 to 0.96,
# > without them to 0.23 at most.** *The lectures* (deck 5, "Is Attention All We Need?", "Self-Attention"):
# > without recurrence "the encoder has no temporal dependencies at all!"; self-attention restores them.
# >
# > *Measured*: Exact match, five seeds, the rate chosen on other numbers and seeds: GRU 0.991 to 0.998, words
# > alone 0.218 to 0.267, self-attention 0.203 to 0.228 (0.307 is all that words without their order give away),
# > self-attention with positions 0.902 to 0.957; words with positions 0.966 to 0.983, with a decoder that is
# > recurrent.
#
# ## 7. Dividing by the root of d
#
# Section 4 owes a reason. Two numbers a token are few; real queries and keys have 64 or more. We repeat each query
# and each key 32 times over, so that $d = 64$. Nothing else has changed, but every score is a sum over 32 times
# as many products.

# %%
queries_64, keys_64 = (X @ Q).repeat(1, 32), (X @ K).repeat(1, 32)  # (n, 64)
scores_64 = queries_64[0] @ keys_64.T  # (n)
print("scores of 'be' with d = 64:", scores_64.tolist())
columns = scores_64.softmax(-1).tolist(), (scores_64 / 8).softmax(-1).tolist()
for token, plain, eighth in zip(tokens, *columns, strict=True):
    print(f"{token:7} weight as it is {plain:.7f}   divided by 8 {eighth:.7f}")

# %% [markdown]
# These are the scores of the lecture's worked example. As they are, "be" looks at itself and at nothing else;
# divided by $\sqrt{64} = 8$, it also looks at "water".
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
# 500 random queries, each with $n = 16$ random keys of its own. We measure the variance of the scores, the
# norm of $J$ (the root of the sum of its squares), and what reaches the query, the norm of $\partial \alpha /
# \partial q$: the product of $J$ and the keys, $(n, d)$, divided as the scores are.


# %%
@lab.experiment(
    "C11",
    d=[4, 16, 64, 256],
    divided=[False, True],
    full=dict(d=[1, 4, 16, 64, 256, 1024], seeds=5),
)
def softmax_at(d, divided, queries=500, n=16):
    query, keys = mt.randn(queries, 1, d), mt.randn(queries, n, d)
    factor = 1 / math.sqrt(d) if divided else 1.0
    scores = factor * (query @ keys.mT).squeeze(1)  # (queries, n)
    alpha = scores.softmax(-1)
    J = mt.diag_embed(alpha) - alpha.unsqueeze(2) * alpha.unsqueeze(1)  # (queries, n, n)
    norm_of_J = (J**2).sum(dim=(1, 2)).sqrt()
    at_query = factor * ((J @ keys) ** 2).sum(dim=(1, 2)).sqrt()
    return {
        "variance of scores": scores.var(),
        "norm of J, median": norm_of_J.median(),
        "norm of J, mean": norm_of_J.mean(),
        "at the query, median": at_query.median(),
        "at the query, mean": at_query.mean(),
    }


# %% evidence
# Scores and gradients against d, divided and not: figure, table and verdicts
runs = softmax_at.run()
runs.draw(
    x="d",
    y=["variance of scores", "norm of J, median", "at the query, median"],
    by="divided",
    labels={False: "as they are", True: "divided"},
    log="xy",
    alt="Against d, on log scales. As they are, the variance of scores grows like d, and the median norms fall "
    "steeply, that of J from d = 16 on, that at the query from d = 64 on. Divided, all three are level.",
)
runs.table("d", ["norm of J, mean", "at the query, mean"], divided=False)


def growth(rows, what, divided):
    """How many times as large at d = 256 as at d = 4."""
    at = [rows.values(what, d=d, divided=divided) for d in (256, 4)]
    return at[0] / at[1]


for sentence, what, divided_too, bounds in (
    ("from d = 4 to 256 the variance grows by 64", "variance of scores", False, (54, 74)),
    ("and the median norm of J falls", "norm of J, median", False, (0, 0.1)),
    ("divided, the variance stays", "variance of scores", True, (0.8, 1.25)),
    ("divided, the median norm of J stays", "norm of J, median", True, (0.8, 1.25)),
):
    runs.holds(
        sentence,
        lambda rows, what=what, too=divided_too: growth(rows, what, too),
        between=bounds,
    )

# %% [markdown]
# The variance of the scores grows like $d$, and dividing by $\sqrt d$ keeps it at 1. What it does to gradients:
#
# - **The typical query is starved.** Undivided, the median norm of $J$ falls to less than 0.00003 at $d = 1024$, and
#   what reaches the query to less than 0.001. Divided, both stay at 0.3.
# - **Not at every width, and not every query.** At $d = 16$ the undivided softmax passes on *more*, and to the query
#   at $d = 64$, too. And the means (the tables) tell another story than the medians: at $d = 1024$ that of $J$ is
#   still 0.04 to 0.055, and that at the query has grown to 1.3 to 1.8. A few queries sit between two keys of nearly
#   the same score and get a large gradient, all others next to none. So the gradient becomes rare and large.
#
# When one key dominates depends on how far the scores lie apart and on how many there are:

# %% evidence
# The largest of n weights against the spread of the scores
mt.manual_seed(0)
print("largest of n weights, mean of 1000, for scores with standard deviation s")
for n in (4, 16, 64, 256):
    largest = {s: (s * mt.randn(1000, n)).softmax(-1).amax(-1).mean().item() for s in (1, 2, 8, 32)}
    print(f"n = {n:3}  ", "  ".join(f"s = {s}: {mean:.2f}" for s, mean in largest.items()))

# %% [markdown]
# At $s = 1$, where divided scores start, nothing dominates. It takes $s = 8$, that is undivided scores at $d = 64$,
# until one key gets three quarters or more. Training may well make scores large where a sharp look is useful:
# dividing sets where we start, not where we end.
#
# > **C11 · holds with a condition: For most queries the gradient dies: the median norm of the Jacobian
# > falls from 0.34 at width 16 to 0.00003 at 1,024.** *The lectures* (deck 1, "Scaled Dot Product
# > [Vaswani et al., 2017]"; deck 3): "When dimensionality $d$ becomes large, dot products between vectors
# > tend to become large", "making the gradients small".
# >
# > *Measured*: Five seeds. The variance of the scores grows like $d$; divided it stays at 1. The median norm
# > of the softmax's Jacobian falls from 0.34 at $d = 16$ to less than 0.00003 at $d = 1024$, its mean to 0.04
# > to 0.055; divided both stay at 0.3. At $d = 16$ the undivided softmax still passes on more.
#
# ### Does it matter in training? (E2)
#
# All this is about random vectors, and a network can learn smaller queries. So we train the tagger of section 6 with
# and without the division, and start $Q$ and $K$ with variance $1/d$, so that queries and keys have about the
# variance of the inputs.


# %%
class Undivided(SelfAttention):
    """Self-attention whose queries take the division back."""

    def forward(self, x, allowed=None):
        query = math.sqrt(x.shape[-1]) * self.query(x)
        return attention(query, self.key(x), self.value(x), allowed)[0]


@lab.experiment(
    "E2",
    d=64,
    divided=[False, True],
    rate=[1e-3, 2e-3, 4e-3],
    seeds=3,
    full=dict(d=[64, 256], rate=[2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2]),
)
def scale_in_training(d, divided, rate, steps=100):
    look = SelfAttention(d) if divided else Undivided(d)
    for layer in (look.query, look.key):
        nn.init.normal_(layer.weight, std=1 / math.sqrt(d))
    model = Tagger(Positioned(Attending(look, d), d), d)
    train(model, tagging, rate, steps)
    return {
        "right places": share_of_places(model, held_out),
        "right elsewhere": share_of_places(model, elsewhere),
    }


# %% evidence
# Right places after 100 steps against the learning rate, divided and not: figures and verdict
runs = scale_in_training.run()
alts = {
    64: "Right places against the learning rate at d = 64: both curves rise to 8e-3; the divided one lies above, "
    "within the band of the other at the largest rates.",
    256: "The same at d = 256: up to 1e-3 the divided curve lies clearly above; from 2e-3 on both fall, "
    "unevenly, and the bands overlap.",
}
for d in runs.best.settings_of("d"):
    measured(f"d = {d}")
    runs.draw(
        x="rate",
        y="right places",
        by="divided",
        labels={False: "as they are", True: "divided"},
        log="x",
        alt=alts[d],
        d=d,
    )
    for divided, name in ((False, "as they are"), (True, "divided")):
        rows = runs.best.where(d=d, divided=divided)
        elsewhere_at = {
            rate: np.median(rows.values("right elsewhere", rate=rate))
            for rate in rows.settings_of("rate")
        }
        rate = max(elsewhere_at, key=elsewhere_at.get)
        found = " ".join(f"{share:.3f}" for share in rows.values("right places", rate=rate))
        measured(f"{name}, at the rate that is best on other numbers, {rate:g}: {found}")


def gain(rows):
    """How much better divided is, at the same width, rate and seed."""
    return rows.values("right places", divided=True) - rows.values("right places", divided=False)


runs.holds(
    "at the same width, rate and seed, divided is better on average",
    lambda rows: gain(rows).mean(),
    above=0,
)
gains = gain(runs.best)
measured(f"divided is better in {(gains > 0).sum()} of {len(gains)} pairs")

# %% [markdown]
# At the same width, rate and seed, division is ahead in most pairs. With $d = 64$, each at its best rate, the difference
# is no larger than the spread of the seeds; with $d = 256$ no two seeds overlap. C11 is about the start; Vaswani
# et al. (2017) too wrote "we suspect" where they gave this reason.
#
# > **E2 · At width 256 the division brings 0.90 to 0.92 right in place of 0.81 to 0.83; at width 64 the
# > two overlap.** *Our question*: does the division matter in training?
# >
# > *Measured*: Right places after 100 steps, three seeds, undivided and divided, each at the one of seven rates that is
# > best on other numbers: at $d = 64$ 0.822 to 0.920 and 0.916 to 0.922, at $d = 256$ 0.807 to 0.829 and 0.895 to
# > 0.918. Divided is better in 35 of 42 pairs with the same width, rate and seed.
#
# ## 8. What waits for what
#
# Until $h_{t-1}$ is there, a recurrent network can do nothing about $h_t = \tanh(x_t W_{ih} + h_{t-1} W_{hh})$ but
# $x_t W_{ih}$. In self-attention no output waits for another output of its layer.

# %% evidence
# The number of steps before each state can be computed
figure, panels = plot.subplots(1, 2, width=8.5, height=2.9)
for axes, kind in zip(panels, ("RNN", "self-attention"), strict=True):
    diagrams.steps_needed(axes, tokens, kind, layers=2)
plot.show(
    figure,
    alt="Two layers over four words, each state with the number of steps that it has to wait. RNN: 1, 2, 3, 4 in "
    "the first layer and 2, 3, 4, 5 in the second. Self-attention: 1 everywhere in the first layer, 2 everywhere "
    "in the second.",
)

# %% [markdown]
# The numbers are the steps before a state can be there. In the RNN they grow along the sentence; in self-attention
# they are the number of the layer. (The lectures stack layers until the sentence has been processed enough:
# layers wait for each other, words do not.) A step is made of several operations. With a pencil, for one layer
# and $n = 4$:

# %% evidence
# Operations one after another from the first word to the last output
figure, axes = plot.subplots(width=10, height=2.2)
step = ["$hW_{hh}$", "+", "tanh"]
diagrams.chain(axes, ["$xW_{ih}$", "+", "tanh", *3 * step], row=1.4, title="RNN")
attended_steps = ["stack", "$XK$", "$(XK)^T$", "scores", r"$/\sqrt{d}$", "softmax", "$A\\,XV$"]
diagrams.chain(axes, [*attended_steps, "last row"], row=0, title="self-attention")
axes.set(xlim=(-2.4, 11.6), ylim=(-0.5, 2.2))
plot.show(
    figure,
    alt="Two chains of boxes. RNN, 12 operations: product, sum and tanh, four times. Self-attention, 8 "
    "operations: stack the words, multiply by K, transpose, scores, divide, softmax, weigh the values, "
    "pick the last row.",
)

# %% [markdown]
# ### Sequential operations against length (C12)
#
# Two numbers matter, and both can be read off the graph that `backward` walks (chapter 00). The *longest* way from
# the first word to the last output says how many operations have to be done one after another, with however many
# processors; the *shortest*, how many the information has to survive, and the gradient on its way back.


# %%
def way(node, word, choose):
    """The number of operations on a way from a word to this node, None where there is no way."""
    if node is word:
        return 0
    sources = () if isinstance(node, mt.Tensor) else node.next_functions
    ways = [way(source, word, choose) for source in sources if source is not None]
    ways = [length for length in ways if length is not None]
    return 1 + choose(ways) if ways else None


def recurrent(words, W_ih, W_hh):
    """The last state of a plain RNN over a list of words (1, d)."""
    h = mt.zeros_like(words[0])
    for x_t in words:
        h = (x_t @ W_ih + h @ W_hh).tanh()
    return h


def self_attended(words, Q, K, V, layers=1):
    """The last output of self-attention over a list of words (1, d)."""
    X = mt.cat(words)  # (n, d)
    for _ in range(layers):
        X, _ = attention(X @ Q, X @ K, X @ V)
    return X[-1]


# %%
mt.manual_seed(0)
weights = [mt.randn(8, 8) / math.sqrt(8) for _ in range(3)]
counted = []  # n, longest and shortest way in the RNN, in self-attention
for n in (4, 16, 64):
    words = [mt.randn(1, 8, requires_grad=True) for _ in range(n)]
    nodes = recurrent(words, *weights[:2]).grad_fn, self_attended(words, *weights).grad_fn
    counted.append([n, *(way(node, words[0], choose) for node in nodes for choose in (max, min))])
    print("n = {:2}: RNN longest {:3}, shortest {:3}; self-attention {}, {}".format(*counted[-1]))
for layers in (1, 2, 3, 4):
    node = self_attended(words, *weights, layers=layers).grad_fn
    ways = [way(node, words[0], choose) for choose in (max, min)]
    print(f"{layers} layers of self-attention: longest {ways[0]}, shortest {ways[1]}")

# %% evidence
# C12, counted: verdicts
rnn_longest, rnn_shortest, longest, shortest = zip(
    *((a / n, b / n, c, d) for n, a, b, c, d in counted), strict=True
)
lab.holds("C12", "in the RNN 3 n operations wait for each other", rnn_longest, between=(3, 3))
lab.holds("C12", "with self-attention 8 do, at any length", longest, between=(8, 8))
lab.holds("C12", "in the RNN the first word passes 3 n operations", rnn_shortest, between=(3, 3))
lab.holds("C12", "with self-attention 4, at any length", shortest, between=(4, 4))

# %% [markdown]
# That is C12, and it is counted, so it holds on any machine. A layer adds six operations to the longest way and two
# to the shortest (stacking the words and picking the last row are done once), so $L$ layers of self-attention wait
# $6L + 2$ operations, whatever $n$ is. (An operation counts as one here, however large; inside, a sum over $n$
# terms takes about $\log_2 n$ rounds even with a processor for each term.)
#
# The work is another matter. By hand, with $2nkm$ FLOPs for a product of $(n, k)$ and $(k, m)$:
#
# | layer | FLOPs | wait for each other | words $n$ apart meet after |
# | --- | --- | --- | --- |
# | RNN | $4nd^2$ | $n$ steps | $n$ steps |
# | GRU, three gates | $12nd^2$ | $n$ steps | $n$ steps |
# | convolution over windows of $w$ words | $2wnd^2$ | 1 step | about $n/w$ layers |
# | self-attention | $6nd^2$ for $XQ$, $XK$, $XV$, and $4n^2d$ for scores and outputs | 1 step | 1 layer |
#
# We let the library count, and measure the time of a forward and a backward pass on this machine, in the figure
# for four sentences at a time, in the tables for one.


# %% evidence
# FLOPs and milliseconds against length: figure, table and verdict
@lab.experiment(
    "C12",
    network=["RNN", "GRU", "self-attention"],
    n=[4, 16, 64, 256],
    batch=[1, 4],
    full=dict(n=[4, 16, 64, 256, 1024, 2048]),
)
def cost(network, n, batch, d=64):
    rnn, gru = nn.RNN(d, d, batch_first=True), nn.GRU(d, d, batch_first=True)
    forward = {
        "RNN": lambda x: rnn(x)[0],
        "GRU": lambda x: gru(x)[0],
        "self-attention": SelfAttention(d),
    }[network]
    x, times = mt.randn(batch, n, d), []
    with count_flops() as counter:
        forward(x)
    for _ in range(7):
        start = perf_counter()
        forward(x).sum().backward()
        times.append(perf_counter() - start)
    return {"FLOPs": counter.total / batch, "milliseconds": 1000 * min(times)}


runs = cost.run()
runs.draw(
    x="n",
    y=["FLOPs", "milliseconds"],
    by="network",
    log="xy",
    batch=4,
    alt="Against length, on log scales. FLOPs of a sentence: self-attention starts between RNN and GRU and grows "
    "more steeply; milliseconds for four sentences: self-attention starts lowest and ends highest.",
)
runs.table("n", "milliseconds", columns="network", batch=1)
by_hand = {
    "RNN": lambda n, d: 4 * n * d**2,
    "GRU": lambda n, d: 12 * n * d**2,
    "self-attention": lambda n, d: 6 * n * d**2 + 4 * n**2 * d,
}
runs.holds(
    "FLOPs counted are those by hand, for all three",
    lambda rows: [row["FLOPs"] / by_hand[row["network"]](row["n"], d=64) for row in rows],
    between=(1, 1),
)

# %% [markdown]
# Self-attention is cheaper than a GRU as long as $6nd^2 + 4n^2d < 12nd^2$, that is $n < 1.5d$, here 96, and never
# cheaper than a plain RNN. On a machine with thousands of arithmetic units the wait decides. On one core it is the
# work, and the overhead of Python, which the RNN pays once a step: so our milliseconds do *not* show parallelism.
# One sentence takes self-attention less time than the RNN up to $n = 256$, as much at 1024 and more at 2048; four at
# a time take it twice as much at 1024, since the RNN pays its overhead once for all four.
#
# > **C12 · holds with a condition: Self-attention takes 8 operations in sequence, an RNN 3 a word; on one
# > core it is no faster at 1,024 words.** *The lectures* (deck 3, "Issues with recurrent models: Linear
# > interaction distance", "Issues with recurrent models: Lack of parallelizability"): in a recurrent
# > network O(sequence length) steps for distant words to interact, and as many unparallelizable
# > operations; with attention O(1).
# >
# > *Measured*: Operations in sequence, counted: 3 for each word in an RNN, 8 in self-attention at any length;
# > distance 3 for each word against 4. Time of a pass over one sentence, one core: at 1,024 words 10 ms for both,
# > at 2,048 29 ms (RNN) and 38 ms (self-attention).
#
# ## 9. The table of barriers
#
# Can we build everything out of self-attention now? The decoder could use it: chapter 04's can look at all states
# of the source, and of its own words it has nothing but its current state. But five barriers stand in the way:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | add a vector for the position | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | a small net after each | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | scores of the future to minus infinity | 07 |
# | one place at a time | one softmax, one place (C14) | several heads | 06 |
# | does not train when deep | gradients (C20) | residual connections, layer norm | 09 |
#
# The first row we have met: in section 6 a vector for the index was enough, and chapter 08 asks which vectors, and
# for how long. The second can be seen in section 4: with the weights held fixed, the output $A\,XV$ is linear in
# $X$. (Our encoders had a tanh behind it.) The third: with $x_{i+1}$ among its keys, token $i$ need only look to
# know what comes next. The fourth: "three" wanted to find "hundred" *and* "thousand", with one softmax. The fifth
# shows only when many layers are stacked.
#
# **Try it**: change one number of $X$ and follow it through section 3 with a pencil; set $V$ to the identity;
# make "my" look at "friend" by changing $Q$ alone; write an encoder that applies two `Attending` one after the
# other, add it to `ENCODERS`, and see whether the second helps; in `Positioned`, replace the learned vectors
# by the bare number $j / 16$ in every entry.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | $q_i = Q x_i$ on one page, $XQ$ a few pages on | both, with different $Q$ | with columns the matrix stands on the left and is the transpose of ours; we keep rows |
# | every *other* token offers its key | the token itself offers one, too | it may attend to itself: the diagonal of the maps above |
# | $o_i = \sum_j \alpha_{ij} v_i$ | $o_i = \sum_j \alpha_{ij} v_j$ | the weights add up to one, so the first is $v_i$: every token gets its own value, nothing was looked up |
# | $\alpha_{ij} = \exp(e_{ij}) / \sum_j \exp(e_{ij})$ | another letter below the fraction: $\sum_l \exp(e_{il})$ | $j$ is the token whose weight it is |
# | a table of scores of "Hi how are you" that is symmetric | in general scores are not | symmetric if $Q = K$, or else if $QK^\top$ is; in ours "be" scores "water" 3, "water" scores "be" 5 |
# | scores 112, 96, 16, 8 divided by 8 give the weights .87, .12, .01, 0 | 0.881, 0.119, 0.0000054, 0.0000020 | see the first cell of section 7 |
# | $a_4 = \sigma(s_4 / 8)$ | $\operatorname{softmax}(s / 8)_4$ | a weight depends on all four scores |
# | divide by $\sqrt{\operatorname{length}(q)}$ | by $\sqrt d$ | "length" is how many numbers $q$ has, not its norm |
# | because of the softmax one value will dominate | it depends on the spread of the scores and on $n$ | the last table before the box C11 in section 7 |
# | an encoder without recurrence has no temporal dependencies; self-attention repairs it | that is half of it | dependencies come back, order does not (C10, C33); positions are the other half |
# | recurrent networks cannot use GPUs for training and inference | they can | a GRU reads the sentences of a batch side by side (chapter 03), and the products within a step run in parallel; what cannot be parallelised is the time of one sentence |
# | a Transformer needs no steps one after another | true when it reads | when it writes, each token is needed to choose the next |
# | in a Transformer every token sees every other token | true of what we built here | in a decoder token $i$ sees the tokens $j \le i$ (chapter 07) |
#
# </details>
#
# ## Summary
#
# - Each token makes a query, a key and a value from its vector. One row at a time, $o_i = \sum_j
#   \alpha_{ij} v_j$; all at once, $\operatorname{softmax}\big(XQ\,(XK)^\top / \sqrt d\big)\, XV$, with $n \times
#   n$ scores that are not symmetric.
# - Permuted words give permuted outputs, exactly (C10).
# - Without recurrence an encoder has no dependencies between words. Self-attention brings them back in one step,
#   at any distance, but not the order of the words; with positions it does nearly what the GRU did (E1, C33).
# - Scores of random vectors have variance $d$. Dividing by $\sqrt d$ makes it 1, and keeps the typical
#   softmax where its gradient is not zero (C11).
# - The number of sequential operations and the distance of two words do not depend on the length; the work
#   does, as $6nd^2 + 4n^2d$ (C12).
# - Five barriers are left on the way to a Transformer.
#
# Chapter 06 starts with the fourth: a softmax looks at one place, so give each token several.
#
# **Exercises**: [set 05](../exercises/05_self_attention/05_self_attention.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, sections 3.2.1 and 4. Cheng, Dong and Lapata
# (2016), *Long short-term memory-networks for machine reading*, and Parikh et al. (2016), *A decomposable
# attention model for natural language inference*, for attention inside a sentence before that. Lin et al.
# (2017), *A structured self-attentive sentence embedding*. Lee et al. (2019), *Set Transformer*, which wants no
# order. Yun et al. (2020), *Are Transformers universal approximators of sequence-to-sequence functions?*, for what
# positions make possible.
