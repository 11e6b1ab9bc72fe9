# %% [markdown]
# # Exercises 08: positions
#
# Ten exercises, from easy to hard, 40 points, about four and a half hours. They belong to
# [chapter 08](../../notebooks/08_positions.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once
# more on other numbers and sizes. Where an exercise does not allow an operation, the check records what
# runs inside your function, under whatever name you call it. Nearly every exercise differs from the chapter in
# a point that its text names: a cell of the chapter, pasted, is told so.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first, $n$ is the number of positions, $d$ the size of a token's
# vector (or of a head, where there are several), $h$ the number of heads. $d$ is even wherever numbers come in
# pairs. Places and columns count from 0.

# %%
import math

import minitorch as mt
from textbook.checks import chapter_08 as check
from textbook.checks import progress
from textbook.lab import finding

progress.show("08")

# %% [markdown]
# ## 1. A table inside a layer
#
# *Goal: see that one-hot vectors, put beside the words, are learned tables. Easy, 20 minutes, 4 points.*
#
# A model puts two one-hot vectors beside each word: $p_t$ of size $N$ for its place $t$ and $g_s$ of size $S$ for its segment $s$
# (the first sentence, the second one, ...). Then comes a linear layer with $m$ outputs. You get the layer as
# `nn.Linear` stores it: `weight` $(m, d + N + S)$ and `bias` $(m)$, with $[x; p_t; g_s]\,$`weight.T` $+$ `bias` as its output.
# `longest` is $N$, `segments` is $S$.
#
# Return two tensors, `matrix` $(d, m)$ and `table` $(S, N, m)$, such that
#
# $$x\, \text{matrix} + \text{table}[s, t]$$
#
# is what the layer gives for every word $x$ in every segment $s$ at every place $t$. (There is one such pair only. BERT
# adds *two* tables, of $N$ and of $S$ rows. Why is there more than one choice for these?)
#
# Not allowed: products of matrices (the operations `matmul` and `linear`): a one-hot vector picks a column, and there is
# nothing to multiply.


# %% solution="learned_from_one_hot"
def learned_from_one_hot(weight, bias, longest, segments):
    """weight (m, d + N + S) and bias (m) give matrix (d, m) and table (S, N, m)."""
    ### BEGIN SOLUTION
    d = weight.shape[1] - longest - segments
    word, place, segment = weight.T.split([d, longest, segments])
    return word, segment.unsqueeze(1) + place + bias
    ### END SOLUTION


