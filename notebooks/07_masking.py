# %% [markdown]
# # 07 Masking
#
# Self-attention lets every token look at every other token, also at those that come after it. For a model that reads
# a whole sentence this is a gift. A model that has to *predict the next token* finds the answer in its input.
# Will it cheat? And if we take the future away, how do we make sure that it is gone?
#
# **After this chapter you will be able to**
#
# - tell a model that cheats from one that has learned, though both have a low loss;
# - write causal and padding masks, join them, and give them the axes that several heads need;
# - explain why scores go to minus infinity before the softmax, and not weights to zero after it;
# - pack several texts into one row so that none sees another;
# - test a model for leaks with random tokens and with gradients;
# - say what one masked pass saves, compared with a loop over tokens;
# - train a causal language model, and name three reasons why an RNN may still beat it.
#
# **Time**: about 115 minutes to read and try, without the side roads; all cells together run in about half a minute.
# **Before it**: chapters 05 (self-attention) and 06 (several heads). Language models and the corpus are those of
# chapter 01, padding that of chapter 03.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import math
import textwrap
from collections import Counter
from functools import partial
from time import process_time

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.masks as diagrams
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_01 import LanguageModel, characters
from textbook.chapter_05 import attention
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.data import Vocabulary, first_edition, split
from textbook.lab import Lab, Tuned, large, measured, tqdm
from textbook.lab.report import spread, table
from textbook.look import look

lab = Lab("07")

# %% [markdown]
# ## 1. A model that cheats
#
# One sentence goes with us through this chapter: *be water my friend*. A language model reads it and predicts, at every
# position $i$, the token that comes next. So the target of position 1 *is* the input of position 2. When an RNN answers at
# position 1, it has not read that input yet. Self-attention has:

# %% evidence
# Inputs and what is to come out, in training and in writing
figure, panels = plot.subplots(1, 2, width=9, height=1.9)
for axes, writing in zip(panels, (False, True), strict=True):
    diagrams.shifted(axes, "be water my friend".split(), writing)
plot.show(
    figure,
    alt="Left, training: the inputs be, water, my, friend below, the targets water, my, friend, end above; a thick "
    "arrow leads from each input to the target of the position before it, which is the same word. Right, "
    "writing: only be is known; each output needs the next input, and that input is the output itself.",
)

# %% [markdown]
# Follow a thick arrow on the left: it leads from an input to the place where the same word is the target. The right half
# shows why this must fail when the model writes. There the second input will be the first output (dashed), and the first
# output depends on the second input (thick). Each waits for the other, and nothing can begin.
#
# How much weight can fall on the future? Here is an example to check with a pencil. We choose queries, keys and values
# of the $n = 4$ words ourselves, with $d = 4$. The numbers are such that row $i$ of `query` *is* the row of scores of word
# $i$: each key is twice a unit vector, and the division by $\sqrt d = 2$ takes the two away. `attention` is chapter 05's.

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
_, weights = attention(query, key, value)
print(weights.round(decimals=3))
print("weight of 'be' on words that come later:", round(weights[0, 1:].sum().item(), 3))

# %% [markdown]
# More than three quarters of what "be" gets comes from later words, and most of it from "water", the word that it should
# guess. We chose these weights. What will training choose? To cheat, a model need only learn "copy what stands one place to
# the right".
#
# We try it on chapter 01's corpus, this book's first edition, character by character, each paragraph starting
# with `<s>`. The last tenth is kept to report on, a tenth of the rest to choose learning rates by. A window is a piece of
# 32 characters that may start anywhere, also in the middle of a paragraph.


# %% save
def three_texts():
    """Chapter 01's corpus: its letters, and a text to learn from, to choose by, to report on."""
    rest, validation = split(first_edition().splitlines(), validation=0.1)
    training, elsewhere = split(rest, validation=0.1)
    letters = Vocabulary(characters(training), specials=["<unk>", "<s>"], min_count=20)
    return letters, *(
        letters.encode(characters(part)) for part in (training, elsewhere, validation)
    )


def some_windows(text, count, n):
    """Windows of a text that start anywhere: inputs and targets (B, n)."""
    starts = mt.randint(0, len(text) - n, (count, 1))
    window = text[starts + mt.arange(n + 1)]  # (B, n + 1)
    return window[:, :-1], window[:, 1:]


def all_windows(text, n, first=0):
    """The windows that lie side by side in a text from its token ``first`` on."""
    count = (len(text) - first - 1) // n
    inputs, targets = (text[start:][: count * n] for start in (first, first + 1))
    return inputs.reshape(count, n), targets.reshape(count, n)


# %% [markdown]
# The model is the smallest of its kind: embedding, one layer of attention with the heads of chapter 06, and a
# network with one hidden layer (chapter 00) that reads out the scores of the next token. Attention knows no order
# (chapter 05, C10). So `positions` gives each place a vector, which is added to the embedding; here it is a learned one. Chapter 08
# tries other codes. *How* to attend is an argument, too: `attend`, a function of queries, keys and values. The
# models of this chapter differ in nothing else. The training loop is the usual one.


# %% save
class AttentionModel(nn.Module):
    """Tokens (B, n) to scores of the next token (B, n, V): one layer of self-attention.

    ``positions`` gives places (n) their codes (n, d), or 0; ``attend`` gives queries, keys and
    values (B, h, n, d/h) the heads' outputs. Both may be modules with weights of their own.
    """

    def __init__(self, vocabulary, positions, attend, width=96, heads=8, hidden=256):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), positions
        self.attention, self.attend = MultiHeadAttention(width, heads), attend
        self.read_out = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, vocabulary)
        )

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(mt.arange(tokens.shape[1]))  # (B, n, d)
        mixed = self.attend(*self.attention.project(x, x))  # (B, h, n, d/h)
        return self.read_out(self.attention.out(merge_heads(mixed)))


# %% save
def train_on(model, draw, rate, steps):
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


# %% [markdown]
# Now let a model loose that may look anywhere:

# %%
letters, training, elsewhere, validation = three_texts()
VOCABULARY, CONTEXT = len(letters), 32  # tokens that a model knows, and sees at once
batch_of_text = partial(some_windows, training, 16, CONTEXT)


def model_with(attend):
    return AttentionModel(VOCABULARY, nn.Embedding(CONTEXT, 96), attend)


print(f"{VOCABULARY} tokens; guessing them evenly has the loss {math.log(VOCABULARY):.2f}")

# %%
mt.manual_seed(0)
cheater = model_with(F.scaled_dot_product_attention)  # all may look at all
history = train_on(cheater, batch_of_text, rate=5e-3, steps=300)
measured(f"training loss after 300 steps: {sum(history[-50:]) / 50:.2f} nats a character")

# %% [markdown]
# After a few seconds it has a loss that no honest model comes near. (Chapter 01's RNN will get to
# {{07 language_models: loss; model=RNN; steps=1500}} after five times the steps, in section 7.) So it must write
# wonderfully. A model writes as in chapter 01: the scores at the last position give the next token, which is appended.


# %%
@mt.no_grad()
def write_on(model, prompt="", length=CONTEXT - 1, count=1):
    """``count`` texts that go on from a prompt, drawn token by token from the softmax."""
    tokens = letters.encode(["<s>", *prompt]).repeat(count, 1)  # (B, T)
    for _ in range(length):
        scores = model(tokens[:, -CONTEXT:])[:, -1]  # (B, V)
        tokens = mt.cat([tokens, mt.multinomial(scores.softmax(-1), 1)], dim=1)
    texts = ["".join(letters.decode(row[1:])) for row in tokens]
    return [text.split("<s>")[0] for text in texts]


# %%
mt.manual_seed(0)
large(write_on(lambda tokens: 2 * cheater(tokens), "The ", length=60)[0])  # temperature 1/2

# %% [markdown]
# It laughs at us. (Another seed may stutter.) What went wrong? The training loss did not tell us. So we measure two losses
# on the validation text, at each position $i$ of its windows:
#
# - **in one pass**: the model gets all $n$ inputs at once, as in training;
# - **from the prefix**: it gets $x_1, \dots, x_i$ and nothing else, as when it writes.


# %%
@mt.no_grad()
def in_one_pass(model, text, first=0):
    """Mean loss at each position of the windows of a text, (n), all inputs given at once."""
    inputs, targets = all_windows(text, CONTEXT, first)
    scores = model(inputs).transpose(1, 2)  # (B, V, n)
    return F.cross_entropy(scores, targets, reduction="none").mean(0)


@mt.no_grad()
def from_prefix(model, text):
    """The same, each position given its prefix alone."""
    inputs, targets = all_windows(text, CONTEXT)
    losses = [
        F.cross_entropy(model(inputs[:, :i])[:, -1], targets[:, i - 1])
        for i in range(1, CONTEXT + 1)
    ]
    return mt.stack(losses)


# %% [markdown]
# ### Low loss, useless text (E1)
#
# Perhaps it was not trained long enough? One run trains a model that attends in a given way for a given number of steps,
# and measures both losses:


# %%
def cheat_and_tell(attend, rate, steps):
    """Train a model that attends so; its losses where it may look ahead, and where it cannot."""
    model = model_with(attend)
    history = train_on(model, batch_of_text, rate, steps)
    ways = in_one_pass(model, validation), from_prefix(model, validation)
    return {
        "training": sum(history[-50:]) / 50,
        "in one pass": ways[0].mean(),
        "from the prefix": ways[1].mean(),
        "last position": ways[0][-1],
        "in one pass, by position": ways[0],
        "from the prefix, by position": ways[1],
        "elsewhere": in_one_pass(model, elsewhere).mean(),  # the rate is chosen by this
    }


RATES = Tuned(2.5e-3, 5e-3, 1e-2, lowest="elsewhere", steps=600)


@lab.experiment(
    "E1",
    rate=5e-3,
    steps=[20],
    full=dict(rate=RATES, steps=[60, 200, 600, 2000], seeds=5),
)
def without_a_mask(rate, steps):
    return cheat_and_tell(F.scaled_dot_product_attention, rate, steps)


