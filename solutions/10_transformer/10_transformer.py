# %% [markdown]
# # Exercises 10: the Transformer
#
# Ten exercises, 44 points, about four hours. The **core** (1, 2, 5, 6) takes 85 minutes. They belong
# to [chapter 10](../../notebooks/10_transformer.ipynb). The first nine stand alone. The tenth puts some of them together with the chapters 05 to 09.
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 5 to 8 and 10 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy on the way there.
#
# **Shapes.** $B$ sequences come first. $n$ is the number of tokens of the source, $T$ of the target, $d$ the width of the model, $h$ the number of heads (`heads`), $V$ the
# size of the vocabulary. `allowed` is True where a query may look, and broadcasts against scores $(B, h, T, n)$; `real` $(B, n)$ is True at tokens. Padding stands at the end
# but in exercise 2. Every sequence has a token at least, but in exercise 1.

# %%
import math
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
import textbook.chapter_10 as book
from minitorch import nn, optim
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
# Make inputs and targets of teacher forcing from a padded batch. Return a pair of tensors, $(B, T + 1)$ each:
#
# - what the decoder reads: `start`, then the sentence, then padding;
# - what it is asked for: the sentence, `end` **right behind its last word**, then padding.
#
# ```pycon
# >>> read, asked = teacher_forcing(mt.tensor([[7, 8], [5, 0]]), start=1, end=2, padding=0)
# >>> read.tolist(), asked.tolist()
# ([[1, 7, 8], [1, 5, 0]], [[7, 8, 2], [5, 2, 0]])
# ```
#
# `sentences` $(B, T)$ are word numbers, `padding` behind them. One may be empty. The three special numbers differ and may be any, also 0; words are others. (In the chapter the decoder also reads the end of short sentences. Does that change the loss?)
#
# <details><summary>First hint</summary>
#
# Join a column at the front, another at the end. Where does `end` belong in each row?
#
# </details>
# <details><summary>Second hint</summary>
#
# The number of words of each row is the place of its `end`: `targets[mt.arange(B), lengths] = end`.
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
# Some programs put padding at the **front**, so that all sequences end at the same place. Return the three masks of a batch, boolean, True where a query may look:
#
# 1. encoder, self-attention, $(B, 1, 1, n)$: the tokens of the source;
# 2. decoder, self-attention, $(B, 1, T, T)$: the tokens up to the query, itself included, and no padding. But a query at padding looks at itself and nothing else, so that its softmax has something to sum over;
# 3. decoder, cross-attention, $(B, 1, 1, n)$: the tokens of the source.
#
# ```pycon
# >>> _, own, _ = three_masks(mt.tensor([[4]]), mt.tensor([[0, 6, 7]]), padding=0)
# >>> own.long().tolist()
# [[[[1, 0, 0], [0, 1, 0], [0, 1, 1]]]]
# ```
#
# `source` $(B, n)$ and `target` $(B, T)$ have one token at least. Why did the chapter get along with $(T, T)$ for the second?
#
# <details><summary>First hint</summary>
#
# Two rules joined by `&`, and one exception joined by `|`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The exception is the diagonal: for a real token it changes nothing.
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
# The chapter's `Transformer(vocabulary, width, heads, hidden, layers)` has one embedding for source and target, attentions of four matrices without biases, networks with biases,
# norms with gain and bias, one more norm at the end of each stack, an output layer with a bias. Return a dict of integers: the number of its `"weights"`, and **how many more** there are after each change alone:
#
# - `"a layer more in each stack"`, `"twice the heads"`, `"twice the hidden width"`;
# - `"output tied"`: the output layer uses the embedding's matrix, and keeps its bias;
# - `"no norms at the ends"`: both stacks end without one.
#
# ```pycon
# >>> found = weights_more(vocabulary=9, width=2, heads=1, hidden=3, layers=1)
# >>> found["output tied"], found["no norms at the ends"]
# (-18, -8)
# ```
#
# The cell of the check builds models and counts.
#
# <details><summary>First hint</summary>
#
# Count the parts once: an attention, a network, a norm, a table. Then list what a layer of each stack has.
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
# Which scores depend on what? A source of $n$ places and a target of $T$ go through the chapter's Transformer, with random weights. The **vector** that goes into the first block at one place is replaced; masks stay.
# Return the places of the target, counted from 0, whose scores move, in order.
#
# ```pycon
# >>> moved([True, False], 3, ("target", 1), forgotten=()), moved([True, False], 3, ("source", 1), forgotten=())
# ([1, 2], [])
# ```
#
# - `real` is a list of $n$ booleans, True at the tokens of the source.
# - `place` is `("source", i)` or `("target", j)`.
# - `forgotten` is a tuple of masks that have been left out: `"encoder"` (its padding), `"causal"`, `"cross"` (padding, across).
#
# <details><summary>First hint</summary>
#
# A place of the target acts on itself and on what may look at it. And a place of the source?
#
# </details>
# <details><summary>Second hint</summary>
#
# A padded place of the source is read if one of two masks is forgotten: either way all of the target moves.
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
# Let the decoder look at the source, and keep where it has looked. Write `forward`:
#
# - `x` $(B, T, d)$, from the decoder, gives the queries, through `self.query`;
# - `memory` $(B, n, d)$, from the encoder, gives keys and values, through `self.key` and `self.value`;
# - `allowed` is None or $(B, 1, 1, n)$, True at the tokens of the source; its padding gets no weight at all, however low the scores;
# - heads are blocks of $d/h$ columns, scores are divided by $\sqrt{d/h}$, `self.out` is the output projection. Return $(B, T, d)$;
# - in every call set `self.weights` to the weights of all heads, $(B, h, T, n)$, detached: a picture at the end.
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
# Back again: `transpose(1, 2).flatten(2)`, before the output projection.
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
# Join ready-made parts. With a cross-attention this pre-norm block is one of the decoder, without it (`self.cross` is None) one of the encoder. Write `forward`: in this order each part gets the norm of $x$; what it gives goes
# through `self.dropout` and is added to $x$:
#
# 1. `self.attention(queries from, keys and values from, allowed)`, after `self.attention_norm`: $x$ looks at itself;
# 2. if there is one, `self.cross(queries from, memory, memory_allowed)`, after `self.cross_norm`. The memory is used as it comes;
# 3. `self.feed_forward(...)`, after `self.feed_forward_norm`.
#
# `x` is $(B, T, d)$, as is the output; `memory` is $(B, n, d)$. Both masks go to their attention as they are. Keep `__init__` as it is.
#
# <details><summary>First hint</summary>
#
# Three lines of the form `x = x + self.dropout(...)`.
#
# </details>
# <details><summary>Second hint</summary>
#
# The second part gets the norm of the $x$ that the first has changed.
#
# </details>


