# %% [markdown]
# # Exercises 03: sequence to sequence
#
# Ten exercises, from easy to hard, 40 points, about five hours and a quarter. They belong to
# [chapter 03](../../notebooks/03_seq2seq.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on inputs of several sizes: any
# way of writing it that gives the right result is right. A wrong answer is told what it looks like. What you see passing are
# the *public checks*; when the set is graded, the same checks run once more on other numbers and sizes. Where an
# exercise does not allow an operation, the check records what runs inside your function, under whatever name you
# call it. In exercises 2, 4 and 10 the gradients of your results are compared, too: stay with tensors
# there, and away from `.item()`, `.detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** The batch comes first: $B$ sentences, $n$ words of the source, $T$ steps of the decoder, $H$ numbers of a
# state, $V$ tokens in the vocabulary. `padding`, $(B, n)$ or $(B, T)$, is boolean and True **at the padding**. The numbers of the start,
# end and padding tokens come as arguments `start`, `end` and `pad`; any of them may be 0 or not.

# %%
import math
from collections import Counter

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
# *Goal: make what the decoder reads, what it must say, and where nothing is to be said. Easy, 20 minutes, 3 points.*
#
# `sentences` is a list of $B$ lists of token numbers, each of any length, 0 included. With teacher forcing the decoder reads the start
# token and the words, and has to say the words and the end token. Return three tensors $(B, T)$, where $T$ is one more than the
# longest sentence has words:
#
# 1. the inputs: `start`, the words, then `pad`. The end token is never read;
# 2. the targets: the words, `end`, then `pad`;
# 3. their padding: True where nothing is to be said.
#
# Two of the three numbers `start`, `end` and `pad`, or all three, may be the same: many vocabularies have one special token for everything. So
# a token does not say whether it is padding. Everything is allowed; Python lists will do.


# %% solution="teacher_batch"
def teacher_batch(sentences, start, end, pad):
    """B lists of tokens give inputs, targets and the targets' padding, each (B, T)."""
    ### BEGIN SOLUTION
    steps = 1 + max(len(sentence) for sentence in sentences)  # T
    inputs, targets, padding = [], [], []
    for sentence in sentences:
        rest = steps - len(sentence) - 1
        inputs.append([start, *sentence] + [pad] * rest)
        targets.append([*sentence, end] + [pad] * rest)
        padding.append([False] * (len(sentence) + 1) + [True] * rest)
    return mt.tensor(inputs), mt.tensor(targets), mt.tensor(padding)
    ### END SOLUTION