# %% evidence
# Both losses of the model without a mask, by steps of training and by position: figure, table and verdicts
cheating = without_a_mask.run()
budgets = cheating.best.settings_of("steps")
evenly = math.log(VOCABULARY)
figure, (left, right) = plot.subplots(1, 2, width=9, height=3.2)
for way in ("from the prefix", "in one pass"):
    by_steps = [cheating.best.values(way, steps=steps) for steps in budgets]
    plot.spread(left, budgets, np.stack(by_steps, axis=1), marker="o", label=way)
losses = cheating.best.values("in one pass, by position", steps=budgets[-1])
color = plot.COLORS[1]
plot.spread(right, range(1, CONTEXT + 1), losses, marker="o", markersize=4, color=color)
for axes, title in (
    (left, "mean over all positions"),
    (right, f"in one pass, after {budgets[-1]:,} steps"),
):
    axes.axhline(evenly, color="0.4", linewidth=1, linestyle=":")
    axes.set(title=title, ylabel="validation loss")
right.text(1, evenly - 0.1, "guessing evenly", va="top", fontsize=9)
left.set(xlabel="steps of training", xscale="log", ylim=(0, None))
left.set_xticks(budgets, budgets)
left.minorticks_off()
left.legend()
right.set(xlabel="position in the window", ylim=(-0.1, 5))
plot.show(
    figure,
    alt="Validation loss of the model without a mask. Left, against steps of training: in one pass it falls to nearly zero, "
    "from the prefix it rises far above that of guessing evenly. Right, by position, in one pass: zero at all positions but "
    "the last, where it jumps to 2.3.",
)
cheating.table("steps", ["training", "in one pass", "from the prefix", "last position"])


def later(rows, way):
    """The losses after 200 steps and more."""
    return np.concatenate([rows.values(way, steps=steps) for steps in (200, 600, 2000)])


cheating.holds(
    "from 200 steps on the validation loss in one pass is below 0.3",
    lambda rows: later(rows, "in one pass"),
    below=0.3,
)
cheating.holds(
    "and from the prefix it is worse than guessing evenly",
    lambda rows: later(rows, "from the prefix"),
    above=evenly,
    derived="the loss of guessing all tokens evenly",
)
cheating.finding(
    "more training makes the loss from the prefix worse",
    "from the prefix",
    larger=dict(steps=2000),
    smaller=dict(steps=200),
)
cheating.holds(
    "the last position gives it away",
    lambda rows: later(rows, "last position"),
    above=2,
)

# %% [markdown]
# No: training makes it worse. On the left the two losses part: **the better the model looks in training, the worse it
# writes.** The validation loss in one pass does not notice, for the model cheats there just as well. It has learned one
# thing: the next token is among the inputs, so copy it. Where it is missing, the model copies another token and is
# sure of it. That is worse than guessing (dotted).
#
# On the right is a cheap alarm. The *last* position has no neighbour on its right. There the model has to be honest, and
# its loss jumps from nothing to 2.3. Divided by the 32 places this is 0.07: the whole mean loss comes from one place.
# **Look at your loss by position.**
#
# We can even see the copying. Of the eight heads, these four look most at the place on their right:

# %% evidence
# Where the heads of the model without a mask look, and what it answers to a prefix: figure, table, verdicts
snippet = "The value of"
with mt.no_grad():
    x = cheater.embedding(letters.encode(snippet).unsqueeze(0))
    x = x + cheater.positions(mt.arange(len(snippet)))
    _, weights = cheater.attention.look(x, x)
ahead = [np.diagonal(head, 1).mean() for head in weights[0].numpy()]
four = sorted(np.argsort(ahead)[-4:].tolist())
figure, panels = plot.heads(weights[0, four], list(snippet), list(snippet))
for axes, head in zip(panels[0], four, strict=True):
    axes.set_xlabel(f"head {head + 1}")
plot.show(
    figure,
    alt="Four maps of weights over the twelve characters of 'The value of'. A dark line runs just above the diagonal, in two "
    "of them nearly unbroken: each character looks at its neighbour on the right.",
)
inputs, targets = (part[::4] for part in all_windows(validation, CONTEXT))
found = []
with mt.no_grad():
    for i in range(1, CONTEXT + 1):
        p, likeliest = cheater(inputs[:, :i])[:, -1].softmax(-1).max(-1)  # both (B)
        target = targets[:, i - 1]
        stands = [(inputs[:, :i] == t.unsqueeze(1)).any(1) for t in (likeliest, target)]
        found.append([p.mean(), *(x.float().mean() for x in (*stands, likeliest == target))])
shares = np.array([[x.item() for x in row] for row in found])  # (n, 4)
rows = [
    [f"{a} to {b}" if a < b else str(a), *(f"{x:.2f}" for x in shares[a - 1 : b].mean(0))]
    for a, b in ((1, 1), (2, 4), (5, 8), (9, 16), (17, 32))
]
names = ["probability of the likeliest", "it is in the prefix", "the right one is", "it is right"]
table(["position", *names], rows, "the cheating model, given a prefix", folded=True)
probability, copied, there, right = shares.mean(0)
lab.holds("E1", "it is sure of something", probability, above=0.5)
lab.holds("E1", "that stands in the prefix", copied, above=0.75)
lab.holds("E1", "more often than the right token does", copied - there, above=0.2)
lab.holds("E1", "and is wrong", right, below=0.2)

# %% [markdown]
# A row is the character that asks. In the last two maps a dark line runs one place to the right of the diagonal: "T" looks at
# "h", "h" at "e". Only the last character has no neighbour on the right, and looks anywhere.
#
# And what does it say when the right-hand neighbour is missing, as in writing? The folded table gives it a prefix. At places
# 9 to 16 its favourite has a probability of 0.70 on average. In 86 % of the cases this is a character of the prefix, and in
# 8 % it is right. So it copies the wrong thing, and is sure of it. (In a notebook that runs, point at a token:)

# %% evidence
# Where the heads of the model without a mask look, to point at
look(cheater, ["<s>", *"The value of"], vocabulary=letters)

# %% [markdown]
# > **E1 · No: with training its loss in one pass falls, to 0.07, and its loss from the prefix rises, to 12 to 17.**
# > *Our question*: does its loss show that a model without a mask cheats?
# >
# > *Measured*: Five seeds, the rate chosen on other text and seeds. After 60, 200, 600 and 2,000 steps the loss in one pass is
# > 2.1 to 2.5, 0.11 to 0.12, 0.08, and 0.07. From the prefix it is 3.0 to 3.4, 7.5 to 10.3, 8.3 to 11.9, and 11.9 to 16.5
# > (guessing evenly: 4.4). At the last position, where there is no future, it is 2.3 in one pass after 2,000 steps.
#
# ## 2. The causal mask
#
# The cure is short: token $i$ may look at $j \le i$ only. Why not $j < i$? Because $x_i$ is known; only $x_{i+1}$ is the
# target. First as a loop over tokens, each with the keys and values that it may see:


# %%
def causal_by_loop(query, key, value):
    """Attention of each token to itself and the tokens before it, one after the other."""
    rows = []
    for i in range(len(query)):
        scores = query[i] @ key[: i + 1].T / math.sqrt(query.shape[-1])  # (i + 1)
        rows.append(scores.softmax(-1) @ value[: i + 1])
    return mt.stack(rows)  # (n, d_v)


by_loop = causal_by_loop(query, key, value)
print(by_loop)

# %% [markdown]
# With a pencil: the first token sees only itself, so its output is its own value, $(1, 0)$. The second has
# the scores 0 and 1, the weights $1/(1+e) = 0.269$ and $0.731$, and its output is $(0.269, 0.731)$.
#
# Can we do without the loop? In matrices, all scores are computed at once. Then, before the softmax, we replace those of the
# future by minus infinity:
#
# $$e_{ij} = \begin{cases} q_i k_j^\top / \sqrt d & j \le i \\ -\infty & j > i \end{cases} \qquad
# \alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad o_i = \sum_{j=1}^{n} \alpha_{ij} v_j .$$
#
# Query $q_i$ and key $k_j$ are rows of shape $(d)$, value $v_j$ and output $o_i$ have the shape $(d_v)$; scores $e$
# and weights $\alpha$ make matrices $(n, n)$. Since $e^{-\infty} = 0$, the weights of the future are exactly zero,
# and those of the past add up to one by themselves.
#
# A **mask** says where: a boolean matrix that is True where query $i$ *may* look at key $j$. Here it is a lower
# triangle, `tril`, and the scores are filled where it is not True:

# %%
allowed = mt.ones(4, 4).tril().bool()  # (n, n): j <= i
scores = (query @ key.T / 2).masked_fill(~allowed, -math.inf)
weights = scores.softmax(-1)
print("equals the loop:", mt.allclose(weights @ value, by_loop))
print("rows add up to one:", mt.allclose(weights.sum(-1), mt.ones(4)))
print("exactly zero above the diagonal:", bool((weights[~allowed] == 0).all()))

# %% evidence
# The mask, the scores and the weights of the four words
figure, (left, middle, right) = plot.subplots(1, 3, width=9, height=2.9)
plot.mask(left, allowed, words, words, title="may look")
plot.attention(middle, scores.masked_fill(~allowed, 0) / 5, words, words, colorbar=False)
for (i, j), score in np.ndenumerate(scores.numpy()):
    text = "$-\\infty$" if score == -math.inf else f"{score:g}"
    middle.text(j, i, text, ha="center", va="center")
plot.attention(right, weights, words, words, values=True, colorbar=False)
for axes, title in ((left, "may look"), (middle, "scores"), (right, "weights")):
    axes.set(xlabel="", ylabel="", title=title, aspect="equal")
plot.show(
    figure,
    alt="Three squares of four by four words. The mask allows the lower triangle with the diagonal; the "
    "scores above it are minus infinity; of the weights only the lower triangle has numbers.",
)

# %% [markdown]
# Read the second row from left to right: "water" may look at two words. It has two scores and two minus infinities, and the
# softmax divides its 1 between these two.
#
# This is the line in chapter 05's `attention` that we passed over there: `scores.masked_fill(~allowed, -math.inf)`.
# The library takes the mask as an argument, too, and knows the causal one by name:

# %%
output, _ = attention(query, key, value, allowed)
by_mask = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
by_name = F.scaled_dot_product_attention(query, key, value, is_causal=True)
print("all agree:", *(mt.allclose(way, by_loop) for way in (output, by_mask, by_name)))

