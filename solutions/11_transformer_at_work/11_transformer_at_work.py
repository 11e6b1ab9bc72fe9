# %% [markdown]
# # Exercises 11: the Transformer at work
#
# Ten exercises, 40 points, about five hours. The **core** (1, 2, 4, 6) takes 95 minutes.
# They belong to [chapter 11](../../notebooks/11_transformer_at_work.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 2 and 3 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy.
#
# **Shapes.** $B$ sequences, $n$ tokens of the source, $T$ of the target, $d$ the width, $h$ heads, $V$ tokens in the vocabulary. Masks are True where a query may look. Padding stands at the end.

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

progress.show("11")

# %% [markdown]
# ## 1. Up, level, down
#
# *Core · easy · 15 minutes · 2 points*
#
# Give an optimizer its learning rates.
#
# ```pycon
# >>> optimizer = optim.SGD([{"params": [mt.zeros(1)], "peak": 0.8}], lr=1.0)
# >>> for step in (1, 4, 9, 10):
# ...     set_rates(optimizer, step, warm=4, hold=6, steps=10)
# ...     print(round(optimizer.param_groups[0]["lr"], 3))
# 0.2
# 0.8
# 0.107
# 0.0
# ```
#
# At step $t$, counted from 1, set `"lr"` of each dict in `optimizer.param_groups` to its `"peak"` times
#
# $$\begin{cases} t / w & \text{for } t < w, \\ 1 & \text{for } w \le t \le k, \\ 1 - \sqrt{(t - k) / (s - k)} & \text{for } k < t \le s. \end{cases}$$
#
# `step` is $t$, `warm` $w$, `hold` $k$, `steps` $s$, with $0 \le w \le k \le s$. Return nothing, and take no step.
#
# What is a plateau good for?
#
# <details><summary>First hint</summary>
#
# Does the order of the three cases avoid divisions by 0?
#
# </details>
# <details><summary>Second hint</summary>
#
# Compute the share once, then loop over the groups.
#
# </details>


# %% solution="set_rates"

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
# *Core · medium · 25 minutes · 4 points*
#
# Ask a model not to be too sure, and never for padding. The chapter spreads $\epsilon$ over all $V$ tokens; here
#
# $$q_v = \begin{cases} 1 - \epsilon & v \text{ is the right token}, \\ 0 & v \text{ is padding}, \\ \epsilon / (V - 2) & \text{else.} \end{cases}$$
#
# ```pycon
# >>> scores, targets = mt.zeros(1, 2, 4), mt.tensor([[2, 0]])  # equal chances: any q that sums to 1 gives log 4
# >>> smoothed_loss(scores, targets, smoothing=0.1, padding=0) / math.log(4)
# tensor(1.)
# ```
#
# With $p = \operatorname{softmax}(\text{scores})$ the loss of a position is $-\sum_v q_v \log p_v$. Return the mean over the positions whose target is no padding.
#
# - `scores` is $(B, T, V)$ with $V \ge 4$, `targets` $(B, T)$, `smoothing` is $\epsilon$, from 0 to 1.
# - Scores may be in the hundreds. The score of padding may be $-\infty$ everywhere.
# - At padded positions scores may be NaN; their gradient is 0.
#
# *Not allowed*: `F.cross_entropy` and `nn.CrossEntropyLoss` (the operation `cross_entropy`).
#
# <details><summary>First hint</summary>
#
# Take the real positions out first. What is $0 \cdot \infty$?
#
# </details>
# <details><summary>Second hint</summary>
#
# Leave the column of padding out. $\epsilon / (V - 2)$ multiplies the sum over the others, less the right token's.
#
# </details>


