# %% [markdown]
# # 06 Multi-head attention
#
# In chapter 05 each token asks one question of its sequence: one query, one softmax, one weighted mean. But
# a word may need two answers at once. A verb wants to know who acts and what is done, and from one mean it
# cannot tell which is which. So we let a token ask several questions side by side, each with a softmax of
# its own. That costs no parameters and no FLOPs of products, and takes two lines of code, one of which is
# easy to get wrong.
#
# **After this chapter you will be able to**
#
# - show with numbers why one softmax looks badly at two places;
# - write multi-head attention as a list of heads, and as one computation with the head axis beside the
#   batch axis, and show that the two agree;
# - say what the output projection does, and write it as a sum over heads;
# - recognise and test for the mistake that mixes positions, which raises no error;
# - count what heads cost: FLOPs, parameters, memory;
# - prove that one head cannot do a task that two can, and say with care what a trained head looks at.
#
# **Time**: about 100 minutes to read and try; all cells together run in about half a minute. **Before
# it**: chapter 05 (queries, keys and values; the division by $\sqrt d$; the table of barriers). Softmax and
# counting FLOPs are those of chapter 00.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
from time import process_time

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_05 import attention
from textbook.diagrams import heads as diagrams
from textbook.lab import Lab, Tuned, measured, tqdm
from textbook.look import look

lab = Lab("06")

# %% [markdown]
# ## 1. One softmax, one place
#
# One sentence goes with us through this chapter, *be water my friend*. We look at it through the eyes of its
# verb. *be* has two questions: be **what**? Water. And **who** shall be it? The friend.
#
# To follow everything with a pencil, each of the $n = 4$ words is described by $d = 4$ numbers, chosen by hand:
# is it a verb, a noun, a person, a small word?

# %%
words = ["be", "water", "my", "friend"]
X = mt.tensor(
    [
        # verb noun person small
        [1.0, 0.0, 0.0, 0.0],  # be
        [0.0, 1.0, 0.0, 0.0],  # water
        [0.0, 0.0, 0.0, 1.0],  # my
        [0.0, 1.0, 1.0, 0.0],  # friend
    ]
)  # (n, d)

# %% [markdown]
# As in chapter 05, three matrices $Q$, $K$, $V$ of shape $(d, d)$ make queries $XQ$, keys $XK$ and values $XV$,
# and each output is a mean of values. We choose the matrices by hand, too, and give each question two columns.
# The first two are about *what*: a verb asks for a noun that is no person, a person asks for the small word that
# says whose it is. The last two are about *who*: a verb or a small word asks for a person, a noun asks for the
# verb. As *friend* is noun plus person, the rows of *person* in $K$ and $V$ take back what the rows of *noun* gave.

# %%
# The rows are those of a verb, a noun, a person and a small word; all matrices are (d, d).
Q = mt.tensor([[6.0, 0, 6, 0], [0, 0, 0, 6], [0, 6, 0, 0], [0, 0, 6, 0]])
K = mt.tensor([[0.0, 0, 0, 1], [1, 0, 0, 0], [-1, 0, 1, 0], [0, 1, 0, 0]])
V = mt.tensor([[-1.0, 0, -1, 0], [1, 0, 1, 0], [-1, 1, -1, 1], [0, -1, 0, -1]])
query, key, value = X @ Q, X @ K, X @ V  # (n, d) each

print("query of be:", query[0].tolist())
print("word      key                      value")
for word, k, v in zip(words, key.tolist(), value.tolist(), strict=True):
    print(f"{word:8}", k, v)

# %% [markdown]
# The values are points of the plane, written twice, so that they can be drawn: *water* is east, *friend* north,
# *be* west, *my* south. Now chapter 05's `attention`, for the word *be*:

# %%
output, one_softmax = attention(query, key, value)  # (n, d), (n, n)
scores = (query @ key.T)[0] / math.sqrt(4)  # of be, (n)
for word, score, weight in zip(words, scores.tolist(), one_softmax[0].tolist(), strict=True):
    print(f"{word:8} score / sqrt(d) {score:3.1f}   weight {weight:.3f}")
print("output of be:", output[0])

# %% [markdown]
# With a pencil: both scores are $6 / \sqrt 4 = 3$, $e^3 = 20.1$, the sum of the exponentials is $20.1 + 20.1 + 1 +
# 1 = 42.2$, so *water* and *friend* get $0.476$ each. It looks at both places, then. What is wrong with that?
# Two things.
#
# **The mean forgets which came from where.** What arrives is halfway between east and north. Suppose that the two
# words exchange what they have to say, the values, and keep their keys. The answer to *what* is now the answer to
# *who* and the other way round. The output does not notice:

# %%
exchanged = value[[0, 3, 2, 1]]  # water says what friend said, friend what water said
after, _ = attention(query, key, exchanged)
print("output of be, before:", output[0])
print("output of be, after: ", after[0])
print("same:", mt.allclose(output[0], after[0], atol=1e-6))

# %% [markdown]
# **Two places at once is a balance on a knife's edge.** We set the two scores exactly equal. A trained model will
# get them only nearly equal. Say the score of *friend* is 2.7 in place of 3. To look at *these two and no others*,
# the scores must be large. But a factor $\beta$ on all scores multiplies the small gap as well: the ratio of the
# two weights is $e^{0.3 \beta}$.

# %%
nearly = mt.tensor([0.0, 3.0, 0.0, 2.7])  # scores of be at be, water, my, friend
for factor in (0.5, 1, 2, 4, 8, 16):
    row = (factor * nearly).softmax(-1)
    others = row[0].item() + row[2].item()
    print(f"factor {factor:4}: water {row[1]:.3f}, friend {row[3]:.3f}, others {others:.3f}")


def window(others):
    """Factors that leave friend more than 0.2, and less than that to all others of score 0."""
    factors = np.linspace(0.01, 8, 800)
    water, friend = np.exp(3 * factors), np.exp(2.7 * factors)
    total = water + friend + others
    found = factors[(friend / total > 0.2) & (others / total < 0.2)]
    return found[0], found[-1]


for others in (2, 50, 1000):
    low, high = window(others)
    print(f"{others:4} other words: both get their share for factors from {low:.2f} to {high:.2f}")

# %% evidence
# Weights against the factor, and what arrives at "be"
factors = [0.25 * 2 ** (i / 4) for i in range(28)]  # 0.25 to 27
by_factor = mt.stack([(factor * nearly).softmax(-1) for factor in factors])  # (factors, n)
figure, (left, right) = plot.subplots(1, 2, width=9, height=3, width_ratios=[1.3, 1])
curves = {
    "water, score 3": by_factor[:, 1],
    "friend, score 2.7": by_factor[:, 3],
    "be and my together, score 0": by_factor[:, 0] + by_factor[:, 2],
}
for label, curve in curves.items():
    left.plot(factors, curve.tolist(), label=label)
left.set(xscale="log", xlabel="factor on all scores", ylabel="weight", title="scores 3 and 2.7")
left.legend(fontsize=9)
arrows = {"water": value[1, :2], "friend": value[3, :2], "output": output[0, :2]}
for (name, end), color in zip(arrows.items(), ("0.45", "0.45", plot.COLORS[1]), strict=True):
    x, y = end.tolist()
    right.annotate("", (x, y), (0, 0), arrowprops=dict(arrowstyle="->", color=color, lw=1.8))
    right.text(x + 0.04, y + 0.04, name, color=color)
right.set(xlim=(-0.2, 1.5), ylim=(-0.2, 1.25), aspect="equal")
right.set(xlabel="first number", ylabel="second number", title="equal scores: what arrives at be")
plot.show(
    figure,
    alt="Left: as the factor grows, the weight of the other words falls to zero, that of water rises to "
    "one, and that of friend rises to about 0.4 and falls again. Right: the output points halfway between "
    "water and friend.",
)

