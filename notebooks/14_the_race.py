# %% [markdown]
# # 14 The race
#
# How well can you predict Shakespeare's next letter after ten minutes on one core? Chapter 11 took {{11 plays: steps; text=tiny Shakespeare}}
# steps of training for {{11 plays: nats a character; text=tiny Shakespeare}} nats a letter. This chapter reaches
# {{14 whole_race: nats on the whole tenth; seconds=600}}, with the same library, the same text and about
# as much work: what 6,000 of those steps would take. (Section 1 says how that is counted.) It goes through the book once more, takes the best
# of it, and adds one new idea. Then it is your turn: the chapter ends with a race, not with exercises.
#
# **After this chapter you will be able to**
#
# - race a program fairly: what it may see, how its time is counted, when two programs share a place;
# - turn chapter 11's block into a fast one, change by change, and say where each change comes from;
# - explain what an orthogonal step is, and write the optimizer Muon in some twenty lines;
# - say why loss curves are compared at their ends;
# - take a recipe apart, so that you know which of its ideas matter.
#
# **Time**: about 90 minutes to read and try; all cells together run in less than a minute.
# **Before it**: chapters 08 to 11; chapter 12's sections 7 and 9 help (token shift, query-key norm).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original
# stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens them.

# %%
import json
from functools import partial

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
import textbook.diagrams.race as diagrams
from minitorch import nn
from minitorch.autograd.dispatch import operation
from textbook import plot
from textbook.chapter_07 import some_windows
from textbook.chapter_08 import sinusoidal_codes
from textbook.data import first_edition, lacking, tiny_shakespeare
from textbook.decoding import sample
from textbook.lab import Lab, Rows, Runs, Tuned, large, measured
from textbook.race import Clock, RaceError, nats_a_letter, parts, refuse_unfair
from textbook.race.table import table

lab = Lab("14")


# %% evidence
# All runners so far: how sure each is of Shakespeare's next letter
def record_of(chapter, name):
    """The recorded runs of an experiment, of any chapter; none where there is no record."""
    path = lab.path(record_of).with_name(f"{chapter}.json")
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Rows(known[name]["rows"]) if name in known else Rows()


counts, races = record_of("14", "letters_counted"), record_of("14", "whole_race")
rnn, plays = record_of("01", "on_the_plays"), record_of("11", "plays")
if counts and races and rnn and plays:
    tenth, mine = "nats on the whole tenth", plot.COLORS[1]
    plays = plays.where(text="tiny Shakespeare").values("nats a character")
    runners = [
        ("pairs of letters, counted", counts.values(tenth, before=1)[0], plot.COLORS[0]),
        ("fives of letters, counted", counts.values(tenth, before=4)[0], plot.COLORS[0]),
        ("RNN, chapter 01", rnn.values("loss")[0][-1], None),
        ("Transformer of 2017, chapter 11", np.median(plays[:, -1]), plot.COLORS[0]),
        ("this chapter, 2 minutes", np.median(races.values(tenth, seconds=120)), mine),
        ("nanoGPT, a GPU", 1.47, None),
        ("this chapter, 10 minutes", np.median(races.values(tenth, seconds=600)), mine),
    ]
    figure, axes = plot.subplots(width=9, height=3.6)
    diagrams.lanes(axes, runners, letters=65)
    plot.show(
        figure,
        alt="Seven lanes that begin at 65 letters. "
        + " ".join(
            f"{name}: {nats:.2f} nats, {np.exp(nats):.1f} letters." for name, nats, _ in runners
        ),
    )

# %% [markdown]
# **What to see.** All lanes begin where a model knows nothing, and all 65 letters are equally likely. A fair die with six faces costs
# $\ln 6 = 1.79$ nats a throw. So read a loss backwards: $e^{\text{loss}}$ is the number of faces. To guess the next letter, the RNN of chapter 01
# is as unsure as with a die of five faces, and this chapter's model as with one of four and a third. The last tenths are
# the hard ones, and they are what this race is about. (The two hollow marks were measured in another way, nanoGPT's as section 6 tells. The RNN was
# read on the harder half alone. There the fives of letters have {{14 letters_counted: nats a letter; before=4}}, so its lane shows it worse than it is.)
#
# ## 1. The rules
#
# What makes a race fair? Everybody gets the same text, the same time, and the same judge. Here is how this one is run.
#
# **The text.** Nine tenths of it are for learning. The last tenth is cut into two halves. The first half is *open*: you may
# look at it as often as you like, and choose by it. The second half is *closed*: only the judge reads it, at the end. Whoever
# looks at ten ideas and keeps the best one has fitted the half that they looked at. The other half tells what is left. (The judge
# prints the losses on both halves after each race. It trusts you to choose by the first alone.)

# %% evidence
# The text in three parts, to scale
figure, axes = plot.subplots(width=9, height=1.7)
diagrams.cut(axes)
plot.show(
    figure,
    alt="A long bar for the text: nine tenths to learn from. At its end two small pieces, each a twentieth: an open half to "
    "choose by, and a closed half that is reported.",
)

# %% [markdown]
# **The program** is one file of at most 200 lines. A line counts if it holds more than a comment. The file defines
# one function, `train`. It may use Python, NumPy and minitorch, one thread, and no file. Here is a small program that keeps the
# rules. It counts pairs of letters, and it needs hardly any time:


# %%
def train(text, letters, seed, clock):
    """Counts how often each letter follows each other one."""
    numbers = np.array([letters.index(letter) for letter in text])
    counts = np.full((len(letters), len(letters)), 0.1)
    np.add.at(counts, (numbers[:-1], numbers[1:]), 1)
    table = np.log(counts / counts.sum(1, keepdims=True))

    def predict(numbers):
        return table[numbers]  # (B, n) -> (B, n, V)

    return predict


# %% [markdown]
# `train` gets the text, all letters in order, a seed that nobody knew, and a clock. It returns a function. That
# function gets windows of letters as numbers, an array $(B, n)$. For each place it gives the log-probability of every letter to come next.
#
# **The measure** is chapter 11's: nats a letter, read in windows of 128 side by side. The judge also looks for mistakes that
# make a loss too good. We play the judge, on this book's first edition, the text that needs no network:

# %%
cut = parts(first_edition())
predict = train(cut.training, cut.letters, seed=0, clock=None)
held_out = cut.numbers(cut.closed)[:20_000]
refuse_unfair(predict, held_out, len(cut.letters))
print(f"{nats_a_letter(predict, held_out, len(cut.letters)):.2f} nats a letter")


def peeks(numbers):
    """The same, but it is surer of the letter that indeed comes next."""
    found = predict(numbers)
    found[:, :-1][numbers[:, 1:, None] == np.arange(len(cut.letters))] += 3
    return found - np.log(np.exp(found).sum(-1, keepdims=True))


for name, function in {"not normalised": lambda x: predict(x) + 0.1, "peeks": peeks}.items():
    try:
        refuse_unfair(function, held_out, len(cut.letters))
    except RaceError as error:
        print(f"{name}: {str(error).split(':')[0]}")

# %% evidence
# What a program writes that knows pairs of letters: large
rng, wrote = np.random.default_rng(0), [cut.letters.index("W")]
while len(wrote) < 120:
    p = np.exp(predict(np.array([wrote[-1:]]))[0, -1])
    wrote.append(rng.choice(len(p), p=p))
large("".join(cut.letters[number] for number in wrote))

