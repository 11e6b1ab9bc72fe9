# %% [markdown]
# # Exercises 07: masking
#
# Ten exercises, 40 points, about six hours. The **core** (1, 3, 4) takes 85 minutes. They belong
# to [chapter 07](../../notebooks/07_masking.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 7 and 8 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy.
#
# **Shapes.** $B$ sequences of $n$ tokens, $d$ features, $h$ heads. Row $i$ is query $i$, column $j$ key $j$, from 0. Masks are boolean. **True means: may look**, as in `F.scaled_dot_product_attention`
# (in `nn.MultiheadAttention` and `data.padding_mask` the opposite).

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
# All prompts of a batch end at the last of $n$ positions: padding stands **in front**. Only the last $T \le n$ positions ask, for scores $(B, h, T, n)$.
#
# ```pycon
# >>> chunk_mask(mt.tensor([1, 3]), T=2, n=3).long()[:, 0].tolist()
# [[[0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]]]
# ```
#
# Return their mask, boolean $(B, 1, T, n)$: a query may look at a key that does not come after it and is no padding.
#
# - `lengths` $(B)$ says how many of the last positions hold tokens, from 1 to $n$.
# - Only keys are masked: a row of padding may look by the same rule, perhaps at nothing.
#
# With padding at the end, the causal mask alone would do for real tokens. Why?
#
# <details><summary>First hint</summary>
#
# The place of query $t$ is $n - T + t$.
#
# </details>
# <details><summary>Second hint</summary>
#
# Join two masks by `&`, $(T, n)$ and $(B, n)$; the second needs two axes more.
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
# Six people have written the mask of a causal model. Sentence $b$ has `lengths[b]` tokens, then padding, $n$ places in all:

# %%
for program in check.written.values():
    print(inspect.getsource(program))

# %% [markdown]
# Return a dict from each letter, `"A"` to `"F"`, to None, if its mask is always right, or to lengths and $n$ for which it is **not**: a pair like `([2], 2)`.
#
# - A right mask is boolean, $(B, n, n)$.
# - A token looks at itself, at all tokens before it, and at nothing else.
# - A query of padding looks at something, no matter what.
# - Lengths go from 1 to $n$; $n$ is at most 8.
#
# Three are right; one never asks for the lengths. Why can it?
#
# <details><summary>First hint</summary>
#
# Draw the mask of lengths `[1, 2]` and `n = 2` for each.
#
# </details>
# <details><summary>Second hint</summary>
#
# Three things can go wrong: a token's row, an empty row, the shape.
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
# Write a test of padding masks. Return the numbers of the encoders that fail, from 0. Of these eight five do:
#
# ```pycon
# >>> len(reading_padding(check.suspects()))
# 5
# ```
#
# `encoder(x, lengths)` takes `x` $(B, n, 6)$ and integers `lengths` $(B)$, and gives $(B, n, 6)$ in float64. The first `lengths[b]` positions of sentence $b$ are real, one at least.
# An encoder is right if **every real position gets in a batch what it gets when its sentence comes alone, without padding**, up to $10^{-9}$.
#
# - Outputs at the padding do not matter. Let `x` hold ordinary numbers.
# - Batches of one to four sentences, of up to eight positions, show every fault.

# %%
eight = check.suspects()

