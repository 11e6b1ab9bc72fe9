# %% [markdown]
# # 10 The Transformer
#
# All parts are on the table: attention, heads, masks, positions, the feed-forward network, residual
# connections, layer norm. In this chapter we put them together, on one page of code. The same block makes a
# model that writes, one that fills in blanks, and one that translates. We train all three, and then hold the
# third against the recurrent translators of chapters 03 and 04, fairly, as the paper of 2017 had to.
#
# **After this chapter you will be able to**
#
# - write a Transformer from its parts, and prove that nothing leaks into it and that padding changes nothing;
# - count the weights of base and big, and the operations that their training takes, and read a
#   "training cost" with care;
# - train a decoder that writes, an encoder that fills blanks, and both as a translator;
# - say what tied embeddings, dropout, label smoothing and warm-up do at your size, and measure it;
# - decode greedily, by sampling and with a beam, and write the cache that makes it fast;
# - set up a table that compares architectures, and read other people's tables.
#
# **Time**: about three hours to read and try; all cells together run in less than a minute. **Before it**:
# chapters 03 and 04 (translation), 05 to 09 (all parts).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`.

# %%
import math
import textwrap
from functools import cache, partial
from unittest.mock import patch

from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, plot
from minitorch.data import (
    BytePairEncoding,
    Vocabulary,
    language_reference,
    number_pair,
    number_pairs,
    split,
)
from minitorch.decoding import greedy, sample
from minitorch.experiments import Experiments
from minitorch.flops import count_flops

lab = Experiments("10")


def measured_of(here, full):
    """What this run measured, and what was recorded, if anything was."""
    return {"quick": here} | ({"full": full["result"]} if full else {})


# %% [markdown]
# ## 1. The parts put together
#
# The translator of chapter 04 had two recurrent networks, and attention between them. Its states had to wait
# for one another. Chapter 05 replaced the recurrence by self-attention, and each chapter since has mended one
# of the things that broke. Here is the result, with the chapter of each part:

# %%
BLUE, ORANGE, GREEN = "#d6e8f5", "#fbe3cf", "#d9eedd"
ARROW = dict(arrowstyle="->", color="0.3", shrinkA=0, shrinkB=0)


def column(axes, x, parts, y=0.0):
    """Boxes from bottom to top, each with an arrow into it; returns the height of each name."""
    heights = {}
    for name, fill in parts:
        heights[name] = y
        if name.startswith("+"):
            shape = dict(boxstyle="circle,pad=0.15", fc="white", ec="0.3")
            axes.text(x, y, "+", ha="center", va="center", fontsize=8, bbox=shape)
            start = y - 1.83  # below the norm, where the skip path leaves
            path = [x, x - 1.6, x - 1.6, x - 0.1], [start, start, y, y]
            axes.plot(*path, color="0.3", linestyle="-", linewidth=1)
        else:
            shape = dict(boxstyle="round,pad=0.25", fc=fill, ec="0.3")
            axes.text(x, y, name.strip(), ha="center", va="center", fontsize=8, bbox=shape)
        if y:
            axes.annotate("", (x, y - 0.22), (x, y - 0.5), arrowprops=ARROW)
        y += 0.72
    return heights


def part(name, count):
    """A norm, a part and the sum after it."""
    return [(" " * count + "norm (09)", ORANGE), (name, BLUE), ("+" * count, "white")]


embedding = ("embedding (00) + positions (08)", GREEN)
encoder = [("source tokens", "white"), embedding]
encoder += part("self-attention (05, 06), padding mask (07)", 1) + part("feed-forward (09)", 2)
encoder += [("last norm (09)", ORANGE)]
decoder = [("target tokens so far", "white"), embedding]
decoder += part("self-attention (05, 06), causal mask (07)", 1)
decoder += part("cross-attention (04, 06), padding mask (07)", 2) + part("feed-forward (09)", 3)
decoder += [("last norm (09)", ORANGE), ("linear, softmax (00)", GREEN), ("next token", "white")]

figure, axes = plot.subplots(width=7.5, height=5.4)
left, right = column(axes, 0, encoder), column(axes, 4.2, decoder)
memory, reads = left["last norm (09)"], right["cross-attention (04, 06), padding mask (07)"]
axes.plot([0, 0, 2.1, 2.1], [memory + 0.2, memory + 0.5, memory + 0.5, reads], color=plot.COLORS[1])
axes.annotate("", (2.75, reads), (2.1, reads), arrowprops=ARROW | dict(color=plot.COLORS[1]))
axes.text(1.05, memory + 0.6, "memory", color=plot.COLORS[1], ha="center", fontsize=9)
for x, top in ((0, left["++"]), (4.2, right["+++"])):
    corners = [x - 1.8, x + 1.7, x + 1.7, x - 1.8, x - 1.8], [0.98, 0.98, *[top + 0.3] * 2, 0.98]
    axes.plot(*corners, color="0.6", linestyle="--", linewidth=1)
    axes.text(x + 1.65, top + 0.05, "L times", fontsize=8, color="0.4", ha="right")
