# %% [markdown]
# # Exercises 04: attention
#
# Ten exercises, from easy to hard, 40 points, about five hours. They belong to
# [chapter 04](../../notebooks/04_attention.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. In exercises 2, 8 and 10 the
# gradients of your results are compared, too: stay with tensors there, and away from `.item()`, `.detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** The batch comes first: $B$ sentences, $n$ words of the source (keys), $T$ steps of the decoder (queries), $H$ or $d$ numbers of a
# vector. Scores and weights are $(B, T, n)$: row $t$ belongs to query $t$, column $j$ to word $j$. `padding` $(B, n)$ is boolean and True **at the padding**.
# The memory $M$ holds the states of the encoder, $o$ is the attention output.

# %%
import math

import minitorch as mt
from minitorch import nn
from minitorch.flops import count_flops
from textbook.checks import chapter_04 as check
from textbook.checks import progress

progress.show("04")

# %% [markdown]
# ## 1. Each point left out
#
# *Goal: choose how sharp a query should be, without any network. Easy, 20 minutes, 3 points.*
#
# Kernel regression guesses the value at a place by a weighted mean of all measured values, with the scores $e_j = -\lVert q - k_j \rVert^2 / (2\sigma^2)$. Which
# width $\sigma$ is good? Guess each measured value from **all others**, and see how wrong that is. `keys` is $(n, d)$, `values` $(n)$, `width` is $\sigma$, $n \ge 2$. Return
# the mean squared error of these $n$ guesses, one number.
#
# A width may be so small that every exponential of a score is 0. Everything is allowed; `softmax` subtracts the largest score first. Before you run the cell: what would the best
# width be if a point took part in its own guess?


# %% solution="leave_one_out"
def leave_one_out(keys, values, width):
    """Keys (n, d) and values (n) give the mean squared error of kernel regression, a number."""
    ### BEGIN SOLUTION
    distances = (keys.unsqueeze(1) - keys.unsqueeze(0)).square().sum(dim=-1)  # (n, n)
    scores = (-distances / (2 * width**2)).masked_fill(mt.eye(len(keys)).bool(), -mt.inf)
    return (scores.softmax(dim=-1) @ values - values).square().mean()
    ### END SOLUTION


# %% tests="leave_one_out" points=3
check.leave_one_out(leave_one_out)
mt.manual_seed(0)
k = 6 * mt.rand(40)
v = k.sin() + 0.3 * mt.randn(40)
for width in (3.0, 1.0, 0.3, 0.1, 0.03):
    print(f"width {width:4}: {float(leave_one_out(k.unsqueeze(1), v, width)):.3f}")
