# %% [markdown]
# # 09 Feed-forward network, residual connections and layer norm
#
# We can look at any word, in several ways at once, not at the future, and we know where each word
# stands. Stack eight such layers, even with networks between them, and train: they stay near chance. Two things are missing. One is something that
# *computes* with what attention has brought together; the other is a way of stacking that lets a deep network
# train. This chapter adds both, and ends with the block of which all Transformers are made.
#
# **After this chapter you will be able to**
#
# - say precisely in what sense attention only averages, and in what sense it does not;
# - write the feed-forward network, and count what it costs;
# - explain by its Jacobian what a residual connection does to a gradient, and measure it;
# - say what layer norm throws away, and derive its Jacobian;
# - choose between pre-norm and post-norm, and say when warm-up is needed and why;
# - assemble the block, and show that it equals PyTorch's encoder layer.
#
# **Time**: about 110 minutes to read and try; all cells together run in about half a minute. **Before it**:
# chapters 05 to 07 (attention, heads, masks); Jacobians and Adam from chapter 00. Of chapter 08 we use only
# the learned positions.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
from functools import partial

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.blocks as diagrams
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_01 import token_loss
from textbook.chapter_05 import attention
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.data import tasks
from textbook.lab import Lab, Tuned, measured

lab = Lab("09")

# %% [markdown]
# ## 1. Layers that only mix
#
# One self-attention layer with one head takes $X$, one row a token, to
#
# $$f(X) = A\,X V, \qquad A = \operatorname{softmax}\Big(\tfrac{1}{\sqrt d}\, X Q\,(X K)^\top\Big),$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $X$ | $n$ tokens of $d$ numbers each | $(n, d)$ |
# | $Q$, $K$, $V$ | learned matrices for queries, keys and values | $(d, d)$ |
# | $A$ | weights; each row is nonnegative and adds up to one | $(n, n)$ |
#
# Say somebody has computed $A$ and now holds it fixed. What is left, $X \mapsto A X V$, is a product with a
# matrix from either side: *linear* in $X$. And two such layers give
#
# $$A_2\,(A_1 X V_1)\,V_2 = (A_2 A_1)\; X\; (V_1 V_2) .$$
#
# The rows of $A_2 A_1$ are again nonnegative and add up to one. So two layers are one layer, with mixed weights
# and one value matrix, and so are ten. (With $h$ heads, two layers are a sum of $h^2$ such terms: more kinds of
# mixture, but still mixtures.) The sentence of chapter 06 comes with us, now with four numbers a word:

# %%
words = "be water my friend".split()
X = mt.tensor(
    [
        [1.0, 0.0, 2.0, -1.0],  # be
        [0.0, 3.0, -1.0, 2.0],  # water
        [1.0, 1.0, 0.0, 0.0],  # my
        [-1.0, 2.0, 1.0, 2.0],  # friend
    ]
).double()  # (n, d)

mt.manual_seed(1)
Q_1, K_1, Q_2, K_2 = mt.randn(4, 4, 4).double() / 2
V_1, V_2 = mt.randn(2, 4, 4).double()
Y, A_1 = attention(X @ Q_1, X @ K_1, X @ V_1)  # the first layer
Z, A_2 = attention(Y @ Q_2, Y @ K_2, Y @ V_2)  # the second
both = A_2 @ A_1
print("two layers equal (A_2 A_1) X (V_1 V_2):", mt.allclose(Z, both @ X @ (V_1 @ V_2)))
print("rows of A_2 A_1 add up to one:", mt.allclose(both.sum(1), mt.ones(4).double()))

# %% evidence
# The weights of two layers, and those of the one layer that does the same
figure, panels = plot.subplots(1, 3, width=9, height=2.7, sharey=True)
titles = {"$A_1$": A_1, "$A_2$": A_2, "$A_2 A_1$": both}
for axes, (title, weights) in zip(panels, titles.items(), strict=True):
    plot.attention(axes, weights, words, words, values=True, colorbar=False, title=title)
    axes.set(xlabel="key", ylabel="query" if axes is panels[0] else "")
plot.show(
    figure,
    alt="Weights of the first layer, of the second, and their product: four by four numbers in each, "
    "every row adding up to one; the rows of the product are more alike than those of either.",
)

# %% [markdown]
# ### Given its weights, attention is linear
#
# A function is linear if $f(aX + bY) = a f(X) + b f(Y)$ for all numbers $a$, $b$. We test it with weights that are
# given, and with weights computed from each input.

# %%
other = mt.randn(4, 4).double()


def given(x):
    return A_1 @ x @ V_1


def computed(x):
    return attention(x @ Q_1, x @ K_1, x @ V_1)[0]


def departure(f):
    """The largest entry of f(2 X - 3 other) - (2 f(X) - 3 f(other))."""
    return (f(2 * X - 3 * other) - (2 * f(X) - 3 * f(other))).abs().max().item()


# %% evidence
# How far from linear a layer is: verdicts
lab.holds("C19", "given its weights, a layer is linear, to rounding", departure(given), below=1e-12)
lab.holds("C19", "with weights computed from its input it is not", departure(computed), above=1)

# %% [markdown]
# So "it's all just weighted averages" is true *given the weights*. As a function of its input attention is not
# linear. Is that enough for a task that no linear function can do?
#
# A token has two bits, and the question is whether they differ: XOR. For a token alone in its sequence, $n = 1$,
# the softmax has one entry, which is 1 whatever the score. Then $A = (1)$ in every layer, and the whole stack is
# one matrix. On XOR a linear classifier gets at most 3 of the 4 tokens right. Among others we do not know yet.
# First, the cure.
#
# ## 2. The feed-forward network
#
# After attention has brought together what belongs together, each token gets a small network with one hidden
# layer, the same for every token:
#
# $$\operatorname{FFN}(x) = \operatorname{ReLU}(x W_1 + b_1)\, W_2 + b_2 .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x$ | one token's vector | $(d)$ |
# | $W_1$, $b_1$ | into a hidden layer of $m$ units; $m = 4d$ is usual | $(d, m)$, $(m)$ |
# | $W_2$, $b_2$ | and back | $(m, d)$, $(d)$ |
#
# XOR takes two hidden units, by hand: $|a - b| =
# \operatorname{ReLU}(a - b) + \operatorname{ReLU}(b - a)$.

# %%
W_1 = mt.tensor([[1.0, -1.0], [-1.0, 1.0]])  # (2, m) with m = 2
W_2 = mt.tensor([[1.0], [1.0]])  # (m, 1)
for pair in ([0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]):
    print(pair, "differ:", ((mt.tensor(pair) @ W_1).relu() @ W_2).item())