axes.set(xlim=(-1.9, 6), ylim=(-0.4, 9.8))
axes.axis("off")
plot.show(
    figure,
    alt="Encoder on the left, decoder on the right, from bottom to top. Encoder: embedding and positions, "
    "then L times self-attention and feed-forward network, each with a norm before and a sum after. "
    "Decoder: the same with a causal mask and, in between, cross-attention to the encoder's memory.",
)

# %% [markdown]
# It is our drawing of figure 1 of Vaswani et al. (2017), with one change: our norms stand before the parts
# (pre-norm, chapter 09), theirs after the sums. Three things are new, and they are small:
#
# - **The decoder has three parts**: masked self-attention over what has been said, **cross-attention** over
#   the source, and the network. Cross-attention is chapter 04's attention with chapter 06's heads: queries
#   from the decoder, keys and values from the encoder's output. So its weights are $T \times n$, target by
#   source, and not square.
# - **Embeddings are multiplied by $\sqrt d$** before positions are added. They start with a standard deviation of
#   $1/\sqrt d$, so that the same matrix can serve as output layer, and would be drowned by codes whose entries
#   have the size of a sine.
# - **Every sum is preceded by dropout** in training.
#
# ## 2. One page
#
# Here is all of it. Only names and options have been added to what chapters 06 to 09 built.

# %%
PAD = 0  # the number of the padding token, in every vocabulary of this chapter