### BEGIN HIDDEN TESTS
# The smallest: each point would find itself, with an error of 0, and nothing would have been learned of the places between.
check.leave_one_out(leave_one_out, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. With padding, and with nothing to look at
#
# *Goal: write dot-product attention that survives whatever a batch may hold. Easy, 25 minutes, 4 points.*
#
# `queries` is $(B, T, d)$, `keys` $(B, n, d)$, `values` $(B, n, d_v)$, `padding` $(B, n)$. The score of a query and a key is
# their dot product, not scaled. Return the outputs $(B, T, d_v)$ and the weights $(B, T, n)$.
#
# - A padded word has the weight exactly 0; the weights of each query add up to 1 over the words.
# - A source may be **empty**: all of it is padding. Then its weights and outputs are 0.
# - What stands in the padding of keys and values may be **anything**, infinite or not a number. It changes nothing, and its gradient is exactly 0.
# - Scores may be in the hundreds.
#
# Not allowed: `F.scaled_dot_product_attention`, which does most of it. Useful: `masked_fill`, `softmax`. Before you run the check: the
# weight of a padded word is 0. Why is that not enough if its value is infinite?


# %% solution="attend"
def attend(queries, keys, values, padding):
    """Queries (B, T, d), keys, values (B, n, ...), padding (B, n): outputs, weights (B, T, n)."""
    ### BEGIN SOLUTION
    hidden = padding.unsqueeze(1)  # (B, 1, n)
    keys, values = keys.masked_fill(hidden.mT, 0.0), values.masked_fill(hidden.mT, 0.0)
    empty = hidden.all(dim=-1, keepdim=True)  # (B, 1, 1)
    scores = (queries @ keys.mT).masked_fill(hidden & ~empty, -mt.inf)  # (B, T, n)
    weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
    return weights @ values, weights
    ### END SOLUTION


# %% tests="attend" points=4
check.attend(attend)
### BEGIN HIDDEN TESTS
# 0 times infinity is not a number, and so is every sum in which it stands. What must not count has to be replaced, not weighted.
check.attend(attend, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then count
#
# *Goal: know what a score function costs before it runs. Easy, 25 minutes, 3 points.*
#
# $T$ queries meet $n$ keys, all of $d$ numbers; $r$ is the rank. Return a dict with the FLOPs of all scores, products of matrices alone, where a
# multiplication with its addition is two FLOPs:
#
# - `"dot product"`: $s^\top h$;
# - `"multiplicative"`: $s^\top W h$, with $W$ applied to that side that makes it cheaper;
# - `"reduced rank"`: $(U s)^\top (V h)$, each side projected to $r$ numbers first;
# - `"additive"`: $w^\top \tanh(W_1 h + W_2 s)$ with $r$ hidden units, each side projected once (sums and $\tanh$ are not counted);
#
# and `"largest rank"`, the largest $r$ with which reduced rank costs no more than the dot product, a whole number, 0 if there is none.
#
# Sizes are whole numbers and may be large: stay with whole numbers. Everything is allowed. The cell of the check counts beside your numbers. Before you look:
# two of the four cost the same. Are they equally fast?


# %% solution="score_costs"
def score_costs(T, n, d, r):
    """FLOPs of four score functions for T queries and n keys of d numbers: a dict."""
    ### BEGIN SOLUTION
    pairs = 2 * T * n
    projected = 2 * (T + n) * d * r  # queries and keys, each by a matrix (r, d)
    return {
        "dot product": pairs * d,
        "multiplicative": 2 * min(T, n) * d * d + pairs * d,
        "reduced rank": projected + pairs * r,
        "additive": projected + pairs * r,
        "largest rank": T * n * d // ((T + n) * d + T * n),
    }
    ### END SOLUTION


# %% tests="score_costs" points=3
check.score_costs(score_costs)
T, n, d, r = 6, 12, 64, 4
S, M = mt.zeros(T, d), mt.zeros(n, d)
W, U, V, w = mt.zeros(d, d), mt.zeros(r, d), mt.zeros(r, d), mt.zeros(r)
counted = {
    "dot product": lambda: S @ M.T,
    "multiplicative": lambda: (S @ W) @ M.T,
    "reduced rank": lambda: (S @ U.T) @ (M @ V.T).T,
    "additive": lambda: ((M @ U.T) + (S @ V.T).unsqueeze(1)).tanh() @ w,
}
for name, scored in counted.items():
    with count_flops() as counter:
        scored()
    print(f"{name:15} predicted {score_costs(T, n, d, r)[name]:7,}  counted {counter.total:7,}")
### BEGIN HIDDEN TESTS
# Reduced rank and additive. The additive one also makes r numbers for every pair, adds and puts each through a tanh: T n r numbers in
# memory, where the other has (T + n) r. FLOPs of products are not the time.
check.score_costs(score_costs, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A table that finds pairs
#
# *Goal: know how long a query must be to find two values, and no third. Medium, 25 minutes, 4 points.*
#
# Build a table with $n \ge 3$ entries: return `keys` $(n, d)$ and `queries` $(n, d)$, tensors of any size $d$ that you
# like, so that with the weights `(queries @ keys.T).softmax(dim=-1)` query $i$ finds the **mean of two values**: it puts the weight $(1 -$ `error`$)/2$ on key $i$ and as much on
# key $i + 1$ (the last query on the last key and on key 0), and shares the rest evenly: every other key gets `error` $/ (n - 2)$.
#
# The check draws `error` from $10^{-6}$ to 0.9. Everything is allowed. Begin with keys that are orthonormal, such as `mt.eye(n)`. With which query are two scores
# the same and all others 0? Then work out with pencil and paper by which number to multiply it.


# %% solution="pair_table"
def pair_table(n, error):
    """Keys (n, d), queries (n, d): query i finds keys i and i + 1, (1 - error) / 2 each."""
    ### BEGIN SOLUTION
    # e^scale must be the ratio of a wanted weight to an unwanted one.
    scale = math.log((1 - error) / 2 / (error / (n - 2)))
    keys = mt.eye(n)
    return keys, scale * (keys + keys.roll(-1, 0))
    ### END SOLUTION


# %% tests="pair_table" points=4
check.pair_table(pair_table)
### BEGIN HIDDEN TESTS
# The sum of two keys. Its scores are 1 at both and 0 elsewhere.
check.pair_table(pair_table, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The alignment error rate
#
# *Goal: score attention maps against links that people have drawn. Medium, 25 minutes, 4 points.*
#
# People who align sentences draw links that are **sure** and links that are only **possible** (Och and Ney, 2003). `weights` $(B, T, n)$ are attention
# maps; map $b$ has `counts[b]` pieces, later rows are padding. A piece $t$ makes a link $(t, j)$ to the word $j$ with its largest weight (no other is as large), if this weight is
# at least `threshold`; else it makes none. `sure` and `possible` are lists of $B$ sets of pairs $(t, j)$. With $A$ all links that were made, $S$ the sure ones, and $P$ the possible ones **together with** the
# sure ones,
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|},$$
#
# where each number is counted over all sentences together. Return it, a number from 0 to 1. ($|A| + |S|$ is not 0.)
#
# Everything is allowed; loops and sets will do. Before you run the check: which of the two kinds of links is an error if it is not made?


# %% solution="alignment_error_rate"
def alignment_error_rate(weights, counts, sure, possible, threshold):
    """The alignment error rate of attention maps (B, T, n), from 0 to 1."""
    ### BEGIN SOLUTION
    found = correct = known = 0
    for rows, count, s, p in zip(weights, counts, sure, possible, strict=True):
        links = set()
        for t in range(count):
            j = rows[t].argmax().item()
            if rows[t, j].item() >= threshold:
                links.add((t, j))
        found, known = found + len(links), known + len(s)
        correct += len(links & s) + len(links & (s | p))
    return 1 - correct / (found + known)
    ### END SOLUTION


# %% tests="alignment_error_rate" points=4
check.alignment_error_rate(alignment_error_rate)
### BEGIN HIDDEN TESTS
# The sure ones: they stand in |S| below. A possible link costs nothing if it is not made, and nothing if it is.
check.alignment_error_rate(alignment_error_rate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What does the table say?
#
# *Goal: conclude from learning curves what they show, and no more. Medium, 30 minutes, 4 points.*
#
# Translators with different score functions were trained, each with several seeds; `"steps to 90 %"` has for each seed after how many steps 90 % of the test were
# right, None if they were not within `"steps run"` steps. `"chosen on"` says by which numbers the learning rate was chosen. The numbers are made up.

# %%
for row in check.scores:
    about = f"H = {row['width']:3}, chosen on {row['chosen on']:13}, {row['steps run']:3} steps"
    print(f"{row['score']:19} {about}: {row['steps to 90 %']}")

# %% [markdown]
# Write the reader down. `rows` is a list of dicts like those of `check.scores`, in any order, each with a name of its own. Return a list of pairs `(faster, slower)` of scores, in any
# order. A pair belongs into it if
#
# - both have the same `"width"` and were tested on the same numbers (`"tested on"`);
# - neither was chosen on the numbers that it was tested on;
# - both have at least five seeds;
# - **every** seed of the faster one is known to have needed fewer steps than **every** seed of the slower one. A seed that has not arrived within its `"steps run"` needs one more at
#   least; how many more, nobody knows.
#
# Everything is allowed. Before you run the cell: "additive" has the lowest numbers of all with $H = 64$. May you say that it is faster than "multiplicative"? And which of the two rows of "mean"
# tells more?


# %% solution="learns_faster"
def learns_faster(rows):
    """Pairs (faster, slower) of score functions, as far as the table allows."""
    ### BEGIN SOLUTION
    fair = [
        row
        for row in rows
        if row["chosen on"] != row["tested on"] and len(row["steps to 90 %"]) >= 5
    ]
    found = []
    for a in fair:
        for b in fair:
            if a["width"] != b["width"] or a["tested on"] != b["tested on"]:
                continue
            if None in a["steps to 90 %"]:
                continue
            later = [b["steps run"] + 1 if s is None else s for s in b["steps to 90 %"]]
            if max(a["steps to 90 %"]) < min(later):
                found.append((a["score"], b["score"]))
    return found
    ### END SOLUTION


# %% tests="learns_faster" points=4
check.learns_faster(learns_faster)
for faster, slower in learns_faster(check.scores):
    print(f"{faster} is faster than {slower}")
### BEGIN HIDDEN TESTS
# No: its learning rate was chosen by the very numbers that are reported, so its numbers are too good. The longer row of "mean" tells
# more: that 120 steps are not enough shows it to be slower than all whose slowest seed needs fewer. After 60 steps the dot product has not arrived either with most
# seeds.
check.learns_faster(learns_faster, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these is broken?
#
# *Goal: find what is wrong with an attention that you cannot look into, by a test. Medium, 35 minutes, 4 points.*
#
# Below are nine programs, `attend(queries, memory, padding)`, with queries $(B, T, d)$, memory $(B, n, d)$, which is both keys and values, and `padding` $(B, n)$, at the end of a sentence, which has
# one word at least. They return outputs $(B, T, d)$ and weights $(B, T, n)$. Which score they have is their own business. But each must follow four rules:
#
# 1. the weights of a query are 0 or more, **exactly** 0 at the padding, and add up to 1; the output is the weighted sum of the memory as it is;
# 2. the weights of a query depend on this query and the words of its sentence alone: not on other queries or sentences, nor on what stands in the padding or how much there is;
# 3. if words change places, their weights go with them;
# 4. queries, memory and padding are left unchanged.
#
# A program that breaks a rule for some input is broken; inputs are finite numbers of usual size, such as `mt.randn` draws, with any $B$, $T$, $n$ and $d$ from 1 on. Return the numbers of
# the broken ones, counted from 0, as a list. Five of these nine are broken; the check has others, too. Differences below $10^{-9}$ in float64 are rounding, larger ones are not: `mt.allclose`
# takes `rtol=0, atol=1e-9`.

# %%
nine = check.programs()

# %% [markdown]
# Everything is allowed. Useful: `mt.allclose`, `.double()`, `.clone()`.


# %% solution="broken_attentions"
def broken_attentions(programs):
    """The numbers of the programs that break a rule."""
    ### BEGIN SOLUTION
    mt.manual_seed(0)
    queries, memory = mt.randn(3, 4, 5).double(), mt.randn(3, 7, 5).double()
    counts = [4, 7, 6]
    padding = mt.arange(7) >= mt.tensor(counts).unsqueeze(1)

    def near(a, b):
        return mt.allclose(a, b, rtol=0, atol=1e-9)

    def follows_the_rules(attend):
        given = queries.clone(), memory.clone(), padding.clone()
        outputs, weights = attend(*given)
        if not all(mt.equal(a, b) for a, b in zip(given, (queries, memory, padding), strict=True)):
            return False
        if bool((weights < 0).any()) or bool((weights.mT[padding] != 0).any()):
            return False
        if not near(weights.sum(dim=-1), mt.ones(3, 4).double()):
            return False
        if not near(outputs, weights @ memory):
            return False
        for b, n in enumerate(counts):
            for t in range(4):  # each query alone, to the words in the opposite order
                query, words = queries[[b], t : t + 1].clone(), memory[[b], :n].flip(1)
                _, turned = attend(query, words, mt.zeros(1, n, dtype=mt.bool))
                if not near(turned[0, 0].flip(0), weights[b, t, :n]):
                    return False
        return True

    return [i for i, attend in enumerate(programs) if not follows_the_rules(attend)]
    ### END SOLUTION


# %% tests="broken_attentions" points=4
check.broken_attentions(broken_attentions)
print("broken:", broken_attentions(nine))
### BEGIN HIDDEN TESTS
check.broken_attentions(broken_attentions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Pooling by learned queries
#
# *Goal: let a model find content and order with one weighted mean, and train it. Hard, 45 minutes, 5 points: 4 for the module, 1 for what is reached.*
#
# ### The module
#
# One learned query finds content, not order. This module has several queries $q_m$, the rows of `self.query` (queries, $H$), and each has a number $b_m$ in `self.late` (queries): how much
# it prefers late words. For a sentence with states $h_0, \dots, h_{n-1}$,
#
# $$e_{mj} = q_m^\top h_j + b_m\, j, \qquad \alpha_m = \operatorname{softmax}(e_{m0}, \dots, e_{m,n-1}), \qquad o_m = \sum_j \alpha_{mj}\, h_j .$$
#
# `states` is $(B, n, H)$, `padding` $(B, n)$, each sentence has at least one word. Return what the queries find, one after the other: $(B, \text{queries} \cdot H)$. The padding may hold **anything**; it changes
# nothing, and its gradient is exactly 0. Keep `__init__` as it is. Everything is allowed.


# %% solution="Queries"
class Queries(nn.Module):
    """States (B, n, H) and padding (B, n) to one vector each, by several learned queries."""

    def __init__(self, hidden, queries):
        super().__init__()
        self.query = nn.Parameter(mt.zeros(queries, hidden))
        self.late = nn.Parameter(mt.zeros(queries))

    def forward(self, states, padding):
        """States (B, n, H) and padding (B, n) to (B, queries * H)."""
        ### BEGIN SOLUTION
        states = states.masked_fill(padding.unsqueeze(-1), 0.0)
        places = mt.arange(states.shape[1]).unsqueeze(1)  # (n, 1)
        scores = states @ self.query.T + places * self.late  # (B, n, queries)
        weights = scores.masked_fill(padding.unsqueeze(-1), -mt.inf).softmax(dim=1)
        return (weights.mT @ states).flatten(1)
        ### END SOLUTION


# %% tests="Queries" points=4
check.Queries(Queries)
### BEGIN HIDDEN TESTS
check.Queries(Queries, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# The stories are [chapter 03](../../notebooks/03_seq2seq.ipynb)'s: which animal is named `"anywhere"`, or, of five, `"which came last"`? The reader is a plain RNN of 32 numbers with your pooling.
# `check.trained(Queries, queries, rate, steps, question, seed)` trains one, in about a second; `check.share_right(model, question)` measures it on new stories. Return a dict with `"queries"` (1 to 8), `"rate"` and
# `"steps"` (400 at most): one choice for both questions.
#
# The last check trains your choice with three seeds of its own for each question. With **each** at least 85 % have to be right. Choose with other seeds than 11, 12 and 13, which it takes: else you choose
# by luck.


# %% solution="reading_plan"
def reading_plan():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"queries": 1, "rate": 0.03, "steps": 300}
    ### END SOLUTION


# %% tests="reading_plan" points=1
check.reached(Queries, reading_plan)
### BEGIN HIDDEN TESTS
check.Queries(Queries, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The gradient by hand
#
# *Goal: send a gradient back through attention, on both ways, without the engine. Hard, 30 minutes, 4 points.*
#
# With states $S$ $(B, T, d)$ and a memory $M$ $(B, n, d)$ that is both keys and values,
#
# $$A = \operatorname{softmax}(S M^\top), \qquad O = A M .$$
#
# You get `states`, `memory` and `grad_outputs` $(B, T, d)$, the gradient of the loss with respect to $O$. Return two tensors: the gradients with respect to the
# **states** $(B, T, d)$ and to the **memory** $(B, n, d)$.
#
# Go back one step at a time. The memory is read twice, so its gradient has two parts. The Jacobian of the softmax, for one
# row $\alpha$, is $\partial \alpha_k / \partial e_j = \alpha_k\,(\mathbb 1[k = j] - \alpha_j)$.
#
# Not allowed: the engine's `backward()` and `autograd.grad`, which would do it for you.


# %% solution="attention_gradient"
def attention_gradient(states, memory, grad_outputs):
    """The gradients of the loss with respect to states (B, T, d) and memory (B, n, d)."""
    ### BEGIN SOLUTION
    weights = (states @ memory.mT).softmax(dim=-1)  # (B, T, n)
    grad_weights = grad_outputs @ memory.mT
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    grad_scores = weights * (grad_weights - average)  # (B, T, n)
    grad_memory = weights.mT @ grad_outputs + grad_scores.mT @ states  # as values, as keys
    return grad_scores @ memory, grad_memory
    ### END SOLUTION


# %% tests="attention_gradient" points=4
check.attention_gradient(attention_gradient)
### BEGIN HIDDEN TESTS
check.attention_gradient(attention_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Look, then step
#
# *Goal: write the decoder of Bahdanau et al., which looks before it steps. Hard, 40 minutes, 5 points.*
#
# Write `forward` of the decoder below. `inputs` $(B, T)$ are the tokens that it reads, `memory` $(B, n, H_e)$ the encoder's states, `padding` $(B, n)$ is True at
# their padding, `state` $(B, H)$ is $s_0$. At each step, with $x_t$ the embedding of the token that is read,
#
# $$e_{tj} = w^\top \tanh(W_1 h_j + W_2 s_{t-1}), \qquad o_t = \sum_j \alpha_{tj} h_j,$$
#
# $$s_t = \mathrm{cell}([x_t; o_t],\, s_{t-1}), \qquad \text{scores}_t = \text{out}([s_t; o_t; x_t]),$$
#
# with weights $\alpha_t$, the softmax of the scores $e_t$ over the words, without the padding. So the **old** state asks, and cell and output read what it has found. Return the scores of all steps, $(B, T, V)$. Keep `__init__` as it is.
#
# Not allowed: `F.scaled_dot_product_attention`, which would do the weighted mean.


# %% solution="AttentionDecoder"
class AttentionDecoder(nn.Module):
    """A GRU decoder that looks with its old state, by additive scores, and then steps."""

    def __init__(self, vocabulary_size, width, encoder_size, hidden_size, rank):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.W_1 = nn.Linear(encoder_size, rank, bias=False)
        self.W_2 = nn.Linear(hidden_size, rank, bias=False)
        self.w = nn.Linear(rank, 1, bias=False)
        self.cell = nn.GRUCell(width + encoder_size, hidden_size)
        self.out = nn.Linear(hidden_size + encoder_size + width, vocabulary_size)

    def forward(self, inputs, memory, padding, state):
        """Inputs (B, T), memory (B, n, H_e), padding (B, n), state (B, H): scores (B, T, V)."""
        ### BEGIN SOLUTION
        keys, results = self.W_1(memory), []  # (B, n, r)
        for x in self.embedding(inputs).unbind(1):  # (B, d)
            fit = self.w((keys + self.W_2(state).unsqueeze(1)).tanh()).squeeze(-1)  # (B, n)
            weights = fit.masked_fill(padding, -mt.inf).softmax(dim=-1)
            o = (weights.unsqueeze(1) @ memory).squeeze(1)  # (B, H_e)
            state = self.cell(mt.cat([x, o], dim=-1), state)  # (B, H)
            results.append(self.out(mt.cat([state, o, x], dim=-1)))
        return mt.stack(results, dim=1)
        ### END SOLUTION


# %% tests="AttentionDecoder" points=5
check.AttentionDecoder(AttentionDecoder)
### BEGIN HIDDEN TESTS
check.AttentionDecoder(AttentionDecoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Queries, keys and values, with padding and without a network; pooling, alignment, the gradient and the loop over the steps: the parts of chapter 04's
# translator are yours. [Chapter 05](../../notebooks/05_self_attention.ipynb) takes the loop away.
