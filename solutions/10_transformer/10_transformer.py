# %% [markdown]
# # Exercises 10: the Transformer
#
# Ten exercises, from easy to hard, 45 points, about four hours. They belong to
# [chapter 10](../../notebooks/10_transformer.ipynb). The first nine stand alone: none needs the answer to another.
# The tenth puts them together with what you have written for the chapters 05 to 09: your Transformer.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. In exercises 2, 4 to 8 and 10 the
# gradients of your results are compared, too: the results must stay tensors that the library's
# operations have made of the inputs, so keep away from `.item()`, `.detach()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first. $n$ is the number of tokens of the source, $T$ of the target,
# $d$ the width of the model, $h$ the number of heads (`heads`), $V$ the size of the vocabulary. Masks that are called
# `allowed` are True where a query may look, and broadcast against the scores $(B, h, T, n)$; `real` $(B, n)$ is True at
# tokens and False at padding, which stands at the end. Every sequence has at least one token.

# %%
import math
from time import process_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook import plot
from textbook.chapter_06 import merge_heads, split_heads
from textbook.checks import chapter_05, chapter_07, chapter_08, chapter_09
from textbook.checks import chapter_10 as check
from textbook.data import Vocabulary, number_pairs, number_pieces

# %% [markdown]
# ## 1. The schedule at work
#
# *Goal: give an optimizer its learning rate, step by step. Easy, 10 minutes, 2 points.*
#
# At step $t$, counted from 1, with width $d$ and $w$ steps of warm-up, the rate of Vaswani et al. (2017) is
#
# $$\eta(t) = d^{-1/2} \cdot \min\!\big(t^{-1/2},\; t \cdot w^{-3/2}\big) .$$
#
# Make the optimizer use it: `step` is $t$, `width` $d$, `steps` $w$. An optimizer keeps its parameters in groups, and
# each group has a rate of its own: `optimizer.param_groups` is a list of dicts, `group["lr"]` is the rate of one. All
# of them get $\eta(t)$, whatever they had before. Nothing is returned, and the optimizer takes no step.
#
# Everything is allowed.


# %% solution="set_rate"
def set_rate(optimizer, step, width, steps):
    """Set the learning rate of a step, counted from 1, in all groups of the optimizer."""
    ### BEGIN SOLUTION
    for group in optimizer.param_groups:
        group["lr"] = width**-0.5 * min(step**-0.5, step * steps**-1.5)
    ### END SOLUTION


