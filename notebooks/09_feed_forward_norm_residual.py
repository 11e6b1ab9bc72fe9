# %% [markdown]
# # 09 Feed-forward network, residual connections and layer norm
#
# We can look at any word, in several ways at once, not at the future, and we know where each word
# stands. Stack twelve such attention layers and train them: nothing happens. Two things are missing. One
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
# it**: chapters 05 to 07 (attention, heads, masks); Jacobians and Adam from chapter 00. Chapter 08 helps,
# we only use its learned positions.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`.

# %%
import math
from functools import cache, partial

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, plot
from minitorch.data import tasks
from minitorch.experiments import Experiments

lab = Experiments("09")

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
Q_1, K_1, V_1, Q_2, K_2, V_2 = mt.randn(6, 4, 4).double()
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
# So the lectures' sentence "it is all just weighted averages" is true *given the weights*, and the weights
# hold a softmax of products of the inputs: as a function of its input, attention is not linear at all. Is
# that enough for a task that no linear function can do? A token has two bits, and the question is whether
# they differ: XOR. Token by token, alone in its sequence or among others.
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

# %% [markdown]
# ## 2. The feed-forward network

# %% [markdown]
# ## 3. Residual connections


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
@lab.experiment(
    "C20",
    quick=dict(seeds=[0], depths=[1, 4], rate=8e-3, steps=120, length=8, others=[]),
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

# %% [markdown]
# ## 4. Layer normalization

# %% [markdown]
# ## 5. Its gradient by hand


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
        seeds=[0], rates=[2e-3], steps=150, length=8, norms=["layer norm", "deviation detached"]
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

# %% [markdown]
# ## 6. Batch norm and RMSNorm

# %% [markdown]
# ### Speed of training (C21)

# %%
CONTESTANTS = {
    "no norm": dict(wiring="residual"),
    "no norm, small start": dict(wiring="residual", small=True),
    "layer norm": dict(wiring="pre-norm"),
    "RMSNorm": dict(wiring="pre-norm", norm=nn.RMSNorm),
}


@lab.experiment(
    "C21",
    quick=dict(seeds=[0], depths=[2, 4], rate=8e-3, steps=120, length=8, others=[]),
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

# %% [markdown]
# ## 7. Before or after

# %% [markdown]
# ### Learning rate and warm-up (C22)


# %%
@lab.experiment(
    "C22",
    quick=dict(seeds=[0], depth=4, rates=[8e-3], steps=120, length=8, warm_up=60),
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

# %% [markdown]
# ## 8. The block

# %% [markdown]
# ## Summary
