# %% [markdown]
# # Exercises 05: self-attention
#
# Ten exercises, 40 points, about five hours. The **core** (1, 2, 4, 6) takes 95 minutes. They belong
# to [chapter 05](../../notebooks/05_self_attention.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 1 to 3 the gradients of your results are compared, too: no `.item()`, `float()` or NumPy on the way there.
#
# **Shapes.** A sentence is $X$ $(n, d)$: $n$ tokens, one row each. $Q$, $K$ and $V$ are matrices $(d, d)$ that multiply from the right: queries are
# $XQ$. In scores and weights $(n, n)$, row $i$ belongs to the query of token $i$, column $j$ to the key of token $j$. A batch puts an axis $B$ before
# all that.

# %%
import itertools
import math

import minitorch as mt
from minitorch import nn
from minitorch.autograd import record_operations
from textbook.checks import chapter_05 as check
from textbook.checks import progress

progress.show("05")

# %% [markdown]
# ## 1. What the others give
#
# *Core · easy · 20 minutes · 4 points*
#
# A random vector fits nothing as well as itself. So let token `i` (counted from 0) ask all tokens of its sentence **but itself**:
#
# $$e_{ij} = \frac{q_i^\top k_j}{\sqrt d}, \qquad \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l \ne i} \exp(e_{il})} \text{ for } j \ne i, \qquad \alpha_{ii} = 0, \qquad o_i = \sum_{j} \alpha_{ij} v_j$$
#
# with $q_i = x_i Q$, $k_j = x_j K$ and $v_j = x_j V$.
#
# ```pycon
# >>> one = mt.ones(1, 1)
# >>> from_others(mt.tensor([[5.0], [1.0], [1.0]]), one, one, one, 0)  # two equal keys are left
# (tensor([1.]), tensor([0.0000, 0.5000, 0.5000]))
# ```
#
# - `X` is $(n, d)$, two tokens at least; `Q`, `K` and `V` are $(d, d)$.
# - Return the output $o_i$ $(d)$ and the weights $\alpha_{ij}$ $(n)$, with an exact 0 for the token itself.
# - Scores may be in the thousands.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Which score must a key have so that softmax gives it the weight 0?
#
# </details>
# <details><summary>Second hint</summary>
#
# `scores.masked_fill(mt.arange(n) == i, -mt.inf)`, then `softmax`.
#
# </details>


# %% solution="from_others"