# %% [markdown]
# Small factors let everything in; large ones let one place win. In between is a window, and it shrinks as the
# sequence gets longer, since more words have to be shut out. So one softmax is not *unable* to look at two places.
# It does so badly, and hands over a mean that no longer says who said what.
#
# The way out is plain. Two questions, two softmaxes.
#
# ## 2. Heads in a loop
#
# We cut each of the matrices $Q$, $K$, $V$ into $h$ blocks of $d/h$ columns. Block $\ell$ of the three makes an
# attention of its own, a **head**:
#
# $$O_\ell = A_\ell\, X V_\ell, \qquad A_\ell = \operatorname{softmax}\!\left(\frac{X Q_\ell\, (X K_\ell)^\top}{\sqrt{d/h}}\right),
# \qquad \ell = 1 \dots h .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $h$ | number of heads; it divides $d$ | a number |
# | $Q_\ell$, $K_\ell$, $V_\ell$ | columns of $Q$, $K$, $V$ that belong to head $\ell$ | $(d, d/h)$ |
# | $X Q_\ell$, $X K_\ell$, $X V_\ell$ | queries, keys, values of head $\ell$ | $(n, d/h)$ |
# | $A_\ell$ | weights of head $\ell$, each row adds up to one | $(n, n)$ |
# | $O_\ell$ | outputs of head $\ell$ | $(n, d/h)$ |
#
# Each head divides by the root of the size of *its* keys, $\sqrt{d/h}$: that is how many products its scores add
# up (C11 in chapter 05). Token by token and head by head:

# %%
h, n, d = 2, 4, 4
blocks = [slice(0, 2), slice(2, 4)]  # the columns of head 1 and of head 2


def head_of_token(i, block):
    """Output (d/h) and weights (n) of the head that owns this block of columns, for token i."""
    q_i = X[i] @ Q[:, block]  # (d/h)
    scores = [q_i @ (X[j] @ K[:, block]) / math.sqrt(d / h) for j in range(n)]
    weights = mt.stack(scores).softmax(-1)  # (n)
    return sum(weights[j] * (X[j] @ V[:, block]) for j in range(n)), weights


for number, block in enumerate(blocks, start=1):
    output_of_be, weights_of_be = head_of_token(0, block)
    print(f"be, head {number}: weights", weights_of_be, "output", output_of_be)

# %% [markdown]
# With a pencil: head 1 of *be* has the score $6 / \sqrt 2 = 4.24$ for *water* and 0 for the rest, $e^{4.24} = 69.6$,
# so *water* gets $69.6 / 72.6 = 0.959$. Head 2 gives the same to *friend*. One output points east, the other north,
# and each knows which question it answers. (A part of the sharper look is the smaller root: divided by $\sqrt 4$ as
# above, *water* would get $20.1 / 23.1 = 0.87$.)
#
# The loop over tokens in matrices, as in chapter 05; the loop over heads stays for now:

# %%
per_head = [attention(X @ Q[:, b], X @ K[:, b], X @ V[:, b]) for b in blocks]
outputs = mt.stack([output for output, _ in per_head])  # (h, n, d/h)
weights = mt.stack([weights for _, weights in per_head])  # (h, n, n)
by_loop = mt.stack([mt.stack([head_of_token(i, b)[0] for i in range(n)]) for b in blocks])
print("outputs agree with the loop over tokens:", mt.allclose(outputs, by_loop, atol=1e-6))

# %% evidence
# Weights of one head and of two
maps = mt.cat([one_softmax.unsqueeze(0), weights])
figure, panels = plot.heads(maps, words, words, width=8)
for axes, name in zip(panels[0], ("one head", "two: head 1", "two: head 2"), strict=True):
    axes.set(xlabel=name)
plot.show(
    figure,
    alt="Weights of one head and of two. The one head looks at two words at once for be and friend. In head 1 be looks at water and friend at my, the other rows are even; "
    "in head 2 be and my look at friend, water and friend look at be.",
)

# %% [markdown]
# The rows are queries. A head that has no question for a word, as head 1 for *water*, gets equal scores and so the
# mean of all. It cannot look at nothing: its weights add up to one.
#
# How does this compare with one head that has the same matrices? A dot product over $d$ columns is the sum of the
# dot products over the blocks. So the scores of one head are the *sum* of what the heads ask for,
#
# $$X Q\, (X K)^\top = \sum_{\ell=1}^{h} X Q_\ell\, (X K_\ell)^\top \qquad (n, n),$$
#
# and one softmax has to serve them all. Heads are nothing more than leaving this sum apart:

# %% evidence
# The scores of one head as a sum, and those of three heads apart
figure, (above, below) = plot.subplots(2, 1, width=6, height=3.7)
diagrams.scores(above, together=True)
diagrams.scores(below, together=False)
plot.show(
    figure,
    alt="Above: XQ, cut into three blocks of columns, times the transpose of XK, cut into three blocks of rows, "
    "is the sum of three n by n matrices, one for each pair of blocks: one head, one softmax. Below: the same "
    "three matrices stay apart: three heads, three softmaxes.",
)

# %% [markdown]
# The exchange of values, which one head did not notice, is now seen:

# %%
score_sum = sum(X @ Q[:, b] @ (X @ K[:, b]).T for b in blocks)
print("scores of one head = sum of scores of heads:", mt.allclose(X @ Q @ (X @ K).T, score_sum))
after = [attention(X @ Q[:, b], X @ K[:, b], exchanged[:, b])[0] for b in blocks]
for name, heads in (("before:", outputs), ("after: ", after)):
    print("be gets,", name, heads[0][0], "and", heads[1][0])

# %% [markdown]
# ## 3. Joining the heads
#
# Each token now has $h$ outputs of $d/h$ numbers. We put them side by side, which gives $d$ numbers again, and
# multiply by one more matrix, the **output projection** $W_O$ of shape $(d, d)$:
#
# $$\text{output} = [O_1, \dots, O_h]\, W_O \qquad (n, d).$$
#
# That is the whole layer:

# %% evidence
# Multi-head attention with its shapes
figure, axes = plot.subplots(width=10, height=4)
diagrams.layer(axes)
plot.show(
    figure,
    alt="Multi-head attention with three heads. From X, n by d, come three triples of queries, keys and values, "
    "n by d/h each. Each triple gives weights, n by n, and outputs, n by d/h. The three outputs stand side by "
    "side, n by d, and are multiplied by W_O, d by d, whose three blocks of rows have the colours of the heads.",
)

# %% [markdown]
# As a module, a head is chapter 05's layer with fewer columns. (`x` asks and `memory` answers: in self-attention
# they are the same sequence.) The layer is a list of heads and a linear map:


# %%
class Head(nn.Module):
    """x (B, T, d) looks at memory (B, n, d): (B, T, d/h), where d/h is the size."""

    def __init__(self, width, size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))

    def forward(self, x, memory):
        outputs, _ = attention(self.query(x), self.key(memory), self.value(memory))
        return outputs


