# %% [markdown]
# # Exercises 12: what would we fix?
#
# Ten exercises, from easy to hard, 40 points, about four and a half hours. They belong to
# [chapter 12](../../notebooks/12_what_would_we_fix.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the
# cell, then the check below it. The check looks at what your function does, on random inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once more
# on other numbers and sizes. Where an exercise does not allow an operation, the check records what runs
# inside your function, under whatever name you call it. In exercises 5 to 7 and 10 the gradients of your results
# are compared, too: stay with tensors there, and away from `.item()`, `detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences; $T$ queries look at $n$ keys; queries and keys have the size $d$, values the size
# $d_v$; $h$ query heads share $g$ key heads. Row $i$ of a mask or of weights belongs to query $i$, column $j$ to
# key $j$, and masks are True where a query may look.

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
# *Goal: count the bytes that a model keeps while it writes. Easy, 10 minutes, 2 points.*
#
# A model has `layers` layers of the width `width`, with `heads` query heads that share `key_heads` key heads
# (each key head has keys and values). A key and a value are as large as the query of one head, `width / heads`.
# `full_layers` of the layers let a token look at all tokens before it; the others have a window: a token sees the
# last `window` tokens, itself included, and what lies further back is thrown away. A number takes `bits` bits,
# which may be 4. Return the bytes of the cache after `n` tokens of one text.
#
# Everything is allowed.