# %% save
class FeedForward(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2 of each token by itself: (..., d) to (..., d)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(self.up(x).relu())


# %% [markdown]
# **Position-wise** means that no token sees another: we loop over the words, and change one.

# %%
mt.manual_seed(0)
network = FeedForward(4, 16).double()
W_1, b_1 = network.up.weight.T, network.up.bias  # (d, m), (m)
W_2, b_2 = network.down.weight.T, network.down.bias  # (m, d), (d)
by_loop = mt.stack([(x @ W_1 + b_1).relu() @ W_2 + b_2 for x in X])
print("loop and matrices agree:", mt.allclose(network(X), by_loop))

changed = X.clone()
changed[1] += 1.0  # another word in place of "water"
moved = (network(changed) != network(X)).any(1)
print("changed:", [word for word, m in zip(words, moved.tolist(), strict=True) if m])

# %% [markdown]
# The division of labour shows in the Jacobians, $\partial\,\text{output} / \partial\,\text{input}$, here $16
# \times 16$: four words of four numbers each.


# %%
class Attend(MultiHeadAttention):
    """Chapter 06's attention: every token of x (B, n, d) looks at all tokens of its sequence."""

    def forward(self, x):
        return super().forward(x, x)


def jacobian(f, x):
    """d f(x) / d x for x (n, d), as a matrix (n d, n d)."""
    x = x.clone().requires_grad_()
    rows = [mt.autograd.grad(y, x, retain_graph=True)[0].flatten() for y in f(x).flatten()]
    return mt.stack(rows)


attend = Attend(4, heads=2).double()
of_attention = jacobian(lambda x: attend(x.unsqueeze(0))[0], X)
of_network = jacobian(network, X)
between = of_network.reshape(4, 4, 4, 4).abs().sum((1, 3)) * (1 - mt.eye(4))  # (n, n)
print("feed-forward, gradients between different words:", between.sum().item())

# %% evidence
# Sizes of both Jacobians as heat maps
figure, panels = plot.subplots(1, 2, width=7, height=3.1, sharey=True)
titles = {"attention": of_attention, "feed-forward network": of_network}
for axes, (title, matrix) in zip(panels, titles.items(), strict=True):
    sizes = matrix.abs() / matrix.abs().max()
    plot.heatmap(axes, sizes, cmap="Blues", vmin=0, vmax=1, colorbar=False, aspect="equal")
    axes.set_xticks([1.5, 5.5, 9.5, 13.5], words)
    axes.set_yticks([1.5, 5.5, 9.5, 13.5], words)
    axes.set(xlabel="input", title=title)
panels[0].set_ylabel("output")
plot.show(
    figure,
    alt="Sizes of the entries of two Jacobians, sixteen by sixteen. Attention: colour everywhere. Feed-forward "
    "network: only in four blocks of four by four on the diagonal.",
)

# %% [markdown]
# **What it costs.** Attention has four matrices of $d^2$ numbers, the network with $m = 4d$ two of $4d^2$: two
# thirds of all weights are here.

# %% evidence
# Weights and FLOPs of attention and of the network
d, n = 64, 32
for name, part in {"attention": Attend(d, 4), "feed-forward": FeedForward(d, 4 * d)}.items():
    matrices = sum(p.numel() for p in part.parameters() if p.ndim == 2)
    with count_flops() as counter:
        part(mt.zeros(1, n, d))
    flops = counter.total / (n * d**2)
    print(f"{name:13} {matrices / d**2:.0f} d^2 weights, {flops:.1f} n d^2 FLOPs")

# %% [markdown]
# (Attention: 8 for its four matrices, and $4n/d = 2$ for scores and mixing. $m = 4d$ is the first Transformer's
# choice; nothing forces it.)
#
# **Relatives.** Most models since 2018 have a smooth curve in place of the ReLU: GELU (Hendrycks and Gimpel,
# 2016), $x\,\Phi(x)$ with the share $\Phi(x)$ of a standard normal variable that lies below $x$, or SiLU,
# $x / (1 + e^{-x})$. Many large ones multiply two linear maps, one of them bent, $\big(\operatorname{SiLU}(x W_1) \odot x
# W_3\big) W_2$ with $W_3$ of $W_1$'s shape: **SwiGLU** (Shazeer, 2020). Chapter 12 measures what that is worth.

# %% evidence
# ReLU and its relatives
figure, axes = plot.subplots(width=5, height=2.4)
grid = mt.linspace(-3, 3, 121)
for name, curve in {"ReLU": F.relu(grid), "GELU": F.gelu(grid), "SiLU": F.silu(grid)}.items():
    axes.plot(grid.tolist(), curve.tolist(), label=name)
axes.set(xlabel="input of a hidden unit", ylabel="its output")
axes.legend()
plot.show(
    figure,
    alt="Three curves that are near zero on the left and near the diagonal on the right. ReLU has a corner at "
    "zero; GELU and SiLU are smooth and dip a little below zero before they rise.",
)

# %% [markdown]
# ### XOR, alone and among others (C19)
#
# Two layers of attention between a linear input and a linear output, without networks, with them, and with both
# joined by sums, $x + f(x)$, of which section 3 speaks.


# %%
class Layers(nn.Module):
    """Attention and, if wanted, a network, ``depth`` times in turn: (B, n, d) to (B, n, d)."""

    def __init__(self, depth, width, network=True, residual=False, attend=Attend):
        super().__init__()
        self.residual, self.last = residual, nn.Identity()
        self.parts = nn.ModuleList()
        for _ in range(depth):
            self.parts.append(attend(width, heads=4))
            if network:
                self.parts.append(FeedForward(width, 4 * width))

    def states(self, x):
        """x, and what comes out of each part."""
        states = [x]
        for part in self.parts:
            x = x + part(x) if self.residual else part(x)
            states.append(x)
        return states

    def forward(self, x):
        return self.last(self.states(x)[-1])


# %% [markdown]
# One training loop serves the whole chapter. It takes a list of learning rates, one a step, and stops early
# where a goal is reached. (`last` above, which does nothing, waits for section 5.)


# %%
def learn(model, draw, loss_of, rates, goal=0.0):
    """Steps of Adam, one for each rate, until ten losses have a mean below the goal; the losses."""
    optimizer, losses = mt.optim.Adam(model.parameters()), []
    for rate in rates:
        inputs, targets = draw()
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        losses.append(loss.item())
        if len(losses) >= 10 and sum(losses[-10:]) / 10 < goal:
            break
    return losses


STACKS = {
    "attention": dict(network=False),
    "attention, network": dict(network=True),
    "both, with sums": dict(network=True, residual=True),
}
KINDS = mt.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])

# %% [markdown]
# We also ask whether the trained model is linear in a *lone* token, and feed it $n$ copies of $(0, 0)$, of $(0, 1)$, of $(1,
# 0)$ and of $(1, 1)$. If the scores are linear (but for a bias), those of $(0, 0)$ and $(1, 1)$ have the same sum as those
# of $(0, 1)$ and $(1, 0)$. The "bend" is the difference of the two sums, relative to the largest score.


# %%
@lab.experiment(
    "C19",
    stack=list(STACKS),
    n=[1, 8],
    rate=3e-3,
    full=dict(rate=Tuned(1e-3, 3e-3, 1e-2, lowest="loss"), seeds=3),
)
def xor_of_bits(stack, n, rate, steps=500):
    layers = Layers(2, 16, **STACKS[stack])
    model = nn.Sequential(nn.Linear(2, 16), layers, nn.Linear(16, 2))
    learn(model, lambda: tasks.xor(64, n), token_loss, [rate] * steps)
    bits, differ = tasks.xor(1000, n)
    scores = model(bits)
    s = model(KINDS.unsqueeze(1).expand(4, n, 2))[:, 0]
    return {
        "right": (scores.argmax(-1) == differ).float().mean(),
        "bend": (s[0] + s[3] - s[1] - s[2]).abs().max() / s.abs().max(),
        "loss": token_loss(scores, differ),
    }


# %% evidence
# XOR of a token alone and among eight: tables and verdicts
runs = xor_of_bits.run()
runs.table("stack", "right", columns="n")
runs.table("stack", "bend", columns="n")
for sentence, name, where, bounds in (
    ("attention, a token alone: not above 3 of 4", "right", ("attention", 1), dict(below=0.8)),
    ("but linear in a lone token, to rounding", "bend", ("attention", 8), dict(below=1e-4)),
    ("with networks, a token alone is right", "right", ("attention, network", 1), dict(above=0.95)),
    ("and the scores are bent", "bend", ("attention, network", 1), dict(above=0.1)),
):
    runs.holds(
        sentence,
        lambda rows, name=name, where=where: rows.values(name, stack=where[0], n=where[1]),
        **bounds,
    )
runs.holds(
    "attention among eight: right, by the median of the seeds",
    lambda rows: np.median(rows.values("right", stack="attention", n=8)),
    above=0.95,
)

# %% [markdown]
# A token alone: attention gets nowhere, as it must. Among seven others it learns XOR without any network (with two
# of the three recorded seeds; the third is stuck near 3 of 4). Where does the nonlinearity come from? Write out what one head gives token $i$, with its query $q_i$, the keys $k_j$ and
# the values $v_j$:
#
# $$\text{output}_i = \frac{\sum_j e^{q_i^\top k_j / \sqrt d}\; v_j}{\sum_j e^{q_i^\top k_j / \sqrt d}} .$$
#
# The query is linear in token $i$, but it stands in an exponent. Other tokens work like the hidden units of a network:
# unit $j$ answers to $q_i$ with $e^{q_i^\top k_j / \sqrt d}$, and $v_j$ says what follows. Among copies of itself a token finds
# equal values only, any weights give the same mean, and the model is linear: its bend is rounding. So attention
# computes, but only by comparing tokens. What a token *alone* means takes a network of its own.
#
# > **C19 · holds with a condition: With given weights attention only averages: on a lone token XOR is right
# > in 0.48 to 0.52, with a network in 1.00.** *The lectures* (deck 1, "Adding nonlinearities in
# > self-attention"; deck 3; deck 5, "Self-Attention is Linear"): "stacking more self-attention layers just
# > re-averages value vectors"; "every self-attention 'layer' is a linear transformation of the previous layer
# > (with non-linear weights)".
# >
# > *Measured*: With given weights the departure from a linear function is rounding, with weights from the input above
# > 1. XOR, three seeds, rates chosen with another: attention alone is right on a lone token in 0.48 to 0.52, on eight
# > tokens in 0.78, 0.999 and 1.000, and in a lone token it stays linear to rounding; with networks it is right on a
# > lone token always, on eight in 0.995 to 0.999; with sums too, always on both.
#
# ## 3. Residual connections
#
# Attention, network, attention, network: why not twelve of each? Here is what happens to random tokens on their
# way through twelve untrained layers.
#
# ### What is left of a token (E1)
#
# We measure how different the tokens of a sequence still are: the distance of the rows of $X$ from their mean,
# relative to the size of $X$. 1 means nothing in common, 0 that all tokens are the same.


# %%
def apart(x):
    """How far the tokens of x (B, n, d) are from their mean, relative to their size."""
    return ((x - x.mean(1, keepdim=True)).norm() / x.norm()).item()


@lab.experiment("E1", stack=list(STACKS), full=dict(seeds=5))
def left_of_a_token(stack, depth=12, n=16, width=32):
    layers = Layers(depth, width, **STACKS[stack]).double()
    states = layers.states(mt.randn(1, n, width).double())
    parts = len(layers.parts) // depth  # a layer has one or two
    return {"layers passed": list(range(depth + 1)), "what is left": [*map(apart, states[::parts])]}


# %% evidence
# What is left of the differences between tokens, layer by layer: figure and verdicts
runs = left_of_a_token.run()
runs.draw(
    x="layers passed",
    y="what is left",
    by="stack",
    log="y",
    alt="Share of what tells tokens apart against layers passed, log scale: without sums it falls to rounding "
    "error within three layers; with them most of it is left after twelve.",
)
for stack in ("attention", "attention, network"):
    runs.holds(
        f"after four layers less than a millionth is left: {stack}",
        lambda rows, stack=stack: rows.values("what is left", stack=stack)[:, 4],
        below=1e-6,
    )
runs.holds(
    "with sums, after twelve more than a half",
    lambda rows: rows.values("what is left", stack="both, with sums")[:, 12],
    above=0.5,
)

