# %% [markdown]
# # 07 Masking
#
# Self-attention lets every token look at every other one, also at those that come after it. For a model
# that reads a whole sentence this is its strength. For a model that has to *predict the next token* it is
# a disaster: the answer stands in the input. This chapter takes the future away, and shows how to make
# sure that it is gone.
#
# **After this chapter you will be able to**
#
# - tell a model that cheats from one that has learned, though its training and its validation loss are low;
# - write causal masks, padding masks and both together, and say which of the two opposite conventions a
#   function follows;
# - explain why scores go to minus infinity before the softmax, and measure what leaks when weights go to zero
#   after it;
# - keep rows that may look nowhere from filling a model with NaN;
# - test a model for leaks with gradients and with random tokens;
# - train a masked language model in one pass a batch, and count what that saves.
#
# **Time**: about 100 minutes to read and try; all cells together run in half a minute. **Before it**:
# chapters 05 (self-attention) and 06 (several heads). Language models, teacher forcing and the corpus are
# those of chapter 01, padding that of chapter 03.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`.

# %%
import math
import textwrap
from collections import Counter
from functools import cache, partial
from time import perf_counter

from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.data import Vocabulary, language_reference, split
from textbook.experiments import Experiments

lab = Experiments("07")

# %% [markdown]
# ## 1. A model that cheats
#
# One sentence goes with us through this chapter. A language model reads it and predicts, at every
# position, the token that comes next:
#
# | position $i$ | 1 | 2 | 3 | 4 |
# | --- | --- | --- | --- | --- |
# | input $x_i$ | be | water | my | friend |
# | target $x_{i+1}$ | water | my | friend | `</s>` |
#
# Look at the two rows: the target of position 1 *is* the input of position 2. An RNN has not read it yet
# when it has to answer. Self-attention has. To see it in numbers, we choose queries, keys and values of
# the $n = 4$ words by hand, with $d = 4$. Each key is twice a unit vector, so that after the division by
# $\sqrt d = 2$ the score of query $i$ and key $j$ is simply number $j$ of query $i$.

# %%
words = "be water my friend".split()
query = mt.tensor(
    [
        [1.0, 2.0, 0.0, 0.0],  # be
        [0.0, 1.0, 3.0, 0.0],  # water
        [1.0, 0.0, 1.0, 2.0],  # my
        [2.0, 1.0, 0.0, 1.0],  # friend
    ]
)  # (n, d)
key = 2 * mt.eye(4)  # (n, d)
value = mt.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0]])  # (n, d_v)


def attention(query, key, value):
    """Chapter 05: softmax(query key^T / sqrt(d)) value, (..., T, d_v)."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., T, n)
    return scores.softmax(-1) @ value


weights = (query @ key.T / 2).softmax(-1)
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8, width_ratios=[1, 1.2])
plot.attention(left, weights, words, words, values=True, colorbar=False)
inputs, targets = words, [*words[1:], "</s>"]
for i, (word, target) in enumerate(zip(inputs, targets, strict=True)):
    right.text(i, 0, word, ha="center", va="center")
    right.text(i, 1, target, ha="center", va="center", color=plot.COLORS[1])
    right.annotate("", (i, 0.9), (i, 0.1), arrowprops=dict(arrowstyle="->", color="0.6"))
    if i:
        arrow = dict(arrowstyle="->", color=plot.COLORS[1], lw=2)
        right.annotate("", (i - 0.9, 0.9), (i - 0.1, 0.1), arrowprops=arrow)
right.set(xlim=(-0.6, 3.6), ylim=(-0.3, 1.3), title="inputs below, targets above")
right.axis("off")
plot.show(
    figure,
    alt="Left: weights of the four words, with much weight above the diagonal. Right: inputs below, "
    "targets above; a thick arrow leads from each input to the target of the position before it, which "
    "is the same word.",
)
print("weight of 'be' on words that come later:", round(weights[0, 1:].sum().item(), 3))
fused = F.scaled_dot_product_attention(query, key, value)
print("the library has it as one operation:", mt.allclose(fused, attention(query, key, value)))

# %% [markdown]
# More than three quarters of what position 1 gets comes from words that it is supposed to guess. A model needs
# only to learn "copy what stands one place to the right". Will it?
#
# The corpus is chapter 01's: Python's language reference, character by character, each paragraph starting
# with `<s>`, the last tenth kept for validation.


# %%
def characters(paragraphs):
    """All paragraphs as one list of tokens, <s> before each and after the last."""
    return [token for paragraph in paragraphs for token in ["<s>", *paragraph]] + ["<s>"]


training_text, validation_text = map(
    characters, split(language_reference().splitlines(), validation=0.1)
)
letters = Vocabulary(training_text, specials=["<unk>", "<s>"], min_count=20)
training, validation = letters.encode(training_text), letters.encode(validation_text)
CONTEXT, VOCABULARY = 32, len(letters)  # characters that a model sees at once; all that it knows


def training_windows(count):
    """Windows of the training text that start anywhere: inputs and targets (B, n)."""
    starts = mt.randint(0, len(training) - CONTEXT, (count, 1))
    window = training[starts + mt.arange(CONTEXT + 1)]  # (B, n + 1)
    return window[:, :-1], window[:, 1:]


def validation_windows(every=4):
    """Every fourth of the windows that lie side by side in the validation text."""
    count = (len(validation) - 1) // CONTEXT
    inputs = validation[: count * CONTEXT].reshape(count, CONTEXT)
    targets = validation[1 : count * CONTEXT + 1].reshape(count, CONTEXT)
    return inputs[::every], targets[::every]


# %% [markdown]
# The model is the smallest that can be called a self-attention language model: embedding, one layer of
# attention with the heads of chapter 06, and the multilayer perceptron of chapter 00 to read out the
# scores of the next token. Two remarks. Attention knows no order (chapter 05, C10), so we borrow a tool:
# a learned vector for each position, added to the embedding. Chapter 08 explains it. And *how* to attend
# is an argument, `attend`, a function of queries, keys and values. All models of this chapter differ in
# this function alone.


# %%
class LanguageModel(nn.Module):
    """Tokens (B, n) to scores of the next token at every position (B, n, V)."""

    def __init__(self, attend, size=VOCABULARY, context=CONTEXT, width=96, heads=8, hidden=256):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.embedding = nn.Embedding(size, width)
        self.position = nn.Embedding(context, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.read_out = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, size))

    def split(self, x):
        """(B, n, d) to (B, h, n, d/h)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(mt.arange(tokens.shape[1]))  # (B, n, d)
        projected = (self.split(make(x)) for make in (self.query, self.key, self.value))
        heads = self.attend(*projected)  # (B, h, n, d/h)
        return self.read_out(self.out(heads.transpose(1, 2).flatten(2)))


