# %% [markdown]
# # 09 Feed-forward network, residual connections and layer norm
#
# We can look at any word, in several ways at once, not at the future, and we know where each word
# stands. Stack eight such layers, even with networks between them, and train: they stay at chance. Two things are missing. One
# is something that *computes* with what attention has brought together; the other is a way of stacking
# that lets a deep network train. This chapter adds both, and ends with the block of which all Transformers
# are made.
#
# **After this chapter you will be able to**
#
# - say precisely in what sense attention only averages, and in what sense it does not;
# - write the position-wise feed-forward network, and count what it costs;
# - explain by its Jacobian what a residual connection does to a gradient, and measure it;
# - write layer norm and its gradient by hand, and say what padding does to batch norm;
# - choose between pre-norm and post-norm, and know when warm-up is needed;
# - assemble the block, and show that it equals PyTorch's encoder layer.
#
# **Time**: about 110 minutes to read and try; all cells together run in about half a minute. **Before
# it**: chapters 05 to 07 (attention, heads, masks); Jacobians and Adam from chapter 00. Chapter 08 helps;
# of it we use only the learned positions.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`.

# %%
import math
from functools import cache, partial

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.data import tasks
from textbook.experiments import Experiments

lab = Experiments("09")


def measured_of(here, full):
    """What this run measured, and what was recorded, if anything was."""
    return {"quick": here} | ({"full": full["result"]} if full else {})


# %% [markdown]
# ## 1. Layers that only mix
#
# The sentence of chapters 05 to 08 comes with us, with small vectors chosen by hand:

# %%
words = "be water my friend".split()
X = mt.tensor(
    [
        [1.0, 0.0, 2.0, -1.0],  # be
        [0.0, 3.0, -1.0, 2.0],  # water
        [1.0, 1.0, 0.0, 0.0],  # my
        [-1.0, 2.0, 1.0, 2.0],  # friend
    ]
).double()  # (n, d), one row a word


def attention_weights(x, Q, K):
    """softmax(x Q (x K)^T / sqrt(d)): row i says how word i looks at each word, (n, n)."""
    return ((x @ Q) @ (x @ K).mT / math.sqrt(Q.shape[1])).softmax(-1)


# %% [markdown]
# One self-attention layer with one head and no output matrix takes $X$ of shape $(n, d)$ to
#
# $$f(X) = A\,X V, \qquad A = \operatorname{softmax}\Big(\tfrac{1}{\sqrt d}\, X Q\,(X K)^\top\Big),$$
#
# with $Q, K, V$ of shape $(d, d)$ and weights $A$ of shape $(n, n)$. Say the weights are given: somebody
# has computed $A$ and now holds it fixed. Then what is left, $X \mapsto A X V$, is a product with a matrix
# from either side: *linear* in $X$. Each output is a mean of the rows of $XV$. Two such layers give
#
# $$A_2\,(A_1 X V_1)\,V_2 = (A_2 A_1)\; X\; (V_1 V_2),$$
#
# and rows of $A_2 A_1$ are again nonnegative and add up to one. So two layers are one layer, with mixed
# weights and one value matrix. Ten are one, too. With $h$ heads and their output matrices it is a sum of
# $h$ such terms for a layer, and of $h^2$ terms for two: more kinds of mixture, but still mixtures.

# %%
mt.manual_seed(1)
Q_1, K_1, Q_2, K_2 = mt.randn(4, 4, 4).double() / 2
V_1, V_2 = mt.randn(2, 4, 4).double()
A_1 = attention_weights(X, Q_1, K_1)
Y = A_1 @ X @ V_1  # the first layer's output
A_2 = attention_weights(Y, Q_2, K_2)
both = A_2 @ A_1

figure, panels = plot.subplots(1, 3, width=9, height=2.7, sharey=True)
titles = {"$A_1$": A_1, "$A_2$": A_2, "$A_2 A_1$": both}
for axes, (title, weights) in zip(panels, titles.items(), strict=True):
    plot.attention(axes, weights, words, words, values=True, colorbar=False, title=title)
    axes.set(xlabel="", ylabel="")
plot.show(
    figure,
    alt="Weights of the first layer, of the second, and their product: four by four numbers in each, "
    "every row adding up to one; the rows of the product are more alike than those of either.",
)

# %%
two_layers = A_2 @ (A_1 @ X @ V_1) @ V_2
print("two layers equal (A_2 A_1) X (V_1 V_2):", mt.allclose(two_layers, both @ X @ (V_1 @ V_2)))
print("rows of A_2 A_1 add up to one:", mt.allclose(both.sum(1), mt.ones(4).double()))

# %% [markdown]
# ### Given its weights, attention is linear (C19)
#
# A function is linear if $f(aX + bY) = a f(X) + b f(Y)$ for all numbers $a$, $b$. We test it twice: with
# the weights held fixed, and with the weights computed from each input, as attention does it.

# %%
other = mt.randn(4, 4).double()


def fixed(x):
    return A_1 @ x @ V_1


def honest(x):
    return attention_weights(x, Q_1, K_1) @ x @ V_1


def departure(f):
    """The largest difference between f(2X - 3Y) and 2f(X) - 3f(Y)."""
    return (f(2 * X - 3 * other) - (2 * f(X) - 3 * f(other))).abs().max().item()


print(
    "C19 holds: with given weights, a departure from linear below 1e-12:", departure(fixed) < 1e-12
)
print("           with weights from the input, it is above 1:", departure(honest) > 1)

# %% [markdown]
# So the sentence of decks 1 and 3, "It's all just weighted averages", is true *given the weights*, and the
# weights hold a softmax of products of the inputs: as a function of its input, attention is not linear at
# all. Is that enough for a task that no linear function can do? A token has two bits, and the question is
# whether they differ: XOR. Token by token, alone in its sequence or among others.
#
# For a sequence of one token, $n = 1$, the softmax has one entry, and it is 1 whatever the score. Then $A
# = (1)$ at every layer, and the whole stack is one matrix: linear. On XOR a linear classifier gets at most
# 3 of the 4 tokens right, and the least cross-entropy it can have is $\log 2$, at which it says one half
# to everything. For $n = 8$ the weights depend on the input, and we do not know. We train two layers of
# four heads, without feed-forward network, and with the one that section 2 explains.