# %% [markdown]
# So this is what 2.43 nats a letter read like: each pair of letters is English (or Python), and hardly a word is. Section 6 has the same for the plays.
#
# The honest program gets its number. The one called *not normalised* gives numbers whose exponentials do not sum to 1. *Peeks*
# reads the letter that it shall predict. Its probabilities sum to 1, and its loss would be splendid. The judge finds it out by
# changing the letters *behind* a place: what is predicted up to there must stay as it was.
#
# **The time** is the hard part. Seconds of a fast laptop are not seconds of a slow one. Even one machine is slower while
# another program uses its caches. So the judge times one training step of chapter 11's model, the *reference step*, before the race and again
# and again during it. **A second of the race is the processor time of ten such steps**, whatever the machine. On the book's machine
# that is about a second, as long as nothing else runs. The races of this chapter were recorded while other programs ran: there
# 600 seconds of the race took {{14 whole_race: seconds used; seconds=600}} seconds of processor time. So where this chapter says *ten
# minutes of one core*, it means the work of 6,000 reference steps.
#
# There are three leagues: 40, 120 and 600 seconds. A program sees nothing of this counting. It writes
#
#     for done in clock:
#         ...  # one training step; done is the share of the time that is used
#
# and the loop ends when the time is over. Looks of the judge do not count.

# %%
clock = Clock(0.5)
shares = [done for done in clock if clock.reference.seconds()]
measured(f"{clock.steps} steps; a reference step takes {1000 * clock.reference_step:.0f} ms here")
measured("shares of the time:", " ".join(f"{share:.2f}" for share in shares))

# %% [markdown]
# Here the training step *is* the reference step, so half a second of the race has room for five, on your machine as on ours. One more
# begins just in time, and ends late.
#
# > **Try it.** Count triples in place of pairs: `table` gets one more axis, and `predict` looks at two letters. What does a
# > window's first letter do, which has no neighbour? How many nats does it save?
#
# ## 2. From chapter 11's block to a fast one
#
# Chapter 11's model is the one of 2017: sinusoids, layer norm, ReLU, four heads, Adam. Which of its parts would you change
# today? Most answers stand somewhere in this book:
#
# | in chapter 11 | in the race | why | taught in |
# | --- | --- | --- | --- |
# | sinusoids, added once | **rotary positions** | a score depends on the distance | 08 |
# | scores as they come | **query-key norm** | no score grows without bound | 10, 12 |
# | layer norm with gain and bias | **RMS norm**, nothing learned | less to compute | 09 |
# | ReLU | **squared ReLU** | sharper: what is small becomes smaller | here |
# | branches that start small | **zero starts** | at first, every block passes on what it gets | 09 |
# | four heads of 32 | **two heads of 64** | fewer scores to compute; each compares more numbers | 06, 11 |
# | each token by itself | **token shift with four taps** | the neighbours without a look | 12 |
# | a rate by steps | **a rate by the clock** | every machine ends at rate 0 | here |
# | Adam | **Muon** for matrices | no direction is left behind | here |

# %% evidence
# Chapter 11's block beside the racing one
figure, axes = plot.subplots(width=9, height=4.4)
diagrams.blocks(axes)
plot.show(
    figure,
    alt="Two blocks, upright, each a line with two branches that are added to it. Chapter 11, all grey: layer norm and attention with "
    "four heads of 32; layer norm and a network with ReLU. The race: RMS norm, token shift and attention with two heads of 64, "
    "query-key norm, rotary positions, zero start; RMS norm, token shift and a network with squared ReLU and zero start. Only "
    "the boxes attention and network are grey, all else is orange.",
)

# %% [markdown]
# **What to see.** The two sums of chapter 09 are still there. Grey is as it was, orange is new. (A rate by the clock and Muon train the
# block. They are no part of it.)
#
# Now in code. The parts that the library has not, we write as operations of our own: a value, and beside it its gradient, as in
# chapter 00.
#
# ### A turn is a product
#
# Chapter 08 turned each pair of numbers of a query by an angle that grows with its place. A pair $(a, b)$ is a complex number
# $a + ib$. A turn by the angle $\varphi$ is then one multiplication, by $e^{i\varphi}$. And its gradient turns back:


# %% save
def turned_by(turns):
    """An operation that turns the pairs of numbers of x (B, n, h, e) by ``turns`` (n, 1, e/2)."""

    def turn(x, turns):
        return (np.ascontiguousarray(x).view(np.complex64) * turns).view(np.float32)

    @operation()
    def by_place(x):
        here = turns[: x.shape[1]]
        return turn(x, here), (lambda g: turn(g, here.conj()),)

    return by_place


def turns_of(width, longest=1024):
    """e^{i t w}, one a place t and a pair of numbers, at the speeds w of chapter 08."""
    speeds = 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.exp(1j * np.arange(longest)[:, None, None] * speeds).astype(np.complex64)


# %%
mt.manual_seed(0)
x = mt.randn(1, 5, 1, 4)
y = turned_by(turns_of(4))(x)
a, b, angle = x[0, 3, 0, 0], x[0, 3, 0, 1], mt.tensor(3.0)  # the fastest pair at place 3
print("as in chapter 08:", mt.allclose(y[0, 3, 0, 0], a * angle.cos() - b * angle.sin(), atol=1e-5))

# %% [markdown]
# ### Neighbours without a look
#
# To know which letter comes next, one needs the last few letters, above all. Attention can find the neighbour: chapter
# 13's induction heads learn to. But it has to *learn* this, and a head is then busy. **Token shift** (Peng et al., 2023)
# hands the neighbour over. Chapter 12 mixed each token with the one before. We take four taps:
#
# $$y_t = w_0 \odot x_t + w_1 \odot x_{t-1} + w_2 \odot x_{t-2} + w_3 \odot x_{t-3}, \qquad w_j \in \mathbb{R}^d .$$

# %% evidence
# Four taps: what each token gets from its neighbours at the start
figure, axes = plot.subplots(width=6.5, height=2.2)
diagrams.taps(axes, "to be or n", [1, 0.5, 0, 0])
plot.show(
    figure,
    alt="Ten letters in boxes. Arrows lead from the last four of them to one box above the last: a thick one of weight 1, a "
    "thinner one of weight 0.5, two dotted ones of weight 0.",
)

# %% [markdown]
# Each feature has four weights of its own, so it may look at this letter, at the one before, or at a difference of
# both. The numbers in the figure are those at the start. A signal engineer would call this a filter. It costs next to nothing: $4d$
# weights, and no matrix.


# %% save
@operation()
def tapped(x, taps):
    """taps_0 x_t + taps_1 x_{t-1} + ..., feature by feature: (B, n, d), (T, d) to (B, n, d)."""
    n = x.shape[1]

    def toward_x(g):
        out = g * taps[0]
        for j in range(1, len(taps)):
            out[:, :-j] += g[:, j:] * taps[j]
        return out

    def toward_taps(g):
        return np.stack([(g[:, j:] * x[:, : n - j]).sum((0, 1)) for j in range(len(taps))])

    y = x * taps[0]
    for j in range(1, len(taps)):
        y[:, j:] += x[:, :-j] * taps[j]
    return y, (toward_x, toward_taps)


# %% save
class Taps(nn.Module):
    """A learned mix of each token and the three before it; at first this one and half the last."""

    def __init__(self, width):
        super().__init__()
        self.taps = nn.Parameter(mt.tensor([1, 0.5, 0, 0])[:, None].repeat(1, width))

    def forward(self, x):
        return tapped(x, self.taps)


# %%
taps = Taps(8)
later = mt.randn(1, 6, 8)
changed = later.clone()
changed[:, 4] += 1.0
differs = (taps(changed) - taps(later)).abs().sum(-1)[0] > 0
print("places that see a change at place 4:", differs.nonzero().flatten().tolist())

# %% [markdown]
# With the weights of the start a change at place 4 reaches places 4 and 5, and nothing before. So nothing leaks from the future.
#
# ### The rest of the block
#
# Two small parts remain. The first is **squared ReLU**: a program that searched for better language models came upon it (So et
# al., 2021). The second is a norm that learns nothing:


# %% save
@operation()
def squared_relu(x):
    """max(x, 0)^2, with its gradient."""
    positive = np.maximum(x, 0)
    return positive * positive, (lambda g: 2 * positive * g,)


