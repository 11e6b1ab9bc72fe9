# %% [markdown]
# # Exercises 06: multi-head attention
#
# Ten exercises, 40 points, about five hours. The **core** (1, 3, 4, 8) takes 100 minutes.
# They belong to [chapter 06](../../notebooks/06_multi_head_attention.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 1, 3, 5, 6 and 9 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy on the way there.
#
# **Shapes.** The $B$ sequences come first. $T$ positions ask, $n$ are looked at; where no $T$ stands, the same $n$ do both. A token's vector has $d$ numbers.
# There are $h$ heads, `heads` in code. Head $l$, counted from 0, has the columns $l\,d/h$ to $(l+1)\,d/h - 1$.

# %%
import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook.chapter_06 import MultiHeadAttention
from textbook.checks import chapter_06 as check
from textbook.checks import progress

progress.show("06")

# %% [markdown]
# ## 1. Out of one product
#
# *Core · easy · 15 minutes · 3 points*
#
# Queries, keys and values are often made by one large product `P`, $(B, n, 3d)$. Some models (GPT-NeoX, BLOOM) keep it head by head. The first
# $3d/h$ columns belong to head 0: query, key, value, $d/h$ each. Then comes head 1. Return query, key and value, each
# $(B, h, n, d/h)$.
#
# ```pycon
# >>> query, key, value = split_fused(mt.arange(6).reshape(1, 1, 6), heads=2)
# >>> query.flatten(), key.flatten(), value.flatten()
# (tensor([0, 3]), tensor([1, 4]), tensor([2, 5]))
# ```
#
# <details><summary>First hint</summary>
#
# Give the $3d$ columns three axes. In which order?
#
# </details>
# <details><summary>Second hint</summary>
#
# `P.unflatten(-1, (heads, 3, -1))`. Then move the axis of heads before that of positions; `reshape` cannot do that.
#
# </details>


# %% solution="split_fused"

