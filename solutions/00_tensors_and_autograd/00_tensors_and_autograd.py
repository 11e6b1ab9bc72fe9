# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises 00: tensors and autograd
#
# Ten exercises, 40 points, about four and a half hours. The **core** (1, 3, 5 and 7) takes 90 minutes. They belong
# to [chapter 00](../../notebooks/00_tensors_and_autograd.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# No exercise asks that your results carry a gradient.

# %%
import math
import statistics
from collections import defaultdict

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.checks import chapter_00 as check
from textbook.checks import progress

progress.show("00")

# %% [markdown]
# ## 1. Softmax
#
# *Core · easy · 10 minutes · 2 points*
#
# Turn scores into probabilities: $p_i = e^{z_i} / \sum_j e^{z_j}$ along the last axis.
#
# ```pycon
# >>> softmax(mt.tensor([0.0, math.log(3)]))
# tensor([0.2500, 0.7500])
# ```
#
# - `scores` has shape $(\dots, V)$, and so has the result.
# - Scores may be as large as 1000, and differ by as much, within a row and between rows.
# - A score may be $-\infty$: its probability is exactly 0. Each row has a finite score.
#
# *Not allowed*: the library's softmax in all its forms, `log_softmax`, `logsumexp`, `cross_entropy`,
# `scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# What happens to $p$ when you add the same number to all scores of a row?
#
# </details>
# <details><summary>Second hint</summary>
#
# Choose that number so that no power is above 1. `amax(dim=-1, keepdim=True)` gives one number a row.
#
# </details>


# %% solution="softmax"