# %%
class MultiHeadAttention(nn.Module):
    """Chapter 06's: x (B, n, d) gives queries, memory (B, m, d) keys and values; gives (B, n, d)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, n, d/h)

    def forward(self, x, memory, allowed=None):
        query, key, value = self.query(x), self.key(memory), self.value(memory)
        mixed = F.scaled_dot_product_attention(
            self.split(query), self.split(key), self.split(value), allowed
        )  # (B, h, n, d/h)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2 for every position by itself: (..., d) to (..., d)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Bits(nn.Module):
    """Two layers of attention between a linear input and a linear read-out, (B, n, 2) to itself."""

    def __init__(self, feed_forward=False, residual=False, width=16):
        super().__init__()
        self.read_in, self.read_out = nn.Linear(2, width), nn.Linear(width, 2)
        self.attentions = nn.ModuleList(MultiHeadAttention(width, 4) for _ in range(2))
        self.networks = nn.ModuleList(
            FeedForward(width, 4 * width) if feed_forward else nn.Identity() for _ in range(2)
        )
        self.kept = float(residual)

    def forward(self, bits):
        x = self.read_in(bits)
        for attention, network in zip(self.attentions, self.networks, strict=True):
            x = self.kept * x + attention(x, x)
            if isinstance(network, FeedForward):
                x = self.kept * x + network(x)
        return self.read_out(x)


STACKS = {
    "attention": Bits,
    "with feed-forward": partial(Bits, feed_forward=True),
    "with feed-forward and residual": partial(Bits, feed_forward=True, residual=True),
}


def learn_xor(stack, n, seed, steps, rate=1e-2):
    """Accuracy after training on XOR, and on sequences that hold one token n times."""
    mt.manual_seed(seed)
    model = STACKS[stack]()
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        bits, differ = tasks.xor(64, n)
        loss = F.cross_entropy(model(bits).flatten(0, 1), differ.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bits, differ = tasks.xor(1000, n)
    kinds = mt.tensor([[[0.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]]]).expand(4, n, 2)
    same = model(kinds).argmax(-1) == mt.tensor([[0], [1], [1], [0]])
    return {
        "accuracy": (model(bits).argmax(-1) == differ).float().mean().item(),
        "one kind": same.float().mean().item(),
    }


@lab.experiment(
    "C19",
    quick=dict(seeds=[0], steps=160, stacks=["attention", "with feed-forward"]),
    full=dict(seeds=[0, 1, 2], steps=300, stacks=list(STACKS)),
)
def xor(seeds, steps, stacks):
    return {
        stack: {str(n): [learn_xor(stack, n, seed, steps) for seed in seeds] for n in (1, 8)}
        for stack in stacks
    }


xor_here = xor.run()
xor_full = xor.recorded

# %% tags=["nbval-ignore-output"]
print("                                        one token     8 tokens   8 times the same token")
for setting, result in measured_of(xor_here, xor_full).items():
    for stack, by_length in result.items():
        alone, among = by_length["1"], by_length["8"]
        for seed, (one, eight) in enumerate(zip(alone, among, strict=True)):
            row = f"{one['accuracy']:8.3f} {eight['accuracy']:12.3f} {eight['one kind']:12.2f}"
            print(f"{setting:5} {stack:31} seed {seed} {row}")

# %%
alone, among = xor_here["attention"]["1"][0], xor_here["attention"]["8"][0]
helped = xor_here["with feed-forward"]["1"][0]
print("C19 holds: attention, one token, at most 0.8 right:", alone["accuracy"] <= 0.8)
print("           attention, 8 tokens, above 0.8:", among["accuracy"] > 0.8)
print("           the same, 8 times one token, at most 3 of 4 kinds:", among["one kind"] <= 0.75)
print("           with feed-forward, one token, above 0.95:", helped["accuracy"] > 0.95)

# %% [markdown]
# One token alone: nothing, as it must be. (All answers are near one half, so which of the four kinds
# happen to be right is an accident.) Among seven others, attention without any feed-forward network learns
# XOR. Where does the nonlinearity come from? Write out what one head gives token $i$:
#
# $$\text{output}_i = \frac{\sum_j e^{q_i^\top k_j / \sqrt d}\; v_j}{\sum_j e^{q_i^\top k_j / \sqrt d}} .$$
#
# The query $q_i$ is linear in token $i$, but it stands in an exponent. If the sequence holds tokens of
# different kinds, the others work like the hidden units of a network: unit $j$ answers to $q_i$ with
# $e^{q_i^\top k_j}$, and $v_j$ says what follows from it. In the last column we feed the same trained
# model eight copies of one token. Now all $v_j$ are equal, any weights give the same mean, the model is
# linear in the token, and it cannot get more than three of the four kinds right. (Nor do the stacks with
# feed-forward alone, to which nothing forbids it: the column agrees with the argument and does not prove
# it.) So attention computes, but only by comparing tokens with one another. What a token *alone* means it
# cannot work out. That takes a network of its own.
#
# (A surprise in the same table: in the full runs, the stack with feed-forward networks is always right on
# single tokens, but among eight not always, where attention alone had nearly all. We have not measured why;
# one suspect is that the networks have only mixtures to work with. The last stack adds what it computes to
# what it was given, and gets everything right with all seeds. That is section 3.)
#
# > **C19 · holds if the weights are given.** *The lectures* (deck 1, "Adding nonlinearities in
# > self-attention"; deck 3; deck 5, "Self-Attention is Linear"): "stacking more self-attention layers just
# > re-averages value vectors"; "every self-attention 'layer' is a linear transformation of the previous layer
# > (with non-linear weights)".
# >
# > *Measured*: With given weights the departure from a linear function is below 1e-12, with weights from the
# > input above 1. XOR, three seeds: attention alone is right on a single token in 0.24 to 0.51, on eight
# > tokens in 0.995 to 1.000; with feed-forward networks 1.000 on a single token and 0.620 to 0.996 on eight;
# > with residual connections too 1.000 on both.
#
# ## 2. The feed-forward network
#
# After attention has brought together what belongs together, each position gets a small network with one
# hidden layer, the same at every position:
#
# $$\operatorname{FFN}(x) = \operatorname{ReLU}(x W_1 + b_1)\, W_2 + b_2 .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x$ | one position's vector | $(d)$ |
# | $W_1$, $b_1$ | into the hidden layer of $m$ units; $m = 4d$ is usual | $(d, m)$, $(m)$ |
# | $W_2$, $b_2$ | and back | $(m, d)$, $(d)$ |
#
# XOR takes two hidden units, by hand: $|a - b| = \operatorname{ReLU}(a - b) + \operatorname{ReLU}(b - a)$.

# %%
W_1 = mt.tensor([[1.0, -1.0], [-1.0, 1.0]])  # (2, m) with m = 2
W_2 = mt.tensor([[1.0], [1.0]])  # (m, 1)
for pair in ([0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]):
    print(pair, "differ:", ((mt.tensor(pair) @ W_1).relu() @ W_2).item())

# %% [markdown]
# **Position-wise** means that no position sees another. The class `FeedForward` above takes a whole batch
# at once; we hold it against a loop over the words of our sentence:

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
print(
    "changing word 2 changes the output at:",
    [word for word, m in zip(words, moved, strict=True) if m],
)

# %% [markdown]
# The division of labour shows in the Jacobians, $\partial\, \text{output} / \partial\, \text{input}$, here
# $16 \times 16$: four words of four numbers each.


# %%
def jacobian(f, x):
    """d f(x) / d x for x (n, d), as a matrix (n d, n d)."""
    x = x.clone().requires_grad_()
    rows = [mt.autograd.grad(y, x, retain_graph=True)[0].flatten() for y in f(x).flatten()]
    return mt.stack(rows)


attention = MultiHeadAttention(4, 2).double()


def attend(x):
    return attention(x.unsqueeze(0), x.unsqueeze(0)).squeeze(0)


parts = {
    "attention": attend,
    "feed-forward": network,
    "feed-forward after attention": lambda x: network(attend(x)),
}
figure, panels = plot.subplots(1, 3, width=9, height=2.9, sharey=True)
for axes, (title, part) in zip(panels, parts.items(), strict=True):
    sizes = jacobian(part, X).abs()
    plot.heatmap(
        axes, sizes > 1e-12, cmap="Blues", vmin=0, vmax=1.5, colorbar=False, aspect="equal"
    )
    axes.set_xticks([1.5, 5.5, 9.5, 13.5], words)
    axes.set_yticks([1.5, 5.5, 9.5, 13.5], words)
    axes.set(xlabel="input", title=title)
panels[0].set_ylabel("output")
plot.show(
    figure,
    alt="Where the Jacobian is not zero. Attention: everywhere. Feed-forward: four blocks on the diagonal. "
    "Both: everywhere.",
)

# %%
blocks = jacobian(network, X).reshape(4, 4, 4, 4).abs().sum((1, 3))  # (n, n)
print(
    "feed-forward: gradient between different words:", (blocks - blocks.diag().diag()).sum().item()
)

# %% [markdown]
# **What it costs.** Attention has four matrices of $d^2$ numbers, the feed-forward network with $m = 4d$
# two of $4d^2$: twice as many. Two thirds of a block's weights are here.

# %%
d, n = 64, 32
layers = {"attention": MultiHeadAttention(d, 4), "feed-forward": FeedForward(d, 4 * d)}
for name, layer in layers.items():
    matrices = sum(p.numel() for p in layer.parameters() if p.ndim == 2)
    inputs = (mt.zeros(1, n, d),) * (2 if name == "attention" else 1)
    with count_flops() as counter:
        layer(*inputs)
    print(
        f"{name:13} {matrices / d**2:.0f} d^2 weights, {counter.total / (n * d**2):.1f} n d^2 FLOPs"
    )

# %% [markdown]
# (Attention: 8 for its four matrices, and $4n/d = 2$ for scores and mixing.)
#
# ## 3. Residual connections
#
# Attention, network, attention, network: why not twelve of each? Here is what happens to random tokens on
# their way through twelve untrained layers.
#
# ### What is left of a token (E1)
#
# We measure how different the tokens of a sequence still are: the distance of the rows of $X$ from their
# mean, relative to the size of $X$. 1 means nothing in common, 0 means that all tokens are the same.


# %%
@mt.no_grad()
def spread_by_depth(network, residual, seed, depth=12, n=16, width=32):
    """How far tokens are from their mean, relative to their size, after 0, 1, ... layers."""
    mt.manual_seed(seed)
    x, shares = mt.randn(1, n, width).double(), []
    for _ in range(depth + 1):
        shares.append(((x - x.mean(1, keepdim=True)).norm() / x.norm()).item())
        attention = MultiHeadAttention(width, 4).double()
        parts = [lambda x, attention=attention: attention(x, x)]
        if network:
            parts.append(FeedForward(width, 4 * width).double())
        for part in parts:
            x = x + part(x) if residual else part(x)
    return shares


@lab.experiment("E1", quick=dict(seeds=[0]), full=dict(seeds=[0, 1, 2, 3, 4]))
def what_is_left(seeds):
    kinds = {
        "attention": (False, False),
        "attention, feed-forward": (True, False),
        "both, with residual": (True, True),
    }
    return {name: [spread_by_depth(*kind, seed) for seed in seeds] for name, kind in kinds.items()}


left_here = what_is_left.run()
left_full = what_is_left.recorded

# %%
figure, axes = plot.subplots(width=7, height=2.7)
for name, runs in (left_full["result"] if left_full else left_here).items():
    plot.spread(axes, range(13), runs, marker="o", markersize=4, label=name)
axes.set(yscale="log", xlabel="layers passed", ylabel="what is left")
axes.set_title("full: five seeds" if left_full else "quick: one seed")
axes.legend(loc="center right")
plot.show(
    figure,
    alt="Share of what tells tokens apart against layers passed, log scale: without residual connection "
    "it falls to rounding error within three layers; with it, 0.7 or more is left after twelve.",
)

# %%
after = {name: runs[0][4] for name, runs in left_here.items()}
print("E1: after four layers of attention less than 1e-6 is left:", after["attention"] < 1e-6)
print("    with feed-forward networks too:", after["attention, feed-forward"] < 1e-6)
print("    with residual connections more than a half:", after["both, with residual"] > 0.5)

# %% [markdown]
# Untrained weights, as `nn.Linear` starts them (section 1 drew larger ones), are nearly even, so a layer
# gives every token nearly the same mean. After three layers all tokens are equal to the last digit, and a
# network at each position cannot tell equal tokens apart. (Dong et al., 2021, prove it: without residual
# connections, attention loses rank doubly exponentially with depth.) The cure is to *add* what a layer
# computes to what it was given:
#
# $$y = x + f(x),$$
#
# with $f$ attention or the feed-forward network, and $x$, $y$, $f(x)$ of the same shape. $f$ only has to
# learn what is to be changed, the *residual*. Backwards, by the chain rule,
#
# $$\frac{\partial y}{\partial x} = I + J_f, \qquad
# \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} + J_f^\top\, \frac{\partial L}{\partial y},$$
#
# where $J_f$ is the Jacobian of $f$ and $I$ the identity. Whatever $f$ is, the gradient of $y$ comes
# through whole, and what $f$ has to say is added to it.

# %%
whole = jacobian(lambda x: x + network(x), X)
identity_plus = mt.eye(16).double() + jacobian(network, X)
print("the Jacobian of x + f(x) is I + J_f:", mt.allclose(whole, identity_plus))

# %% [markdown]
# So the gradient of $L$ layers is the product $(I + J_1) \cdots (I + J_L)$. That is 1 only if the $J$ are
# small. If they are not, it grows, as we will see in a minute. And if a norm stands on the connection, not
# even the identity is left (section 7).
#
# > **E1 · nothing, without residual connections.** *Our question*: what is left of the differences between
# > tokens after a stack of untrained layers?
# >
# > *Measured*: After four layers of attention less than 1e-6 of them, with feed-forward networks too; with
# > residual connections more than a half, and 0.72 to 0.80 after twelve (five seeds).
#
# ### The gradient at the start (E2)
#
# From here on we need a deep model and a task. The task: say a sequence backwards. Every position has to
# look at another one, so attention is needed, and the position itself has to be known, so we add learned
# positions (chapter 08). The model: an embedding, $L$ blocks of attention and feed-forward network, a
# linear output. How $x$, a part $f$ and a norm are joined is the *wiring*. There are five ways. The norm,
# section 4 explains; for now it is something that brings each token's vector back to a standard size.

# %%
WIRINGS = {
    "neither": lambda x, part, norm: part(x),
    "norm": lambda x, part, norm: norm(part(x)),
    "residual": lambda x, part, norm: x + part(x),
    "post-norm": lambda x, part, norm: norm(x + part(x)),
    "pre-norm": lambda x, part, norm: x + part(norm(x)),
}


class AnyBlock(nn.Module):
    """Attention and a feed-forward network, each joined to its input as the wiring says."""

    def __init__(self, width, heads, hidden, wiring, norm=nn.LayerNorm):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.feed_forward = FeedForward(width, hidden)
        self.norm_1, self.norm_2 = norm(width), norm(width)
        self.wiring = wiring

    def forward(self, x):
        join = WIRINGS[self.wiring]
        x = join(x, lambda x: self.attention(x, x), self.norm_1)
        return join(x, self.feed_forward, self.norm_2)


class Reverser(nn.Module):
    """Tokens (B, n) to scores (B, n, V) through blocks of one wiring, n = V = ``length``."""

    def __init__(self, depth, wiring, length, width=32, norm=nn.LayerNorm):
        super().__init__()
        self.tokens, self.places = nn.Embedding(length, width), nn.Embedding(length, width)
        blocks = (AnyBlock(width, 4, 4 * width, wiring, norm) for _ in range(depth))
        self.blocks = nn.ModuleList(blocks)
        self.last = norm(width) if wiring == "pre-norm" else nn.Identity()
        self.out = nn.Linear(width, length)
        for matrix in (p for part in (self.blocks, self.out) for p in part.parameters()):
            if matrix.ndim == 2:
                nn.init.xavier_uniform_(matrix)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.out(self.last(x))


# %%
def gradients_by_depth(wiring, seed, branches=True, depth=12, length=16):
    """Norms of d loss / d state before the first block and after each, at the start of training.

    Without ``branches``, only what flows back along the skip connections and through the norms.
    """
    mt.manual_seed(seed)
    model, join = Reverser(depth, wiring, length), WIRINGS[wiring]
    tokens, targets = tasks.reverse(2 * length, length, length)

    def branch(part):
        return part if branches else lambda x: part(x).detach()

    states = [model.tokens(tokens) + model.places.weight]
    for block in model.blocks:
        x = join(states[-1], branch(lambda x, block=block: block.attention(x, x)), block.norm_1)
        states.append(join(x, branch(block.feed_forward), block.norm_2))
    for state in states:
        state.retain_grad()
    scores = model.out(model.last(states[-1]))
    F.cross_entropy(scores.flatten(0, 1), targets.flatten()).backward()
    return [state.grad.norm().item() for state in states]


@lab.experiment("E2", quick=dict(seeds=[0]), full=dict(seeds=[0, 1, 2, 3, 4]))
def gradients_at_the_start(seeds):
    return {
        "all": {name: [gradients_by_depth(name, seed) for seed in seeds] for name in WIRINGS},
        "skip path": {
            name: [gradients_by_depth(name, seed, branches=False) for seed in seeds]
            for name in ("post-norm", "pre-norm")
        },
    }


gradients_here = gradients_at_the_start.run()
gradients_full = gradients_at_the_start.recorded

# %%
shown = gradients_full["result"] if gradients_full else gradients_here
figure, axes = plot.subplots(width=7, height=3)
for name in WIRINGS:
    plot.spread(axes, range(13), shown["all"][name], marker="o", markersize=4, label=name)
axes.set(yscale="log", xlabel="blocks passed", ylabel="norm of d loss / d state")
axes.set_title(
    "12 untrained blocks, " + ("full: five seeds" if gradients_full else "quick: one seed")
)
figure.legend(loc="outside right center")
plot.show(
    figure,
    alt="Norm of the gradient at each block on a log scale. Neither: falling by four powers of ten towards "
    "the input. Residual alone: rising by seven to nine. The three wirings with a norm: level.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(gradients_here, gradients_full).items():
    for name, runs in result["all"].items():
        ratios = ", ".join(f"{run[0] / run[-1]:.1e}" for run in runs)
        print(f"{setting:5} {name:9} gradient at the input over gradient at the output: {ratios}")

# %%
ratio = {name: runs[0][0] / runs[0][-1] for name, runs in gradients_here["all"].items()}
print("E2: neither: the gradient vanishes, ratio below 0.01:", ratio["neither"] < 0.01)
print("    residual alone: it explodes, ratio above 1000:", ratio["residual"] > 1000)
level = all(0.1 < ratio[name] < 10 for name in ("norm", "post-norm", "pre-norm"))
print("    with a norm: between 0.1 and 10:", level)

# %% [markdown]
# With neither, the gradient vanishes, as in chapter 01 it did over time. With a residual connection alone it
# explodes: at this start (Xavier's, which gives each matrix the scale that keeps sizes even) every $f(x)$ is
# about as large as $x$, so each sum is larger than the last. (The gradient grows faster than the sums; we
# have not taken apart why.) A norm keeps it level in all three wirings. But a level gradient is not enough,
# as we see next.
#
# > **E2 · not without a norm.** *Our question*: does a residual connection keep the gradient level at the
# > start? (Deck 3: "Gradient is great through the residual connection; it's 1!")
# >
# > *Measured*: Gradient at the input over that at the output of twelve untrained blocks, five seeds: with
# > neither 1.1e-4 to 5.8e-4, residual alone 1.8e7 to 1.9e9, norm alone 0.28 to 1.1, post-norm 0.46 to 1.3,
# > pre-norm 2.5 to 2.7. Along the skip path alone (section 7) it is 1.0000 in pre-norm and 0.0046 to 0.0084
# > in post-norm.
#
# ### Depth with and without (C20)
#
# Now we train. Adam, the same start, the same learning rate for all, until the mean loss of ten steps is
# below 0.05 or the steps are out. If layers that are not needed could simply be passed through, a deeper
# model could not be worse than a shallow one.


# %%
def shrink(model):
    """Divide the matrices that end each branch by sqrt(2L), as GPT-2 starts."""
    with mt.no_grad():
        for block in model.blocks:
            block.attention.out.weight.div_(math.sqrt(2 * len(model.blocks)))
            block.feed_forward.down.weight.div_(math.sqrt(2 * len(model.blocks)))


GOAL = 0.05


@cache
def run_once(wiring, depth, rate, steps, seed, length, warm_up, norm, small):
    mt.manual_seed(seed)
    model = Reverser(depth, wiring, length, norm=norm)
    if small:
        shrink(model)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for step in range(1, steps + 1):
        tokens, targets = tasks.reverse(2 * length, length, length)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / warm_up if warm_up else 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step >= 10 and sum(losses[-10:]) / 10 < GOAL:
            break
    return losses


def learning(wiring, depth, rate, steps, seed, length, warm_up=0, norm=nn.LayerNorm, small=False):
    """Losses on ``length`` symbols to be reversed, step by step, until ten have a mean of GOAL."""
    return run_once(wiring, depth, rate, steps, seed, length, warm_up, norm, small)


def end(losses):
    """The mean loss of the last ten steps."""
    return sum(losses[-10:]) / 10


@lab.experiment(
    "C20",
    quick=dict(seeds=[0], depths=[1, 4], rate=8e-3, steps=100, length=8, others=[]),
    full=dict(
        seeds=[0, 1, 2], depths=[1, 2, 4, 8], rate=2e-3, steps=220, length=16, others=[1e-3, 4e-3]
    ),
)
def depth_with_and_without(seeds, depths, rate, steps, length, others):
    plain = ["neither", "norm", "residual", "pre-norm"]
    return {
        "ends": {
            name: {
                str(depth): [end(learning(name, depth, rate, steps, s, length)) for s in seeds]
                for depth in depths
            }
            for name in plain
        },
        "rates": {
            name: {str(other): end(learning(name, 4, other, steps, 0, length)) for other in others}
            for name in plain
        },
    }


depth_here = depth_with_and_without.run()
depth_full = depth_with_and_without.recorded

# %%
PLAIN = {
    "neither": "neither",
    "norm": "norm alone",
    "residual": "residual alone",
    "pre-norm": "both (pre-norm)",
}
figure, panels = plot.subplots(1, 2 if depth_full else 1, width=8.5, height=2.9, squeeze=False)
settings = {"quick: 8 symbols, one seed": depth_here}
if depth_full:
    settings["full: 16 symbols, three seeds"] = depth_full["result"]
for axes, (title, result) in zip(panels[0], settings.items(), strict=True):
    for name, label in PLAIN.items():
        by_depth = result["ends"][name]
        depths = sorted(map(int, by_depth))
        runs = zip(*(by_depth[str(depth)] for depth in depths), strict=True)
        plot.spread(axes, depths, list(runs), marker="o", label=label)
    axes.set(xlabel="blocks", ylabel="loss at the end", yscale="log", xscale="log", title=title)
    axes.set_xticks(depths, depths)
    axes.minorticks_off()
    axes.axhline(math.log(8 if "quick" in title else 16), color="0.5", linewidth=1, linestyle="-")
figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
plot.show(
    figure,
    alt="Loss at the end of training against the number of blocks. All four start at the goal with one "
    "block. Neither, norm alone and residual alone rise towards chance with depth; both together stay "
    "at the goal.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(depth_here, depth_full).items():
    for name, by_depth in result["ends"].items():
        for depth in sorted(by_depth, key=int):
            row = ", ".join(f"{loss:.3f}" for loss in by_depth[depth])
            print(f"{setting:5} {PLAIN[name]:15} {depth} blocks: loss at the end {row}")
for name, by_rate in (depth_full["result"]["rates"] if depth_full else {}).items():
    row = ", ".join(f"{loss:.3f} at {rate}" for rate, loss in by_rate.items())
    print(f"other rates, 4 blocks, one seed: {PLAIN[name]:15} {row}")

# %%
deep = {name: by_depth["4"][0] for name, by_depth in depth_here["ends"].items()}
shallow = {name: by_depth["1"][0] for name, by_depth in depth_here["ends"].items()}
print("C20 holds: one block, all four below 0.2:", max(shallow.values()) < 0.2)
print(
    "           four blocks, neither and norm alone above 1:",
    min(deep["neither"], deep["norm"]) > 1,
)
print("           four blocks, residual and norm below 0.2:", deep["pre-norm"] < 0.2)

# %% [markdown]
# One block learns the task in any wiring. Then depth hurts, and in the full runs it does so for all seeds.
# With neither, and with the norm alone, two blocks miss the goal already. The residual connection alone still
# carries two blocks, but not four; with eight the loss is far *worse* than chance: that is the explosion of
# E2. Only both together reach the goal at every depth with every seed. So at this start it is not the
# residual connection that cures depth, nor the norm, but the two: one keeps tokens apart and lets the
# gradient through, the other keeps the sums in bounds.
#
# > **C20 · holds only together with the norm.** *The lectures* (deck 2, "Residual Connections"; deck 1, "The
# > Transformer Encoder: Residual connections [He et al., 2016]"; deck 3): with more layers early deep
# > networks got worse ("degradation"); add the input of a layer to its output.
# >
# > *Measured*: Loss at the end of training, three seeds, chance 2.77, goal 0.05. Eight blocks: neither 2.71
# > to 2.73, norm alone 2.72 to 2.78, residual alone 6.2 to 16.9, both 0.047 to 0.048. Four blocks: the first
# > three 2.49 to 2.63, both 0.048 to 0.049; half and twice the learning rate save none of the three (one
# > seed). One block: all 0.045 to 0.050.
#
# ### Asked for the identity (C34)
#
# Why can a deep stack not ignore the layers that it does not need? Deck 2's answer: because a layer
# finds it hard to learn the identity, $f(x) = x$. With a residual connection it only has to learn $f(x) =
# 0$. We ask directly: $L$ feed-forward networks in a row, width 16, 32 hidden units each, get random
# vectors and must give them back. An answer of all zeros has an error of 1.


# %%
class Copier(nn.Module):
    """Feed-forward networks one after the other, with or without a residual connection."""

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


@cache
def asked_for_identity(depth, residual, rate, steps, seed, width=16):
    """A stack trained to give back its input, and the mean squared errors step by step."""
    mt.manual_seed(seed)
    model = Copier(depth, residual, width)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        x = mt.randn(64, width)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def direction_of(model):
    """A random direction in weight space; every matrix row as long as the model's own row."""
    rows = [mt.randn(p.shape) for p in model.parameters()]
    return [
        r * p.detach().norm(dim=-1, keepdim=True) / r.norm(dim=-1, keepdim=True)
        for r, p in zip(rows, model.parameters(), strict=True)
    ]


