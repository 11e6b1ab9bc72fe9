# %% [markdown]
# # Exercises 12: what would we fix?
#
# Ten exercises, 40 points, about six hours. The **core** (3, 4, 5, 8) takes 95 minutes.
# They belong to [chapter 12](../../notebooks/12_what_would_we_fix.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 5 to 7 and 10 the gradients of your results are compared, too: no `.item()`, `detach()` or NumPy.
#
# **Shapes.** $B$ sequences; $T$ queries look at $n$ keys; queries and keys have the size $d$, values $d_v$. Masks are True where
# query $i$ (row) may look at key $j$ (column).

# %%
import math
import statistics

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook.checks import chapter_12 as check
from textbook.checks import progress
from textbook.lab import finding

progress.show("12")

# %% [markdown]
# ## 1. The size of a cache
#
# *Practice · easy · 10 minutes · 2 points*
#
# Count the bytes that a model keeps while it writes.
#
# ```pycon
# >>> cache_bytes(n=10, layers=2, width=8, heads=4, key_heads=2, window=4, full_layers=1, bits=16)  # 10 and 4 places
# 224.0
# ```
#
# In each of its layers `heads` query heads share `key_heads` key heads. A key head has keys and values of size `width / heads`. Return the bytes after
# `n` tokens of one text.
#
# - In `full_layers` of the `layers` a token looks at itself and all before it.
# - In the others it sees the last `window` tokens, itself included; the rest is thrown away.
# - A number takes `bits` bits, which may be 4.
#
# <details><summary>First hint</summary>
#
# First count the places of all layers. How many has a window after 3 tokens?
#
# </details>
# <details><summary>Second hint</summary>
#
# A place holds two vectors a key head. Eight bits are a byte.
#
# </details>


# %% solution="cache_bytes"