class ListOfHeads(nn.Module):
    """x (B, T, d) looks at memory (B, n, d), one head after the other: (B, T, d)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // heads) for _ in range(heads))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory):
        return self.out(mt.cat([head(x, memory) for head in self.heads], dim=-1))


# %% [markdown]
# What is $W_O$ for? Cut it into $h$ blocks of $d/h$ *rows*, $W_O^{(\ell)}$ of shape $(d/h, d)$, as in the picture.
# Row blocks meet column blocks, so the product is a sum with one term a head:
#
# $$[O_1, \dots, O_h]\, W_O = \sum_{\ell=1}^{h} O_\ell\, W_O^{(\ell)} .$$

# %%
mt.manual_seed(0)
W_O = mt.randn(d, d)
concatenated = mt.cat(list(outputs), dim=-1)  # (n, d)
as_sum = sum(O_l @ W_O[b] for O_l, b in zip(outputs, blocks, strict=True))  # (n, d)
print("join and project = sum over heads:", mt.allclose(concatenated @ W_O, as_sum, atol=1e-5))

# %% [markdown]
# So heads work independently to the end and then *add up*. Without $W_O$, head 1 could only write into the first
# $d/h$ columns of the result; with it, into all $d$. This matters when the result is added to $X$, whose columns mean
# something (chapter 09). Where another linear layer follows at once, $W_O$ adds nothing: two matrices in a row are one.
#
# The sum also shows what a head is. Its weights depend on $Q_\ell$ and $K_\ell$ only through the product $Q_\ell
# K_\ell^\top$, and what it passes on depends on $V_\ell W_O^{(\ell)}$. Both are of shape $(d, d)$ and of rank at most
# $d/h$: the rows of a product are mixtures of the rows of its second factor, here $d/h$ of them. A head sees every token through a slit of $d/h$ directions: the price of having several.

# %%
mt.manual_seed(0)
queries_from, keys_from = mt.randn(64, 64), mt.randn(64, 64)  # Q and K for d = 64
for heads in (1, 2, 8, 32):
    product = queries_from[:, : 64 // heads] @ keys_from[:, : 64 // heads].T  # (d, d)
    rank = np.linalg.matrix_rank(product.array)
    print(f"d = 64, {heads:2} heads: rank of the product for head 1 is {rank}")

# %% [markdown]
# ## 4. Heads as an axis
#
# A list of heads makes many small products, one after the other. But the blocks of columns lie side by side: $XQ$
# *is* $[X Q_1, \dots, X Q_h]$. So we compute one product $XQ$ of shape $(n, d)$, as for one head, and then only look
# at its numbers differently, $(n, d) \to (n, h, d/h)$. To bring the head axis in front of the tokens, where a product
# of matrices treats it as one more batch axis, we swap the two: $(n, h, d/h) \to (h, n, d/h)$. With a batch of $B$
# sequences:


# %% save
def split_heads(x, heads):
    """(B, n, d) to (B, h, n, d/h): columns in h blocks, the head axis beside the batch."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    """(B, h, n, d/h) to (B, n, d): the way back."""
    return x.transpose(1, 2).flatten(2)


# %%
batch = X.unsqueeze(0)  # (B, n, d) with B = 1
query, key, value = (split_heads(batch @ matrix, h) for matrix in (Q, K, V))  # (B, h, n, d/h)
at_once, weights_at_once = attention(query, key, value)  # (B, h, n, d/h), (B, h, n, n)
print("shapes:", tuple(query.shape), tuple(weights_at_once.shape), tuple(at_once.shape))
print("outputs agree with the loop over heads:", mt.allclose(at_once[0], outputs, atol=1e-6))
print(
    "weights agree with the loop over heads:", mt.allclose(weights_at_once[0], weights, atol=1e-6)
)
print("merging undoes splitting:", mt.equal(merge_heads(query), batch @ Q))

# %% [markdown]
# `attention` is the function of chapter 05, unchanged. It was written for the last two axes, and whatever stands in
# front of them is batch. That is the whole trick. `unflatten` cuts one axis into two and copies nothing, `transpose`
# neither: they only say in which order to walk through the same memory. Where the numbers go, drawn by sending the
# labels of the cells through the same function:

# %% evidence
# The cells of XQ, and where split_heads puts them
token = mt.arange(n).repeat_interleave(d).view(1, n, d)  # at each cell its token
column = mt.arange(d).repeat(n).view(1, n, d)  # and its column


def draw_split(split):
    figure, panels = plot.subplots(1, 3, width=7.5, height=1.9, width_ratios=[2, 1, 1])
    parts = split(token, h)[0], split(column, h)[0]
    diagrams.split(panels, words, (token[0], column[0]), parts)
    return figure


plot.show(
    draw_split(split_heads),
    alt="Four rows of four cells. Head 1 gets columns 1 and 2 of each word in its row, head 2 columns 3 and 4.",
)

# %% [markdown]
# ### The mistake that mixes positions
#
# The shape that we want is $(B, h, n, d/h)$. Why not ask for it at once? The number of elements is right, no error is
# raised, and the shape that comes out is right, too.


# %%
def split_without_transpose(x, heads):
    """The mistake: the right shape (B, h, n, d/h), with the wrong numbers in it."""
    B, n, d = x.shape
    return x.reshape(B, heads, n, d // heads)


# %% evidence
# Where the mistake puts the cells
plot.show(
    draw_split(split_without_transpose),
    alt="Head 1 gets the words be and water, each cut into two rows; head 2 gets my and friend. In each "
    "head only one row of four holds cells of the word at its left.",
)

# %% [markdown]
# `reshape` reads the numbers in the order in which they lie in memory, token after token. So the first head gets the
# first half of the *sentence*, cut into pieces. The row that head 1 takes for *my* is made of *water*.
#
# How do we test for it? By the property of chapter 05 (C10), which needs no reference: without positions, permuted
# words must give permuted outputs.


# %%
def two_heads_of(x, split, merge):
    """Self-attention with two heads, their outputs side by side: (B, n, d)."""
    return merge(attention(*(split(x @ matrix, 2) for matrix in (Q, K, V)))[0])


order = mt.tensor([2, 0, 3, 1])  # my be friend water
for name, split, merge in (
    ("with transpose   ", split_heads, merge_heads),
    ("without transpose", split_without_transpose, lambda x: x.reshape(1, 4, 4)),
):
    own = (split(token, h)[0] == mt.arange(n).unsqueeze(1)).float().mean().item()
    outputs = two_heads_of(batch, split, merge)
    permuted = two_heads_of(batch[:, order], split, merge)
    change = (permuted - outputs[:, order]).abs().max().item()
    print(f"{name} rows with their own token: {own:.0%}, change by permuting: {change:.3f}")

# %% [markdown]
# With the mistake, what a word gets depends on where it stands. Yet nothing crashes, gradients flow, the loss falls.
# Section 6 trains a model that has this mistake, to see how well it hides.
#
# ### The layer
#
# All together. `look` gives the weights, for pictures and questions. `forward` does not need them, and leaves the middle
# to the library's `F.scaled_dot_product_attention`: the same in one operation (section 5 measures what that saves).


# %% save
class MultiHeadAttention(nn.Module):
    """x (B, T, d) looks at memory (B, n, d) with h heads: (B, T, d); allowed fits (B, h, T, n)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def project(self, x, memory):
        """Queries (B, h, T, d/h), keys and values (B, h, n, d/h)."""
        projected = self.query(x), self.key(memory), self.value(memory)
        return [split_heads(part, self.heads) for part in projected]

    def look(self, x, memory, allowed=None):
        """Outputs (B, h, T, d/h) and weights (B, h, T, n) of all heads."""
        return attention(*self.project(x, memory), allowed)

    def forward(self, x, memory, allowed=None):
        mixed = F.scaled_dot_product_attention(*self.project(x, memory), allowed)
        return self.out(merge_heads(mixed))


# %% [markdown]
# Does it agree with the list of heads? `nn.Linear` stores its matrix transposed, so what belongs to a head are *rows*
# of `query.weight`, and the heads' weights come one above the other.

# %%
mt.manual_seed(1)
one_by_one, layer = ListOfHeads(24, heads=4), MultiHeadAttention(24, heads=4)
weights_of = {"out.weight": one_by_one.out.weight}
for role in ("query", "key", "value"):
    rows = [getattr(head, role).weight for head in one_by_one.heads]  # (d/h, d) each
    weights_of[f"{role}.weight"] = mt.cat(rows)  # (d, d)
layer.load_state_dict(weights_of)

x, memory = mt.randn(2, 3, 24), mt.randn(2, 5, 24)  # (B, T, d), (B, n, d)
outputs, weights = layer.look(x, memory)  # (B, h, T, d/h), (B, h, T, n)
plain = layer.out(merge_heads(outputs))
print("as the list of heads:", mt.allclose(layer(x, memory), one_by_one(x, memory), atol=1e-5))
print("as by `look`, with chapter 05's function:", mt.allclose(layer(x, memory), plain, atol=1e-5))