# %% tests="set_rate" points=2
check.set_rate(set_rate)
### BEGIN HIDDEN TESTS
check.set_rate(set_rate, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Label smoothing
#
# *Goal: ask a model not to be too sure. Easy, 20 minutes, 4 points.*
#
# `scores` is $(B, T, V)$, `targets` $(B, T)$ holds the numbers of the right tokens, `smoothing` is $\epsilon$, from 0 to 1. Instead
# of all probability on the right token $y$, the model is asked for the distribution
#
# $$q_v = (1 - \epsilon)\, \mathbb 1[v = y] + \frac{\epsilon}{V},$$
#
# so that the right token keeps $1 - \epsilon + \epsilon/V$. With $p = \operatorname{softmax}(\text{scores})$, the loss of a position is
# $-\sum_v q_v \log p_v$. Positions where `targets` equals the number `padding` do not count. Return the mean over all
# other positions of the batch, a tensor with one element. There is at least one.
#
# Scores may be in the hundreds. Not allowed: `F.cross_entropy` and `nn.CrossEntropyLoss` (the operation
# `cross_entropy`).


# %% solution="smoothed_cross_entropy"
def smoothed_cross_entropy(scores, targets, smoothing, padding):
    """scores (B, T, V), targets (B, T) give the mean loss over all targets that are no padding."""
    ### BEGIN SOLUTION
    real = targets != padding
    log_p = scores.log_softmax(dim=-1)[real]  # (number of real tokens, V)
    right = log_p[mt.arange(len(log_p)), targets[real]]
    return -((1 - smoothing) * right + smoothing * log_p.mean(dim=-1)).mean()
    ### END SOLUTION


# %% tests="smoothed_cross_entropy" points=4
check.smoothed_cross_entropy(smoothed_cross_entropy)
### BEGIN HIDDEN TESTS
check.smoothed_cross_entropy(smoothed_cross_entropy, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. How many weights
#
# *Goal: count a Transformer before you build it. Easy, 15 minutes, 3 points.*
#
# Encoder and decoder have `layers` layers each. An encoder layer has an attention and a feed-forward network, a
# decoder layer an attention, a cross-attention and a feed-forward network; before each of these parts stands a
# layer norm with gain and bias, and one more layer norm after the last layer of the encoder and of the decoder. Each
# attention has its four matrices, without biases. The network goes from `width` to `hidden` and back, with biases.
# Positions are sinusoids and have no weights. Source, target and output share a vocabulary of `vocabulary` tokens:
#
# - where `tied` is True they share one matrix $(V, d)$, too;
# - where it is False there are three matrices $(V, d)$, one for each. The output has no bias.
#
# Return the number of all weights, an integer. Everything is allowed; you need no tensors. For $V = 37000$, $d = 512$,
# 8 heads, `hidden` 2048, 6 layers and tied matrices the paper says $65 \cdot 10^6$: do you come close?


# %% solution="parameter_count"
def parameter_count(vocabulary, width, heads, hidden, layers, tied):
    """The number of weights of encoder, decoder and embeddings."""
    ### BEGIN SOLUTION
    attention = 4 * width**2
    network = width * hidden + hidden + hidden * width + width
    norm = 2 * width
    encoder = layers * (attention + network + 2 * norm) + norm
    decoder = layers * (2 * attention + network + 3 * norm) + norm
    return (1 if tied else 3) * vocabulary * width + encoder + decoder
    ### END SOLUTION


# %% tests="parameter_count" points=3
check.parameter_count(parameter_count)
### BEGIN HIDDEN TESTS
check.parameter_count(parameter_count, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. One matrix, used twice
#
# *Goal: tie the embedding to the output. Easy, 15 minutes, 3 points.*
#
# `self.weight` is $E$ $(V, d)$, one row a token. Write two methods that both use it:
#
# - `forward(tokens)` embeds tokens $(B, n)$: row $E_v$ for token $v$, times $\sqrt d$. That gives $(B, n, d)$;
# - `scores(x)` compares outputs $x$ $(B, T, d)$ with all rows, $x E^\top$, and gives $(B, T, V)$.
#
# (The rows start with a length of about 1. Times $\sqrt d$, their numbers are about as large as those of the sinusoids
# that are added next.) Keep `__init__` as it is. Everything is allowed.


# %% solution="TiedEmbedding"
class TiedEmbedding(nn.Module):
    """A matrix that embeds tokens and scores outputs."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.weight = nn.Parameter(mt.randn(vocabulary, width) * width**-0.5)

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        ### BEGIN SOLUTION
        return self.weight[tokens] * math.sqrt(self.weight.shape[1])
        ### END SOLUTION

    def scores(self, x):
        """x (B, T, width) gives the scores of all tokens, (B, T, V)."""
        ### BEGIN SOLUTION
        return x @ self.weight.T
        ### END SOLUTION


# %% tests="TiedEmbedding" points=3
check.TiedEmbedding(TiedEmbedding)
### BEGIN HIDDEN TESTS
check.TiedEmbedding(TiedEmbedding, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Cross-attention
#
# *Goal: let the decoder look at the source, and keep where it has looked. Medium, 20 minutes, 4 points.*
#
# Write `forward` of a multi-head attention between two sequences:
#
# - `x` $(B, T, d)$, from the decoder, gives the queries, through `self.query`;
# - `memory` $(B, n, d)$, from the encoder, gives keys and values, through `self.key` and `self.value`;
# - `allowed` is None or $(B, 1, 1, n)$, True at the tokens of the source and False at its padding, which gets no
#   weight at all. Every source has a token.
#
# Heads are blocks of $d/h$ columns, scores are divided by $\sqrt{d/h}$, and `self.out` is the output projection. Return
# $(B, T, d)$. Before you do, keep the weights of all heads, as they come out of the softmax, $(B, h, T, n)$: set
# `self.weights` to them, detached. At the end of this notebook they become a picture. Keep `__init__` as it is.
#
# Not allowed: `F.scaled_dot_product_attention`.


# %% solution="CrossAttention"
class CrossAttention(nn.Module):
    """Multi-head attention from x to the memory."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width), allowed: its tokens. Gives (B, T, width)."""
        ### BEGIN SOLUTION
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, T or n, size)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, T, n)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -mt.inf)
        weights = scores.softmax(dim=-1)
        self.weights = weights.detach()
        return self.out((weights @ value).transpose(1, 2).flatten(2))
        ### END SOLUTION


