# %% [markdown]
# # Exercises 07: masking
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 07](../../notebooks/07_masking.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. Tensors must stay tensors that the
# library's operations have made, without `.item()`, `float()`, `detach()` or NumPy on the way: some checks
# compare gradients, too.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes and conventions.** $B$ sequences of $n$ tokens, each a vector of size $d$; $h$ heads. In scores and
# masks, row $i$ is query $i$ and column $j$ is key $j$. Masks are boolean, and **True means: may look**, as in
# `F.scaled_dot_product_attention`. (`nn.MultiheadAttention` means the opposite, and so does the library's
# `data.padding_mask`; exercise 5 is about that.) Positions count from 0.

# %%
import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks import chapter_07 as check
from textbook.checks import progress

progress.show("07")

# %% [markdown]
# ## 1. The causal mask
#
# *Goal: say which token may look where. Easy, 5 minutes, 2 points.*
#
# A token may look at itself and at the tokens before it:
#
# | may look at | be | water | my | friend |
# | --- | --- | --- | --- | --- |
# | **be** | True | False | False | False |
# | **water** | True | True | False | False |
# | **my** | True | True | True | False |
# | **friend** | True | True | True | True |
#
# Return this mask for $n$ tokens, a boolean tensor $(n, n)$.
#
# Everything is allowed.


# %% solution="causal_mask"
def causal_mask(n):
    """(n, n) boolean: True where query i may look at key j."""
    ### BEGIN SOLUTION
    positions = mt.arange(n)
    return positions <= positions.unsqueeze(1)
    ### END SOLUTION


# %% tests="causal_mask" points=2
check.causal_mask(causal_mask)
### BEGIN HIDDEN TESTS
check.causal_mask(causal_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Which tokens are real
#
# *Goal: tell tokens from padding: the padding mask. Easy, 5 minutes, 2 points.*
#
# Sequences of different lengths stand in a batch of $n$ positions, each filled up at its end. `lengths` $(B)$
# says how many tokens each one has, from 0 to $n$. Return a boolean tensor $(B, n)$ that is True at the tokens
# and False at the padding. For lengths 2 and 3 and $n = 4$ its rows are True True False False and True True
# True False.
#
# Everything is allowed.


# %% solution="real_tokens"
def real_tokens(lengths, n):
    """Lengths (B) give (B, n) boolean: True at real tokens."""
    ### BEGIN SOLUTION
    return mt.arange(n) < lengths.unsqueeze(1)
    ### END SOLUTION


# %% tests="real_tokens" points=2
check.real_tokens(real_tokens)
### BEGIN HIDDEN TESTS
check.real_tokens(real_tokens, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Both at once, for all heads
#
# *Goal: join two masks, and give the result the axes that scores have. Easy, 10 minutes, 3 points.*
#
# `real` $(B, n)$ is boolean, True at the tokens and False at the padding. The padding may stand anywhere; when
# text is generated it often stands at the front. Return one mask for the scores $(B, h, n, n)$ of a causal
# model: a query may look at a key that does not come after it and is no padding. All heads share the mask, so
# its shape is $(B, 1, n, n)$.
#
# Only keys are masked. The rows that belong to padding stay what the rule makes of them, even if nothing is
# left to look at.
#
# (Where all padding stands at the end, no row of a real token has a padded key before it, and the causal mask
# alone would do. Why?)
#
# Everything is allowed.


# %% solution="joined_mask"
def joined_mask(real):
    """Real (B, n) gives (B, 1, n, n) boolean: True where query i may look at key j."""
    ### BEGIN SOLUTION
    positions = mt.arange(real.shape[1])
    causal = positions <= positions.unsqueeze(1)  # (n, n)
    return causal & real.unsqueeze(1).unsqueeze(1)
    ### END SOLUTION


# %% tests="joined_mask" points=3
check.joined_mask(joined_mask)
### BEGIN HIDDEN TESTS
check.joined_mask(joined_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A window
#
# *Goal: change the rule of who sees whom. Easy, 10 minutes, 3 points.*
#
# With long texts one often lets each token look at the last `width` tokens only, itself included: attention
# within a sliding window (Beltagy et al., 2020), whose cost grows with $n \cdot$ `width` instead of $n^2$. For
# `width` $= 2$, "my" sees "water" and "my". The first tokens have fewer to look at. Return the boolean mask
# $(n, n)$. `width` is at least 1 and may be larger than $n$.
#
# Everything is allowed.


# %% solution="window_mask"
def window_mask(n, width):
    """(n, n) boolean: True where query i may look at key j, one of the last `width` tokens."""
    ### BEGIN SOLUTION
    positions = mt.arange(n)
    back = positions.unsqueeze(1) - positions  # (n, n)
    return (back >= 0) & (back < width)
    ### END SOLUTION


# %% tests="window_mask" points=3
check.window_mask(window_mask)
### BEGIN HIDDEN TESTS
check.window_mask(window_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The opposite convention
#
# *Goal: hand a mask to `nn.MultiheadAttention`. Medium, 15 minutes, 3 points.*
#
# `allowed` $(B, T, n)$ is a mask of this book, one for each sequence: True where query $i$ may look at key $j$.
# Return what `nn.MultiheadAttention(width, heads, batch_first=True)` wants as `attn_mask`, so that it looks at
# these places and at no others. Its convention is another one in two ways:
#
# - a boolean mask is True where a query may **not** look (a mask of numbers is added to the scores);
# - there is no axis for the heads. A mask that differs from sequence to sequence has the shape
#   $(B \cdot h, T, n)$: first the $h$ heads of sequence 0, then the $h$ heads of sequence 1, and so on.
#
# The check makes such a module, gives it your mask, and looks at the weights that come out.
#
# Everything is allowed.


# %% solution="module_mask"
def module_mask(allowed, heads):
    """Allowed (B, T, n) gives the module's attn_mask, (B * heads, T, n)."""
    ### BEGIN SOLUTION
    return (~allowed).repeat_interleave(heads, dim=0)
    ### END SOLUTION


# %% tests="module_mask" points=3
check.module_mask(module_mask)
### BEGIN HIDDEN TESTS
check.module_mask(module_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Masked attention
#
# *Goal: mask before the softmax, and survive a row with nothing to look at. Medium, 25 minutes, 6 points.*
#
# `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$, with any number of axes in front.
# `allowed` is boolean and fits the scores $(\dots, T, n)$ by broadcasting, as $(T, n)$ or $(B, 1, T, n)$ do. With
# $a_{ij}$ for the entries of `allowed`,
#
# $$e_{ij} = \begin{cases} q_i^\top k_j / \sqrt d & \text{where } a_{ij} \\ -\infty & \text{elsewhere,} \end{cases}
# \qquad \text{output}_i = \sum_{j=1}^{n} \operatorname{softmax}(e_i)_j\, v_j .$$
#
# Return the outputs $(\dots, T, d_v)$. Three things are checked with care:
#
# - scores may be large, hundred thousands even, and what stands at a hidden place changes nothing;
# - a key that no query may look at gets the gradient 0, exactly;
# - **a row with nothing to look at gives an output of zeros**, and no gradient is NaN.
#
# Not allowed: `F.scaled_dot_product_attention`, and `nn.MultiheadAttention` (the operation `linear`).


# %% solution="masked_attention"
def masked_attention(query, key, value, allowed):
    """Outputs (..., T, d_v): each query's average of the values that it may look at."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (..., T, n)
    weights = scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value  # NaN stands only where nothing is allowed
    ### END SOLUTION


# %% tests="masked_attention" points=6
check.masked_attention(masked_attention)
### BEGIN HIDDEN TESTS
check.masked_attention(masked_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Does it leak?
#
# *Goal: find out by gradients which output depends on which input. Medium, 25 minutes, 5 points.*
#
# `model` is a function that makes of $n$ tokens, `x` $(n, d)$, as many outputs, $(n, k)$. You do not know what is
# inside. Return a boolean tensor $(n, n)$: entry $(i, j)$ is True if output $i$ depends on token $j$, which is
# to say that at least one of the numbers $\partial\, \text{output}_{ic} / \partial x_{jm}$ is not zero, $c$ and $m$
# being any places in the two vectors. Then `dependence(model, x).triu(1).any()` says whether the future leaks.
#
# The models of the check are smooth. Some have leaks that are hard to see, so think of numbers that cancel one
# another in a sum, and of small ones.
#
# Everything is allowed. Useful: `x.clone().requires_grad_()`, and `mt.autograd.grad(number, x,
# retain_graph=True)`, which returns a tuple with one gradient; or `backward(retain_graph=True)`.


# %% solution="dependence"
def dependence(model, x):
    """(n, n) boolean: True where output i of the model depends on token j of x (n, d)."""
    ### BEGIN SOLUTION
    x = x.clone().requires_grad_()
    rows = []
    for output in model(x):
        gradients = [mt.autograd.grad(number, x, retain_graph=True)[0] for number in output]
        rows.append((mt.stack(gradients) != 0).any(dim=-1).any(dim=0))  # (n)
    return mt.stack(rows)
    ### END SOLUTION


# %% tests="dependence" points=5
check.dependence(dependence)
### BEGIN HIDDEN TESTS
check.dependence(dependence, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Without a mask: growing keys
#
# *Goal: write the loop that one masked pass replaces. Medium, 20 minutes, 5 points.*
#
# `X` $(B, n, d)$ are the tokens, `Q`, `K` and `V` $(d, d)$ the matrices: queries are $XQ$, keys $XK$, values $XV$.
# Return what causal self-attention gives, $(B, n, d)$, but token by token: at step $t$ there are the keys and
# values of the tokens 0 to $t$, and the query of token $t$ looks at all of them. Scores are divided by
# $\sqrt d$. As no later key is there yet, nothing has to be masked.
#
# The check counts FLOPs. Each query, key and value may be computed once, and each score that the step needs
# once: with masks, or with keys computed anew at each step, it costs more.
#
# Not allowed: `F.scaled_dot_product_attention`.


# %% solution="one_at_a_time"
def one_at_a_time(X, Q, K, V):
    """Causal self-attention of X (B, n, d), one token after the other: (B, n, d)."""
    ### BEGIN SOLUTION
    queries, keys, values = X @ Q, X @ K, X @ V
    outputs = []
    for t in range(X.shape[1]):
        query = queries[:, t : t + 1]  # (B, 1, d)
        scores = query @ keys[:, : t + 1].transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, 1, t + 1)
        outputs.append(scores.softmax(dim=-1) @ values[:, : t + 1])
    return mt.cat(outputs, dim=1)
    ### END SOLUTION


# %% tests="one_at_a_time" points=5
check.one_at_a_time(one_at_a_time)
### BEGIN HIDDEN TESTS
check.one_at_a_time(one_at_a_time, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A masked language model
#
# *Goal: write a language model of masked self-attention, with its loss. Hard, 30 minutes, 6 points.*
#
# The vocabulary has the tokens 0 to $V - 1$; a start token with the number $V$ is in `self.start`. Write two
# methods and keep `__init__` as it is.
#
# `forward(tokens)` takes tokens $(B, n)$, embeds them with `self.embedding` to $X$ $(B, n, d)$, makes queries,
# keys and values with `self.query`, `self.key` and `self.value`, attends with a causal mask (one head,
# scores divided by $\sqrt d$), and returns `self.output` of the result: scores $(B, n, V)$. Nothing more: no
# softmax at the end, and positions and residual connections come in chapters 08 and 09.
#
# `loss(tokens, lengths)` takes a batch of texts, of which `lengths` $(B)$ are no padding (the padding stands at
# the end and holds any tokens). To predict every token from those before it, the model reads the start token
# and then all tokens but the last. Return the mean cross-entropy over all real tokens of the batch, one number:
#
# $$L = -\frac{1}{\sum_b \text{length}_b} \sum_{b} \sum_{t < \text{length}_b} \log p(\text{token}_{b,t} \mid \text{start}, \text{token}_{b,0}, \dots, \text{token}_{b,t-1})$$
#
# Not allowed: `F.scaled_dot_product_attention`. Useful: `F.cross_entropy`, which wants the classes in axis 1 and
# has `reduction="none"` and `ignore_index`.


# %% solution="MaskedLanguageModel"
class MaskedLanguageModel(nn.Module):
    """A language model: one layer of masked self-attention between embedding and output."""

    def __init__(self, vocabulary_size, width):
        super().__init__()
        self.start = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size + 1, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, vocabulary_size)

    def forward(self, tokens):
        """Tokens (B, n) give scores (B, n, V); those at position i are for the token after it."""
        ### BEGIN SOLUTION
        X = self.embedding(tokens)  # (B, n, d)
        scores = self.query(X) @ self.key(X).transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, n, n)
        future = mt.ones(scores.shape[1:], dtype=mt.bool).triu(1)
        weights = scores.masked_fill(future, -mt.inf).softmax(dim=-1)
        return self.output(weights @ self.value(X))
        ### END SOLUTION

    def loss(self, tokens, lengths):
        """Tokens (B, n), of which lengths (B) are real, give the mean cross-entropy."""
        ### BEGIN SOLUTION
        start = mt.full_like(tokens[:, :1], self.start)
        scores = self(mt.cat([start, tokens[:, :-1]], dim=1))  # (B, n, V)
        real = mt.arange(tokens.shape[1]) < lengths.unsqueeze(1)  # (B, n)
        return F.cross_entropy(scores[real], tokens[real])
        ### END SOLUTION


# %% tests="MaskedLanguageModel" points=6
check.MaskedLanguageModel(MaskedLanguageModel)
### BEGIN HIDDEN TESTS
check.MaskedLanguageModel(MaskedLanguageModel, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Writing on
#
# *Goal: generate one token at a time for prompts of different lengths. Hard, 30 minutes, 5 points.*
#
# `model` is a causal language model: a function from tokens $(B, n)$, of any $n$, to scores $(B, n, V)$, where
# those at position $i$ are for the token after it. `tokens` $(B, n)$ are prompts, of which `lengths` $(B)$, each
# at least 1, are no padding; the padding stands at the end. `pick(scores)` chooses: it takes scores $(B, V)$
# and returns tokens $(B)$, the likeliest, say, or drawn at random.
#
# Continue every prompt by `count` tokens and return these, $(B,$ `count`$)$. The result must be what each prompt
# would give alone, without padding: its first new token follows its own last token, and each new token is
# read before the next one is picked.
#
# You need no padding mask. The model is causal: what comes after a token does not change its scores. But you
# must know where to read the scores and where to write the new token. The first one of sequence $b$ belongs
# at position `lengths[b]`.
#
# Everything is allowed; loops will do.


# %% solution="continue_prompts"
def continue_prompts(model, tokens, lengths, count, pick):
    """Prompts (B, n) with lengths (B) give count new tokens for each: (B, count)."""
    ### BEGIN SOLUTION
    rows = mt.arange(len(tokens))
    room = mt.zeros(len(tokens), count, dtype=tokens.dtype)
    grown = mt.cat([tokens, room], dim=1)  # (B, n + count)
    for t in range(count):
        scores = model(grown)[rows, lengths + t - 1]  # (B, V)
        grown[rows, lengths + t] = pick(scores)
    return mt.stack([row[n : n + count] for row, n in zip(grown, lengths.tolist(), strict=True)])
    ### END SOLUTION


# %% tests="continue_prompts" points=5
check.continue_prompts(continue_prompts)
### BEGIN HIDDEN TESTS
check.continue_prompts(continue_prompts, hidden=True)
### END HIDDEN TESTS