# %% [markdown]
# The library has the layer as `nn.MultiheadAttention`, with PyTorch's names and one matrix of shape $(3d, d)$ for
# queries, keys and values:

# %%
theirs = nn.MultiheadAttention(24, 4, bias=False, batch_first=True)
rows = [layer.query.weight, layer.key.weight, layer.value.weight]
theirs.load_state_dict({"in_proj_weight": mt.cat(rows), "out_proj.weight": layer.out.weight})
expected, expected_weights = theirs(x, memory, memory, average_attn_weights=False)
print("output as nn.MultiheadAttention: ", mt.allclose(layer(x, memory), expected, atol=1e-5))
print("weights as nn.MultiheadAttention:", mt.allclose(weights, expected_weights, atol=1e-5))

# %% [markdown]
# We have just done **cross-attention** with heads, as chapter 04's decoder would with the source as `memory`: three
# queries, five keys, and for each head a matrix of scores $T \times n$. Padding must get no weight from any head. So
# `allowed`, which was $(B, 1, n)$ in chapter 05, gets an axis for heads, of size one:

# %%
padding = mt.tensor([[False] * 5, [False] * 3 + [True] * 2])  # (B, n)
allowed = ~padding[:, None, None, :]  # (B, 1, 1, n): for every head and every query
_, weights = layer.look(x, memory, allowed)
print("weights (B, h, T, n):", tuple(weights.shape))
print("weight on padding:", weights[1, :, :, 3:].sum().item())
alone = layer(x[1:], memory[1:, :3])
print("padding changes nothing:", mt.allclose(layer(x, memory, allowed)[1:], alone, atol=1e-5))

# %% [markdown]
# ## 5. What heads cost
#
# The heads share out the $d$ columns, so the four matrices stay $(d, d)$, whatever $h$. For self-attention over $n$
# tokens, with $2nkm$ FLOPs for a product of $(n, k)$ and $(k, m)$:
#
# | what | for one head of size $d$ | for $h$ heads of size $d/h$ |
# | --- | --- | --- |
# | parameters | $4 d^2$ | $4 d^2$ |
# | projections, FLOPs | $4 \cdot 2 n d^2$ | $4 \cdot 2 n d^2$ |
# | scores, FLOPs | $2 n^2 d$ | $h \cdot 2 n^2\, d/h = 2 n^2 d$ |
# | weights times values, FLOPs | $2 n^2 d$ | $h \cdot 2 n^2\, d/h = 2 n^2 d$ |
# | scores, numbers | $n^2$ | $h\, n^2$ |
#
# The last row is the one that grows. Each score matrix has $n^2$ entries, however few columns it was made from.
#
# ### FLOPs, memory and time (C13)
#
# The library counts the products that really run, and we look at how many numbers the weights have.


# %%
def counted(heads, n, width=128):
    """Parameters, FLOPs of projections and of the other products, numbers in the weights."""
    layer, x = MultiHeadAttention(width, heads), mt.zeros(1, n, width)
    with count_flops() as counter:
        _, weights = layer.look(x, x)
        layer.out(x)
    parameters = sum(p.numel() for p in layer.parameters())
    return parameters, counter.by_name["linear"], counter.by_name["matmul"], weights.numel()


costs = {heads: counted(heads, n=64) for heads in (1, 2, 4, 8)}
print("heads  parameters  projections   products  numbers in the scores")
for heads, cost in costs.items():
    print("{:5} {:11,} {:12,} {:10,} {:10,}".format(heads, *cost))

# %% [markdown]
# Time is another matter than FLOPs. We take the processor time of a forward and a backward pass over 8 sequences, $d =
# 128$, with the fused operation and with chapter 05's function in its place.


# %%
class Unfused(MultiHeadAttention):
    """The same layer by chapter 05's function."""

    def forward(self, x, memory, allowed=None):
        return self.out(merge_heads(self.look(x, memory, allowed)[0]))


@lab.experiment(
    "C13",
    n=[64],
    layer=["fused", "attention()"],
    heads=[1, 2, 4, 8],
    repeats=5,
    full=dict(n=[64, 256], heads=[1, 2, 4, 8, 16], repeats=7, seeds=3),
)
def time_of_heads(n, layer, heads, repeats, width=128):
    look = {"fused": MultiHeadAttention, "attention()": Unfused}[layer](width, heads)
    x, times = mt.randn(8, n, width), []
    for _ in range(repeats):
        start = process_time()
        look(x, x).sum().backward()
        times.append(process_time() - start)
    return {"milliseconds": 1000 * min(times)}


# %% evidence
# C13: what is counted and what is timed, against the number of heads
runs = time_of_heads.run()
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3.2)
left.plot(
    list(costs), [cost[3] / costs[1][3] for cost in costs.values()], "o-", label="score memory"
)
left.plot(
    list(costs), [cost[2] / costs[1][2] for cost in costs.values()], "s--", label="product FLOPs"
)
left.set(title="counted, any n", ylabel="relative to one head")
for n in runs.best.settings_of("n"):
    for layer in runs.best.settings_of("layer"):
        rows = runs.best.where(n=n, layer=layer)
        times = {
            k: np.median(rows.values("milliseconds", heads=k)) for k in rows.settings_of("heads")
        }
        relative = [time / times[1] for time in times.values()]
        right.plot(list(times), relative, marker="o", label=f"n = {n}, {layer}")
right.set(title="processor time, " + ("recorded" if runs.full else "measured here"))
for axes in (left, right):
    ends = [1, max(runs.best.settings_of("heads"))]
    axes.plot(ends, ends, color="0.5", linewidth=1, linestyle=":", label="proportional to h")
    axes.set(xscale="log", yscale="log", xlabel="heads h", ylim=(0.8, 20))
    axes.set_xticks(runs.best.settings_of("heads"), runs.best.settings_of("heads"))
    axes.set_yticks([1, 2, 4, 8, 16], [1, 2, 4, 8, 16])
    axes.minorticks_off()
    axes.legend(fontsize=8)
plot.show(
    figure,
    alt="Against the number of heads, on log scales. Left: score memory lies on the line of proportional growth, "
    "product FLOPs are level. Right: the time relative to one head grows with the heads, more so for longer "
    "sequences, and less than in proportion.",
)
for n in runs.best.settings_of("n"):
    runs.table("heads", "milliseconds", columns="layer", n=n)
parameters, projections, products, scores = zip(*costs.values(), strict=True)
for name, numbers, one in (
    ("parameters are 4 d^2", parameters, 4 * 128**2),
    ("FLOPs of projections are 8 n d^2", projections, 8 * 64 * 128**2),
    ("FLOPs of products are 4 n^2 d", products, 4 * 64**2 * 128),
):
    lab.holds("C13", f"{name}, for all h", [x / one for x in numbers], between=(1, 1))
of_each = [x / (heads * 64**2) for x, heads in zip(scores, costs, strict=True)]
lab.holds("C13", "numbers in the scores are h n^2", of_each, between=(1, 1))

# %% [markdown]
# What is free in FLOPs is not free in time. Our guess at the cause: the softmax walks over $h n^2$ numbers several
# times, which no product counts. Your machine will have other ratios; the counts are everyone's. The fused operation
# takes as long with one head; with eight, about half at $n = 64$ and 15 % less at $n = 256$. On long sequences it saves
# memory, too (chapter 12).
#
# > **C13 · holds with a condition: FLOPs stay as they are with 1 to 8 heads; memory of the scores grows 8-fold, and
# > time at 256 words from 10 to 25 ms.** *The lectures* (deck 1, "Multi-head self-attention is computationally
# > efficient"; deck 3): "Even though we compute $h$ many attention heads, it's not really more costly."
# >
# > *Measured*: With 1, 2, 4 and 8 heads ($n = 64$, $d = 128$): always 65,536 parameters, 8,388,608 FLOPs of projections
# > and 2,097,152 of products, and 4,096 to 32,768 numbers in the scores, $h$ times as many. Processor time of a pass with
# > one head and with eight, medians of three runs: fused 1.7 and 1.7 ms at $n = 64$, 10 and 25 ms at $n = 256$; by
# > chapter 05's function 1.5 and 3.3 ms, 10 and 29 ms.
#
# ## 6. A task for two heads
#
# Do heads do anything that one head could not learn to do in another way? We want a task that asks for two places,
# and for knowing which is which. A table holds 8 pairs of a key and a value; the keys are 8 of 16 letters, the values
# numbers below 8. The question names *two* of the letters in an order, and both values are wanted, in this order.

