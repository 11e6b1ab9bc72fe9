# %% [markdown]
# # Exercises 07: masking
#
# Ten exercises, from easy to hard, 40 points, about five and three quarter hours. They belong to
# [chapter 07](../../notebooks/07_masking.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. In exercises 7 and 8 the gradients of your results
# count, too: stay with tensors there, and away from `.item()`, `detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes and conventions.** $B$ sequences of $n$ tokens, each a vector of size $d$; $h$ heads. In scores and
# masks, row $i$ is query $i$ and column $j$ is key $j$. Masks are boolean, and **True means: may look**, as in
# `F.scaled_dot_product_attention`. (`nn.MultiheadAttention` means the opposite, and so does the library's
# `data.padding_mask`; exercise 2 is about that.) Positions count from 0.

# %%
import math
from functools import partial

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook import plot
from textbook.chapter_07 import AttentionModel, train_on
from textbook.checks import chapter_07 as check
from textbook.checks import progress

progress.show("07")

# %% [markdown]
# ## 1. The last tokens of a batch
#
# *Goal: join two masks, and give the result the axes that scores have. Easy, 20 minutes, 3 points.*
#
# A model writes. The prompts of a batch have different lengths and all end in the last of $n$ positions, so the
# padding stands **in front**: `lengths` $(B)$ says how many of the last positions hold tokens, from 1 to $n$. Keys
# and values of earlier tokens are kept, and only the last $T$ positions ask ($T \le n$). Return the mask for their
# scores $(B, h, T, n)$: a query may look at a key that does not come after it and is no padding. All heads share the
# mask, so its shape is $(B, 1, T, n)$, boolean.
#
# Only keys are masked. The rows that belong to padding stay what the rule makes of them, even if nothing is left to
# look at. For lengths 1 and 3, $T = 2$ and $n = 3$, write down all twelve entries first.
#
# If the padding stood at the end and all positions asked, the causal mask alone would do for the real tokens. Why?
#
# Everything is allowed.


# %% solution="chunk_mask"
def chunk_mask(lengths, T, n):
    """Lengths (B), T and n give (B, 1, T, n) boolean: True where a query may look at a key."""
    ### BEGIN SOLUTION
    positions = mt.arange(n)
    asking = positions[n - T :].unsqueeze(1)  # (T, 1)
    real = positions >= n - lengths.unsqueeze(1)  # (B, n)
    return (positions <= asking) & real[:, None, None]
    ### END SOLUTION