# %% solution="smoothed_loss"

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
# *Practice · medium · 20 minutes · 4 points*
#
# Two small matrices can stand for a large table $(V, d)$ (Lan et al., 2020): `self.table`, $E$ $(V, e)$, and `self.up`, $U$ $(e, d)$.
#
# ```pycon
# >>> tied = TiedEmbedding(vocabulary=5, inner=2, width=4)
# >>> tied(mt.tensor([[0, 3, 3]])).shape, tied.scores(mt.zeros(1, 3, 4)).shape
# (minitorch.Size([1, 3, 4]), minitorch.Size([1, 3, 5]))
# ```
#
# - `forward(tokens)`: tokens $(B, n)$ become their rows of $E$, widened by $U$, times $\sqrt d$: $(B, n, d)$.
# - `scores(x)`: $x$ $(B, T, d)$ is narrowed by $U^\top$ and compared with all rows of $E$; `self.bias` $(V)$ is added: $(B, T, V)$.
# - Look rows up, and never make $E U$: the check counts FLOPs.
#
# Keep `__init__`, and no copies of weights. How many weights are saved for $V = 37{,}000$, $d = 512$, $e = 64$?
#
# <details><summary>First hint</summary>
#
# `self.table[tokens]` looks rows up.
#
# </details>
# <details><summary>Second hint</summary>
#
# In `scores`, narrow first.
#
# </details>


# %% solution="TiedEmbedding" given="__init__"