# %% [markdown]
# Untrained weights are nearly even, so a layer gives every token nearly the same mean. After three layers all tokens
# are equal to the last digit, and a network that works on each token cannot tell equal tokens apart. (Dong et al., 2021,
# prove that without sums attention loses rank doubly exponentially with depth.)
#
# > **E1 · Without residual connections less than 1e-6 after four layers; with them 0.64 and more after
# > twelve.** *Our question*: what is left of the differences between tokens after a stack of untrained
# > layers?
# >
# > *Measured*: After four layers less than 1e-6 of them, with networks too; with residual connections 0.64 to 0.84
# > after twelve (five seeds).
#
# ### The sum
#
# The cure is to *add* what a layer computes to what it was given:
#
# $$y = x + f(x),$$
#
# with $f$ attention or the network, and $x$, $y$, $f(x)$ of the same shape. $f$ only has to learn what is to be
# changed, the *residual*; $x$ itself runs past it on the **skip path**. (Elhage et al., 2021, speak of a
# *residual stream*, from which each part reads and to which it adds.) Backwards, by the chain rule,
#
# $$\frac{\partial y}{\partial x} = I + J_f, \qquad
# \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} + J_f^\top\, \frac{\partial L}{\partial y},$$
#
# where $J_f$ is the Jacobian of $f$, $I$ the identity and $L$ the loss. Whatever $f$ is, the gradient of $y$
# comes through whole, and what $f$ has to say is added to it.

# %%
whole = jacobian(lambda x: x + network(x), X)
print("the Jacobian of x + f(x) is I + J_f:", mt.allclose(whole, mt.eye(16).double() + of_network))

# %% [markdown]
# Through many parts it is a product $(I + J_1)(I + J_2) \cdots$, which is near $I$ only if the $J$ are small.
#
# ### The gradient at the start (E2)
#
# A task from here on: say a sequence backwards. Every token has to look at another one and to know its place, so
# learned positions are added (chapter 08). We send one batch through twelve untrained layers of attention and
# network, and look at the norm of $\partial L / \partial\,\text{state}$ on its way back.


