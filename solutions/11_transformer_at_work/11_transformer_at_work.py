# %% [markdown]
# # Exercises 11: the Transformer at work
#
# Ten exercises, from easy to hard, 40 points, about five hours. They belong to
# [chapter 11](../../notebooks/11_transformer_at_work.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the
# cell, then the check below it. The check looks at what your function does, on inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once more
# on other numbers and sizes. Where an exercise does not allow an operation, the check records what runs
# inside your function, under whatever name you call it. In exercises 2 and 3 the gradients of your results
# count, too: stay with tensors there, and away from `.item()`, `detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first. $n$ is the number of tokens of the source, $T$ of the target,
# $d$ the width of the model, $h$ the number of heads (`heads`), $V$ the size of the vocabulary. Masks are True where a query may
# look. Padding stands at the end of a sequence; which number it has, each exercise says.

# %%
import math
import statistics
from collections import Counter
from itertools import pairwise

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_10 import Transformer
from textbook.checks import chapter_11 as check
from textbook.checks import progress
from textbook.lab import finding

progress.show("11")

# %% [markdown]
# ## 1. Up, level, down
#
# *Goal: give an optimizer its learning rates, step by step. Easy, 15 minutes, 2 points.*
#
# An optimizer keeps its parameters in groups: `optimizer.param_groups` is a list of dicts. Here each group has a highest rate
# of its own under `"peak"`; the rate that the optimizer uses stands under `"lr"`. At step $t$, counted from 1, every group gets its
# peak times the share
#
# $$\begin{cases} t / w & \text{for } t < w, \\ 1 & \text{for } w \le t \le k, \\ 1 - \sqrt{(t - k) / (s - k)} & \text{for } k < t \le s. \end{cases}$$
#
# `step` is $t$, `warm` is $w$, `hold` is $k$ and `steps` is $s$, the last step. $0 \le w \le k \le s$, so there may be no rise, no plateau
# or no fall. What the groups had before does not matter. Nothing is returned, and the optimizer takes no step.
#
# What is good about a plateau, if you do not know yet how long you will train?
#
# Everything is allowed.


# %% solution="set_rates"
def set_rates(optimizer, step, warm, hold, steps):
    """Set the learning rate of a step, counted from 1, in all groups of the optimizer."""
    ### BEGIN SOLUTION
    if step < warm:
        share = step / warm
    elif step <= hold:
        share = 1.0
    else:
        share = 1 - math.sqrt((step - hold) / (steps - hold))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share
    ### END SOLUTION


# %% tests="set_rates" points=2
check.set_rates(set_rates)
group = {"params": [nn.Parameter(mt.zeros(1))], "peak": 0.01}
optimizer, rates = optim.SGD([group], lr=1.0), []
for step in range(1, 101):
    set_rates(optimizer, step, 10, 60, 100)
    rates.append(optimizer.param_groups[0]["lr"])
