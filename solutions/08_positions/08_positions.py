# %% [markdown]
# # Exercises 08: positions
#
# Nine exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 08](../../notebooks/08_positions.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once
# more on other numbers and sizes. Where an exercise does not allow an operation, the check records what
# runs inside your function, under whatever name you call it. In exercise 1 the gradients of your
# results are compared, too: the results must stay tensors that the library's operations have made of
# the inputs, so keep away from `.item()`, `.detach()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first, $n$ is the number of positions, $d$ the size of a token's
# vector (or of a head, where there are several), $h$ the number of heads. $d$ is even wherever numbers come in
# pairs. Places and columns count from 0.

# %%
import math

import minitorch as mt
from minitorch import nn
from textbook.checks import chapter_08 as check

# %% [markdown]
# ## 1. Learned positions
#
# *Goal: add a learned vector for each place, and say so when there is none. Easy, 15 minutes, 4 points.*
#
# Write `forward` of the module below. `x` is $(B, n, \text{width})$; to the vector at place $t$ of every
# sequence belongs row $t$ of `self.table`, $(\text{longest}, \text{width})$. Return their sum,
# $(B, n, \text{width})$.
#
# The table ends. If $n$ is larger than `longest`, raise an `IndexError` whose message names both numbers, so
# that whoever reads it knows what went wrong. Keep `__init__` as it is.
#
# Not allowed: `nn.Embedding` and `F.embedding` (the operation `embedding`).


# %% solution="LearnedPositions"
class LearnedPositions(nn.Module):
    """A learned vector for each place, added."""

    def __init__(self, longest, width):
        super().__init__()
        self.table = nn.Parameter(mt.randn(longest, width))

    def forward(self, x):
        """x (B, n, width) gives (B, n, width)."""
        ### BEGIN SOLUTION
        longest, n = len(self.table), x.shape[1]
        if n > longest:
            raise IndexError(f"{n} positions, but the table has only {longest}")
        return x + self.table[:n]
        ### END SOLUTION