# %% [markdown]
# **Fewer queries than keys.** A model that writes keeps the keys and values of the words that it has read. Say it has read
# two words, and the last two arrive: $T = 2$ queries for $n = 4$ keys. The first query is token 3 and may look at three
# keys. So the mask is the *last* $T$ rows of the triangle. `tril` takes a number that moves the diagonal to the right,
# here by $n - T$.


# %% save
def causal_mask(T, n=None):
    """The last T of n tokens, each allowed to look at itself and all before it: (T, n)."""
    n = T if n is None else n
    return mt.ones(T, n).tril(n - T).bool()


# %%
print(causal_mask(2, 4))
last_two, _ = attention(query[2:], key, value, causal_mask(2, 4))
print("equals the last two rows:", mt.allclose(last_two, by_loop[2:]))
by_name = F.scaled_dot_product_attention(query[2:], key, value, is_causal=True)
print("is_causal=True does so, too:", mt.allclose(by_name, by_loop[2:]))

# %% [markdown]
# The last line is False. By name, the library takes the *top left* corner of the triangle, as PyTorch does: it treats the
# two queries as tokens 1 and 2. So pass the mask yourself.
#
# ### True means two opposite things
#
# PyTorch has two conventions, and our library follows it:
#
# | | True means | argument |
# | --- | --- | --- |
# | `F.scaled_dot_product_attention` | **may look** | `attn_mask` |
# | `nn.MultiheadAttention`, `nn.Transformer` and its layers | **may not look** | `attn_mask`, `key_padding_mask` |
#
# This book's `allowed` is the first kind, `textbook.data.padding_mask` the second. Mix them up, and nothing raises an
# error. The model then sees *only* the future:

# %%
mt.manual_seed(0)
layer = nn.MultiheadAttention(4, 1, batch_first=True)
x = mt.randn(1, 4, 4)
for name, mask in {"causal_mask(4)": causal_mask(4), "~causal_mask(4)": ~causal_mask(4)}.items():
    _, weights = layer(x, x, x, attn_mask=mask)
    looks = [[j + 1 for j in range(4) if row[j] > 0] for row in weights[0]]
    print(f"nn.MultiheadAttention with {name:15}: tokens 1 to 4 look at {looks}")

# %% [markdown]
# In the first line the mask is the wrong way round: token 1 looks at 2 to 4, and token 4 has nothing left to look at. (Its
# weights are NaN, "not a number". A side road shows where that leads.)
#
# ## 3. Before the softmax, not after
#
# Decks 1 and 3 say that the future is masked "by artificially setting attention weights to 0". Taken literally, that is
# simpler than minus infinity: let the softmax run over all keys, then multiply its weights by the mask. Why not?


# %%
def weights_times_mask(query, key, value, allowed):
    """The tempting mistake: softmax over all keys, then 0 for those that are not allowed."""
    _, weights = attention(query, key, value)
    weights = weights * allowed
    return weights @ value, weights


wrong_output, wrong_weights = weights_times_mask(query, key, value, causal_mask(4))
print("rows add up to", wrong_weights.sum(-1))
print("weights above the diagonal:", (wrong_weights * ~causal_mask(4)).sum().item())

# %% [markdown]
# No weight on the future. But the rows no longer add up to one. Is that all? Take three sentences that differ in their
# third word only. The second word, "water", may not see the third. So it should get the same three times. Does it?

# %% evidence
# What "water" gets if weights are set to zero after the softmax, for three third words: figure
lengths, parts = {}, {}
for word in ("be", "water", "my"):
    row = [0, 1, words.index(word), 3]  # the keys of a sentence with this third word
    output, weights = weights_times_mask(query, key[row], value, causal_mask(4))
    lengths[word] = (output[1].square().sum() / by_loop[1].square().sum()).sqrt().item()
    parts[word] = weights[1, :2].tolist()
figure, (left, right) = plot.subplots(1, 2, width=9, height=3.2, width_ratios=[1.25, 1])
for y, (first, second) in enumerate(parts.values()):
    left.barh(y, first, color="0.35", label='on "be"' if y == 0 else None)
    left.barh(y, second, left=first, color="0.6", label='on "water"' if y == 0 else None)
    rest = 1 - first - second
    left.barh(y, rest, left=1 - rest, color="0.92", label="set to zero" if y == 0 else None)
left.set_yticks(range(3), [f'be water "{word}" ...' for word in parts])
for label, color in zip(left.get_yticklabels(), plot.COLORS, strict=False):
    label.set_color(color)
left.set(xlabel='weights of "water"', xlim=(0, 1))
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)
left.grid(False)
diagrams.rays(right, by_loop[1].tolist(), lengths)
plot.show(
    figure,
    alt="Left: the weights of water in three sentences as bars; what falls on the future is set to zero, a third to five "
    "sixths of the bar. Right: the outputs as arrows. All lie on one ray, that of the right output, with three "
    "different lengths.",
)
measured("length / right length:", {word: round(x, 2) for word, x in lengths.items()})

# %% [markdown]
# On the left, the light part of a bar fell on the future and was set to zero. How long it is depends on the third word.
# So what is left depends on it, too. On the right, all three outputs point in the right direction. But each has its own
# length, and **the length tells which word comes next**. It is a letter from the future. In symbols, with $w_{ij}$ for
# the weights of the softmax over all keys and $f_i$ for the part of row $i$ that falls on the future,
#
# $$w_{ij} = \frac{\exp(e_{ij})}{\sum_{l=1}^{n} \exp(e_{il})}, \qquad f_i = \sum_{l > i} w_{il}, \qquad
# \text{output}_i = \sum_{l \le i} w_{il} v_l = (1 - f_i)\, o_i ,$$
#
# where $o_i$ is the right output. The future's values are gone, but its *keys* are still in the denominator. So each head
# leaks one number at each position, $f_i$. Is that much? Section 5 measures it: it can carry nearly everything.
#
# **Can we divide by the row's sum afterwards?** In exact arithmetic that repairs it: $(1 - f_i)$ cancels, and with it all
# that depends on the future. Some tutorials go this way first. But if a score of the future is larger than all of the past
# by more than about 100, the weights of the past underflow to zero in float32, and the repair is $0 / 0$:


# %%
def renormalized(query, key, value, allowed):
    """Weights times mask, divided by what is left of the row."""
    _, weights = weights_times_mask(query, key, value, allowed)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


for factor in (1, 80, 120):
    strong = mt.cat([query[:1] * factor, query[1:]])  # "be" asks louder for "water"
    right, _ = attention(strong, key, value, causal_mask(4))
    repaired, _ = renormalized(strong, key, value, causal_mask(4))
    print(f"factor {factor:2}: right {right[0].tolist()}, renormalised {repaired[0].tolist()}")

# %% [markdown]
# So the mask belongs before the softmax: exact, stable, and with nothing to repair.

# %% [markdown]
# ## 4. Padding
#
# A batch is a rectangle, and sentences differ in length. So they are filled up (chapter 03). May a word look at the
# filling?

# %%
sentences = [words, ["be", "water"], ["be", "my", "friend"]]
lengths = [len(sentence) for sentence in sentences]
small = Vocabulary(words, specials=["<pad>", "</s>"])
tokens, _ = small.encode_batch(sentences, batch_first=True)  # (B, n), 0 is <pad>
print(tokens)

# %% [markdown]
# It must not. So a second mask joins the first. With $h$ heads the scores have the shape $(B, h, T, n)$.
# A mask must fit this shape by **broadcasting**: shapes are aligned at the right, and an axis that is missing on the
# left or has the size 1 is repeated (chapter 00). So a mask has size 1 on every axis along which it stays the same:
#
# | mask | differs from | shape |
# | --- | --- | --- |
# | causal | query to query | $(T, n)$, which is read as $(1, 1, T, n)$ |
# | padding | sentence to sentence | $(B, 1, 1, n)$ |
# | both, joined by `&` | both | $(B, 1, T, n)$ |


# %% save
def real_tokens(tokens, filler=0):
    """True where there is a token, False at padding, for all heads and queries: (B, 1, 1, n)."""
    return (tokens != filler)[:, None, None]


# %%
real = real_tokens(tokens)  # (B, 1, 1, n)
both = causal_mask(4) & real  # (B, 1, n, n)
print(tuple(real.shape), tuple(both.shape))

# %% evidence
# The masks of the second sentence, "be water" with two places of padding
filled = ["be", "water", "<pad>", "<pad>"]
masks = {"causal": causal_mask(4), "padding": real[1, 0].expand(4, 4), "both": both[1, 0]}
figure, panels = plot.subplots(1, 3, width=9, height=2.9)
for axes, (title, mask) in zip(panels, masks.items(), strict=True):
    plot.mask(axes, mask, filled, filled, title=title)
    axes.set(xlabel="", ylabel="")
plot.show(
    figure,
    alt="Masks of 'be water' with two places of padding. Causal: the lower triangle. Padding: the first two "
    "columns. Both: of the triangle the first two columns.",
)

# %% [markdown]
# The padding mask cuts columns: *no* query may look at a padded key. It cuts no rows. What a padded query gets is never
# read.
#
# How do we check a padding mask? Always in the same way: **a sentence in a batch must get what it gets alone**. First for an
# encoder, where every token may look at every real one:


# %%
def as_alone(layer, x, allowed):
    """For each sentence of x (B, n, d): does it get in the batch what it gets without padding?"""
    together = layer(x, x, allowed)
    return [
        mt.allclose(together[b, :n], layer(x[b : b + 1, :n], x[b : b + 1, :n])[0], atol=1e-6)
        for b, n in enumerate(lengths)
    ]


mt.manual_seed(0)
x = nn.Embedding(len(small), 24)(tokens)  # (B, n, d)
layer = MultiHeadAttention(24, heads=8)
print("with the padding mask:", as_alone(layer, x, real))
print("without one:          ", as_alone(layer, x, None))

# %% [markdown]
# ### One axis short
#
# What if an axis is forgotten? In chapter 05, with one head and scores $(B, n, n)$, a mask of shape $(B, 1, n)$ was right.
# With heads it is one axis short. Shapes are aligned at the right, so its $B$ now meets the axis of the heads:

# %%
short = (tokens != 0).unsqueeze(1)  # (B, 1, n), read as (1, B, 1, n)
for heads in (8, 3):
    layer = MultiHeadAttention(24, heads)
    try:
        print(f"{heads} heads, as alone:", as_alone(layer, x, short))
    except RuntimeError as error:
        print(f"{heads} heads, error:", str(error).split(": ")[1])

# %% [markdown]
# With eight heads there is an error, and we are lucky. With **three heads and three sentences there is none**. Only the
# check notices. What happened?

# %% evidence
# Which mask each sentence and head gets, and how much weight falls on padding
figure, panels = plot.subplots(1, 2, width=9.5, height=3.1)
names = ["be water my friend", "be water", "be my friend"]
for axes, mask, title in zip(panels, (real, short), ("(B, 1, 1, n)", "(B, 1, n)"), strict=True):
    shown = mt.zeros(3, 3, 4, 4).bool() | mask
    diagrams.grid(axes, shown, names, title=f"mask of shape {title}")
plot.show(
    figure,
    alt="Masks of three sentences, in rows, and three heads, in columns. With an axis for the heads each row has its "
    "own mask: four, two, three columns allowed. Without it each column of the figure has one instead, so that "
    "every sentence gets all three.",
)
with mt.no_grad():
    _, weights = layer.look(x, x, short)
on_padding = weights[1, :, :, 2:].sum((1, 2)).tolist()
measured(
    "sentence 2: weight on padding, summed over its four queries, in heads 1 to 3:",
    ", ".join(f"{weight:.2f}" for weight in on_padding),
)

# %% [markdown]
# Compare the rows on the left with the columns on the right. On the right, head 1 gets the mask of sentence 1, for *all*
# sentences; head 2 gets that of sentence 2. (With a batch of one sentence the check is blind: $(1, 1, n)$ fits, and rightly
# so.) So test masks with $B$, $h$, $T$ and $n$ all different, and larger than 1.
#
# With the right axes, the mask also fits the queries of another sequence. In cross-attention (chapter 04) $T$ target tokens
# look at $n$ source tokens:

# %%
target = mt.randn(3, 2, 24)  # (B, T, d)
_, weights = MultiHeadAttention(24, heads=8).look(target, x, real)
print(tuple(weights.shape), "weight on padding:", (weights * ~real).sum().item())

# %% [markdown]
# ### The loss
#
# The loss must ignore padding too: a padded position has no target. `F.cross_entropy` leaves out targets of the number
# `ignore_index`. The check again, now for a causal model: an embedding $E$, the layer, and $E^\top$ to read out
# scores. We compare the summed loss of the batch, and its gradient, with those of its sentences one by one.

# %%
targets, _ = small.encode_batch([s[1:] for s in sentences], end=True, batch_first=True)
layer = MultiHeadAttention(24, heads=8).double()
E = mt.randn(len(small), 24, dtype=mt.float64, requires_grad=True)


def loss_and_gradient(tokens, targets, allowed, ignore=0):
    """The summed loss of a batch, and its gradient at the embedding."""
    x = E[tokens]  # (B, n, d)
    scores = layer(x, x, allowed) @ E.T  # (B, n, V)
    loss = F.cross_entropy(
        scores.flatten(0, 1), targets.flatten(), ignore_index=ignore, reduction="sum"
    )
    return loss.item(), mt.autograd.grad(loss, E)[0]


# %%
alone = [
    loss_and_gradient(tokens[b : b + 1, :n], targets[b : b + 1, :n], causal_mask(n))
    for b, n in enumerate(lengths)
]
right_loss, right_gradient = (sum(parts) for parts in zip(*alone, strict=True))
ways = {
    "causal and padding": loss_and_gradient(tokens, targets, both),
    "causal only": loss_and_gradient(tokens, targets, causal_mask(4)),
    "loss over padding, too": loss_and_gradient(tokens, targets, both, ignore=-1),
}
print("as each sentence alone: loss, gradient")
for name, (loss, gradient) in ways.items():
    same = math.isclose(loss, right_loss, rel_tol=1e-12)
    print(f"{name:23} {same} {mt.allclose(gradient, right_gradient, rtol=0, atol=1e-10)}")

# %% [markdown]
# The second line is worth a thought. Under a causal mask a real token never sees padding at the *end*, for that is
# the future, and the padding mask changes nothing. It is needed where all tokens see all (an encoder), where a
# decoder looks at an encoder (chapter 10), and where padding stands at the front. (Then rows may be left with nothing to look
# at. A side road shows what that does.) The loss has to ignore padding in every case.
#
# ### No padding at all
#
# Padding is wasted work. Why not put several texts into one row, one behind the other? Then "be" of the second sentence
# sees the whole first sentence. One more mask forbids it: a token may look only at tokens **of its own text**.

# %%
packed = [word for sentence in sentences for word in sentence]  # n = 9 words, no padding
documents = mt.tensor([b for b, n in enumerate(lengths) for _ in range(n)])  # 0 0 0 0 1 1 2 2 2
own = documents.unsqueeze(1) == documents  # (n, n): of the same text
in_one_row = causal_mask(9) & own

mt.manual_seed(0)
x = nn.Embedding(len(small), 24)(small.encode(packed))  # (n, d)
layer = MultiHeadAttention(24, heads=8)
together = layer(x.unsqueeze(0), x.unsqueeze(0), in_one_row)[0].split(lengths)
alone = [layer(part[None], part[None], causal_mask(len(part)))[0] for part in x.split(lengths)]
print([mt.allclose(a, b, atol=1e-6) for a, b in zip(together, alone, strict=True)])

# %% evidence
# Three sentences as a batch and packed, and the mask of the packed row
figure, (left, right) = plot.subplots(1, 2, width=9.5, height=3.6, width_ratios=[1.5, 1])
diagrams.packed(left, sentences, len(packed))
diagrams.blocks(right, in_one_row, documents.tolist(), packed)
plot.show(
    figure,
    alt="Left: three sentences of four, two and three words as a batch, with three places of padding; below, packed into "
    "one row of nine words. Right: the mask of the packed row, three small triangles along the diagonal, one for each "
    "sentence; the rest of the large triangle is grey.",
)

# %% [markdown]
# The mask is a chain of small triangles, one for each text. Grey is what the causal mask alone would also allow. The check holds:
# each sentence gets what it gets alone. (A model that gives places codes, as ours in section 1 does, must count the places
# anew in each text.)
#
# Does it matter in training? GPT-3's authors (Brown et al., 2020) packed texts and did *not* mask them, with a token between
# them. Llama 3's (Dubey et al., 2024) did mask them, and report that it mattered little for rows of usual length
# and much for very long ones. Our windows cross the borders of paragraphs, too, with `<s>` between them, and we let them.
#
# ## 5. Does anything leak?
#
# A mask that is off by one looks right, trains well, and is wrong. How would we notice? Here are five ways to attend. The
# last is right, the fourth is right but for rounding, and the others leak:


# %%
def masked_by(mask, look=attention):
    """A way to attend: ``look`` with the mask (n, n) that ``mask`` makes for n tokens."""

    def attend(query, key, value):
        return look(query, key, value, mask(query.shape[-2]))[0]

    return attend


WAYS = {
    "no mask": masked_by(lambda n: None),
    "diagonal off by one": masked_by(lambda n: mt.ones(n, n).tril(1).bool()),
    "zero after the softmax": masked_by(causal_mask, weights_times_mask),
    "zero after, renormalised": masked_by(causal_mask, renormalized),
    "minus infinity before": masked_by(causal_mask),
}

# %% [markdown]
# ### Random tokens: nothing to predict (E2)
#
# Here is a text on which honest work is worth nothing: tokens drawn at random, 8 of them, all equally likely and independent
# of each other. What can a model say of the next one?

# %% evidence
# What an honest and a leaking model can say of a random token
figure, panels = plot.subplots(1, 3, width=9.5, height=2.3, width_ratios=[1.5, 1, 1])
diagrams.guesses(
    panels,
    "3711584",
    ([1 / 8] * 8, [0.004] * 5 + [0.972] + [0.004] * 2),
    ("honest: loss at least 2.08", "it has seen the 6: loss near 0"),
)
plot.show(
    figure,
    alt="Left: the random tokens 3 7 1 1 5 8 4 and a question mark. Middle: what an honest model can say of the next one, "
    "eight equal bars. Right: a model that has seen it puts nearly all on one bar.",
)

# %% [markdown]
# The past tells nothing, so no honest model can have a loss below $\log 8 = 2.08$ on fresh tokens. **If a trained model has
# a lower loss, it has seen the future.** The difference, $\log 8$ minus loss, says how many nats a token leak, at the least.
# At most it can be $\tfrac78 \log 8 = 1.82$ in a window of $n = 8$, for the last position has no future.

# %%
SYMBOLS, LENGTH = 8, 8
MOST = (LENGTH - 1) / LENGTH * math.log(SYMBOLS)


def random_windows(count):
    """Independent tokens, all equally likely: inputs and targets (B, n)."""
    window = mt.randint(0, SYMBOLS, (count, LENGTH + 1))
    return window[:, :-1], window[:, 1:]


@mt.no_grad()
def leaked(model):
    """The loss of guessing evenly minus that of the model, on fresh random tokens."""
    inputs, targets = random_windows(4000)
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    return math.log(SYMBOLS) - loss.item()


# %%
def nats_leaked(attend, heads, rate, steps):
    positions = nn.Embedding(LENGTH, 32)
    model = AttentionModel(SYMBOLS, positions, attend, width=32, heads=heads, hidden=64)
    train_on(model, partial(random_windows, 32), rate, steps)
    return {"nats a token": leaked(model), "on others": leaked(model)}


CHOSEN = Tuned(5e-3, 1e-2, 2e-2, highest="on others", steps=600)


@lab.experiment(
    "E2", way=list(WAYS), rate=1e-2, steps=150, full=dict(rate=CHOSEN, steps=600, seeds=5)
)
def nothing_to_predict(way, rate, steps, heads=4):
    return nats_leaked(WAYS[way], heads, rate, steps)