def of_one_length(x):
    """Each vector over its root mean square: (..., d)."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


# %% [markdown]
# `of_one_length` is used four times in a block: before attention, before the network, and for queries and keys.
# Queries and keys of one length are **query-key norm** (chapters 10 and 12). Chapter 12 made this length 1; over its root mean square a vector of
# $d/h$ numbers, the width of a head, has length $\sqrt{d/h}$. So no product is above $d/h$. Attention divides it by $\sqrt{d/h}$: no score is
# above $\sqrt{d/h}$, here 8.
#
# The block takes a list of ideas, so that we can leave each of them out later.


# %% save
IDEAS = (
    "Muon",
    "token shift",
    "rotary positions",
    "zero starts",
    "rate by the clock",
    "wide heads",
    "query-key norm",
    "squared ReLU",
    "RMS norm",
)
WIDTH, HIDDEN, BLOCKS, CONTEXT, BATCH = 128, 512, 4, 128, 16


# %% save
class RacingAttention(nn.Module):
    """Causal attention with those of the ideas that it gets: (B, n, d) to (B, n, d)."""

    def __init__(self, ideas):
        super().__init__()
        self.ideas, self.heads = ideas, 2 if "wide heads" in ideas else 4
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.turn = turned_by(turns_of(WIDTH // self.heads))

    def placed(self, x):
        x = of_one_length(x) if "query-key norm" in self.ideas else x
        return self.turn(x) if "rotary positions" in self.ideas else x  # (B, n, h, d/h)

    def forward(self, x):
        layers = self.query, self.key, self.value
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in layers)
        heads = (part.transpose(1, 2) for part in (self.placed(q), self.placed(k), v))
        seen = F.scaled_dot_product_attention(*heads, is_causal=True)  # (B, h, n, d/h)
        return self.out(seen.transpose(1, 2).flatten(2))


# %% save
def norm_of(ideas):
    """RMS norm without weights, or layer norm: (..., d) to (..., d)."""
    return of_one_length if "RMS norm" in ideas else nn.LayerNorm(WIDTH)


class RacingBlock(nn.Module):
    """Chapter 09's block with those of the ideas that it gets: (B, n, d) to (B, n, d)."""

    def __init__(self, ideas, dropout):
        super().__init__()
        self.attention, self.drop = RacingAttention(ideas), nn.Dropout(dropout)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.bent = squared_relu if "squared ReLU" in ideas else F.relu
        self.norm_1, self.norm_2 = norm_of(ideas), norm_of(ideas)
        shift = "token shift" in ideas
        self.mix_1, self.mix_2 = (Taps(WIDTH) if shift else nn.Identity() for _ in range(2))
        for end in (self.attention.out, self.down):
            end.weight.data *= 0.0 if "zero starts" in ideas else (2 * BLOCKS) ** -0.5

    def forward(self, x):
        x = x + self.drop(self.attention(self.mix_1(self.norm_1(x))))
        return x + self.drop(self.down(self.bent(self.up(self.mix_2(self.norm_2(x))))))


# %% [markdown]
# `end.weight.data *= 0.0` is the **zero start**. The last matrix of each branch begins at zero, so the branch adds nothing, and
# the whole stack is the identity. The read-out starts at zero, too: every letter is equally likely. So the model wakes up part
# by part. What lies before a matrix of zeros gets no gradient. In the first step only the read-out learns. In the second step the read-out is no
# longer zero. The gradient passes it, and the embedding and the last matrix of each branch learn. From the third step on, everything learns.