# %%
LETTERS, PAIRS, VALUES = "abcdefghijklmnop", 8, 8


def draw_tables(batch, asked):
    """Tables, questions and answers: letters and values (B, 8), asked letters and answers (B, asked)."""
    letters = mt.rand(batch, len(LETTERS)).argsort(dim=1)[:, :PAIRS]
    values = mt.randint(0, VALUES, (batch, PAIRS))
    places = mt.rand(batch, PAIRS).argsort(dim=1)[:, :asked]
    return letters, values, letters.gather(1, places), values.gather(1, places)


mt.manual_seed(10)
letters, values, asked, answers = draw_tables(1, 2)
pairs = zip(letters[0].tolist(), values[0].tolist(), strict=True)
print("table:   ", "  ".join(f"{LETTERS[letter]}={value}" for letter, value in pairs))
print("question:", ", ".join(LETTERS[letter] for letter in asked[0].tolist()))
print("answer:  ", ", ".join(map(str, answers[0].tolist())))

# %% [markdown]
# The model is one attention layer and nothing else. A pair is one token, the sum of an embedding of its letter and
# one of its value. The question is one token too, the sum of an embedding of the letter that is asked first and
# another of the letter asked second (each letter has one vector for each of the two roles). A linear layer reads the
# answers from the output of attention, 8 scores for each.


# %%
class LookUp(nn.Module):
    """Scores (B, asked, 8) of the values that belong to the letters asked for."""

    def __init__(self, heads, asked=2, width=32, feed_forward=False, layer=MultiHeadAttention):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), width)
        self.value = nn.Embedding(VALUES, width)
        self.question = nn.Embedding(asked * len(LETTERS), width)
        self.attention = layer(width, heads)
        self.read = nn.Linear(width, asked * VALUES)
        if feed_forward:
            hidden = nn.Linear(width, 4 * width)
            self.read = nn.Sequential(hidden, nn.ReLU(), nn.Linear(4 * width, asked * VALUES))

    def embed(self, letters, values, asked):
        """The question (B, 1, d) and the table (B, 8, d)."""
        roles = asked + len(LETTERS) * mt.arange(asked.shape[1])  # another row for each role
        return self.question(roles).sum(1, keepdim=True), self.letter(letters) + self.value(values)

    def forward(self, letters, values, asked):
        found = self.attention(*self.embed(letters, values, asked))  # (B, 1, d)
        return self.read(found).unflatten(-1, (-1, VALUES)).squeeze(1)


# %% [markdown]
# **One head cannot do it: a short proof.** Let the one head put weight $w$ on the first of the two pairs and $1 - w$ on
# the second, whatever values they have, and nothing elsewhere. Take four tables that differ only in the two values in
# question, which are 3 or 5, and write $u_3$ and $u_5$ for what attention passes on of such a pair. Let $D(x)$ be the
# score that the *second* answer is 5, less the score that it is 3. It is affine in $x$ (linear up to a constant), and
# the weights add up to one, so the $D$ of a mean is the mean of the $D$. With $D_3 = D(u_3)$ and $D_5 = D(u_5)$:
#
# | values asked for | the linear layer gets | second answer | so it takes |
# | --- | --- | --- | --- |
# | 3, 5 | $w u_3 + (1 - w)\, u_5$ | 5 | $w D_3 + (1 - w) D_5 > 0$ |
# | 5, 3 | $w u_5 + (1 - w)\, u_3$ | 3 | $w D_5 + (1 - w) D_3 < 0$ |
# | 3, 3 | $u_3$ | 3 | $D_3 < 0$ |
# | 5, 5 | $u_5$ | 5 | $D_5 > 0$ |
#
# The first row less the second says $(2w - 1)\,(D_3 - D_5) > 0$. The last two say $D_3 < D_5$, so $w < 1/2$: the second
# place needs the larger weight. But the first answer needs it just as much: the same four tables, with the two places
# exchanged, say $w > 1/2$. No $w$ serves both. $\square$
#
# Two heads have no such trouble: $w = 1$ in one and $w = 0$ in the other. Note what the proof leans on. The reading
# layer is linear; a feed-forward net that sees $0.7 u_3 + 0.3 u_5$ might tell that from $0.7 u_5 + 0.3 u_3$. And the
# weights are assumed not to depend on the values, which a trained model need not obey. So we measure.
#
# ### One head and two (C14)
#
# Each model trains with Adam on 128 new tables at every step. We report on 2,000 tables, and choose learning rates on
# 2,000 others.


