# %% [markdown]
# # Exercises 05: self-attention
#
# Ten exercises, from easy to hard, 40 points, about four and a half hours. They belong to
# [chapter 05](../../notebooks/05_self_attention.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the
# cell, then the check below it. The check looks at what your function does, on random inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once more
# on other numbers and sizes. Where an exercise does not allow an operation, the check records what runs
# inside your function, under whatever name you call it. In exercises 1 to 3 the gradients of your results
# are compared, too: the results must stay tensors that the library's operations have made of the inputs, so
# keep away from `.item()`, `float()` and NumPy there. Nearly every exercise differs from the chapter in a point
# that its text names: a cell of the chapter, pasted, is told so.
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
# ## 1. What the others give
#
# *Goal: compute self-attention for one token that leaves itself out. Easy, 20 minutes, 4 points.*
#
# A random vector fits nothing as well as itself. So let token `i` (counted from 0) ask all tokens of its sentence **but itself**:
#
# $$e_{ij} = \frac{q_i^\top k_j}{\sqrt d}, \qquad \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l \ne i} \exp(e_{il})} \text{ for } j \ne i, \qquad \alpha_{ii} = 0, \qquad o_i = \sum_{j} \alpha_{ij} v_j$$
#
# with $q_i = x_i Q$, $k_j = x_j K$ and $v_j = x_j V$. `X` is $(n, d)$, a sentence of at least two tokens, `Q`, `K` and `V` are $(d, d)$. Return the output
# $o_i$ $(d)$ and the weights $\alpha_{ij}$, $(n)$, with an exact 0 for the token itself. Scores may be in the thousands.
#
# Not allowed: `F.scaled_dot_product_attention`, which does all of it in one call and hides the weights. `softmax` is allowed.


# %% solution="from_others"
def from_others(X, Q, K, V, i):
    """X (n, d) and three matrices (d, d) give the output (d) and the weights (n) of token i."""
    ### BEGIN SOLUTION
    scores = (X @ K) @ (X[i] @ Q) / math.sqrt(X.shape[1])  # (n)
    scores = scores.masked_fill(mt.arange(len(X)) == i, -mt.inf)
    weights = scores.softmax(dim=0)
    return weights @ (X @ V), weights
    ### END SOLUTION


# %% tests="from_others" points=4
check.from_others(from_others)
### BEGIN HIDDEN TESTS
check.from_others(from_others, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Scaled dot-product attention, with a bias
#
# *Goal: write the function that the rest of the book leans on, and its trap. Easy, 25 minutes, 4 points.*
#
# `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$. The dots are the same for
# all three: no axis, one, or several. A score is the dot product of a query and a key, divided by the
# square root of their size; where a `bias` is given, it is added to the scores: it has the shape $(\dots, T, n)$ or one that
# broadcasts to it. Return the outputs $(\dots, T, d_v)$:
#
# $$\text{softmax}\!\left(\frac{\text{query}\;\text{key}^\top}{\sqrt{d}} + \text{bias}\right) \text{value}$$
#
# A bias of minus infinity shuts a key out, no other number does, however low. **Where all keys of a query are shut, its output is zeros**, and no NaN may appear, neither in
# the outputs nor in a gradient. One of the inputs has scores in the hundreds and thousands, which `softmax` can take.
#
# Not allowed: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations
# `scaled_dot_product_attention` and `linear`): they are this exercise.


# %% solution="attention"
def attention(query, key, value, bias=None):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    if bias is None:
        return scores.softmax(dim=-1) @ value
    scores = scores + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)  # (..., T, 1)
    weights = scores.masked_fill(shut, 0.0).softmax(dim=-1)
    return weights.masked_fill(shut, 0.0) @ value
    ### END SOLUTION