# %% tests="split_fused" points=3
check.split_fused(split_fused)
### BEGIN HIDDEN TESTS
# The key of head 1 is [[4], [10]]: columns 3 to 5 are those of head 1, its query, its key, its value.
check.split_fused(split_fused, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Predict, then count
#
# *Practice · easy · 25 minutes · 3 points*
#
# A multi-head attention of width $d$ has $T$ positions that ask and $n$ that are looked
# at. Its queries have $h$ = `heads` heads. Keys and values have only `groups` heads, each of size $d/h$: $h$ / `groups` query heads share one.
# It has four projections without biases: queries and output $(d, d)$, keys and values smaller. Return a dict of integers:
#
# - `"weights"`: all of them;
# - `"FLOPs"` of all matrix products, forward, $2akb$ for $(a, k)$ times $(k, b)$;
# - `"scores"`, in all heads;
# - `"kept"`: the numbers to keep of the $n$ positions, so that later queries can look at them.
#
# ```pycon
# >>> attention_cost(T=1, n=2, d=4, heads=2, groups=1)
# {'weights': 48, 'FLOPs': 160, 'scores': 4, 'kept': 8}
# ```
#
# Which of the four depend on $h$ if `groups` $= h$, and which fall with `groups`?
#
# <details><summary>First hint</summary>
#
# How many columns have all keys together? Then write each product with its two shapes.
#
# </details>
# <details><summary>Second hint</summary>
#
# Keys and values are made of $n$ positions, queries and output of $T$.
#
# </details>


# %% solution="attention_cost"

# %% tests="attention_cost" points=3
check.attention_cost(attention_cost)
x, memory = mt.randn(1, 5, 24), mt.randn(1, 9, 24)
for heads in (1, 4, 8):
    layer, predicted = MultiHeadAttention(24, heads), attention_cost(5, 9, 24, heads, heads)
    with count_flops() as counter:
        outputs, weights = layer.look(x, memory)
        layer.out(outputs.transpose(1, 2).flatten(2))
    counts = {"FLOPs": counter.total, "scores": weights.numel()}
    print(f"{heads} heads: predicted {predicted}, counted {counts}")
for groups in (8, 2, 1):
    print(f"8 heads, {groups} groups: {attention_cost(5, 9, 24, 8, groups)}")
### BEGIN HIDDEN TESTS
# With groups = heads the scores alone depend on the number of heads. With fewer groups there are fewer
# weights, fewer FLOPs of projections, and less to keep, in proportion to groups; the products inside
# the heads and the scores stay as they are.
check.attention_cost(attention_cost, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. One head after the other
#
# *Core · medium · 20 minutes · 4 points*
#
# Write multi-head self-attention as its definition says it; nothing says that all heads have the same size. Each head is a scaled dot-product
# attention of its own,
#
# $$\text{head}_l = \operatorname{softmax}\!\left(\frac{(X Q_l)(X K_l)^\top}{\sqrt{s_l}}\right) X V_l \qquad (n, v_l),$$
#
# and the result is $[\text{head}_0; \dots; \text{head}_{h-1}]\, W_O$, $(B, n, m)$: the heads put end to end at each position, then the output projection.
#
# ```pycon
# >>> one = mt.ones(1, 1)
# >>> X = mt.tensor([[[1.0], [1.0]]])  # equal tokens: each head hands over their mean
# >>> heads_in_a_loop(X, [one, one], [one, one], [one, mt.tensor([[2.0, 3.0]])], mt.eye(3))
# tensor([[[1., 2., 3.],
#          [1., 2., 3.]]])
# ```
#
# - `X` is $(B, n, d)$. `Q`, `K`, `V` are lists of $h$ matrices: `Q[l]` and `K[l]` $(d, s_l)$, `V[l]` $(d, v_l)$, where $s_l$ and $v_l$ may
#   differ from head to head.
# - `W_O` is $(v_0 + \dots + v_{h-1}, m)$. Scores may be in the thousands.
#
# *Not allowed*: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `nn.Linear` (the operations `scaled_dot_product_attention` and `linear`).
#
# <details><summary>First hint</summary>
#
# A loop over the heads, a list, and `mt.cat` at the end.
#
# </details>
# <details><summary>Second hint</summary>
#
# Along which axis do heads stand end to end? And whose size stands under the root?
#
# </details>


# %% solution="heads_in_a_loop"

# %% tests="heads_in_a_loop" points=4
check.heads_in_a_loop(heads_in_a_loop)
### BEGIN HIDDEN TESTS
check.heads_in_a_loop(heads_in_a_loop, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Which of these layers mix?
#
# *Core · medium · 30 minutes · 4 points*
#
# Find, by a test, a mistake that raises no error. Layers claim to be multi-head self-attention without positions: functions from `X`
# $(B, n, 8)$ to outputs $(B, n, 8)$, in float64. A layer **mixes** if for some `X` one of these fails by more than rounding ($10^{-9}$):
#
# - where the positions of `X` are permuted, in all sequences alike, the outputs are permuted alike;
# - a sequence gets in a batch what it gets alone.
#
# Return the numbers of those that mix, counted from 0. Of these eight, five do:
#
# ```pycon
# >>> len(mixing(check.suspects()))
# 5
# ```
#
# Each shows it at some $B \le 4$ and $n \le 8$. Some notice few permutations.

# %%
eight = check.suspects()

# %% [markdown]
# *Useful*: `mt.randn(B, n, 8, dtype=mt.float64)`, `mt.randperm`, `mt.allclose(a, b, rtol=0, atol=1e-9)`.
#
# <details><summary>First hint</summary>
#
# Compare `layer(X[:, order])` with `layer(X)[:, order]`, and a sequence alone with its row of the batch.
#
# </details>
# <details><summary>Second hint</summary>
#
# Try all sizes up to 4 and 8, and several permutations at each.
#
# </details>


# %% solution="mixing"

# %% tests="mixing" points=4
check.mixing(mixing)
print("these mix:", mixing(eight))
### BEGIN HIDDEN TESTS
check.mixing(mixing, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Heads that talk
#
# *Practice · medium · 30 minutes · 5 points*
#
# In *talking heads* (Shazeer et al., 2020) the scores of all heads are mixed before the softmax:
#
# - Head $l$ of $h$ makes scores with its own $d/h$ columns of `query` and `key`, divided by $\sqrt{d/h}$: $e_l$, $(T, n)$.
# - There are $g$ maps. Map $m$ is the softmax, row by row, of $\sum_l \text{mix}_{ml}\, e_l$.
# - Map $m$ takes its own $d_v/g$ columns of `value` to its outputs, $(T, d_v/g)$.
#
# Return the outputs of all maps put end to end, $(B, T, d_v)$.
#
# ```pycon
# >>> key, value = mt.tensor([[[9.0, 0.0], [0.0, 9.0]]]), mt.tensor([[[1.0], [2.0]]])
# >>> query = mt.tensor([[[1.0, 2.0]]])  # head 0 prefers the first position, head 1 the second
# >>> talking_heads(query, key, value, mt.tensor([[1.0, 1.0]])).round(decimals=3).tolist()
# [[[2.0]]]
# ```
#
# `query` is $(B, T, d)$, `key` $(B, n, d)$, `value` $(B, n, d_v)$, `mix` $(g, h)$. Scores may be in the thousands. **No loop** over heads or maps: the check
# counts products. Which `mix` gives multi-head attention back?
#
# *Not allowed*: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations `scaled_dot_product_attention` and `linear`).
#
# <details><summary>First hint</summary>
#
# Heads and maps are an axis: $(B, h, T, d/h)$, and for the values $(B, g, n, d_v/g)$.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mix` times the scores, with $T$ and $n$ flattened to one axis, is one product.
#
# </details>


# %% solution="talking_heads"

# %% tests="talking_heads" points=5
check.talking_heads(talking_heads)
### BEGIN HIDDEN TESTS
# The identity: each map is one head. A single row of ones: one map of the sum of all scores, which is
# the one head of section 2 (but for the scale: the root of d/h in place of that of d).
check.talking_heads(talking_heads, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Without each head
#
# *Practice · medium · 25 minutes · 4 points*
#
# Which heads matter? `Y` $(B, h, n, s)$ holds their outputs, `W_O` $(h s, m)$ is the output projection, and the layer's output is
# $[Y_0; \dots; Y_{h-1}]\, W_O$. Remove each head in turn. In its place stands everywhere the **mean** of its outputs over all positions
# of all sequences, a vector of size $s$. Return the outputs without each head, $(B, h, n, m)$: at `[:, l]` those without head $l$.
#
# ```pycon
# >>> Y = mt.tensor([[[[1.0], [3.0]], [[5.0], [5.0]]]])  # two heads, two positions
# >>> without_each_head(Y, mt.ones(2, 1)).flatten(2)
# tensor([[[7., 7.],
#          [6., 8.]]])
# ```
#
# Why the mean, and not zeros?
#
# <details><summary>First hint</summary>
#
# The output projection is a sum over the heads: each has its own block of rows of `W_O`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Output without head $l$ = output + (mean of $Y_l - Y_l$) times its block.
#
# </details>


# %% solution="without_each_head"

# %% tests="without_each_head" points=4
check.without_each_head(without_each_head)
### BEGIN HIDDEN TESTS
# What follows the layer was trained with a head that says something on average. Zeros would take that
# away as well, and what breaks then is not the information of the head alone.
check.without_each_head(without_each_head, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. How narrow may a head be?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Prove it on paper; the check asks for the numbers and an example. A head compares queries with any $n \ge 1$ different keys by
# $q^\top k$. A key is a **favourite** if some query gives it a higher score than every other key. Return a dict:
#
# - `"one"`: how many of the $n$ keys can be favourites at most, if queries and keys are single numbers;
# - `"two"`: the same for queries and keys of two numbers;
# - `"queries"` and `"keys"`, $(n, 2)$ each, which show it: query $i$ scores key $i$ higher than all others by at least 1.
#
# ```pycon
# >>> found = favourites(2)
# >>> scores = found["queries"] @ found["keys"].T  # row i: query i
# >>> (scores[0, 0] >= scores[0, 1] + 1).item(), (scores[1, 1] >= scores[1, 0] + 1).item()
# (True, True)
# ```
#
# If $n$ doubles, by which factor do your queries grow?
#
# <details><summary>First hint</summary>
#
# For single numbers, $q k$ is a line in $k$: where does a line have its largest value? For two numbers, think of keys on a circle.
#
# </details>
# <details><summary>Second hint</summary>
#
# On the unit circle the next key scores $\cos(2\pi/n)$, your own 1. Make the query so long that they differ by 1.
#
# </details>


# %% solution="favourites"

# %% tests="favourites" points=4
check.favourites(favourites)
for n in (8, 16, 32, 64):
    print(f"{n:3} keys: longest query {favourites(n)['queries'].norm(dim=1).max().item():8.1f}")
### BEGIN HIDDEN TESTS
# A line has its largest value at an end: only the largest and the smallest key can be favourites. On a circle all can, but
# 1 - cos(2 pi / n) is about 2 pi^2 / n^2, so the queries grow by 4. A narrow head is not blind; it has to shout, and
# long queries are hard to learn. (Another proof: keys (j, j^2) and queries (2i, -1); their scores are i^2 - (i - j)^2.)
check.favourites(favourites, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Two heads by hand
#
# *Core · hard · 35 minutes · 4 points*
#
# Set weights with which two heads look at two places. Each position of a memory holds $[\text{key}; \text{value}]$: a key of its own, one-hot of size $k$,
# and $c$ numbers. Each row of `x` asks for two different keys, in order:
# $[\text{one-hot of the first}; \text{one-hot of the second}]$, of size $2k$. The check computes
#
# $$\text{head}_l = \operatorname{softmax}\!\left(\frac{(x\, Q_l)(\text{memory}\; K_l)^\top}{\sqrt{k}}\right) \text{memory}\; V_l$$
#
# and expects in head 0 the value of the first key, and in head 1 that of the second, to two decimals.
#
# ```pycon
# >>> Q, K, V = two_heads(k=2, c=1)
# >>> x, memory = mt.tensor([[0.0, 1.0, 1.0, 0.0]]), mt.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
# >>> [((x @ q) @ (memory @ k).T / 2**0.5).softmax(-1) @ memory @ v for q, k, v in zip(Q, K, V)][1].item() > 0.995
# True
# ```
#
# - Return three lists of two matrices: `Q[l]` $(2k, k)$, `K[l]` $(k + c, k)$, `V[l]` $(k + c, c)$.
# - Values are 0 or 1; there are at most 25 keys. Numbers in the matrices may be large.
#
# Why can one head not do it?
#
# <details><summary>First hint</summary>
#
# Draw the matrices for $k = 2$, $c = 1$. `K` and `V` only cut the row into key and value.
#
# </details>
# <details><summary>Second hint</summary>
#
# `Q[0]` passes on the first half of `x`, `Q[1]` the second, times a number that makes softmax sharp among 25 keys.
#
# </details>


# %% solution="two_heads"

# %% tests="two_heads" points=4
check.two_heads(two_heads)
### BEGIN HIDDEN TESTS
# One head hands over one mean of values for both questions, c numbers where 2c are wanted. Whatever
# it looks at, it cannot say the one value without mixing in the other (the proof of section 6).
check.two_heads(two_heads, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The layer
#
# *Challenge · hard · 40 minutes · 5 points*
#
# Write `forward` of multi-head attention with a mask, and with keys and values that heads share. Keys and values have
# `groups` heads, of size $s = \text{width} / \text{heads}$. Neighbours share: the first heads/groups query heads look at group 0, the next at group 1, ...
#
# - `x` $(B, T, \text{width})$ gives the queries, `memory` $(B, n, \text{width})$ keys and values.
# - `allowed` is None, or boolean, **True where a query may look at a key**: at one at least. It broadcasts against the scores, $(B, h, T, n)$.
# - Scores are divided by $\sqrt s$, and may be very large.
# - The heads are put end to end; `self.out` is the output projection.
#
# Return $(B, T, \text{width})$. Keep `__init__` as it is.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Give keys and values as many heads as queries have: each is used by heads/groups neighbours.
#
# </details>
# <details><summary>Second hint</summary>
#
# `key.repeat_interleave(self.heads // self.groups, dim=1)`, with `key` $(B, \text{groups}, n, s)$. `repeat` would give another order.
#
# </details>


# %% solution="GroupedAttention" given="__init__"

# %% tests="GroupedAttention" points=5
check.GroupedAttention(GroupedAttention)
### BEGIN HIDDEN TESTS
check.GroupedAttention(GroupedAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Heads that can be spared
#
# *Challenge · hard · 40 minutes · 4 points*
#
# Train the chapter's model for two letters, `check.look_up(seed)`, within a minute, so that **any of its 4 heads can be removed**.
# `model(letters, values, asked, gates)` gives scores $(B, 2, 8)$ of two answers. `gates`, $(B, 4)$ or $(1, 4)$, multiply what each head says: 0 removes it.
# `draw(count)` gives `letters`, `values`, `asked` and right answers $(\text{count}, 2)$.
#
# - **Both** answers must be right in 98 % of new tables with all heads, in 95 % without the head missed most.
# - Return a dict of both shares on 2,000 new tables: `"all heads"`, `"without the worst"`.
#
# On the check's tables your shares must hold to 0.05. Its last model cannot learn: there only your shares are judged.
#
# <details><summary>First hint</summary>
#
# To try, take `check.draw` and 400 steps of 128 tables, with Adam at rate 0.01. What a model has never met in training it need
# not bear: what should it meet?
#
# </details>
# <details><summary>Second hint</summary>
#
# Draw gates for each table: each head is missing now and then. Measure with fixed ones, under `mt.no_grad()`.
#
# </details>


# %% solution="spare_heads"
def spare_heads(model, draw):
    """Train the model in place; the shares of right tables with all heads and without the worst."""
    ### BEGIN SOLUTION
    steps, rate = 400, 0.01
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        *inputs, answers = draw(128)
        gates = (mt.rand(128, model.heads) > 0.2).float()  # each head is missing now and then
        loss = F.cross_entropy(model(*inputs, gates).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate * min(1, 2 * (1 - step / steps))
        optimizer.step()

    *inputs, answers = draw(2000)

    def right(gates):
        with mt.no_grad():
            said = model(*inputs, gates).argmax(-1)
        return (said == answers).all(1).float().mean().item()

    ones = mt.ones(1, model.heads)
    removed = [right(ones - gate) for gate in mt.eye(model.heads)]
    return {"all heads": right(ones), "without the worst": min(removed)}
    ### END SOLUTION


# %% tests="spare_heads" points=4
check.spare_heads(spare_heads)
### BEGIN HIDDEN TESTS
check.spare_heads(spare_heads, hidden=True)
### END HIDDEN TESTS