class MultiHeadAttention(nn.Module):
    """Chapter 06: queries from x (B, n, d), keys and values from memory (B, m, d): (B, n, d)."""

    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, n, d/h)

    def forward(self, x, memory, allowed=None, cache=None):
        query = self.split(self.query(x))
        if cache and memory is not x:  # the encoder's memory has been read before
            key, value = cache["key"], cache["value"]
        else:
            key, value = self.split(self.key(memory)), self.split(self.value(memory))
            if cache:  # the tokens before x have been read before
                key = mt.cat([cache["key"], key], dim=2)
                value = mt.cat([cache["value"], value], dim=2)
        if cache is not None:
            cache.update(key=key, value=value)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, allowed, dropout)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Chapter 09: ReLU(x W_1 + b_1) W_2 + b_2 at every position, (B, n, d) to (B, n, d)."""

    def __init__(self, width, hidden, dropout=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.down(self.drop(self.up(x).relu()))


class Block(nn.Module):
    """Self-attention, cross-attention if asked for, network; each with a norm and a sum."""

    def __init__(self, width, heads, hidden, cross=False, dropout=0.0, norm_first=True):
        super().__init__()
        self.norm_first, self.drop = norm_first, nn.Dropout(dropout)
        self.attention = MultiHeadAttention(width, heads, dropout)
        self.cross = MultiHeadAttention(width, heads, dropout) if cross else None
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))

    def add(self, x, norm, part):
        if self.norm_first:
            return x + self.drop(part(norm(x)))
        return norm(x + self.drop(part(x)))

    def forward(self, x, allowed=None, memory=None, memory_allowed=None, cache=None):
        own, across = cache or (None, None)
        x = self.add(x, self.norms[0], lambda x: self.attention(x, x, allowed, own))
        if self.cross is not None:
            x = self.add(x, self.norms[1], lambda x: self.cross(x, memory, memory_allowed, across))
        return self.add(x, self.norms[-1], self.feed_forward)


class Stack(nn.Module):
    """Blocks one after the other and a last norm; a cache holds a pair of dicts for each block."""

    def __init__(self, layers, width, heads, hidden, cross=False, dropout=0.0, norm_first=True):
        super().__init__()
        options = (width, heads, hidden, cross, dropout, norm_first)
        self.blocks = nn.ModuleList(Block(*options) for _ in range(layers))
        self.last = nn.LayerNorm(width)

    def forward(self, x, allowed=None, memory=None, memory_allowed=None, cache=None):
        for i, block in enumerate(self.blocks):
            x = block(x, allowed, memory, memory_allowed, cache and cache[i])
        return self.last(x)


def sinusoidal_codes(n, d):
    """Chapter 08: p_t in row t, sine in even and cosine in odd columns, (n, d)."""
    angles = mt.arange(n).unsqueeze(1) * 10_000.0 ** (-mt.arange(0, d, 2) / d)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Embedded(nn.Module):
    """Chapter 08: sqrt(d) times the embedding plus sinusoids, (B, n) to (B, n, d)."""

    def __init__(self, vocabulary, width, dropout=0.0, longest=1024):
        super().__init__()
        self.embedding, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.register_buffer("codes", sinusoidal_codes(longest, width), persistent=False)

    def forward(self, tokens, start=0):
        x = self.codes.shape[1] ** 0.5 * self.embedding(tokens)
        return self.drop(x + self.codes[start : start + tokens.shape[1]])


def real_tokens(tokens):
    """Chapter 07: True where there is a token, False at padding, (B, 1, 1, n)."""
    return (tokens != PAD)[:, None, None]


def causal_mask(tokens):
    """Chapter 07: each token may look at itself and those before it, (n, n)."""
    n = tokens.shape[1]
    return mt.ones(n, n, device=tokens.device).tril().bool()


def read_before(cache):
    """How many tokens a cache holds."""
    return cache[0][0]["key"].shape[2] if cache and cache[0][0] else 0


class OneStack(nn.Module):
    """Tokens (B, n) to scores (B, n, V): a language model if causal, else an encoder."""

    def __init__(self, vocabulary, width, heads, hidden, layers, dropout=0.0, causal=True):
        super().__init__()
        self.causal = causal
        self.embedded = Embedded(vocabulary, width, dropout)
        self.stack = Stack(layers, width, heads, hidden, dropout=dropout)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.embedded.embedding.weight

    def forward(self, tokens, cache=None):
        seen = read_before(cache)
        allowed = causal_mask(tokens)[seen:] if self.causal else real_tokens(tokens)
        x = self.embedded(tokens[:, seen:], seen)
        return self.out(self.stack(x, allowed, cache=cache))


class Transformer(nn.Module):
    """Source (B, n) and target (B, T) to scores of the token after each target token (B, T, V)."""

    def __init__(
        self,
        source_vocabulary,
        target_vocabulary,
        width,
        heads,
        hidden,
        layers,
        dropout=0.0,
        tied=True,
        norm_first=True,
    ):
        super().__init__()
        options = dict(dropout=dropout, norm_first=norm_first)
        self.source = Embedded(source_vocabulary, width, dropout)
        self.target = self.source if tied else Embedded(target_vocabulary, width, dropout)
        self.encoder = Stack(layers, width, heads, hidden, **options)
        self.decoder = Stack(layers, width, heads, hidden, cross=True, **options)
        self.out = nn.Linear(width, target_vocabulary, bias=False)
        if tied:
            self.out.weight = self.target.embedding.weight

    def encode(self, source):
        return self.encoder(self.source(source), real_tokens(source))  # (B, n, d)

    def decode(self, tokens, memory, memory_allowed, cache=None):
        seen = read_before(cache)
        x = self.target(tokens[:, seen:], seen)
        x = self.decoder(x, causal_mask(tokens)[seen:], memory, memory_allowed, cache)
        return self.out(x)  # (B, T - seen, V)

    def forward(self, source, tokens):
        return self.decode(tokens, self.encode(source), real_tokens(source))


# %% [markdown]
# **Three shapes from one block.** `Stack` is $L$ blocks and a last norm. With the mask of chapter 07 it is a
# *decoder*, or language model; without, an *encoder*; with `cross=True` it is the decoder of a translator. The
# class `OneStack` is the first two, `Transformer` the third. The `cache` is for section 8; until then, pass
# over it.
#
# | symbol | shape | in the code |
# | --- | --- | --- |
# | source, target | $(B, n)$, $(B, T)$ | token numbers, `PAD` at the end |
# | $X$, $Y$ | $(B, n, d)$, $(B, T, d)$ | what goes through the stacks |
# | memory $M$ | $(B, n, d)$ | output of the encoder |
# | weights $A_\ell$ of head $\ell$ | $(n, n)$; $(T, T)$ and $(T, n)$ | encoder; decoder, itself and across |
# | scores | $(B, T, V)$ | of the token after each target token |
#
# Our sentence comes from chapter 04, the number 293. We give each word a number of its own, English and German
# in one vocabulary, and look at a small model with random weights.

# %%
pair = number_pair(293)
words = ["<pad>", "<s>", "</s>", *dict.fromkeys(pair.source + pair.target)]
source = mt.tensor([[words.index(word) for word in pair.source]])  # (1, n)
target = mt.tensor([[words.index(word) for word in ["<s>", *pair.target]]])  # (1, T)
mt.manual_seed(0)
model = Transformer(len(words), len(words), width=16, heads=4, hidden=64, layers=2).double()
print(" ".join(pair.source), "->", " ".join(pair.target))
print("memory:", tuple(model.encode(source).shape), " scores:", tuple(model(source, target).shape))

# %% [markdown]
# Is it right? We check it against what we have built before. First, attention with heads, as a loop over heads
# and queries, and as `MultiHeadAttention` does it:

# %%
attention, d, h = model.decoder.blocks[0].cross, 16, 4
x, memory = mt.randn(6, d).double(), model.encode(source)[0]  # (T, d), (n, d)
rows = []
for x_i in x:
    heads = []
    for head in range(h):
        mine = slice(head * d // h, (head + 1) * d // h)  # this head's columns
        q_i = attention.query.weight[mine] @ x_i
        scores = [q_i @ (attention.key.weight[mine] @ m_j) / (d / h) ** 0.5 for m_j in memory]
        weights = mt.stack(scores).softmax(0)
        heads.append(
            sum(
                a * (attention.value.weight[mine] @ m) for a, m in zip(weights, memory, strict=True)
            )
        )
    rows.append(attention.out.weight @ mt.cat(heads))
by_loop = mt.stack(rows)
print("loop and matrices agree:", mt.allclose(attention(x[None], memory[None])[0], by_loop))

# %% [markdown]
# Second, the decoder. Training computes the scores of all positions in one pass. When the model translates it gets
# one token after another. Both must be the same, which is what the causal mask is for (chapter 07):

# %%
with mt.no_grad():
    memory, real = model.encode(source), real_tokens(source)
    one_pass = model(source, target)
    step_by_step = [
        model.decode(target[:, : t + 1], memory, real)[:, -1] for t in range(target.shape[1])
    ]
print("token by token and at once agree:", mt.allclose(mt.stack(step_by_step, dim=1), one_pass))

# %% [markdown]
# Third, nothing leaks: the gradient of the scores at position $t$ with respect to what the decoder reads at
# later positions is exactly zero. And fourth, padding changes nothing: in a batch with a longer sentence, 293
# gets the scores that it gets alone.

# %%
read = model.target(target).detach().requires_grad_()  # (1, T, d)
x = model.decoder(read, causal_mask(target), memory, real)
for t in range(3):
    [gradient] = mt.autograd.grad(model.out(x)[0, t].sum(), [read], retain_graph=True)
    print(f"gradient of position {t + 1} from the future:", gradient[0, t + 1 :].abs().sum().item())

longer = mt.cat([source, source], dim=1)
batch = mt.cat([longer, mt.cat([source, mt.full_like(source, PAD)], dim=1)])  # (2, 2 n)
in_batch = model(batch, target.repeat(2, 1))[1]
print("padding changes nothing:", mt.allclose(in_batch, one_pass[0]))

# %% [markdown]
# ## 3. Base and big
#
# The paper trained two sizes, with one vocabulary of about 37,000 pieces for both languages:
#
# | | width $d$ | heads $h$ | hidden $m$ | layers $L$ | dropout | training steps |
# | --- | --- | --- | --- | --- | --- | --- |
# | base | 512 | 8 | 2048 | 6 + 6 | 0.1 | 100,000 |
# | big | 1024 | 16 | 4096 | 6 + 6 | 0.3 | 300,000 |
#
# How many weights is that? Attention has four matrices of $d^2$ (without biases, as in the paper's formulas), the
# network $2dm + m + d$, a norm $2d$. So
#
# $$P = \underbrace{V d}_{\text{embeddings}} + L\,\underbrace{(4d^2 + 2dm + m + 5d)}_{\text{encoder block}}
# + L\,\underbrace{(8d^2 + 2dm + m + 7d)}_{\text{decoder block}} + \underbrace{4d}_{\text{last norms}} .$$
#
# The number of heads does not occur (chapter 06, C13). There is one $Vd$ and not three: the paper uses the
# *same* matrix to embed the source, to embed the target and, transposed, as output layer. These are **tied
# embeddings** (Press and Wolf, 2017): a token's row should be near the vectors after which it is likely, and that
# is a good description of the token too. We hold the formula against the model. To build it we need no
# weights, only their shapes. So we keep the library from drawing random numbers, which would take ten seconds
# and 1.7 GB for big.


# %%
def parameter_count(vocabulary, width, hidden, layers):
    """Weights of a Transformer with tied embeddings."""
    network = 2 * width * hidden + hidden + width
    encoder_block = 4 * width**2 + network + 4 * width
    decoder_block = 8 * width**2 + network + 6 * width
    return vocabulary * width + layers * (encoder_block + decoder_block) + 4 * width


def undrawn(*sizes, **options):
    """A Transformer whose matrices are reserved but not filled."""
    with patch("minitorch.nn.init.uniform_"), patch("minitorch.nn.init.normal_"):
        return Transformer(*sizes, **options)


PAPER = {"base": (512, 8, 2048, 6), "big": (1024, 16, 4096, 6)}
VOCABULARY = 37_000
for name, (width, heads, hidden, layers) in PAPER.items():
    by_formula = parameter_count(VOCABULARY, width, hidden, layers)
    built = undrawn(VOCABULARY, VOCABULARY, width, heads, hidden, layers)
    counted = sum(p.numel() for p in built.parameters())
    share = VOCABULARY * width / by_formula
    print(
        f"{name:4}: by formula {by_formula:11,}, built {counted:11,}, equal: {by_formula == counted},",
        end=" ",
    )
    print(f"embeddings {share:.0%}")

# %% [markdown]
# The paper says 65 and 213 million, we have 63.0 and 214.2. A part of the difference is known: our last norms add 2,048
# weights to base, and biases in the attentions would add 37 thousand. The rest must be the size of the vocabulary, "about
# 37,000" in the paper, and rounding. (Base would need 41,000 pieces, big 36,000, so one vocabulary cannot explain both.)
#
# ## 4. What 3.3e18 FLOPs means
#
# The paper gives the training of base as $3.3 \cdot 10^{18}$ FLOPs. Can we find this number again? We know how to
# count (chapter 00): a product of $(n, k)$ and $(k, m)$ costs $2nkm$, so a weight costs 2 FLOPs for each token that
# meets it, and 6 with the two products of the backward pass. Which token meets which weight?
#
# | FLOPs of the forward pass | for each source token | for each target token |
# | --- | --- | --- |
# | encoder block: four matrices, network | $2(4d^2 + 2dm)$ | |
# | scores and mixing | $4nd$ | |
# | decoder block: own attention, network | | $2(4d^2 + 2dm)$ |
# | scores and mixing, itself and across | | $4Td + 4nd$ |
# | cross-attention: keys and values; queries and output | $4d^2$ | $4d^2$ |
# | output layer | | $2dV$ |
#
# Embedding is looking up, and costs nothing. Training costs three times the forward pass.


# %%
def training_flops(vocabulary, width, hidden, layers, n, T):
    """FLOPs of the products of one training step, for one pair of n source and T target tokens."""
    block = 8 * width**2 + 4 * width * hidden
    source = layers * (block + 4 * width * n + 4 * width**2)
    target = layers * (block + 4 * width * (T + n) + 4 * width**2) + 2 * width * vocabulary
    return 3 * (n * source + T * target)


def counted_flops(model, vocabulary, batch, n, T):
    """The same, counted while it happens, for a batch of random tokens."""
    source, target = mt.randint(1, vocabulary, (batch, n)), mt.randint(1, vocabulary, (batch, T))
    with count_flops() as counter:
        model(source, target).sum().backward()
    return counter.total


for vocabulary, width, hidden, layers, n, T in ((50, 16, 32, 1, 7, 9), (30, 32, 128, 3, 12, 5)):
    small = Transformer(vocabulary, vocabulary, width, 4, hidden, layers)
    by_formula = 2 * training_flops(vocabulary, width, hidden, layers, n, T)
    print(
        "small model, counted as by formula:",
        counted_flops(small, vocabulary, 2, n, T) == by_formula,
    )

width, heads, hidden, layers = PAPER["base"]
base = undrawn(VOCABULARY, VOCABULARY, width, heads, hidden, layers)
for p in base.parameters():
    p.data.zero_()  # for the count, any numbers will do
by_formula = training_flops(VOCABULARY, width, hidden, layers, 25, 25)
print(
    "base itself, counted as by formula:", counted_flops(base, VOCABULARY, 1, 25, 25) == by_formula
)
del base, built

# %% [markdown]
# A batch of the paper held about 25,000 source and 25,000 target tokens, say 1,000 pairs of 25. Now the whole
# training, beside what the paper says. Its number is of another kind: hours times processors times what a
# processor can do at best (a P100 here, $9.5 \cdot 10^{12}$ FLOPs a second).

# %%
RUNS = {"base": (100_000, 12), "big": (300_000, 3.5 * 24)}  # steps, hours on 8 processors
print("        by the products   hardware time   ratio   6 P x all tokens")
for name, (steps, hours) in RUNS.items():
    width, heads, hidden, layers = PAPER[name]
    products = steps * 1000 * training_flops(VOCABULARY, width, hidden, layers, 25, 25)
    hardware = 8 * hours * 3600 * 9.5e12
    rough = 6 * parameter_count(VOCABULARY, width, hidden, layers) * 50_000 * steps
    print(f"{name:4}: {products:15.1e} {hardware:15.1e} {products / hardware:8.0%} {rough:15.1e}")

# %% [markdown]
# So $3.3 \cdot 10^{18}$ is $8 \times 12\,\text{h} \times 9.5 \cdot 10^{12}$: *what the processors could have computed*. The
# products of the model come to a bit under a third of that, about $10^{18}$. A ratio of 30 to 40 % is good work, not a
# mistake; but a number of the first kind beside one of the second would favour whoever counts products. (And
# the rule "6 times parameters times tokens", taken with all 50,000 tokens, gives too much: an encoder's weights never see the target, nor the
# decoder's the source.) In our table in section 9 every model is counted in the same way, by its products.
#
# ## 5. The decoder writes
#
# A language model needs the decoder alone, `OneStack` with the causal mask. The text is that of chapters 01 and
# 07, Python's language reference. But we stop reading single characters. They make sequences long, and a
# vocabulary of whole words is large and never complete. In between lies **byte-pair encoding** (Sennrich, Haddow and Birch,
# 2016): start from single characters, and merge, again and again, the two neighbours that occur together most often.
# Three merges by hand:

# %%
chunks = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # words and how often they occur
spelled = {word: list(word) for word in chunks}
for _ in range(3):
    counts = {}
    for word, pieces in spelled.items():
        for two in zip(pieces, pieces[1:], strict=False):
            counts[two] = counts.get(two, 0) + chunks[word]
    best = max(counts, key=counts.get)
    for pieces in spelled.values():
        for i in reversed(range(len(pieces) - 1)):
            if (pieces[i], pieces[i + 1]) == best:
                pieces[i : i + 2] = ["".join(best)]
    print(
        f"{' + '.join(best):7} ({counts[best]} times):",
        *(" ".join(p) for p in spelled.values()),
        sep="   ",
    )

# %% [markdown]
# The ending *est* is a piece after two merges. The library's `BytePairEncoding` does the same with bytes, so that no
# text is unknown to it, and lets a space belong to the word that follows.

# %%
training_text, validation_text = split(language_reference(), validation=0.1)


@cache
def pieces_of_text(merges):
    """An encoding learned from the training text, and both parts of the text in its pieces."""
    encoding = BytePairEncoding.learn(training_text, merges, specials=["<pad>", "<blank>"])
    return encoding, encoding.encode(training_text), encoding.encode(validation_text)


for merges in (0, 300):
    encoding, training, _ = pieces_of_text(merges)
    print(
        f"{merges} merges, vocabulary {len(encoding)}:",
        encoding.pieces("The value of the attribute is"),
    )

# %% tags=["nbval-ignore-output"]
for merges in (0, 300, 1000):
    encoding, training, validation = pieces_of_text(merges)
    print(
        f"{merges:4} merges: {len(training):,} pieces, {len(training_text) / len(training):.2f} characters a piece"
    )

# %% [markdown]
# A loss per piece cannot be compared between vocabularies: a long piece is harder to guess than a letter, and
# there are fewer of them. What can be compared is the loss of the whole text. We divide it by the number of *characters*:
# nats per character.


# %%
def windows(numbers, count, length):
    """Windows (count, length) that start anywhere in a text."""
    starts = mt.randint(0, len(numbers) - length + 1, (count, 1))
    return numbers[starts + mt.arange(length)]


def warmed(step, steps, rate):
    """Up in a line for a tenth of the steps, then down in a line to zero; step counts from 0."""
    return rate * min(10 * (step + 1) / steps, 1) * (1 - step / steps)


def train(model, loss_of_batch, rate, steps):
    """Train on batches whose loss ``loss_of_batch(model)`` gives; returns the losses."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    history = []
    for step in tqdm(range(steps), leave=False):
        loss = loss_of_batch(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = warmed(step, steps, rate)
        optimizer.step()
        history.append(loss.item())
    model.eval()
    return history


LENGTH, BATCH = 64, 16


def next_piece(numbers, model):
    """The loss of the next piece in random windows."""
    window = windows(numbers, BATCH, LENGTH + 1)
    return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


@cache
def writer(merges, seed, rate, steps):
    """A language model of the reference, and its training losses."""
    encoding, training, _ = pieces_of_text(merges)
    mt.manual_seed(seed)
    model = OneStack(len(encoding), width=64, heads=4, hidden=256, layers=2)
    return model, train(model, partial(next_piece, training), rate, steps)


@mt.no_grad()
def nats_per_character(model, merges):
    """Loss of the validation text, read in windows that lie side by side."""
    encoding, _, validation = pieces_of_text(merges)
    count = (len(validation) - 1) // LENGTH
    inputs = validation[: count * LENGTH].reshape(count, LENGTH)
    targets = validation[1 : count * LENGTH + 1]
    total = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="sum").item()
    return total / len(encoding.decode(targets))