# %% tests="TiedEmbedding" points=4
check.TiedEmbedding(TiedEmbedding)
### BEGIN HIDDEN TESTS
# 37,000 * 512 = 18,944,000 weights become 37,000 * 64 + 64 * 512 = 2,400,768 (and V biases).
check.TiedEmbedding(TiedEmbedding, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. One merge
#
# *Core · medium · 30 minutes · 4 points*
#
# Do one step of byte-pair encoding.
#
# ```pycon
# >>> merge_once({("a", "a", "a"): 2, ("a", "b"): 1})
# (('a', 'a'), {('aa', 'a'): 2, ('a', 'b'): 1})
# ```
#
# `corpus` is a dict from words, tuples of pieces, to how often they occur. Merge the pair of neighbours that **can be
# merged most often**, from the left. Return the pair and the new corpus.
#
# - A pair counts as often as its word occurs; overlaps count once: `a a a` becomes `aa a`.
# - Of equally frequent pairs take the smallest tuple: `("a", "bc")` before `("ab", "c")`.
# - Add the counts of words that have become equal.
# - If all words are single pieces, return `None` and a copy of the corpus.
#
# *Useful*: `Counter`, `pairwise`. Why must a rule settle a tie?
#
# <details><summary>First hint</summary>
#
# First write `joined(word, pair)`: it walks from the left, by one piece or two.
#
# </details>
# <details><summary>Second hint</summary>
#
# A pair can be merged as often as `joined` makes the word shorter.
#
# </details>


# %% solution="merge_once"

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
# *Practice · medium · 35 minutes · 5 points*
#
# Translate a batch greedily. `model.encode(source, real)` makes of tokens $(B, n)$ a memory $(B, n, d)$;
# `model.decode(tokens, memory, real)` makes of all target tokens so far, `start` first, scores $(B, T, V)$ for the token after each. The mask `real` $(B, 1, 1, n)$ is False at padding.
#
# - A row gets the likeliest token, never `start` or `padding`, until that is `end`, at most `longest` tokens.
# - **A row that has ended is not computed any more**: `decode` gets the other rows alone, and is not called without any.
# - Return $(B, T)$, as wide as the longest translation: each row without `start`, with its `end`, then `padding`.
#
# Why may a row be left out?
#
# <details><summary>First hint</summary>
#
# Keep the numbers of rows not ended, `writing`. `said[writing]` are their tokens.
#
# </details>
# <details><summary>Second hint</summary>
#
# Each step adds a column of padding, in which the rows in `writing` get a token. Those that said `end` leave it.
#
# </details>


# %% solution="translate"

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
# *Core · medium · 25 minutes · 4 points*
#
# Cut the tail off a distribution, exactly.
#
# ```pycon
# >>> scores = mt.tensor([[3.0, 5.0, 2.0]]).log()
# >>> likely_tokens(scores, mt.tensor([0.8]), temperature=1.0)  # 0.5 + 0.3
# tensor([[0.3750, 0.6250, 0.0000]])
# ```
#
# Of each row keep **the smallest set** of tokens, the likeliest, whose probabilities add up to the row's share or more, one at least. Return the
# probabilities to draw from, $(B, V)$: 0 outside it.
#
# - `scores` is $(B, V)$; `temperature`, above 0, divides them; `share` $(B)$ is from 0 to 1.
# - Of equally likely tokens the one with the smaller number comes first.
# - Scores may be in the hundreds, and some of a row, not all, $-\infty$.
#
# *Useful*: `argsort(stable=True)`, `gather`, `scatter`. For which share is this greedy decoding?
#
# <details><summary>First hint</summary>
#
# Sort each row. A token stays if those before it have less than the share together.
#
# </details>
# <details><summary>Second hint</summary>
#
# Sort $-p$ with `stable=True`. `scatter` brings what is kept back to its place.
#
# </details>


# %% solution="likely_tokens"

# %% tests="likely_tokens" points=4
check.likely_tokens(likely_tokens)
### BEGIN HIDDEN TESTS
# For a share of 0, or of anything that the likeliest token has alone: one token stays.
check.likely_tokens(likely_tokens, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. What padding costs
#
# *Practice · medium · 30 minutes · 4 points*
#
# What does padding cost?
#
# ```pycon
# >>> found = pass_flops(5, 2, 3, encoder_layers=1, decoder_layers=1, pairs=[(1, 2), (2, 1)], batch=2)
# >>> found["FLOPs"] > found["without padding"]
# True
# ```
#
# [Chapter 10](../../notebooks/10_transformer.ipynb)'s `Transformer` is trained for a pass over `pairs`, a list of lengths $(n, T)$: tokens of the source,
# and those that the decoder reads. Return a dict of integers: `"FLOPs"`, and `"without padding"`, each pair a batch of its own.
#
# - A batch is `batch` pairs as they come; the last may be smaller. All are padded to its longest source and target.
# - Count products, forward and backward, a multiplication with its addition as 2: with all weights, and scores and mixing in three attentions, whatever the masks say.
#
# What does sorting by length save?
#
# <details><summary>First hint</summary>
#
# First the cost of one pair $(n, T)$. How many tokens give the cross-attention's keys and values?
#
# </details>
# <details><summary>Second hint</summary>
#
# Backward costs twice forward. A batch costs its number of pairs times that of (longest source, longest target).
#
# </details>


# %% solution="pass_flops"

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
# ## 8. What went wrong in these trainings?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Seven trainings of a translator, meant to take 240 steps (made up). On new text no honest model has a loss below 0.8 (dotted).

# %%
figure, axes = plot.subplots(2, 7, width=11, height=3, sharex=True)
for column, (name, run) in enumerate(check.trainings.items()):
    top, below = axes[0][column], axes[1][column]
    top.plot(run["step"], run["training"], label="training")
    top.plot(run["step"], run["validation"], label="validation")
    top.axhline(0.8, linestyle=":", color="gray")
    top.set(title=name, ylim=(0, 5))
    below.plot(run["step"], run["norm"], color="C2")
    below.set(yscale="log", ylim=(0.05, 200), xlabel="step")
axes[0][0].set(ylabel="loss")
axes[1][0].set(ylabel="norm of the gradient")
axes[0][0].legend()
plot.show(figure, alt="Losses, and the norm of the gradient, of seven trainings against the step")

# %% [markdown]
# Return a dict from each letter to a pair: one of these faults, and the first step at which it **shows**, to within 10.
#
# - `"the rate is too high"`: the loss jumps up and stays there;
# - `"an odd batch"`: it jumps up and comes back;
# - `"gradients pile up"`: nobody sets them to zero;
# - `"learns by heart"`: the step to stop at;
# - `"sees the answers"`;
# - `"the rate ends too early"`: then nothing is learned;
# - `"nothing"`, with None for the step.
#
# `check.trainings` has the numbers. What would you change first?
#
# <details><summary>First hint</summary>
#
# Read both losses together, then the norm of the gradient.
#
# </details>
# <details><summary>Second hint</summary>
#
# At a rate of 0 both losses stay level, noise aside, though the gradient is not small.
#
# </details>


# %% solution="diagnosed"

# %% tests="diagnosed" points=4
check.diagnosed(diagnosed)
### BEGIN HIDDEN TESTS
# A: a schedule as long as the training. B: stop at step 100, or find more data. C: clip the gradient. D: leave it. E: a smaller
# rate, or a warm-up. F: look at the mask; the validation loss lies too, since the model cheats there as well. G: zero_grad.
check.diagnosed(diagnosed, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Some more tokens
#
# *Challenge · hard · 35 minutes · 4 points*
#
# Read a prompt at once, then write on. `layer` is a causal self-attention with `layer.query`, `layer.key`, `layer.value`, `layer.out` (`nn.Linear` without bias) and `layer.heads`:
# blocks of $d/h$ columns, scores divided by $\sqrt{d/h}$. You get `x` $(B, k, d)$, the $k$ **newest tokens**, and `cache`, None at first.
#
# - Return the new tokens' outputs, as the layer gives them for the whole sequence, and a new cache, which comes back next time.
# - You design the cache. Keep nothing outside it: texts may be written in turn.
# - $k$ changes. Keys and values are computed once for each token: the check counts FLOPs.
#
# Why is a mask needed now?
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Project the new tokens only; `mt.cat` joins keys and values to those of the cache.
#
# </details>
# <details><summary>Second hint</summary>
#
# Of $n$ keys in all, query $i$ of the $k$ new ones sees those up to $n - k + i$: `tril(n - k)`.
#
# </details>


# %% solution="cached_step"

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
# *Challenge · hard · 50 minutes · 5 points: training 2, measurement 3*
#
# ### The training
#
# Train a translator. `model(source, target)` gives scores $(B, T, V)$ of the token after each target token; `draw()` draws source $(B, n)$ and target $(B, T + 1)$, start and end included, padded with 0.
#
# - Train in place, by teacher forcing, in `train()`, on `steps` batches. Leave the model in `eval()`.
# - The loss is the plain mean over real tokens. Return the losses, plain numbers.
# - `rate` is the largest learning rate.
#
# *Try* `check.translator()`, `check.batch`, `check.share_right(model, "validation")`.
#
# <details><summary>First hint</summary>
#
# What does the model read of a target, and what is it asked? `ignore_index=0`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Adam, a rate that rises over the first tenth and falls to 0, the gradient clipped at 1.
#
# </details>


# %% solution="train"

# %% tests="train" points=2
check.train(train)
### BEGIN HIDDEN TESTS
check.train(train, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The measurement
#
# `run(rate, seed)` returns a trained model, `score(model, data)` its share right on `"validation"` or `"test"` data.
#
# 1. Try all `rates` with all seeds in `choosing`: the rate with the best mean on **validation** data wins.
# 2. While the winner is the largest tried, try twice that; while it is the smallest, half of it.
# 3. Train with the winner and all seeds in `reporting`; score each model **once**, on test data.
#
# Train nothing twice. Return a dict: `"rate"`, the list `"accuracies"` on test data, their `"mean"` and `"spread"` (`statistics.stdev`).
#
# Your training must reach a mean of 0.8 in 200 steps, from the rates 0.001 and 0.002.


# %% solution="measure"

# %% tests="measure" points=3
check.measure(measure)
check.reached(train, measure)
### BEGIN HIDDEN TESTS
check.measure(measure, hidden=True)
### END HIDDEN TESTS
