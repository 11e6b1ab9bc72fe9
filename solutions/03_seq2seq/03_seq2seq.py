# %% [markdown]
# # Exercises 03: sequence to sequence
#
# Ten exercises, from easy to hard, 42 points, about three hours. They belong to
# [chapter 03](../../notebooks/03_seq2seq.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the first line of the
# function. Run the cell, then the check below it. The check looks at what your function does, on
# random inputs of several sizes: any way of writing it that gives the right result is right. A wrong
# answer is told what it looks like. What you see passing are the *public checks*; when the set is
# graded, the same checks run once more on other numbers and sizes. Where an exercise does not allow an
# operation, the check records what runs inside your function, under whatever name you call it. In
# exercises 3, 5 and 8 the gradients of your results are compared, too: the results must stay tensors
# that the library's operations have made of the inputs, so keep away from `.item()`, `.detach()` and
# NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** In this set the batch comes first: $B$ sentences, $T$ positions, $H$ units per state, $V$ tokens
# in the vocabulary. Tokens are $(B, T)$, states $(B, T, H)$. A **mask** $(B, T)$ is what the chapter calls
# `padding`: boolean and True **at the padding**, as in the library. The numbers of the start, end and padding
# tokens come as arguments `start`, `end` and `pad`; any of them may be 0 or not.

# %%
import math
from collections import Counter

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks import chapter_03 as check
from textbook.checks import progress

progress.show("03")

# %% [markdown]
# ## 1. A batch of sentences
#
# *Goal: put sentences of different lengths into one tensor. Easy, 10 minutes, 3 points.*
#
# `sentences` is a list of $B$ lists of token numbers, each of any length, 0 included. Put `start` before each
# and `end` after it, and fill up at the end with `pad`, so that all rows are as long as the longest. Return two
# tensors $(B, T)$: the tokens, and their mask, True at the padding.
#
# Not allowed: `pad_sequence`, `data.pad` and whatever else runs the operation `cat_`. Python lists will do.


# %% solution="pad_batch"
def pad_batch(sentences, start, end, pad):
    """B lists of tokens give tokens (B, T) and their mask (B, T), True at the padding."""
    ### BEGIN SOLUTION
    longest = max(len(sentence) for sentence in sentences)
    rows = [[start, *sentence, end] + [pad] * (longest - len(sentence)) for sentence in sentences]
    tokens = mt.tensor(rows)  # (B, T)
    return tokens, tokens == pad
    ### END SOLUTION