# %% tests="cache_bytes" points=2
check.cache_bytes(cache_bytes)
### BEGIN HIDDEN TESTS
check.cache_bytes(cache_bytes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Which row may be believed?
#
# *Practice · easy · 20 minutes · 3 points*
#
# Each row compares a changed model with its base on test data (made up). Of which would you say: **this change lowers the loss**?

# %%
print(
    "row  change            losses                         base losses                    "
    "rates       chosen on   steps"
)
for number, row in enumerate(check.runs):
    losses, base = (" ".join(f"{x:.3f}" for x in row[key]) for key in ("losses", "base losses"))
    rates, steps = (f"{row[key]:g} {row[f'base {key}']:g}" for key in ("rate", "steps"))
    print(
        f"{number:3}  {row['change']:16}  {losses:29}  {base:29}  {rates:10}  "
        f"{row['chosen on']:10}  {steps}"
    )
print("rates tried, in all rows:", check.runs[0]["rates tried"])

# %% [markdown]
# Return these rows' numbers, from 0.
#
# ```pycon
# >>> fair = {"losses": [1.0] * 5, "rate": 0.1, "rates tried": [1.0, 0.1, 0.01], "steps": 9, "chosen on": "validation"}
# >>> fair |= {"base " + key: value for key, value in fair.items()} | {"base losses": [1.1] * 5}
# >>> believable([fair, fair | {"steps": 18}, fair | {"rate": 1.0}])
# [0]
# ```
#
# `rows` is a list like `check.runs`; keys that begin with `"base "` are the base's. A row may be believed if
#
# - both have equally many losses (number $i$ has the same seed);
# - the change's are lower by chapter 00's rule, `finding(larger, smaller).found`;
# - both rates were `"chosen on"` `"validation"` data;
# - each rate lies inside those tried for it (in any order), not at an edge;
# - both took as many steps.
#
# <details><summary>First hint</summary>
#
# A line a condition. Which of the two lists is `larger`?
#
# </details>
# <details><summary>Second hint</summary>
#
# `min(tried) < rate < max(tried)`, for both. Compare lengths before `finding`, which refuses unequal lists.
#
# </details>


# %% solution="believable"

# %% tests="believable" points=3
check.believable(believable)
### BEGIN HIDDEN TESTS
check.believable(believable, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then count
#
# *Core · easy · 20 minutes · 3 points*
#
# Know what a block costs before it runs. In this one `heads` query heads share `key_heads` key heads, the network is gated, nothing has a
# bias. It reads $T$ new tokens and a cache of those before, $n$ tokens in all.


# %%
class Block(nn.Module):
    """Reads (T, width) and a cache of keys and values (n - T, width of the key heads)."""

    def __init__(self, width, hidden, heads, key_heads):
        super().__init__()
        self.heads, self.key_heads = heads, key_heads
        key_width = width // heads * key_heads
        sizes = [(width, width), (width, key_width), (width, key_width), (width, width)]
        projections = [nn.Linear(*size, bias=False) for size in sizes]
        self.query, self.key, self.value, self.out = projections
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, keys, values):
        y = F.rms_norm(x, x.shape[-1:])
        keys, values = mt.cat([keys, self.key(y)]), mt.cat([values, self.value(y)])
        query = self.query(y).unflatten(-1, (self.key_heads, -1, x.shape[-1] // self.heads))
        keys, values = (part.unflatten(-1, (self.key_heads, -1)) for part in (keys, values))
        scores = mt.einsum("tgrd,ngd->grtn", query, keys) / math.sqrt(keys.shape[-1])
        allowed = mt.ones(len(x), len(keys), dtype=mt.bool).tril(len(keys) - len(x))
        weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
        x = x + self.out(mt.einsum("grtn,ngd->tgrd", weights, values).flatten(1))
        y = F.rms_norm(x, x.shape[-1:])
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


# %% [markdown]
# Return a dict with the FLOPs of its three parts, a multiplication with its addition counted as 2:
#
# - `"projections"`: to queries, keys, values and back;
# - `"scores"`: the scores and the mixing of the values, whatever the mask says;
# - `"network"`. The norms cost no products.
#
# ```pycon
# >>> block_flops(T=1, n=3, width=4, hidden=8, heads=2, key_heads=1)
# {'projections': 96, 'scores': 48, 'network': 192}
# ```
#
# The check's cell counts. Which part grows in writing?
#
# <details><summary>First hint</summary>
#
# A product of $(a, b)$ and $(b, c)$ takes $2abc$. How wide are a token's keys together?
#
# </details>
# <details><summary>Second hint</summary>
#
# Old keys and values are in the cache. Do scores know that key heads are shared?
#
# </details>


# %% solution="block_flops"

# %% tests="block_flops" points=3
check.block_flops(block_flops)
predicted = block_flops(T=5, n=40, width=32, hidden=85, heads=8, key_heads=2)
with count_flops() as counter:
    Block(32, 85, 8, 2)(mt.randn(5, 32), mt.randn(35, 8), mt.randn(35, 8))
print(f"predicted {sum(predicted.values()):,.0f} FLOPs, counted {counter.total:,}")
print(f"scores: predicted {predicted['scores']:,.0f}, counted {counter.by_name['einsum']:,}")
### BEGIN HIDDEN TESTS
check.block_flops(block_flops, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. One tile more
#
# *Core · medium · 25 minutes · 4 points*
#
# Go on with a softmax of which only a part has been seen.
#
# ```pycon
# >>> nothing = mt.tensor([-mt.inf]), mt.zeros(1), mt.zeros(1, 1)
# >>> both = mt.ones(1, 2, dtype=mt.bool)
# >>> one_tile(nothing, mt.tensor([[7.0, 7.0]]), mt.tensor([[3.0], [5.0]]), both)
# (tensor([7.]), tensor([2.]), tensor([[8.]]))
# ```
#
# The state is $(m, z, u)$: the largest score $m$ $(\dots, T)$ that was allowed so far, and relative to it
#
# $$z = \sum_j e^{s_j - m}\;\; (\dots, T), \qquad u = \sum_j e^{s_j - m} v_j\;\; (\dots, T, d_v).$$
#
# Now a tile of $w$ keys comes. Return the state after it.
#
# - `scores` is $(\dots, T, w)$, `value` $(\dots, w, d_v)$, `allowed` $(T, w)$.
# - A row that has never looked has $m = -\infty$, $z = 0$, $u = 0$, and keeps it until it may look.
# - No number becomes NaN. Scores may be in the thousands.
#
# *Not allowed*: `softmax`, `logsumexp` and `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# By what are the old sums multiplied when the largest score grows?
#
# </details>
# <details><summary>Second hint</summary>
#
# $-\infty - (-\infty)$ is NaN. In exponents alone, take 0 for a largest score of $-\infty$.
#
# </details>


# %% solution="one_tile"

# %% tests="one_tile" points=4
check.one_tile(one_tile)
### BEGIN HIDDEN TESTS
check.one_tile(one_tile, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Shared keys
#
# *Core · medium · 20 minutes · 4 points*
#
# Let several query heads share a key head, and copy nothing.
#
# ```pycon
# >>> query, key = mt.zeros(1, 2, 2, 1), mt.zeros(1, 1, 3, 1)  # all scores are equal
# >>> grouped_attention(query, key, mt.tensor([[[[1.0], [3.0], [8.0]]]]))[0, 1].flatten()
# tensor([2., 4.])
# ```
#
# `query` is $(B, h, T, d)$, `key` $(B, g, n, d)$ and `value` $(B, g, n, d_v)$. Scores are divided
# by $\sqrt d$. Return $(B, h, T, d_v)$.
#
# - $h$ is a multiple of $g$: the first $h / g$ query heads share key head 0, the next key head 1, and so on.
# - The queries are the **last** $T$ of the $n$ tokens. Query $i$ stands at place $n - T + i$ and looks at this place and those before it.
# - The check looks for keys or values that are made for every query head, in whichever way.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Give the queries an axis more, $(B, g, h/g, T, d)$. Broadcasting copies nothing.
#
# </details>
# <details><summary>Second hint</summary>
#
# `key.unsqueeze(2)` is $(B, g, 1, n, d)$. For the mask compare two `arange`.
#
# </details>


# %% solution="grouped_attention"

# %% tests="grouped_attention" points=4
check.grouped_attention(grouped_attention)
### BEGIN HIDDEN TESTS
check.grouped_attention(grouped_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A state that forgets exactly
#
# *Practice · medium · 25 minutes · 4 points*
#
# Write linear attention within a window as a recurrence.
#
# ```pycon
# >>> value = mt.tensor([[1.0], [3.0], [5.0], [9.0]])
# >>> windowed_attention(mt.ones(4, 1), mt.ones(4, 1), value, width=2).flatten()
# tensor([1., 2., 4., 7.])
# ```
#
# Token $t$ looks at the last `width` tokens, itself included:
#
# $$o_t = \frac{\sum_{s} (q_t^\top k_s)\, v_s}{\sum_{s} q_t^\top k_s}, \qquad s \text{ from } \max(0, t - \text{width} + 1) \text{ to } t$$
#
# - `query` and `key` $(\dots, n, d)$ are features already, all positive; `value` is $(\dots, n, d_v)$, as is what you return.
# - What you compute must not grow with `width`, which may be larger than $n$, nor hold a table of $n \times n$ numbers. The check counts.
#
# *Not allowed*: `softmax` and `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Carry $\sum_s k_s v_s^\top$ and $\sum_s k_s$ from token to token. A sum can be undone.
#
# </details>
# <details><summary>Second hint</summary>
#
# Take away token $t - \text{width}$, if there is one. Or subtract two cumulative sums.
#
# </details>


# %% solution="windowed_attention"

# %% tests="windowed_attention" points=4
check.windowed_attention(windowed_attention)
### BEGIN HIDDEN TESTS
check.windowed_attention(windowed_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Decays that end with a text
#
# *Practice · medium · 25 minutes · 4 points*
#
# Compute products of decays from sums of logarithms, and stay finite.
#
# ```pycon
# >>> decay_matrix(mt.tensor([0.5, 0.25, 0.125]).log(), mt.tensor([False, False, True]))
# tensor([[1.0000, 0.0000, 0.0000],
#         [0.2500, 1.0000, 0.0000],
#         [0.0000, 0.0000, 1.0000]])
# ```
#
# Several texts stand one behind the other. `starts` $(\dots, n)$ is True at the first token of each; what stands before the first True is one text, too. `log_decay` $(\dots, n)$ holds $\log a_t \le 0$. Return
# $D$ $(\dots, n, n)$, with $D_{tt} = 1$:
#
# $$D_{ts} = \begin{cases} a_{s+1} a_{s+2} \cdots a_t & \text{where } s \le t \text{ and both are tokens of one text} \\ 0 & \text{elsewhere.} \end{cases}$$
#
# - Sums of logarithms may be some thousands; no value and no gradient becomes NaN.
# - Weak decays count, too: in float64 $D$ is exact to $10^{-9}$.
#
# <details><summary>First hint</summary>
#
# A difference of two cumulative sums is the logarithm of $D_{ts}$.
#
# </details>
# <details><summary>Second hint</summary>
#
# A cumulative sum of `starts` numbers the texts. Put $-\infty$ where $D$ is 0 before `exp`.
#
# </details>


# %% solution="decay_matrix"

# %% tests="decay_matrix" points=4
check.decay_matrix(decay_matrix)
### BEGIN HIDDEN TESTS
check.decay_matrix(decay_matrix, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Which of these looks ahead?
#
# *Core · medium · 30 minutes · 5 points*
#
# Find the mixers that cannot be decoders.
#
# ```pycon
# >>> leaking([lambda x: x, lambda x: x.cumsum(dim=0), lambda x: x + x.mean(dim=0)], x=mt.randn(4, 2).double())
# [2]
# ```
#
# `mixers` is a list of functions that make of `x` $(n, d)$, in float64, outputs $(n, d)$. Return the numbers, from 0, of those in which an output depends on a **later** token.
#
# - They are made for one $n$: change later tokens, do not cut them off.
# - Gradients will not do: leaks may go through `detach()` or a comparison.
# - A leak may be faint, or show only where later numbers are large: change these by 50 times the largest in `x`, in both directions.
# - Differences below $10^{-9}$ are rounding.
#
# Of these eight four leak:

# %%
eight = check.suspects(n=6, d=4)
x = mt.randn(6, 4, dtype=mt.float64)

# %% [markdown]
# <details><summary>First hint</summary>
#
# Outputs up to $t$ must not change when all tokens behind $t$ do.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mt.cat([x[: t + 1], noise])`, then the same with `-noise`, for every $t$ but the last.
#
# </details>


# %% solution="leaking"

# %% tests="leaking" points=5
check.leaking(leaking)
### BEGIN HIDDEN TESTS
check.leaking(leaking, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A scan of anything
#
# *Challenge · hard · 30 minutes · 4 points*
#
# Combine all beginnings of a sequence in logarithmic steps.
#
# ```pycon
# >>> scan(lambda p, q: (p[0] + q[0],), (mt.tensor([1, 2, 3, 4, 5]),))
# (tensor([ 1,  3,  6, 10, 15]),)
# ```
#
# `items` is a tuple of tensors with $n$ rows each: row $t$ of all is one item $p_t$, such as
# $(a_t, x_t)$ of a recurrence. `combine(earlier, later)` combines two such tuples with equally many rows, row by row. Return
# a tuple like `items` whose row $t$ is $p_0 \circ p_1 \circ \dots \circ p_t$.
#
# - `combine` is associative, $(p \circ q) \circ r = p \circ (q \circ r)$, but $p \circ q \ne q \circ p$ in general.
# - Call `combine` at most $2 \lceil \log_2 n \rceil$ times, with at most $n \lceil \log_2 n \rceil$ pairs of rows in all.
# - $n$ may be any number from 1.
#
# *Useful*: `mt.cat`.
#
# <details><summary>First hint</summary>
#
# Combine each row with the one before it. With which next?
#
# </details>
# <details><summary>Second hint</summary>
#
# Offsets 1, 2, 4, ...: the rows before the offset are done.
#
# </details>


# %% solution="scan"

# %% tests="scan" points=4
check.scan(scan)
### BEGIN HIDDEN TESTS
check.scan(scan, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. A mixer of your own
#
# *Challenge · hard · 150 minutes · 7 points: mixer 4, measurement 2, recall 1*
#
# ### In two forms
#
# Invent a module that mixes tokens of size $d$ = `width`, a multiple of 4, with a state: linear attention, decays, gates.
#
# ```pycon
# >>> mixer, x = OwnMixer(width=8), mt.randn(2, 3, 8)
# >>> state, outputs = mixer.start(2), mixer(x)
# >>> for t in range(3):  # token by token gives what all at once gives
# ...     output, state = mixer.step(x[:, t], state)
# ...     print(mt.allclose(output, outputs[:, t], atol=1e-5))
# True
# True
# True
# ```
#
# - `forward(x)`: no loop over tokens, no look at later ones. All parameters take part in `forward`.
# - `start(batch)` gives a tuple of tensors, batch first; `step(x, state)` leaves the old state as it is.
# - The state holds all that is remembered, in at most $4d^2$ numbers a sequence.
#
# It will learn recall (key, value, ..., then keys) in one layer, without positions: let a token see the one before it.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# Linear attention: $\sum_s k_s v_s^\top$ and $\sum_s k_s$ are the state, `(query @ key.mT).tril()` the weights of all.
#
# </details>
# <details><summary>Second hint</summary>
#
# Make the key of the token before, the value of the token itself. The state holds the last token, too.
#
# </details>


# %% solution="OwnMixer" own="roles"

# %% tests="OwnMixer" points=4
check.OwnMixer(OwnMixer)
### BEGIN HIDDEN TESTS
check.OwnMixer(OwnMixer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### A fair measurement
#
# ```pycon
# >>> accuracy = {0.1: 0.5, 0.3: 0.9, 1.0: 0.7}
# >>> found = measure(lambda rate, seed: accuracy[rate] + seed / 100, [1.0, 0.1, 0.3], choosing=[0], reporting=[1, 3])
# >>> found["rate"], found["at the edge"], round(found["mean"], 2)
# (0.3, False, 0.92)
# ```
#
# Run `accuracy(rate, seed)` for all `rates` and all seeds in `choosing`, then the rate with the best mean
# for those in `reporting`: nothing else, nothing twice. Return a dict:
#
# - `"rate"`, and `"at the edge"`: whether it is the smallest or largest of `rates`;
# - the list `"accuracies"` for `reporting`, their `"mean"` and `"spread"` (`statistics.stdev`).
#
# <details><summary>First hint</summary>
#
# A dict from each rate to its accuracies; `max` with a `key`.
#
# </details>
# <details><summary>Second hint</summary>
#
# What chose the rate has no part in what is reported.
#
# </details>


# %% solution="measure"

# %% tests="measure" points=2
check.measure(measure)
### BEGIN HIDDEN TESTS
check.measure(measure, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Trained on recall
#
# Return three to six rates, each at least 3 times the one below. By your measurement one layer of width 32, trained for 120 steps,
# must give 0.6 of the answers after 16 pairs right, its rate not at the edge.
#
# *Try* `check.train(OwnMixer, rate, seed)`.


# %% solution="rates"
def rates():
    """Learning rates to choose from."""
    ### BEGIN SOLUTION
    return [0.004, 0.02, 0.1, 0.5]
    ### END SOLUTION


# %% tests="rates" points=1
check.recalled(OwnMixer, measure, rates)
### BEGIN HIDDEN TESTS
check.recalled(OwnMixer, measure, rates, hidden=True)
### END HIDDEN TESTS
