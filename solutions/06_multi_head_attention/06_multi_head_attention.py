# %% [markdown]
# # Exercises 06: multi-head attention
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 06](../../notebooks/06_multi_head_attention.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. Tensors must stay tensors that the
# library's operations have made, without `.item()`, `float()`, `detach()` or NumPy on the way: most checks
# compare gradients, too.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first, $n$ is the number of positions (of keys, where queries and
# keys come from two sequences; then $T$ is the number of queries), $d$ the size of a token's vector, $h$ the
# number of heads. In code $h$ is called `heads`, and it divides $d$: a head has the size $d/h$. Columns,
# positions and heads count from 0: head $l$ has the columns $l\,d/h$ to $(l+1)\,d/h - 1$, side by side.

# %%
from collections import Counter

import minitorch as mt
from minitorch import nn
from textbook.checks import chapter_06 as check
from textbook.checks import progress

progress.show("06")

# %% [markdown]
# ## 1. Splitting
#
# *Goal: give every head its columns, and every position its numbers. Easy, 10 minutes, 3 points.*
#
# `X` is $(B, n, d)$. Return a tensor $(B, h, n, d/h)$: at `[b, l, i]` stand the numbers of head $l$ at position $i$
# of sequence $b$, which are `X[b, i]` in the columns of head $l$.
#
# Everything is allowed. Before you run the check, write down for $n = 2$, $d = 4$, $h = 2$ what head 0 should
# hold if `X[0]` is `[[0, 1, 2, 3], [4, 5, 6, 7]]`.


# %% solution="split_heads"
def split_heads(X, heads):
    """X (B, n, d) gives (B, heads, n, d/heads)."""
    ### BEGIN SOLUTION
    batch, n, d = X.shape
    return X.reshape(batch, n, heads, d // heads).transpose(1, 2)  # (B, heads, n, d/heads)
    ### END SOLUTION


# %% tests="split_heads" points=3
check.split_heads(split_heads)
### BEGIN HIDDEN TESTS
check.split_heads(split_heads, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Merging
#
# *Goal: undo the split. Easy, 10 minutes, 3 points.*
#
# `X` is $(B, h, n, s)$, the outputs of $h$ heads of size $s$. Return $(B, n, h s)$: at each position the numbers of
# head 0, then those of head 1, and so on. What exercise 1 splits, this puts together again.
#
# Everything is allowed.


# %% solution="merge_heads"
def merge_heads(X):
    """X (B, heads, n, size) gives (B, n, heads * size)."""
    ### BEGIN SOLUTION
    batch, heads, n, size = X.shape
    return X.transpose(1, 2).reshape(batch, n, heads * size)
    ### END SOLUTION


# %% tests="merge_heads" points=3
check.merge_heads(merge_heads)
### BEGIN HIDDEN TESTS
check.merge_heads(merge_heads, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. One head after the other
#
# *Goal: write multi-head self-attention as its definition says it. Medium, 15 minutes, 4 points.*
#
# `Q`, `K` and `V` are lists of $h$ matrices $(d, d/h)$, one for each head; `W_O` is $(d, d)$. `X` is $(B, n, d)$. Each
# head is a scaled dot-product attention of its own,
#
# $$\text{head}_l = \operatorname{softmax}\!\left(\frac{(X Q_l)(X K_l)^\top}{\sqrt{d/h}}\right) X V_l \qquad (n, d/h),$$
#
# with the softmax row by row. Return $[\text{head}_0; \dots; \text{head}_{h-1}]\, W_O$, of shape $(B, n, d)$: the heads
# put end to end at each position, head 0 first, then the output projection.
#
# Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `nn.Linear` (the operations
# `scaled_dot_product_attention` and `linear`). A loop over the heads is welcome.


# %% solution="heads_in_a_loop"
def heads_in_a_loop(X, Q, K, V, W_O):
    """X (B, n, d), lists of matrices (d, d/h), W_O (d, d) give (B, n, d)."""
    ### BEGIN SOLUTION
    heads = []
    for query, key, value in zip(Q, K, V, strict=True):
        scores = (X @ query) @ (X @ key).transpose(1, 2)  # (B, n, n)
        weights = (scores / query.shape[1] ** 0.5).softmax(dim=-1)
        heads.append(weights @ (X @ value))  # (B, n, d/h)
    return mt.cat(heads, dim=-1) @ W_O
    ### END SOLUTION


# %% tests="heads_in_a_loop" points=4
check.heads_in_a_loop(heads_in_a_loop)
### BEGIN HIDDEN TESTS
check.heads_in_a_loop(heads_in_a_loop, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. All heads at once
#
# *Goal: make the heads one more axis, so that no loop is left. Medium, 20 minutes, 5 points.*
#
# The three projections are done, for all heads side by side: `query` is $(B, T, d)$, `key` and `value` are
# $(B, n, d)$. Head $l$ attends with its own columns of the three, and divides its scores by $\sqrt{d/h}$. Return the
# heads put end to end at each position, $(B, T, d)$; no output projection.
#
# There must be no loop over the heads: the check counts the products, which may not be more for eight heads
# than for two. Where $T$ and $n$ differ, a mistake in the axes often stops with an error; where they are equal,
# nothing stops it.
#
# Not allowed: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations
# `scaled_dot_product_attention` and `linear`).


# %% solution="heads_at_once"
def heads_at_once(query, key, value, heads):
    """query (B, T, d), key and value (B, n, d) give the joined heads (B, T, d)."""
    ### BEGIN SOLUTION
    size = query.shape[-1] // heads
    query, key, value = (
        x.reshape(len(x), -1, heads, size).transpose(1, 2)  # (B, heads, T or n, size)
        for x in (query, key, value)
    )
    scores = query @ key.transpose(2, 3) / size**0.5  # (B, heads, T, n)
    return (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
    ### END SOLUTION


# %% tests="heads_at_once" points=5
check.heads_at_once(heads_at_once)
### BEGIN HIDDEN TESTS
check.heads_at_once(heads_at_once, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What heads cost
#
# *Goal: say what changes with the number of heads, and what does not. Medium, 15 minutes, 3 points.*
#
# A multi-head attention of width $d$ with $h$ heads gets $T$ positions that ask and $n$ positions that are looked
# at. It has the usual four projections without biases: all queries, all keys, all values, and the output. Return
# three integers:
#
# 1. the number of its weights;
# 2. the FLOPs of its matrix products in one forward pass of one sequence, where $(a, k)$ times $(k, b)$ costs
#    $2akb$: the projections and the two products inside the heads. Softmax and division are not counted;
# 3. the number of scores in all its heads. (As many weights come out of the softmax, and stay in memory for
#    the backward pass.)
#
# Everything is allowed; you need no tensors. Then look at your formulas: which of the three depend on $h$?


# %% solution="attention_cost"
def attention_cost(T, n, d, heads):
    """The numbers of weights, of FLOPs and of scores."""
    ### BEGIN SOLUTION
    weights = 4 * d**2
    projections = 2 * (2 * T + 2 * n) * d**2  # queries and outputs of T, keys and values of n
    in_a_head = 2 * (2 * T * n * (d // heads))  # scores, weighted values
    return weights, projections + heads * in_a_head, heads * T * n
    ### END SOLUTION


# %% tests="attention_cost" points=3
check.attention_cost(attention_cost)
### BEGIN HIDDEN TESTS
check.attention_cost(attention_cost, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What each head adds
#
# *Goal: see the output projection as a sum over the heads. Medium, 15 minutes, 4 points.*
#
# `Y` $(B, h, n, d/h)$ holds the outputs of the heads and `W_O` $(d, d)$ the output projection. The layer's output is
# $[Y_0; \dots; Y_{h-1}]\, W_O$. It can be written as a sum with one term for each head: head $l$ meets some of the rows
# of $W_O$ only. Return these terms, $(B, h, n, d)$. Their sum over axis 1 is the output of the layer.
#
# (The output less one of the terms is what is left when that head is switched off: with this function one
# finds out which heads of a trained model matter.)
#
# Everything is allowed.


# %% solution="contributions"
def contributions(Y, W_O):
    """Y (B, heads, n, d/heads) and W_O (d, d) give what each head adds, (B, heads, n, d)."""
    ### BEGIN SOLUTION
    _, heads, _, size = Y.shape
    return Y @ W_O.reshape(heads, size, -1)  # (B, heads, n, size) @ (heads, size, d)
    ### END SOLUTION


# %% tests="contributions" points=4
check.contributions(contributions)
### BEGIN HIDDEN TESTS
check.contributions(contributions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Into nn.MultiheadAttention
#
# *Goal: move your weights into the library's layout, which is PyTorch's. Medium, 15 minutes, 4 points.*
#
# You have the matrices of exercise 3: `Q`, `K`, `V`, lists of $h$ matrices $(d, d/h)$, and `W_O` $(d, d)$.
# `nn.MultiheadAttention(d, h, bias=False)` keeps them as two weights, each in the way in which `nn.Linear` stores
# its own: transposed, (outputs, inputs).
#
# - `in_proj_weight` $(3d, d)$ makes the queries of all heads, then the keys of all heads, then the values of
#   all heads: $d$ rows each, in each of them head 0 first;
# - `out_proj.weight` $(d, d)$ is the output projection.
#
# Return a dict with these two names and two tensors, so that `load_state_dict` of it gives a module that
# computes what `heads_in_a_loop(X, Q, K, V, W_O)` does.
#
# Everything is allowed.


# %% solution="module_weights"
def module_weights(Q, K, V, W_O):
    """Lists of matrices (d, d/h) and W_O (d, d) give the state of nn.MultiheadAttention."""
    ### BEGIN SOLUTION
    parts = [mt.cat(matrices, dim=1).T for matrices in (Q, K, V)]  # (d, d) each
    return {"in_proj_weight": mt.cat(parts), "out_proj.weight": W_O.T}
    ### END SOLUTION


# %% tests="module_weights" points=4
check.module_weights(module_weights)
### BEGIN HIDDEN TESTS
check.module_weights(module_weights, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Where a head looks
#
# *Goal: read attention maps head by head. Medium, 20 minutes, 4 points.*
#
# In trained models one finds heads that look at the word before, and heads that look at the word after (Voita et
# al., 2019). `weights` $(B, h, n, n)$ are self-attention maps: row $i$ of map `[b, l]` says where query $i$ looks in
# head $l$. Take for each query the key $j$ with its largest weight; its *offset* is $j - i$, so that the word before
# has the offset $-1$.
#
# Return a list with one pair `(offset, share)` for each head: the offset that most of the head's queries have, and
# the share of all its $B\,n$ queries that have it, from 0 to 1. (The check takes maps in which one offset is more
# frequent than any other.)
#
# Everything is allowed; loops will do. Useful: `Counter(...).most_common(1)`. Count numbers, which a tensor's
# `.tolist()` gives, for tensors are counted one by one even if they are equal.


# %% solution="strongest_offsets"
def strongest_offsets(weights):
    """weights (B, heads, n, n) give a list of pairs (offset, share), one for each head."""
    ### BEGIN SOLUTION
    n = weights.shape[-1]
    offsets = weights.argmax(dim=-1) - mt.arange(n)  # (B, heads, n)
    pairs = []
    for of_head in offsets.transpose(0, 1).flatten(1).tolist():
        [(offset, count)] = Counter(of_head).most_common(1)
        pairs.append((offset, count / len(of_head)))
    return pairs
    ### END SOLUTION


# %% tests="strongest_offsets" points=4
check.strongest_offsets(strongest_offsets)
### BEGIN HIDDEN TESTS
check.strongest_offsets(strongest_offsets, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Two heads by hand
#
# *Goal: find weights with which two heads look at two places. Hard, 25 minutes, 4 points.*
#
# Each position of a memory holds a key, one-hot of size $k$, followed by its value, $c$ numbers: a row is
# $[\text{key}; \text{value}]$, of size $k + c$. No two positions have the same key. Each row of `x` asks for two
# different keys of the memory, in order: it is $[\text{one-hot of the first}; \text{one-hot of the second}]$, of size $2k$.
#
# Return `Q`, `K`, `V`, three lists of two matrices, one for each head: `Q[l]` $(2k, k)$, `K[l]` $(k + c, k)$,
# `V[l]` $(k + c, c)$. The check computes
#
# $$\text{head}_l = \operatorname{softmax}\!\left(\frac{(x\, Q_l)(\text{memory}\; K_l)^\top}{\sqrt{k}}\right) \text{memory}\; V_l$$
#
# and expects in head 0 the value that belongs to the first key, and in head 1 that of the second, to two
# decimals. (The values are 0 or 1; there are at most 25 keys.)
#
# Everything is allowed. Draw the matrices for $k = 2$, $c = 1$ first. Why can one head not do it?


# %% solution="two_heads"
def two_heads(k, c):
    """Q[l] (2k, k), K[l] (k + c, k) and V[l] (k + c, c) of two heads."""
    ### BEGIN SOLUTION
    # The score of the key that is asked for is sharp / sqrt(k) = 20, all others are 0.
    sharp = 20 * k**0.5
    first = mt.cat([sharp * mt.eye(k), mt.zeros(k, k)])
    second = mt.cat([mt.zeros(k, k), sharp * mt.eye(k)])
    key = mt.cat([mt.eye(k), mt.zeros(c, k)])
    value = mt.cat([mt.zeros(k, c), mt.eye(c)])
    return [first, second], [key, key], [value, value]
    ### END SOLUTION


# %% tests="two_heads" points=4
check.two_heads(two_heads)
### BEGIN HIDDEN TESTS
check.two_heads(two_heads, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. The layer
#
# *Goal: write multi-head attention as the Transformer uses it, for one sequence or two, with a mask. Hard, 30
# minutes, 6 points.*
#
# Write `forward` of the layer below. Its arguments:
#
# - `x` $(B, T, \text{width})$ gives the queries, through `self.query`;
# - `memory` $(B, n, \text{width})$ gives keys and values, through `self.key` and `self.value`. In self-attention
#   `memory` is `x`, in cross-attention it is another sequence, of another length;
# - `allowed` is None, or a boolean tensor: **True where a query may look at a key**, as in
#   `F.scaled_dot_product_attention`. Its shape is $(T, n)$, $(B, 1, 1, n)$ or $(B, 1, T, n)$: it broadcasts against the
#   scores of all heads, $(B, h, T, n)$. Where it is False, the score becomes minus infinity before the softmax.
#   Every query may look at one key at least.
#
# Scores are divided by the square root of the size of a head. The heads are put end to end, and `self.out` is
# the output projection. Return $(B, T, \text{width})$. Keep `__init__` as it is; loop over the heads or not, as you
# like.
#
# Not allowed: `F.scaled_dot_product_attention`. Useful: `masked_fill`.


# %% solution="MultiHeadAttention"
class MultiHeadAttention(nn.Module):
    """Multi-head attention: x asks, memory answers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: where to look. Gives (B, T, width)."""
        ### BEGIN SOLUTION
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, T or n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        joined = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)  # (B, T, width)
        return self.out(joined)
        ### END SOLUTION


# %% tests="MultiHeadAttention" points=6
check.MultiHeadAttention(MultiHeadAttention)
### BEGIN HIDDEN TESTS
check.MultiHeadAttention(MultiHeadAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Split, attend, merge, project: this layer goes into the Transformer as it stands. Its `allowed` is waiting for
# chapter 07, which says where the masks come from.
