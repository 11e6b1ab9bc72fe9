# %% [markdown]
# # Exercises 10: the Transformer
#
# Ten exercises, 44 points, about four hours. The **core** (1, 2, 5, 6) takes 85 minutes. They belong
# to [chapter 10](../../notebooks/10_transformer.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 5, 6 and 10 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy.
#
# **Shapes.** $B$ sequences, $n$ tokens of the source, $T$ of the target, $d$ the width, $h$ heads, $V$ tokens in the
# vocabulary. `allowed` is True where a query may look, and broadcasts against scores $(B, h, T, n)$; `real` $(B, n)$ is True at tokens. Padding stands at the end
# (but in exercise 2).

# %%
import math
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
import textbook.chapter_10 as book
from minitorch import nn, optim
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_06 import merge_heads, split_heads
from textbook.checks import chapter_05, chapter_07, chapter_08, chapter_09, progress
from textbook.checks import chapter_10 as check
from textbook.data import Vocabulary, number_pairs, number_pieces

progress.show("10")

# %% [markdown]
# ## 1. What is read, and what is asked
#
# *Core · easy · 15 minutes · 3 points*
#
# Make inputs and targets of teacher forcing from a padded batch.
#
# ```pycon
# >>> read, asked = teacher_forcing(mt.tensor([[7, 8], [5, 0]]), start=1, end=2, padding=0)
# >>> read.tolist(), asked.tolist()
# ([[1, 7, 8], [1, 5, 0]], [[7, 8, 2], [5, 2, 0]])
# ```
#
# Return a pair of tensors, $(B, T + 1)$ each:
#
# - what the decoder reads: `start`, then the sentence, then padding;
# - what it is asked for: the sentence, `end` **right behind its last word**, then padding.
#
# `sentences` $(B, T)$ are word numbers, `padding` behind them; one may be empty. The three special numbers may be any, also 0.
#
# The chapter's decoder also reads the `end` of short sentences. Does that change the loss?
#
# <details><summary>First hint</summary>
#
# A column at the front, another at the end. Where does `end` belong in each row?
#
# </details>
# <details><summary>Second hint</summary>
#
# A row's number of words is the place of its end: `targets[mt.arange(B), lengths] = end`.
#
# </details>


# %% solution="teacher_forcing"

# %% tests="teacher_forcing" points=3
check.teacher_forcing(teacher_forcing)
sentences = mt.tensor([[7, 8, 9], [5, 0, 0]])
for tokens in teacher_forcing(sentences, start=1, end=2, padding=0):
    print(tokens.tolist())