# %% tests="from_others" points=4
check.from_others(from_others)
### BEGIN HIDDEN TESTS
check.from_others(from_others, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Scaled dot-product attention, with a bias
#
# *Core · easy · 25 minutes · 4 points*
#
# Write the function that the rest of the book leans on, and its trap:
#
# $$\text{softmax}\!\left(\frac{\text{query}\;\text{key}^\top}{\sqrt{d}} + \text{bias}\right) \text{value}$$
#
# ```pycon
# >>> shut = mt.tensor([[0.0, -mt.inf], [-mt.inf, -mt.inf]])
# >>> attention(mt.ones(2, 1), mt.ones(2, 1), mt.tensor([[3.0], [5.0]]), shut)
# tensor([[3.],
#         [0.]])
# ```
#
# - `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$: the dots are the same for all three, no axis or several.
# - A `bias`, if there is one, has the shape $(\dots, T, n)$ or one that broadcasts to it.
# - A bias of minus infinity shuts a key out; no other number does, however low.
# - **Where all keys of a query are shut, its output is zeros.** No NaN appears, in outputs or gradients.
# - Scores may be in the thousands.
#
# *Not allowed*: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operations `scaled_dot_product_attention` and `linear`).
#
# <details><summary>First hint</summary>
#
# What is the softmax of a row of nothing but minus infinity?
#
# </details>
# <details><summary>Second hint</summary>
#
# Find these rows first. Give them scores of 0, and put their weights to 0 afterwards.
#
# </details>


# %% solution="attention"

# %% tests="attention" points=4
check.attention(attention)
### BEGIN HIDDEN TESTS
check.attention(attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A module with slots of its own
#
# *Practice · medium · 25 minutes · 4 points*
#
# A layer may know things that stand in no sentence. So it has `slots` places of its own, each with a key and a value that are parameters.
# Write both methods.
#
# ```pycon
# >>> layer = SelfAttention(width=4, key_size=2, slots=3)
# >>> layer(mt.randn(5, 4)).shape, layer.slot_keys.shape, layer.slot_values.shape
# (minitorch.Size([5, 4]), minitorch.Size([3, 2]), minitorch.Size([3, 4]))
# ```
#
# - `__init__` makes three linear layers without biases: `self.query`, `self.key` (`key_size` numbers each) and `self.value` (`width` numbers).
# - It makes two random parameters, `self.slot_keys` and `self.slot_values`.
# - `forward` takes tokens $(\dots, n, \text{width})$, with any leading axes, and returns outputs of the same shape.
# - Each token has **one** softmax over the $n$ tokens and the slots, its scores divided by the square root of `key_size`.
#
# *Not allowed*: `F.scaled_dot_product_attention`. *Useful*: `nn.Parameter`, `mt.cat`.
#
# <details><summary>First hint</summary>
#
# Scores on tokens are $(\dots, n, n)$, scores on slots $(\dots, n, \text{slots})$. Join them before the softmax.
#
# </details>
# <details><summary>Second hint</summary>
#
# Cut the weights again: the first $n$ belong to the values of the tokens, the rest to `slot_values`.
#
# </details>


# %% solution="SelfAttention"

# %% tests="SelfAttention" points=4
check.SelfAttention(SelfAttention)
### BEGIN HIDDEN TESTS
check.SelfAttention(SelfAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. How far the scores spread
#
# *Core · medium · 20 minutes · 3 points*
#
# Where does the square root of $d$ come from? Two tokens $x$ and $y$ are drawn by chance: all their $2d$ components are independent, with mean 0
# and variance 1. Return the standard deviation of their score $e = xQ \cdot yK$, not scaled: one number, exactly, not by drawing tokens.
#
# ```pycon
# >>> round(score_deviation(mt.eye(16), mt.eye(16)), 4)  # the square root of 16
# 4.0
# ```
#
# - `Q` and `K` are $(d, d_k)$, and fixed.
#
# <details><summary>First hint</summary>
#
# Write $e = \sum_{a} \sum_{b} x_a M_{ab}\, y_b$: which matrix is $M$?
#
# </details>
# <details><summary>Second hint</summary>
#
# The terms of the sum are uncorrelated, with mean 0. So their variances add up, and $x_a y_b$ has variance 1.
#
# </details>


# %% solution="score_deviation"

# %% tests="score_deviation" points=3
check.score_deviation(score_deviation)
### BEGIN HIDDEN TESTS
check.score_deviation(score_deviation, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What a score can change
#
# *Practice · medium · 25 minutes · 4 points*
#
# Which scores can be taught anything? A query has the scores $e_1, \dots, e_n$, the weights $p = \text{softmax}(e)$ and the output $o = \sum_j p_j v_j$.
# Return for each score the length of the derivative of the output,
#
# $$\left\lVert \frac{\partial o}{\partial e_j} \right\rVert = \sqrt{\sum_{m=1}^{d} \left(\frac{\partial o_m}{\partial e_j}\right)^2} .$$
#
# ```pycon
# >>> moved_by_score(mt.zeros(1, 2), mt.tensor([[1.0], [3.0]]))  # 1/2 * |1 - 2| and 1/2 * |3 - 2|
# tensor([[0.5000, 0.5000]])
# ```
#
# - Each row of `scores` $(T, n)$ belongs to a query, `values` is $(n, d)$; return $(T, n)$.
# - Scores may be in the hundreds, of either sign. No NaN may come out.
#
# *Not allowed*: the engine's `backward()` and `autograd.grad`.
#
# Guess before you run the check: one key has a score of 20, the others have 0. Which scores can move the output at all?
#
# <details><summary>First hint</summary>
#
# $\partial p_k / \partial e_j = p_k\,(\mathbb 1[k = j] - p_j)$. Put it into the sum over $k$: it becomes short.
#
# </details>
# <details><summary>Second hint</summary>
#
# $\partial o / \partial e_j = p_j\,(v_j - o)$.
#
# </details>


# %% solution="moved_by_score"

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
# *Core · medium · 30 minutes · 5 points*
#
# `layer` takes $n$ tokens, `X` $(n, d)$, with $n$ from 4 to 6, and gives $n$ outputs. **Return a permutation that shows that it notices the order**: a list `p`
# of the positions 0 to $n - 1$ for which `layer(X[p])` is not `layer(X)[p]`. Return None if there is none.
#
# ```pycon
# >>> noticed_order(lambda x: x + x.mean(0), mt.randn(4, 2, dtype=mt.float64)) is None
# True
# >>> p = noticed_order(lambda x: x.cumsum(0), mt.randn(4, 2, dtype=mt.float64))
# >>> p != sorted(p)
# True
# ```
#
# - Some layers notice few permutations, or show it at one token alone.
# - One that notices no exchange of two tokens may well notice two exchanges, one after the other.
# - `X` is in float64. Differences below $10^{-9}$ are rounding; one that counts is above $10^{-6}$, however large the outputs are.
#
# *Useful*: `X[p]` with a list (no tuple), `itertools.permutations`, `mt.allclose(a, b, rtol=0, atol=1e-8)`.
#
# <details><summary>First hint</summary>
#
# There are at most 720 permutations. Is it worth being clever?
#
# </details>
# <details><summary>Second hint</summary>
#
# `outputs[p]` are the old outputs in the new order. Compare all of them.
#
# </details>


# %% solution="noticed_order"

# %% tests="noticed_order" points=5
check.noticed_order(noticed_order)
### BEGIN HIDDEN TESTS
check.noticed_order(noticed_order, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A thousand times fewer operations
#
# *Practice · medium · 25 minutes · 3 points*
#
# Here nearness decides: key $k_j$ has the weight $\exp(-\lVert q - k_j \rVert^2 / 2)$, divided by the sum of all. Somebody wrote it down as it is read:


# %%
def slowly(query, key, value):
    """Query (T, d), key (n, d), value (n, d_v): averages, weighted by nearness, (T, d_v)."""
    rows = []
    for q in query:
        weights = [(-((q - k) ** 2).sum() / 2).exp() for k in key]
        rows.append(sum(w * v for w, v in zip(weights, value, strict=True)) / sum(weights))
    return mt.stack(rows)


# %% [markdown]
# Write it anew: the same numbers, with few operations. They are **counted**, not timed.
#
# ```pycon
# >>> by_distance(mt.tensor([[0.0]]), mt.tensor([[1.0], [-1.0]]), mt.tensor([[3.0], [5.0]]))
# tensor([[4.]])
# ```
#
# - At most 20 operations of the library, for any $T$ and $n$.
# - No result on the way has more than $T \cdot n$ numbers (or than the arguments and the output have).
# - Keys may be hundreds away from all queries. Where `slowly` divides 0 by 0, the nearest keys still have the weight.
#
# How many operations does `slowly` run for 30 queries and 40 keys?
#
# <details><summary>First hint</summary>
#
# A softmax of which scores? Multiply out the square.
#
# </details>
# <details><summary>Second hint</summary>
#
# $\lVert q \rVert^2 / 2$ is the same for all keys of a query: softmax does not change if it is left out.
#
# </details>


# %% solution="by_distance"

# %% tests="by_distance" points=3
check.by_distance(by_distance)
inputs = mt.randn(30, 8), mt.randn(40, 8), mt.randn(40, 8)
for function in (slowly, by_distance):
    with record_operations() as names:
        function(*inputs)
    print(f"{function.__name__}: {len(names)} operations")
### BEGIN HIDDEN TESTS
# Some 10,000, most of them on 8 numbers: each costs the way through the library, not its arithmetic.
check.by_distance(by_distance, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Find out
#
# *Practice · open · 60 minutes · 4 points*
#
# Ask a question of your own about what helps self-attention to learn, such as: does longer training change the best divisor? Answer it by runs.
# `check.trained` and `check.sequences` train and measure on exercise 10's task.
#
# - `run(setting, seed)` trains and measures **once**: a number. Same seed, same number.
# - `report()` returns a dict: `"question"`, two to four `"settings"`, five or more `"seeds"`, numbers that you chose as `"fixed"`, and three `"sentences"`:
#   what you found, how sure that is, what your runs do *not* show.
# - Each number in them follows the name of its setting, and is compared with the check's runs: [the rules](../../docs/exercises.md#Open-questions).
#
# <details><summary>First hint</summary>
#
# Change one thing. A divisor changes how large the steps ought to be: which rate is fair to both?
#
# </details>
# <details><summary>Second hint</summary>
#
# Run with any report first: the check prints mean and spread of all settings.
#
# </details>


# %% solution="find_out"
def run(setting, seed):
    """Train once, and measure once: a number."""
    ### BEGIN SOLUTION
    divisor = {"the root": "root", "64 itself": "d"}[setting]
    model, _ = check.trained(divisor, positions=True, rate=0.01, steps=40, seed=seed)
    mt.manual_seed(1000 + seed)
    tokens, targets = check.sequences(300)
    asked = targets != -100
    with mt.no_grad():
        return (model(tokens).argmax(dim=-1) == targets)[asked].float().mean().item()
    ### END SOLUTION


def report():
    """Question, settings, seeds, what was fixed, and three sentences: a dict."""
    ### BEGIN SOLUTION
    return {
        "question": "After 40 steps, is more right if scores are divided by 64 or by its root?",
        "settings": ["the root", "64 itself"],
        "seeds": [1, 2, 3, 4, 5],
        "fixed": {"steps": 40, "rate": 0.01},
        "sentences": [
            "With the root 66 % are right after 40 steps, with 64 itself 100 %.",
            "From the root to 64 itself all 5 seeds gain (p = 0.03), though with the root they "
            "spread by 19 %.",
            "The matrices start larger than usual here, and only the rate 0.01 was tried: with "
            "scores of the usual size the root may win.",
        ],
    }
    ### END SOLUTION


# %% tests="find_out" points=4
check.find_out(run, report)
### BEGIN HIDDEN TESTS
# The check gives the points for runs that can be repeated and true numbers; who reads takes away one
# for each that is missing (docs/instructors.md has the rubric).
# Here the rates 0.01 and 0.03 were tried on other seeds, and the order of the divisors was the same.
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The gradient by hand
#
# *Challenge · hard · 35 minutes · 5 points*
#
# Send a gradient back to one input that plays three roles. The forward pass, with `X` $(n, d)$ and `Q`, `K`, `V` $(d, d)$, is
#
# $$A = \text{softmax}\!\left(\frac{XQ\,(XK)^\top}{\sqrt{d}}\right), \qquad \text{output} = A\,XV$$
#
# Given `grad_output` $(n, d)$, the gradient with respect to the output, return those with respect to `X` $(n, d)$, `Q`, `K` and `V`
# $(d, d)$, in this order.
#
# ```pycon
# >>> one = mt.ones(1, 1)
# >>> self_attention_gradient(3 * one, one, one, 2 * one, one)  # one token: A = 1, output = X V
# (tensor([[2.]]), tensor([[0.]]), tensor([[0.]]), tensor([[3.]]))
# ```
#
# *Not allowed*: the engine's `backward()` and `autograd.grad`.
#
# <details><summary>First hint</summary>
#
# Go back step by step: output, weights, scores, queries and keys, matrices. Three gradients reach $X$. For $Y = XW$ and the gradient $G$ of $Y$,
# those of $X$ and $W$ are $G W^\top$ and $X^\top G$.
#
# </details>
# <details><summary>Second hint</summary>
#
# For each row of the softmax $\mathrm{grad\_score}_j = \alpha_j\, \big(\mathrm{grad\_weight}_j - \sum_l \alpha_l\, \mathrm{grad\_weight}_l\big)$.
#
# </details>


# %% solution="self_attention_gradient"

# %% tests="self_attention_gradient" points=5
check.self_attention_gradient(self_attention_gradient)
### BEGIN HIDDEN TESTS
check.self_attention_gradient(self_attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Train, and measure what was not seen
#
# *Challenge · hard · 35 minutes · 4 points: 2 for the measure, 2 for what is reached*
#
# ### The measure
#
# Return the share of right answers among all targets of the sentences that are **not among those seen**.
#
# ```pycon
# >>> class Zero(nn.Module):
# ...     def forward(self, tokens):
# ...         return mt.tensor([1.0, 0.0]).expand(*tokens.shape, 2)
# >>> sentences, targets = mt.tensor([[1, 2], [3, 4], [3, 4]]), mt.tensor([[1, 1], [0, -100], [0, -100]])
# >>> right_unseen(Zero(), sentences, targets, seen=mt.tensor([[1, 2]]))
# 1.0
# ```
#
# - `model(tokens)` gives scores $(B, n, C)$ for tokens $(B, n)$; the largest is its answer.
# - `sentences` $(N, n)$ are tokens, `targets` $(N, n)$ the right classes; where a target is $-100$, nothing is asked.
# - `seen` $(M, n)$ holds all sentences of training.
# - A sentence that comes twice (with the same targets) counts once.
# - Return None if no target is left.
# - Measure in `eval()`. Afterwards the model is in the mode in which it came.
#
# <details><summary>First hint</summary>
#
# A row as a tuple can be looked up in a set.
#
# </details>
# <details><summary>Second hint</summary>
#
# Put each new sentence into the set as you meet it: its second coming is then "seen".
#
# </details>


# %% solution="right_unseen"

# %% tests="right_unseen" points=2
check.right_unseen(right_unseen)
### BEGIN HIDDEN TESTS
check.right_unseen(right_unseen, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# Say for each of 8 tokens which token stood **two** places before. `check.trained(divisor, positions, rate, steps, seed)` returns a trained layer
# and the sentences that it has seen. `check.sequences(batch)` draws tokens and targets to measure with. Return a dict:
#
# - `"divisor"` of the scores: `"1"`, `"root"` (of 64) or `"d"` (64);
# - `"positions"`: True if a learned vector for the place is added to each token;
# - `"rate"` (it falls to zero), and `"steps"`, at most 150.
#
# By your `right_unseen`, 90 % have to be right with **each** of the seeds 11 to 13. Try with others. What share is right without positions, at best?


# %% solution="chosen_layer"
def chosen_layer():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"divisor": "d", "positions": True, "rate": 0.01, "steps": 150}
    ### END SOLUTION


# %% tests="chosen_layer" points=2
check.reached(right_unseen, chosen_layer)
### BEGIN HIDDEN TESTS
# A third: permuted tokens give permuted outputs, so the layer knows which tokens are there and not where. At best it names
# one of the 8 by a guess. With positions, scores of more than 100 are taught too little in 150 steps;
# divided by 8 they are still large, and it depends on the rate; divided by 64 they are as large as the chapter wants them.
check.right_unseen(right_unseen, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# [Chapter 06](../../notebooks/06_multi_head_attention.ipynb) lets the layer look at several places at once.
