# %% [markdown]
# # Exercises 01: recurrent neural networks
#
# Ten exercises, 40 points, about four and a half hours. The **core** (1, 5, 7) takes 75 minutes. They belong
# to [chapter 01](../../notebooks/01_rnn.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 1 and 4 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy on the way there.
#
# **Shapes.** Time comes first, as in the chapter: $T$ steps, $B$ sequences side by side, $d$ numbers per input, $H$ units, $V$ tokens.
# Inputs are $(T, B, d)$, states $(T, B, H)$. Short sequences are **padded** at their end: sequence $i$ has the steps 0 to `lengths[i] - 1`.
# Behind them any finite numbers may stand.

# %%
import math
from collections import Counter

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks import chapter_01 as check
from textbook.checks import progress

progress.show("01")

# %% [markdown]
# ## 1. All steps, short and long
#
# *Core · easy · 20 minutes · 3 points*
#
# Unroll the cell over a padded batch, all sequences at once:
#
# $$h_t = \tanh(x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b)$$
#
# ```pycon
# >>> x, one, none = mt.ones(3, 2, 1), mt.ones(1, 1), mt.zeros(1, 1)
# >>> unroll(x, mt.tensor([3, 1]), one, one, mt.zeros(1)).squeeze(-1)  # the second sequence has one step
# tensor([[0.7616, 0.7616],
#         [0.9427, 0.7616],
#         [0.9597, 0.7616]])
# ```
#
# - `x` is $(T, B, d)$; `lengths` are integers $(B)$ from 1 to $T$; `W_ih` is $(H, d)$, `W_hh` $(H, H)$, `b` $(H)$.
# - Start from `h0` $(B, H)$, or from zeros where it is None.
# - Behind its end the state of a sequence **stays as it is**, so the last row holds the last state of each.
# - Return $h_1 \dots h_T$ as one tensor $(T, B, H)$, through which the gradient flows back.
#
# *Not allowed*: `nn.RNN` (the operation `rnn`).
#
# <details><summary>First hint</summary>
#
# First write the loop without lengths. At step $t$, which sequences go on?
#
# </details>
# <details><summary>Second hint</summary>
#
# `mt.where(goes_on, new, old)` chooses for each row; `goes_on` needs the shape $(B, 1)$.
#
# </details>


# %% solution="unroll"