# %%
class Reverser(nn.Module):
    """Tokens (B, n) to scores (B, n, V) by way of some layers; n and V are the length."""

    def __init__(self, layers, length, width=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(length, width), nn.Embedding(length, width)
        self.layers, self.out = layers, nn.Linear(width, length)
        for matrix in (*layers.parameters(), *self.out.parameters()):
            if matrix.ndim == 2:
                nn.init.xavier_uniform_(matrix)

    def embedded(self, tokens):
        return self.tokens(tokens) + self.places.weight

    def forward(self, tokens):
        return self.out(self.layers(self.embedded(tokens)))


# %%
def states_with_gradients(layers, length=16):
    """The states of untrained layers for one batch to be reversed, after ``backward``."""
    model = Reverser(layers, length)
    tokens, targets = tasks.reverse(2 * length, length, length)
    states = layers.states(model.embedded(tokens))
    for state in states:
        state.retain_grad()
    token_loss(model.out(layers.last(states[-1])), targets).backward()
    return states


for residual in (False, True):
    mt.manual_seed(0)
    states = states_with_gradients(Layers(12, 32, residual=residual))
    norms = [state.grad.norm().item() for state in states[::8]]  # every fourth layer
    measured(f"residual {residual!s:5}", " ".join(f"{norm:9.1e}" for norm in norms))

# %% [markdown]
# From left to right: before the first layer, after 4, 8 and 12; the gradient goes from right to left. Without sums it
# vanishes, as in chapter 01 over time. With sums it explodes: at this start (Xavier's, which keeps sizes even) every
# $f(x)$ is about as large as $x$, so each sum is larger than the last.
#
# But the gradient grows far more than the states do. We suspect the scores: they are products of two states, so
# what flows back through them grows with the states' size. The test: let the gradient take the weights for constants.


# %%
class FixedWeights(Attend):
    """Attention that the gradient passes through its values alone: weights count as constants."""

    def forward(self, x):
        query, key, value = self.project(x, x)
        _, weights = attention(query, key, value)
        return self.out(merge_heads(weights.detach() @ value))


@lab.experiment(
    "E2",
    stack=["without sums", "with sums", "with sums, weights fixed"],
    full=dict(seeds=5),
)
def gradient_at_the_start(stack, depth=12, width=32):
    attend = FixedWeights if stack.endswith("fixed") else Attend
    layers = Layers(depth, width, residual=stack.startswith("with sums"), attend=attend)
    states = states_with_gradients(layers)
    norms = [state.grad.norm().item() for state in states]
    return {
        "parts passed": list(range(len(states))),
        "norm of the gradient": norms,
        "gradient, input over output": norms[0] / norms[-1],
        "state, output over input": states[-1].norm() / states[0].norm(),
    }


# %% evidence
# The gradient of untrained layers, part by part: figure, table and verdicts
runs = gradient_at_the_start.run()
runs.draw(
    x="parts passed",
    y="norm of the gradient",
    by="stack",
    log="y",
    alt="Norm of the gradient against parts passed, log scale. Without sums it falls towards the input by about "
    "four powers of ten. With sums it rises by seven or more; with fixed weights by about three.",
)
runs.table("stack", ["gradient, input over output", "state, output over input"])
GRADIENT = "gradient, input over output"
runs.holds(
    "without sums the gradient vanishes",
    lambda rows: rows.values(GRADIENT, stack="without sums"),
    below=0.01,
)
runs.holds(
    "with sums it explodes",
    lambda rows: rows.values(GRADIENT, stack="with sums"),
    above=1e5,
)
runs.holds(
    "with sums and fixed weights it grows as the states do, to a factor of 8",
    lambda rows: (
        rows.values(GRADIENT, stack="with sums, weights fixed")
        / rows.values("state, output over input", stack="with sums, weights fixed")
    ),
    between=(1 / 8, 8),
)

# %% [markdown]
# With fixed weights the gradient grows about as the states do. All the rest, several powers of ten, comes back through
# the scores.
#
# > **E2 · Not by itself: through twelve layers with sums the gradient grows 3e6-fold and more.** *Our
# > question*: does a residual connection keep the gradient level at the start? (Deck 3: "Gradient is great
# > through the residual connection; it's 1!")
# >
# > *Measured*: Gradient at the input over that at the output of twelve untrained layers, five seeds: without sums 2.4e-4
# > to 7.7e-4, with sums 3.3e6 to 5.2e8, with sums and fixed weights 435 to 609; there the states grow 221 to 263
# > times.
#
# ## 4. Layer normalization
#
# Sums grow, by the factor in the last table, and each part has to cope with the scale that the parts before it
# happen to give. **Layer norm** (Ba, Kiros and Hinton, 2016) takes the scale out. For one token's vector
# $x$ of shape $(d)$:
#
# $$\mu = \frac1d \sum_{j=1}^{d} x_j, \qquad \sigma^2 = \frac1d \sum_{j=1}^{d} (x_j - \mu)^2, \qquad
# \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = \gamma \odot \hat x + \beta .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $\mu$, $\sigma^2$ | mean and variance of the $d$ numbers of *one token* | numbers |
# | $\epsilon$ | $10^{-5}$, so that equal numbers do not give $0/0$ | a number |
# | $\hat x$ | the same token with mean 0 and variance 1 | $(d)$ |
# | $\gamma$, $\beta$ | **gain** and **bias**, learned, the same for all tokens | $(d)$ |

# %%
mean, variance = X.mean(1), X.var(1, unbiased=False)
for word, a, b in zip(words, mean.tolist(), variance.tolist(), strict=True):
    print(f"{word:7} mean {a:5.2f}, variance {b:.3f}")
normal = (X - mean.unsqueeze(1)) / (variance.unsqueeze(1) + 1e-5).sqrt()  # (n, d)
print("water:", [round(value, 3) for value in normal[1].tolist()])

# %% [markdown]
# With a pencil: "water" is $(0, 3, -1, 2)$, its mean 1, the differences $(-1, 2, -2, 1)$, their squares add up to 10, so
# the variance is 2.5 and its root 1.581. Now the loop, and what the norm throws away.

# %%
rows = []
for x in X:  # one token at a time, one number at a time
    mu = sum(x_j for x_j in x) / 4
    squares = sum((x_j - mu) ** 2 for x_j in x) / 4
    rows.append(mt.stack([(x_j - mu) / (squares + 1e-5).sqrt() for x_j in x]))
print("loop and matrices agree:", mt.allclose(normal, mt.stack(rows)))
print("the library's agrees:", mt.allclose(F.layer_norm(X, (4,)), normal))
again = F.layer_norm(5 * X + 3, (4,))
print("5 x + 3 has the same norm as x:", mt.allclose(again, normal, atol=1e-4))
print("five equal numbers:", F.layer_norm(mt.full((5,), 7.0), (5,)).tolist())

# %% [markdown]
# Add a number to all of $x$, and $\mu$ goes along; multiply by a positive number, and $\sigma$ does. In space, the first
# step projects onto the plane on which the coordinates add up to 0, the second puts every point on a sphere of
# radius $\sqrt d$. With $d = 3$ that is a circle, drawn here as seen along $(1, 1, 1)$. What is kept is the *direction*
# within the plane; gain and bias stretch and shift it (and may lead out of the plane).

# %% evidence
# Layer norm of points in three dimensions: a cloud, a circle, an ellipse
mt.manual_seed(0)
cloud = mt.randn(80, 3) * mt.tensor([2.0, 1.0, 0.7]) + mt.tensor([1.0, 0.0, 1.0])
across = mt.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
across = across / across.norm(dim=1, keepdim=True)  # two axes of the plane
gain, bias = mt.tensor([2.0, 1.0, 0.5]), mt.tensor([0.0, 1.0, 0.0])
stages = {
    "before": cloud,
    "normalized": F.layer_norm(cloud, (3,)),
    "gain (2, 1, 0.5), bias (0, 1, 0)": F.layer_norm(cloud, (3,), gain, bias),
}
figure, panels = plot.subplots(1, 3, width=9, height=2.6, sharex=True, sharey=True)
for axes, (title, points) in zip(panels, stages.items(), strict=True):
    seen = (points @ across.T).tolist()
    axes.scatter(*zip(*seen, strict=True), s=9, color=plot.COLORS[0])
    axes.set(aspect="equal", title=title, xlabel="along (1, -1, 0)", xlim=(-5, 5), ylim=(-3, 3))
panels[0].set_ylabel("along (1, 1, -2)")
plot.show(
    figure,
    alt="Three-dimensional points seen along (1, 1, 1). Left: a cloud. Middle: the same points on a circle. "
    "Right: the circle stretched to an ellipse and shifted.",
)

# %% [markdown]
# Two ways to get it wrong: the plain sum in place of the mean, and the standard deviation under the root.

# %% evidence
# Two ways to get it wrong, for "water"
water = X[1]
deviation = water.var(unbiased=False).sqrt()
versions = {
    "right": (water - water.mean()) / (deviation**2 + 1e-5).sqrt(),
    "plain sum as mean": (water - water.sum()) / (deviation**2 + 1e-5).sqrt(),
    "root of the deviation": (water - water.mean()) / (deviation + 1e-5).sqrt(),
}
for name, y in versions.items():
    print(f"{name:22} mean {y.mean().item() + 0:6.3f}, variance {y.var(unbiased=False).item():.3f}")

# %% [markdown]
# ### Its gradient by hand
#
# Let $s = \sqrt{\sigma^2 + \epsilon}$. Each $x_j$ acts on $\hat x_i = (x_i - \mu)/s$ in three ways: directly, through
# $\mu$ and through $s$, with
#
# $$\frac{\partial \mu}{\partial x_j} = \frac1d, \qquad
# \frac{\partial s}{\partial x_j} = \frac{1}{2s}\,\frac{\partial \sigma^2}{\partial x_j}
# = \frac{x_j - \mu}{d\, s} = \frac{\hat x_j}{d} .$$
#
# (In $\partial \sigma^2 / \partial x_j$ the part through $\mu$ drops out, because the differences add up to zero.) The
# quotient rule gives the Jacobian of the norm,
#
# $$\frac{\partial \hat x_i}{\partial x_j}
# = \frac1s \Big( \mathbb{1}[i = j] - \frac1d - \frac{\hat x_i\, \hat x_j}{d} \Big) .$$

# %%
x_hat = normal[1]  # "water"
s = (variance[1] + 1e-5).sqrt()
by_hand = (mt.eye(4).double() - 1 / 4 - mt.outer(x_hat, x_hat) / 4) / s  # (d, d)
by_engine = jacobian(lambda x: F.layer_norm(x, (4,)), X[1:2])
print("by hand and by the engine agree:", mt.allclose(by_hand, by_engine))
print("shifting water moves nothing:", (by_hand @ mt.ones(4).double()).abs().max().item() < 1e-12)
print("stretching neither, but for epsilon:", (by_hand @ x_hat).abs().max().item() < 1e-4)
tenfold = jacobian(lambda x: F.layer_norm(x, (4,)), 10 * X[1:2])
print("ten times water, a tenth of it:", mt.allclose(10 * tenfold, by_hand, atol=1e-4))

# %% [markdown]
# The two terms that are subtracted take out what would only shift or stretch $x$, as the norm itself did. And $1/s$
# scales: a token with a long vector gets a small gradient. With $g = \partial L / \partial y$ and
# $g' = g \odot \gamma$, both of shape $(d)$, the chain rule makes of it
#
# $$\frac{\partial L}{\partial x} = \frac1s \Big( g' - \operatorname{mean}(g')
# - \hat x \operatorname{mean}(g' \odot \hat x) \Big), \qquad
# \frac{\partial L}{\partial \gamma} = \sum_{\text{tokens}} g \odot \hat x, \qquad
# \frac{\partial L}{\partial \beta} = \sum_{\text{tokens}} g .$$
#
# ## 5. Residual connection and norm together
#
# Sums keep tokens apart, and grow. A norm stops the growth. Which of the two does a deep stack need? There are four
# combinations, and a second place for the norm, which waits for section 6. In pre-norm nothing normalizes the sum,
# so one more norm follows the last layer (`last`).

# %%
WIRINGS = {
    "neither": lambda x, part, norm: part(x),
    "norm": lambda x, part, norm: norm(part(x)),
    "residual": lambda x, part, norm: x + part(x),
    "pre-norm": lambda x, part, norm: x + part(norm(x)),
    "post-norm": lambda x, part, norm: norm(x + part(x)),
}


class Wired(Layers):
    """Layers whose parts are joined to their input, with a norm each, as the wiring says."""

    def __init__(self, depth, wiring, width=32, norm=nn.LayerNorm):
        super().__init__(depth, width)
        self.norms = nn.ModuleList(norm(width) for _ in self.parts)
        self.last = norm(width) if wiring == "pre-norm" else nn.Identity()
        self.join = WIRINGS[wiring]

    def states(self, x):
        states = [x]
        for part, norm in zip(self.parts, self.norms, strict=True):
            states.append(self.join(states[-1], part, norm))
        return states


# %% [markdown]
# ### Depth with and without (C20)
#
# Now we train, until the mean loss of ten steps is below 0.05 or the steps are out. (Every batch is new, so each loss is
# one on sequences never seen.) Each wiring has, at each depth, the learning rate that is best with other seeds. If layers
# that are not needed could be passed through, a deeper model would be no worse than a shallow one.

# %%
GOAL = 0.05  # mean loss of ten steps


def reverse_with(model, rates, length):
    """How fast a model learns to reverse sequences; every batch is new."""
    losses = learn(
        model, lambda: tasks.reverse(2 * length, length, length), token_loss, rates, GOAL
    )
    end = sum(losses[-10:]) / 10
    return {
        "loss": end,
        "steps needed": len(losses) if end < GOAL else None,
        "loss paid": sum(losses),
    }


# %%
@lab.experiment(
    "C20",
    wiring=["neither", "norm", "residual", "pre-norm"],
    depth=[1, 4],
    rate=8e-3,
    steps=100,
    length=8,
    full=dict(
        depth=[1, 2, 4, 8],
        rate=Tuned(1e-3, 2e-3, 4e-3, lowest="loss paid"),
        steps=220,
        length=16,
        seeds=3,
    ),
)
def depth_with_and_without(wiring, depth, rate, steps, length):
    return reverse_with(Reverser(Wired(depth, wiring), length), [rate] * steps, length)


# %% evidence
# Loss at the end against depth, with and without residual connection and norm: figure and verdicts
runs = depth_with_and_without.run()
NAMES = {
    "norm": "norm alone",
    "residual": "residual alone",
    "pre-norm": "both",
}
runs.draw(
    x="depth",
    y="loss",
    by="wiring",
    labels=NAMES,
    log="xy",
    lines={"chance, 16 symbols": math.log(16)},
    alt="Loss at the end of training against depth, logarithmic. With one and two layers all four are near the goal. "
    "With four, neither, norm alone and residual alone are near chance, with eight residual alone far above it; "
    "both together stay at the goal.",
)
for wiring in ("neither", "norm"):
    runs.holds(
        f"four layers miss the goal by far: {NAMES.get(wiring, wiring)}",
        lambda rows, wiring=wiring: rows.values("loss", wiring=wiring, depth=4),
        above=1,
    )
runs.holds(
    "one layer learns it in any wiring",
    lambda rows: rows.values("loss", depth=1),
    below=0.2,
)
runs.holds(
    "with both, four layers get there too",
    lambda rows: rows.values("loss", wiring="pre-norm", depth=4),
    below=0.2,
)

# %% [markdown]
# One layer learns the task in any wiring, and two do, or nearly, if the rate is right. Four are too many for neither, for the
# norm alone and for the residual connection alone; with eight the latter ends *worse* than chance, the explosion of E2.
# Only both together reach the goal at every depth: one keeps tokens apart and lets the gradient through, the
# other keeps the sums in bounds.
#
# > **C20 · holds with a condition: Within 220 steps eight layers reach a loss of 0.04 with sums and norm,
# > and stay above 2.7 with neither.** *The lectures* (deck 2, "Residual Connections"; deck 1, "The
# > Transformer Encoder: Residual connections [He et al., 2016]"; deck 3): with more layers early deep
# > networks got worse ("degradation"); add the input of a layer to its output.
# >
# > *Measured*: Loss after at most 220 steps, three seeds, each at its best rate; chance is 2.77, the goal 0.05. One layer
# > and two: 0.04 to 0.09 in any wiring. Four: neither 2.58 to 2.62, norm alone 2.58 to 2.62, residual alone 2.18 to 2.46,
# > both 0.04 to 0.05. Eight: 2.71 to 2.72, 2.70 to 2.71, 6.2 to 12.5, and 0.04 again with both, in 86 to 90 steps.
#
# ## 6. Before or after
#
# Where does the norm go? In the Transformer of 2017 it stood *after* the sum; in most models since, it stands *before*
# the part (Xiong et al., 2020):
#
# $$\text{post-norm:}\quad y = \operatorname{norm}(x + f(x)), \qquad\qquad
# \text{pre-norm:}\quad y = x + f(\operatorname{norm}(x)) .$$

# %% evidence
# Where the norm stands, and what the skip path meets
figure, panels = plot.subplots(1, 2, width=8.5, height=1.7)
diagrams.line(panels[0], ["f", "+", "norm"], title="post-norm")
diagrams.line(panels[1], ["norm", "f", "+"], title="pre-norm")
plot.show(
    figure,
    alt="Two diagrams. Post-norm: x goes through f, then the sum with x, then the norm. Pre-norm: x goes through "
    "the norm, f, and the sum with x; the skip path from x to y meets no norm.",
)

# %% [markdown]
# ### Along the skip path (E3)
#
# Follow the skip path. In pre-norm it meets nothing: through all layers, the identity. In post-norm it goes through a
# norm at every sum, whose Jacobian divides by $s$, and $s$ is above 1 if $x$ has been normalized and $f(x)$ adds something
# of its own. We measure the gradient as in E2, whole, and along the skip path alone, with every $f(x)$ detached.


# %%
class SkipPath(Wired):
    """The same forwards; the gradient takes the sums and the norms, not the parts."""

    def states(self, x):
        states = [x]
        for part, norm in zip(self.parts, self.norms, strict=True):
            states.append(self.join(states[-1], lambda y, part=part: part(y).detach(), norm))
        return states


@lab.experiment(
    "E3",
    wiring=["norm", "post-norm", "pre-norm", "post-norm, skip path", "pre-norm, skip path"],
    full=dict(seeds=5),
)
def gradient_with_norms(wiring, depth=12):
    name, _, skip = wiring.partition(", ")
    states = states_with_gradients((SkipPath if skip else Wired)(depth, name))
    norms = [state.grad.norm().item() for state in states]
    return {
        "parts passed": list(range(len(states))),
        "norm of the gradient": norms,
        "input over output": norms[0] / norms[-1],
    }


# %% evidence
# The gradient of untrained layers with norms, whole and along the skip path: figure and verdicts
runs = gradient_with_norms.run()
runs.draw(
    x="parts passed",
    y="norm of the gradient",
    by="wiring",
    log="y",
    alt="Norm of the gradient against parts passed, log scale. The three wirings with a norm are level, and so is "
    "pre-norm's skip path; post-norm's skip path falls towards the input by more than two powers of ten.",
)
runs.table("wiring", "input over output")
for wiring in ("norm", "post-norm", "pre-norm"):
    runs.holds(
        f"the whole gradient is level, to a factor of 20: {wiring}",
        lambda rows, wiring=wiring: rows.values("input over output", wiring=wiring),
        between=(1 / 20, 20),
    )
for wiring, bounds in (("pre-norm", (1 - 1e-5, 1 + 1e-5)), ("post-norm", (0, 0.05))):
    runs.holds(
        f"what the skip path of {wiring} leaves of it",
        lambda rows, wiring=wiring: rows.values("input over output", wiring=f"{wiring}, skip path"),
        between=bounds,
    )

# %% [markdown]
# Deck 3's "it's 1" is true of pre-norm, and only of the skip path. The *whole* gradient is level in all three
# wirings, so at the start it does not tell pre-norm from post-norm. Training does.
#
# > **E3 · In pre-norm alone: along the skip path it keeps 1.0000 of its size, in post-norm 0.01 at
# > most.** *Our question*: does the skip path carry the gradient through unchanged?
# >
# > *Measured*: Gradient at the input over that at the output of twelve untrained layers, five seeds: along the skip path
# > 1.0000 in pre-norm, 0.005 to 0.010 in post-norm; whole, norm alone 0.10 to 2.1, post-norm 0.42 to 1.2, pre-norm 2.3
# > to 2.7.
#
# ### Learning rate and warm-up (C22)
#
# The paper of 2017 used post-norm and began training with a tiny learning rate, the **warm-up**:
#
# $$\eta(t) = d^{-1/2} \cdot \min\!\big(t^{-1/2},\; t \cdot w^{-3/2}\big),$$
#
# with step $t = 1, 2, \dots$, width $d$ and $w$ warm-up steps (4,000 there). In the experiment the rate rises in a line
# and stays, so that with and without differ in nothing else. Later chapters train with `warmed`, which also falls.


# %% save
def warmed(step, steps, rate):
    """Up in a line for a tenth of the steps, then down in a line to zero; step counts from 0."""
    return rate * min(10 * (step + 1) / steps, 1) * (1 - step / steps)


# %% evidence
# Three schedules: that of 2017, that of this section, and the one that later chapters use
figure, panels = plot.subplots(1, 3, width=9, height=2.3)
for w in (2000, 4000, 8000):
    steps = range(1, 20_001, 50)
    panels[0].plot(steps, [512**-0.5 * min(t**-0.5, t * w**-1.5) for t in steps], label=f"w = {w}")
panels[0].legend(fontsize=8)
panels[1].plot(range(1, 251), [min(1, t / 101) for t in range(1, 251)])
panels[2].plot(range(250), [warmed(step, 250, 1.0) for step in range(250)])
titles = ("Vaswani et al., d = 512", "in the experiment", "warmed")
for axes, title in zip(panels, titles, strict=True):
    axes.set(xlabel="step", title=title)
panels[0].set_ylabel("learning rate")
panels[0].ticklabel_format(axis="y", scilimits=(0, 0))
panels[1].set_ylabel("share of the rate")
plot.show(
    figure,
    alt="Learning rate against step. The schedule of 2017 rises in a line to a peak and falls slowly, later and "
    "lower for larger w. That of the experiment rises in a line and stays. The third rises for a tenth of the "
    "steps and falls in a line to zero.",
)

# %% [markdown]
# Does post-norm need it? Six layers, three rates, with and without.


# %%
def rising(rate, steps, warm_up):
    """One rate a step: up in a line for warm_up steps, then constant."""
    return [rate * min(1, (step + 1) / (warm_up + 1)) for step in range(steps)]


# %%
@lab.experiment(
    "C22",
    block=["post-norm", "post-norm, warm-up", "pre-norm", "pre-norm, warm-up"],
    rate=[8e-3],
    depth=4,
    steps=100,
    warm_up=60,
    length=8,
    full=dict(rate=[2e-3, 4e-3, 8e-3], depth=6, steps=250, warm_up=100, length=16, seeds=3),
)
def before_or_after(block, rate, depth, steps, warm_up, length):
    wiring, _, warm = block.partition(", ")
    rates = rising(rate, steps, warm_up if warm else 0)
    return reverse_with(Reverser(Wired(depth, wiring), length), rates, length)


# %% evidence
# Loss at the end and steps to the goal against the learning rate: figure, table and verdicts
runs = before_or_after.run()
runs.draw(
    x="rate",
    y="loss",
    by="block",
    log="xy",
    lines={"chance, 16 symbols": math.log(16)},
    height=3.6,
    limits=(0.03, 60),
    alt="Loss at the end of training against the learning rate. Post-norm without warm-up is at chance at the "
    "larger rates; the other three stay at the goal over a wide range of rates.",
)
runs.table("block", "steps needed", columns="rate")
for block, bounds in (
    ("post-norm", dict(above=1)),
    ("post-norm, warm-up", dict(below=0.3)),
    ("pre-norm", dict(below=0.3)),
):
    runs.holds(
        f"loss at rate 0.008: {block}",
        lambda rows, block=block: rows.values("loss", block=block, rate=8e-3),
        **bounds,
    )

# %% [markdown]
# At 0.002 post-norm learns by itself, and a hundred steps of warm-up are steps lost. At 0.004 it fails with two seeds of
# three, at 0.008 with all, and warm-up cures it. Pre-norm needs none at any of the three rates and is faster. So
# post-norm needs warm-up *at a large rate*, and large rates are those at which all of this is fastest.
#
# Post-norm is not the worse model for it: in Liu et al. (2020b), where it trained, it ended ahead.
#
# > **C22 · holds with a condition: At rate 0.008 post-norm stays at 2.78, pre-norm takes 80 to 83 steps;
# > at 0.002 both learn.** *The lectures* (deck 1, "What would we like to fix about the Transformer?", "Pre
# > vs Post norm"): to be fixed are "training instabilities (pre vs post norm)"; on the place of the norm
# > there is "the one thing everyone agrees on (in 2024)".
# >
# > *Measured*: Six layers, at most 250 steps, three seeds; loss at the end where the goal of 0.05 was missed (chance 2.77),
# > else the steps to it. Rate 0.008: post-norm 2.78, with a hundred steps of warm-up 153 to 187 steps, pre-norm 80 to
# > 83. Rate 0.004: post-norm 2.67 and 2.75, and 230 steps with one seed; with warm-up 183 to 206; pre-norm 101 to 102.
# > Rate 0.002: post-norm 214 to 250 steps, with warm-up 0.06 to 0.38, pre-norm 141 to 145.
#
# ### Why warm-up helps (E4)
#
# Two answers are on offer. Adam divides by the root of an average of squared gradients, at first over very few of them, and
# warm-up keeps steps small until that average is good (Liu et al., 2020a). Or the *model* cannot bear large steps at
# first: Adam's first step moves every weight by the full rate, however small its gradient, and in an untrained
# post-norm stack such changes add up from layer to layer (Liu et al., 2020b).
#
# We can tell them apart. "Averages first" lets Adam collect its averages at a rate of zero, for as many steps as
# the warm-up has, and then takes full steps. The reverse takes ten full steps first and then warms up. And we ask
# E1's question after each of the first thirty steps: what is left, in the last layer, of the differences
# between tokens?


# %%
FULL_FIRST = "post-norm, ten full steps, then warm-up"


@lab.experiment(
    "E4",
    block=["post-norm", "post-norm, averages first", "post-norm, warm-up", FULL_FIRST, "pre-norm"],
    full=dict(depth=6, steps=250, warm_up=100, length=16, seeds=3),
)
def first_steps(block, rate=8e-3, depth=4, steps=100, warm_up=60, length=8):
    wiring, _, how = block.partition(", ")
    before = {"averages first": [0.0] * warm_up, "ten full steps, then warm-up": [rate] * 10}
    rates = before.get(how, []) + rising(rate, steps, warm_up if "warm-up" in how else 0)
    model, left = Reverser(Wired(depth, wiring), length), []
    probe, _ = tasks.reverse(32, length, length)
    waiting = rates.count(0.0)

    def draw():
        if len(left) <= waiting + 30:
            left.append(apart(model.layers(model.embedded(probe))))
        return tasks.reverse(2 * length, length, length)

    losses = learn(model, draw, token_loss, rates)
    return {
        "steps at a rate above 0": list(range(31)),
        "what is left": left[waiting:],
        "loss": sum(losses[-10:]) / 10,
    }


# %% evidence
# What the first steps leave of the differences between tokens, and the loss at the end: figure, verdicts
runs = first_steps.run()
runs.draw(
    x="steps at a rate above 0",
    y="what is left",
    by="block",
    log="y",
    height=3.6,
    limits=(1e-9, 2),
    alt="Share of what tells tokens apart in the last layer against the first thirty steps, log scale. Post-norm "
    "falls to a few hundredths within a step or two and on to almost nothing, also with averages first. Pre-norm "
    "falls to about a tenth, post-norm with warm-up more slowly.",
)
runs.table("block", "loss")
for block, bounds in (
    ("post-norm", dict(below=0.01)),
    ("post-norm, averages first", dict(below=0.01)),
    ("pre-norm", dict(above=0.02)),
):
    runs.holds(
        f"left after ten steps: {block}",
        lambda rows, block=block: rows.values("what is left", block=block)[:, 10],
        **bounds,
    )
for block, bounds in (
    ("post-norm, averages first", dict(above=1)),
    ("post-norm, warm-up", dict(below=0.3)),
    (FULL_FIRST, dict(above=1)),
):
    runs.holds(
        f"loss at the end: {block}",
        lambda rows, block=block: rows.values("loss", block=block),
        **bounds,
    )

# %% [markdown]
# A single full step takes nearly all of the difference from post-norm, ten leave next to nothing: all tokens are
# equal, as in E1, and training never comes back. Good averages do not help. And ten full steps before a
# warm-up spoil it: the harm is done at once. With warm-up alone the tokens draw together slowly, and not
# all the way; in pre-norm a tenth is left. So here it is the size of the first steps that matters, not
# Adam's averages.
#
# > **E4 · The model cannot bear large steps: ten full ones leave 2e-4 of the differences, also with Adam's
# > averages collected first.** *Our question*: does warm-up help because Adam's averages are poor at first, or
# > because the model cannot bear large steps?
# >
# > *Measured*: Six layers, rate 0.008, three seeds. Left after one full step in post-norm: 0.04 of 0.30 to 0.51, after
# > ten at most 2e-4, and so with averages collected first; the loss ends at 2.78. With warm-up 0.13 to 0.15 after ten
# > steps, loss 0.001; with ten full steps before the warm-up 2.75 to 2.78. Pre-norm: 0.11 to 0.14, loss 0.001.
#
# ## 7. The block
#
# Now we have all parts, and put them together in pre-norm: norm, attention, sum; norm, network, sum. `allowed` is a
# mask of chapter 07. `dropout`, zero here, comes with training in earnest in chapter 11.

# %% evidence
# The block
figure, axes = plot.subplots(width=8.5, height=1.7)
diagrams.line(axes, ["norm", "attention", "+", "norm", "network", "+"])
plot.show(
    figure,
    alt="From left to right: x, norm, attention, sum with x past both; norm, network, sum with the first sum past "
    "both; y.",
)


# %% save
class Block(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x)): (B, n, d) to (B, n, d)."""

    def __init__(self, width, heads, hidden, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.feed_forward = FeedForward(width, hidden)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, allowed=None):
        y = self.norm_1(x)
        x = x + self.drop(self.attention(y, y, allowed))
        return x + self.drop(self.feed_forward(self.norm_2(x)))


# %%
mt.manual_seed(0)
d, heads = 32, 4
block = Block(d, heads, 4 * d)
count = sum(p.numel() for p in block.parameters())
print(f"{count} parameters, 12 d^2 + 9 d: {count == 12 * d**2 + 9 * d}")
x = mt.randn(2, 10, d)
allowed = mt.ones(10, 10).tril().bool()
leaf = x[:1].clone().requires_grad_()
[gradient] = mt.autograd.grad(block(leaf, allowed)[0, 4].sum(), [leaf])
print("gradient of output 5 at tokens 6 to 10:", gradient[0, 5:].abs().sum().item())

# %% [markdown]
# The block leaks nothing: norm, network and sum stay within their token. PyTorch's name for it is
# `nn.TransformerEncoderLayer` with `norm_first=True`. We copy our weights into the library's, which keeps the three
# input projections in one matrix and has biases where we have none, so these are set to zero. Its mask means the
# opposite: *our `allowed` is True where a query may look; its `src_mask` is True where it may not* (chapter 07).

# %% evidence
# Our weights in PyTorch's layer: the same outputs
layer = nn.TransformerEncoderLayer(
    d, heads, dim_feedforward=4 * d, dropout=0.0, batch_first=True, norm_first=True
)
ours = block.state_dict()
projections = [ours[f"attention.{name}.weight"] for name in ("query", "key", "value")]
theirs = {
    "self_attn.in_proj_weight": mt.cat(projections),  # (3 d, d)
    "self_attn.in_proj_bias": mt.zeros(3 * d),
    "self_attn.out_proj.weight": ours["attention.out.weight"],
    "self_attn.out_proj.bias": mt.zeros(d),
}
names = {"linear1": "feed_forward.up", "linear2": "feed_forward.down"}
for name, our_name in (names | {"norm1": "norm_1", "norm2": "norm_2"}).items():
    for kind in ("weight", "bias"):
        theirs[f"{name}.{kind}"] = ours[f"{our_name}.{kind}"]
layer.load_state_dict(theirs)
print("without mask equal:", mt.allclose(block(x), layer(x), atol=1e-5))
print("causal mask, equal:", mt.allclose(block(x, allowed), layer(x, src_mask=~allowed), atol=1e-5))
print("mask the wrong way:", mt.allclose(block(x, allowed), layer(x, src_mask=allowed), atol=1e-5))

# %% [markdown]
# ## 8. Why it helps, and what else would
#
# ### Asked for the identity (C34)
#
# Why can a deep stack not ignore the layers that it does not need? Deck 2's answer: a layer finds it hard to learn
# the identity, $f(x) = x$; with a residual connection it only has to learn $f(x) = 0$. We ask directly: networks in a
# row, width 16, 32 hidden units each, get random vectors and must give them back.


# %%
class Copier(nn.Module):
    """Feed-forward networks in a row, with or without residual connections: (B, d) to (B, d)."""

    def __init__(self, depth, residual, width=16):
        super().__init__()
        self.parts = nn.ModuleList(FeedForward(width, 2 * width) for _ in range(depth))
        self.residual = residual
        for matrix in self.parameters():
            if matrix.ndim == 2:
                nn.init.xavier_uniform_(matrix)

    def forward(self, x):
        for part in self.parts:
            x = x + part(x) if self.residual else part(x)
        return x


def copy_vectors(model, rate, steps):
    """Train the model to give back what it gets; the mean squared errors."""

    def draw():
        x = mt.randn(64, 16)
        return x, x

    return learn(model, draw, F.mse_loss, [rate] * steps)


# %%
@lab.experiment(
    "C34",
    connection=["without", "residual"],
    depth=[1, 8],
    rate=1e-2,
    steps=150,
    full=dict(depth=[1, 2, 4, 8], rate=Tuned(1e-3, 3e-3, 1e-2, lowest="error"), steps=300, seeds=3),
)
def asked_for_the_identity(connection, depth, rate, steps):
    errors = copy_vectors(Copier(depth, residual=connection == "residual"), rate, steps)
    return {"error": sum(errors[-10:]) / 10}


# %% evidence
# Error of networks asked for the identity, against their number: figure and verdicts
runs = asked_for_the_identity.run()
runs.draw(
    x="depth",
    y="error",
    by="connection",
    log="xy",
    lines={"answer of zeros": 1},
    alt="Mean squared error against the number of networks, logarithmic. Without residual connections it rises to "
    "almost one; with them it rises too, but stays far below.",
)
runs.holds(
    "eight networks, without",
    lambda rows: rows.values("error", connection="without", depth=8),
    above=0.5,
)
runs.holds(
    "eight networks, with residual connections",
    lambda rows: rows.values("error", connection="residual", depth=8),
    below=0.4,
)
runs.holds(
    "even one network does better with it: error over error",
    lambda rows: (
        rows.values("error", connection="residual", depth=1)
        / rows.values("error", connection="without", depth=1)
    ),
    below=1,
)

# %% [markdown]
# The identity is hard, zero is easier. But with residual connections, too, eight networks do worse than one. (Our guess:
# they start as random parts and have to be unlearned.)
#
# > **C34 · holds: Eight networks asked for the identity have an error of 0.7, with residual connections
# > 0.03 to 0.07.** *The lectures* (deck 2, "Residual Connections"): "neural network layers actually have a
# > hard time learning the identity function"; to learn zero "is easy".
# >
# > *Measured*: Error of one, two, four and eight networks asked for the identity (an answer of zeros has 1), three seeds,
# > each at its best rate: without residual connections 0.0008 to 0.0017, 0.008 to 0.009, 0.31 to 0.36, 0.72 to 0.76;
# > with them 9e-7 to 3e-6, 1e-4 to 4e-4, 0.0010 to 0.0012, 0.03 to 0.07.
#
# Deck 3 shows the **loss landscape** of a deep network (Li et al., 2018), ragged without residual connections. Ours is
# around the weights that eight networks learned in a short run, along two random directions in weight space.


# %% evidence
# Two slices of the loss landscape of eight networks, and the error at their centres
def direction_of(model):
    """A random direction in weight space; every matrix row as long as the model's own row."""
    rows = [mt.randn(p.shape) for p in model.parameters()]
    return [
        r * p.detach().norm(dim=-1, keepdim=True) / r.norm(dim=-1, keepdim=True)
        for r, p in zip(rows, model.parameters(), strict=True)
    ]