def train(model, rate, steps, draw):
    """Train on batches from ``draw``, the rate falling to zero; returns the loss of each step."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    history = []
    for step in tqdm(range(steps), leave=False):
        inputs, targets = draw()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.step()
        history.append(loss.item())
    return history


@cache
def trained(make, rate, seed, steps):
    """A model of the text, and its training losses."""
    mt.manual_seed(seed)
    model = make()
    return model, train(model, rate, steps, partial(training_windows, 16))


# %% [markdown]
# How do we judge it? Two losses on the validation text, for each position $i$:
#
# - **in one pass**: the model gets all $n$ inputs at once, as in training;
# - **from the prefix**: it gets $x_1, \dots, x_i$ and nothing else. This is what it gets when it writes,
#   since the rest is not there yet.
#
# And we let it write 100 lines of 31 characters, each from `<s>`, and count how many of the words that it
# writes occur in the training text.


# %%
@mt.no_grad()
def losses_by_position(model):
    """Mean validation loss at each position, in one pass and from the prefix alone."""
    inputs, targets = validation_windows()
    scores = model(inputs).transpose(1, 2)  # (B, V, n)
    one_pass = F.cross_entropy(scores, targets, reduction="none").mean(0)
    prefix = [
        F.cross_entropy(model(inputs[:, : i + 1])[:, -1], targets[:, i]).item()
        for i in range(CONTEXT)
    ]
    return {"one pass": one_pass.tolist(), "prefix": prefix}


@mt.no_grad()
def write(model, prompt="", length=CONTEXT - 1, count=1):
    """Go on from a prompt: ``count`` texts, drawn token by token from the softmax."""
    tokens = letters.encode(["<s>", *prompt]).repeat(count, 1)  # (count, T)
    for _ in range(length):
        scores = model(tokens[:, -CONTEXT:])[:, -1]  # (count, V)
        tokens = mt.cat([tokens, mt.multinomial(scores.softmax(-1), 1)], dim=1)
    texts = ["".join(letters.decode(row[1:])) for row in tokens]
    return [text.split("<s>")[0] for text in texts]


def known_words(model, seed=0):
    """Which share of the words that a model writes occur in the training text."""
    mt.manual_seed(seed)
    vocabulary = set("".join(training_text).replace("<s>", " ").split())
    written = [word for text in write(model, count=100) for word in text.split()[:-1]]
    return sum(word in vocabulary for word in written) / max(len(written), 1)


def judge(model, history):
    """What we want to know of a trained language model."""
    by_position = losses_by_position(model)
    means = {way: sum(losses) / CONTEXT for way, losses in by_position.items()}
    return {
        "training": sum(history[-50:]) / 50,
        "by position": by_position,
        "known words": known_words(model),
        **means,
    }


# %% [markdown]
# ### Low loss, useless text (E1)

# %%
RATE = 5e-3
unmasked = partial(LanguageModel, F.scaled_dot_product_attention)


@lab.experiment(
    "E1",
    quick=dict(rates=[RATE], seeds=[0], steps=300),
    full=dict(rates=[2.5e-3, RATE], seeds=[0, 1, 2], steps=600),
)
def cheating(rates, seeds, steps):
    return {
        str(rate): [judge(*trained(unmasked, rate, seed, steps)) for seed in seeds]
        for rate in rates
    }


cheat_here = cheating.run()
cheat_full = cheating.recorded

# %%
figure, axes = plot.subplots(width=7.5, height=3)
places = range(1, CONTEXT + 1)
run, *_ = cheat_here[str(RATE)]
for way, name in {"one pass": "in one pass", "prefix": "from the prefix"}.items():
    axes.plot(places, run["by position"][way], marker="o", markersize=3, label=name)
axes.axhline(math.log(VOCABULARY), color="0.5", linewidth=1, linestyle="-")
axes.text(1, 0.75 * math.log(VOCABULARY), "guessing evenly", va="top", fontsize=9)
axes.set(xlabel="position in the window", ylabel="validation loss", yscale="log")
axes.legend(loc=(0.3, 0.62), ncols=2)
plot.show(
    figure,
    alt="Validation loss of the model without a mask. In one pass it is nearly zero at all positions but "
    "the last; from the prefix alone it is far above the loss of guessing, until the last position.",
)


# %% tags=["nbval-ignore-output"]
def print_judgements(name, runs_by_rate):
    """A line for each run."""
    for rate, runs in sorted(runs_by_rate.items(), key=lambda item: float(item[0])):
        for seed, run in enumerate(runs):
            ways = ("training", "one pass", "prefix", "known words")
            row = ", ".join(f"{way} {run[way]:.3f}" for way in ways)
            last = run["by position"]["one pass"][-1]
            print(
                f"{name}, rate {rate}, seed {seed}: {row}, one pass at the last position {last:.2f}"
            )


print_judgements("quick", cheat_here)
print_judgements("full ", cheat_full["result"] if cheat_full else {})
mt.manual_seed(0)
cheater, _ = trained(unmasked, RATE, 0, cheating.quick["steps"])
for text in write(cheater, "The ", count=3):
    print("it writes:", text)

# %%
print("training loss below 0.3:", run["training"] < 0.3)
print("validation loss in one pass below 0.3:", run["one pass"] < 0.3)
print("from the prefix worse than guessing evenly:", run["prefix"] > math.log(VOCABULARY))

# %% [markdown]
# It will. Such a loss is beyond any honest model of this text: chapter 01's RNN came to 1.4. Asked to write,
# the model does worse than guessing all tokens alike, $\log 67 = 4.2$, and not one of the words that it
# writes is in the training text. The **validation loss does not notice**: the model cheats there just as
# well. But the **last position** gives it away. Nothing stands to its right in the window, so there the model
# has to work, and its loss in one pass is the one from the prefix. A loss by position is a cheap alarm.
#
# > **E1 · no, but for the last position.** *Our question*: does its loss show that a model without a mask
# > cheats?
# >
# > *Measured*: Training 0.078 to 0.086, validation in one pass 0.081 to 0.088, from the prefix 8.2 to 9.4
# > (guessing all tokens alike: 4.2), over three seeds and two rates; known words 0.000. At the last position,
# > where there is no future, the loss in one pass is 2.60 to 2.79.
#
# ## 2. The causal mask
#
# The cure is easy to say: token $i$ may look at $j \le i$ only. Its own position is included, since $x_i$
# is known and $x_{i+1}$ is the target. First as a loop over tokens, each with the keys and values that it
# may see:


# %%
def causal_by_loop(query, key, value):
    """Attention of each token to itself and the tokens before it, one after the other."""
    rows = []
    for i in range(len(query)):
        scores = key[: i + 1] @ query[i] / math.sqrt(query.shape[-1])  # (i + 1)
        rows.append(scores.softmax(-1) @ value[: i + 1])
    return mt.stack(rows)  # (n, d_v)


by_loop = causal_by_loop(query, key, value)
print(by_loop)

# %% [markdown]
# With a pencil: the first token sees only itself, so its output is its own value, $(1, 0)$. The second has
# the scores 0 and 1, the weights $1/(1+e) = 0.269$ and $0.731$, and its output is $(0.269, 0.731)$.
#
# In matrices, all scores are computed at once, and those of the future are replaced by minus infinity
# before the softmax of the row:
#
# $$e_{ij} = \begin{cases} q_i^\top k_j / \sqrt d & j \le i \\ -\infty & j > i \end{cases} \qquad
# \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad a_i = \sum_{j=1}^{n} \alpha_{ij} v_j .$$
#
# Query $q_i$ and key $k_j$ have the shape $(d)$, value $v_j$ and output $a_i$ (chapter 05's $o_i$) the shape $(d_v)$; scores $e$ and
# weights $\alpha$ make matrices $(n, n)$.
# Since $e^{-\infty} = 0$, those weights are exactly zero, and the others add up to one by themselves. A
# **mask** says where: a boolean matrix that is True where query $i$ *may* look at key $j$.


# %%
def causal_mask(n):
    """True where a query (row) may look at a key (column): j <= i, (n, n)."""
    return mt.ones(n, n).tril().bool()


def masked_attention(query, key, value, allowed):
    """Attention where ``allowed`` (..., T, n) is True: outputs (..., T, d_v) and weights."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)  # (..., T, n)
    return weights @ value, weights


