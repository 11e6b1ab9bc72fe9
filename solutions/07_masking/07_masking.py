# %% [markdown]
# # Exercises 07: masking
#
# Ten exercises, 40 points, about six hours. The **core** (1, 3, 4) takes 85 minutes. They belong
# to [chapter 07](../../notebooks/07_masking.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 7 and 8 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy on the way there.
#
# **Shapes and conventions.** $B$ sequences of $n$ tokens, each a vector of size $d$; $h$ heads. In scores and masks, row $i$ is query $i$ and
# column $j$ is key $j$, counted from 0. Masks are boolean, and **True means: may look**, as in `F.scaled_dot_product_attention`.
# (`nn.MultiheadAttention` and the library's `data.padding_mask` mean the opposite.)

# %%
import inspect
import math
from functools import partial

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook import plot
from textbook.chapter_07 import AttentionModel, train_on
from textbook.checks import chapter_07 as check
from textbook.checks import progress

progress.show("07")

# %% [markdown]
# ## 1. The last tokens of a batch
#
# *Core · easy · 20 minutes · 3 points*
#
# A model writes. The prompts of a batch all end in the last of $n$ positions, so the padding stands **in front**. Keys and values of earlier
# tokens are kept, and only the last $T \le n$ positions ask. Return the mask for their scores $(B, h, T, n)$: a query may look at a key that does
# not come after it and is no padding. All heads share it, so its shape is $(B, 1, T, n)$, boolean.
#
# ```pycon
# >>> chunk_mask(mt.tensor([1, 3]), T=2, n=3).long()[:, 0].tolist()
# [[[0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]]]
# ```
#
# - `lengths` $(B)$ says how many of the last positions hold tokens, from 1 to $n$.
# - Only keys are masked. A row that belongs to padding stays what the rule makes of it, even if nothing is left to look at.
#
# If the padding stood at the end and all positions asked, the causal mask alone would do for the real tokens. Why?
#
# <details><summary>First hint</summary>
#
# The place of query $t$ is $n - T + t$. Compare places with places.
#
# </details>
# <details><summary>Second hint</summary>
#
# Two masks, $(T, n)$ and $(B, n)$, joined by `&`: give the second one axes for heads and queries.
#
# </details>


# %% solution="chunk_mask"