@mt.no_grad()
def write(model, merges, prompt, length, **how):
    """Go on from a prompt by ``length`` pieces."""
    encoding, *_ = pieces_of_text(merges)

    def step(tokens, state):
        return model(tokens[:, -LENGTH:]), state

    tokens = sample(step, encoding.encode(prompt)[None], length, **how)
    return encoding.decode(tokens[0])


# %% [markdown]
# ### Characters or pieces (E5)


# %%
@lab.experiment(
    "E5",
    quick=dict(merges=[300], seeds=[0], steps=150, rate=1e-2),
    full=dict(merges=[0, 300], seeds=[0, 1, 2], steps=1000, rate=1e-2),
)
def writing(merges, seeds, steps, rate):
    def run(count, seed):
        model, _ = writer(count, seed, rate, steps)
        mt.manual_seed(seed)
        texts = [write(model, count, prompt, 60, temperature=0.7) for prompt in ("The ", "If a ")]
        return {"nats": nats_per_character(model, count), "texts": texts}

    return {str(count): [run(count, seed) for seed in seeds] for count in merges}


writing_here = writing.run()
writing_full = writing.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(writing_here, writing_full).items():
    for merges, runs in result.items():
        row = ", ".join(f"{run['nats']:.3f}" for run in runs)
        print(f"{setting:5} {merges:>4} merges, nats per character: {row}")