# %% save
class RacingModel(nn.Module):
    """Numbers of letters (B, n) to scores of the letter after each (B, n, V)."""

    def __init__(self, letters, ideas=IDEAS, dropout=0.0):
        super().__init__()
        self.embedding, self.head = nn.Embedding(letters, WIDTH), nn.Linear(WIDTH, letters)
        self.blocks = nn.ModuleList(RacingBlock(ideas, dropout) for _ in range(BLOCKS))
        self.first, self.last, self.drop = norm_of(ideas), norm_of(ideas), nn.Dropout(dropout)
        self.codes = None if "rotary positions" in ideas else sinusoidal_codes(1024, WIDTH)
        if "zero starts" in ideas:
            self.head.weight.data *= 0.0
            self.head.bias.data *= 0.0

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.codes is not None:
            x = x + self.codes[: tokens.shape[1]]
        x = self.first(self.drop(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


# %%
mt.manual_seed(0)
fresh = RacingModel(letters=65)
uniform = fresh(mt.randint(0, 65, (1, 10))).softmax(-1)
print("at first all letters are alike:", mt.allclose(uniform, mt.full((1, 10, 65), 1 / 65)))
print(f"{sum(weight.numel() for weight in fresh.parameters()):,} weights")

# %% [markdown]
# ## 3. A step in every direction
#
# What does a step of gradient descent change? Take one matrix $W$ of the model. Its gradient $G$ is a matrix of the same shape. A
# step $W - \eta G$ changes the output for an input $x$ by $-\eta\, G x$. So look at $G$ as a map. For which inputs does the
# output move far, and for which hardly?


# %% evidence
# A step as a map: the gradient, Adam's first step, and the orthogonal one
G = np.array([[1.0, 0.4], [0.7, 0.65]])
U, _, Z = np.linalg.svd(G)
figure, panels = plot.subplots(1, 3, width=9, height=3.2)
steps = {"the gradient": G, "Adam: its signs": np.sign(G), "orthogonal": U @ Z}
for axes, (name, step) in zip(panels, steps.items(), strict=True):
    diagrams.directions(axes, step, Z.T, name)
plot.show(
    figure,
    alt="Three images of the unit circle. Of the gradient: a thin ellipse, with half axes 1 and 0.18. Of its signs: a line. "
    "Of the orthogonal matrix: the circle itself. Two dotted lines in each are the inputs of the two arrows, at right angles.",
)

# %% [markdown]
# All unit inputs together are the dashed circle; its image under the step is the blue curve. Two inputs are dotted, and each has an arrow of its color:
# so far does its output move. The numbers say how far; 1 is the farthest that any input moves. Left: the gradient makes a thin
# ellipse of the circle. One input (orange) moves far, the other (green) hardly at all. Middle: Adam's first step has
# the *signs* of the gradient. Here all entries have one size and one sign, and so the image is a line: equal entries are not equal
# directions. Right: the **orthogonal** step. It has the same directions as the gradient, and each of them moves equally far.
#
# In formulas: $G = U \Sigma Z^\top$ is the singular value decomposition. The columns of $U$ and $Z$ are the directions, and $\Sigma$
# has the lengths of the half axes, the *singular values*. The orthogonal step is $U Z^\top$: all lengths are set to 1.
# Is a real gradient as thin as the picture? Here is one, of the first matrix of the network in block 0. (The learner has no zero starts: with
# them its first gradient would be zero.)

# %%
mt.manual_seed(0)
learner = RacingModel(letters=len(cut.letters), ideas=["RMS norm", "wide heads"])
inputs, targets = some_windows(mt.tensor(cut.numbers(cut.training)), 16, 64)
F.cross_entropy(learner(inputs).flatten(0, 1), targets.flatten()).backward()
gradient = learner.blocks[0].up.weight.grad.numpy()  # (512, 128)
lengths = np.linalg.svd(gradient, compute_uv=False)

# %% [markdown]
# The decomposition is slow. **Muon** (Jordan et al., 2024) does without it. Take a polynomial that has only odd powers,
# $p(s) = 3.4445\,s - 4.7750\,s^3 + 2.0315\,s^5$, and apply it to a matrix in this sense:
#
# $$p(X) = 3.4445\, X - 4.7750\, (X X^\top) X + 2.0315\, (X X^\top)^2 X .$$
#
# Put $X = U \Sigma Z^\top$ in: all the inner $U$ and $Z$ cancel, and $p(X) = U\, p(\Sigma)\, Z^\top$. The directions stay, and each
# length goes through $p$. (The matrix is first divided by the root of the sum of all its squares, so that no length is above 1.) Follow a direction
# that is a hundred times too short:

# %%
way = [0.01]
for _ in range(5):
    s = way[-1]
    way.append(3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5)
print(" -> ".join(f"{s:.2f}" for s in way))

# %% [markdown]
# After four rounds it is as long as all the rest. After five rounds, every length between 0.002 and 1 has become one between 0.68 and 1.20. No decomposition, only products:


# %% save
def orthogonal(g, steps=5):
    """About the matrix with the directions of g in which all singular values are 1."""
    x = g.T if len(g) > len(g.T) else g
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (2.0315 * square @ square - 4.7750 * square) @ x
    return x.T if len(g) > len(g.T) else x


# %% evidence
# The polynomial, and the singular values of a real gradient before and after: figure and verdicts
after = np.linalg.svd(orthogonal(gradient), compute_uv=False)
figure, (left, right) = plot.subplots(1, 2, width=9, height=3)
s = np.geomspace(0.001, 1, 1000)
value = s
for rounds in range(1, 6):
    value = 3.4445 * value - 4.7750 * value**3 + 2.0315 * value**5
    if rounds in (1, 2, 5):
        left.plot(s, value, label=f"{rounds} rounds" if rounds > 1 else "1 round")
left.axhline(1, color="0.5", linewidth=1, linestyle=":")
left.plot(0.01, way[-1], "o", color="black")
below = dict(xytext=(-20, -36), textcoords="offset points", fontsize=9)
left.annotate(f"0.01 is\nnow {way[-1]:.2f}", (0.01, way[-1]), **below)
left.set(xlabel="length before", ylabel="length after", ylim=(0, 1.55), xscale="log")
left.legend(loc="upper center", fontsize=9, ncols=3)
right.plot(lengths / np.linalg.norm(lengths), label="gradient")
right.plot(after, label="orthogonal, five rounds")
right.set(xlabel="direction, the longest first", ylabel="singular value", yscale="log")
right.legend()
plot.show(
    figure,
    alt="Left, lengths from 0.001 to 1 on a logarithmic axis: after one round only those above 0.2 are near 1, after two those above "
    "0.07, after five all above 0.002, with ripples. Right: the "
    "singular values of a gradient fall by a factor of thousands; after five rounds two thirds of them lie near 1.",
)
middle = lengths[len(lengths) // 2] / lengths[0]
measured(f"of 128 directions the middle one has {middle:.3f} of the longest before,")
measured(
    f"{after[len(after) // 2] / after[0]:.2f} after; shares between 0.5 and 1.3: {np.mean((after > 0.5) & (after < 1.3)):.2f}"
)

# %% [markdown]
# On the left, the polynomial: each round lifts ever smaller lengths, since near 0 it multiplies by 3.4. After five, all above 0.002 are up there.
# They are not exactly 1, and need not be: a direction that moves 0.7 or 1.2 times as far is fine. On the right, the real gradient, with a logarithmic
# axis. The middle one of its directions has less than a hundredth of the longest. After five rounds two thirds of all directions lie
# between 0.5 and 1.3. The shortest ones are still on their way, though they have grown the most.
#
# Why should that help? A rare letter's direction has a small gradient because the letter is rare, not because it matters
# little. An orthogonal step learns it as fast as a frequent one. (That is the usual explanation. It is a guess: we
# measure below *that* Muon helps, not why.)
#
# The optimizer is then short. First comes momentum. Chapter 00 kept a sum of the gradients, here it is a mean; that makes no
# difference, since the orthogonal step forgets its size. Then the step goes in the directions of this mean, equally far in each:


# %% save
class Muon(mt.optim.Optimizer):
    """w <- w - lr orthogonal(m'), m' the mean of the gradients, one step ahead."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    def update(self, value, grad, state, group):
        keep = group["momentum"]
        if not state:
            state["mean"] = mt.zeros(*value.shape)
        mean = state["mean"].array
        mean += (1 - keep) * (grad - mean)
        rows, columns = value.shape
        value *= 1 - group["lr"] * group["weight_decay"]
        ahead = orthogonal(grad + keep * (mean - grad))
        value -= group["lr"] * max(1, rows / columns) ** 0.5 * ahead


# %% [markdown]
# Two details. `grad + keep * (mean - grad)` looks one step ahead (Nesterov's momentum). And a tall matrix, with more
# outputs than inputs, takes a larger step, by the root of the ratio. Muon is made for matrices that map one state to another. Embedding, read-out and taps
# stay with AdamW.


# %% save
def optimizers(model, ideas, rate, decay):
    """Muon for the matrices of the blocks and AdamW for the rest; AdamW for all without Muon."""
    matrices, others = [], []
    for name, weight in model.named_parameters():
        within = name.startswith("blocks") and name.endswith("weight") and weight.ndim == 2
        (matrices if within and "Muon" in ideas else others).append(weight)
    adam = mt.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [adam, Muon(matrices, 0.02, weight_decay=decay)] if matrices else [adam]


# %% [markdown]
# > **Try it.** Predict, then run: `orthogonal` of a matrix of rank 1, say `np.outer([1., 2.], [3., 4.])`. Which singular
# > values has the result, and why can it not be orthogonal?
#
# ## 4. Look at a curve only at its end
#
# A program races against the clock, so its rate follows the clock, too: up in the first 3 % of the time, level until
# 30 %, then down in a line to zero. A schedule by *steps* would punish a slow machine twice: it makes fewer steps, and
# it stops while the rate is still high.


# %% save
def share_of_rate(done, falls=True):
    """The share of the rate: up in the first 3 % of the time, level to 30 %, then down to 0."""
    return min(done / 0.03, 1.0, (1 - done) / 0.7 if falls else 1.0)


# %% [markdown]
# Why must the rate fall at all? Try it where everything is known. A weight $w$ has its best value at 0, and each
# gradient is $w$ plus noise, as from a small batch. Three hundred such weights take 1,000 steps:

# %%
rng = np.random.default_rng(0)
curves = {}
for name, falls in (("level", False), ("down to 0", True)):
    w, losses = np.full(300, 3.0), []
    for step in range(1000):
        w = w - 0.2 * share_of_rate(step / 1000, falls) * (w + rng.normal(0, 1, 300))
        losses.append((w**2).mean() / 2)
    curves[name] = losses

# %% evidence
# The loss with a level and with a falling rate: figure and verdict
figure, (left, right) = plot.subplots(1, 2, width=9, height=2.8)
done = np.linspace(0, 1, 1000)
for name, color in zip(curves, plot.COLORS, strict=False):
    left.plot(done, [share_of_rate(d, name != "level") for d in done], label=name, color=color)
    right.plot(done, curves[name], label=name, color=color)
left.set(xlabel="share of the time", ylabel="share of the rate")
right.set(xlabel="share of the time", ylabel="loss", yscale="log", ylim=(2e-3, 5))
right.legend()
plot.show(
    figure,
    alt="Left: two schedules, one level, one that falls in a line from 30 % of the time on. Right: both losses fall to 0.05 "
    "at once. The level one stays there; the other falls with its rate, fastest at the very end.",
)
print(
    "at half of the time, falling over level: about",
    round(np.mean(curves["down to 0"][450:550]) / np.mean(curves["level"][450:550]), 1),
)
print(
    "at the end below a tenth:",
    np.mean(curves["down to 0"][-10:]) < 0.1 * np.mean(curves["level"][-10:]),
)

# %% [markdown]
# Both losses soon fall to a floor. The floor is not the end of learning. It is the noise: each step throws
# $w$ about, by as much as the rate allows. As the rate falls, the floor falls with it, and on the logarithmic axis it falls
# fastest at the very end. At half of the time the two still lie close together, at the end far apart.
#
# So two rules for your race. **Compare runs at their ends**: a run that is meant for 40 seconds is ahead, at 40 seconds, of one that is
# meant for 600, and this says nothing about which of them is better. And **an idea that helps in the league of 40 seconds is a hint for the league of 600**,
# no more. In chapter 12 three of four changes lost more than half of their effect when the models trained for three times as long,
# and token shift was one of the three.
#
# > **Try it.** Let the rate of the 300 weights fall to a fifth of its height, not to 0. Where will the loss end? Predict, then run.
#
# ## 5. What is each idea worth? (E1)
#
# We have nine ideas and a recipe that has all of them. Which ones matter? To add them one by one would not tell. The
# first one takes what is easy, and the last one finds little left; in another order it is the other way round. So we go the other
# way: **take one idea out of the finished recipe, and give the rest the same time.** That is an ablation. Here is
# the loop that all of these races run:


# %% save
def raced(numbers, letters, clock, ideas=IDEAS, rate=3e-3, dropout=0.0, decay=0.0, look=None):
    """Train by the clock on a text as numbers (N); returns the model."""
    model = RacingModel(letters, ideas, dropout)
    both = optimizers(model, ideas, rate, decay)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in both]
    for done in clock:
        if look:
            look(model, done)
        share = share_of_rate(done, "rate by the clock" in ideas)
        inputs, targets = some_windows(numbers, BATCH, CONTEXT)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        for optimizer, rate in zip(both, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in both:
            optimizer.step()
    return model.eval()


# %% save
def predictor(model):
    """What the race asks for: numbers (B, n) to log-probabilities (B, n, V), as arrays."""

    @mt.no_grad()
    def predict(numbers):
        return model(mt.tensor(numbers)).log_softmax(-1).numpy()

    return predict


# %% evidence
# One race of the recipe, or of what is left of it: functions of the experiments
RACED = {"first edition": first_edition, "tiny Shakespeare": tiny_shakespeare}


def halves_of(model, cut, most):
    """Nats a letter on the half that chooses and on the half that reports."""
    predict, letters = predictor(model), len(cut.letters)
    found = [
        nats_a_letter(predict, cut.numbers(half)[:most], letters) for half in (cut.open, cut.closed)
    ]
    return dict(zip(("nats elsewhere", "nats a letter"), found, strict=True))


def race_of(text, seconds, seed, ideas, most, **settings):
    """What one race gives, in numbers."""
    cut, clock = parts(RACED[text]()), Clock(seconds)
    mt.manual_seed(seed)
    model = raced(mt.tensor(cut.numbers(cut.training)), len(cut.letters), clock, ideas, **settings)
    return halves_of(model, cut, most) | {
        "steps": clock.steps,
        "seconds used": clock.spent,
        "ms of the reference step": 1000 * clock.reference_step,
    }


# %% evidence
# Each idea taken out in turn: experiments
def ideas_without(without):
    """The ideas that are left, in their order."""
    return [idea for idea in IDEAS if idea != without]


@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    without=["nothing"],
    most=4_000,
    full=dict(
        text="tiny Shakespeare",
        seconds=40,
        without=["nothing", *IDEAS[1:]],
        most=1_000_000,
        seeds=5,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def one_idea_out(text, seconds, without, most, seed):
    """The recipe without one of its ideas."""
    return race_of(text, seconds, seed, ideas_without(without), most)


@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    without=["Muon"],
    rate=3e-3,
    most=4_000,
    full=dict(
        text="tiny Shakespeare",
        seconds=40,
        without=["Muon"],
        rate=Tuned(1.5e-3, 3e-3, 6e-3, lowest="nats elsewhere"),
        most=1_000_000,
        seeds=5,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def without_muon(text, seconds, without, rate, most, seed):
    """The recipe with AdamW for all weights."""
    return race_of(text, seconds, seed, ideas_without(without), most, rate=rate)


out, adam = one_idea_out.run(), without_muon.run()

# %% evidence
# What is lost without each idea: figure, table and verdicts
out.holds(
    "the recipe learns: it predicts better than if all letters were alike",
    lambda rows: rows.values("nats a letter", without="nothing"),
    below=np.log(len(cut.letters)),
    derived="the logarithm of the number of letters",
)
if out.full and adam.full:
    recorded = Rows([*out.full, *adam.full])
    middle = {
        idea: np.median(recorded.values("nats a letter", without=idea))
        for idea in ("nothing", *IDEAS)
    }
    recorded = Rows(sorted(recorded, key=lambda row: -middle[row["without"]]))
    both = Runs("E1", Rows([*out.here, *adam.here]), recorded, fixed=out.fixed)
    order = ["nothing", *sorted(IDEAS, key=lambda idea: -middle[idea])]
    figure, axes = plot.subplots(width=8, height=3.6)
    for place, idea in enumerate(reversed(order)):
        losses = recorded.values("nats a letter", without=idea)
        color = plot.COLORS[5] if idea != "nothing" else plot.COLORS[4]
        axes.plot(middle[idea], place, "o", color=color, markersize=11)
        axes.plot(losses, [place] * len(losses), "|", color="black", markersize=15, alpha=0.6)
        steps = f"{np.median(recorded.values('steps', without=idea)):.0f}"
        beside = dict(transform=axes.get_yaxis_transform(), color="0.5", ha="right", va="center")
        axes.text(1.08, place, steps, **beside)
    axes.text(1.08, len(order), "steps made", **beside)
    axes.axvline(middle["nothing"], color="0.4", linewidth=1, linestyle="--", zorder=1)
    axes.set_yticks(range(len(order)), [*reversed(order[1:]), "nothing: the whole recipe"])
    axes.set(xlabel="nats a letter without it, after 40 seconds (dot: median, marks: five seeds)")
    axes.grid(visible=False, axis="y")
    plot.show(
        figure,
        alt="A dot and five marks for each idea that is taken out: the loss of the rest, 1.78 nats without Muon, 1.76 without the "
        "rate by the clock, 1.74 without rotary positions or token shift, 1.70 without wide heads, 1.68 to 1.69 without one of "
        "the other four. The whole recipe, on top, has 1.69. Without Muon there were 400 steps, with it about 340.",
    )
    both.table("without", ["nats a letter", "nats elsewhere", "steps"])
    for idea in ("Muon", "rate by the clock", "token shift", "rotary positions", "wide heads"):
        both.finding(
            f"without {idea} the loss is larger",
            "nats a letter",
            larger=dict(without=idea),
            smaller=dict(without="nothing"),
        )
    both.holds(
        "without zero starts the loss is smaller in each seed, which nobody had foreseen",
        lambda rows: (
            rows.values("nats a letter", without="zero starts")
            - rows.values("nats a letter", without="nothing")
        ),
        below=0,
    )
    both.holds(
        "without one of the other three the loss is the same, to 0.015",
        lambda rows: np.concatenate(
            [
                rows.values("nats a letter", without=idea)
                - rows.values("nats a letter", without="nothing")
                for idea in ("query-key norm", "squared ReLU", "RMS norm")
            ]
        ),
        between=(-0.015, 0.015),
    )

# %% [markdown]
# **How it was done.** Each race has 40 seconds and five seeds, the same five for every recipe. A difference is called a finding by the
# book's one rule (chapter 00), on the closed half. In the place of an idea that is taken out comes what stood in the left column of
# section 2's table: four heads for two, sinusoids for rotary positions, AdamW for Muon. There is one exception: without *rate by the
# clock* the rate stays level to the end. So that row shows what the *fall* is worth. A new optimizer needs a new rate, so AdamW's was
# searched, with one seed and on the open half. The other rivals were not tuned anew.
#
# **What to see.** The further right of the dashed line, which is the whole recipe, the more the idea is missed. Five of the nine are worth their
# time. Muon, the falling rate, token shift and rotary positions bring nearly all of it, wide heads a little. Now look at the grey numbers. Without Muon
# a step is cheaper: there is time for {{14 without_muon: steps; without=Muon}} steps in place of
# {{14 one_idea_out: steps; without=nothing}}, nearly a fifth more. And yet this is the worst row. Three
# make no difference larger than 0.015, in any seed. That is a coarse sieve: wide heads bring no more. And *zero starts* are a
# surprise. Without them all five seeds end *lower*. We had expected the opposite, so by the rule this is no finding but a hint, for new
# seeds to settle. All four looked sensible, and we left them in. Your program may do without.
#
# **What it cannot tell.** First, an idea that is hardly missed may be replaced by another one: rotary positions and token shift
# both tell who the neighbour is. Second, an idea that costs time is charged for it, as Muon's grey numbers show.
# Third, 40 seconds measure *speed*. What an idea is worth after 600 seconds is another experiment.
#
# > **E1 · Five of nine, Muon most: {{14 one_idea_out: nats a letter; without=nothing}} with all ideas, {{14 without_muon: nats a letter; without=Muon}} without it.**
# > *Our question*: which ideas of the recipe are worth their time?
# >
# > *Measured*: nats a letter on the closed half after 40 seconds of the race, five seeds.
#
# | without | nats a letter |
# | --- | --- |
# | nothing: the whole recipe | {{14 one_idea_out: nats a letter; without=nothing}} |
# | Muon (AdamW at its best rate) | {{14 without_muon: nats a letter; without=Muon}} |
# | rate by the clock | {{14 one_idea_out: nats a letter; without=rate by the clock}} |
# | rotary positions | {{14 one_idea_out: nats a letter; without=rotary positions}} |
# | token shift | {{14 one_idea_out: nats a letter; without=token shift}} |
# | wide heads | {{14 one_idea_out: nats a letter; without=wide heads}} |
# | squared ReLU | {{14 one_idea_out: nats a letter; without=squared ReLU}} |
# | RMS norm | {{14 one_idea_out: nats a letter; without=RMS norm}} |
# | query-key norm | {{14 one_idea_out: nats a letter; without=query-key norm}} |
# | zero starts | {{14 one_idea_out: nats a letter; without=zero starts}} |
#
# ### What the taps have learned
#
# Token shift is one of the ideas that are missed most. What does a model make of it? Each of the 128 features began with this letter and half of
# the one before. Guess: how many of them subtract the letter before, after 40 seconds? Here are the first block's taps:


# %% evidence
# The taps of the first block after a race: experiment
@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    full=dict(text="tiny Shakespeare", seconds=40, seeds=3),
    lacks=partial(lacking, tiny_shakespeare),
)
def learned_taps(text, seconds, seed):
    """What each feature takes of the last four letters, before the first block's attention."""
    cut, clock = parts(RACED[text]()), Clock(seconds)
    mt.manual_seed(seed)
    model = raced(mt.tensor(cut.numbers(cut.training)), len(cut.letters), clock)
    taps = model.blocks[0].mix_1.taps.detach().numpy()  # (4, d)
    return {
        **{f"{j} back": row.round(3).tolist() for j, row in enumerate(taps)},
        "share that subtracts the last letter": np.mean(taps[0] * taps[1] < 0),
        "share that weighs it more than its own": np.mean(np.abs(taps[1]) > np.abs(taps[0])),
    }


@lab.experiment(
    "E1",
    text="first edition",
    seconds=0.7,
    without=["taps that learn"],
    most=4_000,
    full=dict(text="tiny Shakespeare", seconds=40, most=1_000_000, seeds=5),
    lacks=partial(lacking, tiny_shakespeare),
)
def taps_that_stay(text, seconds, without, most, seed):
    """The recipe with taps that stay as they began."""

    def freeze(model, done):
        for block in model.blocks:
            for mix in (block.mix_1, block.mix_2):
                mix.taps.requires_grad_(False)

    return race_of(text, seconds, seed, IDEAS, most, look=freeze)


tapped_races, stayed = learned_taps.run(), taps_that_stay.run()

# %% evidence
# What each feature takes of the last letters: figure and table
race = tapped_races.best[0]
figure, axes = plot.subplots(width=7, height=2.4)
for j, begins in enumerate((1, 0.5, 0, 0)):
    found = race[f"{j} back"]
    axes.plot(found, [3 - j] * len(found), "|", color=plot.COLORS[0], markersize=16, alpha=0.5)
    axes.plot(begins, 3 - j, "o", color=plot.COLORS[1], fillstyle="none", markersize=10)
axes.axvline(0, color="0.4", linewidth=1)
axes.set_yticks([3, 2, 1, 0], ["this letter", "one back", "two back", "three back"])
axes.set(xlabel="weight (a mark for each feature, a circle where all began)", ylim=(-0.6, 3.6))
plot.show(
    figure,
    alt="Four rows of 128 marks after a race of 40 seconds. This letter: 0.8 to 1, from 1 at the start. One back: 0.3 to 0.6, from "
    "0.5. Two and three back: around 0, where they began.",
)
tapped_races.table(
    "seconds",
    ["share that subtracts the last letter", "share that weighs it more than its own"],
)
stayed.table("without", ["nats a letter", "nats elsewhere", "steps"])
if out.full and stayed.full:
    learn, no_taps = (
        out.full.values("nats a letter", without=idea) for idea in ("nothing", "token shift")
    )
    lost = np.median(stayed.full.values("nats a letter") - learn) / np.median(no_taps - learn)
    lab.holds(
        "E1",
        "recorded: taps that stay lose less than half of what is lost without taps",
        lost,
        below=0.5,
    )

# %% [markdown]
# **What to see.** None of them, in three races. The taps have stayed near their start. So is it the start that helps, and not the learning? Five
# more races, with taps that stay as they began, answer: mostly. They lose a fifth of what is lost without any taps. The taps put the neighbour
# there, and we take it that the matrices behind them learn what to do with it. (The five were recorded on a quieter machine, with a few steps fewer.)
#
# | 40 seconds | nats a letter |
# | --- | --- |
# | taps that learn | {{14 one_idea_out: nats a letter; without=nothing}} |
# | taps that stay | {{14 taps_that_stay: nats a letter}} |
# | no taps | {{14 one_idea_out: nats a letter; without=token shift}} |
#
# ## 6. What it writes (E2)
#
# Now the whole race: the recipe in the leagues of 120 and 600 seconds, three seeds each. In the long one it gets dropout and
# weight decay, 0.1 each, since it reads the text ten times over. (That is a guess: we ran no long race without them.) The races were recorded; on
# this page one runs for a second, on the first edition. `python book.py experiment 14 whole_race` repeats it (the text is fetched once).


# %% evidence
# Whole races, watched on their way: experiment
def writes(model, cut, length, context=CONTEXT):
    """What the model writes after an empty line, a little more sure than it is."""

    def step(tokens, state):
        return model(tokens[:, -context:]), state

    start = mt.tensor(cut.numbers("\n"))[None]
    drawn = sample(step, start, length, temperature=0.5)[0].tolist()
    return "".join(cut.letters[i] for i in drawn).strip()


@lab.experiment(
    "E2",
    text="first edition",
    seconds=1,
    looks=2,
    most=4_000,
    length=40,
    full=dict(
        text="tiny Shakespeare",
        seconds=[120, 600],
        looks=20,
        most=1_000_000,
        length=700,
        seeds=3,
    ),
    lacks=partial(lacking, tiny_shakespeare),
)
def whole_race(text, seconds, looks, most, length, seed):
    """The recipe in a league: its loss on the way, at its end, and what it writes."""
    cut, clock = parts(RACED[text]()), Clock(seconds)
    at, nats = [], []

    def look(model, done):
        if done >= (len(at) + 1) / looks:
            with clock.stopped():
                model.eval()
                at.append(done * seconds)
                nats.append(halves_of(model, cut, most)["nats a letter"])
                model.train()

    mt.manual_seed(seed)
    long = dict(dropout=0.1, decay=0.1) if seconds > 300 else {}
    numbers = mt.tensor(cut.numbers(cut.training))
    model = raced(numbers, len(cut.letters), clock, look=look, **long)
    found = halves_of(model, cut, most)
    found["nats on the whole tenth"] = sum(found.values()) / 2
    measured(f"{clock.steps} steps: {found['nats on the whole tenth']:.3f} nats a letter")
    return found | {
        "on the way": [*nats, found["nats a letter"]],
        "at": [*at, seconds],
        "steps": clock.steps,
        "seconds used": clock.spent,
        "ms of the reference step": 1000 * clock.reference_step,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "training nats": nats_a_letter(
            predictor(model), cut.numbers(cut.training)[:100_000], len(cut.letters)
        ),
        "written": writes(model, cut, length),
    }


whole = whole_race.run()


# %% evidence
# The same text for a program that counts: experiment
def counting(numbers, letters, before):
    """Predicts by what followed the last letters, up to ``before`` of them, as chapter 01's counts."""

    def contexts(x):
        """The last 0, 1, 2, ... letters up to each place of x (B, n), as one number; -1: too few."""
        code = np.zeros_like(x)
        yield code
        for n in range(before):
            earlier = np.pad(code, ((0, 0), (1, 0)), constant_values=-(n > 0))[:, :-1]
            code = np.where(earlier < 0, -1, letters * earlier + x)
            yield code

    tables = []
    for code in contexts(numbers[None, :-1]):
        known, which = np.unique(code[0], return_inverse=True)
        after = np.zeros((len(known), letters))
        np.add.at(after, (which, numbers[1:]), 1)
        tables.append((known, after))

    def predict(windows):
        p = np.full((*windows.shape, letters), 1 / letters)
        for code, (known, after) in zip(contexts(windows), tables, strict=True):
            at = np.searchsorted(known, code).clip(max=len(known) - 1)
            seen = after[at] * ((known[at] == code) & (code >= 0))[..., None]
            kinds = (seen > 0).sum(-1, keepdims=True)
            mixed = (seen + kinds * p) / np.maximum(seen.sum(-1, keepdims=True) + kinds, 1)
            p = np.where(kinds > 0, mixed, p)
        return np.log(p)

    return predict


@lab.experiment(
    "E2",
    text="first edition",
    before=[1],
    most=4_000,
    length=40,
    full=dict(text="tiny Shakespeare", before=[1, 4], most=1_000_000, length=700),
    lacks=partial(lacking, tiny_shakespeare),
)
def letters_counted(text, before, most, length, seed):
    """A program that counts what follows the last letters: its loss, and what it writes."""
    cut = parts(RACED[text]())
    letters = len(cut.letters)
    predict = counting(cut.numbers(cut.training), letters, before)
    choosing, reported = (
        nats_a_letter(predict, cut.numbers(half)[:most], letters) for half in (cut.open, cut.closed)
    )
    rng, wrote = np.random.default_rng(seed), list(cut.numbers("\n"))
    while len(wrote) <= length:
        p = np.exp(2 * predict(np.array([wrote[-before:]]))[0, -1])  # temperature 0.5
        wrote.append(rng.choice(letters, p=p / p.sum()))
    return {
        "nats a letter": reported,
        "nats elsewhere": choosing,
        "nats on the whole tenth": (choosing + reported) / 2,
        "written": "".join(cut.letters[i] for i in wrote).strip(),
    }


pairs = letters_counted.run()

# %% evidence
# A whole race: its loss on the way, and its end
figure, axes = plot.subplots(width=7, height=3.2)
for league, color in zip(whole.best.settings_of("seconds"), plot.COLORS, strict=False):
    rows = whole.best.where(seconds=league)
    plot.spread(
        axes,
        [np.median(moment) for moment in zip(*(row["at"] for row in rows), strict=True)],
        np.array([row["on the way"] for row in rows]),
        label=f"{league} s",
        color=color,
    )
    axes.axvline(0.3 * league, color=color, linewidth=1, linestyle=":")
    begins = dict(color=color, rotation=90, ha="right", va="top", fontsize=8)
    axes.text(0.3 * league, 0.97, "rate falls", transform=axes.get_xaxis_transform(), **begins)
axes.set(xlabel="seconds of the race", ylabel="nats a letter, closed half")
axes.legend(title="league")
plot.show(
    figure,
    alt="The loss on the way of a race in each league, against the seconds that are used. The short race's curve lies below the long "
    "one's from the first common moment on, and ends above its end. Dotted lines at 36 and 180 seconds: the rate begins to fall.",
)
if whole.full:
    ways = {
        league: np.median(whole.full.values("on the way", seconds=league), 0)
        for league in (120, 600)
    }
    ahead = [ways[600][0] - ways[120][4], ways[600][3] - ways[120][19]]
    measured(
        "the short race is ahead by {:.3f} nats at 30 seconds, by {:.3f} at 120".format(*ahead)
    )
whole.table(
    "seconds",
    ["nats a letter", "nats elsewhere", "nats on the whole tenth", "training nats", "steps"],
)
pairs.table("before", ["nats a letter", "nats elsewhere", "nats on the whole tenth"])
whole.holds(
    "the recipe learns, in each league",
    lambda rows: rows.values("nats a letter"),
    below=np.log(len(cut.letters)),
    derived="the logarithm of the number of letters",
)
whole.holds(
    "after 600 seconds the whole tenth costs less than nanoGPT's 1.47",
    lambda rows: rows.values("nats on the whole tenth", seconds=600),
    below=1.47,
    derived="its README",
)
pairs.holds(
    "counting pairs learns, too",
    lambda rows: rows.values("nats a letter", before=1),
    below=np.log(len(cut.letters)),
    derived="the logarithm of the number of letters",
)

# %% [markdown]
# **What to see.** Both curves drop at once, then fall slowly, and at the very end they still fall. Each dotted line marks where a race's rate begins
# to fall. Look at 30 seconds first. Both races still have their full rate, and yet the short one is ahead, by
# 0.08 nats. The dropout of the long one and its longer warm-up are our guess. At 120 seconds the short race is ahead by 0.15. We take it that the
# other half came with its falling rate, as in section 4; but the dropout of the long race is in it, too. At its own end the long race is ahead. (The curves show the closed half, and nothing was chosen by them.)
#
# The open half is much easier than the closed one (in the folded tables it is called *nats elsewhere*). The open half is *The Taming of the Shrew*,
# and the training text ends in that play's beginning. More than half of the closed one is *The Tempest*, of which a program has
# learned nothing. So compare a loss only with another one on the same half.
#
# And what does such a loss read like? Here are four programs on one scale. They learned the same text and write at the same temperature, 0.5:


# %% evidence
# What four programs write, from counting pairs to ten minutes of the race: large
if pairs.full and whole.full:
    programs = {
        "pairs of letters, counted": pairs.full.where(before=1)[0],
        "fives of letters, counted": pairs.full.where(before=4)[0],
        "120 seconds of the race": whole.full.where(seconds=120)[0],
        "600 seconds of the race": whole.full.where(seconds=600)[0],
    }
    for name, row in programs.items():
        nats, written = row["nats on the whole tenth"], row["written"]
        measured(f"{name}: {nats:.2f} nats, as unsure as among {np.exp(nats):.1f} letters")
        large(written if "600" in name else written[:240].rpartition(" ")[0] + " ...")

# %% [markdown]
# After counting pairs a word is an accident (*blind*, *win*). Counting fives makes words, and some that should be ones: *satisfigure*. But it knows no
# more than the last four letters, so nothing goes on for longer. After two minutes there are lines, and somebody speaks, though Autolycus shall
# "speak to wars well the best". After ten, the grammar holds for about a line. Richard and Lady Anne do talk with each other in Shakespeare.
# Then a servingman and Coriolanus walk in from another play, and Angelo from a third, and nobody means anything. (The texts
# were not picked out: they are the first seed's, drawn once.)
#
# Look at the nats once more. From *satisfigure* to verse it is a sixth of a nat, and from two minutes to ten a twentieth. That is hard to see
# in a curve, and easy to hear.
#
# **Is that a fair comparison with nanoGPT?** Its README has 1.47 for this text. Shared are the text, the letters as tokens,
# and the nine tenths to learn from. Three things are not shared. First, the model: nanoGPT's has ten million
# weights, windows of 256 letters and three minutes of a GPU; ours has 0.81 million, windows of 128 and ten minutes of one core. Second, the measure. Its loss is
# an estimate from windows drawn at random from the whole held-out tenth, at its best checkpoint. Ours reads each letter once, at the end; the
# number to put beside it is that of the whole tenth, {{14 whole_race: nats on the whole tenth; seconds=600}}. Third, the purpose: nanoGPT's setting is a first example that runs, and ours
# was tuned for this text. Tuned on it, too: the trials that led to our recipe looked at this whole tenth, before there was a closed
# half. So our number is a little too good, like that of a best checkpoint. It says how far a small model comes today. It does not say who is
# better.
#
# > **E2 · After 600 seconds the whole held-out tenth costs {{14 whole_race: nats on the whole tenth; seconds=600}} nats a letter.** *Our question*: how well
# > does the recipe predict Shakespeare after ten minutes of one core?
# >
# > *Measured*: nats a letter, three seeds, seconds of the race. (The 600 seconds took {{14 whole_race: seconds used; seconds=600}} seconds
# > of processor time, on a busy machine.) Chapter 11's model, after {{11 plays: steps; text=tiny Shakespeare}} steps, which are
# > 550 seconds of the race (ten steps a second), has {{11 plays: nats a character; text=tiny Shakespeare}} on the whole tenth.
#
# | | 120 seconds | 600 seconds |
# | --- | --- | --- |
# | the whole held-out tenth | {{14 whole_race: nats on the whole tenth; seconds=120}} | {{14 whole_race: nats on the whole tenth; seconds=600}} |
# | its open half | {{14 whole_race: nats elsewhere; seconds=120}} | {{14 whole_race: nats elsewhere; seconds=600}} |
# | its closed half | {{14 whole_race: nats a letter; seconds=120}} | {{14 whole_race: nats a letter; seconds=600}} |
# | text that it learned from | {{14 whole_race: training nats; seconds=120}} | {{14 whole_race: training nats; seconds=600}} |
#
# ## 7. Your turn
#
# Copy `baseline.py` or `best.py` from the folder `exercises/14_the_race` (in `my/`, they are yours), change it, and race it:
#
#     python book.py race my/exercises/14_the_race/mine.py
#     python book.py race my/exercises/14_the_race/mine.py --seconds 120
#
# The first time, the text is fetched. Each race writes one small file into the folder `race/`, under a name of its own; nothing is
# overwritten. Put the files of a class into one folder, and
#
#     python book.py race --table FOLDER
#
# prints the table. A program has a place after three races, each with its own seed. It shares the place of the one above if their seeds overlap.
# A program that was changed is a new program. With numbers that are made up it looks like this:

# %% evidence
# The table of a class, of results that are made up
made_up = {"taps": (1.61, 1.62, 1.63), "wider": (1.625, 1.63, 1.65), "deeper": (1.70, 1.71, 1.72)}
results = [
    dict(program=name, code="0000", nats={"closed": nats}, seed=i, league=40, steps=400, lines=99)
    for name, losses in [*made_up.items(), ("lucky", (1.58,))]
    for i, nats in enumerate(losses)
]
print(table(results))

# %% [markdown]
# The seeds of the first two overlap: they share a place, whatever their medians say. *Lucky* has one seed, and no place yet.
#
# All rules stand at the top of `textbook/race/judge.py`, and they are few. The judge catches mistakes, not malice: the text
# is public, and whoever wants to cheat can.
#
# What could you try? These trials stand behind the recipe, single races of 40 seconds (hints, no findings). The right column is open:
#
# | tried | not tried |
# | --- | --- |
# | width 192: slower and far behind | three blocks, or six |
# | a batch of 8: no change | longer windows, growing windows |
# | Muon at twice the rate: no change | the mean of the weights at the end, a tied read-out |
# | a learned table of pairs of letters: no change | pieces of words, gated networks, other dropout, Muon for the embedding |
#
# > **Today.** Public races find ideas faster than papers do. In the *speedrun* of GPT-2 (Jordan and others, since 2024) the loss
# > is fixed, and the time on eight GPUs counts. It began at 45 minutes. Early in January 2025 it stood at 3.4, with six of our nine ideas:
# > rotary positions, query-key norm, RMS norm without weights, squared ReLU, zero starts and Muon. Muon has left the race since: Kimi K2, a model of a trillion weights,
# > was trained with a variant of it (2025), and PyTorch has `torch.optim.Muon`. No exercise of the book asks for it; this race does.
#
# ## Summary
#
# - A fair race fixes text, time, and judge. Choose on one half, report on the other.
# - Time is counted in reference steps, so machines can be compared.
# - The fast recipe is the old one with nine changes. Six of them stand in earlier chapters.
# - Muon moves a matrix about equally far in every direction. A polynomial does it, by products alone.
# - A curve falls most when its rate falls, so compare runs at their ends.
# - Take one idea out at a time, at equal time, with five seeds: then you know what an idea is worth *in this recipe*.
#
# **Exercises**: the three [projects](#Projects) below.
#
# **Read on**: Jordan et al. (2024), *Muon: an optimizer for hidden layers in neural networks*, and the README of the
# *speedrun* of GPT-2 (modded-nanogpt), a race with its whole history. So et al. (2021), *Primer: searching for efficient transformers for
# language modeling* (squared ReLU, and a small convolution after queries, keys and values). Peng et al. (2023), *RWKV: reinventing RNNs for the Transformer era* (token shift). Henry et al. (2020),
# *Query-key normalization for transformers*. Su et al. (2021), *RoFormer* (rotary positions). Bachlechner et al. (2021), *ReZero is all
# you need* (a zero start by a gate). Karpathy (2022), *nanoGPT*.
#
# ## Projects
#
# Three projects in place of ten exercises. Each takes an afternoon, alone or in pairs, and ends with two pages and one
# figure. The marks are for what you can show, not for your place in the race.
#
# ### 1. One idea of your own
#
# *Goal: change one thing in `best.py`, and say whether it helps.* Write down first what you expect and why. Then race both programs with five seeds in the
# league of 40 seconds. Choose on the open half, report on the closed one, with `textbook.lab.finding`. `book.py race` draws its
# seeds itself. For equal seeds race in a notebook, after this chapter's imports:
#
#     from runpy import run_path
#
#     cut = parts(tiny_shakespeare())
#     predict = run_path("best.py")["train"](cut.training, cut.letters, seed=1, clock=Clock(40))
#     print(nats_a_letter(predict, cut.numbers(cut.open), len(cut.letters)))
#
# | points | for |
# | --- | --- |
# | 4 | the idea is told in three sentences, with the trouble that it answers, before any number |
# | 6 | both programs got equal time, equal seeds and equal care; a rate that the idea needs was searched for both |
# | 6 | the verdict follows from the numbers, by the book's rule; "it does not help" is as good as "it helps" |
# | 4 | one figure that shows the seeds, and what you would try next |
#
# ### 2. Does it last?
#
# *Goal: find out whether the order at 40 seconds is the order at 120.* Race the whole recipe, and the recipe without
# each of three ideas, in both leagues, with three seeds each: `raced` takes the ideas (24 races, 32 minutes of the race).
#
# | points | for |
# | --- | --- |
# | 4 | a prediction for each idea, written down beforehand |
# | 6 | a figure with the league on its axis and every seed as a mark |
# | 6 | an answer that separates "helps at the start" from "helps" |
# | 4 | a sentence on what three seeds can and cannot tell |
#
# ### 3. Another text
#
# *Goal: is it a recipe for Shakespeare, or for letters?* Run `raced` on another text of about a million letters that you may
# use: another author, another language, a program's source. Compare the recipe with chapter 11's model there (`train` of `baseline.py`), and show samples of both.
#
# | points | for |
# | --- | --- |
# | 4 | where the text comes from, how it was cut, and that no part of the held-out text also stands in the training text |
# | 6 | recipe and baseline beside a 5-gram of counts (chapter 01), at equal time, three seeds |
# | 6 | what differs from Shakespeare, and one guess why, tried in one more race |
# | 4 | two samples, one that was chosen and one that was not, and which is which |