# %% tests="chunk_mask" points=3
check.chunk_mask(chunk_mask)
### BEGIN HIDDEN TESTS
# Lengths 1 and 3, T = 2, n = 3: FFF, FFT for the first sequence, TTF, TTT for the second. With padding
# at the end every padded key comes after every real query: it is the future, and masked already.
check.chunk_mask(chunk_mask, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Out of the opposite convention
#
# *Goal: make one mask of this book out of PyTorch's two. Medium, 25 minutes, 4 points.*
#
# A colleague's code calls `nn.MultiheadAttention` with two masks, and you want to use them with the book's
# `attention`. Both may be None, which hides nothing. Of the module,
#
# - `attn_mask` is $(T, n)$, for all heads of all sequences, or $(B \cdot h, T, n)$: first the $h$ heads of sequence
#   0, then the $h$ heads of sequence 1, and so on. If it is boolean, True means: may **not** look. If it holds
#   numbers, they are added to the scores, and here they are 0 or minus infinity;
# - `key_padding_mask` $(B, n)$ is boolean, and True means: this key is padding, nobody may look at it.
#
# Return the mask of the book, boolean, True where a query **may** look, of the whole shape `shape`, which is the
# tuple $(B, h, T, n)$.
#
# Everything is allowed.


# %% solution="allowed_of"
def allowed_of(attn_mask, key_padding_mask, shape):
    """The two masks of nn.MultiheadAttention, or None, give the book's, of shape (B, h, T, n)."""
    ### BEGIN SOLUTION
    allowed = mt.ones(shape, dtype=mt.bool)
    if attn_mask is not None:
        hidden = attn_mask if attn_mask.dtype == mt.bool else attn_mask == -mt.inf
        if hidden.ndim == 3:
            hidden = hidden.unflatten(0, shape[:2])  # (B, h, T, n)
        allowed = allowed & ~hidden
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask[:, None, None]
    return allowed
    ### END SOLUTION


# %% tests="allowed_of" points=4
check.allowed_of(allowed_of)
### BEGIN HIDDEN TESTS
check.allowed_of(allowed_of, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Which of these encoders read the padding?
#
# *Goal: write the test that finds a wrong padding mask. Medium, 35 minutes, 4 points.*
#
# Eight encoders are functions of `x` $(B, n, 6)$ and `lengths` $(B)$: of sentence $b$ the first `lengths[b]`
# positions are real, at least one, and the others padding. They compute in float64 and return $(B, n, 6)$, for any
# $B$ and $n$. You do not know what is inside. An encoder is right if **every real position of a sentence in a batch
# gets what it gets alone**, without any padding, up to rounding ($10^{-9}$). What an encoder returns at the padding
# is no matter, be it NaN, and whatever else it does, either; `x` holds ordinary numbers, no NaN. It **reads the padding** if for some batch this fails.
#
# `encoders` is a list of such functions. Return the numbers of those that read the padding, counted from 0, as a
# list. All that do show it with at most four sentences and eight positions, and clearly enough for `mt.allclose` as it
# is; some show it with some numbers of sentences alone.
#
# Here are eight to try your test on; five of them read the padding.

# %%
eight = check.suspects()

# %% [markdown]
# Everything is allowed. Useful: `mt.randn(B, n, 6, dtype=mt.float64)`, `mt.allclose`.


# %% solution="reading_padding"
def reading_padding(encoders):
    """The numbers of the encoders that do not give each sentence what it gets alone."""
    ### BEGIN SOLUTION

    def as_alone(encoder, lengths, n):
        x = mt.randn(len(lengths), n, 6, dtype=mt.float64)
        together = encoder(x, mt.tensor(lengths))
        return all(
            mt.allclose(
                together[b, :length],
                encoder(x[b : b + 1, :length], mt.tensor([length]))[0],
                atol=1e-9,
            )
            for b, length in enumerate(lengths)
        )

    batches = [([3, 5], 6), ([2, 4, 3], 4), ([4, 1, 5, 2], 7), ([1], 3), ([5], 7)]
    return [
        i
        for i, encoder in enumerate(encoders)
        if not all(as_alone(encoder, *batch) for batch in batches)
    ]
    ### END SOLUTION


# %% tests="reading_padding" points=4
check.reading_padding(reading_padding)
print("these read the padding:", reading_padding(eight))
### BEGIN HIDDEN TESTS
check.reading_padding(reading_padding, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Does it leak?
#
# *Goal: find out by gradients which output depends on which input. Medium, 30 minutes, 4 points.*
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


# %% tests="dependence" points=4
check.dependence(dependence)
### BEGIN HIDDEN TESTS
check.dependence(dependence, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Predict, then run
#
# *Goal: know what a stack of masks lets through before it runs. Medium, 25 minutes, 3 points.*
#
# A stack of layers of self-attention: the first makes of tokens `x` $(n, d)$ as many outputs, the next one takes
# these, and so on. Layer $l$ has the mask `masks[l]`, boolean $(n, n)$, which may differ from layer to layer, and
# **adds** what its attention gives to its input. (A row with nothing to look at adds nothing.) `masks` is the list,
# the first layer first. Return the boolean tensor $(n, n)$ whose entry $(i, j)$ is True if output $i$ of the last
# layer depends on token $j$, over whatever way. That follows from the masks alone, without any model.
#
# Write down first: each of $L$ layers has a window, so that a token sees itself and the $w - 1$ tokens before it.
# How many tokens does an output depend on? The cell of the check lets such a stack run and asks its gradients.
#
# Everything is allowed.


# %% solution="reach"
def reach(masks):
    """(n, n) boolean: True where output i of a stack with these masks depends on token j."""
    ### BEGIN SOLUTION
    itself = mt.eye(len(masks[0])).bool()
    reached = itself
    for allowed in masks:
        ways = (allowed | itself).float() @ reached.float()  # how many tokens lie between
        reached = ways > 0
    return reached
    ### END SOLUTION


# %% tests="reach" points=3
check.reach(reach)
n, w = 8, 3
back = mt.arange(n).unsqueeze(1) - mt.arange(n)
window = (back >= 0) & (back < w)
x = mt.randn(n, 2, dtype=mt.float64, requires_grad=True)
for layers in (1, 2, 3):
    outputs = x
    for _ in range(layers):
        outputs = outputs + F.scaled_dot_product_attention(outputs, outputs, outputs, window)
    [gradient] = mt.autograd.grad(outputs[-1].sum(), x)
    measured, predicted = (
        (gradient != 0).any(dim=1).sum().item(),
        reach([window] * layers)[-1].sum(),
    )
    print(
        f"{layers} layers: output {n - 1} depends on {measured} tokens, predicted {predicted.item()}"
    )
### BEGIN HIDDEN TESTS
# On L (w - 1) + 1 tokens, as far as there are so many: each layer reaches w - 1 further back.
check.reach(reach, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Who has seen the future?
#
# *Goal: read a table of losses, and say which of them may be compared. Medium, 30 minutes, 4 points.*
#
# Seven language models have been measured twice, as in [section 1 of the chapter](../../notebooks/07_masking.ipynb#1.-A-model-that-cheats): in one pass, and from the prefix,
# at each of eight positions. The numbers are made up. Look at the figure and the table before you compute. Which
# models leak? Which curve leaks at a single position? One model was measured wrongly, for its two losses belong to
# different weights: how can one tell? And why is the lowest curve of all not the best model?

# %%
figure, panels = plot.subplots(1, 2, width=9.5, height=3, sharey=True)
for axes, way in zip(panels, ("in one pass", "from the prefix"), strict=True):
    for run in check.runs:
        axes.plot(range(1, 9), run[way], marker="o", markersize=3, label=run["model"])
    axes.set(xlabel="position", title=way, ylim=(0, 4))
panels[0].set(ylabel="loss")
panels[1].legend(fontsize=7)
plot.show(figure, alt="Loss by position for seven models, in one pass and from the prefix")
for run in check.runs:
    for way in ("in one pass", "from the prefix"):
        losses = " ".join(f"{loss:.2f}" for loss in run[way])
        print(f"{run['model']:28} {run['text']:9} {way:16} {losses}")

# %% [markdown]
# Now write the reader down. `runs` is a list of dicts like those of `check.runs`. Two losses are the same if they
# differ by at most 0.01. Return a dict:
#
# - `"verdicts"`: a dict from each model to `"measured wrongly"` if its two losses at the **last** position are not
#   the same, whatever else there is; else to `"leaks"` if they are not the same at some other position; else to `"no
#   leak seen"`;
# - `"best"`: of the models with no leak seen whose `"text"` is `"held out"`, the one with the lowest mean loss from
#   the prefix; None if there is none.
#
# Everything is allowed.


# %% solution="judged"
def judged(runs):
    """The verdict on each model, and the best of those that may be compared: a dict."""
    ### BEGIN SOLUTION
    verdicts, means = {}, {}
    for run in runs:
        pairs = list(zip(run["in one pass"], run["from the prefix"], strict=True))
        apart = [abs(one_pass - prefix) > 0.01 for one_pass, prefix in pairs]
        if apart[-1]:
            verdict = "measured wrongly"
        elif any(apart):
            verdict = "leaks"
        else:
            verdict = "no leak seen"
            if run["text"] == "held out":
                means[run["model"]] = sum(run["from the prefix"]) / len(pairs)
        verdicts[run["model"]] = verdict
    return {"verdicts": verdicts, "best": min(means, key=means.get, default=None)}
    ### END SOLUTION


# %% tests="judged" points=4
check.judged(judged)
print(judged(check.runs))
### BEGIN HIDDEN TESTS
# "no mask" leaks everywhere, "pooled by the last" at position 5 alone. At the last position nothing can
# leak, so "masked, other weights" was measured wrongly. The lowest curve is that of a model on its own
# training text, where it may have learned by heart: "masked, wider" is the best that can be compared.
check.judged(judged, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A causal language model
#
# *Goal: write a causal language model, with its loss. Hard, 45 minutes, 5 points.*
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
# Not allowed: `F.scaled_dot_product_attention`, which knows the causal mask by name. Useful: `F.cross_entropy`,
# which wants the classes in axis 1 and has `reduction="none"` and `ignore_index`.


# %% solution="CausalLanguageModel"
class CausalLanguageModel(nn.Module):
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


# %% tests="CausalLanguageModel" points=5
check.CausalLanguageModel(CausalLanguageModel)
### BEGIN HIDDEN TESTS
check.CausalLanguageModel(CausalLanguageModel, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Masked attention
#
# *Goal: mask before the softmax, and survive what stands at hidden places. Hard, 45 minutes, 5 points.*
#
# `query` is $(\dots, T, d)$, `key` $(\dots, n, d)$, `value` $(\dots, n, d_v)$, with any number of axes in front.
# `allowed` is boolean and fits the scores $(\dots, T, n)$ by broadcasting, as $(T, n)$, $(B, 1, 1, n)$ or
# $(B, 1, T, n)$ do; or it is None: then every query may look everywhere. With $a_{ij}$ for the entries of `allowed`,
#
# $$e_{ij} = \begin{cases} q_i k_j^\top / \sqrt d & \text{where } a_{ij} \\ -\infty & \text{elsewhere,} \end{cases}
# \qquad \text{output}_i = \sum_{j} \operatorname{softmax}(e_i)_j\, v_j .$$
#
# Return the outputs $(\dots, T, d_v)$. Four things are checked with care:
#
# - scores may be large, hundred thousands even, and what stands at a hidden place changes nothing;
# - **a key that no query may look at, and its value, may hold anything: NaN and infinity, too**, as memory does that
#   nobody has filled. The output must not notice. (Sequences and heads are apart: who may look is asked of the
#   queries of the same sequence and head. All queries, and what some query may look at, are finite.)
# - such keys and values get the gradient 0, exactly, and no gradient is NaN;
# - **a row with nothing to look at**, which may occur in some sequences, gives an output of zeros.
#
# Not allowed: `F.scaled_dot_product_attention`, which does a part of this unseen, and `nn.MultiheadAttention` (the
# operation `linear`).


# %% solution="masked_attention"
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


# %% tests="masked_attention" points=5
check.masked_attention(masked_attention)
### BEGIN HIDDEN TESTS
check.masked_attention(masked_attention, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Writing on
#
# *Goal: write a greedy loop with a mask, for prompts of different lengths. Hard, 45 minutes, 4 points.*
#
# `model(tokens, allowed)` has no mask of its own: it takes tokens $(B, n)$ and a boolean mask $(B, 1, n, n)$, True
# where a token may look at another, and gives scores $(B, n, V)$; those at position $i$ are for the token after it.
# It was trained with a causal mask and without padding. What it makes of a token depends on this token and on those
# that it may look at, directly or over others, and on their order, but not on how far from the beginning they stand.
# So padding that nobody looks at may stand anywhere.
#
# `prompts` is a list of lists of tokens, at least one each, of different lengths. Tokens are the numbers 0 to
# $V - 1$, and all of them may occur in a prompt: there is no token for padding. Continue each prompt greedily: the
# new token is the likeliest one, and it is read before the next one is picked. A continuation is finished when it
# has `count` tokens, or when its newest token is `end` (an `end` inside the prompt means nothing). Return a list
# with a list of new tokens for each prompt, plain numbers, the `end` included if it came.
#
# The result must be what each prompt would give alone, but all prompts go through the model together: at most
# `count` calls. Padding and mask are yours.
#
# Everything is allowed; loops will do.


# %% solution="continue_prompts"
def continue_prompts(model, prompts, end, count):
    """Prompts, lists of tokens, give a list of new tokens for each, up to count or to end."""
    ### BEGIN SOLUTION
    new = [[] for _ in prompts]
    for _ in range(count):
        rows = [prompt + more for prompt, more in zip(prompts, new, strict=True)]
        n = max(len(row) for row in rows)
        tokens = mt.tensor([[0] * (n - len(row)) + row for row in rows])
        lengths = mt.tensor([len(row) for row in rows])
        real = mt.arange(n) >= n - lengths.unsqueeze(1)  # (B, n): padding stands in front
        causal = mt.ones(n, n, dtype=mt.bool).tril()
        scores = model(tokens, causal & real[:, None, None])  # (B, n, V)
        for more, token in zip(new, scores[:, -1].argmax(dim=-1).tolist(), strict=True):
            if not more or more[-1] != end:
                more.append(token)
    return new
    ### END SOLUTION


# %% tests="continue_prompts" points=4
check.continue_prompts(continue_prompts)
### BEGIN HIDDEN TESTS
check.continue_prompts(continue_prompts, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. How many nats leak?
#
# *Goal: train a model to find a leak, and measure it against what an honest one can do. Hard, 45 minutes, 4 points.*
#
# The chapter measures leaks on a text of independent tokens. Here each of six symbols depends on the one before it,
# and on nothing else: `transitions` is $(6, 6)$, and its row $a$ holds the probabilities of what follows symbol $a$.
# `check.windows(transitions, count)` draws windows of a long text, inputs and targets $(\text{count}, 8)$. No honest
# model can have a lower loss on new windows than
#
# $$H = -\sum_a \pi_a \sum_b p(b \mid a) \log p(b \mid a), \qquad \pi_b = \sum_a \pi_a\, p(b \mid a), \qquad \sum_a \pi_a = 1,$$
#
# where $\pi_a$ is how often symbol $a$ occurs in a long text. What a trained model stays below that, it got from the
# future: $H$ minus its loss is a lower bound of the nats a token that leak.
#
# `attend` is a way to attend, a function of queries, keys and values $(B, h, n, d/h)$, as in `check.ways`. Train a
# model that attends so, measure its loss on new windows, at least 2,000, all positions in one pass, and return $H$
# minus the loss, a number. With a right mask it is 0 or a little below. The check knows what there is to leak; a
# training has 60 seconds of processor time. `AttentionModel(6, nn.Embedding(8, 32), attend, width=32, heads=4,
# hidden=64)` is a model, and `train_on(model, draw, rate, steps)` trains one with batches from `draw()`, both from
# the chapter; Adam learns this in some 250 steps of 64 windows at the rate 0.01.
#
# Everything is allowed.


# %% solution="nats_leaked"
def nats_leaked(attend, transitions):
    """H minus the loss of a trained model that attends so, on new windows: nats a token."""
    ### BEGIN SOLUTION
    shares = mt.full((1, 6), 1 / 6)
    for _ in range(1000):
        shares = shares @ transitions
    entropies = -(transitions * transitions.log()).sum(-1)
    honest = (shares[0] * entropies).sum().item()

    model = AttentionModel(6, nn.Embedding(8, 32), attend, width=32, heads=4, hidden=64)
    train_on(model, partial(check.windows, transitions, 64), rate=0.01, steps=250)
    inputs, targets = check.windows(transitions, 4000)
    with mt.no_grad():
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    return honest - loss.item()
    ### END SOLUTION


# %% tests="nats_leaked" points=4
check.nats_leaked(nats_leaked)
### BEGIN HIDDEN TESTS
check.nats_leaked(nats_leaked, hidden=True)
### END HIDDEN TESTS