for text in (writing_full["result"] if writing_full else writing_here)["300"][0]["texts"]:
    print(textwrap.fill(text, width=100), "\n")

# %%
letters = [training_text.count(c) / len(training_text) for c in validation_text]
unigram = -sum(math.log(share or 1e-6) for share in letters) / len(letters)
print("quick: 0.7 nats per character better than letter frequencies:", end=" ")
print(writing_here["300"][0]["nats"] < unigram - 0.7)

# %% [markdown]
# The measured losses stand above.
#
# ## 6. The encoder fills a blank
#
# Now without the mask. Every position sees the whole text, left and right, so predicting the next token would
# be cheating (chapter 07, C15). What is left to predict? Something that we have taken out: a **blank**. We give
# the encoder $k$ characters, a blank, and $k$ more, and ask for the character in the middle:
#
# $$P(x_t \mid x_{t-k}, \dots, x_{t-1},\, \texttt{<blank>},\, x_{t+1}, \dots, x_{t+k}) .$$
#
# The same class, `causal=False`. Beside it stands a language model that reads as many characters, the $2k$ to the
# left. It gets the easier training: its loss is over all positions of each window, as usual, while the encoder has
# one blank a window.


# %%
def fill_blank(numbers, reach, model):
    """The loss at a blank in the middle of random windows."""
    window = windows(numbers, 64, 2 * reach + 1)
    return F.cross_entropy(model(blanked(window, reach))[:, reach], window[:, reach])