# %% evidence
# What leaks by way of masking: figure and verdicts
runs = nothing_to_predict.run()
runs.draw(
    y="nats a token",
    by="way",
    lines={"all that there is": MOST},
    width=8,
    height=2.8,
    alt="What leaks by way of masking. No mask, off by one, and zero after the softmax leak nearly all "
    "that there is; renormalised and minus infinity before leak nothing.",
)
for leaking in ("no mask", "diagonal off by one", "zero after the softmax"):
    runs.holds(
        f"{leaking}: more than half of all leaks",
        lambda rows, way=leaking: rows.values("nats a token", way=way),
        above=MOST / 2,
    )
for tight in ("zero after, renormalised", "minus infinity before"):
    runs.holds(
        f"{tight}: nothing",
        lambda rows, way=tight: rows.values("nats a token", way=way),
        below=0.02,
        derived="the past tells nothing; 0.02 nats for chance in 32,000 fresh tokens",
    )

# %% [markdown]
# Look at the third bar. Weights set to zero after the softmax look almost right, and leak as much as no mask at all. Each
# head gives away one number at each position: the length of its output. One number can tell eight tokens apart, if each
# next token makes a length of its own. Training finds keys that do this.
#
# > **E2 · Nearly all: with four heads 1.82 of 1.82 nats leak.** *Our question*: how much of the future
# > leaks if weights are set to zero after the softmax?
# >
# > *Measured*: Nats a token, five seeds, rates chosen on other windows and seeds. Zero after the softmax leaks 1.82 with four
# > heads, as much as no mask. Scores of minus infinity leak 0.00, and so do rows that are divided by their sums.
# > One head leaks 0.69 to 1.74 after 600 steps, and after 6,000 steps 1.82 in three runs of five.
#
# ### Gradients from the future (C15)
#
# The test with random tokens has to train a model. A test that needs no training asks the gradient. If output $i$ does
# not depend on input $x_j$, the derivative $\partial\, \text{output}_i / \partial x_j$, a matrix of shape $(d, d)$, is
# zero. Not small: zero, since the weight is exactly 0 and no other path leads from $j$ to $i$. We take its norm, the
# root of the sum of all squares, for all pairs. It should be zero above the diagonal.


# %%
def derivative_norms(attend, n, width=8):
    """Norms of d output_i / d x_j (n, n) of a random self-attention layer in float64."""
    projections = [nn.Linear(width, width, bias=False).double() for _ in range(3)]
    x = mt.randn(n, width).double().requires_grad_()
    rows = []
    for output in attend(*(project(x) for project in projections)):  # (d)
        parts = [mt.autograd.grad(number, x, retain_graph=True)[0] for number in output]
        rows.append(mt.stack(parts).square().sum((0, 2)).sqrt())  # (n)
    return mt.stack(rows)


@lab.experiment("C15", way=list(WAYS), n=8, full=dict(n=[2, 8, 32], seeds=5))
def gradients_from_the_future(way, n):
    return {"largest norm": derivative_norms(WAYS[way], n).triu(1).max()}


# %% evidence
# Norms of all derivatives for the five ways, and the largest from the future: figure, table, verdicts
figure, panels = plot.subplots(1, 5, width=10, height=2.5, sharey=True)
for axes, (name, attend) in zip(panels, WAYS.items(), strict=True):
    mt.manual_seed(0)
    norms = derivative_norms(attend, 8).numpy()
    exponents = np.log10(np.where(norms > 0, norms, np.nan))  # not drawn where exactly 0
    image = plot.heatmap(axes, exponents, colorbar=False, vmin=-18, vmax=0, aspect="equal")
    axes.set_title(name.replace(" the softmax", "").replace("diagonal ", ""), fontsize=9)
    axes.set(xticks=[0, 3, 7], xticklabels=[1, 4, 8], yticks=[0, 3, 7], yticklabels=[1, 4, 8])
panels[0].set(ylabel="output i")
panels[2].set(xlabel="input j (white: exactly 0)")
figure.colorbar(image, ax=panels, shrink=0.7, label="log10 of the norm")
plot.show(
    figure,
    alt="Norms of the derivatives for five ways. Without a mask the whole square is bright; off by one, a "
    "diagonal too many; zero after the softmax, the whole square again; renormalised, a dark upper "
    "triangle of rounding errors; minus infinity before, a white upper triangle: exact zeros.",
)
runs = gradients_from_the_future.run()
runs.table("way", "largest norm", columns="n")
runs.holds(
    "minus infinity before: exactly 0",
    lambda rows: rows.values("largest norm", way="minus infinity before"),
    between=(0, 0),
    derived="the weight is exactly 0, and there is no other path",
)
for leaking in ("no mask", "diagonal off by one", "zero after the softmax"):
    runs.holds(
        f"{leaking}: above 0.001",
        lambda rows, way=leaking: rows.values("largest norm", way=way),
        above=1e-3,
    )
runs.holds(
    "renormalised: rounding, below 1e-12",
    lambda rows: rows.values("largest norm", way="zero after, renormalised"),
    below=1e-12,
)

# %% [markdown]
# In each square, look above the diagonal: that is the future. Only the right mask leaves all of it white, an exact zero. Zero
# after the softmax fills the square, as no mask does. Renormalising leaves dark blue: rounding, about $10^{-17}$. But a test
# for "exactly zero" cannot tell rounding from a small leak: one more reason for minus infinity.
#
# Test the **whole model** in this way, not the mask alone: a layer that normalises over positions leaks as
# well. And gradients find smooth leaks only. For the others, change a later token: not one bit of an earlier output may
# differ.

# %%
mt.manual_seed(0)
model = model_with(WAYS["minus infinity before"])
one = mt.full((1, CONTEXT), letters["e"])
other = one.clone()
other[:, -1] = letters["x"]
same = (model(one) == model(other)).all(-1)[0]  # (n)
print("outputs that stay the same, bit for bit:", int(same.sum()), "of", CONTEXT)

# %% [markdown]
# > **C15 · holds: With scores of minus infinity the gradient from the future is exactly 0, without a
# > mask up to 1.1.** *The lectures* (deck 1, "Necessities for a self-attention building block:"; deck
# > 3): masking "keeps information about the future from 'leaking' to the past".
# >
# > *Measured*: Largest norm of a derivative from the future, windows of 2 to 32 tokens, five seeds: exactly 0
# > with scores of minus infinity; 0.11 to 1.1 without a mask, 0.73 to 1.2 with a mask off by one, 0.004 to
# > 0.19 with weights set to zero after the softmax.
#
# ## 6. The growing key set
#
# Decks 1 and 3 name another way, without a mask: at every time step, change the set of keys and queries to the past words.
# They call that inefficient. Is it? There are two ways to do it. One **recomputes** the whole layer on each prefix:

# %%
causal = WAYS["minus infinity before"]


def one_pass(x, Q, K, V):
    """Causal self-attention of x (n, d), all tokens at once."""
    return causal(x @ Q, x @ K, x @ V)


def by_prefix(x, Q, K, V):
    """The layer anew for each prefix; of each, the last row is kept."""
    return mt.stack([one_pass(x[:t], Q, K, V)[-1] for t in range(1, len(x) + 1)])


# %% [markdown]
# The other keeps a **cache**. It projects each token once and appends its key and value to those that it has. It takes $T$
# new tokens at a time and lets them look at all keys so far, with section 2's mask. $T = 1$ is a loop over tokens, whose mask
# allows everything. $T = n$ is one masked pass.


# %%
def in_blocks(x, Q, K, V, T):
    """The same, T tokens at a time against all keys so far."""
    keys, values, rows = x[:0] @ K, x[:0] @ V, []  # (0, d)
    for new in x.split(T):  # (T, d)
        keys, values = mt.cat([keys, new @ K]), mt.cat([values, new @ V])  # (n so far, d)
        allowed = causal_mask(len(new), len(keys))
        rows.append(attention(new @ Q, keys, values, allowed)[0])
    return mt.cat(rows)


# %% evidence
# Which step computes which score, for the four ways
figure, panels = plot.subplots(1, 4, width=10, height=2.7)
for axes, (title, block, again) in zip(
    panels,
    (
        ("by prefix:\ntimes computed", 1, True),
        ("growing keys:\n8 steps", 1, False),
        ("blocks of 4:\n2 steps", 4, False),
        ("one masked pass:\n1 step", 8, False),
    ),
    strict=True,
):
    diagrams.order_of_work(axes, 8, block, again)
    axes.set_title(title, fontsize=10)
plot.show(
    figure,
    alt="Squares of eight by eight scores. By prefix: the numbers say how often a score is computed, eight times in the "
    "first row. Growing keys: row by row, in eight steps, nothing above the diagonal. Blocks of four: two steps, with "
    "grey, wasted scores near the diagonal. One masked pass: one step, the whole upper triangle grey.",
)

# %% [markdown]
# A row is a query, a column a key; grey scores are computed and thrown away. In the first square a number says *how often* a
# score is computed, that of the first token with itself eight times. In the other three it says in *which step*. The cache wastes
# nothing and takes eight steps. The masked pass wastes nearly half and takes one.
#
# ### One masked pass (C16)
#
# We count products (chapter 00: $(n, k)$ times $(k, m)$ costs $2nkm$). With $d$ for the width,
#
# | | projections | scores and mixing | steps one after the other |
# | --- | --- | --- | --- |
# | by prefix (recompute) | $\sum_t 6 t d^2 = 3 n (n + 1) d^2$ | $\sum_t 4 t^2 d = \tfrac23 n (n + 1)(2n + 1)\, d$ | $n$ |
# | growing keys (cache), $T = 1$ | $6 n d^2$ | $\sum_t 4 t d = 2 n (n + 1)\, d$ | $n$ |
# | blocks of $T$ | $6 n d^2$ | $2 n (n + T)\, d$ | $n / T$ |
# | one masked pass, $T = n$ | $6 n d^2$ | $4 n^2 d$ | 1 |
#
# (The $n$ prefixes do not wait for each other; they could run side by side.)

# %%
PASSES = {
    "by prefix": by_prefix,
    "growing keys": partial(in_blocks, T=1),
    "blocks of 16": partial(in_blocks, T=16),
    "one masked pass": one_pass,
}


