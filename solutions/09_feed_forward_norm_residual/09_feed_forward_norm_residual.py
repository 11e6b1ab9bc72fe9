# %% [markdown]
# # Exercises 09: feed-forward network, norm and residual connection
#
# Nine exercises, from easy to hard, 40 points, about two and a half hours. They belong to
# [chapter 09](../../notebooks/09_feed_forward_norm_residual.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run
# the cell, then the check below it. The check looks at what your function does, on random inputs of
# several sizes: any way of writing it that gives the right result is right. A wrong answer is told what it
# looks like. What you see passing are the *public checks*; when the set is graded, the same checks run
# once more on other numbers and sizes. Where an exercise does not allow an operation, the check records
# what runs inside your function, under whatever name you call it. In exercises 1, 2, 3, 5 and 9 the
# gradients of your results are compared, too: the results must stay tensors that the library's
# operations have made of the inputs, so keep away from `.item()`, `.detach()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences side by side come first, $n$ is the number of tokens, $d$ the number of features of a
# token (`width` where a module is made). The last axis holds the features: `x[..., j]` is feature $j$ of every
# token. $(\ldots, d)$ means any number of axes before the last, also none.

# %%
import minitorch as mt
from minitorch import nn
from textbook.checks import chapter_09 as check

# %% [markdown]
# ## 1. Layer norm
#
# *Goal: bring each token back to mean 0 and variance 1. Easy, 15 minutes, 5 points.*
#
# `x` is $(\ldots, d)$, `gain` $\gamma$ and `bias` $\beta$ are $(d)$, `eps` $\epsilon$ is a number. For each token, with the
# vector $x$ of its $d$ features, return
#
# $$y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad \mu = \frac1d \sum_j x_j, \qquad \sigma^2 = \frac1d \sum_j (x_j - \mu)^2 .$$
#
# Not allowed: `F.layer_norm` and `nn.LayerNorm` (the operation `layer_norm`). Before you run the check, do
# $(1, 3)$ with $\gamma = (1, 1)$, $\beta = (0, 0)$ and $\epsilon = 0$ by hand.


# %% solution="layer_norm"
def layer_norm(x, gain, bias, eps=1e-5):
    """x (..., d), gain and bias (d) give (..., d)."""
    ### BEGIN SOLUTION
    centered = x - x.mean(dim=-1, keepdim=True)
    variance = (centered**2).mean(dim=-1, keepdim=True)  # (..., 1)
    return centered / mt.sqrt(variance + eps) * gain + bias
    ### END SOLUTION