# %% solution="Block" given="__init__"

# %% tests="Block" points=5
check.Block(Block)
### BEGIN HIDDEN TESTS
check.Block(Block, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The encoder
#
# *Practice · medium · 15 minutes · 3 points*
#
# Stack blocks, and keep the padding out of every one.
#
# - `__init__`: `make_block()` returns a new block each time. Keep `layers` of them in an `nn.ModuleList` called `self.blocks`, and `norm` as `self.norm`.
# - `forward(x, real)`: `x` $(B, n, d)$ goes through the blocks, called as `block(x, allowed)`, then through the norm. The mask broadcasts against scores $(B, h, n, n)$: whichever token asks, True for keys that are tokens.
#
# <details><summary>First hint</summary>
#
# `[make_block()] * layers` would be one block, many times.
#
# </details>
# <details><summary>Second hint</summary>
#
# `real` needs axes for heads and queries: $(B, 1, 1, n)$.
#
# </details>


# %% solution="Encoder"

# %% tests="Encoder" points=3
check.Encoder(Encoder)
### BEGIN HIDDEN TESTS
check.Encoder(Encoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The decoder
#
# *Practice · medium · 20 minutes · 4 points*
#
# Predict every token of the target in one pass. Write `forward`: `tokens` $(B, T)$ is the target so far, `memory` $(B, n, d)$ the encoder's output, `real` $(B, n)$ is True at the source's tokens.
#
# - `self.embed(tokens)` gives $(B, T, d)$, with positions.
# - A block is called as `block(x, allowed, memory, memory_allowed)`: a token looks at itself and those before it, and at all tokens of the source.
# - After the last block come `self.norm` and `self.embed.scores`.
#
# Return the scores $(B, T, V)$. Keep `__init__` as it is. The target's own padding needs no mask. Why?
#
# <details><summary>First hint</summary>
#
# The causal mask is $(T, T)$, the other one $(B, 1, 1, n)$.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mt.ones(T, T, dtype=mt.bool).tril()`.
#
# </details>


# %% solution="Decoder" given="__init__"

# %% tests="Decoder" points=4
check.Decoder(Decoder)
### BEGIN HIDDEN TESTS
# The target's padding stands behind all its tokens, so the causal mask hides it from them. What its
# own rows predict, the loss leaves out.
check.Decoder(Decoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Which of these is broken?
#
# *Challenge · medium · 40 minutes · 5 points*
#
# Find out what is wrong with a decoder, by a test. `decoder(target, memory, real)` takes tokens $(B, T)$, a memory $(B, n, d)$ and `real` $(B, n)$, and returns scores $(B, T, V)$; all sizes but $d$ = `width` and the `vocabulary` of the
# target (9 at least) are yours. Return the list of what is violated, in any order:
#
# - `"future"`: scores at a place depend on target tokens of the same sentence **behind** it;
# - `"padding"`: scores depend on what stands in the memory of **their own sentence** where `real` is False, be it in one sentence of the batch, at one place;
# - `"batch"`: scores of a sentence depend on tokens, or on real places of the memory, of **another sentence**;
# - `"source"`: scores at some place do **not** depend on some token of their own source.
#
# A right decoder may compute token after token, or never say a token, whose score is $-\infty$ then. Differences below $10^{-9}$ are no dependence. Make the memory in float64, `mt.randn(B, n, width).double()`. Here are six decoders to try it on.

# %%
six = check.suspects()
print(six[0](mt.tensor([[1, 2, 3]]), mt.randn(1, 4, 5).double(), mt.ones(1, 4).bool()).shape)

# %% [markdown]
# Which faults would nobody notice who looks at the training loss alone?
#
# <details><summary>First hint</summary>
#
# Change one thing, and see what moves: later tokens, padded memory, another sentence, one token of the source.
#
# </details>
# <details><summary>Second hint</summary>
#
# Use three sentences of different lengths. For `"future"` change the tokens behind each place in turn; for `"source"` each token of the source, at every place of the target.
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
# *Challenge · hard · 35 minutes · 10 points: one for each of five parts, five for the model*
#
# Put together what you have written, train it, and let it translate.
#
# Below come five cells, one for each part from the chapters 05 to 09. **Each gets your own answer.** To have them copied, take the `# ` in the next cell away, run it, then run the five. What is still blank is replaced by your answer from
# the set beside this one, where you have saved it. What is forbidden in the exercise stays forbidden here.
#
# Where a cell still holds `raise NotImplementedError`, or does not pass its check, the library's part takes its place, which scores nothing. Your answers to the exercises 1 and 5 to 8 above are parts, too, and need no copying.

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
# ### Layer norm and feed-forward network (set 09)


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
# ### The whole
#
# Join encoder and decoder. `self.embed(tokens)` embeds tokens with their positions,
# `self.encoder(x, real)` and `self.decoder(tokens, memory, real)` are those of exercises 7 and 8, `self.padding` is a token.
#
# - `encode(source)` takes tokens $(B, n)$ and returns a pair: the memory $(B, n, d)$, and `real` $(B, n)$, True where a
#   token of the source is no padding;
# - `forward(source, target)` takes source $(B, n)$ and target $(B, T)$ and returns the decoder's scores $(B, T, V)$.
#
# Its check runs at the end: there are the five points.


# %% solution="Transformer" given="__init__"

# %% [markdown]
# Yours where they pass their checks, else the library's:

# %%
parts = check.Parts(globals())
print(parts)

# %% [markdown]
# What is left is glue, and ready: self-attention splits into heads (06), attends, with a mask (07) or without (05), and merges; the norm keeps gain and bias, the embedding adds positions.


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


# %% [markdown]
# The numbers from 0 to 999 in English and in German, in pieces. A tenth is held out.

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
encoder = parts.Encoder(lambda: make_block(cross=False), layers, Norm(width))
decoder = parts.Decoder(embed, lambda: make_block(cross=True), layers, Norm(width))
model = parts.Transformer(embed, encoder, decoder, padding)
print(f"{len(pairs)} pairs, {len(vocabulary)} tokens, {len(held_out)} numbers held out")
print(f"{sum(weight.numel() for weight in model.parameters()):,} weights")

# %% [markdown]
# The training, as plain as in the chapter. (Parts that loop over tokens in Python are slow here: it stops after 30 seconds at the latest.)

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
# Now it writes, greedily. No number below was seen in training.


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
# Where does it look? The last cross-attention, all heads together.

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
# The last check: your `Transformer` is right, translates numbers that it has never seen, and all parts of your own have run in it.

# %% tests="Transformer" points=5
check.Transformer(Transformer)
check.assembled(parts, model, translate, held_out)
### BEGIN HIDDEN TESTS
check.Transformer(Transformer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# You have written every part. What follows in [chapter 11](../../notebooks/11_transformer_at_work.ipynb) is work.