def blanked(window, place):
    """Windows with a blank at this place."""
    return window.masked_fill(mt.arange(window.shape[1]) == place, BLANK)


def next_of_all(numbers, reach, model):
    """The loss of the next character, at all positions of random windows."""
    window = windows(numbers, 64, 2 * reach + 1)
    return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


BLANK = pieces_of_text(0)[0]["<blank>"]


@cache
def filler(side, reach, seed, rate, steps):
    """An encoder that reads both sides, or a language model that reads the left one."""
    encoding, training, _ = pieces_of_text(0)
    mt.manual_seed(seed)
    model = OneStack(len(encoding), 64, 4, 256, 2, causal=side == "left")
    loss = {"both": fill_blank, "left": next_of_all}[side]
    train(model, partial(loss, training, reach), rate, steps)
    return model


@mt.no_grad()
def share_right(model, side, reach):
    """How many characters of the validation text are guessed right, one in each window."""
    *_, validation = pieces_of_text(0)
    size = 2 * reach + 1
    window = validation[: len(validation) // size * size].reshape(-1, size)
    if side == "both":
        guess, truth = model(blanked(window, reach))[:, reach].argmax(-1), window[:, reach]
    else:
        guess, truth = model(window[:, :-1])[:, -1].argmax(-1), window[:, -1]
    return (guess == truth).float().mean().item()


# %% [markdown]
# ### Both sides or one (E6)


# %%
@lab.experiment(
    "E6",
    quick=dict(seeds=[0], reach=4, steps=150, rates=[5e-3]),
    full=dict(seeds=[0, 1, 2], reach=4, steps=600, rates=[5e-3, 1e-2]),
)
def blanks(seeds, reach, steps, rates):
    return {
        side: {
            str(rate): [
                share_right(filler(side, reach, s, rate, steps), side, reach) for s in seeds
            ]
            for rate in rates
        }
        for side in ("both", "left")
    }


blanks_here = blanks.run()
blanks_full = blanks.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(blanks_here, blanks_full).items():
    for side, by_rate in result.items():
        for rate, shares in by_rate.items():
            row = ", ".join(f"{share:.3f}" for share in shares)
            print(f"{setting:5} {side:4} rate {rate:6} characters guessed right: {row}")
commonest = max(validation_text.count(c) for c in set(validation_text)) / len(validation_text)
print(f"always guessing a space: {commonest:.3f}")

# %%
both, left = (blanks_here[side]["0.005"][0] for side in ("both", "left"))
print("quick: both sides at least 0.1 better than the commonest character:", both > commonest + 0.1)

# %% [markdown]
# ## 7. A translator of numbers and dates

# %%
SPECIALS = ["<pad>", "<s>", "</s>"]
PAIRS = number_pairs(4000, digits=(1, 4), seed=0)
SHARED = Vocabulary((word for p in PAIRS for word in p.source + p.target), SPECIALS)
START, END = SHARED["<s>"], SHARED["</s>"]


def batch_of(pairs):
    source, _ = SHARED.encode_batch([p.source for p in pairs], batch_first=True)
    target, _ = SHARED.encode_batch(
        [p.target for p in pairs], start=True, end=True, batch_first=True
    )
    return source, target


def next_token(model):
    source, target = batch_of([PAIRS[i] for i in mt.randint(0, len(PAIRS), (64,)).tolist()])
    scores = model(source, target[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


mt.manual_seed(0)
translator = Transformer(len(SHARED), len(SHARED), 64, 4, 256, 2)
history = train(translator, next_token, 5e-3, 100)

# %% [markdown]
# ## 8. Decoding
#
# A trained translator gives probabilities for the next token. Chapter 03 made sentences from them in three ways, and
# they work here unchanged: `greedy` takes the likeliest token each time, `sample` draws one (flatter or sharper by a temperature, or
# from the $k$ likeliest), `beam_search` follows several beginnings at once and keeps the likeliest whole. All
# they need is a function `step` that gives scores for the next token; and here it is one line. The *state* that
# goes from step to step holds what belongs to each sentence: its memory, which source tokens are real, and the
# cache.


# %%
def step(tokens, state):
    """Scores of the next token; the state is (memory, real tokens, cache)."""
    return translator.decode(tokens, *state), state


def begin(source, cached=True):
    """The first tokens and the state for a batch of sources."""
    start = mt.full((len(source), 1), START)
    cache = [({}, {}) for _ in translator.decoder.blocks] if cached else None
    return start, (translator.encode(source), real_tokens(source), cache)


with mt.no_grad():
    source, _ = batch_of([number_pair(293)])
    start, state = begin(source)
    print(
        "greedy:  ",
        " ".join(SHARED.decode_batch(greedy(step, start, 20, end=END, state=state), True)[0]),
    )

# %% [markdown]
# ### The cache (E2)
#
# ## 9. Beside the recurrent models
#
# ### The table (C23)
#
# ## 10. Depth and heads
#
# ### Deeper, and how many heads (C38)
#
# ## 11. What it looks at
#
# ## 12. The same weights in PyTorch
#
# ## 13. On a GPU
#
# ## Summary
#
# **Exercises**:
# [`../exercises/10_transformer/10_transformer.ipynb`](../exercises/10_transformer/10_transformer.ipynb)