# %% tests="unroll" points=3
check.unroll(unroll)
### BEGIN HIDDEN TESTS
check.unroll(unroll, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Clipping
#
# *Practice · easy · 20 minutes · 3 points*
#
# Clip gradients by their joint norm: the length $\lVert g \rVert$ of all their elements, taken as one long vector. Return a new list
# of tensors, and the norm as it was before, a number.
#
# ```pycon
# >>> clip_gradients([mt.tensor([3.0]), None, mt.tensor([[4.0]])], 1.0)
# ([tensor([0.6000]), None, tensor([[0.8000]])], 5.0)
# ```
#
# - Where the norm is above `max_norm`, multiply every tensor by `max_norm` $/ \lVert g \rVert$; else leave them as they are.
# - Tensors may have any shapes.
# - None stays None. If all are None, the norm is 0.
# - Numbers may be as **large** as $10^{200}$, in float64: their norm is finite, their squares are not.
#
# *Not allowed*: `norm` and `clip_grad_norm_` (the operation `norm`).
#
# <details><summary>First hint</summary>
#
# The norm of $g$ is $m$ times the norm of $g / m$, for any $m > 0$.
#
# </details>
# <details><summary>Second hint</summary>
#
# With the largest element as $m$ no square is above 1. And if it is 0?
#
# </details>


# %% solution="clip_gradients"

# %% tests="clip_gradients" points=3
check.clip_gradients(clip_gradients)
### BEGIN HIDDEN TESTS
check.clip_gradients(clip_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then run: how far does a gradient reach?
#
# *Practice · easy · 25 minutes · 4 points*
#
# Without the factors $1 - h^2$, a gradient that goes back $k$ steps is multiplied by $W_{hh}^k$. Return the **largest** $k$ from 0 to
# `most`, both included, at which this power's norm is at least `share`, else None.
#
# ```pycon
# >>> reach(mt.tensor([[0.5, 0.0], [0.0, 0.1]]), 0.2, 10)  # 1, 0.5, 0.25, 0.125, ...
# 2
# ```
#
# - The norm is `np.linalg.norm(power, 2)`: the largest factor by which a vector is stretched.
# - `W_hh` is a tensor $(H, H)$; `share` is positive.
# - A power may grow before it falls, and become too large or too small for floating point.
#
# The check's cell has three matrices of spectral radius 0.9. Guess: which reaches farthest? Does a network reach farther
# than predicted?
#
# <details><summary>First hint</summary>
#
# You cannot stop at the first $k$ whose norm is too small.
#
# </details>
# <details><summary>Second hint</summary>
#
# After each product divide the power by its norm, and add up the logarithms of these norms.
#
# </details>


# %% solution="reach"

# %% tests="reach" points=4
check.reach(reach)
mt.manual_seed(0)
random = mt.randn(2, 2).double()
random = 0.9 * random / np.abs(np.linalg.eigvals(random.numpy())).max()
turn = 0.9 * mt.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()
steep = mt.tensor([[0.9, 5.0], [0.0, 0.9]]).double()
for name, W_hh in {"random": random, "turn": turn, "steep": steep}.items():
    h, jacobian, measured = mt.zeros(2).double(), mt.eye(2).double(), 0
    for k in range(1, 201):
        h = (h @ W_hh.T + 0.2 * mt.randn(2)).tanh()
        jacobian = (1 - h**2).unsqueeze(1) * (W_hh @ jacobian)  # of h_k with respect to h_0
        if np.linalg.norm(jacobian.numpy(), 2) >= 0.01:
            measured = k
    print(f"{name:7} predicted {reach(W_hh, 0.01, 200)}, in a network {measured}")
### BEGIN HIDDEN TESTS
# "steep" reaches farthest: its powers first grow twentyfold, and only then do they fall by 0.9 a step.
# The radius says how a gradient ends, not how far it gets. In a network the factors 1 - h^2 are at most
# 1, so it does not reach as far; the larger the states, the less.
check.reach(reach, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Both directions, short and long
#
# *Practice · medium · 25 minutes · 4 points*
#
# A second network reads each sequence of a padded batch from its own end. `forward` and `backward` are functions from $(T, B, d)$ to all
# states, $(T, B, H)$. Both read what they get **from the first step to the last**.
#
# ```pycon
# >>> x, sums = mt.tensor([[1.0, 5.0], [2.0, 6.0], [3.0, 9.0]]).unsqueeze(-1), lambda x: x.cumsum(0)
# >>> both_directions(x, mt.tensor([3, 2]), sums, sums)[:, 1]  # the second sequence is 5, 6; 9 is padding
# tensor([[ 5., 11.],
#         [11.,  6.],
#         [ 0.,  0.]])
# ```
#
# Return a tensor $(T, B, 2H)$. At step $t$ of a sequence it has
#
# - first, the state of `forward` after the steps up to $t$;
# - then, that of `backward` after the steps of this sequence from its end down to $t$;
# - in the padding, zeros.
#
# *Useful*: `x[places, mt.arange(B)]` with integers `places` $(T, B)$ takes from each column its own rows.
#
# <details><summary>First hint</summary>
#
# Turn each sequence round, run `backward`, and turn the result round. The padding stays behind.
#
# </details>
# <details><summary>Second hint</summary>
#
# Step $t$ of a sequence of length $\ell$ goes to $\ell - 1 - t$. The same places turn it back.
#
# </details>


# %% solution="both_directions"

# %% tests="both_directions" points=4
check.both_directions(both_directions)
### BEGIN HIDDEN TESTS
check.both_directions(both_directions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The probability of a text
#
# *Core · medium · 20 minutes · 4 points*
#
# How probable is it that a model writes just this text and stops? Return, for each text $x_1 \dots x_n$,
#
# $$\log P = \sum_{t=1}^{n} \log P(x_t \mid \text{<s>}, x_1, \dots, x_{t-1}) + \log P(\text{<s>} \mid \text{<s>}, x_1, \dots, x_n).$$
#
# ```pycon
# >>> coin = lambda token, h: (mt.zeros(len(token), 2), h)  # 0 is <s>, 1 is a letter: equal chances, always
# >>> log_probability(coin, [[], [1, 1]], start=0) / math.log(2)
# tensor([-1., -3.])
# ```
#
# - `scores, h = step(token, h)` reads one token of each sequence, $(B)$, and the state (None at first). It returns the scores
#   $(B, V)$ of the **next** token and the new state. One text at a time will do: `mt.tensor([token])`.
# - `texts` is a list of lists of tokens, which may be empty. `start` is the token `<s>`, which stands in none of them.
# - Texts may be so long that floating point rounds $P$ to 0.
#
# Why must the end be counted?
#
# <details><summary>First hint</summary>
#
# Pair each token with the next. What is read first, what comes last?
#
# </details>
# <details><summary>Second hint</summary>
#
# `zip([start, *text], [*text, start])`, and `log_softmax` of the scores.
#
# </details>


# %% solution="log_probability"

# %% tests="log_probability" points=4
check.log_probability(log_probability)
### BEGIN HIDDEN TESTS
# Without it, a text is at least as probable as any text that goes on from it, and the probabilities of
# all texts add up to far more than 1: those of one token alone to 1 already.
check.log_probability(log_probability, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A rival that counts
#
# *Practice · medium · 30 minutes · 4 points*
#
# How likely is each of the `symbols` (all of `text` among them) behind `before`, by what followed its last characters in `text`?
#
# ```pycon
# >>> next_symbol("abab", "b", "abc")  # behind b came a, once
# {'a': 0.5, 'b': 0.3, 'c': 0.2}
# ```
#
# - Begin with equal probabilities. Take the run of no character, then the last one of `before`, the last two, up to four.
# - A run followed $N$ times, by $K$ different symbols, takes $\frac12$ off each of their counts and divides by $N$.
# - That frees $K / 2N$ for the symbols **not** seen behind the run, in proportion to their probabilities so far.
# - Where all were seen, nothing is taken off. A run that nothing follows changes nothing.
# - Runs may overlap: in `"aaa"`, two `"aa"`.
#
# <details><summary>First hint</summary>
#
# `Counter(text[i + n] for i in ... if text.startswith(run, i))` counts what follows a run of length `n`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Behind `b` the empty run had given `b` 0.375 and `c` 0.25. The freed half is shared by 3 to 2.
#
# </details>


# %% solution="next_symbol"

# %% tests="next_symbol" points=4
check.next_symbol(next_symbol)
rhyme = "the cat sat on the mat, and the rat ate the hat of the cat"
for before in ("", "e", "he ", "xat"):
    found = next_symbol(rhyme, before, sorted(set(rhyme)))
    best = sorted(found, key=found.get)[::-1][:4]
    print(f"{before!r:6}", *(f"{x!r} {found[x]:.2f}" for x in best), sep="   ")
### BEGIN HIDDEN TESTS
check.next_symbol(next_symbol, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these readers is broken?
#
# *Core · medium · 35 minutes · 5 points*
#
# `reader(text, count, window)` cuts $N$ tokens into a list of pairs (inputs, targets), in reading order. It is right if, for
# every $N >$ `count` $\cdot$ `window`,
#
# 1. inputs and targets are (`window`, `count`); the last pair may have fewer rows, one at least;
# 2. each target is the token that follows its input;
# 3. down each column the text goes on, between windows too;
# 4. no token is a target twice, and of the $N - 1$ behind the first, fewer than `count` $\cdot$ `window` are left out.
#
# Test them; return the numbers of the broken ones, counted from 0. Of these nine, five are:
#
# ```pycon
# >>> len(broken_readers(check.readers()))
# 5
# ```

# %%
nine = check.readers()

# %% [markdown]
# <details><summary>First hint</summary>
#
# Take a text in which each token is its own place.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mt.arange(N)`. Join all inputs along time, and all targets. Try lengths that fit or do not, one column and several.
#
# </details>


# %% solution="broken_readers"

# %% tests="broken_readers" points=5
check.broken_readers(broken_readers)
print("broken:", broken_readers(nine))
### BEGIN HIDDEN TESTS
# mt.arange(N): a token that is its own place tells where it came from.
check.broken_readers(broken_readers, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Truncated backpropagation through time
#
# *Challenge · medium · 40 minutes · 5 points: 3 for the loop, 2 for what is reached*
#
# ### The loop
#
# Train once through `x` $(T, B, d)$ and `y` $(T, B, 1)$, in windows of `window` steps; the last may be shorter.
# Return the losses, a list of numbers.
#
# - `model(inputs, h)` returns outputs and the state at their end, $(1, B, H)$. `h` is None at first.
# - `loss_function(outputs, targets)` gives the loss.
# - Each window starts from the state in which the last one ended. But where `begins` $(T, B)$ is True a **new text** begins, from zeros:
#   at first steps of windows only.
# - No gradient flows into earlier windows.
# - Update after each window, by the gradient of its loss alone.
#
# <details><summary>First hint</summary>
#
# `x.split(window)` cuts along the first axis. What in the state remembers the windows before?
#
# </details>
# <details><summary>Second hint</summary>
#
# `h.detach()`, then `masked_fill` with the first row of `begins`, shaped $(B, 1)$.
#
# </details>


# %% solution="truncated_bptt"

# %% tests="truncated_bptt" points=3
check.truncated_bptt(truncated_bptt)
### BEGIN HIDDEN TESTS
check.truncated_bptt(truncated_bptt, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# In a stream of random symbols, name at each step the one of **five** steps before. `check.trained(loop, window, rate, seed)` trains an RNN by your loop
# on 3,000 steps of 32 streams; `check.right(model)` is the share recalled in new ones. Return a dict with `"window"`, 1 to 64, and
# `"rate"`, below 1. With **each** of the seeds 11 to 13 (use others), 90 % have to be recalled. Why do short windows fail, and long ones?


# %% solution="chosen_window"
def chosen_window():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"window": 15, "rate": 0.004}
    ### END SOLUTION


# %% tests="chosen_window" points=2
check.reached(truncated_bptt, chosen_window)
### BEGIN HIDDEN TESTS
# A window of five steps holds no symbol together with the place where it is asked for: no gradient
# says what should have been kept. One of 64 steps holds plenty, but leaves only 47 updates.
check.truncated_bptt(truncated_bptt, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Backpropagation through time by hand
#
# *Challenge · hard · 35 minutes · 5 points*
#
# This cell keeps a part of its old state. With a number `leak` $= \alpha$, $0 < \alpha \le 1$ ($\alpha = 1$ is the cell of the chapter),
#
# $$h_t = (1 - \alpha)\, h_{t-1} + \alpha \tanh(a_t), \qquad a_t = x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b .$$
#
# Return $\partial L / \partial W_{hh}$, $(H, H)$, and $\partial L / \partial h_0$, $(B, H)$.
#
# ```pycon
# >>> one = mt.ones(1, 1)
# >>> backprop_through_time(0.5 * mt.ones(1, 1, 1), one, one, 1.0, mt.ones(1, 1, 1))  # dL/da = 1 - 0.5^2
# (tensor([[0.7500]]), tensor([[0.7500]]))
# ```
#
# - `states` is $(T, B, H)$, row 0 is $h_1$; `h0` is $(B, H)$, `W_hh` $(H, H)$.
# - `grad_states` $(T, B, H)$ is what reaches the loss **directly** from each state, through the output at that step, not through later states.
# - The inputs are not given, and not needed: how do you get at $\tanh(a_t)$?
#
# [Section 6](../../notebooks/01_rnn.ipynb#6.-Backpropagation-through-time) has one sequence and $\alpha = 1$. Here the gradient of $W_{hh}$ is summed over sequences.
#
# *Not allowed*: `nn.RNN` (the operation `rnn`) and the engine's `backward`.
#
# <details><summary>First hint</summary>
#
# Go from the last step to the first, and carry what comes back. It has two ways.
#
# </details>
# <details><summary>Second hint</summary>
#
# $\tanh(a_t) = \big(h_t - (1 - \alpha) h_{t-1}\big) / \alpha$. One way back goes through $a_t$, the other is the factor $1 - \alpha$.
#
# </details>


# %% solution="backprop_through_time"

# %% tests="backprop_through_time" points=5
check.backprop_through_time(backprop_through_time)
### BEGIN HIDDEN TESTS
# tanh(a_t) = (h_t - (1 - alpha) h_(t-1)) / alpha. On the way past the tanh, a gradient is multiplied by
# 1 - alpha a step and by nothing else: with a small alpha it lives long. Chapter 02 makes a gate of it.
check.backprop_through_time(backprop_through_time, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Temperature, top-k and top-p
#
# *Practice · medium · 25 minutes · 3 points*
#
# Turn `scores` $(B, V)$ into the probabilities $(B, V)$ to sample from:
#
# 1. Divide the scores by `temperature`. At 0, the likeliest token of each row has probability 1, whatever comes next.
# 2. Unless `top_k` is None, keep the `top_k` (1 to $V$) highest scores of each row.
# 3. Softmax over what is kept.
# 4. Unless `top_p` (above 0, at most 1) is None, keep the fewest most probable tokens with at least `top_p` together.
#    Divide by their sum.
#
# ```pycon
# >>> scores = mt.tensor([[0.0, math.log(5), math.log(2), math.log(2)+1e-3]])
# >>> sampling_distribution(scores, top_k=3, top_p=0.6)
# tensor([[0.0000, 0.7141, 0.0000, 0.2859]])
# ```
#
# - Tokens stay at their places; those not kept have probability 0.
# - Scores may be in the thousands; no two are equal.
#
# <details><summary>First hint</summary>
#
# For step 2, `topk`. For step 4, sort a row: a token stays if those *before* it have less than `top_p` together.
#
# </details>
# <details><summary>Second hint</summary>
#
# That sum is `cumsum` minus the token's own probability. `sort(-1, descending=True)` also returns the order; `gather` with `order.argsort(-1)` undoes it.
#
# </details>


# %% solution="sampling_distribution"

# %% tests="sampling_distribution" points=3
check.sampling_distribution(sampling_distribution)
### BEGIN HIDDEN TESTS
check.sampling_distribution(sampling_distribution, hidden=True)
### END HIDDEN TESTS