@mt.no_grad()
def landscape(model, offsets):
    """Errors on a square of weights around the model's, along two random directions."""
    mt.manual_seed(0)
    x = mt.randn(128, 16)
    start = [p.detach().clone() for p in model.parameters()]
    first, second = direction_of(model), direction_of(model)
    surface = []
    for a in offsets:
        surface.append([])
        for b in offsets:
            for p, w, u, v in zip(model.parameters(), start, first, second, strict=True):
                p.copy_(w + a * u + b * v)
            surface[-1].append(F.mse_loss(model(x), x).item())
    return surface


offsets = [i / 10 - 0.5 for i in range(11)]
figure, panels = plot.subplots(1, 2, width=7.5, height=2.9, sharey=True)
for axes, residual in zip(panels, (False, True), strict=True):
    mt.manual_seed(0)
    model = Copier(8, residual)
    copy_vectors(model, 1e-2, 150)
    surface = landscape(model, offsets)
    inside = [[min(max(value, 0.1), 10) for value in row] for row in surface]
    levels = [10 ** (k / 4) for k in range(-4, 5)]
    filled = axes.contourf(offsets, offsets, inside, levels, norm="log", cmap="cividis")
    axes.text(0, 0, f"{surface[5][5]:.2f}", ha="center", va="center", color="white")
    title = "with residual connections" if residual else "without"
    axes.set(xlabel="along one direction", title=title)
