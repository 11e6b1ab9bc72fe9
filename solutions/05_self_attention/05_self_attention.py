# %% [markdown]
# # Exercises 05: self-attention
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 05](../../notebooks/05_self_attention.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the
# cell, then the check below it. The check looks at what your function does, on random inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once more
# on other numbers and sizes. Where an exercise does not allow an operation, the check records what runs
# inside your function, under whatever name you call it. In exercises 1 to 5 the gradients of your results
# are compared, too: the results must stay tensors that the library's operations have made of the inputs, so
# keep away from `.item()`, `float()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** A sentence is $X$ $(n, d)$: $n$ tokens, one row each. $Q$, $K$ and $V$ are matrices $(d, d)$
# that make queries, keys and values, and they multiply from the right: queries are $XQ$. In scores and
# weights $(n, n)$, row $i$ belongs to the query of token $i$, column $j$ to the key of token $j$. A batch
# puts an axis $B$ before all that.

# %%
import itertools
import math

import minitorch as mt
from minitorch import nn
from textbook.checks import chapter_05 as check
from textbook.checks import progress

progress.show("05")

# %% [markdown]
# ## 1. Three roles
#
# *Goal: make queries, keys and values from one sequence. Easy, 10 minutes, 2 points.*
#
# `X` is $(n, d)$; `Q`, `K` and `V` are $(d, d)$. Every token $x_i$, a row of $X$, gets a query, a key and a
# value:
#
# $$q_i = x_i Q, \qquad k_i = x_i K, \qquad v_i = x_i V$$
#
# Return the queries, the keys and the values of all tokens, three tensors $(n, d)$.
#
# Everything is allowed.


# %% solution="project"
def project(X, Q, K, V):
    """X (n, d) and three matrices (d, d) give queries, keys and values, each (n, d)."""
    ### BEGIN SOLUTION
    return X @ Q, X @ K, X @ V
    ### END SOLUTION


# %% tests="project" points=2
check.project(project)
### BEGIN HIDDEN TESTS
check.project(project, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What one token gets
#
# *Goal: compute self-attention for one token. Easy, 15 minutes, 3 points.*
#
# Token `i` (counted from 0) asks all tokens of its sentence, itself among them:
#
# $$e_{ij} = q_i^\top k_j, \qquad \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad o_i = \sum_{j=1}^{n} \alpha_{ij} v_j$$
#
# with queries, keys and values as in exercise 1. The scores are not scaled yet. Return the output
# $o_i$ $(d)$ and the weights $\alpha_{ij}$, $(n)$. A loop over the tokens will do.
#
# Not allowed: `F.scaled_dot_product_attention`. `softmax` is allowed.


# %% solution="one_token"
def one_token(X, Q, K, V, i):
    """X (n, d) and three matrices (d, d) give the output (d) and the weights (n) of token i."""
    ### BEGIN SOLUTION
    q = X[i] @ Q
    scores = mt.stack([q @ (x @ K) for x in X])  # (n)
    weights = scores.softmax(dim=0)
    return weights @ (X @ V), weights
    ### END SOLUTION


# %% tests="one_token" points=3
check.one_token(one_token)
### BEGIN HIDDEN TESTS
check.one_token(one_token, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Scaled dot-product attention
#
# *Goal: write the function that the rest of the book leans on. Easy, 15 minutes, 4 points.*
#
# `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$. The dots are the same for
# all three: no axis, one, or several. A score is the dot product of a query and a key, divided by the
# square root of their size. Return the outputs $(\dots, T, d_v)$:
#
# $$\text{softmax}\!\left(\frac{\text{query}\;\text{key}^\top}{\sqrt{d}}\right) \text{value}$$
#
# One of the inputs has scores in the hundreds and thousands, which `softmax` can take.
#
# Not allowed: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations
# `scaled_dot_product_attention` and `linear`).


# %% solution="attention"
def attention(query, key, value):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    return scores.softmax(dim=-1) @ value
    ### END SOLUTION


# %% tests="attention" points=4
check.attention(attention)
### BEGIN HIDDEN TESTS
check.attention(attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Self-attention in matrices
#
# *Goal: write the layer for a batch of sequences. Medium, 10 minutes, 4 points.*
#
# `X` is $(B, n, d)$, `Q`, `K` and `V` are $(d, d)$. For each sequence by itself,
#
# $$\text{softmax}\!\left(\frac{XQ\,(XK)^\top}{\sqrt{d}}\right) XV$$
#
# Return $(B, n, d)$. Tokens in another order must give the same outputs in that order, and no sequence may
# see another one. There is no mask.
#
# Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `F.linear`, `nn.Linear`.


# %% solution="self_attention"
def self_attention(X, Q, K, V):
    """X (B, n, d) and three matrices (d, d) give the outputs (B, n, d)."""
    ### BEGIN SOLUTION
    scores = (X @ Q) @ (X @ K).transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, n, n)
    return scores.softmax(dim=-1) @ (X @ V)
    ### END SOLUTION


# %% tests="self_attention" points=4
check.self_attention(self_attention)
### BEGIN HIDDEN TESTS
check.self_attention(self_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A module
#
# *Goal: give the layer parameters that can be trained. Medium, 20 minutes, 4 points.*
#
# Write both methods of the class below.
#
# - `__init__(width, key_size)` makes three layers without biases, `self.query`, `self.key` and `self.value`. Queries
#   and keys have `key_size` numbers, values have `width` numbers, as many as a token.
# - `forward(x)` takes tokens $(\dots, n, \text{width})$, with any number of leading axes, and returns the outputs of
#   scaled self-attention, $(\dots, n, \text{width})$.
#
# (`nn.Linear(a, b)` stores its matrix as $(b, a)$ and multiplies by the transpose. So `self.query.weight`
# is $Q^\top$.)
#
# Not allowed: `F.scaled_dot_product_attention`.


# %% solution="SelfAttention"
class SelfAttention(nn.Module):
    """Self-attention with trainable projections."""

    def __init__(self, width, key_size):
        super().__init__()
        ### BEGIN SOLUTION
        self.query = nn.Linear(width, key_size, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        ### END SOLUTION

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        ### BEGIN SOLUTION
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., n, n)
        return scores.softmax(dim=-1) @ value
        ### END SOLUTION


# %% tests="SelfAttention" points=4
check.SelfAttention(SelfAttention)
### BEGIN HIDDEN TESTS
check.SelfAttention(SelfAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. How far the scores spread
#
# *Goal: know where the square root of d comes from. Medium, 20 minutes, 4 points.*
#
# Two tokens $x$ and $y$ are drawn by chance: all of their $2d$ components are independent, with mean 0 and
# variance 1. Their score, not scaled, is $e = xQ \cdot yK$, with `Q` and `K` $(d, d_k)$ that are fixed.
# Return the standard deviation of $e$, one number, exactly: not by drawing tokens.
#
# Begin with pencil and paper. Write $e = \sum_{a} \sum_{b} x_a M_{ab}\, y_b$: which matrix is $M$? The
# terms of the sum are uncorrelated and have mean 0, so the variance of the sum is the sum of their
# variances; and $x_a y_b$ has variance 1. With $Q = K$ the identity you should get $\sqrt{d}$, which is
# what scores are divided by.
#
# Everything is allowed.


# %% solution="score_deviation"
def score_deviation(Q, K):
    """Two matrices (d, d_k) give the standard deviation of a score, a number."""
    ### BEGIN SOLUTION
    between = Q @ K.T  # (d, d)
    return (between**2).sum().sqrt().item()
    ### END SOLUTION


# %% tests="score_deviation" points=4
check.score_deviation(score_deviation)
### BEGIN HIDDEN TESTS
check.score_deviation(score_deviation, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. What a softmax lets through
#
# *Goal: measure how large scores starve the softmax of gradient. Medium, 15 minutes, 4 points.*
#
# Each row of `scores` $(T, n)$ belongs to a query, and $p$ is its softmax, the weights $\alpha$ of the chapter. The
# Jacobian of that softmax is an $(n, n)$ matrix,
#
# $$J_{kj} = \frac{\partial p_k}{\partial \text{score}_j} = p_k\,(\mathbb 1[k = j] - p_j), \qquad \lVert J \rVert = \sqrt{\sum_{k=1}^{n} \sum_{j=1}^{n} J_{kj}^2}$$
#
# (this is the Frobenius norm, the root of the sum of all squares). Return $\lVert J \rVert$ of each row, a tensor $(T)$.
#
# Scores may be in the hundreds, positive or negative, which `softmax` can take.
#
# Not allowed: the engine's `backward()` and `autograd.grad`. Loops will do.


# %% solution="jacobian_norms"
def jacobian_norms(scores):
    """Scores (T, n) give the norm of the softmax's Jacobian for each row, (T)."""
    ### BEGIN SOLUTION
    p = scores.softmax(dim=-1)
    jacobians = mt.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)  # (T, n, n)
    return (jacobians**2).sum(dim=(1, 2)).sqrt()
    ### END SOLUTION


# %% tests="jacobian_norms" points=4
check.jacobian_norms(jacobian_norms)
### BEGIN HIDDEN TESTS
check.jacobian_norms(jacobian_norms, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Does it notice the order?
#
# *Goal: test a layer for what it cannot know. Medium, 20 minutes, 5 points.*
#
# `layer` is a function that takes $n$ tokens $(n, d)$, with $n$ from 4 to 6, and gives $n$ outputs, one a
# token, row by row. `X` $(n, d)$ is a random input. The layer is *order-blind* at `X` if every permutation of
# these tokens gives the same outputs, permuted in the same way. Return True if it is, else False.
#
# You cannot look inside the layer, but you can permute `X`: there are at most 720 ways. Some layers notice one
# permutation and do not notice another one; some notice few of all permutations, which a handful drawn by
# chance would find by luck alone; and a layer that notices no exchange of two tokens may well notice two
# exchanges, one after the other. Sums of floating-point numbers in another order differ in their last digits,
# which is no notice of order; anything larger is.
#
# Everything is allowed. Useful: `X[p]` with a list (no tuple) or tensor of positions `p`, `mt.randperm`,
# `itertools.permutations`, `mt.allclose`.


# %% solution="order_blind"
def order_blind(layer, X):
    """A layer (n, d) -> (n, d') and tokens X (n, d) give True or False."""
    ### BEGIN SOLUTION
    outputs = layer(X)
    for order in itertools.permutations(range(len(X))):
        p = list(order)
        if not mt.allclose(layer(X[p]), outputs[p]):
            return False
    return True
    ### END SOLUTION


# %% tests="order_blind" points=5
check.order_blind(order_blind)
### BEGIN HIDDEN TESTS
check.order_blind(order_blind, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. What has to wait
#
# *Goal: count sequential steps, with few workers and with many. Medium, 20 minutes, 4 points.*
#
# A computation consists of operations, numbered from 0. `needs[i]` lists the operations whose results
# operation $i$ needs, all of them with smaller numbers; the list may be empty. Each operation takes one
# step. In each step, up to `workers` operations run at the same time: of those that are *ready* (all that
# they need was done in earlier steps), the ones with the smallest numbers. `None` workers means as many as
# are ready. Return the number of steps until all is done, which is 0 if there are no operations.
#
# A recurrent network over three tokens is `[[], [0], [1]]`: 3 steps, however many work on it.
# Self-attention over three tokens, with one operation for what each token projects and one for each output,
# is `[[], [], [], [0, 1, 2], [0, 1, 2], [0, 1, 2]]`: 2 steps for enough workers, 4 for two, 6 for one.
#
# Everything is allowed.


# %% solution="time_steps"
def time_steps(needs, workers):
    """Lists of what each operation needs and a number of workers or None give a number of steps."""
    ### BEGIN SOLUTION
    done, steps = set(), 0
    while len(done) < len(needs):
        ready = [i for i in range(len(needs)) if i not in done and done.issuperset(needs[i])]
        done.update(ready[:workers])
        steps += 1
    return steps
    ### END SOLUTION


# %% tests="time_steps" points=4
check.time_steps(time_steps)
### BEGIN HIDDEN TESTS
check.time_steps(time_steps, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. The gradient by hand
#
# *Goal: send a gradient back to one input that plays three roles. Hard, 35 minutes, 6 points.*
#
# The forward pass for one sequence is that of exercise 4, with `X` $(n, d)$ and `Q`, `K`, `V` $(d, d)$:
#
# $$A = \text{softmax}\!\left(\frac{XQ\,(XK)^\top}{\sqrt{d}}\right), \qquad \text{output} = A\,XV$$
#
# You get `grad_output` $(n, d)$, the gradient of the loss with respect to the output. Return four tensors:
# the gradients with respect to `X` $(n, d)$, `Q`, `K` and `V`, each $(d, d)$, in this order.
#
# Go back one step at a time, from the output to the values and to the weights; through the softmax, for
# each row
# $\text{grad\_score}_j = \alpha_j\,(\text{grad\_weight}_j - \sum_l \alpha_l\, \text{grad\_weight}_l)$; then
# to queries and keys; then to the matrices, and to $X$, which three gradients reach. For $Y = XW$ and the
# gradient $G$ of $Y$, those of $X$ and $W$ are $G W^\top$ and $X^\top G$.
#
# Not allowed: the engine's `backward()` and `autograd.grad`.


# %% solution="self_attention_gradient"
def self_attention_gradient(X, Q, K, V, grad_output):
    """The gradients of the loss with respect to X (n, d) and to Q, K and V (d, d)."""
    ### BEGIN SOLUTION
    query, key, value = X @ Q, X @ K, X @ V
    root = math.sqrt(X.shape[1])
    weights = (query @ key.T / root).softmax(dim=-1)  # (n, n)

    grad_value = weights.T @ grad_output
    grad_weights = grad_output @ value.T
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)
    grad_scores = weights * (grad_weights - average) / root
    grad_query, grad_key = grad_scores @ key, grad_scores.T @ query

    grad_X = grad_query @ Q.T + grad_key @ K.T + grad_value @ V.T
    return grad_X, X.T @ grad_query, X.T @ grad_key, X.T @ grad_value
    ### END SOLUTION


# %% tests="self_attention_gradient" points=6
check.self_attention_gradient(self_attention_gradient)
### BEGIN HIDDEN TESTS
check.self_attention_gradient(self_attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Queries, keys and values, the scale, the layer and its gradient are yours now, and so is the test that
# shows what the layer lacks: it does not notice the order. Chapter 06 first lets it look at several places
# at once.
