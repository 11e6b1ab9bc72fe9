# %% [markdown]
# # Exercises 13: pretraining
#
# Ten exercises, 40 points, about five and a half hours. The **core** (1, 2, 4, 7) takes 100 minutes. They belong
# to [chapter 13](../../notebooks/13_pretraining.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 4 and 8 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy.
#
# **Shapes.** $B$ sequences of $n$ tokens from a vocabulary of $V$; states have the size $d$. Token 0 is padding, at the end. *Blanks*, boolean $(B, n)$, are the places
# that a masked language model is asked about, whatever the input shows. `OneStack(vocabulary, width, heads, hidden, layers)` is [chapter 10](../../notebooks/10_transformer.ipynb)'s.

# %%
import copy
import math
from collections import defaultdict
from itertools import pairwise

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_10 import OneStack
from textbook.checks import chapter_13 as check
from textbook.checks import progress

progress.show("13")

# %% [markdown]
# ## 1. Tokens for a loss
#
# *Core · easy · 20 minutes · 3 points*
#
# How much text did a model need?
#
# ```pycon
# >>> tokens_needed([1000, 4000], [3.0, 2.0], 2.5)  # half of the way, in logarithms
# 2000.0
# ```
#
# After `tokens`, a list of rising numbers, its losses were `losses`. Return the number of tokens at which the loss was `loss` or lower
# **for the first time**.
#
# - Between two points the curve is straight over the **logarithm** of the tokens. Losses may rise in between.
# - If the first point has reached the loss, return its tokens; if none has, None.
#
# <details><summary>First hint</summary>
#
# Take the first pair of neighbours whose end has the loss.
#
# </details>
# <details><summary>Second hint</summary>
#
# If a share $a$ of the loss's way is done there, it is $t\,(u/t)^a$ between $t$ and $u$.
#
# </details>


# %% solution="tokens_needed"

# %% tests="tokens_needed" points=3
check.tokens_needed(tokens_needed)
small = [20_000, 60_000, 180_000, 540_000], [2.95, 2.80, 2.62, 2.45]
large = [20_000, 60_000, 180_000, 540_000], [2.94, 2.71, 2.36, 2.10]  # made up
for loss in (2.8, 2.5, 2.2):
    print(f"loss {loss}:", *(tokens_needed(*curve, loss) for curve in (small, large)))