# %% tests="CrossAttention" points=4
check.CrossAttention(CrossAttention)
### BEGIN HIDDEN TESTS
check.CrossAttention(CrossAttention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The block of encoder and decoder
#
# *Goal: join parts that come ready made, with masks and dropout. Medium, 25 minutes, 5 points.*
#
# One class serves both: with a cross-attention it is a block of the decoder, without it (`self.cross` is None) one of
# the encoder. Write `forward` of this pre-norm block. In this order, each part gets the norm of $x$, and what it
# gives goes through `self.dropout` and is added to $x$:
#
# 1. `self.attention(queries from, keys and values from, allowed)`, after `self.attention_norm`: $x$ looks at itself;
# 2. only if there is one, `self.cross(queries from, memory, memory_allowed)`, after `self.cross_norm`. The memory has had
#    its norm at the end of the encoder, and is used as it comes;
# 3. `self.feed_forward(...)`, after `self.feed_forward_norm`.
#
# `x` is $(B, T, d)$, and so is the output; `memory` is $(B, n, d)$. Both masks go to the attention that they
# belong to as they are; either may be None. Keep `__init__` as it is. Everything is allowed.


# %% solution="Block"
class Block(nn.Module):
    """A pre-norm block of parts that are handed in."""

    def __init__(self, width, attention, feed_forward, cross=None, dropout=0.0, norm=nn.LayerNorm):
        super().__init__()
        self.attention, self.attention_norm = attention, norm(width)
        self.cross = cross
        if cross is not None:
            self.cross_norm = norm(width)
        self.feed_forward, self.feed_forward_norm = feed_forward, norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        """x (B, T, width), memory (B, n, width) and two masks give (B, T, width)."""
        ### BEGIN SOLUTION
        normal = self.attention_norm(x)
        x = x + self.dropout(self.attention(normal, normal, allowed))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, memory_allowed))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        ### END SOLUTION


# %% tests="Block" points=5
check.Block(Block)
### BEGIN HIDDEN TESTS
check.Block(Block, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The encoder
#
# *Goal: stack blocks, and keep the padding out of every one. Medium, 15 minutes, 4 points.*
#
# Write both methods.
#
# - `__init__`: `make_block()` returns a new block each time it is called. Make `layers` of them, keep them in an
#   `nn.ModuleList` called `self.blocks`, and `norm` as `self.norm`.
# - `forward(x, real)`: `x` $(B, n, d)$ goes through the blocks, one after the other, then through the norm. A block is called
#   as `block(x, allowed)`: its mask must broadcast against scores $(B, h, n, n)$. Whichever token asks, it is True for
#   the keys that are tokens and False for padding. `real` is $(B, n)$. Return $(B, n, d)$.
#
# Everything is allowed.


# %% solution="Encoder"
class Encoder(nn.Module):
    """A stack of blocks that look in both directions."""

    def __init__(self, make_block, layers, norm):
        super().__init__()
        ### BEGIN SOLUTION
        self.blocks = nn.ModuleList([make_block() for _ in range(layers)])
        self.norm = norm
        ### END SOLUTION

    def forward(self, x, real):
        """x (B, n, width), real (B, n): True at tokens. Gives (B, n, width)."""
        ### BEGIN SOLUTION
        allowed = real.unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)
        ### END SOLUTION