output, weights = masked_attention(query, key, value, causal_mask(4))
print("equals the loop:", mt.allclose(output, by_loop))
print("rows add up to one:", mt.allclose(weights.sum(-1), mt.ones(4)))
print(weights.round(decimals=3))

# %%
scores = (query @ key.T / 2).masked_fill(~causal_mask(4), -math.inf)
figure, (left, middle, right) = plot.subplots(1, 3, width=9, height=2.8)
plot.mask(left, causal_mask(4), words, words, title="may look")
grey = dict(cmap="Greys", vmin=0, vmax=5, colorbar=False)
finite = scores.masked_fill(~causal_mask(4), 0.0)
plot.heatmap(middle, finite, row_labels=words, column_labels=words, **grey)
middle.xaxis.tick_top()
middle.set_title("scores")
for i, row in enumerate(scores.tolist()):
    for j, score in enumerate(row):
        text = "$-\\infty$" if score == -math.inf else f"{score:g}"
        middle.text(j, i, text, ha="center", va="center")
plot.attention(right, weights, words, words, values=True, colorbar=False, title="weights")
for axes in (left, right):
    axes.set(xlabel="", ylabel="")
plot.show(
    figure,
    alt="Three squares of four by four words. The mask allows the lower triangle with the diagonal; the "
    "scores above it are minus infinity; the weights above it are .00.",
)

# %% [markdown]
# The library knows the mask as an argument and the causal one by name:

# %%
by_mask = F.scaled_dot_product_attention(query, key, value, attn_mask=causal_mask(4))
by_name = F.scaled_dot_product_attention(query, key, value, is_causal=True)
print("the library agrees:", mt.allclose(by_mask, output), mt.allclose(by_name, output))

# %% [markdown]
# > **TRUE MEANS TWO OPPOSITE THINGS**
# >
# > PyTorch has two conventions, and so has every library that follows it, ours included.
# >
# > | | True means | argument |
# > | --- | --- | --- |
# > | `F.scaled_dot_product_attention` | **may look** | `attn_mask` |
# > | `nn.MultiheadAttention`, `nn.Transformer` and its layers | **may NOT look** | `attn_mask`, `key_padding_mask` |
# >
# > This book's `allowed` is the first kind: True where a query may look. `textbook.data.padding_mask`, made
# > for `key_padding_mask`, is the second. Nothing raises an error if you mix them up. The model then sees
# > *only* the future:

# %%
mt.manual_seed(0)
layer = nn.MultiheadAttention(4, 1, batch_first=True)
x = mt.randn(1, 4, 4)
for name, mask in {"causal_mask(4)": causal_mask(4), "~causal_mask(4)": ~causal_mask(4)}.items():
    _, weights = layer(x, x, x, attn_mask=mask)
    looks = [[j + 1 for j in range(4) if row[j] > 0] for row in weights[0]]
    print(f"nn.MultiheadAttention with {name:15}: tokens 1 to 4 look at {looks}")

# %% [markdown]
# An RNN decoder gets one token, and a state for the rest. A masked self-attention decoder gets *all* previous
# outputs, $j \le i$, and keeps no state.
#
# ## 3. Before the softmax, not after
#
# Decks 1 and 3 say that the future is masked "by artificially setting attention weights to 0". Taken by the
# word, that is a multiplication of the weights by the mask, after the softmax:


# %%
def weights_times_mask(query, key, value, allowed):
    """The tempting mistake: softmax over all keys, then 0 for those that are not allowed."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(-1) * allowed
    return weights @ value, weights


wrong_output, wrong_weights = weights_times_mask(query, key, value, causal_mask(4))
print("rows add up to", wrong_weights.sum(-1))
print("weights above the diagonal:", (wrong_weights * ~causal_mask(4)).sum().item())

# %% [markdown]
# No weight on the future, and yet two things are wrong. The first can be seen: rows no longer add up to one.
# The second hides in *why* they do not. With $w_{ij}$ for the weights of the softmax over all keys and $f_i$
# for the part of row $i$ that falls on the future,
#
# $$w_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad f_i = \sum_{l > i} w_{il}, \qquad
# \text{output}_i = \sum_{j \le i} w_{ij} v_j = (1 - f_i)\, a_i ,$$
#
# where $a_i$ is the right output. The *direction* of the output depends on the past alone, its *length* on
# $f_i$, and so on the keys of the future: the sum in the denominator runs over all of them. Derive by a
# key $k_j$ of the future, $j > i$, a vector of shape $(d)$ that position $i$ should know nothing of:
#
# $$\frac{\partial\, \text{output}_i}{\partial k_j} = - w_{ij}\, \frac{\text{output}_i\, q_i^\top}{\sqrt d}
# \quad (d_v, d), \qquad \text{which is zero only where } w_{ij},\ \text{output}_i \text{ or } q_i \text{ is}.$$

# %%
all_weights = (query @ key.T / 2).softmax(-1)  # (n, n)
f = (all_weights * ~causal_mask(4)).sum(-1, keepdim=True)  # (n, 1)
print("output = (1 - f) times the right output:", mt.allclose(wrong_output, (1 - f) * output))

leaf = key.clone().requires_grad_()
first, _ = weights_times_mask(query, leaf, value, causal_mask(4))
first[0, 0].backward()  # of the first word's output, its first number
formula = -all_weights[0, 1] * wrong_output[0, 0] * query[0] / 2
print("gradient at the key of the second word:", leaf.grad[1])
print("equals the formula:", mt.allclose(leaf.grad[1], formula, atol=1e-6))

# %% [markdown]
# Is that much? One number a position and head, it seems. Section 6 measures it, and it is nearly everything.
#
# **Divide by the row's sum afterwards**, then? In exact arithmetic that repairs it: $(1 - f_i)$ cancels, and
# with it all that depends on the future. In floating-point numbers the future still has a say. If one of
# its scores is ahead of the past by more than about 100, the past underflows to zero in float32, and the
# repair is $0 / 0$:


# %%
def renormalized(query, key, value, allowed):
    """Weights times mask, divided by what is left of the row."""
    _, weights = weights_times_mask(query, key, value, allowed)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


for factor in (1, 80, 120):
    strong = mt.cat([query[:1] * factor, query[1:]])  # "be" asks louder for "water"
    right, _ = masked_attention(strong, key, value, causal_mask(4))
    repaired, _ = renormalized(strong, key, value, causal_mask(4))
    print(f"factor {factor:2}: right {right[0].tolist()}, renormalised {repaired[0].tolist()}")

# %% [markdown]
# So the mask belongs before the softmax: exact, stable, and with nothing to repair.
#
# ## 4. Padding
#
# Sentences of a batch differ in length and are filled up (chapter 03). Padding must not be looked at either,
# this time not because it comes later, but because it is nothing. The mask depends on the key alone, so
# there is one row a sentence:


# %%
def real_tokens(lengths, n):
    """True at the real tokens of sequences with these lengths, (B, n)."""
    return mt.arange(n) < lengths.unsqueeze(1)


lengths = mt.tensor([4, 2, 3])
real = real_tokens(lengths, 4)  # (B, n)
print(real)

# %% [markdown]
# `unsqueeze(1)` makes it $(B, 1, n)$, the same for all queries of a sentence, and `&` joins it to the causal
# mask, $(n, n)$. By broadcasting, the result is $(B, n, n)$:

# %%
both = causal_mask(4) & real.unsqueeze(1)  # (B, n, n)
short = ["be", "water", "<pad>", "<pad>"]
masks = {
    "causal": causal_mask(4),
    "padding": real[1].expand(4, 4),
    "both": both[1],
}
figure, panels = plot.subplots(1, 3, width=9, height=2.9)
for axes, (title, mask) in zip(panels, masks.items(), strict=True):
    plot.mask(axes, mask, short, short, title=title)
    axes.set(xlabel="", ylabel="")
plot.show(
    figure,
    alt="Masks of 'be water' with two places of padding. Causal: the lower triangle. Padding: the first two "
    "columns. Both: of the triangle the first two columns.",
)
mt.manual_seed(0)
x = mt.randn(3, 4, 2)
at_once = F.scaled_dot_product_attention(x, x, x, attn_mask=real.unsqueeze(1), is_causal=True)
print(
    "the library, given both:", mt.allclose(at_once, masked_attention(x, x, x, both)[0], atol=1e-6)
)
print("pairs allowed:", {name: int(mask.sum()) for name, mask in masks.items()})

# %% [markdown]
# (Our library takes a mask and `is_causal=True` together. PyTorch refuses that; there, pass the joined mask.)
#
# The loss must ignore padding too: a padded position has no target. `cross_entropy` leaves out targets of
# the number `ignore_index` and divides by the number of those that count. The check for all of this is
# always the same: **a sentence in a batch must get what it gets alone**. We compare loss and gradient of a
# batch with those of its sentences one by one, with one small matrix `table` as embedding, query, key,
# value and output all at once.

# %%
small = Vocabulary(words, specials=["<pad>", "</s>"])
sentences = [words, ["be", "water"], ["be", "my", "friend"]]
tokens = mt.zeros(3, 4).long()  # (B, n), 0 is <pad>
targets = mt.zeros(3, 4).long()
for b, sentence in enumerate(sentences):
    tokens[b, : len(sentence)] = small.encode(sentence)
    targets[b, : len(sentence)] = small.encode([*sentence[1:], "</s>"])


def loss_and_gradient(batches, ignore=0):
    """Summed loss over batches of (tokens, targets, allowed), a real token, and its gradient."""
    mt.manual_seed(0)
    table = mt.randn(len(small), 4, dtype=mt.float64, requires_grad=True)
    total, real_targets = 0, 0
    for tokens, targets, allowed in batches:
        x = table[tokens]  # (B, n, d)
        outputs, _ = masked_attention(x, x, x, allowed)
        scores = (outputs @ table.T).flatten(0, 1)
        total += F.cross_entropy(scores, targets.flatten(), ignore_index=ignore, reduction="sum")
        real_targets += int((targets != 0).sum())
    (total / real_targets).backward()
    return mt.cat([(total / real_targets).detach().reshape(1), table.grad.flatten()])


alone = loss_and_gradient(
    [
        (tokens[b : b + 1, :n], targets[b : b + 1, :n], causal_mask(n))
        for b, n in enumerate(lengths.tolist())
    ]
)
ways = {
    "causal and padding": loss_and_gradient([(tokens, targets, both)]),
    "causal only": loss_and_gradient([(tokens, targets, causal_mask(4))]),
    "causal and padding, loss over padding": loss_and_gradient(
        [(tokens, targets, both)], ignore=-1
    ),
}
print("as each sentence alone, to 1e-12:")
for name, together in ways.items():
    print(f"{name:38}", mt.allclose(together, alone, rtol=0, atol=1e-12))

# %% [markdown]
# The second line is worth a thought. With padding at the *end*, a real token never sees it under a causal
# mask: padding is the future. The padding mask changes nothing there. It is needed where all tokens see all
# (an encoder), where a decoder looks at an encoder (chapter 10), and where padding stands at the front. The
# loss has to ignore padding in every case.
#
# ## 5. Rows with nothing to look at
#
# Padding stands at the front when a batch of prompts of different lengths is to be continued: all must end
# in the same column. Together with a causal mask, the first rows may then look nowhere at all:

# %%
left_padded = mt.tensor([[False, False, True, True]])  # <pad> <pad> be water
allowed = (causal_mask(4) & left_padded.unsqueeze(1))[0]  # (n, n)
figure, axes = plot.subplots(width=4, height=2.6)
names = ["<pad>", "<pad>", "be", "water"]
plot.mask(axes, allowed, names, names)
axes.set(xlabel="", ylabel="")
plot.show(figure, alt="Padding at the front: two rows have no allowed cell at all.")
x = mt.randn(4, 2, generator=mt.Generator().manual_seed(0))
print(masked_attention(x, x, x, allowed)[1])

# %% [markdown]
# A softmax of minus infinity everywhere is $0/0$, NaN, "not a number". One might say: these rows are
# padding, nobody reads them. But NaN spreads. In backward it meets the zeros that come from the loss, and
# $0 \cdot \mathrm{NaN} = \mathrm{NaN}$: we leave the two rows out of the loss and look at the gradients of
# a layer's weights.


# %%
def gradients_of_projections(attend):
    """For each projection, whether its gradient is finite, the loss being over real rows only."""
    mt.manual_seed(0)
    projections = {name: nn.Linear(2, 2, bias=False) for name in ("query", "key", "value")}
    outputs = attend(*(project(x) for project in projections.values()))
    outputs[2:].sum().backward()
    return {name: bool(p.weight.grad.isfinite().all()) for name, p in projections.items()}


def filled_afterwards(query, key, value):
    """A repair that comes too late: NaN becomes 0 in the output."""
    output, _ = masked_attention(query, key, value, allowed)
    return output.masked_fill(output.isnan(), 0.0)


print(
    "as it is:        ", gradients_of_projections(lambda *qkv: masked_attention(*qkv, allowed)[0])
)
print("NaN replaced by 0:", gradients_of_projections(filled_afterwards))

# %% [markdown]
# One step of the optimizer, and the weights of the values, and with them the whole model, are NaN. Nor does
# it help to replace the NaN in the output: the gradient that comes back is then zero, but it is multiplied by
# the weights, which are still NaN. It is the *weights* that have to become zero. (That is enough. Queries and
# keys are safe already, since `masked_fill` sends back zeros for all it filled.) We also leave the scores of an
# empty row as they are, which keeps its softmax finite, so that no NaN ever arises:


# %%
def safe_attention(query, key, value, allowed):
    """As ``masked_attention``; a query that may look nowhere gets zeros."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    empty = ~allowed.any(-1, keepdim=True)  # (..., T, 1)
    weights = scores.masked_fill(~allowed & ~empty, -math.inf).softmax(-1).masked_fill(empty, 0.0)
    return weights @ value, weights