### BEGIN HIDDEN TESTS
check.tokens_needed(tokens_needed, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Predict, then count
#
# *Core · easy · 25 minutes · 3 points*
#
# What does a budget buy?
#
# ```pycon
# >>> training_plan(6000, vocabulary=5, width=2, hidden=4, layers=1, n=2, batch=1, text=100, share=0.5)
# {'FLOPs of a token': 300, 'steps': 10, 'passes': 0.2, 'blanks': 10.0}
# ```
#
# A `OneStack` of these sizes is trained as a masked language model. A step reads `batch` sequences of $n$ tokens; a share `share` are blanks. Return a dict:
#
# - `"FLOPs of a token"`: a token's cost in training;
# - `"steps"`: the whole steps that `budget` FLOPs pay;
# - `"passes"`: how often these read a text of `text` tokens;
# - `"blanks"`: how many the loss sees in all, on average.
#
# Count products with weights and the two of attention, forward and backward, a multiplication with its addition as 2. All places go through all layers and the output.
#
# What does a larger batch cost?
#
# <details><summary>First hint</summary>
#
# Backward costs twice forward. A token's scores meet $n$ keys.
#
# </details>
# <details><summary>Second hint</summary>
#
# A block: four matrices $(d, d)$, two $(d, \text{hidden})$, and $2nd$ for scores and mixing.
#
# </details>


# %% solution="training_plan"

# %% tests="training_plan" points=3
check.training_plan(training_plan)
predicted = training_plan(1e9, 35, 16, 40, 2, 9, 8, text=10_000, share=0.15)
tokens = mt.randint(4, 35, (8, 9))
with count_flops() as counter:
    scores = OneStack(35, 16, 4, 40, 2, causal=False)(tokens)
    F.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
print(f"a token: predicted {predicted['FLOPs of a token']:,}, counted {counter.total / 72:,.0f}")
print(f"{predicted['steps']} steps, {predicted['passes']:.2f} passes over the text")
for width, batch in ((32, 4), (64, 4), (32, 16)):
    plan = training_plan(2e11, 98, width, 4 * width, 2, 64, batch, text=5_900_000, share=0.15)
    print(f"width {width}, batch {batch}: {plan['steps']} steps")
### BEGIN HIDDEN TESTS
# Twice the width costs a little less than four times as much (the output and attention's products
# grow with the width, not with its square), so not many more than a quarter of the steps are left.
# Four times the batch leaves a quarter of the steps. A large model on a small budget is short of
# updates, which a small batch makes up for.
check.training_plan(training_plan, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A figure with an error
#
# *Practice · medium · 35 minutes · 4 points*
#
# Each run has spent a budget on a model of some size (made up). Which is on the wrong curve? Which curve has no best?

# %%
figure, axes = plot.subplots(width=7, height=4)
for budget in sorted({run["budget"] for run in check.figure}):
    curve = [run for run in check.figure if run["budget"] == budget]
    weights, losses = ([run[key] for run in curve] for key in ("weights", "loss"))
    axes.plot(weights, losses, marker="o", label=f"{budget:.3g} FLOPs")
axes.set(xscale="log", xlabel="weights N", ylabel="loss")
axes.legend()
plot.show(figure, alt="Loss against the size of the model, a curve for each of four budgets")
print("     budget  weights  FLOPs of a token     tokens   loss")
for run in check.figure:
    each, tokens = f"{run['FLOPs of a token']:,.0f}", f"{run['tokens']:,}"
    print(f"{run['budget']:11.3g} {run['weights']:8,} {each:>17} {tokens:>10}  {run['loss']:.3f}")

# %% [markdown]
# Return a dict from each budget to the best number of weights $N$.
#
# ```pycon
# >>> run = {"budget": 6e6, "FLOPs of a token": 60, "tokens": 100_000}
# >>> runs = [run | {"weights": n, "loss": loss} for n, loss in ((10, 2.0), (100, 1.0), (1000, 2.0))]
# >>> round(best_sizes(runs)[6e6]), best_sizes(runs[:2])
# (100, {6000000.0: None})
# ```
#
# `runs` is a list like `check.figure`, in any order.
#
# - Leave out runs whose `"FLOPs of a token"` times `"tokens"` differ from their budget by more than 5 %.
# - If the smallest or largest model left has the lowest loss, the best is None.
# - Else it is where a parabola is lowest, of the loss over $\log N$, through the lowest run and its two neighbours.
#
# <details><summary>First hint</summary>
#
# Of each budget sort the honest runs by size, find the lowest.
#
# </details>
# <details><summary>Second hint</summary>
#
# `np.polyfit`; $a x^2 + b x + c$ is lowest at $-b / (2a)$. Here $x = \log N$.
#
# </details>


# %% solution="best_sizes"

# %% tests="best_sizes" points=4
check.best_sizes(best_sizes)
for budget, size in sorted(best_sizes(check.figure).items()):
    print(f"{budget:9.3g} FLOPs:", "not bracketed" if size is None else f"{size:,.0f} weights")
### BEGIN HIDDEN TESTS
# At 2e11 FLOPs the run with 110,000 weights has read four times the tokens that its budget pays. It
# is the lowest of its curve, so the best size would stand at its edge, far above that of the others:
# "not known", or much too large. At 8e11 the loss rises from the largest size to smaller ones alone,
# so this curve has no minimum inside.
check.best_sizes(best_sizes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The loss of a batch in parts
#
# *Core · medium · 25 minutes · 4 points*
#
# Ask about blanks alone, all alike.
#
# ```pycon
# >>> part = mt.zeros(1, 2, 4), mt.tensor([[3, 1]]), mt.tensor([[True, False]])  # four tokens, equal chances
# >>> blank_loss([part]) / math.log(4)
# tensor(1.)
# ```
#
# A batch comes in `parts`: tuples of scores $(B, n, V)$, original tokens $(B, n)$ and blanks $(B, n)$, whose sizes differ. Return the loss of the whole batch, a tensor without axes:
#
# $$\frac{1}{\text{number of blanks in all parts}} \sum_{\text{blanks}} -\log p(\text{original token}).$$
#
# - Elsewhere scores may be NaN, and their gradient is 0.
# - A batch without blanks has the loss 0 and the gradient 0.
# - Scores may be in the thousands.
#
# Why is that not the mean of the parts' losses?
#
# *Not allowed*: `F.cross_entropy`.
#
# <details><summary>First hint</summary>
#
# `scores[blanks]` is $(k, V)$.
#
# </details>
# <details><summary>Second hint</summary>
#
# Add up losses and numbers of blanks; divide once, by 1 at least. An empty sum is 0, with a gradient.
#
# </details>


# %% solution="blank_loss"

# %% tests="blank_loss" points=4
check.blank_loss(blank_loss)
### BEGIN HIDDEN TESTS
# Each part would count alike, so a blank in a part with few of them would weigh more than one in a
# part with many: the gradient would depend on how the batch was cut.
check.blank_loss(blank_loss, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Multiple choice
#
# *Practice · medium · 30 minutes · 4 points*
#
# Let a causal language model choose among answers, without training it.
#
# ```pycon
# >>> undecided = lambda tokens: mt.zeros(*tokens.shape, 2)
# >>> [scores] = completion_scores(undecided, prompts=[[1]], choices=[[[1], [0, 1, 1]]], mean=False)
# >>> scores / math.log(2)
# tensor([-1., -3.])
# ```
#
# `model(tokens)` makes of tokens $(B, n)$ scores $(B, n, V)$. `prompts` is a list of lists of tokens; `choices[i]` lists the
# completions of prompt $i$, lists of tokens, too; none is empty. Return a list with a tensor for each prompt: for each of its completions $c$ of $k$ tokens
#
# $$\log p(c \mid \text{prompt}) = \sum_{j=1}^{k} \log p(c_j \mid \text{prompt}, c_1, \dots, c_{j-1}),$$
#
# divided by $k$ if `mean` is True.
#
# All completions of all prompts go through the model in **one** call: pad with 0. Which score prefers short completions?
#
# <details><summary>First hint</summary>
#
# A row for each pair, prompt and completion, and a boolean table of the places asked.
#
# </details>
# <details><summary>Second hint</summary>
#
# Scores at place $t$ are for the token at $t + 1$: shift before you `gather`.
#
# </details>


# %% solution="completion_scores"

# %% tests="completion_scores" points=4
check.completion_scores(completion_scores)
### BEGIN HIDDEN TESTS
# The sum: each token more adds a logarithm below 0. The mean does not, but it favours completions
# whose last tokens follow from the first ones, since these are cheap.
check.completion_scores(completion_scores, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What does a state know?
#
# *Practice · medium · 35 minutes · 4 points*
#
# Fit a linear probe.
#
# ```pycon
# >>> states, labels = mt.tensor([[-1.0], [1.0]]).double(), mt.tensor([0, 1])
# >>> strength, scores = probe(states, labels, states, labels, states[1:], strengths=[1.0, 2.0])
# >>> strength, scores.tolist()
# (2.0, [[0.25, 0.75]])
# ```
#
# `train` $(N, d)$, `validation` and `test` are states; `labels` and `validation_labels` their classes, 0 to $C - 1$, all in `labels`.
#
# 1. Standardise all states by mean and standard deviation (divisor $N$) of the **training** states. A feature that is constant there becomes 0 in all.
# 2. For each $\lambda > 0$ in `strengths` find $W$ $(d, C)$ and $b$ $(C)$ that minimise $\sum_i \|x_i W + b - y_i\|^2 + \lambda \|W\|^2$ over the training states, $y_i$ the one-hot class.
# 3. Choose the strength with the largest share right on **validation** states, among equals the largest.
#
# Return it and the scores $(M, C)$ of the test states. Which second probe shows that *pretraining* has taught this?
#
# <details><summary>First hint</summary>
#
# Standardised states have the mean 0: $b$ is the mean of the one-hot rows.
#
# </details>
# <details><summary>Second hint</summary>
#
# $(X^\top X + \lambda I)\, W = X^\top (Y - b)$: `np.linalg.solve(A, B)` finds $X$ with $AX = B$.
#
# </details>


# %% solution="probe"

# %% tests="probe" points=4
check.probe(probe)
### BEGIN HIDDEN TESTS
# The same probe on the states of an encoder with random weights: much can be read off these, too.
check.probe(probe, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Words as blanks
#
# *Core · medium · 30 minutes · 5 points*
#
# The rest of a word gives a hidden token away, so whole words become blanks.
#
# ```pycon
# >>> tokens, words = mt.tensor([[2, 7, 8, 3]]), mt.tensor([[-1, 0, 0, -1]])
# >>> inputs, blanks = mask_words(tokens, words, share=1.0, mask=1, ordinary=mt.tensor([7, 8, 9]))
# >>> blanks.tolist()
# [[False, True, True, False]]
# ```
#
# `words` $(B, n)$ says which word of its sequence each of `tokens` $(B, n)$ belongs to, from 0; it is $-1$ at special tokens. Each word becomes a blank with
# probability `share`, independently. Then all its tokens are blanks, and each by itself shows
#
# - the token `mask` with probability 0.8,
# - a token drawn evenly from `ordinary`, itself included, with probability 0.1,
# - itself with probability 0.1.
#
# Return the inputs and the blanks, $(B, n)$ each. Nothing else changes; every call draws anew.
#
# *Useful*: `mt.rand`, `mt.randint`, `mt.gather`, `mt.where`.
#
# <details><summary>First hint</summary>
#
# Draw a table $(B, n)$ whose column $k$ belongs to word $k$.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mt.gather` gives each token its word's draw. One more number a token decides what it shows.
#
# </details>


# %% solution="mask_words"

# %% tests="mask_words" points=5
check.mask_words(mask_words)
### BEGIN HIDDEN TESTS
check.mask_words(mask_words, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The last blocks alone
#
# *Practice · medium · 35 minutes · 4 points*
#
# Train a part of a pretrained model.
#
# ```pycon
# >>> PartlyTuned(OneStack(9, 4, 2, 8, 3, causal=False), classes=5, trained=1)(mt.tensor([[4, 6, 0]])).shape
# minitorch.Size([1, 5])
# ```
#
# `pretrained` is a `OneStack`: `embedded`, `blocks`, `norm`, `out`, and the method `states(tokens)`, $(B, n)$ to $(B, n, d)$. Make a module of it that gives texts `classes` scores: a new `nn.Linear(d, classes)` reads the mean of the states of all
# **real** tokens (0 is padding).
#
# - The last `trained` blocks, the norm behind them and the new layer are trained, with `trained` = 0 the new layer alone. All else is frozen.
# - In `train()` only what is trained has dropout; in `eval()`, which calls `train(False)`, nothing has.
# - `pretrained` stays as it is, and can still be trained as a whole.
#
# <details><summary>First hint</summary>
#
# `copy.deepcopy`. List the frozen parts: each gets `requires_grad_(False)` and `eval()`, also after `train()`.
#
# </details>
# <details><summary>Second hint</summary>
#
# `train(mode)`: call the base class, put frozen parts back into `eval()`, return `self`.
#
# </details>


# %% solution="PartlyTuned"

# %% tests="PartlyTuned" points=4
check.PartlyTuned(PartlyTuned)
### BEGIN HIDDEN TESTS
check.PartlyTuned(PartlyTuned, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Which of these studies is unfair?
#
# *Challenge · hard · 40 minutes · 4 points*
#
# Return the numbers of the unfair studies, from 0. Of these eight five are:
#
# ```pycon
# >>> eight = check.studies()
# >>> accuracy = lambda method, rate, count, seed, data: 0.5  # after count steps; data: "validation" or "test"
# >>> eight[0](accuracy, rates=[0.1, 0.3], steps=[10], choosing=[1], reporting=[2])["frozen"]
# {'mean': 0.5, 'at the edge': True}
# >>> len(unfair(eight))
# 5
# ```
#
# A study compares `"frozen"`, `"untrained"` and `"from scratch"`.
# An honest one finds for each, by itself, the pair of `rates` and `steps` with the best mean accuracy on validation data over seeds in `choosing`. It returns a dict from each method to a dict:
#
# - `"mean"`, of this pair, on test data over seeds in `reporting`;
# - `"at the edge"`: is its rate the smallest or largest given, or its steps the most?
#
# A study is **unfair** if for some arguments it returns anything else, by $10^{-9}$ or more.

# %%
eight = check.studies()

# %% [markdown]
# <details><summary>First hint</summary>
#
# Write the honest study, and compare reports.
#
# </details>
# <details><summary>Second hint</summary>
#
# A `defaultdict` of random numbers is an `accuracy`. Draw several, with rates out of order, three seeds or more.
#
# </details>


# %% solution="unfair"

# %% tests="unfair" points=4
check.unfair(unfair)
### BEGIN HIDDEN TESTS
check.unfair(unfair, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Pretrain, and measure what it is worth
#
# *Challenge · hard · 60 minutes · 5 points: training 3, gain 2*
#
# ### The training
#
# Train `model(tokens)`, which gives scores $(B, n, V)$, as a masked language model, in place.
#
# ```pycon
# >>> model, sentences = OneStack(9, 4, 2, 8, 1, causal=False), mt.randint(4, 9, (50, 8))
# >>> len(pretrain(model, sentences, special=[0, 1, 2, 3], mask=1, steps=3, rate=0.01))
# 3
# ```
#
# `sentences` $(N, n)$ are padded with 0. Return the losses of all steps, plain numbers.
#
# - Each of `steps` steps draws sentences (32 are enough) and blanks: a third of the tokens at most, none of those in `special`.
# - At least half of the blanks show `mask`. The loss is that of the blanks alone.
# - `rate` is the largest learning rate.
#
# *Useful*: `optim.Adam`, `nn.utils.clip_grad_norm_`.
#
# <details><summary>First hint</summary>
#
# `(tokens.unsqueeze(-1) != mt.tensor(special)).all(dim=-1)` are the tokens that may become blanks.
#
# </details>
# <details><summary>Second hint</summary>
#
# `F.cross_entropy(scores[blanks], original[blanks])`. One blank a sentence is few.
# Adam learns the check's sentences in 100 steps at the rate 0.01.
#
# </details>


# %% solution="pretrain"

# %% tests="pretrain" points=3
check.pretrain(pretrain)
### BEGIN HIDDEN TESTS
check.pretrain(pretrain, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### What it is worth
#
# Your function pretrains an encoder on 5,000 numbers in words. It and a fresh one learn from **20 labelled numbers** what each word counts (hundreds, say). Return a dict:
#
# - `"pretraining steps"`, 1,500 at most, and `"pretraining rate"`;
# - `"rates"`, three to six, and `"steps"`, three to five numbers up to 400, from which both choose, as in exercise 9.
#
# Pretraining must gain 0.1 of the places with **each** of three seeds. No choice may stand at an edge: the smallest or largest rate, or the most steps.
#
# *Try* `check.encoder()`, `check.sentences(count, seed)` (mask 1, special 0 to 3).


# %% solution="plan"
def plan():
    """What is tried: a dict."""
    ### BEGIN SOLUTION
    return {
        "pretraining steps": 1000,
        "pretraining rate": 0.003,
        "rates": [0.0001, 0.001, 0.003, 0.01, 0.03],
        "steps": [15, 30, 60, 120],
    }
    ### END SOLUTION


# %% tests="plan" points=2
check.reached(pretrain, plan)
### BEGIN HIDDEN TESTS
check.pretrain(pretrain, hidden=True)
### END HIDDEN TESTS