# %% tests="layer_norm" points=5
check.layer_norm(layer_norm)
### BEGIN HIDDEN TESTS
check.layer_norm(layer_norm, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. RMSNorm
#
# *Goal: see what is left when the mean is left out. Easy, 10 minutes, 3 points.*
#
# `x` is $(\ldots, d)$, `gain` $\gamma$ is $(d)$, `eps` $\epsilon$ a number. For each token return
#
# $$y = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_j x_j^2 + \epsilon}} .$$
#
# Not allowed: `F.rms_norm`, `nn.RMSNorm` and what they are made of (the operation `rsqrt`), `F.layer_norm`
# (`layer_norm`). On which tokens do RMSNorm and a layer norm with bias 0 agree?


# %% solution="rms_norm"
def rms_norm(x, gain, eps=1e-5):
    """x (..., d) and gain (d) give (..., d)."""
    ### BEGIN SOLUTION
    mean_square = (x**2).mean(dim=-1, keepdim=True)  # (..., 1)
    return x / mt.sqrt(mean_square + eps) * gain
    ### END SOLUTION


# %% tests="rms_norm" points=3
check.rms_norm(rms_norm)
### BEGIN HIDDEN TESTS
check.rms_norm(rms_norm, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The feed-forward network
#
# *Goal: write the part that works on each position by itself. Easy, 15 minutes, 4 points.*
#
# $$\operatorname{FFN}(x) = \operatorname{ReLU}(x W_1 + b_1)\, W_2 + b_2,$$
#
# with $W_1$ of shape (width, hidden) and $W_2$ (hidden, width). In `__init__` make two `nn.Linear` with biases,
# `self.up` and `self.down`, so that `self.up` computes $x W_1 + b_1$. In `forward` use them: `x` is
# $(\ldots, n, \text{width})$, and so is the output.
#
# Everything is allowed. No residual connection and no norm in here: they belong to the block.


# %% solution="FeedForward"
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
        return self.down(self.up(x).relu())
        ### END SOLUTION


# %% tests="FeedForward" points=4
check.FeedForward(FeedForward)
### BEGIN HIDDEN TESTS
check.FeedForward(FeedForward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Warm-up
#
# *Goal: know the learning rate of the Transformer of 2017 at each step. Easy, 10 minutes, 3 points.*
#
# With step $t$, counted from 1, width $d$ and $w$ steps of warm-up, Vaswani et al. (2017) train with the rate
#
# $$\eta(t) = d^{-1/2} \cdot \min\!\big(t^{-1/2},\; t \cdot w^{-3/2}\big) .$$
#
# Return it; `step` is $t$, `width` $d$ and `steps` $w$. All are plain numbers. Before you write, work out at
# which step the two terms are equal, and how large the rate is there.
#
# Everything is allowed.


# %% solution="warm_up"
def warm_up(step, width, steps):
    """The learning rate at a step, counted from 1."""
    ### BEGIN SOLUTION
    return width**-0.5 * min(step**-0.5, step * steps**-1.5)
    ### END SOLUTION


# %% tests="warm_up" points=3
check.warm_up(warm_up)
### BEGIN HIDDEN TESTS
check.warm_up(warm_up, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Before or after
#
# *Goal: join a part to its input, with the norm before the part or after the sum. Medium, 15 minutes, 4 points.*
#
# `part` and `norm` are functions: each takes a tensor of the shape of `x` and returns one of this shape. (In a
# block, `part` would be the attention or the feed-forward network.) Return
#
# - where `pre` is True, pre-norm: the norm is applied to what the part gets, and to nothing else;
# - where `pre` is False, post-norm: the norm is applied to the sum.
#
# In both there is a residual connection. Everything is allowed. If `part` gives zeros only, what comes out in
# the one case and in the other?


# %% solution="add_and_norm"
def add_and_norm(x, part, norm, pre):
    """x (..., n, d) and two functions give (..., n, d)."""
    ### BEGIN SOLUTION
    if pre:
        return x + part(norm(x))
    return norm(x + part(x))
    ### END SOLUTION


# %% tests="add_and_norm" points=4
check.add_and_norm(add_and_norm)
### BEGIN HIDDEN TESTS
check.add_and_norm(add_and_norm, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Many layers, one layer
#
# *Goal: show that attention without anything between its layers only mixes. Medium, 15 minutes, 4 points.*
#
# A stack of $L$ attention layers, one head each, no residual connection, no network. Their weights have been
# computed and are now held fixed: `weights` is a list of $L$ tensors $A_1, \dots, A_L$ of shape $(B, n, n)$, in the
# order in which the layers are applied; `values` is a list of $L$ matrices $V_1, \dots, V_L$ of shape $(d, d)$. Layer $l$
# takes $X$ of shape $(B, n, d)$ to $A_l X V_l$, and layer $l + 1$ gets the result.
#
# Return the one layer that does the same as all of them: a pair, $A$ $(B, n, n)$, whose rows add up to one, and $V$
# $(d, d)$, with $A X V$ equal to the output of the last layer for every $X$. $L$ may be 1 or more.
#
# Everything is allowed.


# %% solution="one_layer"
def one_layer(weights, values):
    """L tensors (B, n, n) and L matrices (d, d) give A (B, n, n) and V (d, d)."""
    ### BEGIN SOLUTION
    A, V = weights[0], values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        A, V = weight @ A, V @ value
    return A, V
    ### END SOLUTION


# %% tests="one_layer" points=4
check.one_layer(one_layer)
### BEGIN HIDDEN TESTS
check.one_layer(one_layer, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A batch norm that knows of padding
#
# *Goal: take the statistics of batch norm over real tokens alone. Medium, 20 minutes, 4 points.*
#
# Batch norm has a mean and a variance for each feature, taken over all tokens of all sequences of the batch. Here
# part of the tokens are padding: `x` is $(B, n, d)$, and `real` $(B, n)$ is boolean, True at real tokens. There is at
# least one of them, and a sequence may have none. What stands in `x` at the padding may be anything.
#
# Return two tensors $(d)$: for each feature its mean over the real tokens, and its variance, the mean over the
# real tokens of the squared difference from that mean.
#
# Everything is allowed.


# %% solution="batch_statistics"
def batch_statistics(x, real):
    """x (B, n, d) and real (B, n) give mean (d) and variance (d)."""
    ### BEGIN SOLUTION
    tokens = x[real]  # (number of real tokens, d)
    mean = tokens.mean(dim=0)
    return mean, ((tokens - mean) ** 2).mean(dim=0)
    ### END SOLUTION


# %% tests="batch_statistics" points=4
check.batch_statistics(batch_statistics)
### BEGIN HIDDEN TESTS
check.batch_statistics(batch_statistics, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The gradient of layer norm
#
# *Goal: go back through a norm by hand. Hard, 30 minutes, 7 points.*
#
# Forwards, $y = \gamma \odot \hat x + \beta$ with $\hat x = (x - \mu)/s$ and $s = \sqrt{\sigma^2 + \epsilon}$, as in exercise 1. `x` is
# $(n, d)$, `gain` $(d)$; `grad_output` $(n, d)$ is $\partial L / \partial y$. Return three tensors: $\partial L / \partial x$ of shape $(n, d)$, $\partial L / \partial \gamma$ and
# $\partial L / \partial \beta$, both $(d)$.
#
# A way through it: the gradients of gain and bias come first, and all $n$ tokens add to them. Next comes the
# gradient at $\hat x$, call it $g'$. From there on each token is for itself, and $x_j$ acts on $\hat x$ in three ways,
# directly, through $\mu$ and through $s$, with
#
# $$\frac{\partial \mu}{\partial x_j} = \frac1d, \qquad \frac{\partial s}{\partial x_j} = \frac{\hat x_j}{d} .$$
#
# Not allowed: `backward` and `mt.autograd.grad`.


# %% solution="layer_norm_gradient"
def layer_norm_gradient(x, gain, grad_output, eps=1e-5):
    """x and grad_output (n, d), gain (d) give the gradients of x (n, d), gain (d) and bias (d)."""
    ### BEGIN SOLUTION
    centered = x - x.mean(dim=-1, keepdim=True)
    s = ((centered**2).mean(dim=-1, keepdim=True) + eps).sqrt()  # (n, 1)
    normal = centered / s
    g = grad_output * gain  # the gradient at x-hat, g'
    stretch = (g * normal).mean(dim=-1, keepdim=True)
    toward_x = (g - g.mean(dim=-1, keepdim=True) - normal * stretch) / s
    return toward_x, (grad_output * normal).sum(dim=0), grad_output.sum(dim=0)
    ### END SOLUTION


# %% tests="layer_norm_gradient" points=7
check.layer_norm_gradient(layer_norm_gradient)
### BEGIN HIDDEN TESTS
check.layer_norm_gradient(layer_norm_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. The block
#
# *Goal: put the parts together to the block that Transformers are made of. Hard, 25 minutes, 6 points.*
#
# Write `forward` of a pre-norm block. First the attention: the norm `self.norm_1`, self-attention, the residual
# connection. Then the network: `self.norm_2`, `self.feed_forward`, the residual connection. `x` is $(B, n, \text{width})$,
# and so is the output. Keep `__init__` as it is, and use the modules that it makes; all you have to add is
# how they are joined.
#
# `self.attention(query, key, value, attn_mask=...)` is PyTorch's multi-head attention. Two things about it:
#
# - it returns a pair, the output and the attention weights;
# - `attn_mask` $(n, n)$ is **True where a query may not look**, or None.
#
# `allowed` is None, or a boolean tensor $(n, n)$, **True where a query may look**, as everywhere in this book. Every
# query may look at one token at least.
#
# Everything is allowed.


# %% solution="Block"
class Block(nn.Module):
    """A pre-norm block of attention and feed-forward network."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x, allowed=None):
        """x (B, n, width), allowed: where to look. Gives (B, n, width)."""
        ### BEGIN SOLUTION
        normal = self.norm_1(x)
        masked = None if allowed is None else ~allowed
        attended, _ = self.attention(normal, normal, normal, attn_mask=masked)
        x = x + attended
        return x + self.feed_forward(self.norm_2(x))
        ### END SOLUTION


# %% tests="Block" points=6
check.Block(Block)
### BEGIN HIDDEN TESTS
check.Block(Block, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Stack this block a few times, put an embedding with positions below it and a norm and a linear layer on top, give
# it a causal mask: that is a language model. Chapter 10 builds the whole Transformer.