# %% tests="learned_from_one_hot" points=4
check.learned_from_one_hot(learned_from_one_hot)
### BEGIN HIDDEN TESTS
# What is added to all rows of one table can be taken from all rows of the other: their sum stays
# the same. The bias may stand in either of them, or be shared out.
check.learned_from_one_hot(learned_from_one_hot, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A bias for distance, one query at a time
#
# *Goal: write ALiBi for a text that is being written. Easy, 20 minutes, 4 points.*
#
# Press et al. (2022) add to the score of query $i$ and key $j$ in head $\ell$ the number
#
# $$-\lambda_\ell\, (i - j), \qquad \lambda_\ell = 2^{-8\ell/h}, \qquad \ell = 1, \dots, h ,$$
#
# under a causal mask. While a text is written, the keys of all $n$ places are kept, and only the **last** $T$ places ask: the
# queries stand at the places $n - T, \dots, n - 1$. Return what is added to the scores, a tensor $(h, T, n)$: head by head, a row for
# each query, a column for each key; $-\infty$ where key $j$ comes after query $i$. `queries` is $T$ and `keys` is $n$, with $1 \le T \le n$.
#
# Everything is allowed. The check compares the bias itself, not the weights that it leads to.


# %% solution="alibi_bias"
def alibi_bias(queries, keys, heads):
    """What is added to the scores of the last places: (heads, queries, keys)."""
    ### BEGIN SOLUTION
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(keys)
    apart = places[keys - queries :].unsqueeze(1) - places  # (queries, keys): i - j
    bias = -slopes.reshape(-1, 1, 1) * apart
    return bias.masked_fill(apart < 0, -mt.inf)
    ### END SOLUTION


# %% tests="alibi_bias" points=4
check.alibi_bias(alibi_bias)
### BEGIN HIDDEN TESTS
check.alibi_bias(alibi_bias, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Sinusoids as in the program
#
# *Goal: write codes from a description that differs from the one you know. Easy, 20 minutes, 3 points.*
#
# The formula of Vaswani et al. (2017) and the program that came with it are not the same. The program has $k = d/2$ hands
# whose frequencies fall from 1 to $1/\text{base}$, each by the same **factor** slower than the one before, so that the first is exactly 1
# and the last exactly $1/\text{base}$. And it writes **all sines first, then all cosines**: row $t$ is
#
# $$p_t = \big[\sin \omega_0 t,\ \dots,\ \sin \omega_{k-1} t,\ \cos \omega_0 t,\ \dots,\ \cos \omega_{k-1} t \big] .$$
#
# Return the codes of the places $t = 0, \dots, n - 1$, a tensor $(n, d)$. If there is one hand only ($d = 2$), its frequency is 1.
#
# Everything is allowed; a loop will do. Before you run the check, write down the row of place 0.


# %% solution="sinusoidal_codes"
def sinusoidal_codes(n, d, base=10_000.0):
    """The codes of the places 0 to n - 1: (n, d)."""
    ### BEGIN SOLUTION
    k = d // 2
    omega = base ** (-mt.arange(k) / max(k - 1, 1))  # (k)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, k)
    return mt.cat([angles.sin(), angles.cos()], dim=1)
    ### END SOLUTION


# %% tests="sinusoidal_codes" points=3
check.sinusoidal_codes(sinusoidal_codes)
### BEGIN HIDDEN TESTS
# The row of place 0 has k zeros, then k ones.
check.sinusoidal_codes(sinusoidal_codes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A shift is a rotation
#
# *Goal: find the matrix that takes the code of any place to a place further on. Medium, 25 minutes, 4 points.*
#
# Codes are as in exercise 3, with any frequencies above 0, no two equal: `omega` is a tensor $(k)$, and $p_t$ has the $k$ sines of $\omega_m t$ first, then the $k$ cosines.
# $t$ need not be a whole number. Return the matrix $R$ of shape $(2k, 2k)$ for which
#
# $$p_{t + s} = p_t\, R \qquad \text{at every place } t,$$
#
# where $s$ is the number `shift`, whole or not, which may be negative or 0. $R$ depends on $s$ and $\omega$, not on $t$. Codes are rows, so $R$
# stands on the right. Because the columns stand in another order than in the chapter, $R$ looks different: find out
# first, with $k = 1$ on paper, and then with $k = 2$, where its numbers other than 0 are.
#
# Everything is allowed.


# %% solution="shift_matrix"
def shift_matrix(shift, omega):
    """R (2k, 2k): codes times R are the codes of the places that lie shift further on."""
    ### BEGIN SOLUTION
    angles = shift * omega
    c, s = mt.diag(angles.cos()), mt.diag(angles.sin())  # (k, k)
    return mt.cat([mt.cat([c, -s], dim=1), mt.cat([s, c], dim=1)])
    ### END SOLUTION


# %% tests="shift_matrix" points=4
check.shift_matrix(shift_matrix)
### BEGIN HIDDEN TESTS
# Hand m has the columns m and k + m, so R has four blocks (k, k), each with numbers on its
# diagonal alone: cosines, minus sines; sines, cosines.
check.shift_matrix(shift_matrix, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Predict, then turn
#
# *Goal: know before you run what a longer text does to rotary positions. Medium, 25 minutes, 4 points.*
#
# Pair $m$ of $d$ coordinates turns by $\omega_m = \text{base}^{-2m/d}$ a place, $m = 0, \dots, d/2 - 1$. A model was trained on texts of `trained`
# words, so the last place was `trained - 1`; now it gets `longer` words. Return a dict:
#
# - `"pairs that have been around"`: how many pairs had at the last trained place turned by $2\pi$ or more. (The others will meet angles
#   that no training has shown.)
# - `"squeeze"`: the first remedy. All places are multiplied by this number, so that the last of the longer text stands where the last trained place stood.
# - `"base"`: the second remedy, a larger base, with which the **slowest** pair has at the last place of the longer text the
#   angle that it had, with the old base, at the last trained place.
#
# $d$ is at least 4. Everything is allowed; the base is best solved for on paper. The cell of the check prints what becomes of the
# angles. Before you look: by how much do two neighbours differ in the *fastest* pair, with each remedy? Which one do you
# expect to blur neighbours?


# %% solution="longer_context"
def longer_context(d, base, trained, longer):
    """Pairs that have been around in training, and two remedies for a longer text: a dict."""
    ### BEGIN SOLUTION
    last, end = trained - 1, longer - 1  # the largest places
    around = [m for m in range(d // 2) if base ** (-2 * m / d) * last >= 2 * math.pi]
    return {
        "pairs that have been around": len(around),
        "squeeze": last / end,
        "base": base * (end / last) ** (d / (d - 2)),
    }
    ### END SOLUTION


# %% tests="longer_context" points=4
check.longer_context(longer_context)
d, base, trained, longer = 8, 10_000.0, 20, 64
found = longer_context(d, base, trained, longer)
remedies = {
    "as trained": (base, 1.0, trained - 1),
    "longer": (base, 1.0, longer - 1),
    "squeezed": (base, found["squeeze"], longer - 1),
    "larger base": (found["base"], 1.0, longer - 1),
}
print(found["pairs that have been around"], "of", d // 2, "pairs have been around")
print("angle at the last place, slowest pair; between neighbours, fastest pair")
for name, (b, squeeze, last) in remedies.items():
    print(f"{name:12} {squeeze * last * b ** (2 / d - 1):26.4f} {squeeze:33.3f}")
### BEGIN HIDDEN TESTS
# By 1 with the larger base, as in training, and by the squeeze, here 0.3, with squeezed places:
# those blur neighbours. The larger base leaves the fast pairs nearly as they are.
check.longer_context(longer_context, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What does the table say?
#
# *Goal: conclude from a table what it shows, and no more. Medium, 35 minutes, 4 points.*
#
# Schemes were trained on texts up to some length and tested at this length and at a longer one. `"right"` is the share of
# right answers at **all** places of the test texts, one number for each seed. The numbers are made up.

# %%
print("scheme            trained to  tested at  steps  rates tried  right")
for row in check.table:
    numbers = "  ".join(f"{row[key]:10}" for key in ("trained to", "tested at", "steps"))
    print(f"{row['scheme']:16}{numbers} {row['rates tried']:12}  {row['right']}")

# %% [markdown]
# The question is which scheme is better at the places **beyond** what was trained. The share at all places hides it: whoever knows only the
# trained 20 of 64 places has 31 % right. With a share $a$ of right answers at the trained length $T$ and $b$ at the longer length $n$,
# the share beyond is $(n b - T a)/(n - T)$, seed by seed (the first numbers of both lists belong together, and so on).
#
# Write the reader down. `rows` is a list of dicts like those of `check.table`, in any order; each scheme has two rows, one tested at
# the length that it was trained to, and a longer one. Return a list of pairs `(better, worse)` of schemes, in any order. A pair
# belongs into it if
#
# - both were trained to the same length, tested at the same longer length, trained for as many steps, and each was given the best of as many rates;
# - both have as many seeds (number $i$ of each list was measured with seed $i$);
# - that the share **beyond** of the better one is larger is a *finding* by chapter 00's rule ("When is a difference a finding?"): at least
#   five seeds, and $p \le 0.05$. `finding(larger, smaller)` of `textbook.lab` gives `p` and `found`.
#
# Everything is allowed. Before you run the cell: which scheme of the table has the best numbers at 64? May you say that it is better than
# ALiBi there?


# %% solution="concluded"
def concluded(rows):
    """Pairs (better, worse) of schemes, as far as the table allows."""
    ### BEGIN SOLUTION
    schemes = {}
    for row in rows:
        schemes.setdefault(row["scheme"], []).append(row)
    beyond, setting = {}, {}
    for scheme, both in schemes.items():
        inside, longer = sorted(both, key=lambda row: row["tested at"])
        T, n = inside["tested at"], longer["tested at"]
        shares = zip(inside["right"], longer["right"], strict=True)
        beyond[scheme] = [(n * whole - T * part) / (n - T) for part, whole in shares]
        setting[scheme] = [T, n, longer["steps"], longer["rates tried"]]
    found = []
    for one, x in beyond.items():
        for other, y in beyond.items():
            if setting[one] == setting[other] and len(x) == len(y) and finding(x, y).found:
                found.append((one, other))
    return found
    ### END SOLUTION


# %% tests="concluded" points=4
check.concluded(concluded)
for better, worse in concluded(check.table):
    print(f"{better} is better than {worse}")
### BEGIN HIDDEN TESTS
# At 64 "relative" has the highest share, 0.84 at all places; beyond, that is 0.81. ALiBi has 0.73 there on
# average, and with two of the five seeds it is ahead: p = 0.13. So the table does not
# say that relative is better than ALiBi. It does not say either that rotary positions are worse: they had three times
# the steps. And the table of places, though it has a third right at 64, knows less than a tenth beyond.
check.concluded(concluded, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Relative positions in keys and values
#
# *Goal: let a learned vector for the difference of two places into scores and outputs. Hard, 30 minutes, 5 points.*
#
# Shaw et al. (2018) add vectors to the keys, as in the chapter, and others to the **values**:
#
# $$e_{ij} = \frac{q_i\, \big(k_j + a_{\operatorname{clip}(j - i)}\big)^\top}{\sqrt d}, \qquad
# z_i = \sum_j \alpha_{ij}\, \big(v_j + b_{\operatorname{clip}(j - i)}\big),$$
#
# $$\operatorname{clip}(r) = \max(-c, \min(c, r)),$$
#
# where $\alpha_{i\cdot}$ is the softmax of $e_{i\cdot}$ over the keys. `query` and `key` are $(B, h, n, d)$, `value` is $(B, h, n, e)$. `keys_of` $(2c + 1, d)$ holds the
# vectors $a$ and `values_of` $(2c + 1, e)$ the vectors $b$, the same for all heads: row 0 belongs to $-c$, row $c$ to 0, the last row to $c$.
# `allowed` is None, or a boolean tensor that broadcasts to $(B, h, n, n)$, True where a query may look; each query may look at one key at
# least. Return $z$, $(B, h, n, e)$. Scores may be in the thousands.
#
# Everything is allowed; loops will do. Note that a negative index raises no error.


# %% solution="relative_attention"
def relative_attention(query, key, value, keys_of, values_of, allowed=None):
    """Attention with a vector for each difference, in keys and in values: (B, h, n, e)."""
    ### BEGIN SOLUTION
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places.unsqueeze(1)).clamp(-c, c) + c  # (n, n)
    by_place = (query.unsqueeze(-2) @ keys_of[rows].mT).squeeze(-2)  # (B, h, n, n)
    scores = (query @ key.mT + by_place) / d**0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value + (weights.unsqueeze(-2) @ values_of[rows]).squeeze(-2)
    ### END SOLUTION


# %% tests="relative_attention" points=5
check.relative_attention(relative_attention)
### BEGIN HIDDEN TESTS
check.relative_attention(relative_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Rotary positions for a batch
#
# *Goal: turn queries and keys by the places of their own sequence. Hard, 25 minutes, 4 points.*
#
# `x` is $(B, h, n, d)$, queries or keys. `positions`, integers $(B, n)$, says where each row stands: **each sequence has places of its own**, since in
# a batch the padding may stand in front. They need not be $0, 1, 2, \dots$, and may be in the thousands. As in the programs of many large
# models, coordinates $m$ and $m + d/2$ of a row are a pair $(a, b)$, $m = 0, \dots, d/2 - 1$. At place $t$ it is turned by the
# angle $\theta = t \cdot \text{base}^{-2m/d}$ and becomes
#
# $$(a \cos\theta - b \sin\theta,\quad a \sin\theta + b \cos\theta) .$$
#
# Return $(B, h, n, d)$, each coordinate where it was.
#
# There must be no loop over the places, which would be slow: the check counts the operations, which may not be more for nine
# places than for three. Everything else is allowed.


# %% solution="rotate"
def rotate(x, positions, base):
    """x (B, h, n, d) at positions (B, n) gives x turned, (B, h, n, d)."""
    ### BEGIN SOLUTION
    half = x.shape[-1] // 2
    omega = base ** (-mt.arange(half) / half)  # (d/2)
    angles = (positions.unsqueeze(-1) * omega).unsqueeze(1)  # (B, 1, n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]  # (B, h, n, d/2)
    return mt.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    ### END SOLUTION


# %% tests="rotate" points=4
check.rotate(rotate)
### BEGIN HIDDEN TESTS
check.rotate(rotate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Which of these programs is broken?
#
# *Goal: find wrong rotary positions by a test. Hard, 35 minutes, 4 points.*
#
# Below are nine programs, `rotate(x, places)`, with `x` $(B, h, n, d)$ and `places` ($n$ integers, 0 or more, the same for all sequences). Of the $d$ coordinates, an even number, which
# make a pair, how many of them turn (one at least), in which direction and with which base is a program's own business. But each must follow five rules:
#
# 1. a row at place 0 stays as it is;
# 2. the scores, products of all rows of a head with each other, stay as they are (but for rounding) when all places grow by the same number;
# 3. the scores do change when words move apart, in every head of every sequence;
# 4. what becomes of a row depends on its own numbers and its place alone, not on other rows, heads and sequences, on how many there are, nor on which of them it is;
# 5. `x` itself is left unchanged.
#
# A program that breaks a rule for some input is broken. You cannot look inside, but `x` and the places are yours. Return the numbers of the
# broken programs, counted from 0, as a list. Five of these nine are broken; the check has others, too. None is broken in
# less than a test in float64 can see: differences below $10^{-9}$ are rounding.

# %%
nine = check.programs()

# %% [markdown]
# Everything is allowed. Useful: `mt.allclose`, `.double()`, `.clone()`.


# %% solution="broken_rotations"
def broken_rotations(programs):
    """The numbers of the programs that break a rule."""
    ### BEGIN SOLUTION
    mt.manual_seed(0)
    x = mt.randn(2, 3, 5, 8).double()
    places = mt.tensor([3, 0, 90, 1, 7])

    def follows_the_rules(rotate):
        given = x.clone()
        here, later = rotate(given, places), rotate(x.clone(), places + 1001)
        apart = rotate(x.clone(), 2 * places)
        alone = rotate(x[1:, 2:, 4:].clone(), places[4:])
        scores = here @ here.mT
        return (
            mt.equal(given, x)
            and mt.allclose(here[:, :, 1], x[:, :, 1])  # at place 0
            and mt.allclose(here[1:, 2:, 4:], alone)
            and mt.allclose(later @ later.mT, scores)
            and not mt.allclose(apart @ apart.mT, scores)
        )

    return [i for i, rotate in enumerate(programs) if not follows_the_rules(rotate)]
    ### END SOLUTION


# %% tests="broken_rotations" points=4
check.broken_rotations(broken_rotations)
print("broken:", broken_rotations(nine))
### BEGIN HIDDEN TESTS
check.broken_rotations(broken_rotations, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Train, and measure beyond
#
# *Goal: train a model that holds at lengths it has never seen, and measure just that. Hard, 35 minutes, 4 points: 2 for the measure, 2 for what is reached.*
#
# ### The measure
#
# `model(tokens)` gives scores $(B, n, V)$ for tokens $(B, n)$. `batches` is a list of pairs, tokens $(B, n)$ and targets $(B, n)$, of several sizes; where a target is
# $-100$, nothing is asked. Return the share of right answers (the class with the largest score) among all targets at the places
# **from `first` on**, of all batches together, a number; None if nothing is asked there. While it is measured the model is in
# `eval()`; afterwards it is again in the mode in which it came.
#
# Everything is allowed.


# %% solution="right_beyond"
def right_beyond(model, batches, first):
    """The share of right answers at the places from first on; None if nothing is asked there."""
    ### BEGIN SOLUTION
    training, right, asked = model.training, 0, 0
    model.eval()
    with mt.no_grad():
        for tokens, targets in batches:
            there = (mt.arange(tokens.shape[1]) >= first) & (targets != -100)
            right += ((model(tokens).argmax(dim=-1) == targets) & there).sum().item()
            asked += there.sum().item()
    model.train(training)
    return right / asked if asked else None
    ### END SOLUTION


# %% tests="right_beyond" points=2
check.right_beyond(right_beyond)
### BEGIN HIDDEN TESTS
check.right_beyond(right_beyond, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# The task: say at each place which of 12 symbols stood **five** places before. `check.trained(scheme, clip, rate, steps, seed)` trains a model of one
# layer and one head on texts of 8 to 20 tokens, in a second or two, and returns it; `check.sequences(batch, n)` draws tokens and targets to measure it with. Return a dict:
#
# - `"scheme"`: `"table of places"`, `"sinusoids"`, `"relative"`, `"rotary"` or `"ALiBi"`;
# - `"clip"`, 1 to 20: with `"relative"`, larger differences count as this one (the others do not use it);
# - `"rate"`, the largest learning rate of Adam, and `"steps"`, 250 at most.
#
# The last check trains your choice with three seeds of its own and measures it with your `right_beyond`, at trained places and at the
# places 20 to 63 of longer texts. There at least 90 % have to be right with **each** seed. Choose with other seeds than 11, 12 and 13, which it takes: else you choose by luck.


# %% solution="chosen_scheme"
def chosen_scheme():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"scheme": "relative", "clip": 8, "rate": 0.01, "steps": 200}
    ### END SOLUTION


# %% tests="chosen_scheme" points=2
check.reached(right_beyond, chosen_scheme)
### BEGIN HIDDEN TESTS
# A table of places has rows that were never trained, sinusoids make angles between codes that the
# layer has not met; ALiBi knows near from far, but five from four hardly. Relative positions
# need a clip of 5 at least, and one that is much larger leaves rows of the table that few texts train.
check.right_beyond(right_beyond, hidden=True)
### END HIDDEN TESTS
