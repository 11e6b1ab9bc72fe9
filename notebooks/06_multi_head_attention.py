# %% [markdown]
# # 06 Multi-head attention
#
# In chapter 05 each token asks one question of its sequence: one query, one softmax, one weighted mean. But
# a word may need two answers at once. A verb wants to know who acts and what is done, and from one mean it
# cannot tell which is which. In this chapter a token asks several questions side by side, each with a
# softmax of its own. That costs no parameters and no FLOPs of products, and takes two lines of code, one of
# which is easy to get wrong.
#
# **After this chapter you will be able to**
#
# - show with numbers why one softmax looks badly at two places;
# - write multi-head attention as a loop over heads, and as one computation with the head axis beside the
#   batch axis, and show that the two agree;
# - recognise and test for the mistake that mixes positions, which raises no error;
# - say what the output projection does, and write it as a sum over heads;
# - count what heads cost: FLOPs, parameters, memory;
# - show a task that one head cannot do and two can, and say with care what a trained head looks at.
#
# **Time**: about 80 minutes to read and try; all cells together run in less than half a minute. **Before
# it**: chapter 05 (queries, keys and values; the scale $1/\sqrt d$; the table of barriers). Softmax,
# rank and counting FLOPs are those of chapter 00.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`.

# %%
import math
from functools import cache
from statistics import median
from time import perf_counter

import numpy as np
from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.experiments import Experiments

lab = Experiments("06")

# %% [markdown]
# ## 1. One softmax, one place
#
# One sentence goes with us through this chapter, *be water my friend*. We look at it through the eyes of
# its verb. *be* has two questions: be **what**? Water. And **who** shall be it? The friend.
#
# To follow everything with a pencil, each word is described by $d = 4$ numbers, chosen by hand: is it a
# verb, a noun, a person, a small word?

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
# As in chapter 05, three matrices of shape $(d, d)$ make queries $XQ$, keys $XK$ and values $XV$, and each
# output is a mean of values, weighted by a softmax over $q_i^\top k_j / \sqrt d$. We choose the matrices by
# hand too. Each question gets two columns. The first two columns are about *what*: a verb asks for a noun
# that is no person, a person asks for the small word that says whose it is. The last two are about *who*: a
# verb or a small word asks for a person, a noun asks for the verb.