def by_library(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


def large_number(query, key, value):
    """A large negative number in place of minus infinity."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -1e9).softmax(-1) @ value


output, _ = safe_attention(x, x, x, allowed)
print("rows 1 and 2:", output[:2].tolist())
print("finite gradients:", gradients_of_projections(lambda *qkv: safe_attention(*qkv, allowed)[0]))
print("the fused operation gives the same:", mt.allclose(by_library(x, x, x), output, atol=1e-6))
print("with -1e9, rows 1 and 2 are the mean of all values:")
print(mt.allclose(large_number(x, x, x)[:2], x.mean(0).expand(2, 2), atol=1e-6))
for name, attend in {"fused": by_library, "-1e9": large_number}.items():
    print(name, "finite gradients:", gradients_of_projections(attend))

# %% [markdown]
# And `nn.MultiheadAttention`, whose mask means the opposite? It depends on whether it is asked for weights:

# %%
mt.manual_seed(0)
layer = nn.MultiheadAttention(2, 1, batch_first=True)
layer.out_proj.bias.data.fill_(0.5)
batch = x.unsqueeze(0)
for need_weights in (True, False):
    output, _ = layer(batch, batch, batch, attn_mask=~allowed, need_weights=need_weights)
    layer.zero_grad()
    output[0, 2:].sum().backward()
    finite = layer.in_proj_weight.grad.isfinite().all().item()
    print(f"need_weights={need_weights!s:5}: row 1 is {output[0, 0].tolist()}, gradients {finite=}")

# %% [markdown]
# What libraries do with such a row, and what it means:
#
# | way | the row gets | gradients |
# | --- | --- | --- |
# | softmax of $-\infty$, by hand | NaN | NaN for the values' weights |
# | $-10^9$ in place of $-\infty$ | the mean of *all* values, also of those forbidden | finite |
# | `F.scaled_dot_product_attention`, here and in PyTorch from 2.5 on | zeros (NaN before 2.5) | finite |
# | `nn.MultiheadAttention`, `need_weights=True` (the default) | NaN | NaN |
# | `nn.MultiheadAttention`, `need_weights=False` | zeros, then the bias of `out_proj` | finite |
#
# All five lines are those of our library, measured above. The best remedy is to have no such rows: put padding at the
# end where you can, or let every position look at itself.
#
# ## 6. Does anything leak?
#
# A mask off by one looks right, trains well, and is wrong. So we test. Here are five ways to attend to a
# sequence, one right and four not or not quite:


# %%
def causal(query, key, value):
    return masked_attention(query, key, value, causal_mask(query.shape[-2]))[0]


def off_by_one(query, key, value):
    one_more = mt.ones(query.shape[-2], query.shape[-2]).tril(1).bool()
    return masked_attention(query, key, value, one_more)[0]


def zeroed_after(query, key, value):
    return weights_times_mask(query, key, value, causal_mask(query.shape[-2]))[0]


def zeroed_and_divided(query, key, value):
    return renormalized(query, key, value, causal_mask(query.shape[-2]))[0]


WAYS = {
    "no mask": attention,
    "diagonal off by one": off_by_one,
    "zero after the softmax": zeroed_after,
    "zero after, renormalised": zeroed_and_divided,
    "minus infinity before": causal,
}

# %% [markdown]
# ### Gradients from the future (C15)
#
# If output $i$ does not depend on input $j$, the derivative $\partial\, \text{output}_i / \partial x_j$, a
# matrix of shape $(d, d)$, is zero. Not small: zero, since the weight is exactly 0 and no other path leads
# from $j$ to $i$. We take its norm for all pairs, which should be empty above the diagonal.


# %%
def influence(attend, n, seed, width=8):
    """Norms of d output_i / d x_j (n, n) of a random self-attention layer in float64."""
    mt.manual_seed(seed)
    projections = [nn.Linear(width, width, bias=False).double() for _ in range(3)]
    x = mt.randn(n, width).double().requires_grad_()
    outputs = attend(*(project(x) for project in projections))  # (n, d)
    rows = []
    for output in outputs:
        parts = [mt.autograd.grad(number, x, retain_graph=True)[0] for number in output]
        rows.append(mt.stack(parts).square().sum((0, 2)).sqrt())  # (n)
    return mt.stack(rows)


def largest_from_the_future(attend, n, seed):
    """The largest norm above the diagonal."""
    return influence(attend, n, seed).triu(1).max().item()


@lab.experiment(
    "C15",
    quick=dict(lengths=[8], seeds=[0]),
    full=dict(lengths=[2, 8, 32], seeds=[0, 1, 2, 3, 4]),
)
def gradients_from_the_future(lengths, seeds):
    return {
        name: {
            str(n): [largest_from_the_future(attend, n, seed) for seed in seeds] for n in lengths
        }
        for name, attend in WAYS.items()
    }


leak_here = gradients_from_the_future.run()
leak_full = gradients_from_the_future.recorded

# %%
figure, panels = plot.subplots(1, 5, width=10, height=2.6, sharey=True)
for axes, (name, attend) in zip(panels, WAYS.items(), strict=True):
    exponents = influence(attend, 8, 0).clamp(min=1e-20).log10()
    image = plot.heatmap(axes, exponents, colorbar=False, vmin=-20, vmax=0, aspect="equal")
    axes.set_title(name.replace(" the softmax", "").replace("diagonal ", ""), fontsize=9)
panels[0].set(ylabel="output i")
panels[2].set(xlabel="input j")
figure.colorbar(image, ax=panels, shrink=0.7, label="log10 of the norm")
plot.show(
    figure,
    alt="Norms of the derivatives for five ways. Without a mask the whole square is bright; off by one, a "
    "diagonal too many; zero after the softmax, the whole square again; renormalised, a faint upper "
    "triangle; minus infinity before, an upper triangle of exact zeros.",
)

# %% tags=["nbval-ignore-output"]
for name, by_length in leak_here.items():
    print(f"quick, {name:25} largest norm above the diagonal: {max(by_length['8']):.1e}")
for name, by_length in (leak_full["result"] if leak_full else {}).items():
    smallest = min(min(norms) for norms in by_length.values())
    largest = max(max(norms) for norms in by_length.values())
    print(f"full,  {name:25} over seeds and lengths: {smallest:.1e} to {largest:.1e}")

# %%
found = {name: by_length["8"][0] for name, by_length in leak_here.items()}
print("C15 holds: minus infinity before: exactly 0:", found["minus infinity before"] == 0.0)
for name in ("no mask", "diagonal off by one", "zero after the softmax"):
    print(f"           {name}: above 1e-3:", found[name] > 1e-3)
print("           renormalised: below 1e-12:", found["zero after, renormalised"] < 1e-12)

# %% [markdown]
# Only the right mask gives an exact zero. What renormalising leaves is rounding and harmless, but a test for
# "exactly zero" can no longer tell it from a small leak. That is one more reason for minus infinity.
#
# Such a test belongs to the **whole model**, not to the mask: a layer that normalises over positions, or
# pads in the wrong place, leaks as well. And gradients see what is smooth. For the rest, change a token and
# compare: no earlier output may differ in a single bit.

# %%
mt.manual_seed(0)
model = LanguageModel(causal)
one, other = mt.full((2, CONTEXT), letters["e"]).unsqueeze(1)
other = other.clone()
other[:, -1] = letters["x"]
same = (model(one) == model(other)).all(-1)[0]  # (n)
print("outputs that stay the same, bit for bit:", int(same.sum()), "of", CONTEXT)

# %% [markdown]
# > **C15 · holds.** *The lectures* (deck 1, "Necessities for a self-attention building block:"; deck
# > 3): masking "keeps information about the future from 'leaking' to the past".
# >
# > *Measured*: Largest norm of a derivative from the future, windows of 2 to 32 tokens, five seeds: exactly 0
# > with scores of minus infinity; 0.11 to 1.1 without a mask, 0.73 to 1.2 with a mask off by one, 4.2e-3 to
# > 0.19 with weights set to zero after the softmax. On text (section 8) the loss from the prefix is 1.82 to
# > 1.90 with the mask, 8.2 to 9.4 without.
#
# ### Random tokens: nothing to predict (E2)
#
# How much does a leak matter? Here is a text on which honest work is worth nothing: tokens drawn at random,
# all $V = 8$ alike and independent of each other. The past tells nothing of the next one, so no honest model
# can have a loss below $\log V = 2.08$ on fresh tokens. **Whatever a trained model stays below, it got from
# the future.** The difference, $\log V$ minus loss, is a lower bound of the information that leaks, in nats
# a token. The most that a window of $n = 8$ can give is $\tfrac78 \log V = 1.82$, for the last position has
# no future.


# %%
SYMBOLS, LENGTH = 8, 8


def random_windows(count):
    """Independent tokens, all equally likely: inputs and targets (B, n)."""
    window = mt.randint(0, SYMBOLS, (count, LENGTH + 1))
    return window[:, :-1], window[:, 1:]


@mt.no_grad()
def leaked(attend, rate, seed, steps, heads=4):
    """log V minus the loss on fresh random tokens, after training on others."""
    mt.manual_seed(seed)
    model = LanguageModel(attend, SYMBOLS, LENGTH, width=32, heads=heads, hidden=64)
    with mt.enable_grad():
        train(model, rate, steps, partial(random_windows, 32))
    inputs, targets = random_windows(4000)
    return (
        math.log(SYMBOLS) - F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item()
    )


@lab.experiment(
    "E2",
    quick=dict(rates=[1e-2], seeds=[0], steps=150, heads=[]),
    full=dict(rates=[5e-3, 1e-2], seeds=[0, 1, 2], steps=600, heads=[1, 2]),
)
def nothing_to_predict(rates, seeds, steps, heads):
    runs = [(name, attend, 4) for name, attend in WAYS.items()]
    runs += [(f"zero after, heads: {h}", zeroed_after, h) for h in heads]
    return {
        name: {
            str(rate): [leaked(attend, rate, seed, steps, h) for seed in seeds] for rate in rates
        }
        for name, attend, h in runs
    }


nats_here = nothing_to_predict.run()
nats_full = nothing_to_predict.recorded

# %%
figure, axes = plot.subplots(width=7.5, height=2.6)
names = list(nats_here)
axes.barh(
    names, [nats_here[name]["0.01"][0] for name in names], color=plot.COLORS[5], label="quick"
)
for run in (
    zip(*(nats_full["result"][name]["0.01"] for name in names), strict=True) if nats_full else ()
):
    axes.plot(run, names, "|", markersize=12, color="black", linestyle="")
most = (LENGTH - 1) / LENGTH * math.log(SYMBOLS)
axes.axvline(most, color="0.4", linewidth=1, linestyle="-")
axes.text(most + 0.02, 0, "all", va="center", fontsize=9)
axes.set(xlabel="nats a token that leak", title="bars: quick; marks: full, three seeds, rate 0.01")
axes.invert_yaxis()
plot.show(
    figure,
    alt="What leaks by way of masking. No mask, off by one, and zero after the softmax leak nearly all "
    "that there is; renormalised and minus infinity before leak nothing.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in {"quick": nats_here, "full": nats_full and nats_full["result"]}.items():
    for name, by_rate in (result or {}).items():
        row = "; ".join(
            f"rate {rate}: " + " ".join(f"{nats:.3f}" for nats in values)
            for rate, values in sorted(by_rate.items())
        )
        print(f"{setting:5} {name:25} {row}")

# %%
leaks = {name: by_rate["0.01"][0] for name, by_rate in nats_here.items()}
for name in ("no mask", "diagonal off by one", "zero after the softmax"):
    print(f"{name}: more than half of all leaks:", leaks[name] > most / 2)
for name in ("zero after, renormalised", "minus infinity before"):
    print(f"{name}: less than 0.02 nats:", leaks[name] < 0.02)

# %% [markdown]
# This is the surprise of the chapter. Weights set to zero after the softmax look almost right, and leak
# almost as much as no mask at all. A head gives the future one number a position, the length of its output.
# But one number is plenty to tell eight tokens apart: training shapes the keys so that each next token gives
# its own row sum, and the read-out reads it like a dial.
#
# > **E2 · nearly all.** *Our question*: how much of the future leaks if weights are set to zero after the
# > softmax?
# >
# > *Measured*: Of 1.82 nats a token, three seeds and two rates: 1.79 to 1.82 with four heads, 1.73 to 1.81
# > with two, 1.02 to 1.48 with one, as much as 1.82 without a mask. With scores of minus infinity, and with
# > rows that are divided by their sums, 0.00.
#
# ## 7. The growing key set
#
# Decks 1 and 3 name another way: at every time step, change the set of keys and queries to the past words.
# They call that inefficient. We write it in two ways. `by_prefix` runs the whole layer again on each prefix,
# as the sentence says; it is what `write` does in section 1. `by_growing_keys` is cleverer: it projects each
# token once, and appends its key and value to those that it has.


# %%
def by_prefix(x, Q, K, V):
    """The layer anew for each prefix; of each, the last row is kept."""
    rows = []
    for t in range(1, len(x) + 1):
        past = x[:t]  # (t, d)
        rows.append(causal(past @ Q, past @ K, past @ V)[-1])
    return mt.stack(rows)


def by_growing_keys(x, Q, K, V):
    """One query at a time against the keys so far."""
    keys, values, rows = x[:0] @ K, x[:0] @ V, []  # (0, d)
    for x_t in x.split(1):  # (1, d)
        keys, values = mt.cat([keys, x_t @ K]), mt.cat([values, x_t @ V])  # (t, d)
        rows.append(attention(x_t @ Q, keys, values))  # sees what is there
    return mt.cat(rows)


def one_pass(x, Q, K, V):
    return causal(x @ Q, x @ K, x @ V)


# %% [markdown]
# ### One masked pass (C16)
#
# We count products (chapter 00: $(n, k)$ times $(k, m)$ costs $2nkm$). With $d$ for the width,
#
# | | projections | scores and mixing | one after the other |
# | --- | --- | --- | --- |
# | by prefix | $\sum_t 6 t d^2 = 3 n (n + 1) d^2$ | $\sum_t 4 t^2 d = \tfrac23 n (n + 1)(2n + 1)\, d$ | $n$ passes, or 1 if all prefixes run in parallel |
# | growing keys | $6 n d^2$ | $\sum_t 4 t d = 2 n (n + 1)\, d$ | $n$ steps |
# | one masked pass | $6 n d^2$ | $4 n^2 d$ | 1 |


# %%
def compare(n, width, seed, repeats):
    """FLOPs and seconds of the three ways, and their largest difference from the masked pass."""
    mt.manual_seed(seed)
    x = mt.randn(n, width).double()
    Q, K, V = (mt.randn(width, width).double() / math.sqrt(width) for _ in range(3))
    result = {}
    with mt.no_grad():
        masked = one_pass(x, Q, K, V)
        for name, way in THREE.items():
            with count_flops() as counter:
                difference = (way(x, Q, K, V) - masked).abs().max().item()
            seconds = []
            for _ in range(repeats):
                start = perf_counter()
                way(x, Q, K, V)
                seconds.append(perf_counter() - start)
            median = sorted(seconds)[repeats // 2]
            result[name] = {"difference": difference, "flops": counter.total, "seconds": median}
    return result


THREE = {"by prefix": by_prefix, "growing keys": by_growing_keys, "one masked pass": one_pass}


@lab.experiment(
    "C16",
    quick=dict(lengths=[16, 32, 64, 128], width=64, seeds=[0], repeats=3),
    full=dict(lengths=[16, 32, 64, 128, 256], width=64, seeds=[0, 1, 2], repeats=5),
)
def growing_keys(lengths, width, seeds, repeats):
    return {str(n): [compare(n, width, seed, repeats) for seed in seeds] for n in lengths}


ways_here = growing_keys.run()
ways_full = growing_keys.recorded

# %%
figure, (left, right) = plot.subplots(1, 2, width=9, height=3)
shown = ways_full["result"] if ways_full else ways_here
sizes = sorted(map(int, shown))
for name in THREE:
    flops = [shown[str(n)][0][name]["flops"] for n in sizes]
    left.plot(sizes, flops, marker="o", label=name)
    seconds = [
        [1000 * shown[str(n)][s][name]["seconds"] for n in sizes] for s in range(len(shown["16"]))
    ]
    plot.spread(right, sizes, seconds, marker="o", label=name)
for axes, title in ((left, "FLOPs"), (right, "milliseconds")):
    axes.set(xscale="log", yscale="log", xlabel="length n", title=title)
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
left.legend()
plot.show(
    figure,
    alt="FLOPs and time against length for the three ways. By prefix grows fastest in both. Growing keys has "
    "slightly fewer FLOPs than one masked pass, but takes many times longer.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in {"full": ways_full and ways_full["result"], "quick": ways_here}.items():
    for n in sorted(map(int, result or {})):
        for name in THREE:
            runs = [run[name] for run in result[str(n)]]
            times = " ".join(f"{1000 * run['seconds']:9.2f}" for run in runs)
            print(f"{setting:5} n = {n:3} {name:16} {runs[0]['flops']:13,} FLOPs, ms: {times}")

# %%
n, d = 128, 64
counted = {name: entry["flops"] for name, entry in ways_here[str(n)][0].items()}
formulas = {
    "by prefix": 3 * n * (n + 1) * d**2 + 2 * n * (n + 1) * (2 * n + 1) * d // 3,
    "growing keys": 6 * n * d**2 + 2 * n * (n + 1) * d,
    "one masked pass": 6 * n * d**2 + 4 * n**2 * d,
}
differences = [
    entry["difference"] for runs in ways_here.values() for run in runs for entry in run.values()
]
print("C16 holds: all ways give the same, to 1e-12:", max(differences) < 1e-12)
print("           FLOPs are those of the formulas:", counted == formulas)
share = counted["growing keys"] / counted["one masked pass"]
times = counted["by prefix"] / counted["one masked pass"]
print(
    f"           at n = 128: by prefix {times:.0f} times the work, growing keys {share:.2f} times"
)

# %% [markdown]
# So what is inefficient? By prefix, the *work*: everything is done over and over. With growing keys, not the
# work: it is even **less** than that of the masked pass, since that computes all $n^2$ scores and throws
# nearly half of them away. But its $n$ steps stand in a queue, each with products too small for the
# processor. The mask buys parallelism with wasted work, and in training, where all tokens are known, that is
# a good bargain: **one pass gives $n$ predictions and $n$ losses.**
#
# When a model *writes*, there is nothing to do in parallel, for the next token waits for this one. Then
# growing keys are the right way, under the name of key-value cache; chapters 10 and 11 come back to it.
#
# > **C16 · holds in time, not always in work.** *The lectures* (deck 1, "Masking the future in
# > self-attention"; deck 3): a set of keys and queries that grows with the time step is "inefficient";
# > masking enables parallelization.
# >
# > *Measured*: All ways give the same, to 1e-12. At $n = 256$, $d = 64$: by prefix 2,248,507,392 FLOPs and
# > 339 to 421 ms, with growing keys 14,712,832 and 99 to 153 ms, in one masked pass 23,068,672 and 2.1 to 2.2
# > ms.
#
# ## 8. A masked language model
#
# Now the model of section 1 with the mask, the only change. The library's fused operation takes a name in
# place of a matrix and is faster.

# %%
fused_causal = partial(F.scaled_dot_product_attention, is_causal=True)
masked = partial(LanguageModel, fused_causal)
zeroed = partial(LanguageModel, zeroed_after)


class RecurrentModel(nn.Module):
    """Chapter 01's language model, batch first: tokens (B, n) to scores (B, n, V)."""

    def __init__(self, width=32, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.rnn = nn.RNN(width, hidden, batch_first=True)
        self.out = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens):
        states, _ = self.rnn(self.embedding(tokens))
        return self.out(states)


for name, make in {"masked self-attention": masked, "RNN": RecurrentModel}.items():
    model = make()
    with count_flops() as counter:
        model(mt.zeros(1, CONTEXT).long())
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{name:22} {parameters // 1000} thousand parameters")
    print(f"{'':22} {counter.total / CONTEXT / 1000:.0f} thousand FLOPs a token")

# %% [markdown]
# ### Beside the RNN (E3)
#
# Three models, each with the same learning rates, seeds, steps and windows as the one without a mask in
# section 1: the one with weights set to zero after the softmax, the right one, and chapter 01's RNN with
# about as many parameters. The RNN may not carry its state from window to window here, so that all see the
# same 32 characters at most. In the chapter we train the right one; the full runs have all.

# %%
MODELS = {
    "zero after the softmax": zeroed,
    "minus infinity before": masked,
    "RNN": RecurrentModel,
}


@lab.experiment(
    "E3",
    quick=dict(names=["minus infinity before"], rates=[RATE], seeds=[0], steps=400),
    full=dict(names=list(MODELS), rates=[2.5e-3, RATE, 1e-2], seeds=[0, 1, 2], steps=600),
)
def language_models(names, rates, seeds, steps):
    return {
        name: {
            str(rate): [judge(*trained(MODELS[name], rate, seed, steps)) for seed in seeds]
            for rate in rates
        }
        for name in names
    }


models_here = language_models.run()
models_full = language_models.recorded


# %%
def by_seen(losses):
    """Means over positions 1, 2, 3-4, 5-8, 9-16 and 17-32."""
    ends = [0, 1, 2, 4, 8, 16, 32]
    return [sum(losses[a:b]) / (b - a) for a, b in zip(ends[:-1], ends[1:], strict=True)]


counts = Counter(training_text)
share = {token: counts[token] / len(training_text) for token in counts}
unigram = -sum(math.log(share.get(token, 1e-6)) for token in validation_text) / len(validation_text)
model, history = trained(masked, RATE, 0, language_models.quick["steps"])
run, *_ = models_here["minus infinity before"][str(RATE)]
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8)
plot.losses(left, {"masked": history}, smooth=20)
left.axhline(unigram, color="0.5", linewidth=1, linestyle="-")
left.text(len(history), unigram, "unigram", ha="right", va="bottom", fontsize=9)
left.set_title("training (quick)")
best = {
    name: min(by_rate.values(), key=lambda runs: sum(r["prefix"] for r in runs))
    for name, by_rate in (models_full["result"] if models_full else models_here).items()
}
for name in ("minus infinity before", "RNN"):
    if name in best:
        curves = [by_seen(run["by position"]["prefix"]) for run in best[name]]
        plot.spread(right, [1, 2, 4, 8, 16, 32], curves, marker="o", label=name)
right.set(xscale="log")
right.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "3-4", "5-8", "9-16", "17-32"])
right.minorticks_off()
right.set(
    xlabel="tokens that are seen", ylabel="validation loss", title="by position (full, three seeds)"
)
right.legend()
plot.show(
    figure,
    alt="Left: the training loss of the masked model falls from 4 to below 2, below the unigram model. Right: "
    "validation loss against position for it and the RNN: both fall in the first few positions.",
)

