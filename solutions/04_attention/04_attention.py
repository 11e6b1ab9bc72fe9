# %% [markdown]
# # Exercises 04: attention
#
# Ten exercises, 40 points, about five hours. The **core** (1, 2, 4) takes 70 minutes. They belong
# to [chapter 04](../../notebooks/04_attention.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 2, 8 and 10 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy on the way there.
#
# **Shapes.** The batch comes first: $B$ sentences, $n$ words of the source (keys), $T$ steps of the decoder (queries), $H$ or $d$ numbers of a
# vector. Scores and weights are $(B, T, n)$: row $t$ belongs to query $t$, column $j$ to word $j$. `padding` $(B, n)$ is True **at the padding**. The
# memory $M$ holds the encoder's states, $o$ is the attention output.

# %%
import math

import minitorch as mt
from minitorch import nn
from minitorch.flops import count_flops
from textbook.checks import chapter_04 as check
from textbook.checks import progress

progress.show("04")

# %% [markdown]
# ## 1. Each point left out
#
# *Core · easy · 20 minutes · 3 points*
#
# Kernel regression guesses a value by a weighted mean of the measured ones, with the scores $e_j = -\lVert q - k_j \rVert^2 / (2\sigma^2)$. Which
# width $\sigma$ is good? Guess each measured value from **all others**. Return the mean squared error of these guesses, one number.
#
# ```pycon
# >>> leave_one_out(mt.tensor([[0.0], [1.0]]), mt.tensor([5.0, 7.0]), width=1.0)  # each guesses the other: an error of 2
# tensor(4.)
# ```
#
# - `keys` is $(n, d)$, `values` $(n)$, `width` is $\sigma$, and $n \ge 2$.
# - A width may be so small that every exponential of a score is 0.
#
# The cell of the check tries five widths. What would the best one be if a point took part in its own guess?
#
# <details><summary>First hint</summary>
#
# All points are queries and keys at once: a matrix of $n \times n$ distances.
#
# </details>
# <details><summary>Second hint</summary>
#
# A score of $-\infty$ on the diagonal leaves a point out. `softmax` subtracts the largest score first.
#
# </details>


# %% solution="leave_one_out"

# %% tests="leave_one_out" points=3
check.leave_one_out(leave_one_out)
mt.manual_seed(0)
k = 6 * mt.rand(40)
v = k.sin() + 0.3 * mt.randn(40)
for width in (3.0, 1.0, 0.3, 0.1, 0.03):
    print(f"width {width:4}: {float(leave_one_out(k.unsqueeze(1), v, width)):.3f}")