# %% tests="softmax" points=2
check.softmax(softmax)
### BEGIN HIDDEN TESTS
check.softmax(softmax, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Two models, one perplexity
#
# *Practice · easy · 20 minutes · 3 points*
#
# Two models, mixed, make a third: its **probability** of a word is `share` times that of the first plus $1 -$ `share` times
# that of the second. Return the perplexity of the third, a number.
#
# ```pycon
# >>> scores, others = mt.tensor([[0.0, 0.0]]), mt.tensor([[0.0, math.log(3)]])
# >>> round(perplexity(scores, others, 0.5, mt.tensor([1])), 4)  # 1 / (0.5 * 1/2 + 0.5 * 3/4)
# 1.6
# ```
#
# - Row $t$ of `scores` (first model) and `others` (second), $(T, V)$ each, scores word $t$; `targets` $(T)$ are the words.
# - `share` is from 0 to 1, both included.
# - Both probabilities of a word may be too small for floating point. The perplexity itself is finite.
#
# Can it be better than both? The check's cell tries it.
#
# *Useful*: `gather`, `mt.logaddexp`.
#
# <details><summary>First hint</summary>
#
# Stay with logarithms of probabilities all the way. What is $\log(e^a + e^b)$ called?
#
# </details>
# <details><summary>Second hint</summary>
#
# The logarithm of a share is added to a log-probability. That of a share of 0 is $-\infty$: `logaddexp` takes it.
#
# </details>


# %% solution="perplexity"

# %% tests="perplexity" points=3
check.perplexity(perplexity)
mt.manual_seed(0)
words = mt.randint(0, 5, (1000,))
right = F.one_hot(words, 5).float()
one, other = (2 * right + 2 * mt.randn(1000, 5) for _ in range(2))  # each is often wrong
for share in (1.0, 0.75, 0.5, 0.25, 0.0):
    print(f"share {share}: perplexity {perplexity(one, other, share, words):.3f}")
### BEGIN HIDDEN TESTS
# Yes, if they are wrong at different places: a word that one of them finds impossible is saved by the
# other. Even a model that is a little worse helps.
check.perplexity(perplexity, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then count: a step with frozen layers
#
# *Core · easy · 20 minutes · 3 points*
#
# How many FLOPs do the matrix products of one training step take, forward and backward?
#
# ```pycon
# >>> training_flops([2, 32, 3], frozen=0, batch=1)  # products of 2 * 2 * 32 and 2 * 32 * 3 FLOPs: two, and three
# 832
# ```
#
# - `sizes` are the widths of a multi-layer perceptron: `[2, 32, 3]` is a matrix from 2 to 32 and one from 32 to 3.
# - Its first `frozen` layers, none to all, stay as they are; the rest is trained, on `batch` examples.
# - Leave out biases, activations, and products that nobody needs: which gradients does a step need?
#
# Guess before you run the check: what share of a step is left if only the last of many equal layers is trained?
#
# <details><summary>First hint</summary>
#
# A trained layer makes up to three products: forward, for its weight, for its input. Who uses each?
#
# </details>
# <details><summary>Second hint</summary>
#
# Nobody asks for the gradient of the data: the first layer of the example has two products.
#
# </details>


# %% solution="training_flops"

# %% tests="training_flops" points=3
check.training_flops(training_flops)
sizes, batch = [64, 256, 256, 256, 10], 32
for frozen in (0, 1, 3):
    layers = [nn.Linear(n, m) for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    for layer in layers[:frozen]:
        layer.requires_grad_(False)
    with count_flops() as counter:
        x = mt.randn(batch, sizes[0])
        for layer in layers:
            x = layer(x).tanh()
        x.sum().backward()
    predicted = training_flops(sizes, frozen, batch)
    print(f"{frozen} frozen: predicted {predicted:,}, counted {counter.total:,}")
### BEGIN HIDDEN TESTS
# About a third: forward, all layers run; backward, only the last one makes a product, that for its
# weights. A whole step costs three times its forward pass (less one product), so freezing never saves
# more than two thirds.
check.training_flops(training_flops, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The gradient of copies
#
# *Practice · medium · 20 minutes · 4 points*
#
# An operation has copied a tensor. From `g`, the gradient with respect to its result, compute that with respect to the tensor.
#
# ```pycon
# >>> sum_copies(mt.tensor([1.0, 2.0, 3.0, 4.0]), (2,))  # (a, b) became (a, b, a, b)
# tensor([4., 6.])
# ```
#
# - `shape`, a tuple, is the shape of the copied tensor, and of your result.
# - Along each axis there may be several copies, one **after the other**.
# - There may be new axes in front, along which everything is the same.
# - The shape of `g` tells how many copies there are.
#
# *Not allowed*: `backward`, `autograd.grad`.
#
# <details><summary>First hint</summary>
#
# A number gets the sum of the gradients of its uses. Begin with the axes in front.
#
# </details>
# <details><summary>Second hint</summary>
#
# `g.unflatten(axis, (copies, size))` puts the copies along an axis of their own.
#
# </details>


# %% solution="sum_copies"

# %% tests="sum_copies" points=4
check.sum_copies(sum_copies)
### BEGIN HIDDEN TESTS
check.sum_copies(sum_copies, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A weight that is used twice
#
# *Core · medium · 25 minutes · 4 points*
#
# A network goes through a narrow place and back with one matrix: $h = xW + b$, then $y = h W^\top$. Given the gradient `g` of the
# loss with respect to $y$, return those with respect to $x$, $W$ and $b$, as a tuple.
#
# ```pycon
# >>> x, weight, bias, g = mt.tensor([[1.0]]), mt.tensor([[2.0]]), mt.tensor([3.0]), mt.tensor([[1.0]])
# >>> tied_gradients(x, weight, bias, g)  # y = (x W + b) W, so dy/dW = 2 x W + b
# (tensor([[4.]]), tensor([[7.]]), tensor([2.]))
# ```
#
# - `x` and `g` have shape $(\dots, k)$, with one leading axis or several; `weight` is $W$, $(k, m)$; `bias` is $b$, $(m)$.
#
# *Not allowed*: `backward`, `autograd.grad`.
#
# <details><summary>First hint</summary>
#
# $W$ is used in two places: what would its gradient be if these were two matrices?
#
# </details>
# <details><summary>Second hint</summary>
#
# For examples in rows, the gradient of $W$ in $xW$ is $x^\top$ times that of the product. Make all leading axes one.
#
# </details>


# %% solution="tied_gradients"

# %% tests="tied_gradients" points=4
check.tied_gradients(tied_gradients)
### BEGIN HIDDEN TESTS
check.tied_gradients(tied_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The spectral radius
#
# *Practice · medium · 15 minutes · 3 points*
#
# What does a matrix do when it is applied again and again? Estimate its spectral radius by **power iteration**.
#
# ```pycon
# >>> round(spectral_radius(mt.tensor([[2.0, 0.0], [0.0, 1.0]]), 40), 4)
# 2.0
# ```
#
# - Start with a row vector $v$ of $n$ ones; `matrix` is $W$, $(n, n)$.
# - In each of `steps` steps (two at least) divide $v$ by its length, then replace it by $vW$, which is never the zero vector.
# - The length of $vW$ is the step's *factor*: by so much it stretched a vector of length 1.
# - Leave out the first `steps // 2` factors. Return the geometric mean of the other $m$:
#   $(f_1 f_2 \cdots f_m)^{1/m} = \exp\big(\frac1m \sum_i \log f_i\big)$.
#
# <details><summary>First hint</summary>
#
# The factor is the length of $vW$ before the next step divides it.
#
# </details>
# <details><summary>Second hint</summary>
#
# A sum of logarithms cannot overflow; a product of a thousand factors can.
#
# </details>


# %% solution="spectral_radius"

# %% tests="spectral_radius" points=3
check.spectral_radius(spectral_radius)
### BEGIN HIDDEN TESTS
check.spectral_radius(spectral_radius, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these gradients are wrong?
#
# *Core · medium · 35 minutes · 5 points*
#
# `program.value(x)`, a tensor with one element, is a smooth function of `x` $(n, d)$;
# `program.gradient(x)` is said to be its gradient. A program is right if, for every `x` of any size,
#
# 1. the gradient is right, and has the shape of `x`;
# 2. `x` stays unchanged;
# 3. the same `x` gives the same again.
#
# Test them; return the numbers of the broken ones, counted from 0. Of these nine, five are:
#
# ```pycon
# >>> len(broken_gradients(check.programs()))
# 5
# ```
#
# Within $\pm 5$ a wrong gradient shows: an element is more than 1 % off its right value.

# %%
nine = check.programs()

# %% [markdown]
# *Not allowed*: `backward`, `autograd.grad`. *Useful*: `mt.randn(n, d).double()`, `mt.allclose`, `.clone()`.
#
# <details><summary>First hint</summary>
#
# Move one element of `x` a little up and down: how much does the value change? Which `x` hides a mistake?
#
# </details>
# <details><summary>Second hint</summary>
#
# Several sizes, $n \ne d$ among them, numbers of both signs. Keep a clone of `x`, and call twice.
#
# </details>


# %% solution="broken_gradients"

# %% tests="broken_gradients" points=5
check.broken_gradients(broken_gradients)
print("broken:", broken_gradients(nine))
### BEGIN HIDDEN TESTS
check.broken_gradients(broken_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Which optimizer is better?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Five optimizers were tried on a spiral (made-up numbers). Each run has two losses: `"elsewhere"`, to choose the rate by, and `"new"`, to report.

# %%
figure, axes = plot.subplots(width=7, height=4)
for marker, name in zip("os^Dv", sorted({run["optimizer"] for run in check.table}), strict=True):
    rows = [run for run in check.table if run["optimizer"] == name]
    rates, losses = ([run[key] for run in rows] for key in ("rate", "new"))
    axes.plot(rates, losses, marker, alpha=0.6, label=name)
axes.set(xscale="log", yscale="log", xlabel="rate", ylabel="loss on new points")
axes.legend(fontsize=8)
plot.show(
    figure, alt="Loss on new points against the rate, a point for each run of five optimizers"
)
for run in check.table:
    print("{optimizer:8}  rate {rate:6g}  seed {seed}  {elsewhere:6} {new:6}".format(**run))

# %% [markdown]
# Return all pairs (better, worse) of names. `runs` is a list like `check.table`.
#
# - A loss of NaN counts as $+\infty$.
# - For each optimizer choose the rate with the lowest **median** of `"elsewhere"`.
# - Leave out an optimizer whose chosen rate is the smallest or largest tried with it, or has fewer than five seeds at that rate.
# - One is *better* if each of its `"new"` losses, at its chosen rate, is below each of the other's.
#
# ```pycon
# >>> made_up = [
# ...     {"optimizer": name, "rate": rate, "seed": seed, "elsewhere": loss, "new": loss}
# ...     for name, best in (("A", 0.1), ("B", 0.5))
# ...     for rate, loss in ((1, best + 1), (2, best), (3, best + 1))
# ...     for seed in range(5)
# ... ]
# >>> conclusions(made_up)
# [('A', 'B')]
# ```
#
# <details><summary>First hint</summary>
#
# Group the runs, choose a rate for each optimizer, compare.
#
# </details>
# <details><summary>Second hint</summary>
#
# `min` and `max` behave strangely with NaN: replace it first.
#
# </details>


# %% solution="conclusions"

# %% tests="conclusions" points=4
check.conclusions(conclusions)
for better, worse in conclusions(check.table):
    print(f"{better} is better than {worse}")
### BEGIN HIDDEN TESTS
# RMSprop has the lowest losses, at the largest rate that was tried: its best rate may lie beyond, and
# nothing is known of what happens there. The only seed of Adagrad may be a lucky one. Momentum looks
# best of the other three at rate 0.3, on the points that are reported; chosen by the others its rate
# is 0.1, and there it is not apart from Adam.
check.conclusions(conclusions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Adam in parts
#
# *Challenge · hard · 45 minutes · 5 points: 3 for the step, 2 for what is reached*
#
# ### The step
#
# Make one step of Adam for a batch that comes in parts, and return its loss, a number.
#
# ```pycon
# >>> w, m, v = mt.tensor([0.0], requires_grad=True), mt.zeros(1), mt.zeros(1)
# >>> squared = lambda inputs, targets: ((w * inputs - targets) ** 2).mean()
# >>> parts = [(mt.tensor([1.0]), mt.tensor([3.0])), (mt.tensor([1.0, 1.0]), mt.tensor([0.0, 0.0]))]
# >>> round(step_in_parts(squared, parts, [w], [m], [v], t=1, lr=0.1), 4)  # (9 + 0 + 0) / 3
# 3.0
# >>> w.detach()
# tensor([0.1000])
# ```
#
# - `parts` are pairs (inputs, targets) of different lengths. `loss_of(inputs, targets)` is a part's **mean** loss, a tensor;
#   the batch's is the mean over **all** examples.
# - Call `backward` for each part: only one fits into the memory.
# - `means` and `squares` hold $m$ and $v$ of each parameter. With $g$ its gradient,
#
# $$m \leftarrow 0.9\, m + 0.1\, g, \quad v \leftarrow 0.999\, v + 0.001\, g^2, \quad
# w \leftarrow w - \text{lr}\; \frac{m / (1 - 0.9^t)}{\sqrt{v / (1 - 0.999^t)} + 10^{-8}}.$$
#
# - Change $m$, $v$ and $w$ **in place**, without recording. Gradients from before do not count.
# - A parameter without a gradient (None) stays as it is, with its $m$ and $v$.
#
# <details><summary>First hint</summary>
#
# `backward` adds to `.grad`. By what must the mean loss of a part be multiplied?
#
# </details>
# <details><summary>Second hint</summary>
#
# `len(targets) / count`, with `count` the examples of all parts. First set each `.grad` to None; last, `copy_` under `mt.no_grad()`.
#
# </details>


# %% solution="step_in_parts"

# %% tests="step_in_parts" points=3
check.step_in_parts(step_in_parts)
### BEGIN HIDDEN TESTS
check.step_in_parts(step_in_parts, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# `check.trained(step, rate, steps, seed)` returns a perceptron that learned 90 points of a noisy spiral by your step.
# `check.spiral(count)` draws new points $(3 \cdot \text{count}, 2)$ and the arm of each. Return a dict:
#
# - `"rate"` and `"steps"`, at most 200;
# - `"right"`: the share of **new** points whose arm has the largest score, measured by you.
#
# With the seeds 11 to 20 (use others), 83 % have to be right on average; `"right"` may be off by 0.04. Why not measure on the 90 points?


# %% solution="chosen_training"
def chosen_training():
    """What is trained, and what it reaches: a dict."""
    ### BEGIN SOLUTION
    return {"rate": 0.03, "steps": 200, "right": 0.9}
    ### END SOLUTION


# %% tests="chosen_training" points=2
check.reached(step_in_parts, chosen_training)
### BEGIN HIDDEN TESTS
# On the points of the training nearly all are right, and on new ones fewer: the arms overlap,
# and a network that has learned 90 points by heart has learned their noise, too. How much is reached
# must be measured on points that have had no part in the training nor in the choice of the rate.
check.step_in_parts(step_in_parts, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. An engine whose gradients have gradients
#
# *Challenge · hard · 60 minutes · 7 points*
#
# Write the class `Value`: a number, in `data`, that remembers how it was computed.
#
# ```pycon
# >>> x = Value(3.0)
# >>> [slope] = (x * x * x).gradients([x])
# >>> [curvature] = slope.gradients([x])
# >>> slope.data, curvature.data  # 3 x^2 and 6 x
# (27.0, 18.0)
# ```
#
# - `a + b`, `a - b`, `a * b`, `a / b` of two values and `a.exp()` return new values.
# - `result.gradients([a, b])` returns a list, the derivative with respect to each. **These are values, too**, with gradients of their own.
# - The derivative of `result` with respect to itself is 1; to a value that it does not depend on, 0.
# - A second call finds the same.
# - Graphs may have too many paths to walk each, and longer chains than Python's recursion allows.
#
# `parents` and `slopes` are a suggestion. *Not allowed*: the library.
#
# <details><summary>First hint</summary>
#
# In the chapter a slope was a number. What must it be here?
#
# </details>
# <details><summary>Second hint</summary>
#
# The slope of $a / b$ toward $b$ contains a quotient, whose slopes contain quotients, and so on. So make slopes when they are asked for.
#
# </details>


# %% solution="Value"

# %% tests="Value" points=7
check.Value(Value)
x = Value(1.0)
for _ in range(6):  # Newton's method: where is the slope of exp(x) - 3 x equal to 0?
    [slope] = (x.exp() - Value(3.0) * x).gradients([x])
    [curvature] = slope.gradients([x])
    x = Value(x.data - slope.data / curvature.data)
print(f"x = {x.data:.6f}, log 3 = {math.log(3):.6f}")
### BEGIN HIDDEN TESTS
# A slope must be a value, made of the values that it depends on, or a gradient would be a constant for
# the next call. The slope of a / b toward b is -a / b / b, again two quotients, whose slopes are
# quotients: made at once, this would never end. So a slope is a function that is called when needed.
check.Value(Value, hidden=True)
### END HIDDEN TESTS