# %% tests="Encoder" points=4
check.Encoder(Encoder)
### BEGIN HIDDEN TESTS
check.Encoder(Encoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The decoder
#
# *Goal: predict every token of the target in one pass. Medium, 20 minutes, 4 points.*
#
# Write `forward`. `tokens` $(B, T)$ is the target so far, `memory` $(B, n, d)$ the encoder's output, and `real` $(B, n)$ is True at
# the source's tokens.
#
# - `self.embed(tokens)` gives $(B, T, d)$, with positions;
# - a block is called as `block(x, allowed, memory, memory_allowed)`: a token may look at itself and the tokens before
#   it, and all tokens of the source may be looked at, but not its padding;
# - after the last block come `self.norm` and `self.embed.scores`, which gives scores.
#
# Return the scores $(B, T, V)$; those at position $t$ are for the token after it. The target's own padding stands
# at its end and needs no mask. (Why?) Keep `__init__` as it is. Everything is allowed.


# %% solution="Decoder"
class Decoder(nn.Module):
    """A stack of causal blocks with cross-attention, between embedding and scores."""

    def __init__(self, embed, make_block, layers, norm):
        super().__init__()
        self.embed = embed
        self.blocks = nn.ModuleList([make_block() for _ in range(layers)])
        self.norm = norm

    def forward(self, tokens, memory, real):
        """tokens (B, T), memory (B, n, width), real (B, n) give scores (B, T, V)."""
        ### BEGIN SOLUTION
        length = tokens.shape[1]
        causal = mt.ones(length, length, dtype=mt.bool).tril()
        memory_allowed = real.unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, causal, memory, memory_allowed)
        return self.embed.scores(self.norm(x))
        ### END SOLUTION