# %% tests="attention" points=4
check.attention(attention)
### BEGIN HIDDEN TESTS
check.attention(attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A module with slots of its own
#
# *Goal: give the layer parameters that can be trained, and something to look at beside the tokens. Medium, 25 minutes, 4 points.*
#
# A layer may know things that stand in no sentence. So it has `slots` places of its own, each with a key and a value that are parameters, and every token may look at
# them as it looks at tokens. Write both methods of the class below.
#
# - `__init__(width, key_size, slots)` makes three layers without biases, `self.query`, `self.key` and `self.value`, in which queries
#   and keys have `key_size` numbers and values have `width` numbers, as many as a token; and two parameters, `self.slot_keys` (slots, key_size) and
#   `self.slot_values` (slots, width), which begin with whatever random numbers you like.
# - `forward(x)` takes tokens $(\dots, n, \text{width})$, with any number of leading axes, and returns outputs of the same shape: each token shares **one** softmax
#   among the $n$ tokens and the slots, its scores divided by the square root of `key_size`.
#
# (`nn.Linear(a, b)` stores its matrix as $(b, a)$ and multiplies by the transpose. So `self.query.weight`
# is $Q^\top$.)
#
# Not allowed: `F.scaled_dot_product_attention`: the scores, their softmax and the sum are the exercise. Useful: `nn.Parameter`, `mt.cat`.


# %% solution="SelfAttention"
class SelfAttention(nn.Module):
    """Self-attention with trainable projections, and slots that any token may look at."""

    def __init__(self, width, key_size, slots):
        super().__init__()
        ### BEGIN SOLUTION
        self.query = nn.Linear(width, key_size, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.slot_keys = nn.Parameter(mt.randn(slots, key_size) / math.sqrt(key_size))
        self.slot_values = nn.Parameter(mt.randn(slots, width))
        ### END SOLUTION

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        ### BEGIN SOLUTION
        query, key, value = self.query(x), self.key(x), self.value(x)
        on_tokens = query @ key.transpose(-2, -1)  # (..., n, n)
        on_slots = query @ self.slot_keys.T  # (..., n, slots)
        scores = mt.cat([on_tokens, on_slots], dim=-1) / math.sqrt(key.shape[-1])
        weights = scores.softmax(dim=-1)
        n = x.shape[-2]
        return weights[..., :n] @ value + weights[..., n:] @ self.slot_values
        ### END SOLUTION


# %% tests="SelfAttention" points=4
check.SelfAttention(SelfAttention)
### BEGIN HIDDEN TESTS
check.SelfAttention(SelfAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. How far the scores spread
#
# *Goal: know where the square root of d comes from. Medium, 20 minutes, 3 points.*
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


# %% tests="score_deviation" points=3
check.score_deviation(score_deviation)
### BEGIN HIDDEN TESTS
check.score_deviation(score_deviation, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What a score can change
#
# *Goal: predict which scores can be taught anything, then look. Medium, 25 minutes, 4 points.*
#
# A query has the scores $e_1, \dots, e_n$, the weights $p = \text{softmax}(e)$ and the output $o = \sum_j p_j v_j$. How fast does the output move when one
# score changes? Return for each score the length of the derivative,
#
# $$\left\lVert \frac{\partial o}{\partial e_j} \right\rVert = \sqrt{\sum_{m=1}^{d} \left(\frac{\partial o_m}{\partial e_j}\right)^2} .$$
#
# Each row of `scores` $(T, n)$ belongs to a query, and `values` is $(n, d)$; return $(T, n)$. Begin with pencil and paper: $\partial p_k / \partial e_j =
# p_k\,(\mathbb 1[k = j] - p_j)$, and the sum over $k$ becomes short. Scores may be in the hundreds, of either sign, and differ by as much: nowhere may a NaN come out.
#
# Not allowed: the engine's `backward()` and `autograd.grad`: the formula is the exercise. Loops will do.
#
# Before you run the cell of the check: one key has a score of 20, the others have 0. Which of the scores can move the output at all?


# %% solution="moved_by_score"
def moved_by_score(scores, values):
    """Scores (T, n) and values (n, d): how fast the output moves with each score, (T, n)."""
    ### BEGIN SOLUTION
    p = scores.softmax(dim=-1)
    outputs = p @ values  # (T, d)
    apart = values - outputs.unsqueeze(1)  # (T, n, d)
    return p * (apart**2).sum(dim=-1).sqrt()
    ### END SOLUTION


# %% tests="moved_by_score" points=4
check.moved_by_score(moved_by_score)
mt.manual_seed(0)
example = mt.randn(4, 8)
for top in (0.0, 2.0, 5.0, 20.0):
    lengths = moved_by_score(mt.tensor([[top, 0.0, 0.0, 0.0]]), example)[0]
    print(f"scores {top:4}, 0, 0, 0:", "  ".join(f"{x:.1e}" for x in lengths.tolist()))
### BEGIN HIDDEN TESTS
# None. The derivative is p_j (v_j - o). The key with all the weight is where the output is already, so v_j - o is 0,
# and the others have no weight. This is why large scores are hard to teach, and why they are divided.
check.moved_by_score(moved_by_score, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Does it notice the order?
#
# *Goal: find out which layers notice the order, and show it by a test. Medium, 30 minutes, 5 points.*
#
# `layer` is a function that takes $n$ tokens $(n, d)$, with $n$ from 4 to 6, and gives $n$ outputs, one a
# token, row by row. `X` $(n, d)$ is a random input. The layer is *order-blind* at `X` if every permutation of
# these tokens gives the same outputs, permuted in the same way. **Return a permutation that shows that it is not**, a list `p` of the positions from 0 to $n - 1$
# for which `layer(X[p])` is not `layer(X)[p]`; return None if there is none.
#
# You cannot look inside the layer, but you can permute `X`: there are at most 720 ways. Some layers notice one
# permutation and do not notice another one; some notice few of all permutations, which a handful drawn by
# chance would find by luck alone; some show what they notice at one token and not at others; and a layer that notices no exchange of two tokens may well notice two
# exchanges, one after the other. Sums of floating-point numbers in another order differ in their last digits, here by less than $10^{-9}$,
# which is no notice of order; what a layer notices shows by more than $10^{-6}$.
#
# Everything is allowed. Useful: `X[p]` with a list (no tuple) or tensor of positions `p`, `itertools.permutations`,
# `mt.allclose`.


# %% solution="noticed_order"
def noticed_order(layer, X):
    """A layer (n, d) -> (n, d') and tokens X (n, d) give a permutation, a list, or None."""
    ### BEGIN SOLUTION
    outputs = layer(X)
    for order in itertools.permutations(range(len(X))):
        p = list(order)
        if not mt.allclose(layer(X[p]), outputs[p]):
            return p
    return None
    ### END SOLUTION


# %% tests="noticed_order" points=5
check.noticed_order(noticed_order)
### BEGIN HIDDEN TESTS
check.noticed_order(noticed_order, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. How many layers until they meet
#
# *Goal: predict what has to wait for what, then compare. Medium, 20 minutes, 3 points.*
#
# The last of $n$ tokens is to know of the first. Return a dict: `"layers"`, the smallest number of layers (at least 1) of a kind after which its output depends on the first token;
# and `"steps"`, how many steps these layers take one after another over $n$ tokens, where all that does not wait for each other is done in one step, and
# an output of a layer takes one step. The kinds:
#
# - `"recurrent"`: a state reads its token and the state before it;
# - `"window"`: an output sees its own token of the layer below and the `window` $- 1$ before it;
# - `"dilated"`: so in the first layer; in the second the tokens that an output sees stand `window` apart, in the third `window`$^2$, and so on, so that each layer
#   multiplies by `window` how many tokens it knows of;
# - `"self-attention"`: an output sees all tokens.
#
# `window` is at least 2; the kinds that have none ignore it. $n$ is at least 1, and may be a million. Whole numbers, exactly. Everything is allowed.
#
# Before you run the cell: which of these needs fewer than ten layers for a thousand tokens, with windows of 3?


# %% solution="reach"
def reach(kind, n, window):
    """The layers after which the last of n tokens knows of the first, and the steps they take."""
    ### BEGIN SOLUTION
    if kind == "recurrent":
        return {"layers": 1, "steps": n}
    if kind == "self-attention":
        return {"layers": 1, "steps": 1}
    layers, seen = 1, window  # tokens that the last output has seen
    while seen < n:
        layers += 1
        seen = seen * window if kind == "dilated" else seen + window - 1
    return {"layers": layers, "steps": layers}
    ### END SOLUTION


# %% tests="reach" points=3
check.reach(reach)
for kind in ("recurrent", "window", "dilated", "self-attention"):
    print(f"{kind:15}", [tuple(reach(kind, n, 3).values()) for n in (10, 100, 1000)])
### BEGIN HIDDEN TESTS
# All but the plain windows, which need 500. The recurrent network needs one layer and a thousand steps; dilated windows seven of each:
# self-attention is not the only way to few steps, but the only one with one.
check.reach(reach, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. At which widths does it help?
#
# *Goal: conclude from a table what it shows, and no more. Hard, 30 minutes, 4 points.*
#
# Encoders of several widths $d$ were trained with the division by $\sqrt d$ and without, at several learning rates. `"right"` is the share of right answers on held-out
# data, one number for each seed. (On other data, by which one would choose a rate, the means stand in the same order.) The numbers are made up.

# %%
print("   d  divided    rate  steps  right")
for row in check.table:
    print(f"{row['d']:4}  {row['divided']!s:7} {row['rate']:7} {row['steps']:6}  {row['right']}")

# %% [markdown]
# Write the reader down. `rows` is a list of dicts like those of `check.table`, in any order. Return a dict from each width to `"yes"` (the division helps), `"no"` (it is worse
# with it) or `"not known"`. At a width, each of the two (no width lacks one) stands for its best rate: the one with the highest **mean** over the seeds, and no two means are equal. It is `"not known"`
#
# - if the two were not given the same rates and the same number of steps;
# - if one of them is best at the smallest or the largest rate that was tried: a better one may lie beyond;
# - if one of them has fewer than five seeds at its best rate;
# - unless **every** seed of one is above every seed of the other: the clearest kind of finding (chapter 00, section 9), which needs no pairs.
#
# Everything is allowed. Before you run the cell: at $d = 1024$ each number with the division is larger than all without. May you say that it helps there?


# %% solution="division_helps"
def division_helps(rows):
    """A dict from each width to "yes", "no" or "not known"."""
    ### BEGIN SOLUTION
    found = {}
    for width in {row["d"] for row in rows}:
        chosen, setting = {}, {}
        for divided in (True, False):
            own = [row for row in rows if row["d"] == width and row["divided"] == divided]
            rates = sorted(row["rate"] for row in own)
            best = max(own, key=lambda row: sum(row["right"]) / len(row["right"]))
            inside = rates[0] < best["rate"] < rates[-1]
            chosen[divided] = best["right"] if inside and len(best["right"]) >= 5 else None
            setting[divided] = rates, best["steps"]
        found[width] = "not known"
        if setting[True] == setting[False] and chosen[True] and chosen[False]:
            if min(chosen[True]) > max(chosen[False]):
                found[width] = "yes"
            elif min(chosen[False]) > max(chosen[True]):
                found[width] = "no"
    return found
    ### END SOLUTION


# %% tests="division_helps" points=4
check.division_helps(division_helps)
print(division_helps(check.table))
### BEGIN HIDDEN TESTS
# No: with the division it was trained for twice as many steps. At 256 one rate is missing without it, and its best one
# stands at the edge. At 16 the seeds overlap. One width is left, and it says nothing about the others.
check.division_helps(division_helps, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The gradient by hand
#
# *Goal: send a gradient back to one input that plays three roles. Hard, 35 minutes, 5 points.*
#
# The forward pass for one sequence is the chapter's, with `X` $(n, d)$ and `Q`, `K`, `V` $(d, d)$:
#
# $$A = \text{softmax}\!\left(\frac{XQ\,(XK)^\top}{\sqrt{d}}\right), \qquad \text{output} = A\,XV$$
#
# You get `grad_output` $(n, d)$, the gradient of the loss with respect to the output. Return four tensors:
# the gradients with respect to `X` $(n, d)$, `Q`, `K` and `V`, each $(d, d)$, in this order.
#
# Go back one step at a time, from the output to the values and to the weights; through the softmax, for
# each row
#
# $$\mathrm{grad\_score}_j = \alpha_j\, \Big(\mathrm{grad\_weight}_j - \sum_l \alpha_l\, \mathrm{grad\_weight}_l\Big);$$
#
# then to queries and keys; then to the matrices, and to $X$, which three gradients reach. For $Y = XW$ and the
# gradient $G$ of $Y$, those of $X$ and $W$ are $G W^\top$ and $X^\top G$.
#
# Not allowed: the engine's `backward()` and `autograd.grad`: what they do is the exercise.


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


# %% tests="self_attention_gradient" points=5
check.self_attention_gradient(self_attention_gradient)
### BEGIN HIDDEN TESTS
check.self_attention_gradient(self_attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Train, and measure what was not seen
#
# *Goal: train a layer that looks back, and measure it where it cannot have learned by heart. Hard, 35 minutes, 4 points: 2 for the
# measure, 2 for what is reached.*
#
# ### The measure
#
# `model(tokens)` gives scores $(B, n, C)$ for tokens $(B, n)$. `sentences` $(N, n)$ are tokens and `targets` $(N, n)$ the right classes; where a target is
# $-100$, nothing is asked. `seen` $(M, n)$ holds all the sentences of training. Return the share of right answers (the class with the largest score) among all targets
# of the sentences that are **not among those seen**, token for token; a sentence that comes twice (it then has the same targets) counts once. None if no target is left (no new sentence, or all its targets are $-100$). While it is measured the model is in
# `eval()`; afterwards it is again in the mode in which it came.
#
# Everything is allowed.


# %% solution="right_unseen"
def right_unseen(model, sentences, targets, seen):
    """The share of right answers in sentences that are not among those seen; None if none is."""
    ### BEGIN SOLUTION
    done, rows = {tuple(row) for row in seen.tolist()}, []
    for k, row in enumerate(sentences.tolist()):
        if tuple(row) not in done:
            rows.append(k)
            done.add(tuple(row))
    if not rows:
        return None
    training = model.training
    model.eval()
    with mt.no_grad():
        said = model(sentences[rows]).argmax(dim=-1)
    model.train(training)
    asked = targets[rows] != -100
    right = ((said == targets[rows]) & asked).sum().item()
    return right / asked.sum().item() if asked.any() else None
    ### END SOLUTION


# %% tests="right_unseen" points=2
check.right_unseen(right_unseen)
### BEGIN HIDDEN TESTS
check.right_unseen(right_unseen, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# The task: say for each of 8 tokens, of 10 kinds, which token stood **two** places before. `check.trained(divisor, positions, rate, steps, seed)` trains one layer of self-attention with
# queries and keys of size 64, in less than a second, and returns the model and the sentences that it has seen; `check.sequences(batch)` draws tokens and targets to measure it with. Its matrices start
# larger than usual: with positions, scores that are not divided have a standard deviation of more than 100 before the first step. Return a dict:
#
# - `"divisor"`: by what the scores are divided, `"1"`, `"root"` (of 64) or `"d"` (64);
# - `"positions"`: True if a learned vector for the place is added to each token, else False;
# - `"rate"`, the largest learning rate of Adam, and `"steps"`, 150 at most.
#
# The last check trains your choice with three seeds of its own and measures it with your `right_unseen`. At least 90 % have to be right with **each** seed. Choose with other seeds than 11, 12 and 13,
# which it takes: else you choose by luck. (Before you try: can the task be learned without positions? What share is right then, at best?)


# %% solution="chosen_layer"
def chosen_layer():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"divisor": "d", "positions": True, "rate": 0.01, "steps": 150}
    ### END SOLUTION


# %% tests="chosen_layer" points=2
check.reached(right_unseen, chosen_layer)
### BEGIN HIDDEN TESTS
# No: permuted tokens give permuted outputs, so the layer knows which tokens are there and not where. At best it names
# one of the 8 by a guess, and a third is right. With positions, scores of more than 100 are taught too little in 150 steps;
# divided by 8 they are still large, and it depends on the rate; divided by 64 they are as large as the chapter wants them.
check.right_unseen(right_unseen, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Queries, keys and values, the scale, the layer and its gradient are yours now, and so is the test that
# shows what the layer lacks: it does not notice the order. [Chapter 06](../../notebooks/06_multi_head_attention.ipynb) first lets it look at several places
# at once.