# %%
def train_look_up(model, asked, rate, steps):
    """Train with Adam on new tables at every step."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for _ in tqdm(range(steps), leave=False):
        letters, values, questions, answers = draw_tables(128, asked)
        scores = model(letters, values, questions)
        loss = F.cross_entropy(scores.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


mt.manual_seed(100)
reported = {asked: draw_tables(2000, asked) for asked in (1, 2, 3, 4)}
elsewhere = {asked: draw_tables(2000, asked) for asked in (1, 2, 3, 4)}  # rates are chosen by these


# %%
@mt.no_grad()
def all_right(model, tables):
    """The share of tables with all answers right."""
    *inputs, answers = tables
    return (model(*inputs).argmax(-1) == answers).all(1).float().mean()


@mt.no_grad()
def looked_at(model, tables):
    """Mean weight of each head on each letter asked for: (h, asked)."""
    letters, values, asked, _ = tables
    _, weights = model.attention.look(*model.embed(letters, values, asked))  # (B, h, 1, 8)
    hits = (letters.unsqueeze(1) == asked.unsqueeze(2)).float()  # (B, asked, 8)
    return (weights[:, :, 0] @ hits.mT).mean(0)


# %%
@mt.no_grad()
def in_detail(model, tables):
    """Loss, wrong answers at the two places, and the largest weights on the two letters."""
    *inputs, answers = tables
    scores = model(*inputs)
    said = scores.argmax(-1)
    wrong = said != answers
    low, high = looked_at(model, tables).amax(0).sort()[0]
    return {
        "loss": F.cross_entropy(scores.flatten(0, 1), answers.flatten()),
        "wrong, worse place": wrong.float().mean(0).amax(),
        "wrong, better place": wrong.float().mean(0).amin(),
        "exchanged of these": ((said == answers.flip(1)) & wrong).sum() / wrong.sum().clamp(min=1),
        "larger weight": high,
        "smaller weight": low,
    }


# %%
MODELS = {
    "one head": dict(heads=1),
    "one head, 4 x the steps": dict(heads=1),
    "one head, width 64": dict(heads=1, width=64),
    "one head, feed-forward": dict(heads=1, feed_forward=True),
    "two heads": dict(heads=2),
    "eight heads": dict(heads=8),
}


@lab.experiment(
    "C14",
    model=list(MODELS),
    rate=3e-3,
    steps=250,
    full=dict(
        rate=Tuned(1e-3, 3e-3, 1e-2, highest="both right elsewhere", seeds=3), steps=500, seeds=5
    ),
)
def one_head_or_two(model, rate, steps):
    look_up = LookUp(**MODELS[model])
    train_look_up(look_up, 2, rate, 4 * steps if "4 x" in model else steps)
    return {
        "both right": all_right(look_up, reported[2]),
        "both right elsewhere": all_right(look_up, elsewhere[2]),
        **in_detail(look_up, reported[2]),
    }


# %% evidence
# Both answers right, by model: figure, table and verdicts
runs = one_head_or_two.run()
runs.draw(
    y="both right",
    by="model",
    lines={"chance": 1 / 64},
    limits=(0, 1.03),
    width=8,
    alt="Share of tables with both answers right, as bars. One head stays near 0.2, also with four times the steps "
    "and with twice the width; with a feed-forward net it comes close to 1; two and eight heads reach 1.",
)
runs.table(
    "model",
    [
        "rate",
        "loss",
        "wrong, worse place",
        "wrong, better place",
        "exchanged of these",
        "larger weight",
        "smaller weight",
    ],
)
for sentence, model, bounds in (
    ("one head rarely gets both answers right", "one head", (0, 0.4)),
    ("nor with four times the steps", "one head, 4 x the steps", (0, 0.4)),
    ("nor with twice the width", "one head, width 64", (0, 0.4)),
    ("two heads nearly always do", "two heads", (0.9, 1)),
    ("one head with a feed-forward net mostly does", "one head, feed-forward", (0.6, 1)),
):
    runs.holds(
        sentence, lambda rows, model=model: rows.values("both right", model=model), between=bounds
    )
runs.holds(
    "wrong answers of one head are the right ones to the other question",
    lambda rows: rows.values("exchanged of these", model="one head"),
    above=0.9,
)


# %% [markdown]
# **One head looks at both places and reads the larger one twice.** It does not get each answer a little wrong: in the
# recorded runs one of the two is wrong in 6 to 8 % of the tables, the other in 73 to 79 %. And the wrong answers are not
# just any numbers. More than 99.9 % of them are the right answer to the *other* question. That is the proof at work: the
# two letters have weights of 0.48 to 0.49 and 0.36 to 0.38 on average, and the larger wins both times. Four times the
# steps do not help, nor does twice the width. (More steps lower the loss, to 0.53 to 0.56. Who knows both values and not
# which is which has $\tfrac78 \log 2 = 0.61$: unequal weights say something about the order, but too little to change
# the first choice.)
#
# **Two heads get everything right**, with exactly as many parameters as one.
#
# **One head and a feed-forward net** come close to that, with weights of 0.61 to 0.64 and 0.27 to 0.28 on the two. So
# one softmax *can* carry two places, if something that is not linear takes them apart. In a Transformer a feed-forward
# net follows every attention layer (chapter 09): C14 does not say that models with one head are helpless, but what heads
# do directly.
#
# A large learning rate shows another way to fail, which the proof allows as well: to look at one place only, and to
# guess the other answer.


# %% evidence
# What one head looks at, by learning rate: table and verdict
@lab.experiment(
    "C14",
    rate=[3e-3, 3e-2],
    steps=250,
    full=dict(rate=[1e-3, 3e-3, 1e-2, 3e-2], steps=500, seeds=5),
)
def one_head_by_rate(rate, steps):
    look_up = LookUp(heads=1)
    train_look_up(look_up, 2, rate, steps)
    return {"both right": all_right(look_up, reported[2]), **in_detail(look_up, reported[2])}


runs = one_head_by_rate.run()
runs.table("rate", ["both right", "loss", "larger weight", "smaller weight"])
runs.holds(
    "at a rate of 0.003 it looks at both letters",
    lambda rows: rows.values("smaller weight", rate=3e-3),
    above=0.25,
)
runs.holds(
    "at ten times that rate at one",
    lambda rows: rows.values("smaller weight", rate=3e-2),
    below=0.1,
)

# %% [markdown]
# > **C14 · holds with a condition: Where a linear layer reads the heads, two heads answer both questions, 1.00, and
# > one head 0.23 at most.** *The lectures* (deck 5, "Multi-head attention"; deck 1, "Multi-headed attention"; deck
# > 3): one softmax makes it "hard to specify that you want two different things"; "What if we want to look in
# > multiple places in the sentence at once?"
# >
# > *Measured*: Both answers right, five seeds, the rate chosen on other tables and seeds, chance 0.016: one head 0.176
# > to 0.227, with four times the steps 0.164 to 0.207, with twice the width 0.159 to 0.221; two heads and eight 1.00.
# > One head that a feed-forward net reads: 0.985 to 0.993.
#
# ### Does the mistake show? (E1)
#
# Section 4's mistake raises no error. Does the training tell? The same models, without the transpose:


# %%
class WithoutTranspose(MultiHeadAttention):
    """The mistake of section 4: heads that share out the words."""

    def project(self, x, memory):
        projected = self.query(x), self.key(memory), self.value(memory)
        return [split_without_transpose(part, self.heads) for part in projected]


@lab.experiment(
    "E1",
    heads=[2, 8],
    rate=3e-3,
    steps=250,
    full=dict(
        rate=Tuned(1e-3, 3e-3, 1e-2, highest="both right elsewhere", seeds=3), steps=500, seeds=5
    ),
)
def heads_that_share_the_words(heads, rate, steps):
    look_up = LookUp(heads, layer=WithoutTranspose)
    train_look_up(look_up, 2, rate, steps)
    return {
        "both right": all_right(look_up, reported[2]),
        "both right elsewhere": all_right(look_up, elsewhere[2]),
    }


# %% evidence
# Both answers right with the mistake: table and verdict
runs = heads_that_share_the_words.run()
runs.table("heads", ["both right", "rate"])
runs.holds(
    "two heads without the transpose still beat one head",
    lambda rows: rows.values("both right", heads=2),
    between=(0.35, 0.99),
)
runs.holds(
    "eight heads do not, where eight right ones make no mistake",
    lambda rows: rows.values("both right", heads=8),
    below=0.3,
)

# %% [markdown]
# Two heads each see half of the table, cut into pieces, and make something of it. The result looks like a model in need
# of more training, not like a missing line. With eight heads each sees a single pair, and there the mistake shows.
#
# > **E1 · With eight heads clearly, 0.15 to 0.18 in place of 1.00; with two hardly, 0.91.** *Our question*: does a
# > model that mixes positions show it in its results?
# >
# > *Measured*: Both answers right, five seeds, the rate chosen on other tables and seeds: two heads without the
# > transpose 0.911 to 0.922, eight 0.146 to 0.175. With it both reach 1.00 (C14).
#
# ### As many heads as places (E2)
#
# If a head is good for one place, a question for three letters should need three. We ask for 1, 2, 3 and 4 letters of
# the table, and give the layer 1, 2 and 4 heads, all with $d = 32$, so that more heads are smaller ones.


# %%
@lab.experiment(
    "E2",
    asked=[3],
    heads=[2, 4],
    rate=3e-3,
    steps=250,
    full=dict(
        asked=[1, 2, 3, 4],
        heads=[1, 2, 4],
        rate=Tuned(1e-3, 3e-3, 1e-2, highest="all right elsewhere", seeds=2),
        steps=500,
        seeds=5,
    ),
)
def as_many_heads_as_places(asked, heads, rate, steps):
    look_up = LookUp(heads, asked)
    train_look_up(look_up, asked, rate, steps)
    _, _, _, answers = reported[asked]
    alike = answers[:, 0] == answers[:, -1]  # the first answer equals the last
    return {
        "all right": all_right(look_up, reported[asked]),
        "all right elsewhere": all_right(look_up, elsewhere[asked]),
        "first answer equals last": all_right(look_up, [part[alike] for part in reported[asked]]),
        "looks": looked_at(look_up, reported[asked]),
    }


# %% evidence
# All answers right against the number of heads: figure, tables and verdicts
runs = as_many_heads_as_places.run()
figure, axes = plot.subplots(width=7, height=3)
for i, asked in enumerate(runs.best.settings_of("asked")):
    rows = runs.best.where(asked=asked)
    heads = rows.settings_of("heads")
    shares = [rows.values("all right", heads=k) for k in heads]  # (heads, seeds)
    style = dict(color=plot.COLORS[i], marker="os^D"[i])
    axes.plot(heads, [np.median(x) for x in shares], markersize=0, **style, linestyle=plot.LINES[i])
    for at, found in zip(heads, shares, strict=True):
        label = f"{asked} asked" if at == heads[0] else None
        beside = [at * 1.03 ** (i - 1.5)] * len(found)  # so that no mark hides another
        axes.plot(beside, found, fillstyle="none", linestyle="", **style, label=label)
axes.set(xscale="log", xlabel="heads", ylabel="all answers right", ylim=(-0.03, 1.05))
axes.set_xticks(heads, heads)
axes.minorticks_off()
figure.suptitle("a mark for each seed, lines through the medians", fontsize=9, color="0.35")
figure.legend(loc="outside right center", fontsize=9)
plot.show(
    figure,
    alt="Share of tables with all answers right against the number of heads, a colour for each number of "
    "letters asked. Each curve reaches one where there are as many heads as letters, and is low before; of five "
    "marks for three letters and two heads one stands at about 0.5, the others near 0.15.",
)
runs.table("asked", "all right", columns="heads")
for row in runs.best:
    if (row["asked"], row["heads"]) == (3, 2):
        looks = " and ".join(" ".join(f"{x:.2f}" for x in head) for head in row["looks"])
        measured(
            f"3 asked, 2 heads, seed {row['seed']}: all right {row['all right']:.3f}, "
            f"where the first answer equals the last {row['first answer equals last']:.3f}; "
            f"weights of head 1 and 2 on the letters: {looks}"
        )
runs.holds(
    "three places, two heads: some tables are wrong",
    lambda rows: rows.values("all right", asked=3, heads=2),
    below=0.95,
)
runs.holds(
    "three places, four heads: nearly all are right",
    lambda rows: rows.values("all right", asked=3, heads=4),
    above=0.95,
)

# %% [markdown]
# With as many heads as letters, or more, nearly all tables are right; with fewer, few. But look at three letters and two
# heads, where one seed does much better than the others. Its head 1 puts 0.46 and 0.26 on the first and second letter,
# its head 2 puts 0.30 and 0.43 on the second and third. We read it so: a linear layer can *subtract* heads, and in the
# difference the second value nearly cancels. Then the first and the third cancel where they are equal, and indeed on such
# tables this model is right in only 15 %. So "a head for each place" is a rule of thumb. Our proof holds for one head,
# which has nothing to subtract from.
#
# For language nobody knows the number of heads in advance. Deck 5 says that "around 8" work well for big models, and
# Vaswani et al. (2017) found one head worse than eight, and thirty-two worse than sixteen. C38 measures it in a whole
# Transformer.
#
# > **E2 · As many heads as places, and 0.99 and more is right; with fewer, 0.48 at most.** *Our
# > question*: does a question for $k$ places take $k$ heads?
# >
# > *Measured*: All answers right, five seeds, rates chosen on other tables and seeds. As many heads as letters, or more:
# > 0.987 to 1.000. Fewer: two letters with one head 0.176 to 0.227, three with one 0.020 to 0.029, four with one 0.004 to
# > 0.006, four with two 0.022 to 0.070; but three letters with two heads 0.144 to 0.190 in four seeds and 0.477 in one.
#
# ## 7. What heads look at
#
# We draw the weights of trained models. Below, one table and six questions about it, a row each. Nobody told the heads
# which letter to care for.


# %%
def trained(heads):
    mt.manual_seed(0)
    model = LookUp(heads)
    train_look_up(model, 2, rate=3e-3, steps=250)
    return model


models = {heads: trained(heads) for heads in (1, 2, 8)}

mt.manual_seed(10)
letters, values, _, _ = draw_tables(1, 2)
places = mt.tensor([(0, 1), (1, 0), (2, 5), (5, 2), (6, 3), (4, 7)])  # of the letters asked for
asked = letters[0][places]  # (6, 2)
table = letters.expand(6, PAIRS), values.expand(6, PAIRS)

# %% evidence
# Weights of one head, of two and of eight on the same six questions
pairs = [f"{LETTERS[a]}={b}" for a, b in zip(letters[0].tolist(), values[0].tolist(), strict=True)]
questions = [", ".join(LETTERS[letter] for letter in row) for row in asked.tolist()]


def draw_maps(axes, heads, head, title):
    """Weights (6, 8) of one head, with a ring where the first letter stands, a square the second."""
    model = models[heads]
    with mt.no_grad():
        _, weights = model.attention.look(*model.embed(*table, asked))  # (6, h, 1, 8)
    plot.attention(axes, weights[:, head, 0], questions, pairs, colorbar=False, title=title)
    for at, marker in zip(places.T.tolist(), "os", strict=True):
        style = dict(linestyle="", fillstyle="none", color=plot.COLORS[1], markersize=11)
        axes.plot(at, range(6), marker, markeredgewidth=1.5, **style)
    axes.set(xlabel="", ylabel="")


figure, panels = plot.subplots(1, 3, width=9.5, height=2.7, sharey=True)
for axes, (heads, head) in zip(panels, ((1, 0), (2, 0), (2, 1)), strict=True):
    draw_maps(axes, heads, head, "one head" if heads == 1 else f"two heads: head {head + 1}")
plot.show(
    figure,
    alt="Weights for six questions about one table of eight pairs, the letters asked for marked. The one head spreads "
    "its weight over both letters. Of two heads, head 1 looks at the second letter in every row, head 2 at the first.",
)
figure, panels = plot.subplots(2, 4, width=10, height=4.8, sharex=True, sharey=True)
for head, axes in enumerate(panels.flat):
    draw_maps(axes, 8, head, f"eight heads: head {head + 1}")
    axes.tick_params(labeltop=head < 4)
plot.show(
    figure,
    alt="The same for eight heads. Heads 3 and 7 look mostly at the second letter, heads 1, 2, 5, 6 and 8 mostly at the "
    "first, head 4 is pale; in some rows a letter that is not asked for is dark, such as i in the first row of head 1.",
)

# %% [markdown]
# The ring marks the letter that is asked first, the square the second. The two heads have shared out the work: head 1
# looks at the squares, head 2 at the rings, also where the same two letters are asked in the other order. The one head
# looks at both, with the larger weight mostly on the letter asked second. With eight heads the picture is less tidy.
# Heads 3 and 7 look at the squares, five others mostly at the rings; some rows are dark at letters that nobody asked for.
#
# The eight heads once more, to point at: choose a head, then a question, and read the weight of each pair.

# %% evidence
# The eight heads on the six questions, to point at
question, memory = models[8].embed(*table, asked)  # (6, 1, d), (6, 8, d), the same table six times
look(lambda *_: models[8].attention(question.transpose(0, 1), memory[:1]), pairs, questions)

# %% [markdown]
# ### Removing heads (E3)
#
# A map says where a head looks. Whether anything depends on it is another question, as in chapter 04. We ask it by
# **removing** a head: its output is replaced by its mean over all test questions, so that it no longer says anything
# about the one at hand, and we count the right answers.


# %%
@mt.no_grad()
def right_without(model, head, tables):
    """Shares of right answers (asked) when this head says the same about every question."""
    *inputs, answers = tables
    outputs, _ = model.attention.look(*model.embed(*inputs))  # (B, h, 1, d/h)
    outputs[:, head] = outputs[:, head].mean(0)
    scores = model.read(model.attention.out(merge_heads(outputs)))
    said = scores.unflatten(-1, (-1, VALUES)).squeeze(1).argmax(-1)
    return (said == answers).float().mean(0)


@lab.experiment("E3", heads=[2, 8], rate=3e-3, steps=250, full=dict(steps=500, seeds=5))
def without_each_head(heads, rate, steps):
    look_up = LookUp(heads)
    train_look_up(look_up, 2, rate, steps)
    return {
        "looks": looked_at(look_up, reported[2]),
        "right without": [
            right_without(look_up, head, reported[2]).tolist() for head in range(heads)
        ],
    }


# %% evidence
# Right answers without one head: figure, table and verdicts
runs = without_each_head.run()
figure, panels = plot.subplots(1, 2, width=8.5, height=2.8, sharey=True)
for axes, heads in zip(panels, (2, 8), strict=True):
    for i, answer in enumerate(("first answer", "second answer")):
        looks, right = (
            runs.best.values(what, heads=heads)[..., i].flatten()
            for what in ("looks", "right without")
        )
        style = dict(linestyle="", fillstyle="none", color=plot.COLORS[i])
        axes.plot(looks, right, marker="os"[i], label=answer, **style)
    axes.axhline(1 / 8, color="0.4", linewidth=1, linestyle=":", label="chance")
    axes.set(xlabel="weight of the head on the letter asked", xlim=(-0.05, 1.05))
    axes.set(title=f"{heads} heads")
panels[0].set(ylabel="right without this head", ylim=(0, 1.05))
panels[0].legend(loc="center", fontsize=8)
seeds = ", ".join(map(str, runs.best.settings_of("seed")))
figure.suptitle(("recorded, " if runs.full else "measured here, ") + f"seeds {seeds}", fontsize=9)
plot.show(
    figure,
    alt="Right answers without one head against the weight that the head had on the letter asked. Of two "
    "heads, removing the one that looks there leaves chance. Of eight, removing any one leaves most answers "
    "right, the fewest where the weight was about 0.9.",
)
for heads in (2, 8):
    for row in runs.best.where(heads=heads):
        both = zip(map(max, row["looks"]), map(min, row["right without"]), strict=True)
        each = ", ".join(f"{looks:.2f}: {right:.2f}" for looks, right in sorted(both))
        measured(f"{heads} heads, seed {row['seed']}, larger weight: right without it  {each}")


def lost_and_kept(rows):
    """Of two heads: right answers without the head, to the letter it looks at and to the other."""
    looks, right = (rows.values(what, heads=2) for what in ("looks", "right without"))
    lost = np.take_along_axis(right, looks.argmax(-1, keepdims=True), -1)
    kept = np.take_along_axis(right, looks.argmin(-1, keepdims=True), -1)
    return lost.flatten(), kept.flatten()


for sentence, measure, bounds in (
    (
        "of two heads, the answer that it looks at falls to chance",
        lambda rows: lost_and_kept(rows)[0],
        dict(below=0.3),
    ),
    ("and the other stays", lambda rows: lost_and_kept(rows)[1], dict(above=0.9)),
    (
        "of eight heads, without any one most answers stay right",
        lambda rows: rows.values("right without", heads=8).flatten(),
        dict(above=0.5),
    ),
):
    runs.holds(sentence, measure, **bounds)

# %% [markdown]
# **Of two heads**, removal confirms the map. The answer that the head looks at falls to chance, the other stays.
# **Of eight heads** several look at the same letter, and stand in for each other. And equally dark maps need not matter
# equally: a head with a weight of 0.91 on a letter leaves 0.89 of its answers in one model and 0.66 in another.
#
# So "head 3 looks at the letter that is asked second" and "the model needs head 3 for the second answer" are two
# sentences, and neither follows from the other. Nor does a map say *what* is passed on: that is up to $V_\ell
# W_O^{(\ell)}$. Large trained models are alike: most heads can be removed with little loss, a few cannot (Michel et al.,
# 2019; Voita et al., 2019).
#
# **The number of a head means nothing.** Renumbering the heads, in $Q$, $K$, $V$ and $W_O$ alike, gives the very same
# function:

# %%
old, swapped = models[2].attention, MultiHeadAttention(32, heads=2)
exchange = [*range(16, 32), *range(16)]  # what belongs to head 2, then to head 1
state = {
    f"{role}.weight": getattr(old, role).weight[exchange]  # rows: nn.Linear stores the transpose
    for role in ("query", "key", "value")
}
swapped.load_state_dict(state | {"out.weight": old.out.weight[:, exchange]})
question, memory = models[2].embed(*table, asked)
same = mt.allclose(swapped(question, memory), old(question, memory), atol=1e-4)
print("the same with heads renumbered:", same)

# %% [markdown]
# > **E3 · Without one of two heads 0.11 to 0.14 is right at its place; of eight heads, 37 of 40 can be removed.**
# > *Our question*: does anything depend on the place that a head looks at?
# >
# > *Measured*: Right answers without the head, five seeds. Of two heads, at the place that it looks at 0.107 to 0.135, at
# > the other 1.00. Of eight heads, 37 of 40 can be removed and leave at least 0.91 of either answer; the others leave
# > 0.66, 0.74 and 0.89.
#
# **Try it**: take the transpose out of `merge_heads` alone, and see which tests of section 4 notice; train `LookUp(1)`
# with 3 values in place of 8; remove *two* of the eight heads; ask for three letters with two heads and a feed-forward
# net.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | scores as $x_i^\top Q^\top K\, x_j$ and as $X Q K^\top X^\top$ on neighbouring slides (decks 1 and 3) | both, with different $Q$ and $K$ | the first has columns for tokens, the second rows, as this book has; the one's $Q$ is the other's transpose |
# | $\text{output}_\ell \in \mathbb{R}^{d/h}$ (decks 1 and 3) | $(n, d/h)$ | $d/h$ is one token |
# | one product $XQ\,(XK)^\top$ gives the scores of all heads (decks 1 and 3) | $h$ products, after the split | that product is one $(n, n)$ matrix, the sum of the heads' scores (section 2) |
# | $e_{l,t,i} = q_{l,i} \cdot k_{l,i}$, where $i$ is the head, $l$ the token that asks and $t$ the other (deck 5) | $q_{l,i} \cdot k_{t,i}$ | the key is that of the other token |
# | the heads are put side by side, and that is the output (decks 2 and 5) | $W_O$ follows | decks 1 and 3 call it $Y$, deck 4 $W_o$ |
# | "the matrices are the same sizes" (decks 1 and 3) | $XQ$, $XK$ and $XV$ are | the scores are $h \times n \times n$ in place of $n \times n$ |
#
# </details>
#
# ## Summary
#
# - One softmax looks at two places only on a knife's edge, and its mean no longer says which came from where.
# - A head is an attention of its own on $d/h$ of the columns. The heads' outputs are put side by side and multiplied by
#   $W_O$, which is a sum over heads.
# - As an axis: $(B, n, d)$ to $(B, n, h, d/h)$, *then* `transpose` to $(B, h, n, d/h)$. Without it positions are mixed
#   and nothing crashes (E1); permuting the words finds it.
# - Heads cost no parameters and no FLOPs, but $h$ times the scores, and time (C13).
# - Two heads do a task of two places that one cannot do with a linear read-out (C14), and $k$ places take about $k$
#   heads (E2).
# - What a head looks at and what it is needed for are two questions (E3).
#
# One more row of the table is done:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | one place at a time | one softmax, one place (C14) | several heads: both answers right in all tables, with one head in 18 to 23 % | 06 |
# | looks at the future | cannot be trained to predict the next token (C15) | open | 07 |
# | no notion of order | permuted words, permuted outputs (C10) | open | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | open | 09 |
# | does not train when deep | gradients (C20) | open | 09 |
#
# Chapter 07 takes the next: our tokens look at the future, which is no way to learn to predict it.
#
# **Exercises**: [set 06](../exercises/06_multi_head_attention/06_multi_head_attention.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, section 3.2.2. Michel, Levy and Neubig (2019), *Are
# sixteen heads really better than one?* Voita et al. (2019), *Analyzing multi-head self-attention: specialized heads do
# the heavy lifting, the rest can be pruned*. Clark et al. (2019), *What does BERT look at?* Bhojanapalli et al. (2020),
# *Low-rank bottleneck in multi-head attention models*. Shazeer (2019), *Fast Transformer decoding: one write-head is all
# you need*, for heads that share their keys and values.
