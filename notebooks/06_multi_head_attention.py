# %% [markdown]
# # 06 Multi-head attention
#
# In chapter 05 each token asks one question of its sequence: one query, one softmax, one weighted mean. But
# a word may need two answers at once. A verb wants to know who acts and what is done, and from one mean it
# cannot tell which is which. So we let a token ask several questions side by side, each with a softmax of
# its own. The split costs no parameters and no FLOPs, and it takes two operations. One of the two is easy
# to forget, and then nothing crashes.
#
# **After this chapter you will be able to**
#
# - show with a pencil what one mean of two words has forgotten;
# - write multi-head attention as a list of heads, and as one computation with the head axis beside the
#   batch axis, and show that the two agree;
# - say what the output projection does, and write it as a sum over heads;
# - find the mistake that mixes positions, which raises no error;
# - count what heads cost, and say what is left to the kernel;
# - prove that one head cannot do a task that two can;
# - tell what a head looks at from what it is needed for, and say where a head looks that has nothing to find.
#
# **Time**: about 105 minutes to read, without the side roads and what *Try it* takes; half of it is over after section 5,
# a good place for a pause. All cells together run in less than half a minute. **Before it**: chapter 05 (queries, keys
# and values; the division by $\sqrt d$; the table of barriers). Softmax and counting FLOPs are those of chapter 00.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
import tracemalloc
from time import process_time

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_05 import attention
from textbook.diagrams import heads as diagrams
from textbook.lab import Budgets, Lab, Tuned, large, measured, tqdm
from textbook.look import look

lab = Lab("06")

# %% [markdown]
# ## 1. One softmax, one place
#
# What does a word do that has two questions? One sentence goes with us through this chapter, *be water my friend*.
# Its verb wants to know two things: be **what**? And **who** shall be it?

# %% evidence
# The two questions of the verb
words = ["be", "water", "my", "friend"]
figure, axes = plot.subplots(width=7, height=2.3)
what, who = (0, 1, "what?", plot.COLORS[0]), (0, 3, "who?", plot.COLORS[1])
diagrams.questions(axes, words, [what, who])
plot.show(
    figure,
    alt="The sentence be water my friend in large letters. An arc leads from be to water, with the question what, "
    "and another from be to friend, with the question who.",
)

# %% [markdown]
# Two arrows leave the same word, and each must bring home its own answer. To follow that with a pencil, we choose all
# numbers by hand. Four numbers describe each of the $n = 4$ words: is it a verb, a thing, a small word, a person?

# %%
X = mt.tensor(
    [  # verb, thing, small, person
        [1.0, 0.0, 0.0, 0.0],  # be
        [0.0, 1.0, 0.0, 0.0],  # water
        [0.0, 0.0, 1.0, 0.0],  # my
        [0.0, 0.0, 0.0, 1.0],  # friend
    ]
)  # (n, d)

# %% [markdown]
# As in chapter 05, three matrices $Q$, $K$, $V$ of shape $(d, d)$ make queries $XQ$, keys $XK$ and values $XV$,
# and each output is a mean of values. A row of $X$ picks a row of each matrix, so each row says what one kind of word does:
#
# - $K$: **a word is found by its kind.** A thing has its 1 in the first column, a small word in the second, a person in
#   the third, a verb in the fourth.
# - $Q$: **a 6 asks for the kind of that column.** A verb asks for a thing (*what?*) and for a person (*who?*). A thing
#   asks for a verb, a small word for a person, and a person for a small word (*whose?*) and a verb.
# - $V$: each word says a direction of the compass, $x$ and $y$, and says it twice, so that each half of the columns has it
#   whole (section 2 cuts there). *Water* is east, *friend* north, *be* west, *my* south.