### BEGIN HIDDEN TESTS
# No: at the place where the end is read the target is padding, which the loss leaves out.
check.teacher_forcing(teacher_forcing, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Padding at the front
#
# *Core · medium · 25 minutes · 4 points*
#
# Here padding stands at the **front**: all sequences end together.
#
# ```pycon
# >>> _, own, _ = three_masks(mt.tensor([[4]]), mt.tensor([[0, 6, 7]]), padding=0)
# >>> own.long().tolist()
# [[[[1, 0, 0], [0, 1, 0], [0, 1, 1]]]]
# ```
#
# Return the three masks of a batch, boolean, True where a query may look:
#
# 1. encoder, $(B, 1, 1, n)$: the tokens of the source;
# 2. decoder, itself, $(B, 1, T, T)$: the tokens up to the query, itself included. A query at padding looks at itself alone;
# 3. decoder, across, $(B, 1, 1, n)$: the tokens of the source.
#
# `source` $(B, n)$ and `target` $(B, T)$ have a token at least. Why was $(T, T)$ enough for the chapter's second mask?
#
# <details><summary>First hint</summary>
#
# Two rules joined by `&`, one exception joined by `|`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The exception is the diagonal.
#
# </details>


# %% solution="three_masks"

# %% tests="three_masks" points=4
check.three_masks(three_masks)
names = "encoder", "decoder, itself", "decoder, across"
source, target = mt.tensor([[0, 0, 4, 5]]), mt.tensor([[0, 6, 7]])
figure, panels = plot.subplots(1, 3, width=7, height=2.4)
for axes, mask, name in zip(panels, three_masks(source, target, 0), names, strict=True):
    queries, keys = source if name == "encoder" else target, target if "its" in name else source
    seen = mask[0, 0].expand(queries.shape[1], -1)
    rows, columns = ([str(token) for token in part[0].tolist()] for part in (queries, keys))
    plot.mask(axes, seen, rows, columns, title=name)
plot.show(figure, alt="Three masks for a source and a target with padding, 0, at the front")
### BEGIN HIDDEN TESTS
# There padding stood behind all tokens, and the causal mask hid it from them.
check.three_masks(three_masks, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then build: weights
#
# *Practice · easy · 20 minutes · 3 points*
#
# Count weights before you build.
#
# ```pycon
# >>> found = weights_more(vocabulary=9, width=2, heads=1, hidden=3, layers=1)
# >>> found["output tied"], found["no norms at the ends"]
# (-18, -8)
# ```
#
# The chapter's `Transformer(vocabulary, width, heads, hidden, layers)` has:
#
# - one embedding for source and target, positions without weights, an output layer with a bias;
# - attentions of four matrices without biases, networks with biases;
# - norms with gain and bias, one of them at the end of each stack.
#
# Return a dict of integers: the number of its `"weights"`, and **how many more** there are after each change alone:
#
# - `"a layer more in each stack"`, `"twice the heads"`, `"twice the hidden width"`;
# - `"output tied"`: the output layer uses the embedding's matrix, and keeps its bias;
# - `"no norms at the ends"` of both stacks.
#
# <details><summary>First hint</summary>
#
# Count an attention, a network, a norm, a table.
#
# </details>
# <details><summary>Second hint</summary>
#
# A layer in each stack: three attentions, two networks, five norms.
#
# </details>


# %% solution="weights_more"

# %% tests="weights_more" points=3
check.weights_more(weights_more)


def counted(*sizes):
    return sum(weight.numel() for weight in book.Transformer(*sizes).parameters())


predicted, before = weights_more(50, 16, 4, 40, 2), counted(50, 16, 4, 40, 2)
print(f"weights: predicted {predicted['weights']}, built {before}")
for change, sizes in {
    "a layer more in each stack": (50, 16, 4, 40, 3),
    "twice the heads": (50, 16, 8, 40, 2),
    "twice the hidden width": (50, 16, 4, 80, 2),
}.items():
    print(f"{change}: predicted {predicted[change]}, built {counted(*sizes) - before}")
### BEGIN HIDDEN TESTS
check.weights_more(weights_more, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Predict, then run: what moves?
#
# *Practice · easy · 15 minutes · 3 points*
#
# Which scores depend on what? A source of $n$ places and a target of $T$ go through the chapter's Transformer, with random weights. The **vector** that enters the first block at one place is replaced.
# Return the target's places, from 0, whose scores move, in order.
#
# - `real` is a list of $n$ booleans, True at the tokens of the source.
# - `place` is `("source", i)` or `("target", j)`.
# - `forgotten` is a tuple of masks left out: `"encoder"` (its padding), `"causal"`, `"cross"` (padding, across).
#
# ```pycon
# >>> moved([True, False], 3, ("target", 1), forgotten=()), moved([True, False], 3, ("source", 1), forgotten=())
# ([1, 2], [])
# ```
#
# <details><summary>First hint</summary>
#
# A target's place acts on itself and on what may look at it. And a source's?
#
# </details>
# <details><summary>Second hint</summary>
#
# A padded place of the source is read if one of two masks is forgotten.
#
# </details>


# %% solution="moved"

# %% tests="moved" points=3
check.moved(moved)
mt.manual_seed(0)
model, real = book.Transformer(9, 16, 4, 32, 2).double(), [True, True, True, False]
x, y = mt.randn(1, 4, 16).double(), mt.randn(1, 5, 16).double()


def scores_of(x, y, forgotten):
    encoder, cross = (
        None if name in forgotten else mt.tensor(real) for name in ("encoder", "cross")
    )
    causal = None if "causal" in forgotten else mt.ones(5, 5).tril().bool()
    for block in model.encoder:
        x = block(x, encoder)
    for block in model.decoder:
        y = block(y, causal, model.encoder_norm(x), cross)
    return model.out(model.decoder_norm(y))[0]


for place, forgotten in (
    (("source", 1), ()),
    (("source", 3), ()),
    (("source", 3), ("encoder",)),
    (("target", 2), ("cross",)),
    (("target", 2), ("causal",)),
):
    changed = [x.clone(), y.clone()]
    changed[place[0] == "target"][0, place[1]] *= -1
    moves = (scores_of(*changed, forgotten) - scores_of(x, y, forgotten)).abs().amax(-1) > 1e-9
    run = [t for t in range(5) if moves[t]]
    print(*place, *forgotten, "predicted", moved(real, 5, place, forgotten), "run", run)
### BEGIN HIDDEN TESTS
check.moved(moved, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Cross-attention
#
# *Core · medium · 20 minutes · 4 points*
#
# Let the decoder look at the source, and keep where it looked. Write `forward`:
#
# - `x` $(B, T, d)$, from the decoder, gives the queries, through `self.query`;
# - `memory` $(B, n, d)$, from the encoder, gives keys and values, through `self.key` and `self.value`;
# - `allowed` is None or $(B, 1, 1, n)$, True at the source's tokens; the others get no weight at all, however low the scores;
# - heads are blocks of $d/h$ columns, scores are divided by $\sqrt{d/h}$, `self.out` comes last. Return $(B, T, d)$;
# - each call sets `self.weights` to the weights of all heads, $(B, h, T, n)$, detached.
#
# Keep `__init__` as it is.
#
# *Not allowed*: `F.scaled_dot_product_attention`.
#
# <details><summary>First hint</summary>
#
# `unflatten(-1, (self.heads, -1)).transpose(1, 2)` makes an axis of heads.
#
# </details>
# <details><summary>Second hint</summary>
#
# Back again: `transpose(1, 2).flatten(2)`.
#
# </details>


# %% solution="CrossAttention" given="__init__"

# %% tests="CrossAttention" points=4
check.CrossAttention(CrossAttention)
### BEGIN HIDDEN TESTS
check.CrossAttention(CrossAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The block of encoder and decoder
#
# *Core · medium · 25 minutes · 5 points*
#
# Join ready-made parts. With `self.cross` this pre-norm block is one of the decoder; where it is None, one of the encoder. Write `forward`. Each part gets the norm of $x$; what it gives goes
# through `self.dropout` and is added to $x$:
#
# 1. `self.attention(queries from, keys and values from, allowed)`, after `self.attention_norm`: $x$ looks at itself;
# 2. if there is one, `self.cross(queries from, memory, memory_allowed)`, after `self.cross_norm`. The memory gets no norm;
# 3. `self.feed_forward(...)`, after `self.feed_forward_norm`.
#
# `x` is $(B, T, d)$, as is the output; `memory` is $(B, n, d)$. Hand both masks on as they are. Keep `__init__` as it is.
#
# <details><summary>First hint</summary>
#
# Three lines of the form `x = x + self.dropout(...)`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The second part gets the norm of the changed $x$.
#
# </details>


# %% solution="Block" given="__init__"

# %% tests="Block" points=5
check.Block(Block)
### BEGIN HIDDEN TESTS
check.Block(Block, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Many beginnings, one source
#
# *Practice · medium · 25 minutes · 3 points*
#
# A translator that weighs $k$ beginnings of each translation runs all through each block. Written as one thinks of it:


# %%
block = book.DecoderBlock(width=16, heads=4, hidden=32)


def slowly(block, x, memory, allowed):
    """x (B, k, T, d), memory (B, n, d), its mask (B, 1, 1, n) give (B, k, T, d)."""
    causal = mt.ones(x.shape[2], x.shape[2], dtype=mt.bool).tril()
    rows = [
        mt.cat([block(one.unsqueeze(0), causal, source, seen) for one in beginnings])
        for beginnings, source, seen in zip(x, memory.split(1), allowed.split(1), strict=True)
    ]
    return mt.stack(rows)


# %% [markdown]
# Write it anew: the same numbers, with as few FLOPs as possible and no loop. Both are **counted**.
#
# ```pycon
# >>> given = block, mt.randn(2, 3, 5, 16), mt.randn(2, 7, 16), mt.ones(2, 1, 1, 7).bool()
# >>> mt.allclose(many_beginnings(*given), slowly(*given), atol=1e-5)
# True
# ```
#
# - `block` is the chapter's, and stays as it is: `block.norm_1` before `block.attention(y, y, mask)`; `block.norm_3` before `block.cross(y, memory, mask)`; `block.norm_2` before `block.feed_forward(y)`. Each is added to $x$. There is no dropout.
# - Keys and values of a source are computed once, not $k$ times.
# - No score between two beginnings is computed.
#
# What does `slowly` compute $k$ times?
#
# <details><summary>First hint</summary>
#
# All parts take three axes. For self-attention, which two of the four become one?
#
# </details>
# <details><summary>Second hint</summary>
#
# Queries do not see one another: for the cross-attention all beginnings are one text of $kT$ tokens.
#
# </details>


# %% solution="many_beginnings"

# %% tests="many_beginnings" points=3
check.many_beginnings(many_beginnings)
inputs = mt.randn(2, 8, 5, 16), mt.randn(2, 60, 16), mt.ones(2, 1, 1, 60).bool()
for function in (slowly, many_beginnings):
    with count_flops() as counter:
        function(block, *inputs)
    print(f"{function.__name__}: {counter.total:,} FLOPs")
### BEGIN HIDDEN TESTS
# The keys and values of each source: here more than half of all products.
check.many_beginnings(many_beginnings, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. What does a loss promise?
#
# *Practice · medium · 25 minutes · 4 points*
#
# Find two bounds and two examples, on paper.
#
# ```pycon
# >>> found = promises(T=1, V=2)  # one token out of two: p is above 1/2 or below
# >>> round(found["right below"], 3), round(found["wrong above"], 3), found["wrong"].shape
# (0.693, 0.693, minitorch.Size([1, 2]))
# ```
#
# A sentence has $T$ tokens from a vocabulary of $V$. Its loss is their mean $-\log p$. Greedy decoding writes it if each, after the right ones before it, is likelier than all others. Return a dict:
#
# - `"right below"`: the largest loss below which it is **always** written;
# - `"wrong above"`: the smallest loss above which it is **never** written;
# - `"wrong"`: probabilities $(T, V)$ that do **not** write it, loss at most 1 % above the first bound;
# - `"right"`: those that **do**, loss at most 1 % below the second.
#
# In both token 0 is right; none ties with the likeliest.
#
# <details><summary>First hint</summary>
#
# From which $p$ on is a token always the likeliest? Below which $p$ never?
#
# </details>
# <details><summary>Second hint</summary>
#
# One token may have all the loss. Or all are nearly as unlikely as a likeliest token can be.
#
# </details>


# %% solution="promises"

# %% tests="promises" points=4
check.promises(promises)
for T in (5, 10, 20):
    found = promises(T, V=30)
    print(
        f"{T:2} tokens: right below {found['right below']:.3f}, wrong above {found['wrong above']:.2f}"
    )
### BEGIN HIDDEN TESTS
# Below log 2 / T all losses together are below log 2, so each token has p > 1/2. Above log V some token has p < 1/V, and is
# not the likeliest of V. Between the bounds, nearly everywhere, a loss says nothing of whole sentences: count those.
check.promises(promises, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Which of these is broken?
#
# *Challenge · medium · 40 minutes · 5 points*
#
# `decoder(target, memory, real)` gives scores $(B, T, V)$ for tokens $(B, T)$, a memory $(B, n, d)$ in float64 and `real` $(B, n)$. Return a list of its faults:
#
# - `"future"`: scores at a place depend on **later** tokens of their own target;
# - `"padding"`: scores depend on their own memory where `real` is False;
# - `"batch"`: scores depend on tokens, or on real places of the memory, of **another sentence**;
# - `"source"`: scores at some place do **not** depend on some real place of their memory.
#
# All sizes but `width`, $d$, and `vocabulary` are yours. Differences below $10^{-9}$ are none. A right score may be $-\infty$. Try six:

# %%
six = check.suspects()
print(six[0](mt.tensor([[1, 2, 3]]), mt.randn(1, 4, 5).double(), mt.ones(1, 4).bool()).shape)

# %% [markdown]
# Which faults does the training loss not show?
#
# <details><summary>First hint</summary>
#
# Change one thing, and see what moves: later tokens, padded memory, another sentence, one token of the source.
#
# </details>
# <details><summary>Second hint</summary>
#
# Use three sentences of different lengths, the first neither longest nor shortest, padding at the end. Change the tokens behind each place in turn, each token of the source.
#
# </details>


# %% solution="faults"

# %% tests="faults" points=5
check.faults(faults)
for decoder in six:
    print(faults(decoder, vocabulary=9, width=5))
### BEGIN HIDDEN TESTS
# All of them: a leak makes the loss lower than it should be, and a source that is half read, padding
# that is read or neighbours that are seen cost a little of it. In use, what leaked is not there.
check.faults(faults, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Your Transformer
#
# *Challenge · hard · 35 minutes · 10 points: one a part, five for the model*
#
# Put your parts together, train them, and translate. Five are **your own answers** to sets 05 to 09: take the `# ` in the next cell away and run it to copy them, then run the five cells.
# For one that does not pass, the library's part is used, without a point. Exercises 1, 5 and 6 are parts, too.

# %%
# check.copy_my_answers()

# %% [markdown]
# ### Attention (set 05)


# %% solution="attention"
# Your attention of set 05 belongs here.
def attention(query, key, value, bias=None):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    if bias is None:
        return scores.softmax(dim=-1) @ value
    scores = scores + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)  # (..., T, 1)
    weights = scores.masked_fill(shut, 0.0).softmax(dim=-1)
    return weights.masked_fill(shut, 0.0) @ value
    ### END SOLUTION


# %% tests="attention" points=1
chapter_05.attention(attention)
### BEGIN HIDDEN TESTS
chapter_05.attention(attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Masked attention (set 07)


# %% solution="masked_attention"
# Your masked_attention of set 07 belongs here.
def masked_attention(query, key, value, allowed):
    """Outputs (..., T, d_v): each query's average of the values that it may look at."""
    ### BEGIN SOLUTION
    shape = *query.shape[:-1], key.shape[-2]  # of the scores, (..., T, n)
    allowed = mt.ones(shape, dtype=mt.bool) if allowed is None else allowed.expand(*shape)
    unseen = ~allowed.any(dim=-2).unsqueeze(-1)  # (..., n, 1)
    key, value = key.masked_fill(unseen, 0.0), value.masked_fill(unseen, 0.0)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value  # NaN stands only where nothing is allowed
    ### END SOLUTION


# %% tests="masked_attention" points=1
chapter_07.masked_attention(masked_attention)
### BEGIN HIDDEN TESTS
chapter_07.masked_attention(masked_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Positions (set 08)


# %% solution="sinusoidal_codes"
# Your sinusoidal_codes of set 08 belongs here.
def sinusoidal_codes(n, d, base=10_000.0):
    """The codes of the places 0 to n - 1: (n, d)."""
    ### BEGIN SOLUTION
    k = d // 2
    omega = base ** (-mt.arange(k) / max(k - 1, 1))  # (k)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, k)
    return mt.cat([angles.sin(), angles.cos()], dim=1)
    ### END SOLUTION


# %% tests="sinusoidal_codes" points=1
chapter_08.sinusoidal_codes(sinusoidal_codes)
### BEGIN HIDDEN TESTS
chapter_08.sinusoidal_codes(sinusoidal_codes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Norm and network (set 09)


# %% solution="layer_norm"
# Your layer_norm of set 09 belongs here.
def layer_norm(x, gain, bias, eps=1e-5):
    """x (..., d), gain and bias (d) give (..., d)."""
    ### BEGIN SOLUTION
    centered = x - x.mean(dim=-1, keepdim=True)
    scale = centered.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1.0)  # (..., 1)
    small = centered / scale  # no square of these overflows
    variance = (small**2).mean(dim=-1, keepdim=True)
    return small / mt.sqrt(variance + eps / scale / scale) * gain + bias
    ### END SOLUTION


# %% tests="layer_norm" points=1
chapter_09.layer_norm(layer_norm)
### BEGIN HIDDEN TESTS
chapter_09.layer_norm(layer_norm, hidden=True)
### END HIDDEN TESTS


# %% solution="FeedForward"
# Your FeedForward of set 09 belongs here.
class FeedForward(nn.Module):
    """A gated network with one hidden layer, the same for every position."""

    def __init__(self, width, hidden):
        super().__init__()
        ### BEGIN SOLUTION
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        ### END SOLUTION

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        ### BEGIN SOLUTION
        return self.down(F.silu(self.gate(x)) * self.up(x))
        ### END SOLUTION


# %% tests="FeedForward" points=1
chapter_09.FeedForward(FeedForward)
### BEGIN HIDDEN TESTS
chapter_09.FeedForward(FeedForward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The whole, checked at the end
#
# `self.embed(tokens)` embeds tokens with their positions, `self.encoder(x, real)` gives a memory, `self.decoder(tokens, memory, real)` scores.
#
# - `encode(source)` returns a pair: the memory $(B, n, d)$, and `real` $(B, n)$, True where the source is not `self.padding`;
# - `forward(source, target)` returns the decoder's scores $(B, T, V)$.


# %% solution="Transformer" given="__init__"

# %% [markdown]
# The parts that are used:

# %%
parts = check.Parts(globals())
print(parts)

# %% [markdown]
# The rest is ready:


# %%
class SelfAttention(nn.Module):
    """Multi-head self-attention of the parts."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        query, key, value = (
            split_heads(projected, self.heads)  # (B, heads, n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        if allowed is None or allowed.all():
            heads = parts.attention(query, key, value)
        else:
            heads = parts.masked_attention(query, key, value, allowed)
        return self.out(merge_heads(heads))


class Norm(nn.Module):
    """Layer norm with its gain and bias."""

    def __init__(self, width):
        super().__init__()
        self.gain, self.bias = nn.Parameter(mt.ones(width)), nn.Parameter(mt.zeros(width))

    def forward(self, x):
        return parts.layer_norm(x, self.gain, self.bias, 1e-5)


class Embedded(nn.Module):
    """Tokens with their positions; an output layer of its own gives scores."""

    def __init__(self, vocabulary, width, dropout, longest=20):
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        self.out = nn.Linear(width, vocabulary)
        self.codes = parts.sinusoidal_codes(longest, width).float()

    def forward(self, tokens):
        return self.dropout(self.embedding(tokens) + self.codes[: tokens.shape[1]])

    def scores(self, x):
        return self.out(x)


class Encoder(nn.Module):
    """Blocks that look in both directions."""

    def __init__(self, blocks, norm):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, x, real):
        for block in self.blocks:
            x = block(x, real[:, None, None])  # (B, 1, 1, n): the padding is not seen
        return self.norm(x)


class Decoder(Encoder):
    """Causal blocks that also look at the source, between embedding and scores."""

    def __init__(self, embed, blocks, norm):
        super().__init__(blocks, norm)
        self.embed = embed

    def forward(self, tokens, memory, real):
        x, causal = self.embed(tokens), mt.ones(tokens.shape[1], tokens.shape[1]).bool().tril()
        for block in self.blocks:
            x = block(x, causal, memory, real[:, None, None])
        return self.embed.scores(self.norm(x))


# %% [markdown]
# Numbers up to 999 in English and German, in pieces, a tenth held out:

# %%
pairs = number_pairs(4000, digits=(1, 3), seed=0)
held_out = sorted({pair.number for pair in number_pairs(80, digits=(1, 3), held_out=True, seed=1)})
pieces = [piece for pair in pairs for piece in (*pair.source, *pair.target)]
vocabulary = Vocabulary(pieces, specials=["<pad>", "<s>", "</s>"])
padding, start, end = (vocabulary[token] for token in ("<pad>", "<s>", "</s>"))
width, heads, hidden, layers, dropout = 32, 4, 64, 2, 0.05


def make_block(cross):
    return parts.Block(
        width,
        SelfAttention(width, heads),
        parts.FeedForward(width, hidden),
        parts.CrossAttention(width, heads) if cross else None,
        dropout,
        Norm,
    )


mt.manual_seed(0)
embed = Embedded(len(vocabulary), width, dropout)
encoder = Encoder([make_block(cross=False) for _ in range(layers)], Norm(width))
decoder = Decoder(embed, [make_block(cross=True) for _ in range(layers)], Norm(width))
model = parts.Transformer(embed, encoder, decoder, padding)
print(f"{len(pairs)} pairs, {len(vocabulary)} tokens, {len(held_out)} numbers held out")
print(f"{sum(weight.numel() for weight in model.parameters()):,} weights")

# %% [markdown]
# The training, for 30 seconds at most:

# %% tags=["nbval-ignore-output"]
optimizer = optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
steps, batch, began = 200, 32, thread_time()
model.train()
for step in range(1, steps + 1):
    chosen = [pairs[i] for i in mt.randint(0, len(pairs), (batch,)).tolist()]
    source, _ = vocabulary.encode_batch([pair.source for pair in chosen], batch_first=True)
    sentences, _ = vocabulary.encode_batch([pair.target for pair in chosen], batch_first=True)
    read, asked = parts.teacher_forcing(sentences, start, end, padding)
    optimizer.param_groups[0]["lr"] = 0.01 * min(step / 20, 1 - (step - 1) / steps)
    optimizer.zero_grad()
    scores = model(source, read).flatten(0, 1)  # (B T, V)
    loss = F.cross_entropy(scores, asked.flatten(), ignore_index=padding)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step == 1 or step % 50 == 0:
        print(f"step {step}: loss {loss.item():.2f}")
    if thread_time() - began > 30:
        print(f"stopped after {step} of {steps} steps")
        break

# %% [markdown]
# Now it writes numbers that it has never seen.


# %%
@mt.no_grad()
def translate(number):
    """The German pieces of a number."""
    model.eval()
    memory, real = model.encode(vocabulary.encode(number_pieces(number)).unsqueeze(0))
    written = [start]
    while written[-1] != end and len(written) < 12:
        scores = model.decoder(mt.tensor([written]), memory, real)  # (1, T, V)
        written.append(scores[0, -1].argmax().item())
    return vocabulary.decode(token for token in written if token not in (start, end))


# %% tags=["nbval-ignore-output"]
for number in held_out[::5]:
    print(number, *number_pieces(number), "->", "".join(translate(number)))

# %% [markdown]
# Where the last cross-attention looks:

# %%
number = next(number for number in held_out if number > 200 and number % 100 > 20 and number % 10)
question, answer = number_pieces(number), translate(number)
with mt.no_grad():
    model(
        vocabulary.encode(question).unsqueeze(0), vocabulary.encode(["<s>", *answer]).unsqueeze(0)
    )
looks = decoder.blocks[-1].cross.weights[0].mean(dim=0)  # (T, n)
figure, axes = plot.subplots(width=6, height=3)
plot.attention(axes, looks, ["<s>", *answer], question)
plot.show(figure, alt=f"Weights of the last cross-attention while {number} is translated")

# %% [markdown]
# The last check: your model is right, it translates, and all your parts have run.

# %% tests="Transformer" points=5
check.Transformer(Transformer)
check.assembled(parts, model, translate, held_out)
### BEGIN HIDDEN TESTS
check.Transformer(Transformer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Next, in [chapter 11](../../notebooks/11_transformer_at_work.ipynb): work.
