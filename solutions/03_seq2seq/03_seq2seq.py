# %% [markdown]
# # Exercises 03: sequence to sequence
#
# Ten exercises, 40 points, about five hours. The **core** (1, 2, 5) takes 70 minutes. They belong
# to [chapter 03](../../notebooks/03_seq2seq.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 2, 4 and 10 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy on the way there.
#
# **Shapes.** The batch comes first: $B$ sentences, $n$ words of the source, $T$ steps of the decoder, $H$ numbers of a state, $V$ tokens. `padding`, $(B, n)$ or $(B, T)$, is boolean and True **at the padding**. `start`, `end` and `pad` are arguments; any may be 0.

# %%
import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from minitorch.nn.utils.rnn import pack_padded_sequence
from textbook.checks import chapter_03 as check
from textbook.checks import progress

progress.show("03")

# %% [markdown]
# ## 1. A batch for a teacher
#
# *Core · easy · 20 minutes · 3 points*
#
# With teacher forcing a decoder reads the start token and the words, and says the words and the end token. Make both, and the padding.
#
# ```pycon
# >>> teacher_batch([[5, 6], []], start=0, end=1, pad=9)
# (tensor([[0, 5, 6],
#         [0, 9, 9]]), tensor([[5, 6, 1],
#         [1, 9, 9]]), tensor([[False, False, False],
#         [False,  True,  True]]))
# ```
#
# - `sentences` is a list of $B$ lists of tokens, each of any length, 0 included.
# - Return inputs, targets and the targets' padding, each $(B, T)$: $T$ is the longest sentence and one more.
# - `start`, `end` and `pad` may be the same number.
#
# <details><summary>First hint</summary>
#
# Python lists will do. How many places are left behind an end?
#
# </details>
# <details><summary>Second hint</summary>
#
# With $n$ words, $T - n - 1$ places are left.
#
# </details>


# %% solution="teacher_batch"