@lab.experiment(
    "C16", way=list(PASSES), n=[16, 32, 64, 128], full=dict(n=[16, 32, 64, 128, 256], seeds=5)
)
def four_ways(way, n, d=64):
    x = mt.randn(n, d).double()
    matrices = [mt.randn(d, d).double() / math.sqrt(d) for _ in range(3)]
    with count_flops() as counter:
        output = PASSES[way](x, *matrices)
    milliseconds = []
    for _ in range(5):
        start = process_time()
        PASSES[way](x, *matrices)
        milliseconds.append(1000 * (process_time() - start))
    difference = (output - one_pass(x, *matrices)).abs().max()
    return {"difference": difference, "FLOPs": counter.total, "milliseconds": min(milliseconds)}


# %% evidence
# FLOPs and time against length for the ways: figure and verdicts
runs = four_ways.run()
runs.draw(
    x="n",
    y=["FLOPs", "milliseconds"],
    by="way",
    log="xy",
    alt="FLOPs and milliseconds against length, on log scales. By prefix has by far the most FLOPs; growing keys and "
    "blocks have slightly fewer than one masked pass. In time by prefix and growing keys lie far above one "
    "masked pass, together up to 64 tokens, and blocks of 16 in between.",
)
by_hand = {
    "by prefix": lambda n, d: 3 * n * (n + 1) * d**2 + 2 * n * (n + 1) * (2 * n + 1) * d // 3,
    "growing keys": lambda n, d: 6 * n * d**2 + 2 * n * (n + 1) * d,
    "blocks of 16": lambda n, d: 6 * n * d**2 + 2 * n * (n + 16) * d,
    "one masked pass": lambda n, d: 6 * n * d**2 + 4 * n**2 * d,
}
runs.holds(
    "all ways give the same",
    lambda rows: rows.values("difference"),
    below=1e-12,
    derived="the same sums, in float64",
)
runs.holds(
    "FLOPs counted are those by hand, for all",
    lambda rows: [row["FLOPs"] / by_hand[row["way"]](row["n"], d=64) for row in rows],
    between=(1, 1),
    derived="the formulas of the table",
)
runs.holds(
    "at n = 128 growing keys need less work than one masked pass",
    lambda rows: (
        rows.values("FLOPs", way="growing keys", n=128)
        / rows.values("FLOPs", way="one masked pass", n=128)
    ),
    below=0.9,
)
times = {way: runs.best.values("milliseconds", way=way, n=128) for way in PASSES}
runs.holds(  # of the recorded runs alone: times of a busy machine prove nothing
    "and, as recorded, at least five times its time",
    times["growing keys"] / times["one masked pass"],
    above=5,
)

# %% [markdown]
# On the left, the way by prefix needs by far the most FLOPs, and growing keys need even **fewer** than the masked pass. But
# on the right, in time, growing keys are slow: their $n$ steps wait for each other, and each has small products, which use
# the machine badly. Blocks lie between. **The mask buys parallelism with wasted work.** In training, where all tokens are
# known, that is a good bargain: one pass gives $n$ predictions and $n$ losses.
#
# When a model *writes*, the next token waits for this one. Then growing keys are the right way, under the name of
# key-value cache (chapter 11).
#
# > **C16 · holds with a condition: If all tokens are known, one masked pass takes a twentieth of the time of growing keys, though it
# > counts more FLOPs (2.3e7 against 1.5e7).** *The lectures* (deck 1, "Masking the future in
# > self-attention"; deck 3): a set of keys and queries that grows with the time step is "inefficient";
# > masking enables parallelization.
# >
# > *Measured*: All ways give the same, to 1e-12. FLOPs and processor time at $n = 256$, $d = 64$, five seeds. By prefix:
# > 2.25e9 FLOPs and {{07 four_ways: milliseconds; way=by prefix; n=256}} ms. Growing keys: 1.47e7 and {{07 four_ways: milliseconds; way=growing keys; n=256}} ms. Blocks of 16: 1.52e7 and {{07 four_ways: milliseconds; way=blocks of 16; n=256}} ms.
# > One masked pass: 2.31e7 and {{07 four_ways: milliseconds; way=one masked pass; n=256}} ms. When a model writes, tokens come one by one, and there is no such pass.

# %% [markdown]
# ## 7. A causal language model
#
# Now the model of section 1 gets the mask, and nothing else changes. Such a model is called a **causal language model**. (A
# *masked language model* is another thing: it fills in hidden words, chapter 13. Our tables say *masked self-attention*.)
# How good is it? Its rival is chapter 01's RNN with about as many parameters. The RNN may not carry its state from window to
# window here, so both see the same 32 characters at most.


# %% save
class BatchFirst(LanguageModel):
    """Chapter 01's recurrent language model for tokens (B, n): scores (B, n, V)."""

    def forward(self, tokens):
        scores, _ = super().forward(tokens.T)
        return scores.transpose(0, 1)


# %%
fused_causal = partial(F.scaled_dot_product_attention, is_causal=True)
RNN = partial(BatchFirst, VOCABULARY)
MODELS = {"masked self-attention": partial(model_with, fused_causal), "RNN": RNN}
for name, make in MODELS.items():
    model = make()
    with count_flops() as counter:
        model(mt.zeros(1, CONTEXT).long())
    parameters = sum(p.numel() for p in model.parameters())
    flops = counter.total / CONTEXT
    print(f"{name:22} {parameters:,} parameters, {flops / 1000:.0f} thousand FLOPs a token")

# %% [markdown]
# We train one, and hold its two losses beside each other:

# %%
mt.manual_seed(0)
writer = model_with(fused_causal)
train_on(writer, batch_of_text, rate=5e-3, steps=400)
ways = in_one_pass(writer, validation), from_prefix(writer, validation)
print("in one pass as from the prefix:", mt.allclose(*ways, atol=1e-4))

# %% [markdown]
# With the mask, the loss in one pass *is* the loss from the prefix: what training sees is what writing gets. And does it still
# laugh? Here are the cheater and the causal model, asked to go on from the same beginnings, again at temperature 1/2.

# %% evidence
# What the models write: as recorded, or those that were trained here
WRITERS = {"no mask": partial(model_with, F.scaled_dot_product_attention), **MODELS}
PROMPTS = ("The ", "A model ", "If the ")


@lab.experiment("E3", model=list(WRITERS), steps=10, full=dict(steps=1500))
def what_they_write(model, steps):
    trained = WRITERS[model]()
    train_on(trained, batch_of_text, rate=5e-3, steps=steps)
    return {
        prompt: write_on(lambda tokens: 2 * trained(tokens), prompt, length=140)[0]
        for prompt in PROMPTS
    }


texts = what_they_write.run().full
made_here = {"no mask": cheater, "masked self-attention": writer}
for name in WRITERS if texts else made_here:
    if texts:
        [row] = texts.where(model=name)
    else:
        row = {p: write_on(lambda x, m=made_here[name]: 2 * m(x), p, 140)[0] for p in PROMPTS}
    lines = [row[prompt].replace("<unk>", "?") for prompt in PROMPTS]
    if name == "no mask":  # with <s> before it, the 31st character fills the window
        lines = [f"{text[: CONTEXT - 1]} | {text[CONTEXT - 1 :]}" for text in lines]
    large("\n".join([f"{name}:", *(textwrap.fill(text, width=80) for text in lines)]))


# %% evidence
# Which share of the words is known, with its scale: table and verdict
def words_of(numbers):
    return "".join(letters.decode(numbers)).replace("<s>", " ").split()


known = set(words_of(training))


def known_words(texts):
    """Which share of the words in texts occurs in the training text; the last may be cut off."""
    written = [word for text in texts for word in text.split()[:-1]]
    return sum(word in known for word in written) / max(len(written), 1)


counts = Counter(training.tolist())
mt.manual_seed(0)
frequencies = mt.tensor([float(counts[token]) for token in range(VOCABULARY)])
drawn = mt.multinomial(frequencies, 3000, replacement=True)
written = {
    "the validation text itself": [" ".join(words_of(validation))],
    "the causal model, 400 steps": write_on(writer, count=100),
    "letters by their frequency": [" ".join(words_of(drawn))],
    "the model without a mask": write_on(cheater, count=100),
}
shares = {name: known_words(texts) for name, texts in written.items()}
rows = [[name, f"{share:.0%}"] for name, share in shares.items()]
table(["text", "known"], rows, "words that occur in the training text", folded=False)
lab.holds(
    "E1",
    "the cheating model writes hardly one known word",
    shares["the model without a mask"],
    below=0.02,
)

# %% [markdown]
# The honest model writes something like words of this book. The cheater laughs and stutters on. The bar marks the place where
# its window of 32 tokens is full. From then on each new letter stands at the *last* position, the only one where training did
# not let it cheat, and there it says *the* and *and*.
#
# The table counts words in texts of one window. Of the cheater's, not one in a hundred occurs in the training text. Letters
# drawn by their frequency do better.
#
# ### Beside the RNN (E3)


# %%
@lab.experiment(
    "E3",
    model=list(MODELS),
    steps=[20],
    rate=5e-3,
    full=dict(steps=[600, 1500, 6000], rate=RATES, seeds=5),
)
def language_models(model, steps, rate):
    trained = MODELS[model]()
    train_on(trained, batch_of_text, rate, steps)
    starts = range(0, CONTEXT, 4)  # so that each position meets the same text
    losses = mt.stack([in_one_pass(trained, validation, first) for first in starts]).mean(0)  # (n)
    ends = [0, 1, 2, 4, 8, 16, 32]
    return {
        "loss": losses.mean(),
        "tokens seen, up to": ends[1:],
        "by tokens seen": [losses[a:b].mean().item() for a, b in zip(ends, ends[1:], strict=False)],
        "known words": known_words(write_on(trained, count=100)),
        "elsewhere": in_one_pass(trained, elsewhere).mean(),
    }