# %%
# The rows are those of a verb, a thing, a small word and a person; all matrices are (d, d).
Q = mt.tensor([[6.0, 0, 6, 0], [0, 0, 0, 6], [0, 0, 6, 0], [0, 6, 0, 6]])
K = mt.tensor([[0.0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
V = mt.tensor([[-1.0, 0, -1, 0], [1, 0, 1, 0], [0, -1, 0, -1], [0, 1, 0, 1]])
query, key, value = X @ Q, X @ K, X @ V  # (n, d) each

print("word      asks for       is found by    gives")
for word, *rows in zip(words, query.tolist(), key.tolist(), value.tolist(), strict=True):
    q, k, v = ("".join(f"{int(number):3}" for number in row) for row in rows)
    print(f"{word:7}{q}   {k}   {v}")

# %% [markdown]
# Now chapter 05's `attention`, for the word *be*:

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
# **First: the mean forgets which came from where.** What arrives is halfway between east and north. Suppose that the
# two words exchange what they have to say, their values, and keep their keys. Then the answer to *what* becomes the
# answer to *who*, and the other way round. The output does not notice:

# %%
exchanged = value[[0, 3, 2, 1]]  # water says what friend said, friend what water said
after, _ = attention(query, key, exchanged)
print("output of be, before:", output[0])
print("output of be, after: ", after[0])
print("same:", mt.allclose(output[0], after[0], atol=1e-6))

# %% [markdown]
# **Second: two places need a balance.** We set the two scores exactly equal. A trained model will get them only nearly
# equal. Say the score of *friend* is 2.7 in place of 3. To shut out the other words, the model must make both scores large.
# But a factor $f$ on all scores multiplies the small gap as well: the ratio of the two weights is $e^{0.3 f}$.

# %%
nearly = mt.tensor([0.0, 3.0, 0.0, 2.7])  # scores of be at be, water, my, friend
for factor in (0.5, 1, 2, 4, 8, 16):
    row = (factor * nearly).softmax(-1)
    others = row[0].item() + row[2].item()
    print(f"factor {factor:4}: water {row[1]:.3f}, friend {row[3]:.3f}, others {others:.3f}")

# %% [markdown]
# A small factor lets the other words in. A large one lets *water* win alone. In between there is a window of factors that
# serve both: *friend* has more than 0.2 of the weight, and all the other words together have less than 0.2. How wide is this
# window if the sentence has more words to shut out?


# %% evidence
# The mean as an arrow; and the window of factors against the number of other words
def window(others, factors):
    """Factors that leave friend more than 0.2, and less than that to all others of score 0."""
    water, friend = np.exp(3 * factors), np.exp(2.7 * factors)
    total = water + friend + others
    return factors[(friend / total > 0.2) & (others / total < 0.2)]


figure, (left, right) = plot.subplots(1, 2, width=9, height=3, width_ratios=[1, 1.3])
arrows = {"water": value[1, :2], "friend": value[3, :2], "what be gets": output[0, :2]}
for (name, end), color in zip(arrows.items(), ("0.45", "0.45", plot.COLORS[1]), strict=True):
    x, y = end.tolist()
    left.annotate("", (x, y), (0, 0), arrowprops=dict(arrowstyle="->", color=color, lw=1.8))
    left.text(x + 0.04, y + 0.04, name, color=color)
left.set(xlim=(-0.2, 1.5), ylim=(-0.2, 1.25), aspect="equal")
left.set(xlabel="x", ylabel="y", title="1. the mean says neither")
lengths = np.logspace(0, 5, 300)
open_for = [window(others, np.linspace(0.01, 6, 2000)) for others in lengths]
edges = np.array([(w[0], w[-1]) if len(w) else (np.nan, np.nan) for w in open_for])
right.fill_between(lengths, *edges.T, color=plot.COLORS[5], alpha=0.5)
right.text(3, 3, "both get their share", ha="left", va="center")
right.text(1e4, 1.5, "others get in", ha="center", va="center", color="0.35")
right.text(1e3, 5.3, "water wins alone", ha="center", va="center", color="0.35")
right.set(xscale="log", xlabel="other words", ylabel="factor on all scores", ylim=(0, 6))
right.set(title="2. the window closes")
plot.show(
    figure,
    alt="Left: what arrives at be is an arrow halfway between water, east, and friend, north. Right: the factors "
    "that serve both words, against the number of other words. The region narrows from the right of 0.5 to 4.6 for two "
    "other words to nothing for about fifty thousand.",
)
for others in (2, 50, 1000, 100_000):
    found = window(others, np.linspace(0.01, 6, 2000))
    said = f"factors from {found[0]:.2f} to {found[-1]:.2f}" if len(found) else "no factor"
    print(f"{others:7,} other words: both get their share with {said}")

# %% [markdown]
# On the left, *be* hears something between east and north, which nobody said. On the right is the window, in blue: with
# every tenfold length it gets narrower, and before 100,000 words it is closed. So one softmax *can* look at two places. But
# the balance is delicate, and what it hands over no longer says who said what.
#
# The way out is plain. Two questions, two softmaxes.
#
# ## 2. Heads in a loop
#
# How do we give *be* a second softmax, without more parameters? In our matrices *what?* and *whose?* stand in the first two
# columns, *who?* and the question for a verb in the last two. So we cut each of the matrices $Q$, $K$, $V$ into $h$ blocks
# of $d/h$ columns. Block $\ell$ of the three makes an attention of its own, a **head**:
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
# so *water* gets $69.6 / 72.6 = 0.959$. Head 2 gives the same to *friend*. One output points east, the other north:
# two questions, two answers. (The smaller root sharpens the look a little: divided by $\sqrt 4$ as above, *water* would
# get $20.1 / 23.1 = 0.87$.)
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
# The rows are queries. Look at *be* and *friend*: on the left each spreads its weight over two words; in the heads each
# of the two words has a map of its own. And look at the pale rows of head 1. *Water* and *my* have no question for this
# head, so all scores are equal and they get the mean of all. **A head cannot look at nothing: its weights add up to one.**
# Section 8 shows what trained heads do about that.
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
# Above, the three squares are added before the softmax sees them. Below, each gets a softmax of its own, and takes the mean
# of its own block of $V$. That is the whole difference, but for the smaller root. And the exchange of values, which one
# head did not notice, is now seen:

# %%
score_sum = sum(X @ Q[:, b] @ (X @ K[:, b]).T for b in blocks)
print("scores of one head = sum of scores of heads:", mt.allclose(X @ Q @ (X @ K).T, score_sum))
after = [attention(X @ Q[:, b], X @ K[:, b], exchanged[:, b])[0] for b in blocks]
for name, heads in (("before:", outputs), ("after: ", after)):
    print("be gets,", name, heads[0][0], "and", heads[1][0])

# %% [markdown]
# ## 3. Joining the heads
#
# Each token now has $h$ outputs of $d/h$ numbers. What does the next layer get? We put them side by side, which gives $d$
# numbers again, and multiply by one more matrix, the **output projection** $W_O$ of shape $(d, d)$:
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
# Follow one colour from left to right: a head never meets another one before $W_O$. As a module, a head is chapter 05's
# layer with fewer columns. (`x` asks and `memory` answers: in self-attention they are the same sequence.) The layer is a
# list of heads and a linear map:


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
# So heads work independently to the end and then **add up**. Without $W_O$, head 1 could only write into the first
# $d/h$ columns of the result; with it, into all $d$. This matters when the result is added to $X$, whose columns mean
# something (chapter 09). Where another linear layer follows at once, $W_O$ adds nothing: two matrices in a row are one.
#
# What does a head lose by being small? It sees every token through $d/h$ numbers only. That is the price of having several
# heads. Most large models keep a head at 64 to 128 numbers, and take more heads as they grow. (A side road says it with
# ranks.)
#
# ## 4. Heads as an axis
#
# Must we loop over the heads? A list of heads makes many small products, one after the other. But the blocks of columns lie
# side by side: $XQ$ *is* $[X Q_1, \dots, X Q_h]$. So we compute one product $XQ$ of shape $(n, d)$, as for one head, and
# then only look at its numbers differently, $(n, d) \to (n, h, d/h)$. To bring the head axis in front of the tokens, where
# a product of matrices treats it as one more batch axis, we swap the two: $(n, h, d/h) \to (h, n, d/h)$. With a batch of
# $B$ sequences:


# %% save
def split_heads(x, heads):
    """(B, n, d) to (B, h, n, d/h): columns in h blocks, the head axis beside the batch."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    """(B, h, n, d/h) to (B, n, d): the way back."""
    return x.transpose(1, 2).flatten(2)


# %% [markdown]
# Four axes are hard to imagine. So let us take a small tensor apart. Here are the queries and keys of our sentence, and
# what the product of the two is:

# %%
batch = X.unsqueeze(0)  # (B, n, d) with B = 1
query, key, value = (split_heads(batch @ matrix, h) for matrix in (Q, K, V))  # (B, h, n, d/h)
print("queries, shape", tuple(query.shape))
print(query)
print("queries times keys, shape", tuple((query @ key.mT).shape))
print(query @ key.mT)
alone = [query[0, head] @ key[0, head].T for head in range(h)]  # (n, n) each
print("one product a head gives the same:", mt.equal(mt.stack(alone), (query @ key.mT)[0]))

# %% [markdown]
# Read the brackets from outside: one sequence, two heads, four words, two numbers. The product is nothing but the two
# products of the heads, printed one below the other. The first row of each belongs to *be*. In the upper one its 6 stands
# at *water*, in the lower one at *friend*: the two questions, apart. (A row of zeros has no question for this head.) A
# matrix product takes the last two axes, and whatever stands in front of them is batch. So chapter 05's `attention` does
# all heads as it is:

# %%
at_once, weights_at_once = attention(query, key, value)  # (B, h, n, d/h), (B, h, n, n)
print("outputs agree with the loop over heads:", mt.allclose(at_once[0], outputs, atol=1e-6))
print("weights agree, too:", mt.allclose(weights_at_once[0], weights, atol=1e-6))
print("merging undoes splitting:", mt.equal(merge_heads(query), batch @ Q))

# %% [markdown]
# `unflatten` cuts one axis into two. Neither it nor `transpose` copies anything: they only say in which order to walk
# through the same memory. To see where the numbers go, we send the labels of the cells through the same function:

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
# Each head gets all words, and of each word its own two columns.
#
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
def merge_without_transpose(x):
    """The way back from the mistake: (B, h, n, d/h) to (B, n, d)."""
    B, heads, n, size = x.shape
    return x.reshape(B, n, heads * size)


def two_heads_of(x, split, merge):
    """Self-attention with two heads, their outputs side by side: (B, n, d)."""
    return merge(attention(*(split(x @ matrix, 2) for matrix in (Q, K, V)))[0])


order = mt.tensor([2, 0, 3, 1])  # my be friend water
for name, split, merge in (
    ("with transpose   ", split_heads, merge_heads),
    ("without transpose", split_without_transpose, merge_without_transpose),
):
    own = (split(token, h)[0] == mt.arange(n).unsqueeze(1)).float().mean().item()
    mixed = two_heads_of(batch, split, merge)
    permuted = two_heads_of(batch[:, order], split, merge)
    change = (permuted - mixed[:, order]).abs().max().item()
    print(f"{name} rows with their own token: {own:.0%}, change by permuting: {change:.3f}")

# %% [markdown]
# With the mistake, what a word gets depends on where it stands. Yet nothing crashes, gradients flow, the loss falls. (A
# side road, E1, asks how well the mistake hides in training.)
#
# ### The layer
#
# Here is all of it in one class. `look` gives the weights, for pictures and questions. `forward` does not need them, and
# leaves the middle to the library's `F.scaled_dot_product_attention`, which does the same in one operation (section 5
# measures what that saves). `allowed` says who may look at whom, as in chapter 05.


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
expected, _ = theirs(x, memory, memory)
print("output as nn.MultiheadAttention: ", mt.allclose(layer(x, memory), expected, atol=1e-5))

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
# Two heads, two softmaxes: must that not cost twice as much? The heads share out the $d$ columns, so the four matrices stay
# $(d, d)$, whatever $h$. (The *split* is free. $W_O$, new in this chapter, is the fourth matrix and costs $d^2$.) For
# self-attention over $n$ tokens, with $2nkm$ FLOPs for a product of $(n, k)$ and $(k, m)$:
#
# | what | one head of size $d$ | $h$ heads of size $d/h$ | $h$ heads that share keys and values |
# | --- | --- | --- | --- |
# | parameters | $4 d^2$ | $4 d^2$ | $2 d^2 + 2 d^2/h$ |
# | projections, FLOPs | $8 n d^2$ | $8 n d^2$ | $4 n d^2 + 4 n d^2/h$ |
# | scores, and weights times values, FLOPs | $4 n^2 d$ | $h \cdot 4 n^2\, d/h = 4 n^2 d$ | $4 n^2 d$ |
# | scores, numbers | $n^2$ | $h\, n^2$ | $h\, n^2$ |
# | keys and values, numbers | $2nd$ | $2nd$ | $2nd/h$ |
#
# The first three rows do not care about $h$. The fourth grows: each score matrix has $n^2$ entries, however few columns
# it was made from. The last column is a thrifty cousin (Shazeer, 2019): $h$ different questions, but one set of keys and
# values for all. It matters for a model that writes, which must keep all keys and values of its text (chapters 11 and 12).
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
# Do the $h n^2$ scores take $h$ times the memory? Only if somebody keeps them. Chapter 05's function writes them down, all
# at once. The library's fused operation works through long sequences in tiles: it makes the scores of a few queries, uses
# them, forgets them, and makes them again for the gradient. We measure the peak of memory and the processor time of a
# forward and backward pass over 2,048 words, cut into sequences of $n$.


# %% evidence
# C13: time and peak memory
class Unfused(MultiHeadAttention):
    """The same layer by chapter 05's function."""

    def forward(self, x, memory, allowed=None):
        return self.out(merge_heads(self.look(x, memory, allowed)[0]))


@lab.experiment(
    "C13",
    n=[256],
    kernel=["written out", "fused"],
    heads=[1, 8],
    repeats=3,
    full=dict(n=[64, 256, 1024], heads=[1, 2, 4, 8, 16], repeats=5, seeds=5),
)
def time_of_heads(n, kernel, heads, repeats, width=128):
    layer = {"fused": MultiHeadAttention, "written out": Unfused}[kernel](width, heads)
    x, times = mt.randn(2048 // n, n, width), []  # always 2,048 words
    for _ in range(repeats):
        start = process_time()
        layer(x, x).sum().backward()
        times.append(process_time() - start)
    tracemalloc.start()
    layer(x, x).sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"milliseconds": 1000 * min(times), "peak MiB": peak / 2**20}


# %% evidence
# C13: what is counted, the peak of memory and the time, against the number of heads
runs = time_of_heads.run()
longest = max(runs.best.settings_of("n"))
figure, panels = plot.subplots(1, 3, width=10, height=3)
base = costs[1]
for place, name, marker in ((3, "scores, numbers", "o-"), (2, "FLOPs of products", "s--")):
    panels[0].plot(
        list(costs), [cost[place] / base[place] for cost in costs.values()], marker, label=name
    )
panels[0].set(title="counted, over one head", yscale="log", ylim=(0.7, 24))
panels[0].set_yticks([1, 2, 4, 8, 16], [1, 2, 4, 8, 16])
for axes, name in zip(panels[1:], ("peak MiB", "milliseconds"), strict=True):
    for kernel, marker in (("written out", "o-"), ("fused", "s--")):
        rows = runs.best.where(n=longest, kernel=kernel)
        numbers = [np.median(rows.values(name, heads=k)) for k in rows.settings_of("heads")]
        axes.plot(rows.settings_of("heads"), numbers, marker, label=kernel)
    title = {"peak MiB": "peak of memory, MiB", "milliseconds": "processor time, ms"}[name]
    axes.set(title=f"{title}, n = {longest:,}", ylim=(0, None))
for axes in panels:
    axes.set(xscale="log", xlabel="heads h")
    axes.set_xticks(runs.best.settings_of("heads"), runs.best.settings_of("heads"))
    axes.minorticks_off()
    axes.legend(fontsize=8)
figure.suptitle(
    "memory and time " + ("recorded" if runs.full else "measured here"), fontsize=9, color="0.35"
)
plot.show(
    figure,
    alt="Three panels against the number of heads. Counted: the numbers in the scores grow in proportion, FLOPs are level. "
    "Peak of memory: written out it grows steeply with the heads, fused it is level. Processor time: both grow, and less "
    "than in proportion.",
)
for what in ("peak MiB", "milliseconds"):
    for kernel in ("written out", "fused"):
        runs.table("n", what, columns="heads", kernel=kernel)
parameters, projections, products, scores = zip(*costs.values(), strict=True)
by_hand = dict(between=(1, 1), derived="the formulas of the table")
for name, numbers, one in (
    ("parameters are 4 d^2", parameters, 4 * 128**2),
    ("FLOPs of projections are 8 n d^2", projections, 8 * 64 * 128**2),
    ("FLOPs of products are 4 n^2 d", products, 4 * 64**2 * 128),
):
    lab.holds("C13", f"{name}, for all h", [x / one for x in numbers], **by_hand)
of_each = [x / (heads * 64**2) for x, heads in zip(scores, costs, strict=True)]
lab.holds("C13", "numbers in the scores are h n^2", of_each, **by_hand)
for kernel, said, bounds in (
    ("written out", "eight heads take more than four times the memory of one", dict(above=4)),
    ("fused", "they take as much as one, to a tenth", dict(between=(0.9, 1.1))),
):
    runs.holds(
        f"at n = 1,024, {kernel}, {said}",
        lambda rows, k=kernel: (
            rows.values("peak MiB", n=1024, kernel=k, heads=8)
            / rows.values("peak MiB", n=1024, kernel=k, heads=1)
        ),
        **bounds,
    )

# %% [markdown]
# On the left is what anybody can count: the FLOPs stay, the scores grow with $h$. In the middle is what a *program* makes
# of it. Written out, eight heads need more than seven times the memory of one. The fused operation needs 14 MiB with one
# head and 17 with sixteen, since it never has all scores at once. (That pays for long sequences. The table shows that
# with one head at $n = 64$ it needs more, 12 MiB in place of 6.) On the right is the time. It grows in both, but less
# than the number of heads, and here the fused operation saves none. What takes the time, if the FLOPs are the same? We
# time the steps of the forward pass one by one, written out.


# %% evidence
# Processor time of products and softmax, one head and eight
def least_milliseconds(step, repeats=4):
    times = []
    for _ in range(repeats):
        start = process_time()
        step()
        times.append(process_time() - start)
    return 1000 * min(times)


def forward_step_by_step(heads, n=1024, width=128):
    q, k, v = (mt.randn(2, heads, n, width // heads) for _ in range(3))
    e = q @ k.mT
    alpha = e.softmax(-1)
    steps = (lambda: q @ k.mT, lambda: e.softmax(-1), lambda: alpha @ v)
    scores, softmax, mean = (least_milliseconds(step) for step in steps)
    return f"both products {scores + mean:.0f} ms, softmax {softmax:.0f} ms"


for heads in (1, 8):
    measured(f"heads {heads}: {forward_step_by_step(heads)}")

# %% [markdown]
# Most of what comes on top is the softmax. It walks over $h n^2$ numbers several times, and our count leaves it out,
# since it is no product. The rest is the thin products: with heads of 16 numbers a processor reaches fewer FLOPs a
# second.
#
# So **heads are free in the FLOPs of products, and the kernel decides the rest**: the program that does the innermost
# work. Your machine will have other milliseconds, and a GPU other ratios; the counts are everyone's.
#
# > **C13 · holds with a condition: FLOPs stay as they are, the rest is up to the kernel: with eight heads 7.4 times the
# > memory of one, written out, and the same in a fused one.** *The lectures* (deck 1, "Multi-head self-attention is
# > computationally efficient"; deck 3): "Even though we compute $h$ many attention heads, it's not really more costly."
# >
# > *Measured*: Counted with 1, 2, 4 and 8 heads ($n = 64$, $d = 128$): always 65,536 parameters, 8,388,608 FLOPs of
# > projections and 2,097,152 of products; 4,096 to 32,768 numbers in the scores. Peak of memory of a pass over 2,048 words in
# > sequences of 1,024, one head and eight, five runs: written out 35 and 259 MiB, fused 14 and 14 MiB. Processor time: written
# > out 52 to 55 and 142 to 149 ms, fused 58 to 62 and 128 to 164 ms; in sequences of 64 both take 10 to 12 and 16 to 17 ms.
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
# answers from the output of attention, 8 scores for each. (So $W_O$ has nothing to do here: section 3.)


# %%
class LookUp(nn.Module):
    """Scores (B, asked, choices) of the values that belong to the letters asked for."""

    def __init__(self, heads, asked=2, width=32, choices=VALUES, layer=MultiHeadAttention):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), width)
        self.value = nn.Embedding(VALUES, width)
        self.question = nn.Embedding(asked * len(LETTERS), width)
        self.attention = layer(width, heads)
        self.read, self.choices = nn.Linear(width, asked * choices), choices

    def embed(self, letters, values, asked):
        """The question (B, 1, d) and the table (B, 8, d)."""
        roles = asked + len(LETTERS) * mt.arange(asked.shape[1])  # another row for each role
        return self.question(roles).sum(1, keepdim=True), self.letter(letters) + self.value(values)

    def forward(self, letters, values, asked):
        found = self.attention(*self.embed(letters, values, asked))  # (B, 1, d)
        return self.read(found).unflatten(-1, (-1, self.choices)).squeeze(1)


# %% [markdown]
# **One head cannot do it. A proof.** The idea: for the second answer the head must hear the second letter louder than the
# first, for the first answer the first letter louder. One softmax cannot do both.
#
# Take two letters, $a$ and $b$, in one table, and ask for "$a, b$". Let the value of each be 3 or 5; nothing else in the table
# changes. That makes four tables. Suppose that the head chooses its weights by the letters alone, so they are the same in all
# four. Of the weight that falls on the two, let $a$ get the share $p$ and $b$ the share $1 - p$. (What the other pairs say is
# the same in all four tables.)
#
# Now the **second** answer. Let $D$ be its score for 5 less its score for 3. After the softmax all is linear, and a pair is a
# sum of letter and value. So a change of a value from 3 to 5 moves $D$ by one number $\alpha$ times the share of its letter.
# The second answer is $b$'s value:
#
# | $a$'s value | $b$'s value | $D$ | must be |
# | --- | --- | --- | --- |
# | 3 | 3 | $c$ | $< 0$ |
# | 5 | 3 | $c + p\,\alpha$ | $< 0$ |
# | 3 | 5 | $c + (1 - p)\,\alpha$ | $> 0$ |
# | 5 | 5 | $c + \alpha$ | $> 0$ |
#
# The last row less the first says $\alpha > 0$. The third less the second says $(1 - p)\,\alpha > p\,\alpha$, that is
# $p < 1/2$. The **first** answer has a $c$ and an $\alpha$ of its own, but the same $p$. There $a$ must outweigh $b$: $p > 1/2$.
# **So at least one of the two answers is wrong in at least one of the four tables.** $\square$
#
# What if a model has a vector of its own for every pair, so that a pair is no sum? Then $a$ may speak louder than $b$, and
# $p < 1/2$ need not follow. But ask in the other order, too. Asked "$b, a$", let $b$ get the share $q$. So $p$ and $q$ are both
# the share of the letter that is asked *first*. The same steps for both orders give $p + q < 1$ for second answers and
# $p + q > 1$ for first ones (the first of the side roads has them). In a picture:

# %% evidence
# The square of the proof
figure, axes = plot.subplots(width=5, height=3.9)
diagrams.square(axes)
for head, (corner, color) in enumerate((((1, 1), plot.COLORS[1]), ((0, 0), plot.COLORS[0])), 1):
    axes.plot(*corner, "o", color=color, markersize=11, clip_on=False)
    beside = (-8, -4) if head == 1 else (10, -4)
    style = dict(textcoords="offset points", ha="right" if head == 1 else "left", color=color)
    axes.annotate(f"head {head} of two", corner, beside, **style)
plot.show(
    figure,
    alt="A square with p to the right and q upwards, cut by the line p + q = 1. Below it second answers can be right, above "
    "it first answers. Of two heads one is in the upper right corner, the other in the lower left one.",
)

# %% [markdown]
# A point of the square is a head: the further right and up, the more weight on the letter asked first. Below the diagonal
# second answers can be right, above it first answers, and no point is on both sides. Take $p = q = 0.6$: the first answer
# hears 0.6 of its own letter and 0.4 of the other one. The second answer hears only 0.4 of its own letter, and is outvoted.
# **Two heads are two points.** One goes to one corner, the other to the opposite one, and the layer that reads them takes
# each answer from its own corner.
#
# The proof makes two assumptions. First, what reads the heads is linear. A feed-forward net that gets $0.7$ of one value and
# $0.3$ of another might still tell which is which. Second, the weights do not depend on the values. A trained model need not
# obey that. So we measure.
#
# ### One head and two (C14)
#
# What should we expect of one head? Say it hears both values and says the heavier one twice. Then it is right where the two
# values are equal, in one table of eight. (A blind guess is right in one of 64. The proof allows more than one eighth; it
# forbids only that *all* tables are right.) Each model trains with Adam on 128 new tables at every step. We report on 2,000
# tables, and choose learning rates on 2,000 others.


# %%
def train_look_up(model, optimizer, asked, steps):
    """Train on 128 new tables at every step."""
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


# %% evidence
# What is reported: right answers, loss, weights on the letters asked for
@mt.no_grad()
def all_right(model, tables):
    """The share of tables with all answers right."""
    *inputs, answers = tables
    return (model(*inputs).argmax(-1) == answers).all(1).float().mean()


@mt.no_grad()
def look_up_loss(model, tables):
    *inputs, answers = tables
    return F.cross_entropy(model(*inputs).flatten(0, 1), answers.flatten())


@mt.no_grad()
def looked_at(model, tables):
    """Mean weight of each head on each letter asked for: (h, asked)."""
    letters, values, asked, _ = tables
    _, weights = model.attention.look(*model.embed(letters, values, asked))  # (B, h, 1, 8)
    hits = (letters.unsqueeze(1) == asked.unsqueeze(2)).float()  # (B, asked, 8)
    return (weights[:, :, 0] @ hits.mT).mean(0)


# %% evidence
# The models that are compared, and what is measured of each
class PairLookUp(LookUp):
    """A pair is no sum: each of the 128 pairs of a letter and a value has a vector of its own."""

    def __init__(self, heads, width=32):
        super().__init__(heads, width=width)
        self.pair = nn.Embedding(len(LETTERS) * VALUES, width)

    def embed(self, letters, values, asked):
        question, _ = super().embed(letters, values, asked)
        return question, self.pair(VALUES * letters + values)


class FeedForwardLookUp(LookUp):
    """What attention finds is read by a small net in place of a linear layer."""

    def __init__(self, heads, width=32):
        super().__init__(heads, width=width)
        hidden, last = nn.Linear(width, 4 * width), nn.Linear(4 * width, 2 * VALUES)
        self.read = nn.Sequential(hidden, nn.ReLU(), last)


@mt.no_grad()
def in_detail(model, tables):
    """Wrong answers at the two places, and the largest weights on the two letters."""
    *inputs, answers = tables
    said = model(*inputs).argmax(-1)
    wrong = said != answers
    low, high = looked_at(model, tables).amax(0).sort()[0]
    return {
        "wrong, worse place": wrong.float().mean(0).amax(),
        "wrong, better place": wrong.float().mean(0).amin(),
        "exchanged of these": ((said == answers.flip(1)) & wrong).sum() / wrong.sum().clamp(min=1),
        "larger weight": high,
        "smaller weight": low,
    }


# %% [markdown]
# Two heads should not win against a weak rival. So one head gets four chances: ten times the steps, up to 5,000; twice the
# width; a vector of its own for each of the 128 pairs, so that a pair is no sum; and a feed-forward net in place of the
# linear layer.

# %%
MODELS = {
    "one head": lambda: LookUp(heads=1),
    "one head, width 64": lambda: LookUp(heads=1, width=64),
    "one head, a vector for each pair": lambda: PairLookUp(heads=1),
    "one head, feed-forward": lambda: FeedForwardLookUp(heads=1),
    "two heads": lambda: LookUp(heads=2),
    "eight heads": lambda: LookUp(heads=8),
}
RATES = Tuned(1e-3, 3e-3, 1e-2, lowest="loss elsewhere", seeds=3, steps=500)


# %%
@lab.experiment(
    "C14",
    model=list(MODELS),
    rate=3e-3,
    steps=Budgets([200]),
    full=dict(rate=RATES, steps=Budgets([500, 1500, 5000]), seeds=5),
)
def one_head_or_two(model, rate, steps):
    look_up, done = MODELS[model](), 0
    optimizer = mt.optim.Adam(look_up.parameters(), lr=rate)
    for budget in steps:
        train_look_up(look_up, optimizer, 2, budget - done)
        done = budget
        yield {
            "both right": all_right(look_up, reported[2]),
            "loss": look_up_loss(look_up, reported[2]),
            "loss elsewhere": look_up_loss(look_up, elsewhere[2]),
            **in_detail(look_up, reported[2]),
        }


# %% evidence
# Both answers right against the steps of training: figure, tables and verdicts
runs = one_head_or_two.run()
figure, axes = plot.subplots(width=9, height=3.4)
for i, name in enumerate(MODELS):
    rows = runs.best.where(model=name)
    steps = rows.settings_of("steps")
    by_seed = np.stack([rows.values("both right", steps=budget) for budget in steps], axis=1)
    plot.spread(axes, steps, by_seed, label=name, color=plot.COLORS[i], linestyle=plot.LINES[i])
for share, label in ((1 / 8, "knows both, reads one twice"), (1 / 64, "blind guess")):
    axes.axhline(
        share, color="0.4", linewidth=1, linestyle="--" if share > 0.1 else ":", label=label
    )
axes.set(xscale="log", xlabel="steps of training", ylabel="both answers right", ylim=(-0.03, 1.05))
axes.set_xticks(steps, steps)
axes.minorticks_off()
axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9)
plot.show(
    figure,
    alt="Share of tables with both answers right against the steps of training. Two and eight heads are at one from the "
    "start, one head with a feed-forward net close to it. One head alone, also twice as wide or with a vector for each "
    "pair, stays near 0.2 at any number of steps, a little above the line of one eighth.",
)
runs.table("model", "both right", columns="steps")
runs.table(
    "steps",
    [
        "wrong, worse place",
        "wrong, better place",
        "exchanged of these",
        "larger weight",
        "smaller weight",
    ],
    model="one head",
)
for name in ("one head", "one head, width 64", "one head, a vector for each pair"):
    runs.holds(
        f"at any number of steps it rarely gets both right: {name}",
        lambda rows, name=name: rows.values("both right", model=name),
        below=0.3,
    )
for name in ("two heads", "eight heads"):
    runs.holds(
        f"nearly always: {name}",
        lambda rows, name=name: rows.values("both right", model=name),
        above=0.9,
    )
for name in ("two heads", "one head, feed-forward"):
    runs.finding(
        f"after 500 steps more tables are right than with one head: {name}",
        "both right",
        larger=dict(model=name, steps=500),
        smaller=dict(model="one head", steps=500),
    )
runs.holds(
    "wrong answers of one head are the right ones to the other question",
    lambda rows: rows.values("exchanged of these", model="one head"),
    above=0.9,
)


# %% [markdown]
# **One head looks at both places and reads the heavier one twice.** Its curves lie at one eighth or a little above. Ten
# times the steps hardly lift them, and twice the width or a vector for each pair do not either. The second table shows
# how it fails. After 5,000 steps one of the two answers is wrong in 80 % of the tables and the other in 3 %. The wrong
# answers are not just any numbers: practically all of them are the right answer to the *other* question. With a vector
# for each pair, four of five runs fail in the other way that is left: after 5,000 steps 0.99 or more of their weight is
# on one letter, and the other answer is a guess.
#
# **Two heads get everything right**, with exactly as many parameters as one: after 500 steps they miss a few of the 2,000
# tables, after 5,000 none.
#
# **One head and a feed-forward net** get there, too: 0.985 to 0.993 after 500 steps, all tables but one at most after
# 1,500. So one softmax *can* carry two places, if something that is not linear takes them apart. In a Transformer a
# feed-forward net follows every attention layer (chapter 09). So C14 does not say that models with one head are helpless.
# It says that two heads hand over two answers directly, where one head leaves a riddle to what comes after it.
#
# And where do trained heads lie in the square of the proof? We take one pair of letters in each of 40 tables, ask in both
# orders with all 64 pairs of values, and mark the mean of $p$ and of $q$.


# %% evidence
# Where trained heads lie in the square of the proof: for one pair of letters, asked in both orders
@mt.no_grad()
def in_the_square(model, table, a, b):
    """p and q of each head, and whether the first, the second answers are right in all 64 cases.

    ``table`` are letters and values (1, 8). The letters at places a and b get all pairs of values.
    """
    letters, values = (part.expand(VALUES**2, PAIRS) for part in table)
    values, numbers = values.clone(), mt.arange(VALUES)
    values[:, a], values[:, b] = numbers.repeat(VALUES), numbers.repeat_interleave(VALUES)
    shares, right = [], []
    for first, second in ((a, b), (b, a)):
        order = [first, second]
        asked, answers = letters[:, order], values[:, order]
        right.append((model(letters, values, asked).argmax(-1) == answers).all(0))  # (2)
        _, weights = model.attention.look(*model.embed(letters, values, asked))  # (64, h, 1, 8)
        on_both = weights[:, :, 0][..., order].mean(0)  # (h, 2)
        shares.append(on_both[:, 0] / on_both.sum(-1))
    return shares, right[0] & right[1]


@lab.experiment("C14", heads=[1, 2], steps=200, full=dict(steps=500, seeds=5))
def weights_in_the_square(heads, steps, rate=3e-3, tables=40):
    look_up = LookUp(heads)
    train_look_up(look_up, mt.optim.Adam(look_up.parameters(), lr=rate), 2, steps)
    p, q, first, second = [], [], [], []
    for letters, values in zip(*(part[:tables] for part in reported[2][:2]), strict=True):
        shares, right = in_the_square(look_up, (letters[None], values[None]), 2, 5)
        for found, number in zip((p, q, first, second), (*shares, *right), strict=True):
            found.append(number.tolist())
    return {"p": p, "q": q, "first right": first, "second right": second}


# %% evidence
# Where trained heads lie in the square of the proof
runs = weights_in_the_square.run()
figure, panels = plot.subplots(1, 2, width=8, height=3.7)
for axes, heads, title in zip(panels, (1, 2), ("one head", "two heads"), strict=True):
    diagrams.square(axes, named=False)
    for row in runs.best.where(heads=heads):
        p, q = np.array(row["p"]), np.array(row["q"])  # (tables, h)
        for head in range(heads):
            style = dict(linestyle="", fillstyle="none", markersize=5, alpha=0.7)
            color = plot.COLORS[(row["seed"] if heads == 1 else head) % len(plot.COLORS)]
            axes.plot(p[:, head], q[:, head], "os^Dv"[row["seed"]], color=color, **style)
    axes.set(title=title + (", recorded" if runs.full else ", measured here"))
plot.show(
    figure,
    alt="The square twice, with marks for 40 pairs of letters in each of five models. One head: the marks of a model lie "
    "together near the line p + q = 1, two models below it and three above. Two heads: the marks of one head lie in the lower "
    "left corner, those of the other in the upper right one.",
)
for heads in (1, 2):
    rows = runs.best.where(heads=heads)
    first, second = (rows.values(f"{which} right") for which in ("first", "second"))
    shares = (first.mean(), second.mean(), (first & second).mean())
    measured(
        f"heads {heads}, right whatever the values: first answers {shares[0]:.2f} of the pairs of letters, second {shares[1]:.2f}, both {shares[2]:.2f}"
    )


def both_sides(rows, heads):
    """The share of pairs of letters, by seed, whose two answers are right whatever the values."""
    first, second = (rows.values(f"{which} right", heads=heads) for which in ("first", "second"))
    return (first & second).mean(-1)


runs.holds(
    "one head: no pair of letters gets both answers right whatever the values",
    lambda rows: both_sides(rows, 1),
    between=(0, 0),
    derived="the proof, if weights do not depend on values",
)
runs.holds(
    "two heads: nearly all pairs do",
    lambda rows: both_sides(rows, 2),
    above=0.9,
)

# %% [markdown]
# On the left are five models with one head, a colour each. Each model has settled on *one* side of the diagonal. Two lie
# below it: there some second answers are right whatever the values, and no first ones. Three lie above it, and there it
# is the other way round. None of the 200 marks has both. The heads of the five models on the right went where the proof
# sends them: one corner each.
#
# > **C14 · holds with a condition: Read by a linear layer, two heads answer both questions, one head in 0.26 at most; read by a
# > feed-forward net, one does, too.** *The lectures* (deck 5, "Multi-head attention"; deck 1, "Multi-headed attention"; deck
# > 3): one softmax makes it "hard to specify that you want two different things"; "What if we want to look in multiple
# > places in the sentence at once?"
# >
# > *Measured*: The share of tables with both answers right, five seeds, the rate chosen on other tables and seeds. After 500
# > steps: one head 0.140 to 0.191, twice as wide 0.150 to 0.206, with a vector for each pair 0.116 to 0.141, with a
# > feed-forward net behind it 0.985 to 0.993; two heads 0.996 and more, eight 1.00. After 5,000 steps, in the same order:
# > 0.158 to 0.203, 0.171 to 0.254, 0.115 to 0.164, and 1.00 for the last three. A model that reads one value twice has 0.125.
#
# ## 7. What heads look at
#
# How do heads share out the work? Nobody told them which letter to care for. We train three models and ask them the same
# questions about one table.


# %%
def trained(heads):
    mt.manual_seed(0)
    model = LookUp(heads)
    train_look_up(model, mt.optim.Adam(model.parameters(), lr=3e-3), 2, steps=250)
    return model


models = {heads: trained(heads) for heads in (1, 2, 8)}

mt.manual_seed(10)
letters, values, _, _ = draw_tables(1, 2)
places = mt.tensor([(0, 1), (1, 0), (2, 5), (5, 2), (6, 3), (4, 7)])  # of the letters asked for
asked = letters[0][places]  # (6, 2)
table = letters.expand(6, PAIRS), values.expand(6, PAIRS)

# %% evidence
# What one head and two heads say, printed large
pairs = [f"{LETTERS[a]}={b}" for a, b in zip(letters[0].tolist(), values[0].tolist(), strict=True)]
questions = [", ".join(LETTERS[letter] for letter in row) for row in asked.tolist()]
said = {heads: models[heads](*table, asked).argmax(-1).tolist() for heads in (1, 2)}
lines = ["   ".join(pairs), ""]
for i, question in enumerate(questions[:4]):
    one, two = (", ".join(map(str, said[heads][i])) for heads in (1, 2))
    lines.append(f"{question}?    One head says {one}. Two heads say {two}.")
large("\n".join(lines))

# %% [markdown]
# The one head knows both numbers, and mostly says one of them twice. Asked the other way round, it says the other one twice.
# (Now and then it is lucky.) Where does it look?


# %% evidence
# Weights of one head and of two on the six questions
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

# %% [markdown]
# The ring marks the letter that is asked first, the square the second. The one head looks at both, and the larger weight is
# mostly at the square: that value it says twice. The two heads have shared out the work: head 1 looks at the squares, head
# 2 at the rings, also where the same two letters are asked in the other order. Eight heads are less tidy. Choose a head,
# then a question, and read the weight of each pair:

# %% evidence
# The eight heads on the six questions, to point at
question, memory = models[8].embed(*table, asked)  # (6, 1, d), (6, 8, d), the same table six times
look(lambda *_: models[8].attention(question.transpose(0, 1), memory[:1]), pairs, questions)

# %% evidence
# All eight heads at once
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
# Heads 3 and 7 look at the squares, heads 5, 6 and 8 mostly at the rings, and head 1 in half of its rows. Head 2 looks at
# *e* whether it is asked first or second, and head 4 is pale. Some rows are dark at letters that nobody asked for, such
# as *i* in the first row of head 1.
#
# (The number of a head means nothing, by the way: exchange two heads in $Q$, $K$, $V$ and $W_O$ alike, and the layer
# computes the very same function.)
#
# ### Removing heads (E3)
#
# A map says where a head looks. Does anything depend on it? To find out, we **remove** a head: its output is replaced by its
# mean over all test questions, so it no longer says anything about the question at hand. Then we count the right answers.


# %%
@mt.no_grad()
def right_without(model, removed, tables):
    """Shares of right answers (asked) when these heads say the same about every question."""
    *inputs, answers = tables
    outputs, _ = model.attention.look(*model.embed(*inputs))  # (B, h, 1, d/h)
    outputs[:, removed] = outputs[:, removed].mean(0)
    scores = model.read(model.attention.out(merge_heads(outputs)))
    said = scores.unflatten(-1, (-1, VALUES)).squeeze(1).argmax(-1)
    return (said == answers).float().mean(0)


# %% evidence
# More and more heads removed, and the experiment
def removed_together(model, heads, tables):
    """Right answers, worse place, without 1, 2, ... heads: each time the one that is missed least."""
    removed, right = [], []
    for _ in range(heads):
        left = [head for head in range(heads) if head not in removed]
        worse = {head: right_without(model, [*removed, head], tables).amin() for head in left}
        removed.append(max(worse, key=lambda head: worse[head].item()))
        right.append(worse[removed[-1]].item())
    return right


@lab.experiment("E3", heads=[2, 8], rate=3e-3, steps=250, full=dict(steps=500, seeds=5))
def without_each_head(heads, rate, steps):
    look_up = LookUp(heads)
    train_look_up(look_up, mt.optim.Adam(look_up.parameters(), lr=rate), 2, steps)
    each = [right_without(look_up, [head], reported[2]).tolist() for head in range(heads)]
    return {
        "looks": looked_at(look_up, reported[2]),
        "right without": each,
        "right without together": removed_together(look_up, heads, reported[2]),
    }


# %% evidence
# Right answers without one head, and without more and more of them: figure, table and verdicts
runs = without_each_head.run()
figure, panels = plot.subplots(1, 3, width=10, height=3, sharey=True)
for axes, heads in zip(panels, (2, 8), strict=False):
    for i, answer in enumerate(("first answer", "second answer")):
        looks, right = (
            runs.best.values(what, heads=heads)[..., i].flatten()
            for what in ("looks", "right without")
        )
        style = dict(linestyle="", fillstyle="none", color=plot.COLORS[i])
        axes.plot(looks, right, marker="os"[i], label=answer, **style)
    axes.set(xlabel="weight on the letter asked", xlim=(-0.05, 1.05))
    axes.set(title=f"{heads} heads, one removed")
for row in runs.best.where(heads=8):
    right = [1, *row["right without together"]]
    panels[2].plot(range(9), right, color=plot.COLORS[0], linestyle="-", linewidth=1, marker=".")
panels[2].set(xlabel="heads removed", title="8 heads, more and more removed")
for axes in panels:
    axes.axhline(1 / 8, color="0.4", linewidth=1, linestyle=":", label="guess")
panels[0].set(ylabel="right without", ylim=(0, 1.05))
panels[0].legend(loc="center", fontsize=8)
seeds = ", ".join(map(str, runs.best.settings_of("seed")))
figure.suptitle(("recorded, " if runs.full else "measured here, ") + f"seeds {seeds}", fontsize=9)
plot.show(
    figure,
    alt="Right answers without one head against the weight that the head had on the letter asked. Of two "
    "heads, removing the one that looks there leaves a guess. Of eight, removing any one leaves most answers "
    "right. Right: the more of eight heads are removed together, the fewer answers are right, down to a guess.",
)
for heads in (2, 8):
    for row in runs.best.where(heads=heads):
        both = zip(map(max, row["looks"]), map(min, row["right without"]), strict=True)
        each = ", ".join(f"{looks:.2f}: {right:.2f}" for looks, right in sorted(both))
        measured(f"{heads} heads, seed {row['seed']}, larger weight: right without it  {each}")
        together = " ".join(f"{right:.2f}" for right in row["right without together"])
        measured(f"   1, 2, ... heads removed, the least missed first: {together}")


def lost_and_kept(rows):
    """Of two heads: right answers without the head, to the letter it looks at and to the other."""
    looks, right = (rows.values(what, heads=2) for what in ("looks", "right without"))
    lost = np.take_along_axis(right, looks.argmax(-1, keepdims=True), -1)
    kept = np.take_along_axis(right, looks.argmin(-1, keepdims=True), -1)
    return lost.flatten(), kept.flatten()


for sentence, measure, bounds in (
    (
        "of two heads, the answer that it looks at falls to a guess",
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
# Each mark is a head that was removed; high means that the model does well without it. **Of two heads** (left) neither can
# go: the answer that the head looks at falls to a guess, the other stays. **Of eight heads** (middle) nearly any one can
# go: several look at the same letter, and stand in for each other. But equally dark maps need not matter equally. Two heads
# from two models have a weight of 0.91 on their letter: without the one, 0.89 of the answers there stay right, without the
# other 0.66.
#
# On the right we go on and remove one more, always the one that is missed least. **Five of the eight can go together**:
# at the worse of the two places, 0.96 and more of the answers stay right. With the sixth it begins to hurt, in four
# models of five. With the seventh the worse answer is a guess. One head cannot do it, as we know.
#
# So "head 3 looks at the letter that is asked second" does not mean "the model needs head 3 for the second answer". Nor does
# a map say *what* is passed on: that is up to $V_\ell
# W_O^{(\ell)}$. Large trained models are alike. Most heads can be removed one at a time with little loss, and a few cannot
# (Michel et al., 2019); with some further training, most heads can go together (Voita et al., 2019).
#
# > **E3 · Of two heads each is needed for its place; of eight, five can be removed together, and 0.96 stay right.**
# > *Our question*: does anything depend on the place that a head looks at?
# >
# > *Measured*: Right answers, five seeds. Of two heads without one: at the place that it looks at 0.107 to 0.135, at the
# > other 1.00. Of eight heads without one: 0.91 and more for 37 of 40 heads, 0.66, 0.74 and 0.89 for three. Of eight heads
# > without the five that are missed least, at the worse place: 0.961 to 0.988; without six 0.768 to 0.976, without seven
# > 0.119 to 0.145.
#
# ## 8. Nothing to find
#
# Section 2 left a question open. What does a head do if it finds nothing? Its weights add up to one, so it must look
# *somewhere*. Let us ask for letters that are not in the table. Half of the questions are of that kind, and the right
# answer is then "not there". To keep it simple we ask for one letter, with one head.

# %%
NOT_THERE = VALUES  # the ninth answer


def draw_questions(batch):
    """Tables and one letter each, which every second time stands in no pair; answers (B, 1)."""
    order = mt.rand(batch, len(LETTERS)).argsort(dim=1)  # its first 8 letters are in the table
    values = mt.randint(0, VALUES, (batch, PAIRS))
    places = mt.randint(0, len(LETTERS), (batch, 1))
    answers = mt.cat([values, mt.full((batch, PAIRS), NOT_THERE)], dim=1).gather(1, places)
    return order[:, :PAIRS], values, order.gather(1, places), answers


# %% [markdown]
# We give the model one thing more: a **start token** in front of the table, as every text has its `<s>`. It is no pair, it
# has no letter, and nobody asks for it. We train for 300 steps, and ask for three letters that are in the table and five
# that are not:


# %%
class OneAsked(LookUp):
    """One head, one letter asked; with a start token in front of the table, which is no pair."""

    def __init__(self, start, width=32):
        super().__init__(heads=1, asked=1, width=width, choices=VALUES + 1)
        self.start = nn.Parameter(mt.randn(1, 1, width)) if start else None

    def embed(self, letters, values, asked):
        question, table = super().embed(letters, values, asked)
        if self.start is not None:
            table = mt.cat([self.start.expand(len(table), 1, -1), table], dim=1)
        return question, table


# %% evidence
# Where the head looks that finds nothing, and what the model says without the start token
mt.manual_seed(1)
asking = OneAsked(start=True)
optimizer = mt.optim.Adam(asking.parameters(), lr=1e-2)
for _ in range(300):
    *inputs, right = draw_questions(128)
    loss = F.cross_entropy(asking(*inputs)[:, 0], right[:, 0])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
absent = [i for i in range(len(LETTERS)) if i not in letters[0].tolist()][:5]
wanted = mt.tensor([*letters[0, :3].tolist(), *absent]).unsqueeze(1)  # (8, 1)
table_8 = letters.expand(8, PAIRS), values.expand(8, PAIRS)
with mt.no_grad():
    question, memory = asking.embed(*table_8, wanted)
    _, weights = asking.attention.look(question, memory)  # (8, 1, 1, 9)
    hidden = mt.arange(PAIRS + 1) == 0
    said, blind = (
        asking.read(asking.attention(question, memory, allowed))[:, 0].argmax(-1).tolist()
        for allowed in (None, ~hidden)
    )
names = [f"{LETTERS[i]}?" for i in wanted[:, 0].tolist()]
figure, axes = plot.subplots(width=7.5, height=3.3)
plot.attention(axes, weights[:, 0, 0], names, ["<s>", *pairs], values=True, title="")
axes.set(xlabel="", ylabel="letter asked for")
plot.show(
    figure,
    alt="Weights for eight questions about a table. Letters that are in the table look at their pair. Letters that are "
    "not there look mostly at the start token.",
)
word = {NOT_THERE: "not there"} | {i: str(i) for i in range(VALUES)}
replies = zip(names, said, blind, strict=True)
lines = [f"{name}   {word[a]}.   With <s> hidden: {word[b]}." for name, a, b in replies]
large("\n".join(lines[3:]))

# %% [markdown]
# The upper rows find their letter and look at its pair. The lower ones find nothing, and look at `<s>` more than
# anywhere else. Does the model need that? We put on chapter 05's blindfold: `<s>` is hidden, and the weight has to go
# elsewhere. **Now the model finds values for some letters that are not there.**
#
# ### Hiding the start token (E4)
#
# Is that so in other runs, and does it go away with more training? For comparison we also train models that never had a
# start token.


# %% evidence
# Right answers, also with the first key hidden, and where the head looks
mt.manual_seed(101)
asked_for = draw_questions(2000)


@mt.no_grad()
def right_and_looks(model):
    """Right answers, also with the first key hidden, and weights on the first key."""
    *inputs, answers = asked_for
    question, table = model.embed(*inputs)
    hidden = mt.arange(table.shape[1]) == 0
    missing, found = answers[:, 0] == NOT_THERE, {}
    for name, allowed in (("", None), (", first key hidden", ~hidden)):
        said = model.read(model.attention(question, table, allowed))[:, 0].argmax(-1)
        right = (said == answers[:, 0]).float()
        found |= {f"right, there{name}": right[~missing].mean()}
        found |= {f"right, not there{name}": right[missing].mean()}
    on_first = model.attention.look(question, table)[1][:, 0, 0, 0]  # (B)
    found |= {"first key, there": on_first[~missing].mean()}
    return found | {"first key, not there": on_first[missing].mean()}


# %%
@lab.experiment(
    "E4",
    start=[False, True],
    steps=Budgets([250]),
    full=dict(steps=Budgets([500, 1500, 5000]), seeds=5),
)
def nothing_to_find(start, steps, rate=3e-3):
    model, done = OneAsked(start), 0
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for budget in steps:
        for _ in tqdm(range(done, budget), leave=False):
            *inputs, answers = draw_questions(128)
            loss = F.cross_entropy(model(*inputs)[:, 0], answers[:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        done = budget
        yield right_and_looks(model)


# %% evidence
# Right answers and weights of models with and without a start token: tables and verdicts
runs = nothing_to_find.run()
runs.table(
    "steps",
    [
        "right, not there",
        "first key, not there",
        "first key, there",
        "right, not there, first key hidden",
    ],
    start=True,
)
runs.table("steps", ["right, not there", "first key, not there", "first key, there"], start=False)
runs.finding(
    "what finds nothing looks at the start token more than at a first pair",
    "first key, not there",
    larger=dict(start=True, steps=500),
    smaller=dict(start=False, steps=500),
)
runs.holds(
    "what finds its letter hardly looks there",
    lambda rows: rows.values("first key, there", start=True),
    below=0.1,
)
runs.holds(
    "with the start token hidden, the model invents values for letters that are not there",
    lambda rows: rows.values("right, not there, first key hidden", start=True),
    below=0.95,
)

# %% [markdown]
# A head that finds nothing puts 0.29 to 0.57 of its weight on the start token after 500 steps, and 0.49 to 0.71 after
# 5,000. A head that finds its letter puts 0.04 at most there. And the model comes to depend on it. With the start token
# hidden, fewer "not there" stay right the longer the model was trained: 0.5 to 0.91 after 500 steps, 0.19 to 0.75 after
# 5,000. In place of the rest the model says a value that it made up.
#
# And what if there never was a start token? Such a model does nearly as well. How does it know that nothing was found?
# The table does not tell. Our guess is that the weight goes to several pairs at once, and that the model reads such a
# mixture as "not there".
#
# In large language models this is a famous sight: many heads put most of their weight on the first token of the text,
# however far back it is and whatever it says. They are called **attention sinks** (Xiao et al., 2023). Whoever cuts the
# beginning of a long text away to save memory cuts off the sinks as well, and the model's predictions collapse at once.
# Four tokens kept from the beginning are enough to prevent it. One difference: our start token *says* something, "not
# there". A sink of a language model says next to nothing: its value is small (Gu et al., 2024), and that is the point.
#
# > **E4 · A head that finds nothing looks at the start token, with 0.5 to 0.7 of its weight in the end; hide the token, and
# > the model invents answers.** *Our question*: where does a head look that has nothing to find?
# >
# > *Measured*: Five seeds, after 500 and after 5,000 steps. Weight of the start token where the letter is not there: 0.286
# > to 0.566 and 0.492 to 0.709; where it is there, 0.040 at most. "Not there" is right in 1.00; with the start token hidden
# > in 0.500 to 0.911 and 0.188 to 0.748. Models that never had one: 0.989 to 0.999 and 0.998 to 1.00.
#
# **Today.** Nearly every large language model has heads, mostly of 64 to 128 numbers each, and more of them the larger it
# is. Groups of heads share their keys and values (grouped-query attention; chapter 12, exercises 2 and 9). The products
# run in a kernel that never writes the scores down (FlashAttention; chapter 12, C26). $W_O$ is still there, by custom
# more than by need: He and Hofmann (2023) train Transformers without it. And attention sinks are cared for: a model that
# streams keeps its first tokens for ever, and some models give each head a learned number in the denominator of its
# softmax, so that it *can* look at nothing (in no chapter).
#
# **Try it**: take the transpose out of `merge_heads` alone, and see which tests of section 4 notice; train `LookUp(1)`
# with 3 values in place of 8; ask for three letters with two heads and a feed-forward net; in section 8 put the start
# token *behind* the table (does it matter?), or give the table two of them.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | scores as $x_i^\top Q^\top K\, x_j$ and as $X Q K^\top X^\top$ on neighbouring slides (decks 1 and 3) | both, with different $Q$ and $K$ | in the first, tokens are columns, in the second they are rows, as in this book; the first $Q$ is the transpose of the second |
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
# - One softmax can look at two places, but the mean that it returns no longer says which came from where.
# - A head is an attention of its own on $d/h$ of the columns. The heads' outputs are put side by side and multiplied by
#   $W_O$, which is a sum over heads.
# - As an axis: $(B, n, d)$ to $(B, n, h, d/h)$, *then* `transpose` to $(B, h, n, d/h)$. Without it positions are mixed
#   and nothing crashes; permuting the words finds it.
# - Splitting into heads costs no FLOPs of products. What it costs in memory and time, the kernel decides (C13).
# - Two heads do a task of two places. One head cannot, if a linear layer reads it and its weights do not depend on the values:
#   it would need $p + q < 1$ and $p + q > 1$ (C14).
# - What a head looks at and what it is needed for are two questions (E3): of eight heads that all look somewhere, five can go.
# - A head cannot look at nothing. If there is a start token, it looks there, and the model comes to depend on it (E4).
#
# One more row of the table is done:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | one place at a time | one softmax, one place (C14) | several heads: both answers right in all tables, with one head in 14 to 20 % | 06 |
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
# sixteen heads really better than one?* Voita et al. (2019), *Analyzing multi-head self-attention: specialized heads do the
# heavy lifting, the rest can be pruned*. Clark et al. (2019), *What does BERT look at?* Xiao et al. (2023), *Efficient
# streaming language models with attention sinks*. Gu et al. (2024), *When attention sink emerges in language models*. He
# and Hofmann (2023), *Simplifying Transformer blocks*. Bhojanapalli et al. (2020), *Low-rank bottleneck in multi-head attention models*. Shazeer (2019), *Fast Transformer decoding: one
# write-head is all you need*, for heads that share their keys and values.
#
# ## Side roads
#
# ### The proof for any pairs
#
# *For those who want to see why $p + q$ decides, whatever vectors the pairs have.* Section 6's four tables again. Now we ask
# each for "$a, b$" and for "$b, a$".
#
# Suppose that the head chooses its weights by the letters alone. Then they are the same in all four tables. Asked "$a, b$", let
# $a$ get the share $p$ of the weight and $b$ the share $1 - p$. Asked "$b, a$", let $b$ get $q$ and $a$ get $1 - q$. So $p$ and
# $q$ are both the share of the letter that is asked *first*. (Weight on other pairs does no harm: what they say is the same in
# all four tables, and the common factor that is left for $a$ and $b$ drops out.)
#
# Now the **second** answer. Let $D$ be its score for 5 less its score for 3. After the softmax all is linear. So if $a$'s value
# goes from 3 to 5, $D$ moves by the weight of $a$ times some number $\alpha$; if $b$'s value does, by the weight of $b$ times
# some $\beta$. These two numbers belong to the letters and to the reading layer, and not to the question. Asked "$a, b$", the
# second answer is $b$'s value:
#
# | $a$'s value | $b$'s value | $D$ | must be |
# | --- | --- | --- | --- |
# | 3 | 3 | $c$ | $< 0$ |
# | 5 | 3 | $c + p\,\alpha$ | $< 0$ |
# | 3 | 5 | $c + (1 - p)\,\beta$ | $> 0$ |
# | 5 | 5 | $c + p\,\alpha + (1 - p)\,\beta$ | $> 0$ |
#
# The third row less the second says $(1 - p)\,\beta > p\,\alpha$. The last less the first says $(1 - p)\,\beta > -p\,\alpha$.
# Together: $(1 - p)\,\beta > p\,|\alpha|$. In words, *what $b$ says must outweigh what $a$ says*. Asked "$b, a$", the letters
# change places, and the same table gives $(1 - q)\,\alpha > q\,|\beta|$. So $\alpha$ and $\beta$ are positive. Multiply the
# two inequalities and divide by $\alpha\beta$. What remains is $(1 - p)(1 - q) > pq$, that is
#
# $$p + q < 1 .$$
#
# The **first** answer has scores of its own, with an $\alpha$ and a $\beta$ of its own, but the same $p$ and $q$. There the
# letter that is asked first must outweigh the other, and in the same way $pq > (1 - p)(1 - q)$, that is
#
# $$p + q > 1 .$$
#
# One softmax has one $p$ and one $q$. They cannot do both. **So at least one of the two answers is wrong in at least one of
# the four tables, asked in one of the two orders.** $\square$
#
# ### The slit of a head
#
# *For those who think in ranks.* The weights of a head depend on $Q_\ell$ and $K_\ell$ only through the product $Q_\ell
# K_\ell^\top$, and what it passes on depends on $V_\ell W_O^{(\ell)}$. Both are of shape $(d, d)$ and of rank at most
# $d/h$: the rows of a product are mixtures of the rows of its second factor, here $d/h$ of them. A head sees every token
# through a slit of $d/h$ directions. With a single one left, $d/h = 1$, the score is a product of two numbers: the head can
# ask for the largest key or for the smallest, and for nothing in between. Vaswani et al. (2017) found one head worse than
# eight, and thirty-two worse than sixteen; C38 measures it in a whole Transformer.

# %%
mt.manual_seed(0)
queries_from, keys_from = mt.randn(64, 64), mt.randn(64, 64)  # Q and K for d = 64
for heads in (1, 2, 8, 32):
    product = queries_from[:, : 64 // heads] @ keys_from[:, : 64 // heads].T  # (d, d)
    rank = np.linalg.matrix_rank(product.array)
    print(f"d = 64, {heads:2} heads: rank of the product for head 1 is {rank}")

# %% [markdown]
# ### Does the mistake show? (E1)
#
# *For those who have to find mistakes.* Section 4's mistake raises no error. Does the training tell? The models of section 6,
# without the transpose:


# %% evidence
# E1: the mistake of section 4 in training
class WithoutTranspose(MultiHeadAttention):
    """The mistake of section 4: heads that share out the words."""

    def project(self, x, memory):
        projected = self.query(x), self.key(memory), self.value(memory)
        return [split_without_transpose(part, self.heads) for part in projected]


@lab.experiment(
    "E1",
    heads=[2, 8],
    rate=3e-3,
    steps=Budgets([250]),
    full=dict(rate=RATES, steps=Budgets([500, 1500]), seeds=5),
)
def heads_that_share_the_words(heads, rate, steps):
    look_up, done = LookUp(heads, layer=WithoutTranspose), 0
    optimizer = mt.optim.Adam(look_up.parameters(), lr=rate)
    for budget in steps:
        train_look_up(look_up, optimizer, 2, budget - done)
        done = budget
        yield {
            "both right": all_right(look_up, reported[2]),
            "loss elsewhere": look_up_loss(look_up, elsewhere[2]),
        }


# %% evidence
# Both answers right with the mistake: table and verdict
runs = heads_that_share_the_words.run()
runs.table("heads", "both right", columns="steps")
runs.holds(
    "two heads without the transpose still beat one head",
    lambda rows: rows.values("both right", heads=2),
    above=0.35,
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
# > **E1 · With eight heads it shows, {{06 heads_that_share_the_words: both right; heads=8; steps=1500}} right after 1,500 steps; with
# > two, {{06 heads_that_share_the_words: both right; heads=2; steps=1500}}, it looks like too little training.** *Our question*: does a
# > model that mixes positions show it in its results?
# >
# > *Measured*: Both answers right, five seeds: two heads without the transpose {{06 heads_that_share_the_words: both right; heads=2; steps=500}} after
# > 500 steps and {{06 heads_that_share_the_words: both right; heads=2; steps=1500}} after 1,500; eight {{06 heads_that_share_the_words: both right; heads=8; steps=500}} and
# > {{06 heads_that_share_the_words: both right; heads=8; steps=1500}}.
#
# ### As many heads as places (E2)
#
# *For those who liked the proof.* If a head is good for one place, a question for three letters should need three. Is that
# a rule of thumb, or can it be proved, too? It can, with the same two assumptions.
#
# Ask for $k$ letters with $h < k$ heads. Let $w_j$ be the list of the $h$ weights that the heads put on letter $j$: a vector
# of $h$ numbers. As above, let $D$ be the score of answer $i$ for 5 less that for 3. If the value of letter $j$ goes from 3
# to 5, each head moves $D$ in proportion to its weight, so $D$ moves by $r_i^\top w_j$ for some vector $r_i$ of $h$
# numbers. (It is the same for all letters, since a pair is a sum.) Answer $i$ is right in all tables only if letter $i$
# outweighs all the others together:
#
# $$r_i^\top w_i > \sum_{j \ne i} |r_i^\top w_j| .$$
#
# Now $k$ vectors of fewer than $k$ numbers are linearly dependent: $\sum_j g_j w_j = 0$, and not all $g_j$ are zero. Take
# the letter $i$ whose $|g_i|$ is largest, and solve for its vector: $w_i = \sum_{j \ne i} t_j w_j$ with all $|t_j| \le 1$.
# Then $r_i^\top w_i \le \sum_{j \ne i} |r_i^\top w_j|$, whatever $r_i$ is. So **this answer cannot be right in all
# tables.** $\square$
#
# The proof even says where it breaks: where the values of the other letters conspire. We ask for 2, 3 and 4 letters, and
# give the layer 1, 2 and 4 heads, all with $d = 32$.


# %% evidence
# Two, three and four letters with one, two and four heads
@lab.experiment(
    "E2",
    asked=[3],
    heads=[2, 4],
    rate=3e-3,
    steps=Budgets([250]),
    full=dict(
        asked=[2, 3, 4],
        heads=[1, 2, 4],
        rate=RATES,
        steps=Budgets([500, 1500]),
        seeds=5,
    ),
)
def as_many_heads_as_places(asked, heads, rate, steps):
    look_up, done = LookUp(heads, asked), 0
    optimizer = mt.optim.Adam(look_up.parameters(), lr=rate)
    for budget in steps:
        train_look_up(look_up, optimizer, asked, budget - done)
        done = budget
        answers = reported[asked][-1]
        alike = answers[:, 0] == answers[:, -1]  # the first answer equals the last
        yield {
            "all right": all_right(look_up, reported[asked]),
            "loss elsewhere": look_up_loss(look_up, elsewhere[asked]),
            "first answer equals last": all_right(
                look_up, [part[alike] for part in reported[asked]]
            ),
            "looks": looked_at(look_up, reported[asked]),
        }


# %% evidence
# All answers right against the steps of training: figure, tables and verdicts
runs = as_many_heads_as_places.run()
longest = max(runs.best.settings_of("steps"))
asked_numbers = runs.best.settings_of("asked")
figure, panels = plot.subplots(
    1, len(asked_numbers), width=3.1 * len(asked_numbers), height=2.8, sharey=True, squeeze=False
)
for axes, number in zip(panels[0], asked_numbers, strict=True):
    for i, heads in enumerate(runs.best.settings_of("heads")):
        rows = runs.best.where(asked=number, heads=heads)
        steps = rows.settings_of("steps")
        by_seed = np.stack([rows.values("all right", steps=budget) for budget in steps], axis=1)
        style = dict(color=plot.COLORS[i], linestyle=plot.LINES[i])
        plot.spread(axes, steps, by_seed, label=f"{heads} head{'s' * (heads > 1)}", **style)
    axes.set(
        xscale="log",
        xlabel="steps of training",
        title=f"{number} letters asked",
        ylim=(-0.03, 1.05),
    )
    axes.set_xticks(steps, steps)
    axes.minorticks_off()
panels[0, 0].set_ylabel("all answers right")
panels[0, 0].legend(loc="center right", fontsize=9)
plot.show(
    figure,
    alt="Share of tables with all answers right against the steps of training, a panel each for two, three and four letters. "
    "Where there are as many heads as letters, or more, nearly all are right. With fewer the curves stay at the floor, "
    "but for three letters with two heads, which come to 0.88.",
)
for number in asked_numbers:
    runs.table("heads", "all right", columns="steps", asked=number)
for row in runs.best.where(asked=3, heads=2, steps=longest):
    looks = " and ".join(" ".join(f"{x:.2f}" for x in head) for head in row["looks"])
    measured(
        f"3 asked, 2 heads, {longest:,} steps, seed {row['seed']}: all right {row['all right']:.3f}, "
        f"where the first answer equals the last {row['first answer equals last']:.3f}; "
        f"weights of head 1 and 2 on the letters: {looks}"
    )
runs.holds(
    "three places, two heads: some tables are wrong at any number of steps",
    lambda rows: rows.values("all right", asked=3, heads=2),
    below=0.95,
    derived="the proof, if weights do not depend on values",
)
runs.holds(
    "three places, four heads: nearly all are right",
    lambda rows: rows.values("all right", asked=3, heads=4),
    above=0.95,
)

# %% [markdown]
# With as many heads as letters, or more, nearly all tables are right. With one head or, for four letters, with two, nearly
# none are. Three letters with two heads lie between: with time they come to seven tables of eight, and stop there, as the
# proof says. The lines above show how. A share of the tables is lost where the values of the other letters conspire.
#
# > **E2 · With a linear read-out, yes: of tables with three letters two heads get {{06 as_many_heads_as_places: all right; asked=3; heads=2; steps=1500}} right,
# > four {{06 as_many_heads_as_places: all right; asked=3; heads=4; steps=1500}}; a proof says why.** *Our question*: does a question for $k$ places take $k$ heads?
# >
# > *Measured*: Tables with all answers right after 1,500 steps, five seeds: three letters with two heads {{06 as_many_heads_as_places: all right; asked=3; heads=2; steps=1500}}, with four
# > {{06 as_many_heads_as_places: all right; asked=3; heads=4; steps=1500}}; four letters with two heads {{06 as_many_heads_as_places: all right; asked=4; heads=2; steps=1500}}, with four {{06 as_many_heads_as_places: all right; asked=4; heads=4; steps=1500}}.