# %% tests="teacher_batch" points=3
check.teacher_batch(teacher_batch)
### BEGIN HIDDEN TESTS
check.teacher_batch(teacher_batch, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. How likely is a translation?
#
# *Goal: add up what a decoder says of whole sentences, and keep the padding out. Easy, 20 minutes, 3 points.*
#
# `scores` $(B, T, V)$ are the decoder's scores (logits), `targets` $(B, T)$ the tokens that it had to say, the end token included, and `padding`
# $(B, T)$ is True where nothing was to be said. Return
#
# 1. $\log P$ of each translation, $(B)$: the sum of the log-probabilities of its tokens;
# 2. the loss, one number: minus the mean log-probability of a token, over all real tokens of the batch.
#
# Scores may be in the thousands. At padded positions they may be **anything**, infinite or not a number; the tokens there are valid
# numbers that mean nothing. Neither changes a result, and the gradient there is exactly zero.
#
# Not allowed: `F.cross_entropy` and `F.nll_loss`, which do most of it (the operations `cross_entropy` and `amin`). `log_softmax`
# is allowed. Useful: `gather`, `masked_fill`. Before you run the check: why is it not enough to mask what comes after `log_softmax`?


# %% solution="log_probabilities"
def log_probabilities(scores, targets, padding):
    """log P of each translation (B), and the loss of a token, one number."""
    ### BEGIN SOLUTION
    scores = scores.masked_fill(padding.unsqueeze(-1), 0.0)  # whatever it was
    log_p = scores.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    log_p = log_p.masked_fill(padding, 0.0)
    return log_p.sum(dim=1), -log_p.sum() / (~padding).sum()
    ### END SOLUTION


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
# *Goal: know what padding costs before it is paid. Easy, 20 minutes, 3 points.*
#
# A recurrent network computes one *cell* for every token that it reads, padding too. A corpus of sentences with the lengths `lengths` (a list, each at
# least 1) is cut into batches of `size` sentences, in this order; the last batch has what is left. Each is padded to its own longest sentence. Return a dict
# of whole numbers (of the type `int`: floats are not exact where numbers are large, and lengths may be; so do not count one by one):
#
# - `"padded"`: the cells of all batches;
# - `"sorted"`: the same, if the corpus is first sorted by length, the shortest first;
# - `"packed"`: the cells of all batches, not sorted, if each is packed;
# - `"steps"`: how many steps follow one another, with the batches not sorted, packed and read one after the other.
#
# Everything is allowed. The cell of the check counts the FLOPs of a GRU beside your numbers. Before you look: which of the
# four numbers does sorting change, if the batches are packed as well? What is sorting good for then?


# %% solution="cells"
def cells(lengths, size):
    """How many cells and steps it takes to read a corpus in batches, by name: a dict."""
    ### BEGIN SOLUTION

    def padded(lengths):
        batches = [lengths[i : i + size] for i in range(0, len(lengths), size)]
        return sum(len(batch) * max(batch) for batch in batches)

    return {
        "padded": padded(lengths),
        "sorted": padded(sorted(lengths)),
        "packed": sum(lengths),
        "steps": sum(max(lengths[i : i + size]) for i in range(0, len(lengths), size)),
    }
    ### END SOLUTION


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
# *Goal: sum up a sentence in one vector, whatever its padding holds. Medium, 20 minutes, 3 points.*
#
# Max pooling takes the largest number of each unit, mean pooling the mean of all. Between them lies the mean of the **`k` largest**:
# `states` is $(B, n, H)$, `padding` $(B, n)$, each sentence has at least one word. Return $(B, H)$: for each unit, the mean of its `k` largest numbers over the
# words of the sentence; where a sentence has fewer words than `k`, over all of them. Each unit chooses for itself.
#
# The padding may hold **anything**, infinite or not a number. It changes nothing, and the gradient there is exactly zero.
#
# Everything is allowed. Useful: `topk`, or `sort` with `descending=True`, which both give values and places. Which `k` is max pooling, and
# from which `k` on is it mean pooling?


# %% solution="largest_mean"
def largest_mean(states, padding, k):
    """States (B, n, H) and padding (B, n) give for each unit the mean of its k largest, (B, H)."""
    ### BEGIN SOLUTION
    counts = (~padding).sum(dim=1, keepdim=True).clamp(max=k)  # (B, 1)
    states = states.masked_fill(padding.unsqueeze(-1), -mt.inf)
    largest, _ = states.topk(min(k, states.shape[1]), dim=1)  # (B, k, H)
    extra = mt.arange(largest.shape[1]) >= counts  # (B, k)
    return largest.masked_fill(extra.unsqueeze(-1), 0.0).sum(dim=1) / counts
    ### END SOLUTION


# %% tests="largest_mean" points=3
check.largest_mean(largest_mean)
### BEGIN HIDDEN TESTS
# k = 1 is max pooling; with k equal to the number of words of the longest sentence, or more, it is mean pooling.
check.largest_mean(largest_mean, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## A decoder for the next exercises
#
# In exercises 5 and 9 a decoder comes as a function `step`. `scores, state = step(token, state)` reads one token
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
# ## 5. To be continued
#
# *Goal: write the loop that translates a batch, on from words that are given. Medium, 30 minutes, 5 points.*
#
# Somebody translates, and the machine completes. `given` $(B, m)$ holds the words with which each row has to begin, from 0 to $m$ of
# them, then `pad`. (None of the words is `end` or `pad`; $m$ may be 0.)
#
# All rows first read `start`, with the state `state` $(B, H)$. At each step, each row says its next given word; if it has none left, its likeliest token. What it says it
# reads at the next step. A row has ended when it has said `end`; from then on it is filled
# with `pad`. (The decoder may find `pad` likeliest: that is said like any other token and ends nothing.) Stop when all rows have ended, or after `max_length` steps.
# `max_length` is at least 1 and at least $m$; `end` and `pad` are two tokens.
# Return what was said, $(B, T)$, where $T$ is the number of steps: given words included, without the start token, with the end tokens.
#
# With `toy_step`, a row without given words says `[2, 1]`: token 2, then end; a row that begins with 3 says `[3, 1]`.
#
# Not allowed: `textbook.decoding` (its `greedy` would do most of it), nor `cat`, by which the check tells it. Keep the tokens of the steps in a list
# and `stack` them.


# %% solution="complete"
def complete(step, state, given, start, end, pad, max_length):
    """The tokens that are said, (B, n) with n at most max_length: given words, then its own."""
    ### BEGIN SOLUTION
    token, tokens = mt.full((len(state),), start), []
    ended = mt.zeros(len(state), dtype=mt.bool)
    while len(tokens) < max_length and not ended.all():
        scores, state = step(token, state)  # (B, V), (B, H)
        token = scores.argmax(dim=-1)  # (B)
        if len(tokens) < given.shape[1]:
            word = given[:, len(tokens)]
            token = mt.where(word == pad, token, word)
        token = token.masked_fill(ended, pad)
        tokens.append(token)
        ended = ended | (token == end)
    return mt.stack(tokens, dim=1)  # (B, n)
    ### END SOLUTION


# %% tests="complete" points=5
check.complete(complete)
### BEGIN HIDDEN TESTS
check.complete(complete, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. BLEU with several references
#
# *Goal: compute the score that translation is measured by, where more than one translation is right. Medium, 30 minutes, 4 points.*
#
# `hypotheses` is a list of translations, each a list of words. `references` has for each of them a **list** of right ones, one at
# least. An **n-gram** is a run of $n$ words. For each $n = 1, \dots, N$, with $N$ = `max_n`, count over the **whole corpus**
#
# - the n-grams of all hypotheses, an n-gram as often as it occurs;
# - the matches: in each sentence, each n-gram of the hypothesis counts as often as it occurs there, but at most as often
#   as in **that** reference of the sentence that has it most often (this is the *clipping*).
#
# The precision $p_n$ is the second number divided by the first. With $c$ the number of words in all hypotheses and $r$ the sum, over the sentences,
# of the length of the reference that is **nearest** in length to the hypothesis (of two that are as near, the shorter),
#
# $$\mathrm{BLEU} = 100 \cdot \min(1,\ e^{1 - r/c}) \cdot \Big(\prod_{n=1}^{N} p_n\Big)^{1/N}$$
#
# If there is no match for some $n$, BLEU is 0. Return the number.
#
# For example, with `max_n = 1`, "the the the the the the the" against "the cat is on the mat" and "a cat on the mat" has 7
# n-grams and 2 matches, and $r = 6$; so BLEU is $100 \cdot 2/7$.
#
# All of Python is allowed. `Counter(...)` counts things that can be keys, such as tuples of words.


# %% solution="bleu"
def bleu(hypotheses, references, max_n):
    """BLEU of a corpus, from 0 to 100; references is a list of lists of sentences."""
    ### BEGIN SOLUTION

    def grams(words, n):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    log_precisions = []
    for n in range(1, max_n + 1):
        matches = total = 0
        for words, right in zip(hypotheses, references, strict=True):
            said, most = grams(words, n), Counter()
            for reference in right:
                most |= grams(reference, n)  # | takes the larger of two counts
            matches += (said & most).total()  # & takes the smaller
            total += said.total()
        if matches == 0:
            return 0.0
        log_precisions.append(math.log(matches / total))
    c, r = sum(map(len, hypotheses)), 0
    for words, right in zip(hypotheses, references, strict=True):
        lengths = [len(reference) for reference in right]
        r += min(lengths, key=lambda length: (abs(length - len(words)), length))
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(sum(log_precisions) / max_n)
    ### END SOLUTION


# %% tests="bleu" points=4
check.bleu(bleu)
### BEGIN HIDDEN TESTS
check.bleu(bleu, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. What does the table say?
#
# *Goal: conclude from a test what it shows, and no more. Medium, 30 minutes, 4 points.*
#
# Translators were tested on some sentences. `"right"` has 1 for each sentence that was translated without a mistake, else 0; translators with the same
# `"test"` translated the same sentences, in the same order. `"chosen on"` says by which sentences the learning rate was chosen. The numbers are made up.

# %%
for row in check.translators:
    share = sum(row["right"]) / len(row["right"])
    about = f"tested on {row['test']:14} chosen on {row['chosen on']:14}"
    print(f"{row['translator']:17} {about} {share:.3f} of {len(row['right'])}")

# %% [markdown]
# Is one better than another? The sentences that both have right, or both wrong, decide nothing. Of the others the one has $a$ right, the other one $b$. If
# both were equally good, each of these $a + b$ sentences would be the toss of a coin. So ask how likely it would be then to win $a$ tosses **or more**:
#
# $$P = \sum_{k=a}^{a+b} \binom{a+b}{k} \Big/ 2^{\,a+b}$$
#
# Return a list of pairs `(better, worse)` of translators, in any order. A pair belongs into it if
#
# - both were tested on the same sentences, and neither was chosen on them;
# - $P < 0.025$, with $a$ the sentences that only the better one has right, $b$ those that only the worse one has right.
#
# `rows` is a list of dicts like those of `check.translators`, in any order. Everything is allowed; `math.comb(n, k)` is the binomial coefficient.
# Before you run the cell: "deeper" has more right than "wider". Must both be shown to be better than "plain", if one is?


# %% solution="shown_better"
def shown_better(rows):
    """Pairs (better, worse) of translators, as far as the test shows it."""
    ### BEGIN SOLUTION
    fair = [row for row in rows if row["chosen on"] != row["test"]]
    found = []
    for one in fair:
        for other in fair:
            if one["test"] != other["test"]:
                continue
            answers = list(zip(one["right"], other["right"], strict=True))
            wins, losses = answers.count((1, 0)), answers.count((0, 1))
            n = wins + losses
            if sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n < 0.025:
                found.append((one["translator"], other["translator"]))
    return found
    ### END SOLUTION


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
# *Goal: find what is wrong with a padded batch, by a test. Medium, 35 minutes, 4 points.*
#
# Below are nine encoders, `encode(tokens, padding)`, with tokens $(B, n)$ from 0 to 11 and `padding` $(B, n)$, True at the padding, which stands at the end. They
# return one vector for each sentence, $(B, H)$ in float64, for sentences of 1 to 12 words. In which direction they read, what their weights are, and how they make
# one vector of what they have read is their own business. But each must follow three rules:
#
# 1. a sentence has the same vector alone and in any batch, in any row, with any padding behind it;
# 2. every word counts, and so does the order: another sentence of the same length has another vector;
# 3. `tokens` and `padding` are left unchanged.
#
# An encoder that breaks a rule for some input is broken. You cannot look inside, but the tokens are yours. Return the numbers of the
# broken encoders, counted from 0, as a list. Five of these nine are broken; the check has others, too. Whoever breaks rule 2 breaks it for some sentence in which
# one word is exchanged for another, or two neighbours change places; vectors of different sentences differ by more than $10^{-6}$.

# %%
nine = check.encoders()

# %% [markdown]
# Everything is allowed. Useful: `mt.allclose`, `.clone()`.


# %% solution="broken_encoders"
def broken_encoders(encoders):
    """The numbers of the encoders that break a rule."""
    ### BEGIN SOLUTION
    mt.manual_seed(0)
    tokens = mt.randint(0, 12, (4, 14))
    lengths = mt.tensor([5, 12, 1, 9])  # the longest is not the first
    padding = mt.arange(14) >= lengths.unsqueeze(1)

    def follows_the_rules(encode):
        given, mask = tokens.clone(), padding.clone()
        found = encode(given, mask)
        if not (mt.equal(given, tokens) and mt.equal(mask, padding)):
            return False
        for b, n in enumerate(lengths.tolist()):
            sentence, others = tokens[b, :n], []
            for j in range(n):
                for other in range(12):
                    changed = sentence.clone()
                    changed[j] = other
                    others.append(changed)
                turned = sentence.clone()
                turned[[j - 1, j]] = sentence[[j, j - 1]]
                others.append(turned)
            for other in others:
                alone = encode(other.unsqueeze(0), mt.zeros(1, n, dtype=mt.bool))[0]
                if mt.allclose(alone, found[b]) != mt.equal(other, sentence):
                    return False
        return True

    return [i for i, encode in enumerate(encoders) if not follows_the_rules(encode)]
    ### END SOLUTION


# %% tests="broken_encoders" points=4
check.broken_encoders(broken_encoders)
print("broken:", broken_encoders(nine))
### BEGIN HIDDEN TESTS
check.broken_encoders(broken_encoders, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Beam search
#
# *Goal: search for the likeliest sentences. Hard, 45 minutes, 5 points.*
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
# What is still open after `max_length` steps counts as finished. The score of a finished hypothesis of $T$ tokens (`end`
# counts, `start` is not part of it) is
#
# $$\frac{\log P}{\big((5 + T) / 6\big)^{\alpha}}$$
#
# with $\alpha$ = `alpha`, 0 or more. (`beams` and `max_length` are at least 1, and no two hypotheses are equally likely.) Return the `beams` finished hypotheses with the
# largest scores (all, if there are fewer), the best first: a list of pairs of a list of tokens and a score.
#
# With `toy_step` and `alpha = 0`, two beams find `[3, 1]` with $P = 0.40 \cdot 0.89 = 0.356$ before `[2, 1]` with
# $P = 0.50 \cdot 0.39 = 0.195$. One beam takes the second one.
#
# Not allowed: `textbook.decoding` (its `beam_search` would do it all; it runs the operation `index_select`). For a list `parents` of
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


# %% tests="beam_search" points=5
check.beam_search(beam_search)
### BEGIN HIDDEN TESTS
check.beam_search(beam_search, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. A translator of your own
#
# *Goal: write a model that reads and writes, and a step of its training, and train it. Hard, 60 minutes, 6 points: 3 for the model, 2 for the step, 1 for what is reached.*
#
# ### The model
#
# Cho et al. (2014) give the encoding to their decoder at **every** step. Write `forward` of the translator below. `source` $(B, n)$ are the words of
# the source, `padding` $(B, n)$ is True at their padding, `inputs` $(B, T)$ what the decoder reads. With $\overrightarrow{h}$ and
# $\overleftarrow{h}$ the **final** states of both directions of `self.encoder`, each having read the whole sentence and no padding, and $E$ `self.target_embedding`,
#
# $$c = \tanh\big(\text{bridge}([\overrightarrow{h}; \overleftarrow{h}])\big), \qquad s_0 = c,$$
#
# $$s_t = \mathrm{GRU}\big([E_{y_{t-1}}; c],\, s_{t-1}\big), \qquad \text{scores}_t = \text{out}(s_t) .$$
#
# Return the scores, $(B, T, V)$. Keep `__init__` as it is. Everything is allowed; `pack_padded_sequence` helps.


# %% solution="Translator"
class Translator(nn.Module):
    """Source (B, n) and what the decoder reads (B, T) to scores of what it is to say (B, T, V')."""

    def __init__(self, source_size, target_size, width, hidden):
        super().__init__()
        self.source_embedding = nn.Embedding(source_size, width)
        self.encoder = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.target_embedding = nn.Embedding(target_size, width)
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, target_size)

    def forward(self, source, padding, inputs):
        """Source (B, n), its padding (B, n) and inputs (B, T) to scores (B, T, V')."""
        ### BEGIN SOLUTION
        x, lengths = self.source_embedding(source), (~padding).sum(dim=1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.encoder(packed)  # (2, B, H), forward and backward
        c = self.bridge(mt.cat([last[0], last[1]], dim=-1)).tanh()  # (B, H)
        y = self.target_embedding(inputs)  # (B, T, d)
        repeated = c.unsqueeze(1).expand(-1, y.shape[1], -1)  # (B, T, H)
        states, _ = self.decoder(mt.cat([y, repeated], dim=-1), c.unsqueeze(0))
        return self.out(states)
        ### END SOLUTION


# %% tests="Translator" points=3
check.Translator(Translator)
### BEGIN HIDDEN TESTS
check.Translator(Translator, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### One step of training
#
# A batch that is too large for the memory is read in parts. `parts` is a list of `(source, source_padding, inputs, targets, padding)`, of different sizes and lengths. `model(source,
# source_padding, inputs)` gives scores $(B, T, V)$; `padding` $(B, T)$ is True where nothing is to be said. Do one step of `optimizer`, **as if all parts were one batch**:
# the loss is the mean cross-entropy of a token, over all real tokens of all parts. The norm of its gradient is clipped to `clip` (`nn.utils.clip_grad_norm_`). Gradients of earlier
# steps must not count. Return the loss before the step, a number.
#
# Everything is allowed. Calling `backward()` for each part before the next one is read is what saves the memory: gradients add up.


# %% solution="training_step"
def training_step(model, optimizer, parts, clip):
    """One step on all parts together, as if they were one batch; the loss of a token, a number."""
    ### BEGIN SOLUTION
    tokens = sum((~padding).sum().item() for *_, padding in parts)
    optimizer.zero_grad()
    total = 0.0
    for source, source_padding, inputs, targets, padding in parts:
        scores = model(source, source_padding, inputs)  # (B, T, V')
        losses = F.cross_entropy(scores[~padding], targets[~padding], reduction="sum")
        (losses / tokens).backward()  # the gradients add up
        total += losses.item()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return total / tokens
    ### END SOLUTION


# %% tests="training_step" points=2
check.training_step(training_step)
### BEGIN HIDDEN TESTS
check.training_step(training_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# `check.trained(Translator, training_step, (width, hidden, rate, steps), seed)` trains your model with your step and Adam on English numbers of up to four digits and their
# German names, two parts of 32 pairs at each step, in some seconds. The learning rate falls from `rate` to zero. `check.Numbers()` has `held_out(seed)`, pairs of numbers that no training has seen,
# and `batch(pairs)`; `check.share_right(model, batch)` says how many are translated without a mistake. Return a dict with `"width"` (64 at most), `"hidden"` (96 at most),
# `"rate"` and `"steps"` (250 at most).
#
# The last check trains your choice with two seeds of its own. With **each** at least 75 % of 200 new numbers have to be right. Choose with other seeds than 11 and 12, which it takes: else you
# choose by luck.


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
# From a list of sentences to a trained translator, its words and its score, every step is now yours, and one vector still stands in its middle. Chapter 04
# removes that.