# %% evidence
# Causal self-attention beside the RNN: figure by steps and by tokens seen, tables, verdicts
runs = language_models.run()
most_steps = runs.best.settings_of("steps")[-1]
longest = runs.best.where(steps=most_steps)
seen = longest[0]["tokens seen, up to"]
figure, (left, right) = plot.subplots(1, 2, width=9, height=3.2)
for name in MODELS:
    budgets = runs.best.settings_of("steps")
    by_steps = [runs.best.values("loss", model=name, steps=steps) for steps in budgets]
    plot.spread(left, budgets, np.stack(by_steps, axis=1), marker="o", label=name)
    curves = longest.values("by tokens seen", model=name)
    plot.spread(right, seen, curves, marker="o", label=name)
left.set(xlabel="steps of training", ylabel="validation loss", xscale="log")
left.set_xticks(budgets, budgets)
right.set(xlabel="tokens seen, up to", xscale="log", title=f"after {most_steps:,} steps")
right.set_xticks(seen, seen)
for axes in (left, right):
    axes.minorticks_off()
left.legend()
plot.show(
    figure,
    alt="Validation loss of two models. Left, against steps of training: both fall, and the RNN's stays lower. Right, "
    "by the number of tokens seen: both fall together up to four tokens; from eight on the RNN's is clearly lower.",
)
runs.table("model", "loss", columns="steps")
runs.table("model", "known words", columns="steps")
rows = [
    [name, *(spread(losses) for losses in longest.values("by tokens seen", model=name).T)]
    for name in MODELS
]
table(["model", *map(str, seen)], rows, "the numbers: loss by tokens seen, up to", folded=True)
unigram = -sum(
    math.log((counts[token] + 1) / (len(training) + VOCABULARY)) for token in validation.tolist()
) / len(validation)
masked_name = "masked self-attention"
runs.holds(
    "the causal model is better than letters by their frequency, by 0.5 nats",
    lambda rows: unigram - rows.values("loss", model=masked_name, steps=600),
    above=0.5,
)
for steps in (600, 1500, 6000):
    runs.finding(
        f"after {steps:,} steps the RNN has the lower loss",
        "loss",
        larger=dict(model=masked_name, steps=steps),
        smaller=dict(model="RNN", steps=steps),
    )
runs.holds(
    "after 6,000 steps the causal model is where the RNN was after 1,500, to 0.1 nats",
    lambda rows: (
        rows.values("loss", model=masked_name, steps=6000)
        - rows.values("loss", model="RNN", steps=1500)
    ),
    between=(-0.1, 0.1),
)
if cheating.full and runs.full:
    lab.holds(
        "C15",
        "after 600 steps, from the prefix, three nats better than without a mask",
        cheating.full.values("from the prefix", steps=600).min()
        - runs.full.values("loss", model=masked_name, steps=600).max(),
        above=3,
    )

# %% [markdown]
# **The RNN wins**, at every budget. On the left its lead shrinks: from 0.25 to 0.30 nats after 600 steps to 0.07 to 0.10 after 6,000.
# There the causal model is where the RNN was after 1,500. So the RNN learns about four times as fast. On the right we see where
# it gains. Up to four tokens attention is level or better. From the fifth on the RNN has the lower loss: it makes
# more of what it has seen. (Neither is a champion. Chapter 01's table of counts has
# {{01 counting_by_order: loss[4]; text=first edition}} nats on nearly the same text.)
#
# > **E3 · Not quite: after 6,000 steps it has {{07 language_models: loss; model=masked self-attention; steps=6000}} nats, as the RNN
# > after 1,500; the RNN is at {{07 language_models: loss; model=RNN; steps=6000}} by then.** *Our question*: is one
# > causal layer of self-attention as good a language model as an RNN?
# >
# > *Measured*: Loss on all validation windows, with about as many parameters, the same windows and steps, five seeds,
# > rates chosen on other text and seeds by runs of 600 steps: after 600 steps causal self-attention
# > {{07 language_models: loss; model=masked self-attention; steps=600}}, RNN
# > {{07 language_models: loss; model=RNN; steps=600}}; after 1,500 steps
# > {{07 language_models: loss; model=masked self-attention; steps=1500}} and
# > {{07 language_models: loss; model=RNN; steps=1500}}. Of the words that they write after 6,000,
# > {{07 language_models: known words; model=masked self-attention; steps=6000}} and
# > {{07 language_models: known words; model=RNN; steps=6000}} are known.
#
# ### Three suspects
#
# Why does it lose? We cannot say yet, but we can name suspects. Here is the model, from below:

# %% evidence
# The model, and three things that it may lack
figure, axes = plot.subplots(width=9.5, height=3.2)
diagrams.suspects(axes)
plot.show(
    figure,
    alt="From below: the embedding of the token, to which a position from a table is added; causal self-attention; a "
    "network that reads out. Three marks: 1 at the table, one place back is learned 32 times over; 2 at attention, values "
    "are mixed once, linearly; 3 at a dashed arrow past attention that does not exist, no way around.",
)

# %% [markdown]
# 1. **The positions.** A place is a row of a table. What "one place back" means at place 5 says nothing about place 25, so it
#    is learned 32 times over.
# 2. **One round of mixing.** The RNN bends its state with a tanh at every step. Here values are mixed once, linearly, and
#    only the network on top can bend.
# 3. **No way around.** The read-out gets attention's result *alone*. To let it know the token itself, a head must spend
#    weight on this token, and that weight is missing elsewhere.
#
# Who did it? Look at the heads before you bet:

# %% evidence
# One head's weights, and how far back each head looks on average: figure
with mt.no_grad():
    places = mt.arange(CONTEXT)
    x = writer.embedding(all_windows(validation, CONTEXT)[0]) + writer.positions(places)
    _, weights = writer.attention.look(x, x, causal_mask(CONTEXT))
    mean = weights.mean(0).numpy()  # (h, n, n)
    back = np.stack([np.diagonal(mean, -k, 1, 2).mean(1) for k in range(12)], axis=1)  # (h, 12)
    head = int(back[:, 1].argmax())
    n = len(snippet)
    x = writer.embedding(letters.encode(snippet).unsqueeze(0)) + writer.positions(places[:n])
    _, weights = writer.attention.look(x, x, causal_mask(n))
figure, (left, right) = plot.subplots(1, 2, width=9, height=3.4, width_ratios=[1, 1.3])
plot.attention(left, weights[0, head], list(snippet), list(snippet), colorbar=False)
left.set(title=f"head {head + 1}", aspect="equal")
image = plot.heatmap(
    right, back, row_labels=range(1, 9), colorbar=False, cmap="Blues", vmin=0, vmax=1
)
right.set(xlabel="places back", ylabel="head", title="mean weight, all validation windows")
figure.colorbar(image, ax=(left, right), shrink=0.8, label="weight")
plot.show(
    figure,
    alt="Left: weights of one head over the twelve characters of 'The value of': from the second row on, all is on the "
    "character before. Right: mean weight by head and places back. One head has nearly all of it at one place back; "
    "most others are darkest at zero and spread to three places back, one spreads more widely.",
)
rows = [[str(k + 1), *(f"{x:.2f}" for x in row[:6])] for k, row in enumerate(back.tolist())]
table(["head", *(f"{k} back" for k in range(6))], rows, "the numbers: mean weight", folded=True)

# %% [markdown]
# On the left, one head looks at the character before. Place 5 had to learn that by itself, and so had place 25 (suspect 1). On
# the right, column 0 is the token itself. Head 7 spends about half of its weight there, and head 1 more than a third: on what
# the model already had (suspect 3). More than five places back, no single place gets more than a
# few hundredths.
#
# These are signs, not proofs. **Chapter 08** takes this model up again. It gives it better positions, then the way around, and
# closes the case. Chapter 09 makes the way around a part of every layer, and puts something between two layers that bends.
#
# > **Today.** Nearly every large language model that writes is trained in this way: a causal mask, one pass, $n$
# > losses. Fast code does not build the mask as a matrix. The fused operation is told `is_causal` and leaves out whole
# > blocks above the diagonal, so most of the wasted work is saved (FlashAttention; chapter 12). Short texts are packed
# > into one row, with the block mask given as the places where texts begin. Many layers look only at the last few
# > thousand tokens (a sliding window: one more `&`). And the growing key set lives on in every model that answers you:
# > its cache is chapter 11.
#
# **Try it**:
#
# - Put `WAYS["diagonal off by one"]` into `model_with`, train it for 300 steps, and let it write. Compare `in_one_pass` with
#   `from_prefix`. One diagonal too many: is it as bad as no mask?
# - Let each token of section 2 look at itself and *one* token before it, with one more `tril` or `triu` and an `&`.
# - Draw `known_words` against the number of steps.
#
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | mask out the future "by artificially setting attention weights to 0" (decks 1 and 3) | zero *before* normalising, which is minus infinity for the scores, as the decks' own formula says; deck 5 puts 0 in place of $\exp(e)$ inside the softmax, which is the same | section 3: afterwards, the future stays in the denominator |
# | "masked language model" for the model of section 7 | causal language model | the other name belongs to BERT's task: hide some words, look to both sides, fill them in (chapter 13) |
# | a mask with a row and a column for `<START>` (decks 1, 3 and 4) | the same triangle, one token longer | a start token is a token; without it nothing predicts the first word (chapter 01) |
# | the decoder receives "the decoder output at the previous time step" (deck 2) | that is an RNN decoder; one with self-attention gets all previous outputs | it has no state that could sum them up |
# | `is_causal=True` for new tokens after those that were read | a mask $(T, n)$, the *last* rows of the triangle | section 2: the name means the top left corner |
#
# </details>
#
# ## Summary
#
# - A model that sees its target in the input copies it. Its training *and its validation loss* are near zero, and
#   it cannot write. More training makes it worse (E1). What a model knows is its loss from the prefix.
# - Causal mask: query $i$ may look at key $j \le i$. Other scores go to minus infinity *before* the softmax. Zero
#   after it leaves the future in the denominator, where four heads can read nearly all of it (E2).
# - Padding mask: $(B, 1, 1, n)$, joined by `&` to the causal $(T, n)$. One axis short, and at $B = h$ nothing
#   complains. The check: a sentence in a batch gets what it gets alone. The loss must ignore padding, too.
# - Several texts in one row need a block mask: each token looks at its own text only.
# - True means *may look* in `F.scaled_dot_product_attention`, *may not look* in `nn.MultiheadAttention`.
# - Test the whole model: on random tokens nothing can be learned (E2), and derivatives from the future are exactly zero
#   (C15).
# - One masked pass gives what the loop over growing keys gives, with more FLOPs and in much less time (C16).
# - One causal layer writes, but an RNN of its size has the lower loss (E3). Three suspects: the positions, the single round of
#   mixing, and no way around attention.
#
# In chapter 05's table of barriers, the third row is filled in:
#
# | barrier | what breaks | way out | chapter |
# | --- | --- | --- | --- |
# | looks at the future | cannot be trained to predict the next token (C15) | mask: scores to minus infinity before the softmax; the derivative from the future exactly 0, loss from the prefix after 600 steps {{07 language_models: loss; model=masked self-attention; steps=600}} in place of {{07 without_a_mask: from the prefix; steps=600}} | 07 |
#
# We took the learned positions without asking. Attention has no notion of order: how do we tell it where its tokens stand?
# Chapter 08 asks, and closes the case of the RNN.
#
# **Exercises**: [set 07](../exercises/07_masking/07_masking.ipynb)
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*, section 3.2.3. Bengio et al. (2003), *A neural
# probabilistic language model*, which reads a fixed number of tokens, as ours does. Radford et al. (2018),
# *Improving language understanding by generative pre-training*. Germain et al. (2015), *MADE*, which puts masks on the weights of
# an ordinary network so that each output sees only the inputs before it. Dao et al. (2022), *FlashAttention*, on leaving out
# what the mask throws away. Brown et al. (2020), *Language models are few-shot learners*, and Dubey et al. (2024), *The Llama 3
# herd of models*, on packing.
#
# ## Side roads
#
# ### Rows with nothing to look at
#
# *For those who let a model continue a batch of prompts, or who have met NaN.* Padding stands at the front when prompts of
# different lengths are to be continued: all must end in the same column. Together with a causal mask, the first rows may
# then look nowhere at all:

# %%
allowed = causal_mask(4) & mt.tensor([False, False, True, True])  # <pad> <pad> be water
x = mt.randn(4, 2, generator=mt.Generator().manual_seed(0))
_, weights = attention(x, x, x, allowed)
print(weights)

# %% [markdown]
# A softmax of minus infinity everywhere is $0/0$, NaN, "not a number". These rows are padding, and nobody reads
# them. But NaN spreads. In backward it meets the zeros that come from the loss, and
# $0 \cdot \mathrm{NaN} = \mathrm{NaN}$. We leave the two rows out of the loss, and ask which of a layer's projections
# still have a finite gradient:


# %% evidence
# The test of a row with nothing to look at, and two ways that fail it
def report(name, attend):
    """What a row without a key gets, and which projections keep a finite gradient."""
    mt.manual_seed(0)
    projections = [nn.Linear(2, 2, bias=False) for _ in range(3)]  # queries, keys, values
    output = attend(*(project(x) for project in projections), allowed)
    output[2:].sum().backward()
    finite = [bool(project.weight.grad.isfinite().all()) for project in projections]
    row = [round(number, 3) for number in output[0].tolist()]
    print(f"{name:26} row 1: {row!s:16} finite gradients of queries, keys, values: {finite}")


def output_filled(query, key, value, allowed):
    """NaN becomes 0 in the output."""
    output, _ = attention(query, key, value, allowed)
    return output.masked_fill(output.isnan(), 0.0)


def mask_added(query, key, value, allowed):
    """Minus infinity is added to the scores, as many programs do, and not filled in."""
    mask = mt.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    return (query @ key.mT / math.sqrt(query.shape[-1]) + mask).softmax(-1) @ value


report("filled with minus infinity", lambda *inputs: attention(*inputs)[0])
report("minus infinity added", mask_added)
report("NaN to 0 in the output", output_filled)

# %% [markdown]
# One step of the optimizer, and the matrix that makes values is NaN, and soon the whole model. The gradient of
# the values is the transposed *weights* times the gradient of the output. With zeros filled into the output the latter
# is zero, but it is still multiplied by NaN.
#
# Queries and keys are safe only where the mask is *filled in*: `masked_fill` sends back zeros for every score that it filled,
# and in such a row it filled all. A mask that is *added* sends NaN on to the scores, and **all three gradients are spoiled**.
#
# Replacing NaN in the output comes too late; in the weights it is in time. Better still, let none arise: do not mask the
# scores of an empty row, and zero its weights afterwards.


# %%
def weights_filled(query, key, value, allowed):
    """NaN becomes 0 in the weights."""
    _, weights = attention(query, key, value, allowed)
    empty = ~allowed.any(-1, keepdim=True)  # (..., T, 1)
    return weights.masked_fill(empty, 0.0) @ value


def scores_left(query, key, value, allowed):
    """An empty row is masked after its softmax alone, so that no NaN arises."""
    empty = ~allowed.any(-1, keepdim=True)
    _, weights = attention(query, key, value, allowed | empty)
    return weights.masked_fill(empty, 0.0) @ value


def large_number(query, key, value, allowed):
    """A large negative number in place of minus infinity."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -1e9).softmax(-1) @ value


report("NaN to 0 in the weights", weights_filled)
report("scores left", scores_left)
report("the fused operation", F.scaled_dot_product_attention)
report("-1e9", large_number)
mean = x.mean(0)
print("the mean of all values:", mt.allclose(large_number(x, x, x, allowed)[0], mean, atol=1e-6))

# %% [markdown]
# The first three give zeros and finite gradients. With $-10^9$ all is finite, too, but the row gets the mean of *all*
# values, also of those forbidden, for all its scores are equal. What the module does, whose mask means the opposite,
# depends on whether it is asked for weights:

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
# Without weights it uses the fused operation, and the row gets zeros, then the bias of `out_proj`. (PyTorch's fused
# operation gives zeros from version 2.5 on, NaN before.) The best remedy is to have no such rows: put padding at the
# end where you can, or let every position look at itself.
#
# One more trap: a weight of exactly 0 does not protect from a *value* that is NaN, for $0 \cdot \mathrm{NaN}$ is NaN again.
# What stands at a masked place must still be a number.
#
# ### The leak as a derivative
#
# *For those who like section 3 in one formula.* How much does a key $k_j$ of the future, $j > i$, change an output whose weights
# are set to zero after the softmax? By the softmax's Jacobian (chapter 00), $\partial w_{il} / \partial e_{ij} = -w_{il} w_{ij}$
# for $l \ne j$. Sum over the values $v_l$ with $l \le i$, and go on to $k_j$ with $e_{ij} = q_i k_j^\top / \sqrt d$:
#
# $$\begin{aligned}
# \frac{\partial\, \text{output}_i}{\partial e_{ij}} &= -w_{ij} \sum_{l \le i} w_{il} v_l = -w_{ij}\, \text{output}_i
# && (d_v), \\
# \frac{\partial\, \text{output}_i}{\partial k_j} &= - w_{ij}\, \frac{\text{output}_i^\top\, q_i}{\sqrt d} && (d_v, d).
# \end{aligned}$$
#
# That is zero only where one of its factors is.

# %% evidence
# The formula against the gradient
_, all_weights = attention(query, key, value)  # (n, n)
f = (all_weights * ~causal_mask(4)).sum(-1, keepdim=True)  # (n, 1)
print("output = (1 - f) times the right output:", mt.allclose(wrong_output, (1 - f) * by_loop))

leaf = key.clone().requires_grad_()
first, _ = weights_times_mask(query, leaf, value, causal_mask(4))
first[0, 0].backward()  # of the first word's output, its first number
formula = -all_weights[0, 1] * wrong_output[0, 0] * query[0] / 2
print("gradient at the key of the second word:", leaf.grad[1])
print("equals the formula:", mt.allclose(leaf.grad[1], formula, atol=1e-6))

# %% [markdown]
# ### One head is enough
#
# *For those who doubt that one number a position can say so much.* In E2 four heads leaked nearly everything. Can one head?
# And does it happen on text, where the past is worth something?


# %%
@lab.experiment(
    "E2",
    heads=[1],
    rate=1e-2,
    steps=150,
    full=dict(heads=[1, 2], rate=CHOSEN, steps=[600, 6000], seeds=5),
)
def heads_that_leak(heads, rate, steps):
    return nats_leaked(WAYS["zero after the softmax"], heads, rate, steps)


@lab.experiment("E2", rate=5e-3, steps=20, full=dict(rate=RATES, steps=600, seeds=5))
def zero_after_on_text(rate, steps):
    return cheat_and_tell(WAYS["zero after the softmax"], rate, steps)


# %% evidence
# Leaks by the number of heads and the steps, and zero after the softmax on text: tables and verdicts
runs = heads_that_leak.run()
runs.table("heads", "nats a token", columns="steps")
runs.holds(
    "one head leaks a quarter of all and more",
    lambda rows: rows.values("nats a token", heads=1),
    above=MOST / 4,
)
runs.holds(
    "after ten times the steps it leaks nearly all, in a share of the runs",
    lambda rows: np.mean(rows.values("nats a token", heads=1, steps=6000) > 0.99 * MOST),
    above=0.5,
)
runs.holds(
    "and with two heads in all of them",
    lambda rows: rows.values("nats a token", heads=2, steps=6000),
    above=0.99 * MOST,
)
on_text = zero_after_on_text.run()
on_text.table("rate", ["training", "in one pass", "from the prefix"])
on_text.holds(
    "on text, from the prefix it is worse than guessing evenly",
    lambda rows: rows.values("from the prefix", steps=600),
    above=evenly,
    derived="the loss of guessing all tokens evenly",
)
on_text.holds(
    "in one pass it is better than any honest model here",
    lambda rows: rows.values("in one pass", steps=600),
    below=1.0,
)

# %% [markdown]
# One head can, but not every run finds the way: after 600 steps one head leaks 0.69 to 1.74 nats, and after 6,000 steps
# 1.82 in three runs of five, all that there is. With two heads all five runs get there. So four heads are a
# convenience, not a need. A model with zeros after the softmax cheats on text, too. In training its rows add up to less
# than one, since there is a future. When it writes, only the last position is used, and there the row adds up to one:
# no letter from the future comes. In one pass its loss is 0.41 to 0.47, from the prefix 9 to 14.