@mt.no_grad()
def landscape(model, reach, points, seed=0):
    """Errors on a square of weights around the model's, along two random directions."""
    mt.manual_seed(seed)
    x = mt.randn(128, 16)
    start = [p.detach().clone() for p in model.parameters()]
    first, second = direction_of(model), direction_of(model)
    steps = [reach * (2 * i / (points - 1) - 1) for i in range(points)]
    surface = []
    for a in steps:
        surface.append([])
        for b in steps:
            for p, w, u, v in zip(model.parameters(), start, first, second, strict=True):
                p.copy_(w + a * u + b * v)
            surface[-1].append(F.mse_loss(model(x), x).item())
    for p, w in zip(model.parameters(), start, strict=True):
        p.copy_(w)
    return surface


@lab.experiment(
    "C34",
    quick=dict(seeds=[0], depths=[1, 8], rates=[1e-2], steps=150),
    full=dict(seeds=[0, 1, 2], depths=[1, 2, 4, 8], rates=[1e-3, 3e-3, 1e-2], steps=300),
)
def identity(seeds, depths, rates, steps):
    def error(depth, residual, rate, seed):
        return end(asked_for_identity(depth, residual, rate, steps, seed)[1])

    return {
        name: {
            str(depth): {
                str(rate): [error(depth, residual, rate, seed) for seed in seeds] for rate in rates
            }
            for depth in depths
        }
        for name, residual in {"without": False, "with": True}.items()
    }