figure, axes = plot.subplots(width=5, height=2.2)
axes.plot(range(1, 101), rates)
axes.set(xlabel="step", ylabel="rate")
plot.show(figure, alt="The rate rises in a line, stays, and falls, fast at first and then slowly")
### BEGIN HIDDEN TESTS
# From any point of the plateau one may go on, or let the rate fall and have a finished model: one
# run serves several lengths, where lines and cosines must know the last step from the start.
check.set_rates(set_rates, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Smoothing, without padding
#
# *Goal: ask a model not to be too sure, and not to say padding. Medium, 25 minutes, 4 points.*
#
# `scores` is $(B, T, V)$, `targets` $(B, T)$ holds the numbers of the right tokens, `smoothing` is $\epsilon$, from 0 to 1. Chapter 11
# spreads $\epsilon$ over all $V$ tokens. But nobody should learn to say `padding`, the number of the padding token, and the right
# token has enough. So let the model be asked for the distribution
#
# $$q_v = \begin{cases} 1 - \epsilon & v \text{ is the right token}, \\ 0 & v \text{ is padding}, \\ \epsilon / (V - 2) & \text{else.} \end{cases}$$
#
# With $p = \operatorname{softmax}(\text{scores})$ over all $V$ tokens, the loss of a position is $-\sum_v q_v \log p_v$. Positions where
# `targets` equals `padding` do not count. Return the mean over all other positions of the batch, a tensor with one element.
# There is at least one, and $V$ is at least 4.
#
# Scores may be in the hundreds. At padded positions they may even be NaN: loss and gradients of the other positions
# stay what they are, the gradient there is 0. And a model may forbid itself to say padding: the score of that token is $-\infty$ then,
# everywhere. What is $0 \cdot \infty$?
#
# Not allowed: `F.cross_entropy` and `nn.CrossEntropyLoss` (the operation `cross_entropy`), whose smoothing is the chapter's.


# %% solution="smoothed_loss"
def smoothed_loss(scores, targets, smoothing, padding):
    """scores (B, T, V), targets (B, T) give the mean loss over all targets that are no padding."""
    ### BEGIN SOLUTION
    real = targets != padding
    log_p, words = scores[real].log_softmax(dim=-1), targets[real]  # (R, V), (R)
    right = log_p[mt.arange(len(words)), words]
    sayable = mt.arange(scores.shape[-1]) != padding
    others = log_p[:, sayable].sum(dim=-1) - right
    return -((1 - smoothing) * right + smoothing / (scores.shape[-1] - 2) * others).mean()
    ### END SOLUTION


# %% tests="smoothed_loss" points=4
check.smoothed_loss(smoothed_loss)
### BEGIN HIDDEN TESTS
# 0 times infinity is not a number, and NaN would be the loss: the column of padding has to be left
# out of the sum, not multiplied by 0.
check.smoothed_loss(smoothed_loss, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A small table at both ends
#
# *Goal: tie two matrices at both ends of a model. Medium, 20 minutes, 4 points.*
#
# A vocabulary is large, and so is its table $(V, d)$. Two small matrices can stand for it (Lan et al., 2020): a table
# $E$ $(V, e)$ with short rows, `self.table`, and $U$ $(e, d)$, `self.up`, which widens them. Both serve embedding and output. Write
#
# - `forward(tokens)`: tokens $(B, n)$ become their rows $E_v$, widened by $U$, times $\sqrt d$. That gives $(B, n, d)$;
# - `scores(x)`: outputs $x$ $(B, T, d)$ are narrowed by $U^\top$ and compared with all rows of $E$; each token has a bias, `self.bias`
#   $(V)$, which is added. That gives $(B, T, V)$.
#
# Never make the large matrix $E U$, and look rows up, with no product of one-hot vectors: the check counts FLOPs. Keep `__init__` as it is, and keep no copies: the weights change while the
# model learns. How many weights are saved for $V = 37{,}000$, $d = 512$, $e = 64$?
#
# Everything is allowed.


# %% solution="TiedEmbedding"
class TiedEmbedding(nn.Module):
    """A small table, widened on the way in, narrowed on the way out."""

    def __init__(self, vocabulary, inner, width):
        super().__init__()
        self.table = nn.Parameter(mt.randn(vocabulary, inner) * inner**-0.5)
        self.up = nn.Parameter(mt.randn(inner, width) * width**-0.5)
        self.bias = nn.Parameter(mt.zeros(vocabulary))

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        ### BEGIN SOLUTION
        return self.table[tokens] @ self.up * math.sqrt(self.up.shape[1])
        ### END SOLUTION

    def scores(self, x):
        """x (B, T, width) gives the scores of all tokens, (B, T, V)."""
        ### BEGIN SOLUTION
        return x @ self.up.T @ self.table.T + self.bias
        ### END SOLUTION


# %% tests="TiedEmbedding" points=4
check.TiedEmbedding(TiedEmbedding)
### BEGIN HIDDEN TESTS
# 37,000 * 512 = 18,944,000 weights become 37,000 * 64 + 64 * 512 = 2,400,768 (and V biases).
check.TiedEmbedding(TiedEmbedding, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. One merge
#
# *Goal: do one step of byte-pair encoding, exactly. Medium, 30 minutes, 4 points.*
#
# `corpus` is a dict from words to how often they occur; a word is a tuple of pieces, such as `("n", "ew", "e", "s", "t")`. Find the
# pair of neighbouring pieces that **can be merged most often**, and merge it everywhere:
#
# - a pair in a word counts as often as the word occurs. Where pairs overlap, count from the left what can be merged: `a a a` holds
#   the pair `("a", "a")` once, `a a a a` twice;
# - of equally frequent pairs take the first in the order of tuples, as `min` does: `("a", "bc")` comes before `("ab", "c")`;
# - merging goes from the left: `a a a` becomes `aa a`;
# - words that have become equal are one word, which occurs as often as they did together.
#
# Return the pair, a tuple of two pieces, and the new corpus, a dict of the same kind. If every word is a single piece, return `None` and a
# copy of the corpus. Leave the argument as it is.
#
# Why must a tie be settled by a rule at all?
#
# Everything is allowed. Useful: `Counter`, `pairwise`.


# %% solution="merge_once"
def merge_once(corpus):
    """A corpus, words as tuples of pieces and how often they occur: the pair, the new corpus."""
    ### BEGIN SOLUTION

    def joined(word, pair):
        pieces, i = [], 0
        while i < len(word):
            width = 2 if word[i : i + 2] == pair else 1
            pieces.append("".join(word[i : i + width]))
            i += width
        return tuple(pieces)

    counts = Counter()
    for word, count in corpus.items():
        for pair in set(pairwise(word)):
            counts[pair] += count * (len(word) - len(joined(word, pair)))
    if not counts:
        return None, dict(corpus)
    best = min(counts, key=lambda pair: (-counts[pair], pair))
    merged = Counter()
    for word, count in corpus.items():
        merged[joined(word, best)] += count
    return best, dict(merged)
    ### END SOLUTION


# %% tests="merge_once" points=4
check.merge_once(merge_once)
words = "banana bandana banal canal canada anna".split()
corpus = {tuple(word): 1 for word in words}
for _ in range(5):
    pair, corpus = merge_once(corpus)
    print(pair, *(" ".join(word) for word in corpus), sep="   ")
### BEGIN HIDDEN TESTS
# The merges are the vocabulary, and a model knows its tokens by their numbers: two runs on the same
# text, or the same text in another order of words, must give the same tokens.
check.merge_once(merge_once, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Until each has ended
#
# *Goal: write a batch of translations, each as long as it is, and compute nothing for those that are done. Medium, 35 minutes,
# 5 points.*
#
# `model` has two methods. `model.encode(source, real)` makes of tokens $(B, n)$ a memory $(B, n, d)$; `model.decode(tokens, memory, real)`
# makes of target tokens $(B, T)$, the start included, scores $(B, T, V)$, each for the token after it. `real` is a mask
# $(B, 1, 1, n)$ for both, True at the tokens of the source and False at its padding. Translate greedily:
#
# - each row begins with `start`, and gets the likeliest token, one after the other, until that is `end`, at most `longest` tokens;
# - `start` and `padding` are no words: they are never said, however likely;
# - **a row that has ended is not computed any more**: `decode` gets the rows alone that are still written. The check notes how
#   many these are. As soon as all have ended, it is not called again.
#
# Return $(B, T)$, as wide as the longest translation: without `start`, each row with its `end` (if it got so far), and `padding` behind
# it. `start`, `end` and `padding` are three different numbers, any of them may be 0. Why may we leave a row out, and the others come
# out the same?
#
# Everything is allowed.


# %% solution="translate"
def translate(model, source, start, end, padding, longest):
    """source (B, n) gives translations (B, T), each with its end, filled up with padding."""
    ### BEGIN SOLUTION
    real = (source != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
    memory = model.encode(source, real)
    said = mt.full((len(source), 1), start)
    writing = mt.arange(len(source))  # the rows that have not ended
    while len(writing) and said.shape[1] <= longest:
        scores = model.decode(said[writing], memory[writing], real[writing])[:, -1]  # (b, V)
        scores[:, [start, padding]] = -mt.inf
        words = scores.argmax(dim=-1)
        column = mt.full((len(source), 1), padding)
        column[writing, 0] = words
        said = mt.cat([said, column], dim=1)
        writing = writing[words != end]
    return said[:, 1:]
    ### END SOLUTION


# %% tests="translate" points=5
check.translate(translate)
### BEGIN HIDDEN TESTS
# Rows of a batch never look at each other: attention stays inside a row, and norms and networks
# look at one token. (A batch norm would not allow it.)
check.translate(translate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The likeliest, and no more
#
# *Goal: cut the tail off a distribution, exactly. Medium, 25 minutes, 4 points.*
#
# `scores` is $(B, V)$, a row for each text; `temperature` is a number above 0, by which scores are divided; `share` $(B)$ holds a number
# from 0 to 1 for each row. Of each row keep **the smallest set** of tokens, the likeliest, whose probabilities add up to the row's
# share or more, at least one token. Of equally likely tokens the one with the smaller number comes first (chapter 11's line
# keeps them all). Return the probabilities $(B, V)$ to draw from: 0 outside of the set, and inside what it was, divided by the sum, so
# that it adds up to 1.
#
# Scores may be in the hundreds, and some of a row, not all, $-\infty$. For which share is this greedy decoding?
#
# Everything is allowed. Useful: `argsort(stable=True)`, `gather`, `scatter`.


# %% solution="likely_tokens"
def likely_tokens(scores, share, temperature):
    """scores (B, V), share (B): the probabilities (B, V) of the likeliest tokens alone."""
    ### BEGIN SOLUTION
    p = (scores / temperature).softmax(dim=-1)
    order = (-p).argsort(dim=-1, stable=True)  # of equals the smaller number comes first
    ordered = p.gather(1, order)
    stays = ordered.cumsum(dim=-1) - ordered < share.unsqueeze(1)
    stays[:, 0] = True
    kept = mt.zeros_like(p).scatter(1, order, ordered.masked_fill(~stays, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %% tests="likely_tokens" points=4
check.likely_tokens(likely_tokens)
### BEGIN HIDDEN TESTS
# For a share of 0, or of anything that the likeliest token has alone: one token stays.
check.likely_tokens(likely_tokens, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. What padding costs
#
# *Goal: predict the FLOPs of a training pass, then count them. Medium, 30 minutes, 4 points.*
#
# [Chapter 10](../../notebooks/10_transformer.ipynb)'s `Transformer`, with `encoder_layers` blocks in the encoder and `decoder_layers` in the decoder, is trained for a pass over
# `pairs`, a list of lengths $(n, T)$: tokens of the source, and tokens that the decoder reads. Batches are made of the pairs as they
# come, `batch` at a time; the last one may be smaller. In a batch all sources are padded to its longest source, all targets to its
# longest target, **and padding is computed like everything else**.
#
# Count products alone, forward and backward, a multiplication with its addition as 2: products with weights, scores and mixing in all
# three attentions (whatever the masks say), and the output layer. Return a dict of integers:
#
# - `"FLOPs"`: the pass as it is computed;
# - `"without padding"`: what it would cost if each pair were a batch of its own.
#
# When your prediction stands, the cell of the check counts. How much is saved where the pairs are sorted by length before the batches are made?
#
# Everything is allowed.


# %% solution="pass_flops"
def pass_flops(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    """FLOPs of the products of a training pass over pairs of lengths (n, T)."""
    ### BEGIN SOLUTION
    block = 8 * width**2 + 4 * width * hidden

    def cost(n, T):
        source = encoder_layers * (block + 4 * n * width) + decoder_layers * 4 * width**2
        target = decoder_layers * (block + 4 * (T + n) * width + 4 * width**2)
        return 3 * (n * source + T * (target + 2 * width * vocabulary))

    whole = 0
    for first in range(0, len(pairs), batch):
        part = pairs[first : first + batch]
        whole += len(part) * cost(max(n for n, _ in part), max(T for _, T in part))
    return {"FLOPs": whole, "without padding": sum(cost(n, T) for n, T in pairs)}
    ### END SOLUTION


# %% tests="pass_flops" points=4
check.pass_flops(pass_flops)
pairs = [(3, 9), (8, 4), (5, 5), (12, 10), (4, 6)]
model = Transformer(50, width=16, heads=4, hidden=40, layers=2)
with count_flops() as counter:
    for first in range(0, 5, 2):
        part = pairs[first : first + 2]
        source = mt.ones(len(part), max(n for n, _ in part)).long()
        target = mt.ones(len(part), max(T for _, T in part)).long()
        model(source, target).sum().backward()
for kind, lengths in (("as they come", pairs), ("sorted", sorted(pairs))):
    found = pass_flops(50, 16, 40, 2, 2, lengths, batch=2)
    print(f"{kind}: {found['FLOPs']:,} FLOPs, without padding {found['without padding']:,}")
print(f"counted, as they come: {counter.total:,}")
### BEGIN HIDDEN TESTS
# The two lines say it for five pairs. Real batches are larger, and their longest sentence is longer.
check.pass_flops(pass_flops, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. What does the table say?
#
# *Goal: draw those conclusions from a table that it can carry. Medium, 35 minutes, 4 points.*
#
# Translators and their results; the numbers are made up. Losses are nats a **piece** on test sentences, one for each seed. Costs are FLOPs,
# counted as *products* that were computed, or as *capacity*: what the processors could have computed in that time, which is at
# least as much ([chapter 11, section 7](../../notebooks/11_transformer_at_work.ipynb#7.-What-training-costs)). Look before you compute: which of the sentences below the table would you write down?

# %%
print("row  losses of a piece         characters  text      FLOPs     counted as  settings")
for number, row in enumerate(check.table):
    losses, counted = " ".join(f"{x:.2f}" for x in row["losses"]), row["counted as"]
    settings = " ".join(f"{key[:5]} {value}" for key, value in row["settings"].items())
    print(
        f"{number:3}  {losses:24}  {row['characters a piece']:10}  {row['text']:8}  "
        f"{row['FLOPs']:.1e}   {counted:10}  {settings}"
    )
for number, (kind, i, j, *name) in enumerate(check.claims):
    said = {
        "better": f"row {i} has the lower loss than row {j}",
        "fewer products": f"row {i} took fewer products than row {j}",
        "because of": f"row {i} has the lower loss than row {j}, because of {''.join(name)}",
    }
    print(f"claim {number}: {said[kind]}")

# %% [markdown]
# Now write the reader down. `table` is a list of dicts like those of `check.table`, and `claims` a list of tuples like those of
# `check.claims`. Return the numbers of the claims that the table supports, counted from 0, as a list.
#
# - `("better", i, j)`: row $i$ has the lower loss, **in nats a character** (the loss of a piece divided by the characters a piece). Both rows were
#   tested on the same text, both have as many seeds (number $k$ of both lists is the same seed), and that the loss is lower is a *finding*
#   by chapter 00's rule ("When is a difference a finding?"): at least five seeds, and $p \le 0.05$, which `finding(larger, smaller)` of
#   `textbook.lab` counts.
# - `("fewer products", i, j)`: it follows from the costs that row $i$ computed fewer products than row $j$.
# - `("because of", i, j, setting)`: row $i$ is better than row $j$, as above, and this setting is the only one in which they differ.
#
# Everything is allowed.


# %% solution="supported"
def supported(table, claims):
    """The numbers of those claims that the table supports."""
    ### BEGIN SOLUTION

    def better(ours, theirs):
        one, other = (
            [loss / row["characters a piece"] for loss in row["losses"]] for row in (ours, theirs)
        )
        return (
            ours["text"] == theirs["text"] and len(one) == len(other) and finding(other, one).found
        )

    found = []
    for k, (kind, i, j, *name) in enumerate(claims):
        ours, theirs = table[i], table[j]
        settings = ours["settings"], theirs["settings"]
        if kind == "better":
            holds = better(ours, theirs)
        elif kind == "fewer products":
            holds = theirs["counted as"] == "products" and ours["FLOPs"] < theirs["FLOPs"]
        else:
            changed = [key for key in settings[0] if settings[0][key] != settings[1][key]]
            holds = changed == name and better(ours, theirs)
        if holds:
            found.append(k)
    return found
    ### END SOLUTION


# %% tests="supported" points=4
check.supported(supported)
print("the table supports:", *supported(check.table, check.claims))
### BEGIN HIDDEN TESTS
# Claim 0 is a trap of vocabularies: row 1's pieces are shorter, so its loss of a piece is lower and
# that of a character higher. Claim 4 compares two texts, claim 5 trusts one run. Capacity is an
# upper bound: of row 5 nobody knows how few products it took (7), yet fewer than row 4 it took
# (8). In row 4 two things were changed (10).
check.supported(supported, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Some more tokens
#
# *Goal: read a prompt at once, then write on, and compute nothing twice. Hard, 35 minutes, 4 points.*
#
# `layer` is a multi-head self-attention that has been trained: it has `layer.query`, `layer.key`, `layer.value`, `layer.out` (each an
# `nn.Linear` without bias) and `layer.heads`: blocks of $d/h$ columns, scores divided by $\sqrt{d/h}$, a causal mask. Chapter 11's cache gets one
# token at a time. But a prompt is there at once, and may be read at once. You get `x` $(B, k, d)$, the $k$ **newest tokens**, and `cache`, what
# you have kept of the $t$ tokens before them: None at first. $k$ is another number each time.
#
# Return a pair: the outputs of the new tokens, $(B, k, d)$, as the layer would give them for the whole sequence; and the new cache, which you
# get back with the next tokens. What it looks like is up to you. Several texts may be written in turn, by the same layer, each with
# its own cache. With one token no mask was needed. Why is one needed now?
#
# The check counts FLOPs: keys and values are computed once for each token. Not allowed: `F.scaled_dot_product_attention`, since its
# `is_causal` aligns the mask with the first key. Useful: `mt.cat`, `tril`.


# %% solution="cached_step"
def cached_step(layer, x, cache):
    """New tokens x (B, k, width) and a cache give their outputs (B, k, width) and the cache."""
    ### BEGIN SOLUTION
    query, key, value = (
        projected.unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (B, heads, k, size)
        for projected in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = mt.cat([cache[0], key], dim=2), mt.cat([cache[1], value], dim=2)
    k, n = x.shape[1], key.shape[2]
    allowed = mt.ones(k, n, dtype=mt.bool).tril(n - k)
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, k, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return layer.out((weights @ value).transpose(1, 2).flatten(2)), (key, value)
    ### END SOLUTION


# %% tests="cached_step" points=4
check.cached_step(cached_step)
### BEGIN HIDDEN TESTS
# One new token may see all that is there. Of k new tokens the first may not see the k - 1 others:
# row i of the mask allows the t keys of the cache and the new ones up to i.
check.cached_step(cached_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Train, and measure
#
# *Goal: train a translator yourself, choose its rate on other data, and look at the test once. Hard, 50 minutes, 5 points: 2 for the training,
# 3 for the measurement and what it says.*
#
# ### The training
#
# `model(source, target)` gives scores $(B, T, V)$ of the token after each target token, as [chapter 10](../../notebooks/10_transformer.ipynb)'s `Transformer`. `draw()` gives
# a new batch: source $(B, n)$ and target $(B, T + 1)$, each target from its start to its end; padding has the number 0. Train the model in place by
# teacher forcing: `steps` steps, a batch for each. Padding has no part in the loss, which is the plain mean over the real tokens. Return the list
# of the losses of all steps, as plain numbers, and leave the model as it is used, in evaluation mode.
#
# What else it needs is yours: the optimizer, clipping, how the rate rises and falls. `rate` is its largest value; at a rate of 0
# nothing changes. To try things out, `check.translator()` makes a small Transformer, `check.batch` is a `draw` of numbers in English and in
# German, and `check.share_right(model, "validation")` is the share of held-out numbers without a mistake. The check trains it for 200 steps.
#
# Everything is allowed.


# %% solution="train"
def train(model, draw, steps, rate):
    """Train a translator in place, on batches that draw() gives; the loss of each step."""
    ### BEGIN SOLUTION
    optimizer = optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0)
    model.train()
    losses = []
    for step in range(1, steps + 1):
        rise, fall = step / max(steps // 10, 1), 1.1 * (1 - (step - 1) / steps)
        optimizer.param_groups[0]["lr"] = rate * min(rise, fall, 1.0)
        source, target = draw()
        scores = model(source, target[:, :-1]).flatten(0, 1)  # (B T, V)
        loss = F.cross_entropy(scores, target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses
    ### END SOLUTION


# %% tests="train" points=2
check.train(train)
### BEGIN HIDDEN TESTS
check.train(train, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The measurement
#
# `run(rate, seed)` trains a model and gives it back: it is dear. `score(model, data)` is its share of right answers, `data` is
# `"validation"` or `"test"`. The lists `choosing` and `reporting` hold seeds, two or more to report; no seed is in both.
#
# 1. Try each of `rates` (two or more, each twice another one, in any order) with each seed in `choosing`; what counts is the mean share on
#    **validation** data.
# 2. While the best rate is the largest of those tried, try twice that; while it is the smallest, try half of it; until a worse one stands on either side. (No two are equally good.)
# 3. Train with the best rate and each seed in `reporting`, and score each of these models **once** on the test data, which nothing else has seen.
#
# Train nothing twice. Return a dict with `"rate"`, the list `"accuracies"` on test data in the order of `reporting`, their `"mean"` and their `"spread"`
# (`statistics.stdev`).
#
# The last line of the check lets your measurement measure your training: rates from 0.001 and 0.002 on, one seed to choose, three to
# report. At least 0.8 of the held-out numbers must be right. It takes about a quarter of a minute.


# %% solution="measure"
def measure(run, score, rates, choosing, reporting):
    """The rate chosen on validation data, and the accuracies on test data with other seeds."""
    ### BEGIN SOLUTION
    values, missing = {}, rates
    while missing:
        for rate in missing:
            models = [run(rate, seed) for seed in choosing]
            values[rate] = statistics.mean(score(model, "validation") for model in models)
        best = max(values, key=values.get)
        missing = {max(values): [2 * best], min(values): [best / 2]}.get(best)
    found = [score(run(best, seed), "test") for seed in reporting]
    return {
        "rate": best,
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }
    ### END SOLUTION


# %% tests="measure" points=3
check.measure(measure)
check.reached(train, measure)
### BEGIN HIDDEN TESTS
check.measure(measure, hidden=True)
### END HIDDEN TESTS
