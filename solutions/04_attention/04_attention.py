# %% [markdown]
# # Exercises 04: attention
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 04](../../notebooks/04_attention.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. In exercises 1 to 5, 8 and 10 the
# gradients of your results are compared, too: the results must stay tensors that the library's
# operations have made of the inputs, so keep away from `.item()`, `.detach()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first, $n$ is the length of the source (the number of keys),
# $T$ the number of decoder steps (the number of queries). So scores and weights of all steps are
# $(B, T, n)$: row $t$ belongs to step $t$, column $j$ to source position $j$.
#
# **Names.** As in the papers, the chapter's attention output $o_t$ is called the context here, its memory $M$ the
# encoder's `states`, its decoder state $s_t$ is $h_t$, and the vector $w$ of its additive score is $v$.

# %%
import math

import minitorch as mt
from minitorch import nn
from textbook.checks import chapter_04 as check
from textbook.checks import progress

progress.show("04")

# %% [markdown]
# ## 1. One query
#
# *Goal: make weights of scores, and an average of the values. Easy, 10 minutes, 2 points.*
#
# One query has been compared with $n$ keys. `scores` $(B, n)$ says how well each of them fits, `values`
# $(B, n, d)$ holds what stands beside each key. Return the context (the attention output) $(B, d)$ and the
# weights $(B, n)$:
#
# $$\alpha_j = \frac{e^{\text{scores}_j}}{\sum_{k=1}^{n} e^{\text{scores}_k}}, \qquad \text{context} = \sum_{j=1}^{n} \alpha_j v_j$$
#
# Not allowed: `F.scaled_dot_product_attention`. `softmax` is allowed.


# %% solution="attend"
def attend(scores, values):
    """Scores (B, n) and values (B, n, d) give the context (B, d) and the weights (B, n)."""
    ### BEGIN SOLUTION
    weights = scores.softmax(dim=-1)  # (B, n)
    return (weights.unsqueeze(-1) * values).sum(dim=1), weights
    ### END SOLUTION


# %% tests="attend" points=2
check.attend(attend)
### BEGIN HIDDEN TESTS
check.attend(attend, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. All queries at once
#
# *Goal: write dot-product attention in matrices. Easy, 10 minutes, 3 points.*
#
# `queries` is $(B, T, d)$, `keys` $(B, n, d)$, `values` $(B, n, d_v)$. The score of query $i$ and key $j$ is
# their dot product, not scaled. Return the contexts $(B, T, d_v)$ and the weights $(B, T, n)$.
#
# Not allowed: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations
# `scaled_dot_product_attention` and `linear`).


# %% solution="attend_all"
def attend_all(queries, keys, values):
    """Queries (B, T, d), keys (B, n, d), values (B, n, d_v) give contexts and weights (B, T, n)."""
    ### BEGIN SOLUTION
    scores = queries @ keys.transpose(1, 2)  # (B, T, n)
    weights = scores.softmax(dim=-1)
    return weights @ values, weights
    ### END SOLUTION


# %% tests="attend_all" points=3
check.attend_all(attend_all)
### BEGIN HIDDEN TESTS
check.attend_all(attend_all, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Multiplicative scores of reduced rank
#
# *Goal: compare vectors of different sizes through two small matrices. Medium, 15 minutes, 4 points.*
#
# The multiplicative score of a query $q$ and a key $k$ is $q^\top W k$. Where $W$ is large, write it as
# $U^\top V$, with `U` $(r, d_q)$ and `V` $(r, d_k)$, and $r$ small:
#
# $$\text{score}_{ij} = q_i^\top U^\top V k_j = (U q_i)^\top (V k_j)$$
#
# `queries` is $(B, T, d_q)$, `keys` $(B, n, d_k)$. Return the scores of all pairs, $(B, T, n)$, no
# softmax. (With the identity for `U` this is the full multiplicative score with $W = V$, and with the
# identity for both it is the dot product. The check tries these, too.)
#
# The product $U^\top V$ itself, of shape $(d_q, d_k)$, is what the small matrices are there to avoid: the
# check counts FLOPs.


# %% solution="reduced_rank_scores"
def reduced_rank_scores(queries, keys, U, V):
    """Queries (B, T, d_q), keys (B, n, d_k), U (r, d_q), V (r, d_k) give scores (B, T, n)."""
    ### BEGIN SOLUTION
    return (queries @ U.T) @ (keys @ V.T).transpose(1, 2)
    ### END SOLUTION


# %% tests="reduced_rank_scores" points=4
check.reduced_rank_scores(reduced_rank_scores)
### BEGIN HIDDEN TESTS
check.reduced_rank_scores(reduced_rank_scores, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Additive scores
#
# *Goal: compare every query with every key by broadcasting. Medium, 15 minutes, 4 points.*
#
# $$\text{score}_{ij} = v^\top \tanh(W_q\, q_i + W_k\, k_j)$$
#
# `queries` is $(B, T, d_q)$, `keys` $(B, n, d_k)$, `W_q` $(a, d_q)$, `W_k` $(a, d_k)$, `v` $(a)$. Return the
# scores of all pairs, $(B, T, n)$, no softmax.
#
# Everything is allowed. Useful: `unsqueeze`, so that $(B, T, 1, a)$ meets $(B, 1, n, a)$.


# %% solution="additive_scores"
def additive_scores(queries, keys, W_q, W_k, v):
    """Queries (B, T, d_q), keys (B, n, d_k), W_q (a, d_q), W_k (a, d_k), v (a) give (B, T, n)."""
    ### BEGIN SOLUTION
    joined = (queries @ W_q.T).unsqueeze(2) + (keys @ W_k.T).unsqueeze(1)  # (B, T, n, a)
    return joined.tanh() @ v
    ### END SOLUTION


# %% tests="additive_scores" points=4
check.additive_scores(additive_scores)
### BEGIN HIDDEN TESTS
check.additive_scores(additive_scores, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A mask for the padding
#
# *Goal: keep padded source positions out. Medium, 15 minutes, 4 points.*
#
# Short sources are padded at their end. `scores` is $(B, T, n)$; `lengths` $(B)$ holds integers from 1 to $n$:
# of sequence $b$, the positions 0 to `lengths[b] - 1` are words, and what comes after is padding, whose
# scores may be any numbers. Return the weights $(B, T, n)$. The weight of a padded position is exactly 0, the
# weights of each row add up to 1, and the gradient with respect to a padded score is exactly 0.
#
# Not allowed: `F.scaled_dot_product_attention`. Useful: `mt.arange(n) < lengths.unsqueeze(1)`, `masked_fill`.


# %% solution="padded_weights"
def padded_weights(scores, lengths):
    """Scores (B, T, n) and lengths (B) give weights (B, T, n) that are 0 in the padding."""
    ### BEGIN SOLUTION
    padding = mt.arange(scores.shape[-1]) >= lengths.unsqueeze(1)  # (B, n)
    return scores.masked_fill(padding.unsqueeze(1), -mt.inf).softmax(dim=-1)
    ### END SOLUTION


# %% tests="padded_weights" points=4
check.padded_weights(padded_weights)
### BEGIN HIDDEN TESTS
check.padded_weights(padded_weights, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A table to look things up in
#
# *Goal: know how long a query must be to find one value. Medium, 20 minutes, 4 points.*
#
# Build a table with $n$ entries: return `keys` $(n, d)$ and `queries` $(n, d)$, tensors of any size $d$ that you
# like, so that with the weights `(queries @ keys.T).softmax(dim=-1)` query $i$ puts the weight $1 -$ `error` on
# key $i$ and shares the rest evenly: every other key gets `error` $/ (n - 1)$.
#
# If all values lie between 0 and 1, query $i$ then finds value $i$ up to `error`. For `error` $= (n - 1) / n$
# the queries are flat, and each of them finds the mean. (The check draws `error` from $10^{-6}$ to 0.9 and
# $n \ge 2$.)
#
# Everything is allowed. Begin with keys that are orthonormal, such as `mt.eye(n)`, and work out with pencil
# and paper by which number to multiply the queries.


# %% solution="lookup_table"
def lookup_table(n, error):
    """Keys (n, d) and queries (n, d) with the weight 1 - error of query i on key i."""
    ### BEGIN SOLUTION
    # e^scale / 1 must be the ratio of the two weights.
    scale = math.log((1 - error) / (error / (n - 1)))
    return mt.eye(n), scale * mt.eye(n)
    ### END SOLUTION


# %% tests="lookup_table" points=4
check.lookup_table(lookup_table)
### BEGIN HIDDEN TESTS
check.lookup_table(lookup_table, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. How far from the true alignment
#
# *Goal: score attention maps against a known alignment. Medium, 15 minutes, 4 points.*
#
# `weights` $(B, T, n)$ are attention maps: row $t$ of map $b$ says where the decoder looked for target piece
# $t$. `alignments` is a list of $B$ lists of tuples: `alignments[b][t]` names the source positions that
# target piece $t$ of sentence $b$ translates. Usually there is one; a piece may also translate several, or none
# (a word like "und": the tuple is empty).
#
# A piece with a non-empty tuple is a *hit* if the source position with its largest weight is in the tuple,
# else a *miss*. Return the share of misses among all such pieces of all sentences together, one number
# from 0 to 1. The sentences have different lengths: `weights` may have more rows than `alignments[b]` has
# tuples (they are padding, and do not count), and padded source positions have the weight 0.
#
# Everything is allowed; loops will do.


# %% solution="alignment_error"
def alignment_error(weights, alignments):
    """The share of target pieces whose largest weight lies at a wrong position."""
    ### BEGIN SOLUTION
    strongest = weights.argmax(dim=-1).tolist()  # B lists of T positions
    misses = [
        place not in known
        for places, alignment in zip(strongest, alignments, strict=True)
        for place, known in zip(places, alignment, strict=False)
        if known
    ]
    return sum(misses) / len(misses)
    ### END SOLUTION


# %% tests="alignment_error" points=4
check.alignment_error(alignment_error)
### BEGIN HIDDEN TESTS
check.alignment_error(alignment_error, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. One decoder step with input feeding
#
# *Goal: put recurrence and attention together. Medium, 20 minutes, 4 points.*
#
# The decoder is at step $t$. `x` $(B, d)$ is its input, `context` $(B, H_e)$ what attention found at step
# $t-1$, `h` $(B, H)$ its state after step $t-1$. `cell(input, h)` is a recurrent cell: from an input
# $(B, d + H_e)$ and a state it gives the next state, $(B, H)$. `states` $(B, n, H_e)$ are the encoder's states, of
# which `lengths` $(B)$ are no padding, as in exercise 5. They are keys and values; the score is multiplicative
# with `W` $(H, H_e)$:
#
# $$h_t = \mathrm{cell}([x_t; \text{context}_{t-1}],\, h_{t-1}), \qquad \text{score}_j = h_t^\top W\, \text{states}_j,$$
#
# then weights and the new context, the weighted average of the encoder's states. Return the new state
# $(B, H)$, the new context $(B, H_e)$ and the weights $(B, n)$, in this order.
#
# Not allowed: `F.scaled_dot_product_attention`, `F.linear`, `nn.Linear` (the operation `linear`).


# %% solution="decoder_step"
def decoder_step(x, context, h, cell, states, lengths, W):
    """One step: the new state (B, H), the new context (B, H_e), the weights (B, n)."""
    ### BEGIN SOLUTION
    h = cell(mt.cat([x, context], dim=-1), h)  # (B, H)
    scores = (states @ (h @ W).unsqueeze(-1)).squeeze(-1)  # (B, n)
    padding = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)
    weights = scores.masked_fill(padding, -mt.inf).softmax(dim=-1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)  # (B, H_e)
    return h, context, weights
    ### END SOLUTION


# %% tests="decoder_step" points=4
check.decoder_step(decoder_step)
### BEGIN HIDDEN TESTS
check.decoder_step(decoder_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The gradient by hand
#
# *Goal: send a gradient back through attention without the engine. Hard, 25 minutes, 5 points.*
#
# A forward pass is done: `weights` $(B, T, n)$ is $A = \operatorname{softmax}(\text{scores})$, row by row, and the
# contexts are $A\,V$ with `values` $V$ $(B, n, d)$. You get `grad_contexts` $(B, T, d)$, the gradient of the loss
# with respect to the contexts. Return two tensors: the gradients with respect to the **scores** $(B, T, n)$ and
# to the **values** $(B, n, d)$.
#
# Go back one step at a time: from the contexts to the values and to the weights, then through the softmax. Its
# Jacobian, for one row $\alpha$, is $\partial \alpha_k / \partial \text{score}_j = \alpha_k\,(\mathbb 1[k = j] - \alpha_j)$.
#
# Not allowed: the engine's `backward()` and `autograd.grad`.


# %% solution="attention_gradient"
def attention_gradient(weights, values, grad_contexts):
    """The gradients of the loss with respect to the scores (B, T, n) and the values (B, n, d)."""
    ### BEGIN SOLUTION
    grad_values = weights.transpose(1, 2) @ grad_contexts  # (B, n, d)
    grad_weights = grad_contexts @ values.transpose(1, 2)  # (B, T, n)
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    return weights * (grad_weights - average), grad_values
    ### END SOLUTION


# %% tests="attention_gradient" points=5
check.attention_gradient(attention_gradient)
### BEGIN HIDDEN TESTS
check.attention_gradient(attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. The whole decoder
#
# *Goal: run a decoder with attention over a batch of targets. Hard, 35 minutes, 6 points.*
#
# Write `forward` of the decoder below with teacher forcing. Its arguments:
#
# - `targets` $(B, T)$: the right tokens; `start`: the number of the start token, which stands before each
#   target and is no part of it. At each step, the decoder reads the right token before the one that it
#   has to predict;
# - `states` $(B, n, H_e)$: the encoder's states, of which `lengths` $(B)$ are no padding;
# - `h` $(B, H)$: the decoder's first state. The first context is zero.
#
# At each step:
#
# 1. `self.cell` gets the embedding of the token that is read, followed by the context of the step before:
#    $[x_t; \text{context}_{t-1}]$;
# 2. its **new** state is the query; the score of position $j$ is additive, with the three layers that
#    `__init__` makes: `self.score` of the $\tanh$ of `self.from_query` of the query plus `self.from_key` of $\text{states}_j$;
# 3. the new context is the weighted average of `states`, without the padding;
# 4. the scores of the $V$ tokens are `self.output` of $[h_t; \text{context}_t]$.
#
# Return these scores for all steps, $(B, T, V)$. Keep `__init__` as it is.
#
# Not allowed: `F.scaled_dot_product_attention`.


# %% solution="AttentionDecoder"
class AttentionDecoder(nn.Module):
    """A GRU decoder that looks at the encoder's states by additive attention."""

    def __init__(self, vocabulary_size, width, encoder_size, hidden_size, attention_size):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.cell = nn.GRUCell(width + encoder_size, hidden_size)
        self.from_query = nn.Linear(hidden_size, attention_size, bias=False)
        self.from_key = nn.Linear(encoder_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)
        self.output = nn.Linear(hidden_size + encoder_size, vocabulary_size)

    def forward(self, targets, states, lengths, h, start):
        """Targets (B, T), states (B, n, H_e), lengths (B) and h (B, H) give scores (B, T, V)."""
        ### BEGIN SOLUTION
        padding = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)  # (B, n)
        keys = self.from_key(states)  # (B, n, a)
        context = mt.zeros_like(states[:, 0])  # (B, H_e)
        first = mt.full_like(targets[:, :1], start)
        results = []
        for token in mt.cat([first, targets[:, :-1]], dim=1).unbind(1):  # (B)
            h = self.cell(mt.cat([self.embedding(token), context], dim=-1), h)  # (B, H)
            fit = self.score((self.from_query(h).unsqueeze(1) + keys).tanh()).squeeze(-1)  # (B, n)
            weights = fit.masked_fill(padding, -mt.inf).softmax(dim=-1)
            context = (weights.unsqueeze(-1) * states).sum(dim=1)
            results.append(self.output(mt.cat([h, context], dim=-1)))
        return mt.stack(results, dim=1)  # (B, T, V)
        ### END SOLUTION


# %% tests="AttentionDecoder" points=6
check.AttentionDecoder(AttentionDecoder)
### BEGIN HIDDEN TESTS
check.AttentionDecoder(AttentionDecoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# The score, the mask, the average, the gradient and the loop over the steps: nothing of chapter 04's translator is left
# that you have not written. Chapter 05 takes the loop away.