# %% tests="pad_batch" points=3
check.pad_batch(pad_batch)
### BEGIN HIDDEN TESTS
check.pad_batch(pad_batch, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What the decoder reads, and what it must say
#
# *Goal: shift the target by one. Easy, 10 minutes, 3 points.*
#
# `tokens` $(B, T)$ are target sentences as exercise 1 makes them: start, words, end, padding. With teacher forcing
# the decoder reads a token of the sentence and has to say the token that follows it. Return three tensors
# $(B, T - 1)$:
#
# 1. the inputs, which begin with the start token;
# 2. the targets: at each position, the token that follows the input of that position in `tokens`;
# 3. the mask of the targets: True where the loss must not count, because there is nothing to say.
#
# Everything is allowed.


# %% solution="decoder_pair"
def decoder_pair(tokens, pad):
    """Target sentences (B, T) give inputs, targets and the targets' mask, each (B, T - 1)."""
    ### BEGIN SOLUTION
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return inputs, targets, targets == pad
    ### END SOLUTION


# %% tests="decoder_pair" points=3
check.decoder_pair(decoder_pair)
### BEGIN HIDDEN TESTS
check.decoder_pair(decoder_pair, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The loss of a padded batch
#
# *Goal: average the cross-entropy over tokens, not over padding. Easy, 10 minutes, 3 points.*
#
# `scores` $(B, T, V)$ are the decoder's scores (logits), `targets` $(B, T)$ the tokens that it had to say, each row with
# its end token and then `pad`. Return
#
# $$L = -\frac{1}{N} \sum_{(i,\, t)\,:\; \text{targets}_{i,t} \,\ne\, \text{pad}} \log \mathrm{softmax}(\text{scores}_{i,t})[\text{targets}_{i,t}]$$
#
# where $N$ is the number of targets that are not `pad`. The gradient at a padded position is exactly zero.
#
# Not allowed: `F.cross_entropy` and `F.nll_loss`, whose `ignore_index` does it all (the operations
# `cross_entropy` and `amin`). `log_softmax` is allowed.


# %% solution="masked_loss"
def masked_loss(scores, targets, pad):
    """The mean cross-entropy over the targets that are not pad, one number."""
    ### BEGIN SOLUTION
    log_p = F.log_softmax(scores, dim=-1)  # (B, T, V)
    losses = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    real = targets != pad
    return (losses * real).sum() / real.sum()
    ### END SOLUTION


# %% tests="masked_loss" points=3
check.masked_loss(masked_loss)
### BEGIN HIDDEN TESTS
check.masked_loss(masked_loss, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The final states of an encoder
#
# *Goal: find the two states that have read the whole sentence. Medium, 15 minutes, 4 points.*
#
# A bidirectional encoder has read a padded batch, each direction only the real tokens of each sentence. Its
# outputs are `outputs` $(B, T, 2H)$: at each position, the $H$ numbers of the forward direction (which reads from
# left to right), then the $H$ numbers of the backward direction (from right to left). `lengths` $(B)$ holds
# integers from 1 to $T$: sentence $i$ stands at the positions 0 to `lengths[i] - 1`; what comes after it is
# padding, with arbitrary numbers.
#
# Return $(B, 2H)$: the **final** state of the forward direction, the one that has read the whole sentence, followed
# by the final state of the backward direction.
#
# Everything is allowed. A loop over the batch will do; it also goes without.


# %% solution="encoder_state"
def encoder_state(outputs, lengths):
    """Outputs (B, T, 2 H) and lengths (B) give both final states side by side, (B, 2 H)."""
    ### BEGIN SOLUTION
    size = outputs.shape[-1] // 2
    forward = outputs[mt.arange(len(outputs)), lengths - 1, :size]  # (B, H)
    backward = outputs[:, 0, size:]  # (B, H)
    return mt.cat([forward, backward], dim=-1)
    ### END SOLUTION


# %% tests="encoder_state" points=4
check.encoder_state(encoder_state)
### BEGIN HIDDEN TESTS
check.encoder_state(encoder_state, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Mean and max pooling
#
# *Goal: sum up a sentence in one vector, whatever its padding holds. Medium, 15 minutes, 4 points.*
#
# `states` is $(B, T, H)$ and `mask` $(B, T)$, True at the padding; each sentence has at least one real position. Return
# two tensors $(B, H)$: for each feature the **mean** of the states over the real positions, and for each feature
# the **maximum** over the real positions. What stands in the padding changes neither, and its gradient is exactly
# zero.
#
# Everything is allowed. Useful: `masked_fill`, `sum`, `amax`.


# %% solution="mean_and_max"
def mean_and_max(states, mask):
    """States (B, T, H) and mask (B, T) give the mean (B, H) and the maximum (B, H)."""
    ### BEGIN SOLUTION
    padding = mask.unsqueeze(-1)  # (B, T, 1)
    mean = states.masked_fill(padding, 0.0).sum(dim=1) / (~padding).sum(dim=1)  # (B, H)
    largest = states.masked_fill(padding, -mt.inf).amax(dim=1)  # (B, H)
    return mean, largest
    ### END SOLUTION


# %% tests="mean_and_max" points=4
check.mean_and_max(mean_and_max)
### BEGIN HIDDEN TESTS
check.mean_and_max(mean_and_max, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## A decoder for the next exercises
#
# In exercises 6, 8 and 10 a decoder comes as a function `step`. `scores, state = step(token, state)` reads one token
# of each row, $(B)$, and the state $(B, H)$, and returns the scores of the next token, $(B, V)$, and the new state. The
# checks bring their own decoders; this one is to try things on. It looks at the last token alone, so that its
# probabilities fit in a table and your results can be checked with a pencil.

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
# ## 6. Greedy decoding
#
# *Goal: write the loop that translates a batch. Medium, 20 minutes, 5 points.*
#
# All rows begin by reading the token `start`, with the state `state` $(B, H)$. At each step, each row says its
# likeliest token and reads it at the next step. A row has ended when it has said `end`; from then on it is filled
# with `pad`. Stop when all rows have ended, or after `max_length` steps. Return what was said, $(B, n)$, where $n$ is the
# number of steps: without the start token, with the end tokens.
#
# With `toy_step`, one row says `[2, 1]`: token 2, then end.
#
# Not allowed: `textbook.decoding` (its `greedy` runs the operation `cat_`). Keep the tokens of the steps in a list
# and `stack` them.


# %% solution="greedy_decode"
def greedy_decode(step, state, start, end, pad, max_length):
    """The tokens that the decoder says, (B, n) with n at most max_length."""
    ### BEGIN SOLUTION
    token, tokens = mt.full((len(state),), start), []
    ended = mt.zeros(len(state), dtype=mt.bool)
    while len(tokens) < max_length and not ended.all():
        scores, state = step(token, state)  # (B, V), (B, H)
        token = scores.argmax(dim=-1).masked_fill(ended, pad)  # (B)
        tokens.append(token)
        ended = ended | (token == end)
    return mt.stack(tokens, dim=1)  # (B, n)
    ### END SOLUTION


# %% tests="greedy_decode" points=5
check.greedy_decode(greedy_decode)
### BEGIN HIDDEN TESTS
check.greedy_decode(greedy_decode, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Exact match by length
#
# *Goal: measure how accuracy falls with the length of the source. Medium, 15 minutes, 3 points.*
#
# `predicted` $(B, n)$ holds what a decoder said. A row counts up to its first `end`; behind it may stand anything. A row
# without `end` has not finished, and matches nothing. `targets` $(B, T)$ are the right translations: words, `end`,
# padding. `source_lengths` is a list of $B$ numbers, the lengths of the source sentences in words.
#
# A translation is an exact match if it is the target, word by word, and ends where the target ends. Return a
# dictionary from bins of source lengths, `(1, 3)`, `(4, 6)`, `(7, 9)` and so on, to the share of exact matches
# among the sentences of that bin, from 0 to 1. Bins without a sentence are left out.
#
# Everything is allowed. `tolist()` makes plain lists of a tensor.


# %% solution="exact_match_by_length"
def exact_match_by_length(predicted, targets, source_lengths, end):
    """{(1, 3): share of exact matches, (4, 6): ..., ...}, by the length of the source."""
    ### BEGIN SOLUTION
    bins = {}
    rows = zip(predicted.tolist(), targets.tolist(), source_lengths, strict=True)
    for said, target, length in rows:
        target = target[: target.index(end) + 1]  # the end token has to be there too
        low = 1 + (length - 1) // 3 * 3
        bins.setdefault((low, low + 2), []).append(said[: len(target)] == target)
    return {key: sum(matches) / len(matches) for key, matches in bins.items()}
    ### END SOLUTION


# %% tests="exact_match_by_length" points=3
check.exact_match_by_length(exact_match_by_length)
### BEGIN HIDDEN TESTS
check.exact_match_by_length(exact_match_by_length, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Teacher forcing, sometimes
#
# *Goal: run a decoder in training, on given tokens or on its own. Medium, 20 minutes, 5 points.*
#
# With teacher forcing the decoder reads the given tokens `inputs` $(B, T)$, of which the first column is the start
# token; when it translates, it reads its own. **Scheduled sampling** (Bengio et al., 2015) mixes both in training,
# so that the decoder meets its own mistakes: at each step after the first, each row reads the given token with
# probability `p`, and else the token that was likeliest by the scores of the step before.
#
# The random numbers are drawn already: `draws` $(B, T)$, evenly from 0 to 1. At step $t > 0$ row $i$ reads
# `inputs[i, t]` if `draws[i, t] < p`. At step 0 all rows read `inputs[:, 0]`. Start from `state` $(B, H)$ and return the
# scores of all steps, $(B, T, V)$. The gradient must be able to flow back through the states. (With `p = 1` this is
# teacher forcing.)
#
# Not allowed: the operation `cat_`. Keep the scores of the steps in a list and `stack` them.


# %% solution="scheduled_sampling"
def scheduled_sampling(step, state, inputs, draws, p):
    """The decoder's scores at each step, (B, T, V)."""
    ### BEGIN SOLUTION
    token, results = inputs[:, 0], []
    for t in range(inputs.shape[1]):
        if t > 0:
            own = results[-1].argmax(dim=-1)  # (B)
            token = mt.where(draws[:, t] < p, inputs[:, t], own)
        scores, state = step(token, state)  # (B, V), (B, H)
        results.append(scores)
    return mt.stack(results, dim=1)  # (B, T, V)
    ### END SOLUTION


# %% tests="scheduled_sampling" points=5
check.scheduled_sampling(scheduled_sampling)
### BEGIN HIDDEN TESTS
check.scheduled_sampling(scheduled_sampling, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. BLEU
#
# *Goal: compute the score that translation is measured by. Hard, 30 minutes, 5 points.*
#
# `hypotheses` are the translations of a corpus and `references` the right ones: two lists of equally many sentences,
# each a list of words. An **n-gram** is a run of $n$ words. For each $n = 1, \dots, N$, with $N$ = `max_n`, count over
# the **whole corpus**
#
# - the n-grams of all hypotheses, an n-gram as often as it occurs;
# - the matches: in each sentence, each n-gram of the hypothesis counts as often as it occurs there, but at most as often
#   as in the reference of that sentence (this is the **clipping**).
#
# The precision $p_n$ is the second number divided by the first. With $c$ the number of words in all hypotheses and $r$
# in all references,
#
# $$\mathrm{BLEU} = 100 \cdot \min(1,\ e^{1 - r/c}) \cdot \Big(\prod_{n=1}^{N} p_n\Big)^{1/N}$$
#
# The middle factor is the **brevity penalty**. If there is no match for some $n$, BLEU is 0. Return the number.
#
# For example, with `max_n = 1`, "the the the the the the the" against "the cat is on the mat" has 7 n-grams and 2
# matches; it is not shorter than its reference, so BLEU is $100 \cdot 2/7$.
#
# All of Python is allowed. `Counter(...)` counts things that can be keys, such as tuples of words.


# %% solution="bleu"
def bleu(hypotheses, references, max_n):
    """BLEU of a corpus, from 0 to 100."""
    ### BEGIN SOLUTION
    log_precisions = []
    for n in range(1, max_n + 1):
        matches = total = 0
        for pair in zip(hypotheses, references, strict=True):
            said, right = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in pair
            )
            matches += (said & right).total()  # & takes the smaller of two counts
            total += said.total()
        if matches == 0:
            return 0.0
        log_precisions.append(math.log(matches / total))
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(sum(log_precisions) / max_n)
    ### END SOLUTION


# %% tests="bleu" points=5
check.bleu(bleu)
### BEGIN HIDDEN TESTS
check.bleu(bleu, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Beam search
#
# *Goal: search for the likeliest sentences. Hard, 45 minutes, 7 points.*
#
# For one sentence: `state` is $(1, H)$. A **hypothesis** is a list of tokens with the probability $P$ of the decoder
# saying them one after the other. The search begins with a single open hypothesis, the empty list, with $\log P = 0$,
# which has read `start`. Then, up to `max_length` times:
#
# 1. continue every open hypothesis by every token of the vocabulary; the $\log P$ of a continuation is that of
#    its hypothesis plus the log-probability of the new token;
# 2. of all these continuations together keep the `beams` with the largest $\log P$ (all, if there are fewer);
# 3. those of them that end with `end` are finished and put aside, the others are the open hypotheses of the next
#    step, each with the state of the hypothesis that it continues. Stop if none is open.
#
# What is still open after `max_length` steps counts as finished. The score of a finished hypothesis of $n$ tokens (`end`
# counts, `start` is not part of it) is
#
# $$\frac{\log P}{\big((5 + n) / 6\big)^{\alpha}}$$
#
# with the length normalisation of Wu et al. (2016), $\alpha$ = `alpha`. Return the `beams` finished hypotheses with the
# largest scores (all, if there are fewer), the best first: a list of pairs of a list of tokens and a score.
#
# With `toy_step` and `alpha = 0`, two beams find `[3, 1]` with $P = 0.40 \cdot 0.89 = 0.356$ before `[2, 1]` with
# $P = 0.50 \cdot 0.39 = 0.195$. The greedy decoder took the second one.
#
# Not allowed: `textbook.decoding` (its `beam_search` runs the operation `index_select`). For a list `parents` of
# rows, `state[parents]` takes these rows. Useful: `log_softmax`, `tolist()` or `topk`.


# %% solution="beam_search"
def beam_search(step, state, start, end, beams, max_length, alpha):
    """The best finished hypotheses: pairs (list of tokens, score), the best first."""
    ### BEGIN SOLUTION
    hypotheses, finished = [([], 0.0)], []
    for _ in range(max_length):
        last = mt.tensor([tokens[-1] if tokens else start for tokens, _ in hypotheses])
        scores, state = step(last, state)  # (open hypotheses, V)
        candidates = []
        for parent, row in enumerate(scores.log_softmax(dim=-1).tolist()):
            tokens, log_p = hypotheses[parent]
            for token, more in enumerate(row):
                candidates.append((log_p + more, parent, [*tokens, token]))
        candidates.sort(key=lambda candidate: -candidate[0])
        hypotheses, parents = [], []
        for log_p, parent, tokens in candidates[:beams]:
            if tokens[-1] == end:
                finished.append((tokens, log_p))
            else:
                hypotheses.append((tokens, log_p))
                parents.append(parent)
        if not hypotheses:
            break
        state = state[parents]
    finished += hypotheses
    scored = [(tokens, log_p / ((5 + len(tokens)) / 6) ** alpha) for tokens, log_p in finished]
    return sorted(scored, key=lambda pair: -pair[1])[:beams]
    ### END SOLUTION


# %% tests="beam_search" points=7
check.beam_search(beam_search)
### BEGIN HIDDEN TESTS
check.beam_search(beam_search, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# From a list of sentences to a translation and its score, every step of a sequence-to-sequence system is now yours,
# but for the one vector in its middle. Chapter 04 removes that.