# %% tests="chunk_mask" points=3
check.chunk_mask(chunk_mask)
### BEGIN HIDDEN TESTS
# Lengths 1 and 3, T = 2, n = 3: FFF, FFT for the first sequence, TTF, TTT for the second. With padding
# at the end every padded key comes after every real query: it is the future, and masked already.
check.chunk_mask(chunk_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Read what somebody wrote
#
# *Practice · medium · 25 minutes · 4 points*
#
# Six people have written the mask of a causal model. `lengths` $(B)$ says how many of the $n$ places of each sentence are tokens; padding stands at the end. Read them:

# %%
for program in check.written.values():
    print(inspect.getsource(program))

# %% [markdown]
# Return a dict from each letter to None, if the mask is always right, or to a pair for which it is **not**: a list of lengths, and $n$.
#
# - A right mask is boolean, $(B, n, n)$.
# - A token may look at the tokens up to itself, and at nothing else.
# - What a query of padding may look at is free, but it must see something: a softmax over nothing is not a number.
# - Lengths go from 1 to $n$; $n$ is at most 8.
#
# You may run them, of course; but say first what you expect. Three are right, and one of these never asks for the lengths. How can that be?
#
# <details><summary>First hint</summary>
#
# Draw the mask of lengths `[1, 2]` and `n = 2` on paper for each: rows are queries.
#
# </details>
# <details><summary>Second hint</summary>
#
# Three things can go wrong: a token's row, an empty row, the shape. For each program ask all three.
#
# </details>


# %% solution="counterexamples"

# %% tests="counterexamples" points=4
check.counterexamples(counterexamples)
### BEGIN HIDDEN TESTS
# C: padding stands behind all tokens, so the causal mask hides it from each of them. For the same reason E is right: the
# place too many, behind the last token, is seen by padding alone. B leaves rows of padding empty; D takes the
# shortest sentence for all; F makes a mask that is too small where no sentence is full.
check.counterexamples(counterexamples, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Which of these encoders read the padding?
#
# *Core · medium · 35 minutes · 4 points*
#
# Write the test that finds a wrong padding mask. Eight encoders are functions of `x` $(B, n, 6)$ and `lengths` $(B)$: of sentence $b$ the first
# `lengths[b]` positions are real, one at least. They return $(B, n, 6)$ in float64, for any $B$ and $n$. You cannot look inside. An encoder is right
# if **every real position of a sentence in a batch gets what it gets alone**, without padding, up to rounding ($10^{-9}$). What it returns at the
# padding does not matter, be it NaN.
#
# Return the numbers of the others, counted from 0. Of these eight five read the padding:
#
# ```pycon
# >>> len(reading_padding(check.suspects()))
# 5
# ```
#
# All that do show it with at most four sentences and eight positions, some only with some numbers of sentences. `x` holds ordinary numbers.

# %%
eight = check.suspects()

# %% [markdown]
# *Useful*: `mt.randn(B, n, 6, dtype=mt.float64)`, `mt.allclose`.
#
# <details><summary>First hint</summary>
#
# For each sentence of a batch, compare its real positions with what the encoder gives for it alone.
#
# </details>
# <details><summary>Second hint</summary>
#
# Try batches of 1, 2, 3 and 4 sentences; a batch in which none is as long as $n$; one in which the longest is not the first.
#
# </details>


# %% solution="reading_padding"

# %% tests="reading_padding" points=4
check.reading_padding(reading_padding)
print("these read the padding:", reading_padding(eight))
### BEGIN HIDDEN TESTS
check.reading_padding(reading_padding, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Does it leak?
#
# *Core · medium · 30 minutes · 4 points*
#
# `model` makes of $n$ tokens, `x` $(n, d)$, as many outputs, $(n, k)$. You cannot look inside, but gradients tell. Return a boolean tensor $(n, n)$: entry
# $(i, j)$ is True if output $i$ depends on token $j$, that is, if at least one of the numbers $\partial\, \text{output}_{ic} / \partial x_{jm}$ is not zero.
#
# ```pycon
# >>> dependence(lambda x: x.cumsum(0), mt.randn(3, 2)).long()
# tensor([[1, 0, 0],
#         [1, 1, 0],
#         [1, 1, 1]])
# ```
#
# The models are smooth. Some leaks are hard to see: think of numbers that cancel one another in a sum, and of small ones.
#
# *Useful*: `x.clone().requires_grad_()`; `mt.autograd.grad(number, x, retain_graph=True)` returns a tuple with one gradient.
#
# <details><summary>First hint</summary>
#
# What could the gradient of `output[i].sum()` miss?
#
# </details>
# <details><summary>Second hint</summary>
#
# One gradient for each number of each output. Ask `!= 0`, not "larger than".
#
# </details>


# %% solution="dependence"

# %% tests="dependence" points=4
check.dependence(dependence)
### BEGIN HIDDEN TESTS
check.dependence(dependence, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Predict, then run
#
# *Practice · medium · 25 minutes · 3 points*
#
# What does a stack of masks let through? Each layer of self-attention **adds** what it gives to its input, and the next layer takes the sum. Layer $l$
# has the mask `masks[l]`, boolean $(n, n)$; they may differ. Return the boolean tensor $(n, n)$ whose entry $(i, j)$ is True if output $i$ of the last layer
# depends on token $j$, over whatever way.
#
# ```pycon
# >>> step_back = mt.tensor([[False, False, False], [True, False, False], [False, True, False]])
# >>> reach([step_back, step_back]).long()
# tensor([[1, 0, 0],
#         [1, 1, 0],
#         [1, 1, 1]])
# ```
#
# A row with nothing to look at adds nothing. Guess before you run the check: with a window of $w$ (itself and the $w - 1$ tokens before) in each of $L$ layers,
# on how many tokens does an output depend?
#
# <details><summary>First hint</summary>
#
# After one layer, output $i$ knows of token $i$ and of what `masks[0][i]` allows.
#
# </details>
# <details><summary>Second hint</summary>
#
# After each further layer: of what those know that it may look at, itself included. A product of matrices does that.
#
# </details>


# %% solution="reach"

# %% tests="reach" points=3
check.reach(reach)
n, w = 8, 3
back = mt.arange(n).unsqueeze(1) - mt.arange(n)
window = (back >= 0) & (back < w)
x = mt.randn(n, 2, dtype=mt.float64, requires_grad=True)
for layers in (1, 2, 3):
    outputs = x
    for _ in range(layers):
        outputs = outputs + F.scaled_dot_product_attention(outputs, outputs, outputs, window)
    [gradient] = mt.autograd.grad(outputs[-1].sum(), x)
    measured, predicted = (
        (gradient != 0).any(dim=1).sum().item(),
        reach([window] * layers)[-1].sum(),
    )
    print(
        f"{layers} layers: output {n - 1} depends on {measured} tokens, predicted {predicted.item()}"
    )
### BEGIN HIDDEN TESTS
# On L (w - 1) + 1 tokens, as far as there are so many: each layer reaches w - 1 further back.
check.reach(reach, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Who has seen the future?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Seven language models have been measured twice, as in [section 1 of the chapter](../../notebooks/07_masking.ipynb#1.-A-model-that-cheats): in one pass, and from the
# prefix, at each of eight positions (the numbers are made up). Which models leak? Which leaks at a single position? One was measured wrongly, its two losses
# belong to different weights: how can one tell? And why is the lowest curve not the best model?

# %%
figure, panels = plot.subplots(1, 2, width=9.5, height=3, sharey=True)
for axes, way in zip(panels, ("in one pass", "from the prefix"), strict=True):
    for run in check.runs:
        axes.plot(range(1, 9), run[way], marker="o", markersize=3, label=run["model"])
    axes.set(xlabel="position", title=way, ylim=(0, 4))
panels[0].set(ylabel="loss")
panels[1].legend(fontsize=7)
plot.show(figure, alt="Loss by position for seven models, in one pass and from the prefix")
for run in check.runs:
    for way in ("in one pass", "from the prefix"):
        losses = " ".join(f"{loss:.2f}" for loss in run[way])
        print(f"{run['model']:28} {run['text']:9} {way:16} {losses}")

# %% [markdown]
# `runs` is a list of dicts like those of `check.runs`. Two losses are the same if they differ by at most 0.01. Return a dict:
#
# - `"verdicts"`: a dict from each model to `"measured wrongly"` if its two losses at the **last** position are not the same; else to `"leaks"` if they differ at some
#   other position; else to `"no leak seen"`;
# - `"best"`: of the models with no leak seen whose `"text"` is `"held out"`, the one with the lowest mean loss from the prefix; None if there is none.
#
# ```pycon
# >>> judged([{"model": "A", "text": "held out", "in one pass": [1.0, 2.0], "from the prefix": [3.0, 2.0]}])
# {'verdicts': {'A': 'leaks'}, 'best': None}
# ```
#
# <details><summary>First hint</summary>
#
# What future is there at the last position?
#
# </details>
# <details><summary>Second hint</summary>
#
# `zip(run["in one pass"], run["from the prefix"])`, and a list of booleans: its last entry decides first.
#
# </details>


# %% solution="judged"

# %% tests="judged" points=4
check.judged(judged)
print(judged(check.runs))
### BEGIN HIDDEN TESTS
# "no mask" leaks everywhere, "pooled by the last" at position 5 alone. At the last position nothing can
# leak, so "masked, other weights" was measured wrongly. The lowest curve is that of a model on its own
# training text, where it may have learned by heart: "masked, wider" is the best that can be compared.
check.judged(judged, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A causal language model
#
# *Challenge · hard · 45 minutes · 5 points*
#
# The vocabulary has the tokens 0 to $V - 1$; `self.start` is a start token with the number $V$. Write two methods; keep `__init__` as it is.
#
# `forward(tokens)` takes tokens $(B, n)$ and returns scores $(B, n, V)$:
#
# - embed with `self.embedding`; make queries, keys and values with `self.query`, `self.key`, `self.value`;
# - attend with a causal mask, one head, scores divided by $\sqrt d$;
# - return `self.output` of the result: no softmax, no positions, no residual connection.
#
# `loss(tokens, lengths)` returns the mean cross-entropy over all real tokens of the batch, one number. The model reads the start token and then all tokens but the last:
#
# $$L = -\frac{1}{\sum_b \text{length}_b} \sum_{b} \sum_{t < \text{length}_b} \log p(\text{token}_{b,t} \mid \text{start}, \text{token}_{b,0}, \dots, \text{token}_{b,t-1})$$
#
# Of text $b$ the first `lengths[b]` tokens are real; the padding behind them holds any tokens.
#
# *Not allowed*: `F.scaled_dot_product_attention`. *Useful*: `F.cross_entropy` wants the classes in axis 1; it has `reduction="none"` and `ignore_index`.
#
# <details><summary>First hint</summary>
#
# For the loss, put a column of start tokens in front and leave the last column away.
#
# </details>
# <details><summary>Second hint</summary>
#
# The mean is over tokens: sum what is real, and divide by the sum of the lengths.
#
# </details>


# %% solution="CausalLanguageModel" given="__init__"

# %% tests="CausalLanguageModel" points=5
check.CausalLanguageModel(CausalLanguageModel)
### BEGIN HIDDEN TESTS
check.CausalLanguageModel(CausalLanguageModel, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Masked attention
#
# *Challenge · hard · 45 minutes · 5 points*
#
# Mask before the softmax, and survive what stands at hidden places. With $a_{ij}$ the entries of `allowed`,
#
# $$e_{ij} = \begin{cases} q_i k_j^\top / \sqrt d & \text{where } a_{ij} \\ -\infty & \text{elsewhere,} \end{cases}
# \qquad \text{output}_i = \sum_{j} \operatorname{softmax}(e_i)_j\, v_j .$$
#
# ```pycon
# >>> key = mt.tensor([[1.0], [math.nan]])
# >>> masked_attention(mt.ones(2, 1), key, key, mt.tensor([[True, False], [False, False]]))
# tensor([[1.],
#         [0.]])
# ```
#
# - `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$, with any axes in front. Return $(\dots, T, d_v)$.
# - `allowed` is boolean and fits the scores $(\dots, T, n)$ by broadcasting; None allows everything.
# - Scores may be hundred thousands. What stands at a hidden place changes nothing.
# - **A key that no query of its sequence and head may look at, and its value, may hold anything**, NaN and infinity too. All else is finite.
# - Such keys and values get the gradient 0, exactly, and no gradient is NaN.
# - **A row with nothing to look at** gives zeros.
#
# *Not allowed*: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operation `linear`).
#
# <details><summary>First hint</summary>
#
# Which keys does nobody look at? `allowed.any(dim=-2)`, when `allowed` has the whole shape. Replace them and their values first.
#
# </details>
# <details><summary>Second hint</summary>
#
# A row of nothing but minus infinity gives NaN weights: put them to 0 with the same mask, before they meet the values.
#
# </details>


# %% solution="masked_attention"

# %% tests="masked_attention" points=5
check.masked_attention(masked_attention)
### BEGIN HIDDEN TESTS
check.masked_attention(masked_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Writing on
#
# *Challenge · hard · 45 minutes · 4 points*
#
# Write a greedy loop with a mask, for prompts of different lengths. `model(tokens, allowed)` takes tokens $(B, n)$ and a boolean mask $(B, 1, n, n)$, True where a token
# may look at another, and gives scores $(B, n, V)$; those at position $i$ are for the token after it. It was trained with a causal mask and without padding. It knows the
# order of the tokens that it may look at, but not how far from the beginning they stand: so padding that nobody looks at may stand anywhere.
#
# ```pycon
# >>> after = lambda tokens, allowed: F.one_hot((tokens + 1) % 5, 5).float()  # the next number
# >>> continue_prompts(after, [[1], [4, 2]], end=4, count=3)
# [[2, 3, 4], [3, 4]]
# ```
#
# - `prompts` is a list of lists of tokens, one at least each. All tokens 0 to $V - 1$ may occur: there is none for padding.
# - The new token is the likeliest one, and is read before the next one is picked.
# - A continuation ends when it has `count` tokens, or with a new token `end`, which it includes. An `end` inside the prompt means nothing.
# - The result is what each prompt would give alone. But all go through the model together, in at most `count` calls.
#
# <details><summary>First hint</summary>
#
# With the padding in front, all prompts end in the last column, and the new tokens come from `scores[:, -1]`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The mask joins the causal one with "this key is real". A prompt that has ended goes on running; its tokens are not kept.
#
# </details>


# %% solution="continue_prompts"

# %% tests="continue_prompts" points=4
check.continue_prompts(continue_prompts)
### BEGIN HIDDEN TESTS
check.continue_prompts(continue_prompts, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. How many nats leak?
#
# *Challenge · hard · 45 minutes · 4 points*
#
# Train a model to find a leak, and measure it against what an honest one can do. Each of six symbols depends on the one before it: row $a$ of `transitions` $(6, 6)$ holds the
# probabilities of what follows symbol $a$. No honest model can have a lower loss on new windows than
#
# $$H = -\sum_a \pi_a \sum_b p(b \mid a) \log p(b \mid a), \qquad \pi_b = \sum_a \pi_a\, p(b \mid a), \qquad \sum_a \pi_a = 1,$$
#
# where $\pi_a$ is how often symbol $a$ occurs in a long text. What a model stays below that, it got from the future. Return $H$ minus the loss of a trained model, a number. With a right
# mask it is 0 or a little below.
#
# - `attend` is a way to attend, as in `check.ways`: a function of queries, keys and values $(B, h, n, d/h)$. Train a model that attends so.
# - Measure its loss on at least 2,000 new windows, all positions in one pass. `check.windows(transitions, count)` draws inputs and targets $(\text{count}, 8)$.
# - `AttentionModel(6, nn.Embedding(8, 32), attend, width=32, heads=4, hidden=64)` is a model. `train_on(model, draw, rate, steps)` trains it with Adam on batches from `draw()`: 250
#   steps of 64 windows at the rate 0.01 will do. A training has 60 seconds of processor time.
#
# <details><summary>First hint</summary>
#
# The shares $\pi$ do not change when they are multiplied by the transitions. Start anywhere, and multiply often.
#
# </details>
# <details><summary>Second hint</summary>
#
# `train_on` calls `draw` without arguments: `partial(check.windows, transitions, 64)`. Measure under `mt.no_grad()`.
#
# </details>


# %% solution="nats_leaked"
def nats_leaked(attend, transitions):
    """H minus the loss of a trained model that attends so, on new windows: nats a token."""
    ### BEGIN SOLUTION
    shares = mt.full((1, 6), 1 / 6)
    for _ in range(1000):
        shares = shares @ transitions
    entropies = -(transitions * transitions.log()).sum(-1)
    honest = (shares[0] * entropies).sum().item()

    model = AttentionModel(6, nn.Embedding(8, 32), attend, width=32, heads=4, hidden=64)
    train_on(model, partial(check.windows, transitions, 64), rate=0.01, steps=250)
    inputs, targets = check.windows(transitions, 4000)
    with mt.no_grad():
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    return honest - loss.item()
    ### END SOLUTION


# %% tests="nats_leaked" points=4
check.nats_leaked(nats_leaked)
### BEGIN HIDDEN TESTS
check.nats_leaked(nats_leaked, hidden=True)
### END HIDDEN TESTS