# %% [markdown]
# *Useful*: `mt.randn(B, n, 6, dtype=mt.float64)`, `mt.allclose`.
#
# <details><summary>First hint</summary>
#
# Compare each sentence's real positions with what it gets alone.
#
# </details>
# <details><summary>Second hint</summary>
#
# Try one in which none is as long as $n$; one in which the longest is not the first.
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
# You cannot look into `model`, but gradients tell.
#
# ```pycon
# >>> dependence(lambda x: x.cumsum(0), mt.randn(3, 2)).long()
# tensor([[1, 0, 0],
#         [1, 1, 0],
#         [1, 1, 1]])
# ```
#
# It makes of $n$ tokens, `x` $(n, d)$, as many outputs, $(n, k)$. Return a boolean tensor $(n, n)$: entry
# $(i, j)$ is True if output $i$ depends on token $j$, that is, if one of the numbers $\partial\, \text{output}_{ic} / \partial x_{jm}$ is not zero.
#
# The models are smooth. Some leaks are small, or cancel in a sum.
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
# One gradient for each number of each output. Ask `!= 0`.
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
# What does a stack of masks let through?
#
# ```pycon
# >>> step_back = mt.tensor([[False, False, False], [True, False, False], [False, True, False]])
# >>> reach([step_back, step_back]).long()
# tensor([[1, 0, 0],
#         [1, 1, 0],
#         [1, 1, 1]])
# ```
#
# Each layer of self-attention **adds** what it gives to its input; the next layer takes the sum. Layer $l$
# has the mask `masks[l]`, boolean $(n, n)$. Return the boolean tensor $(n, n)$ whose entry $(i, j)$ is True if output $i$ of the last layer
# depends on token $j$, over whatever way. A row with nothing to look at adds nothing.
#
# Guess first: with a window of $w$ (itself and $w - 1$ tokens before) in each of $L$ layers, on how many tokens does an output depend?
#
# <details><summary>First hint</summary>
#
# After one layer, output $i$ knows of token $i$ and of what `masks[0][i]` allows.
#
# </details>
# <details><summary>Second hint</summary>
#
# After each further layer: of what those know that it may look at, itself included.
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
# Seven language models were measured twice (made up), as in [section 1](../../notebooks/07_masking.ipynb#1.-A-model-that-cheats): in one pass, and from the
# prefix. Which leak? Which changed its weights in between? Why is the lowest curve not the best?

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
# Return a dict:
#
# - `"verdicts"`, a dict from each model: `"measured wrongly"` if its losses at the **last** position differ; else `"leaks"` if they differ
#   anywhere; else `"no leak seen"`;
# - `"best"`: of those with no leak seen whose text is `"held out"`, the model with the lowest mean loss from the prefix, or None.
#
# ```pycon
# >>> judged([{"model": "A", "text": "held out", "in one pass": [1.0, 2.0], "from the prefix": [3.0, 2.0]}])
# {'verdicts': {'A': 'leaks'}, 'best': None}
# ```
#
# `runs` is a list like `check.runs`. Losses differ if more than 0.01 apart.
#
# <details><summary>First hint</summary>
#
# What future is there at the last position?
#
# </details>
# <details><summary>Second hint</summary>
#
# `zip(run["in one pass"], run["from the prefix"])`, and a list of booleans.
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
# Tokens are 0 to $V - 1$; the start token `self.start` is $V$. Keep `__init__`.
#
# `forward(tokens)` makes of tokens $(B, n)$ scores $(B, n, V)$:
#
# - embed; make queries, keys and values by their layers;
# - attend with a causal mask, one head, scores divided by $\sqrt d$;
# - return `self.output` of the result: no softmax, no positions, no residual connection.
#
# `loss(tokens, lengths)` is the mean cross-entropy over all real tokens. The model reads the start token, then all tokens but the last:
#
# $$L = -\frac{1}{\sum_b \text{length}_b} \sum_{b} \sum_{t < \text{length}_b} \log p(\text{token}_{b,t} \mid \text{start}, \text{token}_{b,0}, \dots, \text{token}_{b,t-1})$$
#
# The first `lengths[b]` tokens of text $b$ are real; any tokens may follow.
#
# *Not allowed*: `F.scaled_dot_product_attention`. *Useful*: `F.cross_entropy` wants the classes in axis 1; it has `reduction="none"` and `ignore_index`.
#
# <details><summary>First hint</summary>
#
# A column of start tokens in front, the last column away.
#
# </details>
# <details><summary>Second hint</summary>
#
# Sum what is real, and divide by the sum of the lengths.
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
# - `allowed` is boolean and broadcasts to the scores $(\dots, T, n)$; None allows everything.
# - Scores may be hundred thousands.
# - **A key that no query of its sequence and head may look at, and its value, may hold anything**, NaN and infinity too. It changes nothing and gets the gradient 0. All else is finite; no gradient is NaN.
# - **A row with nothing to look at** gives zeros.
#
# *Not allowed*: `F.scaled_dot_product_attention` and `nn.MultiheadAttention` (the operation `linear`).
#
# <details><summary>First hint</summary>
#
# `allowed.any(dim=-2)`, in its whole shape, tells which keys are looked at. Replace the others and their values first.
#
# </details>
# <details><summary>Second hint</summary>
#
# A row of minus infinity alone gives NaN: put its weights to 0 before they meet the values.
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
# Continue prompts of different lengths greedily.
#
# ```pycon
# >>> after = lambda tokens, allowed: F.one_hot((tokens + 1) % 5, 5).float()  # the next number
# >>> continue_prompts(after, [[1], [4, 2]], end=4, count=3)
# [[2, 3, 4], [3, 4]]
# ```
#
# `model(tokens, allowed)` takes tokens $(B, n)$ and a boolean mask $(B, 1, n, n)$. Its scores $(B, n, V)$ at position $i$ are for the token after it.
# It was trained with a causal mask, and knows no places: padding that nobody looks at may stand anywhere.
#
# - No prompt is empty. Every token may occur: none is kept for padding.
# - A continuation takes the likeliest token, reads it, takes the next. It ends when it has `count` tokens, or with a new `end`, included.
# - It is what its prompt gives alone, but all run together, in at most `count` calls of the model.
#
# <details><summary>First hint</summary>
#
# With padding in front, all prompts end in the last column: `scores[:, -1]`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Join the causal mask with "this key is real". Who has ended goes on running; its tokens are not kept.
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
# Measure a leak. In a text of six symbols, row $a$ of `transitions` $(6, 6)$ holds the
# probabilities of what follows symbol $a$. On new text no honest model has a lower loss than
#
# $$H = -\sum_a \pi_a \sum_b p(b \mid a) \log p(b \mid a), \qquad \pi_b = \sum_a \pi_a\, p(b \mid a), \qquad \sum_a \pi_a = 1,$$
#
# where $\pi_a$ is the share of symbol $a$. Return $H$ minus a trained model's loss: with a right mask, 0 or a little below.
#
# - Train `AttentionModel(6, nn.Embedding(8, 32), attend, width=32, heads=4, hidden=64)`: symbols $(B, 8)$ to scores $(B, 8, 6)$.
# - `train_on(model, draw, rate, steps)` trains on batches from `draw()`: 250 steps of 64 windows at rate 0.01 will do.
# - `check.windows(transitions, count)` draws inputs and targets $(\text{count}, 8)$. Then measure on 2,000 new windows at least, all positions in one pass.
# - `attend` is a way to attend, as in `check.ways`.
#
# <details><summary>First hint</summary>
#
# Multiplied by the transitions, $\pi$ stays. Start anywhere, and multiply often.
#
# </details>
# <details><summary>Second hint</summary>
#
# `partial(check.windows, transitions, 64)` is a `draw`. Measure under `mt.no_grad()`.
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