# %% tests="teacher_batch" points=3
check.teacher_batch(teacher_batch)
### BEGIN HIDDEN TESTS
check.teacher_batch(teacher_batch, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. How likely is a translation?
#
# *Core · easy · 20 minutes · 3 points*
#
# Score translations, without their padding. Return
#
# 1. $\log P$ of each translation, $(B)$: the sum of the log-probabilities of its tokens;
# 2. the loss: minus the mean log-probability of a token, over all real tokens of the batch.
#
# ```pycon
# >>> scores, targets = mt.zeros(2, 2, 4), mt.tensor([[2, 1], [1, 0]])  # four tokens, equal chances
# >>> log_p, loss = log_probabilities(scores, targets, mt.tensor([[False, False], [False, True]]))
# >>> log_p / math.log(4), loss / math.log(4)
# (tensor([-2., -1.]), tensor(1.))
# ```
#
# - `scores` $(B, T, V)$ may be in the thousands. `targets` $(B, T)$ are the tokens, with the end token.
# - At the padding scores may be **anything**, infinite or NaN, and tokens any from 0 to $V - 1$. Results do not change; the gradient there is exactly zero.
#
# *Not allowed*: `F.cross_entropy` and `F.nll_loss` (the operations `cross_entropy` and `amin`). *Useful*: `log_softmax`, `gather`,
# `masked_fill`.
#
# Why not mask after `log_softmax` alone?
#
# <details><summary>First hint</summary>
#
# The mean is over tokens: not a mean of the sentences' means.
#
# </details>
# <details><summary>Second hint</summary>
#
# 0 times NaN is NaN, on the way back, too. Mask the scores before anything reads them.
#
# </details>


# %% solution="log_probabilities"

# %% tests="log_probabilities" points=3
check.log_probabilities(log_probabilities)
### BEGIN HIDDEN TESTS
# On the way back a masked result sends the gradient 0 into log_softmax, and there 0 is multiplied by what is not a
# number: the gradient is not a number, though the value is right. What must not be read has to be masked before.
check.log_probabilities(log_probabilities, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then pack
#
# *Practice · easy · 20 minutes · 3 points*
#
# What does padding cost? A recurrent network computes a *cell* for every token, padding too. A corpus is cut into batches of `size`, each padded to its longest sentence. Return a dict:
#
# - `"padded"`: the cells of all batches;
# - `"sorted"`: the same, if the corpus is first sorted, the shortest sentence first;
# - `"packed"`: the cells, not sorted, if each batch is packed;
# - `"steps"`: the time steps of these packed batches, one batch after the other.
#
# ```pycon
# >>> cells([5, 2, 1], 2)
# {'padded': 11, 'sorted': 9, 'packed': 8, 'steps': 6}
# ```
#
# `lengths` may be very large: stay with `int`.
#
# What is sorting good for, if batches are packed?
#
# <details><summary>First hint</summary>
#
# A padded batch is a rectangle. What are its sides?
#
# </details>
# <details><summary>Second hint</summary>
#
# `lengths[i : i + size]` for `i` in `range(0, len(lengths), size)`.
#
# </details>


# %% solution="cells"

# %% tests="cells" points=3
check.cells(cells)
lengths = [5, 2, 1, 4, 3, 5]
found, gru = cells(lengths, 3), nn.GRU(4, 3, batch_first=True)
counted = {"padded": 0, "packed": 0}
for batch in (mt.tensor(lengths[:3]), mt.tensor(lengths[3:])):
    x = mt.zeros(3, 5, 4)
    with count_flops() as counter:
        gru(x)
    counted["padded"] += counter.total
    with count_flops() as counter:
        gru(pack_padded_sequence(x, batch, batch_first=True, enforce_sorted=False))
    counted["packed"] += counter.total
for name, flops in counted.items():
    print(f"{name}: {flops:,} FLOPs, {flops / found[name]:g} for each of your {found[name]} cells")
### BEGIN HIDDEN TESTS
# Sorting does not change the words, so not the cells of packed batches. It changes the steps: long sentences come
# together, and only their batches take many steps. Steps wait for one another, and that is time.
check.cells(cells, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Between mean and maximum
#
# *Practice · medium · 20 minutes · 3 points*
#
# Between max pooling and mean pooling lies the mean of the **`k` largest** numbers. Return it for each unit over the words of its sentence, $(B, H)$.
#
# ```pycon
# >>> states = mt.tensor([[[4.0], [1.0], [3.0]], [[7.0], [math.nan], [math.nan]]])
# >>> largest_mean(states, mt.tensor([[False, False, False], [False, True, True]]), k=2)
# tensor([[3.5000],
#         [7.0000]])
# ```
#
# - `states` is $(B, n, H)$, `padding` $(B, n)$. Each sentence has a word at least. Each unit chooses for itself.
# - Where a sentence has fewer words than `k`, take all of them.
# - The padding may hold **anything**, infinite or NaN. It changes nothing, and the gradient there is exactly zero.
#
# *Useful*: `topk`.
#
# Which `k` is max pooling, which mean pooling?
#
# <details><summary>First hint</summary>
#
# With $-\infty$ at the padding, real words come first.
#
# </details>
# <details><summary>Second hint</summary>
#
# Only the first `min(k, number of words)` count: put 0 for the others before you add.
#
# </details>


# %% solution="largest_mean"

# %% tests="largest_mean" points=3
check.largest_mean(largest_mean)
### BEGIN HIDDEN TESTS
# k = 1 is max pooling; with k equal to the number of words of the longest sentence, or more, it is mean pooling.
check.largest_mean(largest_mean, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## A decoder for the next exercises
#
# In exercises 5 and 9 `scores, state = step(token, state)` reads a token of each row, $(B)$, and the state $(B, H)$. It returns the
# scores of the next token, $(B, V)$, and the new state. This one looks at the last token alone.

# %%
probabilities = mt.tensor(
    [  # of  start end   2     3
        [0.01, 0.09, 0.50, 0.40],  # after start, token 0
        [0.25, 0.25, 0.25, 0.25],  # after end, token 1
        [0.01, 0.39, 0.30, 0.30],  # after token 2
        [0.01, 0.89, 0.05, 0.05],  # after token 3
    ]
)


def toy_step(token, state):
    """Scores of the next token, (B, V), and the state, which this decoder leaves as it is."""
    return probabilities[token].log(), state


scores, state = toy_step(mt.tensor([0, 3]), mt.zeros(2, 1))
print(scores.exp())

# %% [markdown]
# ## 5. To be continued
#
# *Core · medium · 30 minutes · 5 points*
#
# Complete translations that somebody began. Return all that is said, $(B, T)$: given words and ends too, not `start`.
#
# ```pycon
# >>> complete(toy_step, mt.zeros(2, 1), mt.tensor([[0], [3]]), start=0, end=1, pad=0, max_length=5)
# tensor([[2, 1],
#         [3, 1]])
# ```
#
# - All rows first read `start`, with the state `state` $(B, H)$.
# - `given` $(B, m)$, $m \ge 0$, has the words with which each row begins, then `pad`. No word is `end` or `pad`, which differ.
# - At each step a row says its next given word, else its likeliest token. It reads that at the next step.
# - A row that has said `end` is filled with `pad`. To *say* `pad` ends nothing.
# - Stop when all rows have ended, or after `max_length` $\ge \max(1, m)$ steps.
#
# *Not allowed*: `cat`. `stack` a list of tokens.
#
# <details><summary>First hint</summary>
#
# Keep a boolean $(B)$, `ended`. Which comes first in a step: choosing, or filling with `pad`?
#
# </details>
# <details><summary>Second hint</summary>
#
# `token = mt.where(word == pad, likeliest, word)`, then `masked_fill(ended, pad)`, then `ended | (token == end)`.
#
# </details>


# %% solution="complete"

# %% tests="complete" points=5
check.complete(complete)
### BEGIN HIDDEN TESTS
check.complete(complete, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Estimate before you compute
#
# *Practice · medium · 30 minutes · 4 points*
#
# Estimate, within a tenth, what the first large translator cost (Sutskever et al., 2014).
#
# ```pycon
# >>> weights = 100 * 100 + 100 * 100  # of a plain RNN: 100 inputs, 100 units
# >>> 6 * weights * 25  # FLOPs, trained on 25 words: 2 a weight forward, twice as many backward
# 3000000
# ```
#
# - Reader and writer are LSTMs, each of 4 layers of 1,000 units.
# - Embeddings of 1,000 numbers, for 160,000 source and 80,000 target words.
# - 12 million pairs of 25 source and 29 target words, read 7.5 times in ten days on eight GPUs.
#
# Return a dict (no biases):
#
# - `"recurrent"`: weights of both LSTMs;
# - `"embeddings"` of both languages;
# - `"output"`: weights scoring target words;
# - `"parameters"`: all three;
# - `"bytes"`: these, gradients and Adam's two averages (float32);
# - `"FLOPs"`: to train on one pair;
# - `"speed"`: one GPU's FLOPs a second.
#
# <details><summary>First hint</summary>
#
# How many sums has a unit of an LSTM, and of how many numbers is each?
#
# </details>
# <details><summary>Second hint</summary>
#
# Each word meets its own LSTM; written ones meet the output layer, too. A look-up costs nothing.
#
# </details>


# %% solution="estimate"

# %% tests="estimate" points=4
check.estimate(estimate)
### BEGIN HIDDEN TESTS
# The embeddings have 240 of 384 million parameters, and no FLOPs. The output layer has 80 million, and more than half of the FLOPs: every
# word that is written is scored against all 80,000.
check.estimate(estimate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. What does the table say?
#
# *Practice · medium · 30 minutes · 4 points*
#
# Translators were tested (made-up numbers). `"right"` has 1 for each sentence without a mistake, else 0. Equal `"test"` means the same
# sentences; `"chosen on"` names those that chose the rate.

# %%
for row in check.translators:
    share = sum(row["right"]) / len(row["right"])
    about = f"tested on {row['test']:14} chosen on {row['chosen on']:14}"
    print(f"{row['translator']:17} {about} {share:.3f} of {len(row['right'])}")

# %% [markdown]
# Of the sentences that only one of two has right, one has $a$ and the other $b$: coin tosses, if both were equally good. How likely are $a$ wins
# **or more**?
#
# $$P = \sum_{k=a}^{a+b} \binom{a+b}{k} \Big/ 2^{\,a+b}$$
#
# Return the pairs `(better, worse)` of translators for which
#
# - both were tested on the same sentences, and neither was chosen on them;
# - $P < 0.025$, with $a$ for the better one.
#
# ```pycon
# >>> made_up = [
# ...     {"translator": "A", "test": "new", "chosen on": "old", "right": [1] * 6 + [0]},
# ...     {"translator": "B", "test": "new", "chosen on": "old", "right": [0] * 6 + [0]},
# ... ]
# >>> shown_better(made_up)  # a = 6, b = 0: P = 1/64
# [('A', 'B')]
# ```
#
# "deeper" has more right than "wider": must both be better than "plain", if one is?
#
# <details><summary>First hint</summary>
#
# Leave out unfair rows first. Then look at all ordered pairs.
#
# </details>
# <details><summary>Second hint</summary>
#
# `list(zip(one, other)).count((1, 0))` is $a$. The sum is for one direction: nothing is doubled.
#
# </details>


# %% solution="shown_better"

# %% tests="shown_better" points=4
check.shown_better(shown_better)
for better, worse in shown_better(check.translators):
    print(f"{better} is better than {worse}")
### BEGIN HIDDEN TESTS
# No. "wider" has right what "plain" has right and eight more: eight tosses won, none lost. "deeper" has more right,
# but loses many sentences that "plain" has: that may be chance. "chosen with care" has the best share, and by
# the very sentences that it was chosen on; nothing can be said of it. "easy" had other sentences.
check.shown_better(shown_better, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Which of these encoders is broken?
#
# *Practice · medium · 35 minutes · 4 points*
#
# `encode(tokens, padding)` takes tokens $(B, n)$ from 0 to 11 and `padding` $(B, n)$, at the end of sentences of 1 to 12 words. It returns
# vectors $(B, H)$ in float64. An encoder is right if
#
# 1. a sentence has the same vector (to $10^{-8}$) alone and in any batch and row, with any padding behind it;
# 2. every word counts, and so does the order: change one word, or exchange two different neighbours, and the vector differs by more than $10^{-6}$;
# 3. `tokens` and `padding` stay unchanged.
#
# Test them; return the numbers of the broken ones, counted from 0. Of these nine, five are:
#
# ```pycon
# >>> len(broken_encoders(check.encoders()))
# 5
# ```
#

# %%
nine = check.encoders()

# %% [markdown]
# <details><summary>First hint</summary>
#
# Make one batch of several lengths. Then encode each sentence alone.
#
# </details>
# <details><summary>Second hint</summary>
#
# For rule 2, change each word into each other one, and exchange each pair of neighbours.
#
# </details>


# %% solution="broken_encoders"

# %% tests="broken_encoders" points=4
check.broken_encoders(broken_encoders)
print("broken:", broken_encoders(nine))
### BEGIN HIDDEN TESTS
check.broken_encoders(broken_encoders, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Beam search
#
# *Challenge · hard · 45 minutes · 5 points*
#
# Search for the likeliest sentences. Begin with one open hypothesis, the empty list, $\log P = 0$, which has read `start`. Up to `max_length` times:
#
# 1. Continue every open hypothesis by every token: add its log-probability.
# 2. Keep the `beams` continuations with the largest $\log P$ (all, if fewer).
# 3. Those that end with `end` are finished, put aside. The others stay open, each with its own state. Stop if none does.
#
# What is open at last is finished, too. The score is $\log P \,/\, \big((5 + T) / 6\big)^{\alpha}$ for $T$ tokens (with `end`, without `start`) and
# $\alpha$ = `alpha` $\ge 0$. Return the `beams` best, best first, as pairs.
#
# ```pycon
# >>> for tokens, score in beam_search(toy_step, mt.zeros(1, 1), 0, 1, beams=2, max_length=5, alpha=0):
# ...     print(tokens, round(math.exp(score), 3))  # 0.40 * 0.89, and 0.50 * 0.39
# [3, 1] 0.356
# [2, 1] 0.195
# ```
#
# No two are equally likely. *Not allowed*: `index_select`.
#
# <details><summary>First hint</summary>
#
# Keep two lists, open and finished. A candidate also remembers the row of its parent.
#
# </details>
# <details><summary>Second hint</summary>
#
# Finished hypotheses leave the beam: the next step has fewer open ones.
#
# </details>


# %% solution="beam_search"

# %% tests="beam_search" points=5
check.beam_search(beam_search)
### BEGIN HIDDEN TESTS
check.beam_search(beam_search, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. A translator of your own
#
# *Challenge · hard · 60 minutes · 6 points: 3 for the model, 2 for the step, 1 for what is reached*
#
# ### The model
#
# Cho et al. (2014) give the encoding to their decoder at **every** step. Write `forward`. With $\overrightarrow{h}$ and $\overleftarrow{h}$ the
# **final** states of both directions of `self.encoder`, without the padding, and $E$ `self.target_embedding`,
#
# $$c = \tanh\big(\text{bridge}([\overrightarrow{h}; \overleftarrow{h}])\big), \qquad s_0 = c,$$
#
# $$s_t = \mathrm{GRU}\big([E_{y_{t-1}}; c],\, s_{t-1}\big), \qquad \text{scores}_t = \text{out}(s_t) .$$
#
# - `inputs` $(B, T)$ holds $y_0 \dots y_{T-1}$: what the decoder reads at steps 1 to $T$.
# - Return the scores, $(B, T, V)$. Keep `__init__` as it is. `pack_padded_sequence` helps.
#
# <details><summary>First hint</summary>
#
# A packed GRU returns the last state of each sentence, $(2, B, H)$: forward, backward.
#
# </details>
# <details><summary>Second hint</summary>
#
# Repeat $c$ along the steps, join it to the embedded inputs, and give $c$ as the first state, too, $(1, B, H)$.
#
# </details>


# %% solution="Translator" given="__init__"

# %% tests="Translator" points=3
check.Translator(Translator)
### BEGIN HIDDEN TESTS
check.Translator(Translator, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### One step of training
#
# Do one step of `optimizer` on a batch in parts, **as if they were one**. Return the loss before it, a number.
#
# - `parts` is a list of `(source, source_padding, inputs, targets, padding)`. `model(source, source_padding, inputs)` gives scores $(B, T, V)$.
# - The loss is the mean cross-entropy over all real tokens of all parts.
# - The norm of its gradient is clipped to `clip` (`nn.utils.clip_grad_norm_`). Earlier gradients do not count. The model stays in its mode.
#
# <details><summary>First hint</summary>
#
# Call `backward()` for each part: gradients add up. By what is each part's loss divided?
#
# </details>
# <details><summary>Second hint</summary>
#
# Divide the sum over a part's tokens by the tokens of **all** parts. Clip once, at the end.
#
# </details>


# %% solution="training_step"

# %% tests="training_step" points=2
check.training_step(training_step)
### BEGIN HIDDEN TESTS
check.training_step(training_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# `check.trained(Translator, training_step, (width, hidden, rate, steps), seed)` trains your model on English numbers and their German names, in half a minute.
# `check.Numbers()` has `held_out(seed)`, new pairs, and `batch(pairs)`; `check.share_right(model, batch)` measures. Return
# a dict with `"width"` (at most 64), `"hidden"` (at most 96), `"rate"` (it falls to zero) and `"steps"` (at most 250). With **each** of the seeds 11 and 12 (use others),
# 75 % of 200 new numbers have to be right.


# %% solution="training_plan"
def training_plan():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"width": 32, "hidden": 64, "rate": 0.01, "steps": 200}
    ### END SOLUTION


# %% tests="training_plan" points=1
check.reached(Translator, training_step, training_plan)
### BEGIN HIDDEN TESTS
check.Translator(Translator, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# One vector still stands in the middle. Chapter 04 removes it.