identity_here = identity.run()
identity_full = identity.recorded

# %%
deep_models = {
    f"{name} residual, {8} networks": asked_for_identity(8, residual, 1e-2, 150, 0)[0]
    for name, residual in {"without": False, "with": True}.items()
}


def best_of_rates(by_rate):
    """The runs at the learning rate whose median error is smallest."""
    return min(by_rate.values(), key=lambda runs: sorted(runs)[len(runs) // 2])


figure, panels = plot.subplots(1, 3, width=9, height=2.9, width_ratios=[1.15, 1, 1.15])
shown = identity_full["result"] if identity_full else identity_here
for name in ("without", "with"):
    by_depth = shown[name]
    depths = sorted(map(int, by_depth))
    runs = zip(*(best_of_rates(by_depth[str(depth)]) for depth in depths), strict=True)
    plot.spread(panels[0], depths, list(runs), marker="o", label=f"{name} residual")
panels[0].set(yscale="log", xlabel="networks in a row", ylabel="mean squared error")
panels[0].set_title("full: best of three rates" if identity_full else "quick")
panels[0].legend()
levels = [10 ** (k / 4) for k in range(-4, 5)]
for axes, (title, model) in zip(panels[1:], deep_models.items(), strict=True):
    surface = landscape(model, 0.5, 11)
    steps = [i / 10 - 0.5 for i in range(11)]
    inside = [[min(max(value, 0.1), 10) for value in row] for row in surface]
    filled = axes.contourf(steps, steps, inside, levels, norm="log", cmap="cividis")
    axes.set(xlabel="one direction", title=title)
panels[1].set_ylabel("another")
bar = figure.colorbar(filled, ax=panels[2], label="error", ticks=[0.1, 1, 10])
bar.ax.set_yticklabels(["0.1", "1", "10"])
plot.show(
    figure,
    alt="Left: error against the number of networks; without residual it rises to almost one, with it, it "
    "stays far below. Middle and right: the error around the trained weights of eight networks: without "
    "residual a wide flat valley at 0.8, with residual a round hole that goes down to 0.2.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(identity_here, identity_full).items():
    for name, by_depth in result.items():
        for depth in sorted(by_depth, key=int):
            row = ", ".join(f"{error:.4f}" for error in best_of_rates(by_depth[depth]))
            print(f"{setting:5} {name:7} residual, {depth} networks, error at the best rate: {row}")

# %%
errors = {
    name: {depth: best_of_rates(by_rate)[0] for depth, by_rate in by_depth.items()}
    for name, by_depth in identity_here.items()
}
print("C34 holds: 8 networks without residual, error above 0.5:", errors["without"]["8"] > 0.5)
print("           8 networks with residual, below 0.4:", errors["with"]["8"] < 0.4)
print(
    "           even for one network it is smaller:", errors["with"]["1"] < errors["without"]["1"]
)

# %% [markdown]
# The identity is hard, zero is easier. But not to the letter, for with residual connections, too, eight
# networks do worse than one. A likely reason: they start as random parts, not as zeros, and have to be
# unlearned.
#
# The two maps are slices of the **loss landscape** around the weights that the quick runs trained, in the
# manner of Li et al. (2018): two random directions in weight space, each row of them as long as the
# model's own row. Without residual connection we look down on a wide floor at 0.8 which hardly slopes to
# anywhere; with it, into a round hole. Deck 3 shows the picture of a deep network for images, ragged
# without residual connections. Ours is not ragged but flat. It is also the map of a model that has
# failed, and does not say what made it fail. And both are two directions out of 8,576.
#
# > **C34 · holds.** *The lectures* (deck 2, "Residual Connections"): "neural network layers actually have a
# > hard time learning the identity function"; to learn zero "is easy".
# >
# > *Measured*: Error of one, two, four and eight networks asked for the identity (an answer of zeros has 1),
# > three seeds, the best of three rates: without residual connection 0.003 to 0.005, 0.008 to 0.009, 0.34 to
# > 0.39, 0.72 to 0.76; with it 0.0001 to 0.0002, 0.0007 to 0.0010, 0.006 to 0.008, 0.03 to 0.07.

# %% [markdown]
# ## 4. Layer normalization
#
# Sums grow. How long does a token's vector become in section 3's stack with residual connections alone,
# before training?

# %% tags=["nbval-ignore-output"]
mt.manual_seed(0)
deep = Reverser(12, "residual", 16)
x = start = deep.tokens(mt.arange(16).unsqueeze(0)) + deep.places.weight
for block in deep.blocks:
    x = block(x)
growth = (x.norm(dim=-1) / start.norm(dim=-1)).mean().item()
print(f"after 12 blocks it is {growth:.0f} times as long")

# %% [markdown]
# Each layer would have to cope with the scale that the layers below happen to give it. Layer norm (Ba, Kiros and Hinton, 2016) takes the scale out. For one token's vector $x$ of shape $(d)$:
#
# $$\mu = \frac1d \sum_{j=1}^{d} x_j, \qquad \sigma^2 = \frac1d \sum_{j=1}^{d} (x_j - \mu)^2, \qquad
# \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = \gamma \odot \hat x + \beta .$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $\mu$, $\sigma^2$ | mean and variance of the $d$ numbers of *one token* | numbers |
# | $\epsilon$ | $10^{-5}$, so that equal numbers do not give $0/0$ | a number |
# | $\hat x$ | the same with mean 0 and variance 1 | $(d)$ |
# | $\gamma$, $\beta$ | **gain** and **bias**, learned, the same for all tokens | $(d)$ |
#
# ("Water" is $(0, 3, -1, 2)$. Its mean is 1, the differences are $(-1, 2, -2, 1)$, their squares add up to
# 10, so the variance is 2.5 and its root 1.581. That gives $(-0.632, 1.265, -1.265, 0.632)$.)


# %%
def layer_norm(x, gain, bias, eps=1e-5):
    """Each last-axis vector with mean 0 and variance 1, times gain, plus bias: (..., d)."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    variance = (x - mean).square().mean(-1, keepdim=True)  # (..., 1)
    return (x - mean) / (variance + eps).sqrt() * gain + bias


gain, bias = mt.ones(4).double(), mt.zeros(4).double()
rows = []
for x in X:  # one token at a time, one number at a time
    mean = sum(x_j for x_j in x) / 4
    variance = sum((x_j - mean) ** 2 for x_j in x) / 4
    rows.append(mt.stack([(x_j - mean) / (variance + 1e-5).sqrt() for x_j in x]))

print("water:", [round(v, 3) for v in layer_norm(X, gain, bias)[1].tolist()])
print("loop and matrices agree:", mt.allclose(layer_norm(X, gain, bias), mt.stack(rows)))
print("the library's agrees:", mt.allclose(F.layer_norm(X, (4,)), mt.stack(rows)))
print("five equal numbers:", layer_norm(mt.full((5,), 7.0), mt.ones(5), mt.zeros(5)).tolist())

# %% [markdown]
# What does it throw away? Add a number to all of $x$, and $\mu$ goes along: nothing changes. Multiply by a
# positive number, and $\sigma$ goes along. In space, the first step projects onto the plane on which the
# coordinates add up to 0, the second puts every point on a sphere of radius $\sqrt d$. With $d = 3$ that
# is a circle, and we can draw it. So the norm keeps the *direction* within that plane, and gain and bias
# stretch and shift it. Among vectors of the same length the direction alone decides which one has
# the largest dot product with a given query.

# %%
mt.manual_seed(0)
cloud = mt.randn(80, 3) * mt.tensor([2.0, 1.0, 0.7]) + mt.tensor([1.0, 0.0, 1.0])
across = mt.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
across = across / across.norm(dim=1, keepdim=True)  # two axes of the plane
stages = {
    "before, seen along (1, 1, 1)": cloud @ across.T,
    "normalized": layer_norm(cloud, 1.0, 0.0) @ across.T,
    "gain (2, 1, 0.5), bias (0, 1, 0)": layer_norm(
        cloud, mt.tensor([2.0, 1.0, 0.5]), mt.tensor([0.0, 1.0, 0.0])
    )
    @ across.T,
}
figure, panels = plot.subplots(1, 3, width=8.5, height=2.9, sharex=True, sharey=True)
for axes, (title, points) in zip(panels, stages.items(), strict=True):
    axes.scatter(points[:, 0].tolist(), points[:, 1].tolist(), s=9, color=plot.COLORS[0])
    axes.set(aspect="equal", title=title)
plot.show(
    figure,
    alt="Left: a cloud of points. Middle: the same points on a circle. Right: the circle stretched to an "
    "ellipse and shifted.",
)

# %%
lengths = layer_norm(cloud, 1.0, 0.0, eps=0.0).norm(dim=1)
print("without epsilon, all have length sqrt(3):", mt.allclose(lengths, mt.full((80,), 3**0.5)))
same = mt.allclose(layer_norm(5 * X + 3, gain, bias), layer_norm(X, gain, bias), atol=1e-4)
print("5 x + 3 has the same norm as x:", same)

# %% [markdown]
# Two ways to get it wrong: to take away the plain sum in place of the mean, and to put the standard deviation
# where the variance belongs, under the root. Here they are for "water":

# %%
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
# ## 5. Its gradient by hand
#
# The library computes this gradient in one operation. By hand it takes three lines of calculus, and shows
# what layer norm does to learning. Let $s = \sqrt{\sigma^2 + \epsilon}$, $g = \partial L / \partial y$ of shape
# $(d)$, and $g' = g \odot \gamma$, the gradient at $\hat x$. Each $x_j$ acts on $\hat x_i = (x_i - \mu)/s$ in
# three ways: directly, through $\mu$ and through $s$. With
#
# $$\frac{\partial \mu}{\partial x_j} = \frac1d, \qquad
# \frac{\partial s}{\partial x_j} = \frac{1}{2s}\,\frac{\partial \sigma^2}{\partial x_j}
# = \frac{x_j - \mu}{d\, s} = \frac{\hat x_j}{d}$$
#
# (in $\partial \sigma^2 / \partial x_j$ the part through $\mu$ drops out, because the differences add up to
# zero) the quotient rule gives
#
# $$\frac{\partial \hat x_i}{\partial x_j}
# = \frac1s \Big( \mathbb{1}[i = j] - \frac1d - \frac{\hat x_i\, \hat x_j}{d} \Big),$$
#
# and, summed over $i$ with $g'_i$,
#
# $$\frac{\partial L}{\partial x} = \frac1s \Big( g' - \operatorname{mean}(g')
# - \hat x \operatorname{mean}(g' \odot \hat x) \Big), \qquad
# \frac{\partial L}{\partial \gamma} = \sum_{\text{tokens}} g \odot \hat x, \qquad
# \frac{\partial L}{\partial \beta} = \sum_{\text{tokens}} g .$$


# %%
def layer_norm_gradient(x, gain, g, eps=1e-5):
    """Gradients with respect to x, gain and bias, from g = d loss / d y, for rows x (N, d)."""
    mean = x.mean(-1, keepdim=True)
    s = ((x - mean).square().mean(-1, keepdim=True) + eps).sqrt()
    normal, g_normal = (x - mean) / s, g * gain
    along = (g_normal * normal).mean(-1, keepdim=True)
    toward_x = (g_normal - g_normal.mean(-1, keepdim=True) - normal * along) / s
    return toward_x, (g * normal).sum(0), g.sum(0)


mt.manual_seed(0)
gain, bias, g = (mt.randn(*shape).double() for shape in ((4,), (4,), (4, 4)))
leaves = [tensor.clone().requires_grad_() for tensor in (X, gain, bias)]
by_engine = mt.autograd.grad(layer_norm(*leaves), leaves, g)
by_hand = layer_norm_gradient(X, gain, g)
for name, hand, engine in zip(("x", "gain", "bias"), by_hand, by_engine, strict=True):
    print(f"gradient of {name:4} by hand and by the engine agree: {mt.allclose(hand, engine)}")


# %%
def by_differences(f, x, h=1e-6):
    """The gradient of the number f(x), each entry from two values of f."""
    gradient = mt.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            step = mt.zeros_like(x)
            step[i, j] = h
            gradient[i, j] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


differences = by_differences(lambda x: (g * layer_norm(x, gain, bias)).sum(), X)
print("by finite differences too:", mt.allclose(by_hand[0], differences, atol=1e-6))
print("it adds up to zero in each row:", by_hand[0].sum(1).abs().max().item() < 1e-12)
inner = (by_hand[0] * layer_norm(X, mt.ones(4).double(), 0.0)).sum(1).abs().max().item()
print("and is at right angles to x-hat, but for epsilon:", inner < 1e-4)
tenfold = layer_norm_gradient(10 * X, gain, g)[0]
print("ten times x, a tenth of the gradient:", mt.allclose(10 * tenfold, by_hand[0], atol=1e-4))

# %% [markdown]
# Read the formula. The two terms that are subtracted take out of the gradient what would only shift or
# stretch $x$, which the norm would undo anyway. (These are the two directions that the norm threw away.)
# And $1/s$ scales: a token with a long vector gets a small gradient.
#
# ### The gradient of the norm (C35)
#
# Which matters more, that the forward pass is normalized, or that the gradient is? Xu et al. (2019)
# separate the two: they compute $\mu$ and $s$ as always but *detach* them, so that the gradient takes them
# for constants. Then the forward pass is the same to the last digit, and the gradient is just $g'/s$. If
# layer norm were only about the forward pass, this should train as well.


# %%
class Detached(nn.LayerNorm):
    """Layer norm with its mean, its deviation, or both taken for constants by the gradient."""

    def __init__(self, width, mean, deviation):
        super().__init__(width)
        self.of_mean, self.of_deviation = mean, deviation

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        deviation = (x.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()
        if self.of_mean:
            mean = mean.detach()
        if self.of_deviation:
            deviation = deviation.detach()
        return (x - mean) / deviation * self.weight + self.bias


NORMS = {
    "layer norm": nn.LayerNorm,
    "mean detached": partial(Detached, mean=True, deviation=False),
    "deviation detached": partial(Detached, mean=False, deviation=True),
    "both detached": partial(Detached, mean=True, deviation=True),
}


def steps_needed(losses):
    """The number of steps to GOAL, or None if it was not reached."""
    return len(losses) if end(losses) < GOAL else None


@lab.experiment(
    "C35",
    quick=dict(
        seeds=[0], rates=[2e-3], steps=120, length=8, norms=["layer norm", "deviation detached"]
    ),
    full=dict(seeds=[0, 1, 2], rates=[4e-3, 8e-3], steps=200, length=16, norms=list(NORMS)),
)
def gradients_of_the_norm(seeds, rates, steps, length, norms):
    def needed(norm, rate, seed):
        return steps_needed(learning("pre-norm", 4, rate, steps, seed, length, norm=NORMS[norm]))

    return {
        norm: {str(rate): [needed(norm, rate, seed) for seed in seeds] for rate in rates}
        for norm in norms
    }


detached_here = gradients_of_the_norm.run()
detached_full = gradients_of_the_norm.recorded

# %%
mt.manual_seed(0)
x = mt.randn(5, 8).double()
both = Detached(8, mean=True, deviation=True).double()
print("the same forwards:", mt.allclose(both(x), nn.LayerNorm(8).double()(x)))
leaf = x.clone().requires_grad_()
g = mt.randn(5, 8).double()
[found] = mt.autograd.grad(both(leaf), [leaf], g)
s = (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
print("both detached, the gradient is g / s:", mt.allclose(found, g / s))

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(detached_here, detached_full).items():
    for name, by_rate in result.items():
        for rate, steps in by_rate.items():
            row = ", ".join("never" if count is None else str(count) for count in steps)
            print(f"{setting:5} {name:19} rate {rate:6} steps to the goal, each seed: {row}")


# %%
def later(steps, than):
    """Whether the first needed more steps; None stands for never."""
    return steps is None or (than is not None and steps > than)


quick = {name: by_rate["0.002"][0] for name, by_rate in detached_here.items()}
print("C35: layer norm gets there:", quick["layer norm"] is not None)
print("     detached deviation later:", later(quick["deviation detached"], quick["layer norm"]))

# %% [markdown]
# These models are pre-norm; section 7 looks at post-norm, where the answer is less simple. Nothing changes if
# the mean alone is detached. So most of what layer norm's gradient does for speed is the term with $\hat x$,
# the one that takes out stretching; Xu et al. found the deviation's part the more important one, too. But the
# forward pass is not idle. At 0.008 the slow runs do learn; four blocks without any norm did not get there in
# C20, where rates went up to 0.004.
#
# > **C35 · holds for speed, in pre-norm.** *The lectures* (deck 1, "The Transformer Encoder: Layer
# > normalization [Ba et al., 2016]"; deck 3): "LayerNorm's success may be due to its normalizing gradients".
# >
# > *Measured*: Steps to the goal, four pre-norm blocks, three seeds, rate 0.008: layer norm 74 to 81, mean
# > detached 73 to 82, deviation detached 105 to 116, both detached 114 to 147. At 0.004 layer norm needs 95
# > to 103, and of six runs without the deviation's gradient one gets there within 200.
#
# ## 6. Batch norm and RMSNorm
#
# Batch norm (Ioffe and Szegedy, 2015) came first, and made deep networks for images trainable. It uses
# the same formula with other numbers: for each *feature* $j$, mean and variance over all tokens of all
# sequences of the *batch*. Layer norm takes a row, batch norm a column:
#
# | | one mean for | taken over | when used after training |
# | --- | --- | --- | --- |
# | layer norm | each token | its $d$ features | the same |
# | batch norm | each feature | all $B \cdot n$ tokens of the batch | running averages from training |
#
# For sequences this is awkward. They have different lengths, so part of the batch is padding. Say a share
# $p$ of all positions is padded with zeros, and a feature has mean $m$ and variance $v$ over the real
# tokens. Then batch norm, which does not know, finds
#
# $$\text{mean} = (1 - p)\, m, \qquad \text{variance} = (1 - p)\,(v + p\, m^2) .$$
#
# We make 32 sequences with $m = 2$, $v = 1$ and different lengths, pad them, and measure. Then we take one
# sentence and put it in a batch with short companions, and in one with long ones.


# %%
def padded_batch(share, generator, sentence=None, n=40, width=16):
    """32 sequences of random features with this share of padding, and where tokens are real."""
    lengths = mt.linspace(2 * (1 - share) * n - n, n, 32) if share < 0.5 else mt.full((32,), n)
    if share >= 0.5:
        lengths = mt.linspace(1, 2 * (1 - share) * n, 32)
    real = mt.arange(n) < lengths.round().unsqueeze(1)  # (B, n)
    x = mt.randn(32, n, width, generator=generator) + 2.0
    if sentence is not None:
        x[0, : len(sentence)], real[0] = sentence, mt.arange(n) < len(sentence)
    return x * real.unsqueeze(2), real


generator = mt.Generator().manual_seed(0)
measured = {}
for share in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9):
    x, real = padded_batch(share, generator)
    p = 1 - real.float().mean().item()
    features = x.flatten(0, 1)  # (B n, d)
    measured[p] = features.mean(0).mean().item(), features.var(0, unbiased=False).mean().item()

sentence = mt.randn(10, 16, generator=generator) + 2.0
batch_norm, norm = nn.BatchNorm1d(16), nn.LayerNorm(16)
outputs = {"batch norm": [], "layer norm": []}
for share in (0.1, 0.75):
    x, real = padded_batch(share, generator, sentence)
    outputs["batch norm"].append(batch_norm(x.transpose(1, 2)).transpose(1, 2)[0, :10])
    outputs["layer norm"].append(norm(x)[0, :10])
difference = {name: (a - b).abs().max().item() for name, (a, b) in outputs.items()}

# %%
figure, (left, right) = plot.subplots(1, 2, width=8.5, height=2.9, width_ratios=[1, 1.4])
grid = mt.zeros(9, 6)
grid[6:] = 0.25
grid[:, 2] = 0.7
grid[3] = 1.0
plot.heatmap(left, grid, cmap="Blues", vmax=1.3, colorbar=False)
left.set_yticks([1, 4, 7], ["sentence 1", "sentence 2", "padding"])
left.set_xticks([2, 4.5], ["batch norm:\na column", "layer norm:\na row"])
left.set(title="what shares a mean")
shares = [i / 50 for i in range(50)]
formulas = {
    "mean": [(1 - p) * 2 for p in shares],
    "variance": [(1 - p) * (1 + 4 * p) for p in shares],
}
for i, (name, curve) in enumerate(formulas.items()):
    [line] = right.plot(shares, curve, label=f"{name}: formula")
    values = [pair[i] for pair in measured.values()]
    style = dict(color=line.get_color(), linestyle="", marker="os"[i])
    right.plot(list(measured), values, label=f"{name}: measured", **style)
right.set(xlabel="share of padding", title="what batch norm finds (true: mean 2, variance 1)")
right.legend()
plot.show(
    figure,
    alt="Left: a grid of tokens by features; layer norm marks one row, batch norm one column, which runs "
    "through padding. Right: with more padding the mean falls from 2 to 0, the variance rises from 1 to "
    "1.6 and falls again; the measured points lie on the curves.",
)

# %%
for p, (mean, variance) in measured.items():
    print(f"{p:4.0%} padding: mean {mean:.2f}, variance {variance:.2f}")
off = max(abs(mean - (1 - p) * 2) for p, (mean, _) in measured.items())
print("the mean is that of the formula, to 0.05:", off < 0.05)
print("the same sentence in two batches, largest change of its outputs:")
for name, change in difference.items():
    print(f"  {name}: {change:.2f}")

# %% [markdown]
# At a half of padding the mean is half of what it should be. (Positions or an embedding for `<pad>` make
# padding something other than zero, not something better.) One can leave padding out of the statistics.
# But then, too, what a sentence becomes depends on which others happen to be in its batch, a batch of one
# long text has few independent examples, and after training other statistics are used than in training.
# Layer norm does not look beyond its token: the same sentence, the same output.
#
# **RMSNorm** (Zhang and Sennrich, 2019) asks whether layer norm needs its mean, and leaves it out, and the
# bias with it:
#
# $$y = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_j x_j^2 + \epsilon}} .$$
#
# What C35 found about the mean makes that plausible. Many large language models since have used it.


# %%
def rms_norm(x, gain, eps=1e-5):
    """Each last-axis vector with mean square 1, times gain: (..., d)."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain


gain = mt.ones(4).double()
print("the library's agrees:", mt.allclose(F.rms_norm(X, (4,), eps=1e-5), rms_norm(X, gain)))
centred = X - X.mean(1, keepdim=True)
agree = mt.allclose(rms_norm(centred, gain), layer_norm(X, gain, 0.0))
print("after taking the mean away it is layer norm:", agree)
print("5 x has the same RMSNorm:", mt.allclose(rms_norm(5 * X, gain), rms_norm(X, gain), atol=1e-4))
print("x + 3 has the same RMSNorm:", mt.allclose(rms_norm(X + 3, gain), rms_norm(X, gain)))

# %% [markdown]
# ### Speed of training (C21)
#
# "Layer normalization is a trick to help models train faster", say decks 1 and 3. How much faster, and from
# which depth? Four contestants with residual connections: no norm; no norm but a *small start*, in which the
# matrices that end each branch are divided by $\sqrt{2L}$, as in GPT-2 (there are $2L$ sums, so the variance
# of the last is kept in bounds); pre-norm with layer norm; pre-norm with RMSNorm. We count steps to a loss of
# 0.05.

# %%
CONTESTANTS = {
    "no norm": dict(wiring="residual"),
    "no norm, small start": dict(wiring="residual", small=True),
    "layer norm": dict(wiring="pre-norm"),
    "RMSNorm": dict(wiring="pre-norm", norm=nn.RMSNorm),
}


@lab.experiment(
    "C21",
    quick=dict(seeds=[0], depths=[2, 4], rate=8e-3, steps=100, length=8, others=[]),
    full=dict(seeds=[0, 1, 2], depths=[2, 6], rate=4e-3, steps=250, length=16, others=[1e-3, 2e-3]),
)
def speed(seeds, depths, rate, steps, length, others):
    def needed(name, depth, rate, seed):
        options = dict(depth=depth, rate=rate, steps=steps, seed=seed, length=length)
        return steps_needed(learning(**options, **CONTESTANTS[name]))

    return {
        "steps": {
            name: {str(depth): [needed(name, depth, rate, s) for s in seeds] for depth in depths}
            for name in CONTESTANTS
        },
        "no norm at other rates": {
            str(other): needed("no norm", max(depths), other, 0) for other in others
        },
    }


speed_here = speed.run()
speed_full = speed.recorded

# %%
settings = {"quick: 8 symbols, one seed": (speed_here, speed.quick["steps"])}
if speed_full:
    settings["full: 16 symbols, three seeds"] = (speed_full["result"], speed.full["steps"])
figure, panels = plot.subplots(1, len(settings), width=9, height=2.7, sharey=True, squeeze=False)
for axes, (title, (result, limit)) in zip(panels[0], settings.items(), strict=True):
    names = list(CONTESTANTS)
    for i, depth in enumerate(sorted(result["steps"]["no norm"], key=int)):
        runs = [[limit if s is None else s for s in result["steps"][name][depth]] for name in names]
        places = [y + 0.2 - 0.4 * i for y in range(len(names))]
        middle = [sorted(run)[len(run) // 2] for run in runs]
        axes.barh(places, middle, height=0.36, color=plot.COLORS[5 * i], label=f"{depth} blocks")
        for y, run in zip(places, runs, strict=True):
            axes.plot(run, [y] * len(run), "|", color="black", markersize=10, linestyle="")
    axes.axvline(limit, color="0.5", linewidth=1, linestyle="-")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel=f"steps to 0.05 (line: not in {limit})", title=title)
    axes.legend(loc="lower right")
axes.invert_yaxis()
plot.show(
    figure,
    alt="Steps to the goal for four contestants. With two blocks all get there at about the same time. In "
    "the deep model no norm never does; a small start, layer norm and RMSNorm do, close together.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(speed_here, speed_full).items():
    for name, by_depth in result["steps"].items():
        for depth, steps in by_depth.items():
            row = ", ".join("never" if count is None else str(count) for count in steps)
            print(f"{setting:5} {name:20} {depth} blocks: steps to the goal {row}")
for rate, steps in (speed_full["result"]["no norm at other rates"] if speed_full else {}).items():
    print(f"no norm, 6 blocks, rate {rate}: {steps or 'never'}")

# %%
steps = {name: {d: runs[0] for d, runs in by.items()} for name, by in speed_here["steps"].items()}
print("C21: two blocks, all get there:", all(by["2"] is not None for by in steps.values()))
print("     four blocks: without norm never:", steps["no norm"]["4"] is None)
print("     with layer norm they do:", steps["layer norm"]["4"] is not None)
print("     and without norm from a small start:", steps["no norm, small start"]["4"] is not None)

# %% [markdown]
# In the full runs two blocks hardly care. Six without a norm do not get there; with layer norm they are about
# as fast as two, and RMSNorm is level with it. So "faster" says too much for a shallow model and too little for a
# deep one.
#
# And the small start, without any norm, is ahead of both. What the norm cures here is the exploding start of
# E2, and there is another cure for that. A norm keeps sizes in bounds all through training, a start does so
# only at the start; whether that matters in long training our small task cannot tell. GPT-2 has both.
#
# > **C21 · holds for deep stacks, and so does a small start.** *The lectures* (deck 1, "The Transformer
# > Encoder: Layer normalization [Ba et al., 2016]"; deck 3): "Layer normalization is a trick to help models
# > train faster."
# >
# > *Measured*: Steps to the goal, three seeds. Two blocks: no norm 107 to 117, layer norm 96 to 110, small
# > start without norm 82 to 89. Six blocks: no norm never in 250 (nor at two smaller rates, one seed each),
# > layer norm 95 to 123, RMSNorm 101 to 121, small start 82 to 92.
#
# ## 7. Before or after
#
# Where does the norm go? In the Transformer of 2017, *after* the sum; in most models since, *before* the
# part (Xiong et al., 2020):
#
# $$\text{post-norm:}\quad y = \operatorname{LN}(x + f(x)), \qquad\qquad
# \text{pre-norm:}\quad y = x + f(\operatorname{LN}(x)) .$$

# %%
figure, panels = plot.subplots(1, 2, width=8, height=1.9)
orders = {"post-norm": ["f", "+", "LN"], "pre-norm": ["LN", "f", "+"]}
for axes, (title, boxes) in zip(panels, orders.items(), strict=True):
    for i, box in enumerate(boxes, start=1):
        shade = {"f": "#d6e8f5", "+": "white", "LN": "#fbe3cf"}[box]
        shape = dict(boxstyle="circle,pad=0.25" if box == "+" else "round,pad=0.45", fc=shade)
        axes.text(i, 0, box, ha="center", va="center", bbox=shape)
        arrow = dict(arrowstyle="->", color="0.3", shrinkA=12, shrinkB=14)
        axes.annotate("", (i, 0), (i - 1, 0), arrowprops=arrow)
    axes.annotate("", (4, 0), (3, 0), arrowprops=dict(arrow, shrinkB=8))
    join = 1 + boxes.index("+")
    axes.plot([0.3, 0.3, join, join], [0, 0.8, 0.8, 0.25], color=plot.COLORS[1], linestyle="-")
    axes.text(0, 0, "x", ha="center", va="center")
    axes.text(4.05, 0, "y", ha="center", va="center")
    axes.set(xlim=(-0.2, 4.3), ylim=(-0.5, 1), title=title)
    axes.axis("off")
plot.show(
    figure,
    alt="Two diagrams. Post-norm: x goes through f, then the sum with x, then LN. Pre-norm: x goes through "
    "LN, f, and the sum with x; the skip path from x to y meets no norm.",
)

# %% [markdown]
# Follow the skip path, drawn bent, from $x$ to $y$. In pre-norm it meets nothing: through $L$ blocks, the
# identity. In post-norm it goes through a norm at every sum. Its Jacobian is $J_{\operatorname{LN}} (I +
# J_f)$, and $J_{\operatorname{LN}}$ divides by $s$, which is above 1 if $x$ has been normalized and $f(x)$ adds
# something of its own. In E2 we also measured what comes back along the skip path alone, with every $f(x)$ detached:

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(gradients_here, gradients_full).items():
    for name, runs in result["skip path"].items():
        ratios = ", ".join(f"{run[0] / run[-1]:.4f}" for run in runs)
        print(f"{setting:5} {name:9} gradient at the input over gradient at the output: {ratios}")

# %%
paths = gradients_here["skip path"]
print(
    "pre-norm: exactly one, to 1e-5:",
    abs(paths["pre-norm"][0][0] / paths["pre-norm"][0][-1] - 1) < 1e-5,
)
print("post-norm: below 0.05:", paths["post-norm"][0][0] / paths["post-norm"][0][-1] < 0.05)

# %% [markdown]
# This is deck 3's "it's 1": true of pre-norm, and only of the skip path. In post-norm twelve
# blocks leave less than a hundredth of it. The *whole* gradient of post-norm was level in
# E2, but what comes through is a product of twenty-four Jacobians of untrained layers. Pre-norm has a
# price, too: nothing normalizes the sum, so it needs one more norm at the end, before the output layer
# (`last` in our `Reverser`).
#
# ### Learning rate and warm-up (C22)
#
# The paper of 2017 used post-norm and began training with a tiny learning rate, the **warm-up**:
#
# $$\eta(t) = d^{-1/2} \cdot \min\!\big(t^{-1/2},\; t \cdot w^{-3/2}\big),$$
#
# with step $t = 1, 2, \dots$, width $d$ and $w$ warm-up steps (4,000 there): up in a line for $w$ steps,
# then down with the root of $t$.


# %%
def warm_up(step, width, steps):
    """The learning rate of Vaswani et al. (2017) at a step, counted from 1."""
    return width**-0.5 * min(step**-0.5, step * steps**-1.5)


print(f"largest, at step 4000, for d = 512: {warm_up(4000, 512, 4000):.6f}")
print("both branches meet there:", math.isclose(4000**-0.5, 4000 * 4000**-1.5))

# %% [markdown]
# Does post-norm need it? In the experiment we keep to the simplest warm-up: up in a line to the rate, then
# constant, so that with and without differ in nothing else.


# %%
@lab.experiment(
    "C22",
    quick=dict(seeds=[0], depth=4, rates=[8e-3], steps=100, length=8, warm_up=60),
    full=dict(
        seeds=[0, 1, 2], depth=6, rates=[2e-3, 4e-3, 8e-3], steps=250, length=16, warm_up=100
    ),
)
def before_or_after(seeds, depth, rates, steps, length, warm_up):
    def run(wiring, rate, seed, warm_up):
        losses = learning(wiring, depth, rate, steps, seed, length, warm_up=warm_up)
        return {"end": end(losses), "steps": steps_needed(losses)}

    return {
        f"{wiring}{name}": {
            str(rate): [run(wiring, rate, seed, warm) for seed in seeds] for rate in rates
        }
        for wiring in ("post-norm", "pre-norm")
        for name, warm in {"": 0, ", warm-up": warm_up}.items()
    }


sweep_here = before_or_after.run()
sweep_full = before_or_after.recorded

# %%
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8, width_ratios=[1, 1.3])
steps = range(1, 20_001, 50)
for w in (2000, 4000, 8000):
    left.plot(steps, [warm_up(t, 512, w) for t in steps], label=f"w = {w}")
left.set(xlabel="step", ylabel="learning rate", title="schedule of 2017, d = 512")
left.ticklabel_format(axis="y", scilimits=(0, 0))
left.legend()
shown = sweep_full["result"] if sweep_full else sweep_here
for name, by_rate in shown.items():
    rates = sorted(by_rate, key=float)
    runs = zip(*([run["end"] for run in by_rate[rate]] for rate in rates), strict=True)
    plot.spread(right, list(map(float, rates)), list(runs), marker="o", label=name)
right.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="loss at the end")
right.set_title("6 blocks, full: three seeds" if sweep_full else "4 blocks, quick")
ticks = [float(rate) for rate in rates]
right.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
right.minorticks_off()
right.legend()
plot.show(
    figure,
    alt="Left: learning rate against step, a line up, then a slow fall. Right: loss at the end of training "
    "against learning rate; post-norm without warm-up is at chance from 0.004 on, the other three end at "
    "the goal or close to it.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(sweep_here, sweep_full).items():
    for name, by_rate in result.items():
        for rate, runs in by_rate.items():
            row = ", ".join(f"{run['end']:.3f} ({run['steps'] or 'never'})" for run in runs)
            print(f"{setting:5} {name:18} rate {rate:6} loss at the end (steps to the goal): {row}")

# %%
ends = {name: by_rate["0.008"][0]["end"] for name, by_rate in sweep_here.items()}
print("C22 holds: rate 0.008, post-norm above 1:", ends["post-norm"] > 1)
print("           post-norm with warm-up below 0.3:", ends["post-norm, warm-up"] < 0.3)
print("           pre-norm without warm-up below 0.3:", ends["pre-norm"] < 0.3)

# %% [markdown]
# In the full runs all four learn at 0.002, post-norm slowly, and for two of the three seeds warm-up costs it
# steps at this rate. At the larger rates post-norm mostly stays near chance, $\log 16 = 2.77$, and a hundred steps
# of warm-up cure it. Pre-norm needs no warm-up at any of the three rates and is faster; for it warm-up is
# only time lost. So post-norm needs warm-up *at a large rate*, and the large rates are the ones at which
# pre-norm is fastest.
#
# Post-norm is not the worse model for it: at a loss of 0.05 both have learned the task, and in Liu et al.
# (2020) post-norm, where it trained, ended ahead. Pre-norm is the one that is easier to train.
#
# > **C22 · holds at large learning rates.** *The lectures* (deck 1, "What would we like to fix about the
# > Transformer?", "Pre vs Post norm"): to be fixed are "training instabilities (pre vs post norm)"; on the
# > place of the norm there is "the one thing everyone agrees on (in 2024)".
# >
# > *Measured*: Loss after 250 steps, six blocks, three seeds. Rate 0.008: post-norm 2.78, with a hundred
# > steps of warm-up 0.045 to 0.048, pre-norm 0.046 to 0.050. Rate 0.004: post-norm 0.14 to 2.78, with warm-up
# > 0.047 to 0.050, pre-norm 0.048 to 0.050. Rate 0.002: 0.047 to 0.17, 0.048 to 0.070, 0.047 to 0.050. Steps
# > to the goal at 0.008: post-norm with warm-up 151 to 189, pre-norm 76 to 98, pre-norm with warm-up 104 to
# > 116.
#
# ### The norm's gradient in post-norm (E3)
#
# C35 looked at the gradient of the norm in pre-norm, where it stands on a branch. In post-norm it stands
# on the path. The same four norms there, four blocks, 200 steps, no warm-up (full setting only):


# %%
@lab.experiment(
    "E3",
    quick=dict(seeds=[], rates=[4e-3, 8e-3], steps=200, length=16),
    full=dict(seeds=[0, 1, 2], rates=[2e-3, 4e-3, 8e-3], steps=200, length=16),
)
def detached_after_the_sum(seeds, rates, steps, length):
    def loss(norm, rate, seed):
        return end(learning("post-norm", 4, rate, steps, seed, length, norm=NORMS[norm]))

    return {
        norm: {str(rate): [loss(norm, rate, seed) for seed in seeds] for rate in rates}
        for norm in NORMS
    }


detached_after_the_sum.run()
after_full = detached_after_the_sum.recorded

# %%
for norm, by_rate in (after_full["result"] if after_full else {}).items():
    for rate, losses in by_rate.items():
        row = ", ".join(f"{loss:.3f}" for loss in losses)
        print(f"full  {norm:19} rate {rate:6} loss at the end, each seed: {row}")

# %% [markdown]
# At 0.002 and 0.004 it is as in C35, at 0.008 the other way round. So what the deviation does to the gradient
# makes learning faster where the rate is moderate, and in post-norm it has a part in the failure where the
# rate is large. "Success comes from the gradients" holds for some rates and wirings, not for all.
#
# > **E3 · not at a large rate.** *Our question*: does the gradient of the norm help in post-norm too?
# >
# > *Measured*: Loss after 200 steps, four post-norm blocks, three seeds, goal 0.05. Rates 0.002 and 0.004:
# > layer norm 0.045 to 0.049, mean detached 0.045 to 0.133, deviation or both detached 0.24 to 1.5. Rate
# > 0.008: layer norm 1.0 to 2.8, mean detached 2.7 to 2.8, deviation detached 0.26 to 0.45, both 0.55 to 2.2.
#
# ## 8. The block
#
# Now we have all parts, and put them together: pre-norm, the sum, attention and feed-forward network.


# %%
class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)): (B, n, d) to (B, n, d)."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, heads)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        x = x + self.attention(normal, normal, allowed)
        return x + self.feed_forward(self.norm_2(x))


mt.manual_seed(0)
d, heads = 32, 4
block = Block(d, heads, 4 * d)
count = sum(p.numel() for p in block.parameters())
print(f"{count} parameters, 12 d^2 + 9 d: {count == 12 * d**2 + 9 * d}")

# %% [markdown]
# PyTorch's name for this block is `nn.TransformerEncoderLayer` with `norm_first=True`. (Without, it is
# post-norm.) We copy our weights into the library's and compare. It keeps the three input projections in
# one matrix, one above the other, and has biases where we have none, so these are set to zero. And its
# mask means the opposite: *our `allowed` is True where a query may look; its `src_mask` is True where it
# may not* (chapter 07).

# %%
layer = nn.TransformerEncoderLayer(
    d, heads, dim_feedforward=4 * d, dropout=0.0, batch_first=True, norm_first=True
)
ours = block.state_dict()
attention_part = [ours[f"attention.{name}.weight"] for name in ("query", "key", "value")]
layer.load_state_dict(
    {
        "self_attn.in_proj_weight": mt.cat(attention_part),  # (3 d, d)
        "self_attn.in_proj_bias": mt.zeros(3 * d),
        "self_attn.out_proj.weight": ours["attention.out.weight"],
        "self_attn.out_proj.bias": mt.zeros(d),
    }
    | {f"linear1.{kind}": ours[f"feed_forward.up.{kind}"] for kind in ("weight", "bias")}
    | {f"linear2.{kind}": ours[f"feed_forward.down.{kind}"] for kind in ("weight", "bias")}
    | {f"norm{i}.{kind}": ours[f"norm_{i}.{kind}"] for i in (1, 2) for kind in ("weight", "bias")}
)
x = mt.randn(2, 10, d)
allowed = mt.ones(10, 10).tril().bool()
print("without mask equal:", mt.allclose(block(x), layer(x), atol=1e-5))
print("causal mask, equal:", mt.allclose(block(x, allowed), layer(x, src_mask=~allowed), atol=1e-5))
print("mask the wrong way:", mt.allclose(block(x, allowed), layer(x, src_mask=allowed), atol=1e-5))

# %% [markdown]
# The block adds nothing that leaks: with a causal mask no output depends on a later token, since norm,
# network and sum stay within their position.

# %%
leaf = x[:1].clone().requires_grad_()
[gradient] = mt.autograd.grad(block(leaf, allowed)[0, 4].sum(), [leaf])
print("gradient of output 5 at tokens 6 to 10:", gradient[0, 5:].abs().sum().item())

# %% [markdown]
# ### The table of barriers, filled in
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | positions, in the inputs, by rotation, or in the scores: *token 3 back* 0.18 without, 1.00 with relative positions, also beyond the trained length (C17) | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | feed-forward network: XOR of a single token right in 100 %, without it at most 75 % | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | mask: scores to minus infinity before the softmax; the derivative from the future exactly 0, loss from the prefix 1.8 to 1.9 in place of 8.2 to 9.4 | 07 |
# | one place at a time | one softmax, one place (C14) | several heads: both answers right in 100 % of all tables, with one head in 20 % | 06 |
# | does not train when deep | gradients (C20) | residual connections and layer norm: eight blocks end at the goal of 0.05, with the norm alone above 2.7, with the residual connection alone above 6 | 09 |
#
# No row is open any more. All parts are on the table: attention with several heads, a mask, positions,
# the feed-forward network, residual connections, layer norm. Chapter 10 assembles them.
#
# **Try it**: take the residual connection around attention only, or around the network only (`AnyBlock`);
# leave out the last norm of pre-norm; train `learning("post-norm", 8, 2e-3, 400, 0, 16, warm_up=200)`;
# start post-norm small with `small=True`, and see whether it still needs warm-up.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | "Gradient is great through the residual connection; it's 1!" (deck 3) | through the connection, yes; through the layer it is $I + J_f$, through $L$ layers a product; and post-norm puts a norm on the connection | § 3, § 7 |
# | the mean is $\sum_j x_j$; normalize to "unit mean" (decks 1 and 3) | $\frac1d$ times the sum; mean *zero*, variance one | § 4 |
# | divide by $\sqrt{\sigma + \epsilon}$, with $\sigma$ the standard deviation (deck 1) | the *variance* stands under the root: $\sqrt{\sigma^2 + \epsilon}$; the other is the fourth root of the variance | § 4 |
# | divide by $\sigma$, without $\epsilon$ (decks 2 and 5) | a token of equal numbers would give $0/0$ | § 4 |
# | the output has mean $\beta$ and variance $\gamma^2$ (deck 2) | $\gamma$ and $\beta$ have one number a feature; it would if all $\gamma_j$ were equal, and all $\beta_j$ | § 4 |
#
# </details>
#
# ## Summary
#
# - Given its weights, attention is linear, and layers of it are one layer. As a function of its input it
#   is not, because the weights compare tokens with one another; a token alone passes through linearly (C19).
# - The feed-forward network works out what a position has gathered. It is the same at each position, sees
#   no other, and holds two thirds of a block's weights.
# - A residual connection makes the Jacobian identity plus $J_f$. It keeps tokens apart (E1), but at a usual
#   start the sums grow and the gradient explodes (E2). Residual connection *and* norm together make depth
#   trainable (C20). A layer asked for the identity finds it hard, asked for zero easy (C34).
# - Layer norm takes mean and deviation of each token's features; gain and bias are learned. Its gradient
#   has no part that would only shift or stretch. In pre-norm this speeds up learning, through the deviation,
#   not the mean (C35), which RMSNorm leaves out. In post-norm at a large rate it hurts (E3).
# - Batch norm shares its statistics with the batch, and with its padding. Layer norm does not.
# - Two blocks learn nearly as fast without a norm, six need one, or a small start (C21). Pre-norm keeps the skip
#   path free and needs no warm-up; post-norm needs it at large learning rates (C22).
#
# **Exercises**:
# [`../exercises/09_feed_forward_norm_residual/09_feed_forward_norm_residual.ipynb`](../exercises/09_feed_forward_norm_residual/09_feed_forward_norm_residual.ipynb)
#
# **Read on**: He et al. (2016), *Deep residual learning for image recognition*. Ba, Kiros and Hinton
# (2016), *Layer normalization*. Vaswani et al. (2017), *Attention is all you need*. Li et al. (2018),
# *Visualizing the loss landscape of neural nets*. Xu et al. (2019), *Understanding and improving layer
# normalization*. Zhang and Sennrich (2019), *Root mean square layer normalization*. Xiong et al. (2020),
# *On layer normalization in the Transformer architecture*. Liu et al. (2020), *Understanding the difficulty
# of training Transformers*. Dong, Cordonnier and Loukas (2021), *Attention
# is not all you need: pure attention loses rank doubly exponentially with depth*.