# %% solution="cache_bytes"
def cache_bytes(n, layers, width, heads, key_heads, window, full_layers, bits):
    """The bytes of the cache after n tokens."""
    ### BEGIN SOLUTION
    places = full_layers * n + (layers - full_layers) * min(n, window)
    return places * 2 * key_heads * (width // heads) * bits / 8
    ### END SOLUTION


# %% tests="cache_bytes" points=2
check.cache_bytes(cache_bytes)
### BEGIN HIDDEN TESTS
check.cache_bytes(cache_bytes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Which row may be believed?
#
# *Goal: read a table of experiments. Easy, 20 minutes, 3 points.*
#
# Each row compares a change of a model with its base; `losses` and `base losses` are those of several seeds. The
# numbers are made up, the habits behind them are not. Read the table first, and note the rows of which you
# would say: **this change makes the loss lower.**

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
# Now write the reader down. `rows` is a list of dicts like those of `check.runs`, with the keys `"losses"`, `"rate"`,
# `"rates tried"`, `"steps"`, the same for the base (`"base losses"`, ...), and `"chosen on"`, `"validation"` or
# `"test"`: the data by which both rates were chosen. The losses are those on test data. Return the numbers of the
# rows that may be believed, counted from 0, as a list. A row may be believed if
#
# - change and base have the same number of seeds (number $i$ of both lists is the same seed);
# - that the change's losses are lower is a *finding* by chapter 00's rule ("When is a difference a finding?"): at least
#   five seeds, and $p \le 0.05$;
# - what is reported has no part in a choice;
# - each of the two rates lies inside the rates that were tried for it, and not at an edge of them (the rates are
#   listed in any order);
# - both were trained equally long.
#
# Everything is allowed: `finding(larger, smaller)` of `textbook.lab` gives `p` and `found`.


# %% solution="believable"
def believable(rows):
    """The numbers of the rows of which one may say: this change makes the loss lower."""
    ### BEGIN SOLUTION
    found = []
    for number, row in enumerate(rows):
        ours, base = row["losses"], row["base losses"]
        if len(ours) != len(base):
            continue
        inside = all(
            min(row[f"{whose}rates tried"]) < row[f"{whose}rate"] < max(row[f"{whose}rates tried"])
            for whose in ("", "base ")
        )
        fair = row["chosen on"] == "validation" and row["steps"] == row["base steps"]
        if inside and fair and finding(base, ours).found:
            found.append(number)
    return found
    ### END SOLUTION


# %% tests="believable" points=3
check.believable(believable)
### BEGIN HIDDEN TESTS
check.believable(believable, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then count
#
# *Goal: know what a block costs before it runs. Easy, 20 minutes, 3 points.*
#
# The block below is one as of 2024: `heads` query heads share `key_heads` key heads, the network is gated, nothing has a
# bias. It reads $T$ new tokens and has a cache of the keys and values of those before, so that queries look at $n$ tokens
# in all, the new ones included. The norms cost no products.


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
# Return a dict with the FLOPs of its three parts, a multiplication with its addition counted as 2: `"projections"` (to
# queries, keys, values and back), `"scores"` (the scores and the mixing of the values) and `"network"`. When
# your prediction stands, the cell of the check lets the block run with $T = 5$ and $n = 40$ and counts.
#
# Everything is allowed.


# %% solution="block_flops"
def block_flops(T, n, width, hidden, heads, key_heads):
    """FLOPs of projections, of scores and mixing, and of the network, for T new of n tokens."""
    ### BEGIN SOLUTION
    key_width = width // heads * key_heads
    return {
        "projections": 2 * T * width * (2 * width + 2 * key_width),
        "scores": 4 * T * n * width,
        "network": 6 * T * width * hidden,
    }
    ### END SOLUTION


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
# *Goal: go on with a softmax of which only a part has been seen. Medium, 25 minutes, 4 points.*
#
# What queries have seen so far is a state $(m, z, u)$: the largest score $m$ $(\dots, T)$, the sum of exponentials
# $z = \sum_j e^{s_j - m}$ $(\dots, T)$, and the values mixed by them, $u = \sum_j e^{s_j - m} v_j$ $(\dots, T, d_v)$. Now
# comes a tile with $w$ keys: `scores` $(\dots, T, w)$, `value` $(\dots, w, d_v)$, and a mask `allowed` $(T, w)$. Return
# the state after it, in which $m$ is the largest of all scores that were allowed, and the sums are relative to it.
#
# A mask brings rows that may not look at anything in this tile, and rows that have never looked at anything: their
# state is $m = -\infty$, $z = 0$, $u = 0$, and it stays so until they may look. No number may become NaN, and scores may
# be in the thousands.
#
# Not allowed, since they want all keys at once: `softmax`, `logsumexp` and `F.scaled_dot_product_attention`.


# %% solution="one_tile"
def one_tile(state, scores, value, allowed):
    """The state (m, z, u) after one tile of w keys more."""
    ### BEGIN SOLUTION
    m, z, u = state
    scores = scores.masked_fill(~allowed, -mt.inf)  # (..., T, w)
    new = mt.maximum(m, scores.amax(dim=-1))  # (..., T)
    finite = new.masked_fill(new == -mt.inf, 0.0)  # for rows that have looked at nothing so far
    kept = (m - finite).exp()
    weights = (scores - finite.unsqueeze(-1)).exp()
    return new, kept * z + weights.sum(dim=-1), kept.unsqueeze(-1) * u + weights @ value
    ### END SOLUTION


# %% tests="one_tile" points=4
check.one_tile(one_tile)
### BEGIN HIDDEN TESTS
check.one_tile(one_tile, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Shared keys
#
# *Goal: let several query heads share a key head, and copy nothing. Medium, 20 minutes, 4 points.*
#
# `query` is $(B, h, T, d)$, `key` $(B, g, n, d)$ and `value` $(B, g, n, d_v)$, where $h$ is a multiple of $g$: the first
# $h / g$ query heads share key head 0, the next $h / g$ key head 1, and so on. The queries belong to the **last** $T$ of the
# $n$ tokens, as they do while a model writes, and attention is causal: query $i$ stands at place $n - T + i$ and
# looks at this place and those before it. Scores are divided by $\sqrt d$. Return $(B, h, T, d_v)$.
#
# A cache is shared to be small, so nothing may be copied: the check looks for keys or values that are made for every query
# head, by `repeat_interleave`, by an index or in another way. Not allowed: `F.scaled_dot_product_attention`.


# %% solution="grouped_attention"
def grouped_attention(query, key, value):
    """Query (B, h, T, d), key (B, g, n, d), value (B, g, n, d_v) give (B, h, T, d_v)."""
    ### BEGIN SOLUTION
    queries, n = query.shape[2], key.shape[2]
    query = query.unflatten(1, (key.shape[1], -1))  # (B, g, h/g, T, d)
    scores = query @ key.unsqueeze(2).mT / math.sqrt(key.shape[-1])  # (B, g, h/g, T, n)
    allowed = mt.arange(n) <= mt.arange(n - queries, n).unsqueeze(1)  # (T, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return (weights @ value.unsqueeze(2)).flatten(1, 2)
    ### END SOLUTION


# %% tests="grouped_attention" points=4
check.grouped_attention(grouped_attention)
### BEGIN HIDDEN TESTS
check.grouped_attention(grouped_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. A state that forgets exactly
#
# *Goal: write linear attention within a window as a recurrence. Medium, 25 minutes, 4 points.*
#
# `query` and `key` $(\dots, n, d)$ are features already, all positive; `value` is $(\dots, n, d_v)$. Token $t$ looks at the
# last `width` tokens, itself included:
#
# $$o_t = \frac{\sum_{s} (q_t^\top k_s)\, v_s}{\sum_{s} q_t^\top k_s}, \qquad s \text{ from } \max(0, t - \text{width} + 1) \text{ to } t$$
#
# Return the outputs $(\dots, n, d_v)$. Carry a state from token to token: a sum can be undone, so the token that leaves the
# window can be taken out of it. (Differences of cumulative sums over all tokens will do as well.) The check looks at how much is computed, which must not grow with `width`, and
# for tables of $n \times n$ numbers, which are not needed. `width` may be larger than $n$.
#
# Not allowed: `softmax`, which linear attention does without, and `F.scaled_dot_product_attention`.


# %% solution="windowed_attention"
def windowed_attention(query, key, value, width):
    """Query and key (..., n, d), value (..., n, d_v): linear attention to the last width tokens."""
    ### BEGIN SOLUTION
    *lead, n, d = key.shape
    state, total = key.new_zeros(*lead, d, value.shape[-1]), key.new_zeros(*lead, d)
    outputs = []
    for t in range(n):
        state = state + key[..., t, :, None] * value[..., t, None, :]
        total = total + key[..., t, :]
        if t >= width:
            state = state - key[..., t - width, :, None] * value[..., t - width, None, :]
            total = total - key[..., t - width, :]
        asked = query[..., t, :]
        mixed = (asked.unsqueeze(-2) @ state).squeeze(-2)  # (..., d_v)
        outputs.append(mixed / (asked * total).sum(dim=-1, keepdim=True))
    return mt.stack(outputs, dim=-2)
    ### END SOLUTION


# %% tests="windowed_attention" points=4
check.windowed_attention(windowed_attention)
### BEGIN HIDDEN TESTS
check.windowed_attention(windowed_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Decays that end with a text
#
# *Goal: compute products of decays from sums of logarithms, and stay finite. Medium, 25 minutes, 4 points.*
#
# Several texts stand one behind the other in a sequence of $n$ tokens; `starts` $(\dots, n)$ is boolean and True at the first
# token of each (what stands before the first True is the rest of a text, too). `log_decay` $(\dots, n)$ holds
# $\log a_t \le 0$. Return $D$ $(\dots, n, n)$ with
#
# $$D_{ts} = \begin{cases} a_{s+1} a_{s+2} \cdots a_t & \text{where } s \le t \text{ and both are tokens of one text} \\ 0 & \text{elsewhere,} \end{cases}$$
#
# so that $D_{tt} = 1$. Decays may be strong: sums of logarithms of some thousands occur, and neither a value nor a gradient
# may become NaN. Of weak ones nothing may get lost: in float64 $D$ is exact to $10^{-9}$.
#
# Everything is allowed.


# %% solution="decay_matrix"
def decay_matrix(log_decay, starts):
    """(..., n) and (..., n) boolean give D (..., n, n), 0 above the diagonal and across texts."""
    ### BEGIN SOLUTION
    sums, text = log_decay.cumsum(dim=-1), starts.long().cumsum(dim=-1)
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    seen = (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()
    return difference.masked_fill(~seen, -mt.inf).exp()
    ### END SOLUTION


# %% tests="decay_matrix" points=4
check.decay_matrix(decay_matrix)
### BEGIN HIDDEN TESTS
check.decay_matrix(decay_matrix, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Which of these looks ahead?
#
# *Goal: find the mixers that cannot be decoders, by a test. Medium, 30 minutes, 5 points.*
#
# `mixers` is a list of functions that make of tokens `x` $(n, d)$ as many outputs $(n, d)$. You do not know what is inside,
# but in some of them an output depends on a token that comes **later**. Return the numbers of these, counted from 0, as a
# list. Some things to know:
#
# - Like Linformer they are made for one $n$: a shorter `x` is refused, so change what comes later and do not cut it off.
# - [Chapter 07](../../notebooks/07_masking.ipynb) asked gradients. Some of these leaks let none through: they go through `detach()`, a maximum, or a
#   comparison with 0.
# - A leak may be faint, may go through one number of a token alone, from any token to any other, and may show only where
#   a later token has become the longest of all. Try large changes, 50 times as large as the largest
#   number in `x`, in both directions.
# - Rounding is no leak. `x` is in float64, so that differences below $10^{-9}$ are rounding and differences above $10^{-5}$
#   are a leak.
#
# Here are eight mixers to try your test on; four of them leak.

# %%
eight = check.suspects(n=6, d=4)
x = mt.randn(6, 4, dtype=mt.float64)

# %% [markdown]
# Everything is allowed.


# %% solution="leaking"
def leaking(mixers, x):
    """The numbers of the mixers in which an output depends on a later token of x (n, d)."""
    ### BEGIN SOLUTION
    found = []
    for i, mixer in enumerate(mixers):
        outputs, leaks = mixer(x), False
        for t in range(len(x) - 1):
            noise = 20 * mt.randn_like(x[t + 1 :])
            for later in (noise, -noise):
                changed = mixer(mt.cat([x[: t + 1], later]))
                same = mt.allclose(changed[: t + 1], outputs[: t + 1], rtol=0, atol=1e-7)
                leaks = leaks or not same
        if leaks:
            found.append(i)
    return found
    ### END SOLUTION


# %% tests="leaking" points=5
check.leaking(leaking)
### BEGIN HIDDEN TESTS
check.leaking(leaking, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A scan of anything
#
# *Goal: combine all beginnings of a sequence in logarithmic steps. Hard, 30 minutes, 4 points.*
#
# `items` is a tuple of tensors that have $n$ rows each, in their first axis: row $t$ of all of them is one item, such as
# $(a_t, x_t)$ of a recurrence, a matrix, or the $(m, z, u)$ of exercise 4. `combine(earlier, later)` takes two such tuples
# with equally many rows, combines them row by row, and returns a tuple. It is associative,
#
# $$(p \circ q) \circ r = p \circ (q \circ r), \qquad \text{but } p \circ q \ne q \circ p \text{ in general.}$$
#
# Return a tuple like `items` whose row $t$ is $p_0 \circ p_1 \circ \dots \circ p_t$. One call of `combine` counts as a step, however many
# rows it gets: you may call it $2 \lceil \log_2 n \rceil$ times at most and hand it $n \lceil \log_2 n \rceil$ pairs of rows in all. $n$ need
# not be a power of two, and may be 1.
#
# Everything is allowed. Useful: `mt.cat`.


# %% solution="scan"
def scan(combine, items):
    """Items, a tuple of tensors (n, ...), combined from row 0 to each row: a tuple like items."""
    ### BEGIN SOLUTION
    n, offset = len(items[0]), 1
    while offset < n:
        earlier = tuple(x[:-offset] for x in items)
        later = tuple(x[offset:] for x in items)
        joined = combine(earlier, later)
        items = tuple(mt.cat([x[:offset], y]) for x, y in zip(items, joined, strict=True))
        offset *= 2
    return items
    ### END SOLUTION


# %% tests="scan" points=4
check.scan(scan)
### BEGIN HIDDEN TESTS
check.scan(scan, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. A mixer of your own
#
# *Goal: invent a mixer with a state of one size, and measure it fairly. Hard, 60 minutes, 7 points: 4 for the mixer, 2 for the
# measurement, 1 for what it reaches.*
#
# ### In two forms
#
# Write a module that mixes tokens of size `width`, $d$, in any way you like: linear attention with features of your choice, decays,
# gates, a rule of your own. What you need in `__init__` and what helpers you write is yours. Three methods are fixed:
#
# - `forward(x)` takes $(B, n, d)$ and returns $(B, n, d)$, all tokens at once, for any $n$. No output depends on a later token.
# - `start(batch)` returns the state before the first token, a tuple of tensors whose first axis is the batch.
# - `step(x, state)` takes the next token of each sequence, $(B, d)$, and the state, and returns the output $(B, d)$ and the new
#   state. Token by token it gives what `forward` gives.
#
# The state has at most $4d^2$ numbers for each sequence, a token that it remembers included, and as many
# after a thousand tokens as before the first. All that a text leaves
# behind is in it: the check reads two texts in turn with one mixer. `step` leaves the state that it is given as it was. All
# parameters take part in `forward`. The widths that are tried are multiples of 4, from 4 on.
#
# The mixer will have to learn associative recall (key, value, key, value, ..., then keys to ask for) in one layer, without positions.
# So a token should see the token before it, too: that is how a key meets its value. `forward` must be quick: no loop over
# tokens.
#
# Not allowed: `F.scaled_dot_product_attention`, whose cache grows.


# %% solution="OwnMixer"
class OwnMixer(nn.Module):
    """Mixes tokens (B, n, d) causally, at once or step by step with a state of one size."""

    def __init__(self, width):
        super().__init__()
        ### BEGIN SOLUTION
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.share = nn.Parameter(mt.ones(width))  # of the token before, in the key

    def roles(self, x, before):
        """Queries and keys, both positive, and values."""
        share = self.share.sigmoid()
        query, key = self.query(x), self.key(share * before + (1 - share) * x)
        return F.elu(query) + 1, F.elu(key) + 1, self.value(x)
        ### END SOLUTION

    def forward(self, x):
        """(B, n, d) -> (B, n, d), all tokens at once."""
        ### BEGIN SOLUTION
        before = mt.cat([mt.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        query, key, value = self.roles(x, before)
        weights = (query @ key.mT).tril()
        return self.out(weights @ value / (weights.sum(dim=-1, keepdim=True) + 1e-6))
        ### END SOLUTION

    def start(self, batch):
        """The state before the first token: a tuple of tensors (B, ...)."""
        ### BEGIN SOLUTION
        width = len(self.share)
        sizes = (width, width), (width,), (width,)
        return tuple(self.share.new_zeros(batch, *size) for size in sizes)
        ### END SOLUTION

    def step(self, x, state):
        """One token (B, d) and the state give its output (B, d) and the new state."""
        ### BEGIN SOLUTION
        pairs, total, before = state
        query, key, value = self.roles(x, before)
        pairs = pairs + key.unsqueeze(-1) * value.unsqueeze(-2)  # (B, d, d)
        total = total + key
        mixed = (query.unsqueeze(-2) @ pairs).squeeze(-2)
        output = self.out(mixed / ((query * total).sum(dim=-1, keepdim=True) + 1e-6))
        return output, (pairs, total, x)
        ### END SOLUTION


# %% tests="OwnMixer" points=4
check.OwnMixer(OwnMixer)
### BEGIN HIDDEN TESTS
check.OwnMixer(OwnMixer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### A fair measurement
#
# `accuracy(rate, seed)` trains a model once and returns its accuracy. Call it for every rate in the list `rates` with every seed in
# the list `choosing`; choose the rate with the best mean; then call it for this rate with every seed in the list `reporting`, and for
# nothing else, since a run takes time. Return a dict: `"rate"`, the chosen one; `"at the edge"`, whether it is the smallest or
# largest of `rates` (they stand in any order); `"accuracies"`, a list for the seeds in `reporting`, in their order; their `"mean"`; and
# their `"spread"`, the standard deviation of a sample (`statistics.stdev`).
#
# Everything is allowed.


# %% solution="measure"
def measure(accuracy, rates, choosing, reporting):
    """Choose a rate on some seeds, report on others: a dict."""
    ### BEGIN SOLUTION
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    best = max(rates, key=lambda rate: statistics.mean(tried[rate]))
    found = [accuracy(best, seed) for seed in reporting]
    return {
        "rate": best,
        "at the edge": best in (min(rates), max(rates)),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }
    ### END SOLUTION


# %% tests="measure" points=2
check.measure(measure)
### BEGIN HIDDEN TESTS
check.measure(measure, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Trained on recall
#
# The last check trains your mixer with your measurement: one layer of width 32, 120 steps on 4, 8 and 16 pairs, each of your
# rates with one seed to choose, three other seeds to report. Of the answers after 16 pairs at least 0.6 must be right, in the
# mean (what only counts values gets about a quarter), and the chosen rate must not be at the edge. Return three to six rates to
# choose from, with a factor of 3 or more between neighbours.
#
# `check.train(OwnMixer, rate, seed)` trains one model, in a second or two, and returns its accuracy: try your mixer with it, and
# with seeds that are not reported, before you run the check. The check takes some ten seconds.


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