# %% tests="Decoder" points=4
check.Decoder(Decoder)
### BEGIN HIDDEN TESTS
check.Decoder(Decoder, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. One more token
#
# *Goal: write on without computing anything twice. Hard, 30 minutes, 5 points.*
#
# `layer` is a multi-head self-attention that has been trained: it has `layer.query`, `layer.key`, `layer.value`,
# `layer.out` (each an `nn.Linear` without bias) and `layer.heads`, and does what exercise 5 says with `memory` $=$ `x`
# and a causal mask. Now it writes, one token after the other. You get the newest token alone, `x` $(B, 1, d)$, and `cache`,
# what you have kept of the tokens before it: None at the first one.
#
# Return a pair: the output of the newest token, $(B, 1, d)$, as the layer would give it for the whole sequence; and the
# new cache, which you get back with the next token. What it looks like is up to you. No mask is needed. (Why?)
#
# The check counts FLOPs: keys and values are computed once for each token, not anew at each step. Not allowed:
# `F.scaled_dot_product_attention`. Useful: `mt.cat`.


# %% solution="cached_step"
def cached_step(layer, x, cache):
    """The newest token x (B, 1, width) and a cache give its output (B, 1, width) and the cache."""
    ### BEGIN SOLUTION
    query, key, value = (
        projected.unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (B, heads, 1, size)
        for projected in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = mt.cat([cache[0], key], dim=2), mt.cat([cache[1], value], dim=2)
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (B, heads, 1, t + 1)
    output = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
    return layer.out(output), (key, value)
    ### END SOLUTION


# %% tests="cached_step" points=5
check.cached_step(cached_step)
### BEGIN HIDDEN TESTS
check.cached_step(cached_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Your Transformer
#
# *Goal: put together what you have written since chapter 05, train it, and let it translate. Hard, 40 minutes,
# 11 points: one for each of five parts, six for the model.*
#
# Below come five marked cells, one for each part from the exercises of the chapters 05 to 09. **Copy your own answer over the
# function in the cell.** What is forbidden in the exercise stays forbidden here. A cell that still holds
# `raise NotImplementedError` counts as empty: the library's part takes its place, which works as well and scores
# nothing. The same holds for a part that does not pass its check. Your answers to the exercises 1, 2 and 4 to 9 above
# are parts, too, and need no copying.
#
# ### Attention (set 05)


# %% solution="attention"
# MARKED: copy your attention of set 05 here.
def attention(query, key, value):
    """Query (..., T, d), key (..., n, d) and value (..., n, d_v) give the outputs (..., T, d_v)."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (..., T, n)
    return scores.softmax(dim=-1) @ value
    ### END SOLUTION


# %% tests="attention" points=1
chapter_05.attention(attention)
### BEGIN HIDDEN TESTS
chapter_05.attention(attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Masked attention (set 07)


# %% solution="masked_attention"
# MARKED: copy your masked_attention of set 07 here.
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
# MARKED: copy your sinusoidal_codes of set 08 here.
def sinusoidal_codes(n, d):
    """The codes of the places 0 to n - 1: (n, d)."""
    ### BEGIN SOLUTION
    omega = 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (d/2)
    angles = mt.arange(n).unsqueeze(1) * omega  # (n, d/2)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    ### END SOLUTION


# %% tests="sinusoidal_codes" points=1
chapter_08.sinusoidal_codes(sinusoidal_codes)
### BEGIN HIDDEN TESTS
chapter_08.sinusoidal_codes(sinusoidal_codes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Layer norm and feed-forward network (set 09)


# %% solution="layer_norm"
# MARKED: copy your layer_norm of set 09 here.
def layer_norm(x, gain, bias, eps=1e-5):
    """x (..., d), gain and bias (d) give (..., d)."""
    ### BEGIN SOLUTION
    centered = x - x.mean(dim=-1, keepdim=True)
    variance = (centered**2).mean(dim=-1, keepdim=True)  # (..., 1)
    return centered / mt.sqrt(variance + eps) * gain + bias
    ### END SOLUTION


# %% tests="layer_norm" points=1
chapter_09.layer_norm(layer_norm)
### BEGIN HIDDEN TESTS
chapter_09.layer_norm(layer_norm, hidden=True)
### END HIDDEN TESTS


# %% solution="FeedForward"
# MARKED: copy your FeedForward of set 09 here.
class FeedForward(nn.Module):
    """A network with one hidden layer, the same for every position."""

    def __init__(self, width, hidden):
        super().__init__()
        ### BEGIN SOLUTION
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        ### END SOLUTION

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        ### BEGIN SOLUTION
        return self.down(F.relu(self.up(x)))
        ### END SOLUTION


# %% tests="FeedForward" points=1
chapter_09.FeedForward(FeedForward)
### BEGIN HIDDEN TESTS
chapter_09.FeedForward(FeedForward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The whole
#
# The last part you write now: what joins encoder and decoder. `self.embed(tokens)` embeds tokens with their positions,
# `self.encoder(x, real)` and `self.decoder(tokens, memory, real)` are called as in the exercises 7 and 8, and
# `self.padding` is the number of the padding token.
#
# - `encode(source)` takes tokens $(B, n)$ and returns a pair: the memory $(B, n, d)$, and `real` $(B, n)$, True where a
#   token of the source is no padding;
# - `forward(source, target)` takes source $(B, n)$ and target $(B, T)$ and returns the decoder's scores $(B, T, V)$.
#
# Its check runs at the end, when the model has been trained: there are the four points.


# %% solution="Transformer"
class Transformer(nn.Module):
    """Encoder and decoder, joined."""

    def __init__(self, embed, encoder, decoder, padding):
        super().__init__()
        self.embed, self.encoder, self.decoder = embed, encoder, decoder
        self.padding = padding

    def encode(self, source):
        """source (B, n) gives the memory (B, n, width), and real (B, n)."""
        ### BEGIN SOLUTION
        real = source != self.padding
        return self.encoder(self.embed(source), real), real
        ### END SOLUTION

    def forward(self, source, target):
        """source (B, n), target (B, T) give scores (B, T, V)."""
        ### BEGIN SOLUTION
        memory, real = self.encode(source)
        return self.decoder(target, memory, real)
        ### END SOLUTION


# %% [markdown]
# Now the parts are chosen: yours where they pass their checks, else the library's. The list says whose each one is.

# %%
parts = check.Parts(globals())
print(parts)

# %% [markdown]
# What is left is glue, and ready. Self-attention splits into heads as chapter 06 does, attends, with a mask (07) or, where nothing
# is hidden, without (05), and merges. While it writes, it gets one token at a time and goes on with the cache of
# exercise 9. The norm keeps gain and bias for your function, and the embedding adds the positions.


# %%
class SelfAttention(nn.Module):
    """Multi-head self-attention of the parts; with a cache while `writing`."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.writing, self.cache = heads, False, None
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        if self.writing:
            output, self.cache = parts.cached_step(self, x, self.cache)
            return output
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
    """Tied embedding with positions; `place` is that of the first token."""

    def __init__(self, vocabulary, width, dropout, longest=20):
        super().__init__()
        self.tied, self.dropout = parts.TiedEmbedding(vocabulary, width), nn.Dropout(dropout)
        self.codes, self.place = parts.sinusoidal_codes(longest, width).float(), 0

    def forward(self, tokens):
        codes = self.codes[self.place : self.place + tokens.shape[1]]
        return self.dropout(self.tied(tokens) + codes)

    def scores(self, x):
        return self.tied.scores(x)


# %% [markdown]
# The numbers from 0 to 999 in English and in German, in pieces. A tenth of all numbers is held out, and no
# model trains on it.

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
# The training, as plain as ever. The decoder reads the target without its last token and predicts it without its first,
# the start. (Parts that loop over tokens in Python pass their checks, too, but are slow here: the training stops after
# 30 seconds at the latest.)

# %% tags=["nbval-ignore-output"]
optimizer = optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
steps, batch, began = 200, 32, process_time()
model.train()
for step in range(1, steps + 1):
    chosen = [pairs[i] for i in mt.randint(0, len(pairs), (batch,)).tolist()]
    source, _ = vocabulary.encode_batch([pair.source for pair in chosen], batch_first=True)
    target, _ = vocabulary.encode_batch(
        [pair.target for pair in chosen], start=True, end=True, batch_first=True
    )
    parts.set_rate(optimizer, step, width, 80)
    optimizer.zero_grad()
    scores = model(source, target[:, :-1])  # (B, T, V)
    loss = parts.smoothed_cross_entropy(scores, target[:, 1:], 0.1, padding)
    loss.backward()
    optimizer.step()
    if step == 1 or step % 50 == 0:
        print(f"step {step}: loss {loss.item():.2f}")
    if process_time() - began > 30:
        print(f"stopped after {step} of {steps} steps")
        break

# %% [markdown]
# Now it writes, greedily, one token at a time, with the cache. No number below was seen in training.


# %%
@mt.no_grad()
def translate(number):
    """The German pieces of a number."""
    model.eval()
    memory, real = model.encode(vocabulary.encode(number_pieces(number)).unsqueeze(0))
    attentions = [block.attention for block in decoder.blocks]
    for attention_of_block in attentions:
        attention_of_block.writing, attention_of_block.cache = True, None
    written = [start]
    while written[-1] != end and len(written) < 12:
        embed.place = len(written) - 1
        scores = model.decoder(mt.tensor([written[-1:]]), memory, real)  # (1, 1, V)
        written.append(scores.argmax(dim=-1).item())
    embed.place = 0
    for attention_of_block in attentions:
        attention_of_block.writing = False
    return vocabulary.decode(token for token in written if token not in (start, end))


# %% tags=["nbval-ignore-output"]
for number in held_out[::5]:
    print(number, *number_pieces(number), "->", "".join(translate(number)))

# %% [markdown]
# Where does it look while it writes? The weights of the last cross-attention, all heads together.

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
# The last check: your `Transformer` is right, it has learned to translate numbers that it has never seen, and all parts
# of your own have run in it.

# %% tests="Transformer" points=6
check.Transformer(Transformer)
check.assembled(parts, model, translate, held_out)
### BEGIN HIDDEN TESTS
check.Transformer(Transformer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# From a plain loop over tokens to this model you have written every part. What follows in chapter 11 is size.