### BEGIN HIDDEN TESTS
# The smallest: each point would find itself, with an error of 0, and nothing would have been learned of the places between.
check.leave_one_out(leave_one_out, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. With padding, and with nothing to look at
#
# *Core · easy · 25 minutes · 4 points*
#
# Write dot-product attention (not scaled) that survives any batch. Return outputs $(B, T, d_v)$ and weights $(B, T, n)$.
#
# ```pycon
# >>> keys = mt.tensor([[[1.0], [math.nan]], [[math.inf], [2.0]]])
# >>> outputs, weights = attend(mt.ones(2, 1, 1), keys, keys, mt.tensor([[False, True], [True, True]]))
# >>> weights.squeeze(1), outputs.flatten()
# (tensor([[1., 0.],
#         [0., 0.]]), tensor([1., 0.]))
# ```
#
# - `queries` is $(B, T, d)$, `keys` $(B, n, d)$, `values` $(B, n, d_v)$, `padding` $(B, n)$. Scores may be hundreds, of either sign.
# - A padded word has the weight exactly 0; the weights of a query add up to 1.
# - A source may be **empty**, all padding. Then weights and outputs are 0.
# - The padding of keys and values may hold **anything**, infinite or NaN. It changes nothing, and its gradient is exactly 0.
#
# *Not allowed*: `F.scaled_dot_product_attention`. *Useful*: `masked_fill`, `softmax`.
#
# Why is a weight of 0 not enough if the value is infinite?
#
# <details><summary>First hint</summary>
#
# What must not count is replaced, not weighted: in keys, values and scores.
#
# </details>
# <details><summary>Second hint</summary>
#
# A softmax over nothing but $-\infty$ is not a number. Let an empty source have finite scores, and put the weights to 0 afterwards.
#
# </details>


# %% solution="attend"

# %% tests="attend" points=4
check.attend(attend)
### BEGIN HIDDEN TESTS
# 0 times infinity is not a number, and so is every sum in which it stands. What must not count has to be replaced, not weighted.
check.attend(attend, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then count
#
# *Practice · easy · 25 minutes · 3 points*
#
# What does a score function cost? $T$ queries meet $n$ keys, all of $d$ numbers; $r$ is the rank. Return a dict with the FLOPs of
# all scores. Count the products of matrices; a multiplication with its addition is two FLOPs.
#
# - `"dot product"`: $s^\top h$;
# - `"multiplicative"`: $s^\top W h$, with $W$ applied to the side that makes it cheaper;
# - `"reduced rank"`: $(U s)^\top (V h)$, each side projected to $r$ numbers first;
# - `"additive"`: $w^\top \tanh(W_1 h + W_2 s)$ with $r$ hidden units, each side projected once;
# - `"largest rank"`: the largest $r$ with which reduced rank costs no more than the dot product; 0 if there is none.
#
# ```pycon
# >>> score_costs(T=1, n=3, d=4, r=1)
# {'dot product': 24, 'multiplicative': 56, 'reduced rank': 38, 'additive': 38, 'largest rank': 0}
# ```
#
# All are whole numbers, and may be large. Two costs are equal: are they equally fast?
#
# <details><summary>First hint</summary>
#
# A product of $(a, b)$ and $(b, c)$ takes $2abc$ FLOPs.
#
# </details>
# <details><summary>Second hint</summary>
#
# For the largest rank, write the inequality and solve it for $r$ in whole numbers, with `//`.
#
# </details>


# %% solution="score_costs"

# %% tests="score_costs" points=3
check.score_costs(score_costs)
T, n, d, r = 6, 12, 64, 4
S, M = mt.zeros(T, d), mt.zeros(n, d)
W, U, V, w = mt.zeros(d, d), mt.zeros(r, d), mt.zeros(r, d), mt.zeros(r)
counted = {
    "dot product": lambda: S @ M.T,
    "multiplicative": lambda: (S @ W) @ M.T,
    "reduced rank": lambda: (S @ U.T) @ (M @ V.T).T,
    "additive": lambda: ((M @ U.T) + (S @ V.T).unsqueeze(1)).tanh() @ w,
}
for name, scored in counted.items():
    with count_flops() as counter:
        scored()
    print(f"{name:15} predicted {score_costs(T, n, d, r)[name]:7,}  counted {counter.total:7,}")
### BEGIN HIDDEN TESTS
# Reduced rank and additive. The additive one also makes r numbers for every pair, adds and puts each through a tanh: T n r numbers in
# memory, where the other has (T + n) r. FLOPs of products are not the time.
check.score_costs(score_costs, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A table that finds pairs
#
# *Core · medium · 25 minutes · 4 points*
#
# How long must a query be to find two values, and no third? Build a table with $n \ge 3$ entries: return `keys` $(n, d)$ and `queries` $(n, d)$, of
# any size $d$, such that with the weights `(queries @ keys.T).softmax(dim=-1)`
#
# - query $i$ puts the weight $(1 -$ `error`$)/2$ on key $i$, and as much on key $i + 1$ (the last one on key 0);
# - every other key gets `error` $/ (n - 2)$.
#
# ```pycon
# >>> keys, queries = pair_table(4, 0.1)
# >>> (queries @ keys.T).softmax(dim=-1)[3]
# tensor([0.4500, 0.0500, 0.0500, 0.4500])
# ```
#
# The check draws `error` from $10^{-6}$ to 0.9.
#
# <details><summary>First hint</summary>
#
# Begin with orthonormal keys, such as `mt.eye(n)`. With which query are two scores equal and all others 0?
#
# </details>
# <details><summary>Second hint</summary>
#
# With scores of $a$ at two keys and 0 elsewhere, $e^a$ is the ratio of two weights. Solve for $a$.
#
# </details>


# %% solution="pair_table"

# %% tests="pair_table" points=4
check.pair_table(pair_table)
### BEGIN HIDDEN TESTS
# The sum of two keys. Its scores are 1 at both and 0 elsewhere.
check.pair_table(pair_table, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A claim at ten times its budget
#
# *Practice · medium · 35 minutes · 4 points*
#
# "It cannot learn this" may mean: not yet. `learn(name, steps, rate, seed)` trains once, and returns the share that is right.
#
# ```pycon
# >>> def learn(name, steps, rate, seed):  # made up
# ...     return steps / (steps + {"fast": 5, "slow": 50}[name])
# >>> ten_times(learn, ["fast", "slow"], rates=[0.01], steps=60)  # slow: 0.55, then 0.92
# {'fast': 'at once', 'slow': 'later'}
# ```
#
# Return a dict with a verdict for each of `names`: `"at once"` if learned after `steps` steps; else `"later"` if after `10 * steps`; else
# `"not yet"`. *Learned* means, at each budget by itself:
#
# - of `rates` choose the one with the largest share with seed 0 (none tie);
# - with this rate seeds 1 to 5 each get 0.9 or more.
#
# Three readers say which animal came last in a story. One will **never** know: which, and why can no run show that?
#
# <details><summary>First hint</summary>
#
# Write a function of a name and a budget that returns True or False.
#
# </details>
# <details><summary>Second hint</summary>
#
# `max(rates, key=lambda rate: learn(name, budget, rate, 0))`.
#
# </details>


# %% solution="ten_times"

# %% tests="ten_times" points=4
check.ten_times(ten_times)
readers = ["a query", "mean of the states", "mean of the words"]
for reader, verdict in ten_times(check.came_last, readers, rates=[0.01, 0.03], steps=60).items():
    print(f"{reader:18} {verdict}")
### BEGIN HIDDEN TESTS
# The mean of the words: it is the same in any order. Runs show budgets that were not enough, never that none would be. That takes a proof,
# and here it is a line. (The states of an RNN have read the story up to their word: their mean does depend on the order.)
check.ten_times(ten_times, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What does the table say?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Translators with different scores have several seeds each (made-up numbers). `"steps to 90 %"` has the steps of each seed;
# None, if it needs more than `"steps run"`. `"chosen on"` names the data that chose the rate.

# %%
for row in check.scores:
    about = f"H = {row['width']:3}, chosen on {row['chosen on']:13}, {row['steps run']:3} steps"
    print(f"{row['score']:19} {about}: {row['steps to 90 %']}")

# %% [markdown]
# Return all pairs `(faster, slower)` of scores for which
#
# - `"width"` and `"tested on"` are the same;
# - neither was chosen on what it was tested on;
# - both have five seeds or more;
# - **every** seed of the faster is known to have needed fewer steps than **every** seed of the slower.
#
# ```pycon
# >>> row = {"width": 64, "tested on": "new", "chosen on": "old", "steps run": 200}
# >>> a = row | {"score": "A", "steps to 90 %": [90, 90, 80, 80, 199]}
# >>> learns_faster([a, row | {"score": "B", "steps to 90 %": [None] * 5}])
# [('A', 'B')]
# ```
#
# "additive" has the lowest numbers with width 64: is it faster than "multiplicative"? Which row of "mean" tells more?
#
# <details><summary>First hint</summary>
#
# What does a None tell of a row that might be faster? Of one that might be slower?
#
# </details>
# <details><summary>Second hint</summary>
#
# A row with a None is never shown to be faster. As the slower one, its None counts as `steps run` + 1.
#
# </details>


# %% solution="learns_faster"

# %% tests="learns_faster" points=4
check.learns_faster(learns_faster)
for faster, slower in learns_faster(check.scores):
    print(f"{faster} is faster than {slower}")
### BEGIN HIDDEN TESTS
# No: its learning rate was chosen by the very numbers that are reported, so its numbers are too good. The longer row of "mean" tells
# more: that 120 steps are not enough shows it to be slower than all whose slowest seed needs fewer. After 60 steps the dot product has not arrived either with most
# seeds.
check.learns_faster(learns_faster, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these is broken?
#
# *Practice · medium · 35 minutes · 4 points*
#
# `outputs, weights = attend(queries, memory, padding)` uses its own score. Queries and outputs are $(B, T, d)$, weights $(B, T, n)$; the memory
# $(B, n, d)$ is keys and values, `padding` $(B, n)$ at the ends; no sentence is empty. It is right if
#
# 1. a query's weights are $\ge 0$, **exactly** 0 at the padding, and add up to 1; its output is the memory's weighted sum;
# 2. both depend on this query and its sentence's words alone, not on padding;
# 3. if words change places, their weights follow;
# 4. arguments stay unchanged.
#
# Test them; return the numbers of the broken ones, from 0. Of these nine, five are:
#
# ```pycon
# >>> len(broken_attentions(check.programs()))
# 5
# ```
#
# Draw float64 inputs: below $10^{-9}$ is rounding.

# %%
nine = check.programs()

# %% [markdown]
# <details><summary>First hint</summary>
#
# Make a batch with several sentences, queries and lengths. Then ask each query alone, of its own words.
#
# </details>
# <details><summary>Second hint</summary>
#
# Ask it of the words in the opposite order, without padding: that tests rules 2 and 3 at once. `mt.allclose(a, b, rtol=0, atol=1e-9)` compares.
#
# </details>


# %% solution="broken_attentions"

# %% tests="broken_attentions" points=4
check.broken_attentions(broken_attentions)
print("broken:", broken_attentions(nine))
### BEGIN HIDDEN TESTS
check.broken_attentions(broken_attentions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Pooling by learned queries
#
# *Challenge · hard · 45 minutes · 5 points: 4 for the module, 1 for what is reached*
#
# ### The module
#
# One learned query finds content, not order. Let there be one or more queries $q_m$, the rows of `self.query` (queries, $H$). For each a number $b_m$ in
# `self.late` says how much it prefers late words. For a sentence with states $h_0, \dots, h_{n-1}$,
#
# $$e_{mj} = q_m^\top h_j + b_m\, j, \qquad \alpha_m = \operatorname{softmax}(e_{m0}, \dots, e_{m,n-1}), \qquad o_m = \sum_j \alpha_{mj}\, h_j .$$
#
# ```pycon
# >>> pool = Queries(hidden=1, queries=1)  # q = 0, b = 0: a mean
# >>> pool(mt.tensor([[[2.0], [4.0], [math.nan]]]), mt.tensor([[False, False, True]])).tolist()
# [[3.0]]
# ```
#
# - `states` is $(B, n, H)$, `padding` $(B, n)$ at the ends; each sentence has a word at least.
# - Return what the queries find, one after the other: $(B, \text{queries} \cdot H)$. Keep `__init__` as it is.
# - The padding may hold **anything**. It changes nothing, and its gradient is exactly 0.
#
# <details><summary>First hint</summary>
#
# All scores at once: $(B, n, H)$ times $(H, \text{queries})$, plus places times `late`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The softmax runs over the words, which is axis 1 then. Replace the padding's states by 0 first.
#
# </details>


# %% solution="Queries" given="__init__"

# %% tests="Queries" points=4
check.Queries(Queries)
### BEGIN HIDDEN TESTS
check.Queries(Queries, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# The stories are [chapter 03](../../notebooks/03_seq2seq.ipynb)'s: which animal is named `"anywhere"`, or, of five, `"which came last"`?
# `check.trained(Queries, queries, rate, steps, question, seed)` trains a plain RNN with your pooling;
# `check.share_right(model, question)` measures it on new stories. Return a dict with `"queries"` (1 to 8), `"rate"` (below 1) and `"steps"` (at most
# 400): one choice for both questions. With **each** of the seeds 11 to 13, 85 % have to be right. Try with others.


# %% solution="reading_plan"
def reading_plan():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"queries": 1, "rate": 0.03, "steps": 300}
    ### END SOLUTION


# %% tests="reading_plan" points=1
check.reached(Queries, reading_plan)
### BEGIN HIDDEN TESTS
check.Queries(Queries, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The gradient by hand
#
# *Challenge · hard · 30 minutes · 4 points*
#
# Send a gradient back through attention, on both ways, without the engine. With states $S$ $(B, T, d)$ and a memory $M$ $(B, n, d)$ that is both keys
# and values,
#
# $$A = \operatorname{softmax}(S M^\top), \qquad O = A M .$$
#
# Given `grad_outputs` $(B, T, d)$, the gradient of the loss with respect to $O$, return those with respect to the **states** $(B, T, d)$ and to the
# **memory** $(B, n, d)$.
#
# ```pycon
# >>> memory = mt.tensor([[[1.0], [-1.0]]])
# >>> attention_gradient(mt.zeros(1, 1, 1), memory, mt.ones(1, 1, 1))  # with s = 0 both weights are 1/2
# (tensor([[[1.]]]), tensor([[[0.5000],
#          [0.5000]]]))
# ```
#
# *Not allowed*: the engine's `backward()` and `autograd.grad`.
#
# <details><summary>First hint</summary>
#
# Go back step by step: outputs, weights, scores. The memory is read twice, so its gradient has two parts.
#
# </details>
# <details><summary>Second hint</summary>
#
# For one row $\alpha$ of weights $\partial \alpha_k / \partial e_j = \alpha_k\,(\mathbb 1[k = j] - \alpha_j)$: subtract the weighted mean of the gradient,
# then multiply by the weights.
#
# </details>


# %% solution="attention_gradient"

# %% tests="attention_gradient" points=4
check.attention_gradient(attention_gradient)
### BEGIN HIDDEN TESTS
check.attention_gradient(attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Look, then step
#
# *Challenge · hard · 40 minutes · 5 points*
#
# Write `forward` of the decoder of Bahdanau et al. It looks before it steps: the **old** state asks; cell and output read what it has found.
# With $x_t$ the embedding of the token that is read,
#
# $$e_{tj} = w^\top \tanh(W_1 h_j + W_2 s_{t-1}), \qquad o_t = \sum_j \alpha_{tj} h_j,$$
#
# $$s_t = \mathrm{cell}([x_t; o_t],\, s_{t-1}), \qquad \text{scores}_t = \text{out}([s_t; o_t; x_t]),$$
#
# where $\alpha_t$ is the softmax of $e_t$ over the words, without the padding.
#
# - `inputs` $(B, T)$ are the tokens, `memory` $(B, n, H_e)$ the encoder's states, `padding` $(B, n)$, and `state` $(B, H)$ is $s_0$.
# - Return the scores of all steps, $(B, T, V)$. Keep `__init__` as it is.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# $W_1 h_j$ does not change from step to step: compute it once.
#
# </details>
# <details><summary>Second hint</summary>
#
# `self.embedding(inputs).unbind(1)` gives the steps one by one; `stack` their scores along axis 1.
#
# </details>


# %% solution="AttentionDecoder" given="__init__"

# %% tests="AttentionDecoder" points=5
check.AttentionDecoder(AttentionDecoder)
### BEGIN HIDDEN TESTS
check.AttentionDecoder(AttentionDecoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# The parts of chapter 04's translator are yours. [Chapter 05](../../notebooks/05_self_attention.ipynb) takes the loop away.