# %%
Q = mt.tensor(
    [
        [6.0, 0.0, 6.0, 0.0],  # a verb asks for a thing, and for a person
        [0.0, 0.0, 0.0, 6.0],  # a noun asks for the verb
        [0.0, 6.0, 0.0, 0.0],  # a person asks for a small word
        [0.0, 0.0, 6.0, 0.0],  # a small word asks for a person
    ]
)  # (d, d), rows: verb, noun, person, small
K = mt.tensor(
    [
        [0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0, 0.0],
        [-1.0, 0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
    ]
)  # (d, d)
V = mt.tensor(
    [
        [-1.0, 0.0, -1.0, 0.0],
        [1.0, 0.0, 1.0, 0.0],
        [-1.0, 1.0, -1.0, 1.0],
        [0.0, -1.0, 0.0, -1.0],
    ]
)  # (d, d)
query, key, value = X @ Q, X @ K, X @ V  # (n, d) each

print("query of be:", query[0].tolist())
print("word      key                      value")
for word, k, v in zip(words, key.tolist(), value.tolist(), strict=True):
    print(f"{word:8}", k, v)

# %% [markdown]
# The values are points of the plane, written twice, so that they can be drawn: *water* is east, *friend*
# north, *be* west, *my* south. Now attention as we know it, for the word *be*:


# %%
def attention(query, key, value, allowed=None):
    """softmax(query key^T / sqrt(size of a key)) value: outputs (..., T, d_v), weights (..., T, n)."""
    scores = query @ key.mT / math.sqrt(key.shape[-1])  # (..., T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights


output, one_softmax = attention(query, key, value)
print("word     score  score / sqrt(d)  weight")
for word, score, weight in zip(
    words, (query @ key.T)[0].tolist(), one_softmax[0].tolist(), strict=True
):
    print(f"{word:8} {score:4.1f} {score / math.sqrt(4):10.1f} {weight:14.3f}")
print("output of be:", output[0])

# %% [markdown]
# (The argument `allowed` says where a query may look, as in chapter 04's padding; chapter 07 is about it.)
# With a pencil: both scores are $6 / \sqrt 4 = 3$, $e^3 = 20.1$, the sum of the exponentials is $20.1 +
# 20.1 + 1 + 1 = 42.2$, so *water* and *friend* get $0.476$ each. It looks at both places, then. What is
# wrong with that? Two things.
#
# **The mean forgets which came from where.** What arrives is halfway between east and north. Suppose that
# the two words exchange what they have to say, the values, and keep their keys. The answer to *what* is now
# the answer to *who* and the other way round. The output does not notice:

# %%
exchanged = value[[0, 3, 2, 1]]  # water says what friend said, friend what water said
after, _ = attention(query, key, exchanged)
print("output of be, before:", output[0])
print("output of be, after: ", after[0])
print("same:", mt.allclose(output[0], after[0], atol=1e-6))

# %% [markdown]
# **Two places at once is a balance on a knife's edge.** We set the two scores exactly equal. A trained
# model will get them only nearly equal. Say the score of *friend* is 2.7 in place of 3. To look at *these
# two and no others*, the scores must be large. But multiplying all scores by a factor $\beta$ multiplies
# the small gap as well: the ratio of the two weights is $e^{0.3 \beta}$.

# %%
scores = mt.tensor([0.0, 3.0, 0.0, 2.7])
factors = [0.25 * 2 ** (i / 4) for i in range(28)]  # 0.25 to 27
by_factor = mt.stack([(factor * scores).softmax(-1) for factor in factors])  # (factors, n)

figure, (left, right) = plot.subplots(1, 2, width=9, height=3, width_ratios=[1.3, 1])
curves = {
    "water, score 3": by_factor[:, 1],
    "friend, score 2.7": by_factor[:, 3],
    "be and my together, score 0": by_factor[:, 0] + by_factor[:, 2],
}
for label, curve in curves.items():
    left.plot(factors, curve.tolist(), label=label)
left.set(xscale="log", xlabel="factor on all scores", ylabel="weight", title="one softmax")
left.legend(fontsize=9)
arrows = {"water": value[1, :2], "friend": value[3, :2], "output": output[0, :2]}
for (name, end), color in zip(arrows.items(), ("0.45", "0.45", plot.COLORS[1]), strict=True):
    x, y = end.tolist()
    right.annotate("", (x, y), (0, 0), arrowprops=dict(arrowstyle="->", color=color, lw=1.8))
    right.text(x + 0.04, y + 0.04, name, color=color)
right.set(xlim=(-0.2, 1.5), ylim=(-0.2, 1.25), aspect="equal", title="what arrives at be")
plot.show(
    figure,
    alt="Left: as the factor grows, the weight of the other words falls to zero, that of water rises to "
    "one, and that of friend rises to about 0.4 and falls again. Right: the output points halfway between "
    "water and friend.",
)

# %%
for factor in (0.5, 1, 2, 4, 8, 16):
    row = (factor * scores).softmax(-1)
    others = row[0].item() + row[2].item()
    print(f"factor {factor:4}: water {row[1]:.3f}, friend {row[3]:.3f}, others {others:.3f}")
for others in (2, 50, 1000):  # how many words of score 0 there are
    weights = [math.exp(2.7 * f) / (math.exp(3 * f) + math.exp(2.7 * f) + others) for f in factors]
    print(f"{others:4} other words: friend gets {max(weights):.2f} at the best factor")

# %% [markdown]
# Small scores let everything in; large ones let one place win. In between *friend* has its largest share, and
# that shrinks as the sequence gets longer, since more words have to be shut out. So one softmax is not *unable*
# to look at two places. It does so badly, and hands over a mean that no longer says who said what.
#
# The way out is plain. Two questions, two softmaxes.
#
# ## 2. Heads in a loop
#
# We cut each of the matrices $Q$, $K$, $V$ into $h$ blocks of $d/h$ columns. Block $\ell$ of the three,
# $Q_\ell$, $K_\ell$, $V_\ell$, makes an attention of its own, a **head**:
#
# $$O_\ell = A_\ell\, X V_\ell, \qquad A_\ell = \operatorname{softmax}\!\left(\frac{X Q_\ell\, (X K_\ell)^\top}{\sqrt{d/h}}\right),
# \qquad \ell = 1 \dots h .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $X$ | one row a token | $(n, d)$ |
# | $h$ | number of heads; it divides $d$ | a number |
# | $Q_\ell$, $K_\ell$, $V_\ell$ | columns of $Q$, $K$, $V$ that belong to head $\ell$ | $(d, d/h)$ |
# | $X Q_\ell$, $X K_\ell$, $X V_\ell$ | queries, keys, values of head $\ell$ | $(n, d/h)$ |
# | $A_\ell$ | weights of head $\ell$, each row adds up to one | $(n, n)$, for each head |
# | $O_\ell$ | outputs of head $\ell$ | $(n, d/h)$ |
#
# Each head divides by the root of the size of *its* keys, $\sqrt{d/h}$: that is how many products its
# scores add up (chapter 05, C11). Token by token and head by head:

# %%
h, n, d = 2, 4, 4
size = d // h


def head_of_token(i, columns):
    """Output (d/h) and weights (n) of the head that owns these columns, for token i."""
    q_i = X[i] @ Q[:, columns]  # (d/h)
    scores = [q_i @ (X[j] @ K[:, columns]) / math.sqrt(size) for j in range(n)]
    weights = mt.stack(scores).softmax(-1)  # (n)
    return sum(weights[j] * (X[j] @ V[:, columns]) for j in range(n)), weights


blocks = [slice(head * size, (head + 1) * size) for head in range(h)]  # columns 0-1, columns 2-3
by_token = [[head_of_token(i, columns) for i in range(n)] for columns in blocks]
outputs_by_loop = mt.stack([mt.stack([o for o, _ in head]) for head in by_token])  # (h, n, d/h)
weights_by_loop = mt.stack([mt.stack([w for _, w in head]) for head in by_token])  # (h, n, n)
print("be, head 1: weights", weights_by_loop[0, 0], "output", outputs_by_loop[0, 0])
print("be, head 2: weights", weights_by_loop[1, 0], "output", outputs_by_loop[1, 0])

# %% [markdown]
# With a pencil: head 1 of *be* has the scores $6 / \sqrt 2 = 4.24$ for *water* and 0 for the rest, $e^{4.24} =
# 69.6$, so *water* gets $69.6 / 72.6 = 0.959$. (Divided by $\sqrt 4$ it would be $20.1 / 23.1 = 0.87$.) Head 2
# gives the same to *friend*. One output points east, the other north, and each knows which question it answers.
# The inner loop in matrices, as in chapter 05:

# %%
per_head = [attention(X @ Q[:, b], X @ K[:, b], X @ V[:, b]) for b in blocks]
outputs = mt.stack([output for output, _ in per_head])  # (h, n, d/h)
weights = mt.stack([weights for _, weights in per_head])  # (h, n, n)
print("outputs agree with the loop:", mt.allclose(outputs, outputs_by_loop, atol=1e-6))
print("weights agree with the loop:", mt.allclose(weights, weights_by_loop, atol=1e-6))

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
# The rows are queries. A head that has no question for a word, as head 1 for *water*, gets equal scores
# and so the mean of all. It cannot look at nothing: its weights add up to one.
#
# How does this compare with one head that has the same matrices? A dot product over $d$ columns is the sum
# of the dot products over the blocks. So the scores of one head are the *sum* of what the heads ask for,
#
# $$X Q\, (X K)^\top = \sum_{\ell=1}^{h} X Q_\ell\, (X K_\ell)^\top ,$$
#
# and one softmax has to serve them all. Heads are nothing more than taking this sum apart before the
# softmax rather than after. The exchange of values, which one head did not notice, is now seen:

# %%
score_sum = sum(X @ Q[:, b] @ (X @ K[:, b]).T for b in blocks)
print("scores of one head = sum of scores of heads:", mt.allclose(X @ Q @ (X @ K).T, score_sum))
after = mt.cat([attention(X @ Q[:, b], X @ K[:, b], exchanged[:, b])[0][0] for b in blocks])
print("output of be, before:", mt.cat([output[0] for output, _ in per_head]))
print("output of be, after: ", after)

# %% [markdown]
# Where a token is a column, the score of two words is $x_i^\top Q^\top K\, x_j$, and the one's $Q$ is the
# other's $Q^\top$:

# %%
by_columns = mt.stack([mt.stack([x_i @ Q.T.T @ (K.T @ x_j) for x_j in X]) for x_i in X])
print("x^T Q'^T K' x with Q' = Q^T, K' = K^T:", mt.allclose(by_columns, X @ Q @ K.T @ X.T))

# %% [markdown]
# ## 3. Heads as an axis
#
# A loop over heads makes many small products. But the blocks of columns lie side by side: $XQ$ *is* $[X
# Q_1, \dots, X Q_h]$. So we compute one product $XQ$ of shape $(n, d)$, as for one head, and then only
# look at its numbers differently, $(n, d) \to (n, h, d/h)$. To bring the head axis in front of the tokens,
# where a product of matrices treats it as one more batch axis, we swap the two: $(n, h, d/h) \to (h, n,
# d/h)$. With a batch of $B$ sequences:


# %%
def split_heads(X, heads):
    """(B, n, d) -> (B, h, n, d/h): head l owns the l-th block of columns."""
    B, n, d = X.shape
    return X.view(B, n, heads, d // heads).transpose(1, 2)  # (B, n, h, d/h) -> (B, h, n, d/h)


def merge_heads(X):
    """(B, h, n, d/h) -> (B, n, d): the heads of a token side by side again."""
    B, heads, n, size = X.shape
    return X.transpose(1, 2).reshape(B, n, heads * size)


batch = X.unsqueeze(0)  # (B, n, d) with B = 1
query, key, value = (split_heads(batch @ matrix, h) for matrix in (Q, K, V))  # (B, h, n, d/h)
outputs, weights = attention(query, key, value)  # (B, h, n, d/h), (B, h, n, n)
print("shapes:", tuple(query.shape), tuple(weights.shape), tuple(outputs.shape))
print("outputs agree with the loop:", mt.allclose(outputs[0], outputs_by_loop, atol=1e-6))
print("weights agree with the loop:", mt.allclose(weights[0], weights_by_loop, atol=1e-6))
print("merging undoes splitting:", mt.equal(merge_heads(query), batch @ Q))

# %% [markdown]
# `attention` is the function of section 1, unchanged. It was written for the last two axes, and whatever
# stands in front of them is batch. That is the whole trick. `view` copies nothing, `transpose` neither:
# they only say in which order to walk through the same memory. `merge_heads` must copy, because after the
# swap the numbers of one token no longer lie side by side; hence `reshape`, which copies where `view`
# would refuse. Where the numbers go, drawn by sending the labels of the cells through the same function:


# %%
def draw_split(split, title):
    """The cells of XQ (n, d) and where ``split`` puts them; shades are tokens, numbers columns."""
    token = mt.arange(n).repeat_interleave(d).view(1, n, d)
    column = mt.arange(d).repeat(n).view(1, n, d)
    grids = {"$XQ$ (n, d)": (token[0], column[0])}
    for head, cells in enumerate(zip(split(token, h)[0], split(column, h)[0], strict=True)):
        grids[f"head {head + 1} (n, d/h)"] = cells
    figure, panels = plot.subplots(1, 3, width=7.5, height=2.3, width_ratios=[2, 1, 1])
    for axes, (name, (tokens, columns)) in zip(panels, grids.items(), strict=True):
        plot.heatmap(axes, tokens, colorbar=False, cmap="Blues", vmin=-1, vmax=5, row_labels=words)
        for i, (row, numbers) in enumerate(zip(tokens.tolist(), columns.tolist(), strict=True)):
            for j, (word, number) in enumerate(zip(row, numbers, strict=True)):
                axes.text(j, i, f"{words[word]} {number + 1}", ha="center", va="center")
        axes.set(title=name, xticks=[])
    figure.suptitle(title, fontsize=11)
    return figure


plot.show(
    draw_split(split_heads, "view and transpose: each head has its columns of every token"),
    alt="Four rows of four cells. Head 1 gets columns 1 and 2 of each word in its row, head 2 columns 3 and 4.",
)

# %% [markdown]
# ### The mistake that mixes positions
#
# The shape that we want is $(B, h, n, d/h)$. Why not ask for it at once, `X.view(B, heads, n, d // heads)`?
# The number of elements is right, no error is raised, and the shape that comes out is right too.


# %%
def split_without_transpose(X, heads):
    """The mistake: the right shape (B, h, n, d/h), with the wrong numbers in it."""
    B, n, d = X.shape
    return X.view(B, heads, n, d // heads)


plot.show(
    draw_split(split_without_transpose, "view alone: heads share out the words"),
    alt="Head 1 gets the words be and water, each cut into two rows; head 2 gets my and friend. In each "
    "head only one row of four holds cells of the word at its left.",
)

# %% [markdown]
# `view` reads the numbers in the order in which they lie in memory, token after token. So the first head
# gets the first half of the *sentence*, cut into pieces, not the first half of each word's numbers. The row
# that head 1 takes for *my* is made of *water*. We measure two things: how many rows hold the token that they
# stand for; and the property of chapter 05 (C10), which makes a good test since it needs no reference:
# without positions, permuted words must give permuted outputs.

# %%
token = mt.arange(n).repeat_interleave(d).view(1, n, d)
order = mt.tensor([2, 0, 3, 1])  # my be friend water


def merged(split, merge, X):
    """Self-attention with heads, the outputs of the heads side by side: (B, n, d)."""
    return merge(attention(*(split(X @ matrix, h) for matrix in (Q, K, V)))[0])


def merge_without_transpose(X):
    return X.reshape(1, n, d)


for name, split, merge in (
    ("with transpose   ", split_heads, merge_heads),
    ("without transpose", split_without_transpose, merge_without_transpose),
):
    own = (split(token, h)[0] == mt.arange(n).unsqueeze(1)).float().mean().item()
    permuted, outputs = merged(split, merge, batch[:, order]), merged(split, merge, batch)
    difference = (permuted - outputs[:, order]).abs().max().item()
    print(f"{name} rows with their own token: {own:.0%}, change by permuting: {difference:.3f}")

# %% [markdown]
# With the mistake, only every fourth number is where it should be, and what a word gets depends on where
# it stands. A mask that forbids looking ahead (chapter 07) would be laid over the wrong rows, and the future
# would leak in. Yet nothing crashes, gradients flow, the loss falls. In section 6 we train a model that has
# this mistake, and see how well it hides. Only a test finds it.

# %% [markdown]
# ## 4. Joining the heads
#
# Each token now has $h$ outputs of $d/h$ numbers. We put them side by side, which gives $d$ numbers again,
# and multiply by one more matrix, the **output projection** $W_O$ of shape $(d, d)$:
#
# $$\text{output} = [O_1, \dots, O_h]\, W_O \quad (n, d).$$
#
# What is it for? Cut $W_O$ into $h$ blocks of $d/h$ *rows*, $W_O^{(\ell)}$ of shape $(d/h, d)$. Row blocks
# meet column blocks, so the product is a sum with one term a head:
#
# $$[O_1, \dots, O_h]\, W_O = \sum_{\ell=1}^{h} O_\ell\, W_O^{(\ell)} .$$

# %%
mt.manual_seed(0)
W_O = mt.randn(d, d)
concatenated = mt.cat([output for output, _ in per_head], dim=-1)  # (n, d)
as_sum = sum(output @ W_O[b] for (output, _), b in zip(per_head, blocks, strict=True))  # (n, d)
print(
    "concatenate and project = sum over heads:", mt.allclose(concatenated @ W_O, as_sum, atol=1e-5)
)

# %% [markdown]
# So heads work independently to the end and then *add up*. Without $W_O$, head 1 could only ever write
# into the first $d/h$ columns of the result. With it, each head writes into all $d$ columns, wherever its
# answer is wanted. This matters when the result is added to $X$, whose columns mean something (chapter 09).
# Where another linear layer follows at once, $W_O$ adds nothing: two matrices in a row are one.
#
# The sum also shows what a head is. Its weights depend on $Q_\ell$ and $K_\ell$ only through the product
# $Q_\ell K_\ell^\top$, and what it passes on depends on $V_\ell W_O^{(\ell)}$. Both are of shape $(d, d)$
# and of rank at most $d/h$. A head sees every token through a slit of $d/h$ directions: the price of having
# several.

# %%
mt.manual_seed(0)
queries_from, keys_from = mt.randn(64, 64), mt.randn(64, 64)  # Q and K for d = 64
for heads in (1, 2, 8, 32):
    product = queries_from[:, : 64 // heads] @ keys_from[:, : 64 // heads].T  # (d, d)
    rank = np.linalg.matrix_rank(product.array)
    print(f"d = 64, {heads:2} heads: rank of the product for head 1 is {rank}")

# %% [markdown]
# All together as a module. `x` asks and `memory` answers: in self-attention they are the same sequence.


# %%
class MultiHeadAttention(nn.Module):
    """x (B, T, d) looks at memory (B, n, d) with several heads: (B, T, d)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x):
        return split_heads(x, self.heads)

    def look(self, x, memory, allowed=None):
        """Outputs (B, h, T, d/h) and weights (B, h, T, n) of all heads."""
        return attention(
            self.split(self.query(x)),
            self.split(self.key(memory)),
            self.split(self.value(memory)),
            allowed,
        )

    def forward(self, x, memory, allowed=None):
        outputs, _ = self.look(x, memory, allowed)
        return self.out(merge_heads(outputs))


# %% [markdown]
# The library has the layer as `nn.MultiheadAttention`, with PyTorch's names: one matrix of shape $(3d, d)$
# holds the projections of queries, keys and values, one above the other. And its heart,
# `F.scaled_dot_product_attention`, treats all axes before the last two as batch, as ours does. With our
# weights copied, all agree:

# %%
mt.manual_seed(1)
width, heads = 24, 4
ours = MultiHeadAttention(width, heads)
theirs = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
rows = [ours.query.weight, ours.key.weight, ours.value.weight]
theirs.load_state_dict({"in_proj_weight": mt.cat(rows), "out_proj.weight": ours.out.weight})

x = mt.randn(2, 5, width)  # (B, n, d)
outputs, weights = ours.look(x, x)
expected, expected_weights = theirs(x, x, x, average_attn_weights=False)
print("output as nn.MultiheadAttention: ", mt.allclose(ours(x, x), expected, atol=1e-5))
print("weights as nn.MultiheadAttention:", mt.allclose(weights, expected_weights, atol=1e-5))
query, key, value = (split_heads(make(x), heads) for make in (ours.query, ours.key, ours.value))
fused = F.scaled_dot_product_attention(query, key, value)
print("heads as F.scaled_dot_product_attention:", mt.allclose(outputs, fused, atol=1e-5))
one_by_one = [
    attention(*(make(x)[..., b] for make in (ours.query, ours.key, ours.value)))[0]
    for b in mt.arange(width).split(width // heads)
]
print("heads as a loop:", mt.allclose(outputs, mt.stack(one_by_one, dim=1), atol=1e-5))

# %% [markdown]
# ### Cross-attention with heads
#
# Chapter 04's decoder looked at the source sentence. With heads nothing is new: `x` is the target, `memory`
# the source, and the score matrices have the shape $T \times n$, one for each head. Here two sentences of
# three and of four words are asked about by targets of two words. A padded place must get no weight from
# any head, so `allowed` needs an axis for heads, of size one:

# %%
source, target = mt.randn(2, 4, width), mt.randn(2, 2, width)  # (B, n, d), (B, T, d)
real = mt.tensor([[True, True, True, False], [True, True, True, True]])  # (B, n)
allowed = real[:, None, None, :]  # (B, 1, 1, n): for every head and every query
outputs, weights = ours.look(target, source, allowed)
print("weights (B, h, T, n):", tuple(weights.shape))
print("weight on padding:", weights[0, :, :, 3].sum().item())
alone = ours(target[:1], source[:1, :3])
masked = ours(target, source, allowed)[:1]
print("as if the padding were not there:", mt.allclose(masked, alone, atol=1e-5))

# %% [markdown]
# ## 5. What heads cost
#
# The heads share out the $d$ columns. So the matrices keep their sizes: four of $(d, d)$, whatever $h$.
# For self-attention over $n$ tokens, counting $2nkm$ FLOPs for a product of $(n, k)$ with $(k, m)$:
#
# | what | for one head of size $d$ | for $h$ heads of size $d/h$ |
# | --- | --- | --- |
# | parameters | $4 d^2$ | $4 d^2$ |
# | projections, FLOPs | $4 \cdot 2 n d^2$ | $4 \cdot 2 n d^2$ |
# | scores $(n, n)$, FLOPs | $2 n^2 d$ | $h \cdot 2 n^2\, d/h = 2 n^2 d$ |
# | weights times values, FLOPs | $2 n^2 d$ | $h \cdot 2 n^2\, d/h = 2 n^2 d$ |
# | scores, numbers in memory | $n^2$ | $h\, n^2$ |
#
# The last row is the one that grows. Each score matrix has $n^2$ entries, however few columns it was made
# from. Each entry also goes through a softmax, which the FLOPs of products leave out.
#
#
#
# ### FLOPs, memory and time (C13)
#
# Do $h$ heads need the same projection and product FLOPs as one, and $h$ times the score memory? The
# library counts the products that really run, and we look at how many numbers the weights have. Beside it
# the time of a forward and backward pass over 8 sequences, $d = 128$, for our layer and the library's.


# %%
def counted(heads, n, width=128):
    """Parameters, FLOPs of linear maps and of other products, numbers in the weights."""
    layer, x = MultiHeadAttention(width, heads), mt.zeros(1, n, width)
    with count_flops() as counter:
        layer(x, x)
    return {
        "parameters": sum(p.numel() for p in layer.parameters()),
        "projections": counter.by_name["linear"],
        "products": counter.by_name["matmul"],
        "scores": layer.look(x, x)[1].numel(),
    }


class Library(nn.MultiheadAttention):
    """The library's layer, called as ours."""

    def __init__(self, width, heads):
        super().__init__(width, heads, bias=False, batch_first=True)

    def forward(self, x, memory):
        return super().forward(x, memory, memory, need_weights=False)[0]


def seconds(layer, n, repeats, width=128):
    """Median time of a forward and backward pass."""
    x, times = mt.randn(8, n, width), []
    for _ in range(repeats):
        start = perf_counter()
        layer(x, x).sum().backward()
        times.append(perf_counter() - start)
    return median(times)


@lab.experiment(
    "C13",
    quick=dict(heads=[1, 2, 4, 8], lengths=[64], repeats=5),
    full=dict(heads=[1, 2, 4, 8, 16], lengths=[64, 256], repeats=15),
)
def head_costs(heads, lengths, repeats):
    mt.manual_seed(0)
    costs = {}
    for n in lengths:
        for h in heads:
            costs.setdefault(str(n), {})[str(h)] = counted(h, n) | {
                "ours": seconds(MultiHeadAttention(128, h), n, repeats),
                "library": seconds(Library(128, h), n, repeats),
            }
    return costs


costs_here = head_costs.run()
costs_full = head_costs.recorded

# %%
by_heads = costs_here["64"]
print("n = 64, d = 128")
print("heads  parameters  projections   products  numbers in the scores")
for h, cost in by_heads.items():
    row = f"{cost['projections']:12,} {cost['products']:10,} {cost['scores']:10,}"
    print(f"{h:>5} {cost['parameters']:11,} {row}")

# %%
results = costs_full["result"] if costs_full else costs_here
figure, (left, right) = plot.subplots(1, 2, width=9, height=2.8)
sizes = sorted(by_heads, key=int)
left.plot(sizes, [by_heads[h]["scores"] / by_heads["1"]["scores"] for h in sizes], "o-")
left.plot(sizes, [by_heads[h]["products"] / by_heads["1"]["products"] for h in sizes], "s--")
left.set(xlabel="heads", ylabel="relative to one head", title="counted (any n)")
left.legend(["score memory", "product FLOPs"])
for n in sorted(results, key=int):
    times = {int(h): cost["ours"] / results[n]["1"]["ours"] for h, cost in results[n].items()}
    right.plot(sorted(times), [times[h] for h in sorted(times)], marker="o", label=f"n = {n}")
right.set(xlabel="heads", xscale="log", ylabel="relative to one head")
right.set_title("time of our layer, " + ("full" if costs_full else "quick"))
right.set_xticks(sorted(times), sorted(times))
right.minorticks_off()
right.legend()
plot.show(
    figure,
    alt="Left: score memory grows in proportion to the number of heads, FLOPs stay level. Right: the time "
    "relative to one head grows with the number of heads, more so for longer sequences.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in {"quick": costs_here, "full": costs_full and costs_full["result"]}.items():
    for n in sorted(result or (), key=int):
        for way in ("ours", "library"):
            times = {int(h): 1000 * cost[way] for h, cost in result[n].items()}
            row = ", ".join(
                f"h={h}: {times[h]:.1f} ({times[h] / times[1]:.1f}x)" for h in sorted(times)
            )
            print(f"{setting:5} n={n:>3} {way:7} ms {row}")

# %%
one = by_heads["1"]
same = all(
    cost[part] == one[part]
    for cost in by_heads.values()
    for part in ("parameters", "projections", "products")
)
print("C13 holds: parameters and FLOPs are the same for all h:", same)
print(
    "           as in the table:",
    one["projections"] == 8 * 64 * 128**2,
    one["products"] == 4 * 64**2 * 128,
)
print(
    "           score memory is h times:",
    all(c["scores"] == int(h) * 64**2 for h, c in by_heads.items()),
)

# %% [markdown]
# What is free in FLOPs is not free in time: the softmax walks over $h n^2$ numbers several times, which is
# memory traffic, not products. The times are those of one run on one shared machine, and yours will have
# other ratios; the counts are everyone's.
#
# > **C13 · holds for FLOPs, not for memory and time.** *The lectures* (deck 1, "Multi-head self-attention is
# > computationally efficient"; deck 3): "Even though we compute $h$ many attention heads, it's not really
# > more costly."
# >
# > *Measured*: With 1, 2, 4 and 8 heads ($n = 64$, $d = 128$): always 65,536 parameters, 8,388,608 FLOPs of
# > projections and 2,097,152 of products, and 4,096 to 32,768 numbers in the scores, $h$ times as many. Eight
# > heads take 2.3 times as long as one at $n = 64$ and 3.1 times at $n = 256$ in our layer, 1.3 and 4.3 times
# > in the library's.
#
# ## 6. A task for two heads
#
# Do heads do anything that one head could not learn to do in another way? We want a task that asks for two
# places, and for knowing which is which. A table holds 8 pairs of a key and a value; the keys are 8 of 16
# letters, the values numbers below 8. The question names *two* of the letters in an order, and both values
# are wanted, in this order.

# %%
LETTERS, PAIRS, VALUES = "abcdefghijklmnop", 8, 8


def draw(batch, asked):
    """Tables, questions and answers: letters and values (B, 8), asked letters and answers (B, asked)."""
    letters = mt.rand(batch, len(LETTERS)).argsort(dim=1)[:, :PAIRS]
    values = mt.randint(0, VALUES, (batch, PAIRS))
    places = mt.rand(batch, PAIRS).argsort(dim=1)[:, :asked]
    return letters, values, letters.gather(1, places), values.gather(1, places)


mt.manual_seed(10)
letters, values, asked, answers = draw(1, 2)
pairs = zip(letters[0].tolist(), values[0].tolist(), strict=True)
print("table:   ", "  ".join(f"{LETTERS[letter]}={value}" for letter, value in pairs))
print("question:", ", ".join(LETTERS[letter] for letter in asked[0].tolist()))
print("answer:  ", ", ".join(map(str, answers[0].tolist())))

# %% [markdown]
# The model is one attention layer and nothing else. A pair is one token, the sum of an embedding of its
# letter and one of its value. The question is one token too, the sum of an embedding of the letter that
# is asked first and another of the letter asked second (each letter has one vector for each of the two
# roles). A linear layer reads the answers from the output of attention, 8 scores for each.


# %%
class LookUp(nn.Module):
    """Scores (B, asked, 8) of the values that belong to the letters asked for."""

    def __init__(self, heads, width=32, asked=2, feed_forward=False, layer=MultiHeadAttention):
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

    def answer(self, outputs):
        """Scores of the values from the outputs (B, h, 1, d/h) of the heads."""
        scores = self.read(self.attention.out(merge_heads(outputs)))
        return scores.view(len(outputs), -1, VALUES)

    def forward(self, letters, values, asked):
        outputs, _ = self.attention.look(*self.embed(letters, values, asked))
        return self.answer(outputs)


def train(model, asked, rate, steps):
    """Train with Adam on new tables at every step; the mean loss of each 25 steps."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in tqdm(range(steps)):
        letters, values, questions, answers = draw(128, asked)
        scores = model(letters, values, questions)
        loss = F.cross_entropy(scores.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [sum(losses[i : i + 25]) / 25 for i in range(0, steps, 25)]


# %% [markdown]
# **One head cannot do it: a short proof.** Let the one head put weight $w$ on the first of the two pairs and
# $1 - w$ on the second, whatever values they have, and nothing elsewhere. We ask one question about several
# tables. If the values in question are $a$ and $b$, the linear layer gets $w\, u_a + (1 - w)\, u_b$, where
# $u_a$ and $u_b$ stand for what attention passes on of the two values, plus something that depends on the
# letters alone and is the same in all these tables. Say $w \ge 1/2$, so that the second place has the smaller
# share. Let $D(x)$ be the score that the second answer is $b$ minus the score that it is $a$. It is linear,
# up to a constant. On the tables where the values are $(a, b)$, $(b, a)$, $(a, a)$ and $(b, b)$ the right
# answers need
#
# $$D(w u_a + (1-w) u_b) > 0, \qquad D(w u_b + (1-w) u_a) < 0, \qquad D(u_a) < 0, \qquad D(u_b) > 0 .$$
#
# Since the weights add up to one, $D$ of the mean is the mean of the $D$: the first two say $w D(u_a) +
# (1-w) D(u_b) > 0 > w D(u_b) + (1-w) D(u_a)$. The difference of the two sides is $(2w - 1)\,(D(u_a) -
# D(u_b)) > 0$, so $w > 1/2$ and $D(u_a) > D(u_b)$. But the last two say $D(u_a) < 0 < D(u_b)$. No $w$ serves
# (for $w < 1/2$ the same holds for the first answer). $\square$
#
# Two heads have no such trouble: $w = 1$ in one and $w = 0$ in the other. Note what the proof leans on. The
# reading layer is linear; a feed-forward net that sees $0.7 u_a + 0.3 u_b$ might tell that from $0.7 u_b +
# 0.3 u_a$. And the weights are assumed not to depend on the values, which a trained model need not obey.
# So we measure.
#
# ### One head and two (C14)
#
# Every model has $d = 32$, Adam, batches of 128 new tables, 500 steps in the full runs, learning rates
# from the same grid, three seeds, and is tested on 2,000 new tables, which also choose the rate. Beside one head and two we run:
# one head for four times as long; one head of twice the width; one head whose output is read by a
# feed-forward net, with a hidden layer of 128 units, in place of the linear layer; eight heads; and two and
# eight heads with the mistake of section 3. **Chance** is $1/8$ for one answer, $1/64 = 0.016$ for both.


# %%
class WithoutTranspose(MultiHeadAttention):
    """The mistake of section 3: heads that share out the words."""

    def split(self, x):
        return split_without_transpose(x, self.heads)


CONTESTANTS = {
    "one head": lambda: LookUp(1),
    "one head, 4 x the steps": lambda: LookUp(1),
    "one head, width 64": lambda: LookUp(1, width=64),
    "one head, feed-forward": lambda: LookUp(1, feed_forward=True),
    "two heads": lambda: LookUp(2),
    "two heads, no transpose": lambda: LookUp(2, layer=WithoutTranspose),
    "eight heads": lambda: LookUp(8),
    "eight heads, no transpose": lambda: LookUp(8, layer=WithoutTranspose),
}


@cache
def trained(name, rate, seed, steps):
    """A trained contestant and its losses."""
    mt.manual_seed(seed)
    model = CONTESTANTS[name]()
    return model, train(model, 2, rate, 4 * steps if "4 x" in name else steps)


def test_tables(asked=2):
    mt.manual_seed(1000)
    return draw(2000, asked)


@mt.no_grad()
def measured(model):
    """Shares of right answers, and how often a wrong one is the right answer to the other question."""
    letters, values, asked, answers = test_tables()
    said = model(letters, values, asked).argmax(-1)
    right = said == answers
    turned = (said == answers.flip(1)) & ~right
    return {
        "both": right.all(1).float().mean(),
        "each": right.float().mean(0),
        "turned": (turned.sum() / (~right).sum()) if not right.all() else None,
    }


def contest_run(name, rate, seed, steps):
    model, losses = trained(name, rate, seed, steps)
    return measured(model) | {"losses": losses}


RATE = 3e-3


@lab.experiment(
    "C14",
    quick=dict(
        names=[
            "one head",
            "one head, feed-forward",
            "two heads",
            "two heads, no transpose",
        ],
        rates=[3e-3],
        seeds=[0],
        steps=250,
    ),
    full=dict(
        names=list(CONTESTANTS),
        rates=[1e-3, 3e-3, 1e-2],
        seeds=[0, 1, 2],
        steps=500,
    ),
)
def one_and_two(names, rates, seeds, steps):
    return {
        name: {str(r): [contest_run(name, r, seed, steps) for seed in seeds] for r in rates}
        for name in names
    }


here = one_and_two.run()
full = one_and_two.recorded


# %%
def best_rate(by_rate):
    """The learning rate with the highest median of both answers right, and its runs."""
    return max(by_rate.items(), key=lambda item: median(run["both"] for run in item[1]))


results = {"full": full["result"], "quick": here} if full else {"quick": here}
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3.2, width_ratios=[1.2, 1])
names = [name for name in CONTESTANTS if name in next(iter(results.values()))][::-1]
for setting, result in results.items():
    for y, name in enumerate(names):
        if name not in result:
            continue
        runs = [run["both"] for run in best_rate(result[name])[1]]
        if setting == "full" or not full:
            left.barh(y, median(runs), color=plot.COLORS[0 if "one" in name else 1], alpha=0.6)
        left.plot(runs, [y] * len(runs), "|k" if setting == "full" else "xk", markersize=10)
left.axvline(1 / 64, color="0.4", linewidth=1, linestyle="-")
left.set_yticks(range(len(names)), names)
left.set(xlim=(0, 1.03), xlabel="both answers right")
left.set_title("bars: median of full; |: seeds; x: quick" if full else "quick: one seed")
steps = [25 * (i + 1) for i in range(len(here["two heads"]["0.003"][0]["losses"]))]
for name in ("one head", "one head, feed-forward", "two heads"):
    right.plot(steps, here[name]["0.003"][0]["losses"], label=name)
right.axhline(7 / 8 * math.log(2), color="0.4", linewidth=1, linestyle="-")
right.set(xlabel="training step", ylabel="loss", title="quick, learning rate 0.003")
right.legend(fontsize=9)
plot.show(
    figure,
    alt="Left: share of tables with both answers right. One head stays near 0.2 with more steps and more "
    "width; two heads reach 1. Right: the loss of one head levels off at about 0.7, that of two heads goes "
    "to zero.",
)

# %% tags=["nbval-ignore-output"]
print("                                       lr     both            first           second")
for setting, result in results.items():
    for name in CONTESTANTS:
        for rate, runs in sorted(result.get(name, {}).items(), key=lambda item: float(item[0])):
            both = " ".join(f"{run['both']:.2f}" for run in runs)
            each = ["  ".join(f"{run['each'][i]:.2f}" for run in runs) for i in (0, 1)]
            star = "*" if rate == best_rate(result[name])[0] else " "
            print(f"{setting:5} {name:24} {rate:>6}{star}  {both:15} {each[0]:16} {each[1]}")
    for name in ("one head", "one head, 4 x the steps"):
        _, runs = best_rate(result[name]) if name in result else (None, [])
        for run in runs:
            row = f"right for the other question {run['turned']:.3f}, last loss {run['losses'][-1]:.2f}"
            print(f"{setting:5} {name}: wrong answers that are {row}")

# %%
reached = {name: best_rate(by_rate)[1][0] for name, by_rate in here.items()}
print("C14 holds: one head answers both below 0.4:", reached["one head"]["both"] < 0.4)
print("           two heads above 0.9:", reached["two heads"]["both"] > 0.9)
print(
    "           one head with a feed-forward net above 0.6:",
    reached["one head, feed-forward"]["both"] > 0.6,
)

# %% [markdown]
# **One head favours one place.** It does not get each answer a little wrong: in the full runs one of the two
# is right in 91 to 94 % of the cases, the other in 24 to 26 %. Which one it favours is an accident of the
# seed. And the wrong answers are not just any numbers: 99.9 % of them are the right answer to the *other*
# question. That is the proof at work. The two places have weights of 0.48 to 0.49 and of about 0.37 on
# average (section 7 prints them), and the larger wins both times. Four times the steps do not change this,
# and neither does a head of twice the width.
#
# The loss tells the same story more gently. The grey line at $\tfrac78 \log 2 = 0.61$ is the loss of someone
# who knows both values and not which is which (one time in eight they are equal). One head ends near it, at
# 0.68 to 0.69, and with four times the steps at 0.53 to 0.56: its unequal weights say something about the
# order, but not enough to change its first choice.
#
# **Two heads get everything right**, with exactly as many parameters as one.
#
# **One head and a feed-forward net** come close to that. So one softmax *can* carry two places, if something
# that is not linear takes them apart. The trained model puts unequal weights on the two, 0.66 to 0.69 and
# 0.25 to 0.27 on average, and the net tells $0.7 u_a + 0.3 u_b$ from $0.7 u_b + 0.3 u_a$. In a Transformer a
# feed-forward net follows every attention layer (chapter 09). So C14 does not say that models with one head
# are helpless. It says what heads do directly.
#
# **The mistake hides well.** Two heads without the transpose reach 93 to 94 %: each sees half of the table,
# cut into pieces, and makes something of it. That looks like a model in need of more training, not like a
# missing line. With eight heads each sees a single pair. That model falls to 15 or 16 %, where eight right
# heads reach 100 %.
#
# > **C14 · holds if what reads the heads is linear.** *The lectures* (deck 5, "Multi-head attention"; deck 1,
# > "Multi-headed attention"; deck 3): one softmax makes it "hard to specify that you want two different
# > things"; "What if we want to look in multiple places in the sentence at once?"
# >
# > *Measured*: Both answers right, three seeds, chance 0.016: one head 0.19 to 0.21, with four times the
# > steps 0.19 to 0.22, with twice the width 0.21; two heads 1.00 each time. One head that a feed-forward net
# > reads: 0.97 to 1.00. (The rate was chosen on the tables that are reported.)
#
# ### As many heads as places (E1)
#
# If a head is good for one place, a question for three letters should need three. We ask for 1, 2, 3 and 4
# letters of the table, and give the layer 1, 2 and 4 heads, all with $d = 32$, so that more heads are
# smaller ones.


# %%
def looked_at(weights, letters, asked):
    """Mean weight of each head on each letter asked for: (B, h, 1, 8) to (h, asked)."""
    hits = (letters.unsqueeze(1) == asked.unsqueeze(2)).float()  # (B, asked, 8)
    return (weights[:, :, 0] @ hits.mT).mean(0)


def several_places(asked, heads, seed, steps):
    """Train on questions for ``asked`` letters; shares of tables with all answers right."""
    mt.manual_seed(seed)
    model = LookUp(heads, asked=asked)
    train(model, asked, RATE, steps)
    letters, values, questions, answers = test_tables(asked)
    with mt.no_grad():
        outputs, weights = model.attention.look(*model.embed(letters, values, questions))
        right = (model.answer(outputs).argmax(-1) == answers).all(1).float()
    return {
        "all": right.mean(),
        "first equals last": right[answers[:, 0] == answers[:, -1]].mean(),
        "looks": looked_at(weights, letters, questions),
    }


@lab.experiment(
    "E1",
    quick=dict(asked=[3], heads=[2, 4], seeds=[0], steps=250),
    full=dict(asked=[1, 2, 3, 4], heads=[1, 2, 4], seeds=[0, 1, 2], steps=500),
)
def places(asked, heads, seeds, steps):
    return {
        str(a): {str(h): [several_places(a, h, seed, steps) for seed in seeds] for h in heads}
        for a in asked
    }


places_here = places.run()
places_full = places.recorded

# %%
figure, axes = plot.subplots(width=7, height=2.8)
if places_full:
    for a, by_heads in sorted(places_full["result"].items()):
        sizes = sorted(by_heads, key=int)
        runs = zip(*([run["all"] for run in by_heads[h]] for h in sizes), strict=True)
        plot.spread(axes, range(len(sizes)), list(runs), marker="o", label=f"{a} asked (full)")
quick = [(at, places_here["3"][h][0]["all"]) for at, h in ((1, "2"), (2, "4"))]
axes.plot(*zip(*quick, strict=True), "xk", label="3 asked (quick)")
axes.set_xticks(range(3), [1, 2, 4])
axes.set(xlabel="heads", ylabel="all answers right", ylim=(-0.03, 1.05))
figure.legend(loc="outside right center", fontsize=9)
plot.show(
    figure,
    alt="Share of tables with all answers right against the number of heads, a curve for each number of "
    "letters asked. Each curve rises to one where there are as many heads as letters.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in {
    "quick": places_here,
    "full": places_full and places_full["result"],
}.items():
    for a, by_heads in sorted((result or {}).items()):
        for h in sorted(by_heads, key=int):
            row = " ".join(f"{run['all']:.3f}" for run in by_heads[h])
            print(f"{setting:5} {a} asked, {h:>2} heads: {row}")
for seed, run in enumerate(places_full["result"]["3"]["2"] if places_full else ()):
    looks = [[round(weight, 2) for weight in head] for head in run["looks"]]
    equal = f"right where the first answer equals the last: {run['first equals last']:.3f}"
    print(f"full, 3 asked, 2 heads, seed {seed}: weights on the letters {looks}, {equal}")

# %%
print("three places, two heads: below 0.9: ", places_here["3"]["2"][0]["all"] < 0.9)
print("three places, four heads: above 0.95:", places_here["3"]["4"][0]["all"] > 0.95)

# %% [markdown]
# With as many heads as letters, or more, nearly all tables are right; with fewer, nearly always few. But look
# at three letters and two heads. How does the second model do it? Its head 1 puts weights of 0.39 and 0.40 on
# the first and second letter, its head 2 puts 0.41 and 0.39 on the second and third. A linear layer can
# *subtract* heads: the second value cancels, and the first less the third is left. If these two are equal,
# they cancel as well, and on such tables this model is right in only 12 % of the cases, about as often as all
# three are equal. So "a head for each place" is a rule of thumb. Our proof holds for one head, which has
# nothing to subtract from.
#
# How many heads, then? Here the task says it. For language nobody knows in advance. Deck 5 says
# that "around 8 heads" work well for big models, and Vaswani et al. (2017) found one head worse than eight,
# and thirty-two worse than sixteen. For us that is a hypothesis: chapter 10 measures it in a whole
# Transformer, with several seeds (C38).
#
# > **E1 · as a rule of thumb.** *Our question*: does a question for $k$ places take $k$ heads?
# >
# > *Measured*: All answers right, three seeds. As many heads as letters, or more: 0.996 to 1.000. Fewer: two
# > letters with one head 0.194 to 0.207, three with one 0.020 to 0.024, four with two 0.034 to 0.039; but
# > three letters with two heads 0.206, 0.248 and 0.816.
#
# ## 7. What heads look at
#
# We draw the weights of trained models. Below, one table and six questions about it, a row each. A cell is
# dark where a head looks. Nobody told the heads which letter to care for.

# %%
mt.manual_seed(10)
letters, values, _, _ = draw(1, 2)
chosen = [(0, 1), (1, 0), (2, 5), (5, 2), (6, 3), (4, 7)]
asked = letters[0][mt.tensor(chosen)]  # (6, 2)
table = letters.expand(6, PAIRS), values.expand(6, PAIRS)
questions = [", ".join(LETTERS[letter] for letter in row) for row in asked.tolist()]
pairs = [f"{LETTERS[a]}={b}" for a, b in zip(letters[0].tolist(), values[0].tolist(), strict=True)]


@mt.no_grad()
def weights_of(model, letters, values, asked):
    """Weights of the one question about each table: (B, h, 8)."""
    return model.attention.look(*model.embed(letters, values, asked))[1][:, :, 0]


two_maps = weights_of(trained("two heads", RATE, 0, 250)[0], *table, asked)  # (6, h, 8)
one_map = weights_of(trained("one head", RATE, 0, 250)[0], *table, asked)
maps = mt.cat([one_map, two_maps], dim=1).transpose(0, 1)  # (1 + 2, 6, 8)
figure, panels = plot.heads(maps, questions, pairs, width=8)
for axes, name in zip(panels[0], ("one head", "two: head 1", "two: head 2"), strict=True):
    axes.set(xlabel=name)
plot.show(
    figure,
    alt="One head spreads its weight over both letters of each question. Of two heads, each looks at one "
    "letter of the question, one head at the first and the other at the second.",
)

# %% [markdown]
# The two heads have shared out the work: in every row one is dark at the letter that is asked first and the
# other at the second, also where the same two letters are asked in the other order. The one head has to
# look at both, with the larger weight mostly on the same side.
#
# With eight heads the picture is less tidy:

# %%
maps = weights_of(trained("eight heads", RATE, 0, 250)[0], *table, asked).transpose(0, 1)
figure, panels = plot.heads(maps, questions, [pair[0] for pair in pairs], width=9.5)
for axes in panels[0]:
    axes.tick_params(axis="x", rotation=0)
plot.show(
    figure,
    alt="Weights of eight heads for the same six questions. Head 7 looks at the letter asked second in every "
    "row; the others at the first in some rows, at the second in others, or at several letters.",
)

# %% [markdown]
# ### Removing heads (E2)
#
# A map says where a head looks. Whether anything depends on it is another question, as in chapter 04. We
# ask it by **removing** a head: its output is replaced by its mean over all test questions, so that it no
# longer says anything about the one at hand, and we count the right answers.


# %%
@mt.no_grad()
def without_each_head(model):
    """For each head its mean weight on the two letters asked, and the right answers without it."""
    letters, values, asked, answers = test_tables()
    outputs, weights = model.attention.look(*model.embed(letters, values, asked))
    heads = []
    for head, on in enumerate(looked_at(weights, letters, asked)):
        removed = outputs.clone()
        removed[:, head] = outputs[:, head].mean(0)
        right = model.answer(removed).argmax(-1) == answers
        heads.append({"on": on, "right without": right.float().mean(0)})
    return heads


@lab.experiment(
    "E2",
    quick=dict(
        names=["one head", "one head, feed-forward", "two heads", "eight heads"],
        seeds=[0],
        steps=250,
    ),
    full=dict(
        names=["one head", "one head, feed-forward", "two heads", "eight heads"],
        seeds=[0, 1, 2],
        steps=500,
    ),
)
def removal(names, seeds, steps):
    return {
        name: [without_each_head(trained(name, RATE, seed, steps)[0]) for seed in seeds]
        for name in names
    }


removal_here = removal.run()
removal_full = removal.recorded

# %%
figure, panels = plot.subplots(1, 2, width=8.5, height=2.8, sharey=True)
for axes, name in zip(panels, ("two heads", "eight heads"), strict=True):
    for i, answer in enumerate(("first answer", "second answer")):
        points = [(head["on"][i], head["right without"][i]) for head in removal_here[name][0]]
        style = dict(linestyle="", color=plot.COLORS[i])
        axes.plot(*zip(*points, strict=True), marker="os"[i], label=f"{answer} (quick)", **style)
        runs = removal_full["result"][name] if removal_full else []
        points = [(head["on"][i], head["right without"][i]) for run in runs for head in run]
        if points:
            label = f"{answer} (full, three seeds)"
            axes.plot(*zip(*points, strict=True), marker="x+"[i], label=label, **style)
    axes.axhline(1 / 8, color="0.4", linewidth=1, linestyle="-")
    axes.set(xlabel="weight of the head on the letter asked", title=name, xlim=(-0.05, 1.05))
panels[0].set(ylabel="right without this head", ylim=(0, 1.05))
panels[0].legend(loc="center", fontsize=8)
plot.show(
    figure,
    alt="Right answers without one head against the weight that the head had on the letter asked. Of two "
    "heads, removing the one that looks there leaves chance. Of eight, removing any one leaves most answers "
    "right, whatever its weight was.",
)

# %% tags=["nbval-ignore-output"]
results = {"quick": removal_here} | ({"full": removal_full["result"]} if removal_full else {})
for setting, result in results.items():
    for name, runs in result.items():
        for seed, run in enumerate(runs):
            print(f"{setting}, {name}, seed {seed}")
            for number, head in enumerate(run, 1):
                looks = "  ".join(f"{weight:.2f}" for weight in head["on"])
                right = "  ".join(f"{share:.2f}" for share in head["right without"])
                print(
                    f"  head {number} looks at first, second: {looks}   right without it: {right}"
                )

# %%
for number, head in enumerate(removal_here["two heads"][0], 1):
    mine = max((0, 1), key=lambda i: head["on"][i])
    lost, kept = head["right without"][mine], head["right without"][1 - mine]
    print(
        f"head {number} of two: without it, the answer it looks at is below 0.3: {lost < 0.3}, "
        f"the other above 0.9: {kept > 0.9}"
    )
worst = min(min(head["right without"]) for head in removal_here["eight heads"][0])
print("any head of eight removed, both answers above 0.5:", worst > 0.5)

# %% [markdown]
# **Of two heads**, removal confirms the map. The answer that the head looks at falls to chance, the other
# stays as it was. **Of eight heads** several look at the same letter, and stand in for each other. And two
# heads with equally dark maps need not matter equally: the worst of the first two seeds have weights of 0.91
# and 0.92 on the letter.
#
# So there are two kinds of sentences about a head, and neither follows from the other. "Head 3 looks at the
# letter that is asked second" is about the map, "the model needs head 3 for the second answer" about removal.
# A map also says nothing about *what* is passed on: that is up to $V_\ell W_O^{(\ell)}$. Large trained models
# are alike: most heads can be removed with little loss, a few cannot (Michel et al., 2019; Voita et al.,
# 2019).
#
# **The number of a head means nothing.** Which head takes which letter is an accident of the seed.
# Renumbering the heads, in $Q$, $K$, $V$ and $W_O$ alike, gives the very same function:

# %%
model, _ = trained("two heads", RATE, 0, 250)
x, memory = (part.detach() for part in model.embed(*table, asked))
swap = mt.cat([mt.arange(16, 32), mt.arange(16)])  # head 2, head 1; columns of Q are rows here
swapped = MultiHeadAttention(32, 2)
swapped.load_state_dict(
    {
        "query.weight": model.attention.query.weight[swap],
        "key.weight": model.attention.key.weight[swap],
        "value.weight": model.attention.value.weight[swap],
        "out.weight": model.attention.out.weight[:, swap],
    }
)
print(
    "the same with heads renumbered:",
    mt.allclose(swapped(x, memory), model.attention(x, memory), atol=1e-4),
)

# %% [markdown]
# > **E2 · of two heads yes, of eight seldom.** *Our question*: does anything depend on the place that a head
# > looks at?
# >
# > *Measured*: Right answers at that place without the head (quick, one seed): 0.13 and 0.14 of the two heads
# > of one model, the other answer 1.00. Of eight heads, three seeds, 20 of 24 can be removed at a cost of at
# > most 0.04; the worst of each seed leaves 0.90, 0.71 and 0.91.
#
# **Try it**: take the transpose out of `merge_heads` alone, and see which of the tests in section 3 notices;
# train `LookUp(1, asked=2)` with 5 or 3 values in place of 8; remove *two* of the eight heads at a time; ask
# for three letters with two heads and a feed-forward net.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | the output of attention "will be dominated by one value" because of the softmax (deck 5) | only where score gaps are large: at a gap of 0.3 one weight is 1.35 times the other, at 3 it is 20 times | § 1 |
# | scores as $x_i^\top Q^\top K\, x_j$ and as $X Q K^\top X^\top$ on neighbouring slides (decks 1 and 3) | two conventions: columns for tokens in the first, rows in the second. This book has rows | § 2 |
# | $\text{output}_\ell \in \mathbb{R}^{d/h}$ (decks 1 and 3) | that is one token; all tokens make $(n, d/h)$ | § 2 |
# | $e_{l,t,i} = q_{l,i} \cdot k_{l,i}$ (deck 5) | the key is that of the other token, $k_{t,i}$ | § 2 |
# | the heads are concatenated, and that is the output (decks 2 and 5) | the output projection $W_O$ follows; decks 1 and 3 call it $Y$ | § 4 |
# | "the matrices are the same sizes" (decks 1 and 3) | $XQ$, $XK$ and $XV$ are; the scores are $h \times n \times n$ in place of $n \times n$ | § 5 |
#
# </details>
#
# ## Summary
#
# - One softmax can look at two places only on a knife's edge, and hands over a mean that no longer says which
#   came from where.
# - A head is an attention of its own on $d/h$ of the columns. As a loop, or with the head axis as a batch
#   axis: `view` to $(B, n, h, d/h)$, *then* `transpose` to $(B, h, n, d/h)$. `view` alone mixes positions and
#   raises no error; permuting the words finds it.
# - The heads' outputs are put side by side and multiplied by $W_O$, which is the same as a sum over heads.
# - Heads cost no parameters and no FLOPs, but $h$ times the memory for scores, and the time that goes with it
#   (C13). Each sees through a slit of $d/h$ directions.
# - Two heads do a task of two places that one cannot do with a linear read-out (C14), and $k$ places take
#   about $k$ heads (E1). A feed-forward net behind one head helps too.
# - What a head looks at and what it is needed for are two questions (E2).
#
# One more row of the table is done:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | open: chapter 08 | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | open: chapter 09 | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | open: chapter 07 | 07 |
# | one place at a time | one softmax, one place (C14) | several heads: both answers right in 100 % of all tables, with one head in 20 % | 06 |
# | does not train when deep | gradients (C20) | open: chapter 09 | 09 |
#
# Chapter 07 takes the next: our tokens look at the future, which is no way to learn to predict it.
#
# **Exercises**:
# [`../exercises/06_multi_head_attention/06_multi_head_attention.ipynb`](../exercises/06_multi_head_attention/06_multi_head_attention.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, section 3.2.2. Michel, Levy and Neubig
# (2019), *Are sixteen heads really better than one?* Voita et al. (2019), *Analyzing multi-head
# self-attention: specialized heads do the heavy lifting, the rest can be pruned*. Clark et al. (2019), *What
# does BERT look at?* Bhojanapalli et al. (2020), *Low-rank bottleneck in multi-head attention models*.
# Shazeer (2019), *Fast Transformer decoding: one write-head is all you need*.