# %% tests="LearnedPositions" points=4
check.LearnedPositions(LearnedPositions)
### BEGIN HIDDEN TESTS
check.LearnedPositions(LearnedPositions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A table inside a layer
#
# *Goal: see that one-hot positions, put beside the words, are learned positions. Medium, 15 minutes, 4 points.*
#
# A model puts a one-hot vector of size $N$ beside each word, $[x_t; p_t]$ of size $d + N$, where $p_t$ has its 1
# at place $t$. Then comes a linear layer with $m$ outputs. You get the layer as `nn.Linear` stores it: `weight`
# $(m, d + N)$ and `bias` $(m)$, with $[x_t; p_t]\,$`weight.T` $+$ `bias` as its output. `longest` is $N$.
#
# Return two tensors, `matrix` $(d, m)$ and `table` $(N, m)$, such that
#
# $$x_t\, \text{matrix} + \text{table}_t$$
#
# is what the layer gives for every word at every place $t$. (There is one such pair only. Where does the bias
# go?)
#
# Not allowed: products of matrices (the operations `matmul` and `linear`). There is nothing to multiply.


# %% solution="learned_from_one_hot"
def learned_from_one_hot(weight, bias, longest):
    """weight (m, d + N) and bias (m) give matrix (d, m) and table (N, m)."""
    ### BEGIN SOLUTION
    d = weight.shape[1] - longest
    return weight[:, :d].T, weight[:, d:].T + bias
    ### END SOLUTION


# %% tests="learned_from_one_hot" points=4
check.learned_from_one_hot(learned_from_one_hot)
### BEGIN HIDDEN TESTS
check.learned_from_one_hot(learned_from_one_hot, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Sinusoids
#
# *Goal: write the codes of Vaswani et al. (2017). Medium, 20 minutes, 5 points.*
#
# Return the codes of the places $t = 0, \dots, n - 1$, a tensor $(n, d)$. Row $t$ is
#
# $$p_t = \big[\sin \omega_0 t,\ \cos \omega_0 t,\ \sin \omega_1 t,\ \cos \omega_1 t,\ \dots \big],
# \qquad \omega_m = 10000^{-2m/d}, \qquad m = 0, \dots, d/2 - 1 .$$
#
# Everything is allowed; a loop will do, though the codes can be made without one. Before you run the check,
# write down the row of place 0.


# %% solution="sinusoidal_codes"
def sinusoidal_codes(n, d):
    """The codes of the places 0 to n - 1: (n, d)."""
    ### BEGIN SOLUTION
    omega = 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (d/2)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, d/2)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    ### END SOLUTION


# %% tests="sinusoidal_codes" points=5
check.sinusoidal_codes(sinusoidal_codes)
### BEGIN HIDDEN TESTS
check.sinusoidal_codes(sinusoidal_codes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A shift is a rotation
#
# *Goal: find the matrix that takes the code of any place to a place further on. Medium, 20 minutes, 5 points.*
#
# With the codes $p_t$ of exercise 3, return the matrix $R$ of shape $(d, d)$ for which
#
# $$p_{t + s} = p_t\, R \qquad \text{at every place } t,$$
#
# where $s$ is the integer `shift`, which may be negative or 0. $R$ depends on $s$ and $d$, not on $t$. Codes are rows,
# so $R$ stands on the right. It has blocks of two by two on its diagonal, one for each pair of columns, and 0
# elsewhere. Find a block on paper first, with
# $\sin(a + b) = \sin a \cos b + \cos a \sin b$ and $\cos(a + b) = \cos a \cos b - \sin a \sin b$.
#
# Everything is allowed.


# %% solution="shift_matrix"
def shift_matrix(shift, d):
    """R (d, d): codes times R are the codes of the places that lie shift further on."""
    ### BEGIN SOLUTION
    R = mt.zeros(d, d)
    for j in range(d // 2):
        angle = shift * 10_000 ** (-2 * j / d)
        c, s = math.cos(angle), math.sin(angle)
        R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = mt.tensor([[c, -s], [s, c]])
    return R
    ### END SOLUTION


# %% tests="shift_matrix" points=5
check.shift_matrix(shift_matrix)
### BEGIN HIDDEN TESTS
check.shift_matrix(shift_matrix, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A bias for distance
#
# *Goal: write ALiBi, near-sighted and far-sighted heads. Medium, 15 minutes, 4 points.*
#
# Press et al. (2022) add to the score of query $i$ and key $j$ in head $\ell$ the number
#
# $$-\lambda_\ell\, |j - i|, \qquad \lambda_\ell = 2^{-8\ell/h}, \qquad \ell = 1, \dots, h .$$
#
# Return these numbers for all heads and all pairs of places, a tensor $(h, n, n)$: head by head, row $i$ for the
# query, column $j$ for the key. Head $\ell = 1$ comes first. There is no mask in it.
#
# Everything is allowed.


# %% solution="alibi_bias"
def alibi_bias(n, heads):
    """What is added to the scores: (heads, n, n)."""
    ### BEGIN SOLUTION
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(n)
    return -slopes.reshape(-1, 1, 1) * (places - places.unsqueeze(1)).abs()
    ### END SOLUTION


# %% tests="alibi_bias" points=4
check.alibi_bias(alibi_bias)
### BEGIN HIDDEN TESTS
check.alibi_bias(alibi_bias, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Relative positions
#
# *Goal: let a learned vector for the difference of two places into their score. Medium, 20 minutes, 5 points.*
#
# `query` and `key` are $(B, n, d)$, and `table` is $(2c + 1, d)$. It holds a vector for each difference from $-c$ to $c$:
# row 0 belongs to $-c$, row $c$ to 0, the last row to $c$. Differences beyond share the outermost vectors. Return the
# scores of Shaw et al. (2018),
#
# $$e_{ij} = \frac{q_i\, \big(k_j + a_{\operatorname{clip}(j - i)}\big)^\top}{\sqrt d}, \qquad
# \operatorname{clip}(r) = \max(-c, \min(c, r)),$$
#
# of shape $(B, n, n)$, where $a_r$ is the vector of the difference $r$. The scores only: no softmax.
#
# Everything is allowed; loops will do. Note that a negative index raises no error.


# %% solution="relative_scores"
def relative_scores(query, key, table):
    """query and key (B, n, d) and a table (2c + 1, d) give scores (B, n, n)."""
    ### BEGIN SOLUTION
    n, d = query.shape[1:]
    c = len(table) // 2
    places = mt.arange(n)
    apart = (places - places.unsqueeze(1)).clamp(-c, c)  # (n, n)
    keys = key.unsqueeze(1) + table[apart + c]  # (B, n, n, d): for query i, key j
    return (query.unsqueeze(2) * keys).sum(dim=-1) / d**0.5
    ### END SOLUTION


# %% tests="relative_scores" points=5
check.relative_scores(relative_scores)
### BEGIN HIDDEN TESTS
check.relative_scores(relative_scores, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Rotary positions
#
# *Goal: turn queries and keys by their places. Hard, 25 minutes, 5 points.*
#
# `x` is $(\dots, n, d)$, queries or keys, with any number of axes in front: $(n, d)$ as well as $(B, h, n, d)$.
# `positions`, $n$ integers, says where each of the $n$ rows stands; they need not be $0, 1, 2, \dots$ Coordinates
# $2m$ and $2m + 1$ of a row are a pair $(a, b)$. At place $t$ it is turned by the angle $\theta = t \cdot 10000^{-2m/d}$ and becomes
#
# $$(a \cos\theta - b \sin\theta,\quad a \sin\theta + b \cos\theta) .$$
#
# Return $(\dots, n, d)$, each coordinate where it was. (Su et al., 2021. Many programs pair $m$ with $m + d/2$; here
# neighbors are a pair.)
#
# There must be no loop over the places: the check counts the operations, which may not be more for nine places
# than for three.


# %% solution="rotate"
def rotate(x, positions):
    """x (..., n, d) at positions (n) gives x turned, (..., n, d)."""
    ### BEGIN SOLUTION
    d = x.shape[-1]
    angles = positions.unsqueeze(1) * 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]  # (..., n, d/2)
    return mt.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    ### END SOLUTION


# %% tests="rotate" points=5
check.rotate(rotate)
### BEGIN HIDDEN TESTS
check.rotate(rotate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. What does it know?
#
# *Goal: find out by experiment whether scores depend on places, and how. Hard, 20 minutes, 4 points.*
#
# `scores` is a function that hides a scheme of positions. `scores(X, places)` takes the vectors of $n$ words, `X`
# $(n, d)$, and the place of each, `places` ($n$ integers, each from 0 to 63, in any order, and equal ones too);
# it gives the scores of each word with each, $(n, n)$. You may call it as often as you like, with the `X` that you
# get and any places. Return one of three words:
#
# - `"nothing"` if the scores are the same wherever the words stand;
# - `"distance"` if they are the same when all words move by the same number of places, but not
#   wherever the words stand;
# - `"place"` if they change even when all words move by the same number of places.
#
# All schemes in the check are of one of these kinds, and show it at nearly any places. Scores that should
# be the same can differ by rounding errors of about $10^{-9}$.
#
# Everything is allowed. Useful: `mt.allclose(a, b, atol=1e-6)`.


# %% solution="what_it_knows"
def what_it_knows(scores, X):
    """A function of X (n, d) and places (n), and X give "nothing", "distance" or "place"."""
    ### BEGIN SOLUTION
    places = mt.arange(len(X))
    start, moved, apart = (scores(X, each) for each in (places, places + 3, 2 * places))
    if not mt.allclose(start, moved, atol=1e-6):
        return "place"
    return "nothing" if mt.allclose(start, apart, atol=1e-6) else "distance"
    ### END SOLUTION


# %% tests="what_it_knows" points=4
check.what_it_knows(what_it_knows)
### BEGIN HIDDEN TESTS
check.what_it_knows(what_it_knows, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Distances in a tree
#
# *Goal: measure how far apart words are in a syntax tree. Hard, 25 minutes, 4 points.*
#
# In a dependency tree each word hangs on another one, its head; one word, the root, hangs on none. `heads` is a list:
# `heads[i]` is the place of the head of word $i$, or None for the root, which can stand anywhere. For *he hit me
# with a pie* it is `[1, None, 1, 5, 5, 1]`: *he*, *me* and *pie* hang on *hit*, *with* and *a* on *pie*.
#
# Return a tensor of integers $(n, n)$: at `[i, j]` the number of edges on the way from word $i$ to word $j$. The way may
# go up, from a word to its head, and down. From *he* to *with* there are three edges: up to *hit*, down to *pie*,
# down to *with*. There are no signs: the numbers are 0 or more.
#
# Everything is allowed; loops will do.


# %% solution="tree_distances"
def tree_distances(heads):
    """A list of n heads gives the distances in the tree, (n, n)."""
    ### BEGIN SOLUTION
    paths = []  # of each word, the words from there to the root
    for place in range(len(heads)):
        path = set()
        while place is not None:
            path.add(place)
            place = heads[place]
        paths.append(path)
    # An edge of the way lies above each word that is on one of the two paths alone.
    return mt.tensor([[len(path ^ other) for other in paths] for path in paths])
    ### END SOLUTION


# %% tests="tree_distances" points=4
check.tree_distances(tree_distances)
### BEGIN HIDDEN TESTS
check.tree_distances(tree_distances, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Give the last result to `relative_scores` in place of $j - i$, and you have positions from syntax.