# %% tags=["nbval-ignore-output"]
for name, by_rate in models_here.items():
    print_judgements(f"quick, {name}", by_rate)
for name, by_rate in (models_full["result"] if models_full else {}).items():
    print_judgements(f"full, {name}", by_rate)

# %%
print("in one pass as from the prefix, to 1e-4:", abs(run["one pass"] - run["prefix"]) < 1e-4)
print("C15 holds: from the prefix, at least 3 nats better than the model without a mask:")
print("          ", run["prefix"] < cheat_here[str(RATE)][0]["prefix"] - 3)
print("better than the unigram model by 0.5 nats:", run["prefix"] < unigram - 0.5)

# %% [markdown]
# With the mask, the loss in one pass *is* the loss from the prefix: what training sees is what writing gets. In
# the full runs 32 to 36 % of the words that it writes, at its best learning rate, are in
# the training text; without a mask none. And the mask after the softmax? On text it fails as it did on random
# tokens. At the same rate its training loss falls to 0.27 to 0.36, and its loss from the prefix is 8.6 to 12.6;
# at the two other rates that is 4.7 to 6.7, always worse than guessing all tokens alike.
# Its rows add up to less than one in training, where there is a future, and to one at the last position, the
# only one that writing uses.
#
# **The RNN wins.** Both use the first few characters and little beyond the eighth. So one layer of attention
# is no replacement for a recurrent network yet. We have not measured why; two suspects are that it mixes
# values only once, linearly (chapter 09), and that it has to learn what "one place back" means for each of
# the 32 positions by itself (chapter 08). What it has is that nothing waits.
#
# Before and after:

# %% tags=["nbval-ignore-output"]
mt.manual_seed(0)
writers = {"before": masked(), "after": model}
for name, writer in writers.items():
    for seed, prompt in enumerate(("The ", "If a class ", "A function ")):
        mt.manual_seed(seed)
        [text] = write(writer, prompt, length=90)
        print(textwrap.fill(f"{name}: {text}", width=100))

# %% [markdown]
# What do the heads look at?

# %%
snippet = "The value of the"
inside = {}


def remember(query, key, value):
    """Causal attention that keeps its weights for the picture."""
    output, inside["weights"] = masked_attention(query, key, value, causal_mask(query.shape[-2]))
    return output


model.attend = remember
with mt.no_grad():
    model(letters.encode(snippet).unsqueeze(0))
model.attend = fused_causal
figure, _ = plot.heads(inside["weights"][0, :4], list(snippet), list(snippet))
plot.show(
    figure,
    alt="Weights of four heads over sixteen characters, all within the lower triangle. Heads 1 and "
    "4 are mostly dark at the diagonal or next to it; in 2 and 3 the distance changes from row to row.",
)

# %% [markdown]
# Everything lies in the lower triangle. Within it, heads have divided the work: some look at the token itself
# or the one before it, others further back. Few keep one distance everywhere. With a vector of its own for each
# position, what "one place back" means at position 5 says nothing of position 25.
#
# > **E3 · no.** *Our question*: is one masked layer of self-attention as good a language model as an RNN?
# >
# > *Measured*: Loss on every fourth validation window with as many parameters, windows and steps, three
# > seeds, each at its best rate of three: masked self-attention 1.82 to 1.90, RNN 1.48 to 1.53 (at the
# > largest rate of the grid, so a wider search could only help it).
#
# **Try it**: put `off_by_one` into `trained(partial(LanguageModel, off_by_one), RATE, 0, 300)` and look at its
# `losses_by_position`; draw `known_words` against the number of steps; set `CONTEXT = 8` at the top and run
# all cells; give the model without a mask the last token twice, as if something stood to its right, and let it write.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | mask out the future "by artificially setting attention weights to 0" (decks 1 and 3) | zero *before* normalising, which is minus infinity for the scores, as the decks' own formula says; deck 5 puts 0 in place of $\exp(e)$ inside the softmax, which is the same | § 3 |
# | the decoder receives "the decoder output at the previous time step" (deck 2) | that is an RNN decoder; one with self-attention gets all previous outputs | § 2 |
# | in a Transformer "every token sees every other token" (deck 2) | true of an encoder; in a decoder token $i$ sees the tokens $j \le i$ | § 2 |
#
# </details>
#
# ## Summary
#
# - A model that sees its target in the input copies it. Its training loss *and its validation loss* are near
#   zero, and it cannot write (C15, E1). What a model knows is its loss from the prefix.
# - Causal mask: query $i$ may look at key $j \le i$. Scores of all others go to minus infinity *before* the
#   softmax. Zero after the softmax leaves the future in the denominator, and four heads are enough to read it
#   off nearly completely (E2).
# - Padding mask: one row a sentence, joined by `&`. The loss ignores padding by itself. The check: a sentence
#   in a batch gets what it gets alone.
# - True means *may look* in `F.scaled_dot_product_attention`, *may not look* in `nn.MultiheadAttention`.
# - A row that may look nowhere is NaN, and so is the gradient of the values. Zero its weights; its output is
#   too late.
# - Test the whole model: derivatives from the future are exactly zero (C15), and on random tokens nothing can
#   be learned (E2).
# - One masked pass gives what the loop over growing keys gives, with more FLOPs and in much less time (C16).
#
# The table of barriers, with its third row filled in:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | no notion of order | permuted words, permuted outputs (C10) | open: chapter 08 | 08 |
# | no nonlinearity | given its weights, layers only average (C19) | open: chapter 09 | 09 |
# | looks at the future | cannot be trained to predict the next token (C15) | mask: scores to minus infinity before the softmax; the derivative from the future exactly 0, loss from the prefix 1.8 to 1.9 in place of 8.2 to 9.4 | 07 |
# | one place at a time | one softmax, one place (C14) | several heads: both answers right in 100 % of all tables, with one head in 20 % | 06 |
# | does not train when deep | gradients (C20) | open: chapter 09 | 09 |
#
# Two of our tools were borrowed, the learned positions and the multilayer perceptron. Chapter 08 asks what
# position is and how to tell it to a model that has no notion of order; chapter 09 asks what has to stand
# between two layers of attention.
#
# **Exercises**: [`../exercises/07_masking/07_masking.ipynb`](../exercises/07_masking/07_masking.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, section 3.2.3. Bengio et al. (2003), *A neural
# probabilistic language model*, whose network reads a fixed number of tokens and is close to ours. Radford et
# al. (2018), *Improving language understanding by generative pre-training*. Germain et al. (2015), *MADE: masked
# autoencoder for distribution estimation*, and van den Oord et al. (2016), *Pixel recurrent neural networks*, on
# masks in other networks. Dao et al. (2022), *FlashAttention*, on leaving out what the mask throws away.