panels[0].set_ylabel("along another")
bar = figure.colorbar(filled, ax=panels, label="error", ticks=[0.1, 0.3, 1, 3, 10])
bar.ax.set_yticklabels(["0.1", "0.3", "1", "3", "10"])
plot.show(
    figure,
    alt="The error around the trained weights of eight networks, the error at the centre written into it: without "
    "residual connections a wide flat valley, with them a round hole that is deeper.",
)

# %% [markdown]
# It is not ragged but flat, and with residual connections a hole. (A map of a model that has failed does not say what
# made it fail, and two directions are few.)
#
# ### The gradient of the norm (C35)
#
# What matters more about the norm, that the forward pass is normalized, or that the gradient is? Xu et al. (2019)
# compute $\mu$ and $s$ as always but *detach* them: forwards nothing changes, and the gradient is just $g'/s$.


# %%
class Detached(nn.LayerNorm):
    """Layer norm with its mean, its deviation, or both taken for constants by the gradient."""

    def __init__(self, width, mean=False, deviation=False):
        super().__init__(width)
        self.of_mean, self.of_deviation = mean, deviation

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        deviation = (x.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()
        mean = mean.detach() if self.of_mean else mean
        deviation = deviation.detach() if self.of_deviation else deviation
        return (x - mean) / deviation * self.weight + self.bias


NORMS = {
    "layer norm": nn.LayerNorm,
    "mean detached": partial(Detached, mean=True),
    "deviation detached": partial(Detached, deviation=True),
    "both detached": partial(Detached, mean=True, deviation=True),
}

# %% evidence
# What detaching changes: nothing forwards, and backwards as said
mt.manual_seed(0)
x, g = mt.randn(2, 5, 8).double()
detached = NORMS["both detached"](8).double()
print("the same forwards:", mt.allclose(detached(x), F.layer_norm(x, (8,))))
leaf = x.clone().requires_grad_()
[found] = mt.autograd.grad(detached(leaf), [leaf], g)
s = (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
print("both detached, the gradient is g / s:", mt.allclose(found, g / s))


# %% evidence
# Steps and loss with and without the norm's gradient, in pre-norm and post-norm: tables and verdicts
@lab.experiment(
    "C35",
    wiring=["pre-norm", "post-norm"],
    norm=["layer norm", "deviation detached"],
    rate=[2e-3, 8e-3],
    depth=4,
    steps=200,
    length=8,
    full=dict(norm=list(NORMS), seeds=3),
)
def gradient_of_the_norm(wiring, norm, rate, depth, steps, length):
    model = Reverser(Wired(depth, wiring, norm=NORMS[norm]), length)
    return reverse_with(model, [rate] * steps, length)


runs = gradient_of_the_norm.run()
for wiring in ("pre-norm", "post-norm"):
    runs.table("norm", "steps needed", columns="rate", wiring=wiring)
    runs.table("norm", "loss", columns="rate", wiring=wiring)


def steps_or_all(rows, wiring, norm, rate):
    """Steps to the goal, one more than all where it was not reached."""
    needed = rows.values("steps needed", wiring=wiring, norm=norm, rate=rate)
    return np.nan_to_num(needed, nan=rows[0]["steps"] + 1)


for wiring in ("pre-norm", "post-norm"):
    runs.holds(
        f"rate 0.002, {wiring}: more steps without the deviation's gradient, as a ratio",
        lambda rows, wiring=wiring: (
            steps_or_all(rows, wiring, "deviation detached", 2e-3)
            / steps_or_all(rows, wiring, "layer norm", 2e-3)
        ),
        above=1,
    )
runs.holds(
    "rate 0.008, post-norm: a lower loss without it, as a ratio",
    lambda rows: (
        rows.values("loss", wiring="post-norm", norm="deviation detached", rate=8e-3)
        / rows.values("loss", wiring="post-norm", norm="layer norm", rate=8e-3)
    ),
    below=1,
)

# %% [markdown]
# With the mean alone detached nothing changes. Without the deviation's part learning takes more steps, in pre-norm at
# both rates and in post-norm at 0.002. So what the norm's gradient does for speed is the term with $\hat x$, the one
# that takes out stretching; Xu et al., too, found it the more important one. In post-norm at 0.008 it is the other way round: layer norm
# fails (C22), and without that term training does better.
#
# > **C35 · holds with a condition: At rate 0.002 the layers with the norm's whole gradient learn in 91 to
# > 114 steps, without that of the deviation in 170 and more.** *The lectures* (deck 1, "The Transformer
# > Encoder: Layer normalization [Ba et al., 2016]"; deck 3): "LayerNorm's success may be due to its
# > normalizing gradients".
# >
# > *Measured*: Steps to the goal, at most 200, four layers, three seeds, for layer norm, mean detached, deviation
# > detached. Pre-norm, rate 0.002: 91 to 114, 92 to 113, 170 or more; rate 0.008: 60 to 63, 58 to 63, 67 to 83. Post-norm,
# > rate 0.002: 120 to 135, 124 to 139, never; rate 0.008, loss at the end: 0.25 to 2.1, 0.05 to 2.0, 0.04 to 0.15.
#
# ### RMSNorm
#
# Does layer norm need its mean? RMSNorm (Zhang and Sennrich, 2019) leaves it out, and the bias with it:
#
# $$y = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_j x_j^2 + \epsilon}} .$$
#
# What C35 found about the mean makes that plausible, and most large language models of today have it.

# %%
root_mean_square = X.square().mean(1, keepdim=True).sqrt()  # (n, 1)
library = F.rms_norm(X, (4,), eps=0.0)
print("the library's agrees:", mt.allclose(library, X / root_mean_square))
centred = X - X.mean(1, keepdim=True)
agree = mt.allclose(F.rms_norm(centred, (4,)), F.layer_norm(X, (4,)), atol=1e-4)
print("after taking the mean away it is layer norm:", agree)
print("5 x has the same RMSNorm:", mt.allclose(F.rms_norm(5 * X, (4,), eps=0.0), library))
print("x + 3 has the same RMSNorm:", mt.allclose(F.rms_norm(X + 3, (4,), eps=0.0), library))

# %% [markdown]
# ### Speed of training (C21)
#
# How much faster does a norm make training? Besides layer norm we enter RMSNorm; layer norm without gain and bias, of
# which the slides say "(Can omit!)"; no norm; and no norm but a *small start*, as in GPT-2: the matrix that ends each
# part is divided by the root of the number of sums. Each has the rate that is best for it with other seeds.


# %%
@mt.no_grad()
def start_small(layers):
    """Divide the matrix that ends each part by the root of the number of sums."""
    for part in layers.parts:
        last = part.out if isinstance(part, Attend) else part.down
        last.weight.div_(math.sqrt(len(layers.parts)))


CONTESTANTS = {
    "no norm": dict(wiring="residual"),
    "no norm, small start": dict(wiring="residual"),
    "layer norm": dict(wiring="pre-norm"),
    "no gain, no bias": dict(
        wiring="pre-norm", norm=partial(nn.LayerNorm, elementwise_affine=False)
    ),
    "RMSNorm": dict(wiring="pre-norm", norm=nn.RMSNorm),
}


# %% evidence
# Steps to the goal at each one's best rate: tables and verdicts
@lab.experiment(
    "C21",
    contestant=list(CONTESTANTS),
    depth=[2, 4],
    rate=8e-3,
    steps=100,
    length=8,
    full=dict(depth=[2, 6], rate=Tuned(4e-3, 8e-3, 1.6e-2, lowest="loss paid"), seeds=3),
)
def speed_of_training(contestant, depth, rate, steps, length):
    layers = Wired(depth, **CONTESTANTS[contestant])
    model = Reverser(layers, length)
    if contestant.endswith("small start"):
        start_small(layers)
    return reverse_with(model, [rate] * steps, length)


runs = speed_of_training.run()
runs.table("contestant", "steps needed", columns="depth")
runs.table("contestant", "loss", columns="depth")
runs.table("contestant", "rate", columns="depth")
for contestant in ("layer norm", "no gain, no bias", "RMSNorm"):
    runs.holds(
        f"the deep one gets there: {contestant}",
        lambda rows, contestant=contestant: rows.values(
            "loss", contestant=contestant, depth=rows.settings_of("depth")[-1]
        ),
        below=0.2,
    )
runs.holds(
    "from a small start without a norm, too, by the median of the seeds",
    lambda rows: np.median(
        rows.values("loss", contestant="no norm, small start", depth=rows.settings_of("depth")[-1])
    ),
    below=0.2,
)
runs.holds(
    "without either it does not",
    lambda rows: rows.values("loss", contestant="no norm", depth=rows.settings_of("depth")[-1]),
    above=0.5,
)
runs.holds(
    "two layers get there without a norm, too",
    lambda rows: rows.values("loss", contestant="no norm", depth=2),
    below=0.2,
)


# %% [markdown]
# Two layers learn without a norm, a little later. Six end worse than chance at any rate tried; with layer norm they take
# little longer than two, RMSNorm is level with it, and gain and bias can indeed be omitted here. The small start gets there without
# any norm, with two seeds of three. So what the norm cures here is the exploding start of E2, and another start
# cures most of it. (A start keeps sizes in bounds only at the start. GPT-2 has both.)
#
# > **C21 · holds with a condition: Six layers learn in 55 to 66 steps with layer norm and not in 100
# > without; a small start helps, too.** *The lectures* (deck 1, "The Transformer Encoder: Layer
# > normalization [Ba et al., 2016]"; deck 3): "Layer normalization is a trick to help models train faster."
# >
# > *Measured*: Steps to the goal, at most 100, three seeds, each at its best rate. Two layers: no norm 57 to 72, small
# > start 43 to 52, layer norm 33 to 54. Six layers: no norm never, layer norm 55 to 66, without gain and bias 55 to 66,
# > RMSNorm 52 to 72, small start 63, 95 and never.
#
# ### Batch norm
#
# Batch norm (Ioffe and Szegedy, 2015) came first. It has the same formula with other numbers: for each *feature* a mean
# and a variance over all tokens of all sequences of the *batch*, and after training running averages of them.

# %% evidence
# What shares a mean in layer norm and in batch norm
figure, axes = plot.subplots(width=6, height=2.6)
diagrams.shared_means(axes)
plot.show(
    figure,
    alt="Two sentences of four positions, one position of the first and two of the second padding, as rows of six "
    "features. Layer norm takes one row; batch norm takes one column, through both sentences and their padding.",
)


# %% evidence
# What batch norm finds in padded batches, and what it does to one sentence in two of them
def in_company(sentence, length, n=40):
    """The sentence (10, d), first in a batch (32, n, d) of others of this length, padded with 0."""
    x = mt.randn(32, n, sentence.shape[1]) + 2.0  # mean 2, variance 1
    x[:, length:] = 0
    x[0, :10], x[0, 10:] = sentence, 0
    return x


mt.manual_seed(0)
sentence = mt.randn(10, 16) + 2.0
norms = {"batch norm": nn.BatchNorm1d(16), "layer norm": nn.LayerNorm(16)}
found = {name: [] for name in norms}
for length in (36, 10):
    x = in_company(sentence, length).transpose(1, 2)  # (B, d, n), as BatchNorm1d wants it
    p = (x == 0).float().mean().item()
    mean, variance = x.mean().item(), x.var(unbiased=False).item()
    print(f"{p:.0%} padding: mean {mean:.2f}, variance {variance:.2f}; by the formulas", end=" ")
    print(f"{2 * (1 - p):.2f} and {(1 - p) * (1 + 4 * p):.2f}")
    found["batch norm"].append(norms["batch norm"](x)[0, :, :10])
    found["layer norm"].append(norms["layer norm"](x.mT)[0, :10])
for name, (a, b) in found.items():
    print(
        f"the same sentence in two batches, {name}: moved by", round((a - b).abs().max().item(), 2)
    )

# %% [markdown]
# If the real tokens have mean 2 and variance 1, and a share $p$ of all positions is padded with zeros, batch norm finds a
# mean of $2(1 - p)$ and a variance of $(1 - p)(1 + 4p)$. Padding can be left out of the statistics, but then, too, what
# becomes of a sentence depends on its company. Layer norm does not look beyond its token.
#
# ## 9. The table of barriers, filled in
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | positions, in the inputs, by rotation, or in the scores (C17) | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | feed-forward network: XOR of a lone token right, without it at most 3 of 4 | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | mask: scores to minus infinity before the softmax | 07 |
# | one place at a time | one softmax, one place (C14) | several heads | 06 |
# | does not train when deep | gradients (C20) | residual connection and norm together | 09 |
#
# No row is open. Chapter 10 assembles the parts.
#
# **Try it**: take the sum around attention only, or around the network only (`Layers`); start post-norm small, and see
# whether it still needs warm-up; in `first_steps`, let the rate rise over 10 steps in place of 60.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | "Gradient is great through the residual connection; it's 1!" | through the connection, yes | through the layer it is $I + J_f$, through many a product; and post-norm puts a norm on the connection (section 6) |
# | the mean is $\sum_j x_j$ | $\frac1d$ times the sum | section 4 prints what comes out otherwise |
# | normalize to "unit mean" | to mean *zero* and variance one | the mean is taken away |
# | divide by $\sqrt{\sigma + \epsilon}$ with $\sigma$ the standard deviation | by $\sqrt{\sigma^2 + \epsilon}$ | the *variance* stands under the root; the other is its fourth root |
# | divide by $\sigma + \epsilon$ | by $\sqrt{\sigma^2 + \epsilon}$ | nearly the same, except where $\sigma$ is near zero; papers and libraries have the root |
# | divide by $\sigma$, without $\epsilon$ | with $\epsilon$ | a token of equal numbers would give $0/0$ |
# | the output has mean $\beta$ and variance $\gamma^2$ | true only if all $\gamma_j$ are equal, and all $\beta_j$ | gain and bias have one number a feature |
#
# </details>
#
# ## Summary
#
# - Given its weights, attention is linear, and layers of it are one layer. It computes only by comparing tokens; a token
#   alone passes through linearly (C19). The feed-forward network works on each token by itself and holds two
#   thirds of a block's weights.
# - A residual connection makes the Jacobian identity plus $J_f$. It keeps tokens apart (E1), but at a usual start the
#   sums grow and the gradient explodes, mostly through the scores (E2). Layer norm stops the growth. Only both together
#   make depth trainable (C20).
# - Pre-norm keeps the skip path free (E3) and needs no warm-up; post-norm needs it at large rates (C22), because large
#   first steps make all tokens equal (E4).
# - The identity is hard to learn, zero easier (C34). The norm's gradient speeds up learning, through the deviation, not
#   the mean (C35), which RMSNorm leaves out. Two layers need no norm, six need one or a small start (C21). Batch
#   norm shares its statistics with the batch and its padding.
#
# **Exercises**: [set 09](../exercises/09_feed_forward_norm_residual/09_feed_forward_norm_residual.ipynb)
#
# **Read on**: He et al. (2016), *Deep residual learning for image recognition*. Ba, Kiros and Hinton (2016), *Layer
# normalization*. Li et al. (2018), *Visualizing the loss landscape of neural nets*. Xu et al. (2019), *Understanding and
# improving layer normalization*. Zhang and Sennrich (2019), *Root mean square layer normalization*. Xiong et al.
# (2020), *On layer normalization in the Transformer architecture*. Liu et al. (2020a), *On the variance of the adaptive
# learning rate and beyond*. Liu et al. (2020b), *Understanding the difficulty of training Transformers*. Shazeer (2020),
# *GLU variants improve Transformer*. Dong, Cordonnier and Loukas (2021), *Attention is not all you need*. Elhage et al.
# (2021), *A mathematical framework for Transformer circuits*.
